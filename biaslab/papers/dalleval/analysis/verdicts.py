"""Verdicts on whether images match PaintSkills' prompts, from the detections in them (section 4.1).

Each rule turns detections into *statements* in the form of the prompts: ``a bench``, ``3 dogs``, ``a car left to a
boat``. An image matches a prompt if the prompt's statement is among its own. A verdict, and the probability that
another prompt's image would match, are therefore the same comparison.
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
    """Return the statements that images show for a skill, by one of :data:`RULES` (section 4.1).

    ``detections`` are rows of ``image_id``, ``label``, ``score`` (0–1), and ``left``, ``top``, ``right``, ``bottom``
    (0–1 of the image's width and height); for counts by the rule ``released`` also ``p_<class>`` for each class (0–1),
    with all of the detector's queries. ``threshold`` (0–1) is that of the rule ``paper``.

    Returns:
        ``image_id``, ``object``, ``n``, ``relation`` and ``other`` as in ``prompts.skills``, one row per statement; an
        image may have none or several.

    Raises:
        InputError: ``p_<class>`` is missing.
    """
    confident = _confident_detections(detections, skill, rule, threshold)
    if skill == "spatial":
        rows = _relations(confident, rule)
    elif skill == "object":
        rows = confident.rename(columns={"label": "object"}).assign(n=1)
    elif rule == "released":
        rows = _released_counts(detections, confident)
    else:
        counts = confident.groupby(["image_id", "label"], sort=False).size()
        # The paper's rule counts no class in images of several classes.
        is_only_class = counts.groupby("image_id").transform("size") == 1
        rows = counts[is_only_class | (rule == "geneval")].rename_axis(["image_id", "object"]).reset_index(name="n")
    if skill != "spatial":
        rows = rows.assign(relation="", other="")
    return rows[["image_id", *_STATEMENT]].astype({"n": int}).drop_duplicates(ignore_index=True)


def verdicts(
    detections: pd.DataFrame, requests: pd.DataFrame, *, rule: str = "paper", threshold: float = 0.7
) -> pd.DataFrame:
    """Return whether each image matches its prompt, and which step fails where it does not.

    Arguments and errors are as in :func:`statements`; ``requests`` has one row per image: ``image_id`` and the columns
    of ``prompts.skills``. Returns it with ``correct``, ``objects_correct`` (the classes alone), ``rest_correct`` (the
    number alone, of any class; the relation where the classes are correct) and ``status``: ``correct``, ``nothing
    found``, ``other objects``, ``other number`` or ``other relation``.
    """
    parts = []
    skill: Any
    for skill, rows in requests.groupby("skill", sort=False):
        image_statements = statements(detections, skill, rule=rule, threshold=threshold)
        keys = ["image_id", *_STATEMENT]
        correct = pd.MultiIndex.from_frame(rows[keys]).isin(pd.MultiIndex.from_frame(image_statements[keys]))
        by_image = dict(list(_confident_detections(detections, skill, rule, threshold).groupby("image_id")["label"]))
        class_counts = [Counter(by_image.get(image_id, ())) for image_id in rows["image_id"]]
        targets = zip(rows["object"], rows["other"], class_counts, strict=True)
        objects_correct = np.array([_matches_classes(*row, rule) for row in targets], bool)
        rest_correct = correct
        if skill == "count":
            rest_correct = np.array([c.total() for c in class_counts]) == rows["n"].to_numpy()
        failure = {"object": "other objects", "count": "other number", "spatial": "other relation"}[skill]
        is_empty = [not c for c in class_counts]
        labels = ["correct", "nothing found", "other objects"]
        status = np.select([correct, is_empty, ~objects_correct], labels, default=failure)
        columns = {"correct": correct, "objects_correct": objects_correct, "rest_correct": rest_correct}
        parts.append(rows.assign(**columns, status=status))
    verdict_columns = ["correct", "objects_correct", "rest_correct", "status"]
    if parts:
        return pd.concat(parts).loc[requests.index]
    return requests.reindex(columns=list(dict.fromkeys([*requests, *verdict_columns])))


def count_statements(detections: pd.DataFrame, requests: pd.DataFrame, threshold: float) -> np.ndarray:
    """Return the number of detections of the prompted class above a threshold, for each row of ``requests``."""
    counts = detections[detections["score"] > threshold].groupby(["image_id", "label"]).size()
    return counts.reindex(pd.MultiIndex.from_frame(requests[["image_id", "object"]]), fill_value=0).to_numpy(int)


def _matches_classes(name: str, other: str, class_counts: Counter, rule: str) -> bool:
    """Return whether the detected classes match the prompted ones, ``name`` and ``other`` (which may be empty)."""
    requested = {name, other} - {""}
    if other == name and class_counts[name] < 2:
        return False
    return requested <= set(class_counts) if rule == "geneval" else requested == set(class_counts)


def _confident_detections(detections: pd.DataFrame, skill: str, rule: str, threshold: float) -> pd.DataFrame:
    """Return the detections that a rule uses, in order of decreasing score."""
    thresholds = {"paper": (threshold, threshold), "released": (-1, 0.7), "geneval": (0.3, 0.9)}
    default_threshold, count_threshold = thresholds[rule]
    # Equal scores keep the order of the detections.
    ranked = detections.sort_values("score", ascending=False, kind="stable")
    ranked = ranked[ranked["score"] > (count_threshold if skill == "count" else default_threshold)]
    if skill == "count" or rule == "geneval":
        return ranked
    return ranked[ranked.groupby("image_id").cumcount() < (1 if skill == "object" else 2)]


def shuffle_verdicts(
    detections: pd.DataFrame, requests: pd.DataFrame, *, rule: str = "paper", threshold: float = 0.7
) -> pd.Series:
    """Return the expected share of correct verdicts (0–1) by skill if images were assigned to prompts at random.

    Exact: the mean over all pairs of an image and another image's prompt of a skill; NaN for fewer than two images.
    Arguments are as in :func:`verdicts`.
    """
    shares = {}
    skill: Any
    for skill, rows in requests.groupby("skill", sort=False):
        detected = detections[detections["image_id"].isin(rows["image_id"])]
        image_statements = statements(detected, skill, rule=rule, threshold=threshold)
        n_matches = image_statements.merge(rows[_STATEMENT].value_counts().reset_index(), on=_STATEMENT)["count"].sum()
        n_matches -= len(image_statements.merge(rows, on=["image_id", *_STATEMENT]))
        n = len(rows)
        shares[skill] = n_matches / (n * (n - 1)) if n > 1 else np.nan
    return pd.Series(shares, dtype=float, name="share")


def _released_counts(detections: pd.DataFrame, best: pd.DataFrame) -> pd.DataFrame:
    """Return counts as in the released code, for each image and class.

    With k confident detections in an image, take the k queries with the highest probability of the class, and count
    those whose likeliest class it is.
    """
    if missing := [f"p_{name}" for name in CLASSES if f"p_{name}" not in detections]:
        raise InputError(
            f"The detections have no column {missing[0]!r}, which the rule 'released' needs for counting; include each "
            "query's probability of every class, or use the rule 'paper'."
        )
    confident = detections["image_id"].map(best.groupby("image_id").size())
    parts = []
    for name in CLASSES:
        rank = detections.groupby("image_id")[f"p_{name}"].rank(method="first", ascending=False)
        rows = detections[(rank <= confident) & (detections["label"] == name)]
        parts.append(rows.groupby("image_id", sort=False).size().reset_index(name="n").assign(object=name))
    return pd.concat(parts)


def _relations(confident: pd.DataFrame, rule: str) -> pd.DataFrame:
    """Return the relations between the two best objects; by ``geneval``, between the best of any two classes."""
    # The best box represents its class; in a relation between two objects of one class, the best two boxes.
    rank = confident.groupby(["image_id", "label"]).cumcount()
    boxes = confident[["image_id", "label", *_BOX]].assign(place=rank)[rank < 2]
    pairs = boxes.merge(boxes, on="image_id", suffixes=("", "_other"))
    is_same_class = pairs["label"] == pairs["label_other"]
    rank_sum = pairs["place"] + pairs["place_other"]
    pairs = pairs[np.where(is_same_class, pairs["place"] != pairs["place_other"], rank_sum == 0)]
    box, base = (pairs[[side + end for side in _BOX]].to_numpy(float) for end in ("", "_other"))
    offset = (box[:, :2] + box[:, 2:] - base[:, :2] - base[:, 2:]) / 2
    dx, dy = offset.T
    if rule == "geneval":
        sizes = box[:, 2:] - box[:, :2] + base[:, 2:] - base[:, :2]
        excess = np.sign(offset) * np.maximum(np.abs(offset) - _GENEVAL_OFFSET * sizes, 0)
        excess[np.abs(excess).max(axis=1, initial=0) < 1e-3] = 0
        dx, dy = (excess / np.maximum(np.linalg.norm(offset, axis=1, keepdims=True), 1e-9)).T
        is_relation = {"above": dy < -0.5, "below": dy > 0.5, "left": dx < -0.5, "right": dx > 0.5}
    else:
        is_horizontal = np.abs(dx) > np.abs(dy)
        is_relation = {"above": ~is_horizontal & (dy <= 0), "below": ~is_horizontal & (dy > 0)}
        is_relation |= {"left": is_horizontal & (dx <= 0), "right": is_horizontal & (dx > 0)}
    rows = pairs.rename(columns={"label": "object", "label_other": "other"})
    return pd.concat([rows[is_relation[relation]].assign(relation=relation, n=1) for relation in RELATIONS])
