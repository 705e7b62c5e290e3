"""Means over strata that count alike, such as groups of prompts, of each of which there are a few images."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from biaslab.stats import checks
from biaslab.stats.deviation import UNTOLD, Deviation, bounded_mean, deviation_limits
from biaslab.stats.floors import corrected_absolute_deviation
from biaslab.stats.intervals import Error, Estimate, clustered_share_interval


def strata_mean(count: ArrayLike, n: ArrayLike, confidence: float = 0.95) -> Estimate:
    """Return the mean over strata of each one's share ``count / n`` (whole numbers), with limits; shares 0–1.

    Strata without images are left out. Limits are Wilson's at the size that the variance stands for, that of a stratum
    taken at ``(count + 1) / (n + 2)``, for which a stratum of one image has some, too. ``n`` of the result counts
    images. A nominal 95 % interval covers 94.6 to 99.8 % of means over 3 to 20 strata of 1 to 40 images
    (``benchmarks/coverage_custom.py``).

    Raises:
        InputError: Counts above n, fractions, or shapes that do not broadcast.
    """
    count, n = checks.counts(count, n)
    count, n = count[n > 0], n[n > 0]
    if not n.size:
        return Estimate(np.nan, np.nan, np.nan, 0)
    likely = (count + 1) / (n + 2)
    # Right on average where a stratum is even.
    variance = likely * (1 - likely) / (1 - n / (n + 2) ** 2)
    error = float(np.sqrt((variance / n).sum())) / n.size
    share = float(np.mean(count / n))
    low, high = clustered_share_interval(share, Error(error, np.inf), int(n.sum()), confidence)
    return Estimate(share, float(low), float(high), int(n.sum()))


def mean_deviation(
    count: ArrayLike, n: ArrayLike, center: ArrayLike, confidence: float = 0.95, error: float = 0.0
) -> Deviation:
    """Return the mean over strata of ``|share - center|``, chance taken off; each has a ``center`` of its own (0–1).

    ``error`` is a standard error that the centres bring to the mean. NaN where images are so few that the bias exceeds
    :data:`biaslab.stats.deviation.UNTOLD` of one half. Arguments else as :func:`corrected_absolute_deviation`, result
    as :func:`bounded_mean`.

    Raises:
        InputError: Counts above n, fractions, or a centre outside 0–1.
    """
    count, n = checks.counts(count, n)
    center = checks.shares(np.broadcast_to(center, n.shape), "center")
    count, center, n = count[n > 0], center[n > 0], n[n > 0]
    limits = np.array([deviation_limits(int(k), 2, float(c)) for k, c in zip(n, center, strict=True)]).reshape(-1, 3)
    bias, *ends = limits.mean(axis=0) if n.size else (np.nan,) * 3
    if not n.size or bias > UNTOLD / 2:
        return Deviation(np.nan, np.nan, np.nan, np.nan, n.size, float(bias))
    values = [corrected_absolute_deviation(*cell) for cell in zip(count, n, center, strict=True)]
    largest = float(np.maximum(center, 1 - center).mean())
    return bounded_mean(values, tuple(ends), largest, confidence, float(bias), error)
