"""Models by name: models of installed packages, folders, and names on the Hugging Face hub."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from biaslab import plugins
from biaslab.errors import MissingInputError, ParameterError, loading, near_matches
from biaslab.hub import huggingface, safety
from biaslab.io import model_names, reading

if TYPE_CHECKING:
    import pandas as pd

# Domains of images: of an image source, and of the images that a judge was trained on; a judge may also have ``any``.
DRAWINGS, PHOTOGRAPHS, ANY = "drawings", "photographs", "any"
IMAGE_DOMAINS = (DRAWINGS, PHOTOGRAPHS)
# The file in a model's folder that states its domain, as ``{"pictures": "drawings"}``; the default is photographs.
DOMAIN_FILE = "biaslab.json"


@dataclass(frozen=True)
class PluginEntry:
    """A model of an installed package, registered by the entry points ``biaslab.models`` and ``biaslab.judges``.

    It is a folder with weights, a generator of images without weights, or an alias of other names.
    """

    kind: str = "text-to-image"  # A key of :data:`HUB`.
    folder: Path | None = None  # The folder of its weights, in the format of any model.
    autoencoder: Path | None = None  # The folder of a pipeline's autoencoder, if it shares that of another pipeline.
    alias_of: Mapping[str, str] = field(default_factory=dict)
    """The name of which it is an alias: for a generator by prompt set (``captions``, ``paired``, ``dalleval``,
    ``triplets``), for a judge by kind or by the method of image comparison."""
    factory: Callable[..., Any] | None = None
    """Opens a generator without weights, as a :class:`biaslab.generation.models.ImageModel`: keywords ``name``,
    ``corpus``, ``height`` (0 is its default), ``of`` (the prompt set) and ``design`` (of DALL-Eval)."""
    image_domain: str = PHOTOGRAPHS  # The domain of its images, or of a judge's, if no folder states it.
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Default values of settings by group, as :class:`biaslab.settings.Settings` has them."""
    words: Mapping[str, str] = field(default_factory=dict)
    """Texts about it on pages, by topic: ``limits``, ``glossary``, ``made`` (how its images were generated), ``real``
    (why it is not a model in use); and by the name of an effect, that it was planted in the model."""


def find_plugin(name: str, kind: str, prompt_set: str = "") -> PluginEntry | None:
    """Return the entry of an installed package for the name of a model of a kind, or None.

    An alias is resolved for ``prompt_set``, by default captions, or for a judge for its kind. Raises ParameterError
    where the entry cannot be loaded.
    """
    return _find_entry(resolve_alias(name, kind, prompt_set), kind)


def resolve_alias(name: str, kind: str, prompt_set: str = "") -> str:
    """Return the name of which ``name`` is an alias, or ``name`` itself; otherwise as :func:`find_plugin`."""
    entry, base_name = _find_entry(name, kind), _base_name(name, kind)
    if entry is None:
        return name
    # Adapters are kept.
    return (
        entry.alias_of.get(prompt_set or ("captions" if kind == "text-to-image" else kind), base_name)
        + name[len(base_name) :]
    )


