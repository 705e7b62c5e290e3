"""One look for every figure: sizes, fonts, colours that colour-blind readers can tell apart, intervals."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes

# Okabe and Ito (2008): distinguishable with every common form of colour blindness, and in grey.
BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, YELLOW, BLACK = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#F0E442",
    "#222222",
)
PALETTE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK)
GREY = "#6B6B6B"
LIGHT = "#E4E4E4"
# Perceived gender, wherever it has a colour.
FEMALE, MALE = PURPLE, BLUE
# The two regions of an amplification plot.
AMPLIFIED, DEAMPLIFIED = VERMILION, SKY
# Marker shapes go with colours, so that colour never carries a meaning alone.
MARKERS = ("o", "s", "D", "^", "v", "P", "X")


def use() -> None:
    """Set the look of all figures made from here on in this process."""
    sns.set_theme(style="ticks", context="notebook", palette=list(PALETTE))
    mpl.rcParams.update(
        {
            "figure.dpi": 110,
            "figure.constrained_layout.use": True,
            "font.size": 11,
            "font.family": "DejaVu Sans",
            "axes.titlesize": 12,
            "axes.titleweight": "bold",
            "axes.titlelocation": "left",
            "axes.labelsize": 11,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "xtick.labelsize": 10,
            "ytick.labelsize": 10,
            "legend.fontsize": 10,
            "legend.frameon": False,
            "errorbar.capsize": 0,
        }
    )


def dots_with_intervals(
    ax: Axes,
    values: Sequence[float],
    low: Sequence[float],
    high: Sequence[float],
    positions: Sequence[float],
    *,
    color: str = BLUE,
    marker: str = "o",
    label: str | None = None,
    size: float = 6,
) -> None:
    """Draw values as dots and their intervals as horizontal lines at ``positions`` on the y axis.

    A missing value is left out; a missing limit leaves the dot hollow, without a line.
    """
    values, low, high, positions = (np.asarray(a, dtype=float) for a in (values, low, high, positions))
    known = np.isfinite(low) & np.isfinite(high) & np.isfinite(values)
    ax.hlines(positions[known], low[known], high[known], color=color, linewidth=1.8, alpha=0.75, zorder=2)
    ax.plot(values[known], positions[known], marker, color=color, markersize=size, zorder=3, label=label)
    bare = np.isfinite(values) & ~known
    ax.plot(
        values[bare],
        positions[bare],
        marker,
        markerfacecolor="white",
        markeredgecolor=color,
        markersize=size,
        zorder=3,
        label=label if not known.any() else None,
    )


def label_points(ax: Axes, x: Sequence[float], y: Sequence[float], texts: Sequence[str], **font) -> list:
    """Write ``texts`` beside points so that no two overlap, with thin lines to labels that had to move."""
    from adjustText import adjust_text

    font = {"fontsize": 8, "color": BLACK, **font}
    labels = [ax.text(a, b, t, **font) for a, b, t in zip(x, y, texts, strict=True)]
    if labels:
        adjust_text(
            labels,
            x=list(x),
            y=list(y),
            ax=ax,
            expand=(1.15, 1.3),
            arrowprops={"arrowstyle": "-", "color": GREY, "lw": 0.5},
        )
    return labels


def zero_line(ax: Axes, at: float = 0.0, *, axis: str = "x") -> None:
    """Draw a thin line at the value that means no bias or no change."""
    draw = ax.axvline if axis == "x" else ax.axhline
    draw(at, color=GREY, linewidth=1, zorder=1)


def close(figure: plt.Figure) -> None:
    """Free a figure that has been shown and saved."""
    plt.close(figure)
