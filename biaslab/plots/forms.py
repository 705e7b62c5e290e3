"""Plot types that several papers share: functions from tables to figures, with one legend above all panels.

Each function takes a long table, names of its columns (an empty name: no such column) and those of the following
arguments that apply. Rows, panels and colours are in the order of the table, and missing values are left out. A table
without rows, or with missing values only, gives a figure with a message.

- ``value``: The column to plot; ``row``: the column with one row per value.
- ``color``: The column with one colour per value; ``styles``: its colours, markers and names.
- ``panel``: The column with one panel per value; ``columns``: the number of panels in a line.
- ``names``: Values in words, for rows, panels and legend; by default the labels of a declared and saved table
  (:attr:`biaslab.schema.tables.Column.labels`). Also the legend entries of ``null_mean``, ``band``, ``mark``,
  ``filled`` and ``hollow``.
- ``label``, ``labels``: The labels of one axis or both, with units; ``xlim``, ``ylim``, ``ends``: their ends.
- ``limits``: The columns with the limits of the confidence interval; by default those that the table declares ``of``
  the value. None plots no intervals. Limits that the table declares for another estimate raise an InputError.
- ``fallback``: A column that replaces missing values, with a hollow marker and without an interval.
- ``reference``: The position of a line that marks no bias or no change; None for no line.
- ``filled``: A boolean column: markers are hollow where it is false.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from seaborn.utils import relative_luminance

from biaslab.errors import InputError
from biaslab.plots import style
from biaslab.schema import tables

WIDTH = 9.2
"""Width of a figure in a report, in inches."""
LONGEST = 38
"""Maximum number of letters in a line of a row's name."""
NO_VALUES = (
    "Every value is missing: no person could be classified, or nothing was measured. The table states the reason."
)
DECLARED = "declared"
"""The limits that the table declares for the plotted value."""
_LEGEND = {"null_mean": "null expectation at this n", "band": "null range (balanced model)", "mark": "as printed"}
# Names of columns on axes, where they differ from the column's own.
_QUANTITIES = {"percent_female": "Perceived as female"}
_HATCHES = ("", "///", "...", "\\\\\\", "xx", "--", "oo", "++", "**")


@dataclass(frozen=True)
class SeriesStyle:
    """Colours, markers and names of the values of a column; values without them get the next colour and marker."""

    # Legend entries; by default the values themselves.
    names: Mapping[str, str] = field(default_factory=dict)
    colors: Mapping[str, str] = field(default_factory=dict)
    markers: Mapping[str, str] = field(default_factory=dict)

    def styles(self, values: Sequence[str]) -> dict[str, tuple[str, str, str]]:
        """Return colour, marker and name of each value."""
        ordered_values = list(dict.fromkeys([*self.colors, *values]))
        styles_by_value = {}
        for value in values:
            k = ordered_values.index(value)
            color = self.colors.get(value, style.PALETTE[k % len(style.PALETTE)])
            marker = self.markers.get(value, style.MARKERS[k % len(style.MARKERS)])
            styles_by_value[value] = color, marker, self.names.get(value, str(value))
        return styles_by_value


def series_style(definitions: Mapping[str, tuple[str, ...]]) -> SeriesStyle:
    """Return the style of values, each defined by a name, a colour and optionally a marker."""
    return SeriesStyle(*(dict(zip(definitions, part, strict=True)) for part in zip(*definitions.values(), strict=True)))


PLAIN = SeriesStyle()
OUTCOMES = series_style(
    {
        "judged": ("judged", style.LIGHT),
        "swapped": ("judged, in another order", style.VERMILION),
        "unclear": ("judged, order unclear", style.YELLOW),
        "uncertain": ("a person's gender is unclear", style.ORANGE),
        "no_face": ("no face", style.BLACK),
        "one_face": ("fewer faces than prompted", style.BLUE),
        "several_faces": ("more faces than prompted", style.GREEN),
        "overlapping": ("faces overlap", style.PURPLE),
        "face_too_small": ("a face is too small", style.SKY),
        "unreadable": ("unreadable", style.GREY),
        "blocked": ("withheld by the model", style.GREY),
        "black": ("black image", style.GREY),
        "placeholder": ("placeholder from a content filter", style.GREY),
        "duplicate": ("copy of another image", style.GREY),
        "unannotated": ("not annotated", style.GREY),
        "unanswered": ("no answer from the judge", style.GREY),
    }
)
"""Classification status of the people that prompts request."""


