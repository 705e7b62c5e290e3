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
def test_wilson_is_statsmodels_wilson(confidence):
    count, n = np.array([0, 1, 7, 50, 100, 3]), np.array([5, 9, 9, 100, 100, 750])
    low, high = stats.wilson_interval(count, n, confidence)
    want = proportion_confint(count, n, alpha=1 - confidence, method="wilson")
    np.testing.assert_allclose(low, np.clip(want[0], 0, 1), atol=1e-12)
    np.testing.assert_allclose(high, np.clip(want[1], 0, 1), atol=1e-12)
    assert low[0] == 0
    assert high[4] == 1


def test_wilson_is_nan_without_images_and_takes_series_and_scalars():
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
def test_counts_that_cannot_be_are_refused(count, n, message):
    with pytest.raises(InputError, match=message):
        stats.wilson_interval(count, n)


@pytest.mark.parametrize("confidence", [0, 95, np.nan])
def test_confidence_lies_between_0_and_1(confidence):
    for call in (
        lambda: stats.wilson_interval(1, 2, confidence),
        lambda: stats.mean_interval([1, 2], confidence),
        lambda: stats.pearson_r([1, 2, 3], [1, 3, 2], confidence),
        lambda: stats.corrected_shares(1, 2, 0.9, 0.9, 10, 10, confidence),
        lambda: stats.hierarchical_bootstrap([[1]], [[2]], np.mean, seed=0, confidence=confidence),
    ):
        with pytest.raises(InputError, match=f"between 0 and 1, for example 0.95, got {confidence}"):
            call()


def test_difference_interval_reproduces_newcombe():
    # Newcombe 1998, table II, method 10: 56/70 - 48/80 = 0.2, (0.0524, 0.3339).
    first, second = stats.wilson_interval(48, 80), stats.wilson_interval(56, 70)
    low, high = stats.difference_interval(48 / 80, *first, 56 / 70, *second)
    assert (low, high) == pytest.approx((0.0524, 0.3339), abs=5e-5)


def test_difference_interval_of_correlated_estimates_by_hand():
    # Arms of 4 below the second and 3 above the first, 2 and 6 the other way; 16 + 9 - 2 * 0.5 * 12 = 13.
    low, high = stats.difference_interval(10, 4, 13, 20, 16, 22, 0.5)
    assert (low, high) == pytest.approx((10 - 13**0.5, 10 + (4 + 36 - 12) ** 0.5))
    # What moves as one does not differ; rounding takes it nowhere below 0.
    assert stats.difference_interval(0.3, 0.2, 0.4, 0.3, 0.2, 0.4, 1) == pytest.approx((0, 0))


def test_mean_interval_is_scipys_t_interval():
    values = np.random.default_rng(0).normal(3, 2, 17)
    got = stats.mean_interval(pd.Series(values, index=range(5, 22)), 0.9)
    want = scipy_stats.ttest_1samp(values, 0).confidence_interval(0.9)
    assert got == pytest.approx((values.mean(), want.low, want.high, 17))


def test_missing_values_are_refused_or_left_out_when_asked():
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


def test_exact_interval_is_that_of_the_exact_test():
    for count, n in ((0, 3), (4, 4), (5, 5), (6, 6), (5, 40), (20, 40), (31, 40)):
        low, high = stats.exact_interval(count, n)
        assert (low, high) == pytest.approx(proportion_confint(count, n, method="beta"), abs=1e-12)
        p = min(1, 2 * min(scipy_stats.binom.cdf(count, n, 0.5), scipy_stats.binom.sf(count - 1, n, 0.5)))
        assert (p < 0.05) == (low > 0.5 or high < 0.5)
    assert np.isnan(stats.exact_interval([0, np.nan], [0, 3])).all()


