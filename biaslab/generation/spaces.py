"""How alike prompts are as a model reads them, and latents of its images: what comes before images can be compared.

Source: triplets paper, sections 4.1.1 and 4.1.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np
import pandas as pd

from biaslab import models
from biaslab.engine import Memo
from biaslab.errors import ParameterError
from biaslab.generation import generator, texts
from biaslab.generation.images import GeneratedImages
from biaslab.generation.settings import GenerationSettings
from biaslab.measures.similarity import cosines, word_mean
from biaslab.store import Store

OF_PROMPTS = ("t", "t_pooled", "t_words")
OF_LATENTS = ("z0",)
NO_POOLED = "the network takes no text as one vector"
NO_WORDS = "which tokens of a text are words is not known of this pipeline"
NO_LATENTS = "the model does not show its latents"
_SHARD_PAIRS = 512
# Pairs whose texts are read at a time: what a large model reads of one is some 8 MB.
_AT_ONCE = 8


def compare_prompts(
    pairs: pd.DataFrame,
    model: str,
    settings: GenerationSettings,
    *,
    store: Store,
    device: str = "auto",
    progress: bool = True,
    load: Callable[..., generator.Generator] = generator.load,
) -> pd.DataFrame:
    """Return how alike pairs of texts are as a model's denoising network receives them; each is kept in ``store``.

    Args:
        pairs: Columns first and second: texts.
        model, settings, device: As for :func:`biaslab.generation.load`.
        load: As for :class:`~biaslab.generation.GeneratedImages`.

    Returns:
        Columns first, second, metric, value (cosine, -1 to 1) and reason (why there is none). ``t`` is of all tokens as
        one vector, padding among them, as in the paper; ``t_pooled`` of the vector that the network takes beside them,
        where it takes one; ``t_words`` of the mean of the words' tokens alone.

    Raises:
        ParameterError: The model cannot be loaded, or does not know a word.
    """
    where = models.resolve(model, "text-to-image")
    whole = {*pairs["first"], *pairs["second"]}

    @Memo
    def ready() -> generator.Generator:
        # Compiling takes longer than reading.
        loaded = load(model, settings.changed(compile=False), device=device)
        loaded.check(sorted(whole))
        return loaded

    inputs = {"weights": models.digest(where), "dtype": settings.dtype}
    stage = store.stage("prompt_similarity", inputs, partial(_compared_prompts, ready))
    found = _computed(stage, pairs, f"comparing prompts as {model} reads them", progress)
    return _melted(found, OF_PROMPTS)


def compare_latents(
    images: GeneratedImages, pairs: pd.DataFrame, *, store: Store, progress: bool = True
) -> pd.DataFrame:
    """Return how alike the latents of pairs of images are; each is kept in ``store``.

    Args:
        images: Images of prompts that share noise.
        pairs: Columns first and second: ids of images.

    Returns:
        Columns first, second, metric, value (cosine, -1 to 1) and reason: ``z0`` of the last latents, before decoding,
        and where both images have the same noise and the first of the pair is the first of it, ``z_1``, ``z_2``, … of
        those after each step.
    """
    stage = store.stage("latent_similarity", {"images": images.digest}, partial(_compared_latents, images))
    found = _computed(stage, pairs, f"comparing latents of {images.name}", progress)
    last = _melted(found, OF_LATENTS)
    by_step = [np.frombuffer(of, float) for of in found["steps"]] if len(found) else []
    n = [len(of) for of in by_step]
    if not any(n):
        return last
    steps = found.loc[found.index.repeat(n), ["first", "second"]]
    named = [f"z_{k}" for of in n for k in range(1, of + 1)]
    steps = steps.assign(metric=named, value=np.concatenate(by_step), reason="")
    return pd.concat([last, steps], ignore_index=True)


def none(pairs: pd.DataFrame, metrics: Iterable[str], reason: str) -> pd.DataFrame:
    """Return the rows of pairs that cannot be compared: first, second, metric, value (NaN) and reason."""
    same = pairs[["first", "second"]].drop_duplicates()
    rows = [same.assign(metric=metric, value=np.nan, reason=reason) for metric in metrics]
    return pd.concat(rows, ignore_index=True)


def _compared_prompts(ready: Callable[[], generator.Generator], pairs: pd.DataFrame) -> pd.DataFrame:
    made_by = ready()
    chunks = (pairs.iloc[start : start + _AT_ONCE] for start in range(0, len(pairs), _AT_ONCE))
    return pd.concat([_read(made_by, chunk) for chunk in chunks], ignore_index=True)


def _read(made_by: generator.Generator, pairs: pd.DataFrame) -> pd.DataFrame:
    out = pairs.assign(**dict.fromkeys(OF_PROMPTS, np.nan), **{f"no_{m}": "" for m in OF_PROMPTS})
    prompts = list(dict.fromkeys([*pairs["first"], *pairs["second"]]))
    try:
        received = made_by.embeddings(prompts)
    except ParameterError as error:
        return out.assign(**{f"no_{m}": str(error) for m in OF_PROMPTS})
    at = {text: i for i, text in enumerate(prompts)}
    first, second = ([at[text] for text in pairs[side]] for side in ("first", "second"))
    tokens = np.stack([one.tokens for one in received])
    out["t"] = cosines(tokens[first], tokens[second])
    if received[0].pooled is None:
        out["no_t_pooled"] = NO_POOLED
    else:
        pooled = np.stack([one.pooled for one in received])
        out["t_pooled"] = cosines(pooled[first], pooled[second])
    said = texts.are_words(made_by.pipe, prompts)
    if said is None:
        out["no_t_words"] = NO_WORDS
    else:
        words = word_mean(tokens, said)
        out["t_words"] = cosines(words[first], words[second])
    return out


def _compared_latents(images: GeneratedImages, pairs: pd.DataFrame) -> pd.DataFrame:
    rows = []
    # One pair at a time: shards of images are held as they are read.
    for first, second in zip(pairs["first"], pairs["second"], strict=True):
        one, other = images.latents([first, second])
        known = one.final is not None and other.final is not None
        value = cosines(one.final[None], other.final[None])[0] if known else np.nan
        steps = other.by_step if other.of == first else np.zeros(0)
        rows.append((first, second, value, "" if known else NO_LATENTS, steps.tobytes()))
    return pd.DataFrame(rows, columns=["first", "second", "z0", "no_z0", "steps"])


def _computed(stage, pairs: pd.DataFrame, label: str, progress: bool) -> pd.DataFrame:
    units = pairs[["first", "second"]].astype(object).drop_duplicates(ignore_index=True)
    return stage.compute(units, shard_rows=_SHARD_PAIRS, label=label, unit="pairs", progress=progress)


def _melted(found: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    columns = ["first", "second", "metric", "value", "reason"]
    if found.empty:
        return pd.DataFrame(columns=columns)
    rows = [
        found[["first", "second"]].assign(metric=m, value=found[m], reason=found[f"no_{m}"]) for m in metrics
    ]
    return pd.concat(rows, ignore_index=True)[columns]
