"""Confidence intervals for shares, means and correlations, in closed form."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats

from biaslab.ground.errors import InputError
from biaslab.stats import checks


class Interval(NamedTuple):
    """Lower and upper limit: floats, or arrays of one shape."""

    low: float | np.ndarray
    high: float | np.ndarray


class Estimate(NamedTuple):
    """An estimate, its interval and the number of observations it rests on."""

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


class Rivals(NamedTuple):
    """How a correction compares with the estimate that it leaves: booleans, or arrays of one shape."""

    beside: bool | np.ndarray  # they differ by more than half the interval's width, or in sign: show both
    larger: bool | np.ndarray  # more is taken off than is left: no verdict rests on what is left


def significance(confidence: float) -> float:
    """Return the level (0–1) of tests that agree with intervals of this ``confidence`` (0–1): 0.05 of 0.95."""
    # Without the last digits of a difference of binary fractions, which would make 0.05 less than the level of 0.95.
    return round(1 - confidence, 10)


def rivals(raw, corrected, low, high) -> Rivals:
    """Compare what a correction takes off a measure with what it leaves, elementwise.

    ``raw`` is the measure as it is, ``corrected`` the estimate, whose interval has the limits ``low`` and ``high``: all
    of one unit, and they broadcast. Without an interval only the sign tells; NaN elsewhere is neither. A correction of
    the sign is always larger than what it leaves.
    """
    given = {"raw": raw, "corrected": corrected, "low": low, "high": high}
    raw, corrected, low, high = (checks.numbers(values, name) for name, values in given.items())
    off = np.abs(raw - corrected)
    turned = np.sign(raw) * np.sign(corrected) < 0
    return Rivals((turned | (off > (high - low) / 2))[()], (off > np.abs(corrected))[()])


def wilson_interval(count, n, confidence: float = 0.95) -> Interval:
    """Return the Wilson (1927, JASA 22, 209–212) score interval of each share ``count / n``.

    ``count`` and ``n``: whole numbers, 0 <= count <= n, any shapes that broadcast. The limits are shares 0–1 of that
    shape; n = 0 or a missing (NaN) count gives NaN. Raises InputError for counts above n or fractions.

    Coverage of a nominal 95 % interval, averaged over all true shares 0–1 (exact): 95.6 % at n = 3 to 95.0 at 500. At
    one given share it differs: down to 91.6 % for shares 0.05–0.95 at n = 20 or more, and to 84 % close to 0 and 1.
    """
    count, n = checks.counts(count, n)
    z = stats.norm.ppf((1 + checks.confidence_level(confidence)) / 2)
    size = np.where(n > 0, n, np.nan)
    share = count / size
    centre = (share + z**2 / (2 * size)) / (1 + z**2 / size)
    half = z * np.sqrt(share * (1 - share) / size + z**2 / (4 * size**2)) / (1 + z**2 / size)
    # At 0 or n the limit is exactly 0 or 1; rounding would leave it a hair outside.
    return Interval(
        np.where(count == 0, 0 * size, centre - half)[()],
        np.where(count == n, 0 * size + 1, centre + half)[()],
    )


def percent(count, n, confidence: float = 0.95) -> tuple:
    """Return each share ``count / n`` and the limits of :func:`wilson_interval`, all in percent; NaN where n is 0."""
    low, high = wilson_interval(count, n, confidence)
    size = np.where(np.asarray(n) > 0, n, np.nan)
    return (100 * np.asarray(count, float) / size)[()], 100 * low, 100 * high


def exact_interval(count, n, confidence: float = 0.95) -> Interval:
    """Return the exact interval of each share ``count / n``: the shares that an exact binomial test does not reject.

    Arguments, results and errors as in :func:`wilson_interval`. The test is the two-sided one whose p is twice the
    nearer tail, so such a p is below 1 - confidence exactly where the interval leaves the share out. It covers at least
    ``confidence`` at every true share (Clopper & Pearson 1934, Biometrika 26, 404–413), and is wider for that.
    """
    count, n = checks.counts(count, n)
    tail = (1 - checks.confidence_level(confidence)) / 2
    size = np.where(n > 0, n, np.nan)
    low = stats.beta.ppf(tail, np.maximum(count, 1), size - count + 1)
    high = stats.beta.ppf(1 - tail, count + 1, np.maximum(size - count, 1))
    return Interval(np.where(count == 0, 0 * size, low)[()], np.where(count == n, 0 * size + 1, high)[()])


def difference_interval(
    first, first_low, first_high, second, second_low, second_high, correlation=0.0
) -> Interval:
    """Return the limits of ``second - first`` from each one's estimate and limits, elementwise.

    The two are in one unit: shares with Wilson limits, means. ``correlation`` (-1 to 1) is that of the two estimates, 0
    where they are independent; for two means of the same units it is that of the units' values, and from Student t
    limits the paired t interval follows. NaN stays NaN. Coverage of a nominal 95 %
    interval of the difference of two shares, averaged over both (exact): 95.1–95.4 % at n = 3 to 100.

    Source: Newcombe (1998), Statistics in Medicine 17, 873–890, method 10; Zou & Donner (2008), ibid. 27, 1693;
    correlated: Zou (2007), Psychological Methods 12, 399–413.
    """
    first, first_low, first_high = (checks.numbers(a, "first") for a in (first, first_low, first_high))
    second, second_low, second_high = (checks.numbers(a, "second") for a in (second, second_low, second_high))
    correlation = checks.numbers(correlation, "correlation")
    change = second - first

    def arm(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        # Rounding can take the square of two equal arms that cancel below 0.
        return np.sqrt(np.maximum(one**2 + other**2 - 2 * correlation * one * other, 0))

    return Interval(
        change - arm(second - second_low, first_high - first),
        change + arm(second_high - second, first - first_low),
    )


def mean_interval(values, confidence: float = 0.95, *, skip_nan: bool = False) -> Estimate:
    """Return the mean of ``values`` (one-dimensional, any unit) with its Student t interval.

    ``n`` is the number of values used. One value gives NaN limits, none gives NaN throughout. NaN raises
    InputError unless ``skip_nan`` leaves it out.

    Coverage of a nominal 95 % interval of 5 to 62 values (20 000 studies each): normal 94.7–95.1 %; U-shaped, as shares
    of occupations are (Beta(0.7, 0.9)), 93.3–95.0 %; exponential only 88.4–93.2 %: so skewed values need more of them.
    """
    values = checks.sample(values, "values", skip_nan)
    confidence = checks.confidence_level(confidence)
    n = values.size
    mean = float(values.mean()) if n else np.nan
    if n < 2:
        return Estimate(mean, np.nan, np.nan, n)
    half = stats.t.ppf((1 + confidence) / 2, n - 1) * values.std(ddof=1) / np.sqrt(n)
    return Estimate(mean, float(mean - half), float(mean + half), n)


def pearson_r(x, y, confidence: float = 0.95, *, skip_nan: bool = False) -> Correlation:
    """Return Pearson's correlation of ``x`` and ``y`` (one-dimensional, equally long), Fisher's z interval and test.

    p is that of the interval: it is below 1 - confidence exactly where the interval excludes 0. ``n`` is the number
    of pairs used; ``skip_nan`` leaves out a pair with a NaN, otherwise it raises InputError. A constant variable or
    fewer than 3 pairs gives NaN, exactly 3 pairs NaN limits and p.

    Coverage of a nominal 95 % interval, bivariate normal with r of 0 to 0.9 (20 000 studies each): 95.3–95.9
    % for 5 pairs, 94.6–95.1 % for 10 to 62.
    """
    x, y = checks.numbers(x, "x"), checks.numbers(y, "y")
    confidence = checks.confidence_level(confidence)
    if x.shape != y.shape or x.ndim != 1:
        raise InputError(
            f"x and y must be one-dimensional and equally long, got shapes {x.shape} and {y.shape}."
        )
    if skip_nan:
        both = ~(np.isnan(x) | np.isnan(y))
        x, y = x[both], y[both]
    x, y = checks.sample(x, "x"), checks.sample(y, "y")
    n = x.size
    if n < 3 or checks.constant(x) or checks.constant(y):
        return Correlation(np.nan, np.nan, np.nan, np.nan, n)
    found = stats.pearsonr(x, y)
    r = float(found.statistic)
    if n == 3:
        return Correlation(r, np.nan, np.nan, np.nan, n)
    low, high = found.confidence_interval(confidence)
    with np.errstate(divide="ignore"):
        p = 2 * stats.norm.sf(abs(np.arctanh(r)) * np.sqrt(n - 3))
    return Correlation(r, float(low), float(high), float(p), n)


def percentile_interval(replicates, confidence: float = 0.95, axis: int = 0) -> Interval:
    """Return the central ``confidence`` part of ``replicates`` along ``axis``, in their unit.

    NaN replicates are left out; where all are NaN, or there are none, the limits are NaN.
    """
    replicates = checks.numbers(replicates, "replicates")
    tail = (1 - checks.confidence_level(confidence)) / 2
    if replicates.ndim == 0:
        raise InputError("replicates must be an array with one axis of replicates, got a single number.")
    replicates = np.moveaxis(replicates, axis, 0)
    usable = ~np.isnan(replicates).all(axis=0)
    found = np.full((2, *replicates.shape[1:]), np.nan)
    if usable.any() and len(replicates):
        found[:, usable] = np.nanquantile(replicates[:, usable], [tail, 1 - tail], axis=0)
    return Interval(found[0][()], found[1][()])
