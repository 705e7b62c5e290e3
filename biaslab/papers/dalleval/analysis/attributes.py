"""Attributes worn, by the gender that a prompt names (section 5.3, appendix E)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.stats import hypergeom

from biaslab import stats, tables
from biaslab.measures import attribute_difference as difference_of_shares
from biaslab.measures import mean_absolute_difference
from biaslab.papers.dalleval.analysis.rows import adjusted, keyed, too_few, whole

COMPARISONS = {f"{a} - {b}": (a, b) for a, b in (("woman", "man"), ("woman", "person"), ("man", "person"))}


def attribute_presence(presence: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return how often each attribute is seen by prompt and profession, with intervals (Tables 23 to 31).

    Args:
        presence: Rows of ``dalleval_attribute_presence`` as a source has them.
        confidence: Level of the Wilson intervals (0–1).

    Returns:
        ``dalleval_attribute_presence``: shares of whole images (0–1).

    Raises:
        InputError: A share cannot come from its number of images.
    """
    n = presence["n"].to_numpy()
    count = whole(presence["share"].to_numpy(), n, "dalleval_attribute_presence", "share")
    low, high = stats.wilson_interval(count, n, confidence)
    share = np.divide(count, n, out=np.full(len(n), np.nan), where=n > 0)
    out = presence.assign(share=share, ci_low=low, ci_high=high, n_present=count)
    return tables.of(out, "dalleval_attribute_presence")


def _compared(presence: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame, pd.DataFrame]]:
    """Yield model, comparison and both prompts' ``share`` and ``n``: professions that both have × all attributes."""
    attributes = presence["attribute"].unique()
    columns = pd.MultiIndex.from_product([["share", "n"], attributes])
    wide = {
        key: of.pivot(index="profession", columns="attribute", values=["share", "n"])
        .reindex(columns=columns)
        .loc[of["profession"].unique()]
        for key, of in presence.groupby(["model", "prompt"], sort=False)
    }
    for model in presence["model"].unique():
        for comparison, prompts in COMPARISONS.items():
            if all((model, prompt) in wide for prompt in prompts):
                first, second = (wide[model, prompt] for prompt in prompts)
                yield model, comparison, *first.align(second, join="inner", axis=0)


