"""Which captions say a gender outright: by a word, a pronoun, a form of address or a first name (paradox, A.5).

Words and pronouns are those of the paper, with the words' plurals. Names follow one of two rules:

``gazetteer`` (default) needs capitals. Every name comes from gender-guesser's dictionary; a name that it calls
mostly female or mostly male counts as female or male, one used for both counts as nothing. A name counts

1. when a surname follows it, initials and particles (de, van, …) between them allowed: a capitalised word that
   is no common caption word and no place. Where the first name is itself a word, a brand or a trade (Mark,
   Rose, Baker), the surname must be no word at all. Places (Paris, Virginia) are never first names;
2. when a title or a trade stands before it (Dr. Maria), unless it is a usual surname too (Dr. Thomas).

It does not count inside a longer name of something else: after San, Port, Lake, …, before Street, University,
…, or as a brand (Calvin Klein). Mr, Mrs and the like say a gender themselves. A caption without any small
letter, or without any capital, has no names: there, only Mr and Mrs count. In a headline, where nearly every word
is capitalised, capitals say little: there the surname must be no caption word at all.
A first name that stands alone is not found, nor is a name that gender-guesser does not know.

``spacy`` takes the persons that spaCy's en_core_web_lg finds, as the paper does, and the first word of each that
is no title. ``off`` leaves names out.

Gender is binary here because the paper's word lists and gender-guesser are; that is their limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

from biaslab import lexicons
from biaslab.errors import InputError, ParameterError, name_help

if TYPE_CHECKING:
    import pandas as pd

NAMES = ("gazetteer", "spacy", "off")
INDICATORS = ("none", "female", "male", "both")
_WORD = re.compile(r"[^\W_]+")
# A word of a name: letters with inner hyphens and apostrophes, and the dot of an abbreviation.
_NAME_WORD = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*\.?")
_TWO_CAPITALISED = re.compile(r"[A-ZÀ-ÖØ-ÞĀ-Ž][^\W\d_]*[\w.'’-]*\s+(?:\w{1,3}\.?\s+){0,3}[A-ZÀ-ÖØ-ÞĀ-Ž]")
# What may stand between a first name and a surname.
_PARTICLES = frozenset(
    (
        "de",
        "da",
        "do",
        "dos",
        "di",
        "du",
        "del",
        "della",
        "der",
        "den",
        "von",
        "van",
        "la",
        "le",
        "el",
        "al",
        "bin",
    )
)
_SPACY_MODEL = "en_core_web_lg"
# A caption counts as a headline when it has this many words of four letters and more, nearly all capitalised.
_HEADLINE_WORDS, _HEADLINE_SHARE = 4, 0.8


@dataclass(frozen=True)
class Span:
    """One place in a caption that says a gender."""

    start: int
    """Index of its first character in the caption."""
    end: int
    """Index after its last character."""
    gender: Literal["female", "male"]
    """The gender it says."""
    kind: Literal["word", "pronoun", "title", "name"]
    """What it is."""

    def __str__(self) -> str:
        return f"{self.start}:{self.end}:{self.gender}-{self.kind}"


def parse_spans(spans: str) -> list[Span]:
    """Return the spans that a cell of the column ``spans`` holds.

    Raises:
        InputError: The text is not of the form ``start:end:gender-kind;…``.
    """
    found = []
    for part in filter(None, spans.split(";")):
        match = re.fullmatch(r"(\d+):(\d+):(female|male)-(word|pronoun|title|name)", part)
        if not match:
            raise InputError(
                f"{part!r} is no span; a span is written start:end:gender-kind, such as 0:5:female-word."
            )
        found.append(Span(int(match[1]), int(match[2]), match[3], match[4]))
    return found


def indicators(texts: Iterable[str | None], *, names: str = "gazetteer") -> pd.DataFrame:
    """Label each caption with the gender it says outright (paradox, A.5).

    Args:
        texts: Captions; a missing one says nothing.
        names: How names are found: ``gazetteer``, ``spacy`` (needs spaCy and its model) or ``off``.

    Returns:
        One row a caption, in order and with the index of ``texts`` where that is a Series: ``indicator``
        (``none``, ``female``, ``male`` or ``both``) and ``spans``, the places that decided, written
        ``start:end:gender-kind`` in characters, in order, joined by semicolons; kinds are word, pronoun, title
        and name.

    Raises:
        ParameterError: ``names`` is unknown, or spaCy or its model is not installed.
    """
    import pandas as pd

    if names not in NAMES:
        raise ParameterError(f"names is {names!r}. {name_help(names, NAMES)}")
    index = texts.index if isinstance(texts, pd.Series) else None
    texts = [text if isinstance(text, str) else "" for text in texts]
    named = _finder(names)(texts)
    labels, spans = [], []
    for text, persons in zip(texts, named, strict=True):
        found = sorted((*_words(text), *persons), key=lambda s: (s.start, s.end))
        genders = {span.gender for span in found}
        labels.append("both" if len(genders) == 2 else next(iter(genders), "none"))
        spans.append(";".join(map(str, found)))
    return pd.DataFrame({"indicator": labels, "spans": spans}, index=index, dtype=object)


@cache
def first_names() -> Mapping[str, str]:
    """Return gender-guesser's dictionary: first name, capitalised, to ``female`` or ``male``.

    Names used for both are left out; mostly female and mostly male ones count as female and male.
    """
    from gender_guesser.detector import Detector

    detector = Detector()
    guessed = ((name, detector.get_gender(name).removeprefix("mostly_")) for name in detector.names)
    return {name: gender for name, gender in guessed if gender in ("female", "male")}


def _finder(names: str) -> Callable[[Sequence[str]], Iterable[list[Span]]]:
    if names == "gazetteer":
        return lambda texts: map(_gazetteer, texts)
    return _spacy if names == "spacy" else lambda texts: ([] for _ in texts)


@cache
def _lexicon() -> dict[str, tuple[str, str]]:
    """Return word to (gender, kind) for gender words and pronouns."""
    return {
        word: (gender, kind)
        for kind, name in (("word", "gender_words"), ("pronoun", "gender_pronouns"))
        for gender, words in lexicons.load(name).items()
        for word in words
    }


@cache
def _titles() -> dict[str, str]:
    return {w: gender for gender, words in lexicons.load("gender_titles").items() for w in words}


@cache
def _set(name: str) -> frozenset[str]:
    return frozenset(lexicons.load(name))


def _words(text: str) -> Iterator[Span]:
    lexicon, titles = _lexicon(), _titles()
    known = lexicon.keys() | titles.keys()
    if known.isdisjoint(_WORD.findall(text.lower())):
        return
    for match in _WORD.finditer(text):
        word = match[0].lower()
        if word in lexicon:
            yield Span(match.start(), match.end(), *lexicon[word])
        elif word in titles and _is_title(text, match, word):
            yield Span(match.start(), match.end(), titles[word], "title")


def _is_title(text: str, match: re.Match, word: str) -> bool:
    """Whether a form of address is used as one: capitalised before a capital, or Mr or Mrs before any word."""
    after = re.match(r"\.?\s+([^\W\d_])", text[match.end() :])
    if word in ("mr", "mrs"):
        return bool(after) or bool(re.match(r"\.?\s*(?:&|\+)", text[match.end() :]))
    # MS and MISS in capitals are rather abbreviations and headings than forms of address.
    return bool(after) and match[0].istitle() and after[1].isupper()


@dataclass(frozen=True)
class _Token:
    """A word of a caption that may be part of a name."""

    text: str
    start: int
    end: int
    joined: bool
    """Whether only spaces stand between it and the word before."""

    @property
    def low(self) -> str:
        return self.text.lower().rstrip(".")

    @property
    def proper(self) -> bool:
        """Whether it is written like a name: a capital first and a small letter later."""
        return self.text[0].isupper() and any(c.islower() for c in self.text)

    @property
    def initial(self) -> bool:
        return len(self.text.rstrip(".")) == 1 and self.text[0].isupper()


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    end = 0
    for match in _NAME_WORD.finditer(text):
        word = match[0]
        # A dot ends a sentence unless the word is an abbreviation or an initial.
        if word.endswith(".") and len(word) > 5:
            word = word[:-1]
        word = re.sub(r"['’]s$", "", word)
        joined = bool(found) and text[end : match.start()].isspace()
        found.append(_Token(word, match.start(), match.start() + len(word), joined))
        end = match.start() + len(word)
    return found


def _gazetteer(text: str) -> list[Span]:
    if not _TWO_CAPITALISED.search(text) or text.upper() == text:
        return []
    tokens = _tokens(text)
    headline = _is_headline(tokens)
    found, i = [], 0
    while i < len(tokens):
        end, counts = _name_at(tokens, i, headline)
        if counts:
            gender = _gender(tokens[i].text)
            found.append(Span(tokens[i].start, tokens[end - 1].end, gender, "name"))
        i = max(i + 1, end)
    return found


def _is_headline(tokens: Sequence[_Token]) -> bool:
    long = [t for t in tokens if len(t.text) >= 4]
    capitals = sum(t.text[0].isupper() for t in long)
    return len(long) >= _HEADLINE_WORDS and capitals >= _HEADLINE_SHARE * len(long)


def _gender(name: str) -> str | None:
    """Return the gender of a first name, or of the first part of a hyphenated one; None where there is none."""
    known = first_names()
    return known.get(name) or known.get(name.split("-")[0])


def _name_at(tokens: Sequence[_Token], i: int, headline: bool) -> tuple[int, bool]:
    """Return the index after the name that starts at ``tokens[i]``, or 0, and whether it is a person's."""
    first = tokens[i]
    if len(first.text) < 3 or not first.proper or first.low in _no_first_name() or not _gender(first.text):
        return 0, False
    before = tokens[i - 1] if first.joined else None
    if before and before.low in _set("place_openers"):
        return 0, False
    doubtful = first.low in _set("ambiguous_first_names")
    last = _surname(tokens, i, doubtful, headline)
    if last:
        brand = f"{first.low} {tokens[last].low}" in _set("brand_names")
        return last + 1, not (brand or _names_a_place(tokens, last))
    titled = bool(before) and (before.low in _set("titles") or before.low in _titles())
    if not titled or doubtful or first.low in _set("surnames_too"):
        return 0, False
    # A title before two capitalised words of which the second is no surname is rather part of another name.
    after = tokens[i + 1] if i + 1 < len(tokens) and tokens[i + 1].joined else None
    return i + 1, headline or not (after and after.text[0].isupper())


