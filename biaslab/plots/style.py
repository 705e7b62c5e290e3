"""One look for every figure: sizes, fonts, colours that colour-blind readers can tell apart, intervals."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Callable, Iterable
from functools import cache, wraps
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib import font_manager, ft2font
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from numpy.typing import ArrayLike

# Okabe and Ito (2008): distinguishable with every common form of colour blindness, and in grey.
BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, YELLOW, BLACK = "#CC79A7", "#56B4E9", "#F0E442", "#222222"
PALETTE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK)
GREY = "#6B6B6B"
LIGHT = "#E4E4E4"
# Perceived gender, wherever it has a colour.
FEMALE, MALE = PURPLE, BLUE
# The two regions of an amplification plot.
AMPLIFIED, DEAMPLIFIED = VERMILION, SKY
# Marker shapes go with colours, so that colour never carries a meaning alone.
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
_FONT = "DejaVu Sans"


def use() -> None:
    """Set the look of all figures made from here on in this process.

    Dollar signs in texts are dollar signs: a text with a formula is made with ``parse_math=True``.
    """
    # What no font has is named once, by choose_fonts.
    warnings.filterwarnings("ignore", r"Glyph .* missing from font")
    sns.set_theme(style="ticks", context="notebook", palette=list(PALETTE))
    mpl.rcParams.update(
        {
            "figure.dpi": 110,
            "figure.constrained_layout.use": True,
            "font.size": 11,
            "font.family": _FONT,
            "text.parse_math": False,
            # The reader's browser shapes letters of any script.
            "svg.fonttype": "none",
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


def subplots(*args: Any, **options: Any) -> tuple[Figure, Any]:
    """Return a figure and its axes in this look, as ``matplotlib.pyplot.subplots``."""
    use()
    return plt.subplots(*args, **options)


def choose_fonts(figure: Figure) -> list[str]:
    """Give the texts of a figure fonts of this machine for letters that the usual font lacks.

    Returns the scripts, such as ``Devanagari``, of which no font has all letters, or that this matplotlib does not
    shape: PNG files show boxes in their place, SVG files do not.
    """
    texts = figure.findobj(Text)
    families, missing = _find_fonts(frozenset("".join(text.get_text() for text in texts)))
    if len(families) > 1:
        for text in texts:
            text.set_fontfamily(families)
        for ax in figure.axes:
            ax.tick_params(labelfontfamily=families)
    return missing


@cache
def _find_fonts(letters: frozenset[str]) -> tuple[list[str], list[str]]:
    """Return the families in which letters are looked for, and the scripts of those that remain."""
    kinds = {letter: unicodedata.category(letter) for letter in letters}
    # Joiners and variation selectors are no glyphs.
    seen = {letter for letter, kind in kinds.items() if kind not in _UNSEEN and not "\ufe00" <= letter <= "\ufe0f"}
    unshaped: set[str] = set()
    if not hasattr(ft2font, "__libraqm_version__"):
        # Without libraqm, letters from right to left and signs that join others stand in the wrong places.
        unshaped = {one for one in seen if unicodedata.bidirectional(one) in ("R", "AL") or kinds[one] in ("Mn", "Mc")}
    lacking = seen - unshaped - _letters_of(font_manager.findfont(_FONT))
    families = [_FONT]
    # The font of last resort draws a box for each letter.
    fonts = [font for font in font_manager.fontManager.ttflist if not font.name.startswith("Last Resort")]
    for font in sorted(fonts, key=lambda font: (not font.name.startswith("Noto Sans"), font.name)):
        if lacking and font.style == "normal" and (added := lacking & _letters_of(font.fname)):
            families.append(font.name)
            lacking -= added
    return families, sorted({_script(one) for one in lacking | unshaped})


_UNSEEN = ("Cc", "Cf", "Zs")


@cache
def _letters_of(font: str) -> frozenset[str]:
    try:
        return frozenset(map(chr, font_manager.get_font(font).get_charmap()))
    # Fonts of coloured images cannot be drawn.
    except (RuntimeError, OSError):
        return frozenset()


def _script(letter: str) -> str:
    if unicodedata.category(letter).startswith("S"):
        return "emoji and symbols"
    word = unicodedata.name(letter, "unknown").split()[0]
    return word if word == "CJK" else word.capitalize()


def empty_without_rows(draw: Callable[..., Figure]) -> Callable[..., Figure]:
    """Let ``draw`` return a figure that says so when its first table has no rows."""

    @wraps(draw)
    def figure(table: pd.DataFrame, *args: Any, **options: Any) -> Figure:
        return draw(table, *args, **options) if len(table) else nothing()

    return figure


def nothing(why: str = "The source has no measurements for this figure, or no person could be classified.") -> Figure:
    """Return a figure that says why there is nothing to draw; a study prints that and saves no figure."""
    empty, ax = subplots(figsize=(8.2, 0.8))
    ax.set_axis_off()
    ax.text(0.5, 0.5, why, ha="center", va="center")
    return empty


def label_points(
    ax: Axes,
    x: ArrayLike,
    y: ArrayLike,
    texts: Iterable[str],
    *,
    avoid: tuple[ArrayLike, ArrayLike] | None = None,
    laid_out: bool = False,
) -> list[Text]:
    """Write texts next to points, so that none covers another text, a point or a line to a point; return those written.

    Set the axis limits first: places are found in the layout that the figure has by now (``laid_out``: it has one).
    Each text takes the nearest free place around its point, most important first; one that finds none within 34 points
    is left out. ``avoid`` are all points (x, y) that no text may cover.
    """
    if not laid_out and (figure := ax.get_figure(root=True)):
        figure.draw_without_rendering()
    scale = ax.figure.dpi / 72
    points = ax.transData.transform(np.column_stack([x, y])) if np.size(x) else np.empty((0, 2))
    obstacles = points if avoid is None else ax.transData.transform(np.column_stack(avoid))
    inside = ax.get_window_extent().extents
    # Boxes of texts (x0, y0, x1, y1), and points along the lines to them, in pixels.
    boxes, lines, written = np.empty((0, 4)), np.empty((0, 2)), []
    for point, text in zip(points, texts, strict=True):
        label = ax.text(0, 0, text, fontsize=8, color=BLACK, transform=None, zorder=4)
        extent = label.get_window_extent()
        half = np.array([extent.width, extent.height]) / 2
        ends = point + _STEPS * scale
        # The nearest corner of the text is at the end of the way, or the middle of a side where it is straight.
        centres = ends + np.clip(2 * _STEPS / np.hypot(*_STEPS.T)[:, None], -1, 1) * half
        places = np.hstack([centres - half, centres + half])
        padded = places + 1.5 * scale * _OUTWARDS
        apart = (padded[:, None, :2] >= boxes[:, 2:]) | (padded[:, None, 2:] <= boxes[:, :2])
        along = point + (ends - point)[:, None] * np.linspace(0, 1, 21)[:, None]
        free = (
            (places[:, :2] >= inside[:2]).all(axis=1)
            & (places[:, 2:] <= inside[2:]).all(axis=1)
            & np.all(np.any(apart, axis=2), axis=1)
            & ~_hold(places + 3.5 * scale * _OUTWARDS, obstacles).any(axis=1)
            & ~_hold(padded, lines).any(axis=1)
            & ~_hold(boxes, along.reshape(-1, 2)).reshape(len(boxes), len(ends), 21).any(axis=(0, 2))
        )
        if not free.any():
            label.remove()
            continue
        first = np.argmax(free)
        boxes = np.vstack([boxes, places[first]])
        corner = ax.transData.inverted().transform(places[first, :2])
        label.set(transform=ax.transData, position=corner, va="bottom", ha="left")
        written.append(label)
        if np.hypot(*(ends[first] - point)) > 7 * scale:
            lines = np.vstack([lines, along[first]])
            way = ax.transData.inverted().transform([point, ends[first]]).T
            ax.plot(*way, color=GREY, lw=0.6, zorder=2, scalex=False, scaley=False)
    return written


# Ways from a point to places for its text, in points: the nearest first, and of those the ones to the corners.
_STEPS = np.array(
    [
        [distance * np.cos(angle), distance * np.sin(angle)]
        for distance in (5, 8, 12, 17, 23, 29, 34)
        for angle in np.deg2rad([45, 135, -45, -135, 0, 180, 90, -90, 20, 160, -20, -160, 70, 110, -70, -110])
    ]
)
_OUTWARDS = np.array([-1, -1, 1, 1])


def _hold(boxes: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Tell for each box (x0, y0, x1, y1) whether it holds each point."""
    return np.all((points >= boxes[:, None, :2]) & (points <= boxes[:, None, 2:]), axis=2)


def zero_line(ax: Axes, at: float = 0.0, *, axis: str = "x") -> None:
    """Plot a thin line at the value that means no bias or no change."""
    draw = ax.axvline if axis == "x" else ax.axhline
    draw(at, color=GREY, linewidth=1, zorder=1)
