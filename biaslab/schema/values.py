"""Checks of plain values from outside, such as those of a parameters file, for all readers."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping
from numbers import Integral
from typing import Any

from biaslab.errors import ParameterError

# Maximum nesting of mappings and lists, and number of values: far more than any parameter has.
MAX_DEPTH, MAX_VALUES = 20, 100_000
# Whole numbers that every library and file format here can hold.
MAX_INTEGER = 2**63 - 1
# Null bytes and surrogates (halves of characters), which no path or file can contain.
_UNUSABLE = re.compile("[\0\ud800-\udfff]")


def check(name: str, value: Any) -> None:
    """Check that a value, which an error calls ``name``, has only types that parameters may have, at any depth.

    Allowed are texts, true and false, null, whole numbers of up to 64 bits, finite numbers, and lists and mappings of
    these whose keys are texts. Raises ParameterError for anything else; the message gives its location.
    """
    todo = [(name, value, 0)]
    for n in itertools.count():
        if not todo:
            return
        name, value, depth = todo.pop()
        if n == MAX_VALUES:
            raise ParameterError(f"{name} exceeds the maximum of {MAX_VALUES:,} values; specify fewer values.")
        if isinstance(value, Mapping | list | tuple) and depth == MAX_DEPTH:
            raise ParameterError(
                f"{name[:100]} is nested more than {MAX_DEPTH} mappings or lists deep, which no parameter needs."
            )
        if isinstance(value, Mapping):
            for key in value:
                check_key(name, key)
                todo += [(f"{name}.{key[:60]}", value[key], depth + 1), (f"a key of {name}", key, depth)]
        elif isinstance(value, list | tuple):
            todo += [(name, inner, depth + 1) for inner in reversed(value)]
        elif isinstance(value, str) and _UNUSABLE.search(value):
            raise ParameterError(
                f"{name} is {value[:60]!a}, which contains a null byte or half a character; remove it."
            )
        elif isinstance(value, int) and abs(value) > MAX_INTEGER:
            # Python cannot format integers of more than 4,300 digits.
            raise ParameterError(f"{name} is a whole number outside the range {-MAX_INTEGER} to {MAX_INTEGER}.")
        elif isinstance(value, float) and not math.isfinite(value):
            raise ParameterError(f"{name} is {value}; a number must be finite, such as 0.5.")


def check_key(name: str, key: Any) -> None:
    """Check that a key of a mapping, which an error calls ``name``, is a text. Raises ParameterError for others."""
    if not isinstance(key, str):
        # Python cannot format integers of more than 4,300 digits.
        key_text = "a whole number" if isinstance(key, int) and abs(key) > MAX_INTEGER else f"{key!r:.60}"
        raise ParameterError(f"{name} has the key {key_text}, which must be a string; put it in quotation marks.")


def flatten(groups: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a mapping of groups under dotted names: ``{"a": {"b": 1}}`` is ``{"a.b": 1}``."""
    values: dict[str, Any] = {}
    for name, value in groups.items():
        values |= {f"{name}.{k}": v for k, v in value.items()} if isinstance(value, Mapping) else {name: value}
    return values


def check_draws(*, seed: Any = 0, bootstrap_replicates: Any = 10_000, confidence: Any = 0.95) -> None:
    """Check the parameters of random draws and intervals. Raises ParameterError for wrong types or values."""
    for name, value, low, high, usual in (
        ("seed", seed, 0, MAX_INTEGER, 20231),
        ("bootstrap_replicates", bootstrap_replicates, 100, 1_000_000, 10_000),
    ):
        check(name, value)
        if not isinstance(value, Integral) or isinstance(value, bool) or not low <= int(value) <= high:
            raise ParameterError(
                f"{name} is {value!r}; it must be a whole number from {low} to {high}, for example {usual}."
            )
    if not isinstance(confidence, int | float) or not 0 < confidence < 1:
        raise ParameterError(f"confidence is {confidence!r}; it must be between 0 and 1, for example 0.95.")
