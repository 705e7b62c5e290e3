"""Which captions mention which terms, in one pass: totals, and a uniform sample of each term's captions."""

from __future__ import annotations

import hashlib
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from unicodedata import category

import numpy as np
import pandas as pd

from biaslab import lexicons
from biaslab.errors import ParameterError
from biaslab.io.plaintext import is_printable, may_change, normalize, split_words

if TYPE_CHECKING:
    import pyarrow as pa

    from biaslab.cache.result_cache import ResultCache
    from biaslab.captions.corpus import Corpus

# Captions read at a time: what is done once for each batch takes as long as some 1,000 captions.
_ROWS = 2**16
_WORDS = re.compile(r"\w+")
_FIRST_COLUMNS = ["caption_id", "term", "text", "rank"]


@dataclass(frozen=True)
class SearchResult:
    """What a search found."""

    totals: pd.DataFrame
    """Per term, in the order given: ``term``, ``n_captions`` (captions that mention it) and ``n_corpus`` (all)."""
    captions: pd.DataFrame
    """Captions kept, by term in the order given and then by rank: ``caption_id``, ``term``, ``text``, ``rank`` (from
    1) and the corpus's own columns. The first k of a term are a uniform sample of its captions for every k."""


def search(
    corpus: Corpus,
    terms: Sequence[str],
    *,
    per_term: int = 500,
    pool: int = 0,
    seed: int = 0,
    plural: bool = True,
    forms: Mapping[str, Sequence[str]] = MappingProxyType({}),
    progress: bool = True,
    cache: ResultCache | None = None,
) -> SearchResult:
    """Find the captions that mention each term, all terms in one pass over the corpus (paradox, 3.2 and 4).

    A term is mentioned where its words stand as whole words, in letters of either case; between words of a phrase
    there may be spaces or hyphens of any kind, and marks that nobody sees end no word.
    A mention counts for each term that it fits. Which captions are kept follows from hashes of (seed, term, caption_id)
    alone: it depends neither on the order of the corpus nor on batches, parts or other terms.

    ``per_term`` captions of each term are the random sample; of ``pool``, where that is more, nearest captions are
    taken. ``plural`` says whether a term's plural mentions it too; ``forms`` are words that mention some terms in the
    place of both. What each part of the corpus gave is kept in ``cache``. Raises ParameterError: A term cannot be
    searched (see :class:`Matcher`). InputError: The corpus cannot be read.
    """
    matcher = Matcher(terms, plural=plural, forms=forms)
    keep = max(per_term, pool)
    work = _Work(corpus, matcher, keep, seed)
    inputs = {"terms": list(terms), "keep": keep, "seed": seed, "plural": plural}
    inputs |= {"forms": {term: list(forms[term]) for term in forms}} if forms else {}
    run = {"progress": progress, "cache": cache}
    return _merge(over_parts(corpus, work, "search", inputs, **run), matcher.terms, keep)


def over_parts(
    corpus: Corpus,
    work: Callable[[pd.DataFrame], pd.DataFrame],
    name: str,
    inputs: Mapping[str, object],
    *,
    progress: bool,
    cache: ResultCache | None,
) -> Iterator[pd.DataFrame]:
    """Yield what ``work`` makes of each part of a corpus, in order; one is held at a time.

    ``work`` takes a row whose column ``part`` is the part's number. ``name``, the corpus and ``inputs`` key what
    the store keeps. The progress bar counts parts.
    """
    parts = pd.DataFrame({"part": range(corpus.parts)})
    shown: dict[str, Any] = {"label": f"Searching {corpus.name}", "unit": "parts", "progress": progress}
    if cache is None:
        from tqdm import tqdm

        bar = {"desc": shown["label"], "unit": " parts", "leave": False, "file": sys.stderr, "disable": not progress}
        yield from (work(parts[i : i + 1]) for i in tqdm(range(len(parts)), **bar))
        return
    stage = cache.stage(name, {"corpus": corpus.digest, **inputs}, work)
    yield from stage.compute_iter(parts, shard_rows=1, **shown)


