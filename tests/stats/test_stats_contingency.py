"""Tables of counts: rows pooled by hand, labels permuted against all orders, and coverage of Cramér's V."""

from itertools import permutations, product

import numpy as np
import pytest
from scipy import sparse
from scipy import stats as scipy_stats

from biaslab import stats


def test_pool_rare_matches_hand_values():
    # Two sets of 100 and 50 objects: an object is expected in the smaller one a third of its total times, so it
    # needs 15. "15" and "135" stay apart; nothing is left to pool.
    exact, pooled, _ = stats.pool_rare(np.array([[90, 45], [10, 5]]))
    assert (exact.tolist(), pooled) == ([[90, 45], [10, 5]], 0)
    # 14 and 4 are too rare (4.67 and 1.33 expected) and enough together (6).
    table, pooled, rows = stats.pool_rare(np.array([[3, 1], [88, 44], [9, 5], [0, 0]]))
    assert (table.tolist(), pooled, rows.tolist()) == ([[88, 44], [12, 6]], 2, [1, 0, 1, -1])
    # A rest of 4 is too rare even together, so the rarest common object joins it.
    table, pooled, _ = stats.pool_rare(np.array([[3, 1], [70, 35], [27, 14]]))
    assert (table.tolist(), pooled) == ([[70, 35], [30, 15]], 2)
    empty, pooled, _ = stats.pool_rare(np.zeros((0, 2), dtype=int))
    assert (len(empty), pooled) == (0, 0)


@pytest.mark.long
def test_cramers_v_covers_known_difference():
    """150 samples of 2 x 4 tables whose V is known; 95% intervals."""
    rng = np.random.default_rng(2)
    a, b = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.3, 0.3, 0.2, 0.2])
    middle = (a + b) / 2
    # V of two equally large sets: sqrt(sum of squared deviations over expectations), with n counted over both.
    true = np.sqrt(((a - middle) ** 2 / middle).sum())
    values = []
    for _ in range(150):
        table = np.stack([rng.multinomial(400, a), rng.multinomial(400, b)])
        test = scipy_stats.chi2_contingency(table, correction=False)
        values.append(stats.cramers_v(test.statistic, 3, 800, 2))
    value, low, high, _ = np.array(values).T
    assert np.mean((low <= true) & (true <= high)) == pytest.approx(0.95, abs=0.045)
    assert value.mean() == pytest.approx(true, abs=0.01)
    same = stats.cramers_v(0.5, 3, 800, 2)
    assert (same.value, same.ci_low) == (0, 0) and same.ci_high > 0
    assert np.isnan(stats.cramers_v(np.nan, 3, 800, 2).value)


def every_order(counts):
    """Return the share of all orders of the sets within cases whose chi-square is as large as that of the given one."""
    sets, cases, _ = counts.shape
    values = []
    for orders in product(permutations(range(sets)), repeat=cases):
        table = sum(counts[list(order), case] for case, order in enumerate(orders)).T
        table = table[:, table.sum(axis=0) > 0]
        values.append(scipy_stats.chi2_contingency(table, correction=False).statistic)
    return np.mean(np.array(values) >= values[0] * (1 - 1e-9))


@pytest.mark.parametrize(("sets", "cases"), [(2, 6), (3, 4)])
def test_permuted_chi_square_matches_enumeration(sets, cases, monkeypatch):
    rng = np.random.default_rng(4)
    counts = (
        rng.poisson(3 * rng.dirichlet(np.full(3, 9.0), size=sets)[:, None], (sets, cases, 3))
        + np.eye(3, dtype=int)[rng.integers(3, size=cases)]
    )
    exact = every_order(counts)
    assert 0.02 < exact < 0.98
    # So few orders are all enumerated, also with additional cases that are equal in all sets.
    assert stats.permuted_chi_square(counts, 9, seed=1) == pytest.approx(exact)
    # The order of sets, cases and kinds has no effect, nor have kinds that never occur.
    other = np.pad(counts[::-1, ::-1, ::-1], ((0, 0), (0, 0), (1, 2)))
    assert stats.permuted_chi_square(other, 9, seed=2) == pytest.approx(exact)
    assert stats.permuted_chi_square([sparse.coo_array(c) for c in counts], 9, seed=1) == pytest.approx(exact)
    same = np.tile(rng.integers(3, size=(40, 3)), (sets, 1, 1))
    more = np.concatenate([counts, same], axis=1)
    exact_small = stats.permuted_chi_square(more, 9, seed=1)
    monkeypatch.setattr("biaslab.stats.contingency.MOST_ENUMERATED", 1)
    sampled_p = stats.permuted_chi_square(counts, 20_000, seed=1)
    assert sampled_p == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 20_000))
    sampled_p = stats.permuted_chi_square(more, 20_000, seed=1)
    assert sampled_p == pytest.approx(exact_small, abs=4 * np.sqrt(exact_small * (1 - exact_small) / 20_000))


def test_permuted_chi_square_edge_cases():
    identical_sets = np.tile([[2, 3]], (2, 5, 1))
    assert stats.permuted_chi_square(identical_sets, 99, seed=0) == 1
    # One set has all dogs, the other all cats: but for all swapped at once, no order is as far.
    disjoint_sets = np.array([[[1, 0]] * 30, [[0, 1]] * 30])
    # Ten times as many orders are drawn, since so few of the first are.
    assert stats.permuted_chi_square(disjoint_sets, 99, seed=0) == 1 / 991
    assert np.isnan(stats.permuted_chi_square(identical_sets[..., :1], 99, seed=0))
    assert np.isnan(stats.permuted_chi_square(identical_sets[:, :1], 99, seed=0))
