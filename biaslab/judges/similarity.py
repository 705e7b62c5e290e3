"""How alike pairs of images are, in their pixels' structure or to networks (triplets paper, section 4.1.3)."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd

from biaslab.cache.result_cache import ResultCache
from biaslab.errors import unknown_name
from biaslab.execution.workers import Memoized
from biaslab.hub import registry
from biaslab.hub.image_sources import ImageSource, UnreadableImage
from biaslab.judges import features, model_loading
from biaslab.judges.judge_names import files_digest
from biaslab.judges.zero_shot import ZeroShot
from biaslab.metrics import similarity as measures
from biaslab.metrics.similarity import METRICS, NETWORKS

_SHARD_PAIRS = 1024
_AT_ONCE = {"cpu": 32, "gpu": 128}  # pairs that are read at a time


def compare(
    images: ImageSource,
    pairs: pd.DataFrame,
    by: str,
    name: str = "",
    *,
    cache: ResultCache,
    device: str = "auto",
    progress: bool = True,
) -> pd.DataFrame:
    """Return how alike pairs of images are; pairs that were compared before are read from ``cache``.

    ``pairs`` has ids of images as first and second, best with pairs of one image together; ``by`` is a key of
    :data:`METRICS`; ``name`` the network: of ``clip`` as for :class:`biaslab.judges.zero_shot.ZeroShot`, of others as
    for :func:`biaslab.judges.features.find_network`, empty for the paper's.

    Returns columns first, second, metric, value (cosines and ``ssim`` -1 to 1, ``diff_pix`` in %) and reason (why there
    is none: what is wrong with an image, or that two are of different sizes). Raises UnknownNameError where images are
    not compared by that, ParameterError where the network cannot be had.
    """
    if by not in METRICS:
        raise unknown_name("comparison of images", by, METRICS)
    name = network(by, name)
    ready = Memoized(partial(ZeroShot if by == "clip" else features.Features, name, device=device))
    at_once = _AT_ONCE["cpu" if model_loading.device(device).type == "cpu" else "gpu"]

    def work(shard: pd.DataFrame) -> pd.DataFrame:
        chunks = (shard.iloc[start : start + at_once] for start in range(0, len(shard), at_once))
        return pd.concat([_compare_pairs(images, chunk, by, ready) for chunk in chunks], ignore_index=True)

    inputs = {"images": images.digest, "by": by, "model": name, "weights": weights(by, name)}
    units = pairs[["first", "second"]].astype(object).drop_duplicates(ignore_index=True)
    bar = {"label": f"comparing {images.name} by {by}", "unit": "pairs", "progress": progress}
    kept = cache.stage("image_similarity", inputs, work).compute(
        units, shard_rows=_SHARD_PAIRS, gpu=by != "pixels" and device != "cpu", **bar
    )
    kept = kept.reindex(columns=["first", "second", *METRICS[by], "reason"])
    long = kept.melt(["first", "second", "reason"], var_name="metric", value_name="value")
    return long[["first", "second", "metric", "value", "reason"]]


def network(by: str, name: str) -> str:
    """Return the network that a name stands for, as for :func:`compare`; empty for pixels, which need none."""
    if by == "pixels":
        return ""
    return registry.resolve_alias(name, "clip" if by == "clip" else "features", by) if name else NETWORKS[by]


def weights(by: str, name: str) -> str:
    """Return a digest of a network's weights, as :func:`network` names it; ParameterError where it cannot be used."""
    if by == "pixels":
        return ""
    return files_digest(name, "clip") if by == "clip" else registry.digest(features.find_network(name))


def _compare_pairs(images: ImageSource, pairs: pd.DataFrame, by: str, ready) -> pd.DataFrame:
    ids = list(dict.fromkeys([*pairs["first"], *pairs["second"]]))
    read = dict(zip(ids, images.read(ids), strict=True))
    sides = list(zip(pairs["first"], pairs["second"], strict=True))
    out = pairs.reset_index(drop=True).assign(
        **dict.fromkeys(METRICS[by], np.nan), reason=[_reason_missing(read[a], read[b], by) for a, b in sides]
    )
    usable = np.flatnonzero(out["reason"] == "")
    if by == "pixels":
        sizes: dict[tuple, list[int]] = {}
        for k in usable:
            sizes.setdefault(read[sides[k][0]].shape, []).append(k)
        for rows in sizes.values():
            first, second = (np.stack([read[sides[k][side]] for k in rows]) for side in (0, 1))
            maps = measures.ssim_maps(measures.luma(first), measures.luma(second))
            out.loc[rows, "ssim"] = measures.ssim(maps)
            out.loc[rows, "diff_pix"] = measures.diff_pix(maps)
            out.loc[rows, "diff_pix_fixed"] = measures.diff_pix(maps, fixed=True)
    if by == "pixels" or not len(usable):
        return out
    place = {image: i for i, image in enumerate(dict.fromkeys(i for k in usable for i in sides[k]))}
    seen = ready().places if by == "split_product" else ready().image_embeddings
    found = seen([read[i] for i in place])
    first, second = (found[[place[sides[k][side]] for k in usable]] for side in (0, 1))
    if by == "split_product":
        out.loc[usable, "split_product"] = measures.split_product(first, second)
        out.loc[usable, "split_product_dcr"] = measures.split_product(first, second, dcr=True)
    else:
        out.loc[usable, by] = measures.cosines(first, second)
    return out


def _reason_missing(first: np.ndarray | UnreadableImage, second: np.ndarray | UnreadableImage, by: str) -> str:
    bad = next((image.reason for image in (first, second) if isinstance(image, UnreadableImage)), "")
    if bad or by != "pixels":
        return bad
    if first.shape != second.shape:
        return "the images are of different sizes"
    return "the images are smaller than the window" if min(first.shape[:2]) < measures.WINDOW else ""
