"""The metrics of the four papers, as pure functions of arrays that need no files and no models.

Arguments and fields named ``percent_*`` are 0–100; those named ``share_*`` and ``presence_*`` are 0–1. Missing input is
NaN. It is either propagated to the result, or excluded and counted, as each docstring states. If several arguments are
pandas objects, they are matched by label; objects with different labels raise an error
(:func:`biaslab.stats.checks.align`). Arrays and lists are matched by position. Other metrics, such as those of
agreement, similarity and skin tone, are in separate modules.
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