def panel_by_model(table: pd.DataFrame, panel: str = "", names: Mapping[str, str] = {}) -> tuple[pd.DataFrame, str]:
    """Return a table and the column of its panels: one panel per model if there are several, else those of ``panel``.

    With a ``panel``, whose values have ``names``, each model has its own panels, named after the model and the value.
    """
    has_several = table["model"].nunique() > 1
    if not panel:
        return table, "model" if has_several else ""
    words = _words(table, names)
    panel_names = table[panel].map(lambda name: words.get(name, name))
    table = table.assign(panel=table["model"] + ": " + panel_names if has_several else panel_names)
    # The panels of one model are adjacent.
    return table.sort_values("model", key=lambda column: pd.factorize(column)[0], kind="stable"), "panel"


def panels(
    table: pd.DataFrame,
    panel: str = "",
    *,
    names: Mapping[str, str] = {},
    columns: int = 2,
    height: float | Callable[[pd.DataFrame], float] = 3.4,
    **shared: Any,
) -> tuple[Figure, Iterator[tuple[Axes, pd.DataFrame]]]:
    """Return a figure with one panel for each value of a column, and the panels with their rows.

    ``names`` are the titles of panels. ``height`` is the height of a panel in inches, or a function of its rows that
    returns it. ``shared`` are other arguments of ``matplotlib.pyplot.subplots``, such as ``sharex``.
    """
    groups = list(table.groupby(panel, sort=False)) if panel else [("", table)]
    columns = max(1, min(columns, len(groups)))
    panel_heights = [height(rows) if callable(height) else height for _, rows in groups]
    heights = [max(panel_heights[k : k + columns]) for k in range(0, len(groups), columns)]
    figure, axes = style.subplots(
        len(heights), columns, figsize=(WIDTH, sum(heights) + 0.5), squeeze=False, height_ratios=heights, **shared
    )  # fmt: skip
    for ax in axes.flat[len(groups) :]:
        ax.set_axis_off()
    for ax, (name, _) in zip(axes.flat, groups, strict=False):
        # Fewer than nine letters per inch, which leaves space for the names of rows; line breaks in a name stay.
        lines = names.get(str(name), str(name)).splitlines()
        title = "\n".join(textwrap.fill(line, int(7.5 * WIDTH / columns)) for line in lines)
        ax.set_title(title, fontsize=11)
        ax.tick_params(labelbottom=True)
    return figure, ((ax, rows) for ax, (_, rows) in zip(axes.flat, groups, strict=False))


