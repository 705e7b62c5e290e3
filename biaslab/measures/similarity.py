"""Object bias and prompt-image dependency groups (triplets, sections 5.2, 6.2 and 7.2)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from biaslab.errors import InputError
from biaslab.measures.checks import broadcast, ratio

DEPENDENCY_GROUPS = (
    "explicitly_guided",
    "implicitly_guided",
    "explicitly_independent",
    "implicitly_independent",
    "hidden",
)


def bias_score(count_masculine, count_feminine, n_masculine, n_feminine) -> np.ndarray:
    """Return an object's bias score elementwise: 1 only in masculine, 0 only in feminine, 0.5 neither.

    ``C_m / (C_m + (n_m / n_f) C_f)`` with the object's co-occurrence counts C (0 or more) and the sizes n of
    the prompt sets (above 0), so that sets of unequal size compare. An object that never occurs gives NaN.
    The arguments broadcast. Source: triplets, eq. 3 and 5. Raises InputError for negative counts or an empty
    prompt set.
    """
    masculine, feminine, n_m, n_f = broadcast(
        0,
        count_masculine=count_masculine,
        count_feminine=count_feminine,
        n_masculine=n_masculine,
        n_feminine=n_feminine,
    )
    if (n_m == 0).any() or (n_f == 0).any():
        raise InputError(
            "A prompt set is empty (size 0); the bias score compares two sets that hold prompts."
        )
    return ratio(masculine, masculine + n_m / n_f * feminine)


def intersection_ratio(set_a: Iterable, set_b: Iterable) -> float:
    """Return the percentage (0–100) of the distinct members of ``set_a`` that are also in ``set_b``.

    NaN where ``set_a`` is empty. Source: triplets, section 7.2.3, table 13 (``set_a`` is the row's group).
    """
    first, second = set(set_a), set(set_b)
    return float(ratio(100 * len(first & second), len(first)))
