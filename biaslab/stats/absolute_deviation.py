"""Shares and mean deviations corrected for the judge's errors and for sampling noise, with intervals and tests.

No estimator of ``|x|`` is unbiased for every ``x``, but its bias can be bounded. Intervals are therefore wider than
Student's t, to account for the largest possible bias (Armstrong & Kolesár 2018, Econometrica 86, 655–683). Sensitivity
is the share of images labelled female by the judge, among those that the reference labels female. Specificity is the
share labelled male, among those that the reference labels male.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.optimize import brentq
from scipy.special import stdtr, stdtrit

from biaslab.errors import InputError
from biaslab.stats import checks
from biaslab.stats.hypothesis import min_units
from biaslab.stats.null_expectation import SOLVED_UP_TO, corrected_absolute_deviation, corrected_mad

MAX_BIAS_SHARE = 0.25
"""Maximum bias of an estimate, as a share of the largest possible deviation; above it, a result is inconclusive."""
MIN_YOUDEN = 0.5
"""Minimum of sensitivity + specificity − 1 for a judge whose errors are corrected."""


class Deviation(NamedTuple):
    """A mean deviation with its confidence interval and test; limits and p are NaN with too few units or images."""

    value: float
    ci_low: float
    ci_high: float
    p: float  # Two-sided, for no deviation in any unit; below 1 - confidence if and only if the interval excludes 0.
    n: int  # Number of units.
    bias: float  # Largest possible remaining bias of the value due to sampling noise, in either direction.


def bias_aware_interval(
    value: float, error: float, bias: float, df: float, confidence: float = 0.95
) -> tuple[float, float, float]:
    """Return the confidence limits of ``value`` and the p-value of the null hypothesis that the true value is 0.

    The bias of ``value`` is at most ``bias`` in either direction. ``value``, its standard ``error`` and ``bias`` have
    the same unit; ``df`` are Student's degrees of freedom. The half-width is the standard error times the
    ``confidence`` quantile of ``|T + bias / error|`` (Armstrong & Kolesár 2018, section 2). Raises InputError:
    ``confidence`` is not between 0 and 1.
    """
    confidence, shift = checks.confidence_level(confidence), bias / error

    def tail(distance: float) -> float:
        return float(stdtr(df, shift - distance) + stdtr(df, -distance - shift))

    half = error * brentq(
        lambda distance: tail(distance) - (1 - confidence), 0, shift + stdtrit(df, (1 + confidence) / 2) + 1e-9
    )
    return float(value - half), float(value + half), float(min(1, tail(abs(value) / error)))


def bounded_mean(
    values: ArrayLike,
    ends: tuple[float, float],
    largest: float,
    confidence: float = 0.95,
    bias: float = 0.0,
    error: float = 0.0,
) -> Deviation:
    """Return the mean of deviations estimated for each unit, with interval and test; the true mean is 0 to ``largest``.

    The estimates for units lie between the two ``ends``. The interval includes one hypothetical unit at each end,
    because a sample of few units often contains none of the rare units that deviate. (Agresti & Coull 1998 add
    successes and failures for a similar reason.) ``bias`` is the maximum bias of the mean, and ``error`` a standard
    error that all units have in common. With fewer units than :func:`min_units`, limits and p are NaN. Raises
    InputError: ``values`` contain NaN or are not one-dimensional, or the confidence is not between 0 and 1.
    """
    values = checks.check_sample(values, "values")
    n, confidence = values.size, checks.confidence_level(confidence)
    value = float(np.clip(values.mean(), 0, largest)) if n else np.nan
    if n < min_units(1 - confidence):
        return Deviation(value, np.nan, np.nan, np.nan, n, bias)
    extended_values = np.r_[values, ends]
    spread = np.hypot(extended_values.std(ddof=1) / np.sqrt(extended_values.size), error)
    low, high, p = bias_aware_interval(extended_values.mean(), spread, bias, extended_values.size - 1, confidence)
    p = p if extended_values.mean() > 0 else 1.0
    low, high = np.clip([low, high], 0, largest)
    return Deviation(value, float(low), float(high), p, n, bias)


def mean_mad(counts: ArrayLike, units: ArrayLike | None = None, confidence: float = 0.95) -> Deviation:
    """Return the mean over units of the bias-corrected mean absolute deviation from uniform (:func:`corrected_mad`).

    ``counts`` are images per bin, with shape (rows, bins); rows without images are excluded. ``units`` is the unit of
    each row, such as the profession of a prompt; the mean of a unit's rows is one observation. The value is 0 to 2
    (bins - 1) / bins². It is NaN if there are so few images that the bias exceeds :data:`MAX_BIAS_SHARE` of this
    maximum.

    The coverage of a nominal 95% interval is at least 94% (``benchmarks/coverage_dalleval.py``). Raises InputError:
    Counts are negative, fractions or NaN, or there are fewer than 2 bins.
    """
    counts, units = checks.align((0,), counts=counts, units=units)
    counts = np.atleast_2d(checks.check_whole(counts, "counts"))
    n, bins = counts.sum(axis=1), counts.shape[1]
    has_images = n > 0
    counts, n = counts[has_images], n[has_images]
    rows = np.arange(len(n)) if units is None else np.asarray(units)[has_images]
    _, unit = np.unique(rows, return_inverse=True)
    largest = 2 * (bins - 1) / bins**2
    limits = np.array([deviation_limits(int(k), bins) for k in n]).reshape(-1, 3)
    bias, low, high = limits.mean(axis=0).tolist() if n.size else (np.nan,) * 3
    size = int(unit.max(initial=-1)) + 1
    if not size or bias > MAX_BIAS_SHARE * largest:
        return Deviation(np.nan, np.nan, np.nan, np.nan, size, float(bias))
    means = np.bincount(unit, corrected_mad(counts)) / np.bincount(unit)
    return bounded_mean(means, (low, high), largest, confidence, bias)


def mean_deviation(
    count: ArrayLike, n: ArrayLike, center: ArrayLike, confidence: float = 0.95, error: float = 0.0
) -> Deviation:
    """Return the bias-corrected mean over strata of ``|share - center|``; each stratum has its own ``center`` (0–1).

    ``error`` is the standard error of the mean due to uncertainty of the centres. The value is NaN if there are so few
    images that the bias exceeds :data:`MAX_BIAS_SHARE` of one half. Other arguments are as in
    :func:`corrected_absolute_deviation`, and the result is as in :func:`bounded_mean`. Raises InputError: A count is
    above n or a fraction, or a centre is outside 0–1.
    """
    count, n, center = checks.align(count=count, n=n, center=center)
    count, n = checks.check_counts(count, n)
    center = checks.check_shares(np.broadcast_to(center, n.shape), "center")
    count, center, n = count[n > 0], center[n > 0], n[n > 0]
    limits = np.array([deviation_limits(int(k), 2, float(c)) for k, c in zip(n, center, strict=True)]).reshape(-1, 3)
    bias, *ends = limits.mean(axis=0) if n.size else (np.nan,) * 3
    if not n.size or bias > MAX_BIAS_SHARE / 2:
        return Deviation(np.nan, np.nan, np.nan, np.nan, n.size, float(bias))
    values = [corrected_absolute_deviation(*cell) for cell in zip(count, n, center, strict=True)]
    largest = float(np.maximum(center, 1 - center).mean())
    return bounded_mean(values, tuple(ends), largest, confidence, float(bias), error)


def mean_distance(difference: ArrayLike, error: ArrayLike, largest: float, confidence: float = 0.95) -> Deviation:
    """Return the mean over strata of ``|true difference|``, corrected for the errors of the differences.

    Args:
        difference: Estimated differences of shares (-1 to 1), one per stratum. With shape (strata, answers), the mean
            over answers is one observation.
        error: Standard error of each difference if the true difference is 0, as a share; above 0, with the same shape.
        largest: The largest possible true mean.
        confidence: Level of the interval, 0–1.

    This is :func:`mean_deviation` for differences that are approximately normal and not binomial: those of people who
    appear in the same images, or those from a benchmark that is itself a sample. The benchmark's sampling error is then
    part of ``error``. The value is NaN if errors are so large that the bias exceeds :data:`MAX_BIAS_SHARE` of
    ``largest`` or of one half. :func:`normal_null_mean` is the null expectation of a single difference.

    The coverage of a nominal 95% interval is at least 93%, and p is below 0.05 in 5 to 6% of datasets without any
    difference (``benchmarks/coverage_custom.py``). Raises InputError: Values are NaN, or the shapes do not broadcast.
    """
    difference, error = checks.broadcast(difference=difference, error=error)
    size = len(difference)
    worst_bias = deviation_limits(SOLVED_UP_TO, 2)[0] / _UNIT
    bias = float(worst_bias * error.mean()) if size else np.nan
    if not size or bias > MAX_BIAS_SHARE * min(largest, 0.5):
        return Deviation(np.nan, np.nan, np.nan, np.nan, size, bias)
    values = error * _corrected_abs(difference / error)
    min_value = float(_corrected_abs(np.zeros(1))[0] * error.mean())
    values = values.reshape(size, -1).mean(axis=1)
    return bounded_mean(values, (min_value, largest), largest, confidence, bias)


@checks.keep_labels
def normal_null_mean(error: ArrayLike) -> NDArray[np.float64]:
    """Return E|d| of normal differences d with mean 0 and these standard errors, in their unit, elementwise.

    Raises InputError: An error is negative.
    """
    return (checks.check_numbers(error, "error", 0) * np.sqrt(2 / np.pi))[()]


def judge_corrected_deviation(
    count: ArrayLike,
    n: ArrayLike,
    sensitivity: float,
    specificity: float,
    n_sensitivity: int,
    n_specificity: int,
    confidence: float = 0.95,
) -> Deviation:
    """Return the mean over units of ``|share - 0.5|`` (0 to 0.5), corrected for sampling noise and the judge's error.

    ``count`` of the ``n`` images of each unit are judged positive; units without images are excluded. If the true share
    is one half, the expected observed share is (1 + sensitivity - specificity) / 2. The expected
    difference from it is the difference of the true share from one half, multiplied by sensitivity + specificity - 1
    (Rogan & Gladen 1978). The deviation from this observed share (:func:`corrected_absolute_deviation`) is therefore
    divided by this factor. The interval takes account of the
    uncertainty of both error rates, by the delta method with one correct and one wrong reference image added to each.
    Raises InputError: Sensitivity + specificity is 1 or less, or counts are invalid.
    """
    count, n = checks.check_counts(count, n)
    count, n = count[n > 0], n[n > 0]
    youden = _youden(sensitivity, specificity)
    center = (1 + sensitivity - specificity) / 2
    tables = [deviation_limits(int(k), 2, center) for k in n]
    bias, low, high = (np.mean(tables, axis=0) / youden).tolist() if len(tables) else (np.nan,) * 3
    if not len(tables) or bias > MAX_BIAS_SHARE / 2:
        return Deviation(np.nan, np.nan, np.nan, np.nan, len(tables), float(bias))
    values = corrected_absolute_deviation(count, n, center) / youden
    mean_side = float(np.sign(count / n - center).mean())
    sens, spec = (_error(*rate) ** 2 for rate in ((sensitivity, n_sensitivity), (specificity, n_specificity)))
    # Errors of the centre add up over units on the same side of it; ``mean_side`` weights units on different sides.
    mean = max(float(values.mean()), 0.0)
    error = np.sqrt(max((mean**2 + 0.25) * (sens + spec) + mean_side * mean * (sens - spec), 0)) / youden
    return bounded_mean(values, (low, high), 0.5, confidence, bias, error)


def judge_corrected_mean(
    values: ArrayLike,
    sensitivity: float,
    specificity: float,
    n_sensitivity: int,
    n_specificity: int,
    confidence: float = 0.95,
) -> Deviation:
    """Return the mean of signed averages (-1 to 1, positive minus negative images), corrected for the judge's error.

    It is Rogan & Gladen's (mean - sensitivity + specificity) / (sensitivity + specificity - 1), clipped to -1 and 1.
    The Student's t interval over units takes account of the uncertainty of both rates, as in
    :func:`judge_corrected_deviation`. Raises InputError: Sensitivity + specificity is 1 or less, or ``values`` contain
    NaN.
    """
    values = checks.check_sample(values, "values")
    n, youden = values.size, _youden(sensitivity, specificity)
    value = (values.mean() - sensitivity + specificity) / youden if n else np.nan
    clipped_value = float(np.clip(value, -1, 1))
    if n < min_units(1 - confidence) or checks.constant(values):
        return Deviation(clipped_value, np.nan, np.nan, np.nan, n, 0.0)
    sens, spec = _error(sensitivity, n_sensitivity), _error(specificity, n_specificity)
    judge = np.hypot((1 + value) * sens, (1 - value) * spec)
    error = np.hypot(values.std(ddof=1) / np.sqrt(n), judge) / youden
    low, high, p = bias_aware_interval(value, error, 0.0, n - 1, confidence)
    low, high = np.clip([low, high], -1, 1)
    return Deviation(clipped_value, float(low), float(high), p, n, 0.0)


def _error(share: float, n: int) -> float:
    """Return the standard error of a share, with one correct and one wrong image added (Lang & Reiczigel 2014)."""
    smoothed_share = (share * n + 1) / (n + 2)
    return float(np.sqrt(smoothed_share * (1 - smoothed_share) / (n + 2)))


@lru_cache(maxsize=1024)
def deviation_limits(n: int, bins: int, center: float | None = None) -> tuple[float, float, float]:
    """Return the largest bias of the corrected estimate at ``n`` images, and the smallest and largest such estimate."""
    center = 1 / bins if center is None else center
    if n > SOLVED_UP_TO:
        # For more images, the correction is that of SOLVED_UP_TO in units of the standard error.
        bias = 1.07 * deviation_limits(SOLVED_UP_TO, bins, center)[0] * np.sqrt(SOLVED_UP_TO / n)
    else:
        p = np.union1d(np.linspace(0, 1, 401), center)
        mean = stats.binom.pmf(np.arange(n + 1), n, p[:, None]) @ corrected_absolute_deviation(
            np.arange(n + 1), n, center
        )
        bias = np.abs(mean - np.abs(p - center)).max()
    if bins == 2:
        estimates = corrected_absolute_deviation(np.arange(n + 1), n, center)
        return float(bias), float(estimates.min()), float(estimates.max())
    even_counts, single_bin_counts = np.bincount(np.arange(n) % bins, minlength=bins), n * np.eye(bins, dtype=int)[0]
    low, high = corrected_mad([even_counts, single_bin_counts]).tolist()
    return float(bias), low, high


class FoldedMeans(NamedTuple):
    """The mean over columns of the absolute value of each column's mean, uncorrected and bias-corrected."""

    value: float  # Uncorrected.
    corrected: float
    ci_low: float  # Limit for ``corrected``.
    ci_high: float
    null_mean: float  # Mean of ``value`` if signs are random.
    p: float  # For no difference in any column; below 1 - confidence if and only if ``ci_low`` is above 0.
    n: int  # Number of units.


