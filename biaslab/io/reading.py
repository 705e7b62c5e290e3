"""Safe reading of user-supplied files: no pipes, which may block, and no files larger than memory."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from biaslab.errors import InputError

MAX_BYTES = 500_000_000
"""Maximum bytes of a file that is read into memory."""


def check(path: str | Path, *, most: int | None = None) -> None:
    """Check that a path, which may be a link, names a file, and that this has at most ``most`` bytes, if given.

    Raises InputError: It names a folder, a pipe, a socket or a device; or the file is larger. OSError: It is missing.
    """
    state = os.stat(path)
    # Reading a pipe may block forever.
    if not stat.S_ISREG(state.st_mode):
        raise InputError(f"{path} is a folder, a pipe or a device; specify a file, or move it away.")
    if most is not None and state.st_size > most:
        raise InputError(f"{path} has {state.st_size:,} bytes; the maximum is {most:,}.")


def content(path: str | Path, *, most: int = MAX_BYTES) -> bytes:
    """Return the content of a file of at most ``most`` bytes. Raises as :func:`check`."""
    check(path, most=most)
    return Path(path).read_bytes()


def text(path: str | Path, encoding: str = "utf-8", *, most: int = MAX_BYTES) -> str:
    """Return the text of a file. Raises as :func:`check`, and InputError with line and byte if decoding fails."""
    try:
        return content(path, most=most).decode(encoding)
    except UnicodeDecodeError as error:
        raise encoding_error(path, error) from None


def encoding_error(path: str | Path, error: UnicodeError, encoding: str = "UTF-8", lines: int = 0) -> InputError:
    """Return the error for a file with invalid bytes; ``lines`` is the number of lines before the decoded piece."""
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
    """Return the SHA-256 of files in ``folder`` by relative path, in order."""
    return {path.relative_to(folder).as_posix(): file_digest(path) for path in sorted(files)}


def describe_changes(folder: Path, files: Mapping[str, str]) -> str:
    """Return a text about the files whose digests differ from those of :func:`digests`; empty if none do."""
    missing_files = [name for name in files if not (folder / name).is_file()]
    current = digests(folder, (folder / name for name in files if name not in missing_files))
    changes = [f"{name} is missing" for name in missing_files]
    changes += [f"{name} was changed" for name, digest in current.items() if digest != files[name]]
    return ", ".join(changes[:3]) + (f" (and {len(changes) - 3} more)" if len(changes) > 3 else "")
