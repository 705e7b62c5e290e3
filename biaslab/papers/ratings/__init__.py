"""A user's own ratings of images: shares from votes, amplification, agreement, and what choices change."""

from biaslab.papers.ratings import figures, findings
from biaslab.papers.ratings.analysis import (
    agreement_detail,
    contents,
    outcomes,
    rater_agreement,
    raters,
    sensitivity,
)
from biaslab.ratings.readers import read

__all__ = [
    "agreement_detail",
    "contents",
    "figures",
    "findings",
    "outcomes",
    "rater_agreement",
    "raters",
    "read",
    "sensitivity",
]
