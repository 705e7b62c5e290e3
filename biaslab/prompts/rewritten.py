"""Words for the gender, skin tone or age of people that a service adds to prompts.

Skin tones include words of descent, such as "South Asian", with which services state them. Only English words count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from biaslab import lexicons
from biaslab.io.plaintext import normalize

KINDS = ("gender", "skin tone", "age")
"""Attributes of people that words may state."""


def added_kinds(prompt: str, rewritten: str) -> list[str]:
    """Return the :data:`KINDS` for which a rewritten prompt has a word that the prompt lacks; in that order."""
    before, after = _find_words(prompt), _find_words(rewritten)
    return [kind for kind in KINDS if after[kind] - before[kind]]


def _find_words(text: str) -> dict[str, set[str]]:
    """Return the words of each kind in a text, in lower case."""
    plain = re.sub(r"\d", "0", normalize(text).lower())
    return {kind: set(pattern.findall(plain)) for kind, pattern in _patterns().items()}


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    lists = lexicons.load("described_people")
    gendered = [
        word for name in ("gender_words", "gender_pronouns") for group in lexicons.load(name).values() for word in group
    ]
    words = dict(
        zip(KINDS, ([*gendered, *lexicons.load("gendered_nouns")], lists["skin tone"], lists["age"]), strict=True)
    )
    people = _either([*lists["people"], *words["gender"], *lists["age"]])
    patterns = {}
    for kind, group in words.items():
        either = _either(group)
        if ambiguous := lists.get(f"{kind} before people"):
            either += rf"|(?:{_either(ambiguous)})(?=[ -](?:[\w-]+ )?(?:{people})(?![\w-]))"
        patterns[kind] = re.compile(rf"(?<![\w-])(?:{either})(?![\w-])")
    return patterns


def _either(words: Iterable[str]) -> str:
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))
