"""Similarities, object bias and prompt-image dependency groups (triplets, sections 4.1, 5.2, 6.2 and 7.2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from biaslab.errors import InputError
from biaslab.measures.checks import broadcast, check_axis, numbers, ratio, truth

DEPENDENCY_GROUPS = (
    "explicitly_guided",
    "implicitly_guided",
    "explicitly_independent",
    "implicitly_independent",
    "hidden",
)
GUIDED_COVERAGE = 0.7
GUIDED_COVERAGE_HUMAN = 0.25


class MeanSimilarity(NamedTuple):
    """Mean cosine similarity over pairs."""

    value: float  # -1..1 (0..1 for counts); NaN where no pair has a cosine
    n: int  # pairs averaged
    n_missing: int  # pairs without a cosine: a vector of zeros, or a missing entry


def cosine_similarity(a, b, axis: int = -1) -> np.ndarray:
    """Return the cosine (-1..1) of the vectors of ``a`` and ``b`` along ``axis``; the other axes broadcast.

    A vector of zeros has no direction and gives NaN, as does a missing entry. Raises InputError for shapes
    that do not fit, infinities or scalars.
    """
    a, b = numbers("a", a), numbers("b", b)
    check_axis(a, axis, "features")
    check_axis(b, axis, "features")
    if a.shape[axis] != b.shape[axis]:
        raise InputError(f"a {a.shape} and b {b.shape} must have vectors of one length along axis {axis}.")
    a, b = broadcast(a=a, b=b)
    a, b = _unit(a, axis), _unit(b, axis)
    # rounding can leave 1.0000000000000002
    return np.clip((a * b).sum(axis=axis), -1.0, 1.0)


def disparity(a, b) -> MeanSimilarity:
    """Return the mean cosine similarity of corresponding rows (triplets, eq. 1 and 2).

    ``a`` and ``b`` have one shape (pairs, ...): row i of each comes from the same prompt; further axes (a
    latent's channels, height, width) are flattened. Raises InputError for different shapes or fewer than two
    axes.
    """
    a, b = numbers("a", a), numbers("b", b)
    if a.ndim < 2 or a.shape != b.shape:
        raise InputError(f"a {a.shape} and b {b.shape} must be of one shape (pairs, features).")
    width = int(np.prod(a.shape[1:]))
    cosines = cosine_similarity(a.reshape(len(a), width), b.reshape(len(b), width))
    n = int((~np.isnan(cosines)).sum())
    return MeanSimilarity(float(ratio(np.nansum(cosines), n)), n, len(a) - n)


def co_occurrence_similarity(v, w) -> MeanSimilarity:
    """Return the mean cosine of object counts of corresponding images (triplets, eq. 4), 0..1.

    ``v`` and ``w`` hold counts (0 or more), shape (pairs, objects), columns in the same order. A pair in
    which an image has no detected object has no cosine: it is left out and counted in ``n_missing``. Raises
    InputError for negative counts or different shapes.
    """
    return disparity(numbers("v", v, low=0), numbers("w", w, low=0))


def bias_score(count_masculine, count_feminine, n_masculine, n_feminine) -> np.ndarray:
    """Return an object's bias score elementwise: 1 only in masculine, 0 only in feminine, 0.5 neither.

    ``C_m / (C_m + (n_m / n_f) C_f)`` with the object's co-occurrence counts C (0 or more) and the sizes n of
    the prompt sets (above 0), so that sets of unequal size compare. An object that never occurs gives NaN.
    The arguments broadcast. Source: triplets, eq. 3 and 5. Raises InputError for negative counts or an empty
    prompt set.
    """
    masculine, feminine, n_m, n_f = broadcast(
        count_masculine=numbers("count_masculine", count_masculine, 0),
        count_feminine=numbers("count_feminine", count_feminine, 0),
        n_masculine=numbers("n_masculine", n_masculine, 0),
        n_feminine=numbers("n_feminine", n_feminine, 0),
    )
    if (n_m == 0).any() or (n_f == 0).any():
        raise InputError(
            "A prompt set is empty (size 0); the bias score compares two sets that hold prompts."
        )
    return ratio(masculine, masculine + n_m / n_f * feminine)


def coverage(object_mask, attention_mask) -> np.ndarray:
    """Return the share (0–1) of an object's region that an attention mask covers (triplets, eq. 7).

    Masks are boolean (or 0 and 1), shape (..., height, width); leading axes broadcast, for one object against
    the masks of all words. An object without a pixel gives NaN. Raises InputError for other values (binarise
    attention maps first), shapes that do not fit, or fewer than two axes.
    """
    region, attention = truth("object_mask", object_mask), truth("attention_mask", attention_mask)
    if min(region.ndim, attention.ndim) < 2 or region.shape[-2:] != attention.shape[-2:]:
        raise InputError(
            f"object_mask {region.shape} and attention_mask {attention.shape} must share height and width."
        )
    region, attention = broadcast(object_mask=region, attention_mask=attention)
    return ratio((region & attention).sum(axis=(-2, -1)), region.sum(axis=(-2, -1)))


def is_guided(coverages, both_human, axis: int = -1) -> np.ndarray:
    """Say whether at least one word's attention mask covers an object sufficiently (triplets, definition 2).

    ``coverages`` (0–1) runs over the words along ``axis``. Sufficient is more than 0.7, or more than 0.25
    where ``both_human`` (boolean, broadcast to ``coverages``) says that object and word both name a human.
    NaN coverage (no region) and an object without words are not guided. Raises InputError for values outside
    0–1 or scalars.
    """
    shares, human = broadcast(
        coverages=numbers("coverages", coverages, 0, 1), both_human=truth("both_human", both_human)
    )
    check_axis(shares, axis, "words")
    return (shares > np.where(human, GUIDED_COVERAGE_HUMAN, GUIDED_COVERAGE)).any(axis=axis)


def dependency_group(explicit, guided, detected) -> np.ndarray:
    """Return each object's prompt-image dependency group (triplets, section 6.2, definitions 1 and 2).

    Booleans that broadcast: ``explicit``, the object is among the prompt's nouns; ``guided``, an attention
    mask covers its region (:func:`is_guided`); ``detected``, it is in the image. A detected object is
    explicitly or implicitly, guided or independent; a noun that is not detected is ``hidden``, whatever
    ``guided`` says, for it has no region. What is neither a noun nor detected is no object of this image: "".
    Raises InputError for values other than booleans, 0 and 1.
    """
    explicit, guided, detected = broadcast(
        explicit=truth("explicit", explicit),
        guided=truth("guided", guided),
        detected=truth("detected", detected),
    )
    conditions = [
        detected & explicit & guided,
        detected & ~explicit & guided,
        detected & explicit & ~guided,
        detected & ~explicit & ~guided,
        explicit & ~detected,
    ]
    return np.select(conditions, DEPENDENCY_GROUPS, default="")


def intersection_ratio(set_a: Iterable, set_b: Iterable) -> float:
    """Return the percentage (0–100) of the distinct members of ``set_a`` that are also in ``set_b``.

    NaN where ``set_a`` is empty. Source: triplets, section 7.2.3, table 13 (``set_a`` is the row's group).
    """
    first, second = set(set_a), set(set_b)
    return float(ratio(100 * len(first & second), len(first)))


def _unit(vectors: np.ndarray, axis: int) -> np.ndarray:
    """Scale to length 1; zeros become NaN. Dividing by the largest entry keeps squares from overflowing."""
    if not vectors.shape[axis]:
        raise InputError(f"Vectors of length 0 have no direction (shape {vectors.shape}, axis {axis}).")
    vectors = ratio(vectors, np.abs(vectors).max(axis=axis, keepdims=True))
    return vectors / np.sqrt((vectors**2).sum(axis=axis, keepdims=True))
