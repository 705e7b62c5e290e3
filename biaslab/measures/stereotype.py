"""Stereotype score of single and paired subjects (paired, section 3.2.3; its tables 10 to 13)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from biaslab.ground.errors import InputError
from biaslab.ground.genders import GENDERS
from biaslab.measures.checks import broadcast, label_codes, numbers, ratio


class BiasedImages(NamedTuple):
    """How many images of two people hold people who fit the stereotypes."""

    percent_both: float  # 0–100: both people fit
    percent_any: float  # 0–100: at least one fits
    n: int  # images with a judgement of both people
    n_missing: int  # images without


def stereotype_score_from_percent(percent_female, stereotype) -> np.ndarray:
    """Return the stereotype score (-100..100) that a percentage female (0–100) amounts to, elementwise.

    100 times the mean over people of +1 (perceived gender fits the stereotype) and -1 (does not), as in eq. 1:
    ``2P - 100`` for a ``female`` stereotype, ``100 - 2P`` for ``male``; NaN stays NaN. The arguments
    broadcast. Raises InputError for another stereotype or a percentage outside 0–100.
    """
    percent = numbers("percent_female", percent_female, 0, 100)
    percent, sign = broadcast(percent_female=percent, stereotype=_sign(stereotype))
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
    given = {"first_adheres": first_adheres, "second_adheres": second_adheres}
    found = {name: numbers(name, values, 0, 1) for name, values in given.items()}
    for name, array in found.items():
        if not np.isin(array[~np.isnan(array)], (0, 1)).all():
            raise InputError(f"{name} must hold True, False or NaN; threshold probabilities first.")
    first, second = found.values()
    if first.shape != second.shape:
        raise InputError(
            f"first_adheres {first.shape} and second_adheres {second.shape} must be of one shape."
        )
    fitting = (first + second)[~np.isnan(first + second)]
    n = fitting.size
    both, either = (float(ratio(100 * (fitting >= least).sum(), n)) for least in (2, 1))
    return BiasedImages(both, either, n, first.size - n)


def score_change(paired, single) -> np.ndarray:
    """Return ``paired - single`` elementwise, in points (-200..200); the gap in paired, tables 12 and 13.

    Both are stereotype scores (-100..100) and broadcast; NaN stays NaN. Raises InputError for other scores.
    """
    after, before = broadcast(-100, 100, paired=paired, single=single)
    return after - before


def _sign(stereotype) -> np.ndarray:
    """Return 1 for female, -1 for male."""
    codes = label_codes(stereotype, GENDERS)
    if (codes < 0).any():
        wrong = np.asarray(stereotype, dtype=object)[codes < 0].flat[0]
        raise InputError(f"A stereotype is {wrong!r}; allowed are 'female' and 'male'.")
    return 1.0 - 2.0 * codes
