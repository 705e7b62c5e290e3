"""Generated shares beside the labour force: how far they agree (paired 4.4.2, Figures 7 and 8)."""

from __future__ import annotations

from math import isfinite

import numpy as np
import pandas as pd

from biaslab import stats
from biaslab.ground import tables
from biaslab.papers.paired import printed
from biaslab.papers.paired.analysis.dependence import LISTS
from biaslab.papers.paired.analysis.scores import identities


def labour_comparison(shares: pd.DataFrame, labour: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return each occupation's generated share beside that of ``paired_labour_share`` (Table 11).

    Without rows of ``labour`` these are what the paper prints: a reference that depends on no model.
    """
    frame = identities(shares, "occupation")
    labour = labour if len(labour) else printed.labour_share()
    against = frame["occupation"].map(labour.set_index("occupation")["percent_female_labour"]).to_numpy(float)
    generated, n = frame["percent_female"].to_numpy(), frame["n"].to_numpy()
    limits = stats.percents(np.rint(np.nan_to_num(generated) * n / 100).astype(int), n, confidence)
    reason = np.where(np.isnan(against), "no labour share is given", "")
    frame = frame.assign(
        ci_low=limits["ci_low"],
        ci_high=limits["ci_high"],
        percent_female_labour=against,
        reason=np.where(frame["reason"] != "", frame["reason"], reason),
    )
    return tables.of(frame, "paired_labour_comparison")


def labour_correlation(comparison: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return Pearson's r of ``paired_labour_comparison`` over occupations: of all, and within each list."""
    rows = []
    known = comparison.dropna(subset=["percent_female", "percent_female_labour"])
    for (model, setting), group in known.groupby(["model", "setting"], sort=False):
        for stratum in ("overall", *LISTS):
            part = group if stratum == "overall" else group[group["stereotype"] == stratum]
            r = stats.pearson_r(part["percent_female_labour"], part["percent_female"], confidence)
            few = "a correlation needs three occupations and shares that differ"
            row = {"model": model, "setting": setting, "stereotype": stratum, **r._asdict()}
            rows.append(row | {"reason": "" if isfinite(r.r) else few})
    return tables.of(rows, "paired_labour_correlation")
