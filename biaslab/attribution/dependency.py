"""How far the words of a prompt cover the objects of its image, and so whether the prompt guides them.

Source: triplets paper, sections 6.1 and 6.2. Objects are rows of ``triplets_objects``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from biaslab.attribution.maps import THRESHOLD, on_image
from biaslab.cache.result_cache import ResultCache
from biaslab.metrics.instances import BOX
from biaslab.metrics.instances import masks as object_masks
from biaslab.metrics.similarity import HUMANS, coverage

if TYPE_CHECKING:
    from biaslab.attribution.images import AttendedImages
    from biaslab.attribution.noised import NoisedImages

COVERED = {"coverage": float, "word": object, "human_coverage": float, "region": object}
"""The columns of :func:`coverages` and their types."""
# Pixels of masks that are held at a time, of objects and of words.
_HELD = 2**26
# Height and width at which words are compared with boxes where no mask says the image's.
_SIZE = 512
_SHARD_ROWS = 256
_NEEDED = ("rle", "height", "width", *BOX)


def covered(
    images: AttendedImages | NoisedImages, instances: pd.DataFrame, *, cache: ResultCache, progress: bool = True
) -> pd.DataFrame:
    """Return how far the words of prompts cover the objects of images, kept in ``cache``.

    ``images`` has the maps of words, ``instances`` are rows of ``triplets_objects``. Returns a row an instance, in
    order: image_id, instance and the columns of :func:`coverages`. Raises InputError where an image has no maps, or
    masks of several sizes.
    """

    def work(shard: pd.DataFrame) -> pd.DataFrame:
        frames = []
        for image_id, objects in shard.itertuples(index=False):
            (maps,) = images.word_maps([image_id])
            rows = pd.DataFrame(json.loads(objects))
            found = coverages(rows, maps.words, maps.maps)
            frames.append(found.assign(image_id=image_id, instance=rows["instance"].to_numpy()))
        return pd.concat(frames, ignore_index=True)

    by_image = instances.groupby("image_id", sort=False)[["instance", *_NEEDED]]
    units = [(image_id, rows.to_json(orient="records", double_precision=15)) for image_id, rows in by_image]
    stage = cache.stage("coverages", {"images": images.digest}, work)
    units = pd.DataFrame(units, columns=["image_id", "objects"], dtype=object)
    label = "comparing words and objects"
    found = stage.compute(units, shard_rows=_SHARD_ROWS, label=label, progress=progress)
    keys = ["image_id", "instance"]
    if found.empty:
        return instances[keys].reindex(columns=[*keys, *COVERED]).astype(COVERED)
    return instances[keys].merge(found.astype(COVERED), on=keys, how="left", validate="one_to_one")


def coverages(
    instances: pd.DataFrame, words: Sequence[str], maps: np.ndarray, threshold: float = THRESHOLD
) -> pd.DataFrame:
    """Return how far words cover the objects of one image (eq. 7): the largest coverage is what guidance asks for.

    ``instances`` are rows of ``triplets_objects`` of one image; ``maps`` are of ``words``, ``uint8 (words, rows,
    columns)``, and brought to the size of the masks, or where none says it to 512 pixels a side. ``threshold`` is the
    share of a map's range, 0–1, above which a place belongs to its word (section 6.1).

    Returns one row per object, in order, with the columns of :data:`COVERED`: coverage (0–1), the largest of all words,
    and the word that has it; human_coverage, of words of :data:`biaslab.metrics.similarity.HUMANS`; both 0 where there
    is no such word, NaN where the object has no pixel; and region, ``mask`` or ``box``: by what the object was
    compared.

    Raises InputError where masks are of several sizes.
    """
    sizes = instances[["height", "width"]].dropna()
    height, width = sizes.iloc[0].astype(int) if len(sizes) else (_SIZE, _SIZE)
    human = np.array([word.lower() in HUMANS for word in words], bool)
    at_once = max(1, _HELD // (height * width))
    covered = np.zeros((len(instances), len(words)))
    there = np.zeros(len(instances), bool)
    for start in range(0, len(instances), at_once):
        here = slice(start, start + at_once)
        objects = object_masks(instances.iloc[here], height, width)
        there[here] = objects.any(axis=(1, 2))
        for first in range(0, len(words), at_once):
            some = slice(first, first + at_once)
            covered[here, some] = coverage(objects, on_image(maps[some], height, width) > threshold)
    best, of_humans = (
        np.where(there, np.nan_to_num(shares).max(axis=1, initial=0), np.nan) for shares in (covered, covered[:, human])
    )
    by = np.array([*words, ""], object)[np.nan_to_num(covered).argmax(axis=1) if len(words) else -1]
    found = {
        "coverage": best,
        "word": np.where(best > 0, by, ""),
        "human_coverage": of_humans,
        "region": np.where(instances["rle"] == "", "box", "mask"),
    }
    return pd.DataFrame(found).astype(COVERED)
