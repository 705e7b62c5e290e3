"""Short versions of ``benchmarks/coverage_paired.py``: intervals cover the truth, and tests do not reject it."""

import numpy as np
import pandas as pd
import pytest
from test_stats_coverage import least, load

from biaslab import stats
from biaslab.errors import InputError
from biaslab.papers.paired.analysis import dependence

pytestmark = pytest.mark.long

coverage = load("coverage_paired")

STUDIES = 400
LEAST = least(STUDIES)


@pytest.mark.parametrize("kind", coverage.KINDS)
@pytest.mark.parametrize("n", [10, 20])
def test_overall_intervals_cover_truth_under_dependence(kind, n):
    result = coverage.simulate(f"overall, {n} x {n}, {kind}", STUDIES)
    assert result["estimated"][0] > LEAST, result
    if kind == "independent":
        # The largest dependence would double the interval.
        assert result["worst case"][2] > 1.7 * result["estimated"][2]
    else:
        assert result["independent lists"][0] < LEAST


@pytest.mark.parametrize("kind", coverage.KINDS)
def test_overall_score_null_has_nominal_error_rate(kind):
    assert coverage.simulate(f"overall, nothing there, 10 x 10, {kind}", STUDIES)["estimated"][1] < 1 - LEAST
    assert coverage.simulate(f"change, 10 x 10, {kind}", STUDIES)["estimated"][1] < 1 - LEAST


@pytest.mark.parametrize("kind", coverage.KINDS)
def test_both_fit_intervals_cover_truth(kind):
    result = coverage.simulate(f"both fit, 10 x 10, {kind}", STUDIES)
    assert result["over identities"][0] > LEAST
    # Intervals over images do not extend to other identities.
    assert result["Wilson over images"][0] < LEAST


def test_power_independent_people_are_rarely_significant():
    result = coverage.simulate("power, independent people", 100)
    assert result["given the shares of identities"][1] < 0.05 + 4 * np.sqrt(0.95 * 0.05 / 100)
    # Opposite stereotypes alone make one gender twice as rare.
    assert result["given the shares of lists"][1] > 0.5
    assert result["both fit"][0] > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 100)


@pytest.mark.parametrize("n", [6, 40])
def test_identities_null_has_nominal_error_rate(n):
    # The simulation itself raises where an outcome is significant that cannot be.
    ((method, result),) = coverage.simulate(f"72 identities, n={n}", STUDIES).items()
    assert method == ("Holm, impossible" if n == 6 else "Holm, possible") and result[1] < 1 - LEAST


def as_frames(fits):
    """Return the identities with their scores, and the images with both identities, of the simulation's arrays."""
    i, j, _ = (part.ravel() for part in np.indices(fits[0].shape))
    images = pd.DataFrame({"female_identity": i, "male_identity": 100 + j})
    images = images.assign(female=200 * fits[0].ravel() - 100, male=200 * fits[1].ravel() - 100)
    scores = coverage.score(fits)
    names = np.r_[np.arange(len(scores[0])), 100 + np.arange(len(scores[1]))]
    stereotype = ["female"] * len(scores[0]) + ["male"] * len(scores[1])
    n = np.full(len(names), fits[0].size / len(scores[0]))
    group = {"identity": names, "occupation": names, "stereotype": stereotype, "score": np.r_[scores], "n": n}
    return pd.DataFrame(group), images


@pytest.mark.parametrize("kind", coverage.KINDS)
def test_parts_over_people_complete_data_equal_identities(kind):
    group, images = as_frames(coverage.crossed(np.random.default_rng(4), kind, 6, 2))
    added = dependence.deviations(images, group, "score")
    for part, of_people in zip(
        dependence.parts(group, "score", added), dependence.parts(group, "score", added, over_people=True), strict=True
    ):
        np.testing.assert_allclose(of_people, part, atol=1e-12)


