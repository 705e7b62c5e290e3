"""Triplets of prompts: a neutral caption, and the same with a woman or a man in the place of person.

Any corpus of captions gives them (:func:`neutral` and :func:`triplets`), and so do sentences on the professions of
Table 3 (:func:`professions`). The paper's own sentences are not published: these are ours, as many as its 811.

Source: triplets paper, section 3.1, Tables 2, 3 and 4.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache, partial
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from biaslab import lexicons, reference
from biaslab.cache.result_cache import ResultCache
from biaslab.captions.corpus import Corpus
from biaslab.captions.indicators import indicators
from biaslab.captions.search import Matcher, Mentions, hashes, over_parts
from biaslab.errors import ParameterError
from biaslab.io.plaintext import normalize
from biaslab.papers.triplets.person_filter import ascii_lower, shows_people

ONE = "{} (one triplet)"
"""What a dataset is called of which one triplet is repeated (section 7.1)."""
PROFESSION = "Profession"
"""What the paper calls the sentences on professions as a dataset."""
MEMBERS = ("neutral", "feminine", "masculine")
PLACEBO = "placebo"
"""A fourth prompt of a triplet: as neutral as the first, with another word for people."""
STEPS = {
    "captions": "",
    "person or people": "neither word in it",
    "gender": "a gender word of Table 2",
    "geography": "a geography word of Table 2",
    "others": "another word of Table 2",
    "plurals": "a plural of a word of Table 2",
    "different": "the same caption as before",
    "swappable": "a form that cannot be swapped (a people)",
    "no indicator": "a gender indicator beyond Table 2",
    "depicted": "nobody shown, or a gender said by another noun, by the rule",
    "sampled": "not drawn",
}
"""The steps of :func:`neutral`, and why each excludes captions."""
_SWAPPED = {
    "feminine": {"person": "woman", "people": "women"},
    "masculine": {"person": "man", "people": "men"},
    PLACEBO: {"person": "individual", "people": "individuals"},
}
_PREFIXES = {"feminine": "female", "masculine": "male", PLACEBO: "individual"}
# An article before a word that takes the other one.
_BEFORE = re.compile(r"\b(an?)(\s+)$", re.IGNORECASE)
_WORD = re.compile(r"\b(?:person|people)\b")
_ANY_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_NOT_SWAPPABLE = re.compile(r"\ban?\s+people\b")
# Pronouns and adjectives of Table 2, whose plurals by rule would be other words: is, us, hers.
_NO_PLURAL = frozenset((
    "she", "her", "hers", "herself", "he", "his", "him", "himself", "u", "me", "i", "myself", "pregnant", "teenage",
))  # fmt: skip
# Neutral captions after which duplicates are dropped.
_HELD = 2**20
# How far a neutral caption comes: steps after "different", and how many there are.
_REACHED = ("swappable", "no indicator", "depicted")
_KEPT = len(_REACHED)
# What is known of a caption; and of counts, which are kept next to them.
_COLUMNS = ["caption_id", "text", "key", "reached"]
_TYPES = {"what": object, "caption_id": object, "n": "Int64", "text": object, "key": "UInt64", "reached": "Int8"}


class Neutral(NamedTuple):
    """The neutral captions of a corpus, and what became of the others."""

    captions: pd.DataFrame
    """One row a caption, in the corpus's order: triplet_id, caption_id (of the first of equal ones), text."""
    funnel: pd.DataFrame
    """One row a step of :data:`STEPS`, in order: dataset, step, n_captions (left after it), n_excluded, excluded_by.
    A caption counts at the first step that excludes it."""
    words: pd.DataFrame
    """One row a word of Table 2: dataset, type, word, n_excluded: captions with person or people that hold it or its
    plural; one with several words counts for each."""


NO_CAPTIONS = Neutral(
    pd.DataFrame(columns=["triplet_id", "caption_id", "text", "dataset"], dtype=object),
    pd.DataFrame(columns=["dataset", "step", "n_captions", "n_excluded", "excluded_by"], dtype=object),
    pd.DataFrame(columns=["dataset", "type", "word", "n_excluded"], dtype=object),
)
"""Of no captions at all."""


@cache
def excluding() -> MappingProxyType[str, tuple[str, str, bool]]:
    """Return the forms that keep a caption from being neutral (Table 2): to word, type and whether it is a plural."""
    words = reference.load("triplets_table_2").drop_duplicates("word")
    found = {row.word.lower(): (row.word, row.type, False) for row in words.itertuples()}
    for form, (word, kind, _) in list(found.items()):
        for plural in () if form in _NO_PLURAL else lexicons.plurals(form):
            found.setdefault(plural, (word, kind, True))
    return MappingProxyType(found)


