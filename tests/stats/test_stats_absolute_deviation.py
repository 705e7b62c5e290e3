"""Intervals of folded means and of shares with judge errors: by hand, by brute force and by other methods."""

import numpy as np
import pandas as pd
import pytest
from scipy import optimize
from scipy import stats as scipy_stats

from biaslab import stats
from biaslab.errors import InputError


def test_bias_aware_interval_without_bias_is_t_interval():
    low, high, p = stats.bias_aware_interval(1.2, 0.5, 0.0, 9)
    assert (low, high) == pytest.approx(scipy_stats.t.interval(0.95, 9, 1.2, 0.5))
    assert p == pytest.approx(2 * scipy_stats.t.sf(2.4, 9))


def test_bias_aware_interval_covers_under_worst_bias():
    # By Monte Carlo: the interval around T + 0.8 errors holds the truth in 95% of studies.
    low, high, _ = stats.bias_aware_interval(0.0, 1.0, 0.8, 12)
    draws = scipy_stats.t.rvs(12, size=400_000, random_state=1) + 0.8
    assert high == -low and np.mean(np.abs(draws) <= high) == pytest.approx(0.95, abs=0.002)
    # p is the level at which the limit reaches 0.
    level = optimize.brentq(lambda a: stats.bias_aware_interval(3.0, 1.0, 0.8, 12, 1 - a)[0], 0.001, 0.9)
    assert stats.bias_aware_interval(3.0, 1.0, 0.8, 12)[2] == pytest.approx(level)


def test_bounded_mean_adds_two_extreme_units():
    values = np.array([0.1, 0.2, 0.2, 0.3, 0.3, 0.4])
    result = stats.bounded_mean(values, (0.0, 0.5), 0.5)
    more = np.r_[values, 0.0, 0.5]
    low, high = scipy_stats.t.interval(0.95, 7, more.mean(), scipy_stats.sem(more))
    assert result.value == pytest.approx(0.25) and result.n == 6
    assert (result.ci_low, result.ci_high) == pytest.approx((max(low, 0), high))
    assert (result.p < 0.05) == (result.ci_low > 0)
    assert result.p == pytest.approx(scipy_stats.ttest_1samp(more, 0).pvalue)


def test_bounded_mean_equal_units_have_interval():
    equal_units = stats.bounded_mean([0.5] * 10, (0.0, 0.5), 0.5)
    assert equal_units.ci_low < 0.5 == equal_units.ci_high and equal_units.value == 0.5
    for n in (0, 1, 5):
        few_units = stats.bounded_mean([0.5] * n, (0.0, 0.5), 0.5)
        assert np.isnan([few_units.ci_low, few_units.ci_high, few_units.p]).all() and few_units.n == n
    assert np.isfinite(stats.bounded_mean([0.5] * 6, (0.0, 0.5), 0.5).p)
    assert np.isnan(stats.bounded_mean([0.5] * 6, (0.0, 0.5), 0.5, 0.99).p)


def worst_bias(n, center):
    """Return the largest bias over all shares, by brute force."""
    p, k = np.linspace(0, 1, 2001), np.arange(n + 1)
    mean = scipy_stats.binom.pmf(k, n, p[:, None]) @ stats.corrected_absolute_deviation(k, n, center)
    return np.abs(mean - np.abs(p - center)).max()


@pytest.mark.parametrize("n", [3, 9, 40, 250])
def test_mean_mad_bias_bounds_worst_case(n):
    women = np.random.default_rng(n).integers(0, n + 1, 12)
    result = stats.mean_mad(np.column_stack([women, n - women]))
    assert worst_bias(n, 0.5) <= result.bias + 1e-4 and result.bias < 1.1 * worst_bias(n, 0.5)
    assert result.value == pytest.approx(
        np.clip(stats.corrected_mad(np.column_stack([women, n - women])).mean(), 0, 0.5)
    )


def test_mean_mad_rows_of_unit_are_one_observation():
    rng = np.random.default_rng(3)
    counts = rng.multinomial(9, np.full(10, 0.1), 12)
    units = np.arange(12)
    once, thrice = stats.mean_mad(counts, units), stats.mean_mad(np.tile(counts, (3, 1)), np.tile(units, 3))
    assert thrice == pytest.approx(once) and once.n == 12
    # Without units, the twelve units would count as thirty-six.
    separate_units = stats.mean_mad(np.tile(counts, (3, 1)))
    assert separate_units.ci_high - separate_units.ci_low < once.ci_high - once.ci_low and separate_units.n == 36


@pytest.mark.parametrize(("n", "bins", "is_estimable"), [(1, 2, False), (3, 2, True), (4, 10, False), (6, 10, True)])
def test_mean_mad_few_images_are_not_estimable(n, bins, is_estimable):
    counts = np.eye(bins, dtype=int)[np.arange(20) % bins] * n
    result = stats.mean_mad(counts)
    assert np.isfinite(result.value) == np.isfinite(result.p) == is_estimable


