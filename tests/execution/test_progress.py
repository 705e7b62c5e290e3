"""Progress of long work: to a file in a run, below the cell in a notebook."""

import io
import sys
import threading

import pytest

from biaslab.execution import progress


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.02)


class NotifyingStream(io.StringIO):
    """A stream that signals when something was written."""

    def __init__(self):
        super().__init__()
        self.told = threading.Event()

    def write(self, text):
        self.told.set()
        return super().write(text)


def test_working_writes_line_to_stderr(monkeypatch):
    stream = NotifyingStream()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress.working("computing shares"):
        assert stream.told.wait(30)
    assert "computing shares: 00:00" in stream.getvalue()
    # An error ends it, too.
    with pytest.raises(ZeroDivisionError), progress.working("dividing"):
        _ = 1 / 0
    assert not [t for t in threading.enumerate() if t.name == "biaslab progress"]


def test_working_writes_file_in_run(tmp_path, capsys):
    file = tmp_path / "progress.log"
    pause = threading.Event()
    with progress.working("computing shares", file):
        while not (content := file.read_text() if file.exists() else ""):
            pause.wait(0.01)
        assert content.startswith("computing shares: ")
    assert not file.exists() and capsys.readouterr() == ("", "")
    file.write_text("judging: 5 of 9")
    progress._write(file, "computing shares: 3 s")
    # A bar that was drawn just now is left alone.
    progress.PATIENCE = 60.0
    progress._write(file, "computing shares: 4 s")
    file.write_text("judging: 6 of 9")
    progress._write(file, "computing shares: 5 s")
    assert file.read_text() == "judging: 6 of 9"


def test_count_shows_rows_done_of_all(capsys):
    with progress.bar(total=10, desc="judging", unit=" images") as bar:
        progress.begin_batch(8)
        # A quarter of 8 rows, of 10 in all.
        progress.count(0.25)
        assert bar.n == 2
        progress.notice("HTTP 503: attempt 2 in 4 s")
        assert bar.postfix == "HTTP 503: attempt 2 in 4 s"
        # An earlier share, as of questions that are asked again, moves nothing back.
        progress.count(0.1)
        assert (bar.n, bar.postfix) == (2, "")
        progress.count(1)
        assert bar.n == 8
    told = capsys.readouterr().err
    assert "2/10" in told and "images/s" in told and "attempt 2 in 4 s" in told
    # Without a bar, a reason to wait has a line of its own, and a count has nothing to move.
    progress.count(1)
    progress.notice("waiting")
    assert capsys.readouterr().err == "waiting\n"
