"""Comparison of two models by distance from the benchmark, over the groups with judged people for both."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import binom

from biaslab import stats
from biaslab.analyses.custom.analysis import counted_images, image_effect
from biaslab.schema import tables
from biaslab.stats.absolute_deviation import deviation_limits


def comparison(people: pd.DataFrame, benchmark: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return for each pair of models the difference of their mean distances from a benchmark: ``custom_comparison``.

    Groups have equal weights and are fixed: intervals and tests are about other images of the same groups. The
    difference is of distances that are corrected for the noise of few images
    (:func:`biaslab.stats.corrected_absolute_deviation`), and limits are widened by what remains of that bias;
    ``model_distance`` and ``other_distance`` are uncorrected. Where images show several people, the sample size of a
    group is its effective one. The error of a sampled benchmark is included where two models are on different sides of
    it. In simulations of 4 to 40 groups of 8 to 50 images, nominal 95% intervals cover 93 to 100%.
    """
    shares = benchmark.dropna(subset="percent_female").set_index("group")
    distances = {model: _distances(rows, shares) for model, rows in people.groupby("model", sort=False)}
    rows = []
    for other, model in combinations(distances, 2):
        pair = (
            distances[model].join(distances[other].add_suffix("_other"), how="inner").join(shares["n"].rename("size"))
        )
        if pair.empty:
            continue
        mean, mean_other = pair["distance"].mean(), pair["distance_other"].mean()
        center = shares.loc[pair.index, "percent_female"] / 100
        benchmark_variance = ((pair["side"] - pair["side_other"]) ** 2 * center * (1 - center) / pair["size"]).fillna(0)
        error = np.sqrt((pair["variance"] + pair["variance_other"] + benchmark_variance).sum()) / len(pair)
        bias = max(pair["bias"].mean(), pair["bias_other"].mean())
        low, high, p = stats.bias_aware_interval(mean - mean_other, error, bias, np.inf, confidence)
        limits = np.clip([100 * low, 100 * high], -100, 100)
        rows.append(
            {"model": model, "other": other, "difference": 100 * (mean - mean_other), "ci_low": limits[0],
             "ci_high": limits[1], "p": p, "model_distance": 100 * pair["uncorrected"].mean(),
             "other_distance": 100 * pair["uncorrected_other"].mean(),
             "n_groups": len(pair), "n": pair["n"].sum(), "n_other": pair["n_other"].sum(),
             "n_images": pair["n_images"].sum(), "n_images_other": pair["n_images_other"].sum()}
        )  # fmt: skip
    frame = pd.DataFrame(rows, columns=[c.name for c in tables.schema("custom_comparison").columns])
    return tables.make_table(frame.assign(p_holm=stats.adjust(frame["p"].astype(float))), "custom_comparison")


def _distances(people: pd.DataFrame, shares: pd.DataFrame) -> pd.DataFrame:
    """Return by group of one model the distance of its share from the benchmark (0–1), with its variance and bias."""
    images = counted_images(people)
    effect, rows = image_effect(images), {}
    centers = (shares["percent_female"] / 100).to_dict()
    for group, group_images in images.groupby("group"):
        if group not in centers:
            continue
        people_judged, center = int(group_images["n"].sum()), centers[group]
        share = group_images["count"].sum() / people_judged
        n = max(round(people_judged / effect), 1)
        count = round(share * n)
        # All distances possible with n people, and their probabilities at about the observed share.
        possible_distances = stats.corrected_absolute_deviation(np.arange(n + 1), n, center)
        probabilities = binom.pmf(np.arange(n + 1), n, (count + 1) / (n + 2))
        rows[group] = {
            "distance": possible_distances[count], "uncorrected": abs(share - center),
            "variance": probabilities @ (possible_distances - probabilities @ possible_distances) ** 2,
            "bias": deviation_limits(n, 2, center)[0], "side": np.sign(share - center), "n": people_judged,
            "n_images": len(group_images),
        }  # fmt: skip
    return pd.DataFrame.from_dict(
        rows, orient="index", columns=["distance", "uncorrected", "variance", "bias", "side", "n", "n_images"]
    )
