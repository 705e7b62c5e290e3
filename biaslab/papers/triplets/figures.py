"""Figures of gender triplets that need more than a call to :mod:`biaslab.plots.forms`, from tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from biaslab.papers.triplets.analysis import most_biased_objects
from biaslab.plots import forms, style
from biaslab.plots.gallery import gallery
from biaslab.schema import tables

_GROUP_COLORS = {
    "explicitly_guided": style.BLUE,
    "implicitly_guided": style.ORANGE,
    "explicitly_independent": style.GREEN,
    "implicitly_independent": style.PURPLE,
}


def replacement_note(networks: pd.DataFrame) -> str:
    """Return the caption's note on networks that replace the paper's (``triplets_networks``); may be empty."""
    replaced, names = networks[networks["replaces"] != ""], tables.labels("triplets_networks")["metric"]
    metrics_by_network = replaced.groupby("network", sort=False)["metric"].agg(
        lambda metrics: ", ".join(names[metric] for metric in metrics)
    )
    clauses = "; ".join(f"{network} for {metrics}" for network, metrics in metrics_by_network.items())
    return f"Measured values use networks other than the paper's: {clauses}." if clauses else ""


def examples(images: list, rows: pd.DataFrame) -> Figure:
    """Plot images of triplets next to one another, with the gender of the prompt above and the prompt below.

    ``rows`` are those of :func:`biaslab.papers.triplets.measure.examples`, ``images`` their images.
    """
    n_genders = rows["prompt_gender"].nunique()
    statuses = rows.assign(status=rows["prompt_gender"], gender="")
    return gallery(images, statuses, list(rows["text"]), columns=2 * n_genders if n_genders < 4 else n_genders)


@style.empty_without_rows
def bias_score(scores: pd.DataFrame, *, alpha: float = 0.05, n_per_side: int = 5) -> Figure:
    """Plot the most biased objects of each gender, one panel per dataset, group and model.

    From ``triplets_bias_score`` or ``triplets_group_bias_score``. Each panel has up to ``n_per_side`` objects per
    gender, those whose interval is farthest from 0.5. Filled marks are significant at the level ``alpha`` after Holm's
    correction; black marks are true scores, where known.
    """
    panel = scores["dataset"]
    if "dependency_group" in scores:
        groups = tables.labels("triplets_group_bias_score")["dependency_group"]
        panel = scores["dependency_group"].replace(groups) + ", " + panel
    scores, panel_column = forms.panel_by_model(scores.assign(panel=panel), "panel")
    objects = pd.concat([most_biased_objects(rows, n_per_side) for _, rows in scores.groupby(panel_column, sort=False)])
    number = objects["n"].map(" (n = {:,.0f})".format).where(objects["n"].notna(), "")
    objects = objects.assign(name=objects["object"] + number, significant=objects["p_holm"] < alpha)
    is_untested = objects["p_holm"].isna()
    stated_label = "stated in the paper without a test"
    hollow_label = (
        stated_label
        if is_untested.all()
        else f"not significant, or {stated_label}"
        if is_untested.any()
        else "not significant"
    )
    names = {"filled": "significant (Holm's correction)", "hollow": hollow_label, "mark": "ground truth"}
    true_column = "true_score" if "true_score" in scores and scores["true_score"].notna().any() else ""
    return forms.estimates(
        objects, "bias_score", row="name", panel=panel_column, filled="significant", names=names, mark=true_column,
        reference=0.5, label="Bias score (0 feminine only, 1 masculine only)", xlim=(-0.03, 1.03), columns=2,
    )  # fmt: skip


def dependency(example: Any) -> Figure:
    """Plot an image, the regions of its prompt's nouns, and its objects with their dependency groups (figure 5).

    ``example`` is the result of :func:`biaslab.papers.triplets.measure.dependency_example`.
    """
    if example is None:
        return style.message_figure("The source has no image with detected objects and attention maps.")
    objects = list(zip(example.objects, example.groups, example.object_masks, strict=True))[:6]
    words = list(zip(example.words, example.word_masks, strict=True))[:5]
    columns = max(len(objects), len(words) + 1)
    size = (forms.WIDTH, 2 * forms.WIDTH / columns + 1.0)
    figure, axes = style.subplots(2, columns, figsize=size, squeeze=False)
    for ax in axes.flat:
        ax.set_axis_off()
    axes[0, 0].imshow(example.image, interpolation="nearest")
    axes[0, 0].set_title("image", fontsize=10)
    for ax, (word, mask) in zip(axes[0, 1:], words, strict=False):
        ax.imshow(_highlight(example.image, mask), interpolation="nearest")
        ax.set_title(f"word: {word}", fontsize=10)
    groups = tables.labels("triplets_group_share")["dependency_group"]
    for ax, (name, group, mask) in zip(axes[1], objects, strict=False):
        ax.imshow(_highlight(example.image, mask), interpolation="nearest")
        title = f"{name}\n{groups.get(group, 'unknown').replace(' ', chr(10))}"
        ax.set_title(title, fontsize=10, color=_GROUP_COLORS.get(group, style.GREY))
    hidden = f"; hidden: {', '.join(example.hidden)}" if example.hidden else ""
    figure.suptitle(f"“{example.text}”{hidden}", fontsize=11)
    return figure


def _highlight(image: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return an image that is faded to grey outside a mask."""
    grey = 0.75 * 255 + 0.25 * image.mean(axis=2, keepdims=True)
    return np.where(mask[..., None], image, grey).astype(np.uint8)
