"""Names of text-to-image models with LoRAs on them: ``NAME+LORA``, ``NAME+LORA:0.8+OTHER:0.5``, ``NAME+none``.

A LoRA is a file of safetensors, a folder that contains one, or a name on the hub; ``:0.8`` is its weight, by default 1.
``none`` excludes a LoRA next to the model. The path of an existing file or folder is not split at a plus.
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
# Prefix of other kinds of names, such as endpoint:NAME; drives have one letter.
_KIND = re.compile(r"[A-Za-z][\w.-]+:")
_MAX_WEIGHT = 10


class Adapter(NamedTuple):
    """A LoRA with its weight."""

    name: str
    weight: float = 1.0

    def __str__(self) -> str:
        return self.name if self.weight == 1 else f"{self.name}:{self.weight:g}"


class ModelName(NamedTuple):
    """Parts of a name: the model's own name, LoRAs, and whether a LoRA next to the model is excluded."""

    base: str
    adapters: tuple[Adapter, ...] = ()
    removes_adapters: bool = False

    def __str__(self) -> str:
        return "+".join([self.base, *[NONE] * self.removes_adapters, *map(str, self.adapters)])

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the model and of the LoRAs."""
        return (self.base, *(adapter.name for adapter in self.adapters))

    def map_names(self, work: Callable[[str], str]) -> ModelName:
        """Return the name with ``work`` applied to each of its names."""
        adapters = tuple(adapter._replace(name=work(adapter.name)) for adapter in self.adapters)
        return self._replace(base=work(self.base), adapters=adapters)


def split(name: str) -> ModelName:
    """Return the parts of a name; whether the model exists is not checked."""
    if not isinstance(name, str) or "+" not in name or _KIND.match(name):
        return ModelName(name)
    if _exists(name) or name in plugins.entry_points(plugins.MODELS):
        return ModelName(name)
    parts, names = name.split("+"), []
    while parts:
        lengths = range(len(parts), 1, -1)
        n = next((n for n in lengths if _exists(_parse_adapter("+".join(parts[:n])).name)), 1)
        names.append("+".join(parts[:n]))
        parts = parts[n:]
    base, *adapter_names = names
    return ModelName(base, tuple(_parse_adapter(text) for text in adapter_names if text != NONE), NONE in adapter_names)


def check(name: ModelName) -> None:
    """Raise ParameterError if an adapter has no name, is named twice, or has an implausible weight."""
    names = [adapter.name for adapter in name.adapters]
    for adapter in name.adapters:
        if not adapter.name:
            raise ParameterError(f"{name} has no LoRA after its '+'. Write NAME+LORA.")
        if not 0 < abs(adapter.weight) <= _MAX_WEIGHT:
            raise ParameterError(
                f"{name} gives {adapter.name} the weight {adapter.weight:g}; it must be between -{_MAX_WEIGHT} and "
                f"{_MAX_WEIGHT}, and not 0. To disable a LoRA, remove it from the name."
            )
        if names.count(adapter.name) > 1:
            raise ParameterError(f"{name} contains {adapter.name} twice; keep it once, with its weight.")


def base(name: str) -> str:
    """Return the model's own name, without LoRAs."""
    return split(name).base


def _parse_adapter(text: str) -> Adapter:
    match = None if _exists(text) else _WEIGHT.fullmatch(text)
    return Adapter(match[1], float(match[2])) if match else Adapter(text)


def _exists(name: str) -> bool:
    return os.path.exists(os.path.expanduser(name))
