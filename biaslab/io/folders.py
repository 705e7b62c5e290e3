"""One rule for what in a folder is its user's."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from biaslab.errors import InputError
from biaslab.io.places import LINKS_VARIABLE

_log = logging.getLogger(__name__)

# What systems and programs put next to files; all that begins with a dot is theirs, too.
_LEFT_BEHIND = frozenset((
    "__macosx", "thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r", "$recycle.bin", "system volume information",
    "lost+found", "@eadir", "__pycache__",
))  # fmt: skip
# What texts that come with data, and are none of them, begin with.
_NOTES = frozenset(("license", "licence", "readme", "notice", "copying", "citation", "changelog"))
# What no line of text can hold: its end, and bytes that are not UTF-8.
_NO_LINE = re.compile("[\\0-\\x1f\\x7f\\x85\\u2028\\u2029\\ud800-\\udfff]")


class Files(dict[str, Path]):
    """The files of a folder by their paths below it, and the links that lead out of it, which are left out."""

    links_out: tuple[str, ...] = ()

    @property
    def remark(self) -> str:
        """A sentence on links that lead out of the folder; empty without one."""
        if not self.links_out:
            return ""
        return (
            f"{len(self.links_out):,} links that lead out of the folder are left out, such as {self.links_out[0]!a}. "
            f"Put copies in their place (cp -rL), or set the environment variable {LINKS_VARIABLE}=1 to follow them."
        )


def files(folder: Path, endings: Sequence[str], *, deep: bool = True) -> Files:
    """Return the files of a folder that end in one of ``endings``, by their paths below it with forward slashes.

    Sorted by these. ``deep`` is whether folders in it count. Links to what is in the folder are followed, each folder
    once; others only where the environment variable ``BIASLAB_FOLLOW_LINKS`` is ``1``, as what they lead to would be
    judged, shown and exported. A warning names these, and links that lead nowhere. What systems leave there does not
    count: hidden files, ``__MACOSX``, ``Thumbs.db``, ``~$…``.

    Raises InputError: A name is not UTF-8 or holds the end of a line, so that no table can name the file; or a folder
    in it cannot be read.
    """
    roots = _followed_folders(folder)
    by_name, links_out = {}, []
    for path in _walked(folder, deep, roots):
        name = path.relative_to(folder).as_posix()
        if _leads_out(path, roots):
            links_out.append(name)
        elif not path.name.lower().endswith(tuple(endings)):
            continue
        elif _NO_LINE.search(name):
            raise InputError(f"{folder} holds {os.fsencode(name)!r}, which no table can name; rename it.")
        else:
            by_name[name] = path
    result = Files(sorted(by_name.items()))
    result.links_out = tuple(sorted(links_out))
    if result.remark:
        _log.warning("%s: %s", folder, result.remark)
    return result


def linked_folders(folder: Path) -> list[Path]:
    """Return the folders that links in a folder may lead to: itself, and of a snapshot of the hub's cache its blobs."""
    root = folder.resolve()
    return [root, root.parents[1] / "blobs"] if root.parent.name == "snapshots" else [root]


def _followed_folders(folder: Path) -> list[Path]:
    return [Path("/")] if os.environ.get(LINKS_VARIABLE) == "1" else linked_folders(folder)


def other_files(folder: Path, endings: Sequence[str]) -> list[str]:
    """Return the paths of a folder's other files, as :func:`files` counts them, sorted; the names may be any."""
    roots = _followed_folders(folder)
    paths = (path for path in _walked(folder, True, roots) if not _leads_out(path, roots))
    others = (path for path in paths if not path.name.lower().endswith(tuple(endings)))
    return sorted(path.relative_to(folder).as_posix() for path in others)


def without_notes(paths: Iterable[str]) -> list[str]:
    """Return paths but for those of texts about the others, such as LICENSE and README."""
    return [path for path in paths if re.split("[^a-z]", Path(path).name.lower())[0] not in _NOTES]


def is_system_file(name: str) -> bool:
    """Return whether a file or folder of this name is a system's, and not its user's."""
    return name.startswith((".", "~$")) or name.lower() in _LEFT_BEHIND


def _leads_out(path: Path, roots: Sequence[Path]) -> bool:
    return path.is_symlink() and not any(Path(os.path.realpath(path)).is_relative_to(root) for root in roots)


def _walked(folder: Path, deep: bool, roots: Sequence[Path]) -> Iterator[Path]:
    """Yield files, and links to files and folders outside of ``roots``."""

    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename} cannot be read: {error.strerror}.")

    seen, lost = set(), []
    for at, folders, names in os.walk(folder, followlinks=True, onerror=refuse):
        real = os.path.realpath(at)
        own = [name for name in folders if deep and real not in seen and not is_system_file(name)]
        outside = [name for name in own if _leads_out(Path(at, name), roots)]
        folders[:] = sorted(set(own) - set(outside))
        if real in seen:
            continue
        seen.add(real)
        yield from (Path(at, name) for name in outside)
        for path in (Path(at, name) for name in names if not is_system_file(name)):
            # A pipe or a device is none, and waits for ever.
            if path.is_file():
                yield path
            elif path.is_symlink():
                lost.append(path.relative_to(folder).as_posix())
    if lost:
        _log.warning("%s: %d links lead nowhere, such as %s.", folder, len(lost), ascii(lost[0]))
