"""A figure's tall form, for narrow screens: its panels one below another, its words as large as they were."""

from __future__ import annotations

import warnings
from textwrap import fill
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.gridspec import GridSpec
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator

from biaslab.plots import forms, style

WIDTH = 4.6
"""Inches of a tall form."""
SMALLEST = 11.4
"""Points of its smallest words: 11 px where a screen of 390 px shows it 350 px wide."""
# Of another width it is no tall form; and what is longer is not read.
_WIDEST, _TALLEST = 4.8, 24.0
# Characters in a line below or beside a panel, and in a row's name.
_LINE, _NAME = 46, 20
# Inches of a row whose name may have two lines.
_TWO_LINES = 0.3
# Inches beside a panel's own height: its title, the numbers of its axis, its label.
_AROUND = 0.75


def restack(figure: Figure) -> bool:
    """Lay a figure out again as :data:`WIDTH` asks, its panels in one column; return whether that gives a tall form.

    It does not where panels do not come from one grid, hold pictures, words are longer than the width, or small ones
    stand within panels, where larger ones have no room. Call it when the figure has been saved: it is changed in any
    case.
    """
    shown = [ax for ax in figure.axes if ax.axison]
    # None of a panel that comes from no grid.
    grids = {ax.get_gridspec() for ax in figure.axes}
    if not shown or None in grids or len(grids) > 1 or any(ax.images for ax in shown):
        return False
    within = (text for ax in shown for text in ax.texts if text not in style.labels(ax))
    if any(float(text.get_fontsize()) < SMALLEST and text.get_text() for text in within):
        return False
    several = any(grid and grid.ncols > 1 for grid in grids)
    heights = [_height(figure, ax) for ax in shown]
    for ax in figure.axes:
        if not ax.axison:
            ax.remove()
    grid = GridSpec(len(shown), 1, figure=figure, height_ratios=heights)
    for i, ax in enumerate(shown):
        ax.set_subplotspec(grid[i])
        if several:
            # Panels that stood beside another one left their rows' names to it.
            ax.tick_params(labelleft=True, labelbottom=True)
        _fit(ax, heights[i])
    for words, put in ((figure.get_supxlabel(), figure.supxlabel), (figure.get_supylabel(), figure.supylabel)):
        if words:
            put(_broken(words, _LINE))
    keys = _legend_again(figure)
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            usual: Any = f"{axis.axis_name}tick.labelsize"
            size = axis.get_tick_params().get("labelsize", mpl.rcParams[usual])
            axis.set_tick_params(labelsize=max(FontProperties(size=size).get_size_in_points(), SMALLEST))
    for text in figure.findobj(Text):
        text.set_fontsize(max(float(text.get_fontsize()), SMALLEST))
    figure.set_size_inches(WIDTH, sum(heights) + _AROUND * len(shown) + 0.25 * keys)
    engine = ConstrainedLayoutEngine()
    figure.set_layout_engine(engine)
    try:
        with warnings.catch_warnings():
            # What surrounds a panel leaves it no room.
            warnings.simplefilter("error", UserWarning)
            engine.execute(figure)
            for ax in shown:
                style.label_again(ax, SMALLEST)
    except UserWarning:
        return False
    finally:
        figure.set_layout_engine(None)
    page = figure.get_tightbbox()
    return bool(page.width <= _WIDEST and page.height <= _TALLEST)


def _fit(ax: Axes, height: float) -> None:
    """Break what is longer than the width leaves room for, in a panel of so many inches."""
    ax.set_title(_broken(ax.get_title(loc="left"), 38), loc="left")
    ax.set_xlabel(_broken(ax.get_xlabel(), _LINE))
    names = [text.get_text() for text in ax.get_yticklabels()]
    if any(len(name) > _NAME for name in names) and height >= _TWO_LINES * len(names):
        ax.set_yticks(ax.get_yticks(), [_broken(name, _NAME) for name in names])
    if isinstance(ax.xaxis.get_major_locator(), MaxNLocator):
        ax.locator_params(axis="x", nbins=5)


def _broken(text: str, width: int) -> str:
    return fill(text, width, break_long_words=False)


def _height(figure: Figure, ax: Axes) -> float:
    """Return the inches that a panel takes up, at most as many as it will have across."""
    height = ax.get_window_extent().height / figure.dpi
    return float(height if ax.get_aspect() == "auto" else min(height, WIDTH))


def _legend_again(figure: Figure) -> int:
    """Put the legend above all panels once more, in as many columns as there is room for; return its lines."""
    lines = 0
    for legend in list(figure.legends):
        handles = [handle for handle in legend.legend_handles if handle is not None]
        for handle, text in zip(handles, legend.get_texts(), strict=True):
            handle.set_label(text.get_text())
        legend.remove()
        lines += forms.legend(figure, handles, len(handles), WIDTH)
    return lines
