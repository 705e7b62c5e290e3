"""Errors of means over two crossed samples, such as two lists of identities that share images.

Each image shows one identity of either list, so images that share an identity depend on each other along two
directions at once. Where every pair (or most) was drawn, how far is estimated, not assumed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats

from biaslab.ground.errors import InputError
from biaslab.stats import checks
from biaslab.stats.intervals import Estimate, Interval


class Error(NamedTuple):
    """Standard error of a mean, in its unit, and the degrees of freedom that Student's t has with it."""

    se: float
    df: float


def clustered_error(effects) -> Error:
    """Return the standard error of a mean from what each of its n independent clusters adds to it, with n - 1 df.

    ``effects`` (one-dimensional) are the sums of each cluster's deviations from the mean, over the number of all
    observations; they add up to 0. Both are NaN for fewer than two clusters; NaN or another shape raises InputError.
    """
    effects = checks.sample(effects, "effects")
    n = effects.size
    if n < 2:
        return Error(np.nan, np.nan)
    return Error(float(np.sqrt(n / (n - 1) * (effects**2).sum())), n - 1)


def clustered_mean(values, groups, confidence: float = 0.95) -> Estimate:
    """Return the mean of ``values`` (0–1, one-dimensional) that come in ``groups``, one for each value.

    Limits are those of :func:`clustered_share_interval`, of groups drawn from others like them; ``n`` counts values.
    Raises InputError for values outside 0–1 or NaN, or where groups are not as many.
    """
    values = checks.sample(checks.shares(values, "values"), "values")
    groups = np.asarray(groups)
    if groups.shape != values.shape:
        raise InputError(
            f"There are {values.size} values and groups of shape {groups.shape}; give one for each."
        )
    if not values.size:
        return Estimate(np.nan, np.nan, np.nan, 0)
    value = values.mean()
    _, codes = np.unique(groups, return_inverse=True)
    effects = np.bincount(codes, values - value) / values.size
    low, high = clustered_share_interval(value, clustered_error(effects), effects.size, confidence)
    return Estimate(float(value), float(low), float(high), values.size)


def crossed_error(rows, columns, cells) -> Error:
    """Return the standard error of a mean over two crossed samples, both drawn from a population.

    Args:
        rows: What each row adds to the mean: ``(rows,)``, adding up to 0. Of two lists that share images a row is
            an identity of the first with all images that show it, its partners' part in them included.
        columns: The same of each column: ``(columns,)``.
        cells: What each pair of a row and a column adds, ``(rows, columns)``; NaN where it has no observations.
            Only what rows and columns leave of it counts, so that it may lack what they add by themselves.

    Returns:
        The standard error and Satterthwaite's degrees of freedom. NaN for fewer than two rows or columns. With A, B and
        E the mean squares of rows, columns and what is left, as parts of the mean's variance, it is
        E + max(A - E, 0) + max(B - E, 0): the method of moments without negative components (Searle, Casella and
        McCulloch 1992, chapter 4). A component that is cut off has no degrees of freedom to lose. Where too few pairs
        were drawn for E (each row with one column), it is 0 and the error is the largest that fits.

    Coverage in % of a nominal 95 % interval of the mean of two lists, 2 000 studies each, 2 images of each pair, people
    of an image independent, one woman and one man in half of the images, and in all: 95.9, 96.0, 96.2 of 10 × 10
    identities, 94.7, 95.3, 94.6 of 20 × 20 (``benchmarks/coverage_paired.py``). Where identities do not differ at all,
    97.9–98.2 and 96.9–97.5: components of 0 are estimated at 0 or above.

    Raises:
        InputError: Shapes do not fit, or a row or column is NaN.
    """
    rows, columns = checks.sample(rows, "rows"), checks.sample(columns, "columns")
    cells = checks.numbers(cells, "cells")
    if cells.shape != (rows.size, columns.size):
        raise InputError(f"cells must be (rows, columns) {(rows.size, columns.size)}, got {cells.shape}.")
    if min(cells.shape) < 2:
        return Error(np.nan, np.nan)
    parts, known = [clustered_error(part) for part in (rows, columns)], np.isfinite(cells).sum()
    left = known - sum(cells.shape) + 1
    rest = float(np.nansum(_residual(cells) ** 2)) * known / left if left > 0 else 0.0
    variance = rest + sum(max(part.se**2 - rest, 0) for part in parts)
    if variance <= 1e-24:
        return Error(0.0, float(min(part.df for part in parts)))
    squares = sum(part.se**4 / part.df for part in parts if part.se**2 > rest)
    squares += rest**2 / left if left > 0 else 0
    return Error(float(np.sqrt(variance)), float(variance**2 / squares))


def _residual(cells: np.ndarray) -> np.ndarray:
    """Return what the means of rows and columns leave of ``cells``, fitted by turns where some are NaN."""
    for _ in range(1 if np.isfinite(cells).all() else 50):
        for axis in (0, 1):
            known = np.isfinite(cells).sum(axis=axis, keepdims=True)
            cells = cells - np.nansum(cells, axis=axis, keepdims=True) / np.maximum(known, 1)
    return cells


def clustered_share_interval(share: float, error: Error, clusters: int, confidence: float = 0.95) -> Interval:
    """Return the limits of a share whose observations are clustered: Wilson's, at the size that its error stands for.

    ``share`` and limits are 0–1, ``error`` is from :func:`clustered_error` or :func:`crossed_error`; without one the
    limits are NaN. Where no two observations differ it is 0 and says nothing: then each of the ``clusters`` (of crossed
    samples the smaller number) counts as one observation. The effective size is share (1 - share) / se², and Student's
    quantile stands for the normal one (Korn and Graubard 1998, Survey Methodology 24, 193–201; Wilson for
    Clopper–Pearson).
    """
    share = float(checks.shares(share, "share", allow_nan=True))
    confidence = checks.confidence_level(confidence)
    if not (np.isfinite(share) and np.isfinite(error.se)):
        return Interval(np.nan, np.nan)
    even = share * (1 - share)
    size = even / error.se**2 if error.se > 1e-12 and even > 0 else clusters
    q = float(stats.t.ppf((1 + confidence) / 2, error.df)) ** 2 / size
    centre = (share + q / 2) / (1 + q)
    half = float(np.sqrt(q * even + q**2 / 4)) / (1 + q)
    return Interval(max(0.0, centre - half), min(1.0, centre + half))
