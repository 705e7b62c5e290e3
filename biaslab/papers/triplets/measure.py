"""What a pipeline measures for the gender triplets: one function a table."""

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
    """An image with what words and objects cover of it."""

    image: np.ndarray  # ``uint8 (height, width, 3)``
    text: str
    words: tuple[str, ...]  # The nouns of the prompt that have a map, as they stand there.
    word_masks: np.ndarray  # ``bool (words, height, width)``
    objects: list[str]
    groups: list[str]  # The dependency group of each object; empty where it is not known.
    object_masks: np.ndarray  # ``bool (objects, height, width)``
    hidden: tuple[str, ...]  # Nouns that no object matches.


def prompt_sets(pipeline: Pipeline) -> pd.DataFrame:
    """Return how many triplets each dataset gives, and images of each prompt (Table 4)."""
    by_dataset = pipeline.part(Triplets).prompts().groupby("dataset", sort=False)
    counts = by_dataset.agg(n_triplets=("triplet_id", "nunique"), n_seeds=("n_images", "first")).reset_index()
    return tables.make_table(counts.assign(evidence="computed"), "triplets_prompt_sets")


def funnel(pipeline: Pipeline) -> pd.DataFrame:
    """Return how many captions are left after each step from a corpus to its triplets (section 3.1)."""
    funnel = pipeline.part(Triplets).neutral().funnel
    return tables.make_table(funnel.rename(columns={"n_excluded": "n_captions_excluded"}), "triplets_funnel")


def excluded_words(pipeline: Pipeline) -> pd.DataFrame:
    """Return how many captions each word of Table 2 keeps from being neutral."""
    words = pipeline.part(Triplets).neutral().words
    return tables.make_table(words.rename(columns={"n_excluded": "n_captions_excluded"}), "triplets_excluded_words")


def prompts(pipeline: Pipeline) -> pd.DataFrame:
    """Return the prompts of all triplets, with the places of the words that differ (section 3.1)."""
    return tables.make_table(pipeline.part(Triplets).prompts(), "triplets_prompts")


def depicted(pipeline: Pipeline) -> pd.DataFrame:
    """Return how often the filter ``depicted`` is right, on captions labelled by hand: once measured, for any run."""
    return tables.make_table(rule.error_rates().rename(columns={"count": "n_both"}), "triplets_depicted")


def similarity(pipeline: Pipeline) -> pd.DataFrame:
    """Return how alike neutral prompts and their images are to feminine and masculine ones (section 4.1)."""
    return cases.similarity(_values(pipeline, steps=False))


def reference_similarity(pipeline: Pipeline) -> pd.DataFrame:
    """Return how alike neutral prompts and their images are to some that differ in no gender: the null expectation."""
    return cases.reference_similarity(_values(pipeline, steps=False))


def step_similarity(pipeline: Pipeline) -> pd.DataFrame:
    """Return how alike latents of neutral images are to those of gendered ones after each step (section 4.1.2)."""
    return cases.similarity(_values(pipeline, steps=True), "triplets_step_similarity")


def networks(pipeline: Pipeline) -> pd.DataFrame:
    """Return the networks that compare images, by metric, and those of the paper that they replace (4.1.3)."""
    rows = [
        (metric, judge.name, NETWORKS[by] if judge.name != NETWORKS[by] else "")
        for by, judge in pipeline.part(Triplets).networks.items()
        if judge
        for metric in METRICS[by]
    ]
    table = pd.DataFrame(rows, columns=["metric", "network", "replaces"]).assign(evidence="computed")
    return tables.make_table(table, "triplets_networks")


def examples(pipeline: Pipeline, *, most: int = 4) -> pd.DataFrame:
    """Return the first images of each dataset: at the first seed, or of one triplet at the first seeds."""
    table, by = pipeline.part(Triplets).images().table, ["dataset", "triplet_id", "seed"]
    alone = table.groupby("dataset")["triplet_id"].transform("nunique") == 1
    keys = table[(table["seed"] == 0) | alone][by].drop_duplicates()
    return keys.groupby("dataset", sort=False).head(most).merge(table, on=by)


def at_first_seed(pipeline: Pipeline, chosen: pd.DataFrame) -> pd.DataFrame:
    """Return the images of triplets, dataset and triplet_id in ``chosen``, at the first seed, as :func:`examples`."""
    table = pipeline.part(Triplets).images().table
    return chosen[["dataset", "triplet_id"]].merge(table[table["seed"] == 0], on=["dataset", "triplet_id"])


def people_in_images(pipeline: Pipeline, kind: str) -> tuple[pd.DataFrame, ImageSource]:
    """Return images of triplets by the gender in their prompts (as ``paradox.measure.people_in_images``)."""
    images = pipeline.part(Triplets).images()
    seen = images.table.sort_values(["seed", "triplet_id"], kind="stable")
    return seen.assign(
        group=seen["prompt_gender"] + " prompts", who="", prompt=seen["text"], position=1, gender=""
    ), images


