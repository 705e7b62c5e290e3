"""Files that someone else wrote, read with care: no pipe that says nothing, and no more than fits in memory."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
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
    """Return the text of such a file; an InputError that names line and byte where it is not of this encoding."""
    try:
        return content(path, most=most).decode(encoding)
    except UnicodeDecodeError as error:
        raise encoding_error(path, error) from None


def encoding_error(path: str | Path, error: UnicodeError, encoding: str = "UTF-8", lines: int = 0) -> InputError:
    """Return the error for a file that is not of its encoding; ``lines`` precede the piece that was decoded."""
    line, problem = lines + 1, str(error)
    if isinstance(error, UnicodeDecodeError):
        line += error.object[: error.start].count(b"\n")
        problem = f"byte 0x{error.object[error.start]:02x}"
    return InputError(f"{path} is not {encoding} (line {line}: {problem}); save it as UTF-8.")


def file_digest(path: str | Path) -> str:
    """Return the SHA-256 digest of a file's content."""
    check(path)
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digests(folder: Path, files: Iterable[Path]) -> dict[str, str]:
    """Return the SHA-256 of files in ``folder``, by their paths in it, in order."""
    return {path.relative_to(folder).as_posix(): file_digest(path) for path in sorted(files)}


def altered(folder: Path, files: Mapping[str, str]) -> str:
    """Return which files are not as :func:`digests` gave them; empty where all are."""
    gone = [name for name in files if not (folder / name).is_file()]
    present = digests(folder, (folder / name for name in files if name not in gone))
    found = [f"{name} is gone" for name in gone]
    found += [f"{name} was changed" for name, digest in present.items() if digest != files[name]]
    return ", ".join(found[:3]) + (f" (and {len(found) - 3} more)" if len(found) > 3 else "")
