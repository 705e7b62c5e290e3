"""How well maps of words mark where things are, against masks that are known."""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata

from biaslab.errors import InputError
from biaslab.measures.checks import ratio


def mask_overlap(found, truth) -> np.ndarray:
    """Return the intersection over union of corresponding masks, ``float64 (masks,)``, 0–1.

    The masks are ``bool (masks, height, width)``. NaN where both are empty. Raises InputError where shapes differ or
    they are not bool.
    """
    found, truth = _pair(found, truth)
    shared, either = (op(found, truth).sum(axis=(1, 2)) for op in (np.logical_and, np.logical_or))
    return np.atleast_1d(ratio(shared, either))


def map_auc(values, truth) -> np.ndarray:
    """Return the area under the ROC curve of maps, ``float64 (maps,)``, 0–1: how well they order places.

    The probability that a place in the mask has a higher value than one outside, ties counting half (Mann and Whitney
    1947); 0.5 is chance. NaN where the mask is empty or everything.

    Args:
        values: ``(maps, height, width)``, numbers.
        truth: ``bool``, the same shape.

    Raises:
        InputError: The shapes differ, or ``truth`` is not bool.
    """
    values = np.asarray(values)
    values, truth = _pair(values, truth, bools=False)
    inside = truth.sum(axis=(1, 2))
    outside = truth.shape[1] * truth.shape[2] - inside
    flat = (len(truth), truth.shape[1] * truth.shape[2])
    ranks = rankdata(values.reshape(flat), axis=1)
    above = np.where(truth.reshape(flat), ranks, 0).sum(axis=1) - inside * (inside + 1) / 2
    return np.atleast_1d(ratio(above, inside * outside))


def _pair(found, truth, *, bools: bool = True) -> tuple[np.ndarray, np.ndarray]:
    found, truth = np.asarray(found), np.asarray(truth)
    if (
        found.shape != truth.shape
        or found.ndim != 3
        or truth.dtype != bool
        or (bools and found.dtype != bool)
    ):
        raise InputError(
            f"The masks are {found.dtype} {found.shape} and {truth.dtype} {truth.shape}; give (masks, height, width) "
            "of one shape, the truth as bool."
        )
    return found, truth
