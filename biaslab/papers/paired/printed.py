"""Printed values of the paper for DALL-E 3 in :mod:`biaslab.reference`, as measured tables."""

from __future__ import annotations

import numpy as np
import pandas as pd

from biaslab import reference
from biaslab.metrics import percent_female_from_stereotype_score
from biaslab.schema import tables

MODEL = "DALL-E 3"
# People of an identity (sections 4.2 and A.2.1: 3 images alone; 20 partners in 2 orders; 3 runs in 2 orders), and in a
# run: of 40 and 72 identities, one paired run of occupations, three of all others.
_DESIGN = {
    ("occupation", "single"): (3, 40),
    ("occupation", "paired"): (40, 1600),
    ("power", "single"): (3, 72),
    ("power", "paired"): (6, 144),
}


def percent_female() -> pd.DataFrame:
    """Return Tables 11 and 13 as shares (%, 0–100); thirds are restored from the two digits printed."""
    occupations = reference.load("paired_table_11").query("setting != 'labour_statistics'")
    occupations = occupations.assign(aspect="occupation", identity=occupations["occupation"])
    stereotypes = reference.load("paired_table_3").set_index("occupation")["stereotype"]
    occupations["stereotype"] = occupations["occupation"].map(stereotypes)
    roles = reference.load("paired_table_13")
    roles = roles.assign(
        aspect="power",
        identity=roles["occupation"] + ", " + roles["power_level"] + " power",
        stereotype=roles["power_level"].map({"low": "female", "high": "male"}),
    )
    roles["percent_female"] = percent_female_from_stereotype_score(roles["score"], roles["stereotype"])
    frame = pd.concat([occupations, roles], ignore_index=True)
    n, _ = _people(frame)
    percent = 100 * np.rint(frame["percent_female"] * n / 100) / n
    return tables.make_table(frame.assign(model=MODEL, n=n, percent_female=percent, reason=""), "paired_percent_female")


def labour_share() -> pd.DataFrame:
    """Return the share of women in the labour force (%, 0–100) of Table 11."""
    frame = reference.load("paired_table_11").query("setting == 'labour_statistics'")
    reason = frame["note"].where(frame["percent_female"].isna(), "")
    frame = frame.rename(columns={"percent_female": "percent_female_labour"})
    return tables.make_table(frame.assign(reason=reason), "paired_labour_share")


def run_score() -> pd.DataFrame:
    """Return the overall score (points) of each sampling of images of Table 10."""
    frame = reference.load("paired_table_10").query("run != 'average'")
    return tables.make_table(frame.assign(model=MODEL, n=_people(frame)[1]), "paired_run_score")


def _people(frame: pd.DataFrame) -> np.ndarray:
    """Return the numbers of people of an identity, and in a run, for each row."""
    return np.array([_DESIGN[cell] for cell in zip(frame["aspect"], frame["setting"], strict=True)]).T


def printed_value() -> pd.DataFrame:
    """Return printed aggregates without measurements: Tables 1 and 2, abstract, section 4.6."""
    scores = reference.load("paired_table_1").rename(columns={"score": "value"})
    scores = scores.assign(quantity="stereotype_score", place="Table 1")
    rows = reference.load("paired_table_2").rename(columns={"score": "value"})
    top = rows["occupations"] == "top 5"
    rows["setting"] = rows["mitigation"].replace("none", "paired") + np.where(top, "_top5", "")
    rows = rows[rows["setting"] != "paired"].assign(stereotype="overall", quantity="stereotype_score", place="Table 2")
    quantities = {
        "biased_images": ("percent_biased_images", "overall"),
        "amplified_cases_high_power": ("percent_of_amplified", "male"),
        "reduced_cases_low_power": ("percent_of_reduced", "female"),
    }
    text = reference.load("paired_text").set_index("quantity").loc[list(quantities)]
    text["quantity"], text["stereotype"] = zip(*quantities.values(), strict=True)
    text["place"] = text["section"].where(text["section"].str.isalpha(), "section " + text["section"])
    frame = pd.concat([scores, rows, text], ignore_index=True).assign(model=MODEL)
    return tables.make_table(frame, "paired_printed_value")


def judge_agreement() -> pd.DataFrame:
    """Return kappas among annotators (Table 7) and of automated judges with them (Table 9)."""
    people = reference.load("paired_table_7").rename(columns={"fleiss_kappa": "value"})
    people = people.assign(judge="annotators", statistic="fleiss_kappa", n_annotators=3)
    machines = reference.load("paired_table_9").rename(columns={"cohen_kappa": "value", "method": "judge"})
    machines = machines.assign(statistic="cohen_kappa", n_annotators=2)
    frame = pd.concat([people, machines], ignore_index=True)
    frame = frame.assign(model=MODEL, reference="annotators", n=np.nan, reason="the paper prints no annotations")
    return tables.make_table(frame, "paired_judge_agreement")
