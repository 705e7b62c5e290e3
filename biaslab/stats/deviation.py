"""Means of folded quantities without what chance adds to them: their intervals and tests.

No estimate of ``|x|`` is unbiased wherever ``x`` is: near 0 chance cannot be told from a small ``x``. What is left is
bounded, so intervals here reach as far beyond Student's t as the worst of it asks (Armstrong & Kolesár 2018,
Econometrica 86, 655–683). Where it is smaller they cover more than they promise.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.optimize import brentq
from scipy.special import stdtr, stdtrit

from biaslab.ground.errors import InputError
from biaslab.stats import checks
from biaslab.stats.attainable import fewest_units
from biaslab.stats.floors import SOLVED_UP_TO, corrected_absolute_deviation, corrected_mad

UNTOLD = 0.25
"""Share of the largest deviation that can be, beyond which a bias leaves nothing to be told."""


class Deviation(NamedTuple):
    """A mean deviation with its interval and test; NaN limits and p where there are too few units or images."""

    value: float
    ci_low: float
    ci_high: float
    p: float  # two-sided, of no deviation anywhere; below 1 - confidence exactly where the interval excludes 0
    n: int  # units
    bias: float  # the most by which chance may still shift the value, either way


def bias_aware_interval(
    value: float, error: float, bias: float, df: float, confidence: float = 0.95
) -> tuple[float, float, float]:
    """Return limits around ``value`` and the p of 0, where its bias is known to be ``bias`` at most, either way.

    ``value``, its standard ``error`` and ``bias`` are of one unit; ``df`` are Student's degrees of freedom. The
    half-width is the error times that quantile of ``|T + bias / error|``.

    Source: Armstrong & Kolesár (2018), Econometrica 86, 655–683, section 2.
    """
    confidence, shift = checks.confidence_level(confidence), bias / error

    def beyond(far: float) -> float:
        return stdtr(df, shift - far) + stdtr(df, -far - shift)

    half = error * brentq(
        lambda far: beyond(far) - (1 - confidence), 0, shift + stdtrit(df, (1 + confidence) / 2) + 1e-9
    )
    return value - half, value + half, float(min(1, beyond(abs(value) / error)))


def bounded_mean(
    values,
    ends: tuple[float, float],
    largest: float,
    confidence: float = 0.95,
    bias: float = 0.0,
    error: float = 0.0,
) -> Deviation:
    """Return the mean of a deviation estimated for each unit, which is 0 to ``largest`` in truth.

    Estimates of units lie between the ``ends``; the interval is of them and one unit more at either end, since of few
    units the rare ones that differ are often missing (as Agresti & Coull 1998 add successes and failures). ``bias`` is
    the most by which the mean may be off, ``error`` a standard error that all units share. Value and limits are kept
    within 0 and ``largest``. Fewer units than :func:`biaslab.stats.fewest_units` have neither limits nor p.
    """
    values = checks.sample(values, "values")
    n, confidence = values.size, checks.confidence_level(confidence)
    value = float(np.clip(values.mean(), 0, largest)) if n else np.nan
    if n < fewest_units(1 - confidence):
        return Deviation(value, np.nan, np.nan, np.nan, n, bias)
    more = np.r_[values, ends]
    spread = np.hypot(more.std(ddof=1) / np.sqrt(more.size), error)
    low, high, p = bias_aware_interval(more.mean(), spread, bias, more.size - 1, confidence)
    p = p if more.mean() > 0 else 1.0
    low, high = np.clip([low, high], 0, largest)
    return Deviation(value, float(low), float(high), p, n, bias)


def mean_mad(counts, units=None, confidence: float = 0.95) -> Deviation:
    """Return the mean absolute deviation from uniform over units, chance taken off (:func:`corrected_mad`).

    Args:
        counts: Images per bin, (rows, at least 2 bins); rows without images are left out.
        units: To which unit each row belongs, such as the profession of a prompt: rows of one unit may depend on each
            other, and their mean is one observation. By default each row is a unit.
        confidence: Level of the interval.

    Returns:
        0 to 2 (bins - 1) / bins². ``value`` is NaN where images are so few that the bias exceeds :data:`UNTOLD` of
        that: at 10 bins with 4 images or fewer it would be the same whatever the truth is.

    Coverage of a nominal 95 % interval (``benchmarks/coverage_dalleval.py``): at least 94 % for 6 to 84 professions of
    3 or 9 images; more than 97 % where truth is far from even, as the bias is then smaller than its bound, and for ten
    tones, whose bias is not the largest in all bins at once.
    """
    counts = np.atleast_2d(checks.whole(counts, "counts"))
    n, bins = counts.sum(axis=1), counts.shape[1]
    some = n > 0
    counts, n = counts[some], n[some]
    rows = np.arange(some.sum()) if units is None else np.asarray(units)[some]
    _, unit = np.unique(rows, return_inverse=True)
    largest = 2 * (bins - 1) / bins**2
    limits = np.array([_of_size(int(k), bins) for k in n]).reshape(-1, 3)
    bias, *ends = limits.mean(axis=0) if n.size else (np.nan,) * 3
    size = int(unit.max(initial=-1)) + 1
    if not size or bias > UNTOLD * largest:
        return Deviation(np.nan, np.nan, np.nan, np.nan, size, float(bias))
    means = np.bincount(unit, corrected_mad(counts)) / np.bincount(unit)
    return bounded_mean(means, ends, largest, confidence, float(bias))


def judged_deviation(
    count,
    n,
    sensitivity: float,
    specificity: float,
    sensitivity_n: int,
    specificity_n: int,
    confidence: float = 0.95,
) -> Deviation:
    """Return the mean of ``|share - 0.5|`` over units, chance and the judge's error taken off.

    ``count`` of ``n`` images of each unit are judged positive. By the reference a share of one half is judged as
    (1 + sensitivity - specificity) / 2, and differences shrink by sensitivity + specificity - 1 (Rogan & Gladen 1978):
    the deviation from that share (:func:`corrected_absolute_deviation`) is divided by it. Units without images are left
    out. The interval includes the uncertainty of both, measured on so many reference images (delta method, one right
    and one wrong image added to each). Value and limits are 0 to 0.5. Raises InputError where the judge knows nothing.
    """
    count, n = checks.counts(count, n)
    count, n = count[n > 0], n[n > 0]
    youden = sensitivity + specificity - 1
    if youden <= 0:
        raise InputError(f"sensitivity + specificity must exceed 1, got {1 + youden:g}.")
    center = (1 + sensitivity - specificity) / 2
    tables = [_of_size(int(k), 2, center) for k in n]
    bias, *ends = np.mean(tables, axis=0) / youden if len(tables) else (np.nan,) * 3
    if not len(tables) or bias > UNTOLD / 2:
        return Deviation(np.nan, np.nan, np.nan, np.nan, len(tables), float(bias))
    values = corrected_absolute_deviation(count, n, center) / youden
    lean = float(np.sign(count / n - center).mean())
    sens, spec = (_error(*of) ** 2 for of in ((sensitivity, sensitivity_n), (specificity, specificity_n)))
    # Of units that lean to one side errors of the centre add up; of others they fold as if each leant to one.
    mean = max(float(values.mean()), 0.0)
    error = np.sqrt(max((mean**2 + 0.25) * (sens + spec) + lean * mean * (sens - spec), 0)) / youden
    return bounded_mean(values, ends, 0.5, confidence, float(bias), error)


def judged_mean(
    values,
    sensitivity: float,
    specificity: float,
    sensitivity_n: int,
    specificity_n: int,
    confidence: float = 0.95,
) -> Deviation:
    """Return the mean of signed averages (-1 to 1, positive less negative images) with the judge's error taken off.

    Value and limits are those of Rogan & Gladen (1978), (mean - sensitivity + specificity) / (sensitivity + specificity
    - 1), kept within -1 and 1; the Student t interval over units includes the uncertainty of both (delta method, as in
    :func:`judged_deviation`).
    """
    values = checks.sample(values, "values")
    n, youden = values.size, sensitivity + specificity - 1
    if youden <= 0:
        raise InputError(f"sensitivity + specificity must exceed 1, got {1 + youden:g}.")
    value = (values.mean() - sensitivity + specificity) / youden if n else np.nan
    kept = float(np.clip(value, -1, 1))
    if n < fewest_units(1 - confidence) or checks.constant(values):
        return Deviation(kept, np.nan, np.nan, np.nan, n, 0.0)
    of_judge = (
        (1 + value) * _error(sensitivity, sensitivity_n),
        (1 - value) * _error(specificity, specificity_n),
    )
    error = np.hypot(values.std(ddof=1) / np.sqrt(n), np.hypot(*of_judge)) / youden
    low, high, p = bias_aware_interval(value, error, 0.0, n - 1, confidence)
    low, high = np.clip([low, high], -1, 1)
    return Deviation(kept, float(low), float(high), p, n, 0.0)


def _error(share: float, n: int) -> float:
    """Return the standard error of a share, with one right and one wrong image added (Lang & Reiczigel 2014)."""
    likely = (share * n + 1) / (n + 2)
    return float(np.sqrt(likely * (1 - likely) / (n + 2)))


@lru_cache(maxsize=1024)
def _of_size(n: int, bins: int, center: float | None = None) -> tuple[float, float, float]:
    """Return the worst bias of the correction at ``n`` images, and the least and the largest that a row can give."""
    center = 1 / bins if center is None else center
    if n > SOLVED_UP_TO:
        # Beyond, the correction is that of SOLVED_UP_TO in units of the standard error.
        bias = 1.07 * _of_size(SOLVED_UP_TO, bins, center)[0] * np.sqrt(SOLVED_UP_TO / n)
    else:
        p = np.union1d(np.linspace(0, 1, 401), center)
        mean = stats.binom.pmf(np.arange(n + 1), n, p[:, None]) @ corrected_absolute_deviation(
            np.arange(n + 1), n, center
        )
        bias = np.abs(mean - np.abs(p - center)).max()
    if bins == 2:
        every = corrected_absolute_deviation(np.arange(n + 1), n, center)
        return float(bias), float(every.min()), float(every.max())
    even, one = np.bincount(np.arange(n) % bins, minlength=bins), n * np.eye(bins, dtype=int)[0]
    return float(bias), *map(float, corrected_mad([even, one]))


# -- means that are folded after averaging ------------------------------------------------------------------------


class FoldedMeans(NamedTuple):
    """The mean over columns of the absolute mean of each, as it is and without what chance adds."""

    value: float
    corrected: float
    ci_low: float  # of ``corrected``
    ci_high: float
    floor: float  # mean of ``value`` where signs are random
    p: float  # of no difference in any column; below 1 - confidence exactly where ``ci_low`` is above 0
    n: int


def folded_means(
    values, largest: float = 1.0, *, replicates: int, seed, confidence: float = 0.95
) -> FoldedMeans:
    """Return the mean over columns of ``|mean of the column|``, such as of differences by attribute, without its floor.

    ``values``: (units, columns), any unit, at most ``largest`` in size; columns may depend on each other, units not.

    A column's corrected value is :func:`corrected_absolute_deviation`'s in units of its standard error, for a normal
    mean. Its error is that of its slope times the units' deviations, which is at least the true one on average
    (Chernoff 1981, Ann. Probab. 9, 533–535): the upper limit, Student's and bias-aware, is rather too high. p is that
    of flipping all signs of a unit at random. By the triangle inequality the value exceeds the truth by no more than
    the value of the noise alone, so the lower limit is the value less what random signs exceed with a chance of
    1 - ``confidence``. Limits and ``corrected`` are kept within 0 and ``largest``, and this within those. Fewer units
    than :func:`biaslab.stats.fewest_units` have neither limits nor p.

    Coverage of a nominal 95 % interval (``benchmarks/coverage_dalleval.py``): 95 to 100 % for 6 to 84 units of 3 or 9
    images, without a difference, with small ones and with large ones.
    """
    values = checks.numbers(values, "values")
    replicates, rng = checks.replicate_count(replicates), checks.generator(seed)
    alpha = 1 - checks.confidence_level(confidence)
    n = len(values)
    if not n:
        return FoldedMeans(*(np.nan,) * 6, 0)
    means = values.mean(axis=0)
    value = float(np.abs(means).mean())
    signs = rng.integers(2, size=(replicates, n), dtype=np.int8) * 2.0 - 1
    random = np.abs(signs @ values / n).mean(axis=1)
    floor = float(random.mean())
    if n < fewest_units(alpha):
        return FoldedMeans(value, np.nan, np.nan, np.nan, floor, np.nan, n)
    p = (1 + np.count_nonzero(random >= value - 1e-12)) / (1 + replicates)
    errors = values.std(axis=0, ddof=1) / np.sqrt(n)
    z = means / np.where(errors > 0, errors, 1)
    step = 0.1
    slope = np.where(errors > 0, (_folded(z + step) - _folded(z - step)) / (2 * step), np.sign(means))
    corrected = np.where(errors > 0, errors * _folded(z), np.abs(means)).mean()
    error = ((values - means) * slope).mean(axis=1).std(ddof=1) / np.sqrt(n)
    bias = _of_size(SOLVED_UP_TO, 2)[0] / _UNIT * errors.mean()
    high = bias_aware_interval(corrected, error, bias, n - 1, confidence)[1] if error > 0 else corrected
    # The largest of random values that p still counts as too many.
    most = int(np.ceil(alpha * (1 + replicates) - 1))
    low = value - np.sort(random)[-most] if p < alpha and most > 0 else 0.0
    low, high = np.clip([low, max(high, low)], 0, largest)
    return FoldedMeans(
        value, float(np.clip(corrected, low, high)), float(low), float(high), floor, float(p), n
    )


_UNIT = np.sqrt(0.25 / SOLVED_UP_TO)


def _folded(z: np.ndarray) -> np.ndarray:
    """Return the corrected ``|z|`` of a normal mean in units of its standard error: that of very many images."""
    k = np.arange(SOLVED_UP_TO + 1)
    added = corrected_absolute_deviation(k, SOLVED_UP_TO) - np.abs(k / SOLVED_UP_TO - 0.5)
    return np.abs(z) + np.interp(z, (k / SOLVED_UP_TO - 0.5) / _UNIT, added / _UNIT)
