"""Figures of the paradox match the tables."""

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
    """Return the positions of markers and their kinds."""
    dots = [c for c in ax.collections if isinstance(c, PathCollection) and len(c.get_offsets())]
    lines = [line for line in ax.lines if line.get_marker() not in ("", "None", "none")]
    marks = [(c.get_offsets(), MARKERS.get(len(c.get_paths()[0].vertices))) for c in dots]
    marks += [(line.get_xydata(), line.get_marker()) for line in lines]
    return {(round(x, 6), round(y, 6)): mark for offsets, mark in marks for x, y in offsets if np.isfinite(x + y)}


def names(ax):
    return [t.get_text() for t in ax.get_yticklabels()]


def share_row(occupation, training, generated, excluded="", **limits):
    row = {"occupation": occupation, "percent_training": training, "percent_generated": generated}
    sides = (
        "percent_training_ci_low",
        "percent_training_ci_high",
        "percent_generated_ci_low",
        "percent_generated_ci_high",
    )
    return row | {"excluded": excluded, "prompt": "1", "model": "M"} | dict.fromkeys(sides, NAN) | limits


def test_shares_figure_places_points():
    limits = {
        "percent_training_ci_low": 70.0,
        "percent_training_ci_high": 90.0,
        "percent_generated_ci_low": 80.0,
        "percent_generated_ci_high": 100.0,
    }
    rows = [share_row("a", 0, 100, "opposite_direction"), share_row("b", 20, 10)]
    rows += [share_row("c", 80, 90, prompt="2", **limits), share_row("d", NAN, 3, prompt="2")]
    first, second = (ax for ax in figures.shares(pd.DataFrame(rows), ["prompt"]).axes if ax.axison)
    # Occupations excluded by the paper's definition have another mark; marks at the edge are not clipped.
    assert points(first) == {(0, 100): "X", (20, 10): "o"} and first.get_xlim() == (-2, 102)
    # An occupation without a share has no point, and is not drawn at 0.
    assert (80, 90) in points(second) and not any(y == 3 for _, y in points(second))
    assert {t.get_text() for t in first.texts} == {"a", "b"}


def test_signed_changes_figure_splits_by_sign():
    changes = [("a", 9), ("a", 11), ("b", -6), ("b", -2), ("c", 1), ("c", 1)]
    rows = pd.DataFrame(changes, columns=["occupation", "signed_change"])
    rows["excluded"] = rows["occupation"].map({"b": "opposite_direction"}).fillna("")
    towards, against = figures.signed_changes(rows, max_occupations=1).axes
    assert names(towards) == ["a"] and names(against) == ["b"]
    assert (10, 0) in points(towards) and (-4, 0) in points(against)


def test_variation_figure_shows_noise_range():
    variation = {"model": "M", "occupation": ["a", "b"], "sd_prompts": [5.0, 20.0], "sd_noise": [2.0, 3.0]}
    shares = [("a", "training", "captions", 30), ("a", "generated", "1", 20), ("a", "generated", "2", 30)]
    shares += [("b", "training", "captions", 60), ("b", "generated", "1", 40), ("b", "generated", "2", 80)]
    shares = pd.DataFrame(shares, columns=["occupation", "source", "prompt", "percent_female"])
    (ax,) = figures.variation(pd.DataFrame(variation), shares).axes
    # Prompts are slightly offset within their occupation's row.
    assert names(ax) == ["b", "a"] and {(x, round(y)) for x, y in points(ax)} == {(40, 0), (80, 0), (20, 1), (30, 1)}
    assert {30, 60} <= {float(x) for c in ax.collections for line in c.get_segments() for x in line[:, 0]}
    bar = ax.patches[0]
    # With one variance of 18, two shares deviate from their own mean of 60 by a root mean square of 3.
    assert (bar.get_x(), bar.get_width()) == pytest.approx((60 - 6, 12))


def test_indicator_correlation_figure_counts_both_genders():
    shares = {
        "occupation": ["nurse", "cook", "pilot", "poet"],
        "percent_female_indicator": [10.0, 20, 30, 5],
        "percent_male_indicator": [30.0, 20, 10, 5],
        "percent_both": [2.0, 1, 0, 5],
        "percent_female": [90.0, 60, 20, NAN],
        "n_judged": [80, 80, 80, 0],
        "percent_any_of_female": [15.0, 30, 70, NAN],
        "percent_any_of_male": [65.0, 45, 25, NAN],
    }
    indicators = pd.DataFrame(shares).assign(corpus="mini", n=100)
    row = {"counted": "any", "r": -0.9, "ci_low": -0.99, "ci_high": 0.2, "n": 3}
    correlation = pd.DataFrame([row | {"gender": "female"}, row | {"gender": "male", "r": NAN}])
    female, male = figures.indicator_correlation(indicators, correlation).axes
    assert set(points(female)) == {(90, 12), (60, 21), (20, 30)}
    assert set(points(male)) == {(10, 32), (40, 21), (80, 10)}


def test_shares_figure_without_rows_has_message():
    none = pd.DataFrame(columns=["excluded"])
    assert "no measurements" in figures.shares(none).axes[0].texts[0].get_text()
