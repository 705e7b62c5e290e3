"""Whether images show what PaintSkills asks for, from what a detector finds in them (section 4.1).

Each rule says what an image shows as *statements* in the form of the prompts: ``a bench``, ``3 dogs``, ``a car left
to a boat``. A prompt is met where its own statement is among them, so that a verdict, and the chance that another
prompt's image would have met it, are one comparison.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from biaslab.errors import InputError
from biaslab.papers.dalleval.prompts import CLASSES, RELATIONS

RULES = ("paper", "released", "geneval")
"""``paper``: section 4.1, with a threshold (not printed; the released code has 0.7 for counts). ``released``: the
authors' code, which has a threshold for counts only. ``geneval``: Ghosh et al. 2023, thresholds 0.3, counts 0.9."""
_BOX = ("left", "top", "right", "bottom")
_STATEMENT = ["object", "n", "relation", "other"]
_GENEVAL_OFFSET = 0.1


def statements(detections: pd.DataFrame, skill: str, *, rule: str = "paper", threshold: float = 0.7) -> pd.DataFrame:
    """Return what images show, as far as a skill and one of :data:`RULES` ask (section 4.1).

    ``detections`` are rows of ``image_id``, ``label``, ``score`` (0–1), and ``left``, ``top``, ``right``, ``bottom``
    (0–1 of the image's width and height); for counts by the rule ``released`` also ``p_<class>`` for each class (0–1),
    with all of the detector's queries. ``threshold`` (0–1) is that of the rule ``paper``.

    Returns:
        ``image_id``, ``object``, ``n``, ``relation`` and ``other`` as in ``prompts.skills``; an image of which nothing
        can be said has no row, one with several statements several.

    Raises:
        InputError: ``p_<class>`` is missing.
    """
    confident = _confident(detections, skill, rule, threshold)
    if skill == "spatial":
        shown = _relations(confident, rule)
    elif skill == "object":
        shown = confident.rename(columns={"label": "object"}).assign(n=1)
    elif rule == "released":
        shown = _released_counts(detections, confident)
    else:
        by = confident.groupby(["image_id", "label"], sort=False).size()
        # A class next to others cannot be counted by the paper's rule.
        alone = by.groupby("image_id").transform("size") == 1
        shown = by[alone | (rule == "geneval")].rename_axis(["image_id", "object"]).reset_index(name="n")
    if skill != "spatial":
        shown = shown.assign(relation="", other="")
    return shown[["image_id", *_STATEMENT]].astype({"n": int}).drop_duplicates(ignore_index=True)


def verdicts(
    detections: pd.DataFrame, asked: pd.DataFrame, *, rule: str = "paper", threshold: float = 0.7
) -> pd.DataFrame:
    """Return whether each image shows what it was asked for, and which step fails where it does not.

    Arguments and errors are as in :func:`statements`; ``asked`` has one row an image: ``image_id`` and the columns of
    ``prompts.skills``. Returns it with ``correct``, ``objects_correct`` (the classes alone), ``rest_correct`` (the
    number alone, of whatever class; the relation where the classes are right) and ``status``: ``correct``, ``nothing
    found``, ``other objects``, ``other number`` or ``other relation``.
    """
    parts = []
    skill: Any
    for skill, rows in asked.groupby("skill", sort=False):
        shown = statements(detections, skill, rule=rule, threshold=threshold)
        keys = ["image_id", *_STATEMENT]
        correct = pd.MultiIndex.from_frame(rows[keys]).isin(pd.MultiIndex.from_frame(shown[keys]))
        by_image = dict(list(_confident(detections, skill, rule, threshold).groupby("image_id")["label"]))
        seen = [Counter(by_image.get(image_id, ())) for image_id in rows["image_id"]]
        asked_for = zip(rows["object"], rows["other"], seen, strict=True)
        objects = np.array([_fit(*row, rule) for row in asked_for], bool)
        rest = correct
        if skill == "count":
            rest = np.array([c.total() for c in seen]) == rows["n"].to_numpy()
        last = {"object": "other objects", "count": "other number", "spatial": "other relation"}[skill]
        outcome = np.select(
            [correct, [not c for c in seen], ~objects], ["correct", "nothing found", "other objects"], default=last
        )
        parts.append(rows.assign(correct=correct, objects_correct=objects, rest_correct=rest, status=outcome))
    judged = ["correct", "objects_correct", "rest_correct", "status"]
    return pd.concat(parts).loc[asked.index] if parts else asked.reindex(columns=list(dict.fromkeys([*asked, *judged])))


def count_statements(detections: pd.DataFrame, asked: pd.DataFrame, threshold: float) -> np.ndarray:
    """Return how many objects of the class asked for are found above a threshold, for each row of ``asked``."""
    counts = detections[detections["score"] > threshold].groupby(["image_id", "label"]).size()
    return counts.reindex(pd.MultiIndex.from_frame(asked[["image_id", "object"]]), fill_value=0).to_numpy(int)


