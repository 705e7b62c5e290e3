"""A local hub of models: folders under real names, faults, and a log of requests.

It answers huggingface_hub's client: a model's description, its tree and files at a commit.
"""

import functools
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import loopback
import yaml

WEIGHTS = (".safetensors", ".bin", ".ckpt", ".pt", ".pth", ".msgpack", ".h5", ".onnx")
GATED, PRIVATE = "gated", "private"


def digest(file: Path) -> str:
    """Return the SHA-256 digest of a file."""
    state = file.stat()
    return _digest(file, state.st_size, state.st_mtime_ns)


@functools.cache
def _digest(file: Path, *_: int) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


class Request(NamedTuple):
    """A request and its answer."""

    method: str
    path: str
    status: int
    sent: int
    """Bytes of the body."""


@dataclass
class Repository:
    """A model on the hub; ``main`` is the last of its commits, older ones are served by their names."""

    commits: dict[str, dict[str, Path]] = field(default_factory=dict)
    """Files by commit, each by its path in the repository."""
    closed: str = ""
    """Its files are ``gated``, or the repository is ``private`` and hidden."""
    refusals: int = 0
    """How many of the next requests are refused with status 429."""

    @property
    def commit(self) -> str:
        return list(self.commits)[-1]


class Hub(loopback.Server):
    """A server of repositories by name."""

    protocol = "HTTP/1.1"

    def __init__(self):
        super().__init__()
        self.repositories: dict[str, Repository] = {}
        self.log: list[Request] = []

    def serve(self, name: str, folder: Path, keep=lambda path: True) -> Repository:
        """Serve a folder's files, those for which ``keep(path)``, as a repository's newest commit."""
        result = {p.relative_to(folder).as_posix(): p for p in sorted(folder.rglob("*")) if p.is_file()}
        files = {path: file for path, file in result.items() if keep(path)}
        content = json.dumps([(path, digest(file)) for path, file in files.items()])
        commit = hashlib.sha1(content.encode()).hexdigest()
        repository = self.repositories.setdefault(name, Repository())
        repository.commits.pop(commit, None)
        repository.commits[commit] = files
        return repository

    def fetched(self, *endings: str, of: str = "") -> int:
        """Return the bytes sent of whole files with these endings (default: weights), without headers."""
        begin = f"/{of}/resolve/" if of else "/"
        complete = (r for r in self.log if r.method == "GET" and r.status == 200)
        return sum(r.sent for r in complete if r.path.startswith(begin) and r.path.endswith(endings or WEIGHTS))

    # -- answers -------------------------------------------------------------------------------------------

    def answer(self, request: loopback.Request, n: int) -> loopback.Reply:
        status, _, body = reply = self._reply_to(request)
        sent = 0 if request.method == "HEAD" else len(body)
        # Before the client can read the reply and the log.
        with self._mutex:
            self.log.append(Request(request.method, urlsplit(request.path).path, status, sent))
        return reply

    def _reply_to(self, request: loopback.Request) -> loopback.Reply:
        parts = unquote(urlsplit(request.path).path).strip("/").split("/")
        is_description = parts[:2] == ["api", "models"]
        if is_description:
            parts = parts[2:]
        name, rest = "/".join(parts[:2]), parts[2:]
        repository = self.repositories.get(name)
        if repository is None or repository.closed == PRIVATE:
            # Without a login, the hub does not state whether a repository exists.
            return _refusal(401, "RepoNotFound", "Repository not found")
        if self._refuses(repository):
            return 429, {"Retry-After": "0"}, b""
        resource, revision, path = [*rest[:2], *["", ""][len(rest[:2]) :], "/".join(rest[2:])]
        commit = repository.commit if revision in ("", "main") else revision
        if commit not in repository.commits:
            return _refusal(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        if is_description:
            return 200, {}, json.dumps(self._description(name, repository, resource, commit, path)).encode()
        if resource == "resolve":
            return self._file(request, repository, commit, path)
        return _refusal(404, "", "Not found")

    def _description(self, name, repository, resource, commit, subpath) -> list | dict:
        files = repository.commits[commit].items()
        if resource == "tree":
            return [
                self._entry(path, file) for path, file in files if path.startswith(f"{subpath}/" if subpath else "")
            ]
        siblings = [{"rfilename": path, "size": file.stat().st_size} for path, file in files]
        gated = "manual" if repository.closed == GATED else False
        description = {"_id": "1", "id": name, "sha": commit, "private": False, "gated": gated, "siblings": siblings}
        if card := repository.commits[commit].get("README.md"):
            description["cardData"] = yaml.safe_load(card.read_text(encoding="utf-8").split("---", 2)[1])
        return description

    def _entry(self, path: str, file: Path) -> dict:
        size, sha256 = file.stat().st_size, digest(file)
        entry = {"type": "file", "oid": sha256[:40], "size": size, "path": path}
        large = {"lfs": {"oid": sha256, "size": size, "pointerSize": 134}} if path.endswith(WEIGHTS) else {}
        return entry | large

    def _file(self, request, repository: Repository, commit: str, path: str) -> loopback.Reply:
        file = repository.commits[commit].get(path)
        if repository.closed == GATED:
            return _refusal(403, "GatedRepo", "Access to this model is restricted.")
        if file is None:
            return _refusal(404, "EntryNotFound", "Entry not found")
        data = file.read_bytes()
        headers = {
            "ETag": f'"{digest(file)}"',
            "X-Repo-Commit": commit,
            "X-Linked-Etag": f'"{digest(file)}"',
            "X-Linked-Size": str(len(data)),
            "Accept-Ranges": "bytes",
        }
        status = 200
        if byte_range := request.headers.get("Range"):
            start, _, end = byte_range.removeprefix("bytes=").partition("-")
            size, data = len(data), data[int(start) : int(end) + 1 if end else None]
            headers["Content-Range"] = f"bytes {start}-{int(start) + len(data) - 1}/{size}"
            status = 206
        return status, headers, data

    def _refuses(self, repository: Repository) -> bool:
        """Count one of the next refusals down; return whether there was one."""
        with self._mutex:
            remaining = repository.refusals
            repository.refusals = max(0, remaining - 1)
        return remaining > 0


def _refusal(status: int, code: str, text: str) -> loopback.Reply:
    return status, {"X-Error-Code": code, "X-Error-Message": text, "X-Request-Id": "test"}, b""
