"""Settings in groups: how a group is declared, checked and described, and how what is wrong with one is told.

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
"""A whole number; 3.0 is one."""


def _several(value: Any) -> Any:
    given = list(value) if isinstance(value, list | tuple) else [value]
    return tuple(v for i, v in enumerate(given) if v not in given[:i])


Texts = Annotated[tuple[str, ...], BeforeValidator(_several)]
"""Texts, each once; one text alone is a list of one."""
Numbers = Annotated[tuple[float, ...], BeforeValidator(_several)]
"""Numbers likewise."""
Listed = BeforeValidator(_several)
"""What makes the same of a list of other values, as ``Annotated[tuple[Literal["a", "b"], ...], Several]``."""
OffText = BeforeValidator(lambda v: "off" if v is False else v)
"""Of texts that may be `off`, which YAML reads as false."""


@dataclass(frozen=True)
class Place:
    """Marks a setting whose texts may be paths, which a run makes absolute."""

    always: bool = False  # Whether they are nothing else than paths.
    words: tuple[str, ...] = ()  # But for these.


NameOrPath = Annotated[str, Place()]
"""The name of something, or a path to it."""
Folder = Annotated[str, Place(always=True)]
"""A folder."""
_KINDS = {
    "string": "a text",
    "int": "a whole number",
    "float": "a number",
    "finite": "a finite number",
    "bool": "true or false",
    "tuple": "a list",
    "dict": "a mapping",
}
_QUOTED = re.compile(r"'([^']*)'")


def field(default: Any, meaning: str, unit: str = "", *, secret: bool = False, **limits: Any) -> Any:
    """Return a field of a group: its default, what it decides in a sentence, and what its number counts.

    No message repeats a ``secret`` value. ``limits`` are ``ge``, ``gt``, ``le``, ``lt`` and ``min_length``.
    """
    return Field(default, description=meaning, json_schema_extra={"unit": unit, "secret": secret}, **limits)


# The fields that are read while a plan records them, by their groups; None elsewhere.
_READS: ContextVar[set[tuple[type[Group], str]] | None] = ContextVar("reads", default=None)


@contextmanager
def recorded_reads(reads: set[tuple[type[Group], str]] | None) -> Iterator[None]:
    """Add each field of a group that is read meanwhile to ``reads``; None pauses this."""
    token = _READS.set(reads)
    try:
        yield
    finally:
        _READS.reset(token)


class Group(BaseModel):
    """Settings that belong together; a ParameterError tells of all unknown names, wrong types and values out of
    range."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, hide_input_in_errors=True)
    # What messages call the whole.
    group_name: ClassVar[str] = ""

    def __init__(self, **given: Any) -> None:
        try:
            with recorded_reads(None):
                super().__init__(**given)
        except ValidationError as error:
            # A list of nothing but what is wrong also counts as too short.
            told = [e for e in error.errors(include_url=False) if e["type"] != "too_short" or not e["input"]]
            problems = [_problem(type(self), e) for e in told]
            raise ParameterError(" ".join(dict.fromkeys(problems))) from None

    # So that pydantic makes the groups within a group itself, and names what is wrong in them from the top.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def __getattribute__(self, name: str) -> Any:
        if (reads := _READS.get()) is not None and name in type(self).model_fields:
            reads.add((type(self), name))
        return super().__getattribute__(name)

    def changed(self, **changes: Any) -> Self:
        """Return the same with other values, checked; those of a group within are a mapping of what changes there."""
        return type(self)(**_merged(self, changes))

    def with_defaults(self, values: Mapping[str, Any]) -> Self:
        """Return the same with ``values`` for the fields that were not given, those of groups within likewise."""
        changes = _ungiven(self, values)
        return self.changed(**changes) if changes else self

    def describe(self) -> list[tuple[str, str, str]]:
        """Return dotted name, value (as YAML has it, paths without their folders) and meaning of each setting."""
        values = ((name, _split_path(_value(self, name)), known) for name, known in fields(type(self)))
        return [(n, v if isinstance(v, str) else json.dumps(v), known.description or "") for n, v, known in values]


def names(group: type[Group]) -> list[str]:
    """Return the dotted names of all settings of a group and of the groups within it."""
    return [name for name, _ in fields(group)]


def places(group: type[Group]) -> dict[str, Place]:
    """Return the settings that are marked as places, by their dotted names."""
    return {name: m for name, known in fields(group) for m in known.metadata if isinstance(m, Place)}


def _value(group: Group, name: str) -> Any:
    """Return the value of a setting by its dotted name, which does not count as read."""
    return reduce(lambda inner, part: vars(inner)[part], name.split("."), group)


def _merged(group: Group, changes: Mapping[str, Any]) -> dict[str, Any]:
    # What was not given stays so.
    whole = {name: vars(group)[name] for name in group.model_fields_set}
    for name, value in changes.items():
        own = vars(group).get(name)
        whole[name] = _merged(own, value) if isinstance(own, Group) and isinstance(value, Mapping) else value
    return whole


