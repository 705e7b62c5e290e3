"""The units of similarities and gaps, and the gaps by which models are compared (section 4.2)."""

from __future__ import annotations

import pandas as pd

from biaslab.papers.estimands import Estimand, unit_rows
from biaslab.papers.triplets.analysis import gap_summary

# One or two metrics of each space: text, latents, image.
_METRICS = {"t": "text", "z0": "final latent", "ssim": "images (SSIM)", "clip": "images (CLIP)"}
_CELL = ["model", "dataset", "space", "metric", "sample", "case"]


def case_units(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the ``value`` of each case as a unit, prefixed by its dataset, as datasets may share names of cases."""
    return unit_rows(rows.assign(case=rows["dataset"] + " " + rows["case"].astype(str)), "case", rows["value"])


def gap_units(similarity: pd.DataFrame) -> pd.DataFrame:
    """Return the units of ``triplets_disparity_gap``: masculine minus feminine closeness of each case with both pairs.

    From ``triplets_similarity``; from ``triplets_object_similarity``, the units of ``triplets_co_occurrence``.
    """
    sign = similarity["pair"].map({"neutral-masculine": 1, "neutral-feminine": -1})
    if "higher_is_closer" in similarity:
        sign = sign * similarity["higher_is_closer"].map({1: 1, 0: -1})
    signed = similarity.assign(value=sign * similarity["value"])
    keys = [column for column in _CELL if column in similarity]
    # A triplet without both pairs has no gap.
    return case_units(signed.groupby(keys, sort=False)["value"].sum(min_count=2).reset_index())


ESTIMANDS = (
    Estimand(
        "triplets_disparity_gap",
        "triplets_similarity",
        gap_units,
        measure="Similarity gap, masculine − feminine: {metric}",
        unit="similarity",
        words={"metric": _METRICS, "sample": {"triplets": ""}},
        columns={"estimate": "gap"},
    ),
    Estimand("triplets_disparity", "triplets_similarity", case_units),
    Estimand("triplets_co_occurrence", "triplets_object_similarity", gap_units),
)


def pooled_gaps(gaps: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return the gaps of each model and metric (``triplets_disparity_gap``) over datasets of many triplets.

    The gap of a single dataset is unchanged; others are means from :func:`biaslab.papers.triplets.gap_summary`.
    ``n_unit`` names whether ``n`` counts triplets or datasets.
    """
    gaps = gaps[gaps["sample"] == "triplets"]
    is_single = gaps.groupby(["model", "metric"])["gap"].transform("size") == 1
    pooled = gap_summary(gaps[~is_single], confidence=confidence).rename(columns={"n_datasets": "n"})
    pooled = pooled[pooled["model"].isin(gaps["model"])].assign(sample="triplets", n_unit="datasets")
    return pd.concat([gaps[is_single].assign(n_unit="triplets"), pooled], ignore_index=True)
