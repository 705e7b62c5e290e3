"""Removal of keys and of folders of this machine from output: known texts are replaced as they are written."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PureWindowsPath
from typing import Any
from urllib.parse import unquote

from biaslab.io import model_names

KEY = "[key]"
"""What replaces a key."""
# Shorter values of environment variables, such as EMPTY, are words.
_SHORTEST_KEY = 8
# Environment variables that usually hold a key.
_VARIABLE = re.compile(r"(?i)(?:.*_)?(?:(?:API_?)?KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE)")
# A user before the host of a URL, and names of values in its path, query or fragment: ``name=value``, and in the path
# ``/name/value`` where the value has the length and the digits of a key.
_USER = re.compile(r"(?:[^/?#]*//)?[^/?#]*@")
_URL_NAME = re.compile(r"[/?&;#]([^/?&;#=]+)(?:=[^&;#]|/(?=[^/?&;#]*\d)[\w.~-]{16,}(?![^/?&;#]))")
# Keys that services issue begin so.
_ISSUED = re.compile(r"[/=](?:sk|pk|hf|ghp|xox[bp])[-_]\w[\w-]{15,}")
# What the names of secrets contain, and words that are names of secrets.
_IN_NAME = re.compile(r"(?i)key(?!word|board)|token|secret|passw|signature|credential|session")
_WORDS = {"auth", "authorization", "code", "cred", "creds", "pass", "pwd", "sas", "sid", "sig"}
_PACKAGE = str(Path(__file__).resolve().parents[1])
# A path at the front of a text, after words such as "fairface:" or "plugin:mine:". No URL is one: two slashes follow
# its scheme.
_PATH = re.compile(r"((?:[A-Za-z][\w.-]+:)*)(?:file://)?((?:~|/(?!/)).*|[A-Za-z]:[\\/].*)", re.DOTALL)


def basename(text: str) -> str:
    """Return a name without folders: ``a.csv`` for ``/data/me/a.csv``, ``fairface:f`` for ``fairface:/data/f``.

    Names that are no absolute path, such as ``owner/name`` and URLs, stay as they are; of a model with LoRAs on it,
    each name is one.
    """
    model = model_names.split(text)
    return (
        str(model.map_names(_basename))
        if model.adapters or model.removes_adapters
        else "+".join(map(_basename, _split_names(text)))
    )


def _basename(text: str) -> str:
    match = _PATH.fullmatch(text)
    if not match:
        return text
    path = match[2]
    name = PureWindowsPath(path).name if path[1:2] == ":" else path.rstrip("/").rpartition("/")[2]
    return match[1] + name if name not in ("", "~") else text


def _split_names(text: str) -> list[str]:
    """Return the names that one text lists, as some settings do: ``grounding:/w/a+/w/b``."""
    model = model_names.split(text)
    return list(model.names) if model.adapters else re.split(r"\+(?=[/~])", text)


def unique_names(names: Iterable[str]) -> dict[str, str]:
    """Return what to call each of several files: its name, with as many folders as make it unique."""
    names = list(dict.fromkeys(names))
    short = {name: basename(name) for name in names}
    for n in range(2, 100):
        alike = [name for name in names if list(short.values()).count(short[name]) > 1]
        if not alike:
            break
        for name in alike:
            word = basename(name).removesuffix(Path(name).name)
            short[name] = word + "/".join(Path(name.removeprefix(word)).parts[-n:]).lstrip("/")
    return short


def find_keys(values: Any = None) -> dict[str, str]:
    """Return the keys that environment variables hold, with the variables' names.

    They are variables named like ``HF_TOKEN``, and those that settings among ``values`` name
    (``endpoint.api_key_env``). Values of fewer than 8 characters are not keys.
    """
    in_settings = {text for name, text in _texts(values) if name.endswith("api_key_env")}
    variables = [name for name in os.environ if name in in_settings or _VARIABLE.fullmatch(name)]
    names_by_key = {os.environ[name].strip(): name for name in variables}
    return {key: name for key, name in names_by_key.items() if len(key) >= _SHORTEST_KEY}


def secret_in_url(url: str) -> str:
    """Return what in a URL looks like a secret: a user or password, or a value with the name of a key; else empty."""
    url = unquote(url)
    if _USER.match(url):
        return "a user or a password"
    if _ISSUED.search(url):
        return "what looks like a key"
    for name in _URL_NAME.findall(url):
        if _IN_NAME.search(name) or _WORDS & set(re.split(r"[^a-z]+", name.lower())):
            return "what looks like a key"
    return ""


def find_folders(values: Any = None, *more: str | Path) -> dict[str, str]:
    """Return texts that name folders of this machine, and what replaces each.

    The folders are the working folder, those of the package, of its environment and of temporary files, ``more``, and
    those that hold the absolute paths among ``values``. A path in them becomes relative to them, and one in the home
    folder begins with ``~``. A folder right below the root, such as ``/data``, identifies no user and stays.
    """
    home, replaced = str(Path.home()), dict[str, str]()
    roots = [os.getcwd(), _PACKAGE, sys.prefix, tempfile.gettempdir(), *map(str, more), *_path_folders(values)]
    for root in {root.rstrip(os.sep) for root in (*roots, *map(os.path.realpath, roots)) if _is_deep(root)}:
        # IPython abbreviates the home folder.
        short = "~" + root.removeprefix(home) if root.startswith(home + os.sep) else root
        for form in (root, short):
            replaced |= {form + os.sep: "", form: os.path.basename(root)}
    for root in {home, os.path.realpath(home)} - {os.sep}:
        replaced |= {root + os.sep: "~/"} | ({root: "~"} if _is_deep(root) else {})
    return replaced


def _path_folders(values: Any) -> Iterator[str]:
    """Yield the folders of the absolute paths among values; a path right below one such as ``/data`` itself."""
    for path in (_PATH.fullmatch(name) for _, text in _texts(values) for name in _split_names(text)):
        if path:
            # A pattern of file names ends it.
            file = re.split(r"[*?\[]", os.path.expanduser(path[2]))[0]
            folder = os.path.dirname(file.rstrip("/"))
            yield folder if _is_deep(folder) else file


def _is_deep(folder: str) -> bool:
    return len(Path(folder).parts) > 2


def sensitive_texts(values: Any = None, *more: str | Path) -> dict[str, str]:
    """Return the texts of :func:`find_keys` and :func:`find_folders`, which are removed, and replacements."""
    replaced = find_folders(values, *more) | dict.fromkeys(find_keys(values), KEY)
    return dict(sorted(replaced.items(), key=lambda item: len(item[0]), reverse=True))


def redact(value: Any, texts: Mapping[str, str]) -> Any:
    """Return a value made of mappings, lists and texts with ``texts`` replaced in order; encoded images stay."""
    if isinstance(value, str):
        for text, instead in texts.items():
            value = value.replace(text, instead)
        return value
    if isinstance(value, list | tuple):
        return [redact(one, texts) for one in value]
    if not isinstance(value, dict):
        return value
    clean: dict = {}
    for key, inner in value.items():
        name = redact(key, texts)
        while name in clean:
            # Two files of one name in different folders.
            name = f"{name} (again)"
        clean[name] = inner if str(key).startswith("image/") else redact(inner, texts)
    return clean


def _texts(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts in a value, those of its mappings' names too, each with the name of its entry."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield "", str(key)
            yield from _texts(inner, str(key))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner, name)
