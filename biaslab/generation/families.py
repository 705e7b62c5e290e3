"""Families of models: the inputs of each for encoded text and noise, and its recommended settings.

``families.yaml`` lists them by the class of the pipeline, and variants by their configurations. Other models have the
default settings in their pipeline's signature, and receive prompts as text: slower, but as reproducible.
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

# Heights and widths are multiples of this if a pipeline's own multiple is unknown.
_DEFAULT_MULTIPLE = 64
# Names of a pipeline's prompts; each gets the same text.
_PROMPTS = ("prompt", "prompt_2", "prompt_3")


@dataclass(frozen=True)
class Family:
    """The properties of a model: an entry of ``families.yaml``, completed by the pipeline's signature and sizes."""

    pipeline: str  # Its class.
    variant: str = ""  # The variant of the class, if the table has several.
    denoiser: str = ""  # Its attribute with the denoising network; empty if it receives prompts as text.
    parts: Sequence[str] = ()  # Its inputs from an encoded prompt; with the prefix ``negative_``, from a negative one.
    columns: Sequence[Sequence[str]] = ()
    """The parts of its text in the order in which the network reads them: the tokenizers whose tokens share columns.
    Empty if unknown."""
    latents: str = "grid"
    """The form of the network's latents: a ``grid``; ``rows`` of 2 x 2 of it; or rows of a grid of 2 x 2 ``patches``,
    each with its own scale in the autoencoder."""
    steps: int | None = None  # Its default number of denoising steps; None if it takes none.
    guidance: float | None = None  # Its default guidance scale; None if guidance has no effect.
    argument: str = ""  # The pipeline's argument for the guidance scale; empty if none has an effect.
    unguided: float = 1.0  # The maximum scale without guidance.
    negative: bool = True  # Whether a negative prompt has an effect; otherwise guidance is part of the network.
    no_negative: str = ""  # The negative prompt if the settings have none.
    text_length: int | None = None  # Maximum tokens of a text for the last tokenizer, if it is an argument.
    chat: bool = False  # Whether a text is formatted as a chat message, whose template takes some of these tokens.
    always: Mapping[str, Any] = field(default_factory=dict)  # Further arguments of the pipeline.
    dtype: str = "bfloat16"  # Number type of the network on a GPU.
    # Its default size in pixels, if known; and the multiple of height and width.
    height: int = 0
    width: int = 0
    multiple: int = _DEFAULT_MULTIPLE
    scale: int = 8  # Pixels of the image for one of the latents, in each direction.
    channels: int = 0  # Channels of latents.
    takes_size: bool = True  # Whether the pipeline has arguments for height and width.
    # Completed by :mod:`biaslab.generation.stated`: the word in its name for a distilled model; those of steps and
    # guidance that no source states, so that they are None; and the sources of the others.
    distilled: str = ""
    unstated: Sequence[str] = ()
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """Its name in messages."""
        return f"{self.pipeline} ({self.variant})" if self.variant else self.pipeline

    def is_guided(self, settings: GenerationSettings) -> bool:
        """Return whether images are guided, by the scale of the settings or by the model's default scale."""
        scale = self.guidance if settings.guidance_scale is None else settings.guidance_scale
        return scale is not None and scale > self.unguided

    def complete_settings(self, settings: GenerationSettings) -> GenerationSettings:
        """Return settings with missing steps and guidance replaced by the model's defaults."""
        defaults = {"steps": self.steps, "guidance_scale": self.guidance}
        return settings.with_changes(**{k: v for k, v in defaults.items() if getattr(settings, k) is None})

    def size(self, settings: GenerationSettings, name: str) -> tuple[int, int]:
        """Return height and width of images in pixels; 0 if they are unknown defaults of the pipeline.

        Raises ParameterError where the model ``name`` does not support them.
        """
        sizes = {"height": settings.height, "width": settings.width}
        if not self.takes_size and any(sizes.values()):
            raise ParameterError(f"{name} is a {self.pipeline}, which has a fixed size. Set height and width to 0.")
        for side, value in sizes.items():
            if self.denoiser and value % self.multiple:
                nearest = max(self.multiple, round(value / self.multiple) * self.multiple)
                raise ParameterError(
                    f"{side} is {value}; {name} generates images in multiples of {self.multiple}, for example "
                    f"{nearest}."
                )
        height = settings.height or self.height
        if settings.aspect == 1:
            return height, settings.width or self.width
        if not (height and self.width and self.takes_size):
            cause = f"{name} is a {self.pipeline}, whose default aspect ratio is unknown"
            raise ParameterError(
                f"aspect is {settings.aspect:g}, but {cause}. Set generation.aspect and paired.aspect to 1."
            )
        # The requested width, rounded to a multiple that the model supports.
        new_width = height * self.width / self.height * settings.aspect
        return height, settings.width or max(self.multiple, round(new_width / self.multiple) * self.multiple)

    def check(self, settings: GenerationSettings, name: str) -> None:
        """Raise ParameterError where the model ``name`` ignores a setting, or does not support it."""
        scale, negative = settings.guidance_scale, settings.negative_prompt
        clause = f"but {name} is a {self.kind}"
        names = {"steps": "generation.steps", "guidance": "generation.guidance_scale"}
        if unset := [names[setting] for setting in self.unstated if self._setting_value(settings, setting) is None]:
            raise ParameterError(
                f"{name} seems to be distilled ({self.distilled}), but neither its model card nor its scheduler states "
                f"how it generates images. Set {' and '.join(unset)}."
            )
        if scale is not None and scale > self.unguided and not self.argument:
            raise ParameterError(
                f"guidance_scale is {scale:g}, {clause}, which ignores guidance. Leave guidance_scale empty (null)."
            )
        if settings.steps is not None and self.steps is None and "steps" not in self.unstated:
            raise ParameterError(
                f"steps is {settings.steps}, {clause}, which has no such setting. Leave steps empty (null)."
            )
        if negative and not self.negative:
            raise ParameterError(
                f"negative_prompt is {negative!r}, {clause}, which accepts none, because its network includes "
                "guidance. Leave negative_prompt empty."
            )
        if negative and not self.is_guided(settings):
            guidance_text = (
                f"the default guidance_scale of {name} is {self.guidance:g}"
                if scale is None
                else f"guidance_scale is {scale:g}"
            )
            reason = f"it only works with guidance, and {guidance_text}. Set guidance_scale above {self.unguided:g}"
            raise ParameterError(f"negative_prompt is {negative!r}, but {reason}.")
        self.size(settings, name)

    @staticmethod
    def _setting_value(settings: GenerationSettings, name: str) -> float | None:
        return settings.steps if name == "steps" else settings.guidance_scale

    def setting_sources(self, settings: GenerationSettings) -> dict[str, str]:
        """Return the sources of steps and guidance, by setting."""
        default = f"its family, {self.kind}" if self.denoiser else f"{self.pipeline}, because its family is unknown"
        sources = {
            name: "the settings" if self._setting_value(settings, name) is not None else self.sources.get(name, default)
            for name in ("steps", "guidance")
        }
        return {"steps": sources["steps"], **({"guidance_scale": sources["guidance"]} if self.argument else {})}

    def describe_settings(self, settings: GenerationSettings, name: str) -> str:
        """Return a description of how the model ``name`` generates images with settings, for a terminal."""
        complete, (height, width) = self.complete_settings(settings), self.size(settings, name)
        parts = [
            f"{complete.steps} step{'s' * (complete.steps != 1)}" if complete.steps else "",
            f"{self.argument} {complete.guidance_scale:g}" if self.argument else "no guidance",
            f"negative prompt {settings.negative_prompt!r}" if settings.negative_prompt else "",
            f"{width} x {height} pixels" if height and width else "its default size",
            f"{self.text_length} text tokens" if self.text_length else "",
            f"{self.dtype} on a GPU" if settings.dtype == "auto" else settings.dtype,
        ]
        sources = "; ".join(f"{setting} from {source}" for setting, source in self.setting_sources(settings).items())
        return f"{self.kind}: {', '.join(filter(None, parts))} ({sources})"

    def encode(self, pipe, text: str, device) -> dict[str, Any]:
        """Return an encoded text by part, each of batch size 1."""
        parameters = inspect.signature(pipe.encode_prompt).parameters
        arguments = _shared_defaults(type(pipe)) | self._fixed_arguments() | dict.fromkeys(_PROMPTS, text)
        arguments |= {"device": device, "num_images_per_prompt": 1, "do_classifier_free_guidance": False}
        encoded = pipe.encode_prompt(**{k: v for k, v in arguments.items() if k in parameters})
        # Without a negative prompt, its embeddings are None or empty.
        return dict(zip(self.parts, (v for v in encoded if v is not None and len(v)), strict=False))

    def batch(self, encoded: Sequence[Mapping[str, Any]], prefix: str = "") -> dict[str, Any]:
        """Return a pipeline's arguments for encoded texts, padded with zeros; names begin with ``prefix``."""
        import torch

        arguments = {}
        for part in self.parts:
            # A missing mask belongs to a text without padding.
            texts = [encoding[self.parts[0]] for encoding in encoded]
            rows = [
                encoding[part] if part in encoding else text.new_ones(text.shape[:2], dtype=int)
                for encoding, text in zip(encoded, texts, strict=True)
            ]
            if isinstance(rows[0], list):
                arguments[prefix + part] = [value.float() for row in rows for value in row]
                continue
            padded_rows = torch.nn.utils.rnn.pad_sequence([row[0] for row in rows], batch_first=True)
            arguments[prefix + part] = padded_rows.float() if padded_rows.is_floating_point() else padded_rows
        return arguments

    def tokens(self, encoded: Mapping[str, Any]):
        """Return the network's inputs for an encoded text: ``(tokens, width)``, and one pooled vector or None."""
        embeddings, pooled = encoded[self.parts[0]], encoded.get("pooled_prompt_embeds")
        return embeddings[0], None if pooled is None else pooled[0]

    def _fixed_arguments(self) -> dict[str, Any]:
        """Return the pipeline's arguments that do not depend on settings."""
        length = {"max_sequence_length": self.text_length} if self.text_length else {}
        return {**length, **self.always}

    def arguments(self, pipe, settings: GenerationSettings) -> dict[str, Any]:
        """Return a pipeline's arguments for completed settings: steps, guidance, and fixed arguments."""
        parameters = inspect.signature(pipe.__call__).parameters
        values = {"num_inference_steps": settings.steps, **self._fixed_arguments()}
        if self.argument and settings.guidance_scale is not None:
            values[self.argument] = float(settings.guidance_scale)
        elif "guidance_scale" in parameters and parameters["guidance_scale"].default is not None:
            # The value is ignored, but must be a number.
            values["guidance_scale"] = float(self.guidance or 0)
        return {k: v for k, v in values.items() if k in parameters and v is not None}

    def noise(self, height: int, width: int, generators: Sequence):
        """Return noise as latents, ``float32 (images, channels, height, width)``, drawn on the CPU for each image."""
        import torch

        pixels_per_latent = self.scale * (2 if self.latents == "patches" else 1)
        shape = (self.channels, height // pixels_per_latent, width // pixels_per_latent)
        return torch.stack([torch.randn(shape, generator=g, dtype=torch.float32) for g in generators])

    def pack_latents(self, latents):
        """Return latents in the form that the pipeline requires."""
        if self.latents != "rows":
            return latents
        n, c, h, w = latents.shape
        patches = latents.view(n, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 1, 3, 5)
        return patches.reshape(n, h * w // 4, c * 4)

    def unpack_latents(self, latents, height: int, width: int):
        """Return latents in the pipeline's form as ``(images, channels, height, width)``."""
        if self.latents == "grid":
            return latents
        n, h, w = len(latents), height // self.scale // 2, width // self.scale // 2
        if self.latents == "patches":
            return latents.transpose(1, 2).reshape(n, -1, h, w)
        patches = latents.view(n, h, w, -1, 2, 2).permute(0, 3, 1, 4, 2, 5)
        return patches.reshape(n, -1, 2 * h, 2 * w)


def _shared_defaults(pipeline: type) -> dict[str, Any]:
    """Return the defaults of a pipeline's call that it passes to ``encode_prompt``."""
    encode_parameters = inspect.signature(pipeline.encode_prompt).parameters
    call_parameters = inspect.signature(pipeline.__call__).parameters
    return {
        name: parameter.default
        for name, parameter in call_parameters.items()
        if name in encode_parameters and parameter.default is not inspect.Parameter.empty and "prompt" not in name
    }


# -- the family of a model -----------------------------------------------------------------------------------


@functools.cache
def table() -> dict[str, dict[str, Any]]:
    """Return ``families.yaml``: entries by the class of their pipeline."""
    import yaml

    return yaml.safe_load((Path(__file__).parent / "families.yaml").read_text(encoding="utf-8"))


def family_of_pipeline(pipe, name: str = "") -> Family:
    """Return the family of a loaded pipeline called ``name``."""
    parts = {part: getattr(component, "config", None) for part, component in getattr(pipe, "components", {}).items()}
    configs = {part: config for part, config in parts.items() if isinstance(config, Mapping)}
    return match_family(type(pipe), {**configs, "index": getattr(pipe, "config", {})}, name)


def family_of_files(files: ModelFiles, name: str) -> Family:
    """Return the family of a pipeline called ``name``, of a class of diffusers; only configurations are read."""
    import diffusers

    paths = {part: f"{part}/config.json" for part in ("unet", "transformer", "vae")}
    paths |= {"index": "model_index.json", "scheduler": "scheduler/scheduler_config.json"}
    configs = {part: files.json(path) for part, path in paths.items() if path in files.files}
    return match_family(getattr(diffusers, configs["index"]["_class_name"]), configs, name)


def match_family(pipeline: type, configs: Mapping[str, Mapping], name: str = "") -> Family:
    """Return the family of a pipeline class, by configurations of its parts; that of the pipeline is ``index``."""
    entry = dict(table().get(pipeline.__name__, {}))
    for variant, overrides in entry.pop("variants", {}).items():
        overrides = dict(overrides)
        if _is_variant(configs, overrides.pop("when", {}), overrides.pop("named", ""), name):
            entry |= {"variant": variant} | overrides
            break
    parameters = inspect.signature(pipeline.__call__).parameters
    defaults = {k: p.default for k, p in parameters.items() if p.default not in (inspect.Parameter.empty, None)}
    if "argument" not in entry:
        guidance_names = [part for part in ("guidance_scale", "true_cfg_scale") if part in parameters]
        entry["argument"] = next((part for part in guidance_names if part in defaults), next(iter(guidance_names), ""))
    entry.setdefault("steps", defaults.get("num_inference_steps"))
    entry.setdefault("guidance", defaults.get(entry["argument"]))
    entry.setdefault("negative", not {"negative_prompt", "negative_prompt_embeds"}.isdisjoint(parameters))
    entry.setdefault("text_length", defaults.get("max_sequence_length"))
    entry.setdefault("dtype", "float16" if "unet" in configs else "bfloat16")
    entry["takes_size"] = {"height", "width"} <= set(parameters)
    entry |= _find_sizes(entry, configs, defaults)
    return Family(pipeline.__name__, **entry)


def _find_sizes(entry: dict[str, Any], configs: Mapping[str, Mapping], defaults: Mapping[str, Any]) -> dict[str, int]:
    """Return height, width, multiple, scale and channels from configurations, 0 if unknown; remove ``side``."""
    side, denoiser = entry.pop("side", 0), entry.get("denoiser", "")
    if not denoiser:
        height, width = (defaults.get(k) if isinstance(defaults.get(k), int) else 0 for k in ("height", "width"))
        return {"height": height, "width": width}
    network, vae = configs.get(denoiser, {}), configs.get("vae", {})
    # An autoencoder halves an image between its blocks; one for videos has another entry.
    halvings = vae.get("temperal_downsample", vae.get("block_out_channels", [0] * 4)[1:])
    scale, latents = 2 ** len(halvings), entry.get("latents", "grid")
    if not side and (size := network.get("sample_size")):
        side = [scale * n for n in ((size, size) if isinstance(size, int) else size)]
    height, width = (side, side) if isinstance(side, int) else side
    return {
        "height": height,
        "width": width,
        "multiple": max(8, scale) if denoiser == "unet" else 2 * scale,
        "scale": scale,
        "channels": network.get("in_channels", 0) // (4 if latents == "rows" else 1),
    }


def _is_variant(configs: Mapping[str, Mapping], when: Mapping[str, Any], pattern: str, name: str) -> bool:
    """Return whether a model is the variant with these conditions on configurations and name."""
    values = ((configs.get(path.partition(".")[0], {}).get(path.partition(".")[2]), v) for path, v in when.items())
    if when and all(value if expected == "any" else value == expected for value, expected in values):
        return True
    base_name = re.split(r"[/\\]", name.partition("@")[0].rstrip("/\\"))[-1]
    return bool(pattern) and re.search(pattern, base_name, re.IGNORECASE) is not None


# -- inputs and outputs of networks ----------------------------------------------------------------------------


def decode(vae, latents):
    """Return images ``(images, 3, height, width)``, -1 to 1, of latents ``(images, channels, height, width)``.

    Images that are not finite are decoded again in float32.
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
        # Each element of a 2 x 2 patch has its own scale.
        mean, std = norm.running_mean, (norm.running_var + config.batch_norm_eps).sqrt()
        # With offloading, they may be on another device until the network runs.
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
        # For an autoencoder of videos, an image is the first frame.
        return vae.decode(latents.to(vae.dtype)[:, :, None], return_dict=False)[0][:, :, 0]
    return vae.decode(latents.to(vae.dtype), return_dict=False)[0]


@contextlib.contextmanager
def in_float32(network) -> Iterator[None]:
    """Make a network compute in float32 in this context, unless it is quantised."""
    import torch

    dtype = network.dtype
    if not is_quantised(network):
        network.to(torch.float32)
    try:
        yield
    finally:
        if not is_quantised(network):
            network.to(dtype)


@contextlib.contextmanager
def finite_decoding(pipe, check: Callable) -> Iterator[None]:
    """Make a pipeline repeat decoding in float32 after results that are not finite; ``check`` gets the result."""
    import torch

    decoders = [
        part
        for part in pipe.components.values()
        if isinstance(part, torch.nn.Module) and callable(getattr(part, "decode", None))
    ]

    def decode_with_retry(part, original):
        def decode(latents, *args, **kwargs):
            decoded = original(latents, *args, **kwargs)
            # Images are first, both in a tuple and in a named output.
            if not decoded[0].isfinite().all() and part.dtype != torch.float32:
                with in_float32(part):
                    decoded = original(latents.float(), *args, **kwargs)
            check(decoded[0])
            return decoded

        return decode

    for part in decoders:
        part.decode = decode_with_retry(part, part.decode)
    try:
        yield
    finally:
        for part in decoders:
            del part.decode


def cast_inputs(denoiser, dtype) -> None:
    """Make a denoising network compute in ``dtype`` while latents and the scheduler's arithmetic stay float32.

    Times and sizes are not converted, because bfloat16 does not represent large integers exactly.
    """
    import torch

    names = {"sample", "hidden_states", "encoder_hidden_states", "pooled_projections"}
    names |= {"timestep_cond", "text_embeds"}

    def cast(value, target):
        if isinstance(value, list):
            return [cast(item, target) for item in value]
        return value.to(target) if torch.is_tensor(value) and value.is_floating_point() else value

    def cast_arguments(module, args, kwargs):
        kwargs = {k: cast(v, dtype) if k in names else v for k, v in kwargs.items()}
        if added_conditions := kwargs.get("added_cond_kwargs"):
            kwargs["added_cond_kwargs"] = {k: cast(v, dtype) if k in names else v for k, v in added_conditions.items()}
        # The sample may be a positional argument, followed by the time and the text.
        return (tuple(v if i == 1 else cast(v, dtype) for i, v in enumerate(args)), kwargs)

    def cast_output(module, args, output):
        return tuple(cast(v, torch.float32) for v in output)

    denoiser.to(dtype)
    denoiser.register_forward_pre_hook(cast_arguments, with_kwargs=True)
    denoiser.register_forward_hook(cast_output)


def is_quantised(network) -> bool:
    """Return whether a network's weights are quantised, so that they cannot be converted to another type."""
    return getattr(network, "hf_quantizer", None) is not None


def planar_norms(network) -> None:
    """Make group norms with few channels per group compute in contiguous format, and return channels-last format.

    With fewer than 16 channels, torch on a CPU processes one bfloat16 number at a time, which is up to 3 times slower.
    """
    import torch

    def to_channels_last(module, args, output):
        return output.contiguous(memory_format=torch.channels_last) if output.ndim == 4 else output

    for module in network.modules():
        if isinstance(module, torch.nn.GroupNorm) and module.num_channels < 16 * module.num_groups:
            module.register_forward_pre_hook(lambda module, args: (args[0].contiguous(),))
            module.register_forward_hook(to_channels_last)
