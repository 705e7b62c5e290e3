"""Short versions of ``benchmarks/coverage*.py``: intervals cover the truth, and tests do not reject it."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from photograph_benchmarks import benchmark

pytestmark = pytest.mark.long

load = partial(benchmark, Path(__file__).parents[2])


def least(studies, level=0.95):
    """Return the level less four standard errors of a share of ``studies``."""
    return level - 4 * np.sqrt(level * (1 - level) / studies)


# -- amplification --

amplification = load("coverage")


def test_caption_prompt_intervals_cover_truth():
    simulation = amplification.simulate("captions n=8 x 4, 95.6% copied", 100, 200)
    assert (simulation["by caption"][0] > least(100)).all(), simulation
    # With images of one caption as independent ones, intervals nearly always miss the signed change.
    assert simulation["one by one"][0, 2] < 0.3


def test_amplification_test_has_nominal_error_rate():
    simulation = amplification.simulate("G = T, 62 occupations, 16-25/3-8, 4 prompts", 100, 200)
    assert (simulation["corrected"][2] < 1 - least(100)).all(), simulation
    # By the paper's definition the plain t-test rejects in most studies without an effect.
    assert simulation["plain t-test"][2, 0] > 0.35


def test_amplification_balanced_shares_are_not_significant():
    simulation = amplification.simulate("half: all, 500/8, 4 prompts", 60, 100)
    # By counts alone the intervals of what folds at one half miss the truth in most studies.
    assert (simulation["by counts"][2, :2] > 0.25).all()
    assert (simulation["table"][2] <= 0.05).all() and (simulation["table"][3] > 0.9).all()


def test_amplification_few_occupations_cover_or_have_no_interval():
    simulation = amplification.simulate("few: 8 occupations, 20/1, steeper 1", 60, 100)
    # Shares of one image look amplified beyond doubt.
    assert simulation["table"][2].max() == 0 and simulation["table"][3].min() == 1
    simulation = amplification.simulate("few: 20 occupations, 20/3, steeper 1.5", 100, 200)
    covered, _, _, none = simulation["table"]
    assert (covered + none > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 100)).all() and none.max() < 0.2


# -- page --

page = load("coverage_page")


def test_report_of_fair_models_has_nominal_error_rate():
    pages = [page.claims((seed, 100, ("A",))) for seed in range(100)]
    questions = {question for page in pages for question in page["alone"]}
    # Cards that can err did, each at its own level: what follows is about something.
    assert len(questions) >= 3
    assert np.mean([bool(page["alone"]) for page in pages]) > 0.1
    assert np.mean([bool(page["adjusted"]) for page in pages]) <= 0.06


def test_report_of_mixed_models_keeps_false_discovery_rate():
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
def test_paired_difference_intervals_cover_mean(kind, n):
    studies = 300
    _, coverage_rate, rejected = synthesis.simulate(f"mean, {kind}, n={n}", studies, 100)["ours"]
    assert coverage_rate > least(studies, 0.94) and rejected < 1 - least(studies, 0.94)


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("attributes x 0.7, 84 professions", 0.6),
        ("tones, two tones, 9 and 5 faces, 84 professions", 0.9),
        ("amplification, 40 and 8 images, 62 occupations", 0.05),
    ],
)
def test_model_difference_null_has_nominal_error_rate(name, raw):
    simulation = synthesis.simulate(name, 40, 100)
    # Four standard errors above one study in twenty.
    assert simulation["ours"][2] < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 40)
    assert simulation["bootstrap, sign-flip"][2] > raw


# -- triplets --

triplets = load("coverage_triplets")


@pytest.mark.parametrize(("n", "metrics", "unit"), [(40, 11, "triplets"), (8, 8, "datasets")])
def test_triplets_card_null_has_nominal_error_rate(n, metrics, unit):
    simulation = triplets.cards(np.random.default_rng(1), 200, n, metrics, 0.5, unit)
    assert simulation["card"] <= 200 * (1 - least(200)), simulation
    # Counting the intervals of each metric by itself names one in a fifth of the studies or more.
    assert simulation["intervals counted"] > 0.18 * 200


# -- skills --

skills = load("coverage_skills")


@pytest.mark.parametrize("name", ["skills, 50% right, 90% badly seen", "skills, 80% right, all well seen"])
def test_corrected_skill_intervals_cover_truth(name):
    simulation = skills.simulate(name, 150)
    assert simulation["ours"] > least(150), simulation
    assert simulation["as drawn"] < 0.95


@pytest.mark.parametrize(
    "name", ["distances, 100 x 1, 1 apart, 0 between", "distances, 20 x 5, 0.5 apart, 0.5 between"]
)
def test_image_distance_intervals_cover_truth(name):
    simulation = skills.simulate(name, 100)
    for metric in ("FID", "KID"):
        assert simulation[f"{metric}, ours"] > least(100), simulation
        assert simulation[f"{metric}, half"] < 0.93


# -- dalleval --

dalleval = load("coverage_dalleval")


@pytest.mark.parametrize("kind", ["even", "as Stable Diffusion", "all lean"])
def test_gender_mad_intervals_cover_truth(kind):
    simulation = dalleval.simulate(f"gender MAD, 10 professions x 9, {kind}", 200)["bias-aware"]
    assert simulation[0] > least(200) and simulation[3] == 1
    assert (simulation[1] < 1 - least(200)) == (kind == "even")


@pytest.mark.parametrize("kind", ["even", "all lean"])
def test_judge_corrected_gender_intervals_cover_truth(kind):
    simulation = dalleval.simulate(f"gender judged, 84 professions x 9, {kind}", 200)
    assert simulation["MAD"][0] > least(200) and simulation["average"][0] > least(200)
    if kind == "all lean":
        assert max(simulation[f"{what} as judged"][0] for what in ("MAD", "average")) < 0.5
    else:
        assert max(simulation[what][1] for what in ("MAD", "average")) < 1 - least(200)


def test_skin_tone_mad_of_three_faces_is_not_estimable():
    # The truth is 0 of one and 0.13 of the other, and the corrected value the same to 0.02.
    for kind in ("even", "few tones"):
        simulation = dalleval.simulate(f"skin tone MAD, 11 professions x 3 x 3, {kind}", 20)
        assert set(simulation) == {"not estimable", "prompts as independent"}


@pytest.mark.parametrize("kind", ["nothing differs", "as printed, together"])
@pytest.mark.parametrize("professions", [10, 84])
def test_attribute_difference_intervals_cover_truth(professions, kind):
    simulation = dalleval.simulate(f"attributes, {professions} professions x 9, {kind}", 200)
    corrected_result, bootstrap_result = simulation["corrected"], simulation["percentile bootstrap"]
    assert corrected_result[0] > least(200) > bootstrap_result[0] and corrected_result[3] == 1
    if kind == "nothing differs":
        assert corrected_result[1] < 1 - least(200)
    # The percentiles leave out what they are of.
    assert bootstrap_result[3] < 1 or "together" in kind or kind == "as printed"


# -- compare --

compare = load("coverage_compare")


@pytest.mark.parametrize("what", ["the same model", "each its own", "a third in one run"])
def test_compare_paired_intervals_cover_truth(what):
    simulation = compare.simulate(f"average, 84 professions, {what}", 300)
    covered, excludes_0, half = simulation["units paired"]
    assert covered > least(300)
    # Where nothing differs 5% exclude 0; taken as independent hardly any would.
    assert 0.01 < excludes_0 < 1 - least(300) and simulation["as if independent"][1] < 0.01
    assert half < 0.8 * simulation["as if independent"][2]


# -- all --


@pytest.mark.parametrize(("module", "settings"), [(amplification, (1, 20)), (skills, (2,)), (compare, (2,))])
def test_simulations_give_finite_results(module, settings):
    for name in list(module.SIMULATIONS)[::5]:
        simulation = module.simulate(name, *settings)
        assert simulation and all(np.isfinite(result).all() for result in simulation.values()), name
