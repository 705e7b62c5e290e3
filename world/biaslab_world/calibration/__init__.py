"""Calibration against ground truth, and the synthetic world's report pages, with their notebooks.

:class:`Calibration` generates and judges the images; everything else is computed from its frames.
"""

# ruff: noqa: F401 (the imports are this package's interface)

from pathlib import Path

from biaslab.papers.answers import load_answers
from biaslab_world.calibration import figures, parameters
from biaslab_world.calibration.analysis import (
    amplification,
    amplification_questions,
    coverage,
    guidance,
    judge,
    quality,
    shares,
    summarize_requirements,
)
from biaslab_world.calibration.measure import Calibration, work

answers = load_answers(Path(__file__).parent)
