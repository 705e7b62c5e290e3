"""Which captions mention which terms, in one pass: totals, and a uniform sample of each term's captions."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from biaslab import lexicons
from biaslab.captions._tables import texts_of
from biaslab.engine import LocalEngine, advance
from biaslab.errors import ParameterError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import pyarrow as pa

    from biaslab.captions.corpus import Corpus
    from biaslab.engine import Engine
    from biaslab.store import Store

# Put around each mention and after each caption, so that they are found again; taken out of the captions before. No
# letters, no spaces.
_MARK, _END = "\x01", "\x02"
_FIRST_COLUMNS = ["caption_id", "term", "text", "rank"]


@dataclass(frozen=True)
class Found:
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
    progress: bool = True,
    store: Store | None = None,
    engine: Engine | None = None,
) -> Found:
    """Find the captions that mention each term, all terms in one pass over the corpus (paradox, 3.2 and 4).

    A term is mentioned where its words stand as whole words, in any case; between the words of a phrase there may
    be spaces or a hyphen. Which captions are kept follows from hashes of (seed, term, caption_id) alone: it
    depends neither on the order of the corpus nor on batches, parts or other terms.

    Args:
        corpus: Captions.
        terms: Words or phrases, each once, in lower case or not.
        per_term: Captions to keep of each term, at least 1: the random sample.
        pool: Captions to keep of each term where that is more, as candidates for nearest captions; a number
            beyond a term's captions keeps all of them.
        seed: Seed of the sample.
        plural: Whether a term's plural mentions it too.
        progress: Whether to show a bar with the rate.
        store: Where to keep what each part of the corpus gave, so that a search goes on where it stopped; nothing
            is kept where it is None.
        engine: Where the work runs; this process where it is None. Needs a store.

    Raises:
        ParameterError: A term is empty, given twice, not in ASCII, or does not begin and end with a letter or
            digit; or ``per_term`` is below 1 or ``pool`` below 0.
    """
    import pandas as pd

    if per_term < 1 or pool < 0:
        raise ParameterError(
            f"per_term is {per_term} and pool is {pool}; per_term is at least 1, pool at least 0."
        )
    matcher = Matcher(terms, plural=plural)
    keep = max(per_term, pool)
    work = partial(_search_parts, corpus, matcher, keep, seed)
    parts = pd.DataFrame({"part": range(corpus.parts)})
    label = f"Searching {corpus.name}"
    if store is None:
        from tqdm import tqdm

        each = (parts[i : i + 1] for i in range(len(parts)))
        with tqdm(desc=label, unit=" captions", leave=False, file=sys.stderr, disable=not progress) as bar:
            return _merge(LocalEngine().map(work, each, advanced=bar.update), matcher.terms, keep)
    inputs = {
        "corpus": corpus.digest,
        "terms": list(terms),
        "keep": keep,
        "seed": seed,
        "plural": plural,
    }
    stage = store.stage(
        "search",
        inputs,
        [
            "biaslab.captions.search",
            "biaslab.captions._tables",
            "biaslab.captions.corpus",
            "biaslab.lexicons",
        ],
    )
    options = {"label": label, "unit": "captions", "advances": True, "progress": progress}
    results = stage.compute_iter(parts, work, shard_rows=1, engine=engine, **options)
    return _merge(results, matcher.terms, keep)


class Matcher:
    """Finds which of many terms each caption mentions."""

    def __init__(self, terms: Sequence[str], *, plural: bool = True):
        """Take ``terms``, and their plurals if ``plural``."""
        self.terms = [_checked(term) for term in terms]
        folded = [t.lower() for t in self.terms]
        twice = [t for i, t in enumerate(folded) if t in folded[:i]]
        if twice:
            raise ParameterError(f"The term {twice[0]!r} is given twice; give each term once.")
        forms: dict[str, int] = {}
        for i, term in enumerate(folded):
            for form in (term, *(lexicons.plurals(term) if plural else ())):
                forms.setdefault(_plain(form), i)
        # A phrase that holds another term mentions it too, as "prime minister" does "minister".
        self._terms_of = {form: {forms[f] for f in forms if f" {f} " in f" {form} "} for form in forms}
        longest = sorted(forms, key=len, reverse=True)
        either = "|".join(r"[\s-]+".join(map(re.escape, form.split(" "))) for form in longest)
        self._re2 = rf"(?i)\b(?:{either})\b"
        self._python = re.compile(rf"\b(?:{either})\b")

    def match(self, texts: Sequence[str] | pd.Series | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Return the mentions in ``texts`` as (index of the caption, index of the term), each pair once, sorted."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self.terms:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        array = (
            texts.cast(pa.large_string())
            if isinstance(texts, pa.Array)
            else pa.array(texts, pa.large_string())
        )
        array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        # RE2 takes letters beyond ASCII for no part of a word, so what it finds is checked where there are any.
        hits = np.flatnonzero(pc.match_substring_regex(array, self._re2).to_numpy(zero_copy_only=False))
        hit = array.take(pa.array(hits))
        ascii_only = pc.string_is_ascii(hit).to_numpy(zero_copy_only=False)
        captions, terms = self._split(hit.filter(pa.array(ascii_only)))
        pairs = [(np.flatnonzero(ascii_only)[captions], terms)]
        for i in np.flatnonzero(~ascii_only):
            found = self._python.findall(hit[int(i)].as_py().lower())
            several = [t for mention in found for t in self._terms_of[_plain(mention)]]
            pairs.append((np.full(len(several), i), np.array(several, dtype=np.int64)))
        rows = hits[np.concatenate([p[0] for p in pairs]).astype(np.int64)]
        unique = np.unique(rows * len(self.terms) + np.concatenate([p[1] for p in pairs]).astype(np.int64))
        return unique // len(self.terms), unique % len(self.terms)

    def _split(self, texts) -> tuple[np.ndarray, np.ndarray]:
        """Return the mentions in an array of ASCII texts that each hold one or more."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        if not len(texts):
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        for sign in (_MARK, _END):
            texts = pc.replace_substring(texts, sign, ",")
        # All captions as one text: what is begun once for each text takes longer than the search itself.
        one = pc.binary_join(pa.ListArray.from_arrays([0, len(texts)], texts), pa.scalar(_END, texts.type))
        marked = pc.replace_substring_regex(one, self._re2, rf"{_MARK}\0{_MARK}")
        _, ends, data = marked.buffers()
        data = np.frombuffer(data, dtype=np.uint8)[: np.frombuffer(ends, dtype=np.int64)[1]]
        marks = np.flatnonzero(data == ord(_MARK))
        owners = np.searchsorted(np.flatnonzero(data == ord(_END)), marks[::2])
        # Between two marks lies a mention, and then comes what is between two mentions.
        bounds = np.stack([marks[::2] + 1, marks[1::2]], axis=1).ravel()
        cut = pa.py_buffer(bounds.astype(np.int64)), marked.buffers()[2]
        pieces = pa.Array.from_buffers(pa.large_string(), max(len(bounds) - 1, 0), [None, *cut])
        coded = pc.dictionary_encode(pieces.take(pa.array(np.arange(0, len(pieces), 2))))
        terms_of = [sorted(self._terms_of[_plain(m)]) for m in coded.dictionary.to_pylist()]
        codes = coded.indices.to_numpy()
        many = np.array([len(t) for t in terms_of], dtype=np.int64)
        first = np.concatenate([[0], np.cumsum(many)[:-1]]).astype(np.int64)
        flat = np.array([t for several in terms_of for t in several], dtype=np.int64)
        repeats = many[codes]
        step = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        return np.repeat(owners, repeats), flat[np.repeat(first[codes], repeats) + step]


