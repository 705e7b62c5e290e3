"""What a model is made of, looked up before a byte of its weights is read or fetched: in a folder, or on the hub.

Only configurations are fetched for that. Where the hub does not answer, what it has left on this machine is looked at.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, BinaryIO

from biaslab.ground import reading
from biaslab.ground.errors import BiaslabError, ParameterError
from biaslab.models import hub, registry, safety

SAFETENSORS = ("*.safetensors",)
# Bytes of the head of a file of safetensors, at most, as its own library has it.
_LONGEST = 100_000_000
# Seconds to wait for it; what answers with a part of a file says so.
_PATIENCE, _PARTIAL = 30, 206


@dataclass(frozen=True)
class Repository:
    """A model's files, in a folder here or on the hub at a commit."""

    name: str  # As it was given.
    kind: str  # A key of :data:`biaslab.models.registry.HUB`.
    files: Mapping[str, int]  # Their sizes in bytes, by their paths.
    folder: Path | None = None  # Where they all are here; None where the hub has them.
    on_hub: str = ""  # Owner and name on the hub; empty of what was never there.
    commit: str = ""

    def matching(self, patterns: Iterable[str], skip: Iterable[str] = ()) -> Iterator[str]:
        """Yield paths of one of some patterns, but for those to ``skip``; ``*`` is any text, with slashes in it."""
        from huggingface_hub.utils import filter_repo_objects

        return filter_repo_objects(self.files, allow_patterns=[*patterns], ignore_patterns=[*skip] or None)

    def json(self, path: str) -> dict[str, Any]:
        """Return the object in a file, which is fetched; ParameterError where it is not to be had, or is none."""
        try:
            said = json.loads(reading.text(self.file(path)))
        except (OSError, ValueError, RecursionError) as error:
            raise ParameterError(f"{self.name}: {path} cannot be read: {error}.") from None
        if not isinstance(said, dict):
            raise ParameterError(f"{self.name}: {path} holds no configuration.")
        beside = {Path(file).name for file in self.files if Path(file).parent == Path(path).parent}
        if why := safety.names_elsewhere(said, Path(path).name, beside):
            raise ParameterError(f"{self.name} holds {path}, {why}")
        return said

    def file(self, path: str) -> Path:
        """Return a small file, fetched where it is on the hub; ParameterError where it is not to be had."""
        if self.folder:
            return self.folder / path
        from huggingface_hub import hf_hub_download

        with self._asked():
            return Path(hf_hub_download(self.on_hub, path, revision=self.commit))

    def tensors(self, path: str) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the tensors in a file of safetensors by name: its head is read, or fetched, alone.

        Raises ParameterError: It is not to be had, or no such file.
        """
        from huggingface_hub import hf_hub_url, try_to_load_from_cache

        with self._asked():
            try:
                here = self.folder / path if self.folder else None
                here = here or try_to_load_from_cache(self.on_hub, path, revision=self.commit)
                if isinstance(here, str | Path):
                    with open(here, "rb") as file:
                        return _shapes(lambda start, end: _between(file, start, end))
                # What is at a commit does not change.
                return _shapes_on_hub(hf_hub_url(self.on_hub, path, revision=self.commit))
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                raise ParameterError(
                    f"{self.name}: {path} is no file of safetensors, or broke off: {error}. Fetch it again."
                ) from None

    def with_weights(self, weights: Sequence[str] = SAFETENSORS, skip: Sequence[str] = ()) -> Located:
        """Return what is loaded of it: configurations, and files of weights of these patterns but for those to skip.

        Raises ParameterError: There are none as safetensors, or the hub does not send them to whoever asks from here.
        """
        found = list(self.matching(weights, skip))
        if not found and self.on_hub and self.folder:
            raise ParameterError(
                f"The weights of {self.name} are not on this machine, and the hub does not answer. Run once with a "
                "network, or give a folder that holds the model."
            )
        if not found:
            others = sorted(f for f in self.files if f.endswith((*safety.OTHER_WEIGHTS, ".safetensors")))
            has = f"{self.name} has {', '.join(others[:3])}" if others else f"{self.name} has none"
            raise safety.not_safetensors(has, "Choose a copy of the model that has them.")
        if not self.folder:
            from huggingface_hub import get_hf_file_metadata, hf_hub_url

            # A model that is open to some is described to all.
            with self._asked():
                get_hf_file_metadata(hf_hub_url(self.on_hub, found[0], revision=self.commit))
        return Located(self, tuple(found), (*self.matching(safety.CONFIGURATIONS, skip), *found))

    @contextmanager
    def _asked(self) -> Iterator[None]:
        """Let whatever the hub's client raises, which has many errors, be a ParameterError that says what to do."""
        try:
            yield
        except BiaslabError:
            raise
        except Exception as error:
            raise ParameterError(_problem(self.name, self.kind, error)) from error


