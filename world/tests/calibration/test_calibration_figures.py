import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection

from biaslab.plots import style
from biaslab_world.calibration import figures, knobs
from biaslab_world.captions import Corpus


def _marks(ax):
    """Return x and y of all marks that stand for themselves."""
    return [
        (float(x), float(y))
        for line in ax.lines
        if line.get_marker() not in (None, "None", "")
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    ]


def _dots(ax):
    """Return where points of a scatter stand, and which are hollow."""
    dots = [c for c in ax.collections if isinstance(c, PathCollection)]
    return {
        tuple(at): tuple(c.get_facecolor()[0][:3]) == (1, 1, 1)
        for c in dots
        for at in c.get_offsets().tolist()
    }


def _legend(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_bars_of_the_confusion_add_up():
    rows = [
        ("all", "female", "female", 90, 100),
        ("all", "female", "male", 0, 100),
        ("all", "female", "uncertain", 7, 100),
        ("all", "female", "no_face", 3, 100),
        ("all", "male", "male", 40, 50),
        ("all", "male", "female", 10, 50),
    ]
    table = pd.DataFrame(rows, columns=["cues", "truth", "judged", "n", "n_images"])
    table["percent"] = 100 * table["n"] / table["n_images"]
    figure = figures.confusion(table)
    (ax,) = figure.axes
    widths = {}
    for bar in ax.patches:
        widths[round(bar.get_y(), 1)] = widths.get(round(bar.get_y(), 1), 0) + bar.get_width()
    assert sorted(widths.values()) == [100, 100]
    assert [t.get_text() for t in ax.texts] == ["90", "10", "40"]
    assert [t.get_text() for t in ax.get_yticklabels()] == [
        "all, shows female (n = 100)",
        "all, shows male (n = 50)",
    ]
    assert _legend(figure) == ["judged female", "judged male", "not sure", "no face"]


def test_accuracy_stands_beside_its_ceiling():
    names = ["cues", "truth", "answers", "accuracy", "ci_low", "ci_high", "n", "n_images", "ceiling"]
    rows = [
        ("all", "all", "judged", 99, 98, 99.5, 190, 200, 99.5),
        ("all", "all", "likelier", 97, 95, 98, 198, 200, 98.5),
        ("all", "female", "judged", 50, 40, 60, 90, 100, np.nan),
    ]
    (ax,) = figures.judge_accuracy(pd.DataFrame(rows, columns=names)).axes
    assert sorted(x for x, _ in _marks(ax)) == [97, 99]
    drawn = {round(float(x), 6) for c in ax.collections for line in c.get_segments() for x in line[:, 0]}
    assert {98.5, 99.5} <= drawn


def test_reliability_draws_bins_that_have_renders():
    names = ["bin", "low", "high", "mean_judge", "mean_ideal", "percent_true", "ci_low", "ci_high", "n"]
    rows = [
        ("0 to 0.5", 0, 0.5, 20, 22, 25, 10, 40, 30),
        ("0.5 to 0.7", 0.5, 0.7, np.nan, np.nan, np.nan, np.nan, np.nan, 0),
        ("0.7 to 1", 0.7, 1, 95, 96, 97, 90, 99, 60),
    ]
    figure = figures.reliability(pd.DataFrame(rows, columns=names))
    (ax,) = figure.axes
    assert sorted(_marks(ax)) == [(20, 22), (95, 96)] and set(_dots(ax)) == {(20, 25), (95, 97)}
    assert {t.get_text() for t in ax.texts} == {"n = 30", "n = 60"}


def test_occupations_with_the_lowest_share_come_first():
    names = ["occupation", "measure", "value", "ci_low", "ci_high", "n"]
    values = {"chef": (99, 98), "pilot": (90, 100), "nurse": (100, 95), "all": (97, 98)}
    rows = [
        (o, measure, value, value - 5, min(value + 2, 100), 50)
        for o, both in values.items()
        for measure, value in zip(("sensitivity", "specificity"), both, strict=True)
    ]
    (ax,) = figures.judge_by_occupation(pd.DataFrame(rows, columns=names)).axes
    assert [t.get_text() for t in ax.get_yticklabels()] == ["all occupations", "pilot", "nurse", "chef"]
    assert {90.0, 100.0, 99.0, 95.0, 98.0, 97.0} == {x for x, _ in _marks(ax)}


def test_shares_whose_interval_misses_the_truth_are_hollow():
    names = [
        "source",
        "skew",
        "approach",
        "occupation",
        "percent_true",
        "percent_female",
        "percent_corrected",
        "corrected_low",
        "corrected_high",
    ]
    rows = [
        ("training", "default", "naive", "nurse", 90, 86, 88, 80, 93),
        ("training", "default", "naive", "chef", 30, 49, 50, 40, 60),
        ("generated", "off", "matched", "chef", 30, 32, 31, 20, 40),
    ]
    figure = figures.shares(pd.DataFrame(rows, columns=names))
    first, second = (ax for ax in figure.axes if ax.axison)
    assert first.get_title(loc="left") == "All captions (naive)"
    assert second.get_title(loc="left").replace("\n", " ") == "World, no model (knobs off)"
    assert _dots(first) == {(90, 88): False, (30, 50): True}
    assert sorted(_marks(first)) == [(30, 49), (90, 86)]


def _amplification():
    names = ["generator", "guidance_scale", "skew", "approach", "definition", "prompt"]
    names += ["amplification_plain", "amplification", "ci_low", "ci_high", "floor", "implied"]
    rows = [
        ("world", np.nan, "default", "naive", "published", "pooled", 8, 7.5, 6, 9, 0.5, 7.8),
        ("mini", 1, "default", "naive", "published", "pooled", 10, 8.5, 5, 12, 1.5, 7.8),
        ("mini", 7.5, "default", "naive", "published", "pooled", 18, 17.5, 15, 20, 0.5, 7.8),
        ("world", np.nan, "default", "naive", "directional", "pooled", 99, 99, 98, 100, 0, 7.8),
        ("world", np.nan, "off", "naive", "published", "pooled", 2, -0.5, -2, 2, 2.5, 0),
    ]
    return pd.DataFrame(rows, columns=names)


def test_amplification_is_drawn_freed_of_its_floor_and_as_measured():
    figure = figures.amplification(_amplification())
    (ax,) = figure.axes
    # Beside one another in the row of their selection, from the top; the floor's and the truth's marks are lines.
    assert [x for x, _ in sorted(_marks(ax), key=lambda mark: mark[1])] == [7.5, 8.5, 17.5, -0.5]
    drawn = {float(x) for c in ax.collections for line in c.get_segments() for x in line[:, 0]}
    assert {8, 10, 18, 2, 7.8, 0} <= drawn and 99 not in drawn
    assert [t.get_text() for t in ax.get_yticklabels()] == [
        "All captions (naive)",
        "All captions (naive)\n(all knobs off)",
    ]
    assert _legend(figure)[:3] == ["world: no model", "mini, guidance 1", "mini, guidance 7.5"]


def test_guidance_is_drawn_on_top_of_measurement_and_model():
    rows = []
    for scale, guidance in ((1, 0.0), (7.5, 6.0)):
        parts = {"measurement": 8.0, "model": 1.0, "guidance": guidance, "total": 9 + guidance}
        rows += [("mini", scale, "naive", p, v, v - 1, v + 1) for p, v in parts.items()]
    table = pd.DataFrame(
        rows, columns=["generator", "guidance_scale", "approach", "part", "change", "ci_low", "ci_high"]
    )
    figure = figures.guidance(table)
    (ax,) = figure.axes
    levels = [line.get_ydata().tolist() for line in ax.lines if line.get_marker() != "None"]
    assert levels == [[9, 15], [9, 9], [8, 8]]
    assert ax.get_title(loc="left") == "All captions (naive)"


def test_contributions_without_an_interval_are_hollow():
    names = ["generator", "approach", "component", "contribution", "ci_low", "ci_high"]
    rows = [
        ("world", "naive", "threshold", 0.5, 0.1, 0.9),
        ("world", "naive", "finite_samples", 1.5, np.nan, np.nan),
        ("mini", "naive", "threshold", -1.0, -2.0, 0.0),
    ]
    figure = figures.contributions(pd.DataFrame(rows, columns=names))
    (ax,) = figure.axes
    hollow = [line for line in ax.lines if line.get_markerfacecolor() == "white" and len(line.get_xdata())]
    assert [line.get_xdata().tolist() for line in hollow] == [[1.5]]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["only sure answers", "few images a share"]
    assert {"mini", "world: no model"} <= set(_legend(figure))


def test_gains_of_each_world():
    rows = [
        (skew, kind, gain) for skew, gain in (("default", 5.0), ("off", 0.0)) for kind in figures.KIND_NAMES
    ]
    table = pd.DataFrame(rows, columns=["skew", "captions", "lean_gain"])
    figure = figures.conditional(table)
    (ax,) = figure.axes
    assert sorted(x for x, _ in _marks(ax)) == [0, 0, 0, 5, 5, 5]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["default: all knobs", "off: no paradox"]


def test_occupations_of_the_world_are_sorted_by_their_share():
    rows = [(o, kind, v) for o, v in (("nurse", 90.0), ("chef", 30.0)) for kind in figures.KIND_NAMES]
    table = pd.DataFrame(rows, columns=["occupation", "captions", "percent_true"])
    first, second = figures.occupations(table).axes
    names = [[t.get_text() for t in ax.get_yticklabels()] for ax in (first, second)]
    assert names == [["chef"], ["nurse"]] and {x for x, _ in _marks(second)} == {90}


def test_captions_stand_below_their_pictures_and_are_no_formulas():
    corpus = Corpus(rows=300)
    chosen = knobs.examples(corpus).head(3)
    chosen.loc[0, "text"] = "a $5 mug"
    figure = figures.captions(corpus, chosen)
    shown = [ax for ax in figure.axes if ax.get_visible()]
    assert len(shown) == 3 and shown[0].get_xlabel().startswith("“a \\$5 mug”\nstyle: ")
    assert (np.asarray(shown[0].images[0].get_array()) != np.asarray(shown[1].images[0].get_array())).any()
    figure.draw_without_rendering()


def test_people_are_drawn_as_asked():
    style.use()
    figure = figures.people(by="skin_tone")
    assert [figure.axes[k].get_ylabel() for k in (0, 10)] == ["female", "male"]
    assert len(figure.axes) == 20
    assert figure.axes[0].get_title() == "tone 1" and figure.axes[9].get_title() == "tone 10"
    first = [figure.axes[k].images[0].get_array() for k in (0, 9)]
    assert first[0].shape == (128, 128, 3) and (first[0] != first[1]).any()
    # One chef under every light: the neutral picture times the light's colour.
    lights = figures.people(by="light")
    neutral, warm = (np.asarray(lights.axes[k].images[0].get_array(), float) for k in (0, 1))
    inside = (neutral > 20) & (neutral < 220)
    for channel, gain in enumerate((1.075, 1.0, 0.925)):
        some = inside[..., channel]
        ratio = warm[..., channel][some] / neutral[..., channel][some]
        assert np.median(ratio) == pytest.approx(gain, abs=0.02)


def test_clearness_runs_from_women_to_men():
    figure = figures.ambiguity(across=3)
    assert [figure.axes[3 * k].get_ylabel() for k in range(5)] == [
        "clearly female",
        "rather female",
        "either",
        "rather male",
        "clearly male",
    ]