def _fit(name: str, other: str, seen: Counter, rule: str) -> bool:
    """Return whether the classes that were seen are those asked for."""
    wanted = {name, other} - {""}
    if other == name and seen[name] < 2:
        return False
    return wanted <= set(seen) if rule == "geneval" else wanted == set(seen)


def _confident(detections: pd.DataFrame, skill: str, rule: str, threshold: float) -> pd.DataFrame:
    """Return the detections that a rule looks at, best first."""
    other, count = {"paper": (threshold, threshold), "released": (-1, 0.7), "geneval": (0.3, 0.9)}[rule]
    # Of equal scores the first counts, whatever the order of images.
    ranked = detections.sort_values("score", ascending=False, kind="stable")
    ranked = ranked[ranked["score"] > (count if skill == "count" else other)]
    if skill == "count" or rule == "geneval":
        return ranked
    return ranked[ranked.groupby("image_id").cumcount() < (1 if skill == "object" else 2)]


def shuffle_verdicts(
    detections: pd.DataFrame, asked: pd.DataFrame, *, rule: str = "paper", threshold: float = 0.7
) -> pd.Series:
    """Return the share of correct verdicts (0–1) by skill if images were dealt to prompts at random.

    Exact: the mean over all pairs of an image and another image's prompt of a skill; NaN of fewer than two. Arguments
    are as in :func:`verdicts`.
    """
    shares = {}
    skill: Any
    for skill, rows in asked.groupby("skill", sort=False):
        detected = detections[detections["image_id"].isin(rows["image_id"])]
        shown = statements(detected, skill, rule=rule, threshold=threshold)
        met = shown.merge(rows[_STATEMENT].value_counts().reset_index(), on=_STATEMENT)["count"].sum()
        met -= len(shown.merge(rows, on=["image_id", *_STATEMENT]))
        n = len(rows)
        shares[skill] = met / (n * (n - 1)) if n > 1 else np.nan
    return pd.Series(shares, dtype=float, name="share")


def _released_counts(detections: pd.DataFrame, best: pd.DataFrame) -> pd.DataFrame:
    """Of as many queries as are confident, those likeliest of a class: how many have it as their likeliest class."""
    if missing := [f"p_{name}" for name in CLASSES if f"p_{name}" not in detections]:
        raise InputError(
            f"The detections have no column {missing[0]!r}, which counts by the rule 'released' need; give each "
            "query's probability of every class, or take the rule 'paper'."
        )
    confident = detections["image_id"].map(best.groupby("image_id").size())
    parts = []
    for name in CLASSES:
        place = detections.groupby("image_id")[f"p_{name}"].rank(method="first", ascending=False)
        counted = detections[(place <= confident) & (detections["label"] == name)]
        parts.append(counted.groupby("image_id", sort=False).size().reset_index(name="n").assign(object=name))
    return pd.concat(parts)


def _relations(confident: pd.DataFrame, rule: str) -> pd.DataFrame:
    """Return where the two best objects lie as seen from each other; by ``geneval``, the best of any two classes."""
    # Of several boxes of a class the best represents it; next to its own class, the best two.
    place = confident.groupby(["image_id", "label"]).cumcount()
    boxes = confident[["image_id", "label", *_BOX]].assign(place=place)[place < 2]
    pairs = boxes.merge(boxes, on="image_id", suffixes=("", "_other"))
    same = pairs["label"] == pairs["label_other"]
    both = pairs["place"] + pairs["place_other"]
    pairs = pairs[np.where(same, pairs["place"] != pairs["place_other"], both == 0)]
    box, base = (pairs[[side + end for side in _BOX]].to_numpy(float) for end in ("", "_other"))
    offset = (box[:, :2] + box[:, 2:] - base[:, :2] - base[:, 2:]) / 2
    dx, dy = offset.T
    if rule == "geneval":
        sizes = box[:, 2:] - box[:, :2] + base[:, 2:] - base[:, :2]
        clear = np.sign(offset) * np.maximum(np.abs(offset) - _GENEVAL_OFFSET * sizes, 0)
        clear[np.abs(clear).max(axis=1, initial=0) < 1e-3] = 0
        dx, dy = (clear / np.maximum(np.linalg.norm(offset, axis=1, keepdims=True), 1e-9)).T
        held = {"above": dy < -0.5, "below": dy > 0.5, "left": dx < -0.5, "right": dx > 0.5}
    else:
        across = np.abs(dx) > np.abs(dy)
        held = {"above": ~across & (dy <= 0), "below": ~across & (dy > 0)}
        held |= {"left": across & (dx <= 0), "right": across & (dx > 0)}
    named = pairs.rename(columns={"label": "object", "label_other": "other"})
    return pd.concat([named[held[relation]].assign(relation=relation, n=1) for relation in RELATIONS])
