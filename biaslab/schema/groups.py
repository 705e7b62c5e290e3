"""Settings in groups: declaration, checks, descriptions and error messages.

A group is a frozen pydantic model declared next to the stage that it sets. Names are dotted, as on the command line:
``generation.steps`` is the field ``steps`` of the group ``generation``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from difflib import get_close_matches
from functools import reduce
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from biaslab import redact
from biaslab.errors import ParameterError, name_help, near_matches
from biaslab.schema import old_names

Integer = Annotated[int, BeforeValidator(lambda v: int(v) if isinstance(v, float) and v.is_integer() else v)]
"""A whole number; 3.0 is accepted as 3."""


def _as_unique_tuple(value: Any) -> Any:
    values = list(value) if isinstance(value, list | tuple) else [value]
    return tuple(v for i, v in enumerate(values) if v not in values[:i])


Texts = Annotated[tuple[str, ...], BeforeValidator(_as_unique_tuple)]
"""Distinct texts; a single text is accepted as a list."""
Numbers = Annotated[tuple[float, ...], BeforeValidator(_as_unique_tuple)]
"""Distinct numbers; a single number is accepted as a list."""
Listed = BeforeValidator(_as_unique_tuple)
"""The same validator for other values, as in ``Annotated[tuple[Literal["a", "b"], ...], Listed]``."""
OffText = BeforeValidator(lambda v: "off" if v is False else v)
"""A validator for texts that may be `off`, which YAML reads as false."""


@dataclass(frozen=True)
class Place:
    """Marks a setting whose texts may be paths, which a run makes absolute."""

    always: bool = False  # Whether all texts are paths.
    words: tuple[str, ...] = ()  # Texts that are never paths.


NameOrPath = Annotated[str, Place()]
"""The name of something, or a path to it."""
Folder = Annotated[str, Place(always=True)]
"""A folder."""
_KINDS = {
    "string": "a string",
    "int": "a whole number",
    "float": "a number",
    "finite": "a finite number",
    "bool": "true or false",
    "tuple": "a list",
    "dict": "a mapping",
}
_QUOTED = re.compile(r"'([^']*)'")


def field(default: Any, meaning: str, unit: str = "", *, secret: bool = False, **limits: Any) -> Any:
    """Return a field of a group, with its default, its meaning in a sentence, and the unit of its number.

    Messages never contain a ``secret`` value. ``limits`` are ``ge``, ``gt``, ``le``, ``lt`` and ``min_length``.
    """
    return Field(default, description=meaning, json_schema_extra={"unit": unit, "secret": secret}, **limits)


# The fields that are read while a plan records them, with their groups; None outside a plan.
_READS: ContextVar[set[tuple[type[Group], str]] | None] = ContextVar("reads", default=None)


@contextmanager
def recorded_reads(reads: set[tuple[type[Group], str]] | None) -> Iterator[None]:
    """Add each field of a group that is read within the context to ``reads``; None pauses the recording."""
    token = _READS.set(reads)
    try:
        yield
    finally:
        _READS.reset(token)


class Group(BaseModel):
    """Settings that belong together; a ParameterError lists all unknown names, wrong types and values out of range."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, hide_input_in_errors=True)
    # Name of the outermost group in messages.
    group_name: ClassVar[str] = ""

    def __init__(self, **values: Any) -> None:
        try:
            with recorded_reads(None):
                super().__init__(**values)
        except ValidationError as error:
            # A list with only invalid items is also reported as too short.
            errors = [e for e in error.errors(include_url=False) if e["type"] != "too_short" or not e["input"]]
            problems = [_describe_problem(type(self), e) for e in errors]
            raise ParameterError(" ".join(dict.fromkeys(problems))) from None

    # With this, pydantic creates inner groups itself, and names their errors from the outermost group.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def __getattribute__(self, name: str) -> Any:
        if (reads := _READS.get()) is not None and name in type(self).model_fields:
            reads.add((type(self), name))
        return super().__getattribute__(name)

    def with_changes(self, **changes: Any) -> Self:
        """Return a checked copy with changed values; for an inner group, give a mapping of its changes."""
        return type(self)(**_merge(self, changes))

    def with_defaults(self, values: Mapping[str, Any]) -> Self:
        """Return a copy with ``values`` for the fields that were not given, also in inner groups."""
        changes = _unset_values(self, values)
        return self.with_changes(**changes) if changes else self

    def describe(self) -> list[tuple[str, str, str]]:
        """Return dotted name, value (as in YAML, paths without their folders) and meaning of each setting."""
        values = ((name, _split_path(_value(self, name)), info) for name, info in fields(type(self)))
        return [(n, v if isinstance(v, str) else json.dumps(v), info.description or "") for n, v, info in values]


def names(group: type[Group]) -> list[str]:
    """Return the dotted names of all settings of a group and of its inner groups."""
    return [name for name, _ in fields(group)]


def path_settings(group: type[Group]) -> dict[str, Place]:
    """Return the settings that are marked as places, by their dotted names."""
    return {name: m for name, info in fields(group) for m in info.metadata if isinstance(m, Place)}


def _value(group: Group, name: str) -> Any:
    """Return the value of a setting by its dotted name, without recording the read."""
    return reduce(lambda inner, part: vars(inner)[part], name.split("."), group)


def _merge(group: Group, changes: Mapping[str, Any]) -> dict[str, Any]:
    # Fields that were not given stay unset.
    merged = {name: vars(group)[name] for name in group.model_fields_set}
    for name, value in changes.items():
        inner = vars(group).get(name)
        merged[name] = _merge(inner, value) if isinstance(inner, Group) and isinstance(value, Mapping) else value
    return merged


