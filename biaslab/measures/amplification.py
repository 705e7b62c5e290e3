"""Bias amplification from training to generated images (paradox, section 3.3), and how far missing images move it.

T is the percentage female in an occupation's training images, G in its generated images, both 0–100 points. A share
below 50 leans male, one above 50 leans female, and one of exactly 50 nowhere; so give unrounded shares.

Zhao et al. (2017) average the change in the share of the gender that is over-represented in training: for two genders
the signed change along the training lean, our ``directional``. It equals the paper's ``|G-50| - |T-50|`` but where the
lean flips or is nowhere: the published rule leaves such occupations out, ``no_exclusion`` counts a flip as no more than
its change in distance from 50.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from biaslab.ground.errors import InputError
from biaslab.stats.checks import broadcast, check_axis, mean_where, numbers, one_of, ratio

DEFINITIONS = ("published", "no_exclusion", "directional")
EXCLUSION_REASONS = ("missing", "training_at_50", "generated_at_50", "opposite_lean")
DIRECTIONS = ("A->T", "T->A")


class Expected(NamedTuple):
    """Expected amplification and its counts; each field has the input's shape without the occupations."""

    amplification: np.ndarray  # percentage points, -50..50 (directional -100..50); NaN where nothing is left
    n_occupations: np.ndarray  # occupations counted
    n_excluded: np.ndarray  # occupations left out, missing ones among them


class BiasAmp(NamedTuple):
    """Directional bias amplification; each field has the input's shape without its last two axes."""

    value: np.ndarray  # mean change in a conditional share, -1..1; NaN where no cell is left
    n_cells: np.ndarray  # (task, attribute) cells counted
    n_excluded: np.ndarray  # cells left out because a margin they condition on is empty


class Bounds(NamedTuple):
    """Least and greatest possible value: floats, or arrays of one shape."""

    low: float | np.ndarray
    high: float | np.ndarray


def amplification(percent_generated, percent_training) -> np.ndarray:
    """Return ``|G-50| - |T-50|`` elementwise, in percentage points (-50..50); paradox, section 3.3, first equation.

    Both arguments are 0–100 and broadcast; NaN stays NaN. Raises InputError for another percentage or other shapes.
    """
    g, t = _percents(percent_generated, percent_training)
    return np.abs(g - 50) - np.abs(t - 50)


def lean(percent_female) -> np.ndarray:
    """Return each percentage's lean: -1.0 male, 0.0 none (exactly 50), 1.0 female; NaN stays NaN."""
    return np.sign(numbers(percent_female, "percent_female", 0, 100) - 50)


def directional_amplification(percent_generated, percent_training) -> np.ndarray:
    """Return ``sign(T-50) * (G-T)`` elementwise: the change along the training lean, in points (-100..50).

    NaN where T is exactly 50 or either share is missing. Arguments and errors as in :func:`amplification`.
    """
    g, t = _percents(percent_generated, percent_training)
    return np.where(t == 50, np.nan, np.sign(t - 50) * (g - t))[()]


def exclusion_reason(percent_generated, percent_training, definition: str = "published") -> np.ndarray:
    """Say why each occupation is left out of :func:`expected_amplification`, as text; "" where it counts.

    The first that applies of :data:`EXCLUSION_REASONS`; ``no_exclusion`` leaves out only missing ones, ``directional``
    those and ``training_at_50``. Arguments and errors as there.
    """
    n = {"no_exclusion": 1, "directional": 2, "published": 4}[_definition(definition)]
    g, t = _percents(percent_generated, percent_training)
    conditions = [np.isnan(g) | np.isnan(t), t == 50, g == 50, np.sign(g - 50) != np.sign(t - 50)]
    return np.select(conditions[:n], EXCLUSION_REASONS[:n], default="")


