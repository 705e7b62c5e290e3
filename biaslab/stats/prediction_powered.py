"""Sums of shares from a judge's labels of all images and annotations of a subset: prediction-powered inference (PPI++).

Sources: Angelopoulos, Duchi and Zrnic (2023), "PPI++: Efficient prediction-powered inference", arXiv 2311.01453;
sampling with known probabilities from groups: Zrnic and Candès (2024), "Active statistical inference", arXiv
2403.03208; poststratification by group: Särndal, Swensson and Wretman (1992), "Model Assisted Survey Sampling",
section 7.6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

from biaslab.errors import InputError
from biaslab.stats import checks
from biaslab.stats.intervals import Estimate, StandardError, clustered_share_interval

MIN_ANNOTATIONS = 5
"""Minimum number of annotated images with a person labelled female or male, for an estimate from annotations."""
# Number of errors added to the observed ones: of 20 annotations without any error, up to 14% may be wrong.
_PRIOR_ERRORS = 1.0


class PPIResult(NamedTuple):
    """A sum of shares from the judge, from annotations alone, and from both combined; values in the unit of the sum."""

    judge: Estimate
    ratings: Estimate
    both: Estimate
    tuning: float
    """Weight of the judge's labels (lambda of PPI++), from 0 (not used) to 1."""
    worth: float
    """Number of annotations whose interval would be as narrow as that of ``both``; NaN without an estimate."""


