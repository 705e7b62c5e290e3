"""One look for every figure: sizes, fonts, colours that colour-blind readers can tell apart, intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

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


def subplots(*args, **options):
    """Return a figure and its axes in this look, as ``matplotlib.pyplot.subplots``."""
    use()
    return plt.subplots(*args, **options)


def empty_without_rows(draw: Callable[..., Figure]) -> Callable[..., Figure]:
    """Let ``draw`` return a figure that says so when its first table has no rows."""

    @wraps(draw)
    def figure(table: pd.DataFrame, *args, **options) -> Figure:
        return draw(table, *args, **options) if len(table) else nothing()

    return figure


def nothing(why: str = "The source has no measurements for this figure.") -> Figure:
    """Return a figure that says why there is nothing to draw; a study prints that and saves no figure."""
    empty, ax = plt.subplots(figsize=(8.2, 0.8))
    ax.set_axis_off()
    ax.text(0.5, 0.5, why, ha="center", va="center", parse_math=False)
    return empty


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


def label_points(
    ax: Axes,
    x: Sequence[float],
    y: Sequence[float],
    texts: Sequence[str],
    *,
    avoid: tuple[Sequence[float], Sequence[float]] | None = None,
    fontsize: float = 8,
    laid_out: bool = False,
) -> list[Text]:
    """Write ``texts`` beside points, so that none covers another text, a point or a line to a point.

    Set the axis limits first: places are found in the layout that the figure has by now. Each text takes the nearest
    free place around its point, in the order given; one that finds none within 34 points is left out.

    Args:
        ax: The axes.
        x: Where the labelled points lie.
        y: Where the labelled points lie.
        texts: What to write, most important first.
        avoid: All points (x, y) that no text may cover; by default the labelled ones.
        fontsize: Size of the texts, in points.
        laid_out: Whether the figure's layout is finished, so that it need not be found again.

    Returns:
        The texts that found a place.
    """
    if not laid_out:
        ax.figure.draw_without_rendering()
    scale = ax.figure.dpi / 72
    points = ax.transData.transform(np.column_stack([x, y])) if len(x) else np.empty((0, 2))
    obstacles = points if avoid is None else ax.transData.transform(np.column_stack(avoid))
    inside, boxes, lines, written = ax.get_window_extent(), [], [], []
    for point, text in zip(points, texts, strict=True):
        label = ax.text(0, 0, text, fontsize=fontsize, color=BLACK, transform=None, zorder=4)
        size = label.get_window_extent()
        place = _free_place(point, size.width, size.height, scale, inside, obstacles, boxes, lines)
        if place is None:
            label.remove()
            continue
        box, end = place
        boxes.append(box)
        corner = ax.transData.inverted().transform((box.x0, box.y0))
        label.set(transform=ax.transData, position=corner, va="bottom", ha="left")
        written.append(label)
        if np.hypot(*(end - point)) > 7 * scale:
            lines.append((point, end))
            start, stop = ax.transData.inverted().transform([point, end])
            ax.plot(
                [start[0], stop[0]],
                [start[1], stop[1]],
                color=GREY,
                lw=0.6,
                zorder=2,
                scalex=False,
                scaley=False,
            )
    return written


def _free_place(point, width, height, scale, inside, obstacles, boxes, lines):
    """Return the box of a text of this size near ``point`` (pixels) and the end of its line; None without room."""
    for distance in (5, 8, 12, 17, 23, 29, 34):
        for angle in np.deg2rad(
            [45, 135, -45, -135, 0, 180, 90, -90, 20, 160, -20, -160, 70, 110, -70, -110]
        ):
            way = np.array([np.cos(angle), np.sin(angle)])
            end = point + way * distance * scale
            # The nearest corner of the text is at the end of the way, or the middle of a side where it is straight.
            centre = end + np.clip(2 * way, -1, 1) * np.array([width, height]) / 2
            box = Bbox.from_bounds(centre[0] - width / 2, centre[1] - height / 2, width, height)
            near = (np.abs(obstacles - centre) < np.array([width, height]) / 2 + 3.5 * scale).all(axis=1)
            padded = box.padded(1.5 * scale)
            if near.any() or not (inside.contains(*box.min) and inside.contains(*box.max)):
                continue
            if any(padded.overlaps(other) for other in boxes) or any(
                _crosses(line, padded) for line in lines
            ):
                continue
            if any(_crosses((point, end), other) for other in boxes):
                continue
            return box, end
    return None


def _crosses(line, box: Bbox) -> bool:
    """Tell whether a line passes through a box (sampled every twentieth of its length)."""
    start, end = line
    return any(box.contains(*(start + (end - start) * t)) for t in np.linspace(0, 1, 21))


def zero_line(ax: Axes, at: float = 0.0, *, axis: str = "x") -> None:
    """Draw a thin line at the value that means no bias or no change."""
    draw = ax.axvline if axis == "x" else ax.axhline
    draw(at, color=GREY, linewidth=1, zorder=1)


def close(figure: plt.Figure) -> None:
    """Free a figure that has been shown and saved."""
    plt.close(figure)
