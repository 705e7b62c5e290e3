"""Tables of counts: rows pooled by hand, and coverage of Cramér's V."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from biaslab import stats


def test_pool_rare_by_hand():
    # Two sets of 100 and 50 objects: an object is expected in the smaller one a third of its total times, so it
    # needs 15. "15" and "135" stay apart; nothing is left to pool.
    exact, pooled = stats.pool_rare(np.array([[90, 45], [10, 5]]))
    assert (exact.tolist(), pooled) == ([[90, 45], [10, 5]], 0)
    # 14 and 4 are too rare (4.67 and 1.33 expected) and enough together (6).
    table, pooled = stats.pool_rare(np.array([[3, 1], [88, 44], [9, 5], [0, 0]]))
    assert (table.tolist(), pooled) == ([[88, 44], [12, 6]], 2)
    # A rest of 4 is too rare even together, so the rarest common object joins it.
    table, pooled = stats.pool_rare(np.array([[3, 1], [70, 35], [27, 14]]))
    assert (table.tolist(), pooled) == ([[70, 35], [30, 15]], 2)
    empty, pooled = stats.pool_rare(np.zeros((0, 2), dtype=int))
    assert (len(empty), pooled) == (0, 0)


def test_cramers_v_covers_a_known_difference():
    """300 samples of 2 x 4 tables whose V is known; 95 % intervals."""
    rng = np.random.default_rng(2)
    a, b = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.3, 0.3, 0.2, 0.2])
    middle = (a + b) / 2
    # V of two equally large sets: sqrt(sum of squared deviations over expectations), with n counted over both.
    true = np.sqrt(((a - middle) ** 2 / middle).sum())
    found = []
    for _ in range(300):
        table = np.stack([rng.multinomial(400, a), rng.multinomial(400, b)])
        test = scipy_stats.chi2_contingency(table, correction=False)
        found.append(stats.cramers_v(test.statistic, 3, 800, 2))
    value, low, high, _ = np.array(found).T
    assert np.mean((low <= true) & (true <= high)) == pytest.approx(0.95, abs=0.03)
    assert value.mean() == pytest.approx(true, abs=0.01)
    same = stats.cramers_v(0.5, 3, 800, 2)
    assert (same.value, same.ci_low) == (0, 0) and same.ci_high > 0
    assert np.isnan(stats.cramers_v(np.nan, 3, 800, 2).value)
