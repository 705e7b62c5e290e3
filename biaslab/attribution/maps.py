"""Maps of attention to words in their cached form, and the image regions that they mark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO

import numpy as np

from biaslab.attribution.attention import Columns

THRESHOLD = 0.35
"""Share of a map's range above which a position belongs to its word (triplets, section 6.1)."""
PACKED = ("mapped", "maps")
"""The columns of maps in cached tables."""
LATENTS = 64
"""Largest number of rows and columns of a map: those of the latents of an image of 512 pixels."""


@dataclass(frozen=True)
class WordMaps:
    """Maps of an image's attention to the words of its prompt."""

    words: tuple[str, ...]
    maps: np.ndarray
    """``uint8 (words, rows, columns)``, each from 0, its lowest attention, to 255, its highest; all 0 where attention
    is constant."""
    missing: dict[str, str]
    """The reason why other words have no map, by word."""


def word_maps(attention, columns: Columns) -> list[WordMaps]:
    """Return the maps of images in their cached form: on the latents' grid, in 256 levels.

    ``attention`` is the mean, ``float32 (images, words, height, width)`` in torch
    (:meth:`biaslab.attribution.attention.Attention.maps`). A larger grid is averaged down to :data:`LATENTS` on its
    longer side.
    """
    import torch

    height, width = attention.shape[-2:]
    if (longest := max(height, width)) > LATENTS:
        size = [max(1, round(side * LATENTS / longest)) for side in (height, width)]
        attention = torch.nn.functional.interpolate(attention, size, mode="area")
    levels = _scaled(attention).mul_(255).round_().to(torch.uint8).cpu().numpy()
    return [
        WordMaps(of_image, maps[: len(of_image)].copy(), dict(missing))
        for of_image, maps, missing in zip(columns.words, levels, columns.missing, strict=True)
    ]


def word_masks(maps: np.ndarray, height: int, width: int, threshold: float = THRESHOLD) -> np.ndarray:
    """Return masks of words, ``bool (words, height, width)``: :func:`resize_maps` above a threshold."""
    return resize_maps(maps, height, width) > threshold


def resize_maps(maps: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return maps in the size of their image, ``float32 (words, height, width)``, each from 0 to 1.

    ``uint8 (words, rows, columns)`` of :class:`WordMaps` are interpolated (bicubic) and scaled, as in DAAM; all 0 where
    a map is constant.
    """
    import torch

    if not len(maps):
        return np.zeros((0, height, width), np.float32)
    values = torch.from_numpy(np.ascontiguousarray(maps)).float()[None]
    interpolated = torch.nn.functional.interpolate(values, (height, width), mode="bicubic")
    return _scaled(interpolated)[0].numpy()


def _scaled(values):
    """Return values scaled to 0 to 1 over the last two axes, 0 where they are constant."""
    low, high = values.amin((-2, -1), keepdim=True), values.amax((-2, -1), keepdim=True)
    return (values - low) / (high - low).clamp_(min=1e-30)


def pack(maps: WordMaps) -> dict[str, str | bytes]:
    """Return the cells of a cached table for the maps of an image, by column of :data:`PACKED`."""
    buffer = BytesIO()
    np.savez_compressed(buffer, maps=maps.maps)
    return {"mapped": json.dumps({"words": maps.words, "missing": maps.missing}), "maps": buffer.getvalue()}


def unpack(row: Mapping) -> WordMaps:
    """Return the maps of a row from :func:`pack`."""
    mapped = json.loads(row["mapped"])
    with np.load(BytesIO(row["maps"]), allow_pickle=False) as opened:
        return WordMaps(tuple(mapped["words"]), opened["maps"], mapped["missing"])
