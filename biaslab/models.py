"""Models by name: the embedded ones, a folder, or a name on the Hugging Face hub.

The embedded models lie in the formats of the libraries that load the real ones, so a name is all that differs
between ``mini`` and Stable Diffusion. Weights are read from safetensors only: the other formats are pickles, which
can run code when they are opened.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from biaslab.errors import MissingInputError, ParameterError, near_matches, unknown_name

if TYPE_CHECKING:
    import pandas as pd

# Kind of model -> the embedded model that the name ``mini`` stands for.
KINDS = {"text-to-image": "mini-sd", "clip": "mini-clip", "detector": "mini-detector"}
# The text-to-image model that the name ``mini`` stands for where prompts say who stands where.
PAIRS = "mini-sd-pairs"
# Embedded model -> its kind, and its folder.
KIND_OF = {
    "mini-sd": "text-to-image",
    PAIRS: "text-to-image",
    "mini-clip": "clip",
    "mini-detector": "detector",
}
EMBEDDED = {name: Path(__file__).parent / "mini" / "models" / name for name in KIND_OF}
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
    "detector": ("hustvl/yolos-tiny", "facebook/detr-resnet-50"),
}
# How files of weights end that are not safetensors.
OTHER_WEIGHTS = (".bin", ".ckpt", ".pt", ".pth", ".pkl", ".msgpack", ".h5")
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
# Files up to this size are known by their content, larger ones by size and time.
_HASHED = 64_000_000
# How the files end that decide what a model does; cards and curves may change beside them.
_LOADED = (".json", ".safetensors", ".txt", ".model")


def resolve(name: str, kind: str) -> str:
    """Return the folder of the model ``name``, or ``name`` itself if it is one on the hub.

    Args:
        name: ``mini`` or another embedded model, a folder, or a name on the hub (``owner/name``).
        kind: ``text-to-image``, ``clip`` or ``detector``.

    Raises:
        ParameterError: The name is unknown or stands for another kind of model, a folder that it names does not
            exist or holds no safetensors.
        MissingInputError: The embedded model is not in this installation.
        UnknownNameError: There is no such kind.
    """
    if kind not in KINDS:
        raise unknown_name("kind of model", kind, KINDS)
    if not isinstance(name, str) or not name:
        raise ParameterError(f"The {kind} model is {name!r}; give {_names_help(kind)}.")
    name = KINDS[kind] if name == "mini" else name
    if name in EMBEDDED:
        return str(_embedded(name, kind))
    path = Path(os.path.expanduser(name))
    if os.path.isdir(path):
        check_safetensors(path)
        return str(path)
    if os.path.isfile(path):
        raise ParameterError(
            f"{name} is a file; a {kind} model is a folder with its configuration and weights. A checkpoint in one "
            "file is loaded with diffusers' from_single_file and saved as a folder with save_pretrained."
        )
    if _HUB_NAME.fullmatch(name):
        return name
    if "/" in name or "\\" in name or name.startswith((".", "~")):
        raise ParameterError(f"There is no folder {name!r}. Give {_names_help(kind)}.")
    raise ParameterError(
        f"There is no {kind} model named {name!r}. {near_help(name, kind)}Give {_names_help(kind)}."
    )


def near_help(name: str, kind: str) -> str:
    """Return the part of an error message that names models spelt like ``name``; empty where there are none."""
    own = [model for model, of in KIND_OF.items() if of == kind]
    near = near_matches(name, ["mini", *own, *HUB[kind]])
    return f"Did you mean {' or '.join(repr(n) for n in near)}? " if near else ""


def _names_help(kind: str) -> str:
    return (
        f"'mini' (the embedded {KINDS[kind]}), a folder, or a name on the hub, which is made of owner and name, such "
        f"as {HUB[kind][0]!r}"
    )


def _embedded(name: str, kind: str) -> Path:
    of = KIND_OF[name]
    if of != kind:
        raise ParameterError(f"{name!r} is a {of} model, and a {kind} model is needed: {KINDS[kind]!r}.")
    if not _complete(EMBEDDED[name]):
        raise MissingInputError(
            f"The embedded model {name!r} is not in {EMBEDDED[name]}; train it with 'biaslab train {name}'."
        )
    return EMBEDDED[name]


def _complete(folder: Path) -> bool:
    """Return whether a folder of an embedded model holds weights and, of a pipeline, its index."""
    parts = ("model_index.json", "unet") if KIND_OF[folder.name] == "text-to-image" else ("",)
    return all((folder / p).exists() for p in parts) and any(folder.rglob("*.safetensors"))


def check_safetensors(path: str | Path) -> None:
    """Check that every part of a model's folder that has weights has them as safetensors.

    Args:
        path: A folder with weights, or a diffusers pipeline with a folder for each part.

    Raises:
        ParameterError: A part has weights in other formats only.
    """
    folder = Path(path)
    # Beside the parts of a pipeline there may lie a checkpoint in one file, which nobody opens.
    for part in [folder / name for name in _parts(folder)] or [folder]:
        if not part.is_dir() or any(part.glob("*.safetensors")):
            continue
        others = sorted(p.name for p in part.iterdir() if p.suffix.lower() in OTHER_WEIGHTS)
        if others:
            raise ParameterError(
                f"{part} holds only {', '.join(others)}; weights are read from .safetensors only, because other "
                "formats can run code when they are opened. Load the model once where you trust it and save it with "
                "save_pretrained(folder, safe_serialization=True)."
            )


def _parts(folder: Path) -> list[str]:
    """Return the parts that a pipeline's index names."""
    index = folder / "model_index.json"
    if not index.is_file():
        return []
    try:
        said = json.loads(index.read_text(encoding="utf-8"))
        return [k for k, v in said.items() if isinstance(v, list) and re.fullmatch(r"\w+", k)]
    except (OSError, ValueError, AttributeError) as error:
        raise ParameterError(f"{index} cannot be read as the index of a pipeline: {error}.") from None


def digest(where: str | Path) -> str:
    """Return a digest of a model, so that other weights give other results.

    Args:
        where: What :func:`resolve` returned. Of a folder, configurations, vocabularies and safetensors count: up to
            64 MB with their content, beyond with size and time of change. A name on the hub stands for itself.
    """
    folder = Path(where)
    if not folder.is_dir():
        return str(where)
    whole = hashlib.sha256()
    for file in sorted(p for p in folder.rglob("*") if p.suffix in _LOADED):
        whole.update(file.relative_to(folder).as_posix().encode() + b"\0")
        state = file.stat()
        if state.st_size <= _HASHED:
            whole.update(hashlib.sha256(file.read_bytes()).digest())
        else:
            whole.update(f"{state.st_size} {state.st_mtime_ns}".encode())
    return whole.hexdigest()


def embedded() -> pd.DataFrame:
    """Return the embedded models, all of which load without biaslab.

    Returns:
        Columns name, kind, folder, megabytes (of all files; NaN where the model is not in this installation) and
        card (path of the model card; empty where there is none).
    """
    import pandas as pd

    rows = []
    for name, kind in KIND_OF.items():
        folder = EMBEDDED[name]
        card = folder / "README.md"
        size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) / 1e6
        rows.append(
            {
                "name": name,
                "kind": kind,
                "folder": str(folder),
                "megabytes": round(size, 1) if _complete(folder) else float("nan"),
                "card": str(card) if card.is_file() else "",
            }
        )
    return pd.DataFrame(rows)
