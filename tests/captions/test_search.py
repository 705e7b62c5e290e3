"""Search: totals and samples compared with brute force, for any batches, parts and other terms."""

import datetime
import pickle
import re
import sys
from hashlib import blake2b

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from memory_corpus import InMemory

from biaslab import lexicons
from biaslab.captions import search as search_module
from biaslab.captions.corpus import open_corpus
from biaslab.captions.search import Matcher, Mentions, _merge, _Work, search
from biaslab.errors import ParameterError

TERMS = ["nurse", "prime minister", "minister", "salesperson", "chef", "cook", "ceo"]


def test_matcher_equals_regular_expressions(tmp_path):
    # Words in any order, with much between them; a term is looked for by itself, as Python sees letters and spaces.
    rng = np.random.default_rng(0)
    phrases = ["head of state", "state minister", "o'neil", "chef cook nurse", "x-ray chef", "chef o'neil"]
    words = [*TERMS, *phrases, "nurses", "Ministers", *"é日9", "日本", "HEAD", "of", "x", "ray"]
    terms = [*TERMS, *phrases]
    separators = [*"   -\n\t\x0b\x1c\x1f\xa0_\x02\x00'é.", "  ", ", ", ""]
    texts = ["".join(rng.choice(words) + rng.choice(separators) for _ in range(n)) for n in rng.integers(0, 6, 4000)]
    expected = set()
    for k, term in enumerate(terms):
        forms = "|".join(p.replace(" ", "%") for p in (term, *lexicons.plurals(term)))
        mention = re.compile(rf"\b(?:{forms})\b".replace("%", r"[\s-]+"))
        for i, text in enumerate(texts):
            if mention.search(text.lower()):
                expected.add((i, k))
    # Copies, as workers get them, find the same.
    matcher = pickle.loads(pickle.dumps(Matcher(terms)))
    result = list(zip(*(x.tolist() for x in matcher.match(texts)), strict=True))
    assert result == sorted(result) and set(result) == expected and len(expected) > 4000
    # DuckDB does too, where a missing text mentions nothing.
    pq.write_table(pa.table({"text": [*texts, None]}), tmp_path / "a.parquet", row_group_size=1000)
    by_duckdb = set()
    for rows, _, captions, mentioned_terms in matcher.select(open_corpus(str(tmp_path / "a.parquet")).selection(0)):
        by_duckdb |= set(zip(rows[captions].tolist(), mentioned_terms.tolist(), strict=True))
    assert by_duckdb == expected


@pytest.mark.long
def test_matcher_accepts_every_unicode_space():
    spaces = [chr(i) for i in range(sys.maxunicode + 1) if re.match(r"\s", chr(i))]
    assert len(spaces) == 29 and {"\x0b", "\x1f", "\x85", "\xa0", "\u2009", "\u3000"} <= set(spaces)
    similar_characters = [*"\u180e\u200b\u2060\u2027\u202e\ufeff\xa1\u0430\u2011\x0e!_"]
    texts = [f"a prime{s}Minister, a chef" for s in [*spaces, *similar_characters]]
    texts += [f"a PRIME{s}\xa0-{s}ministers" for s in spaces]
    # That hyphen is one like any other, and so is a space without width between two words of a phrase.
    mentions = [s in spaces or s in "\u2011\u200b" for s in [*spaces, *similar_characters]] + [True] * len(spaces)
    rows, _ = Matcher(["prime minister"]).match(texts)
    assert rows.tolist() == np.flatnonzero(mentions).tolist()
    among, terms = Matcher(["chef", "prime minister", "a", "ministers"]).match(texts)
    np.testing.assert_array_equal(among[terms == 1], rows)


