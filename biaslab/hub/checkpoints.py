"""Text-to-image models in users' formats: pipelines, single-file checkpoints, and LoRAs on either."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from biaslab import plugins
from biaslab.errors import ParameterError
from biaslab.hub import huggingface, model_files, registry, safety
from biaslab.hub.model_files import ModelFiles
from biaslab.io import model_names, reading
from biaslab.io.image_files import endings
from biaslab.io.model_names import Adapter, ModelName

INDEX = "model_index.json"
KIND = "text-to-image"
_PIPELINE, _LORA = "a whole model", "a LoRA"
# File names that libraries use for the LoRA of a repository.
_LORA_FILES = ("pytorch_lora_weights.safetensors", "adapter_model.safetensors")
_LORA_TENSORS = re.compile(r"lora|hada_w|lokr_w|oft_", re.IGNORECASE)
_QUANTISED = ("scaled_fp8", ".scale_weight", ".quant_state.", "quant_map")
# Prefixes of the tensors in a single-file checkpoint, by part.
_PARTS = {
    "denoising network": ("model.diffusion_model.",),
    "autoencoder": ("first_stage_model.", "vae."),
    "text encoder": ("cond_stage_model.", "conditioner.", "text_encoders."),
}


def find_checkpoint(name: str) -> ModelName:
    """Return the places of a model and its LoRAs, as :func:`biaslab.hub.registry.resolve` returns them.

    Raises as that function, and ParameterError where an adapter is not a LoRA, if this is known without its weights.
    """
    parts = model_names.split(name)
    model_names.check(parts)
    place = registry.resolve(parts.base, KIND)
    is_installed = parts.base in plugins.entry_points(plugins.MODELS)
    if os.path.isdir(place) and not is_installed and not os.path.isfile(os.path.join(place, INDEX)):
        # Before the folder is checked: the configuration of an adapter names another model.
        _check_is_no_lora(model_files.read_folder(place, parts.base))
    if parts.adapters and (plugin := registry.find_plugin(parts.base, KIND)) and plugin.factory:
        raise ParameterError(f"{parts.base} generates images without weights, so LoRAs cannot be applied to it.")
    adapters = tuple(Adapter(_resolve_lora(adapter.name), adapter.weight) for adapter in parts.adapters)
    return ModelName(place, adapters, parts.removes_adapters)


def _resolve_lora(name: str) -> str:
    """Return the file of a LoRA, or its name if it is on the hub."""
    path = Path(os.path.expanduser(name))
    if path.is_dir():
        return str(path / _find_lora_file(model_files.read_folder(path, name)))
    if path.is_file() or huggingface.is_on_hub(name):
        return registry.resolve(name, KIND)
    options = (
        "a .safetensors file, a folder that contains one, or owner/lora or owner/lora/FILE.safetensors on the hub."
    )
    raise ParameterError(f"There is no LoRA {name!r}. Specify {options}")


def label(name: str) -> str:
    """Return the name of a model in tables: the name of its folder, or of its file without the suffix."""

    def short(part: str) -> str:
        path = os.path.expanduser(part)
        if os.path.isdir(path):
            return huggingface.folder_name(path)
        return Path(path).stem if os.path.isfile(path) else part

    return str(model_names.split(name).map_names(short))


def digest(name: str) -> str:
    """Return a digest of a model, its LoRAs and the configurations of a single file; raises as
    :func:`find_checkpoint`.
    """
    parts = find_checkpoint(name)
    weights_digest = model_files.digest(parts.base)
    if os.path.isfile(parts.base) or huggingface.file_on_hub(parts.base):
        if weights_digest not in _configurations_by_digest:
            _configurations_by_digest[weights_digest] = configurations(model_files.look_up(parts.base, KIND))
        weights_digest += f" by {model_files.digest(_configurations_by_digest[weights_digest])}"
    adapters = (Adapter(model_files.digest(adapter.name), adapter.weight) for adapter in parts.adapters)
    return "+".join([weights_digest, *map(str, adapters)])


# Results of :func:`configurations` for single-file checkpoints, by their digests.
_configurations_by_digest: dict[str, str] = {}


# -- classification of files -------------------------------------------------------------------------------


def _describe_tensors(tensors: Collection[str]) -> str:
    """Return the kind of a file with tensors of these names, in words."""
    if any(_LORA_TENSORS.search(name) for name in tensors):
        return _LORA
    if any(mark in name for name in tensors for mark in _QUANTISED):
        return "a quantized network"
    gaps = [part for part, prefixes in _PARTS.items() if not any(name.startswith(prefixes) for name in tensors)]
    return f"not a complete model: it contains no {' and no '.join(gaps)}" if gaps else _PIPELINE


def check_tensors(files: ModelFiles, tensors: Collection[str]) -> None:
    """Raise ParameterError where a file that is named as a model is not one."""
    kind = _describe_tensors(tensors)
    if kind == _LORA:
        raise _lora_error(files)
    if kind != _PIPELINE:
        raise ParameterError(
            f"{files.name} is {kind}. Specify a file that contains all parts, or the pipeline that it belongs to."
        )


def configurations(files: ModelFiles) -> str:
    """Return the folder or hub name of the configurations for a single-file checkpoint.

    They are the files next to it, if they include the index of a pipeline, else those of the base model that diffusers
    infers.

    Raises ParameterError: Its header cannot be read, or diffusers does not support its kind.
    """
    if files.folder and (files.folder / INDEX).is_file() and not files.repository:
        return str(files.folder)
    if INDEX in files.files:
        return f"{files.repository}@{files.commit}"
    from diffusers.loaders import single_file_utils

    tensors = files.tensors(files.weights[0])
    check_tensors(files, tensors)
    try:
        base = single_file_utils.fetch_diffusers_config(
            {name: SimpleNamespace(shape=shape) for name, shape in tensors.items()}
        )
        return str(base["pretrained_model_name_or_path"])
    # diffusers reads shapes of tensors that may be missing.
    except (KeyError, IndexError, AttributeError, UnboundLocalError, ValueError, TypeError):
        fix = f"Put the file into a folder with the {INDEX} and the configurations of its base model."
        raise ParameterError(f"{files.name} has a type that diffusers does not support. {fix}") from None


# -- LoRAs -------------------------------------------------------------------------------------------------


def look_up_lora(place: str, base: str) -> ModelFiles:
    """Return the file of a LoRA at a place that :func:`find_checkpoint` returned, for the model ``base``.

    Raises ParameterError: It is unavailable, or not a LoRA.
    """
    files = model_files.look_up(place, KIND, place)
    path = files.weights[0] if files.weights else _find_lora_file(files)
    if _describe_tensors(files.tensors(path)) != _LORA:
        raise ParameterError(f"{place} is not a LoRA, so it cannot be applied to {base}.")
    return files.with_file(path)


def _find_lora_file(files: ModelFiles) -> str:
    """Return the path of the LoRA in its repository or folder."""
    paths = [path for path in files.files if path.endswith(".safetensors")]
    top_files = [path for path in paths if "/" not in path] or paths
    candidates = [path for path in top_files if path in _LORA_FILES] or top_files
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        other_weights = sorted(path for path in files.files if path.endswith(safety.OTHER_WEIGHTS))
        problem = f"The LoRA {files.name} has {', '.join(other_weights[:3]) or 'none'}"
        raise safety.not_safetensors(problem, "Choose a copy with safetensors.")
    raise ParameterError(f"{files.name} contains {len(candidates)} .safetensors files. {files.list_safetensors()}")


def sibling_loras(files: ModelFiles) -> tuple[list[str], list[str]]:
    """Return the LoRAs next to the parts of a pipeline: those that belong to it, and others such as examples."""
    top_files = [path for path in files.files if "/" not in path and path.endswith(".safetensors")]
    own_files = [path for path in top_files if path in _LORA_FILES]
    return own_files, [path for path in top_files if path not in own_files and "lora" in path.lower()]


def _check_is_no_lora(files: ModelFiles) -> None:
    """Raise an error that names the kind of files without the index of a pipeline, if it is known."""
    top_files = [path for path in sorted(files.files) if "/" not in path]
    weights = [path for path in top_files if path.endswith(".safetensors")]
    tensors: Collection[str] = ()
    if len(weights) == 1:
        with suppress(ParameterError):
            tensors = files.tensors(weights[0])
    has_lora = any(sibling_loras(files)) or "adapter_config.json" in top_files
    if has_lora or _describe_tensors(tensors) == _LORA:
        raise _lora_error(files)
    if weights and "config.json" not in top_files:
        raise ParameterError(
            f"{files.name} is not a pipeline, but contains single-file checkpoints. {files.list_safetensors()}"
        )
    images = [path for path in files.files if path.lower().endswith(endings())]
    if images and not any(path.endswith((".safetensors", ".json", *safety.OTHER_WEIGHTS)) for path in files.files):
        raise ParameterError(
            f"{files.name} is a folder of images, such as {images[0]}, and not a model. To classify its images, write "
            f"images:{files.name}."
        )


def no_pipeline(files: ModelFiles) -> ParameterError:
    """Return the error for files without the index of a pipeline; raise a more specific one if possible."""
    _check_is_no_lora(files)
    return ParameterError(
        f"{files.name} is not a diffusers pipeline, because it contains no {INDEX}. Specify a pipeline."
    )


def _lora_error(files: ModelFiles) -> ParameterError:
    name, base = files.name, base_of(files) or "BASE"
    return ParameterError(
        f"{name} is a LoRA, which changes a model but is not a model itself. Write it after the model that it was "
        f"trained on: {base}+{name}."
    )


def base_of(files: ModelFiles) -> str:
    """Return the base model of a LoRA, or of a copy of a model, according to its configuration or model card."""
    base: Any = None
    # The configuration of a single-file LoRA is next to it. Both files may have any content.
    if files.folder or "adapter_config.json" in files.files:
        with suppress(OSError, ValueError, TypeError, LookupError, RecursionError):
            base = json.loads(reading.text(files.file("adapter_config.json")))["base_model_name_or_path"]
    base = base or files.card.get("base_model")
    base = base[0] if isinstance(base, list) and base else base
    return base if isinstance(base, str) and huggingface.is_on_hub(base) else ""
