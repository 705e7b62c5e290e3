"""The forms that figures of several papers take: tables in, figures out, with one legend above all panels.

Every form takes a long table, names of its columns (an empty name: there is no such column) and, of the following,
what applies to it. Rows, panels and colours come in the order of the table; missing values are left out; a table
without rows, or of which every value is missing, gives a figure that says so.

- ``value``: The column that is drawn; ``row``: the one whose values are rows.
- ``color``: The column that colours tell apart; ``styles``: its colours, markers and names.
- ``panel``: The column with a panel for each value; ``columns``: how many are next to one another.
- ``names``: Values in words, in rows, panels and legend; without one the labels of a table that is declared and saved
  (:attr:`biaslab.schema.tables.Column.labels`). Also those of ``null_mean``, ``band``, ``mark``, ``filled`` and
  ``hollow``.
- ``label``, ``labels``: What an axis, or both of them, show, with the unit; ``xlim``, ``ylim``, ``ends``: their ends.
- ``limits``: The columns with the limits of the confidence interval; by default those that the table declares ``of``
  the value. None draws no intervals. Limits that the table declares for another estimate raise an InputError.
- ``fallback``: A column that is drawn, hollow and without an interval, where the value is missing.
- ``reference``: Where a line marks no bias or no change, None for none.
- ``filled``: A column of truth values: marks that it denies are hollow.
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
"""Inches that a report gives a figure."""
LONGEST = 38
"""Letters of a line of a row's name."""
NO_VALUES = (
    "Every value is missing: no person could be classified, or nothing was measured. The table gives the reason."
)
DECLARED = "declared"
"""Limits that the table declares for the value that is drawn."""
_LEGEND = {"null_mean": "null expectation at this n", "band": "null range (balanced model)", "mark": "as printed"}
_HATCHES = ("", "///", "...", "\\\\\\", "xx", "--", "oo", "++", "**")


@dataclass(frozen=True)
class SeriesStyle:
    """How the values of a column are told apart: by colour, marker and name; the next one where none is given."""

    # What the legend calls each; else the value itself.
    names: Mapping[str, str] = field(default_factory=dict)
    colors: Mapping[str, str] = field(default_factory=dict)
    markers: Mapping[str, str] = field(default_factory=dict)

    def styles(self, values: Sequence[str]) -> dict[str, tuple[str, str, str]]:
        """Return colour, marker and name of each value."""
        known = list(dict.fromkeys([*self.colors, *values]))
        found = {}
        for value in values:
            k = known.index(value)
            color = self.colors.get(value, style.PALETTE[k % len(style.PALETTE)])
            marker = self.markers.get(value, style.MARKERS[k % len(style.MARKERS)])
            found[value] = color, marker, self.names.get(value, str(value))
        return found


def series_style(known: Mapping[str, tuple[str, ...]]) -> SeriesStyle:
    """Return the look of values with a name, a colour and, where it is given, a marker each."""
    return SeriesStyle(*(dict(zip(known, part, strict=True)) for part in zip(*known.values(), strict=True)))


PLAIN = SeriesStyle()
OUTCOMES = series_style(
    {
        "judged": ("judged", style.LIGHT),
        "swapped": ("judged, in another order", style.VERMILION),
        "unclear": ("judged, order not clear", style.YELLOW),
        "uncertain": ("judge uncertain about a person", style.ORANGE),
        "no_face": ("no face", style.BLACK),
        "one_face": ("fewer faces than prompted", style.BLUE),
        "several_faces": ("more faces than prompted", style.GREEN),
        "overlapping": ("faces overlap", style.PURPLE),
        "face_too_small": ("a face too small", style.SKY),
        "unreadable": ("unreadable", style.GREY),
        "blocked": ("withheld by the model", style.GREY),
        "black": ("black image", style.GREY),
        "placeholder": ("placeholder of a filter", style.GREY),
        "duplicate": ("copy of another image", style.GREY),
        "unannotated": ("not annotated", style.GREY),
        "unanswered": ("no answer of the judge", style.GREY),
    }
)
"""What became of people that images were to show."""


def panel_by_model(table: pd.DataFrame, panel: str = "", names: Mapping[str, str] = {}) -> tuple[pd.DataFrame, str]:
    """Return a table and the column that names its panels: one a model where there are several, else as ``panel`` says.

    Of a ``panel`` with ``names``, each model has its own panels, with the model's name in front.
    """
    several = table["model"].nunique() > 1
    if not panel:
        return table, "model" if several else ""
    words = _words(table, names)
    named = table[panel].map(lambda name: words.get(name, name))
    table = table.assign(panel=table["model"] + ": " + named if several else named)
    # The panels of a model stand together.
    return table.sort_values("model", key=lambda of: pd.factorize(of)[0], kind="stable"), "panel"


