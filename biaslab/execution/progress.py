"""Signs of life: bars of stages, and what takes longer than two seconds says what it is and for how long."""

from __future__ import annotations

import contextlib
import io
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from tqdm import tqdm

ATTEMPT = "BIASLAB_ATTEMPT"
"""Environment variable with the folder that notebooks of one start of a run write to, in place of their parts."""
# Seconds after which something says that it works, and between two signs.
PATIENCE = 2.0
# The bars that are shown in this process, the innermost last.
_bars: list[Any] = []


@contextlib.contextmanager
def bar(**options: Any) -> Iterator[tqdm]:
    """Show a bar on standard error: rows done of all, rate and time left. Options are those of ``tqdm``."""
    from tqdm import tqdm

    with tqdm(**options, leave=False, file=sys.stderr) as shown:
        _bars.append(shown)
        try:
            yield shown
        finally:
            _bars.remove(shown)


def begin_batch(rows: int) -> None:
    """State that the next rows of the innermost bar are worked on together; :func:`count` says how far they are."""
    for shown in _bars[-1:]:
        shown.batch = shown.n, rows


def count(share: float) -> None:
    """Advance the innermost bar to a share (0–1) of its batch; the bar never goes back."""
    for shown in _bars[-1:]:
        start, rows = getattr(shown, "batch", (shown.n, 0))
        shown.set_postfix_str("", refresh=False)
        shown.update(max(start + int(share * rows) - shown.n, 0))


def notice(text: str) -> None:
    """Show why work waits, behind the innermost bar until it advances; without a bar on a line of standard error."""
    if _bars:
        _bars[-1].set_postfix_str(text)
    else:
        print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def working(what: str, file: Path | None = None) -> Iterator[None]:
    """Return what is done, in a few words, while it is done, with the time since it began.

    ``file`` holds the latest sign; without one it is a line on standard error, taken away at the end. A bar that was
    drawn there within the last seconds says more and is left alone.
    """
    began, ended = time.monotonic(), threading.Event()
    # As it is now: the thread must not write to what replaces it for a while.
    stream = sys.stderr

    def tell() -> None:
        from tqdm import tqdm

        bar = None
        while not ended.wait(PATIENCE):
            seconds = round(time.monotonic() - began)
            if file is not None and _bars and not _bars[-1].disable:
                # A bar says more: its times continue while a batch is under way.
                _bars[-1].refresh()
            elif file is not None:
                _write(file, f"{what}: {seconds} s")
            elif bar is None:
                bar = tqdm(desc=what, bar_format="{desc}: {elapsed}", leave=False, file=stream)
            else:
                bar.refresh()
        if bar is not None:
            bar.close()

    teller = threading.Thread(target=tell, name="biaslab progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()
        if file is not None:
            file.unlink(missing_ok=True)


def _write(file: Path, line: str) -> None:
    # A sign that cannot be given must not end the work.
    with contextlib.suppress(OSError):
        # A time that is yet to come is of a clock that was set back.
        fresh = file.exists() and 0 <= time.time() - file.stat().st_mtime < PATIENCE
        # Ours ends with seconds; a bar does not.
        if not fresh or file.read_text(encoding="utf-8", errors="replace").endswith(" s"):
            file.write_text(line, encoding="utf-8")


class BarFile(io.TextIOBase):
    """Standard error, but for progress bars: of them, a file holds the latest."""

    def __init__(self, path: Path, rest: TextIO) -> None:
        self._path, self._rest = path, rest

    def write(self, text: str) -> int:
        """Take what a program writes; a bar draws itself again after each carriage return."""
        if "\r" not in text:
            return self._rest.write(text)
        if line := text.replace("\x1b[A", "").strip("\r\n "):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(line, encoding="utf-8")
        return len(text)

    def flush(self) -> None:
        """Flush what is no bar."""
        self._rest.flush()
