"""Shares of people who share images: by hand, by SciPy, and by simulation of the variance."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from biaslab import stats
from biaslab.errors import InputError


def test_design_effect_one_person_per_image_is_1():
    result = stats.design_effect([1, 0, 0, 1, 1, 0, 0], np.ones(7))
    assert result == pytest.approx(1, abs=1e-12)


def test_design_effect_identical_people_is_their_number():
    count = np.array([3, 0, 0, 3, 3, 0])
    assert stats.design_effect(count, np.full(6, 3)) == pytest.approx(3)
    # Without variation they count as identical, too.
    assert stats.design_effect(np.full(6, 3), np.full(6, 3)) == pytest.approx(3)


def test_design_effect_independent_people_is_about_1():
    rng = np.random.default_rng(0)
    result = [stats.design_effect(rng.binomial(2, 0.4, 200), np.full(200, 2)) for _ in range(200)]
    # The prior of 2 images of effect 2 moves 1 to (200 + 4) / 202.
    assert np.mean(result) == pytest.approx(204 / 202, abs=0.02)


def test_design_effect_groups_sharing_images_are_clustered():
    # Each image has one person of either group, always alike: the mean of two groups is one of 40 images.
    female = np.random.default_rng(1).permutation(np.repeat([1, 0], 20))
    count, group, image = np.tile(female, 2), np.repeat([0, 1], 40), np.tile(np.arange(40), 2)
    result = stats.design_effect(count, np.ones(80), stratum=group, image=image)
    # Twice the variance; the prior has single people of a group, thus 1.
    assert result == pytest.approx((40 * 2 + 2 * 1) / 42)


def test_clustered_share_one_person_per_image_is_wilson():
    count = np.repeat([1, 0], [3, 9])
    expected = scipy_stats.binomtest(3, 12).proportion_ci(method="wilson")
    result = stats.clustered_share(count, np.ones(12))
    assert (result.ci_low, result.ci_high) == pytest.approx(tuple(expected)) and result.n == 12
    assert stats.clustered_share([0, 0], [1, 1]).ci_low == 0 and stats.clustered_share([1, 1], [1, 1]).ci_high == 1


def test_clustered_share_one_image_is_one_observation():
    low, high = stats.clustered_share([4], [4])[1:3]
    assert (low, high) == pytest.approx(tuple(scipy_stats.binomtest(1, 1).proportion_ci(method="wilson")))
    assert np.isnan(stats.clustered_share([], []).value) and np.isnan(stats.clustered_share([0], [0]).value)


def test_clustered_share_test_one_person_per_image_is_exact():
    count, n = np.repeat([1, 0], [3, 9]), np.ones(12)
    result = stats.clustered_share_test(count, n, 0.5, seed=0)
    assert result == pytest.approx(scipy_stats.binomtest(3, 12).pvalue)
    sampled = stats.clustered_share_test(count, n, 0.25, 40, seed=0)
    assert sampled == pytest.approx(scipy_stats.fisher_exact([[3, 9], [10, 30]]).pvalue)


def test_clustered_share_test_identical_people_tests_images():
    count, n = np.repeat([2, 0], [6, 4]), np.full(10, 2)
    result = stats.clustered_share_test(count, n, 0.2, seed=0)
    assert result == pytest.approx(scipy_stats.binomtest(6, 10, 0.2).pvalue)
    sampled = stats.clustered_share_test(count, n, 0.25, 40, seed=0)
    assert sampled == pytest.approx(scipy_stats.fisher_exact([[6, 4], [10, 30]]).pvalue)
    # With a larger effect of all groups people are worth fewer.
    pooled = stats.clustered_share_test(count, n, 0.2, effect=4, seed=0)
    assert pooled == pytest.approx(scipy_stats.binomtest(3, 5, 0.2).pvalue)
    # Against one half signs of images are flipped, which of alike people is the binomial test.
    even = stats.clustered_share_test(count, n, 0.5, seed=0)
    assert even == pytest.approx(scipy_stats.binomtest(6, 10).pvalue)


def test_clustered_homogeneity_two_groups_is_fisher_exact():
    count, group = np.repeat([1, 0, 1, 0], [9, 1, 3, 7]), np.repeat([0, 1], 10)
    result = stats.clustered_homogeneity(count, np.ones(20), group, 100_000, seed=0)
    # The error of the simulated p is 0.0004.
    assert result == pytest.approx(scipy_stats.fisher_exact([[9, 1], [3, 7]]).pvalue, abs=0.002)
    assert np.isnan(stats.clustered_homogeneity([1, 1], [1, 1], [0, 1], seed=0))


def test_mean_interval_clusters_of_one_are_t_interval():
    values = [1.0, 4.0, 2.5, np.nan, 7.0]
    single_result = stats.mean_interval(values, skip_nan=True, clusters=list("abcde"))
    assert single_result == pytest.approx(stats.mean_interval(values, skip_nan=True))
    # Two of each, alike: the interval of four values.
    doubled_result = stats.mean_interval(np.repeat(values, 2), skip_nan=True, clusters=np.repeat(list("abcde"), 2))
    assert doubled_result[:3] == pytest.approx(single_result[:3]) and doubled_result.n == 8
    with pytest.raises(InputError, match="clusters have the shape"):
        stats.mean_interval(values, skip_nan=True, clusters=["a"])


def test_strata_mean_design_effect_reduces_sample_size():
    result, fewer = stats.strata_mean([20, 60], [80, 80], effect=4), stats.strata_mean([5, 15], [20, 20])
    assert result[:3] == pytest.approx(fewer[:3]) and result.n == 160


def test_mean_distance_corrects_noise():
    rng = np.random.default_rng(0)
    error = np.full(40, 0.05)
    result = [stats.mean_distance(rng.normal(0, error), error, 0.5).value for _ in range(400)]
    assert np.mean(np.abs(rng.normal(0, error))) == pytest.approx(stats.normal_null_mean(0.05), rel=0.25)
    # Clipped at 0 on average near it; the plain mean would be 0.04.
    assert np.mean(result) < 0.012
    far = stats.mean_distance(rng.normal(0.3, error) * rng.choice([-1, 1], 40), error, 0.5)
    assert far.value == pytest.approx(0.3, abs=0.03) and far.p < 0.001
