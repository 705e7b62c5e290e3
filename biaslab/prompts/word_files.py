"""Words of one's own for the papers' prompts: occupations with their forms, roles, and templates in any language.

A file is a table of occupations (CSV, TSV, Parquet), or YAML, of which every part may be missing::

    occupations:                   # names, or mappings with the columns of the table
      - {occupation: Koch, stereotype: male, captions: Koch|Köchin|Köche, dative: einem Koch, feminine: Köchin}
    roles: {high: [Chef], low: [Lehrling]}
    indicators: {female: [Frau, sie], male: [Mann, er]}   # instead of English words that say a gender in captions
    paradox: ["Ein Foto von [dative]"]
    paired: {single: "Ein Bild: {1}.", paired: "Links {1}, rechts {2}.", …}
    dalleval: {woman: "eine Frau", woman at work: "eine Frau, die als [feminine] arbeitet", …}

Columns of other names are forms of a word: ``[dative]`` in a template, or ``{1.dative}`` of the first person, stands
for what that column says of the occupation. Templates are told as a whole for a paper, or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from biaslab import lexicons
from biaslab.ground import cells, plainyaml
from biaslab.ground.errors import InputError, ParameterError, name_help
from biaslab.ground.genders import GENDERS
from biaslab.ground.plaintext import is_printable, plain

COLUMNS = ("occupation", "stereotype", "captions", "power")
SETTINGS = {"captions.words": "paradox", "people.words": "paired", "dalleval.words": "dalleval"}
"""The settings that name a file, and whose prompts each is for."""
_WHO = ("person", "woman", "man")
TEMPLATES = {
    "paradox": {},
    "paired": {"single": 1, "paired": 2, "intervention": 2, "three": 3, "female": 1, "male": 1},
    "dalleval": dict.fromkeys((*_WHO, *(f"{who} at work" for who in _WHO)), 0),
}
"""The templates that a file has of a paper where it has any, and of how many people: of the paradox a list of any
length. Of ``paired``, ``female`` and ``male`` tell the gender of ``{1}``, and ``role`` (optional) holds ``[ROLE]``."""
_LISTS = {"roles": ("high", "low"), "indicators": GENDERS}
_PLACE = re.compile(r"\[([^\[\]]+)\]|\{(\d)(?:\.([^{}]+))?\}")
_YAML = (".yaml", ".yml")
_MOST_BYTES = 20_000_000


@dataclass(frozen=True)
class Words:
    """What prompts are made of; what a file does not say is empty, and then as the papers have it."""

    occupations: Mapping[str, Mapping[str, str]]  # By name, their cells by column.
    roles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # ``high`` and ``low``.
    indicators: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # ``female`` and ``male``.
    templates: Mapping[str, str] = field(default_factory=dict)  # By name, those of one paper.

    def of(self, column: str) -> dict[str, str]:
        """Return what a column says of each occupation, where it says something."""
        return {name: row[column] for name, row in self.occupations.items() if row.get(column)}

    @property
    def forms(self) -> dict[str, tuple[str, ...]]:
        """The words that captions name an occupation by, where the file says them; others are searched by name."""
        said = self.of("captions").items()
        return {name: tuple(filter(None, map(str.strip, cell.split("|")))) for name, cell in said}

    def fill(self, template: str, occupation: str, role: str = "") -> str:
        """Return a template with the forms of an occupation, and a role, in their places."""
        row = {**self.occupations.get(occupation, {}), "ROLE": role}
        text = _PLACE.sub(lambda place: row.get(place[1], place[0]), template)
        return lexicons.fill(text, occupation) if "[OCCUPATION]" in text else text


def slug(name: str) -> str:
    """Return a name as ids of prompts have it: small letters and digits of any script, joined by hyphens."""
    return re.sub(r"[\W_]+", "-", name.lower()).strip("-")


def read(path: str, setting: str) -> Words:
    """Return the words of a file that a setting (one of :data:`SETTINGS`) names, for its paper's prompts.

    Raises InputError: It cannot be read; an occupation or template is missing, empty, given twice, or has a form that
    no occupation has; of ``paired``, occupations lack a stereotype or one has less than two.
    """
    file, paper = Path(path).expanduser(), SETTINGS[setting]
    if not file.is_file() or file.suffix.lower() not in (*cells.ENDINGS, *_YAML):
        allowed = ", ".join((*cells.ENDINGS, *_YAML))
        raise InputError(f"{setting} is {path!r}; it must be a file that is there and ends in {allowed}.")
    parts: Mapping[str, Any] = {}
    if file.suffix.lower() in _YAML:
        parts = plainyaml.read(file, most=_MOST_BYTES)
        known = ("occupations", *_LISTS, *TEMPLATES)
        _check_keys(file, parts, known)
        listed = parts.get("occupations") or []
        rows = [row if isinstance(row, Mapping) else {"occupation": row} for row in listed]
        frame = pd.DataFrame(rows, columns=list(dict.fromkeys(str(c) for r in rows for c in r)), dtype=object)
        frame = frame.fillna("").map(_text)
    else:
        frame, _ = cells.load(file, set(COLUMNS))
    words = Words(
        _occupations(frame, file) if len(frame) or not parts else {},
        **{name: _lists(file, name, parts[name]) for name in _LISTS if parts.get(name)},
        templates=_templates(file, paper, parts[paper]) if parts.get(paper) else {},
    )
    _check(words, file, paper)
    return words


def _text(cell: Any) -> str:
    """Return a cell of YAML as a table has it: `yes` is true there."""
    if isinstance(cell, list):
        return "|".join(map(str, cell))
    return str({True: "yes", False: "no"}.get(cell, cell)) if isinstance(cell, bool) else str(cell)


def _check_keys(
    file: Path, given: Any, known: tuple[str, ...], needed: tuple[str, ...] = (), of: str = ""
) -> None:
    if not isinstance(given, Mapping):
        raise InputError(f"{file}: {of or 'it'} must be a mapping of {', '.join(known)}.")
    for key in given:
        if key not in known:
            raise InputError(
                f"{file} has no use for {f'{of}: ' if of else ''}{str(key)!r}. {name_help(str(key), known)}"
            )
    if missing := [name for name in needed if not given.get(name)]:
        raise InputError(f"{file}: {of} lacks {', '.join(missing)}; give all of {', '.join(needed)}.")


def _occupations(frame: pd.DataFrame, file: Path) -> dict[str, dict[str, str]]:
    cells.require(frame, ("occupation",), file, "Words of one's own need occupation.", set(COLUMNS))
    names = pd.Series(cells.names(frame["occupation"], file), frame.index).astype(object)
    cells.refuse(names.map(slug) == "", file, "occupation is {}", "give it letters or digits", names)
    cells.refuse(
        names.map(slug).duplicated(), file, "occupation {} stands twice, but for marks", "keep one", names
    )
    texts = frame.map(lambda cell: " ".join(plain(cell).split()))
    for name in texts:
        cells.refuse(
            ~texts[name].map(is_printable), file, f"{name} is {{}}", "use printable characters", frame[name]
        )
    for name, allowed in (("stereotype", GENDERS), ("power", ("yes", "no"))):
        if name in texts:
            wrong = ~texts[name].isin(["", *allowed])
            cells.refuse(
                wrong, file, f"{name} is {{}}", f"give {' or '.join(allowed)}, or leave it empty", texts[name]
            )
    return dict(zip(names, texts.to_dict("records"), strict=True))


def _lists(file: Path, part: str, given: Any) -> dict[str, tuple[str, ...]]:
    _check_keys(file, given, _LISTS[part], _LISTS[part], part)
    found = {
        name: (words,) if isinstance(words, str) else tuple(map(str, words)) for name, words in given.items()
    }
    return {name: tuple(plain(word).strip() for word in words) for name, words in found.items()}


def _templates(file: Path, paper: str, given: Any) -> dict[str, str]:
    if paper == "paradox":
        if not isinstance(given, list):
            raise InputError(f"{file}: paradox must be a list of templates.")
        given = dict(enumerate(given, 1))
    else:
        more = ("role",) if paper == "paired" else ()
        _check_keys(file, given, (*TEMPLATES[paper], *more), tuple(TEMPLATES[paper]), paper)
    found = {str(name): " ".join(str(text).split()) for name, text in given.items()}
    for name, text in found.items():
        n, places = TEMPLATES[paper].get(name, 0), _PLACE.findall(text)
        if not is_printable(text) or {int(k) for _, k, _ in places if k} != set(range(1, n + 1)):
            people = f" with {', '.join(f'{{{k + 1}}}' for k in range(n))}" if n else ""
            raise InputError(f"{file}: {paper}: {name} is {text!r}; give a line of text{people}.")
        if (paper == "paradox" or name.endswith(" at work")) and not any(word for word, *_ in places):
            raise InputError(
                f"{file}: {paper}: {name} is {text!r}; it lacks [OCCUPATION], or one of its forms."
            )
        if name in GENDERS and any(form for *_, form in places):
            raise InputError(
                f"{file}: {paper}: {name} is {text!r}; write {{1}}, whose form is that of the roles."
            )
    return found


def _check(words: Words, file: Path, paper: str) -> None:
    """Refuse words that say too little for a paper's prompts."""
    templates = words.templates
    for name, text in templates.items():
        for word, _, form in _PLACE.findall(text):
            column = word or form
            if column in ("", "OCCUPATION") or (column == "ROLE" and name == "role"):
                continue
            said, every = words.of(column), words.occupations
            if lacks := next((one for one in every if one not in said), "" if every else "the papers' list"):
                raise InputError(
                    f"{file}: {paper}: {name} asks for {column!r}, which it does not say of {lacks!r}; give the "
                    f"occupations a column {column!r}, or write [OCCUPATION]."
                )
    if templates and not words.occupations:
        raise InputError(
            f"{file} has templates for {paper} and no occupations in their language; give occupations."
        )
    if paper != "paired" or not words.occupations:
        return
    found = words.of("stereotype")
    if lacks := [name for name in words.occupations if name not in found]:
        raise InputError(
            f"{file} does not say the stereotype of {cells.listed(lacks)}; give female or male for each."
        )
    for gender in GENDERS:
        if (n := list(found.values()).count(gender)) < 2:
            raise InputError(
                f"{file} has {n} occupations whose stereotype is {gender}; pairs take 2 or more of each."
            )
    if templates and not words.roles:
        raise InputError(
            f"{file} has templates for paired and no roles in their language; give roles: high and low."
        )


def chosen(words: Words, names: tuple[str, ...], setting: str) -> tuple[str, ...]:
    """Return the occupations of a file that are named, all where none is; a ParameterError where it lacks one."""
    if files := [name for name in names if name.lower().endswith((*cells.ENDINGS, *_YAML))]:
        raise ParameterError(f"{setting} is {files[0]!r}, a file; set captions.words to it.")
    if lost := [name for name in names if words.occupations and name not in words.occupations]:
        raise ParameterError(
            f"{setting} is {lost[0]!r}, which the file lacks. {name_help(lost[0], words.occupations)}"
        )
    return names or tuple(words.occupations)