def _unset_values(group: Group, values: Mapping[str, Any]) -> dict[str, Any]:
    unset = {}
    for name, value in values.items():
        inner_group = vars(group).get(name)
        if isinstance(inner_group, Group) and isinstance(value, Mapping):
            if inner := _unset_values(inner_group, value):
                unset[name] = inner
        elif name not in group.model_fields_set:
            unset[name] = value
    return unset


def fields(group: type[Group], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yield the dotted name and the declaration of each setting of a group and of its inner groups."""
    for name, info in group.model_fields.items():
        if inner := _find_inner_group(info):
            yield from fields(inner, f"{prefix}{name}.")
        else:
            yield prefix + name, info


def _find_inner_group(info: FieldInfo) -> type[Group] | None:
    kind = info.annotation
    return kind if isinstance(kind, type) and issubclass(kind, Group) else None


def _split_path(value: Any) -> Any:
    """Return a setting's value without the folders of its paths."""
    if isinstance(value, str):
        return redact.basename(value)
    return [_split_path(v) for v in value] if isinstance(value, tuple) else value


# -- errors ----------------------------------------------------------------------------------------------


def _describe_problem(root: type[Group], error: Mapping[str, Any]) -> str:
    """Return an error as a sentence: the value, the allowed values, and the nearest names."""
    path = [part for part in error["loc"] if isinstance(part, str)]
    name, prefix = ".".join(path), f"{root.group_name}: " if root.group_name else ""
    kind, ctx, value = error["type"], error.get("ctx", {}), error["input"]
    if kind == "extra_forbidden":
        inner = (*old_names.setting_names({name: value}), name)
        if renamed := [text for old_name in inner if (text := old_names.message("settings", old_name))]:
            return " ".join(dict.fromkeys(renamed))
        return f"{root.group_name or 'This group'} has no {name!r}. {unknown_help(root, path)}"
    if kind == "value_error":
        return f"{prefix}{name + ': ' if name else ''}{ctx['error']}"
    info = _find_group(root, path)
    group = _find_inner_group(info) if info else None
    if info is None or group:
        inner = ", ".join(names(group)[:3]) if group else ""
        return f"{prefix}{name} is a group of settings; set it to a mapping of names, such as {inner}, to values."
    verb = "contains" if len(path) < len(error["loc"]) else "is"
    statement = f"{prefix}{name} {'cannot be used' if _extra(info, 'secret') else f'{verb} {value!r}'}"
    if kind == "literal_error":
        return f"{statement}. {name_help(str(value), _QUOTED.findall(ctx['expected']))}"
    if kind == "too_short":
        return f"{statement}; specify at least one value."
    if kind.startswith(("greater_than", "less_than")):
        return f"{statement}; it must be {allowed_range(info)}."
    words = next((w for k, w in _KINDS.items() if kind.startswith(k)), "a value of another type")
    example = f", for example {info.default!r}" if verb == "is" and info.default not in (None, "", (), {}) else ""
    return f"{statement}; it must be {words}{example}."


def _extra(info: FieldInfo, key: str) -> Any:
    """Return an extra that :func:`field` added to a declaration: ``unit`` or ``secret``."""
    return info.json_schema_extra.get(key) if isinstance(info.json_schema_extra, dict) else None


def allowed_range(info: FieldInfo) -> str:
    """Return the range of numbers allowed for a setting, with their unit; empty without limits."""
    limits = {k: getattr(m, k) for m in info.metadata for k in ("ge", "gt", "le", "lt") if hasattr(m, k)}
    if not limits:
        return ""
    words = {key: f"{limit:,.10g}" for key, limit in limits.items()}
    low = words["ge"] if "ge" in words else f"above {words['gt']}" if "gt" in words else ""
    high = words["le"] if "le" in words else f"below {words['lt']}" if "lt" in words else ""
    text = f"{low} to {high}" if low and high else f"{low} or more" if "ge" in limits else low or f"up to {high}"
    return f"{text} {_extra(info, 'unit') or ''}".strip()


def _find_group(group: type[Group], path: Sequence[str]) -> FieldInfo | None:
    """Return the field at a path; the path may continue into the value of the field."""
    info = None
    for part in path:
        info = group.model_fields.get(part, info)
        inner = _find_inner_group(info) if info else None
        if inner is None:
            return info
        group = inner
    return info


def unknown_help(root: type[Group], path: Sequence[str]) -> str:
    """Return a text with the names of any group that are nearest to an unknown one, and all names of its group."""
    forms: dict[str, list[str]] = {}
    for name in names(root):
        for form in (name.rpartition(".")[2], name.replace(".", "_"), name):
            forms.setdefault(form, []).append(name)
    leaf, dotted_name = path[-1], ".".join(path)
    matches = forms.get(leaf) or [n for w in (dotted_name, leaf) for m in near_matches(w, forms) for n in forms[m]]
    inside = _find_group(root, path[:-1])
    siblings = ((inside and _find_inner_group(inside)) or root).model_fields
    sibling_matches = [".".join([*path[:-1], n]) for n in get_close_matches(leaf, siblings, cutoff=0.8)]
    matches = list(dict.fromkeys([*sibling_matches, *matches]))[:3]
    hint = f"Did you mean {' or '.join(map(repr, matches))}? " if matches else ""
    where = f"{'.'.join(path[:-1])} has" if len(path) > 1 else "Groups" if root.group_name else "It has"
    return f"{hint}{where}: {', '.join(siblings)}."
