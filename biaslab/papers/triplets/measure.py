"""Measure the tables of the gender triplets from a pipeline, one function per table."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from biaslab import redact
from biaslab.cache.result_cache import UnfinishedError
from biaslab.errors import MissingInputError
from biaslab.judges import similarity as images_alike
from biaslab.metrics.similarity import METRICS, NETWORKS
from biaslab.papers.triplets import cases, nouns
from biaslab.papers.triplets import person_filter as rule
from biaslab.papers.triplets.analysis import PROMPT_GENDERS
from biaslab.papers.triplets.stages import Triplets
from biaslab.schema import tables

if TYPE_CHECKING:
    from biaslab.hub.image_sources import ImageSource
    from biaslab.judges.segmentation import Instances
    from biaslab.pipeline import Pipeline

_GENDER_OF_PROMPT = {"feminine": "female", "masculine": "male"}


class Example(NamedTuple):
    """An image with the masks of words and objects."""

    image: np.ndarray  # ``uint8 (height, width, 3)``
    text: str
    words: tuple[str, ...]  # The nouns of the prompt that have a map, in their original form.
    word_masks: np.ndarray  # ``bool (words, height, width)``
    objects: list[str]
    groups: list[str]  # The dependency group of each object; empty where unknown.
    object_masks: np.ndarray  # ``bool (objects, height, width)``
    hidden: tuple[str, ...]  # Nouns that no object matches.


def prompt_sets(pipeline: Pipeline) -> pd.DataFrame:
    """Return the number of triplets of each dataset, and of images of each prompt (Table 4)."""
    by_dataset = pipeline.part(Triplets).prompts().groupby("dataset", sort=False)
    counts = by_dataset.agg(n_triplets=("triplet_id", "nunique"), n_seeds=("n_images", "first")).reset_index()
    return tables.make_table(counts.assign(evidence="computed"), "triplets_prompt_sets")


def funnel(pipeline: Pipeline) -> pd.DataFrame:
    """Return the number of captions that remain after each step from a corpus to its triplets (section 3.1)."""
    funnel = pipeline.part(Triplets).neutral().funnel
    return tables.make_table(funnel.rename(columns={"n_excluded": "n_captions_excluded"}), "triplets_funnel")


def excluded_words(pipeline: Pipeline) -> pd.DataFrame:
    """Return the number of captions that each word of Table 2 excludes."""
    words = pipeline.part(Triplets).neutral().words
    return tables.make_table(words.rename(columns={"n_excluded": "n_captions_excluded"}), "triplets_excluded_words")


def prompts(pipeline: Pipeline) -> pd.DataFrame:
    """Return the prompts of all triplets, with the places of the words that differ (section 3.1)."""
    return tables.make_table(pipeline.part(Triplets).prompts(), "triplets_prompts")


def depicted(pipeline: Pipeline) -> pd.DataFrame:
    """Return the accuracy of the filter ``depicted`` on captions labelled by hand; it does not depend on the run."""
    return tables.make_table(rule.error_rates().rename(columns={"count": "n_both"}), "triplets_depicted")


def similarity(pipeline: Pipeline) -> pd.DataFrame:
    """Return similarities of neutral prompts and images to feminine and masculine ones (section 4.1)."""
    return cases.similarity(_values(pipeline, steps=False))


def reference_similarity(pipeline: Pipeline) -> pd.DataFrame:
    """Return similarities of neutral prompts and images to others of the same gender: the null expectation."""
    return cases.reference_similarity(_values(pipeline, steps=False))


def step_similarity(pipeline: Pipeline) -> pd.DataFrame:
    """Return similarities of latents of neutral images to those of gendered ones after each step (section 4.1.2)."""
    return cases.similarity(_values(pipeline, steps=True), "triplets_step_similarity")


def networks(pipeline: Pipeline) -> pd.DataFrame:
    """Return the networks that compare images, by metric, and those of the paper that they replace (4.1.3)."""
    rows = [
        (metric, judge.name, NETWORKS[kind] if judge.name != NETWORKS[kind] else "")
        for kind, judge in pipeline.part(Triplets).networks.items()
        if judge
        for metric in METRICS[kind]
    ]
    table = pd.DataFrame(rows, columns=["metric", "network", "replaces"]).assign(evidence="computed")
    return tables.make_table(table, "triplets_networks")


def examples(pipeline: Pipeline, *, n_triplets: int = 4) -> pd.DataFrame:
    """Return the first images of each dataset: at the first seed, or of one triplet at the first seeds."""
    table, keys = pipeline.part(Triplets).images().table, ["dataset", "triplet_id", "seed"]
    is_single = table.groupby("dataset")["triplet_id"].transform("nunique") == 1
    chosen = table[(table["seed"] == 0) | is_single][keys].drop_duplicates()
    return chosen.groupby("dataset", sort=False).head(n_triplets).merge(table, on=keys)


def select_first_seed(pipeline: Pipeline, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the images of triplets, dataset and triplet_id in ``chosen``, at the first seed, as :func:`examples`."""
    table = pipeline.part(Triplets).images().table
    return rows[["dataset", "triplet_id"]].merge(table[table["seed"] == 0], on=["dataset", "triplet_id"])


