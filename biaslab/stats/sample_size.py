"""Expected widths of confidence intervals: variance components of shares, and sample sizes for a target width."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from biaslab.errors import InputError
from biaslab.stats import checks
from biaslab.stats.absolute_deviation import MAX_BIAS_SHARE, bias_aware_interval, deviation_limits
from biaslab.stats.null_expectation import corrected_absolute_deviation

# Maximum of images per prompt, or of clusters, in a search; images beyond which a folded value gains no precision.
_MAX_SEARCHED, _MAX_FOLDED_IMAGES = 10**7, 1000


def variance_within(values: ArrayLike, group: ArrayLike, template: ArrayLike) -> tuple[float, float]:
    """Return the variance of ``values`` between the templates (wordings) of a group, and within a template.

    ``values`` (any numbers, such as 1 for female and 0 for male), ``group`` and ``template`` are one-dimensional and of
    the same length. If each template has one value, or each group one template, the first variance is NaN and included
    in the second. Negative estimates are set to 0. Sums of squares are equated to their expectations, which is unbiased
    for any distribution and any numbers of values (Henderson's method I for nested data: Searle, Casella and McCulloch
    1992, Variance Components, chapter 5). Raises InputError: Labels differ.
    """
    values, group, template = checks.align(values=values, group=group, template=template)
    rows = pd.DataFrame({"value": values, "group": group, "template": template})
    n, by_group, by_template = len(rows), rows.groupby("group")["value"], rows.groupby(["group", "template"])["value"]
    n_i, n_ij = by_group.size(), by_template.size()
    a, b = n_i.size, n_ij.size
    nested = a < b < n
    means, inner_means = by_group.transform("mean"), (by_template if nested else by_group).transform("mean")
    ss_template, ss_residual = (float((part**2).sum()) for part in (inner_means - means, rows["value"] - inner_means))
    df = n - (b if nested else a)
    seed = ss_residual / df if df else np.nan
    if not nested:
        return np.nan, seed
    # Coefficient of the variance of templates in the expected sum of squares.
    coefficient = n - ((n_ij**2).groupby("group").sum() / n_i).sum()
    return max((ss_template - (b - a) * seed) / coefficient, 0.0), seed


@dataclass(frozen=True)
class Design:
    """Sample sizes and variance components of shares (0–1) for a value that is a mean over clusters."""

    clusters: int  # Number of clusters (groups, professions, identities, …) over which the value is the mean.
    prompts: float  # Number of prompts per cluster.
    images: float  # Number of images per prompt.
    reach: float = 1.0  # Change of the value, in its unit, if all shares change from 0 to 1.
    clusters_random: bool = True  # Whether the interval is for a population of clusters, or for these clusters only.
    lists: int = 1  # Number of strata of the clusters, such as the lists of the two stereotypes.
    group: float = 0.0  # Variance between clusters, including the variance due to training images.
    template: float = 0.0  # Variance of prompts within a cluster.
    seed: float = 0.25  # Variance of images within a prompt: at most 0.25, or 0.5 if two people are identical.
    share: float = 0.5  # The mean share, for Wilson's interval; for an absolute value, 1/2 plus the mean distance.
    is_absolute: bool = False  # Whether the value is a bias-corrected mean distance of shares from 1/2.
    youden: float = 1.0  # Sensitivity + specificity - 1 of the judge, if the value is corrected for its errors.

    @property
    def variances(self) -> dict[str, float]:
        """Components of the variance of the value, in its squared unit: ``group``, ``template`` and ``seed``."""
        n = self.prompts * self.images
        parts = {"group": self.group, "template": self.template / (self.prompts if self.clusters_random else n)}
        parts["seed"] = self.seed / n
        return {name: (self.reach / self.youden) ** 2 / self.clusters * part for name, part in parts.items()}

    def half_width(self, confidence: float = 0.95) -> float:
        """Return the expected half-width of the value's confidence interval, in the unit of the value.

        It is infinite if there are too few clusters or images. The interval is :func:`biaslab.stats.mean_interval` for
        random clusters, :func:`biaslab.stats.bounded_mean` for a mean distance, :func:`biaslab.stats.wilson_interval`
        for one cluster, and otherwise :func:`biaslab.stats.strata_mean`. Correction for a judge's errors widens it by
        1 / ``youden`` (Rogan & Gladen 1978). The ratio of expected to observed half-widths is 0.97 to 1.03 for known
        variances, and 0.91 to 1.07 on average with a small pilot (``benchmarks/coverage_precision.py``). Raises
        InputError: ``confidence`` is not between 0 and 1.
        """
        tail, k = (1 + checks.confidence_level(confidence)) / 2, self.clusters
        n, scale = self.prompts * self.images, self.reach / self.youden
        if self.clusters_random and k <= self.lists:
            return float("inf")
        if self.clusters_random and self.is_absolute:
            # For beta-distributed shares around 1/2, and one additional cluster at either end.
            n, square = int(np.clip(n, 1, _MAX_FOLDED_IMAGES)), self.group + (self.share - 0.5) ** 2
            bias, *ends = deviation_limits(n, 2)
            if bias > MAX_BIAS_SHARE / 2:
                return float("inf")
            shape = max(0.25 / max(square, 1e-4) - 1, 1e-3) / 2
            probabilities = stats.betabinom.pmf(np.arange(n + 1), n, shape, shape)
            values = corrected_absolute_deviation(np.arange(n + 1), n)
            mean = probabilities @ values
            variance = probabilities @ values**2 - (probabilities @ values) ** 2
            center = (k * mean + sum(ends)) / (k + 2)
            squares = (k - 1) * variance + k * mean**2 + np.square(ends).sum() - (k + 2) * center**2
            spread = np.sqrt(squares / (k + 1) / (k + 2))
            low, high, _ = bias_aware_interval(float(center), float(spread), bias, k + 1, confidence)
            return float(scale * (min(high, 0.5) - max(low, 0)) / 2)
        if self.clusters_random:
            return float(stats.t.ppf(tail, k - self.lists) * np.sqrt(sum(self.variances.values())))
        binomial_variance = max(self.share * (1 - self.share), 1e-9)
        # The expected value of a stratum's estimated variance.
        per_image = self.template + self.seed
        # People who share images contribute less than as many images; identical people of an image count as one.
        single_variance = per_image if per_image > 0 else binomial_variance
        variance = (n + 1 + n * (n - 1) * per_image) / ((n + 2) ** 2 - n) if k > 1 else single_variance
        q = stats.norm.ppf(tail) ** 2 * variance / (k * n * binomial_variance)
        return float(scale * np.sqrt(q * binomial_variance + q**2 / 4) / (1 + q))

    def minimum_images(self, half_width: float, confidence: float = 0.95, *, unit: str = "images") -> int | None:
        """Return the minimum number of images per prompt for a half-width; None if no number is sufficient.

        With ``unit="clusters"``, return the minimum number of clusters. Raises InputError: ``half_width`` is not above
        0.
        """
        if not 0 < half_width < float("inf"):
            raise InputError(f"half_width is {half_width!r}; it must be a number above 0.")

        def fits(n: int) -> bool:
            sized = replace(self, images=n) if unit == "images" else replace(self, clusters=n)
            return sized.half_width(confidence) <= half_width

        low, high = 0, 1
        while not fits(high):
            low, high = high, 2 * high
            if low > _MAX_SEARCHED:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if fits(middle) else (middle, high)
        return high

    def sizes(self, half_width: float, confidence: float = 0.95) -> tuple[int | None, int | None]:
        """Return the minimum images per prompt and None; if no number is sufficient, None and the minimum clusters."""
        images = self.minimum_images(half_width, confidence)
        return images, None if images else self.minimum_images(half_width, confidence, unit="clusters")


def design_from_pilot(
    cells: pd.DataFrame, people: pd.DataFrame, *, clusters_random: bool, is_absolute: bool = False
) -> Design:
    """Return the design of a headline, with variances estimated from its images.

    ``cells``, ``people``, ``clusters_random`` and ``is_absolute`` are as in :class:`biaslab.metrics.headline.Headline`.
    The variance between clusters is their dispersion minus the part due to images and templates. If ``people`` lists
    all people counted in ``cells``, people in one image are treated as dependent, as in
    :func:`biaslab.stats.crossed_error`.

    Raises:
        InputError: No person is classified.
    """
    cells = cells[(cells["coefficient"] != 0) & (cells["n"] > 0)]
    if cells.empty:
        raise InputError("No classified people, so the variance of shares cannot be estimated.")
    c, n, share = cells["coefficient"], cells["n"], cells["count"] / cells["n"]
    labels = np.concatenate([np.arange(k) < count for k, count in zip(n, cells["count"], strict=True)])
    rows = cells.loc[np.repeat(cells.index, n)]
    template, seed = np.nan_to_num(variance_within(labels, rows["source"] + " " + rows["cluster"], rows["template"]))
    all_people = people[people["cell"].isin(cells.index)]
    persons = all_people[all_people["judged"].notna()]
    is_complete = len(persons) >= n.sum()
    persons = persons if is_complete else persons[:0]
    # Contributions of each person to the value, and of each image, whose people may be dependent.
    person_effects = persons["cell"].map(c / n) * (persons["judged"] - persons["cell"].map(share))
    image_effects = person_effects.groupby(persons["image_id"]).transform("sum")
    squares = float((person_effects * image_effects).sum())
    cluster_factor = squares / float((person_effects**2).sum()) if squares > 1e-12 else 1.0
    noise = c**2 * (seed / n * cluster_factor + template)
    # Contributions of each cluster: by its own share, and by the shares of others in its images.
    key = cells["stratum"] + "/" + cells["cluster"]
    partners = (image_effects - person_effects).groupby(persons["cell"].map(key)).sum()
    effects = (c * (share - 0.5)).groupby(key).sum().add(partners, fill_value=0.0)
    between_variance, lists = 0.0, cells["stratum"].groupby(key).first()
    for stratum, values in effects.groupby(lists):
        in_stratum = cells["stratum"] == stratum
        part = noise[in_stratum].sum()
        if squares > 1e-12:
            images = persons["image_id"].isin(persons.loc[persons["cell"].map(in_stratum), "image_id"])
            part = noise.sum() * (person_effects * image_effects)[images].to_numpy(float).sum() / squares
        between_variance += max(len(values) * values.var(ddof=1) - part, 0.0) if len(values) > 1 else 0.0
    is_new, k, reach = cells["source"] != "training", len(effects), float(c.abs().sum())
    n_images = all_people.groupby("cell")["image_id"].nunique()[cells.index[is_new]] if is_complete else n[is_new]
    prompts, images, unit = is_new.sum() / k, float(n_images.to_numpy(float).mean()), k / reach**2
    group = float((between_variance + noise[~is_new].sum()) * unit) if clusters_random else 0.0
    mean = float(c.abs().to_numpy() @ ((cells["count"] + 1) / (n + 2)).to_numpy()) / reach
    if is_absolute:
        mean = 0.5 + np.sqrt(max(c.abs() @ ((share - 0.5) ** 2 - seed / n) / reach - group, 0))
    # For fixed prompts, their variance about their own mean.
    wording = template if clusters_random else template * images / n * (1 - 1 / prompts)
    wording = float((c**2 * wording)[is_new].sum() * unit * prompts)
    each_image = float((c**2 / n)[is_new].sum() * seed * cluster_factor * unit * prompts * images)
    if k == 1 and not clusters_random:
        # The interval of a single share uses the variance p (1 - p), without a correction of degrees of freedom.
        each_image *= float(1 - 1 / n.sum())
    return Design(
        k, float(prompts), float(images), reach, clusters_random, lists.nunique(), group, wording, each_image,
        float(mean), is_absolute=is_absolute and bool(is_new.all()),
    )  # fmt: skip
