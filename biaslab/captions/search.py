"""Search for captions that mention terms, in one pass: totals, and a uniform sample of each term's captions."""

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
# Captions that may mention terms, per batch.
_ROWS = 2**18
_WORDS = re.compile(r"\w+")
# The ASCII characters of Python's \s, and the hyphen; RE2's \s lacks some.
_SEPARATOR = r"[\t-\r\x1c- -]+"
_QUERY = """
select {row}, {columns}, case when strlen({text}) = length({text}) then regexp_extract_all(lower({text}), $forms) end
from {source} where regexp_matches({text}, $gate)"""
_FIRST_COLUMNS = ["caption_id", "term", "text", "rank"]


@dataclass(frozen=True)
class SearchResult:
    """Result of a search."""

    totals: pd.DataFrame
    """Per term, in the order given: ``term``, ``n_captions`` (captions that mention it) and ``n_corpus`` (all)."""
    captions: pd.DataFrame
    """Sampled captions, by term in the order given and then by rank: ``caption_id``, ``term``, ``text``, ``rank`` (from
    1) and the corpus's other columns. The first k of a term are a uniform sample of its captions for every k."""


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

    A term is mentioned if its words occur as whole words, in letters of either case. Words of a phrase may be separated
    by spaces or hyphens of any kind, and invisible marks do not end a word. A mention counts for each term that it
    matches. The sample is determined by hashes of (seed, term, caption_id) alone. It depends neither on the order of
    the corpus nor on batches, parts or other terms.

    ``per_term`` captions of each term are the random sample; nearest captions are selected among the first ``pool``, if
    that is larger. ``plural`` states whether a term's plural mentions it, too; for terms in ``forms``, the words there
    replace both. The result of each part of the corpus is cached in ``cache``. Raises ParameterError: A term cannot be
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
    """Yield the result of ``work`` for each part of a corpus, in order; one is in memory at a time.

    ``work`` takes a row whose column ``part`` is the part's number. ``name``, the corpus and ``inputs`` are the cache
    key. The progress bar counts parts. DuckDB uses threads, so no worker processes are started on this machine.
    """
    parts = pd.DataFrame({"part": range(corpus.parts)})
    options: dict[str, Any] = {"label": f"Searching {corpus.name}", "unit": "parts", "progress": progress}
    if cache is None:
        from tqdm import tqdm

        bar = {"desc": options["label"], "unit": " parts", "leave": False, "file": sys.stderr, "disable": not progress}
        yield from (work(parts[i : i + 1]) for i in tqdm(range(len(parts)), **bar))
        return
    stage = cache.stage(name, {"corpus": corpus.digest, **inputs}, work)
    if cache.workers.engine == "local" and corpus.parts and corpus.selection(0):
        stage = stage.without_workers()
    yield from stage.compute_iter(parts, shard_rows=1, **options)


