"""Intervals from halves of groups against Student's t of means."""

import numpy as np
import pytest

from biaslab import stats
from biaslab.ground.errors import InputError


def mean(*samples):
    return float(samples[0].mean() - sum(of.mean() for of in samples[1:]))


def test_the_interval_of_a_mean_is_students():
    values = np.random.default_rng(1).exponential(size=40)
    found = stats.halves_interval([values], [np.arange(40)], mean, splits=4000, seed=1, confidence=0.9)
    own = stats.mean_interval(values, 0.9)
    assert (found.value, found.n) == (pytest.approx(own.value), 40)
    # The spread of 4,000 halves is good to 1 %.
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


def test_what_has_no_halves_has_no_limits():
    for groups in (np.zeros(6), np.arange(3), np.array([0, 0, 0, 0, 0, 1])):
        found = stats.halves_interval([np.arange(groups.size)], [groups], mean, seed=1, splits=20)
        # One group; three of one row each, whose half has one row; two of which one is too small to stand alone.
        few = np.unique(groups).size < 2 or groups.size == 3
        assert np.isnan([found.ci_low, found.ci_high]).all() == few
    with pytest.raises(InputError, match="one for each row"):
        stats.halves_interval([np.arange(4)], [np.arange(3)], mean, seed=1)
