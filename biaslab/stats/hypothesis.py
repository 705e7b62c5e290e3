"""Tests of a mean, of a table of counts, and corrections for several tests at once."""

from __future__ import annotations

from functools import reduce
from math import remainder
from typing import NamedTuple

import numpy as np
from scipy import stats

from biaslab.ground.errors import InputError
from biaslab.stats import checks

ADJUSTMENTS = ("holm", "benjamini_hochberg")
LEAST_EXPECTED = 5  # counts expected in a cell below which a chi-square test is not valid
EXACT_UP_TO = 16  # values, that is 2**16 = 65 536 patterns
CELLS_PER_BATCH = 1_000_000
MOST_COUNTED = 50_000  # total, in steps that values share, up to which their sums are counted out


class TestResult(NamedTuple):
    """A test statistic, its two-sided p-value and the number of values."""

    __test__ = False  # not a test class, whatever its name says to pytest

    statistic: float
    p: float
    n: int


class ChiSquare(NamedTuple):
    """Pearson's chi-square; ``valid`` when every expected count reaches 5, ``reason`` says why not."""

    statistic: float
    p: float
    dof: int
    n: int
    min_expected: float
    valid: bool
    reason: str


def one_sample_t(values, *, skip_nan: bool = False) -> TestResult:
    """Test whether the mean of ``values`` (one-dimensional) is 0, two-sided Student t.

    Fewer than two values, or values that are all equal, have no t: statistic and p are NaN. NaN raises
    InputError unless ``skip_nan`` leaves it out.
    """
    values = checks.sample(values, "values", skip_nan)
    if values.size < 2 or checks.constant(values):
        return TestResult(np.nan, np.nan, values.size)
    found = stats.ttest_1samp(values, 0)
    return TestResult(float(found.statistic), float(found.pvalue), values.size)


def sign_flip(values, replicates: int = 10_000, *, seed) -> TestResult:
    """Test whether ``values`` (one-dimensional) are symmetric about 0 by flipping their signs, two-sided.

    ``statistic`` is their mean; p is the share of sign patterns whose mean is at least as far from 0. It is exact up to
    16 values other than 0, and for multiples of one step, as are differences of counts or of shares of few images; of
    others, ``replicates`` random patterns are drawn from ``seed`` and p = (hits + 1) / (replicates + 1), which keeps
    the test valid (Phipson & Smyth 2010). No values give NaN, zeros alone 1. NaN raises InputError.
    """
    values = checks.sample(values, "values")
    replicates, rng = checks.replicate_count(replicates), checks.generator(seed)
    if values.size == 0:
        return TestResult(np.nan, np.nan, 0)
    # A sign changes nothing about 0.
    moving = values[values != 0]
    n, observed, total = moving.size, abs(moving.sum()), np.abs(moving).sum()
    # Patterns that give the same sum in another order of addition must count as ties.
    least = observed - 1e-12 * total
    if n <= EXACT_UP_TO:
        flipped = ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).astype(bool)
        p = np.mean(np.abs(np.where(flipped, -moving, moving).sum(axis=1)) >= least)
    elif total <= MOST_COUNTED * (step := _step(np.abs(moving))):
        p = _counted_out(np.rint(np.abs(moving) / step).astype(int), int(np.rint(observed / step)))
    else:
        hits, left = 0, replicates
        while left:
            size = min(left, max(1, CELLS_PER_BATCH // n))
            signs = rng.integers(2, size=(size, n), dtype=np.int8) * 2 - 1
            hits += np.count_nonzero(np.abs(signs @ moving) >= least)
            left -= size
        p = (hits + 1) / (replicates + 1)
    return TestResult(float(values.mean()), float(p), values.size)


def _step(sizes: np.ndarray) -> float:
    """Return the largest step that all of some sizes above 0 are multiples of, but for rounding; 0 if it is tiny."""
    # Shares are rounded where they are divided, and again where they are subtracted.
    rounding = 1e-9 * float(sizes.max())

    def common(a: float, b: float) -> float:
        while b > rounding:
            a, b = b, abs(remainder(a, b))
        return a

    step = reduce(common, np.unique(sizes).tolist())
    # Many roundings add up: what is left is a multiple of the step only where all sizes are close to one.
    multiples = sizes / step
    return step if (np.abs(multiples - np.rint(multiples)) < 1e-4).all() else 0.0


def _counted_out(sizes: np.ndarray, least: int) -> float:
    """Return the chance that whole numbers with random signs add up to ``least`` or more, either way."""
    # Chances of sums from the lowest to the highest: of one size after the other, whose signs are binomial.
    chances = np.ones(1)
    for size, n in zip(*np.unique(sizes[sizes > 0], return_counts=True), strict=True):
        before, chances = chances, np.zeros(len(chances) + 2 * size * n)
        for k, chance in enumerate(stats.binom.pmf(np.arange(n + 1), n, 0.5)):
            chances[2 * size * k :][: len(before)] += chance * before
    sums = np.arange(len(chances)) - len(chances) // 2
    return min(1.0, float(chances[np.abs(sums) >= least].sum()))


def chi_square(table) -> ChiSquare:
    """Test whether the rows and columns of ``table`` (two-dimensional counts) are independent.

    Pearson's statistic without continuity correction. ``valid`` is true when every expected count is at least 5. Where
    a row or column is empty, or there are fewer than 2 of either, there is nothing to test: statistic and p are NaN and
    ``reason`` says why. Raises InputError for another shape, negative counts, fractions or NaN.
    """
    table = checks.whole(table, "table")
    if table.ndim != 2:
        raise InputError(f"table must have rows and columns, got shape {table.shape}.")
    rows, columns = table.shape
    dof, n = max(rows - 1, 0) * max(columns - 1, 0), int(table.sum())
    if dof == 0:
        reason = f"a test needs 2 x 2 counts or more, not {rows} x {columns}"
        return ChiSquare(np.nan, np.nan, 0, n, np.nan, False, reason)
    for axis, margin in ((1, "row"), (0, "column")):
        empty = np.flatnonzero(table.sum(axis=axis) == 0)
        if empty.size:
            return ChiSquare(np.nan, np.nan, dof, n, 0.0, False, f"{margin} {empty[0]} is empty")
    found = stats.chi2_contingency(table, correction=False)
    least = float(found.expected_freq.min())
    reason = "" if least >= LEAST_EXPECTED else f"an expected count of {least:.3g} is below {LEAST_EXPECTED}"
    return ChiSquare(float(found.statistic), float(found.pvalue), dof, n, least, not reason, reason)


def adjust(p_values, method: str = "holm") -> np.ndarray:
    """Return ``p_values`` (any shape) adjusted for being that many tests, in the same shape.

    ``method``: ``holm`` (family-wise error; Holm 1979) or ``benjamini_hochberg`` (false discovery rate;
    1995). NaN stay NaN and are not counted as tests. Raises InputError outside 0–1 and UnknownNameError for a
    method.
    """
    checks.one_of(method, ADJUSTMENTS, "adjustment")
    given = checks.numbers(p_values, "p_values")
    known = ~np.isnan(given)
    adjusted = np.full(given.shape, np.nan)
    if known.any():
        tested = checks.shares(given[known], "p_values")
        adjusted[known] = _holm(tested) if method == "holm" else stats.false_discovery_control(tested)
    return adjusted


def _holm(p: np.ndarray) -> np.ndarray:
    """Return p-values (n,) adjusted by Holm's steps; statsmodels collects garbage each time, a tenth of a second."""
    order = np.argsort(p)
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return np.minimum(steps, 1)[np.argsort(order)]