def people_in_images(pipeline: Pipeline, kind: str) -> tuple[pd.DataFrame, ImageSource]:
    """Return images of triplets by the gender in their prompts (as ``paradox.measure.people_in_images``)."""
    images = pipeline.part(Triplets).images()
    table = images.table.sort_values(["seed", "triplet_id"], kind="stable")
    return table.assign(
        group=table["prompt_gender"] + " prompts", who="", prompt=table["text"], position=1, gender=""
    ), images


def people_to_annotate(pipeline: Pipeline, kind: str) -> tuple[pd.DataFrame, ImageSource]:
    """Return rows of images with their detected objects, and the images (as ``paradox.measure.people_to_annotate``).

    Objects come from the cache only; no detector runs.
    """
    stages = pipeline.part(Triplets)
    images = stages.images()
    people = images.table.assign(occupation=images.table["prompt_gender"], position=0)
    with suppress(UnfinishedError):
        if pipeline.settings.triplets.objects:
            instances = pipeline.cached_only().part(Triplets).objects().objects
            people["object"] = people["image_id"].map(instances.groupby("image_id")["object"].agg(list))
    return people, images


def example_images(pipeline: Pipeline, rows: pd.DataFrame) -> list[object]:
    """Return the images of rows with ``image_id``."""
    return pipeline.part(Triplets).images().read(list(rows["image_id"]))


def _values(pipeline: Pipeline, *, steps: bool) -> pd.DataFrame:
    """Return similarities of single pairs as input of :func:`cases.similarity`: latents after steps, or all others."""
    stages, keys = pipeline.part(Triplets), ["first", "second"]
    images = stages.images().table
    pairs = cases.pairs(images)
    latents = pairs.merge(stages.compare_latents(pairs), on=keys)
    is_after_step = latents["metric"].str.fullmatch(cases.STEP)
    if steps:
        return latents[is_after_step]
    prompts = cases.prompts_of_pairs(pairs, images.set_index("image_id")["text"])
    compared = pipeline.compute(pipeline.image_model("triplets").compare_prompts, prompts)
    source, networks = stages.images().source, stages.networks
    for judge in filter(None, networks.values()):
        pipeline.check_judge("triplets.similarity", source, judge)
    similarities = [
        pipeline.compute(images_alike.compare, source, pairs, kind, judge) for kind, judge in networks.items()
    ]
    frames = [
        prompts.merge(compared.drop_duplicates([*keys, "metric"]), on=keys),
        latents[~is_after_step],
        pairs.merge(pd.concat(similarities, ignore_index=True), on=keys),
    ]
    return pd.concat(frames, ignore_index=True)


# -- objects (section 5) -----------------------------------------------------------------------------


def objects(pipeline: Pipeline) -> pd.DataFrame:
    """Return the instances of objects in all images (section 5.1)."""
    instances = pipeline.part(Triplets).objects().objects
    instances = instances.rename(columns={"score": "detector_score"})
    return tables.make_table(instances.assign(model=pipeline.label), "triplets_objects")


def object_images(pipeline: Pipeline) -> pd.DataFrame:
    """Return the number of images processed by the detector, and of their objects."""
    instances = pipeline.part(Triplets).objects()
    return cases.object_images(pipeline.part(Triplets).images().table, instances.images, _counts(instances.objects))


