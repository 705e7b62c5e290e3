"""Removal of keys and of folders of this machine from output by replacing known texts."""

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
"""Replacement of a key."""
# Shorter values of environment variables, such as EMPTY, are words.
_SHORTEST_KEY = 8
# Environment variables that usually contain a key.
_VARIABLE = re.compile(r"(?i)(?:.*_)?(?:(?:API_?)?KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE)")
# A user before the host of a URL, and names of values in its path, query or fragment: ``name=value``, and in the path
# ``/name/value`` if the value has the length and the digits of a key.
_USER = re.compile(r"(?:[^/?#]*//)?[^/?#]*@")
_URL_NAME = re.compile(r"[/?&;#]([^/?&;#=]+)(?:=[^&;#]|/(?=[^/?&;#]*\d)[\w.~-]{16,}(?![^/?&;#]))")
# Prefixes of keys that services issue.
_ISSUED = re.compile(r"[/=](?:sk|pk|hf|ghp|xox[bp])[-_]\w[\w-]{15,}")
# Parts of names of secrets, and words that are names of secrets.
_IN_NAME = re.compile(r"(?i)key(?!word|board)|token|secret|passw|signature|credential|session")
_WORDS = {"auth", "authorization", "code", "cred", "creds", "pass", "pwd", "sas", "sid", "sig"}
_PACKAGE = str(Path(__file__).resolve().parents[1])
# A path at the start of a text, after words such as "fairface:" or "plugin:mine:". URLs do not match, because two
# slashes follow their scheme.
_PATH = re.compile(r"((?:[A-Za-z][\w.-]+:)*)(?:file://)?((?:~|/(?!/)).*|[A-Za-z]:[\\/].*)", re.DOTALL)


def basename(text: str) -> str:
    """Return a name without folders: ``a.csv`` for ``/data/me/a.csv``, ``fairface:f`` for ``fairface:/data/f``.

    Names that are not absolute paths, such as ``owner/name`` and URLs, are unchanged. In the name of a model with
    LoRAs, each part is treated as a name.
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
    """Return the names in a text that lists several, as some settings do: ``grounding:/w/a+/w/b``."""
    model = model_names.split(text)
    return list(model.names) if model.adapters else re.split(r"\+(?=[/~])", text)


def unique_names(names: Iterable[str]) -> dict[str, str]:
    """Return a unique name for each of several files: its file name, with parent folders where needed."""
    names = list(dict.fromkeys(names))
    short_names = {name: basename(name) for name in names}
    for n in range(2, 100):
        duplicates = [name for name in names if list(short_names.values()).count(short_names[name]) > 1]
        if not duplicates:
            break
        for name in duplicates:
            word = basename(name).removesuffix(Path(name).name)
            short_names[name] = word + "/".join(Path(name.removeprefix(word)).parts[-n:]).lstrip("/")
    return short_names


def find_keys(values: Any = None) -> dict[str, str]:
    """Return the keys in environment variables, with the variables' names.

    The variables are those with names like ``HF_TOKEN``, and those that settings among ``values`` name
    (``endpoint.api_key_env``). Values of fewer than 8 characters are not keys.
    """
    in_settings = {text for name, text in _texts(values) if name.endswith("api_key_env")}
    variables = [name for name in os.environ if name in in_settings or _VARIABLE.fullmatch(name)]
    names_by_key = {os.environ[name].strip(): name for name in variables}
    return {key: name for key, name in names_by_key.items() if len(key) >= _SHORTEST_KEY}


def secret_in_url(url: str) -> str:
    """Return a description of a possible secret in a URL (a user, password or key), or an empty string."""
    url = unquote(url)
    if _USER.match(url):
        return "a user name or password"
    if _ISSUED.search(url):
        return "a text that looks like a key"
    for name in _URL_NAME.findall(url):
        if _IN_NAME.search(name) or _WORDS & set(re.split(r"[^a-z]+", name.lower())):
            return "a text that looks like a key"
    return ""


def find_folders(values: Any = None, *extra_folders: str | Path) -> dict[str, str]:
    """Return texts that name folders of this machine, with their replacements.

    The folders are the working folder, those of the package, of its environment and of temporary files,
    ``extra_folders``, and those of the absolute paths among ``values``. A path in them becomes relative to them, and
    one in the home folder begins with ``~``. A top-level folder, such as ``/data``, identifies no user and is
    unchanged.
    """
    home, replaced = str(Path.home()), dict[str, str]()
    roots = [os.getcwd(), _PACKAGE, sys.prefix, tempfile.gettempdir(), *map(str, extra_folders), *_path_folders(values)]
    for root in {root.rstrip(os.sep) for root in (*roots, *map(os.path.realpath, roots)) if _is_deep(root)}:
        # IPython abbreviates the home folder.
        short = "~" + root.removeprefix(home) if root.startswith(home + os.sep) else root
        for form in (root, short):
            replaced |= {form + os.sep: "", form: os.path.basename(root)}
    for root in {home, os.path.realpath(home)} - {os.sep}:
        replaced |= {root + os.sep: "~/"} | ({root: "~"} if _is_deep(root) else {})
    return replaced


def _path_folders(values: Any) -> Iterator[str]:
    """Yield the folders of the absolute paths among values, or the path itself in a folder such as ``/data``."""
    for path in (_PATH.fullmatch(name) for _, text in _texts(values) for name in _split_names(text)):
        if path:
            # A pattern of file names ends the path.
            file = re.split(r"[*?\[]", os.path.expanduser(path[2]))[0]
            folder = os.path.dirname(file.rstrip("/"))
            yield folder if _is_deep(folder) else file


def _is_deep(folder: str) -> bool:
    return len(Path(folder).parts) > 2


def sensitive_texts(values: Any = None, *extra_folders: str | Path) -> dict[str, str]:
    """Return the texts of :func:`find_keys` and :func:`find_folders`, with their replacements."""
    replaced = find_folders(values, *extra_folders) | dict.fromkeys(find_keys(values), KEY)
    return dict(sorted(replaced.items(), key=lambda item: len(item[0]), reverse=True))


def redact(value: Any, texts: Mapping[str, str]) -> Any:
    """Return a value of mappings, lists and texts with ``texts`` replaced in order; encoded images are unchanged."""
    if isinstance(value, str):
        for text, replacement in texts.items():
            value = value.replace(text, replacement)
        return value
    if isinstance(value, list | tuple):
        return [redact(item, texts) for item in value]
    if not isinstance(value, dict):
        return value
    redacted: dict = {}
    for key, entry in value.items():
        name = redact(key, texts)
        while name in redacted:
            # Two files of one name in different folders.
            name = f"{name} (again)"
        redacted[name] = entry if str(key).startswith("image/") else redact(entry, texts)
    return redacted


def _texts(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts in a value, including keys of mappings, each with the name of its entry."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield "", str(key)
            yield from _texts(item, str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item, name)
