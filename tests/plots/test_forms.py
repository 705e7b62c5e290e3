"""Forms of figures shared by several papers."""

import ast
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from biaslab.errors import InputError
from biaslab.plots import forms, style
from biaslab.schema import tables

pytestmark = pytest.mark.usefixtures("plain_look")

ROWS = pd.DataFrame({"row": ["a", "b"] * 2, "of": ["x", "x", "y", "y"], "value": [1.0, 2.0, 3.0, np.nan]})
ROWS = ROWS.assign(
    ci_low=ROWS["value"] - 1, ci_high=ROWS["value"] + 1, null_mean=0.5, paper_table_value=1.5, sure=[True, False] * 2
)


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
        lambda t: forms.stacked(t, "value", row="row", part="of", styles=forms.PLAIN, label=""),
    ],
)
def test_forms_of_empty_table_draw_nothing(draw):
    figure = draw(ROWS.iloc[:0])
    assert not any(ax.axison for ax in figure.axes) and figure.axes[0].texts


def test_estimates_show_null_expectation_and_mark():
    figure = forms.estimates(
        ROWS, "value", row="row", color="of", label="points", null_mean="null_mean", mark="paper_table_value",
        filled="sure", names={"filled": "sure", "hollow": "not sure"},
    )  # fmt: skip
    assert texts(figure) == ["x", "y", "null expectation at this n", "as printed", "sure", "not sure"]
    assert figure.axes[0].get_xlabel() == "points" and names(figure.axes[0]) == ["a", "b"]
    dots = [x for line in figure.axes[0].lines[1:] for x in line.get_xdata() if np.isfinite(x)]
    assert sorted(dots) == [1, 2, 3]
    bare = forms.estimates(ROWS, "value", row="row", color="of", label="points", limits=None)
    assert not any(c.get_linewidth()[0] == 1.8 for c in bare.axes[0].collections)


def test_estimates_panels_share_row_and_axis_names():
    figure = forms.estimates(ROWS, "value", row="row", panel="of", columns=2, label="points")
    assert figure.get_supxlabel() == "points"
    left, right = figure.axes
    assert names(left) == ["a", "b"] and not any(names(right))
    # Where rows differ each panel has its own.
    other = ROWS.assign(row=["a", "b", "c", "d"])
    figure = forms.estimates(other, "value", row="row", panel="of", columns=2, label="points")
    assert [names(ax) for ax in figure.axes] == [["a", "b"], ["c", "d"]]


def test_heat_map_has_one_scale_and_given_texts():
    table = ROWS.assign(text=["one", "two", "three", ""], panel=["p", "q"] * 2)
    figure = forms.heat_map(
        table, "value", row="row", column="of", panel="panel", label="rank", ends=(0, 4), text="text"
    )
    assert [ax.get_ylabel() for ax in figure.axes] == ["", "", "rank"]
    assert [[t.get_text() for t in ax.texts] for ax in figure.axes[:2]] == [["one", "three"], ["two"]]


def test_legend_fits_figure_width():
    for longest in (5, 30, 60):
        figure, _ = forms.panels(ROWS)
        forms.legend(figure, [forms.key(style.BLUE, "o", ("some words " * 6)[:longest])] * 5)
        figure.draw_without_rendering()
        assert figure.legends[0].get_window_extent().width < figure.bbox.width


def test_wrap_name_breaks_long_row_names():
    long = "a photo of the face of a person who works as a nurse in a hospital at night, and in the day at home"
    assert forms.wrap_name("x " * 28) == "x " * 28
    first, second = forms.wrap_name(long).split("\n")
    assert first == "a photo of the face of a person who" and second.startswith("works as a nurse")
    assert second.endswith("…") and max(map(len, (first, second))) <= 38
    figure = forms.estimates(ROWS.replace({"row": {"a": long}}), "value", row="row", color="of", label="points")
    figure.draw_without_rendering()
    assert figure.axes[0].get_position().width > 0.5


def saved_rows(**columns):
    """Return rows of ``paradox_amplification`` as a run saves them: the interval is of the corrected estimate."""
    rows = pd.DataFrame({"prompt": ["1", "2"], "amplification": [12.0, 8.0], "amplification_corrected": [10.0, np.nan]})
    rows = rows.assign(ci_low=[7.0, np.nan], ci_high=[13.0, np.nan], **columns)
    rows.attrs["table"] = "paradox_amplification"
    return rows


def intervals(ax):
    """Return both ends of each line along x that a panel shows for an interval."""
    lines = [segment for c in ax.collections if c.get_linewidth()[0] == 1.8 for segment in c.get_segments()]
    return [tuple(segment[:, 0]) for segment in lines if segment.size and np.isfinite(segment).all()]


