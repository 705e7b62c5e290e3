"""Availability of skin tones in images of people, and skin tones by attribute (section 5.3).

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
    """Return the name of the skin tone judge in tables; older tables lack its column."""
    judges = ", ".join(dict.fromkeys(images["judge_tone"])) if "judge_tone" in images else TONE_BY_PIXELS
    return judges or "skin tone"


def tones_by_attribute(images: pd.DataFrame) -> pd.DataFrame:
    """Return ``dalleval_tones_by_attribute``: the distribution of skin tones for each attribute (Figure 8)."""
    images_with_tone = images.dropna(subset="skin_tone")
    worn = images_with_tone["attributes"].fillna("").str.split(";")
    rows = images_with_tone.assign(attribute=worn, tone=images_with_tone["skin_tone"].astype(int).astype(str))
    rows = rows.explode("attribute", ignore_index=True).query("attribute != ''")
    groups = rows.groupby(["model", "attribute"], sort=False)
    share = groups["tone"].value_counts(normalize=True).rename("share").reset_index()
    cells = groups.size().rename("n").reset_index().merge(pd.DataFrame({"tone": map(str, TONES)}), how="cross")
    out = cells.merge(share, how="left", on=["model", "attribute", "tone"])
    return tables.make_table(out.assign(percent=100 * out["share"].fillna(0)), "dalleval_tones_by_attribute")


def skin_tone_outcomes(images: pd.DataFrame, confusion: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return ``dalleval_skin_tone_outcomes``: numbers of images with a tone, and without by reason, by profession.

    The row of all professions has the accuracy of tones, over these images and those of ``dalleval_confusion``.
    """
    statuses = images.assign(judge=_tone_name(images), status=images["reason_tone"].fillna("").replace("", "read"))

    def by_status(rows: pd.DataFrame) -> pd.DataFrame:
        names = ["read", *rows.loc[rows["status"] != "read", "status"].value_counts().index]
        shares = stats.by_group(rows, "profession", stats.shares("status", names, confidence), overall=ALL)
        return shares.assign(judge=rows["judge"].iloc[0])

    out = stats.by_group(statuses, "model", by_status).rename(columns={"n": "n_images", "count": "n"})
    out = out.reindex(
        columns=["model", "profession", "judge", "status", "n", "n_images", "percent", "ci_low", "ci_high"]
    )
    tone_labels = confusion[(confusion["quantity"] == "skin tone") & confusion["judge"].isin(out["judge"])]
    tone_labels = tone_labels[tone_labels["answer"].str.isdecimal()]
    tones = {"skin_tone": tone_labels["answer"].astype(float), "truth_skin_tone": tone_labels["truth"].astype(float)}
    labels = pd.concat([images, tone_labels[["model"]].assign(**tones)]).dropna(subset=["skin_tone", "truth_skin_tone"])
    correct = (labels["skin_tone"] == labels["truth_skin_tone"]).groupby(labels["model"]).agg(["mean", "size"])
    is_total = (out["profession"] == ALL) & (out["status"] == "read")
    accuracy = correct.reindex(out["model"].where(is_total)).reset_index(drop=True)
    out = out.assign(percent_tone_correct=100 * accuracy["mean"], n_ground_truth=accuracy["size"])
    lacks_error = is_total & accuracy["size"].isna() & (out["judge"] == TONE_BY_PIXELS)
    out["judge_error"] = np.where(lacks_error, photographs.describe_error("skin_tone", PIXELS), "")
    return tables.make_table(out, "dalleval_skin_tone_outcomes")
