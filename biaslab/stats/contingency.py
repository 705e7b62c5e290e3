"""Tables of counts: rare rows pooled, and how far distributions differ."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.stats import ncx2

from biaslab.stats.intervals import Estimate


def pool_rare(counts: np.ndarray, least_expected: float = 5) -> tuple[np.ndarray, int]:
    """Pool rows too rare for :func:`biaslab.stats.chi_square` into one.

    Args:
        counts: Occurrences, shape (kinds, sets), whole numbers of 0 or more.
        least_expected: Smallest expected count that a kind needs in every set.

    Returns:
        The table with rare kinds in its last row (and the rarest common one, where they are still too few
        without it), and how many kinds that row holds (0: nothing was pooled). Kinds that never occur are left
        out.
    """
    counts = np.asarray(counts)
    counts = counts[counts.sum(axis=1) > 0]
    counts = counts[np.argsort(-counts.sum(axis=1), kind="stable")]
    sets = counts.sum(axis=0)
    if not counts.size or sets.min() == 0:
        return counts, 0
    expected = counts.sum(axis=1) * sets.min() / sets.sum()
    common = int((expected >= least_expected).sum())
    if common and 0 < expected[common:].sum() < least_expected:
        common -= 1
    pooled = len(counts) - common
    return (np.vstack([counts[:common], counts[common:].sum(axis=0)]) if pooled else counts), pooled


def cramers_v(statistic: float, dof: int, n: int, smaller_side: int, confidence: float = 0.95) -> Estimate:
    """Return Cramér's V (0–1) of a chi-square statistic, less what chance alone adds to it.

    V = sqrt(max(0, statistic - dof) / (n * (smaller_side - 1))): the statistic's expectation is dof plus the
    noncentrality, which is what V measures (Bergsma 2013). The limits are those of the noncentrality (Smithson
    2003). ``smaller_side`` is the smaller of the numbers of rows and columns. NaN where statistic is.
    """
    if np.isnan(statistic) or n == 0:
        return Estimate(np.nan, np.nan, np.nan, n)
    tail = (1 - confidence) / 2
    ends = (
        _noncentrality(statistic, dof, 1 - tail),
        max(0.0, statistic - dof),
        _noncentrality(statistic, dof, tail),
    )
    low, value, high = (min(1.0, float(np.sqrt(end / (n * (smaller_side - 1))))) for end in ends)
    return Estimate(value, low, high, n)


def _noncentrality(statistic: float, dof: int, probability: float) -> float:
    """Return the noncentrality at which a chi-square lies below ``statistic`` with ``probability``; at least 0."""

    def excess(noncentrality: float) -> float:
        return float(ncx2.cdf(statistic, dof, noncentrality)) - probability

    if excess(0.0) <= 0:
        return 0.0
    high = statistic + 1.0
    while excess(high) > 0:
        high *= 2
    return float(brentq(excess, 0.0, high, xtol=1e-9, rtol=1e-9))
