"""Contingency tables: tests and effect sizes for differences between distributions, including those of matched sets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse, stats
from scipy.optimize import brentq

from biaslab.errors import InputError
from biaslab.stats import checks
from biaslab.stats.intervals import Estimate

LEAST_EXPECTED = 5  # expected count of a cell below which a chi-square test is not valid
CELLS_PER_BATCH = 1_000_000
MOST_ENUMERATED = 65_536  # maximum number of permutations that are all enumerated
FEW_HITS, MORE_DRAWS = 10, 10  # with fewer hits, the number of replicates is multiplied


class ChiSquare(NamedTuple):
    """Pearson's chi-square test; ``valid`` if every expected count is at least 5, otherwise with a ``reason``."""

    statistic: float
    p: float
    dof: int
    n: int
    valid: bool
    reason: str


def chi_square(table: ArrayLike) -> ChiSquare:
    """Test whether the rows and columns of ``table`` (two-dimensional counts) are independent.

    The test uses Pearson's statistic without continuity correction. Statistic and p are NaN if a row or column is
    empty, or with fewer than 2 rows or columns. Raises InputError: The shape is wrong, or counts are negative,
    fractions or NaN.
    """
    table = checks.check_whole(table, "table")
    if table.ndim != 2:
        raise InputError(f"table must have rows and columns, got shape {table.shape}.")
    rows, columns = table.shape
    dof, n = max(rows - 1, 0) * max(columns - 1, 0), int(table.sum())
    if dof == 0:
        reason = f"a test needs 2 x 2 counts or more, not {rows} x {columns}"
        return ChiSquare(np.nan, np.nan, 0, n, False, reason)
    for axis, margin in ((1, "row"), (0, "column")):
        empty_lines = np.flatnonzero(table.sum(axis=axis) == 0)
        if empty_lines.size:
            return ChiSquare(np.nan, np.nan, dof, n, False, f"{margin} {empty_lines[0]} is empty")
    statistic, p, _, expected = stats.chi2_contingency(table, correction=False)
    lowest = float(expected.min())
    reason = "" if lowest >= LEAST_EXPECTED else f"an expected count of {lowest:.3g} is below {LEAST_EXPECTED}"
    return ChiSquare(float(statistic), float(p), dof, n, not reason, reason)


def pool_rare(counts: np.ndarray) -> tuple[np.ndarray, int, np.ndarray]:
    """Pool the rows of ``counts``, (kinds, sets), that are too rare for :func:`chi_square` into one row.

    Returns the table with the rare kinds in its last row, the number of kinds in that row, and the row of each kind,
    ``(kinds,)``, which is -1 for kinds that never occur. If the expected counts of the last row would still be too
    small, it also contains the rarest of the common kinds.
    """
    counts = np.asarray(counts)
    totals = counts.sum(axis=1)
    order = np.argsort(-totals, kind="stable")[: np.count_nonzero(totals)]
    sets = counts.sum(axis=0)
    n_common = len(order)
    if n_common and sets.min() > 0:
        expected = totals[order] * sets.min() / sets.sum()
        n_common = int((expected >= LEAST_EXPECTED).sum())
        if n_common and 0 < expected[n_common:].sum() < LEAST_EXPECTED:
            n_common -= 1
    rows = np.full(len(counts), -1)
    rows[order] = np.minimum(np.arange(len(order)), n_common)
    table = np.zeros((min(n_common + 1, len(order)), counts.shape[1]), counts.dtype)
    np.add.at(table, rows[order], counts[order])
    return table, len(order) - n_common, rows


