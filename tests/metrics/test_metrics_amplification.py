"""Amplification: worked arithmetic, a brute-force loop and image-by-image expansion of the counts."""

import numpy as np
import pandas as pd
import pytest

from biaslab.errors import InputError, UnknownNameError
from biaslab.metrics.amplification import (
    DEFINITIONS,
    amplification,
    bias_direction,
    directional_amplification,
    exclusion_reason,
    expected_amplification,
)

# training, generated:   both male   both female  flips    T at 50   G at 50   T at 50, G missing
T = np.array([25.0, 80.0, 40.0, 50.0, 30.0, 50.0])
G = np.array([10.0, 70.0, 75.0, 90.0, 50.0, np.nan])


def test_amplification_matches_hand_values():
    # |10-50| - |25-50| = 40 - 25, |70-50| - |80-50| = 20 - 30, 25 - 10, 40 - 0, 0 - 20
    np.testing.assert_allclose(amplification(G, T), [15, -10, 15, 40, -20, np.nan])


def test_directional_amplification_matches_hand_values():
    # male direction: T - G = 25 - 10; female: G - T = 70 - 80; male: 40 - 75; no direction; male: 30 - 50
    np.testing.assert_allclose(directional_amplification(G, T), [15, -10, -35, np.nan, -20, np.nan])
    np.testing.assert_array_equal(bias_direction([0, 49.9, 50, 50.1, 100, np.nan]), [-1, -1, 0, 1, 1, np.nan])


def test_amplification_broadcasts_and_accepts_scalars():
    np.testing.assert_allclose(amplification([[10], [90]], [25, 50]), [[15, 40], [15, 40]])
    assert amplification(10, 25) == 15
    assert directional_amplification(10, 25) == 15
    for missing in (None, np.nan, pd.NA):
        np.testing.assert_array_equal(amplification([10, missing], 25), [15, np.nan])
    assert exclusion_reason(10, 75) == "opposite_direction"


@pytest.mark.parametrize(
    ("definition", "reasons"),
    [
        ("paper", ["", "", "opposite_direction", "training_at_50", "generated_at_50", "missing"]),
        ("all", ["", "", "", "", "", "missing"]),
        ("signed", ["", "", "", "training_at_50", "", "missing"]),
    ],
)
def test_exclusion_reason_by_definition(definition, reasons):
    assert exclusion_reason(G, T, definition).tolist() == reasons


@pytest.mark.parametrize(
    ("definition", "mean", "n", "excluded"),
    [
        ("paper", (15 - 10) / 2, 2, 4),
        ("all", (15 - 10 + 15 + 40 - 20) / 5, 5, 1),
        ("signed", (15 - 10 - 35 - 20) / 4, 4, 2),
    ],
)
def test_expected_amplification_matches_hand_values(definition, mean, n, excluded):
    result = expected_amplification(G, T, definition)
    assert result == pytest.approx((mean, n, excluded))


def _loop(generated, training, definition):
    """Follow the definitions one occupation at a time."""
    values = []
    for g, t in zip(generated, training, strict=True):
        if np.isnan(g) or np.isnan(t):
            continue
        same_side = (g < 50 and t < 50) or (g > 50 and t > 50)
        if definition == "paper" and same_side:
            values.append(abs(g - 50) - abs(t - 50))
        if definition == "all":
            values.append(abs(g - 50) - abs(t - 50))
        if definition == "signed" and t != 50:
            values.append(g - t if t > 50 else t - g)
    return (np.mean(values) if values else np.nan), len(values)


@pytest.mark.parametrize("definition", DEFINITIONS)
def test_expected_amplification_replicates_equal_loop(definition):
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
    is_included = exclusion_reason(g, t, definition) == ""
    np.testing.assert_array_equal(is_included.sum(axis=-1), result.n_occupations)
    transposed_result = expected_amplification(np.swapaxes(g, 1, 2), t.T, definition, axis=1)
    np.testing.assert_allclose(transposed_result.amplification, result.amplification)
    np.testing.assert_array_equal(transposed_result.n_excluded, result.n_excluded)


def test_signed_amplification_equals_zhao_2017():
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
    assert expected_amplification(100 * g, 100 * t, "signed").amplification == pytest.approx(100 * total / 40)


@pytest.mark.parametrize("definition", DEFINITIONS)
@pytest.mark.parametrize(
    ("g", "t", "excluded"), [([], [], 0), ([np.nan, 20], [30, np.nan], 2)], ids=["empty", "all missing"]
)
def test_expected_amplification_without_occupations_is_nan(definition, g, t, excluded):
    mean, n, n_excluded = expected_amplification(g, t, definition)
    assert np.isnan(mean)
    assert (n, n_excluded) == (0, excluded)


def test_amplification_invalid_input_is_refused():
    with pytest.raises(InputError, match=r"^percent_training contains 130; it must be 0 to 100, or NaN\.$"):
        amplification([20], [130])
    with pytest.raises(InputError, match="percent_generated contains inf"):
        expected_amplification([np.inf], [30])
    for text in (["50"], np.array([40, "50"], dtype=object), [[1], [2, 3]]):
        with pytest.raises(InputError, match="percent_generated must be numbers"):
            amplification(text, 30)
    with pytest.raises(InputError, match=r"percent_generated \(2,\), percent_training \(3,\)"):
        amplification([1, 2], [1, 2, 3])
    with pytest.raises(UnknownNameError, match="Did you mean 'paper'"):
        expected_amplification(G, T, "papr")
