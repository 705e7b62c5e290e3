"""Figures across papers: the specification curve, and models side by side."""

from __future__ import annotations

import textwrap

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from biaslab import stats
from biaslab.plots import forms, style
from biaslab.plots.forms import Look

_OPTION_NAMES = {
    "same_lean": "same lean (published)",
    "certain_lean": "training lean certain",
    "none": "none",
    "distance": "distance from 50",
    "directional": "along the training lean",
    "floor": "noise floor",
    "judge": "judge error",
    "floor_and_judge": "both",
    "mean": "mean of prompts",
}
_CHOICE_NAMES = {
    "exclusion": "Exclusion",
    "measure": "Measure",
    "correction": "Correction",
    "prompt": "Prompt",
    "model": "Model",
    "approach": "Captions",
}
_LOOK = {
    ("same_lean", "distance"): (style.VERMILION, "o", "published rule: distance, same lean only"),
    ("certain_lean", "distance"): (style.ORANGE, "^", "distance, certain lean only"),
    ("certain_lean", "directional"): (style.SKY, "v", "along the lean, certain lean only"),
    ("none", "distance"): (style.BLUE, "s", "distance, all occupations"),
    ("none", "directional"): (style.GREEN, "D", "along the lean, all occupations"),
}


def specification_curve(curve: pd.DataFrame) -> Figure:
    """Draw all specifications by their estimate, with intervals and choices (``synthesis_specification_curve``)."""
    curve = curve.sort_values("estimate", kind="stable", ignore_index=True)
    order = list(_OPTION_NAMES)
    choices = [
        (choice, option)
        for choice in _CHOICE_NAMES
        if curve[choice].nunique() > 1
        for option in sorted(set(curve[choice]), key=lambda o: (order.index(o) if o in order else -1, o))
    ]
    tall = 0.24 * len(choices) + 0.3
    figure, (top, below) = style.subplots(
        2, 1, figsize=(forms.WIDTH, 4.4 + tall), sharex=True, height_ratios=[4.4, tall]
    )
    style.zero_line(top, axis="y")
    for (exclusion, measure), (color, marker, label) in _LOOK.items():
        some = curve[(curve["exclusion"] == exclusion) & (curve["measure"] == measure)]
        if len(some):
            top.vlines(some.index, some["ci_low"], some["ci_high"], color=color, alpha=0.35, lw=1.4)
            top.plot(some.index, some["estimate"], marker, color=color, ms=4, label=label)
    top.set_ylabel("Expected amplification (points)")
    top.legend(loc="upper left", fontsize=9)
    for y, (choice, option) in enumerate(choices):
        at = np.flatnonzero(curve[choice] == option)
        below.plot(at, np.full(len(at), y), "|", color=style.BLACK, ms=7, mew=0.8)
        if y and choice != choices[y - 1][0]:
            below.axhline(y - 0.5, color=style.LIGHT, lw=0.8)
    below.set_yticks(range(len(choices)), [_option(*of) for of in choices], fontsize=9)
    below.tick_params(axis="y", length=0)
    below.set(xlim=(-2, len(curve) + 1), ylim=(len(choices) - 0.4, -0.6))
    below.set_xlabel("Specifications, sorted by estimate")
    return figure


def _option(choice: str, option: str) -> str:
    return f"{_CHOICE_NAMES[choice]}: {_OPTION_NAMES.get(option, option)}"


def choice_effects(effects: pd.DataFrame) -> Figure:
    """Draw the mean and the range of results for each option of each choice (``synthesis_choice_effect``)."""
    return forms.estimates(
        effects.assign(row=[_option(r.choice, r.option) for r in effects.itertuples()]),
        "estimate",
        row="row",
        hue="choice",
        look=Look(_CHOICE_NAMES),
        label="Expected amplification (points): mean of specifications, and their range",
        limits=("lowest", "highest"),
    )


@style.empty_without_rows
def models(table: pd.DataFrame) -> Figure:
    """Draw each model's measures with intervals and floors, a panel a measure (``synthesis_models``)."""
    return _by_measure(table, "estimate", "model", floor="floor", label="Estimate, in the unit of its panel")


@style.empty_without_rows
def model_differences(table: pd.DataFrame, *, confidence: float = 0.95) -> Figure:
    """Draw the differences of two models, a panel a measure (``synthesis_model_differences``)."""
    pairs, level = table["model_a"] + " − " + table["model_b"], stats.significance(confidence)
    return _by_measure(
        table.assign(pair=pairs, clear=table["p_holm"] < level),
        "difference",
        "pair",
        label="Difference, in the unit of its panel",
        reference=0.0,
        filled="clear",
        filled_names=(f"different after Holm's adjustment (p < {level:g})", "not different"),
    )


def _by_measure(
    table: pd.DataFrame, value: str, row: str, *, reference: float | None = None, **more
) -> Figure:
    known = table.dropna(subset=value)
    panel = [textwrap.fill(f"{r.measure} ({r.unit})", 40) for r in known.itertuples()]
    return forms.estimates(
        known.assign(panel=panel), value, row=row, panel="panel", columns=2, reference=reference, **more
    )
