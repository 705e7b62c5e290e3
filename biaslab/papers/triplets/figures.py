"""Figures of gender triplets: tables in, figures out."""

from __future__ import annotations

import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from biaslab.papers.triplets.analysis import ALL_MODELS, relative
from biaslab.plots import forms, style
from biaslab.plots.gallery import gallery

METRIC_NAMES = {
    "t": "Text embedding",
    "t_pooled": "Pooled text",
    "t_words": "Words of the text",
    "z0": "Final latent",
    "ssim": "SSIM",
    "diff_pix": "Differing pixels",
    "diff_pix_fixed": "Pixels, cut at 0.5",
    "resnet": "ResNet-50",
    "clip": "CLIP",
    "dino": "DINO",
    "split_product": "Split-product",
    "split_product_dcr": "Split, whole image",
}
PAIR_NAMES = {
    "neutral-feminine": "feminine",
    "neutral-masculine": "masculine",
    "neutral-placebo": "placebo",
    "neutral-another_seed": "neutral, other noise",
}
GROUP_NAMES = {
    "explicitly_guided": "explicitly guided",
    "implicitly_guided": "implicitly guided",
    "explicitly_independent": "explicitly independent",
    "implicitly_independent": "implicitly independent",
    "hidden": "hidden",
    "nouns": "nouns of prompts",
    "all": "all objects",
    "macro": "mean over groups",
}
_NEARER = {
    "value": "percent_nearer",
    "limits": ("percent_ci_low", "percent_ci_high"),
    "row": "metric",
    "row_names": METRIC_NAMES,
    "label": "How much nearer neutral is to masculine (% of its distance to feminine)",
}
_AFTER_STEPS = {
    "value": "gap",
    "labels": ("denoising step", "latents nearer to masculine (cosine) ↑"),
    "reference": 0.0,
    "sharey": False,
}
_BY_GROUP = {"row": "dependency_group", "row_names": GROUP_NAMES}
_PERCENT = {"reference": None, "xlim": (-2, 102)}
_SCORES = {
    "value": "bias_score",
    "label": "bias score: 0 feminine only, 1 masculine only",
    "panel": "dataset",
    "reference": 0.5,
    "mark_name": "planted",
    "xlim": (-0.03, 1.03),
    "columns": 2,
}


def stand_ins(networks: pd.DataFrame) -> str:
    """Return what captions say of networks that stand in for the paper's (``triplets_networks``); may be empty."""
    other = networks[networks["stands_in_for"] != ""]
    by = other.groupby("network", sort=False)["metric"].agg(lambda of: ", ".join(map(METRIC_NAMES.get, of)))
    named = "; ".join(f"{metrics} by {network}" for network, metrics in by.items())
    return f"In what is measured, others stand in for the paper's networks: {named}." if named else ""


STEP_NAMES = {
    "captions": "captions of the corpus",
    "person or people": "with person or people",
    "gender": "no gender word of Table 2",
    "geography": "no geography word of Table 2",
    "others": "no other word of Table 2",
    "plurals": "no plural of these words",
    "different": "each text once",
    "swappable": "can be swapped",
    "no indicator": "no other gender indicator",
    "depicted": "seem to show whom they name",
    "sampled": "drawn for this run",
}


@style.empty_without_rows
def funnel(funnel: pd.DataFrame) -> Figure:
    """Draw the captions that are left after each step (``triplets_funnel``), one panel a data set."""
    figure, parts = forms.panels(
        funnel, "dataset", columns=1, height=lambda rows: 0.34 * len(rows) + 0.9, sharex=True
    )
    forms.name_axes(figure, "captions left (logarithmic scale)")
    for ax, rows in parts:
        y, left = np.arange(len(rows)), rows["n_captions"].to_numpy(float)
        ax.hlines(y, 0, left, color=style.BLUE, lw=2, alpha=0.5)
        ax.plot(left, y, "o", color=style.BLUE)
        for at, n in zip(y, left, strict=True):
            ax.annotate(
                f"{n:,.0f}", (n, at), xytext=(8, 0), textcoords="offset points", va="center", fontsize=9
            )
        # A step that leaves none has a place on this scale as well.
        ax.set_xscale("symlog", linthresh=1)
        ax.set_xlim(0, 8 * max(left.max(), 1))
        ax.set_yticks(y, [STEP_NAMES.get(step, step) for step in rows["step"]])
        ax.set_ylim(len(rows) - 0.45, -0.55)
    return figure


