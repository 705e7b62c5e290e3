"""Headlines of custom prompts and images, as :class:`biaslab.metrics.headline.Headline`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from biaslab.judges.judge_labels import DUPLICATE, JUDGED
from biaslab.metrics.headline import MEAN, Headline, cells_and_people, pool_cells

TABLES = ("custom_people",)
"""The measured tables that :func:`headlines` takes."""


def headlines(people: pd.DataFrame) -> Iterator[Headline]:
    """Yield each model's mean share of women over groups, and each group's; of people judged female or male."""
    people = people[people["status"] != DUPLICATE]
    people = people.assign(gender=people["gender"].where(people["status"] == JUDGED))
    named = people.rename(columns={"group": "cluster", "prompt": "template"})
    for model, of_model in named.groupby("model", sort=False):
        cells, whom = cells_and_people(of_model)
        there = cells.groupby("cluster")["n"].transform("sum") > 0
        groups = list(dict.fromkeys(cells["cluster"][there]))
        for group in (MEAN, *groups):
            parts = (
                np.where(there, 100 / max(len(groups), 1), 0) if group == MEAN else 100.0 * (cells["cluster"] == group)
            )
            yield Headline(
                "custom", str(model), "share perceived as female", group, "%", 1, 50, pool_cells(cells, parts), whom,
                clusters="groups", setting="custom.images_per_prompt",
            )  # fmt: skip
