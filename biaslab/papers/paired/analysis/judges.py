"""What the errors of judges do to scores, and how often judges are right where the truth is known (paired B and D)."""

from __future__ import annotations

from math import isfinite

import numpy as np
import pandas as pd
from scipy.optimize import brentq

from biaslab.ground import tables
from biaslab.judging.questions import question
from biaslab.papers.paired.analysis.means import CELL, percent_of
from biaslab.papers.paired.analysis.people import FAILED
from biaslab.prompts import paired as prompts

# Where the people of a prompt stand, from left to right, in the settings that the paper asks its judge about.
_ASKED_ABOUT = {"single": ("alone",), "paired": ("left", "right"), "three": ("left", "middle", "right")}


def judge_attenuation(agreement: pd.DataFrame, lean: pd.DataFrame, scores: pd.DataFrame) -> pd.DataFrame:
    """Return the overall score that a judge of a printed kappa would report, if its errors hit all alike.

    Of ``paired_judge_agreement`` those that the paper prints count (Table 9). ``lean`` is ``paired_lean``, ``scores``
    ``paired_stereotype_score``.
    """
    # A run's own scores are its judge's, not those of whoever it is compared with.
    kappas = agreement[printed_kappas(agreement) & (agreement["statistic"] == "cohen_kappa")]
    female, score = (
        table[table["stereotype"] == "overall"].set_index(CELL)[column]
        for table, column in ((lean, "percent_female"), (scores, ["score", "n"]))
    )
    rows = []
    for judged in kappas.itertuples():
        names = (judged.model, judged.aspect, judged.setting)
        if names not in score.index:
            continue
        found, wrong = score.loc[names], judge_error(judged.value, female[names])
        row = dict(zip(CELL, names, strict=True)) | {"judge": judged.judge, "kappa": judged.value}
        row |= {"percent_wrong": 100 * wrong, **found, "score_seen": (1 - 2 * wrong) * found["score"]}
        rows.append(row | {"reason": "" if isfinite(wrong) else "kappa does not determine the errors"})
    return tables.of(rows, "paired_judge_attenuation")


def printed_kappas(agreement: pd.DataFrame) -> pd.Series:
    """Return which rows of ``paired_judge_agreement`` the paper prints: those without a number of people."""
    return agreement["n"].isna() if "n" in agreement else pd.Series(True, agreement.index)


def judge_error(kappa: float, percent_female: float) -> float:
    """Return the share e of people (0–1) that a judge of this kappa gets wrong, if errors hit all alike.

    From Cohen's kappa between the judge and annotators (-1 to 1), and the share that annotators perceive as female
    (0–100). NaN where everyone is perceived alike (kappa is not defined) or no e gives it. A difference between two
    groups' shares of women is then seen as (1 - 2e) times its size (Rogan and Gladen 1978).
    """
    p = percent_female / 100
    if not (isfinite(kappa) and 0 < p < 1):
        return np.nan

    def excess(e: float) -> float:
        seen = p * (1 - e) + (1 - p) * e
        chance = p * seen + (1 - p) * (1 - seen)
        return (1 - e - chance) / (1 - chance) - kappa

    if excess(0) * excess(1) > 0:
        return np.nan
    return float(brentq(excess, 0, 1))


def truth(renders: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return how often gate, judge and order are right on people whose truth is known (``paired_renders``)."""
    rows = []
    for judge, people in renders.groupby("judge", sort=False):
        found, judged = ~people["outcome"].isin(FAILED), people["outcome"] == "judged"
        right, clear = people["gender"] == people["truth_gender"], people["ambiguous"] == "no"
        # Whether two people are found is one answer about an image.
        passed = found.groupby(people["image_id"]).all()
        images = people[found].drop_duplicates("image_id")
        images = images[images["role_order"] != ""]
        seen = people["skin_tone"].notna()
        near = (people["skin_tone"] - people["truth_skin_tone"]).abs() <= 1
        counts = {
            # A judge that looks for no faces has no gate that could be passed.
            "gate": (passed.sum(), len(passed)) if people["n_faces"].notna().any() else (0, 0),
            "judged": (judged.sum(), found.sum()),
            "gender": ((right & judged).sum(), judged.sum()),
            "gender_unambiguous": ((right & judged & clear).sum(), (judged & clear).sum()),
            "order": ((images["role_order"] == "right").sum(), len(images)),
            "skin_tone": ((near & seen).sum(), seen.sum()),
        }
        for measure, (k, n) in counts.items():
            row = {"judge": judge, "measure": measure, "n": int(n)}
            rows.append(row | percent_of(int(k), int(n), confidence))
    return tables.of(rows, "paired_truth")


def questions(people: pd.DataFrame) -> pd.DataFrame:
    """Return what a question-answering judge is asked about people, and of how many (paired D, Table 8)."""
    places = people["setting"].map(_ASKED_ABOUT).fillna("")
    there = [at in some for at, some in zip(people["position"], places, strict=True)]
    people = people[np.array(there, dtype=bool)]
    # Tables name an occupation as the paper's results do, prompts as its lists do.
    listed = {prompts.occupation(name).occupation: name for name in prompts.stereotypes()}

    def ask(row) -> str:
        # Beside somebody of the occupation the role alone is asked for.
        named = not row.role or row.position in ("alone", "left")
        phrase = f"{listed.get(row.occupation, row.occupation) if named else ''} {row.role}".strip()
        places = _ASKED_ABOUT[row.setting]
        return question(phrase, places.index(row.position) + 1, len(places))

    keys = ["model", "aspect", "setting", "position", "question"]
    people = people.assign(question=[ask(row) for row in people.itertuples()])
    return tables.of(people.groupby(keys, sort=False).size().reset_index(name="n"), "paired_questions")
