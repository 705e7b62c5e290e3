"""Shares of people who share images: design effect, interval and test. The image is the sampling unit.

Functions take one row per image (and stratum): the people counted, such as those judged female, of ``n`` people. With
one person per image they give Wilson's interval and the exact binomial or Fisher test.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from biaslab.errors import InputError
from biaslab.stats import checks
from biaslab.stats.hypothesis import CELLS_PER_BATCH, sign_flip
from biaslab.stats.intervals import Estimate, StandardError, clustered_share_interval

PRIOR_IMAGES = 2
"""Images whose people are all alike, added before the design effect is estimated; a few images underestimate it."""


def design_effect(
    count: ArrayLike, n: ArrayLike, *, stratum: ArrayLike | None = None, image: ArrayLike | None = None
) -> float:
    """Return the variance of a share, or of the mean of strata's shares, relative to that of independent people.

    Args:
        count: People counted in each image, such as those judged female; whole numbers, one-dimensional.
        n: People of each image who could be counted; images with none are left out.
        stratum: The group of each row; without it all rows are of one group.
        image: The image of each row, where an image has people of several groups; without it each row is an image.

    Returns:
        A ratio above 0: exactly 1 for one person per image, and n if n people per image are always alike. It is the
        linearised variance of per-image sums over the binomial one, both unbiased, averaged with :data:`PRIOR_IMAGES`
        images whose people are all alike. Without any variation people of an image count as alike. NaN without people.

    Source: Kish (1965), Survey Sampling, section 5.4; Rao and Scott (1992), Biometrics 48, 577–585. Raises InputError:
    Counts above n, fractions, or another shape.
    """
    count, n, stratum, image = checks.align((0,), count=count, n=n, stratum=stratum, image=image)
    count, n = checks.check_counts(count, n)
    if count.ndim != 1:
        raise InputError(f"count and n must be one-dimensional, one row per image, got shape {count.shape}.")
    filled = n > 0
    if not filled.any():
        return float("nan")
    groups = np.zeros(n.size) if stratum is None else np.asarray(stratum)
    images = np.arange(n.size) if image is None else np.asarray(image)
    of, within = pd.factorize(groups[filled])[0], pd.factorize(images[filled])[0]
    count, n = count[filled], n[filled]
    rows, people = np.bincount(of), np.bincount(of, n)
    share = np.bincount(of, count) / people
    # A share takes a degree of freedom of its group; a group of one image shows no variance.
    free = np.nan_to_num(np.sqrt(checks.ratio(rows, rows - 1)))
    deviation = (count - share[of] * n) * free[of] / people[of]
    clustered = (np.bincount(within, deviation) ** 2).sum()
    even = share * (1 - share)
    # Unbiased: the share's own variance is what the mean of squares about it falls short by.
    independent = ((even + np.bincount(of, deviation**2)) / people)[rows > 1].sum()
    weight = even if even.any() else np.ones(rows.size)
    alike = (weight * np.bincount(of, n.astype(float) ** 2) / people**2).sum() / (weight / people).sum()
    if not independent > 0:
        return float(alike)
    m = within.max() + 1
    return float((m * clustered / independent + PRIOR_IMAGES * alike) / (m + PRIOR_IMAGES))


def clustered_share(count: ArrayLike, n: ArrayLike, confidence: float = 0.95) -> Estimate:
    """Return the share of people counted (0–1) with Wilson's interval at the size that the images are worth.

    ``count`` of ``n`` people are one row per image; that size is people over :func:`design_effect`. ``n`` of the result
    counts people. With one person per image this is :func:`biaslab.stats.wilson_interval`. A nominal 95 % interval of
    shares from 0.2 to 0.8 covers 93–98 % with 10 or more images of 1 to 4 people (``benchmarks/coverage_custom.py``),
    and down to 90 % of a share of 0.05 where four people match in half of the images. Raises InputError: As
    :func:`design_effect`.
    """
    count, n = checks.check_counts(count, n)
    people = int(n.sum())
    if not people:
        return Estimate(np.nan, np.nan, np.nan, 0)
    share, size = float(count.sum() / people), people / design_effect(count, n)
    even = share * (1 - share)
    low, high = clustered_share_interval(share, StandardError(float(np.sqrt(even / size)), np.inf), size, confidence)
    return Estimate(share, float(low), float(high), people)


def clustered_share_test(
    count: ArrayLike,
    n: ArrayLike,
    center: float,
    sample: float = np.nan,
    *,
    effect: float = 1.0,
    seed: int | np.random.Generator,
) -> float:
    """Return the two-sided p of the share of people counted being ``center`` (0–1); NaN without people.

    ``count`` of ``n`` people are one row per image. With one person per image the test is the exact binomial one, or
    Fisher's where ``center`` was itself counted in a ``sample`` of so many people. With several, the test against one
    half flips the signs of each image's difference (:func:`biaslab.stats.sign_flip`); the others are the same exact
    tests at the size that the images are worth (:func:`design_effect`), rounded. A few images estimate it poorly, and
    one that is too small makes claims too often: ``effect`` is the least to assume, such as that of all groups. Raises
    InputError: As there, or a centre outside 0–1.
    """
    count, n = checks.check_counts(count, n)
    center = float(checks.check_shares(center, "center"))
    people = int(n.sum())
    if not people:
        return float("nan")
    alone = bool((n <= 1).all())
    if not alone and center == 0.5 and not np.isfinite(sample):
        return sign_flip(2 * count[n > 0] - n[n > 0], seed=seed).p
    share = count.sum() / people
    size = people if alone else max(round(people / max(design_effect(count, n), effect)), 1)
    found = round(share * size)
    if not np.isfinite(sample):
        return float(stats.binomtest(found, size, center).pvalue)
    other = round(center * sample)
    return float(stats.fisher_exact(np.array([[found, size - found], [other, round(sample) - other]])).pvalue)


def clustered_homogeneity(
    count: ArrayLike, n: ArrayLike, stratum: ArrayLike, replicates: int = 2_000, *, seed: int | np.random.Generator
) -> float:
    """Return the p of equal shares in all strata, such as of people who could be judged, permuting whole images.

    ``count`` of ``n`` people are one row per image, ``stratum`` is its group. The statistic is the weighted sum of
    squares of the strata's shares about the common one; p is (hits + 1) / (replicates + 1) (Phipson and Smyth 2010).
    NaN for fewer than two strata, or where all people, or none, are counted. Raises InputError: Counts above n,
    fractions, ``replicates`` or ``seed`` out of range.
    """
    count, n, stratum = checks.align((0,), count=count, n=n, stratum=stratum)
    count, n = checks.check_counts(count, n)
    replicates, rng = checks.replicate_count(replicates), checks.generator(seed)
    filled = n > 0
    of = np.unique(np.asarray(stratum)[filled], return_inverse=True)[1]
    # The same images give the same p in any order.
    order = np.lexsort((n[filled], count[filled], of))
    of, count, n = of[order], count[filled][order], n[filled][order]
    groups = int(of.max(initial=-1)) + 1
    if groups < 2 or count.sum() in (0, n.sum()):
        return float("nan")

    def between(codes: NDArray[np.intp]) -> NDArray[np.float64]:
        # One row per permutation: each has bins of its own.
        bins = (codes + groups * np.arange(len(codes))[:, None]).ravel()
        sums = [
            np.bincount(bins, np.tile(each, len(codes)), minlength=groups * len(codes)).reshape(-1, groups)
            for each in (count, n)
        ]
        return (checks.ratio(sums[0] ** 2, sums[1])).sum(axis=1)

    observed = between(of[None])[0]
    hits, left = 0, replicates
    while left:
        size = min(left, max(1, CELLS_PER_BATCH // of.size))
        drawn = rng.permuted(np.tile(of, (size, 1)), axis=1)
        hits += np.count_nonzero(between(drawn) >= observed * (1 - 1e-12))
        left -= size
    return (hits + 1) / (replicates + 1)
