"""Statuses of images of people, and the answers of judges about them (paired B, C and D)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from biaslab import stats
from biaslab.judges.annotation_questions import built_in
from biaslab.judges.judge_labels import BLACK, JUDGED, LEFT_OUT, PLACEHOLDER, ROLES, STATUSES
from biaslab.judges.questions import PERCEIVED, question
from biaslab.papers.paired import prompts
from biaslab.papers.paired.analysis.means import CELL, by_cell
from biaslab.schema import tables
from biaslab.schema.genders import GENDERS

FAILED = (
    *("no_face", "one_face", "several_faces", "overlapping", "face_too_small", "unreadable", "blocked"),
    *(BLACK, PLACEHOLDER),
)
OUT_OF_ORDER = ("swapped", "unclear")
# An image has the highest-ranked status of its people.
_RANKS = {outcome: rank for rank, outcome in enumerate(STATUSES)}


def last_rounds(people: pd.DataFrame) -> pd.DataFrame:
    """Return the people of ``paired_people``; for FairCritic, those of each model's last round."""
    is_mitigated = people["setting"] == "faircritic"
    # Models can stop after different numbers of rounds.
    last_round = people["round"].where(is_mitigated).groupby(people["model"]).transform("max")
    return people[~is_mitigated | (people["round"] == last_round)].reset_index(drop=True)


def stereotype_fit(people: pd.DataFrame) -> np.ndarray:
    """Return 100 for people who fit their stereotype, -100 for those who do not, NaN for those not judged."""
    is_classified = people["gender"].isin(GENDERS)
    return np.where(is_classified, np.where(people["gender"] == people["stereotype"], 100.0, -100.0), np.nan)


def _group_images(people: pd.DataFrame) -> pd.DataFrame:
    """Return one row per image, with the worst status of its people, their order, and whether they differ."""
    requests = people["run"].astype(str) + " " + people["identity"] + " " + people["position"]
    names = people["identity"] + "/" + people["role"]
    rows = people.assign(rank=people["status"].map(_RANKS), asked=requests, whom=names)
    images = rows.groupby([*CELL, "image_id"], sort=False).agg(
        rank=("rank", "max"), order=("role_order", "first"), n_faces=("n_faces", "max"), asked=("asked", "|".join),
        distinct=("whom", "nunique"),
    )  # fmt: skip
    images["status"] = images["rank"].map(dict(enumerate(STATUSES)))
    images["distinct"] = images["distinct"] > 1
    return images.reset_index()


