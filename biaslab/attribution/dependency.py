"""Coverage of the objects of an image by the words of its prompt, the measure of guidance.

Source: triplets paper, sections 6.1 and 6.2. Objects are rows of ``triplets_objects``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from biaslab.attribution.maps import THRESHOLD, resize_maps
from biaslab.cache.result_cache import ResultCache
from biaslab.metrics.instances import BOX
from biaslab.metrics.instances import masks as object_masks
from biaslab.metrics.similarity import HUMANS, coverage

if TYPE_CHECKING:
    from biaslab.attribution.images import AttendedImages
    from biaslab.attribution.noised import NoisedImages

COVERED = {"coverage": float, "word": object, "human_coverage": float, "region": object}
"""The columns of :func:`word_coverage` and their types."""
# Pixels of masks in memory at a time, for objects and for words.
_MAX_PIXELS = 2**26
# Height and width at which words are compared with boxes where no mask gives the image's.
_SIZE = 512
_SHARD_ROWS = 256
_OBJECT_COLUMNS = ("rle", "height", "width", *BOX)


def measure_coverage(
    images: AttendedImages | NoisedImages, instances: pd.DataFrame, *, cache: ResultCache, progress: bool = True
) -> pd.DataFrame:
    """Return how far the words of prompts cover the objects of images, cached in ``cache``.

    ``images`` has the maps of words, ``instances`` are rows of ``triplets_objects``. Returns one row per instance, in
    order: image_id, instance and the columns of :func:`word_coverage`. Raises InputError where an image has no maps, or
    masks of several sizes.
    """

    def work(shard: pd.DataFrame) -> pd.DataFrame:
        frames = []
        for image_id, objects in shard.itertuples(index=False):
            (maps,) = images.word_maps([image_id])
            image_objects = pd.DataFrame(json.loads(objects))
            table = word_coverage(image_objects, maps.words, maps.maps)
            frames.append(table.assign(image_id=image_id, instance=image_objects["instance"].to_numpy()))
        return pd.concat(frames, ignore_index=True)

    by_image = instances.groupby("image_id", sort=False)[["instance", *_OBJECT_COLUMNS]]
    units = [(image_id, rows.to_json(orient="records", double_precision=15)) for image_id, rows in by_image]
    stage = cache.stage("coverages", {"images": images.digest}, work)
    units = pd.DataFrame(units, columns=["image_id", "objects"], dtype=object)
    label = "comparing words and objects"
    table = stage.compute(units, shard_rows=_SHARD_ROWS, label=label, progress=progress)
    keys = ["image_id", "instance"]
    if table.empty:
        return instances[keys].reindex(columns=[*keys, *COVERED]).astype(COVERED)
    return instances[keys].merge(table.astype(COVERED), on=keys, how="left", validate="one_to_one")


def word_coverage(
    instances: pd.DataFrame, words: Sequence[str], maps: np.ndarray, threshold: float = THRESHOLD
) -> pd.DataFrame:
    """Return how far words cover the objects of one image (eq. 7); the largest coverage decides on guidance.

    ``instances`` are rows of ``triplets_objects`` of one image. ``maps`` are those of ``words``, ``uint8 (words, rows,
    columns)``, and are resized to the masks, or to 512 pixels a side without masks. ``threshold`` is the share of a
    map's range, 0–1, above which a position belongs to its word (section 6.1).

    Returns one row per object, in order, with the columns of :data:`COVERED`: coverage (0–1), the largest of all words;
    word, the word with that coverage; human_coverage, of words of :data:`biaslab.metrics.similarity.HUMANS`; and
    region, the area compared: ``mask`` or ``box``. Coverages are 0 without such words, NaN where the object has no
    pixel.

    Raises InputError where masks are of several sizes.
    """
    sizes = instances[["height", "width"]].dropna()
    height, width = sizes.iloc[0].astype(int) if len(sizes) else (_SIZE, _SIZE)
    human = np.array([word.lower() in HUMANS for word in words], bool)
    batch_size = max(1, _MAX_PIXELS // (height * width))
    shares = np.zeros((len(instances), len(words)))
    is_visible = np.zeros(len(instances), bool)
    for start in range(0, len(instances), batch_size):
        object_rows = slice(start, start + batch_size)
        objects = object_masks(instances.iloc[object_rows], height, width)
        is_visible[object_rows] = objects.any(axis=(1, 2))
        for word_start in range(0, len(words), batch_size):
            word_rows = slice(word_start, word_start + batch_size)
            shares[object_rows, word_rows] = coverage(objects, resize_maps(maps[word_rows], height, width) > threshold)
    largest, largest_human = (
        np.where(is_visible, np.nan_to_num(values).max(axis=1, initial=0), np.nan)
        for values in (shares, shares[:, human])
    )
    largest_words = np.array([*words, ""], object)[np.nan_to_num(shares).argmax(axis=1) if len(words) else -1]
    columns = {
        "coverage": largest,
        "word": np.where(largest > 0, largest_words, ""),
        "human_coverage": largest_human,
        "region": np.where(instances["rle"] == "", "box", "mask"),
    }
    return pd.DataFrame(columns).astype(COVERED)