def panels(
    table: pd.DataFrame,
    panel: str = "",
    *,
    names: Mapping[str, str] = {},
    columns: int = 2,
    height: float | Callable[[pd.DataFrame], float] = 3.4,
    **shared: Any,
) -> tuple[Figure, Iterator[tuple[Axes, pd.DataFrame]]]:
    """Return a figure with a panel for each value of a column, and the panels with their rows.

    ``names`` are the panels' titles, ``height`` the inches of a panel, or how many its rows ask for; ``shared`` are
    further arguments of ``matplotlib.pyplot.subplots``, such as ``sharex``.
    """
    groups = list(table.groupby(panel, sort=False)) if panel else [("", table)]
    columns = max(1, min(columns, len(groups)))
    asked = [height(rows) if callable(height) else height for _, rows in groups]
    heights = [max(asked[k : k + columns]) for k in range(0, len(groups), columns)]
    figure, axes = style.subplots(
        len(heights), columns, figsize=(WIDTH, sum(heights) + 0.5), squeeze=False, height_ratios=heights, **shared
    )  # fmt: skip
    for ax in axes.flat[len(groups) :]:
        ax.set_axis_off()
    for ax, (name, _) in zip(axes.flat, groups, strict=False):
        # About nine letters to an inch, and room for the names of rows; breaks that are in a name stay.
        lines = names.get(str(name), str(name)).splitlines()
        wrapped = "\n".join(textwrap.fill(line, int(8 * WIDTH / columns)) for line in lines)
        ax.set_title(wrapped, fontsize=11)
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
    """Draw estimates with their intervals, a row each; of several values of ``color``, side by side in the row.

    ``null_mean`` is a column with what chance alone gives, drawn as a grey mark; ``mark`` one with a value to compare
    with, a thin black mark; ``band`` the ends of what lies grey behind each estimate. A dot without a line has no
    interval.
    """
    ends = _limits(table, value, limits)
    if fallback:
        known = table[value].notna()
        table, filled = table.assign(known=known, **{value: table[value].where(known, table[fallback])}), "known"
    if table[value].isna().all():
        return style.nothing(NO_VALUES)
    words = _words(table, names)
    looks = _looks(table, color, styles, words)

    def beside(rows: pd.DataFrame) -> int:
        # Rows with one colour each need no room next to it.
        return len(looks) if color and rows.groupby(row)[color].nunique().max() > 1 else 1

    def height(rows: pd.DataFrame) -> float:
        return rows[row].nunique() * 0.34 * (1 + 0.45 * (beside(rows) - 1)) + 0.9

    figure, parts = panels(
        table, panel, names=words, columns=columns, height=height, sharex=xlim is None and columns == 1
    )
    name_axes(figure, label or _axis(table, value))
    for ax, rows in parts:
        values = list(dict.fromkeys(rows[row]))
        if reference is not None:
            style.zero_line(ax, reference)
        places = _beside(len(looks)) if beside(rows) > 1 else np.zeros(len(looks))
        tall = 0.3 / beside(rows)
        for offset, (some, shade, marker) in zip(places, _series(rows, color, looks), strict=True):
            y = some[row].map({name: i for i, name in enumerate(values)}).to_numpy(float) + offset
            if band:
                low, high = some[band[0]], some[band[1]]
                ax.barh(y, high - low, 2 * tall, left=low, color=style.GREY, alpha=0.22, lw=0, zorder=0.5)
            if null_mean:
                ax.vlines(some[null_mean], y - tall, y + tall, color=style.GREY, lw=4, alpha=0.5)
            if mark:
                ax.vlines(some[mark], y - tall, y + tall, color=style.BLACK, lw=1.4)
            if ends:
                ax.hlines(y, some[ends[0]], some[ends[1]], color=shade, lw=1.8, alpha=0.75)
            sure = _sure(some, filled)
            for mask, face in ((sure, shade), (~sure, "white")):
                ax.plot(some[value][mask], y[mask], marker, mfc=face, mec=shade, ms=6.5, zorder=3)
        _name_rows(ax, [words.get(name, str(name)) for name in values])
        ax.set_ylim(len(values) - 0.45, -0.55)
        if xlim:
            ax.set_xlim(*xlim)
        if columns > 1:
            # Numbers of small steps are long, and stand in one another in a narrow panel.
            ax.locator_params(axis="x", nbins=max(2, 6 - columns))
        # Every other row is shaded, so that the eye keeps to one.
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
    """Draw points, a row of the table each, against a diagonal on which both coordinates are equal.

    ``x`` and ``y`` are columns, ``limits`` those with the limits of both. ``size`` is a column of counts, drawn as the
    points' areas, with the number in large ones. Of a panel's points, the ``named`` farthest from the diagonal bear
    their ``point``. ``under`` draws what is below them, such as regions, for which ``keys`` are the legend's entries.
    """
    if table[[x, y]].dropna().empty:
        return style.nothing(NO_VALUES)
    for value, pair in zip((x, y), limits or (), strict=False):
        _limits(table, value, pair)
    words = _words(table, names)
    looks = _looks(table, color, styles, words)
    several = panel and table[panel].nunique() > 1
    side = min(5.2, WIDTH / columns) if several else 5.2
    figure, parts = panels(table, panel, names=words, columns=columns, height=side)
    drawn = list(parts)
    for ax, rows in drawn:
        if under:
            under(ax, rows)
        ax.plot(ends, ends, color=style.GREY, ls="--", lw=1, zorder=1)
        few = len(rows) <= 12
        for some, shade, marker in _series(rows, color, looks):
            if limits:
                (x0, x1), (y0, y1) = limits
                line: Any = {"color": shade, "lw": 1.8 if few else 0.8, "alpha": 0.75 if few else 0.35}
                ax.hlines(some[y], some[x0], some[x1], **line)
                ax.vlines(some[x], some[y0], some[y1], **line)
            areas = 30 + 40 * (some[size] - 1) if size else 60 if few else 30
            sure = _sure(some, filled)
            faces, edges = np.where(sure, shade, "white"), np.where(sure, "white", shade)
            ax.scatter(some[x], some[y], areas, faces, marker=marker, alpha=0.85, ec=edges, lw=1, zorder=3)
            for k in np.flatnonzero(some[size] > 1) if size else ():
                ax.text(
                    some[x].iloc[k], some[y].iloc[k], f"{some[size].iloc[k]:.0f}", ha="center", va="center",
                    fontsize=8, color="white" if sure[k] else style.BLACK, zorder=4,
                )  # fmt: skip
        ax.set(xlim=ends, ylim=ends, aspect="equal", xlabel=labels[0], ylabel=labels[1])
    legend(figure, [*_keys(looks), *_filled_keys(table, filled, words), *keys])
    # Last, because names find their places in the finished layout, which is then kept.
    if named:
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    for ax, rows in drawn if named else ():
        far = rows.loc[(rows[y] - rows[x]).abs().sort_values(ascending=False).index]
        far = far.dropna(subset=[x, y]).head(named)
        style.label_points(ax, far[x], far[y], far[point], avoid=(rows[x], rows[y]), laid_out=True)
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
    """Draw estimates along an ordered column, joined by lines, with their intervals.

    Rows come in the order of ``x``: numbers stand to scale, texts at even distances.
    Values of ``color`` are slightly offset from one another; ``sharey`` gives all panels one y axis.
    """
    if table[value].isna().all():
        return style.nothing(NO_VALUES)
    ends = _limits(table, value, DECLARED)
    words = _words(table, names)
    looks = _looks(table, color, styles, words)
    figure, parts = panels(table, panel, names=words, columns=columns, height=3.4, sharey=sharey)
    name_axes(figure, *labels)
    for ax, rows in parts:
        steps = list(dict.fromkeys(rows[x]))
        numbers = pd.api.types.is_numeric_dtype(rows[x])
        at = dict(zip(steps, steps if numbers else range(len(steps)), strict=True))
        wide = np.ptp(list(at.values())) / (len(steps) - 1) if len(steps) > 1 else 1
        if reference is not None:
            style.zero_line(ax, reference, axis="y")
        for offset, (some, shade, marker) in zip(_beside(len(looks)), _series(rows, color, looks), strict=True):
            places = some[x].map(at).to_numpy(float) + 0.25 * offset * wide
            if ends:
                ax.vlines(places, some[ends[0]], some[ends[1]], color=shade, lw=1.8, alpha=0.75)
            ax.plot(places, some[value], marker=marker, color=shade, lw=1, ms=6)
        ax.set_xticks(list(at.values()), [f"{s:g}" if numbers else str(s) for s in steps])
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

    ``label`` says what the colours show, ``ends`` are the values of the end colours, ``centre`` the one that is white
    between two colours (None for shades of one). ``form`` is the format of numbers, ``text`` a column with what is
    written in their place.
    """
    if table[value].isna().all():
        return style.nothing(NO_VALUES)
    figure, parts = panels(table, panel, columns=columns, height=lambda rows: 0.32 * rows[row].nunique() + 1.3)
    norm = Normalize(*ends) if centre is None else TwoSlopeNorm(centre, *ends)
    colours = colormaps["crest" if centre is None else "vlag"]
    drawn = []
    for ax, rows in parts:
        # Columns stand in one order in all panels, whichever of them a panel's first row has.
        here = [name for name in table[column].unique() if (rows[column] == name).any()]
        order: Any = {"index": rows[row].unique(), "columns": here}
        wide, written = (
            rows.pivot(index=row, columns=column, values=of).reindex(**order) for of in (value, text or value)
        )
        written = written if text else written.map(f"{{:{form}}}".format)
        # Not seaborn's heat map: that draws the whole figure once for each panel.
        numbers = wide.to_numpy(float)
        ax.pcolormesh(np.ma.masked_invalid(numbers), cmap=colours, norm=norm, ec="white", lw=0.5)
        for (y, x), number in np.ndenumerate(numbers):
            if np.isfinite(number):
                shade = style.BLACK if relative_luminance(colours(norm(number))) > 0.408 else "white"
                ax.text(x + 0.5, y + 0.5, str(written.iloc[y, x]), ha="center", va="center", fontsize=8, color=shade)
        ax.set(ylim=(len(wide), 0), xticks=np.arange(wide.shape[1]) + 0.5, xticklabels=wide.columns)
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        _name_rows(ax, [str(name) for name in wide.index], at=0.5)
        grid = ax.get_gridspec()
        room = 0.6 * WIDTH / (grid.ncols if grid else 1) / wide.shape[1]
        if 0.085 * max(len(str(name)) for name in wide.columns) > room:
            ax.set_xticks(ax.get_xticks(), wide.columns, rotation=40, ha="right", rotation_mode="anchor")
        drawn.append(ax)
    figure.colorbar(drawn[0].collections[0], ax=drawn, label=label, aspect=30, shrink=0.7)
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
    """Plot shares of a whole (0–100 %) as bars in parts, in the order of ``look.names``.

    ``part`` is the column that says which part a row is, ``counts`` one whose numbers are written into wide parts.
    """
    looks = styles.styles([name for name in styles.names if name in set(table[part])])
    patterns = dict(zip(looks, _HATCHES, strict=False))
    words = _words(table, names)
    figure, parts = panels(
        table, panel, names=words, columns=columns, height=lambda rows: 0.42 * rows[row].nunique() + 1.0
    )
    for ax, rows in parts:
        bars = rows[row].unique()
        wide = rows.pivot(index=row, columns=part).reindex(bars)
        left = np.zeros(len(bars))
        for name in (name for name in looks if name in set(rows[part])):
            width = wide[value, name].fillna(0).to_numpy(float)
            options: Any = {"color": looks[name][0], "hatch": patterns.get(name, ""), "ec": "white"}
            ax.barh(range(len(bars)), width, 0.7, left, **options)
            for y in np.flatnonzero(width > 7).tolist() if counts else ():
                ax.text(
                    left[y] + width[y] / 2, y, f"{wide[counts, name].iloc[y]:,.0f}", ha="center", va="center",
                    fontsize=9, bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.8},
                )  # fmt: skip
            left += width
        ax.set_yticks(range(len(bars)), [broken(words.get(bar, str(bar))) for bar in bars])
        ax.set(xlim=(0, 100), ylim=(len(bars) - 0.5, -0.5), xlabel=label)
    handles = [
        Patch(facecolor=color, hatch=patterns.get(part, ""), edgecolor="white", label=name)
        for part, (color, _, name) in looks.items()
    ]
    legend(figure, handles)
    return figure


def key(color: str, marker: str, label: str, *, hollow: bool = False, line: str = "none") -> Line2D:
    """Return a legend's entry for a marker."""
    return Line2D([], [], color=color, marker=marker, ls=line, label=label, mfc="white" if hollow else color)


