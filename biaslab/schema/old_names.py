"""Names of earlier versions, and the names that replaced them: one table, ``old_names.toml``, dropped at 0.2."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from biaslab.errors import InputError, ParameterError

SECTIONS = ("commands", "options", "settings", "parameters", "values", "columns")


@cache
def table(section: str) -> Mapping[str, str]:
    """Return the new names of one of :data:`SECTIONS` by the old ones."""
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return MappingProxyType(tomllib.loads(text)[section])


def check(section: str, names: Iterable[str], *, text: str = "{}") -> None:
    """Refuse old names.

    Args:
        section: The section of the table, one of :data:`SECTIONS`.
        names: Names that a user gave; names that are not in the table pass.
        text: How the error writes a name, such as ``biaslab {}`` for a command.

    Raises:
        ParameterError: One of the names is an old one; the error names the new one.
    """
    for name in names:
        if name in table(section):
            raise ParameterError(f"{text.format(name)} is now {text.format(table(section)[name])}.")


def check_columns(names: Iterable[str], known: Collection[str], where: str) -> None:
    """Refuse old names of the ``known`` columns of a file, where it lacks the new one.

    Args:
        names: Names of the file's columns; other names pass.
        known: The columns that are read.
        where: What an error calls the file.

    Raises:
        InputError: A column has its old name; the error names the new one.
    """
    names = list(names)
    for name in names:
        new = table("columns").get(name, "")
        if name not in known and new in known and new not in names:
            raise InputError(f"{where}: the column {name} is now {new}; rename it.")