@dataclass(frozen=True)
class Located:
    """A model whose files are known."""

    repository: Repository
    weights: tuple[str, ...]
    files: tuple[str, ...]  # All that is fetched, weights and configurations.
    remarks: tuple[str, ...] = ()  # What whoever uses it should know, such as what lies beside it and is left out.

    def fetch(self) -> Path:
        """Return the folder of its files on this machine, fetched and looked through; else a ParameterError."""
        repository = self.repository
        if not repository.folder:
            with repository._asked():
                return hub.fetched(f"{repository.on_hub}@{repository.commit}", [*map(glob.escape, self.weights)])
        if repository.on_hub:
            safety.check_folder(repository.folder)
        return repository.folder

    @property
    def size(self) -> int:
        """How many bytes the weights are."""
        return sum(self.repository.files[path] for path in self.weights)

    @property
    def missing(self) -> list[str]:
        """Which of the files are yet to be fetched."""
        from huggingface_hub import try_to_load_from_cache

        if self.repository.folder:
            return []
        name, commit = self.repository.on_hub, self.repository.commit
        here = {path: try_to_load_from_cache(name, path, revision=commit) for path in self.files}
        return [path for path, at in here.items() if not isinstance(at, str)]

    @property
    def download(self) -> int:
        """How many bytes are yet to be fetched, as far as the hub tells sizes."""
        return sum(self.repository.files[path] for path in self.missing)


def look_up(name: str, kind: str, where: str = "") -> Repository:
    """Return the files of a model, by name and kind as for :func:`biaslab.models.registry.resolve`; nothing is fetched.

    ``where`` is its folder or name on the hub, where that is known otherwise. Raises ParameterError where there is no
    such model, as far as can be known from here, else as :func:`biaslab.models.registry.resolve`.
    """
    where = where or registry.resolve(name, kind)
    if os.path.isdir(where):
        return Repository(name, kind, _sizes(Path(where)), Path(where))
    if os.path.isfile(where):
        return Repository(name, kind, {Path(where).name: os.path.getsize(where)}, Path(where).parent)
    from huggingface_hub import errors

    repository = hub.on_hub(where)[0]
    try:
        told = hub.described(where)
    # The client has many errors; without a network, what was fetched before is there.
    except Exception as error:
        commit = hub.commit(where)
        kept = hub.cached(repository) / "snapshots" / commit
        says_no = (errors.RepositoryNotFoundError, errors.RevisionNotFoundError)
        if not commit or not kept.is_dir() or isinstance(error, says_no):
            raise ParameterError(_problem(name, kind, error)) from error
        return Repository(name, kind, _sizes(kept), kept, repository, commit)
    files = {file.rfilename: int(file.size or 0) for file in told.siblings or ()}
    return Repository(name, kind, files, None, repository, hub.commit(where) or told.sha)


def _shapes(read: Callable[[int, int], bytes]) -> dict[str, tuple[int, ...]]:
    """Return shapes by name from the head of a file, which ``read`` returns bytes of, from one to before another."""
    size = int.from_bytes(read(0, 8), "little")
    if not 2 <= size <= _LONGEST:
        raise ValueError("its head has no length")
    entries = json.loads(read(8, 8 + size))
    return {name: tuple(map(int, e["shape"])) for name, e in entries.items() if name != "__metadata__"}