def folded_means(
    values: ArrayLike,
    largest: float = 1.0,
    *,
    replicates: int,
    seed: int | np.random.Generator,
    confidence: float = 0.95,
) -> FoldedMeans:
    """Return the bias-corrected mean over columns of ``|mean of the column|``, such as of differences by attribute.

    ``values`` has the shape (units, columns), with absolute values of at most ``largest``. Columns may depend on each
    other, but units must be independent. With fewer units than :func:`min_units`, limits and p are NaN.

    The corrected value of a column is that of :func:`corrected_absolute_deviation` for a normal mean, in units of its
    standard error. Its own standard error is that of the slope times the units' deviations (Chernoff 1981, Ann. Probab.
    9, 533–535). The upper limit (Student's, bias-aware) is computed from it. p is from random sign flips of whole
    units. By the triangle inequality, the value exceeds the true value by at most the value of the noise alone. The
    lower limit is therefore the value minus the quantile that random signs exceed with probability 1 - ``confidence``.

    The coverage of a nominal 95% interval is 95 to 100% (``benchmarks/coverage_dalleval.py``). Raises InputError:
    ``values``, ``replicates``, ``seed`` or ``confidence`` is out of range.
    """
    values = checks.check_numbers(values, "values")
    replicates, rng = checks.replicate_count(replicates), checks.generator(seed)
    alpha = 1 - checks.confidence_level(confidence)
    n = len(values)
    if not n:
        return FoldedMeans(*(np.nan,) * 6, 0)
    means = values.mean(axis=0)
    value = float(np.abs(means).mean())
    signs = rng.integers(2, size=(replicates, n), dtype=np.int8) * 2.0 - 1
    random_values = np.abs(signs @ values / n).mean(axis=1)
    null_mean = float(random_values.mean())
    if n < min_units(alpha):
        return FoldedMeans(value, np.nan, np.nan, np.nan, null_mean, np.nan, n)
    p = (1 + np.count_nonzero(random_values >= value - 1e-12)) / (1 + replicates)
    errors = values.std(axis=0, ddof=1) / np.sqrt(n)
    z = means / np.where(errors > 0, errors, 1)
    step = 0.1
    slope = np.where(errors > 0, (_corrected_abs(z + step) - _corrected_abs(z - step)) / (2 * step), np.sign(means))
    corrected = np.where(errors > 0, errors * _corrected_abs(z), np.abs(means)).mean()
    error = ((values - means) * slope).mean(axis=1).std(ddof=1) / np.sqrt(n)
    bias = deviation_limits(SOLVED_UP_TO, 2)[0] / _UNIT * errors.mean()
    high = bias_aware_interval(corrected, error, bias, n - 1, confidence)[1] if error > 0 else corrected
    # p is below alpha if and only if fewer than this number of random values reach the value.
    critical_count = int(np.ceil(alpha * (1 + replicates) - 1))
    low = value - np.sort(random_values)[-critical_count] if p < alpha and critical_count > 0 else 0.0
    low, high = np.clip([low, max(high, low)], 0, largest)
    return FoldedMeans(value, float(np.clip(corrected, low, high)), float(low), float(high), null_mean, float(p), n)


