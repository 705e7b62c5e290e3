"""Short versions of ``benchmarks/coverage_synthesis.py``: what chance alone gives two models is no difference."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

_PATH = Path(__file__).parents[2] / "benchmarks" / "coverage_synthesis.py"
_SPEC = importlib.util.spec_from_file_location("coverage_synthesis", _PATH)
coverage = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(coverage)


@pytest.mark.parametrize("kind", ["U-shaped", "exponential", "of 0/1, 60 and 60 %"])
@pytest.mark.parametrize("n", [10, 62])
def test_intervals_of_differences_hold_their_mean(kind, n):
    studies = 300
    _, held, rejected = coverage.simulate(f"mean, {kind}, n={n}", studies, 100)["ours"]
    least = 0.94 - 4 * np.sqrt(0.94 * 0.06 / studies)
    assert held > least and rejected < 1 - least


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("attributes x 0.7, 84 professions", 0.6),
        ("tones, two tones, 9 and 5 faces, 84 professions", 0.9),
        ("amplification, 40 and 8 images, 62 occupations", 0.05),
    ],
)
def test_what_chance_gives_is_no_difference_between_models(name, raw):
    found = coverage.simulate(name, 40, 100)
    # Four standard errors above one study in twenty.
    assert found["ours"][2] < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 40)
    assert found["bootstrap, sign-flip"][2] > raw
