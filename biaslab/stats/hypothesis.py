"""Tests of means, corrections for multiple tests, and the smallest attainable p-value of a test.

A count of significant results is informative only if significance was attainable. For example, six people of the same
gender have p = 0.031. With 72 such tests, no result can be below 0.05 after Holm's correction.
"""

from __future__ import annotations

from functools import reduce
from math import comb, remainder
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats
from scipy.optimize import brentq
from scipy.special import stdtrit

from biaslab.errors import InputError
from biaslab.stats import checks

ADJUSTMENTS = ("holm", "benjamini_hochberg")
TESTS = ("sign", "t")
FEWEST_FOR_T = 5
EXACT_UP_TO = 16  # values, that is 2**16 = 65 536 patterns
CELLS_PER_BATCH = 1_000_000
MOST_COUNTED = 50_000  # total, in multiples of the common step, up to which the sums' distribution is exact
_LEAST_LOG = float(np.log(1e-15))  # of p; below it, quantiles of Student's t cannot be computed


class TestResult(NamedTuple):
    """A test statistic, its two-sided p-value and the number of values."""

    statistic: float
    p: float
    n: int


class PairedDifference(NamedTuple):
    """A mean difference with a consistent interval and two-sided p; if they are missing, ``reason`` states why."""

    difference: float
    ci_low: float
    ci_high: float
    p: float
    n: int  # Number of differences in the longest list.
    min_attainable_p: float  # Smallest attainable p of a sign-flip test with this number of nonzero differences.
    reason: str


def one_sample_t(values: ArrayLike, *, skip_nan: bool = False) -> TestResult:
    """Test whether the mean of ``values`` (one-dimensional) is 0, by Student's two-sided t-test.

    Statistic and p are NaN with fewer than two values, or if all values are equal. ``skip_nan`` excludes NaN. Raises
    InputError: There are NaN without ``skip_nan``, or ``values`` is not one-dimensional.
    """
    values = checks.check_sample(values, "values", skip_nan)
    if values.size < 2 or checks.constant(values):
        return TestResult(np.nan, np.nan, values.size)
    statistic, p = stats.ttest_1samp(values, 0)
    return TestResult(float(statistic), float(p), values.size)


