"""The shares of one model and approach as arrays, and estimates of their expected amplification."""

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
MIN_IMAGES = 6
"""Images per share (of the median occupation) below which intervals of captions as prompts are too narrow.

Nominal 95% intervals cover the truth in 81 to 84% of studies at 2 images, 90 to 93% at 4, and 94 to 96% at 6 and 8
(``benchmarks/coverage.py``, ``captions``).
"""
RANGES = {"paper": (-50, 50), "all": (-50, 50), "signed": (-100, 50)}
"""Smallest and largest possible amplification, in points."""
DISTINGUISHABLE_FROM_HALF = 0.05
"""Level at which shares must differ from one half for an interval of a measure with an absolute value.

Where all shares are one half, intervals cover the truth in as few as 30% of studies; with this test, 0 is
rejected in 6 to 9% at most (``benchmarks/coverage.py``, ``half`` and ``few``).
"""
NO_PAIRS = (
    "Training and generated images come from the same captions, but their pairs are unknown. For an interval and a "
    "correction for small-sample bias, add a table paradox_caption_pairs next to the shares."
)
NO_OCCUPATION_INCLUDED = "No occupation is included."
AT_HALF = "Shares do not differ significantly from one half, so their direction of bias is undetermined."
TOO_FEW = "Too few occupations or images for an interval or a correction for small-sample bias."


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
        """The sampling design of :meth:`counts`; None where it requires pairs and there are none."""
        if self.paired:
            return self.captions
        return stats.IndependentSampling((1 if self.shared else len(self.prompts)) + len(self.prompts))

    def columns(self, prompt: str) -> list[int]:
        """Return the columns of ``prompt``: all of them where it is ``mean``."""
        return list(range(len(self.prompts))) if prompt == "mean" else [self.prompts.index(prompt)]

    def images(self, prompt: str) -> float:
        """Return the images per share of ``prompt``: of the median occupation, on the side with fewer."""
        columns = self.columns(prompt)
        counts = [n[n > 0] for n in (self.training_n[:, columns], self.generated_n[:, columns])]
        return float(min(np.median(n) if n.size else 0 for n in counts))

    def too_few(self, prompt: str) -> str:
        """Return the reason if captions are the prompts and have fewer images than :data:`MIN_IMAGES`; else ""."""
        n = self.images(prompt)
        if not self.paired or n >= MIN_IMAGES:
            return ""
        return f"Each share is based on {n:g} images; with fewer than {MIN_IMAGES}, an interval would be too narrow."

    def counts(self) -> tuple[np.ndarray, np.ndarray]:
        """Return images perceived as female, and images, as (occupations, training cells + prompts)."""
        if self.captions is not None:
            return self.captions.counts, self.captions.n
        training, training_n = self.training, self.training_n
        if self.shared:
            training, training_n = training[:, :1], training_n[:, :1]
        percent = np.hstack([training, self.generated])
        n = np.nan_to_num(np.hstack([training_n, self.generated_n])).round().astype(int)
        count = np.nan_to_num(percent * n / 100).round().astype(int)
        # A share must not be rounded to exactly one half, where it has no direction and would not count.
        is_rounded_to_half = (2 * count == n) & ~np.isnan(percent) & (percent != 50) & (n > 0)
        return np.where(is_rounded_to_half, count + np.nan_to_num(np.sign(percent - 50)).astype(int), count), n

    def split(self, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return training and generated percentages (..., occupations, prompts) of resampled shares."""
        k = len(self.prompts)
        training, generated = shares[..., :-k] * 100, shares[..., -k:] * 100
        return np.broadcast_to(training, generated.shape) if self.shared else training, generated

    def complete(self) -> Group:
        """Return the group without occupations that lack a share on either side."""
        is_complete = np.isfinite(self.training) & np.isfinite(self.generated)
        return self.select_groups((is_complete & (self.training_n > 0) & (self.generated_n > 0)).all(axis=1))

    def select_groups(self, mask: np.ndarray) -> Group:
        """Return the group with the occupations of a boolean mask."""
        names = "training", "generated", "training_n", "generated_n"
        arrays = {name: getattr(self, name)[mask] for name in names}
        captions = self.captions.select_groups(mask) if self.captions is not None else None
        return replace(self, occupations=tuple(compress(self.occupations, mask)), captions=captions, **arrays)

    @property
    def names(self) -> tuple[str, ...]:
        """The prompts, and ``mean`` where there are several."""
        return (*self.prompts, "mean") if len(self.prompts) > 1 else self.prompts


def groups(shares: pd.DataFrame, pairs: pd.DataFrame | None = None) -> Iterator[Group]:
    """Yield the shares of each model and approach that has training and generated images, by model, then approach.

    ``shares`` is the table ``paradox_percent_female``; ``pairs`` is ``paradox_caption_pairs``, for approaches with
    captions as prompts. Pairs of other images than the shares raise an InputError.
    """
    for model, model_rows in shares.groupby("model", sort=False):
        frames = dict(list(model_rows.groupby("approach", sort=False)))
        for approach in [*(a for a in APPROACHES if a in frames), *(a for a in frames if a not in APPROACHES)]:
            group = _group(str(model), str(approach), frames[approach])
            if group is not None:
                yield _with_pairs(group, pairs)


def _with_pairs(group: Group, pairs: pd.DataFrame | None) -> Group:
    if pairs is None or not group.paired:
        return group
    rows = pairs[(pairs["model"] == group.model) & (pairs["approach"] == group.approach)]
    if rows.empty or len(group.prompts) != 1:
        return group
    positions = {occupation: i for i, occupation in enumerate(group.occupations)}
    unknown_occupations = rows.loc[~rows["occupation"].isin(positions), "occupation"].tolist()
    rows = rows[rows["occupation"].isin(positions)]
    occupation, training = rows["occupation"].map(positions), rows["training"].map({"female": 1.0, "male": 0.0})
    n_female, n_judged, n_captions = (rows[name] for name in ("n_female", "n_judged", "n_captions"))
    captions = stats.CaptionClusterSampling(occupation, training, n_female, n_judged, n_captions, len(positions))
    differ = (np.hstack([captions.counts, captions.n]) != np.hstack(group.counts())).any(axis=1)
    if mismatches := [*unknown_occupations, *compress(group.occupations, differ)]:
        raise InputError(
            f"paradox_caption_pairs and paradox_percent_female differ for {mismatches[0]!r} ({group.model}, "
            f"{group.approach}); both must come from the same images."
        )
    return replace(group, captions=captions)


def _group(model: str, approach: str, rows: pd.DataFrame) -> Group | None:
    """Return the shares of a model and approach; None without training or generated images."""
    wide = rows.pivot(index="occupation", columns=["source", "prompt"], values=["percent_female", "n"])
    wide = wide.sort_index(axis=1)
    prompts = sorted(set(rows.loc[rows["source"] == "generated", "prompt"]))
    training_prompts = set(rows.loc[rows["source"] == "training", "prompt"])
    shared = next((p for p in SHARED_TRAINING if p in training_prompts), None)
    sources = [p if p in training_prompts else shared for p in prompts]
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
    """Return Wilson limits (0–100%) of shares ``count / n``; NaN where a count is missing.

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

    uncorrected: np.ndarray  # by each definition, without correction
    corrected: np.ndarray  # minus noise; NaN where there is no interval
    low: np.ndarray
    high: np.ndarray
    noise: np.ndarray  # amplification due to image noise; NaN where there is no interval
    t: np.ndarray
    p: np.ndarray
    n: np.ndarray  # included occupations; for the mean over prompts, those included for at least one
    reason: np.ndarray  # why there is no interval


def estimates(group: Group, *, replicates: int, seed: int, confidence: float) -> Estimates:
    """Return expected amplification of a group by each definition, with intervals.

    A bootstrap of occupations, then images, has ``replicates`` and ``seed``; ``confidence`` is 0–1. With fewer
    occupations than a test at that level needs, or too few images, there is no interval.
    """
    uncorrected = np.stack([expected(group, group.training, group.generated, d) for d in metrics.DEFINITIONS])
    n_included = [[len(included_values(group, d, name)) for name in group.names] for d in metrics.DEFINITIONS]
    n_included, no_values = np.array(n_included), np.full(uncorrected.shape, np.nan)
    min_n = stats.min_units(1 - confidence)
    message = (
        f"Fewer than {min_n} occupations are included, too few for an interval or a correction for small-sample bias."
    )
    reason = np.where(n_included == 0, NO_OCCUPATION_INCLUDED, np.where(n_included < min_n, message, "")).astype(object)
    if group.drawing is None:
        reason[n_included > 0] = NO_PAIRS
    else:
        pair_reasons = np.array([group.too_few(name) for name in group.names])
        reason = np.where((reason == "") & (pair_reasons != ""), pair_reasons, reason)
        reason = np.where((reason == "") & _could_be_half(group), AT_HALF, reason)
    if (reason != "").all():
        return Estimates(uncorrected, *(no_values,) * 6, n_included, reason)
    counts, n = group.counts()

    def statistic(shares: np.ndarray) -> np.ndarray:
        sides = group.split(shares)
        return np.concatenate([expected(group, *sides, d) for d in metrics.DEFINITIONS], axis=-1)

    draws: dict[str, Any] = {"replicates": replicates, "seed": seed, "confidence": confidence}
    boot = stats.hierarchical_bootstrap(counts, n, statistic, drawing=group.drawing, **draws)
    has_interval = np.isfinite(boot.ci_low).reshape(uncorrected.shape) & (reason == "")
    reason = np.where(has_interval | (reason != ""), reason, boot.reason or TOO_FEW)

    def reshape_values(values: ArrayLike) -> np.ndarray:
        return np.where(has_interval, np.reshape(values, uncorrected.shape), np.nan)

    noise = reshape_values(boot.bias)
    # Printed shares need not be whole numbers of images: noise is that of the nearest count, the value is unrounded.
    rounding = np.where(has_interval, uncorrected - np.reshape(boot.value, uncorrected.shape), 0)
    lowest, highest = np.array([RANGES[d] for d in metrics.DEFINITIONS]).T[..., None]
    low, high = (np.clip(reshape_values(end) + rounding, lowest, highest) for end in (boot.ci_low, boot.ci_high))
    t = (uncorrected - noise) / reshape_values(boot.se)
    p = 2 * scipy.stats.t.sf(np.abs(t), boot.df)
    return Estimates(uncorrected, uncorrected - noise, low, high, noise, t, p, n_included, reason)


def _could_be_half(group: Group) -> np.ndarray:
    """Return whether all shares could be one half, (definitions, :attr:`Group.names`).

    For the signed change only training shares are tested; for distances both sides must differ from one half.
    """

    def could_be_half(percent: np.ndarray, n: np.ndarray) -> bool:
        percent, n = percent[n > 0], n[n > 0]
        squares, k = np.nansum(n * ((percent - 50) / 50) ** 2), n.size
        if (n == 1).all():
            return True
        # Squares of n images vary by 2 - 2 / n, less than those of a chi-square.
        spread = np.sqrt(np.mean(1 - 1 / n))
        return scipy.stats.chi2.sf(k + (squares - k) / spread, k) >= DISTINGUISHABLE_FROM_HALF

    training, generated = [], []
    for columns in map(group.columns, group.names):
        training_columns = columns[:1] if group.shared else columns
        training.append(could_be_half(group.training[:, training_columns], group.training_n[:, training_columns]))
        generated.append(could_be_half(group.generated[:, columns], group.generated_n[:, columns]))
    training, either = np.array(training), np.logical_or(training, generated)
    return np.stack([training if d == "signed" else either for d in metrics.DEFINITIONS])


def included_values(group: Group, definition: str, prompt: str) -> np.ndarray:
    """Return the amplification (points) of each occupation that is included for ``prompt``.

    For ``mean`` it is an occupation's average over the prompts for which it is included.
    """
    measure = metrics.directional_amplification if definition == "signed" else metrics.amplification
    excluded = metrics.exclusion_reason(group.generated, group.training, definition) != ""
    values = np.where(excluded, np.nan, measure(group.generated, group.training))
    values = values[:, group.columns(prompt)]
    values = values[~np.isnan(values).all(axis=1)]
    return np.nanmean(values, axis=1)