def object_counts(pipeline: Pipeline) -> pd.DataFrame:
    """Return counts of each object in the images of each gender's prompts, by triplet (eq. 3)."""
    return cases.object_counts(*_examined_objects(pipeline))


def object_similarity(pipeline: Pipeline) -> pd.DataFrame:
    """Return similarities of the objects in neutral and gendered images, by triplet (eq. 4)."""
    return cases.object_similarity(*_examined_objects(pipeline))


def object_truth(pipeline: Pipeline) -> pd.DataFrame:
    """Return expected frequencies of objects in images with ground truth; no rows for other images."""
    images = pipeline.part(Triplets).images()
    if not hasattr(images.source, "scene"):
        return tables.make_table([], "triplets_object_truth")
    prompts = pipeline.part(Triplets).prompts()
    truth = pipeline.require_ground_truth("the frequency of objects", "triplets")
    expected = truth.expected(prompts, pipeline.settings.captions.synthetic_bias).merge(prompts, on="prompt_id")
    keys = ["dataset", "object", "prompt_gender"]
    mean = expected.groupby(keys, sort=False)["expected"].mean().reset_index()
    mean = mean[mean["prompt_gender"].isin(PROMPT_GENDERS)]
    return tables.make_table(mean.assign(model=pipeline.label), "triplets_object_truth")


def confusion(pipeline: Pipeline) -> pd.DataFrame:
    """Return true and detected objects, and true and measured dependency groups in drawings (section 7.3).

    Objects are those in drawings, unless ``triplets.objects`` is the ground truth or a file of instances, and those in
    the images themselves where these have annotations (``triplets.annotations``). Groups (section 6.2) need attention.
    """
    stages, frames = pipeline.part(Triplets), []
    if stages.can_measure_detector_error:
        drawings = stages.drawings()
        gender = drawings.table.set_index("image_id")["truth_gender"]
        rows = cases.detections(stages.find_instances(drawings).objects, stages.truth(drawings).objects)
        frames.append(rows.assign(reference="drawings", condition=rows["image_id"].map(gender)))
    if pipeline.settings.triplets.annotations:
        frames.append(_annotated_objects(stages))
    with suppress(MissingInputError):
        groups = stages.dependency.drawing_groups().rename(columns={"planted": "truth", "measured": "answer"})
        counts = groups.groupby(["image_id", "truth", "answer"], sort=False).size().rename("n").reset_index()
        frames.append(counts.assign(reference="drawings", quantity="dependency group"))
    about = {"model": pipeline.label, "judge": redact.basename(pipeline.settings.triplets.objects)}
    return tables.join_tables([frame.assign(**about) for frame in frames], "triplets_confusion")


def _annotated_objects(stages: Triplets) -> pd.DataFrame:
    """Return objects in images by the majority of annotators and by the detector, if either finds them."""
    annotations, instances = stages.annotations(), stages.objects()
    prompt_genders = stages.images().table.set_index("image_id")["prompt_gender"].map(_GENDER_OF_PROMPT)
    looked_at = instances.images.loc[instances.images["status"] == "", "image_id"]
    rows = annotations[annotations["image_id"].isin(looked_at)].rename(columns={"shown": "truth"})
    detected = np.where(_contains(rows[["image_id", "object"]], instances), "yes", "no")
    rows = rows.assign(answer=detected, n=1, reference="annotations", condition=rows["image_id"].map(prompt_genders))
    return cases.with_quantity(rows[(rows["truth"] == "yes") | (rows["answer"] == "yes")])


def detector_counts(pipeline: Pipeline) -> pd.DataFrame:
    """Return the number of nouns of drawings' captions that are shown, and that are detected (section 7.3)."""
    if pipeline.find_ground_truth("triplets") is not None:
        pipeline.require("triplets.objects", prompt_set="triplets")
    if not pipeline.part(Triplets).can_measure_detector_error:
        return tables.make_table([], "triplets_detector_counts")
    stages, truth = pipeline.part(Triplets), pipeline.require_ground_truth("the detection of nouns", "triplets")
    drawings, noun_finder = stages.drawings(), nouns.Nouns(truth.nouns, str)
    prompt_nouns = [
        (row.image_id, noun) for row in drawings.table.itertuples() for noun in noun_finder.find_nouns(row.text)
    ]
    prompt_nouns = pd.DataFrame(prompt_nouns, columns=["image_id", "object"])
    is_detected = _contains(prompt_nouns, stages.find_instances(drawings))
    is_shown = _contains(prompt_nouns, stages.truth(drawings))
    counts = {"n_nouns_both": (is_detected & is_shown).sum(), "n_nouns_detector_only": (is_detected & ~is_shown).sum()}
    counts["n_nouns_people_only"] = (~is_detected & is_shown).sum()
    row = {"model": pipeline.label, "n_images": len(drawings.table), "n_nouns": len(prompt_nouns)} | counts
    return tables.make_table([row | {"reference": "drawings"}], "triplets_detector_counts")


