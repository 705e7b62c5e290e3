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

# Settings that may be paths; and the groups or settings that name other inputs than the model.
PLACES = groups.path_settings(Settings)
_PATH_GROUPS = (".".join(name.split(".")[:2]) for name in PLACES if not name.startswith("compute."))
_OTHER_INPUTS = ("captions.max_captions", "captions.columns", "captions.synthetic_bias")
INPUTS = tuple(dict.fromkeys((*_PATH_GROUPS, *_OTHER_INPUTS)))


def resolve_paths(model: str, settings: Mapping[str, Any], start: Path | None = None) -> tuple[str, dict[str, Any]]:
    """Return model and settings with absolute paths; relative ones start from ``start`` (default: working folder)."""
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

    values = absolute("", settings)
    # A value that is not a mapping of groups is refused when the settings are read.
    if isinstance(values, Mapping) and isinstance(values.get("models"), Mapping):
        values["models"] = {absolute_name(name): changes for name, changes in values["models"].items()}
    return absolute_name(model), values


def _absolute(name: str, *, start: Path, always: bool = False) -> str:
    part = partial(_absolute, start=start)
    if name.startswith(IMAGES):
        folder, mixed, model = name.removeprefix(IMAGES).partition(MIXED)
        return IMAGES + str((start / os.path.expanduser(folder)).absolute()) + mixed + model
    name_parts = model_names.split(name)
    if name_parts.adapters or name_parts.removes_adapters:
        return str(name_parts.map_names(part))
    # Known names and those of installed packages take precedence over a folder of the same name.
    if not always and any(name in plugins.entry_points(group) for group in plugins.GROUPS):
        return name
    if not always and (mapped := judging.map_paths(name, part, start)):
        return mapped
    path = os.path.expanduser(name)
    exists = (start / path).exists() or (not os.path.isabs(path) and glob.glob(path, root_dir=start, recursive=True))
    return str((start / path).absolute()) if always or exists else name
