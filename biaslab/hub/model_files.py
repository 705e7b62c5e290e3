"""The files of a model, in a folder or on the Hugging Face hub: listed before any weights are read or downloaded."""

from __future__ import annotations

import glob
import hashlib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Self

import yaml

from biaslab.errors import BiaslabError, ParameterError, UnreachableHubError
from biaslab.hub import huggingface, registry, safety
from biaslab.io import reading

SAFETENSORS = ("*.safetensors",)
# Files up to this many bytes are identified by their content, larger ones by size and time of change.
_MAX_HASHED = 64_000_000
# Suffixes of the files that determine a model's behaviour; model cards and training curves may change.
_HASHED_SUFFIXES = (".json", ".safetensors", ".txt", ".model", ".jinja")


@dataclass(frozen=True)
class ModelFiles:
    """The files of a model, in a folder on this machine or on the hub at a commit, and which of them are loaded."""

    name: str  # The name that the user gave.
    kind: str  # A key of :data:`biaslab.hub.registry.HUB`.
    files: Mapping[str, int]  # Sizes in bytes by path.
    folder: Path | None = None  # Where the files are on this machine; None where only the hub has all of them.
    repository: str = ""  # Owner and name on the hub; empty for a model that does not come from the hub.
    commit: str = ""  # 40 hex digits; empty where the model has none.
    weights: tuple[str, ...] = ()  # Paths of the weights that are loaded; set for a model in one file.
    loaded: tuple[str, ...] = ()  # Paths of all files that are downloaded: weights, and configurations if needed.
    card: Mapping[str, Any] = field(default_factory=dict)  # Metadata of the model card.
    remarks: tuple[str, ...] = ()  # Remarks for users of the model, such as files that are not used.

    @property
    def licence(self) -> str:
        """The licence in the model card, such as ``openrail++``; empty without one."""
        licence = self.card.get("license_name") or self.card.get("license") or ""
        return ", ".join(map(str, licence)) if isinstance(licence, list) else str(licence)

    @property
    def size(self) -> int:
        """Bytes of the weights that are loaded."""
        return sum(self.files[path] for path in self.weights)

    @property
    def missing(self) -> list[str]:
        """Paths of the loaded files that are not on this machine yet."""
        from huggingface_hub import try_to_load_from_cache

        if self.folder:
            return []
        paths = {path: try_to_load_from_cache(self.repository, path, revision=self.commit) for path in self.loaded}
        return [path for path, file in paths.items() if not isinstance(file, str)]

    @property
    def download(self) -> int:
        """Bytes of the loaded files that are not on this machine yet, as far as the hub states sizes."""
        return sum(self.files[path] for path in self.missing)

    def matching(self, patterns: Iterable[str]) -> Iterator[str]:
        """Yield the paths that match one of the patterns; ``*`` also matches slashes."""
        from huggingface_hub.utils import filter_repo_objects

        return filter_repo_objects(self.files, allow_patterns=[*patterns])

    def file(self, path: str) -> Path:
        """Return a file on this machine, downloaded if necessary; ParameterError where it is unavailable."""
        if self.folder:
            return self.folder / path
        from huggingface_hub import hf_hub_download

        with self._convert_errors():
            return Path(hf_hub_download(self.repository, path, revision=self.commit))

    def json(self, path: str) -> dict[str, Any]:
        """Return a configuration; ParameterError where it is missing, cannot be read, or names another model."""
        if path not in self.files:
            raise ParameterError(f"{self.name} contains no {path}. Choose a complete copy of the model.")
        try:
            configuration = json.loads(reading.text(self.file(path)))
        except (OSError, ValueError, RecursionError) as error:
            raise ParameterError(f"{self.name}: {path} cannot be read: {error}.") from None
        if not isinstance(configuration, dict):
            raise ParameterError(f"{self.name}: {path} contains no configuration.")
        siblings = {Path(file).name for file in self.files if Path(file).parent == Path(path).parent}
        if problem := safety.names_elsewhere(configuration, Path(path).name, siblings):
            raise ParameterError(f"{self.name} contains {path}, {problem}")
        return configuration

    def tensors(self, path: str) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the tensors in a file of safetensors by name; only its header is read or downloaded.

        Raises ParameterError: The file is unavailable, or not safetensors.
        """
        from huggingface_hub import errors, try_to_load_from_cache
        from safetensors import SafetensorError, safe_open

        with self._convert_errors():
            file = self.folder / path if self.folder else None
            file = file or try_to_load_from_cache(self.repository, path, revision=self.commit)
            try:
                if not isinstance(file, str | Path):
                    return _read_shapes(self.repository, path, self.commit)
                with safe_open(file, "np") as tensor_file:
                    return {name: tuple(tensor_file.get_slice(name).get_shape()) for name in tensor_file.keys()}  # noqa: SIM118
            except (SafetensorError, errors.SafetensorsParsingError) as error:
                raise ParameterError(
                    f"{self.name}: {path} is not a safetensors file, or is incomplete: {error}. Download it again."
                ) from None

    def with_weights(
        self, weights: Sequence[str] = SAFETENSORS, configurations: Sequence[str] = safety.CONFIGURATIONS
    ) -> Self:
        """Return the same model with the weights and configurations to load, as patterns of paths.

        Raises ParameterError: It has no such safetensors, or this user may not download them.
        """
        paths = tuple(self.matching(weights))
        if not paths:
            self._check_complete()
            alternatives = sorted(path for path in self.files if path.endswith((*safety.OTHER_WEIGHTS, ".safetensors")))
            problem = f"{self.name} has {', '.join(alternatives[:3]) or 'none'}"
            raise safety.not_safetensors(problem, "Choose a copy of the model with safetensors.")
        if not self.folder:
            from huggingface_hub import get_hf_file_metadata, hf_hub_url

            # The hub describes a gated model even to users without access.
            with self._convert_errors():
                get_hf_file_metadata(hf_hub_url(self.repository, paths[0], revision=self.commit))
        return replace(self, weights=paths, loaded=(*self.matching(configurations), *paths))

    def with_file(self, path: str) -> Self:
        """Return the same model with one file to load; ParameterError where it has no such file."""
        if path not in self.files:
            self._check_complete()
            raise ParameterError(f"{self.name} is not in its repository. {self.list_safetensors()}")
        return replace(self, weights=(path,), loaded=(path,))

    def _check_complete(self) -> None:
        """Raise ParameterError if only previously downloaded files are known."""
        if self.repository and self.folder:
            problem = "are not on this machine, and the hub does not respond. Run once with a network connection."
            raise ParameterError(f"The weights of {self.name} {problem}")

    def fetch(self) -> Path:
        """Return the folder of the loaded files on this machine, downloaded and checked.

        Raises ParameterError: They cannot be downloaded, or as :func:`biaslab.hub.safety.check_folder`.
        """
        folder = self.folder
        if not folder:
            from huggingface_hub import snapshot_download

            patterns = [*map(glob.escape, self.loaded)]
            with self._convert_errors():
                folder = Path(snapshot_download(self.repository, revision=self.commit, allow_patterns=patterns))
        # A user's folder was checked by look_up; without configurations, libraries only open the weights.
        if self.repository and self.loaded != self.weights:
            safety.check_folder(folder)
        return folder

    def name_of(self, path: str) -> str:
        """Return the name by which a user can select one of the files."""
        if not self.repository:
            return str(self.folder / path)
        revision = huggingface.split_name(self.name)[1]
        return f"{self.repository}/{path}" + (f"@{revision}" if revision else "")

    def list_safetensors(self) -> str:
        """Return the end of an error message that lists the safetensors files a user can name."""
        names = [self.name_of(path) for path in sorted(self.files) if path.endswith(".safetensors")]
        return f"Choose one of {', '.join(names[:6])}{', …' * (len(names) > 6)}." if names else "It contains none."

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        """Turn the errors of the hub's client into a ParameterError with advice."""
        try:
            yield
        except BiaslabError:
            raise
        except Exception as error:
            raise _client_error(self.name, self.kind, error) from error