def people_to_annotate(pipeline: Pipeline, kind: str) -> tuple[pd.DataFrame, ImageSource]:
    """Return images with the objects found in them, and the images (as ``paradox.measure.people_to_annotate``).

    Objects come from the cache; none is detected.
    """
    stages = pipeline.part(Triplets)
    images = stages.images()
    people = images.table.assign(occupation=images.table["prompt_gender"], position=0)
    with suppress(UnfinishedError):
        if pipeline.settings.triplets.objects:
            instances = pipeline.cached_only().part(Triplets).objects().objects
            people["object"] = people["image_id"].map(instances.groupby("image_id")["object"].agg(list))
    return people, images


def example_images(pipeline: Pipeline, shown: pd.DataFrame) -> list[object]:
    """Return the images of rows with ``image_id``."""
    return pipeline.part(Triplets).images().read(list(shown["image_id"]))


def _values(pipeline: Pipeline, *, steps: bool) -> pd.DataFrame:
    """Return how alike single pairs are, as :func:`cases.similarity` takes it: latents after steps, or all else."""
    stages, both = pipeline.part(Triplets), ["first", "second"]
    images = stages.images().table
    pairs = cases.pairs(images)
    latents = pairs.merge(stages.compare_latents(pairs), on=both)
    of_step = latents["metric"].str.fullmatch(cases.STEP)
    if steps:
        return latents[of_step]
    prompts = cases.prompts_of_pairs(pairs, images.set_index("image_id")["text"])
    compared = pipeline.compute(pipeline.image_model("triplets").compare_prompts, prompts)
    source, networks = stages.images().source, stages.networks
    for judge in filter(None, networks.values()):
        pipeline.check_judge("triplets.similarity", source, judge)
    alike = [pipeline.compute(images_alike.compare, source, pairs, by, judge) for by, judge in networks.items()]
    frames = [
        prompts.merge(compared.drop_duplicates([*both, "metric"]), on=both),
        latents[~of_step],
        pairs.merge(pd.concat(alike, ignore_index=True), on=both),
    ]
    return pd.concat(frames, ignore_index=True)


# -- objects (section 5) -----------------------------------------------------------------------------


def objects(pipeline: Pipeline) -> pd.DataFrame:
    """Return the instances of objects in all images (section 5.1)."""
    instances = pipeline.part(Triplets).objects().objects
    instances = instances.rename(columns={"score": "detector_score"})
    return tables.make_table(instances.assign(model=pipeline.label), "triplets_objects")


def object_images(pipeline: Pipeline) -> pd.DataFrame:
    """Return in how many images objects were looked for, and how many there are."""
    instances = pipeline.part(Triplets).objects()
    return cases.object_images(pipeline.part(Triplets).images().table, instances.images, _counts(instances.objects))


def object_counts(pipeline: Pipeline) -> pd.DataFrame:
    """Return how often each object is found in the images of each gender's prompts, by triplet (eq. 3)."""
    return cases.object_counts(*_looked_at(pipeline))


def object_similarity(pipeline: Pipeline) -> pd.DataFrame:
    """Return how alike the objects of neutral and gendered images are, by triplet (eq. 4)."""
    return cases.object_similarity(*_looked_at(pipeline))


def object_truth(pipeline: Pipeline) -> pd.DataFrame:
    """Return how often objects are to be expected in images drawn from ground truth; no rows of others."""
    images = pipeline.part(Triplets).images()
    if not hasattr(images.source, "scene"):
        return tables.make_table([], "triplets_object_truth")
    prompts = pipeline.part(Triplets).prompts()
    truth = pipeline.require_ground_truth("how often objects are shown", "triplets")
    expected = truth.expected(prompts, pipeline.settings.captions.synthetic_bias).merge(prompts, on="prompt_id")
    by = ["dataset", "object", "prompt_gender"]
    mean = expected.groupby(by, sort=False)["expected"].mean().reset_index()
    mean = mean[mean["prompt_gender"].isin(PROMPT_GENDERS)]
    return tables.make_table(mean.assign(model=pipeline.label), "triplets_object_truth")


