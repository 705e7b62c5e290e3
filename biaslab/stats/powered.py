"""Sums of shares that a judge sees in all images and people in a part of them: prediction-powered estimates (PPI++).

Angelopoulos, Duchi and Zrnic (2023), "PPI++: Efficient prediction-powered inference", arXiv 2311.01453, with images
drawn at known probabilities (Zrnic and Candès 2024, "Active statistical inference", arXiv 2403.03208) from groups.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

from biaslab.ground.errors import InputError
from biaslab.stats import checks
from biaslab.stats.intervals import Estimate

FEWEST = 5
"""Ratings of people whom both call female or male below which nothing is estimated from them."""
# Errors that are not seen count as so many among all ratings: of 20 without one, up to 14 % may yet be wrong.
_UNSEEN = 1.0


class Powered(NamedTuple):
    """A sum of shares by the judge, by ratings, and by both, which is the estimate; values in the sum's unit."""

    judge: Estimate
    ratings: Estimate
    both: Estimate
    tuning: float
    """How much the judge's answers count (lambda of PPI++), 0 (not at all) to 1."""
    worth: float
    """Ratings that ``both`` is worth: as many alone would have its error; NaN where there is none."""


def prediction_powered(
    count: ArrayLike,
    n: ArrayLike,
    coefficients: ArrayLike,
    group: ArrayLike,
    judged: ArrayLike,
    rated: ArrayLike,
    weight: ArrayLike | None = None,
    *,
    strata: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    base: float = 0.0,
    confidence: float = 0.95,
) -> Powered:
    """Return ``base + sum(coefficients * (share - 1/2))`` over groups, with limits.

    Rated people are a part of those judged, drawn at known probabilities from some groups or all. The judge's value is
    put right by what ratings differ from it, each counted as often as it stands for others (section 6.1 of PPI++, with
    weights; the share of people whom raters call female or male is a ratio, linearised). The judge's answers count as
    far as they narrow the interval (equation 6), so that a judge that says nothing takes nothing away.

    Limits are Student's, with as many degrees of freedom as ratings (or clusters, where there are fewer) less one. As
    few ratings see no error of a good judge, errors get the variance that one more among them would give.

    Args:
        count, n: By group: people judged female, and judged female or male (whole numbers).
        coefficients: By group, in the unit of the sum.
        group: Of each rated person the group's index.
        judged: What the judge says of each: 1 female, 0 male, NaN neither.
        rated: What raters say of each, in the same form.
        weight: How many people of the group each stands for, in any unit, such as one over the probability
            of being drawn; None where people were drawn at random within groups.
        strata: By group what it is a part of, of which each has its own ratings, such as a source of images; None is
            one. Where one has none, nothing is estimated from ratings.
        clusters: By group the cluster that it belongs to, such as a profession, where limits are to speak of other
            clusters, too; None where groups are fixed.
        base: What the sum is where all shares are one half.
        confidence: Level of the intervals, 0–1.

    ``n`` of an estimate counts people. Raises InputError: Shapes do not fit, or a value is out of range.
    """
    count, n, coefficients, strata, clusters = checks.aligned(
        count=count, n=n, coefficients=coefficients, strata=strata, clusters=clusters
    )
    group, judged, rated, weight = checks.aligned(group=group, judged=judged, rated=rated, weight=weight)
    count, n = checks.counts(count, n)
    c = checks.numbers(coefficients, "coefficients")
    group = checks.whole(group, "group").astype(int)
    f, y = (checks.shares(v, name, allow_nan=True) for v, name in ((judged, "judged"), (rated, "rated")))
    if not (c.shape == n.shape and group.shape == f.shape == y.shape) or (group.size and group.max() >= n.size):
        raise InputError(
            "Give a count, n and coefficient by group, and of each rated person a group, judged and rated."
        )
    confidence = checks.confidence_level(confidence)
    cluster, stratum = (None if v is None else np.unique(v, return_inverse=True)[1] for v in (clusters, strata))
    stratum = np.zeros(n.size, int) if stratum is None else stratum
    there = n > 0
    centre = np.where(there, count / np.maximum(n, 1), 0.5)
    likely = (count + 0.5) / (n + 1)
    noise = np.where(there, c**2 * likely * (1 - likely) / np.maximum(n, 1), 0)
    parts = c * (centre - 0.5)
    seen = base + parts.sum()
    between = _between(stratum if cluster is None else cluster, stratum, parts, group)
    error = np.sqrt(noise.sum() if cluster is None else between(np.zeros(group.size)))
    degrees = np.inf if cluster is None else cluster.max(initial=0) + 1 - between(None)
    by_judge = _limits(seen, error, int(n.sum()), degrees, confidence)
    # How much of the sum a rated person stands for.
    each = np.where(there, np.abs(c) / np.maximum(n, 1), 0)[group]
    if weight is None:
        weight = (n / np.maximum(np.bincount(group, minlength=n.size), 1))[group]
    each_stands = each * checks.numbers(weight, "weight", low=0)
    clear, seen_too = np.isfinite(y), np.isfinite(f)
    # Of each stratum, and of a rated person's.
    whole, own = np.bincount(stratum, np.abs(c)), stratum[group]
    k = int((clear & seen_too).sum())
    scale = np.bincount(own, each_stands * clear, minlength=whole.size)
    if k < FEWEST or (scale[whole > 0] == 0).any():
        nothing = Estimate(np.nan, np.nan, np.nan, k)
        return Powered(by_judge, nothing, nothing, np.nan, np.nan)
    w = each_stands * np.sign(c[group]) * (whole / np.where(scale > 0, scale, 1))[own]

    def moved(residual: np.ndarray) -> np.ndarray:
        """Return what each rated person moves the sum by, less what all move it by."""
        effect = w * residual
        mean = (np.bincount(own, effect, minlength=whole.size) / np.where(whole > 0, whole, 1))[own]
        return (effect - mean * np.abs(w) * clear) * np.sqrt(k / (k - 1))

    df, unseen = min(k - 1, degrees), _UNSEEN * (whole.sum() / k) ** 2
    # By ratings alone, about one centre, so that nothing of the judge is in it.
    middle = (np.abs(w) * clear) @ np.nan_to_num(y) / whole.sum()
    z = np.where(clear, np.nan_to_num(y) - middle, 0)
    effects = moved(z)
    variance = max((effects**2).sum(), 0 if cluster is None else between(effects, alone=True))
    alone = base + c.sum() * (middle - 0.5) + (w * z).sum()
    by_ratings = _limits(alone, np.sqrt(variance + unseen / 2), int(clear.sum()), df, confidence)
    # By both, about each group's share as judged.
    z_y = np.where(clear, np.nan_to_num(y) - centre[group], 0)
    z_f = np.where(seen_too, np.nan_to_num(f) - centre[group], 0)
    # Rated people are among those judged, so that no more is to be weighed than how both answers go together.
    known = w**2 @ ((centre * (1 - centre))[group] * seen_too)
    tuning = float(np.clip(w**2 @ (z_y * z_f) / known, 0, 1)) if known > 0 else 0.0
    reached = np.bincount(group, w * seen_too, minlength=n.size)
    kept = 1 - (1 - tuning) * np.divide(reached, c, out=np.zeros(n.size), where=c != 0)
    residual = z_y - tuning * z_f
    effects = moved(residual)
    shared = 2 * (each * np.sign(c[group]) * z_f * kept[group]) @ effects
    variance = max((kept**2 * noise).sum() + shared, 0) + (effects**2).sum()
    if cluster is not None:
        variance = np.fmax(variance, between(effects))
    error = np.sqrt(variance + unseen)
    by_both = _limits(seen + (w * residual).sum(), error, k, df, confidence)
    narrower = (by_ratings.ci_high - by_ratings.ci_low) / (by_both.ci_high - by_both.ci_low)
    return Powered(by_judge, by_ratings, by_both, tuning, float(k * narrower**2))


