"""Tables of gender triplets: similarities and object counts in; gaps, tests and bias scores out.

Whether neutral prompts and their images are nearer to masculine or to feminine ones (paper section 4), which
objects go with which gender (section 5), and how objects depend on the prompt (sections 6 and 7).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.stats import binom, ncx2

from biaslab import published, sources, stats, tables
from biaslab.errors import InputError, name_help
from biaslab.measures.similarity import DEPENDENCY_GROUPS, bias_score, intersection_ratio

if TYPE_CHECKING:
    from biaslab.study import Study

PAIRS = ("neutral-feminine", "neutral-masculine")
GENDERS = ("neutral", "feminine", "masculine")
SAMPLES = ("triplets", "seeds")

ALL_MODELS = "all models"
ALL_GROUPS = "all"
GROUPS = (*DEPENDENCY_GROUPS, "nouns")
TESTED = {
    "neutral-feminine": ("neutral", "feminine"),
    "neutral-masculine": ("neutral", "masculine"),
    "feminine-masculine": ("feminine", "masculine"),
    "triplet": GENDERS,
}
# Objects are kept whose larger count reaches this, in datasets for which the paper states no threshold.
MINIMUM_COUNT = 10
LEAST_EXPECTED = 5
ONE_TRIPLET = "GCC (one triplet)"
# Sections 5.3 and 7.1 say that all p-values among pairs and triplets lie below it.
STATED_BOUND = 1e-5
MEAN = "mean"
NO_CASES = "only the mean is given, no values per triplet or seed"
NOT_LEGIBLE = "not legible in the text of table 5"
NO_COUNTS = "the paper prints no counts"

_CELL = ["model", "dataset"]
_METRIC = ["space", "metric"]


# -- published measurements --------------------------------------------------------------------------


def _stated(quantity: str, subject: str = "") -> float:
    words = published.load("triplets_text")
    return float(words.query("quantity == @quantity and subject == @subject")["value"].iloc[0])


def _published_prompt_sets() -> pd.DataFrame:
    sizes = published.load("triplets_table_4")[["dataset", "triplets", "seeds"]]
    return sizes.astype({"triplets": int, "seeds": int})


def _published_similarity() -> pd.DataFrame:
    """Return tables 5 and 10. n is nominal: triplets for prompts, triplets times seeds for images."""
    many, one = published.load("triplets_table_5"), published.load("triplets_table_10")
    size = _published_prompt_sets().set_index("dataset")
    seeds = many["dataset"].map(size["seeds"]).where(many["space"] != "prompt", 1)
    many = many.assign(sample="triplets", n=many["dataset"].map(size["triplets"]) * seeds)
    # A text embedding depends on no seed.
    n = np.where(one["space"] == "prompt", 1, _stated("seeds"))
    one = one.assign(dataset=ONE_TRIPLET, sample="seeds", n=n)
    whole = pd.concat([many, one], ignore_index=True)
    whole["rounding"] = _rounding(whole, [*_CELL, *_METRIC], np.where(whole["unit"] == "%", 2, 3))
    return whole.assign(case=MEAN, reason=np.where(whole["value"].isna(), NOT_LEGIBLE, ""))


def _rounding(rows: pd.DataFrame, cell: list[str], least: int | np.ndarray) -> pd.Series:
    """Return one unit of the last printed digit; the two values of a cell are printed alike.

    Both ending in 0 would look coarser than printed: no value has fewer than ``least`` decimals.
    """
    decimals = pd.Series(least, index=rows.index, dtype=int)
    for places in range(6, 0, -1):
        needed = (rows["value"] - rows["value"].round(places - 1)).abs() > 1e-9
        decimals = decimals.mask(needed & (decimals < places), places)
    return 10.0 ** -decimals.groupby([rows[c] for c in cell]).transform("max")


def _published_object_similarity() -> pd.DataFrame:
    """Return table 6, and what section 7.1 states for one triplet."""
    size = _published_prompt_sets().set_index("dataset")
    many = published.load("triplets_table_6")
    many = many.assign(sample="triplets", n=many["dataset"].map(size["triplets"] * size["seeds"]))
    one = pd.DataFrame(
        [["SD v2.0", ONE_TRIPLET, pair, _stated("co_occurrence_similarity", pair)] for pair in PAIRS],
        columns=[*_CELL, "pair", "value"],
    ).assign(sample="seeds", n=_stated("seeds"))
    whole = pd.concat([many, one], ignore_index=True)
    return whole.assign(case=MEAN, rounding=_rounding(whole, _CELL, 3), reading="clear", reason="")


def _published_chi_square() -> pd.DataFrame:
    """Return tables 7 to 9, and the bounds that sections 5.3 and 7.1 state."""
    printed = pd.concat([published.load(f"triplets_table_{k}") for k in (7, 8, 9)], ignore_index=True)
    printed["sample"] = "triplets"
    cells = product(printed["model"].unique(), printed["dataset"].unique(), TESTED)
    rows = [[*cell, ALL_GROUPS, "<", STATED_BOUND, "triplets", ""] for cell in cells]
    for pair, group in product(TESTED, (ALL_GROUPS, *DEPENDENCY_GROUPS)):
        known = group == ALL_GROUPS or group.startswith("implicitly")
        found = ["<", STATED_BOUND] if known else ["", np.nan]
        reason = "" if known else "not tested: fewer than 5 objects"
        rows.append(["SD v2.0", ONE_TRIPLET, pair, group, *found, "seeds", reason])
    columns = [*_CELL, "pair", "dependency_group", "p_relation", "p", "sample", "reason"]
    return pd.concat([printed.assign(reason=""), pd.DataFrame(rows, columns=columns)], ignore_index=True)


def _published_group_images() -> pd.DataFrame:
    size = published.load("triplets_table_4").set_index("dataset").astype(int)
    printed = published.load("triplets_table_11")
    return printed.assign(
        n=printed["dataset"].map(size["images"]), n_triplets=printed["dataset"].map(size["triplets"])
    )


def _published_detector_counts() -> pd.DataFrame:
    counts = {
        "n_images": _stated("rated_images"),
        "nouns": _stated("nouns"),
        "both": published.load("triplets_text").query("quantity == 'nouns_agreed' and unit == 'nouns'")[
            "value"
        ],
        "model_only": _stated("nouns_model_only"),
        "people_only": np.nan,
    }
    return pd.DataFrame(counts).assign(model="SD v2.0")


def _empty(name: str) -> pd.DataFrame:
    return tables.check(pd.DataFrame(columns=tables.schema(name).names), name)


PUBLISHED = {
    "triplets_prompt_sets": _published_prompt_sets,
    "triplets_similarity": _published_similarity,
    "triplets_object_similarity": _published_object_similarity,
    # The paper prints no counts of objects; a run that detects objects leaves these two behind.
    "triplets_object_counts": lambda: _empty("triplets_object_counts"),
    "triplets_group_object_counts": lambda: _empty("triplets_group_object_counts"),
    "triplets_printed_chi_square": _published_chi_square,
    "triplets_group_images": _published_group_images,
    "triplets_printed_group_objects": lambda: published.load("triplets_table_12").astype({"objects": int}),
    "triplets_printed_intersection": lambda: published.load("triplets_table_13"),
    "triplets_detector_counts": _published_detector_counts,
}


# -- measured tables that a source may lack ----------------------------------------------------------


def _any_of(study: Study, *names: str) -> list[pd.DataFrame]:
    """Return the measured tables ``names``.

    Raises:
        InputError: The source has none of them.
        UnknownNameError: None of them has the study's model.
    """
    found = [study.measured_or_empty(name) for name in names]
    if all(frame.empty for frame in found):
        missing = None
        for name in names:
            try:
                # A table without rows knows no model, so it cannot say which ones there are.
                if not sources.measured(name, source=study.source, ratings=study.ratings).empty:
                    study.measured(name)
            except InputError as error:
                missing = missing or error
        if missing:
            raise missing
    return found


def _check(rows: pd.DataFrame, name: str, column: str, allowed: tuple) -> None:
    other = rows.loc[~rows[column].isin(allowed), column]
    if len(other):
        value = other.iloc[0]
        shown = f"{value:g}" if isinstance(value, float) else value
        raise InputError(f"{name}: {column} is {shown!r}. {name_help(shown, allowed)}")


def _frame(rows: list[dict], name: str) -> pd.DataFrame:
    """Return ``rows`` as table ``name``; what a row does not say is missing."""
    return pd.DataFrame(rows).reindex(columns=tables.schema(name).names)


# -- similarity and its gap --------------------------------------------------------------------------


def _datasets(study: Study) -> pd.DataFrame:
    sets = study.measured_or_empty("triplets_prompt_sets")
    prompts = len(GENDERS) * sets["triplets"]
    return sets.assign(prompts=prompts, images=prompts * sets["seeds"])


def _similarity(study: Study) -> pd.DataFrame:
    return _checked(study.measured("triplets_similarity"), "triplets_similarity", [*_CELL, *_METRIC])


def _checked(rows: pd.DataFrame, name: str, cell: list[str]) -> pd.DataFrame:
    """Return measured similarities with ``rounding`` and ``reading``, which measurements need not have.

    Raises:
        InputError: A name is unknown, or a mean stands beside the values that it is made of.
    """
    _check(rows, name, "pair", PAIRS)
    _check(rows, name, "sample", SAMPLES)
    _check(rows, name, "higher_is_closer", (0.0, 1.0))
    is_mean = rows["case"] == MEAN
    cases = rows.groupby([*cell, "pair"])["case"].transform("size")
    if (is_mean & (cases > 1)).any():
        row = rows.loc[is_mean & (cases > 1), [*cell, "pair"]].iloc[0].to_dict()
        raise InputError(f"{name} has the case 'mean' beside others for {row}; give the one or the others.")
    missing = rows["value"].isna() & (rows["reason"] == "")
    return rows.assign(
        rounding=rows["rounding"].fillna(0.0) if "rounding" in rows else 0.0,
        reading=rows["reading"].fillna("") if "reading" in rows else "",
        reason=rows["reason"].mask(missing, "no value is given"),
    )


class _Mean(NamedTuple):
    value: float
    ci_low: float
    ci_high: float
    reason: str


def _mean(values: np.ndarray, cases: pd.Index, missing: str, confidence: float) -> _Mean:
    """Return the mean of the known values with Student's t interval, or why there is none."""
    values = values.astype(float)
    known = ~np.isnan(values)
    if not known.any():
        return _Mean(np.nan, np.nan, np.nan, missing)
    if list(cases) == [MEAN]:
        return _Mean(float(values[0]), np.nan, np.nan, NO_CASES)
    mean = stats.mean_interval(values[known], confidence)
    return _Mean(mean.value, mean.ci_low, mean.ci_high, "" if mean.n > 1 else "an interval needs two cases")


