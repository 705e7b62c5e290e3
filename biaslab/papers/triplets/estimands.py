"""The units of similarities and gaps, and the gaps by which models are compared (section 4.2)."""

from __future__ import annotations

import pandas as pd

from biaslab import stats
from biaslab.papers.estimands import UnitMeans, stack_units, unit_rows

# Of the metrics one or two of each space: text, latents, image.
_METRICS = {"t": "text", "z0": "last latent", "ssim": "image, SSIM", "clip": "image, CLIP"}
_CELL = ["model", "dataset", "space", "metric", "sample", "case"]


def similarity_units(similarity: pd.DataFrame) -> pd.DataFrame:
    """Return the units of ``triplets_disparity``: the similarity of each case (``triplets_similarity``)."""
    return unit_rows(similarity, "case", similarity["value"])


def gap_units(similarity: pd.DataFrame) -> pd.DataFrame:
    """Return the units of ``triplets_disparity_gap``: masculine minus feminine closeness of each case with both pairs.

    Of ``triplets_similarity``, or of ``triplets_object_similarity`` those of ``triplets_co_occurrence``.
    """
    sign = similarity["pair"].map({"neutral-masculine": 1, "neutral-feminine": -1})
    if "higher_is_closer" in similarity:
        sign = sign * similarity["higher_is_closer"].map({1: 1, 0: -1})
    signed = similarity.assign(value=sign * similarity["value"])
    keys = [column for column in _CELL if column in similarity]
    # Both pairs of a triplet, or it has no gap.
    gap = signed.groupby(keys, sort=False)["value"].sum(min_count=2).reset_index()
    gap["case"] = gap["dataset"] + " " + gap["case"].astype(str)
    return unit_rows(gap, "case", gap["value"])


UNITS = (
    UnitMeans("triplets_disparity", "triplets_similarity", similarity_units),
    UnitMeans("triplets_disparity_gap", "triplets_similarity", gap_units),
    UnitMeans("triplets_co_occurrence", "triplets_object_similarity", gap_units),
)


def model_estimates(gaps: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return each model's gaps (``triplets_disparity_gap``) as rows of ``synthesis_models``.

    A gap of several datasets is their mean, with Student's t interval over datasets.
    """
    columns = ["model", "metric", "estimate", "ci_low", "ci_high", "n", "n_unit"]
    rows = []
    for (model, metric), group in gaps[gaps["sample"] == "triplets"].groupby(["model", "metric"], sort=False):
        if len(group) == 1:
            rows += group.assign(estimate=group["gap"], n_unit="triplets")[columns].to_dict("records")
            continue
        mean = stats.mean_interval(group["gap"], confidence, skip_nan=True)
        rows.append(dict(zip(columns, (model, metric, *mean, "datasets"), strict=True)))
    table = _measures(pd.DataFrame(rows, columns=columns))
    return table.assign(paper="triplets", estimate_corrected=table["estimate"], null_mean=0.0)


def model_units(similarity: pd.DataFrame) -> pd.DataFrame:
    """Return the units of models' gaps (``triplets_similarity``), as :func:`biaslab.papers.estimands.stack_units`."""
    return stack_units([_measures(gap_units(similarity[similarity["sample"] == "triplets"]))])


def _measures(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows of the metrics by which models are compared, with the name of each measure."""
    rows = rows[rows["metric"].isin(_METRICS)]
    words = rows["metric"].map(_METRICS).astype(str)
    return rows.assign(measure="Neutral nearer to masculine, " + words, measure_unit="similarity")
