"""The specification curve contains the known specifications, and its corrections match calculations by hand."""

import numpy as np
import pandas as pd
import pytest

from biaslab import reference
from biaslab.analyses import synthesis
from biaslab.papers import paradox

DRAWS = {"seed": 1, "replicates": 6000, "confidence": 0.95}


@pytest.fixture(scope="module")
def shares():
    return paradox.printed.percent_female()


@pytest.fixture(scope="module")
def curve(shares):
    return synthesis.specification_curve(shares)


@pytest.fixture(scope="module")
def amplification(shares):
    return paradox.amplification(shares, **DRAWS | {"replicates": 2000})


@pytest.mark.long
@pytest.mark.parametrize(
    ("exclusion", "measure", "definition"),
    [
        ("same_direction", "distance", "paper"),
        ("none", "distance", "all"),
        ("none", "signed", "signed"),
    ],
)
def test_specification_curve_contains_three_definitions(amplification, curve, exclusion, measure, definition):
    some = curve[(curve["exclusion"] == exclusion) & (curve["measure"] == measure)]
    some = some.query("correction == 'none' and judge == 'as_judged'")
    reference_rows = amplification.query("definition == @definition and approach == 'naive'")
    both = some.merge(reference_rows, on=["model", "prompt"], suffixes=("", "_known"))
    assert len(both) == 10
    np.testing.assert_allclose(both["estimate"], both["amplification"])
    np.testing.assert_array_equal(both["n_occupations"], both["n_occupations_known"])
    # Student's t over occupations, and a bootstrap of these and their images, freed of noise: a fraction apart.
    assert (both["ci_low"] - both["ci_low_known"]).abs().max() < 1.0


def test_specification_curve_corrects_judge_error_within_0_100(curve):
    # Rogan and Gladen by hand: 98% right for either gender, p = (q - 2) / 0.96, and no share passes 0 or 100.
    wide = reference.load("paradox_table_6").pivot(index="occupation", columns="prompt", values="percent_female")
    true = ((wide - 2) / 0.96).clip(0, 100)
    expected = (np.abs(true["2"] - 50) - np.abs(true["captions"] - 50)).mean()
    keys = ["model", "prompt", "exclusion", "measure", "correction", "judge"]
    got = curve.set_index(keys)["estimate"]
    assert got["SD 1.4", "2", "none", "distance", "none", "paper"] == pytest.approx(expected)
    signed = (np.sign(wide["captions"] - 50) * (true["2"] - true["captions"])).mean()
    assert got["SD 1.4", "2", "none", "signed", "none", "paper"] == pytest.approx(signed)


def test_judge_errors_of_annotations_add_specification():
    # The judge labels 6 of 8 women female and 9 of 10 men male, on images of both sources.
    is_female = [1] * 6 + [0] * 2 + [0] * 9 + [1] + [np.nan]
    image = [f"i{k}" for k in range(len(is_female))]
    annotated_images = pd.DataFrame({"model": "M", "source": "generated", "image_id": image, "is_female": is_female})
    annotated_images = pd.concat(
        [annotated_images, annotated_images.iloc[:3]]
    )  # An image of several prompts counts once.
    label = ["female"] * 8 + ["male"] * 10 + ["female"]
    annotations = pd.DataFrame(
        {"image_model": "", "question": "", "source": "generated", "image_id": image, "label": label}
    )
    errors = synthesis.judge_errors(annotated_images, annotations)
    assert errors == {"M": (0.75, 0.9)}
    assert synthesis.judge_errors(annotated_images, annotations.iloc[:12]) == {}
    rows = [("o", "training", "captions", 60, 100), ("o", "generated", "captions", 40, 100)]
    frame = pd.DataFrame(rows, columns=["occupation", "source", "prompt", "percent_female", "n"])
    got = synthesis.specification_curve(frame.assign(model="M", approach="naive"), errors)
    got = got.query("exclusion == 'none' and correction == 'none' and judge == 'annotated'")
    got = got.set_index("measure")["estimate"]
    # Rogan and Gladen: (60 - 10) / 0.65 and (40 - 10) / 0.65.
    true = 50 / 0.65, 30 / 0.65
    assert got["distance"] == pytest.approx(abs(true[1] - 50) - abs(true[0] - 50))
    assert got["signed"] == pytest.approx(true[1] - true[0])


def test_certain_direction_depends_on_training_only():
    rows = [("certain", "training", "captions", 20, 100), ("certain", "generated", "captions", 70, 100)]
    rows += [("near", "training", "captions", 48, 100), ("near", "generated", "captions", 30, 100)]
    frame = pd.DataFrame(rows, columns=["occupation", "source", "prompt", "percent_female", "n"])
    got = synthesis.specification_curve(frame.assign(model="M", approach="naive"))
    got = got.query("correction == 'none' and judge == 'as_judged'")
    got = got.set_index(["exclusion", "measure"])["estimate"].to_dict()
    assert got == {
        ("same_direction", "distance"): 18,
        ("certain_direction", "distance"): -10,
        ("certain_direction", "signed"): -50,
        ("none", "distance"): 4,
        ("none", "signed"): -16,
    }


def test_specification_curve_figure_has_tick_per_choice(curve):
    figure = synthesis.figures.specification_curve(curve)
    below = figure.axes[1]
    # Exclusion, measure, correction, judge, wording, model: one tick each per specification.
    assert sum(len(line.get_xdata()) for line in below.lines if line.get_marker() == "|") == 6 * len(curve)


def test_curve_answer_counts_intervals(curve):
    (finding,) = synthesis.answers.curve.findings(synthesis.extremes(curve))
    # Without the paper's definition, which excludes flips and so follows the training direction as well.
    signed = curve[curve["measure"] == "signed"]
    above, every = int((signed["ci_low"] > 0).sum()), int((curve["ci_low"] > 0).sum())
    ends = curve["estimate"].min(), curve["estimate"].max()
    answer = f"200 combinations of choices yield {ends[0]:.2f} to {ends[1]:.1f} points."
    assert finding.model == "" and finding.answer == answer
    largest, counts, smallest = finding.details
    assert f"{every - above} of 120" in counts and f"{above} of 80" in counts
    assert largest.startswith(f"Largest: {ends[1]:.1f}") and smallest.startswith(f"Smallest: {ends[0]:.2f}")


def test_exclusion_by_measure_matches_plain_loop(curve):
    grid = synthesis.exclusion_by_measure(curve)
    mean = grid.set_index(["exclusion", "measure"])["estimate"]
    same, every = [], []
    for row in curve[curve["prompt"] != "mean"].itertuples():
        same += [row.estimate] * (row.exclusion == "same_direction")
        every += [row.estimate] * ((row.exclusion, row.measure) == ("none", "signed"))
    assert mean["same_direction", "distance"] == mean["same_direction", "signed"] == pytest.approx(np.mean(same))
    (finding,) = synthesis.answers.flips.findings(grid)
    assert finding.answer.startswith(f"By +{np.mean(same) - np.mean(every):.1f} points, ")
