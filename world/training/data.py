"""Training data of diffusion models: arrays of captions and latents, rendered and encoded once, in blocks."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from biaslab.errors import InputError
from biaslab.execution.workers import Workers
from training import autoencoder

BLOCK = 4096
_WORKERS = 2


def prepare(
    folder: Path,
    vae: Path,
    rows: int,
    examples: Callable[[Sequence[int]], dict[str, Any]],
    arrays: Sequence[str],
    settings: dict[str, Any],
) -> None:
    """Render and encode ``rows`` examples in parallel; existing blocks are reused.

    ``examples`` returns the examples of several indices: ``arrays``, and ``images``, which are encoded to ``latents``,
    float16. The latents are written last and mark complete data. ``settings`` of the data are saved in the same folder.
    Raises InputError: The folder has data of other settings.
    """
    from tqdm import tqdm

    note = folder / "data.json"
    folder.mkdir(parents=True, exist_ok=True)
    if note.exists() and json.loads(note.read_text()) != settings:
        raise InputError(f"{folder} holds data of other settings; delete it or name another folder.")
    note.write_text(json.dumps(settings))
    if (folder / "latents.npy").exists():
        return
    starts = range(0, rows, BLOCK)
    jobs = [(folder, vae, range(start, min(start + BLOCK, rows)), examples, arrays) for start in starts]
    list(tqdm(Workers(count=_WORKERS).run(_encode, jobs), total=len(jobs), unit="block", desc="renders"))
    for name in arrays:
        pieces = [np.load(folder / f"{name}-{start}.npy") for start in starts]
        _save(folder, name, np.concatenate(pieces))
    for piece in folder.glob("*-*.npy"):
        piece.unlink()


def _encode(job: tuple[Path, Path, range, Callable[[Sequence[int]], dict[str, Any]], Sequence[str]]) -> None:
    from diffusers import AutoencoderKL

    folder, vae, indices, examples, arrays = job
    if (folder / f"latents-{indices.start}.npy").exists():
        return
    arrays_made = examples(indices)
    model = AutoencoderKL.from_pretrained(vae).float().eval()
    arrays_made["latents"] = autoencoder.encode(model, arrays_made["images"])
    for name in arrays:
        _save(folder, f"{name}-{indices.start}", arrays_made[name])


def _save(folder: Path, name: str, values: np.ndarray) -> None:
    """Write an array atomically, so that a file with its final name is complete."""
    np.save(folder / f".{name}.npy", values)
    (folder / f".{name}.npy").replace(folder / f"{name}.npy")
