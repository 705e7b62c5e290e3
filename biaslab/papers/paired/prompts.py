"""Prompts of the Paired Stereotype Test: one, two or three people, each with an identity, named from left to right.

A set of prompts is two tables that share ``prompt_id``: the texts, and the people that they request. Custom ``words``
replace those of the paper's lists and templates that they define.

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
_LIST_ORDER = GENDERS[::-1]
ASPECTS = ("occupation", "power")
POSITIONS = ("alone", "left", "middle", "right")
# Settings of the paper: one person, two, and two with mitigation; top5: of the five most biased of each list.
SETTINGS = ("single", "paired", "paired_top5", "intervention", "intervention_top5", "faircritic")
LEVELS = MappingProxyType({"high": "male", "low": "female"})
# Occupations of the prompts whose names differ in the per-occupation tables.
_PRINTED = MappingProxyType({"mechanician": "mechanic"})
_WORDS = {"female": "woman", "male": "man"}
# Places by number of people, for texts in which two people have the same phrase.
_PLACES = {2: ("on the left", "on the right"), 3: ("on the left", "in the middle", "on the right")}
_TEXT_COLUMNS = ["prompt_id", "aspect", "setting", "run", "text", "n_images"]


class Person(NamedTuple):
    """A person that a prompt requests."""

    phrase: str
    """As in the text: ``nurse``, ``carpenter manager``, or ``intern`` next to a person of that occupation."""
    identity: str  # As in the paper's results: ``nurse``, or ``carpenter, high power``.
    occupation: str  # The occupation, as in the per-occupation tables.
    role: str  # The role within the occupation; empty for the occupation alone.
    level: str  # ``high`` or ``low`` power of the role; empty without one.
    stereotype: str  # ``female`` or ``male``: the gender that the identity is stereotyped as.


class Prompts(NamedTuple):
    """Texts and the people that they request."""

    texts: pd.DataFrame
    """One row per prompt: prompt_id (unique), aspect (``occupation`` or ``power``), setting, run (1, 2, …), text,
    n_images."""
    people: pd.DataFrame
    """One row per requested person: prompt_id, position (1 is the left), phrase, identity, occupation, role, level,
    stereotype."""


def word_lists(file: str = "") -> pd.DataFrame:
    """Return the word lists of the prompts: list, part, n, entries and source.

    ``file`` is a custom vocabulary, as in the setting ``paired.vocabulary_file``.
    """
    words = word_files.read(file, "paired.vocabulary_file") if file else Words({})
    vocabulary = _complete_words(words)
    powerless = [name for name in vocabulary.occupations if name not in power_occupations(words)]
    parts = (
        ("occupations", words.occupations, dict(zip(_LIST_ORDER, _lists(words), strict=True))),
        ("powerless", words.occupations, {"occupations": powerless}),
        ("roles", words.roles, vocabulary.roles),
        ("prompts", words.templates, vocabulary.templates),
    )
    rows = []
    for name, custom_words, lists in parts:
        source = "custom" if custom_words else lexicons.source(f"paired_{name}")
        for part, entries in lists.items():
            names = [entries] if isinstance(entries, str) else list(entries)
            rows.append((f"paired_{name}", part, len(names), ", ".join(names), source))
    return pd.DataFrame(rows, columns=["list", "part", "n", "entries", "source"])


@cache
def _complete_words(words: Words | None) -> Words:
    """Return words completed with those of the paper."""
    powerless = lexicons.load("paired_powerless")["occupations"]
    rows = {
        name: {"stereotype": gender, "power": "no" if name in powerless else ""}
        for gender in _LIST_ORDER
        for name in lexicons.load("paired_occupations")[gender]
    }
    papers = Words(rows, lexicons.load("paired_roles"), {}, lexicons.load("paired_prompts"))
    return replace(papers, **{name: value for name, value in vars(words or papers).items() if value})


@cache
def stereotypes(words: Words | None = None) -> Mapping[str, str]:
    """Return the gender that each of the 40 occupations is stereotyped as (Table 3), men's list first."""
    genders = _complete_words(words).column_values("stereotype")
    return MappingProxyType({name: gender for gender in _LIST_ORDER for name in genders if genders[name] == gender})


def _lists(words: Words | None) -> list[list[str]]:
    return [[name for name, g in stereotypes(words).items() if g == gender] for gender in _LIST_ORDER]


@cache
def power_occupations(words: Words | None = None) -> tuple[str, ...]:
    """Return the occupations that are combined with power roles: 36, without the four that imply power."""
    power = _complete_words(words).column_values("power")
    return tuple(name for name in stereotypes(words) if power.get(name) != "no")


