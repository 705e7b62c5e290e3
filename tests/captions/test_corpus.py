"""Captions from the synthetic world, files and datasets, behind one interface."""

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


def read_all(corpus, size=2):
    return pd.concat(list(corpus.batches(size)), ignore_index=True)


KINDS = ("csv", "tsv", "jsonl", "ndjson", "txt")


@pytest.mark.parametrize("ending", ["parquet", *KINDS, *(kind + ".gz" for kind in ("csv", "jsonl", "txt"))])
def test_corpus_files_of_each_kind_give_same_captions(tmp_path, ending):
    corpus = open_corpus(str(write(tmp_path / f"some.{ending}")))
    table = read_all(corpus)
    texts = [t.replace("\n", " ") if "txt" in ending else t for t, _ in ROWS]
    assert table["text"].tolist() == texts
    assert table["caption_id"].tolist() == [f"some.{ending}-{i:09d}" for i in range(5)]
    if "txt" not in ending:
        assert table["n"].astype(int).tolist() == [1, 2, 3, 4, 5]
    # Ids do not depend on how rows fall into batches.
    pd.testing.assert_frame_equal(table, read_all(corpus, 4))
    assert corpus.images is None
    assert open_corpus(str(tmp_path / f"some.{ending}"), max_captions=3).digest != corpus.digest
    assert read_all(open_corpus(str(tmp_path / f"some.{ending}"), max_captions=3))["text"].tolist() == texts[:3]


def test_corpus_columns_are_mapped_by_setting(tmp_path):
    frame = pd.DataFrame({"words": ["a", None], "key": ["x1", "x2"], "rank": [7, 8], "URL": ["u", "v"]})
    frame.to_parquet(tmp_path / "own.parquet")
    path = str(tmp_path / "own.parquet")
    table = read_all(open_corpus(path, columns={"text": "words", "caption_id": "key"}))
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
            read_all(open_corpus(path, columns=columns))


def test_corpus_columns_never_clash(tmp_path):
    """Columns that stages add and columns with equal names are renamed; names do not depend on the batch."""
    path = tmp_path / "own.csv"
    path.write_text("text,gender,gender,corpus_gender,url2,occupation\na nurse,f,g,h,u,o\n")
    table = read_all(open_corpus(str(path), columns={"url": "url2"}))
    assert table.drop(columns="caption_id").to_dict("list") == {
        "text": ["a nurse"],
        "url": ["u"],
        "corpus_gender": ["f"],
        "gender_": ["g"],
        "corpus_gender_": ["h"],
        "corpus_occupation": ["o"],
    }


def test_corpus_dates_beyond_python_are_text(tmp_path):
    """Day 100,000,000 since 1970 is in the year 275,760, beyond Python's dates."""
    days = pa.array([0, 10**8], pa.int32()).view(pa.date32())
    zone = pa.array([0, None], pa.timestamp("s", tz="Nowhere/None"))
    table = pa.table({"text": ["a nurse", "nurse"], "day": days, "at": zone, "ns": pa.array([1, 2], pa.time64("ns"))})
    pq.write_table(table, tmp_path / "a.parquet")
    corpus = open_corpus(str(tmp_path / "a.parquet"))
    result = search(corpus, ["nurse"], progress=False).captions.sort_values("caption_id", ignore_index=True)
    for captions_table in (read_all(corpus), result):
        assert captions_table["day"][0] == "1970-01-01" and "100000000" in captions_table["day"][1]
        assert captions_table["at"][0] == "1970-01-01 00:00:00.000Z" and pd.isna(captions_table["at"][1])
        assert captions_table["ns"].tolist() == ["00:00:00.000000001", "00:00:00.000000002"]


# -- published datasets --------------------------------------------------------------------------------------

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
def test_published_datasets_are_known_by_columns(tmp_path, columns, ids, carried):
    pd.DataFrame(columns).to_parquet(tmp_path / "part-0.parquet")
    path = str(tmp_path / "*.parquet")
    table = read_all(open_corpus(path))
    assert table["text"].tolist() == ["a nurse", ""]
    assert table["url"].tolist() == ["u", "v" if "v" in str(columns) else ""]
    assert table["caption_id"].tolist() == (ids or [f"part-0.parquet-{i:09d}" for i in range(2)])
    assert table.columns.tolist() == ["caption_id", "text", "url", *carried]
    # A configured column takes precedence over known ones.
    renamed = read_all(open_corpus(path, columns={"text": carried[0]}))
    assert renamed["text"].tolist() == [str(v) for v in columns[carried[0]]]


