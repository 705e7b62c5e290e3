"""Figures of judges' errors and of results corrected for them: rows of tables in, figures out."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from biaslab.plots import forms


def error(errors: pd.DataFrame, row: str, *, color: str = "measure", columns: int = 2) -> Figure:
    """Plot shares of ``calibration_error`` in percent, one row per value of ``row``, one panel per model."""
    rows, panel = forms.panel_by_model(errors)
    return forms.estimates(
        rows, "value", row=row, color=color, panel=panel, xlim=(-1, 101), columns=columns, reference=None,
        label="Share (%)",
    )  # fmt: skip


def corrected(results: pd.DataFrame, row: str, *, label: str, reference: float | None = None) -> Figure:
    """Plot corrected results of ``calibration_corrected``, one row per value of ``row``, one panel per model."""
    rows, panel = forms.panel_by_model(results.dropna(subset="estimate_corrected"))
    band = ("estimate_lower_bound", "estimate_upper_bound") if rows["estimate_lower_bound"].notna().any() else None
    return forms.estimates(
        rows, "estimate_corrected", row=row, panel=panel, reference=reference, label=label, band=band,
        null_mean="estimate", mark="estimate_true",
        names={"band": "range over conditions", "null_mean": "as judged", "mark": "ground truth"},
    )  # fmt: skip
