"""Training of mini-sd-pairs: mini-sd's networks on prompts and renders of people whom the text places."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from biaslab import models
from biaslab.mini.train import diffusion

# Prompts and renders of one person for each of two people.
_SINGLES = 0.25


def train(
    folder: Path, *, rows: int = 131_072, start_from: Path | None = None, **settings: Any
) -> dict[str, float]:
    """Train mini-sd-pairs on from mini-sd, whose autoencoder it keeps; return quality on held-out data.

    Source: paired paper, sections 3.2 and 5 (the prompts), Tables 11 and 13 (who is shown), see
    :mod:`biaslab.mini.pairs`.

    Args:
        folder: The pipeline's folder.
        rows: Prompts for two people with their renders; a quarter as many for one come with them.
        start_from: A pipeline folder whose weights to start from; mini-sd if ``None``.
        settings: As of :func:`biaslab.mini.train.diffusion.train_parts`.

    Raises:
        MissingInputError: mini-sd is not in this installation, or ``start_from`` has no autoencoder.
    """
    return diffusion.train_parts(
        "mini-sd-pairs",
        folder,
        {"identities": max(1, round(rows * _SINGLES)), "pairs": rows},
        start_from=start_from or Path(models.resolve("mini-sd", "text-to-image")),
        placing=0.1,
        noisier=0.6,
        **{"steps": 12_000, "learning_rate": 1e-3} | settings,
    )
