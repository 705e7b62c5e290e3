"""Figures of a user's own annotations: each takes rows of the table that it names and returns a figure.

Names in a file of annotations are untrusted: all are shown as plain text (:func:`plain`).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from biaslab.plots import forms, style
from biaslab.ratings.annotations import SOURCES
from biaslab.schema import tables

_SOURCES = forms.series_style(
    {
        "training images": ("training images", style.BLUE, "o"),
        "generated images": ("generated images", style.VERMILION, "s"),
    }
)
_OUTCOMES = forms.series_style(
    {
        "female": ("female", style.FEMALE),
        "male": ("male", style.MALE),
        "other": ("other", style.GREEN),
        "tie": ("tie", style.ORANGE),
        "unsure": ("unsure", "#B5B5B5"),
        "unannotated": ("not annotated", style.BLACK),
    }
)


def percent_female(outcomes: pd.DataFrame) -> Figure:
    """Plot each occupation's share perceived as female by source, one panel per model (``ratings_outcomes``)."""
    prompts = outcomes.groupby("source")["prompt"].transform("nunique") > 1
    hue = outcomes["source"] + " images" + (", " + outcomes["prompt"].map(plain)).where(prompts, "")
    plain_rows = outcomes.assign(hue=hue, model=outcomes["model"].map(lambda model: plain(model, 60)))
    table, panel = forms.panel_by_model(_sort_by_training_share(plain_rows))
    n = table.groupby(["model", "occupation", "source"])["n"].sum()
    keys = zip(table["model"], table["occupation"], strict=True)
    rows = [_label_with_n(name, (n.get((model, name, source), 0) for source in SOURCES)) for model, name in keys]
    return forms.estimates(
        table.assign(row=rows), "percent_female", row="row", color="hue", styles=_SOURCES, panel=panel, reference=50,
        label="Perceived as female among decided images (%)", xlim=(-2, 102),
    )  # fmt: skip


def outcomes(table: pd.DataFrame) -> Figure:
    """Plot results of the vote on images, per occupation and source (``ratings_outcomes``), summed over models."""
    if table["n_images"].isna().all():
        return style.message_figure("The file contains shares: the labels of single images are unknown.")
    table = table.rename(columns={"neither": "other"})
    statuses = [name for name in _OUTCOMES.names if name != "other" or table[name].any()]
    # The same training images are listed for every model that shares them.
    is_repeated = (table["source"] == "training") & table.duplicated(["source", "occupation", *statuses])
    ordered = _sort_by_training_share(table.assign(twice=is_repeated)).query("not twice")
    counts = ordered.melt(["source", "occupation"], statuses, "status", "count")
    counts = counts.groupby(["source", "occupation", "status"], sort=False)["count"].sum().reset_index()
    totals = counts.groupby(["source", "occupation"])["count"].transform("sum")
    rows = [_label_with_n(name, [n]) for name, n in zip(counts["occupation"], totals, strict=True)]
    counts = counts.assign(percent=100 * counts["count"] / totals, row=rows).fillna({"percent": 0})
    return forms.stacked(
        counts, "percent", row="row", part="status", styles=_OUTCOMES, label="Images (%)", counts="count",
        panel="source", names={source: f"{source.capitalize()} images" for source in SOURCES}, columns=2,
    )  # fmt: skip


def sensitivity(table: pd.DataFrame) -> Figure:
    """Plot amplification by rule, extreme and annotator (``ratings_sensitivity``), one row of panels per model."""
    if table["amplification"].isna().all():
        return style.message_figure("There are no annotations of both sources, so no other rule can be applied.")
    labels = tables.labels("ratings_sensitivity")
    rows = table.assign(rule=table["rule"].map(plain), model=table["model"].map(plain))
    rows, panel = forms.panel_by_model(rows, "definition", labels["definition"])
    limits = rows[["amplification", "amplification_corrected", "ci_low", "ci_high"]].to_numpy(float)
    marks = {"filled": "bias-corrected", "hollow": "uncorrected, no interval"}
    return forms.estimates(
        rows, "amplification_corrected", row="rule", color="kind", panel=panel, fallback="amplification",
        names={**labels["rule"], **labels["kind"], **marks},
        label="Amplification (points)", xlim=(np.nanmin(limits) - 1, np.nanmax(limits) + 1), columns=3,
    )  # fmt: skip


def plain(text: str, max_length: int = 48) -> str:
    """Return ``text``, cut where it is long."""
    return text if len(text) <= max_length else text[: max_length - 1] + "…"


def _label_with_n(name: str, n: Iterable[float]) -> str:
    return f"{plain(name)}  ({' / '.join(f'{count:,.0f}' for count in n)})"


def _sort_by_training_share(outcomes: pd.DataFrame) -> pd.DataFrame:
    """Sort rows by occupation, from the most female in training to those without training images, then by source."""
    training = outcomes[outcomes["source"] == "training"].groupby("occupation")["percent_female"].mean()
    means = training.reindex(sorted(set(outcomes["occupation"])))
    order = [*means.sort_values(ascending=False, kind="stable", na_position="last").index, *SOURCES]
    return outcomes.sort_values(["occupation", "source"], key=lambda c: c.map(order.index), kind="stable")
