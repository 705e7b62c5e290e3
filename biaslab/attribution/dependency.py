"""How far the words of a prompt cover the objects of its image, and so whether the prompt guides them.

Source: triplets paper, sections 6.1 and 6.2. Objects are rows of ``triplets_objects``; words have regions, as
:func:`biaslab.attribution.maps.word_masks` makes them of maps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pandas as pd

from biaslab.attribution.maps import THRESHOLD, WordMaps, word_masks
from biaslab.measures.instances import BOX
from biaslab.measures.instances import masks as object_masks
from biaslab.measures.similarity import HUMANS, coverage, hidden_nouns

if TYPE_CHECKING:
    from biaslab.store import Store

COVERED = {"coverage": float, "word": object, "human_coverage": float, "region": object}
"""The columns of :func:`coverages` and their types."""
# Pixels of masks that are held at a time, of objects and of words.
_HELD = 2**26
# Height and width at which words are compared with boxes where no mask says the image's.
_SIZE = 512
_SHARD_ROWS = 256
_NEEDED = ("rle", "height", "width", *BOX)


class Attended(Protocol):
    """Images with maps of words, such as :class:`biaslab.attribution.images.AttendedImages`."""

    digest: str
    """Identifies images and maps."""

    def word_maps(self, image_ids: Sequence[str]) -> list[WordMaps]:
        """Return the maps of images in the order asked for."""
        ...


def covered(
    images: Attended,
    instances: pd.DataFrame,
    *,
    store: Store,
    threshold: float = THRESHOLD,
    progress: bool = True,
) -> pd.DataFrame:
    """Return how far the words of prompts cover the objects of images; what is in ``store`` is not computed again.

    Images are looked at one by one, at the size of their objects' masks.

    Args:
        images: Where the maps of words come from.
        instances: Rows of ``triplets_objects``.
        store: Where results are kept.
        threshold: Share of a map's range above which a place belongs to its word, 0–1.
        progress: Whether to show a bar.

    Returns:
        The instances, in order, with image_id, instance and the columns of :func:`coverages`.

    Raises:
        InputError: An image has no maps, or masks of several sizes.
    """

    def work(shard: pd.DataFrame) -> pd.DataFrame:
        frames = []
        for image_id, objects in shard.itertuples(index=False):
            (maps,) = images.word_maps([image_id])

            def masks(some: slice, height: int, width: int, maps: np.ndarray = maps.maps) -> np.ndarray:
                return word_masks(maps[some], height, width, threshold)

            rows = pd.DataFrame(json.loads(objects)).assign(image_id=image_id)
            frames.append(
                pd.concat([rows[["image_id", "instance"]], coverages(rows, maps.words, masks)], axis=1)
            )
        return pd.concat(frames, ignore_index=True)

    by_image = instances.groupby("image_id", sort=False)[["instance", *_NEEDED]]
    units = [(image_id, rows.to_json(orient="records", double_precision=15)) for image_id, rows in by_image]
    stage = store.stage("coverages", {"images": images.digest, "threshold": threshold}, work)
    found = stage.compute(
        pd.DataFrame(units, columns=["image_id", "objects"], dtype=object),
        shard_rows=_SHARD_ROWS,
        label="comparing words and objects",
        progress=progress,
    )
    keys = ["image_id", "instance"]
    if found.empty:
        return instances[keys].reindex(columns=[*keys, *COVERED]).astype(COVERED)
    return instances[keys].merge(found.astype(COVERED), on=keys, how="left", validate="one_to_one")


def coverages(
    instances: pd.DataFrame, words: Sequence[str], masks: Callable[[slice, int, int], np.ndarray]
) -> pd.DataFrame:
    """Return how far words cover the objects of one image (eq. 7): the largest coverage is what guidance asks for.

    Args:
        instances: Rows of ``triplets_objects`` of one image. What has a box alone is compared by that.
        words: The words that have a region.
        masks: Returns the regions of some of the words, ``bool (words, height, width)``, for a slice of them and a
            height and width in pixels: those of the objects' masks, or 512 where none says them.

    Returns:
        A row an object, in order, with the columns of :data:`COVERED`: coverage (0–1), the largest of all words, and
        the word that has it; human_coverage, the largest of words of
        :data:`biaslab.measures.similarity.HUMANS`; both 0 where there is no such word, NaN where the object has no
        pixel; and region, ``mask`` or ``box``: by what the object was compared.

    Raises:
        InputError: Masks are of several sizes.
    """
    sizes = instances[["height", "width"]].dropna()
    height, width = sizes.iloc[0].astype(int) if len(sizes) else (_SIZE, _SIZE)
    human = np.array([word.lower() in HUMANS for word in words], bool)
    at_once = max(1, _HELD // (height * width))
    parts = [slice(first, first + at_once) for first in range(0, len(words), at_once)]
    rows = []
    for start in range(0, len(instances), at_once):
        objects = object_masks(instances.iloc[start : start + at_once], height, width)
        covered = np.zeros((len(objects), len(words)))
        for part in parts:
            covered[:, part] = coverage(objects, masks(part, height, width))
        for shares, there in zip(covered, objects.any(axis=(1, 2)), strict=True):
            best = shares.max(initial=0) if there else np.nan
            of_humans = shares[human].max(initial=0) if there else np.nan
            rows.append((best, words[int(shares.argmax())] if best > 0 else "", of_humans))
    found = pd.DataFrame(rows, columns=list(COVERED)[:3])
    return found.assign(region=np.where(instances["rle"] == "", "box", "mask")).astype(COVERED)


def nouns_of(image_ids: Sequence[str], nouns: Sequence[Sequence[str]], objects: pd.DataFrame) -> pd.DataFrame:
    """Return the nouns of the prompts of images, and whether they are hidden: no object of the image has their name.

    Args:
        image_ids: Images that were looked at.
        nouns: Of each image, those of its prompt.
        objects: Columns image_id and object (its name as a noun).

    Returns:
        Columns image_id, noun and hidden.
    """
    shown = objects.groupby("image_id")["object"].agg(set).to_dict()
    rows = [
        (image_id, noun, noun in hidden)
        for image_id, of in zip(image_ids, nouns, strict=True)
        for hidden in [set(hidden_nouns(of, shown.get(image_id, ())))]
        for noun in dict.fromkeys(of)
    ]
    return pd.DataFrame(rows, columns=["image_id", "noun", "hidden"]).astype({"hidden": bool})
