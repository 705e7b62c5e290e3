"""What may be told elsewhere of this machine: names of files without their folders, texts without folders and keys."""

from __future__ import annotations

import html
import os
import re
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path, PureWindowsPath
from typing import Any
from urllib.parse import unquote

from biaslab.ground import adapters, secrets

_PACKAGE = str(Path(__file__).resolve().parents[2])
# A path at the front of a text, behind words such as "fairface:" or "plugin:mine:". No URL is one: two slashes follow
# its scheme.
_PATH = re.compile(r"((?:[A-Za-z][\w.-]+:)*)(?:file://)?((?:~|/(?!/)).*|[A-Za-z]:[\\/].*)", re.DOTALL)
# Folders of other people's machines that tell of a user or a project, where a name follows.
_ROOTS = ("home", "Users", "mnt", "media", "srv", "data", "scratch", "nfs", "Volumes")
# They tell of none where they are the working folder or the package's, either.
_SYSTEM, _INSTALLED = {"/usr", "/opt", "/tmp", "/var"}, ("/usr/", "/opt/")


def named(text: str) -> str:
    """Return a name without folders: ``a.csv`` for ``/data/me/a.csv``, ``fairface:f`` for ``fairface:/data/f``.

    Names that are no absolute path, such as ``owner/name`` and URLs, stay as they are; of a model with LoRAs on it,
    each name is one.
    """
    model = adapters.split(text)
    return str(model.mapped(_named)) if model.adapters or model.none else "+".join(map(_named, _several(text)))


def _named(text: str) -> str:
    found = _PATH.fullmatch(text)
    if not found:
        return text
    path = found[2]
    name = PureWindowsPath(path).name if path[1:2] == ":" else path.rstrip("/").rpartition("/")[2]
    return found[1] + name if name not in ("", "~") else text


def _several(text: str) -> list[str]:
    """Return the names that one text lists, as some settings do: ``grounding:/w/a+/w/b``."""
    model = adapters.split(text)
    return list(model.names) if model.adapters else re.split(r"\+(?=[/~])", text)


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


# -- folders of this machine -----------------------------------------------------------------------------


def telling(*more: str | Path) -> tuple[str, ...]:
    """Return the folders of this machine that tell of its user or project, and ``more``, each in all its forms."""
    here = {folder for folder in (os.getcwd(), _PACKAGE) if not folder.startswith(_INSTALLED)}
    return _forms({*here, *map(str, more)} - _SYSTEM - {tempfile.gettempdir()})


def folders(values: Any, *more: str | Path) -> tuple[str, ...]:
    """Return the folders of this machine that are nobody's business: ``more``, and those of paths among ``values``."""
    found = {*telling(*more), tempfile.gettempdir(), sys.prefix, sys.base_prefix, os.getcwd(), _PACKAGE}
    found |= {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}
    for text in (one for whole in _texts(values) for one in _several(whole)):
        if path := _PATH.fullmatch(text):
            found |= {os.path.dirname(path[2]), os.path.dirname(os.path.expanduser(path[2]))}
    return _forms(found)


def _forms(folders: Iterable[str]) -> tuple[str, ...]:
    found = {folder.rstrip("/") for folder in folders}
    found |= {os.path.realpath(folder) for folder in found if folder.startswith("/")}
    # IPython writes the home folder as a tilde.
    home = str(Path.home())
    found |= {"~" + folder.removeprefix(home) for folder in found if folder.startswith(home + "/")}
    # Of what lies in these the last name alone is told.
    return tuple(sorted(found - {"", "/", "~", home, *(f"/{root}" for root in _ROOTS)}))


def without(folders: Iterable[str], values: Any = None) -> Callable[[Any], Any]:
    """Return a function that takes folders and keys out of all texts in a value made of mappings and lists.

    What lies in a folder keeps its path from there; the folder itself keeps its name. Of other paths that tell of a
    user or a project (``/home/NAME``, ``/srv/NAME``, ``C:\\Users\\NAME``) the last name stays, and ``~`` of a home
    folder. Keys of the environment (:func:`biaslab.ground.secrets.held`) and secrets in URLs become ``[key]``. Keys of
    mappings that become alike are numbered.
    """
    pattern, held = _pattern(tuple(folders), str(Path.home())), secrets.held(values)

    def short(match: re.Match) -> str:
        if _of_url(match):
            return match[0]
        if not match["own"]:
            return _last(match["home"] or match["path"])
        return "" if match["within"] else os.path.basename(unquote(html.unescape(match["own"])))

    def clean(value: Any) -> Any:
        if isinstance(value, str):
            return secrets.without_in_urls(secrets.without(pattern.sub(short, value), held))
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


