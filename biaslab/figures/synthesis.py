"""The specification curve, drawn."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from biaslab.plots import style

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
    """Draw all specifications sorted by their estimate, with intervals and the choices that make each.

    Args:
        curve: The table ``synthesis_specification_curve``.
    """
    curve = curve.sort_values("amplification", kind="stable", ignore_index=True)
    choices = [(c, _options(curve[c])) for c in _CHOICE_NAMES if curve[c].nunique() > 1]
    lines = sum(len(options) for _, options in choices) + 0.7 * len(choices)
    figure, (top, below) = plt.subplots(
        2, 1, figsize=(11, 4.4 + 0.24 * lines), sharex=True, height_ratios=[4.4, 0.24 * lines]
    )
    style.zero_line(top, axis="y")
    for (exclusion, measure), (color, marker, label) in _LOOK.items():
        some = curve[(curve["exclusion"] == exclusion) & (curve["measure"] == measure)]
        if some.empty:
            continue
        top.vlines(some.index, some["ci_low"], some["ci_high"], color=color, alpha=0.35, lw=1.4)
        top.plot(some.index, some["amplification"], marker, color=color, markersize=4, label=label)
    top.set_ylabel("Expected amplification (points)")
    top.legend(loc="upper left", fontsize=9)
    _choice_ticks(below, curve, choices)
    below.set_xlabel("Specifications, sorted by estimate")
    below.set_xlim(-2, len(curve) + 1)
    return figure


def _options(values: pd.Series) -> list[str]:
    order = list(_OPTION_NAMES)
    return sorted(set(values), key=lambda v: (order.index(v) if v in order else -1, v))


def _choice_ticks(ax, curve: pd.DataFrame, choices: list[tuple[str, list[str]]]) -> None:
    """Draw a tick per specification in the row of each option it takes; choices are separated by a gap."""
    y, places, names = 0.0, [], []
    for choice, options in choices:
        for option in options:
            at = np.flatnonzero(curve[choice] == option)
            ax.plot(at, np.full(len(at), y), "|", color=style.BLACK, markersize=7, mew=0.9)
            places.append(y)
            names.append(f"{_CHOICE_NAMES[choice]}: {_OPTION_NAMES.get(option, option)}")
            y += 1
        ax.axhline(y - 0.15, color=style.LIGHT, lw=0.8)
        y += 0.7
    ax.set_yticks(places, names, fontsize=9)
    ax.set_ylim(y - 0.9, -0.8)
    ax.tick_params(axis="y", length=0)


def choice_effects(effects: pd.DataFrame) -> Figure:
    """Draw the mean and the range of results for each option of each choice.

    Args:
        effects: The table ``synthesis_choice_effect``.
    """
    choices = list(dict.fromkeys(effects["choice"]))
    figure, ax = plt.subplots(figsize=(9, 0.36 * len(effects) + 0.3 * len(choices) + 1.2))
    style.zero_line(ax)
    y, places, names = 0.0, [], []
    for choice, color, marker in zip(choices, style.PALETTE, style.MARKERS, strict=False):
        for row in effects[effects["choice"] == choice].itertuples():
            ax.hlines(y, row.lowest, row.highest, color=color, lw=2, alpha=0.4)
            ax.plot(row.amplification, y, marker, color=color, markersize=7)
            places.append(y)
            names.append(f"{_CHOICE_NAMES[choice]}: {_OPTION_NAMES.get(row.option, row.option)}")
            y += 1
        y += 0.6
    ax.set_yticks(places, names)
    ax.set_ylim(y - 0.9, -0.8)
    ax.set_xlabel("Expected amplification: mean over specifications (mark) and their range (line), in points")
    return figure
