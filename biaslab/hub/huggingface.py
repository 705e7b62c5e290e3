"""The Hugging Face hub: names of models, the commits that they stand for, and what the hub says of a model."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@[A-Za-z0-9][\w./-]*)?")
# A file of a repository: a checkpoint, or a LoRA.
_HUB_FILE = re.compile(
    r"([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)/([\w.() -][\w.() /-]*\.safetensors)(@[A-Za-z0-9][\w./-]*)?"
)
# How the names of models' folders in the hub's cache begin.
_CACHED = "models--"
_COMMIT = re.compile(r"[0-9a-f]{40}")
# Seconds that the hub may take to describe a model, and after which it is asked again where it has been asked too much.
_PATIENCE, _WAITS, _TOO_MANY = 10, (1, 4), 429
# Seconds for which a hub that did not answer is not asked again; when and how that was, by its address.
_SILENCE = 60
_silent: dict[str, tuple[float, Exception]] = {}


def file_on_hub(name: str) -> str:
    """Return the file that ``owner/name/FILE.safetensors@revision`` names; empty of all other names."""
    found = _HUB_FILE.fullmatch(name)
    return found[2] if found and ".." not in found[2].split("/") else ""


def is_on_hub(name: str) -> bool:
    """Return whether a name has the form of one on the hub, of a repository or of a file in it."""
    return bool(_HUB_NAME.fullmatch(name) or file_on_hub(name))


def on_hub(name: str) -> tuple[str, str | None]:
    """Return repository and revision (None: ``main``) of ``owner/name@revision``, or of a file of one."""
    repository, _, revision = name.partition("@")
    return "/".join(repository.split("/")[:2]), revision or None


COMMITS = "BIASLAB_COMMITS"
"""Environment variable with the commits that a run has found (JSON): a name is one commit in all its notebooks."""
# Names on the hub -> their commits, as far as this process has asked.
_commits: dict[str, str] = json.loads(os.environ.get(COMMITS, "{}"))


def commit(name: str) -> str:
    """Return the commit of a model on the hub, 40 hex digits: asked once in each process.

    Where the hub does not answer, that of the copy in its cache on this machine, if any.
    """
    repository, revision = on_hub(name)
    if revision and _COMMIT.fullmatch(revision):
        return revision
    # All files of a repository have one commit.
    key = f"{repository}@{revision}" if revision else repository
    if key and key not in _commits:
        try:
            described(name)
        # Many kinds of errors; a look-up of the model reports them.
        except Exception:
            cached_commit = cached(repository) / "refs" / (revision or "main")
            if cached_commit.is_file():
                _commits[key] = cached_commit.read_text(encoding="ascii").strip()
    return _commits.get(key, "")


def repository_of_tag(name: str) -> str:
    """Return the repository on the hub of ``ARCHITECTURE:TAG``, if open_clip lists one."""
    try:
        from open_clip.pretrained import get_pretrained_cfg
    except ImportError:
        return ""
    architecture, _, tag = name.partition(":")
    return os.path.split(get_pretrained_cfg(architecture, tag).get("hf_hub") or "")[0]


def digest_of_tag(name: str) -> str:
    """Return open_clip's ``ARCHITECTURE:TAG`` with the commit of its repository, if known."""
    if name not in _commits and (found := commit(repository_of_tag(name))):
        _commits[name] = found
    return f"{name}@{_commits[name]}" if name in _commits else name


def described(name: str):
    """Return what the hub says of a model: its commit, and its files with their sizes.

    Raises what the hub's client raises; a hub that did not answer is not asked again for a while.
    """
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import HfHubHTTPError

    when, silent = _silent.get(constants.ENDPOINT, (-_SILENCE, None))
    if silent is not None and time.monotonic() - when < _SILENCE:
        raise silent
    repository, revision = on_hub(name)
    key = f"{repository}@{revision}" if revision else repository
    for wait in (*_WAITS, None):
        try:
            options = {"timeout": _PATIENCE, "files_metadata": True}
            info = HfApi().model_info(repository, revision=_commits.get(key, revision), **options)
            if info.sha and not _COMMIT.fullmatch(revision or ""):
                _commits[key] = info.sha
            return info
        except HfHubHTTPError as error:
            if wait is None or error.response is None or error.response.status_code != _TOO_MANY:
                raise
        # Libraries change that ask for it, and so do the kinds of what they raise; a name may be none.
        except Exception as error:
            if not isinstance(error, ValueError):
                _silent[constants.ENDPOINT] = time.monotonic(), error
            raise
        time.sleep(wait)
    raise AssertionError


def cached(repository: str) -> Path:
    """Return where a repository would be in the hub's cache on this machine."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE, f"{_CACHED}{repository.replace('/', '--')}")


def commits() -> dict[str, str]:
    """Return the commits that this process has asked for, by names."""
    return dict(sorted(_commits.items()))


def folder_name(path: str | Path) -> str:
    """Return what tables call a model in a folder: its name; in the hub's cache, the model's own."""
    folder = Path(os.path.expanduser(path)).absolute()
    if folder.parent.name == "snapshots" and folder.parents[1].name.startswith(_CACHED):
        owner, _, name = folder.parents[1].name.removeprefix(_CACHED).partition("--")
        return f"{owner}/{name}@{folder.name[:8]}"
    return folder.name
