"""Sampling designs of the images behind shares: independent images, or clusters by caption.

Images generated from the caption of a training image mostly show the gender of that image. Errors of both shares are
therefore correlated, and several images of one caption add little information to one.
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

_MOST_ALIKE = 6.0  # a caption's images are as good as all the same there
_MOST_TILT = 14.0  # beyond these tilts a share is within 1e-5 of 0 or 1


class IndependentSampling(NamedTuple):
    """Independent images of ``cells`` cells: their number in a cell is binomial."""

    cells: int

    @property
    def width(self) -> int:
        """Numbers that drawing one group holds at a time."""
        return self.cells

    def select_groups(self, groups: np.ndarray) -> IndependentSampling:
        """Return itself: it is independent of the (one-dimensional) ``groups``."""
        return self

    def small_sample_bias(self, shares: np.ndarray, n: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """Return ``shares`` (..., groups, cells) pulled by what binomial noise explains of their variance."""
        seen = n > 0
        known = np.maximum(seen.sum(axis=-2), 1)
        shares = np.where(seen, shares, 0)
        # Pooled p(1 - p) within cells, over the mean 1 / n. The noise of a cell cannot be estimated from one image.
        within = (n * shares * (1 - shares)).sum(axis=-2) / np.maximum((n - seen).sum(axis=-2), 1)
        noise = within * np.divide(1.0, n, out=np.zeros(n.shape), where=seen).sum(axis=-2) / known
        return small_sample_bias(shares, seen, noise)

    def draw(self, shares: np.ndarray, n: np.ndarray, rows: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
        """Return shares of a binomial number of images in each cell."""
        return ratio(rng.binomial(n, _rounded(shares)), n)


class CaptionClusterSampling:
    """Images of captions: a caption's own image, and those generated from it. Two cells, in this order.

    Captions are sampled as clusters. Where t of an occupation's own images and g of its generated ones show a woman, a
    caption's own image does with probability t, and its generated images with g + c (x - t) for an own image of x women
    (0 or 1). The number y of women in the caption's K images is p(y | x) ~ (K over y) exp(b y + d y (y - 1) / 2), with
    b such that this probability comes out: d is 0 where images of a caption differ as independent ones do. c (the
    regression of generated on own images within occupations) and d (fitted to the variance between captions of one
    occupation) are common to all occupations. Images without a gender are missing at random.

    Args:
        group: Group (row of the table of counts, from 0) of each pattern of images.
        own: By pattern: whether the caption's own image shows a woman: 1, 0, or NaN without a gender.
        female: By pattern: women in the images generated from the caption.
        judged: By pattern: number of these images with a gender; it may be 0.
        captions: By pattern: number of the group's captions.
        groups: Number of groups.

    Raises InputError: More women than images, or fractions.
    """

    cells = 2

    def __init__(
        self, group: ArrayLike, own: ArrayLike, female: ArrayLike, judged: ArrayLike, captions: ArrayLike, groups: int
    ) -> None:
        group, own, female, judged, captions = checks.align(
            group=group, own=own, female=female, judged=judged, captions=captions
        )
        self._group = checks.check_whole(group, "group")
        self._captions = checks.check_whole(captions, "captions")
        female, judged = checks.check_counts(female, judged)
        own = checks.check_numbers(own, "own")
        odd = ~np.isin(own, (0, 1)) & ~np.isnan(own)
        if odd.any():
            raise InputError(f"own must be 1 (a woman), 0 (a man) or NaN (no gender), got {own[odd][0]:g}.")
        self.groups = groups
        self._own = own
        self._images = np.stack([(~np.isnan(own)).astype(int), judged], axis=1)
        self._women = np.stack([np.nan_to_num(own).astype(int), female], axis=1)
        self.most = int(judged.max(initial=1))  # images generated from one caption that have a gender
        # Images that have a gender, and of these women: (groups, 2).
        self.n, self.counts = self._sum(self._images), self._sum(self._women)

    @property
    def width(self) -> int:
        """Numbers that drawing one group holds at a time."""
        return 2 * (self.most + 1)

    def select_groups(self, groups: np.ndarray) -> CaptionClusterSampling:
        """Return the drawing of some of its ``groups`` (one-dimensional), in their order."""
        chosen = np.arange(self.groups)[groups]
        place = np.full(self.groups, -1)
        place[chosen] = np.arange(len(chosen))
        here = place[self._group] >= 0
        own, women, images = self._own[here], self._women[here, 1], self._images[here, 1]
        return CaptionClusterSampling(place[self._group[here]], own, women, images, self._captions[here], len(chosen))

    def small_sample_bias(self, shares: np.ndarray, n: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return ``shares`` (..., groups, cells) pulled by what the choice of captions explains of their covariance."""
        crossed, free, per_share, both = (sums[rows].sum(axis=-3) for sums in self._spread)
        noise = crossed / np.maximum(free, 1e-9) * np.where(free > 0, per_share, 0) / np.maximum(both, 1)
        return small_sample_bias(shares, n > 0, noise)

    def draw(self, shares: np.ndarray, n: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return shares of resampled captions with their images, as many as the groups have."""
        shares = _rounded(shares)
        follows = _rounded(self._follows(shares))
        women = np.zeros(shares.shape, dtype=np.int64)
        for own, judged, captions in self._kinds:
            number = captions[rows]
            shown = rng.binomial(number, shares[..., 0])
            if own:
                women[..., 0] += shown
            if judged:
                for x, many in enumerate((number - shown, shown)):
                    women[..., 1] += self._women_of(many, follows[..., x], judged, rng)
        return ratio(women, n)

    def _women_of(self, many: np.ndarray, share: np.ndarray, judged: int, rng: np.random.Generator) -> np.ndarray:
        """Return women in ``judged`` images each of ``many`` captions whose images show one with this probability."""
        if self._alike == 0:
            return rng.binomial(many * judged, share)
        out = np.zeros(many.shape, dtype=np.int64)
        drawn = many > 0
        p = _at(share[drawn], *self._table)
        y = np.arange(judged + 1)
        if judged < self.most:
            p = p @ hypergeom.pmf(y, self.most, np.arange(self.most + 1)[:, None], judged)
        out[drawn] = rng.multinomial(many[drawn], p / p.sum(axis=-1, keepdims=True)) @ y
        return out

    def _sum(self, each: np.ndarray) -> np.ndarray:
        """Return the sum over the captions of each group of what each pattern has."""
        out = np.zeros((self.groups, *each.shape[1:]), dtype=each.dtype)
        np.add.at(out, self._group, each * self._captions.reshape(-1, *[1] * (each.ndim - 1)))
        return out

    @cached_property
    def _spread(self) -> tuple[np.ndarray, ...]:
        """Return what the noise of a set of groups is summed from, each (groups, 2, 2).

        Cross products of the captions' deviations; how many covariances of one caption they amount to; what one such
        covariance is in the covariance of the two shares; and whether the group has both.
        """
        seen = (self._images > 0).astype(float)
        share = np.nan_to_num(ratio(self.counts, self.n))[self._group]
        deviation = seen * (self._women - self._images * share)
        crossed = self._sum(deviation[:, :, None] * deviation[:, None, :])
        captions = self._sum(seen[:, :, None] * seen[:, None, :])
        inverse = np.nan_to_num(ratio(1, np.einsum("gii->gi", captions)))
        left, right = inverse[:, :, None], inverse[:, None, :]
        free = np.maximum(captions * (1 - left - right + captions * left * right), 0)
        images = (self.n[:, :, None] * self.n[:, None, :]).astype(float)
        return crossed, free, np.nan_to_num(ratio(captions, images)), images > 0

    @cached_property
    def _kinds(self) -> list[tuple[int, int, np.ndarray]]:
        """Return each number of judged images, own and generated, with how many captions of each group have it."""
        kinds, place = np.unique(self._images, axis=0, return_inverse=True)
        each = (self._sum((place.reshape(-1) == k).astype(int)) for k in range(len(kinds)))
        return [(int(own), int(judged), captions) for (own, judged), captions in zip(kinds, each, strict=True)]

    @cached_property
    def _copied(self) -> float:
        """Return c: the regression of generated on own images within occupations."""
        crossed, free, _, _ = self._spread
        both = self._images.min(axis=1) > 0
        captions = self._captions[both].sum()
        if not captions or not crossed[:, 0, 0].sum() > 0 or not free[:, 0, 1].sum() > 0:
            return 0.0
        images = (self._images[both, 1] * self._captions[both]).sum() / captions
        covariance = crossed[:, 0, 1].sum() / free[:, 0, 1].sum() / images
        return float(np.clip(covariance * free[:, 0, 0].sum() / crossed[:, 0, 0].sum(), -1, 1))

    def _follows(self, shares: np.ndarray) -> np.ndarray:
        """Return how likely a generated image shows a woman if the own image shows a man, or a woman: (..., 2)."""
        t, g = shares[..., 0], shares[..., 1]
        c, rest = self._copied, 1 - g
        # No further than both probabilities stay between 0 and 1.
        to_woman, to_man = (g, rest) if c >= 0 else (rest, g)
        most = np.minimum(
            np.divide(to_woman, t, out=np.ones(t.shape), where=t > to_woman),
            np.divide(to_man, 1 - t, out=np.ones(t.shape), where=1 - t > to_man),
        )
        c = np.sign(c) * np.minimum(abs(c), most)
        return np.clip(np.stack([g - c * t, g + c * (1 - t)], axis=-1), 0, 1)

    @cached_property
    def _alike(self) -> float:
        """Return d: 0 where the images of a caption vary no more than their dependence on its own image makes them."""
        if self.most == 1:
            return 0.0
        crossed, free, _, _ = self._spread
        shares = self.small_sample_bias(ratio(self.counts, self.n), self.n, np.arange(self.groups))
        known = (self.n > 0).all(axis=1)
        images = self._images[:, 1]
        captions = self._sum((images > 0).astype(float))
        singles = free[:, 1, 1] * np.nan_to_num(ratio(self._sum(images.astype(float)), captions))
        pairs = free[:, 1, 1] * np.nan_to_num(ratio(self._sum(images * (images - 1.0)), captions))
        t, g = shares[known].T
        weights = np.stack([1 - t, t], axis=1)
        follows = self._follows(shares[known])
        y = np.arange(self.most + 1)

        def apart(alike: float) -> float:
            p = _at(follows, *_tilted(alike, self.most))
            together = (weights * (p @ (y * (y - 1.0)))).sum(axis=1) / (self.most * (self.most - 1))
            expected = singles[known] * g * (1 - g) + pairs[known] * (together - g**2)
            return float((expected - crossed[known, 1, 1]).sum())

        if not pairs[known].sum() > 0:
            return 0.0
        low, high = -_MOST_ALIKE / self.most, _MOST_ALIKE
        if apart(low) >= 0 or apart(high) <= 0:
            return low if apart(low) >= 0 else high
        return float(brentq(apart, low, high, xtol=1e-3))

    @cached_property
    def _table(self) -> tuple[np.ndarray, np.ndarray]:
        return _tilted(self._alike, self.most)


def _rounded(probabilities: np.ndarray) -> np.ndarray:
    """Return probabilities (any shape) to 12 decimals, 0 where they are NaN.

    The last digits depend on the processor. NumPy consumes no random number for a probability of 0, so 1e-17 in its
    place would change all later random numbers.
    """
    return np.round(np.nan_to_num(probabilities), 12)


def _tilted(alike: float, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return distributions of y, (grid, K + 1), and their means as shares, (grid,), which rise from 0 to 1."""
    y = np.arange(most + 1)
    middle = y - most / 2
    choose = gammaln(most + 1) - gammaln(y + 1) - gammaln(most - y + 1)
    reach = _MOST_TILT + abs(alike) * (most - 1) / 2
    tilts = np.linspace(-reach, reach, int(reach * most * 20) + 1)
    logs = choose + alike / 2 * middle**2 + tilts[:, None] * middle
    p = np.exp(logs - logs.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    p[0], p[-1] = y == 0, y == most
    return p, p @ y / most


def _at(share: np.ndarray, p: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Return the distribution of y whose mean is ``share``: a mixture of two neighbours has exactly that mean."""
    high = np.clip(np.searchsorted(means, share), 1, len(means) - 1)
    below, above = means[high - 1], means[high]
    part = np.divide(share - below, above - below, out=np.zeros(share.shape), where=above > below)[..., None]
    return (1 - part) * p[high - 1] + part * p[high]


def small_sample_bias(shares: np.ndarray, seen: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Pull ``shares`` (..., groups, cells) towards their mean until only variance between groups is left.

    With S the covariance of the cells over the groups and N the noise in it (``noise``: (..., cells) where cells err
    apart, or (..., cells, cells)), the deviations are multiplied by A = S^½ (1 - S^-½ N S^-½)^½ S^-½, so that A S A' =
    S - N. Directions with less variance than noise go to 0. Cells that were not ``seen`` are NaN.
    """
    known = np.maximum(seen.sum(axis=-2, keepdims=True), 1)
    shares = np.where(seen, shares, 0)
    mean = shares.sum(axis=-2, keepdims=True) / known
    deviation = np.where(seen, shares - mean, 0)
    between = cross(deviation, deviation) / np.maximum(cross(seen, seen.astype(float)) - 1, 1)
    values, vectors = np.linalg.eigh(between)
    solid = values > 1e-12 * np.maximum(values[..., -1:], 1e-300)
    root = np.sqrt(np.where(solid, values, 0))
    inverse = np.where(solid, 1 / np.where(solid, root, 1), 0)
    half, half_inverse = (
        cross(vectors.swapaxes(-1, -2) * d[..., None], vectors.swapaxes(-1, -2)) for d in (root, inverse)
    )
    scaled = half_inverse * noise[..., None, :] if noise.ndim < between.ndim else half_inverse @ noise
    part, axes = np.linalg.eigh(scaled @ half_inverse)
    kept = np.sqrt(np.clip(1 - part, 0, 1))
    pull = half_inverse @ ((axes * kept[..., None, :]) @ axes.swapaxes(-1, -2)) @ half
    return np.where(seen, np.clip(mean + deviation @ pull, 0, 1), np.nan)


def cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a' b (matrices) over the last two axes."""
    return a.swapaxes(-1, -2) @ b


class CombinedSampling:
    """Several sampling designs for consecutive cells of one table; each handles its own cells."""

    def __init__(self, parts: Sequence[IndependentSampling | CaptionClusterSampling]) -> None:
        self.parts = parts
        self.cells = sum(part.cells for part in parts)
        self.width = sum(part.width for part in parts)
        self._ends = np.cumsum([part.cells for part in parts])[:-1]

    def select_groups(self, groups: np.ndarray) -> CombinedSampling:
        """Return the drawing of some of its ``groups`` (one-dimensional), in their order."""
        return CombinedSampling([part.select_groups(groups) for part in self.parts])

    def small_sample_bias(self, shares: np.ndarray, n: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return ``shares`` (..., groups, cells) as each part pulls its own."""
        return np.concatenate([part.small_sample_bias(p, k, rows) for part, p, k in self._each(shares, n)], axis=-1)

    def draw(self, shares: np.ndarray, n: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return shares, each part sampled by its own design."""
        drawn = [part.draw(p, k, rows, rng) for part, p, k in self._each(shares, n)]
        return np.concatenate(drawn, axis=-1)

    def _each(
        self, shares: np.ndarray, n: np.ndarray
    ) -> Iterable[tuple[IndependentSampling | CaptionClusterSampling, np.ndarray, np.ndarray]]:
        return zip(self.parts, *(np.split(a, self._ends, axis=-1) for a in (shares, n)), strict=True)


SamplingDesign = IndependentSampling | CaptionClusterSampling | CombinedSampling
"""Sampling design of some neighbouring ``cells``; sampling one group holds ``width`` numbers in memory.

``pull`` removes the variance due to the choice of images from shares (..., groups, cells). ``draw`` samples other
images of groups with these true shares; ``rows`` (..., groups) are the groups' rows in the table.
"""