@cache
def _shapes_on_hub(url: str) -> dict[str, tuple[int, ...]]:
    return _shapes(partial(_ranged, url))


def _between(file: BinaryIO, start: int, end: int) -> bytes:
    file.seek(start)
    return file.read(end - start)


def _ranged(url: str, start: int, end: int) -> bytes:
    """Return a range of a file on the hub; never more is read, whatever the server sends."""
    from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

    asked = build_hf_headers() | {"Range": f"bytes={start}-{end - 1}", "Accept-Encoding": "identity"}
    with get_session().stream("GET", url, headers=asked, follow_redirects=True, timeout=_PATIENCE) as answer:
        hf_raise_for_status(answer)
        found = bytearray()
        for piece in answer.iter_bytes():
            found += piece
            if len(found) >= end - start or answer.status_code != _PARTIAL:
                break
    if answer.status_code != _PARTIAL or len(found) < end - start:
        raise OSError("the hub does not send parts of files")
    return bytes(found[: end - start])


def of_folder(folder: str | Path, name: str, kind: str = "text-to-image") -> Repository:
    """Return the files of a folder that is called ``name``; it is not looked through."""
    return Repository(name, kind, _sizes(Path(folder)), Path(folder))


def _problem(name: str, kind: str, error: BaseException) -> str:
    """Return what is wrong with a model of the hub, and what to do, given what the hub's client raised."""
    from huggingface_hub import errors

    # The client wraps what it met.
    chain = [error]
    while (within := chain[-1].__cause__ or chain[-1].__context__) and within not in chain:
        chain.append(within)

    def any_of(of: type) -> bool:
        return any(isinstance(e, of) for e in chain)

    if any_of(errors.GatedRepoError):
        return (
            f"{name} is open only to those who accept its terms: do so on its page on the hub, log in with "
            "'hf auth login' and run again."
        )
    if any_of(errors.RevisionNotFoundError):
        repository, revision = hub.on_hub(name)
        return f"{repository} has no revision {revision!r} on the hub. Name a branch, a tag or a commit of it."
    if any_of(errors.RepositoryNotFoundError):
        here, asked = "", name
        if hub.file_on_hub(name):
            here, asked = f"There is no file {name!r} here. ", hub.on_hub(name)[0]
        return (
            f"{here}The hub has no model {asked!r}, or it is private. {registry.near_help(asked, kind)}A name on the "
            "hub is made of owner and name, as in the address of the model's page."
        )
    reason = " ".join(str(chain[-1]).split()) or type(chain[-1]).__name__
    return (
        f"{name} is not on this machine and cannot be fetched from the hub ({reason:.200}). Run once with a network, "
        "or give a folder that holds the model."
    )


def _sizes(folder: Path) -> dict[str, int]:
    found = ((path, path.relative_to(folder).as_posix()) for path in sorted(folder.rglob("*")))
    return {name: path.stat().st_size for path, name in found if path.is_file()}


def check_type(repository: Repository, known: Collection[str], what: str, example: str) -> dict[str, Any]:
    """Return the configuration of a model of transformers; ParameterError where it has none, or is of another type.

    ``known`` are the values of its ``model_type`` that can be used; where they name a class of transformers, what was
    saved as another one was trained for something else. ``what`` it is to be, and an ``example``, are for messages.
    """
    if "config.json" not in repository.files:
        raise ParameterError(
            f"{repository.name} holds no config.json, so it is no {what} of transformers. Choose one, such as "
            f"{example}."
        )
    config = repository.json("config.json")
    told = str(config.get("model_type", ""))
    made = [str(name) for name in config.get("architectures") or ()]
    if told in known and isinstance(known, Mapping) and made and known[told] not in made:
        told = made[0]
    if told not in known:
        raise ParameterError(
            f"{repository.name} is a model of the kind {told!r}, which is no {what}. Choose one, such as {example}."
        )
    return config
