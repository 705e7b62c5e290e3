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
    """Yield the share perceived as female, among people judged female or male: each model's mean, and each group's."""
    people = people[people["status"] != DUPLICATE]
    people = people.assign(gender=people["gender"].where(people["status"] == JUDGED))
    rows = people.rename(columns={"group": "cluster", "prompt": "template"})
    for model, model_rows in rows.groupby("model", sort=False):
        cells, cell_people = cells_and_people(model_rows)
        has_people = cells.groupby("cluster")["n"].transform("sum") > 0
        groups = list(dict.fromkeys(cells["cluster"][has_people]))
        for group in (MEAN, *groups):
            weights = (
                np.where(has_people, 100 / max(len(groups), 1), 0)
                if group == MEAN
                else 100.0 * (cells["cluster"] == group)
            )
            yield Headline(
                "custom", str(model), "share perceived as female", group, "%", 1, 50, pool_cells(cells, weights),
                cell_people, clusters="groups", setting="custom.images_per_prompt",
            )  # fmt: skip
