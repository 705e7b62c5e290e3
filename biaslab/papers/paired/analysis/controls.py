"""Effect of contrast: scores alone, in pairs of one stereotype and of two, and among three (not in the paper)."""

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
# Scores of identities of one list that share images: by how much the variance of a mean over them is larger than if
# they shared none, where the people of an image are fully dependent, so that all fit or none does: twice with two of
# one list in every image, 5/3 times (4 + 1 over 2 + 1) with two in every other one and one in the rest, as among three.
# The overall score of three is taken at the largest dependence already.
WIDER = {"alike": dict.fromkeys((*LISTS, "overall"), 2.0), "three": dict.fromkeys(LISTS, 5 / 3)}


def _added(pairs: pd.DataFrame, scores: pd.DataFrame) -> pd.DataFrame | None:
    """Return what each image of two people adds to its occupations' scores; None where a list has two people in one."""
    if pairs.empty or pairs.duplicated(["image_id", "stereotype"]).any():
        return None
    values, whose = (
        pairs.pivot(index="image_id", columns="stereotype", values=column).reindex(columns=LISTS)
        for column in ("score", "occupation")
    )
    return deviations(values.join(whose.add_suffix("_identity")), scores, "score")


def _fair(people: pd.DataFrame, confidence: float) -> dict[str, dict[str, float]]:
    """Return by list and overall the limits (points) of scores of coin flips, the people of an image all alike."""
    parts = {s: people[people["stereotype"] == s] for s in LISTS} | {"overall": people}
    reach = norm.ppf((1 + confidence) / 2) * 100
    # People of an image weigh together: every person counts the same.
    images = {s: part.groupby("image_id").size() / len(part) for s, part in parts.items()}
    half = {s: reach * np.sqrt((weight**2).sum()) for s, weight in images.items()}
    if people["stereotype"].nunique() < len(LISTS):
        half["overall"] = np.nan
    return {s: {"fair_low": max(-h, -100), "fair_high": min(h, 100)} for s, h in half.items()}


def control_score(people: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return scores of occupations alone, next to another or the same stereotype, and among three, and contrasts."""
    people = last_rounds(people)
    people = people[(people["aspect"] == "occupation") & people["setting"].isin(SHARING)]
    people = people.assign(score=stereotype_fit)
    rows = []
    for model, known in people.dropna(subset=["score"]).groupby("model", sort=False):
        pairs = people[(people["model"] == model) & (people["setting"] == "paired")]
        each = known.groupby(["setting", "stereotype", "occupation"], sort=False)["score"]
        scores = each.agg(["mean", "size"]).rename(columns={"mean": "score", "size": "n"}).reset_index()
        paired = scores[scores["setting"] == "paired"].assign(identity=lambda t: t["occupation"])
        images = _added(pairs, paired)
        paired = paired.set_index(["stereotype", "occupation"])["score"]
        setting: Any
        for setting, group in scores.groupby("setting", sort=False):
            shared = SHARING[setting]
            who = pd.MultiIndex.from_frame(group[["stereotype", "occupation"]])
            in_pairs = paired.reindex(who).to_numpy(dtype=float)
            # What an identity adds to the mean of both lists: its whole value where the lists share images, else
            # half of it.
            group = group.assign(
                identity=group["occupation"],
                contrast=in_pairs - group["score"],
                contrast_effect=in_pairs - group["score"] / (1 if shared else 2),
            )
            fair = _fair(known[known["setting"] == setting], confidence)
            options: dict[str, Any] = {"two_people": shared, "wider": WIDER.get(setting, {})}
            # Where identities of one list share images too, only the largest dependence is known.
            how_beside = options | {"effect": "contrast_effect", "images": None if setting in WIDER else images}
            beside = strata(group, "contrast", confidence, -200, 200, **how_beside)
            options |= {"effect": "score" if shared else "", "images": images if setting == "paired" else None}
            alone = strata(group, "score", confidence, -100, 100, over_people=True, **options)
            for (row, _), (other, _) in zip(alone, beside, strict=True):
                row |= {"model": model, "setting": setting}
                row |= fair[row["stereotype"]] if row["n_identities"] else {}
                if setting != "paired":
                    row["contrast"] = other["contrast"]
                    row |= {f"contrast_{c}": other[c] for c in ("ci_low", "ci_high", "p", "dependence")}
                rows.append(row)
    return tables.make_table(rows, "paired_control_score")
