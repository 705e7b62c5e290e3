"""Images passed through a model's autoencoder, so that they look to a judge like generated images."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from biaslab.errors import loading


def through_autoencoder(folder: Path, images: np.ndarray, *, seed: int = 0, noise: float = 0.0) -> np.ndarray:
    """Return images, uint8 (n, height, width, 3), encoded and decoded by diffusers' autoencoder in ``folder``.

    The autoencoder always runs in float32: a processor without native bfloat16 takes six times as long with it. Latents
    get noise, determined by ``seed``, with a standard deviation of up to ``noise`` times that of the latents.
    """
    import torch

    vae = _autoencoder(folder)
    out, size = [], 64
    with torch.inference_mode():
        for k, start in enumerate(range(0, len(images), size)):
            pixels = torch.from_numpy(np.ascontiguousarray(images[start : start + size])).permute(0, 3, 1, 2)
            pixels = pixels.float().div(127.5).sub(1).contiguous(memory_format=torch.channels_last)
            latents = vae.encode(pixels).latent_dist.mean
            if noise:
                latents = latents + noise * _noise(latents.shape, seed, k) / vae.config.scaling_factor
            values = vae.decode(latents).sample.clamp(-1, 1).add(1).mul(127.5).round().to(torch.uint8)
            out.append(values.permute(0, 2, 3, 1).numpy())
    return np.concatenate(out)


@lru_cache(maxsize=2)
def _autoencoder(folder: Path):
    """Return an autoencoder, loaded once in each process.

    Images are decoded in a prefetching thread. While diffusers loads a model, modules that other threads create get no
    values; loading therefore takes the common lock.
    """
    import torch
    from diffusers import AutoencoderKL

    with loading(str(folder), "an autoencoder"):
        vae = AutoencoderKL.from_pretrained(folder, torch_dtype=torch.float32).eval()
    return vae.to(memory_format=torch.channels_last)


def _noise(shape: tuple[int, ...], seed: int, k: int):
    """Return normal noise with a random standard deviation from 0 to 1 for each image."""
    import torch

    def draws(stream: int) -> torch.Generator:
        number = np.random.default_rng([seed, stream, k]).integers(2**63 - 1)
        return torch.Generator().manual_seed(int(number))

    return torch.randn(shape, generator=draws(43)) * torch.rand(shape[0], 1, 1, 1, generator=draws(44))