def triplet_id(text: str) -> str:
    """Return the id of a triplet: sixteen hex digits of its neutral text."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def neutral(
    corpus: Corpus,
    dataset: str,
    *,
    filter: Literal["depicted", "paper"] = "depicted",
    sample: int = 0,
    seed: int = 0,
    name_recognizer: str = "gazetteer",
    progress: bool = True,
    cache: ResultCache | None = None,
) -> Neutral:
    """Find the neutral captions of a corpus, in one pass (section 3.1).

    A caption is neutral if it holds person or people and no word of Table 2, as whole words in letters of either case,
    plurals excluded too; equal captions count once. "A people" is left out: it has no counterpart. Memory grows by some
    30 bytes for each different neutral caption, and by the texts that are kept.

    ``filter`` is ``paper`` for no more than the paper's rule; ``depicted`` leaves out captions with another gender
    indicator (:mod:`biaslab.captions.indicators`, to which ``name_recognizer`` goes), and those that seem to show
    no person (:mod:`~biaslab.papers.triplets.person_filter`). ``sample`` is the number of captions in a random sample,
    which depends on the seed and the texts only; 0 keeps all captions. Raises InputError: The corpus cannot be read.
    """
    chosen = {"filter": filter, "sample": sample, "seed": seed, "name_recognizer": name_recognizer}
    work = _Work(corpus, **chosen)
    counts: Counter[tuple[str, str]] = Counter()
    held: list[pd.DataFrame] = []
    for result in over_parts(corpus, work, "neutral_captions", chosen, progress=progress, cache=cache):
        is_caption = result["what"] == "caption"
        for row in result[~is_caption].itertuples():
            counts[row.what, row.caption_id] += row.n
        held = _held([*held, result.loc[is_caption, _COLUMNS]], sample)
    found = _different(held, sample) if held else pd.DataFrame(columns=_COLUMNS)
    kept = found[(found["reached"] == _KEPT) & found["text"].notna()]
    captions = kept[["caption_id", "text"]].reset_index(drop=True).astype(object)
    captions.insert(0, "triplet_id", [triplet_id(text) for text in captions["text"]])
    types = {word: kind for word, kind, _ in excluding().values()}
    words = pd.DataFrame(
        [(dataset, kind, word, counts["word", word]) for word, kind in types.items()],
        columns=["dataset", "type", "word", "n_excluded"],
    )
    return Neutral(captions, _funnel(dataset, counts, found["reached"], len(captions), filter), words)


def _funnel(
    dataset: str, counts: Counter[tuple[str, str]], reached: pd.Series, drawn: int, filter: str
) -> pd.DataFrame:
    left = {step: counts["step", step] for step in list(STEPS)[:6]} | {"different": len(reached)}
    for i, step in enumerate(_REACHED[: _KEPT if filter == "depicted" else 1]):
        left[step] = int((reached > i).sum())
    left["sampled"] = drawn
    n = pd.Series(left, dtype="int64")
    columns = {
        "dataset": dataset,
        "step": n.index.astype(object),
        "n_captions": n.to_numpy(),
        "n_excluded": -n.diff().fillna(0).astype("int64").to_numpy(),
        "excluded_by": [STEPS[step] for step in n.index],
    }
    return pd.DataFrame(columns)


class _Work:
    """Looks for neutral captions in parts of a corpus."""

    def __init__(self, corpus: Corpus, *, filter: str, sample: int, seed: int, name_recognizer: str) -> None:
        self._corpus, self._filter, self._sample = corpus, filter, sample
        self._seed, self._name_recognizer = seed, name_recognizer
        forms = excluding()
        self._people = Matcher(["person", "people"], plural=False)
        self._excluding = Matcher(list(forms), plural=False)
        self._words = list(dict.fromkeys(word for word, _, _ in forms.values()))
        self._word = np.array([self._words.index(word) for word, _, _ in forms.values()])
        steps = list(STEPS)[2:6]
        self._step = np.array([steps.index("plurals" if p else kind) for _, kind, p in forms.values()])

    def __call__(self, parts: pd.DataFrame) -> pd.DataFrame:
        """Search the part that the column ``part`` says.

        Rows by ``what``: ``caption`` (caption_id, text, key, reached), each text once, the text missing where it cannot
        be among the sample; ``step`` and ``word`` (caption_id: its name; n: captions).
        """
        n_people = 0
        by_step, by_word = np.zeros(4, np.int64), np.zeros(len(self._words), np.int64)
        held: list[pd.DataFrame] = []
        mentions = Mentions(self._corpus, int(parts["part"].item()), self._people)
        for captions, rows, _ in mentions:
            about = captions.select(["caption_id", "text"]).take(np.unique(rows))
            n_people += len(about)
            at, form = self._excluding.match(about["text"].to_pylist())
            excluded = np.zeros((len(about), 4), dtype=bool)
            excluded[at, self._step[form]] = True
            out = excluded.any(axis=1)
            by_step += np.bincount(excluded[out].argmax(axis=1), minlength=4)
            pairs = np.unique(np.stack([at, self._word[form]]), axis=1)
            by_word += np.bincount(pairs[1], minlength=len(self._words))
            some = about.filter(~out).to_pandas().drop_duplicates("text")
            keys = hashes([text.encode() for text in some["text"]], self._seed)
            held = _held([*held, some.assign(key=keys, reached=self._reached(some["text"].tolist()))], self._sample)
        left = n_people - np.cumsum(by_step)
        rows = [("step", step, k) for step, k in zip(list(STEPS)[:6], [mentions.n_read, n_people, *left], strict=True)]
        rows += [("word", word, k) for word, k in zip(self._words, by_word, strict=True)]
        counts = pd.DataFrame(rows, columns=["what", "caption_id", "n"])
        captions = _different(held, self._sample).assign(what="caption") if held else None
        return pd.concat([counts, captions], ignore_index=True).reindex(columns=list(_TYPES)).astype(_TYPES)

    def _reached(self, texts: list[str]) -> np.ndarray:
        """Return how many of the steps after ``different`` each text passes; all where it is kept."""
        texts = [normalize(text) for text in texts]
        ok = np.array([not _NOT_SWAPPABLE.search(ascii_lower(text)) for text in texts], dtype=bool)
        reached = np.where(ok, _KEPT, 0).astype(np.int8)
        if self._filter == "depicted":
            unsaid = (indicators(texts, name_recognizer=self._name_recognizer)["indicator"] == "none").to_numpy(bool)
            shown = np.array([shows_people(text) for text in texts], dtype=bool)
            reached[ok & ~shown] = 2
            reached[ok & ~unsaid] = 1
        return reached


def _held(frames: list[pd.DataFrame], sample: int) -> list[pd.DataFrame]:
    """Return frames of captions, of which equal ones are let go where many are held."""
    return [_different(frames, sample)] if sum(map(len, frames[1:])) > _HELD else frames


def _different(frames: list[pd.DataFrame], sample: int) -> pd.DataFrame:
    """Return each caption once, in order, with the texts of no more than ``sample`` that are kept (0: of all)."""
    found = pd.concat(frames, ignore_index=True).drop_duplicates("key", ignore_index=True)
    kept = (found["reached"] == _KEPT).to_numpy(bool)
    if 0 < sample < kept.sum():
        keys = found["key"].to_numpy(np.uint64)
        kept = kept & (keys <= np.partition(keys[kept], sample - 1)[sample - 1])
    found.loc[~kept, ["caption_id", "text"]] = None
    return found


def triplets(captions: pd.DataFrame, dataset: str, *, seeds: int = 1, placebo: bool = False) -> pd.DataFrame:
    """Return the prompts of neutral captions: each with person or people, with woman or women, with man or men.

    Number, case and possessives are kept, and no article is added; "a person" is "an individual". Equal texts of a data
    set are one triplet. Each prompt has ``seeds`` images, each from its own noise, which the members share.

    Returns three rows a triplet, in the order of :data:`MEMBERS`, and with ``placebo`` :data:`PLACEBO` as a fourth:
    prompt_id (unique within and across datasets), triplet_id, dataset, prompt_gender, text, spans (the words that
    differ, in characters of this text, written ``start:end`` and joined by semicolons), noise_id (the triplet's) and
    n_images. Raises ParameterError where a caption holds neither word, or "a people".
    """
    return _long(((text, _swap(text)) for text in dict.fromkeys(captions["text"])), dataset, seeds, placebo)


def sentences() -> pd.DataFrame:
    """Return sentences on the professions of Table 3: topic, profession and text, two or three a profession.

    The paper's own are not published; these are ours, as many as its 811.
    """
    found, table = [], reference.load("triplets_table_3")
    for topic, texts in lexicons.load("profession_sentences").items():
        names = table.loc[table["topic"] == topic, "profession"]
        for text in texts:
            said = text.partition(" ")[2].lower()
            fitting = [name for name in names if said.startswith(f"{name.lower()} ")]
            found.append((topic, max(fitting, key=len), text))
    return pd.DataFrame(found, columns=["topic", "profession", "text"])


def professions(
    n: int = 0,
    *,
    article: Literal["fitting", "as_printed"] = "fitting",
    seeds: int = 1,
    seed: int = 0,
    placebo: bool = False,
) -> pd.DataFrame:
    """Return prompts of what professions do, plain and with female or male before the profession (section 3.1).

    ``n`` rows of Table 3 are drawn at random, 0 is all: 811 triplets, as in the paper. ``article`` is ``fitting``,
    which writes "a female ecologist", or ``as_printed``, which keeps the article. The columns are those of
    :func:`triplets`, with topic and profession (as in Table 3) before ``text``; in the neutral members no word differs,
    so that spans is empty.
    """
    table = sentences()
    rows = table[["topic", "profession"]].drop_duplicates()
    if n:
        drawn = np.sort(np.random.default_rng([seed, 16]).permutation(len(rows))[:n])
        table = table.merge(rows.iloc[drawn], on=["topic", "profession"])
    made = ((row.text, _prefixed(row.text, article)) for row in table.itertuples())
    frame = _long(made, PROFESSION, seeds, placebo)
    for place, column in enumerate(("topic", "profession"), start=4):
        frame.insert(place, column, table[column].repeat(len(frame) // len(table)).to_numpy(object))
    return frame


def repeated(prompts: pd.DataFrame, seeds: int) -> pd.DataFrame:
    """Return the prompts of the first triplet as a dataset of its own, with ``seeds`` images of each (section 7.1)."""
    first = prompts[prompts["triplet_id"] == prompts["triplet_id"].iloc[0]].reset_index(drop=True)
    return first.assign(
        dataset=ONE.format(first["dataset"].iloc[0]),
        prompt_id=first["prompt_id"] + "-repeated",
        # Noise of its own, as its images may follow those of the same triplet.
        noise_id=first["noise_id"] + " repeated",
        n_images=seeds,
    )


def _long(
    made: Iterator[tuple[str, dict[str, tuple[str, str]]]], dataset: str, seeds: int, placebo: bool
) -> pd.DataFrame:
    slug = re.sub(r"[^a-z0-9]+", "_", dataset.lower()).strip("_")
    rows = []
    for text, members in made:
        digest = triplet_id(text)
        for gender in (*MEMBERS, PLACEBO) if placebo else MEMBERS:
            prompt_id = f"triplet-{slug}-{digest}-{gender}"
            rows.append((prompt_id, digest, dataset, gender, *members[gender], digest, seeds))
    columns = ["prompt_id", "triplet_id", "dataset", "prompt_gender", "text", "spans", "noise_id", "n_images"]
    return pd.DataFrame(rows, columns=columns).astype({"n_images": int})


def _swap(text: str) -> dict[str, tuple[str, str]]:
    """Return each member's text and the places of the words that differ."""
    low, same = ascii_lower(text), ascii_lower(normalize(text))
    found = list(_WORD.finditer(low))
    # Where a mark that nobody sees stands inside of one, the text is taken without such marks.
    if len(found) < len(others := list(_WORD.finditer(same))):
        text, low, found = normalize(text), same, others
    if not found or _NOT_SWAPPABLE.search(low):
        why = "holds 'a people', which has no counterpart" if found else "holds neither person nor people"
        raise ParameterError(f"The caption {text[:80]!r} {why}; give captions that neutral() finds.")
    members = {}
    for gender in (*MEMBERS, PLACEBO):
        parts, spans, last, length = [], [], 0, 0
        for word in found:
            before, new = text[last : word.start()], text[word.start() : word.end()]
            if gender != "neutral":
                new = _like(new, _SWAPPED[gender][word[0]])
            if gender == PLACEBO:
                before = _BEFORE.sub(partial(_fitting, new), before)
            length += len(before)
            spans.append(f"{length}:{length + len(new)}")
            parts += [before, new]
            last, length = word.end(), length + len(new)
        members[gender] = ("".join([*parts, text[last:]]), ";".join(spans))
    return members


def _like(said: str, word: str) -> str:
    if said.isupper():
        return word.upper()
    return word.capitalize() if said[0].isupper() else word


def _fitting(word: str, article: re.Match) -> str:
    """Return an article as it stands before a word, and what stands between them."""
    rest = lexicons.article(word)[1:]
    return article[1][0] + (rest.upper() if word.isupper() else rest) + article[2]


def _prefixed(text: str, article: str) -> dict[str, tuple[str, str]]:
    printed, _, rest = text.partition(" ")
    members = {"neutral": (text, "")}
    for gender, prefix in _PREFIXES.items():
        first = lexicons.article(prefix).capitalize() if article == "fitting" else printed
        start = len(first) + 1
        members[gender] = (f"{first} {prefix} {rest}", f"{start}:{start + len(prefix)}")
    return members


def words(text: str) -> list[str]:
    """Return the words of a text as they stand there, each once."""
    return list(dict.fromkeys(_ANY_WORD.findall(text)))
