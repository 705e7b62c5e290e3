"""A user's own ratings of images: shares from votes, amplification, agreement, and what choices change."""

# ruff: noqa: F401
from biaslab.analyses.ratings import figures
from biaslab.analyses.ratings.analysis import (
    answers,
    by_definition,
    contents,
    describe_file,
    headline,
    outcomes,
    rater_agreement,
    sensitivity,
    shares,
)
from biaslab.ratings.readers import read
