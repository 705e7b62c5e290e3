"""The specification curve of the amplification finding: one number for every way to analyse the same shares.

Simonsohn, Simmons and Nelson (2020), "Specification curve analysis", Nature Human Behaviour 4, 1208–1214.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from types import MappingProxyType

import numpy as np
import pandas as pd
from scipy.stats import t

from biaslab import metrics, stats
from biaslab.io.plaintext import normalize
from biaslab.papers.paradox.analysis.groups import Group, groups, wilson_percent
from biaslab.schema import tables
from biaslab.schema.genders import GENDERS

# For occupations with the same direction of bias both measures agree by construction, so that pair appears once.
RULES = (
    ("same_direction", "distance"),
    ("certain_direction", "distance"),
    ("certain_direction", "signed"),
    ("none", "distance"),
    ("none", "signed"),
)
CORRECTIONS = ("none", "small_sample")
# Paradox, A.4: 98% of the judge's answers agree with the majority of annotators; by gender it is not printed.
JUDGE_ACCURACY = 0.98
AS_JUDGED, PAPER, ANNOTATED = "as_judged", "paper", "annotated"
"""How shares are corrected: not at all, for the errors that the paper prints, or for those found by annotations."""
# Minimum images that annotators label by either gender, and minimum Youden index (sum of both rates − 1).
_MIN_IMAGES, _MIN_YOUDEN = 5, 0.1


def judge_errors(annotations: pd.DataFrame, ratings: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """Return by model the share of images annotated as female that the judge labels so, and of male (0–1).

    Images are of both sources. Models with too few annotated images, or a judge near chance, are left out.
    """
    rates_by_model, labels = {}, ratings[(ratings["question"] == "") & ratings["label"].isin(GENDERS)]
    for model, images in annotations.dropna(subset="is_female").groupby("model", sort=False):
        images = images.assign(image_id=images["image_id"].map(normalize)).drop_duplicates(["source", "image_id"])
        model_labels = labels[labels["image_model"].isin(["", model])].drop_duplicates(["source", "image_id"])
        pairs = images.merge(model_labels[["source", "image_id", "label"]], on=["source", "image_id"])
        accuracy = (pairs["is_female"] == (pairs["label"] == "female")).groupby(pairs["label"]).agg(["mean", "size"])
        accuracy = accuracy.reindex(list(GENDERS))
        rates = tuple(accuracy["mean"])
        if (accuracy["size"] >= _MIN_IMAGES).all() and sum(rates) - 1 >= _MIN_YOUDEN:
            rates_by_model[str(model)] = rates
    return rates_by_model


def specification_curve(
    shares: pd.DataFrame, errors: Mapping[str, tuple[float, float]] = MappingProxyType({}), *, confidence: float = 0.95
) -> pd.DataFrame:
    """Return amplification with its interval under every combination of choices, as ``synthesis_specification_curve``.

    ``shares`` is ``paradox_percent_female``; ``errors`` are those of judges by model, as of :func:`judge_errors`.
    Intervals are Student's t over occupations; that of the mean over prompts is linearised.
    """
    stated_rates = {AS_JUDGED: (1.0, 1.0), PAPER: (JUDGE_ACCURACY, JUDGE_ACCURACY)}
    rows: list[list] = []
    for group in groups(shares):
        judges = stated_rates | ({ANNOTATED: errors[group.model]} if group.model in errors else {})
        for (exclusion, measure), correction, judge in product(RULES, CORRECTIONS, judges):
            values = _values(group, measure, correction == "small_sample", *judges[judge])
            is_included = _inclusion_mask(group, exclusion, confidence) & ~np.isnan(values)
            choices = [exclusion, measure, correction, judge]
            for prompt, *estimate in _estimates(group.names, values, is_included, confidence):
                rows.append([group.model, group.approach, prompt, *choices, *estimate])
    curve = tables.make_table(rows, "synthesis_specification_curve")
    return curve.sort_values("estimate", kind="stable", ignore_index=True)


def _inclusion_mask(group: Group, exclusion: str, confidence: float) -> np.ndarray:
    """Return whether each occupation counts, (occupations, prompts)."""
    training, n = group.training, group.training_n
    if exclusion == "same_direction":
        return metrics.exclusion_reason(group.generated, training) == ""
    if exclusion == "certain_direction":
        low, high = wilson_percent(training * n / 100, n, confidence)
        return (low > 50) | (high < 50)
    return np.ones(training.shape, dtype=bool)


def _values(group: Group, measure: str, null_mean: bool, sensitivity: float, specificity: float) -> np.ndarray:
    """Return each occupation's amplification, (occupations, prompts).

    Shares are corrected for the judge's errors (Rogan and Gladen 1978), and distances for the null expectation, which
    the first correction stretches. Corrected shares stay within 0–100.
    """
    stretch = 1 / (sensitivity + specificity - 1)

    def signed_distance(percent: np.ndarray) -> np.ndarray:
        return stretch * (percent - 50 + 50 * (specificity - sensitivity))

    def distance(percent: np.ndarray, n: np.ndarray) -> np.ndarray:
        noise = np.abs(percent - 50) - _distance(percent, n, null_mean)
        return np.minimum(np.abs(signed_distance(percent)) - stretch * noise, 50)

    training, generated = signed_distance(group.training), signed_distance(group.generated)
    if measure == "signed":
        toward = np.sign(training)
        value = np.where(toward == 0, np.nan, toward) * np.clip(generated, -50, 50)
    else:
        value = distance(group.generated, group.generated_n)
    return np.where(np.isnan(generated), np.nan, value - distance(group.training, group.training_n))


def _distance(percent: np.ndarray, n: np.ndarray, null_mean: bool) -> np.ndarray:
    if not null_mean:
        return np.abs(percent - 50)
    total = np.where(np.isnan(percent), 0, np.nan_to_num(n)).round().astype(int)
    count = np.nan_to_num(percent * n / 100).round().astype(int)
    return 100 * stats.corrected_absolute_deviation(np.minimum(count, total), total)


def _estimates(names: tuple[str, ...], values: np.ndarray, mask: np.ndarray, confidence: float) -> Iterator[list]:
    """Yield the name, mean, limits and number of occupations of each prompt, and of the mean of prompts."""
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.where(mask, values, 0).sum(axis=0) / mask.sum(axis=0)
        # The amount by which each occupation moves the mean of a prompt.
        moves = np.where(mask, values - means, 0) / mask.sum(axis=0)
    for j, name in enumerate(names):
        columns = slice(None) if name == "mean" else [j]
        n = int(mask[:, columns].any(axis=1).sum())
        error = np.sqrt((moves[:, columns].mean(axis=1) ** 2).sum() * n / (n - 1)) if n > 1 else np.nan
        half = t.ppf((1 + confidence) / 2, max(n - 1, 1)) * error
        mean = means[columns].mean()
        yield [name, mean, mean - half, mean + half, n]


def exclusion_by_measure(curve: pd.DataFrame) -> pd.DataFrame:
    """Return mean amplification by exclusion rule and measure: ``synthesis_exclusion_by_measure``.

    Specifications that exclude opposite directions have the same values by both measures, so they represent both.
    """
    same_direction = curve[curve["exclusion"] == "same_direction"].assign(measure="signed")
    specifications = pd.concat([curve, same_direction])
    # Rows of single prompts are used, or those of their mean if these are the only ones; the two are never mixed.
    single = specifications[specifications["prompt"] != "mean"]
    grouped = (single if len(single) else specifications).groupby(["exclusion", "measure"])["estimate"]
    grid = grouped.agg(estimate="mean", n_specifications="size").reset_index()
    means = grid.pivot(index="measure", columns="exclusion", values="estimate")
    effect = grid["measure"].map(means["same_direction"] - means["none"])
    return tables.make_table(grid.assign(exclusion_effect=effect), "synthesis_exclusion_by_measure")


def extremes(curve: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the smallest and the largest estimate, with counts of the whole curve.

    ``n_along`` counts specifications in the training direction that exclude no flips, ``n_other`` the rest.
    ``above_along`` and ``above_other`` count those with an interval above 0.
    """
    along = (curve["measure"] == "signed") & (curve["exclusion"] != "same_direction")
    above, value = curve["ci_low"] > 0, curve["estimate"]
    ends = curve.loc[[value.idxmin(), value.idxmax()]].rename(columns={"model": "whose"})
    return ends.assign(
        extreme=["Smallest", "Largest"],
        n_all=len(curve),
        lowest=value.min(),
        highest=value.max(),
        n_along=along.sum(),
        above_along=(above & along).sum(),
        n_other=(~along).sum(),
        above_other=(above & ~along).sum(),
    )
