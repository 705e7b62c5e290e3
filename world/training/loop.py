"""What the trainings of the judges share: pools of renders, rough handling of images, and the steps of a training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from torch.nn import functional

from biaslab_world import decoding
from biaslab_world.render import render
from biaslab_world.scene import Scene
from training import cards, common

SIZE = 64
# Share of a pool that has passed through the autoencoder, where one is given.
DECODED = 0.5
# Latents of generated images are not as clean as encoded ones.
LATENT_NOISE = 0.05
# Seeds from here on are never trained on.
HELD_OUT_SEED = 1_000_003


@dataclass(frozen=True)
class Judge:
    """How one judge of the embedded world is trained; ``inputs`` turn texts or images into what its model takes."""

    name: str
    pool: Callable[..., Any]  # (n, seed, decoded=…, part=…) -> images with their truth
    build: Callable[[], tuple[Any, Any]]  # () -> model with random weights, inputs
    # (model, inputs, data, training) -> arguments of Training.fit; ``heads`` are trained beside and not kept.
    learn: Callable[..., dict[str, Any]]
    measure: Callable[..., list[cards.Measured]]  # (model, inputs, data)
    save: Callable[[Path, Any, Any], object]  # (folder, model, inputs)
    usual: dict[str, Any]  # steps, batch and learning rate where none are given
    pool_size: int
    held_out: int  # images to measure on
    load: Callable[[Path], tuple[Any, Any]] | None = None  # (folder) -> model, inputs
    # (folder, n, decoded) -> rows of the card, if not as ``measure``
    card_rows: Callable[..., list[cards.Measured]] | None = None
    card_images: int | None = None  # if not twice as many as are held out
    apart: Callable[..., Any] | None = None  # draws what to measure on, if not a pool of HELD_OUT_SEED
    finish: Callable[..., object] = lambda *_: None  # (averaged model, inputs, data apart)
    decay: float = 0.998  # of the average of weights
    # What the card says of a training besides steps, batch and seed.
    noted: tuple[str, ...] = ("learning_rate", "pool_size", "decoded")

    def train(
        self,
        folder: Path,
        *,
        pool_size: int | None = None,
        held_out: int | None = None,
        decoded: Path | None = None,
        **settings: Any,
    ) -> dict[str, float]:
        """Train the judge and save it with its preprocessing and card to ``folder``; return its quality.

        ``held_out`` images are of other seeds; part of the images pass through the autoencoder ``decoded``;
        ``settings`` are fields of :class:`~training.common.Training`.
        """
        training = common.Training(**self.usual | settings)
        pool_size, held_out = pool_size or self.pool_size, held_out or self.held_out
        data = self.pool(pool_size, training.seed, decoded=decoded)
        draw_apart = self.apart or (lambda n, seed, **more: self.pool(n, HELD_OUT_SEED + seed, **more))
        apart = draw_apart(held_out, training.seed, decoded=decoded)
        torch.manual_seed(training.seed)
        model, inputs = self.build()
        average = common.Average({"model": model}, self.decay)
        best = average.kept["model"]
        how = self.learn(model, inputs, data, training)
        found = training.fit(
            {"model": model} | how.pop("heads", {}),
            average,
            quality=lambda: {one.metric: one.value for one in self.measure(best, inputs, apart)},
            **how,
        )
        self.finish(best, inputs, apart)
        folder.mkdir(parents=True, exist_ok=True)
        self.save(folder, best, inputs)
        known = {"learning_rate": training.learning_rate, "pool_size": pool_size, "decoded": decoded is not None}
        cards.note_training(folder, None, training, **{name: known[name] for name in self.noted})
        n = self.card_images or 2 * held_out
        cards.write(self.name, folder, self.card_rows or self._card_rows, n=n, decoded=decoded)
        return found

    def _card_rows(self, folder: Path, n: int, decoded: Path | None) -> list[cards.Measured]:
        data = self.pool(n, HELD_OUT_SEED + 1, decoded=decoded, part=1.0)
        return self.measure(*self.load(folder), data)


def renders(
    scenes: Sequence[Scene], *, squash: bool, decoded: Path | None = None, part: float = DECODED, seed: int = 0
) -> np.ndarray:
    """Return square images of ``scenes`` of any aspect, uint8 (n, 64, 64, 3).

    Wide frames are squeezed to a square where ``squash`` says so, as the detector's preprocessing does; otherwise the
    middle is cut out, as open_clip's does. A ``part`` of the images passes through the autoencoder ``decoded``.
    """
    chosen = common.rng(seed, 0, 41).random(len(scenes)) < (part if decoded is not None else 0.0)
    images = [render(scene, SIZE) for scene in scenes]
    for width in sorted({images[i].shape[1] for i in np.flatnonzero(chosen)}):
        at = [i for i in np.flatnonzero(chosen) if images[i].shape[1] == width]
        some = np.stack([images[i] for i in at])
        back = decoding.through_autoencoder(decoded, some, seed=seed, noise=LATENT_NOISE)
        for i, image in zip(at, back, strict=True):
            images[i] = image

    def square(image: np.ndarray) -> np.ndarray:
        left = (image.shape[1] - SIZE) // 2
        if left and squash:
            return cv2.resize(image, (SIZE, SIZE), interpolation=cv2.INTER_AREA)
        return image[:, left : left + SIZE]

    return np.stack([square(image) for image in images])


def roughen(images: np.ndarray, seed: int, step: int) -> tuple[torch.Tensor, np.ndarray]:
    """Return images as after shifts, mirroring, blur, noise, JPEG and changes of colour.

    So that a judge trained on clean renders also serves generated and compressed images. Images are uint8 (n, 64, 64,
    3); ``seed`` and ``step`` decide all draws. Returns a float tensor (n, 3, 64, 64), about -1 to 1, and the scale and
    shift of each image, (n, 2, 2): a point at ``p`` (x or y, -1 to 1) is at ``(p - shift) / scale`` now.
    """
    draw, n = common.rng(seed, step, 21), len(images)
    if pressed := np.flatnonzero(draw.random(n) < 0.2).tolist():
        images = images.copy()
        for i, quality in zip(pressed, draw.integers(35, 95, len(pressed)).tolist(), strict=True):
            _, code = cv2.imencode(".jpg", images[i], [cv2.IMWRITE_JPEG_QUALITY, quality])
            images[i] = cv2.imdecode(code, cv2.IMREAD_COLOR)
    x = common.to_tensor(images)

    moved = draw.random(n) < 0.7
    zoom = np.where(moved, draw.uniform(0.88, 1.12, n), 1.0)
    shift = np.where(moved[:, None], draw.uniform(-0.12, 0.12, (n, 2)), 0.0)
    table = np.stack([np.stack([zoom, zoom], 1), shift], axis=2)
    table[draw.random(n) < 0.5, 0, 0] *= -1
    theta = np.zeros((n, 2, 3), np.float32)
    theta[:, 0, 0], theta[:, 1, 1], theta[:, :, 2] = table[:, 0, 0], table[:, 1, 0], table[:, :, 1]
    grid = functional.affine_grid(torch.from_numpy(theta), list(x.shape), align_corners=False)
    x = functional.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)

    blurred = torch.from_numpy(np.flatnonzero(draw.random(n) < 0.35))
    if len(blurred):
        x[blurred] = _blur(x[blurred], float(draw.uniform(0.35, 1.0)))
    gain = torch.from_numpy(draw.normal(1, 0.05, (n, 3, 1, 1)).astype(np.float32))
    offset = torch.from_numpy(draw.normal(0, 0.05, (n, 1, 1, 1)).astype(np.float32))
    noise = np.where(draw.random(n) < 0.5, draw.uniform(0, 0.1, n), 0.0).astype(np.float32)
    grain = torch.randn(x.shape, generator=common.torch_rng(seed, step, 22))
    x = x * gain + offset + grain * torch.from_numpy(noise)[:, None, None, None]
    return x.clamp(-1.1, 1.1).contiguous(memory_format=torch.channels_last), table


def _blur(x: torch.Tensor, sigma: float) -> torch.Tensor:
    """Return ``x`` after a Gaussian filter of five pixels, the border repeated."""
    line = torch.exp(-0.5 * (torch.arange(-2, 3) / sigma) ** 2)
    line = (line / line.sum()).repeat(3, 1)
    x = functional.pad(x, (2, 2, 2, 2), mode="replicate")
    x = functional.conv2d(x, line[:, None, None, :], groups=3)
    return functional.conv2d(x, line[:, None, :, None], groups=3)
