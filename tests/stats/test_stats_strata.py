"""Means over strata that count alike: by hand, and short simulations (benchmarks/coverage_custom.py has whole ones)."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from biaslab import stats


def test_the_mean_counts_strata_alike_and_leaves_out_empty_ones():
    found = stats.strata_mean([1, 8, 0], [2, 10, 0])
    assert found.value == pytest.approx(0.65) and found.n == 12
    assert np.isnan(stats.strata_mean([0], [0]).value)


def test_one_large_stratum_has_wilsons_limits():
    found, known = (stats.strata_mean([300], [1000]), scipy_stats.binomtest(300, 1000).proportion_ci(method="wilson"))
    assert (found.ci_low, found.ci_high) == pytest.approx(tuple(known), abs=0.0005)


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_limits_hold_the_mean_of_many_small_strata(share):
    rng = np.random.default_rng(4)
    held = []
    for _ in range(400):
        n = rng.integers(1, 6, 10)
        found = stats.strata_mean(rng.binomial(n, share), n)
        held.append(found.ci_low <= share <= found.ci_high)
    # 95 % less four standard errors of 400 studies.
    assert np.mean(held) > 0.95 - 4 * np.sqrt(0.05 * 0.95 / 400)


def test_distances_from_one_centre_are_those_of_mean_mad():
    rng = np.random.default_rng(5)
    count = rng.binomial(20, rng.uniform(0, 1, 12))
    known = stats.mean_mad(np.column_stack([count, 20 - count]))
    assert stats.mean_deviation(count, np.full(12, 20), 0.5)[:4] == pytest.approx(known[:4])


def test_each_stratum_has_a_centre_of_its_own():
    center = np.r_[np.full(10, 0.2), np.full(10, 0.8)]
    at_it = stats.mean_deviation((center * 50).astype(int), np.full(20, 50), center)
    away = stats.mean_deviation(((1 - center) * 50).astype(int), np.full(20, 50), center)
    assert at_it.value < 0.02 < away.ci_low and at_it.p == 1 and away.p < 0.001
    # What centres leave open widens the interval.
    wider = stats.mean_deviation(((1 - center) * 50).astype(int), np.full(20, 50), center, error=0.1)
    assert wider.ci_high - wider.ci_low > away.ci_high - away.ci_low
