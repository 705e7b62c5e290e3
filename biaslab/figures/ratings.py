"""Figures of a user's own ratings: shares, outcomes, amplification, agreement and sensitivity."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from biaslab.figures import style

_SOURCES = {"training": (style.BLUE, "o"), "generated": (style.VERMILION, "s")}
_OUTCOMES = {
    "female": style.FEMALE,
    "male": style.MALE,
    "tie": style.ORANGE,
    "unsure": "#B5B5B5",
    "unrated": style.BLACK,
}
_DEFINITIONS = {
    "published": "Published:\nsame lean only",
    "no_exclusion": "No exclusion",
    "directional": "Along the\ntraining lean",
}
_STATISTICS = {
    "krippendorff_alpha": "Krippendorff's α",
    "fleiss_kappa": "Fleiss' κ",
    "cohen_kappa": "Cohen's κ",
}
# More names than this beside crosses would run into one another.
_MOST_NAMED = 3
_RULES = {
    "undecided_female": "undecided: all female",
    "undecided_male": "undecided: all male",
    "undecided_training_female": "undecided: training female,\ngenerated male",
    "undecided_training_male": "undecided: training male,\ngenerated female",
}
_KINDS = {
    "rule": (style.BLUE, "o", "rule"),
    "extreme": (style.ORANGE, "D", "all undecided images of one gender"),
    "rater": (style.GREEN, "^", "one rater alone"),
}


def percent_female(outcomes: pd.DataFrame) -> Figure:
    """Draw each occupation's share perceived as female, training beside generated; one panel per model.

    Args:
        outcomes: Table ``ratings_outcomes``.
    """
    models, order = list(dict.fromkeys(outcomes["model"])), _by_training_share(outcomes)
    fig, axes = _panels(len(models), 0.42 * len(order) + 1.6, width=8.6)
    position = {name: -k for k, name in enumerate(order)}
    for ax, model in zip(axes, models, strict=True):
        for (source, (color, marker)), offset in zip(_SOURCES.items(), (0.13, -0.13), strict=True):
            rows = outcomes[(outcomes["model"] == model) & (outcomes["source"] == source)]
            # Several prompts stand close together, in the file's order.
            nth = rows.groupby("occupation").cumcount().to_numpy()
            y = rows["occupation"].map(position).to_numpy(float) + offset * (
                1 + nth / max(nth.max(initial=0), 1)
            )
            limits = rows["percent_female"], rows["ci_low"], rows["ci_high"]
            style.dots_with_intervals(ax, *limits, y, color=color, marker=marker, label=f"{source} images")
        style.zero_line(ax, 50)
        ax.set(
            xlim=(-2, 102),
            ylim=(-len(order) + 0.4, 0.6),
            xlabel="Perceived as female among decided images (%)",
        )
        _label_rows(ax, order)
        _write_counts(ax, outcomes[outcomes["model"] == model], position)
        _title(ax, model, models)
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside upper center", ncols=2)
    return fig


def _by_training_share(outcomes: pd.DataFrame) -> list[str]:
    """Return the occupations, the most female in training first; those without training images last."""
    training = outcomes[outcomes["source"] == "training"].groupby("occupation")["percent_female"].mean()
    every = pd.Series(outcomes["occupation"].unique())
    return list(
        every[training.reindex(every).fillna(-1).reset_index(drop=True).sort_values(ascending=False).index]
    )


def _write_counts(ax: Axes, outcomes: pd.DataFrame, position: dict[str, int]) -> None:
    """Write the images behind both shares to the right of each row."""
    n = outcomes.groupby(["occupation", "source"])["n"].sum()
    both = [[f"{n.get((name, source), 0):,.0f}" for source in _SOURCES] for name in position]
    _write_beside(ax, [" / ".join(pair) for pair in both])


def _write_beside(ax: Axes, texts: Sequence[str]) -> None:
    """Write the numbers ``n`` to the right of the rows, from the top."""
    look = {"fontsize": 9, "color": style.GREY}
    for k, text in enumerate(texts):
        ax.annotate(text, (1.01, -k), xycoords=("axes fraction", "data"), va="center", **look)
    ax.annotate("n", (1.01, 1.0), xycoords="axes fraction", va="bottom", **look)


def outcomes(table: pd.DataFrame) -> Figure:
    """Draw how the vote on images ended, per occupation and source, in percent of the images.

    Args:
        table: Table ``ratings_outcomes``; an occupation's images of all models are added up.
    """
    if table["n_images"].isna().all():
        return _note("The file gives shares: the outcomes of single images are not known.")
    order = _by_training_share(table)
    fig, axes = _beside(0.34 * len(order) + 1.6)
    for ax, source in zip(axes, _SOURCES, strict=True):
        # Training images that models share are in the table once a model; any one of them is enough.
        rows = table[table["source"] == source]
        counts = rows.groupby("occupation")[list(_OUTCOMES)].sum().reindex(order).fillna(0)
        percent = 100 * counts.div(counts.sum(axis=1).replace(0, np.nan), axis=0)
        left = np.zeros(len(order))
        for (outcome, color), hatch in zip(_OUTCOMES.items(), ("", "", "///", "...", ""), strict=True):
            width = percent[outcome].fillna(0).to_numpy()
            look = {"color": color, "hatch": hatch, "edgecolor": "white", "linewidth": 0.4}
            ax.barh(-np.arange(len(order)), width, left=left, label=outcome, **look)
            left += width
        ax.set(xlim=(0, 100), ylim=(-len(order) + 0.4, 0.6), xlabel=f"{source.capitalize()} images (%)")
        _write_beside(ax, [f"{n:,.0f}" for n in counts.sum(axis=1)])
    _label_rows(axes[0], order)
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(_OUTCOMES))
    return fig


def amplification(table: pd.DataFrame, occupations: pd.DataFrame) -> Figure:
    """Draw expected amplification by each definition over the occupations that it averages.

    Args:
        table: Table ``paradox_amplification``; of several prompts, their mean.
        occupations: Table ``paradox_occupation_amplification``.
    """
    if table.empty:
        return _note("No occupation has both training and generated images: there is no amplification.")
    models = list(dict.fromkeys(table["model"]))
    fig, axes = _panels(len(models), 3.6, width=8.6)
    for ax, model in zip(axes, models, strict=True):
        rows = table[table["model"] == model]
        rows = rows[rows["prompt"] == ("mean" if "mean" in set(rows["prompt"]) else rows["prompt"].iloc[0])]
        rows = rows.set_index("definition").reindex(list(_DEFINITIONS)).reset_index()
        single = occupations[occupations["model"] == model]
        for k, definition in enumerate(_DEFINITIONS):
            _draw_occupations(ax, single, definition, -k)
        limits = rows["amplification"], rows["ci_low"], rows["ci_high"], -np.arange(len(rows)) + 0.12
        style.dots_with_intervals(ax, *limits, marker="D", size=8, label="mean over occupations")
        for k, row in rows.iterrows():
            if np.isfinite(row["amplification"]):
                text = f"{row['amplification']:+.1f}  (n = {row['n_occupations']:.0f})"
                box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
                place = {"ha": "center", "fontsize": 10, "color": style.BLUE, "bbox": box}
                ax.annotate(text, (row["amplification"], 0.3 - k), **place)
        style.zero_line(ax)
        ax.set_yticks(-np.arange(len(rows)), list(_DEFINITIONS.values()))
        ax.set(ylim=(-2.55, 0.65), xlabel="Amplification (percentage points)")
        _title(ax, model, models)
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return fig


def _draw_occupations(ax: Axes, occupations: pd.DataFrame, definition: str, y: float) -> None:
    values = occupations["directional" if definition == "directional" else "amplification"]
    left_out = (occupations["excluded"] != "") if definition == "published" else values.isna()
    shape = {"color": style.GREY, "markersize": 5, "linestyle": "none", "alpha": 0.8}
    labels = ("one occupation", "left out by the definition") if definition == "published" else (None, None)
    ax.plot(values[~left_out], np.full((~left_out).sum(), y - 0.14), "o", label=labels[0], **shape)
    # Drawn below the others, so that an occupation left out is never taken for one that counts.
    ax.plot(values[left_out], np.full(left_out.sum(), y - 0.28), "x", label=labels[1], **shape)
    known = occupations[left_out & values.notna()]
    if len(known) <= _MOST_NAMED:
        for name, value in zip(known["occupation"], values[known.index], strict=True):
            place = {"textcoords": "offset points", "va": "center", "fontsize": 8, "color": style.GREY}
            ax.annotate(plain(name, 24), (value, y - 0.28), xytext=(6, 0), **place)


def agreement(table: pd.DataFrame, detail: pd.DataFrame) -> Figure:
    """Draw the chance-corrected agreement of all raters, of each source and of each two raters.

    Args:
        table: Table ``ratings_agreement``.
        detail: Table ``ratings_agreement_detail``.
    """
    if table["value"].isna().all():
        return _note(f"Agreement cannot be computed: {table['reason'].iloc[0]}.")
    rows = pd.concat([table.assign(subset="all", raters="all"), detail], ignore_index=True)
    rows = rows[rows["statistic"].isin(_STATISTICS) & rows["value"].notna()]
    pair = rows["raters"] != "all"
    what = rows["raters"].where(pair, rows["subset"] + " images")
    names = [f"{_STATISTICS[s]}: {w}" for s, w in zip(rows["statistic"], what, strict=True)]
    rows = rows.assign(name=names)
    order = list(
        dict.fromkeys(rows.sort_values("statistic", key=lambda s: s.map(list(_STATISTICS).index))["name"])
    )
    fig, ax = plt.subplots(figsize=(8.6, 0.36 * len(order) + 1.5))
    position = {name: -k for k, name in enumerate(order)}
    looks = {"female/male/unsure": (style.BLUE, "o", 0.12), "female/male": (style.VERMILION, "s", -0.12)}
    for labels, (color, marker, offset) in looks.items():
        some = rows[rows["labels"] == labels]
        limits = (
            some["value"],
            some["ci_low"],
            some["ci_high"],
            some["name"].map(position).to_numpy(float) + offset,
        )
        style.dots_with_intervals(ax, *limits, color=color, marker=marker, label=f"labels {labels}")
    low = np.floor(10 * np.nanmin(rows[["value", "ci_low"]].to_numpy(float))) / 10
    ax.set(
        xlim=(min(low, 0.9), 1.01),
        ylim=(-len(order) + 0.4, 0.6),
        xlabel="Agreement (0: as by chance, 1: perfect)",
    )
    _label_rows(ax, order)
    fig.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return fig


def sensitivity(table: pd.DataFrame) -> Figure:
    """Draw amplification under every rule, extreme and rater: one column of panels a definition, one row a model.

    Args:
        table: Table ``ratings_sensitivity``.
    """
    if table["amplification"].isna().all():
        return _note("There are no ratings of both sources to resolve in another way.")
    models, order = list(dict.fromkeys(table["model"])), list(dict.fromkeys(table["rule"]))
    height = (0.36 * len(order) + 1.3) * len(models) + 0.4
    fig, axes = plt.subplots(len(models), 3, figsize=(9.4, height), sharex=True, sharey=True, squeeze=False)
    position = {name: -k for k, name in enumerate(order)}
    for (i, model), (j, (definition, title)) in product(enumerate(models), enumerate(_DEFINITIONS.items())):
        ax = axes[i, j]
        some = table[(table["model"] == model) & (table["definition"] == definition)]
        style.zero_line(ax)
        for kind, (color, marker, label) in _KINDS.items():
            of_kind = some[some["kind"] == kind]
            limits = (
                of_kind["amplification"],
                of_kind["ci_low"],
                of_kind["ci_high"],
                of_kind["rule"].map(position),
            )
            style.dots_with_intervals(ax, *limits, color=color, marker=marker, label=label)
        ax.set(xlabel="Amplification (points)", ylim=(-len(order) + 0.4, 0.6))
        name = title.replace("\n", " ")
        ax.set_title(f"{plain(model, 30)}: {name}" if len(models) > 1 else name, fontsize=10)
    for ax in axes.flat:
        ax.tick_params(axis="y", length=0)
    for ax in axes[:, 0]:
        _label_rows(
            ax,
            [
                _RULES.get(name, name if name.startswith("rater ") else name.replace("_", " "))
                for name in order
            ],
        )
    fig.legend(*axes[0, 1].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return fig


def raters(table: pd.DataFrame) -> Figure:
    """Draw each rater's share female among those rated female or male, and share unsure, by source.

    Args:
        table: Table ``ratings_raters``.
    """
    if table.empty:
        return _note("The file has no column for each rater.")
    order = list(dict.fromkeys(table["rater"]))
    fig, axes = _beside(0.42 * len(order) + 1.8)
    position = {name: -k for k, name in enumerate(order)}
    panels = (("percent_female", "ci_low", "ci_high"), ("percent_unsure", "unsure_ci_low", "unsure_ci_high"))
    for ax, names in zip(axes, panels, strict=True):
        for (source, (color, marker)), offset in zip(_SOURCES.items(), (0.12, -0.12), strict=True):
            rows = table[table["source"] == source]
            y = rows["rater"].map(position).to_numpy(float) + offset
            style.dots_with_intervals(
                ax, *(rows[n] for n in names), y, color=color, marker=marker, label=f"{source} images"
            )
    axes[0].set(xlabel="Female of those rated female or male (%)", ylim=(-len(order) + 0.4, 0.6))
    axes[1].set(xlabel="Unsure of all rated (%)")
    axes[1].set_xlim(left=min(0, axes[1].get_xlim()[0]))
    _label_rows(axes[0], order)
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return fig


# -- parts -----------------------------------------------------------------------------------------------


def plain(text: str, most: int = 48) -> str:
    """Return ``text`` as matplotlib draws it letter by letter: no formulas, and cut where it is long."""
    text = text if len(text) <= most else text[: most - 1] + "…"
    return text.replace("$", r"\$")


def _label_rows(ax: Axes, names: Sequence[str]) -> None:
    ax.set_yticks(-np.arange(len(names)), [plain(name) for name in names])
    ax.tick_params(axis="y", length=0)


def _beside(height: float) -> tuple[Figure, np.ndarray]:
    """Return a figure with two panels side by side that share their rows."""
    fig, axes = plt.subplots(1, 2, figsize=(8.6, height), sharey=True)
    axes[1].tick_params(axis="y", length=0)
    return fig, axes


def _panels(n: int, height: float, *, width: float) -> tuple[Figure, list[Axes]]:
    """Return a figure with ``n`` panels below one another."""
    fig, axes = plt.subplots(n, 1, figsize=(width, height * n), squeeze=False, sharex=True)
    return fig, list(axes[:, 0])


def _title(ax: Axes, model: str, models: Sequence[str]) -> None:
    if len(models) > 1:
        ax.set_title(plain(model, 60))


def _note(text: str) -> Figure:
    """Return a figure that says why there is nothing to draw."""
    fig, ax = plt.subplots(figsize=(8.6, 1.2))
    ax.axis("off")
    ax.text(0.5, 0.5, plain(text, 200), ha="center", va="center", wrap=True, color=style.GREY)
    return fig
