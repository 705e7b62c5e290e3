"""Intervals of statistics of whole samples, such as distances of two sets of images, from halves of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats

from biaslab.ground.errors import InputError
from biaslab.stats import checks
from biaslab.stats.intervals import Estimate


def halves_interval(
    samples: Sequence[np.ndarray],
    groups: Sequence[np.ndarray],
    statistic: Callable[..., float],
    *,
    splits: int = 20,
    seed,
    confidence: float = 0.95,
) -> Estimate:
    """Return ``statistic(*samples)`` with the interval that its spread over halves of the groups gives.

    A half that is drawn without replacement varies about the whole as much as the whole varies about the population:
    (1/m - 1/2m) σ² is σ²/2m. Groups are halved, and each sample has the observations of that half: what samples share
    stays together. Resamples with replacement would hold copies, which change a covariance.

    The interval (Student's t over the halves) is of what as many groups would give on average: where the statistic
    depends on their number, as Fréchet's distance does, it is not of its limit at very many.

    Args:
        samples: Arrays with one row an observation.
        groups: For each sample the group of each row; a group may be in several samples.
        statistic: Takes as many arrays, rows left out, of two rows or more each.
        splits: How many halves are drawn.
        seed: One explicit seed.
        confidence: Level of the interval, 0–1.

    Returns:
        ``n`` counts groups. Limits are NaN for fewer than two halves with two rows of each sample.

    Raises:
        InputError: Groups are not those of the rows.

    Source: half-samples: McCarthy 1969, Review of the International Statistical Institute 37, 239–264.
    """
    samples, groups = list(samples), [np.asarray(of) for of in groups]
    if [len(of) for of in samples] != [len(of) for of in groups]:
        raise InputError(
            f"The samples have {[len(of) for of in samples]} rows, groups are {[len(of) for of in groups]}; give one "
            "for each row."
        )
    rng, confidence = checks.generator(seed), checks.confidence_level(confidence)
    names, codes = np.unique(np.concatenate(groups), return_inverse=True)
    codes = np.split(codes, np.cumsum([len(of) for of in groups])[:-1])
    found = []
    for _ in range(splits):
        half = rng.permutation(names.size) < names.size // 2
        parts = [sample[half[of]] for sample, of in zip(samples, codes, strict=True)]
        if min(map(len, parts)) > 1:
            found.append(statistic(*parts))
    value = statistic(*samples)
    # So few groups have fewer halves than are drawn.
    df = min(len(found), names.size) - 1
    if df < 1:
        return Estimate(value, np.nan, np.nan, names.size)
    spread = stats.t.ppf((1 + confidence) / 2, df) * np.std(found, ddof=1)
    return Estimate(value, float(value - spread), float(value + spread), names.size)
