"""Confidence intervals for shares, means, correlations, clustered and crossed samples, and other statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from biaslab.errors import InputError
from biaslab.stats import checks


class Interval(NamedTuple):
    """Lower and upper limit: floats, or arrays of one shape."""

    low: float | np.ndarray
    high: float | np.ndarray


class Estimate(NamedTuple):
    """An estimate with its confidence interval and number of observations."""

    value: float
    ci_low: float
    ci_high: float
    n: int


class Correlation(NamedTuple):
    """Pearson's r with its confidence interval, two-sided p-value and number of pairs."""

    r: float
    ci_low: float
    ci_high: float
    p: float
    n: int


def significance(confidence: float) -> float:
    """Return the level (0–1) of tests that agree with intervals at this ``confidence`` (0–1): 0.05 for 0.95."""
    # Rounded because the last digits of the binary difference would put 0.05 below the level of 0.95.
    return round(1 - confidence, 10)


@checks.keep_labels
def correction_dominates(uncorrected: ArrayLike, corrected: ArrayLike) -> np.ndarray | np.bool_:
    """Return whether the correction is larger than the corrected estimate, elementwise.

    If it is, the estimate is inconclusive. The arguments have the same unit and are broadcast; the result is False if
    either is NaN. Raises InputError: Values are not numbers, or the shapes do not broadcast.
    """
    uncorrected, corrected = checks.broadcast(uncorrected=uncorrected, corrected=corrected)
    return (np.abs(uncorrected - corrected) > np.abs(corrected))[()]


@checks.keep_labels
def wilson_interval(count: ArrayLike, n: ArrayLike, confidence: float = 0.95) -> Interval:
    """Return the Wilson score interval (1927, JASA 22, 209–212) of each share ``count / n``.

    ``count`` and ``n`` are whole numbers with 0 <= count <= n and are broadcast. The limits are shares (0–1), and NaN
    if n is 0 or NaN. The coverage of a nominal 95% interval, averaged over all true shares, is 95.0–95.6%. For single
    true shares from 0.05 to 0.95, it is at least 91.6%. Raises InputError: A count is above n or a fraction.
    """
    count, n = checks.check_counts(count, n)
    z = stats.norm.ppf((1 + checks.confidence_level(confidence)) / 2)
    size = np.where(n > 0, n, np.nan)
    share = count / size
    centre = (share + z**2 / (2 * size)) / (1 + z**2 / size)
    half = z * np.sqrt(share * (1 - share) / size + z**2 / (4 * size**2)) / (1 + z**2 / size)
    # At 0 or n the limit is exactly 0 or 1; rounding could move it slightly outside.
    return Interval(
        np.where(count == 0, 0 * size, centre - half)[()], np.where(count == n, 0 * size + 1, centre + half)[()]
    )


@checks.keep_labels
def percent(count: ArrayLike, n: ArrayLike, confidence: float = 0.95) -> tuple:
    """Return each share ``count / n`` and the limits of :func:`wilson_interval`, all in percent; NaN if n is 0.

    Raises InputError: As :func:`wilson_interval`.
    """
    count, n = checks.align(count=count, n=n)
    low, high = wilson_interval(count, n, confidence)
    size = np.where(np.asarray(n) > 0, n, np.nan)
    return (100 * np.asarray(count, float) / size)[()], 100 * low, 100 * high


def percent_columns(
    count: ArrayLike,
    n: ArrayLike,
    confidence: float = 0.95,
    names: tuple[str, str, str] = ("percent", "ci_low", "ci_high"),
) -> dict[str, np.ndarray]:
    """Return the result of :func:`percent` as a dict from column name to values."""
    return dict(zip(names, percent(count, n, confidence), strict=True))


@checks.keep_labels
def exact_interval(count: ArrayLike, n: ArrayLike, confidence: float = 0.95) -> Interval:
    """Return the exact interval of each share ``count / n`` (Clopper & Pearson 1934, Biometrika 26, 404–413).

    It contains the shares that an exact binomial test does not reject, where p is twice the smaller tail probability.
    Arguments and results are as in :func:`wilson_interval`. Raises InputError: As :func:`wilson_interval`.
    """
    count, n = checks.check_counts(count, n)
    tail = (1 - checks.confidence_level(confidence)) / 2
    size = np.where(n > 0, n, np.nan)
    low = stats.beta.ppf(tail, np.maximum(count, 1), size - count + 1)
    high = stats.beta.ppf(1 - tail, count + 1, np.maximum(size - count, 1))
    return Interval(np.where(count == 0, 0 * size, low)[()], np.where(count == n, 0 * size + 1, high)[()])