def permuted_chi_square(counts: Sequence, replicates: int = 9_999, *, seed: int | np.random.Generator) -> float:
    """Return the permutation p-value of a chi-square statistic for matched sets: labels are permuted within cases.

    The p-value of the chi-square distribution is too small for clustered occurrences and too large for matched sets.
    Here, the counts of each case are fixed, and only its set labels are permuted.

    ``counts`` contains one table for each set, ``(cases, kinds)``, as a dense or SciPy sparse array. A case, such as
    the images of a triplet's prompts, has the same row in all tables. If there are at most 65,536 permutations, all are
    enumerated. Otherwise, p is (hits + 1) / (n + 1) for n random permutations (Phipson and Smyth 2010), where n is
    ``replicates``, or 10 times as many if fewer than 10 of these are hits. p is NaN with fewer than two cases, or fewer
    than two kinds that occur. Raises InputError: ``replicates`` or ``seed`` is out of range.
    """
    replicates, rng = checks.replicate_count(replicates), checks.generator(seed)
    tables = checks.align(**{f"counts[{index}]": table for index, table in enumerate(counts)})
    sets = [sparse.csr_array(table, dtype=np.float32) for table in tables]
    observed_counts = np.stack([np.asarray(table.sum(axis=0)) for table in sets], axis=-1)
    occurs = observed_counts.sum(axis=1) > 0
    cases = sets[0].shape[0]
    if occurs.sum() < 2 or cases < 2:
        return float("nan")
    observed_counts, sets = observed_counts[occurs], [table[:, np.flatnonzero(occurs)].T.tocsr() for table in sets]
    threshold = _statistics(observed_counts[..., None])[0] * (1 - 1e-9)
    orders = np.array(list(permutations(range(len(sets)))), np.int8)
    moving = np.flatnonzero(sum(abs(table - sets[0]).sum(axis=0) for table in sets[1:]))
    exact = len(moving) * np.log(len(orders)) <= np.log(MOST_ENUMERATED) + 1e-9
    total = len(orders) ** len(moving) if exact else replicates
    size = max(1, CELLS_PER_BATCH // max(cases, len(observed_counts)))
    hits = n_done = 0
    while n_done < total:
        batch = np.arange(n_done, min(n_done + size, total))
        if exact:
            # Permuting cases that are the same in all sets changes nothing.
            order_codes = np.zeros((cases, len(batch)), int)
            order_codes[moving] = batch // len(orders) ** np.arange(len(moving))[:, None] % len(orders)
        else:
            order_codes = rng.integers(len(orders), size=(cases, len(batch)))
        assignments = orders[order_codes]
        slots = [
            sum(table @ (assignments[..., slot] == source).astype(np.float32) for source, table in enumerate(sets))
            for slot in range(len(sets) - 1)
        ]
        last_slot = observed_counts.sum(axis=1)[:, None] - sum(slots)
        hits += np.count_nonzero(_statistics(np.stack([*slots, last_slot], axis=1)) >= threshold)
        n_done += len(batch)
        # Here p is at most FEW_HITS / replicates in both stages, so the test stays valid.
        if not exact and n_done == replicates and hits < FEW_HITS:
            total = MORE_DRAWS * replicates
    return hits / total if exact else (hits + 1) / (total + 1)


def _statistics(tables: np.ndarray) -> np.ndarray:
    """Return Pearson's statistic of tables ``(kinds, sets, tables)`` with equal sums of kinds."""
    tables = tables.astype(float)
    shares = tables.sum(axis=0) / tables.sum(axis=(0, 1))
    expected = tables.sum(axis=1, keepdims=True) * shares
    # An empty set contributes nothing.
    terms = np.divide((tables - expected) ** 2, expected, out=np.zeros_like(tables), where=expected > 0)
    return terms.sum(axis=(0, 1))


def cramers_v(statistic: float, dof: int, n: int, smaller_side: int, confidence: float = 0.95) -> Estimate:
    """Return Cramér's V (0–1) of a chi-square statistic, corrected for its null expectation.

    V is sqrt(max(0, statistic - dof) / (n * (smaller_side - 1))) (Bergsma 2013). Its limits are those of the
    noncentrality parameter (Smithson 2003). ``smaller_side`` is the number of rows or of columns, whichever is smaller.
    V is NaN if the statistic is NaN.
    """
    if np.isnan(statistic) or n == 0:
        return Estimate(np.nan, np.nan, np.nan, n)
    tail = (1 - confidence) / 2
    ends = [_noncentrality(statistic, dof, p) for p in (1 - tail, tail)]
    squares = np.array([max(0.0, statistic - dof), *ends]) / (n * (smaller_side - 1))
    value, low, high = map(float, np.minimum(1, np.sqrt(squares)))
    return Estimate(value, low, high, n)


def _noncentrality(statistic: float, dof: int, probability: float) -> float:
    """Return the noncentrality for which a chi-square is below ``statistic`` with ``probability``; at least 0."""

    def excess(noncentrality: float) -> float:
        return float(stats.ncx2.cdf(statistic, dof, noncentrality)) - probability

    if excess(0.0) <= 0:
        return 0.0
    high = statistic + 1.0
    while excess(high) > 0:
        high *= 2
    return float(brentq(excess, 0.0, high, xtol=1e-9, rtol=1e-9))