def test_matcher_ignores_unicode_case_variants():
    # The Kelvin sign and the long s are k and s in another case for Python, and İ becomes an i and a dot.
    texts = ["a coo\u212a", "a chef and a coo\u212a", "nur\u017fe chef", "chef and P\u0130LOT", "é COOK and chef"]
    separate = [Matcher([term]).match(texts)[0].tolist() for term in ("cook", "nurse", "pilot")]
    assert separate == [[4], [], []]
    rows, terms = Matcher(["chef", "cook", "nurse", "pilot"]).match(texts)
    assert list(zip(rows.tolist(), terms.tolist(), strict=True)) == [(1, 0), (2, 0), (3, 0), (4, 0), (4, 1)]


def test_matcher_is_linear_in_length():
    # 2.4 MB of mentions, near mentions, and separators.
    texts = ["nurse " * 400_000, "prime " * 400_000, "prime" + " -" * 1_200_000, "é head of " * 240_000]
    rows, terms = Matcher([*TERMS, "head of state"]).match(texts)
    assert (rows.tolist(), terms.tolist()) == ([0], [0])


@pytest.fixture(scope="module")
def mini():
    return open_corpus("mini", max_captions=3000)


@pytest.fixture(scope="module")
def texts(mini):
    return pd.concat(list(mini.batches()), ignore_index=True)


def test_search_finds_all_captions_with_columns(mini, texts):
    terms = lexicons.load("paradox_occupations")
    result = search(mini, terms, per_term=10**6, progress=False)
    counts = result.totals["n_captions"].tolist()
    assert result.totals["n_corpus"].unique().tolist() == [3000] and min(counts) > 0
    # A pool above the number of captions keeps all, and captions have the corpus's columns.
    assert result.captions.groupby("term", sort=False).size().tolist() == counts
    assert result.captions.columns[:4].tolist() == ["caption_id", "term", "text", "rank"]
    merged = result.captions.merge(texts, on="caption_id", suffixes=("", "_own"))
    assert (merged["text"] == merged["text_own"]).all()
    assert (merged["truth_style"] == merged["truth_style_own"]).all()


@pytest.mark.long
def test_search_sample_is_independent_of_batches(texts):
    captions = texts["text"].tolist()
    terms = ["nurse", "chef", "engineer"]
    reference = search(InMemory(captions, size=3000), terms, per_term=5, progress=False)
    assert reference.captions.groupby("term")["rank"].agg(list).tolist() == [[1, 2, 3, 4, 5]] * 3
    shuffled = InMemory(captions, size=64, parts=3)
    shuffled.frame = shuffled.frame.sample(frac=1, random_state=0)
    for corpus in (InMemory(captions, size=100, parts=4), shuffled):
        variant = search(corpus, terms, per_term=5, progress=False)
        pd.testing.assert_frame_equal(variant.captions, reference.captions)
        pd.testing.assert_frame_equal(variant.totals, reference.totals)
    separate = search(InMemory(captions, size=50), ["chef"], per_term=5, progress=False).captions
    chef = reference.captions[reference.captions["term"] == "chef"].reset_index(drop=True)
    pd.testing.assert_frame_equal(separate, chef)
    # A larger sample begins with the smaller one.
    larger = search(InMemory(captions, size=50), terms, per_term=5, pool=9, progress=False).captions
    pd.testing.assert_frame_equal(larger[larger["rank"] <= 5].reset_index(drop=True), reference.captions)
    other = search(InMemory(captions, size=50), terms, per_term=5, seed=1, progress=False).captions
    assert set(other["caption_id"]) != set(reference.captions["caption_id"])


@pytest.mark.long
def test_search_sample_is_uniform():
    # 20 captions, 4 drawn under each of 50 seeds: each caption is expected 10 times, with variance 50 * 0.2 * 0.8 = 8,
    # and sum((count - 10)^2) / 8 * 19 / 20 is chi-squared with 19 degrees of freedom: below 43.8 with probability
    # 99.9%.
    corpus = InMemory(["a nurse"] * 20, size=20)
    counts = np.zeros(20)
    for seed in range(50):
        drawn = search(corpus, ["nurse"], per_term=4, seed=seed, progress=False).captions
        counts[drawn["caption_id"].str[1:].astype(int)] += 1
    assert counts.sum() == 200
    assert ((counts - 10) ** 2).sum() / 8 * 19 / 20 < 43.8


