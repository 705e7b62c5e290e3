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

YES = "yes"
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
    """Return the change of the share perceived as female by condition and group, as ``custom_conditions``.

    Compared are people in images of the same noise who are judged female or male in both conditions. The image is the
    unit; the mean over groups weights groups equally. p flips the signs of images' differences. A group's interval is
    that of Bonett and Price (2012, J. Educ. Behav. Stat. 37, 479–488): two images are added, one that changes to each
    side. A condition is overcorrected where the interval of its share lies beyond the benchmark, seen from the share
    that it is compared with.

    Args:
        people: ``custom_people``, of the condition that others are compared with.
        condition_people: ``custom_condition_people``, of the others.
        benchmark: ``custom_benchmark``, whose ``percent_female`` is each group's.
    """
    before = people.loc[people["status"] == JUDGED, ["model", "image_id", "position", "gender"]]
    before = before.rename(columns={"image_id": "base_image_id", "gender": "gender_before"})
    after = condition_people[condition_people["status"] == JUDGED]
    pairs = after.merge(before, on=["model", "base_image_id", "position"])
    counts = {"before": pairs["gender_before"] == GENDERS[0], "after": pairs["gender"] == GENDERS[0], "n": 1}
    keys = ["model", "condition", "other"]
    images = pairs.assign(**counts).groupby([*keys, "group", "base_image_id"], sort=False, as_index=False)
    images = images[["before", "after", "n"]].sum()
    images["change"] = (images["after"] - images["before"]) / images["n"]
    centers = benchmark.set_index("group")["percent_female"] / 100
    rows, options = [], {"seed": seed, "replicates": replicates, "confidence": confidence}
    for names, prompted in condition_people.groupby(keys, sort=False):
        own = images[images[keys].eq(list(names)).all(axis=1)]
        each = []
        for group in dict.fromkeys(prompted["group"]):
            of_group = own[own["group"] == group]
            each.append({"group": group} | _of_group(of_group, centers.get(group, np.nan), **options))
        rows += [
            dict(zip(keys, names, strict=True)) | row for row in (_over_groups(own, each, centers, **options), *each)
        ]
    frame = pd.DataFrame(rows, columns=[c.name for c in tables.schema("custom_conditions").columns])
    for subset in (frame["group"] == ALL, frame["group"] != ALL):
        frame.loc[subset, "p_holm"] = stats.adjust(frame.loc[subset, "p"].astype(float))
    return tables.make_table(frame, "custom_conditions")


def _of_group(images: pd.DataFrame, center: float, *, seed: int, replicates: int, confidence: float) -> dict[str, Any]:
    if images.empty:
        return {"benchmark": 100 * center, "n": 0, "n_images": 0, "n_groups": 0, "reason": NO_PAIR}
    change, m = images["change"], len(images) + 2
    shift = change.sum() / m
    error = np.sqrt((((change**2).sum() + 2) / m - shift**2) / m)
    p = stats.sign_flip(change, replicates, seed=seed).p
    before, after = (stats.clustered_share(images[name], images["n"], confidence) for name in ("before", "after"))
    row = _row(change.mean(), shift, error, before.value, after, center, confidence)
    return row | {"p": p, "n": images["n"].sum(), "n_images": len(images), "n_groups": 1}


def _over_groups(
    images: pd.DataFrame,
    each: list[dict[str, Any]],
    centers: pd.Series,
    *,
    seed: int,
    replicates: int,
    confidence: float,
) -> dict[str, Any]:
    """Return the row of the mean over groups that have images, each counted alike."""
    if images.empty:
        return {"group": ALL, "n": 0, "n_images": 0, "n_groups": 0, "n_overcorrected": 0, "reason": NO_PAIR}
    sums = images.groupby("group")[["before", "after", "n"]].sum()
    change = images.groupby("group")["change"]
    n_groups, size = len(sums), change.size()
    # A group of one image has the variance of all; two images are added, as for a group.
    variance = change.var().fillna(images["change"].var() if len(images) > 1 else 1.0)
    error = np.sqrt((variance / size).sum() / n_groups**2 + 2 / (len(images) + 2) ** 2)
    weights = 1 / n_groups / change.transform("size")
    p = stats.sign_flip(weights * images["change"], replicates, seed=seed).p
    effect = stats.design_effect(images["after"], images["n"], stratum=images["group"])
    after = stats.strata_mean(sums["after"], sums["n"], confidence, effect=effect)
    value, center = change.mean().mean(), centers.reindex(sums.index).mean(skipna=False)
    row = _row(value, value, error, (sums["before"] / sums["n"]).mean(), after, center, confidence)
    overcorrected = sum(one.get("overcorrected") == YES for one in each)
    counts = {"n": images["n"].sum(), "n_images": len(images), "n_groups": n_groups, "n_overcorrected": overcorrected}
    return {"group": ALL, "p": p} | counts | row


def _row(
    value: float, middle: float, error: float, before: float, after: stats.Estimate, center: float, confidence: float
) -> dict[str, Any]:
    """Return a change with its limits about ``middle``, both shares, and whether the second is overcorrected."""
    half = norm.ppf((1 + confidence) / 2) * error
    side = np.sign(before - center)
    beyond = after.ci_high < center if side > 0 else after.ci_low > center
    crossed = np.sign(after.value - center) == -side
    overcorrected = "" if np.isnan(side) else YES if side and beyond else "unclear" if side and crossed else "no"
    return {
        "percent_before": 100 * before, "percent_female": 100 * after.value, "difference": 100 * value,
        "ci_low": 100 * max(-1.0, middle - half), "ci_high": 100 * min(1.0, middle + half), "benchmark": 100 * center,
        "overcorrected": overcorrected, "reason": "",
    }  # fmt: skip