def look_up(name: str, kind: str, place: str = "") -> ModelFiles:
    """Return the files of a model by name and kind as for :func:`biaslab.hub.registry.resolve`, without weights.

    ``place`` is its folder, file or name on the hub, if already known. If the hub does not answer, the previously
    downloaded files are returned.

    Raises ParameterError: There is no such model, or as :func:`biaslab.hub.registry.resolve` and, for a folder,
    :func:`biaslab.hub.safety.check_folder`.
    """
    place = place or registry.resolve(name, kind)
    if os.path.isdir(place):
        safety.check_folder(place)
        return read_folder(place, name, kind)
    if os.path.isfile(place):
        file = Path(place)
        sizes = {file.name: file.stat().st_size}
        return ModelFiles(name, kind, sizes, file.parent, card=_card(file.parent)).with_file(file.name)
    files, path = _look_up_on_hub(name, kind, place), huggingface.file_on_hub(place)
    return files.with_file(path) if path else files


def _look_up_on_hub(name: str, kind: str, place: str) -> ModelFiles:
    from huggingface_hub import errors

    repository = huggingface.split_name(place)[0]
    try:
        info = huggingface.fetch_info(place)
    # The client has many error types. Without a network, the previously downloaded files are available.
    except Exception as error:
        commit = huggingface.commit(place)
        cache_folder = huggingface.cache_folder(repository) / "snapshots" / commit
        denials = (errors.RepositoryNotFoundError, errors.RevisionNotFoundError)
        if not commit or not cache_folder.is_dir() or isinstance(error, denials):
            raise _client_error(name, kind, error) from error
        return replace(read_folder(cache_folder, name, kind), repository=repository, commit=commit)
    sizes = {file.rfilename: int(file.size or 0) for file in info.siblings or ()}
    card = info.card_data.to_dict() if info.card_data else {}
    return ModelFiles(name, kind, sizes, repository=repository, commit=info.sha, card=card)