def test_search_without_matches_is_empty():
    result = search(InMemory(["a nurse", "x"]), ["pilot", "nurse"], progress=False)
    assert result.totals.to_dict("list") == {"term": ["pilot", "nurse"], "n_captions": [0, 1], "n_corpus": [2, 2]}
    no_matches = search(InMemory(["x"]), ["pilot"], progress=False)
    assert no_matches.captions.empty
    assert {"caption_id", "term", "text", "rank"} <= set(no_matches.captions.columns)


def test_corpus_file_is_a_part(tmp_path, texts):
    captions = texts["text"].tolist()[:1500]
    for file, subset in (("a", captions[:1000]), ("b", captions[1000:])):
        frame = pd.DataFrame({"text": subset, "n": range(len(subset))})
        frame.to_parquet(tmp_path / f"{file}.parquet", row_group_size=64, index=False)
    corpus = open_corpus(str(tmp_path / "*.parquet"))
    assert corpus.parts == 2
    by_part = [pd.concat(list(corpus.batches(50, part=i)), ignore_index=True) for i in range(2)]
    assert [len(part) for part in by_part] == [1000, 500]
    all_captions = pd.concat(list(corpus.batches()), ignore_index=True)
    pd.testing.assert_frame_equal(pd.concat(by_part, ignore_index=True), all_captions)
    assert all_captions["text"].tolist() == captions
    assert all_captions["caption_id"].iloc[[999, 1000]].tolist() == ["a.parquet-000000999", "b.parquet-000000000"]


# Pieces of random captions: mentions, near mentions, other scripts, and characters that separate words.
_PIECES = ["nurse", "nurses", "NURSE", "Prime minister", "prime-minister", "ministers", "minister", "salesperson"]
_PIECES += ["chef", "cooks", "ceo", "CEO's", "nursery", "caf\u00e9", "n\u00fbrse", "nu\u200brse", "prime\u00a0minister"]
_PIECES += ["prime\u2011minister", "\u0444\u043e\u0442\u043e", "\u65e5\u672c", "chef\x01cook", "a", "the", "of"]
_PIECES += ["\U0001f469", "x\x00y", "\u212aing"]


@pytest.mark.parametrize("seed", range(3))
def test_search_of_parquet_equals_python_matcher(tmp_path, seed):
    """Search by DuckDB must equal a loop over rows with Python's matcher."""
    rng = np.random.default_rng(seed)
    n = 4000
    drawn = [rng.choice(_PIECES, k) for k in rng.integers(0, 7, n)]
    texts = [rng.choice([" ", "  ", "-", ", ", "\n"]).join(words) for words in drawn]
    texts[7] = None
    keys = [None if i % 5 == 0 else "" if i % 7 == 0 else "x" * 201 if i == 9 else f"key {i % 3900}" for i in range(n)]
    columns = {
        "n": rng.integers(0, 9, n),
        "Text": texts,
        "k'e\"y": keys,
        "URL": [None if i % 3 == 0 else f"https://example.org/{i}" for i in range(n)],
        "rank": rng.random(n),
        "flag": [None if i == 4 else bool(i % 2) for i in range(n)],
        "listed": [[i] for i in range(n)],
    }
    folder = tmp_path / "it's"
    folder.mkdir()
    for name, subset in (("a", slice(0, 1500)), ("b", slice(1500, None))):
        pq.write_table(
            pa.table({c: v[subset] for c, v in columns.items()}), folder / f"{name}.parquet", row_group_size=700
        )
    corpus = open_corpus(str(folder), columns={"text": "Text", "caption_id": "k'e\"y"})
    assert all(corpus.selection(part) for part in range(2))
    result = search(corpus, TERMS, per_term=40, seed=seed, progress=False)

    all_captions = pd.concat(list(corpus.batches()), ignore_index=True)
    matcher = Matcher(TERMS)
    mentioned_terms = [matcher._find_terms(text) for text in all_captions["text"]]
    counts = [sum(term in one for one in mentioned_terms) for term in range(len(TERMS))]
    assert result.totals["n_captions"].tolist() == counts and min(counts) > 40
    assert result.totals["n_corpus"].tolist() == [n] * len(TERMS)
    _check_sample(result.captions, all_captions, mentioned_terms, 40, seed)


