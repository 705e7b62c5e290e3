"""Files of a folder that belong to its user, without system files and links that lead out of it."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from biaslab.errors import InputError
from biaslab.io.places import LINKS_VARIABLE

_log = logging.getLogger(__name__)

# Files and folders of systems and programs, in addition to those that begin with a dot.
_SYSTEM_FILES = frozenset((
    "__macosx", "thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r", "$recycle.bin", "system volume information",
    "lost+found", "@eadir", "__pycache__",
))  # fmt: skip
# First words of names of text files that describe data.
_NOTES = frozenset(("license", "licence", "readme", "notice", "copying", "citation", "changelog"))
# Characters that cannot occur in a line of text: line ends, and bytes that are not UTF-8.
_NO_LINE = re.compile("[\\0-\\x1f\\x7f\\x85\\u2028\\u2029\\ud800-\\udfff]")


class Files(dict[str, Path]):
    """The files of a folder by relative path, and the links that lead out of it, which are left out."""

    links_out: tuple[str, ...] = ()

    @property
    def remark(self) -> str:
        """A sentence about links that lead out of the folder; empty without such links."""
        if not self.links_out:
            return ""
        return (
            f"Ignored links that lead out of the folder: {len(self.links_out):,}, such as {self.links_out[0]!a}. "
            f"Replace them with copies (cp -rL), or set the environment variable {LINKS_VARIABLE}=1 to follow them."
        )


def files(folder: Path, endings: Sequence[str], *, deep: bool = True) -> Files:
    """Return the files of a folder that end in one of ``endings``, sorted by relative path with forward slashes.

    ``deep`` states whether subfolders are included. Links to targets in the folder are followed, each folder once.
    Other links are followed only if the environment variable ``BIASLAB_FOLLOW_LINKS`` is ``1``, because their targets
    would be judged, shown and exported. A warning names these and broken links. System files are ignored: hidden files,
    ``__MACOSX``, ``Thumbs.db``, ``~$…``.

    Raises InputError: A name is not UTF-8 or contains a line end, so that no table can name the file; or a subfolder
    cannot be read.
    """
    roots = _followed_folders(folder)
    by_name, links_out = {}, []
    for path in _walk(folder, deep, roots):
        name = path.relative_to(folder).as_posix()
        if _leads_out(path, roots):
            links_out.append(name)
        elif not path.name.lower().endswith(tuple(endings)):
            continue
        elif _NO_LINE.search(name):
            raise InputError(
                f"{folder} contains {os.fsencode(name)!r}, a file name that tables cannot contain; rename the file."
            )
        else:
            by_name[name] = path
    result = Files(sorted(by_name.items()))
    result.links_out = tuple(sorted(links_out))
    if result.remark:
        _log.warning("%s: %s", folder, result.remark)
    return result


def linked_folders(folder: Path) -> list[Path]:
    """Return the folders that links in a folder may lead to: itself, and the blobs of a snapshot in the hub's cache."""
    root = folder.resolve()
    return [root, root.parents[1] / "blobs"] if root.parent.name == "snapshots" else [root]


def _followed_folders(folder: Path) -> list[Path]:
    return [Path("/")] if os.environ.get(LINKS_VARIABLE) == "1" else linked_folders(folder)


def other_files(folder: Path, endings: Sequence[str]) -> list[str]:
    """Return the sorted paths of a folder's files that :func:`files` does not return; their names may be invalid."""
    roots = _followed_folders(folder)
    paths = (path for path in _walk(folder, True, roots) if not _leads_out(path, roots))
    other_paths = (path for path in paths if not path.name.lower().endswith(tuple(endings)))
    return sorted(path.relative_to(folder).as_posix() for path in other_paths)


def remove_notes(paths: Iterable[str]) -> list[str]:
    """Return paths except those of texts about the data, such as LICENSE and README."""
    return [path for path in paths if re.split("[^a-z]", Path(path).name.lower())[0] not in _NOTES]


def is_system_file(name: str) -> bool:
    """Return whether a file or folder of this name belongs to the system, and not to the user."""
    return name.startswith((".", "~$")) or name.lower() in _SYSTEM_FILES


def _leads_out(path: Path, roots: Sequence[Path]) -> bool:
    return path.is_symlink() and not any(Path(os.path.realpath(path)).is_relative_to(root) for root in roots)


def _walk(folder: Path, deep: bool, roots: Sequence[Path]) -> Iterator[Path]:
    """Yield files, and links to files and folders outside of ``roots``."""

    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename} cannot be read: {error.strerror}.")

    visited, broken_links = set(), []
    for directory, folders, names in os.walk(folder, followlinks=True, onerror=refuse):
        real = os.path.realpath(directory)
        user_folders = [name for name in folders if deep and real not in visited and not is_system_file(name)]
        outside_links = [name for name in user_folders if _leads_out(Path(directory, name), roots)]
        folders[:] = sorted(set(user_folders) - set(outside_links))
        if real in visited:
            continue
        visited.add(real)
        yield from (Path(directory, name) for name in outside_links)
        for path in (Path(directory, name) for name in names if not is_system_file(name)):
            # Pipes and devices are skipped, because reading them may block forever.
            if path.is_file():
                yield path
            elif path.is_symlink():
                broken_links.append(path.relative_to(folder).as_posix())
    if broken_links:
        _log.warning("%s: broken links: %d, such as %s.", folder, len(broken_links), ascii(broken_links[0]))
