"""Captions from the embedded world, files and datasets, behind one contract."""

import gzip
import json
import logging
import pickle
import tracemalloc

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from biaslab.captions import corpus as module
from biaslab.captions.corpus import open_corpus
from biaslab.captions.search import search
from biaslab.errors import InputError, ParameterError
from biaslab.io import delimited
from biaslab.pipeline import Pipeline, Settings

PACK = {".gz": gzip.compress}
ROWS = [("a nurse", 1), ('comma, "quoted"\nline', 2), ("", 3), ("café =1+1", 4), ("last", 5)]


def write(path, rows=ROWS):
    frame = pd.DataFrame(rows, columns=["TEXT", "n"])
    if path.name.endswith(".parquet"):
        frame.to_parquet(path)
        return path
    if ".csv" in path.name or ".tsv" in path.name:
        data = frame.to_csv(index=False, sep="\t" if ".tsv" in path.name else ",").encode()
    else:
        lines = [t.replace("\n", " ") if ".txt" in path.name else json.dumps({"TEXT": t, "n": n}) for t, n in rows]
        data = ("\n".join(lines) + "\n").encode()
    path.write_bytes(PACK.get(path.suffix, bytes)(data))
    return path


def read(corpus, size=2):
    return pd.concat(list(corpus.batches(size)), ignore_index=True)


KINDS = ("csv", "tsv", "jsonl", "ndjson", "txt")


@pytest.mark.parametrize("ending", ["parquet", *KINDS, *(kind + ".gz" for kind in ("csv", "jsonl", "txt"))])
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
    assert open_corpus(str(tmp_path / f"some.{ending}"), max_captions=3).digest != corpus.digest
    assert read(open_corpus(str(tmp_path / f"some.{ending}"), max_captions=3))["text"].tolist() == texts[:3]


def test_columns_by_parameter(tmp_path):
    frame = pd.DataFrame({"words": ["a", None], "key": ["x1", "x2"], "rank": [7, 8], "URL": ["u", "v"]})
    frame.to_parquet(tmp_path / "own.parquet")
    path = str(tmp_path / "own.parquet")
    table = read(open_corpus(path, columns={"text": "words", "caption_id": "key"}))
    assert table.to_dict("list") == {
        "caption_id": ["x1", "x2"],
        "text": ["a", ""],
        "url": ["u", "v"],
        "corpus_rank": [7, 8],
    }
    for columns, error, said in (
        ({}, InputError, r"own.parquet has no column 'text' or 'TEXT' .*: words, key"),
        ({"text": "word"}, InputError, "no column 'word' for text. Did you mean 'words'"),
        ({"txt": "words"}, ParameterError, "captions.columns contains 'txt'. Did you mean 'text'"),
        ({"text": 3}, ParameterError, "maps 'text' to 3"),
    ):
        with pytest.raises(error, match=said):
            read(open_corpus(path, columns=columns))


def test_no_column_of_a_corpus_takes_the_place_of_another(tmp_path):
    """Columns that stages add, and columns of equal names, keep apart; the names do not depend on the batch."""
    path = tmp_path / "own.csv"
    path.write_text("text,gender,gender,corpus_gender,url2,occupation\na nurse,f,g,h,u,o\n")
    table = read(open_corpus(str(path), columns={"url": "url2"}))
    assert table.drop(columns="caption_id").to_dict("list") == {
        "text": ["a nurse"],
        "url": ["u"],
        "corpus_gender": ["f"],
        "gender_": ["g"],
        "corpus_gender_": ["h"],
        "corpus_occupation": ["o"],
    }


