"""Figures of gender triplets that take more than a form: tables in, figures out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from biaslab.papers.triplets.analysis import strongest
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
    """Return what captions say of networks that replace the paper's (``triplets_networks``); may be empty."""
    other, names = networks[networks["replaces"] != ""], tables.labels("triplets_networks")["metric"]
    by = other.groupby("network", sort=False)["metric"].agg(
        lambda metrics: ", ".join(names[metric] for metric in metrics)
    )
    named = "; ".join(f"{metrics} by {network}" for network, metrics in by.items())
    return f"Measured values use other networks than the paper: {named}." if named else ""


def examples(images: list, shown: pd.DataFrame) -> Figure:
    """Plot images of triplets next to one another, with the gender of the prompt above and the prompt below.

    ``shown`` has the rows of :func:`biaslab.papers.triplets.measure.examples`, ``images`` their images.
    """
    wide = shown["prompt_gender"].nunique()
    judged = shown.assign(status=shown["prompt_gender"], gender="")
    return gallery(images, judged, list(shown["text"]), columns=2 * wide if wide < 4 else wide)


@style.empty_without_rows
def bias_score(scores: pd.DataFrame, *, alpha: float = 0.05, most: int = 5) -> Figure:
    """Plot the objects that lean most to each gender, one panel a dataset, of each group and model where several are.

    Of ``triplets_bias_score`` or ``triplets_group_bias_score``: on each side of a panel ``most`` objects, whose
    interval is farthest from 0.5, filled where Holm's correction leaves them at the level ``alpha``. Black marks are
    true scores, where they are known.
    """
    panel = scores["dataset"]
    if "dependency_group" in scores:
        groups = tables.labels("triplets_group_bias_score")["dependency_group"]
        panel = scores["dependency_group"].replace(groups) + ", " + panel
    scores, by = forms.panel_by_model(scores.assign(panel=panel), "panel")
    leaning = pd.concat([strongest(rows, most) for _, rows in scores.groupby(by, sort=False)])
    number = leaning["n"].map(" (n = {:,.0f})".format).where(leaning["n"].notna(), "")
    leaning = leaning.assign(name=leaning["object"] + number, significant=leaning["p_holm"] < alpha)
    untested = leaning["p_holm"].isna()
    stated = "stated in the paper without a test"
    hollow = stated if untested.all() else f"not significant, or {stated}" if untested.any() else "not significant"
    names = {"filled": "differs from 0.5 after Holm's correction", "hollow": hollow, "mark": "planted"}
    true = "true_score" if "true_score" in scores and scores["true_score"].notna().any() else ""
    return forms.estimates(
        leaning, "bias_score", row="name", panel=by, filled="significant", names=names, mark=true, reference=0.5,
        label="bias score: 0 feminine only, 1 masculine only", xlim=(-0.03, 1.03), columns=2,
    )  # fmt: skip


def dependency(example: Any) -> Figure:
    """Plot an image, the regions of its prompt's nouns, and its objects with their dependency groups (figure 5).

    ``example`` is what :func:`biaslab.papers.triplets.measure.dependency_example` returns.
    """
    if example is None:
        return style.nothing("The source has no images with maps of words and objects.")
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
        ax.imshow(_lit(example.image, mask), interpolation="nearest")
        ax.set_title(f"word: {word}", fontsize=10)
    groups = tables.labels("triplets_group_share")["dependency_group"]
    for ax, (name, group, mask) in zip(axes[1], objects, strict=False):
        ax.imshow(_lit(example.image, mask), interpolation="nearest")
        title = f"{name}\n{groups.get(group, 'unknown').replace(' ', chr(10))}"
        ax.set_title(title, fontsize=10, color=_GROUP_COLORS.get(group, style.GREY))
    hidden = f"; hidden: {', '.join(example.hidden)}" if example.hidden else ""
    figure.suptitle(f"“{example.text}”{hidden}", fontsize=11)
    return figure


def _lit(image: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return an image that is pale and grey outside of a mask."""
    grey = 0.75 * 255 + 0.25 * image.mean(axis=2, keepdims=True)
    return np.where(mask[..., None], image, grey).astype(np.uint8)
