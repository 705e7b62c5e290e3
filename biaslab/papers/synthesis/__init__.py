"""Across papers: the specification curve, models side by side, and measures of one's own.

All of it is computed from the papers' tables.
"""

from biaslab.papers.synthesis import figures, findings
from biaslab.papers.synthesis.curve import choice_effect, exclusion_by_measure, specification_curve
from biaslab.papers.synthesis.models import model_differences, models, units

__all__ = [
    "choice_effect",
    "exclusion_by_measure",
    "figures",
    "findings",
    "model_differences",
    "models",
    "specification_curve",
    "units",
]
