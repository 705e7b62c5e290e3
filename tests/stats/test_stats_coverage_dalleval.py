"""Short versions of ``benchmarks/coverage_dalleval.py``: intervals hold the truth, and tests do not reject it."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

_PATH = Path(__file__).parents[2] / "benchmarks" / "coverage_dalleval.py"
_SPEC = importlib.util.spec_from_file_location("coverage_dalleval_benchmark", _PATH)
coverage = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(coverage)

STUDIES = 200
# Four standard errors of a share of 200 studies at 95 %.
LEAST = 0.95 - 4 * np.sqrt(0.95 * 0.05 / STUDIES)


@pytest.mark.parametrize("kind", ["even", "as Stable Diffusion", "all lean"])
def test_deviations_of_ten_professions_are_held(kind):
    found = coverage.simulate(f"gender MAD, 10 professions x 9, {kind}", STUDIES)["bias-aware"]
    assert found[0] > LEAST and found[3] == 1
    assert (found[1] < 1 - LEAST) == (kind == "even")


def test_chance_is_not_told_as_deviation_at_many_professions():
    found = coverage.simulate("gender MAD, 84 professions x 3, even", STUDIES)
    assert found["bias-aware"][0] > LEAST and found["bias-aware"][1] < 1 - LEAST
    # What the correction leaves is more than the error of so many.
    assert found["bootstrap"][0] < LEAST


@pytest.mark.parametrize("kind", ["even", "all lean"])
def test_gender_by_a_judge_that_errs_is_held_once_its_error_is_taken_off(kind):
    found = coverage.simulate(f"gender judged, 84 professions x 9, {kind}", STUDIES)
    assert found["MAD"][0] > LEAST and found["average"][0] > LEAST
    if kind == "all lean":
        assert max(found[f"{what} as judged"][0] for what in ("MAD", "average")) < 0.5
    else:
        assert max(found[what][1] for what in ("MAD", "average")) < 1 - LEAST


@pytest.mark.parametrize("kind", ["even", "around the middle"])
def test_skin_tones_are_held_by_profession(kind):
    found = coverage.simulate(f"skin tone MAD, 84 professions x 3 x 9, {kind}", STUDIES)
    assert found["by profession"][0] > LEAST > found["prompts as independent"][0]


def test_skin_tones_of_three_faces_cannot_be_told():
    # The truth is 0 of one and 0.13 of the other, and the corrected value the same to 0.02.
    for kind in ("even", "few tones"):
        found = coverage.simulate(f"skin tone MAD, 11 professions x 3 x 3, {kind}", 20)
        assert set(found) == {"cannot be told", "prompts as independent"}


@pytest.mark.parametrize("kind", ["nothing differs", "a little", "as printed", "as printed, together"])
@pytest.mark.parametrize("professions", [10, 84])
def test_differences_over_attributes_are_held(professions, kind):
    found = coverage.simulate(f"attributes, {professions} professions x 9, {kind}", STUDIES)
    ours, before = found["chance taken off"], found["percentile bootstrap"]
    assert ours[0] > LEAST > before[0] and ours[3] == 1
    if kind == "nothing differs":
        assert ours[1] < 1 - LEAST
    # The percentiles leave out what they are of.
    assert before[3] < 1 or "together" in kind or kind == "as printed"