def sign_flip(values: ArrayLike, replicates: int = 10_000, *, seed: int | np.random.Generator) -> TestResult:
    """Test whether ``values`` (one-dimensional) are symmetric about 0, by a two-sided sign-flip test.

    ``statistic`` is the mean. p is the share of sign patterns whose mean is at least as far from 0. It is exact for up
    to 16 nonzero values, and for multiples of one step, such as differences of counts. Otherwise, it is (hits + 1) /
    (replicates + 1) for random patterns (Phipson & Smyth 2010). p is NaN without values, and 1 if all values are 0.
    Raises InputError: There are NaN, ``values`` is not one-dimensional, or there is no seed.
    """
    values = checks.check_sample(values, "values")
    replicates, rng = checks.replicate_count(replicates), checks.generator(seed)
    if values.size == 0:
        return TestResult(np.nan, np.nan, 0)
    # The sign of 0 has no effect.
    nonzero = values[values != 0]
    n, observed_sum, total = nonzero.size, abs(nonzero.sum()), np.abs(nonzero).sum()
    # Patterns that give the same sum in another order of addition must count as ties.
    threshold = observed_sum - 1e-12 * total
    if n <= EXACT_UP_TO:
        flips = ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).astype(bool)
        p = np.mean(np.abs(np.where(flips, -nonzero, nonzero).sum(axis=1)) >= threshold)
    elif total <= MOST_COUNTED * (step := _step(np.abs(nonzero))):
        p = _tail_probability(np.rint(np.abs(nonzero) / step).astype(int), int(np.rint(observed_sum / step)))
    else:
        hits, n_remaining = 0, replicates
        while n_remaining:
            size = min(n_remaining, max(1, CELLS_PER_BATCH // n))
            signs = rng.integers(2, size=(size, n), dtype=np.int8) * 2 - 1
            hits += np.count_nonzero(np.abs(signs @ nonzero) >= threshold)
            n_remaining -= size
        p = (hits + 1) / (replicates + 1)
    return TestResult(float(values.mean()), float(p), values.size)


def _step(sizes: np.ndarray) -> float:
    """Return the largest step of which all ``sizes`` (above 0) are multiples, up to rounding; 0 if it is tiny."""
    # Shares are rounded when they are computed, and again when they are subtracted.
    rounding = 1e-9 * float(sizes.max())

    def common_divisor(a: float, b: float) -> float:
        while b > rounding:
            a, b = b, abs(remainder(a, b))
        return a

    step = reduce(common_divisor, np.unique(sizes).tolist())
    # Rounding errors add up, so the step is accepted only if all sizes are close to a multiple of it.
    multiples = sizes / step
    return step if (np.abs(multiples - np.rint(multiples)) < 1e-4).all() else 0.0


def _tail_probability(sizes: np.ndarray, minimum: int) -> float:
    """Return the probability that whole numbers with random signs add up to ``minimum`` or more in absolute value."""
    # Probabilities of all sums, from the lowest to the highest. Sizes are added in turn; their signs are binomial.
    chances = np.ones(1)
    for size, n in zip(*np.unique(sizes[sizes > 0], return_counts=True), strict=True):
        previous, chances = chances, np.zeros(len(chances) + 2 * size * n)
        for k, chance in enumerate(stats.binom.pmf(np.arange(n + 1), n, 0.5)):
            chances[2 * size * k :][: len(previous)] += chance * previous
    sums = np.arange(len(chances)) - len(chances) // 2
    return min(1.0, float(chances[np.abs(sums) >= minimum].sum()))


def paired_difference(*lists: ArrayLike, confidence: float = 0.95) -> PairedDifference:
    """Test whether paired differences (one-dimensional, any unit) are 0 on average, with the interval of their mean.

    Each limit is Student's or Hall's skewness-corrected limit, whichever is farther from the mean. p is the level at
    which the interval reaches 0, but at least the smallest attainable p of a sign-flip test. Limits and p are missing
    if fewer than :func:`min_units` differences are nonzero, or if all differences are equal. For several ``lists``, the
    mean of their means is tested, as if they were fully dependent. The coverage of a nominal 95% interval is 94.2–98%
    with 6 to 62 differences, even if these are exponential.

    Source: Hall (1992), J. R. Stat. Soc. B 54, 221–228, the cubic transformation. Raises InputError: There are NaN, a
    list is not one-dimensional, or the confidence is not between 0 and 1.
    """
    lists = [checks.check_sample(values, "differences") for values in lists]
    alpha = 1 - checks.confidence_level(confidence)
    n, n_nonzero = max(v.size for v in lists), max(np.count_nonzero(v) for v in lists)
    mean = float(np.mean([v.mean() for v in lists])) if all(v.size for v in lists) else np.nan
    min_p, n_required = (2 * 0.5**n_nonzero if n_nonzero else np.nan), min_units(alpha)

    def untested(reason: str) -> PairedDifference:
        return PairedDifference(mean, np.nan, np.nan, np.nan, n, min_p, reason)

    if n < n_required or any(v.size < 2 for v in lists):
        return untested(f"n is {n}; this test requires {n_required} or more")
    if n_nonzero < n_required:
        return untested(f"{n_nonzero} of {n} units differ; this test requires {n_required} or more")
    if any(checks.constant(v) for v in lists):
        return untested("every unit differs by the same amount")
    summaries = [(v.size, float(v.mean()), float(v.std(ddof=1)), float(stats.skew(v))) for v in lists]

    def limit(level: float, side: float) -> float:
        return sum(_limit(*summary, level, side) for summary in summaries) / len(summaries)

    def distance(log_level: float) -> float:
        """Return the distance from 0 of the limit nearer to 0; positive on the side of the mean."""
        return np.sign(mean) * limit(np.exp(log_level), -np.sign(mean))

    log_p = 0.0
    if distance(0) > 0:
        log_p = brentq(distance, _LEAST_LOG, 0, xtol=1e-9) if distance(_LEAST_LOG) < 0 else _LEAST_LOG
    p = max(float(np.exp(log_p)), min_p)
    return PairedDifference(mean, limit(alpha, -1), limit(alpha, 1), p, n, min_p, "")


def _limit(n: int, mean: float, sd: float, gamma: float, level: float, side: float) -> float:
    """Return the lower (``side`` -1) or upper (1) limit at ``level``: Student's or Hall's, whichever is farther."""
    t = side * stdtrit(n - 1, level / 2) / np.sqrt(n)
    # Hall's T + γT²/3 + γ²T³/27 + γ/6n, solved for T.
    hall_t = 3 * (np.cbrt(1 + gamma * (t - gamma / (6 * n))) - 1) / gamma if abs(gamma) > 1e-6 else t
    return float(mean - sd * (min(t, hall_t) if side > 0 else max(t, hall_t)))


@checks.keep_labels
def adjust(p_values: ArrayLike, method: str = "holm") -> np.ndarray:
    """Return ``p_values`` (any shape) adjusted for the number of tests, in the same shape.

    ``method`` is ``holm`` (family-wise error rate; Holm 1979) or ``benjamini_hochberg`` (false discovery rate;
    Benjamini & Hochberg 1995). NaN stays NaN and is not counted as a test. Raises InputError: A p-value is outside 0–1.
    UnknownNameError: The method is unknown.
    """
    checks.one_of(method, ADJUSTMENTS, "adjustment")
    adjusted = checks.check_shares(p_values, "p_values", allow_nan=True)
    has_p = ~np.isnan(adjusted)
    p = adjusted[has_p]
    if method == "holm":
        # Not from statsmodels, which runs the garbage collector in each call (0.1 s).
        order = np.argsort(p)
        steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
        adjusted[has_p] = np.minimum(steps, 1)[np.argsort(order)]
    elif p.size:
        adjusted[has_p] = stats.false_discovery_control(p)
    return adjusted


def adjust_families(table: pd.DataFrame, family: list[str], p: str = "p") -> pd.DataFrame:
    """Return ``table`` with two columns of p-values adjusted within each family: ``p_holm`` and ``p_bh``.

    A family is the set of rows with the same values in the columns ``family``; both methods are those of
    :func:`adjust`. ``p`` is the column of p-values, and the first part of the new names.
    """
    family_p = table.groupby(family)[p]
    methods = {"holm": "holm", "bh": "benjamini_hochberg"}
    return table.assign(**{f"{p}_{suffix}": family_p.transform(adjust, method) for suffix, method in methods.items()})


@checks.keep_labels
def min_binomial_p(n: ArrayLike) -> np.ndarray:
    """Return the smallest attainable p of an exact binomial test of one half with ``n`` observations, elementwise.

    It is NaN if ``n`` is 0. Raises InputError: A value is negative or a fraction.
    """
    _, n = checks.check_counts(0, n)
    return np.where(n > 0, np.minimum(1.0, 2 * 0.5 ** n.astype(float)), np.nan)[()]


@checks.keep_labels
def min_fisher_p(first: ArrayLike, second: ArrayLike) -> np.ndarray:
    """Return the smallest attainable two-sided p of Fisher's exact test for groups of these sizes, elementwise.

    It is attained if the groups have no outcome in common: 1 / (number of ways to choose the first group), or twice
    this value if both groups are equally large. It is NaN if a group is empty. Raises InputError: A value is negative
    or a fraction.
    """

    def min_p(a: int, b: int) -> float:
        return min(1.0, (2 if a == b else 1) / comb(a + b, a)) if a and b else np.nan

    sizes = checks.align(first=first, second=second)
    return np.vectorize(min_p, otypes=[float])(*(checks.check_counts(0, n)[1] for n in sizes))[()]


def min_units(level: float = 0.05, test: str = "sign") -> int:
    """Return the minimum number of units (occupations, prompts, people, …) for a test at a ``level`` (0–1).

    ``test`` is one of :data:`TESTS`. For ``sign``, it is the number below which no result of a sign-flip test can be
    significant: 6 at 5%, and 8 at 1%. For ``t``, it is 5 at any level. Student's t-test can be significant with fewer
    units, but would then depend on the assumption of normal means. Raises UnknownNameError: The test is unknown.
    """
    checks.one_of(test, TESTS, "test")
    return FEWEST_FOR_T if test == "t" else int(np.log2(2 / level)) + 1


def can_be_significant(min_p: ArrayLike, level: float = 0.05) -> bool:
    """Return whether any test with these smallest attainable p-values can be significant after Holm's correction.

    The p-values have any shape; NaN is not counted as a test. Raises InputError: A p-value is outside 0–1, or the level
    is not between 0 and 1.
    """
    if not 0 < level < 1:
        raise InputError(f"level must be between 0 and 1, for example 0.05, got {level!r}.")
    return bool((adjust(min_p) < level).any())
