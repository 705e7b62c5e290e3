"""Training of mini-sd-pairs: mini-sd's networks on prompts and renders of people whom the text places."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from biaslab.errors import MissingInputError
from biaslab.mini.train import diffusion

# Prompts and renders of one person for each of two people.
_SINGLES = 0.25


def train(
    folder: Path,
    *,
    checkpoint: Path | None = None,
    rows: int = 131_072,
    start_from: Path | None = None,
    **settings: Any,
) -> dict[str, float]:
    """Train mini-sd-pairs on from mini-sd, whose autoencoder it keeps; return quality on held-out data.

    Source: paired paper, sections 3.2 and 5 (the prompts), Tables 11 and 13 (who is shown), see
    :mod:`biaslab.mini.pairs`.

    Data and pipelines on the way lie beside the ``checkpoint``, by default in ``outputs/.train/mini-sd-pairs``.

    Args:
        folder: The pipeline's folder.
        checkpoint: File of the resumable state.
        rows: Prompts for two people with their renders; a quarter as many for one come with them.
        start_from: A pipeline folder whose weights to start from; mini-sd if ``None``.
        settings: Further fields of :class:`~biaslab.mini.train.common.Training`.

    Returns:
        ``held_out_identities`` and ``held_out_pairs``, see :func:`biaslab.mini.train.diffusion.train`.

    Raises:
        MissingInputError: mini-sd is not in this installation, or ``start_from`` has no autoencoder.
    """
    from biaslab import models

    start_from = start_from or Path(models.resolve("mini-sd", "text-to-image"))
    checkpoint = checkpoint or Path("outputs/.train/mini-sd-pairs/state.pt")
    work, vae = checkpoint.parent, folder / "vae"
    if not (vae / "config.json").exists():
        if (first := models.autoencoder(start_from)) is None:
            raise MissingInputError(f"{start_from} has no vae; name a whole pipeline to start from.")
        shutil.copytree(first, vae, dirs_exist_ok=True)
    sizes = {"identities": max(1, round(rows * _SINGLES)), "pairs": rows}
    seed = settings.get("seed", 0)
    found = diffusion.train(
        folder,
        checkpoint=checkpoint,
        data=[diffusion.prepare(work / kind, vae, rows=n, seed=seed, kind=kind) for kind, n in sizes.items()],
        snapshots=work / "snapshots",
        start_from=start_from,
        placing=0.1,
        noisier=0.6,
        **{"steps": 12_000, "learning_rate": 1e-3} | settings,
    )
    diffusion.pack(folder)
    return found
