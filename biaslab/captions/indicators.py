"""Which captions say a gender outright: by a word, a pronoun, a form of address or a first name (paradox, A.5).

Words and pronouns are those of the paper, with the words' plurals. Names follow one of two rules:

``gazetteer`` (default) needs capitals. Every name comes from gender-guesser's dictionary; a name that it calls
mostly female or mostly male counts as female or male, one used for both counts as nothing. A name counts

1. when a surname follows it, initials and particles (de, van, …) between them allowed: a capitalised word that
   is no common caption word and no place. Where the first name is itself a word, a brand or a trade (Mark,
   Rose, Baker) or has two letters (Ed), the surname must be no word at all. Places (Paris, Virginia) are never
   first names;
2. when a title or a trade stands before it (Dr. Maria), unless it is a usual surname too (Dr. Thomas).

It does not count inside a longer name of something else: after San, Port, Lake, …, before Street, University,
…, or as a brand (Calvin Klein). Mr, Mrs and the like say a gender themselves. A caption without any small
letter, or without any capital, has no names: there, only Mr and Mrs count. In a headline, where nearly every word
is capitalised, capitals say little: there the surname must be no caption word at all.
A first name that stands alone is not found, nor is a name that gender-guesser does not know.
How often the rule is right was measured on captions labelled by hand (:func:`agreement`).

``spacy`` takes the persons that spaCy's en_core_web_lg finds, as the paper does, and the first word of each that
is no title. ``off`` leaves names out.

Gender is binary here because the paper's word lists and gender-guesser are; that is their limit.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from itertools import repeat
from operator import itemgetter
from typing import Literal

import pandas as pd

from biaslab import lexicons
from biaslab.ground.errors import InputError, ParameterError, name_help
from biaslab.ground.plaintext import places, plain

NAMES = ("gazetteer", "spacy", "off")
# In which ways 430 captions of GCC's validation split were measured, and what these are called: against which labels,
# in which capitals, and with persons' names put back.
WAYS = {
    ("label", "none", False): "as in the file",
    ("label", "sentence", False): "with capitals",
    ("label", "headline", False): "as headlines",
    ("label", "none", True): "with names, no capitals",
    ("label", "sentence", True): "with names and capitals",
    ("label", "headline", True): "with names, as headlines",
    ("any_word", "none", False): "as in the file, against any word",
}
_TARGETS = {"any": "any indicator", "female": "female", "male": "male", "name": "persons' names"}
INDICATORS = ("none", "female", "male", "both")
_WORD = re.compile(r"[^\W_]+")
_LETTERS = re.compile(r"[^\W\d_]+")
# A word of a name: letters with inner hyphens and apostrophes, and the dot of an abbreviation.
_NAME_WORD = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*\.?")
_LAST_NAME_WORD = re.compile(rf"{_NAME_WORD.pattern}\Z")
_SPACES = re.compile(r"\s+")
# Of ASCII, all that is no part of a word, or no letter, as a space.
_WORD_CHARACTERS, _LETTER_CHARACTERS = (
    {i: " " for i in range(128) if not part(chr(i))} for part in (str.isalnum, str.isalpha)
)
# Start, end, gender and kind of a place, as in Span.
_Said = tuple[int, int, str, str]
_WORD_AFTER, _AND_AFTER = re.compile(r"\.?\s+([^\W\d_])"), re.compile(r"\.?\s*[&+]")
# What may stand between a first name and a surname.
_PARTICLES = frozenset((
    "de", "da", "do", "dos", "di", "du", "del", "della", "der", "den", "von", "van", "la",
    "le", "el", "al", "bin",
))  # fmt: skip
_SPACY_MODEL = "en_core_web_lg"
# A caption counts as a headline when it has this many words of four letters and more, nearly all capitalised.
_HEADLINE_WORDS, _HEADLINE_SHARE = 4, 0.8
# How far back a word is read that may be a title; no title is as long.
_TITLE_LETTERS = 40
# What a word is by the lists, and by how it is written, as bits.
_NEVER, _DOUBTFUL, _SURNAME_TOO, _SURNAME_WORD, _CAPTION, _INSTITUTION, _PLACE, _ALSO_NAME = (
    1 << i for i in range(8)
)
_TITLE, _OPENER, _PARTICLE, _CAPITAL, _PROPER, _INITIAL, _SHORT = (1 << i for i in range(8, 15))
# So many letters of a word are looked at and remembered: those of names come again and again.
_REMEMBERED = 64


@dataclass(frozen=True)
class Span:
    """One place in a caption that says a gender."""

    start: int  # Index of its first character in the caption.
    end: int  # Index after its last character.
    gender: Literal["female", "male"]
    kind: Literal["word", "pronoun", "title", "name"]


def parse_spans(spans: str) -> list[Span]:
    """Return the spans that a cell of the column ``spans`` holds.

    Raises InputError: The text is not of the form ``start:end:gender-kind;…``.
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
        One row a caption, in order and with the index of ``texts`` where that is a Series: ``indicator`` (``none``,
        ``female``, ``male`` or ``both``) and ``spans``, the places that decided, written ``start:end:gender-kind`` in
        characters, in order, joined by semicolons; kinds are word, pronoun, title and name.

    Raises ParameterError: ``names`` is unknown, or spaCy or its model is not installed.
    """
    if names not in NAMES:
        raise ParameterError(f"names is {names!r}. {name_help(names, NAMES)}")
    index = texts.index if isinstance(texts, pd.Series) else None
    given = [text if isinstance(text, str) else "" for text in texts]
    texts = [plain(text) for text in given]
    persons = {"gazetteer": map(_names, texts), "spacy": _spacy(texts), "off": repeat(())}[names]
    labels, spans = ["none"] * len(texts), [""] * len(texts)
    for i, (said, named) in enumerate(zip(map(_words, texts), persons, strict=False)):
        if not said and not named:
            continue
        found = sorted([*said, *named], key=itemgetter(0, 1))
        if texts[i] is not given[i]:
            at = places(given[i])
            found = [(*at.span(start, end), *what) for start, end, *what in found]
        genders = {gender for _, _, gender, _ in found}
        labels[i] = "both" if len(genders) == 2 else genders.pop()
        spans[i] = ";".join([f"{start}:{end}:{gender}-{kind}" for start, end, gender, kind in found])
    return pd.DataFrame({"indicator": labels, "spans": spans}, index=index, dtype=object)


def indicate(names: str, captions: pd.DataFrame) -> pd.DataFrame:
    """Return indicator and spans of captions (column text), as :func:`indicators` does for ``names``."""
    found = indicators(captions["text"].tolist(), names=names)
    return found[["indicator", "spans"]].reset_index(drop=True)


@cache
def first_names() -> Mapping[str, str]:
    """Return gender-guesser's dictionary: first name, capitalised, to ``female`` or ``male``.

    Names used for both are left out; mostly female and mostly male ones count as female and male.
    """
    from gender_guesser.detector import Detector

    detector = Detector()
    guessed = ((name, detector.get_gender(name).removeprefix("mostly_")) for name in detector.names)
    return {name: gender for name, gender in guessed if gender in ("female", "male")}


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


def _words(text: str) -> Sequence[_Said]:
    lexicon, titles = _lexicon(), _titles()
    # Most captions hold none, which is seen faster so, and of ASCII fastest.
    low = text.lower()
    words = low.translate(_WORD_CHARACTERS).split() if text.isascii() else _WORD.findall(low)
    if lexicon.keys().isdisjoint(words) and titles.keys().isdisjoint(words):
        return ()
    found = []
    for match in _WORD.finditer(text):
        word = match[0].lower()
        if word in lexicon:
            found.append((match.start(), match.end(), *lexicon[word]))
        elif word in titles and _is_title(text, match, word):
            found.append((match.start(), match.end(), titles[word], "title"))
    return found


def _names(text: str) -> Sequence[_Said]:
    if text.islower():
        return ()
    beginnings = _beginnings()
    words = text.translate(_LETTER_CHARACTERS).split() if text.isascii() else _LETTERS.findall(text)
    if beginnings.isdisjoint(words):
        return ()
    found, last = [], 0
    for match in _NAME_WORD.finditer(text):
        start = match.start()
        if start >= last and _LETTERS.match(text, start)[0] in beginnings:
            last, gender = _name_at(text, start)
            if gender:
                found.append((start, last, gender, "name"))
    return found


@cache
def _beginnings() -> frozenset[str]:
    """Return first names, of those with hyphens and the like what is before these."""
    return frozenset(match[0] for match in map(_LETTERS.match, first_names()) if match)


def _is_title(text: str, match: re.Match, word: str) -> bool:
    """Whether a form of address is used as one: capitalised before a capital, or Mr or Mrs before any word."""
    after = _WORD_AFTER.match(text, match.end())
    if word in ("mr", "mrs"):
        return bool(after or _AND_AFTER.match(text, match.end()))
    # MS and MISS in capitals are rather abbreviations and headings than forms of address.
    return bool(after) and match[0].istitle() and after[1].isupper()


def _joined(text: str, start: int) -> Iterator[tuple[str, int]]:
    """Yield the word of a name at ``start`` and those after it with only spaces between, each with its end."""
    while match := _NAME_WORD.match(text, start):
        word = match[0]
        # A dot ends a sentence unless the word is an abbreviation or an initial.
        if word[-1] == "." and len(word) > 5:
            word = word[:-1]
        if word[-2:] in ("'s", "’s"):
            word = word[:-2]
        yield word, start + len(word)
        space = _SPACES.match(text, start + len(word))
        if not space:
            return
        start = space.end()


def _before(text: str, start: int) -> str:
    """Return the word before ``start`` in lower case without its dot, where only spaces stand between, else ``""``."""
    end = start
    while end and text[end - 1].isspace():
        end -= 1
    if end == start:
        return ""
    match = _LAST_NAME_WORD.search(text, max(0, end - _TITLE_LETTERS), end)
    if not match or (match[0][-1] == "." and len(match[0]) > 5) or match[0][-2:] in ("'s", "’s"):
        return ""
    return "" if 0 < match.start() == end - _TITLE_LETTERS else match[0].lower().rstrip(".")


def _name_words(text: str) -> list[str]:
    return [next(_joined(match[0], 0))[0] for match in _NAME_WORD.finditer(text)]


# The last caption's answer is kept: it is asked for each name of a caption.
@lru_cache(maxsize=1)
def _is_headline(text: str) -> bool:
    long = [word for word in _name_words(text) if len(word) >= 4]
    capitals = sum(word[0].isupper() for word in long)
    return len(long) >= _HEADLINE_WORDS and capitals >= _HEADLINE_SHARE * len(long)


@cache
def _lists() -> dict[str, int]:
    """Return word to what it is by the lists, as bits."""
    kinds = {
        "places": _NEVER | _PLACE,
        "words_also_names": _NEVER | _ALSO_NAME,
        "place_openers": _NEVER | _OPENER,
        "ambiguous_first_names": _DOUBTFUL,
        "surnames_too": _SURNAME_TOO,
        "surname_words": _SURNAME_WORD,
        "caption_words": _CAPTION,
        "institution_words": _INSTITUTION,
        "titles": _TITLE,
    }
    words = [(lexicons.load(name), bit) for name, bit in kinds.items()]
    bits: dict[str, int] = defaultdict(int)
    for some, bit in (*words, (_titles(), _TITLE), (_PARTICLES, _PARTICLE)):
        for word in some:
            bits[word] |= bit
    return dict(bits)


def _kinds(word: str) -> int:
    return _lists().get(word, 0)


def _low(word: str) -> str:
    return word.lower().rstrip(".")


def _look_up(word: str) -> tuple[int, int]:
    """Return what a word is by the lists and by how it is written, and what its part before a hyphen is, as bits."""
    return _looked_up(word[:_REMEMBERED])


@lru_cache(maxsize=1 << 16)
def _looked_up(word: str) -> tuple[int, int]:
    low = _low(word)
    written = 0
    if word[0].isupper():
        # A capital first and a small letter later are a name's.
        written = _CAPITAL | (_PROPER if any(c.islower() for c in word) else 0)
        written |= _INITIAL if len(word.rstrip(".")) == 1 else 0
    head = low.split("-")[0]
    return _kinds(low) | written, _kinds(head) | written | (_SHORT if len(head) < 2 else 0)


@lru_cache(maxsize=1 << 16)
def _first_name(word: str) -> str | None:
    """Return the gender of a word that may be a first name, or of its part before a hyphen, else None."""
    is_, _ = _look_up(word)
    if len(word) < 2 or not is_ & _PROPER or is_ & _NEVER or (len(word) == 2 and not is_ & _DOUBTFUL):
        return None
    known = first_names()
    return known.get(word) or known.get(word.split("-")[0])


def _name_at(text: str, start: int) -> tuple[int, str | None]:
    """Return the end of the name that starts at ``start``, or 0, and its gender, None where it is no person's."""
    words = _joined(text, start)
    first, end = next(words)
    gender = _first_name(first[:_REMEMBERED])
    before = _kinds(_before(text, start)) if gender else 0
    if not gender or before & _OPENER:
        return 0, None
    first_is = _kinds(_low(first))
    after = next(words, None)
    word = after
    for _ in range(4):
        if not word:
            break
        surname, last = word
        is_, head_is = _look_up(surname)
        word = next(words, None)
        if is_ & _INITIAL or (word and is_ & _PARTICLE):
            continue
        if not _is_surname(head_is, bool(first_is & _DOUBTFUL), text):
            break
        place = word and _names_a_place(word[0], words)
        brand = f"{_low(first)} {_low(surname)}" in lexicons.load("brand_names")
        return last, None if brand or place else gender
    if not before & _TITLE or first_is & (_DOUBTFUL | _SURNAME_TOO):
        return 0, None
    # A title before two capitalised words of which the second is no surname is rather part of another name.
    return end, None if after and _look_up(after[0])[0] & _CAPITAL and not _is_headline(text) else gender