def named_in(text: str, folders: Iterable[str], *, elsewhere: bool = True) -> str:
    """Return the first folder that a text names, of ``folders`` or the home folder; empty where it names none.

    With ``elsewhere`` also one that :func:`without` takes to tell of a user or a project.
    """
    for match in _pattern(tuple(folders), str(Path.home())).finditer(text):
        if match["own"] or match["home"] or (elsewhere and not _of_url(match)):
            return match["own"] or match["home"] or match["path"]
    return ""


def _last(path: str) -> str:
    """Return the last name of a path, and a tilde for somebody's own folder."""
    _, *parts = re.split(rf"{_SLASH}|{_BACK}", unquote(html.unescape(path)))
    own = parts == ["root"] or (len(parts) == 2 and parts[0].lower() in ("home", "users"))
    return "~" if own or "/".join(["", *parts]) == str(Path.home()) else parts[-1]


def _of_url(match: re.Match) -> bool:
    """Return whether what looks like a folder of another machine is part of a URL."""
    before = match.string[max(0, match.start() - 2000) : match.start()]
    return match["path"] is not None and bool(re.search(r"https?://[^\s\"'<>,;|]*$", before, re.IGNORECASE))


_SLASH, _BACK = map(secrets.spelled, "/\\")
# What stands before is no path and no letter of an image, but may be escaped or the colour of a terminal.
_START = (
    r"(?:(?<![A-Za-z0-9_./+~%-])|(?<=\\[nrt])|(?<=%2[0-9A-Ca-c])|(?<=%3[A-Fa-f])|(?<=%[57][BbDd])"
    r"|(?<=\[\dm)|(?<=\d\dm))"
)
# A name in a path, without what would end it in a sentence, a table, a page or a URL.
_NAME = r"(?:[^\s/\\\"'`<>()\[\]{},;:&%|?=]|&amp;(?=\w)|%(?!(?:25)*2[Ff])[0-9A-Fa-f]{2})+"


@lru_cache
def _pattern(folders: tuple[str, ...], home: str) -> re.Pattern:
    """Return what finds folders, as ``own``; paths in the home folder, as ``home``; and others', as ``path``."""
    between, end, home = f"(?:{_SLASH}|{_BACK})", r"(?![\w-]|\.\w)", home.rstrip("/")
    first: dict[str, list[str]] = {}
    for folder in sorted({folder.rstrip("/") for folder in folders}, key=len, reverse=True):
        # What the home folder lies in is told of no path in that.
        above = f"(?!{_spelled(home.removeprefix(folder))}{end})" if home.startswith(f"{folder}/") else ""
        first.setdefault(folder[0], []).append(_spelled(folder[1:]) + above)
    own = "|".join(f"{secrets.spelled(c)}(?:{'|'.join(rest)})" for c, rest in first.items()) or "(?!)"
    home, roots = _spelled(home) or "(?!)", "|".join(map(_spelled, _ROOTS))
    path = [
        rf"{_SLASH}(?:{roots})(?:{_SLASH}{_NAME})+",
        rf"{_SLASH}{_spelled('root')}{end}(?:{_SLASH}{_NAME})*",
        rf"~(?:{_SLASH}{_NAME})+",
        rf"[A-Za-z]:{between}(?i:{_spelled('users')})(?:{between}{_NAME})+",
    ]
    found = [
        rf"(?P<own>{own})(?P<within>{between}(?=[^\s/\\])|{end})",
        rf"(?P<home>{_quoted(home + between)}|{home}{end}(?:{between}{_NAME})*)(?<!\.)",
        rf"(?P<path>{_quoted(f'{_SLASH}(?:{roots}){_SLASH}')}|{'|'.join(path)})(?<!\.)",
    ]
    return re.compile(rf"{_START}(?:file{secrets.spelled(':')}{_SLASH}{_SLASH})?(?:{'|'.join(found)})")


def _quoted(start: str) -> str:
    """Return a pattern of a path in quotation marks, whose names may hold anything else."""
    return "|".join(rf"(?<={mark}){start}[^{mark}<>\n]+(?={mark})" for mark in "'\"")


def _spelled(text: str) -> str:
    return "".join(map(secrets.spelled, text))


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from (*_texts(key), *_texts(inner))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