def attribute_difference(
    presence: pd.DataFrame,
    printed: pd.DataFrame,
    *,
    seed: int,
    replicates: int = 10_000,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Return the difference in each attribute between prompts, paired over professions (Tables 9 and 22).

    Args:
        presence: What :func:`attribute_presence` returns.
        printed: Rows of ``dalleval_printed_attributes``.
        seed: Seed of the sign-flip tests.
        replicates: Their random patterns.
        confidence: Level of the Student t intervals over professions (0–1).

    Returns:
        ``dalleval_attribute_difference``: first minus second share (-1 to 1), with p-values as they are and adjusted
        over the attributes of a model and comparison.
    """
    known = keyed(printed, ["model", "prompt", "attribute"], "value")
    rows = []
    for model, comparison, a, b in _compared(presence):
        for attribute in a["share"].columns:
            first, second = a["share"][attribute], b["share"][attribute]
            both = first.notna() & second.notna()
            row = {"model": model, "comparison": comparison, "attribute": attribute, "n": both.sum()}
            row |= {"printed": known.get((model, comparison, attribute)), "reason": "no image was judged"}
            if both.any():
                row["n_images"] = a["n"].loc[both, attribute].sum()
                row |= _paired(first[both].to_numpy(), second[both].to_numpy(), seed, replicates, confidence)
            rows.append(row)
    out = tables.of(rows, "dalleval_attribute_difference")
    return adjusted(out, ["model", "comparison"])


def _paired(first: np.ndarray, second: np.ndarray, seed: int, replicates: int, confidence: float) -> dict:
    """Return the mean difference of paired shares with its test, and its interval or why there is none."""
    paired = difference_of_shares(first, second)
    mean = stats.mean_interval(paired, confidence)
    row = {"difference": mean.value, "share_first": first.mean(), "share_second": second.mean()}
    if not (first.any() or second.any()):
        return row | {"reason": "no image of either prompt shows it"}
    row["p"] = stats.sign_flip(paired, replicates=replicates, seed=seed).p
    row["smallest_possible_p"] = stats.least_sign_flip_p(len(paired), replicates)
    if len(paired) > 1 and np.ptp(paired) == 0:
        return row | {"reason": "every profession differs by the same amount"}
    return row | mean._asdict() | {"reason": too_few(len(paired))}


def attribute_prompt_difference(presence: pd.DataFrame) -> pd.DataFrame:
    """Return mean absolute differences over attributes within each profession (as beside Tables 24 to 31).

    Args:
        presence: What :func:`attribute_presence` returns.

    Returns:
        ``dalleval_attribute_prompt_difference``: differences of shares (0–1), and the value by chance.
    """
    rows = []
    for model, comparison, a, b in _compared(presence):
        difference = mean_absolute_difference(a["share"].to_numpy(), b["share"].to_numpy())
        counts = (np.rint(x.to_numpy()) for side in (a, b) for x in (side["share"] * side["n"], side["n"]))
        floor = pooled_difference_floor(*counts).mean(axis=1)
        shape = {"model": model, "comparison": comparison, "n_attributes": a["share"].shape[1]}
        found = zip(a.index, difference, a["n"].min(axis=1, skipna=False), floor, strict=True)
        rows += [
            shape | {"profession": profession, "mean_absolute_difference": value, "n": n, "floor": least}
            for profession, value, n, least in found
        ]
    return tables.of(rows, "dalleval_attribute_prompt_difference")


def attribute_mean_difference(
    presence: pd.DataFrame,
    by_prompt: pd.DataFrame,
    printed: pd.DataFrame,
    *,
    seed: int,
    replicates: int = 10_000,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Return mean absolute differences over attributes: of averages, and of single professions averaged (Table 22).

    Args:
        presence: What :func:`attribute_presence` returns.
        by_prompt: What :func:`attribute_prompt_difference` returns.
        printed: Rows of ``dalleval_printed_attributes``.
        seed: Seed of the bootstrap over professions and of the swaps of labels.
        replicates: How many of each.
        confidence: Level of the intervals (0–1).

    Returns:
        ``dalleval_attribute_mean_difference``: differences of shares (0–1), and the values by chance.
    """
    known = keyed(printed, ["model", "prompt", "attribute"], "value")
    rows = []
    for model, comparison, a, b in _compared(presence):
        paired = difference_of_shares(a["share"].to_numpy(), b["share"].to_numpy())
        paired = paired[~np.isnan(paired).any(axis=1)]
        n = len(paired)
        row = {"model": model, "comparison": comparison, "n": n, "n_attributes": a["share"].shape[1]}
        row |= {"printed": known.get((model, comparison, "mean_absolute_difference"))}
        if n:
            value = np.abs(paired.mean(axis=0)).mean()
            rng = np.random.default_rng(seed)
            weights = rng.multinomial(n, np.full(n, 1 / n), replicates)
            limits = stats.percentile_interval(np.abs(weights @ paired / n).mean(axis=1), confidence)
            swapped = np.abs(rng.choice([-1, 1], (replicates, n)) @ paired / n).mean(axis=1)
            row |= {"mean_absolute_difference": value, "ci_low": limits.low, "ci_high": limits.high}
            row |= {"floor": swapped.mean(), "p": (1 + (swapped >= value - 1e-12).sum()) / (1 + replicates)}
        single = by_prompt[(by_prompt["model"] == model) & (by_prompt["comparison"] == comparison)]
        mean = stats.mean_interval(single["mean_absolute_difference"], confidence, skip_nan=True)
        row |= {"by_profession": mean.value, "by_profession_ci_low": mean.ci_low}
        row |= {"by_profession_ci_high": mean.ci_high, "by_profession_floor": single["floor"].mean()}
        rows.append(row)
    return tables.of(rows, "dalleval_attribute_mean_difference")


def pooled_difference_floor(count_a, n_a, count_b, n_b) -> np.ndarray:
    """Return ``E|a/n_a - b/n_b|`` when the images of both sets are one pool, split at random.

    The exact mean over the hypergeometric distribution of how the observed ``count_a + count_b`` positive
    images fall into the sets: what two prompts of equal shares differ by for chance alone.

    Args:
        count_a: Images of the first set with the attribute, any shape; NaN is missing.
        n_a: Images of the first set.
        count_b: The same of the second set.
        n_b: Images of the second set.

    Returns:
        Expected absolute differences of shares (0–1); NaN where a count is missing or a set is empty.
    """
    given = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (count_a, n_a, count_b, n_b)))
    positive, a, _, b = (x.ravel() for x in given)
    cells, where = np.unique(
        np.stack([positive + given[2].ravel(), a, b], axis=1), axis=0, return_inverse=True
    )
    expected = np.full(len(cells), np.nan)
    for i, (positive, a, b) in enumerate(cells):
        if a > 0 and b > 0 and np.isfinite(positive):
            k = np.arange(a + 1)
            expected[i] = hypergeom.pmf(k, a + b, positive, a) @ np.abs(k / a - (positive - k) / b)
    return expected[where.ravel()].reshape(given[0].shape)
