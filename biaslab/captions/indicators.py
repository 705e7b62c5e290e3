"""Which captions say a gender outright: by a word, a pronoun, a form of address or a first name (paradox, A.5).

Words and pronouns are those of the paper, with the words' plurals. Names follow one of two rules:

``gazetteer`` (default) needs capitals. Names are gender-guesser's, of which mostly female and mostly male ones count
as female and male. A name counts

1. when a surname follows it, initials and particles (de, van, …) between them allowed: a capitalised word that is no
   common caption word and no place. Where the first name is itself a word, a brand or a trade (Mark, Rose, Baker) or
   has two letters (Ed), the surname must be no word at all. Places (Paris, Virginia) are never first names;
2. when a title or a trade stands before it (Dr. Maria), unless it is a usual surname too (Dr. Thomas).

It does not count inside a longer name of something else: after San, Port, Lake, …, before Street, University, …, or as
a brand (Calvin Klein). Captions all in capitals, or without any, have no names but those after Mr and Mrs; in a
headline the surname must be no caption word at all. :func:`agreement` says how often the rule is right.

``spacy`` takes the persons that spaCy's en_core_web_lg finds, as the paper does, and the first word of each that
is no title. ``off`` leaves names out. Gender is binary here because the paper's word lists and gender-guesser are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from importlib import resources
from itertools import chain, repeat, takewhile
from operator import attrgetter, itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import pandas as pd

from biaslab import lexicons
from biaslab.errors import ParameterError, name_help
from biaslab.io.plaintext import character_map, normalize

if TYPE_CHECKING:
    from biaslab.cache.result_cache import ResultCache

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
_SHARD_CAPTIONS = 8192
_TARGETS = {"any": "any indicator", "female": "female", "male": "male", "name": "persons' names"}
INDICATORS = ("none", "female", "male", "both")
_WORD = re.compile(r"[^\W_]+")
_LETTERS = re.compile(r"[^\W\d_]+")
# A word of a name: letters with inner hyphens and apostrophes, and the dot of an abbreviation.
_NAME_WORD = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*\.?")
_SPACES = re.compile(r"\s+")
# Of ASCII, all that is no part of a word, or no letter, as a space.
_WORD_CHARACTERS, _LETTER_CHARACTERS = (
    {i: " " for i in range(128) if not part(chr(i))} for part in (str.isalnum, str.isalpha)
)
# Start, end, gender and kind of a place, as in Span.
_Mention = tuple[int, int, str, str]
_WORD_AFTER, _AND_AFTER = re.compile(r"\.?\s+([^\W\d_])"), re.compile(r"\.?\s*[&+]")
# What may stand between a first name and a surname.
_PARTICLES = frozenset((
    "de", "da", "do", "dos", "di", "du", "del", "della", "der", "den", "von", "van", "la",
    "le", "el", "al", "bin",
))  # fmt: skip
_SPACY_MODEL = "en_core_web_lg"
# A caption counts as a headline when it has this many words of four letters and more, nearly all capitalised.
_HEADLINE_WORDS, _HEADLINE_SHARE = 4, 0.8
# Words of a name up to its surname at most, and those behind it that may make it a place's.
_LONGEST_NAME, _BEHIND = 5, 2


@dataclass(frozen=True)
class Span:
    """One place in a caption that says a gender."""

    start: int  # Index of its first character in the caption.
    end: int  # Index after its last character.
    gender: Literal["female", "male"]
    kind: Literal["word", "pronoun", "title", "name"]


def parse_spans(spans: str) -> list[Span]:
    """Return the spans that a cell of the column ``spans`` holds, ``start:end:gender-kind;…``."""
    parts = (re.split("[:-]", part) for part in filter(None, spans.split(";")))
    return [Span(int(start), int(end), gender, kind) for start, end, gender, kind in parts]


def indicators(
    texts: Iterable[str | None],
    *,
    name_recognizer: str = "gazetteer",
    words: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> pd.DataFrame:
    """Label each caption with the gender it says outright (paradox, A.5).

    Args:
        texts: Captions; a missing one says nothing.
        name_recognizer: Recognizer of names: ``gazetteer``, ``spacy`` (needs spaCy and its model) or ``off``.
        words: Custom words that indicate ``female`` and ``male``, in place of the paper's and of forms of address.

    Returns:
        One row a caption, in order and with the index of ``texts`` where that is a Series: ``indicator`` (``none``,
        ``female``, ``male`` or ``both``) and ``spans``, the places that decided, written ``start:end:gender-kind`` in
        characters, in order, joined by semicolons; kinds are word, pronoun, title and name.

    Raises ParameterError: spaCy or its model is not installed.
    """
    index = texts.index if isinstance(texts, pd.Series) else None
    given = [text if isinstance(text, str) else "" for text in texts]
    texts = [normalize(text) for text in given]
    persons = {"gazetteer": map(_names, texts), "spacy": _spacy(texts), "off": repeat(())}[name_recognizer]
    said_in = map(_own_words(words) if words else _words, texts)
    labels, spans = ["none"] * len(texts), [""] * len(texts)
    for i, (said, named) in enumerate(zip(said_in, persons, strict=False)):
        if not said and not named:
            continue
        found = sorted([*said, *named], key=itemgetter(0, 1))
        if texts[i] is not given[i]:
            at = character_map(given[i])
            found = [(*at.span(start, end), *what) for start, end, *what in found]
        genders = {gender for _, _, gender, _ in found}
        labels[i] = "both" if len(genders) == 2 else genders.pop()
        spans[i] = ";".join([f"{start}:{end}:{gender}-{kind}" for start, end, gender, kind in found])
    return pd.DataFrame({"indicator": labels, "spans": spans}, index=index, dtype=object)


def indicate(name_recognizer: str, words: Mapping[str, Sequence[str]], captions: pd.DataFrame) -> pd.DataFrame:
    """Return indicator and spans of captions (column text), as :func:`indicators` does."""
    return indicators(captions["text"].tolist(), name_recognizer=name_recognizer, words=words)


def find_indicators(
    captions: pd.DataFrame,
    name_recognizer: str,
    words: Mapping[str, Sequence[str]],
    *,
    cache: ResultCache,
    progress: bool = True,
) -> pd.DataFrame:
    """Return indicator and spans of captions (column text), as :func:`indicators`; earlier results are read."""
    inputs = {"name_recognizer": name_recognizer, **words}
    stage = cache.stage("indicators", inputs, partial(indicate, name_recognizer, words))
    options = {"label": "gender indicators", "unit": "captions", "progress": progress}
    mentions = stage.compute(captions[["text"]], shard_rows=_SHARD_CAPTIONS, **options)
    return mentions if len(mentions) else pd.DataFrame(columns=["indicator", "spans"], dtype=object)


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


def _own_words(words: Mapping[str, Sequence[str]]) -> Callable[[str], Sequence[_Mention]]:
    """Return what finds custom words, which may have blanks, marks and apostrophes in them, in a text."""
    # An apostrophe is written in two ways.
    alike = {ord("’"): "'"}
    of = {word.translate(alike): gender for gender, listed in words.items() for word in listed}
    of |= {word.casefold(): gender for word, gender in of.items()}
    # The longest first, so that "girl friend" is not taken for "girl".
    either = "|".join(map(re.escape, sorted(of, key=len, reverse=True)))
    whole = re.compile(rf"(?<![^\W_])(?:{either})(?![^\W_])", re.IGNORECASE)

    def said(text: str) -> Sequence[_Mention]:
        found = ((match, of.get(match[0].casefold())) for match in whole.finditer(text.translate(alike)))
        return [(match.start(), match.end(), gender, "word") for match, gender in found if gender]

    return said


def _words(text: str) -> Sequence[_Mention]:
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


def _names(text: str) -> Sequence[_Mention]:
    if text.islower():
        return ()
    # Most captions hold no first name, which is seen faster so.
    words = text.translate(_LETTER_CHARACTERS).split() if text.isascii() else _LETTERS.findall(text)
    if _beginnings().isdisjoint(words):
        return ()
    words = _name_words(text)
    long = [word for word in words if len(word.text) >= 4]
    is_headline = len(long) >= _HEADLINE_WORDS
    is_headline = is_headline and sum(word.capital for word in long) >= _HEADLINE_SHARE * len(long)
    found, i = [], 0
    while i < len(words):
        last, gender = _name_at(words, i, is_headline)
        if gender:
            found.append((words[i].start, words[last].end, gender, "name"))
        i = max(i, last) + 1
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


@dataclass(frozen=True)
class _Word:
    """A word of a caption, as names are made of them."""

    text: str
    start: int  # Index of its first character in the caption.
    joined: bool  # Whether only spaces stand between it and the word before.

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @cached_property
    def low(self) -> str:
        return self.text.lower().rstrip(".")

    @property
    def capital(self) -> bool:
        return self.text[0].isupper()

    @property
    def proper(self) -> bool:
        """Whether it begins with a capital, and holds small letters, as names do."""
        return self.capital and any(c.islower() for c in self.text)

    def is_in(self, *lists: str) -> bool:
        return any(self.low in _words_of(name) for name in lists)


@cache
def _words_of(name: str) -> frozenset[str]:
    words = lexicons.load(name)
    return frozenset(chain.from_iterable(words.values()) if isinstance(words, Mapping) else words)


def _name_words(text: str) -> list[_Word]:
    words, end = [], 0
    for match in _NAME_WORD.finditer(text):
        word = match[0]
        # A dot ends a sentence unless the word is an abbreviation or an initial.
        if len(word) > 5:
            word = word.removesuffix(".")
        if word[-2:] in ("'s", "’s"):
            word = word[:-2]
        words.append(_Word(word, match.start(), bool(words) and text[end : match.start()].isspace()))
        end = words[-1].end
    return words


def _name_at(words: Sequence[_Word], i: int, is_headline: bool) -> tuple[int, str | None]:
    """Return the last word of the name that begins with a word, or -1, and its gender, None where it is no person's."""
    first, known = words[i], first_names()
    gender = known.get(first.text) or known.get(first.text.split("-")[0])
    if not gender or not first.proper or len(first.text) < 2:
        return -1, None
    doubtful = first.is_in("ambiguous_first_names")
    if first.is_in("places", "words_also_names", "place_openers") or (len(first.text) == 2 and not doubtful):
        return -1, None
    before = words[i - 1] if i and first.joined else None
    if before and before.is_in("place_openers"):
        return -1, None
    joined = [first, *takewhile(attrgetter("joined"), words[i + 1 : i + 1 + _LONGEST_NAME + _BEHIND])]
    j = 1
    while j < min(_LONGEST_NAME, len(joined)) and _is_between(joined, j):
        j += 1
    if j < min(_LONGEST_NAME, len(joined)) and _is_surname(joined[j], doubtful, is_headline):
        behind = takewhile(attrgetter("capital"), joined[j + 1 : j + 1 + _BEHIND])
        brand = f"{first.low} {joined[j].low}" in _words_of("brand_names")
        return i + j, None if brand or any(word.is_in("institution_words") for word in behind) else gender
    titled = before and before.is_in("titles", "gender_titles")
    if not titled or doubtful or first.is_in("surnames_too"):
        return -1, None
    # A title before two capitalised words of which the second is no surname is rather part of another name.
    return i, None if len(joined) > 1 and joined[1].capital and not is_headline else gender


