"""Training images that could not be fetched: how many survived, and how far the others could move the results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from biaslab import measures, stats

if TYPE_CHECKING:
    from biaslab.study import Study

NOTHING = "Nothing was measured."
_KEYS = ["corpus", "approach", "prompt", "occupation"]
OK = "ok"


def survival(study: Study) -> pd.DataFrame:
    """Return the share of images that could be fetched, and bounds of the training share, by occupation.

    A share of all images asked for has a Wilson interval: it is that of the occupation's images in the corpus. The
    bounds of the share perceived as female take every missing image as a man's, then as a woman's.
    """
    counts = study.measured("paradox_download_outcomes")
    missing = counts[counts["outcome"] != OK].sort_values("n", ascending=False, kind="stable")
    most = missing[missing["n"] > 0].drop_duplicates(_KEYS).set_index(_KEYS)["outcome"]
    rows = counts.groupby(_KEYS, sort=False)[["n", "n_female", "n_male"]].sum()
    rows["n_missing"] = missing.groupby(_KEYS)["n"].sum().reindex(rows.index).fillna(0)
    rows["most_missing"] = most.reindex(rows.index).fillna("").astype(object)
    rows = rows.reset_index()
    n, n_missing, female, male = (rows[c].to_numpy(float) for c in ("n", "n_missing", "n_female", "n_male"))
    fetched = stats.wilson_interval(n - n_missing, n, study.confidence)
    bounds = measures.percent_female_bounds(female, male, n_missing)
    there = measures.percent_female_bounds(female, male, 0)
    return rows.assign(
        percent=_ratio(n - n_missing, n),
        ci_low=100 * fetched.low,
        ci_high=100 * fetched.high,
        percent_female=there.low,
        training_low=bounds.low,
        training_high=bounds.high,
        reason=np.where((n > 0) & (female + male > 0), "", NOTHING),
    )


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return 100 * np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)


def amplification_bounds(study: Study) -> pd.DataFrame:
    """Return expected amplification with its least and greatest value over what missing training images may show."""
    bounds = study.table("paradox_image_survival")
    shares = study.measured("paradox_percent_female")
    made = set(study.measured_or_empty("pipeline_settings")["model"])
    shares = shares[(shares["source"] == "generated") & shares["model"].isin(made)]
    rows = []
    for (model, approach, prompt), generated in shares.groupby(["model", "approach", "prompt"], sort=False):
        training = bounds[(bounds["approach"] == approach) & bounds["prompt"].isin([prompt, "captions"])]
        both = generated[["occupation", "percent_female"]].merge(
            training, on="occupation", suffixes=("_generated", "")
        )
        if both.empty:
            continue
        g, t = both["percent_female_generated"].to_numpy(float), both["percent_female"].to_numpy(float)
        limits = both["training_low"].to_numpy(float), both["training_high"].to_numpy(float)
        for definition in measures.DEFINITIONS:
            value = float(measures.expected_amplification(g, t, definition).amplification)
            lowest, highest = measures.expected_amplification_bounds(g, *limits, definition)
            n = int((~np.isnan(g) & ~np.isnan(limits[0])).sum())
            reason = "" if np.isfinite([value, lowest, highest]).all() else NOTHING
            rows.append(
                [model, approach, definition, prompt, value, float(lowest), float(highest), n, reason]
            )
    names = ["model", "approach", "definition", "prompt", "amplification", "lowest", "highest"]
    return pd.DataFrame(rows, columns=[*names, "n_occupations", "reason"])


# -- in words --------------------------------------------------------------------------------------------------


def show(study: Study) -> pd.DataFrame | None:
    """Save the tables of images that were fetched and say what they mean; say so where none was fetched.

    Returns:
        The random sample's rows of ``paradox_image_survival``, those with the fewest images left first.
    """
    if study.measured_or_empty("paradox_download_outcomes").empty:
        print("No images were fetched by URL here: none is missing for that reason.")
        return None
    found = study.save_table("paradox_image_survival")
    bounds = study.save_table("paradox_amplification_bounds")
    study.save_table("paradox_downloads", study.measured("paradox_downloads"))
    study.headline(*headlines(study, found, bounds))
    first = found[found["approach"] == found["approach"].iloc[0]].drop(
        columns=["corpus", "approach", "reason"]
    )
    return first.sort_values("percent", kind="stable").reset_index(drop=True)


def headlines(study: Study, found: pd.DataFrame, bounds: pd.DataFrame) -> list[str]:
    """Say how many images could be fetched, and what the others could change.

    Args:
        study: For the level of the intervals and the outcomes.
        found: The table ``paradox_image_survival``.
        bounds: The table ``paradox_amplification_bounds``.
    """
    # The first approach is the one that the others are compared with.
    (corpus, approach), rows = next(iter(found.groupby(["corpus", "approach"], sort=False)))
    n, n_missing = rows["n"].sum(), rows["n_missing"].sum()
    low, high = stats.wilson_interval(n - n_missing, n, study.confidence)
    by = rows.sort_values("percent", kind="stable").iloc[[0, -1]]
    ends = [f"{row.percent:.1f} % ({row.occupation})" for row in by.itertuples()]
    why = study.measured("paradox_download_outcomes")
    why = why[(why["corpus"] == corpus) & (why["approach"] == approach) & (why["outcome"] != OK)]
    why = why.groupby("outcome")["n"].sum().sort_values(ascending=False, kind="stable").head(3)
    most = ", ".join(f"{name} ({k:,.0f})" for name, k in why.items())
    sentences = [
        f"{corpus}: of {n:,.0f} images asked for ({approach}), {100 * (n - n_missing) / n:.1f} % "
        f"({100 * study.confidence:g} % interval {100 * low:.1f} to {100 * high:.1f}) could be fetched; by occupation "
        f"between {ends[0]} and {ends[1]}." + (f" Most frequent reasons: {most}." if most else "")
    ]
    some = rows.dropna(subset=["percent_female"])
    if n_missing and len(some):
        sentences.append(
            f"{corpus}: the share perceived as female ({approach}) is {some['percent_female'].mean():.1f} %, mean over "
            f"{len(some)} occupations; it would be {some['training_low'].mean():.1f} % if every missing image showed a "
            f"man, and {some['training_high'].mean():.1f} % if every one showed a woman."
        )
    known = bounds[(bounds["definition"] == "published") & (bounds["approach"] == approach)].dropna()
    for model, rows in known.groupby("model", sort=False):
        each = [
            f"{row.lowest:.1f} to {row.highest:.1f} for prompt {row.prompt} (as it is {row.amplification:.1f})"
            for row in rows.itertuples()
        ]
        sentences.append(
            f"{model}, {approach}: whatever the missing images show, expected amplification (published definition, "
            f"image noise left in, points) is {'; '.join(each)}."
        )
    return sentences


TABLES = {
    "paradox_image_survival": survival,
    "paradox_amplification_bounds": amplification_bounds,
}