class Matcher:
    """Finds which of many terms each caption mentions."""

    def __init__(
        self, terms: Sequence[str], *, plural: bool = True, forms: Mapping[str, Sequence[str]] = MappingProxyType({})
    ):
        """Take ``terms``, and their plurals if ``plural``; of those in ``forms`` the words there and no others.

        Raises ParameterError: A term is empty, given twice, not printable, or does not begin and end with a letter or
        digit, or the terms are too long to be searched.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        self.terms = [_checked(term) for term in terms]
        folded = [_lower(t) for t in self.terms]
        twice = [t for t, n in Counter(folded).items() if n > 1]
        if twice:
            raise ParameterError(f"The term {twice[0]!r} is given twice; give each term once.")
        # A form can be that of several terms.
        known: dict[str, list[int]] = defaultdict(list)
        for i, term in enumerate(folded):
            own = (term, *(lexicons.plurals(term) if plural else ()))
            own = [_checked(form) for form in forms[self.terms[i]]] if self.terms[i] in forms else own
            for form in dict.fromkeys(re.sub(r"[\s-]+", " ", _lower(form)) for form in own):
                known[form].append(i)
        # RE2's expression, where only ASCII has letters, of each mention, and of some that are none.
        # RE2's word boundary (\b) considers ASCII letters only.
        rough = []
        for form in known:
            first, last = (r"\b" if form[end].isascii() else "" for end in (0, -1))
            rough.append(first + r"\W+".join(map(re.escape, form.split(" "))) + last)
        self._mention = rf"(?i)(?:{'|'.join(rough)})"
        try:
            pc.match_substring_regex(pa.array([""]), self._mention)
        except pa.ArrowInvalid as error:
            longest = max(self.terms, key=len)
            raise ParameterError(
                f"These {len(self.terms)} terms cannot be searched: {str(error)[-60:]}. The longest, which begins with "
                f"{longest[:40]!r}, has {len(longest)} characters; shorten it, or search for fewer terms at a time."
            ) from None
        self._several_words = {i for i, term in enumerate(folded) if len(_WORDS.findall(term)) > 1}
        # Forms by the word that they begin with, and what finds those that are more than it.
        self._forms: dict[str, list[tuple[re.Pattern | None, list[int]]]] = defaultdict(list)
        for form, those in known.items():
            word = _WORDS.match(form)[0]
            whole = r"[\s-]+".join(map(re.escape, form.split(" ")))
            self._forms[word].append((None if word == form else re.compile(rf"(?<!\w){whole}(?!\w)"), those))

    def match(self, texts: Sequence[str] | pd.Series | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Return the mentions in ``texts`` as (index of the caption, index of the term), each pair once, sorted."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self.terms:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        whole = isinstance(texts, pa.ChunkedArray)
        array = texts.combine_chunks() if whole else pa.array(texts, pa.large_string())
        if array.type not in (pa.string(), pa.large_string()):
            array = array.cast(pa.large_string())
        # Few texts are not in the form that they are compared in; in these a mark may part the words of a phrase.
        phrases: set[tuple[int, int]] = set()
        odd = pc.indices_nonzero(pc.fill_null(pc.match_substring_regex(array, _odd()), False)).to_numpy()
        if len(odd):
            given = array.take(pa.array(odd)).to_pylist()
            changed = [text and normalize(text) for text in given]
            mask = np.zeros(len(array), dtype=bool)
            mask[odd] = True
            array = pc.replace_with_mask(array, pa.array(mask), pa.array(changed, array.type))
            for at, text, same in zip(odd.tolist(), given, changed, strict=True):
                if text and self._several_words and (other := split_words(text)) != same:
                    phrases |= {(at, term) for term in self._mentioned(other) & self._several_words}
        # The many without a mention go at once, in time by their length.
        rows = pc.indices_nonzero(pc.fill_null(pc.match_substring_regex(array, self._mention), False))
        hits = zip(rows.to_pylist(), array.take(rows).to_pylist(), strict=True)
        pairs = [(row, term) for row, text in hits for term in sorted(self._mentioned(text))]
        row, term = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        if phrases:
            row, term = np.concatenate([np.stack([row, term]), np.array(sorted(phrases)).T], axis=1)
            row, term = np.unique(np.stack([row, term], axis=1), axis=0).T
        return row, term

    def _mentioned(self, text: str) -> set[int]:
        text = _lower(text)
        forms = (found for word in set(_WORDS.findall(text)) for found in self._forms.get(word, ()))
        return {term for form, terms in forms if form is None or form.search(text) for term in terms}


@cache
def _odd() -> str:
    """Return an expression of characters that may change a text (:mod:`biaslab.io.plaintext`), accents too."""
    codes = sorted({*map(ord, may_change()), *range(0x0300, 0x0370)})
    return "[" + "".join(map(r"\x{{{:x}}}".format, codes)) + "]"


def _checked(term: str) -> str:
    stripped = " ".join(normalize(str(term)).split())
    # In some scripts words end in the mark of a vowel.
    if not stripped or not (stripped[0].isalnum() and (stripped[-1].isalnum() or category(stripped[-1])[0] == "M")):
        raise ParameterError(f"The term {term!r} cannot be searched; begin and end it with letter or digit.")
    if not is_printable(stripped):
        raise ParameterError(f"The term {term!r} cannot be searched; use printable characters.")
    return stripped


def _lower(text: str) -> str:
    """Return a text in lower case, letter by letter: none becomes two, and a Kelvin sign is no k."""
    if text.isascii():
        return text.lower()
    lower = ((one, one.lower()) for one in text)
    return "".join(low if len(low) == 1 and low.isascii() == one.isascii() else one for one, low in lower)


class _Work:
    """Searches parts of a corpus, one at a time, one after the other in a process."""

    def __init__(self, corpus: Corpus, matcher: Matcher, keep: int, seed: int):
        self._corpus, self._matcher, self._keep, self._seed = corpus, matcher, keep, seed
        self._salts = hashes([term.lower() for term in matcher.terms], seed)
        # Each term's smallest priorities so far, and the largest one that can still be among them.
        self._best = pd.DataFrame({"term": np.zeros(0, np.int64), "priority": np.zeros(0, np.uint64)})
        self._limits = np.full(len(matcher.terms), np.iinfo(np.uint64).max, dtype=np.uint64)

    def __call__(self, parts: pd.DataFrame) -> pd.DataFrame:
        # Captions are left out that cannot be among a term's first ones, by what this process has searched so far.
        # Where none is kept, one row of term -1 has ``n_corpus`` alone.
        totals = np.zeros(len(self._matcher.terms), dtype=np.int64)
        kept: list[pd.DataFrame] = []
        n_corpus = 0
        terms = np.zeros(0, dtype=np.int64)

        def mentions(texts: pa.Array | pd.Series) -> np.ndarray:
            nonlocal n_corpus, terms
            n_corpus += len(texts)
            rows, terms = self._matcher.match(texts)
            return rows

        for found in self._corpus.batches(_ROWS, part=int(parts["part"].item()), wanted=mentions):
            priorities = _mix(hashes(found["caption_id"].tolist(), self._seed) ^ self._salts[terms])
            good = priorities <= self._limits[terms]
            # One caption of each term is kept in any case: it carries the term's total.
            these, first = np.unique(terms, return_index=True)
            good[first[totals[these] == 0]] = True
            totals += np.bincount(terms, minlength=len(totals))
            if good.any():
                kept.append(found[good].assign(term=terms[good], priority=priorities[good]))
            # Rows that can no longer be among the smallest are let go now and then, so that memory stays bounded.
            if sum(map(len, kept)) > 4 * self._keep * len(totals):
                kept = [self._smallest(kept)]
        if not kept:
            return pd.DataFrame({"term": [-1], "n_corpus": [n_corpus]})
        smallest = self._smallest(kept)
        return smallest.assign(n_captions=totals[smallest["term"]], n_corpus=n_corpus)

    def _smallest(self, kept: list[pd.DataFrame]) -> pd.DataFrame:
        """Return each term's ``keep`` rows of smallest priority, and lower the limits by what they show."""
        found = _smallest(kept, self._keep)
        # A part that is searched again counts once.
        best = pd.concat([self._best, found[["term", "priority"]]]).drop_duplicates()
        self._best = _smallest([best], self._keep)
        last = self._best[self._best.groupby("term").cumcount() == self._keep - 1]
        # The array that a worker is given may be read-only.
        self._limits = self._limits.copy()
        self._limits[last["term"]] = last["priority"]
        return found


