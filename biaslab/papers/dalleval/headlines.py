"""DALL-Eval's averages and deviations of perceived gender, as :class:`biaslab.metrics.headline.Headline`."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import pandas as pd

from biaslab import stats
from biaslab.judges.judge_labels import JUDGED
from biaslab.metrics.headline import MEAN, Headline, cells_and_people, side
from biaslab.papers.dalleval.analysis.rows import NO_PROFESSION
from biaslab.papers.dalleval.measure import ASKED

TABLES = ("dalleval_social_images", "dalleval_average_gender")
"""The measured tables that :func:`headlines` takes."""


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
