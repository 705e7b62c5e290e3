"""Instances of objects in images: masks, overlap, and matching of detected with true instances.

A table of instances has one row per instance, with the columns :data:`COLUMNS`. Source: triplets, sections 5.1 and 7.3.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from biaslab.errors import InputError
from biaslab.stats.checks import ratio

BOX = ("left", "top", "right", "bottom")
COLUMNS = ("image_id", "instance", "object", "score", *BOX, "rle", "height", "width")
"""image_id; instance (numbered from 0 in each image); object (its name); score (0–1); the box, in fractions (0–1) of
the image's width and height; rle (COCO's compressed run-length encoding of the mask, empty if only the box is known);
height and width (of the mask in pixels; NaN if missing)."""


def encode(mask: np.ndarray) -> str:
    """Return COCO's compressed run-length encoding of a mask, ``bool (height, width)``, as ASCII text."""
    from pycocotools import mask as coco

    return coco.encode(np.asfortranarray(mask, dtype=np.uint8))["counts"].decode("ascii")


def _runs(rle: str) -> list[int]:
    """Return the alternating lengths of runs outside and inside the mask. Raises ValueError: The text is invalid."""
    runs: list[int] = []
    value = shift = 0
    for c in rle:
        code = ord(c) - 48
        if not 0 <= code < 64:
            raise ValueError("it contains characters that do not occur in COCO's run lengths")
        value |= (code & 31) << shift
        shift += 5
        if shift > 60:
            raise ValueError("a run is too long")
        if not code & 32:
            # A number with the sign bit set is below 0. From the fourth run on, each is encoded as the difference from
            # the run two places earlier.
            run = value - (1 << shift) if code & 16 else value
            runs.append(run + (runs[-2] if len(runs) > 2 else 0))
            if runs[-1] < 0:
                raise ValueError("a run is negative")
            value = shift = 0
    if shift:
        raise ValueError("it ends in the middle of a run")
    return runs


def check_runs(rle: str, height: int, width: int) -> str:
    """Return the error in the run-length encoding of a mask of this size; empty if it is valid."""
    try:
        pixels = sum(_runs(rle))
    except ValueError as error:
        return str(error)
    return "" if pixels == height * width else f"its runs cover {pixels} pixels, not {height} x {width}"


def masks(instances: pd.DataFrame, height: int = 0, width: int = 0) -> np.ndarray:
    """Return the masks of instances, ``bool (instances, height, width)``.

    ``instances`` has the columns :data:`COLUMNS`, with masks of one size. ``height`` and ``width`` state this size if
    the rows lack it. An instance without a mask has the pixels in its box. Raises InputError: Masks have several sizes,
    or the size is missing. ValueError: A run-length encoding is invalid (:func:`check_runs`).
    """
    stated_sizes = instances[["height", "width"]].dropna().astype(int)
    sizes = {*stated_sizes.itertuples(index=False, name=None), *([(height, width)] if height else [])}
    if len(sizes) != 1:
        raise InputError(
            f"The sizes of masks are {sorted(sizes) or 'unknown'}; pass instances of one image, and its height and "
            "width if they are unknown."
        )
    ((height, width),) = sizes
    out = np.zeros((len(instances), height, width), bool)
    rows = instances[["rle", *BOX]].itertuples(index=False, name=None)
    for mask, (rle, left, top, right, bottom) in zip(out, rows, strict=True):
        if rle:
            runs = _runs(rle)
            mask[:] = np.repeat(np.arange(len(runs)) % 2 == 1, runs).reshape((height, width), order="F")
        else:
            y, x = (np.arange(height) + 0.5) / height, (np.arange(width) + 0.5) / width
            mask[:] = np.outer((y >= top) & (y <= bottom), (x >= left) & (x <= right))
    return out