def _reason(rows: pd.DataFrame) -> str:
    return "; ".join(dict.fromkeys(r for r in rows["reason"] if r))


def _worst_reading(rows: pd.DataFrame) -> str:
    return next((r for r in ("missing", "reconstructed", "clear") if r in set(rows["reading"])), "")


def _disparity(study: Study) -> pd.DataFrame:
    rows = []
    keys = [*_CELL, *_METRIC, "pair"]
    for names, group in _similarity(study).groupby(keys, sort=False):
        mean = _mean(group["value"].to_numpy(), group["case"], _reason(group), study.confidence)
        row = dict(zip(keys, names, strict=True)) | mean._asdict()
        row |= {c: group[c].iloc[0] for c in ("unit", "higher_is_closer", "sample")}
        known = group["value"].notna()
        rows.append(row | {"n": int(group.loc[known, "n"].sum()), "reading": _worst_reading(group)})
    return _frame(rows, "triplets_disparity")


def _gaps(rows: pd.DataFrame, cell: list[str], confidence: float) -> Iterator[dict]:
    """Yield each cell's two means and the gap between them, positive where neutral is nearer to masculine."""
    for names, group in rows.groupby(cell, sort=False):
        first = group.iloc[0]
        wide = group.pivot(index="case", columns="pair", values="value").reindex(columns=PAIRS)
        both = wide.notna().all(axis=1)
        n = group[group["case"].map(both)].groupby("pair")["n"].sum()
        feminine, masculine = (wide[pair].where(both | ~both.any()).mean() for pair in PAIRS)
        higher = first["higher_is_closer"] == 1
        difference = (wide[PAIRS[1]] - wide[PAIRS[0]]) * (1 if higher else -1)
        missing = _reason(group) or "one of the two values is missing"
        mean = _mean(difference.to_numpy(), wide.index, missing, confidence)
        yield dict(zip(cell, names, strict=True)) | {
            "feminine": feminine,
            "masculine": masculine,
            "gap": mean.value,
            "ci_low": mean.ci_low,
            "ci_high": mean.ci_high,
            "percent_nearer": _percent_nearer(feminine, masculine, higher, first["unit"]),
            "nearer": _nearer(mean.value, first["rounding"]),
            "rounding": first["rounding"],
            "n": int(n.min()) if len(n) else 0,
            "unit": first["unit"],
            "sample": first["sample"],
            "reading": _worst_reading(group),
            "reason": mean.reason,
        }


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