def _smallest(frames: list[pd.DataFrame], keep: int) -> pd.DataFrame:
    """Return each term's ``keep`` rows of smallest priority, in order; equal ones, of one id, as they come."""
    frame = pd.concat(frames, ignore_index=True)
    order = np.lexsort((frame["priority"], frame["term"]))
    ranks = frame["term"].iloc[order].groupby(frame["term"]).cumcount()
    return frame.iloc[order[ranks < keep]].reset_index(drop=True)


def _merge(results: Iterator[pd.DataFrame], terms: Sequence[str], keep: int) -> SearchResult:
    """Return what was found in all parts together."""
    totals, n_corpus = np.zeros(len(terms), dtype=np.int64), 0
    found: list[pd.DataFrame] = []
    for result in results:
        n_corpus += int(result["n_corpus"].iloc[0])
        if result["term"].iloc[0] == -1:
            continue
        first = result.drop_duplicates("term")
        totals[first["term"]] += first["n_captions"]
        found.append(result.drop(columns=["n_captions", "n_corpus"]))
        # Not after every part: a corpus has thousands.
        if sum(map(len, found)) > 4 * keep * len(terms):
            found = [_smallest(found, keep)]
    counts = pd.DataFrame({"term": list(terms), "n_captions": totals, "n_corpus": n_corpus})
    if not found:
        return SearchResult(counts, pd.DataFrame(columns=_FIRST_COLUMNS))
    best = _smallest(found, keep)
    best["rank"] = best.groupby("term").cumcount() + 1
    best["term"] = np.array(terms, dtype=object)[best["term"]]
    others = [c for c in best.columns if c not in (*_FIRST_COLUMNS, "priority")]
    return SearchResult(counts, best[_FIRST_COLUMNS + others])


def hashes(texts: Sequence[str], seed: int) -> np.ndarray:
    """Return a 64-bit hash of each text under a seed, ``uint64 (texts,)``."""
    # A copy of a hash that knows the key is made faster than a new one.
    begun = hashlib.blake2b(digest_size=8, key=str(seed).encode()).copy
    digests = []
    for text in texts:
        one = begun()
        one.update(text.encode("utf-8", "surrogatepass"))
        digests.append(one.digest())
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def _mix(x: np.ndarray) -> np.ndarray:
    """Return a well-mixed one-to-one image of 64-bit numbers (the finaliser of SplitMix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