@style.empty_without_rows
def estimates(
    table: pd.DataFrame,
    value: str,
    *,
    row: str,
    color: str = "",
    panel: str = "",
    label: str = "",
    names: Mapping[str, str] = {},
    styles: SeriesStyle = PLAIN,
    limits: tuple[str, str] | str | None = DECLARED,
    reference: float | None = 0.0,
    null_mean: str = "",
    band: tuple[str, str] | None = None,
    mark: str = "",
    filled: str = "",
    fallback: str = "",
    xlim: tuple[float, float] | None = None,
    columns: int = 1,
) -> Figure:
    """Plot estimates with their intervals, one per row; several values of ``color`` are side by side in a row.

    ``null_mean`` is a column with the null expectation, plotted as a grey tick. ``mark`` is a column with a value for
    comparison, plotted as a thin black tick. ``band`` are columns with the ends of a grey range behind each estimate. A
    dot without a line has no interval.
    """
    ends = _limits(table, value, limits)
    if fallback:
        has_value = table[value].notna()
        table = table.assign(known=has_value, **{value: table[value].where(has_value, table[fallback])})
        filled = "known"
    if table[value].isna().all():
        return style.message_figure(NO_VALUES)
    words = _words(table, names)
    looks = _choose_styles(table, color, styles, words)

    def n_side_by_side(rows: pd.DataFrame) -> int:
        # Rows with one colour each need no space for other colours.
        return len(looks) if color and rows.groupby(row)[color].nunique().max() > 1 else 1

    def height(rows: pd.DataFrame) -> float:
        return rows[row].nunique() * 0.34 * (1 + 0.45 * (n_side_by_side(rows) - 1)) + 0.9

    figure, parts = panels(
        table, panel, names=words, columns=columns, height=height, sharex=xlim is None and columns == 1
    )
    name_axes(figure, label or _axis(table, value))
    for ax, rows in parts:
        values = list(dict.fromkeys(rows[row]))
        if reference is not None:
            style.zero_line(ax, reference)
        places = _offsets(len(looks)) if n_side_by_side(rows) > 1 else np.zeros(len(looks))
        half_height = 0.3 / n_side_by_side(rows)
        for offset, (group, shade, marker) in zip(places, _series(rows, color, looks), strict=True):
            y = group[row].map({name: i for i, name in enumerate(values)}).to_numpy(float) + offset
            if band:
                low, high = group[band[0]], group[band[1]]
                ax.barh(y, high - low, 2 * half_height, left=low, color=style.GREY, alpha=0.22, lw=0, zorder=0.5)
            if null_mean:
                ax.vlines(group[null_mean], y - half_height, y + half_height, color=style.GREY, lw=4, alpha=0.5)
            if mark:
                ax.vlines(group[mark], y - half_height, y + half_height, color=style.BLACK, lw=1.4)
            if ends:
                ax.hlines(y, group[ends[0]], group[ends[1]], color=shade, lw=1.8, alpha=0.75)
            is_filled = _filled_mask(group, filled)
            for mask, face in ((is_filled, shade), (~is_filled, "white")):
                ax.plot(group[value][mask], y[mask], marker, mfc=face, mec=shade, ms=6.5, zorder=3)
        _name_rows(ax, [words.get(name, str(name)) for name in values])
        ax.set_ylim(len(values) - 0.45, -0.55)
        if xlim:
            ax.set_xlim(*xlim)
        if columns > 1:
            # Tick labels with many digits overlap in a narrow panel.
            ax.locator_params(axis="x", nbins=max(2, 6 - columns))
        # Every other row is shaded for readability.
        for k in range(0, len(values) if len(values) > 1 else 0, 2):
            ax.axhspan(k - 0.5, k + 0.5, color=style.LIGHT, alpha=0.35, lw=0, zorder=0)
    handles = _keys(looks)
    if null_mean and table[null_mean].notna().any():
        handles.append(Line2D([], [], color=style.GREY, lw=4, alpha=0.5, label=words["null_mean"]))
    if band:
        handles.append(Patch(color=style.GREY, alpha=0.22, lw=0, label=words["band"]))
    if mark and table[mark].notna().any():
        handles.append(Line2D([], [], color=style.BLACK, marker="|", ms=12, mew=1.4, ls="", label=words["mark"]))
    legend(figure, handles + _filled_keys(table, filled, words))
    return figure