def _check_sample(sample, all_captions, mentioned_terms, per_term, seed):
    """Compare a sample, with the corpus's columns, with the smallest of Python's own hashes of all mentions."""
    for term, name in enumerate(TERMS):
        salt = int.from_bytes(blake2b(name.encode(), digest_size=8, key=str(seed).encode()).digest(), "little")
        rows = [i for i, one in enumerate(mentioned_terms) if term in one]
        rows.sort(key=lambda i: _priority(all_captions["caption_id"][i], salt, seed))
        expected = all_captions.iloc[rows[:per_term]].reset_index(drop=True)
        term_sample = sample[sample["term"] == name].reset_index(drop=True)
        assert term_sample["rank"].tolist() == list(range(1, len(expected) + 1))
        pd.testing.assert_frame_equal(term_sample[all_captions.columns], expected, check_dtype=False)


def _priority(caption_id, salt, seed):
    """Return the priority of a caption for a term: blake2b of its id and of the term, mixed by SplitMix64."""
    digest = blake2b(caption_id.encode(), digest_size=8, key=str(seed).encode()).digest()
    x = int.from_bytes(digest, "little") ^ salt
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % 2**64
    return x ^ (x >> 31)


def test_search_of_invalid_utf8_parquet_is_complete(tmp_path, monkeypatch):
    """An invalid byte after captions that DuckDB has yielded: none counts twice, none is missing."""
    monkeypatch.setattr(search_module, "_ROWS", 2048)
    texts = [b"a nurse %d" % i if i % 3 else b"nothing" for i in range(400_000)]
    texts[399_000] = b"a nurse \xff"
    text = pa.array(texts, pa.binary()).cast(pa.string(), safe=False)
    pq.write_table(pa.table({"text": text}), tmp_path / "a.parquet", row_group_size=5000)
    corpus = open_corpus(str(tmp_path))
    n_read_before = []
    yields = corpus.batches
    monkeypatch.setattr(corpus, "batches", lambda *a, **k: n_read_before.append(mentions.n_read) or yields(*a, **k))
    mentions = Mentions(corpus, 0, Matcher(TERMS))
    numbers = [number for captions, _, _ in mentions for number in captions["caption_id"].to_pylist()]
    assert mentions.n_read == 400_000 and len(n_read_before) == 1 and n_read_before[0] < 399_000
    assert numbers == [f"a.parquet-{i:09d}" for i, one in enumerate(texts) if b"nurse" in one]


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("a[1].parquet", {"text": ["a nurse"]}),
        ("a.parquet", {"text": ["a nurse"], "TEXT": ["a chef"]}),
        ("a.parquet", {"text": ["a nurse"], "file_row_number": [5]}),
        ("a.parquet", {"text": [b"a nurse"]}),
        ("a.parquet", {"text": ["a nurse"], "day": [datetime.date(2020, 1, 2)]}),
    ],
)
def test_search_of_unsupported_parquet_reads_tables(tmp_path, name, columns):
    pq.write_table(pa.table(columns), tmp_path / name)
    (tmp_path / "a1.parquet.bak").write_bytes(b"not read")
    result = search(open_corpus(str(tmp_path)), ["nurse", "chef"], progress=False)
    assert result.totals["n_captions"].tolist() == [1, 0]
    assert result.captions["caption_id"].tolist() == [f"{name}-000000000"]


