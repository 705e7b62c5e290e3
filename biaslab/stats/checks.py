"""Checks of arguments, whose errors state the value, the rule and the fix, and division by counts that may be 0."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from biaslab.errors import InputError, name_help, unknown_name

P = ParamSpec("P")
T = TypeVar("T")


def align(axes: Sequence[int] = (0, 1), /, **arrays: Any) -> list[Any]:
    """Return the named arrays, with every pandas object reordered to match the labels of the first pandas object.

    ``axes`` are the axes that the arrays have in common: 0 for rows, 1 for columns. Objects without labels, such as
    NumPy arrays and lists, are matched by position.

    Raises InputError: Two pandas objects have different labels, or labels in different order are not unique.
    """
    for axis in axes:
        names = [name for name, a in arrays.items() if isinstance(a, (pd.Series, pd.DataFrame)) and a.ndim > axis]
        for name in names[1:]:
            order, labels = arrays[names[0]].axes[axis], arrays[name].axes[axis]
            if labels.equals(order):
                continue
            unique = labels.is_unique and order.is_unique and len(labels) == len(order)
            places = labels.get_indexer(order) if unique else np.array([-1])
            if (places < 0).any():
                raise InputError(
                    f"{names[0]} and {name} have different labels in their {'columns' if axis else 'index'}: "
                    f"{list(order[:3])} and {list(labels[:3])} come first. Use the same unique labels in both, or "
                    "pass arrays (.to_numpy()) to match them by position."
                )
            arrays[name] = arrays[name].take(places, axis=axis)
    return list(arrays.values())


def keep_labels(function: Callable[P, T]) -> Callable[P, T]:
    """Return an elementwise function whose result has the labels of the first pandas object among its arguments.

    An array with the shape of this object becomes a Series or DataFrame with the same labels; an array with one value
    per row of a DataFrame becomes a Series. In tuples, each array is converted. Without a pandas object, results remain
    arrays.
    """

    parameters = signature(function)

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        result = function(*args, **kwargs)
        # In the order of the parameters, in which :func:`align` matches them, too.
        arguments = parameters.bind(*args, **kwargs).arguments.values()
        like = next((value for value in arguments if isinstance(value, (pd.Series, pd.DataFrame))), None)
        return result if like is None else _attach_labels(result, like)

    return wrapper


def _attach_labels(result: Any, like: pd.Series | pd.DataFrame) -> Any:
    if isinstance(result, tuple):
        return getattr(type(result), "_make", tuple)(_attach_labels(item, like) for item in result)
    if isinstance(result, np.ndarray) and result.shape == like.shape[: result.ndim] and result.ndim:
        labels = dict(zip(("index", "columns"), like.axes[: result.ndim], strict=False))
        return (pd.Series if result.ndim == 1 else pd.DataFrame)(result, **labels)
    return result


def check_numbers(values: ArrayLike, name: str, low: float = -np.inf, high: float = np.inf) -> NDArray[np.float64]:
    """Return ``values`` (any shape) as floats, checked to be from ``low`` to ``high`` up to rounding (1e-9).

    None becomes NaN. Raises InputError: A value is text, infinite or outside the limits.
    """
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O":
            # astype would read the text "50" as a number
            if any(isinstance(value, str) for value in array.flat):
                raise TypeError
            array = np.where(pd.isna(array), np.nan, array)
        elif array.dtype.kind not in "biuf":
            raise TypeError
        array = array.astype(float)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be numbers (missing ones NaN), got {values!r:.80}.") from None
    is_invalid = np.isinf(array) | (array < low - 1e-9) | (array > high + 1e-9)
    if is_invalid.any():
        span = f"{low:g} or more" if np.isinf(high) else f"{low:g} to {high:g}"
        allowed_range = "a finite number" if np.isinf(low) else span
        raise InputError(f"{name} contains {array[is_invalid].flat[0]:g}; it must be {allowed_range}, or NaN.")
    return array


def broadcast(low: float = -np.inf, high: float = np.inf, /, **arrays: ArrayLike) -> list[NDArray[np.float64]]:
    """Return the named arrays, aligned (:func:`align`), checked (:func:`check_numbers`) and broadcast together.

    Raises InputError: As :func:`check_numbers` and :func:`align`, or shapes that do not broadcast.
    """
    named_arrays = zip(arrays, align(**arrays), strict=True)
    checked = {name: check_numbers(values, name, low, high) for name, values in named_arrays}
    try:
        return list(np.broadcast_arrays(*checked.values()))
    except ValueError:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in checked.items())
        raise InputError(f"These shapes do not match: {shapes}. Pass arrays that can be broadcast.") from None


def check_sample(values: ArrayLike, name: str, skip_nan: bool = False) -> NDArray[np.float64]:
    """Return ``values`` as a one-dimensional float array without NaN.

    With ``skip_nan``, NaN are removed. Raises InputError: As :func:`check_numbers`, the array is not one-dimensional,
    or there are NaN and ``skip_nan`` is false.
    """
    flat = check_numbers(values, name)
    if flat.ndim != 1:
        raise InputError(f"{name} must be one-dimensional, got shape {flat.shape}.")
    is_missing = np.isnan(flat)
    if is_missing.any() and not skip_nan:
        raise InputError(
            f"{name} contains {is_missing.sum()} NaN among {flat.size} values; pass skip_nan=True to ignore them."
        )
    return flat[~is_missing]


def constant(values: np.ndarray) -> bool:
    """Return whether the one-dimensional ``values`` are equal up to rounding."""
    return bool(np.ptp(values) <= 1e-12 * np.abs(values).max())


def check_whole(values: ArrayLike, name: str, minimum: int = 0) -> NDArray[np.int64]:
    """Return ``values`` (any shape) as integers, checked to be at least ``minimum``.

    Raises InputError: As :func:`check_numbers`, or a value is a fraction, NaN or below ``minimum``.
    """
    array = check_numbers(values, name)
    is_invalid = ~((array == np.floor(array)) & (array >= minimum))
    if is_invalid.any():
        raise InputError(f"{name} must be whole numbers of at least {minimum}, got {array[is_invalid].flat[0]:g}.")
    return array.astype(np.int64)


def check_counts(count: ArrayLike, n: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return ``count`` and ``n`` as integers of the same shape, with 0 <= count <= n; both are 0 if either is NaN.

    Raises InputError: A value is negative or a fraction, a count is above n, or the shapes do not broadcast.
    """
    count, n = broadcast(count=count, n=n)
    is_known = ~(np.isnan(count) | np.isnan(n))
    count, n = check_whole(np.where(is_known, count, 0), "count"), check_whole(np.where(is_known, n, 0), "n")
    is_too_large = count > n
    if is_too_large.any():
        raise InputError(f"count must not exceed n, got {count[is_too_large].flat[0]} of {n[is_too_large].flat[0]}.")
    return count, n


