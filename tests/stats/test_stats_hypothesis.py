"""Tests of a mean, of tables and of many p-values, against scipy, enumeration and hand-worked numbers."""

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats
from statsmodels.stats.multitest import multipletests

from biaslab import stats
from biaslab.errors import InputError, UnknownNameError


def test_one_sample_t_matches_hand_values():
    # 1, 2, 3, 4: mean 2.5, sd sqrt(5/3), t against 1 is 1.5 / sqrt(5/12) = 2.3238; scipy gives p for 3 df.
    got = stats.one_sample_t(pd.Series([0, 1, 2, 3]))
    assert got.statistic == pytest.approx(1.5 / np.sqrt(5 / 12))
    assert got.p == pytest.approx(2 * scipy_stats.t.sf(1.5 / np.sqrt(5 / 12), 3))
    assert got.n == 4


@pytest.mark.parametrize("values", [[], [3.0], [2.0, 2.0, 2.0], [0.1 + 0.2, 0.3, 0.3]])
def test_one_sample_t_without_spread_is_nan(values):
    got = stats.one_sample_t(values)
    assert np.isnan(got[:2]).all()
    assert got.n == len(values)


def test_sign_flip_matches_hand_values():
    # All of one sign: only the two extreme patterns of 2**5 reach the observed sum. Opposite values sum to 0.
    assert stats.sign_flip([2, 2, 2, 2, 2], seed=0).p == 2 / 32
    assert stats.sign_flip([0.1, 0.2, -0.3], seed=0).p == 1
    # 0.1 + 0.2 + 0.3 and its reverse differ in the last bit and must tie: 2 of 8 patterns.
    assert stats.sign_flip([0.1, 0.2, 0.3], seed=0).p == 0.25
    assert stats.sign_flip([0, 0], seed=0).p == 1


def test_sign_flip_of_counts_is_exact(monkeypatch):
    # Differences of 1 alone are the sign test: 26 of 40 or more, either way.
    ones = np.repeat([1, -1, 0], [26, 14, 500])
    expected = scipy_stats.binomtest(26, 40).pvalue
    assert stats.sign_flip(ones, 9, seed=0).p == pytest.approx(expected, rel=1e-12)
    rng = np.random.default_rng(2)
    mixed = rng.integers(-3, 5, size=30)
    exact_result = stats.sign_flip(mixed, 9, seed=0)
    with monkeypatch.context() as patched:
        patched.setattr("biaslab.stats.hypothesis.MOST_COUNTED", 0)
        sampled_result = stats.sign_flip(mixed, 100_000, seed=0)
    assert 0.01 < exact_result.p < 0.6
    assert exact_result.p == pytest.approx(sampled_result.p, abs=4 * np.sqrt(exact_result.p / 100_000))
    # Enumerated as they are, and counted out where zeros make them too many.
    few_values = rng.integers(-3, 5, size=12)
    assert stats.sign_flip(np.append(few_values, np.zeros(9)), 9, seed=0).p == pytest.approx(
        stats.sign_flip(few_values, 9, seed=0).p, rel=1e-12
    )
    assert stats.sign_flip(np.zeros(20), 9, seed=0).p == 1
    assert stats.sign_flip(np.full(20, 10_000), 9, seed=0).p == pytest.approx(2 / 2**20)
    assert stats.sign_flip(np.arange(9_000, 9_020), 9, seed=0).p == 0.1  # too large to count out: one of ten


@pytest.mark.parametrize("images", [9, 300])
def test_sign_flip_of_shares_is_exact(images):
    # Differences of shares of equally many images are those of counts, divided: 1/9 is no binary fraction.
    counts = np.random.default_rng(5).integers(-9, 12, size=60)
    expected = stats.sign_flip(counts, 9, seed=0).p
    assert 1e-4 < expected < 0.6
    for unit in (1, 100):
        assert stats.sign_flip(unit * counts / images, 9, seed=0).p == pytest.approx(expected, rel=1e-9)
    # Shares of 8 and of 9 images have a step of 1/72.
    mixed = np.r_[counts[:30] / 9, counts[30:] / 8]
    expected = stats.sign_flip(np.r_[8 * counts[:30], 9 * counts[30:]], 9, seed=0).p
    assert stats.sign_flip(mixed, 9, seed=0).p == pytest.approx(expected, rel=1e-9)


def test_sign_flip_sampled_agrees_with_enumeration(monkeypatch):
    values = np.random.default_rng(1).normal(0.4, 1, 14)
    exact = stats.sign_flip(values, seed=0).p
    monkeypatch.setattr("biaslab.stats.hypothesis.EXACT_UP_TO", 0)
    sampled_result = stats.sign_flip(values, replicates=200_000, seed=3)
    assert sampled_result.p == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 200_000))
    assert stats.sign_flip(values, replicates=200_000, seed=np.random.default_rng(3)).p == sampled_result.p
    # The +1: no p below 1 / (replicates + 1), even where no pattern drawn reaches the observed mean.
    assert stats.sign_flip(0.1 + 0.001 * np.random.default_rng(2).random(40), replicates=99, seed=0).p == 1 / 100


