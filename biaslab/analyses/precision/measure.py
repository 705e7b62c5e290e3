"""Annotations of a subset of a run's images: one table, whose function takes the pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from biaslab.ratings import annotated_subset
from biaslab.schema import tables

if TYPE_CHECKING:
    from biaslab.pipeline import Pipeline


def ratings(pipeline: Pipeline) -> pd.DataFrame:
    """Return the annotations in the file ``judging.annotations``; no rows where the setting is empty."""
    file = pipeline.settings.judging.annotations
    rated = annotated_subset.read(file) if file else pd.DataFrame(columns=annotated_subset.COLUMNS)
    return tables.make_table(rated.rename(columns={"model": "image_model"}), "precision_ratings")
