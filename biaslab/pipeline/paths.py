"""Settings that may be paths, and parameters with their paths made absolute."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from biaslab import plugins
from biaslab.hub.image_folder import IMAGES, MIXED
from biaslab.io import model_names
from biaslab.judges import registry as judging
from biaslab.schema import groups
from biaslab.settings import Settings

# Settings that may be paths; and, in groups or by themselves, those that say what is read next to the model.
PLACES = groups.places(Settings)
_READ = (".".join(name.split(".")[:2]) for name in PLACES if not name.startswith("compute."))
_MORE = ("captions.max_captions", "captions.columns", "captions.synthetic_bias")
INPUTS = tuple(dict.fromkeys((*_READ, *_MORE)))


def resolve_paths(model: str, given: Mapping[str, Any], start: Path | None = None) -> tuple[str, dict[str, Any]]:
    """Return model and settings with the paths in them made absolute, counted from ``start`` (the working folder)."""
    absolute_name = partial(_absolute, start=start or Path.cwd())

    def absolute(name: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {k: absolute(f"{name}.{k}".lstrip("."), v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [absolute(name, v) for v in value]
        place = PLACES.get(name)
        if place is None or not isinstance(value, str) or not value or value in place.words:
            return value
        return absolute_name(value, always=place.always)

    whole = absolute("", given)
    # What is no mapping of groups is refused when it is read.
    if isinstance(whole, Mapping) and isinstance(whole.get("models"), Mapping):
        whole["models"] = {absolute_name(name): changes for name, changes in whole["models"].items()}
    return absolute_name(model), whole


def _absolute(name: str, *, start: Path, always: bool = False) -> str:
    part = partial(_absolute, start=start)
    if name.startswith(IMAGES):
        folder, mixed, model = name.removeprefix(IMAGES).partition(MIXED)
        return IMAGES + str((start / os.path.expanduser(folder)).absolute()) + mixed + model
    named = model_names.split(name)
    if named.adapters or named.removes_adapters:
        return str(named.map_names(part))
    # What is known, or a package brings, goes before a folder that happens to have its name.
    if not always and any(name in plugins.entry_points(group) for group in plugins.GROUPS):
        return name
    if not always and (mapped := judging.map_paths(name, part, start)):
        return mapped
    given = os.path.expanduser(name)
    there = (start / given).exists() or (not os.path.isabs(given) and glob.glob(given, root_dir=start, recursive=True))
    return str((start / given).absolute()) if always or there else name