def settings(name: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the default settings that a text-to-image model of a package provides."""
    return (_find_entry(name, "text-to-image") or PluginEntry()).settings


def describe(name: str, topic: str, kind: str = "text-to-image") -> str:
    """Return the text on a topic about a model of a package (:attr:`PluginEntry.words`); empty without one."""
    return (_find_entry(name, kind) or PluginEntry()).words.get(topic, "")


def _base_name(name: str, kind: str) -> str:
    """Return a name without a text-to-image model's adapters."""
    return model_names.base(name) if kind == "text-to-image" else name


def _find_entry(name: str, kind: str) -> PluginEntry | None:
    group, name = plugins.MODELS if kind == "text-to-image" else plugins.JUDGES, _base_name(name, kind)
    if not isinstance(name, str) or name not in plugins.entry_points(group):
        return None
    with loading(name, f"a {kind} model"):
        plugin = plugins.entry_points(group)[name].load()
    # Other objects are judges with another interface, which are named plugin:NAME.
    return plugin if isinstance(plugin, PluginEntry) else None


def names(kind: str) -> list[str]:
    """Return the names that installed packages provide for a kind of model."""
    entries = plugins.load_all(plugins.MODELS if kind == "text-to-image" else plugins.JUDGES)
    entries = {name: entry for name, entry in entries.items() if isinstance(entry, PluginEntry)}
    # An alias has the kind of the model that it resolves to.
    entries_by_name = {name: entries.get(resolve_alias(name, kind)) for name in entries}
    return [name for name, entry in entries_by_name.items() if entry and kind in (entry.kind, "features")]


def image_domain(folder: str | Path, *, judge: bool = False) -> str:
    """Return the domain of the images in a folder, or of its model or ``judge``, from its file :data:`DOMAIN_FILE`.

    Raises ParameterError where the file has another value.
    """
    file = Path(os.path.expanduser(folder), DOMAIN_FILE)
    if not file.is_file():
        return PHOTOGRAPHS
    try:
        domain = json.loads(reading.text(file))["pictures"]
    except (OSError, ValueError, TypeError, KeyError):
        domain = None
    if domain not in (allowed := (*IMAGE_DOMAINS, ANY) if judge else IMAGE_DOMAINS):
        raise ParameterError(f'{file} must contain {{"pictures": …}}, where … is one of {", ".join(allowed)}.')
    return domain


# Names on the hub, by kind, that errors suggest for similar names.
HUB: dict[str, list[str]] = yaml.safe_load((Path(__file__).parent / "known.yaml").read_text(encoding="utf-8"))


def resolve(name: str, kind: str) -> str:
    """Return the folder or file of the model ``name``, or ``name`` itself if it is one on the hub.

    ``name`` is a name of an installed package, a folder, or on the hub ``owner/name`` or ``owner/name@revision``. A
    text-to-image model may also be one file of safetensors, local or as ``owner/name/FILE.safetensors@revision``; for
    ``NAME+LORA`` the result is that of NAME. ``kind`` is one of :data:`HUB`.

    Raises ParameterError: The name is unknown or of another kind of model, or a file is not safetensors.
    MissingInputError: The weights of the package that provides the model are missing.
    """
    if not isinstance(name, str) or not name:
        raise ParameterError(f"The {kind} model is {name!r}. {_describe_names(kind)}")
    name = _base_name(name, kind)
    if entry := find_plugin(name, kind):
        if kind not in (entry.kind, "features") or entry.folder is None:
            problem = "has no weights" if entry.folder is None else f"is a {entry.kind} model"
            raise ParameterError(f"{name!r} {problem}, but a {kind} model is needed. {_describe_names(kind)}")
        if not _has_weights(entry):
            raise MissingInputError(f"The model {name!r} is missing from {entry.folder}. Reinstall its package.")
        return str(entry.folder)
    path = Path(os.path.expanduser(name))
    if os.path.isdir(path):
        return str(path)
    if os.path.isfile(path):
        return _check_file(path, name, kind)
    if huggingface.is_on_hub(name) and (kind == "text-to-image" or not huggingface.file_on_hub(name)):
        return name
    raise ParameterError(f"There is no {kind} model named {name!r}. {near_help(name, kind)}{_describe_names(kind)}")


def _check_file(path: Path, name: str, kind: str) -> str:
    """Return the file of a text-to-image model; raise ParameterError for any other kind or format."""
    if kind != "text-to-image":
        raise ParameterError(f"{name} is a file, but a {kind} model is a folder with configuration and weights.")
    if path.suffix.lower() != ".safetensors":
        raise safety.not_safetensors(
            f"{name} is a {path.suffix} file", "Most models are also available as .safetensors files."
        )
    reading.check(path)
    return str(path)


def _describe_names(kind: str) -> str:
    """Return the allowed forms of names of a kind of model, for errors."""
    return f"Specify a folder, or a name on the hub of the form OWNER/NAME, such as {HUB[kind][0]!r}."


def near_help(name: str, kind: str) -> str:
    """Return the part of an error message that names models spelt like ``name``, if any."""
    matches = [match for match in near_matches(name, [*names(kind), *HUB[kind]]) if match != name]
    return f"Did you mean {' or '.join(map(repr, matches))}? " if matches else ""


def _has_weights(entry: PluginEntry) -> bool:
    """Return whether the folder of a package's model contains weights and, for a pipeline, its index."""
    path = entry.folder / ("model_index.json" if entry.kind == "text-to-image" else "")
    return path.exists() and any(entry.folder.rglob("*.safetensors"))


def autoencoder(model_folder: str | Path) -> Path | None:
    """Return the folder of a pipeline's autoencoder, or that of the autoencoder it shares; None without one."""
    folder = Path(model_folder, "vae")
    if not folder.exists():
        entries = plugins.load_all(plugins.MODELS).values()
        entries = (entry for entry in entries if isinstance(entry, PluginEntry))
        autoencoders = (entry.autoencoder for entry in entries if entry.folder == Path(model_folder))
        folder = next(autoencoders, None) or folder
    return folder if (folder / "config.json").is_file() else None


def installed() -> pd.DataFrame:
    """Return the models of installed packages: name, kind, pictures, folder, megabytes (or NaN), model card."""
    import pandas as pd

    rows = []
    for group in (plugins.MODELS, plugins.JUDGES):
        for name, entry in plugins.load_all(group).items():
            if not isinstance(entry, PluginEntry) or (entry.folder is None and entry.factory is None):
                continue
            size, card = float("nan"), ""
            if entry.folder is not None and _has_weights(entry):
                size = round(sum(p.stat().st_size for p in entry.folder.rglob("*") if p.is_file()) / 1e6, 1)
                card = str(entry.folder / "README.md") if (entry.folder / "README.md").is_file() else ""
            domain = image_domain(entry.folder, judge=group == plugins.JUDGES) if entry.folder else entry.image_domain
            rows.append((name, entry.kind, domain, str(entry.folder or ""), size, card))
    return pd.DataFrame(rows, columns=["name", "kind", "pictures", "folder", "megabytes", "card"])


@contextmanager
def quiet(*, bars: bool = False) -> Iterator[None]:
    """Suppress log messages of transformers and diffusers, and their progress bars unless ``bars``."""
    import transformers.utils.logging as transformers_logging

    # A module that is not imported logs nothing.
    diffusers_logging = sys.modules.get("diffusers.utils.logging")
    logs = [transformers_logging, *([diffusers_logging] if diffusers_logging else [])]
    states = [(log, log.get_verbosity(), log._tqdm_active) for log in logs]
    try:
        for log in logs:
            log.set_verbosity_error()
            if not bars:
                log.disable_progress_bar()
        with warnings.catch_warnings():
            # They warn about settings in model files, and about future releases of themselves and of numpy.
            for category in (FutureWarning, DeprecationWarning):
                warnings.simplefilter("ignore", category)
            yield
    finally:
        for log, level, had_bar in states:
            log.set_verbosity(level)
            if had_bar and not bars:
                log.enable_progress_bar()