@pytest.mark.parametrize(("name", "url_first"), [("cc12m.tsv", True), ("Train_GCC-training.tsv.gz", False)])
def test_conceptual_captions_have_no_header(tmp_path, name, url_first):
    """Quotation marks and further tabs in them are part of captions, and a blank line is none."""
    rows = [("http://a/1.jpg", 'a "nurse'), ("https://b/2", "two\ttabs"), ("http://c", 'b" of\r"'), ("", "")]
    rows += [("", "no image"), ("http://d", "last")]
    lines = ["\t".join(r if url_first else r[::-1]) if any(r) else "" for r in rows]
    path = tmp_path / name
    path.write_bytes(PACK.get(path.suffix, bytes)(("\n".join(lines) + "\n").encode()))
    table = read_all(open_corpus(str(path)))
    # If the URL is last, the caption is everything before the last tab.
    assert list(zip(table["url"], table["text"], strict=True)) == [r for r in rows if any(r)]
    path.write_bytes(PACK.get(path.suffix, bytes)(b'url\tcaption\nhttp://a\t"a, b"\n'))
    assert read_all(open_corpus(str(path)))[["url", "text"]].to_numpy().tolist() == [["http://a", "a, b"]]


# -- ids -----------------------------------------------------------------------------------------------------


def test_missing_or_long_ids_are_generated(tmp_path):
    frame = pd.DataFrame({"text": list("abcd"), "id": [5.0, None, 2**53, 7.5], "key": ["k", "", None, "x" * 201]})
    frame.to_parquet(tmp_path / "a.parquet")
    generated_ids = [f"a.parquet-{i:09d}" for i in range(4)]
    path = str(tmp_path / "a.parquet")
    ids = read_all(open_corpus(path, columns={"caption_id": "id"}))["caption_id"].tolist()
    # A column of whole numbers that misses one is read as floats: they are whole again.
    assert ids == ["5", generated_ids[1], "9007199254740992", "7.5"]
    assert read_all(open_corpus(path, columns={"caption_id": "key"}))["caption_id"].tolist() == [
        "k",
        *generated_ids[1:],
    ]


def test_corpus_digest_follows_content_and_columns(tmp_path):
    path = write(tmp_path / "a.csv")
    digests = [open_corpus(str(path), columns=columns).digest for columns in ({}, {"text": "n"}, {})]
    write(path, [("a nursE", 1), *ROWS[1:]])
    assert digests[0] == digests[2] and len({*digests, open_corpus(str(path)).digest}) == 3


def test_duplicate_ids_are_refused_by_pipeline(tmp_path):
    """The search accepts them; the pipeline, which finds images by id, refuses them with a fix."""
    rows = {"id": ["1", "1", "2", "2", "3"], "text": ["a nurse", "a nurse", "a chef", "a cook", "a nurse and a chef"]}
    pd.DataFrame(rows).to_csv(tmp_path / "a.csv", index=False)
    settings = {
        "captions": {"corpus": str(tmp_path / "a.csv"), "approaches": ["naive"]},
        "compute": {"cache": str(tmp_path / "store")},
    }

    def captions(occupation, **more):
        configuration = Settings.from_mapping(settings).with_changes(captions={"occupations": occupation, **more})
        return Pipeline("fake", configuration, progress=False).captions()

    for occupation in (["nurse"], ["chef", "cook"]):
        with pytest.raises(InputError, match=r"have the id '[12]'"):
            captions(occupation, columns={"caption_id": "id"})
    assert captions(["chef"], columns={"caption_id": "id"})["caption_id"].tolist() in (["2", "3"], ["3", "2"])
    assert len(captions(["nurse", "chef", "cook"])) == 6


# -- hostile files -------------------------------------------------------------------------------------------


def test_invalid_utf8_is_replaced_in_each_kind_of_file(tmp_path):
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
        table = read_all(open_corpus(str(tmp_path / name)))
        assert table["text"].tolist() == [good], name
    assert read_all(open_corpus(str(tmp_path / "a.parquet")))["other"].tolist() == [good]


