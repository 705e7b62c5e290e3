"""What a model is made of, in a folder or on the hub: looked up before a byte of its weights is read or fetched."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from biaslab.errors import BiaslabError, ParameterError, UnreachableHubError
from biaslab.hub import huggingface, registry, safety
from biaslab.io import reading

SAFETENSORS = ("*.safetensors",)


@dataclass(frozen=True)
class Repository:
    """A model's files, in a folder here or on the hub at a commit."""

    name: str  # As it was given.
    kind: str  # A key of :data:`biaslab.hub.registry.HUB`.
    files: Mapping[str, int]  # Their sizes in bytes, by their paths.
    folder: Path | None = None  # Where they all are here; None where the hub has them.
    on_hub: str = ""  # Owner and name on the hub; empty of what was never there.
    commit: str = ""

    def matching(self, patterns: Iterable[str], skip: Iterable[str] = ()) -> Iterator[str]:
        """Yield paths that match patterns, but for those to ``skip``; ``*`` is any text, with slashes in it."""
        from huggingface_hub.utils import filter_repo_objects

        return filter_repo_objects(self.files, allow_patterns=[*patterns], ignore_patterns=[*skip] or None)

    def json(self, path: str) -> dict[str, Any]:
        """Return the object in a small file; ParameterError where there is none, or it names another model."""
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

        with self._fetch_listing():
            return Path(hf_hub_download(self.on_hub, path, revision=self.commit))

    def tensors(self, path: str) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the tensors in a file of safetensors by name: its head is read, or fetched, alone.

        Raises ParameterError: It is not to be had, or no such file.
        """
        from huggingface_hub import errors, try_to_load_from_cache
        from safetensors import SafetensorError, safe_open

        with self._fetch_listing():
            here = self.folder / path if self.folder else None
            here = here or try_to_load_from_cache(self.on_hub, path, revision=self.commit)
            try:
                if not isinstance(here, str | Path):
                    return _shapes_on_hub(self.on_hub, path, self.commit)
                with safe_open(here, "np") as file:
                    names = file.keys()
                    return {name: tuple(file.get_slice(name).get_shape()) for name in names}
            except (SafetensorError, errors.SafetensorsParsingError) as error:
                raise ParameterError(
                    f"{self.name}: {path} is no file of safetensors, or broke off: {error}. Fetch it again."
                ) from None

    def with_weights(self, weights: Sequence[str] = SAFETENSORS, skip: Sequence[str] = ()) -> Located:
        """Return what is loaded of it: configurations, and the files of weights that match patterns.

        Raises ParameterError: There are none as safetensors, or the hub does not send them to whoever asks from here.
        """
        found = list(self.matching(weights, skip))
        if not found and self.on_hub and self.folder:
            where = "are not on this machine, and the hub does not answer. Run once with a network."
            raise ParameterError(f"The weights of {self.name} {where}")
        if not found:
            others = sorted(f for f in self.files if f.endswith((*safety.OTHER_WEIGHTS, ".safetensors")))
            has = f"{self.name} has {', '.join(others[:3])}" if others else f"{self.name} has none"
            raise safety.not_safetensors(has, "Choose a copy of the model that has them.")
        if not self.folder:
            from huggingface_hub import get_hf_file_metadata, hf_hub_url

            # A model that is open to some is described to all.
            with self._fetch_listing():
                get_hf_file_metadata(hf_hub_url(self.on_hub, found[0], revision=self.commit))
        return Located(self, tuple(found), (*self.matching(safety.CONFIGURATIONS, skip), *found))

    @contextmanager
    def _fetch_listing(self) -> Iterator[None]:
        """Let whatever the hub's client raises be a ParameterError that says what to do."""
        try:
            yield
        except BiaslabError:
            raise
        except Exception as error:
            raise _problem(self.name, self.kind, error) from error


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
            with repository._fetch_listing():
                return huggingface.fetched(
                    f"{repository.on_hub}@{repository.commit}", [*map(glob.escape, self.weights)]
                )
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
    """Return the files of a model, by name and kind as for :func:`biaslab.hub.registry.resolve`; nothing is fetched.

    ``where`` is its folder or name on the hub, where that is known otherwise. Without the hub, what it has left on this
    machine is looked at. Raises ParameterError where there is no such model, else as :func:`.registry.resolve`.
    """
    where = where or registry.resolve(name, kind)
    if os.path.isdir(where):
        return Repository(name, kind, _sizes(Path(where)), Path(where))
    if os.path.isfile(where):
        return Repository(name, kind, {Path(where).name: os.path.getsize(where)}, Path(where).parent)
    from huggingface_hub import errors

    repository = huggingface.on_hub(where)[0]
    try:
        told = huggingface.described(where)
    # The client has many errors; without a network, what was fetched before is there.
    except Exception as error:
        commit = huggingface.commit(where)
        kept = huggingface.cached(repository) / "snapshots" / commit
        says_no = (errors.RepositoryNotFoundError, errors.RevisionNotFoundError)
        if not commit or not kept.is_dir() or isinstance(error, says_no):
            raise _problem(name, kind, error) from error
        return Repository(name, kind, _sizes(kept), kept, repository, commit)
    files = {file.rfilename: int(file.size or 0) for file in told.siblings or ()}
    return Repository(name, kind, files, None, repository, huggingface.commit(where) or told.sha)


