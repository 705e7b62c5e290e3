"""Similarity in three spaces, object bias, and dependency groups (triplets, sections 4.1, 5.2, 6.2 and 7.2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from biaslab.errors import InputError
from biaslab.stats.checks import align, broadcast, keep_labels, ratio

_GROUPS = ("explicitly_guided", "implicitly_guided", "explicitly_independent", "implicitly_independent")
DEPENDENCY_GROUPS = (*_GROUPS, "hidden")
METRICS = {
    "pixels": ("ssim", "diff_pix", "diff_pix_fixed"),
    "resnet": ("resnet",),
    "clip": ("clip",),
    "dino": ("dino",),
    "split_product": ("split_product", "split_product_dcr"),
}
"""Metrics by the features that they compare; the metrics of one entry are computed together."""
NETWORKS = {
    "resnet": "resnet50.tv_in1k",
    "clip": "ViT-B-32:openai",
    "dino": "vit_small_patch16_224.dino",
    "split_product": "vit_base_patch8_224.dino",
}
"""The paper's networks: ResNet-50, CLIP ViT-B/32, DINO ViT-S/16 and, for split products, DINO ViT-B/8."""
WINDOW = 7  # side of the window of ssim_maps, in pixels
LEAST_CONTOUR = 40  # smallest area of a contour that diff_pix counts, in pixels of an image of 512 x 512
HUMANS = frozenset(("people", "person", "woman", "women", "man", "men"))
"""Names of people, for which attention often covers only the face (triplets, section 6.2)."""
_NUMBERS_AT_ONCE = 1 << 22  # bounds the memory of cosines: some five arrays of this size exist at a time


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the cosine of corresponding rows; the mean is the similarity of two sets.

    The arguments have the same shape, ``(pairs, ...)``, and their rows are flattened. The result is
    ``float64 (pairs,)``, -1 to 1, and NaN if a row contains only zeros or a missing entry. Source: triplets, equations
    1, 2 and 4. Raises InputError: The shapes differ, rows are empty, or a value is infinite.
    """
    a, b = map(np.asarray, align(a=a, b=b))
    if a.ndim < 2 or a.shape != b.shape or (width := int(np.prod(a.shape[1:]))) == 0:
        raise InputError(
            f"The shapes are {a.shape} and {b.shape}; pass two arrays of the same shape (pairs, features)."
        )
    out = np.empty(len(a))
    step = max(1, _NUMBERS_AT_ONCE // width)
    for start in range(0, len(a), step):
        batch = slice(start, start + step)
        rows_a, rows_b = (_unit(side[batch].reshape(-1, width)) for side in (a, b))
        # Rounding can leave 1.0000000000000002.
        out[batch] = np.clip(np.einsum("pf,pf->p", rows_a, rows_b), -1, 1)
    return out


def _unit(rows: np.ndarray) -> np.ndarray:
    """Scale rows to length 1; zeros become NaN. Dividing by the largest entry prevents overflow of squares."""
    rows = rows.astype(float)
    if np.isinf(rows).any():
        raise InputError("A vector contains an infinite value; its range may exceed that of float16.")
    rows = ratio(rows, np.abs(rows).max(axis=1, keepdims=True))
    return rows / np.sqrt(np.einsum("pf,pf->p", rows, rows))[:, None]


def word_mean(embeddings: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Return the mean embedding of each prompt's words, which makes prompts of any length comparable (``t_words``).

    ``embeddings`` has the shape ``(prompts, tokens, width)``; ``words``, ``bool (prompts, tokens)``, marks the tokens
    of words. The result is ``float64 (prompts, width)``, and NaN for a prompt without words.
    """
    words = np.asarray(words, bool)
    total = np.einsum("ptw,pt->pw", embeddings, words.astype(float))
    return ratio(total, words.sum(axis=1, keepdims=True))


def luma(images: np.ndarray) -> np.ndarray:
    """Return the luma (BT.601) of ``uint8 (images, height, width, 3)`` RGB: ``uint8 (images, height, width)``."""
    import cv2

    flat = images.reshape(-1, images.shape[2], 3)
    return cv2.cvtColor(flat, cv2.COLOR_RGB2GRAY).reshape(images.shape[:3]) if flat.size else images[..., 0]