def _disparity_gap(study: Study) -> pd.DataFrame:
    found = _gaps(_similarity(study), [*_CELL, *_METRIC], study.confidence)
    return _frame(list(found), "triplets_disparity_gap")


def _gap_summary(study: Study) -> pd.DataFrame:
    return _summary(study, study.table("triplets_disparity_gap"), "triplets_gap_summary", _METRIC)


def _summary(study: Study, gaps: pd.DataFrame, name: str, metric: list[str]) -> pd.DataFrame:
    """Summarise gaps over datasets, for each model and for all, with tests adjusted over a model's metrics."""
    gaps = gaps[gaps["sample"] == "triplets"]
    found = dict(iter(gaps.groupby("model", sort=False)))
    if len(found) > 1:
        found = {ALL_MODELS: gaps, **found}
    frames = []
    for model, some in found.items():
        if metric:
            groups = [(dict(zip(metric, k, strict=True)), g) for k, g in some.groupby(metric, sort=False)]
        else:
            groups = [({}, some)]
        frame = pd.DataFrame([names | _over_datasets(study, rows) for names, rows in groups])
        for p in ("p_percent", "p_datasets", "p_cells"):
            frame[f"{p}_holm"] = stats.adjust(frame[p].to_numpy(float), "holm")
        frames.append(frame.assign(model=model))
    whole = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    return whole.reindex(columns=tables.schema(name).names)


