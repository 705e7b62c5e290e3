"""Safety checks of a model's folder: weights in formats other than safetensors, and names or links that lead outside.

diffusers (from 0.38) and transformers run no code of a model unless ``trust_remote_code`` is set, which biaslab never
does; sentence_transformers runs modules of a folder, so its modules are checked.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

from biaslab.errors import NEVER_RUN, InputError, ParameterError
from biaslab.io import reading
from biaslab.io.folders import linked_folders

# Endings of weights that are not safetensors.
OTHER_WEIGHTS = (".bin", ".ckpt", ".gguf", ".pt", ".pth", ".pkl", ".msgpack", ".h5")
# Entries of configurations that name another model, and files that make an entry refer to the folder itself.
_NAMES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
TOKENIZERS = tuple(_NAMES["tokenizers"])
# Characters of a path in an entry that should name an installed part.
_PATH_SIGN = re.compile(r"[/\\:]")
# Files of a model that are downloaded in addition to weights; they are read completely into memory.
CONFIGURATIONS = ("*.json", "*.txt", "*.model", "*.jinja")


def check_folder(path: str | Path) -> None:
    """Check a model's folder before any library reads it.

    Folders whose names begin with a dot are skipped, as all loaders do.

    Raises ParameterError: It contains a link that leads out of it, an irregular or too large file, a configuration that
    names another model, or modules of a sentence encoder that are foreign or have no safetensors.
    """
    folder = Path(path)
    allowed = linked_folders(folder)
    for parent, folders, names in os.walk(folder):
        for file in (Path(parent, name) for name in (*folders, *names)):
            if problem := _find_problem(file, allowed):
                raise ParameterError(f"{folder} contains {file.relative_to(folder).as_posix()}, {problem}")
        folders[:] = [name for name in folders if not name.startswith(".")]


def _find_problem(file: Path, allowed: Sequence[Path]) -> str:
    """Return why a file of a model is refused; links may lead to ``allowed`` folders."""
    if file.is_symlink() and not any(file.resolve().is_relative_to(folder) for folder in allowed):
        return "a link that leads out of the folder. Replace it with a copy of its target."
    if file.is_dir():
        return ""
    is_read_whole = any(fnmatch(file.name.lower(), pattern) for pattern in CONFIGURATIONS)
    try:
        reading.check(file, most=reading.MAX_BYTES if is_read_whole else None)
        if file.suffix.lower() != ".json" or file.name in _NAMES["vocabularies"]:
            return ""
        content = json.loads(reading.text(file))
    except InputError as error:
        return f"which cannot be read: {error}"
    # A broken link or invalid JSON: libraries cannot read it either, and report it.
    except (OSError, ValueError, RecursionError):
        return ""
    if file.name == "modules.json":
        return _find_module_problem(file.parent, content)
    shards = content.get("weight_map") if isinstance(content, dict) else None
    if isinstance(shards, dict) and file.name.endswith(".index.json") and ".safetensors" in file.name:
        for shard in map(str, shards.values()):
            if not re.fullmatch(r"[\w.-]+\.safetensors", shard):
                return f"which refers to {shard[:100]!r}; weights are read only from .safetensors files next to it."
    return names_elsewhere(content, file.name, os.listdir(file.parent))


def _find_module_problem(folder: Path, modules: Any) -> str:
    """Return why the modules of a sentence encoder are refused."""
    for module in modules if isinstance(modules, list) else [modules]:
        entry = module if isinstance(module, dict) else {}
        kind, path = str(entry.get("type")), Path(str(entry.get("path", "")))
        if path.is_absolute() or ".." in path.parts:
            return f"which refers to {str(path)!r}; files in a model's folder must not refer to paths outside it."
        if not kind.startswith("sentence_transformers."):
            return f"which uses the module {kind!r} from outside sentence_transformers. {NEVER_RUN}"
        names = os.listdir(folder / path) if (folder / path).is_dir() else []
        other_weights = sorted(name for name in names if name.endswith(OTHER_WEIGHTS))
        if other_weights and not any(name.endswith(".safetensors") for name in names):
            fix = "If you trust the model, load it once and save it with save_pretrained(folder)."
            return f"whose module {kind} has only {', '.join(other_weights)}; {_ONLY_SAFETENSORS} {fix}"
    return ""


def names_elsewhere(configuration: Any, name: str, files: Collection[str]) -> str:
    """Return why the configuration in file ``name`` is refused: it names a model that would be loaded unchecked.

    ``files`` are the files in the same folder: an entry that they replace is harmless.
    """
    for key, value in _entries(configuration):
        rule = _NAMES["elsewhere"].get(key, {"file": "", "own": (), "fix": "Use a part that its library contains."})
        is_elsewhere = fnmatch(name, rule["file"]) and value and set(rule["own"]).isdisjoint(files)
        is_part = key in _NAMES["installed"] and name.endswith("config.json")
        texts = [value, *(text for _, text in _entries(value))]
        if is_elsewhere or (is_part and any(isinstance(text, str) and _PATH_SIGN.search(text) for text in texts)):
            return (
                f"which refers to {json.dumps(value):.100} ({key}), another model that would be downloaded or opened "
                f"with it; files in a model's folder must not refer to other models. {rule['fix']}"
            )
    return ""


def _entries(content: Any) -> Iterator[tuple[str, Any]]:
    """Yield every key and value of a configuration at any depth."""
    remaining = [content]
    while remaining:
        entry = remaining.pop()
        if isinstance(entry, dict):
            yield from entry.items()
            remaining += entry.values()
        elif isinstance(entry, list):
            remaining += entry


_ONLY_SAFETENSORS = "weights are read only from .safetensors, because other formats can run code when they are opened."


def not_safetensors(problem: str, fix: str) -> ParameterError:
    """Return the error for weights in another format."""
    return ParameterError(f"{problem}; {_ONLY_SAFETENSORS} {fix}")
