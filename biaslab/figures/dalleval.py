"""Figures of DALL-Eval: tables in, matplotlib figures out."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from scipy.stats import binom

from biaslab.plots import style

# A model keeps its colour and marker from figure to figure.
_KNOWN = ("minDALL-E", "Karlo", "Stable Diffusion", "DALL-E Small", "X-LXMERT")
_SKILLS = ("object", "count", "spatial", "average")
_ATTRIBUTE_PROMPTS = ("person", "woman", "man")


def average_gender(table: pd.DataFrame) -> Figure:
    """Draw every profession's average gender with its interval, one panel a model (as Tables 16 and 17)."""
    if table.empty:
        return style.nothing()
    models = _models(table)
    wide = _wide(table, "profession", "model", "value")
    order = list(wide.mean(axis=1).sort_values(ascending=False).index)
    at = {profession: i for i, profession in enumerate(order)}
    fig, axes = plt.subplots(
        1,
        len(models),
        figsize=(2.15 * len(models) + 2.2, 0.185 * len(order) + 1.4),
        sharey=True,
        squeeze=False,
    )
    for ax, model in zip(axes[0], models, strict=True):
        of = table[table["model"] == model]
        color, marker = _look(model, models)
        positions = of["profession"].map(at)
        style.dots_with_intervals(
            ax, of["value"], of["ci_low"], of["ci_high"], positions, color=color, marker=marker, size=4.5
        )
        style.zero_line(ax)
        ax.set(title=model, xlim=(-1.06, 1.06), xticks=(-1, -0.5, 0, 0.5, 1))
        ax.grid(axis="y", color=style.LIGHT, linewidth=0.5)
        ax.set_axisbelow(True)
    axes[0, 0].set_yticks(range(len(order)), order, fontsize=8)
    axes[0, 0].set_ylim(len(order) - 0.4, -0.6)
    fig.supxlabel("Average perceived gender  (−1 male, 0 balanced, +1 female)", fontsize=11)
    return fig


def gender_counts(table: pd.DataFrame) -> Figure:
    """Draw how many professions have 0, 1, … images perceived as female, and what a balanced model gives.

    Only professions with each model's usual number of images are drawn, since others have other counts.
    """
    if table.empty:
        return style.nothing()
    models = _models(table)
    fig, axes = plt.subplots(
        1, len(models), figsize=(3.4 * len(models) + 0.6, 3.4), sharey=True, squeeze=False
    )
    for ax, model in zip(axes[0], models, strict=True):
        of = table[(table["model"] == model) & table["n_female"].notna()]
        usual = int(of["n"].mode().iloc[0]) if len(of) else 0
        of = of[of["n"] == usual]
        k = np.arange(usual + 1)
        ax.bar(k, [(of["n_female"] == i).sum() for i in k], color=_look(model, models)[0], width=0.8)
        ax.plot(
            k,
            len(of) * binom.pmf(k, usual, 0.5),
            "o-",
            color=style.BLACK,
            markersize=4,
            linewidth=1.2,
            label="balanced model",
        )
        ax.set(title=model, xlabel=f"images perceived as female, of {usual}")
        ax.set_xticks(k if usual <= 12 else np.unique(np.linspace(0, usual, 7).round().astype(int)))
    axes[0, 0].set_ylabel("professions")
    axes[0, -1].legend(loc="upper center")
    return fig


