"""User files in all readers: pipes and devices are refused without waiting, and oversized files are not read."""

import os
import stat
from pathlib import Path

import pytest

from biaslab.errors import BiaslabError, InputError
from biaslab.io import reading
from biaslab.judges import questions, segmentation
from biaslab.prompts import word_files
from biaslab.ratings import annotations, shares
from biaslab.request import Request
from biaslab.runs import compare
from biaslab.schema import tables
from biaslab.study import sources

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pipes and sockets are other things on Windows")


KINDS = {"a folder": os.mkdir, "a named pipe": os.mkfifo}
KINDS["a socket"] = lambda path: os.mknod(path, stat.S_IFSOCK | 0o600)


@pytest.mark.parametrize("kind", [*KINDS, "a device"])
def test_reading_refuses_folders_pipes_and_devices(tmp_path, kind):
    path = Path(os.devnull) if kind == "a device" else tmp_path / "it"
    if kind in KINDS:
        KINDS[kind](path)
    (tmp_path / "link").symlink_to(path)
    for name in (path, str(tmp_path / "link")):
        for read in (reading.check, reading.content, reading.text):
            with pytest.raises(InputError, match=rf"^{name} is a folder, a pipe or a device; specify a file"):
                read(name)


def test_reading_stops_at_size_limit(tmp_path, monkeypatch):
    (tmp_path / "it").write_bytes("né".encode())
    assert reading.content(tmp_path / "it", most=3) == b"n\xc3\xa9" and reading.text(tmp_path / "it") == "né"
    with pytest.raises(InputError, match=r"has 3 bytes; the maximum is 2"):
        reading.content(tmp_path / "it", most=2)
    # A file of a terabyte in which nothing is written takes no place on a disk.
    with (tmp_path / "large").open("wb") as file:
        file.truncate(reading.MAX_BYTES + 1)
    with pytest.raises(InputError, match=r"has 500,000,001 bytes; the maximum is 500,000,000"):
        reading.text(tmp_path / "large")
    with pytest.raises(FileNotFoundError):
        reading.check(tmp_path / "nothing")


# Readers of user files, by kind.
READERS = {
    "measured table": lambda path: tables.read(path, "paradox_percent_female"),
    "annotations": annotations.read,
    "shares": shares.read,
    "vocabulary": lambda path: segmentation.words(str(path)),
    "instances": segmentation.read,
    "digest": reading.file_digest,
    "record of a run": lambda path: compare.make_record(path.parent),
    "source": lambda path: sources.digest(Request(str(path.parent))),
}
NAMES = {"record of a run": "run.json", "source": "paradox_percent_female.csv"}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", ["a named pipe", "a socket"])
def test_readers_refuse_pipes_without_waiting(tmp_path, reader, kind):
    path = tmp_path / NAMES.get(reader, "it.csv")
    KINDS[kind](path)
    with pytest.raises(BiaslabError, match=path.name):
        READERS[reader](path)


def test_text_of_other_encoding_names_line_and_byte(tmp_path):
    (tmp_path / "it").write_bytes("ein Koch\neine \u00c4rztin\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"it is not UTF-8 \(line 2: byte 0xc4\); save it as UTF-8\.$"):
        reading.text(tmp_path / "it")


@pytest.mark.parametrize(
    "read",
    [lambda path: word_files.read(path, "captions.vocabulary_file"), lambda path: questions.read_questions(path)],
    ids=["vocabulary", "questions"],
)
def test_yaml_alias_expansion_is_refused(tmp_path, read):
    # Nine lists of nine aliases each: 9^9 values in 400 bytes.
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 9)]
    (tmp_path / "it.yaml").write_text("\n".join(lines))
    with pytest.raises(BiaslabError, match=r"it\.yaml.* exceeds the maximum of 100,000 values"):
        read(str(tmp_path / "it.yaml"))
