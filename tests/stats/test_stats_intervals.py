"""Closed-form intervals against scipy, statsmodels, exact sums and hand-worked numbers."""

import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats as scipy_stats
from statsmodels.stats.proportion import proportion_confint

from biaslab import stats
from biaslab.errors import InputError


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_wilson_interval_equals_statsmodels(confidence):
    count, n = np.array([0, 1, 7, 50, 100, 3]), np.array([5, 9, 9, 100, 100, 750])
    low, high = stats.wilson_interval(count, n, confidence)
    want = proportion_confint(count, n, alpha=1 - confidence, method="wilson")
    np.testing.assert_allclose(low, np.clip(want[0], 0, 1), atol=1e-12)
    np.testing.assert_allclose(high, np.clip(want[1], 0, 1), atol=1e-12)
    assert low[0] == 0
    assert high[4] == 1


def test_wilson_interval_of_no_images_is_nan():
    low, high = stats.wilson_interval(pd.Series([0, np.nan, 2]), pd.Series([0, 5, 4]))
    assert np.isnan(low[:2]).all()
    assert np.isnan(high[:2]).all()
    # 2 of 4 with z = 1.96: 0.5 -+ z / sqrt(4 + z²) / 2 = 0.5 -+ 0.35
    assert (low[2], high[2]) == pytest.approx((0.1500, 0.8500), abs=1e-4)
    assert stats.wilson_interval(2, 4).low == pytest.approx(low[2])
    assert np.shape(stats.wilson_interval([], []).low) == (0,)


@pytest.mark.parametrize(
    ("count", "n", "message"),
    [
        (5, 4, "count .* 5 of 4"),
        (-1, 4, "count .* at least 0, got -1"),
        (1.5, 4, r"count must be whole .* 1\.5"),
        (1, np.inf, "n contains inf"),
        ([1, 2], [3, 4, 5], r"count \(2,\), n \(3,\)"),
        ("many", 4, "count must be numbers .* 'many'"),
    ],
)
def test_wilson_interval_invalid_counts_are_refused(count, n, message):
    with pytest.raises(InputError, match=message):
        stats.wilson_interval(count, n)


@pytest.mark.parametrize("confidence", [0, 95, np.nan])
def test_confidence_outside_0_and_1_is_refused(confidence):
    for call in (
        lambda: stats.wilson_interval(1, 2, confidence),
        lambda: stats.mean_interval([1, 2], confidence),
        lambda: stats.pearson_r([1, 2, 3], [1, 3, 2], confidence),
        lambda: stats.corrected_shares(1, 2, 0.9, 0.9, 10, 10, confidence),
        lambda: stats.hierarchical_bootstrap([[1]], [[2]], np.mean, seed=0, confidence=confidence),
    ):
        with pytest.raises(InputError, match=f"between 0 and 1, for example 0.95, got {confidence}"):
            call()


def test_difference_interval_reproduces_newcombe_1998():
    # Newcombe 1998, table II, method 10: 56/70 - 48/80 = 0.2, (0.0524, 0.3339).
    first, second = stats.wilson_interval(48, 80), stats.wilson_interval(56, 70)
    low, high = stats.difference_interval(48 / 80, *first, 56 / 70, *second)
    assert (low, high) == pytest.approx((0.0524, 0.3339), abs=5e-5)


def test_difference_interval_correlated_matches_hand_values():
    # Arms of 4 below the second and 3 above the first, 2 and 6 the other way; 16 + 9 - 2 * 0.5 * 12 = 13.
    low, high = stats.difference_interval(10, 4, 13, 20, 16, 22, 0.5)
    assert (low, high) == pytest.approx((10 - 13**0.5, 10 + (4 + 36 - 12) ** 0.5))
    # What moves as one does not differ; rounding takes it nowhere below 0.
    assert stats.difference_interval(0.3, 0.2, 0.4, 0.3, 0.2, 0.4, 1) == pytest.approx((0, 0))


def test_mean_interval_equals_scipy_t_interval():
    values = np.random.default_rng(0).normal(3, 2, 17)
    got = stats.mean_interval(pd.Series(values, index=range(5, 22)), 0.9)
    want = scipy_stats.ttest_1samp(values, 0).confidence_interval(0.9)
    assert got == pytest.approx((values.mean(), want.low, want.high, 17))


def test_mean_interval_nan_needs_skip_nan():
    with pytest.raises(InputError) as caught:
        stats.mean_interval([1, np.nan, 3, np.nan])
    assert str(caught.value) == "values contains 2 NaN among 4 values; pass skip_nan=True to ignore them."
    got = stats.mean_interval([1, np.nan, 3, np.nan], skip_nan=True)
    assert got == stats.mean_interval([1, 3])
    assert got.n == 2
    with pytest.raises(InputError, match="one-dimensional"):
        stats.mean_interval([[1, 2]])
    with pytest.raises(InputError, match="finite"):
        stats.mean_interval([1, np.inf])


