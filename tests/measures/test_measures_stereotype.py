"""Stereotype score: equation 1 by counting people, and the papers' printed rows."""

import numpy as np
import pytest

from biaslab.ground.errors import InputError
from biaslab.measures import (
    biased_images,
    percent_female_from_stereotype_score,
    score_change,
    stereotype_score_from_percent,
)


def test_score_and_percent_are_two_views_of_one_number():
    # paired, table 11: sheriff (male) 66.67 % -> -33.33, 12.5 % -> 75; nurse (female) 77.5 % -> 55
    np.testing.assert_allclose(
        stereotype_score_from_percent([66.67, 12.5, 77.5], ["male", "male", "female"]), [-33.34, 75, 55]
    )
    np.testing.assert_allclose(
        percent_female_from_stereotype_score([75, 55, np.nan], ["male", "female", "male"]),
        [12.5, 77.5, np.nan],
    )
    # Equation 1 by counting: of 8 people 3 are perceived as female; each who fits counts 1, each other one -1.
    labels = ["female"] * 3 + ["male"] * 5
    for stereotype in ("female", "male"):
        score = 100 * np.mean([1 if label == stereotype else -1 for label in labels])
        assert stereotype_score_from_percent(37.5, stereotype) == pytest.approx(score)
        assert percent_female_from_stereotype_score(score, stereotype) == pytest.approx(37.5)


def test_biased_images_by_hand():
    # both, first only, neither, second only, then two images that lack a person
    first = [True, True, False, False, None, True]
    second = [True, False, False, True, True, np.nan]
    assert biased_images(first, second) == (25.0, 75.0, 4, 2)
    both, either, n, missing = biased_images([], [])
    assert np.isnan([both, either]).all()
    assert (n, missing) == (0, 0)


def test_score_change_is_paired_minus_single():
    # paired, table 12: sheriff -33.33 -> 75, writer 100 -> 5
    np.testing.assert_allclose(score_change([75, 5, np.nan], [-33.33, 100, 0]), [108.33, -95, np.nan])


def test_errors():
    with pytest.raises(InputError, match=r"^A stereotype is 'masculine'; allowed are 'female' and 'male'\.$"):
        stereotype_score_from_percent(50, "masculine")
    with pytest.raises(InputError, match="A stereotype is None"):
        stereotype_score_from_percent([50], [None])
    with pytest.raises(InputError, match=r"percent_female \(3,\), stereotype \(2,\)"):
        stereotype_score_from_percent([50] * 3, ["male", "female"])
    with pytest.raises(InputError, match="score holds 101; allowed is -100 to 100 or NaN"):
        percent_female_from_stereotype_score(101, "male")
    with pytest.raises(InputError, match="threshold probabilities first"):
        biased_images([0.7], [1])
    with pytest.raises(InputError, match="must be of one shape"):
        biased_images([1], [1, 0])
    with pytest.raises(InputError, match="Labels must be text or missing"):
        stereotype_score_from_percent([50], [{"a": 1}])
