"""Search: totals and samples against brute force, whatever the batches, parts and other terms."""

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
from in_memory import InMemory

from biaslab import lexicons
from biaslab.captions import search as search_module
from biaslab.captions.corpus import open_corpus
from biaslab.captions.search import Matcher, Mentions, _merge, _Work, search
from biaslab.errors import ParameterError

TERMS = ["nurse", "prime minister", "minister", "salesperson", "chef", "cook", "ceo"]


def test_as_a_loop_over_regular_expressions(tmp_path):
    # Words in any order, with much between them; a term is looked for by itself, as Python sees letters and spaces.
    rng = np.random.default_rng(0)
    phrases = ["head of state", "state minister", "o'neil", "chef cook nurse", "x-ray chef", "chef o'neil"]
    words = [*TERMS, *phrases, "nurses", "Ministers", *"é日9", "日本", "HEAD", "of", "x", "ray"]
    terms = [*TERMS, *phrases]
    between = [*"   -\n\t\x0b\x1c\x1f\xa0_\x02\x00'é.", "  ", ", ", ""]
    texts = ["".join(rng.choice(words) + rng.choice(between) for _ in range(n)) for n in rng.integers(0, 6, 4000)]
    expected = set()
    for k, term in enumerate(terms):
        forms = "|".join(p.replace(" ", "%") for p in (term, *lexicons.plurals(term)))
        mention = re.compile(rf"\b(?:{forms})\b".replace("%", r"[\s-]+"))
        for i, text in enumerate(texts):
            if mention.search(text.lower()):
                expected.add((i, k))
    # Copies, as workers get them, find the same.
    matcher = pickle.loads(pickle.dumps(Matcher(terms)))
    found = list(zip(*(x.tolist() for x in matcher.match(texts)), strict=True))
    assert found == sorted(found) and set(found) == expected and len(expected) > 4000
    # DuckDB does too, where a missing text mentions nothing.
    pq.write_table(pa.table({"text": [*texts, None]}), tmp_path / "a.parquet", row_group_size=1000)
    by_duckdb = set()
    for rows, _, captions, mentioned in matcher.select(open_corpus(str(tmp_path / "a.parquet")).selection(0)):
        by_duckdb |= set(zip(rows[captions].tolist(), mentioned.tolist(), strict=True))
    assert by_duckdb == expected


@pytest.mark.long
def test_every_space_stands_between_words_whatever_else_is_searched():
    spaces = [chr(i) for i in range(sys.maxunicode + 1) if re.match(r"\s", chr(i))]
    assert len(spaces) == 29 and {"\x0b", "\x1f", "\x85", "\xa0", "\u2009", "\u3000"} <= set(spaces)
    near = [*"\u180e\u200b\u2060\u2027\u202e\ufeff\xa1\u0430\u2011\x0e!_"]
    texts = [f"a prime{s}Minister, a chef" for s in [*spaces, *near]]
    texts += [f"a PRIME{s}\xa0-{s}ministers" for s in spaces]
    # That hyphen is one like any other, and so is a space without width between two words of a phrase.
    mentions = [s in spaces or s in "\u2011\u200b" for s in [*spaces, *near]] + [True] * len(spaces)
    rows, _ = Matcher(["prime minister"]).match(texts)
    assert rows.tolist() == np.flatnonzero(mentions).tolist()
    among, terms = Matcher(["chef", "prime minister", "a", "ministers"]).match(texts)
    np.testing.assert_array_equal(among[terms == 1], rows)


def test_only_letters_of_ascii_have_another_case():
    # The Kelvin sign and the long s are k and s in another case for Python, and İ becomes an i and a dot.
    texts = ["a coo\u212a", "a chef and a coo\u212a", "nur\u017fe chef", "chef and P\u0130LOT", "é COOK and chef"]
    alone = [Matcher([term]).match(texts)[0].tolist() for term in ("cook", "nurse", "pilot")]
    assert alone == [[4], [], []]
    rows, terms = Matcher(["chef", "cook", "nurse", "pilot"]).match(texts)
    assert list(zip(rows.tolist(), terms.tolist(), strict=True)) == [(1, 0), (2, 0), (3, 0), (4, 0), (4, 1)]


