"""From images of any size to what an image model takes, many at a time.

Resizing, cropping and normalising are done on whole batches, on the model's device. On a CPU the result
differs from Pillow's by at most one level of 255 (rounding), which the tests hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Pixels:
    """A resize to height and width, a crop in the middle, and a normalisation of values 0 to 1 of each channel."""

    size: tuple[int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    interpolation: str = "bicubic"
    """``bicubic`` or ``bilinear``, both without aliasing."""
    squash: bool = False
    """Whether images are brought to the size at once; otherwise the shorter side is, and the rest is cut."""
    shorter: int = 0
    """Pixels of the shorter side before the cut, where that is more than the size; 0 stands for the size."""
    one_by_one: Callable | None = None
    """A preprocessing of one PIL image that is not of this kind; then it is used, image by image."""

    @classmethod
    def of_open_clip(cls, settings: dict, transform: Callable) -> Pixels:
        """Return the preprocessing that ``model.visual.preprocess_cfg`` asks for; ``transform`` is open_clip's own."""
        size, mode = settings["size"], settings.get("resize_mode") or "shortest"
        size = (size, size) if isinstance(size, int) else tuple(size)
        kind = settings.get("interpolation") or "bicubic"
        plain = kind in ("bicubic", "bilinear") and (
            mode == "squash" or (mode == "shortest" and size[0] == size[1])
        )
        own = None if plain else transform
        mean, std = tuple(settings["mean"]), tuple(settings["std"])
        return cls(size, mean, std, kind, mode == "squash", one_by_one=own)

    def __call__(self, images: Sequence[np.ndarray], device, dtype):
        """Return ``(images, 3, height, width)`` on ``device`` for images of one shape."""
        import torch
        from torchvision.transforms import InterpolationMode
        from torchvision.transforms import functional as tv

        if self.one_by_one is not None:
            from PIL import Image

            return torch.stack([self.one_by_one(Image.fromarray(i)) for i in images]).to(device, dtype)
        batch = _stacked(images, device).to(device, non_blocking=True).permute(0, 3, 1, 2)
        if self.shorter or tuple(batch.shape[-2:]) != self.size:
            how = InterpolationMode(self.interpolation)
            target = list(self.size) if self.squash else [self.shorter or self.size[0]]
            batch = tv.resize(batch, target, interpolation=how, antialias=True)
            batch = tv.center_crop(batch, list(self.size))
        # One multiplication and one addition: value / 255, less the mean, over the deviation.
        mean, std = (torch.tensor(v, device=device).view(1, -1, 1, 1) for v in (self.mean, self.std))
        return batch.to(torch.float32).mul_(1 / (255 * std)).sub_(mean / std).to(dtype)


def _stacked(images: Sequence[np.ndarray], device):
    """Return images of one shape as one uint8 tensor in main memory, ready for a quick way to ``device``."""
    import torch

    if device.type == "cpu":
        return torch.from_numpy(np.stack(images))
    # Page-locked memory reaches a GPU several times faster; one thread alone could not fill it as fast.
    out = torch.empty((len(images), *images[0].shape), dtype=torch.uint8, pin_memory=device.type == "cuda")
    rows = out.numpy()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(np.copyto, rows, images))
    return out