def _is_surname(is_: int, doubtful: bool, text: str) -> bool:
    """Whether a word after a first name is its surname."""
    if not is_ & _PROPER or is_ & _SHORT:
        return False
    if is_ & _SURNAME_WORD and not doubtful and not (is_ & _CAPTION and _is_headline(text)):
        return True
    if is_ & (_CAPTION | _INSTITUTION) or (is_ & _PLACE and not is_ & _SURNAME_TOO):
        return False
    return not (is_ & _ALSO_NAME and (doubtful or _is_headline(text)))


def _names_a_place(word: str, words: Iterator[tuple[str, int]]) -> bool:
    """Whether one of the two capitalised words after a name makes it a street's, a school's, a ware's, …"""
    is_, _ = _look_up(word)
    if is_ & _CAPITAL and not is_ & _INSTITUTION:
        after = next(words, None)
        is_ = _look_up(after[0])[0] if after else 0
    return bool(is_ & _CAPITAL and is_ & _INSTITUTION)


@cache
def _spacy_model():
    try:
        import spacy

        return spacy.load(_SPACY_MODEL)
    except (ImportError, OSError) as error:
        raise ParameterError(
            f"names is 'spacy', which is not installed ({error}): pip install spacy, and python -m spacy download "
            f"{_SPACY_MODEL}; or set names to 'gazetteer'."
        ) from None


