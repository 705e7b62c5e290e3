"""Models by name: what installed packages bring, a folder, or a name on the Hugging Face hub.

A name is all that differs between them. Weights are read from safetensors only: the other formats are pickles, which
can run code when they are opened. Code that comes with a model is never run: a folder is looked through before any
library sees it (:func:`check_folder`), and none is fetched from the hub.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from biaslab.ground import adapters, plugins, reading
from biaslab.ground.errors import (
    InputError,
    MissingInputError,
    ParameterError,
    loading,
    near_matches,
    unknown_name,
)

if TYPE_CHECKING:
    import pandas as pd

DRAWINGS, PHOTOGRAPHS, ANY = "drawings", "photographs", "any"
PICTURES = (DRAWINGS, PHOTOGRAPHS)
"""Kinds of pictures: what a source of images shows, and what a judge knows; a judge may also know ``any``."""
DECLARED = "biaslab.json"
"""The file in a model's folder that says so, as ``{"pictures": "drawings"}``; photographs where there is none."""


@dataclass(frozen=True)
class Brought:
    """What an installed package brings under a name, by the entry points ``biaslab.models`` and ``biaslab.judges``.

    A folder with weights; or what makes images without one; or a name that stands for others.
    """

    kind: str = "text-to-image"
    """A key of :data:`HUB`."""
    folder: Path | None = None
    """Where its weights are, as any model's in a folder."""
    autoencoder: Path | None = None
    """The folder of a pipeline's autoencoder, where it shares that of another."""
    instead: Mapping[str, str] = field(default_factory=dict)
    """The name that it stands for: of what makes images by what prompts ask for (``captions``, ``people``,
    ``dalleval``, ``triplets``), of a judge by kind, or by what images are compared with."""
    draws: Callable[..., Any] | None = None
    """Opens what makes images without weights, as a :class:`biaslab.generation.models.ImageModel`: keywords ``name``,
    ``corpus``, ``height`` (0 is its own), ``of`` (what prompts ask for) and ``design`` (of DALL-Eval)."""
    pictures: str = PHOTOGRAPHS
    """What it makes, or as a judge knows, where it has no folder that says so; a judge may know ``any``."""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Values by group for settings that are not given, as :class:`biaslab.settings.Settings` has them."""
    words: Mapping[str, str] = field(default_factory=dict)
    """What pages say of it, by where: ``limits`` (of what it has a part in), ``glossary``, ``made`` (how its images
    were, in a few words), ``real`` (why it is no model in use); and by an effect's name that this was put into it."""


def brought(name: str, kind: str, of: str = "") -> Brought | None:
    """Return what an installed package brings under the name of a model of some kind; None where none does.

    Of a name that stands for others: the one for ``of``, by default for captions, or as a judge for its kind; itself
    where it stands for none of that.

    Raises ParameterError where it cannot be loaded, or is none.
    """
    return _entry(instead(name, kind, of), kind)


def instead(name: str, kind: str, of: str = "") -> str:
    """Return the name that one stands for; itself where it stands for no other. As of :func:`brought`."""
    one, own = _entry(name, kind), _own(name, kind)
    if one is None:
        return name
    # Adapters stay on what it stands for.
    return one.instead.get(of or ("captions" if kind == "text-to-image" else kind), own) + name[len(own) :]


