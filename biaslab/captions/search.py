"""Which captions mention which terms, in one pass: totals, and a uniform sample of each term's captions."""

from __future__ import annotations

import hashlib
import logging
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from unicodedata import category

import numpy as np
import pandas as pd

from biaslab import lexicons
from biaslab.captions.corpus import Selection
from biaslab.errors import ParameterError
from biaslab.io.plaintext import is_printable, may_change, normalize, split_words

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from biaslab.cache.result_cache import ResultCache
    from biaslab.captions.corpus import Corpus

_log = logging.getLogger(__name__)
# Captions that may mention terms, at a time.
_ROWS = 2**18
_WORDS = re.compile(r"\w+")
# What Python's \s is in ASCII, and the hyphen; RE2's \s lacks some.
_BETWEEN = r"[\t-\r\x1c- -]+"
_QUERY = """
select {row}, {columns}, case when strlen({text}) = length({text}) then regexp_extract_all(lower({text}), $forms) end
from {source} where regexp_matches({text}, $gate)"""
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
    results = over_parts(corpus, work, "search", inputs, progress=progress, cache=cache)
    return _merge(results, matcher.terms, keep)


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
    the store keeps. The progress bar counts parts. DuckDB has threads, and no worker processes on this machine.
    """
    parts = pd.DataFrame({"part": range(corpus.parts)})
    shown: dict[str, Any] = {"label": f"Searching {corpus.name}", "unit": "parts", "progress": progress}
    if cache is None:
        from tqdm import tqdm

        bar = {"desc": shown["label"], "unit": " parts", "leave": False, "file": sys.stderr, "disable": not progress}
        yield from (work(parts[i : i + 1]) for i in tqdm(range(len(parts)), **bar))
        return
    stage = cache.stage(name, {"corpus": corpus.digest, **inputs}, work)
    if cache.workers.engine == "local" and corpus.parts and corpus.selection(0):
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
        self._partial = _partial(known)
        try:
            list(self.select(Selection("(select '' as text)", 1, "0", {"text": "text"})))
        except duckdb.Error as error:
            longest_term = max(self.terms, key=len)
            raise ParameterError(
                f"These {len(self.terms)} terms cannot be searched: {str(error)[-60:]}. The longest, which begins with "
                f"{longest_term[:40]!r}, has {len(longest_term)} characters; shorten it, or search for fewer terms at "
                "a time."
            ) from None

    def match(self, texts: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the mentions in ``texts`` as (index of the caption, index of the term), each pair once, sorted."""
        terms = [sorted(self._mentioned(text)) for text in texts]
        captions = np.repeat(np.arange(len(terms)), np.array([*map(len, terms)], np.int64))
        return captions, np.array([*chain.from_iterable(terms)], np.int64)

    def select(self, captions: Selection) -> Iterator[tuple[np.ndarray, pa.Table, np.ndarray, np.ndarray]]:
        """Yield captions that may mention terms, in order and some at a time: rows, captions, and what they mention.

        DuckDB reads them. What they mention is in the form of :meth:`match`, by the index among the captions yielded
        together. Raises duckdb.Error or OSError: DuckDB cannot read the captions.
        """
        import pyarrow as pa

        columns = ", ".join(captions.columns.values())
        query = _QUERY.format(source=captions.source, row=captions.row, columns=columns, text=captions.columns["text"])
        for batch in _database().cursor().sql(query, params=self._patterns).to_arrow_reader(_ROWS):
            row, *values, mentions = batch.columns
            table = pa.table(values, list(captions.columns))
            yield row.to_numpy(), table, *self._mentions(table["text"], mentions)

    def _mentions(self, texts: pa.ChunkedArray, mentions: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        import pyarrow as pa
        import pyarrow.compute as pc

        forms = mentions.flatten().dictionary_encode()
        terms_of_forms = [self._terms_of(form) for form in forms.dictionary.to_pylist()]
        terms = pa.array(terms_of_forms, pa.list_(pa.int64())).take(forms.indices)
        caption = pc.list_parent_indices(mentions)
        # Python looks at captions that are not ASCII, or may mention more than is found.
        is_open = mentions.is_null().to_numpy(zero_copy_only=False)
        is_open[caption.filter(terms.is_null())] = True
        open_captions = np.flatnonzero(is_open)
        open_mentions, open_terms = self.match(texts.take(pa.array(open_captions)).to_pylist())
        captions = [caption.take(pc.list_parent_indices(terms)), open_captions[open_mentions]]
        term = [terms.flatten(), open_terms]
        # They are almost in order, which numpy.unique would make no use of.
        pairs = np.sort(np.concatenate(captions) * len(self.terms) + np.concatenate(term))
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]
        return pairs // len(self.terms), pairs % len(self.terms)

    def _terms_of(self, form: str) -> list[int] | None:
        """Return the terms that a form mentions, as it is found in a caption; None where that is not all."""
        return None if re.sub(r"[\s-]+", " ", form) in self._partial else sorted(self._mentioned_as_written(form))

    def _mentioned(self, text: str) -> set[int]:
        if text.isascii() or _odd().isdisjoint(text):
            return self._mentioned_as_written(text)
        plain = normalize(text)
        terms = self._mentioned_as_written(plain)
        # A mark may part the words of a phrase.
        if self._several_words and (other := split_words(text)) != plain:
            terms |= self._mentioned_as_written(other) & self._several_words
        return terms

    def _mentioned_as_written(self, text: str) -> set[int]:
        text = _lower(text)
        forms = (found for word in self._forms.keys() & _WORDS.findall(text) for found in self._forms[word])
        return {term for form, terms in forms if form is None or form.search(text) for term in terms}


