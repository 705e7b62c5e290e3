"""Triplets of prompts: a neutral caption, and its versions with woman or man in place of person.

Sources are any corpus of captions (:func:`neutral` and :func:`triplets`), and sentences on the professions of Table 3
(:func:`professions`). The paper's 811 sentences are not published, so these are ours, in the same number.

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
"""The name of the dataset that repeats one triplet of another dataset (section 7.1)."""
PROFESSION = "Profession"
"""The paper's name for the dataset of sentences on professions."""
MEMBERS = ("neutral", "feminine", "masculine")
PLACEBO = "placebo"
"""The fourth prompt of a triplet: neutral like the first, with another word for people."""
STEPS = {
    "captions": "",
    "person or people": "neither word",
    "gender": "a gender word of Table 2",
    "geography": "a geography word of Table 2",
    "others": "another word of Table 2",
    "plurals": "a plural of a word of Table 2",
    "different": "a duplicate of another caption",
    "swappable": "a form whose gender cannot be swapped (a people)",
    "no indicator": "a gender indicator beyond Table 2",
    "depicted": "no person depicted, or gender stated by another noun, according to the filter",
    "sampled": "not sampled",
}
"""The steps of :func:`neutral`, and the reason why each excludes captions."""
_REPLACEMENTS = {
    "feminine": {"person": "woman", "people": "women"},
    "masculine": {"person": "man", "people": "men"},
    PLACEBO: {"person": "individual", "people": "individuals"},
}
_PREFIXES = {"feminine": "female", "masculine": "male", PLACEBO: "individual"}
# An indefinite article at the end of the text before a word.
_ARTICLE = re.compile(r"\b(an?)(\s+)$", re.IGNORECASE)
_WORD = re.compile(r"\b(?:person|people)\b")
_ANY_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_NOT_SWAPPABLE = re.compile(r"\ban?\s+people\b")
# Pronouns and adjectives of Table 2, whose regular plurals would be other words: is, us, hers.
_NO_PLURAL = frozenset((
    "she", "her", "hers", "herself", "he", "his", "him", "himself", "u", "me", "i", "myself", "pregnant", "teenage",
))  # fmt: skip
# Number of neutral captions in memory after which duplicates are dropped.
_MAX_ROWS = 2**20
# The steps after "different" that each neutral caption passes in turn, and their number.
_LATER_STEPS = ("swappable", "no indicator", "depicted")
_N_STEPS = len(_LATER_STEPS)
# Columns of captions, and the types of these and of counts, which share a table.
_COLUMNS = ["caption_id", "text", "key", "reached"]
_TYPES = {"what": object, "caption_id": object, "n": "Int64", "text": object, "key": "UInt64", "reached": "Int8"}


class Neutral(NamedTuple):
    """The neutral captions of a corpus, and the numbers of excluded captions."""

    captions: pd.DataFrame
    """One row per caption, in the corpus's order: triplet_id, caption_id (of the first of equal ones), text."""
    funnel: pd.DataFrame
    """One row per step of :data:`STEPS`, in order: dataset, step, n_captions (remaining after it), n_excluded,
    excluded_by. A caption counts at the first step that excludes it."""
    words: pd.DataFrame
    """One row per word of Table 2: dataset, type, word, n_excluded: captions with person or people that contain it or
    its plural; one with several words counts for each."""


NO_CAPTIONS = Neutral(
    pd.DataFrame(columns=["triplet_id", "caption_id", "text", "dataset"], dtype=object),
    pd.DataFrame(columns=["dataset", "step", "n_captions", "n_excluded", "excluded_by"], dtype=object),
    pd.DataFrame(columns=["dataset", "type", "word", "n_excluded"], dtype=object),
)
"""The result for no captions."""