def settings(name: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the settings that a text-to-image model brings for what is not given; none where it is nobody's."""
    one = _entry(name, "text-to-image")
    return one.settings if one else {}


def said(name: str, where: str, kind: str = "text-to-image") -> str:
    """Return what pages say of a model that a package brings (:attr:`Brought.words`); empty where they say nothing."""
    one = _entry(name, kind)
    return one.words.get(where, "") if one else ""


def _own(name: str, kind: str) -> str:
    """Return a name without the adapters that a text-to-image model may have on it."""
    return adapters.base(name) if kind == "text-to-image" else name


def _entry(name: str, kind: str) -> Brought | None:
    group, name = plugins.MODELS if kind == "text-to-image" else plugins.JUDGES, _own(name, kind)
    if not isinstance(name, str) or name not in plugins.points(group):
        return None
    with loading(name, f"a {kind} model"):
        found = plugins.points(group)[name].load()
    # What is none is a judge of another contract, which is named as plugin:NAME.
    return found if isinstance(found, Brought) else None


def names(kind: str) -> list[str]:
    """Return the names that installed packages bring for a kind of model."""
    group = plugins.MODELS if kind == "text-to-image" else plugins.JUDGES
    found = {}
    for name in plugins.points(group):
        # What cannot be loaded is said where it is asked for by name, and stands in the way of no other.
        with suppress(ParameterError):
            found[name] = brought(name, kind)
    return [name for name, one in found.items() if one and kind in (one.kind, "features")]


def pictures(where: str | Path, *, judge: bool = False) -> str:
    """Return which pictures a folder holds, or a model in it makes, by its file :data:`DECLARED`; else photographs.

    Of a ``judge`` which it knows, which may be ``any``. Raises ParameterError where the file says something else.
    """
    file = Path(os.path.expanduser(where), DECLARED)
    if not file.is_file():
        return PHOTOGRAPHS
    try:
        told = json.loads(reading.text(file))["pictures"]
    except (OSError, ValueError, TypeError, KeyError):
        told = None
    if told not in (allowed := (*PICTURES, ANY) if judge else PICTURES):
        raise ParameterError(f'{file} must say {{"pictures": …}}: one of {", ".join(allowed)}.')
    return told


# Names on the hub that are offered where a name is close to one of them.
HUB = {
    "text-to-image": (
        "CompVis/stable-diffusion-v1-4",
        "stable-diffusion-v1-5/stable-diffusion-v1-5",
        "stabilityai/stable-diffusion-xl-base-1.0",
        "stabilityai/stable-diffusion-3-medium-diffusers",
        "black-forest-labs/FLUX.1-dev",
        "black-forest-labs/FLUX.1-schnell",
    ),
    "encoder": ("sentence-transformers/all-MiniLM-L6-v2", "sentence-transformers/all-mpnet-base-v2"),
    "clip": ("laion/CLIP-ViT-L-14-laion2B-s32B-b82K", "laion/CLIP-ViT-B-32-laion2B-s34B-b79K"),
    "detector": ("hustvl/yolos-tiny", "facebook/detr-resnet-50", "facebook/detr-resnet-101-dc5"),
    "vqa": (
        "Salesforce/blip-vqa-base",
        "Salesforce/blip2-opt-2.7b",
        "Salesforce/blip2-flan-t5-xl",
        "Salesforce/blip2-flan-t5-xxl",
    ),
    "captioner": (
        "Salesforce/blip-image-captioning-base",
        "Salesforce/blip-image-captioning-large",
        "Salesforce/blip2-opt-2.7b",
    ),
    "features": (
        "timm/resnet50.tv_in1k",
        "timm/vit_small_patch16_224.dino",
        "timm/vit_base_patch8_224.dino",
        "facebook/detr-resnet-50",
    ),
    "segmenter": (
        "nvidia/segformer-b0-finetuned-ade-512-512",
        "facebook/mask2former-swin-tiny-coco-panoptic",
    ),
    "tagger": ("florence-community/Florence-2-base", "google/siglip2-base-patch16-224"),
    "grounding": ("IDEA-Research/grounding-dino-tiny", "IDEA-Research/grounding-dino-base"),
    "masks": ("facebook/sam-vit-huge", "facebook/sam2-hiera-large"),
}
# How files of weights end that are not safetensors.
OTHER_WEIGHTS = (".bin", ".ckpt", ".pt", ".pth", ".pkl", ".msgpack", ".h5")
# Names of files that a loader, or whoever lies in wait for one, could run.
_RUNS = re.compile(r"\.(py[cdow]?|so(\.\d+)*|dll|dylib|exe|sh|pkl|pickle|dill|joblib)$", re.IGNORECASE)
# Entries of configurations that name code to be loaded with the model, or ask for it to be trusted.
_CODE_ENTRIES = ("auto_map", "custom_pipeline", "custom_pipelines", "trust_remote_code")
# Entries that name another model, which a library would fetch or open with this one: in which file, the files of which
# the folder must hold one, so that they are its own, and what to do where it holds none.
TOKENIZERS = (
    "tokenizer.json", "tokenizer_config.json", "vocab.json", "vocab.txt", "tokenizer.model", "spiece.model",
)  # fmt: skip
_ELSEWHERE = {
    "hf_model_name": (
        "open_clip_config.json",
        ("config.json",),
        "Put the config.json of its text model into the folder.",
    ),
    "hf_tokenizer_name": (
        "open_clip_config.json",
        TOKENIZERS,
        "Put the files of its tokenizer into the folder.",
    ),
    "tokenizer_name_or_path": (
        "sentence_*_config.json",
        (),
        "Put the files of its tokenizer into the folder and take this entry out.",
    ),
    "base_model_name_or_path": (
        "adapter_config.json",
        (),
        "Merge the adapter into its model and save that with save_pretrained(folder).",
    ),
}
# Entries that name a part as the library has it installed; with one of these signs it is fetched or opened.
_INSTALLED = (
    "timm_model_name", "architecture", "backbone",
    "attn_implementation", "_attn_implementation", "experts_implementation",
)  # fmt: skip
_PLACE = re.compile(r"[/\\:]")
# Vocabularies: nobody looks for such entries in them, and they are large.
_VOCABULARIES = ("tokenizer.json", "vocab.json", "added_tokens.json")
# What is fetched of a model on the hub: configurations, vocabularies and weights.
CONFIGURATIONS = ("*.json", "*.txt", "*.model", "*.jinja")
_NEVER_RUN = "Code that comes with a model is never run."
SPARED = ("safety_checker", "image_encoder")
"""Parts of a pipeline that images of texts alone can be made without."""
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
# Files up to this size are known by their content, larger ones by size and time.
_HASHED = 64_000_000
# How the files end that decide what a model does; cards and curves may change beside them.
_LOADED = (".json", ".safetensors", ".txt", ".model", ".jinja")
# Of these, those that are read as a whole.
_WHOLE = tuple(ending for ending in _LOADED if ending != ".safetensors")


def resolve(name: str, kind: str) -> str:
    """Return the folder or file of the model ``name``, or ``name`` itself if it is one on the hub.

    Args:
        name: A name that an installed package brings, a folder, or a name on the hub: ``owner/name``, or
            ``owner/name@revision`` for a branch, a tag or a commit. A text-to-image model may also be one file of
            safetensors, here or as ``owner/name/FILE.safetensors@revision``; of ``NAME+LORA`` this is NAME
            (:mod:`biaslab.models.checkpoints`).
        kind: One of :data:`HUB`.

    Raises ParameterError: The name is unknown or stands for another kind of model, a folder that it names does not
    exist, brings code or holds no safetensors. MissingInputError: The package that brings the model has lost its
    weights. UnknownNameError: There is no such kind.
    """
    if kind not in HUB:
        raise unknown_name("kind of model", kind, HUB)
    if not isinstance(name, str) or not name:
        raise ParameterError(f"The {kind} model is {name!r}. {_allowed(kind)}")
    name = _own(name, kind)
    if one := brought(name, kind):
        if kind not in (one.kind, "features"):
            raise ParameterError(
                f"{name!r} is a {one.kind} model, and a {kind} model is needed. {_allowed(kind)}"
            )
        if one.folder is None:
            raise ParameterError(
                f"{name!r} has no weights, and a {kind} model with weights is needed. {_allowed(kind)}"
            )
        if not _complete(one):
            raise MissingInputError(f"The model {name!r} is not in {one.folder}; install its package again.")
        return str(one.folder)
    path = Path(os.path.expanduser(name))
    if os.path.isdir(path):
        check_folder(path)
        return str(path)
    if os.path.isfile(path):
        return _file(path, name, kind)
    if _HUB_NAME.fullmatch(name) or (kind == "text-to-image" and is_on_hub(name)):
        return name
    if "/" in name or "\\" in name or name.startswith((".", "~")):
        raise ParameterError(f"There is no folder {name!r}. {_allowed(kind)}")
    raise ParameterError(f"There is no {kind} model named {name!r}. {near_help(name, kind)}{_allowed(kind)}")


def _file(path: Path, name: str, kind: str) -> str:
    """Return the file of a text-to-image model; refuse all that is none."""
    if kind != "text-to-image":
        raise ParameterError(
            f"{name} is a file; a {kind} model is a folder with its configuration and weights."
        )
    if path.suffix.lower() == ".gguf":
        raise ParameterError(f"{name} {GGUF}")
    if path.suffix.lower() in OTHER_WEIGHTS:
        fix = "Most models are offered as .safetensors, too; choose that file."
        raise not_safetensors(f"{name} is a {path.suffix} file", fix)
    if path.suffix.lower() != ".safetensors":
        raise ParameterError(
            f"{name} is a file of another kind; a {kind} model in one file is a .safetensors file with all its parts."
        )
    reading.check(path)
    return str(path)


GGUF = (
    "is GGUF: a quantised network alone, without text encoder and autoencoder, which is not read here. Name the "
    "pipeline that it was made of, or a copy of it in diffusers' format that is quantised (bitsandbytes)."
)
"""What is said of files of that format, after a name."""


def file_on_hub(name: str) -> str:
    """Return the file that ``owner/name/FILE.safetensors@revision`` names; empty where a name is not of that form."""
    found = _HUB_FILE.fullmatch(name)
    return found[2] if found and ".." not in found[2].split("/") else ""


def is_on_hub(name: str) -> bool:
    """Return whether a name has the form of one on the hub, of a repository or of a file in it."""
    return bool(_HUB_NAME.fullmatch(name) or file_on_hub(name))


def _allowed(kind: str) -> str:
    """Return what a name of a kind of model may be; to know what packages bring, these are imported."""
    own = ", ".join(map(repr, names(kind)[:1]))
    return (
        f"Give {own + ', ' if own else ''}a folder, or a name on the hub, which is made of owner and name, such as "
        f"{HUB[kind][0]!r}."
    )


def near_help(name: str, kind: str) -> str:
    """Return the part of an error message that names models spelt like ``name``; empty where there are none."""
    near = [one for one in near_matches(name, [*names(kind), *HUB[kind]]) if one != name]
    return f"Did you mean {' or '.join(map(repr, near))}? " if near else ""


def _complete(one: Brought) -> bool:
    """Return whether a brought model's folder holds weights and, of a pipeline, its index."""
    needed = one.folder / ("model_index.json" if one.kind == "text-to-image" else "")
    return needed.exists() and any(one.folder.rglob("*.safetensors"))


def autoencoder(where: str | Path) -> Path | None:
    """Return the folder of a pipeline's autoencoder, or that which a brought one shares; None where there is none."""
    own = Path(where, "vae")
    if not own.exists():
        known = (brought(name, "text-to-image") for name in names("text-to-image"))
        shared = (one.autoencoder for one in known if one.folder == Path(where))
        own = next(shared, None) or own
    return own if (own / "config.json").is_file() else None


def local(where: str) -> Path:
    """Return the folder behind what :func:`resolve` returned: itself, or what :func:`fetched` gives."""
    return Path(where) if Path(where).is_dir() else fetched(where)


def on_hub(name: str) -> tuple[str, str | None]:
    """Return repository and revision of ``owner/name@revision``; None where none is named, which means ``main``.

    Of a file of a repository as well (:func:`file_on_hub`).
    """
    repository, _, revision = name.partition("@")
    return "/".join(repository.split("/")[:2]), revision or None


COMMITS = "BIASLAB_COMMITS"
"""Environment variable with the commits that a run's process has found (JSON), for the processes of its notebooks: one
name stands for one commit in all of them, however long the run takes."""
# Names on the hub -> their commits, as far as this process has asked.
_commits: dict[str, str] = json.loads(os.environ.get(COMMITS, "{}"))


def commit(name: str) -> str:
    """Return the commit of a model on the hub, 40 hex digits, as its name stands now: asked once in each process.

    Where the hub does not answer, that of the copy in its cache on this machine; empty where there is none.
    """
    repository, revision = on_hub(name)
    # All files of a repository are of one commit.
    name = f"{repository}@{revision}" if revision else repository
    if revision and _COMMIT.fullmatch(revision):
        return revision
    if name and name not in _commits:
        try:
            found = described(name).sha or ""
        # Many kinds; what is wrong is told where the model is looked up.
        except Exception:
            kept = cached(repository) / "refs" / (revision or "main")
            found = kept.read_text(encoding="ascii").strip() if kept.is_file() else ""
        if not found:
            return ""
        _commits[name] = found
    return _commits.get(name, "")


def repository_of_tag(name: str) -> str:
    """Return the repository on the hub of ``ARCHITECTURE:TAG``, as open_clip lists it; empty where it lists none."""
    try:
        from open_clip.pretrained import get_pretrained_cfg
    except ImportError:
        return ""
    architecture, _, tag = name.partition(":")
    return os.path.split(get_pretrained_cfg(architecture, tag).get("hf_hub") or "")[0]


def others_of_tag(name: str) -> dict[str, str]:
    """Return the further repositories that open_clip's architecture of ``ARCHITECTURE:TAG`` names, by what for.

    These are ``hf_model_name``, the configuration of its text model, and ``hf_tokenizer_name``, as far as there are.
    """
    try:
        from open_clip import get_model_config
    except ImportError:
        return {}
    text = (get_model_config(name.partition(":")[0]) or {}).get("text_cfg", {})
    own = repository_of_tag(name)
    return {
        key: text[key]
        for key in ("hf_model_name", "hf_tokenizer_name")
        if text.get(key) not in (None, "", own)
    }


def digest_of_tag(name: str) -> str:
    """Return a digest of open_clip's ``ARCHITECTURE:TAG``: its name with the commits of its repositories, if known."""
    if name not in _commits and (found := commit(repository_of_tag(name))):
        _commits[name] = found
    others = {other: commit(other) for other in sorted(set(others_of_tag(name).values()))}
    return " ".join(
        [f"{name}@{_commits[name]}" if name in _commits else name, *map("@".join, others.items())]
    )


def described(name: str):
    """Return what the hub says of a model: its commit, and its files with their sizes.

    Raises what the hub's client raises where there is no such model, or the hub does not answer; one that did not is
    not asked again for a while, so that many models are not waited for one after the other.
    """
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import HfHubHTTPError

    when, silent = _silent.get(constants.ENDPOINT, (-_SILENCE, None))
    if silent is not None and time.monotonic() - when < _SILENCE:
        raise silent
    repository, revision = on_hub(name)
    known = _commits.get(f"{repository}@{revision}" if revision else repository, revision)
    for wait in (*_WAITS, None):
        try:
            return HfApi().model_info(repository, revision=known, timeout=_PATIENCE, files_metadata=True)
        except HfHubHTTPError as error:
            answer = error.response
            if wait is None or answer is None or answer.status_code != _TOO_MANY:
                raise
            asked = answer.headers.get("Retry-After", "")
        # Libraries change that ask for it, and so do the kinds of what they raise; a name may be none.
        except Exception as error:
            if not isinstance(error, ValueError):
                _silent[constants.ENDPOINT] = time.monotonic(), error
            raise
        time.sleep(min(float(asked), _PATIENCE) if asked.isdigit() else wait)
    raise AssertionError


def cached(repository: str) -> Path:
    """Return the folder of a repository in the hub's cache on this machine, whether it is there or not."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE, f"{_CACHED}{repository.replace('/', '--')}")


def hub_problem(name: str, kind: str, error: BaseException) -> str:
    """Return what is wrong with a model of the hub, and what to do, given what the hub's client raised."""
    from huggingface_hub import errors as hub

    # The client wraps what it met.
    chain = [error]
    while (within := chain[-1].__cause__ or chain[-1].__context__) and within not in chain:
        chain.append(within)

    def any_of(of: type) -> bool:
        return any(isinstance(e, of) for e in chain)

    if any_of(hub.GatedRepoError):
        return (
            f"{name} is open only to those who accept its terms: do so on its page on the hub, log in with "
            "'hf auth login' and run again."
        )
    if any_of(hub.RevisionNotFoundError):
        repository, revision = on_hub(name)
        return (
            f"{repository} has no revision {revision!r} on the hub. Name a branch, a tag or a commit of it."
        )
    if any_of(hub.RepositoryNotFoundError):
        here, asked = "", name
        if file_on_hub(name):
            here, asked = f"There is no file {name!r} here. ", on_hub(name)[0]
        return (
            f"{here}The hub has no model {asked!r}, or it is private. {near_help(asked, kind)}A name on the hub is "
            "made of owner and name, as in the address of the model's page."
        )
    reason = " ".join(str(chain[-1]).split()) or type(chain[-1]).__name__
    return (
        f"{name} is not on this machine and cannot be fetched from the hub ({reason:.200}). Run once with a network, "
        "or give a folder that holds the model."
    )


def commits() -> dict[str, str]:
    """Return the commits of the models on the hub that this process has asked for, by their names."""
    return dict(sorted(_commits.items()))


def folder_name(path: str | Path) -> str:
    """Return what tables call a model in a folder: the folder's name; of one in the hub's cache, the model's own."""
    folder = Path(os.path.expanduser(path)).absolute()
    if folder.parent.name == "snapshots" and folder.parents[1].name.startswith(_CACHED):
        owner, _, name = folder.parents[1].name.removeprefix(_CACHED).partition("--")
        return f"{owner}/{name}@{folder.name[:8]}"
    return folder.name


def fetched(name: str, weights: Sequence[str] = ("*.safetensors",), skip: Sequence[str] = ()) -> Path:
    """Return the folder of the model ``name`` of the hub, fetched without code or pickles, and looked through.

    ``weights`` and ``skip`` are patterns of the files of weights, and of files that are left out.

    Raises ParameterError: The folder in the cache brings code, or its weights are of other formats only. Exception:
    What the hub's client raises where the model is not to be had.
    """
    from huggingface_hub import snapshot_download

    patterns = [*CONFIGURATIONS, *weights]
    repository, revision = on_hub(name)
    which = {"revision": commit(name) or revision, "ignore_patterns": list(skip) or None}
    folder = Path(snapshot_download(repository, allow_patterns=patterns, **which))
    check_folder(folder)
    return folder


def check_folder(path: str | Path) -> None:
    """Check that a model's folder holds nothing that could be run, before any library sees it.

    Folders whose names begin with a dot are passed over, as all loaders do.

    Raises ParameterError: There are files of code or pickles, links that lead out of the folder, configurations that
    name code (``auto_map`` and its like) or another model, pipes and devices, configurations too large to be read,
    modules of sentence encoders that are not the library's own, shards of weights that are no safetensors, an index of
    a pipeline whose parts are not named plainly, or parts whose weights are in other formats only.
    """
    folder = Path(path)
    root = folder.resolve()
    # In the hub's cache, files are links to its blobs.
    inside = [root, root.parents[1] / "blobs"] if root.parent.name == "snapshots" else [root]
    for at, folders, files in os.walk(folder):
        for file in (Path(at, name) for name in (*folders, *files)):
            if why := _why_refused(file, inside):
                raise ParameterError(f"{folder} holds {file.relative_to(folder).as_posix()}, {why}")
        folders[:] = [name for name in folders if not name.startswith(".")]
    check_safetensors(folder)


def _why_refused(file: Path, inside: Sequence[Path]) -> str:
    """Say why a folder with this file or folder in it is refused; empty where it is not."""
    if file.is_symlink() and not any(file.resolve().is_relative_to(place) for place in inside):
        return "a link that leads out of the folder. Put a copy of what it leads to in its place."
    if file.is_dir():
        return ""
    try:
        reading.check(file, most=reading.MOST if file.suffix.lower() in _WHOLE else None)
    except FileNotFoundError:
        # A link to nothing, which no library can open either.
        return ""
    except InputError as error:
        return f"which cannot be read: {error}"
    if _RUNS.search(file.name):
        return (
            f"which could be run when the model is loaded. {_NEVER_RUN} Delete the file or move it out of the folder; "
            "a model that does not load without it cannot be used here."
        )
    if file.suffix.lower() != ".json" or file.name in _VOCABULARIES:
        return ""
    try:
        said = json.loads(reading.text(file))
    except (OSError, ValueError, RecursionError):
        # No library can read it either, and what it says about it is clearer than what could be said here.
        return ""
    for key, value in _entries(said):
        if key in _CODE_ENTRIES and value:
            return (
                f"which names code to be loaded with the model ({key}). {_NEVER_RUN} Take this entry out; a model "
                "that does not load without it cannot be used here."
            )
    if why := names_elsewhere(said, file.name, os.listdir(file.parent)):
        return why
    if file.name == "modules.json":
        modules = [m for m in said if isinstance(m, dict)] if isinstance(said, list) else [{}]
        for path in (Path(str(m.get("path", ""))) for m in modules):
            if path.is_absolute() or ".." in path.parts:
                return f"which names {str(path)!r}; a model's folder names nothing outside of it."
        for kind in (str(m.get("type")) for m in modules):
            if not kind.startswith("sentence_transformers."):
                return (
                    f"which names the module {kind!r}, none of sentence_transformers. {_NEVER_RUN} Choose an encoder "
                    "that is made of the library's own modules."
                )
    shards = said.get("weight_map") if isinstance(said, dict) else None
    if isinstance(shards, dict) and file.name.endswith(".index.json") and ".safetensors" in file.name:
        for shard in map(str, shards.values()):
            if not re.fullmatch(r"[\w.-]+\.safetensors", shard):
                return (
                    f"which names {shard[:100]!r} as a file of weights; they are read from .safetensors beside it "
                    "only. Save the model once more with save_pretrained(folder)."
                )
    return ""


def names_elsewhere(said: Any, name: str, files: Collection[str]) -> str:
    """Say which other model a configuration names, which would be fetched or opened unchecked; empty where none.

    ``name`` is that of its file, and ``files`` are those beside it: what is there is used, whatever it is called.
    """
    for key, value in _entries(said):
        file, own, fix = _ELSEWHERE.get(key, ("", (), ""))
        elsewhere = fnmatch(name, file) and value and set(own).isdisjoint(files)
        installed = key in _INSTALLED and name.endswith("config.json")
        if elsewhere or (installed and any(_PLACE.search(text) for text in _texts(value))):
            return (
                f"which names {json.dumps(value):.100} ({key}), another model that would be fetched or opened with it; "
                f"a model's folder names nothing outside of it. {fix or 'Name a part that its library has.'}"
            )
    return ""


def _texts(value: Any) -> list[str]:
    """Return a text, or those of a mapping."""
    return (
        [value] if isinstance(value, str) else [text for _, text in _entries(value) if isinstance(text, str)]
    )


def _entries(said: Any) -> Iterator[tuple[str, Any]]:
    """Yield every key and value of a configuration, however deep."""
    left = [said]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            yield from one.items()
            left += one.values()
        elif isinstance(one, list):
            left += one


def check_safetensors(path: str | Path) -> None:
    """Raise ParameterError where a model's folder, or a part of a pipeline's, has weights of other formats only."""
    folder = Path(path)
    # Beside the parts of a pipeline there may lie a checkpoint in one file, which nobody opens.
    index = folder / "model_index.json"
    # Without a part that may be left out is whoever loads it to say (biaslab.generation.loading).
    parts = [name for name in check_index(index) if name not in SPARED] if index.is_file() else []
    for part in (folder / name for name in parts or ["", *_modules(folder)]):
        if not part.is_dir() or any(part.glob("*.safetensors")):
            continue
        others = sorted(p.name for p in part.iterdir() if p.suffix.lower() in OTHER_WEIGHTS)
        if others:
            fix = "Load the model once where you trust it and save it with save_pretrained(folder)."
            raise not_safetensors(f"{part} holds only {', '.join(others)}", fix)


def _modules(folder: Path) -> list[str]:
    """Return the folders of the modules that a sentence encoder is made of; none where it is no such."""
    try:
        said = json.loads(reading.text(folder / "modules.json"))
        return [str(module["path"]) for module in said if module.get("path")]
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return []


def not_safetensors(problem: str, fix: str) -> ParameterError:
    """Return the error for weights in another format."""
    return ParameterError(
        f"{problem}; weights are read from .safetensors only, because other formats can run code when they are opened. "
        f"{fix}"
    )


def check_index(index: Path) -> list[str]:
    """Return the parts that a pipeline's ``model_index.json`` names.

    Raises ParameterError: It cannot be read, or does not name its class and parts plainly.
    """
    try:
        said = json.loads(reading.text(index))
        entries = said.items()
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise ParameterError(f"{index} cannot be read as the index of a pipeline: {error}.") from None
    # A part is named by a library and a class of it, or by nothing where the model does without it.
    named = {k: v for k, v in entries if isinstance(v, list) and any(isinstance(x, str) for x in v)}
    class_name = said.get("_class_name")
    odd = {} if _plain(class_name) else {"_class_name": class_name}
    odd |= {k: v for k, v in named.items() if not (_plain(k) and len(v) == 2 and all(map(_plain, v)))}
    for key, value in odd.items():
        raise ParameterError(
            f"{index} says {str(key)[:60]!r} is {json.dumps(value):.100}, where the name of a class, or of a library "
            f"and its class, belongs. {_NEVER_RUN} Choose a pipeline that is made of the classes of diffusers and "
            "transformers."
        )
    return list(named)


def _plain(name: Any) -> bool:
    return (
        isinstance(name, str) and re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) is not None and name != "None"
    )


