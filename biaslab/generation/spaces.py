"""How alike prompts are as a model reads them, and latents of its images: what comes before images can be compared.

Source: triplets paper, sections 4.1.1 and 4.1.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
import pandas as pd

from biaslab.cache.result_cache import ResultCache, Stage
from biaslab.errors import ParameterError
from biaslab.execution.workers import Memoized
from biaslab.generation import generator, texts
from biaslab.generation.images import GeneratedImages
from biaslab.generation.settings import GenerationSettings
from biaslab.hub import checkpoints
from biaslab.metrics.similarity import cosines, word_mean

OF_PROMPTS = ("t", "t_pooled", "t_words")
OF_LATENTS = ("z0",)
_COLUMNS = ["first", "second", "metric", "value", "reason"]
NO_POOLED = "the network takes no text as one vector"
NO_WORDS = "the tokens of words are unknown for this pipeline"
NO_LATENTS = "the model does not provide its latents"
_SHARD_PAIRS = 512
# Pairs whose texts are read at a time: what a large model reads of one is some 8 MB.
_AT_ONCE = 8


def compare_prompts(
    pairs: pd.DataFrame,
    model: str,
    settings: GenerationSettings,
    *,
    cache: ResultCache,
    device: str = "auto",
    progress: bool = True,
    load: Callable[..., generator.Generator] = generator.load,
) -> pd.DataFrame:
    """Return how alike pairs of texts (first, second) are as a model's denoising network receives them.

    ``model``, ``settings``, ``device`` and ``load`` are as for :class:`biaslab.generation.images.GeneratedImages`.
    Columns first, second, metric, value (cosine, -1 to 1) and reason (why there is none). ``t`` is of all tokens as one
    vector, padding among them, as in the paper; ``t_pooled`` of the vector that the network takes beside them;
    ``t_words`` of the mean of the words' tokens alone. Raises ParameterError: The model cannot be loaded, or does not
    know a word.
    """
    whole = {*pairs["first"], *pairs["second"]}

    @Memoized
    def ready() -> generator.Generator:
        # Compiling takes longer than reading.
        loaded = load(model, settings.changed(compile=False), device=device)
        loaded.check(sorted(whole))
        return loaded

    def work(shard: pd.DataFrame) -> pd.DataFrame:
        chunks = (shard.iloc[start : start + _AT_ONCE] for start in range(0, len(shard), _AT_ONCE))
        return pd.concat([_read(ready(), chunk) for chunk in chunks], ignore_index=True)

    inputs = {"weights": checkpoints.digest(model), "dtype": settings.dtype}
    stage = cache.stage("prompt_similarity", inputs, work)
    return _computed(stage, pairs, f"comparing prompts as {model} reads them", progress)


def compare_latents(
    images: GeneratedImages, pairs: pd.DataFrame, *, cache: ResultCache, progress: bool = True
) -> pd.DataFrame:
    """Return how alike the latents of pairs of images (first, second) of prompts that share noise are.

    Columns first, second, metric, value (cosine, -1 to 1) and reason: ``z0`` of the last latents, before decoding, and
    where the first of the pair is the first image of the noise of both, ``z_1``, ``z_2``, … of those after each step.
    """
    stage = cache.stage("latent_similarity", {"images": images.digest}, partial(_compared_latents, images))
    return _computed(stage, pairs, f"comparing latents of {images.name}", progress)


def missing_values(pairs: pd.DataFrame, metrics: Iterable[str], reason: str) -> pd.DataFrame:
    """Return the rows of pairs that cannot be compared."""
    same = pairs[["first", "second"]].drop_duplicates()
    rows = [same.assign(metric=metric, value=np.nan, reason=reason) for metric in metrics]
    return pd.concat(rows, ignore_index=True)


def _read(made_by: generator.Generator, pairs: pd.DataFrame) -> pd.DataFrame:
    prompts = list(dict.fromkeys([*pairs["first"], *pairs["second"]]))
    try:
        received = made_by.embeddings(prompts)
    except ParameterError as error:
        return missing_values(pairs, OF_PROMPTS, str(error))
    at = {text: i for i, text in enumerate(prompts)}
    first, second = ([at[text] for text in pairs[side]] for side in ("first", "second"))
    tokens, said = np.stack([one.tokens for one in received]), texts.are_words(made_by.pipe, prompts)
    pooled = None if received[0].pooled is None else np.stack([one.pooled for one in received])
    words = None if said is None else word_mean(tokens, said)
    parts = []
    read = zip(OF_PROMPTS, (tokens, pooled, words), ("", NO_POOLED, NO_WORDS), strict=True)
    for metric, vectors, without in read:
        known = vectors is not None
        value = cosines(vectors[first], vectors[second]) if known else np.nan
        parts.append(pairs.assign(metric=metric, value=value, reason="" if known else without))
    return pd.concat(parts)


def _compared_latents(images: GeneratedImages, pairs: pd.DataFrame) -> pd.DataFrame:
    rows = []
    # One pair at a time: shards of images are held as they are read.
    for first, second in zip(pairs["first"], pairs["second"], strict=True):
        one, other = images.latents([first, second])
        known = one.final is not None and other.final is not None
        value = cosines(one.final[None], other.final[None])[0] if known else np.nan
        rows.append((first, second, "z0", value, "" if known else NO_LATENTS))
        steps = other.by_step if other.reference_image == first else ()
        rows += [(first, second, f"z_{k}", value, "") for k, value in enumerate(steps, start=1)]
    return pd.DataFrame(rows, columns=_COLUMNS)


def _computed(stage: Stage, pairs: pd.DataFrame, label: str, progress: bool) -> pd.DataFrame:
    """Return what a stage finds of pairs, metric by metric, but the steps of each pair together."""
    units = pairs[["first", "second"]].astype(object).drop_duplicates(ignore_index=True)
    found = stage.compute(units, shard_rows=_SHARD_PAIRS, label=label, unit="pairs", progress=progress)
    if found.empty:
        return pd.DataFrame(columns=_COLUMNS)
    order = {metric: i for i, metric in enumerate((*OF_PROMPTS, *OF_LATENTS))}
    place = found["metric"].map(order).fillna(len(order)).argsort(kind="stable")
    return found.iloc[place].reset_index(drop=True)