def occupation(name: str, words: Words | None = None) -> Person:
    """Return the person of an occupation; raise an UnknownNameError for one outside the vocabulary."""
    if name not in (genders := stereotypes(words)):
        raise unknown_name("occupation of the Paired Stereotype Test", name, genders)
    printed_name = _PRINTED.get(name, name)
    return Person(name, printed_name, printed_name, "", "", genders[name])


def role(occupation: str, name: str, *, with_occupation: bool = True, words: Words | None = None) -> Person:
    """Return the person of a role within an occupation; ``with_occupation``: whether the phrase names it."""
    vocabulary = _complete_words(words)
    printed_name = _PRINTED.get(occupation, occupation)
    level = next(level for level, names in vocabulary.roles.items() if name in names)
    template = vocabulary.templates.get("role", "[OCCUPATION] [ROLE]")
    phrase = vocabulary.fill(template, occupation, name) if with_occupation else name
    return Person(phrase, f"{printed_name}, {level} power", printed_name, name, level, LEVELS[level])


def fill(setting: str, people: Sequence[Person], words: Words | None = None) -> str:
    """Return the text of a setting, a key of the lexicon ``paired_prompts``, that requests ``people``."""
    vocabulary = _complete_words(words)

    def fill_slot(slot: re.Match) -> str:
        person = people[int(slot[1]) - 1]
        # A role is inserted unchanged.
        return vocabulary.occupations[person.phrase][slot[2]] if slot[2] and not person.role else person.phrase

    return re.sub(r"\{(\d)(?:\.([^{}]+))?\}", fill_slot, vocabulary.templates[setting])


def sentence(phrases: Sequence[str], genders: Sequence[str], words: Words | None = None) -> str:
    """Return the sentence that states genders, such as "Show the sheriff as a woman and the nurse as a man."

    ``phrases`` are the people as named in the text, from left to right; ``genders`` are ``female``, ``male``, or empty
    for a person whose gender is not stated. The sentence is empty if no gender is stated. Custom templates state each
    identity in a sentence of its own.
    """
    if words and words.templates:
        pairs = zip(phrases, genders, strict=True)
        return " ".join(words.templates[gender].replace("{1}", phrase) for phrase, gender in pairs if gender)
    counts, parts = Counter(phrases), []
    for k, (phrase, gender) in enumerate(zip(phrases, genders, strict=True)):
        if gender:
            person = f"{phrase} {_PLACES[len(phrases)][k]}" if counts[phrase] > 1 else phrase
            parts.append(f"the {person} as a {_WORDS[gender]}")
    return f"Show {' and '.join(parts)}." if parts else ""


# -- prompts of the paper ----------------------------------------------------------------------------------


