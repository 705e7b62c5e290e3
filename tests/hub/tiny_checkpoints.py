"""Tiny models in shared formats: a single file in the layout of Stable Diffusion 1, and LoRAs.

Both are made from a pipeline's folder, tensor by tensor, without the library that reads them.
"""

import re
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

# Of a network with two blocks of one layer each, of which the second attends to text.
_PLACES = {
    "down_blocks.0.resnets.0": "input_blocks.1.0",
    "down_blocks.0.downsamplers.0.conv": "input_blocks.2.0.op",
    "down_blocks.1.resnets.0": "input_blocks.3.0",
    "down_blocks.1.attentions.0": "input_blocks.3.1",
    "mid_block.resnets.0": "middle_block.0",
    "mid_block.attentions.0": "middle_block.1",
    "mid_block.resnets.1": "middle_block.2",
    "up_blocks.0.resnets.0": "output_blocks.0.0",
    "up_blocks.0.attentions.0": "output_blocks.0.1",
    "up_blocks.0.resnets.1": "output_blocks.1.0",
    "up_blocks.0.attentions.1": "output_blocks.1.1",
    "up_blocks.0.upsamplers.0.conv": "output_blocks.1.2.conv",
    "up_blocks.1.resnets.0": "output_blocks.2.0",
    "up_blocks.1.resnets.1": "output_blocks.3.0",
    "time_embedding.linear_1": "time_embed.0",
    "time_embedding.linear_2": "time_embed.2",
    "conv_in": "input_blocks.0.0",
    "conv_norm_out": "out.0",
    "conv_out": "out.2",
}
_LAYERS = {
    "norm1": "in_layers.0",
    "conv1": "in_layers.2",
    "time_emb_proj": "emb_layers.1",
    "norm2": "out_layers.0",
    "conv2": "out_layers.3",
    "conv_shortcut": "skip_connection",
}
# Of an autoencoder with two blocks; those of the decoder are counted from the other end.
_DECODER = {"0": "1", "1": "0"}


def _of_network(name: str) -> str:
    place = next(place for place in _PLACES if name.startswith(f"{place}."))
    rest = name.removeprefix(f"{place}.")
    if ".resnets." in place:
        layer, _, kind = rest.rpartition(".")
        rest = f"{_LAYERS[layer]}.{kind}"
    return f"model.diffusion_model.{_PLACES[place]}.{rest}"


def _of_autoencoder(name: str) -> str:
    name = re.sub(r"mid_block\.resnets\.(\d)", lambda m: f"mid.block_{int(m[1]) + 1}", name)
    name = re.sub(r"encoder\.down_blocks\.(\d)\.resnets", r"encoder.down.\1.block", name)
    name = re.sub(r"encoder\.down_blocks\.(\d)\.downsamplers\.0", r"encoder.down.\1.downsample", name)
    name = re.sub(r"up_blocks\.(\d)\.resnets", lambda m: f"up.{_DECODER[m[1]]}.block", name)
    name = re.sub(r"up_blocks\.(\d)\.upsamplers\.0", lambda m: f"up.{_DECODER[m[1]]}.upsample", name)
    name = name.replace("conv_shortcut", "nin_shortcut").replace("conv_norm_out", "norm_out")
    return f"first_stage_model.{name}"


def one_file(folder: Path, file: Path, leave: str = "") -> Path:
    """Save the pipeline of a folder in one file; without the tensors whose names begin with ``leave``."""
    result = {_of_network(k): v for k, v in _weights(folder / "unet").items()}
    result |= {_of_autoencoder(k): v for k, v in _weights(folder / "vae").items()}
    text = {k.removeprefix("text_model."): v for k, v in _weights(folder / "text_encoder").items()}
    result |= {f"cond_stage_model.transformer.text_model.{k}": v for k, v in text.items()}
    save_file({k: v for k, v in result.items() if not leave or not k.startswith(leave)}, file)
    return file


def _weights(part: Path) -> dict[str, np.ndarray]:
    (file,) = part.glob("*l.safetensors")
    return load_file(file)


# Layers that a LoRA changes, by part.
LAYERS = {
    "unet": [f"down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_{kind}" for kind in "qkv"],
    "text_encoder": ["encoder.layers.0.self_attn.q_proj", "encoder.layers.1.self_attn.out_proj"],
}


def lora(folder: Path, file: Path, seed: int = 0, parts=("unet",), layout: str = "diffusers") -> dict[str, np.ndarray]:
    """Save a LoRA of a pipeline's folder in a file; return its change of each weight, by part and weight name.

    ``layout`` is whose names its tensors have: those of ``diffusers``, of ``peft``, or of ``kohya``'s trainer, which
    writes down how strong it is, too.
    """
    draws, tensors, deltas = np.random.default_rng(seed), {}, {}
    for part in parts:
        weights = _weights(folder / part)
        for layer in LAYERS[part]:
            name = next(name for name in weights if name.endswith(f"{layer}.weight"))
            rows, columns = weights[name].shape
            down, up = (draws.normal(size=size).astype(np.float32) / 2 for size in ((2, columns), (rows, 2)))
            deltas[f"{part}/{name}"] = up @ down
            if layout == "kohya":
                begin = "lora_unet" if part == "unet" else "lora_te_text_model"
                stem = f"{begin}_{layer.replace('.', '_')}"
                tensors[f"{stem}.alpha"] = np.array(3.0, np.float32)
                # Of rank 2 and alpha 3.
                deltas[f"{part}/{name}"] *= 3 / 2
                ends = ".lora_down.weight", ".lora_up.weight"
            else:
                stem, between = f"{part}.{layer}", "lora" if part == "unet" else "lora_linear_layer"
                ends = f".{between}.down.weight", f".{between}.up.weight"
                ends = (".lora_A.weight", ".lora_B.weight") if layout == "peft" else ends
            tensors |= {stem + ends[0]: down, stem + ends[1]: up}
    file.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, file, metadata={"format": "pt"})
    return deltas


def merged(folder: Path, deltas: dict[str, np.ndarray]) -> None:
    """Add to the weights of a pipeline's folder."""
    for part in {name.partition("/")[0] for name in deltas}:
        (file,) = (folder / part).glob("*l.safetensors")
        weights = load_file(file)
        for name, delta in deltas.items():
            if name.startswith(f"{part}/"):
                weights[name.partition("/")[2]] += delta
        save_file(weights, file, metadata={"format": "pt"})
