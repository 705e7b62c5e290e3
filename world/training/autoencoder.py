"""Training of mini-sd's autoencoder on renders of the synthetic world."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from biaslab_world import looks, render, scene
from training.cards import Measured
from training.common import Average, Training, chunks, mixed_precision, rng, to_tensor, torch_rng

SIZE = 64
LATENTS = 8
POOL = 16_000
HELD_OUT = 512
KL = 1e-3
EDGES = 0.5
# Weight of the pixels of faces, which are small and contain the features that judges need.
FACES = 4.0


def build() -> torch.nn.Module:
    """Return the autoencoder with random weights: 64x64 pixels to 8 channels of 16x16."""
    from diffusers import AutoencoderKL

    return AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 3,
        up_block_types=("UpDecoderBlock2D",) * 3,
        block_out_channels=(16, 32, 64),
        layers_per_block=1,
        latent_channels=LATENTS,
        norm_num_groups=8,
        sample_size=SIZE,
        mid_block_add_attention=False,
    )


def pool(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ``n`` renders of one or two people, uint8 (n, 64, 64, 3), and masks of faces, bool (n, 64, 64)."""
    draw = np.random.default_rng([seed, 77])
    names = sorted(looks.OUTFITS)
    images, faces = np.empty((n, SIZE, SIZE, 3), np.uint8), np.zeros((n, SIZE, SIZE), bool)
    for i in range(n):
        people = 2 if i % 6 == 0 else 1
        genders, occupations = draw.choice(scene.GENDERS, people), draw.choice(names, people)
        sampled = scene.sample_scene(draw, genders=tuple(genders), occupations=tuple(occupations))
        image = render.render(sampled, SIZE)
        left = int(draw.integers(image.shape[1] - SIZE + 1))
        images[i] = image[:, left : left + SIZE]
        for region in render.truth(sampled, SIZE).faces:
            faces[i] |= region.mask[:, left : left + SIZE]
    return images, faces


def train(
    folder: Path,
    *,
    pool_size: int = POOL,
    pool: Callable[[int, int], tuple[np.ndarray, np.ndarray]] = pool,
    start_from: Path | None = None,
    **settings: Any,
) -> dict[str, float]:
    """Train the autoencoder and save it to ``folder``; return its quality on held-out renders.

    The loss is the mean squared and absolute error, the absolute error of differences between neighbouring pixels
    (for sharp edges), and a weak KL divergence of latents from a standard normal distribution. ``pool`` draws the
    renders like :func:`pool`; ``settings`` are fields of :class:`~training.common.Training`. The result has ``psnr`` in
    dB, and ``psnr_faces`` within faces.
    """
    training = Training(**{"steps": 9_000, "batch": 16, "learning_rate": 2e-3} | settings)
    seed, batch = training.seed, training.batch
    torch.manual_seed(seed)
    images, faces = pool(pool_size, seed)
    held_out = pool(HELD_OUT, seed + 1)
    vae = build().to(memory_format=torch.channels_last)
    if start_from is not None:
        from diffusers import AutoencoderKL

        vae.load_state_dict(AutoencoderKL.from_pretrained(start_from).float().state_dict())
    average = Average({"vae": vae})

    def reconstruct(pixels, noise):
        with mixed_precision():
            moments = vae.quant_conv(vae.encoder(pixels))
            mean, logvar = moments.float().chunk(2, 1)
            logvar = logvar.clamp(-12, 4)
            latents = mean + noise * (0.5 * logvar).exp()
            decoded = vae.decoder(vae.post_quant_conv(latents))
        return mean, logvar, decoded.float()

    run = training.run(reconstruct)

    def loss(i: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        chosen = rng(seed, i).integers(len(images), size=batch)
        pixels = to_tensor(images[chosen]).contiguous(memory_format=torch.channels_last)
        weight = 1 + (FACES - 1) * torch.from_numpy(faces[chosen])[:, None].float()
        noise = torch.randn(batch, LATENTS, SIZE // 4, SIZE // 4, generator=torch_rng(seed, i))
        mean, logvar, decoded = run(pixels, noise)
        error = (decoded - pixels) * weight
        edges = error.diff(dim=-1).abs().mean() + error.diff(dim=-2).abs().mean()
        kl = 0.5 * (mean**2 + logvar.exp() - 1 - logvar).mean()
        total = error.pow(2).mean() + error.abs().mean() + EDGES * edges + KL * kl
        return total, {"loss": total, "kl": kl}

    best = average.averaged["vae"]

    def quality() -> dict[str, float]:
        return dict(zip(("psnr", "psnr_faces"), psnr(best, *held_out), strict=True))

    result = training.fit({"vae": vae}, average, loss, quality, quality_every=1000, weight_decay=1e-4)
    # Latents are scaled to unit standard deviation, as in Stable Diffusion.
    spread = encode(best, images[:2048], scaled=False).astype(np.float32).std()
    best.register_to_config(scaling_factor=float(1 / spread))
    folder.mkdir(parents=True, exist_ok=True)
    best.half().save_pretrained(folder, safe_serialization=True)
    return result


def encode(vae: torch.nn.Module, images: np.ndarray, *, scaled: bool = True) -> np.ndarray:
    """Return the means of the latents of uint8 images (n, h, w, 3), float16 (n, 8, h/4, w/4)."""
    factor = vae.config.scaling_factor if scaled else 1.0
    with torch.inference_mode(), mixed_precision():
        latents = [(vae.encode(x).latent_dist.mean.float() * factor).half().numpy() for x in chunks(images)]
    return np.concatenate(latents)


def psnr(vae: torch.nn.Module, images: np.ndarray, faces: np.ndarray) -> tuple[float, float]:
    """Return the peak signal-to-noise ratio of reconstruction in dB, for entire images and within ``faces``.

    Images are uint8 (n, h, w, 3), faces bool (n, h, w).
    """
    errors = []
    with torch.inference_mode(), mixed_precision():
        for pixels in chunks(images):
            decoded = vae.decode(vae.encode(pixels).latent_dist.mean).sample.float().clamp(-1, 1)
            errors.append((127.5 * (decoded - pixels)).pow(2).mean(1))
    error = torch.cat(errors).numpy()
    return tuple(float(10 * np.log10(255**2 / e)) for e in (error.mean(), error[faces].mean()))


def card_rows(folder: Path, images: np.ndarray, regions: np.ndarray, region: str) -> list[Measured]:
    """Return the rows of a card about the autoencoder in ``folder``, for images and a mask ``regions`` of each.

    ``region`` is the kind of regions: ``faces`` or ``things``.
    """
    from diffusers import AutoencoderKL

    ratios = psnr(AutoencoderKL.from_pretrained(folder).float().eval(), images, regions)
    names = "psnr", f"psnr_{region}"
    return [Measured(name, value, len(images), points=True) for name, value in zip(names, ratios, strict=True)]