def depicted(agreement: pd.DataFrame) -> Figure:
    """Draw precision and recall of the filter of captions with their intervals (``triplets_depicted``)."""
    named = agreement.assign(what=agreement["target"] + ", " + agreement["split"])
    how = {"reference": None, "xlim": (0, 101), "inch": 0.42}
    return forms.estimates(named, "value", row="what", hue="statistic", label="captions (%)", **how)


def disparity_gap(gap: pd.DataFrame) -> Figure:
    """Draw the gap of each model and dataset (``triplets_disparity_gap``), one panel a metric, in the metric's unit.

    Those without an interval are hollow, and their lines are what rounding leaves open: one unit of the last printed
    digit either way. Metrics without any gap are left out.
    """
    known = gap[gap.groupby("metric")["gap"].transform("count") > 0]
    # The same rows in every panel, whichever metrics a model has.
    sets = known["dataset"].drop_duplicates().to_frame()
    whole = known[["metric"]].drop_duplicates().merge(sets, how="cross")
    whole = whole.merge(known, on=["metric", "dataset"], how="left")
    named = whole["model"].fillna("".join(known["model"].head(1)))
    return _gaps(whole.assign(model=named), "metric", "nearer to masculine →")


def relative_gap(gap: pd.DataFrame) -> Figure:
    """Draw measured gaps (``triplets_disparity_gap``) in % of the distance to feminine, with their intervals.

    A row a metric, colours by model, a panel a dataset. What has no interval over triplets is left out.
    """
    known = relative(gap).dropna(subset="percent_nearer")
    return forms.estimates(known, hue="model", panel="dataset", inch=0.36, **_NEARER)


@style.empty_without_rows
def floor(floor: pd.DataFrame, disparity: pd.DataFrame) -> Figure:
    """Draw how alike neutral is to each other prompt, and to itself from other noise, one panel a metric.

    Of ``triplets_floor``, and the rows of ``triplets_disparity`` that are of its models and datasets.
    """
    cell = ["model", "dataset", "metric"]
    own = disparity.merge(floor[cell].drop_duplicates(), on=cell)
    references = floor.assign(pair=floor["reference"]).drop_duplicates([*cell, "pair"])
    both = pd.concat([own, references], ignore_index=True).dropna(subset="value")
    both = both.sort_values("pair", key=lambda pair: pair.map(list(PAIR_NAMES).index), kind="stable")
    # Of several models, each data set of each.
    both, of = forms.by_model(both, "dataset")
    label = "similarity to neutral (differing pixels: % of the image)"
    names = {"row_names": PAIR_NAMES, "panel_names": METRIC_NAMES}
    how = {"label": label, "reference": None, "columns": 3, "inch": 0.3} | names
    return forms.estimates(both, "value", row="pair", hue=of, panel="metric", **how)


@style.empty_without_rows
def where(where: pd.DataFrame) -> Figure:
    """Draw the gap in latents after each step (``triplets_where``), one panel a model."""
    steps = where[where["part"] == "step"]
    steps = steps.assign(place=steps["place"].astype(int))
    return forms.trends(steps, "place", hue="dataset", panel="model", **_AFTER_STEPS)


@style.empty_without_rows
def guidance(gaps: pd.DataFrame) -> Figure:
    """Draw the gap after each step, a line a guidance scale (``triplets_guidance``), one panel a model and dataset."""
    several = gaps["dataset"].nunique() > 1
    named = gaps.assign(
        scale=gaps["guidance_scale"].map("guidance {:g}".format),
        panel=gaps["model"] + ", " + gaps["dataset"] if several else gaps["model"],
    ).sort_values("guidance_scale", kind="stable")
    return forms.trends(named, "denoising_step", hue="scale", panel="panel", **_AFTER_STEPS)


