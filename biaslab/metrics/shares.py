"""Averages and deviations of perceived gender and attributes (dalleval), and stereotype scores (paired)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from biaslab.errors import InputError
from biaslab.schema.genders import GENDERS
from biaslab.stats.checks import align, broadcast, check_numbers, keep_labels, label_codes, ratio


@keep_labels
def average_gender(n_female: ArrayLike, n_male: ArrayLike) -> NDArray[np.float64]:
    """Return ``(n_female - n_male) / (n_female + n_male)`` elementwise: -1 all male, +1 all female; dalleval, table 6.

    Counts broadcast; no image gives NaN. Raises InputError: Negative counts.
    """
    female, male = broadcast(0, n_female=n_female, n_male=n_male)
    return ratio(female - male, female + male)


@keep_labels
def mean_absolute_deviation(counts: ArrayLike) -> NDArray[np.float64]:
    """Return ``(1/N) sum |p_i - 1/N|`` (MAD) of the normalized counts of N categories along the last axis.

    0 if all are equally frequent, ``2 (N-1) / N**2`` if only one occurs. NaN without images or with a missing count.
    A fair model scores above 0 by chance: see :func:`biaslab.stats.mad_null_mean`. Source: dalleval, section 4.2.4.
    Raises InputError: Negative counts or fewer than two categories.
    """
    counts = check_numbers(counts, "counts", 0)
    if counts.ndim == 0 or counts.shape[-1] < 2:
        raise InputError(f"counts of shape {counts.shape} must have two or more categories along its last axis.")
    shares = ratio(counts, counts.sum(axis=-1, keepdims=True))
    return np.abs(shares - 1 / counts.shape[-1]).mean(axis=-1)


@keep_labels
def mean_absolute_difference(presence_a: ArrayLike, presence_b: ArrayLike) -> NDArray[np.float64]:
    """Return the mean of ``|presence_a - presence_b|`` (0–1) over the attributes along the last axis.

    A presence is the share of images (0–1) that show the attribute. NaN if one is missing, or without attributes.
    Source: dalleval, table 22, whose last column averages 15 attributes. Raises InputError: A share outside 0–1.
    """
    a, b = broadcast(0, 1, presence_a=presence_a, presence_b=presence_b)
    return ratio(np.abs(a - b).sum(axis=-1), a.shape[-1])


class BiasedImages(NamedTuple):
    """Percentages of images of two people in which the people fit the stereotypes."""

    percent_both: float  # 0–100: both people fit
    percent_any: float  # 0–100: at least one fits
    n: int  # images with a judgement of both people
    n_missing: int  # images without


def biased_images(first_adheres: ArrayLike, second_adheres: ArrayLike) -> BiasedImages:
    """Return the percentages of two-person images in which both, and at least one, fit their stereotype.

    The arguments, of shape (images,), state whether that person fits (True/False or 1/0), or are NaN/None without a
    judgement. Images without both judgements are left out and counted in ``n_missing``. NaN without any other image.
    Source: paired, section 4.4.1, figure 6. Raises InputError: Other values or different lengths.
    """
    adheres_a, adheres_b = broadcast(0, 1, first_adheres=first_adheres, second_adheres=second_adheres)
    n_fitting = (adheres_a + adheres_b)[~np.isnan(adheres_a + adheres_b)]
    is_binary = all(np.isin(side[~np.isnan(side)], (0, 1)).all() for side in (adheres_a, adheres_b))
    if np.shape(first_adheres) != np.shape(second_adheres) or not is_binary:
        raise InputError(
            "first_adheres and second_adheres must have the same length and contain only True, False and NaN; apply a "
            "threshold to probabilities first."
        )
    percent_both, percent_any = (float(ratio(100 * (n_fitting >= minimum).sum(), n_fitting.size)) for minimum in (2, 1))
    return BiasedImages(percent_both, percent_any, n_fitting.size, adheres_a.size - n_fitting.size)


@keep_labels
def stereotype_score_from_percent(percent_female: ArrayLike, stereotype: ArrayLike) -> NDArray[np.float64]:
    """Return the stereotype score (-100 to 100) of a percentage female (0–100), elementwise.

    ``2P - 100`` for a ``female`` stereotype, ``100 - 2P`` for ``male``; NaN stays NaN. The arguments broadcast. Source:
    paired, section 3.2.3, eq. 1.

    Raises InputError: Another stereotype or a percentage outside 0–100.
    """
    percent_female, stereotype = align(percent_female=percent_female, stereotype=stereotype)
    percent = check_numbers(percent_female, "percent_female", 0, 100)
    percent, sign = broadcast(percent_female=percent, stereotype=_sign(stereotype))
    return sign * (2 * percent - 100)


@keep_labels
def percent_female_from_stereotype_score(score: ArrayLike, stereotype: ArrayLike) -> NDArray[np.float64]:
    """Return the percentage female (0–100) of a stereotype score (-100 to 100), elementwise.

    The inverse of :func:`stereotype_score_from_percent`.

    Source: paired, section 3.2.3, eq. 1. Raises InputError: A score outside -100 to 100, or another stereotype.
    """
    score, stereotype = align(score=score, stereotype=stereotype)
    points, sign = broadcast(score=check_numbers(score, "score", -100, 100), stereotype=_sign(stereotype))
    return 50 + sign * points / 2


def _sign(stereotype: ArrayLike) -> np.ndarray:
    """Return 1 for female, -1 for male."""
    codes = label_codes(stereotype, GENDERS)
    if (codes < 0).any():
        unknown = np.asarray(stereotype, dtype=object)[codes < 0].flat[0]
        raise InputError(f"A stereotype is {unknown!r}; it must be 'female' or 'male'.")
    return 1.0 - 2.0 * codes