_UNIT = np.sqrt(0.25 / SOLVED_UP_TO)


def _corrected_abs(z: np.ndarray) -> np.ndarray:
    """Return the corrected ``|z|`` of a normal mean in units of its standard error, as for very many images."""
    k = np.arange(SOLVED_UP_TO + 1)
    correction = corrected_absolute_deviation(k, SOLVED_UP_TO) - np.abs(k / SOLVED_UP_TO - 0.5)
    return np.abs(z) + np.interp(z, (k / SOLVED_UP_TO - 0.5) / _UNIT, correction / _UNIT)


class CorrectedShares(NamedTuple):
    """Corrected shares (0–1) with their confidence intervals and numbers of images, as arrays of the same shape."""

    share: np.ndarray
    ci_low: np.ndarray
    ci_high: np.ndarray
    n: np.ndarray


@checks.keep_labels
def corrected_shares(
    count: ArrayLike,
    n: ArrayLike,
    sensitivity: ArrayLike,
    specificity: ArrayLike,
    n_sensitivity: ArrayLike,
    n_specificity: ArrayLike,
    confidence: float = 0.95,
) -> CorrectedShares:
    """Return the shares of images that the reference would label positive, elementwise.

    The judge labels ``count`` of ``n`` images positive. The share is (count / n + specificity - 1) / (sensitivity +
    specificity - 1). The share and its limits are clipped to 0–1. ``n_sensitivity`` and ``n_specificity`` are the
    numbers of reference images on which the two rates were measured. The interval takes account of their uncertainty,
    which the shares of one table have in common. All arguments are broadcast; the result is NaN if n is 0. The coverage
    of a nominal 95% interval is 94.5–98.7%.

    Sources: Rogan & Gladen (1978), Am. J. Epidemiol. 107, 71–76; interval: Lang & Reiczigel (2014), Prev. Vet. Med.
    113, 13–22. Raises InputError: Sensitivity + specificity is 1 or less, a value is out of range, or the shapes do not
    fit.
    """
    count, n, sensitivity, specificity, n_sensitivity, n_specificity = checks.align(
        count=count,
        n=n,
        sensitivity=sensitivity,
        specificity=specificity,
        n_sensitivity=n_sensitivity,
        n_specificity=n_specificity,
    )
    count, n = checks.check_counts(count, n)
    sens, spec = checks.check_shares(sensitivity, "sensitivity"), checks.check_shares(specificity, "specificity")
    sens_n = checks.check_whole(n_sensitivity, "n_sensitivity", minimum=1)
    spec_n = checks.check_whole(n_specificity, "n_specificity", minimum=1)
    z = stats.norm.ppf((1 + checks.confidence_level(confidence)) / 2)
    parts = {"count": count, "n": n, "sensitivity": sens, "specificity": spec}
    parts |= {"n_sensitivity": sens_n, "n_specificity": spec_n}
    count, n, sens, spec, sens_n, spec_n = checks.broadcast(**parts)
    youden = _youden(sens, spec)
    size = np.where(n > 0, n, np.nan)
    share = (count / size + spec - 1) / youden

    # Lang & Reiczigel: z²/2 positive and z²/2 negative images are added to the judged ones and one of each to both
    # references. The interval is that of the delta method at these values, with a shifted centre.
    n_judged, sens_n, spec_n = size + z**2, sens_n + 2, spec_n + 2
    p = (count + z**2 / 2) / n_judged
    sens, spec = (sens * (sens_n - 2) + 1) / sens_n, (spec * (spec_n - 2) + 1) / spec_n
    is_better_than_chance = sens + spec > 1  # may be false after the addition: then the result is unknown
    youden = np.where(is_better_than_chance, sens + spec - 1, 1)
    centre = (p + spec - 1) / youden
    sens_variance, spec_variance = sens * (1 - sens) / sens_n, spec * (1 - spec) / spec_n
    shift = 2 * z**2 * (centre * sens_variance - (1 - centre) * spec_variance)
    variance = p * (1 - p) / n_judged + centre**2 * sens_variance + (1 - centre) ** 2 * spec_variance
    half = np.where(is_better_than_chance, z * np.sqrt(variance) / youden, np.inf + 0 * size)
    low, high = (np.clip(centre + shift + side * half, 0, 1) for side in (-1, 1))
    return CorrectedShares(np.clip(share, 0, 1), low, high, n.astype(int))


def _youden(sensitivity: ArrayLike, specificity: ArrayLike) -> np.ndarray:
    """Return sensitivity + specificity - 1, which is above 0 if a judge is better than chance."""
    youden = np.asarray(sensitivity, float) + np.asarray(specificity, float) - 1
    if (youden <= 0).any():
        raise InputError(
            f"sensitivity + specificity must exceed 1, got {1 + youden[youden <= 0].flat[0]:g}: the judge is no better "
            "than chance. Check that its labels are not swapped."
        )
    return youden