def legend(figure: Figure, handles: Sequence) -> None:
    """Put one legend above all panels, in as many columns as its longest entry leaves room for."""
    if handles:
        longest = 0.6 + 0.075 * max(len(str(handle.get_label())) for handle in handles)
        columns = max(1, min(4, len(handles), int(WIDTH / longest)))
        figure.legend(handles=list(handles), loc="outside upper center", ncols=columns)


def name_axes(figure: Figure, x: str = "", y: str = "") -> None:
    """Say once, for all panels of a figure, what its axes show."""
    shown = [ax for ax in figure.axes if ax.axison]
    if len(shown) == 1:
        shown[0].set(xlabel=x, ylabel=y)
    else:
        figure.supxlabel(x, fontsize=11)
        figure.supylabel(y, fontsize=11)


def _words(table: pd.DataFrame, names: Mapping[str, str]) -> dict[str, str]:
    """Return values in words: given ones, and labels of the table that rows were saved as."""
    declared = tables.labels(table.attrs.get("table", ""))
    return _LEGEND | {value: words for labels in declared.values() for value, words in labels.items()} | {**names}


def _limits(table: pd.DataFrame, value: str, limits: tuple[str, str] | str | None) -> tuple[str, str] | None:
    """Return the columns with the limits of ``value``, or None where it has no interval.

    Of a declared table only limits of the value itself are drawn. Of other tables ``ci_low`` and ``ci_high`` are those
    of the value, unless the table has the corrected estimate, to which they then belong.

    Raises InputError: The table declares the limits for another estimate.
    """
    declared = tables.schemas().get(table.attrs.get("table", ""))
    intervals = [(of, (low, high)) for of, low, high in declared.intervals] if declared else []
    if limits is None or isinstance(limits, tuple):
        whose = [of for of, ends in intervals if limits and {*ends} & {*limits}]
        if whose and value not in whose:
            raise InputError(
                f"{', '.join(limits or ())} of {table.attrs['table']} are limits of {whose[0]!r}, not of {value!r}."
            )
        return limits
    if not declared and f"{value}_corrected" not in table:
        intervals = [(value, ("ci_low", "ci_high"))]
    return next((ends for of, ends in intervals if of == value and {*ends} <= {*table}), None)