@style.empty_without_rows
def diagonal(
    table: pd.DataFrame,
    x: str,
    y: str,
    *,
    labels: tuple[str, str],
    ends: tuple[float, float],
    color: str = "",
    styles: SeriesStyle = PLAIN,
    panel: str = "",
    names: Mapping[str, str] = {},
    limits: tuple[tuple[str, str], tuple[str, str]] | None = None,
    size: str = "",
    filled: str = "",
    point: str = "",
    named: int = 0,
    columns: int = 2,
    under: Callable[[Axes, pd.DataFrame], None] | None = None,
    keys: Sequence = (),
) -> Figure:
    """Plot one point per row of the table, and a diagonal on which both coordinates are equal.

    ``x`` and ``y`` are columns, ``limits`` the columns with the limits of both. ``size`` is a column of counts, plotted
    as the areas of points, with the number in large ones. In each panel, the ``named`` points farthest from the
    diagonal are labelled with their ``point``. ``under`` plots the background, such as regions, for which ``keys`` are
    the legend entries.
    """
    if table[[x, y]].dropna().empty:
        return style.message_figure(NO_VALUES)
    for value, pair in zip((x, y), limits or (), strict=False):
        _limits(table, value, pair)
    words = _words(table, names)
    looks = _choose_styles(table, color, styles, words)
    has_several = panel and table[panel].nunique() > 1
    side = min(5.2, WIDTH / columns) if has_several else 5.2
    figure, parts = panels(table, panel, names=words, columns=columns, height=side)
    panel_rows = list(parts)
    for ax, rows in panel_rows:
        if under:
            under(ax, rows)
        ax.plot(ends, ends, color=style.GREY, ls="--", lw=1, zorder=1)
        is_sparse = len(rows) <= 12
        for group, shade, marker in _series(rows, color, looks):
            if limits:
                (x0, x1), (y0, y1) = limits
                line: Any = {"color": shade, "lw": 1.8 if is_sparse else 0.8, "alpha": 0.75 if is_sparse else 0.35}
                ax.hlines(group[y], group[x0], group[x1], **line)
                ax.vlines(group[x], group[y0], group[y1], **line)
            areas = 30 + 40 * (group[size] - 1) if size else 60 if is_sparse else 30
            is_filled = _filled_mask(group, filled)
            faces, edges = np.where(is_filled, shade, "white"), np.where(is_filled, "white", shade)
            ax.scatter(group[x], group[y], areas, faces, marker=marker, alpha=0.85, ec=edges, lw=1, zorder=3)
            for k in np.flatnonzero(group[size] > 1) if size else ():
                ax.text(
                    group[x].iloc[k], group[y].iloc[k], f"{group[size].iloc[k]:.0f}", ha="center", va="center",
                    fontsize=8, color="white" if is_filled[k] else style.BLACK, zorder=4,
                )  # fmt: skip
        ax.set(xlim=ends, ylim=ends, aspect="equal", xlabel=labels[0], ylabel=labels[1])
    legend(figure, [*_keys(looks), *_filled_keys(table, filled, words), *keys])
    # Labels come last, because they are placed in the finished layout, which is then fixed.
    if named:
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    for ax, rows in panel_rows if named else ():
        farthest = rows.loc[(rows[y] - rows[x]).abs().sort_values(ascending=False).index]
        farthest = farthest.dropna(subset=[x, y]).head(named)
        style.label_points(ax, farthest[x], farthest[y], farthest[point], avoid=(rows[x], rows[y]), laid_out=True)
    return figure


