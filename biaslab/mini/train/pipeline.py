"""Training of mini-sd as a whole: autoencoder, latents of the corpus, diffusion model."""

from __future__ import annotations

from pathlib import Path

from biaslab.mini.train import autoencoder, diffusion

# Share of the given minutes that the autoencoder gets.
_AUTOENCODER = 0.15


def train(
    folder: Path,
    *,
    steps: int = 8_000,
    batch: int = 64,
    seed: int = 0,
    checkpoint: Path | None = None,
    log: Path | None = None,
    minutes: float = 0.0,
    progress: bool = True,
    rows: int = 200_000,
    skew: str = "default",
    start_from: Path | None = None,
) -> dict[str, float]:
    """Train every part of mini-sd that ``folder`` lacks; return quality on held-out data.

    Args:
        folder: The pipeline's folder; a ``vae`` in it is kept.
        steps: Steps of the diffusion model.
        batch: Images a step of the diffusion model.
        seed: Seed of weights, corpus and draws.
        checkpoint: File of the diffusion model's resumable state; the autoencoder's, the latents and pipelines on
            the way lie beside it. By default in ``outputs/.train/mini-sd``.
        log: CSV of the diffusion model's curve; the autoencoder's lies beside it.
        minutes: Ends early, the schedule shortened to fit; 0 does all steps.
        progress: Whether progress bars are shown.
        rows: Pairs of caption and image in the corpus.
        skew: Name of the corpus's knobs.
        start_from: A pipeline folder whose weights to start from.

    Returns:
        ``psnr`` of the autoencoder in dB (where it was trained now) and ``held_out_captions``, the diffusion model's
        loss.
    """
    checkpoint = checkpoint or Path("outputs/.train/mini-sd/state.pt")
    work = checkpoint.parent
    found: dict[str, float] = {}
    if not (folder / "vae" / "config.json").exists():
        found |= autoencoder.train(
            folder / "vae",
            seed=seed,
            checkpoint=work / "autoencoder.pt",
            log=log.with_name(f"{log.stem}-autoencoder.csv") if log else None,
            minutes=_AUTOENCODER * minutes,
            progress=progress,
        )
    data = diffusion.prepare(work / "data", folder / "vae", rows=rows, seed=seed, skew=skew)
    found |= diffusion.train(
        folder,
        steps=steps,
        batch=batch,
        seed=seed,
        checkpoint=checkpoint,
        log=log,
        minutes=(1 - _AUTOENCODER) * minutes,
        progress=progress,
        data=[data],
        snapshots=work / "snapshots",
        start_from=start_from,
    )
    diffusion.pack(folder)
    return found