def expected_amplification(
    percent_generated, percent_training, definition: str = "published", axis: int = -1
) -> Expected:
    """Return the mean amplification over occupations, with counts (paradox, section 3.3, 2nd equation).

    Args:
        percent_generated: Percentages, 0–100.
        percent_training: The same; both broadcast, and NaN leaves an occupation out (reason ``missing``).
        definition: ``published``: ``|G-50| - |T-50|`` where training and generation lean the same way; a share of
            exactly 50 leans nowhere and is left out. ``no_exclusion``: the same over all occupations. ``directional``:
            the signed change along the training lean over all occupations that have one.
        axis: Of the broadcast shape, over the occupations; all others are kept (bootstrap replicates, prompts).

    Raises UnknownNameError for another definition; InputError for a percentage outside 0–100, shapes that do not
    broadcast, or scalars.
    """
    g, t = _percents(percent_generated, percent_training)
    check_axis(g, axis, "occupations")
    if _definition(definition) == "directional":
        values = np.where(t == 50, np.nan, np.sign(t - 50) * (g - t))
    else:
        values = np.abs(g - 50) - np.abs(t - 50)
    kept = (g - 50) * (t - 50) > 0 if definition == "published" else ~np.isnan(values)
    mean, n = mean_where(values, kept, axis)
    return Expected(mean, n, g.shape[axis] - n)


def exclusion_counts(
    occupations: Sequence[str], percent_generated, percent_training, definition: str = "published"
) -> pd.DataFrame:
    """Count the occupations left out, by reason.

    ``occupations`` names the entries of the two percentages (0–100, one axis, same length). Returns one row per reason
    of :data:`EXCLUSION_REASONS`: ``reason``, ``n``, ``occupations`` (names joined by "; "). Raises InputError where the
    lengths differ, and as :func:`exclusion_reason`.
    """
    names = np.asarray(occupations, dtype=object)
    reasons = np.atleast_1d(exclusion_reason(percent_generated, percent_training, definition))
    if names.shape != reasons.shape or names.ndim != 1:
        raise InputError(f"occupations {names.shape} and percentages {reasons.shape} must be of one length.")
    rows = [(reason, names[reasons == reason].astype(str)) for reason in EXCLUSION_REASONS]
    rows = [(reason, len(excluded), "; ".join(excluded)) for reason, excluded in rows]
    return pd.DataFrame(rows, columns=["reason", "n", "occupations"])


def bias_amp(training_counts, generated_counts, direction: str) -> BiasAmp:
    """Return directional bias amplification, BiasAmp→ (Wang & Russakovsky 2021, section 4).

    With A attributes (perceived genders) and T tasks (occupations)::

        BiasAmp = 1/(|A||T|) * sum over a, t of  y_at * D_at + (1 - y_at) * (-D_at)
        y_at    = 1 where, in training, P(a, t) > P(a) P(t), else 0
        D_at    = P_generated(t | a) - P_training(t | a)     for "A->T"
        D_at    = P_generated(a | t) - P_training(a | t)     for "T->A"

    Positive: associations of training grow. ``A->T`` changes with how many images each occupation has; where the
    auditor chose that number, read ``T->A``.

    Counts are images by occupation and perceived gender, (..., tasks, attributes); leading axes broadcast. A cell whose
    conditioning margin is empty is left out and counted in ``n_excluded``. Raises UnknownNameError for another
    direction; InputError for negative or missing counts, fewer than two axes, or different tables.
    """
    one_of(direction, DIRECTIONS, "direction of bias amplification")
    both = {"training_counts": training_counts, "generated_counts": generated_counts}
    both = {name: numbers(values, name, 0) for name, values in both.items()}
    for name, counts in both.items():
        if counts.ndim < 2 or np.isnan(counts).any():
            raise InputError(
                f"{name} must be a full table of counts (..., tasks, attributes); got {counts.shape}."
            )
    if len({counts.shape[-2:] for counts in both.values()}) > 1:
        shapes = " and ".join(f"{name} {counts.shape}" for name, counts in both.items())
        raise InputError(f"{shapes} must share their last two axes (tasks, attributes).")
    # Attributes first: they are few, and sums along a long last axis are many times faster.
    training, generated = (np.ascontiguousarray(np.moveaxis(c, -1, 0)) for c in broadcast(**both))
    by_task, by_attribute = training.sum(axis=0), training.sum(axis=-1, keepdims=True)
    # P(a, t) > P(a) P(t) with the total multiplied out: exact for whole counts.
    associated = training * by_attribute.sum(axis=0) > by_task * by_attribute
    margin = -1 if direction == "A->T" else 0
    after, before = (ratio(n, n.sum(axis=margin, keepdims=True)) for n in (generated, training))
    cells = np.where(associated, after - before, before - after)
    value, n = mean_where(cells, ~np.isnan(cells), (0, -1))
    return BiasAmp(value, n, len(cells) * cells.shape[-1] - n)


