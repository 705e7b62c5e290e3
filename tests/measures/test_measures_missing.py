"""Worst cases of missing images: by hand, and against every way in which they could have turned out."""

from itertools import product

import numpy as np
import pytest

from biaslab.ground.errors import InputError, UnknownNameError
from biaslab.measures import (
    DEFINITIONS,
    expected_amplification,
    expected_amplification_bounds,
    percent_female_bounds,
)


def test_bounds_of_a_share_by_hand():
    # 3 female, 5 male, 2 missing: 3 of 10 if both were male, 5 of 10 if both were female.
    assert percent_female_bounds(3, 5, 2) == (30, 50)
    # Nothing missing: both are the share. Nothing there: anything is possible. Nothing at all: no share.
    low, high = percent_female_bounds([3, 0, 0, np.nan], [1, 0, 0, 1], [0, 4, 0, 1])
    np.testing.assert_array_equal(low, [75, 0, np.nan, np.nan])
    np.testing.assert_array_equal(high, [75, 100, np.nan, np.nan])


def test_a_share_lies_within_whatever_the_missing_images_were():
    f, m, u = 4, 9, 5
    low, high = percent_female_bounds(f, m, u)
    # Each missing image may have been female, male, or none of them.
    shares = [100 * (f + a) / (f + m + a + b) for a, b in product(range(u + 1), repeat=2) if a + b <= u]
    assert min(shares) == pytest.approx(low) and max(shares) == pytest.approx(high)


@pytest.mark.parametrize(
    ("definition", "low", "high"),
    [
        # G = 30 with T in 20..40:   T - G
        # G = 30 with T in 40..70:   published T in 40..50; no_exclusion 20 - |T-50|; directional T - 30 or 30 - T
        # G = 80 with T in 10..40:   published never; no_exclusion 30 - |T-50|; directional T - 80
        # G = 80 with T in 45..90:   published T in 50..90
        # G = 50 with T in 20..40:   published never
        ("published", [-10, 10, np.nan, -10, np.nan, np.nan], [10, 20, np.nan, 30, np.nan, np.nan]),
        ("no_exclusion", [-10, 0, -10, -10, -30, np.nan], [10, 20, 20, 30, -10, np.nan]),
        ("directional", [-10, -40, -70, -35, -30, np.nan], [10, 20, -40, 30, -10, np.nan]),
    ],
)
def test_bounds_of_amplification_by_hand(definition, low, high):
    g = [30, 30, 80, 80, 50, np.nan]
    ends = np.array([[20, 40, 10, 45, 20, 20], [40, 70, 40, 90, 40, 40]])
    # Each occupation by itself.
    found = expected_amplification_bounds(np.transpose([g]), *ends[..., None], definition)
    np.testing.assert_allclose(found.low, low)
    np.testing.assert_allclose(found.high, high)


def test_without_missing_images_the_bounds_are_the_value():
    g, t = np.array([20.0, 70, 55, 45]), np.array([30.0, 60, 40, 50])
    for definition in DEFINITIONS:
        value = expected_amplification(g, t, definition).amplification
        assert expected_amplification_bounds(g, t, t, definition) == pytest.approx((value, value)), definition


@pytest.mark.parametrize("definition", DEFINITIONS)
def test_the_mean_lies_within_for_every_way_in_which_images_are_missing(definition):
    rng = np.random.default_rng(3)
    for _ in range(40):
        f, m, u = rng.integers(0, 5, 4), rng.integers(1, 5, 4), rng.integers(0, 4, 4)
        g = rng.integers(0, 11, 4) * 10.0
        low, high = percent_female_bounds(f, m, u)
        found = expected_amplification_bounds(g, low, high, definition)
        # Every number of missing images that may have been female, for each of the four occupations.
        means = [
            expected_amplification(g, 100 * (f + np.array(a)) / (f + m + u), definition).amplification
            for a in product(*(range(k + 1) for k in u))
        ]
        means = [value for value in means if not np.isnan(value)]
        if not means:
            continue
        assert found.low <= min(means) + 1e-9 and max(means) - 1e-9 <= found.high


def test_bounds_of_the_mean_are_as_narrow_as_can_be():
    # A grid of training shares instead of whole images: the bounds are then met up to its steps.
    rng = np.random.default_rng(4)
    for definition in DEFINITIONS:
        for _ in range(8):
            g, ends = rng.uniform(0, 100, 3), np.sort(rng.uniform(0, 100, (2, 3)), axis=0)
            grid = [np.append(np.linspace(a, b, 30), [50.0] if a < 50 < b else []) for a, b in ends.T]
            shares = np.array(list(product(*grid)))
            means = expected_amplification(g, shares, definition).amplification
            found = expected_amplification_bounds(g, *ends, definition)
            if np.isnan(means).all():
                continue
            assert np.nanmin(means) == pytest.approx(found.low, abs=4)
            assert np.nanmax(means) == pytest.approx(found.high, abs=4)


def test_an_occupation_that_need_not_count_counts_only_where_it_widens():
    # The first always counts: |20-50| - |30-50| = 10. The second may: T in 40..60 with G = 10, so
    # T - G is 30 to 40 where T is below 50. Least mean: without it, 10. Greatest: with it at 40, (10 + 40) / 2.
    assert expected_amplification_bounds([20, 10], [30, 40], [30, 60]) == (10, 25)
    # Nothing can count.
    assert np.isnan(expected_amplification_bounds([20], [60], [70])).all()


def test_input_that_cannot_be_used_is_named():
    with pytest.raises(InputError, match=r"n_missing holds -1; allowed is 0 or more"):
        percent_female_bounds(1, 1, -1)
    with pytest.raises(InputError, match=r"n_male holds 1\.5; it counts images"):
        percent_female_bounds(1, 1.5, 0)
    with pytest.raises(InputError, match=r"training_low holds 60, above its training_high"):
        expected_amplification_bounds([50], [60], [40])
    with pytest.raises(UnknownNameError, match="definition of amplification named 'publishd'"):
        expected_amplification_bounds([50], [40], [60], "publishd")
    with pytest.raises(InputError, match="no axis -1 of occupations"):
        expected_amplification_bounds(50, 40, 60)