def check_shares(values: ArrayLike, name: str, allow_nan: bool = False) -> NDArray[np.float64]:
    """Return ``values`` (any shape) as a float array, checked to be shares (0–1).

    Raises InputError: A value is outside 0–1, or NaN without ``allow_nan``.
    """
    array = check_numbers(values, name, 0, 1)
    if not allow_nan and np.isnan(array).any():
        raise InputError(f"{name} contains NaN; it must contain shares from 0 to 1.")
    return array


def confidence_level(confidence: float) -> float:
    """Return ``confidence`` if it is strictly between 0 and 1. Raises InputError: It is not."""
    if np.ndim(confidence) or not 0 < confidence < 1:
        raise InputError(f"confidence must be between 0 and 1, for example 0.95, got {confidence!r}.")
    return float(confidence)


def replicate_count(replicates: int) -> int:
    """Return ``replicates`` if it is a single whole number of at least 2. Raises InputError: It is not."""
    if np.ndim(replicates):
        raise InputError(f"replicates must be a whole number, got {replicates!r:.80}.")
    return int(check_whole(replicates, "replicates", minimum=2))


def generator(seed: int | np.random.Generator) -> np.random.Generator:
    """Return the generator of an explicit ``seed``, without which a result could not be reproduced.

    Raises InputError: ``seed`` is None, or not a whole number of at least 0.
    """
    if isinstance(seed, np.random.Generator):
        return seed
    if seed is None or isinstance(seed, bool) or np.ndim(seed):
        raise InputError("seed must be a whole number, for example seed=0, so that results are reproducible.")
    return np.random.default_rng(int(check_whole(seed, "seed")))


def check_columns(table: pd.DataFrame, names: Iterable[str]) -> None:
    """Raise InputError for the first of the columns ``names`` that a table lacks; the error lists similar names."""
    for name in names:
        if name not in table:
            raise InputError(f"The table has no column {name!r}. {name_help(name, map(str, table))}")


def one_of(name: str, choices: Collection[str], kind: str) -> str:
    """Return ``name`` if it is in ``choices``. Raises UnknownNameError: It is not."""
    if name not in choices:
        raise unknown_name(kind, name, choices)
    return name


def label_codes(values: ArrayLike, labels: Sequence[str]) -> NDArray[np.intp]:
    """Return each value's position in ``labels``, or -1 if it is not one of them, in the shape of ``values``."""
    array = np.asarray(values, dtype=object)
    codes = pd.Index(list(labels), dtype=object).get_indexer(pd.Index(array.ravel(), dtype=object))
    return codes.reshape(array.shape)


def ratio(numerator: ArrayLike, denominator: ArrayLike) -> NDArray[np.float64]:
    """Divide elementwise; the result is NaN if the denominator is 0."""
    numerator, denominator = align(numerator=numerator, denominator=denominator)
    top, bottom = np.broadcast_arrays(np.asarray(numerator, float), np.asarray(denominator, float))
    return np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom != 0)[()]


def mean_where(
    values: np.ndarray, mask: np.ndarray, axis: int | tuple[int, ...]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the mean over ``axis`` of the values for which ``mask`` is true (NaN without any), and their number."""
    n = mask.sum(axis=axis)
    return ratio(np.where(mask, values, 0.0).sum(axis=axis), n), n
