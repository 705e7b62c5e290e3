"""The forms that figures of several papers take."""

import numpy as np
import pandas as pd
import pytest

from biaslab.plots import forms, style

pytestmark = pytest.mark.usefixtures("plain_look")

ROWS = pd.DataFrame({"row": ["a", "b"] * 2, "of": ["x", "x", "y", "y"], "value": [1.0, 2.0, 3.0, np.nan]})
ROWS = ROWS.assign(ci_low=ROWS["value"] - 1, ci_high=ROWS["value"] + 1, floor=0.5, printed=1.5, sure=[True, False] * 2)


def texts(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()] if figure.legends else []


def names(ax):
    return [text.get_text() for text in ax.get_yticklabels() if text.get_visible()]


@pytest.mark.parametrize(
    "draw",
    [
        lambda t: forms.estimates(t, "value", row="row", color="of", label=""),
        lambda t: forms.trends(t, "row", "value", color="of", labels=("", "")),
        lambda t: forms.diagonal(t, "value", "value", color="of", labels=("", ""), ends=(0, 1)),
        lambda t: forms.heat_map(t, "value", row="row", column="of", label="", ends=(0, 1)),
        lambda t: forms.stacked(t, "value", row="row", part="of", look=forms.PLAIN, label=""),
    ],
)
def test_a_table_without_rows_draws_nothing(draw):
    figure = draw(ROWS.iloc[:0])
    assert not any(ax.axison for ax in figure.axes) and figure.axes[0].texts


def test_estimates_stand_beside_floor_and_mark():
    figure = forms.estimates(
        ROWS, "value", row="row", color="of", label="points", floor="floor", mark="printed", filled="sure",
        names={"filled": "sure", "hollow": "not sure"},
    )  # fmt: skip
    assert texts(figure) == ["x", "y", "by chance at this n", "as printed", "sure", "not sure"]
    assert figure.axes[0].get_xlabel() == "points" and names(figure.axes[0]) == ["a", "b"]
    dots = [x for line in figure.axes[0].lines[1:] for x in line.get_xdata() if np.isfinite(x)]
    assert sorted(dots) == [1, 2, 3]
    bare = forms.estimates(ROWS, "value", row="row", color="of", label="points", limits=None)
    assert not any(c.get_linewidth()[0] == 1.8 for c in bare.axes[0].collections)


def test_rows_and_axes_are_named_once_for_panels_side_by_side():
    figure = forms.estimates(ROWS, "value", row="row", panel="of", columns=2, label="points")
    assert figure.get_supxlabel() == "points"
    left, right = figure.axes
    assert names(left) == ["a", "b"] and not any(names(right))
    # Where rows differ each panel has its own.
    other = ROWS.assign(row=["a", "b", "c", "d"])
    figure = forms.estimates(other, "value", row="row", panel="of", columns=2, label="points")
    assert [names(ax) for ax in figure.axes] == [["a", "b"], ["c", "d"]]


def test_a_heat_map_has_one_scale_and_other_texts_where_they_are_given():
    table = ROWS.assign(text=["one", "two", "three", ""], panel=["p", "q"] * 2)
    figure = forms.heat_map(
        table, "value", row="row", column="of", panel="panel", label="rank", ends=(0, 4), text="text"
    )
    assert [ax.get_ylabel() for ax in figure.axes] == ["", "", "rank"]
    assert [[t.get_text() for t in ax.texts] for ax in figure.axes[:2]] == [["one", "three"], ["two"]]


def test_a_legend_is_no_wider_than_the_page():
    for longest in (5, 30, 60):
        figure, _ = forms.panels(ROWS)
        forms.legend(figure, [forms.key(style.BLUE, "o", ("some words " * 6)[:longest])] * 5)
        figure.draw_without_rendering()
        assert figure.legends[0].get_window_extent().width < figure.bbox.width


def test_long_names_of_rows_are_broken_and_leave_the_panel_room():
    long = "a photo of the face of a person who works as a nurse in a hospital at night, and in the day at home"
    assert forms.broken("x " * 28) == "x " * 28
    first, second = forms.broken(long).split("\n")
    assert first == "a photo of the face of a person who" and second.startswith("works as a nurse")
    assert second.endswith("…") and max(map(len, (first, second))) <= 38
    figure = forms.estimates(ROWS.replace({"row": {"a": long}}), "value", row="row", color="of", label="points")
    figure.draw_without_rendering()
    assert figure.axes[0].get_position().width > 0.5
