"""Names of text-to-image models with LoRAs on them: ``NAME+LORA``, ``NAME+LORA:0.8+OTHER:0.5``, ``NAME+none``.

A LoRA is a file of safetensors, a folder that holds one, or a name on the hub; ``:0.8`` is its weight, else 1. ``none``
leaves out one that is next to the model. What is there as a file or folder goes before: a plus in its path parts
nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import NamedTuple

from biaslab import plugins
from biaslab.errors import ParameterError

NONE = "none"
_WEIGHT = re.compile(r"(.*):([+-]?(?:\d+\.?\d*|\.\d+))", re.DOTALL)
# What begins names of another kind, such as endpoint:NAME; a drive has one letter.
_KIND = re.compile(r"[A-Za-z][\w.-]+:")
_MOST = 10


class Adapter(NamedTuple):
    """A LoRA, and how strong it is."""

    name: str
    weight: float = 1.0

    def __str__(self) -> str:
        return self.name if self.weight == 1 else f"{self.name}:{self.weight:g}"


class ModelName(NamedTuple):
    """What a name says: the model's own name, LoRAs, and whether one next to the model is left out."""

    base: str
    adapters: tuple[Adapter, ...] = ()
    removes_adapters: bool = False

    def __str__(self) -> str:
        return "+".join([self.base, *[NONE] * self.removes_adapters, *map(str, self.adapters)])

    @property
    def names(self) -> tuple[str, ...]:
        """The names in it."""
        return (self.base, *(one.name for one in self.adapters))

    def map_names(self, work: Callable[[str], str]) -> ModelName:
        """Return it with what ``work`` makes of each name in it."""
        adapters = tuple(one._replace(name=work(one.name)) for one in self.adapters)
        return self._replace(base=work(self.base), adapters=adapters)


def split(name: str) -> ModelName:
    """Return what a name says; whether it names something that is there is not examined."""
    if not isinstance(name, str) or "+" not in name or _KIND.match(name):
        return ModelName(name)
    if _exists(name) or name in plugins.entry_points(plugins.MODELS):
        return ModelName(name)
    parts, names = name.split("+"), []
    while parts:
        lengths = range(len(parts), 1, -1)
        n = next((n for n in lengths if _exists(_adapter("+".join(parts[:n])).name)), 1)
        names.append("+".join(parts[:n]))
        parts = parts[n:]
    base, *others = names
    return ModelName(base, tuple(_adapter(one) for one in others if one != NONE), NONE in others)


def check(name: ModelName) -> None:
    """Raise ParameterError where an adapter has no name, is named twice, or has a weight that nobody means."""
    names = [one.name for one in name.adapters]
    for one in name.adapters:
        if not one.name:
            raise ParameterError(f"{name} names no LoRA after its '+'. Write NAME+LORA.")
        if not 0 < abs(one.weight) <= _MOST:
            raise ParameterError(
                f"{name} gives {one.name} the weight {one.weight:g}; it must be between -{_MOST} and "
                f"{_MOST}, and not 0. Leave a LoRA that is to have no part out of the name."
            )
        if names.count(one.name) > 1:
            raise ParameterError(f"{name} names {one.name} twice; name it once, with its weight.")


def base(name: str) -> str:
    """Return the model's own name, without LoRAs."""
    return split(name).base


def _adapter(text: str) -> Adapter:
    found = None if _exists(text) else _WEIGHT.fullmatch(text)
    return Adapter(found[1], float(found[2])) if found else Adapter(text)


def _exists(name: str) -> bool:
    return os.path.exists(os.path.expanduser(name))
