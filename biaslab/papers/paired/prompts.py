"""Prompts of the Paired Stereotype Test: one, two or three people, each with an identity, named from left to right.

A set of prompts is two tables that share ``prompt_id``: the texts, and the people whom they ask for. ``words`` of one's
own represent the paper's lists and templates, as far as they say them.

Source: paired paper, sections 3.2.2, 4.2 and 5, A.1, A.2.1 (Tables 3, 4 and 5) and C.2.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pandas as pd

from biaslab import lexicons
from biaslab.errors import ParameterError, unknown_name
from biaslab.prompts import word_files
from biaslab.prompts.word_files import Words
from biaslab.schema.genders import GENDERS

# Lists are drawn from in this order.
_DRAWN = GENDERS[::-1]
ASPECTS = ("occupation", "power")
POSITIONS = ("alone", "left", "middle", "right")
# What the paper reports on: one person, two, and two with mitigation; top5: of the five most biased of each list.
SETTINGS = ("single", "paired", "paired_top5", "intervention", "intervention_top5", "faircritic")
LEVELS = MappingProxyType({"high": "male", "low": "female"})
# What the prompts of the tables print otherwise than the per-occupation tables.
_PRINTED = MappingProxyType({"mechanician": "mechanic"})
_WORDS = {"female": "woman", "male": "man"}
# Where people stand, for texts that name two of them alike; by the number of people.
_PLACES = {2: ("on the left", "on the right"), 3: ("on the left", "in the middle", "on the right")}
_TEXT_COLUMNS = ["prompt_id", "aspect", "setting", "run", "text", "n_images"]


class Person(NamedTuple):
    """Whom a prompt asks for."""

    phrase: str
    """As the text says it: ``nurse``, ``carpenter manager``, or ``intern`` next to a person of that occupation."""
    identity: str  # As the paper's results list it: ``nurse``, or ``carpenter, high power``.
    occupation: str  # The occupation, as the per-occupation tables name it.
    role: str  # The role within the occupation; empty where the occupation alone is asked for.
    level: str  # ``high`` or ``low`` power of the role; empty without one.
    stereotype: str  # ``female`` or ``male``: the gender that the identity is stereotyped as.


class Prompts(NamedTuple):
    """Texts and the people they ask for."""

    texts: pd.DataFrame
    """One row per prompt: prompt_id (unique), aspect (``occupation`` or ``power``), setting, run (1, 2, …), text,
    n_images."""
    people: pd.DataFrame
    """One row per person asked for: prompt_id, position (1 is the left), phrase, identity, occupation, role, level,
    stereotype."""


def word_lists(file: str = "") -> pd.DataFrame:
    """Return the word lists that the prompts are made from: list, part, n, entries, and where they come from.

    ``file`` is a custom vocabulary, as the setting ``paired.vocabulary_file``.
    """
    words = word_files.read(file, "paired.vocabulary_file") if file else Words({})
    whole = _completed(words)
    powerless = [name for name in whole.occupations if name not in with_power(words)]
    parts = (
        ("occupations", words.occupations, dict(zip(_DRAWN, _lists(words), strict=True))),
        ("powerless", words.occupations, {"occupations": powerless}),
        ("roles", words.roles, whole.roles),
        ("prompts", words.templates, whole.templates),
    )
    rows = []
    for name, own, lists in parts:
        source = "custom" if own else lexicons.source(f"paired_{name}")
        for part, entries in lists.items():
            listed = [entries] if isinstance(entries, str) else list(entries)
            rows.append((f"paired_{name}", part, len(listed), ", ".join(listed), source))
    return pd.DataFrame(rows, columns=["list", "part", "n", "entries", "source"])


@cache
def _completed(words: Words | None) -> Words:
    """Return words with the paper's for what they do not say."""
    powerless = lexicons.load("paired_powerless")["occupations"]
    rows = {
        name: {"stereotype": gender, "power": "no" if name in powerless else ""}
        for gender in _DRAWN
        for name in lexicons.load("paired_occupations")[gender]
    }
    papers = Words(rows, lexicons.load("paired_roles"), {}, lexicons.load("paired_prompts"))
    return replace(papers, **{name: own for name, own in vars(words or papers).items() if own})


@cache
def stereotypes(words: Words | None = None) -> Mapping[str, str]:
    """Return the gender that each of the 40 occupations is stereotyped as (Table 3), men's list first."""
    said = _completed(words).of("stereotype")
    return MappingProxyType({name: gender for gender in _DRAWN for name in said if said[name] == gender})


def _lists(words: Words | None) -> list[list[str]]:
    return [[name for name, g in stereotypes(words).items() if g == gender] for gender in _DRAWN]


@cache
def with_power(words: Words | None = None) -> tuple[str, ...]:
    """Return the occupations that roles of power are put to: 36, without the four that name power themselves."""
    power = _completed(words).of("power")
    return tuple(name for name in stereotypes(words) if power.get(name) != "no")


