"""Short versions of ``benchmarks/coverage*.py``: intervals hold the truth, and tests do not reject it."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from photographed import benchmark

pytestmark = pytest.mark.long

load = partial(benchmark, Path(__file__).parents[2])


def least(studies, level=0.95):
    """Return four standard errors of a share of so many studies below its level."""
    return level - 4 * np.sqrt(level * (1 - level) / studies)


# -- amplification --

amplification = load("coverage")


def test_intervals_of_captions_as_prompts_hold_the_truth():
    found = amplification.simulate("captions n=8 x 4, 95.6% copied", 100, 200)
    assert (found["by caption"][0] > least(100)).all(), found
    # Images of one caption taken for independent ones miss the change along the lean nearly always.
    assert found["one by one"][0, 2] < 0.3


def test_the_test_of_amplification_holds_its_level():
    found = amplification.simulate("G = T, 62 occupations, 16-25/3-8, 4 prompts", 100, 200)
    assert (found["corrected"][2] < 1 - least(100)).all(), found
    # By the paper's definition the plain t-test rejects in most studies in which nothing is there.
    assert found["plain t-test"][2, 0] > 0.35


def test_nothing_is_claimed_where_all_shares_are_one_half():
    found = amplification.simulate("half: all, 500/8, 4 prompts", 60, 100)
    # By counts alone the intervals of what folds at one half miss the truth in most studies.
    assert (found["by counts"][2, :2] > 0.25).all()
    assert (found["table"][2] <= 0.05).all() and (found["table"][3] > 0.9).all()


def test_few_occupations_are_covered_or_not_told():
    found = amplification.simulate("few: 8 occupations, 20/1, steeper 1", 60, 100)
    # Shares of one image look amplified beyond doubt.
    assert found["table"][2].max() == 0 and found["table"][3].min() == 1
    found = amplification.simulate("few: 20 occupations, 20/3, steeper 1.5", 100, 200)
    covered, _, _, none = found["table"]
    assert (covered + none > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 100)).all() and none.max() < 0.2


# -- page --

page = load("coverage_page")


def test_pages_of_fair_models_claim_a_difference_in_six_of_a_hundred_at_most():
    pages = [page.claims((seed, 100, ("A",))) for seed in range(100)]
    asked = {question for page in pages for question in page["alone"]}
    # Cards that can err did, each at its own level: what follows is about something.
    assert len(asked) >= 3
    assert np.mean([bool(page["alone"]) for page in pages]) > 0.1
    assert np.mean([bool(page["adjusted"]) for page in pages]) <= 0.06


def test_mixed_pages_hold_the_false_discovery_rate_over_headlines_and_inside_families():
    none, mixed = ([page.errors((seed, effects, 0.5, 0.9))["page"] for seed in range(60)] for effects in (0, 6))
    # Of 60 fair pages at a rate of 5%, 9 or more claim anything in 0.4% of the runs (binomial).
    assert np.mean(none, axis=0)[0] <= 8 / 60
    claims, false, inside, headlines, groups = np.mean(mixed, axis=0)
    assert claims == 1 and false <= 0.06 and inside <= 0.07
    # Holm over all headlines, which was used before, claims fewer of the six.
    holm = np.mean([page.errors((seed, 6, 0.5, 0.9))["Holm"][3] for seed in range(60)])
    assert headlines > holm and groups > 0.7


# -- synthesis --

synthesis = load("coverage_synthesis")


@pytest.mark.parametrize("kind", ["exponential", "of 0/1, 60 and 60%"])
@pytest.mark.parametrize("n", [10, 62])
def test_intervals_of_differences_hold_their_mean(kind, n):
    studies = 300
    _, held, rejected = synthesis.simulate(f"mean, {kind}, n={n}", studies, 100)["ours"]
    assert held > least(studies, 0.94) and rejected < 1 - least(studies, 0.94)


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("attributes x 0.7, 84 professions", 0.6),
        ("tones, two tones, 9 and 5 faces, 84 professions", 0.9),
        ("amplification, 40 and 8 images, 62 occupations", 0.05),
    ],
)
def test_what_chance_gives_is_no_difference_between_models(name, raw):
    found = synthesis.simulate(name, 40, 100)
    # Four standard errors above one study in twenty.
    assert found["ours"][2] < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 40)
    assert found["bootstrap, sign-flip"][2] > raw


# -- triplets --

triplets = load("coverage_triplets")


@pytest.mark.parametrize(("n", "metrics", "over"), [(40, 11, "triplets"), (8, 8, "datasets")])
def test_a_card_seldom_names_a_gender_where_there_is_no_gap(n, metrics, over):
    found = triplets.cards(np.random.default_rng(1), 200, n, metrics, 0.5, over)
    assert found["card"] <= 200 * (1 - least(200)), found
    # Counting the intervals of each metric by itself names one in a fifth of the studies or more.
    assert found["intervals counted"] > 0.18 * 200


# -- skills --

skills = load("coverage_skills")


@pytest.mark.parametrize("name", ["skills, 50% right, 90% badly seen", "skills, 80% right, all well seen"])
def test_corrected_skills_hold_the_truth_however_images_fail(name):
    found = skills.simulate(name, 150)
    assert found["ours"] > least(150), found
    assert found["as drawn"] < 0.95


@pytest.mark.parametrize(
    "name", ["distances, 100 x 1, 1 apart, 0 between", "distances, 20 x 5, 0.5 apart, 0.5 between"]
)
def test_distances_hold_what_as_many_images_give(name):
    found = skills.simulate(name, 100)
    for metric in ("FID", "KID"):
        assert found[f"{metric}, ours"] > least(100), found
        assert found[f"{metric}, half"] < 0.93


# -- dalleval --

dalleval = load("coverage_dalleval")


@pytest.mark.parametrize("kind", ["even", "as Stable Diffusion", "all lean"])
def test_deviations_of_ten_professions_are_held(kind):
    found = dalleval.simulate(f"gender MAD, 10 professions x 9, {kind}", 200)["bias-aware"]
    assert found[0] > least(200) and found[3] == 1
    assert (found[1] < 1 - least(200)) == (kind == "even")


@pytest.mark.parametrize("kind", ["even", "all lean"])
def test_gender_by_a_judge_that_errs_is_held_once_its_error_is_taken_off(kind):
    found = dalleval.simulate(f"gender judged, 84 professions x 9, {kind}", 200)
    assert found["MAD"][0] > least(200) and found["average"][0] > least(200)
    if kind == "all lean":
        assert max(found[f"{what} as judged"][0] for what in ("MAD", "average")) < 0.5
    else:
        assert max(found[what][1] for what in ("MAD", "average")) < 1 - least(200)


def test_skin_tones_of_three_faces_cannot_be_told():
    # The truth is 0 of one and 0.13 of the other, and the corrected value the same to 0.02.
    for kind in ("even", "few tones"):
        found = dalleval.simulate(f"skin tone MAD, 11 professions x 3 x 3, {kind}", 20)
        assert set(found) == {"not estimable", "prompts as independent"}


@pytest.mark.parametrize("kind", ["nothing differs", "as printed, together"])
@pytest.mark.parametrize("professions", [10, 84])
def test_differences_over_attributes_are_held(professions, kind):
    found = dalleval.simulate(f"attributes, {professions} professions x 9, {kind}", 200)
    ours, before = found["corrected"], found["percentile bootstrap"]
    assert ours[0] > least(200) > before[0] and ours[3] == 1
    if kind == "nothing differs":
        assert ours[1] < 1 - least(200)
    # The percentiles leave out what they are of.
    assert before[3] < 1 or "together" in kind or kind == "as printed"


# -- compare --

compare = load("coverage_compare")


@pytest.mark.parametrize("what", ["the same model", "each its own", "a third in one run"])
def test_differences_of_runs_over_the_same_professions_hold_the_truth(what):
    found = compare.simulate(f"average, 84 professions, {what}", 300)
    covered, apart, half = found["units paired"]
    assert covered > least(300)
    # Where nothing differs 5% exclude 0; taken as independent hardly any would.
    assert 0.01 < apart < 1 - least(300) and found["as if independent"][1] < 0.01
    assert half < 0.8 * found["as if independent"][2]


# -- all --


@pytest.mark.parametrize(("module", "settings"), [(amplification, (1, 20)), (skills, (2,)), (compare, (2,))])
def test_simulations_run(module, settings):
    for name in list(module.SIMULATIONS)[::5]:
        found = module.simulate(name, *settings)
        assert found and all(np.isfinite(result).all() for result in found.values()), name
