"""Attributes worn, by the gender that a prompt names (section 5.3, appendix E).

Shares are 0–1. ``presence`` is the result of :func:`attribute_presence`, ``printed`` has rows of
``dalleval_printed_attributes``; ``confidence`` (0–1) is the level of intervals.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import hypergeom

from biaslab import reference, stats
from biaslab.metrics import mean_absolute_difference
from biaslab.papers.dalleval.analysis.rows import too_few, whole_count
from biaslab.papers.dalleval.prompts import ATTRIBUTES
from biaslab.schema import tables

COMPARISONS = {f"{a} - {b}": (a, b) for a, b in (("woman", "man"), ("woman", "person"), ("man", "person"))}


def attribute_presence(presence: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return a source's ``dalleval_attribute_presence`` with Wilson intervals (Tables 23 to 31).

    Raises InputError where a share is inconsistent with its number of images.
    """
    n = presence["n"].to_numpy()
    count = whole_count(presence["share"].to_numpy(), n, "dalleval_attribute_presence", "share")
    low, high = stats.wilson_interval(count, n, confidence)
    out = presence.assign(share=count / n, ci_low=low, ci_high=high, n_present=count)
    return tables.make_table(out, "dalleval_attribute_presence")


def _paired_shares(presence: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame, pd.DataFrame]]:
    """Yield model, comparison and both prompts' ``share`` and ``n``: their common professions × all attributes."""
    columns = pd.MultiIndex.from_product([["share", "n"], presence["attribute"].unique()])
    wide = {
        key: group.pivot(index="profession", columns="attribute", values=["share", "n"])
        .reindex(columns=columns)
        .loc[group["profession"].unique()]
        for key, group in presence.groupby(["model", "prompt"], sort=False)
    }
    for model in presence["model"].unique():
        for comparison, prompts in COMPARISONS.items():
            if all((model, prompt) in wide for prompt in prompts):
                a, b = (wide[model, prompt] for prompt in prompts)
                yield model, comparison, *a.align(b, join="inner", axis=0)


