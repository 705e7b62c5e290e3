"""The shares of one model and approach as arrays, and expected amplification of them with what images leave certain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.stats
from numpy.typing import ArrayLike

from biaslab import metrics, stats
from biaslab.captions.settings import APPROACHES, CAPTIONS_AS_PROMPTS
from biaslab.errors import InputError

# A selection of training captions that serves every prompt; any other training row belongs to one prompt.
SHARED_TRAINING = ("captions", "annotations", "")
LEAST_IMAGES = 6
"""Images a share (the median occupation's) below which intervals of captions as prompts are too narrow.

Nominal 95 % ones hold the truth in 81 to 84 % of studies at 2 images, 90 to 93 % at 4, and 94 to 96 % at 6 and 8
(``benchmarks/coverage.py``, ``captions``).
"""
RANGES = {"paper": (-50, 50), "all": (-50, 50), "signed": (-100, 50)}
"""Least and most amplification that can be, in points."""
DISTINGUISHABLE_FROM_HALF = 0.05
"""Level at which shares must differ from one half for an interval of what folds there.

Where all shares are one half, intervals hold the truth in as few as 30 % of studies; where shares are tested first, 0
is rejected in 6 to 9 % at most (``benchmarks/coverage.py``, ``half`` and ``few``).
"""
NO_PAIRS = (
    "Training and generated images come from the same captions, but their pairs are not given. There is no interval "
    "and no correction for image noise; add a table paradox_caption_pairs next to the shares."
)
NOTHING_LEFT = "No occupation is included."
AT_HALF = "Shares do not differ significantly from one half, so their direction of bias is undetermined."
TOO_FEW = "Too few occupations or images for an interval, or for a correction for image noise."


@dataclass(frozen=True)
class Group:
    """The shares of one model and approach: rows are occupations, columns the training side and each prompt."""

    model: str
    approach: str
    occupations: tuple[str, ...]
    prompts: tuple[str, ...]
    training: np.ndarray
    """% female in training images, (occupations, prompts)."""
    generated: np.ndarray
    """% female in generated images, (occupations, prompts)."""
    training_n: np.ndarray
    generated_n: np.ndarray
    shared: bool
    """Whether one set of training images serves all prompts, so that they are resampled together."""
    captions: stats.CaptionClusterSampling | None = None
    """Where captions are the prompts: which training and generated images belong together."""

    @property
    def paired(self) -> bool:
        """Whether training and generated images come from the same captions."""
        return self.approach in CAPTIONS_AS_PROMPTS

    @property
    def drawing(self) -> stats.IndependentSampling | stats.CaptionClusterSampling | None:
        """How the images of :meth:`counts` are drawn; None where that takes pairs that are not given."""
        if self.paired:
            return self.captions
        return stats.IndependentSampling((1 if self.shared else len(self.prompts)) + len(self.prompts))

    def columns(self, prompt: str) -> list[int]:
        """Return the columns of ``prompt``: all of them where it is ``mean``."""
        return list(range(len(self.prompts))) if prompt == "mean" else [self.prompts.index(prompt)]

    def images(self, prompt: str) -> float:
        """Return how many images a share of ``prompt`` rests on: the median occupation's, of the side with fewer."""
        columns = self.columns(prompt)
        known = [n[n > 0] for n in (self.training_n[:, columns], self.generated_n[:, columns])]
        return float(min(np.median(n) if n.size else 0 for n in known))

    def too_few(self, prompt: str) -> str:
        """Return where captions are the prompts and have fewer images than :data:`LEAST_IMAGES`; else empty."""
        n = self.images(prompt)
        if not self.paired or n >= LEAST_IMAGES:
            return ""
        return f"Rests on {n:g} images a share; below {LEAST_IMAGES} an interval would be too narrow."

    def counts(self) -> tuple[np.ndarray, np.ndarray]:
        """Return images perceived as female, and images, as (occupations, training cells + prompts)."""
        if self.captions is not None:
            return self.captions.counts, self.captions.n
        training, training_n = self.training, self.training_n
        if self.shared:
            training, training_n = training[:, :1], training_n[:, :1]
        percent = np.hstack([training, self.generated])
        n = np.nan_to_num(np.hstack([training_n, self.generated_n])).round().astype(int)
        whole = np.nan_to_num(percent * n / 100).round().astype(int)
        # A share that leans must not be rounded to exactly one half, which leans nowhere and would not count.
        onto_half = (2 * whole == n) & ~np.isnan(percent) & (percent != 50) & (n > 0)
        return np.where(onto_half, whole + np.nan_to_num(np.sign(percent - 50)).astype(int), whole), n

    def split(self, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return training and generated percentages (..., occupations, prompts) of resampled shares."""
        k = len(self.prompts)
        training, generated = shares[..., :-k] * 100, shares[..., -k:] * 100
        return np.broadcast_to(training, generated.shape) if self.shared else training, generated

    def complete(self) -> Group:
        """Return the group without occupations that lack a share on either side."""
        there = np.isfinite(self.training) & np.isfinite(self.generated)
        return self.select_groups((there & (self.training_n > 0) & (self.generated_n > 0)).all(axis=1))

    def select_groups(self, there: np.ndarray) -> Group:
        """Return the group with some of its occupations, by a mask."""
        arrays = "training", "generated", "training_n", "generated_n"
        kept = {name: getattr(self, name)[there] for name in arrays}
        captions = self.captions.select_groups(there) if self.captions is not None else None
        return replace(self, occupations=tuple(compress(self.occupations, there)), captions=captions, **kept)

    @property
    def names(self) -> tuple[str, ...]:
        """The prompts, and ``mean`` where there are several."""
        return (*self.prompts, "mean") if len(self.prompts) > 1 else self.prompts


def groups(shares: pd.DataFrame, pairs: pd.DataFrame | None = None) -> Iterator[Group]:
    """Yield the shares of each model and approach that has training and generated images, by model, then approach.

    ``shares`` is the table ``paradox_percent_female``, ``pairs`` is ``paradox_caption_pairs``, of approaches whose
    captions are the prompts; pairs of other images than the shares raise an InputError.
    """
    for model, of_model in shares.groupby("model", sort=False):
        by = dict(list(of_model.groupby("approach", sort=False)))
        for approach in [*(a for a in APPROACHES if a in by), *(a for a in by if a not in APPROACHES)]:
            group = _group(str(model), str(approach), by[approach])
            if group is not None:
                yield _with_pairs(group, pairs)


def _with_pairs(group: Group, pairs: pd.DataFrame | None) -> Group:
    if pairs is None or not group.paired:
        return group
    rows = pairs[(pairs["model"] == group.model) & (pairs["approach"] == group.approach)]
    if rows.empty or len(group.prompts) != 1:
        return group
    place = {occupation: i for i, occupation in enumerate(group.occupations)}
    unknown = rows.loc[~rows["occupation"].isin(place), "occupation"].tolist()
    rows = rows[rows["occupation"].isin(place)]
    occupation, training = rows["occupation"].map(place), rows["training"].map({"female": 1.0, "male": 0.0})
    n_female, n_judged, n_captions = (rows[name] for name in ("n_female", "n_judged", "n_captions"))
    captions = stats.CaptionClusterSampling(occupation, training, n_female, n_judged, n_captions, len(place))
    differ = (np.hstack([captions.counts, captions.n]) != np.hstack(group.counts())).any(axis=1)
    if other := [*unknown, *compress(group.occupations, differ)]:
        raise InputError(
            f"paradox_caption_pairs and paradox_percent_female differ for {other[0]!r} ({group.model}, "
            f"{group.approach}); both must be of the same images."
        )
    return replace(group, captions=captions)


def _group(model: str, approach: str, rows: pd.DataFrame) -> Group | None:
    """Return the shares of a model and approach; None without training or generated images."""
    wide = rows.pivot(index="occupation", columns=["source", "prompt"], values=["percent_female", "n"])
    wide = wide.sort_index(axis=1)
    prompts = sorted(set(rows.loc[rows["source"] == "generated", "prompt"]))
    trained = set(rows.loc[rows["source"] == "training", "prompt"])
    shared = next((p for p in SHARED_TRAINING if p in trained), None)
    sources = [p if p in trained else shared for p in prompts]
    if not prompts or None in sources:
        return None
    sides = (("training", sources), ("generated", prompts))
    (training, generated), (training_n, generated_n) = (
        [wide[v][side][names].to_numpy(float) for side, names in sides] for v in ("percent_female", "n")
    )
    arrays = training, generated, training_n, generated_n
    group = Group(model, approach, tuple(wide.index), tuple(prompts), *arrays, shared=len(set(sources)) == 1)
    return group if group.counts()[1].any() else None  # Without any image there is nothing to resample.


def wilson_percent(count: ArrayLike, n: ArrayLike, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """Return Wilson limits (0–100 %) of shares ``count / n``; NaN where a count is missing.

    A printed share need not be a whole number of images: its count is rounded.
    """
    n = np.round(np.asarray(n, float))
    low, high = stats.wilson_interval(np.minimum(np.round(np.asarray(count, float)), n), n, confidence)
    return np.asarray(100 * low), np.asarray(100 * high)


def expected(group: Group, training: np.ndarray, generated: np.ndarray, definition: str) -> np.ndarray:
    """Return expected amplification (..., prompts + mean) of percentages (..., occupations, prompts), in points."""
    by_prompt = metrics.expected_amplification(generated, training, definition, axis=-2).amplification
    if len(group.prompts) == 1:
        return by_prompt
    return np.concatenate([by_prompt, by_prompt.mean(axis=-1, keepdims=True)], axis=-1)


class Estimates(NamedTuple):
    """Expected amplification of a group, arrays (definitions, :attr:`Group.names`), in points."""

    uncorrected: np.ndarray  # the paper's definition, of the shares as they are
    corrected: np.ndarray  # minus what image noise adds; NaN where there is no interval
    low: np.ndarray
    high: np.ndarray
    noise: np.ndarray  # what image noise adds; NaN, like the others, where there is no interval
    t: np.ndarray
    p: np.ndarray
    n: np.ndarray  # occupations that count; of the mean over prompts, for at least one of them
    reason: np.ndarray  # why there is no interval


def estimates(group: Group, *, replicates: int, seed: int, confidence: float) -> Estimates:
    """Return expected amplification of a group by each definition, with what its images' noise leaves certain.

    ``replicates`` of a bootstrap of occupations, then images, with ``seed``; ``confidence`` is 0–1. No interval rests
    on fewer occupations than a test at that level takes, nor on images too few for it.
    """
    plain = np.stack([expected(group, group.training, group.generated, d) for d in metrics.DEFINITIONS])
    size = [[len(included_values(group, d, name)) for name in group.names] for d in metrics.DEFINITIONS]
    size, missing = np.array(size), np.full(plain.shape, np.nan)
    least = stats.min_units(1 - confidence)
    few = f"Rests on fewer than {least} occupations, too few for an interval, or for a correction for image noise."
    reason = np.where(size == 0, NOTHING_LEFT, np.where(size < least, few, "")).astype(object)
    if group.drawing is None:
        reason[size > 0] = NO_PAIRS
    else:
        paired = np.array([group.too_few(name) for name in group.names])
        reason = np.where((reason == "") & (paired != ""), paired, reason)
        reason = np.where((reason == "") & _at_half(group), AT_HALF, reason)
    if (reason != "").all():
        return Estimates(plain, *(missing,) * 6, size, reason)
    counts, n = group.counts()

    def statistic(shares: np.ndarray) -> np.ndarray:
        sides = group.split(shares)
        return np.concatenate([expected(group, *sides, d) for d in metrics.DEFINITIONS], axis=-1)

    draws: dict[str, Any] = {"replicates": replicates, "seed": seed, "confidence": confidence}
    boot = stats.hierarchical_bootstrap(counts, n, statistic, drawing=group.drawing, **draws)
    known = np.isfinite(boot.ci_low).reshape(plain.shape) & (reason == "")
    reason = np.where(known | (reason != ""), reason, boot.reason or TOO_FEW)

    def shaped(values: ArrayLike) -> np.ndarray:
        return np.where(known, np.reshape(values, plain.shape), np.nan)

    noise = shaped(boot.bias)
    # Printed shares need not be whole numbers of images: the noise is that of the nearest, the value their own.
    apart = np.where(known, plain - np.reshape(boot.value, plain.shape), 0)
    least, most = np.array([RANGES[d] for d in metrics.DEFINITIONS]).T[..., None]
    low, high = (np.clip(shaped(end) + apart, least, most) for end in (boot.ci_low, boot.ci_high))
    t = (plain - noise) / shaped(boot.se)
    p = 2 * scipy.stats.t.sf(np.abs(t), boot.df)
    return Estimates(plain, plain - noise, low, high, noise, t, p, size, reason)


def _at_half(group: Group) -> np.ndarray:
    """Return where shares could all be one half, (definitions, :attr:`Group.names`): of training for the direction.

    Of distances both sides have to be told from it.
    """

    def alike(percent: np.ndarray, n: np.ndarray) -> bool:
        percent, n = percent[n > 0], n[n > 0]
        squares, k = np.nansum(n * ((percent - 50) / 50) ** 2), n.size
        if (n == 1).all():
            return True
        # Squares of n images vary by 2 - 2 / n, less than those of a chi-square.
        spread = np.sqrt(np.mean(1 - 1 / n))
        return scipy.stats.chi2.sf(k + (squares - k) / spread, k) >= DISTINGUISHABLE_FROM_HALF

    training, generated = [], []
    for columns in map(group.columns, group.names):
        own = columns[:1] if group.shared else columns
        training.append(alike(group.training[:, own], group.training_n[:, own]))
        generated.append(alike(group.generated[:, columns], group.generated_n[:, columns]))
    training, both = np.array(training), np.logical_or(training, generated)
    return np.stack([training if d == "signed" else both for d in metrics.DEFINITIONS])


def included_values(group: Group, definition: str, prompt: str) -> np.ndarray:
    """Return the amplification (points) of each occupation that counts for ``prompt``.

    For ``mean`` it is an occupation's average over the prompts in which it counts.
    """
    measure = metrics.directional_amplification if definition == "signed" else metrics.amplification
    excluded = metrics.exclusion_reason(group.generated, group.training, definition) != ""
    values = np.where(excluded, np.nan, measure(group.generated, group.training))
    values = values[:, group.columns(prompt)]
    values = values[~np.isnan(values).all(axis=1)]
    return np.nanmean(values, axis=1)