def _ungiven(group: Group, values: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for name, value in values.items():
        own = vars(group).get(name)
        if isinstance(own, Group) and isinstance(value, Mapping):
            if inner := _ungiven(own, value):
                found[name] = inner
        elif name not in group.model_fields_set:
            found[name] = value
    return found


def fields(group: type[Group], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yield the dotted name and the declaration of each setting of a group and of the groups within it."""
    for name, known in group.model_fields.items():
        if inner := _group_of(known):
            yield from fields(inner, f"{prefix}{name}.")
        else:
            yield prefix + name, known


def _group_of(known: FieldInfo) -> type[Group] | None:
    kind = known.annotation
    return kind if isinstance(kind, type) and issubclass(kind, Group) else None


def _split_path(value: Any) -> Any:
    """Return a setting's value as others may see it."""
    if isinstance(value, str):
        return redact.basename(value)
    return [_split_path(v) for v in value] if isinstance(value, tuple) else value


# -- what is wrong ---------------------------------------------------------------------------------------


def _problem(whole: type[Group], error: Mapping[str, Any]) -> str:
    """Return what is wrong in a sentence: the value, what is allowed, and the nearest names."""
    path = [part for part in error["loc"] if isinstance(part, str)]
    name, prefix = ".".join(path), f"{whole.group_name}: " if whole.group_name else ""
    kind, ctx, value = error["type"], error.get("ctx", {}), error["input"]
    if kind == "extra_forbidden":
        inner = (*old_names.setting_names({name: value}), name)
        if renamed := [text for one in inner if (text := old_names.message("settings", one))]:
            return " ".join(dict.fromkeys(renamed))
        return f"{whole.group_name or 'This group'} has no {name!r}. {unknown_help(whole, path)}"
    if kind == "value_error":
        return f"{prefix}{name + ': ' if name else ''}{ctx['error']}"
    known = _find_group(whole, path)
    group = _group_of(known) if known else None
    if known is None or group:
        inner = ", ".join(names(group)[:3]) if group else ""
        return f"{prefix}{name} is a group of settings: give a mapping of its names, such as {inner}, to values."
    held = "holds" if len(path) < len(error["loc"]) else "is"
    said = f"{prefix}{name} {'cannot be used' if _extra(known, 'secret') else f'{held} {value!r}'}"
    if kind == "literal_error":
        return f"{said}. {name_help(str(value), _QUOTED.findall(ctx['expected']))}"
    if kind == "too_short":
        return f"{said}; give one or more."
    if kind.startswith(("greater_than", "less_than")):
        return f"{said}; allowed is {allowed_range(known)}."
    words = next((w for k, w in _KINDS.items() if kind.startswith(k)), "a value of another kind")
    example = f", for example {known.default!r}" if held == "is" and known.default not in (None, "", (), {}) else ""
    return f"{said}; it must be {words}{example}."


def _extra(known: FieldInfo, what: str) -> Any:
    """Return what :func:`field` noted next to a declaration."""
    return known.json_schema_extra.get(what) if isinstance(known.json_schema_extra, dict) else None


def allowed_range(known: FieldInfo) -> str:
    """Return which numbers a setting may be, with their unit; empty where it is no number or any will do."""
    limits = {k: getattr(m, k) for m in known.metadata for k in ("ge", "gt", "le", "lt") if hasattr(m, k)}
    if not limits:
        return ""
    low = f"{limits['ge']:g}" if "ge" in limits else f"above {limits['gt']:g}" if "gt" in limits else ""
    high = f"{limits['le']:g}" if "le" in limits else f"below {limits['lt']:g}" if "lt" in limits else ""
    both = f"{low} to {high}" if low and high else f"{low} or more" if "ge" in limits else low or f"up to {high}"
    return f"{both} {_extra(known, 'unit') or ''}".strip()


def _find_group(group: type[Group], path: Sequence[str]) -> FieldInfo | None:
    """Return the field at a path, whose end may be within the value of a field."""
    known = None
    for part in path:
        known = group.model_fields.get(part, known)
        inner = _group_of(known) if known else None
        if inner is None:
            return known
        group = inner
    return known


def unknown_help(whole: type[Group], path: Sequence[str]) -> str:
    """Return the names that are nearest to an unknown one, wherever they live, and those next to it."""
    forms: dict[str, list[str]] = {}
    for name in names(whole):
        for form in (name.rpartition(".")[2], name.replace(".", "_"), name):
            forms.setdefault(form, []).append(name)
    last, asked = path[-1], ".".join(path)
    near = forms.get(last) or [n for w in (asked, last) for m in near_matches(w, forms) for n in forms[m]]
    inside = _find_group(whole, path[:-1])
    beside = ((inside and _group_of(inside)) or whole).model_fields
    here = [".".join([*path[:-1], n]) for n in get_close_matches(last, beside, cutoff=0.8)]
    near = list(dict.fromkeys([*here, *near]))[:3]
    hint = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
    where = f"{'.'.join(path[:-1])} has" if len(path) > 1 else "Groups" if whole.group_name else "It has"
    return f"{hint}{where}: {', '.join(beside)}."
