"""One rule for what in a folder is its user's."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from biaslab.errors import InputError
from biaslab.io.places import LINKS_VARIABLE

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


class Files(dict[str, Path]):
    """The files of a folder by their paths below it; ``links_out`` names links that lead out of it, which are left out.

    What they lead to would be judged, shown and exported, though whoever made the folder never had it.
    """

    links_out: tuple[str, ...] = ()


def files(folder: Path, endings: Sequence[str], *, deep: bool = True) -> Files:
    """Return the files of a folder that end in one of ``endings``, by their paths below it with forward slashes.

    Sorted by these. ``deep`` is whether folders in it count. Links to what is in the folder are followed, each folder
    once. Links that lead out of it are left out, unless the environment variable ``BIASLAB_FOLLOW_LINKS`` is ``1``. A
    warning names these, and links that lead nowhere. What systems leave there does not count: hidden files,
    ``__MACOSX``, ``Thumbs.db``, ``~$…``.

    Raises InputError: A name is not UTF-8 or holds the end of a line, so that no table can name the file; or a folder
    in it cannot be read.
    """
    paths, links_out = _walk(folder, tuple(endings), deep)
    by_name = {}
    for path in paths:
        name = path.relative_to(folder).as_posix()
        if _NO_LINE.search(name):
            raise InputError(f"{folder} holds {os.fsencode(name)!r}, which no table can name; rename it.")
        by_name[name] = path
    result = Files(sorted(by_name.items()))
    result.links_out = tuple(sorted(links_out))
    if links_out:
        _log.warning("%s: %s", folder, describe_links(result.links_out))
    return result


def describe_links(links: Sequence[str]) -> str:
    """Return a sentence on links that lead out of a folder."""
    return (
        f"{len(links):,} links that lead out of the folder are left out, such as {links[0]!a}. Put copies in their "
        f"place (cp -rL), or set the environment variable {LINKS_VARIABLE}=1 to follow them."
    )


def linked_folders(folder: Path) -> list[Path]:
    """Return the folders that links in a folder may lead to: itself, and of a snapshot of the hub's cache its blobs."""
    root = folder.resolve()
    return [root, root.parents[1] / "blobs"] if root.parent.name == "snapshots" else [root]


def without_notes(paths: Iterable[str]) -> list[str]:
    """Return paths but for those of texts about the others, such as LICENSE and README."""
    return [path for path in paths if re.split("[^a-z]", Path(path).name.lower())[0] not in _NOTES]


def is_system_file(name: str) -> bool:
    """Return whether a file or folder of this name is a system's, and not its user's."""
    return name.startswith((".", "~$")) or name.lower() in _LEFT_BEHIND


def _walk(folder: Path, endings: tuple[str, ...], deep: bool) -> tuple[list[Path], list[str]]:
    """Return the paths of files, and the names of links that lead out of the folder and are not followed."""

    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename} cannot be read: {error.strerror}.")

    def is_outside(path: Path) -> bool:
        return path.is_symlink() and not any(Path(os.path.realpath(path)).is_relative_to(root) for root in roots)

    roots = [Path("/")] if os.environ.get(LINKS_VARIABLE) == "1" else linked_folders(folder)
    seen, lost, paths, links_out = set(), [], [], []
    for at, folders, names in os.walk(folder, followlinks=True, onerror=refuse):
        real = os.path.realpath(at)
        inner = [Path(at, name) for name in folders if deep and real not in seen and not is_system_file(name)]
        folders[:] = sorted(path.name for path in inner if not is_outside(path))
        links_out += [path.relative_to(folder).as_posix() for path in inner if path.name not in folders]
        if real in seen:
            continue
        seen.add(real)
        for path in (Path(at, name) for name in names if not is_system_file(name)):
            named = path.name.lower().endswith(endings)
            # A pipe or a device is none, and waits for ever.
            if path.is_file() and named:
                if is_outside(path):
                    links_out.append(path.relative_to(folder).as_posix())
                else:
                    paths.append(path)
            elif path.is_symlink() and not path.is_file():
                lost.append(path.relative_to(folder).as_posix())
    if lost:
        _log.warning("%s: %d links lead nowhere, such as %s.", folder, len(lost), ascii(lost[0]))
    return paths, links_out
