"""What becomes of images of people, and what judges see in them (paired B, C and D)."""

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
# An image has the outcome of its people that comes last here.
_WORST = {outcome: rank for rank, outcome in enumerate(STATUSES)}


def last_rounds(people: pd.DataFrame) -> pd.DataFrame:
    """Return everyone whom images were to show (``paired_people``); of FairCritic each model's last round."""
    mitigated = people["setting"] == "faircritic"
    # Models can stop after different numbers of rounds.
    last = people["round"].where(mitigated).groupby(people["model"]).transform("max")
    return people[~mitigated | (people["round"] == last)].reset_index(drop=True)


def stereotype_fit(people: pd.DataFrame) -> np.ndarray:
    """Return 100 for people who fit their stereotype, -100 for those who do not, NaN for those not judged."""
    known = people["gender"].isin(GENDERS)
    return np.where(known, np.where(people["gender"] == people["stereotype"], 100.0, -100.0), np.nan)


def _images(people: pd.DataFrame) -> pd.DataFrame:
    """Return one row per image, with the worst outcome of its people, their order, and whether they differ."""
    asked = people["run"].astype(str) + " " + people["identity"] + " " + people["position"]
    whom = people["identity"] + "/" + people["role"]
    each = people.assign(rank=people["status"].map(_WORST), asked=asked, whom=whom)
    images = each.groupby([*CELL, "image_id"], sort=False).agg(
        rank=("rank", "max"), order=("role_order", "first"), n_faces=("n_faces", "max"), asked=("asked", "|".join),
        distinct=("whom", "nunique"),
    )  # fmt: skip
    images["status"] = images["rank"].map(dict(enumerate(STATUSES)))
    images["distinct"] = images["distinct"] > 1
    return images.reset_index()


def outcomes(people: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return images by the worst outcome of the people in them (paired C.1 and C.2, Figures 11 and 12)."""
    rows = []
    for cell, group in by_cell(_images(last_rounds(people))):
        for outcome in STATUSES:
            part = group[group["status"] == outcome]
            if part.empty and outcome in LEFT_OUT:
                continue
            row = {**cell, "status": outcome, "n": len(part), "n_images": len(group)}
            row |= {f"n_{order}": (part["order"] == order).sum() for order in ROLES}
            rows.append(row | stats.percent_columns(len(part), len(group), confidence))
    return tables.make_table(rows, "paired_outcomes")


def valid_images(people: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return the share of images that show what was asked: what mitigation must not cost (paired C)."""
    images = _images(last_rounds(people))
    rows = []
    for cell, group in by_cell(images):
        before = {}
        if cell["setting"] in ("intervention", "faircritic"):
            # The intervention is tried on some pairs only: those are compared with their own images before.
            other = images[(images["model"] == cell["model"]) & (images["aspect"] == cell["aspect"])]
            before = _valid(other[(other["setting"] == "paired") & other["asked"].isin(group["asked"])])
        for measure, (n, of, reason) in _valid(group).items():
            row = {**cell, "measure": measure, "n_images": of}
            now = stats.percent_columns(n, of, confidence)
            row |= {**now, "reason": "" if of else reason}
            k, total, _ = before.get(measure, (0, 0, ""))
            if of and total:
                then = stats.percent_columns(k, total, confidence)
                row["change"] = now["percent"] - then["percent"]
                limits = stats.difference_interval(*then.values(), *now.values())
                row["change_ci_low"], row["change_ci_high"] = limits
            rows.append(row)
    return tables.make_table(rows, "paired_valid_images")


def _valid(images: pd.DataFrame) -> dict[str, tuple[int, int, str]]:
    """Return for each measure how many images meet it, of how many, and why of none, where it is none."""
    passed, judged = ~images["status"].isin(FAILED), images["status"] == "judged"
    looked, right = images["order"] != "", images["order"] == "correct"
    faces = "the judge does not look for faces" if passed.any() and images["n_faces"].isna().all() else ""
    no_order = "the judge does not look for the order of people"
    if not passed.any():
        order = "no image has as many people as asked for"
    elif not (passed & images["distinct"]).any():
        order = "no image has an order to look for"
    else:
        order = "" if (passed & looked).any() else no_order
    unknown = faces or (order if order == no_order else "")
    n = len(images)
    return {
        "people": (0, 0, faces) if faces else (int(passed.sum()), n, ""),
        "judged": (int(judged.sum()), n, ""),
        "order": (int((passed & right).sum()), int((passed & looked).sum()), order),
        "valid": (0, 0, unknown) if unknown else (int((judged & (right | ~looked)).sum()), n, ""),
    }


# -- judges ------------------------------------------------------------------------------------------

# Where the people of a prompt stand, from left to right, in the settings that the paper asks its judge about.
_ASKED_ABOUT = {"single": ("alone",), "paired": ("left", "right"), "three": ("left", "middle", "right")}


def answers_about_people(people: pd.DataFrame) -> pd.DataFrame:
    """Return what judges answer about people with ground truth, as ``paired_confusion`` without model and reference.

    Inclusion (both people are detected, by judges that detect faces) and order are one answer about an image. Gender is
    that of detected people, with what their cues leave open as the condition.

    Args:
        people: A row per person and judge: judge, image_id, status, gender, role_order, n_faces, skin_tone, and what is
            true: truth_gender, ambiguous, truth_skin_tone.
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
    """Return what judges are asked about people, and of how many: models (Table 8), and people by a form (Table 6)."""
    places = people["setting"].map(_ASKED_ABOUT).fillna("")
    there = [at in names for at, names in zip(people["position"], places, strict=True)]
    people = people[np.array(there, dtype=bool)]
    # Tables name an occupation as the paper's results do, prompts as its lists do.
    (form,) = (one.question for one in built_in()[PERCEIVED])
    listed = {prompts.occupation(name).occupation: name for name in prompts.stereotypes()}

    def ask(row: Any) -> tuple[str, str]:
        # Next to a person of the occupation the role alone is asked for.
        named = not row.role or row.position in ("alone", "left")
        phrase = f"{listed.get(row.occupation, row.occupation) if named else ''} {row.role}".strip()
        places = _ASKED_ABOUT[row.setting]
        whom = phrase, places.index(row.position) + 1, len(places)
        return question(*whom), question(*whom, form)

    keys = ["model", "aspect", "setting", "position", "question", "form"]
    asked = [ask(row) for row in people.itertuples()]
    people = people.assign(question=[text for text, _ in asked], form=[text for _, text in asked])
    return tables.make_table(people.groupby(keys, sort=False).size().reset_index(name="n"), "paired_questions")
