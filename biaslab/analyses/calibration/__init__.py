"""How often the judges of all papers are right where the truth is known, and results corrected for their errors."""

# ruff: noqa: F401
from biaslab.analyses.calibration import figures
from biaslab.analyses.calibration.analysis import confusion, corrected, error, gender_confusion
from biaslab.papers.answers import read

answers = read("calibration")
