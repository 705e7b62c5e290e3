"""The rows of a corpus that are wanted, by their texts, are those of its whole tables."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from biaslab.captions import corpus
from biaslab.captions.corpus import open_corpus
from biaslab.captions.search import search


@pytest.fixture
def captions(tmp_path):
    """Write captions with all that is awkward, in two row groups, and return the file."""
    n = 30
    texts = ["a nurse", "prime\x01minister and Nurses", "été nurse", "", "two\x02bakers, a baker"] * 6
    texts = [t.encode() for t in texts]
    texts[7] = b"nurse \xff"
    texts[9] = None
    text = pa.array(texts, pa.binary()).cast(pa.string(), safe=False)
    ids = [f"id{i}" if i % 4 else None for i in range(n)]
    ids[3], ids[5] = "x" * 201, ""
    table = pa.table(
        {
            "number": pa.array([None if i == 20 else i for i in range(n)], pa.int64()),
            "TEXT": text,
            "key": ids,
            "rank": [i / 2 for i in range(n)],
            "flag": pa.array([None if i == 4 else i % 2 == 0 for i in range(n)]),
            "kind": pa.array(["x", "y", None] * 10).dictionary_encode(),
            "URL": [None if i == 11 else f"https://example.org/{i}" for i in range(n)],
            "listed": [[i] for i in range(n)],
        }
    )
    pq.write_table(table, tmp_path / "captions.parquet", row_group_size=17)
    return tmp_path / "captions.parquet"


@pytest.mark.parametrize("mapped", [{}, {"caption_id": "key"}])
@pytest.mark.parametrize("rows", [5, 100])
def test_rows_that_are_wanted_are_those_of_the_whole(captions, monkeypatch, mapped, rows):
    monkeypatch.setattr(corpus, "_PART_ROWS", 10)
    opened = open_corpus(str(captions), columns=mapped)
    assert opened.parts == 2
    for part in range(2):
        whole = pd.concat(opened.batches(size=rows, part=part), ignore_index=True)
        texts, expected = [], []

        def wanted(some, texts=texts, expected=expected):
            # In any order, and some twice.
            n, start = len(some), len(texts)
            texts += some.to_pylist()
            these = np.array([n - 1, 0, 0, n // 2])
            expected += (these + start).tolist()
            return these

        found = pd.concat(opened.batches(size=rows, part=part, wanted=wanted), ignore_index=True)
        assert texts == whole["text"].tolist()
        expected = whole.iloc[expected].reset_index(drop=True)
        pd.testing.assert_frame_equal(found, expected, check_dtype=False)


def test_search_of_parquet_equals_search_of_its_table(captions, tmp_path):
    opened = open_corpus(str(captions), columns={"caption_id": "key"})
    found = search(opened, ["nurse", "baker", "prime minister"], per_term=3, progress=False)
    # By hand: five texts in six rounds; number 9 is missing, 7 is "nurse" and a bad byte; a sign between its words
    # makes no phrase.
    assert found.totals["n_captions"].tolist() == [6 + 6 + 6, 5, 0]
    whole = pd.concat(opened.batches(), ignore_index=True)
    whole.drop(columns=[c for c in whole if c not in ("caption_id", "text")]).to_csv(tmp_path / "same.csv", index=False)
    same = search(open_corpus(str(tmp_path / "same.csv")), ["nurse", "baker"], per_term=3, progress=False)
    both = found.captions.query("term != 'prime minister'")
    assert both["caption_id"].tolist() == same.captions["caption_id"].tolist()
