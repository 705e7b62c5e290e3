"""Where a model attends to the words of a text in images that are given, with noise on them, as it sees them at work.

So maps of words can be held against images with ground truth.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from biaslab.attribution.attention import capture, check, columns
from biaslab.attribution.maps import PACKED, WordMaps, packed, unpacked, word_maps
from biaslab.cache.result_cache import ResultCache
from biaslab.errors import ParameterError
from biaslab.execution.workers import Memoized
from biaslab.generation.generator import Generator, image_seed
from biaslab.hub.image_sources import ImageSource

_SHARD_ROWS = 128
LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Points of the noise schedule that are examined: 0 is the image, 1 noise alone."""


def attend(
    generator: Generator,
    images: Sequence[np.ndarray],
    texts: Sequence[str],
    words: Sequence[Sequence[str]],
    *,
    keys: Sequence[str],
    seed: int = 0,
) -> tuple[list[WordMaps], list[list[WordMaps]]]:
    """Return where a model attends to words in given images: over all of :data:`LEVELS` of each image, and for each
    level those of each image.

    Args:
        generator: A loaded model with a U-Net and one text encoder (Stable Diffusion 1 and 2).
        images: ``uint8 (height, width, 3)`` RGB, all of one size that the model makes.
        texts, words: What is said of each, and the words of it to map.
        keys, seed: What tells each image's noise from that of others, the same at all levels and in every batch.

    Raises ParameterError where the model is of another kind or size, or attention cannot be taken from it, RunError
    where the numbers overflow.
    """
    import torch

    pipe = generator.pipe
    check(pipe)
    if type(pipe).__name__ != "StableDiffusionPipeline":
        raise ParameterError(
            f"Attention in given images is taken from a StableDiffusionPipeline, and this is a {type(pipe).__name__}."
        )
    sizes, own = sorted({image.shape for image in images}), (generator.height, generator.width)
    if sizes and sizes[0][:2] != own:
        raise ParameterError(
            f"{generator.model} generates images of {own[0]} x {own[1]} pixels, and these are {sizes[0][0]} x "
            f"{sizes[0][1]}: attention in them is not comparable with its own. Resize them."
        )
    placed = columns(pipe, texts, words)
    whole: list[WordMaps] = []
    apart: list[list[WordMaps]] = [[] for _ in LEVELS]
    for start in range(0, len(images), generator.batch_size):
        chosen = range(start, min(start + generator.batch_size, len(images)))
        here = placed.of(chosen)
        with torch.inference_mode(), capture(pipe, here, by_step=True) as attention:
            seeds = [image_seed(seed, keys[i], 0) for i in chosen]
            _denoise(generator, [images[i] for i in chosen], [texts[i] for i in chosen], seeds)
        whole += word_maps(attention.maps(), here)
        for k, maps in enumerate(apart):
            maps += word_maps(attention.maps(k), here)
    return whole, apart


def _denoise(generator: Generator, images: list[np.ndarray], texts: list[str], seeds: Sequence[int]) -> None:
    """Let the network look once at each level of noise."""
    import torch

    pipe = generator.pipe
    # What schedulers add to a latent depends on the steps that they were last set to; this is what networks learn from.
    device, kept = pipe.unet.device, pipe.scheduler.alphas_cumprod
    pixels = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).to(device, pipe.vae.dtype) / 127.5 - 1
    encoded = pipe.vae.encode(pixels).latent_dist.mean * pipe.vae.config.scaling_factor
    said, _ = pipe.encode_prompt(texts, device, 1, False)
    noise = torch.stack([torch.randn(encoded.shape[1:], generator=torch.Generator().manual_seed(s)) for s in seeds]).to(
        device, encoded.dtype
    )
    for level in LEVELS:
        t = torch.full((len(images),), round(level * len(kept)), device=device)
        share = kept[t[0].item()].to(device, encoded.dtype)
        noisy = share.sqrt() * encoded + (1 - share).sqrt() * noise
        more = {"encoder_hidden_states": said.to(pipe.unet.dtype), "return_dict": False}
        generator.check_finite(pipe.unet(noisy.to(pipe.unet.dtype), t, **more)[0])


class NoisedImages:
    """Given images with maps of the words of their texts, computed once and kept; errors as :func:`attend`.

    ``asked`` has image_id, text and words (a list) for each image; ``load`` returns the model when an image must be
    examined, ``weights`` is its digest.
    """

    def __init__(
        self,
        images: ImageSource,
        asked: pd.DataFrame,
        load: Callable[[], Generator],
        weights: str,
        *,
        seed: int,
        cache: ResultCache,
        progress: bool = True,
    ) -> None:
        ready = Memoized(load)

        def work(shard: pd.DataFrame) -> pd.DataFrame:
            words = [json.loads(of) for of in shard["words"]]
            ids, texts = list(shard["image_id"]), list(shard["text"])
            whole, apart = attend(ready(), images.read(ids), texts, words, keys=ids, seed=seed)
            frames = [
                pd.DataFrame([packed(maps) for maps in found]).assign(image_id=shard["image_id"], level=level)
                for level, found in zip((0.0, *LEVELS), (whole, *apart), strict=True)
            ]
            return pd.concat(frames, ignore_index=True)

        units = asked[["image_id", "text"]].assign(words=[json.dumps(list(of)) for of in asked["words"]])
        inputs = {"images": images.digest, "weights": weights, "levels": list(LEVELS), "seed": seed}
        stage = cache.stage("noised", inputs, work)
        options = {"label": "looking at noised images", "progress": progress, "gpu": True}
        found = stage.compute(units.astype(object), shard_rows=_SHARD_ROWS, **options)
        self.digest = stage.digest
        self._rows = found.set_index(["level", "image_id"])[list(PACKED)] if len(found) else found

    def word_maps(self, image_ids: Sequence[str], level: float = 0.0) -> list[WordMaps]:
        """Return maps of images in the order asked for: over all of :data:`LEVELS`, or at one of them."""
        return [unpacked(self._rows.loc[level, image_id]) for image_id in image_ids]
