"""Families of models: how each takes encoded text and noise, and what its makers say of its settings.

``families.yaml`` tells them by the class of the pipeline, and variants by their configurations. What is not there has
its pipeline's own settings, by signature, and is given its prompts as text: slower, but as reproducible.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from biaslab.errors import ParameterError
from biaslab.generation.settings import GenerationSettings

if TYPE_CHECKING:
    from biaslab.hub.model_files import ModelFiles

# What heights and widths are rounded to where a pipeline's own steps are not known.
_ROUND = 64
# Texts that no pipeline has two of.
_PROMPTS = ("prompt", "prompt_2", "prompt_3")


@dataclass(frozen=True)
class Family:
    """What is known of a model: an entry of ``families.yaml``, completed by the pipeline's signature and sizes."""

    pipeline: str  # Its class.
    variant: str = ""  # Which one of the class, where the table has several.
    denoiser: str = ""  # Its attribute with the denoising network; empty of one that is given its prompts as text.
    parts: Sequence[str] = ()  # What it takes of an encoded prompt; with ``negative_`` before it, of a negative one.
    columns: Sequence[Sequence[str]] = ()
    """Its text as the network reads it, part after part: the tokenizers whose tokens stand in the same columns. Empty
    where that is not known."""
    latents: str = "grid"
    """How the network takes latents: as a ``grid``; as ``rows`` of 2 x 2 of it; or as rows of a grid of 2 x 2
    ``patches``, which its autoencoder has a scale of each of."""
    steps: int | None = None  # Its own number of denoising steps; None where it is not told one.
    guidance: float | None = None  # Its own scale of guidance; None where guidance has no effect.
    argument: str = ""  # The pipeline's argument that carries the scale of guidance; empty where none has an effect.
    unguided: float = 1.0  # Up to which scale there is no guidance.
    negative: bool = True  # Whether a negative prompt has an effect; otherwise guidance is part of the network.
    no_negative: str = ""  # The negative prompt where none is asked for.
    text_length: int | None = None  # How many tokens of a text the last tokenizer reads, where the pipeline is told.
    chat: bool = False  # Whether a text is read as a message in a chat, whose frame takes some of these tokens.
    always: Mapping[str, Any] = field(default_factory=dict)  # Further arguments of the pipeline.
    dtype: str = "bfloat16"  # Numbers of the network on a GPU.
    # Its own size in pixels, where it is known; and what height and width must be multiples of.
    height: int = 0
    width: int = 0
    multiple: int = _ROUND
    scale: int = 8  # Pixels of the image for one of the latents, in each direction.
    channels: int = 0  # Channels of latents.
    takes_size: bool = True  # Whether the pipeline is told height and width.
    # Completed by :mod:`biaslab.generation.stated`: the word in its name for a distilled model; which of steps and
    # guidance no source states, so that they are None; and the sources of the others.
    distilled: str = ""
    unstated: Sequence[str] = ()
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """What it is called in messages."""
        return f"{self.pipeline} ({self.variant})" if self.variant else self.pipeline

    def is_guided(self, settings: GenerationSettings) -> bool:
        """Return whether images are guided, by what settings ask for or by the model's own scale."""
        scale = self.guidance if settings.guidance_scale is None else settings.guidance_scale
        return scale is not None and scale > self.unguided

    def complete_settings(self, settings: GenerationSettings) -> GenerationSettings:
        """Return settings with the model's own steps and guidance where none are given."""
        defaults = {"steps": self.steps, "guidance_scale": self.guidance}
        return settings.changed(**{k: v for k, v in defaults.items() if getattr(settings, k) is None})

    def size(self, settings: GenerationSettings, name: str) -> tuple[int, int]:
        """Return height and width of images in pixels; 0 where they are the pipeline's, which nobody knows.

        Raises ParameterError where the model ``name`` does not make them.
        """
        requested = {"height": settings.height, "width": settings.width}
        if not self.takes_size and any(requested.values()):
            raise ParameterError(f"{name} is a {self.pipeline}, which takes no size: set height and width to 0.")
        for side, value in requested.items():
            if self.denoiser and value % self.multiple:
                near = max(self.multiple, round(value / self.multiple) * self.multiple)
                raise ParameterError(
                    f"{side} is {value}; {name} generates images in multiples of {self.multiple}, for example {near}."
                )
        height = settings.height or self.height
        if settings.aspect == 1:
            return height, settings.width or self.width
        if not (height and self.width and self.takes_size):
            why = f"{name} is a {self.pipeline}, whose default aspect ratio is unknown"
            raise ParameterError(f"aspect is {settings.aspect:g}, but {why}. Set it to 1; in a run, paired.aspect=1.")
        # As wide as asked for, in what the model makes.
        wide = height * self.width / self.height * settings.aspect
        return height, settings.width or max(self.multiple, round(wide / self.multiple) * self.multiple)

    def check(self, settings: GenerationSettings, name: str) -> None:
        """Raise ParameterError where a setting has no effect on the model ``name``, or it cannot do what is asked."""
        scale, negative = settings.guidance_scale, settings.negative_prompt
        what = f"but {name} is a {self.kind}"
        names = {"steps": "generation.steps", "guidance": "generation.guidance_scale"}
        if unset := [names[one] for one in self.unstated if self._given(settings, one) is None]:
            raise ParameterError(
                f"{name} looks distilled ({self.distilled}), and neither its model card nor its scheduler states how "
                f"it generates images: set {' and '.join(unset)}."
            )
        if scale is not None and scale > self.unguided and not self.argument:
            raise ParameterError(f"guidance_scale is {scale:g}, {what}, which ignores guidance. Leave it empty (null).")
        if settings.steps is not None and self.steps is None and "steps" not in self.unstated:
            raise ParameterError(f"steps is {settings.steps}, {what}, which takes none. Leave steps empty (null).")
        if negative and not self.negative:
            raise ParameterError(
                f"negative_prompt is {negative!r}, {what}, which takes none: its network includes guidance."
            )
        if negative and not self.is_guided(settings):
            guidance_text = (
                f"the default of {name} is {self.guidance:g}" if scale is None else f"guidance_scale is {scale:g}"
            )
            why = f"it works through guidance and {guidance_text}; set guidance_scale above {self.unguided:g}"
            raise ParameterError(f"negative_prompt is {negative!r}, but {why}.")
        self.size(settings, name)

    @staticmethod
    def _given(settings: GenerationSettings, name: str) -> float | None:
        return settings.steps if name == "steps" else settings.guidance_scale

    def setting_sources(self, settings: GenerationSettings) -> dict[str, str]:
        """Return where steps and guidance come from, by setting."""
        known = f"its family, {self.kind}" if self.denoiser else f"{self.pipeline}, as its family is unknown"
        origin = {
            name: "the settings" if self._given(settings, name) is not None else self.sources.get(name, known)
            for name in ("steps", "guidance")
        }
        return {"steps": origin["steps"], **({"guidance_scale": origin["guidance"]} if self.argument else {})}

    def describe_settings(self, settings: GenerationSettings, name: str) -> str:
        """Return how the model ``name`` makes images by settings, for a terminal."""
        complete, (height, width) = self.complete_settings(settings), self.size(settings, name)
        parts_described = [
            f"{complete.steps} step{'s' * (complete.steps != 1)}" if complete.steps else "",
            f"{self.argument} {complete.guidance_scale:g}" if self.argument else "no guidance",
            f"negative prompt {settings.negative_prompt!r}" if settings.negative_prompt else "",
            f"{width} x {height} pixels" if height and width else "a size of its own",
            f"{self.text_length} tokens of text" if self.text_length else "",
            f"{self.dtype} on a GPU" if settings.dtype == "auto" else settings.dtype,
        ]
        sources = "; ".join(f"{what} by {source}" for what, source in self.setting_sources(settings).items())
        return f"{self.kind}: {', '.join(filter(None, parts_described))} ({sources})"

    def encode(self, pipe, text: str, device) -> dict[str, Any]:
        """Return an encoded text by part, each of batch size 1."""
        takes = inspect.signature(pipe.encode_prompt).parameters
        arguments = _shared(type(pipe)) | self._told() | dict.fromkeys(_PROMPTS, text)
        arguments |= {"device": device, "num_images_per_prompt": 1, "do_classifier_free_guidance": False}
        encoded = pipe.encode_prompt(**{k: v for k, v in arguments.items() if k in takes})
        # What is said of a negative prompt, where none is asked for, is nothing.
        return dict(zip(self.parts, (v for v in encoded if v is not None and len(v)), strict=False))

    def batch(self, encoded: Sequence[Mapping[str, Any]], before: str = "") -> dict[str, Any]:
        """Return what a pipeline is given of encoded texts, padded with zeros; names have ``before`` in front."""
        import torch

        given = {}
        for part in self.parts:
            # A mask that is not there is of a text that is all words.
            texts = [encoding[self.parts[0]] for encoding in encoded]
            rows = [
                encoding[part] if part in encoding else text.new_ones(text.shape[:2], dtype=int)
                for encoding, text in zip(encoded, texts, strict=True)
            ]
            if isinstance(rows[0], list):
                given[before + part] = [value.float() for row in rows for value in row]
                continue
            whole = torch.nn.utils.rnn.pad_sequence([row[0] for row in rows], batch_first=True)
            given[before + part] = whole.float() if whole.is_floating_point() else whole
        return given

    def tokens(self, encoded: Mapping[str, Any]):
        """Return what the network reads of an encoded text, ``(tokens, width)``; and as one vector, or None."""
        whole, pooled = encoded[self.parts[0]], encoded.get("pooled_prompt_embeds")
        return whole[0], None if pooled is None else pooled[0]

    def _told(self) -> dict[str, Any]:
        """Return what a pipeline is told of itself, beside what is asked of it."""
        length = {"max_sequence_length": self.text_length} if self.text_length else {}
        return {**length, **self.always}

    def arguments(self, pipe, settings: GenerationSettings) -> dict[str, Any]:
        """Return a pipeline's arguments by completed settings: steps, guidance, and what it is told of itself."""
        takes = inspect.signature(pipe.__call__).parameters
        given = {"num_inference_steps": settings.steps, **self._told()}
        if self.argument and settings.guidance_scale is not None:
            given[self.argument] = float(settings.guidance_scale)
        elif "guidance_scale" in takes and takes["guidance_scale"].default is not None:
            # What is ignored, but has to be a number.
            given["guidance_scale"] = float(self.guidance or 0)
        return {k: v for k, v in given.items() if k in takes and v is not None}

    def noise(self, height: int, width: int, generators: Sequence):
        """Return noise in latents, ``float32 (images, channels, height, width)``, each image's drawn on the CPU."""
        import torch

        places = self.scale * (2 if self.latents == "patches" else 1)
        shape = (self.channels, height // places, width // places)
        return torch.stack([torch.randn(shape, generator=g, dtype=torch.float32) for g in generators])

    def pack_latents(self, latents):
        """Return latents in the form that the pipeline takes."""
        if self.latents != "rows":
            return latents
        n, c, h, w = latents.shape
        patches = latents.view(n, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 1, 3, 5)
        return patches.reshape(n, h * w // 4, c * 4)

    def unpack_latents(self, latents, height: int, width: int):
        """Return latents as the pipeline has them as ``(images, channels, height, width)``."""
        if self.latents == "grid":
            return latents
        n, h, w = len(latents), height // self.scale // 2, width // self.scale // 2
        if self.latents == "patches":
            return latents.transpose(1, 2).reshape(n, -1, h, w)
        patches = latents.view(n, h, w, -1, 2, 2).permute(0, 3, 1, 4, 2, 5)
        return patches.reshape(n, -1, 2 * h, 2 * w)


def _shared(pipeline: type) -> dict[str, Any]:
    """Return the defaults of a pipeline's call that it hands on to ``encode_prompt``."""
    encodes = inspect.signature(pipeline.encode_prompt).parameters
    calls = inspect.signature(pipeline.__call__).parameters
    return {
        name: taken.default
        for name, taken in calls.items()
        if name in encodes and taken.default is not inspect.Parameter.empty and "prompt" not in name
    }


# -- which one a model is ------------------------------------------------------------------------------------


@functools.cache
def table() -> dict[str, dict[str, Any]]:
    """Return ``families.yaml``: entries by the class of their pipeline."""
    import yaml

    return yaml.safe_load((Path(__file__).parent / "families.yaml").read_text(encoding="utf-8"))


def family_of_pipeline(pipe, name: str = "") -> Family:
    """Return the family of a loaded pipeline, which is called ``name``."""
    parts = {part: getattr(component, "config", None) for part, component in getattr(pipe, "components", {}).items()}
    configs = {part: config for part, config in parts.items() if isinstance(config, Mapping)}
    return match_family(type(pipe), {**configs, "index": getattr(pipe, "config", {})}, name)


def family_of_files(files: ModelFiles, name: str) -> Family:
    """Return the family of a pipeline, called ``name``, of a class that diffusers has: only configurations are read."""
    import diffusers

    paths = {part: f"{part}/config.json" for part in ("unet", "transformer", "vae")}
    paths |= {"index": "model_index.json", "scheduler": "scheduler/scheduler_config.json"}
    configs = {part: files.json(path) for part, path in paths.items() if path in files.files}
    return match_family(getattr(diffusers, configs["index"]["_class_name"]), configs, name)


def match_family(pipeline: type, configs: Mapping[str, Mapping], name: str = "") -> Family:
    """Return the family of a class of pipelines, by configurations of its parts, and as ``index`` its own."""
    entry = dict(table().get(pipeline.__name__, {}))
    for variant, overrides in entry.pop("variants", {}).items():
        overrides = dict(overrides)
        if _fits(configs, overrides.pop("when", {}), overrides.pop("named", ""), name):
            entry |= {"variant": variant} | overrides
            break
    takes = inspect.signature(pipeline.__call__).parameters
    defaults = {k: p.default for k, p in takes.items() if p.default not in (inspect.Parameter.empty, None)}
    if "argument" not in entry:
        carried = [part for part in ("guidance_scale", "true_cfg_scale") if part in takes]
        entry["argument"] = next((part for part in carried if part in defaults), next(iter(carried), ""))
    entry.setdefault("steps", defaults.get("num_inference_steps"))
    entry.setdefault("guidance", defaults.get(entry["argument"]))
    entry.setdefault("negative", not {"negative_prompt", "negative_prompt_embeds"}.isdisjoint(takes))
    entry.setdefault("text_length", defaults.get("max_sequence_length"))
    entry.setdefault("dtype", "float16" if "unet" in configs else "bfloat16")
    entry["takes_size"] = {"height", "width"} <= set(takes)
    entry |= _shape(entry, configs, defaults)
    return Family(pipeline.__name__, **entry)


def _shape(entry: dict[str, Any], configs: Mapping[str, Mapping], defaults: Mapping[str, Any]) -> dict[str, int]:
    """Return height, width, multiple, scale and channels, as far as configurations tell; takes ``side`` away."""
    side, denoiser = entry.pop("side", 0), entry.get("denoiser", "")
    if not denoiser:
        height, width = (defaults.get(k) if isinstance(defaults.get(k), int) else 0 for k in ("height", "width"))
        return {"height": height, "width": width}
    network, vae = configs.get(denoiser, {}), configs.get("vae", {})
    # An autoencoder halves an image between its blocks; one of videos says it otherwise.
    halvings = vae.get("temperal_downsample", vae.get("block_out_channels", [0] * 4)[1:])
    scale, latents = 2 ** len(halvings), entry.get("latents", "grid")
    if not side and (places := network.get("sample_size")):
        side = [scale * n for n in ((places, places) if isinstance(places, int) else places)]
    height, width = (side, side) if isinstance(side, int) else side
    return {
        "height": height,
        "width": width,
        "multiple": max(8, scale) if denoiser == "unet" else 2 * scale,
        "scale": scale,
        "channels": network.get("in_channels", 0) // (4 if latents == "rows" else 1),
    }


def _fits(configs: Mapping[str, Mapping], when: Mapping[str, Any], named: str, name: str) -> bool:
    """Return whether a model is a variant."""
    values = ((configs.get(where.partition(".")[0], {}).get(where.partition(".")[2]), v) for where, v in when.items())
    if when and all(value if wanted == "any" else value == wanted for value, wanted in values):
        return True
    last = re.split(r"[/\\]", name.partition("@")[0].rstrip("/\\"))[-1]
    return bool(named) and re.search(named, last, re.IGNORECASE) is not None


# -- what a network takes and gives ----------------------------------------------------------------------------


def decode(vae, latents):
    """Return images ``(images, 3, height, width)``, -1 to 1, of latents ``(images, channels, height, width)``.

    Those that are not finite are decoded once more in float32.
    """
    images = _decode(vae, latents)
    is_finite = images.isfinite().flatten(1).all(dim=1)
    if not is_finite.all():
        with in_float32(vae):
            images = images.float()
            images[~is_finite] = _decode(vae, latents[~is_finite])
    return images


def _decode(vae, latents):
    import torch

    config, latents = vae.config, latents.float()
    mean, std = config.get("latents_mean"), config.get("latents_std")
    if norm := getattr(vae, "bn", None):
        # Patches of 2 x 2 have a scale each.
        mean, std = norm.running_mean, (norm.running_var + config.batch_norm_eps).sqrt()
        # They may wait in another memory until the network is asked.
        mean, std = (v.to(latents).view(1, -1, 1, 1) for v in (mean, std))
        n, c, h, w = latents.shape
        patches = (latents * std + mean).view(n, c // 4, 2, 2, h, w).permute(0, 1, 4, 2, 5, 3)
        latents = patches.reshape(n, c // 4, 2 * h, 2 * w)
    elif mean is not None and std is not None:
        mean, std = (torch.tensor(v, device=latents.device).view(1, -1, 1, 1) for v in (mean, std))
        latents = latents * std / config.get("scaling_factor", 1) + mean
    else:
        latents = latents / config.scaling_factor + (config.get("shift_factor") or 0)
    if "temperal_downsample" in config:
        # One of videos: an image is its first frame.
        return vae.decode(latents.to(vae.dtype)[:, :, None], return_dict=False)[0][:, :, 0]
    return vae.decode(latents.to(vae.dtype), return_dict=False)[0]


@contextlib.contextmanager
def in_float32(network) -> Iterator[None]:
    """Let a network compute in float32 meanwhile, unless it is quantised."""
    import torch

    kept = network.dtype
    if not is_quantised(network):
        network.to(torch.float32)
    try:
        yield
    finally:
        if not is_quantised(network):
            network.to(kept)


@contextlib.contextmanager
def finite_decoding(pipe, check: Callable) -> Iterator[None]:
    """Let a pipeline decode once more in float32 what is not finite; ``check`` is called with the result."""
    import torch

    decoders = [
        part
        for part in pipe.components.values()
        if isinstance(part, torch.nn.Module) and callable(getattr(part, "decode", None))
    ]

    def twice(part, plain):
        def decode(latents, *args, **kwargs):
            decoded = plain(latents, *args, **kwargs)
            # Images are first, in a tuple as in an output by name.
            if not decoded[0].isfinite().all() and part.dtype != torch.float32:
                with in_float32(part):
                    decoded = plain(latents.float(), *args, **kwargs)
            check(decoded[0])
            return decoded

        return decode

    for part in decoders:
        part.decode = twice(part, part.decode)
    try:
        yield
    finally:
        for part in decoders:
            del part.decode


def cast_inputs(denoiser, dtype) -> None:
    """Let a denoising network compute in ``dtype`` while latents and the scheduler's arithmetic stay float32.

    Times and sizes are left as they are: they lose whole numbers in bfloat16.
    """
    import torch

    names = {"sample", "hidden_states", "encoder_hidden_states", "pooled_projections"}
    names |= {"timestep_cond", "text_embeds"}

    def cast(value, to):
        if isinstance(value, list):
            return [cast(item, to) for item in value]
        return value.to(to) if torch.is_tensor(value) and value.is_floating_point() else value

    def before(module, args, kwargs):
        kwargs = {k: cast(v, dtype) if k in names else v for k, v in kwargs.items()}
        if added := kwargs.get("added_cond_kwargs"):
            kwargs["added_cond_kwargs"] = {k: cast(v, dtype) if k in names else v for k, v in added.items()}
        # The sample may be given without its name, with the time after it and then the text.
        return (tuple(v if i == 1 else cast(v, dtype) for i, v in enumerate(args)), kwargs)

    def after(module, args, output):
        return tuple(cast(v, torch.float32) for v in output)

    denoiser.to(dtype)
    denoiser.register_forward_pre_hook(before, with_kwargs=True)
    denoiser.register_forward_hook(after)


def is_quantised(network) -> bool:
    """Return whether a network's weights are quantised, so that they cannot be brought into another type."""
    return getattr(network, "hf_quantizer", None) is not None


def planar_norms(network) -> None:
    """Let norms of groups of few channels see images channel by channel, and give them back pixel by pixel.

    With fewer than 16, torch on a CPU takes one number at a time in bfloat16, which is up to three times as slow.
    """
    import torch

    def after(module, args, output):
        return output.contiguous(memory_format=torch.channels_last) if output.ndim == 4 else output

    for module in network.modules():
        if isinstance(module, torch.nn.GroupNorm) and module.num_channels < 16 * module.num_groups:
            module.register_forward_pre_hook(lambda module, args: (args[0].contiguous(),))
            module.register_forward_hook(after)
