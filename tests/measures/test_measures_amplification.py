"""Amplification: worked arithmetic, a brute-force loop and image-by-image expansion of the counts."""

import numpy as np
import pandas as pd
import pytest

from biaslab.ground.errors import InputError, UnknownNameError
from biaslab.measures.amplification import (
    DEFINITIONS,
    DIRECTIONS,
    EXCLUSION_REASONS,
    amplification,
    bias_amp,
    directional_amplification,
    exclusion_counts,
    exclusion_reason,
    expected_amplification,
    lean,
)

# training, generated:   both male   both female  flips    T at 50   G at 50   G missing
T = np.array([25.0, 80.0, 40.0, 50.0, 30.0, 20.0])
G = np.array([10.0, 70.0, 75.0, 90.0, 50.0, np.nan])


def test_amplification_by_hand():
    # |10-50| - |25-50| = 40 - 25, |70-50| - |80-50| = 20 - 30, 25 - 10, 40 - 0, 0 - 20
    np.testing.assert_allclose(amplification(G, T), [15, -10, 15, 40, -20, np.nan])


def test_directional_by_hand():
    # male lean: T - G = 25 - 10; female: G - T = 70 - 80; male: 40 - 75; no lean; male: 30 - 50
    np.testing.assert_allclose(directional_amplification(G, T), [15, -10, -35, np.nan, -20, np.nan])


def test_lean_keeps_missing_apart_from_balanced():
    np.testing.assert_array_equal(lean([0, 49.9, 50, 50.1, 100, np.nan]), [-1, -1, 0, 1, 1, np.nan])


def test_measures_broadcast_and_take_scalars():
    np.testing.assert_allclose(amplification([[10], [90]], [25, 50]), [[15, 40], [15, 40]])
    assert amplification(10, 25) == 15
    assert directional_amplification(10, 25) == 15
    for missing in (None, np.nan, pd.NA):
        np.testing.assert_array_equal(amplification([10, missing], 25), [15, np.nan])
    assert exclusion_reason(10, 75) == "opposite_lean"


@pytest.mark.parametrize(
    ("definition", "reasons"),
    [
        ("published", ["", "", "opposite_lean", "training_at_50", "generated_at_50", "missing"]),
        ("no_exclusion", ["", "", "", "", "", "missing"]),
        ("directional", ["", "", "", "training_at_50", "", "missing"]),
    ],
)
def test_exclusion_reason_by_definition(definition, reasons):
    assert exclusion_reason(G, T, definition).tolist() == reasons


def test_a_missing_share_outranks_a_share_at_50():
    assert exclusion_reason([np.nan, 50], [50, 50]).tolist() == ["missing", "training_at_50"]


@pytest.mark.parametrize(
    ("definition", "mean", "n", "excluded"),
    [
        ("published", (15 - 10) / 2, 2, 4),
        ("no_exclusion", (15 - 10 + 15 + 40 - 20) / 5, 5, 1),
        ("directional", (15 - 10 - 35 - 20) / 4, 4, 2),
    ],
)
def test_expected_amplification_by_hand(definition, mean, n, excluded):
    result = expected_amplification(G, T, definition)
    assert result == pytest.approx((mean, n, excluded))


def _loop(generated, training, definition):
    """Follow the definitions one occupation at a time."""
    values = []
    for g, t in zip(generated, training, strict=True):
        if np.isnan(g) or np.isnan(t):
            continue
        same_side = (g < 50 and t < 50) or (g > 50 and t > 50)
        if definition == "published" and same_side:
            values.append(abs(g - 50) - abs(t - 50))
        if definition == "no_exclusion":
            values.append(abs(g - 50) - abs(t - 50))
        if definition == "directional" and t != 50:
            values.append(g - t if t > 50 else t - g)
    return (np.mean(values) if values else np.nan), len(values)


