"""Bias amplification from training to generated images (paradox, section 3.3).

T is the percentage perceived as female among an occupation's training images, and G among its generated images; both
are 0–100. The direction of bias is male below 50, female above 50, and undefined at exactly 50. Percentages must
therefore not be rounded.

Zhao et al. (2017) average the change in the share of the gender that is over-represented in the training data. With two
genders, this is the signed change in the training direction, called ``signed`` here. It equals the paper's
``|G-50| - |T-50|`` unless the direction flips or is undefined. The definition ``paper`` excludes such occupations. The
definition ``all`` includes them with the change in distance from 50.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from biaslab.stats.checks import broadcast, check_numbers, keep_labels, mean_where, one_of

DEFINITIONS = ("paper", "all", "signed")
EXCLUSION_REASONS = ("missing", "training_at_50", "generated_at_50", "opposite_direction")


class Expected(NamedTuple):
    """Expected amplification with counts; each field has the shape of the input without the axis of occupations."""

    amplification: np.ndarray  # Percentage points, -50..50 (signed: -100..50); NaN if all occupations are excluded.
    n_occupations: np.ndarray  # Number of included occupations.
    n_excluded: np.ndarray  # Number of excluded occupations, including those with missing shares.


@keep_labels
def amplification(percent_generated: ArrayLike, percent_training: ArrayLike) -> NDArray[np.float64]:
    """Return ``|G-50| - |T-50|`` elementwise, in percentage points (-50..50).

    Both arguments are 0–100 and are broadcast; NaN stays NaN. Source: paradox, section 3.3, first equation. Raises
    InputError: A percentage is outside 0–100, or the shapes do not broadcast.
    """
    g, t = _percents(percent_generated, percent_training)
    return np.abs(g - 50) - np.abs(t - 50)


@keep_labels
def bias_direction(percent_female: ArrayLike) -> NDArray[np.float64]:
    """Return the direction of each percentage: -1.0 (male), 0.0 (exactly 50) or 1.0 (female); NaN stays NaN.

    Raises InputError: A percentage is outside 0–100.
    """
    return np.sign(check_numbers(percent_female, "percent_female", 0, 100) - 50)


@keep_labels
def directional_amplification(percent_generated: ArrayLike, percent_training: ArrayLike) -> NDArray[np.float64]:
    """Return ``sign(T-50) * (G-T)`` elementwise: the change in the training direction, in percentage points (-100..50).

    The result is NaN if T is exactly 50 or either percentage is missing. Arguments are as in :func:`amplification`.
    Raises InputError: As :func:`amplification`.
    """
    g, t = _percents(percent_generated, percent_training)
    return np.where(t == 50, np.nan, np.sign(t - 50) * (g - t))[()]


@keep_labels
def exclusion_reason(
    percent_generated: ArrayLike, percent_training: ArrayLike, definition: str = "paper"
) -> NDArray[np.str_]:
    """Return the reason for excluding each occupation from :func:`expected_amplification`; "" if it is included.

    The reason is the first of :data:`EXCLUSION_REASONS` that applies. The definition ``all`` excludes only occupations
    with missing shares; ``signed`` also excludes ``training_at_50``. Arguments are as in
    :func:`expected_amplification`. Raises InputError: As :func:`amplification`. UnknownNameError: The definition is
    unknown.
    """
    n = {"all": 1, "signed": 2, "paper": 4}[_definition(definition)]
    g, t = _percents(percent_generated, percent_training)
    conditions = [np.isnan(g) | np.isnan(t), t == 50, g == 50, np.sign(g - 50) != np.sign(t - 50)]
    return np.select(conditions[:n], EXCLUSION_REASONS[:n], default="")


@keep_labels
def expected_amplification(
    percent_generated: ArrayLike, percent_training: ArrayLike, definition: str = "paper", axis: int = -1
) -> Expected:
    """Return the mean amplification over occupations, with counts.

    Percentages are 0–100, with occupations along ``axis`` of the broadcast shape; all other axes are kept. Occupations
    with NaN are excluded. The definition ``paper`` is the mean of ``|G-50| - |T-50|`` over occupations with the same
    direction in training and generated images, which excludes shares of exactly 50. ``all`` is the same mean over all
    occupations. ``signed`` is the mean signed change over all occupations with a training direction. Source: paradox,
    section 3.3, second equation. Raises UnknownNameError: The definition is unknown. InputError: A percentage is
    outside 0–100, or the shapes do not broadcast.
    """
    g, t = _percents(percent_generated, percent_training)
    values = (directional_amplification if _definition(definition) == "signed" else amplification)(g, t)
    is_included = (g - 50) * (t - 50) > 0 if definition == "paper" else ~np.isnan(values)
    mean, n = mean_where(values, is_included, axis)
    return Expected(mean, n, g.shape[axis] - n)


def _percents(percent_generated: ArrayLike, percent_training: ArrayLike) -> list[NDArray[np.float64]]:
    return broadcast(0, 100, percent_generated=percent_generated, percent_training=percent_training)


def _definition(definition: str) -> str:
    return one_of(definition, DEFINITIONS, "definition of amplification")
