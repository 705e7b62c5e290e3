"""Checks that the statistics share: what is not usable is refused with the value, the rule and the fix."""

from __future__ import annotations

import numpy as np

from biaslab.ground.errors import InputError, unknown_name


def numbers(values, name: str) -> np.ndarray:
    """Return ``values`` (array-like or pandas Series) as a float array; text is refused."""
    try:
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be numbers (missing ones NaN), got {values!r:.80}.") from None


def sample(values, name: str, skip_nan: bool = False) -> np.ndarray:
    """Return ``values`` as a flat float array without NaN: refused, or left out with ``skip_nan``."""
    flat = numbers(values, name)
    if flat.ndim != 1:
        raise InputError(f"{name} must be one-dimensional, got shape {flat.shape}.")
    missing = np.isnan(flat)
    if missing.any() and not skip_nan:
        raise InputError(
            f"{name} has {missing.sum()} NaN of {flat.size}; pass skip_nan=True to leave them out."
        )
    if np.isinf(flat).any():
        raise InputError(f"{name} must be finite, got an infinite value.")
    return flat[~missing]


def constant(values: np.ndarray) -> bool:
    """Say whether ``values`` differ by no more than rounding does."""
    return bool(np.ptp(values) <= 1e-12 * np.abs(values).max())


def whole(values, name: str, least: int = 0) -> np.ndarray:
    """Return ``values`` as an integer array of at least ``least``; fractions and NaN are refused."""
    given = numbers(values, name)
    bad = ~(np.isfinite(given) & (given == np.floor(given)) & (given >= least))
    if bad.any():
        raise InputError(f"{name} must be whole numbers of at least {least}, got {given[bad].flat[0]:g}.")
    return given.astype(np.int64)


def counts(count, n) -> tuple[np.ndarray, np.ndarray]:
    """Return ``count`` of ``n`` as integer arrays of one common shape, with 0 <= count <= n.

    Where either is NaN nothing was counted: 0 of 0.
    """
    count, n = numbers(count, "count"), numbers(n, "n")
    try:
        count, n = np.broadcast_arrays(count, n)
    except ValueError:
        raise InputError(f"count and n must fit together, got shapes {count.shape} and {n.shape}.") from None
    known = ~(np.isnan(count) | np.isnan(n))
    count, n = whole(np.where(known, count, 0), "count"), whole(np.where(known, n, 0), "n")
    over = count > n
    if over.any():
        raise InputError(f"count must not exceed n, got {count[over].flat[0]} of {n[over].flat[0]}.")
    return count, n


def shares(values, name: str, allow_nan: bool = False) -> np.ndarray:
    """Return ``values`` as a float array of shares 0–1."""
    given = numbers(values, name)
    bad = ~((given >= 0) & (given <= 1)) & ~(np.isnan(given) & allow_nan)
    if bad.any():
        raise InputError(
            f"{name} must lie between 0 and 1 (shares, not percent), got {given[bad].flat[0]:g}."
        )
    return given


def confidence_level(confidence: float) -> float:
    """Return ``confidence`` if it lies strictly between 0 and 1."""
    if np.ndim(confidence) or not 0 < confidence < 1:
        raise InputError(f"confidence must lie between 0 and 1, for example 0.95, got {confidence!r}.")
    return float(confidence)


def replicate_count(replicates: int) -> int:
    """Return ``replicates`` if it is one whole number of at least 2."""
    if np.ndim(replicates):
        raise InputError(f"replicates must be one whole number, got {replicates!r:.80}.")
    return int(whole(replicates, "replicates", least=2))


def generator(seed) -> np.random.Generator:
    """Return the generator of one explicit ``seed``; without one a result could not be repeated."""
    if seed is None or isinstance(seed, bool) or np.ndim(seed):
        raise InputError("seed must be given as a whole number, for example seed=0, so that results repeat.")
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(int(whole(seed, "seed")))


def one_of(name: str, known, kind: str) -> str:
    """Return ``name`` if it is in ``known``."""
    if name not in known:
        raise unknown_name(kind, name, known)
    return name
