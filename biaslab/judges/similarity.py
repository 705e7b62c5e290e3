"""Similarity of pairs of images, by pixels or by embeddings of networks (triplets paper, section 4.1.3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from biaslab.cache.result_cache import ResultCache
from biaslab.hub import registry as hub
from biaslab.hub.image_sources import ImageSource, UnreadableImage
from biaslab.judges import model_loading, people
from biaslab.judges.features import FeaturesJudge
from biaslab.judges.judge import Judge, JudgeOptions
from biaslab.judges.zero_shot import ClipJudge
from biaslab.metrics import similarity as measures
from biaslab.metrics.similarity import METRICS, NETWORKS

_SHARD_PAIRS = 1024
_SHARD_EMBEDDINGS = 2048
_AT_ONCE = {"cpu": 32, "gpu": 128}  # pairs that are read at a time


def compare(
    images: ImageSource,
    pairs: pd.DataFrame,
    method: str,
    judge: ClipJudge | FeaturesJudge | None = None,
    *,
    cache: ResultCache,
    progress: bool = True,
) -> pd.DataFrame:
    """Return the similarity of pairs of images; earlier results are read from ``cache``.

    ``pairs`` has ids of images as first and second, ideally with pairs of one image adjacent; ``method`` is a key of
    :data:`METRICS`; ``judge`` is the network (:func:`embedding`), None for pixels.

    Returns columns first, second, metric, value (cosines and ``ssim`` -1 to 1, ``diff_pix`` in %) and reason (why a
    value is missing: an unreadable image, or images of different sizes). Raises as ``embed`` of the judge.
    """
    judge = judge.fresh() if judge else None
    device = judge.options.device if judge else "cpu"
    at_once = _AT_ONCE["cpu" if model_loading.device(device).type == "cpu" else "gpu"]

    def work(shard: pd.DataFrame) -> pd.DataFrame:
        chunks = (shard.iloc[start : start + at_once] for start in range(0, len(shard), at_once))
        return pd.concat([_compare_pairs(images, chunk, method, judge) for chunk in chunks], ignore_index=True)

    inputs = {"images": images.digest, "by": method} | (judge.inputs if judge else {})
    units = pairs[["first", "second"]].astype(object).drop_duplicates(ignore_index=True)
    bar = {"label": f"comparing {images.name} by {method}", "unit": "pairs", "progress": progress}
    table = cache.stage("image_similarity", inputs, work).compute(
        units, shard_rows=_SHARD_PAIRS, gpu=device != "cpu", **bar
    )
    table = table.reindex(columns=["first", "second", *METRICS[method], "reason"])
    long = table.melt(["first", "second", "reason"], var_name="metric", value_name="value")
    return long[["first", "second", "metric", "value", "reason"]]


def embedding(method: str, name: str, options: JudgeOptions | None = None) -> ClipJudge | FeaturesJudge:
    """Return the network for ``method``, a key of :data:`METRICS`; an empty name selects the paper's network."""
    kind = ClipJudge if method == "clip" else FeaturesJudge
    judge = kind(hub.resolve_alias(name, kind.kind, method) if name else NETWORKS[method], options)
    if method == "split_product":
        judge.places = True
    return judge


def embed_images(
    images: ImageSource, image_ids: Iterable[str], judge: Judge, *, cache: ResultCache, progress: bool = True
) -> pd.DataFrame:
    """Return embeddings of images by a judge with ``embed``; earlier results are read from ``cache``.

    Columns image_id and vector (``float32``; None where the image cannot be read). Raises as ``embed`` of the judge.
    """
    judge = judge.fresh()

    def work(shard: pd.DataFrame) -> pd.DataFrame:
        ids = shard["image_id"].tolist()
        _, vectors_by_row = people.classify_images(ids, images.read(ids), judge.embed)
        return pd.DataFrame({"image_id": ids, "vector": [vectors_by_row.get(k) for k in range(len(ids))]})

    units = pd.DataFrame({"image_id": list(dict.fromkeys(image_ids))}, dtype=object)
    stage = cache.stage("image_embeddings", {"images": images.digest} | judge.inputs, work)
    bar = {"label": f"embedding {images.name}", "unit": "images", "progress": progress}
    return stage.compute(units, shard_rows=_SHARD_EMBEDDINGS, gpu=judge.options.device != "cpu", **bar)


def embed_texts(texts: Sequence[str], judge: Judge, *, cache: ResultCache, progress: bool = True) -> np.ndarray:
    """Return embeddings of texts, ``float32 (texts, dimensions)`` of length 1; they are not cached."""
    return judge.classifier.text_embeddings(list(texts))


def _compare_pairs(
    images: ImageSource, pairs: pd.DataFrame, method: str, judge: ClipJudge | FeaturesJudge | None
) -> pd.DataFrame:
    ids = list(dict.fromkeys([*pairs["first"], *pairs["second"]]))
    arrays = dict(zip(ids, images.read(ids), strict=True))
    sides = list(zip(pairs["first"], pairs["second"], strict=True))
    table = pairs.reset_index(drop=True).assign(
        **dict.fromkeys(METRICS[method], np.nan),
        reason=[_reason_missing(arrays[a], arrays[b], method) for a, b in sides],
    )
    usable = np.flatnonzero(table["reason"] == "")
    if method == "pixels":
        sizes: dict[tuple, list[int]] = {}
        for k in usable:
            sizes.setdefault(arrays[sides[k][0]].shape, []).append(k)
        for rows in sizes.values():
            first, second = (np.stack([arrays[sides[k][side]] for k in rows]) for side in (0, 1))
            maps = measures.ssim_maps(measures.luma(first), measures.luma(second))
            table.loc[rows, "ssim"] = measures.ssim(maps)
            table.loc[rows, "diff_pix"] = measures.diff_pix(maps)
            table.loc[rows, "diff_pix_fixed"] = measures.diff_pix(maps, fixed=True)
    if method == "pixels" or not len(usable):
        return table
    place = {image: i for i, image in enumerate(dict.fromkeys(i for k in usable for i in sides[k]))}
    embeddings = judge.embed([arrays[i] for i in place])
    first, second = (embeddings[[place[sides[k][side]] for k in usable]] for side in (0, 1))
    if method == "split_product":
        table.loc[usable, "split_product"] = measures.split_product(first, second)
        table.loc[usable, "split_product_dcr"] = measures.split_product(first, second, dcr=True)
    else:
        table.loc[usable, method] = measures.cosines(first, second)
    return table


def _reason_missing(first: np.ndarray | UnreadableImage, second: np.ndarray | UnreadableImage, method: str) -> str:
    reason = next((image.reason for image in (first, second) if isinstance(image, UnreadableImage)), "")
    if reason or method != "pixels":
        return reason
    if first.shape != second.shape:
        return "the images are of different sizes"
    return "the images are smaller than the window" if min(first.shape[:2]) < measures.WINDOW else ""
