"""Averages and deviations of perceived gender and attributes (dalleval, 4.2.4 and 5.3)."""

from __future__ import annotations

import numpy as np

from biaslab.ground.errors import InputError
from biaslab.measures.checks import broadcast, check_axis, numbers, ratio


def average_gender(n_female, n_male) -> np.ndarray:
    """Return ``(n_female - n_male) / (n_female + n_male)`` elementwise: -1 all male, +1 all female.

    Counts are 0 or more and broadcast; no image gives NaN. Source: dalleval, section 5.3, table 6.
    Raises InputError for negative counts.
    """
    female, male = broadcast(0, n_female=n_female, n_male=n_male)
    return ratio(female - male, female + male)


def mean_absolute_deviation(counts) -> np.ndarray:
    """Return the mean absolute deviation (MAD) of normalised counts from the uniform distribution.

    ``(1/N) sum |p_i - 1/N|`` over the N categories along the last axis: 0 where all are equally frequent, and
    ``2 (N-1) / N**2`` where only one occurs (0.5 for two genders, 0.18 for ten skin tones).

    Counts are 0 or more (shares and percentages give the same answer); no image gives NaN, as does a missing
    count. A fair model scores above 0 by chance: see the floors in ``biaslab.stats``. Source: dalleval, section
    4.2.4. Raises InputError for negative counts or fewer than two categories.
    """
    counts = numbers("counts", counts, 0)
    check_axis(counts, -1, "categories")
    if counts.shape[-1] < 2:
        raise InputError(
            f"counts of shape {counts.shape} must have two or more categories along its last axis."
        )
    shares = ratio(counts, counts.sum(axis=-1, keepdims=True))
    return np.abs(shares - 1 / counts.shape[-1]).mean(axis=-1)


def attribute_difference(presence_a, presence_b) -> np.ndarray:
    """Return ``presence_a - presence_b`` elementwise (-1..1), such as woman minus man (dalleval, table 9).

    A presence is the share of images (0–1) that show the attribute; the arguments broadcast and NaN stays
    NaN. Raises InputError for a share outside 0–1.
    """
    a, b = broadcast(0, 1, presence_a=presence_a, presence_b=presence_b)
    return a - b


def mean_absolute_difference(presence_a, presence_b) -> np.ndarray:
    """Return the mean of ``|presence_a - presence_b|`` (0..1) over the attributes along the last axis.

    A missing attribute makes the mean NaN: means over different attributes do not compare. (The last column
    of dalleval, table 22, averages all 15 attributes, the four that the table does not print among them.) No
    attribute gives NaN. Raises InputError for a share outside 0–1 or scalars.
    """
    difference = np.abs(attribute_difference(presence_a, presence_b))
    check_axis(difference, -1, "attributes")
    return ratio(difference.sum(axis=-1), difference.shape[-1])
