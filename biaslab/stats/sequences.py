"""Confidence sequences: intervals of a mean that hold their level whenever one stops, as when they are narrow."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from biaslab.ground.errors import InputError
from biaslab.stats import checks
from biaslab.stats.intervals import Interval

# Candidates for the mean; limits are the outer of the two between which they lie.
_CANDIDATES = np.linspace(0, 1, 1001)
# The part of the capital that a bet may lose at most, so that none is lost for good.
_MOST = 0.75


def confidence_sequence(values: ArrayLike, half_width: float, confidence: float = 0.95) -> Interval:
    """Return limits of the mean after each of some observations, which hold together with this confidence.

    Whoever looks after each of them and stops at will errs no more often. Against each candidate for the mean two
    gamblers bet, that it is higher and that it is lower, with half of the capital each; a candidate is excluded for
    good once one of them has multiplied the whole by 1 / (1 - confidence). Bets are predictable plug-in ones for a
    fixed number of observations, sqrt(2 log(2 / (1 - confidence)) / (variance n)), with the n at which limits are as
    narrow as is aimed at: ``half_width`` (above 0 and below 0.5) over the variance so far. Those for no number take
    more than twice as many observations of a share of 50 % (``benchmarks/coverage_until.py``).

    ``values`` are observations in order along the last axis, 0 to 1, independent of those before in their mean; NaN is
    none. Returns limits of the shape of ``values``, 0 to 1 in steps of 0.001, which never widen from one to the next; 0
    and 1 before there is an observation. Where they contradict one another, which is as rare as an error, they are one.

    Source: Waudby-Smith & Ramdas (2024), J. R. Statist. Soc. B 86, 1–27, Theorem 3 (hedged capital; theta = 1/2, c =
    3/4) and their predictable plug-in bets. Raises InputError: A value, ``half_width`` or ``confidence`` is out of its
    range.
    """
    x = checks.numbers(values, "values", 0, 1)
    if not 0 < half_width < 0.5:
        raise InputError(f"half_width must lie between 0 and 0.5, for example 0.05, got {half_width!r}.")
    limit = 2 / (1 - checks.confidence_level(confidence))
    known = ~np.isnan(x)
    x = np.where(known, x, 0)
    n = known.cumsum(-1)
    mean = (0.5 + x.cumsum(-1)) / (n + 1)
    variance = (0.25 + np.where(known, (x - mean) ** 2, 0).cumsum(-1)) / (n + 1)
    # On an observation is bet by those before it alone.
    before = np.concatenate([np.full_like(x[..., :1], 0.25), variance[..., :-1]], -1)
    bets = np.where(known, half_width / before, 0)
    low, high = (np.zeros(x.shape, int) for _ in "ab")
    up, down = (np.ones((*x.shape[:-1], len(_CANDIDATES))) for _ in "ab")
    with np.errstate(divide="ignore", over="ignore"):
        most_up, most_down = _MOST / _CANDIDATES, _MOST / (1 - _CANDIDATES)
        for t in range(x.shape[-1]):
            away, bet = x[..., t, None] - _CANDIDATES, bets[..., t, None]
            up *= 1 + np.minimum(bet, most_up) * away
            down *= 1 - np.minimum(bet, most_down) * away
            # The first candidates, and the last: the capital against them falls, and grows, with them.
            low[..., t], high[..., t] = np.count_nonzero(up >= limit, -1), np.count_nonzero(down >= limit, -1)
    low, high = (np.maximum.accumulate(np.maximum(n, 1), -1) for n in (low, high))
    low, high = _CANDIDATES[low - 1], _CANDIDATES[-high]
    return Interval(low, np.maximum(low, high))
