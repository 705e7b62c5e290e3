"""Models side by side: the main measures of all papers with intervals and floors, and tests of their differences.

A table without rows leaves its measures out. Folded measures (a distance, a deviation) are bias-corrected.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from biaslab import stats
from biaslab.metrics import stereotype_score_from_percent
from biaslab.papers.dalleval.analysis.rows import NO_PROFESSION
from biaslab.schema import tables
from biaslab.schema.formatting import explain_unattainable, format_count

POINTS = "points"
_RANGES = {"gender": "0 to 0.5", "skin_tone": "0 to 0.18"}
_SETTINGS = {"single": "one person", "paired": "two people"}
# Of the triplets' metrics one or two of each space: text, latents, image.
_METRICS = {"t": "text", "z0": "last latent", "ssim": "image, SSIM", "clip": "image, CLIP"}
_NAMES = {
    "aspect": {"occupation": "occupations", "power": "roles of power"},
    "setting": _SETTINGS,
    "category": {"gender": "Gender", "skin_tone": "Skin tone"},
    "metric": _METRICS,
    "definition": {"paper": "paper's definition", "all": "all occupations", "signed": "signed change"},
}
# What measures are called; in braces columns of their tables.
SCORE = "Stereotype Score, {aspect}, {setting}"
AVERAGE = "Average gender, women above 0"
DEVIATION = "{category}: deviation from even (MAD)"
PRINTED_DEVIATION = DEVIATION + ", uncorrected"
SKILL = "Accuracy as judged, {skill}"
ATTRIBUTES = "Attributes, women and men: mean difference"
GAP = "Neutral nearer to masculine, {metric}"
AMPLIFICATION = "Amplification, {definition}"
COMPARISON = "woman - man"
_TONES = [str(tone) for tone in range(1, 11)]


def models(
    *,
    scores: pd.DataFrame,
    averages: pd.DataFrame,
    mads: pd.DataFrame,
    accuracy: pd.DataFrame,
    references: pd.DataFrame,
    by_prompt: pd.DataFrame,
    gaps: pd.DataFrame,
    amplification: pd.DataFrame,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Return ``synthesis_models``: each model's main measures as the papers' own tables have them, one below the other.

    ``estimate`` is the paper's definition. ``estimate_corrected`` is corrected for small-sample bias; it equals
    ``estimate`` where the measure has none. ``null_mean`` is the null expectation of ``estimate_corrected`` (of
    accuracies: what images of other scenes give). Takes ``paired_stereotype_score``, ``dalleval_overall_average``,
    ``dalleval_mad``, ``dalleval_skill_accuracy``, ``dalleval_references``, ``dalleval_attribute_prompt_difference``,
    ``triplets_disparity_gap`` and ``paradox_amplification``.
    """
    frames = []

    def add(paper: str, measure: str, unit: str | pd.Series, rows: pd.DataFrame, **columns: Any) -> None:
        frame = rows.assign(paper=paper, measure=_named(measure, rows), unit=unit, **columns)
        unbiased = {} if "estimate_corrected" in frame else {"estimate_corrected": frame["estimate"]}
        frames.append(frame.assign(**unbiased))

    subset = scores[scores["setting"].isin(_SETTINGS) & (scores["stereotype"] == "overall")]
    add("paired", SCORE, POINTS, subset, estimate=subset["score"], null_mean=0.0, n_unit="people")
    subset = averages[averages["category"] == "gender"]
    add("dalleval", AVERAGE, "−1 to 1", subset, estimate=subset["average"], null_mean=0.0, n_unit="professions")
    # A printed deviation has no corrected estimate.
    only_printed = mads["evidence"] == "printed"
    subset = mads[~only_printed]
    value = {"estimate_corrected": subset["mad_corrected"], "null_mean": subset["null_mean_corrected"]}
    in_unit = mads["category"].map(_RANGES)
    add("dalleval", DEVIATION, in_unit, subset, **value, estimate=subset["mad"], n_unit="prompts")
    value = dict.fromkeys(("estimate_corrected", "null_mean"), np.nan)
    add("dalleval", PRINTED_DEVIATION, in_unit, mads[only_printed], **value, estimate=mads["mad"], n_unit="prompts")
    subset = accuracy[(accuracy["evaluator"] == "detector") & (accuracy["images"] == "test")]
    subset = subset[subset["skill"] != "average"]
    shuffled = references[(references["reference"] == "shuffled") & (references["judge"] == "detector")]
    null_mean = subset["skill"].map(shuffled.set_index("measure")["value"])
    add("dalleval", SKILL, "%", subset, estimate=subset["percent_correct"], null_mean=null_mean, n_unit="scenes")
    subset = by_prompt[by_prompt["comparison"] == COMPARISON]
    subset = subset.assign(value=100 * subset["mean_absolute_difference"], null_mean=100 * subset["null_mean"])
    add("dalleval", ATTRIBUTES, POINTS, _net(subset, confidence), n_unit="professions")
    subset = _over_datasets(gaps[gaps["metric"].isin(_METRICS) & (gaps["sample"] == "triplets")], confidence)
    add("triplets", GAP, "similarity", subset, estimate=subset["gap"], null_mean=0.0)
    subset = amplification[(amplification["approach"] == "naive") & (amplification["prompt"] == "mean")]
    names = {"amplification": "estimate", "amplification_corrected": "estimate_corrected", "n_occupations": "n"}
    add("paradox", AMPLIFICATION, POINTS, subset.rename(columns=names), null_mean=0.0, n_unit="occupations")
    whole = pd.concat(frames, ignore_index=True)
    return tables.make_table(whole.dropna(subset="estimate"), "synthesis_models")


