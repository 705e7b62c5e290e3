"""Captions from the embedded world, files and datasets, behind one contract."""

import gzip
import json

import numpy as np
import pandas as pd
import pytest

from biaslab.captions.corpus import open_corpus
from biaslab.errors import InputError, MissingInputError, ParameterError

ROWS = [("a nurse", 1), ('comma, "quoted"\nline', 2), ("", 3), ("café =1+1", 4), ("last", 5)]


def write(path, rows=ROWS):
    frame = pd.DataFrame(rows, columns=["TEXT", "n"])
    if path.name.endswith(".parquet"):
        frame.to_parquet(path)
    elif ".csv" in path.name:
        frame.to_csv(path, index=False)
    else:
        lines = [
            t.replace("\n", " ") if ".txt" in path.name else json.dumps({"TEXT": t, "n": n}) for t, n in rows
        ]
        data = ("\n".join(lines) + "\n").encode()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def read(corpus, size=2):
    return pd.concat(list(corpus.batches(size)), ignore_index=True)


@pytest.mark.parametrize("ending", ["parquet", "csv", "csv.gz", "jsonl", "jsonl.gz", "txt", "txt.gz"])
def test_every_kind_of_file_gives_the_same(tmp_path, ending):
    corpus = open_corpus(str(write(tmp_path / f"some.{ending}")))
    table = read(corpus)
    texts = [t.replace("\n", " ") if "txt" in ending else t for t, _ in ROWS]
    assert table["text"].tolist() == texts
    assert table["caption_id"].tolist() == [f"some.{ending}-{i:09d}" for i in range(5)]
    if "txt" not in ending:
        assert table["n"].astype(int).tolist() == [1, 2, 3, 4, 5]
    # Ids do not depend on how rows fall into batches.
    pd.testing.assert_frame_equal(table, read(corpus, 4))
    assert corpus.images is None
    assert open_corpus(str(tmp_path / f"some.{ending}"), rows=3).digest != corpus.digest
    assert read(open_corpus(str(tmp_path / f"some.{ending}"), rows=3))["text"].tolist() == texts[:3]


def test_several_files_are_parts(tmp_path):
    (tmp_path / "b").mkdir()
    write(tmp_path / "a.parquet")
    write(tmp_path / "b" / "a.parquet", [("other", 9)])
    corpus = open_corpus(str(tmp_path / "**" / "*.parquet"))
    assert corpus.parts == 2
    whole = read(corpus)
    assert whole["caption_id"].is_unique
    apart = pd.concat([b for part in range(2) for b in corpus.batches(3, part=part)], ignore_index=True)
    pd.testing.assert_frame_equal(whole, apart)
    assert whole["caption_id"].iloc[-1] == "b/a.parquet-000000000"


def test_columns_by_parameter(tmp_path):
    frame = pd.DataFrame({"words": ["a", None], "key": ["x1", "x2"], "rank": [7, 8], "URL": ["u", "v"]})
    frame.to_parquet(tmp_path / "own.parquet")
    path = str(tmp_path / "own.parquet")
    table = read(open_corpus(path, columns={"text": "words", "caption_id": "key"}))
    assert table.to_dict("list") == {
        "caption_id": ["x1", "x2"],
        "text": ["a", ""],
        "corpus_rank": [7, 8],
        "URL": ["u", "v"],
    }
    with pytest.raises(
        InputError, match=r"own.parquet has no column that is known to hold captions. .*words, key"
    ):
        read(open_corpus(path))
    with pytest.raises(InputError, match=r"no column 'word' for text. Did you mean 'words'"):
        read(open_corpus(path, columns={"text": "word"}))
    with pytest.raises(ParameterError, match=r"columns maps 'txt'. Did you mean 'text'"):
        open_corpus(path, columns={"txt": "words"})


def test_digest_follows_content_and_columns(tmp_path):
    path = write(tmp_path / "a.csv")
    digest = open_corpus(str(path)).digest
    assert open_corpus(str(path)).digest == digest
    assert open_corpus(str(path), columns={"text": "n"}).digest != digest
    write(path, [("a nursE", 1), *ROWS[1:]])
    assert open_corpus(str(path)).digest != digest


def test_what_is_no_utf8_or_no_line_end(tmp_path):
    (tmp_path / "odd.txt").write_bytes(b"one\xff\r\ntwo\x0bstill two\xe2\x80\xa8and on\n\nlast")
    table = read(open_corpus(str(tmp_path / "odd.txt")))
    assert table["text"].tolist() == ["one�", "two\x0bstill two\u2028and on", "", "last"]


def test_mini_and_its_images():
    corpus = open_corpus("mini", rows=70_000, seed=3)
    from biaslab.mini.captions import Corpus

    assert corpus.parts == 2
    second = next(corpus.batches(10, part=1))
    expected = Corpus(70_000, 3).rows_at(range(65_536, 65_546))
    pd.testing.assert_frame_equal(second, expected)
    ids = second["caption_id"].tolist()[:3]
    images = corpus.images.read(ids[::-1])
    np.testing.assert_array_equal(np.stack(images[::-1]), Corpus(70_000, 3).images(ids))
    assert images[0].dtype == np.uint8
    assert corpus.images.read([]) == []
    small = open_corpus("mini", rows=50)
    assert small.images.table["image_id"].tolist() == read(small)["caption_id"].tolist()
    assert small.digest != corpus.digest == corpus.images.digest
    with pytest.raises(InputError, match="is not in"):
        small.images.read(["mini-default-0-00000050"])


def test_a_dataset_is_streamed(tmp_path):
    pytest.importorskip("datasets", reason="needs the extra 'models'")
    folder = tmp_path / "set"
    folder.mkdir()
    write(folder / "train.parquet")
    corpus = open_corpus(f"hf:{folder}")
    table = read(corpus)
    assert table["text"].tolist() == [t for t, _ in ROWS]
    assert table["caption_id"].tolist() == [f"set-{i:09d}" for i in range(5)]
    assert table["n"].tolist() == [1, 2, 3, 4, 5]
    assert len(read(open_corpus(f"hf:{folder}", rows=3))) == 3
    assert corpus.digest == open_corpus(f"hf:{folder}").digest


def test_bad_input_is_named(tmp_path):
    with pytest.raises(MissingInputError, match=r"no corpus 'minni'. Did you mean 'mini'\? .*'owner/name'"):
        open_corpus("minni")
    with pytest.raises(MissingInputError, match=r"no corpus 'captions/\*.parquet'"):
        open_corpus("captions/*.parquet")
    with pytest.raises(ParameterError, match="rows is -1"):
        open_corpus("mini", rows=-1)
    (tmp_path / "x.doc").write_text("x")
    with pytest.raises(InputError, match=r"x.doc is of no known kind; .*\.parquet"):
        open_corpus(str(tmp_path / "x.doc"))
    for name, content, message in (
        ("x.jsonl", b'{"text": "a"}\n{"text":', "x.jsonl, line 2 is not JSON"),
        ("y.jsonl", b"[1]\n", "y.jsonl, line 1 holds list"),
        ("x.parquet", b"PAR1", "x.parquet cannot be read as Parquet"),
        ("x.csv", b"", "x.csv cannot be read as CSV"),
        ("x.txt.gz", gzip.compress(b"line\n" * 1000)[:-20], "x.txt.gz cannot be read to its end"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=message):
            read(open_corpus(str(tmp_path / name)))