def _contains(nouns: pd.DataFrame, instances: Instances) -> np.ndarray:
    """Return a mask of the pairs of image_id and object that are among the instances."""
    pairs_present = pd.MultiIndex.from_frame(instances.objects[["image_id", "object"]])
    return pd.MultiIndex.from_frame(nouns).isin(pairs_present)


def _examined_objects(pipeline: Pipeline) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the examined images, and the counts of objects in each."""
    instances, images = pipeline.part(Triplets).objects(), pipeline.part(Triplets).images().table
    examined_ids = instances.images.loc[instances.images["status"] == "", "image_id"]
    return images[images["image_id"].isin(examined_ids)], _counts(instances.objects)


def _counts(objects: pd.DataFrame) -> pd.DataFrame:
    return objects.groupby(["image_id", "object"], sort=False).size().rename("count").reset_index()


# -- dependency groups (sections 6 and 7.2) ----------------------------------------------------------


def group_object_counts(pipeline: Pipeline) -> pd.DataFrame:
    """Return counts of objects and nouns in each dependency group, by triplet (section 6.3)."""
    stages = pipeline.part(Triplets).dependency
    return cases.group_object_counts(stages.looked_at(), stages.groups(), stages.prompt_nouns())


def group_images(pipeline: Pipeline) -> pd.DataFrame:
    """Return the share of images with each dependency group (section 7.2, table 11)."""
    stages = pipeline.part(Triplets).dependency
    return cases.group_images(stages.looked_at(), stages.groups(), stages.prompt_nouns())


def dependency_example(pipeline: Pipeline | None) -> Example | None:
    """Return the image with the most dependency groups, with the masks of words and objects (figure 5).

    None where the run has no images, none can be examined, or attention was not saved.
    """
    from biaslab.attribution.maps import word_masks
    from biaslab.metrics.instances import masks

    if pipeline is None or pipeline.unset_settings("triplets.objects"):
        return None
    stages = pipeline.part(Triplets).dependency
    try:
        groups, nouns = stages.groups(), stages.prompt_nouns()
    except MissingInputError:
        return None
    examined_images = stages.looked_at()
    if examined_images.empty:
        return None
    n_groups = groups.groupby("image_id", sort=False)["dependency_group"].nunique()
    hidden = nouns.groupby("image_id")["hidden"].any().astype(int)
    n_groups = n_groups.add(hidden, fill_value=0)
    image_id = str(n_groups.reindex(examined_images["image_id"]).fillna(0).idxmax())
    images = pipeline.part(Triplets).images()
    (image,), (maps,) = images.read([image_id]), stages.maps().word_maps([image_id])
    text = images.table.set_index("image_id").loc[image_id, "text"]
    group_rows, noun_rows = groups[groups["image_id"] == image_id], nouns[nouns["image_id"] == image_id]
    height, width = image.shape[:2]
    instances = pipeline.part(Triplets).objects().objects
    image_objects = instances[instances["image_id"] == image_id].set_index("instance")
    image_instances = image_objects.loc[group_rows["instance"]].reset_index()
    word_indices = [k for k, word in enumerate(maps.words) if stages.nouns().name(word) in set(noun_rows["noun"])]
    return Example(
        image, text, tuple(maps.words[k] for k in word_indices), word_masks(maps.maps[word_indices], height, width),
        list(group_rows["object"]), list(group_rows["dependency_group"].fillna("")),
        masks(image_instances, height, width),
        tuple(noun_rows.loc[noun_rows["hidden"], "noun"]),
    )  # fmt: skip