@cache
def excluded_forms() -> MappingProxyType[str, tuple[str, str, bool]]:
    """Return the forms that exclude a caption (Table 2), mapped to their word, type and whether they are a plural."""
    words = reference.load("triplets_table_2").drop_duplicates("word")
    forms = {row.word.lower(): (row.word, row.type, False) for row in words.itertuples()}
    for form, (word, kind, _) in list(forms.items()):
        for plural in () if form in _NO_PLURAL else lexicons.plurals(form):
            forms.setdefault(plural, (word, kind, True))
    return MappingProxyType(forms)


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

    A caption is neutral if it contains person or people and no word of Table 2 or its plural, as whole words in either
    case. Equal captions count once. "A people" is excluded, because it has no counterpart. Memory grows by about 30
    bytes for each different neutral caption, and by the returned texts.

    ``filter`` is ``paper`` for the paper's rule alone. ``depicted`` also excludes captions with another gender
    indicator (:mod:`biaslab.captions.indicators`, which uses ``name_recognizer``), and those that seem to show no
    person (:mod:`~biaslab.papers.triplets.person_filter`). ``sample`` is the size of a random sample, which depends
    only on the seed and the texts; 0 means all captions. Raises InputError if the corpus cannot be read.
    """
    options = {"filter": filter, "sample": sample, "seed": seed, "name_recognizer": name_recognizer}
    work = _Work(corpus, **options)
    counts: Counter[tuple[str, str]] = Counter()
    frames: list[pd.DataFrame] = []
    for result in over_parts(corpus, work, "neutral_captions", options, progress=progress, cache=cache):
        is_caption = result["what"] == "caption"
        for row in result[~is_caption].itertuples():
            counts[row.what, row.caption_id] += row.n
        frames = _limit_memory([*frames, result.loc[is_caption, _COLUMNS]], sample)
    unique_captions = _drop_duplicates(frames, sample) if frames else pd.DataFrame(columns=_COLUMNS)
    sample_rows = unique_captions[(unique_captions["reached"] == _N_STEPS) & unique_captions["text"].notna()]
    captions = sample_rows[["caption_id", "text"]].reset_index(drop=True).astype(object)
    captions.insert(0, "triplet_id", [triplet_id(text) for text in captions["text"]])
    types = {word: kind for word, kind, _ in excluded_forms().values()}
    words = pd.DataFrame(
        [(dataset, kind, word, counts["word", word]) for word, kind in types.items()],
        columns=["dataset", "type", "word", "n_excluded"],
    )
    return Neutral(captions, _funnel(dataset, counts, unique_captions["reached"], len(captions), filter), words)


def _funnel(
    dataset: str, counts: Counter[tuple[str, str]], reached: pd.Series, n_sampled: int, filter: str
) -> pd.DataFrame:
    n_by_step = {step: counts["step", step] for step in list(STEPS)[:6]} | {"different": len(reached)}
    for i, step in enumerate(_LATER_STEPS[: _N_STEPS if filter == "depicted" else 1]):
        n_by_step[step] = int((reached > i).sum())
    n_by_step["sampled"] = n_sampled
    n = pd.Series(n_by_step, dtype="int64")
    columns = {
        "dataset": dataset,
        "step": n.index.astype(object),
        "n_captions": n.to_numpy(),
        "n_excluded": -n.diff().fillna(0).astype("int64").to_numpy(),
        "excluded_by": [STEPS[step] for step in n.index],
    }
    return pd.DataFrame(columns)


class _Work:
    """Search for neutral captions in parts of a corpus."""

    def __init__(self, corpus: Corpus, *, filter: str, sample: int, seed: int, name_recognizer: str) -> None:
        self._corpus, self._filter, self._sample = corpus, filter, sample
        self._seed, self._name_recognizer = seed, name_recognizer
        forms = excluded_forms()
        self._people = Matcher(["person", "people"], plural=False)
        self._excluding = Matcher(list(forms), plural=False)
        self._words = list(dict.fromkeys(word for word, _, _ in forms.values()))
        self._word = np.array([self._words.index(word) for word, _, _ in forms.values()])
        steps = list(STEPS)[2:6]
        self._step = np.array([steps.index("plurals" if p else kind) for _, kind, p in forms.values()])

    def __call__(self, parts: pd.DataFrame) -> pd.DataFrame:
        """Search the part in the column ``part``.

        Rows by ``what``: ``caption`` (caption_id, text, key, reached), each text once, the text missing where it cannot
        be in the sample; ``step`` and ``word`` (caption_id: its name; n: captions).
        """
        n_people = 0
        by_step, by_word = np.zeros(4, np.int64), np.zeros(len(self._words), np.int64)
        frames: list[pd.DataFrame] = []
        mentions = Mentions(self._corpus, int(parts["part"].item()), self._people)
        for captions, rows, _ in mentions:
            people_captions = captions.select(["caption_id", "text"]).take(np.unique(rows))
            n_people += len(people_captions)
            caption_rows, form_ids = self._excluding.match(people_captions["text"].to_pylist())
            is_excluded = np.zeros((len(people_captions), 4), dtype=bool)
            is_excluded[caption_rows, self._step[form_ids]] = True
            has_excluded_word = is_excluded.any(axis=1)
            by_step += np.bincount(is_excluded[has_excluded_word].argmax(axis=1), minlength=4)
            pairs = np.unique(np.stack([caption_rows, self._word[form_ids]]), axis=1)
            by_word += np.bincount(pairs[1], minlength=len(self._words))
            candidates = people_captions.filter(~has_excluded_word).to_pandas().drop_duplicates("text")
            keys = hashes([text.encode() for text in candidates["text"]], self._seed)
            candidates = candidates.assign(key=keys, reached=self._count_steps(candidates["text"].tolist()))
            frames = _limit_memory([*frames, candidates], self._sample)
        n_left = n_people - np.cumsum(by_step)
        rows = [
            ("step", step, k) for step, k in zip(list(STEPS)[:6], [mentions.n_read, n_people, *n_left], strict=True)
        ]
        rows += [("word", word, k) for word, k in zip(self._words, by_word, strict=True)]
        counts = pd.DataFrame(rows, columns=["what", "caption_id", "n"])
        captions = _drop_duplicates(frames, self._sample).assign(what="caption") if frames else None
        return pd.concat([counts, captions], ignore_index=True).reindex(columns=list(_TYPES)).astype(_TYPES)

    def _count_steps(self, texts: list[str]) -> np.ndarray:
        """Return the number of steps after ``different`` that each text passes; all if it is accepted."""
        texts = [normalize(text) for text in texts]
        is_swappable = np.array([not _NOT_SWAPPABLE.search(ascii_lower(text)) for text in texts], dtype=bool)
        reached = np.where(is_swappable, _N_STEPS, 0).astype(np.int8)
        if self._filter == "depicted":
            indicator = indicators(texts, name_recognizer=self._name_recognizer)["indicator"]
            has_no_indicator = (indicator == "none").to_numpy(bool)
            is_depicted = np.array([shows_people(text) for text in texts], dtype=bool)
            reached[is_swappable & ~is_depicted] = 2
            reached[is_swappable & ~has_no_indicator] = 1
        return reached


def _limit_memory(frames: list[pd.DataFrame], sample: int) -> list[pd.DataFrame]:
    """Return frames of captions, merged and without duplicates where they have many rows."""
    return [_drop_duplicates(frames, sample)] if sum(map(len, frames[1:])) > _MAX_ROWS else frames


def _drop_duplicates(frames: list[pd.DataFrame], sample: int) -> pd.DataFrame:
    """Return each caption once, in order, with texts only for up to ``sample`` accepted ones (0: all)."""
    captions = pd.concat(frames, ignore_index=True).drop_duplicates("key", ignore_index=True)
    is_sampled = (captions["reached"] == _N_STEPS).to_numpy(bool)
    if 0 < sample < is_sampled.sum():
        keys = captions["key"].to_numpy(np.uint64)
        is_sampled = is_sampled & (keys <= np.partition(keys[is_sampled], sample - 1)[sample - 1])
    captions.loc[~is_sampled, ["caption_id", "text"]] = None
    return captions


def triplets(captions: pd.DataFrame, dataset: str, *, seeds: int = 1, placebo: bool = False) -> pd.DataFrame:
    """Return the prompts of neutral captions: each with person or people, with woman or women, with man or men.

    Number, case and possessives are preserved, and no article is added; "a person" becomes "an individual". Equal texts
    of a dataset are one triplet. Each prompt has ``seeds`` images, each from its own noise, which the members share.

    Returns three rows per triplet, in the order of :data:`MEMBERS`, and with ``placebo`` :data:`PLACEBO` as a fourth:
    prompt_id (unique within and across datasets), triplet_id, dataset, prompt_gender, text, spans (the words that
    differ, in characters of this text, written ``start:end`` and joined by semicolons), noise_id (the triplet's) and
    n_images. Raises ParameterError where a caption contains neither word, or "a people".
    """
    return _prompt_rows(((text, _swap(text)) for text in dict.fromkeys(captions["text"])), dataset, seeds, placebo)


def sentences() -> pd.DataFrame:
    """Return sentences on the professions of Table 3: topic, profession and text, two or three per profession.

    The paper's 811 sentences are not published; these are ours, in the same number.
    """
    rows, table = [], reference.load("triplets_table_3")
    for topic, texts in lexicons.load("profession_sentences").items():
        names = table.loc[table["topic"] == topic, "profession"]
        for text in texts:
            remainder = text.partition(" ")[2].lower()
            fitting = [name for name in names if remainder.startswith(f"{name.lower()} ")]
            rows.append((topic, max(fitting, key=len), text))
    return pd.DataFrame(rows, columns=["topic", "profession", "text"])


def professions(
    n: int = 0,
    *,
    article: Literal["fitting", "as_printed"] = "fitting",
    seeds: int = 1,
    seed: int = 0,
    placebo: bool = False,
) -> pd.DataFrame:
    """Return prompts on activities of professions, plain and with female or male before the profession (section 3.1).

    ``n`` rows of Table 3 are sampled at random; 0 means all: 811 triplets, as in the paper. ``article`` is ``fitting``,
    which writes "a female ecologist", or ``as_printed``, which leaves the article unchanged. The columns are those of
    :func:`triplets`, with topic and profession (as in Table 3) before ``text``; spans is empty in neutral members.
    """
    table = sentences()
    rows = table[["topic", "profession"]].drop_duplicates()
    if n:
        indices = np.sort(np.random.default_rng([seed, 16]).permutation(len(rows))[:n])
        table = table.merge(rows.iloc[indices], on=["topic", "profession"])
    members_by_text = ((row.text, _insert_prefixes(row.text, article)) for row in table.itertuples())
    frame = _prompt_rows(members_by_text, PROFESSION, seeds, placebo)
    for position, column in enumerate(("topic", "profession"), start=4):
        frame.insert(position, column, table[column].repeat(len(frame) // len(table)).to_numpy(object))
    return frame


def repeat_first_triplet(prompts: pd.DataFrame, seeds: int) -> pd.DataFrame:
    """Return the prompts of the first triplet as a dataset of its own, with ``seeds`` images of each (section 7.1)."""
    rows = prompts[prompts["triplet_id"] == prompts["triplet_id"].iloc[0]].reset_index(drop=True)
    return rows.assign(
        dataset=ONE.format(rows["dataset"].iloc[0]),
        prompt_id=rows["prompt_id"] + "-repeated",
        # Use separate noise, because images of the same triplet may precede these.
        noise_id=rows["noise_id"] + " repeated",
        n_images=seeds,
    )


def _prompt_rows(
    members_by_text: Iterator[tuple[str, dict[str, tuple[str, str]]]], dataset: str, seeds: int, placebo: bool
) -> pd.DataFrame:
    slug = re.sub(r"[^a-z0-9]+", "_", dataset.lower()).strip("_")
    rows = []
    for text, members in members_by_text:
        digest = triplet_id(text)
        for gender in (*MEMBERS, PLACEBO) if placebo else MEMBERS:
            prompt_id = f"triplet-{slug}-{digest}-{gender}"
            rows.append((prompt_id, digest, dataset, gender, *members[gender], digest, seeds))
    columns = ["prompt_id", "triplet_id", "dataset", "prompt_gender", "text", "spans", "noise_id", "n_images"]
    return pd.DataFrame(rows, columns=columns).astype({"n_images": int})


def _swap(text: str) -> dict[str, tuple[str, str]]:
    """Return each member's text and the spans of the words that differ."""
    lowered, normalized = ascii_lower(text), ascii_lower(normalize(text))
    matches = list(_WORD.finditer(lowered))
    # If invisible characters hide a word, use the text without them.
    if len(matches) < len(normalized_matches := list(_WORD.finditer(normalized))):
        text, lowered, matches = normalize(text), normalized, normalized_matches
    if not matches or _NOT_SWAPPABLE.search(lowered):
        problem = "contains 'a people', which has no counterpart" if matches else "contains neither person nor people"
        raise ParameterError(f"The caption {text[:80]!r} {problem}. Use captions that neutral() selects.")
    members = {}
    for gender in (*MEMBERS, PLACEBO):
        parts, spans, end, length = [], [], 0, 0
        for word in matches:
            before_word, replacement = text[end : word.start()], text[word.start() : word.end()]
            if gender != "neutral":
                replacement = _match_case(replacement, _REPLACEMENTS[gender][word[0]])
            if gender == PLACEBO:
                before_word = _ARTICLE.sub(partial(_fit_article, replacement), before_word)
            length += len(before_word)
            spans.append(f"{length}:{length + len(replacement)}")
            parts += [before_word, replacement]
            end, length = word.end(), length + len(replacement)
        members[gender] = ("".join([*parts, text[end:]]), ";".join(spans))
    return members


def _match_case(original: str, word: str) -> str:
    if original.isupper():
        return word.upper()
    return word.capitalize() if original[0].isupper() else word


def _fit_article(word: str, article: re.Match) -> str:
    """Return the indefinite article for a word in the case of the original, with the space that follows it."""
    ending = lexicons.article(word)[1:]
    return article[1][0] + (ending.upper() if word.isupper() else ending) + article[2]


def _insert_prefixes(text: str, article: str) -> dict[str, tuple[str, str]]:
    printed_article, _, remainder = text.partition(" ")
    members = {"neutral": (text, "")}
    for gender, prefix in _PREFIXES.items():
        first_word = lexicons.article(prefix).capitalize() if article == "fitting" else printed_article
        start = len(first_word) + 1
        members[gender] = (f"{first_word} {prefix} {remainder}", f"{start}:{start + len(prefix)}")
    return members


def words(text: str) -> list[str]:
    """Return the words of a text in their original form and order, each once."""
    return list(dict.fromkeys(_ANY_WORD.findall(text)))
