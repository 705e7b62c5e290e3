"""Of which images of people there is a skin tone, and which tones go with which attributes (section 5.3).

``images`` has rows of ``dalleval_social_images``; ``confidence`` (0–1) is the level of intervals.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from biaslab import stats
from biaslab.judges import photographs
from biaslab.judges.judge_labels import PIXELS, TONE_BY_PIXELS
from biaslab.papers.dalleval.analysis.bias import TONES
from biaslab.schema import tables

ALL = "(all)"
"""All professions together."""


def _tone_name(images: pd.DataFrame) -> str:
    """Return what says skin tones, as the tables call it; tables of before do not say."""
    named = ", ".join(dict.fromkeys(images["judge_tone"])) if "judge_tone" in images else TONE_BY_PIXELS
    return named or "skin tone"


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


def skin_tone_outcomes(images: pd.DataFrame, confusion: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return ``dalleval_skin_tone_outcomes``: of how many images of each profession there is a tone, and why not.

    The row of all professions has how often tones are right, of these images and those of ``dalleval_confusion``.
    """
    known = images.assign(judge=_tone_name(images), status=images["reason_tone"].fillna("").replace("", "read"))

    def by_status(rows: pd.DataFrame) -> pd.DataFrame:
        names = ["read", *rows.loc[rows["status"] != "read", "status"].value_counts().index]
        shares = stats.by_group(rows, "profession", stats.shares("status", names, confidence), overall=ALL)
        return shares.assign(judge=rows["judge"].iloc[0])

    out = stats.by_group(known, "model", by_status).rename(columns={"n": "n_images", "count": "n"})
    out = out.reindex(
        columns=["model", "profession", "judge", "status", "n", "n_images", "percent", "ci_low", "ci_high"]
    )
    judged = confusion[(confusion["quantity"] == "skin tone") & confusion["judge"].isin(out["judge"])]
    judged = judged[judged["answer"].str.isdecimal()]
    tones = {"skin_tone": judged["answer"].astype(float), "truth_skin_tone": judged["truth"].astype(float)}
    known = pd.concat([images, judged[["model"]].assign(**tones)]).dropna(subset=["skin_tone", "truth_skin_tone"])
    right = (known["skin_tone"] == known["truth_skin_tone"]).groupby(known["model"]).agg(["mean", "size"])
    whole = (out["profession"] == ALL) & (out["status"] == "read")
    beside = right.reindex(out["model"].where(whole)).reset_index(drop=True)
    out = out.assign(percent_tone_correct=100 * beside["mean"], n_ground_truth=beside["size"])
    unknown = whole & beside["size"].isna() & (out["judge"] == TONE_BY_PIXELS)
    out["judge_error"] = np.where(unknown, photographs.describe_error("skin_tone", PIXELS), "")
    return tables.make_table(out, "dalleval_skin_tone_outcomes")
