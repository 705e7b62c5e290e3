"""What a service adds to a prompt that it rewrites: words for the gender, skin tone or age of people.

Skin tones include words of descent, such as "South Asian", by which services state them. Only English words count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from biaslab import lexicons
from biaslab.io.plaintext import normalize

KINDS = ("gender", "skin tone", "age")
"""What words may state of people."""


def added_kinds(prompt: str, rewritten: str) -> list[str]:
    """Return which of :data:`KINDS` a rewritten prompt has a word for that the prompt has not; in that order."""
    before, after = _described(prompt), _described(rewritten)
    return [kind for kind in KINDS if after[kind] - before[kind]]


def _described(text: str) -> dict[str, set[str]]:
    """Return the words of each kind in a text, in lower case."""
    plain = re.sub(r"\d", "0", normalize(text).lower())
    return {kind: set(pattern.findall(plain)) for kind, pattern in _patterns().items()}


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    lists = lexicons.load("described_people")
    gendered = [
        word for name in ("gender_words", "gender_pronouns") for some in lexicons.load(name).values() for word in some
    ]
    words = dict(
        zip(KINDS, ([*gendered, *lexicons.load("gendered_nouns")], lists["skin tone"], lists["age"]), strict=True)
    )
    people = _either([*lists["people"], *words["gender"], *lists["age"]])
    patterns = {}
    for kind, some in words.items():
        either = _either(some)
        if ambiguous := lists.get(f"{kind} before people"):
            either += rf"|(?:{_either(ambiguous)})(?=[ -](?:[\w-]+ )?(?:{people})(?![\w-]))"
        patterns[kind] = re.compile(rf"(?<![\w-])(?:{either})(?![\w-])")
    return patterns


def _either(words: Iterable[str]) -> str:
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))
