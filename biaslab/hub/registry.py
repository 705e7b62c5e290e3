"""Models by name: what installed packages bring, a folder, or a name on the Hugging Face hub."""

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

# Kinds of pictures: what a source of images shows, and what a judge knows; a judge may also know ``any``.
DRAWINGS, PHOTOGRAPHS, ANY = "drawings", "photographs", "any"
IMAGE_DOMAINS = (DRAWINGS, PHOTOGRAPHS)
# The file in a model's folder that says so, as ``{"pictures": "drawings"}``; photographs where there is none.
DOMAIN_FILE = "biaslab.json"


@dataclass(frozen=True)
class PluginEntry:
    """What an installed package brings under a name, by the entry points ``biaslab.models`` and ``biaslab.judges``.

    A folder with weights; or what makes images without one; or a name that stands for others.
    """

    kind: str = "text-to-image"  # A key of :data:`HUB`.
    folder: Path | None = None  # Where its weights are, as any model's in a folder.
    autoencoder: Path | None = None  # The folder of a pipeline's autoencoder, where it shares that of another.
    alias_of: Mapping[str, str] = field(default_factory=dict)
    """The name that it stands for: of what makes images by what prompts ask for (``captions``, ``paired``,
    ``dalleval``, ``triplets``), of a judge by kind, or by what images are compared with."""
    factory: Callable[..., Any] | None = None
    """Opens what makes images without weights, as a :class:`biaslab.generation.models.ImageModel`: keywords ``name``,
    ``corpus``, ``height`` (0 is its own), ``of`` (what prompts ask for) and ``design`` (of DALL-Eval)."""
    image_domain: str = PHOTOGRAPHS  # What it makes, or as a judge knows, where it has no folder that says so.
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Values by group for settings that are not given, as :class:`biaslab.settings.Settings` has them."""
    words: Mapping[str, str] = field(default_factory=dict)
    """What pages say of it, by where: ``limits``, ``glossary``, ``made`` (how its images were made), ``real`` (why it
    is no model in use); and by an effect's name that this was put into it."""


def find_plugin(name: str, kind: str, prompt_set: str = "") -> PluginEntry | None:
    """Return what an installed package brings under the name of a model of some kind; None where none does.

    Of a name that stands for others: the one for ``prompt_set``, by default for captions, or as a judge for its kind.
    Raises ParameterError where it cannot be loaded.
    """
    return _entry(resolve_alias(name, kind, prompt_set), kind)


def resolve_alias(name: str, kind: str, prompt_set: str = "") -> str:
    """Return the name that one stands for; itself where it stands for no other. As of :func:`find_plugin`."""
    entry, base_name = _entry(name, kind), _own(name, kind)
    if entry is None:
        return name
    # Adapters stay on what it stands for.
    return (
        entry.alias_of.get(prompt_set or ("captions" if kind == "text-to-image" else kind), base_name)
        + name[len(base_name) :]
    )


