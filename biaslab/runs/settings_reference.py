"""The declarations of all settings, for ``biaslab settings`` and the documentation page of settings."""

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
from biaslab.schema.values import flatten
from biaslab.settings import Settings

_TYPES = {str: "string", int: "whole number", float: "number", bool: "true or false", dict: "mapping", Any: "any value"}


@dataclass(frozen=True)
class Declared:
    """The declaration of a setting."""

    name: str  # Dotted, as on the command line.
    kind: str  # The type of its values, in words.
    default: str  # As in YAML.
    limits: str  # The allowed range with its unit, or the unit alone; may be empty.
    meaning: str  # Its description, in a sentence.
    package_default: tuple[str, ...] = ()  # Values that installed packages give it, in words.

    @property
    def facts(self) -> str:
        """Kind, limits and default, in one line."""
        return "; ".join(filter(None, (self.kind, self.limits, f"default {self.default}")))


def find_declared(word: str = "") -> list[Declared]:
    """Return all settings in the order of their groups, or those that match ``word``.

    ``word`` is the name of a setting or group, or else a part of names or descriptions. Without a match, raise
    UnknownNameError with similar names.
    """
    settings = list(_all())
    query = word.strip().lower().removeprefix("settings.")
    if by_name := [setting for setting in settings if f"{setting.name}.".startswith(f"{query}.") or not query]:
        return by_name
    if by_text := [setting for setting in settings if query in f"{setting.name} {setting.meaning}".lower()]:
        return by_text
    if new := old_names.replacement("settings", query):
        raise UnknownNameError(f"The setting {query} is now {new}.")
    hint = name_help(query, [setting.name.rpartition(".")[2] for setting in settings])
    raise UnknownNameError(f"No setting has {word!r} in its name or description. {hint}")


def groups() -> dict[str, str]:
    """Return descriptions of the groups of settings by dotted name; ``''`` represents the settings without a group."""
    return dict(_groups(Settings)) | {"": "Baselines, and settings of single models."}


def lines(settings: list[Declared]) -> Iterator[str]:
    """Yield lines that list settings, as wide as the terminal."""
    width = min(shutil.get_terminal_size((100, 24)).columns, 110)
    wrap = {"width": width, "initial_indent": "    ", "subsequent_indent": "    ", "break_on_hyphens": False}
    for setting in settings:
        yield f"{setting.name}  ({setting.facts})"
        yield from textwrap.wrap(setting.meaning, **wrap)
        yield from (f"    {text}" for text in setting.package_default)


def _all() -> Iterator[Declared]:
    package_defaults = _find_package_defaults()
    for name, info in fields(Settings):
        limits = allowed_range(info) or (info.json_schema_extra or {}).get("unit", "")
        default = json.dumps(info.default, ensure_ascii=False) if info.default != "" else "empty"
        place = next((m for m in info.metadata if isinstance(m, Place)), None)
        kind = _kind(info.annotation)
        if place:
            words = ("path", "paths") if place.always and not place.words else ("name or path", "names or paths")
            kind = kind.replace("strings", words[1]).replace("string", words[0])
        yield Declared(name, kind, default, limits, info.description or "", tuple(package_defaults.get(name, ())))


def _kind(annotation: Any) -> str:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return "one of " + ", ".join(f"`{value}`" for value in inner if value) + ", or empty" * ("" in inner)
    if origin is tuple:
        return f"list of {_kind(inner[0]).removeprefix('one of ')}" + "s" * (inner[0] in (str, float))
    if origin in (Union, types.UnionType):
        return " or ".join("null" if member is type(None) else _kind(member) for member in inner)
    if hasattr(annotation, "__metadata__"):
        return _kind(inner[0])
    return _TYPES[origin or annotation]


def _find_package_defaults() -> dict[str, list[str]]:
    """Return the values that installed packages give settings, in words: defaults of their models, and names."""
    texts_by_setting: dict[str, list[str]] = {}
    values: dict[tuple[str, str], list[str]] = {}
    for model in registry.names("text-to-image"):
        for name, value in flatten(registry.settings(model)).items():
            text = value if isinstance(value, str) else json.dumps(value)
            values.setdefault((name, text), []).append(_package(plugins.entry_points(plugins.MODELS)[model]))
    for (name, text), packages in values.items():
        texts_by_setting.setdefault(name, []).append(
            f"default for models from {', '.join(dict.fromkeys(packages))}: {text}"
        )
    if points := plugins.entry_points(plugins.CORPORA):
        corpora = ", ".join(f"{corpus} ({_package(point)})" for corpus, point in points.items())
        texts_by_setting.setdefault("captions.corpus", []).append(f"from installed packages: {corpora}")
    return texts_by_setting


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else point.module.partition(".")[0]


def _groups(group: type[Group], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, info in group.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, Group):
            text = info.description or (getdoc(info.annotation) or "").split(" Raises ")[0].split("\n\n")[0]
            yield f"{prefix}{name}", " ".join(text.split())
            yield from _groups(info.annotation, f"{prefix}{name}.")
