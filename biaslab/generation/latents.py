"""Latents of images that share noise: the last of each is kept, in half precision, of all steps how alike they were."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import NamedTuple

import numpy as np

from biaslab.generation.generator import Follow


class LatentRecord(NamedTuple):
    """What is kept of an image's latents."""

    final: np.ndarray | None
    """``float16 (channels, height, width)``, before decoding; None where the pipeline does not show them."""
    reference_image: str  # The first image of the same noise, with which it was compared.
    by_step: np.ndarray  # ``float64 (steps,)``: the cosine of both after each step, -1 to 1.


class LatentRecorder:
    """Latents of images, taken while they are made; ``keys`` decide each image's noise.

    Neighbours with the same are compared with the first of them.
    """

    def __init__(self, keys: Sequence[tuple[str, int]], image_ids: Sequence[str]) -> None:
        self._first: list[int] = []
        for i, key in enumerate(keys):
            self._first.append(self._first[-1] if i and keys[i - 1] == key else i)
        self._ids = image_ids
        self._final: list[np.ndarray | None] = [None] * len(keys)
        self._cosines: list[list[float]] = [[] for _ in keys]
        # Of the last image's first one, by step: where a batch is too small for all of one noise, the next goes on.
        self._held: dict[int, np.ndarray] = {}

    @contextmanager
    def watch(self, chosen: range) -> Iterator[Follow]:
        """Follow a batch, as :meth:`biaslab.generation.Generator.images` asks for."""
        from biaslab.metrics.similarity import cosines

        firsts = [self._first[i] - chosen.start for i in chosen]
        held: dict[int, np.ndarray] = {}
        by_step, final = [], None

        def follow(step: int, latents) -> None:
            nonlocal final
            final = latents.detach().float().cpu().numpy()
            others = [self._held[step] if first < 0 else final[first] for first in firsts]
            held[step] = others[-1].copy()
            by_step.append(cosines(final, np.stack(others)))

        yield follow
        if final is None:
            return
        self._held = held
        for i, image, of_image in zip(chosen, final, np.stack(by_step, axis=1), strict=True):
            self._final[i], self._cosines[i] = image, list(of_image)

    def columns(self) -> dict[str, list]:
        """Return what is kept of each image, as :func:`unpacked` reads it."""
        return {
            "latent": [None if final is None else _packed(final) for final in self._final],
            "like": [self._ids[first] for first in self._first],
            "by_step": [np.asarray(of_image, float).tobytes() for of_image in self._cosines],
        }


def unpacked(row) -> LatentRecord:
    """Return the latents of a row with the columns of :meth:`LatentRecorder.columns`."""
    final = None
    if isinstance(row["latent"], bytes):
        final = np.load(BytesIO(row["latent"]), allow_pickle=False)
    return LatentRecord(final, row["like"], np.frombuffer(row["by_step"], float))


def _packed(latent: np.ndarray) -> bytes:
    file = BytesIO()
    np.save(file, latent.astype(np.float16))
    return file.getvalue()