def test_a_caption_of_one_word_again_and_again_takes_time_by_its_length():
    # 2.4 MB of mentions, of what nearly is one, and of what may stand within one.
    texts = ["nurse " * 400_000, "prime " * 400_000, "prime" + " -" * 1_200_000, "é head of " * 240_000]
    rows, terms = Matcher([*TERMS, "head of state"]).match(texts)
    assert (rows.tolist(), terms.tolist()) == ([0], [0])


@pytest.fixture(scope="module")
def mini():
    return open_corpus("mini", max_captions=3000)


@pytest.fixture(scope="module")
def texts(mini):
    return pd.concat(list(mini.batches()), ignore_index=True)


def test_all_captions_are_found_with_the_columns_of_the_corpus(mini, texts):
    terms = lexicons.load("paradox_occupations")
    found = search(mini, terms, per_term=10**6, progress=False)
    counts = found.totals["n_captions"].tolist()
    assert found.totals["n_corpus"].unique().tolist() == [3000] and min(counts) > 0
    # A pool beyond what there is keeps everything, and captions carry the corpus's columns.
    assert found.captions.groupby("term", sort=False).size().tolist() == counts
    assert found.captions.columns[:4].tolist() == ["caption_id", "term", "text", "rank"]
    merged = found.captions.merge(texts, on="caption_id", suffixes=("", "_own"))
    assert (merged["text"] == merged["text_own"]).all()
    assert (merged["truth_style"] == merged["truth_style_own"]).all()


@pytest.mark.long
def test_samples_do_not_depend_on_order_batches_parts_or_other_terms(texts):
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
    alone = search(InMemory(captions, size=50), ["chef"], per_term=5, progress=False).captions
    chef = reference.captions[reference.captions["term"] == "chef"].reset_index(drop=True)
    pd.testing.assert_frame_equal(alone, chef)
    # A larger sample begins with the smaller one.
    larger = search(InMemory(captions, size=50), terms, per_term=5, pool=9, progress=False).captions
    pd.testing.assert_frame_equal(larger[larger["rank"] <= 5].reset_index(drop=True), reference.captions)
    other = search(InMemory(captions, size=50), terms, per_term=5, seed=1, progress=False).captions
    assert set(other["caption_id"]) != set(reference.captions["caption_id"])


@pytest.mark.long
def test_samples_are_uniform():
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


def test_terms_without_captions_and_an_empty_corpus():
    found = search(InMemory(["a nurse", "x"]), ["pilot", "nurse"], progress=False)
    assert found.totals.to_dict("list") == {"term": ["pilot", "nurse"], "n_captions": [0, 1], "n_corpus": [2, 2]}
    nothing = search(InMemory(["x"]), ["pilot"], progress=False)
    assert nothing.captions.empty
    assert {"caption_id", "term", "text", "rank"} <= set(nothing.captions.columns)


def test_a_file_is_a_part(tmp_path, texts):
    captions = texts["text"].tolist()[:1500]
    for file, some in (("a", captions[:1000]), ("b", captions[1000:])):
        frame = pd.DataFrame({"text": some, "n": range(len(some))})
        frame.to_parquet(tmp_path / f"{file}.parquet", row_group_size=64, index=False)
    corpus = open_corpus(str(tmp_path / "*.parquet"))
    assert corpus.parts == 2
    apart = [pd.concat(list(corpus.batches(50, part=i)), ignore_index=True) for i in range(2)]
    assert [len(part) for part in apart] == [1000, 500]
    whole = pd.concat(list(corpus.batches()), ignore_index=True)
    pd.testing.assert_frame_equal(pd.concat(apart, ignore_index=True), whole)
    assert whole["text"].tolist() == captions
    assert whole["caption_id"].iloc[[999, 1000]].tolist() == ["a.parquet-000000999", "b.parquet-000000000"]


