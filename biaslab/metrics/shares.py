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
    """Return ``(n_female - n_male) / (n_female + n_male)`` elementwise: -1 is all male, +1 is all female.

    Counts are broadcast; the result is NaN without images. Source: dalleval, Table 6. Raises InputError: A count is
    negative.
    """
    female, male = broadcast(0, n_female=n_female, n_male=n_male)
    return ratio(female - male, female + male)


@keep_labels
def mean_absolute_deviation(counts: ArrayLike) -> NDArray[np.float64]:
    """Return the mean absolute deviation (MAD) of the shares of N categories from 1/N: ``(1/N) sum |p_i - 1/N|``.

    ``counts`` has the categories along the last axis. The MAD is 0 if all categories are equally frequent, and
    ``2 (N-1) / N**2`` if only one occurs. It is NaN without images or with a missing count. A balanced model has an
    expected MAD above 0 (:func:`biaslab.stats.mad_null_mean`). Source: dalleval, section 4.2.4. Raises InputError: A
    count is negative, or there are fewer than two categories.
    """
    counts = check_numbers(counts, "counts", 0)
    if counts.ndim == 0 or counts.shape[-1] < 2:
        raise InputError(f"counts of shape {counts.shape} must have two or more categories along its last axis.")
    shares = ratio(counts, counts.sum(axis=-1, keepdims=True))
    return np.abs(shares - 1 / counts.shape[-1]).mean(axis=-1)


@keep_labels
def mean_absolute_difference(presence_a: ArrayLike, presence_b: ArrayLike) -> NDArray[np.float64]:
    """Return the mean of ``|presence_a - presence_b|`` (0–1) over the attributes along the last axis.

    A presence is the share of images (0–1) that show the attribute. The result is NaN if a presence is missing, or
    without attributes. Source: dalleval, Table 22, whose last column is the mean over 15 attributes. Raises InputError:
    A share is outside 0–1.
    """
    a, b = broadcast(0, 1, presence_a=presence_a, presence_b=presence_b)
    return ratio(np.abs(a - b).sum(axis=-1), a.shape[-1])


class BiasedImages(NamedTuple):
    """Percentages of two-person images in which the people match their stereotypes."""

    percent_both: float  # 0–100: both people match.
    percent_any: float  # 0–100: at least one person matches.
    n: int  # Images in which both people are judged.
    n_missing: int  # Other images.


def biased_images(first_adheres: ArrayLike, second_adheres: ArrayLike) -> BiasedImages:
    """Return the percentages of two-person images in which both people match their stereotype, and at least one does.

    The arguments, with shape (images,), state whether the first and the second person match (True/False or 1/0), and
    are NaN or None if the person is not judged. Images without both judgements are excluded and counted in
    ``n_missing``. The percentages are NaN if no images remain. Source: paired, section 4.4.1, Figure 6. Raises
    InputError: There are other values, or the lengths differ.
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
    """Return the stereotype score (-100 to 100) of a percentage perceived as female (P, 0–100), elementwise.

    It is ``2P - 100`` for a ``female`` stereotype and ``100 - 2P`` for a ``male`` stereotype; NaN stays NaN. The
    arguments are broadcast. Source: paired, section 3.2.3, equation 1. Raises InputError: A stereotype is neither
    ``female`` nor ``male``, or a percentage is outside 0–100.
    """
    percent_female, stereotype = align(percent_female=percent_female, stereotype=stereotype)
    percent = check_numbers(percent_female, "percent_female", 0, 100)
    percent, sign = broadcast(percent_female=percent, stereotype=_sign(stereotype))
    return sign * (2 * percent - 100)


@keep_labels
def percent_female_from_stereotype_score(score: ArrayLike, stereotype: ArrayLike) -> NDArray[np.float64]:
    """Return the percentage perceived as female (0–100) for a stereotype score (-100 to 100), elementwise.

    It is the inverse of :func:`stereotype_score_from_percent`. Source: paired, section 3.2.3, equation 1. Raises
    InputError: A score is outside -100 to 100, or a stereotype is neither ``female`` nor ``male``.
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
