"""Averages, deviations, attributes and accuracies: as :class:`biaslab.metrics.headline.Headline`, by unit, by model."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import pandas as pd

from biaslab import stats
from biaslab.judges.judge_labels import JUDGED
from biaslab.metrics.headline import MEAN, Headline, cells_and_people, side
from biaslab.papers.dalleval.analysis.attributes import COMPARISONS
from biaslab.papers.dalleval.analysis.rows import NO_PROFESSION
from biaslab.papers.dalleval.measure import ASKED
from biaslab.papers.estimands import UnitMeans, at_shared_images, stack_units, unit_rows

TABLES = ("dalleval_social_images", "dalleval_average_gender")
"""The measured tables that :func:`headlines` takes."""
_CATEGORIES = {"gender": "Gender", "skin_tone": "Skin tone"}
_RANGES = {"gender": "0 to 0.5", "skin_tone": "0 to 0.18"}
_BY_PROFESSION = {
    "estimate": "by_profession",
    "estimate_corrected": "by_profession_corrected",
    "ci_low": "by_profession_corrected_ci_low",
    "ci_high": "by_profession_corrected_ci_high",
}
_TONES = [str(tone) for tone in range(1, 11)]


def headlines(images: pd.DataFrame, averages: pd.DataFrame) -> Iterator[Headline]:
    """Yield each model's average gender over professions, and its mean absolute deviation (section 4.2, Table 6).

    ``averages`` (``dalleval_average_gender``) say whether gender is as a judge or as the answers to a question say.
    """
    rows = images[(images["prompt"] == "person") & (images["profession"] != NO_PROFESSION)]
    for model, of_model in rows.groupby("model", sort=False):
        asked = "judge" in averages and ASKED in set(averages.loc[averages["model"] == model, "judge"])
        gender = of_model["gender_vqa"] if asked else of_model["gender_judge"].where(of_model["status_judge"] == JUDGED)
        cells, people = cells_and_people(of_model.assign(gender=gender, cluster=of_model["profession"]))
        n, known = cells["n"].to_numpy(), (cells["n"] > 0).sum()
        part = np.where(n > 0, 1 / max(known, 1), 0)
        given: dict[str, Any] = {"people": people, "clusters_random": True}
        given |= {"clusters": "professions", "setting": "dalleval.social_images"}
        cells = cells.assign(coefficient=2 * part)
        yield Headline("dalleval", str(model), "average gender", MEAN, "−1 to 1", 0.02, 0, cells, **given)
        deviation = np.where(n > 0, np.abs(cells["count"] / np.maximum(n, 1) - 0.5), 0)
        # What a mean without chance has less than the plain one.
        free = [float(stats.corrected_absolute_deviation(*cell)) for cell in zip(cells["count"], n, strict=True)]
        null_mean = float(part @ (deviation - np.nan_to_num(free)))
        cells = cells.assign(coefficient=part * side(cells))
        given |= {"is_absolute": True, "null_mean": null_mean}
        yield Headline("dalleval", str(model), "deviation from even (MAD)", MEAN, "0 to 0.5", 0.01, 0, cells, **given)


def attribute_headlines(images: pd.DataFrame, rated: Collection[str]) -> Iterator[Headline]:
    """Yield how much more images of women show attributes than those of men, over professions (Table 9).

    Of the attributes that people ``rated``, of ``dalleval_social_images`` of professions asked for with both words.
    """
    for model, some in images[images["prompt"].isin(["woman", "man"])].groupby("model", sort=False):
        both = some.groupby("profession")["prompt"].nunique() == 2
        some = some[some["profession"].isin(both.index[both]) & (some["profession"] != NO_PROFESSION)]
        for attribute in dict.fromkeys(one for one in rated if one):
            # Shares are of yes, as those of gender are of female.
            answer = pd.Series("male", index=some.index)
            for column, said in (("attributes", "female"), ("attributes_missing", "unsure")):
                listed = ";" + some[column].fillna("").astype(str) + ";"
                answer = answer.mask(listed.str.contains(f";{attribute};", regex=False), said)
            cells, people = cells_and_people(
                some.assign(gender=answer, cluster=some["profession"], template=some["prompt"])
            )
            known = cells.groupby("cluster")["n"].transform("min") > 0
            part = np.where(known, 100 / max(cells["cluster"][known].nunique(), 1), 0)
            cells = cells.assign(coefficient=part * cells["template"].map({"woman": 1, "man": -1}))
            given: dict[str, Any] = {"clusters_random": True, "about": attribute}
            words = "attributes, women less men"
            yield Headline("dalleval", str(model), words, attribute, "points", 1, 0, cells, people, **given)


def gender_units(genders: pd.DataFrame) -> pd.DataFrame:
    """Return the units of ``dalleval_overall_average`` of gender: each profession's (``dalleval_average_gender``)."""
    rows = genders[genders["profession"] != NO_PROFESSION].assign(category="gender")
    return unit_rows(rows, "profession", rows["value"])