def occupation_pairs(per_list: int = 0, words: Words | None = None) -> list[tuple[Person, Person]]:
    """Return the ordered pairs of two occupations of opposite stereotype, left to right: 800 of 20 and 20.

    ``per_list`` is the number from each list, evenly spread over it; 0 is all of the shorter list, and as many of the
    other, with a warning if that leaves some out. Raises ParameterError if it is below 0 or, for the paper's lists, too
    large; all occupations of shorter custom lists are in pairs.
    """
    lists = _lists(words)
    shortest = min(map(len, lists))
    per_list = min(per_list, shortest) if words else per_list
    if not 0 <= per_list <= shortest:
        raise ParameterError(
            f"paired.n_occupations is {per_list!r}; it must be 1 to {shortest}, or 0 for all of the shorter list."
        )
    if not per_list and max(map(len, lists)) > shortest:
        sizes = [f"{len(names)} for {gender}" for gender, names in zip(_LIST_ORDER, lists, strict=True)]
        warnings.warn(
            f"The lists of stereotyped occupations have {' and '.join(sizes)}: {shortest} of each are prompted, evenly "
            "spread. Make both lists equally long to use all.",
            stacklevel=2,
        )
    per_list = per_list or shortest
    selected = [[names[k * len(names) // per_list] for k in range(per_list)] for names in lists]
    men, women = ([occupation(name, words) for name in names] for names in selected)
    return [pair for m, f in product(men, women) for pair in ((m, f), (f, m))]


def _people(per_list: int, words: Words | None) -> list[Person]:
    return list(dict.fromkeys(person for pair in occupation_pairs(per_list, words) for person in pair))


def sampled_roles(runs: int, seed: int, words: Words | None = None) -> dict[tuple[int, str], tuple[str, str]]:
    """Return the roles (high, low) that each run samples for each occupation (section 4.2); run counts from 1.

    The same run, occupation and seed give the same roles whatever ``runs`` is.
    """
    roles = _complete_words(words).roles
    roles_by_run = {}
    for run in range(1, runs + 1):
        for k, name in enumerate(power_occupations(words)):
            rng = np.random.default_rng([seed, 11, run, k])
            roles_by_run[run, name] = tuple(str(rng.choice(roles[level])) for level in LEVELS)
    return roles_by_run


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
    ``seed``, samples one pair of roles for each occupation, prompted in both orders. ``setting`` is
    ``paired``, or ``intervention`` for the text of section 5.
    """
    requests = [("occupation", 1, images, pair) for pair in occupation_pairs(per_list, words)]
    for (run, name), (high, low) in sampled_roles(runs, seed, words).items():
        for first, second in ((high, low), (low, high)):
            pair = role(name, first, words=words), role(name, second, with_occupation=False, words=words)
            requests.append(("power", run, 1, pair))
    return _build_prompts(requests, setting, words)


def single(*, per_list: int = 0, images: int = 3, runs: int = 3, seed: int = 0, words: Words | None = None) -> Prompts:
    """Return the prompts for one person: each occupation, and each occupation's roles as :func:`paired` samples them.

    Arguments are as in :func:`paired`; ``images`` are those of an occupation (paper: 3), a role has one in each run.
    """
    requests = [("occupation", 1, images, (person,)) for person in _people(per_list, words)]
    for (run, name), pair in sampled_roles(runs, seed, words).items():
        requests += [("power", run, 1, (role(name, role_name, words=words),)) for role_name in pair]
    return _build_prompts(requests, "single", words)


def controls(*, per_list: int = 0, seed: int = 0, words: Words | None = None) -> Prompts:
    """Return control pairs without contrast: two occupations of one stereotype, and one occupation twice.

    Each occupation is paired with one other of its list (two if the list has odd length), in both orders (setting
    ``alike``), and with itself in one image (setting ``same``). Not in the paper.
    """
    people = _people(per_list, words)
    rng = np.random.default_rng([seed, 12])
    alike_pairs, same_pairs = [], []
    for gender in _LIST_ORDER:
        members = [person for person in people if person.stereotype == gender]
        n = len(members)
        ring = [members[k] for k in rng.permutation(n)]
        # On a ring, each has one opposite if the length is even, else two neighbours.
        step, starts = (1, n if n > 1 else 0) if n % 2 else (n // 2, n // 2)
        for k in range(starts):
            person, partner = ring[k], ring[(k + step) % n]
            alike_pairs += [("occupation", 1, 1, pair) for pair in ((person, partner), (partner, person))]
        same_pairs += [("occupation", 1, 1, (person, person)) for person in members]
    parts = zip(_build_prompts(alike_pairs, "alike", words), _build_prompts(same_pairs, "same", words), strict=True)
    return Prompts(*(pd.concat(tables, ignore_index=True) for tables in parts))


def three(n: int, *, seed: int = 0, words: Words | None = None) -> Prompts:
    """Return ``n`` prompts for three people (C.2), fewer for few occupations: two of one stereotype, one of the other.

    Three different occupations are drawn from the entire lists (``paired_occupations``), even if pairs use a subset.
    The stereotype with two people, and the order of people, are drawn too.
    """
    lists, requests = _lists(words), []
    for k in range(n):
        rng = np.random.default_rng([seed, 13, k])
        double = int(rng.integers(2))
        names = [*rng.choice(lists[double], 2, replace=False), rng.choice(lists[1 - double])]
        people = tuple(occupation(str(names[c]), words) for c in rng.permutation(3))
        requests.append(("occupation", 1, 1, people))
    # With few occupations, repeated draws are prompted once.
    return _build_prompts(list(dict.fromkeys(requests)), "three", words)


def select_prompts(prompts: Prompts, prompt_ids: Sequence[str]) -> Prompts:
    """Return the subset of prompts with these ids."""
    ids = set(prompt_ids)
    return Prompts(*(table[table["prompt_id"].isin(ids)].reset_index(drop=True) for table in prompts))


def _build_prompts(
    requests: Sequence[tuple[str, int, int, tuple[Person, ...]]], setting: str, words: Words | None
) -> Prompts:
    template = {"alike": "paired", "same": "paired"}.get(setting, setting)
    texts, people = [], []
    for aspect, run, images, members in requests:
        slugs = [word_files.slug(person.phrase).replace("-", "_") for person in members]
        prompt_id = "-".join([setting, *([f"r{run}"] if aspect == "power" else []), *slugs])
        texts.append((prompt_id, aspect, setting, run, fill(template, members, words), images))
        people += [(prompt_id, k, *person) for k, person in enumerate(members, start=1)]
    return Prompts(
        pd.DataFrame(texts, columns=_TEXT_COLUMNS).astype({"run": int, "n_images": int}),
        pd.DataFrame(people, columns=["prompt_id", "position", *Person._fields]).astype({"position": int}),
    )
