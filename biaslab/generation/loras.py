"""LoRAs, put on a pipeline by diffusers, and looked at: what is not taken, or changes nothing, is refused."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from biaslab.adapters import Adapter
from biaslab.errors import ParameterError, loading

# What stands behind the name of the layer that a tensor of a LoRA is for.
_BEHIND = re.compile(r"\.(lora(_linear_layer)?[._](A|B|up|down|E|magnitude)\b|alpha$|dora_scale$|lokr_).*")


def put_on(pipe, adapters: Sequence[tuple[Path, Adapter]], name: str) -> None:
    """Put LoRAs on a pipeline that is on the CPU, each with its weight; ``name`` is the pipeline's for messages.

    Raises:
        ParameterError: The pipeline takes none, or one has tensors that match nothing, is for another model, or changes
            no weight.
    """
    if not adapters:
        return
    if not hasattr(pipe, "load_lora_weights"):
        raise ParameterError(f"{name} is a {type(pipe).__name__}, on which diffusers puts no LoRA.")
    for number, (file, adapter) in enumerate(adapters):
        where = {"weight_name": file.name, "local_files_only": True, "use_safetensors": True}
        with loading(adapter.name, f"a LoRA on {name.partition('+')[0]}"), _any_peft():
            pipe.load_lora_weights(str(file.parent), adapter_name=_called(number), **where)
        _check(pipe, _called(number), _layers(pipe, file), adapter.name)
    with _any_peft():
        pipe.set_adapters([_called(n) for n in range(len(adapters))], [one.weight for _, one in adapters])


def _called(number: int) -> str:
    return f"lora_{number}"


def _layers(pipe, file: Path) -> set[str]:
    """Return the layers that a file's tensors are for, as diffusers calls them."""
    more = {"unet_config": pipe.unet.config} if getattr(pipe, "unet", None) is not None else {}
    found = type(pipe).lora_state_dict(
        str(file.parent), weight_name=file.name, local_files_only=True, use_safetensors=True, **more
    )
    tensors = found[0] if isinstance(found, tuple) else found
    return {_BEHIND.sub("", key) for key in tensors}


def _check(pipe, called: str, layers: set[str], name: str) -> None:
    """Refuse a LoRA that is not put on all its layers, or changes none."""
    changed, there = False, set()
    for part, network in pipe.components.items():
        for path, module in network.named_modules() if hasattr(network, "named_modules") else ():
            if called not in getattr(module, "lora_B", {}):
                # Other kinds of adapters keep what they change by otherwise.
                if called in getattr(module, "lokr_w1", {}):
                    there.add(f"{part}.{path}")
                    changed = True
                continue
            there.add(f"{part}.{path}")
            first, second = module.lora_A[called].weight, module.lora_B[called].weight
            changed = changed or bool(first.any() and second.any() and module.scaling[called])
    # CLIP's text encoders were called otherwise.
    unmatched = sorted(
        {layer.replace(".text_model.", ".") for layer in layers}
        - {t.replace(".text_model.", ".") for t in there}
    )
    if unmatched:
        raise ParameterError(
            f"{name} is no LoRA for this model: {len(unmatched)} of the {len(layers)} layers that it changes are not "
            f"there, such as {unmatched[0]}. Name the model that it was trained on."
        )
    if not changed:
        raise ParameterError(
            f"{name} changes no weight of this model, so its images would be those of the model alone. Leave it out, "
            "or fetch it again."
        )


@contextlib.contextmanager
def _any_peft() -> Iterator[None]:
    """Let transformers take the release of peft that is here.

    It asks for one that came later than what diffusers needs; whether all was put where it belongs is looked at here.
    """
    from transformers.integrations import peft

    check = getattr(peft, "check_peft_version", None)
    if check is None:
        yield
        return
    peft.check_peft_version = lambda *args, **kwargs: None
    try:
        yield
    finally:
        peft.check_peft_version = check
