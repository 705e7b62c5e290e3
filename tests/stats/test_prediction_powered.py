"""Annotations combined with a judge: by hand, against ppi-python where it has the case, and short simulations."""

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


def test_by_hand_of_one_group(one_group):
    y, f, rated = one_group
    found = powered(y, f, rated)
    assert found.judge.value == pytest.approx(f.mean())
    assert found.ratings.value == pytest.approx(y[rated].mean())
    both = y[rated].mean() + found.tuning * (f.mean() - f[rated].mean())
    assert found.both.value == pytest.approx(both) and found.both.n == 80
    assert found.both.ci_high - found.both.ci_low < found.ratings.ci_high - found.ratings.ci_low
    assert found.worth > 80


def test_ppi_python_says_the_same(one_group, monkeypatch):
    # It compiles with numba, which the functions for means do not use.
    monkeypatch.setitem(sys.modules, "numba", types.SimpleNamespace(njit=lambda function: function))
    ppi = pytest.importorskip("ppi_py", reason="the tests' package ppi-python is not installed")
    y, f, rated = one_group
    rest = np.setdiff1d(np.arange(500), rated)
    found = powered(y, f, rated)
    # Its unlabelled images are those that nobody rated; ours are all.
    known = (y[rated], f[rated], f[rest])
    theirs = found.tuning * len(rest) / 500
    assert found.both.value == pytest.approx(float(ppi.ppi_mean_pointestimate(*known, lam=theirs)[0]))
    # Tuned by variances of the sample alone instead of all images.
    low, high = (float(end[0]) for end in ppi.ppi_mean_ci(*known, alpha=0.05))
    assert found.both.value == pytest.approx((low + high) / 2, abs=0.005)
    # Without what is added for errors that nobody saw.
    half = (found.both.ci_high - found.both.ci_low) / 2 / scipy_stats.t.ppf(0.975, 79)
    own = np.sqrt(half**2 - 1 / 80**2)
    assert own == pytest.approx((high - low) / 2 / scipy_stats.norm.ppf(0.975), rel=0.04)


def test_a_judge_that_says_nothing_takes_nothing_away():
    rng = np.random.default_rng(1)
    y, f = (rng.random((2, 400)) < 0.4).astype(float)
    found = powered(y, f, np.arange(100))
    assert found.tuning < 0.25
    assert found.both.value == pytest.approx(found.ratings.value, abs=0.02)


def test_prediction_powered_nobody_judged_has_no_estimate():
    for more in ({}, {"clusters": [0, 1]}):
        found = stats.prediction_powered([0, 0], [0, 0], [0.5, 0.5], [], [], [], base=0.5, **more)
        assert all(np.isnan(one.value) and one.n == 0 for one in found[:3])


def test_weights_put_right_a_sample_that_is_not_even():
    # Judged female are rated three times as often: those ratings alone would say 3 of 4.
    f = np.repeat([1.0, 0.0], 200)
    rated = np.r_[np.arange(60), 200 + np.arange(20)]
    weight = np.where(f[rated] == 1, 1 / 0.3, 1 / 0.1)
    assert powered(f, f, rated).ratings.value == pytest.approx(0.75)
    assert powered(f, f, rated, weight=weight).ratings.value == pytest.approx(0.5)
    assert powered(f, f, rated, weight=weight).both.value == pytest.approx(0.5)


def test_unclear_is_in_no_share_and_what_only_raters_see_counts():
    f = np.r_[np.ones(50), np.zeros(50)]
    judged, rated = np.r_[f[:10], f[50:60], np.nan, np.nan], np.r_[f[:10], f[50:59], np.nan, 1, 1]
    found = stats.prediction_powered([50], [100], [1.0], np.zeros(22, int), judged, rated, base=0.5)
    # 10 and 2 of 21 whom annotators call female or male.
    assert found.ratings.value == pytest.approx(12 / 21) and found.both.n == found.ratings.n == 21


def two_groups(unclear, unsure=(0, 0)):
    """Return 40 people of each of two groups, 20% and 80% female, all annotated at probability 1.

    The first ``unclear`` people of each gender and group are unclear to the judge, ``unsure`` ones to annotators.
    """
    y = np.r_[np.ones(8), np.zeros(32), np.ones(32), np.zeros(8)]
    group, order = (
        np.repeat([0, 1], 40),
        np.r_[np.arange(8) / 8, np.arange(32) / 32, np.arange(32) / 32, np.arange(8) / 8],
    )
    judged = np.where(order < np.asarray(unclear)[group], np.nan, y)
    rated = np.where(order < np.asarray(unsure)[group], np.nan, y)
    count, n = (np.bincount(group, v) for v in (np.nan_to_num(judged), np.isfinite(judged)))
    how = {"people": [40, 40], "base": 50.0, "weight": np.ones(80)}
    return stats.prediction_powered(count, n, [50.0, 50.0], group, judged, rated, **how)


