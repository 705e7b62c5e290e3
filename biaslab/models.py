"""Models by name: the embedded ones, a folder, or a name on the Hugging Face hub.

A name is all that differs between ``mini`` and Stable Diffusion. Weights are read from safetensors only: the other
formats are pickles, which can run code when they are opened. Code that comes with a model is never run: a folder is
looked through before any library sees it (:func:`check_folder`), and none is fetched from the hub.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from biaslab.errors import MissingInputError, ParameterError, near_matches, unknown_name

if TYPE_CHECKING:
    import pandas as pd

# Kind of model -> the embedded model that the name ``mini`` stands for.
KINDS = {
    "text-to-image": "mini-sd",
    "clip": "mini-clip",
    "detector": "mini-detector",
    "vqa": "mini-vqa",
    "captioner": "mini-captioner",
    "segmenter": "mini-segmenter",
}
# What prompts ask for -> the text-to-image model that ``mini`` stands for: what captions tell, people whom the prompt
# places, PaintSkills' scenes and DALL-Eval's people, captions with another gender.
MINI = {
    "captions": "mini-sd",
    "people": "mini-sd-pairs",
    "dalleval": "mini-sd-skills",
    "triplets": "mini-sd-triplets",
}
# Embedded model -> its kind, and its folder.
KIND_OF = {
    **dict.fromkeys(MINI.values(), "text-to-image"),
    "mini-clip": "clip",
    "mini-detector": "detector",
    "mini-skills-detector": "detector",
    "mini-vqa": "vqa",
    "mini-captioner": "captioner",
    "mini-segmenter": "segmenter",
}
EMBEDDED = {name: Path(__file__).parent / "mini" / "models" / name for name in KIND_OF}
# Embedded pipeline -> the one whose autoencoder it has, which is kept once.
AUTOENCODER_OF = {"mini-sd-pairs": "mini-sd", "mini-sd-triplets": "mini-sd-skills"}
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
    "grounding": ("IDEA-Research/grounding-dino-tiny", "google/owlv2-base-patch16-ensemble"),
    "masks": ("facebook/sam-vit-huge", "facebook/sam2-hiera-large"),
}
# How files of weights end that are not safetensors.
OTHER_WEIGHTS = (".bin", ".ckpt", ".pt", ".pth", ".pkl", ".msgpack", ".h5")
# Names of files that a loader, or whoever lies in wait for one, could run.
_RUNS = re.compile(r"\.(py[cdow]?|so(\.\d+)*|dll|dylib|exe|sh|pkl|pickle|dill|joblib)$", re.IGNORECASE)
# Entries of configurations that name code to be loaded with the model, or ask for it to be trusted.
_CODE_ENTRIES = ("auto_map", "custom_pipeline", "custom_pipelines", "trust_remote_code")
# Vocabularies: nobody looks for such entries in them, and they are large.
_VOCABULARIES = ("tokenizer.json", "vocab.json", "added_tokens.json")
# What is fetched of a model on the hub: configurations, vocabularies and weights.
CONFIGURATIONS = ("*.json", "*.txt", "*.model", "*.jinja")
_NEVER_RUN = "Code that comes with a model is never run."
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
# Files up to this size are known by their content, larger ones by size and time.
_HASHED = 64_000_000
# How the files end that decide what a model does; cards and curves may change beside them.
_LOADED = (".json", ".safetensors", ".txt", ".model")


def resolve(name: str, kind: str) -> str:
    """Return the folder of the model ``name``, or ``name`` itself if it is one on the hub.

    Args:
        name: ``mini`` or another embedded model, a folder, or a name on the hub (``owner/name``).
        kind: One of :data:`HUB`.

    Raises:
        ParameterError: The name is unknown or stands for another kind of model, a folder that it names does not
            exist, brings code or holds no safetensors.
        MissingInputError: The embedded model is not in this installation.
        UnknownNameError: There is no such kind.
    """
    if kind not in HUB:
        raise unknown_name("kind of model", kind, HUB)
    own = f"'mini' (the embedded {KINDS[kind]}), " if kind in KINDS else ""
    allowed = f"Give {own}a folder, or a name on the hub, which is made of owner and name, such as {HUB[kind][0]!r}."
    if not isinstance(name, str) or not name:
        raise ParameterError(f"The {kind} model is {name!r}. {allowed}")
    name = KINDS.get(kind, name) if name == "mini" else name
    if name in EMBEDDED:
        if KIND_OF[name] != kind:
            raise ParameterError(
                f"{name!r} is a {KIND_OF[name]} model, and a {kind} model is needed. {allowed}"
            )
        if not _complete(EMBEDDED[name]):
            raise MissingInputError(
                f"The embedded model {name!r} is not in {EMBEDDED[name]}; train it with 'biaslab train {name}'."
            )
        return str(EMBEDDED[name])
    path = Path(os.path.expanduser(name))
    if os.path.isdir(path):
        check_folder(path)
        return str(path)
    if os.path.isfile(path):
        raise ParameterError(
            f"{name} is a file; a {kind} model is a folder with its configuration and weights. A checkpoint in one "
            "file is loaded with diffusers' from_single_file and saved as a folder with save_pretrained."
        )
    if _HUB_NAME.fullmatch(name):
        return name
    if "/" in name or "\\" in name or name.startswith((".", "~")):
        raise ParameterError(f"There is no folder {name!r}. {allowed}")
    raise ParameterError(f"There is no {kind} model named {name!r}. {near_help(name, kind)}{allowed}")


def near_help(name: str, kind: str) -> str:
    """Return the part of an error message that names models spelt like ``name``; empty where there are none."""
    own = [model for model, of in KIND_OF.items() if of == kind]
    near = near_matches(name, [*(["mini", *own] if own else []), *HUB[kind]])
    return f"Did you mean {' or '.join(map(repr, near))}? " if near else ""


def _complete(folder: Path) -> bool:
    """Return whether a folder of an embedded model holds weights and, of a pipeline, its index."""
    parts = ("model_index.json", "unet") if KIND_OF[folder.name] == "text-to-image" else ("",)
    return all((folder / p).exists() for p in parts) and any(folder.rglob("*.safetensors"))


def autoencoder(where: str | Path) -> Path | None:
    """Return the folder of a pipeline's autoencoder, or that which an embedded one shares; None where there is none."""
    own, shared = Path(where, "vae"), AUTOENCODER_OF.get(Path(where).name)
    if shared and not own.exists() and Path(where) == EMBEDDED[Path(where).name]:
        own = EMBEDDED[shared] / "vae"
    return own if (own / "config.json").is_file() else None