def test_json_surrogates_and_control_characters_are_read(tmp_path):
    lines = [r'{"text": "half \ud83e", "k\udc00": "\ud83e\uddd1"}', '{"text": "nul \0 and \x1b raw"}']
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
    table = read_all(open_corpus(str(tmp_path / "a.jsonl")))
    assert table["text"].tolist() == ["half \ufffd", "nul \0 and \x1b raw"]
    assert table["k\ufffd"].tolist()[0] == "\U0001f9d1"
    pa.array(table["text"])  # fits in Arrow


def test_json_values_are_carried_as_text(tmp_path, caplog):
    lines = [
        {"text": "a", "x": 1, "y": True, "list": [1], "z": None},
        {"text": "b", "x": "one", "y": 2.5, "object": {"a": 1}, "late": 7},
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with caplog.at_level(logging.WARNING):
        table = read_all(open_corpus(str(tmp_path / "a.jsonl")), size=8)
    assert table[["text", "x", "y"]].to_numpy().tolist() == [["a", "1", "true"], ["b", "one", "2.5"]]
    assert table["z"].isna().all()
    assert table["late"].isna().tolist() == [True, False] and table["late"][1] == "7"
    assert list(table) == ["caption_id", "text", "x", "y", "z", "late"]
    assert "are ignored: list." in caplog.text
    assert caplog.text.count("are ignored") == 1


def test_json_keys_are_limited_in_number(tmp_path):
    lines = [json.dumps({f"key{i}": i, "k" * 300: 1, "n": i}) for i in range(500)]
    lines.append(json.dumps({"text": "late"}))
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    table = read_all(open_corpus(str(tmp_path / "a.jsonl")), size=1000)
    assert len(table) == 501 and table["text"].iloc[-1] == "late"
    assert len(table.columns) <= 104


def test_list_object_and_byte_columns_are_left_out(tmp_path, caplog):
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
        result = read_all(open_corpus(str(tmp_path / "a.parquet")))
    assert list(result) == ["caption_id", "text", "kind", "none", "n"]
    assert result["kind"].tolist() == ["a", "b"]
    assert "a.parquet: columns of lists, objects or bytes are ignored: boxes, image, raw." in caplog.text


@pytest.mark.long
def test_memory_is_bounded_for_megabyte_lines(tmp_path, monkeypatch):
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
        allocated_before, n, peak = pa.total_allocated_bytes(), 0, 0
        for batch in open_corpus(str(tmp_path / name)).batches():
            assert all(len(t) > 2**19 for t in batch["text"])
            n += len(batch)
            peak = max(peak, pa.total_allocated_bytes() - allocated_before)
        assert n == 40
        assert tracemalloc.get_traced_memory()[1] < 9 * 2**20, name
        assert peak < 15 * 2**20, name
        tracemalloc.stop()


def test_overlong_line_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "LONGEST_LINE", 1000)
    for name, content in (
        ("a.txt", b"x" * 1001),
        ("a.jsonl", b'{"text": "' + b"x" * 1001),
        ("a.csv", b"text\n" + b"x" * 1001),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=rf"{name}, line \d is longer than 1,000 characters"):
            read_all(open_corpus(str(tmp_path / name)))


def test_shards_with_different_column_types_are_read(tmp_path):
    """An unused column with other types."""
    folder, texts = tmp_path / "d", {"TEXT": ["a nurse", "a pilot"]}
    folder.mkdir()
    pd.DataFrame(texts | {"punsafe": [1, 2]}).to_parquet(folder / "train-00000-of-00002.parquet")
    pd.DataFrame(texts | {"punsafe": ["low", "high"]}).to_parquet(folder / "train-00001-of-00002.parquet")
    assert read_all(open_corpus(str(folder)))["text"].tolist() == texts["TEXT"] * 2


