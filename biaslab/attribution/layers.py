"""How alike pairs of images are in where each layer of the network attends to the words of their prompts.

It says in which layers images of one noise part where their prompts differ in a word: what the mean over layers, of
which dependency groups are made, leaves out. Beyond the triplets paper.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from biaslab.measures.similarity import cosines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from biaslab.attribution.images import AttendedImages
    from biaslab.keep.store import Store

_SHARD_PAIRS = 512
_COLUMNS = ["first", "second", "metric", "value", "reason"]
_NONE = "the prompts have no word in common whose attention differs by place"


def compare_layers(
    images: AttendedImages, pairs: pd.DataFrame, *, store: Store, progress: bool = True
) -> pd.DataFrame:
    """Return how alike the maps of words of pairs of images are, by layer; each pair is kept in ``store``.

    Compared are the maps of all words of both prompts as one vector, each map scaled from its least to its most
    attention. A word has its like in the other prompt; words that are in one prompt only, such as the one that says a
    gender, have each other, in their order, where both prompts have as many, and else none.

    ``images`` are of prompts that share noise, ``pairs`` has their ids as first and second.

    Returns:
        Columns first, second, metric (``attention``, the layer's rows and columns and its name, such as ``attention
        16x16 up_blocks.1.attentions.0.transformer_blocks.0.attn2``; layers in the order in which they run), value
        (cosine, 0 to 1) and reason (why there is none).
    """
    units = pairs[["first", "second"]].astype(object).drop_duplicates(ignore_index=True)
    stage = store.stage("layer_similarity", {"images": images.digest}, partial(_compared, images))
    label = f"comparing layers of {images.name}"
    found = stage.compute(units, shard_rows=_SHARD_PAIRS, label=label, unit="pairs", progress=progress)
    return found.reindex(columns=_COLUMNS)


def _compared(images: AttendedImages, pairs: pd.DataFrame) -> pd.DataFrame:
    rows = []
    # One pair at a time: shards of images are held as they are read.
    for first, second in zip(pairs["first"], pairs["second"], strict=True):
        words = [maps.words for maps in images.word_maps([first, second])]
        one, other = images.layer_maps([first, second])
        here, there = _alike(*words)
        for layer in one:
            sides = one[layer][here].reshape(1, -1), other[layer][there].reshape(1, -1)
            value = cosines(*sides)[0] if here else np.nan
            rows.append((first, second, f"attention {layer}", value, "" if np.isfinite(value) else _NONE))
    return pd.DataFrame(rows, columns=_COLUMNS)


def _alike(first: Sequence[str], second: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return the places of words in two prompts that are held against one another."""
    common = [word for word in first if word in second]
    own, other = ([word for word in words if word not in common] for words in (first, second))
    if len(own) != len(other):
        own, other = [], []
    return [first.index(w) for w in common + own], [second.index(w) for w in common + other]
