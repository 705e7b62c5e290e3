"""Training of all parts of mini-sd: autoencoder, latents of the corpus, diffusion model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from training import diffusion

# Share of the minutes for the autoencoder.
_AUTOENCODER = 0.15


def train(folder: Path, *, minutes: float = 0.0, rows: int = 200_000, **settings: Any) -> dict[str, float]:
    """Train every part of mini-sd that ``folder`` lacks, on ``rows`` pairs of caption and image.

    ``minutes`` are divided between autoencoder and diffusion model; for everything else see
    :func:`training.diffusion.train_parts`.
    """
    return diffusion.train_parts(
        "mini-sd",
        folder,
        {"captions": rows},
        vae={"minutes": _AUTOENCODER * minutes},
        minutes=(1 - _AUTOENCODER) * minutes,
        **settings,
    )