def test_later_parts_omit_captions_outside_sample():
    # Ten parts of 300 nurses, of which the fifth has the only pilot and the last no nurse. Of each part at least one
    # caption of each term comes back, for its total; of later parts few more, and the result is that of one part.
    captions = ["a nurse"] * 2700 + ["nothing"] * 300
    captions[1300] = "a nurse and a pilot"
    corpus = InMemory(captions, size=100, parts=10)
    terms = ["nurse", "pilot"]
    all_captions = search(InMemory(captions, size=100), terms, per_term=50, progress=False)
    for order in (range(10), range(9, -1, -1)):
        work = _Work(corpus, Matcher(terms), 50, 0)
        parts = {i: work(pd.DataFrame({"part": [i]})) for i in order}
        assert [parts[i]["n_captions"].iloc[0] for i in range(9)] == [300] * 9 and parts[9]["term"].tolist() == [-1]
        # Expected of part i: 50 / i of its 300 captions, 50 (1 + 1/2 + … + 1/9) = 141 in all, not 450.
        assert 100 < sum(int((part["term"] == 0).sum()) for part in parts.values()) < 200
        # A part that is searched again counts once.
        repeated = work(pd.DataFrame({"part": [order[0]]}))
        result = _merge(iter([repeated, *list(parts.values())[1:]]), terms, 50)
        pd.testing.assert_frame_equal(result.captions, all_captions.captions)
        pd.testing.assert_frame_equal(result.totals, all_captions.totals)


def test_captions_with_equal_id_keep_corpus_order():
    # Equal ids have equal priorities: both captions are kept, in the corpus's order.
    corpus = InMemory(["a nurse", "one nurse", "nurses"], size=3)
    corpus.frame["caption_id"] = ["same", "other", "same"]
    result = search(corpus, ["nurse"], per_term=3, progress=False).captions
    same = result[result["caption_id"] == "same"]
    assert same["text"].tolist() == ["a nurse", "nurses"] and same["rank"].diff().iloc[1] == 1


def test_matcher_handles_words_of_any_script():
    terms = ["Bäckerin", "Ärztin", "café au lait", "शिक्षिका", "Koch"]
    texts = [
        "die BÄCKERIN, eine ärztin",
        "Bäckerinnen; Oberärztin",
        # Letters in two pieces, and another hyphen.
        "Ba\u0308ckerin. café\u2010au-lait",
        "एक शिक्षिका",
        "Kochs Lokoch, koch",
        # A Kelvin sign is no k.
        "\u212aoch",
    ]
    rows, result = Matcher(terms, plural=False).match(texts)
    assert [*zip(rows, result, strict=True)] == [(0, 0), (0, 1), (2, 0), (2, 2), (3, 3), (4, 4)]


def test_matcher_forms_replace_term_and_plural():
    forms = {"Koch": ("Köchin", "Köche")}
    rows, result = Matcher(["Koch", "Maler"], forms=forms).match(["Köche", "Kochs", "ein Koch", "Malers", "KÖCHIN"])
    assert [*zip(rows, result, strict=True)] == [(0, 0), (3, 1), (4, 0)]
    with pytest.raises(ParameterError, match=r"'\+' cannot be searched"):
        Matcher(["Koch"], forms={"Koch": ("+",)})


@pytest.mark.long
def test_search_invalid_terms_are_refused_unread():
    corpus = InMemory(["x"])
    corpus.batches = lambda *a, **k: pytest.fail("read")
    for terms, message in (
        (["nurse", "Nurse"], "'nurse' occurs twice"),
        (["c++"], r"'c\+\+' cannot be searched"),
        ([" "], "' ' cannot be searched"),
        (["nurse\x02chef"], "only printable characters"),
        (["long " + "x" * 1_000_000], r"begins with 'long x+', has 1000005 characters"),
    ):
        with pytest.raises(ParameterError, match=message):
            search(corpus, terms)
