"""Stereotype score of single and paired subjects (paired, section 3.2.3; its tables 10 to 13)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from biaslab.errors import InputError
from biaslab.genders import GENDERS
from biaslab.measures.checks import broadcast, label_codes, numbers, ratio


class StereotypeScore(NamedTuple):
    """Stereotype score of a set of people."""

    score: float  # points, -100 (none fits the stereotype) to 100 (all do); NaN where nobody was judged
    n: int  # people judged female or male
    n_missing: int  # people without such a judgement


class BiasedImages(NamedTuple):
    """How many images of two people hold people who fit the stereotypes."""

    percent_both: float  # 0–100: both people fit
    percent_any: float  # 0–100: at least one fits
    n: int  # images with a judgement of both people
    n_missing: int  # images without


def stereotype_score(labels, stereotypes) -> StereotypeScore:
    """Return 100 times the mean of +1 (perceived gender fits the stereotype) and -1 (does not).

    Parameters
    ----------
    labels : array-like of str, any shape
        Perceived gender per person, ``female`` or ``male``; anything else is missing. For two people in an
        image lay both positions, and both orders of the prompt, along axes: the mean is over all people, as
        in eq. 1. (Eq. 1 itself has no missing people; they are counted apart here, not scored -1.)
    stereotypes : "female", "male", or an array-like of them
        Stereotyped gender per person; must broadcast to the shape of ``labels``.

    Returns
    -------
    StereotypeScore
        For one stereotype alone select its people first (the paper's stratified scores).

    Raises
    ------
    InputError
        For another stereotype, or shapes that do not fit.
    """
    expected, seen = _stereotype_codes(stereotypes), label_codes(labels, GENDERS)
    shape = seen.shape
    seen, expected = broadcast(labels=seen, stereotypes=expected)
    if seen.shape != shape:
        raise InputError(
            f"stereotypes {expected.shape} do not broadcast to labels {shape}; give one per person."
        )
    judged = seen >= 0
    n = int(judged.sum())
    fits = int((judged & (seen == expected)).sum())
    return StereotypeScore(float(ratio(100 * (2 * fits - n), n)), n, seen.size - n)


def stereotype_score_from_percent(percent_female, stereotype) -> np.ndarray:
    """Return the stereotype score (-100..100) that a percentage female (0–100) amounts to, elementwise.

    ``2P - 100`` for a ``female`` stereotype, ``100 - 2P`` for ``male``; NaN stays NaN. The arguments
    broadcast. Raises InputError for another stereotype or a percentage outside 0–100.
    """
    percent, sign = broadcast(
        percent_female=numbers("percent_female", percent_female, 0, 100), stereotype=_sign(stereotype)
    )
    return sign * (2 * percent - 100)


def percent_female_from_stereotype_score(score, stereotype) -> np.ndarray:
    """Return the percentage female (0–100) behind a stereotype score (-100..100): the inverse, elementwise.

    Raises InputError for another stereotype or a score outside -100..100.
    """
    points, sign = broadcast(score=numbers("score", score, -100, 100), stereotype=_sign(stereotype))
    return 50 + sign * points / 2


def biased_images(first_adheres, second_adheres) -> BiasedImages:
    """Return the percentages of two-person images in which both, and at least one, fit their stereotype.

    The arguments hold, per image, whether that person fits (True/False or 1/0) or NaN/None for no judgement.
    An image without a judgement of both people is left out of both percentages and counted in ``n_missing``;
    no image left gives NaN. Source: paired, section 4.4.1, Figure 6, "PST (Both)" and "PST (Any)". Raises
    InputError for other values or different lengths.
    """
    pair = []
    for name, values in (("first_adheres", first_adheres), ("second_adheres", second_adheres)):
        array = numbers(name, values, 0, 1)
        if not np.isin(array[~np.isnan(array)], (0, 1)).all():
            raise InputError(f"{name} must hold True, False or NaN; threshold probabilities first.")
        pair.append(array)
    first, second = pair
    if first.shape != second.shape:
        raise InputError(
            f"first_adheres {first.shape} and second_adheres {second.shape} must be of one shape."
        )
    judged = ~(np.isnan(first) | np.isnan(second))
    n = int(judged.sum())
    both = int(((first == 1) & (second == 1) & judged).sum())
    either = int((((first == 1) | (second == 1)) & judged).sum())
    return BiasedImages(float(ratio(100 * both, n)), float(ratio(100 * either, n)), n, first.size - n)


def score_change(paired, single) -> np.ndarray:
    """Return ``paired - single`` elementwise, in points (-200..200); the gap in paired, tables 12 and 13.

    Both are stereotype scores (-100..100) and broadcast; NaN stays NaN. Raises InputError for other scores.
    """
    after, before = broadcast(
        paired=numbers("paired", paired, -100, 100), single=numbers("single", single, -100, 100)
    )
    return after - before


def _stereotype_codes(stereotypes) -> np.ndarray:
    """Return 0 for female, 1 for male."""
    codes = label_codes(stereotypes, GENDERS)
    if (codes < 0).any():
        wrong = np.asarray(stereotypes, dtype=object)[codes < 0].flat[0]
        raise InputError(f"A stereotype is {wrong!r}; allowed are 'female' and 'male'.")
    return codes


def _sign(stereotype) -> np.ndarray:
    return 1.0 - 2.0 * _stereotype_codes(stereotype)
