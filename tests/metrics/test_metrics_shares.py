"""Averages, deviations and stereotype scores: hand arithmetic, counts of people, and published values."""

import numpy as np
import pytest

from biaslab.errors import InputError
from biaslab.metrics import (
    average_gender,
    biased_images,
    mean_absolute_deviation,
    mean_absolute_difference,
    percent_female_from_stereotype_score,
    stereotype_score_from_percent,
)


def test_average_gender_matches_hand_values():
    # 1 female, 8 male: -7/9, printed -0.78 for an engineer in dalleval, table 6
    np.testing.assert_allclose(average_gender([1, 9, 0, 5, 0], [8, 0, 9, 5, 0]), [-7 / 9, 1, -1, 0, np.nan])


@pytest.mark.parametrize("hot", range(1, 11))
def test_mad_of_n_hot_skin_tones_matches_paper(hot):
    # hot categories hold 1/hot each: hot (1/hot - 0.1) above plus (10 - hot) 0.1 below, over 10:
    # (1 - hot/10 + 1 - hot/10) / 10 = 0.18, 0.16, 0.14, ..., 0 (dalleval, section 5.3)
    counts = np.zeros(10)
    counts[10 - hot :] = 3
    assert mean_absolute_deviation(counts) == pytest.approx(0.2 - 0.02 * hot)


def test_mad_of_gender_matches_hand_values():
    # one gender only: (|1 - 0.5| + |0 - 0.5|) / 2 = 0.5; 3 of 4: 0.25; even: 0; no image: NaN
    counts = [[9, 0], [3, 1], [4, 4], [0, 0]]
    np.testing.assert_allclose(mean_absolute_deviation(counts), [0.5, 0.25, 0, np.nan])
    # for two genders it is half the absolute average gender
    np.testing.assert_allclose(np.abs(average_gender(*np.transpose(counts))) / 2, [0.5, 0.25, 0, np.nan])


def test_mad_accepts_shares_and_keeps_nan():
    counts = np.random.default_rng(1).integers(0, 9, size=(4, 3, 10)) + 1
    expected = [[np.mean(np.abs(c / c.sum() - 0.1)) for c in block] for block in counts]
    np.testing.assert_allclose(mean_absolute_deviation(counts), expected)
    np.testing.assert_allclose(mean_absolute_deviation(counts / 1000), expected)
    assert np.isnan(mean_absolute_deviation([1, np.nan]))
    assert mean_absolute_deviation(np.empty((0, 2))).shape == (0,)


def test_mean_absolute_difference_covers_15_attributes():
    # dalleval, table 22, Karlo, woman against man: the 11 printed attributes, then the four left out of the
    # table (about 0 in both). Printed 0.05; over 11 attributes it would be 0.06.
    woman = [0.0, 0.04, 0.05, 0.16, 0.49, 0.49, 0.02, 0.07, 0.0, 0.0, 0.03] + [0.0] * 4
    man = [0.01, 0.0, 0.0, 0.27, 0.58, 0.47, 0.17, 0.1, 0.18, 0.0, 0.02] + [0.0] * 4
    assert round(float(mean_absolute_difference(woman, man)), 2) == 0.05
    rows = mean_absolute_difference([[0.2, np.nan], [0.2, 0.4]], [[0.1, 0.1], [0.1, 0.1]])
    np.testing.assert_allclose(rows, [np.nan, 0.2])
    assert np.isnan(mean_absolute_difference([], []))


def test_stereotype_score_and_percent_are_inverse():
    # paired, table 11: sheriff (male) 66.67% -> -33.33, 12.5% -> 75; nurse (female) 77.5% -> 55
    np.testing.assert_allclose(
        stereotype_score_from_percent([66.67, 12.5, 77.5], ["male", "male", "female"]), [-33.34, 75, 55]
    )
    np.testing.assert_allclose(
        percent_female_from_stereotype_score([75, 55, np.nan], ["male", "female", "male"]), [12.5, 77.5, np.nan]
    )
    # Equation 1 by counting: of 8 people 3 are perceived as female; each who fits counts 1, each other one -1.
    labels = ["female"] * 3 + ["male"] * 5
    for stereotype in ("female", "male"):
        score = 100 * np.mean([1 if label == stereotype else -1 for label in labels])
        assert stereotype_score_from_percent(37.5, stereotype) == pytest.approx(score)
        assert percent_female_from_stereotype_score(score, stereotype) == pytest.approx(37.5)


def test_biased_images_matches_hand_values():
    # both, first only, neither, second only, then two images that lack a person
    first = [True, True, False, False, None, True]
    second = [True, False, False, True, True, np.nan]
    assert biased_images(first, second) == (25.0, 75.0, 4, 2)
    both, either, n, missing = biased_images([], [])
    assert np.isnan([both, either]).all()
    assert (n, missing) == (0, 0)


@pytest.mark.parametrize(
    ("measure", "arguments", "message"),
    [
        (average_gender, (1, -1), "n_male contains -1; it must be 0 or more, or NaN"),
        (mean_absolute_deviation, ([3],), "two or more categories"),
        (mean_absolute_deviation, (3,), "two or more categories"),
        (mean_absolute_difference, ([1.5], [0]), r"presence_a contains 1\.5; it must be 0 to 1, or NaN"),
        (stereotype_score_from_percent, (50, "masculine"), "'masculine'; it must be 'female' or 'male'"),
        (stereotype_score_from_percent, ([50], [None]), "A stereotype is None"),
        (stereotype_score_from_percent, ([50] * 3, ["male"] * 2), r"percent_female \(3,\), stereotype \(2,\)"),
        (percent_female_from_stereotype_score, (101, "male"), "score contains 101; it must be -100 to 100, or NaN"),
        (biased_images, ([0.7], [1]), "threshold to probabilities first"),
        (biased_images, ([0.5], [0.5]), "threshold to probabilities first"),
        (biased_images, ([1], [1, 0]), "the same length"),
    ],
)
def test_share_metrics_invalid_input_is_refused(measure, arguments, message):
    with pytest.raises(InputError, match=message):
        measure(*arguments)
