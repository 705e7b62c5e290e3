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

# On occupations that lean the same way both measures agree by construction, so that pair stands once.
RULES = (
    ("same_direction", "distance"),
    ("certain_direction", "distance"),
    ("certain_direction", "signed"),
    ("none", "distance"),
    ("none", "signed"),
)
CORRECTIONS = ("none", "small_sample")
# Paradox, A.4: 98 % of the judge's answers agree with the majority of annotators; by gender it is not printed.
JUDGE_ACCURACY = 0.98
AS_JUDGED, PAPER, ANNOTATED = "as_judged", "paper", "annotated"
"""How shares are corrected: not at all, for the errors that the paper prints, or for those that annotations show."""
# Fewest images that annotators call by either word, and what both rates must come to together above 1.
_FEWEST, _LEAST_YOUDEN = 5, 0.1


def judge_errors(annotations: pd.DataFrame, ratings: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """Return by model how often the judge calls female who annotators do, and male who they do (0–1), of both sources.

    Models with too few rated images, or a judge that is hardly better than chance, are left out.
    """
    found, said = {}, ratings[(ratings["question"] == "") & ratings["label"].isin(GENDERS)]
    for model, own in annotations.dropna(subset="is_female").groupby("model", sort=False):
        own = own.assign(image_id=own["image_id"].map(normalize)).drop_duplicates(["source", "image_id"])
        theirs = said[said["image_model"].isin(["", model])].drop_duplicates(["source", "image_id"])
        both = own.merge(theirs[["source", "image_id", "label"]], on=["source", "image_id"])
        right = (both["is_female"] == (both["label"] == "female")).groupby(both["label"]).agg(["mean", "size"])
        right = right.reindex(list(GENDERS))
        rates = tuple(right["mean"])
        if (right["size"] >= _FEWEST).all() and sum(rates) - 1 >= _LEAST_YOUDEN:
            found[str(model)] = rates
    return found


def specification_curve(
    shares: pd.DataFrame, errors: Mapping[str, tuple[float, float]] = MappingProxyType({}), *, confidence: float = 0.95
) -> pd.DataFrame:
    """Return amplification with its interval under every combination of choices, as ``synthesis_specification_curve``.

    Of ``paradox_percent_female``; ``errors`` are those of judges by model, as of :func:`judge_errors`. Intervals are
    Student's t over occupations; the mean of prompts, each over the occupations that count there, is linearised.
    """
    given = {AS_JUDGED: (1.0, 1.0), PAPER: (JUDGE_ACCURACY, JUDGE_ACCURACY)}
    rows: list[list] = []
    for group in groups(shares):
        judges = given | ({ANNOTATED: errors[group.model]} if group.model in errors else {})
        for (exclusion, measure), correction, judge in product(RULES, CORRECTIONS, judges):
            values = _values(group, measure, correction == "small_sample", *judges[judge])
            kept = _kept(group, exclusion, confidence) & ~np.isnan(values)
            about = [exclusion, measure, correction, judge]
            for prompt, *found in _estimates(group.names, values, kept, confidence):
                rows.append([group.model, group.approach, prompt, *about, *found])
    curve = tables.make_table(rows, "synthesis_specification_curve")
    return curve.sort_values("estimate", kind="stable", ignore_index=True)


def _kept(group: Group, exclusion: str, confidence: float) -> np.ndarray:
    """Return which occupations count, (occupations, prompts)."""
    training, n = group.training, group.training_n
    if exclusion == "same_direction":
        return metrics.exclusion_reason(group.generated, training) == ""
    if exclusion == "certain_direction":
        low, high = wilson_percent(training * n / 100, n, confidence)
        return (low > 50) | (high < 50)
    return np.ones(training.shape, dtype=bool)


def _values(group: Group, measure: str, null_mean: bool, sensitivity: float, specificity: float) -> np.ndarray:
    """Return each occupation's amplification, (occupations, prompts).

    Shares are corrected for the judge's errors (Rogan and Gladen 1978), and distances for the null expectation as these
    stretch it; no share passes 0 or 100.
    """
    stretch = 1 / (sensitivity + specificity - 1)

    def away(percent: np.ndarray) -> np.ndarray:
        return stretch * (percent - 50 + 50 * (specificity - sensitivity))

    def distance(percent: np.ndarray, n: np.ndarray) -> np.ndarray:
        noise = np.abs(percent - 50) - _distance(percent, n, null_mean)
        return np.minimum(np.abs(away(percent)) - stretch * noise, 50)

    training, generated = away(group.training), away(group.generated)
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


def _estimates(names: tuple[str, ...], values: np.ndarray, kept: np.ndarray, confidence: float) -> Iterator[list]:
    """Yield the name, mean, limits and number of occupations of each prompt, and of the mean of prompts."""
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.where(kept, values, 0).sum(axis=0) / kept.sum(axis=0)
        # What each occupation moves the mean of a prompt by.
        moves = np.where(kept, values - means, 0) / kept.sum(axis=0)
    for j, name in enumerate(names):
        columns = slice(None) if name == "mean" else [j]
        n = int(kept[:, columns].any(axis=1).sum())
        error = np.sqrt((moves[:, columns].mean(axis=1) ** 2).sum() * n / (n - 1)) if n > 1 else np.nan
        half = t.ppf((1 + confidence) / 2, max(n - 1, 1)) * error
        mean = means[columns].mean()
        yield [name, mean, mean - half, mean + half, n]


def exclusion_by_measure(curve: pd.DataFrame) -> pd.DataFrame:
    """Return mean amplification by exclusion rule and measure: ``synthesis_exclusion_by_measure``.

    Specifications with the same direction represent both measures, which then differ only in bias correction.
    """
    same = curve[curve["exclusion"] == "same_direction"].assign(measure="signed")
    every = pd.concat([curve, same])
    # Single prompts, or their mean where there is no more, are not mixed.
    single = every[every["prompt"] != "mean"]
    grouped = (single if len(single) else every).groupby(["exclusion", "measure"])["estimate"]
    grid = grouped.agg(estimate="mean", n_specifications="size").reset_index()
    means = grid.pivot(index="measure", columns="exclusion", values="estimate")
    moved = grid["measure"].map(means["same_direction"] - means["none"])
    return tables.make_table(grid.assign(exclusion_effect=moved), "synthesis_exclusion_by_measure")


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
