"""Names of earlier versions: until version 0.2, each raises an error with the name that replaces it.

``old_names.toml`` is the only table of them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from biaslab.errors import InputError, ParameterError

SECTIONS = ("commands", "options", "settings", "parameters", "values", "columns", "environment")


@cache
def table(section: str) -> Mapping[str, str]:
    """Return the new names by old name for one of :data:`SECTIONS`."""
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return MappingProxyType(tomllib.loads(text)[section])


def replacement(section: str, name: str) -> str | None:
    """Return the name that replaces an old one of a section; None where the name is not old."""
    return table(section).get(name)


def message(section: str, name: str, where: str = "", *, text: str = "{}") -> str | None:
    """Return the error for a name of a section; None where the name is not old.

    Args:
        section: One of :data:`SECTIONS`.
        name: A name that a user gave.
        where: The file or option that contains it; empty for a name on the command line.
        text: How the error writes a name, such as ``biaslab {}`` for a command.
    """
    new = replacement(section, name)
    return new and f"{text.format(name)} is now {text.format(new)}{where and f'; rename it in {where}'}."


def check(section: str, names: Iterable[str], where: str = "", *, text: str = "{}") -> None:
    """Raise a ParameterError that gives the new names of all old ones among ``names``; see :func:`message`."""
    messages = [error for name in names if (error := message(section, name, where, text=text))]
    if messages:
        raise ParameterError(" ".join(dict.fromkeys(messages)))


def check_columns(names: Iterable[str], columns: Collection[str], where: str) -> None:
    """Refuse old names of ``columns`` in a file that lacks the new names.

    Args:
        names: Names of the file's columns; other names pass.
        columns: The columns that are read.
        where: Name of the file in errors.

    Raises:
        InputError: A column has its old name; the error names the new one.
    """
    names = list(names)
    for name in names:
        new = table("columns").get(name, "")
        if name not in columns and new in columns and new not in names:
            raise InputError(f"{where}: the column {name} is now {new}; rename it.")


def setting_names(settings: Any) -> Iterator[str]:
    """Yield the dotted names of settings in a mapping of groups, or in a list of such mappings, also for models."""
    if isinstance(settings, list | tuple):
        for variant in settings:
            yield from setting_names(variant)
    elif isinstance(settings, Mapping):
        yield from _dotted_names({key: value for key, value in settings.items() if key != "models"})
        models = settings.get("models")
        for variant in models.values() if isinstance(models, Mapping) else ():
            yield from setting_names(variant)


def _dotted_names(settings: Mapping[Any, Any], prefix: str = "") -> Iterator[str]:
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from _dotted_names(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"