def test_pearson_r_by_hand():
    # x = -3, -1, 1, 3 and y = -1, -3, 3, 1 (both centred): r = (3 + 3 + 3 + 3) / 20 = 0.6.
    # Fisher z with n = 4: arctanh(0.6) = ln 2 = 0.6931, -+ 1.95996 / sqrt(1), so tanh(-1.2668), tanh(2.6531);
    # its p is that of a standard normal beyond ln 2 in size: erfc(ln 2 / sqrt(2)) = 0.4882.
    got = stats.pearson_r([0, 2, 4, 6], [12, 10, 16, 14])
    p = math.erfc(math.log(2) / math.sqrt(2))
    assert p == pytest.approx(0.4882, abs=5e-5)
    assert got == pytest.approx((0.6, np.tanh(np.log(2) - 1.959964), np.tanh(np.log(2) + 1.959964), p, 4))


@pytest.mark.long
def test_p_of_a_correlation_is_that_of_its_interval():
    rng = np.random.default_rng(3)
    found = [stats.pearson_r(*rng.normal(size=(2, n))) for n in rng.integers(4, 9, 2000)]
    assert all((r.p < 0.05) == (r.ci_low > 0 or r.ci_high < 0) for r in found)
    # Both outcomes occur, so it says something.
    assert 20 < sum(r.p < 0.05 for r in found) < 200


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


def test_pearson_r_pairs():
    got = stats.pearson_r([0, 2, np.nan, 4, 6], [12, 10, 1, 16, 14], skip_nan=True)
    assert got == stats.pearson_r([0, 2, 4, 6], [12, 10, 16, 14])
    with pytest.raises(InputError, match="pass skip_nan=True"):
        stats.pearson_r([1, np.nan, 3], [1, 2, 3])
    with pytest.raises(InputError, match="of equal length"):
        stats.pearson_r([1, 2, 3], [1, 2])


def test_correction_dominates_where_more_is_corrected_than_left():
    # 0.2 of 12.4 and 6 of 19.4; 5 of 3; a sign turned; as good as nothing; no estimate.
    uncorrected = [12.6, 25.4, 8.0, -6.25, 0.0, np.nan]
    corrected = [12.4, 19.4, 3.0, 6.27, 0.0, 10.0]
    assert stats.correction_dominates(uncorrected, corrected).tolist() == [False, False, True, True, False, False]
    with pytest.raises(InputError, match="corrected must be numbers"):
        stats.correction_dominates(1, "none")


# -- halves of groups, against Student's t of means --


def mean(*samples):
    return float(samples[0].mean() - sum(of.mean() for of in samples[1:]))


def test_the_interval_of_a_mean_is_students():
    values = np.random.default_rng(1).exponential(size=40)
    found = stats.halves_interval([values], [np.arange(40)], mean, splits=4000, seed=1, confidence=0.9)
    own = stats.mean_interval(values, 0.9)
    assert (found.value, found.n) == (pytest.approx(own.value), 40)
    # The spread of 4,000 halves is good to 1%.
    assert found.ci_high - found.ci_low == pytest.approx(own.ci_high - own.ci_low, rel=0.05)
    assert (found.ci_low + found.ci_high) / 2 == pytest.approx(own.value)


def test_groups_stay_together_in_all_samples():
    rng = np.random.default_rng(2)
    shared = rng.normal(size=30)
    groups = np.repeat(np.arange(30), 4)
    first, second = (shared[groups] + 0.1 * rng.normal(size=120) for _ in range(2))
    alone = stats.halves_interval([first], [groups], mean, splits=2000, seed=1)
    own = stats.mean_interval(first.reshape(30, 4).mean(axis=1))
    assert alone.ci_high - alone.ci_low == pytest.approx(own.ci_high - own.ci_low, rel=0.1)
    # What two samples share is in no difference of them, in whatever order their rows stand.
    order = rng.permutation(120)
    both = stats.halves_interval([first, second[order]], [groups, groups[order]], mean, splits=2000, seed=1)
    own = stats.mean_interval((first - second).reshape(30, 4).mean(axis=1))
    assert both.ci_high - both.ci_low == pytest.approx(own.ci_high - own.ci_low, rel=0.1)


