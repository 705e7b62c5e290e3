"""Annotations of a subset of a run's images: one table, whose function takes the pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from biaslab.analyses.custom.stages import Custom
from biaslab.io.plaintext import normalize
from biaslab.judges import duplicates
from biaslab.papers.dalleval.prompts import ATTRIBUTES
from biaslab.ratings import annotations as annotated
from biaslab.schema import tables

if TYPE_CHECKING:
    from biaslab.pipeline import Pipeline


def ratings(pipeline: Pipeline) -> pd.DataFrame:
    """Return the annotations in the file ``judging.annotations``; no rows where the setting is empty."""
    file = pipeline.settings.judging.annotations
    if not file:
        return tables.make_table([], "precision_ratings")
    frame = annotated.read(file, {**annotated.LABELS, **dict.fromkeys(ATTRIBUTES, annotated.YES_NO)})
    # Estimates exist for perceived gender, and for attributes with the answers yes and no.
    frame = frame[(frame["question"] == "") | frame["label"].isin(("", *annotated.YES_NO))]
    if pipeline.image_folder is not None:
        # Annotations of copies belong to the original image.
        copies = duplicates.originals(pipeline.part(Custom).images().source)
        names = {normalize(copy): normalize(image_id) for copy, image_id in copies.items()}
        frame = frame.assign(image_id=frame["image_id"].replace(names)).drop_duplicates()
    rated = annotated.votes(frame, ["model", "source", "image_id", "position", "question"])
    return tables.make_table(rated.rename(columns={"model": "image_model"}), "precision_ratings")