def _axis(table: pd.DataFrame, value: str) -> str:
    """Return what an axis shows, with the unit that the table declares."""
    schema = tables.schemas().get(table.attrs.get("table", ""))
    unit = {c.name: c.unit for c in schema.columns}.get(value, "") if schema else ""
    words = value.replace("_", " ").capitalize()
    return f"{words} ({unit})" if unit else words


def _looks(
    table: pd.DataFrame, color: str, styles: SeriesStyle, words: Mapping[str, str]
) -> dict[str, tuple[str, str, str]]:
    """Return colour, marker and name of each value of ``color``; without it, of all rows."""
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


def _sure(rows: pd.DataFrame, filled: str) -> np.ndarray:
    return rows[filled].to_numpy(bool) if filled else np.ones(len(rows), dtype=bool)


def _filled_keys(table: pd.DataFrame, filled: str, words: Mapping[str, str]) -> list[Artist]:
    """Return a legend's entries for filled and hollow markers, as far as there are any and they have names."""
    there = set(_sure(table, filled)) if filled else set()
    pairs = ((True, words.get("filled", "")), (False, words.get("hollow", "")))
    return [key(style.GREY, "o", name, hollow=not full) for full, name in pairs if name and full in there]


def _name_rows(ax: Axes, names: list[str], at: float = 0.0) -> None:
    """Name the rows of a panel from ``at`` on, unless the first panel of its line has the same ones."""
    place = ax.get_subplotspec()
    axes, column, names = ax.figure.axes, place.colspan.start if place else 0, list(map(broken, names))
    first = axes[axes.index(ax) - column]
    again = column > 0 and [text.get_text() for text in first.get_yticklabels()] == names
    ax.set_yticks(np.arange(len(names)) + at, names, rotation=0)
    ax.tick_params(labelleft=not again)


def broken(name: str) -> str:
    """Return a row's name, a long one in two lines of about :data:`LONGEST` letters, of which the second may be cut."""
    if len(name) <= 1.5 * LONGEST:
        return name
    lines = textwrap.wrap(name, LONGEST)
    second = " ".join(lines[1:])
    return f"{lines[0]}\n{second if len(second) <= LONGEST else second[: LONGEST - 1].rstrip() + '…'}"


def _beside(count: int) -> np.ndarray:
    """Return where the values of a hue stand around the middle of their row, in rows."""
    return (np.arange(count) - (count - 1) / 2) * 0.8 / count