def read_folder(folder: str | Path, name: str, kind: str = "text-to-image") -> ModelFiles:
    """Return the files of a folder as a model called ``name``, without checking its content."""
    folder = Path(folder)
    paths = ((path, path.relative_to(folder).as_posix()) for path in sorted(folder.rglob("*")))
    sizes = {relative: path.stat().st_size for path, relative in paths if path.is_file()}
    # The hub's cache names a model's folder by its commit.
    commit = folder.name if folder.parent.name == "snapshots" else ""
    return ModelFiles(name, kind, sizes, folder, commit=commit, card=_card(folder))


def _card(folder: Path) -> dict[str, Any]:
    """Return the metadata of the model card in a folder; empty without a readable one."""
    try:
        metadata = yaml.safe_load(reading.text(folder / "README.md").split("---", 2)[1])
    # Model cards may have any content.
    except (OSError, ValueError, IndexError, RecursionError, yaml.YAMLError):
        return {}
    return metadata if isinstance(metadata, dict) else {}


# Files at a commit do not change.
@cache
def _read_shapes(repository: str, path: str, commit: str) -> dict[str, tuple[int, ...]]:
    from huggingface_hub import parse_safetensors_file_metadata

    metadata = parse_safetensors_file_metadata(repository, path, revision=commit)
    return {name: tuple(tensor.shape) for name, tensor in metadata.tensors.items()}


