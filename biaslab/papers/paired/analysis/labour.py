"""Generated shares beside the labour force: correlation and amplification (paired 4.4.2, Figures 7 and 8)."""

from __future__ import annotations

from math import isfinite

import numpy as np
import pandas as pd

from biaslab import published, stats
from biaslab.ground import tables
from biaslab.measures import (
    DEFINITIONS,
    amplification,
    directional_amplification,
    exclusion_reason,
    expected_amplification,
)
from biaslab.papers.paired import printed as papers
from biaslab.papers.paired.analysis.dependence import LISTS
from biaslab.papers.paired.analysis.means import percent_of
from biaslab.papers.paired.analysis.scores import identities

# A labour share is counted of so many that it has no noise of its own.
_EXACT = 10**9


def labour_share(given: pd.DataFrame) -> pd.DataFrame:
    """Return labour shares (``paired_labour_share``) as given, or where none are those that the paper prints.

    They are a reference that depends on no model.
    """
    return tables.of(given if len(given) else papers.labour_share(), "paired_labour_share")


def labour_comparison(shares: pd.DataFrame, labour: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return each occupation's generated share beside that of ``paired_labour_share`` (Table 11)."""
    frame = identities(shares, "occupation")
    given = labour.set_index("occupation")["percent_female_labour"]
    against = frame["occupation"].map(given).to_numpy(float)
    generated, n = frame["percent_female"].to_numpy(), frame["n"].to_numpy()
    limits = percent_of(np.rint(np.nan_to_num(generated) * n / 100).astype(int), n, confidence)
    both = np.isfinite(against) & np.isfinite(generated)
    floor = np.full(len(frame), np.nan)
    expected = stats.expected_absolute_deviation(against[both] / 100, n[both])
    floor[both] = 100 * expected - np.abs(against[both] - 50)
    reason = np.where(np.isnan(against), "no labour share is given", "")
    frame = frame.assign(
        ci_low=limits["ci_low"],
        ci_high=limits["ci_high"],
        percent_female_labour=against,
        amplification_plain=amplification(generated, against),
        directional=directional_amplification(generated, against),
        floor=floor,
        excluded=exclusion_reason(generated, against),
        reason=np.where(frame["reason"] != "", frame["reason"], reason),
    )
    return tables.of(frame, "paired_labour_comparison")


def _known(comparison: pd.DataFrame):
    """Return the rows with both shares by model and setting."""
    both = comparison.dropna(subset=["percent_female", "percent_female_labour"])
    return both.groupby(["model", "setting"], sort=False)


def labour_correlation(comparison: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return Pearson's r of ``paired_labour_comparison`` over occupations: of all, and within each list."""
    rows = []
    for (model, setting), group in _known(comparison):
        for stratum in ("overall", *LISTS):
            some = group if stratum == "overall" else group[group["stereotype"] == stratum]
            both = (some[c].to_numpy() for c in ("percent_female_labour", "percent_female"))
            r = stats.pearson_r(*both, confidence)
            few = "a correlation needs three occupations and shares that differ"
            row = {"model": model, "setting": setting, "stereotype": stratum, **r._asdict()}
            rows.append(row | {"reason": "" if isfinite(r.r) else few})
    return tables.of(rows, "paired_labour_correlation")


def labour_amplification(
    comparison: pd.DataFrame, *, seed: int, replicates: int, confidence: float
) -> pd.DataFrame:
    """Return the mean amplification against labour shares, without what image noise adds.

    By the three definitions of the paradox paper (its section 3.3), the labour share in the place of the training
    share: a cell of its own without noise. From ``paired_labour_comparison``; in points.
    """
    rows = []
    every = comparison.groupby(["model", "setting"]).size()
    for (model, setting), group in _known(comparison):
        generated, labour = (group[c].to_numpy() for c in ("percent_female", "percent_female_labour"))
        people, known = group["n"].to_numpy(int), np.full(len(group), _EXACT)
        found = stats.hierarchical_bootstrap(
            np.column_stack([np.rint(generated * people / 100), np.rint(labour / 100 * _EXACT)]),
            np.column_stack([people, known]),
            _amplifications,
            confidence=confidence,
            **published.draws(model, replicates=replicates, seed=seed),
        )
        for i, definition in enumerate(DEFINITIONS):
            plain = expected_amplification(generated, labour, definition)
            row = {"model": model, "setting": setting, "definition": definition}
            row |= {
                "amplification_plain": float(plain.amplification),
                "n_occupations": int(plain.n_occupations),
            }
            row["n_excluded"] = int(every[model, setting] - plain.n_occupations)
            if isfinite(found.ci_low[i]):
                # No share is further from one half than 50 points; along a lean it can cross it.
                lowest = -100 if definition == "directional" else -50
                limits = {"amplification": found.estimate[i], "ci_low": found.ci_low[i]}
                limits |= {"ci_high": found.ci_high[i]}
                row |= {name: float(np.clip(value, lowest, 50)) for name, value in limits.items()}
                row["p"] = found.p[i]
            else:
                row["reason"] = "too few occupations or images to tell amplification from image noise"
            rows.append(row)
    return tables.of(rows, "paired_labour_amplification")


def _amplifications(shares: np.ndarray) -> np.ndarray:
    """Return the amplification in points by definition, (..., definitions), of shares (..., occupations, 2)."""
    generated, labour = 100 * shares[..., 0], 100 * shares[..., 1]
    each = [expected_amplification(generated, labour, d).amplification for d in DEFINITIONS]
    return np.stack(each, axis=-1)
