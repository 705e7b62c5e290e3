"""Correction of shares for judge error: the formula by hand, and coverage over simulated studies."""

import numpy as np
import pandas as pd
import pytest

from biaslab import stats
from biaslab.ground.errors import InputError


def test_lang_and_reiczigels_interval_by_hand():
    # With z = 1.96 (z² = 3.8415), 410 of 1000, both references of 200:
    #   judged' = (410 + 1.9207) / 1003.8415 = 0.410344, sensitivity' = 181/202, specificity' = 161/202,
    #   J = 0.693069, p' = (0.410344 + 0.797030 - 1) / J = 0.299211,
    #   variances of the two references 0.0931526/202 = 0.00046115 and 0.1617733/202 = 0.00080086,
    #   shift = 7.6829 * (p' * 0.00046115 - (1 - p') * 0.00080086) = -0.0032518,
    #   var = 0.2419618/1003.8415 + p'² * 0.00046115 + (1 - p')² * 0.00080086 = 0.00067563,
    #   half = 1.95996 * sqrt(var) / J = 0.073507.
    got = stats.corrected_shares(410, 1000, 0.9, 0.8, 200, 200)
    assert got.ci_low == pytest.approx(0.299211 - 0.003252 - 0.073507, abs=2e-6)
    assert got.ci_high == pytest.approx(0.299211 - 0.003252 + 0.073507, abs=2e-6)


def test_a_perfect_judge_changes_nothing_but_its_uncertainty():
    certain = stats.corrected_shares(30, 100, 1, 1, 10**9, 10**9)
    assert certain.share == pytest.approx(0.3)
    # With nothing left to correct the interval is Agresti and Coull's: centre (30 + z²/2) / (100 + z²).
    z = 1.959964
    centre = (30 + z**2 / 2) / (100 + z**2)
    half = z * np.sqrt(centre * (1 - centre) / (100 + z**2))
    assert certain[1:3] == pytest.approx((centre - half, centre + half), abs=1e-6)
    few = stats.corrected_shares(30, 100, 1, 1, 20, 20)
    assert few.ci_high - few.ci_low > 1.1 * (certain.ci_high - certain.ci_low)


def test_shares_are_clipped_and_missing_ones_stay_missing():
    got = stats.corrected_shares(pd.Series([0, 100, 0]), pd.Series([100, 100, 0]), 0.9, 0.8, 50, 50)
    np.testing.assert_array_equal(got.share, [0, 1, np.nan])
    assert got.ci_low[0] == 0
    assert got.ci_high[1] == 1
    assert np.isnan([got.ci_low[2], got.ci_high[2]]).all()
    np.testing.assert_array_equal(got.n, [100, 100, 0])


def test_a_judge_known_from_a_handful_of_images_tells_nothing():
    # 1 of 1 and 60 of 200: with one image added to each side 2/3 + 61/202 is below 1.
    got = stats.corrected_shares(5, 10, 1.0, 0.3, 1, 200)
    assert got[1:3] == (0, 1)


def test_judges_no_better_than_chance_are_refused():
    with pytest.raises(InputError, match=r"must exceed 1, got 1: .* swapped"):
        stats.corrected_shares(5, 10, 0.4, 0.6, 50, 50)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5, 10, 90, 0.9, 50, 50), "sensitivity holds 90; allowed is 0 to 1"),
        ((5, 10, 0.9, np.nan, 50, 50), "specificity holds NaN; give shares from 0 to 1"),
        ((5, 10, 0.9, 0.9, 0, 50), "sensitivity_n must be whole numbers of at least 1, got 0"),
        (([5, 6], 10, [0.9] * 3, 0.9, 50, 50), r"do not fit together: .* sensitivity \(3,\)"),
    ],
)
def test_unusable_input_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        stats.corrected_shares(*arguments)


@pytest.mark.parametrize(("n", "reference"), [(40, 100), (500, 100), (100, 300)])
def test_intervals_cover_with_estimated_sensitivity_and_specificity(n, reference):
    rng = np.random.default_rng(0)
    for share in (0.2, 0.5, 0.8):
        k = rng.binomial(n, share * 0.9 + (1 - share) * 0.2, 4000)
        sens, spec = rng.binomial(reference, 0.9, 4000), rng.binomial(reference, 0.8, 4000)
        found = stats.corrected_shares(k, n, sens / reference, spec / reference, reference, reference)
        assert 0.93 <= np.mean((found.ci_low <= share) & (share <= found.ci_high)) <= 0.97
        assert found.share.mean() == pytest.approx(share, abs=0.01)