@cache
def _database() -> duckdb.DuckDBPyConnection:
    import duckdb
    import pyarrow as pa

    return duckdb.connect(config={"threads": pa.cpu_count()})


class Mentions:
    """The captions of a part of a corpus that may mention terms, in order, with their mentions.

    Yields tables of captions, some at a time, each with what :meth:`Matcher.match` returns for it. Raises InputError:
    The corpus cannot be read.
    """

    n_read = 0
    """Captions read so far."""

    def __init__(self, corpus: Corpus, part: int, matcher: Matcher):
        self._corpus, self._part, self._matcher = corpus, part, matcher

    def __iter__(self) -> Iterator[tuple[pa.Table, np.ndarray, np.ndarray]]:
        import duckdb
        import pyarrow as pa

        if selection := self._corpus.selection(self._part):
            try:
                for rows, captions, *mentions in self._matcher.select(selection):
                    self.n_read = int(rows[-1]) + 1
                    yield captions, *mentions
                self.n_read = selection.n_captions
                return
            except (duckdb.Error, OSError) as error:
                # Some texts are no UTF-8, which DuckDB does not read.
                _log.info("%s: tables are read from caption %d on: %s", self._corpus.name, self.n_read, error)
        start = 0
        for batch in self._corpus.batches(part=self._part):
            unread = batch[max(0, self.n_read - start) :]
            start += len(batch)
            if len(unread):
                self.n_read = start
                rows, terms = self._matcher.match(unread["text"])
                different, indices = np.unique(rows, return_inverse=True)
                yield pa.Table.from_pandas(unread.iloc[different], preserve_index=False), indices, terms


def _partial(forms: Iterable[str]) -> set[str]:
    """Return forms of which a mention may hide a mention of another form that shares words with its ends.

    Forms with other characters than those of words may hide one, too.
    """
    words = {form: tuple(_WORDS.findall(form)) for form in forms}
    starts = {w[:k] for w in words.values() for k in range(1, len(w))}
    ends = {w[-k:] for w in words.values() for k in range(1, len(w))}
    shared = {form for form, w in words.items() if any(w[k:] in starts or w[:k] in ends for k in range(1, len(w)))}
    return shared | {form for form, w in words.items() if " ".join(w) != form}


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
        self._salts = hashes([term.lower().encode() for term in matcher.terms], seed)
        # Each term's smallest priorities so far, and the largest one that can still be among them.
        self._best = pd.DataFrame({"term": np.zeros(0, np.int64), "priority": np.zeros(0, np.uint64)})
        self._limits = np.full(len(matcher.terms), np.iinfo(np.uint64).max, dtype=np.uint64)

    def __call__(self, parts: pd.DataFrame) -> pd.DataFrame:
        import pyarrow as pa

        # Captions are left out that cannot be among a term's first ones, by what this process has searched so far.
        # Where none is kept, one row of term -1 has ``n_corpus`` alone.
        totals = np.zeros(len(self._matcher.terms), dtype=np.int64)
        kept: list[pd.DataFrame] = []
        mentions = Mentions(self._corpus, int(parts["part"].item()), self._matcher)
        for captions, rows, terms in mentions:
            ids = captions["caption_id"].cast(pa.binary()).to_pylist()
            priorities = _mix(hashes(ids, self._seed)[rows] ^ self._salts[terms])
            good = priorities <= self._limits[terms]
            # One caption of each term is kept in any case: it carries the term's total.
            new = np.flatnonzero(totals[terms] == 0)
            good[new[np.unique(terms[new], return_index=True)[1]]] = True
            totals += np.bincount(terms, minlength=len(totals))
            if good.any():
                chosen = captions.take(pa.array(rows[good])).to_pandas()
                kept.append(chosen.assign(term=terms[good], priority=priorities[good]))
            # Rows that can no longer be among the smallest are let go now and then, so that memory stays bounded.
            if sum(map(len, kept)) > 4 * self._keep * len(totals):
                kept = [self._smallest(kept)]
        if not kept:
            return pd.DataFrame({"term": [-1], "n_corpus": [mentions.n_read]})
        smallest = self._smallest(kept)
        return smallest.assign(n_captions=totals[smallest["term"]], n_corpus=mentions.n_read)

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


def hashes(texts: Sequence[bytes], seed: int) -> np.ndarray:
    """Return a 64-bit hash of each text, as UTF-8, under a seed: ``uint64 (texts,)``."""
    # A copy of a hash that knows the key is made faster than a new one.
    begun = hashlib.blake2b(digest_size=8, key=str(seed).encode()).copy
    digests = []
    for text in texts:
        one = begun()
        one.update(text)
        digests.append(one.digest())
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def _mix(x: np.ndarray) -> np.ndarray:
    """Return a well-mixed one-to-one image of 64-bit numbers (the finaliser of SplitMix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
