"""Errors over crossed samples against the textbook's analysis of variance and cluster-robust regression."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats as scipy_stats
from statsmodels.stats.proportion import proportion_confint

from biaslab import stats
from biaslab.ground.errors import InputError


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
    # Negative components are cut off, which adds a little: by simulation some 20 %, not the 100 % of A + B.
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
    low, high = stats.clustered_share_interval(1.0, stats.Error(0.0, 9), 10)
    q = scipy_stats.t.ppf(0.975, 9) ** 2 / 10
    assert (low, high) == (pytest.approx(1 / (1 + q)), 1)
    assert np.isnan(stats.clustered_share_interval(0.5, stats.Error(np.nan, np.nan), 1)).all()


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