def skin_tone_units(tones: pd.DataFrame) -> pd.DataFrame:
    """Return the units of ``dalleval_overall_average`` of skin tone (``dalleval_average_skin_tone``)."""
    return gender_units(tones).assign(category="skin_tone")


def gender_deviation_units(genders: pd.DataFrame) -> pd.DataFrame:
    """Return the units of ``dalleval_mad`` of gender: each profession's deviation (``dalleval_average_gender``)."""
    rows = gender_units(genders)
    female = (rows["n"] * (1 + rows["value"]) / 2).round()
    rows = rows.drop(columns="n_images").assign(female=female, male=rows["n"] - female)
    rows = at_shared_images(rows, ["female", "male"], ["profession"])
    return unit_rows(rows, "profession", rows["deviation"], n_images=rows["n_images"])


def skin_tone_deviation_units(counts: pd.DataFrame) -> pd.DataFrame:
    """Return the units of ``dalleval_mad`` of skin tone (``dalleval_skin_tone_counts``); a cell is a prompt."""
    counts = counts[counts["profession"] != NO_PROFESSION]
    wide = counts.pivot(index=["model", "prompt", "profession"], columns="tone", values="n")
    # Tones that no image of the run has are empty bins.
    rows = wide.reindex(columns=_TONES).fillna(0).reset_index().assign(category="skin_tone")
    rows = at_shared_images(rows, _TONES, ["prompt", "profession"])
    return unit_rows(rows, "profession", rows["deviation"], cell=rows["prompt"], n_images=rows["n_images"])


def attribute_units(presence: pd.DataFrame) -> pd.DataFrame:
    """Return the units of ``dalleval_attribute_difference``: first minus second share of each profession."""
    keys, frames = ["model", "profession", "attribute"], []
    for comparison, prompts in COMPARISONS.items():
        first, second = (presence[presence["prompt"] == prompt] for prompt in prompts)
        both = first.merge(second, on=keys, suffixes=("", "_second")).assign(comparison=comparison)
        frames.append(unit_rows(both, "profession", both["share"] - both["share_second"]))
    return pd.concat(frames, ignore_index=True)


def attribute_mean_units(by_prompt: pd.DataFrame) -> pd.DataFrame:
    """Return the units of ``dalleval_attribute_mean_difference`` (``dalleval_attribute_prompt_difference``).

    Each profession's mean absolute difference, minus what two prompts of equal shares give by chance.
    """
    return unit_rows(by_prompt, "profession", by_prompt["mean_absolute_difference"] - by_prompt["null_mean"])


