"""Worst cases of what could not be looked at: how far missing images could move a share, and amplification.

Nothing is assumed about why images are missing. Each bound is what would come out if all of them had turned out the
most unfavourable way, so the truth of the sample that was drawn lies within for certain; how far the sample may be from
all images is what intervals say.

Source: Manski (1989), Journal of Human Resources 24, 343–360: bounds without assumptions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from biaslab.ground.errors import InputError
from biaslab.measures.amplification import check_definition
from biaslab.measures.checks import broadcast, check_axis, ratio


class Bounds(NamedTuple):
    """Least and greatest possible value: floats, or arrays of one shape."""

    low: float | np.ndarray
    high: float | np.ndarray


def percent_female_bounds(n_female, n_male, n_missing) -> Bounds:
    """Return the least and greatest percentage female that missing images allow.

    Of the images that are there, f and m were perceived as female and as male; others (no face, unsure) play no part in
    a share. The least share is that of all u missing images having been perceived as male, ``100 f / (f + m + u)``, the
    greatest of all as female, ``100 (f + u) / (f + m + u)``; if some would have shown no clear face, it lies between.

    The counts broadcast; NaN stays NaN, and is what no image at all gives. Raises InputError for negative counts,
    fractions, or shapes that do not broadcast.
    """
    counts = {"n_female": n_female, "n_male": n_male, "n_missing": n_missing}
    f, m, u = found = broadcast(0, **counts)
    for name, values in zip(counts, found, strict=True):
        part = values[values % 1 > 0]
        if part.size:
            raise InputError(f"{name} holds {part[0]:g}; it counts images, so it must be a whole number.")
    whole = f + m + u
    return Bounds(100 * ratio(f, whole), 100 * ratio(f + u, whole))


def expected_amplification_bounds(
    percent_generated, training_low, training_high, definition: str = "published"
) -> Bounds:
    """Return the least and greatest expected amplification that bounds of the training shares allow.

    Each occupation's training share may lie anywhere within its bounds, independently of the others. So an occupation
    that may or may not count is counted where that makes the mean smaller (for the lower bound) or greater (for the
    upper one). Returns percentage points, of the input's shape without its last axis, the occupations; NaN where none
    can count.

    Args:
        percent_generated: Share perceived as female in generated images, 0–100.
        training_low: Lower bound of the training share, 0–100, as :func:`percent_female_bounds` gives it.
        training_high: The upper one. The three broadcast; an occupation with NaN is left out.
        definition: As in :func:`biaslab.measures.expected_amplification`. Training shares that it leaves out are left
            out of the bounds, too; a limit at a training share of exactly 50 is approached and not reached.

    Raises:
        UnknownNameError: For another definition.
        InputError: For a percentage outside 0–100, shapes that do not broadcast, or lower bounds above upper ones.
    """
    shares = {"percent_generated": percent_generated, "training_low": training_low}
    g, low, high = broadcast(0, 100, **shares, training_high=training_high)
    if (low > high).any():
        raise InputError(
            f"training_low holds {low[low > high].flat[0]:g}, above its training_high; give the lower bound first."
        )
    check_axis(g, -1, "occupations")
    check_definition(definition)
    least, most, always = _per_occupation(g, low, high, definition)
    return Bounds(-_greatest_mean(-least, always), _greatest_mean(most, always))


def _per_occupation(
    g: np.ndarray, low: np.ndarray, high: np.ndarray, definition: str
) -> tuple[np.ndarray, ...]:
    """Return bounds of each occupation's value, and whether it counts wherever its training share lies."""
    known = ~(np.isnan(g) | np.isnan(low) | np.isnan(high))
    values, always = [], known & (definition == "no_exclusion")
    # The parts of the bounds below and above 50; there the value is a line in T.
    for side, partly, wholly, ends in (
        (-1, low < 50, high < 50, (low, np.minimum(high, 50))),
        (1, high > 50, low > 50, (np.maximum(low, 50), high)),
    ):
        counts = known & (side * (g - 50) > 0) if definition == "published" else known
        away = side * (g - 50) if definition == "directional" else np.abs(g - 50)
        values += [np.where(counts & partly, away - side * (t - 50), np.nan) for t in ends]
        always = always | (counts & wholly)
    if definition == "no_exclusion":
        values.append(np.where(known & (low <= 50) & (high >= 50), np.abs(g - 50), np.nan))
    return np.fmin.reduce(values), np.fmax.reduce(values), always


def _greatest_mean(values: np.ndarray, always: np.ndarray) -> np.ndarray:
    """Return the greatest mean over the last axis of all values that always count and any of the others.

    Others are taken from the greatest down: the mean grows as long as the next one lies above it, so the greatest
    mean is among those of the first k. NaN where nothing can count.
    """
    total = np.where(always, values, 0.0).sum(axis=-1, keepdims=True)
    n = always.sum(axis=-1, keepdims=True)
    others = -np.sort(-np.where(always | np.isnan(values), -np.inf, values), axis=-1)
    there = np.isfinite(others)
    sums = np.concatenate([total, total + np.where(there, others, 0.0).cumsum(axis=-1)], axis=-1)
    counts = np.concatenate([n, n + there.cumsum(axis=-1)], axis=-1)
    return np.fmax.reduce(ratio(sums, counts), axis=-1)
