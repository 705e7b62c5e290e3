"""Figures of a user's own ratings: shares, outcomes, amplification, agreement and sensitivity."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from biaslab.plots import style

_WIDTH = 8.6
_SOURCES = {"training": (style.BLUE, "o"), "generated": (style.VERMILION, "s")}
_OUTCOMES = {
    "female": (style.FEMALE, ""),
    "male": (style.MALE, ""),
    "tie": (style.ORANGE, "///"),
    "unsure": ("#B5B5B5", "..."),
    "unrated": (style.BLACK, ""),
}
_DEFINITIONS = {
    "published": "Published:\nsame lean only",
    "no_exclusion": "No exclusion",
    "directional": "Along the\ntraining lean",
}
_LABELS = {"female/male/unsure": (style.BLUE, "o", 0.12), "female/male": (style.VERMILION, "s", -0.12)}
_STATISTICS = {
    "krippendorff_alpha": "Krippendorff's α",
    "fleiss_kappa": "Fleiss' κ",
    "cohen_kappa": "Cohen's κ",
}
_KINDS = {
    "rule": (style.BLUE, "o", "rule"),
    "extreme": (style.ORANGE, "D", "undecided images of one gender"),
    "rater": (style.GREEN, "^", "one rater alone"),
}
_RULES = {
    "ties_split": "ties split",
    "unsure_set_aside": "unsure set aside",
    "undecided_female": "undecided: all female",
    "undecided_male": "undecided: all male",
    "undecided_training_female": "undecided: training female,\ngenerated male",
    "undecided_training_male": "undecided: training male,\ngenerated female",
}
# More names than this beside crosses, or names closer than a quarter of the axis, would run into one another.
_MOST_NAMED = 3


def percent_female(outcomes: pd.DataFrame) -> Figure:
    """Draw each occupation's share perceived as female, training beside generated; one panel per model.

    Args:
        outcomes: Table ``ratings_outcomes``.
    """
    models, order = list(dict.fromkeys(outcomes["model"])), _by_training_share(outcomes)
    fig, axes = _panels(len(models), 0.42 * len(order) + 1.6)
    position = {name: -k for k, name in enumerate(order)}
    for ax, model in zip(axes, models, strict=True):
        here = outcomes[outcomes["model"] == model]
        for (source, (color, marker)), side in zip(_SOURCES.items(), (1, -1), strict=True):
            rows = here[here["source"] == source]
            # Several prompts stand one below the other, in their order.
            nth = rows.groupby("occupation").cumcount().to_numpy()
            y = rows["occupation"].map(position).to_numpy(float) + side * (0.13 + 0.07 * nth)
            _dots(ax, rows, y, "percent_female", color=color, marker=marker, label=f"{source} images")
        style.zero_line(ax, 50)
        ax.set(xlim=(-2, 102), xlabel="Perceived as female among decided images (%)")
        _label_rows(ax, order)
        n = here.groupby(["occupation", "source"])["n"].sum()
        both = [[f"{n.get((name, source), 0):,.0f}" for source in _SOURCES] for name in order]
        _write_beside(ax, [" / ".join(pair) for pair in both])
        _title(ax, model, models)
    _legend(fig, axes[0])
    return fig


def outcomes(table: pd.DataFrame) -> Figure:
    """Draw how the vote on images ended, per occupation and source, in percent of the images.

    Args:
        table: Table ``ratings_outcomes``; an occupation's images of all models are added up.
    """
    if table["n_images"].isna().all():
        return style.nothing("The file gives shares: the outcomes of single images are not known.")
    order = _by_training_share(table)
    fig, axes = _beside(0.34 * len(order) + 1.6)
    for ax, source in zip(axes, _SOURCES, strict=True):
        rows = table[table["source"] == source]
        if source == "training":  # The same images are listed for every model that shares them.
            rows = rows.drop_duplicates(["occupation", *_OUTCOMES])
        counts = rows.groupby("occupation")[list(_OUTCOMES)].sum().reindex(order).fillna(0)
        percent = 100 * counts.div(counts.sum(axis=1).replace(0, np.nan), axis=0).fillna(0)
        left = np.zeros(len(order))
        for outcome, (color, hatch) in _OUTCOMES.items():
            look = {"color": color, "hatch": hatch, "edgecolor": "white", "linewidth": 0.4}
            ax.barh(-np.arange(len(order)), percent[outcome], left=left, label=outcome, **look)
            left += percent[outcome].to_numpy()
        ax.set(xlim=(0, 100), xlabel=f"{source.capitalize()} images (%)")
        _write_beside(ax, [f"{n:,.0f}" for n in counts.sum(axis=1)])
    _label_rows(axes[0], order)
    _legend(fig, axes[0])
    return fig


def amplification(table: pd.DataFrame, occupations: pd.DataFrame) -> Figure:
    """Draw expected amplification by each definition over the occupations that it averages.

    Args:
        table: Table ``paradox_amplification``; of several prompts, their mean.
        occupations: Table ``paradox_occupation_amplification``.
    """
    if table.empty:
        return style.nothing(
            "There are not both training and generated images that were decided: there is no amplification."
        )
    models = list(dict.fromkeys(table["model"]))
    fig, axes = _panels(len(models), 3.6)
    for ax, model in zip(axes, models, strict=True):
        rows = table[table["model"] == model]
        rows = rows[rows["prompt"] == ("mean" if "mean" in set(rows["prompt"]) else rows["prompt"].iloc[0])]
        rows = rows.set_index("definition").reindex(list(_DEFINITIONS)).reset_index()
        for k, definition in enumerate(_DEFINITIONS):
            _draw_occupations(ax, occupations[occupations["model"] == model], definition, -k)
        y = 0.12 - np.arange(len(rows))
        _dots(
            ax,
            rows,
            y,
            "amplification",
            color=style.BLUE,
            marker="D",
            size=8,
            label="mean over occupations, less image noise",
        )
        look = {"ha": "center", "fontsize": 10, "color": style.BLUE}
        look["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        for k, row in rows[rows["amplification"].notna()].iterrows():
            text = f"{row['amplification']:+.1f}  (n = {row['n_occupations']:.0f})"
            ax.annotate(text, (row["amplification"], 0.3 - k), **look)
        style.zero_line(ax)
        ax.set_yticks(-np.arange(len(rows)), list(_DEFINITIONS.values()))
        ax.set(ylim=(-2.55, 0.65), xlabel="Amplification (percentage points)")
        _title(ax, model, models)
    _legend(fig, axes[0])
    return fig


def _draw_occupations(ax: Axes, occupations: pd.DataFrame, definition: str, y: float) -> None:
    values = occupations["directional" if definition == "directional" else "amplification"]
    left_out = (occupations["excluded"] != "") if definition == "published" else values.isna()
    look = {"color": style.GREY, "markersize": 5, "linestyle": "none", "alpha": 0.8}
    labels = ("one occupation", "left out by the definition") if definition == "published" else (None, None)
    ax.plot(values[~left_out], np.full((~left_out).sum(), y - 0.14), "o", label=labels[0], **look)
    # Drawn below the others, so that an occupation left out is never taken for one that counts.
    crosses = occupations[left_out & values.notna()]
    ax.plot(values[crosses.index], np.full(len(crosses), y - 0.28), "x", label=labels[1], **look)
    gaps, span = (
        np.diff(np.sort(values[crosses.index])),
        np.ptp(values[values.notna()]) if len(crosses) else 0,
    )
    if len(crosses) <= _MOST_NAMED and (gaps > 0.25 * span).all():
        place = {"textcoords": "offset points", "va": "center", "fontsize": 8, "color": style.GREY}
        for name, value in zip(crosses["occupation"], values[crosses.index], strict=True):
            ax.annotate(plain(name, 24), (value, y - 0.28), xytext=(6, 0), **place)


def agreement(table: pd.DataFrame, detail: pd.DataFrame) -> Figure:
    """Draw the chance-corrected agreement of all raters, for each source, and of each two raters.

    Args:
        table: Table ``ratings_agreement``.
        detail: Table ``ratings_agreement_detail``.
    """
    rows = pd.concat([table.assign(subset="all", raters="all"), detail], ignore_index=True)
    rows = rows[rows["statistic"].isin(_STATISTICS) & rows["value"].notna()]
    if rows.empty:
        return style.nothing(f"Agreement cannot be computed: {table['reason'].iloc[0]}.")
    who = rows["raters"].where(rows["raters"] != "all", rows["subset"] + " images")
    rows = rows.assign(name=rows["statistic"].map(_STATISTICS) + ": " + who)
    order = [name for s in _STATISTICS for name in dict.fromkeys(rows.loc[rows["statistic"] == s, "name"])]
    fig, ax = style.subplots(figsize=(_WIDTH, 0.36 * len(order) + 1.5))
    position = {name: -k for k, name in enumerate(order)}
    for labels, (color, marker, offset) in _LABELS.items():
        some = rows[rows["labels"] == labels]
        y = some["name"].map(position).to_numpy(float) + offset
        _dots(ax, some, y, "value", color=color, marker=marker, label=f"labels {labels}")
    low = np.floor(10 * np.nanmin(rows[["value", "ci_low"]].to_numpy(float))) / 10
    ax.set(xlim=(min(low, 0.9), 1.01), xlabel="Agreement (0: as by chance, 1: perfect)")
    _label_rows(ax, order)
    n = rows.set_index(["name", "labels"])["n_items"]
    both = [[f"{n.get((name, labels), 0):,.0f}" for labels in _LABELS] for name in order]
    _write_beside(ax, [" / ".join(pair) for pair in both])
    _legend(fig, ax)
    return fig


def sensitivity(table: pd.DataFrame) -> Figure:
    """Draw amplification under every rule, extreme and rater: a column of panels a definition, a row a model.

    Args:
        table: Table ``ratings_sensitivity``.
    """
    if table["amplification"].isna().all():
        return style.nothing("There are no ratings of both sources to resolve in another way.")
    models, order = list(dict.fromkeys(table["model"])), list(dict.fromkeys(table["rule"]))
    height = (0.36 * len(order) + 1.3) * len(models) + 0.4
    fig, axes = style.subplots(len(models), 3, figsize=(9.4, height), sharex=True, sharey=True, squeeze=False)
    for (i, model), (j, (definition, title)) in product(enumerate(models), enumerate(_DEFINITIONS.items())):
        ax = axes[i, j]
        here = table[(table["model"] == model) & (table["definition"] == definition)]
        style.zero_line(ax)
        for kind, (color, marker, label) in _KINDS.items():
            some = here[here["kind"] == kind]
            y = some["rule"].map({name: -k for k, name in enumerate(order)}).to_numpy(float)
            _dots(ax, some, y, "amplification", color=color, marker=marker, label=label)
        above = f"{plain(model, 80) if j == 0 else ''}\n" if len(models) > 1 else ""
        ax.set_title(above + title.replace("\n", " "), fontsize=10)
        ax.set(xlabel="Amplification (points)")
        ax.tick_params(labelbottom=True)
        _label_rows(ax, [_RULES.get(rule, rule) for rule in order])
        _write_beside(
            ax, [f"{n:.0f}" for n in here.set_index("rule").reindex(order)["n_occupations"].fillna(0)]
        )
    _legend(fig, axes[0, 0])
    return fig


def raters(table: pd.DataFrame) -> Figure:
    """Draw each rater's share female among those rated female or male, and share unsure, by source.

    Args:
        table: Table ``ratings_raters``.
    """
    if table.empty:
        return style.nothing("The file has no column for each rater.")
    order = list(dict.fromkeys(table["rater"]))
    fig, axes = _beside(0.42 * len(order) + 1.8)
    panels = (
        ("percent_female", "ci_low", "ci_high", "Female of those rated female or male (%)"),
        ("percent_unsure", "unsure_ci_low", "unsure_ci_high", "Unsure of all rated (%)"),
    )
    position = {name: -k for k, name in enumerate(order)}
    for ax, (*names, title) in zip(axes, panels, strict=True):
        for (source, (color, marker)), offset in zip(_SOURCES.items(), (0.12, -0.12), strict=True):
            rows = table[table["source"] == source]
            y = rows["rater"].map(position).to_numpy(float) + offset
            _dots(ax, rows, y, *names, color=color, marker=marker, label=f"{source} images")
        ax.set(xlabel=title)
    _label_rows(axes[0], order)
    n = table.set_index(["rater", "source"])["n_rated"]
    _write_beside(axes[1], [" / ".join(f"{n[name, source]:,.0f}" for source in _SOURCES) for name in order])
    _legend(fig, axes[0])
    return fig


# -- parts -----------------------------------------------------------------------------------------------


def plain(text: str, most: int = 48) -> str:
    """Return ``text`` as matplotlib draws it letter by letter: no formulas, and cut where it is long."""
    text = text if len(text) <= most else text[: most - 1] + "…"
    return text.replace("$", r"\$")


def _dots(
    ax: Axes,
    rows: pd.DataFrame,
    y: np.ndarray,
    value: str,
    low: str = "ci_low",
    high: str = "ci_high",
    **look,
) -> None:
    style.dots_with_intervals(ax, rows[value], rows[low], rows[high], y, **look)


def _by_training_share(outcomes: pd.DataFrame) -> list[str]:
    """Return the occupations, the most female in training first; those without training images last."""
    training = outcomes[outcomes["source"] == "training"].groupby("occupation")["percent_female"].mean()
    every = training.reindex(sorted(set(outcomes["occupation"])))
    return list(every.sort_values(ascending=False, kind="stable", na_position="last").index)


def _label_rows(ax: Axes, names: Sequence[str]) -> None:
    ax.set_yticks(-np.arange(len(names)), [plain(name) for name in names])
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(-len(names) + 0.4, 0.6)


def _write_beside(ax: Axes, texts: Sequence[str]) -> None:
    """Write the numbers ``n`` to the right of the rows, from the top."""
    look = {"fontsize": 9, "color": style.GREY}
    for k, text in enumerate(texts):
        ax.annotate(text, (1.01, -k), xycoords=("axes fraction", "data"), va="center", **look)
    ax.annotate("n", (1.01, 1.0), xycoords="axes fraction", va="bottom", **look)


def _legend(fig: Figure, ax: Axes) -> None:
    handles, labels = ax.get_legend_handles_labels()
    # Dots without an interval are hollow and come after the others of their name, of which there are none then.
    handle_of = dict(zip(labels, handles, strict=True))
    if handle_of:
        fig.legend(handle_of.values(), handle_of.keys(), loc="outside upper center", ncols=len(handle_of))


def _title(ax: Axes, model: str, models: Sequence[str]) -> None:
    if len(models) > 1:
        ax.set_title(plain(model, 60))


def _panels(n: int, height: float) -> tuple[Figure, list[Axes]]:
    """Return a figure with ``n`` panels below one another, each ``height`` inches high."""
    fig, axes = style.subplots(n, 1, figsize=(_WIDTH, height * n), squeeze=False, sharex=True)
    for ax in axes.flat:
        ax.tick_params(labelbottom=True)
    return fig, list(axes[:, 0])


def _beside(height: float) -> tuple[Figure, np.ndarray]:
    """Return a figure with two panels side by side that share their rows."""
    fig, axes = style.subplots(1, 2, figsize=(_WIDTH, height), sharey=True)
    axes[1].tick_params(axis="y", length=0)
    return fig, axes
