"""The least p of each test, against every outcome that there is, and what can be significant after correction."""

from itertools import product

import numpy as np
import pytest
from scipy import stats as scipy_stats

from biaslab import stats
from biaslab.ground.errors import InputError


@pytest.mark.parametrize("n", [1, 2, 6, 11])
def test_no_count_has_a_smaller_binomial_p(n):
    k = np.arange(n + 1)
    p = 2 * np.minimum(scipy_stats.binom.cdf(k, n, 0.5), scipy_stats.binom.sf(k - 1, n, 0.5))
    assert stats.least_binomial_p(n) == pytest.approx(min(1, p.min()))


@pytest.mark.parametrize(("first", "second"), [(1, 1), (3, 40), (6, 6), (3, 6)])
def test_no_table_has_a_smaller_p_by_fisher(first, second):
    tables = product(range(first + 1), range(second + 1))
    least = min(scipy_stats.fisher_exact([[a, first - a], [b, second - b]])[1] for a, b in tables)
    assert stats.least_fisher_p(first, second) == pytest.approx(least)


@pytest.mark.parametrize("method", ["holm"])
def test_no_outcome_of_several_tests_has_a_smaller_corrected_p(method):
    # Three tests with 1, 3 and 6 observations: every outcome of all; k and n - k have the same p.
    n = [1, 3, 6]
    outcomes = product(*([float(scipy_stats.binomtest(k, size).pvalue) for k in range(size // 2 + 1)] for size in n))
    corrected = np.array([stats.adjust(p, method) for p in outcomes])
    least = stats.adjust(stats.least_binomial_p(n), method)
    assert least == pytest.approx(corrected.min(axis=0))
    for level in (0.05, 0.1, 0.2):
        assert stats.attainable(stats.least_binomial_p(n), level) == (corrected < level).any()


def test_a_verdict_takes_as_many_units_as_exact_sign_flips():
    # 2 * 0.5**n is below 1 / 100 for n = 8 and below 1e-6 for n = 21 (2**20 = 1,048,576).
    assert [stats.fewest_units(level) for level in (0.05, 0.01, 1e-6)] == [6, 8, 21]


def test_nothing_is_attainable_without_tests():
    assert not stats.attainable([])
    assert not stats.attainable([np.nan, 0.2])
    assert np.isnan(stats.least_binomial_p(0)) and np.isnan(stats.least_fisher_p(0, 3))
    with pytest.raises(InputError, match="level must lie between 0 and 1"):
        stats.attainable([0.1], 5)