def test_parts_over_people_missing_data_match_loop():
    _, images = as_frames(coverage.crossed(np.random.default_rng(5), "half and half", 5, 3))
    rng = np.random.default_rng(6)
    for s in dependence.LISTS:
        images[s] = images[s].where(rng.random(len(images)) < 0.3 + 0.1 * (images[f"{s}_identity"] % 5))
    long = pd.concat(
        [pd.DataFrame({"stereotype": s, "identity": images[f"{s}_identity"], "v": images[s]}) for s in dependence.LISTS]
    ).dropna()
    group = long.groupby(["stereotype", "identity"])["v"].agg(score="mean", n="size").reset_index()
    group["occupation"] = group["identity"]
    result = dependence.parts(group, "score", dependence.deviations(images, group, "score"), over_people=True)
    mean, score = long["v"].mean(), group.set_index("identity")["score"]
    expected = {}
    for own, other in (("female", "male"), ("male", "female")):
        sums = dict.fromkeys(group.loc[group["stereotype"] == own, "identity"], 0.0)
        for row in images.to_dict("records"):
            if np.isfinite(row[own]):
                sums[row[f"{own}_identity"]] += (row[own] - mean) / len(long)
        centre = np.mean(list(sums.values()))
        expected[own] = {name: value - centre for name, value in sums.items()}
        # People of the other list in the images of an identity, around the mean of their own identities.
        for row in images.to_dict("records"):
            if np.isfinite(row[other]):
                added = (row[other] - score[row[f"{other}_identity"]]) / len(long)
                expected[own][row[f"{own}_identity"]] += added
    assert result.rows.to_dict() == pytest.approx(expected["female"])
    assert result.columns.to_dict() == pytest.approx(expected["male"])
    assert result.rows.sum() == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("name", ["8 x 8, independent", "8 identities alone", "power roles"])
def test_score_intervals_missing_people_cover_equation_1(name):
    result = coverage.simulate(f"people missing, {name}", 120)
    low = least(120)
    assert all(result[method][0] > low for method in (*dependence.LISTS, "overall")), result


@pytest.mark.parametrize("kind", coverage.KINDS)
def test_simulated_parts_equal_computed_parts(kind):
    fits = coverage.crossed(np.random.default_rng(2), kind, 6, 2)
    group, images = as_frames(fits)
    result = dependence.parts(group, "score", dependence.deviations(images, group, "score"))
    rows, columns, cells = coverage.parts(fits)
    assert result.rows.to_numpy() == pytest.approx(rows) and result.columns.to_numpy() == pytest.approx(columns)
    assert result.error() == pytest.approx(stats.crossed_error(rows, columns, cells))
    assert result.rows.sum() == pytest.approx(0, abs=1e-9)


def test_parts_single_partner_identities_are_not_crossed():
    fits = coverage.crossed(np.random.default_rng(4), "one woman and one man", 6, 2)
    group, images = as_frames(fits)
    own = images[images["female_identity"] + 100 == images["male_identity"]]
    assert dependence.parts(group, "score", images).crossed
    assert not dependence.parts(group, "score", own).crossed


def test_check_inconsistent_people_counts_are_refused():
    group = pd.DataFrame({"identity": ["a", "b"], "stereotype": ["female", "male"], "count": [1, 1], "n": [2, 2]})
    images = pd.DataFrame({"female_identity": ["a"] * 2, "male_identity": ["b"] * 2})
    images = images.assign(female=[1.0, 0.0], male=[1.0, np.nan])
    with pytest.raises(InputError, match=r"'b' is perceived as female in 1 of 1 images, .* counts 1 of 2 people"):
        dependence.check(images, group, "A, occupation, paired")
    dependence.check(images.assign(male=[1.0, 0.0]), group, "A, occupation, paired")


def test_critic_error_rate_rises_with_joint_images():
    # Error rates in the critic's module: 3% and 8 to 9%. Four standard errors of 400 samples each.
    independent, joint = (
        np.mean(
            [
                result["aspect or group"][1]
                for result in coverage.critic(np.random.default_rng(1), STUDIES, joint=share, identities=False)
            ]
        )
        for share in (0.0, 1.0)
    )
    assert independent < 0.03 + 4 * np.sqrt(0.03 * 0.97 / STUDIES)
    assert abs(joint - 0.085) < 4 * np.sqrt(0.085 * 0.915 / STUDIES)
