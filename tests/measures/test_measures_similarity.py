"""Object bias against rates and the printed tables."""

import numpy as np
import pytest

from biaslab.errors import InputError
from biaslab.measures.similarity import bias_score, intersection_ratio


def test_bias_score_is_a_ratio_of_rates_for_prompt_sets_of_unequal_size():
    rng = np.random.default_rng(7)
    masculine, feminine = rng.integers(1, 50, size=20), rng.integers(1, 50, size=20)
    rate_m, rate_f = masculine / 40, feminine / 130
    np.testing.assert_allclose(bias_score(masculine, feminine, 40, 130), rate_m / (rate_m + rate_f))
    # equal rates at unequal sizes favour no one: 10 of 20 prompts, 30 of 60
    assert bias_score(10, 30, 20, 60) == pytest.approx(0.5)
    np.testing.assert_allclose(bias_score([3, 0, 0], [0, 2, 0], 10, 30), [1, 0, np.nan])


def test_intersection_ratio_reproduces_table_13():
    # triplets, tables 12 and 13, GCC: 155 explicitly guided objects, 1059 implicitly guided. 119 in common
    # give the printed 76.77 % of the first and 11.24 % of the second.
    explicitly, implicitly = range(155), range(155 - 119, 155 - 119 + 1059)
    assert round(intersection_ratio(explicitly, implicitly), 2) == 76.77
    assert round(intersection_ratio(implicitly, explicitly), 2) == 11.24
    assert intersection_ratio(["a", "a", "b"], ["a"]) == 50
    assert np.isnan(intersection_ratio([], ["a"]))


def test_errors():
    with pytest.raises(InputError, match=r"A prompt set is empty \(size 0\)"):
        bias_score(1, 1, 0, 5)
    with pytest.raises(InputError, match="count_feminine holds -1; allowed is 0 or more or NaN"):
        bias_score(1, -1, 5, 5)