def ssim_maps(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the structural similarity (SSIM) around each pixel of pairs of images.

    The parameters are those of scikit-image's ``structural_similarity`` by default: a uniform window of 7 x 7 pixels,
    sample covariance, K1 = 0.01, K2 = 0.03, a range of 255, and mirrored edges. The arguments are
    ``uint8 (pairs, height, width)`` of one channel (:func:`luma`). The result is ``float32`` of the same shape, -1 to
    1. Source: triplets, section 4.1.3; Wang et al. 2004. Raises InputError: An array has another type or shape, or
    images are smaller than the window.
    """
    import cv2

    first, second = np.asarray(first), np.asarray(second)
    if first.shape != second.shape or first.ndim != 3 or {first.dtype, second.dtype} != {np.dtype(np.uint8)}:
        raise InputError(
            f"The images are {first.dtype} {first.shape} and {second.dtype} {second.shape}; pass two uint8 arrays "
            "of the same shape (pairs, height, width)."
        )
    pairs, height, width = first.shape
    if min(height, width) < WINDOW:
        raise InputError(f"Images are {height} x {width}; structural similarity needs at least {WINDOW} x {WINDOW}.")

    # Sums of integers below 2²⁴ are exact in single precision, and their products below 2³¹ are exact as integers.
    def window_sum(values: np.ndarray) -> np.ndarray:
        return cv2.boxFilter(values, cv2.CV_32F, (WINDOW, WINDOW), normalize=False).astype(np.int32)

    out = np.empty(first.shape, np.float32)
    half, n = WINDOW // 2, WINDOW**2
    # Images are stacked vertically, in batches whose partial sums stay in the processor's cache.
    step = max(1, (1 << 14) // (height * width))
    for start in range(0, pairs, step):
        batch = slice(start, start + step)
        padded = (np.pad(side[batch], ((0, 0), (half, half), (half, half)), "symmetric") for side in (first, second))
        x, y = (side.reshape(-1, width + 2 * half) for side in padded)
        sum_x, sum_y = window_sum(x), window_sum(y)
        squares, cross = sum_x * sum_x + sum_y * sum_y, sum_x * sum_y
        x, y = x.astype(np.float32), y.astype(np.float32)
        variance, covariance = n * window_sum(x * x + y * y) - squares, n * window_sum(x * y) - cross
        # Means times n², covariances times n (n - 1).
        c1, c2 = (0.01 * 255) ** 2 * n**2, (0.03 * 255) ** 2 * n * (n - 1)
        parts = (squares, cross, variance, covariance)
        squares, cross, variance, covariance = (part.astype(np.float32) for part in parts)
        maps = (2 * cross + c1) / (squares + c1) * ((2 * covariance + c2) / (variance + c2))
        out[batch] = maps.reshape(-1, height + 2 * half, width + 2 * half)[:, half:-half, half:-half]
    return out


def ssim(maps: np.ndarray) -> np.ndarray:
    """Return the mean of :func:`ssim_maps` over windows inside the image: ``float64 (pairs,)``, -1 to 1."""
    edge = WINDOW // 2
    return np.asarray(maps)[:, edge:-edge, edge:-edge].mean(axis=(1, 2), dtype=float)


def diff_pix(maps: np.ndarray, *, fixed: bool = False) -> np.ndarray:
    """Return the percentage of each image inside contours around structural differences.

    Contours enclose regions in which the similarity, scaled to 0–255, is below a threshold. Contours with an area of
    more than 40 pixels (in images of 512 x 512, and in proportion for other sizes) are filled, and their pixels are
    counted. ``maps`` are ``float (pairs, height, width)``, -1 to 1 (:func:`ssim_maps`). The threshold is Otsu's for
    each pair, or a similarity of 0.5 if ``fixed``. The result is ``float64 (pairs,)``, 0–100. Source: triplets, section
    4.1.3, which states neither the threshold nor the minimum area.
    """
    import cv2

    min_area = LEAST_CONTOUR * maps.shape[1] * maps.shape[2] / 512**2
    out = np.zeros(len(maps))
    for i, similarity in enumerate(maps):
        if fixed:
            differs = (similarity < 0.5).astype(np.uint8)
        else:
            levels = (255 * np.maximum(similarity, 0)).astype(np.uint8)
            differs = cv2.threshold(levels, 0, 1, cv2.THRESH_BINARY_INV | cv2.THRESH_OTSU)[1]
        contours, _ = cv2.findContours(differs, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
        # Most contours are points and lines, which enclose nothing.
        enclosing = [c for c in contours if len(c) > 2 and cv2.contourArea(c) > min_area]
        regions = cv2.drawContours(np.zeros_like(differs), enclosing, -1, 1, cv2.FILLED)
        out[i] = 100 * cv2.countNonZero(regions) / regions.size
    return out


def split_product(first: np.ndarray, second: np.ndarray, *, dcr: bool = False) -> np.ndarray:
    """Return the maximum cosine of image patches at the same position, over the positions of each pair.

    The arguments are ``float (pairs, positions, features)``, a network's features of each patch. With ``dcr``, the
    features of the whole image are scaled to length 1 instead of those of each patch, as in the released code of
    Somepalli et al. The result is ``float64 (pairs,)``, -1 to 1, and NaN if all features of an image are zero or a
    feature is missing. Source: triplets, section 4.1.3; Somepalli et al. 2023 (Diffusion Art or Digital Forgery?).
    Raises InputError: The shapes differ.
    """
    first, second = np.asarray(first), np.asarray(second)
    if first.ndim != 3 or first.shape != second.shape or 0 in first.shape[1:]:
        raise InputError(
            f"The shapes are {first.shape} and {second.shape}; pass two arrays of the same shape (pairs, places, "
            "features)."
        )
    subscripts = "ptf,ptf->p" if dcr else "ptf,ptf->pt"
    lengths = [np.sqrt(np.einsum(subscripts, side, side, dtype=float)) for side in (first, second)]
    length = (lengths[0] * lengths[1]).reshape(len(first), -1)
    dots = ratio(np.einsum("ptf,ptf->pt", first, second, dtype=float), length)
    is_missing = np.isnan(length).any(axis=1) | np.isnan(dots).all(axis=1)
    return np.where(is_missing, np.nan, np.max(np.nan_to_num(dots, nan=-1.0), axis=1, initial=-1.0))


@keep_labels
def bias_score(
    count_masculine: ArrayLike, count_feminine: ArrayLike, n_masculine: ArrayLike, n_feminine: ArrayLike
) -> np.ndarray:
    """Return the bias score of objects, elementwise: ``C_m / (C_m + (n_m / n_f) C_f)``.

    C are co-occurrence counts and n the sizes of the masculine and feminine prompt sets; all are broadcast. The score
    is 1 if the object occurs only with masculine prompts, 0 if only with feminine prompts, and 0.5 if equally often
    with both. It is NaN for an object that never occurs. Source: triplets, equations 3 and 5. Raises InputError: A
    count is negative, or a prompt set is empty.
    """
    counts = {"count_masculine": count_masculine, "count_feminine": count_feminine}
    masculine, feminine, n_m, n_f = broadcast(0, **counts, n_masculine=n_masculine, n_feminine=n_feminine)
    if (n_m == 0).any() or (n_f == 0).any():
        raise InputError("A prompt set is empty (size 0); the bias score compares two nonempty sets.")
    return ratio(masculine, masculine + n_m / n_f * feminine)


def coverage(object_masks: ArrayLike, word_masks: ArrayLike) -> np.ndarray:
    """Return the share (0–1) of each object that each word's attention covers, ``(objects, words)``.

    It is ``|m ∩ a| / |m|``, where m is an object's mask, ``bool (objects, height, width)``, and a the mask of a word's
    attention, ``bool (words, height, width)``. It is NaN for an object without pixels. Source: triplets, equation 7.
    Raises InputError: The masks differ in height or width, or are not bool.
    """
    objects, words = np.asarray(object_masks), np.asarray(word_masks)
    if objects.ndim != 3 or words.ndim != 3 or objects.shape[1:] != words.shape[1:]:
        raise InputError(
            f"The shapes of masks of objects, {objects.shape}, and of words, {words.shape}, do not match; pass "
            "(objects, height, width) and (words, height, width) of the same image."
        )
    for name, masks in (("objects", objects), ("words", words)):
        if masks.dtype != bool:
            raise InputError(f"Masks of {name} are {masks.dtype}; they must be bool, for example masks > 0.5.")
    # float32 counts pixels exactly up to 2**24, which is an image of 4096 x 4096.
    intersection = np.tensordot(objects.astype(np.float32), words.astype(np.float32), ([1, 2], [1, 2]))
    return ratio(intersection, objects.sum(axis=(1, 2))[:, None])


def dependency_groups_of_largest(
    objects: Sequence[str],
    explicit: ArrayLike,
    coverage: ArrayLike,
    human_coverage: ArrayLike,
) -> np.ndarray:
    """Return the dependency group of each object: an array of names in :data:`DEPENDENCY_GROUPS`, or None.

    An object is explicit if its name is one of the prompt's nouns. It is guided if the attention of any word covers
    more than 0.7 of it. For an object in :data:`HUMANS`, coverage of more than 0.25 by a word for humans is sufficient.
    ``coverage`` is the maximum over all words (:func:`coverage`), ``human_coverage`` the maximum over words for humans;
    both are 0–1, or NaN if missing. The group is None if one coverage is NaN and the other is not large enough. (Nouns
    without a detected object form the group ``hidden``.) Source: triplets, section 6.2. Raises InputError: A coverage
    is outside 0–1, or the numbers of coverages and objects differ.
    """
    objects, explicit, coverage, human_coverage = align(
        objects=objects, explicit=explicit, coverage=coverage, human_coverage=human_coverage
    )
    largest, human = broadcast(0, 1, coverage=coverage, human_coverage=human_coverage)
    if largest.shape != (len(objects),):
        raise InputError(
            f"coverage has the shape {largest.shape}; it needs one value for each of {len(objects)} objects."
        )
    threshold = np.where(np.isin(np.array(list(objects), object), list(HUMANS)), 0.25, 0.7)
    is_guided = (largest > 0.7) | (human > threshold)
    group = np.where(is_guided, 0, 2) + np.where(np.asarray(explicit, bool), 0, 1)
    groups = np.array(_GROUPS, dtype=object)[group]
    groups[~is_guided & np.isnan(largest + human)] = None
    return groups


def intersection_ratio(set_a: Iterable, set_b: Iterable) -> float:
    """Return the percentage (0–100) of distinct members of ``set_a`` that are also in ``set_b``.

    It is NaN if ``set_a`` is empty. Source: triplets, section 7.2.3, Table 13 (``set_a`` is the group of the row).
    """
    members_a, members_b = set(set_a), set(set_b)
    return float(ratio(100 * len(members_a & members_b), len(members_a)))