def test_halves_interval_of_few_groups_has_the_degrees_of_freedom_of_groups_and_halves():
    values = np.random.default_rng(3).normal(size=12)
    halves = [
        stats.halves_interval([values], [np.arange(12)], mean, splits=20, seed=1, confidence=level)
        for level in (0.95, 0.5)
    ]
    # Relative variances of the spread's square add up: 2 / 19 of 20 halves and 2 / 11 of 12 groups are 2 / 6.97.
    df = 19 * 11 / (19 + 11)
    expected = scipy_stats.t.ppf(0.975, df) / scipy_stats.t.ppf(0.75, df)
    widths = [found.ci_high - found.ci_low for found in halves]
    assert widths[0] / widths[1] == pytest.approx(expected)


@pytest.mark.parametrize(("shift", "moves"), [(9.0, True), (0.0, False)])
def test_halves_interval_of_a_squared_distance_ends_at_the_square_of_the_distances_limit(shift, moves):
    values = shift + np.random.default_rng(4).normal(size=12)
    plain, squared = (
        stats.halves_interval([values], [np.arange(12)], mean, squared=way, seed=1) for way in (False, True)
    )
    half = plain.ci_high - plain.value
    # The root's half-width is half / (2 root); 0 inside the interval leaves it as it is.
    root = math.sqrt(abs(plain.value))
    expected = (root + half / (2 * root)) ** 2 if moves else plain.ci_high
    assert squared.ci_high == pytest.approx(expected)
    assert squared.ci_low == plain.ci_low and (plain.ci_low > 0) == moves


def test_what_has_no_halves_has_no_limits():
    for groups in (np.zeros(6), np.arange(3), np.array([0, 0, 0, 0, 0, 1])):
        found = stats.halves_interval([np.arange(groups.size)], [groups], mean, seed=1, splits=20)
        # One group; three of one row each, whose half has one row; two of which one is too small to stand alone.
        few = np.unique(groups).size < 2 or groups.size == 3
        assert np.isnan([found.ci_low, found.ci_high]).all() == few
    with pytest.raises(InputError, match="one group per row"):
        stats.halves_interval([np.arange(4)], [np.arange(3)], mean, seed=1)


# -- crossed samples, against the textbook's analysis of variance and cluster-robust regression --------------------


def effects(values):
    """Return rows, columns and cells of the mean of ``values``, one number a cell."""
    added = (values - values.mean()) / values.size
    return added.sum(axis=1), added.sum(axis=0), added


def test_error_of_crossed_samples_is_that_of_the_analysis_of_variance():
    rng = np.random.default_rng(3)
    values = rng.normal(0, 2, (6, 1)) + rng.normal(0, 3, (1, 8)) + rng.normal(0, 1, (6, 8))
    i, j = (part.ravel() for part in np.indices(values.shape))
    design = np.column_stack([np.eye(6)[i], np.eye(8)[j][:, 1:]])
    rest = sm.OLS(values.ravel(), design).fit().mse_resid / 48
    rows = 8 * values.mean(axis=1).var(ddof=1) / 48
    columns = 6 * values.mean(axis=0).var(ddof=1) / 48
    found = stats.crossed_error(*effects(values))
    variance = rows + columns - rest
    assert found.se == pytest.approx(np.sqrt(variance))
    assert found.df == pytest.approx(variance**2 / (rows**2 / 5 + columns**2 / 7 + rest**2 / 35))


def test_what_rows_and_columns_do_not_vary_in_is_not_counted_twice():
    # Chance alone: the variance of the mean of 400 numbers is that of one over 400.
    rng = np.random.default_rng(4)
    found = [stats.crossed_error(*effects(rng.normal(size=(20, 20)))).se ** 2 for _ in range(300)]
    # Negative components are cut off, which adds a little: by simulation some 20%, not the 100% of A + B.
    assert 0.95 / 400 < np.mean(found) < 1.35 / 400


def test_a_pair_without_images_is_left_out():
    rng = np.random.default_rng(5)
    values = rng.normal(0, 2, (7, 1)) + rng.normal(0, 2, (1, 6)) + rng.normal(size=(7, 6))
    whole = stats.crossed_error(*effects(values))
    rows, columns, cells = effects(values)
    cells[2, 3] = np.nan
    some = stats.crossed_error(rows, columns, cells)
    assert some.se == pytest.approx(whole.se, rel=0.05) and some.se != whole.se