class Matcher:
    """Finds which of many terms each caption mentions.

    DuckDB finds captions that may mention a term, and the mentions in ASCII captions. Python searches the others.
    """

    def __init__(
        self, terms: Sequence[str], *, plural: bool = True, forms: Mapping[str, Sequence[str]] = MappingProxyType({})
    ):
        """Search for ``terms``, and their plurals if ``plural``; for terms in ``forms``, only for the words there.

        Raises ParameterError: A term is empty, given twice, not printable, or does not begin and end with a letter or
        digit, or the terms are too long to be searched.
        """
        import duckdb

        self.terms = [_check_term(term) for term in terms]
        folded = [_to_lower(t) for t in self.terms]
        duplicates = [t for t, n in Counter(folded).items() if n > 1]
        if duplicates:
            raise ParameterError(f"The term {duplicates[0]!r} occurs twice; keep it once.")
        # Several terms can have the same form.
        terms_by_form: dict[str, list[int]] = defaultdict(list)
        for i, term in enumerate(folded):
            term_forms = (term, *(lexicons.plurals(term) if plural else ()))
            term_forms = [_check_term(form) for form in forms[self.terms[i]]] if self.terms[i] in forms else term_forms
            for form in dict.fromkeys(re.sub(r"[\s-]+", " ", _to_lower(form)) for form in term_forms):
                terms_by_form[form].append(i)
        self._several_words = {i for i, term in enumerate(folded) if len(_WORDS.findall(term)) > 1}
        # Forms by their first word, with a pattern for forms of several words.
        self._forms: dict[str, list[tuple[re.Pattern | None, list[int]]]] = defaultdict(list)
        for form, indices in terms_by_form.items():
            word = _WORDS.match(form)[0]
            pattern = r"[\s-]+".join(map(re.escape, form.split(" ")))
            self._forms[word].append((None if word == form else re.compile(rf"(?<!\w){pattern}(?!\w)"), indices))
        # A RE2 expression of all mentions, some false ones, and special characters. RE2's word boundary (\b) considers
        # ASCII letters only.
        rough_patterns = []
        for form in terms_by_form:
            prefix, suffix = (r"\b" if form[end].isascii() else "" for end in (0, -1))
            rough_patterns.append(prefix + r"\W+".join(map(re.escape, form.split(" "))) + suffix)
        odd = "".join(rf"\x{{{ord(character):x}}}" for character in sorted(_special_characters()))
        longest = sorted(terms_by_form, key=len, reverse=True)
        alternatives = "|".join(_SEPARATOR.join(map(re.escape, form.split(" "))) for form in longest)
        self._patterns = {"forms": rf"\b(?:{alternatives})\b", "gate": rf"(?i)(?:{'|'.join(rough_patterns)}|[{odd}])"}
        self._partial = _partial(terms_by_form)
        try:
            list(self.select(Selection("(select '' as text)", 1, "0", {"text": "text"})))
        except duckdb.Error as error:
            longest_term = max(self.terms, key=len)
            raise ParameterError(
                f"These {len(self.terms)} terms cannot be searched: {str(error)[-60:]}. The longest term, which begins "
                f"with {longest_term[:40]!r}, has {len(longest_term)} characters. Shorten it, or search for fewer "
                "terms at a time."
            ) from None

    def match(self, texts: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the mentions in ``texts`` as (index of the caption, index of the term), each pair once, sorted."""
        terms = [sorted(self._find_terms(text)) for text in texts]
        captions = np.repeat(np.arange(len(terms)), np.array([*map(len, terms)], np.int64))
        return captions, np.array([*chain.from_iterable(terms)], np.int64)

    def select(self, captions: Selection) -> Iterator[tuple[np.ndarray, pa.Table, np.ndarray, np.ndarray]]:
        """Yield batches of captions that may mention terms, in order: rows, captions, and their mentions.

        DuckDB reads them. Mentions have the form of :meth:`match`, with the index of the caption in its batch. Raises
        duckdb.Error or OSError: DuckDB cannot read the captions.
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
        # Python searches captions that are not ASCII, or that may mention more terms than DuckDB finds.
        is_open = mentions.is_null().to_numpy(zero_copy_only=False)
        is_open[caption.filter(terms.is_null())] = True
        open_captions = np.flatnonzero(is_open)
        open_mentions, open_terms = self.match(texts.take(pa.array(open_captions)).to_pylist())
        captions = [caption.take(pc.list_parent_indices(terms)), open_captions[open_mentions]]
        term = [terms.flatten(), open_terms]
        # Sorting is faster than numpy.unique here, because the pairs are almost sorted.
        pairs = np.sort(np.concatenate(captions) * len(self.terms) + np.concatenate(term))
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]
        return pairs // len(self.terms), pairs % len(self.terms)

    def _terms_of(self, form: str) -> list[int] | None:
        """Return the terms that a form found in a caption mentions, or None if these may not be all."""
        return None if re.sub(r"[\s-]+", " ", form) in self._partial else sorted(self._find_written_terms(form))

    def _find_terms(self, text: str) -> set[int]:
        if text.isascii() or _special_characters().isdisjoint(text):
            return self._find_written_terms(text)
        normalized = normalize(text)
        terms = self._find_written_terms(normalized)
        # A mark may separate the words of a phrase.
        if self._several_words and (rejoined := split_words(text)) != normalized:
            terms |= self._find_written_terms(rejoined) & self._several_words
        return terms

    def _find_written_terms(self, text: str) -> set[int]:
        text = _to_lower(text)
        forms = (entry for word in self._forms.keys() & _WORDS.findall(text) for entry in self._forms[word])
        return {term for form, terms in forms if form is None or form.search(text) for term in terms}