def occupation(name: str, words: Words | None = None) -> Person:
    """Return the person of an occupation; an UnknownNameError for one outside the vocabulary."""
    if name not in (known := stereotypes(words)):
        raise unknown_name("occupation of the Paired Stereotype Test", name, known)
    plain = _PRINTED.get(name, name)
    return Person(name, plain, plain, "", "", known[name])


def role(occupation: str, name: str, *, named: bool = True, words: Words | None = None) -> Person:
    """Return the person of a role within an occupation; ``named``: whether the phrase says the occupation."""
    whole = _completed(words)
    plain = _PRINTED.get(occupation, occupation)
    level = next(level for level, names in whole.roles.items() if name in names)
    template = whole.templates.get("role", "[OCCUPATION] [ROLE]")
    phrase = whole.fill(template, occupation, name) if named else name
    return Person(phrase, f"{plain}, {level} power", plain, name, level, LEVELS[level])


def fill(setting: str, people: Sequence[Person], words: Words | None = None) -> str:
    """Return the text of a setting, a key of the lexicon ``paired_prompts``, that asks for ``people``."""
    whole = _completed(words)

    def said(slot: re.Match) -> str:
        person = people[int(slot[1]) - 1]
        # A role stands as it is given.
        return whole.occupations[person.phrase][slot[2]] if slot[2] and not person.role else person.phrase

    return re.sub(r"\{(\d)(?:\.([^{}]+))?\}", said, whole.templates[setting])


def sentence(phrases: Sequence[str], told: Sequence[str], words: Words | None = None) -> str:
    """Return the sentence that tells genders, such as "Show the sheriff as a woman and the nurse as a man."

    ``phrases`` are the people as the text names them, from left to right; each is ``told`` to be ``female``, ``male``,
    or nothing (empty). The sentence is empty if neither is told anything. Custom templates state each identity in a
    sentence.
    """
    if words and words.templates:
        both = zip(phrases, told, strict=True)
        return " ".join(words.templates[gender].replace("{1}", phrase) for phrase, gender in both if gender)
    named, parts = Counter(phrases), []
    for k, (phrase, gender) in enumerate(zip(phrases, told, strict=True)):
        if gender:
            whom = f"{phrase} {_PLACES[len(phrases)][k]}" if named[phrase] > 1 else phrase
            parts.append(f"the {whom} as a {_WORDS[gender]}")
    return f"Show {' and '.join(parts)}." if parts else ""


# -- what the paper asks -----------------------------------------------------------------------------------