def test_dates_beyond_those_of_python_are_carried_as_texts(tmp_path):
    """Day 100,000,000 since 1970 lies in the year 275,760, which no date of Python reaches."""
    days = pa.array([0, 10**8], pa.int32()).view(pa.date32())
    zone = pa.array([0, None], pa.timestamp("s", tz="Nowhere/None"))
    table = pa.table({"text": ["a nurse", "nurse"], "day": days, "at": zone, "ns": pa.array([1, 2], pa.time64("ns"))})
    pq.write_table(table, tmp_path / "a.parquet")
    corpus = open_corpus(str(tmp_path / "a.parquet"))
    found = search(corpus, ["nurse"], progress=False).captions.sort_values("caption_id", ignore_index=True)
    for got in (read(corpus), found):
        assert got["day"][0] == "1970-01-01" and "100000000" in got["day"][1]
        assert got["at"][0] == "1970-01-01 00:00:00.000Z" and pd.isna(got["at"][1])
        assert got["ns"].tolist() == ["00:00:00.000000001", "00:00:00.000000002"]


# -- published sets ------------------------------------------------------------------------------------------

LAION = {"SAMPLE_ID": [7.0, 7.0], "URL": ["u", None], "TEXT": ["a nurse", None], "HEIGHT": [3, 4]}
LAION |= {"WIDTH": [3, 4], "LICENSE": ["?", "?"], "NSFW": ["UNLIKELY"] * 2, "similarity": [0.3, 0.4]}
RELAION = {"url": ["u", "v"], "caption": ["a nurse", ""], "similarity": [0.3, 0.4], "punsafe": [0.1, 0.2]}
COYO = {"id": [2**60 + 1, 2**60 + 2], "url": ["u", "v"], "text": ["a nurse", ""], "image_phash": ["0", "1"]}
DATACOMP = {"uid": ["00a", "00b"], "url": ["u", "v"], "text": ["a nurse", ""], "sha256": ["0", "1"]}


@pytest.mark.parametrize(
    ("columns", "ids", "carried"),
    [
        (LAION, None, ["SAMPLE_ID", "HEIGHT", "WIDTH", "LICENSE", "NSFW", "similarity"]),
        (RELAION, None, ["similarity", "punsafe"]),
        (COYO, [str(2**60 + 1), str(2**60 + 2)], ["image_phash"]),
        (DATACOMP, ["00a", "00b"], ["sha256"]),
    ],
)
def test_published_sets_are_known_by_their_columns(tmp_path, columns, ids, carried):
    pd.DataFrame(columns).to_parquet(tmp_path / "part-0.parquet")
    path = str(tmp_path / "*.parquet")
    table = read(open_corpus(path))
    assert table["text"].tolist() == ["a nurse", ""]
    assert table["url"].tolist() == ["u", "v" if "v" in str(columns) else ""]
    assert table["caption_id"].tolist() == (ids or [f"part-0.parquet-{i:09d}" for i in range(2)])
    assert table.columns.tolist() == ["caption_id", "text", "url", *carried]
    # A column that is named comes before those that are known.
    other = read(open_corpus(path, columns={"text": carried[0]}))
    assert other["text"].tolist() == [str(v) for v in columns[carried[0]]]


@pytest.mark.parametrize(("name", "url_first"), [("cc12m.tsv", True), ("Train_GCC-training.tsv.gz", False)])
def test_conceptual_captions_have_no_header(tmp_path, name, url_first):
    """Quotation marks and further tabs in them are part of captions, and a blank line is none."""
    rows = [("http://a/1.jpg", 'a "nurse'), ("https://b/2", "two\ttabs"), ("http://c", 'b" of\r"'), ("", "")]
    rows += [("", "no image"), ("http://d", "last")]
    lines = ["\t".join(r if url_first else r[::-1]) if any(r) else "" for r in rows]
    path = tmp_path / name
    path.write_bytes(PACK.get(path.suffix, bytes)(("\n".join(lines) + "\n").encode()))
    table = read(open_corpus(str(path)))
    # Where the URL stands last, what is before the last tab is the caption.
    assert list(zip(table["url"], table["text"], strict=True)) == [r for r in rows if any(r)]
    path.write_bytes(PACK.get(path.suffix, bytes)(b'url\tcaption\nhttp://a\t"a, b"\n'))
    assert read(open_corpus(str(path)))[["url", "text"]].to_numpy().tolist() == [["http://a", "a, b"]]