def local(where: str) -> Path:
    """Return the folder behind what :func:`resolve` returned: itself, or what :func:`fetched` gives."""
    return Path(where) if Path(where).is_dir() else fetched(where)


def fetched(name: str, weights: Sequence[str] = ("*.safetensors",), skip: Sequence[str] = ()) -> Path:
    """Return the folder of the model ``name`` of the hub, fetched without code or pickles, and looked through.

    ``weights`` and ``skip`` are patterns of the files of weights, and of files that are left out.

    Raises:
        ParameterError: The folder in the cache brings code, or its weights are of other formats only.
        Exception: What the hub's client raises where the model is not to be had.
    """
    from huggingface_hub import snapshot_download

    patterns = [*CONFIGURATIONS, *weights]
    folder = Path(snapshot_download(name, allow_patterns=patterns, ignore_patterns=list(skip) or None))
    check_folder(folder)
    return folder


def check_folder(path: str | Path) -> None:
    """Check that a model's folder holds nothing that could be run, before any library sees it.

    Folders whose names begin with a dot are passed over, as all loaders do.

    Raises:
        ParameterError: There are files of code or pickles, links that lead out of the folder, configurations that name
            code (``auto_map`` and its like), modules of sentence encoders that are not the library's own, shards of
            weights that are no safetensors, an index of a pipeline whose parts are not named plainly, or parts whose
            weights are in other formats only.
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
    if _RUNS.search(file.name):
        return (
            f"which could be run when the model is loaded. {_NEVER_RUN} Delete the file or move it out of the folder; "
            "a model that does not load without it cannot be used here."
        )
    if file.suffix.lower() != ".json" or file.name in _VOCABULARIES:
        return ""
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        # No library can read it either, and what it says about it is clearer than what could be said here.
        return ""
    for key, value in _entries(said):
        if key in _CODE_ENTRIES and value:
            return (
                f"which names code to be loaded with the model ({key}). {_NEVER_RUN} Take this entry out; a model "
                "that does not load without it cannot be used here."
            )
    if file.name == "modules.json":
        kinds = [str(m.get("type")) for m in said if isinstance(m, dict)] if isinstance(said, list) else ["?"]
        for kind in kinds:
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
    parts = check_index(index) if index.is_file() else []
    for part in [folder / name for name in parts] or [folder]:
        if not part.is_dir() or any(part.glob("*.safetensors")):
            continue
        others = sorted(p.name for p in part.iterdir() if p.suffix.lower() in OTHER_WEIGHTS)
        if others:
            fix = "Load the model once where you trust it and save it with save_pretrained(folder)."
            raise not_safetensors(f"{part} holds only {', '.join(others)}", fix)


def not_safetensors(problem: str, fix: str) -> ParameterError:
    """Return the error for weights in another format."""
    return ParameterError(
        f"{problem}; weights are read from .safetensors only, because other formats can run code when they are opened. "
        f"{fix}"
    )


def check_index(index: Path) -> list[str]:
    """Return the parts that a pipeline's ``model_index.json`` names.

    Raises:
        ParameterError: It cannot be read, or does not name its class and parts plainly.
    """
    try:
        said = json.loads(index.read_text(encoding="utf-8"))
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
    and time of change. A name on the hub stands for itself.
    """
    folder = Path(where)
    if not folder.is_dir():
        return str(where)
    whole = hashlib.sha256()
    files = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*")}
    if (vae := autoencoder(folder)) and vae.parent != folder:
        files |= {f"vae/{p.name}": p for p in vae.iterdir()}
    for name, file in sorted(files.items()):
        if file.suffix not in _LOADED:
            continue
        whole.update(name.encode() + b"\0")
        state = file.stat()
        if state.st_size <= _HASHED:
            whole.update(hashlib.sha256(file.read_bytes()).digest())
        else:
            whole.update(f"{state.st_size} {state.st_mtime_ns}".encode())
    return whole.hexdigest()


def embedded() -> pd.DataFrame:
    """Return the embedded models.

    Returns:
        Columns name, kind, folder, megabytes (NaN where the model is not in this installation) and card (path of the
        model card; empty where there is none).
    """
    import pandas as pd

    rows = []
    for name, folder in EMBEDDED.items():
        card, whole = folder / "README.md", _complete(folder)
        size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) if whole else float("nan")
        rows.append(
            (name, KIND_OF[name], str(folder), round(size / 1e6, 1), str(card) if card.is_file() else "")
        )
    return pd.DataFrame(rows, columns=["name", "kind", "folder", "megabytes", "card"])


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