@checks.keep_labels
def difference_interval(
    first: ArrayLike,
    first_low: ArrayLike,
    first_high: ArrayLike,
    second: ArrayLike,
    second_low: ArrayLike,
    second_high: ArrayLike,
    correlation: ArrayLike = 0.0,
) -> Interval:
    """Return the confidence limits of ``second - first`` from the estimates and limits of both, elementwise.

    Both estimates have the same unit. ``correlation`` (-1 to 1) is the correlation of the two estimates; for two means
    over the same units, it equals the correlation of the units' values. NaN stays NaN.

    Sources: Newcombe (1998), Statistics in Medicine 17, 873–890, method 10; Zou & Donner (2008), ibid. 27, 1693;
    correlated estimates: Zou (2007), Psychological Methods 12, 399–413. Raises InputError: A value is not a number, or
    the correlation is outside -1 to 1.
    """
    first, first_low, first_high, second, second_low, second_high, correlation = checks.align(
        first=first,
        first_low=first_low,
        first_high=first_high,
        second=second,
        second_low=second_low,
        second_high=second_high,
        correlation=correlation,
    )
    first, first_low, first_high = (checks.check_numbers(a, "first") for a in (first, first_low, first_high))
    second, second_low, second_high = (checks.check_numbers(a, "second") for a in (second, second_low, second_high))
    correlation = checks.check_numbers(correlation, "correlation", -1, 1)
    change = second - first

    def arm(second_width: np.ndarray, first_width: np.ndarray) -> np.ndarray:
        # Rounding can make the square negative where two equal widths cancel.
        return np.sqrt(np.maximum(second_width**2 + first_width**2 - 2 * correlation * second_width * first_width, 0))

    return Interval(
        change - arm(second - second_low, first_high - first), change + arm(second_high - second, first - first_low)
    )


def mean_interval(
    values: ArrayLike, confidence: float = 0.95, *, skip_nan: bool = False, clusters: ArrayLike | None = None
) -> Estimate:
    """Return the mean of ``values`` (one-dimensional, any unit) with its Student's t interval.

    With one value, the limits are NaN; without values, the mean is also NaN. ``skip_nan`` excludes NaN. ``clusters`` is
    the image of each value, if several values come from one image. The standard error is then that of
    :func:`clustered_error`, with degrees of freedom one less than the number of images, and the limits are NaN for a
    single image. The coverage of a nominal 95% interval is 93.3–95.1% with 5 to 62 values, but only 88.4–93.2% if these
    are exponential. Raises InputError: There are NaN without ``skip_nan``, or ``values`` is not one-dimensional.
    """
    values, clusters = checks.align((0,), values=values, clusters=clusters)
    all_values = checks.check_numbers(values, "values")
    values = checks.check_sample(all_values, "values", skip_nan)
    confidence = checks.confidence_level(confidence)
    n = values.size
    mean = float(values.mean()) if n else np.nan
    if clusters is not None and n:
        clusters = np.asarray(clusters)
        if clusters.shape != all_values.shape:
            raise InputError(
                f"There are {all_values.size} values, but clusters have the shape {clusters.shape}; pass one cluster "
                "per value."
            )
        codes = np.unique(clusters[~np.isnan(all_values)], return_inverse=True)[1]
        error = clustered_error(np.bincount(codes, values - mean) / n)
        half = stats.t.ppf((1 + confidence) / 2, error.df) * error.se
        return Estimate(mean, float(mean - half), float(mean + half), n)
    if n < 2:
        return Estimate(mean, np.nan, np.nan, n)
    half = stats.t.ppf((1 + confidence) / 2, n - 1) * values.std(ddof=1) / np.sqrt(n)
    return Estimate(mean, float(mean - half), float(mean + half), n)


