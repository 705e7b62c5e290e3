"""Bootstraps over occupations and images: enumeration, image-by-image draws, formulas and ground truth."""

import tracemalloc

import numpy as np
import pandas as pd
import pytest

from biaslab import stats
from biaslab.errors import InputError

COUNTS = np.array([[2, 8], [5, 5], [9, 1], [4, 7]])
N = np.full((4, 2), 10)


def mean(shares):
    return shares.mean(axis=(-2, -1))


def test_hierarchical_bootstrap_mean_share_matches_t_interval():
    rng = np.random.default_rng(8)
    n = np.full((30, 1), 12)
    counts = rng.binomial(n, rng.beta(2, 2, size=n.shape))
    got = stats.hierarchical_bootstrap(counts, n, mean, seed=0)
    # A mean of 30 independent shares: its t interval holds image noise and occupations alike.
    want = stats.mean_interval(counts[:, 0] / 12)
    assert got.value == pytest.approx(want.value)
    assert got.se == pytest.approx((counts / 12).std(ddof=1) / np.sqrt(30), rel=0.05)
    assert (got.ci_low, got.ci_high) == pytest.approx((want.ci_low, want.ci_high), abs=0.01)
    assert abs(got.bias) < 0.002
    assert (got.n_groups, got.n_images, got.replicates) == (30, 360, 10_000)


def test_hierarchical_bootstrap_accepts_several_statistics():
    def both(shares):
        return np.stack([mean(shares), shares[..., 0].mean(axis=-1)], axis=-1)

    got = stats.hierarchical_bootstrap(pd.DataFrame(COUNTS), pd.DataFrame(N), both, replicates=500, seed=4)
    single_result = stats.hierarchical_bootstrap(COUNTS, N, mean, replicates=500, seed=4)
    for field in ("value", "ci_low", "ci_high", "bias", "se"):
        assert getattr(got, field).shape == (2,)
        assert getattr(got, field)[0] == pytest.approx(getattr(single_result, field))
    np.testing.assert_allclose(got.value, [41 / 80, 20 / 40])


def test_hierarchical_bootstrap_is_determined_by_seed():
    counts, n = np.arange(40).reshape(20, 2), np.full((20, 2), 40)
    first, repeat_result, other = (
        stats.hierarchical_bootstrap(counts, n, mean, replicates=200, seed=seed) for seed in (5, 5, 6)
    )
    assert first == repeat_result
    assert first.ci_low != other.ci_low
    # The estimate itself is the same, whatever the draws behind its interval.
    folded = {
        stats.hierarchical_bootstrap(
            counts, n, lambda s: np.abs(s - 0.5).mean(axis=(-2, -1)), replicates=many, seed=seed
        ).estimate
        for seed, many in ((5, 200), (6, 200), (5, 400))
    }
    assert len(folded) == 1


def test_hierarchical_bootstrap_drops_empty_groups():
    counts = np.array([[2, 8.0], [np.nan, 5], [9, 0], [0, 0]])
    n = np.array([[10, 10], [10, 10], [10, 0], [0, 0]])
    group_counts = []

    def by_group(shares):
        np.testing.assert_array_equal(np.isnan(shares).sum(axis=-1).max(initial=1), 1)
        group_counts.append(shares.shape[-2])
        return np.nanmean(shares, axis=-1).mean(axis=-1)

    got = stats.hierarchical_bootstrap(counts, n, by_group, replicates=50, seed=0)
    assert set(group_counts) == {3}
    # Group means 0.5 (of 0.2 and 0.8), 0.5 and 0.9; images 20 + 10 + 10.
    assert got.value == pytest.approx(1.9 / 3)
    assert (got.n_groups, got.n_images) == (3, 40)


def test_hierarchical_bootstrap_no_variance_has_no_interval():
    # Every group has the same share of the same n, so the variance between groups cannot be estimated.
    same = stats.hierarchical_bootstrap([[5], [5], [5]], [[5], [5], [5]], mean, replicates=200, seed=0)
    assert same.value == 1.0
    assert np.isnan([same.ci_low, same.ci_high, same.se]).all() and same.reason == ""


