"""Calibration against known truth, and the embedded world's own pages, with the notebooks that show them.

:class:`Calibration` makes and judges the images; all else is computed from its frames.
"""

from biaslab_world.calibration import figures, findings, knobs
from biaslab_world.calibration.analysis import (
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
from biaslab_world.calibration.measure import Calibration, work

__all__ = [
    "Calibration",
    "amplification",
    "confusion",
    "contributions",
    "figures",
    "findings",
    "guidance",
    "inside",
    "judge",
    "judge_by_occupation",
    "knobs",
    "quality",
    "reliability",
    "shares",
    "work",
]
