"""All that can be set, as it is declared: for ``biaslab settings``, and the site's page of settings."""

from __future__ import annotations

import json
import shutil
import textwrap
import types
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from inspect import getdoc
from typing import Any, Literal, Union, get_args, get_origin

from biaslab import plugins
from biaslab.errors import UnknownNameError, name_help
from biaslab.hub import registry
from biaslab.schema import old_names
from biaslab.schema.groups import Group, Place, allowed_range, fields
from biaslab.schema.values import dotted
from biaslab.settings import Settings

_TYPES = {str: "text", int: "whole number", float: "number", bool: "true or false", dict: "mapping", Any: "any value"}


@dataclass(frozen=True)
class Declared:
    """A setting as it is declared."""

    name: str  # Dotted, as on the command line.
    kind: str  # What its values are, in words.
    default: str  # As YAML has it.
    limits: str  # Which numbers are allowed, with their unit, or the unit alone; may be empty.
    meaning: str  # What it decides, in a sentence.
    package_default: tuple[str, ...] = ()  # What installed packages give it, in words.

    @property
    def facts(self) -> str:
        """Kind, limits and default, in a line."""
        return "; ".join(filter(None, (self.kind, self.limits, f"default {self.default}")))


def find_declared(word: str = "") -> list[Declared]:
    """Return all settings in the order of their groups, or those that a ``word`` finds.

    It is a setting's or a group's name; else it stands in the names or in the sentences. An UnknownNameError names
    near matches where it finds nothing.
    """
    known = list(_all())
    wanted = word.strip().lower().removeprefix("settings.")
    if named := [one for one in known if f"{one.name}.".startswith(f"{wanted}.") or not wanted]:
        return named
    if found := [one for one in known if wanted in f"{one.name} {one.meaning}".lower()]:
        return found
    if new := old_names.replacement("settings", wanted):
        raise UnknownNameError(f"The setting {wanted} is now {new}.")
    near = name_help(wanted, [one.name.rpartition(".")[2] for one in known])
    raise UnknownNameError(f"No setting has {word!r} in its name or its sentence. {near}")


def groups() -> dict[str, str]:
    """Return what each group of settings decides, by its dotted name; the settings next to all groups under ''."""
    return dict(_groups(Settings)) | {"": "Baselines, and settings of single models."}


def lines(found: list[Declared]) -> Iterator[str]:
    """Yield lines that list settings, as wide as the terminal."""
    width = min(shutil.get_terminal_size((100, 24)).columns, 110)
    wrap = {"width": width, "initial_indent": "    ", "subsequent_indent": "    ", "break_on_hyphens": False}
    for one in found:
        yield f"{one.name}  ({one.facts})"
        yield from textwrap.wrap(one.meaning, **wrap)
        yield from (f"    {text}" for text in one.package_default)


def _all() -> Iterator[Declared]:
    brought = _brought()
    for name, known in fields(Settings):
        limits = allowed_range(known) or (known.json_schema_extra or {}).get("unit", "")
        default = json.dumps(known.default, ensure_ascii=False) if known.default != "" else "empty"
        place = next((m for m in known.metadata if isinstance(m, Place)), None)
        what = _kind(known.annotation)
        if place:
            what = what.replace("text", "path" if place.always and not place.words else "name or path")
        yield Declared(name, what, default, limits, known.description or "", tuple(brought.get(name, ())))


def _kind(annotation: Any) -> str:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return "one of " + ", ".join(f"`{value}`" if value else "empty" for value in inner)
    if origin is tuple:
        return f"list of {_kind(inner[0]).removeprefix('one of ')}" + "s" * (inner[0] in (str, float))
    if origin in (Union, types.UnionType):
        return " or ".join("null" if one is type(None) else _kind(one) for one in inner)
    if hasattr(annotation, "__metadata__"):
        return _kind(inner[0])
    return _TYPES[origin or annotation]


def _brought() -> dict[str, list[str]]:
    """Return what installed packages give settings, in words: values that go with their models, and names."""
    found: dict[str, list[str]] = {}
    values: dict[tuple[str, str], list[str]] = {}
    for model in registry.names("text-to-image"):
        for name, value in dotted(registry.settings(model)).items():
            text = value if isinstance(value, str) else json.dumps(value)
            values.setdefault((name, text), []).append(_package(plugins.entry_points(plugins.MODELS)[model]))
    for (name, text), of in values.items():
        found.setdefault(name, []).append(f"with models of {', '.join(dict.fromkeys(of))}: {text}")
    if points := plugins.entry_points(plugins.CORPORA):
        named = ", ".join(f"{one} ({_package(point)})" for one, point in points.items())
        found.setdefault("captions.corpus", []).append(f"packages bring: {named}")
    return found


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else point.module.partition(".")[0]


def _groups(group: type[Group], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, known in group.model_fields.items():
        if isinstance(known.annotation, type) and issubclass(known.annotation, Group):
            text = known.description or (getdoc(known.annotation) or "").split(" Raises ")[0].split("\n\n")[0]
            yield f"{prefix}{name}", " ".join(text.split())
            yield from _groups(known.annotation, f"{prefix}{name}.")