def where_layers(where: pd.DataFrame) -> Figure:
    """Draw the gap in where each layer attends (``triplets_where``), layers in the order in which they run."""
    layers = where[where["part"] == "layer"]
    layers = layers.assign(layer=[layer_name(row) for _, row in layers.iterrows()])
    how = {"label": "attention nearer to masculine (cosine) →", "columns": 2}
    return forms.estimates(layers, "gap", row="layer", hue="dataset", panel="model", **how)


def layer_name(layer: pd.Series) -> str:
    """Return the name of a layer of ``triplets_where`` without what all have, as ``up 1.0.0 (16x16)``."""
    first, *others = re.sub(r"_?blocks|attentions|attn2?|\.", " ", layer["place"]).split()
    numbers = ".".join(part for part in others if part != "transformer")
    return f"{first} {numbers} ({layer['resolution']})"


def examples(images: list, shown: pd.DataFrame) -> Figure:
    """Draw images of triplets beside one another, with the gender of the prompt above and the prompt below.

    ``shown`` has the rows of :func:`biaslab.papers.triplets.measure.examples`, ``images`` their pictures.
    """
    if not len(images):
        return style.nothing("The source has no images.")
    wide = shown["prompt_gender"].nunique()
    judged = shown.assign(outcome=shown["prompt_gender"], gender="")
    return gallery(images, judged, list(shown["text"]), columns=2 * wide if wide < 4 else wide)


def co_occurrence(gap: pd.DataFrame) -> Figure:
    """Draw the gap of each model and dataset (``triplets_co_occurrence``), as :func:`disparity_gap` does."""
    return _gaps(gap, "", "gap in co-occurrence similarity (cosine): neutral nearer to masculine →")


def _gaps(gap: pd.DataFrame, panel: str, label: str) -> Figure:
    known = gap["ci_low"].notna()
    low, high = gap["gap"] - gap["rounding"], gap["gap"] + gap["rounding"]
    ends = {"low": gap["ci_low"].where(known, low), "high": gap["ci_high"].where(known, high)}
    figure = forms.estimates(
        gap.assign(known=known, **ends),
        "gap",
        row="dataset",
        hue="model",
        panel=panel,
        panel_names=METRIC_NAMES,
        label=label,
        limits=tuple(ends),
        filled="known",
        filled_names=("with interval", "mean without one"),
        columns=4 if panel else 1,
        inch=0.26,
    )
    for ax in figure.axes:
        ax.locator_params(axis="x", nbins=4)
    return figure


@style.empty_without_rows
def gap_summary(summary: pd.DataFrame, gap: pd.DataFrame) -> Figure:
    """Draw the relative gap of each metric over datasets with its interval, and the datasets behind it.

    ``summary`` has rows of ``triplets_gap_summary`` of one model, or of several together, ``gap`` the
    ``triplets_disparity_gap`` that it summarises. Of one dataset there is nothing to summarise.
    """
    if summary["percent_ci_low"].isna().all():
        return style.nothing("Without several datasets there is no interval over them.")
    figure = forms.estimates(summary, inch=0.5, **_NEARER)
    (ax,) = figure.axes
    many = gap[(gap["sample"] == "triplets") & gap["percent_nearer"].notna()]
    named = summary["model"].iloc[0]
    many = many if named == ALL_MODELS else many[many["model"].isin(named.split(", "))]
    means = many.groupby(["metric", "dataset"], sort=False)["percent_nearer"].mean()
    looks = forms.PLAIN.of(list(dict.fromkeys(many["dataset"])))
    for dataset, (color, marker, _) in looks.items():
        some = means.xs(dataset, level="dataset").reindex(summary["metric"])
        ax.plot(some, [y + 0.25 for y in range(len(some))], marker, mfc="none", mec=color, ms=5)
    handles = [forms.key(color, marker, name, hollow=True) for color, marker, name in looks.values()]
    forms.legend(figure, [*handles, forms.key(style.BLUE, "o", "mean over datasets", line="-")], columns=6)
    return figure


