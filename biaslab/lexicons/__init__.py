"""Word lists and prompt templates as data, each with its source, and the grammar to use them.

``data/<name>.json`` has ``source`` (origin of the list), ``note`` (purpose) and ``entries``: a list of words or
phrases, or an object whose values are a text or such a list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType

from biaslab.errors import ParameterError, unknown_name

_DATA = resources.files(__name__) / "data"
# Placeholders for the occupation in a template, with and without an article.
_WITH_ARTICLE, _SLOT = "a/an [OCCUPATION]", "[OCCUPATION]"
# Words spelt with a vowel but pronounced with a consonant, and vice versa.
_CONSONANT_SOUND = re.compile(r"(?i)(?:uni(?!n|m)|use|usu|uti|eu|ewe|one\b|once\b|ufo|ui\b|uk\b|us\b|u-)")
_VOWEL_SOUND = re.compile(r"(?i)(?:hono|honest|hour|heir|x-|mba\b|mri\b|mp\b|hr\b|hiv\b|fbi\b)")
_IRREGULAR = {"person": "people", "man": "men", "woman": "women"}
_IRREGULAR |= {"child": "children", "wife": "wives", "hero": "heroes"}


@cache
def names() -> tuple[str, ...]:
    """Return the names of all lists, sorted."""
    return tuple(sorted(p.name.removesuffix(".json") for p in _DATA.iterdir() if p.name.endswith(".json")))


@cache
def load(name: str) -> tuple[str, ...] | Mapping[str, str | tuple[str, ...]]:
    """Return the list ``name``: words or phrases, or a read-only mapping. Raises UnknownNameError: No such list."""
    entries = _read(name)["entries"]
    if isinstance(entries, list):
        return tuple(entries)
    return MappingProxyType({k: tuple(v) if isinstance(v, list) else v for k, v in entries.items()})


def source(name: str) -> str:
    """Return the source of a list (paper, section, or method). Raises UnknownNameError: It does not exist."""
    return _read(name)["source"]


def article(phrase: str) -> str:
    """Return the indefinite article of ``phrase`` by its pronunciation: ``"a"`` or ``"an"``."""
    phrase = phrase.strip()
    if _CONSONANT_SOUND.match(phrase):
        return "a"
    return "an" if phrase[:1].lower() in tuple("aeiou") or _VOWEL_SOUND.match(phrase) else "a"


def fill(template: str, occupation: str) -> str:
    """Return ``template`` with ``occupation`` in its placeholder: ``"a/an [OCCUPATION]"`` or ``"[OCCUPATION]"``.

    Raises ParameterError: The template has no placeholder, or the occupation is empty.
    """
    if _SLOT not in template:
        raise ParameterError(
            f"The template {template!r} has no {_SLOT}; write, for example, 'A photo of {_WITH_ARTICLE}'."
        )
    if not occupation.strip():
        raise ParameterError(f"The occupation for the template {template!r} is empty; it must be a word or phrase.")
    occupation = occupation.strip()
    phrase = f"{article(occupation)} {occupation}"
    if template.startswith(_WITH_ARTICLE):
        template = phrase[0].upper() + phrase[1:] + template.removeprefix(_WITH_ARTICLE)
    return template.replace(_WITH_ARTICLE, phrase).replace(_SLOT, occupation)


def plurals(phrase: str) -> tuple[str, ...]:
    """Return the plurals of a noun phrase, the most common first: ``"salesperson"`` has two, most words have one."""
    head, _, noun = phrase.rpartition(" ")
    prefix = f"{head} " if head else ""
    for singular, plural in _IRREGULAR.items():
        if noun.lower() == singular or (singular in ("person", "man", "woman") and noun.lower().endswith(singular)):
            irregular = prefix + noun[: -len(singular)] + plural
            return (irregular, f"{phrase}s") if singular == "person" else (irregular,)
    if re.search(r"(?i)[^aeiou]y$", noun):
        return (f"{phrase[:-1]}ies",)
    return (f"{phrase}es",) if re.search(r"(?i)(?:s|x|z|ch|sh)$", noun) else (f"{phrase}s",)


@cache
def _read(name: str) -> dict:
    if name not in names():
        raise unknown_name("word list", name, names())
    return json.loads((_DATA / f"{name}.json").read_text(encoding="utf-8"))
