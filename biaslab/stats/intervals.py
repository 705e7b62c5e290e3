"""Confidence intervals for shares, means, correlations, clustered and crossed samples, and whole-sample statistics."""

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
    """An estimate, its interval and the number of observations it is based on."""

    value: float
    ci_low: float
    ci_high: float
    n: int


class Correlation(NamedTuple):
    """Pearson's r, its interval, the two-sided p-value and the number of pairs."""

    r: float
    ci_low: float
    ci_high: float
    p: float
    n: int


def significance(confidence: float) -> float:
    """Return the level (0–1) of tests that agree with intervals of this ``confidence`` (0–1): 0.05 of 0.95."""
    # Rounded because the last digits of the binary difference would put 0.05 below the level of 0.95.
    return round(1 - confidence, 10)


@checks.keep_labels
def correction_dominates(uncorrected: ArrayLike, corrected: ArrayLike) -> np.ndarray | np.bool_:
    """Return whether a correction is larger than the corrected estimate, elementwise, which makes it inconclusive.

    The arguments are estimates of one unit that broadcast; False where either is NaN. Raises InputError: Values that
    are not numbers, or shapes that do not broadcast.
    """
    uncorrected, corrected = checks.broadcast(uncorrected=uncorrected, corrected=corrected)
    return (np.abs(uncorrected - corrected) > np.abs(corrected))[()]


@checks.keep_labels
def wilson_interval(count: ArrayLike, n: ArrayLike, confidence: float = 0.95) -> Interval:
    """Return the Wilson (1927, JASA 22, 209–212) score interval of each share ``count / n``.

    ``count`` and ``n``: whole numbers, 0 <= count <= n, that broadcast. The limits are shares 0–1 of that shape; n = 0
    or NaN gives NaN. A nominal 95% interval covers 95.0–95.6% averaged over all true shares, and down to 91.6% at
    single ones from 0.05 to 0.95. Raises InputError: Counts above n or fractions.
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
    """Return each share ``count / n`` and the limits of :func:`wilson_interval`, all in percent; NaN where n is 0.

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

    It contains the shares that an exact binomial test, whose p is twice the nearer tail, does not reject. Arguments and
    results as in :func:`wilson_interval`. Raises InputError: As :func:`wilson_interval`.
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
    """Return the limits of ``second - first`` from the estimate and limits of each, elementwise.

    Both have the same unit. ``correlation`` (-1 to 1) is that of the two estimates; for two means over the same units,
    it is that of the units' values. NaN stays NaN.

    Source: Newcombe (1998), Statistics in Medicine 17, 873–890, method 10; Zou & Donner (2008), ibid. 27, 1693;
    correlated: Zou (2007), Psychological Methods 12, 399–413. Raises InputError: A value that is not a number, or a
    correlation outside -1 to 1.
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
    """Return the mean of ``values`` (one-dimensional, any unit) with its Student t interval.

    One value gives NaN limits, no values give NaN throughout. ``skip_nan`` leaves out NaN. ``clusters`` is the image of
    each value, if values share images. The error is then that of :func:`clustered_error`, with one degree of freedom
    fewer than images, and the limits are NaN for a single image. A nominal 95% interval of 5 to 62 values covers
    93.3–95.1%, and of exponential ones only 88.4–93.2%. Raises InputError: NaN without ``skip_nan``, or another
    number of axes.
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
    """Return Pearson's correlation of ``x`` and ``y`` (one-dimensional, equally long), Fisher's z interval and test.

    p is consistent with the interval. ``skip_nan`` leaves out a pair with a NaN. A constant variable or fewer than 3
    pairs gives NaN, exactly 3 pairs NaN limits and p. Raises InputError: Shapes differ, another number of axes, or NaN
    without ``skip_nan``.
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
    """Standard error of a mean, in its unit, and its degrees of freedom for Student's t."""

    se: float
    df: float


def clustered_error(effects: ArrayLike) -> StandardError:
    """Return the standard error of a mean from the contributions of its n independent clusters, with n - 1 df.

    ``effects`` (one-dimensional) are the sums of each cluster's deviations from the mean, over the number of all
    observations. NaN for fewer than two clusters. Raises InputError: NaN or another shape.
    """
    effects = checks.check_sample(effects, "effects")
    n = effects.size
    if n < 2:
        return StandardError(np.nan, np.nan)
    return StandardError(float(np.sqrt(n / (n - 1) * (effects**2).sum())), n - 1)


