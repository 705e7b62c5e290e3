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
    import duckdb
    import pyarrow as pa

    from biaslab.cache.result_cache import ResultCache
    from biaslab.captions.corpus import Corpus

# Captions read at a time: what is done once for each batch takes as long as some 10,000 captions.
_ROWS, _PIECE = 2**18, 2**15
_WORDS = re.compile(r"\w+")
# What Python's \s is in ASCII, and the hyphen; RE2's \s lacks some.
_BETWEEN = r"[\t-\r\x1c- -]+"
_QUERY = """
select row, text, case when strlen(text) = length(text) then regexp_extract_all(lower(text), $forms) end as mentions
from captions where regexp_matches(text, $gate)"""
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
    there may be spaces or hyphens of any kind, and invisible marks end no word.
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
    run = {"threaded": True, "progress": progress, "cache": cache}
    return _merge(over_parts(corpus, work, "search", inputs, **run), matcher.terms, keep)


def over_parts(
    corpus: Corpus,
    work: Callable[[pd.DataFrame], pd.DataFrame],
    name: str,
    inputs: Mapping[str, object],
    *,
    threaded: bool = False,
    progress: bool,
    cache: ResultCache | None,
) -> Iterator[pd.DataFrame]:
    """Yield what ``work`` makes of each part of a corpus, in order; one is held at a time.

    ``work`` takes a row whose column ``part`` is the part's number. ``name``, the corpus and ``inputs`` key what
    the store keeps. The progress bar counts parts. Where work is ``threaded``, this machine needs no worker processes.
    """
    parts = pd.DataFrame({"part": range(corpus.parts)})
    shown: dict[str, Any] = {"label": f"Searching {corpus.name}", "unit": "parts", "progress": progress}
    if cache is None:
        from tqdm import tqdm

        bar = {"desc": shown["label"], "unit": " parts", "leave": False, "file": sys.stderr, "disable": not progress}
        yield from (work(parts[i : i + 1]) for i in tqdm(range(len(parts)), **bar))
        return
    stage = cache.stage(name, {"corpus": corpus.digest, **inputs}, work)
    if threaded and cache.workers.engine == "local":
        stage = stage.without_workers()
    yield from stage.compute_iter(parts, shard_rows=1, **shown)


