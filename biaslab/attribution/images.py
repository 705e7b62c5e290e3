"""Images together with where they attend to the words of their prompts, made at once and kept together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import MappingProxyType

import numpy as np
import pandas as pd

from biaslab.attribution.attention import capture, check
from biaslab.attribution.maps import PACKED, WordMaps, packed, unpacked, unzipped, word_maps, zipped
from biaslab.attribution.words import columns
from biaslab.generation import GeneratedImages, Generator
from biaslab.generation.generator import Follow, Watch, unwatched
from biaslab.ground.errors import InputError
from biaslab.models.images import Unreadable

LAYER_MAPS = "layer_maps"
"""The column in which tables keep maps of each layer."""
# Rows and columns of a layer's map at most: all layers are compared on one grid, which few of them are coarser than.
_MOST = 16


def generate_with_attention(
    generator: Generator,
    texts: Sequence[str],
    keys: Sequence[tuple[str, int]],
    seed: int,
    words: Sequence[Sequence[str]],
    *,
    watch: Watch = unwatched,
) -> tuple[list[np.ndarray | Unreadable], list[WordMaps], list[dict[str, np.ndarray]]]:
    """Generate images, maps of where they attend to words, and those of each layer.

    Images are those of :meth:`biaslab.generation.Generator.images`, byte for byte. Maps do not depend on the size of
    batches beyond rounding.

    Args:
        generator, texts, keys, seed, watch: As for :meth:`~biaslab.generation.Generator.images`.
        words: Of each image, the words of its prompt to map, as they stand there.

    Returns:
        The images; their maps; and of each image by layer (:meth:`~.attention.Attention.with_layers`), in the order in
        which these run, the maps of the same words, ``uint8 (words, rows, columns)`` as in :class:`~.maps.WordMaps`, on
        the latents' grid or 16 of its longer side.

    Raises:
        InputError: There are not as many keys or lists of words as texts, or a word is empty.
        ParameterError: Attention cannot be taken from this model; or as :meth:`~biaslab.generation.Generator.images`.
        RunError: As there.
    """
    check(generator.pipe)
    # All of them before the first image: a list that does not fit is known at once.
    placed = columns(generator.pipe, texts, words)
    maps: list[WordMaps] = []
    by_layer: list[dict[str, np.ndarray]] = []

    @contextmanager
    def attending(chosen: range) -> Iterator[Follow | None]:
        here = placed.of(chosen)
        with watch(chosen) as follow, capture(generator.pipe, here) as attention:
            yield follow
        whole, of_layers = attention.with_layers()
        maps.extend(word_maps(whole, here))
        found = {layer: word_maps(of, here, _MOST) for layer, of in of_layers.items()}
        by_layer.extend({layer: of[i].maps for layer, of in found.items()} for i in range(len(chosen)))

    images = generator.images(texts, keys, seed, watch=attending)
    return images, maps, by_layer


class AttendedImages(GeneratedImages):
    """Images of a table of prompts, as :class:`~biaslab.generation.GeneratedImages`, with maps of words.

    Images and maps are made at once and kept in the same shards. Prompts have a column more, ``words``: a list of the
    words of the text to map. Raises InputError without it; else arguments and errors are the same.
    """

    _also = MappingProxyType({"softmax": "text"})

    def __init__(self, prompts: pd.DataFrame, *given, **options) -> None:
        if "words" not in prompts:
            raise InputError("The prompts have no column 'words'; it must hold a list of words for each.")
        super().__init__(prompts, *given, **options)
        # Shards are told apart by the rows that they were made from.
        asked = [json.dumps(list(words)) for words in prompts["words"]]
        by_prompt = dict(zip(prompts["prompt_id"], asked, strict=True))
        self._units = self._units.assign(words=self._units["prompt_id"].map(by_prompt))
        self.digest = hashlib.sha256("\n".join([self.digest, *self._units["words"]]).encode()).hexdigest()

    def word_maps(self, image_ids: Sequence[str]) -> list[WordMaps]:
        """Return maps of images in the order asked for; raises InputError where an id is not in the table."""
        return [unpacked(self._row(place)) for place in self._found(image_ids)]

    def layer_maps(self, image_ids: Sequence[str]) -> list[dict[str, np.ndarray]]:
        """Return maps of each layer, as of :func:`generate_with_attention`; else as :meth:`word_maps`."""
        return [unzipped(self._row(place)[LAYER_MAPS]) for place in self._found(image_ids)]

    def _drawn(self, made_by: Generator, rows: pd.DataFrame, keys: list[tuple[str, int]], watch: Watch):
        words = [json.loads(asked) for asked in rows["words"]]
        texts = list(rows["text"])
        images, found, by_layer = generate_with_attention(
            made_by, texts, keys, self._seed, words, watch=watch
        )
        kept = [packed(maps) for maps in found]
        more = {column: [row[column] for row in kept] for column in PACKED}
        return images, more | {LAYER_MAPS: [zipped(of) for of in by_layer]}
