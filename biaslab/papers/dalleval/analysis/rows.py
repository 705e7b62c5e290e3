"""What these analyses share."""

from __future__ import annotations

import numpy as np

from biaslab import stats
from biaslab.errors import InputError

NO_PROFESSION = "(none)"
"""What represents the profession of the prompt that names none."""


def whole_count(share: np.ndarray, n: np.ndarray, table: str, column: str) -> np.ndarray:
    """Return the counts behind shares that print rounded or cut off, after checking that they fit n."""
    count = np.where(n > 0, np.rint(share * n), np.nan)
    off = np.abs(share - count / n)
    if (off > 0.01).any():
        row = int(np.nanargmax(off))
        raise InputError(
            f"{table}: {column} in row {row + 1} cannot come from n = {n[row]:g} images; "
            f"n must count the images that the value is taken over."
        )
    return count


def too_few(n: int, confidence: float | None = None) -> str:
    """Return why so few professions have no interval; empty where they have one.

    Any two have Student's; with ``confidence`` (0–1) it takes as many as a test at that level does.
    """
    least = 2 if confidence is None else stats.min_units(1 - confidence)
    return "" if n >= least else f"an interval needs {'two' if least == 2 else least} or more professions"
