"""Figures of the bias amplification paradox: tables of :mod:`biaslab.studies.paradox` in, figures out."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Polygon, Rectangle

from biaslab.plots import style

APPROACH_NAMES = {
    "naive": "All captions (naive)",
    "no_indicators": "No gender indicators",
    "nearest": "Nearest captions",
    "nearest_no_indicators": "Nearest, no indicators",
    "caption_prompts": "Captions as prompts",
    "caption_prompts_no_indicators": "Captions as prompts, no indicators",
    "paraphrased": "Paraphrased captions",
    "paraphrased_no_indicators": "Paraphrased, no indicators",
}
DEFINITION_NAMES = {
    "published": "published rule (same lean only)",
    "no_exclusion": "no exclusion",
    "directional": "along the training lean",
}
DEFINITION_LOOK = {
    "published": (style.VERMILION, "o"),
    "no_exclusion": (style.BLUE, "s"),
    "directional": (style.GREEN, "D"),
}


_SHARES = ["percent_training", "percent_generated"]


def regions(ax: Axes) -> None:
    """Shade where bias is amplified, where it is de-amplified, and where the lean is opposite."""
    up = {"facecolor": style.AMPLIFIED, "alpha": 0.13, "edgecolor": "none", "zorder": 0}
    down = {"facecolor": style.DEAMPLIFIED, "alpha": 0.2, "edgecolor": "none", "zorder": 0}
    ax.add_patch(Polygon([(0, 0), (50, 50), (50, 0)], **up))
    ax.add_patch(Polygon([(50, 50), (100, 100), (50, 100)], **up))
    ax.add_patch(Polygon([(0, 0), (50, 50), (0, 50)], **down))
    ax.add_patch(Polygon([(50, 50), (100, 100), (100, 50)], **down))
    for corner in ((0, 50), (50, 0)):
        ax.add_patch(
            Rectangle(corner, 50, 50, facecolor="none", edgecolor=style.LIGHT, hatch="////", lw=0, zorder=0)
        )
    ax.plot([0, 100], [0, 100], color=style.GREY, lw=1, ls="--", zorder=1)
    ax.set(xlim=(-2, 102), ylim=(-2, 102), aspect="equal")


def head(ax: Axes, title: str) -> None:
    """Write a panel's heading; one of several lines is smaller, so that it stays within its panel."""
    ax.set_title(title, **({"fontsize": 10} if "\n" in title else {}))


def region_legend() -> list[Patch]:
    """Return the legend entries of :func:`regions`."""
    return [
        Patch(facecolor=style.AMPLIFIED, alpha=0.3, label="amplified"),
        Patch(facecolor=style.DEAMPLIFIED, alpha=0.4, label="de-amplified"),
        Patch(
            facecolor="white",
            edgecolor="#BBBBBB",
            hatch="////",
            label="opposite lean: left out by the published rule",
        ),
    ]


def training_against_generated(occupations: pd.DataFrame, *, label_most: int = 20) -> Figure:
    """Draw % female in training against generated images, one panel a prompt, for one model.

    Args:
        occupations: Rows of ``paradox_occupation_amplification`` of one model and approach.
        label_most: How many occupations to name in each panel: those farthest from the diagonal.
    """
    prompts = list(dict.fromkeys(occupations["prompt"]))
    panels = {prompt_name(p): occupations[occupations["prompt"] == p] for p in prompts}
    return share_panels(panels, label_most=label_most)