def test_estimates_of_corrected_column_show_interval():
    (ax,) = forms.estimates(saved_rows(), "amplification_corrected", row="prompt").axes
    assert intervals(ax) == [(7, 13)]


@pytest.mark.parametrize("declared", [True, False])
def test_estimates_of_uncorrected_column_show_no_interval(declared):
    rows = saved_rows()
    # Frames that no run saved follow the same scheme.
    rows.attrs = rows.attrs if declared else {}
    (ax,) = forms.estimates(rows, "amplification", row="prompt").axes
    assert intervals(ax) == []


def test_estimates_with_limits_of_another_estimate_raise():
    with pytest.raises(InputError, match=r"limits of 'amplification_corrected', not of 'amplification'"):
        forms.estimates(saved_rows(), "amplification", row="prompt", limits=("ci_low", "ci_high"))
    with pytest.raises(InputError, match="limits of 'amplification_corrected', not of 'amplification'"):
        ends = (("ci_low", "ci_high"), ("low", "high"))
        rows = saved_rows(low=0.0, high=20.0)
        names = ("amplification", "amplification_corrected")
        forms.diagonal(rows, *names, labels=names, ends=(0, 20), limits=ends)


def test_estimates_without_correction_fall_back_hollow():
    options = {"fallback": "amplification", "names": {"filled": "corrected", "hollow": "uncorrected"}}
    figure = forms.estimates(saved_rows(), "amplification_corrected", row="prompt", **options)
    (ax,) = figure.axes
    dots = {float(line.get_xdata()[0]): line.get_markerfacecolor() for line in ax.lines[1:] if len(line.get_xdata())}
    assert set(dots) == {10.0, 8.0} and dots[8.0] == "white" != dots[10.0]
    assert intervals(ax) == [(7, 13)] and texts(figure) == ["corrected", "uncorrected"]


def test_trends_use_declared_interval():
    rows = saved_rows().rename(columns={"prompt": "step"})
    for value, lines in (("amplification_corrected", 1), ("amplification", 0)):
        (ax,) = forms.trends(rows, "step", value, labels=("", "")).axes
        segments = [s for c in ax.collections for s in c.get_segments() if s.size and np.isfinite(s).all()]
        assert len(segments) == lines


# -- calls of forms: each draws an interval around the estimate to which it belongs ----------------------------------

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted([*ROOT.glob("notebooks/*/*.ipynb"), *ROOT.glob("world/biaslab_world/*/notebooks/*/*.ipynb")])
MODULES = sorted(
    [
        *ROOT.glob("biaslab/papers/*/figures.py"),
        *ROOT.glob("biaslab/analyses/*/figures.py"),
        *ROOT.glob("world/biaslab_world/*/figures.py"),
    ]
)
# Values that a figure computes itself, with limits of its own next to them.
DERIVED = {"value", "share", "x"}


def code(path):
    if path.suffix == ".py":
        return path.read_text(encoding="utf-8")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def drawn_with_intervals(path):
    """Yield the estimate and the limits of each call of a form: None for those that the table declares."""
    tree = ast.parse(code(path))
    literals = {
        node.targets[0].id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if getattr(node.func.value, "id", "") != "forms" or node.func.attr not in ("estimates", "trends"):
            continue
        value = node.args[1 if node.func.attr == "estimates" else 2]
        arguments = {word.arg: word.value for word in node.keywords if word.arg}
        for spread in (literals[word.value.id] for word in node.keywords if not word.arg):
            if isinstance(spread, ast.Dict):
                arguments |= {key.value: estimate for key, estimate in zip(spread.keys, spread.values, strict=True)}
        limits = arguments.get("limits")
        limits = literals.get(limits.id, limits) if isinstance(limits, ast.Name) else limits
        yield ast.literal_eval(value), limits and ast.literal_eval(limits), limits is not None


@pytest.mark.parametrize("path", [*NOTEBOOKS, *MODULES], ids=lambda path: f"{path.parent.name}-{path.name}")
def test_figure_intervals_belong_to_drawn_estimates(path):
    declared = {(estimate, (low, high)) for s in tables.schemas().values() for estimate, low, high in s.intervals}
    names = {column for _, ends in declared for column in ends}
    for value, limits, arguments in drawn_with_intervals(path):
        if not arguments:
            # By default a form draws the interval that is declared for the value.
            assert value in {estimate for estimate, _ in declared} | DERIVED, value
        elif limits and set(limits) & names:
            assert (value, limits) in declared