def percent_female_bounds(n_female, n_male, n_missing) -> Bounds:
    """Return the least and greatest percentage female that missing images allow (Manski 1989, without assumptions).

    Of f images perceived as female, m as male and u that could not be looked at: ``100 f / (f + m + u)`` and ``100 (f +
    u) / (f + m + u)``. The counts broadcast; NaN stays NaN, and is what no image at all gives. Raises InputError for
    negative counts, fractions, or shapes that do not broadcast.
    """
    counts = {"n_female": n_female, "n_male": n_male, "n_missing": n_missing}
    f, m, u = arrays = broadcast(0, **counts)
    for name, values in zip(counts, arrays, strict=True):
        if (part := values[values % 1 > 0]).size:
            raise InputError(f"{name} holds {part[0]:g}; it counts images, so it must be a whole number.")
    return Bounds(100 * ratio(f, f + m + u), 100 * ratio(f + u, f + m + u))


def expected_amplification_bounds(
    percent_generated, training_low, training_high, definition: str = "published"
) -> Bounds:
    """Return the least and greatest expected amplification that bounds of the training shares allow.

    Each occupation's training share may lie anywhere within its bounds (:func:`percent_female_bounds`, 0–100),
    independently of the others, so one that may or may not count is counted where that makes the mean smaller (lower
    bound) or greater (upper one). The three percentages broadcast; an occupation with NaN is left out. A limit at a
    training share of exactly 50 is approached and not reached. Returns points, of the input's shape without its last
    axis, the occupations; NaN where none can count. Raises as :func:`expected_amplification`, and InputError for lower
    bounds above upper ones.
    """
    shares = {"percent_generated": percent_generated, "training_low": training_low}
    g, low, high = broadcast(0, 100, **shares, training_high=training_high)
    if (low > high).any():
        raise InputError(
            f"training_low holds {low[low > high].flat[0]:g}, above its training_high; give the lower bound first."
        )
    check_axis(g, -1, "occupations")
    # Ends of each occupation's value, and whether it counts wherever its training share lies.
    known = ~np.isnan(g + low + high)
    values, always = [], known & (_definition(definition) == "no_exclusion")
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
    least, most = np.fmin.reduce(values), np.fmax.reduce(values)
    return Bounds(-_greatest_mean(-least, always), _greatest_mean(most, always))


def _greatest_mean(values: np.ndarray, always: np.ndarray) -> np.ndarray:
    """Return the greatest mean over the last axis of values that always count and any of the others; NaN of none."""
    total = np.where(always, values, 0.0).sum(axis=-1, keepdims=True)
    n = always.sum(axis=-1, keepdims=True)
    others = -np.sort(-np.where(always | np.isnan(values), -np.inf, values), axis=-1)
    there = np.isfinite(others)
    sums = np.concatenate([total, total + np.where(there, others, 0.0).cumsum(axis=-1)], axis=-1)
    counts = np.concatenate([n, n + there.cumsum(axis=-1)], axis=-1)
    return np.fmax.reduce(ratio(sums, counts), axis=-1)


def _percents(percent_generated, percent_training) -> list[np.ndarray]:
    return broadcast(0, 100, percent_generated=percent_generated, percent_training=percent_training)


def _definition(definition: str) -> str:
    return one_of(definition, DEFINITIONS, "definition of amplification")
