"""Similarities and object bias against scipy, loops and the printed tables."""

import itertools

import numpy as np
import pytest
from scipy.spatial.distance import cosine as cosine_distance

from biaslab.errors import InputError
from biaslab.measures import (
    bias_score,
    co_occurrence_similarity,
    cosine_similarity,
    coverage,
    dependency_group,
    disparity,
    intersection_ratio,
    is_guided,
)


def test_cosine_equals_scipy():
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(6, 8)), rng.normal(size=(6, 8))
    expected = [1 - cosine_distance(x, y) for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(cosine_similarity(a, b), expected)
    np.testing.assert_allclose(cosine_similarity(a.T, b.T, axis=0), expected)
    pairs = cosine_similarity(a[:, None], b[None])
    assert pairs.shape == (6, 6)
    np.testing.assert_allclose(pairs[2, 4], 1 - cosine_distance(a[2], b[4]))


def test_cosine_by_hand_and_at_the_edges():
    assert cosine_similarity([3, 4], [4, 3]) == pytest.approx(24 / 25)
    # zero and missing vectors have no direction
    np.testing.assert_array_equal(cosine_similarity([[0, 0], [1, np.nan]], [1, 1]), [np.nan, np.nan])
    # squares of 1e200 overflow, of 1e-200 vanish
    assert cosine_similarity([1e200, 1e200], [1e-200, 0]) == pytest.approx(np.sqrt(0.5))
    vector = np.full(7, 0.1)
    assert cosine_similarity(vector, vector) <= 1
    # float16 latents are computed in double precision
    assert cosine_similarity(np.full(4096, 300, np.float16), np.full(4096, 300, np.float16)) == pytest.approx(
        1
    )


def test_disparity_is_the_mean_over_pairs_with_latents_flattened():
    rng = np.random.default_rng(6)
    a, b = rng.normal(size=(5, 4, 3, 3)), rng.normal(size=(5, 4, 3, 3))
    a[1] = 0
    b[3, 0, 0, 0] = np.nan
    expected = np.mean([1 - cosine_distance(a[i].ravel(), b[i].ravel()) for i in (0, 2, 4)])
    result = disparity(a, b)
    assert result.value == pytest.approx(expected)
    assert (result.n, result.n_missing) == (3, 2)


def test_no_pairs_are_nan():
    value, n, missing = disparity(np.empty((0, 3)), np.empty((0, 3)))
    assert np.isnan(value)
    assert (n, missing) == (0, 0)


def test_co_occurrence_similarity_leaves_out_images_without_objects():
    v = np.array([[1, 1, 0], [2, 0, 0], [0, 0, 0], [0, 0, 0]])
    w = np.array([[1, 0, 0], [0, 3, 1], [1, 0, 0], [0, 0, 0]])
    # cosines: 1 / sqrt(2), 0 (no object in common), none, none
    result = co_occurrence_similarity(v, w)
    assert result.value == pytest.approx(1 / np.sqrt(2) / 2)
    assert (result.n, result.n_missing) == (2, 2)


def test_bias_score_is_a_ratio_of_rates_for_prompt_sets_of_unequal_size():
    rng = np.random.default_rng(7)
    masculine, feminine = rng.integers(1, 50, size=20), rng.integers(1, 50, size=20)
    rate_m, rate_f = masculine / 40, feminine / 130
    np.testing.assert_allclose(bias_score(masculine, feminine, 40, 130), rate_m / (rate_m + rate_f))
    # equal rates at unequal sizes favour no one: 10 of 20 prompts, 30 of 60
    assert bias_score(10, 30, 20, 60) == pytest.approx(0.5)
    np.testing.assert_allclose(bias_score([3, 0, 0], [0, 2, 0], 10, 30), [1, 0, np.nan])


def test_coverage_counts_pixels():
    rng = np.random.default_rng(9)
    region, masks = rng.random((6, 7)) < 0.5, rng.random((3, 6, 7)) < 0.4
    expected = [
        sum(region[i, j] and mask[i, j] for i in range(6) for j in range(7)) / np.count_nonzero(region)
        for mask in masks
    ]
    np.testing.assert_allclose(coverage(region, masks), expected)
    assert coverage([[1, 1], [1, 1]], [[1, 0], [0, 0]]) == 0.25
    # the share of the object's region, not of the mask's
    assert coverage([[1, 0], [0, 0]], [[1, 1], [1, 1]]) == 1
    assert np.isnan(coverage(np.zeros((2, 2)), np.ones((2, 2))))


def test_guided_needs_one_word_above_its_threshold():
    # thresholds are strict: 0.7, and 0.25 where object and word both name a human
    assert is_guided([0.1, 0.71], False)
    assert not is_guided([0.1, 0.7], False)
    assert is_guided([0.26, 0.1], [True, False])
    assert not is_guided([0.25, 0.26], [True, False])
    np.testing.assert_array_equal(is_guided([[0.9, 0.0], [np.nan, 0.2]], False), [True, False])
    assert not is_guided([], False)


def test_dependency_groups_cover_every_case():
    groups = {
        (True, True, True): "explicitly_guided",
        (False, True, True): "implicitly_guided",
        (True, False, True): "explicitly_independent",
        (False, False, True): "implicitly_independent",
        (True, False, False): "hidden",
        (True, True, False): "hidden",
        (False, False, False): "",
        (False, True, False): "",
    }
    assert set(groups) == set(itertools.product([True, False], repeat=3))
    explicit, guided, detected = zip(*groups, strict=True)
    assert dependency_group(explicit, guided, detected).tolist() == list(groups.values())
    assert dependency_group([], [], []).shape == (0,)


def test_intersection_ratio_reproduces_table_13():
    # triplets, tables 12 and 13, GCC: 155 explicitly guided objects, 1059 implicitly guided. 119 in common
    # give the printed 76.77 % of the first and 11.24 % of the second.
    explicitly, implicitly = range(155), range(155 - 119, 155 - 119 + 1059)
    assert round(intersection_ratio(explicitly, implicitly), 2) == 76.77
    assert round(intersection_ratio(implicitly, explicitly), 2) == 11.24
    assert intersection_ratio(["a", "a", "b"], ["a"]) == 50
    assert np.isnan(intersection_ratio([], ["a"]))


def test_errors():
    with pytest.raises(InputError, match="must have vectors of one length along axis -1"):
        cosine_similarity([1, 2], [1, 2, 3])
    with pytest.raises(InputError, match="There is no axis -1 of features"):
        cosine_similarity(1, 2)
    with pytest.raises(InputError, match="Vectors of length 0 have no direction"):
        cosine_similarity(np.empty((2, 0)), np.empty((2, 0)))
    with pytest.raises(InputError, match=r"must be of one shape \(pairs, features\)"):
        disparity(np.ones((2, 3)), np.ones((3, 3)))
    with pytest.raises(InputError, match="v holds -1; allowed is 0 or more or NaN"):
        co_occurrence_similarity([[-1, 2]], [[1, 2]])
    with pytest.raises(InputError, match=r"A prompt set is empty \(size 0\)"):
        bias_score(1, 1, 0, 5)
    with pytest.raises(InputError, match=r"object_mask holds 0\.5; allowed are True, False, 1 and 0"):
        coverage([[0.5, 1]], [[1, 1]])
    with pytest.raises(InputError, match="must share height and width"):
        coverage(np.ones((2, 2)), np.ones((2, 3)))
    with pytest.raises(InputError, match="detected holds nan"):
        dependency_group([True], [True], [np.nan])
    with pytest.raises(InputError, match="There is no axis -1 of words"):
        is_guided(0.5, False)
