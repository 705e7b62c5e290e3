"""Text-to-image models as people have them: pipelines, checkpoints in one file, and LoRAs on both."""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

from biaslab import plugins
from biaslab.errors import ParameterError
from biaslab.hub import huggingface, registry, repositories, safety
from biaslab.hub.repositories import Located, Repository
from biaslab.io import model_names, reading
from biaslab.io.model_names import Adapter, ModelName

INDEX = "model_index.json"
KIND = "text-to-image"
_PIPELINE, _LORA = "a whole model", "a LoRA"
# Names that libraries give to the LoRA that a repository is made of.
_OWN_LORAS = ("pytorch_lora_weights.safetensors", "adapter_model.safetensors")
_OF_LORAS = re.compile(r"lora|hada_w|lokr_w|oft_", re.IGNORECASE)
# What may go wrong in a card or configuration: whoever wrote it wrote what they liked.
_UNREADABLE = (OSError, ValueError, TypeError, LookupError, RuntimeError, yaml.YAMLError)
_QUANTISED = ("scaled_fp8", ".scale_weight", ".quant_state.", "quant_map")
# What names of tensors begin with in a checkpoint in one file, by its parts.
_PARTS = {
    "denoising network": ("model.diffusion_model.",),
    "autoencoder": ("first_stage_model.", "vae."),
    "text encoder": ("cond_stage_model.", "conditioner.", "text_encoders."),
}


def find_checkpoint(name: str) -> ModelName:
    """Return what a name says, its model as :func:`biaslab.hub.registry.resolve` returns it and its LoRAs likewise.

    Raises as that function, and ParameterError where what is named on it is no LoRA, as far as can be known here.
    """
    named = model_names.split(name)
    model_names.check(named)
    base = os.path.expanduser(named.base)
    ours = named.base in plugins.entry_points(plugins.MODELS)
    if os.path.isdir(base) and not ours and not os.path.isfile(os.path.join(base, INDEX)):
        # Before it is looked through: the configuration of an adapter names another model.
        _refuse_others(repositories.read_folder(base, named.base))
    where = registry.resolve(named.base, KIND)
    if named.adapters and (one := registry.find_plugin(named.base, KIND)) and one.factory:
        raise ParameterError(f"{named.base} makes images without weights, so that no LoRA can change it.")
    return ModelName(
        where, tuple(Adapter(_lora(one.name), one.weight) for one in named.adapters), named.removes_adapters
    )


def _lora(name: str) -> str:
    """Return the file of a LoRA, or its name where it is on the hub."""
    path = Path(os.path.expanduser(name))
    if path.is_dir():
        return str(path / _own_file(repositories.read_folder(path, name)))
    if path.is_file():
        registry.resolve(name, KIND)
        return str(path)
    if huggingface.is_on_hub(name):
        return name
    what = "a file of safetensors, a folder that holds one, or owner/lora or owner/lora/FILE.safetensors on the hub."
    raise ParameterError(f"There is no LoRA {name!r}. Give {what}")


def label(name: str) -> str:
    """Return what tables call a model: of a folder its name, of a file its name without its ending."""

    def short(one: str) -> str:
        path = os.path.expanduser(one)
        if os.path.isdir(path):
            return huggingface.folder_name(path)
        return Path(path).stem if os.path.isfile(path) else one

    return str(model_names.split(name).map_names(short))


def digest(name: str) -> str:
    """Return a digest of a name and the configurations of a single file; raises as
    :func:`find_checkpoint`.
    """
    named = find_checkpoint(name)
    whole = registry.digest(named.base)
    if file_of(named.base):
        if whole not in _read_by:
            _read_by[whole] = configurations(repositories.look_up(named.base, KIND), named.base)
        whole += f" by {registry.digest(_read_by[whole])}"
    return "+".join([whole, *(str(Adapter(registry.digest(one.name), one.weight)) for one in named.adapters)])


# By what checkpoints in one file are read, by their digests.
_read_by: dict[str, str] = {}


def file_of(where: str) -> str:
    """Return the path within its repository of a file that :func:`.registry.resolve` returned; empty of all else."""
    if os.path.isfile(where):
        return Path(where).name
    return "" if os.path.isdir(where) else huggingface.file_on_hub(where)


# -- what files are ----------------------------------------------------------------------------------------


def _what_is(tensors: Collection[str]) -> str:
    """Return what a file with tensors of these names is."""
    if any(_OF_LORAS.search(name) for name in tensors):
        return _LORA
    if any(mark in name for name in tensors for mark in _QUANTISED):
        return "a quantised network"
    lacks = [part for part, begin in _PARTS.items() if not any(name.startswith(begin) for name in tensors)]
    return f"no whole model: it holds no {' and no '.join(lacks)}" if lacks else _PIPELINE


def check_file(repository: Repository, tensors: Collection[str]) -> None:
    """Raise ParameterError where a file that is given as a model is none."""
    kind = _what_is(tensors)
    if kind == _LORA:
        raise _lora_alone(repository)
    if kind != _PIPELINE:
        raise ParameterError(
            f"{repository.name} is {kind}. Name a file that holds all parts, or the pipeline that it belongs to."
        )