# -- ids -----------------------------------------------------------------------------------------------------


def test_ids_that_are_missing_or_too_long_are_made(tmp_path):
    frame = pd.DataFrame({"text": list("abcd"), "id": [5.0, None, 2**53, 7.5], "key": ["k", "", None, "x" * 201]})
    frame.to_parquet(tmp_path / "a.parquet")
    made = [f"a.parquet-{i:09d}" for i in range(4)]
    path = str(tmp_path / "a.parquet")
    ids = read(open_corpus(path, columns={"caption_id": "id"}))["caption_id"].tolist()
    # A column of whole numbers that misses one is read as floats: they are whole again.
    assert ids == ["5", made[1], "9007199254740992", "7.5"]
    assert read(open_corpus(path, columns={"caption_id": "key"}))["caption_id"].tolist() == ["k", *made[1:]]


def test_digest_follows_content_and_columns(tmp_path):
    path = write(tmp_path / "a.csv")
    digests = [open_corpus(str(path), columns=columns).digest for columns in ({}, {"text": "n"}, {})]
    write(path, [("a nursE", 1), *ROWS[1:]])
    assert digests[0] == digests[2] and len({*digests, open_corpus(str(path)).digest}) == 3


def test_ids_that_two_captions_have_are_refused_where_they_matter(tmp_path):
    """The search takes them; the pipeline, which finds images by them, says so and how to do without."""
    rows = {"id": ["1", "1", "2", "2", "3"], "text": ["a nurse", "a nurse", "a chef", "a cook", "a nurse and a chef"]}
    pd.DataFrame(rows).to_csv(tmp_path / "a.csv", index=False)
    settings = {
        "captions": {"corpus": str(tmp_path / "a.csv"), "approaches": ["naive"]},
        "compute": {"cache": str(tmp_path / "store")},
    }

    def captions(occupation, **more):
        given = Settings.from_mapping(settings).with_changes(captions={"occupations": occupation, **more})
        return Pipeline("fake", given, progress=False).captions()

    for occupation in (["nurse"], ["chef", "cook"]):
        with pytest.raises(InputError, match=r"have the id '[12]'"):
            captions(occupation, columns={"caption_id": "id"})
    assert captions(["chef"], columns={"caption_id": "id"})["caption_id"].tolist() in (["2", "3"], ["3", "2"])
    assert len(captions(["nurse", "chef", "cook"])) == 6


# -- hostile files -------------------------------------------------------------------------------------------


def test_texts_that_are_no_utf8_are_read_from_every_kind_of_file(tmp_path):
    bad, good = b"caf\xe9 \xff", "caf\ufffd \ufffd"
    (tmp_path / "a.csv").write_bytes(b"text,n\n" + bad + b",1\n")
    (tmp_path / "a.tsv").write_bytes(b"text\tn\n" + bad + b"\t1\n")
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "' + bad + b'", "n": 1}\n')
    (tmp_path / "a.txt").write_bytes(bad + b"\n")
    # No writer that checks would write this Parquet file; others do.
    offsets = pa.array([0, len(bad)], pa.int32()).buffers()[1]
    texts = pa.StringArray.from_buffers(1, offsets, pa.py_buffer(bad))
    pq.write_table(pa.table({"text": texts, "other": texts}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"text": pa.array([bad], pa.binary())}), tmp_path / "b.parquet")
    for name in ("a.csv", "a.tsv", "a.jsonl", "a.txt", "a.parquet", "b.parquet"):
        table = read(open_corpus(str(tmp_path / name)))
        assert table["text"].tolist() == [good], name
    assert read(open_corpus(str(tmp_path / "a.parquet")))["other"].tolist() == [good]