def _checked(term: str) -> str:
    stripped = " ".join(str(term).split())
    if not stripped or not (stripped[0].isalnum() and stripped[-1].isalnum()):
        raise ParameterError(
            f"The term {term!r} cannot be searched; a term begins and ends with a letter or digit."
        )
    if not stripped.isascii():
        raise ParameterError(f"The term {term!r} cannot be searched; use letters of ASCII.")
    return stripped


def _plain(mention: str) -> str:
    """Return a mention in lower case with one space between its words."""
    return re.sub(r"[\s-]+", " ", mention.lower())


def _search_parts(corpus, matcher: Matcher, keep: int, seed: int, parts: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    found = [_search_part(corpus, int(part), matcher, keep, seed) for part in parts["part"]]
    return pd.concat(found, ignore_index=True)


def _search_part(corpus, part: int, matcher: Matcher, keep: int, seed: int) -> pd.DataFrame:
    """Search one part of a corpus.

    Returns:
        The captions kept, with ``term`` as an index, ``priority`` (a uniform 64-bit number), ``n_captions`` (the
        term's total in this part) and ``n_corpus`` (all captions in it). Where none is kept, one row of term -1
        has ``n_corpus`` alone.
    """
    import numpy as np
    import pandas as pd

    salts = _hashes([term.lower() for term in matcher.terms], seed)
    totals = np.zeros(len(matcher.terms), dtype=np.int64)
    limits = np.full(len(matcher.terms), np.iinfo(np.uint64).max, dtype=np.uint64)
    kept: list[pd.DataFrame] = []
    waiting = n_corpus = 0
    for batch in texts_of(corpus, part):
        n_corpus += len(batch.texts)
        advance(len(batch.texts))
        rows, terms = matcher.match(batch.texts)
        totals += np.bincount(terms, minlength=len(totals))
        hit, back = np.unique(rows, return_inverse=True)
        hashes = _hashes(batch.ids(hit), seed)
        priorities = _mix(hashes[back] ^ salts[terms])
        good = priorities <= limits[terms]
        if not good.any():
            continue
        found = batch.rows(rows[good])
        kept.append(found.assign(term=terms[good], priority=priorities[good]))
        waiting += len(found)
        # Rows that can no longer be among the smallest are let go now and then, so that memory stays bounded.
        if waiting > 4 * keep * max(len(totals), 1):
            smallest = _smallest(pd.concat(kept, ignore_index=True), keep)
            full = smallest.groupby("term")["priority"].agg(["size", "max"]).query("size >= @keep")
            limits[full.index.to_numpy()] = full["max"].to_numpy(dtype=np.uint64)
            kept, waiting = [smallest], 0
    if not kept:
        return pd.DataFrame({"term": [-1], "n_corpus": [n_corpus]})
    smallest = _smallest(pd.concat(kept, ignore_index=True), keep)
    return smallest.assign(n_captions=totals[smallest["term"]], n_corpus=n_corpus)


def _smallest(frame: pd.DataFrame, keep: int) -> pd.DataFrame:
    """Return each term's ``keep`` rows of smallest priority, in order; equal ones by id."""
    ordered = frame.sort_values(["term", "priority", "caption_id"], kind="stable", ignore_index=True)
    return ordered[ordered.groupby("term").cumcount() < keep].reset_index(drop=True)


def _merge(results: Iterator[pd.DataFrame], terms: Sequence[str], keep: int) -> Found:
    import numpy as np
    import pandas as pd

    totals, n_corpus = np.zeros(len(terms), dtype=np.int64), 0
    found: list[pd.DataFrame] = []
    waiting = 0
    for result in results:
        n_corpus += int(result["n_corpus"].iloc[0])
        if result["term"].iloc[0] == -1:
            continue
        first = result.drop_duplicates("term")
        totals[first["term"].to_numpy()] += first["n_captions"].to_numpy()
        found.append(result.drop(columns=["n_captions", "n_corpus"]))
        waiting += len(found[-1])
        # Not after every part: a corpus has thousands.
        if waiting > 4 * keep * max(len(terms), 1):
            found, waiting = [_smallest(pd.concat(found, ignore_index=True), keep)], 0
    counts = pd.DataFrame({"term": list(terms), "n_captions": totals, "n_corpus": n_corpus})
    if not found:
        return Found(counts, pd.DataFrame(columns=_FIRST_COLUMNS))
    best = _smallest(pd.concat(found, ignore_index=True), keep)
    best["rank"] = best.groupby("term").cumcount() + 1
    best["term"] = np.array(terms, dtype=object)[best["term"].to_numpy(dtype=np.int64)]
    others = [c for c in best.columns if c not in (*_FIRST_COLUMNS, "priority")]
    return Found(counts, best[_FIRST_COLUMNS + others])


def _hashes(texts: Sequence[str], seed: int) -> np.ndarray:
    """Return a 64-bit hash of each text under a seed."""
    import numpy as np

    blake, key = hashlib.blake2b, str(seed).encode()
    encoded = (text.encode("utf-8", "surrogatepass") for text in texts)
    data = b"".join([blake(text, digest_size=8, key=key).digest() for text in encoded])
    return np.frombuffer(data, dtype="<u8").astype(np.uint64)


def _mix(x: np.ndarray) -> np.ndarray:
    """Return a well-mixed one-to-one image of 64-bit numbers (the finaliser of SplitMix64)."""
    import numpy as np

    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