def _spacy(texts: Sequence[str]) -> Iterator[list[_Said]]:
    known, titles = first_names(), {*lexicons.load("titles"), *_titles()}
    for document in _spacy_model().pipe(texts):
        found = []
        for person in (entity for entity in document.ents if entity.label_ == "PERSON"):
            words = [word for word in _name_words(person.text) if _low(word) not in titles]
            gender = known.get(words[0].capitalize()) if words else None
            if gender:
                found.append((person.start_char, person.end_char, gender, "name"))
        yield found


_PLURALS = frozenset({"women", "ladies", "girls", "females", "men", "gents", "gentlemen", "boys", "males"})


def without_gender(texts: Iterable[str], *, names: str = "gazetteer") -> list[str]:
    """Return texts that say no gender: "person" or "people" for nouns and names, nothing for the other words.

    What is taken for a word of gender is what :func:`indicators` finds. Source: dalleval paper, appendix C.1.
    """
    texts = list(texts)
    return [
        _neutral(text, spans)
        for text, spans in zip(texts, indicators(texts, names=names)["spans"], strict=True)
    ]


def _neutral(text: str, spans: str) -> str:
    parts, last = [], 0
    for span in parse_spans(spans):
        word = text[span.start : span.end].lower()
        noun = span.kind == "name" or (span.kind == "word" and word not in ("female", "male"))
        parts += [text[last : span.start], ("people" if word in _PLURALS else "person") if noun else ""]
        last = span.end
    text = "".join([*parts, text[last:]])
    return re.sub(r"\s+([,.;:])", r"\1", _SPACES.sub(" ", text)).strip()


def agreement(split: str = "test") -> pd.DataFrame:
    """Return precision and recall of the indicators on captions labelled by hand, to show: cells as text.

    A row for each way of writing and target. Raises ParameterError for another split than ``dev`` and ``test``.
    """
    rows = measured()
    if split not in (splits := rows["split"].unique()):
        raise ParameterError(f"split is {split!r}. {name_help(split, splits)}")
    rows = rows[rows["split"] == split]
    ways = pd.MultiIndex.from_frame(rows[["against", "capitals", "persons"]]).map(WAYS)
    rows = rows.assign(captions=ways, found=rows["target"].map(_TARGETS))
    rows["text"] = [
        f"{row.value:.1f} % ({row.ci_low:.1f}–{row.ci_high:.1f}), n = {row.n}" if row.n else "none to count"
        for row in rows.itertuples()
    ]
    order = pd.MultiIndex.from_frame(rows[["captions", "found"]]).unique()
    table = rows.pivot(index=["captions", "found"], columns="statistic", values="text").loc[order]
    return table.rename_axis(columns=None).reset_index()


def measured() -> pd.DataFrame:
    """Return what was measured, in numbers: a row a split, way, target and statistic."""
    with resources.files(__package__).joinpath("data/indicator_agreement.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file)