def test_half_characters_and_control_characters_in_json(tmp_path):
    lines = [r'{"text": "half \ud83e", "k\udc00": "\ud83e\uddd1"}', '{"text": "nul \0 and \x1b raw"}']
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
    table = read(open_corpus(str(tmp_path / "a.jsonl")))
    assert table["text"].tolist() == ["half \ufffd", "nul \0 and \x1b raw"]
    assert table["k\ufffd"].tolist()[0] == "\U0001f9d1"
    pa.array(table["text"])  # fits in Arrow


def test_json_of_every_kind_is_carried_as_text(tmp_path, caplog):
    lines = [
        {"text": "a", "x": 1, "y": True, "list": [1], "z": None},
        {"text": "b", "x": "one", "y": 2.5, "object": {"a": 1}, "late": 7},
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with caplog.at_level(logging.WARNING):
        table = read(open_corpus(str(tmp_path / "a.jsonl")), size=8)
    assert table[["text", "x", "y"]].to_numpy().tolist() == [["a", "1", "true"], ["b", "one", "2.5"]]
    assert table["z"].isna().all()
    assert table["late"].isna().tolist() == [True, False] and table["late"][1] == "7"
    assert list(table) == ["caption_id", "text", "x", "y", "z", "late"]
    assert "are ignored: list." in caplog.text
    assert caplog.text.count("are ignored") == 1


def test_ever_new_keys_do_not_make_ever_more_columns(tmp_path):
    lines = [json.dumps({f"key{i}": i, "k" * 300: 1, "n": i}) for i in range(500)]
    lines.append(json.dumps({"text": "late"}))
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    table = read(open_corpus(str(tmp_path / "a.jsonl")), size=1000)
    assert len(table) == 501 and table["text"].iloc[-1] == "late"
    assert len(table.columns) <= 104


def test_columns_of_lists_objects_and_bytes_are_left_out(tmp_path, caplog):
    table = pa.table(
        {
            "text": ["a nurse", None],
            "boxes": [[0.1], []],
            "image": [{"bytes": b"x", "path": "p"}, None],
            "raw": [b"x", b"y"],
            "kind": pa.array(["a", "b"]).dictionary_encode(),
            "none": pa.nulls(2),
            "n": [1, None],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    with caplog.at_level(logging.WARNING):
        found = read(open_corpus(str(tmp_path / "a.parquet")))
    assert list(found) == ["caption_id", "text", "kind", "none", "n"]
    assert found["kind"].tolist() == ["a", "b"]
    assert "a.parquet: columns of lists, objects or bytes are ignored: boxes, image, raw." in caplog.text


@pytest.mark.long
def test_memory_stays_bounded_with_lines_of_a_megabyte(tmp_path, monkeypatch):
    """20 MB of captions of 0.5 MB each in every kind of file, with room for 1 MB: they are never together in memory."""
    monkeypatch.setattr(module, "_BATCH_BYTES", 2**20)
    long = ("a nurse " * 2**16)[: 2**19]
    texts = [f"{i} {long}" for i in range(40)]
    (tmp_path / "a.txt").write_text("".join(f"{t}\n" for t in texts))
    (tmp_path / "a.csv").write_text("n,text\n" + "".join(f'{i},"{t}"\n' for i, t in enumerate(texts)))
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet", row_group_size=20, use_dictionary=False)
    del texts
    for name in ("a.txt", "a.csv", "a.jsonl", "a.parquet"):
        tracemalloc.start()
        before, n, most = pa.total_allocated_bytes(), 0, 0
        for batch in open_corpus(str(tmp_path / name)).batches():
            assert all(len(t) > 2**19 for t in batch["text"])
            n += len(batch)
            most = max(most, pa.total_allocated_bytes() - before)
        assert n == 40
        assert tracemalloc.get_traced_memory()[1] < 9 * 2**20, name
        assert most < 15 * 2**20, name
        tracemalloc.stop()


def test_a_line_without_an_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "LONGEST_LINE", 1000)
    for name, content in (
        ("a.txt", b"x" * 1001),
        ("a.jsonl", b'{"text": "' + b"x" * 1001),
        ("a.csv", b"text\n" + b"x" * 1001),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=rf"{name}, line \d is longer than 1,000 characters"):
            read(open_corpus(str(tmp_path / name)))


def test_shards_that_differ_in_a_column_are_read_as_files(tmp_path):
    """A column that nobody asked for, of other values."""
    folder, texts = tmp_path / "d", {"TEXT": ["a nurse", "a pilot"]}
    folder.mkdir()
    pd.DataFrame(texts | {"punsafe": [1, 2]}).to_parquet(folder / "train-00000-of-00002.parquet")
    pd.DataFrame(texts | {"punsafe": ["low", "high"]}).to_parquet(folder / "train-00001-of-00002.parquet")
    assert read(open_corpus(str(folder)))["text"].tolist() == texts["TEXT"] * 2


def test_a_folder_is_all_its_files_of_known_kinds(tmp_path, caplog):
    (tmp_path / "set" / "b").mkdir(parents=True)
    write(tmp_path / "set" / "b" / "a.csv", [("one", 1)])
    write(tmp_path / "set" / "a.parquet", [("two", 2)])
    (tmp_path / "set" / "README.md").write_text("not captions")
    # Texts beside tables are about them; what systems leave is nobody's.
    (tmp_path / "set" / "LICENSE.txt").write_text("not captions\neither")
    for left in ("._a.parquet", "__MACOSX/a.csv", "b/.ipynb_checkpoints/a-checkpoint.csv"):
        (tmp_path / "set" / left).parent.mkdir(exist_ok=True)
        (tmp_path / "set" / left).write_bytes(b"\0\5\x16\7Mac OS X")
    corpus = open_corpus(str(tmp_path / "set"))
    assert corpus.parts == 2
    found = read(corpus).set_index("caption_id")["text"].to_dict()
    assert found == {"a.parquet-000000000": "two", "b/a.csv-000000000": "one"}
    assert [r.getMessage() for r in caplog.records] == [f"{tmp_path}/set: not read as captions: LICENSE.txt."]
    (tmp_path / "texts").mkdir()
    for name in ("a.txt", "README.txt"):
        (tmp_path / "texts" / name).write_text(f"from {name}\n")
    assert list(read(open_corpus(str(tmp_path / "texts")))["text"]) == ["from a.txt"]
    with pytest.raises(InputError, match="There is no corpus"):
        (tmp_path / "empty").mkdir()
        open_corpus(str(tmp_path / "empty"))


# -- datasets ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def datasets():
    return pytest.importorskip("datasets", reason="needs the extra 'models'")


def parts_of(corpus, size=3):
    batches = [b for part in range(corpus.parts) for b in corpus.batches(size, part=part)]
    return pd.concat(batches, ignore_index=True)


def test_a_dataset_is_streamed_and_its_files_are_parts(tmp_path, datasets):
    folder = tmp_path / "set"
    folder.mkdir()
    write(folder / "train-0.parquet")
    corpus = open_corpus(f"hf:{folder}")
    assert corpus.parts == 1
    table = read(corpus)
    assert table["text"].tolist() == [t for t, _ in ROWS]
    assert table["caption_id"].tolist() == [f"set-00000-{i:09d}" for i in range(5)]
    assert table["n"].tolist() == [1, 2, 3, 4, 5]
    assert corpus.digest == open_corpus(f"hf:{folder}").digest
    write(folder / "train-1.parquet", [("other", 9), ("one more", 10)])
    more = open_corpus(f"hf:{folder}")
    assert more.parts == 2 and more.digest != corpus.digest
    whole = read(more)
    assert whole["caption_id"].tolist()[4:6] == ["set-00000-000000004", "set-00001-000000000"]
    pd.testing.assert_frame_equal(whole, parts_of(more))
    first = open_corpus(f"hf:{folder}", max_captions=6)
    assert first.parts == 1 and first.digest != more.digest
    pd.testing.assert_frame_equal(read(first), whole.iloc[:6])
    # It goes to other processes, opened or not.
    pd.testing.assert_frame_equal(read(pickle.loads(pickle.dumps(more))), whole)


def test_a_dataset_has_configurations_and_splits(tmp_path, datasets):
    folder = tmp_path / "set"
    for name in ("big", "small"):
        (folder / name).mkdir(parents=True)
        for split in ("train", "validation"):
            write(folder / name / f"{split}.parquet", [(f"{name} {split}", 1)])
    configs = [
        {
            "config_name": name,
            "data_files": [{"split": s, "path": f"{name}/{s}.parquet"} for s in ("train", "validation")],
        }
        for name in ("big", "small")
    ]
    (folder / "README.md").write_text(f"---\n{json.dumps({'configs': configs})}\n---\n")
    named = {spec: open_corpus(f"hf:{folder}{spec}") for spec in (":big", ":small", ":small@validation")}
    assert [read(c)["text"].tolist() for c in named.values()] == [["big train"], ["small train"], ["small validation"]]
    assert len({c.digest for c in named.values()}) == 3
    with pytest.raises(InputError, match=r"(?s)cannot be opened: .*'big'"):
        _ = open_corpus(f"hf:{folder}:bog").digest
    with pytest.raises(InputError, match=r"cannot be read: .*validation"):
        read(open_corpus(f"hf:{folder}:big@vall"))


def test_a_dataset_that_breaks_off_is_named(tmp_path, datasets):
    (tmp_path / "train.jsonl").write_text('{"text": "a"}\n{"text": ')
    with pytest.raises(InputError, match="cannot be read to its end"):
        read(open_corpus(f"hf:{tmp_path}"))


def test_bad_input_is_named(tmp_path):
    with pytest.raises(InputError, match=r"no corpus 'minni'. Did you mean 'mini'\? .*'owner/name'"):
        open_corpus("minni")
    with pytest.raises(InputError, match=r"no corpus 'captions/\*.parquet'"):
        open_corpus("captions/*.parquet")
    (tmp_path / "x.doc").write_text("x")
    (tmp_path / "x.csv.xz").write_bytes(b"x")
    for name in ("x.doc", "x.csv.xz"):
        with pytest.raises(
            InputError, match=rf"{name} has an unsupported type\. .*\.parquet or in \.csv, .* as \.gz\."
        ):
            open_corpus(str(tmp_path / name))
    for name, content, message in (
        (
            "z.csv",
            b"text,n\na,1\na, b,2\n",
            r"z.csv cannot be read as CSV: line 3 has 3 cells, but the first row has 2",
        ),
        ("x.jsonl", b'{"text": "a"}\n{"text":', "x.jsonl, line 2 is not JSON"),
        ("y.jsonl", b"[1]\n", "y.jsonl, line 1 contains a list"),
        ("x.parquet", b"PAR1", "x.parquet cannot be read as Parquet"),
        ("x.csv", b"", "x.csv cannot be read as CSV"),
        ("x.txt.gz", gzip.compress(b"line\n" * 1000)[:-20], "x.txt.gz cannot be read to its end"),
        ("y.txt.gz", b"not packed at all", "y.txt.gz cannot be read to its end"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=message):
            read(open_corpus(str(tmp_path / name)))


def test_captions_in_lists_are_not_read(tmp_path, caplog):
    pd.DataFrame({"caption": [["a nurse"], ["a chef"]]}).to_parquet(tmp_path / "a.parquet")
    (tmp_path / "a.jsonl").write_text('{"caption": ["a nurse"], "n": 1}\n')
    for name, others in (("a.parquet", "none that can be read"), ("a.jsonl", "n")):
        with pytest.raises(InputError, match=rf"{name} has no column 'text' .*: {others}\."):
            read(open_corpus(str(tmp_path / name)))
        assert f"{name}: columns of lists, objects or bytes are ignored: caption." in caplog.text
