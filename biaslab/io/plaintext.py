"""Normalization of text, before its words, names and ids are compared.

Text from other sources contains invisible marks, composed and decomposed accents, and many kinds of hyphens and spaces.
:func:`normalize` converts these to one form. Texts that users read, and keys of results, are not normalized.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

# Hyphens other than that of the keyboard; dashes are not hyphens.
_HYPHENS = "\u058a\u1806\u2010\u2011\u2e17\ufe63\uff0d"
# Visible marks of the category Cf, which precede numbers and verses.
_VISIBLE = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
_JOINERS = "\u200c\u200d"
# Marks of positions where a word may be hyphenated, or of word boundaries.
_BREAKS = "\u00ad\u200b"
# Scripts in which joiners change the meaning: from Arabic to Sinhala, of South East Asia and Mongolia.
_JOINING_SCRIPTS = ((0x0600, 0x08FF), (0x0900, 0x0DFF), (0x1000, 0x109F), (0x1780, 0x18AF), (0x1B00, 0x1BFF))


class Places(NamedTuple):
    """A normalized text, and the positions of its characters in the original text."""

    text: str
    starts: list[int]
    ends: list[int]  # After the last original character; removed marks belong to no character.

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in the original text of a nonempty span of the normalized text."""
        return self.starts[start], self.ends[end - 1]


def normalize(text: str) -> str:
    """Return a normalized text: composed (NFC), without invisible marks, with one kind of hyphen and of space.

    Zero-width joiners are kept in scripts that need them. A normalized text is returned itself.
    """
    if text.isascii() or (may_change().isdisjoint(text) and unicodedata.is_normalized("NFC", text)):
        return text
    return "".join(piece for piece, _, _ in _pieces(text))


def split_words(text: str) -> str:
    """Return a normalized text with a hyphen at each position where a word may be hyphenated.

    Between the words of a phrase such a mark may represent their hyphen; inside a word it has no meaning.
    """
    return normalize(text.translate(dict.fromkeys(map(ord, _BREAKS), "-")))


def character_map(text: str) -> Places:
    """Return a normalized text with the original positions of its characters."""
    places = Places("", [], [])
    parts = []
    for piece, start, end in _pieces(text):
        parts.append(piece)
        # Characters of an unchanged piece have their own positions.
        is_unchanged = piece == text[start:end]
        places.starts.extend(range(start, end) if is_unchanged else [start] * len(piece))
        places.ends.extend(range(start + 1, end + 1) if is_unchanged else [end] * len(piece))
    return places._replace(text="".join(parts))


def name(text: str) -> str:
    """Return a normalized name (:func:`normalize`), stripped and with single spaces."""
    return " ".join(normalize(text).split())


def same_name(text: str) -> str:
    """Return a name for matching with another file: :func:`name`, without regard to case."""
    return name(text).casefold()


def casefold_name(name: str) -> str:
    """Return the name of an object for tables: in lower case, with single spaces, without full stops of lists."""
    return " ".join(normalize(name).casefold().replace("_", " ").replace(".", " ").split())


def same_text(text: str) -> str:
    """Return a prompt for comparison: normalized, without regard to case, spaces and a final full stop."""
    return " ".join(normalize(text).casefold().split()).rstrip(".")


def is_printable(text: str) -> bool:
    """Return whether a text is printable; joiners are, in scripts that need them."""
    return all(character.isprintable() or character in _JOINERS for character in normalize(text))


@cache
def may_change() -> frozenset[str]:
    """Return the characters that are removed or changed in any position; accents join the previous character."""
    # Other planes have no such characters.
    characters = map(chr, (*range(0x80, 0x20000), *range(0xE0000, 0xE1000)))
    return frozenset((*_HYPHENS, *(c for c in characters if unicodedata.category(c) in ("Cf", "Zs"))))


def _pieces(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield pieces of the normalized text, mostly characters, each with its start and end in the original text."""
    run, start, end = "", 0, 0
    for index, character in enumerate(text):
        character = _convert_character(character, run)
        if not character:
            continue
        # An accent, or a part of a syllable, joins the previous characters.
        if run and (unicodedata.combining(character) or _composes(run, character)):
            run, end = run + character, index + 1
            continue
        if run:
            yield unicodedata.normalize("NFC", run), start, end
        run, start, end = character, index, index + 1
    if run:
        yield unicodedata.normalize("NFC", run), start, end


def _composes(run: str, character: str) -> bool:
    """Return whether a character that is not an accent composes with those before it, like parts of syllables."""
    if character.isascii() or len(run) > 3:
        return False
    combined = unicodedata.normalize("NFC", run + character)
    return len(combined) == len(unicodedata.normalize("NFC", run))


def _convert_character(character: str, preceding: str) -> str:
    """Return the normalized character, given the text before it; empty if it is removed."""
    if character.isascii():
        return character
    if character in _HYPHENS:
        return "-"
    if character in _JOINERS:
        code = ord(preceding[-1]) if preceding else 0
        return character if any(low <= code <= high for low, high in _JOINING_SCRIPTS) else ""
    category = unicodedata.category(character)
    if category == "Zs":
        return " "
    return "" if category == "Cf" and character not in _VISIBLE else character