def confusion(pipeline: Pipeline) -> pd.DataFrame:
    """Return which objects images show and the detector detects, and of drawings their dependency groups (section 7.3).

    By ``triplets.objects``, unless that is the truth, or a file of objects that were detected elsewhere: in drawings,
    and in the images themselves where annotators say what these show (``triplets.annotations``). Groups are those of
    drawings (section 6.2), where attention is measured.
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
        groups = stages.dependency.drawn_groups().rename(columns={"planted": "truth", "measured": "answer"})
        counts = groups.groupby(["image_id", "truth", "answer"], sort=False).size().rename("n").reset_index()
        frames.append(counts.assign(reference="drawings", quantity="dependency group"))
    about = {"model": pipeline.label, "judge": redact.basename(pipeline.settings.triplets.objects)}
    return tables.join_tables([frame.assign(**about) for frame in frames], "triplets_confusion")


def _annotated_objects(stages: Triplets) -> pd.DataFrame:
    """Return which objects most annotators see in images, and whether any is detected; what is neither is left out."""
    annotations, instances = stages.annotations(), stages.objects()
    prompt_genders = stages.images().table.set_index("image_id")["prompt_gender"].map(_GENDER_OF_PROMPT)
    looked_at = instances.images.loc[instances.images["status"] == "", "image_id"]
    rows = annotations[annotations["image_id"].isin(looked_at)].rename(columns={"shown": "truth"})
    detected = np.where(_among(rows[["image_id", "object"]], instances), "yes", "no")
    rows = rows.assign(answer=detected, n=1, reference="annotations", condition=rows["image_id"].map(prompt_genders))
    return cases.with_quantity(rows[(rows["truth"] == "yes") | (rows["answer"] == "yes")])


def detector_counts(pipeline: Pipeline) -> pd.DataFrame:
    """Return how many nouns of drawings' captions they show, and are found there (section 7.3)."""
    if pipeline.find_ground_truth("triplets") is not None:
        pipeline.require("triplets.objects", prompt_set="triplets")
    if not pipeline.part(Triplets).can_measure_detector_error:
        return tables.make_table([], "triplets_detector_counts")
    stages, truth = pipeline.part(Triplets), pipeline.require_ground_truth("what is found of nouns", "triplets")
    made, named = stages.drawings(), nouns.Nouns(truth.nouns, str)
    nouns_asked = [(row.image_id, noun) for row in made.table.itertuples() for noun in named.of(row.text)]
    nouns_asked = pd.DataFrame(nouns_asked, columns=["image_id", "object"])
    n_found, shown = (_among(nouns_asked, found) for found in (stages.find_instances(made), stages.truth(made)))
    counts = {"n_nouns_both": n_found & shown, "n_nouns_detector_only": n_found & ~shown}
    counts = {name: some.sum() for name, some in (counts | {"n_nouns_people_only": ~n_found & shown}).items()}
    about = {"model": pipeline.label, "n_images": len(made.table), "n_nouns": len(nouns_asked)}
    return tables.make_table([about | counts | {"reference": "drawings"}], "triplets_detector_counts")


def _among(nouns: pd.DataFrame, instances: Instances) -> np.ndarray:
    """Return which pairs of image_id and object are found."""
    pairs_present = pd.MultiIndex.from_frame(instances.objects[["image_id", "object"]])
    return pd.MultiIndex.from_frame(nouns).isin(pairs_present)


def _looked_at(pipeline: Pipeline) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the images that were examined, and how many of each object they show."""
    instances, images = pipeline.part(Triplets).objects(), pipeline.part(Triplets).images().table
    seen = instances.images.loc[instances.images["status"] == "", "image_id"]
    return images[images["image_id"].isin(seen)], _counts(instances.objects)


def _counts(objects: pd.DataFrame) -> pd.DataFrame:
    return objects.groupby(["image_id", "object"], sort=False).size().rename("count").reset_index()


# -- dependency groups (sections 6 and 7.2) ----------------------------------------------------------


def group_object_counts(pipeline: Pipeline) -> pd.DataFrame:
    """Return how often each object and noun is in each dependency group, by triplet (section 6.3)."""
    stages = pipeline.part(Triplets).dependency
    return cases.group_object_counts(stages.looked_at(), stages.groups(), stages.prompt_nouns())


def group_images(pipeline: Pipeline) -> pd.DataFrame:
    """Return the share of images that hold each dependency group (section 7.2, table 11)."""
    stages = pipeline.part(Triplets).dependency
    return cases.group_images(stages.looked_at(), stages.groups(), stages.prompt_nouns())


def dependency_example(pipeline: Pipeline | None) -> Example | None:
    """Return the image whose objects are in most groups, with what words and objects cover of it (figure 5).

    None where no image is made here or can be examined, or attention was not kept.
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
    seen = stages.looked_at()
    if seen.empty:
        return None
    kinds = groups.groupby("image_id", sort=False)["dependency_group"].nunique()
    hidden = nouns.groupby("image_id")["hidden"].any().astype(int)
    kinds = kinds.add(hidden, fill_value=0)
    image_id = str(kinds.reindex(seen["image_id"]).fillna(0).idxmax())
    images = pipeline.part(Triplets).images()
    (image,), (maps,) = images.read([image_id]), stages.maps().word_maps([image_id])
    text = images.table.set_index("image_id").loc[image_id, "text"]
    group_rows, noun_rows = groups[groups["image_id"] == image_id], nouns[nouns["image_id"] == image_id]
    height, width = image.shape[:2]
    instances = pipeline.part(Triplets).objects().objects
    of_image = instances[instances["image_id"] == image_id].set_index("instance")
    image_instances = of_image.loc[group_rows["instance"]].reset_index()
    named = [k for k, word in enumerate(maps.words) if stages.nouns().name(word) in set(noun_rows["noun"])]
    return Example(
        image, text, tuple(maps.words[k] for k in named), word_masks(maps.maps[named], height, width),
        list(group_rows["object"]), list(group_rows["dependency_group"].fillna("")),
        masks(image_instances, height, width),
        tuple(noun_rows.loc[noun_rows["hidden"], "noun"]),
    )  # fmt: skip
