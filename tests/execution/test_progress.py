"""What takes long says that it works: to a file in a run, below the cell in a notebook."""

import io
import sys
import threading

import pytest

from biaslab.execution import progress


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.02)


class Heard(io.StringIO):
    """A stream that says when something was written."""

    def __init__(self):
        super().__init__()
        self.told = threading.Event()

    def write(self, text):
        self.told.set()
        return super().write(text)


def test_a_line_below_the_cell(monkeypatch):
    heard = Heard()
    monkeypatch.setattr(sys, "stderr", heard)
    with progress.working("computing shares"):
        assert heard.told.wait(30)
    assert "computing shares: 00:00" in heard.getvalue()
    # An error ends it, too.
    with pytest.raises(ZeroDivisionError), progress.working("dividing"):
        _ = 1 / 0
    assert not [t for t in threading.enumerate() if t.name == "biaslab progress"]


def test_in_a_run_the_file_says_it_and_a_bar_says_more(tmp_path, capsys):
    file = tmp_path / "progress.log"
    written = threading.Event()
    with progress.working("computing shares", file):
        while not (said := file.read_text() if file.exists() else ""):
            written.wait(0.01)
        assert said.startswith("computing shares: ")
    assert not file.exists() and capsys.readouterr() == ("", "")
    file.write_text("judging: 5 of 9")
    progress._write(file, "computing shares: 3 s")
    # A bar that was drawn just now is left alone.
    progress.PATIENCE = 60.0
    progress._write(file, "computing shares: 4 s")
    file.write_text("judging: 6 of 9")
    progress._write(file, "computing shares: 5 s")
    assert file.read_text() == "judging: 6 of 9"