def _surname(tokens: Sequence[_Token], i: int, doubtful: bool, headline: bool) -> int:
    """Return the index of the surname of the first name at ``tokens[i]``, or 0.

    Args:
        tokens: The caption's words.
        i: Where the first name is.
        doubtful: Whether the first name is a word, a brand or a place as well.
        headline: Whether capitals say little in this caption.
    """
    for j in range(i + 1, min(i + 5, len(tokens))):
        token = tokens[j]
        if not token.joined:
            return 0
        if token.initial or (token.low in _PARTICLES and j + 1 < len(tokens)):
            continue
        low = token.low.split("-")[0]
        if not token.proper or len(low) < 2:
            return 0
        if low in _set("surname_words") and not doubtful and not (headline and low in _set("caption_words")):
            return j
        if low in _set("caption_words") or low in _set("institution_words"):
            return 0
        if low in _set("places") and low not in _set("surnames_too"):
            return 0
        return 0 if (doubtful or headline) and low in _set("words_also_names") else j
    return 0


def _names_a_place(tokens: Sequence[_Token], last: int) -> bool:
    """Whether one of the two capitalised words after a name makes it a street's, a school's, a ware's, …"""
    for token in tokens[last + 1 : last + 3]:
        if not token.joined or not token.text[0].isupper():
            return False
        if token.low in _set("institution_words"):
            return True
    return False


@cache
def _no_first_name() -> frozenset[str]:
    return _set("places") | _set("words_also_names") | _set("place_openers")


@cache
def _spacy_model():
    try:
        import spacy
    except ImportError:
        raise ParameterError(
            f"names is 'spacy' but spaCy is not installed; run `pip install spacy` and "
            f"`python -m spacy download {_SPACY_MODEL}`, or set names to 'gazetteer'."
        ) from None
    try:
        return spacy.load(_SPACY_MODEL)
    except OSError:
        raise ParameterError(
            f"names is 'spacy' but its model is not installed; run `python -m spacy download {_SPACY_MODEL}`, "
            "or set names to 'gazetteer'."
        ) from None


def _spacy(texts: Sequence[str]) -> Iterator[list[Span]]:
    known, titles = first_names(), _set("titles") | _titles().keys()
    for document in _spacy_model().pipe(texts):
        found = []
        for person in (entity for entity in document.ents if entity.label_ == "PERSON"):
            words = [w for w in _tokens(person.text) if w.low not in titles]
            gender = known.get(words[0].text.capitalize()) if words else None
            if gender:
                found.append(Span(person.start_char, person.end_char, gender, "name"))
        yield found
