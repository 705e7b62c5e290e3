"""Custom vocabulary for the papers' prompts: occupations with their forms, roles, and templates in any language.

A file is a table of occupations (CSV, TSV, Parquet), or YAML in which every part is optional::

    occupations:                   # names, or mappings with the columns of the table
      - {occupation: Koch, stereotype: male, captions: Koch|Köchin|Köche, dative: einem Koch, feminine: Köchin}
    roles: {high: [Chef], low: [Lehrling]}
    indicators: {female: [Frau, sie], male: [Mann, er]}   # replace English words that state a gender in captions
    paradox: ["Ein Foto von [dative]"]
    paired: {single: "Ein Bild: {1}.", paired: "Links {1}, rechts {2}.", …}
    dalleval: {woman: "eine Frau", woman at work: "eine Frau, die als [feminine] arbeitet", …}

Columns of other names are forms of a word: ``[dative]`` in a template, or ``{1.dative}`` for the first person, is
replaced by that column's value for the occupation. Give all templates of a paper, or none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from biaslab import lexicons
from biaslab.errors import InputError, ParameterError, name_help
from biaslab.io import cells, plaintext, plainyaml
from biaslab.schema.genders import GENDERS
from biaslab.schema.values import check

COLUMNS = ("occupation", "stereotype", "captions", "power")
SETTINGS = {
    "captions.vocabulary_file": "paradox",
    "paired.vocabulary_file": "paired",
    "dalleval.vocabulary_file": "dalleval",
}
"""The settings that name a file, with the paper of each."""
_PEOPLE = ("person", "woman", "man")
TEMPLATES = {
    "paradox": {},
    "paired": {"single": 1, "paired": 2, "intervention": 2, "three": 3, "female": 1, "male": 1},
    "dalleval": dict.fromkeys((*_PEOPLE, *(f"{person} at work" for person in _PEOPLE)), 0),
}
"""The templates of each paper with their number of people; those of the paradox are a list of any length. Those of
``paired`` named ``female`` and ``male`` state the gender of ``{1}``, and ``role`` (optional) contains ``[ROLE]``."""
_LISTS = {"roles": ("high", "low"), "indicators": GENDERS}
_PLACE = re.compile(r"\[([^\[\]]+)\]|\{(\d)(?:\.([^{}]+))?\}")
_YAML = (".yaml", ".yml")
ENDINGS = (*cells.ENDINGS, *_YAML)
_MAX_BYTES = 20_000_000


@dataclass(frozen=True, eq=False)
class Words:
    """The vocabulary of prompts; parts that a file lacks are empty, and those of the papers are used."""

    occupations: Mapping[str, Mapping[str, str]]  # By name, their cells by column.
    roles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # ``high`` and ``low``.
    indicators: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # ``female`` and ``male``.
    templates: Mapping[str, str] = field(default_factory=dict)  # By name, those of one paper.

    def column_values(self, column: str) -> dict[str, str]:
        """Return the value of a column for each occupation that has one."""
        return {name: row[column] for name, row in self.occupations.items() if row.get(column)}

    @property
    def forms(self) -> dict[str, tuple[str, ...]]:
        """The words for an occupation in captions, where the file gives them; others are searched by name."""
        entries = self.column_values("captions").items()
        return {name: tuple(filter(None, map(str.strip, cell.split("|")))) for name, cell in entries}

    def fill(self, template: str, occupation: str, role: str = "") -> str:
        """Return a template with the forms of an occupation, and a role, in their places."""
        row = {**self.occupations.get(occupation, {}), "ROLE": role}
        text = _PLACE.sub(lambda place: row.get(place[1], place[0]), template)
        return lexicons.fill(text, occupation) if "[OCCUPATION]" in text else text


def slug(name: str) -> str:
    """Return a name for ids of prompts: lower-case letters and digits of any script, joined by hyphens."""
    return re.sub(r"[\W_]+", "-", name.lower()).strip("-")


def read(path: str, setting: str) -> Words:
    """Return the words of a file that a setting (one of :data:`SETTINGS`) names, for its paper's prompts.

    Raises InputError: The file cannot be read; an occupation or template is missing, empty or repeated, or has a form
    that no occupation has; for ``paired``, an occupation lacks a stereotype, or a stereotype has fewer than two.
    """
    file, paper = cells.file_setting(path, setting, ENDINGS), SETTINGS[setting]
    parts: Mapping[str, Any] = {}
    if file.suffix.lower() in _YAML:
        parts = plainyaml.read(file, most=_MAX_BYTES)
        check(str(file), parts)
        _check_keys(file, parts, ("occupations", *_LISTS, *TEMPLATES))
        listed = parts.get("occupations") or []
        if not isinstance(listed, list):
            raise InputError(f"{file}: occupations must be a list of names, or of mappings with occupation.")
        rows = [row if isinstance(row, Mapping) else {"occupation": row} for row in listed]
        frame = pd.DataFrame(rows, dtype=object).rename(columns=str).fillna("").map(_text)
    else:
        frame, _ = cells.load(file, set(COLUMNS))
    words = Words(
        _occupations(frame, file) if len(frame) else {},
        **{name: _lists(file, name, parts[name]) for name in _LISTS if parts.get(name)},
        templates=_templates(file, paper, parts[paper]) if parts.get(paper) else {},
    )
    if problem := _missing_words(words, paper):
        raise InputError(f"{file} {problem}.")
    return words


def _text(cell: Any) -> str:
    """Return a cell of YAML as text; YAML reads `yes` as true."""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return "|".join(map(str, cell)) if isinstance(cell, list) else str(cell)


def _check_keys(file: Path, value: Any, allowed: Iterable[str], required: Iterable[str] = (), label: str = "") -> None:
    if not isinstance(value, Mapping):
        raise InputError(f"{file}: {label or 'it'} must be a mapping of {', '.join(allowed)}.")
    for key in (str(key) for key in value if key not in allowed):
        raise InputError(f"{file} contains {f'{label}: ' if label else ''}{key!r}. {name_help(key, allowed)}")
    if missing := [name for name in required if not value.get(name)]:
        raise InputError(f"{file}: {label} lacks {', '.join(missing)}; {', '.join(required)} are required.")


def _occupations(frame: pd.DataFrame, file: Path) -> dict[str, dict[str, str]]:
    cells.require(frame, COLUMNS[:1], file, "A custom vocabulary needs the column occupation.", set(COLUMNS))
    names = pd.Series(cells.names(frame["occupation"], file), frame.index).astype(object)
    slugs, texts = names.map(slug), frame.map(plaintext.name)
    cells.refuse(slugs == "", file, "occupation is {}", "use letters or digits", names)
    cells.refuse(slugs.duplicated(), file, "occupation {} occurs twice (ignoring diacritics)", "keep one", names)
    allowed = {"stereotype": GENDERS, "power": ("yes", "no")}
    for name, column in texts.items():
        odd = ~column.map(plaintext.is_printable)
        cells.refuse(odd, file, f"{name} is {{}}", "use printable characters", column)
        if choices := allowed.get(name):
            fix = f"use {' or '.join(choices)}, or leave it empty"
            cells.refuse(~column.isin(["", *choices]), file, f"{name} is {{}}", fix, column)
    return dict(zip(names, texts.to_dict("records"), strict=True))


def _lists(file: Path, part: str, mapping: Any) -> dict[str, tuple[str, ...]]:
    _check_keys(file, mapping, _LISTS[part], _LISTS[part], part)
    lists = {name: [words] if isinstance(words, str) else words for name, words in mapping.items()}
    words_by_name: dict[str, tuple[str, ...]] = {}
    for name, words in lists.items():
        if not isinstance(words, list) or not all(isinstance(word, str) and word.strip() for word in words):
            raise InputError(f"{file}: {part}: {name} is {words!r:.100}; it must be a list of words.")
        words_by_name[name] = tuple(map(plaintext.name, words))
    listed = Counter(word.casefold() for words in words_by_name.values() for word in words)
    if twice := [word for words in words_by_name.values() for word in words if listed[word.casefold()] > 1]:
        raise InputError(f"{file}: {part}: {twice[0]!r} occurs twice; keep it once.")
    return words_by_name


def _templates(file: Path, paper: str, templates: Any) -> dict[str, str]:
    if paper == "paradox":
        if not isinstance(templates, list):
            raise InputError(f"{file}: paradox must be a list of templates.")
        templates = dict(enumerate(templates, 1))
    else:
        allowed = (*TEMPLATES[paper], *(["role"] if paper == "paired" else []))
        _check_keys(file, templates, allowed, TEMPLATES[paper], paper)
    texts = {str(name): " ".join(str(text).split()) for name, text in templates.items()}
    for name, text in texts.items():
        n, places = TEMPLATES[paper].get(name, 0), _PLACE.findall(text)
        needs = " and ".join(f"{{{k}}}" for k in range(1, n + 1))
        fits = {int(k) for _, k, _ in places if k} == set(range(1, n + 1))
        if paper == "paradox" or name.endswith(" at work"):
            needs, fits = "[OCCUPATION], or one of its forms", fits and any(word for word, *_ in places)
        elif name in GENDERS:
            needs, fits = "{1}, without a form", fits and not any(form for *_, form in places)
        if not fits or not plaintext.is_printable(text):
            fix = f"write one line of text with {needs or 'words'}"
            raise InputError(f"{file}: {paper}: {name} is {text!r}; {fix}.")
    return texts


def _missing_words(words: Words, paper: str) -> str:
    """Return a text on the parts that a paper's prompts need and ``words`` lack; empty if they are complete."""
    if words.templates and not words.occupations:
        return f"contains templates for {paper} but no occupations in their language; add occupations"
    for name, text in words.templates.items():
        for form in {word or form for word, _, form in _PLACE.findall(text)} - {"", "OCCUPATION"}:
            forms = words.column_values(form)
            lacks = [occupation for occupation in words.occupations if occupation not in forms]
            if lacks and (form, name) != ("ROLE", "role"):
                return f"lacks {form!r} for {lacks[0]!r}, which the template {paper}: {name} needs; add this column"
    if paper == "paired" and words.occupations:
        stereotypes = words.column_values("stereotype")
        if lacks := [name for name in words.occupations if name not in stereotypes]:
            return f"lacks the stereotype of {cells.join_values(lacks)}; add female or male for each"
        for gender in GENDERS:
            if (n := list(stereotypes.values()).count(gender)) < 2:
                return f"contains {n} occupations whose stereotype is {gender}; pairs need at least 2 of each"
        if words.templates and not words.roles:
            return "contains templates for paired but no roles in their language; add roles: high and low"
    return ""


def select_occupations(words: Words, names: tuple[str, ...], setting: str) -> tuple[str, ...]:
    """Return the occupations ``names`` of a file, or all without names. Raises ParameterError: It lacks one."""
    if files := [name for name in names if name.lower().endswith(ENDINGS)]:
        raise ParameterError(f"{setting} is {files[0]!r}, which is a file; set captions.vocabulary_file to it instead.")
    if lost := [name for name in names if words.occupations and name not in words.occupations]:
        raise ParameterError(f"{setting} is {lost[0]!r}, which the file lacks. {name_help(lost[0], words.occupations)}")
    return names or tuple(words.occupations)
