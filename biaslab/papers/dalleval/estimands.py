"""Headlines (:class:`biaslab.metrics.headline.Headline`), units and estimands of DALL-Eval's measures by model."""

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
from biaslab.papers.dalleval.measure import VQA_JUDGE
from biaslab.papers.estimands import Estimand, at_shared_images, unit_rows

TABLES = ("dalleval_social_images", "dalleval_average_gender")
"""The measured tables that :func:`headlines` uses."""
_TONES = [str(tone) for tone in range(1, 11)]


def headlines(images: pd.DataFrame, averages: pd.DataFrame) -> Iterator[Headline]:
    """Yield each model's average gender over professions, and its mean absolute deviation (section 4.2, Table 6).

    ``averages`` (``dalleval_average_gender``) name whether the gender judge or the VQA model labels gender.
    """
    rows = images[(images["prompt"] == "person") & (images["profession"] != NO_PROFESSION)]
    for model, model_images in rows.groupby("model", sort=False):
        uses_vqa = "judge" in averages and VQA_JUDGE in set(averages.loc[averages["model"] == model, "judge"])
        by_judge = model_images["gender_judge"].where(model_images["status_judge"] == JUDGED)
        gender = model_images["gender_vqa"] if uses_vqa else by_judge
        cells, people = cells_and_people(model_images.assign(gender=gender, cluster=model_images["profession"]))
        n, n_known = cells["n"].to_numpy(), (cells["n"] > 0).sum()
        weight = np.where(n > 0, 1 / max(n_known, 1), 0)
        options: dict[str, Any] = {"people": people, "clusters_random": True}
        options |= {"clusters": "professions", "setting": "dalleval.social_images"}
        cells = cells.assign(coefficient=2 * weight)
        yield Headline("dalleval", str(model), "average gender", MEAN, "−1 to 1", 0.02, 0, cells, **options)
        deviation = np.where(n > 0, np.abs(cells["count"] / np.maximum(n, 1) - 0.5), 0)
        # The plain mean minus the bias-corrected one.
        corrected = [float(stats.corrected_absolute_deviation(*cell)) for cell in zip(cells["count"], n, strict=True)]
        null_mean = float(weight @ (deviation - np.nan_to_num(corrected)))
        cells = cells.assign(coefficient=weight * side(cells))
        options |= {"is_absolute": True, "null_mean": null_mean}
        yield Headline("dalleval", str(model), "gender MAD", MEAN, "0 to 0.5", 0.01, 0, cells, **options)


def attribute_headlines(images: pd.DataFrame, rated: Collection[str]) -> Iterator[Headline]:
    """Yield the mean difference of attribute shares, women minus men, over professions (Table 9).

    Uses the attributes in ``rated`` (annotated by people), and ``dalleval_social_images`` of professions prompted with
    both words.
    """
    for model, rows in images[images["prompt"].isin(["woman", "man"])].groupby("model", sort=False):
        has_both = rows.groupby("profession")["prompt"].nunique() == 2
        rows = rows[rows["profession"].isin(has_both.index[has_both]) & (rows["profession"] != NO_PROFESSION)]
        for attribute in dict.fromkeys(filter(None, rated)):
            # Encode yes as female, so that shares of gender become shares of yes.
            answer = pd.Series("male", index=rows.index)
            for column, label in (("attributes", "female"), ("attributes_missing", "unsure")):
                joined = ";" + rows[column].fillna("").astype(str) + ";"
                answer = answer.mask(joined.str.contains(f";{attribute};", regex=False), label)
            cells, people = cells_and_people(
                rows.assign(gender=answer, cluster=rows["profession"], template=rows["prompt"])
            )
            is_complete = cells.groupby("cluster")["n"].transform("min") > 0
            weight = np.where(is_complete, 100 / max(cells["cluster"][is_complete].nunique(), 1), 0)
            cells = cells.assign(coefficient=weight * cells["template"].map({"woman": 1, "man": -1}))
            options: dict[str, Any] = {"clusters_random": True, "about": attribute}
            measure = "attributes, woman minus man"
            yield Headline("dalleval", str(model), measure, attribute, "points", 1, 0, cells, people, **options)


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
    # Tones without images in the run are empty bins.
    rows = wide.reindex(columns=_TONES).fillna(0).reset_index().assign(category="skin_tone", evidence="computed")
    rows = at_shared_images(rows, _TONES, ["prompt", "profession"])
    return unit_rows(rows, "profession", rows["deviation"], cell=rows["prompt"], n_images=rows["n_images"])


