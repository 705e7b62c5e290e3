"""Accuracy of the judges of all papers on images with ground truth, and results corrected for their errors."""

# ruff: noqa: F401
from biaslab.analyses.calibration import figures
from biaslab.analyses.calibration.analysis import confusion, corrected, error, gender_confusion
from biaslab.papers.answers import load_answers

answers = load_answers("calibration")