def test_hierarchical_bootstrap_too_few_groups_has_reason():
    two = stats.hierarchical_bootstrap(COUNTS[:2], N[:2], mean, replicates=400, seed=0)
    assert np.isnan([two.ci_low, two.ci_high, two.p]).all() and two.reason.startswith("With fewer than 3 occupations")
    # Fixed occupations, without inference to others.
    single_result = stats.hierarchical_bootstrap(COUNTS[:2], N[:2], mean, replicates=400, seed=0, fixed=True)
    assert np.isfinite(single_result.ci_low) and single_result.reason == ""
    # If most shares of a cell are of one image, the noise variance cannot be estimated.
    counts, n = np.tile([[8, 1], [3, 0]], (10, 1)), np.tile([[20, 1], [20, 1]], (10, 1))
    n[:9, 1] = 2
    few_images = stats.hierarchical_bootstrap(counts, n, mean, replicates=400, seed=0)
    assert np.isnan([few_images.ci_low, few_images.ci_high]).all() and few_images.reason.startswith(
        "With fewer than 2 images"
    )
    assert few_images.value == pytest.approx(mean(counts / n))
    n[:, 1] = 2
    assert np.isfinite(stats.hierarchical_bootstrap(counts, n, mean, replicates=400, seed=0).ci_low)


def test_hierarchical_bootstrap_omits_nan_replicates():
    def above_half(shares):
        shares_above = np.where(shares[..., 0] > 0.5, shares[..., 0], np.nan)
        has_any = (~np.isnan(shares_above)).any(axis=-1)
        return np.where(
            has_any, np.nansum(shares_above, axis=-1) / np.maximum((~np.isnan(shares_above)).sum(axis=-1), 1), np.nan
        )

    counts, n = np.array([[20], [30], [900], [700]]), np.full((4, 1), 1000)
    got = stats.hierarchical_bootstrap(counts, n, above_half, replicates=4000, seed=0)
    # Without the last two groups, chance (1/2)**4, no share is above one half.
    assert got.replicates == pytest.approx(4000 * 15 / 16, abs=4 * np.sqrt(4000 * 15 / 256) + 2)
    assert got.value == pytest.approx(0.8)
    assert np.isfinite(got.ci_low)
    none = stats.hierarchical_bootstrap([[1], [2]], [[10], [10]], above_half, replicates=20, seed=0)
    assert none.replicates == 0
    assert np.isnan([none.value, none.ci_low, none.ci_high]).all()


def test_hierarchical_bootstrap_estimates_folding_bias():
    # 2000 occupations with shares Beta(2, 2), 9 images: E|p - 0.5| = 0.1875 by integration
    # (2 * int over 0..0.5 of (0.5 - p) 6p(1 - p) dp = 2 * (0.375 * 0.25) = 0.1875).
    rng = np.random.default_rng(0)
    n = np.full((2000, 1), 9)
    counts = rng.binomial(n, rng.beta(2, 2, size=n.shape))
    got = stats.hierarchical_bootstrap(counts, n, lambda s: np.abs(s - 0.5).mean(axis=(-2, -1)), replicates=400, seed=1)
    assert got.value - 0.1875 > 0.025
    assert got.value - got.bias == pytest.approx(0.1875, abs=4 * got.se)
    assert got.se < 0.006
    assert got.ci_high < got.value  # the uncorrected measure lies outside: the null expectation exceeds the uncertainty


@pytest.mark.long
def test_hierarchical_bootstrap_memory_is_bounded():
    rng = np.random.default_rng(0)
    n = np.full((62, 5), 100)
    counts = rng.binomial(n, 0.4)
    peaks = []
    for replicates in (3000, 12_000):
        tracemalloc.start()
        stats.hierarchical_bootstrap(counts, n, mean, replicates=replicates, seed=0)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # All 12 000 replicates at once would be 30 MB for each array of shares.
    assert peaks[1] < 1.25 * peaks[0]
    assert peaks[1] < 30e6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"counts": N + 1}, r"count .* 11 of 10"),
        ({"counts": COUNTS[0], "n": N[0]}, r"counts and n .* shape \(2,\)"),
        ({"counts": [[0]], "n": [[0]]}, r"at least one image, .* shape \(1, 1\)"),
        ({"replicates": 1}, "replicates .* at least 2, got 1"),
        ({"seed": None}, "seed must be a whole .* seed=0"),
        ({"statistic": lambda s: s}, r"statistic .* got \(4, 2\)"),
        ({"statistic": np.mean}, r"leading axes: .* \(100, 4, 2\)"),
    ],
)
def test_hierarchical_bootstrap_invalid_input_is_refused(change, message):
    arguments = {"counts": COUNTS, "n": N, "statistic": mean, "replicates": 200, "seed": 0} | change
    with pytest.raises(InputError, match=message):
        stats.hierarchical_bootstrap(**arguments)