# What is at a commit does not change.
@cache
def _shapes_on_hub(repository: str, path: str, commit: str) -> dict[str, tuple[int, ...]]:
    from huggingface_hub import parse_safetensors_file_metadata

    told = parse_safetensors_file_metadata(repository, path, revision=commit)
    return {name: tuple(tensor.shape) for name, tensor in told.tensors.items()}


def read_folder(folder: str | Path, name: str, kind: str = "text-to-image") -> Repository:
    """Return the files of a folder that is called ``name``; it is not looked through."""
    return Repository(name, kind, _sizes(Path(folder)), Path(folder))


def _problem(name: str, kind: str, error: BaseException) -> ParameterError:
    """Return an error about a model of the hub that names what to do, given what the hub's client raised."""
    from huggingface_hub import errors

    # The client wraps what it met.
    chain = [error]
    while (within := chain[-1].__cause__ or chain[-1].__context__) and within not in chain:
        chain.append(within)

    def any_of(of: type) -> bool:
        return any(isinstance(e, of) for e in chain)

    if any_of(errors.GatedRepoError):
        return ParameterError(
            f"{name} is open only to those who accept its terms: do so on its page on the hub, log in with "
            "'hf auth login' and run again."
        )
    if any_of(errors.RevisionNotFoundError):
        repository, revision = huggingface.on_hub(name)
        return ParameterError(
            f"{repository} has no revision {revision!r} on the hub. Name a branch, a tag or a commit of it."
        )
    if any_of(errors.RepositoryNotFoundError):
        asked = huggingface.on_hub(name)[0] if huggingface.file_on_hub(name) else name
        here = f"There is no file {name!r} here. " if asked != name else ""
        return ParameterError(
            f"{here}The hub has no model {asked!r}, or it is private. {registry.near_help(asked, kind)}A name on the "
            "hub is made of owner and name, as in the address of the model's page."
        )
    reason = " ".join(str(chain[-1]).split()) or type(chain[-1]).__name__
    return UnreachableHubError(
        f"{name} is not on this machine and cannot be fetched from the hub ({reason:.200}). Run once with a network, "
        "or give a folder that holds the model."
    )


def _sizes(folder: Path) -> dict[str, int]:
    found = ((path, path.relative_to(folder).as_posix()) for path in sorted(folder.rglob("*")))
    return {name: path.stat().st_size for path, name in found if path.is_file()}


def check_type(repository: Repository, known: Collection[str], what: str, example: str) -> None:
    """Raise ParameterError where a model of transformers has no configuration, or is of another type.

    ``known`` are the values of its ``model_type`` that can be used; where they name a class of transformers, what was
    saved as another one was trained for something else. ``what`` it is to be, and an ``example``, are for messages.
    """
    choose = f"Choose one, such as {example}."
    if "config.json" not in repository.files:
        raise ParameterError(f"{repository.name} holds no config.json, so it is no {what} of transformers. {choose}")
    config = repository.json("config.json")
    told = str(config.get("model_type", ""))
    made = [str(name) for name in config.get("architectures") or ()]
    if told in known and isinstance(known, Mapping) and made and known[told] not in made:
        told = made[0]
    if told not in known:
        raise ParameterError(f"{repository.name} is a model of the kind {told!r}, which is no {what}. {choose}")
