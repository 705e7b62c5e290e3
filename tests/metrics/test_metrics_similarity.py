"""Similarities against SciPy and loops over pixels, object bias against rates and published tables."""

from importlib.util import find_spec

import numpy as np
import pytest
from scipy.spatial.distance import cosine as cosine_distance

from biaslab.errors import InputError
from biaslab.metrics import similarity
from biaslab.metrics.similarity import (
    DEPENDENCY_GROUPS,
    HUMANS,
    bias_score,
    cosines,
    coverage,
    dependency_groups_of_largest,
    diff_pix,
    intersection_ratio,
    luma,
    split_product,
    ssim,
    ssim_maps,
    word_mean,
)

needs_opencv = pytest.mark.skipif(find_spec("cv2") is None, reason="pixels need the extra 'models'")


def test_cosines_equal_scipy_on_flattened_rows(monkeypatch):
    rng = np.random.default_rng(6)
    a, b = rng.normal(size=(7, 4, 3, 3)), rng.normal(size=(7, 4, 3, 3))
    expected = [1 - cosine_distance(x.ravel(), y.ravel()) for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(cosines(a, b), expected, atol=1e-12)
    # Two rows at a time, the last alone.
    monkeypatch.setattr(similarity, "_NUMBERS_AT_ONCE", 2 * 36)
    np.testing.assert_allclose(cosines(a, b), expected, atol=1e-12)


def test_cosines_edge_cases():
    rows = [[3, 4], [0, 0], [1, np.nan], [1e200, 1e200], [-1, 0]]
    others = [[4, 3], [1, 1], [1, 1], [1e-200, 0], [2, 0]]
    np.testing.assert_allclose(cosines(rows, others), [24 / 25, np.nan, np.nan, np.sqrt(0.5), -1])
    # Squares of 300 do not fit in float16.
    half = np.full((1, 4096), 300, np.float16)
    assert cosines(half, half) == pytest.approx(1, abs=1e-12)
    assert cosines(np.full((1, 7), 0.1), np.full((1, 7), 0.1)) <= 1
    assert cosines(np.empty((0, 3)), np.empty((0, 3))).shape == (0,)


def test_word_mean_omits_start_and_padding():
    embeddings = np.arange(24.0).reshape(2, 4, 3)
    words = np.array([[0, 1, 1, 0], [0, 0, 0, 0]], bool)
    np.testing.assert_array_equal(word_mean(embeddings, words), [[4.5, 5.5, 6.5], [np.nan] * 3])
    # A prompt with one word more, and other padding, compares with the first.
    longer = np.concatenate([embeddings[0, 1:3], embeddings[0, 1:3], np.ones((5, 3))])[None]
    assert cosines(word_mean(embeddings, words)[:1], word_mean(longer, np.arange(9)[None] < 4)) == pytest.approx(1)


def by_pixel(x, y):
    """Return the structural similarity of each pixel as its definition says, without any trick of sums."""
    padded = [np.pad(side.astype(float), 3, "symmetric") for side in (x, y)]
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    out = np.empty(x.shape)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            a, b = (side[i : i + 7, j : j + 7].ravel() for side in padded)
            (va, cab), (_, vb) = np.cov(a, b)
            ma, mb = a.mean(), b.mean()
            out[i, j] = (2 * ma * mb + c1) * (2 * cab + c2) / ((ma**2 + mb**2 + c1) * (va + vb + c2))
    return out


@needs_opencv
@pytest.mark.parametrize("shape", [(7, 7), (12, 31), (40, 9)])
def test_ssim_maps_match_pixel_loop(shape):
    rng = np.random.default_rng(2)
    first = rng.integers(0, 256, (3, *shape), dtype=np.uint8)
    first[1] = 255  # flat and bright, where single precision would lose the variance
    second = np.stack([first[0] // 2, first[1] - rng.integers(0, 2, shape, dtype=np.uint8), first[0] // 3])
    result = ssim_maps(first, second)
    expected = np.stack([by_pixel(x, y) for x, y in zip(first, second, strict=True)])
    np.testing.assert_allclose(result, expected, atol=1e-6)
    means = [vectors[3 : shape[0] - 3, 3 : shape[1] - 3].mean() for vectors in expected]
    np.testing.assert_allclose(ssim(result), means, atol=1e-6)


@needs_opencv
def test_ssim_maps_of_batch_equal_single_pairs():
    rng = np.random.default_rng(3)
    first, second = rng.integers(0, 256, (2, 30, 40, 40), dtype=np.uint8)
    single_maps = np.concatenate([ssim_maps(first[i : i + 1], second[i : i + 1]) for i in range(30)])
    np.testing.assert_array_equal(ssim_maps(first, second), single_maps)
    np.testing.assert_array_equal(ssim_maps(second, first), single_maps)
    assert (ssim_maps(first, first) == 1).all()


@needs_opencv
def test_luma_weights_channels():
    image = np.array([[[[255, 0, 0], [0, 255, 0], [0, 0, 255], [10, 10, 10]]]], np.uint8)
    # BT.601: 0.299, 0.587, 0.114 of 255.
    assert luma(image).tolist() == [[[76, 150, 29, 10]]]


@needs_opencv
def test_diff_pix_matches_hand_values():
    # On 64 x 64 the least area is 40 / 64 = 0.625 pixels; a contour runs through the middles of its pixels.
    maps = np.ones((5, 64, 64), np.float32)
    maps[0, 10:20, 30:50] = 0.1  # 10 x 20 pixels
    maps[1, 10:20, 30:50] = 0.1
    maps[1, 13:17, 35:40] = 1  # a hole in it is filled
    maps[2, 5, 5] = maps[2, 40, 3:60] = 0.1  # a point and a line enclose nothing
    maps[3, 10:20, 30:50] = 0.8  # Otsu splits it from 1, the fixed cut does not
    np.testing.assert_allclose(diff_pix(maps), np.array([200, 200, 0, 200, 0]) / 40.96)
    np.testing.assert_allclose(diff_pix(maps, fixed=True), np.array([200, 200, 0, 0, 0]) / 40.96)
    # Less than nothing in common is as much apart as can be.
    np.testing.assert_allclose(diff_pix(np.where(maps[:1] < 1, -0.9, 1)), [200 / 40.96])
    large = np.ones((1, 512, 512), np.float32)
    large[0, :7, :7] = 0  # 6 x 6 = 36 between middles: below 40
    large[0, 100:108, 100:108] = 0  # 7 x 7 = 49
    np.testing.assert_allclose(diff_pix(large), [100 * 64 / 512**2])


def test_split_product_is_largest_local_cosine():
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(2, 4, 6, 3)).astype(np.float32)
    expected = [max(1 - cosine_distance(x, y) for x, y in zip(p, q, strict=True)) for p, q in zip(a, b, strict=True)]
    np.testing.assert_allclose(split_product(a, b), expected, atol=1e-6)
    whole = [max((p * q).sum(axis=1)) / np.linalg.norm(p) / np.linalg.norm(q) for p, q in zip(a, b, strict=True)]
    np.testing.assert_allclose(split_product(a, b, dcr=True), whole, atol=1e-6)
    # The same at another place does not count.
    vectors = np.eye(3)[None]
    assert split_product(vectors, vectors[:, [1, 2, 0]]) == 0
    assert split_product(vectors, vectors) == 1 and split_product(vectors, -vectors) == -1
    a[0, 2] = 0  # a place without direction is passed over
    a[1] = 0
    a[2, 0, 0] = np.nan
    result = split_product(a, b)
    other_cosines = [1 - cosine_distance(a[0, k], b[0, k]) for k in (0, 1, 3, 4, 5)]
    np.testing.assert_allclose(result, [max(other_cosines), np.nan, np.nan, expected[3]], atol=1e-6)


def test_bias_score_normalizes_prompt_set_sizes():
    rng = np.random.default_rng(7)
    masculine, feminine = rng.integers(1, 50, size=20), rng.integers(1, 50, size=20)
    rate_m, rate_f = masculine / 40, feminine / 130
    np.testing.assert_allclose(bias_score(masculine, feminine, 40, 130), rate_m / (rate_m + rate_f))
    # equal rates at unequal sizes favour no one: 10 of 20 prompts, 30 of 60
    assert bias_score(10, 30, 20, 60) == pytest.approx(0.5)
    np.testing.assert_allclose(bias_score([3, 0, 0], [0, 2, 0], 10, 30), [1, 0, np.nan])


def test_intersection_ratio_reproduces_table_13():
    # triplets, tables 12 and 13, GCC: 155 explicitly guided objects, 1059 implicitly guided. 119 in common
    # give the printed 76.77% of the first and 11.24% of the second.
    explicitly, implicitly = range(155), range(155 - 119, 155 - 119 + 1059)
    assert round(intersection_ratio(explicitly, implicitly), 2) == 76.77
    assert round(intersection_ratio(implicitly, explicitly), 2) == 11.24
    assert intersection_ratio(["a", "a", "b"], ["a"]) == 50
    assert np.isnan(intersection_ratio([], ["a"]))


# -- dependency groups -----------------------------------------------------------------------------------


def test_coverage_is_share_of_object():
    rng = np.random.default_rng(3)
    objects, words = rng.random((4, 30, 20)) < 0.3, rng.random((3, 30, 20)) < 0.6
    objects[2] = False
    expected = np.full((4, 3), np.nan)
    for i in (0, 1, 3):
        for j in range(3):
            inside = [words[j, y, x] for y in range(30) for x in range(20) if objects[i, y, x]]
            expected[i, j] = sum(inside) / len(inside)
    np.testing.assert_allclose(coverage(objects, words), expected)
    assert coverage(objects, words[:0]).shape == (4, 0)
    assert coverage(objects[:0], words).shape == (0, 3)
    # Seven of ten pixels are exactly 0.7, which is not more than 0.7.
    ten, seven = np.ones((1, 2, 5), bool), np.arange(10).reshape(1, 2, 5) < 7
    assert coverage(ten, seven) == 0.7
    assert groups(["x"], coverage(ten, seven), [], ["y"]) == ["implicitly_independent"]


def groups(objects, covered, nouns, words):
    """Return the groups of an image's objects from the coverage of each by each word."""
    covered = np.reshape(covered, (len(objects), len(words)))
    human = np.array([word in HUMANS for word in words], bool)
    largest = (side.max(axis=1, initial=0) for side in (covered, covered[:, human]))
    names_of_objects = ["person" if o in HUMANS else o for o in objects]
    return dependency_groups_of_largest(names_of_objects, [o in nouns for o in objects], *largest).tolist()


def test_dependency_groups_match_hand_cases():
    objects = ["picnic", "basket", "park", "grass", "woman", "woman", "dress"]
    words = ["women", "picnic", "park"]
    covered = [
        [0.0, 0.71, 0.0],
        [0.9, 0.7, 0.0],
        [0.0, 0.69, 0.7],
        [0.0, 0.0, 0.7],
        [0.26, 0.0, 0.0],  # a person in a person's attention
        [0.25, 0.69, 0.0],
        [0.26, 0.0, 0.0],  # what is no person needs more
    ]
    result = groups(objects, covered, ["woman", "picnic", "park", "daytime"], words)
    assert result == [
        "explicitly_guided",
        "implicitly_guided",
        "explicitly_independent",
        "implicitly_independent",
        "explicitly_guided",
        "explicitly_independent",
        "implicitly_independent",
    ]
    assert set(result) == set(DEPENDENCY_GROUPS[:4])


def test_dependency_groups_with_missing_coverage():
    # A prompt without words guides nothing, and an image without objects has no group.
    assert groups(["a", "b"], np.zeros((2, 0)), ["a"], []) == ["explicitly_independent", "implicitly_independent"]
    assert groups([], np.zeros((0, 2)), ["a"], ["x", "y"]) == []
    # Without a known coverage that is enough, one that is not known may be; of human words one may be known.
    nan = np.nan
    names, largest, human = (["a", "b", "person", "person", "a"], [nan, 0.9, nan, 0.1, nan], [0, 0, 0.3, nan, 0.8])
    result = dependency_groups_of_largest(names, [False] * 5, largest, human)
    guided = "implicitly_guided"
    assert result.tolist() == [None, guided, guided, None, guided]


@pytest.mark.parametrize(
    ("call", "arguments", "message"),
    [
        (cosines, [np.ones((2, 3)), np.ones((3, 3))], r"\(2, 3\) and \(3, 3\)"),
        (cosines, [[[np.inf, 1]], [[1, 1]]], "infinite"),
        (cosines, [np.ones((2, 0)), np.ones((2, 0))], r"\(2, 0\)"),
        (split_product, [np.ones((1, 2, 3)), np.ones((1, 3, 3))], r"\(1, 2, 3\) and \(1, 3, 3\)"),
        (bias_score, [1, 1, 0, 5], r"A prompt set is empty \(size 0\)"),
        (bias_score, [1, -1, 5, 5], "count_feminine contains -1; it must be 0 or more, or NaN"),
        pytest.param(ssim_maps, [np.ones((1, 9, 9))] * 2, "float64", marks=needs_opencv),
        pytest.param(ssim_maps, [np.ones((1, 6, 9), np.uint8)] * 2, "6 x 9", marks=needs_opencv),
        (
            coverage,
            [np.ones((1, 2, 3), bool), np.ones((1, 3, 2), bool)],
            r"\(1, 2, 3\), and of words, \(1, 3, 2\)",
        ),
        (
            coverage,
            [np.ones((1, 2, 3), bool), np.ones((1, 2, 3), np.uint8)],
            "Masks of words are uint8; they must be bool",
        ),
        (
            dependency_groups_of_largest,
            [["a"], [True], [0.1, 0.2], 0],
            r"shape \(2,\); it needs one value for each of 1 objects",
        ),
        (dependency_groups_of_largest, [["a"], [True], [70], [0]], "coverage contains 70"),
    ],
)
def test_similarity_invalid_input_is_refused(call, arguments, message):
    with pytest.raises(InputError, match=message):
        call(*arguments)
