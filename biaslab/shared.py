"""Names of files for whoever reads results elsewhere: without the folders of the machine that made them."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

# A path at the front of a text, behind a word such as "fairface:" or "hf:"; what follows is its last part.
_WHERE = re.compile(r"((?:[a-z]+:)?)(?:~|/(?!/))(?:[^/]*/)*([^/]+)/*")


def named(text: str) -> str:
    """Return a name without folders: ``a.csv`` for ``/data/me/a.csv``, ``fairface:f`` for ``fairface:/data/f``.

    Names that are no absolute path, such as ``owner/name``, stay as they are.
    """
    found = _WHERE.fullmatch(text)
    return found[1] + found[2] if found else text


def called(names: Iterable[str]) -> dict[str, str]:
    """Return what to call each of several files: its name, with as many folders as tell it from the others."""
    names = list(dict.fromkeys(names))
    short = {name: named(name) for name in names}
    for n in range(2, 100):
        alike = [name for name in names if list(short.values()).count(short[name]) > 1]
        if not alike:
            break
        for name in alike:
            word = named(name).removesuffix(Path(name).name)
            short[name] = word + "/".join(Path(name.removeprefix(word)).parts[-n:]).lstrip("/")
    return short


def folders(values: Any, *more: str | Path) -> tuple[str, ...]:
    """Return the folders of this machine that are nobody's business: ``more``, and those of paths among ``values``."""
    found = {str(Path.home()), tempfile.gettempdir(), sys.prefix, sys.base_prefix, os.getcwd()}
    found |= {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}
    found |= {str(Path(__file__).resolve().parents[1]), *map(str, more)}
    for text in _texts(values):
        path = text.split(":", 1)[1] if re.match(r"[a-z]+:[/~]", text) else text
        if path.startswith(("/", "~")):
            found |= {os.path.dirname(path), os.path.dirname(os.path.expanduser(path))}
    found |= {os.path.realpath(folder) for folder in found if folder.startswith("/")}
    # IPython writes the home folder as a tilde.
    home = str(Path.home())
    found |= {"~" + folder.removeprefix(home) for folder in found if folder.startswith(home + "/")}
    return tuple(sorted(found - {"", "/", "~"}))


def without(folders: Iterable[str]) -> Callable[[Any], Any]:
    """Return a function that takes folders out of all texts in a value made of mappings and lists.

    What lies in a folder keeps its path from there; the folder itself keeps its name. Keys that become alike are
    numbered.
    """
    longest = sorted({folder.rstrip("/") for folder in folders}, key=len, reverse=True)
    either = "|".join(map(re.escape, longest))
    # Not within another path, nor in an image's letters; a colour of a terminal may stand before it.
    pattern = re.compile(
        rf"(?:(?<![\w./+~-])|(?<=\[\dm)|(?<=\d\dm))(?:file://)?({either})(/(?=[^\s/])|(?![\w-]|\.\w))"
    )

    def short(text: str) -> str:
        return pattern.sub(lambda m: "" if m[2] else os.path.basename(m[1]), text)

    def clean(value: Any) -> Any:
        if isinstance(value, str):
            return short(value)
        if isinstance(value, list | tuple):
            return [clean(v) for v in value]
        if not isinstance(value, dict):
            return value
        found: dict = {}
        for key, inner in value.items():
            name, n = clean(key), 2
            while name in found:
                name, n = f"{clean(key)} ({n})", n + 1
            found[name] = inner if str(key).startswith("image/") else clean(inner)
        return found

    return clean


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from (*_texts(key), *_texts(inner))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
