"""Lines with checksums in a file: what stands in one outlasts a killed run, and damage is noticed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO

from biaslab.keep.store import explaining, locked

_log = logging.getLogger(__name__)
ROOM = " and will be found again: {fix}, or choose another folder for the store, and run again."
"""What to do where it cannot be written, behind what is kept; as :func:`biaslab.keep.store.explaining` takes it."""


def line_of(record: Mapping[str, Any]) -> bytes:
    """Return a record as a line: 16 hex digits of a SHA-256, a space, and JSON."""
    content = json.dumps(record).encode()
    return b"%s %s\n" % (_checksum(content), content)


def record_of(line: bytes) -> dict[str, Any] | None:
    """Return the record in a line, or None where it is damaged."""
    stated, _, content = line.rstrip(b"\n").partition(b" ")
    return json.loads(content) if stated == _checksum(content) else None


def _checksum(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest()[:16].encode()


class Journal:
    """Records in a file, written once and never changed."""

    def __init__(self, path: Path | None, kept: str) -> None:
        """Use a file; without one nothing is kept. ``kept`` says what stays where the disk is full, and what to do."""
        self.path, self._kept = path, kept
        self._mutex = threading.Lock()

    def turn(self, name: str) -> AbstractContextManager[None]:
        """Be the only process that does the work ``name`` here; others wait, and then find what was written."""
        if self.path is None:
            return contextlib.nullcontext()
        return locked(self.path, name, kept=self._kept)

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield what was written, oldest first; damaged lines are passed over, with a warning."""
        damaged = 0
        for line in self.lines():
            record = record_of(line)
            if record is None:
                damaged += bool(line.strip())
            else:
                yield record
        if damaged:
            _log.warning("%s: damaged lines: %d. They are passed over and asked again.", self.path, damaged)

    def lines(self) -> Iterator[bytes]:
        """Yield the lines without their ends; half a line at the end of the file, which a kill leaves, is none."""
        if self.path is None or not self.path.exists():
            return
        with self.path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n") or record_of(line) is not None:
                    yield line.removesuffix(b"\n")

    def write(self, record: Mapping[str, Any], *, sync: bool = False) -> None:
        """Write a record that fits in JSON as a line of its own; with ``sync`` it outlasts a power cut."""
        if self.path is None:
            return
        line, full = line_of(record), explaining(self.path, self._kept)
        with self._mutex, full, self.turn("write"), self.path.open("a+b") as file:
            # Whoever was killed while writing left it; the lock says that nobody is writing it now.
            if half := _half_line(file):
                if record_of(half) is None:
                    file.truncate(file.seek(0, os.SEEK_END) - len(half))
                else:
                    line = b"\n" + line
            file.write(line)
            if sync:
                file.flush()
                os.fsync(file.fileno())


def _half_line(file: BinaryIO) -> bytes:
    """Return what stands behind the last line feed of a file."""
    half, at = b"", file.seek(0, os.SEEK_END)
    while at and b"\n" not in half:
        size = min(at, 65536)
        at = file.seek(at - size)
        half = file.read(size) + half
    return half.rpartition(b"\n")[2]