def settings(name: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the settings that a text-to-image model brings for what is not given."""
    return (_entry(name, "text-to-image") or PluginEntry()).settings


def describe(name: str, where: str, kind: str = "text-to-image") -> str:
    """Return what pages say of a model that a package brings (:attr:`PluginEntry.words`), if anything."""
    return (_entry(name, kind) or PluginEntry()).words.get(where, "")


def _own(name: str, kind: str) -> str:
    """Return a name without a text-to-image model's adapters."""
    return model_names.base(name) if kind == "text-to-image" else name


def _entry(name: str, kind: str) -> PluginEntry | None:
    group, name = plugins.MODELS if kind == "text-to-image" else plugins.JUDGES, _own(name, kind)
    if not isinstance(name, str) or name not in plugins.entry_points(group):
        return None
    with loading(name, f"a {kind} model"):
        plugin = plugins.entry_points(group)[name].load()
    # What is none is a judge of another contract, which is named as plugin:NAME.
    return plugin if isinstance(plugin, PluginEntry) else None


def names(kind: str) -> list[str]:
    """Return the names that installed packages bring for a kind of model."""
    entries = plugins.load_all(plugins.MODELS if kind == "text-to-image" else plugins.JUDGES)
    entries = {name: entry for name, entry in entries.items() if isinstance(entry, PluginEntry)}
    # A name that stands for another is of the other's kind.
    resolved = {name: entries.get(resolve_alias(name, kind)) for name in entries}
    return [name for name, entry in resolved.items() if entry and kind in (entry.kind, "features")]


def image_domain(where: str | Path, *, judge: bool = False) -> str:
    """Return which pictures a folder holds, or its model makes or, as a ``judge``, knows, by its file
    :data:`DOMAIN_FILE`.

    Raises ParameterError where the file says something else.
    """
    file = Path(os.path.expanduser(where), DOMAIN_FILE)
    if not file.is_file():
        return PHOTOGRAPHS
    try:
        domain = json.loads(reading.text(file))["pictures"]
    except (OSError, ValueError, TypeError, KeyError):
        domain = None
    if domain not in (allowed := (*IMAGE_DOMAINS, ANY) if judge else IMAGE_DOMAINS):
        raise ParameterError(f'{file} must contain {{"pictures": …}} with one of {", ".join(allowed)}.')
    return domain


# Names on the hub, by kind, that are offered where a name is close to one of them.
HUB: dict[str, list[str]] = yaml.safe_load((Path(__file__).parent / "known.yaml").read_text(encoding="utf-8"))


def resolve(name: str, kind: str) -> str:
    """Return the folder or file of the model ``name``, or ``name`` itself if it is one on the hub.

    ``name`` is one that an installed package brings, a folder, or on the hub ``owner/name`` or ``owner/name@revision``.
    A text-to-image model may also be one file of safetensors, here or as ``owner/name/FILE.safetensors@revision``; of
    ``NAME+LORA`` this is NAME. ``kind`` is one of :data:`HUB`.

    Raises ParameterError: The name is unknown or of another kind of model, or a file is not safetensors.
    MissingInputError: The package that brings the model has lost its weights.
    """
    if not isinstance(name, str) or not name:
        raise ParameterError(f"The {kind} model is {name!r}. {_allowed(kind)}")
    name = _own(name, kind)
    if entry := find_plugin(name, kind):
        if kind not in (entry.kind, "features") or entry.folder is None:
            what = "has no weights" if entry.folder is None else f"is a {entry.kind} model"
            raise ParameterError(f"{name!r} {what}, and a {kind} model is needed. {_allowed(kind)}")
        if not _complete(entry):
            raise MissingInputError(f"The model {name!r} is not in {entry.folder}; install its package again.")
        return str(entry.folder)
    path = Path(os.path.expanduser(name))
    if os.path.isdir(path):
        return str(path)
    if os.path.isfile(path):
        return _file(path, name, kind)
    if huggingface.is_on_hub(name) and (kind == "text-to-image" or not huggingface.file_on_hub(name)):
        return name
    raise ParameterError(f"There is no {kind} model named {name!r}. {near_help(name, kind)}{_allowed(kind)}")


def _file(path: Path, name: str, kind: str) -> str:
    """Return the file of a text-to-image model; refuse all that is none."""
    if kind != "text-to-image":
        raise ParameterError(f"{name} is a file; a {kind} model is a folder with its configuration and weights.")
    if path.suffix.lower() != ".safetensors":
        raise safety.not_safetensors(f"{name} is a {path.suffix} file", "Most models are offered as such a file, too.")
    reading.check(path)
    return str(path)


def _allowed(kind: str) -> str:
    """Return what a name of a kind of model may be."""
    return f"Give a folder, or a name on the hub, which consists of owner and name, such as {HUB[kind][0]!r}."


def near_help(name: str, kind: str) -> str:
    """Return the part of an error message that names models spelt like ``name``, if any."""
    near = [match for match in near_matches(name, [*names(kind), *HUB[kind]]) if match != name]
    return f"Did you mean {' or '.join(map(repr, near))}? " if near else ""


def _complete(entry: PluginEntry) -> bool:
    """Return whether a brought model's folder holds weights and, of a pipeline, its index."""
    needed = entry.folder / ("model_index.json" if entry.kind == "text-to-image" else "")
    return needed.exists() and any(entry.folder.rglob("*.safetensors"))


def autoencoder(where: str | Path) -> Path | None:
    """Return the folder of a pipeline's autoencoder, or that which a brought one shares; None where there is none."""
    folder = Path(where, "vae")
    if not folder.exists():
        entries = plugins.load_all(plugins.MODELS).values()
        entries = (entry for entry in entries if isinstance(entry, PluginEntry))
        shared = (entry.autoencoder for entry in entries if entry.folder == Path(where))
        folder = next(shared, None) or folder
    return folder if (folder / "config.json").is_file() else None


def installed() -> pd.DataFrame:
    """Return the models that installed packages bring: name, kind, pictures, folder, megabytes (or NaN), model card."""
    import pandas as pd

    rows = []
    for group in (plugins.MODELS, plugins.JUDGES):
        for name, plugin in plugins.load_all(group).items():
            if not isinstance(plugin, PluginEntry) or (plugin.folder is None and plugin.factory is None):
                continue
            size, card = float("nan"), ""
            if plugin.folder is not None and _complete(plugin):
                size = round(sum(p.stat().st_size for p in plugin.folder.rglob("*") if p.is_file()) / 1e6, 1)
                card = str(plugin.folder / "README.md") if (plugin.folder / "README.md").is_file() else ""
            shows = image_domain(plugin.folder, judge=group == plugins.JUDGES) if plugin.folder else plugin.image_domain
            rows.append((name, plugin.kind, shows, str(plugin.folder or ""), size, card))
    return pd.DataFrame(rows, columns=["name", "kind", "pictures", "folder", "megabytes", "card"])


@contextmanager
def quiet(*, bars: bool = False) -> Iterator[None]:
    """Keep remarks of transformers and diffusers, and bars unless asked for, out of the output."""
    import transformers.utils.logging as of_transformers

    # What nobody has imported says nothing.
    of_diffusers = sys.modules.get("diffusers.utils.logging")
    logs = [of_transformers, *([of_diffusers] if of_diffusers else [])]
    kept = [(log, log.get_verbosity(), log._tqdm_active) for log in logs]
    try:
        for log in logs:
            log.set_verbosity_error()
            if not bars:
                log.disable_progress_bar()
        with warnings.catch_warnings():
            # They warn of settings that model files hold, of their own next releases and of numpy's.
            for category in (FutureWarning, DeprecationWarning):
                warnings.simplefilter("ignore", category)
            yield
    finally:
        for log, level, shown in kept:
            log.set_verbosity(level)
            if shown and not bars:
                log.enable_progress_bar()
