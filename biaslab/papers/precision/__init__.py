"""Ratings of a part of the images beside the judge, how many images a number takes, and where its variance lies.

No paper's: what every number that is a sum of shares can be asked (:mod:`biaslab.measures.headline`). Functions take
headlines and tables, and return tables.
"""

# ruff: noqa: F401
from biaslab.papers.answers import read
from biaslab.papers.precision import figures
from biaslab.papers.precision.analysis import annotated, components, estimates, moves, sizes
from biaslab.papers.precision.measure import ratings

answers = read("precision")
