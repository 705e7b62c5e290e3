"""LoRAs, put on a pipeline by diffusers, and looked at: what is not taken, or changes nothing, is refused."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from biaslab.errors import ParameterError, loading
from biaslab.io.model_names import Adapter, base

# What stands behind the name of the layer that a tensor of a LoRA is for.
_BEHIND = re.compile(r"\.(lora_(A|B|E|magnitude)|lokr_|alpha$).*")


def attach(pipe, adapters: Sequence[tuple[Path, Adapter]], name: str) -> None:
    """Put LoRAs on a pipeline ``name`` that is on the CPU, each with its weight.

    Raises ParameterError: The pipeline takes none, or one has tensors that match nothing, or changes no weight.
    """
    if not adapters:
        return
    if not hasattr(pipe, "load_lora_weights"):
        raise ParameterError(f"{name} is a {type(pipe).__name__}, on which diffusers puts no LoRA.")
    names = [f"lora_{number}" for number in range(len(adapters))]
    for called, (file, adapter) in zip(names, adapters, strict=True):
        where = {"weight_name": file.name, "local_files_only": True, "use_safetensors": True}
        with loading(adapter.name, f"a LoRA on {base(name)}"), _any_peft():
            layers = _layers(pipe, str(file.parent), where)
            _check_layers(layers, _modules(pipe), adapter.name)
            pipe.load_lora_weights(str(file.parent), adapter_name=called, **where)
        changed = _changed(pipe, called)
        _check_layers(layers, changed, adapter.name)
        if not any(changed.values()):
            raise ParameterError(f"{adapter.name} changes no weight of this model. Leave it out, or fetch it again.")
    with _any_peft():
        pipe.set_adapters(names, [one.weight for _, one in adapters])


def _layers(pipe, folder: str, where: dict) -> set[str]:
    """Return the layers that a file's tensors are for, as they are called in the pipeline."""
    from diffusers.utils import state_dict_utils as names

    more = {"unet_config": pipe.unet.config} if getattr(pipe, "unet", None) is not None else {}
    found = type(pipe).lora_state_dict(folder, **where, **more)
    tensors, layers = found[0] if isinstance(found, tuple) else found, set()
    for part in {key.partition(".")[0] for key in tensors}:
        within = {key.partition(".")[2]: v for key, v in tensors.items() if key.startswith(f"{part}.")}
        # As they are brought into one form where they are put on.
        if part.startswith("text_encoder"):
            within = names.convert_state_dict_to_peft(names.convert_state_dict_to_diffusers(within))
        elif not any("lora_A" in key or "lokr_" in key for key in within):
            within = names.convert_unet_state_dict_to_peft(within)
        layers |= {f"{part}.{_BEHIND.sub('', key)}" for key in within}
    return layers


def _modules(pipe) -> dict[str, object]:
    """Return the modules of a pipeline's parts, by part and name."""
    parts = ((part, network) for part, network in pipe.components.items() if hasattr(network, "named_modules"))
    return {f"{part}.{path}": module for part, network in parts for path, module in network.named_modules()}


def _changed(pipe, called: str) -> dict[str, bool]:
    """Return the layers that a LoRA was put on, and whether it changes them."""
    found = {}
    for path, module in _modules(pipe).items():
        if called in getattr(module, "lora_B", {}):
            both = module.lora_A[called].weight.any() and module.lora_B[called].weight.any()
            found[path] = bool(both) and module.scaling[called] != 0
        # Another kind of adapter keeps what it changes by otherwise.
        elif called in getattr(module, "lokr_w1", {}):
            found[path] = True
    return found


def _check_layers(layers: set[str], there: Collection[str], name: str) -> None:
    """Refuse a LoRA some of whose layers are not there."""
    # CLIP's text encoders were called otherwise.
    known = {path.replace(".text_model.", ".") for path in there}
    if unmatched := sorted(layer for layer in layers if layer.replace(".text_model.", ".") not in known):
        raise ParameterError(
            f"{name} is no LoRA for this model: {len(unmatched)} of the {len(layers)} layers that it changes are not "
            f"there, such as {unmatched[0]}. Name the model that it was trained on."
        )


@contextlib.contextmanager
def _any_peft() -> Iterator[None]:
    # transformers asks for a later release of peft than diffusers needs; what was put where is looked at here.
    from transformers.integrations import peft

    check = getattr(peft, "check_peft_version", None)
    if check is None:
        yield
        return
    peft.check_peft_version = lambda *args, **kwargs: None
    try:
        with warnings.catch_warnings():
            # Several LoRAs are what was asked for.
            warnings.filterwarnings("ignore", "Already found a `peft_config`")
            yield
    finally:
        peft.check_peft_version = check