def test_judge_corrected_deviation_corrects_judge_error():
    women = np.array([0, 1, 2, 2, 3, 4, 5, 7, 8, 9])
    n = np.full(10, 9)
    sure = stats.judge_corrected_deviation(women, n, 1.0, 1.0, 10**6, 10**6)
    plain = stats.mean_mad(np.column_stack([women, n - women]))
    assert sure[:4] == pytest.approx(plain[:4], abs=1e-4)
    # A judge of 0.9 and 0.8 calls 0.55 of an even split women, and shrinks deviations to 0.7 of themselves.
    many = np.full(12, 100_000)
    observed_result = stats.judge_corrected_deviation(
        np.full(12, 55_000) + 7_000 * np.tile([1, -1], 6), many, 0.9, 0.8, 10**6, 10**6
    )
    assert observed_result.value == pytest.approx(0.1, abs=1e-3)
    mean = stats.judge_corrected_mean([2 * 0.62 - 1] * 6 + [2 * 0.48 - 1] * 6, 0.9, 0.8, 200, 200)
    assert mean.value == pytest.approx(0.0, abs=1e-12)
    # By the delta method, by hand: values of sd 0.1462, and errors of 0.9 and 0.8 on 200 drawings.
    values = np.array([0.24] * 6 + [-0.04] * 6)
    likely = np.array([181 / 202, 161 / 202])
    error = np.sqrt(values.var(ddof=1) / 12 + (likely * (1 - likely) / 202).sum()) / 0.7
    assert (mean.ci_low, mean.ci_high) == pytest.approx(scipy_stats.t.interval(0.95, 11, 0, error))


def test_judge_corrected_uninformative_judge_is_refused():
    with pytest.raises(InputError, match="must exceed 1, got 1"):
        stats.judge_corrected_deviation([1], [2], 0.5, 0.5, 10, 10)
    with pytest.raises(InputError, match=r"must exceed 1, got 0\.9"):
        stats.judge_corrected_mean([0.1], 0.5, 0.4, 10, 10)


def test_folded_means_matches_brute_force():
    # Eight units and one column: all sign patterns are counted by brute force.
    values = np.array([[0.3], [0.5], [0.2], [0.4], [0.1], [-0.1], [0.6], [0.2]])
    result = stats.folded_means(values, replicates=20_000, seed=1)
    signs = 1 - 2 * ((np.arange(2**8)[:, None] >> np.arange(8)) & 1)
    random = np.abs(signs @ values[:, 0]) / 8
    assert result.value == pytest.approx(2.2 / 8) and result.n == 8
    assert result.null_mean == pytest.approx(random.mean(), abs=0.003)
    assert result.p == pytest.approx(np.mean(random >= 2.2 / 8 - 1e-12), abs=0.004)
    assert result.ci_low == pytest.approx(2.2 / 8 - np.quantile(random, 0.95), abs=0.02)
    assert result.ci_low <= result.corrected <= result.ci_high
    # Far from 0 nothing folds: the mean is its own correction.
    far = stats.folded_means(values + 5, 10.0, replicates=2000, seed=1)
    assert far.corrected == pytest.approx(far.value) == pytest.approx(5 + 2.2 / 8)


def test_folded_means_lower_limit_agrees_with_test():
    rng = np.random.default_rng(2)
    result = [
        stats.folded_means(rng.normal(0.15, 0.4, (12, 4)), replicates=199, seed=seed, confidence=0.9)
        for seed in range(60)
    ]
    rejected = [f.p < 0.1 for f in result]
    assert 5 < sum(rejected) < 55
    assert rejected == [f.ci_low > 0 for f in result]


def test_folded_means_degenerate_input():
    same = stats.folded_means(np.tile([[0.2, 0.0]], (7, 1)), replicates=500, seed=1)
    assert same.corrected == same.value == pytest.approx(0.1) and same.ci_low < 0.1 <= same.ci_high + 1e-9
    few_units = stats.folded_means(np.ones((5, 2)), replicates=500, seed=1)
    assert (
        few_units.value == 1
        and np.isnan([few_units.corrected, few_units.ci_low, few_units.p]).all()
        and few_units.n == 5
    )
    assert stats.folded_means(np.zeros((0, 3)), replicates=500, seed=1).n == 0


# -- means over strata that count alike (benchmarks/coverage_custom.py has whole simulations) --


def test_strata_mean_weighs_nonempty_strata_equally():
    result = stats.strata_mean([1, 8, 0], [2, 10, 0])
    assert result.value == pytest.approx(0.65) and result.n == 12
    assert np.isnan(stats.strata_mean([0], [0]).value)


def test_strata_mean_one_large_stratum_is_wilson():
    result, wilson_limits = (
        stats.strata_mean([300], [1000]),
        scipy_stats.binomtest(300, 1000).proportion_ci(method="wilson"),
    )
    assert (result.ci_low, result.ci_high) == pytest.approx(tuple(wilson_limits), abs=0.0005)


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_strata_mean_small_strata_cover_mean(share):
    rng = np.random.default_rng(4)
    is_covered = []
    for _ in range(400):
        n = rng.integers(1, 6, 10)
        result = stats.strata_mean(rng.binomial(n, share), n)
        is_covered.append(result.ci_low <= share <= result.ci_high)
    # 95% less four standard errors of 400 studies.
    assert np.mean(is_covered) > 0.95 - 4 * np.sqrt(0.05 * 0.95 / 400)


