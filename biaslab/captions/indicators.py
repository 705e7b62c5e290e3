"""Gender indicators in captions: words, pronouns, forms of address and first names (paradox, A.5).

Words and pronouns are those of the paper, with the words' plurals. Names are recognized in one of two ways:

``gazetteer`` (default) needs capitals. Names are those of gender-guesser; mostly female and mostly male ones count as
female and male. A name counts

1. if a surname follows it, with or without initials and particles (de, van, …) between them. A surname is a capitalised
   word that is neither a common caption word nor a place. If the first name is also a word, a brand or a trade (Mark,
   Rose, Baker) or has two letters (Ed), the surname must not be any word. Places (Paris, Virginia) are never first
   names;
2. if a title or a trade precedes it (Dr. Maria), unless it is also a common surname (Dr. Thomas).

It does not count inside a longer name of something else: after San, Port, Lake, …, before Street, University, …, or as
a brand (Calvin Klein). In captions all in capitals, or without any, only names after Mr and Mrs count. In a headline
the surname must not be any caption word. :func:`agreement` returns the precision and recall of the rule.

``spacy`` uses the persons found by spaCy's en_core_web_lg, as the paper does, and the first word of each that is not a
title. ``off`` ignores names. Gender is binary here because the paper's word lists and gender-guesser are.
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

# Display names of the evaluations on 430 captions of GCC's validation split, by labels compared with, capitalisation,
# and whether persons' names were restored.
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
# ASCII characters that are not part of a word, or not letters, mapped to a space.
_WORD_CHARACTERS, _LETTER_CHARACTERS = (
    {i: " " for i in range(128) if not part(chr(i))} for part in (str.isalnum, str.isalpha)
)
# Start, end, gender and kind, as in Span.
_Mention = tuple[int, int, str, str]
_WORD_AFTER, _AND_AFTER = re.compile(r"\.?\s+([^\W\d_])"), re.compile(r"\.?\s*[&+]")
# Words that may occur between a first name and a surname.
_PARTICLES = frozenset((
    "de", "da", "do", "dos", "di", "du", "del", "della", "der", "den", "von", "van", "la",
    "le", "el", "al", "bin",
))  # fmt: skip
_SPACY_MODEL = "en_core_web_lg"
# A caption counts as a headline if it has at least this many words of four or more letters, with this share
# capitalised.
_HEADLINE_WORDS, _HEADLINE_SHARE = 4, 0.8
# Maximum number of words of a name up to its surname, and of the words after it that may make it the name of a place.
_LONGEST_NAME, _WORDS_AFTER = 5, 2


@dataclass(frozen=True)
class Span:
    """One position in a caption that indicates a gender."""

    start: int  # Index of its first character in the caption.
    end: int  # Index after its last character.
    gender: Literal["female", "male"]
    kind: Literal["word", "pronoun", "title", "name"]


def parse_spans(spans: str) -> list[Span]:
    """Return the spans in a cell of the column ``spans``, ``start:end:gender-kind;…``."""
    parts = (re.split("[:-]", part) for part in filter(None, spans.split(";")))
    return [Span(int(start), int(end), gender, kind) for start, end, gender, kind in parts]


def indicators(
    texts: Iterable[str | None],
    *,
    name_recognizer: str = "gazetteer",
    words: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> pd.DataFrame:
    """Label each caption with the gender that it states explicitly (paradox, A.5).

    Args:
        texts: Captions; a missing one has no indicator.
        name_recognizer: Recognizer of names: ``gazetteer``, ``spacy`` (needs spaCy and its model) or ``off``.
        words: Custom words that indicate ``female`` and ``male``, instead of the paper's words and forms of address.

    Returns:
        One row per caption, in order and with the index of ``texts`` if that is a Series: ``indicator`` (``none``,
        ``female``, ``male`` or ``both``) and ``spans``, the positions of all indicators, written
        ``start:end:gender-kind`` in characters, in order, joined by semicolons. Kinds are word, pronoun, title and
        name.

    Raises ParameterError: spaCy or its model is not installed.
    """
    index = texts.index if isinstance(texts, pd.Series) else None
    originals = [text if isinstance(text, str) else "" for text in texts]
    texts = [normalize(text) for text in originals]
    name_mentions = {"gazetteer": map(_find_names, texts), "spacy": _spacy(texts), "off": repeat(())}[name_recognizer]
    word_mentions = map(_custom_word_finder(words) if words else _find_words, texts)
    labels, spans = ["none"] * len(texts), [""] * len(texts)
    for i, (from_words, from_names) in enumerate(zip(word_mentions, name_mentions, strict=False)):
        if not from_words and not from_names:
            continue
        mentions = sorted([*from_words, *from_names], key=itemgetter(0, 1))
        if texts[i] is not originals[i]:
            positions = character_map(originals[i])
            mentions = [(*positions.span(start, end), *fields) for start, end, *fields in mentions]
        genders = {gender for _, _, gender, _ in mentions}
        labels[i] = "both" if len(genders) == 2 else genders.pop()
        spans[i] = ";".join([f"{start}:{end}:{gender}-{kind}" for start, end, gender, kind in mentions])
    return pd.DataFrame({"indicator": labels, "spans": spans}, index=index, dtype=object)


def indicate(name_recognizer: str, words: Mapping[str, Sequence[str]], captions: pd.DataFrame) -> pd.DataFrame:
    """Return the indicator and spans of captions (column text), see :func:`indicators`."""
    return indicators(captions["text"].tolist(), name_recognizer=name_recognizer, words=words)


def find_indicators(
    captions: pd.DataFrame,
    name_recognizer: str,
    words: Mapping[str, Sequence[str]],
    *,
    cache: ResultCache,
    progress: bool = True,
) -> pd.DataFrame:
    """Return the indicator and spans of captions (column text), see :func:`indicators`, cached in ``cache``."""
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


def _custom_word_finder(words: Mapping[str, Sequence[str]]) -> Callable[[str], Sequence[_Mention]]:
    """Return a function that finds custom words, which may contain spaces, marks and apostrophes, in a text."""
    # Both characters for an apostrophe are equivalent.
    apostrophes = {ord("’"): "'"}
    genders = {word.translate(apostrophes): gender for gender, forms in words.items() for word in forms}
    genders |= {word.casefold(): gender for word, gender in genders.items()}
    # The longest first, so that "girl friend" is not matched as "girl".
    alternatives = "|".join(map(re.escape, sorted(genders, key=len, reverse=True)))
    pattern = re.compile(rf"(?<![^\W_])(?:{alternatives})(?![^\W_])", re.IGNORECASE)

    def find_words(text: str) -> Sequence[_Mention]:
        matches = ((match, genders.get(match[0].casefold())) for match in pattern.finditer(text.translate(apostrophes)))
        return [(match.start(), match.end(), gender, "word") for match, gender in matches if gender]

    return find_words


def _find_words(text: str) -> Sequence[_Mention]:
    lexicon, titles = _lexicon(), _titles()
    # A fast check first, as most captions have no indicator; it is fastest for ASCII.
    low = text.lower()
    words = low.translate(_WORD_CHARACTERS).split() if text.isascii() else _WORD.findall(low)
    if lexicon.keys().isdisjoint(words) and titles.keys().isdisjoint(words):
        return ()
    mentions = []
    for match in _WORD.finditer(text):
        word = match[0].lower()
        if word in lexicon:
            mentions.append((match.start(), match.end(), *lexicon[word]))
        elif word in titles and _is_title(text, match, word):
            mentions.append((match.start(), match.end(), titles[word], "title"))
    return mentions


def _find_names(text: str) -> Sequence[_Mention]:
    if text.islower():
        return ()
    # A fast check first, as most captions have no first name.
    words = text.translate(_LETTER_CHARACTERS).split() if text.isascii() else _LETTERS.findall(text)
    if _first_parts().isdisjoint(words):
        return ()
    words = _name_words(text)
    long_words = [word for word in words if len(word.text) >= 4]
    is_headline = len(long_words) >= _HEADLINE_WORDS
    is_headline = is_headline and sum(word.capital for word in long_words) >= _HEADLINE_SHARE * len(long_words)
    mentions, i = [], 0
    while i < len(words):
        last_index, gender = _name_at(words, i, is_headline)
        if gender:
            mentions.append((words[i].start, words[last_index].end, gender, "name"))
        i = max(i, last_index) + 1
    return mentions


@cache
def _first_parts() -> frozenset[str]:
    """Return the letters of each first name up to a hyphen or other mark."""
    return frozenset(match[0] for match in map(_LETTERS.match, first_names()) if match)


def _is_title(text: str, match: re.Match, word: str) -> bool:
    """Return whether a word is used as a title: capitalised before a capital, or Mr or Mrs before any word."""
    next_letter = _WORD_AFTER.match(text, match.end())
    if word in ("mr", "mrs"):
        return bool(next_letter or _AND_AFTER.match(text, match.end()))
    # MS and MISS in capitals are more often abbreviations and headings than forms of address.
    return bool(next_letter) and match[0].istitle() and next_letter[1].isupper()


@dataclass(frozen=True)
class _Word:
    """A word of a caption that may be part of a name."""

    text: str
    start: int  # Index of its first character in the caption.
    joined: bool  # Whether only spaces separate it from the previous word.

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
        """Whether it begins with a capital and contains lower-case letters, as names do."""
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
    """Return the index of the last word of the name that begins at ``i``, or -1, and its gender, or None."""
    first_name, names = words[i], first_names()
    gender = names.get(first_name.text) or names.get(first_name.text.split("-")[0])
    if not gender or not first_name.proper or len(first_name.text) < 2:
        return -1, None
    is_ambiguous = first_name.is_in("ambiguous_first_names")
    is_other = first_name.is_in("places", "words_also_names", "place_openers")
    if is_other or (len(first_name.text) == 2 and not is_ambiguous):
        return -1, None
    previous = words[i - 1] if i and first_name.joined else None
    if previous and previous.is_in("place_openers"):
        return -1, None
    run = [first_name, *takewhile(attrgetter("joined"), words[i + 1 : i + 1 + _LONGEST_NAME + _WORDS_AFTER])]
    j = 1
    while j < min(_LONGEST_NAME, len(run)) and _is_between(run, j):
        j += 1
    if j < min(_LONGEST_NAME, len(run)) and _is_surname(run[j], is_ambiguous, is_headline):
        following = takewhile(attrgetter("capital"), run[j + 1 : j + 1 + _WORDS_AFTER])
        is_brand = f"{first_name.low} {run[j].low}" in _words_of("brand_names")
        return i + j, None if is_brand or any(word.is_in("institution_words") for word in following) else gender
    has_title = previous and previous.is_in("titles", "gender_titles")
    if not has_title or is_ambiguous or first_name.is_in("surnames_too"):
        return -1, None
    # A title before two capitalised words without a surname is probably part of another name.
    return i, None if len(run) > 1 and run[1].capital and not is_headline else gender


def _is_between(run: Sequence[_Word], j: int) -> bool:
    """Return whether a word may separate first name and surname: an initial, or a particle before another word."""
    word = run[j]
    is_initial = word.capital and len(word.text.rstrip(".")) == 1
    return is_initial or (word.low in _PARTICLES and j + 1 < len(run))


def _is_surname(word: _Word, is_ambiguous: bool, is_headline: bool) -> bool:
    """Return whether a word after a first name is its surname; of a hyphenated word, the first part is checked."""
    low = word.low.split("-")[0]
    if not word.proper or len(low) < 2:
        return False
    is_common = low in _words_of("caption_words")
    if low in _words_of("surname_words") and not is_ambiguous and not (is_headline and is_common):
        return True
    if is_common or low in _words_of("institution_words"):
        return False
    if low in _words_of("places") and low not in _words_of("surnames_too"):
        return False
    return not ((is_ambiguous or is_headline) and low in _words_of("words_also_names"))


@cache
def _spacy_model():
    try:
        import spacy

        return spacy.load(_SPACY_MODEL)
    except (ImportError, OSError) as error:
        raise ParameterError(
            f"captions.name_recognizer is 'spacy', but spaCy or its model is not installed ({error}). Run `pip install "
            f"spacy` and `python -m spacy download {_SPACY_MODEL}`, or set captions.name_recognizer to 'gazetteer'."
        ) from None


def _spacy(texts: Sequence[str]) -> Iterator[list[_Mention]]:
    names, titles = first_names(), {*lexicons.load("titles"), *_titles()}
    for document in _spacy_model().pipe(texts):
        mentions = []
        for person in (entity for entity in document.ents if entity.label_ == "PERSON"):
            words = [word.text for word in _name_words(person.text) if word.low not in titles]
            gender = names.get(words[0].capitalize()) if words else None
            if gender:
                mentions.append((person.start_char, person.end_char, gender, "name"))
        yield mentions


_PLURALS = frozenset({"women", "ladies", "girls", "females", "men", "gents", "gentlemen", "boys", "males"})


def remove_gender(texts: Iterable[str], *, name_recognizer: str = "gazetteer") -> list[str]:
    """Return texts without gender indicators: "person" or "people" for nouns and names, other words are removed.

    The indicators are those of :func:`indicators`. Source: dalleval paper, appendix C.1.
    """
    texts = list(texts)
    columns = indicators(texts, name_recognizer=name_recognizer)
    return [_remove_spans(text, spans) for text, spans in zip(texts, columns["spans"], strict=True)]


def _remove_spans(text: str, spans: str) -> str:
    parts, position = [], 0
    for span in parse_spans(spans):
        word = text[span.start : span.end].lower()
        noun = span.kind == "name" or (span.kind == "word" and word not in ("female", "male"))
        parts += [text[position : span.start], ("people" if word in _PLURALS else "person") if noun else ""]
        position = span.end
    text = "".join([*parts, text[position:]])
    return re.sub(r"\s+([,.;:])", r"\1", _SPACES.sub(" ", text)).strip()


def agreement(split: str = "test") -> pd.DataFrame:
    """Return precision and recall of the indicators on captions labelled by hand, formatted as text.

    The table has one row per variant of the captions and target. Raises ParameterError: ``split`` is neither ``dev``
    nor ``test``.
    """
    rows = error_rates()
    if split not in (splits := rows["split"].unique()):
        raise ParameterError(f"split is {split!r}. {name_help(split, splits)}")
    rows = rows[rows["split"] == split]
    descriptions = pd.MultiIndex.from_frame(rows[["against", "capitals", "persons"]]).map(WAYS)
    rows = rows.assign(captions=descriptions, indicators=rows["target"].map(_TARGETS))
    rows["text"] = [
        f"{row.value:.1f}% ({row.ci_low:.1f}–{row.ci_high:.1f}), n = {row.n}" if row.n else "no captions"
        for row in rows.itertuples()
    ]
    order = pd.MultiIndex.from_frame(rows[["captions", "indicators"]]).unique()
    table = rows.pivot(index=["captions", "indicators"], columns="statistic", values="text").loc[order]
    return table.rename_axis(columns=None).reset_index()


def error_rates() -> pd.DataFrame:
    """Return the measured precision and recall, one row per split, variant, target and statistic."""
    with resources.files(__package__).joinpath("data/indicator_agreement.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file)
