"""The forms that figures of several papers take: tables in, figures out, with one legend below all panels.

Every form takes a long table and the names of its columns, a :class:`Look` for what has a colour, and ``panel``: the
column whose values have a panel each. Rows, panels and colours come in the order of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from biaslab.plots import style

WIDTH = 9.2
"""Inches that a report gives a figure."""


@dataclass(frozen=True)
class Look:
    """How the values of a column are told apart: each has a colour, a marker and a name."""

    names: Mapping[str, str] = field(default_factory=dict)
    """What the legend calls each value; the value itself where it is not among them."""
    colors: Mapping[str, str] = field(default_factory=dict)
    """A colour for each; the next of the palette where it is not among them."""
    markers: Mapping[str, str] = field(default_factory=dict)
    """A marker for each; the next one where it is not among them."""

    def of(self, values: Sequence[str]) -> dict[str, tuple[str, str, str]]:
        """Return colour, marker and name of each value."""
        known = list(dict.fromkeys([*self.colors, *values]))
        return {
            value: (
                self.colors.get(value, style.PALETTE[known.index(value) % len(style.PALETTE)]),
                self.markers.get(value, style.MARKERS[known.index(value) % len(style.MARKERS)]),
                self.names.get(value, str(value)),
            )
            for value in values
        }


PLAIN = Look()


def panels(
    table: pd.DataFrame,
    panel: str = "",
    *,
    names: Mapping[str, str] = {},
    columns: int = 2,
    height: float | Callable[[pd.DataFrame], float] = 3.4,
    **shared,
) -> tuple[Figure, Iterator[tuple[Axes, pd.DataFrame]]]:
    """Return a figure with a panel for each value of a column, and the panels with their rows.

    Args:
        table: Rows.
        panel: The column; empty for one panel of all rows.
        names: Titles of the panels; the value itself where it is not among them.
        columns: Panels beside one another, at most.
        height: Inches of a panel, or how many its rows ask for.
        shared: Further arguments of ``matplotlib.pyplot.subplots``, such as ``sharex``.
    """
    style.use()
    groups = list(table.groupby(panel, sort=False)) if panel else [("", table)]
    columns = max(1, min(columns, len(groups)))
    lines = [groups[k : k + columns] for k in range(0, len(groups), columns)]
    of = height if callable(height) else lambda rows: height
    heights = [max(of(rows) for _, rows in line) for line in lines]
    figure, axes = plt.subplots(
        len(lines), columns, figsize=(WIDTH, sum(heights) + 0.5), squeeze=False,
        gridspec_kw={"height_ratios": heights}, **shared,
    )  # fmt: skip
    for ax in axes.flat[len(groups) :]:
        ax.set_axis_off()
    for ax, (name, _) in zip(axes.flat, groups, strict=False):
        ax.set_title(names.get(name, str(name)), fontsize=11)
        ax.tick_params(labelbottom=True)
    return figure, ((ax, rows) for ax, (_, rows) in zip(axes.flat, groups, strict=False))


def estimates(
    table: pd.DataFrame,
    value: str,
    *,
    row: str,
    hue: str = "",
    look: Look = PLAIN,
    panel: str = "",
    panel_names: Mapping[str, str] = {},
    row_names: Mapping[str, str] = {},
    label: str,
    limits: tuple[str, str] = ("ci_low", "ci_high"),
    reference: float | None = 0.0,
    floor: str = "",
    floor_name: str = "by chance at this n",
    filled: str = "",
    filled_names: tuple[str, str] = ("", ""),
    xlim: tuple[float, float] | None = None,
    columns: int = 1,
    inch: float = 0.34,
) -> Figure:
    """Draw estimates with their intervals, a row each; of several values of ``hue``, side by side in the row.

    Args:
        table: Rows, in the order to draw from the top.
        value: The column with the estimates; missing ones are left out.
        row: The column whose values are rows.
        hue: The column that colours tell apart; empty for none.
        look: Its colours, markers and names.
        panel: The column with a panel for each value; empty for one panel.
        panel_names: Titles of the panels.
        row_names: What rows are called; the value itself where it is not among them.
        label: The x axis: what is drawn, with its unit.
        limits: The columns with the limits; a dot without a line has none.
        reference: Where a line marks no bias or no change; None for none.
        floor: A column with what chance alone gives, drawn as a grey mark; empty for none.
        floor_name: What the legend calls it.
        filled: A column of truth values: dots that it denies are hollow.
        filled_names: What the legend calls filled and hollow ones.
        xlim: Ends of the x axis.
        columns: Panels beside one another.
        inch: Height of a row for each value of ``hue``.
    """
    hues = list(dict.fromkeys(table[hue])) if hue else [""]
    looks = look.of(hues) if hue else {"": (style.BLUE, "o", "")}

    def height(rows: pd.DataFrame) -> float:
        return rows[row].nunique() * max(0.3, inch * (1 + 0.45 * (len(hues) - 1))) + 0.9

    figure, parts = panels(
        table, panel, names=panel_names, columns=columns, height=height, sharex=xlim is None and columns == 1
    )
    alike = (
        columns > 1 and panel and len({tuple(rows[row].unique()) for _, rows in table.groupby(panel)}) == 1
    )
    for ax, rows in parts:
        names = list(dict.fromkeys(rows[row]))
        if reference is not None:
            style.zero_line(ax, reference)
        for offset, of in zip(_beside(len(hues)), hues, strict=True):
            color, marker, _ = looks[of]
            some = rows[rows[hue] == of] if hue else rows
            y = some[row].map({name: i for i, name in enumerate(names)}).to_numpy(float) + offset
            if floor:
                ax.vlines(
                    some[floor], y - 0.3 / len(hues), y + 0.3 / len(hues), color=style.GREY, lw=4, alpha=0.5
                )
            sure = some[filled].to_numpy(bool) if filled else np.ones(len(some), dtype=bool)
            ax.hlines(y, some[limits[0]], some[limits[1]], color=color, lw=1.8, alpha=0.75)
            for mask, face in ((sure, color), (~sure, "white")):
                ax.plot(some[value][mask], y[mask], marker, mfc=face, mec=color, ms=6.5, zorder=3)
        ax.set_yticks(range(len(names)), [row_names.get(name, str(name)) for name in names])
        ax.tick_params(labelleft=not alike or ax.get_subplotspec().is_first_col())
        ax.set_ylim(len(names) - 0.45, -0.55)
        ax.set_xlabel(label)
        if xlim:
            ax.set_xlim(*xlim)
        _stripes(ax, len(names))
    handles = [key(*looks[of]) for of in hues] if hue else []
    if floor:
        handles.append(Line2D([], [], color=style.GREY, lw=4, alpha=0.5, label=floor_name))
    if filled and any(filled_names):
        there = set(table[filled].astype(bool))
        named = zip((True, False), filled_names, strict=True)
        handles += [key(style.GREY, "o", told, hollow=not sure) for sure, told in named if sure in there]
    legend(figure, handles)
    return figure


def diagonal(
    table: pd.DataFrame,
    x: str,
    y: str,
    *,
    labels: tuple[str, str],
    ends: tuple[float, float],
    hue: str = "",
    look: Look = PLAIN,
    panel: str = "",
    panel_names: Mapping[str, str] = {},
    limits: tuple[tuple[str, str], tuple[str, str]] | None = None,
    band: tuple[str, str] | None = None,
    names: str = "",
    named: int = 0,
    columns: int = 2,
    under: Callable[[Axes, pd.DataFrame], None] | None = None,
) -> Figure:
    """Draw points against a diagonal on which both coordinates are equal.

    Args:
        table: Rows, a point each.
        x: The column across.
        y: The column up.
        labels: What both axes show, with units.
        ends: Ends of both axes.
        hue: The column that colours tell apart; empty for none.
        look: Its colours, markers and names.
        panel: The column with a panel for each value; empty for one panel.
        panel_names: Titles of the panels.
        limits: Columns with the limits of x and of y, drawn as thin lines.
        band: Columns with the ends of what a fair model shows of y, at their medians.
        names: The column with the names of points.
        named: How many points are named, the farthest from the diagonal first.
        columns: Panels beside one another.
        under: Draws what lies below the points of a panel, such as regions.
    """
    hues = list(dict.fromkeys(table[hue])) if hue else [""]
    looks = look.of(hues) if hue else {"": (style.BLUE, "o", "")}
    side = min(5.2, WIDTH / columns if table[panel].nunique() > 1 else 5.2) if panel else 5.2
    figure, parts = panels(table, panel, names=panel_names, columns=columns, height=side)
    for ax, rows in parts:
        if under:
            under(ax, rows)
        if band and rows[list(band)].notna().all(axis=1).any():
            ax.axhspan(*rows[list(band)].median(), color=style.LIGHT, zorder=0)
        ax.plot(ends, ends, color=style.GREY, ls="--", lw=1, zorder=1)
        for of in hues:
            color, marker, _ = looks[of]
            some = rows[rows[hue] == of] if hue else rows
            if limits:
                (x0, x1), (y0, y1) = limits
                ax.hlines(some[y], some[x0], some[x1], color=color, lw=0.8, alpha=0.35)
                ax.vlines(some[x], some[y0], some[y1], color=color, lw=0.8, alpha=0.35)
            ax.plot(some[x], some[y], marker, color=color, ms=5.5, alpha=0.8, mec="white", mew=0.4, zorder=3)
        ax.set(xlim=ends, ylim=ends, aspect="equal", xlabel=labels[0], ylabel=labels[1])
        if named:
            far = rows.loc[(rows[y] - rows[x]).abs().sort_values(ascending=False).index]
            far = far.dropna(subset=[x, y]).head(named)
            style.label_points(ax, far[x], far[y], far[names], avoid=(rows[x], rows[y]))
    handles = [key(*looks[of]) for of in hues] if hue else []
    if band:
        handles.append(Patch(color=style.LIGHT, label="scores of a fair model"))
    legend(figure, handles)
    return figure


def trends(
    table: pd.DataFrame,
    x: str,
    value: str,
    *,
    labels: tuple[str, str],
    hue: str = "",
    look: Look = PLAIN,
    panel: str = "",
    panel_names: Mapping[str, str] = {},
    limits: tuple[str, str] = ("ci_low", "ci_high"),
    reference: float | None = None,
    ylim: tuple[float, float] | None = None,
    columns: int = 2,
) -> Figure:
    """Draw estimates along an ordered column, joined by lines, with their intervals.

    Args:
        table: Rows, in the order of ``x``; numbers stand to scale, texts at equal distances.
        x: The column across.
        value: The column up.
        labels: What both axes show, with units.
        hue: The column that colours tell apart; its values stand a little beside one another.
        look: Its colours, markers and names.
        panel: The column with a panel for each value; empty for one panel.
        panel_names: Titles of the panels.
        limits: The columns with the limits.
        reference: Where a line marks no bias or no change; None for none.
        ylim: Ends of the y axis.
        columns: Panels beside one another.
    """
    hues = list(dict.fromkeys(table[hue])) if hue else [""]
    looks = look.of(hues) if hue else {"": (style.BLUE, "o", "")}
    figure, parts = panels(table, panel, names=panel_names, columns=columns, height=3.4, sharey=True)
    for ax, rows in parts:
        steps = list(dict.fromkeys(rows[x]))
        numbers = pd.api.types.is_numeric_dtype(rows[x])
        at = dict(zip(steps, steps if numbers else range(len(steps)), strict=True))
        wide = (max(at.values()) - min(at.values())) / max(len(steps) - 1, 1) if len(steps) > 1 else 1
        if reference is not None:
            style.zero_line(ax, reference, axis="y")
        for offset, of in zip(_beside(len(hues)), hues, strict=True):
            color, marker, _ = looks[of]
            some = rows[rows[hue] == of] if hue else rows
            places = some[x].map(at).to_numpy(float) + 0.25 * offset * wide
            ax.vlines(places, some[limits[0]], some[limits[1]], color=color, lw=1.8, alpha=0.75)
            ax.plot(places, some[value], marker=marker, color=color, lw=1, ms=6)
        ax.set_xticks(list(at.values()), [f"{s:g}" if numbers else str(s) for s in steps])
        ax.set(xlabel=labels[0], ylabel=labels[1])
        if ylim:
            ax.set_ylim(*ylim)
    legend(figure, [key(*looks[of], line="-") for of in hues] if hue else [])
    return figure


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
    panel_names: Mapping[str, str] = {},
    form: str = ".0f",
    columns: int = 1,
) -> Figure:
    """Draw a value for each pair of a row and a column as a colour, with the number in it.

    Args:
        table: Rows, one for each cell.
        value: The column with the values; cells without one stay white.
        row: The column whose values are rows.
        column: The column whose values are columns.
        label: What the colours show, with its unit.
        ends: The values of the two end colours.
        centre: The value that is white between two colours; None for shades of one colour.
        panel: The column with a panel for each value; empty for one panel.
        panel_names: Titles of the panels.
        form: How numbers are written; empty for none.
        columns: Panels beside one another.
    """
    figure, parts = panels(
        table, panel, names=panel_names, columns=columns, height=lambda rows: 0.32 * rows[row].nunique() + 1.3
    )
    colours = "vlag" if centre is not None else "crest"
    for ax, rows in parts:
        wide = rows.pivot(index=row, columns=column, values=value)
        wide = wide.loc[list(dict.fromkeys(rows[row])), list(dict.fromkeys(rows[column]))]
        sns.heatmap(
            wide, ax=ax, cmap=colours, vmin=ends[0], vmax=ends[1], center=centre, annot=bool(form), fmt=form or "g",
            annot_kws={"fontsize": 8}, linewidths=0.5, cbar_kws={"label": label},
        )  # fmt: skip
        ax.set(xlabel="", ylabel="")
        ax.tick_params(axis="both", length=0)
    return figure


def stacked(
    table: pd.DataFrame,
    value: str,
    *,
    row: str,
    part: str,
    look: Look,
    label: str,
    counts: str = "",
    panel: str = "",
    panel_names: Mapping[str, str] = {},
    row_names: Mapping[str, str] = {},
    columns: int = 1,
) -> Figure:
    """Draw shares of a whole as bars in parts, in the order of ``look.names``.

    Args:
        table: Rows, one for each part of each bar.
        value: The column with the shares (0–100 %).
        row: The column whose values are bars.
        part: The column that says which part a row is.
        look: The parts' order, colours and names.
        label: The x axis: what is shared out.
        counts: A column whose numbers are written into parts that have room; empty for none.
        panel: The column with a panel for each value; empty for one panel.
        panel_names: Titles of the panels.
        row_names: What bars are called.
        columns: Panels beside one another.
    """
    there = [p for p in look.names if p in set(table[part])]
    looks = look.of(there)
    hatches = dict(zip(there, ("", "///", "...", "\\\\\\", "xx", "--", "oo", "++", "**"), strict=False))
    figure, parts = panels(
        table, panel, names=panel_names, columns=columns, height=lambda rows: 0.42 * rows[row].nunique() + 1.0
    )
    for ax, rows in parts:
        bars = list(dict.fromkeys(rows[row]))
        for y, bar in enumerate(bars):
            of, left = rows[rows[row] == bar].set_index(part), 0.0
            for name in (p for p in there if p in of.index):
                width = float(of.loc[name, value])
                ax.barh(
                    y,
                    width,
                    left=left,
                    height=0.7,
                    color=looks[name][0],
                    hatch=hatches.get(name, ""),
                    ec="white",
                )
                if counts and width > 7:
                    ax.text(
                        left + width / 2, y, f"{of.loc[name, counts]:,.0f}", ha="center", va="center", fontsize=9,
                        bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.8},
                    )  # fmt: skip
                left += width
        ax.set_yticks(range(len(bars)), [row_names.get(bar, str(bar)) for bar in bars])
        ax.set(xlim=(0, 100), ylim=(len(bars) - 0.5, -0.5), xlabel=label)
    handles = [
        Patch(facecolor=looks[p][0], hatch=hatches.get(p, ""), edgecolor="white", label=looks[p][2])
        for p in there
    ]
    legend(figure, handles)
    return figure


def key(color: str, marker: str, label: str, *, hollow: bool = False, line: str = "none") -> Line2D:
    """Return a legend's entry for a marker."""
    return Line2D([], [], color=color, marker=marker, ls=line, label=label, mfc="white" if hollow else color)


def legend(figure: Figure, handles: Sequence, columns: int = 3) -> None:
    """Put one legend below all panels of a figure."""
    if handles:
        figure.legend(handles=list(handles), loc="outside lower center", ncols=min(columns, len(handles)))


def _beside(count: int) -> np.ndarray:
    """Return where the values of a hue stand around the middle of their row, in rows."""
    return np.linspace(-0.3, 0.3, count) if count > 1 else np.zeros(1)


def _stripes(ax: Axes, rows: int) -> None:
    """Shade every other row, so that the eye keeps to one."""
    if rows > 3:
        for k in range(0, rows, 2):
            ax.axhspan(k - 0.5, k + 0.5, color=style.LIGHT, alpha=0.35, lw=0, zorder=0)
