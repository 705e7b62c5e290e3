"""Input checks that the measures share."""

from __future__ import annotations

import numpy as np
import pandas as pd

from biaslab.ground.errors import InputError


def numbers(name: str, values, low: float = -np.inf, high: float = np.inf) -> np.ndarray:
    """Return ``values`` as floats between ``low`` and ``high``; None and NaN stay NaN.

    A rounding error of 1e-9 beyond a limit is let through. Raises InputError for text, infinities and values
    outside the limits.
    """
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O":
            # astype would read the text "50" as a number
            if any(isinstance(value, str) for value in array.flat):
                raise TypeError("it holds text")
            array = np.where(pd.isna(array), np.nan, array)
        elif array.dtype.kind not in "biuf":
            raise TypeError(f"it holds {array.dtype}")
        array = array.astype(float)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be an array of numbers; convert it first ({error}).") from error
    bad = np.isinf(array) | (array < low - 1e-9) | (array > high + 1e-9)
    if bad.any():
        span = f"{low:g} or more" if np.isinf(high) else f"{low:g} to {high:g}"
        allowed = "any finite number" if np.isinf(low) else span
        raise InputError(f"{name} holds {array[bad].flat[0]:g}; allowed is {allowed} or NaN.")
    return array


def check_axis(array: np.ndarray, axis: int, of: str) -> None:
    """Raise InputError where ``array`` has no ``axis`` (of, say, "occupations")."""
    if not -array.ndim <= axis < array.ndim:
        raise InputError(f"There is no axis {axis} of {of} in an array of shape {array.shape}.")


def broadcast(low: float = -np.inf, high: float = np.inf, /, **arrays) -> list[np.ndarray]:
    """Return the named arrays as floats between ``low`` and ``high`` (see :func:`numbers`), broadcast together.

    Raises InputError that names the shapes where they do not fit.
    """
    checked = {name: numbers(name, values, low, high) for name, values in arrays.items()}
    try:
        return list(np.broadcast_arrays(*checked.values()))
    except ValueError as error:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in checked.items())
        raise InputError(
            f"These shapes do not fit together: {shapes}. Give arrays that broadcast."
        ) from error


def label_codes(values, labels: tuple[str, ...]) -> np.ndarray:
    """Return each value's position in ``labels``, -1 where it is none of them; the shape is kept."""
    array = np.asarray(values, dtype=object)
    try:
        codes = pd.Index(labels, dtype=object).get_indexer(pd.Index(array.ravel(), dtype=object))
    except TypeError as error:
        raise InputError(f"Labels must be text or missing ({error}).") from error
    return codes.reshape(array.shape)


def mean_where(values: np.ndarray, kept: np.ndarray, axis) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of the kept values over ``axis`` (NaN where none is kept) and how many were kept."""
    n = kept.sum(axis=axis)
    total = np.where(kept, values, 0.0).sum(axis=axis)
    return ratio(total, n), n


def ratio(numerator, denominator) -> np.ndarray:
    """Divide elementwise; NaN where the denominator is 0."""
    top, bottom = np.broadcast_arrays(np.asarray(numerator, float), np.asarray(denominator, float))
    return np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom != 0)[()]