def test_corpus_folder_reads_all_caption_files(tmp_path, caplog):
    (tmp_path / "set" / "b").mkdir(parents=True)
    write(tmp_path / "set" / "b" / "a.csv", [("one", 1)])
    write(tmp_path / "set" / "a.parquet", [("two", 2)])
    (tmp_path / "set" / "README.md").write_text("not captions")
    # Text files next to tables describe them; files of operating systems are ignored.
    (tmp_path / "set" / "LICENSE.txt").write_text("not captions\neither")
    for system_file in ("._a.parquet", "__MACOSX/a.csv", "b/.ipynb_checkpoints/a-checkpoint.csv"):
        (tmp_path / "set" / system_file).parent.mkdir(exist_ok=True)
        (tmp_path / "set" / system_file).write_bytes(b"\0\5\x16\7Mac OS X")
    corpus = open_corpus(str(tmp_path / "set"))
    assert corpus.parts == 2
    result = read_all(corpus).set_index("caption_id")["text"].to_dict()
    assert result == {"a.parquet-000000000": "two", "b/a.csv-000000000": "one"}
    assert [r.getMessage() for r in caplog.records] == [f"{tmp_path}/set: not read as captions: LICENSE.txt."]
    (tmp_path / "texts").mkdir()
    for name in ("a.txt", "README.txt"):
        (tmp_path / "texts" / name).write_text(f"from {name}\n")
    assert list(read_all(open_corpus(str(tmp_path / "texts")))["text"]) == ["from a.txt"]
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


def test_dataset_is_streamed_with_files_as_parts(tmp_path, datasets):
    folder = tmp_path / "set"
    folder.mkdir()
    write(folder / "train-0.parquet")
    corpus = open_corpus(f"hf:{folder}")
    assert corpus.parts == 1
    table = read_all(corpus)
    assert table["text"].tolist() == [t for t, _ in ROWS]
    assert table["caption_id"].tolist() == [f"set-00000-{i:09d}" for i in range(5)]
    assert table["n"].tolist() == [1, 2, 3, 4, 5]
    assert corpus.digest == open_corpus(f"hf:{folder}").digest
    write(folder / "train-1.parquet", [("other", 9), ("one more", 10)])
    more = open_corpus(f"hf:{folder}")
    assert more.parts == 2 and more.digest != corpus.digest
    all_captions = read_all(more)
    assert all_captions["caption_id"].tolist()[4:6] == ["set-00000-000000004", "set-00001-000000000"]
    pd.testing.assert_frame_equal(all_captions, parts_of(more))
    limited = open_corpus(f"hf:{folder}", max_captions=6)
    assert limited.parts == 1 and limited.digest != more.digest
    pd.testing.assert_frame_equal(read_all(limited), all_captions.iloc[:6])
    # It is picklable, opened or not.
    pd.testing.assert_frame_equal(read_all(pickle.loads(pickle.dumps(more))), all_captions)


def test_dataset_configurations_and_splits_are_selected(tmp_path, datasets):
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
    by_spec = {spec: open_corpus(f"hf:{folder}{spec}") for spec in (":big", ":small", ":small@validation")}
    assert [read_all(c)["text"].tolist() for c in by_spec.values()] == [
        ["big train"],
        ["small train"],
        ["small validation"],
    ]
    assert len({c.digest for c in by_spec.values()}) == 3
    with pytest.raises(InputError, match=r"(?s)cannot be opened: .*'big'"):
        _ = open_corpus(f"hf:{folder}:bog").digest
    with pytest.raises(InputError, match=r"cannot be read: .*validation"):
        read_all(open_corpus(f"hf:{folder}:big@vall"))


def test_truncated_dataset_is_refused(tmp_path, datasets):
    (tmp_path / "train.jsonl").write_text('{"text": "a"}\n{"text": ')
    with pytest.raises(InputError, match="cannot be read to its end"):
        read_all(open_corpus(f"hf:{tmp_path}"))


def test_open_corpus_invalid_input_is_refused(tmp_path):
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
            read_all(open_corpus(str(tmp_path / name)))


def test_captions_in_lists_are_refused(tmp_path, caplog):
    pd.DataFrame({"caption": [["a nurse"], ["a chef"]]}).to_parquet(tmp_path / "a.parquet")
    (tmp_path / "a.jsonl").write_text('{"caption": ["a nurse"], "n": 1}\n')
    for name, columns_listed in (("a.parquet", "none that can be read"), ("a.jsonl", "n")):
        with pytest.raises(InputError, match=rf"{name} has no column 'text' .*: {columns_listed}\."):
            read_all(open_corpus(str(tmp_path / name)))
        assert f"{name}: columns of lists, objects or bytes are ignored: caption." in caplog.text