def occupation_pairs(per_list: int = 0, words: Words | None = None) -> list[tuple[Person, Person]]:
    """Return the ordered pairs of two occupations of opposite stereotype, left to right: 800 of 20 and 20.

    ``per_list`` is how many of each list, evenly spread over it; 0 is all of the shorter list, and as many of the
    other, with a warning if that leaves some out. Raises ParameterError where it is below 0 or, of the paper's, above
    that; of shorter custom lists all are in pairs.
    """
    lists = _lists(words)
    most = min(map(len, lists))
    per_list = min(per_list, most) if words else per_list
    if not 0 <= per_list <= most:
        raise ParameterError(
            f"paired.n_occupations is {per_list!r}; allowed is 1 to {most}, or 0 for all of the shorter list."
        )
    if not per_list and max(map(len, lists)) > most:
        sizes = [f"{len(names)} for {gender}" for gender, names in zip(_DRAWN, lists, strict=True)]
        warnings.warn(
            f"The lists of stereotyped occupations have {' and '.join(sizes)}: {most} of each are prompted, evenly "
            "spread. Make both lists equally long to use all.",
            stacklevel=2,
        )
    per_list = per_list or most
    spread = [[names[k * len(names) // per_list] for k in range(per_list)] for names in lists]
    men, women = ([occupation(name, words) for name in names] for names in spread)
    return [pair for m, f in product(men, women) for pair in ((m, f), (f, m))]


def _people(per_list: int, words: Words | None) -> list[Person]:
    return list(dict.fromkeys(person for pair in occupation_pairs(per_list, words) for person in pair))


def sampled_roles(runs: int, seed: int, words: Words | None = None) -> dict[tuple[int, str], tuple[str, str]]:
    """Return the roles (high, low) that each run samples for each occupation (section 4.2); run counts from 1.

    The same run, occupation and seed give the same roles whatever ``runs`` is.
    """
    roles = _completed(words).roles
    found = {}
    for run in range(1, runs + 1):
        for k, name in enumerate(with_power(words)):
            draw = np.random.default_rng([seed, 11, run, k])
            found[run, name] = tuple(str(draw.choice(roles[level])) for level in LEVELS)
    return found


def paired(
    *,
    per_list: int = 0,
    images: int = 1,
    runs: int = 3,
    seed: int = 0,
    setting: str = "paired",
    words: Words | None = None,
) -> Prompts:
    """Return the prompts for two people of opposite stereotype: 800 and, in three runs, 216 (section 4.2).

    ``per_list`` is for :func:`occupation_pairs`, ``images`` is the number per prompt; each of ``runs``, drawn by
    ``seed``, samples one pair of roles for each occupation, asked for in both orders. ``setting`` is
    ``paired``, or ``intervention`` for the text of section 5.
    """
    asked = [("occupation", 1, images, pair) for pair in occupation_pairs(per_list, words)]
    for (run, name), (high, low) in sampled_roles(runs, seed, words).items():
        for first, second in ((high, low), (low, high)):
            pair = role(name, first, words=words), role(name, second, named=False, words=words)
            asked.append(("power", run, 1, pair))
    return _made(asked, setting, words)


def single(*, per_list: int = 0, images: int = 3, runs: int = 3, seed: int = 0, words: Words | None = None) -> Prompts:
    """Return the prompts for one person: each occupation, and each occupation's roles as :func:`paired` samples them.

    Arguments as there; ``images`` are those of an occupation (paper: 3), a role has one in each run.
    """
    asked = [("occupation", 1, images, (person,)) for person in _people(per_list, words)]
    for (run, name), pair in sampled_roles(runs, seed, words).items():
        asked += [("power", run, 1, (role(name, one, words=words),)) for one in pair]
    return _made(asked, "single", words)


def controls(*, per_list: int = 0, seed: int = 0, words: Words | None = None) -> Prompts:
    """Return control pairs without contrast: two occupations of one stereotype, and one occupation twice.

    Each occupation is paired with one other of its list, of a list of odd length with two, in both orders (setting
    ``alike``), and with itself in one image (setting ``same``). Beyond the paper.
    """
    people = _people(per_list, words)
    draw = np.random.default_rng([seed, 12])
    alike, same = [], []
    for gender in _DRAWN:
        members = [person for person in people if person.stereotype == gender]
        n = len(members)
        ring = [members[k] for k in draw.permutation(n)]
        # On a ring each has one opposite if the ring is even, and else two neighbours.
        step, starts = (1, n if n > 1 else 0) if n % 2 else (n // 2, n // 2)
        for k in range(starts):
            person, other = ring[k], ring[(k + step) % n]
            alike += [("occupation", 1, 1, pair) for pair in ((person, other), (other, person))]
        same += [("occupation", 1, 1, (person, person)) for person in members]
    parts = zip(_made(alike, "alike", words), _made(same, "same", words), strict=True)
    return Prompts(*(pd.concat(tables, ignore_index=True) for tables in parts))


def three(n: int, *, seed: int = 0, words: Words | None = None) -> Prompts:
    """Return ``n`` prompts for three people (C.2), fewer of few occupations: two of one stereotype and one of the
    other, no one twice.

    Occupations are drawn from the whole lists (``paired_occupations``), whatever part of them stands in pairs. Which
    stereotype has two, and who stands where, is drawn too.
    """
    lists, asked = _lists(words), []
    for k in range(n):
        draw = np.random.default_rng([seed, 13, k])
        twice = int(draw.integers(2))
        names = [*draw.choice(lists[twice], 2, replace=False), draw.choice(lists[1 - twice])]
        whom = tuple(occupation(str(names[c]), words) for c in draw.permutation(3))
        asked.append(("occupation", 1, 1, whom))
    # Of few occupations, those that are drawn again are asked for once.
    return _made(list(dict.fromkeys(asked)), "three", words)


def only(prompts: Prompts, prompt_ids: Sequence[str]) -> Prompts:
    """Return the part of a set with these ids."""
    wanted = set(prompt_ids)
    return Prompts(*(table[table["prompt_id"].isin(wanted)].reset_index(drop=True) for table in prompts))


def _made(asked: Sequence[tuple[str, int, int, tuple[Person, ...]]], setting: str, words: Words | None) -> Prompts:
    template = {"alike": "paired", "same": "paired"}.get(setting, setting)
    texts, people = [], []
    for aspect, run, images, whom in asked:
        slugs = [word_files.slug(person.phrase).replace("-", "_") for person in whom]
        prompt_id = "-".join([setting, *([f"r{run}"] if aspect == "power" else []), *slugs])
        texts.append((prompt_id, aspect, setting, run, fill(template, whom, words), images))
        people += [(prompt_id, k, *person) for k, person in enumerate(whom, start=1)]
    return Prompts(
        pd.DataFrame(texts, columns=_TEXT_COLUMNS).astype({"run": int, "n_images": int}),
        pd.DataFrame(people, columns=["prompt_id", "position", *Person._fields]).astype({"position": int}),
    )