def clustered_mean(values: ArrayLike, groups: ArrayLike, confidence: float = 0.95) -> Estimate:
    """Return the mean of ``values`` (0–1, one-dimensional) that are clustered in ``groups``, one label per value.

    Limits are those of :func:`clustered_share_interval`; ``n`` counts values. Raises InputError: Values outside 0–1,
    NaN, or another number of groups.
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
    """Return the standard error of a mean over two crossed samples, such as lists of identities that share images.

    ``rows`` and ``columns`` are the contributions of rows and columns to the mean, ``(rows,)`` and ``(columns,)``, with
    sum 0. ``cells`` are the contributions of pairs, ``(rows, columns)``, NaN for pairs without observations. Returns
    the error and Satterthwaite's degrees of freedom; NaN for fewer than two rows or columns. With A, B and E the mean
    squares of rows, columns and residuals, as components of the mean's variance, the variance is E + max(A - E, 0) +
    max(B - E, 0) (Searle, Casella and McCulloch 1992, chapter 4). If too few pairs are sampled to estimate E, E is 0
    and the error is its upper bound.

    A nominal 95% interval covers 94.6–98.2% of means over 10 or 20 identities per list
    (``benchmarks/coverage_paired.py``). Raises InputError: Shapes do not fit, or a row or column is NaN.
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
    """Return ``cells`` minus the effects of rows and columns, which are fitted in turn if some cells are NaN."""
    for _ in range(1 if np.isfinite(cells).all() else 50):
        for axis in (0, 1):
            n_known = np.isfinite(cells).sum(axis=axis, keepdims=True)
            cells = cells - np.nansum(cells, axis=axis, keepdims=True) / np.maximum(n_known, 1)
    return cells


def clustered_share_interval(share: float, error: StandardError, clusters: float, confidence: float = 0.95) -> Interval:
    """Return Wilson's limits of a share of clustered observations, at the effective sample size given by its error.

    ``share`` and limits are 0–1, ``error`` is from :func:`clustered_error` or :func:`crossed_error`; without one the
    limits are NaN. Where no two observations differ, each of the ``clusters`` (of crossed samples the smaller number)
    counts as one. Source: Korn and Graubard 1998, Survey Methodology 24, 193–201, with Wilson for Clopper–Pearson.
    Raises InputError: A share outside 0–1, or a confidence that is not between 0 and 1.
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
    """Return the mean over strata of the shares ``count / n`` (whole numbers), with limits; shares 0–1.

    Strata without images are left out. Limits are Wilson's at the effective sample size given by the variance. The
    variance of a stratum is evaluated at ``(count + 1) / (n + 2)``, so it is positive for one image, too. ``n`` of the
    result counts images. Where ``n`` counts people who share images, ``effect`` is their
    :func:`biaslab.stats.design_effect`, by which counts and n are divided. A nominal 95% interval covers 94.6 to 99.8
    % of means over 3 to 20 strata of 1 to 40 images (``benchmarks/coverage_custom.py``). Raises InputError: Counts
    above n, fractions, or shapes that do not broadcast.
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
    """Return ``statistic(*samples)``, such as a distance of two sets of images, with its spread over halves of groups.

    The variance of a half sampled without replacement around the whole equals that of the whole around the population.
    Resamples with replacement would contain copies, which change a covariance. The interval (Student's t) is of the
    expected value for as many groups (McCarthy 1969, Review of the International Statistical Institute 37, 239–264).
    Its degrees of freedom combine those of halves and of groups (Satterthwaite 1946, Biometrics Bulletin 2, 110–114).

    Args:
        samples: Arrays with one observation per row.
        groups: For each sample, the group of each row; groups may occur in several samples and are not split.
        statistic: Takes as many arrays as ``samples``, each with a subset of at least two rows.
        splits: Number of random halves.
        squared: Whether it estimates a squared distance, whose error grows with the distance. Where the lower limit is
            above 0, the upper one is that of the distance, squared.
        seed: One explicit seed.
        confidence: Level of the interval, 0–1.

    ``n`` counts groups. Limits are NaN for fewer than two halves with two rows of each sample. Raises InputError: The
    number of group labels is not that of the rows.
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