def _client_error(name: str, kind: str, error: BaseException) -> ParameterError:
    """Return an error with advice for an exception of the hub's client about a model."""
    from huggingface_hub import errors

    # The client wraps errors of other libraries.
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) and cause not in chain:
        chain.append(cause)

    def has(kind_of_error: type) -> bool:
        return any(isinstance(cause, kind_of_error) for cause in chain)

    repository, revision = huggingface.split_name(name)
    if has(errors.GatedRepoError):
        return ParameterError(
            f"{name} is accessible only to users who have accepted its terms. Accept them on the model's page on the "
            "hub, log in with 'hf auth login', and run again."
        )
    if has(errors.RevisionNotFoundError):
        return ParameterError(
            f"{repository} has no revision {revision!r} on the hub. Use one of its branches, tags or commits."
        )
    if has(errors.RepositoryNotFoundError):
        is_file = huggingface.file_on_hub(name)
        model_name, prefix = (repository, f"There is no file {name!r} here. ") if is_file else (name, "")
        return ParameterError(
            f"{prefix}The hub has no model {model_name!r}, or it is private. {registry.near_help(model_name, kind)}A "
            "name on the hub has the form OWNER/NAME, as in the address of the model's page."
        )
    reason = " ".join(str(chain[-1]).split()) or type(chain[-1]).__name__
    return UnreachableHubError(
        f"{name} is not on this machine and cannot be downloaded from the hub ({reason:.200}). Run once with a network "
        "connection, or specify a folder that contains the model."
    )


def check_type(files: ModelFiles, allowed: Collection[str], description: str, example: str) -> None:
    """Raise ParameterError where a model of transformers has no configuration, or is of another type.

    ``allowed`` are the usable values of ``model_type``; if they map to classes of transformers, a model that was saved
    as another class was trained for something else. ``description`` and ``example`` are for messages.
    """
    advice = f"Choose a transformers model of this kind: {description}, such as {example}."
    if "config.json" not in files.files:
        raise ParameterError(f"{files.name} contains no config.json, so it is not a transformers model. {advice}")
    config = files.json("config.json")
    model_type = str(config.get("model_type", ""))
    classes = [str(name) for name in config.get("architectures") or ()]
    if model_type in allowed and isinstance(allowed, Mapping) and classes and allowed[model_type] not in classes:
        model_type = classes[0]
    if model_type not in allowed:
        raise ParameterError(f"{files.name} is a model of type {model_type!r}, which is not suitable. {advice}")


def digest(place: str | Path) -> str:
    """Return a digest of a result of :func:`biaslab.hub.registry.resolve`, which differs for different weights.

    For a folder, it covers configurations, vocabularies and safetensors, beyond 64 MB by size and modification time.
    For a name on the hub, it consists of repository, commit and file, or is the name if the commit is unknown.
    """
    folder, name, hasher = Path(place), str(place), hashlib.sha256()
    if folder.is_file():
        hasher.update(_fingerprint(folder))
        return hasher.hexdigest()
    if not folder.is_dir():
        path = huggingface.file_on_hub(name)
        commit = huggingface.commit(name) if huggingface.is_on_hub(name) else ""
        return f"{huggingface.split_name(name)[0]}@{commit}{'/' * bool(path)}{path}" if commit else name
    files = {file.relative_to(folder).as_posix(): file for file in folder.rglob("*")}
    if (vae := registry.autoencoder(folder)) and vae.parent != folder:
        files |= {f"vae/{file.name}": file for file in vae.iterdir()}
    for path, file in sorted(files.items()):
        if file.suffix in _HASHED_SUFFIXES and path != registry.DOMAIN_FILE and file.is_file():
            hasher.update(path.encode() + b"\0" + _fingerprint(file))
    return hasher.hexdigest()


def _fingerprint(file: Path) -> bytes:
    """Return a fingerprint of a file: a digest of its content or, for a large file, its size and modification time."""
    stat = file.stat()
    if stat.st_size <= _MAX_HASHED:
        return hashlib.sha256(file.read_bytes()).digest()
    return f"{stat.st_size} {stat.st_mtime_ns}".encode()
