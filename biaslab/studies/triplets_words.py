"""What the triplets notebooks say in words: findings computed from tables, and captions of figures."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from biaslab import stats
from biaslab.figures import triplets as figures
from biaslab.figures.triplets import GROUP_NAMES, METRIC_NAMES, PAIR_NAMES
from biaslab.findings import NO_MEASUREMENTS
from biaslab.studies import triplets as tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from biaslab.study import Study

_CELL = ["model", "dataset"]
EXPLICIT = ("explicitly_guided", "explicitly_independent")
IMPLICIT = ("implicitly_guided", "implicitly_independent")


def _join(parts: Iterable[str]) -> str:
    parts = list(parts)
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _name(metric: str) -> str:
    return METRIC_NAMES.get(metric, metric)


def _level(study: Study) -> str:
    return f"{100 * study.confidence:g} %"


def _alpha(study: Study) -> float:
    return round(1 - study.confidence, 10)


def _times(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _one_model(summary: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of all models together, or of the only model."""
    models = list(dict.fromkeys(summary["model"]))
    return summary[summary["model"] == (tables.ALL_MODELS if tables.ALL_MODELS in models else models[0])]


def tell(study: Study, finding: str, *, main: bool = False) -> None:
    """Record a finding as a headline; an empty one means that the source has no measurements for it."""
    study.headline(finding or NO_MEASUREMENTS, main=main)


def _span(low: float, high: float) -> str:
    return f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"


# -- section 4 ---------------------------------------------------------------------------------------


