"""What a model's folder must not hold, before any library sees it: code, pickles, and names of what lies elsewhere."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

from biaslab.errors import InputError, ParameterError
from biaslab.io import reading

# How files of weights end that are not safetensors.
OTHER_WEIGHTS = (".bin", ".ckpt", ".gguf", ".pt", ".pth", ".pkl", ".msgpack", ".h5")
# Names of files that a loader, or whoever lies in wait for one, could run.
_RUNS = re.compile(r"\.(py[cdow]?|so(\.\d+)*|dll|dylib|exe|sh|pkl|pickle|dill|joblib)$", re.IGNORECASE)
# Entries of configurations that name code, or another model, and files that are another's or the folder's own.
_KNOWN = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
TOKENIZERS = tuple(_KNOWN["tokenizers"])
# With one of these signs, what names an installed part names a place.
_PLACE = re.compile(r"[/\\:]")
# What is fetched of a model on the hub: configurations, vocabularies and weights.
CONFIGURATIONS = ("*.json", "*.txt", "*.model", "*.jinja")
_NEVER_RUN = "Code that comes with a model is never run."
SPARED = ("safety_checker", "image_encoder")
"""Parts of a pipeline that images of texts alone can be made without."""
# Configurations and vocabularies, which are read as a whole.
_WHOLE = (".json", ".txt", ".model", ".jinja")


def check_folder(path: str | Path) -> None:
    """Check that a model's folder holds nothing that could be run, before any library sees it.

    Folders whose names begin with a dot are passed over, as all loaders do. Raises ParameterError for code or pickles,
    links that lead out of the folder, configurations that name code or another model, files that are none or too large,
    foreign modules of sentence encoders, an index whose parts are not named plainly, and weights of other formats.
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
        return f"which could be run when the model is loaded. {_NEVER_RUN} Move the file out of the folder."
    if file.suffix.lower() != ".json" or file.name in _KNOWN["vocabularies"]:
        return ""
    try:
        said = json.loads(reading.text(file))
    except (OSError, ValueError, RecursionError):
        # No library can read it either, and says so.
        return ""
    for key, value in _entries(said):
        if key in _KNOWN["code"] and value:
            return f"which names code to be loaded with the model ({key}). {_NEVER_RUN} Take this entry out."
    if why := names_elsewhere(said, file.name, os.listdir(file.parent)):
        return why
    if file.name == "modules.json":
        modules = [m for m in said if isinstance(m, dict)] if isinstance(said, list) else [{}]
        for path in (Path(str(m.get("path", ""))) for m in modules):
            if path.is_absolute() or ".." in path.parts:
                return f"which names {str(path)!r}; a model's folder names nothing outside of it."
        for kind in (str(m.get("type")) for m in modules):
            if not kind.startswith("sentence_transformers."):
                return f"which names the module {kind!r}, none of sentence_transformers. {_NEVER_RUN}"
    shards = said.get("weight_map") if isinstance(said, dict) else None
    if isinstance(shards, dict) and file.name.endswith(".index.json") and ".safetensors" in file.name:
        for shard in map(str, shards.values()):
            if not re.fullmatch(r"[\w.-]+\.safetensors", shard):
                return f"which names {shard[:100]!r} as weights; they are read from .safetensors next to it only."
    return ""


def names_elsewhere(said: Any, name: str, files: Collection[str]) -> str:
    """Say which other model the configuration in file ``name`` names, which would be fetched or opened unchecked.

    ``files`` are those beside it: what is there is used, whatever it is called.
    """
    for key, value in _entries(said):
        other = _KNOWN["elsewhere"].get(key, {"file": "", "own": (), "fix": "Name a part that its library has."})
        elsewhere = fnmatch(name, other["file"]) and value and set(other["own"]).isdisjoint(files)
        installed = key in _KNOWN["installed"] and name.endswith("config.json")
        texts = [value, *(text for _, text in _entries(value))]
        if elsewhere or (installed and any(isinstance(t, str) and _PLACE.search(t) for t in texts)):
            return (
                f"which names {json.dumps(value):.100} ({key}), another model that would be fetched or opened with it; "
                f"a model's folder names nothing outside of it. {other['fix']}"
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
    # Without a part that may be left out is whoever loads it to say (biaslab.generation.loading).
    parts = [name for name in check_index(index)[1] if name not in SPARED] if index.is_file() else []
    for part in (folder / name for name in parts or ["", *_modules(folder)]):
        if not part.is_dir() or any(part.glob("*.safetensors")):
            continue
        others = sorted(p.name for p in part.iterdir() if p.suffix.lower() in OTHER_WEIGHTS)
        if others:
            fix = "Load the model once where you trust it and save it with save_pretrained(folder)."
            raise not_safetensors(f"{part} holds only {', '.join(others)}", fix)


def _modules(folder: Path) -> list[str]:
    """Return the folders of a sentence encoder's modules."""
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


def check_index(index: Path) -> tuple[str, dict[str, tuple[str, str]]]:
    """Return the class that a pipeline's ``model_index.json`` names, and by its parts the library and class of each.

    Raises ParameterError: It cannot be read, or does not name them plainly.
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
            f"{index} says {str(key)[:60]!r} is {json.dumps(value):.100}, and not a class, or a library and its class. "
            f"{_NEVER_RUN} Choose one made of classes of diffusers and transformers."
        )
    return class_name, {part: tuple(kind) for part, kind in named.items()}


def _plain(name: Any) -> bool:
    return isinstance(name, str) and re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) is not None and name != "None"
