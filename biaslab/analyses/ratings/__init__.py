"""A user's own annotations of images: shares from votes, amplification, agreement, and sensitivity to choices."""

# ruff: noqa: F401
from biaslab.analyses.ratings import figures
from biaslab.analyses.ratings.analysis import (
    agreement,
    answers,
    by_definition,
    describe_file,
    headline,
    outcomes,
    question_shares,
    sensitivity,
    shares,
)
from biaslab.ratings.shares import read
