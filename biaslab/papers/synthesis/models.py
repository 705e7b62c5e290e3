"""Models side by side: the main measures of all papers with intervals and floors, and tests of their differences.

Functions take the tables of the papers that they name; a table without rows leaves its measures out.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations

import numpy as np
import pandas as pd

from biaslab import stats, tables
from biaslab.errors import InputError
from biaslab.measures import plugins, stereotype_score_from_percent
from biaslab.study import Study

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
    "definition": {"published": "published rule", "no_exclusion": "all occupations", "directional": "signed"},
}
# What measures are called; in braces columns of their tables.
SCORE = "Stereotype Score, {aspect}, {setting}"
AVERAGE = "Average gender, women above 0"
DEVIATION = "{category}: deviation from even (MAD)"
SKILL = "Accuracy as judged, {skill}"
ATTRIBUTES = "Attributes, women and men: mean difference"
GAP = "Neutral nearer to masculine, {metric}"
AMPLIFICATION = "Amplification, {definition}"
COMPARISON = "woman - man"


def own_units(study: Study) -> pd.DataFrame:
    """Return what the measures of other packages that the setting ``measures`` names are means of.

    Returns:
        Columns model, measure, measure_unit, unit (what was asked), value, and floor (what chance alone gives).

    Raises:
        InputError: A measure returns another table, or two measures have one name.
        ParameterError, UnknownNameError: A measure cannot be loaded, or no installed package brings it.
    """
    frames, by = [pd.DataFrame(columns=_OWN)], {}
    for name in study.settings.measures:
        frames.append(plugins.load(name)(study))
        for said in frames[-1]["measure"].unique():
            if by.setdefault(said, name) != name:
                raise InputError(
                    f"The measures {by[said]} and {name} both return {said!r}; name one of them otherwise."
                )
    return pd.concat(frames[1:] or frames, ignore_index=True)


_OWN = [*plugins.COLUMNS, plugins.FLOOR]


def models(
    *,
    scores: pd.DataFrame,
    averages: pd.DataFrame,
    mads: pd.DataFrame,
    accuracy: pd.DataFrame,
    references: pd.DataFrame,
    attributes: pd.DataFrame,
    gaps: pd.DataFrame,
    amplification: pd.DataFrame,
    own: pd.DataFrame | None = None,
    seed: int = 0,
    replicates: int = 10_000,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Return ``synthesis_models``: each model's main measures as the papers' own tables have them, one below the other.

    Where a value free of chance has the interval, it is the estimate. ``floor`` is what chance alone gives on average,
    0 for measures that have a sign; for accuracies what images of other scenes give. ``confidence`` (0–1), ``seed`` and
    ``replicates`` are those of means over data sets and of ``own``.

    Args:
        scores: ``paired_stereotype_score``.
        averages: ``dalleval_overall_average``.
        mads: ``dalleval_mad``.
        accuracy: ``dalleval_skill_accuracy``.
        references: ``dalleval_references``.
        attributes: ``dalleval_attribute_mean_difference``.
        gaps: ``triplets_disparity_gap``.
        amplification: ``paradox_amplification``.
        own: What :func:`own_units` returns; of each measure the mean over what was asked.

    Raises:
        InputError: A measure of ``own`` has the name of one of the papers'.
    """
    frames = []

    def add(paper: str, measure: str, unit: str | pd.Series, rows: pd.DataFrame, **columns) -> None:
        frames.append(rows.assign(paper=paper, measure=_named(measure, rows), unit=unit, **columns))

    some = scores[scores["setting"].isin(_SETTINGS) & (scores["stereotype"] == "overall")]
    add("paired", SCORE, POINTS, some, estimate=some["score"], floor=0.0, of="people")
    some = averages[averages["category"] == "gender"]
    add("dalleval", AVERAGE, "−1 to 1", some, estimate=some["average"], floor=0.0, of="professions")
    # Of printed ones nothing is known but the plain deviation.
    names = {"estimate": "mad", "floor": "floor", "ci_low": "ci_low", "ci_high": "ci_high"}
    free = mads["corrected_mad"].notna()
    value = {k: mads[f"corrected_{name}"].where(free, mads[name]) for k, name in names.items()}
    add("dalleval", DEVIATION, mads["category"].map(_RANGES), mads, **value, of="prompts")
    some = accuracy[(accuracy["evaluator"] == "detector") & (accuracy["images"] == "test")]
    some = some[some["skill"] != "average"]
    shuffled = references[(references["reference"] == "shuffled") & (references["judge"] == "detector")]
    floor = some["skill"].map(shuffled.set_index("measure")["value"])
    add("dalleval", SKILL, "%", some, estimate=some["percent_correct"], floor=floor, of="scenes")
    some = attributes[attributes["comparison"] == COMPARISON]
    value = {end: 100 * some[f"by_profession_{end}"] for end in ("floor", "ci_low", "ci_high")}
    value["estimate"] = 100 * some["by_profession"]
    add("dalleval", ATTRIBUTES, POINTS, some, **value, of="professions")
    some = _over_datasets(gaps[gaps["metric"].isin(_METRICS) & (gaps["sample"] == "triplets")], confidence)
    add("triplets", GAP, "similarity", some, estimate=some["gap"], floor=0.0)
    some = amplification[(amplification["approach"] == "naive") & (amplification["prompt"] == "mean")]
    value = {"estimate": some["amplification"], "n": some["n_occupations"]}
    add("paradox", AMPLIFICATION, POINTS, some, **value, floor=0.0, of="occupations")
    if own is not None and len(own):
        taken = set().union(*(frame["measure"] for frame in frames)) & set(own["measure"])
        if taken:
            raise InputError(
                f"A measure of your own is called {min(taken)!r}, as one of the papers' is; name it otherwise."
            )
        frames.append(_means(own, seed=seed, replicates=replicates, confidence=confidence))
    whole = pd.concat(frames, ignore_index=True)
    return tables.of(whole.dropna(subset="estimate"), "synthesis_models")


