"""Which captions mention which terms, in one pass: totals, and a uniform sample of each term's captions."""

from __future__ import annotations

import hashlib
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from biaslab import lexicons
from biaslab.captions._tables import texts_of
from biaslab.engine import LocalEngine, advance
from biaslab.errors import InputError, ParameterError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import pyarrow as pa

    from biaslab.captions.corpus import Corpus
    from biaslab.engine import Engine
    from biaslab.store import Store

# Between captions that are searched as one text: it is in no term and joins no words.
_END = "\x02"
# What may stand between the words of a phrase, Python's [\s-]+ in UTF-8: hyperscan reads bytes here.
_BETWEEN = (
    r"(?:[\t-\r\x1c-\x20-]|\xc2[\x85\xa0]|\xe1\x9a\x80|\xe2\x80[\x80-\x8a\xa8\xa9\xaf]"
    r"|\xe2\x81\x9f|\xe3\x80\x80)+"
)
# Bytes that hyperscan can search at once: it counts them in 32 bits.
_MOST = 2**32 - 1
# Where a form can end within another, and its own end.
_ENDS = re.compile(r"\b(?!\w)")
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

    A term is mentioned where its words stand as whole words, in letters of either case; between the words of a
    phrase there may be spaces of any kind or hyphens. A mention counts for each term that it fits: ``nurses`` for
    both ``nurse`` and ``nurses``. Which captions are kept follows from hashes of (seed, term, caption_id) alone: it
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
        ParameterError: A term is empty, given twice, not in printable ASCII, or does not begin and end with a letter or
            digit, or the terms are too long to be searched; ``per_term`` is below 1 or ``pool`` below 0; or
            hyperscan is not installed.
        InputError: A caption has 4 GB or more.
    """
    import pandas as pd

    if per_term < 1 or pool < 0:
        raise ParameterError(
            f"per_term is {per_term} and pool is {pool}; per_term is at least 1, pool at least 0."
        )
    matcher = Matcher(terms, plural=plural)
    # What keeps these terms from being searched is said here and not by a worker.
    matcher.check()
    keep = max(per_term, pool)
    work = _Work(corpus, matcher, keep, seed)
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
    stage = store.stage("search", inputs, work)
    options = {"label": label, "unit": "captions", "advances": True, "progress": progress}
    results = stage.compute_iter(parts, shard_rows=1, engine=engine, **options)
    return _merge(results, matcher.terms, keep)


class Matcher:
    """Finds which of many terms each caption mentions."""

    def __init__(self, terms: Sequence[str], *, plural: bool = True):
        """Take ``terms``, and their plurals if ``plural``."""
        self.terms = [_checked(term) for term in terms]
        folded = [t.lower() for t in self.terms]
        twice = [t for t, n in Counter(folded).items() if n > 1]
        if twice:
            raise ParameterError(f"The term {twice[0]!r} is given twice; give each term once.")
        # A form can be that of several terms.
        forms: dict[str, list[int]] = {}
        for i, term in enumerate(folded):
            own = (term, *(lexicons.plurals(term) if plural else ()))
            for form in dict.fromkeys(map(_plain, own)):
                forms.setdefault(form, []).append(i)
        self._forms = forms
        # A form that begins with another one mentions its terms too, as "chef de cuisine" does "chef".
        self._terms_of = {
            form: [i for end in _ENDS.finditer(form) for i in forms.get(form[: end.start()], ())]
            for form in forms
        }
        longest = sorted(forms, key=len, reverse=True)
        either = "|".join(r"[\s-]+".join(map(re.escape, form.split(" "))) for form in longest)
        # One match for each place where a mention begins, so that those that overlap are all found.
        self._python = re.compile(rf"\b(?=({either})\b)")

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the compiled expressions, which another process makes for its own processor."""
        return {name: value for name, value in vars(self).items() if name != "_database"}

    @cached_property
    def _database(self) -> Any:
        """All forms of all terms, compiled; a form's number is its term's."""
        try:
            import hyperscan
        except ImportError:
            raise ParameterError(
                "The search for terms needs hyperscan; run `pip install 'hyperscan>=0.8'`."
            ) from None
        pairs = [(form, i) for form, terms in self._forms.items() for i in terms]
        expressions = [rf"\b{_BETWEEN.join(map(_escaped, form.split(' ')))}\b" for form, _ in pairs]
        database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        try:
            database.compile(
                expressions=[expression.encode("ascii") for expression in expressions],
                ids=[i for _, i in pairs],
                flags=[hyperscan.HS_FLAG_CASELESS] * len(pairs),
            )
        except hyperscan.error as error:
            longest = max(self.terms, key=len)
            raise ParameterError(
                f"hyperscan cannot search these {len(self.terms)} terms: {error} The longest, which begins with "
                f"{longest[:40]!r}, has {len(longest)} characters; shorten it, or search for fewer terms at a time."
            ) from None
        return database

    def check(self) -> None:
        """Check that the terms can be searched here.

        Raises:
            ParameterError: They are too long, or hyperscan is not installed.
        """
        if self.terms:
            _ = self._database

    def match(self, texts: Sequence[str] | pd.Series | pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Return the mentions in ``texts`` as (index of the caption, index of the term), each pair once, sorted.

        Raises:
            InputError: A text has 4 GB or more.
            ParameterError: The terms are too long, or hyperscan is not installed.
        """
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self.terms or not len(texts):
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        kind = pa.large_string()
        array = texts.cast(kind) if isinstance(texts, pa.Array) else pa.array(texts, kind)
        array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        array = pc.fill_null(array, "") if array.null_count else array
        offsets = np.frombuffer(array.buffers()[1], dtype=np.int64)[array.offset :][: len(array) + 1]
        length = int(offsets[-1] - offsets[0]) + len(array) - 1
        if length > _MOST:
            return self._match_halves(array, length)
        # All captions as one text: what is begun once for each text takes longer than the search itself.
        whole = pa.LargeListArray.from_arrays(pa.array([0, len(array)], pa.int64()), array)
        one = pc.binary_join(whole, pa.scalar(_END, kind))
        starts = offsets[:-1] - offsets[0] + np.arange(len(array))
        found: list[int] = []
        note = found.extend
        if length:
            text = one.buffers()[2].slice(0, length)
            self._database.scan(
                text, match_event_handler=lambda term, start, end, flags, context: note((end, term))
            )
        ends, terms = np.array(found, dtype=np.int64).reshape(-1, 2).T
        rows = np.searchsorted(starts, ends - 1, side="right") - 1
        pairs = np.sort(rows * len(self.terms) + terms)
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]
        # Letters beyond ASCII were taken for no part of a word, so captions with any are looked at again. Only letters
        # of ASCII are put in lower case, as above, where a Kelvin sign is no k.
        rows = pairs // len(self.terms)
        new = np.diff(rows, prepend=-1) > 0
        hits = rows[new]
        hit = array.take(pa.array(hits))
        strange = ~pc.string_is_ascii(hit).to_numpy(zero_copy_only=False)
        if strange.any():
            several = [pairs[~strange[np.cumsum(new) - 1]]]
            for i, text in zip(
                hits[strange].tolist(), hit.filter(pa.array(strange)).to_pylist(), strict=True
            ):
                mentions = self._python.findall(text.encode().lower().decode())
                found = [term for mention in mentions for term in self._terms_of[_plain(mention)]]
                several.append(i * len(self.terms) + np.array(found, dtype=np.int64))
            pairs = np.unique(np.concatenate(several))
        return pairs // len(self.terms), pairs % len(self.terms)

    def _match_halves(self, array: pa.Array, length: int) -> tuple[np.ndarray, np.ndarray]:
        import numpy as np

        if len(array) == 1:
            raise InputError(
                f"A caption has {length} bytes; at most {_MOST} can be searched. Cut it or leave it out."
            )
        half = len(array) // 2
        (rows, terms), (more_rows, more_terms) = self.match(array[:half]), self.match(array[half:])
        return np.concatenate([rows, more_rows + half]), np.concatenate([terms, more_terms])


def _checked(term: str) -> str:
    stripped = " ".join(str(term).split())
    if not stripped or not (stripped[0].isalnum() and stripped[-1].isalnum()):
        raise ParameterError(
            f"The term {term!r} cannot be searched; a term begins and ends with a letter or digit."
        )
    # A sign that is not printable may be the one that stands between captions.
    if not (stripped.isascii() and stripped.isprintable()):
        raise ParameterError(f"The term {term!r} cannot be searched; use printable characters of ASCII.")
    return stripped


def _escaped(word: str) -> str:
    return "".join(char if char.isalnum() else f"\\x{ord(char):02x}" for char in word)


def _plain(mention: str) -> str:
    """Return a mention in lower case with one space between its words."""
    return re.sub(r"[\s-]+", " ", mention.lower())


class _Work:
    """Searches parts of a corpus, one after the other in a process."""

    def __init__(self, corpus: Corpus, matcher: Matcher, keep: int, seed: int):
        self._corpus, self._matcher, self._keep, self._seed = corpus, matcher, keep, seed
        # What is known of the parts searched so far: each term's smallest priorities, and the largest that can still
        # be among them.
        self._known: set[int] = set()
        self._best: tuple[np.ndarray, np.ndarray] | None = None
        self._limits: np.ndarray | None = None

    def __call__(self, parts: pd.DataFrame) -> pd.DataFrame:
        """Search the parts numbered in the column ``part``."""
        import pandas as pd

        return pd.concat([self._searched(int(part)) for part in parts["part"]], ignore_index=True)

    def _searched(self, part: int) -> pd.DataFrame:
        """Search one part.

        Captions are left out that cannot be among a term's first ``keep`` ones, by what this part and those that
        this process has searched before hold. Which ones are left out depends on the order of the work; which ones
        are the first of the whole corpus does not.

        Returns:
            The captions kept, at least one of each term that the part mentions, with ``term`` as an index,
            ``priority`` (a uniform 64-bit number), ``n_captions`` (the term's total in this part) and ``n_corpus``
            (all captions in it). Where none is kept, one row of term -1 has ``n_corpus`` alone.
        """
        import numpy as np
        import pandas as pd

        names = self._matcher.terms
        salts = _hashes([term.lower() for term in names], self._seed)
        totals = np.zeros(len(names), dtype=np.int64)
        if self._limits is None:
            self._limits = np.full(len(names), np.iinfo(np.uint64).max, dtype=np.uint64)
        limits = self._limits.copy()
        kept: list[pd.DataFrame] = []
        waiting = n_corpus = 0
        for batch in texts_of(self._corpus, part):
            n_corpus += len(batch.texts)
            advance(len(batch.texts))
            rows, terms = self._matcher.match(batch.texts)
            if not len(rows):
                continue
            new = np.diff(rows, prepend=-1) > 0
            hashes = _hashes(batch.ids(rows[new]), self._seed)
            priorities = _mix(hashes[np.cumsum(new) - 1] ^ salts[terms])
            good = priorities <= limits[terms]
            # One caption of each term is kept in any case: it carries the term's total.
            these, first = np.unique(terms, return_index=True)
            good[first[totals[these] == 0]] = True
            totals += np.bincount(terms, minlength=len(totals))
            if not good.any():
                continue
            found = batch.rows(rows[good])
            kept.append(found.assign(term=terms[good], priority=priorities[good]))
            waiting += len(found)
            # Rows that can no longer be among the smallest are let go now and then, so that memory stays bounded.
            if waiting > 4 * self._keep * len(names):
                smallest = _smallest(pd.concat(kept, ignore_index=True), self._keep)
                kept, waiting = [smallest], 0
                self._limit(limits, smallest["term"].to_numpy(), smallest["priority"].to_numpy())
        if not kept:
            return pd.DataFrame({"term": [-1], "n_corpus": [n_corpus]})
        smallest = _smallest(pd.concat(kept, ignore_index=True), self._keep)
        if part not in self._known:
            self._learn(part, smallest["term"].to_numpy(), smallest["priority"].to_numpy())
        return smallest.assign(n_captions=totals[smallest["term"]], n_corpus=n_corpus)

    def _learn(self, part: int, terms: np.ndarray, priorities: np.ndarray) -> None:
        """Take into account what a part holds; a part that is searched again counts once."""
        import numpy as np

        self._known.add(part)
        if self._best is not None:
            terms, priorities = (
                np.concatenate(both) for both in zip(self._best, (terms, priorities), strict=True)
            )
        order, ranks = _ranked(terms, priorities)
        order = order[ranks < self._keep]
        self._best = terms[order], priorities[order]
        self._limit(self._limits, *self._best)

    def _limit(self, limits: np.ndarray, terms: np.ndarray, priorities: np.ndarray) -> None:
        """Lower the limits of terms that have as many captions as are kept, given in order of term and priority."""
        import numpy as np

        last = np.flatnonzero(np.diff(terms, append=-1))
        full = last[np.diff(last, prepend=-1) >= self._keep]
        limits[terms[full]] = np.minimum(limits[terms[full]], priorities[full])


def _ranked(terms: np.ndarray, priorities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the order by term and priority, and the rank from 0 of each row within its term in that order."""
    import numpy as np

    order = np.lexsort((priorities, terms))
    places = np.arange(len(order))
    begins = np.diff(terms[order], prepend=-1) > 0
    return order, places - np.maximum.accumulate(np.where(begins, places, 0))


def _smallest(frame: pd.DataFrame, keep: int) -> pd.DataFrame:
    """Return each term's ``keep`` rows of smallest priority, in order; equal ones by id."""
    import numpy as np

    terms, priorities = frame["term"].to_numpy(), frame["priority"].to_numpy()
    order, ranks = _ranked(terms, priorities)
    # Ids are compared only where they decide: to sort them takes longer than all else.
    if ((np.diff(priorities[order]) == 0) & (np.diff(terms[order]) == 0)).any():
        keys = ["term", "priority", "caption_id"]
        order = frame[keys].reset_index(drop=True).sort_values(keys, kind="stable").index.to_numpy()
    return frame.iloc[order[ranks < keep]].reset_index(drop=True)


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
    import numpy as np

    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