@pytest.mark.parametrize("definition", DEFINITIONS)
def test_replicates_equal_a_loop(definition):
    rng = np.random.default_rng(4)
    # steps of 10 points, so that shares of exactly 50 are common
    g = rng.integers(0, 11, size=(30, 3, 8)) * 10.0
    t = rng.integers(0, 11, size=(3, 8)) * 10.0
    g[rng.random(g.shape) < 0.15] = np.nan
    result = expected_amplification(g, t, definition)
    for r in range(30):
        for p in range(3):
            mean, n = _loop(g[r, p], t[p], definition)
            np.testing.assert_allclose(result.amplification[r, p], mean)
            assert (result.n_occupations[r, p], result.n_excluded[r, p]) == (n, 8 - n)
    kept = exclusion_reason(g, t, definition) == ""
    np.testing.assert_array_equal(kept.sum(axis=-1), result.n_occupations)
    moved = expected_amplification(np.swapaxes(g, 1, 2), t.T, definition, axis=1)
    np.testing.assert_allclose(moved.amplification, result.amplification)
    np.testing.assert_array_equal(moved.n_excluded, result.n_excluded)


def test_directional_equals_zhao_2017_for_two_genders():
    # Zhao et al.: for each occupation add up, over genders with a training share above 1/2, the change of the
    # share; then divide by the number of occupations (none is at 50 here).
    rng = np.random.default_rng(8)
    t = rng.choice([x for x in range(101) if x != 50], size=40) / 100
    g = rng.integers(0, 101, size=40) / 100
    total = 0.0
    for training, generated in zip(t, g, strict=True):
        for b, b_generated in ((training, generated), (1 - training, 1 - generated)):
            if b > 0.5:
                total += b_generated - b
    assert expected_amplification(100 * g, 100 * t, "directional").amplification == pytest.approx(
        100 * total / 40
    )


@pytest.mark.parametrize("definition", DEFINITIONS)
@pytest.mark.parametrize(
    ("g", "t", "excluded"), [([], [], 0), ([np.nan, 20], [30, np.nan], 2)], ids=["empty", "all missing"]
)
def test_nothing_left_is_nan_with_its_count(definition, g, t, excluded):
    mean, n, n_excluded = expected_amplification(g, t, definition)
    assert np.isnan(mean)
    assert (n, n_excluded) == (0, excluded)


def test_no_replicates_give_empty_results():
    assert expected_amplification(np.empty((0, 5)), np.full(5, 30.0)).amplification.shape == (0,)


def test_exclusion_counts_lists_every_reason():
    frame = exclusion_counts(["a", "b", "c", "d", "e", "f"], G, T)
    expected = pd.DataFrame(
        {"reason": EXCLUSION_REASONS, "n": [1, 1, 1, 1], "occupations": ["f", "d", "e", "c"]}
    )
    pd.testing.assert_frame_equal(frame, expected, check_dtype=False)
    empty = exclusion_counts([], [], [])
    assert empty["n"].tolist() == [0, 0, 0, 0]
    two = exclusion_counts(["x", "y"], [60, 70], [40, 30])
    assert two.loc[3, "occupations"] == "x; y"


def test_errors_name_value_and_remedy():
    with pytest.raises(InputError, match=r"^percent_training holds 130; allowed is 0 to 100 or NaN\.$"):
        amplification([20], [130])
    with pytest.raises(InputError, match="percent_generated holds inf"):
        expected_amplification([np.inf], [30])
    for text in (["50"], np.array([40, "50"], dtype=object), [[1], [2, 3]]):
        with pytest.raises(InputError, match="percent_generated must be numbers"):
            amplification(text, 30)
    with pytest.raises(InputError, match=r"percent_generated \(2,\), percent_training \(3,\)"):
        amplification([1, 2], [1, 2, 3])
    with pytest.raises(InputError, match="There is no axis -1 of occupations"):
        expected_amplification(20, 30)
    with pytest.raises(UnknownNameError, match="Did you mean 'published'"):
        expected_amplification(G, T, "publishd")
    with pytest.raises(InputError, match="must be of one length"):
        exclusion_counts(["a"], G, T)


# --- directional bias amplification from counts ---


def _images(counts):
    return [(t, a) for (t, a), n in np.ndenumerate(np.asarray(counts)) for _ in range(n)]


