"""Files that somebody else wrote, read with care: no pipe that says nothing, and no more than fits in memory."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from biaslab.errors import InputError

MOST = 500_000_000
"""Bytes of a file that is read as a whole."""


def check(path: str | Path, *, most: int | None = None) -> None:
    """Check that a path names a file, as a link may, and where ``most`` is given, that it has no more bytes than that.

    Raises InputError: It names a folder, a pipe, a socket or a device; or the file is larger. OSError: There is none.
    """
    state = os.stat(path)
    # A pipe is waited for without an end.
    if not stat.S_ISREG(state.st_mode):
        raise InputError(f"{path} is a folder, a pipe or a device; give a file, or take it away.")
    if most is not None and state.st_size > most:
        raise InputError(f"{path} has {state.st_size:,} bytes; at most {most:,} are read.")


def content(path: str | Path, *, most: int = MOST) -> bytes:
    """Return the content of a file that :func:`check` lets pass, of at most ``most`` bytes."""
    check(path, most=most)
    return Path(path).read_bytes()


def text(path: str | Path, encoding: str = "utf-8", *, most: int = MOST) -> str:
    """Return the text of such a file; a UnicodeDecodeError where it is none in this encoding."""
    return content(path, most=most).decode(encoding)


def file_digest(path: str | Path) -> str:
    """Return the SHA-256 digest of a file's content."""
    check(path)
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
