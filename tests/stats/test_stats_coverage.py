"""Short versions of ``benchmarks/coverage.py``: intervals hold the truth, and tests do not reject it."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

_PATH = Path(__file__).parents[2] / "benchmarks" / "coverage.py"
_SPEC = importlib.util.spec_from_file_location("coverage_benchmark", _PATH)
coverage = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(coverage)

STUDIES, REPLICATES = 150, 300
# Four standard errors of a share of 150 studies at 95 %.
LEAST = 0.95 - 4 * np.sqrt(0.95 * 0.05 / STUDIES)


@pytest.mark.parametrize("name", ["captions n=8 x 1, 95.6 % copied", "captions n=8 x 4, 95.6 % copied"])
def test_intervals_of_captions_as_prompts_hold_the_truth(name):
    found = coverage.simulate(name, STUDIES, REPLICATES)
    assert (found["by caption"][0] > LEAST).all(), found
    # Images of one caption taken for independent ones miss the change along the lean nearly always.
    assert found["one by one"][0, 2] < 0.3


@pytest.mark.parametrize("prompts", [1, 4])
def test_the_test_of_amplification_holds_its_level(prompts):
    name = f"G = T, 62 occupations, 16-25/3-8, {prompts} prompts"
    found = coverage.simulate(name, STUDIES, REPLICATES)
    assert (found["corrected"][2] < 1 - LEAST).all(), found
    # By the published rule the plain t-test rejects in most studies in which nothing is there.
    assert found["plain t-test"][2, 0] > 0.35


def test_nothing_is_claimed_where_all_shares_are_one_half():
    found = coverage.simulate("half: all, 500/8, 4 prompts", 60, 100)
    # By counts alone the intervals of what folds at one half miss the truth in most studies.
    assert (found["by counts"][2, :2] > 0.25).all()
    assert (found["table"][2] <= 0.05).all() and (found["table"][3] > 0.9).all()


def test_few_occupations_are_covered_or_not_told():
    found = coverage.simulate("few: 8 occupations, 20/1, steeper 1", 60, 100)
    # Shares of one image look amplified beyond doubt.
    assert found["table"][2].max() == 0 and found["table"][3].min() == 1
    found = coverage.simulate("few: 20 occupations, 20/3, steeper 1.5", 100, 200)
    covered, _, _, none = found["table"]
    assert (covered + none > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 100)).all() and none.max() < 0.2


def test_simulations_run():
    # They share two functions; of every fifth the arguments, too, are tried.
    for name in list(coverage.SIMULATIONS)[::5]:
        for way, result in coverage.simulate(name, 1, 20).items():
            assert result.shape[0] == 4 and ((result == 0) | (result == 1)).all(), (name, way)
