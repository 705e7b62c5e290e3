"""Across papers: the specification curve, and models side by side.

All of it is computed from the papers' tables.
"""

# ruff: noqa: F401
from biaslab.papers.answers import read
from biaslab.papers.synthesis import figures
from biaslab.papers.synthesis.curve import exclusion_by_measure, extremes, judge_errors, specification_curve
from biaslab.papers.synthesis.models import by_pair, model_differences, models, units

answers = read("synthesis")