@style.empty_without_rows
def group_chi_square(tests: pd.DataFrame, *, alpha: float = 0.05) -> Figure:
    """Draw how far objects of feminine and masculine prompts differ by dependency group, one panel a dataset.

    Of ``triplets_group_chi_square``; tests without an effect size are left out, and marks are filled where one is
    significant at the level ``alpha`` after Holm's correction.
    """
    known = tests[tests["cramers_v"].notna() & (tests["pair"] == "feminine-masculine")]
    if known.empty:
        return style.nothing("Without counts of objects the tests have no effect size to draw.")
    return _effects(
        known.assign(significant=known["p_decisive_holm"] < alpha),
        filled_names=("significant after Holm's correction", "not significant"),
        hue="model",
        panel="dataset",
        label="Cramér's V (0: distributed alike)",
        **_BY_GROUP,
    )


def _effects(tests: pd.DataFrame, **how) -> Figure:
    how |= {
        "filled": "significant",
        "xlim": (-0.02, 0.02 + tests["ci_high"].max()),
        "columns": 2,
        "inch": 0.26,
    }
    return forms.estimates(tests, "cramers_v", **how)


@style.empty_without_rows
def detector_error(errors: pd.DataFrame, *, most: int = 30) -> Figure:
    """Draw precision, recall and overlap with their intervals (``triplets_detector_error``), of frequent objects.

    The ``most`` of which there are most, all together among them.
    """
    known = errors[(errors["gender_shown"] == "all") & errors["value"].notna()]
    frequent = known.groupby("object")["n"].max().nlargest(most).index
    known = known[known["object"].isin(frequent)]
    names = {"precision": "Precision", "recall": "Recall", "mask_iou": "Overlap of what is found"}
    known, panel = forms.by_model(known, "measure", names)
    how = {"label": "objects, or overlap of masks (%)", "columns": 3, "inch": 0.22} | _PERCENT
    return forms.estimates(known, "value", row="object", panel=panel, **how)


@style.empty_without_rows
def detector_gender(gender: pd.DataFrame, *, most: int = 20) -> Figure:
    """Draw by how much recall differs between men and women (``triplets_detector_gender``).

    Of the ``most`` frequent objects.
    """
    known = gender[gender["ci_low"].notna()]
    n = known[["objects_female", "objects_male"]].sum(axis=1)
    known = known.assign(name=known["object"] + n.map(" (n = {:,.0f})".format))
    some, panel = forms.by_model(known.loc[n.nlargest(most).index], "reference")
    label = "recall, men less women (points): found more easily beside men →"
    return forms.estimates(some, "difference", row="name", panel=panel, label=label)


@style.empty_without_rows
def top_objects(top: pd.DataFrame, *, most: int = 8) -> Figure:
    """Draw how often images of one model and dataset show their most frequent objects, one panel a gender.

    Of ``triplets_top_objects``: ``most`` objects in each panel; of ``triplets_group_top_objects`` a panel a group.
    """
    top = top[top["rank"] <= most]
    panel, label = "prompt_gender", "objects an image"
    if "dependency_group" in top:
        panel, label = "dependency_group", "objects (or hidden nouns) an image"
    xlim = (0, 1.05 * np.nanmax(top[["per_image", "ci_high"]].to_numpy()))
    how = {"panel_names": GROUP_NAMES, "reference": None, "xlim": xlim, "columns": 3, "inch": 0.3}
    return forms.estimates(top, "per_image", row="object", panel=panel, label=label, **how)


