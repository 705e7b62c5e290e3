"""Calibration against known truth, and the embedded world's own pages, with the notebooks that show them.

:class:`Calibration` makes and judges the images; all else is computed from its frames.
"""

# ruff: noqa: F401 (what is imported here is what this package offers)

from pathlib import Path

from biaslab.papers.answers import read
from biaslab_world.calibration import figures, knobs
from biaslab_world.calibration.analysis import (
    amplification,
    amplification_told,
    coverage,
    guidance,
    judge,
    met,
    quality,
    shares,
)
from biaslab_world.calibration.measure import Calibration, work

answers = read(Path(__file__).parent)
