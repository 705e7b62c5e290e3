"""Prompts under several conditions, such as a debiasing phrase or a language, compared on images of the same noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from biaslab import stats
from biaslab.analyses.custom.prompts import ALL
from biaslab.judges.judge_labels import JUDGED
from biaslab.schema import tables
from biaslab.schema.genders import GENDERS

NO_PAIR = "no person is judged female or male in both conditions"
"""Why a group has no difference."""


def conditions(
    people: pd.DataFrame,
    condition_people: pd.DataFrame,
    benchmark: pd.DataFrame,
    *,
    seed: int = 0,
    replicates: int = 10_000,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Return the change in the share perceived as female by condition and group, as ``custom_conditions``.

    People of ``custom_people`` and ``custom_condition_people`` are compared if they are in images from the same noise
    and judged female or male in both conditions. The image is the unit; the mean over groups weights groups equally.
    p is from a sign-flip test over images. Intervals are those of Bonett and Price (2012, J. Educ. Behav. Stat. 37,
    479–488), which add two images, one that changes in each direction. A group is overcorrected if Wilson's interval of
    its share and the share before are on opposite sides of ``custom_benchmark``.
    """
    pairs = people[["model", "image_id", "position", "status", "gender"]]
    pairs = condition_people.merge(pairs, on=["model", "image_id", "position"], suffixes=("", "_before"))
    pairs = pairs[(pairs["status"] == JUDGED) & (pairs["status_before"] == JUDGED)]
    pairs = pairs.assign(before=pairs["gender_before"] == GENDERS[0], after=pairs["gender"] == GENDERS[0])
    centers = benchmark.set_index("group")["percent_female"] / 100
    rows, keys = [], ["model", "condition", "other"]
    for names, prompted in condition_people.groupby(keys, sort=False):
        condition_pairs = pairs[pairs[keys].eq(list(names)).all(axis=1)]
        by_image = condition_pairs.groupby(["group", "image_id"], sort=False)
        images = by_image[["before", "after"]].mean().assign(n=by_image.size()).reset_index()
        sizes = images.groupby("group").size()
        weights, center = images["group"].map(len(images) / max(len(sizes), 1) / sizes), centers.reindex(sizes.index)
        draws = seed, replicates, confidence
        mean = {"group": ALL} | _change(images, weights, center.mean(skipna=False), *draws)
        group_rows = []
        for group in dict.fromkeys(prompted["group"]):
            subset = images[images["group"] == group]
            change = _change(subset, pd.Series(1.0, subset.index), centers.get(group, np.nan), *draws)
            group_rows.append({"group": group} | change)
        mean["n_overcorrected"] = sum(row["overcorrected"] == "yes" for row in group_rows)
        rows += [dict(zip(keys, names, strict=True)) | row for row in (mean, *group_rows)]
    frame = pd.DataFrame(rows, columns=[c.name for c in tables.schema("custom_conditions").columns])
    for subset in (frame["group"] == ALL, frame["group"] != ALL):
        frame.loc[subset, "p_holm"] = stats.adjust(frame.loc[subset, "p"].astype(float))
    return tables.make_table(frame, "custom_conditions")


def _change(
    images: pd.DataFrame, weights: pd.Series, center: float, seed: int, replicates: int, confidence: float
) -> dict[str, Any]:
    """Return the estimates of images with their shares ``before`` and ``after``; weights are 1 on average."""
    m, sizes = len(images), {"n": images["n"].sum(), "n_images": len(images), "n_groups": images["group"].nunique()}
    if not m:
        return {"benchmark": 100 * center, "overcorrected": "", "reason": NO_PAIR} | sizes
    before, after = (weights * images[name] for name in ("before", "after"))
    change, share = after - before, float(after.mean())
    middle = change.sum() / (m + 2)
    half = norm.ppf((1 + confidence) / 2) * np.sqrt((((change**2).sum() + 2) / (m + 2) - middle**2) / (m + 2))
    error = stats.StandardError(after.std() / np.sqrt(m) if m > 1 else 0.0, np.inf)
    low, high = stats.clustered_share_interval(min(share, 1.0), error, m, confidence)
    side = np.sign(before.mean() - center)
    is_crossed, is_beyond = side * (share - center) < 0, (high < center if side > 0 else low > center)
    overcorrected = "" if np.isnan(center) else "yes" if side and is_beyond else "unclear" if is_crossed else "no"
    return sizes | {
        "percent_before": 100 * before.mean(), "percent_female": 100 * share, "difference": 100 * change.mean(),
        "ci_low": 100 * max(-1.0, middle - half), "ci_high": 100 * min(1.0, middle + half), "benchmark": 100 * center,
        "p": stats.sign_flip(change, replicates, seed=seed).p, "overcorrected": overcorrected, "reason": "",
    }  # fmt: skip
