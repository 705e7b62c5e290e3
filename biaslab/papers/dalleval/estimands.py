"""Averages, deviations, attributes and accuracies: as :class:`biaslab.metrics.headline.Headline`, by unit, by model."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from biaslab import stats
from biaslab.judges.judge_labels import JUDGED
from biaslab.metrics.headline import MEAN, Headline, cells_and_people, side
from biaslab.papers.dalleval.analysis.attributes import COMPARISONS
from biaslab.papers.dalleval.analysis.rows import NO_PROFESSION
from biaslab.papers.dalleval.measure import ASKED
from biaslab.papers.dalleval.prompts import SKILLS
from biaslab.papers.estimands import Estimand, at_shared_images, unit_rows

TABLES = ("dalleval_social_images", "dalleval_average_gender")
"""The measured tables that :func:`headlines` takes."""
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
        yield Headline("dalleval", str(model), "gender MAD", MEAN, "0 to 0.5", 0.01, 0, cells, **given)


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


def average_units(averages: pd.DataFrame, category: str) -> pd.DataFrame:
    """Return each profession's average (``dalleval_average_gender``, ``dalleval_average_skin_tone``) as a unit."""
    rows = averages[averages["profession"] != NO_PROFESSION].assign(category=category)
    return unit_rows(rows, "profession", rows["value"])


def gender_deviation_units(genders: pd.DataFrame) -> pd.DataFrame:
    """Return each profession's deviation of gender from even (``dalleval_average_gender``) as a unit."""
    rows = average_units(genders, "gender").drop(columns="n_images")
    female = (rows["n"] * (1 + rows["value"]) / 2).round()
    rows = rows.assign(female=female, male=rows["n"] - female)
    rows = at_shared_images(rows, ["female", "male"], ["profession"])
    return rows.assign(evidence="computed", value=rows["deviation"])


def skin_tone_deviation_units(counts: pd.DataFrame) -> pd.DataFrame:
    """Return each profession's deviation of skin tone (``dalleval_skin_tone_counts``) as a unit; a cell is a prompt."""
    counts = counts[counts["profession"] != NO_PROFESSION]
    wide = counts.pivot(index=["model", "prompt", "profession"], columns="tone", values="n")
    # Tones that no image of the run has are empty bins.
    rows = wide.reindex(columns=_TONES).fillna(0).reset_index().assign(category="skin_tone", evidence="computed")
    rows = at_shared_images(rows, _TONES, ["prompt", "profession"])
    return unit_rows(rows, "profession", rows["deviation"], cell=rows["prompt"], n_images=rows["n_images"])


def attribute_units(presence: pd.DataFrame) -> pd.DataFrame:
    """Return each profession's difference of shares between prompts (``dalleval_attribute_presence``) as a unit."""
    keys, frames = ["model", "profession", "attribute"], []
    for comparison, prompts in COMPARISONS.items():
        first, second = (presence[presence["prompt"] == prompt] for prompt in prompts)
        both = first.merge(second, on=keys, suffixes=("", "_second")).assign(comparison=comparison)
        frames.append(unit_rows(both, "profession", both["share"] - both["share_second"]))
    return pd.concat(frames, ignore_index=True)


def attribute_mean_units(by_prompt: pd.DataFrame) -> pd.DataFrame:
    """Return each profession's mean absolute difference, minus what two prompts of equal shares give by chance.

    Of ``dalleval_attribute_prompt_difference``.
    """
    return unit_rows(by_prompt, "profession", by_prompt["mean_absolute_difference"] - by_prompt["null_mean"])


def skill_units(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Return each scene, as judged (``dalleval_skill_verdicts``), as a unit: 100 where it is correct, else 0."""
    rows = verdicts[verdicts["chosen"] == "yes"].assign(evaluator="detector", images="test")
    return unit_rows(rows, "image_id", 100.0 * (rows["correct"] == "yes"))


_AVERAGE: dict[str, Any] = {"table": "dalleval_overall_average", "limits": ("ci_low", "average_judge_corrected_ci_low")}
_MAD: dict[str, Any] = {
    "table": "dalleval_mad",
    "limits": ("mad_ci_low", "ci_low", "mad_judge_corrected_ci_low"),
    "columns": {"estimate": "mad", "estimate_corrected": "mad_corrected", "null_mean": "null_mean_corrected"},
    "n_unit": "prompts",
}
_EVIDENCE = {"computed": "", "printed": ", uncorrected"}
ESTIMANDS = (
    Estimand(
        source="dalleval_average_gender",
        units=partial(average_units, category="gender"),
        measure="Average perceived gender (+1 female)",
        unit="−1 to 1",
        words={"category": {"gender": ""}},
        columns={"estimate": "average"},
        n_unit="professions",
        **_AVERAGE,
    ),
    Estimand(
        source="dalleval_average_skin_tone",
        units=partial(average_units, category="skin_tone"),
        **_AVERAGE,
    ),
    Estimand(
        source="dalleval_average_gender",
        units=gender_deviation_units,
        measure="Gender MAD{evidence}",
        unit="0 to 0.5",
        words={"category": {"gender": ""}, "evidence": _EVIDENCE},
        **_MAD,
    ),
    Estimand(
        source="dalleval_skin_tone_counts",
        units=skin_tone_deviation_units,
        measure="Skin-tone MAD{evidence}",
        unit="0 to 0.18",
        words={"category": {"skin_tone": ""}, "evidence": _EVIDENCE},
        **_MAD,
    ),
    Estimand(
        "dalleval_skill_accuracy",
        "dalleval_skill_verdicts",
        skill_units,
        measure="Accuracy as judged, {skill}",
        unit="%",
        words={"evaluator": {"detector": ""}, "images": {"test": ""}, "skill": {skill: skill for skill in SKILLS}},
        columns={"estimate": "percent_correct", "null_mean": "null_mean"},
        n_unit="scenes",
    ),
    Estimand(
        "dalleval_attribute_mean_difference",
        "dalleval_attribute_prompt_difference",
        attribute_mean_units,
        limits=("by_profession_corrected_ci_low",),
        measure="Attributes: mean absolute difference within professions",
        unit="points",
        words={"comparison": {"woman - man": ""}},
        columns={
            "estimate": "by_profession",
            "estimate_corrected": "by_profession_corrected",
            "ci_low": "by_profession_corrected_ci_low",
            "ci_high": "by_profession_corrected_ci_high",
        },
        n_unit="professions",
        factor=100,
    ),
    Estimand("dalleval_attribute_difference", "dalleval_attribute_presence", attribute_units),
)
