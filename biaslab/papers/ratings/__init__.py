"""A user's own ratings of images: shares from votes, amplification, agreement, and what choices change."""

# ruff: noqa: F401
from biaslab.papers.ratings import figures
from biaslab.papers.ratings.analysis import (
    by_definition,
    contents,
    headline,
    outcomes,
    rater_agreement,
    sensitivity,
    shares,
)
from biaslab.papers.ratings.words import answers, holds
from biaslab.ratings.readers import read
