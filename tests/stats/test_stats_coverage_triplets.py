"""Short versions of ``benchmarks/coverage_triplets.py``: cards name no gender where there is no gap."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

_PATH = Path(__file__).parents[2] / "benchmarks" / "coverage_triplets.py"
_SPEC = importlib.util.spec_from_file_location("coverage_triplets_benchmark", _PATH)
coverage = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(coverage)

STUDIES = 200
# Four standard errors of a share of 200 studies at 5 %.
MOST = STUDIES * (0.05 + 4 * np.sqrt(0.95 * 0.05 / STUDIES))


@pytest.mark.parametrize(("n", "metrics", "over"), [(40, 11, "triplets"), (8, 8, "datasets")])
@pytest.mark.parametrize("alike", [0.0, 0.5])
def test_a_card_seldom_names_a_gender_where_there_is_no_gap(n, metrics, over, alike):
    found = coverage.cards(np.random.default_rng(1), STUDIES, n, metrics, alike, over)
    assert found["card"] <= MOST, found
    # Counting the intervals of each metric by itself names one in a fifth of the studies or more.
    assert found["intervals counted"] > 0.18 * STUDIES


def test_five_datasets_decide_nothing():
    found = coverage.cards(np.random.default_rng(2), STUDIES, 5, 8, 0.5, "datasets")
    assert found["card"] == 0 and found["intervals counted"] > 0.18 * STUDIES


def test_simulations_run():
    for _, simulate, settings in coverage.SIMULATIONS[::4]:
        found = simulate(np.random.default_rng(3), 1, **settings)
        assert all(count in (0, 1) for count in found.values()), settings
