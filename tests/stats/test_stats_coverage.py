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


def test_simulations_run():
    # They share two functions; of every fifth the arguments, too, are tried.
    for name in list(coverage.SIMULATIONS)[::5]:
        for way, result in coverage.simulate(name, 1, 20).items():
            assert result.shape[0] == 3 and ((result == 0) | (result == 1)).all(), (name, way)
