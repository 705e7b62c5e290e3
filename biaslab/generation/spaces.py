"""Similarity of prompts in a model's text encoding, and of latents of its images.

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
# Pairs whose texts are encoded at a time: an encoding by a large model has about 8 MB.
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
    """Return the similarity of pairs of texts (first, second) as a model's denoising network receives them.

    ``model``, ``settings``, ``device`` and ``load`` are as for :class:`biaslab.generation.images.GeneratedImages`.
    Columns first, second, metric, value (cosine, -1 to 1) and reason (why it is missing). ``t`` compares all tokens,
    including padding, as one vector, as in the paper; ``t_pooled`` the network's additional pooled vector; ``t_words``
    the mean of only the words' tokens. Raises ParameterError: The model cannot be loaded, or lacks a word.
    """
    all_texts = {*pairs["first"], *pairs["second"]}

    @Memoized
    def get_generator() -> generator.Generator:
        # Compiling takes longer than encoding.
        loaded = load(model, settings.with_changes(compile=False), device=device)
        loaded.check(sorted(all_texts))
        return loaded

    def work(shard: pd.DataFrame) -> pd.DataFrame:
        chunks = (shard.iloc[start : start + _AT_ONCE] for start in range(0, len(shard), _AT_ONCE))
        return pd.concat([_compare_texts(get_generator(), chunk) for chunk in chunks], ignore_index=True)

    inputs = {"weights": checkpoints.digest(model), "dtype": settings.dtype}
    stage = cache.stage("prompt_similarity", inputs, work)
    return _compute_pairs(stage, pairs, f"comparing prompts as {model} reads them", progress)


def compare_latents(
    images: GeneratedImages, pairs: pd.DataFrame, *, cache: ResultCache, progress: bool = True
) -> pd.DataFrame:
    """Return the similarity of latents of pairs of images (first, second) of prompts that share noise.

    Columns first, second, metric, value (cosine, -1 to 1) and reason. ``z0`` compares the final latents, before
    decoding. If the first of the pair is the first image of the noise of both, ``z_1``, ``z_2``, … compare those after
    each step.
    """
    stage = cache.stage("latent_similarity", {"images": images.digest}, partial(_compare_latents, images))
    return _compute_pairs(stage, pairs, f"comparing latents of {images.name}", progress)


def missing_values(pairs: pd.DataFrame, metrics: Iterable[str], reason: str) -> pd.DataFrame:
    """Return the rows of pairs that cannot be compared."""
    distinct = pairs[["first", "second"]].drop_duplicates()
    rows = [distinct.assign(metric=metric, value=np.nan, reason=reason) for metric in metrics]
    return pd.concat(rows, ignore_index=True)


def _compare_texts(model: generator.Generator, pairs: pd.DataFrame) -> pd.DataFrame:
    prompts = list(dict.fromkeys([*pairs["first"], *pairs["second"]]))
    try:
        text_inputs = model.embeddings(prompts)
    except ParameterError as error:
        return missing_values(pairs, OF_PROMPTS, str(error))
    indices = {text: i for i, text in enumerate(prompts)}
    first, second = ([indices[text] for text in pairs[side]] for side in ("first", "second"))
    tokens, word_mask = np.stack([t.tokens for t in text_inputs]), texts.are_words(model.pipe, prompts)
    pooled = None if text_inputs[0].pooled is None else np.stack([t.pooled for t in text_inputs])
    words = None if word_mask is None else word_mean(tokens, word_mask)
    parts = []
    metrics = zip(OF_PROMPTS, (tokens, pooled, words), ("", NO_POOLED, NO_WORDS), strict=True)
    for metric, vectors, missing_reason in metrics:
        is_known = vectors is not None
        value = cosines(vectors[first], vectors[second]) if is_known else np.nan
        parts.append(pairs.assign(metric=metric, value=value, reason="" if is_known else missing_reason))
    return pd.concat(parts)


def _compare_latents(images: GeneratedImages, pairs: pd.DataFrame) -> pd.DataFrame:
    rows = []
    # One pair at a time, because shards of images are cached in memory when they are read.
    for first, second in zip(pairs["first"], pairs["second"], strict=True):
        first_record, second_record = images.latents([first, second])
        is_known = first_record.final is not None and second_record.final is not None
        value = cosines(first_record.final[None], second_record.final[None])[0] if is_known else np.nan
        rows.append((first, second, "z0", value, "" if is_known else NO_LATENTS))
        steps = second_record.by_step if second_record.reference_image == first else ()
        rows += [(first, second, f"z_{k}", value, "") for k, value in enumerate(steps, start=1)]
    return pd.DataFrame(rows, columns=_COLUMNS)


def _compute_pairs(stage: Stage, pairs: pd.DataFrame, label: str, progress: bool) -> pd.DataFrame:
    """Return a stage's results for pairs, sorted by metric, except that the steps of each pair stay together."""
    units = pairs[["first", "second"]].astype(object).drop_duplicates(ignore_index=True)
    table = stage.compute(units, shard_rows=_SHARD_PAIRS, label=label, unit="pairs", progress=progress)
    if table.empty:
        return pd.DataFrame(columns=_COLUMNS)
    order = {metric: i for i, metric in enumerate((*OF_PROMPTS, *OF_LATENTS))}
    positions = table["metric"].map(order).fillna(len(order)).argsort(kind="stable")
    return table.iloc[positions].reset_index(drop=True)