# Random captions are made of mentions, what is nearly one, other scripts, and marks that part words.
_PIECES = ["nurse", "nurses", "NURSE", "Prime minister", "prime-minister", "ministers", "minister", "salesperson"]
_PIECES += ["chef", "cooks", "ceo", "CEO's", "nursery", "caf\u00e9", "n\u00fbrse", "nu\u200brse", "prime\u00a0minister"]
_PIECES += ["prime\u2011minister", "\u0444\u043e\u0442\u043e", "\u65e5\u672c", "chef\x01cook", "a", "the", "of"]
_PIECES += ["\U0001f469", "x\x00y", "\u212aing"]


@pytest.mark.parametrize("seed", range(3))
def test_parquet_is_searched_as_tables_are(tmp_path, seed):
    """DuckDB reads the file; a plain loop over its rows, with Python's matcher for each text, is what it must give."""
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
    for name, some in (("a", slice(0, 1500)), ("b", slice(1500, None))):
        pq.write_table(
            pa.table({c: v[some] for c, v in columns.items()}), folder / f"{name}.parquet", row_group_size=700
        )
    corpus = open_corpus(str(folder), columns={"text": "Text", "caption_id": "k'e\"y"})
    assert all(corpus.selection(part) for part in range(2))
    found = search(corpus, TERMS, per_term=40, seed=seed, progress=False)

    whole = pd.concat(list(corpus.batches()), ignore_index=True)
    matcher = Matcher(TERMS)
    mentioned = [matcher._find_terms(text) for text in whole["text"]]
    counts = [sum(term in one for one in mentioned) for term in range(len(TERMS))]
    assert found.totals["n_captions"].tolist() == counts and min(counts) > 40
    assert found.totals["n_corpus"].tolist() == [n] * len(TERMS)
    _check_sample(found.captions, whole, mentioned, 40, seed)


def _check_sample(sample, whole, mentioned, per_term, seed):
    """Compare a sample, with the corpus's columns, with the smallest of Python's own hashes of all mentions."""
    for term, name in enumerate(TERMS):
        salt = int.from_bytes(blake2b(name.encode(), digest_size=8, key=str(seed).encode()).digest(), "little")
        rows = [i for i, one in enumerate(mentioned) if term in one]
        rows.sort(key=lambda i: _mixed(whole["caption_id"][i], salt, seed))
        expected = whole.iloc[rows[:per_term]].reset_index(drop=True)
        mine = sample[sample["term"] == name].reset_index(drop=True)
        assert mine["rank"].tolist() == list(range(1, len(expected) + 1))
        pd.testing.assert_frame_equal(mine[whole.columns], expected, check_dtype=False)


def _mixed(caption_id, salt, seed):
    """Return the priority of a caption for a term: blake2b of its id and of the term, mixed by SplitMix64."""
    digest = blake2b(caption_id.encode(), digest_size=8, key=str(seed).encode()).digest()
    x = int.from_bytes(digest, "little") ^ salt
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % 2**64
    return x ^ (x >> 31)


def test_texts_that_duckdb_cannot_read_are_searched_all_the_same(tmp_path, monkeypatch):
    """Behind captions that DuckDB has yielded stands a byte that is no UTF-8: none counts twice, none is missing."""
    monkeypatch.setattr(search_module, "_ROWS", 2048)
    texts = [b"a nurse %d" % i if i % 3 else b"nothing" for i in range(400_000)]
    texts[399_000] = b"a nurse \xff"
    text = pa.array(texts, pa.binary()).cast(pa.string(), safe=False)
    pq.write_table(pa.table({"text": text}), tmp_path / "a.parquet", row_group_size=5000)
    corpus = open_corpus(str(tmp_path))
    seen = []
    yields = corpus.batches
    monkeypatch.setattr(corpus, "batches", lambda *a, **k: seen.append(mentions.n_read) or yields(*a, **k))
    mentions = Mentions(corpus, 0, Matcher(TERMS))
    numbers = [number for captions, _, _ in mentions for number in captions["caption_id"].to_pylist()]
    assert mentions.n_read == 400_000 and len(seen) == 1 and seen[0] < 399_000
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
def test_files_that_duckdb_would_read_otherwise_are_read_as_tables(tmp_path, name, columns):
    pq.write_table(pa.table(columns), tmp_path / name)
    (tmp_path / "a1.parquet.bak").write_bytes(b"not read")
    found = search(open_corpus(str(tmp_path)), ["nurse", "chef"], progress=False)
    assert found.totals["n_captions"].tolist() == [1, 0]
    assert found.captions["caption_id"].tolist() == [f"{name}-000000000"]