@style.empty_without_rows
def trends(
    table: pd.DataFrame,
    x: str,
    value: str,
    *,
    labels: tuple[str, str],
    color: str = "",
    styles: SeriesStyle = PLAIN,
    panel: str = "",
    names: Mapping[str, str] = {},
    reference: float | None = None,
    ylim: tuple[float, float] | None = None,
    sharey: bool = True,
    columns: int = 2,
) -> Figure:
    """Plot estimates along an ordered column, joined by lines, with their intervals.

    Rows must be in the order of ``x``. Numbers are positioned to scale, texts at equal distances. Values of ``color``
    are slightly offset from one another; ``sharey`` gives all panels one y axis.
    """
    if table[value].isna().all():
        return style.message_figure(NO_VALUES)
    ends = _limits(table, value, DECLARED)
    words = _words(table, names)
    looks = _choose_styles(table, color, styles, words)
    figure, parts = panels(table, panel, names=words, columns=columns, height=3.4, sharey=sharey)
    name_axes(figure, *labels)
    for ax, rows in parts:
        steps = list(dict.fromkeys(rows[x]))
        numbers = pd.api.types.is_numeric_dtype(rows[x])
        positions = dict(zip(steps, steps if numbers else range(len(steps)), strict=True))
        step = np.ptp(list(positions.values())) / (len(steps) - 1) if len(steps) > 1 else 1
        if reference is not None:
            style.zero_line(ax, reference, axis="y")
        for offset, (group, shade, marker) in zip(_offsets(len(looks)), _series(rows, color, looks), strict=True):
            places = group[x].map(positions).to_numpy(float) + 0.25 * offset * step
            if ends:
                ax.vlines(places, group[ends[0]], group[ends[1]], color=shade, lw=1.8, alpha=0.75)
            ax.plot(places, group[value], marker=marker, color=shade, lw=1, ms=6)
        ax.set_xticks(list(positions.values()), [f"{s:g}" if numbers else str(s) for s in steps])
        if ylim:
            ax.set_ylim(*ylim)
    legend(figure, _keys(looks, line="-"))
    return figure


@style.empty_without_rows
def heat_map(
    table: pd.DataFrame,
    value: str,
    *,
    row: str,
    column: str,
    label: str,
    ends: tuple[float, float],
    centre: float | None = None,
    panel: str = "",
    form: str = ".0f",
    text: str = "",
    columns: int = 1,
) -> Figure:
    """Plot a value for each pair of a row and a ``column`` as a colour, with the number in it.

    ``label`` is the label of the colour bar, ``ends`` are the values of the end colours, and ``centre`` is the white
    value between two colours (None for shades of one colour). ``form`` is the format of numbers, ``text`` a column with
    texts to write instead of numbers.
    """
    if table[value].isna().all():
        return style.message_figure(NO_VALUES)
    figure, parts = panels(table, panel, columns=columns, height=lambda rows: 0.32 * rows[row].nunique() + 1.3)
    norm = Normalize(*ends) if centre is None else TwoSlopeNorm(centre, *ends)
    colours = colormaps["crest" if centre is None else "vlag"]
    drawn_axes = []
    for ax, rows in parts:
        # All panels have one order of columns, regardless of a panel's first row.
        column_names = [name for name in table[column].unique() if (rows[column] == name).any()]
        order: Any = {"index": rows[row].unique(), "columns": column_names}
        values, texts = (
            rows.pivot(index=row, columns=column, values=name).reindex(**order) for name in (value, text or value)
        )
        texts = texts if text else texts.map(f"{{:{form}}}".format)
        # Not seaborn's heat map: that draws the whole figure once for each panel.
        numbers = values.to_numpy(float)
        ax.pcolormesh(np.ma.masked_invalid(numbers), cmap=colours, norm=norm, ec="white", lw=0.5)
        for (y, x), number in np.ndenumerate(numbers):
            if np.isfinite(number):
                shade = style.BLACK if relative_luminance(colours(norm(number))) > 0.408 else "white"
                ax.text(x + 0.5, y + 0.5, str(texts.iloc[y, x]), ha="center", va="center", fontsize=8, color=shade)
        ax.set(ylim=(len(values), 0), xticks=np.arange(values.shape[1]) + 0.5, xticklabels=values.columns)
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        _name_rows(ax, [str(name) for name in values.index], at=0.5)
        grid = ax.get_gridspec()
        cell_width = 0.6 * WIDTH / (grid.ncols if grid else 1) / values.shape[1]
        if 0.085 * max(len(str(name)) for name in values.columns) > cell_width:
            ax.set_xticks(ax.get_xticks(), values.columns, rotation=40, ha="right", rotation_mode="anchor")
        drawn_axes.append(ax)
    figure.colorbar(drawn_axes[0].collections[0], ax=drawn_axes, label=label, aspect=30, shrink=0.7)
    return figure


