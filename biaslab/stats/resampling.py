"""Sampling designs of the images behind shares: independent images, or clusters by caption.

Images generated from the caption of a training image mostly show the gender of that image. The errors of both shares
are therefore correlated, and several images of one caption contain little more information than one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import gammaln
from scipy.stats import hypergeom

from biaslab.errors import InputError
from biaslab.stats import checks
from biaslab.stats.checks import ratio

_MAX_DEPENDENCE = 6.0  # at which a caption's images are practically all the same
_MAX_TILT = 14.0  # beyond which a share is within 1e-5 of 0 or 1


class IndependentSampling(NamedTuple):
    """Independent images in each of ``cells`` cells: the count in a cell is binomial."""

    cells: int

    @property
    def width(self) -> int:
        """Numbers held in memory to sample one group."""
        return self.cells

    def select_groups(self, groups: np.ndarray) -> IndependentSampling:
        """Return itself, because the design does not depend on the (one-dimensional) ``groups``."""
        return self

    def small_sample_bias(self, shares: np.ndarray, n: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """Return ``shares`` (..., groups, cells), shrunk by the part of their variance that binomial noise explains."""
        has_images = n > 0
        n_groups = np.maximum(has_images.sum(axis=-2), 1)
        shares = np.where(has_images, shares, 0)
        # Pooled p(1 - p) within cells, over the mean 1 / n. The noise of a cell cannot be estimated from one image.
        pooled_variance = (n * shares * (1 - shares)).sum(axis=-2) / np.maximum((n - has_images).sum(axis=-2), 1)
        noise = pooled_variance * np.divide(1.0, n, out=np.zeros(n.shape), where=has_images).sum(axis=-2) / n_groups
        return small_sample_bias(shares, has_images, noise)

    def draw(self, shares: np.ndarray, n: np.ndarray, rows: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
        """Return shares of a binomial number of images in each cell."""
        return ratio(rng.binomial(n, _round_probabilities(shares)), n)


class CaptionClusterSampling:
    """Images of captions in two cells: the caption's own (training) image, and the images generated from the caption.

    Captions are sampled as clusters. For an occupation, let t be the share of own images that show a woman, and g that
    of generated images. A caption's own image then shows a woman with probability t. Each of its generated images shows
    a woman with probability g + c (x - t), where x is 1 if the own image shows a woman and 0 otherwise. The number y of
    women in the caption's K generated images has p(y | x) ~ (K over y) exp(b y + d y (y - 1) / 2), where b is such that
    the mean is K times this probability. d is 0 if images of a caption vary like independent images. All occupations
    have the same c (the regression of generated on own images within occupations) and the same d (fitted to the
    variance between captions of one occupation). Images without a gender are assumed to be missing at random.

    Args:
        group: Group of each pattern of images: the row of the table of counts, from 0.
        own: For each pattern, whether the caption's own image shows a woman: 1, 0, or NaN without a gender.
        female: For each pattern, the number of women in the images generated from the caption.
        n_judged: For each pattern, the number of generated images with a gender; it may be 0.
        captions: For each pattern, the number of captions in the group.
        groups: Number of groups.

    Raises InputError: There are more women than images, or a number is a fraction.
    """

    cells = 2

    def __init__(
        self, group: ArrayLike, own: ArrayLike, female: ArrayLike, n_judged: ArrayLike, captions: ArrayLike, groups: int
    ) -> None:
        group, own, female, n_judged, captions = checks.align(
            group=group, own=own, female=female, n_judged=n_judged, captions=captions
        )
        self._group = checks.check_whole(group, "group")
        self._captions = checks.check_whole(captions, "captions")
        female, n_judged = checks.check_counts(female, n_judged)
        own = checks.check_numbers(own, "own")
        is_invalid = ~np.isin(own, (0, 1)) & ~np.isnan(own)
        if is_invalid.any():
            raise InputError(f"own must be 1 (a woman), 0 (a man) or NaN (no gender), got {own[is_invalid][0]:g}.")
        self.groups = groups
        self._own = own
        self._images = np.stack([(~np.isnan(own)).astype(int), n_judged], axis=1)
        self._women = np.stack([np.nan_to_num(own).astype(int), female], axis=1)
        self.max_images = int(n_judged.max(initial=1))  # images generated from one caption that have a gender
        # Images that have a gender, and of these women: (groups, 2).
        self.n, self.counts = self._sum(self._images), self._sum(self._women)

    @property
    def width(self) -> int:
        """Numbers held in memory to sample one group."""
        return 2 * (self.max_images + 1)

    def select_groups(self, groups: np.ndarray) -> CaptionClusterSampling:
        """Return the design of a subset of the ``groups`` (one-dimensional), in the same order."""
        indices = np.arange(self.groups)[groups]
        place = np.full(self.groups, -1)
        place[indices] = np.arange(len(indices))
        mask = place[self._group] >= 0
        own, women, images = self._own[mask], self._women[mask, 1], self._images[mask, 1]
        return CaptionClusterSampling(place[self._group[mask]], own, women, images, self._captions[mask], len(indices))

    def small_sample_bias(self, shares: np.ndarray, n: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return ``shares`` (..., groups, cells), shrunk by their covariance due to the choice of captions."""
        products, df, per_share, has_both = (sums[rows].sum(axis=-3) for sums in self._spread)
        noise = products / np.maximum(df, 1e-9) * np.where(df > 0, per_share, 0) / np.maximum(has_both, 1)
        return small_sample_bias(shares, n > 0, noise)

    def draw(self, shares: np.ndarray, n: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return shares of resampled captions and their images, with the same number of captions in each group."""
        shares = _round_probabilities(shares)
        conditional_shares = _round_probabilities(self._conditional_shares(shares))
        women = np.zeros(shares.shape, dtype=np.int64)
        for n_own, n_new, captions in self._kinds:
            number = captions[rows]
            n_women = rng.binomial(number, shares[..., 0])
            if n_own:
                women[..., 0] += n_women
            if n_new:
                for x, n_captions in enumerate((number - n_women, n_women)):
                    women[..., 1] += self._draw_women(n_captions, conditional_shares[..., x], n_new, rng)
        return ratio(women, n)

    def _draw_women(self, n: np.ndarray, share: np.ndarray, n_images: int, rng: np.random.Generator) -> np.ndarray:
        """Return the number of women in ``n_images`` images of each of ``n`` captions, with probability ``share``."""
        if self._dependence == 0:
            return rng.binomial(n * n_images, share)
        out = np.zeros(n.shape, dtype=np.int64)
        has_captions = n > 0
        p = _interpolate(share[has_captions], *self._table)
        y = np.arange(n_images + 1)
        if n_images < self.max_images:
            p = p @ hypergeom.pmf(y, self.max_images, np.arange(self.max_images + 1)[:, None], n_images)
        out[has_captions] = rng.multinomial(n[has_captions], p / p.sum(axis=-1, keepdims=True)) @ y
        return out

    def _sum(self, values: np.ndarray) -> np.ndarray:
        """Return the sum of the patterns' ``values`` over the captions of each group."""
        out = np.zeros((self.groups, *values.shape[1:]), dtype=values.dtype)
        np.add.at(out, self._group, values * self._captions.reshape(-1, *[1] * (values.ndim - 1)))
        return out

    @cached_property
    def _spread(self) -> tuple[np.ndarray, ...]:
        """Return the terms by group from which the noise of a set of groups is summed, each (groups, 2, 2).

        They are the cross products of the captions' deviations, their degrees of freedom, the factor from the
        covariance of one caption to that of the two shares, and whether the group has images of both cells.
        """
        has_images = (self._images > 0).astype(float)
        share = np.nan_to_num(ratio(self.counts, self.n))[self._group]
        deviation = has_images * (self._women - self._images * share)
        products = self._sum(deviation[:, :, None] * deviation[:, None, :])
        captions = self._sum(has_images[:, :, None] * has_images[:, None, :])
        inverse = np.nan_to_num(ratio(1, np.einsum("gii->gi", captions)))
        left, right = inverse[:, :, None], inverse[:, None, :]
        df = np.maximum(captions * (1 - left - right + captions * left * right), 0)
        images = (self.n[:, :, None] * self.n[:, None, :]).astype(float)
        return products, df, np.nan_to_num(ratio(captions, images)), images > 0

    @cached_property
    def _kinds(self) -> list[tuple[int, int, np.ndarray]]:
        """Return each pair of numbers of judged images, own and generated, with the captions per group that have it."""
        kinds, place = np.unique(self._images, axis=0, return_inverse=True)
        counts = (self._sum((place.reshape(-1) == k).astype(int)) for k in range(len(kinds)))
        return [(int(n_own), int(n_new), captions) for (n_own, n_new), captions in zip(kinds, counts, strict=True)]

    @cached_property
    def _copy_slope(self) -> float:
        """Return c: the regression of generated on own images within occupations."""
        products, df, _, _ = self._spread
        has_both = self._images.min(axis=1) > 0
        captions = self._captions[has_both].sum()
        if not captions or not products[:, 0, 0].sum() > 0 or not df[:, 0, 1].sum() > 0:
            return 0.0
        images = (self._images[has_both, 1] * self._captions[has_both]).sum() / captions
        covariance = products[:, 0, 1].sum() / df[:, 0, 1].sum() / images
        return float(np.clip(covariance * df[:, 0, 0].sum() / products[:, 0, 0].sum(), -1, 1))

    def _conditional_shares(self, shares: np.ndarray) -> np.ndarray:
        """Return the probability of a woman in a generated image if the own one shows a man, or a woman: (..., 2)."""
        t, g = shares[..., 0], shares[..., 1]
        c, men = self._copy_slope, 1 - g
        # c is limited so that both probabilities stay between 0 and 1.
        to_woman, to_man = (g, men) if c >= 0 else (men, g)
        max_slope = np.minimum(
            np.divide(to_woman, t, out=np.ones(t.shape), where=t > to_woman),
            np.divide(to_man, 1 - t, out=np.ones(t.shape), where=1 - t > to_man),
        )
        c = np.sign(c) * np.minimum(abs(c), max_slope)
        return np.clip(np.stack([g - c * t, g + c * (1 - t)], axis=-1), 0, 1)

    @cached_property
    def _dependence(self) -> float:
        """Return d, which is 0 if images of a caption are dependent only through the caption's own image."""
        if self.max_images == 1:
            return 0.0
        products, df, _, _ = self._spread
        shares = self.small_sample_bias(ratio(self.counts, self.n), self.n, np.arange(self.groups))
        has_both = (self.n > 0).all(axis=1)
        images = self._images[:, 1]
        captions = self._sum((images > 0).astype(float))
        singles = df[:, 1, 1] * np.nan_to_num(ratio(self._sum(images.astype(float)), captions))
        pairs = df[:, 1, 1] * np.nan_to_num(ratio(self._sum(images * (images - 1.0)), captions))
        t, g = shares[has_both].T
        weights = np.stack([1 - t, t], axis=1)
        conditional_shares = self._conditional_shares(shares[has_both])
        y = np.arange(self.max_images + 1)

        def excess(dependence: float) -> float:
            p = _interpolate(conditional_shares, *_tilt_distributions(dependence, self.max_images))
            pair_moments = (weights * (p @ (y * (y - 1.0)))).sum(axis=1) / (self.max_images * (self.max_images - 1))
            expected_squares = singles[has_both] * g * (1 - g) + pairs[has_both] * (pair_moments - g**2)
            return float((expected_squares - products[has_both, 1, 1]).sum())

        if not pairs[has_both].sum() > 0:
            return 0.0
        low, high = -_MAX_DEPENDENCE / self.max_images, _MAX_DEPENDENCE
        if excess(low) >= 0 or excess(high) <= 0:
            return low if excess(low) >= 0 else high
        return float(brentq(excess, low, high, xtol=1e-3))

    @cached_property
    def _table(self) -> tuple[np.ndarray, np.ndarray]:
        return _tilt_distributions(self._dependence, self.max_images)


def _round_probabilities(probabilities: np.ndarray) -> np.ndarray:
    """Return probabilities (any shape) to 12 decimals, 0 where they are NaN.

    The last digits depend on the processor. NumPy consumes no random number for a probability of 0, so 1e-17 in its
    place would change all later random numbers.
    """
    return np.round(np.nan_to_num(probabilities), 12)


def _tilt_distributions(dependence: float, n_images: int) -> tuple[np.ndarray, np.ndarray]:
    """Return distributions of y, (grid, K + 1), and their means as shares, (grid,), which rise from 0 to 1."""
    y = np.arange(n_images + 1)
    middle = y - n_images / 2
    choose = gammaln(n_images + 1) - gammaln(y + 1) - gammaln(n_images - y + 1)
    reach = _MAX_TILT + abs(dependence) * (n_images - 1) / 2
    tilts = np.linspace(-reach, reach, int(reach * n_images * 20) + 1)
    logs = choose + dependence / 2 * middle**2 + tilts[:, None] * middle
    p = np.exp(logs - logs.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    p[0], p[-1] = y == 0, y == n_images
    return p, p @ y / n_images


def _interpolate(share: np.ndarray, p: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Return the distribution of y whose mean is ``share``: a mixture of two neighbours with exactly that mean."""
    high = np.clip(np.searchsorted(means, share), 1, len(means) - 1)
    lower, upper = means[high - 1], means[high]
    part = np.divide(share - lower, upper - lower, out=np.zeros(share.shape), where=upper > lower)[..., None]
    return (1 - part) * p[high - 1] + part * p[high]


def small_sample_bias(shares: np.ndarray, has_images: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Shrink ``shares`` (..., groups, cells) towards their mean until only the variance between groups remains.

    S is the covariance of the cells over the groups and N the part of it due to noise. ``noise`` has the shape (...,
    cells) if the errors of cells are independent, and otherwise (..., cells, cells). The deviations are multiplied by
    A = S^½ (1 - S^-½ N S^-½)^½ S^-½, and therefore A S A' = S - N. Directions with less variance than noise become 0.
    Cells without images are NaN.
    """
    n_groups = np.maximum(has_images.sum(axis=-2, keepdims=True), 1)
    shares = np.where(has_images, shares, 0)
    mean = shares.sum(axis=-2, keepdims=True) / n_groups
    deviation = np.where(has_images, shares - mean, 0)
    covariance = cross(deviation, deviation) / np.maximum(cross(has_images, has_images.astype(float)) - 1, 1)
    values, vectors = np.linalg.eigh(covariance)
    is_positive = values > 1e-12 * np.maximum(values[..., -1:], 1e-300)
    root = np.sqrt(np.where(is_positive, values, 0))
    inverse = np.where(is_positive, 1 / np.where(is_positive, root, 1), 0)
    half, half_inverse = (
        cross(vectors.swapaxes(-1, -2) * d[..., None], vectors.swapaxes(-1, -2)) for d in (root, inverse)
    )
    relative_noise = half_inverse * noise[..., None, :] if noise.ndim < covariance.ndim else half_inverse @ noise
    part, axes = np.linalg.eigh(relative_noise @ half_inverse)
    factors = np.sqrt(np.clip(1 - part, 0, 1))
    shrinkage = half_inverse @ ((axes * factors[..., None, :]) @ axes.swapaxes(-1, -2)) @ half
    return np.where(has_images, np.clip(mean + deviation @ shrinkage, 0, 1), np.nan)


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a' b (matrices) over the last two axes."""
    return a.swapaxes(-1, -2) @ b


class CombinedSampling:
    """Several sampling designs for consecutive cells of one table; each design applies to its own cells."""

    def __init__(self, parts: Sequence[IndependentSampling | CaptionClusterSampling]) -> None:
        self.parts = parts
        self.cells = sum(part.cells for part in parts)
        self.width = sum(part.width for part in parts)
        self._ends = np.cumsum([part.cells for part in parts])[:-1]

    def select_groups(self, groups: np.ndarray) -> CombinedSampling:
        """Return the design of a subset of the ``groups`` (one-dimensional), in the same order."""
        return CombinedSampling([part.select_groups(groups) for part in self.parts])

    def small_sample_bias(self, shares: np.ndarray, n: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return ``shares`` (..., groups, cells), with the cells of each part shrunk by its own design."""
        return np.concatenate([part.small_sample_bias(p, k, rows) for part, p, k in self._split(shares, n)], axis=-1)

    def draw(self, shares: np.ndarray, n: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return shares, with each part sampled by its own design."""
        draws = [part.draw(p, k, rows, rng) for part, p, k in self._split(shares, n)]
        return np.concatenate(draws, axis=-1)

    def _split(
        self, shares: np.ndarray, n: np.ndarray
    ) -> Iterable[tuple[IndependentSampling | CaptionClusterSampling, np.ndarray, np.ndarray]]:
        return zip(self.parts, *(np.split(a, self._ends, axis=-1) for a in (shares, n)), strict=True)


SamplingDesign = IndependentSampling | CaptionClusterSampling | CombinedSampling
"""Sampling design of consecutive ``cells``; sampling one group requires memory for ``width`` numbers.

``small_sample_bias`` removes the variance due to the choice of images from shares (..., groups, cells). ``draw``
samples images of groups with these true shares; ``rows`` (..., groups) are the groups' rows in the table.
"""
