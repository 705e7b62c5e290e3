"""Images together with where they attend to the words of their prompts, made at once and kept together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import MappingProxyType

import numpy as np
import pandas as pd

from biaslab.attribution.attention import capture, check, columns
from biaslab.attribution.maps import PACKED, WordMaps, packed, unpacked, word_maps
from biaslab.generation.generator import Follow, Generator, Watch, unwatched
from biaslab.generation.images import GeneratedImages
from biaslab.hub.image_sources import UnreadableImage


def generate_with_attention(
    generator: Generator,
    texts: Sequence[str],
    keys: Sequence[tuple[str, int]],
    seed: int,
    words: Sequence[Sequence[str]],
    *,
    watch: Watch = unwatched,
) -> tuple[list[np.ndarray | UnreadableImage], list[WordMaps]]:
    """Generate images, byte for byte those of :meth:`biaslab.generation.Generator.images`, and maps of where they
    attend to words.

    ``words`` are those of each image's prompt to map; other arguments and errors are the same. Raises ParameterError
    also where attention cannot be taken from this model.
    """
    check(generator.pipe)
    # All of them before the first image: a list that does not fit is known at once.
    placed = columns(generator.pipe, texts, words)
    maps: list[WordMaps] = []

    @contextmanager
    def attending(chosen: range) -> Iterator[Follow | None]:
        here = placed.of(chosen)
        with watch(chosen) as follow, capture(generator.pipe, here) as attention:
            yield follow
        maps.extend(word_maps(attention.maps(), here))

    images = generator.images(texts, keys, seed, watch=attending)
    return images, maps


class AttendedImages(GeneratedImages):
    """Images of a table of prompts, as :class:`~biaslab.generation.GeneratedImages`, with maps of words in the same
    shards. Prompts have a column more, ``words``: a list of the words of the text to map.
    """

    _extra_inputs = MappingProxyType({"softmax": "text"})

    def __init__(self, prompts: pd.DataFrame, *given, **options) -> None:
        super().__init__(prompts, *given, **options)
        # Shards are told apart by the rows that they were made from.
        asked = [json.dumps(list(words)) for words in prompts["words"]]
        by_prompt = dict(zip(prompts["prompt_id"], asked, strict=True))
        self._units = self._units.assign(words=self._units["prompt_id"].map(by_prompt))
        self.digest = hashlib.sha256("\n".join([self.digest, *self._units["words"]]).encode()).hexdigest()

    def word_maps(self, image_ids: Sequence[str]) -> list[WordMaps]:
        """Return maps of images in the order asked for; raises InputError where an id is not in the table."""
        return [unpacked(self._row(place)) for place in self._row_of(image_ids)]

    def _generate_with(self, made_by: Generator, rows: pd.DataFrame, keys: list[tuple[str, int]], watch: Watch):
        words = [json.loads(asked) for asked in rows["words"]]
        texts = list(rows["text"])
        images, maps = generate_with_attention(made_by, texts, keys, self._seed, words, watch=watch)
        kept = [packed(each) for each in maps]
        return images, {column: [row[column] for row in kept] for column in PACKED}
