"""Annotations of a subset combined with the judge, and components of variance, for all headlines.

This analysis is ours and applies to every headline that is a sum of shares (:mod:`biaslab.metrics.headline`).
Functions take headlines and tables, and return tables.
"""

# ruff: noqa: F401
from biaslab.analyses.precision import figures
from biaslab.analyses.precision.analysis import components, estimates, select_annotated
from biaslab.analyses.precision.measure import ratings
from biaslab.papers.answers import load_answers

answers = load_answers("precision")
