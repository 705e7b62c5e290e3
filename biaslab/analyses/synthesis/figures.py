"""The figure of the specification curve."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from biaslab.plots import forms, style
from biaslab.schema import tables

# Names of the choices in the figure, by column.
_CHOICES = {
    "exclusion": "Exclusion", "measure": "Measure", "correction": "Correction", "judge": "Judge", "prompt": "Prompt",
    "model": "Model", "approach": "Approach",
}  # fmt: skip
_LOOK = {
    ("same_direction", "distance"): (style.VERMILION, "o", "paper's definition: distance, same direction"),
    ("certain_direction", "distance"): (style.ORANGE, "^", "distance, training direction certain"),
    ("certain_direction", "signed"): (style.SKY, "v", "signed change, training direction certain"),
    ("none", "distance"): (style.BLUE, "s", "distance, all occupations"),
    ("none", "signed"): (style.GREEN, "D", "signed change, all occupations"),
}


def specification_curve(curve: pd.DataFrame) -> Figure:
    """Plot all specifications by their estimate, with intervals and choices (``synthesis_specification_curve``)."""
    curve = curve.sort_values("estimate", kind="stable", ignore_index=True)
    names = tables.labels("synthesis_specification_curve")
    choices = [
        (choice, option, names.get(choice, {}).get(option, option))
        for choice in _CHOICES
        if curve[choice].nunique() > 1
        for option in sorted(set(curve[choice]))
    ]
    choices_height = 0.24 * len(choices) + 0.3
    figure, (top, bottom) = style.subplots(
        2, 1, figsize=(forms.WIDTH, 4.4 + choices_height), sharex=True, height_ratios=[4.4, choices_height]
    )
    style.zero_line(top, axis="y")
    for (exclusion, measure), (color, marker, label) in _LOOK.items():
        rows = curve[(curve["exclusion"] == exclusion) & (curve["measure"] == measure)]
        if len(rows):
            top.vlines(rows.index, rows["ci_low"], rows["ci_high"], color=color, alpha=0.35, lw=1.4)
            top.plot(rows.index, rows["estimate"], marker, color=color, ms=4, label=label)
    top.set_ylabel("Expected amplification (points)")
    top.legend(loc="upper left", fontsize=9)
    for y, (choice, option, _) in enumerate(choices):
        positions = np.flatnonzero(curve[choice] == option)
        bottom.plot(positions, np.full(len(positions), y), "|", color=style.BLACK, ms=7, mew=0.8)
        if y and choice != choices[y - 1][0]:
            bottom.axhline(y - 0.5, color=style.LIGHT, lw=0.8)
    bottom.set_yticks(range(len(choices)), [f"{_CHOICES[choice]}: {name}" for choice, _, name in choices], fontsize=9)
    bottom.tick_params(axis="y", length=0)
    bottom.set(xlim=(-2, len(curve) + 1), ylim=(len(choices) - 0.4, -0.6))
    bottom.set_xlabel("Specifications, sorted by estimate")
    return figure
