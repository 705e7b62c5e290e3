"""Correct a share for the errors of the judge that counted it.

For "percent female": sensitivity is the share of images perceived as female by the reference (human raters,
or the known truth) that the judge calls female; specificity is the same for images perceived as male and
called male.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats

from biaslab.ground.errors import InputError
from biaslab.stats import checks


class CorrectedShares(NamedTuple):
    """Corrected shares 0–1 with their intervals and numbers of images: arrays of one shape."""

    share: np.ndarray
    ci_low: np.ndarray
    ci_high: np.ndarray
    n: np.ndarray


def corrected_shares(
    count, n, sensitivity, specificity, sensitivity_n, specificity_n, confidence: float = 0.95
) -> CorrectedShares:
    """Return the shares of images positive by the reference, given ``count`` of ``n`` judged positive, elementwise.

    share = (count / n + specificity - 1) / (sensitivity + specificity - 1), clipped to 0–1 (as are the limits).
    ``sensitivity_n`` and ``specificity_n`` are the numbers of reference images the two were measured on; the interval
    includes their uncertainty. All broadcast; n = 0 gives NaN. Raises InputError where sensitivity + specificity <= 1:
    such a judge carries no information (or its labels are swapped).

    The shares of one table rest on the same sensitivity and specificity, so their errors from these are common: each
    interval is right by itself, their average is not more certain than these two allow.

    Coverage of a nominal 95 % interval, true shares 0.05–0.95, 9 to 500 images (4 000 studies each): 95.5–96.5 % on
    average and 94.5–97.1 % in the worst case with references of 100 or more, up to 98.7 % with only 30.

    Sources: Rogan & Gladen (1978), Am. J. Epidemiol. 107, 71–76; interval: Lang & Reiczigel (2014), Prev. Vet. Med.
    113, 13–22.
    """
    count, n = checks.counts(count, n)
    sens, spec = checks.shares(sensitivity, "sensitivity"), checks.shares(specificity, "specificity")
    sens_n = checks.whole(sensitivity_n, "sensitivity_n", least=1)
    spec_n = checks.whole(specificity_n, "specificity_n", least=1)
    z = stats.norm.ppf((1 + checks.confidence_level(confidence)) / 2)
    try:
        count, n, sens, spec, sens_n, spec_n = np.broadcast_arrays(count, n, sens, spec, sens_n, spec_n)
    except ValueError:
        raise InputError(
            "count, n, sensitivity, specificity and their n must fit together in shape."
        ) from None
    useless = sens + spec <= 1
    if useless.any():
        got = f"{sens[useless].flat[0]:g} + {spec[useless].flat[0]:g}"
        raise InputError(
            f"sensitivity + specificity must exceed 1, got {got}: the judge is no better than chance; check that its "
            "labels are not swapped."
        )
    size = np.where(n > 0, n, np.nan)
    share = (count / size + spec - 1) / (sens + spec - 1)

    # Lang & Reiczigel: add z²/2 positive and z²/2 negative images to the judged ones and one of each to both
    # references, apply the delta method there, and shift the centre.
    judged_n, sens_n, spec_n = size + z**2, sens_n + 2, spec_n + 2
    judged = (count + z**2 / 2) / judged_n
    sens, spec = (sens * (sens_n - 2) + 1) / sens_n, (spec * (spec_n - 2) + 1) / spec_n
    informed = sens + spec > 1  # may fail after the addition: then nothing is known
    youden = np.where(informed, sens + spec - 1, 1)
    centre = (judged + spec - 1) / youden
    from_sens, from_spec = sens * (1 - sens) / sens_n, spec * (1 - spec) / spec_n
    shift = 2 * z**2 * (centre * from_sens - (1 - centre) * from_spec)
    variance = judged * (1 - judged) / judged_n + centre**2 * from_sens + (1 - centre) ** 2 * from_spec
    half = np.where(informed, z * np.sqrt(variance) / youden, np.inf + 0 * size)
    low, high = (np.clip(centre + shift + side * half, 0, 1) for side in (-1, 1))
    return CorrectedShares(np.clip(share, 0, 1), low, high, n)
