"""Shared parts of the trainings of judges: pools of renders, image augmentation, and the steps of a training."""

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
# Share of a pool that passes the autoencoder, if any.
DECODED = 0.5
# Noise of latents, since latents of generated images are not as clean as encoded ones.
LATENT_NOISE = 0.05
# Training never uses seeds from this value on.
HELD_OUT_SEED = 1_000_003


@dataclass(frozen=True)
class Judge:
    """Training of one judge of the synthetic world; ``inputs`` is the tokenizer or processor of its model."""

    name: str
    pool: Callable[..., Any]  # (n, seed, decoded=…, part=…) -> images with their ground truth
    build: Callable[[], tuple[Any, Any]]  # () -> model with random weights, inputs
    # (model, inputs, data, training) -> arguments of Training.fit; ``heads`` are trained in addition and not saved.
    learn: Callable[..., dict[str, Any]]
    measure: Callable[..., list[cards.Measured]]  # (model, inputs, data)
    save: Callable[[Path, Any, Any], object]  # (folder, model, inputs)
    defaults: dict[str, Any]  # default steps, batch and learning rate
    pool_size: int
    held_out: int  # number of test images
    load: Callable[[Path], tuple[Any, Any]] | None = None  # (folder) -> model, inputs
    # (folder, n, decoded) -> rows of the card; default: those of ``measure``
    card_rows: Callable[..., list[cards.Measured]] | None = None
    card_images: int | None = None  # number of images for the card; default: twice ``held_out``
    draw_test_data: Callable[..., Any] | None = None  # returns the test data; default: a pool of HELD_OUT_SEED
    finish: Callable[..., object] = lambda *_: None  # (averaged model, inputs, test data)
    decay: float = 0.998  # decay of the weight average
    # Settings of a training in the card, in addition to steps, batch and seed.
    card_settings: tuple[str, ...] = ("learning_rate", "pool_size", "decoded")

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

        The ``held_out`` test images have other seeds; a share of the images passes the autoencoder ``decoded``;
        ``settings`` are fields of :class:`~training.common.Training`.
        """
        training = common.Training(**self.defaults | settings)
        pool_size, held_out = pool_size or self.pool_size, held_out or self.held_out
        data = self.pool(pool_size, training.seed, decoded=decoded)
        draw_test_data = self.draw_test_data or (lambda n, seed, **more: self.pool(n, HELD_OUT_SEED + seed, **more))
        test_data = draw_test_data(held_out, training.seed, decoded=decoded)
        torch.manual_seed(training.seed)
        model, inputs = self.build()
        average = common.Average({"model": model}, self.decay)
        best = average.averaged["model"]
        options = self.learn(model, inputs, data, training)
        result = training.fit(
            {"model": model} | options.pop("heads", {}),
            average,
            quality=lambda: {row.metric: row.value for row in self.measure(best, inputs, test_data)},
            **options,
        )
        self.finish(best, inputs, test_data)
        folder.mkdir(parents=True, exist_ok=True)
        self.save(folder, best, inputs)
        facts = {"learning_rate": training.learning_rate, "pool_size": pool_size, "decoded": decoded is not None}
        cards.note_training(folder, None, training, **{name: facts[name] for name in self.card_settings})
        n = self.card_images or 2 * held_out
        cards.write(self.name, folder, self.card_rows or self._card_rows, n=n, decoded=decoded)
        return result

    def _card_rows(self, folder: Path, n: int, decoded: Path | None) -> list[cards.Measured]:
        data = self.pool(n, HELD_OUT_SEED + 1, decoded=decoded, part=1.0)
        return self.measure(*self.load(folder), data)


def renders(
    scenes: Sequence[Scene], *, squash: bool, decoded: Path | None = None, part: float = DECODED, seed: int = 0
) -> np.ndarray:
    """Return square images of ``scenes`` of any aspect, uint8 (n, 64, 64, 3).

    With ``squash``, wide frames are resized to a square, like in the detector's preprocessing; otherwise they are
    cropped to the centre, like in open_clip's. A share ``part`` of the images passes the autoencoder ``decoded``.
    """
    chosen = common.rng(seed, 0, 41).random(len(scenes)) < (part if decoded is not None else 0.0)
    images = [render(scene, SIZE) for scene in scenes]
    for width in sorted({images[i].shape[1] for i in np.flatnonzero(chosen)}):
        indices = [i for i in np.flatnonzero(chosen) if images[i].shape[1] == width]
        group = np.stack([images[i] for i in indices])
        decoded_group = decoding.through_autoencoder(decoded, group, seed=seed, noise=LATENT_NOISE)
        for i, image in zip(indices, decoded_group, strict=True):
            images[i] = image

    def square(image: np.ndarray) -> np.ndarray:
        margin = (image.shape[1] - SIZE) // 2
        if margin and squash:
            return cv2.resize(image, (SIZE, SIZE), interpolation=cv2.INTER_AREA)
        return image[:, margin : margin + SIZE]

    return np.stack([square(image) for image in images])


def roughen(images: np.ndarray, seed: int, step: int) -> tuple[torch.Tensor, np.ndarray]:
    """Return images augmented with shifts, mirroring, blur, noise, JPEG compression and colour changes.

    Judges trained on such images also work on generated and compressed ones. Images are uint8 (n, 64, 64, 3); ``seed``
    and ``step`` determine all random numbers. Returns a float tensor (n, 3, 64, 64), about -1 to 1, and the scale and
    shift of each image, (n, 2, 2): a point at ``p`` (x or y, -1 to 1) moves to ``(p - shift) / scale``.
    """
    draw, n = common.rng(seed, step, 21), len(images)
    if compressed := np.flatnonzero(draw.random(n) < 0.2).tolist():
        images = images.copy()
        for i, quality in zip(compressed, draw.integers(35, 95, len(compressed)).tolist(), strict=True):
            _, code = cv2.imencode(".jpg", images[i], [cv2.IMWRITE_JPEG_QUALITY, quality])
            images[i] = cv2.imdecode(code, cv2.IMREAD_COLOR)
    x = common.to_tensor(images)

    is_moved = draw.random(n) < 0.7
    zoom = np.where(is_moved, draw.uniform(0.88, 1.12, n), 1.0)
    shift = np.where(is_moved[:, None], draw.uniform(-0.12, 0.12, (n, 2)), 0.0)
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
    """Return ``x`` after a Gaussian filter of five pixels with replicated borders."""
    line = torch.exp(-0.5 * (torch.arange(-2, 3) / sigma) ** 2)
    line = (line / line.sum()).repeat(3, 1)
    x = functional.pad(x, (2, 2, 2, 2), mode="replicate")
    x = functional.conv2d(x, line[:, None, None, :], groups=3)
    return functional.conv2d(x, line[:, None, :, None], groups=3)
