"""Across papers: the specification curve, models side by side, and headlines by several judges.

All of it is computed from the papers' tables.
"""

# ruff: noqa: F401
from biaslab.analyses.synthesis import figures
from biaslab.analyses.synthesis.curve import exclusion_by_measure, extremes, judge_errors, specification_curve
from biaslab.analyses.synthesis.judges import judge_agreement, judge_headlines
from biaslab.analyses.synthesis.models import by_pair, model_differences, models, units
from biaslab.analyses.synthesis.stated import stated_numbers
from biaslab.papers.answers import load_answers

answers = load_answers("synthesis")
