"""A report's page on fair models seldom claims a difference: a short version of ``benchmarks/coverage_page.py``."""

import importlib.util
from pathlib import Path

import numpy as np

_PATH = Path(__file__).parents[2] / "benchmarks" / "coverage_page.py"
_SPEC = importlib.util.spec_from_file_location("coverage_page_benchmark", _PATH)
coverage = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(coverage)

STUDIES = 100


def test_pages_of_fair_models_claim_a_difference_in_six_of_a_hundred_at_most():
    pages = [coverage.claims((seed, 100, ("A",))) for seed in range(STUDIES)]
    asked = {question for page in pages for question in page["alone"]}
    # Cards that can err did, each at its own level: what follows is about something.
    assert len(asked) >= 3
    assert np.mean([bool(page["alone"]) for page in pages]) > 0.1
    assert np.mean([bool(page["together"]) for page in pages]) <= 0.06