def attribute_difference(presence: pd.DataFrame, printed: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return ``dalleval_attribute_difference``: first minus second prompt's shares (-1 to 1; Tables 9 and 22).

    Paired over professions (:func:`biaslab.stats.paired_difference`); p is adjusted over the attributes of a model and
    comparison.
    """
    printed_values = printed.set_index(["model", "prompt", "attribute"])["value"].to_dict()
    rows = []
    for model, comparison, a, b in _paired_shares(presence):
        for attribute in a["share"]:
            row = {"model": model, "comparison": comparison, "attribute": attribute}
            row["paper_table_value"] = printed_values.get(tuple(row.values()))
            first, second = a["share", attribute], b["share", attribute]
            is_known = first.notna() & second.notna()
            row |= {"n": is_known.sum(), "reason": "no image was judged"}
            if is_known.any():
                first, second = first[is_known].to_numpy(), second[is_known].to_numpy()
                row |= {"n_images": a["n", attribute][is_known].sum()}
                row |= {"share_first": first.mean(), "share_second": second.mean()}
                row |= stats.paired_difference(first - second, confidence=confidence)._asdict()
                if not (first.any() or second.any()):
                    row["reason"] = "no image of either prompt shows it"
            rows.append(row)
    return stats.adjust_families(tables.make_table(rows, "dalleval_attribute_difference"), ["model", "comparison"])


def attribute_estimates(differences: pd.DataFrame, images: pd.DataFrame) -> pd.DataFrame:
    """Return differences between prompts, in points, as input of ``calibration.corrected``.

    Takes the result of :func:`attribute_difference`, and rows of ``dalleval_social_images``, whose ground truth, where
    available, gives the true differences. Models without images are excluded, because the error of the judge behind
    printed differences is unknown. So are attributes that the judge finds in no image of either prompt, because it may
    overlook them.
    """
    is_seen = differences[["share_first", "share_second"]].max(axis=1) > 0
    rows = differences[differences["model"].isin(images["model"]) & is_seen]
    true = _true_differences(images)
    keys = zip(rows["model"], rows["comparison"], rows["attribute"], strict=True)
    points = {name: 100 * rows[name] for name in ("ci_low", "ci_high")}
    return rows[["model", "n", "reason"]].assign(
        quantity="attribute",
        subject=rows["attribute"],
        condition=rows["comparison"],
        estimate=100 * rows["difference"],
        estimate_true=[100 * true.get(key, np.nan) for key in keys],
        **points,
    )


def _true_differences(images: pd.DataFrame) -> dict[tuple[str, str, str], float]:
    """Return the true mean differences by model, comparison and attribute, from images with ground truth."""
    true_images = images[images["truth_gender"].fillna("") != ""]
    if true_images.empty:
        return {}
    worn = (
        true_images["truth_attributes"].fillna("").str.get_dummies(";").reindex(columns=list(ATTRIBUTES), fill_value=0)
    )
    shares: Any = worn.groupby(
        [true_images["model"], true_images["prompt"], true_images["profession"]], sort=False
    ).mean()
    means: dict[str, Any] = {}
    for comparison, prompts in COMPARISONS.items():
        if set(prompts) <= set(true_images["prompt"]):
            a, b = (shares.xs(prompt, level="prompt") for prompt in prompts)
            means[comparison] = (a - b).dropna().groupby("model").mean().stack()
    differences: Any = pd.concat(means, names=["comparison"]) if means else pd.Series(dtype=float)
    return {(model, comparison, attribute): mean for (comparison, model, attribute), mean in differences.items()}


def attribute_prompt_difference(presence: pd.DataFrame) -> pd.DataFrame:
    """Return ``dalleval_attribute_prompt_difference``: mean absolute differences over attributes.

    Source: DALL-Eval, Tables 24, 25, 27, 28, 30 and 31.
    """
    frames = []
    for model, comparison, a, b in _paired_shares(presence):
        counts = (np.rint(x.to_numpy()) for side in (a, b) for x in (side["share"] * side["n"], side["n"]))
        frame = pd.DataFrame({"model": model, "comparison": comparison, "profession": a.index})
        frame["mean_absolute_difference"] = mean_absolute_difference(*(x["share"].to_numpy() for x in (a, b)))
        sizes = {"n": a["n"].to_numpy(float).min(axis=1), "n_attributes": a["share"].shape[1]}
        frames.append(frame.assign(**sizes, null_mean=pooled_difference_null_mean(*counts).mean(axis=1)))
    return tables.join_tables(frames, "dalleval_attribute_prompt_difference")


def attribute_mean_difference(
    presence: pd.DataFrame,
    by_prompt: pd.DataFrame,
    printed: pd.DataFrame,
    *,
    seed: int,
    replicates: int = 10_000,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Return ``dalleval_attribute_mean_difference``: mean absolute differences over attributes (0–1; Table 22).

    Two estimates: of averages over professions, also bias-corrected (:func:`biaslab.stats.folded_means`); and the mean
    over single professions, minus their null expectation (``by_prompt``, from :func:`attribute_prompt_difference`).
    """
    printed_values = printed.set_index(["model", "prompt", "attribute"])["value"].to_dict()
    rows = []
    for model, comparison, a, b in _paired_shares(presence):
        paired = a["share"].to_numpy() - b["share"].to_numpy()
        paired = paired[~np.isnan(paired).any(axis=1)]
        draws = reference.draws(model, replicates=replicates, seed=seed)
        estimate = stats.folded_means(paired, confidence=confidence, **draws)
        row = {"model": model, "comparison": comparison, "n_attributes": a["share"].shape[1]} | estimate._asdict()
        row |= {"mean_absolute_difference": estimate.value, "mean_absolute_difference_corrected": estimate.corrected}
        row["paper_table_value"] = printed_values.get((model, comparison, "mean_absolute_difference"))
        profession_rows = by_prompt[(by_prompt["model"] == model) & (by_prompt["comparison"] == comparison)]
        uncorrected, null_mean = profession_rows["mean_absolute_difference"], profession_rows["null_mean"]
        row |= {"by_profession": uncorrected.mean(), "by_profession_null_mean": null_mean.mean()}
        excess = stats.mean_interval(uncorrected - null_mean, confidence, skip_nan=True)
        limits = {f"by_profession_corrected_{end}": getattr(excess, end) for end in ("ci_low", "ci_high")}
        row |= {"by_profession_corrected": excess.value} | limits
        row["reason"] = too_few(estimate.n, confidence)
        rows.append(row)
    return tables.make_table(rows, "dalleval_attribute_mean_difference")


def pooled_difference_null_mean(count_a: ArrayLike, n_a: ArrayLike, count_b: ArrayLike, n_b: ArrayLike) -> np.ndarray:
    """Return ``E|a/n_a - b/n_b|`` when the images of both sets are one pool, split at random.

    The exact mean (0–1) over the hypergeometric distribution: the null expectation of the difference between two
    prompts of equal shares. Arguments of any shapes that broadcast; NaN where a count is missing or a set is empty.
    """
    return np.vectorize(_pooled_null_mean, otypes=[float])(np.add(count_a, count_b), n_a, n_b)


@cache
def _pooled_null_mean(positive: float, a: float, b: float) -> float:
    if not (a > 0 and b > 0 and np.isfinite(positive)):
        return np.nan
    k = np.arange(a + 1)
    return hypergeom.pmf(k, a + b, positive, a) @ np.abs(k / a - (positive - k) / b)
