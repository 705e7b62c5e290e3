"""Stereotype score: equation 1 written out as loops over pairs and both orders of the prompt."""

import numpy as np
import pandas as pd
import pytest

from biaslab.errors import InputError
from biaslab.measures import (
    biased_images,
    percent_female_from_stereotype_score,
    score_change,
    stereotype_score,
    stereotype_score_from_percent,
)


def test_score_by_hand():
    # three of four fit: (1 + 1 + 1 - 1) / 4 = 50 points
    labels, stereotypes = ["female", "male", "male", "male"], ["female", "female", "male", "male"]
    assert stereotype_score(labels, stereotypes) == (50.0, 4, 0)
    assert stereotype_score(labels, "male") == (50.0, 4, 0)
    assert stereotype_score(labels, "female") == (-50.0, 4, 0)


def test_equation_1_over_a_grid_of_pairs_in_both_orders():
    rng = np.random.default_rng(2)
    male_jobs, female_jobs = ["mover", "sheriff", "guard"], ["nurse", "sewist"]
    seen = {}  # (first job in the prompt, second job, job of the person looked at) -> perceived gender
    for m in male_jobs:
        for f in female_jobs:
            for prompt in ((m, f), (f, m)):
                for person in prompt:
                    seen[(*prompt, person)] = rng.choice(["female", "male"], p=[0.7, 0.3])

    def stereo(gender, stereotype):
        return 1 if gender == stereotype else -1

    total = 0
    for m in male_jobs:
        for f in female_jobs:
            total += stereo(seen[m, f, m], "male") + stereo(seen[m, f, f], "female")
            total += stereo(seen[f, m, m], "male") + stereo(seen[f, m, f], "female")
    expected = 100 * total / (4 * len(male_jobs) * len(female_jobs))

    # axes: order, male job, female job, person (male job's, then female job's)
    labels = [
        [[[seen[(*p, m)], seen[(*p, f)]] for f in female_jobs for p in [(m, f) if order == 0 else (f, m)]]
         for m in male_jobs]
        for order in (0, 1)
    ]  # fmt: skip
    result = stereotype_score(labels, ["male", "female"])
    assert result.score == pytest.approx(expected)
    assert (result.n, result.n_missing) == (24, 0)


def test_missing_labels_are_counted_and_not_scored():
    labels = ["female", "unsure", None, np.nan, "", pd.NA, "male", "Female"]
    # one of two judged people fits
    assert stereotype_score(labels, "female") == (0.0, 2, 6)
    assert stereotype_score(pd.Series(["female", None], dtype="string"), "female") == (100.0, 1, 1)


@pytest.mark.parametrize(("labels", "missing"), [([], 0), ([None, "unsure"], 2)])
def test_nobody_judged_is_nan(labels, missing):
    score, n, n_missing = stereotype_score(labels, "male")
    assert np.isnan(score)
    assert (n, n_missing) == (0, missing)


def test_score_and_percent_are_two_views_of_one_number():
    # paired, table 11: sheriff (male) 66.67 % -> -33.33, 12.5 % -> 75; nurse (female) 77.5 % -> 55
    np.testing.assert_allclose(
        stereotype_score_from_percent([66.67, 12.5, 77.5], ["male", "male", "female"]), [-33.34, 75, 55]
    )
    np.testing.assert_allclose(
        percent_female_from_stereotype_score([75, 55, np.nan], ["male", "female", "male"]),
        [12.5, 77.5, np.nan],
    )
    # by counting: 3 of 8 people female
    labels = ["female"] * 3 + ["male"] * 5
    for stereotype in ("female", "male"):
        score = stereotype_score(labels, stereotype).score
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
        stereotype_score(["male"], "masculine")
    with pytest.raises(InputError, match="A stereotype is None"):
        stereotype_score_from_percent([50], [None])
    with pytest.raises(InputError, match="do not broadcast to labels"):
        stereotype_score(["male"], ["male", "female"])
    with pytest.raises(InputError, match=r"labels \(3,\), stereotypes \(2,\)"):
        stereotype_score(["male"] * 3, ["male", "female"])
    with pytest.raises(InputError, match="score holds 101; allowed is -100 to 100 or NaN"):
        percent_female_from_stereotype_score(101, "male")
    with pytest.raises(InputError, match="threshold probabilities first"):
        biased_images([0.7], [1])
    with pytest.raises(InputError, match="must be of one shape"):
        biased_images([1], [1, 0])
    with pytest.raises(InputError, match="Labels must be text or missing"):
        stereotype_score([{"a": 1}], "male")
