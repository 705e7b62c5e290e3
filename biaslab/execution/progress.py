"""Progress bars of stages, and messages about work that takes longer than two seconds."""

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
"""Environment variable with the folder that notebooks of one start of a run write to, instead of their parts."""
# Seconds before the first message about work, and between messages.
PATIENCE = 2.0
# The active bars of this process, the innermost last.
_bars: list[Any] = []


@contextlib.contextmanager
def bar(**options: Any) -> Iterator[tqdm]:
    """Show a bar on standard error with finished and total rows, rate and remaining time; options are tqdm's."""
    from tqdm import tqdm

    with tqdm(**options, leave=False, file=sys.stderr) as progress_bar:
        _bars.append(progress_bar)
        try:
            yield progress_bar
        finally:
            _bars.remove(progress_bar)


def begin_batch(rows: int) -> None:
    """State that the next rows of the innermost bar are one batch, whose progress :func:`count` reports."""
    for progress_bar in _bars[-1:]:
        progress_bar.batch = progress_bar.n, rows


def count(share: float) -> None:
    """Advance the innermost bar to a share (0–1) of its batch; the bar never goes back."""
    for progress_bar in _bars[-1:]:
        start, rows = getattr(progress_bar, "batch", (progress_bar.n, 0))
        progress_bar.set_postfix_str("", refresh=False)
        progress_bar.update(max(start + int(share * rows) - progress_bar.n, 0))


def notice(text: str) -> None:
    """Show why work waits, after the innermost bar until it advances; without a bar, on a line of standard error."""
    if _bars:
        _bars[-1].set_postfix_str(text)
    else:
        print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def working(message: str, file: Path | None = None) -> Iterator[None]:
    """Show ``message`` and the elapsed time while the context is active.

    They are written to ``file``, or without one to a line of standard error, which is removed at the end. A bar that
    was written to the file within the last seconds is more informative and is not replaced.
    """
    start, stop = time.monotonic(), threading.Event()
    # The current stream, as the thread must not write to one that replaces it temporarily.
    stream = sys.stderr

    def report() -> None:
        from tqdm import tqdm

        bar = None
        while not stop.wait(PATIENCE):
            seconds = round(time.monotonic() - start)
            if file is not None and _bars and not _bars[-1].disable:
                # A bar is more informative; refreshing it updates its times during a batch.
                _bars[-1].refresh()
            elif file is not None:
                _write(file, f"{message}: {seconds} s")
            elif bar is None:
                bar = tqdm(desc=message, bar_format="{desc}: {elapsed}", leave=False, file=stream)
            else:
                bar.refresh()
        if bar is not None:
            bar.close()

    thread = threading.Thread(target=report, name="biaslab progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        if file is not None:
            file.unlink(missing_ok=True)


def _write(file: Path, line: str) -> None:
    # A failure to report progress must not end the work.
    with contextlib.suppress(OSError):
        # A time in the future means that the clock was set back.
        is_recent = file.exists() and 0 <= time.time() - file.stat().st_mtime < PATIENCE
        # Ours ends with seconds; a bar does not.
        if not is_recent or file.read_text(encoding="utf-8", errors="replace").endswith(" s"):
            file.write_text(line, encoding="utf-8")


class BarFile(io.TextIOBase):
    """Standard error without progress bars, of which the latest is written to a file."""

    def __init__(self, path: Path, stream: TextIO) -> None:
        self._path, self._stream = path, stream

    def write(self, text: str) -> int:
        """Write text; a bar is redrawn after each carriage return."""
        if "\r" not in text:
            return self._stream.write(text)
        if line := text.replace("\x1b[A", "").strip("\r\n "):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(line, encoding="utf-8")
        return len(text)

    def flush(self) -> None:
        """Flush the text that is not a bar."""
        self._stream.flush()
