"""Changes from one person to two: of mean scores, of identities, and the lists of changed identities."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import fisher_exact

from biaslab import reference, stats
from biaslab.papers.paired.analysis.dependence import LISTS, deviations
from biaslab.papers.paired.analysis.means import CELL, by_cell, count_groups, pair_scores, strata
from biaslab.papers.paired.analysis.scores import identities, score_limits, with_corrected_p
from biaslab.schema import tables


def _join_single(shares: pd.DataFrame) -> pd.DataFrame:
    """Return each identity in a setting of two people next to itself with one person."""
    frame = pd.concat([identities(shares, aspect) for aspect in ("occupation", "power")])
    keys, values = ["model", "aspect", "identity"], ["score", "percent_female", "n"]
    single = frame.loc[frame["setting"] == "single", [*keys, *values]]
    paired = frame.loc[frame["setting"] != "single", [*CELL, "identity", "occupation", "stereotype", *values]]
    joined = paired.merge(single, on=keys, how="left", suffixes=("", "_single"))
    return joined.assign(change=joined["score"] - joined["score_single"])


def score_change(shares: pd.DataFrame, pairs: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return the mean change in the score from one person to two, of each list and overall (paired 4.6)."""
    images, rows = pair_scores(pairs, count_groups(shares)), []
    frame = _join_single(shares)
    # The contribution of an identity to the overall change: its entire score with two people; half its score alone,
    # where it shares no image.
    frame["effect"] = frame["score"] - frame["score_single"] / 2
    for cell, group in by_cell(frame):
        terms = deviations(images.get(tuple(cell.values())), group, "score")
        estimates = strata(group, "change", confidence, -200, 200, effect="effect", images=terms, two_people=True)
        rows += [cell | row for row, _ in estimates]
    return tables.make_table(rows, "paired_score_change")


def identity_change(shares: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return the change in each identity's score from one person to two, with Fisher's test (Tables 12 and 13)."""
    frame = _join_single(shares)
    sides: list[ArrayLike] = []
    counts: list[np.ndarray] = []
    for side in ("_single", ""):
        n = frame[f"n{side}"].fillna(0).to_numpy(int)
        count = np.rint(frame[f"percent_female{side}"].fillna(0) * n / 100).to_numpy(int)
        wilson = stats.wilson_interval(count, n, confidence)
        sides += [frame[f"score{side}"], *score_limits(wilson, frame["stereotype"])]
        counts += [count, n - count]
    low, high = stats.difference_interval(*sides)
    has_change = frame["change"].notna().to_numpy()
    p = np.full(len(frame), np.nan)
    p[has_change] = [
        fisher_exact(np.array([[a, b], [c, d]]))[1] for c, d, a, b in zip(*(x[has_change] for x in counts), strict=True)
    ]
    min_p = np.where(has_change, stats.min_fisher_p(frame["n"], frame["n_single"]), np.nan)
    reason = np.where(has_change, "", "not classified in both settings")
    frame = frame.assign(ci_low=low, ci_high=high, p=p, min_attainable_p=min_p, reason=reason)
    return tables.make_table(with_corrected_p(frame), "paired_identity_change")


def adherence(shares: pd.DataFrame, *, seed: int, replicates: int, confidence: float) -> pd.DataFrame:
    """Return the shares of the lists among people who fit their stereotype (paired 4.6, Figure 4)."""
    rows = []
    for cell, group in by_cell(count_groups(shares)):
        scored = group.dropna(subset=["score"])
        wide = ((100 + scored["score"]) / 2).groupby([scored["occupation"], scored["stereotype"]]).mean()
        wide = wide.unstack().reindex(columns=LISTS)
        options = reference.draws(cell["model"], seed=seed, replicates=replicates)
        resamples = _resample_means(wide.to_numpy(), **options)
        means, total = wide.mean().to_numpy(), resamples.sum(axis=1)
        for i, stratum in enumerate(LISTS):
            part = scored[scored["stereotype"] == stratum]
            row = {**cell, "stereotype": stratum, "n": int(part["n"].sum()), "n_identities": len(part)}
            row |= {"percent_adhering": means[i], "reason": ""}
            if not means.sum() > 0:
                rows.append(row | {"reason": "no person fits, or a list has no values"})
                continue
            share = 100 * resamples[total > 0, i] / total[total > 0]
            row["percent_of_adhering"] = 100 * means[i] / means.sum()
            tail = (1 - confidence) / 2
            low, high = np.quantile(share, [tail, 1 - tail])
            if high - low > 1e-9:
                row |= {"ci_low": low, "ci_high": high}
            else:
                row["reason"] = "all identities have the same value, so there is no interval"
            rows.append(row)
    return tables.make_table(rows, "paired_adherence")


def _resample_means(wide: np.ndarray, seed: int, replicates: int) -> np.ndarray:
    """Return bootstrap means (replicates, lists) of values (occupations, lists), disjoint lists separately.

    An occupation without a value in one list counts in the other. A mean is NaN where no drawn occupation has a value.
    """
    rng = np.random.default_rng(seed)

    def means(values: np.ndarray) -> np.ndarray:
        sample = values[rng.integers(0, len(values), (replicates, len(values)))]
        is_finite = np.isfinite(sample)
        n = is_finite.sum(axis=1)
        return np.divide(np.where(is_finite, sample, 0).sum(axis=1), n, out=np.full(n.shape, np.nan), where=n > 0)

    if np.isfinite(wide).all(axis=1).any():
        return means(wide)
    lists = [column[np.isfinite(column)] for column in wide.T]
    missing = np.full(replicates, np.nan)
    return np.column_stack([means(values) if len(values) else missing for values in lists])


def changed_cases(changes: pd.DataFrame, printed: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return the shares of the lists among identities with a higher or a lower score than alone (paired Figure 5)."""
    keys = ["quantity", *CELL, "stereotype"]
    paper_values = printed.set_index(keys)["value"].to_dict()
    rows = []
    for cell, group in by_cell(changes.dropna(subset=["change"])):
        # Scores are multiples of 200/n, so changes below a hundredth of a point are rounding errors.
        sign = np.where(np.abs(group["change"]) < 0.01, 0, np.sign(group["change"]))
        for direction, code in (("amplified", 1), ("reduced", -1), ("unchanged", 0)):
            cases = group[sign == code]
            points = cases["change"].abs().sum() if code else 0.0
            for stratum in LISTS:
                part = cases[cases["stereotype"] == stratum]
                row = {**cell, "direction": direction, "stereotype": stratum, "n": len(cases)}
                row |= {"n_identities": len(part), **stats.percent_columns(len(part), len(cases), confidence)}
                row |= {"percent_of_cases": row["percent"], "points": part["change"].sum() if code else 0.0}
                row["percent_of_points"] = 100 * part["change"].abs().sum() / points if points else np.nan
                row["paper_table_value"] = paper_values.get(
                    (f"percent_of_{direction}", *cell.values(), stratum), np.nan
                )
                rows.append(row | {"reason": "" if len(cases) else "no score changed in this direction"})
    return tables.make_table(rows, "paired_changed_cases")
