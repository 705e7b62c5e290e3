"""Where work runs: one parameter, ``engine``. A stage hands over a function and does not know which it is.

An engine has one method, ``map(function, items)``: an iterator over ``function(item)`` in the order of ``items``.
The function and the items must be picklable for engines beyond this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from biaslab.errors import ParameterError, name_help


class Engine(Protocol):
    """What every engine does."""

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Yield ``function(item)`` for each item, in order; an error of the function ends the iteration."""


class LocalEngine:
    """Runs in this process, one item after the other, each only when its result is asked for."""

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Yield ``function(item)`` for each item, in order."""
        return map(function, items)


# Engines by name; each value makes one.
ENGINES: dict[str, Callable[[], Engine]] = {"local": LocalEngine}


def get(name: str = "local") -> Engine:
    """Return the engine called ``name``.

    Raises:
        ParameterError: There is no such engine.
    """
    if name not in ENGINES:
        raise ParameterError(f"engine is {name!r}, which does not exist. {name_help(name, ENGINES)}")
    return ENGINES[name]()
