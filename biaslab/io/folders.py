"""One rule for what in a folder is its user's."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from biaslab.errors import InputError

_log = logging.getLogger(__name__)

# What systems and programs put beside files; all that begins with a dot is theirs, too.
_LEFT_BEHIND = frozenset((
    "__macosx", "thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r", "$recycle.bin", "system volume information",
    "lost+found", "@eadir", "__pycache__",
))  # fmt: skip
# What texts that come with data, and are none of them, begin with.
_NOTES = frozenset(("license", "licence", "readme", "notice", "copying", "citation", "changelog"))
# What no line of text can hold: its end, and bytes that are not UTF-8.
_NO_LINE = re.compile("[\\0-\\x1f\\x7f\\x85\\u2028\\u2029\\ud800-\\udfff]")


def files(folder: Path, endings: Sequence[str], *, deep: bool = True) -> dict[str, Path]:
    """Return the files of a folder that end in one of ``endings``, by their paths below it with forward slashes.

    Sorted by these. ``deep`` is whether folders in it count. Links are followed, each folder once; one that leads
    nowhere is named in a warning. What systems leave there does not count: hidden files, ``__MACOSX``, ``Thumbs.db``,
    ``~$…``.

    Raises InputError: A name is not UTF-8 or holds the end of a line, so that no table can name the file; or a folder
    in it cannot be read.
    """
    there = {}
    for path in _walked(folder, deep):
        if not path.name.lower().endswith(tuple(endings)):
            continue
        name = path.relative_to(folder).as_posix()
        if _NO_LINE.search(name):
            raise InputError(f"{folder} holds {os.fsencode(name)!r}, which no table can name; rename it.")
        there[name] = path
    return dict(sorted(there.items()))


def other_files(folder: Path, endings: Sequence[str]) -> list[str]:
    """Return the paths of a folder's other files, as :func:`files` counts them, sorted; the names may be any."""
    paths = (path for path in _walked(folder, True) if not path.name.lower().endswith(tuple(endings)))
    return sorted(path.relative_to(folder).as_posix() for path in paths)


def without_notes(paths: Iterable[str]) -> list[str]:
    """Return paths but for those of texts about the others, such as LICENSE and README."""
    return [path for path in paths if re.split("[^a-z]", Path(path).name.lower())[0] not in _NOTES]


def is_system_file(name: str) -> bool:
    """Return whether a file or folder of this name is a system's, and not its user's."""
    return name.startswith((".", "~$")) or name.lower() in _LEFT_BEHIND


def _walked(folder: Path, deep: bool) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename} cannot be read: {error.strerror}.")

    seen, lost = set(), []
    for at, folders, names in os.walk(folder, followlinks=True, onerror=refuse):
        real = os.path.realpath(at)
        folders[:] = sorted(name for name in folders if deep and real not in seen and not is_system_file(name))
        if real in seen:
            continue
        seen.add(real)
        for path in (Path(at, name) for name in names if not is_system_file(name)):
            # A pipe or a device is none, and waits for ever.
            if path.is_file():
                yield path
            elif path.is_symlink():
                lost.append(path.relative_to(folder).as_posix())
    if lost:
        _log.warning("%s: %d links lead nowhere, such as %s.", folder, len(lost), ascii(lost[0]))