def _between(cluster: np.ndarray, stratum: np.ndarray, parts: np.ndarray, group: np.ndarray) -> Callable[..., float]:
    """Return what gives the variance of a sum over clusters from what rated people add to it; of None their strata."""
    size = cluster.max(initial=-1) + 1
    # Clusters of which all groups are of one stratum differ within it; others are alike.
    ends = [np.full(size, start) for start in (stratum.max(initial=0) + 1, -1)]
    np.minimum.at(ends[0], cluster, stratum)
    np.maximum.at(ends[1], cluster, stratum)
    alike = np.unique(np.where(ends[0] == ends[1], ends[0], -1), return_inverse=True)[1]
    n = np.bincount(alike)

    def variance(effects: np.ndarray | None, *, alone: bool = False) -> float:
        if effects is None:
            return n.size
        added = np.bincount(cluster[group], effects, minlength=size)
        if not alone:
            judged = np.bincount(cluster, parts, minlength=size)
            added = added + judged - (np.bincount(alike, judged) / n)[alike]
        if (n < 2).any():
            return np.nan
        return float((np.bincount(alike, added**2) * n / (n - 1)).sum())

    return variance


def _limits(value: float, error: float, n: int, degrees: float, confidence: float) -> Estimate:
    half = student.ppf((1 + confidence) / 2, degrees) * error if degrees > 0 else np.nan
    return Estimate(float(value), float(value - half), float(value + half), n)