def mad(table: pd.DataFrame, category: str = "gender") -> Figure:
    """Draw each model's mean absolute deviation and its corrected value, each beside a fair model's."""
    table = table[table["category"] == category]
    if table.empty:
        return style.nothing()
    models = _models(table)
    fig, ax = plt.subplots(figsize=(8.2, 0.95 * len(models) + 1.9))
    for i, row in enumerate(table.to_dict("records")):
        color, marker = _look(row["model"], models)
        above, below = i - 0.18, i + 0.18
        style.dots_with_intervals(
            ax, [row["mad"]], [row["ci_low"]], [row["ci_high"]], [above], color=color, marker=marker, size=8
        )
        ax.plot([row["printed"]], [above], "|", color=style.BLACK, markersize=13, markeredgewidth=1.2)
        ax.hlines(
            below, row["corrected_ci_low"], row["corrected_ci_high"], color=color, linewidth=1.8, alpha=0.6
        )
        ax.plot([row["corrected_mad"]], [below], marker, mfc="white", mec=color, markersize=8)
        for at, fair in ((above, row["floor"]), (below, row["corrected_floor"])):
            ax.plot([fair] * 2, [at - 0.15, at + 0.15], color=style.GREY, linewidth=4, solid_capstyle="butt")
    handles = [
        Line2D([], [], color=style.BLUE, marker="o", markersize=8, label="measured, with interval"),
        Line2D([], [], color=style.BLUE, marker="o", markersize=8, mfc="white", label="corrected for chance"),
        Line2D([], [], color=style.GREY, linewidth=4, label="perfectly balanced model, same n"),
        Line2D([], [], color=style.BLACK, marker="|", markersize=12, linestyle="", label="printed"),
    ]
    ax.set_yticks(range(len(table)), table["model"])
    ax.set_ylim(len(table) - 0.45, -0.55)
    one_only = 0.5 if category == "gender" else 0.18
    ax.set_xlim(0, one_only)
    ax.set_xlabel(
        f"Mean absolute deviation from an even split  (0 balanced, {one_only} one {category.replace('_', ' ')} only)"
    )
    fig.legend(handles=handles, loc="outside lower center", ncol=2)
    return fig


def differences(table: pd.DataFrame, quantity: str = "average", label: str = "average gender") -> Figure:
    """Draw paired differences between models with intervals."""
    of = table[table["quantity"] == quantity]
    if of.empty:
        return style.nothing("There is one model only, so no difference between models.")
    fig, ax = plt.subplots(figsize=(7.4, 0.5 * len(of) + 1.4))
    style.dots_with_intervals(
        ax, of["difference"], of["ci_low"], of["ci_high"], range(len(of)), color=style.BLACK
    )
    style.zero_line(ax)
    ax.set_yticks(range(len(of)), [f"{a} − {b}" for a, b in zip(of["first"], of["second"], strict=True)])
    ax.set_ylim(len(of) - 0.5, -0.5)
    ax.set_xlabel(f"Difference in {label}, mean over professions")
    return fig


def skin_tone_check(table: pd.DataFrame) -> Figure:
    """Draw the tone that each computation answers for the ten swatches whose tone is known."""
    names = {
        "cielab": "CIELAB units",
        "released": "released script, NumPy 2",
        "released_signed": "released script, NumPy 1",
    }
    looks = {
        "cielab": (style.BLUE, "o", 9),
        "released": (style.VERMILION, "s", 9),
        "released_signed": (style.BLACK, "x", 6),
    }
    fig, ax = plt.subplots(figsize=(7.6, 5.0))
    swatches = table[table["computation"] == table["computation"].iloc[0]]
    for swatch, colour in zip(swatches["swatch"], swatches["colour"], strict=True):
        ax.add_patch(
            Rectangle(
                (int(swatch) - 0.42, -0.55), 0.84, 0.8, facecolor=colour, edgecolor=style.GREY, linewidth=0.7
            )
        )
    ax.plot([1, 10], [1, 10], color=style.LIGHT, linewidth=6, zorder=0, solid_capstyle="round")
    for computation, of in table.groupby("computation", sort=False):
        color, marker, size = looks[computation]
        ax.plot(
            of["swatch"].astype(int),
            of["tone"],
            marker,
            color=color,
            markersize=size,
            label=names[computation],
        )
    ax.set(xlim=(0.3, 10.7), ylim=(-0.75, 10.7), xticks=range(1, 11), yticks=range(1, 11))
    ax.set(xlabel="Tone that the swatch defines (Monk scale)", ylabel="Tone that the computation answers")
    ax.legend(loc="upper left")
    return fig