@cache
def _database() -> duckdb.DuckDBPyConnection:
    import duckdb
    import pyarrow as pa

    return duckdb.connect(config={"threads": pa.cpu_count()})


class Mentions:
    """The captions of a part of a corpus that may mention terms, in order, with their mentions.

    Yields tables of captions in batches, each with the result of :meth:`Matcher.match` for it. Raises InputError: The
    corpus cannot be read.
    """

    n_read = 0
    """Number of captions read so far."""

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
                # Some texts are not UTF-8, which DuckDB does not read.
                message = "%s: captions from number %d on are read in tables, because of this error: %s"
                _log.info(message, self._corpus.name, self.n_read, error)
        start = 0
        for batch in self._corpus.batches(part=self._part):
            new_rows = batch[max(0, self.n_read - start) :]
            start += len(batch)
            if len(new_rows):
                self.n_read = start
                rows, terms = self._matcher.match(new_rows["text"])
                row_numbers, indices = np.unique(rows, return_inverse=True)
                yield pa.Table.from_pandas(new_rows.iloc[row_numbers], preserve_index=False), indices, terms


def _partial(forms: Iterable[str]) -> set[str]:
    """Return forms whose mention may hide a mention of another form that overlaps with its start or end.

    Forms with characters that are not part of words may hide one, too.
    """
    words = {form: tuple(_WORDS.findall(form)) for form in forms}
    starts = {w[:k] for w in words.values() for k in range(1, len(w))}
    ends = {w[-k:] for w in words.values() for k in range(1, len(w))}
    overlapping = {form for form, w in words.items() if any(w[k:] in starts or w[:k] in ends for k in range(1, len(w)))}
    return overlapping | {form for form, w in words.items() if " ".join(w) != form}


@cache
def _special_characters() -> frozenset[str]:
    """Return characters that may change a text (:mod:`biaslab.io.plaintext`), including accents."""
    return may_change() | set(map(chr, range(0x0300, 0x0370)))


def _check_term(term: str) -> str:
    stripped = " ".join(normalize(str(term)).split())
    # In some scripts words end in a vowel mark.
    if not stripped or not (stripped[0].isalnum() and (stripped[-1].isalnum() or category(stripped[-1])[0] == "M")):
        raise ParameterError(f"The term {term!r} cannot be searched; it must begin and end with a letter or digit.")
    if not is_printable(stripped):
        raise ParameterError(f"The term {term!r} cannot be searched; it must contain only printable characters.")
    return stripped


def _to_lower(text: str) -> str:
    """Return a text in lower case, letter by letter: no letter becomes two, and the Kelvin sign does not become k."""
    if text.isascii():
        return text.lower()
    pairs = ((char, char.lower()) for char in text)
    return "".join(low if len(low) == 1 and low.isascii() == char.isascii() else char for char, low in pairs)