def _is_between(joined: Sequence[_Word], j: int) -> bool:
    """Whether a word stands between first name and surname: an initial, or a particle before another word."""
    word = joined[j]
    is_initial = word.capital and len(word.text.rstrip(".")) == 1
    return is_initial or (word.low in _PARTICLES and j + 1 < len(joined))


def _is_surname(word: _Word, doubtful: bool, is_headline: bool) -> bool:
    """Whether a word after a first name is its surname; of two with a hyphen the first one counts."""
    low = word.low.split("-")[0]
    if not word.proper or len(low) < 2:
        return False
    is_common = low in _words_of("caption_words")
    if low in _words_of("surname_words") and not doubtful and not (is_headline and is_common):
        return True
    if is_common or low in _words_of("institution_words"):
        return False
    if low in _words_of("places") and low not in _words_of("surnames_too"):
        return False
    return not ((doubtful or is_headline) and low in _words_of("words_also_names"))


@cache
def _spacy_model():
    try:
        import spacy

        return spacy.load(_SPACY_MODEL)
    except (ImportError, OSError) as error:
        raise ParameterError(
            f"captions.name_recognizer is 'spacy', which is not installed ({error}): pip install spacy, and "
            f"python -m spacy download {_SPACY_MODEL}; or set it to 'gazetteer'."
        ) from None