def _over_datasets(study: Study, rows: pd.DataFrame) -> dict:
    by = rows.groupby("dataset", sort=False)[["gap", "percent_nearer"]].mean()
    by_dataset, cells = by["gap"].dropna().to_numpy(), rows["gap"].dropna().to_numpy()
    gap, percent = (stats.mean_interval(by[c], study.confidence, skip_nan=True) for c in by)
    tests = [
        stats.sign_flip(values, study.bootstrap_replicates, seed=study.seed) for values in (by_dataset, cells)
    ]
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
        "p_datasets": tests[0].p,
        "smallest_p_datasets": 2 * 0.5**gap.n if gap.n else np.nan,
        "p_cells": tests[1].p,
        "unit": rows["unit"].iloc[0],
        "reason": "" if gap.n > 1 else "an interval needs two datasets",
    }


def _co_occurrence(study: Study) -> pd.DataFrame:
    name = "triplets_object_similarity"
    rows = _any_of(study, name, "triplets_object_counts", "triplets_printed_chi_square")[0]
    rows = _checked(rows.assign(unit="1", higher_is_closer=1.0), name, _CELL)
    return _frame(list(_gaps(rows, _CELL, study.confidence)), "triplets_co_occurrence")


def _co_occurrence_summary(study: Study) -> pd.DataFrame:
    return _summary(study, study.table("triplets_co_occurrence"), "triplets_co_occurrence_summary", [])