def test_exact_interval_agrees_with_exact_test():
    for count, n in ((0, 3), (4, 4), (5, 5), (6, 6), (5, 40), (20, 40), (31, 40)):
        low, high = stats.exact_interval(count, n)
        assert (low, high) == pytest.approx(proportion_confint(count, n, method="beta"), abs=1e-12)
        p = min(1, 2 * min(scipy_stats.binom.cdf(count, n, 0.5), scipy_stats.binom.sf(count - 1, n, 0.5)))
        assert (p < 0.05) == (low > 0.5 or high < 0.5)
    assert np.isnan(stats.exact_interval([0, np.nan], [0, 3])).all()


def test_pearson_r_matches_hand_values():
    # x = -3, -1, 1, 3 and y = -1, -3, 3, 1 (both centred): r = (3 + 3 + 3 + 3) / 20 = 0.6.
    # Fisher z with n = 4: arctanh(0.6) = ln 2 = 0.6931, -+ 1.95996 / sqrt(1), so tanh(-1.2668), tanh(2.6531);
    # its p is that of a standard normal beyond ln 2 in size: erfc(ln 2 / sqrt(2)) = 0.4882.
    got = stats.pearson_r([0, 2, 4, 6], [12, 10, 16, 14])
    p = math.erfc(math.log(2) / math.sqrt(2))
    assert p == pytest.approx(0.4882, abs=5e-5)
    assert got == pytest.approx((0.6, np.tanh(np.log(2) - 1.959964), np.tanh(np.log(2) + 1.959964), p, 4))


@pytest.mark.long
def test_pearson_r_p_agrees_with_interval():
    rng = np.random.default_rng(3)
    result = [stats.pearson_r(*rng.normal(size=(2, n))) for n in rng.integers(4, 9, 2000)]
    assert all((r.p < 0.05) == (r.ci_low > 0 or r.ci_high < 0) for r in result)
    # Both outcomes occur, so the check is informative.
    assert 20 < sum(r.p < 0.05 for r in result) < 200


def test_pearson_r_without_information_is_nan():
    for x, y in (([1, 1, 1, 1], [1, 2, 3, 4]), ([1, 2, 3], [0.3, 0.1 + 0.2, 0.3]), ([1, 2], [2, 1]), ([], [])):
        got = stats.pearson_r(x, y)
        assert np.isnan(got[:4]).all()
        assert got.n == len(x)
    three = stats.pearson_r([1, 2, 3], [1, 3, 2])
    assert three.r == pytest.approx(0.5)
    assert np.isnan([three.ci_low, three.ci_high]).all()
    perfect = stats.pearson_r([1, 2, 3, 4], [2, 4, 6, 8])
    assert perfect.r == pytest.approx(1)
    assert perfect.ci_high == pytest.approx(1)


def test_pearson_r_skip_nan_drops_pairs():
    got = stats.pearson_r([0, 2, np.nan, 4, 6], [12, 10, 1, 16, 14], skip_nan=True)
    assert got == stats.pearson_r([0, 2, 4, 6], [12, 10, 16, 14])
    with pytest.raises(InputError, match="pass skip_nan=True"):
        stats.pearson_r([1, np.nan, 3], [1, 2, 3])
    with pytest.raises(InputError, match="of equal length"):
        stats.pearson_r([1, 2, 3], [1, 2])


def test_correction_dominates_if_correction_exceeds_rest():
    # 0.2 of 12.4 and 6 of 19.4; 5 of 3; a sign turned; as good as nothing; no estimate.
    uncorrected = [12.6, 25.4, 8.0, -6.25, 0.0, np.nan]
    corrected = [12.4, 19.4, 3.0, 6.27, 0.0, 10.0]
    assert stats.correction_dominates(uncorrected, corrected).tolist() == [False, False, True, True, False, False]
    with pytest.raises(InputError, match="corrected must be numbers"):
        stats.correction_dominates(1, "none")


# -- halves of groups, against Student's t of means --


def mean(*samples):
    return float(samples[0].mean() - sum(sample.mean() for sample in samples[1:]))


def test_halves_interval_of_mean_is_t_interval():
    values = np.random.default_rng(1).exponential(size=40)
    result = stats.halves_interval([values], [np.arange(40)], mean, splits=4000, seed=1, confidence=0.9)
    own_interval = stats.mean_interval(values, 0.9)
    assert (result.value, result.n) == (pytest.approx(own_interval.value), 40)
    # The spread of 4,000 halves is good to 1%.
    assert result.ci_high - result.ci_low == pytest.approx(own_interval.ci_high - own_interval.ci_low, rel=0.05)
    assert (result.ci_low + result.ci_high) / 2 == pytest.approx(own_interval.value)