def test_one_partner_each_leaves_nothing_to_take_off():
    cells = np.full((4, 4), np.nan)
    np.fill_diagonal(cells, [1.0, -1.0, 2.0, -2.0])
    added = np.diag(cells)
    assert stats.crossed_error(added, added, cells).se == pytest.approx(np.sqrt(2 * 4 / 3 * (added**2).sum()))


def test_clusters_are_those_of_cluster_robust_regression():
    rng = np.random.default_rng(6)
    group = rng.integers(0, 9, 80)
    values = rng.normal(size=9)[group] + rng.normal(size=80)
    fit = sm.OLS(values, np.ones(80)).fit(cov_type="cluster", cov_kwds={"groups": group})
    added = np.bincount(group, values - values.mean()) / 80
    found = stats.clustered_error(added)
    assert found.se == pytest.approx(fit.bse[0])
    assert found.df == len(set(group)) - 1
    assert np.isnan(stats.clustered_error([0.0]).se)


def test_interval_of_a_share_is_wilsons_where_clusters_are_observations():
    seen = np.r_[np.ones(12), np.zeros(28)]
    error = stats.clustered_error((seen - 0.3) / 40)
    low, high = stats.clustered_share_interval(0.3, error._replace(df=1e9), 40)
    # The clusters' variance is that of n - 1.
    expected = proportion_confint(0.3 * 39, 39, method="wilson")
    assert [low, high] == pytest.approx(expected)
    t = stats.clustered_share_interval(0.3, error, 40)
    assert t.low < low < high < t.high


def test_images_that_all_agree_count_once_an_identity():
    low, high = stats.clustered_share_interval(1.0, stats.StandardError(0.0, 9), 10)
    q = scipy_stats.t.ppf(0.975, 9) ** 2 / 10
    assert (low, high) == (pytest.approx(1 / (1 + q)), 1)
    assert np.isnan(stats.clustered_share_interval(0.5, stats.StandardError(np.nan, np.nan), 1)).all()


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match=r"cells must be \(rows, columns\) \(2, 3\), got \(3, 2\)"):
        stats.crossed_error([1, -1], [1, 0, -1], np.zeros((3, 2)))
    assert np.isnan(stats.crossed_error([0.0], [1, -1], np.zeros((1, 2))).se)


def test_the_mean_of_groups_has_the_interval_of_their_effective_number():
    rng = np.random.default_rng(4)
    groups = np.repeat(list("abcdefgh"), [3, 5, 2, 8, 4, 4, 6, 7])
    values = rng.beta(2, 2, size=groups.size)
    found = stats.clustered_mean(values, groups)
    order = rng.permutation(groups.size)
    assert stats.clustered_mean(values[order], groups[order]) == pytest.approx(found)
    model = sm.OLS(values, np.ones_like(values)).fit(
        cov_type="cluster",
        cov_kwds={"groups": np.unique(groups, return_inverse=True)[1], "use_correction": True},
        use_t=True,
    )
    value, t = values.mean(), scipy_stats.t.ppf(0.975, 7)
    size = value * (1 - value) / model.bse[0] ** 2
    centre = (value + t**2 / size / 2) / (1 + t**2 / size)
    half = t * np.sqrt(value * (1 - value) / size + t**2 / size**2 / 4) / (1 + t**2 / size)
    assert found == pytest.approx((value, centre - half, centre + half, groups.size))


def test_of_one_group_or_none_there_is_no_interval():
    value, low, high, n = stats.clustered_mean([0.2, 0.4], ["a", "a"])
    assert (value, n) == (pytest.approx(0.3), 2) and np.isnan([low, high]).all()
    assert np.isnan(stats.clustered_mean([], [])[:3]).all()
    for values, groups in (([0.5, 1.5], ["a", "b"]), ([0.5, np.nan], ["a", "b"]), ([0.5], ["a", "b"])):
        with pytest.raises(InputError):
            stats.clustered_mean(values, groups)
