"""Analyses of gender triplets: similarities and object counts in; gaps, tests and bias scores out.

Whether neutral prompts and their images are nearer to masculine or to feminine ones (paper section 4), which
objects go with which gender (section 5), and how objects depend on the prompt (sections 6 and 7).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pandas as pd
from scipy.stats import binom

from biaslab import published, stats, tables
from biaslab.errors import InputError, name_help
from biaslab.measures.similarity import DEPENDENCY_GROUPS, intersection_ratio
from biaslab.measures.similarity import bias_score as _bias_score

PROMPT_GENDERS = ("neutral", "feminine", "masculine")
PAIRS = ("neutral-feminine", "neutral-masculine")
GROUPS = (*DEPENDENCY_GROUPS, "nouns")
TESTED = {
    "neutral-feminine": ("neutral", "feminine"),
    "neutral-masculine": ("neutral", "masculine"),
    "feminine-masculine": ("feminine", "masculine"),
    "triplet": PROMPT_GENDERS,
}
"""The sets of prompts that tests compare, by their name in the column ``pair``."""
ALL_MODELS = "all models"
ALL_GROUPS = "all"
MEAN = "mean"
"""The case of a measurement that is the mean over all triplets or seeds."""
MINIMUM_COUNT = 10
"""Objects are kept whose larger count reaches this, in datasets for which the paper states no threshold."""

_CELL = ["model", "dataset"]
_METRIC = ["space", "metric"]
_NO_CASES = "only the mean is given, no values per triplet or seed"
_NO_COUNTS = "the paper prints no counts"
_BOUNDED = "how many nouns only people find is not given, so there is no upper limit"


# -- similarity and its gap (section 4) --------------------------------------------------------------


def datasets(prompt_sets: pd.DataFrame) -> pd.DataFrame:
    """Return how many triplets, prompts and images each dataset gives (section 3, table 4).

    Args:
        prompt_sets: Rows of ``triplets_prompt_sets``.

    Returns:
        ``triplets_datasets``: three prompts a triplet, one image of a model for each prompt and seed.
    """
    prompts = len(PROMPT_GENDERS) * prompt_sets["triplets"]
    return tables.of(
        prompt_sets.assign(prompts=prompts, images=prompts * prompt_sets["seeds"]), "triplets_datasets"
    )


def disparity(similarity: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return the mean similarity of neutral to feminine and to masculine (section 4.1, eq. 1 and 2, tables 5 and 10).

    Args:
        similarity: Rows of ``triplets_similarity``.
        confidence: Level of the intervals (Student t over triplets, or seeds), 0–1.

    Returns:
        ``triplets_disparity``, in the unit of each metric; without limits where only means are given.

    Raises:
        InputError: A name is unknown, or a mean stands beside the values that it is made of.
    """
    keys = [*_CELL, *_METRIC, "pair"]
    checked = _checked(similarity, "triplets_similarity", keys[:-1])
    rows = [
        cases.iloc[0][[*keys, "unit", "higher_is_closer", "sample"]].to_dict()
        | _mean("value", cases["value"], cases["case"], _reason(cases), confidence)
        | {"n": int(cases.loc[cases["value"].notna(), "n"].sum()), "reading": _worst_reading(cases)}
        for _, cases in checked.groupby(keys, sort=False)
    ]
    return tables.of(rows, "triplets_disparity")


def disparity_gap(similarity: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return how much nearer neutral is to masculine than to feminine, by model, dataset and metric (section 4.2).

    Args:
        similarity: Rows of ``triplets_similarity``.
        confidence: Level of the intervals (Student t over triplets, or seeds), 0–1.

    Returns:
        ``triplets_disparity_gap``: masculine minus feminine closeness in the unit of each metric, above 0 where
        neutral is nearer to masculine; a tie where it is not above one unit of the last printed digit.

    Raises:
        InputError: A name is unknown, or a mean stands beside the values that it is made of.
    """
    cell = [*_CELL, *_METRIC]
    rows = _checked(similarity, "triplets_similarity", cell)
    return tables.of(list(_gaps(rows, cell, confidence)), "triplets_disparity_gap")


def gap_summary(gap: pd.DataFrame, *, seed: int, replicates: int, confidence: float = 0.95) -> pd.DataFrame:
    """Return the mean gap over datasets by metric, for all models together (first) and for each (section 4.2).

    Args:
        gap: Rows of ``triplets_disparity_gap``; those of one triplet over many seeds are left out.
        seed: Seed of the sign-flip tests.
        replicates: Random patterns of a sign-flip test of more than 16 values.
        confidence: Level of the intervals (Student t over datasets, each the mean of its models), 0–1.

    Returns:
        ``triplets_gap_summary``, in the unit of each metric and in % of the distance of neutral and feminine.
    """
    return _summary(gap, "triplets_gap_summary", _METRIC, seed, replicates, confidence)


def together(summary: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a summary that are of all models together, or of the only model."""
    return summary[summary["model"].isin(summary["model"].head(1))].reset_index(drop=True)


def _checked(rows: pd.DataFrame, name: str, cell: list[str]) -> pd.DataFrame:
    """Return measured similarities with ``rounding`` and ``reading``, which measurements need not have."""
    _check(rows, name, "pair", PAIRS)
    _check(rows, name, "sample", ("triplets", "seeds"))
    _check(rows, name, "higher_is_closer", (0.0, 1.0))
    mixed = (rows["case"] == MEAN) & (rows.groupby([*cell, "pair"])["case"].transform("size") > 1)
    if mixed.any():
        row = rows.loc[mixed, [*cell, "pair"]].iloc[0].to_dict()
        raise InputError(f"{name} has the case 'mean' beside others for {row}; give the one or the others.")
    missing = rows["value"].isna() & (rows["reason"] == "")
    return rows.assign(
        rounding=rows["rounding"].fillna(0.0) if "rounding" in rows else 0.0,
        reading=rows["reading"].fillna("") if "reading" in rows else "",
        reason=rows["reason"].mask(missing, "no value is given"),
    )


def _check(rows: pd.DataFrame, name: str, column: str, allowed: tuple) -> None:
    other = rows.loc[~rows[column].isin(allowed), column]
    if len(other):
        shown = f"{other.iloc[0]:g}" if isinstance(other.iloc[0], float) else other.iloc[0]
        raise InputError(f"{name}: {column} is {shown!r}. {name_help(shown, allowed)}")


def _mean(name: str, values: pd.Series, cases: pd.Series, missing: str, confidence: float) -> dict:
    """Return the mean of the known values as ``name``, with Student's t interval or why there is none."""
    if values.isna().all():
        return {name: np.nan, "reason": missing}
    if list(cases) == [MEAN]:
        return {name: float(values.iloc[0]), "reason": _NO_CASES}
    mean = stats.mean_interval(values.dropna(), confidence)
    reason = "" if mean.n > 1 else "an interval needs two cases"
    return {name: mean.value, "ci_low": mean.ci_low, "ci_high": mean.ci_high, "reason": reason}


def _reason(rows: pd.DataFrame) -> str:
    return "; ".join(dict.fromkeys(r for r in rows["reason"] if r))


def _worst_reading(rows: pd.DataFrame) -> str:
    return next((r for r in ("missing", "reconstructed", "clear") if r in set(rows["reading"])), "")


def _gaps(rows: pd.DataFrame, cell: list[str], confidence: float) -> Iterator[dict]:
    """Yield each cell's two means and the gap between them, positive where neutral is nearer to masculine."""
    for _, group in rows.groupby(cell, sort=False):
        first = group.iloc[0]
        wide = group.pivot(index="case", columns="pair", values="value").reindex(columns=PAIRS)
        both = wide.notna().all(axis=1)
        n = group[group["case"].map(both)].groupby("pair")["n"].sum()
        feminine, masculine = (wide[pair].where(both | ~both.any()).mean() for pair in PAIRS)
        higher = first["higher_is_closer"] == 1
        difference = (wide[PAIRS[1]] - wide[PAIRS[0]]) * (1 if higher else -1)
        missing = _reason(group) or "one of the two values is missing"
        mean = _mean("gap", difference, wide.index, missing, confidence)
        yield first[[*cell, "rounding", "unit", "sample"]].to_dict() | mean | {
            "feminine": feminine,
            "masculine": masculine,
            "percent_nearer": _percent_nearer(feminine, masculine, higher, first["unit"]),
            "nearer": _nearer(mean["gap"], first["rounding"]),
            "n": int(n.min()) if len(n) else 0,
            "reading": _worst_reading(group),
        }  # fmt: skip


def _percent_nearer(feminine: float, masculine: float, higher: bool, unit: str) -> float:
    """Return by how many percent of the feminine distance the masculine one is shorter.

    A similarity of unit 1 becomes the distance 1 - similarity; other similarities have no distance.
    """
    if higher and unit != "1":
        return np.nan
    far, near = (1 - feminine, 1 - masculine) if higher else (feminine, masculine)
    return 100 * (far - near) / far if far else np.nan


def _nearer(gap: float, rounding: float) -> str:
    if np.isnan(gap):
        return ""
    # Printed values a unit apart may be equal; the margin is for binary fractions.
    if abs(gap) <= rounding * (1 + 1e-6):
        return "tie"
    return "masculine" if gap > 0 else "feminine"


def _summary(
    gaps: pd.DataFrame, name: str, metric: list[str], seed: int, replicates: int, confidence: float
) -> pd.DataFrame:
    """Summarise gaps over datasets, for each model and for all, with tests adjusted over a model's metrics."""
    gaps = gaps[gaps["sample"] == "triplets"]
    models = dict(iter(gaps.groupby("model", sort=False)))
    frames = []
    for model, some in ({ALL_MODELS: gaps, **models} if len(models) > 1 else models).items():
        groups = some.groupby(metric, sort=False) if metric else [((), some)]
        frame = pd.DataFrame(
            [
                dict(zip(metric, names, strict=True)) | _over_datasets(rows, seed, replicates, confidence)
                for names, rows in groups
            ]
        )
        for p in ("p_percent", "p_datasets", "p_cells"):
            frame[f"{p}_holm"] = stats.adjust(frame[p].to_numpy(float), "holm")
        frames.append(frame.assign(model=model))
    return tables.of(pd.concat(frames) if frames else [], name)


def _over_datasets(rows: pd.DataFrame, seed: int, replicates: int, confidence: float) -> dict:
    by = rows.groupby("dataset", sort=False)[["gap", "percent_nearer"]].mean()
    cells = rows["gap"].dropna().to_numpy()
    gap, percent = (stats.mean_interval(by[c], confidence, skip_nan=True) for c in by)
    p_datasets, p_cells = (
        stats.sign_flip(values, replicates, seed=seed).p for values in (by["gap"].dropna().to_numpy(), cells)
    )
    return {
        "gap": gap.value,
        "ci_low": gap.ci_low,
        "ci_high": gap.ci_high,
        "percent_nearer": percent.value,
        "percent_ci_low": percent.ci_low,
        "percent_ci_high": percent.ci_high,
        "p_percent": stats.one_sample_t(by["percent_nearer"], skip_nan=True).p,
        "n_datasets": gap.n,
        "n_cells": len(cells),
        **{f"n_{word}": int((rows["nearer"] == word).sum()) for word in ("masculine", "tie", "feminine")},
        "n_missing": int(rows["gap"].isna().sum()),
        "p_datasets": p_datasets,
        "smallest_p_datasets": 2 * 0.5**gap.n if gap.n else np.nan,
        "p_cells": p_cells,
        "unit": rows["unit"].iloc[0],
        "reason": "" if gap.n > 1 else "an interval needs two datasets",
    }


# -- objects (section 5) -----------------------------------------------------------------------------


def co_occurrence(similarity: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return how much more the objects of neutral images are like those of masculine than of feminine ones.

    The paper's sections 5.1 and 7.1, eq. 4 and table 6.

    Args:
        similarity: Rows of ``triplets_object_similarity``.
        confidence: Level of the intervals (Student t over triplets, or seeds), 0–1.

    Returns:
        ``triplets_co_occurrence``: cosines (0–1) and their gap, above 0 where neutral is nearer to masculine.

    Raises:
        InputError: A name is unknown, or a mean stands beside the values that it is made of.
    """
    rows = _checked(similarity.assign(unit="1", higher_is_closer=1.0), "triplets_object_similarity", _CELL)
    return tables.of(list(_gaps(rows, _CELL, confidence)), "triplets_co_occurrence")


def co_occurrence_summary(
    gap: pd.DataFrame, *, seed: int, replicates: int, confidence: float = 0.95
) -> pd.DataFrame:
    """Return the mean gap of co-occurrence over datasets, for all models together (first) and for each (section 5.1).

    Args:
        gap: Rows of ``triplets_co_occurrence``; those of one triplet over many seeds are left out.
        seed: Seed of the sign-flip tests.
        replicates: Random patterns of a sign-flip test of more than 16 values.
        confidence: Level of the intervals (Student t over datasets, each the mean of its models), 0–1.

    Returns:
        ``triplets_co_occurrence_summary``: differences of cosines.
    """
    return _summary(gap, "triplets_co_occurrence_summary", [], seed, replicates, confidence)


def chi_square(counts: pd.DataFrame, printed: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return whether objects are distributed alike over genders: chi-square tests and Cramér's V (section 5.3).

    Args:
        counts: Rows of ``triplets_object_counts``.
        printed: Rows of ``triplets_printed_chi_square``, for cells without counts; only those of all groups count.
        confidence: Level of the intervals of Cramér's V, 0–1.

    Returns:
        ``triplets_chi_square``: p as computed or printed, adjusted for all tests over the same kind of sample;
        Cramér's V (0–1) where there are counts.

    Raises:
        InputError: A prompt gender is unknown, or n_images differs within a set of prompts.
    """
    counts = _counts(counts, "triplets_object_counts").assign(dependency_group=ALL_GROUPS)
    printed = printed[printed["dependency_group"] == ALL_GROUPS]
    return _tests(counts, printed, "triplets_chi_square", confidence)


def group_chi_square(
    counts: pd.DataFrame, printed: pd.DataFrame, *, confidence: float = 0.95
) -> pd.DataFrame:
    """Return the tests of :func:`chi_square` for each dependency group (sections 6.3 and 7.1, tables 7 to 9).

    Args:
        counts: Rows of ``triplets_group_object_counts``; nouns of prompts are no group.
        printed: Rows of ``triplets_printed_chi_square``, for cells without counts; those of all groups do not count.
        confidence: Level of the intervals of Cramér's V, 0–1.

    Returns:
        ``triplets_group_chi_square``: p as computed or printed, adjusted for all tests over the same kind of sample;
        Cramér's V (0–1) where there are counts.

    Raises:
        InputError: A prompt gender or group is unknown, or n_images differs within a set of prompts.
    """
    counts = _counts(counts, "triplets_group_object_counts")
    counts = counts[counts["dependency_group"] != "nouns"]
    printed = printed[printed["dependency_group"] != ALL_GROUPS]
    return _tests(counts, printed, "triplets_group_chi_square", confidence)


def bias_score(counts: pd.DataFrame, *, minimum_count: int = 0, confidence: float = 0.95) -> pd.DataFrame:
    """Return the bias score of each object that is common enough, with its test (section 5.2, eq. 5, figure 4).

    Args:
        counts: Rows of ``triplets_object_counts``.
        minimum_count: Keep objects whose larger count reaches it; 0 takes the paper's: 10 in GCC, 5 in
            Profession, 20 in COCO, TextCaps and Flickr30k, and 10 elsewhere.
        confidence: Level of the intervals (Wilson), 0–1.

    Returns:
        ``triplets_bias_score``, 0–1: 1 with masculine prompts only, 0.5 with neither more.

    Raises:
        InputError: A prompt gender is unknown, or n_images differs within a set of prompts.
    """
    counts = _counts(counts, "triplets_object_counts")
    return _scores(counts, "triplets_bias_score", _CELL, minimum_count, confidence)


def group_bias_score(
    counts: pd.DataFrame, *, minimum_count: int = 0, confidence: float = 0.95
) -> pd.DataFrame:
    """Return the scores of :func:`bias_score` for each dependency group (section 6.3, figures 7 and 8).

    Args:
        counts: Rows of ``triplets_group_object_counts``.
        minimum_count: As of :func:`bias_score`.
        confidence: Level of the intervals (Wilson), 0–1.

    Returns:
        ``triplets_group_bias_score``, 0–1.

    Raises:
        InputError: A prompt gender or group is unknown, or n_images differs within a set of prompts.
    """
    counts = _counts(counts, "triplets_group_object_counts")
    cell = [*_CELL, "dependency_group"]
    return _scores(counts, "triplets_group_bias_score", cell, minimum_count, confidence)


def _counts(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return object counts checked: known genders and groups, one number of images for each set of prompts."""
    _check(rows, name, "prompt_gender", PROMPT_GENDERS)
    if "dependency_group" in rows:
        _check(rows, name, "dependency_group", GROUPS)
    cell = [*_CELL, "prompt_gender"]
    several = rows.groupby(cell)["n_images"].transform("nunique") > 1
    if several.any():
        row = rows.loc[several, cell].iloc[0].to_dict()
        raise InputError(f"{name}: n_images differs within {row}; it is one number for a set of prompts.")
    return rows


def _tests(counts: pd.DataFrame, printed: pd.DataFrame, name: str, confidence: float) -> pd.DataFrame:
    """Return tests computed from counts, and the printed ones where there are none, with adjusted p-values."""
    cell = [*_CELL, "dependency_group"]
    rows = [
        dict(zip(cell, names, strict=True)) | row
        for names, group in counts.groupby(cell, sort=False)
        for row in _tested(group, confidence)
    ]
    done = {tuple(row[c] for c in cell) for row in rows}
    for row in printed.to_dict("records"):
        if tuple(row[c] for c in cell) not in done:
            rows.append(row | {"evidence": "printed", "reason": row["reason"] or _NO_COUNTS})
    frame = pd.DataFrame(rows, columns=list(dict.fromkeys([*tables.schema(name).names, *cell])))
    order = {group: i for i, group in enumerate(GROUPS)}
    frame = frame.sort_values("dependency_group", key=lambda g: g.map(order).fillna(99), kind="stable")
    frame = frame.sort_values(_CELL, key=lambda c: pd.factorize(c)[0], kind="stable")
    for column, method in (("p_holm", "holm"), ("p_bh", "benjamini_hochberg")):
        frame[column] = frame.groupby("sample")["p"].transform(
            lambda p, method=method: stats.adjust(p.to_numpy(float), method)
        )
    return tables.of(frame, name)


def _tested(counts: pd.DataFrame, confidence: float) -> Iterator[dict]:
    """Yield the chi-square test of each pair and of the triplet for counts of one cell."""
    wide = counts.pivot(index="object", columns="prompt_gender", values="count").fillna(0)
    for pair, genders in TESTED.items():
        row = {"pair": pair, "p_relation": "", "sample": "triplets", "evidence": "computed"}
        absent = [g for g in genders if g not in wide]
        if absent:
            yield row | {"reason": f"no counts for {absent[0]} prompts"}
            continue
        objects = wide[list(genders)].to_numpy().astype(int)
        table, pooled = stats.pool_rare(objects)
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
        row |= {"p_relation": "=", "p": test.p, "statistic": test.statistic, "dof": test.dof}
        yield row | {"cramers_v": v.value, "ci_low": v.ci_low, "ci_high": v.ci_high, "reason": ""}


def _scores(
    counts: pd.DataFrame, name: str, cell: list[str], minimum_count: int, confidence: float
) -> pd.DataFrame:
    words = published.load("triplets_text").query("quantity == 'minimum_co_occurrence'")
    stated = dict(zip(words["subject"], words["value"], strict=True))
    frames = [
        _scored(group, minimum_count or int(stated.get(names[1], MINIMUM_COUNT)), confidence).assign(
            **dict(zip(cell, names, strict=True))
        )
        for names, group in counts.groupby(cell, sort=False)
    ]
    return tables.of(pd.concat(frames, ignore_index=True) if frames else [], name)


def _scored(counts: pd.DataFrame, minimum: int, confidence: float) -> pd.DataFrame:
    """Score the objects of one cell, with intervals and tests from the split of their occurrences."""
    sets = ["masculine", "feminine"]
    wide = counts.pivot(index="object", columns="prompt_gender", values="count")
    wide = wide.reindex(columns=sets).fillna(0)
    wide = wide[wide.max(axis=1) >= minimum]
    images = counts.groupby("prompt_gender")["n_images"].first().reindex(sets)
    if wide.empty or images.isna().any():
        return pd.DataFrame()
    masculine, feminine = (wide[s].to_numpy().astype(int) for s in sets)
    n = masculine + feminine
    share = stats.wilson_interval(masculine, n, confidence)
    # The score grows with the masculine share of occurrences, so the share's limits give the score's.
    low, high = (_bias_score(end, 1 - end, *images) for end in share)
    fair = images["masculine"] / images.sum()
    tails = np.minimum(binom.cdf(masculine, n, fair), binom.sf(masculine - 1, n, fair))
    p = np.minimum(1.0, 2 * tails)
    frame = pd.DataFrame(
        {
            "object": wide.index,
            "bias_score": _bias_score(masculine, feminine, *images),
            "ci_low": low,
            "ci_high": high,
            "p": p,
            "p_holm": stats.adjust(p, "holm"),
            "p_bh": stats.adjust(p, "benjamini_hochberg"),
            "count_feminine": feminine,
            "count_masculine": masculine,
            "n": n,
            "n_feminine": images["feminine"],
            "n_masculine": images["masculine"],
            "minimum_count": minimum,
        }
    )
    return frame.sort_values(["bias_score", "n"], ascending=[False, False], kind="stable")


# -- dependency groups (sections 6 and 7) ------------------------------------------------------------


def group_share(images: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return the share of images that hold each dependency group (section 7.2, table 11).

    Args:
        images: Rows of ``triplets_group_images``.
        confidence: Level of the intervals (Wilson, as if the images of a triplet were all alike), 0–1.

    Returns:
        ``triplets_group_share``, in %.
    """
    n = images["n_triplets"].fillna(0).round().to_numpy(int)
    share = images["percent_images"].to_numpy(float) / 100
    known = (n > 0) & np.isfinite(share)
    n = np.where(known, n, 0)
    count = np.rint(np.where(known, share, 0) * n).astype(int)
    low, high = stats.wilson_interval(count, n, confidence)
    unknown = np.where(np.isfinite(share), "the number of triplets is missing", "no value is given")
    rows = images.assign(ci_low=100 * low, ci_high=100 * high, reason=np.where(known, "", unknown))
    return tables.of(rows, "triplets_group_share")


def group_objects(counts: pd.DataFrame, printed: pd.DataFrame) -> pd.DataFrame:
    """Return how many different objects each dependency group has (section 7.2, table 12).

    Args:
        counts: Rows of ``triplets_group_object_counts``.
        printed: Rows of ``triplets_printed_group_objects``, for models and datasets without counts.

    Returns:
        ``triplets_group_objects``: objects, and their number in % of the nouns of the prompts.
    """
    found = _group_sets(counts)
    rows = [
        [*names, group, len(sets[group]), "computed"]
        for names, sets in found.items()
        for group in GROUPS
        if group in sets
    ]
    for row in printed.itertuples():
        if (row.model, row.dataset) not in found:
            rows.append([row.model, row.dataset, row.dependency_group, row.objects, "printed"])
    frame = pd.DataFrame(rows, columns=[*_CELL, "dependency_group", "objects", "evidence"])
    nouns = frame[frame["dependency_group"] == "nouns"].set_index(_CELL)["objects"]
    total = frame[_CELL].merge(nouns.rename("nouns"), left_on=_CELL, right_index=True, how="left")["nouns"]
    return tables.of(
        frame.assign(percent_of_nouns=100 * frame["objects"].astype(float) / total), "triplets_group_objects"
    )


def intersection(counts: pd.DataFrame, printed: pd.DataFrame, objects: pd.DataFrame) -> pd.DataFrame:
    """Return the share of a dependency group's objects that are in another group too (section 7.2.3, table 13).

    Args:
        counts: Rows of ``triplets_group_object_counts``.
        printed: Rows of ``triplets_printed_intersection``, for models and datasets without counts.
        objects: Rows of ``triplets_group_objects``.

    Returns:
        ``triplets_intersection``, in %, and whether each share is what the mirrored one and the groups' sizes imply.
    """
    found = _group_sets(counts)
    rows = [
        [*names, a, b, intersection_ratio(sets[a], sets[b]), "computed"]
        for names, sets in found.items()
        for a, b in product([g for g in GROUPS if g in sets], repeat=2)
    ]
    for row in printed.itertuples():
        if (row.model, row.dataset) not in found:
            rows.append([row.model, row.dataset, row.over, row.dependency_group, row.percent, "printed"])
    frame = pd.DataFrame(rows, columns=[*_CELL, "over", "dependency_group", "percent", "evidence"])
    size = objects[[*_CELL, "dependency_group", "objects"]].rename(columns={"dependency_group": "over"})
    frame = frame.merge(size, on=[*_CELL, "over"], how="left")
    keys = [*_CELL, "over", "dependency_group"]
    mirrored = frame.rename(columns={"over": "dependency_group", "dependency_group": "over"})
    mirrored = frame[keys].merge(mirrored, on=keys, how="left")
    shared = mirrored["percent"] * mirrored["objects"] / 100
    # Half a hundredth of a percent of the group, the rounding of a printed cell, is less than half an object.
    whole = (shared - shared.round()).abs() <= 0.005 * mirrored["objects"] / 100 + 1e-6
    implied = 100 * shared.round() / frame["objects"]
    known = frame["percent"].notna() & implied.notna() & whole
    agrees = (frame["percent"] - implied).abs() <= 0.005 + 1e-6
    frame = frame.assign(
        shared=shared.round().where(known),
        percent_implied=implied.where(known),
        agrees=np.where(known, np.where(agrees, "yes", "no"), ""),
    )
    return tables.of(frame, "triplets_intersection")


def _group_sets(counts: pd.DataFrame) -> dict[tuple[str, str], dict[str, set[str]]]:
    """Return the objects of each dependency group that were found at all, by model and dataset."""
    return {
        names: {group: set(rows["object"]) for group, rows in cell.groupby("dependency_group")}
        for names, cell in counts[counts["count"] > 0].groupby(_CELL, sort=False)
    }


def detector(counts: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return how often people and the detector of objects agree on the nouns of prompts (section 7.3).

    Args:
        counts: Rows of ``triplets_detector_counts``.
        confidence: Level of the intervals (Wilson, which take nouns as independent), 0–1.

    Returns:
        ``triplets_detector``, in %; the least possible recall where the nouns that only people find are not known.
    """
    rows = []
    for row in counts.itertuples():
        unknown = np.isnan(row.people_only)
        # Every noun that the detector does not find may be one that people do.
        seen = row.nouns - row.model_only if unknown else row.both + row.people_only
        for quantity, of, bound in (
            ("found_by_both", row.nouns, False),
            ("detector_precision", row.both + row.model_only, False),
            ("detector_recall", seen, unknown),
        ):
            low, high = stats.wilson_interval(int(row.both), int(of), confidence)
            rows.append(
                {
                    "model": row.model,
                    "quantity": quantity,
                    "percent": 100 * row.both / of if of else np.nan,
                    "ci_low": 100 * low,
                    "ci_high": np.nan if bound else 100 * high,
                    "n": of,
                    "bound": "at least" if bound else "",
                    "reason": _BOUNDED if bound else "",
                }
            )
    return tables.of(rows, "triplets_detector")


def as_printed(table: pd.DataFrame, value: str, columns: str) -> pd.DataFrame:
    """Return a long table in the layout of the paper: models and datasets down, ``columns`` across."""
    index = [c for c in ("model", "dataset", "pair", "over") if c in table]
    wide = table.pivot(index=index, columns=columns, values=value)
    rows = pd.MultiIndex.from_frame(table[index].drop_duplicates())
    return wide.reindex(rows)[list(dict.fromkeys(table[columns]))]
