"""The null expectation of |share - centre|, due to sampling noise alone, and estimates corrected for it.

Even for a perfectly balanced model, the expected value of |p̂ - 0.5| is 0.25 with 3 images per prompt, 0.137 with 8 or
9, 0.040 with 100 and 0.018 with 500. All values are shares (0–1), and ``n`` can differ between elements.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.optimize import linprog

from biaslab.errors import InputError
from biaslab.stats import checks

# Each image further from the centre raises the corrected estimate by MIN_RISE to MAX_RISE images' worth. A larger
# MAX_RISE reduces the bias, soon by little, and increases the variance.
MIN_RISE, MAX_RISE = 0.5, 3.0
SOLVED_UP_TO = 200  # images; for more images the table is scaled from this one
REACH = 6  # standard errors around the centre beyond which the bias of the plain deviation is negligible


@checks.keep_labels
def expected_absolute_deviation(share: ArrayLike, n: ArrayLike, center: float = 0.5) -> NDArray[np.float64]:
    """Return the exact E|p̂ - center| for ``n`` images if the true share is ``share``, elementwise.

    ``share`` is 0–1 or NaN, and ``n`` a whole number; both are broadcast. The result is NaN if n is 0 or an argument is
    missing. Raises InputError: A value is out of range, or the shapes do not broadcast.
    """
    share, n = checks.align(share=share, n=n)
    share, center = checks.check_shares(share, "share", allow_nan=True), _center(center)
    share, n = np.broadcast_arrays(share, checks.check_counts(0, n)[1])
    size = np.where(n > 0, n, np.nan)
    # E|X - a| = E(X - a) + 2 E(a - X)+, where the sum of x·P(X = x) up to m is n·share times a cdf of n - 1.
    m = np.floor(size * center)
    center_term = center * stats.binom.cdf(m, size, share)
    reduced_cdf = np.where(size > 1, stats.binom.cdf(m - 1, np.maximum(size - 1, 1), share), m >= 1)
    return (share - center + 2 * (center_term - share * reduced_cdf))[()]


@checks.keep_labels
def absolute_deviation_null_mean(n: ArrayLike, center: float = 0.5) -> NDArray[np.float64]:
    """Return E|p̂ - center| for ``n`` images (whole numbers, any shape) if the true share is ``center``.

    It is NaN if n is 0 or NaN. Raises InputError: ``n`` is negative or a fraction, or the centre is outside 0–1.
    """
    return expected_absolute_deviation(_center(center), n, center)


@checks.keep_labels
def corrected_absolute_deviation(
    count: ArrayLike, n: ArrayLike, center: float = 0.5, subset_size: ArrayLike | None = None
) -> NDArray[np.float64]:
    """Estimate |p - center| from ``count`` of ``n``, corrected for the bias of |count / n - center|, elementwise.

    ``count`` and ``n`` are whole numbers with 0 <= count <= n and are broadcast; the result is NaN if n is 0 or NaN.
    The estimate is a share g(count). For each n and centre, a linear program finds the values g(0), …, g(n). With each
    image farther from the centre, g increases by 0.5 / n to 3 / n. Of all such functions, g has the smallest worst-case
    bias over all p, where a bias at z standard errors from the centre has the weight 1 + (z / 3)**4.

    Near the centre, the estimate is **negative**, down to -0.10 with n = 100; otherwise, it could not be nearly
    unbiased for a deviation of 0. Average it over occupations and interpret the mean; clipping single values restores
    the bias.

    ``subset_size`` (whole numbers, at most n) reduces the number of images: the estimate is the mean over all subsets
    of that size. The remaining bias depends on the number of images, so compare two shares with the same
    ``subset_size``.

    For a centre of 0.5, the largest bias over all p is 6.4, 2.9, 0.8 and 0.4 percentage points with 3, 9, 100 and 500
    images (uncorrected: 25.0, 13.7, 4.0 and 1.8). No estimator is much better (Cai & Low 2011, Ann. Statist. 39,
    1012–1041).

    Raises InputError: A count is above n or a fraction, the shapes do not broadcast, or the centre is outside 0–1.
    """
    count, n, subset_size = checks.align(count=count, n=n, subset_size=subset_size)
    count, n = checks.check_counts(count, n)
    center = _center(center)
    if subset_size is not None:
        return _average_subsets(count, n, checks.check_counts(subset_size, n)[0], center)
    out = np.full(count.shape, np.nan)
    for size in np.unique(n[n > 0]):
        has_size = n == size
        out[has_size] = _table(int(size), center)[count[has_size]]
    return out[()]


def _average_subsets(count: np.ndarray, n: np.ndarray, subset_size: np.ndarray, center: float) -> NDArray[np.float64]:
    """Return the mean corrected deviation over all subsets of ``subset_size`` of the ``n`` images."""
    cells = np.stack(np.broadcast_arrays(count, n, subset_size), axis=-1)
    unique_cells, place = np.unique(cells.reshape(-1, 3), axis=0, return_inverse=True)
    means = [
        stats.hypergeom.pmf(np.arange(k + 1), size, hits, k) @ _table(int(k), center) if k > 0 else np.nan
        for hits, size, k in unique_cells
    ]
    return np.array(means, dtype=float)[place].reshape(cells.shape[:-1])[()]


def mad_null_mean(n: int, bins: int) -> float:
    """Return the exact expected mean absolute deviation from uniform of ``n`` images in equally likely ``bins``.

    With 10 bins, it is 0.086 for 8 images and 0.078 for 9. It is NaN if n is 0. Raises InputError: A value is a
    fraction, ``n`` is below 0, or ``bins`` is below 2.
    """
    return float(absolute_deviation_null_mean(n, 1 / int(checks.check_whole(bins, "bins", minimum=2))))


@checks.keep_labels
def corrected_mad(counts: ArrayLike, subset_size: ArrayLike | None = None) -> NDArray[np.float64]:
    """Estimate the bias-corrected mean absolute deviation from uniform (0–1) for each row of ``counts``.

    ``counts`` are images per bin along the last axis, with at least 2 bins. The estimate is the mean of
    :func:`corrected_absolute_deviation` over the bins. It may be negative, so interpret the mean over rows. It is NaN
    for a row without images. ``subset_size`` is as in that function. Raises InputError: Counts are negative, fractions
    or NaN, or there are fewer than 2 bins.
    """
    counts, subset_size = checks.align((0,), counts=counts, subset_size=subset_size)
    counts = np.atleast_1d(checks.check_whole(counts, "counts"))
    bins = counts.shape[-1]
    if bins < 2:
        raise InputError(f"counts must have at least 2 bins along the last axis, got {bins}.")
    n = counts.sum(axis=-1, keepdims=True)
    subset_size = None if subset_size is None else np.expand_dims(subset_size, -1)
    return np.asarray(corrected_absolute_deviation(counts, n, 1 / bins, subset_size)).mean(axis=-1)[()]


def _center(center: float) -> float:
    if np.ndim(center) or not 0 <= center <= 1:
        raise InputError(f"center must be a share between 0 and 1, got {center!r}.")
    return float(center)


@lru_cache(maxsize=1024)
def _table(n: int, center: float) -> NDArray[np.float64]:
    """Return the estimates g(0), …, g(n)."""
    deviations = np.abs(np.arange(n + 1) / n - center)
    error = np.sqrt(center * (1 - center) / n)
    if error == 0:
        return deviations  # at 0 or 1 the plain deviation has no kink between 0 and 1, and no bias
    if n > SOLVED_UP_TO:
        # In units of the standard error the correction hardly changes: the worst bias stays within 7% of the best.
        offsets = np.arange(SOLVED_UP_TO + 1) / SOLVED_UP_TO - center
        unit = np.sqrt(center * (1 - center) / SOLVED_UP_TO)
        correction = (_table(SOLVED_UP_TO, center) - np.abs(offsets)) / unit
        return deviations + error * np.interp((np.arange(n + 1) / n - center) / error, offsets / unit, correction)
    # Only counts within REACH standard errors of the centre are changed.
    low, high = max(0, int(n * (center - REACH * error))), min(n, int(n * (center + REACH * error)) + 1)
    k = np.arange(low, high + 1)

    p = np.unique(np.clip(center + error * np.r_[-REACH - 3 : REACH + 3 : 181j, 0], 0, 1))
    weights = stats.binom.pmf(k, n, p[:, None])
    fixed_mean = expected_absolute_deviation(p, n, center) - weights @ deviations[k]
    target = np.abs(p - center) - fixed_mean
    bias_weights = 1 / (1 + ((p - center) / error / 3) ** 4)

    # Unknowns: g(low), …, g(high) and the worst bias t. |E g - target| <= t·allowed, and limits of the rise.
    bias = np.block([[weights, -bias_weights[:, None]], [-weights, -bias_weights[:, None]]])
    rise = np.diff(np.eye(len(k) + 1)[:-1], axis=0)
    side = np.sign(k[1:] + k[:-1] - 2 * n * center)
    steepest = np.where(side >= 0, MAX_RISE, -MIN_RISE) / n, np.where(side <= 0, MAX_RISE, -MIN_RISE) / n
    bounds = [(None, None)] * len(k) + [(0, None)]
    bounds[0] = (deviations[low],) * 2 if low > 0 else bounds[0]
    bounds[-2] = (deviations[high],) * 2 if high < n else bounds[-2]
    solution = linprog(
        np.r_[np.zeros(len(k)), 1],
        A_ub=np.vstack([bias, rise, -rise]),
        b_ub=np.concatenate([target, -target, *steepest]),
        bounds=bounds,
        method="highs",
    )
    assert solution.x is not None
    table = deviations.copy()
    table[k] = solution.x[:-1]
    # With centre one half the mirror image is as good, and so is their mean.
    return (table + table[::-1]) / 2 if center == 0.5 else table
