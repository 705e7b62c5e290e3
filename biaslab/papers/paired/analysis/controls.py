"""Effect of contrast: scores alone, in pairs of the same or opposite stereotypes, among three (not in the paper)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from biaslab.papers.paired.analysis.dependence import LISTS, deviations
from biaslab.papers.paired.analysis.means import strata
from biaslab.papers.paired.analysis.people import last_rounds, stereotype_fit
from biaslab.schema import tables

# Settings, and whether both lists share images in them.
SHARING = {"single": False, "paired": True, "alike": False, "same": False, "three": True}
# Variance of a mean over identities of one list that share images, relative to identities that share none, if people
# of an image are fully dependent (all fit or none). It is 2 with two of one list in every image; among three, where
# half the images have two of a list and half have one, it is 5/3 (4 + 1 over 2 + 1). The overall score of three
# already assumes the largest dependence.
VARIANCE_FACTORS = {"alike": dict.fromkeys((*LISTS, "overall"), 2.0), "three": dict.fromkeys(LISTS, 5 / 3)}


def _image_contributions(pairs: pd.DataFrame, scores: pd.DataFrame) -> pd.DataFrame | None:
    """Return each image's contribution to its occupations' scores; None if an image has two people of one list."""
    if pairs.empty or pairs.duplicated(["image_id", "stereotype"]).any():
        return None
    values, occupations = (
        pairs.pivot(index="image_id", columns="stereotype", values=column).reindex(columns=LISTS)
        for column in ("score", "occupation")
    )
    return deviations(values.join(occupations.add_suffix("_identity")), scores, "score")


def _fair_limits(people: pd.DataFrame, confidence: float) -> dict[str, dict[str, float]]:
    """Return by list and overall the limits (points) of scores of fair coin flips, one per image."""
    parts = {s: people[people["stereotype"] == s] for s in LISTS} | {"overall": people}
    reach = norm.ppf((1 + confidence) / 2) * 100
    # The weight of an image is its number of people, because every person counts the same.
    images = {s: part.groupby("image_id").size() / len(part) for s, part in parts.items()}
    half = {s: reach * np.sqrt((weight**2).sum()) for s, weight in images.items()}
    if people["stereotype"].nunique() < len(LISTS):
        half["overall"] = np.nan
    return {s: {"fair_low": max(-h, -100), "fair_high": min(h, 100)} for s, h in half.items()}


def control_score(people: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return scores of occupations alone, in pairs of opposite or the same stereotype, among three, and contrasts."""
    people = last_rounds(people)
    people = people[(people["aspect"] == "occupation") & people["setting"].isin(SHARING)]
    people = people.assign(score=stereotype_fit)
    rows = []
    for model, classified in people.dropna(subset=["score"]).groupby("model", sort=False):
        pairs = people[(people["model"] == model) & (people["setting"] == "paired")]
        grouped = classified.groupby(["setting", "stereotype", "occupation"], sort=False)["score"]
        scores = grouped.agg(["mean", "size"]).rename(columns={"mean": "score", "size": "n"}).reset_index()
        paired = scores[scores["setting"] == "paired"].assign(identity=lambda t: t["occupation"])
        images = _image_contributions(pairs, paired)
        paired = paired.set_index(["stereotype", "occupation"])["score"]
        setting: Any
        for setting, group in scores.groupby("setting", sort=False):
            is_shared = SHARING[setting]
            keys = pd.MultiIndex.from_frame(group[["stereotype", "occupation"]])
            in_pairs = paired.reindex(keys).to_numpy(dtype=float)
            # The contribution of an identity to the mean of both lists: its entire value where the lists share
            # images, else half of it.
            group = group.assign(
                identity=group["occupation"],
                contrast=in_pairs - group["score"],
                contrast_effect=in_pairs - group["score"] / (1 if is_shared else 2),
            )
            limits = _fair_limits(classified[classified["setting"] == setting], confidence)
            options: dict[str, Any] = {"two_people": is_shared, "variance_factors": VARIANCE_FACTORS.get(setting, {})}
            # Where identities of one list also share images, only the largest dependence is known.
            contrast_options = options | {
                "effect": "contrast_effect",
                "images": None if setting in VARIANCE_FACTORS else images,
            }
            contrasts = strata(group, "contrast", confidence, -200, 200, **contrast_options)
            options |= {"effect": "score" if is_shared else "", "images": images if setting == "paired" else None}
            score_rows = strata(group, "score", confidence, -100, 100, over_people=True, **options)
            for (row, _), (contrast, _) in zip(score_rows, contrasts, strict=True):
                row |= {"model": model, "setting": setting}
                row |= limits[row["stereotype"]] if row["n_identities"] else {}
                if setting != "paired":
                    row["contrast"] = contrast["contrast"]
                    row |= {f"contrast_{c}": contrast[c] for c in ("ci_low", "ci_high", "p", "dependence")}
                rows.append(row)
    return tables.make_table(rows, "paired_control_score")