def test_mean_deviation_uses_center_per_stratum():
    center = np.r_[np.full(10, 0.2), np.full(10, 0.8)]
    at_it = stats.mean_deviation((center * 50).astype(int), np.full(20, 50), center)
    away = stats.mean_deviation(((1 - center) * 50).astype(int), np.full(20, 50), center)
    assert at_it.value < 0.02 < away.ci_low and at_it.p == 1 and away.p < 0.001
    # The error of centers widens the interval.
    wider = stats.mean_deviation(((1 - center) * 50).astype(int), np.full(20, 50), center, error=0.1)
    assert wider.ci_high - wider.ci_low > away.ci_high - away.ci_low


# -- shares corrected for a judge's error --------------------------------------------------------------------------


def test_corrected_shares_match_lang_reiczigel():
    # With z = 1.96 (z² = 3.8415), 410 of 1000, both references of 200:
    #   judged' = (410 + 1.9207) / 1003.8415 = 0.410344, sensitivity' = 181/202, specificity' = 161/202,
    #   J = 0.693069, p' = (0.410344 + 0.797030 - 1) / J = 0.299211,
    #   variances of the two references 0.0931526/202 = 0.00046115 and 0.1617733/202 = 0.00080086,
    #   shift = 7.6829 * (p' * 0.00046115 - (1 - p') * 0.00080086) = -0.0032518,
    #   var = 0.2419618/1003.8415 + p'² * 0.00046115 + (1 - p')² * 0.00080086 = 0.00067563,
    #   half = 1.95996 * sqrt(var) / J = 0.073507.
    got = stats.corrected_shares(410, 1000, 0.9, 0.8, 200, 200)
    assert got.ci_low == pytest.approx(0.299211 - 0.003252 - 0.073507, abs=2e-6)
    assert got.ci_high == pytest.approx(0.299211 - 0.003252 + 0.073507, abs=2e-6)


def test_corrected_shares_perfect_judge_keeps_share():
    certain = stats.corrected_shares(30, 100, 1, 1, 10**9, 10**9)
    assert certain.share == pytest.approx(0.3)
    # With nothing left to correct the interval is Agresti and Coull's: centre (30 + z²/2) / (100 + z²).
    z = 1.959964
    centre = (30 + z**2 / 2) / (100 + z**2)
    half = z * np.sqrt(centre * (1 - centre) / (100 + z**2))
    assert certain[1:3] == pytest.approx((centre - half, centre + half), abs=1e-6)
    few_units = stats.corrected_shares(30, 100, 1, 1, 20, 20)
    assert few_units.ci_high - few_units.ci_low > 1.1 * (certain.ci_high - certain.ci_low)


def test_corrected_shares_are_clipped_and_keep_nan():
    got = stats.corrected_shares(pd.Series([0, 100, 0]), pd.Series([100, 100, 0]), 0.9, 0.8, 50, 50)
    np.testing.assert_array_equal(got.share, [0, 1, np.nan])
    assert got.ci_low[0] == 0
    assert got.ci_high[1] == 1
    assert np.isnan([got.ci_low[2], got.ci_high[2]]).all()
    np.testing.assert_array_equal(got.n, [100, 100, 0])


def test_corrected_shares_tiny_reference_spans_0_to_1():
    # 1 of 1 and 60 of 200: with one image added to each side 2/3 + 61/202 is below 1.
    got = stats.corrected_shares(5, 10, 1.0, 0.3, 1, 200)
    assert got[1:3] == (0, 1)


def test_corrected_shares_chance_judge_is_refused():
    with pytest.raises(InputError, match=r"must exceed 1, got 1: .* swapped"):
        stats.corrected_shares(5, 10, 0.4, 0.6, 50, 50)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5, 10, 90, 0.9, 50, 50), "sensitivity contains 90; it must be 0 to 1"),
        ((5, 10, 0.9, np.nan, 50, 50), "specificity contains NaN; it must contain shares from 0 to 1"),
        ((5, 10, 0.9, 0.9, 0, 50), "n_sensitivity must be whole numbers of at least 1, got 0"),
        (([5, 6], 10, [0.9] * 3, 0.9, 50, 50), r"do not match: .* sensitivity \(3,\)"),
    ],
)
def test_corrected_shares_invalid_input_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        stats.corrected_shares(*arguments)


@pytest.mark.parametrize(("n", "reference"), [(40, 100), (500, 100), (100, 300)])
def test_corrected_shares_intervals_cover_truth(n, reference):
    rng = np.random.default_rng(0)
    for share in (0.2, 0.5, 0.8):
        k = rng.binomial(n, share * 0.9 + (1 - share) * 0.2, 4000)
        sens, spec = rng.binomial(reference, 0.9, 4000), rng.binomial(reference, 0.8, 4000)
        result = stats.corrected_shares(k, n, sens / reference, spec / reference, reference, reference)
        assert 0.93 <= np.mean((result.ci_low <= share) & (share <= result.ci_high)) <= 0.97
        assert result.share.mean() == pytest.approx(share, abs=0.01)
