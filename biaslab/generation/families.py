"""How each family of models takes encoded text and noise, so that text is encoded once and noise is ours.

A family is found by the class of its pipeline. What is in none of them is given its prompts as text and one random
generator per image: slower, but as reproducible.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from biaslab.errors import ParameterError


@dataclass(frozen=True)
class Family:
    """A family of pipelines with ``encode_prompt``, a denoising network and a ``vae``."""

    denoiser: str
    """The pipeline's attribute with the denoising network."""
    parts: tuple[str, ...]
    """What the pipeline takes of an encoded prompt; with ``negative_`` before it, of a negative one."""
    prompts: int = 1
    """How many texts ``encode_prompt`` takes, one for each text encoder."""
    negative: bool = True
    """Whether guidance works by a negative prompt; otherwise the network was trained to take its scale."""
    packed: bool = False
    """Whether the network takes latents as rows of 2 x 2 patches."""

    def encode(self, pipe, text: str, negative: str | None, device) -> tuple[dict, dict]:
        """Return an encoded prompt and an encoded negative one, by part, each of batch size 1.

        An empty ``negative`` is the model's own way of having none; with None, the second mapping is empty.
        """
        asked = dict.fromkeys(("prompt", "prompt_2", "prompt_3")[: self.prompts], text)
        asked |= {"device": device, "num_images_per_prompt": 1}
        if not self.negative:
            return dict(zip(self.parts, pipe.encode_prompt(**asked), strict=False)), {}
        asked |= {"do_classifier_free_guidance": negative is not None, "negative_prompt": negative or None}
        found = pipe.encode_prompt(**asked)
        # What comes back alternates: prompt, negative prompt, for each part.
        of_text, of_negative = (dict(zip(self.parts, found[k::2], strict=False)) for k in (0, 1))
        return of_text, {} if negative is None else of_negative

    def size(self, pipe) -> tuple[int, int]:
        """Return the model's own height and width in pixels."""
        own = getattr(pipe, "default_sample_size", None) or getattr(pipe, self.denoiser).config.sample_size
        height, width = (own, own) if isinstance(own, int) else own
        return height * pipe.vae_scale_factor, width * pipe.vae_scale_factor

    def multiple(self, pipe) -> int:
        """Return what height and width in pixels must be multiples of."""
        if self.denoiser == "unet":
            return max(8, pipe.vae_scale_factor)
        return pipe.vae_scale_factor * (2 if self.packed else getattr(pipe, "patch_size", 2))

    def noise(self, pipe, height: int, width: int, generators: Sequence):
        """Return noise in latents, ``float32 (images, channels, height, width)``, each image's drawn on the CPU."""
        import torch

        channels = getattr(pipe, self.denoiser).config.in_channels // (4 if self.packed else 1)
        shape = (channels, height // pipe.vae_scale_factor, width // pipe.vae_scale_factor)
        return torch.stack([torch.randn(shape, generator=g, dtype=torch.float32) for g in generators])

    def given(self, latents):
        """Return latents in the form that the pipeline takes."""
        if not self.packed:
            return latents
        n, c, h, w = latents.shape
        patches = latents.view(n, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 1, 3, 5)
        return patches.reshape(n, h * w // 4, c * 4)

    def taken(self, pipe, latents, height: int, width: int):
        """Return latents as the pipeline gives them as ``(images, channels, height, width)``."""
        if not self.packed:
            return latents
        n, h, w = len(latents), height // pipe.vae_scale_factor, width // pipe.vae_scale_factor
        patches = latents.view(n, h // 2, w // 2, -1, 2, 2).permute(0, 3, 1, 4, 2, 5)
        return patches.reshape(n, -1, h, w)


_POOLED = ("prompt_embeds", "pooled_prompt_embeds")
# Class of a pipeline -> its family. SD 1.x and 2.x share one: they differ in weights and schedule only.
FAMILIES = {
    "StableDiffusionPipeline": Family("unet", ("prompt_embeds",)),
    "StableDiffusionXLPipeline": Family("unet", _POOLED, prompts=2),
    "StableDiffusion3Pipeline": Family("transformer", _POOLED, prompts=3),
    "FluxPipeline": Family("transformer", _POOLED, prompts=2, negative=False, packed=True),
}


def family_of(pipe) -> Family | None:
    """Return the family of a pipeline, or None if it is in none."""
    return FAMILIES.get(type(pipe).__name__)


def decode(vae, latents):
    """Return the images of latents ``(images, channels, height, width)``: ``(images, 3, height, width)``, -1 to 1.

    Those that are not finite are decoded once more in float32.
    """
    images = _decode(vae, latents)
    there = images.isfinite().flatten(1).all(dim=1)
    if not there.all():
        with in_float32(vae):
            images = images.float()
            images[~there] = _decode(vae, latents[~there])
    return images


def _decode(vae, latents):
    import torch

    config, latents = vae.config, latents.float()
    mean, std = config.get("latents_mean"), config.get("latents_std")
    if mean is not None and std is not None:
        mean, std = (torch.tensor(v, device=latents.device).view(1, -1, 1, 1) for v in (mean, std))
        latents = latents * std / config.scaling_factor + mean
    else:
        latents = latents / config.scaling_factor + (config.get("shift_factor") or 0)
    return vae.decode(latents.to(vae.dtype), return_dict=False)[0]


@contextlib.contextmanager
def in_float32(network) -> Iterator[None]:
    """Let a network compute in float32 meanwhile, with the weights that it has."""
    import torch

    kept = network.dtype
    network.to(torch.float32)
    try:
        yield
    finally:
        network.to(kept)


@contextlib.contextmanager
def finite_decoding(pipe, check: Callable) -> Iterator[None]:
    """Let a pipeline that decodes by itself decode a batch once more in float32 where its images are not finite.

    ``check`` is called with what is decoded, before the pipeline cuts off what is beyond white and black.
    """
    import torch

    decoders = [
        part
        for part in pipe.components.values()
        if isinstance(part, torch.nn.Module) and callable(getattr(part, "decode", None))
    ]

    def twice(part, own):
        def decode(latents, *args, **kwargs):
            found = own(latents, *args, **kwargs)
            # Images are first, in a tuple as in an output by name.
            if not found[0].isfinite().all() and part.dtype != torch.float32:
                with in_float32(part):
                    found = own(latents.float(), *args, **kwargs)
            check(found[0])
            return found

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

    def small(value):
        return value.to(dtype) if torch.is_tensor(value) and value.is_floating_point() else value

    def before(module, args, kwargs):
        kwargs = {k: small(v) if k in names else v for k, v in kwargs.items()}
        if added := kwargs.get("added_cond_kwargs"):
            kwargs["added_cond_kwargs"] = {k: small(v) if k in names else v for k, v in added.items()}
        # Only the sample is given without its name, with the time after it.
        return (tuple(small(v) if i == 0 else v for i, v in enumerate(args)), kwargs)

    def after(module, args, output):
        return tuple(v.float() if torch.is_tensor(v) else v for v in output)

    denoiser.to(dtype)
    denoiser.register_forward_pre_hook(before, with_kwargs=True)
    denoiser.register_forward_hook(after)


def planar_norms(network) -> None:
    """Let norms of groups of few channels see images channel by channel, and give them back pixel by pixel.

    On a CPU, torch goes through each pixel's channels of a group in vectors of 16: with fewer, one number at a time in
    bfloat16, which takes up to three times as long as turning the image there and back.
    """
    import torch

    def after(module, args, output):
        return output.contiguous(memory_format=torch.channels_last) if output.ndim == 4 else output

    for module in network.modules():
        if isinstance(module, torch.nn.GroupNorm) and module.num_channels < 16 * module.num_groups:
            module.register_forward_pre_hook(lambda module, args: (args[0].contiguous(),))
            module.register_forward_hook(after)


def check_guidance(family: Family | None, pipe, negative_prompt: str) -> None:
    """Raise ParameterError where a model cannot take the negative prompt."""
    takes = family.negative if family else "negative_prompt" in inspect.signature(pipe.__call__).parameters
    if negative_prompt and not takes:
        raise ParameterError(
            f"negative_prompt is {negative_prompt!r}, but a {type(pipe).__name__} takes none: its guidance is part of "
            "the network. Leave negative_prompt empty."
        )
