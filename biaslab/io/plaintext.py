"""One form of text, before its words, names and ids are compared with others.

Text from elsewhere holds marks that nobody sees, letters with accents in one piece or in two, and hyphens and spaces of
many kinds. :func:`normalize` gives all of these one form. What users read, and what results are keyed by, stays as
written.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

# Hyphens next to that of the keyboard; dashes are none.
_HYPHENS = "\u058a\u1806\u2010\u2011\u2e17\ufe63\uff0d"
# Marks of the category Cf that are seen: they stand before numbers and verses.
_SEEN = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
_JOINERS = "\u200c\u200d"
# Where a word may break, or two that are written as one.
_BREAKS = "\u00ad\u200b"
# Scripts in which these change what is read, from Arabic to Sinhala, and of South East Asia and Mongolia.
_JOINED = ((0x0600, 0x08FF), (0x0900, 0x0DFF), (0x1000, 0x109F), (0x1780, 0x18AF), (0x1B00, 0x1BFF))


class Places(NamedTuple):
    """A text in its plain form, and where in the text each of its characters stands."""

    text: str
    starts: list[int]
    ends: list[int]  # After the last of what a character was made of; marks that were left out belong to none.

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the place in the text of some characters of its plain form, which are not none."""
        return self.starts[start], self.ends[end - 1]


def normalize(text: str) -> str:
    """Return a text as it is compared: composed (NFC), without marks that nobody sees, with one hyphen and one space.

    Zero-width joiners stay in scripts that need them. A text that is so already is returned itself.
    """
    if text.isascii() or (may_change().isdisjoint(text) and unicodedata.is_normalized("NFC", text)):
        return text
    return "".join(one for one, _, _ in _pieces(text))


def split_words(text: str) -> str:
    """Return a text's plain form with a hyphen at each place where a word may break.

    Between the words of a phrase such a mark may represent their hyphen; inside of a word it represents nothing.
    """
    return normalize(text.translate(dict.fromkeys(map(ord, _BREAKS), "-")))


def character_map(text: str) -> Places:
    """Return a text's plain form with the places of its characters."""
    whole = Places("", [], [])
    parts = []
    for one, start, end in _pieces(text):
        parts.append(one)
        # Of what is as it was, each character is where it was.
        same = one == text[start:end]
        whole.starts.extend(range(start, end) if same else [start] * len(one))
        whole.ends.extend(range(start + 1, end + 1) if same else [end] * len(one))
    return whole._replace(text="".join(parts))


def name(text: str) -> str:
    """Return a name as it is compared: :func:`normalize`, with single spaces and none around it."""
    return " ".join(normalize(text).split())


def same_name(text: str) -> str:
    """Return a name as it is matched with those of another file: :func:`name`, without regard to case."""
    return name(text).casefold()


def casefold_name(name: str) -> str:
    """Return the name of an object as tables have it: in lower case, with single spaces, without the full stops that
    end names in lists.
    """
    return " ".join(normalize(name).casefold().replace("_", " ").replace(".", " ").split())


def same_text(text: str) -> str:
    """Return a prompt as it is compared with others: in its plain form, without case, blanks and a last point."""
    return " ".join(normalize(text).casefold().split()).rstrip(".")


def is_printable(text: str) -> bool:
    """Return whether a text can be shown: joiners can where a script needs them."""
    return all(one.isprintable() or one in _JOINERS for one in normalize(text))


@cache
def may_change() -> frozenset[str]:
    """Return the characters that are left out or changed wherever they stand; accents join what is before them."""
    # No other planes have such characters.
    every = map(chr, (*range(0x80, 0x20000), *range(0xE0000, 0xE1000)))
    return frozenset((*_HYPHENS, *(one for one in every if unicodedata.category(one) in ("Cf", "Zs"))))


def _pieces(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield pieces of the plain form, mostly characters, each with the start and the end of what it was made of."""
    run, start, end = "", 0, 0
    for at, one in enumerate(text):
        one = _one(one, run)
        if not one:
            continue
        # An accent, or a part of a syllable, joins what it stands behind.
        if run and (unicodedata.combining(one) or _composes(run, one)):
            run, end = run + one, at + 1
            continue
        if run:
            yield unicodedata.normalize("NFC", run), start, end
        run, start, end = one, at, at + 1
    if run:
        yield unicodedata.normalize("NFC", run), start, end


def _composes(run: str, one: str) -> bool:
    """Return whether a character without an accent's place makes one with those before it, as parts of syllables do."""
    if one.isascii() or len(run) > 3:
        return False
    both = unicodedata.normalize("NFC", run + one)
    return len(both) == len(unicodedata.normalize("NFC", run))


def _one(one: str, before: str) -> str:
    """Return what a character becomes, given what stands before it; empty where it is left out."""
    if one.isascii():
        return one
    if one in _HYPHENS:
        return "-"
    if one in _JOINERS:
        code = ord(before[-1]) if before else 0
        return one if any(low <= code <= high for low, high in _JOINED) else ""
    category = unicodedata.category(one)
    if category == "Zs":
        return " "
    return "" if category == "Cf" and one not in _SEEN else one
