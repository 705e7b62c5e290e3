"""Null expectations of folded measures by brute-force sums, and corrected estimates over all true shares."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, multinomial

from biaslab import stats
from biaslab.errors import InputError


@pytest.mark.parametrize("center", [0.5, 0.1, 0.25, 0.37])
def test_expected_absolute_deviation_is_the_binomial_sum(center):
    share = np.array([0, 0.03, 0.1, 0.5, 0.77, 1])
    n = np.array([1, 2, 3, 10, 57])
    got = stats.expected_absolute_deviation(share[:, None], n, center)
    want = [[sum(binom.pmf(k, m, p) * abs(k / m - center) for k in range(m + 1)) for m in n] for p in share]
    np.testing.assert_allclose(got, want, atol=1e-12)


def test_absolute_deviation_null_mean_matches_hand_values():
    # 3 images: |k/3 - 1/2| is 1/2, 1/6, 1/6, 1/2 with chances 1/8, 3/8, 3/8, 1/8, so 1/4.
    # 8 images: sum C(8, k)|k - 4| / (8 * 256) = 280 / 2048; 9 images give the same 0.13672.
    got = stats.absolute_deviation_null_mean(pd.Series([3, 8, 9, 100, 500]))
    np.testing.assert_allclose(got, [0.25, 280 / 2048, 280 / 2048, 0.039795, 0.017832], atol=1e-6)
    assert stats.absolute_deviation_null_mean(1) == 0.5
    assert stats.absolute_deviation_null_mean(4, center=0) == 0


def test_mad_null_mean_matches_brute_force():
    # A bin holds Binomial(n, 0.1) images, and for n <= 10 only an empty bin lies below n/10, so the mean
    # deviation is twice that of empty bins: 2 * 0.1 * 0.9**n.
    assert stats.mad_null_mean(9, 10) == pytest.approx(0.2 * 0.9**9)
    assert stats.mad_null_mean(8, 10) == pytest.approx(0.2 * 0.9**8)
    assert stats.mad_null_mean(9, 2) == pytest.approx(280 / 2048)
    # Brute force over all outcomes of 3 images in 3 bins.
    outcomes = [(a, b, 3 - a - b) for a in range(4) for b in range(4 - a)]
    want = sum(multinomial.pmf(o, 3, [1 / 3] * 3) * np.abs(np.array(o) / 3 - 1 / 3).mean() for o in outcomes)
    assert stats.mad_null_mean(3, 3) == pytest.approx(want)


def test_deviation_of_no_images_is_nan():
    assert np.isnan(stats.expected_absolute_deviation([0.5, np.nan, 0.5], [0, 5, np.nan])).all()
    assert np.isnan(stats.corrected_absolute_deviation([0, np.nan], [0, 10])).all()
    assert np.isnan(stats.mad_null_mean(0, 10))
    np.testing.assert_array_equal(np.isnan(stats.corrected_mad([[0, 0], [3, 5]])), [True, False])
    assert stats.corrected_absolute_deviation([], []).shape == (0,)
    assert stats.absolute_deviation_null_mean([]).shape == (0,)


def _over_all_shares(n, center):
    """Return shares, the mean and the standard deviation of the corrected estimate at each."""
    error = np.sqrt(center * (1 - center) / n)
    share = np.unique(np.r_[np.linspace(0, 1, 1001), np.clip(center + np.linspace(-5, 5, 301) * error, 0, 1)])
    estimate = stats.corrected_absolute_deviation(np.arange(n + 1), n, center)
    chance = binom.pmf(np.arange(n + 1), n, share[:, None])
    mean = chance @ estimate
    return share, mean, np.sqrt(np.maximum(chance @ estimate**2 - mean**2, 0))


@pytest.mark.parametrize("center", [0.5, 0.1])
@pytest.mark.parametrize("n", [9, 40, 100, 101, 500, 1500])
def test_corrected_deviation_bias_and_spread_are_bounded(n, center):
    share, mean, deviation = _over_all_shares(n, center)
    assert np.abs(mean - np.abs(share - center)).max() < 0.25 * stats.absolute_deviation_null_mean(n, center)
    assert deviation.max() < 1.95 * 0.5 / np.sqrt(n)  # the plain share's largest standard deviation is 0.5/sqrt(n)


def test_corrected_deviation_is_monotone_and_symmetric():
    for n in (9, 40, 100, 333):
        estimate = stats.corrected_absolute_deviation(np.arange(n + 1), n)
        np.testing.assert_allclose(estimate, estimate[::-1], atol=1e-12)
        rise = np.diff(estimate[n - n // 2 :]) * n
        assert rise.min() > 0.5 - 1e-6
        assert rise.max() < 3 + 1e-6
        assert estimate[n // 2] < 0
    assert stats.corrected_absolute_deviation(95, 100) == pytest.approx(0.45)
    assert stats.corrected_absolute_deviation(0, 10**6) == pytest.approx(0.5)


def test_corrected_mad_is_mean_over_bins():
    counts = np.array([[9, 0, 0], [3, 3, 3], [1, 2, 6]])
    want = [np.mean([stats.corrected_absolute_deviation(k, 9, 1 / 3) for k in row]) for row in counts]
    np.testing.assert_allclose(stats.corrected_mad(counts), want)
    np.testing.assert_allclose(stats.corrected_mad(pd.DataFrame(counts)), want)
    assert stats.corrected_mad([7, 2]) == pytest.approx(stats.corrected_absolute_deviation(7, 9))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stats.corrected_absolute_deviation(5, 4), "count .* 5 of 4"),
        (lambda: stats.absolute_deviation_null_mean(5, 50), "center .* between 0 and 1, got 50"),
        (lambda: stats.expected_absolute_deviation(50, 10), "share contains 50; it must be 0 to 1"),
        (lambda: stats.mad_null_mean(9, 1), "bins .* at least 2, got 1"),
        (lambda: stats.corrected_mad([[3], [4]]), "counts .* at least 2 bins .* got 1"),
    ],
)
def test_null_expectation_invalid_input_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
