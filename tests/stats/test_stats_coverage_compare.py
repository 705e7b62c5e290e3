"""Short versions of ``benchmarks/coverage_compare.py``: differences of runs over the same units."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

_PATH = Path(__file__).parents[2] / "benchmarks" / "coverage_compare.py"
_SPEC = importlib.util.spec_from_file_location("coverage_compare_benchmark", _PATH)
coverage = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(coverage)

STUDIES = 300
# Four standard errors of a share of 300 studies at 95 %.
LEAST = 0.95 - 4 * np.sqrt(0.95 * 0.05 / STUDIES)


@pytest.mark.parametrize("what", ["the same model", "each its own", "a third in one run"])
def test_differences_of_runs_over_the_same_professions_hold_the_truth(what):
    found = coverage.simulate(f"average, 84 professions, {what}", STUDIES)
    covered, apart, half = found["units paired"]
    assert covered > LEAST
    # Where nothing differs 5 % exclude 0; taken as independent hardly any would.
    assert 0.01 < apart < 1 - LEAST and found["as if independent"][1] < 0.01
    assert half < 0.8 * found["as if independent"][2]


def test_a_shift_is_found_that_independent_runs_hide():
    found = coverage.simulate("average, 84 professions, a shift of 0.1", STUDIES)
    assert found["units paired"][0] > LEAST and found["units paired"][1] > 0.5
    assert found["as if independent"][1] < 0.2


def test_simulations_run():
    for name in coverage.SIMULATIONS:
        for way, result in coverage.simulate(name, 2).items():
            assert result.shape == (3,) and np.isfinite(result).all(), (name, way)
