"""Annotations of a subset combined with the judge, sample sizes, and components of variance, for all headlines.

This analysis is ours and applies to every headline that is a sum of shares (:mod:`biaslab.metrics.headline`).
Functions take headlines and tables, and return tables.
"""

# ruff: noqa: F401
from biaslab.papers.answers import read
from biaslab.papers.precision import figures
from biaslab.papers.precision.analysis import annotated, components, estimates, sizes
from biaslab.papers.precision.measure import ratings

answers = read("precision")
