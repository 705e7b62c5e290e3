"""What the judges of people get right where the truth is known, and which tones go with which attributes (section 5.3).

``images`` has rows of ``dalleval_social_images``; ``confidence`` (0–1) is the level of intervals.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from biaslab import stats
from biaslab.judges import photographs
from biaslab.judges.judge_labels import PIXELS, TONE_BY_PIXELS
from biaslab.papers.dalleval.analysis.bias import ASKED, TONES
from biaslab.papers.dalleval.prompts import ATTRIBUTES
from biaslab.schema import tables
from biaslab.schema.genders import GENDERS

ALL = "(all)"
"""All professions together."""


def social_judges(images: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return ``dalleval_social_judges``: sensitivity, specificity and distances of the judges from the truth.

    Of gender, sensitivity is that for women and specificity that for men, among images whose judge says either.
    """
    rows = [
        {"model": model} | row
        for model, group in images[images["truth_gender"] != ""].groupby("model", sort=False)
        for row in _of_model(group, confidence)
    ]
    return tables.make_table(rows, "dalleval_social_judges")


def _of_model(images: pd.DataFrame, confidence: float) -> Iterator[dict]:
    # The judge of gender, as the settings name it.
    named = ", ".join(dict.fromkeys(images["judge"])) or "gender"
    for judge, column in ((ASKED, "gender_vqa"), (named, "gender_judge")):
        for gender, measure in (("female", "sensitivity"), ("male", "specificity")):
            judged = images.loc[images[column].isin(GENDERS) & (images["truth_gender"] == gender), column]
            yield {"judge": judge, "question": "gender", "measure": measure} | _percent(judged == gender, confidence)
    seen, worn, unread = (_worn(images[c]) for c in ("attributes", "truth_attributes", "attributes_missing"))
    parts: list[tuple[str, Any]] = [("attributes", slice(None))]
    parts += [(name, [i]) for i, name in enumerate(ATTRIBUTES)]
    for name, k in parts:
        true, judged, sure = worn[:, k], seen[:, k], ~unread[:, k]
        for measure, hits in (("sensitivity", judged[true & sure]), ("specificity", ~judged[~true & sure])):
            yield {"judge": ASKED, "question": name, "measure": measure} | _percent(hits, confidence)
    off = (images["skin_tone"] - images["truth_skin_tone"]).dropna()
    about = {"judge": _tone_name(images), "question": "tone"}
    for most in range(4):
        yield about | {"measure": f"within_{most}"} | _percent(off.abs() <= most, confidence)
    yield about | {"measure": "mean_difference"} | stats.mean_interval(off, confidence)._asdict()


def _tone_name(images: pd.DataFrame) -> str:
    """Return what says skin tones, as the tables call it; tables of before do not say."""
    named = ", ".join(dict.fromkeys(images["judge_tone"])) if "judge_tone" in images else TONE_BY_PIXELS
    return named or "skin tone"


def _worn(names: pd.Series) -> np.ndarray:
    """Return which of the attributes are among names joined by semicolons: images × attributes."""
    return np.array([[name in listed for name in ATTRIBUTES] for listed in names.fillna("").str.split(";")])


def _percent(hits: ArrayLike, confidence: float) -> dict:
    n = np.size(hits)
    value, low, high = stats.percent(int(np.sum(hits)), n, confidence)
    return {"value": value, "n": n, "ci_low": low, "ci_high": high}


def tones_by_attribute(images: pd.DataFrame) -> pd.DataFrame:
    """Return ``dalleval_tones_by_attribute``: which skin tones images with an attribute have (Figure 8)."""
    known = images.dropna(subset="skin_tone")
    worn = known["attributes"].fillna("").str.split(";")
    rows = known.assign(attribute=worn, tone=known["skin_tone"].astype(int).astype(str))
    rows = rows.explode("attribute", ignore_index=True).query("attribute != ''")
    groups = rows.groupby(["model", "attribute"], sort=False)
    share = groups["tone"].value_counts(normalize=True).rename("share").reset_index()
    every = groups.size().rename("n").reset_index().merge(pd.DataFrame({"tone": map(str, TONES)}), how="cross")
    out = every.merge(share, how="left", on=["model", "attribute", "tone"])
    return tables.make_table(out.assign(percent=100 * out["share"].fillna(0)), "dalleval_tones_by_attribute")


def skin_tone_outcomes(images: pd.DataFrame, drawings: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return ``dalleval_skin_tone_outcomes``: of how many images of each profession there is a tone, and why not.

    Beside all professions stands how often tones are right, of these images and ``drawings`` of known truth.
    """
    known = images.assign(judge=_tone_name(images), status=images["reason_tone"].fillna("").replace("", "read"))
    rows = []
    for model, group in known.groupby("model", sort=False):
        names = ["read", *group.loc[group["status"] != "read", "status"].value_counts().index]
        for profession, part in ((ALL, group), *group.groupby("profession", sort=False)):
            about = {"model": model, "profession": profession, "judge": group["judge"].iloc[0]}
            counts = part["status"].value_counts().reindex(names, fill_value=0)
            rows += [about | {"status": name, "n": n, "n_images": len(part)} for name, n in counts.items()]
    out = pd.DataFrame(rows, columns=["model", "profession", "judge", "status", "n", "n_images"])
    known = pd.concat([images, drawings]).dropna(subset=["skin_tone", "truth_skin_tone"])
    right = (known["skin_tone"] == known["truth_skin_tone"]).groupby(known["model"]).agg(["mean", "size"])
    whole = (out["profession"] == ALL) & (out["status"] == "read")
    beside = right.reindex(out["model"].where(whole)).reset_index(drop=True)
    out = out.assign(percent_tone_correct=100 * beside["mean"], n_ground_truth=beside["size"])
    unknown = whole & beside["size"].isna() & (out["judge"] == TONE_BY_PIXELS)
    out["judge_error"] = np.where(unknown, photographs.describe_error("skin_tone", PIXELS), "")
    percent, low, high = stats.percent(out["n"].to_numpy(float), out["n_images"].to_numpy(float), confidence)
    return tables.make_table(out.assign(percent=percent, ci_low=low, ci_high=high), "dalleval_skin_tone_outcomes")


def skin_tone_truth(readings: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return ``dalleval_skin_tone_truth`` of ``dalleval_skin_tone_readings``: how close methods come to true tones."""
    rows = []
    for (model, segmented, scored), group in readings.groupby(["model", "segmentation", "scoring"], sort=False):
        key = {"model": model, "segmentation": segmented, "scoring": scored}
        known = group.dropna(subset="tone_estimated")
        off = (known["tone_estimated"] - known["truth_skin_tone"]).abs()
        for most in range(4):
            rows.append(key | {"measure": f"within_{most}"} | _percent(off <= most, confidence))
        for measure, values in (("mean_difference", off), ("mean_tone", known["tone_estimated"])):
            rows.append(key | {"measure": measure} | stats.mean_interval(values, confidence)._asdict())
    return tables.make_table(rows, "dalleval_skin_tone_truth")