@style.empty_without_rows
def stacked(
    table: pd.DataFrame,
    value: str,
    *,
    row: str,
    part: str,
    styles: SeriesStyle,
    label: str,
    counts: str = "",
    panel: str = "",
    names: Mapping[str, str] = {},
    columns: int = 1,
) -> Figure:
    """Plot shares of a total (0–100%) as stacked bars, in the order of ``styles.names``.

    ``part`` is the column that names the part of a bar, ``counts`` a column whose numbers are written into wide parts.
    """
    looks = styles.styles([name for name in styles.names if name in set(table[part])])
    patterns = dict(zip(looks, _HATCHES, strict=False))
    words = _words(table, names)
    figure, parts = panels(
        table, panel, names=words, columns=columns, height=lambda rows: 0.42 * rows[row].nunique() + 1.0
    )
    for ax, rows in parts:
        bars = rows[row].unique()
        values_by_part = rows.pivot(index=row, columns=part).reindex(bars)
        left = np.zeros(len(bars))
        for name in (name for name in looks if name in set(rows[part])):
            width = values_by_part[value, name].fillna(0).to_numpy(float)
            options: Any = {"color": looks[name][0], "hatch": patterns.get(name, ""), "ec": "white"}
            ax.barh(range(len(bars)), width, 0.7, left, **options)
            for y in np.flatnonzero(width > 7).tolist() if counts else ():
                ax.text(
                    left[y] + width[y] / 2, y, f"{values_by_part[counts, name].iloc[y]:,.0f}", ha="center", va="center",
                    fontsize=9, bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.8},
                )  # fmt: skip
            left += width
        ax.set_yticks(range(len(bars)), [wrap_name(words.get(bar, str(bar))) for bar in bars])
        ax.set(xlim=(0, 100), ylim=(len(bars) - 0.5, -0.5), xlabel=label)
    handles = [
        Patch(facecolor=color, hatch=patterns.get(part, ""), edgecolor="white", label=name)
        for part, (color, _, name) in looks.items()
    ]
    legend(figure, handles)
    return figure


def key(color: str, marker: str, label: str, *, hollow: bool = False, line: str = "none") -> Line2D:
    """Return the legend entry of a marker."""
    return Line2D([], [], color=color, marker=marker, ls=line, label=label, mfc="white" if hollow else color)


def legend(figure: Figure, handles: Sequence) -> None:
    """Add one legend above all panels, with as many columns as its longest entry allows."""
    if handles:
        longest = 0.6 + 0.075 * max(len(str(handle.get_label())) for handle in handles)
        columns = max(1, min(4, len(handles), int(WIDTH / longest)))
        figure.legend(handles=list(handles), loc="outside upper center", ncols=columns)


def name_axes(figure: Figure, x: str = "", y: str = "") -> None:
    """Label the axes of a figure once for all panels."""
    visible_axes = [ax for ax in figure.axes if ax.axison]
    if len(visible_axes) == 1:
        visible_axes[0].set(xlabel=x, ylabel=y)
    else:
        figure.supxlabel(x, fontsize=11)
        figure.supylabel(y, fontsize=11)


def _words(table: pd.DataFrame, names: Mapping[str, str]) -> dict[str, str]:
    """Return values in words: ``names``, and the labels of the declared table."""
    by_column = tables.labels(table.attrs.get("table", ""))
    return _LEGEND | {value: words for labels in by_column.values() for value, words in labels.items()} | {**names}


def _limits(table: pd.DataFrame, value: str, limits: tuple[str, str] | str | None) -> tuple[str, str] | None:
    """Return the columns with the limits of ``value``, or None if it has no interval.

    For a declared table, only limits of the value itself are plotted. In other tables, ``ci_low`` and ``ci_high`` are
    limits of the value, unless the table has a corrected estimate, to which they then belong.

    Raises InputError: The table declares the limits for another estimate.
    """
    schema = tables.schemas().get(table.attrs.get("table", ""))
    intervals = [(estimate, (low, high)) for estimate, low, high in schema.intervals] if schema else []
    if limits is None or isinstance(limits, tuple):
        owners = [estimate for estimate, ends in intervals if limits and {*ends} & {*limits}]
        if owners and value not in owners:
            raise InputError(
                f"{', '.join(limits or ())} of {table.attrs['table']} are limits of {owners[0]!r}, not of {value!r}."
            )
        return limits
    if not schema and f"{value}_corrected" not in table:
        intervals = [(value, ("ci_low", "ci_high"))]
    return next((ends for estimate, ends in intervals if estimate == value and {*ends} <= {*table}), None)


