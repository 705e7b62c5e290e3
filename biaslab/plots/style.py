"""One style for all figures: sizes, fonts, colours that colour-blind readers can distinguish, labels of points."""

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
# Colours of perceived gender.
FEMALE, MALE = PURPLE, BLUE
# The two regions of an amplification plot.
AMPLIFIED, DEAMPLIFIED = VERMILION, SKY
# Each colour has a marker shape, so that figures can be read without colour.
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
_FONT = "DejaVu Sans"


def use() -> None:
    """Set the style of all figures that this process creates from now on.

    Dollar signs in texts are literal; a text with a formula needs ``parse_math=True``.
    """
    # choose_fonts reports missing glyphs once.
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
    """Return a figure and its axes in this style, as ``matplotlib.pyplot.subplots``."""
    use()
    return plt.subplots(*args, **options)


def choose_fonts(figure: Figure) -> list[str]:
    """Set fonts of this machine for letters in a figure that the default font lacks.

    Return the scripts, such as ``Devanagari``, for which no font has all letters, or that this matplotlib does not
    shape. PNG files show boxes in place of these letters, SVG files do not.
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
    """Return the font families to search for letters, and the scripts of letters that no font has."""
    kinds = {letter: unicodedata.category(letter) for letter in letters}
    # Joiners and variation selectors have no glyphs.
    visible = {letter for letter, kind in kinds.items() if kind not in _HIDDEN and not "\ufe00" <= letter <= "\ufe0f"}
    unshaped: set[str] = set()
    if not hasattr(ft2font, "__libraqm_version__"):
        # Without libraqm, right-to-left letters and combining marks are misplaced.
        unshaped = {c for c in visible if unicodedata.bidirectional(c) in ("R", "AL") or kinds[c] in ("Mn", "Mc")}
    missing = visible - unshaped - _letters_of(font_manager.findfont(_FONT))
    families = [_FONT]
    # The font of last resort draws a box for each letter.
    fonts = [font for font in font_manager.fontManager.ttflist if not font.name.startswith("Last Resort")]
    for font in sorted(fonts, key=lambda font: (not font.name.startswith("Noto Sans"), font.name)):
        if missing and font.style == "normal" and (new_letters := missing & _letters_of(font.fname)):
            families.append(font.name)
            missing -= new_letters
    return families, sorted({_script(letter) for letter in missing | unshaped})


_HIDDEN = ("Cc", "Cf", "Zs")


@cache
def _letters_of(font: str) -> frozenset[str]:
    try:
        return frozenset(map(chr, font_manager.get_font(font).get_charmap()))
    # Fonts of coloured images cannot be rendered.
    except (RuntimeError, OSError):
        return frozenset()


def _script(letter: str) -> str:
    if unicodedata.category(letter).startswith("S"):
        return "emoji and symbols"
    word = unicodedata.name(letter, "unknown").split()[0]
    return word if word == "CJK" else word.capitalize()


def empty_without_rows(draw: Callable[..., Figure]) -> Callable[..., Figure]:
    """Make ``draw`` return a figure with a message if its first table has no rows."""

    @wraps(draw)
    def figure(table: pd.DataFrame, *args: Any, **options: Any) -> Figure:
        return draw(table, *args, **options) if len(table) else message_figure()

    return figure


def message_figure(
    text: str = "The source has no measurements for this figure, or no person could be classified.",
) -> Figure:
    """Return a figure with a message instead of data; a study prints the message and saves no figure."""
    empty, ax = subplots(figsize=(8.2, 0.8))
    ax.set_axis_off()
    ax.text(0.5, 0.5, text, ha="center", va="center")
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
    """Label points with texts that cover no other text, point or connecting line, and return the texts that fit.

    Set the axis limits first, because positions depend on the current layout (``laid_out``: the layout is computed
    already). Each text is at the nearest free position around its point, in order of importance. A text without a free
    position within 34 points is left out. ``avoid`` are all points (x, y) that no text may cover.
    """
    if not laid_out and (figure := ax.get_figure(root=True)):
        figure.draw_without_rendering()
    scale = ax.figure.dpi / 72
    points = ax.transData.transform(np.column_stack([x, y])) if np.size(x) else np.empty((0, 2))
    obstacles = points if avoid is None else ax.transData.transform(np.column_stack(avoid))
    axes_box = ax.get_window_extent().extents
    # Boxes of texts (x0, y0, x1, y1), and points along the lines to them, in pixels.
    boxes, lines, labels = np.empty((0, 4)), np.empty((0, 2)), []
    for point, text in zip(points, texts, strict=True):
        label = ax.text(0, 0, text, fontsize=8, color=BLACK, transform=None, zorder=4)
        extent = label.get_window_extent()
        half = np.array([extent.width, extent.height]) / 2
        ends = point + _STEPS * scale
        # The end of the step is at the nearest corner of the text, or at the middle of a side for straight steps.
        centres = ends + np.clip(2 * _STEPS / np.hypot(*_STEPS.T)[:, None], -1, 1) * half
        places = np.hstack([centres - half, centres + half])
        padded_boxes = places + 1.5 * scale * _OUTWARDS
        is_apart = (padded_boxes[:, None, :2] >= boxes[:, 2:]) | (padded_boxes[:, None, 2:] <= boxes[:, :2])
        line_points = point + (ends - point)[:, None] * np.linspace(0, 1, 21)[:, None]
        is_free = (
            (places[:, :2] >= axes_box[:2]).all(axis=1)
            & (places[:, 2:] <= axes_box[2:]).all(axis=1)
            & np.all(np.any(is_apart, axis=2), axis=1)
            & ~_contains(places + 3.5 * scale * _OUTWARDS, obstacles).any(axis=1)
            & ~_contains(padded_boxes, lines).any(axis=1)
            & ~_contains(boxes, line_points.reshape(-1, 2)).reshape(len(boxes), len(ends), 21).any(axis=(0, 2))
        )
        if not is_free.any():
            label.remove()
            continue
        nearest = np.argmax(is_free)
        boxes = np.vstack([boxes, places[nearest]])
        corner = ax.transData.inverted().transform(places[nearest, :2])
        label.set(transform=ax.transData, position=corner, va="bottom", ha="left")
        labels.append(label)
        if np.hypot(*(ends[nearest] - point)) > 7 * scale:
            lines = np.vstack([lines, line_points[nearest]])
            connector = ax.transData.inverted().transform([point, ends[nearest]]).T
            ax.plot(*connector, color=GREY, lw=0.6, zorder=2, scalex=False, scaley=False)
    return labels


# Steps from a point to positions for its text, in typographic points: the nearest first, diagonal ones before others.
_STEPS = np.array(
    [
        [distance * np.cos(angle), distance * np.sin(angle)]
        for distance in (5, 8, 12, 17, 23, 29, 34)
        for angle in np.deg2rad([45, 135, -45, -135, 0, 180, 90, -90, 20, 160, -20, -160, 70, 110, -70, -110])
    ]
)
_OUTWARDS = np.array([-1, -1, 1, 1])


def _contains(boxes: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return whether each box (x0, y0, x1, y1) contains each point, ``bool (boxes, points)``."""
    return np.all((points >= boxes[:, None, :2]) & (points <= boxes[:, None, 2:]), axis=2)


def zero_line(ax: Axes, at: float = 0.0, *, axis: str = "x") -> None:
    """Plot a thin line at the value that represents no bias or no change."""
    draw = ax.axvline if axis == "x" else ax.axhline
    draw(at, color=GREY, linewidth=1, zorder=1)