def test_later_parts_leave_out_what_cannot_be_among_the_first():
    # Ten parts of 300 nurses, of which the fifth has the only pilot and the last no nurse. Of each part at least one
    # caption of each term comes back, for its total; of later parts few more, and the result is that of one part.
    captions = ["a nurse"] * 2700 + ["nothing"] * 300
    captions[1300] = "a nurse and a pilot"
    corpus = InMemory(captions, size=100, parts=10)
    terms = ["nurse", "pilot"]
    whole = search(InMemory(captions, size=100), terms, per_term=50, progress=False)
    for order in (range(10), range(9, -1, -1)):
        work = _Work(corpus, Matcher(terms), 50, 0)
        parts = {i: work(pd.DataFrame({"part": [i]})) for i in order}
        assert [parts[i]["n_captions"].iloc[0] for i in range(9)] == [300] * 9 and parts[9]["term"].tolist() == [-1]
        # Expected of part i: 50 / i of its 300 captions, 50 (1 + 1/2 + … + 1/9) = 141 in all, not 450.
        assert 100 < sum(int((part["term"] == 0).sum()) for part in parts.values()) < 200
        # A part that is searched again counts once.
        again = work(pd.DataFrame({"part": [order[0]]}))
        found = _merge(iter([again, *list(parts.values())[1:]]), terms, 50)
        pd.testing.assert_frame_equal(found.captions, whole.captions)
        pd.testing.assert_frame_equal(found.totals, whole.totals)


def test_captions_of_one_id_are_ordered_as_they_come():
    # Equal ids have equal priorities: both captions are kept, in the corpus's order.
    corpus = InMemory(["a nurse", "one nurse", "nurses"], size=3)
    corpus.frame["caption_id"] = ["same", "other", "same"]
    found = search(corpus, ["nurse"], per_term=3, progress=False).captions
    same = found[found["caption_id"] == "same"]
    assert same["text"].tolist() == ["a nurse", "nurses"] and same["rank"].diff().iloc[1] == 1


def test_words_of_any_script_are_whole_words():
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
    rows, found = Matcher(terms, plural=False).match(texts)
    assert [*zip(rows, found, strict=True)] == [(0, 0), (0, 1), (2, 0), (2, 2), (3, 3), (4, 4)]


def test_words_in_place_of_a_term_and_its_plural():
    forms = {"Koch": ("Köchin", "Köche")}
    rows, found = Matcher(["Koch", "Maler"], forms=forms).match(["Köche", "Kochs", "ein Koch", "Malers", "KÖCHIN"])
    assert [*zip(rows, found, strict=True)] == [(0, 0), (3, 1), (4, 0)]
    with pytest.raises(ParameterError, match=r"'\+' cannot be searched"):
        Matcher(["Koch"], forms={"Koch": ("+",)})


@pytest.mark.long
def test_what_cannot_be_searched_is_said_before_the_corpus_is_read():
    corpus = InMemory(["x"])
    corpus.batches = lambda *a, **k: pytest.fail("read")
    for terms, said in (
        (["nurse", "Nurse"], "'nurse' occurs twice"),
        (["c++"], r"'c\+\+' cannot be searched"),
        ([" "], "' ' cannot be searched"),
        (["nurse\x02chef"], "only printable characters"),
        (["long " + "x" * 1_000_000], r"begins with 'long x+', has 1000005 characters"),
    ):
        with pytest.raises(ParameterError, match=said):
            search(corpus, terms)