def test_halves_interval_keeps_groups_together():
    rng = np.random.default_rng(2)
    shared = rng.normal(size=30)
    groups = np.repeat(np.arange(30), 4)
    first, second = (shared[groups] + 0.1 * rng.normal(size=120) for _ in range(2))
    single_result = stats.halves_interval([first], [groups], mean, splits=2000, seed=1)
    own_interval = stats.mean_interval(first.reshape(30, 4).mean(axis=1))
    assert single_result.ci_high - single_result.ci_low == pytest.approx(
        own_interval.ci_high - own_interval.ci_low, rel=0.1
    )
    # Shared variation cancels in differences, for any order of rows.
    order = rng.permutation(120)
    both = stats.halves_interval([first, second[order]], [groups, groups[order]], mean, splits=2000, seed=1)
    own_interval = stats.mean_interval((first - second).reshape(30, 4).mean(axis=1))
    assert both.ci_high - both.ci_low == pytest.approx(own_interval.ci_high - own_interval.ci_low, rel=0.1)


def test_halves_interval_few_groups_degrees_of_freedom():
    values = np.random.default_rng(3).normal(size=12)
    halves = [
        stats.halves_interval([values], [np.arange(12)], mean, splits=20, seed=1, confidence=level)
        for level in (0.95, 0.5)
    ]
    # Relative variances of the spread's square add up: 2 / 19 of 20 halves and 2 / 11 of 12 groups are 2 / 6.97.
    df = 19 * 11 / (19 + 11)
    expected = scipy_stats.t.ppf(0.975, df) / scipy_stats.t.ppf(0.75, df)
    widths = [result.ci_high - result.ci_low for result in halves]
    assert widths[0] / widths[1] == pytest.approx(expected)


@pytest.mark.parametrize(("shift", "moves"), [(9.0, True), (0.0, False)])
def test_halves_interval_squared_distance_upper_limit(shift, moves):
    values = shift + np.random.default_rng(4).normal(size=12)
    plain, squared = (
        stats.halves_interval([values], [np.arange(12)], mean, squared=is_squared, seed=1)
        for is_squared in (False, True)
    )
    half = plain.ci_high - plain.value
    # The root's half-width is half / (2 root); 0 inside the interval leaves it as it is.
    root = math.sqrt(abs(plain.value))
    expected = (root + half / (2 * root)) ** 2 if moves else plain.ci_high
    assert squared.ci_high == pytest.approx(expected)
    assert squared.ci_low == plain.ci_low and (plain.ci_low > 0) == moves


def test_halves_interval_too_few_groups_is_nan():
    for groups in (np.zeros(6), np.arange(3), np.array([0, 0, 0, 0, 0, 1])):
        result = stats.halves_interval([np.arange(groups.size)], [groups], mean, seed=1, splits=20)
        # One group; three of one row each, whose half has one row; two, one too small for a half.
        too_few = np.unique(groups).size < 2 or groups.size == 3
        assert np.isnan([result.ci_low, result.ci_high]).all() == too_few
    with pytest.raises(InputError, match="one group per row"):
        stats.halves_interval([np.arange(4)], [np.arange(3)], mean, seed=1)


# -- crossed samples, against the textbook's analysis of variance and cluster-robust regression --------------------


def effects(values):
    """Return rows, columns and cells of the mean of ``values``, one number a cell."""
    added = (values - values.mean()) / values.size
    return added.sum(axis=1), added.sum(axis=0), added


def test_crossed_error_equals_analysis_of_variance():
    rng = np.random.default_rng(3)
    values = rng.normal(0, 2, (6, 1)) + rng.normal(0, 3, (1, 8)) + rng.normal(0, 1, (6, 8))
    i, j = (part.ravel() for part in np.indices(values.shape))
    design = np.column_stack([np.eye(6)[i], np.eye(8)[j][:, 1:]])
    residual = sm.OLS(values.ravel(), design).fit().mse_resid / 48
    rows = 8 * values.mean(axis=1).var(ddof=1) / 48
    columns = 6 * values.mean(axis=0).var(ddof=1) / 48
    result = stats.crossed_error(*effects(values))
    variance = rows + columns - residual
    assert result.se == pytest.approx(np.sqrt(variance))
    assert result.df == pytest.approx(variance**2 / (rows**2 / 5 + columns**2 / 7 + residual**2 / 35))


def test_crossed_error_pure_noise_is_not_counted_twice():
    # Chance alone: the variance of the mean of 400 numbers is that of one over 400.
    rng = np.random.default_rng(4)
    result = [stats.crossed_error(*effects(rng.normal(size=(20, 20)))).se ** 2 for _ in range(300)]
    # Negative components are cut off, which adds a little: by simulation some 20%, not the 100% of A + B.
    assert 0.95 / 400 < np.mean(result) < 1.35 / 400