def regions(instances: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return boxes, run-length encodings and sizes of masks as arrays, for :func:`overlaps`."""
    sizes = instances[["height", "width"]].fillna(0).to_numpy(int)
    return instances[list(BOX)].to_numpy(float), instances["rle"].to_numpy(object), sizes


def overlaps(regions_a: tuple, regions_b: tuple) -> tuple[np.ndarray, np.ndarray]:
    """Return the overlap (intersection over union, 0–1) of two sets of :func:`regions`, and whether masks were used.

    Both results have the shape (regions_a, regions_b). The overlap of boxes replaces that of masks if a mask is missing
    or the sizes differ.
    """
    from pycocotools import mask as coco

    (boxes, other_boxes), runs, sizes = zip(regions_a, regions_b, strict=True)
    low = np.maximum(boxes[:, None, :2], other_boxes[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], other_boxes[None, :, 2:])
    intersection = np.clip(high - low, 0, None).prod(axis=2)
    areas = [(box[:, 2:] - box[:, :2]).prod(axis=1) for box in (boxes, other_boxes)]
    union = areas[0][:, None] + areas[1][None] - intersection
    out = np.divide(intersection, union, out=np.zeros_like(intersection), where=union > 0)
    by_mask = (sizes[0][:, None] == sizes[1][None]).all(axis=2)
    by_mask &= (runs[0] != "")[:, None] & (runs[1] != "")[None]
    for i, j in np.argwhere(by_mask):
        mask_a, mask_b = (
            [{"size": sizes[k][row].tolist(), "counts": runs[k][row].encode("ascii")}] for k, row in ((0, i), (1, j))
        )
        out[i, j] = coco.iou(mask_a, mask_b, [0])[0, 0]
    return out, by_mask


def match(detections: pd.DataFrame, truth: pd.DataFrame) -> pd.DataFrame:
    """Match detected instances with true instances, as in COCO's evaluation.

    Within each image and object, detections are processed by decreasing score. Each is matched with the unmatched true
    instance with the largest overlap, if the intersection over union is at least 0.5 (:func:`overlaps`). Both arguments
    have the columns :data:`COLUMNS`, for images that the detector processed.

    Returns one row per detected instance, and one per true instance that was not detected. The columns are image_id,
    object, score (NaN if not detected), iou (NaN if not matched), by (``mask`` or ``box``; empty if not matched) and
    found: ``both``, ``finder`` (only detected) or ``truth`` (only true).
    """
    rows: list[tuple] = []
    keys = ["image_id", "object"]
    detections = detections.sort_values("score", ascending=False, kind="stable")
    scores, arrays = detections["score"].to_numpy(float), (regions(detections), regions(truth))
    groups = [side.groupby(keys, sort=False).indices for side in (detections, truth)]
    key: Any
    for key in dict.fromkeys([*groups[1], *groups[0]]):
        indices = [side.get(key, np.empty(0, int)) for side in groups]
        iou, by_mask = overlaps(*(tuple(a[k] for a in side) for side, k in zip(arrays, indices, strict=True)))
        is_unmatched = np.ones(len(indices[1]), bool)
        for i, score in enumerate(scores[indices[0]]):
            j = int(np.where(is_unmatched, iou[i], -1).argmax()) if is_unmatched.any() else -1
            if j >= 0 and iou[i, j] >= 0.5:
                is_unmatched[j] = False
                rows.append((*key, score, iou[i, j], "mask" if by_mask[i, j] else "box", "both"))
            else:
                rows.append((*key, score, np.nan, "", "finder"))
        rows += [(*key, np.nan, np.nan, "", "truth")] * int(is_unmatched.sum())
    matches = pd.DataFrame(rows, columns=[*keys, "score", "iou", "by", "found"])
    return matches.astype({"score": float, "iou": float})


def mask_overlap(detected: ArrayLike, truth: ArrayLike) -> np.ndarray:
    """Return the intersection over union of corresponding masks, ``float64 (masks,)``, 0–1; NaN if both are empty.

    Both arguments are ``bool (masks, height, width)``. Raises InputError: An array has another type, or the shapes are
    wrong or differ.
    """
    detected, truth = _pair(detected, truth, kinds="b")
    intersection, union = (op(detected, truth).sum(axis=(1, 2)) for op in (np.logical_and, np.logical_or))
    return np.atleast_1d(ratio(intersection, union))


def map_auc(values: ArrayLike, truth: ArrayLike) -> np.ndarray:
    """Return the area under the ROC curve of each map as a score for the pixels of its mask, ``float64 (maps,)``, 0–1.

    It is the probability that a pixel in the mask has a higher value than a pixel outside, with ties counted as one
    half (Mann and Whitney 1947). It is NaN if the mask is empty or covers the complete image. ``values`` are numbers
    ``(maps, height, width)``; ``truth`` contains the masks, ``bool`` of the same shape. Raises InputError: An array has
    another type, or the shapes are wrong or differ.
    """
    values, truth = _pair(values, truth)
    size = truth.shape[1] * truth.shape[2]
    values, truth = (side.reshape(len(side), size) for side in (values, truth))
    n_inside = truth.sum(axis=1)
    n_above = np.where(truth, rankdata(values, axis=1), 0).sum(axis=1) - n_inside * (n_inside + 1) / 2
    return np.atleast_1d(ratio(n_above, n_inside * (size - n_inside)))


def _pair(maps: ArrayLike, truth: ArrayLike, kinds: str = "biuf") -> tuple[np.ndarray, np.ndarray]:
    maps, truth = np.asarray(maps), np.asarray(truth)
    is_valid = maps.dtype.kind in kinds and truth.dtype == bool
    if maps.shape != truth.shape or maps.ndim != 3 or not is_valid:
        raise InputError(
            f"The masks are {maps.dtype} {maps.shape} and {truth.dtype} {truth.shape}; pass two arrays of the same "
            "shape (masks, height, width), with the ground truth as bool."
        )
    return maps, truth
