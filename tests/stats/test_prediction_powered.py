"""Annotations combined with a judge: by hand, against ppi-python if it covers the case, and short simulations."""

import importlib
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from scipy import stats as scipy_stats

from biaslab import stats
from biaslab.errors import InputError


@pytest.fixture
def one_group():
    rng = np.random.default_rng(3)
    y = (rng.random(500) < 0.3).astype(float)
    f = np.where(rng.random(500) < 0.15, 1 - y, y)
    return y, f, rng.choice(500, 80, replace=False)


def powered(y, f, rated, **more):
    group = np.zeros(len(rated), int)
    return stats.prediction_powered([f.sum()], [len(f)], [1.0], group, f[rated], y[rated], base=0.5, **more)


def test_prediction_powered_one_group_matches_hand_values(one_group):
    y, f, rated = one_group
    result = powered(y, f, rated)
    assert result.judge.value == pytest.approx(f.mean())
    assert result.ratings.value == pytest.approx(y[rated].mean())
    both = y[rated].mean() + result.tuning * (f.mean() - f[rated].mean())
    assert result.both.value == pytest.approx(both) and result.both.n == 80
    assert result.both.ci_high - result.both.ci_low < result.ratings.ci_high - result.ratings.ci_low
    assert result.worth > 80


def test_prediction_powered_agrees_with_ppi_python(one_group, monkeypatch):
    # It compiles with numba, which the functions for means do not use.
    monkeypatch.setitem(sys.modules, "numba", types.SimpleNamespace(njit=lambda function: function))
    ppi = pytest.importorskip("ppi_py", reason="the tests' package ppi-python is not installed")
    y, f, rated = one_group
    other_ids = np.setdiff1d(np.arange(500), rated)
    result = powered(y, f, rated)
    # Its unlabelled images are the unannotated ones; ours are all.
    known_values = (y[rated], f[rated], f[other_ids])
    ppi_tuning = result.tuning * len(other_ids) / 500
    assert result.both.value == pytest.approx(float(ppi.ppi_mean_pointestimate(*known_values, lam=ppi_tuning)[0]))
    # Tuned by variances of the sample alone instead of all images.
    low, high = (float(end[0]) for end in ppi.ppi_mean_ci(*known_values, alpha=0.05))
    assert result.both.value == pytest.approx((low + high) / 2, abs=0.005)
    # Without the term for unobserved errors.
    half = (result.both.ci_high - result.both.ci_low) / 2 / scipy_stats.t.ppf(0.975, 79)
    own_half_width = np.sqrt(half**2 - 1 / 80**2)
    assert own_half_width == pytest.approx((high - low) / 2 / scipy_stats.norm.ppf(0.975), rel=0.04)


def test_prediction_powered_random_judge_adds_nothing():
    rng = np.random.default_rng(1)
    y, f = (rng.random((2, 400)) < 0.4).astype(float)
    result = powered(y, f, np.arange(100))
    assert result.tuning < 0.25
    assert result.both.value == pytest.approx(result.ratings.value, abs=0.02)


def test_prediction_powered_no_people_has_no_estimate():
    for more in ({}, {"clusters": [0, 1]}):
        result = stats.prediction_powered([0, 0], [0, 0], [0.5, 0.5], [], [], [], base=0.5, **more)
        assert all(np.isnan(estimate.value) and estimate.n == 0 for estimate in result[:3])


def test_prediction_powered_weights_correct_uneven_sample():
    # People classified as female are annotated three times as often: unweighted annotations would give 3 of 4.
    f = np.repeat([1.0, 0.0], 200)
    rated = np.r_[np.arange(60), 200 + np.arange(20)]
    weight = np.where(f[rated] == 1, 1 / 0.3, 1 / 0.1)
    assert powered(f, f, rated).ratings.value == pytest.approx(0.75)
    assert powered(f, f, rated, weight=weight).ratings.value == pytest.approx(0.5)
    assert powered(f, f, rated, weight=weight).both.value == pytest.approx(0.5)


def test_prediction_powered_omits_unclear_annotations():
    f = np.r_[np.ones(50), np.zeros(50)]
    judge_labels, rated = np.r_[f[:10], f[50:60], np.nan, np.nan], np.r_[f[:10], f[50:59], np.nan, 1, 1]
    result = stats.prediction_powered([50], [100], [1.0], np.zeros(22, int), judge_labels, rated, base=0.5)
    # 10 and 2 of 21 people annotated as female or male.
    assert result.ratings.value == pytest.approx(12 / 21) and result.both.n == result.ratings.n == 21


