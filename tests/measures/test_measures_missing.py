"""Worst cases of missing images: by hand, and against every way in which they could have turned out."""

from itertools import product

import numpy as np
import pytest

from biaslab.ground.errors import InputError
from biaslab.measures import (
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


def test_input_that_cannot_be_used_is_named():
    with pytest.raises(InputError, match=r"n_missing holds -1; allowed is 0 or more"):
        percent_female_bounds(1, 1, -1)
    with pytest.raises(InputError, match=r"n_male holds 1\.5; it counts images"):
        percent_female_bounds(1, 1.5, 0)