def outcomes(people: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return images by the worst status of their people (paired C.1 and C.2, Figures 11 and 12)."""
    rows = []
    for cell, group in by_cell(_group_images(last_rounds(people))):
        for outcome in STATUSES:
            part = group[group["status"] == outcome]
            if part.empty and outcome in LEFT_OUT:
                continue
            row = {**cell, "status": outcome, "n": len(part), "n_images": len(group)}
            row |= {f"n_{order}": (part["order"] == order).sum() for order in ROLES}
            rows.append(row | stats.percent_columns(len(part), len(group), confidence))
    return tables.make_table(rows, "paired_outcomes")


def valid_images(people: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return the share of images that show the prompted people, which mitigation must not reduce (paired C)."""
    images = _group_images(last_rounds(people))
    rows = []
    for cell, group in by_cell(images):
        baseline = {}
        if cell["setting"] in ("intervention", "faircritic"):
            # The intervention is for a subset of pairs, which are compared with their own images before it.
            pairs = images[(images["model"] == cell["model"]) & (images["aspect"] == cell["aspect"])]
            baseline = _count_valid(pairs[(pairs["setting"] == "paired") & pairs["asked"].isin(group["asked"])])
        for measure, (n, n_images, reason) in _count_valid(group).items():
            row = {**cell, "measure": measure, "n_images": n_images}
            columns = stats.percent_columns(n, n_images, confidence)
            row |= {**columns, "reason": "" if n_images else reason}
            k, total, _ = baseline.get(measure, (0, 0, ""))
            if n_images and total:
                baseline_columns = stats.percent_columns(k, total, confidence)
                row["change"] = columns["percent"] - baseline_columns["percent"]
                limits = stats.difference_interval(*baseline_columns.values(), *columns.values())
                row["change_ci_low"], row["change_ci_high"] = limits
            rows.append(row)
    return tables.make_table(rows, "paired_valid_images")


def _count_valid(images: pd.DataFrame) -> dict[str, tuple[int, int, str]]:
    """Return for each measure the number of images that meet it, the number of images, and why that is 0."""
    is_detected, is_judged = ~images["status"].isin(FAILED), images["status"] == "judged"
    has_order, is_correct = images["order"] != "", images["order"] == "correct"
    faces_reason = "the judge does not detect faces" if is_detected.any() and images["n_faces"].isna().all() else ""
    no_order_reason = "the judge does not determine the order of people"
    if not is_detected.any():
        order_reason = "no image has the prompted number of people"
    elif not (is_detected & images["distinct"]).any():
        order_reason = "no image shows two different people whose order could be checked"
    else:
        order_reason = "" if (is_detected & has_order).any() else no_order_reason
    reason = faces_reason or (order_reason if order_reason == no_order_reason else "")
    n = len(images)
    return {
        "people": (0, 0, faces_reason) if faces_reason else (int(is_detected.sum()), n, ""),
        "judged": (int(is_judged.sum()), n, ""),
        "order": (int((is_detected & is_correct).sum()), int((is_detected & has_order).sum()), order_reason),
        "valid": (0, 0, reason) if reason else (int((is_judged & (is_correct | ~has_order)).sum()), n, ""),
    }


# -- judges ------------------------------------------------------------------------------------------

# Positions of the people of a prompt, from left to right, in the settings with questions to the paper's judge.
_ASKED_POSITIONS = {"single": ("alone",), "paired": ("left", "right"), "three": ("left", "middle", "right")}


def answers_about_people(people: pd.DataFrame) -> pd.DataFrame:
    """Return judges' answers about people with ground truth, as ``paired_confusion`` without model and reference.

    Inclusion (both people are detected, by judges that detect faces) and order are one answer per image. Gender is of
    detected people; its condition is whether their cues are ambiguous.

    Args:
        people: One row per person and judge: judge, image_id, status, gender, role_order, n_faces, skin_tone, and the
            truth: truth_gender, ambiguous, truth_skin_tone.
    """
    people = people.assign(detected=~people["status"].isin(FAILED), subject="", condition="")
    detected = people[people["detected"]]
    images = people.groupby(["judge", "image_id"], sort=False, as_index=False).agg(
        {"detected": "all", "n_faces": "max"}
    )
    images = images[images["n_faces"].groupby(images["judge"]).transform("count") > 0].assign(subject="", condition="")
    ordered = detected[detected["role_order"] != ""].drop_duplicates(["judge", "image_id"])
    in_order = np.where(ordered["role_order"] == "correct", "yes", "no")
    cues = np.where(detected["ambiguous"].astype(bool), "ambiguous cues", "clear cues")
    gender = detected["gender"].where(detected["status"] == JUDGED, detected["status"])
    tones = ["no tone" if np.isnan(tone) else f"{tone:.0f}" for tone in people["skin_tone"].astype(float)]
    frames = [
        images.assign(quantity="inclusion", truth="yes", answer=np.where(images["detected"], "yes", "no")),
        ordered.assign(quantity="role order", truth="yes", answer=in_order),
        detected.assign(quantity="gender", condition=cues, truth=detected["truth_gender"], answer=gender),
        people.assign(quantity="skin tone", truth=people["truth_skin_tone"].map("{:.0f}".format), answer=tones),
    ]
    keys = ["judge", "quantity", "subject", "condition", "truth", "answer", "image_id"]
    return pd.concat(frames).groupby(keys, sort=False).size().rename("n").reset_index()


def questions(people: pd.DataFrame) -> pd.DataFrame:
    """Return the questions about people, with numbers of people: to models (Table 8), and in a form (Table 6)."""
    places = people["setting"].map(_ASKED_POSITIONS).fillna("")
    is_asked = [position in names for position, names in zip(people["position"], places, strict=True)]
    people = people[np.array(is_asked, dtype=bool)]
    # Tables use the occupations' names of the paper's results, prompts those of its lists.
    (form,) = (entry.question for entry in built_in()[PERCEIVED])
    prompt_names = {prompts.occupation(name).occupation: name for name in prompts.stereotypes()}

    def ask(row: Any) -> tuple[str, str]:
        # Next to a person of the occupation, the prompt names only the role.
        is_named = not row.role or row.position in ("alone", "left")
        phrase = f"{prompt_names.get(row.occupation, row.occupation) if is_named else ''} {row.role}".strip()
        places = _ASKED_POSITIONS[row.setting]
        arguments = phrase, places.index(row.position) + 1, len(places)
        return question(*arguments), question(*arguments, form)

    keys = ["model", "aspect", "setting", "position", "question", "form"]
    texts = [ask(row) for row in people.itertuples()]
    people = people.assign(question=[text for text, _ in texts], form=[text for _, text in texts])
    return tables.make_table(people.groupby(keys, sort=False).size().reset_index(name="n"), "paired_questions")