def share_panels(panels: Mapping[str, pd.DataFrame], *, label_most: int = 20) -> Figure:
    """Draw % female in training against generated images, a panel for each title.

    Args:
        panels: Title to rows with percent_training, percent_generated, occupation, excluded (empty where the
            published rule counts the occupation), and the limits of both shares, which may be missing.
        label_most: How many occupations to name in each panel: those farthest from the diagonal.
    """
    columns = 3 if len(panels) == 3 else min(2, len(panels))
    lines = -(-len(panels) // columns)
    side = 4.7 if columns == 3 else 5.4
    figure, axes = plt.subplots(
        lines, columns, figsize=(side * columns, (side + 0.1) * lines + 0.5), squeeze=False
    )
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    known = {title: rows.dropna(subset=_SHARES) for title, rows in panels.items()}
    for ax, (title, some) in zip(axes.flat, known.items(), strict=False):
        regions(ax)
        thin = {"color": style.GREY, "lw": 0.6, "alpha": 0.6, "zorder": 2}
        ax.hlines(some["percent_generated"], some["training_low"], some["training_high"], **thin)
        ax.vlines(some["percent_training"], some["generated_low"], some["generated_high"], **thin)
        out = some["excluded"] != ""
        for rows, fill, marker in ((some[~out], style.BLACK, "o"), (some[out], "white", "X")):
            ax.scatter(
                rows["percent_training"],
                rows["percent_generated"],
                s=26,
                marker=marker,
                facecolor=fill,
                edgecolor=style.BLACK,
                linewidth=0.7,
                zorder=3,
            )
        head(ax, title)
        ax.set_xlabel("Perceived as female in training images (%)")
        ax.set_ylabel("Perceived as female in generated images (%)")
    figure.legend(handles=region_legend(), loc="outside lower center", ncols=3)
    # Last, because texts are placed in the finished layout, which is then kept.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for ax, some in zip(axes.flat, known.values(), strict=False):
        _name_far_points(ax, some, label_most)
    return figure


def _name_far_points(ax: Axes, rows: pd.DataFrame, most: int) -> None:
    """Name the points farthest from the diagonal, as many as find a place."""
    far = (rows["percent_generated"] - rows["percent_training"]).abs().nlargest(most).index
    x, y, names = (rows.loc[far, c] for c in ("percent_training", "percent_generated", "occupation"))
    every = (rows["percent_training"], rows["percent_generated"])
    style.label_points(ax, x, y, names, avoid=every, fontsize=8)


def prompt_name(prompt: str) -> str:
    """Return a prompt's name as a heading."""
    return f"Prompt #{prompt}" if prompt.isdigit() else prompt.capitalize()


@style.or_nothing
def by_definition(amplification: pd.DataFrame, titles: Mapping[str, str] | None = None) -> Figure:
    """Draw expected amplification by definition, prompt and model, with intervals.

    Small crosses are the measure with image noise left in.

    Args:
        amplification: Rows of ``paradox_amplification`` of one approach that have intervals.
        titles: Heading of each model's panel; by default its name.
    """
    models = list(dict.fromkeys(amplification["model"]))
    prompts = list(dict.fromkeys(amplification["prompt"]))
    figure, axes = plt.subplots(
        1,
        len(models),
        figsize=(max(7.5, (5.0 if len(models) < 3 else 4.3) * len(models)), 0.75 * len(prompts) + 2),
        sharey=True,
        sharex=True,
        squeeze=False,
    )
    for ax, model in zip(axes.flat, models, strict=True):
        style.zero_line(ax)
        for i, (definition, (color, marker)) in enumerate(DEFINITION_LOOK.items()):
            some = amplification[
                (amplification["model"] == model) & (amplification["definition"] == definition)
            ]
            some = some.set_index("prompt").reindex(prompts)
            style.dots_with_intervals(
                ax,
                some["amplification"],
                some["ci_low"],
                some["ci_high"],
                np.arange(len(prompts)) + 0.24 * (i - 1),
                color=color,
                marker=marker,
                label=DEFINITION_NAMES[definition],
            )
            _plain_marks(ax, some, np.arange(len(prompts)) + 0.24 * (i - 1), color, last=i == 2)
        head(ax, (titles or {}).get(model, model))
        ax.set_xlabel("Expected amplification (points)")
    first = axes[0, 0]
    first.set_yticks(range(len(prompts)), [prompt_name(p) for p in prompts])
    first.set_ylim(len(prompts) - 0.4, -0.6)
    figure.legend(*first.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def _plain_marks(ax: Axes, rows: pd.DataFrame, positions: np.ndarray, color: str, *, last: bool) -> None:
    """Mark the plain measure of rows that have an interval; ``last`` names the marks in the legend."""
    known = rows["ci_low"].notna().to_numpy()
    look = {"color": color, "markersize": 5, "mew": 1.1, "alpha": 0.9, "zorder": 2.5}
    ax.plot(rows["amplification_plain"][known], positions[known], "x", **look)
    if last:
        ax.plot([], [], "x", label="image noise left in", **look | {"color": style.GREY})


def by_approach(amplification: pd.DataFrame, titles: Mapping[str, str] | None = None) -> Figure:
    """Draw the published definition by approach and prompt, one panel a model; hollow where only printed.

    Args:
        amplification: Rows of ``paradox_amplification`` with ``definition == "published"``.
        titles: Heading of each model's panel; by default its name.
    """
    models = list(dict.fromkeys(amplification["model"]))
    approaches = [a for a in APPROACH_NAMES if a in set(amplification["approach"])]
    prompts = [
        p for p in ("1", "2", "3", "4", "captions", "ratings", "mean") if p in set(amplification["prompt"])
    ]
    figure, axes = plt.subplots(
        1,
        len(models),
        figsize=(max(8.5, (5.4 if len(models) < 3 else 4.5) * len(models)), 0.62 * len(approaches) + 2.0),
        sharey=True,
        sharex=True,
        squeeze=False,
    )
    offsets = np.linspace(-0.3, 0.3, len(prompts)) if len(prompts) > 1 else [0.0]
    for ax, model in zip(axes.flat, models, strict=True):
        style.zero_line(ax)
        for y in range(len(approaches) - 1):
            ax.axhline(y + 0.5, color=style.LIGHT, lw=0.8, zorder=0)
        for prompt, offset, color, marker in zip(
            prompts, offsets, style.PALETTE, style.MARKERS, strict=False
        ):
            some = amplification[(amplification["model"] == model) & (amplification["prompt"] == prompt)]
            some = some.set_index("approach").reindex(approaches)
            style.dots_with_intervals(
                ax,
                some["amplification"],
                some["ci_low"],
                some["ci_high"],
                np.arange(len(approaches)) + offset,
                color=style.BLACK if prompt == "mean" else color,
                marker="*" if prompt == "mean" else marker,
                size=9 if prompt == "mean" else 5.5,
                label="mean of prompts" if prompt == "mean" else prompt_name(prompt),
            )
            last = prompt == prompts[-1]
            _plain_marks(ax, some, np.arange(len(approaches)) + offset, style.GREY, last=last)
        head(ax, (titles or {}).get(model, model))
        ax.set_xlabel("Amplification, published rule (points)")
    first = axes[0, 0]
    first.set_yticks(range(len(approaches)), [APPROACH_NAMES[a] for a in approaches])
    first.set_ylim(len(approaches) - 0.4, -0.6)
    handles: dict = {}
    for ax in axes.flat:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=min(7, len(handles)))
    return figure


def signed_changes(occupations: pd.DataFrame) -> Figure:
    """Draw each occupation's signed change along its training lean for one model, averaged over prompts.

    The dot is the mean over prompts, thin marks are the prompts; colour tells whether the published rule counts
    the occupation for every prompt, some, or none.
    """
    mean = occupations.groupby("occupation").agg(
        directional=("directional", "mean"), out=("excluded", lambda e: (e != "").mean())
    )
    mean = mean.dropna().sort_values("directional")
    figure, ax = plt.subplots(figsize=(8.5, 0.2 * len(mean) + 1.6))
    style.zero_line(ax)
    place = {occupation: i for i, occupation in enumerate(mean.index)}
    some = occupations[occupations["occupation"].isin(place)]
    ax.plot(
        some["directional"],
        some["occupation"].map(place),
        "|",
        color=style.GREY,
        markersize=7,
        alpha=0.7,
        label="each prompt",
    )
    looks = (
        ("counted for every prompt", mean["out"] == 0, style.BLUE, "o"),
        ("left out for some prompts", (mean["out"] > 0) & (mean["out"] < 1), style.ORANGE, "D"),
        ("left out for every prompt", mean["out"] == 1, style.VERMILION, "X"),
    )
    for label, rows, color, marker in looks:
        if rows.any():
            ax.plot(
                mean["directional"][rows],
                np.flatnonzero(rows),
                marker,
                color=color,
                markersize=5.5,
                label=label,
            )
    ax.set_yticks(range(len(mean)), mean.index, fontsize=8)
    ax.set_ylim(-0.8, len(mean) - 0.2)
    ax.set_xlabel("Change from training to generated images along the training lean (points)")
    ax.legend(loc="lower right", frameon=True, framealpha=0.9, edgecolor="none")
    return figure


def variation(variation: pd.DataFrame, shares: pd.DataFrame, *, most: int = 20) -> Figure:
    """Draw the generated shares of the occupations that move most between prompts, with intervals, one model.

    Args:
        variation: Rows of ``paradox_prompt_variation`` of one model.
        shares: Rows of ``paradox_percent_female`` of that model.
        most: How many occupations to draw.
    """
    top = variation.nlargest(most, "sd_prompts")["occupation"].tolist()[::-1]
    generated = shares[shares["source"] == "generated"]
    prompts = sorted(set(generated["prompt"]))
    figure, ax = plt.subplots(figsize=(8.5, 0.36 * len(top) + 1.8))
    style.zero_line(ax, 50)
    offsets = np.linspace(-0.27, 0.27, len(prompts))
    for prompt, offset, color, marker in zip(prompts, offsets, style.PALETTE, style.MARKERS, strict=False):
        some = generated[generated["prompt"] == prompt].set_index("occupation").reindex(top)
        style.dots_with_intervals(
            ax,
            some["percent_female"],
            some["ci_low"],
            some["ci_high"],
            np.arange(len(top)) + offset,
            color=color,
            marker=marker,
            size=5,
            label=prompt_name(prompt),
        )
    training = (
        shares[shares["source"] == "training"]
        .drop_duplicates("occupation")
        .set_index("occupation")
        .reindex(top)
    )
    ax.plot(
        training["percent_female"],
        range(len(top)),
        "|",
        color=style.BLACK,
        markersize=16,
        mew=2,
        label="training images",
    )
    ax.set_yticks(range(len(top)), top)
    ax.set(xlim=(-2, 102), ylim=(-0.7, len(top) - 0.3))
    ax.set_xlabel("Perceived as female (%)")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure


def noise_against_variation(variation: pd.DataFrame) -> Figure:
    """Draw the standard deviation over prompts against what sampling noise alone gives, all models."""
    figure, ax = plt.subplots(figsize=(7.5, 5.2))
    models = list(dict.fromkeys(variation["model"]))
    top = float(variation["sd_prompts"].max()) * 1.08
    ax.plot([0, top], [0, top], "--", color=style.GREY, lw=1, label="noise alone")
    for model, color, marker in zip(models, style.PALETTE, style.MARKERS, strict=False):
        some = variation[variation["model"] == model]
        ax.plot(some["sd_noise"], some["sd_prompts"], marker, color=color, alpha=0.75, label=model)
    ax.set(xlim=(0, float(variation["sd_noise"].max()) * 1.15), ylim=(0, top))
    ax.set_xlabel("Standard deviation that sampling noise alone gives (points)")
    ax.set_ylabel("Standard deviation over prompts (points)")
    # Below: models with many and with few images fill both ends of the axis.
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure
