"""Analyses of gender triplets: gaps, tests and bias scores from similarities and object counts.

``confidence`` (0–1) is the level of intervals; ``seed`` and ``replicates`` are those of sign flips and permutations
that are too many to enumerate. ``counts`` has rows of ``triplets_object_counts``, or by group of
``triplets_group_object_counts``. Where counts are by ``case``, cases are independent rather than occurrences.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.stats import binom
from scipy.stats import t as t_distribution

from biaslab import reference, stats
from biaslab.errors import InputError
from biaslab.metrics.similarity import DEPENDENCY_GROUPS, intersection_ratio
from biaslab.metrics.similarity import bias_score as _bias_score
from biaslab.papers.triplets.nouns import PEOPLE
from biaslab.papers.triplets.prompts import sentences
from biaslab.schema import tables

PROMPT_GENDERS = ("neutral", "feminine", "masculine")
PAIRS = ("neutral-feminine", "neutral-masculine")
REFERENCES = ("neutral-another_seed", "neutral-placebo")
"""Pairs without a difference in gender: the effect of other noise, and that of another neutral word."""
GROUPS = (*DEPENDENCY_GROUPS, "nouns")
TESTED = {
    "neutral-feminine": ("neutral", "feminine"),
    "neutral-masculine": ("neutral", "masculine"),
    "feminine-masculine": ("feminine", "masculine"),
    "triplet": PROMPT_GENDERS,
}
"""The sets of prompts that tests compare, by their name in the column ``pair``."""
ALL_DATASETS = "all datasets"
ALL_GROUPS = "all"
NO_COUNTS = "the paper prints no counts"
MEAN = "mean"
"""The case of a measurement that is the mean over all triplets or seeds."""
PERMUTATIONS = 9_999
"""Default number of random permutations or sign patterns."""
MINIMUM_COUNT = 10
"""Minimum of an object's larger count, in datasets for which the paper states no threshold."""

_ENDS = ["ci_low", "ci_high"]
_CELL = ["model", "dataset"]
_METRIC = ["space", "metric"]
_GROUP = [*_CELL, "dependency_group"]


# -- prompts (section 3) ------------------------------------------------------------------------------


def excluded_words(words: pd.DataFrame) -> pd.DataFrame:
    """Return ``triplets_excluded_words``, in each dataset sorted by decreasing captions (section 3.1, table 2).

    For an empty table, return the paper's words without counts.
    """
    if words.empty:
        printed = reference.load("triplets_table_2").drop_duplicates("word")
        words = printed.assign(dataset="", n_captions_excluded=np.nan)
    words = words.assign(place=pd.factorize(words["dataset"])[0])
    ranked = words.sort_values(["place", "n_captions_excluded"], ascending=[True, False], kind="stable")
    return tables.make_table(ranked, "triplets_excluded_words")


def professions(prompts: pd.DataFrame) -> pd.DataFrame:
    """Return ``triplets_professions``: the professions of table 3, sentences about them, and those among prompts."""
    keys = ["topic", "profession"]
    sentence_counts = sentences().groupby(keys, sort=False)["text"].agg(n_sentences="size", sentence="first")
    n_triplets = prompts[prompts["profession"] != ""].groupby(keys)["triplet_id"].nunique()
    counts = sentence_counts.assign(n_sentences_used=n_triplets.reindex(sentence_counts.index, fill_value=0))
    return tables.make_table(counts.reset_index(), "triplets_professions")


def examples(prompts: pd.DataFrame, n_triplets: int = 10) -> pd.DataFrame:
    """Return the first triplets of each dataset side by side: dataset, neutral, feminine, masculine (section 3.1).

    From ``triplets_prompts``, with the differing words in square brackets. Raises InputError for invalid spans.
    """
    keys = ["dataset", "triplet_id"]
    chosen = prompts[keys].drop_duplicates().groupby("dataset", sort=False).head(n_triplets)
    rows = chosen.merge(prompts, on=keys)
    texts = [_mark_spans(text, spans) for text, spans in zip(rows["text"], rows["spans"], strict=True)]
    wide = rows.assign(text=texts).pivot(index=keys, columns="prompt_gender", values="text")
    wide = wide.reindex(index=pd.MultiIndex.from_frame(chosen), columns=PROMPT_GENDERS)
    return wide.reset_index().drop(columns="triplet_id").rename_axis(columns=None)


def _mark_spans(text: str, spans: str) -> str:
    if not re.fullmatch(r"(\d+:\d+(;\d+:\d+)*)?", spans):
        raise InputError(f"triplets_prompts: spans is {spans!r}; it must be start:end, joined by semicolons.")
    for span in reversed([span.split(":") for span in spans.split(";") if span]):
        start, end = map(int, span)
        text = f"{text[:start]}[{text[start:end]}]{text[end:]}"
    return text


def depicted(agreement: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return ``triplets_depicted`` with Wilson intervals of that level, in %: precision and recall of the filter."""
    value, low, high = stats.percent(agreement["n_both"], agreement["n"], confidence)
    return tables.make_table(agreement.assign(value=value, ci_low=low, ci_high=high), "triplets_depicted")


# -- similarity and its gap (section 4) --------------------------------------------------------------


def datasets(prompt_sets: pd.DataFrame) -> pd.DataFrame:
    """Return ``triplets_datasets`` from ``triplets_prompt_sets``: triplets, prompts and images (section 3, table 4)."""
    prompts = len(PROMPT_GENDERS) * prompt_sets["n_triplets"]
    images = prompts * prompt_sets["n_seeds"]
    return tables.make_table(prompt_sets.assign(n_prompts=prompts, n_images=images), "triplets_datasets")


def disparity(similarity: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return ``triplets_disparity`` from ``triplets_similarity``: the similarity of neutral to each gender.

    Means (section 4.1, eq. 1 and 2, tables 5 and 10), with Student's t over triplets or seeds where single values
    exist. Raises InputError if a mean and single values are mixed.
    """
    keys = [*_CELL, *_METRIC, "pair"]
    checked = _check_similarity(similarity, "triplets_similarity", keys[:-1])

    def mean(cases: pd.DataFrame) -> dict:
        n = {"n": int(cases.loc[cases["value"].notna(), "n"].sum()), "reading": _least_reliable_reading(cases)}
        attributes = cases.iloc[0][["unit", "higher_is_closer", "sample"]].to_dict()
        return attributes | _mean("value", cases["value"], cases["case"], _reason(cases), confidence) | n

    return tables.make_table(stats.by_group(checked, keys, mean), "triplets_disparity")


def disparity_gap(similarity: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return ``triplets_disparity_gap`` from ``triplets_similarity``: how much closer neutral is to masculine.

    The gap is masculine minus feminine closeness (section 4.2); up to one unit of the last printed digit it is a tie.
    Intervals and errors as :func:`disparity`; p is that of the interval, adjusted over the metrics of a model and
    dataset.
    """
    gaps = _gaps(similarity, "triplets_similarity", [*_CELL, *_METRIC], confidence)
    return stats.adjust_families(tables.make_table(gaps, "triplets_disparity_gap"), _CELL)


def null_similarity(similarity: pd.DataFrame, references: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return ``triplets_null_similarity``: the similarity of pairs of the same gender, and the difference of gendered
    pairs from it.

    From ``triplets_similarity`` and ``triplets_reference_similarity``: ``neutral-another_seed`` compares images of one
    prompt, ``neutral-placebo`` prompts that differ in a word without gender. The difference is over cases with both
    pairs; its test is that of :func:`disparity_gap`, adjusted over metrics and pairs of a reference.
    """
    cell = [*_CELL, *_METRIC]
    rows, rows_by_cell = [], dict(iter(similarity.groupby(cell, sort=False)))
    for names, model_rows in references.groupby(cell, sort=False):
        wide = pd.concat([rows_by_cell[names], model_rows]).pivot(index="case", columns="pair", values="value")
        wide = wide.reindex(columns=[*PAIRS, *REFERENCES])
        attributes = model_rows.iloc[0][[*cell, "unit", "sample"]].to_dict()
        sign = 1 if model_rows["higher_is_closer"].iloc[0] == 1 else -1
        for baseline, pair_rows in model_rows.groupby("pair", sort=False):
            mean = _mean("value", pair_rows["value"], pair_rows["case"], _reason(pair_rows), confidence)
            for pair in PAIRS:
                difference = (sign * (wide[pair] - wide[baseline])).dropna()
                difference_mean = _mean("difference", difference, difference.index, "", confidence)
                row = attributes | mean | {"reference": baseline, "pair": pair, "n": len(difference)}
                limits = {f"difference_{end}": difference_mean.get(end) for end in _ENDS}
                row |= {"difference": difference_mean["difference"]} | limits
                rows.append(row | {"p": stats.one_sample_t(difference).p, "n_cases": len(difference)})
    return stats.adjust_families(tables.make_table(rows, "triplets_null_similarity"), [*_CELL, "reference"])


def gap_by_step(steps: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return ``triplets_gap_by_step`` from ``triplets_step_similarity``: the gap after each denoising step."""
    rows = _gaps(steps, "triplets_step_similarity", [*_CELL, *_METRIC], confidence)
    rows["denoising_step"] = rows["metric"].str.removeprefix("z_").astype(int)
    return stats.adjust_families(tables.make_table(rows, "triplets_gap_by_step"), _CELL)


def extremes(similarity: pd.DataFrame, *, metric: str = "ssim", n_per_end: int = 2) -> pd.DataFrame:
    """Return the triplets whose neutral images are closest to masculine ones, and those closest to feminine ones.

    From ``triplets_similarity``, for its first model: dataset, triplet_id and gap, ``n_per_end`` from each end.
    """
    rows = similarity[(similarity["metric"] == metric) & (similarity["case"] != MEAN)]
    rows = rows[rows["sample"] == "triplets"]
    rows = rows[rows["model"].isin(rows["model"].head(1))]
    sign = rows["higher_is_closer"].map({1: 1, 0: -1})
    signed = rows.assign(value=sign * rows["value"])
    wide = signed.pivot(index=["dataset", "case"], columns="pair", values="value").reindex(columns=PAIRS)
    gap = (wide[PAIRS[1]] - wide[PAIRS[0]]).dropna().sort_values(ascending=False)
    ends = pd.concat([gap.head(n_per_end), gap.iloc[n_per_end:].tail(n_per_end)]).rename("gap").reset_index()
    return ends.rename(columns={"case": "triplet_id"})


def gap_summary(gap: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return ``triplets_gap_summary`` from ``triplets_disparity_gap``: the mean gap over datasets by metric.

    First over all models with the same datasets, then for each model. Gaps are in the metric's unit and in % of the
    distance between neutral and feminine, with Student's t over datasets (section 4.2). Gaps of one triplet over many
    seeds are excluded. p is adjusted over the metrics of a model.
    """
    gaps = gap[gap["sample"] == "triplets"]
    models = dict(iter(gaps.groupby("model", sort=False)))
    dataset_sets = [frozenset(rows["dataset"]) for rows in models.values()]
    most_common = max(dataset_sets, key=dataset_sets.count, default=None)
    comparable = [str(model) for model, sets in zip(models, dataset_sets, strict=True) if sets == most_common]
    pooled = {}
    if len(comparable) > 1:
        pooled = {", ".join(comparable): gaps[gaps["model"].isin(comparable)]}
    frames = []
    for model, cells in (pooled | models).items():
        frame = stats.by_group(cells, _METRIC, lambda rows: _over_datasets(rows, confidence)).assign(model=model)
        frames.append(frame.assign(relative_gap_p_holm=stats.adjust(frame["relative_gap_p"].to_numpy(float))))
    return tables.join_tables(frames, "triplets_gap_summary")


def co_occurrence_summary(gap: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return a row of ``triplets_co_occurrence`` over datasets, and the rows over many triplets with an interval.

    The first row is from :func:`gap_summary`, with datasets as cases, and its test is that of the gap in %. With too
    few datasets for it, the rows without an interval are included as well.
    """
    cells = gap[(gap["sample"] == "triplets") & gap["gap"].notna()]
    summary = gap_summary(gap.assign(space="image", metric="objects"), confidence=confidence)
    dataset_row = select_pooled(summary).dropna(subset="relative_gap_ci_low")
    names = {"relative_gap_p": "p", "n_datasets": "n_cases"}
    dataset_row = dataset_row.rename(columns=names).assign(dataset=ALL_DATASETS, sample="triplets")
    with_interval = cells[cells["ci_low"].notna()] if len(dataset_row) else cells
    return tables.make_table(pd.concat([dataset_row, with_interval], ignore_index=True), "triplets_co_occurrence")


def _over_datasets(rows: pd.DataFrame, confidence: float) -> dict:
    means = rows.groupby("dataset", sort=False)[["gap", "relative_gap"]].mean()
    gap, percent = (stats.mean_interval(means[c], confidence, skip_nan=True) for c in means)
    estimates = {"gap": gap.value, "ci_low": gap.ci_low, "ci_high": gap.ci_high, "relative_gap": percent.value}
    return estimates | {
        **{f"relative_gap_{end}": getattr(percent, end) for end in _ENDS},
        "relative_gap_p": stats.one_sample_t(means["relative_gap"], skip_nan=True).p,
        "n_datasets": gap.n,
        "n_cells": int(rows["gap"].notna().sum()),
        **{f"n_{word}": int((rows["direction"] == word).sum()) for word in ("masculine", "tie", "feminine")},
        "n_missing": int(rows["gap"].isna().sum()),
        "unit": rows["unit"].iloc[0],
        "reason": "" if gap.n > 1 else "an interval needs at least two datasets",
    }


def select_pooled(summary: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a summary over models, or those of the only model."""
    return summary[summary["model"].isin(summary["model"].head(1))].reset_index(drop=True)


def _check_similarity(rows: pd.DataFrame, name: str, cell: list[str]) -> pd.DataFrame:
    """Return validated similarities, with defaults for ``rounding`` and ``reading``, which measured ones may lack."""
    invalid = rows.loc[~rows["higher_is_closer"].isin([0, 1]), "higher_is_closer"]
    if len(invalid):
        raise InputError(f"{name}: higher_is_closer is {invalid.iloc[0]}; it must be 0 or 1.")
    is_mixed = (rows["case"] == MEAN) & (rows.groupby([*cell, "pair"])["case"].transform("size") > 1)
    if is_mixed.any():
        row = rows.loc[is_mixed, [*cell, "pair"]].iloc[0].to_dict()
        raise InputError(f"{name} contains the case 'mean' and other cases for {row}; keep only one of these.")
    missing = rows["value"].isna() & (rows["reason"] == "")
    return rows.assign(
        rounding=rows["rounding"].fillna(0.0) if "rounding" in rows else 0.0,
        reading=rows["reading"].fillna("") if "reading" in rows else "",
        reason=rows["reason"].mask(missing, "no value is given"),
    )


def _mean(name: str, values: pd.Series, cases: Iterable, missing: str, confidence: float) -> dict:
    """Return the mean of the known values as ``name``, with Student's t interval or the reason for none."""
    if values.isna().all():
        return {name: np.nan, "reason": missing}
    if list(cases) == [MEAN]:
        reason = "only the mean is given, not the values of triplets or seeds"
        return {name: float(values.iloc[0]), "reason": reason}
    mean = stats.mean_interval(values.dropna(), confidence)
    if mean.n < 2:
        return {name: mean.value, "reason": "an interval needs at least two cases"}
    if np.isnan(stats.one_sample_t(values.dropna()).p):
        return {name: mean.value, "reason": "all cases have the same value"}
    return {name: mean.value, "ci_low": mean.ci_low, "ci_high": mean.ci_high, "reason": ""}


def _reason(rows: pd.DataFrame) -> str:
    return "; ".join(dict.fromkeys(r for r in rows["reason"] if r))


def _least_reliable_reading(rows: pd.DataFrame) -> str:
    return next((r for r in ("missing", "reconstructed", "clear") if r in set(rows["reading"])), "")


def _gaps(similarity: pd.DataFrame, name: str, cell: list[str], confidence: float) -> pd.DataFrame:
    """Return each cell's two means and the gap between them, positive where neutral is closer to masculine."""
    results, rows = [], _check_similarity(similarity, name, cell)
    for _, group in rows.groupby(cell, sort=False):
        row = group.iloc[0][[*cell, "rounding", "unit", "sample"]].to_dict()
        higher = group["higher_is_closer"].iloc[0] == 1
        wide = group.pivot(index="case", columns="pair", values="value").reindex(columns=PAIRS)
        is_complete = wide.notna().all(axis=1)
        n = group[group["case"].map(is_complete)].groupby("pair")["n"].sum()
        feminine, masculine = (wide[pair].where(is_complete | (not is_complete.any())).mean() for pair in PAIRS)
        difference = (wide[PAIRS[1]] - wide[PAIRS[0]]) * (1 if higher else -1)
        missing = _reason(group) or "one of the two values is missing"
        row |= _mean("gap", difference, wide.index, missing, confidence)
        if list(wide.index) != [MEAN]:
            row |= {"p": stats.one_sample_t(difference, skip_nan=True).p, "n_cases": int(difference.notna().sum())}
        row |= {"feminine": feminine, "masculine": masculine, "reading": _least_reliable_reading(group)}
        # A similarity of unit 1 becomes the distance 1 - similarity; other similarities have no distance.
        feminine_distance, masculine_distance = (1 - feminine, 1 - masculine) if higher else (feminine, masculine)
        distance = feminine_distance != 0 and (not higher or row["unit"] == "1")
        row["relative_gap"] = 100 * (feminine_distance - masculine_distance) / feminine_distance if distance else np.nan
        if np.isfinite(row.get("ci_low", np.nan)):
            scale = row["relative_gap"] / row["gap"] if row["gap"] else 0.0
            row |= {f"relative_gap_{end}": scale * row[end] for end in _ENDS}
        # Printed values a unit apart may be equal; the margin is for binary fractions.
        is_tie = abs(row["gap"]) <= row["rounding"] * (1 + 1e-6)
        direction = "tie" if is_tie else "masculine" if row["gap"] > 0 else "feminine"
        row["direction"] = "" if np.isnan(row["gap"]) else direction
        results.append(row | {"n": int(n.min()) if len(n) else 0})
    return pd.DataFrame(results, columns=None if results else cell)


# -- objects (section 5) -----------------------------------------------------------------------------


def co_occurrence(similarity: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return ``triplets_co_occurrence``: :func:`disparity_gap` of cosines of objects (sections 5.1 and 7.1, table 6).

    From ``triplets_object_similarity``. Pairs of images without objects have no cosine (0–1); their number is a column.
    """
    cosines = similarity.assign(unit="1", higher_is_closer=1.0)
    gaps = _gaps(cosines, "triplets_object_similarity", _CELL, confidence)
    if "n_pairs_excluded" in similarity:
        n_excluded = similarity.groupby(_CELL)["n_pairs_excluded"].sum(min_count=1)
        gaps = gaps.merge(n_excluded.reset_index(), on=_CELL, how="left")
    return stats.adjust_families(tables.make_table(gaps, "triplets_co_occurrence"), ["sample"])


def chi_square(
    counts: pd.DataFrame,
    printed: pd.DataFrame,
    *,
    seed: int = 0,
    replicates: int = PERMUTATIONS,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Return ``triplets_chi_square``: tests of equal distributions of objects over genders (section 5.3).

    For counts by group, return ``triplets_group_chi_square`` (sections 6.3 and 7.1, tables 7 to 9). ``printed`` has
    rows of ``triplets_printed_chi_square``, for cells without counts. p is adjusted over tests of the same kind of
    sample, separately for printed and computed ones; Cramér's V is 0–1. Where available, the p of permuting labels
    within cases is decisive: the plain p ignores that images of a triplet are matched and objects of an image
    clustered. Raises InputError if n_images differs within a set of prompts, or only some counts are by case.
    """
    counts, prefix = _with_group(counts)
    printed = printed[(printed["dependency_group"] == ALL_GROUPS) == (prefix == "")]
    tested = stats.by_group(counts, _GROUP, lambda group: _test_cell(group, seed, replicates, confidence))
    rows = tested.to_dict("records")
    for row in _select_uncomputed(printed, counts, _GROUP).to_dict("records"):
        rows.append(row | {"evidence": "printed", "reason": row["reason"] or NO_COUNTS})

    def place(column: pd.Series) -> pd.Series:
        return column.map((GROUPS if column.name == "dependency_group" else list(column.unique())).index)

    frame = tables.make_table(rows, f"triplets_{prefix}chi_square")
    frame = frame.sort_values([c for c in _GROUP if c in frame], key=place, ignore_index=True)
    # Printed and measured tests are separate families.
    family = ["sample", "evidence"]
    decisive = frame["p_permutation"].fillna(frame["p"])
    frame = stats.adjust_families(frame.assign(p_primary=decisive), family, "p_primary")
    return stats.adjust_families(frame.drop(columns="p_primary"), family)


def bias_score(
    counts: pd.DataFrame,
    truth: pd.DataFrame | None = None,
    printed: pd.DataFrame | None = None,
    *,
    min_count: int = 0,
    seed: int = 0,
    replicates: int = PERMUTATIONS,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Return ``triplets_bias_score``: the score (0–1) of each sufficiently common object (section 5.2, eq. 5).

    1 means masculine prompts only; with a test against 0.5 and Wilson intervals (figure 4). Where counts are by case,
    intervals use the effective number of occurrences from the variance between cases (the bootstrap covers less:
    ``benchmarks/coverage_triplets.py``), and the test swaps the genders of whole cases. Objects whose larger count is
    below ``min_count`` are excluded; 0 means the paper's threshold, by dataset. ``truth`` has rows of
    ``triplets_object_truth``, and ``printed`` of ``triplets_printed_bias_score``, for cells without counts.
    For counts by group, return ``triplets_group_bias_score`` (section 6.3, figures 7 and 8). Errors as
    :func:`chi_square`.
    """
    counts, prefix = _counts(counts)
    cell = _GROUP if prefix else _CELL
    rows = _scores(counts, cell, min_count, seed, replicates, confidence).assign(reason="")
    if printed is not None:
        printed = printed[(printed["dependency_group"] == ALL_GROUPS) == (prefix == "")]
        rows = pd.concat([rows, _select_uncomputed(printed, counts, cell).assign(reason=NO_COUNTS)])
    scores = tables.make_table(rows, f"triplets_{prefix}bias_score")
    if truth is None or truth.empty:
        return scores
    wide = truth.pivot(index=[*_CELL, "object"], columns="prompt_gender", values="expected")
    true_values = _bias_score(wide["masculine"], wide["feminine"], 1, 1)
    true_scores = pd.Series(true_values, index=wide.index, name="true_score").reset_index()
    return tables.make_table(scores.merge(true_scores, on=[*_CELL, "object"], how="left"), "triplets_bias_score")


def most_biased_objects(scores: pd.DataFrame, n_per_side: int) -> pd.DataFrame:
    """Return each dataset's most biased objects, masculine first, ranked by the interval's limit closer to 0.5."""
    frames = []
    for _, rows in scores.groupby("dataset", sort=False):
        # Printed scores have no interval.
        rows = rows.assign(
            low=rows["ci_low"].fillna(rows["bias_score"]), high=rows["ci_high"].fillna(rows["bias_score"])
        )
        masculine = rows[rows["bias_score"] > 0.5].nlargest(n_per_side, ["low", "bias_score"])
        feminine = rows[rows["bias_score"] < 0.5].nsmallest(n_per_side, ["high", "bias_score"])
        frames += [masculine, feminine.iloc[::-1]]
    return pd.concat(frames)[scores.columns] if frames else scores


def top_objects(counts: pd.DataFrame, *, n_objects: int = 10, confidence: float = 0.95) -> pd.DataFrame:
    """Return ``triplets_group_top_objects``: the ``n_objects`` most frequent objects of each group, without people.

    With their number per image (section 6.3, figure 6), and Student's t over cases, assumed to have equal numbers of
    images. Errors as :func:`chi_square`.
    """
    counts, _ = _with_group(counts)
    counts = counts[~counts["object"].isin(PEOPLE)]
    counts = counts.sort_values("prompt_gender", key=lambda genders: genders.map(PROMPT_GENDERS.index), kind="stable")
    rows = []
    for names, group in counts.groupby(_GROUP, sort=False):
        n = group.groupby("prompt_gender")["n_images"].first().sum()
        by_case = (group["case"] != "").all()
        cases = int(group["n_cases"].iloc[0]) if "n_cases" in group else group["case"].nunique()
        totals = group.groupby("object")["count"].sum().sort_values(ascending=False, kind="stable")
        for rank, (name, total) in enumerate(totals.head(n_objects).items(), start=1):
            row = dict(zip(_GROUP, names, strict=True)) | {"object": name, "rank": rank}
            row |= {"per_image": total / n, "count": total, "n_images": n, "reason": ""}
            if by_case and cases > 1:
                split = group.loc[group["object"] == name].groupby("case")["count"].sum().to_numpy(float)
                effects = np.concatenate([split, np.zeros(cases - len(split))]) / n - total / n / cases
                error = stats.clustered_error(effects)
                half_width = float(t_distribution.ppf((1 + confidence) / 2, error.df)) * error.se
                row |= {"ci_low": max(0.0, total / n - half_width), "ci_high": total / n + half_width}
            else:
                row["reason"] = "an interval needs counts of at least two cases"
            rows.append(row)
    return tables.make_table(rows, "triplets_group_top_objects")


def _with_group(counts: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return validated counts with a group, without the group of nouns, and ``group_`` if they are by group."""
    counts, prefix = _counts(counts)
    counts = counts if prefix else counts.assign(dependency_group=ALL_GROUPS)
    return counts[counts["dependency_group"] != "nouns"], prefix


def _counts(rows: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return validated counts with a case, and the table prefix: ``group_`` if they are by group, else empty.

    Raises InputError if a set of prompts has several numbers of images, or only some counts have a case.
    """
    prefix = "group_" * ("dependency_group" in rows)
    name = f"triplets_{prefix}object_counts"
    rows = rows.assign(case=rows["case"].fillna("").astype(str) if "case" in rows else "")
    is_mixed = (rows["case"] == "").groupby([rows[c] for c in _CELL]).transform("nunique") > 1
    if is_mixed.any():
        row = rows.loc[is_mixed, _CELL].iloc[0].to_dict()
        raise InputError(f"{name} contains counts of {row} with and without a case; use a case for all or none.")
    cell = [*_CELL, "prompt_gender"]
    is_inconsistent = rows.groupby(cell)["n_images"].transform("nunique") > 1
    if is_inconsistent.any():
        row = rows.loc[is_inconsistent, cell].iloc[0].to_dict()
        raise InputError(f"{name}: n_images differs within {row}; it must be the same for all rows of a prompt set.")
    return rows, prefix


def _select_uncomputed(printed: pd.DataFrame, counts: pd.DataFrame, cell: list[str]) -> pd.DataFrame:
    """Return the printed rows of cells that have no counts."""
    cells = pd.MultiIndex.from_frame(counts[cell])
    return printed[~pd.MultiIndex.from_frame(printed[cell]).isin(cells)]


def _test_cell(counts: pd.DataFrame, seed: int, replicates: int, confidence: float) -> Iterator[dict]:
    """Yield the chi-square test of each pair and of the triplet for counts of one cell."""
    wide = counts.groupby(["object", "prompt_gender"], sort=False)["count"].sum().unstack(fill_value=0)
    for pair, genders in TESTED.items():
        row: dict[str, Any] = {"pair": pair, "p_relation": "", "sample": "triplets", "evidence": "computed"}
        absent = [g for g in genders if g not in wide]
        if absent:
            yield row | {"reason": f"no counts for {absent[0]} prompts"}
            continue
        objects = wide[list(genders)].to_numpy().astype(int)
        table, pooled, kinds = stats.pool_rare(objects)
        n_objects = int((objects.sum(axis=1) > 0).sum())
        row |= {"n": int(objects.sum()), "n_objects": n_objects, "n_pooled": pooled}
        if len(table) < 2:
            yield row | {"reason": "fewer than two objects are common enough"}
            continue
        test = stats.chi_square(table)
        if not test.valid:
            yield row | {"reason": test.reason}
            continue
        v = stats.cramers_v(test.statistic, test.dof, test.n, min(table.shape), confidence)
        row |= {"p_relation": "=", "p": test.p, "chi_square": test.statistic, "dof": test.dof}
        if (counts["case"] != "").all():
            sets = _by_case(counts, dict(zip(wide.index, kinds, strict=True)), genders)
            row["p_permutation"] = stats.permuted_chi_square(sets, replicates, seed=seed)
            row["n_cases"] = np.count_nonzero(sum(abs(by_case).sum(axis=1) for by_case in sets))
        yield row | {"cramers_v_corrected": v.value, "ci_low": v.ci_low, "ci_high": v.ci_high, "reason": ""}


def _by_case(counts: pd.DataFrame, kinds: dict[str, int], genders: Sequence[str]) -> list[sparse.csr_array]:
    """Return the counts of one cell for each gender, ``(cases, kinds)``, with the kind of each object."""
    counts = counts.assign(row=pd.factorize(counts["case"])[0], kind=counts["object"].map(kinds))
    # Objects that never occur with these genders have no kind.
    counts = counts[counts["kind"].notna() & (counts["kind"] >= 0)]
    shape = (counts["row"].max() + 1, max(kinds.values()) + 1)
    by_gender = dict(iter(counts.groupby("prompt_gender")))
    return [
        sparse.csr_array((by_gender[g]["count"], (by_gender[g]["row"], by_gender[g]["kind"].astype(int))), shape=shape)
        for g in genders
    ]


def _scores(
    counts: pd.DataFrame, cell: list[str], min_count: int, seed: int, replicates: int, confidence: float
) -> pd.DataFrame:
    """Score the objects of each cell, with intervals and tests from the split of their occurrences."""
    sets = ["masculine", "feminine"]
    rows = counts.groupby([*cell, "object", "prompt_gender"])["count"].sum().unstack()
    rows = rows.reindex(columns=sets).fillna(0).astype(int).reset_index()
    images = counts.groupby([*cell, "prompt_gender"])["n_images"].first().unstack().reindex(columns=sets)
    rows = rows.merge(images.dropna().add_prefix("n_images_").reset_index(), on=cell)
    words = reference.load("triplets_text").query("quantity == 'minimum_co_occurrence'")
    stated = rows["dataset"].map(words.set_index("subject")["value"]).fillna(MINIMUM_COUNT)
    rows = rows.assign(minimum_count=min_count or stated.astype(int))
    rows = rows[rows[sets].max(axis=1) >= rows["minimum_count"]]
    masculine, feminine, *sizes = (rows[c].to_numpy() for c in [*sets, "n_images_masculine", "n_images_feminine"])
    n = masculine + feminine
    # The score grows with the masculine share of occurrences, so the share's limits give the score's.
    low, high = (_bias_score(end, 1 - end, *sizes) for end in stats.wilson_interval(masculine, n, confidence))
    null_share = sizes[0] / sum(sizes)
    tails = np.minimum(binom.cdf(masculine, n, null_share), binom.sf(masculine - 1, n, null_share))
    rows = rows.assign(
        bias_score=_bias_score(masculine, feminine, *sizes), ci_low=low, ci_high=high, p=np.minimum(1.0, 2 * tails),
        # The p of all occurrences on the rarer side.
        min_attainable_p=np.minimum(1.0, 2 * np.minimum(null_share, 1 - null_share) ** n),
        count_feminine=feminine, count_masculine=masculine, n=n, n_cases=np.nan,
    )  # fmt: skip
    rows = _with_clustered_intervals(rows, counts, cell, seed, replicates, confidence)
    rows = stats.adjust_families(rows, [name for name in cell if name != "dataset"])
    # Cells are in the order of the counts, objects within them by decreasing score.
    rows = rows.sort_values(["bias_score", "n"], ascending=False)
    return counts[cell].drop_duplicates().merge(rows, on=cell)


def _with_clustered_intervals(
    rows: pd.DataFrame, counts: pd.DataFrame, cell: list[str], seed: int, replicates: int, confidence: float
) -> pd.DataFrame:
    """Return scores with the intervals and tests of independent cases, where counts are by case."""
    keys = [*cell, "object"]
    split = counts[counts["case"] != ""].groupby([*keys, "case", "prompt_gender"])["count"].sum().unstack()
    split = split.reindex(columns=["masculine", "feminine"]).fillna(0)
    split = dict(iter(split[split.sum(axis=1) > 0].groupby(level=keys)))
    rows = rows.reset_index(drop=True)
    for i, row in rows.iterrows():
        if tuple(row[keys]) not in split:
            continue
        masculine, feminine = split[tuple(row[keys])].to_numpy().T
        share = masculine.sum() / row["n"]
        error = stats.clustered_error((masculine - share * (masculine + feminine)) / row["n"])
        ends = stats.clustered_share_interval(share, error, len(masculine), confidence)
        sizes = row["n_images_masculine"], row["n_images_feminine"]
        # Sets of equal size have integer differences, so that the test is exact.
        balance = masculine - feminine if sizes[0] == sizes[1] else masculine / sizes[0] - feminine / sizes[1]
        rows.loc[i, ["ci_low", "ci_high"]] = [float(_bias_score(end, 1 - end, *sizes)) for end in ends]
        rows.loc[i, ["p", "n_cases"]] = stats.sign_flip(balance, replicates, seed=seed).p, len(balance)
        # Cases with equal counts of both genders carry no information.
        rows.loc[i, "min_attainable_p"] = min(1.0, 2 * 0.5 ** np.count_nonzero(balance))
    return rows


# -- dependency groups (sections 6 and 7) ------------------------------------------------------------


def group_share(images: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return ``triplets_group_share`` from ``triplets_group_images``: images (%) with each dependency group.

    Section 7.2, table 11; with Wilson intervals over triplets, as if the images of a triplet were identical.
    """
    percent, n = images["percent_images"], images["n_triplets"].fillna(0).round()
    _, low, high = stats.percent(np.rint(percent / 100 * n), n, confidence)
    reasons = ["no value is given", "the number of triplets is missing"]
    reason = np.select([percent.isna(), n <= 0], reasons, "")
    return tables.make_table(images.assign(ci_low=low, ci_high=high, reason=reason), "triplets_group_share")


def group_objects(counts: pd.DataFrame, printed: pd.DataFrame) -> pd.DataFrame:
    """Return ``triplets_group_objects``: how many different objects each dependency group has (section 7.2, table 12).

    ``printed`` has rows of ``triplets_printed_group_objects``, for models and datasets without counts.
    """
    rows = [
        [*names, group, len(objects)] for names, sets in _group_sets(counts).items() for group, objects in sets.items()
    ]
    frame = tables.make_table(_add_printed(rows, [*_GROUP, "n_objects"], printed, counts), "triplets_group_objects")
    nouns = frame[frame["dependency_group"] == "nouns"].set_index(_CELL)["n_objects"]
    return frame.assign(percent_of_nouns=100 * frame["n_objects"] / frame.join(nouns.rename("all"), on=_CELL)["all"])


def intersection(counts: pd.DataFrame, printed: pd.DataFrame, objects: pd.DataFrame) -> pd.DataFrame:
    """Return ``triplets_intersection``: the share (%) of a group's objects that are in another too (section 7.2.3).

    Also check whether each share agrees with the mirrored one and the groups' sizes (table 13). ``printed`` has rows of
    ``triplets_printed_intersection``; ``objects`` is the result of :func:`group_objects`.
    """
    rows = [
        [*names, a, b, intersection_ratio(sets[a], sets[b])]
        for names, sets in _group_sets(counts).items()
        for a, b in product(sets, repeat=2)
    ]
    keys = [*_CELL, "base_group", "dependency_group"]
    frame = _add_printed(rows, [*keys, "percent"], printed, counts)
    size = objects[[*_GROUP, "n_objects"]].rename(columns={"dependency_group": "base_group"})
    frame = frame.merge(size, on=[*_CELL, "base_group"], how="left")
    mirrored = frame.rename(columns={"base_group": "dependency_group", "dependency_group": "base_group"})
    mirrored = frame[keys].merge(mirrored, on=keys, how="left")
    shared = mirrored["percent"] * mirrored["n_objects"] / 100
    # The rounding of a printed cell, 0.005% of the group, is smaller than half an object.
    is_whole = (shared - shared.round()).abs() <= 0.005 * mirrored["n_objects"] / 100 + 1e-6
    implied = 100 * shared.round() / frame["n_objects"]
    is_complete = frame["percent"].notna() & implied.notna() & is_whole
    agrees = (frame["percent"] - implied).abs() <= 0.005 + 1e-6
    frame = frame.assign(
        n_shared=shared.round().where(is_complete),
        percent_implied=implied.where(is_complete),
        agrees=np.where(is_complete, np.where(agrees, "yes", "no"), ""),
    )
    return tables.make_table(frame, "triplets_intersection")


def _add_printed(rows: list[list], columns: list[str], printed: pd.DataFrame, counts: pd.DataFrame) -> pd.DataFrame:
    """Return computed rows, and the printed ones of models and datasets that have no counts."""
    printed = _select_uncomputed(printed, counts[counts["count"] > 0], _CELL).assign(evidence="printed")
    computed = pd.DataFrame(rows, columns=columns).assign(evidence="computed")
    return pd.concat([computed, printed], ignore_index=True)


def _group_sets(counts: pd.DataFrame) -> dict[tuple[Hashable, ...], dict[str, set[str]]]:
    """Return the objects of each dependency group with at least one count, by model and dataset."""
    groups = counts[counts["count"] > 0].groupby(_CELL, sort=False)
    return {
        names: {
            group: set(rows.loc[rows["dependency_group"] == group, "object"])
            for group in GROUPS if group in set(rows["dependency_group"])
        }
        for names, rows in groups
    }  # fmt: skip


def detector(counts: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return ``triplets_detector`` from ``triplets_detector_counts``: agreement of detector and people on nouns (7.3).

    In %, with Wilson intervals; recall is a lower bound where the nouns that only annotators find are unknown.
    """
    rows = []
    row: Any
    for row in counts.itertuples():
        is_unknown = np.isnan(row.n_nouns_people_only)
        sizes = {
            "found_by_both": row.n_nouns,
            "detector_precision": row.n_nouns_both + row.n_nouns_detector_only,
            # People may have found every noun that the detector missed.
            "detector_recall": row.n_nouns - row.n_nouns_detector_only
            if is_unknown
            else row.n_nouns_both + row.n_nouns_people_only,
        }
        for quantity, n in sizes.items():
            percent, low, high = stats.percent(int(row.n_nouns_both), int(n), confidence)
            values = {"model": row.model, "reference": row.reference, "quantity": quantity, "n": n}
            values |= {"percent": percent, "ci_low": low, "ci_high": high, "bound": "", "reason": ""}
            if is_unknown and quantity == "detector_recall":
                reason = "the number of nouns that only annotators find is not given, so there is no upper limit"
                values |= {"ci_high": np.nan, "bound": "at least", "reason": reason}
            rows.append(values)
    return tables.make_table(rows, "triplets_detector")