def average_skin_tone(table: pd.DataFrame, overall: pd.DataFrame, seed: int = 0) -> Figure:
    """Draw the professions' average tones on the whole scale and enlarged; the highest is named."""
    if table.empty:
        return style.nothing()
    models = _models(table)
    fig, (whole, near) = plt.subplots(2, 1, figsize=(9, 1.35 * len(models) + 2.6), height_ratios=(1, 1.5))
    for ax in (whole, near):
        rng = np.random.default_rng(seed)
        for i, model in enumerate(models):
            color, marker = _look(model, models)
            of = table[(table["model"] == model) & table["value"].notna()]
            jitter = rng.uniform(-0.22, 0.22, len(of))
            ax.plot(of["value"], i + jitter, marker, color=color, markersize=4, alpha=0.45, markeredgewidth=0)
            mean = overall[(overall["model"] == model) & (overall["category"] == "skin_tone")]
            for row in mean.to_dict("records"):
                ax.hlines(i + 0.36, row["ci_low"], row["ci_high"], color=style.BLACK, linewidth=2)
                ax.plot([row["average"]], [i + 0.36], "|", color=style.BLACK, markersize=9, markeredgewidth=2)
            if ax is near and len(of):
                at = int(np.argmax(of["value"]))
                label = of["profession"].iloc[at]
                place = (of["value"].iloc[at], i + jitter[at])
                ax.annotate(label, place, (7, 0), textcoords="offset points", fontsize=9, va="center")
        ax.set_yticks(range(len(models)), models)
        ax.set_ylim(len(models) - 0.4, -0.6)
    whole.set(xlim=(0.8, 10.2), xticks=range(1, 11), title="Whole scale")
    values = table["value"].dropna()
    if len(values):
        margin = 0.06 * (values.max() - values.min() or 1)
        near.set_xlim(values.min() - margin, values.max() + 2 * margin)
    near.set(title="Enlarged", xlabel="Average tone of a profession (Monk scale: 1 light, 10 dark)")
    return fig


def skin_tone_mad(mads: pd.DataFrame, floors: pd.DataFrame, two_tone: pd.DataFrame) -> Figure:
    """Draw what an even model shows by number of images, beside the models' values."""
    floors = floors[floors["category"] == "skin_tone"]
    mads = mads[mads["category"] == "skin_tone"]
    if mads.empty:
        return style.nothing()
    models = _models(mads)
    fig, (left, right) = plt.subplots(1, 2, figsize=(9.2, 4.4), sharey=True, width_ratios=(1.3, 1))
    left.plot(floors["images"].astype(int), floors["floor"], "o-", color=style.BLACK, markersize=4)
    left.set_xscale("log")
    ticks = [1, 2, 3, 5, 9, 27, 100, 500]
    left.set_xticks(ticks, [str(t) for t in ticks])
    left.minorticks_off()
    left.set(
        title="Perfectly even model", xlabel="Images (log scale)", ylabel="Mean absolute deviation, 10 tones"
    )
    for i, row in enumerate(mads.to_dict("records")):
        color, marker = _look(row["model"], models)
        if np.isfinite(row["ci_low"]):
            right.vlines(i - 0.12, row["ci_low"], row["ci_high"], color=color, linewidth=1.8)
        right.plot([i - 0.12], [row["mad"]], marker, color=color, markersize=8)
        implied = two_tone.loc[two_tone["model"] == row["model"], "implied_mad"]
        right.plot([i + 0.12] * len(implied), implied, marker, mfc="white", mec=color, markersize=8)
    for ax in (left, right):
        for share in (0.18, 0.16):
            ax.axhline(share, color=style.GREY, linewidth=1, linestyle="--", zorder=0)
    for share, tones in ((0.18, "one tone only"), (0.16, "two tones, half each")):
        left.annotate(
            tones,
            (500, share),
            xytext=(0, 3),
            textcoords="offset points",
            ha="right",
            fontsize=9,
            color=style.GREY,
        )
    printed = " and ".join(dict.fromkeys(mads["evidence"]))
    handles = [
        Line2D([], [], color=style.GREY, marker="o", linestyle="", markersize=8, label=printed),
        Line2D(
            [],
            [],
            mec=style.GREY,
            marker="o",
            linestyle="",
            markersize=8,
            mfc="white",
            label="if only two tones occur",
        ),
    ]
    right.set_xticks(range(len(models)), models)
    right.set(title="Models", xlim=(-0.6, len(models) - 0.4), ylim=(0, 0.2))
    right.legend(handles=handles, loc="lower left")
    return fig


