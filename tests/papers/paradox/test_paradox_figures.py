"""Figures of the paradox: what is drawn is what the tables say."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection
from matplotlib.markers import MarkerStyle

from biaslab.papers.paradox import figures

NAN = float("nan")


# Corners of a marker's outline, and which marker that is.
MARKERS = {len(MarkerStyle(marker).get_path().vertices): marker for marker in "oXs"}


def points(ax):
    """Return where markers stand, and which they are."""
    dots = [c for c in ax.collections if isinstance(c, PathCollection) and len(c.get_offsets())]
    lines = [line for line in ax.lines if line.get_marker() not in ("", "None", "none")]
    drawn = [(c.get_offsets(), MARKERS.get(len(c.get_paths()[0].vertices))) for c in dots]
    drawn += [(line.get_xydata(), line.get_marker()) for line in lines]
    return {(round(x, 6), round(y, 6)): mark for at, mark in drawn for x, y in at if np.isfinite(x + y)}


def names(ax):
    return [t.get_text() for t in ax.get_yticklabels()]


def share_row(occupation, training, generated, excluded="", **limits):
    row = {"occupation": occupation, "percent_training": training, "percent_generated": generated}
    sides = ("training_low", "training_high", "generated_low", "generated_high")
    return row | {"excluded": excluded, "prompt": "1", "model": "M"} | dict.fromkeys(sides, NAN) | limits


def test_shares_lie_where_they_are():
    limits = {"training_low": 70.0, "training_high": 90.0, "generated_low": 80.0, "generated_high": 100.0}
    rows = [share_row("a", 0, 100, "opposite_lean"), share_row("b", 20, 10)]
    rows += [share_row("c", 80, 90, prompt="2", **limits), share_row("d", NAN, 3, prompt="2")]
    first, second = (ax for ax in figures.shares(pd.DataFrame(rows)).axes if ax.axison)
    # Left out by the published rule has another mark; on the edge it is drawn whole.
    assert points(first) == {(0, 100): "X", (20, 10): "o"} and first.get_xlim() == (-2, 102)
    # An occupation without a share has no point, and is not taken for 0.
    assert (80, 90) in points(second) and not any(y == 3 for _, y in points(second))
    assert {t.get_text() for t in first.texts} == {"a", "b"}


def test_panels_are_named_by_what_differs():
    rows = pd.DataFrame([share_row("a", 30, 20, approach=a) for a in ("naive", "nearest")])
    heads = [ax.get_title(loc="left") for ax in figures.shares(rows, ["model", "approach"]).axes]
    assert heads == ["M, All captions (naive)", "M, Nearest captions"]


@pytest.fixture
def amplified():
    row = {"model": "M", "definition": "published", "prompt": "mean", "ci_low": 1.0, "ci_high": 5.0}
    rows = [
        row | {"approach": "nearest", "amplification": 1.5, "amplification_plain": 1.5, "ci_low": NAN},
        row | {"approach": "naive", "amplification": 3.0, "amplification_plain": 3.5},
        row | {"approach": "naive", "prompt": "1", "amplification": 2.0, "amplification_plain": 3.5},
    ]
    return pd.DataFrame(rows)


def test_approaches_stand_in_their_order_and_on_their_line(amplified):
    (ax,) = figures.by_approach(amplified).axes
    assert names(ax) == ["All captions (naive)", "Nearest captions"]
    # The mean of prompts, not single ones; each in the middle of its row.
    assert set(points(ax)) == {(3, 0), (1.5, 1)}
    hollow = [line.get_markerfacecolor() for line in ax.lines if len(line.get_xdata()) == 1]
    assert "white" in hollow


def test_definitions_stand_beside_one_another(amplified):
    rows = pd.concat(
        [
            amplified.tail(2),
            amplified.tail(2).assign(definition="directional", amplification=-1.0, ci_low=-2.0),
        ]
    )
    (ax,) = figures.by_definition(rows).axes
    assert names(ax) == ["Mean of prompts", "Prompt 1"]
    assert {x for x, _ in points(ax)} == {3, 2, -1} and ax.get_xlim()[0] < -0.9
    # Names of rows stand once beside panels of the same rows.
    first, second = figures.by_definition(pd.concat([rows, rows.assign(model="N")])).axes
    assert names(first) == ["Mean of prompts", "Prompt 1"] and names(second) == []


def test_changes_by_definition_and_reference():
    row = {"model": "mini", "prompt": "mean", "definition": "published", "ci_low": -8.0, "ci_high": -4.0}
    rows = [
        row | {"approach": "nearest", "reference": "naive", "change": -6.0},
        row | {"approach": "nearest", "reference": "naive", "change": -2.0, "prompt": "1"},
        row
        | {"approach": "paraphrased", "reference": "caption_prompts", "prompt": "captions", "change": 1.0},
    ]
    (ax,) = figures.changes(pd.DataFrame(rows)).axes
    assert names(ax) == ["Nearest captions", "Paraphrased captions\nless: captions as prompts"]
    # Single prompts are in the table, not in the figure.
    assert set(points(ax)) == {(-6, 0), (1, 1)}


def test_occupations_that_change_most_stand_on_their_side():
    rows = pd.DataFrame(
        [
            {"occupation": o, "directional": v, "excluded": e}
            for o, values, e in (("a", (9, 11), ""), ("b", (-6, -2), "opposite_lean"), ("c", (1, 1), ""))
            for v in values
        ]
    )
    along, against = figures.signed_changes(rows, most=1).axes
    assert names(along) == ["a"] and names(against) == ["b"]
    assert (10, 0) in points(along) and (-4, 0) in points(against)


def test_variation_is_drawn_over_noise():
    variation = pd.DataFrame(
        {"model": "M", "occupation": ["a", "b"], "sd_prompts": [5.0, 20.0], "sd_noise": [2.0, 3.0]}
    )
    shares = pd.DataFrame(
        [
            (o, s, p, v)
            for o, training, made in (("a", 30, (20, 30)), ("b", 60, (40, 80)))
            for s, p, v in (
                ("training", "captions", training),
                *zip(["generated"] * 2, "12", made, strict=True),
            )
        ],
        columns=["occupation", "source", "prompt", "percent_female"],
    )
    (ax,) = figures.variation(variation, shares).axes
    # Prompts stand a little above one another in their occupation's row.
    assert names(ax) == ["b", "a"] and {(x, round(y)) for x, y in points(ax)} == {
        (40, 0),
        (80, 0),
        (20, 1),
        (30, 1),
    }
    assert {30, 60} <= {float(x) for c in ax.collections for line in c.get_segments() for x in line[:, 0]}
    bar = ax.patches[0]
    # Noise of one of two shares around their mean of 60: 3 times the root of 2, twice to either side.
    assert (bar.get_x(), bar.get_width()) == pytest.approx((60 - 6 * 2**0.5, 12 * 2**0.5))
    (ax,) = figures.variation_and_noise(variation).axes
    assert sorted(x for x, _ in points(ax)) == [5, 20]


def test_captions_found_are_drawn_from_many_to_few():
    counts = {"n_captions": [0, 900, 4000], "n_candidates": [0, 900, 1000], "n_sampled": [0, 200, 200]}
    (ax,) = figures.captions_found(pd.DataFrame({"occupation": ["poet", "nurse", "cook"]} | counts)).axes
    assert names(ax) == ["cook", "nurse", "poet"]
    # None at all stands at the left end of the scale, which has no 0.
    assert ax.get_xscale() == "log" and ax.get_xlim()[0] == 0.7 and (0.7, 2) in points(ax)


def test_long_lists_stand_in_two_columns():
    found = pd.DataFrame(
        {"occupation": [f"o{k:02d}" for k in range(31)], "n_captions": 10, "n_candidates": 5}
    )
    left, right = figures.captions_found(found.assign(n_sampled=2)).axes
    assert [len(names(ax)) for ax in (left, right)] == [16, 15]
    assert names(left) + names(right) == found["occupation"].tolist()


def outcome(source, approach, prompt, name, n, n_images):
    row = {"model": "mini", "source": source, "approach": approach, "prompt": prompt, "outcome": name}
    return row | {"n": n, "n_images": n_images, "percent": 100 * n / n_images}


def test_outcomes_fill_their_bars():
    rows = [
        outcome("generated", "naive", "1", "judged", 9, 10),
        outcome("generated", "naive", "1", "no_face", 1, 10),
        outcome("generated", "naive", "1", "blocked", 0, 10),
        outcome("training", "nearest", "2", "judged", 3, 4),
        outcome("training", "nearest", "2", "uncertain", 1, 4),
        outcome("training", "naive", "captions", "judged", 1000, 2000),
        outcome("training", "naive", "captions", "no_face", 1000, 2000),
    ]
    figure = figures.outcomes(pd.DataFrame(rows))
    (ax,) = figure.axes
    assert names(ax) == [
        "training: all captions (naive) (n = 2,000)",
        "training: nearest captions, prompt 2 (n = 4)",
        "generated: prompt 1 (n = 10)",
    ]
    widths = np.zeros(3)
    for bar in ax.patches:
        widths[round(bar.get_y() + bar.get_height() / 2)] += bar.get_width()
    assert widths.tolist() == [100, 100, 100]
    # What never occurred needs no place in the legend.
    assert [t.get_text() for t in figure.legends[0].get_texts()] == [
        "judged female or male",
        "judge not sure",
        "no face",
    ]


@pytest.fixture
def indicators():
    return pd.DataFrame(
        {
            "corpus": "mini",
            "occupation": ["nurse", "cook", "pilot", "poet"],
            "n": 100,
            "percent_female_indicator": [10.0, 20, 30, 5],
            "percent_male_indicator": [30.0, 20, 10, 5],
            "percent_both": [2.0, 1, 0, 5],
            "percent_female": [90.0, 60, 20, NAN],
            "n_judged": [80, 80, 80, 0],
            "percent_any_of_female": [15.0, 30, 70, NAN],
            "percent_any_of_male": [65.0, 45, 25, NAN],
        }
    )


def test_indicators_of_each_gender_count_captions_with_both(indicators):
    row = {"counted": "any", "r": -0.9, "ci_low": -0.99, "ci_high": 0.2, "n": 3}
    correlation = pd.DataFrame([row | {"gender": "female"}, row | {"gender": "male", "r": NAN}])
    female, male = figures.indicator_correlation(indicators, correlation).axes
    assert set(points(female)) == {(90, 12), (60, 21), (20, 30)}
    assert set(points(male)) == {(10, 32), (40, 21), (80, 10)}


def test_use_of_indicators_by_perceived_gender(indicators):
    (ax,) = figures.indicator_use(indicators).axes
    # Women are rarer among pilots; a poet's images show nobody.
    assert points(ax) == {(25, 70): "o", (45, 30): "s", (65, 15): "s"}


def test_one_occupation_with_and_without_indicators():
    row = {
        "model": "mini",
        "occupation": "engineer",
        "percent_female": 20.0,
        "ci_low": 10.0,
        "ci_high": 30.0,
        "n": 40,
    }
    training = row | {"source": "training", "approach": "naive", "prompt": "captions"}
    rows = [
        training,
        training | {"approach": "no_indicators", "percent_female": 8.0},
        training | {"approach": "nearest", "percent_female": 5.0, "prompt": "1"},
        row | {"source": "generated", "approach": "naive", "prompt": "2", "percent_female": 9.0, "n": 12},
        training | {"model": "SD 1.4"},
    ]
    (ax,) = figures.occupation_shares(pd.DataFrame(rows), "engineer").axes
    assert names(ax) == [
        "training: all captions (n = 40)",
        "training: no indicators (n = 40)",
        "generated: prompt 2 (n = 12)",
    ]
    assert set(points(ax)) == {(20, 0), (8, 1), (9, 2)}
    assert not points(figures.occupation_shares(pd.DataFrame(rows), "poet").axes[0])


def test_means_and_shares_stand_beside_the_papers():
    row = {"model": "mini", "prompt": "mean", "compared": "text", "ci_low": 0.35, "ci_high": 0.45}
    means = [
        row | {"approach": "naive", "similarity": 0.4, "published": 0.385},
        row | {"approach": "nearest", "similarity": 0.8, "published": NAN},
        row | {"approach": "nearest", "similarity": NAN, "published": NAN, "compared": "image"},
    ]
    (ax,) = figures.similarity(pd.DataFrame(means)).axes
    assert names(ax) == ["All captions (naive)", "Nearest captions"] and set(points(ax)) == {
        (0.4, 0),
        (0.8, 1),
    }
    row = {"model": "mini", "approach": "caption_prompts", "ci_low": 96.2, "ci_high": 99.0, "published": NAN}
    followed = [
        row | {"indicator": "all", "against": "training image", "percent": 98.0, "published": 98.41},
        row | {"indicator": "all", "against": "indicator", "percent": 97.0},
        row | {"indicator": "male", "against": "indicator", "percent": NAN, "ci_low": NAN, "ci_high": NAN},
    ]
    (ax,) = figures.word_accuracy(pd.DataFrame(followed)).axes
    assert names(ax) == ["Captions as prompts: all indicators", "Captions as prompts: male indicators"]
    assert {x for x, _ in points(ax)} == {98, 97} and ax.get_xlim()[0] == 94


def test_what_is_empty_says_so():
    none = pd.DataFrame(columns=["excluded"])
    for draw in (
        figures.shares,
        figures.by_definition,
        figures.by_approach,
        figures.changes,
        figures.outcomes,
    ):
        assert "no measurements" in draw(none).axes[0].texts[0].get_text()