def prediction_powered(
    count: ArrayLike,
    n: ArrayLike,
    coefficients: ArrayLike,
    group: ArrayLike,
    predictions: ArrayLike,
    annotations: ArrayLike,
    weight: ArrayLike | None = None,
    *,
    people: ArrayLike | None = None,
    images: ArrayLike | None = None,
    design_effect: float = 1.0,
    strata: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    base: float = 0.0,
    confidence: float = 0.95,
) -> PPIResult:
    """Return ``base + sum(coefficients * (share - 1/2))`` over groups, with confidence intervals.

    The estimand is the sum of annotators' shares. For each group, this is the share that annotators would label female
    among all people that they would label female or male, including people whose label by the judge is unclear. The
    judge's own value covers only the people that it labels female or male.

    Annotated people are sampled with known probabilities from all groups or some of them. People are weighted by
    ``weight`` within a group, and groups by their coefficients, regardless of the number of unclear people. Groups with
    fewer than :data:`MIN_ANNOTATIONS` annotated images are combined. In the combined group, each has the weight of its
    people annotated as female or male. Missing annotations are assumed to be missing at random within groups.

    The combined estimate corrects the judge's value by the residuals of annotations (section 6.1 of PPI++, with
    weights). The weight of the judge's labels minimizes the variance (equation 6). Intervals are Student's t. Their
    degrees of freedom are the number of annotated images minus the number of groups (combined groups are one), or those
    of clusters if smaller. A few annotations may contain no error of a good judge. The variance therefore includes one
    additional, hypothetical image with an error.

    Estimates and limits are clipped to the range of the sum, which is ``base`` plus or minus half the sum of absolute
    coefficients.

    Args:
        count: For each group, the number of people judged female.
        n: For each group, the number of people judged female or male.
        coefficients: For each group, its coefficient in the unit of the sum.
        group: Index of the group of each annotated person.
        predictions: The judge's label of each annotated person: 1 for female, 0 for male, NaN for neither.
        annotations: The annotators' label of each of these people, in the same form.
        weight: Sampling weight of each annotated person, in any unit, such as the inverse sampling probability; None
            for simple random sampling within groups.
        people: For each group, the number of people in the sampling frame, judged or not; ``n`` by default. Used only
            with ``weight``.
        images: Image of each annotated person; people in one image form a cluster. By default, each person has a
            separate image.
        design_effect: Variance of the judge's shares divided by that of the same number of independent people; 1 if
            each image shows one person.
        strata: For each group, its stratum, such as a source of images; None for a single stratum. Each stratum needs
            its own annotations.
        clusters: For each group, its cluster, such as a profession, for intervals over a population of clusters; None
            if groups are fixed.
        base: Value of the sum if all shares are one half.
        confidence: Level of the intervals, 0–1.

    ``n`` of an estimate is a number of people: those judged female or male, or those annotated as female or male. An
    estimate without people is NaN.

    Raises InputError: The shapes do not fit, or a value is out of range.
    """
    count, n, coefficients, strata, clusters = checks.align(
        count=count, n=n, coefficients=coefficients, strata=strata, clusters=clusters
    )
    group, predictions, annotations, weight = checks.align(
        group=group, predictions=predictions, annotations=annotations, weight=weight
    )
    count, n = checks.check_counts(count, n)
    c = checks.check_numbers(coefficients, "coefficients")
    group = checks.check_whole(group, "group").astype(int)
    f = checks.check_shares(predictions, "predictions", allow_nan=True)
    y = checks.check_shares(annotations, "annotations", allow_nan=True)
    if not (c.shape == n.shape and group.shape == f.shape == y.shape) or (group.size and group.max() >= n.size):
        raise InputError(
            "Pass a count, n and coefficient for each group, and a group, prediction and annotation for each annotated "
            "person."
        )
    confidence = checks.confidence_level(confidence)
    image = np.arange(group.size) if images is None else np.unique(np.asarray(images), return_inverse=True)[1]
    cluster, stratum = (None if v is None else np.unique(v, return_inverse=True)[1] for v in (clusters, strata))
    stratum = np.zeros(n.size, int) if stratum is None else stratum
    has_judged = n > 0
    centre = np.where(has_judged, count / np.maximum(n, 1), 0.5)
    smoothed_share = (count + 0.5) / (n + 1)
    noise = design_effect * np.where(has_judged, c**2 * smoothed_share * (1 - smoothed_share) / np.maximum(n, 1), 0)
    parts = c * (centre - 0.5)
    judge_value = base + parts.sum()
    reach = np.abs(c).sum() / 2
    cluster_var = _variance_of(stratum if cluster is None else cluster, stratum, parts, group)
    if cluster is None:
        by_judge = _share(judge_value, np.sqrt(noise.sum()), int(n.sum()), base, reach, confidence)
    else:
        error, degrees = np.sqrt(cluster_var(np.zeros(group.size))), cluster.max(initial=0) + 1 - cluster_var(None)
        by_judge = _limits(judge_value, error, int(n.sum()), degrees, base, reach, confidence)

    has_label, has_prediction = np.isfinite(y), np.isfinite(f)
    pool = _pools(stratum, c, group[has_label], image[has_label])
    people = n if people is None else checks.check_whole(people, "people")
    fractions = _person_fractions(np.abs(c), group, weight, people)
    weights, pools = np.bincount(pool, np.abs(c)), pool[group]
    scale = np.bincount(pools, fractions * has_label, minlength=weights.size)
    # Images of each pool with a person that annotators label female or male.
    units = np.bincount(np.unique(np.stack([pools, image])[:, has_label], axis=1)[0], minlength=weights.size)
    k, total = int(has_label.sum()), int(units.sum())
    has_too_few = (weights > 0) & ((units < 2) | (scale == 0))
    if total < MIN_ANNOTATIONS or has_too_few.any():
        no_estimate = Estimate(np.nan, np.nan, np.nan, k)
        return PPIResult(by_judge, no_estimate, no_estimate, np.nan, np.nan)
    w = fractions * np.sign(c[group]) * (weights / np.where(scale > 0, scale, 1))[pools]

    def center(residual: np.ndarray, part: np.ndarray) -> np.ndarray:
        """Return the contribution of each annotated person to the sum, centred within its ``part`` of the groups."""
        effect, codes = w * residual, part[group]
        sums = np.bincount(part, np.abs(c))
        mean = np.bincount(codes, effect, minlength=sums.size) / np.where(sums > 0, sums, 1)
        return effect - mean[codes] * np.abs(w) * has_label

    def sum_by_image(effects: np.ndarray) -> np.ndarray:
        return np.bincount(image, effects * np.sqrt(units / np.maximum(units - 1, 1))[pools])

    df = total - int((units > 0).sum())
    df, prior_variance = df if cluster is None else min(df, degrees), _PRIOR_ERRORS * (weights.sum() / total) ** 2

    def group_means(part: np.ndarray) -> np.ndarray:
        """Return for each group the share by annotations of its ``part`` of the groups."""
        hits, sums = (np.bincount(part[group], v * np.abs(w), minlength=part.max() + 1) for v in (y_filled, has_label))
        return np.divide(hits, sums, out=np.zeros(sums.size), where=sums > 0)[part]

    # From annotations alone, relative to their own mean, so that it does not depend on the judge.
    y_filled = np.nan_to_num(y)
    pool_mean, stratum_mean = group_means(pool), group_means(stratum)
    variance = (sum_by_image(center(np.where(has_label, y - pool_mean[group], 0), pool)) ** 2).sum()
    if cluster is not None:
        residual = np.where(has_label, y - stratum_mean[group], 0)
        variance = max(variance, cluster_var(center(residual, stratum), no_judge=True))
    annotation_value = base + c @ (pool_mean - 0.5) + w @ np.where(has_label, y - pool_mean[group], 0)
    by_ratings = _limits(annotation_value, np.sqrt(variance + prior_variance / 2), k, df, base, reach, confidence)
    # Combined, relative to the judge's share of each group.
    z_y = np.where(has_label, y_filled - centre[group], 0)
    z_f = np.where(has_prediction, np.nan_to_num(f) - centre[group], 0)
    # Annotated people are a subset of those judged, so the weight depends only on the covariance of both labels.
    spread = w**2 @ ((centre * (1 - centre))[group] * has_prediction)
    tuning = float(np.clip(w**2 @ (z_y * z_f) / spread, 0, 1)) if spread > 0 else 0.0
    annotated_weights = np.bincount(group, w * (has_label - tuning * has_prediction), minlength=n.size)
    # Change of the sum with the judge's share of each group.
    slopes = 1 - np.divide(annotated_weights, c, out=np.zeros(n.size), where=c != 0)
    residual = z_y - tuning * z_f
    effects = sum_by_image(center(residual, pool))
    judge_weights = np.where(has_judged, c / np.maximum(n, 1), 0) * slopes
    covariance = 2 * np.bincount(image, judge_weights[group] * z_f) @ effects
    variance = max((slopes**2 * noise).sum() + covariance, 0) + (effects**2).sum()
    if cluster is not None:
        variance = np.fmax(variance, cluster_var(center(residual, stratum)))
    error = np.sqrt(variance + prior_variance)
    by_both = _limits(judge_value + w @ residual, error, k, df, base, reach, confidence)
    width_ratio = (by_ratings.ci_high - by_ratings.ci_low) / (by_both.ci_high - by_both.ci_low)
    return PPIResult(by_judge, by_ratings, by_both, tuning, float(k * width_ratio**2))