@style.empty_without_rows
def bias_score(scores: pd.DataFrame, *, alpha: float = 0.05, most: int = 5) -> Figure:
    """Draw the objects that lean most to each gender, one panel a dataset, for one model.

    Of ``triplets_bias_score``, or ``triplets_group_bias_score`` of one group: on each side of a panel ``most`` objects,
    whose interval is farthest from 0.5, filled where Holm's correction leaves them at the level ``alpha``. Black marks
    are true scores, where they are known.
    """
    leaning = _leaning(scores, most)
    leaning = leaning.assign(
        name=leaning["object"] + leaning["n"].map(" (n = {:,.0f})".format),
        significant=leaning["p_holm"] < alpha,
    )
    names = ("differs from 0.5 after Holm's correction", "does not")
    return forms.estimates(
        leaning, row="name", filled="significant", filled_names=names, **_SCORES, **_planted(scores)
    )


@style.empty_without_rows
def recall_corrected(scores: pd.DataFrame, *, most: int = 8) -> Figure:
    """Draw scores as found beside those corrected for recall, one panel a dataset, for one model.

    Of ``triplets_bias_score``: on each side of a panel the ``most`` objects that lean most. Black marks are true
    scores, where they are known.
    """
    if "corrected_score" not in scores or scores["corrected_score"].isna().all():
        return style.nothing("How easily objects are found beside women and men is not known.")
    known = _leaning(scores, most).dropna(subset="corrected_score")
    columns = {f"corrected_{c}": c for c in ("ci_low", "ci_high")} | {"corrected_score": "bias_score"}
    corrected = known.drop(columns=list(columns.values())).rename(columns=columns)
    both = [known.assign(how="as found"), corrected.assign(how="corrected for recall")]
    both = pd.concat(both, ignore_index=True)
    return forms.estimates(both, row="object", hue="how", **_SCORES, **_planted(scores))


def _leaning(scores: pd.DataFrame, most: int) -> pd.DataFrame:
    return pd.concat([strongest(rows, most) for _, rows in scores.groupby("dataset", sort=False)])


def _planted(scores: pd.DataFrame) -> dict[str, str]:
    """Return what draws true scores, where some are known."""
    known = "true_score" in scores and scores["true_score"].notna().any()
    return {"mark": "true_score"} if known else {}


def strongest(rows: pd.DataFrame, most: int) -> pd.DataFrame:
    """Return the objects that lean most, masculine first: ranked by the limit of the interval nearer to 0.5."""
    masculine = rows[rows["bias_score"] > 0.5].nlargest(most, ["ci_low", "bias_score"])
    feminine = rows[rows["bias_score"] < 0.5].nsmallest(most, ["ci_high", "bias_score"])
    return pd.concat([masculine, feminine.iloc[::-1]])


def group_share(share: pd.DataFrame) -> Figure:
    """Draw the share of images that hold each group, one panel a model (``triplets_group_share``)."""
    how = {"label": "images with the group (%)", "inch": 0.28} | _BY_GROUP | _PERCENT
    return forms.estimates(share, "percent_images", hue="dataset", panel="model", **how)


@style.empty_without_rows
def intersection(shared: pd.DataFrame) -> Figure:
    """Draw the share of each group's objects that another also holds, one panel a dataset (``triplets_intersection``).

    Of one model; a frame marks cells that do not agree with the mirrored cell and the sizes of the groups.
    """
    groups = [g for g in GROUP_NAMES if g in {*shared["over"], *shared["dependency_group"]}]
    short = [GROUP_NAMES[g].replace("licitly", "l.").replace("independent", "indep.") for g in groups]
    figure, parts = forms.panels(shared, "dataset", columns=2, height=0.32 * len(groups) + 1.1)
    for ax, rows in parts:
        wide = rows.pivot(index="over", columns="dependency_group", values="percent")
        wide = wide.reindex(index=groups, columns=groups)
        forms.cells(ax, wide, wide.map("{:.1f}".format), Normalize(0, 100))
        for row in rows[rows["agrees"] == "no"].itertuples():
            at = (groups.index(row.dependency_group), groups.index(row.over))
            ax.add_patch(plt.Rectangle(at, 1, 1, fill=False, edgecolor=style.VERMILION, lw=2))
        ax.set_xticks(ax.get_xticks(), short, rotation=25, ha="right", rotation_mode="anchor", fontsize=8.5)
        ax.set_yticks(np.arange(len(groups)) + 0.5, short, fontsize=8.5)
    return figure


