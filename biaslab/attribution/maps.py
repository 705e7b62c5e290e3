"""Maps of attention to words as they are kept, and the regions of an image that they mark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from biaslab.errors import InputError

THRESHOLD = 0.35
"""Share of a map's range above which a place belongs to its word (triplets, section 6.1)."""
# Rows and columns of a map at most: those of the latents of an image of 512 pixels.
_MOST = 64


@dataclass(frozen=True)
class WordMaps:
    """Where an image attends to the words of its prompt."""

    words: tuple[str, ...]
    """Words that have a map."""
    maps: np.ndarray
    """``uint8 (words, rows, columns)``, each from 0, the least attention in it, to 255, the most; all 0 where attention
    is the same everywhere."""
    missing: dict[str, str]
    """Why other words have none."""


def word_maps(
    attention, words: Sequence[tuple[str, ...]], missing: Sequence[dict[str, str]]
) -> list[WordMaps]:
    """Return the maps of some images as they are kept: on the latents' grid, or 64 of its longer side, in 256 levels.

    Args:
        attention: Mean attention ``float32 (images, words, height, width)`` in torch, see
            :meth:`biaslab.attribution.attention.Attention.maps`.
        words: Of each image, the words that the first maps are of; maps beyond them are left out.
        missing: Of each image, why other words have none.
    """
    import torch

    height, width = attention.shape[-2:]
    if (longest := max(height, width)) > _MOST:
        size = [max(1, round(side * _MOST / longest)) for side in (height, width)]
        attention = torch.nn.functional.interpolate(attention, size, mode="area")
    levels = _scaled(attention).mul_(255).round_().to(torch.uint8).cpu().numpy()
    return [
        WordMaps(of_image, maps[: len(of_image)].copy(), dict(why))
        for of_image, maps, why in zip(words, levels, missing, strict=True)
    ]


def word_masks(maps: np.ndarray, height: int, width: int, threshold: float = THRESHOLD) -> np.ndarray:
    """Return where an image attends to words, ``bool (words, height, width)``.

    Maps are interpolated to the image's size (bicubic) and scaled so that each goes from 0 to 1; a word's region is
    where it is above the threshold (triplets, section 6.1, as DAAM does it). A map that is the same everywhere marks
    nothing.

    Args:
        maps: ``uint8 (words, rows, columns)`` of :class:`WordMaps`.
        height: Of the image, in pixels, 1 or more.
        width: Of the image, in pixels, 1 or more.
        threshold: 0 to 1.

    Raises:
        InputError: The maps have another shape, or a number is not allowed.
    """
    import torch

    if np.ndim(maps) != 3 or min(height, width) < 1 or not 0 <= threshold <= 1:
        raise InputError(
            f"Masks of maps {np.shape(maps)} for {height} x {width} pixels above {threshold:g} cannot be made; give "
            "maps (words, rows, columns), at least one pixel and a threshold from 0 to 1."
        )
    if not len(maps):
        return np.zeros((0, height, width), bool)
    values = torch.from_numpy(np.ascontiguousarray(maps)).float()[None]
    on_image = torch.nn.functional.interpolate(values, (height, width), mode="bicubic")
    return (_scaled(on_image)[0] > threshold).numpy()


def _scaled(values):
    """Return values with the last two axes scaled to go from 0 to 1, 0 where all are the same."""
    low, high = values.amin((-2, -1), keepdim=True), values.amax((-2, -1), keepdim=True)
    return (values - low) / (high - low).clamp_(min=1e-30)