def pearson_r(x: ArrayLike, y: ArrayLike, confidence: float = 0.95, *, skip_nan: bool = False) -> Correlation:
    """Return Pearson's correlation of ``x`` and ``y`` (one-dimensional, same length) with Fisher's z interval and test.

    p is consistent with the interval. ``skip_nan`` excludes pairs with a NaN. All values are NaN if a variable is
    constant or there are fewer than 3 pairs; with exactly 3 pairs, limits and p are NaN. Raises InputError: The shapes
    differ, an array is not one-dimensional, or there are NaN without ``skip_nan``.
    """
    x, y = checks.align(x=x, y=y)
    x, y = checks.check_numbers(x, "x"), checks.check_numbers(y, "y")
    confidence = checks.confidence_level(confidence)
    if x.shape != y.shape or x.ndim != 1:
        raise InputError(f"x and y must be one-dimensional and of equal length, got shapes {x.shape} and {y.shape}.")
    # A pair is missing where either is.
    x, y = (checks.check_sample(side + 0 * other, "x or y", skip_nan) for side, other in ((x, y), (y, x)))
    n = x.size
    if n < 3 or checks.constant(x) or checks.constant(y):
        return Correlation(np.nan, np.nan, np.nan, np.nan, n)
    result = stats.pearsonr(x, y)
    r = float(result.statistic)
    if n == 3:
        return Correlation(r, np.nan, np.nan, np.nan, n)
    low, high = result.confidence_interval(confidence)
    with np.errstate(divide="ignore"):
        p = 2 * stats.norm.sf(abs(np.arctanh(r)) * np.sqrt(n - 3))
    return Correlation(r, float(low), float(high), float(p), n)


# -- clustered and crossed samples --------------------------------------------------------------------------------


class StandardError(NamedTuple):
    """Standard error of a mean, in the unit of the mean, with its degrees of freedom for Student's t."""

    se: float
    df: float


def clustered_error(effects: ArrayLike) -> StandardError:
    """Return the standard error of a mean from the contributions of n independent clusters, with n - 1 df.

    ``effects`` (one-dimensional) are the sums of each cluster's deviations from the mean, divided by the number of all
    observations. The error is NaN with fewer than two clusters. Raises InputError: There are NaN, or the shape is
    wrong.
    """
    effects = checks.check_sample(effects, "effects")
    n = effects.size
    if n < 2:
        return StandardError(np.nan, np.nan)
    return StandardError(float(np.sqrt(n / (n - 1) * (effects**2).sum())), n - 1)


def clustered_mean(values: ArrayLike, groups: ArrayLike, confidence: float = 0.95) -> Estimate:
    """Return the mean of ``values`` (0–1, one-dimensional) that are clustered in ``groups``, with one label per value.

    The limits are those of :func:`clustered_share_interval`; ``n`` is the number of values. Raises InputError: Values
    are outside 0–1 or NaN, or the number of labels differs.
    """
    values, groups = checks.align(values=values, groups=groups)
    values = checks.check_sample(checks.check_shares(values, "values"), "values")
    groups = np.asarray(groups)
    if groups.shape != values.shape:
        raise InputError(
            f"There are {values.size} values, but groups have the shape {groups.shape}; pass one group per value."
        )
    if not values.size:
        return Estimate(np.nan, np.nan, np.nan, 0)
    value = values.mean()
    _, codes = np.unique(groups, return_inverse=True)
    effects = np.bincount(codes, values - value) / values.size
    low, high = clustered_share_interval(value, clustered_error(effects), effects.size, confidence)
    return Estimate(float(value), float(low), float(high), values.size)


