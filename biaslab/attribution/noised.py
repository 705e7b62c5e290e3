"""Attention of a model to the words of a text in existing images, with noise added as during generation.

This allows comparing maps of words with images that have ground truth.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from biaslab.attribution.attention import capture, check, columns
from biaslab.attribution.maps import PACKED, WordMaps, pack, unpack, word_maps
from biaslab.cache.result_cache import ResultCache
from biaslab.errors import ParameterError
from biaslab.execution.workers import Memoized
from biaslab.generation.generator import Generator, image_seed
from biaslab.hub.image_sources import ImageSource

_SHARD_ROWS = 128
LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Evaluated points of the noise schedule: 0 is the image, 1 is pure noise."""


def map_words(
    generator: Generator,
    images: Sequence[np.ndarray],
    texts: Sequence[str],
    words: Sequence[Sequence[str]],
    *,
    keys: Sequence[str],
    seed: int = 0,
) -> tuple[list[WordMaps], list[list[WordMaps]]]:
    """Return a model's attention to words in existing images: one map over all :data:`LEVELS` for each image, and for
    each level one map for each image.

    Args:
        generator: A loaded model with a U-Net and one text encoder (Stable Diffusion 1 and 2).
        images: ``uint8 (height, width, 3)`` RGB, all of the size that the model generates.
        texts, words: The text of each image, and its words to map.
        keys, seed: Seeds of each image's noise, which is the same at all levels and in every batch.

    Raises ParameterError where the model is of another kind or size, or attention cannot be captured from it, RunError
    where values overflow.
    """
    import torch

    pipe = generator.pipe
    check(pipe)
    if type(pipe).__name__ != "StableDiffusionPipeline":
        raise ParameterError(
            "Attention in existing images can only be recorded in a StableDiffusionPipeline, and this is a "
            f"{type(pipe).__name__}."
        )
    sizes, model_size = sorted({image.shape for image in images}), (generator.height, generator.width)
    if sizes and sizes[0][:2] != model_size:
        raise ParameterError(
            f"{generator.model} generates images of {model_size[0]} x {model_size[1]} pixels, but these have "
            f"{sizes[0][0]} x {sizes[0][1]}, so attention is not comparable. Resize them."
        )
    word_columns = columns(pipe, texts, words)
    all_levels: list[WordMaps] = []
    by_level: list[list[WordMaps]] = [[] for _ in LEVELS]
    for start in range(0, len(images), generator.batch_size):
        batch = range(start, min(start + generator.batch_size, len(images)))
        batch_columns = word_columns.select(batch)
        with torch.inference_mode(), capture(pipe, batch_columns, by_step=True) as attention:
            seeds = [image_seed(seed, keys[i], 0) for i in batch]
            _denoise(generator, [images[i] for i in batch], [texts[i] for i in batch], seeds)
        all_levels += word_maps(attention.maps(), batch_columns)
        for k, maps in enumerate(by_level):
            maps += word_maps(attention.maps(k), batch_columns)
    return all_levels, by_level


def _denoise(generator: Generator, images: list[np.ndarray], texts: list[str], seeds: Sequence[int]) -> None:
    """Run the network once at each level of noise."""
    import torch

    pipe = generator.pipe
    # Use the training schedule: the noise of a scheduler depends on the steps that were last set.
    device, alphas = pipe.unet.device, pipe.scheduler.alphas_cumprod
    pixels = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).to(device, pipe.vae.dtype) / 127.5 - 1
    encoded = pipe.vae.encode(pixels).latent_dist.mean * pipe.vae.config.scaling_factor
    embeddings, _ = pipe.encode_prompt(texts, device, 1, False)
    noise = torch.stack([torch.randn(encoded.shape[1:], generator=torch.Generator().manual_seed(s)) for s in seeds]).to(
        device, encoded.dtype
    )
    for level in LEVELS:
        t = torch.full((len(images),), round(level * len(alphas)), device=device)
        share = alphas[t[0].item()].to(device, encoded.dtype)
        noisy = share.sqrt() * encoded + (1 - share).sqrt() * noise
        options = {"encoder_hidden_states": embeddings.to(pipe.unet.dtype), "return_dict": False}
        generator.check_finite(pipe.unet(noisy.to(pipe.unet.dtype), t, **options)[0])


class NoisedImages:
    """Existing images with cached maps of the words of their texts; errors as :func:`map_words`.

    ``prompts`` has image_id, text and words (a list) for each image. ``load`` returns the model, and is called only for
    images that are not cached; ``weights`` is its digest.
    """

    def __init__(
        self,
        images: ImageSource,
        prompts: pd.DataFrame,
        load: Callable[[], Generator],
        weights: str,
        *,
        seed: int,
        cache: ResultCache,
        progress: bool = True,
    ) -> None:
        generator = Memoized(load)

        def work(shard: pd.DataFrame) -> pd.DataFrame:
            words = [json.loads(encoded) for encoded in shard["words"]]
            ids, texts = list(shard["image_id"]), list(shard["text"])
            all_levels, by_level = map_words(generator(), images.read(ids), texts, words, keys=ids, seed=seed)
            frames = [
                pd.DataFrame([pack(maps) for maps in level_maps]).assign(image_id=shard["image_id"], level=level)
                for level, level_maps in zip((0.0, *LEVELS), (all_levels, *by_level), strict=True)
            ]
            return pd.concat(frames, ignore_index=True)

        units = prompts[["image_id", "text"]].assign(words=[json.dumps(list(words)) for words in prompts["words"]])
        inputs = {"images": images.digest, "weights": weights, "levels": list(LEVELS), "seed": seed}
        stage = cache.stage("noised", inputs, work)
        options = {"label": "processing noised images", "progress": progress, "gpu": True}
        rows = stage.compute(units.astype(object), shard_rows=_SHARD_ROWS, **options)
        self.digest = stage.digest
        self._rows = rows.set_index(["level", "image_id"])[list(PACKED)] if len(rows) else rows

    def word_maps(self, image_ids: Sequence[str], level: float = 0.0) -> list[WordMaps]:
        """Return maps of images in the order of ``image_ids``: over all of :data:`LEVELS`, or at one of them."""
        return [unpack(self._rows.loc[level, image_id]) for image_id in image_ids]