def digest(where: str | Path) -> str:
    """Return a digest of what :func:`resolve` returned, so that other weights give other results.

    Of a folder, configurations, vocabularies and safetensors count: up to 64 MB with their content, beyond with size
    and time of change; of a file the same. Of a name on the hub its repository and :func:`commit`, and its file where
    it names one, or the name where that is not known.
    """
    folder, name, whole = Path(where), str(where), hashlib.sha256()
    if folder.is_file():
        whole.update(_state(folder))
        return whole.hexdigest()
    if not folder.is_dir():
        file = file_on_hub(name)
        known = commit(name) if is_on_hub(name) else ""
        return f"{on_hub(name)[0]}@{known}{'/' * bool(file)}{file}" if known else name
    files = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*")}
    if (vae := autoencoder(folder)) and vae.parent != folder:
        files |= {f"vae/{p.name}": p for p in vae.iterdir()}
    for name, file in sorted(files.items()):
        if file.suffix not in _LOADED or name == DECLARED or not file.is_file():
            continue
        whole.update(name.encode() + b"\0" + _state(file))
    return whole.hexdigest()


def _state(file: Path) -> bytes:
    """Return what tells a file from others: its content, or of a large one its size and time."""
    state = file.stat()
    if state.st_size <= _HASHED:
        return hashlib.sha256(file.read_bytes()).digest()
    return f"{state.st_size} {state.st_mtime_ns}".encode()


def installed() -> pd.DataFrame:
    """Return the models that installed packages bring.

    Returns:
        Columns name, kind, pictures, folder (empty where it has no weights), megabytes (NaN where the weights are not
        there) and card (path of the model card; empty where there is none).
    """
    import pandas as pd

    rows = []
    for group in (plugins.MODELS, plugins.JUDGES):
        for name, point in plugins.points(group).items():
            with loading(name, "a model"):
                one = point.load()
            if not isinstance(one, Brought) or (one.folder is None and one.draws is None):
                continue
            size, card = float("nan"), ""
            if one.folder is not None and _complete(one):
                size = round(sum(p.stat().st_size for p in one.folder.rglob("*") if p.is_file()) / 1e6, 1)
                card = str(one.folder / "README.md") if (one.folder / "README.md").is_file() else ""
            shows = pictures(one.folder, judge=group == plugins.JUDGES) if one.folder else one.pictures
            rows.append((name, one.kind, shows, str(one.folder or ""), size, card))
    return pd.DataFrame(rows, columns=["name", "kind", "pictures", "folder", "megabytes", "card"])


@contextmanager
def without_bars() -> Iterator[None]:
    """Keep transformers from drawing bars for weights that load in a moment."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