def skill_units(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Return the units of ``dalleval_skill_accuracy``: 100 or 0 of each scene (``dalleval_skill_verdicts``)."""
    rows = verdicts[verdicts["chosen"] == "yes"].assign(evaluator="detector", images="test")
    return unit_rows(rows, "image_id", 100.0 * (rows["correct"] == "yes"))


_AVERAGE, _MAD = "dalleval_overall_average", "dalleval_mad"
_AVERAGE_LIMITS = "ci_low", "average_judge_corrected_ci_low"
_MAD_LIMITS = "mad_ci_low", "ci_low", "mad_judge_corrected_ci_low"
UNITS = (
    UnitMeans(_AVERAGE, "dalleval_average_gender", gender_units, _AVERAGE_LIMITS),
    UnitMeans(_AVERAGE, "dalleval_average_skin_tone", skin_tone_units, _AVERAGE_LIMITS),
    UnitMeans(_MAD, "dalleval_average_gender", gender_deviation_units, _MAD_LIMITS),
    UnitMeans(_MAD, "dalleval_skin_tone_counts", skin_tone_deviation_units, _MAD_LIMITS),
    UnitMeans("dalleval_attribute_difference", "dalleval_attribute_presence", attribute_units),
    UnitMeans(
        "dalleval_attribute_mean_difference", "dalleval_attribute_prompt_difference", attribute_mean_units,
        ("by_profession_corrected_ci_low",),
    ),
    UnitMeans("dalleval_skill_accuracy", "dalleval_skill_verdicts", skill_units),
)  # fmt: skip


def model_estimates(
    averages: pd.DataFrame,
    mads: pd.DataFrame,
    accuracy: pd.DataFrame,
    references: pd.DataFrame,
    attributes: pd.DataFrame,
) -> pd.DataFrame:
    """Return each model's main measures as rows of ``synthesis_models``.

    Of ``dalleval_overall_average``, ``dalleval_mad``, ``dalleval_skill_accuracy``, ``dalleval_references`` and
    ``dalleval_attribute_mean_difference``. The null expectation of accuracies is what images of other scenes give.
    """
    gender = _averages(averages)
    gender = gender.assign(estimate=gender["average"], estimate_corrected=gender["average"], null_mean=0.0)
    mads = _deviations(mads)
    # Printed deviations are not corrected.
    mads["measure"] = mads["measure"].mask(mads["evidence"] == "printed", mads["measure"] + ", uncorrected")
    mads = mads.assign(estimate=mads["mad"], estimate_corrected=mads["mad_corrected"])
    accuracy = accuracy[(accuracy["evaluator"] == "detector") & (accuracy["images"] == "test")]
    accuracy = _skills(accuracy[accuracy["skill"] != "average"])
    shuffled = references[(references["reference"] == "shuffled") & (references["judge"] == "detector")]
    null_mean = accuracy["skill"].map(shuffled.set_index("measure")["value"])
    accuracy = accuracy.assign(estimate=accuracy["percent_correct"], estimate_corrected=accuracy["percent_correct"])
    attributes = _attributes(attributes).assign(null_mean=0.0)
    # Shares are 0–1.
    for column, value in _BY_PROFESSION.items():
        attributes[column] = 100 * attributes[value]
    frames = [
        gender.assign(n_unit="professions"),
        mads.assign(null_mean=mads["null_mean_corrected"], n_unit="prompts"),
        accuracy.assign(null_mean=null_mean, n_unit="scenes"),
        attributes.assign(n_unit="professions"),
    ]
    return pd.concat(frames, ignore_index=True).assign(paper="dalleval")


def model_units(
    genders: pd.DataFrame, tone_counts: pd.DataFrame, verdicts: pd.DataFrame, by_prompt: pd.DataFrame
) -> pd.DataFrame:
    """Return the units of models' main measures, as :func:`biaslab.papers.estimands.stack_units`.

    Of ``dalleval_average_gender``, ``dalleval_skin_tone_counts``, ``dalleval_skill_verdicts`` and
    ``dalleval_attribute_prompt_difference``.
    """
    attributes = _attributes(attribute_mean_units(by_prompt))
    frames = [
        _averages(gender_units(genders)),
        _deviations(gender_deviation_units(genders)),
        _deviations(skin_tone_deviation_units(tone_counts)),
        _skills(skill_units(verdicts)),
        attributes.assign(value=100 * attributes["value"]),
    ]
    return stack_units(frames)


def _averages(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows of average gender with the name of the measure, as the following do."""
    return rows[rows["category"] == "gender"].assign(measure="Average gender, women above 0", measure_unit="−1 to 1")


def _deviations(rows: pd.DataFrame) -> pd.DataFrame:
    names = rows["category"].map(_CATEGORIES).astype(str) + ": deviation from even (MAD)"
    return rows.assign(measure=names, measure_unit=rows["category"].map(_RANGES))


def _skills(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(measure="Accuracy as judged, " + rows["skill"].astype(str), measure_unit="%")


def _attributes(rows: pd.DataFrame) -> pd.DataFrame:
    rows = rows[rows["comparison"] == "woman - man"]
    return rows.assign(measure="Attributes, women and men: mean difference", measure_unit="points")
