"""Figures of gender triplets: tables of :mod:`biaslab.studies.triplets` in, figures out."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from biaslab.plots import style

METRIC_NAMES = {
    "t": "Text embedding",
    "z0": "Final latent",
    "ssim": "SSIM",
    "diff_pix": "Differing pixels",
    "resnet": "ResNet-50",
    "clip": "CLIP",
    "dino": "DINO",
    "split_product": "Split-product",
}
GROUP_NAMES = {
    "explicitly_guided": "explicitly guided",
    "implicitly_guided": "implicitly guided",
    "explicitly_independent": "explicitly independent",
    "implicitly_independent": "implicitly independent",
    "hidden": "hidden",
    "nouns": "nouns of prompts",
    "all": "all objects",
}
_SHORT_NAMES = {
    "explicitly_guided": "expl.\nguided",
    "implicitly_guided": "impl.\nguided",
    "explicitly_independent": "expl.\nindep.",
    "implicitly_independent": "impl.\nindep.",
    "hidden": "hidden",
    "nouns": "nouns",
}
PAIR_NAMES = {
    "neutral-feminine": "neutral, feminine",
    "neutral-masculine": "neutral, masculine",
    "feminine-masculine": "feminine, masculine",
    "triplet": "all three",
}
FEMININE, MASCULINE = style.FEMALE, style.MALE
_BARE = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
# From "no" to "also after the strictest correction".
_LEVELS = ("#FFFFFF", "#F6D9A8", "#9CC9E6", "#0072B2")


def _order(column: pd.Series) -> list[str]:
    return list(dict.fromkeys(column))


def _offsets(n: int, reach: float = 0.25) -> np.ndarray:
    return np.linspace(-reach, reach, n) if n > 1 else np.zeros(1)


def _looks(names: list[str]) -> dict[str, tuple[str, str]]:
    return {
        name: (style.PALETTE[i % len(style.PALETTE)], style.MARKERS[i % len(style.MARKERS)])
        for i, name in enumerate(names)
    }


def _datasets(ax: Axes, names: list[str]) -> None:
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    for y in range(len(names) - 1):
        ax.axhline(y + 0.5, color=style.LIGHT, lw=0.8, zorder=0)


def gaps(gap: pd.DataFrame) -> Figure:
    """Draw the gap of each model and dataset, one panel a metric, in the metric's own unit.

    Where cases were measured the line is the gap's interval; where only printed means exist the mark is hollow
    (grey: reconstructed from a damaged text) and the line is what their rounding leaves open. ``?`` stands at 0
    where a value is missing.

    Args:
        gap: Rows of ``triplets_disparity_gap``.
    """
    metrics, datasets, looks = _order(gap["metric"]), _order(gap["dataset"]), _looks(_order(gap["model"]))
    columns = min(4, len(metrics))
    lines = -(-len(metrics) // columns)
    figure, axes = plt.subplots(
        lines,
        columns,
        figsize=(max(5.0, 2.2 * columns + 1.8), lines * (0.55 * len(datasets) + 0.9) + 0.5),
        sharey=True,
        squeeze=False,
    )
    for ax in axes.flat[len(metrics) :]:
        ax.set_visible(False)
    for ax, metric in zip(axes.flat, metrics, strict=False):
        style.zero_line(ax)
        of_metric = gap[gap["metric"] == metric]
        for (model, (color, marker)), offset in zip(looks.items(), _offsets(len(looks)), strict=True):
            rows = of_metric[of_metric["model"] == model]
            y = rows["dataset"].map(datasets.index).to_numpy() + offset
            loose = rows["ci_low"].isna() & (rows["rounding"] > 0)
            ax.hlines(
                y[loose],
                (rows["gap"] - rows["rounding"])[loose],
                (rows["gap"] + rows["rounding"])[loose],
                color=color,
                lw=1.2,
                zorder=2,
            )
            style.dots_with_intervals(
                ax, rows["gap"], rows["ci_low"], rows["ci_high"], y, color=color, marker=marker, size=5.5
            )
            repaired = (rows["reading"] == "reconstructed") & rows["gap"].notna()
            ax.plot(rows["gap"][repaired], y[repaired], marker, color=color, mfc="#BBBBBB", ms=5.5, zorder=4)
            for missing in y[rows["gap"].isna()]:
                ax.text(
                    0,
                    missing,
                    "?",
                    color=color,
                    ha="center",
                    va="center",
                    fontsize=9,
                    weight="bold",
                    bbox=_BARE,
                )
        percent = (of_metric["unit"] == "%").any()
        ax.set_title(METRIC_NAMES.get(metric, metric), fontsize=11)
        ax.set_xlabel(f"{of_metric['space'].iloc[0]} space" + (", points" if percent else ""), fontsize=10)
        ax.margins(x=0.12)
        ax.locator_params(axis="x", nbins=3)
        _datasets(ax, datasets)
    handles = [
        Line2D([], [], color=c, marker=m, ls="", markerfacecolor="white", label=n)
        for n, (c, m) in looks.items()
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    figure.supxlabel(
        "← neutral nearer to feminine          gap          neutral nearer to masculine →", fontsize=11
    )
    return figure


def summary(summary: pd.DataFrame, gap: pd.DataFrame) -> Figure:
    """Draw the relative gap of each metric over datasets with its interval, over the cells behind it.

    Args:
        summary: Rows of ``triplets_gap_summary`` of one model, or of all models together.
        gap: The rows of ``triplets_disparity_gap`` that it summarises.
    """
    names = [f"{METRIC_NAMES.get(r.metric, r.metric)} ({r.space})" for r in summary.itertuples()]
    datasets = _order(gap["dataset"])
    figure, ax = plt.subplots(figsize=(8.8, 0.52 * len(names) + 1.9))
    style.zero_line(ax)
    y = np.arange(len(names))
    for (dataset, (color, marker)), offset in zip(
        _looks(datasets).items(), _offsets(len(datasets), 0.18), strict=True
    ):
        cells = gap[gap["dataset"] == dataset]
        place = cells["metric"].map({m: i for i, m in enumerate(summary["metric"])})
        ax.plot(
            cells["percent_nearer"],
            place + 0.12 + offset / 2,
            marker,
            markerfacecolor="none",
            markeredgecolor=color,
            alpha=0.75,
            markersize=4.5,
            label=dataset,
        )
    style.dots_with_intervals(
        ax,
        summary["percent_nearer"],
        summary["percent_ci_low"],
        summary["percent_ci_high"],
        y - 0.22,
        color=style.BLACK,
        size=7,
        label="mean over datasets",
    )
    _datasets(ax, names)
    ax.set_xlabel("How much nearer neutral is to masculine than to feminine (% of the feminine distance)")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=6, columnspacing=1.2)
    return figure


def co_occurrence(table: pd.DataFrame) -> Figure:
    """Draw co-occurrence similarity of neutral to feminine and to masculine, one panel a model.

    Args:
        table: Rows of ``triplets_co_occurrence``.
    """
    models, datasets = _order(table["model"]), _order(table["dataset"])
    figure, axes = plt.subplots(
        1,
        len(models),
        figsize=(max(5.5, 2.7 * len(models) + 1.5), 0.45 * len(datasets) + 1.6),
        sharey=True,
        sharex=True,
        squeeze=False,
    )
    for ax, model in zip(axes.flat, models, strict=True):
        rows = table[table["model"] == model]
        y = rows["dataset"].map(datasets.index)
        ax.hlines(y, rows["feminine"], rows["masculine"], color=style.GREY, lw=1.5, zorder=1)
        ax.plot(rows["feminine"], y, "o", color=FEMININE, label="neutral and feminine")
        ax.plot(rows["masculine"], y, "s", color=MASCULINE, label="neutral and masculine")
        ax.set_title(model)
        ax.margins(x=0.12)
        _datasets(ax, datasets)
    figure.supxlabel("Co-occurrence similarity of objects (0–1)", fontsize=11)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def bias_scores(scores: pd.DataFrame, *, most: int = 10) -> Figure:
    """Draw the objects that lean most to each gender, one panel a dataset, for one model.

    Filled marks differ from 0.5 after Holm's correction at 0.05.

    Args:
        scores: Rows of ``triplets_bias_score``, or of ``triplets_group_bias_score`` of one group, of one model.
        most: Objects on each side of each panel: those whose interval is farthest from 0.5.
    """
    datasets = _order(scores["dataset"])
    shown = [_leaning(scores[scores["dataset"] == d], most) for d in datasets]
    columns = min(2, len(datasets))
    lines = -(-len(datasets) // columns)
    tallest = max(len(rows) for rows in shown)
    figure, axes = plt.subplots(
        lines,
        columns,
        figsize=(5.0 * columns, lines * (0.24 * tallest + 0.9) + 0.6),
        sharex=True,
        squeeze=False,
    )
    for ax in axes.flat[len(datasets) :]:
        ax.set_visible(False)
    for ax, dataset, rows in zip(axes.flat, datasets, shown, strict=False):
        style.zero_line(ax, 0.5)
        y = np.arange(len(rows))
        for side, color, marker in (
            (rows["bias_score"] < 0.5, FEMININE, "o"),
            (rows["bias_score"] > 0.5, MASCULINE, "s"),
            (rows["bias_score"] == 0.5, style.GREY, "D"),
        ):
            some = side.to_numpy()
            ax.hlines(y[some], rows["ci_low"][side], rows["ci_high"][side], color=color, lw=1.8, alpha=0.75)
            sure = some & (rows["p_holm"] < 0.05).to_numpy()
            ax.plot(rows["bias_score"][sure], y[sure], marker, color=color, markersize=6)
            ax.plot(
                rows["bias_score"][some & ~sure],
                y[some & ~sure],
                marker,
                markerfacecolor="white",
                markeredgecolor=color,
                markersize=6,
            )
        ax.set_yticks(
            y, [f"{o} (n = {n:,.0f})" for o, n in zip(rows["object"], rows["n"], strict=True)], fontsize=8
        )
        ax.set_ylim(len(rows) - 0.4, -0.6)
        ax.set_xlim(-0.03, 1.03)
        ax.set_title(dataset)
    figure.supxlabel("← feminine          bias score          masculine →", fontsize=11)
    return figure


def _leaning(rows: pd.DataFrame, most: int) -> pd.DataFrame:
    """Return the objects that lean most, masculine first: ranked by the limit of the interval nearer to 0.5."""
    masculine = rows[rows["bias_score"] > 0.5].nlargest(most, ["ci_low", "bias_score"])
    feminine = rows[rows["bias_score"] < 0.5].nsmallest(most, ["ci_high", "bias_score"])
    return pd.concat([masculine, feminine.iloc[::-1]])


def tests(table: pd.DataFrame, *, alpha: float = 0.05) -> Figure:
    """Draw p-values of chi-square tests by dependency group, coloured by what is left after correction.

    Args:
        table: Rows of ``triplets_group_chi_square``.
        alpha: The level below which a test is called significant.
    """
    models, groups = _order(table["model"]), [g for g in GROUP_NAMES if g in set(table["dependency_group"])]
    cells = list(table[["dataset", "pair"]].drop_duplicates().itertuples(index=False, name=None))
    figure, axes = plt.subplots(
        1,
        len(models),
        figsize=(max(6.0, 0.47 * len(groups) * len(models) + 2.6), 0.27 * len(cells) + 2.6),
        sharey=True,
        squeeze=False,
    )
    for ax, model in zip(axes.flat, models, strict=True):
        rows = table[table["model"] == model].set_index(["dataset", "pair", "dependency_group"])
        level = np.full((len(cells), len(groups)), np.nan)
        for i, cell in enumerate(cells):
            for j, group in enumerate(groups):
                if (*cell, group) not in rows.index:
                    continue
                found = rows.loc[(*cell, group)]
                known = not np.isnan(found["p"])
                level[i, j] = sum(found[c] < alpha for c in ("p", "p_bh", "p_holm")) if known else np.nan
                ax.text(
                    j,
                    i,
                    _p_text(found["p_relation"], found["p"]),
                    ha="center",
                    va="center",
                    fontsize=7.5,
                    color="white" if level[i, j] == 3 else style.BLACK,
                )
        ax.imshow(level, cmap=ListedColormap(_LEVELS), vmin=0, vmax=3, aspect="auto")
        ax.set_xticks(
            range(len(groups)),
            [GROUP_NAMES[g] for g in groups],
            rotation=55,
            ha="right",
            rotation_mode="anchor",
            fontsize=8.5,
        )
        ax.set_yticks(range(len(cells)), [f"{d}: {PAIR_NAMES.get(p, p)}" for d, p in cells], fontsize=8.5)
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        ax.set_title(model)
        for i in range(1, len(cells)):
            new = cells[i][0] != cells[i - 1][0]
            ax.axhline(i - 0.5, color=style.GREY if new else style.LIGHT, lw=1.2 if new else 0.6)
        for j in range(1, len(groups)):
            ax.axvline(j - 0.5, color=style.LIGHT, lw=0.6)
    meanings = (
        f"p ≥ {alpha:g}",
        f"p < {alpha:g} uncorrected only",
        "also after Benjamini–Hochberg",
        "also after Holm",
    )
    handles = [
        Patch(facecolor=c, edgecolor="#999999", label=m) for c, m in zip(_LEVELS, meanings, strict=True)
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2 if len(models) == 1 else 4)
    return figure


def _p_text(relation: str, p: float) -> str:
    if np.isnan(p):
        return "–"
    number = f"{p:.3f}".removeprefix("0") if p >= 0.001 else f"{p:.0e}".replace("e-0", "e-")
    return f"<{number}" if relation == "<" else number.replace("1.000", "1")


def group_share(table: pd.DataFrame) -> Figure:
    """Draw the share of images that hold each dependency group, by dataset, one panel a model.

    Args:
        table: Rows of ``triplets_group_share``.
    """
    figure, axes, groups = _by_group(table)
    for ax, model in zip(axes.flat, _order(table["model"]), strict=True):
        looks = _looks(_order(table["dataset"]))
        for (dataset, (color, marker)), offset in zip(looks.items(), _offsets(len(looks), 0.28), strict=True):
            rows = table[(table["model"] == model) & (table["dataset"] == dataset)]
            style.dots_with_intervals(
                ax,
                rows["percent_images"],
                rows["ci_low"],
                rows["ci_high"],
                rows["dependency_group"].map(groups.index) + offset,
                color=color,
                marker=marker,
                label=dataset,
            )
        ax.set_xlim(-2, 102)
        ax.set_xlabel("Images with the group (%)")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure


def group_objects(table: pd.DataFrame) -> Figure:
    """Draw how many different objects each dependency group has, by dataset, one panel a model.

    Args:
        table: Rows of ``triplets_group_objects``.
    """
    figure, axes, groups = _by_group(table)
    for ax, model in zip(axes.flat, _order(table["model"]), strict=True):
        looks = _looks(_order(table["dataset"]))
        for (dataset, (color, marker)), offset in zip(looks.items(), _offsets(len(looks), 0.28), strict=True):
            rows = table[(table["model"] == model) & (table["dataset"] == dataset)]
            y = rows["dependency_group"].map(groups.index) + offset
            ax.plot(rows["objects"], y, marker, color=color, label=dataset)
        # Whole decades, so that few objects do not leave an axis without a labelled tick.
        known = table.loc[table["objects"] > 0, "objects"]
        ends = np.log10([known.min() / 1.05, known.max() * 1.05]) if len(known) else [0, 1]
        ax.set_xscale("log")
        ax.set_xlim(10.0 ** np.floor(ends[0]), 10.0 ** np.ceil(ends[1]))
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.xaxis.set_minor_formatter("")
        ax.set_xlabel("Different objects or nouns (logarithmic)")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure


def _by_group(table: pd.DataFrame) -> tuple[Figure, np.ndarray, list[str]]:
    groups = [g for g in GROUP_NAMES if g in set(table["dependency_group"])]
    models = _order(table["model"])
    figure, axes = plt.subplots(
        1,
        len(models),
        figsize=(max(8.2, 4.0 * len(models) + 1.5), 0.62 * len(groups) + 1.7),
        sharey=True,
        squeeze=False,
    )
    for ax, model in zip(axes.flat, models, strict=True):
        _datasets(ax, [GROUP_NAMES[g] for g in groups])
        ax.set_title(model)
    return figure, axes, groups


def intersections(table: pd.DataFrame) -> Figure:
    """Draw the share of each group's objects that another group also holds, one panel a dataset, for one model.

    A frame marks cells that do not agree with the mirrored cell and the sizes of the groups.

    Args:
        table: Rows of ``triplets_intersection`` of one model.
    """
    datasets = _order(table["dataset"])
    groups = [g for g in GROUP_NAMES if g in {*table["over"], *table["dependency_group"]}]
    columns = min(3, len(datasets))
    lines = -(-len(datasets) // columns)
    figure, axes = plt.subplots(
        lines, columns, figsize=(2.9 * columns + 1.8, 2.5 * lines + 0.9), sharey=True, squeeze=False
    )
    for ax in axes.flat[len(datasets) :]:
        ax.set_visible(False)
    for ax, dataset in zip(axes.flat, datasets, strict=False):
        rows = table[table["dataset"] == dataset]
        wide = rows.pivot(index="over", columns="dependency_group", values="percent")
        wide = wide.reindex(index=groups, columns=groups)
        image = ax.imshow(wide.to_numpy(float), cmap="Blues", vmin=0, vmax=100, aspect="auto")
        for i, j in np.argwhere(wide.notna().to_numpy()):
            value = wide.iloc[i, j]
            text, color = f"{value:.1f}".replace("100.0", "100"), "white" if value > 60 else style.BLACK
            ax.text(j, i, text, ha="center", va="center", fontsize=8, color=color)
        for row in rows[rows["agrees"] == "no"].itertuples():
            at = (groups.index(row.dependency_group) - 0.5, groups.index(row.over) - 0.5)
            ax.add_patch(plt.Rectangle(at, 1, 1, fill=False, edgecolor=style.VERMILION, lw=2))
        ax.set_title(dataset)
        ax.set_xticks(range(len(groups)), [_SHORT_NAMES[g] for g in groups], fontsize=8)
        ax.set_yticks(range(len(groups)), [GROUP_NAMES[g] for g in groups], fontsize=9)
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
    figure.colorbar(
        image, ax=axes, location="bottom", shrink=0.5, aspect=40, label="Also in the group across (%)"
    )
    return figure