def attribute_units(presence: pd.DataFrame) -> pd.DataFrame:
    """Return each profession's difference of shares between prompts (``dalleval_attribute_presence``) as a unit."""
    keys, frames = ["model", "profession", "attribute"], []
    for comparison, prompts in COMPARISONS.items():
        first_rows, second_rows = (presence[presence["prompt"] == prompt] for prompt in prompts)
        paired = first_rows.merge(second_rows, on=keys, suffixes=("", "_second")).assign(comparison=comparison)
        frames.append(unit_rows(paired, "profession", paired["share"] - paired["share_second"]))
    return pd.concat(frames, ignore_index=True)


def attribute_mean_units(by_prompt: pd.DataFrame) -> pd.DataFrame:
    """Return each profession's mean absolute difference minus its null expectation, for two prompts of equal shares.

    ``by_prompt`` has rows of ``dalleval_attribute_prompt_difference``.
    """
    return unit_rows(by_prompt, "profession", by_prompt["mean_absolute_difference"] - by_prompt["null_mean"])


def skill_units(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Return each scene's verdict (``dalleval_skill_verdicts``) as a unit: 100 where it is correct, else 0."""
    rows = verdicts[verdicts["chosen"] == "yes"].assign(evaluator="detector", images="test")
    return unit_rows(rows, "image_id", 100.0 * (rows["correct"] == "yes"))


_AVERAGE: dict[str, Any] = {"table": "dalleval_overall_average", "limits": ("ci_low", "average_judge_corrected_ci_low")}
_MAD: dict[str, Any] = {
    "table": "dalleval_mad",
    "limits": ("mad_ci_low", "ci_low", "mad_judge_corrected_ci_low"),
    "columns": {"estimate": "mad", "estimate_corrected": "mad_corrected", "null_mean": "null_mean_corrected"},
    "n_unit": "professions",
}
_SKILLS = {"object": "object recognition", "count": "counting", "spatial": "spatial relations"}
_EVIDENCE = {"computed": "", "printed": ", uncorrected"}
ESTIMANDS = (
    Estimand(
        source="dalleval_average_gender",
        units=partial(average_units, category="gender"),
        measure="Average perceived gender, as judged (+1 female)",
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
        measure="Gender MAD, as judged{evidence}",
        unit="0 to 0.5",
        words={"category": {"gender": ""}, "evidence": _EVIDENCE},
        **_MAD,
    ),
    Estimand(
        source="dalleval_skin_tone_counts",
        units=skin_tone_deviation_units,
        measure="Skin-tone MAD, as estimated{evidence}",
        unit="0 to 0.18",
        words={"category": {"skin_tone": ""}, "evidence": _EVIDENCE},
        **_MAD,
    ),
    Estimand(
        "dalleval_skill_accuracy",
        "dalleval_skill_verdicts",
        skill_units,
        measure="Accuracy, as judged: {skill}",
        unit="%",
        words={"evaluator": {"detector": ""}, "images": {"test": ""}, "skill": _SKILLS},
        columns={"estimate": "percent_correct", "null_mean": "null_mean"},
        n_unit="scenes",
    ),
    Estimand(
        "dalleval_attribute_mean_difference",
        "dalleval_attribute_prompt_difference",
        attribute_mean_units,
        limits=("by_profession_corrected_ci_low",),
        measure="Attributes, woman − man: mean absolute difference by profession",
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