def test_crossed_error_omits_empty_pair():
    rng = np.random.default_rng(5)
    values = rng.normal(0, 2, (7, 1)) + rng.normal(0, 2, (1, 6)) + rng.normal(size=(7, 6))
    whole = stats.crossed_error(*effects(values))
    rows, columns, cells = effects(values)
    cells[2, 3] = np.nan
    partial_result = stats.crossed_error(rows, columns, cells)
    assert partial_result.se == pytest.approx(whole.se, rel=0.05) and partial_result.se != whole.se


def test_crossed_error_single_partners_has_no_cell_term():
    cells = np.full((4, 4), np.nan)
    np.fill_diagonal(cells, [1.0, -1.0, 2.0, -2.0])
    added = np.diag(cells)
    assert stats.crossed_error(added, added, cells).se == pytest.approx(np.sqrt(2 * 4 / 3 * (added**2).sum()))


def test_clustered_error_equals_cluster_robust_regression():
    rng = np.random.default_rng(6)
    group = rng.integers(0, 9, 80)
    values = rng.normal(size=9)[group] + rng.normal(size=80)
    fit = sm.OLS(values, np.ones(80)).fit(cov_type="cluster", cov_kwds={"groups": group})
    added = np.bincount(group, values - values.mean()) / 80
    result = stats.clustered_error(added)
    assert result.se == pytest.approx(fit.bse[0])
    assert result.df == len(set(group)) - 1
    assert np.isnan(stats.clustered_error([0.0]).se)


def test_clustered_share_interval_single_clusters_is_wilson():
    observations = np.r_[np.ones(12), np.zeros(28)]
    error = stats.clustered_error((observations - 0.3) / 40)
    low, high = stats.clustered_share_interval(0.3, error._replace(df=1e9), 40)
    # The clusters' variance is that of n - 1.
    expected = proportion_confint(0.3 * 39, 39, method="wilson")
    assert [low, high] == pytest.approx(expected)
    t = stats.clustered_share_interval(0.3, error, 40)
    assert t.low < low < high < t.high


def test_clustered_share_interval_unanimous_counts_clusters():
    low, high = stats.clustered_share_interval(1.0, stats.StandardError(0.0, 9), 10)
    q = scipy_stats.t.ppf(0.975, 9) ** 2 / 10
    assert (low, high) == (pytest.approx(1 / (1 + q)), 1)
    assert np.isnan(stats.clustered_share_interval(0.5, stats.StandardError(np.nan, np.nan), 1)).all()


def test_crossed_error_mismatched_shapes_are_refused():
    with pytest.raises(InputError, match=r"cells must be \(rows, columns\) \(2, 3\), got \(3, 2\)"):
        stats.crossed_error([1, -1], [1, 0, -1], np.zeros((3, 2)))
    assert np.isnan(stats.crossed_error([0.0], [1, -1], np.zeros((1, 2))).se)


def test_clustered_mean_uses_effective_sample_size():
    rng = np.random.default_rng(4)
    groups = np.repeat(list("abcdefgh"), [3, 5, 2, 8, 4, 4, 6, 7])
    values = rng.beta(2, 2, size=groups.size)
    result = stats.clustered_mean(values, groups)
    order = rng.permutation(groups.size)
    assert stats.clustered_mean(values[order], groups[order]) == pytest.approx(result)
    model = sm.OLS(values, np.ones_like(values)).fit(
        cov_type="cluster",
        cov_kwds={"groups": np.unique(groups, return_inverse=True)[1], "use_correction": True},
        use_t=True,
    )
    value, t = values.mean(), scipy_stats.t.ppf(0.975, 7)
    size = value * (1 - value) / model.bse[0] ** 2
    centre = (value + t**2 / size / 2) / (1 + t**2 / size)
    half = t * np.sqrt(value * (1 - value) / size + t**2 / size**2 / 4) / (1 + t**2 / size)
    assert result == pytest.approx((value, centre - half, centre + half, groups.size))


def test_clustered_mean_of_one_group_has_no_interval():
    value, low, high, n = stats.clustered_mean([0.2, 0.4], ["a", "a"])
    assert (value, n) == (pytest.approx(0.3), 2) and np.isnan([low, high]).all()
    assert np.isnan(stats.clustered_mean([], [])[:3]).all()
    for values, groups in (([0.5, 1.5], ["a", "b"]), ([0.5, np.nan], ["a", "b"]), ([0.5], ["a", "b"])):
        with pytest.raises(InputError):
            stats.clustered_mean(values, groups)
