"""How well maps of words mark where things are, against masks that are known."""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata

from biaslab.ground.errors import InputError
from biaslab.measures.checks import ratio


def mask_overlap(found, truth) -> np.ndarray:
    """Return the intersection over union of corresponding masks, ``float64 (masks,)``, 0–1; NaN where both are empty.

    Takes ``bool (masks, height, width)``; raises InputError for others, or where shapes differ.
    """
    found, truth = _pair(found, truth, kinds="b")
    shared, either = (op(found, truth).sum(axis=(1, 2)) for op in (np.logical_and, np.logical_or))
    return np.atleast_1d(ratio(shared, either))


def map_auc(values, truth) -> np.ndarray:
    """Return the area under the ROC curve of maps, ``float64 (maps,)``, 0–1: how well they order places.

    The probability that a place in the mask has a higher value than one outside, ties counting half (Mann and Whitney
    1947); 0.5 is chance. NaN where the mask is empty or everything. Takes numbers ``(maps, height, width)`` and masks,
    ``bool`` of the same shape; raises InputError for others.
    """
    values, truth = _pair(values, truth)
    size = truth.shape[1] * truth.shape[2]
    values, truth = (side.reshape(len(side), size) for side in (values, truth))
    inside = truth.sum(axis=1)
    above = np.where(truth, rankdata(values, axis=1), 0).sum(axis=1) - inside * (inside + 1) / 2
    return np.atleast_1d(ratio(above, inside * (size - inside)))


def _pair(found, truth, kinds: str = "biuf") -> tuple[np.ndarray, np.ndarray]:
    found, truth = np.asarray(found), np.asarray(truth)
    known = found.dtype.kind in kinds and truth.dtype == bool
    if found.shape != truth.shape or found.ndim != 3 or not known:
        raise InputError(
            f"The masks are {found.dtype} {found.shape} and {truth.dtype} {truth.shape}; give (masks, height, width) "
            "of one shape, the truth as bool."
        )
    return found, truth
