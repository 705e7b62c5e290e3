"""The test of paired differences and its interval: they agree, and follow from their definitions."""

import itertools

import numpy as np
import pytest
from scipy import stats as reference

from biaslab import stats

RNG = np.random.default_rng(12)
SAMPLES = [
    RNG.normal(0.4, 1, 9),
    RNG.exponential(size=20) - 0.6,
    RNG.integers(-1, 2, 60).astype(float),
    -RNG.exponential(size=7),
]


def hall(values, mean):
    """Hall's statistic (1992, section 2) and its p by Student's t, straight from the formula."""
    n, gamma = len(values), np.mean((values - values.mean()) ** 3) / np.std(values) ** 3
    w = (values.mean() - mean) / values.std(ddof=1)
    bent = np.sqrt(n) * (w + gamma * w**2 / 3 + gamma**2 * w**3 / 27 + gamma / (6 * n))
    return 2 * reference.t.sf(abs(bent), n - 1)


@pytest.mark.parametrize("values", SAMPLES)
def test_the_interval_is_the_wider_of_two_and_p_that_of_where_it_ends(values):
    found = stats.paired_difference(values)
    student = reference.ttest_1samp(values, 0)
    low, high = student.confidence_interval(0.95)
    assert found.ci_low <= low + 1e-12 and found.ci_high >= high - 1e-12
    # Each end is where one of both tests has its level, and the other has no less.
    for end in (found.ci_low, found.ci_high):
        both = reference.ttest_1samp(values, end).pvalue, hall(values, end)
        assert max(both) == pytest.approx(0.05, abs=1e-9)
    least = 2 * 0.5 ** np.count_nonzero(values)
    assert found.p == pytest.approx(max(student.pvalue, hall(values, 0), least), rel=1e-6)
    assert found.difference == pytest.approx(values.mean()) and found.n == len(values)


@pytest.mark.parametrize(("values", "confidence"), list(itertools.product(SAMPLES, (0.5, 0.8, 0.9, 0.95))))
def test_p_is_below_the_level_exactly_where_the_interval_leaves_0_out(values, confidence):
    found = stats.paired_difference(values, confidence=confidence)
    assert (found.p < 1 - confidence) == (found.ci_low > 0 or found.ci_high < 0)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([1.0, 2, 3, 4, 5], "rests on 5 units; a test takes 6 or more"),
        ([0.0] * 20 + [1.0, 2, 3, 4, 5], "5 of 25 units differ; a test takes 6 or more"),
        ([2.0] * 7, "every unit differs by the same amount"),
        ([0.0] * 9, "0 of 9 units differ; a test takes 6 or more"),
    ],
)
def test_too_few_differences_have_neither(values, reason):
    found = stats.paired_difference(values)
    assert np.isnan([found.ci_low, found.ci_high, found.p]).all() and found.reason == reason
    assert found.difference == pytest.approx(np.mean(values))


def test_a_stricter_level_takes_more():
    values = np.arange(1.0, 8)
    assert stats.paired_difference(values).reason == ""
    # 7 of one sign have 2 of 128 patterns, 0.016.
    assert "takes 8" in stats.paired_difference(values, confidence=0.99).reason


def test_corrected_deviations_at_fewer_images_are_means_over_all_choices():
    # 7 images, 5 of them women: all ways to choose 4.
    images = np.array([1] * 5 + [0] * 2)
    women = [sum(some) for some in itertools.combinations(images, 4)]
    expected = stats.corrected_absolute_deviation(women, 4).mean()
    assert stats.corrected_absolute_deviation(5, 7, at=4) == pytest.approx(expected)
    assert stats.corrected_absolute_deviation(5, 7, at=7) == pytest.approx(stats.corrected_absolute_deviation(5, 7))
    assert np.isnan(stats.corrected_absolute_deviation(0, 0, at=0))
    # On average over 9 images that is what 4 images give, whatever the true share.
    for share in (0.5, 0.7, 0.95):
        k = np.arange(10)
        nine = reference.binom.pmf(k, 9, share) @ stats.corrected_absolute_deviation(k, 9, at=4)
        four = reference.binom.pmf(k[:5], 4, share) @ stats.corrected_absolute_deviation(k[:5], 4)
        assert nine == pytest.approx(four)