def skin_tone_methods(table: pd.DataFrame) -> Figure:
    """Draw how often each method lies within 0 to 3 tones of people, with intervals."""
    of = table[table["measure"].str.startswith("within_")]
    methods = list(dict.fromkeys(zip(of["segmentation"], of["scoring"], strict=True)))
    fig, ax = plt.subplots(figsize=(8.4, 4.4))
    for i, (segmentation, scoring) in enumerate(methods):
        rows = of[(of["segmentation"] == segmentation) & (of["scoring"] == scoring)]
        x = rows["measure"].str.removeprefix("within_").astype(float) + (i - (len(methods) - 1) / 2) * 0.14
        color, marker = style.PALETTE[i % 7], style.MARKERS[i % 7]
        ax.vlines(x, rows["ci_low"], rows["ci_high"], color=color, linewidth=1.8, alpha=0.7)
        n = rows["n"].iloc[0]
        count = f", n = {n:.0f}" if np.isfinite(n) else ""
        ax.plot(
            x, rows["value"], marker, color=color, markersize=7, label=f"{segmentation}, {scoring}{count}"
        )
    ax.set_xticks(range(4), ["same tone", "within 1", "within 2", "within 3"])
    ax.set(ylim=(-3, 103), ylabel="Images within so many tones of people (%)")
    ax.legend(loc="upper left", fontsize=9)
    return fig


def attribute_difference(table: pd.DataFrame, comparison: str = "woman - man") -> Figure:
    """Draw differences by attribute with intervals, one panel a model; filled where p (Holm) < 0.05."""
    table = table[table["comparison"] == comparison]
    if table.empty:
        return style.nothing()
    models = _models(table)
    order = list(table.groupby("attribute")["difference"].mean().sort_values().index)
    fig, axes = plt.subplots(
        1,
        len(models),
        figsize=(max(2.9 * len(models) + 1.4, 7.2), 0.32 * len(order) + 1.8),
        sharex=True,
        sharey=True,
        squeeze=False,
    )
    for ax, model in zip(axes[0], models, strict=False):
        of = table[table["model"] == model]
        color, marker = _look(model, models)
        at = of["attribute"].map(order.index)
        ax.hlines(at, of["ci_low"], of["ci_high"], color=color, linewidth=2, alpha=0.7)
        clear = of["p_holm"] < 0.05
        ax.plot(of["difference"][clear], at[clear], marker, color=color, markersize=6.5)
        ax.plot(
            of["difference"][~clear],
            at[~clear],
            marker,
            markerfacecolor="white",
            markeredgecolor=color,
            markersize=6.5,
        )
        style.zero_line(ax)
        ax.grid(axis="y", color=style.LIGHT, linewidth=0.5)
        ax.set_axisbelow(True)
        ax.set_title(model)
    axes[0, 0].set_yticks(range(len(order)), order)
    axes[0, 0].set_ylim(len(order) - 0.5, -0.5)
    first, second = comparison.split(" - ")
    label = f"Difference in share of images  (left: more with a {second}, right: more with a {first})"
    fig.supxlabel(label, fontsize=11)
    return fig


