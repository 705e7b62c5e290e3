"""Figures of headlines by judge, annotations and both."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from biaslab.metrics.headline import MEAN
from biaslab.plots import forms, style

ESTIMATORS = forms.series_style(
    {
        "judge": ("judge alone", style.GREY, "s"),
        "annotations": ("annotations alone", style.ORANGE, "D"),
        "both": ("both combined", style.BLACK, "o"),
    }
)

PARTS = forms.series_style(
    {
        "group": ("groups", style.BLUE),
        "template": ("wording", style.ORANGE),
        "seed": ("images of a prompt", style.LIGHT),
        "judge": ("the judge's errors", style.VERMILION),
    }
)


def components(table: pd.DataFrame) -> Figure:
    """Plot components of variances, one row per headline and model (``precision_components``)."""
    rows = table.dropna(subset="percent")
    has_several_models = rows["model"].nunique() > 1
    rows = rows.assign(row=rows["model"] + ": " + rows["headline"] if has_several_models else rows["headline"])
    return forms.stacked(rows, "percent", row="row", part="part", styles=PARTS, label="Share of the variance (%)")


def estimates(table: pd.DataFrame, by: str = "estimator") -> Figure:
    """Plot headlines by judge, annotations and both (``precision_estimates``), one panel per headline.

    ``by`` is the column that distinguishes series: for headlines by several judges (``synthesis_judge_headlines``)
    ``judge``.
    """
    rows = table.assign(panel=table["headline"] + " (" + table["unit"] + ")")
    has_several_models = rows["model"].nunique() > 1
    group_names = rows["group"].where(rows["group"] != MEAN, "all groups")
    rows["row"] = rows["model"] + ": " + group_names if has_several_models else group_names
    return forms.estimates(
        rows, "estimate", row="row", color=by, panel="panel", styles=ESTIMATORS if by == "estimator" else forms.PLAIN,
        reference=None, label="Estimate, in the unit of its panel", columns=2,
    )  # fmt: skip