def configurations(repository: Repository, where: str) -> str:
    """Return the folder or hub name of the configurations that a checkpoint in one file is read by.

    Those beside it, where there is an index of a pipeline; else of the model that diffusers takes it for. Raises
    ParameterError: Its head cannot be read, or it is none that diffusers knows.
    """
    beside = repository.folder and (repository.folder / INDEX).is_file()
    if beside and not repository.on_hub:
        return str(repository.folder)
    if INDEX in repository.files:
        return f"{repository.on_hub}@{repository.commit}"
    from diffusers.loaders import single_file_utils

    tensors = repository.tensors(file_of(where))
    check_file(repository, tensors)
    try:
        found = single_file_utils.fetch_diffusers_config(
            {k: SimpleNamespace(shape=shape) for k, shape in tensors.items()}
        )
        return str(found["pretrained_model_name_or_path"])
    # Of names that it knows in part it takes shapes, which may not be there.
    except (KeyError, IndexError, AttributeError, UnboundLocalError, ValueError, TypeError):
        fix = f"Put it into a folder with the {INDEX} and the configurations of its base model."
        raise ParameterError(f"{repository.name} is of a kind that diffusers does not know. {fix}") from None


# -- LoRAs -------------------------------------------------------------------------------------------------


def look_up_lora(adapter: Adapter, base: str) -> Located:
    """Return the file of a LoRA that :func:`find_checkpoint` returned; ``base`` is the name of the model that it is
    put
    on.

    Raises ParameterError: It is not to be had, or is none.
    """
    repository = repositories.look_up(adapter.name, KIND, adapter.name)
    path = file_of(adapter.name) or _own_file(repository)
    if path not in repository.files:
        raise ParameterError(f"{adapter.name} names a file that is not there. {_listed(repository)}")
    located = repository.with_weights([glob.escape(path)], safety.CONFIGURATIONS)
    if _what_is(repository.tensors(path)) != _LORA:
        raise ParameterError(f"{adapter.name} is no LoRA, so it cannot be put on {base}.")
    return located


def _own_file(repository: Repository) -> str:
    """Return which file of a LoRA's repository or folder is the LoRA."""
    there = [path for path in repository.files if path.endswith(".safetensors")]
    top = [path for path in there if "/" not in path] or there
    own = [path for path in top if path in _OWN_LORAS] or top
    if len(own) == 1:
        return own[0]
    if not own:
        others = sorted(path for path in repository.files if path.endswith(safety.OTHER_WEIGHTS))
        has = ", ".join(others[:3]) or "none"
        raise safety.not_safetensors(f"The LoRA {repository.name} has {has}", "Choose a copy that has them.")
    raise ParameterError(
        f"{repository.name} holds {len(own)} files of safetensors, of which one is meant. {_listed(repository)}"
    )


def name_of_file(repository: Repository, path: str) -> str:
    """Return the name of a file in a folder or repository, as it can be given."""
    if not repository.on_hub:
        return str(repository.folder / path)
    revision = huggingface.on_hub(repository.name)[1]
    return f"{repository.on_hub}/{path}" + (f"@{revision}" if revision else "")


def _listed(repository: Repository) -> str:
    names = [name_of_file(repository, path) for path in sorted(repository.files) if path.endswith(".safetensors")]
    return f"Name one of {', '.join(names[:6])}{', …' * (len(names) > 6)}." if names else "It has none."


def sibling_files(repository: Repository) -> tuple[list[str], list[str]]:
    """Return LoRAs that lie beside the parts of a pipeline: its own, and others such as examples."""
    top = [path for path in repository.files if "/" not in path and path.endswith(".safetensors")]
    own = [path for path in top if path in _OWN_LORAS]
    return own, [path for path in top if path not in own and "lora" in path.lower()]


def _refuse_others(repository: Repository) -> None:
    """Raise the error that says what a repository without the index of a pipeline is, where that is known."""
    top = [path for path in sorted(repository.files) if "/" not in path]
    ours = [path for path in top if path.endswith(".safetensors")]
    own = [path for path in ours if path in _OWN_LORAS or "lora" in path.lower()]
    tensors: Collection[str] = ()
    if len(ours) == 1:
        with suppress(ParameterError):
            tensors = repository.tensors(ours[0])
    if own or "adapter_config.json" in top or _what_is(tensors) == _LORA:
        raise _lora_alone(repository)
    if ours and "config.json" not in top:
        raise ParameterError(
            f"{repository.name} is no pipeline, but holds checkpoints in one file. {_listed(repository)}"
        )


def no_pipeline(repository: Repository) -> ParameterError:
    """Return the error for a repository without the index of a pipeline; raise it where more is known."""
    _refuse_others(repository)
    return ParameterError(f"{repository.name} is no diffusers pipeline: it holds no {INDEX}. Name one that does.")


def _lora_alone(repository: Repository) -> ParameterError:
    name, base = repository.name, base_of(repository) or "BASE"
    return ParameterError(
        f"{name} is a LoRA, which is no model by itself: it changes one. Write {base}+{name}, after the model that it "
        "was trained on."
    )


def base_of(repository: Repository) -> str:
    """Return the model that a LoRA, or a copy of a model, says it was made of."""
    if repository.folder:
        # Of a file, those that lie beside it.
        repository = repositories.read_folder(repository.folder, repository.name)
    base: Any = None
    if "adapter_config.json" in repository.files:
        file = repository.file("adapter_config.json")
        with suppress(*_UNREADABLE):
            base = json.loads(reading.text(file))["base_model_name_or_path"]
    if not base and "README.md" in repository.files:
        card = repository.file("README.md")
        with suppress(*_UNREADABLE):
            base = yaml.safe_load(reading.text(card).split("---", 2)[1])["base_model"]
    base = base[0] if isinstance(base, list) and base else base
    return base if isinstance(base, str) and huggingface.is_on_hub(base) else ""