def crossed_error(rows: ArrayLike, columns: ArrayLike, cells: ArrayLike) -> StandardError:
    """Return the standard error of a mean over two crossed samples, such as two lists of identities in the same images.

    ``rows`` and ``columns`` are the contributions of rows and columns to the mean, ``(rows,)`` and ``(columns,)``, with
    sum 0. ``cells`` are the contributions of pairs, ``(rows, columns)``, and NaN for pairs without observations. The
    result contains the standard error and Satterthwaite's degrees of freedom, which are NaN with fewer than two rows or
    columns. Let A, B and E be the mean squares of rows, columns and residuals, as components of the mean's variance.
    The variance is E + max(A - E, 0) + max(B - E, 0) (Searle, Casella and McCulloch 1992, chapter 4). If there are too
    few pairs to estimate E, E is 0, and the result is an upper bound of the standard error.

    The coverage of a nominal 95% interval is 94.6–98.2% for means over 10 or 20 identities per list
    (``benchmarks/coverage_paired.py``). Raises InputError: The shapes do not fit, or a row or column is NaN.
    """
    rows, cells = checks.align((0,), rows=rows, cells=cells)
    columns, transposed = checks.align((0,), columns=columns, cells=np.transpose(cells))
    cells = np.transpose(transposed)
    rows, columns = checks.check_sample(rows, "rows"), checks.check_sample(columns, "columns")
    cells = checks.check_numbers(cells, "cells")
    if cells.shape != (rows.size, columns.size):
        raise InputError(f"cells must be (rows, columns) {(rows.size, columns.size)}, got {cells.shape}.")
    if min(cells.shape) < 2:
        return StandardError(np.nan, np.nan)
    parts, n_known = [clustered_error(part) for part in (rows, columns)], np.isfinite(cells).sum()
    df_residual = n_known - sum(cells.shape) + 1
    residual_variance = float(np.nansum(_residual(cells) ** 2)) * n_known / df_residual if df_residual > 0 else 0.0
    variance = residual_variance + sum(max(part.se**2 - residual_variance, 0) for part in parts)
    if variance <= 1e-24:
        return StandardError(0.0, float(min(part.df for part in parts)))
    squares = sum(part.se**4 / part.df for part in parts if part.se**2 > residual_variance)
    squares += residual_variance**2 / df_residual if df_residual > 0 else 0
    return StandardError(float(np.sqrt(variance)), float(variance**2 / squares))


def _residual(cells: np.ndarray) -> np.ndarray:
    """Return ``cells`` minus the effects of rows and columns, which are fitted alternately if some cells are NaN."""
    for _ in range(1 if np.isfinite(cells).all() else 50):
        for axis in (0, 1):
            n_known = np.isfinite(cells).sum(axis=axis, keepdims=True)
            cells = cells - np.nansum(cells, axis=axis, keepdims=True) / np.maximum(n_known, 1)
    return cells


def clustered_share_interval(share: float, error: StandardError, clusters: float, confidence: float = 0.95) -> Interval:
    """Return Wilson's limits of a share of clustered observations, at the effective sample size implied by its error.

    ``share`` and the limits are 0–1. ``error`` comes from :func:`clustered_error` or :func:`crossed_error`; if it is
    NaN, the limits are NaN. If all observations are equal, the sample size is the number of ``clusters`` (for crossed
    samples, the smaller number). Source: Korn and Graubard 1998, Survey Methodology 24, 193–201, with Wilson's instead
    of Clopper and Pearson's interval. Raises InputError: The share is outside 0–1, or the confidence is not between 0
    and 1.
    """
    share = float(checks.check_shares(share, "share", allow_nan=True))
    confidence = checks.confidence_level(confidence)
    if not (np.isfinite(share) and np.isfinite(error.se)):
        return Interval(np.nan, np.nan)
    binomial_variance = share * (1 - share)
    size = binomial_variance / error.se**2 if error.se > 1e-12 and binomial_variance > 0 else clusters
    q = float(stats.t.ppf((1 + confidence) / 2, error.df)) ** 2 / size
    centre = (share + q / 2) / (1 + q)
    half = float(np.sqrt(q * binomial_variance + q**2 / 4)) / (1 + q)
    return Interval(max(0.0, centre - half), min(1.0, centre + half))


