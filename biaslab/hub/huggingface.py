"""The Hugging Face hub: names of models, their commits, and the hub's information about a model."""

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
# Prefix of models' folders in the hub's cache.
_CACHE_PREFIX = "models--"
_COMMIT = re.compile(r"[0-9a-f]{40}")
# Timeout of requests for a model's information, waits before retries after too many requests (both in seconds), and the
# status of too many requests.
_TIMEOUT, _WAITS, _TOO_MANY_REQUESTS = 10, (1, 4), 429
# Seconds without requests after a failure of the hub; time and error of the last failure, by the hub's address.
_RETRY_AFTER = 60
_failures: dict[str, tuple[float, Exception]] = {}


def file_on_hub(name: str) -> str:
    """Return the file in ``owner/name/FILE.safetensors@revision``; empty for all other names."""
    match = _HUB_FILE.fullmatch(name)
    return match[2] if match and ".." not in match[2].split("/") else ""


def is_on_hub(name: str) -> bool:
    """Return whether a name has the form of a repository on the hub, or of a file in one."""
    return bool(_HUB_NAME.fullmatch(name) or file_on_hub(name))


def split_name(name: str) -> tuple[str, str | None]:
    """Return repository and revision (None: ``main``) of ``owner/name@revision``, or of a file in it."""
    repository, _, revision = name.partition("@")
    return "/".join(repository.split("/")[:2]), revision or None


COMMITS = "BIASLAB_COMMITS"
"""Environment variable with the commits of a run (JSON), so that a name is the same commit in all its notebooks."""
# Names on the hub -> their commits, if requested in this process.
_commits: dict[str, str] = json.loads(os.environ.get(COMMITS, "{}"))


def commit(name: str) -> str:
    """Return the commit of a model on the hub, 40 hex digits; it is requested once per process.

    If the hub does not answer, it is the commit of the cached copy on this machine; empty without one.
    """
    repository, revision = split_name(name)
    if revision and _COMMIT.fullmatch(revision):
        return revision
    # All files of a repository have one commit.
    key = f"{repository}@{revision}" if revision else repository
    if key and key not in _commits:
        try:
            fetch_info(name)
        # Many kinds of errors; a look-up of the model reports them.
        except Exception:
            cached_commit = cache_folder(repository) / "refs" / (revision or "main")
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
    if name not in _commits and (commit_id := commit(repository_of_tag(name))):
        _commits[name] = commit_id
    return f"{name}@{_commits[name]}" if name in _commits else name


def fetch_info(name: str):
    """Return the hub's information about a model: its commit, and its files with their sizes.

    Raises the errors of the hub's client; after a failure, the hub is not requested again for a while.
    """
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import HfHubHTTPError

    failed_at, failure = _failures.get(constants.ENDPOINT, (-_RETRY_AFTER, None))
    if failure is not None and time.monotonic() - failed_at < _RETRY_AFTER:
        raise failure
    repository, revision = split_name(name)
    key = f"{repository}@{revision}" if revision else repository
    for wait in (*_WAITS, None):
        try:
            options = {"timeout": _TIMEOUT, "files_metadata": True}
            info = HfApi().model_info(repository, revision=_commits.get(key, revision), **options)
            if info.sha and not _COMMIT.fullmatch(revision or ""):
                _commits[key] = info.sha
            return info
        except HfHubHTTPError as error:
            if wait is None or error.response is None or error.response.status_code != _TOO_MANY_REQUESTS:
                raise
        # The client's error types change between versions; a ValueError is an invalid name.
        except Exception as error:
            if not isinstance(error, ValueError):
                _failures[constants.ENDPOINT] = time.monotonic(), error
            raise
        time.sleep(wait)
    raise AssertionError


def cache_folder(repository: str) -> Path:
    """Return the folder of a repository in the hub's cache on this machine, whether or not it exists."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE, f"{_CACHE_PREFIX}{repository.replace('/', '--')}")


def commits() -> dict[str, str]:
    """Return the commits that this process has requested, by name."""
    return dict(sorted(_commits.items()))


def folder_name(path: str | Path) -> str:
    """Return the name in tables of a model in a folder: the folder's name; in the hub's cache, the model's name."""
    folder = Path(os.path.expanduser(path)).absolute()
    if folder.parent.name == "snapshots" and folder.parents[1].name.startswith(_CACHE_PREFIX):
        owner, _, name = folder.parents[1].name.removeprefix(_CACHE_PREFIX).partition("--")
        return f"{owner}/{name}@{folder.name[:8]}"
    return folder.name