def _pools(stratum: np.ndarray, c: np.ndarray, group: np.ndarray, image: np.ndarray) -> np.ndarray:
    """Return the pool of each group; the groups of a stratum with few annotated images share one pool."""
    images = np.bincount(np.unique(np.stack([group, image]), axis=1)[0], minlength=c.size)
    pool = np.arange(c.size)
    for stratum_code in np.unique(stratum):
        group_indices = np.flatnonzero((stratum == stratum_code) & (c != 0))
        group_indices = group_indices[np.argsort(images[group_indices], kind="stable")]
        n_pooled = int((images[group_indices] < MIN_ANNOTATIONS).sum())
        if n_pooled:
            # If these have too few in total, the next larger groups join them.
            n_pooled = max(n_pooled, 1 + int(np.searchsorted(images[group_indices].cumsum(), MIN_ANNOTATIONS)))
        pool[group_indices[:n_pooled]] = group_indices[0] if n_pooled else pool[group_indices[:n_pooled]]
    return np.unique(pool, return_inverse=True)[1]


def _person_fractions(c: np.ndarray, group: np.ndarray, weight: ArrayLike | None, people: np.ndarray) -> np.ndarray:
    """Return the fraction of the sum that each annotated person represents, from the number of people by group."""
    if weight is None:
        return (c / np.maximum(np.bincount(group, minlength=c.size), 1))[group]
    return (c / np.maximum(people, 1))[group] * checks.check_numbers(weight, "weight", low=0)


def _variance_of(
    cluster: np.ndarray, stratum: np.ndarray, parts: np.ndarray, group: np.ndarray
) -> Callable[..., float]:
    """Return a function from the effects of annotated people to the variance over clusters.

    For None it returns the number of classes of clusters.
    """
    size = cluster.max(initial=-1) + 1
    # Clusters within one stratum are compared within it; clusters over several strata are one class.
    ends = [np.full(size, start) for start in (stratum.max(initial=0) + 1, -1)]
    np.minimum.at(ends[0], cluster, stratum)
    np.maximum.at(ends[1], cluster, stratum)
    class_codes = np.unique(np.where(ends[0] == ends[1], ends[0], -1), return_inverse=True)[1]
    n = np.bincount(class_codes)

    def variance(effects: np.ndarray | None, *, no_judge: bool = False) -> float:
        if effects is None:
            return n.size
        cluster_sums = np.bincount(cluster[group], effects, minlength=size)
        if not no_judge:
            judge_sums = np.bincount(cluster, parts, minlength=size)
            cluster_sums = cluster_sums + judge_sums - (np.bincount(class_codes, judge_sums) / n)[class_codes]
        if (n < 2).any():
            return np.nan
        return float((np.bincount(class_codes, cluster_sums**2) * n / (n - 1)).sum())

    return variance


def _limits(
    value: float, error: float, n: int, degrees: float, base: float, reach: float, confidence: float
) -> Estimate:
    """Return a sum within its range ``base ± reach`` with Student's limits around it, cut at the range."""
    if not n:
        return Estimate(np.nan, np.nan, np.nan, 0)
    half = student.ppf((1 + confidence) / 2, degrees) * error if degrees > 0 else np.nan
    value = float(np.clip(value, base - reach, base + reach))
    low, high = np.clip([value - half, value + half], base - reach, base + reach)
    return Estimate(value, float(low), float(high), n)


def _share(value: float, error: float, n: int, base: float, reach: float, confidence: float) -> Estimate:
    """Return a sum with Wilson-type limits, computed on its position (0–1) in the range ``base ± reach``."""
    if not reach or not n:
        return Estimate(float(value) if n else np.nan, np.nan, np.nan, n)
    share = float(np.clip(0.5 + (value - base) / 2 / reach, 0, 1))
    limits = clustered_share_interval(share, StandardError(float(error) / 2 / reach, np.inf), n, confidence)
    low, high = (float(base + 2 * reach * (end - 0.5)) for end in limits)
    return Estimate(float(value), low, high, n)
