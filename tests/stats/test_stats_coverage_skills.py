"""Short versions of ``benchmarks/coverage_skills.py``: intervals hold the truth, where simpler ones do not."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

_PATH = Path(__file__).parents[2] / "benchmarks" / "coverage_skills.py"
_SPEC = importlib.util.spec_from_file_location("coverage_skills_benchmark", _PATH)
coverage = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(coverage)


def least(studies):
    """Return four standard errors of a share of so many studies below 95 %."""
    return 0.95 - 4 * np.sqrt(0.95 * 0.05 / studies)


@pytest.mark.parametrize("name", ["skills, 50 % right, 90 % badly seen", "skills, 80 % right, all well seen"])
def test_corrected_skills_hold_the_truth_however_images_fail(name):
    found = coverage.simulate(name, 150)
    assert found["ours"] > least(150), found
    assert found["as drawn"] < 0.95


@pytest.mark.parametrize(
    "name", ["distances, 100 x 1, 1 apart, 0 between", "distances, 20 x 5, 0.5 apart, 0.5 between"]
)
def test_distances_hold_what_as_many_images_give(name):
    found = coverage.simulate(name, 100)
    for metric in ("FID", "KID"):
        assert found[f"{metric}, ours"] > least(100), found
        assert found[f"{metric}, half"] < 0.93


def test_precision_holds_the_truth_where_occupations_differ():
    found = coverage.simulate("precision, 20 x 5, 1", 150)
    assert found["ours"] > least(150) and found["one by one"] < 0.8, found


def test_simulations_run():
    for name in coverage.SIMULATIONS:
        assert all(0 <= held <= 1 for held in coverage.simulate(name, 2).values())