def _spacy(texts: Sequence[str]) -> Iterator[list[_Mention]]:
    known, titles = first_names(), {*lexicons.load("titles"), *_titles()}
    for document in _spacy_model().pipe(texts):
        found = []
        for person in (entity for entity in document.ents if entity.label_ == "PERSON"):
            words = [word.text for word in _name_words(person.text) if word.low not in titles]
            gender = known.get(words[0].capitalize()) if words else None
            if gender:
                found.append((person.start_char, person.end_char, gender, "name"))
        yield found


_PLURALS = frozenset({"women", "ladies", "girls", "females", "men", "gents", "gentlemen", "boys", "males"})


def remove_gender(texts: Iterable[str], *, name_recognizer: str = "gazetteer") -> list[str]:
    """Return texts that say no gender: "person" or "people" for nouns and names, nothing for the other words.

    What is taken for a word of gender is what :func:`indicators` finds. Source: dalleval paper, appendix C.1.
    """
    texts = list(texts)
    columns = indicators(texts, name_recognizer=name_recognizer)
    return [_neutral(text, spans) for text, spans in zip(texts, columns["spans"], strict=True)]


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
    rows = error_rates()
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


def error_rates() -> pd.DataFrame:
    """Return what was measured, in numbers: a row a split, way, target and statistic."""
    with resources.files(__package__).joinpath("data/indicator_agreement.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file)