@pytest.mark.parametrize("unsure", [(0, 0), (0.5, 0)])
def test_prediction_powered_unclear_in_one_group_counts_groups_alike(unsure):
    # The judge leaves 5 of 8 people of the first group unclear. By hand: (20 + 80) / 2, whoever is unsure.
    found = two_groups((0.625, 0), unsure)
    assert found.ratings.value == pytest.approx(50) and found.both.value == pytest.approx(50)
    assert found.ratings.ci_low < 45 and found.ratings.ci_high > 55


def test_prediction_powered_few_images_per_group_weighs_by_people():
    # Groups of 10 and 100 people, of whom 4 each are annotated: each annotation stands for 1/4 of its group's half.
    group, y = np.repeat([0, 1], 4), np.array([1, 1, 1, 0, 0, 0, 0, 1.0])
    judged, weight = np.r_[np.nan, np.ones(7)], np.repeat([2.5, 25.0], 4)
    how = {"weight": weight, "people": [10, 100], "base": 50.0}
    found = stats.prediction_powered([2, 90], [4, 90], [50.0, 50.0], group, judged, y, **how)
    assert found.ratings.value == pytest.approx((75 + 25) / 2)


def test_prediction_powered_several_people_per_image_are_one_observation(one_group):
    y, f, rated = one_group
    single = powered(y, f, rated)
    twice, images = np.repeat(rated, 2), np.repeat(rated, 2)
    how = {"images": images, "design_effect": 2.0, "base": 0.5}
    doubled = stats.prediction_powered([2 * f.sum()], [1000], [1.0], np.zeros(160, int), f[twice], y[twice], **how)
    for one, other in zip(single[:3], doubled[:3], strict=True):
        assert other.value == pytest.approx(one.value)
        assert other.ci_high - other.ci_low == pytest.approx(one.ci_high - one.ci_low, rel=0.005)


def test_prediction_powered_limits_stay_in_the_range_of_the_sum():
    # Annotators call all 6 women, the judge 11 of 12 and 5 of these 6: Student's t around 100% would exceed it.
    y, f = np.ones(6), np.r_[np.ones(5), 0.0]
    found = stats.prediction_powered([11], [12], [100.0], np.zeros(6, int), f, y, base=50)
    for one in found[:3]:
        assert 0 <= one.ci_low < one.value <= one.ci_high <= 100
    assert found.ratings.value == pytest.approx(100) and found.both.ci_high == 100


def test_every_stratum_needs_ratings_of_its_own():
    group = np.zeros(20, int)
    answers = np.r_[np.ones(10), np.zeros(10)]
    how = {"strata": ["training", "generated"]}
    found = stats.prediction_powered([50, 60], [100, 100], [-100.0, 100.0], group, answers, answers, **how)
    assert found.judge.value == pytest.approx(10)
    assert np.isnan(found.both.value) and np.isnan(found.ratings.value)


def test_too_few_ratings_and_wrong_shapes():
    few = stats.prediction_powered([5], [10], [1.0], [0] * 4, [1, 0, 1, 0], [1, 0, 1, 0])
    assert np.isnan(few.both.value) and few.both.n == 4 and np.isnan(few.worth)
    with pytest.raises(InputError, match="a group, prediction and annotation"):
        stats.prediction_powered([5], [10], [1.0], [0, 0], [1], [1])
    with pytest.raises(InputError, match="annotation"):
        stats.prediction_powered([5], [10], [1.0], [0], [1], [2])


@pytest.mark.parametrize(
    ("accuracy", "ratings", "drawn"), [(0.99, 20, False), (0.99, 20, True), (0.9, 40, False), (0.7, 100, True)]
)
def test_limits_hold_where_errors_differ_by_group(monkeypatch, accuracy, ratings, drawn):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    coverage = importlib.import_module("coverage_ratings")
    rng = np.random.default_rng(7)
    studies = [coverage.study(rng, accuracy, ratings, groups_random=drawn) for _ in range(300)]
    held = [found.both.ci_low <= truth <= found.both.ci_high for found, truth in studies]
    errors = [[found.both.value - truth, found.ratings.value - truth] for found, truth in studies]
    # 93% less three standard errors of 300 studies.
    assert np.mean(held) > 0.93 - 3 * np.sqrt(0.07 * 0.93 / 300)
    both, alone = np.sqrt(np.square(errors).mean(axis=0))
    assert both < 1.05 * alone
