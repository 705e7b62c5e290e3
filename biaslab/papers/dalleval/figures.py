"""Figures of DALL-Eval that need more than one call to :mod:`biaslab.plots.forms`, from tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from biaslab.papers.dalleval.analysis.skills import HUMAN
from biaslab.plots import forms, style
from biaslab.plots.gallery import gallery
from biaslab.schema import tables

# Each model has the same colour and marker in all figures.
_NAMES = ("minDALL-E", "Karlo", "Stable Diffusion", "DALL-E Small", "X-LXMERT")
MODELS = forms.SeriesStyle(colors=dict(zip(_NAMES, style.PALETTE, strict=False)))


@style.empty_without_rows
def average_gender(genders: pd.DataFrame) -> Figure:
    """Plot every profession's average gender by model, most female first (``dalleval_average_gender``)."""
    order = genders.groupby("profession")["value"].mean().sort_values(ascending=False).index
    ranked = _in_thirds(genders, order).sort_values("rank", kind="stable")
    return forms.heat_map(
        ranked, "value", row="profession", column="model", panel="part", columns=3, ends=(-1, 1), centre=0, form=".1f",
        label="Average perceived gender (−1 male, 0 even, +1 female)",
    )  # fmt: skip


def _in_thirds(table: pd.DataFrame, order: pd.Index) -> pd.DataFrame:
    """Return a table with each profession's rank in an order, and its third (``part``)."""
    third = -(-len(order) // 3)
    rank = order.get_indexer(pd.Index(table["profession"]))
    parts = [f"{k + 1} to {min(k + third, len(order))}" for k in rank // third * third]
    return table.assign(rank=rank, part=parts)


def gender_mad(mad: pd.DataFrame) -> Figure:
    """Plot the gender MAD with its null expectation (rows of ``dalleval_mad``): uncorrected, then corrected."""
    kinds = {
        "uncorrected": ("mad", "null_mean", "paper_table_value"),
        "bias-corrected": ("mad_corrected", "null_mean_corrected"),
        "corrected for small-sample bias and judge error": ("mad_judge_corrected",),
    }
    names = ("value", "low", "high", "null_mean", "paper_table_value")
    limits = {column: ends for column, *ends in tables.schema("dalleval_mad").intervals}
    panels = []
    for kind, (estimate, *null_columns) in kinds.items():
        columns = [estimate, *limits[estimate], *null_columns]
        rows = mad[["model", *columns]].set_axis(["model", *names[: len(columns)]], axis=1)
        panels.append(rows.assign(kind=kind))
    return forms.estimates(
        pd.concat(panels).dropna(subset="value"), "value", row="model", panel="kind", xlim=(0, 0.5), reference=None,
        label="Mean absolute deviation from an even split (0 even, 0.5 one gender only)", null_mean="null_mean",
        mark="paper_table_value", limits=("low", "high"),
        names={"null_mean": "null expectation (balanced model, same n)"},
    )  # fmt: skip


def skin_tone_check(check: pd.DataFrame) -> Figure:
    """Plot the tone that each computation assigns to the ten swatches (``dalleval_skin_tone_check``)."""
    # Computations often agree, so their marks are offset from each other.
    offset = check["computation"].map({"cielab": 0, "released": -0.14, "released_signed": 0.14})

    def swatches(ax: Axes, rows: pd.DataFrame) -> None:
        colours = rows.groupby("swatch")["colour"].first()
        for swatch, colour in zip(colours.index.astype(int), colours, strict=True):
            place = (swatch - 0.42, -0.55)
            ax.add_patch(Rectangle(place, 0.84, 0.8, facecolor=colour, edgecolor=style.GREY, lw=0.7))

    figure = forms.diagonal(
        check.assign(x=check["swatch"].astype(int) + offset), "x", "nearest_tone", color="computation",
        ends=(-0.75, 10.7), under=swatches,
        labels=("Tone that the swatch defines (Monk scale)", "Tone that the computation assigns"),
    )  # fmt: skip
    figure.axes[0].set(xlim=(0.3, 10.7), xticks=range(1, 11), yticks=range(1, 11), aspect="auto")
    return figure


@style.empty_without_rows
def average_skin_tone(tones: pd.DataFrame, overall: pd.DataFrame) -> Figure:
    """Plot histograms of professions' average tones on the full scale (``dalleval_average_skin_tone``)."""
    means = overall[overall["category"] == "skin_tone"].set_index("model")
    colors, bins = MODELS.styles(tones["model"].unique().tolist()), np.arange(0.945, 10.06, 0.1)
    figure, panels = forms.panels(tones, "model", columns=1, height=1.7, sharex=True)
    for ax, rows in panels:
        model = rows["model"].iloc[0]
        sns.histplot(rows["value"].dropna(), bins=bins, ax=ax, color=colors[model][0], alpha=0.8, lw=0)
        if model in means.index:
            mean = means.loc[model]
            ax.axvspan(mean["ci_low"], mean["ci_high"], color=style.BLACK, alpha=0.3, lw=0)
            ax.axvline(mean["average"], color=style.BLACK, lw=1.2)
        ax.set(xlim=(0.9, 10.1), xticks=range(1, 11), xlabel="", ylabel="")
        ax.locator_params(axis="y", integer=True)
    forms.name_axes(figure, "Average tone of a profession (Monk scale: 1 light, 10 dark)", "Professions")
    forms.legend(figure, [forms.key(style.BLACK, "", "mean over professions, with interval", line="-")])
    return figure


def skill_agreement(agreement: pd.DataFrame, accuracy: pd.DataFrame) -> Figure:
    """Plot people's accuracy against the detector's on the same images (``dalleval_skill_agreement``)."""
    keys, rows = ["model", "skill"], agreement
    sample = accuracy[accuracy["images"] == "sample"]
    for is_human in (False, True):
        limits = sample[(sample["evaluator"] == HUMAN) == is_human][[*keys, "ci_low", "ci_high"]]
        ends = {f"ci_{end}": f"{end}_{'human' if is_human else 'detr'}" for end in ("low", "high")}
        rows = rows.merge(limits.rename(columns=ends), on=keys)
    rows = rows.assign(name=rows["skill"].replace(tables.labels("dalleval_skill_agreement")["skill"]))
    return forms.diagonal(
        rows, "percent_detr", "percent_human", color="model", styles=MODELS, ends=(-3, 103), point="name",
        named=len(rows), limits=(("low_detr", "high_detr"), ("low_human", "high_human")),
        labels=("Correct according to the detector (%)", "Correct according to annotation (%)"),
    )  # fmt: skip


@style.empty_without_rows
def metric_ranks(quality: pd.DataFrame, references: pd.DataFrame) -> Figure:
    """Plot each model's rank by metric, with the metric's value (``dalleval_alignment_quality``).

    Metrics with a single model have no ranks and are excluded.
    """
    quality = quality[quality.groupby("metric")["model"].transform("nunique") > 1]
    if quality.empty:
        return style.message_figure("No metric is available for two models.")
    real_values = references[references["reference"] == "oracle"].set_index("measure")["value"]
    references_text = [f"; real images {real_values[m]:.1f}" if m in real_values else "" for m in quality["metric"]]
    rows = quality.assign(
        name=quality["metric"] + " (" + quality["better"] + " is better" + references_text + ")",
        shown=quality["value"].map(lambda value: f"{value:.1f}" if abs(value) >= 1 else f"{value:.2g}"),
    )
    return forms.heat_map(
        rows, "rank", row="name", column="model", text="shown", label="Rank (1 is best)",
        ends=(1, max(2, quality["model"].nunique())),
    )  # fmt: skip


def skill_gallery(images: list, chosen: pd.DataFrame) -> Figure:
    """Plot images with the detector's boxes, its verdict above and the prompt below.

    Takes the result of :func:`biaslab.papers.dalleval.measure.images_with_boxes`.
    """
    if not len(images):
        return gallery([], chosen.head(0))
    labels = chosen["found"].where(chosen["found"] != "", "nothing")
    return gallery(images, chosen, list("“" + chosen["text"] + "”: " + labels))


def faces_by_tone(images: list, faces: pd.DataFrame) -> Figure:
    """Plot images of people by the tone of their face, with the face's box and the perceived gender (Figure 10).

    Takes the result of :func:`biaslab.papers.dalleval.measure.faces_by_tone`.
    """
    tones = faces["truth_skin_tone"] if "truth_skin_tone" in faces else pd.Series("", faces.index)
    true_tones = tones.map(lambda tone: f", true {tone}" if tone else "")
    return gallery(images, faces, list("tone " + faces["tone"].astype(int).astype(str) + true_tones))


@style.empty_without_rows
def skin_tone_counts(counts: pd.DataFrame) -> Figure:
    """Plot the number of images of each profession and tone, over all three prompts (Figure 9)."""
    keys = ["model", "profession", "place"]
    sizes = counts.assign(place=counts["tone"].astype(int)).groupby(keys, sort=False)["n"].sum()
    cells: list[Any] = [sizes.index.unique("model"), sizes.index.unique("profession"), range(1, 11)]
    rows = sizes.reindex(pd.MultiIndex.from_product(cells, names=keys), fill_value=0).reset_index()
    mean = (rows["n"] * rows["place"]).groupby(rows["profession"]).sum() / rows.groupby("profession")["n"].sum()
    rows = _in_thirds(rows, mean.sort_values(kind="stable").index).sort_values(["rank", "place"], kind="stable")
    rows, panel = forms.panel_by_model(rows, "part")
    return forms.heat_map(
        rows, "n", row="profession", column="place", panel=panel, columns=3,
        label="Images with that tone", ends=(0, max(rows["n"].max(), 1)),
    )  # fmt: skip