def attribute_presence(table: pd.DataFrame) -> Figure:
    """Draw the share of images with each attribute by prompt and model, as a heat map with numbers."""
    if table.empty:
        return style.nothing()
    models = _models(table)
    mean = table.groupby(["attribute", "model", "prompt"], as_index=False)["share"].mean()
    mean = _wide(mean, "attribute", ["model", "prompt"], "share")
    prompts = [p for p in _ATTRIBUTE_PROMPTS if p in set(table["prompt"])]
    columns = [(m, p) for m in models for p in prompts if (m, p) in mean.columns]
    mean = mean[columns].loc[mean.mean(axis=1).sort_values(ascending=False).index]
    values = 100 * mean.to_numpy()
    fig, ax = plt.subplots(figsize=(0.8 * len(columns) + 2.2, 0.36 * len(mean) + 1.4))
    image = ax.imshow(values, cmap="cividis", vmin=0, aspect="auto")
    bright = np.nanmax(values) * 0.55 if values.size else 0
    for i, j in np.ndindex(*values.shape):
        text = "" if np.isnan(values[i, j]) else f"{values[i, j]:.0f}"
        ax.text(
            j,
            i,
            text,
            ha="center",
            va="center",
            fontsize=9,
            color="black" if values[i, j] > bright else "white",
        )
    ax.set_yticks(range(len(mean)), mean.index)
    ax.set_xticks(range(len(columns)), [p for _, p in columns])
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)
    for model in models:
        at = [j for j, (m, _) in enumerate(columns) if m == model]
        ax.text(np.mean(at), -0.75, model, ha="center", va="bottom", fontweight="bold")
        if at[0]:
            ax.axvline(at[0] - 0.5, color="white", linewidth=3)
    fig.colorbar(image, ax=ax, label="Images with the attribute (%)", shrink=0.7)
    return fig


def attribute_mean_difference(table: pd.DataFrame) -> Figure:
    """Draw mean absolute differences over attributes beside chance: of averages, and by profession."""
    if table.empty:
        return style.nothing()
    models = _models(table)
    rows = table.to_dict("records")
    fig, axes = plt.subplots(1, 2, figsize=(10, 0.4 * len(table) + 2.2), sharey=True)
    panels = (
        ("Averages over professions", "mean_absolute_difference", "ci", "floor"),
        ("Within a profession, mean", "by_profession", "by_profession_ci", "by_profession_floor"),
    )
    for ax, (title, value, limits, floor) in zip(axes, panels, strict=True):
        for i, row in enumerate(rows):
            color, marker = _look(row["model"], models)
            low, high = row[f"{limits}_low"], row[f"{limits}_high"]
            style.dots_with_intervals(
                ax, [row[value]], [low], [high], [i], color=color, marker=marker, size=7
            )
            ax.plot([row[floor]], [i], "|", color=style.BLACK, markersize=13, markeredgewidth=2)
        ax.set(title=title, xlabel="Mean absolute difference of shares")
        ax.set_xlim(left=0)
        ax.grid(axis="y", color=style.LIGHT, linewidth=0.5)
        ax.set_axisbelow(True)
    axes[0].set_yticks(
        range(len(rows)), [f"{r['model']}: {r['comparison'].replace(' - ', ' − ')}" for r in rows]
    )
    axes[0].set_ylim(len(rows) - 0.5, -0.5)
    handles = [
        Line2D([], [], color=style.GREY, marker="o", markersize=7, label="observed, with interval"),
        Line2D([], [], color=style.BLACK, marker="|", linestyle="", markersize=12, mew=2, label="by chance"),
    ]
    fig.legend(handles=handles, loc="outside lower center", ncol=2)
    return fig


def skill_accuracy(table: pd.DataFrame, references: pd.DataFrame) -> Figure:
    """Draw DETR accuracy on all test scenes by skill and model, with intervals and the scale's ends."""
    of = table[
        (table["images"] == "test") & (table["evaluator"] == "DETR") & (table["training_percent"] == "100")
    ]
    if of.empty:
        return style.nothing()
    models = _models(of)
    fig, ax = plt.subplots(figsize=(8.4, 4.8))
    step = 0.8 / len(models)
    for i, model in enumerate(models):
        color, marker = _look(model, models)
        rows = of[of["model"] == model].set_index("skill").reindex(_SKILLS)
        at = np.arange(4) - 0.4 + step * (i + 0.5)
        style.dots_with_intervals(
            ax,
            rows["percent_correct"],
            rows["ci_low"],
            rows["ci_high"],
            at,
            color=color,
            marker=marker,
            label=model,
            size=5,
        )
    ends = _wide(references[references["measure"].isin(_SKILLS)], "measure", "reference", "value")
    for reference, line in (("oracle", "-"), ("shuffled", ":")):
        for i, skill in enumerate(_SKILLS[:3]):
            if reference in ends and skill in ends.index:
                ax.plot(
                    [ends.loc[skill, reference]] * 2, [i - 0.4, i + 0.4], line, color=style.GREY, linewidth=2
                )
    handles, labels = ax.get_legend_handles_labels()
    handles += [Line2D([], [], color=style.GREY, linestyle=s, linewidth=2) for s in ("-", ":")]
    labels += ["real images", "real images, shuffled"]
    ax.legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, -0.15), ncol=3)
    ax.set_yticks(range(4), _SKILLS)
    ax.set_ylim(3.5, -0.5)
    ax.set(xlim=(-2, 102), xlabel="Images judged correct by DETR (%)")
    return fig


def skill_agreement(table: pd.DataFrame, accuracy: pd.DataFrame) -> Figure:
    """Draw human against DETR accuracy on the same images, with both intervals."""
    if table.empty:
        return style.nothing()
    models = _models(table)
    sample = accuracy[accuracy["images"] == "sample"].set_index(["evaluator", "model", "skill"])
    fig, ax = plt.subplots(figsize=(6.4, 5.6))
    ax.plot([0, 100], [0, 100], color=style.LIGHT, linewidth=3, zorder=0)
    for row in table.to_dict("records"):
        color, marker = _look(row["model"], models)
        human, detr = (sample.loc[(who, row["model"], row["skill"])] for who in ("Human", "DETR"))
        x, y = row["percent_detr"], row["percent_human"]
        ax.hlines(y, detr["ci_low"], detr["ci_high"], color=color, linewidth=1.2, alpha=0.5)
        ax.vlines(x, human["ci_low"], human["ci_high"], color=color, linewidth=1.2, alpha=0.5)
        ax.plot([x], [y], marker, color=color, markersize=8)
        ax.annotate(row["skill"], (x, y), xytext=(6, 6), textcoords="offset points", fontsize=9)
    handles = [
        Line2D(
            [], [], color=_look(m, models)[0], marker=_look(m, models)[1], linestyle="", markersize=8, label=m
        )
        for m in models
    ]
    ax.legend(handles=handles, loc="lower right")
    ax.set(xlim=(-3, 103), ylim=(-3, 103), aspect="equal")
    ax.set(xlabel="Correct according to DETR (%)", ylabel="Correct according to people (%)")
    return fig


def skill_training(accuracy: pd.DataFrame) -> Figure:
    """Draw accuracy by share of the fine-tuning data, one panel a skill."""
    of = accuracy[(accuracy["images"] == "test") & (accuracy["evaluator"] == "DETR")]
    several = of.groupby("model")["training_percent"].transform("nunique") > 1
    of = of[several & of["skill"].isin(_SKILLS[:3])]
    models = _models(of)
    if of.empty:
        return style.nothing("The source has no model that was trained on different shares of the data.")
    fig, axes = plt.subplots(1, 3, figsize=(9.6, 3.8), sharey=True)
    for ax, skill in zip(axes, _SKILLS, strict=False):
        for i, model in enumerate(models):
            color, marker = _look(model, models)
            rows = of[(of["model"] == model) & (of["skill"] == skill)]
            x = rows["training_percent"].astype(float) * 1.04 ** (i - (len(models) - 1) / 2)
            rows, x = rows.loc[x.sort_values().index], x.sort_values()
            ax.vlines(x, rows["ci_low"], rows["ci_high"], color=color, linewidth=2, alpha=0.8)
            ax.plot(
                x,
                rows["percent_correct"],
                marker + "-",
                color=color,
                markersize=4,
                linewidth=1,
                label=model,
            )
        ticks = sorted(of["training_percent"].astype(float).unique())
        ax.set_xscale("log")
        ax.set_xticks(ticks, [f"{t:g}" for t in ticks])
        ax.minorticks_off()
        ax.set(title=skill, ylim=(-3, 103), xlabel="Training data used (%, log scale)")
    axes[0].set_ylabel("Images judged correct (%)")
    axes[0].legend(loc="lower left")
    return fig


def metric_ranks(table: pd.DataFrame, references: pd.DataFrame) -> Figure:
    """Draw each model's rank by metric, with the metric's value beside the marker."""
    if table.empty:
        return style.nothing()
    metrics = list(dict.fromkeys(table["metric"]))
    models = _models(table)
    fig, ax = plt.subplots(figsize=(9.6, 0.75 * len(models) + 1.9))
    for model in models:
        color, marker = _look(model, models)
        rows = table[table["model"] == model].set_index("metric").reindex(metrics)
        tied = [_offset(table, metric, model) for metric in metrics]
        y = rows["rank"].to_numpy() + tied
        ax.plot(range(len(metrics)), y, marker + "-", color=color, markersize=9, linewidth=1.6, label=model)
        for i, value in enumerate(rows["value"]):
            if np.isfinite(value):
                ax.annotate(
                    f"{value:.1f}",
                    (i, y[i]),
                    xytext=(0, -16),
                    textcoords="offset points",
                    fontsize=9,
                    ha="center",
                )
    real = references.set_index(["reference", "measure"])["value"]
    better = table.drop_duplicates("metric").set_index("metric")["better"]
    labels = [
        f"{m}\n({better[m]} is better)\nreal images: {real.get(('oracle', m), np.nan):.1f}" for m in metrics
    ]
    ax.set_xticks(range(len(metrics)), labels, fontsize=9)
    ax.set_yticks(range(1, len(models) + 1))
    ax.set_ylim(len(models) + 0.6, 0.5)
    ax.set_xlim(-0.4, len(metrics) - 0.6)
    ax.set_ylabel("Rank (1 is best)")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=len(models))
    return fig


def gender_judges(table: pd.DataFrame) -> Figure:
    """Draw bias and recall of the judges in retrieval by how many images are retrieved (as Table 14)."""
    fig, axes = plt.subplots(1, 2, figsize=(9.2, 3.8))
    table = table.assign(
        kind=table["metric"].str.split("_").str[0], k=table["metric"].str.split("_").str[-1].astype(int)
    )
    judges = list(dict.fromkeys(table["judge"]))
    for ax, kind, label in zip(
        axes, ("bias", "recall"), ("Bias@K  (0 none, + towards male)", "Recall@K (%)"), strict=True
    ):
        for (judge, captions), of in table[table["kind"] == kind].groupby(["judge", "captions"], sort=False):
            i = judges.index(judge)
            ax.plot(
                of["k"],
                of["value"],
                marker=style.MARKERS[i % 7],
                color=style.PALETTE[i % 7],
                linestyle="-" if captions == "original" else "--",
                markerfacecolor=None if captions == "original" else "white",
                label=f"{judge}, {captions} captions",
            )
        ax.set(xlabel="Images retrieved, K", ylabel=label, xticks=sorted(set(table["k"])))
        ax.set_ylim(0, None if kind == "bias" else 100)
    axes[0].legend(loc="lower right", fontsize=9)
    return fig


def _look(model: str, models: list[str]) -> tuple[str, str]:
    """Return the colour and marker of a model: fixed for the paper's, in order for others."""
    names = [*_KNOWN, *(m for m in models if m not in _KNOWN)]
    i = names.index(model) if model in _KNOWN or len(names) <= 7 else models.index(model)
    return style.PALETTE[i % 7], style.MARKERS[i % 7]


def _offset(table: pd.DataFrame, metric: str, model: str) -> float:
    """Return a small shift that keeps models of the same rank apart."""
    of = table[table["metric"] == metric].set_index("model")["rank"]
    same = [m for m in of.index if model in of.index and of[m] == of[model]]
    return 0.44 * (same.index(model) - (len(same) - 1) / 2) if model in same else 0.0


def _models(table: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(table["model"]))


def _wide(table: pd.DataFrame, index: str, columns: str | list[str], values: str) -> pd.DataFrame:
    return table.pivot(index=index, columns=columns, values=values)