def test_sign_flip_requires_seed_and_replicates():
    got = stats.sign_flip([], seed=0)
    assert np.isnan(got[:2]).all()
    assert got.n == 0
    with pytest.raises(InputError) as caught:
        stats.sign_flip([1, 2], seed=None)
    assert str(caught.value) == "seed must be a whole number, for example seed=0, so that results are reproducible."
    with pytest.raises(InputError, match="replicates must be whole numbers of at least 2, got 0"):
        stats.sign_flip([1, 2], replicates=0, seed=0)


@pytest.mark.parametrize("table", [[[10, 20], [30, 40]], [[5, 9, 16], [20, 11, 8], [7, 7, 7]]])
def test_chi_square_matches_definition(table):
    table = np.array(table, dtype=float)
    expected = table.sum(1, keepdims=True) * table.sum(0) / table.sum()
    statistic = ((table - expected) ** 2 / expected).sum()
    dof = (table.shape[0] - 1) * (table.shape[1] - 1)
    got = stats.chi_square(pd.DataFrame(table))
    assert got[:2] == pytest.approx((statistic, scipy_stats.chi2.sf(statistic, dof)))
    assert got[2:] == (dof, table.sum(), True, "")


def test_chi_square_small_counts_are_invalid_with_reason():
    # Margins 4, 16 and 5, 15: the smallest expected count is 4 * 5 / 20 = 1.
    got = stats.chi_square([[1, 3], [4, 12]])
    assert (got.valid, got.reason) == (False, "an expected count of 1 is below 5")
    empty = stats.chi_square([[3, 0, 4], [5, 0, 6]])
    assert np.isnan(empty[:2]).all()
    assert empty[2:] == (2, 18, False, "column 1 is empty")
    assert stats.chi_square([[0, 0], [5, 6]]).reason == "row 0 is empty"
    single_column = stats.chi_square([[3], [4]])
    assert np.isnan(single_column.p)
    assert single_column.reason == "a test needs 2 x 2 counts or more, not 2 x 1"


@pytest.mark.long
@pytest.mark.parametrize(("method", "statsmodels_method"), [("holm", "holm"), ("benjamini_hochberg", "fdr_bh")])
def test_adjust_equals_statsmodels(method, statsmodels_method):
    rng = np.random.default_rng(4)
    for n in (1, 2, 7, 200):
        p = np.round(rng.random(n) ** 3, 2)  # With ties, zeros and ones.
        np.testing.assert_allclose(stats.adjust(p, method), multipletests(p, method=statsmodels_method)[1], atol=1e-15)


def test_adjust_ignores_nan_and_keeps_shape():
    p = np.array([[0.01, np.nan], [0.04, 0.5]])
    np.testing.assert_allclose(stats.adjust(p), [[0.03, np.nan], [0.08, 0.5]])
    assert stats.adjust([]).shape == (0,)
    assert np.isnan(stats.adjust(pd.Series([np.nan, np.nan]))).all()
    assert stats.adjust(0.2) == pytest.approx(0.2)


def test_adjust_invalid_method_or_p_is_refused():
    with pytest.raises(UnknownNameError, match=r"no adjustment named 'holmes'. Did you mean 'holm'\?"):
        stats.adjust([0.1], "holmes")
    with pytest.raises(InputError, match="p_values contains"):
        stats.adjust([0.1, 1.2])


# -- the least p of each test, against every outcome that there is --------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 6, 11])
def test_min_binomial_p_is_minimum_over_counts(n):
    k = np.arange(n + 1)
    p = 2 * np.minimum(scipy_stats.binom.cdf(k, n, 0.5), scipy_stats.binom.sf(k - 1, n, 0.5))
    assert stats.min_binomial_p(n) == pytest.approx(min(1, p.min()))


@pytest.mark.parametrize(("first", "second"), [(1, 1), (3, 40), (6, 6), (3, 6)])
def test_min_fisher_p_is_minimum_over_tables(first, second):
    tables = product(range(first + 1), range(second + 1))
    least = min(scipy_stats.fisher_exact([[a, first - a], [b, second - b]])[1] for a, b in tables)
    assert stats.min_fisher_p(first, second) == pytest.approx(least)


