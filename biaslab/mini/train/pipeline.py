"""Training of mini-sd as a whole: autoencoder, latents of the corpus, diffusion model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from biaslab.mini.train import autoencoder, diffusion

# Share of the given minutes that the autoencoder gets.
_AUTOENCODER = 0.15


def train(
    folder: Path,
    *,
    checkpoint: Path | None = None,
    log: Path | None = None,
    minutes: float = 0.0,
    rows: int = 200_000,
    start_from: Path | None = None,
    **settings: Any,
) -> dict[str, float]:
    """Train every part of mini-sd that ``folder`` lacks; return quality on held-out data.

    Args:
        folder: The pipeline's folder; a ``vae`` in it is kept.
        checkpoint: File of the diffusion model's resumable state; the autoencoder's, the latents and pipelines on
            the way lie beside it. By default in ``outputs/.train/mini-sd``.
        log: CSV of the diffusion model's curve; the autoencoder's lies beside it.
        minutes: Ends early, the schedule shortened to fit; 0 does all steps.
        rows: Pairs of caption and image in the corpus.
        start_from: A pipeline folder whose weights to start from.
        settings: Further fields of :class:`~biaslab.mini.train.common.Training`; steps and batch are the diffusion
            model's.

    Returns:
        ``psnr`` of the autoencoder in dB (where it was trained now) and ``held_out_captions``, the diffusion model's
        loss.
    """
    checkpoint = checkpoint or Path("outputs/.train/mini-sd/state.pt")
    work, seed = checkpoint.parent, settings.get("seed", 0)
    found: dict[str, float] = {}
    if not (folder / "vae" / "config.json").exists():
        found |= autoencoder.train(
            folder / "vae",
            seed=seed,
            checkpoint=work / "autoencoder.pt",
            log=log.with_name(f"{log.stem}-autoencoder.csv") if log else None,
            minutes=_AUTOENCODER * minutes,
            progress=settings.get("progress", True),
        )
    found |= diffusion.train(
        folder,
        checkpoint=checkpoint,
        log=log,
        minutes=(1 - _AUTOENCODER) * minutes,
        data=[diffusion.prepare(work / "data", folder / "vae", rows=rows, seed=seed)],
        snapshots=work / "snapshots",
        start_from=start_from,
        **settings,
    )
    diffusion.pack(folder)
    return found
