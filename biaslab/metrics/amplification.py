"""Bias amplification from training to generated images (paradox, section 3.3).

T is the percentage female in an occupation's training images, G in its generated images, both 0–100 points. The
direction of bias is male for shares below 50, female above 50, and none at exactly 50, so shares must not be rounded.

Zhao et al. (2017) average the change in the share of the gender that is over-represented in training. For two genders
this is the signed change in the training direction, here ``signed``. It equals the paper's ``|G-50| - |T-50|`` unless
the direction flips or does not exist. The paper's definition excludes such occupations; ``all`` counts only the change
in distance from 50.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from biaslab.stats.checks import broadcast, check_numbers, keep_labels, mean_where, one_of

DEFINITIONS = ("paper", "all", "signed")
EXCLUSION_REASONS = ("missing", "training_at_50", "generated_at_50", "opposite_direction")


class Expected(NamedTuple):
    """Expected amplification and its counts; each field has the input's shape without the occupations."""

    amplification: np.ndarray  # percentage points, -50..50 (signed -100..50); NaN if all occupations are excluded
    n_occupations: np.ndarray  # occupations included
    n_excluded: np.ndarray  # occupations excluded, including missing ones


@keep_labels
def amplification(percent_generated: ArrayLike, percent_training: ArrayLike) -> NDArray[np.float64]:
    """Return ``|G-50| - |T-50|`` elementwise, in percentage points (-50..50); paradox, section 3.3, first equation.

    Both arguments are 0–100 and broadcast; NaN stays NaN. Raises InputError: Another percentage or other shapes.
    """
    g, t = _percents(percent_generated, percent_training)
    return np.abs(g - 50) - np.abs(t - 50)


@keep_labels
def bias_direction(percent_female: ArrayLike) -> NDArray[np.float64]:
    """Return the direction of each percentage: -1.0 male, 0.0 none (exactly 50), 1.0 female; NaN stays NaN.

    Raises InputError: A percentage outside 0–100.
    """
    return np.sign(check_numbers(percent_female, "percent_female", 0, 100) - 50)


@keep_labels
def directional_amplification(percent_generated: ArrayLike, percent_training: ArrayLike) -> NDArray[np.float64]:
    """Return ``sign(T-50) * (G-T)`` elementwise: the change in the training direction, in points (-100..50).

    NaN where T is exactly 50 or either share is missing. Arguments as in :func:`amplification`. Raises InputError: As
    :func:`amplification`.
    """
    g, t = _percents(percent_generated, percent_training)
    return np.where(t == 50, np.nan, np.sign(t - 50) * (g - t))[()]


@keep_labels
def exclusion_reason(
    percent_generated: ArrayLike, percent_training: ArrayLike, definition: str = "paper"
) -> NDArray[np.str_]:
    """Return why each occupation is excluded from :func:`expected_amplification`, as text; "" if it is included.

    The reason is the first of :data:`EXCLUSION_REASONS` that applies. ``all`` excludes only missing ones, ``signed``
    those and ``training_at_50``. Arguments as in :func:`expected_amplification`. Raises InputError: As
    :func:`amplification`. UnknownNameError: Another definition.
    """
    n = {"all": 1, "signed": 2, "paper": 4}[_definition(definition)]
    g, t = _percents(percent_generated, percent_training)
    conditions = [np.isnan(g) | np.isnan(t), t == 50, g == 50, np.sign(g - 50) != np.sign(t - 50)]
    return np.select(conditions[:n], EXCLUSION_REASONS[:n], default="")


@keep_labels
def expected_amplification(
    percent_generated: ArrayLike, percent_training: ArrayLike, definition: str = "paper", axis: int = -1
) -> Expected:
    """Return the mean amplification over occupations, with counts (paradox, section 3.3, 2nd equation).

    Percentages are 0–100, with occupations along ``axis`` of the broadcast shape; NaN leaves an occupation out, and all
    other axes are kept. ``paper`` is ``|G-50| - |T-50|`` where training and generation have the same direction, which
    excludes shares of exactly 50. ``all`` is the same over all occupations, and ``signed`` the signed change in the
    training direction over all occupations that have one. Raises UnknownNameError: Another definition. InputError:
    A percentage outside 0–100, or shapes that do not broadcast.
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