# -- objects: tests ----------------------------------------------------------------------------------


def _counts(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return object counts checked: known genders, one number of images for each set of prompts."""
    _check(rows, name, "prompt_gender", GENDERS)
    cell = [*_CELL, "prompt_gender"]
    several = rows.groupby(cell)["n_images"].transform("nunique") > 1
    if several.any():
        row = rows.loc[several, cell].iloc[0].to_dict()
        raise InputError(f"{name}: n_images differs within {row}; it is one number for a set of prompts.")
    return rows


def pool_rare(counts: np.ndarray, least_expected: float = LEAST_EXPECTED) -> tuple[np.ndarray, int]:
    """Pool objects too rare for a chi-square test into one row.

    Args:
        counts: Occurrences, shape (objects, sets), whole numbers of 0 or more.
        least_expected: Smallest expected count that an object needs in every set.

    Returns:
        The table with rare objects in its last row (and the rarest common one, where they are still too few
        without it), and how many objects that row holds (0: nothing was pooled). Objects that never occur
        are left out.
    """
    counts = np.asarray(counts)
    counts = counts[counts.sum(axis=1) > 0]
    counts = counts[np.argsort(-counts.sum(axis=1), kind="stable")]
    sets = counts.sum(axis=0)
    if not counts.size or sets.min() == 0:
        return counts, 0

    def expected(totals: np.ndarray) -> np.ndarray:
        return totals * sets.min() / sets.sum()

    common = int((expected(counts.sum(axis=1)) >= least_expected).sum())
    rest = counts[common:].sum()
    if 0 < expected(rest) < least_expected and common:
        common -= 1
    pooled = len(counts) - common
    if not pooled:
        return counts, 0
    return np.vstack([counts[:common], counts[common:].sum(axis=0)]), pooled


def cramers_v(
    statistic: float, dof: int, n: int, smaller_side: int, confidence: float = 0.95
) -> stats.Estimate:
    """Return Cramér's V (0–1) of a chi-square statistic, less what chance alone adds to it.

    V = sqrt(max(0, statistic - dof) / (n * (smaller_side - 1))): the statistic's expectation is dof plus the
    noncentrality, which is what V measures (Bergsma 2013). The limits are those of the noncentrality (Smithson
    2003). ``smaller_side`` is the smaller of the numbers of rows and columns. NaN where statistic is.
    """
    if np.isnan(statistic) or n == 0:
        return stats.Estimate(np.nan, np.nan, np.nan, n)
    tail = (1 - confidence) / 2
    ends = (
        _noncentrality(statistic, dof, 1 - tail),
        max(0.0, statistic - dof),
        _noncentrality(statistic, dof, tail),
    )
    low, value, high = (min(1.0, float(np.sqrt(end / (n * (smaller_side - 1))))) for end in ends)
    return stats.Estimate(value, low, high, n)


def _noncentrality(statistic: float, dof: int, probability: float) -> float:
    """Return the noncentrality at which a chi-square lies below ``statistic`` with ``probability``; at least 0."""

    def excess(noncentrality: float) -> float:
        return float(ncx2.cdf(statistic, dof, noncentrality)) - probability

    if excess(0.0) <= 0:
        return 0.0
    high = statistic + 1.0
    while excess(high) > 0:
        high *= 2
    return float(brentq(excess, 0.0, high, xtol=1e-9, rtol=1e-9))


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
        table, pooled = pool_rare(objects)
        row |= {
            "n": int(objects.sum()),
            "n_objects": int((objects.sum(axis=1) > 0).sum()),
            "n_pooled": pooled,
        }
        if len(table) < 2:
            yield row | {"reason": "fewer than two objects are common enough"}
            continue
        test = stats.chi_square(table)
        if not test.valid:
            yield row | {"reason": test.reason}
            continue
        v = cramers_v(test.statistic, test.dof, test.n, min(table.shape), confidence)
        row |= {"p_relation": "=", "p": test.p, "statistic": test.statistic, "dof": test.dof}
        yield row | {"cramers_v": v.value, "ci_low": v.ci_low, "ci_high": v.ci_high, "reason": ""}


def _tests(study: Study, counts: pd.DataFrame, printed: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return tests computed from counts, and the printed ones where there are none, with adjusted p-values."""
    cell = [*_CELL, "dependency_group"]
    rows = [
        dict(zip(cell, names, strict=True)) | row
        for names, group in counts.groupby(cell, sort=False)
        for row in _tested(group, study.confidence)
    ]
    done = {tuple(row[c] for c in cell) for row in rows}
    for row in printed.to_dict("records"):
        if tuple(row[c] for c in cell) not in done:
            rows.append(row | {"evidence": "printed", "reason": row["reason"] or NO_COUNTS})
    frame = _frame(rows, name).assign(dependency_group=[row["dependency_group"] for row in rows])
    order = {group: i for i, group in enumerate(GROUPS)}
    frame = frame.sort_values("dependency_group", key=lambda g: g.map(order).fillna(99), kind="stable")
    frame = frame.sort_values(_CELL, key=lambda c: pd.factorize(c)[0], kind="stable")
    for column, method in (("p_holm", "holm"), ("p_bh", "benjamini_hochberg")):
        frame[column] = frame.groupby("sample")["p"].transform(
            lambda p, method=method: stats.adjust(p.to_numpy(float), method)
        )
    return frame[tables.schema(name).names].reset_index(drop=True)


def _chi_square(study: Study) -> pd.DataFrame:
    names = ("triplets_object_counts", "triplets_printed_chi_square")
    counts, printed = _any_of(study, *names)
    counts = _counts(counts, names[0]).assign(dependency_group=ALL_GROUPS)
    printed = printed[printed["dependency_group"] == ALL_GROUPS]
    return _tests(study, counts, printed, "triplets_chi_square")


def _group_chi_square(study: Study) -> pd.DataFrame:
    names = ("triplets_group_object_counts", "triplets_printed_chi_square")
    counts, printed = _any_of(study, *names)
    _check(counts, names[0], "dependency_group", GROUPS)
    counts = _counts(counts[counts["dependency_group"] != "nouns"], names[0])
    printed = printed[printed["dependency_group"] != ALL_GROUPS]
    return _tests(study, counts, printed, "triplets_group_chi_square")


# -- objects: bias scores ----------------------------------------------------------------------------


def bias_scores(study: Study, minimum_count: int = 0, *, by_group: bool = False) -> pd.DataFrame:
    """Return the bias score (paper, eq. 5) of each object that is common enough.

    Args:
        study: The study, whose source has ``triplets_object_counts`` (by group: ``triplets_group_object_counts``);
            without them there are no rows.
        minimum_count: Keep objects whose larger count reaches it; 0 takes the paper's: 10 in GCC, 5 in
            Profession, 20 in COCO, TextCaps and Flickr30k, and 10 elsewhere.
        by_group: Whether counts are by dependency group.

    Raises:
        InputError: A prompt gender is unknown, or n_images differs within a set of prompts.
    """
    name = "triplets_group_bias_score" if by_group else "triplets_bias_score"
    measured = "triplets_group_object_counts" if by_group else "triplets_object_counts"
    counts = _counts(study.measured_or_empty(measured), measured)
    cell = [*_CELL, *(["dependency_group"] if by_group else [])]
    frames = [
        _scored(group, minimum_count or _minimum_count(names[1]), study.confidence).assign(
            **dict(zip(cell, names, strict=True))
        )
        for names, group in counts.groupby(cell, sort=False)
    ]
    whole = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    return tables.check(whole.reindex(columns=tables.schema(name).names), name)


def _minimum_count(dataset: str) -> int:
    words = published.load("triplets_text").query("quantity == 'minimum_co_occurrence'")
    return int(dict(zip(words["subject"], words["value"], strict=True)).get(dataset, MINIMUM_COUNT))


def _scored(counts: pd.DataFrame, minimum: int, confidence: float) -> pd.DataFrame:
    """Score the objects of one cell, with intervals and tests from the split of their occurrences."""
    sets = ("masculine", "feminine")
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
    low, high = (bias_score(end, 1 - end, *images) for end in share)
    fair = images["masculine"] / images.sum()
    p = 2 * np.minimum(binom.cdf(masculine, n, fair), binom.sf(masculine - 1, n, fair))
    p = np.minimum(1.0, p)
    frame = pd.DataFrame(
        {
            "object": wide.index,
            "bias_score": bias_score(masculine, feminine, *images),
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


# -- dependency groups -------------------------------------------------------------------------------


def _group_share(study: Study) -> pd.DataFrame:
    rows = study.measured_or_empty("triplets_group_images")
    n = rows["n_triplets"].fillna(0).round().to_numpy(int)
    share = rows["percent_images"].to_numpy(float) / 100
    known = (n > 0) & np.isfinite(share)
    n = np.where(known, n, 0)
    count = np.rint(np.where(known, share, 0) * n).astype(int)
    low, high = stats.wilson_interval(count, n, study.confidence)
    reason = np.where(
        np.isfinite(share), np.where(known, "", "the number of triplets is missing"), "no value is given"
    )
    return rows.assign(ci_low=100 * low, ci_high=100 * high, reason=reason)


def _group_sets(study: Study) -> dict[tuple[str, str], dict[str, set[str]]]:
    """Return the objects of each dependency group that were found at all, by model and dataset."""
    counts = study.measured_or_empty("triplets_group_object_counts")
    counts = counts[counts["count"] > 0]
    return {
        names: {group: set(rows["object"]) for group, rows in cell.groupby("dependency_group")}
        for names, cell in counts.groupby(_CELL, sort=False)
    }


def _group_objects(study: Study) -> pd.DataFrame:
    found = _group_sets(study)
    rows = [
        [*names, group, len(sets[group]), "computed"]
        for names, sets in found.items()
        for group in GROUPS
        if group in sets
    ]
    printed = study.measured_or_empty("triplets_printed_group_objects")
    for row in printed.itertuples():
        if (row.model, row.dataset) not in found:
            rows.append([row.model, row.dataset, row.dependency_group, row.objects, "printed"])
    frame = pd.DataFrame(rows, columns=[*_CELL, "dependency_group", "objects", "evidence"])
    nouns = frame[frame["dependency_group"] == "nouns"].set_index(_CELL)["objects"]
    total = frame[_CELL].merge(nouns.rename("nouns"), left_on=_CELL, right_index=True, how="left")["nouns"]
    return frame.assign(percent_of_nouns=100 * frame["objects"].astype(float) / total)


def _intersection(study: Study) -> pd.DataFrame:
    found = _group_sets(study)
    rows = [
        [*names, a, b, intersection_ratio(sets[a], sets[b]), "computed"]
        for names, sets in found.items()
        for a, b in product([g for g in GROUPS if g in sets], repeat=2)
    ]
    for row in study.measured_or_empty("triplets_printed_intersection").itertuples():
        if (row.model, row.dataset) not in found:
            rows.append([row.model, row.dataset, row.over, row.dependency_group, row.percent, "printed"])
    frame = pd.DataFrame(rows, columns=[*_CELL, "over", "dependency_group", "percent", "evidence"])
    size = study.table("triplets_group_objects")[[*_CELL, "dependency_group", "objects"]]
    frame = frame.merge(size.rename(columns={"dependency_group": "over"}), on=[*_CELL, "over"], how="left")
    return _implied(frame)


def _implied(frame: pd.DataFrame) -> pd.DataFrame:
    """Add how many objects two groups share by the mirrored cell, and whether the cell fits that."""
    keys = [*_CELL, "over", "dependency_group"]
    mirrored = frame.rename(columns={"over": "dependency_group", "dependency_group": "over"})
    mirrored = frame[keys].merge(mirrored, on=keys, how="left")
    shared = mirrored["percent"] * mirrored["objects"] / 100
    # Half a hundredth of a percent of the group, the rounding of a printed cell, is less than half an object.
    slack = 0.005 * mirrored["objects"] / 100 + 1e-6
    whole = (shared - shared.round()).abs() <= slack
    implied = 100 * shared.round() / frame["objects"]
    known = frame["percent"].notna() & implied.notna() & whole
    agrees = (frame["percent"] - implied).abs() <= 0.005 + 1e-6
    return frame.assign(
        shared=shared.round().where(known),
        percent_implied=implied.where(known),
        agrees=np.where(known, np.where(agrees, "yes", "no"), ""),
    )


def _detector(study: Study) -> pd.DataFrame:
    rows = []
    for counts in study.measured_or_empty("triplets_detector_counts").itertuples():
        seen, bound = counts.both + counts.people_only, ""
        if np.isnan(seen):
            # Every noun that the detector does not find may be one that people do.
            seen, bound = counts.nouns - counts.model_only, "at least"
        for quantity, of, limit in (
            ("found_by_both", counts.nouns, ""),
            ("detector_precision", counts.both + counts.model_only, ""),
            ("detector_recall", seen, bound),
        ):
            low, high = stats.wilson_interval(int(counts.both), int(of), study.confidence)
            row = {"model": counts.model, "quantity": quantity, "n": of, "bound": limit}
            row |= {"percent": 100 * counts.both / of if of else np.nan, "ci_low": 100 * low}
            reason = (
                "how many nouns only people find is not given, so there is no upper limit" if limit else ""
            )
            rows.append(row | {"ci_high": np.nan if limit else 100 * high, "reason": reason})
    return _frame(rows, "triplets_detector")


# -- layouts of printed tables -----------------------------------------------------------------------


def as_printed(table: pd.DataFrame, value: str, columns: str) -> pd.DataFrame:
    """Return a long table in the layout of the paper: models and datasets down, ``columns`` across."""
    index = [c for c in ("model", "dataset", "pair", "over") if c in table]
    order = list(dict.fromkeys(table[columns]))
    wide = table.pivot(index=index, columns=columns, values=value)
    rows = pd.MultiIndex.from_frame(table[index].drop_duplicates())
    return wide.reindex(rows)[order]


TABLES = {
    "triplets_datasets": _datasets,
    "triplets_disparity": _disparity,
    "triplets_disparity_gap": _disparity_gap,
    "triplets_gap_summary": _gap_summary,
    "triplets_co_occurrence": _co_occurrence,
    "triplets_co_occurrence_summary": _co_occurrence_summary,
    "triplets_chi_square": _chi_square,
    "triplets_bias_score": bias_scores,
    "triplets_group_chi_square": _group_chi_square,
    "triplets_group_bias_score": lambda study: bias_scores(study, by_group=True),
    "triplets_group_share": _group_share,
    "triplets_group_objects": _group_objects,
    "triplets_intersection": _intersection,
    "triplets_detector": _detector,
}