class _Work:
    """Searches parts of a corpus; a process searches one part at a time."""

    def __init__(self, corpus: Corpus, matcher: Matcher, keep: int, seed: int):
        self._corpus, self._matcher, self._keep, self._seed = corpus, matcher, keep, seed
        self._salts = hashes([term.lower().encode() for term in matcher.terms], seed)
        # Each term's smallest priorities so far, and the largest priority that can still be among them.
        self._smallest_rows = pd.DataFrame({"term": np.zeros(0, np.int64), "priority": np.zeros(0, np.uint64)})
        self._limits = np.full(len(matcher.terms), np.iinfo(np.uint64).max, dtype=np.uint64)

    def __call__(self, parts: pd.DataFrame) -> pd.DataFrame:
        import pyarrow as pa

        # Captions that cannot be in a term's sample, given the parts searched so far by this process, are dropped. If
        # none is left, one row with term -1 has ``n_corpus`` only.
        totals = np.zeros(len(self._matcher.terms), dtype=np.int64)
        frames: list[pd.DataFrame] = []
        mentions = Mentions(self._corpus, int(parts["part"].item()), self._matcher)
        for captions, rows, terms in mentions:
            ids = captions["caption_id"].cast(pa.binary()).to_pylist()
            priorities = _mix(hashes(ids, self._seed)[rows] ^ self._salts[terms])
            is_candidate = priorities <= self._limits[terms]
            # One caption of each term is always included, because its row contains the term's total.
            first_mentions = np.flatnonzero(totals[terms] == 0)
            is_candidate[first_mentions[np.unique(terms[first_mentions], return_index=True)[1]]] = True
            totals += np.bincount(terms, minlength=len(totals))
            if is_candidate.any():
                selected = captions.take(pa.array(rows[is_candidate])).to_pandas()
                frames.append(selected.assign(term=terms[is_candidate], priority=priorities[is_candidate]))
            # Rows that can no longer be among the smallest are dropped at intervals, so that memory stays bounded.
            if sum(map(len, frames)) > 4 * self._keep * len(totals):
                frames = [self._smallest(frames)]
        if not frames:
            return pd.DataFrame({"term": [-1], "n_corpus": [mentions.n_read]})
        smallest = self._smallest(frames)
        return smallest.assign(n_captions=totals[smallest["term"]], n_corpus=mentions.n_read)

    def _smallest(self, frames: list[pd.DataFrame]) -> pd.DataFrame:
        """Return each term's ``keep`` rows of smallest priority, and lower the limits accordingly."""
        smallest = _smallest(frames, self._keep)
        # Rows of a part that is searched again are dropped.
        rows = pd.concat([self._smallest_rows, smallest[["term", "priority"]]]).drop_duplicates()
        self._smallest_rows = _smallest([rows], self._keep)
        boundary = self._smallest_rows[self._smallest_rows.groupby("term").cumcount() == self._keep - 1]
        # The array in a worker may be read-only.
        self._limits = self._limits.copy()
        self._limits[boundary["term"]] = boundary["priority"]
        return smallest


def _smallest(frames: list[pd.DataFrame], keep: int) -> pd.DataFrame:
    """Return each term's ``keep`` rows of smallest priority, in order; equal ones, of one id, in input order."""
    frame = pd.concat(frames, ignore_index=True)
    order = np.lexsort((frame["priority"], frame["term"]))
    ranks = frame["term"].iloc[order].groupby(frame["term"]).cumcount()
    return frame.iloc[order[ranks < keep]].reset_index(drop=True)


def _merge(results: Iterator[pd.DataFrame], terms: Sequence[str], keep: int) -> SearchResult:
    """Return the combined result of all parts."""
    totals, n_corpus = np.zeros(len(terms), dtype=np.int64), 0
    frames: list[pd.DataFrame] = []
    for result in results:
        n_corpus += int(result["n_corpus"].iloc[0])
        if result["term"].iloc[0] == -1:
            continue
        first_rows = result.drop_duplicates("term")
        totals[first_rows["term"]] += first_rows["n_captions"]
        frames.append(result.drop(columns=["n_captions", "n_corpus"]))
        # Not after every part, because a corpus has thousands.
        if sum(map(len, frames)) > 4 * keep * len(terms):
            frames = [_smallest(frames, keep)]
    counts = pd.DataFrame({"term": list(terms), "n_captions": totals, "n_corpus": n_corpus})
    if not frames:
        return SearchResult(counts, pd.DataFrame(columns=_FIRST_COLUMNS))
    sample = _smallest(frames, keep)
    sample["rank"] = sample.groupby("term").cumcount() + 1
    sample["term"] = np.array(terms, dtype=object)[sample["term"]]
    extra = [c for c in sample.columns if c not in (*_FIRST_COLUMNS, "priority")]
    return SearchResult(counts, sample[_FIRST_COLUMNS + extra])


def hashes(texts: Sequence[bytes], seed: int) -> np.ndarray:
    """Return a 64-bit hash of each text, as UTF-8, under a seed: ``uint64 (texts,)``."""
    # Copying a keyed hash is faster than creating one.
    copy_hasher = hashlib.blake2b(digest_size=8, key=str(seed).encode()).copy
    digests = []
    for text in texts:
        hasher = copy_hasher()
        hasher.update(text)
        digests.append(hasher.digest())
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def _mix(x: np.ndarray) -> np.ndarray:
    """Return a well-mixed one-to-one image of 64-bit numbers (the finaliser of SplitMix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
