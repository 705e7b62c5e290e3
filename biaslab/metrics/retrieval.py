"""Retrieval of captions and images (R-precision, gender bias), and distances between sets of images (FID, KID).

Sources: dalleval, sections C.2, D.1 and D.2; R-precision: Xu et al. 2018 and Park et al. 2021; FID: Heusel et al. 2017.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg
from scipy.special import gammaln

from biaslab.errors import InputError
from biaslab.stats.checks import align

_BLOCK = 2048
DISTRACTORS = 99  # captions in addition to an image's own (section D.1)


def r_precision(similarity: np.ndarray, *, distractors: int = DISTRACTORS) -> np.ndarray:
    """Return the probability (0–1) that each image retrieves its own caption among random other captions.

    The mean over images is R-precision. Probabilities are exact, without sampling. If b of the N - 1 other captions
    score better (ties are counted as one half), the probability that none of them is among the ``distractors`` is
    C(N - 1 - b, distractors) / C(N - 1, distractors). ``similarity``, ``float (N, N)``, contains the cosine of image i
    and caption j; caption i belongs to image i. Raises InputError: ``similarity`` is not square or not finite,
    ``distractors`` is below 1, or there are no more captions than ``distractors``.
    """
    similarity = np.asarray(similarity)
    # Only the order matters, so single precision, which takes half the time, is not converted.
    if similarity.dtype != np.float32:
        similarity = np.asarray(similarity, float)
    if similarity.ndim != 2 or similarity.shape[0] != similarity.shape[1]:
        raise InputError(
            f"similarity has the shape {similarity.shape}; it needs one row per image and one column per caption."
        )
    if not np.isfinite(similarity).all():
        raise InputError("similarity contains values that are not finite; remove images without an embedding.")
    n = len(similarity)
    if not 1 <= distractors < n:
        raise InputError(
            f"distractors is {distractors}, but there are {n} captions; use 1 to {n - 1} distractors, or more captions."
        )
    own_similarity = np.diagonal(similarity)[:, None]
    n_better = np.count_nonzero(similarity > own_similarity, axis=1)
    n_worse = n - 1 - n_better - (np.count_nonzero(similarity == own_similarity, axis=1) - 1) / 2
    return np.exp(_log_choose(n_worse, distractors) - _log_choose(n - 1, distractors))


def _log_choose(n: np.ndarray | int, k: int) -> np.ndarray:
    """Return log C(n, k) for whole and half numbers n; -inf for n below k."""
    clipped = np.maximum(n, k)
    return np.where(n < k, -np.inf, gammaln(clipped + 1) - gammaln(k + 1) - gammaln(clipped - k + 1))


def frechet_distance(first: np.ndarray, second: np.ndarray) -> float:
    """Return the Fréchet distance of two sets of features, treated as normal (FID for Inception features).

    It is |m1 - m2|² + Tr(S1 + S2 - 2 (S1 S2)^½). The trace of the root is the sum of the singular values of ABᵀ, where
    AᵀA = S1 and BᵀB = S2. A and B are the centred features if there are fewer images than features, and otherwise
    Cholesky factors. This takes one eighth of the time of a matrix square root. Both arguments have the shape (images,
    features), with at least 2 images. Raises InputError: The shapes are wrong, or a value is not finite.
    """
    sets = _sets(first, second)
    means = [s.mean(axis=0) for s in sets]
    centred = [(s - mean) / np.sqrt(len(s) - 1) for s, mean in zip(sets, means, strict=True)]
    total = sum((c**2).sum() for c in centred)
    distance = ((means[0] - means[1]) ** 2).sum() + total - 2 * _trace_of_root(*centred)
    return float(max(distance, 0.0))


def _sets(first: np.ndarray, second: np.ndarray) -> list[np.ndarray]:
    sets = [np.asarray(features, float) for features in align((1,), first=first, second=second)]
    if any(s.ndim != 2 or len(s) < 2 for s in sets) or len({s.shape[1] for s in sets}) > 1:
        raise InputError(
            f"The features have the shapes {' and '.join(str(s.shape) for s in sets)}; pass two arrays with one "
            "row per image, at least 2 rows, and the same number of features."
        )
    if not all(np.isfinite(s).all() for s in sets):
        raise InputError("The features contain values that are not finite; remove images without features.")
    return sets


def _trace_of_root(a: np.ndarray, b: np.ndarray) -> float:
    """Return Tr((AᵀA BᵀB)^½)."""
    if min(len(a), len(b)) < a.shape[1]:
        smaller, larger = sorted((a, b), key=len)
        product = smaller @ larger.T
        # The eigenvalues of the product with its transpose are the squares of the singular values.
        return float(np.sqrt(np.maximum(linalg.eigvalsh(product @ product.T), 0)).sum())
    gram_a, gram_b = a.T @ a, b.T @ b
    try:
        factor = linalg.cholesky(gram_a, lower=True)
    except linalg.LinAlgError:
        # If features are linearly dependent, the factor is computed from eigenvalues, some of which are 0.
        values, vectors = linalg.eigh(gram_a)
        factor = vectors * np.sqrt(np.maximum(values, 0))
    return float(np.sqrt(np.maximum(linalg.eigvalsh(factor.T @ gram_b @ factor), 0)).sum())


def kernel_distance(first: np.ndarray, second: np.ndarray) -> float:
    """Return the kernel distance of two sets of features (KID; Bińkowski 2018), which may be slightly negative.

    It is the unbiased squared maximum mean discrepancy with the kernel (x·y / features + 1)³. Arguments are as in
    :func:`frechet_distance`. Raises InputError: As :func:`frechet_distance`.
    """
    first, second = _sets(first, second)

    def total(a: np.ndarray, b: np.ndarray) -> float:
        # In blocks, as all pairs of 30,000 images would take gigabytes.
        parts = (a[start : start + _BLOCK] @ b.T for start in range(0, len(a), _BLOCK))
        return float(sum(((part / a.shape[1] + 1) ** 3).sum() for part in parts))

    def mean_within(features: np.ndarray) -> float:
        self_products = ((np.einsum("if,if->i", features, features) / features.shape[1] + 1) ** 3).sum()
        return (total(features, features) - self_products) / (len(features) * (len(features) - 1))

    return mean_within(first) + mean_within(second) - 2 * total(first, second) / (len(first) * len(second))


def retrieval_bias(similarity: np.ndarray, female: np.ndarray, k: int, *, male: np.ndarray | None = None) -> np.ndarray:
    """Return the gender bias of the k images most similar to each text: (M - F) / (M + F).

    M and F are the numbers of images of men and of women. ``similarity``, ``float (texts, images)``, contains the
    similarity of text i and image j. ``female`` and ``male``, ``bool (images,)``, state whether image j shows a woman
    or a man; without ``male``, every image without a woman shows a man. The result is -1 to 1 for each text, and 0 if
    its k images show neither. Of equally similar images, the first are retrieved. Sources: dalleval, appendix C.2,
    Table 14; Wang et al. 2021, section 3. Raises InputError: k is not from 1 to the number of images, or the shapes do
    not fit.
    """
    female, images = align((0,), female=female, similarity=np.transpose(similarity))
    similarity, female = np.asarray(images, float).T, np.asarray(female, bool)
    male = ~female if male is None else np.asarray(male, bool)
    if similarity.ndim != 2 or {female.shape, male.shape} != {similarity.shape[1:]} or not 1 <= k <= len(female):
        raise InputError(
            f"similarity has the shape {similarity.shape}, female {female.shape} and male {male.shape}, and k is {k}; "
            "female and male need one value per column, and k must be from 1 to the number of columns."
        )
    threshold = -np.partition(-similarity, k - 1, axis=1)[:, k - 1 : k]
    is_above, is_equal = similarity > threshold, similarity == threshold
    is_retrieved = is_above | (is_equal & (is_equal.cumsum(axis=1) <= k - is_above.sum(axis=1, keepdims=True)))
    men, women = is_retrieved @ male.astype(float), is_retrieved @ female.astype(float)
    return (men - women) / np.maximum(men + women, 1)


def recall_at(similarity: np.ndarray, k: int) -> np.ndarray:
    """Return whether image i is among the k most similar to text i; of equally similar images, the first count."""
    similarity = np.asarray(similarity, float)
    own_similarity = np.diagonal(similarity)[:, None]
    precedes = np.tri(len(similarity), k=-1, dtype=bool) & (similarity == own_similarity)
    return (similarity > own_similarity).sum(axis=1) + precedes.sum(axis=1) < k