def many_triplets(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows over many triplets, without those of one triplet over many seeds."""
    return table[table["sample"] == "triplets"].reset_index(drop=True)


def shown_summary(study: Study, name: str = "triplets_gap_summary") -> pd.DataFrame:
    """Return the rows of a summary that figures and findings use: all models together, or the only model."""
    return _one_model(study.table(name)).reset_index(drop=True)


def disparity_headline(study: Study) -> str:
    """Count the metrics for which neutral is nearer to masculine beyond the variation over datasets.

    Unadjusted intervals first, then how many metrics are left after correction for their number.
    """
    rows = shown_summary(study)
    low, high = rows["percent_ci_low"], rows["percent_ci_high"]
    known = low.notna() & high.notna()
    if not known.any():
        return ""
    whose = f"{rows['model'].iloc[0]}: " if rows["model"].iloc[0] != tables.ALL_MODELS else ""
    return (
        f"{whose}Neutral prompts are nearer to masculine in {int((low > 0).sum())} of "
        f"{_times(int(known.sum()), 'metric')}, to feminine in {int((high < 0).sum())}, undecided in "
        f"{int(((low <= 0) & (high >= 0)).sum())} ({_level(study)} intervals over "
        f"{_times(int(rows['n_datasets'].max()), 'dataset')}"
        f"{_from(study, 'Table 5')}). {_after_holm(study, rows)}"
    )


def _after_holm(study: Study, rows: pd.DataFrame) -> str:
    """Say how many metrics of a summary differ after Holm's correction, by either test over datasets."""
    alpha = _alpha(study)
    t, flips = (int((rows[p] < alpha).sum()) for p in ("p_percent_holm", "p_datasets_holm"))
    possible = stats.attainable(rows["smallest_p_datasets"], alpha)
    by_signs = f"{flips} by sign flips" if possible else f"sign flips cannot reach p < {alpha:g}"
    return f"Told apart after Holm's correction: {t} by t-tests; {by_signs}."


def disparity_finding(study: Study) -> str:
    """Say for which metrics neutral is nearer to masculine beyond the variation over datasets."""
    rows = shown_summary(study)
    if rows.empty:
        return ""
    if rows["n_datasets"].max() == 1:
        return _one_dataset_finding(study)
    low, high = rows["percent_ci_low"], rows["percent_ci_high"]
    verdicts = (
        ("neutral is nearer to masculine in", low > 0),
        ("neutral is nearer to feminine in", high < 0),
        ("the interval includes 0 for", (low <= 0) & (high >= 0)),
        ("there is no interval for", low.isna() | high.isna()),
    )
    said = []
    for verdict, chosen in verdicts:
        if chosen.any():
            each = [
                f"{_name(r.metric)} {r.percent_nearer:+.1f} % {_limits(r)}" for r in rows[chosen].itertuples()
            ]
            said.append(f"{verdict} {_join(each)}")
    whose = f"{rows['model'].iloc[0]}, " if rows["model"].iloc[0] != tables.ALL_MODELS else ""
    return (
        f"How much shorter the distance of neutral to masculine is than to feminine ({whose}mean over "
        f"{_times(int(rows['n_datasets'].max()), 'dataset')}, {_level(study)} interval over datasets, "
        f"{_span(rows['n_cells'].min(), rows['n_cells'].max())} cells of model and dataset a metric"
        f"{_from(study, 'Table 5')}): {'; '.join(said)}."
    )


def _one_dataset_finding(study: Study) -> str:
    """Say each metric's gap with its interval over triplets, where one dataset allows none over datasets."""
    gap = many_triplets(study.table("triplets_disparity_gap"))
    said = [
        f"{model}, {dataset}: {_join(f'{_name(r.metric)} {_with_interval(r)}' for r in rows.itertuples())}."
        for (model, dataset), rows in gap[gap["gap"].notna()].groupby(_CELL, sort=False)
    ]
    return (
        f"How much nearer neutral is to masculine (above 0) than to feminine (below 0), with {_level(study)} intervals "
        f"over triplets where they are measured. {' '.join(said)}"
    )


def _with_interval(row) -> str:
    limits = f"{row.ci_low:.3g} to {row.ci_high:.3g}, " if isfinite(row.ci_low) else ""
    return f"{row.gap:+.3g} ({limits}n = {row.n:,.0f})"


def _limits(row) -> str:
    low, high = row.percent_ci_low, row.percent_ci_high
    return f"({low:.1f} to {high:.1f})" if isfinite(low) else "(no interval)"


def _from(study: Study, where: str) -> str:
    return f", {where}" if study.source == "published" else ""


def cells_finding(study: Study) -> str:
    """Count the cells by which gendered prompt neutral is nearer to, and name those nearer to feminine.

    Models that share a text encoder have the same prompt values; such cells count once.
    """
    gap = many_triplets(study.table("triplets_disparity_gap"))
    known = gap[gap["gap"].notna()]
    value = ["dataset", "metric", "feminine", "masculine"]
    again = (known["space"] == "prompt") & known.duplicated(["space", *value])
    known = known[~again]
    count = known["nearer"].value_counts()
    masculine, tie, feminine = (int(count.get(w, 0)) for w in ("masculine", "tie", "feminine"))
    spaces = [
        f"{space} {(rows['nearer'] == 'masculine').sum()} of {len(rows)}"
        for space, rows in known.groupby("space", sort=False)
    ]
    distinct = "distinct " if again.any() else ""
    lead = (
        f"Of {_times(len(known), f'{distinct}cell')} of model, dataset and metric{_from(study, 'Table 5')}, "
        f"neutral is nearer to masculine in {masculine} ({_join(spaces)}), nearer to feminine in {feminine}, and "
        f"tied in {tie}, where the gap is not larger than the last printed digit; "
        f"{_times(int(gap['gap'].isna().sum()), 'cell')} cannot be compared."
    )
    if again.any():
        lead += f" Another {int(again.sum())} in prompt space repeat the values of a model with the same text encoder."
    sure = known["ci_low"].notna()
    if sure.any():
        away = int(((known["ci_low"] > 0) | (known["ci_high"] < 0)).sum())
        lead += (
            f" The {_level(study)} interval over triplets excludes 0 in {away} of {int(sure.sum())} cells."
        )
    return lead + _exceptions(known)


def _exceptions(known: pd.DataFrame) -> str:
    rows = known[known["nearer"] == "feminine"]
    if rows.empty:
        return ""
    said = []
    for metric, of_metric in rows.groupby("metric", sort=False):
        where = [f"{d} ({', '.join(r['model'])})" for d, r in of_metric.groupby("dataset", sort=False)]
        said.append(f"{_name(metric)} on {_join(where)}")
    return f" Nearer to feminine: {'; '.join(said)}."


def flip_finding(study: Study) -> str:
    """Say what the sign-flip tests over datasets and over cells can and do show."""
    rows = shown_summary(study)
    if rows.empty or rows["p_datasets"].isna().all():
        return ""
    least = rows["smallest_p_datasets"].min()
    at_least = int(np.isclose(rows["p_datasets"], rows["smallest_p_datasets"]).sum())
    alpha = _alpha(study)
    sure = f"after Holm's correction {int((rows['p_datasets_holm'] < alpha).sum())} lie below {alpha:g}"
    if not stats.attainable(rows["smallest_p_datasets"], alpha):
        takes = stats.needed(stats.least_sign_flip_p, len(rows), alpha)
        sure = f"after Holm's correction none could lie below {alpha:g}, which takes {takes} datasets"
    return (
        f"A sign-flip test over {_times(int(rows['n_datasets'].max()), 'dataset')} cannot give a p below {least:.3g}; "
        f"{at_least} of {_times(len(rows), 'metric')} reach the smallest p that their datasets allow, and {sure}. "
        f"Taking all {rows['n_cells'].max():.0f} cells as independent, which models of one dataset are not, "
        f"{int((rows['p_cells_holm'] < alpha).sum())} of {len(rows)} would."
    )


def one_triplet_finding(study: Study) -> str:
    """Say what one triplet with many seeds shows."""
    rows = study.table("triplets_disparity_gap")
    rows = rows[(rows["sample"] == "seeds") & rows["gap"].notna()]
    if rows.empty:
        return ""
    said = []
    for (model, dataset), some in rows.groupby(["model", "dataset"], sort=False):
        count = some["nearer"].value_counts()
        tied = some.loc[some["nearer"] == "tie", "metric"].map(_name)
        opposite = some.loc[some["nearer"] == "feminine", "metric"].map(_name)
        said.append(
            f"{model}, {dataset}{_from(study, 'Table 10')}, n = {some['n'].max():,.0f} seeds: neutral is nearer to "
            f"masculine in {int(count.get('masculine', 0))} of {_times(len(some), 'metric')}"
            + (f", tied in {_join(tied)}" if len(tied) else "")
            + (f", nearer to feminine in {_join(opposite)}" if len(opposite) else "")
            + ("; without values per seed there is no interval." if some["ci_low"].isna().all() else ".")
        )
    return " ".join(said)


def caption_gaps(study: Study) -> str:
    """Caption of the figure of gaps by metric, model and dataset."""
    gap = study.table("triplets_disparity_gap")
    n = gap.loc[(gap["space"] != "prompt") & gap["gap"].notna(), "n"]
    lines = (
        "lines show what rounding leaves open (one unit of the last printed digit either way), not sampling error, "
        "which the paper does not print; grey marks rest on reconstructed readings, ? marks values that are not "
        "legible"
        if gap["ci_low"].isna().all()
        else f"lines are {_level(study)} intervals over triplets"
    )
    counts = f"n = {_span(n.min(), n.max())} pairs of images" if len(n) else "n: see the table"
    return (
        "Gap of each model and dataset, one panel a metric (scales differ). Right of the line neutral is nearer to "
        f"masculine, left of it nearer to feminine; {lines}. {counts}."
    )


def caption_summary(study: Study) -> str:
    """Caption of the figure of relative gaps by metric."""
    rows = shown_summary(study)
    return (
        "By how much the distance of neutral to masculine is shorter than to feminine, in percent of the latter. "
        f"Black: mean over {_times(int(rows['n_datasets'].max()), 'dataset')} with its {_level(study)} interval "
        "(Student t over datasets). Small marks: each model and dataset "
        f"({_span(rows['n_cells'].min(), rows['n_cells'].max())} a metric)."
    )


# -- section 5 ---------------------------------------------------------------------------------------


def saved(study: Study, name: str) -> pd.DataFrame | None:
    """Save table ``name`` and return it; where the source has nothing for it, say so and return ``None``."""
    table = study.table(name)
    if table.empty:
        print(f"This source has no measurements for table {name}.")
        return None
    return study.save_table(name, table)


def co_occurrence_finding(study: Study) -> str:
    """Say how much nearer the objects of neutral images are to those of masculine ones."""
    rows = many_triplets(study.table("triplets_co_occurrence"))
    known = rows[rows["gap"].notna()]
    if known.empty:
        return ""
    mean = shown_summary(study, "triplets_co_occurrence_summary").iloc[0]
    count = known["nearer"].value_counts()
    if not isfinite(mean["ci_low"]):
        each = [f"{r.model}, {r.dataset}, {_with_interval(r)}" for r in known.itertuples()]
        return (
            "How much more the objects of neutral images are like those of masculine (above 0) than of feminine ones "
            f"(below 0), gap in co-occurrence similarity with {_level(study)} intervals over triplets where they are "
            f"measured: {'; '.join(each)}."
        )
    verdict = "are not distinguishably more like those of masculine or of feminine ones"
    if mean["ci_low"] > 0:
        verdict = "are more like those of masculine than of feminine ones"
    elif mean["ci_high"] < 0:
        verdict = "are more like those of feminine than of masculine ones"
    return (
        f"The objects of neutral images {verdict}: mean gap in co-occurrence similarity {mean['gap']:+.3f} "
        f"({mean['ci_low']:.3f} to {mean['ci_high']:.3f}; {_level(study)} interval over "
        f"{_times(int(mean['n_datasets']), 'dataset')}{_from(study, 'Table 6')}); nearer to masculine in "
        f"{int(count.get('masculine', 0))} of {_times(len(known), 'cell')} of model and dataset, to feminine in "
        f"{int(count.get('feminine', 0))}, tied in {int(count.get('tie', 0))}."
    )


def caption_co_occurrence(study: Study) -> str:
    """Caption of the figure of co-occurrence similarity."""
    rows = many_triplets(study.table("triplets_co_occurrence"))
    spread = (
        "No intervals: only means are given, without values per triplet."
        if rows["ci_low"].isna().all()
        else "Intervals of the gaps are in the table."
    )
    return (
        "Mean cosine between the objects found in images of neutral and of feminine or masculine prompts, by model "
        f"and dataset; the line between the marks is the gap. n = {_span(rows['n'].min(), rows['n'].max())} "
        f"pairs of images. {spread}"
    )


def show_co_occurrence(study: Study) -> None:
    """Save the figure of co-occurrence similarity over many triplets, or say why there is none."""
    rows = many_triplets(study.table("triplets_co_occurrence"))
    if rows["gap"].notna().any():
        study.save_figure(
            "triplets_co_occurrence",
            figures.co_occurrence(rows),
            title="Objects of neutral, feminine and masculine images",
            caption=caption_co_occurrence(study),
        )
    else:
        print("This source has no co-occurrence similarities.")


def chi_square_finding(study: Study) -> str:
    """Say how many tests of all objects are significant, and what effect sizes are known."""
    rows = many_triplets(study.table("triplets_chi_square"))
    known = rows[rows["p"].notna()]
    if known.empty:
        return ""
    return f"{_tested(study, known, 'pairs and triplets, all objects together', 'section 5.3')} {_effects(known)}"


def _tested(study: Study, known: pd.DataFrame, what: str, where: str) -> str:
    alpha = _alpha(study)
    raw, bh, holm = (int((known[c] < alpha).sum()) for c in ("p", "p_bh", "p_holm"))
    return (
        f"Of {_times(len(known), 'chi-square test')} ({what}{_from(study, where)}), {raw} have p < {alpha:g}; {bh} "
        f"remain after Benjamini and Hochberg's correction and {holm} after Holm's."
    )


def _effects(known: pd.DataFrame) -> str:
    sizes = known.loc[known["cramers_v"].notna(), "cramers_v"]
    if sizes.empty:
        return (
            "No counts are printed, so there is no effect size: with large counts a very small difference gives a "
            "very small p."
        )
    return f"Cramér's V lies between {sizes.min():.3f} and {sizes.max():.3f} (median {sizes.median():.3f})."


def show_bias_scores(study: Study, scores: pd.DataFrame) -> None:
    """Save bias scores with a figure for each model (and implicit dependency group) and what they show.

    Where the source has no counts it says so.

    Args:
        study: The study.
        scores: What :func:`biaslab.studies.triplets.bias_scores` returns.
    """
    if scores.empty:
        print(
            "This source has no counts of objects, so no bias score can be computed (the paper prints none)."
        )
        return
    grouped = "dependency_group" in scores
    study.save_table("triplets_group_bias_score" if grouped else "triplets_bias_score", scores)
    rows = scores if grouped else scores.assign(dependency_group="all")
    rows = rows[rows["dependency_group"].isin((*IMPLICIT, "all"))]
    for (model, group), some in rows.groupby(["model", "dependency_group"], sort=False):
        name = f"triplets_bias_score_{_slug(model)}" + (f"_{group}" if grouped else "")
        _save_bias_scores(study, name, figures.bias_scores(some), model, group)
    study.headline(bias_finding(study, rows))


def _save_bias_scores(study: Study, name: str, figure: Figure, model: str, group: str) -> None:
    study.save_figure(
        name,
        figure,
        title=f"Objects that lean to a gender, {model}, {GROUP_NAMES[group]}",
        caption=(
            f"{model}, {GROUP_NAMES[group]}: the objects of each dataset that lean most to masculine (squares) and to "
            f"feminine (circles), with {_level(study)} Wilson intervals of the bias score; n counts occurrences. "
            "Filled marks differ from 0.5 after Holm's correction at 0.05."
        ),
    )


def bias_finding(study: Study, scores: pd.DataFrame) -> str:
    """Say how many objects of each model (and dependency group) lean to each gender after correction."""
    alpha = _alpha(study)
    said = []
    for (model, group), rows in scores.groupby(["model", "dependency_group"], sort=False):
        sure = rows["p_holm"] < alpha
        masculine, feminine = (
            int((sure & side).sum()) for side in (rows["bias_score"] > 0.5, rows["bias_score"] < 0.5)
        )
        leans = (
            f"{masculine} lean to masculine and {feminine} to feminine after Holm's correction at {alpha:g}"
        )
        if not any(_attainable(some, alpha) for _, some in rows.groupby("dataset")):
            leans = f"none is frequent enough to lean to a gender after Holm's correction at {alpha:g}"
        said.append(
            f"{model}, {GROUP_NAMES[group]}: of {_times(len(rows), 'object')} that are common enough (over "
            f"{_times(rows['dataset'].nunique(), 'dataset')}, {rows['n'].sum():,.0f} occurrences), {leans}."
        )
    return " ".join(said)


def _attainable(rows: pd.DataFrame, alpha: float) -> bool:
    """Say whether any object of one model and dataset could lean to a gender after correction."""
    images = rows[["n_feminine", "n_masculine"]].iloc[0]
    share = float(images["n_masculine"] / images.sum())
    return stats.attainable(stats.least_binomial_p(rows["n"], share), alpha)


def _slug(name: str) -> str:
    kept = "".join(c if c.isascii() and c.isalnum() else "_" for c in name.lower())
    return "_".join(filter(None, kept.split("_"))) or "model"


# -- sections 6 and 7 --------------------------------------------------------------------------------


def groups_finding(study: Study) -> str:
    """Say how many tests of each dependency group are significant after correction, and name exceptions."""
    rows = many_triplets(study.table("triplets_group_chi_square"))
    known = rows[rows["p"].notna()]
    if known.empty:
        return ""
    alpha = _alpha(study)
    counts = [
        f"{GROUP_NAMES[g]} {(known.loc[known['dependency_group'] == g, 'p_holm'] < alpha).sum()} of "
        f"{(known['dependency_group'] == g).sum()}"
        for g in GROUP_NAMES
        if (known["dependency_group"] == g).any()
    ]
    lost = known[(known["p"] < alpha) & (known["p_holm"] >= alpha)]
    tested = _tested(study, known, "groups, pairs, datasets and models", "Tables 7 to 9")
    said = f"{tested} After Holm's: {_join(counts)}."
    if 0 < len(lost) <= 5:
        named = [
            f"{r.dataset}, {GROUP_NAMES[r.dependency_group]}, {PAIR_NAMES[r.pair]}, {r.model} (p = {r.p:.3g}, Holm "
            f"{r.p_holm:.2g})"
            for r in lost.itertuples()
        ]
        said += f" Not significant any more: {'; '.join(named)}."
    return f"{said} {_effects(known)}"


def explicit_finding(study: Study) -> str:
    """Say in which datasets objects named in the prompt differ between genders, and how large other p-values are."""
    rows = many_triplets(study.table("triplets_group_chi_square"))
    rows = rows[rows["dependency_group"].isin(EXPLICIT) & rows["p"].notna()]
    if rows.empty:
        return ""
    alpha = _alpha(study)
    hit = rows["p_holm"] < alpha
    differing = [
        f"{dataset} ({int(hit[some.index].sum())} of {_times(len(some), 'test')})"
        for dataset, some in rows.groupby("dataset", sort=False)
        if hit[some.index].any()
    ]
    said = (
        f"Objects that the prompt names differ between genders in {_join(differing)} after Holm's correction."
        if differing
        else "Objects that the prompt names differ between genders in no dataset after Holm's correction."
    )
    rest = rows[~rows["dataset"].isin(rows.loc[hit, "dataset"]) & (rows["p_relation"] == "=")]
    small = int((rest["p"] < 0.1).sum())
    if rest.empty or small >= 0.1 * len(rest):
        return said
    least = rest.groupby(["dataset", "dependency_group"])["p"].min()
    dataset, group = least.idxmax()
    return (
        f"{said} In the other datasets {small} of {_times(len(rest), 'p-value')} lie below 0.1, where a tenth is "
        f"expected of independent samples without any difference, and all of {dataset}, {GROUP_NAMES[group]}, are at "
        f"least {least.max():.3g}. Prompts of a triplet share their nouns, while the test takes their images as "
        "independent: that makes it conservative, so a large p is no evidence of equality."
    )


def caption_tests(study: Study) -> str:
    """Caption of the figure of chi-square tests."""
    rows = many_triplets(study.table("triplets_group_chi_square"))
    return (
        f"p-values of {rows['p'].notna().sum()} chi-square tests of object counts, by dataset and pair (down), "
        "dependency group and model (across). Colour: what remains significant at "
        f"{_alpha(study):g} after correction for all tests shown; p below the printed bound enters as the bound. n of "
        "the tests (objects) is "
        + (
            "not printed, and neither is an effect size."
            if rows["n"].isna().all()
            else "in the table, with Cramér's V."
        )
    )


def caption_share(study: Study) -> str:
    """Caption of the figure of images that hold a group."""
    rows = study.table("triplets_group_share")
    return (
        "Share of images with at least one object (or hidden noun) of a dependency group. Lines are "
        f"{_level(study)} Wilson intervals as if the images of a triplet were all alike: n = "
        f"{_span(rows['n_triplets'].min(), rows['n_triplets'].max())} triplets "
        f"({_span(rows['n'].min(), rows['n'].max())} images)."
    )


def caption_objects(study: Study) -> str:
    """Caption of the figure of different objects by group."""
    objects = study.table("triplets_group_objects")["objects"]
    return (
        f"How many different objects (in hidden: nouns) each dependency group has, from {objects.min():,.0f} to "
        f"{objects.max():,.0f}. All that was found is counted, so there is no sampling interval; the numbers grow "
        "with the number of images, so datasets do not compare in height."
    )


def caption_intersections(rows: pd.DataFrame) -> str:
    """Caption of the figure of shared objects, from the rows of ``triplets_intersection`` that it shows."""
    odd = rows[rows["agrees"] == "no"]
    framed = "No cell disagrees with its mirrored cell."
    if len(odd):
        cells = [
            f"{r.dataset}, {GROUP_NAMES[r.over]} in {GROUP_NAMES[r.dependency_group]}: {r.percent:g} instead of "
            f"{r.percent_implied:.2f}"
            for r in odd.itertuples()
        ]
        framed = (
            f"Framed: {_times(len(odd), 'cell')} that do not follow from the mirrored cell and the groups' sizes "
            f"({'; '.join(cells)})."
        )
    return (
        "share of the different objects of the group at the left that are also in the group across, by dataset; "
        f"{len(rows)} cells. {framed} All objects are counted, so there is no sampling interval."
    )


def show_group_tables(study: Study) -> None:
    """Save what the source has on the size of dependency groups, each table with its figure."""
    parts = (
        ("triplets_group_share", figures.group_share, "Images that hold a dependency group", caption_share),
        (
            "triplets_group_objects",
            figures.group_objects,
            "Different objects by dependency group",
            caption_objects,
        ),
    )
    for name, draw, title, caption in parts:
        table = saved(study, name)
        if table is not None:
            study.save_figure(name, draw(table), title=title, caption=caption(study))


def show_intersections(study: Study) -> None:
    """Save the table of shared objects with a figure for each model."""
    table = saved(study, "triplets_intersection")
    if table is None:
        return
    for model, rows in table.groupby("model", sort=False):
        study.save_figure(
            f"triplets_intersection_{_slug(model)}",
            figures.intersections(rows),
            title=f"Objects shared by dependency groups, {model}",
            caption=f"{model}: {caption_intersections(rows)}",
        )


def share_finding(study: Study) -> str:
    """Say how often images hold each dependency group; n is what the interval rests on: triplets."""
    rows = study.table("triplets_group_share")
    rows = rows[rows["percent_images"].notna()]
    if rows.empty:
        return ""
    said = []
    for model, some in rows.groupby("model", sort=False):
        each = []
        for group, of_group in some.groupby("dependency_group", sort=False):
            low, high = (
                of_group.loc[of_group["percent_images"].idxmin()],
                of_group.loc[of_group["percent_images"].idxmax()],
            )
            each.append(f"{GROUP_NAMES[group]} in {_share(low)} to {_share(high)}")
        said.append(
            f"{model}, images with at least one object of a group ({some['dataset'].nunique()} datasets, "
            f"{_level(study)} intervals{_from(study, 'Table 11')}): {'; '.join(each)}."
        )
    return " ".join(said)


def _share(row: pd.Series) -> str:
    limits = f", {row['ci_low']:.1f} to {row['ci_high']:.1f}" if isfinite(row["ci_low"]) else ""
    n = _times(int(row["n_triplets"]), "triplet") if limits else _times(int(row["n"]), "image")
    return f"{row['percent_images']:.1f} % ({row['dataset']}{limits}, n = {n})"


def detector_finding(study: Study) -> str:
    """Say how far the detector can be trusted on nouns."""
    said = []
    for model, rows in study.table("triplets_detector").groupby("model", sort=False):
        by = rows.set_index("quantity")
        precision, recall = by.loc["detector_precision"], by.loc["detector_recall"]
        least = "at least " if recall["bound"] else ""
        limits = (
            f"lower limit {recall['ci_low']:.1f}"
            if recall["bound"]
            else f"{recall['ci_low']:.1f} to {recall['ci_high']:.1f}"
        )
        said.append(
            f"{model}{_from(study, 'section 7.3')}: people see {precision['percent']:.1f} % of the nouns that the "
            f"detector finds ({precision['ci_low']:.1f} to {precision['ci_high']:.1f}, n = {precision['n']:.0f}), and "
            f"the detector finds {least}{recall['percent']:.1f} % of the nouns that people see ({limits}, n = "
            f"{recall['n']:.0f}; {_level(study)} intervals): a noun counted as hidden may be in the image."
        )
    return " ".join(said)
