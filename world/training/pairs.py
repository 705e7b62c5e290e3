"""Training of mini-sd-pairs: mini-sd's networks on prompts and renders of people whom the text places."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from biaslab.hub import registry
from training import diffusion

# Prompts and renders of one person for each of two people.
_SINGLES = 0.25


def train(folder: Path, *, rows: int = 131_072, start_from: Path | None = None, **settings: Any) -> dict[str, float]:
    """Train mini-sd-pairs on from ``start_from`` or mini-sd, whose autoencoder it keeps; return held-out quality.

    Of ``rows`` prompts for two people, see :mod:`biaslab_world.pairs`, and a quarter as many for one; all else is as
    :func:`training.diffusion.train_parts` has it. Source: paired paper, sections 3.2 and 5 (the prompts). Raises
    MissingInputError: mini-sd is not in this installation, or ``start_from`` has no autoencoder.
    """
    return diffusion.train_parts(
        "mini-sd-pairs",
        folder,
        {"identities": max(1, round(rows * _SINGLES)), "pairs": rows},
        start_from=start_from or Path(registry.resolve("mini-sd", "text-to-image")),
        placing=0.1,
        noisier=0.6,
        **{"steps": 12_000, "learning_rate": 1e-3} | settings,
    )
