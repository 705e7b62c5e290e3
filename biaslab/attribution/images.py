"""Images with maps of attention to the words of their prompts, generated and cached together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import MappingProxyType

import numpy as np
import pandas as pd

from biaslab.attribution.attention import capture, check, columns
from biaslab.attribution.maps import PACKED, WordMaps, pack, unpack, word_maps
from biaslab.generation.generator import Follow, Generator, Watch, no_watch
from biaslab.generation.images import GeneratedImages
from biaslab.hub.image_sources import UnreadableImage


def generate_with_attention(
    generator: Generator,
    texts: Sequence[str],
    keys: Sequence[tuple[str, int]],
    seed: int,
    words: Sequence[Sequence[str]],
    *,
    watch: Watch = no_watch,
) -> tuple[list[np.ndarray | UnreadableImage], list[WordMaps]]:
    """Generate images, byte-identical to :meth:`biaslab.generation.Generator.images`, and maps of attention to words.

    ``words`` are the words of each image's prompt to map; other arguments and errors are the same. Also raises
    ParameterError where attention cannot be captured from this model.
    """
    check(generator.pipe)
    # Find all words before the first image, so that invalid arguments fail early.
    word_columns = columns(generator.pipe, texts, words)
    maps: list[WordMaps] = []

    @contextmanager
    def attending(batch: range) -> Iterator[Follow | None]:
        batch_columns = word_columns.select(batch)
        with watch(batch) as follow, capture(generator.pipe, batch_columns) as attention:
            yield follow
        maps.extend(word_maps(attention.maps(), batch_columns))

    images = generator.images(texts, keys, seed, watch=attending)
    return images, maps


class AttendedImages(GeneratedImages):
    """Images of a table of prompts, as :class:`~biaslab.generation.GeneratedImages`, with maps of words in the same
    shards. Prompts have the additional column ``words``: a list of the words of the text to map.
    """

    _extra_inputs = MappingProxyType({"softmax": "text"})

    def __init__(self, prompts: pd.DataFrame, *args, **options) -> None:
        super().__init__(prompts, *args, **options)
        # The rows of a shard are part of its key.
        encoded_words = [json.dumps(list(words)) for words in prompts["words"]]
        by_prompt = dict(zip(prompts["prompt_id"], encoded_words, strict=True))
        self._units = self._units.assign(words=self._units["prompt_id"].map(by_prompt))
        self.digest = hashlib.sha256("\n".join([self.digest, *self._units["words"]]).encode()).hexdigest()

    def word_maps(self, image_ids: Sequence[str]) -> list[WordMaps]:
        """Return maps of images in the order of ``image_ids``; raises InputError where an id is not in the table."""
        return [unpack(self._row(place)) for place in self._row_of(image_ids)]

    def _generate_with(self, made_by: Generator, rows: pd.DataFrame, keys: list[tuple[str, int]], watch: Watch):
        words = [json.loads(encoded) for encoded in rows["words"]]
        texts = list(rows["text"])
        images, maps = generate_with_attention(made_by, texts, keys, self._seed, words, watch=watch)
        packed_maps = [pack(word_maps) for word_maps in maps]
        return images, {column: [row[column] for row in packed_maps] for column in PACKED}
