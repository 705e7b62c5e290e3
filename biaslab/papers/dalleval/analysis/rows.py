"""Helpers of DALL-Eval's analyses."""

from __future__ import annotations

import numpy as np

from biaslab import stats
from biaslab.errors import InputError

NO_PROFESSION = "(none)"
"""The profession of prompts that name none."""


def whole_count(share: np.ndarray, n: np.ndarray, table: str, column: str) -> np.ndarray:
    """Return the counts of rounded or truncated shares, after checking that they are consistent with n."""
    count = np.where(n > 0, np.rint(share * n), np.nan)
    error = np.abs(share - count / n)
    if (error > 0.01).any():
        row = int(np.nanargmax(error))
        raise InputError(
            f"{table}: {column} in row {row + 1} cannot come from n = {n[row]:g} images; "
            "n must be the number of images from which the value was computed."
        )
    return count


def too_few(n: int, confidence: float | None = None) -> str:
    """Return the reason why ``n`` professions have no interval; empty where they have one.

    Student's interval needs two; with ``confidence`` (0–1), as many are needed as for a test at that level.
    """
    n_min = 2 if confidence is None else stats.min_units(1 - confidence)
    return "" if n >= n_min else f"an interval needs {'two' if n_min == 2 else n_min} or more professions"
