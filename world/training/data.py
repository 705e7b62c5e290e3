"""What a diffusion model learns from: arrays of captions and latents, drawn and encoded once, in blocks."""

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
    said: dict[str, Any],
) -> None:
    """Render and encode ``rows`` examples, side by side; blocks that are there already are kept.

    ``examples`` returns those of some indices: the ``arrays``, and ``images``, of which ``latents`` are made, float16,
    the last array, which says that all is there. What is ``said`` of the data is kept beside them. Raises InputError:
    The folder holds data of which something else is said.
    """
    from tqdm import tqdm

    note = folder / "data.json"
    folder.mkdir(parents=True, exist_ok=True)
    if note.exists() and json.loads(note.read_text()) != said:
        raise InputError(f"{folder} holds data of other settings; delete it or name another folder.")
    note.write_text(json.dumps(said))
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
    found = examples(indices)
    model = AutoencoderKL.from_pretrained(vae).float().eval()
    found["latents"] = autoencoder.encode(model, found["images"])
    for name in arrays:
        _save(folder, f"{name}-{indices.start}", found[name])


def _save(folder: Path, name: str, values: np.ndarray) -> None:
    """Write an array so that a file with its name is whole."""
    np.save(folder / f".{name}.npy", values)
    (folder / f".{name}.npy").replace(folder / f"{name}.npy")
