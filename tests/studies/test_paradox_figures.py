"""Figures of the paradox: what is drawn is what the tables say."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection, PathCollection

from biaslab.figures import paradox as figures
from biaslab.figures import paradox_pipeline as pipeline

mpl.use("Agg")
NAN = float("nan")


def drawn_points(ax):
    return sorted(tuple(p) for c in ax.collections if isinstance(c, PathCollection) for p in c.get_offsets())


def line_with(ax, label):
    (line,) = [one for one in ax.lines if one.get_label() == label]
    return line


def title(ax):
    return ax.get_title(loc=mpl.rcParams["axes.titlelocation"])


def legend_of(figure):
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def share_row(occupation, training, generated, excluded="", **limits):
    row = {"occupation": occupation, "percent_training": training, "percent_generated": generated}
    names = ("training_low", "training_high", "generated_low", "generated_high")
    return row | {"excluded": excluded} | dict.fromkeys(names, NAN) | limits


def test_panels_of_shares():
    first = pd.DataFrame([share_row("a", 0, 100, "opposite_lean"), share_row("b", 20, 10)])
    second = pd.DataFrame(
        [share_row("c", 80, 90, generated_low=70, generated_high=95), share_row("d", NAN, 3)]
    )
    figure = figures.share_panels({"one": first, "two": second, "three": second.iloc[:0]})
    axes = [ax for ax in figure.axes if ax.get_visible()]
    assert [title(ax) for ax in axes] == ["one", "two", "three"]
    assert drawn_points(axes[0]) == [(0, 100), (20, 10)]
    # An occupation without a share has no point, and is not taken for 0.
    assert drawn_points(axes[1]) == [(80, 90)] and drawn_points(axes[2]) == []
    segments = [
        s.tolist() for c in axes[1].collections if isinstance(c, LineCollection) for s in c.get_segments()
    ]
    assert [[80, 70], [80, 95]] in segments
    # Points on the edge are drawn whole.
    assert axes[0].get_xlim() == axes[0].get_ylim() == (-2, 102)
    assert {t.get_text() for t in axes[0].texts} == {"a", "b"}
    assert legend_of(figure)[0] == "amplified"


@pytest.mark.parametrize(("n", "lines", "columns"), [(1, 1, 1), (2, 1, 2), (3, 1, 3), (4, 2, 2)])
def test_panels_have_room(n, lines, columns):
    rows = pd.DataFrame([share_row("a", 30, 20)])
    figure = figures.share_panels({str(k): rows for k in range(n)})
    assert figure.axes[0].get_gridspec().get_geometry() == (lines, columns)
    assert sum(ax.get_visible() for ax in figure.axes) == n


def test_models_have_the_headings_given():
    row = {"approach": "naive", "definition": "published", "prompt": "mean", "amplification": 3.0}
    row |= {"amplification_plain": 3.5, "ci_low": 1.0, "ci_high": 5.0}
    rows = pd.DataFrame([row | {"model": m} for m in ("mini", "SD 1.4")])
    for draw in (figures.by_definition, figures.by_approach):
        assert [title(ax) for ax in draw(rows, {"mini": "mini\nguidance 3"}).axes] == [
            "mini\nguidance 3",
            "SD 1.4",
        ]


def test_captions_found_are_drawn_from_many_to_few():
    found = pd.DataFrame(
        {
            "occupation": ["poet", "nurse", "cook"],
            "n_captions": [0, 900, 4000],
            "n_candidates": [0, 900, 1000],
            "n_sampled": [0, 200, 200],
        }
    )
    figure = pipeline.captions_found(found)
    (ax,) = figure.axes
    assert [t.get_text() for t in ax.get_yticklabels()] == ["cook", "nurse", "poet"]
    # None at all stands at the left end of the scale, which has no 0.
    assert line_with(ax, "name the occupation").get_xdata().tolist() == [4000, 900, 0.7]
    assert line_with(ax, "taken at random").get_xdata().tolist() == [200, 200, 0.7]
    assert ax.get_xscale() == "log" and ax.get_xlim()[0] == 0.7


def test_long_lists_stand_in_two_columns():
    found = pd.DataFrame(
        {"occupation": [f"o{k:02d}" for k in range(31)], "n_captions": 10, "n_candidates": 5}
    )
    left, right = pipeline.captions_found(found.assign(n_sampled=2)).axes
    names = [[t.get_text() for t in ax.get_yticklabels()] for ax in (left, right)]
    assert list(map(len, names)) == [16, 15] and names[0] + names[1] == [f"o{k:02d}" for k in range(31)]
    assert left.get_ylim() == right.get_ylim()


def outcome(source, approach, prompt, name, n, n_images):
    row = {"model": "mini", "source": source, "approach": approach, "prompt": prompt, "outcome": name}
    return row | {"n": n, "n_images": n_images, "percent": 100 * n / n_images}


def test_outcomes_fill_their_bars():
    rows = pd.DataFrame(
        [
            outcome("generated", "naive", "1", "judged", 9, 10),
            outcome("generated", "naive", "1", "no_face", 1, 10),
            outcome("generated", "naive", "1", "blocked", 0, 10),
            outcome("training", "nearest", "2", "judged", 3, 4),
            outcome("training", "nearest", "2", "uncertain", 1, 4),
            outcome("training", "nearest", "2", "blocked", 0, 4),
            outcome("training", "naive", "captions", "judged", 1000, 2000),
            outcome("training", "naive", "captions", "no_face", 1000, 2000),
            outcome("training", "naive", "captions", "blocked", 0, 2000),
        ]
    )
    figure = pipeline.outcomes(rows)
    (ax,) = figure.axes
    assert [t.get_text() for t in ax.get_yticklabels()] == [
        "training: all captions (naive) (n = 2,000)",
        "training: nearest captions, prompt #2 (n = 4)",
        "generated: prompt #1 (n = 10)",
    ]
    widths = np.zeros(3)
    for bar in ax.patches:
        widths[round(bar.get_y() + bar.get_height() / 2)] += bar.get_width()
    assert widths.tolist() == [100, 100, 100]
    # What never occurred needs no place in the legend.
    assert legend_of(figure) == ["judged female or male", "judge not sure", "no face"]
    assert [t.get_text() for t in ax.texts] == ["50.0 %", "75.0 %", "90.0 %"]


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


def test_indicator_bars_end_at_any_indicator(indicators):
    figure = pipeline.indicator_shares(indicators)
    (ax,) = figure.axes
    # From few women to many; without a share last.
    assert [t.get_text() for t in ax.get_yticklabels()] == ["pilot", "cook", "nurse", "poet"]
    ends = np.zeros(4)
    for bar in ax.patches:
        ends[round(bar.get_y() + bar.get_height() / 2)] += bar.get_width()
    assert ends.tolist() == [40, 41, 42, 15]
    assert legend_of(figure) == [
        "images perceived as female",
        "captions with female indicators",
        "captions with indicators of both",
        "captions with male indicators",
    ]


def test_indicators_of_each_gender_count_captions_with_both(indicators):
    row = {"counted": "any", "r": -0.9, "ci_low": -0.99, "ci_high": 0.2, "n": 3}
    correlation = pd.DataFrame([row | {"gender": "female"}, row | {"gender": "male", "r": NAN}])
    female, male = pipeline.indicator_correlation(indicators, correlation).axes
    assert female.lines[0].get_xydata().tolist() == [[90, 12], [60, 21], [20, 30]]
    assert male.lines[0].get_xydata().tolist() == [[10, 32], [40, 21], [80, 10]]
    assert title(female) == "r = -0.90 (-0.99 to 0.20), n = 3" and title(male) == "no correlation (n = 3)"
    # 30 of 100 has the highest upper limit: about 39.6 (Wilson); 32 of 100 in the other panel 41.7.
    assert female.get_ylim()[1] == pytest.approx(1.03 * 41.67, abs=0.05)


def test_use_of_indicators_by_perceived_gender(indicators):
    (ax,) = pipeline.indicator_use(indicators).axes
    female = line_with(ax, "images perceived as female").get_xdata()
    np.testing.assert_array_equal(female, [70, 30, 15, NAN])
    np.testing.assert_array_equal(line_with(ax, "images perceived as male").get_xdata(), [25, 45, 65, NAN])


def test_one_occupation_with_and_without_indicators():
    row = {"model": "mini", "percent_female": 20.0, "ci_low": 10.0, "ci_high": 30.0, "n": 40}
    rows = pd.DataFrame(
        [
            row | {"source": "training", "approach": "naive", "prompt": "captions"},
            row
            | {
                "source": "training",
                "approach": "no_indicators",
                "prompt": "captions",
                "percent_female": 8.0,
            },
            row | {"source": "generated", "approach": "naive", "prompt": "2", "percent_female": 9.0, "n": 12},
        ]
    )
    (ax,) = pipeline.occupation_shares(rows, "engineer").axes
    names = [t.get_text() for t in ax.get_yticklabels()]
    assert names == ["training: all captions", "training: no indicators", "generated: prompt #2"]
    marks = [line.get_xydata().tolist() for line in ax.lines if line.get_marker() in ("o", "s")]
    assert [m for m in marks if m] == [[[20, 0]], [[8, 1]], [[9, 2]]]
    assert [t.get_text() for t in ax.texts] == ["n = 40", "n = 40", "n = 12"]


def test_similarities_are_averaged_over_prompts():
    measured = pd.DataFrame(
        [
            ("mini", a, p, o, text, NAN)
            for a, p, o, text in [
                ("naive", "1", "nurse", 0.3),
                ("naive", "2", "nurse", 0.5),
                ("naive", "1", "cook", 0.4),
                ("nearest", "1", "nurse", 0.8),
            ]
        ],
        columns=["model", "approach", "prompt", "occupation", "text_similarity", "image_similarity"],
    )
    row = {"model": "mini", "prompt": "mean", "compared": "text", "ci_low": 0.35, "ci_high": 0.45}
    means = pd.DataFrame(
        [
            row | {"approach": "naive", "similarity": 0.4, "published": 0.385},
            row | {"approach": "nearest", "similarity": 0.8, "published": NAN, "ci_low": NAN, "ci_high": NAN},
        ]
    )
    figure = pipeline.similarity(measured, means)
    text = figure.axes[0]
    small = [
        line.get_xdata().tolist() for line in text.lines if line.get_marker() == "|" and len(line.get_xdata())
    ]
    # Cook 0.4; nurse (0.3 + 0.5) / 2.
    assert small == [[0.4, 0.4], [0.8]]
    np.testing.assert_array_equal(line_with(text, "stated by the paper (LAION)").get_xdata(), [0.385, NAN])
    filled = [line for line in text.lines if line.get_markersize() == 7 and line.get_marker() == "o"]
    # A mean without an interval is hollow.
    assert [line.get_markerfacecolor() for line in filled] == ["#222222", "white"]
    assert "mean with interval" in legend_of(figure)


def test_accuracy_beside_the_papers():
    row = {"model": "mini", "approach": "caption_prompts", "ci_low": 96.2, "ci_high": 99.0, "published": NAN}
    rows = pd.DataFrame(
        [
            row | {"indicator": "all", "against": "training image", "percent": 98.0, "published": 98.41},
            row | {"indicator": "all", "against": "indicator", "percent": 97.0},
            row
            | {"indicator": "male", "against": "indicator", "percent": NAN, "ci_low": NAN, "ci_high": NAN},
        ]
    )
    figure = pipeline.word_accuracy(rows)
    (ax,) = figure.axes
    names = [t.get_text() for t in ax.get_yticklabels()]
    assert names == ["Captions as prompts: all indicators", "Captions as prompts: male indicators"]
    own = line_with(ax, "generated image has the gender of the caption's own image")
    assert own.get_xdata().tolist() == [98.0]
    np.testing.assert_array_equal(line_with(ax, "stated by the paper (SD 1.4)").get_xdata(), [98.41, NAN])
    assert ax.get_xlim()[0] == 94


def test_changes_by_definition_and_reference():
    row = {"model": "mini", "prompt": "mean", "definition": "published", "ci_low": -8.0, "ci_high": -4.0}
    rows = pd.DataFrame(
        [
            row | {"approach": "nearest", "reference": "naive", "change": -6.0},
            row | {"approach": "nearest", "reference": "naive", "change": -2.0, "prompt": "1"},
            row
            | {
                "approach": "paraphrased",
                "reference": "caption_prompts",
                "prompt": "captions",
                "change": 1.0,
            },
        ]
    )
    figure = pipeline.changes(rows)
    (ax,) = figure.axes
    names = [t.get_text() for t in ax.get_yticklabels()]
    assert names == ["Nearest captions", "Paraphrased captions\nless: captions as prompts"]
    # Single prompts are in the table, not in the figure.
    assert line_with(ax, "published rule (same lean only)").get_xdata().tolist() == [-6, 1]
