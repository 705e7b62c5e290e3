"""What becomes of images of people: failures, images that show what was asked, scores by order (paired C)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from biaslab import stats
from biaslab.ground import tables
from biaslab.judging.words import OUTCOMES_OF_PEOPLE as OUTCOMES
from biaslab.judging.words import ROLES
from biaslab.papers.paired.analysis.dependence import LISTS
from biaslab.papers.paired.analysis.means import CELL, by_cell, percent_of, strata

FAILED = ("no_face", "one_face", "too_many_faces", "overlapping", "face_too_small", "unreadable", "blocked")
OUT_OF_ORDER = ("swapped", "unclear")
# Settings of two people of opposite stereotype.
TWO = ("paired", "intervention", "faircritic")
# Controls, and whether both lists share images in them.
SHARING = {"single": False, "paired": True, "alike": False, "same": False, "three": True}
# An image has the outcome of its people that comes last here.
_WORST = {outcome: rank for rank, outcome in enumerate(OUTCOMES)}
# Scores of identities of one list that share images: by how much the variance of a mean over them is larger than if
# they shared none, where the people of an image are fully dependent, so that all fit or none does: twice with two of
# one list in every image, 5/3 times (4 + 1 over 2 + 1) with two in every other one and one in the rest, as among three.
# The overall score of three is taken at the largest dependence already.
WIDER = {"alike": dict.fromkeys((*LISTS, "overall"), 2.0), "three": dict.fromkeys(LISTS, 5 / 3)}


def last_rounds(people: pd.DataFrame) -> pd.DataFrame:
    """Return everyone whom images were to show (``paired_people``); of FairCritic each model's last round."""
    mitigated = people["setting"] == "faircritic"
    # Models can stop after different numbers of rounds.
    last = people["round"].where(mitigated).groupby(people["model"]).transform("max")
    return people[~mitigated | (people["round"] == last)].reset_index(drop=True)


def fits(people: pd.DataFrame) -> np.ndarray:
    """Return 100 for people who fit their stereotype, -100 for those who do not, NaN for those not judged."""
    known = people["gender"].isin(LISTS)
    return np.where(known, np.where(people["gender"] == people["stereotype"], 100.0, -100.0), np.nan)


def added_by_images(
    people: pd.DataFrame, value: pd.Series | np.ndarray, *, by: tuple[str, ...] = ("identity",), sign=1
) -> pd.DataFrame | None:
    """Return what each image of two people of opposite stereotype adds to the values of its identities.

    ``people`` has a row per person asked for, who counts ``value`` (NaN where not judged). Means are over people of
    the same ``by``; an identity's value is the sum of its own, each times ``sign`` (a number, or one for each person).
    A row per image, as :func:`dependence.parts` takes it; None where an image has not one person of each list.
    """
    known = people.assign(value=np.asarray(value, dtype=float))
    twice = known.duplicated(["image_id", "stereotype"]).any()
    if known.empty or twice or (known.groupby("image_id").size() != 2).any():
        return None
    of = known.groupby(list(by))["value"]
    known["value"] = sign * (known["value"] - of.transform("mean")) / of.transform("count")
    wide = known.pivot(index="image_id", columns="stereotype", values=["value", "identity"])
    values = {s: wide["value"][s].astype(float) for s in LISTS}
    return pd.DataFrame(values | {f"{s}_identity": wide["identity"][s] for s in LISTS})


