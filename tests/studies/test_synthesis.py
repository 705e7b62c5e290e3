"""The specification curve contains the known specifications, and its corrections do what they say."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from biaslab.errors import ParameterError
from biaslab.figures import synthesis as figures
from biaslab.studies import synthesis
from biaslab.study import Study

mpl.use("Agg")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return Study(tmp_path_factory.mktemp("synthesis"), seed=1, bootstrap_replicates=400)


@pytest.fixture(scope="module")
def curve(study):
    return study.table("synthesis_specification_curve")


def test_every_combination_stands_once(curve):
    # 2 models x 5 prompts (with their mean) x 5 rules x 4 corrections.
    assert len(curve) == 200
    keys = ["model", "approach", "prompt", "exclusion", "measure", "correction"]
    assert not curve.duplicated(keys).any()
    assert curve["amplification"].is_monotonic_increasing


@pytest.mark.parametrize(
    ("exclusion", "measure", "definition"),
    [
        ("same_lean", "distance", "published"),
        ("none", "distance", "no_exclusion"),
        ("none", "directional", "directional"),
    ],
)
def test_the_three_definitions_are_among_them(study, curve, exclusion, measure, definition):
    some = curve[
        (curve["exclusion"] == exclusion) & (curve["measure"] == measure) & (curve["correction"] == "none")
    ]
    known = study.table("paradox_amplification").query("definition == @definition and approach == 'naive'")
    both = some.merge(known, on=["model", "prompt"], suffixes=("", "_known"))
    assert len(both) == 10
    np.testing.assert_allclose(both["amplification"], both["amplification_known"])
    np.testing.assert_array_equal(both["n_occupations"], both["n_occupations_known"])
    # Two bootstraps of the same study: limits agree to a fraction of the interval.
    assert (both["ci_low"] - both["ci_low_known"]).abs().max() < 1.5


def test_judge_error_stretches_every_distance(curve):
    wide = curve.pivot(
        index=["model", "prompt", "exclusion", "measure"], columns="correction", values="amplification"
    )
    # 98 % right for either gender: p' = (p - 0.02) / 0.96.
    np.testing.assert_allclose(wide["judge"], wide["none"] / 0.96)
    np.testing.assert_allclose(wide["floor_and_judge"], wide["floor"] / 0.96)


def test_the_floor_correction_finds_no_bias_where_there_is_none(tmp_path):
    # Known truth: a fair model and fair training data; 9 generated and 100 training images, 400 occupations.
    rng = np.random.default_rng(3)
    rows = []
    for i in range(400):
        rows.append((f"o{i}", "training", "captions", rng.binomial(100, 0.5), 100))
        rows.append((f"o{i}", "generated", "captions", 100 * rng.binomial(9, 0.5) / 9, 9))
    frame = pd.DataFrame(rows, columns=["occupation", "source", "prompt", "percent_female", "n"])
    frame.assign(model="fair", approach="naive").to_csv(tmp_path / "paradox_percent_female.csv", index=False)
    study = Study(tmp_path / "out", source=str(tmp_path), seed=1, bootstrap_replicates=400)
    got = study.table("synthesis_specification_curve")
    got = got[(got["exclusion"] == "none") & (got["measure"] == "distance")].set_index("correction")
    # E|p-50| of a fair share: 13.67 at 9 images, 3.98 at 100, so noise alone gives 9.7 points.
    assert got.loc["none", "amplification"] == pytest.approx(9.7, abs=1.0)
    assert abs(got.loc["floor", "amplification"]) < 3
    assert (
        got.loc["floor", "ci_low"] < 0 < got.loc["floor", "ci_high"]
        or abs(got.loc["floor", "amplification"]) < 2
    )


def test_a_certain_lean_looks_at_training_only(tmp_path):
    rows = [
        ("certain", "training", "captions", 20, 100),
        ("certain", "generated", "captions", 70, 100),
        ("near", "training", "captions", 48, 100),
        ("near", "generated", "captions", 30, 100),
    ]
    frame = pd.DataFrame(rows, columns=["occupation", "source", "prompt", "percent_female", "n"])
    frame.assign(model="M", approach="naive").to_csv(tmp_path / "paradox_percent_female.csv", index=False)
    study = Study(tmp_path / "out", source=str(tmp_path), seed=1, bootstrap_replicates=100)
    got = study.table("synthesis_specification_curve").query("correction == 'none'")
    got = got.set_index(["exclusion", "measure"])["amplification"].to_dict()
    assert got == {
        ("same_lean", "distance"): 18,
        ("certain_lean", "distance"): -10,
        ("certain_lean", "directional"): -50,
        ("none", "distance"): 4,
        ("none", "directional"): -16,
    }


@pytest.mark.parametrize("accuracy", [0.5, 1.01, 0.0])
def test_a_judge_no_better_than_chance_is_refused(study, accuracy):
    with pytest.raises(
        ParameterError, match=f"judge_accuracy is {accuracy}; it must be above 0.5 and at most 1."
    ):
        synthesis.specification_curve(study, judge_accuracy=accuracy)


def test_choice_effects_by_a_plain_loop(study, curve):
    effects = study.table("synthesis_choice_effect").set_index(["choice", "option"])
    single = curve[curve["prompt"] != "mean"]
    values = [
        a for a, e in zip(single["amplification"], single["exclusion"], strict=True) if e == "same_lean"
    ]
    row = effects.loc[("exclusion", "same_lean")]
    assert row["amplification"] == pytest.approx(sum(values) / len(values))
    # They stand for both measures.
    assert (row["lowest"], row["highest"], row["n_specifications"]) == (
        min(values),
        max(values),
        2 * len(values),
    )
    others = [
        a for a, m in zip(single["amplification"], single["measure"], strict=True) if m == "directional"
    ]
    row = effects.loc[("measure", "directional")]
    assert row["amplification"] == pytest.approx(sum(values + others) / len(values + others))
    grid = study.table("synthesis_exclusion_by_measure").set_index(["exclusion", "measure"])["amplification"]
    assert grid["same_lean", "distance"] == grid["same_lean", "directional"] == pytest.approx(np.mean(values))
    # One approach only: it is no choice.
    assert "approach" not in effects.index.get_level_values("choice")


def test_the_finding_counts_the_intervals(curve):
    words = synthesis.headline_curve(curve)
    above = int((curve["ci_low"] > 0).sum())
    assert "Analysed in 200 ways, the same shares" in words and f"above 0 in {above} of them" in words


def test_the_figure_has_a_tick_per_specification_and_choice(curve):
    figure = figures.specification_curve(curve)
    below = figure.axes[1]
    # Exclusion, measure, correction, prompt, model: one tick each per specification.
    assert sum(len(line.get_xdata()) for line in below.lines if line.get_marker() == "|") == 5 * len(curve)