def strata_mean(count: ArrayLike, n: ArrayLike, confidence: float = 0.95, *, effect: float = 1.0) -> Estimate:
    """Return the mean over strata of the shares ``count / n`` (whole numbers) with its confidence limits, all 0–1.

    Strata without images are excluded. The limits are Wilson's at the effective sample size implied by the variance.
    The variance of a stratum is evaluated at ``(count + 1) / (n + 2)``, so it is positive even for one image. ``n`` of
    the result is the number of images. If ``n`` counts people who appear in the same images, ``effect`` is their
    :func:`biaslab.stats.design_effect`, by which counts and n are divided. The coverage of a nominal 95% interval is
    94.6–99.8% for means over 3 to 20 strata of 1 to 40 images (``benchmarks/coverage_custom.py``). Raises InputError: A
    count is above n or a fraction, or the shapes do not broadcast.
    """
    count, n = checks.check_counts(count, n)
    count, n = count[n > 0], n[n > 0]
    if not n.size:
        return Estimate(np.nan, np.nan, np.nan, 0)
    hits, size = count / effect, n / effect
    smoothed_share = (hits + 1) / (size + 2)
    # Unbiased for a stratum whose true share is one half.
    variance = smoothed_share * (1 - smoothed_share) / (1 - size / (size + 2) ** 2)
    error = float(np.sqrt((variance / size).sum())) / n.size
    share = float(np.mean(count / n))
    low, high = clustered_share_interval(share, StandardError(error, np.inf), int(n.sum()), confidence)
    return Estimate(share, float(low), float(high), int(n.sum()))


# -- statistics of whole samples --------------------------------------------------------------------------------


def halves_interval(
    samples: Sequence[np.ndarray],
    groups: Sequence[np.ndarray],
    statistic: Callable[..., float],
    *,
    splits: int = 20,
    squared: bool = False,
    seed: int | np.random.Generator,
    confidence: float = 0.95,
) -> Estimate:
    """Return ``statistic(*samples)``, such as a distance of two sets of images, with an interval from halves of groups.

    The variance of a half, sampled without replacement, around the whole equals that of the whole around the
    population. Resamples with replacement would contain copies, which change covariances. The interval (Student's t) is
    for the expected value with the same number of groups (McCarthy 1969, Review of the International Statistical
    Institute 37, 239–264). Its degrees of freedom combine those of halves and groups (Satterthwaite 1946, Biometrics
    Bulletin 2, 110–114).

    Args:
        samples: Arrays with one observation per row.
        groups: For each sample, the group of each row. Groups may occur in several samples and are not split.
        statistic: Function of as many arrays as ``samples``, each with a subset of at least two rows.
        splits: Number of random halves.
        squared: Whether the statistic estimates a squared distance, whose error increases with the distance. If the
            lower limit is above 0, the upper limit is then the square of the distance's upper limit.
        seed: An explicit seed.
        confidence: Level of the interval, 0–1.

    ``n`` is the number of groups. Limits are NaN with fewer than two halves that have two rows of each sample. Raises
    InputError: The numbers of group labels and rows differ.
    """
    n_rows, n_labels = ([len(array) for array in side] for side in (samples, groups))
    if n_rows != n_labels:
        raise InputError(f"The samples have {n_rows} rows, but there are {n_labels} groups; pass one group per row.")
    pairs = [checks.align((0,), samples=array, groups=labels) for array, labels in zip(samples, groups, strict=True)]
    samples, groups = [np.asarray(array) for array, _ in pairs], [np.asarray(labels) for _, labels in pairs]
    rng, confidence = checks.generator(seed), checks.confidence_level(confidence)
    names, codes = np.unique(np.concatenate(groups), return_inverse=True)
    codes = np.split(codes, np.cumsum(n_rows)[:-1])
    values = []
    for _ in range(splits):
        half = rng.permutation(names.size) < names.size // 2
        parts = [sample[half[code]] for sample, code in zip(samples, codes, strict=True)]
        if min(map(len, parts)) > 1:
            values.append(statistic(*parts))
    value = statistic(*samples)
    if len(values) < 2 or names.size < 2:
        return Estimate(value, np.nan, np.nan, names.size)
    # The spread has errors from the choice of halves and from that of groups, whose relative variances 2 / df add up.
    df = 1 / (1 / (len(values) - 1) + 1 / (names.size - 1))
    spread = stats.t.ppf((1 + confidence) / 2, df) * np.std(values, ddof=1)
    high = value + spread
    if squared and value > spread:
        # The half-width of the root is spread / (2 root), by the delta method.
        high += spread**2 / (4 * value)
    return Estimate(value, float(value - spread), float(high), names.size)
