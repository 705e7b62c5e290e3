"""Bootstraps over occupations (or other groups, such as prompts or professions) and over their images.

Observed shares contain image noise, which would be counted twice if images were resampled from them. Shares are
therefore first shrunk towards their mean until only the variance between occupations remains. An absolute measure, such
as the mean of |p - 50|, is larger for noisy shares than for true shares. Shares resampled from the shrunk shares
estimate this bias.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from biaslab.errors import InputError
from biaslab.stats import checks
from biaslab.stats.resampling import CaptionClusterSampling, CombinedSampling, IndependentSampling, SamplingDesign

CELLS_PER_BATCH = 250_000  # bounds memory: some ten arrays of this size exist at a time
# The same random numbers in all calls, so that an estimate depends neither on the replicates nor on the seed.
NOISE_DRAWS, NOISE_SEED = 1000, 20231
# Minimum number of groups, and of images per cell on average; with fewer, intervals do not cover the true value.
LEAST_GROUPS, LEAST_IMAGES = 3, 2
FEW_GROUPS = f"With fewer than {LEAST_GROUPS} occupations, their variance cannot be estimated."
FEW_IMAGES = f"With fewer than {LEAST_IMAGES} images per share, sampling noise cannot be separated from differences."


class Bootstrap(NamedTuple):
    """A statistic of shares with its confidence interval: floats, or arrays of length k for k values."""

    value: float | np.ndarray  # The statistic of the observed shares.
    ci_low: float | np.ndarray
    ci_high: float | np.ndarray
    n_groups: int  # Number of groups with at least one image.
    n_images: int
    replicates: int  # Number of replicates for which the statistic was defined (for k values, the smallest).
    bias: float | np.ndarray  # Bias of ``value`` due to image noise; the interval is centred on value - bias.
    se: float | np.ndarray  # Standard error of value - bias.
    df: float  # Degrees of freedom of the interval and of the test; infinite for a normal interval.
    reason: str = ""  # The reason for a missing interval; empty if there is an interval, or if the variance is 0.

    @property
    def estimate(self) -> float | np.ndarray:
        """The statistic corrected for the bias due to image noise: the centre of the interval."""
        return self.value - self.bias

    @property
    def p(self) -> float | np.ndarray:
        """Two-sided p-value for a true statistic of 0; below 1 - confidence if and only if the interval excludes 0."""
        return 2 * stats.t.sf(np.abs(self.estimate / self.se), self.df)


def hierarchical_bootstrap(
    counts: ArrayLike,
    n: ArrayLike,
    statistic: Callable[..., np.ndarray],
    *,
    replicates: int = 10_000,
    seed: int | np.random.Generator,
    confidence: float = 0.95,
    fixed: bool = False,
    drawing: SamplingDesign | list[IndependentSampling | CaptionClusterSampling] | None = None,
) -> Bootstrap:
    r"""Return ``statistic`` of the shares ``counts / n``, with a confidence interval for its value in the population.

    Args:
        counts: Whole numbers with shape (groups, cells), for example 62 occupations by training images and four
            prompts.
        n: Number of images in each cell; 0 or NaN for a cell without images. Groups without images are excluded.
        statistic: Function of shares (0–1) with shape (..., groups, cells), NaN for cells without images. It returns
            an array with shape (...) or (..., k).
        replicates: Number of replicates, two for each resample of the occupations. With 10,000, the relative error of
            the standard error is 1–3%.
        seed: Seed for the standard error; the bias is always computed with the same random numbers.
        confidence: Level of the interval, 0–1.
        fixed: Whether the interval is for these occupations only, instead of a population of occupations.
        drawing: Sampling design of the images. The default is independent images (:class:`IndependentSampling`);
            :class:`CaptionClusterSampling` keeps images of one caption together. A list of designs applies to
            consecutive cells.

    Returns:
        ``value`` is the uncorrected statistic, as the papers define it. The interval is Student's t (normal if
        ``fixed``) and centred on value - bias. If the bias is large, ``value`` is outside the interval. Replicates in
        which the statistic is NaN are excluded. Limits are NaN if there is no variance. They are also NaN, with a
        ``reason``, with fewer than 3 groups (unless ``fixed``) or fewer than 2 images per cell.

    Each resample of the occupations is treated as a separate study. Its shares a are shrunk to b, which removes the
    part of the covariance between occupations that image noise explains (method of moments). Images are sampled from b
    twice, as q and q'. The corrected estimate of the study is then f(a) + f(b) - f(q), apart from the noise of q. The
    covariance of the two versions over the resamples is the variance of the estimate without this noise.

    The coverage of nominal 95% intervals is 94.0–97.3% for mean shares, changes and all definitions of amplification
    (``benchmarks/coverage.py``; U-shaped shares, 20 or 62 occupations, 3 to 500 images per cell). Coverage fails if
    **all shares are exactly one half**. The corrected mean of \|p - 50\| is then 4.5, 1.3 and 0.6 percentage points
    with 9, 100 and 500 images, and only 5% of intervals contain 0. Use :func:`chi_square` to test whether shares
    differ. Raises InputError: Counts are above n or fractions, the table is not two-dimensional, the confidence is
    outside 0–1, the statistic has another shape, or the sampling design is for other cells.
    """
    counts, n = checks.check_counts(*checks.align(counts=counts, n=n))
    if n.ndim != 2 or not (n > 0).any():
        raise InputError(f"counts and n must be (groups, cells) with at least one image, got shape {n.shape}.")
    replicates, rng = checks.replicate_count(replicates), checks.generator(seed)
    confidence = checks.confidence_level(confidence)
    drawing = IndependentSampling(n.shape[1]) if drawing is None else drawing
    drawing = CombinedSampling(drawing) if isinstance(drawing, list) else drawing
    if drawing.cells != n.shape[1]:
        raise InputError(f"drawing has {drawing.cells} cells, but counts and n have {n.shape[1]}.")
    has_images = np.any(n > 0, axis=1)
    counts, n, drawing = counts[has_images], n[has_images], drawing.select_groups(has_images)
    groups = len(n)

    def f(shares: np.ndarray) -> np.ndarray:
        return np.asarray(statistic(shares), dtype=float)

    observed_shares = checks.ratio(counts, n)
    value = f(observed_shares)
    if value.ndim > 1:
        raise InputError(f"statistic must return (...) or (..., k) of (..., groups, cells), got {value.shape}.")
    first, second = np.zeros((2, -(-replicates // 2), *value.shape))
    all_groups, start = np.arange(groups), 0
    base = drawing.small_sample_bias(observed_shares, n, all_groups) if fixed else observed_shares
    for size in _batches(first.shape[0], groups * drawing.width):
        batch = slice(start, start := start + size)
        rows = np.broadcast_to(all_groups, (size, groups)) if fixed else rng.integers(groups, size=(size, groups))
        shares, images = base.take(rows, axis=0), n.take(rows, axis=0)
        if fixed:
            shares = drawing.draw(shares, images, rows, rng)
        estimate = f(shares)
        if estimate.shape != (size, *value.shape):
            raise InputError(
                f"statistic must keep leading axes: it returned {value.shape} for {n.shape} "
                f"and {estimate.shape} for {shares.shape}."
            )
        shrunk_shares = drawing.small_sample_bias(shares, images, rows)
        truth = f(shrunk_shares)
        first_draw, second_draw = (f(drawing.draw(shrunk_shares, images, rows, rng)) for _ in range(2))
        first[batch], second[batch] = estimate + (truth - first_draw), estimate + (truth - second_draw)

    shift = _noise(f, drawing, observed_shares, n)
    variance, usable = _covariance(first, second)
    df, reason = np.inf, ""
    # The noise of a cell cannot be estimated from one image.
    if (n.sum(axis=0) < LEAST_IMAGES * (n > 0).sum(axis=0)).any():
        reason = FEW_IMAGES
    if not fixed:
        reason = FEW_GROUPS if groups < LEAST_GROUPS else reason
        # The variance between resamples of g groups falls short by (g - 1) / g.
        variance = variance * (groups / (groups - 1) if groups > 1 else np.nan)
        df = float(max(groups - 1, 1))
    # With few groups or images, the variance estimate can be 0 or negative and is then unusable.
    se = np.sqrt(np.where((variance > 0) & (not reason), variance, np.nan))
    half = stats.t.ppf((1 + confidence) / 2, df) * se
    low, high = value - shift - half, value - shift + half
    return Bootstrap(value[()], low[()], high[()], groups, int(n.sum()), 2 * int(usable), shift[()], se[()], df, reason)


def _noise(f: Callable, drawing: SamplingDesign, observed_shares: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Return the bias due to image noise.

    It is the mean of the statistic over images resampled from the shrunk shares, minus its value for these shares.
    """
    rng, all_groups = np.random.default_rng(NOISE_SEED), np.arange(len(n))
    shrunk_shares = drawing.small_sample_bias(observed_shares, n, all_groups)
    draws = []
    for size in _batches(NOISE_DRAWS, len(n) * drawing.width):
        shares, images, rows = (np.broadcast_to(a, (size, *a.shape)) for a in (shrunk_shares, n, all_groups))
        draws.append(f(drawing.draw(shares, images, rows, rng)))
    draws = np.concatenate(draws)
    return checks.mean_where(draws, np.isfinite(draws), 0)[0] - f(shrunk_shares)


def _covariance(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the covariance of the two versions and the smallest number of resamples with a value."""
    usable = np.isfinite(first) & np.isfinite(second)
    count = usable.sum(axis=0)
    first, second = (np.where(usable, a, 0) for a in (first, second))
    n = np.where(count > 1, count, np.nan)
    covariance = (first * second).sum(axis=0) - first.sum(axis=0) * second.sum(axis=0) / n
    return covariance / (n - 1), count.min(initial=len(first))


def _batches(replicates: int, cells: int) -> Iterator[int]:
    size = max(1, CELLS_PER_BATCH // cells)
    return (min(size, replicates - start) for start in range(0, replicates, size))
