"""Stereotype Scores: declared for headlines, units and the comparison of models."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
from numpy.typing import ArrayLike

from biaslab.judges.judge_labels import JUDGED
from biaslab.metrics import stereotype_score_from_percent
from biaslab.metrics.headline import MEAN, Headline, cells_and_people
from biaslab.papers.estimands import Estimand, unit_rows
from biaslab.papers.paired.analysis.dependence import LISTS

TABLES = ("paired_people",)
"""The measured tables that :func:`headlines` takes."""
_PLACES = {"alone": 1, "left": 1, "middle": 2}
# Name of each setting, and the option with its number of images per prompt.
_SETTINGS = {"single": ("one person", "paired.single_images"), "paired": ("two people", "paired.pair_images")}


def headlines(people: pd.DataFrame) -> Iterator[Headline]:
    """Yield each model's overall Stereotype Score of occupations, alone and in pairs (section 3.2.3, equation 1)."""
    rows = people[(people["aspect"] == "occupation") & people["setting"].isin(_SETTINGS)]
    n_people = rows.groupby("image_id")["position"].transform("nunique")
    rows = rows.assign(
        position=rows["position"].map(_PLACES).fillna(n_people),
        gender=rows["gender"].where(rows["status"] == JUDGED),
        cluster=rows["identity"],
    )
    for (model, setting), group in rows.groupby(["model", "setting"], sort=False):
        cells, cell_people = cells_and_people(group, "stereotype")
        has_people = cells["n"] > 0
        if not set(LISTS) <= set(cells["stratum"][has_people]):
            continue
        # A score is 200 times its share's distance from one half; every person counts the same.
        sign = cells["stratum"].map({"female": 1, "male": -1})
        cells = cells.assign(coefficient=200 * sign * cells["n"] / cells["n"].sum())
        words, images = _SETTINGS[str(setting)]
        yield Headline(
            "paired", str(model), f"Stereotype Score, {words}", MEAN, "points", 2, 0, cells, cell_people,
            clusters_random=True, clusters="identities", setting=images,
        )  # fmt: skip


def score_units(shares: pd.DataFrame) -> pd.DataFrame:
    """Return the score of each identity (``paired_percent_female``) as a unit of its list, and of both lists."""
    return _by_list(shares, stereotype_score_from_percent(shares["percent_female"], shares["stereotype"]))


def _by_list(shares: pd.DataFrame, value: ArrayLike) -> pd.DataFrame:
    units = unit_rows(shares, "occupation", value, cell=shares["identity"])
    return pd.concat([units, units.assign(list=units["stereotype"], stereotype="overall")], ignore_index=True)


ESTIMANDS = (
    Estimand(
        "paired_stereotype_score",
        "paired_percent_female",
        score_units,
        measure="Stereotype Score, {aspect}, {setting}",
        unit="points",
        words={
            "aspect": {"occupation": "occupations", "power": "power roles"},
            "setting": {setting: words for setting, (words, _) in _SETTINGS.items()},
            "stereotype": {"overall": ""},
        },
        columns={"estimate": "score"},
        n_unit="people",
    ),
    Estimand(
        "paired_percent_female_mean",
        "paired_percent_female",
        lambda shares: _by_list(shares, shares["percent_female"]),
    ),
)
