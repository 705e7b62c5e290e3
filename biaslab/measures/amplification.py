"""Bias amplification from training to generated images (paradox, section 3.3).

T is the percentage female in an occupation's training images, G in its generated images, both 0–100 points.
A share below 50 leans male, one above 50 leans female, and one of exactly 50 leans nowhere; so give unrounded
shares where there are any.

How the definitions relate: Zhao et al. (2017) average, over the occupations, the change in the share of the
gender that is over-represented in training. For two genders that is the signed change along the training
lean, our ``directional``. Where training and generation lean the same way it equals ``|G-50| - |T-50|``, the
paradox paper's formula. So the three definitions differ only for occupations whose lean flips or is nowhere:
the published rule leaves them out, ``no_exclusion`` counts a flip as no more than its change in distance from
50, ``directional`` counts it as the fall it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from biaslab.ground.errors import InputError, unknown_name
from biaslab.measures.checks import broadcast, check_axis, mean_where, numbers, ratio

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


def amplification(percent_generated, percent_training) -> np.ndarray:
    """Return ``|G-50| - |T-50|`` elementwise, in percentage points (-50..50).

    Both arguments are 0–100 and broadcast; NaN stays NaN. Source: paradox, section 3.3, first equation.
    Raises InputError for a percentage outside 0–100 or shapes that do not broadcast.
    """
    g, t = _percents(percent_generated, percent_training)
    return np.abs(g - 50) - np.abs(t - 50)


def lean(percent_female) -> np.ndarray:
    """Return each percentage's lean: -1.0 male, 0.0 none (exactly 50), 1.0 female; NaN stays NaN."""
    return np.sign(numbers("percent_female", percent_female, 0, 100) - 50)


def directional_amplification(percent_generated, percent_training) -> np.ndarray:
    """Return ``sign(T-50) * (G-T)`` elementwise: the change along the training lean, in points (-100..50).

    NaN where T is exactly 50 (there is no lean to follow) or either share is missing. Arguments and errors as
    in :func:`amplification`. Source: Zhao et al. 2017, for two genders (see the module's first lines).
    """
    g, t = _percents(percent_generated, percent_training)
    return np.where(t == 50, np.nan, np.sign(t - 50) * (g - t))[()]


def exclusion_reason(percent_generated, percent_training, definition: str = "published") -> np.ndarray:
    """Say why each occupation is left out of the expected amplification; "" where it counts.

    The first that applies of :data:`EXCLUSION_REASONS`, as text of the broadcast shape. ``no_exclusion`` leaves out
    only missing ones, ``directional`` those and ``training_at_50``. Arguments and errors as in
    :func:`expected_amplification`.
    """
    check_definition(definition)
    g, t = _percents(percent_generated, percent_training)
    conditions = [np.isnan(g) | np.isnan(t), t == 50, g == 50, np.sign(g - 50) != np.sign(t - 50)]
    n = {"no_exclusion": 1, "directional": 2, "published": 4}[definition]
    return np.select(conditions[:n], EXCLUSION_REASONS[:n], default="")


def expected_amplification(
    percent_generated, percent_training, definition: str = "published", axis: int = -1
) -> Expected:
    """Return the mean amplification over occupations, with counts (paradox, section 3.3, 2nd equation).

    Args:
        percent_generated: Percentages, 0–100.
        percent_training: The same; both broadcast, and NaN leaves an occupation out (reason ``missing``).
        definition: ``published``: ``|G-50| - |T-50|`` where training and generation lean the same way; a share of
            exactly 50 leans nowhere and is left out. ``no_exclusion``: the same over all occupations.
            ``directional``: the signed change along the training lean over all occupations that have one.
        axis: Of the broadcast shape, over the occupations; all others are kept (bootstrap replicates, prompts), each
            with the occupations that count there.

    Raises:
        UnknownNameError: For another definition.
        InputError: For a percentage outside 0–100, shapes that do not broadcast, or scalars.
    """
    check_definition(definition)
    g, t = _percents(percent_generated, percent_training)
    check_axis(g, axis, "occupations")
    if definition == "directional":
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

    ``occupations`` names the entries of the two percentages (0–100, one axis, same length). Returns one row
    per reason of ``EXCLUSION_REASONS``, zero counts too: ``reason``, ``n``, ``occupations`` (names joined by
    "; "). Raises InputError where the lengths differ, and as :func:`exclusion_reason`.
    """
    names = np.asarray(occupations, dtype=object)
    reasons = np.atleast_1d(exclusion_reason(percent_generated, percent_training, definition))
    if names.shape != reasons.shape or names.ndim != 1:
        raise InputError(f"occupations {names.shape} and percentages {reasons.shape} must be of one length.")
    found = [names[reasons == reason].astype(str) for reason in EXCLUSION_REASONS]
    rows = [(reason, len(of), "; ".join(of)) for reason, of in zip(EXCLUSION_REASONS, found, strict=True)]
    return pd.DataFrame(rows, columns=["reason", "n", "occupations"])


def bias_amp(training_counts, generated_counts, direction: str) -> BiasAmp:
    """Return directional bias amplification, BiasAmp→ (Wang & Russakovsky 2021, section 4).

    With A attributes (perceived genders) and T tasks (occupations)::

        BiasAmp = 1/(|A||T|) * sum over a, t of  y_at * D_at + (1 - y_at) * (-D_at)
        y_at    = 1 where, in training, P(a, t) > P(a) P(t), else 0
        D_at    = P_generated(t | a) - P_training(t | a)     for "A->T"
        D_at    = P_generated(a | t) - P_training(a | t)     for "T->A"

    Positive: associations of training grow. ``A->T`` conditions on the attribute's margin, so it changes with
    how many images each occupation has; where the auditor chose that number, read ``T->A``, which conditions
    on the occupation's margin and asks who is shown for it. Unlike the paradox paper's measure,
    "over-represented" means more than the attribute's overall share, not more than one half.

    Counts are images by occupation and perceived gender, (..., tasks, attributes); one image counts once, and leading
    axes (bootstrap replicates) broadcast. A cell whose conditioning margin is empty in training or in generation has no
    D_at: it is left out of the mean and counted in ``n_excluded``.

    Raises:
        UnknownNameError: For another direction than ``A->T`` and ``T->A``.
        InputError: For negative or missing counts, fewer than two axes, or different tables.
    """
    if direction not in DIRECTIONS:
        raise unknown_name("direction of bias amplification", direction, DIRECTIONS)
    given = {"training_counts": training_counts, "generated_counts": generated_counts}
    both = {name: numbers(name, values, low=0) for name, values in given.items()}
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
    given = -1 if direction == "A->T" else 0
    after, before = (ratio(n, n.sum(axis=given, keepdims=True)) for n in (generated, training))
    change = after - before
    cells = np.where(associated, change, -change)
    value, n = mean_where(cells, ~np.isnan(cells), (0, -1))
    return BiasAmp(value, n, len(cells) * cells.shape[-1] - n)


def _percents(percent_generated, percent_training) -> list[np.ndarray]:
    return broadcast(0, 100, percent_generated=percent_generated, percent_training=percent_training)


def check_definition(definition: str) -> None:
    """Raise UnknownNameError for what is not one of ``DEFINITIONS``."""
    if definition not in DEFINITIONS:
        raise unknown_name("definition of amplification", definition, DEFINITIONS)