def _bias_amp_over_images(training, generated, direction):
    """Compute the definition image by image: one (task, attribute) record each."""
    before, after = _images(training), _images(generated)
    tasks, attributes = np.shape(training)
    cells = []
    for t in range(tasks):
        for a in range(attributes):
            p_both = sum(image == (t, a) for image in before) / len(before)
            p_task = sum(image[0] == t for image in before) / len(before)
            p_attribute = sum(image[1] == a for image in before) / len(before)
            sign = 1 if p_both - p_task * p_attribute > 1e-12 else -1
            shares = []
            for images in (before, after):
                given = [i for i in images if (i[1] == a if direction == "A->T" else i[0] == t)]
                shares.append(sum(i == (t, a) for i in given) / len(given) if given else None)
            if None not in shares:
                cells.append(sign * (shares[1] - shares[0]))
    return (np.mean(cells) if cells else np.nan), len(cells)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_bias_amp_equals_image_records(direction):
    rng = np.random.default_rng(11)
    for trial in range(40):
        shape = (rng.integers(2, 5), rng.integers(2, 4))
        training = rng.integers(0, 7, size=shape)
        generated = rng.integers(0, 7, size=shape)
        training[0, 0] += 1
        if trial % 4 == 0:
            generated[1] = 0  # an occupation without generated images
        if trial % 5 == 0:
            training[:, 1] = 0  # an attribute without training images
        value, n = _bias_amp_over_images(training, generated, direction)
        result = bias_amp(training, generated, direction)
        np.testing.assert_allclose(result.value, value, atol=1e-12)
        assert (result.n_cells, result.n_excluded) == (n, training.size - n)


def test_bias_amp_by_hand():
    # Training: of 20 images 10 female; task 0 has 8 of 10 female, task 1 has 2 of 10.
    # Generated: 9 of 10 and 1 of 10. Every cell's share moves 0.1 away from balance, in both directions.
    training, generated = [[8, 2], [2, 8]], [[9, 1], [1, 9]]
    assert bias_amp(training, generated, "T->A") == pytest.approx((0.1, 4, 0))
    assert bias_amp(training, generated, "A->T") == pytest.approx((0.1, 4, 0))
    # Generating task 1 ten times as often leaves P(attribute | task) alone but not P(task | attribute).
    assert bias_amp(training, [[9, 1], [10, 90]], "T->A").value == pytest.approx(0.1)
    assert bias_amp(training, [[9, 1], [10, 90]], "A->T").value != pytest.approx(0.1)


def test_bias_amp_directions_condition_on_different_margins():
    # Task 1 has no generated image: P(a | task 1) is undefined, P(task 1 | a) is 0.
    training, generated = [[8, 2], [2, 8]], [[9, 1], [0, 0]]
    # T->A: task 0 alone; female share up by 0.1, male share down by 0.1 where it is under-represented
    assert bias_amp(training, generated, "T->A") == pytest.approx((0.1, 2, 2))
    # A->T: P(task 0 | female) 0.8 -> 1 (+0.2), P(task 0 | male) 0.2 -> 1 (-0.8), and the same for task 1
    assert bias_amp(training, generated, "A->T") == pytest.approx(((0.2 - 0.8) / 2, 4, 0))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_bias_amp_of_replicates_and_of_nothing(direction):
    rng = np.random.default_rng(3)
    training, generated = rng.integers(1, 9, size=(3, 2)), rng.integers(1, 9, size=(6, 3, 2))
    result = bias_amp(training, generated, direction)
    assert result.value == pytest.approx(
        [_bias_amp_over_images(training, g, direction)[0] for g in generated]
    )
    value, n, excluded = bias_amp(np.zeros((3, 2)), training, direction)
    assert np.isnan(value)
    assert (n, excluded) == (0, 6)


def test_bias_amp_errors():
    with pytest.raises(UnknownNameError, match="There is no direction of bias amplification named 'A->B'"):
        bias_amp([[1, 2]], [[1, 2]], "A->B")
    with pytest.raises(InputError, match="must share their last two axes"):
        bias_amp([[1, 2]], [[1, 2], [3, 4]], "A->T")
    with pytest.raises(InputError, match="training_counts holds -1"):
        bias_amp([[-1, 2]], [[1, 2]], "A->T")
    with pytest.raises(InputError, match="must be a full table of counts"):
        bias_amp([[1, np.nan]], [[1, 2]], "A->T")
