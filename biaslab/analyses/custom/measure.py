"""Measures of custom prompts and images: one function per table, each takes the pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from biaslab.analyses.custom.stages import Custom
from biaslab.endpoints.images import NO_IMAGE_OUTCOMES, REFUSED
from biaslab.endpoints.purchases import OK
from biaslab.endpoints.replies import FILTER_FIELDS
from biaslab.errors import MissingInputError
from biaslab.hub import registry
from biaslab.hub.image_sources import domain_of
from biaslab.judges.judge_labels import DUPLICATE, TONE_BY_PIXELS, TONE_OF_PHOTOGRAPHS
from biaslab.prompts.rewritten import added_kinds
from biaslab.schema import tables

if TYPE_CHECKING:
    from biaslab.hub.image_sources import ImageSource
    from biaslab.pipeline import Pipeline

DELIVERED, FILTERED = "delivered", "filtered"
"""Statuses of requests to a service: it sent an image, or a placeholder that the reply marks as filtered."""
_TONES = {"skin_tone": "tone", "tone_reason": "reason", "tone_judge": "judge"}


def people(pipeline: Pipeline) -> pd.DataFrame:
    """Return each prompted person, with status, perceived gender and skin tone."""
    rows = pipeline.part(Custom).people()
    source = pipeline.part(Custom).images().source
    tones = pipeline.skin_tones(source, rows)
    tones = {name: tones[column].to_numpy() for name, column in _TONES.items()}
    if domain_of(source) == registry.PHOTOGRAPHS:
        # The light in a photograph is an additional source of error, which tables and cards state.
        judges = pd.Series(tones["tone_judge"], dtype=object)
        tones["tone_judge"] = judges.replace(TONE_BY_PIXELS, TONE_OF_PHOTOGRAPHS).to_numpy()
    return tables.make_table(rows.assign(prompt=rows["text"], model=pipeline.label, **tones), "custom_people")


def condition_people(pipeline: Pipeline) -> pd.DataFrame:
    """Return each prompted person of the other conditions.

    Raises MissingInputError: Prompts have one condition, or annotations are the judge.
    """
    part = pipeline.part(Custom)
    if part.condition_prompts().empty:
        raise MissingInputError(
            "All prompts have the same condition. Add other conditions in the column condition of custom.prompts_file."
        )
    judge = pipeline.gender_judge
    if judge is not None and not judge.needs_images:
        raise MissingInputError("Images of all conditions have the same ids, so annotations cannot distinguish them.")
    rows = part.condition_people()
    return tables.make_table(rows.assign(prompt=rows["text"], model=pipeline.label), "custom_condition_people")


def service_images(pipeline: Pipeline) -> pd.DataFrame:
    """Return the reply of a service to each request for an image; empty for other models."""
    rows = pipeline.part(Custom).images().table
    if "revised_prompt" not in rows:
        return tables.make_table(pd.DataFrame(), "custom_service_images")
    rows = rows[~rows["status"].isin(NO_IMAGE_OUTCOMES)]
    # For a refusal with a placeholder image, the detail starts with the field of the reply that marks it.
    filtered = (rows["status"] == REFUSED) & rows["detail"].str.startswith(FILTER_FIELDS)
    status = rows["status"].replace([OK, DUPLICATE], DELIVERED).mask(filtered, FILTERED)
    added = [", ".join(added_kinds(*texts)) for texts in zip(rows["text"], rows["revised_prompt"], strict=True)]
    rows = rows.assign(prompt=rows["text"], model=pipeline.label, status=status, adds=added)
    return tables.make_table(rows, "custom_service_images")


def person_answers(pipeline: Pipeline) -> pd.DataFrame:
    """Return the answers to custom questions about each person or image; empty without questions."""
    rows = pipeline.part(Custom).answers()
    return tables.make_table(rows.assign(prompt=rows["text"], model=pipeline.label), "custom_person_answers")


def benchmark(pipeline: Pipeline) -> pd.DataFrame:
    """Return the share that each group is compared with: the file's, or an even split."""
    return tables.make_table(pipeline.part(Custom).benchmark(), "custom_benchmark")


def remarks(pipeline: Pipeline) -> list[str]:
    """Return sentences on images that are copies or black, or look alike."""
    return pipeline.image_remarks(pipeline.part(Custom).images().source)


def people_in_images(pipeline: Pipeline, kind: str) -> tuple[pd.DataFrame, ImageSource]:
    """Return the people in images of custom prompts, and the images (as ``paradox.measure.people_in_images``)."""
    images = pipeline.part(Custom).images()
    if pipeline.unset_settings(*pipeline.judge_settings):
        people = images.table.assign(position=1)
    else:
        people = pipeline.part(Custom).people()
        people["tone"] = pipeline.skin_tones(images.source, people)["tone"].to_numpy()
    return people.assign(who=people["group"], prompt=people["text"]), images


def people_to_annotate(pipeline: Pipeline, kind: str) -> tuple[pd.DataFrame, ImageSource]:
    """Return the prompted people, and the images (as ``paradox.measure.people_to_annotate``)."""
    custom = pipeline.part(Custom)
    images = custom.images()
    people = custom.requested_people(images)
    return people.assign(occupation=people["group"]), images


def example_images(pipeline: Pipeline, people: pd.DataFrame, n: int, seed: int) -> tuple[list, list[pd.DataFrame]]:
    """Return up to ``n`` random images of each group of a pipeline's model, and the rows of the people in each.

    Only rows of ``people`` (``custom_people``) of this model count, without copies. ``seed`` is that of the sample.
    """
    model_people = people[(people["model"] == pipeline.label) & (people["status"] != DUPLICATE)]
    images = model_people.drop_duplicates("image_id")
    sample = images.sample(frac=1, random_state=seed).groupby("group", sort=False).head(n)
    chosen = sample.sort_values(["group", "image_id"])["image_id"].tolist()
    by_image = dict(tuple(model_people.groupby("image_id", sort=False)))
    return pipeline.part(Custom).images().read(chosen), [by_image[image_id] for image_id in chosen]