def score_by_order(people: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return overall scores with and without images out of order, and what people not judged could change."""
    people = last_rounds(people)
    people = people.assign(score=fits(people))
    rows = []
    for cell, group in by_cell(people):
        as_asked = group[~group["role_order"].isin(OUT_OF_ORDER)]
        for images, some in (("all", group), ("as_asked", as_asked)):
            n = some["score"].notna().sum()
            row = _overall(some, cell["setting"], confidence) | cell | {"images": images, "n": n}
            row |= {"n_images": some["image_id"].nunique(), "n_not_judged": len(some) - n}
            for name, value in (("score_if_none_fit", -100.0), ("score_if_all_fit", 100.0)):
                filled = some.assign(score=some["score"].fillna(value))
                row[name] = _overall(filled, cell["setting"], confidence)["score"]
            rows.append(row)
    return tables.of(rows, "paired_score_by_order")


def _overall(people: pd.DataFrame, setting: str, confidence: float) -> dict:
    """Return the overall score as paired_stereotype_score takes it; people without a score are left out."""
    images = added_by_images(people, people["score"]) if setting in TWO else None
    known = people.dropna(subset=["score"])
    each = known.groupby(["stereotype", "occupation", "identity"], sort=False)["score"].mean().reset_index()
    two = SHARING.get(setting, True)
    how = {"effect": "score" if two else "", "images": images, "two_people": two}
    *_, (row, _) = strata(each, "score", confidence, -100, 100, wider=WIDER.get(setting, {}), **how)
    return row


# -- failures ----------------------------------------------------------------------------------------


def _images(people: pd.DataFrame) -> pd.DataFrame:
    """Return one row per image.

    Columns: cell, worst outcome, order (whether people stand as asked), n_faces, asked (who they are) and distinct
    (whether they differ, so that there is an order to look for).
    """
    told = people["run"].astype(str) + " " + people["identity"] + " " + people["position"]
    whom = people["identity"] + "/" + people["role"]
    each = people.assign(rank=people["outcome"].map(_WORST), asked=told, whom=whom)
    found = each.groupby([*CELL, "image_id"], sort=False).agg(
        rank=("rank", "max"),
        order=("role_order", "first"),
        n_faces=("n_faces", "max"),
        asked=("asked", "|".join),
        distinct=("whom", "nunique"),
    )
    found["outcome"] = found["rank"].map(dict(enumerate(OUTCOMES)))
    found["distinct"] = found["distinct"] > 1
    return found.reset_index()


def outcomes(people: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return images by what gate and judge made of the people in them (paired C.1 and C.2, Figures 11 and 12).

    An image counts once, as its people's worst outcome.
    """
    rows = []
    for cell, group in by_cell(_images(last_rounds(people))):
        for outcome in OUTCOMES:
            some = group[group["outcome"] == outcome]
            row = {**cell, "outcome": outcome, "n": len(some), "n_images": len(group)}
            row |= {f"n_{order}": (some["order"] == order).sum() for order in ROLES}
            rows.append(row | percent_of(len(some), len(group), confidence))
    return tables.of(rows, "paired_outcomes")


def valid_images(people: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return the share of images that show what was asked: what mitigation must not cost (paired C).

    Intervals of changes: Newcombe.
    """
    images = _images(last_rounds(people))
    rows = []
    for cell, group in by_cell(images):
        before = {}
        if cell["setting"] in TWO[1:]:
            # The intervention is tried on some pairs only: those are compared with their own images before.
            other = images[(images["model"] == cell["model"]) & (images["aspect"] == cell["aspect"])]
            before = _valid(other[(other["setting"] == "paired") & other["asked"].isin(group["asked"])])
        for measure, (n, of, reason) in _valid(group).items():
            row = {**cell, "measure": measure, "n_images": of}
            now = percent_of(n, of, confidence)
            row |= {**now, "reason": "" if of else reason}
            k, total, _ = before.get(measure, (0, 0, ""))
            if of and total:
                then = percent_of(k, total, confidence)
                row["change"] = now["percent"] - then["percent"]
                limits = stats.difference_interval(*then.values(), *now.values())
                row["change_ci_low"], row["change_ci_high"] = limits
            rows.append(row)
    return tables.of(rows, "paired_valid_images")


def _valid(images: pd.DataFrame) -> dict[str, tuple[int, int, str]]:
    """Return for each measure how many images meet it, of how many, and why of none, where it is none."""
    found, judged = ~images["outcome"].isin(FAILED), images["outcome"] == "judged"
    looked, right = images["order"] != "", images["order"] == "right"
    faces = "the judge does not look for faces" if found.any() and images["n_faces"].isna().all() else ""
    no_order = "the judge does not look for the order of people"
    if not found.any():
        order = "no image has as many people as asked for"
    elif not (found & images["distinct"]).any():
        order = "no image has an order to look for"
    else:
        order = "" if (found & looked).any() else no_order
    unknown = faces or (order if order == no_order else "")
    n = len(images)
    return {
        "people": (0, 0, faces) if faces else (int(found.sum()), n, ""),
        "judged": (int(judged.sum()), n, ""),
        "order": (int((found & right).sum()), int((found & looked).sum()), order),
        "valid": (0, 0, unknown) if unknown else (int((judged & (right | ~looked)).sum()), n, ""),
    }