def _axis(table: pd.DataFrame, value: str) -> str:
    """Return the label of an axis, with the unit that the table declares."""
    schema = tables.schemas().get(table.attrs.get("table", ""))
    unit = {c.name: c.unit for c in schema.columns}.get(value, "") if schema else ""
    name = value.removesuffix("_corrected")
    words = _QUANTITIES.get(name, name.replace("_", " ").capitalize())
    words += "" if name == value else ", bias-corrected"
    return f"{words} ({unit})" if unit else words


def _choose_styles(
    table: pd.DataFrame, color: str, styles: SeriesStyle, words: Mapping[str, str]
) -> dict[str, tuple[str, str, str]]:
    """Return colour, marker and name of each value of ``color``; without it, one style for all rows."""
    if not color:
        return {"": (style.BLUE, "o", "")}
    looks = styles.styles(list(dict.fromkeys(table[color])))
    return {v: (shade, marker, styles.names.get(v, words.get(v, name))) for v, (shade, marker, name) in looks.items()}


def _series(rows: pd.DataFrame, color: str, looks: Mapping) -> Iterator[tuple[pd.DataFrame, str, str]]:
    """Yield the rows of each value of ``color`` with their colour and marker; without it, all rows."""
    for value, (shade, marker, _) in looks.items():
        yield rows[rows[color] == value] if color else rows, shade, marker


def _keys(looks: Mapping[str, tuple[str, str, str]], line: str = "none") -> list[Artist]:
    return [key(*styles, line=line) for value, styles in looks.items() if value or styles[2]]


def _filled_mask(rows: pd.DataFrame, filled: str) -> np.ndarray:
    return rows[filled].to_numpy(bool) if filled else np.ones(len(rows), dtype=bool)


def _filled_keys(table: pd.DataFrame, filled: str, words: Mapping[str, str]) -> list[Artist]:
    """Return the legend entries of filled and hollow markers that occur and have names."""
    states = set(_filled_mask(table, filled)) if filled else set()
    pairs = ((True, words.get("filled", "")), (False, words.get("hollow", "")))
    return [key(style.GREY, "o", name, hollow=not state) for state, name in pairs if name and state in states]


def _name_rows(ax: Axes, names: list[str], at: float = 0.0) -> None:
    """Name the rows of a panel from position ``at``; hide names that the first panel of its line has, too."""
    place = ax.get_subplotspec()
    axes, column, names = ax.figure.axes, place.colspan.start if place else 0, list(map(wrap_name, names))
    first_axes = axes[axes.index(ax) - column]
    is_repeated = column > 0 and [text.get_text() for text in first_axes.get_yticklabels()] == names
    ax.set_yticks(np.arange(len(names)) + at, names, rotation=0)
    ax.tick_params(labelleft=not is_repeated)


def wrap_name(name: str) -> str:
    """Return a row's name; split a long name into two lines of about :data:`LONGEST` letters, and cut the second."""
    if len(name) <= 1.5 * LONGEST:
        return name
    lines = textwrap.wrap(name, LONGEST)
    second = " ".join(lines[1:])
    return f"{lines[0]}\n{second if len(second) <= LONGEST else second[: LONGEST - 1].rstrip() + '…'}"


def _offsets(count: int) -> np.ndarray:
    """Return the offsets of ``count`` colours from the centre of their row, in rows."""
    return (np.arange(count) - (count - 1) / 2) * 0.8 / count
