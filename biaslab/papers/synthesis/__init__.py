"""Across papers: calibration against known truth, the embedded world itself, and the specification curve.

:class:`Calibration` makes and judges the images; all else is computed from its frames.
"""

from biaslab.papers.synthesis import figures, findings, world
from biaslab.papers.synthesis.calibration import (
    amplification,
    confusion,
    contributions,
    guidance,
    inside,
    judge,
    judge_by_occupation,
    quality,
    reliability,
    shares,
)
from biaslab.papers.synthesis.curve import choice_effect, exclusion_by_measure, specification_curve
from biaslab.papers.synthesis.measure import Calibration
from biaslab.papers.synthesis.models import model_differences, models, own_units, units

__all__ = [
    "Calibration",
    "amplification",
    "choice_effect",
    "confusion",
    "contributions",
    "exclusion_by_measure",
    "figures",
    "findings",
    "guidance",
    "inside",
    "judge",
    "judge_by_occupation",
    "model_differences",
    "models",
    "own_units",
    "quality",
    "reliability",
    "shares",
    "specification_curve",
    "units",
    "world",
]