def two_groups(unclear, unsure=(0, 0)):
    """Return 40 people of each of two groups, 20% and 80% female, all annotated at probability 1.

    The first ``unclear`` people of each gender and group are unclear to the judge, ``unsure`` ones to annotators.
    """
    y = np.r_[np.ones(8), np.zeros(32), np.ones(32), np.zeros(8)]
    group, order = (
        np.repeat([0, 1], 40),
        np.r_[np.arange(8) / 8, np.arange(32) / 32, np.arange(32) / 32, np.arange(8) / 8],
    )
    judge_labels = np.where(order < np.asarray(unclear)[group], np.nan, y)
    rated = np.where(order < np.asarray(unsure)[group], np.nan, y)
    count, n = (np.bincount(group, v) for v in (np.nan_to_num(judge_labels), np.isfinite(judge_labels)))
    options = {"people": [40, 40], "base": 50.0, "weight": np.ones(80)}
    return stats.prediction_powered(count, n, [50.0, 50.0], group, judge_labels, rated, **options)


@pytest.mark.parametrize("unsure", [(0, 0), (0.5, 0)])
def test_prediction_powered_unclear_people_keep_group_weights(unsure):
    # The judge leaves 5 of 8 people of the first group unclear. By hand: (20 + 80) / 2, also with unsure annotators.
    result = two_groups((0.625, 0), unsure)
    assert result.ratings.value == pytest.approx(50) and result.both.value == pytest.approx(50)
    assert result.ratings.ci_low < 45 and result.ratings.ci_high > 55


def test_prediction_powered_unequal_groups_are_weighted():
    # Groups of 10 and 100 people, 4 each are annotated: each annotation has a weight of 1/4 of its group's half.
    group, y = np.repeat([0, 1], 4), np.array([1, 1, 1, 0, 0, 0, 0, 1.0])
    judge_labels, weight = np.r_[np.nan, np.ones(7)], np.repeat([2.5, 25.0], 4)
    options = {"weight": weight, "people": [10, 100], "base": 50.0}
    result = stats.prediction_powered([2, 90], [4, 90], [50.0, 50.0], group, judge_labels, y, **options)
    assert result.ratings.value == pytest.approx((75 + 25) / 2)


def test_prediction_powered_people_of_image_are_clustered(one_group):
    y, f, rated = one_group
    single = powered(y, f, rated)
    doubled_ids, images = np.repeat(rated, 2), np.repeat(rated, 2)
    options = {"images": images, "design_effect": 2.0, "base": 0.5}
    doubled = stats.prediction_powered(
        [2 * f.sum()], [1000], [1.0], np.zeros(160, int), f[doubled_ids], y[doubled_ids], **options
    )
    for estimate, other in zip(single[:3], doubled[:3], strict=True):
        assert other.value == pytest.approx(estimate.value)
        assert other.ci_high - other.ci_low == pytest.approx(estimate.ci_high - estimate.ci_low, rel=0.005)


def test_prediction_powered_limits_stay_in_range():
    # Annotators call all 6 women, the judge 11 of 12 and 5 of these 6: Student's t around 100% would exceed it.
    y, f = np.ones(6), np.r_[np.ones(5), 0.0]
    result = stats.prediction_powered([11], [12], [100.0], np.zeros(6, int), f, y, base=50)
    for estimate in result[:3]:
        assert 0 <= estimate.ci_low < estimate.value <= estimate.ci_high <= 100
    assert result.ratings.value == pytest.approx(100) and result.both.ci_high == 100


def test_prediction_powered_unannotated_stratum_is_nan():
    group = np.zeros(20, int)
    answers = np.r_[np.ones(10), np.zeros(10)]
    options = {"strata": ["training", "generated"]}
    result = stats.prediction_powered([50, 60], [100, 100], [-100.0, 100.0], group, answers, answers, **options)
    assert result.judge.value == pytest.approx(10)
    assert np.isnan(result.both.value) and np.isnan(result.ratings.value)


def test_prediction_powered_few_annotations_are_nan():
    few_annotations = stats.prediction_powered([5], [10], [1.0], [0] * 4, [1, 0, 1, 0], [1, 0, 1, 0])
    assert np.isnan(few_annotations.both.value) and few_annotations.both.n == 4 and np.isnan(few_annotations.worth)
    with pytest.raises(InputError, match="a group, prediction and annotation"):
        stats.prediction_powered([5], [10], [1.0], [0, 0], [1], [1])
    with pytest.raises(InputError, match="annotation"):
        stats.prediction_powered([5], [10], [1.0], [0], [1], [2])


@pytest.mark.parametrize(
    ("accuracy", "ratings", "random_groups"), [(0.99, 20, False), (0.99, 20, True), (0.9, 40, False), (0.7, 100, True)]
)
def test_prediction_powered_intervals_cover_truth(monkeypatch, accuracy, ratings, random_groups):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    coverage = importlib.import_module("coverage_ratings")
    rng = np.random.default_rng(7)
    studies = [coverage.study(rng, accuracy, ratings, groups_random=random_groups) for _ in range(300)]
    is_covered = [result.both.ci_low <= truth <= result.both.ci_high for result, truth in studies]
    errors = [[result.both.value - truth, result.ratings.value - truth] for result, truth in studies]
    # 93% less three standard errors of 300 studies.
    assert np.mean(is_covered) > 0.93 - 3 * np.sqrt(0.07 * 0.93 / 300)
    both, annotations_only = np.sqrt(np.square(errors).mean(axis=0))
    assert both < 1.05 * annotations_only
