"""The four papers' measures as pure functions: arrays in, numbers out; no files, no models.

Units: ``percent_*`` is 0–100 points, ``share_*`` and ``presence_*`` are 0–1. Missing input is NaN and is
either propagated to the result or left out and counted, as each docstring states. Several pandas objects are matched by
their labels and refused where these differ (:func:`biaslab.stats.checks.align`); arrays and lists by position.
Agreement of annotators, object bias and skin tone are separate modules.
"""

from biaslab.metrics.amplification import (
    DEFINITIONS,
    amplification,
    bias_direction,
    directional_amplification,
    exclusion_reason,
    expected_amplification,
)
from biaslab.metrics.shares import (
    average_gender,
    biased_images,
    mean_absolute_deviation,
    mean_absolute_difference,
    percent_female_from_stereotype_score,
    stereotype_score_from_percent,
)

__all__ = [
    "DEFINITIONS",
    "amplification",
    "average_gender",
    "bias_direction",
    "biased_images",
    "directional_amplification",
    "exclusion_reason",
    "expected_amplification",
    "mean_absolute_deviation",
    "mean_absolute_difference",
    "percent_female_from_stereotype_score",
    "stereotype_score_from_percent",
]
