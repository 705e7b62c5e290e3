"""Names of earlier versions: each is an error that gives the name that replaces it, until version 0.2.

``old_names.yaml`` is the one table of them, by kind: ``commands``, ``options``, ``settings``, ``parameters``,
``values``, ``columns`` and ``environment``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

from biaslab.errors import ParameterError


@cache
def table() -> Mapping[str, Mapping[str, str]]:
    """Return all old names with their new ones, by kind."""
    import yaml

    text = (resources.files(__package__) / "old_names.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)


def replacement(section: str, name: str) -> str | None:
    """Return the name that replaces an old one of a kind, one of :func:`table`; None where the name is not old."""
    return table()[section].get(name)


def message(section: str, name: str, where: str = "") -> str | None:
    """Return the error for an old name in ``where``, such as a file; None where the name is not old."""
    new = replacement(section, name)
    return new and f"{name} is now {new}: rename it{where and f' in {where}'}."


def check(section: str, names: Iterable[str], where: str = "") -> None:
    """Raise a ParameterError with all old names among ``names``, which are those in ``where``."""
    if found := [text for name in names if (text := message(section, name, where))]:
        raise ParameterError(" ".join(dict.fromkeys(found)))


def settings_of(given: Any) -> Iterator[str]:
    """Yield the dotted names of settings in a mapping of groups, in each of a list of them, and of single models."""
    if isinstance(given, list | tuple):
        for one in given:
            yield from settings_of(one)
    elif isinstance(given, Mapping):
        yield from _names({key: value for key, value in given.items() if key != "models"})
        models = given.get("models")
        for one in models.values() if isinstance(models, Mapping) else ():
            yield from settings_of(one)


def _names(given: Mapping[Any, Any], prefix: str = "") -> Iterator[str]:
    for key, value in given.items():
        if isinstance(value, Mapping) and value:
            yield from _names(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"
