"""Resampling of images of captions keeps their dependence."""

import numpy as np
import pytest

from biaslab import stats
from biaslab.errors import InputError

GROUPS = 200_000


def whole(shares, drawing, rng_seed=0, rows=None):
    """Return newly drawn shares of GROUPS groups whose true shares are ``shares``, all drawn as group 0."""
    rows = np.zeros((1, GROUPS), dtype=int)
    true = np.broadcast_to(np.asarray(shares, float), (1, GROUPS, 2))
    return drawing.draw(true, drawing.n[rows], rows, np.random.default_rng(rng_seed))[0]


def copied(same=0.978, captions=8, images=1, groups=60, seed=3):
    """Return the captions of many groups: each image shows the own image's gender with probability ``same``."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.7, 0.9, (groups, 1))
    own = rng.random((groups, captions)) < p
    women = rng.binomial(images, np.where(own, same, 1 - same))
    group = np.repeat(np.arange(groups), captions)
    n = np.ones(group.size)
    return stats.CaptionClusterSampling(group, own.ravel(), women.ravel(), images * n, n, groups)


def test_caption_cluster_counts_are_sums_over_captions():
    got = stats.CaptionClusterSampling([0, 0, 1, 1], [1, 0, np.nan, 1], [2, 0, 1, 0], [2, 1, 3, 0], [3, 1, 2, 1], 3)
    # Group 0: 4 captions with 3 women, 3 * 2 + 1 images with 6 women; group 1: one own image; group 2: none.
    np.testing.assert_array_equal(got.counts, [[3, 6], [1, 2], [0, 0]])
    np.testing.assert_array_equal(got.n, [[4, 7], [1, 6], [0, 0]])
    subset = got.select_groups(np.array([False, True, True]))
    np.testing.assert_array_equal(subset.n, [[1, 6], [0, 0]])


@pytest.mark.parametrize("same", [0.5, 0.75, 0.978])
def test_draw_one_image_per_caption_keeps_dependence(same):
    drawing = copied(same, groups=2000)
    resamples = whole((0.4, 0.4 * same + 0.6 * (1 - same)), drawing)
    assert resamples.mean(axis=0) == pytest.approx([0.4, 0.4 * same + 0.6 * (1 - same)], abs=0.003)
    # One caption: cov(own, generated) = (2 same - 1) p (1 - p); shares of eight have an eighth of it.
    cov = np.cov(resamples.T) * 8
    assert cov[0, 0] == pytest.approx(0.24, abs=0.005)
    assert cov[0, 1] == pytest.approx((2 * same - 1) * 0.24, abs=0.015)


def test_draw_images_of_caption_are_clustered():
    drawing = copied(0.95, captions=4, images=6, groups=2000)
    resamples = whole((0.4, 0.4 * 0.95 + 0.6 * 0.05), drawing)
    # A caption's mean: variance of its expectation, .9**2 * .24, and of six images around it, .95 * .05 / 6.
    assert np.var(resamples[:, 1]) * 4 == pytest.approx(0.81 * 0.24 + 0.0475 / 6, rel=0.05)
    # As independent images it would be an n-th of p (1 - p), a fifth of this.
    assert np.var(resamples[:, 1]) > 3 * 0.41 * 0.59 / 24


def test_draw_keeps_clustering_beyond_own_image():
    # Half of the captions give six women, half six men, whatever the own image shows.
    rng = np.random.default_rng(0)
    groups, captions = 500, 8
    own, women = rng.integers(0, 2, (2, groups * captions))
    group = np.repeat(np.arange(groups), captions)
    n = np.ones(group.size)
    drawing = stats.CaptionClusterSampling(group, own, 6 * women, 6 * n, n, groups)
    resamples = whole((0.5, 0.5), drawing)
    assert np.var(resamples[:, 1]) * captions == pytest.approx(0.25, rel=0.06)
    assert np.cov(resamples.T)[0, 1] * captions == pytest.approx(0, abs=0.02)


def test_draw_images_without_gender_stay_missing():
    # Three captions of group 0: own image alone, generated alone (1 of 2), both.
    drawing = stats.CaptionClusterSampling(
        [0, 0, 0, 1, 1], [1, np.nan, 0, 1, 0], [0, 1, 2, 2, 0], [0, 2, 2, 2, 2], [1, 1, 1, 4, 4], 2
    )
    rows = np.array([[0, 1]])
    true = np.full((1, 2, 2), 0.5)
    resamples = drawing.draw(true, drawing.n[rows], rows, np.random.default_rng(1))
    assert drawing.n.tolist() == [[2, 4], [8, 16]]
    whole_numbers = resamples[0] * drawing.n
    np.testing.assert_allclose(whole_numbers, np.round(whole_numbers))
    # Shares stay between 0 and 1.
    many = np.broadcast_to(true, (500, 2, 2))
    resamples = drawing.draw(
        many, drawing.n[np.broadcast_to(rows, (500, 2))], np.broadcast_to(rows, (500, 2)), np.random.default_rng(1)
    )
    assert resamples.min() == 0 and resamples.max() == 1 and resamples.mean(axis=0) == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_draw_extreme_shares_are_constant(share):
    for images in (1, 4):
        resamples = whole((share, share), copied(images=images))
        assert (resamples == share).all()


def test_small_sample_bias_shrinks_noise_variance():
    # Own and generated image always the same, and every occupation at one half: all variance is noise.
    rng = np.random.default_rng(2)
    own = rng.integers(0, 2, 400 * 8)
    n = np.ones(own.size)
    drawing = stats.CaptionClusterSampling(np.repeat(np.arange(400), 8), own, own, n, n, 400)
    shares = drawing.counts / drawing.n
    pulled = drawing.small_sample_bias(shares, drawing.n, np.arange(400))
    np.testing.assert_allclose(pulled[:, 0], pulled[:, 1], atol=1e-6)
    assert np.var(shares[:, 0]) == pytest.approx(0.25 / 8, rel=0.2)
    assert np.var(pulled[:, 0]) < 0.1 * np.var(shares[:, 0])


def test_hierarchical_bootstrap_accepts_several_samplings():
    drawing = copied(groups=30)
    counts = np.hstack([drawing.counts, np.full((30, 1), 4)])
    n = np.hstack([drawing.n, np.full((30, 1), 9)])

    def change(shares):
        return np.abs(shares[..., 1] - 0.5).mean(axis=-1) - np.abs(shares[..., 0] - 0.5).mean(axis=-1)

    options = {"replicates": 400, "seed": 1}
    both = stats.hierarchical_bootstrap(counts, n, change, drawing=[drawing, stats.IndependentSampling(1)], **options)
    single_result = stats.hierarchical_bootstrap(drawing.counts, drawing.n, change, drawing=drawing, **options)
    assert both.value == single_result.value and both.se == pytest.approx(single_result.se, rel=0.25)
    # A group that no image is left of takes its captions along.
    empty = stats.CaptionClusterSampling([1, 1, 2, 2], [1, 0, 1, 0], [1, 0, 1, 1], [1] * 4, [5] * 4, 3)
    got = stats.hierarchical_bootstrap(empty.counts, empty.n, change, drawing=empty, **options)
    assert got.n_groups == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"own": [0.5]}, r"own must be 1 .*, got 0\.5"),
        ({"female": [2]}, "count must not exceed n, got 2 of 1."),
    ],
)
def test_caption_cluster_sampling_invalid_input_is_refused(change, message):
    arguments = {"group": [0], "own": [1], "female": [1], "n_judged": [1], "captions": [1], "groups": 2}
    with pytest.raises(InputError, match=message):
        stats.CaptionClusterSampling(**arguments | change)


def test_hierarchical_bootstrap_mismatched_sampling_is_refused():
    with pytest.raises(InputError, match="drawing has 3 cells, but counts and n have 2"):
        stats.hierarchical_bootstrap([[1, 2]] * 3, [[3, 4]] * 3, np.mean, seed=0, drawing=stats.IndependentSampling(3))


@pytest.mark.parametrize("drawing", [stats.IndependentSampling(2), copied(0.978), copied(0.978, images=4)])
def test_draw_is_stable_under_rounding_of_shares(drawing):
    # As processors compute shares; a share of 0 draws no random number, one of 1e-17 does.
    shares = np.array([[0.0, 0.3], [0.4, 1.0], [0.5, 0.5], [1.0, 0.7]])
    other = np.clip(shares + np.array([[1e-17, 1e-16], [1e-16, -1e-16], [-1e-16, 1e-16], [-1e-16, -1e-16]]), 0, 1)
    n, rows = np.full((4, 2), 40), np.arange(4)
    resamples = [drawing.draw(s, n, rows, np.random.default_rng(1)) for s in (shares, other)]
    np.testing.assert_array_equal(*resamples)
