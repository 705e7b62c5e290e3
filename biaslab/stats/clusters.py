"""Shares of people who appear in the same images: design effect, confidence interval and test.

The image is the sampling unit. Functions take one row per image (and stratum), with the number of people counted, such
as those judged female, and the number ``n`` of all people. With one person per image, they return Wilson's interval and
the exact binomial or Fisher test.
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
"""Weight, in images, of the design effect of identical people; few images alone underestimate the design effect."""


def design_effect(
    count: ArrayLike, n: ArrayLike, *, stratum: ArrayLike | None = None, image: ArrayLike | None = None
) -> float:
    """Return the variance of a share, or of the mean of strata's shares, relative to that of independent people.

    Args:
        count: Number of people counted in each image, such as those judged female; whole numbers, one-dimensional.
        n: Number of all people in each image who could be counted; images without such people are excluded.
        stratum: The group of each row; None if all rows are in one group.
        image: The image of each row, if an image shows people of several groups; None if each row is an image.

    Returns:
        A ratio above 0. It is exactly 1 for one person per image, and n if n people per image are always identical. The
        linearized variance of sums per image is divided by the binomial variance, both unbiased. The result is averaged
        with the value for identical people, which has the weight of :data:`PRIOR_IMAGES` images. Without any variation,
        the people in an image are treated as identical. The result is NaN without people.

    Source: Kish (1965), Survey Sampling, section 5.4; Rao and Scott (1992), Biometrics 48, 577–585. Raises InputError:
    A count is above n or a fraction, or the shape is wrong.
    """
    count, n, stratum, image = checks.align((0,), count=count, n=n, stratum=stratum, image=image)
    count, n = checks.check_counts(count, n)
    if count.ndim != 1:
        raise InputError(f"count and n must be one-dimensional, one row per image, got shape {count.shape}.")
    has_people = n > 0
    if not has_people.any():
        return float("nan")
    groups = np.zeros(n.size) if stratum is None else np.asarray(stratum)
    images = np.arange(n.size) if image is None else np.asarray(image)
    group_codes, image_codes = pd.factorize(groups[has_people])[0], pd.factorize(images[has_people])[0]
    count, n = count[has_people], n[has_people]
    rows, people = np.bincount(group_codes), np.bincount(group_codes, n)
    share = np.bincount(group_codes, count) / people
    # Each group's share uses one degree of freedom; a group of one image shows no variance.
    df_factor = np.nan_to_num(np.sqrt(checks.ratio(rows, rows - 1)))
    deviation = (count - share[group_codes] * n) * df_factor[group_codes] / people[group_codes]
    clustered_variance = (np.bincount(image_codes, deviation) ** 2).sum()
    binomial_variance = share * (1 - share)
    # Unbiased: the mean of squares about the estimated share is too small by the variance of that share.
    independent_variance = ((binomial_variance + np.bincount(group_codes, deviation**2)) / people)[rows > 1].sum()
    weight = binomial_variance if binomial_variance.any() else np.ones(rows.size)
    max_effect = (weight * np.bincount(group_codes, n.astype(float) ** 2) / people**2).sum() / (weight / people).sum()
    if not independent_variance > 0:
        return float(max_effect)
    m = image_codes.max() + 1
    return float((m * clustered_variance / independent_variance + PRIOR_IMAGES * max_effect) / (m + PRIOR_IMAGES))


def clustered_share(count: ArrayLike, n: ArrayLike, confidence: float = 0.95) -> Estimate:
    """Return the share of people counted (0–1) with Wilson's interval at the effective sample size.

    ``count`` and ``n`` have one row per image. The effective sample size is the number of people divided by
    :func:`design_effect`; ``n`` of the result is the number of people. With one person per image, the interval is that
    of :func:`biaslab.stats.wilson_interval`. With 10 or more images of 1 to 4 people, the coverage of a nominal 95%
    interval is 93–98% for shares from 0.2 to 0.8 (``benchmarks/coverage_custom.py``). It is as low as 90% for a share
    of 0.05, if all four people have the same gender in half of the images. Raises InputError: As :func:`design_effect`.
    """
    count, n = checks.check_counts(count, n)
    people = int(n.sum())
    if not people:
        return Estimate(np.nan, np.nan, np.nan, 0)
    share, size = float(count.sum() / people), people / design_effect(count, n)
    variance = share * (1 - share)
    error = StandardError(float(np.sqrt(variance / size)), np.inf)
    low, high = clustered_share_interval(share, error, size, confidence)
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
    """Return the two-sided p-value of the null hypothesis that the share of people counted is ``center`` (0–1).

    ``count`` and ``n`` have one row per image; the result is NaN without people. With one person per image, the test is
    the exact binomial test. If ``center`` was estimated from a ``sample`` of that many people, it is Fisher's test.
    With several people per image, the test against one half randomly flips the signs of the images' differences
    (:func:`biaslab.stats.sign_flip`). Other tests are exact at the rounded effective sample size
    (:func:`design_effect`). A design effect estimated from few images is uncertain, and if it is too small, too many
    results are significant. ``effect`` is therefore the minimum design effect, such as that of all groups. Raises
    InputError: As :func:`design_effect`, or a centre is outside 0–1.
    """
    count, n = checks.check_counts(count, n)
    center = float(checks.check_shares(center, "center"))
    people = int(n.sum())
    if not people:
        return float("nan")
    is_one_per_image = bool((n <= 1).all())
    if not is_one_per_image and center == 0.5 and not np.isfinite(sample):
        return sign_flip(2 * count[n > 0] - n[n > 0], seed=seed).p
    share = count.sum() / people
    size = people if is_one_per_image else max(round(people / max(design_effect(count, n), effect)), 1)
    hits = round(share * size)
    if not np.isfinite(sample):
        return float(stats.binomtest(hits, size, center).pvalue)
    ref_hits = round(center * sample)
    return float(stats.fisher_exact(np.array([[hits, size - hits], [ref_hits, round(sample) - ref_hits]])).pvalue)


def clustered_homogeneity(
    count: ArrayLike, n: ArrayLike, stratum: ArrayLike, replicates: int = 2_000, *, seed: int | np.random.Generator
) -> float:
    """Return the p-value of the null hypothesis that all strata have the same share, by permutation of whole images.

    ``count`` and ``n`` have one row per image, and ``stratum`` is the group of the image. The statistic is the weighted
    sum of squared differences between the strata's shares and the common share. p is (hits + 1) / (replicates + 1)
    (Phipson and Smyth 2010). It is NaN with fewer than two strata, or if all people or none are counted. Raises
    InputError: A count is above n or a fraction, or ``replicates`` or ``seed`` is out of range.
    """
    count, n, stratum = checks.align((0,), count=count, n=n, stratum=stratum)
    count, n = checks.check_counts(count, n)
    replicates, rng = checks.replicate_count(replicates), checks.generator(seed)
    has_people = n > 0
    group_codes = np.unique(np.asarray(stratum)[has_people], return_inverse=True)[1]
    # The same images give the same p in any order.
    order = np.lexsort((n[has_people], count[has_people], group_codes))
    group_codes, count, n = group_codes[order], count[has_people][order], n[has_people][order]
    groups = int(group_codes.max(initial=-1)) + 1
    if groups < 2 or count.sum() in (0, n.sum()):
        return float("nan")

    def between_squares(codes: NDArray[np.intp]) -> NDArray[np.float64]:
        # One row per permutation, each with separate bins.
        bins = (codes + groups * np.arange(len(codes))[:, None]).ravel()
        sums = [
            np.bincount(bins, np.tile(column, len(codes)), minlength=groups * len(codes)).reshape(-1, groups)
            for column in (count, n)
        ]
        return (checks.ratio(sums[0] ** 2, sums[1])).sum(axis=1)

    observed_squares = between_squares(group_codes[None])[0]
    hits, n_remaining = 0, replicates
    while n_remaining:
        size = min(n_remaining, max(1, CELLS_PER_BATCH // group_codes.size))
        permuted_codes = rng.permuted(np.tile(group_codes, (size, 1)), axis=1)
        hits += np.count_nonzero(between_squares(permuted_codes) >= observed_squares * (1 - 1e-12))
        n_remaining -= size
    return (hits + 1) / (replicates + 1)