@pytest.mark.long
def test_can_be_significant_matches_enumeration():
    # Three tests with 1, 3 and 6 observations: every outcome of all; k and n - k have the same p.
    n = [1, 3, 6]
    outcomes = product(*([float(scipy_stats.binomtest(k, size).pvalue) for k in range(size // 2 + 1)] for size in n))
    corrected = np.array([stats.adjust(p, "holm") for p in outcomes])
    least = stats.adjust(stats.min_binomial_p(n), "holm")
    assert least == pytest.approx(corrected.min(axis=0))
    for level in (0.05, 0.1, 0.2):
        assert stats.can_be_significant(stats.min_binomial_p(n), level) == (corrected < level).any()


def test_min_units_matches_sign_flips():
    # 2 * 0.5**n is below 1 / 100 for n = 8 and below 1e-6 for n = 21 (2**20 = 1,048,576).
    assert [stats.min_units(level) for level in (0.05, 0.01, 1e-6)] == [6, 8, 21]


def test_can_be_significant_without_tests_is_false():
    assert not stats.can_be_significant([])
    assert not stats.can_be_significant([np.nan, 0.2])
    assert np.isnan(stats.min_binomial_p(0)) and np.isnan(stats.min_fisher_p(0, 3))
    with pytest.raises(InputError, match="level must be between 0 and 1"):
        stats.can_be_significant([0.1], 5)


# -- paired differences: test and interval agree, and follow from their definitions ---------------------------

RNG = np.random.default_rng(12)
SAMPLES = [
    RNG.normal(0.4, 1, 9),
    RNG.exponential(size=20) - 0.6,
    RNG.integers(-1, 2, 60).astype(float),
    -RNG.exponential(size=7),
]


def hall(values, mean):
    """Hall's statistic (1992, section 2) and its p by Student's t, straight from the formula."""
    n, gamma = len(values), np.mean((values - values.mean()) ** 3) / np.std(values) ** 3
    w = (values.mean() - mean) / values.std(ddof=1)
    bent = np.sqrt(n) * (w + gamma * w**2 / 3 + gamma**2 * w**3 / 27 + gamma / (6 * n))
    return 2 * scipy_stats.t.sf(abs(bent), n - 1)


@pytest.mark.parametrize("values", SAMPLES)
def test_paired_difference_is_wider_of_two_intervals(values):
    result = stats.paired_difference(values)
    student = scipy_stats.ttest_1samp(values, 0)
    low, high = student.confidence_interval(0.95)
    assert result.ci_low <= low + 1e-12 and result.ci_high >= high - 1e-12
    # Each end is where one of both tests has its level, and the other has no less.
    for end in (result.ci_low, result.ci_high):
        both = scipy_stats.ttest_1samp(values, end).pvalue, hall(values, end)
        assert max(both) == pytest.approx(0.05, abs=1e-9)
    least = 2 * 0.5 ** np.count_nonzero(values)
    assert result.p == pytest.approx(max(student.pvalue, hall(values, 0), least), rel=1e-6)
    assert result.difference == pytest.approx(values.mean()) and result.n == len(values)


@pytest.mark.parametrize(("values", "confidence"), list(product(SAMPLES, (0.5, 0.8, 0.9, 0.95))))
def test_paired_difference_p_agrees_with_interval(values, confidence):
    result = stats.paired_difference(values, confidence=confidence)
    assert (result.p < 1 - confidence) == (result.ci_low > 0 or result.ci_high < 0)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([1.0, 2, 3, 4, 5], "n is 5; this test requires 6 or more"),
        ([0.0] * 20 + [1.0, 2, 3, 4, 5], "5 of 25 units differ; this test requires 6 or more"),
        ([2.0] * 7, "every unit differs by the same amount"),
        ([0.0] * 9, "0 of 9 units differ; this test requires 6 or more"),
    ],
)
def test_paired_difference_too_few_has_reason(values, reason):
    result = stats.paired_difference(values)
    assert np.isnan([result.ci_low, result.ci_high, result.p]).all() and result.reason == reason
    assert result.difference == pytest.approx(np.mean(values))


def test_paired_difference_stricter_level_needs_more_units():
    values = np.arange(1.0, 8)
    assert stats.paired_difference(values).reason == ""
    # 7 of one sign have 2 of 128 patterns, 0.016.
    assert "requires 8" in stats.paired_difference(values, confidence=0.99).reason


def test_corrected_deviation_subset_is_mean_over_subsets():
    # 7 images, 5 of them women: all ways to choose 4.
    images = np.array([1] * 5 + [0] * 2)
    women = [sum(subset) for subset in combinations(images, 4)]
    expected = stats.corrected_absolute_deviation(women, 4).mean()
    assert stats.corrected_absolute_deviation(5, 7, subset_size=4) == pytest.approx(expected)
    full = stats.corrected_absolute_deviation(5, 7)
    assert stats.corrected_absolute_deviation(5, 7, subset_size=7) == pytest.approx(full)
    assert np.isnan(stats.corrected_absolute_deviation(0, 0, subset_size=0))
    # On average over 9 images that is what 4 images give, whatever the true share.
    for share in (0.5, 0.7, 0.95):
        k = np.arange(10)
        nine = scipy_stats.binom.pmf(k, 9, share) @ stats.corrected_absolute_deviation(k, 9, subset_size=4)
        four = scipy_stats.binom.pmf(k[:5], 4, share) @ stats.corrected_absolute_deviation(k[:5], 4)
        assert nine == pytest.approx(four)


def test_min_units_unknown_test_is_refused():
    # At least 2 * 0.5**6 = 0.031 for signs; Student's t test reaches any level, and is allowed from five units.
    assert [stats.min_units(level) for level in (0.05, 0.01)] == [6, 8]
    assert [stats.min_units(level, "t") for level in (0.05, 0.01)] == [5, 5]
    with pytest.raises(UnknownNameError, match="'z'"):
        stats.min_units(0.05, "z")