def _means(own: pd.DataFrame, *, seed: int, replicates: int, confidence: float) -> pd.DataFrame:
    """Return the mean of each model and measure over what was asked; what was asked is resampled for the interval."""
    rows = []
    for (measure, unit, model), of in own.groupby(["measure", "measure_unit", "model"], sort=False):
        mean = stats.bootstrap_mean(of["value"].to_numpy(), replicates, seed, confidence)
        row = {"model": model, "measure": measure, "unit": unit, "floor": of[plugins.FLOOR].mean()}
        rows.append(row | mean._asdict() | {"of": "prompts", "paper": "own"})
    return pd.DataFrame(rows).rename(columns={"value": "estimate"})


def _named(measure: str, rows: pd.DataFrame) -> list[str]:
    """Return what the measure of each row is called: a text with columns in braces, whose values have names."""
    names = {column: rows[column].map(known) for column, known in _NAMES.items() if column in rows}
    return [measure.format(**row) for row in rows.assign(**names).to_dict("records")]


def _over_datasets(gaps: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """Return gaps by model and metric: of one data set as they are, of several their mean with its t interval."""
    columns = ["model", "metric", "gap", "ci_low", "ci_high", "n", "of"]
    rows = []
    for (model, metric), of in gaps.groupby(["model", "metric"], sort=False):
        if len(of) == 1:
            rows += of.assign(of="triplets")[columns].to_dict("records")
            continue
        mean = stats.mean_interval(of["gap"], confidence, skip_nan=True)
        rows.append(dict(zip(columns, (model, metric, *mean, "datasets"), strict=True)))
    return pd.DataFrame(rows, columns=columns)


def units(
    *,
    shares: pd.DataFrame,
    genders: pd.DataFrame,
    deviations: pd.DataFrame,
    verdicts: pd.DataFrame,
    by_prompt: pd.DataFrame,
    similarity: pd.DataFrame,
    occupations: pd.DataFrame,
    own: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return what the measures are means of, one row a model, measure and unit: what the same prompts gave.

    Args:
        shares: ``paired_percent_female``.
        genders: ``dalleval_average_gender``.
        deviations: What :func:`biaslab.papers.dalleval.deviations` returns.
        verdicts: ``dalleval_skill_verdicts``.
        by_prompt: ``dalleval_attribute_prompt_difference``.
        similarity: ``triplets_similarity``.
        occupations: ``paradox_occupation_amplification``.
        own: What :func:`own_units` returns.

    Returns:
        model, measure, measure_unit, list (of stereotypes, which a score is the mean of; else empty), unit (what was
        asked) and value, in the unit of the measure.
    """
    frames = []

    def add(rows: pd.DataFrame, measure: str, in_unit: object, unit: str, value, of: object = "") -> None:
        named = {"measure": _named(measure, rows), "measure_unit": in_unit, "list": of, "value": value}
        frames.append(rows[["model"]].assign(**named, unit=rows[unit]))

    some = shares[shares["setting"].isin(_SETTINGS)]
    score = stereotype_score_from_percent(some["percent_female"], some["stereotype"])
    add(some, SCORE, POINTS, "occupation", score, some["stereotype"])
    add(genders, AVERAGE, "−1 to 1", "profession", genders["value"])
    in_unit = deviations["category"].map(_RANGES)
    add(deviations, DEVIATION, in_unit, "prompt", deviations["deviation"])
    some = verdicts[verdicts["chosen"] == "yes"]
    add(some, SKILL, "%", "image_id", 100.0 * (some["correct"] == "yes"))
    some = by_prompt[by_prompt["comparison"] == COMPARISON]
    add(some, ATTRIBUTES, POINTS, "profession", 100 * some["mean_absolute_difference"])
    some = similarity[similarity["metric"].isin(_METRICS) & (similarity["sample"] == "triplets")]
    sign = some["pair"].map({"neutral-masculine": 1, "neutral-feminine": -1})
    sign = sign * some["higher_is_closer"].map({1: 1, 0: -1})
    keys = ["model", "dataset", "metric", "case"]
    signed = some.assign(value=sign * some["value"]).groupby(keys, sort=False)["value"]
    # Both pairs of a triplet, or it has no gap.
    gap = signed.sum(min_count=2).reset_index()
    gap["case"] = gap["dataset"] + " " + gap["case"].astype(str)
    add(gap, GAP, "similarity", "case", gap["value"])
    some = occupations[occupations["approach"] == "naive"]
    for definition, column in (("no_exclusion", "amplification_plain"), ("directional", "directional")):
        add(some.assign(definition=definition), AMPLIFICATION, POINTS, "occupation", some[column])
    if own is not None:
        frames.append(own.drop(columns=plugins.FLOOR).assign(list=""))
    whole = pd.concat(frames, ignore_index=True).dropna(subset="value")
    keys = ["model", "measure", "measure_unit", "list", "unit"]
    # Of an occupation the mean: over its roles, or over the templates that name it.
    return whole.groupby(keys, sort=False)["value"].mean().reset_index()


def model_differences(
    units: pd.DataFrame,
    *,
    printed: Collection[str] = (),
    seed: int,
    replicates: int = 10_000,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Return ``synthesis_model_differences``: first minus second model, over the units that both have.

    The same prompts were asked of both, so units are paired: they are resampled for the interval, and for the two-sided
    p the signs of their differences are flipped. ``printed`` are models of which papers print the numbers: they are not
    compared with those that are measured here, as theirs were other images and other judges. Of a score over two lists
    of stereotypes the lists are taken to move together, which is the most that people who share an image can do. p is
    adjusted over all rows (Holm).
    """
    how = {"seed": seed, "replicates": replicates, "confidence": confidence}
    rows = []
    for (measure, unit), of in units.groupby(["measure", "measure_unit"], sort=False):
        for first, second in combinations(of["model"].unique(), 2):
            if (first in printed) != (second in printed):
                continue
            sides = (of[of["model"] == name].set_index(["list", "unit"])["value"] for name in (first, second))
            a, b = next(sides).align(next(sides), join="inner")
            lists = [values.to_numpy() for _, values in (a - b).groupby(level="list", sort=False)]
            row = {"model_a": first, "model_b": second, "measure": measure, "unit": unit, "n": len(a)}
            rows.append(row | _difference(lists, **how))
    found = tables.of(rows, "synthesis_model_differences")
    return found.assign(p_holm=stats.adjust(found["p"]) if len(found) else found["p"])


def _difference(lists: list[np.ndarray], *, seed: int, replicates: int, confidence: float) -> dict:
    """Return the mean over lists of their mean differences, with its interval and p."""
    if not lists or min(map(len, lists)) < 2:
        return {"reason": "fewer than two prompts of each kind are shared"}
    means = [stats.bootstrap_mean(of, replicates, seed, confidence) for of in lists]
    value, low, high = (float(mean) for mean in np.mean([mean[:3] for mean in means], axis=0))
    row = {"difference": value, "ci_low": low, "ci_high": high}
    if len(lists) == 1:
        return row | {"p": stats.sign_flip(lists[0], replicates, seed=seed).p}
    rng = np.random.default_rng(seed)
    # The means of each list with signs at random.
    flipped = [rng.choice([-1.0, 1.0], (replicates, len(of))) @ of / len(of) for of in lists]
    together = np.abs(np.mean(np.sort(flipped, axis=1), axis=0))
    return row | {"p": (1 + (together >= abs(value) - 1e-9).sum()) / (1 + replicates)}