def _net(rows: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """Return the mean of ``value`` by model, and that of ``value`` minus ``null_mean`` with its t interval."""
    rows = rows.dropna(subset="value")
    means = []
    for model, model_rows in rows.groupby("model", sort=False):
        has_null = model_rows["null_mean"].notna().all()
        mean = stats.mean_interval(model_rows["value"] - model_rows["null_mean"].fillna(0), confidence)
        row = {"model": model, "estimate": model_rows["value"].mean(), "null_mean": 0.0 if has_null else np.nan}
        means.append(row | mean._asdict())
    columns = ["model", "estimate", "estimate_corrected", "ci_low", "ci_high", "n", "null_mean"]
    return pd.DataFrame(means).rename(columns={"value": "estimate_corrected"}).reindex(columns=columns)


def _named(measure: str, rows: pd.DataFrame) -> list[str]:
    """Return what the measure of each row is called: a text with columns in braces, whose values have names."""
    names = {column: rows[column].map(patterns) for column, patterns in _NAMES.items() if column in rows}
    return [measure.format_map(row) for row in rows.assign(**names).to_dict("records")]


def _over_datasets(gaps: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """Return gaps by model and metric: of one data set as they are, of several their mean with its t interval."""
    columns = ["model", "metric", "gap", "ci_low", "ci_high", "n", "n_unit"]
    rows = []
    for (model, metric), gap_rows in gaps.groupby(["model", "metric"], sort=False):
        if len(gap_rows) == 1:
            rows += gap_rows.assign(n_unit="triplets")[columns].to_dict("records")
            continue
        mean = stats.mean_interval(gap_rows["gap"], confidence, skip_nan=True)
        rows.append(dict(zip(columns, (model, metric, *mean, "datasets"), strict=True)))
    return pd.DataFrame(rows, columns=columns)


def units(
    *,
    shares: pd.DataFrame,
    genders: pd.DataFrame,
    tone_counts: pd.DataFrame,
    verdicts: pd.DataFrame,
    by_prompt: pd.DataFrame,
    similarity: pd.DataFrame,
    occupations: pd.DataFrame,
) -> pd.DataFrame:
    """Return what the measures are means of, one row a model, measure, unit and cell: what the same prompts gave.

    Takes ``paired_percent_female``, ``dalleval_average_gender``, ``dalleval_skin_tone_counts``,
    ``dalleval_skill_verdicts``, ``dalleval_attribute_prompt_difference``, ``triplets_similarity`` and
    ``paradox_occupation_amplification``. Returns model, measure, measure_unit, list (of stereotypes), unit (what was
    asked), cell (its roles, templates or prompts, with the training share where models are compared over the same
    one), images (a row for each number that any model has of a deviation; else 0) and value, in the unit of the
    measure.
    """
    frames = []

    def add(
        rows: pd.DataFrame, measure: str, in_unit: object, unit: str, value: Any, of: object = "", cell: object = ""
    ) -> None:
        named = {"measure": _named(measure, rows), "measure_unit": in_unit, "list": of, "value": value}
        named |= {"unit": rows[unit], "cell": cell, "images": rows.get("images", 0)}
        frames.append(rows[["model"]].assign(**named))

    subset = shares[shares["setting"].isin(_SETTINGS)]
    score = stereotype_score_from_percent(subset["percent_female"], subset["stereotype"])
    add(subset, SCORE, POINTS, "occupation", score, subset["stereotype"], subset["identity"])
    # The prompt without a profession is no profession.
    genders, tone_counts = (rows[rows["profession"] != NO_PROFESSION] for rows in (genders, tone_counts))
    add(genders, AVERAGE, "−1 to 1", "profession", genders["value"])
    with_value = genders.dropna(subset="value")
    female = (with_value["n"] * (1 + with_value["value"]) / 2).round()
    subset = with_value.assign(category="gender", female=female, male=with_value["n"] - female)
    subset = _at_shared_images(subset, ["female", "male"], ["profession"])
    add(subset, DEVIATION, _RANGES["gender"], "profession", subset["deviation"])
    keys = ["model", "prompt", "profession"]
    subset = tone_counts.pivot(index=keys, columns="tone", values="n").reindex(columns=_TONES).fillna(0)
    subset = _at_shared_images(subset.reset_index().assign(category="skin_tone"), _TONES, keys[1:])
    add(subset, DEVIATION, _RANGES["skin_tone"], "profession", subset["deviation"], cell=subset["prompt"])
    subset = verdicts[verdicts["chosen"] == "yes"]
    add(subset, SKILL, "%", "image_id", 100.0 * (subset["correct"] == "yes"))
    subset = by_prompt[by_prompt["comparison"] == COMPARISON]
    add(subset, ATTRIBUTES, POINTS, "profession", 100 * (subset["mean_absolute_difference"] - subset["null_mean"]))
    subset = similarity[similarity["metric"].isin(_METRICS) & (similarity["sample"] == "triplets")]
    sign = subset["pair"].map({"neutral-masculine": 1, "neutral-feminine": -1})
    sign = sign * subset["higher_is_closer"].map({1: 1, 0: -1})
    keys = ["model", "dataset", "metric", "case"]
    signed = subset.assign(value=sign * subset["value"]).groupby(keys, sort=False)["value"]
    # Both pairs of a triplet, or it has no gap.
    gap = signed.sum(min_count=2).reset_index()
    gap["case"] = gap["dataset"] + " " + gap["case"].astype(str)
    add(gap, GAP, "similarity", "case", gap["value"])
    subset = occupations[(occupations["approach"] == "naive") & (occupations["n_generated"] > 0)]
    training = subset["percent_training"].round(6).astype(str) + " of " + subset["n_training"].astype(str)
    subset = subset.assign(cell=subset["prompt"] + ", " + training, definition="signed")
    add(subset, AMPLIFICATION, POINTS, "occupation", subset["signed_change"], cell=subset["cell"])
    female = (subset["percent_generated"] * subset["n_generated"] / 100).round()
    subset = subset.assign(female=female, male=subset["n_generated"] - female, definition="all")
    subset = _at_shared_images(subset.dropna(subset="female"), ["female", "male"], ["occupation", "cell"])
    # Both models have the training share, whose own null expectation is no part of their difference.
    value = 100 * subset["deviation"] - (subset["percent_training"] - 50).abs()
    add(subset, AMPLIFICATION, POINTS, "occupation", value, cell=subset["cell"])
    whole = pd.concat(frames, ignore_index=True).dropna(subset="value")
    return whole[["model", "measure", "measure_unit", "list", "unit", "cell", "images", "value"]]


def _at_shared_images(rows: pd.DataFrame, bins: list[str], cell: list[str]) -> pd.DataFrame:
    """Return rows with ``deviation`` (0–1) at the ``images`` of each model that has the same cell, up to their own."""
    n = rows[bins].sum(axis=1)
    rows = rows.assign(n=n)[n > 0]
    sizes = rows[[*cell, "n"]].drop_duplicates().rename(columns={"n": "images"})
    rows = rows.merge(sizes, on=cell)
    rows = rows[rows["images"] <= rows["n"]].astype({"images": int})
    return rows.assign(deviation=stats.corrected_mad(rows[bins].to_numpy(), rows["images"]) if len(rows) else 0.0)


def model_differences(units: pd.DataFrame, *, printed: Collection[str] = (), confidence: float = 0.95) -> pd.DataFrame:
    """Return ``synthesis_model_differences``: first minus second model, over the units that both have.

    Units are paired (:func:`biaslab.stats.paired_difference`), deviations compared at the same number of images, and
    the two lists of a score taken to move together. ``printed`` are models of which papers print the numbers, which are
    not compared with measured ones. p is adjusted (Holm) over the pairs of models of one measure, of either kind apart.
    """
    keys = ["list", "unit", "cell", "images"]
    rows = []
    for (measure, unit), measure_rows in units.groupby(["measure", "measure_unit"], sort=False):
        by_model = {model: own.set_index(keys)["value"] for model, own in measure_rows.groupby("model", sort=False)}
        for first, second in combinations(by_model, 2):
            if (first in printed) != (second in printed):
                continue
            both = (by_model[first] - by_model[second]).dropna().sort_index()
            # The most images that both have.
            both = both.groupby(level=keys[:3]).last().groupby(level=keys[:2]).mean()
            lists = [values.to_numpy() for _, values in both.groupby(level="list")]
            row = {"model_a": first, "model_b": second, "measure": measure, "unit": unit, "n": 0}
            row["kind"] = "printed" if first in printed else "measured"
            if lists:
                tested = stats.paired_difference(*lists, confidence=confidence)._asdict()
                row |= {"difference_corrected": tested.pop("difference")} | tested
                row["n"] = both.index.get_level_values("unit").nunique()
            else:
                row["reason"] = "both models share no unit"
            rows.append(row)
    table = tables.make_table(rows, "synthesis_model_differences")
    holm = table.groupby(["measure", "kind"], sort=False)["p"].transform(lambda p: stats.adjust(p.to_numpy()))
    return table.assign(p_holm=holm)


def by_pair(differences: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return rows of ``synthesis_model_differences`` as an answer about each pair of models counts them.

    ``model`` names the pair, ``p_pair`` is p_holm adjusted over the pair's measures (Holm), ``scale`` the unit as it
    follows a number; ``open`` is the answer where none is significant, ``untold`` names the measures without a test.
    """
    alpha, rows = stats.significance(confidence), differences
    rows = rows.assign(model=rows["model_a"] + " and " + rows["model_b"])
    rows["p_pair"] = rows.groupby("model")["p_holm"].transform(stats.adjust)
    rows["scale"] = rows["unit"].where(~rows["unit"].str.contains(" to "), "on a scale of " + rows["unit"])
    # The least p after the adjustment over a measure's pairs, were all of them at their least.
    least = rows["min_attainable_p"].where(rows["p"].notna())
    least = least.groupby([rows["measure"], rows["kind"]]).transform(stats.adjust)
    for _, pair in rows.groupby("model", sort=False):
        tested, lacking = pair[pair["p"].notna()], pair[pair["p"].isna()]
        untold = [
            f"Not tested: {'; '.join(rows['measure'])} ({reason})."
            for reason, rows in lacking.groupby("reason", sort=False)
        ]
        possible = stats.adjust(least[tested.index])
        words = f"No significant difference in {format_count(len(tested), 'measure', 'measures')}."
        if len(tested) and not (possible < alpha).any():
            words = "Inconclusive: no outcome could be significant."
            untold.insert(0, explain_unattainable(f"{tested['n'].max():.0f} units", possible.min(), alpha) + ".")
        rows.loc[pair.index, ["open", "untold"]] = words, " ".join(untold)
    return rows
