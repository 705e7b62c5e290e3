import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection

from biaslab_world.calibration import figures, parameters
from biaslab_world.captions import Corpus

pytestmark = pytest.mark.usefixtures("plain_look")


def _marks(ax):
    """Return x and y of all single marks."""
    return [
        (float(x), float(y))
        for line in ax.lines
        if line.get_marker() not in (None, "None", "")
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    ]


def _dots(ax):
    """Return the positions of points of a scatter, and which are hollow."""
    dots = [c for c in ax.collections if isinstance(c, PathCollection)]
    return {tuple(xy): tuple(c.get_facecolor()[0][:3]) == (1, 1, 1) for c in dots for xy in c.get_offsets().tolist()}


def test_shares_figure_marks_missed_truth_hollow():
    names = ["source", "skew", "approach", "occupation", "percent_true", "percent_female"]
    names += ["percent_female_corrected", "ci_low", "ci_high"]
    rows = [
        ("training", "default", "naive", "nurse", 90, 86, 88, 80, 93),
        ("training", "default", "naive", "chef", 30, 49, 50, 40, 60),
        ("generated", "off", "matched", "chef", 30, 32, 31, 20, 40),
    ]
    figure = figures.shares(pd.DataFrame(rows, columns=names))
    left, right = (ax for ax in figure.axes if ax.axison)
    assert left.get_title(loc="left") == "all captions (naive)"
    assert right.get_title(loc="left").replace("\n", " ") == "world, no model (no planted bias)"
    assert _dots(left) == {(90, 88): False, (30, 50): True}
    assert sorted(_marks(left)) == [(30, 49), (90, 86)]


def test_amplification_figure_shows_corrected_and_uncorrected():
    names = ["generator", "guidance_scale", "skew", "approach", "definition", "prompt"]
    names += ["amplification", "amplification_corrected", "ci_low", "ci_high", "null_mean", "implied"]
    rows = [
        ("world", np.nan, "default", "naive", "paper", "pooled", 8, 7.5, 6, 9, 0.5, 7.8),
        ("mini", 1, "default", "naive", "paper", "pooled", 10, 8.5, 5, 12, 1.5, 7.8),
        ("mini", 7.5, "default", "naive", "paper", "pooled", 18, 17.5, 15, 20, 0.5, 7.8),
        ("world", np.nan, "default", "naive", "signed", "pooled", 99, 99, 98, 100, 0, 7.8),
        ("world", np.nan, "off", "naive", "paper", "pooled", 2, -0.5, -2, 2, 2.5, 0),
    ]
    figure = figures.amplification(pd.DataFrame(rows, columns=names))
    (ax,) = figure.axes
    # In the row of their selection, from the top; marks of the null expectation and of the truth are lines.
    assert [x for x, _ in sorted(_marks(ax), key=lambda mark: mark[1])] == [7.5, 8.5, 17.5, -0.5]
    line_positions = {float(x) for c in ax.collections for line in c.get_segments() for x in line[:, 0]}
    assert {8, 10, 18, 2, 7.8, 0} <= line_positions and 99 not in line_positions
    assert [t.get_text() for t in ax.get_yticklabels()] == [
        "all captions (naive)",
        "all captions (naive)\n(no planted bias)",
    ]
    legend = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert legend[:3] == ["world, no model", "mini, guidance 1", "mini, guidance 7.5"]


def test_captions_figure_shows_text_without_mathtext():
    corpus = Corpus(rows=300)
    chosen = parameters.examples(corpus).head(3)
    chosen.loc[0, "text"] = "a $5 mug"
    figure = figures.captions(corpus, chosen)
    examples = [ax for ax in figure.axes if ax.get_visible()]
    assert len(examples) == 3 and examples[0].get_xlabel().startswith("“a $5 mug”\nstyle: ")
    assert (np.asarray(examples[0].images[0].get_array()) != np.asarray(examples[1].images[0].get_array())).any()
    figure.draw_without_rendering()


def test_guidance_figure_stacks_parts():
    parts = {"measurement": 8.0, "model": 1.0, "guidance": 6.0, "total": 15.0}
    rows = [("mini", s, "naive", p, v * (p != "guidance" or s > 1), 0, 9) for s in (1, 7.5) for p, v in parts.items()]
    columns = ["generator", "guidance_scale", "approach", "part", "change", "ci_low", "ci_high"]
    (ax,) = figures.guidance(pd.DataFrame(rows, columns=columns)).axes
    levels = [line.get_ydata().tolist() for line in ax.lines if line.get_marker() != "None"]
    assert levels == [[15, 15], [9, 9], [8, 8]]