class Matcher:
    """Finds which of many terms each caption mentions.

    DuckDB finds captions that may mention some, and mentions in those of ASCII characters. Python looks at the others.
    """

    def __init__(
        self, terms: Sequence[str], *, plural: bool = True, forms: Mapping[str, Sequence[str]] = MappingProxyType({})
    ):
        """Take ``terms``, and their plurals if ``plural``; of those in ``forms`` the words there and no others.

        Raises ParameterError: A term is empty, given twice, not printable, or does not begin and end with a letter or
        digit, or the terms are too long to be searched.
        """
        import duckdb

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
        self._several_words = {i for i, term in enumerate(folded) if len(_WORDS.findall(term)) > 1}
        # Forms by the word that they begin with, and what finds those that are more than it.
        self._forms: dict[str, list[tuple[re.Pattern | None, list[int]]]] = defaultdict(list)
        for form, those in known.items():
            word = _WORDS.match(form)[0]
            whole = r"[\s-]+".join(map(re.escape, form.split(" ")))
            self._forms[word].append((None if word == form else re.compile(rf"(?<!\w){whole}(?!\w)"), those))
        # RE2's expression, where only ASCII has letters, of each mention, of some that are none, and of odd characters.
        # RE2's word boundary (\b) considers ASCII letters only.
        rough = []
        for form in known:
            first, last = (r"\b" if form[end].isascii() else "" for end in (0, -1))
            rough.append(first + r"\W+".join(map(re.escape, form.split(" "))) + last)
        odd = "".join(rf"\x{{{ord(one):x}}}" for one in sorted(_odd()))
        longest = sorted(known, key=len, reverse=True)
        alternatives = "|".join(_BETWEEN.join(map(re.escape, form.split(" "))) for form in longest)
        self._patterns = {"forms": rf"\b(?:{alternatives})\b", "gate": rf"(?i)(?:{'|'.join(rough)}|[{odd}])"}
        by_form = _terms_by_form(known)
        self._written = [written for form in by_form for written in dict.fromkeys((form, form.replace(" ", "-")))]
        # Terms of each form, one after the other, and where they start.
        terms_of = [by_form[written.replace("-", " ")] for written in self._written]
        self._terms_of = np.array([term for terms in terms_of for term in terms], np.int64)
        self._starts = np.cumsum([0, *map(len, terms_of)])
        try:
            self.match([""])
        except duckdb.Error as error:
            longest_term = max(self.terms, key=len)
            raise ParameterError(
                f"These {len(self.terms)} terms cannot be searched: {str(error)[-60:]}. The longest, which begins with "
                f"{longest_term[:40]!r}, has {len(longest_term)} characters; shorten it, or search for fewer terms at "
                "a time."
            ) from None

    def match(self, texts: Sequence[str] | pd.Series | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Return the mentions in ``texts`` as (index of the caption, index of the term), each pair once, sorted."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self.terms:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        array = texts if isinstance(texts, pa.ChunkedArray) else pa.array(texts, pa.large_string())
        table = pa.table({"row": np.arange(len(array)), "text": array})
        # Threads take a piece each.
        _database().register("captions", pa.Table.from_batches(table.to_batches(_PIECE), table.schema))
        hits = _database().sql(_QUERY, params=self._patterns).to_arrow_table()
        _database().unregister("captions")
        mentions = hits["mentions"].combine_chunks()
        caption = pc.list_parent_indices(mentions).to_numpy()
        form = pc.fill_null(pc.index_in(mentions.flatten(), pa.array(self._written, pa.string())), -1).to_numpy()
        # Python looks at captions that are not ASCII, or mention what is not known as it is written there.
        is_matched = mentions.is_valid().to_numpy(zero_copy_only=False)
        is_matched[caption[form < 0]] = False
        in_matched = is_matched[caption]
        caption, form = caption[in_matched], form[in_matched]
        each = np.diff(self._starts)[form]
        place = np.repeat(self._starts[form] - np.cumsum(each) + each, each) + np.arange(each.sum())
        others = np.flatnonzero(~is_matched)
        terms_of_others = [self._mentioned(text) for text in hits["text"].take(pa.array(others)).to_pylist()]
        n_terms = np.array([len(terms) for terms in terms_of_others], np.int64)
        captions = [np.repeat(caption, each), np.repeat(others, n_terms)]
        terms = [self._terms_of[place], *(np.array(sorted(terms), np.int64) for terms in terms_of_others)]
        pairs = np.unique(hits["row"].to_numpy()[np.concatenate(captions)] * len(self.terms) + np.concatenate(terms))
        return pairs // len(self.terms), pairs % len(self.terms)

    def _mentioned(self, text: str) -> set[int]:
        if _odd().isdisjoint(text):
            return self._mentioned_as_written(text)
        plain = normalize(text)
        terms = self._mentioned_as_written(plain)
        # A mark may part the words of a phrase.
        if self._several_words and (other := split_words(text)) != plain:
            terms |= self._mentioned_as_written(other) & self._several_words
        return terms

    def _mentioned_as_written(self, text: str) -> set[int]:
        text = _lower(text)
        forms = (found for word in set(_WORDS.findall(text)) for found in self._forms.get(word, ()))
        return {term for form, terms in forms if form is None or form.search(text) for term in terms}


@cache
def _database() -> duckdb.DuckDBPyConnection:
    import duckdb
    import pyarrow as pa

    return duckdb.connect(config={"threads": pa.cpu_count(), "preserve_insertion_order": "false"})


def _terms_by_form(known: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    """Return the terms that a mention of a form counts for, where the longest forms are found and none within others.

    A form counts for the terms of those that stand within it. Left out are forms that can share words with another's
    ends, which an expression finds one of, and forms of other characters than letters and digits of ASCII.
    """
    words = {form: tuple(_WORDS.findall(form)) for form in known}
    starts = {w[:k] for w in words.values() for k in range(1, len(w))}
    ends = {w[-k:] for w in words.values() for k in range(1, len(w))}
    by_form = {}
    for form, w in words.items():
        inner = range(1, len(w))
        if form.isascii() and " ".join(w) == form and not any(w[k:] in starts or w[:k] in ends for k in inner):
            within = {" ".join(w[i:j]) for i in range(len(w)) for j in range(i + 1, len(w) + 1)}
            by_form[form] = sorted({term for one in within for term in known.get(one, ())})
    return by_form


@cache
def _odd() -> frozenset[str]:
    """Return characters that may change a text (:mod:`biaslab.io.plaintext`), accents too."""
    return may_change() | set(map(chr, range(0x0300, 0x0370)))


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
        terms, priorities = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.uint64)

        def wanted(texts: pa.Array | pd.Series, ids: Callable[[np.ndarray], list[str]]) -> np.ndarray:
            nonlocal n_corpus, terms, priorities, totals
            n_corpus += len(texts)
            rows, terms = self._matcher.match(texts)
            different, again = np.unique(rows, return_inverse=True)
            priorities = _mix(hashes(ids(different), self._seed)[again] ^ self._salts[terms])
            good = priorities <= self._limits[terms]
            # One caption of each term is kept in any case: it carries the term's total.
            these, first = np.unique(terms, return_index=True)
            good[first[totals[these] == 0]] = True
            totals += np.bincount(terms, minlength=len(totals))
            terms, priorities = terms[good], priorities[good]
            return rows[good]

        for found in self._corpus.batches(_ROWS, part=int(parts["part"].item()), wanted=wanted):
            if len(found):
                kept.append(found.assign(term=terms, priority=priorities))
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