GROUP_COLORS = {
    "explicitly_guided": style.BLUE,
    "implicitly_guided": style.ORANGE,
    "explicitly_independent": style.GREEN,
    "implicitly_independent": style.PURPLE,
}


def dependency(example) -> Figure:
    """Draw an image, the regions of its prompt's nouns, and its objects with their dependency groups (figure 5).

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
    for ax, (name, group, mask) in zip(axes[1], objects, strict=False):
        ax.imshow(_lit(example.image, mask), interpolation="nearest")
        said = GROUP_NAMES.get(group, "not known").replace(" ", "\n")
        ax.set_title(f"{name}\n{said}", fontsize=10, color=GROUP_COLORS.get(group, style.GREY))
    hidden = f"; hidden: {', '.join(example.hidden)}" if example.hidden else ""
    figure.suptitle(f"“{example.text}”{hidden}".replace("$", r"\$"), fontsize=11)
    return figure


def _lit(image: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return an image that is pale and grey outside of a mask."""
    grey = 0.75 * 255 + 0.25 * image.mean(axis=2, keepdims=True)
    return np.where(mask[..., None], image, grey).astype(np.uint8)


@style.empty_without_rows
def thresholds(tests: pd.DataFrame, *, alpha: float = 0.05) -> Figure:
    """Draw how far objects of feminine and masculine prompts differ as thresholds change, one panel a dependency group.

    Of ``triplets_thresholds`` of one model and dataset; filled marks have a permutation p below ``alpha``.
    """
    known = tests[tests["cramers_v"].notna()]
    if known.empty:
        return style.nothing("In no group are there enough objects for a test.")
    names = [f"> {row.coverage_threshold:g}, people > {row.human_threshold:g}" for row in known.itertuples()]
    return _effects(
        known.assign(
            covered=names,
            significant=known["p_permutation"] < alpha,
            maps=known["mask_threshold"].map("words' regions > {:g}".format),
        ),
        filled_names=(f"permutation p < {alpha:g}", "not"),
        row="covered",
        hue="maps",
        panel="dependency_group",
        panel_names=GROUP_NAMES,
        label="Cramér's V (0: distributed alike), by the coverage that guides",
    )


@style.empty_without_rows
def mask_truth(truth: pd.DataFrame) -> Figure:
    """Draw how well maps of words mark where these belong, by kind of word and level of noise.

    Of ``triplets_mask_truth`` of one model: a panel a metric and kind, beside what maps are worth against the place of
    another drawing's word.
    """
    kinds = {"person": "person", "thing": "things", "worn": "what is worn", "place": "places"}
    metrics = {"auc": "AUC", "overlap": "IoU"}
    masks = {
        "own": "where the word belongs",
        "shuffled": "where another word does",
        "other": "where one of another drawing does",
    }
    panel = truth["metric"].map(metrics) + ": " + truth["kind"].map(kinds)
    level = truth["noise_level"].map(lambda noise: f"noise {noise:g}" if noise else "all together")
    rows = truth.assign(panel=panel, level=level, against=truth["mask"].map(masks))
    rows = rows.sort_values(["metric", "kind", "noise_level"], kind="stable")
    label = "area under the ROC curve (AUC, 0.5 is chance), or intersection over union (IoU)"
    how = {"label": label, "reference": None, "xlim": (-0.05, 1.05), "columns": 4, "inch": 0.22}
    return forms.estimates(rows, "value", row="level", hue="against", panel="panel", **how)


@style.empty_without_rows
def group_truth(truth: pd.DataFrame) -> Figure:
    """Draw precision, recall and F1 of each dependency group, one panel a model (``triplets_group_truth``)."""
    known = truth[truth["value"].notna()]
    known = known.assign(score=known["metric"].replace("f1", "F1"))
    how = {"label": "on drawings whose groups are known (%)", "inch": 0.28} | _BY_GROUP | _PERCENT
    return forms.estimates(known, "value", hue="score", panel="model", **how)
