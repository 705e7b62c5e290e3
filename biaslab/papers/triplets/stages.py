"""Pipeline stages of triplets: captions → neutral captions → three prompts each → images → objects.

Source: triplets paper, sections 3.1, 4, 5.1 and 7.3.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd

import biaslab.papers.triplets.prompts as asking
from biaslab import redact
from biaslab.attribution.images import AttendedImages
from biaslab.captions.corpus import Corpus, open_corpus
from biaslab.errors import InputError, ParameterError
from biaslab.generation import spaces
from biaslab.generation.images import GeneratedImages
from biaslab.hub.image_sources import DescribedImages, ImageSource
from biaslab.judges import duplicates, segmentation
from biaslab.judges.judge import Judge
from biaslab.judges.segmentation import GroundTruthObjects, InstanceFile
from biaslab.papers.triplets.dependency import Dependency
from biaslab.papers.triplets.prompts import ONE
from biaslab.pipeline.stages import Part, Pipeline, cached_method, cached_value, image_ids
from biaslab.ratings import annotations as annotated


class Triplets(Part):
    """The stages for triplets of prompts."""

    prompt_set = "triplets"

    @cached_value
    def corpora(self) -> dict[str, Corpus]:
        """The captions in the settings (or their replacement for triplets) and extra corpora, by name."""
        s = self._pipeline.settings
        options = {"max_captions": s.captions.max_captions, "synthetic_bias": s.captions.synthetic_bias}
        names = redact.unique_names(filter(None, (s.captions.corpus, *s.triplets.extra_corpora)))
        corpora = {names[name]: open_corpus(name, **options) for name in s.triplets.extra_corpora}
        if not self._pipeline.has_captions and (corpora or s.triplets.n_professions):
            return corpora
        corpus = self._pipeline.corpus
        if corpus.for_triplets:
            return {corpus.for_triplets: open_corpus(corpus.for_triplets, **options)} | corpora
        return {names[s.captions.corpus]: corpus} | corpora

    @cached_method
    def neutral(self) -> asking.Neutral:
        """Return neutral captions of all corpora, and the reasons for excluding others; none with professions alone."""
        if not self.corpora:
            return asking.NO_CAPTIONS
        # Without a sample size, the number of captions depends on the search.
        assume = _assume_neutral if self._pipeline.settings.triplets.n_triplets else None
        return self._pipeline.search_corpus(["triplets"], _find_neutral, assume)

    @cached_method
    def prompts(self) -> pd.DataFrame:
        """Return the prompts of all triplets, of the corpora and of professions.

        Columns of :func:`biaslab.papers.triplets.prompts.professions`; topic and profession are empty for captions.
        Errors are those of :func:`check_neutral`.
        """
        s, captions = self._pipeline.settings.triplets, self.neutral().captions
        check_neutral(self._pipeline, self.neutral())
        frames = []
        for dataset, dataset_captions in captions.groupby("dataset", sort=False):
            is_first = not frames and self._pipeline.has_captions
            seeds = s.images_per_prompt if is_first else s.extra_images_per_prompt
            frames.append(asking.triplets(dataset_captions, dataset, seeds=seeds, placebo=s.placebo))
        if len(captions) and s.single_triplet_images:
            options = {"seeds": s.single_triplet_images, "placebo": s.placebo}
            repeated = asking.triplets(captions[:1], ONE.format(captions["dataset"].iloc[0]), **options)
            # Use separate noise, because images of the same triplet may precede these.
            frames.insert(1, repeated.assign(noise_id=repeated["noise_id"] + " repeated"))
        if s.n_professions:
            frames.append(self.professions())
            if s.single_triplet_images and not len(captions):
                frames.append(asking.repeat_first_triplet(frames[0], s.single_triplet_images))
        prompts = pd.concat(frames, ignore_index=True)
        id_columns, topic_columns = list(prompts)[:4], ["topic", "profession"]
        prompts = prompts.reindex(columns=list(dict.fromkeys([*id_columns, *topic_columns, *prompts])))
        return prompts.astype(dict.fromkeys(topic_columns, object)).fillna(dict.fromkeys(topic_columns, ""))

    def professions(self) -> pd.DataFrame:
        """Return the prompts of professions from :func:`biaslab.papers.triplets.prompts.professions`."""
        s = self._pipeline.settings.triplets
        options = {"seeds": s.images_per_prompt, "placebo": s.placebo, "article": s.article}
        return asking.professions(s.n_professions, seed=self._pipeline.seed, **options)

    def texts(self) -> tuple[pd.DataFrame, type[GeneratedImages]]:
        """Return the prompts for generation, and the class that generates and caches their images."""
        prompts = self.prompts()
        if not self._pipeline.settings.triplets.attention:
            return prompts, GeneratedImages
        return prompts.assign(words=[asking.words(text) for text in prompts["text"]]), AttendedImages

    @cached_method
    def images(self) -> DescribedImages:
        """Return images of all prompts; those of a triplet with the same seed start from the same noise.

        Their table has image_id, prompt_id, model, dataset, triplet_id, seed (from 0 within a prompt), prompt_gender,
        text, status (``ok``, or the problem) and reason. With ``triplets.attention``, their ``source`` has a map of
        each word (:class:`~biaslab.attribution.images.AttendedImages`).
        """
        pipeline, (prompts, storage_class) = self._pipeline, self.texts()
        if storage_class is AttendedImages:
            pipeline.image_model("triplets").check_attention()
        generated = pipeline.generate_images(prompts, "triplets", "triplets", storage_class=storage_class)
        table = generated.table[["image_id", "prompt_id", "index", "status"]].merge(prompts, on="prompt_id")
        reason = table["status"].where(table["status"] != "ok", "")
        table = table.assign(model=pipeline.label, seed=table["index"], reason=reason)
        return DescribedImages(generated, table[list(_IMAGE_COLUMNS)])

    # -- similarity ---------------------------------------------------------------------------------

    @property
    def networks(self) -> dict[str, Judge | None]:
        """The networks that compare images, by key of :data:`biaslab.metrics.similarity.METRICS`; None for pixels."""
        settings = self._pipeline.settings.triplets.similarity
        names = {kind: getattr(settings, kind) for kind in type(settings).model_fields}
        judge = partial(self._pipeline.judge, "triplets.similarity")
        judges = {kind: judge("" if name == "paper" else name, kind) for kind, name in names.items() if name}
        return {"pixels": None} | judges

    def compare_latents(self, pairs: pd.DataFrame) -> pd.DataFrame:
        """Return similarities of the latents of pairs of images, final and after each step (section 4.1.2)."""
        images = duplicates.all_images(self.images().source)
        if not isinstance(images, GeneratedImages):
            return spaces.missing_values(pairs, spaces.OF_LATENTS, spaces.NO_LATENTS)
        return self._pipeline.compute(spaces.compare_latents, images, pairs)

    @property
    def object_judge(self) -> Judge | None:
        """The judge that detects objects; None where the setting is empty."""
        return self._pipeline.judge("triplets.objects")

    @cached_method
    def objects(self) -> segmentation.Instances:
        """Return the instances of objects in all images, and the status of each image (section 5.1).

        Raises ParameterError if the settings require ground truth that the images lack, or the vocabulary is invalid.
        """
        self._pipeline.require("triplets.objects", prompt_set="triplets")
        judge, vocabulary = self.object_judge, self._pipeline.settings.triplets.object_vocabulary_file
        if isinstance(judge, GroundTruthObjects) and not self._pipeline.image_model("triplets").truthful:
            cause = f"triplets.objects is {judge.name!r}, which is not available for images of {self._pipeline.model!r}"
            raise ParameterError(f"{cause}. Set it to an object finder.")
        if vocabulary:
            segmentation.words(vocabulary)
        if isinstance(judge, InstanceFile):
            # Before images are generated: their ids are known.
            self._pipeline.record_use("triplets.objects", judge)
            return segmentation.read(judge.path, self._image_ids())
        return self.find_instances(self.images().source)

    def find_instances(self, images: ImageSource) -> segmentation.Instances:
        """Return the instances in images of a source, by the detector in the settings; as :meth:`objects`."""
        judge = self._pipeline.check_judge("triplets.objects", images)
        if isinstance(judge, GroundTruthObjects):
            return self.truth(images)
        return self._pipeline.compute(segmentation.find_instances, images, judge)

    def truth(self, images: ImageSource) -> segmentation.Instances:
        """Return the true instances in images with ground truth."""
        truth = self._pipeline.require_ground_truth("the objects in images", "triplets")
        return self._pipeline.compute(segmentation.find_true_instances, images, truth.instances)

    @property
    def can_measure_detector_error(self) -> bool:
        """Whether the object detector's error can be measured, on images with ground truth."""
        judge = self.object_judge
        return judge is not None and judge.needs_images and self._pipeline.find_ground_truth("triplets") is not None

    @cached_method
    def annotations(self) -> pd.DataFrame:
        """Return the majority of annotators on each object: image_id, object and shown (``yes``, else ``no``)."""
        file, images = self._pipeline.settings.triplets.annotations, pd.DataFrame({"image_id": self._image_ids()})
        images = images.assign(position=1)
        options = {f"{annotated.OBJECT}*": annotated.YES_NO}
        frame = annotated.read(file, options, people=images, strict=True)
        majority = annotated.votes(frame[frame["label"].isin(annotated.YES_NO)], ["image_id", "question"])
        answers = np.where(majority["label"] == "yes", "yes", "no")
        return majority[["image_id"]].assign(
            object=majority["question"].str.removeprefix(annotated.OBJECT), shown=answers
        )

    def _image_ids(self) -> list[str]:
        """Return the ids of all images, generated or not."""
        return list(image_ids(self.prompts())["image_id"])

    @cached_method
    def drawings(self) -> ImageSource:
        """Return images with ground truth, on which the object detector's error is measured (section 7.3).

        Objects are independent of gender there, so that differences in detection between women and men are errors of
        the detector. The table is that of :meth:`biaslab.hub.ground_truth.GroundTruth.depictions`.
        """
        pipeline = self._pipeline
        n, vae = pipeline.settings.triplets.calibration_images, pipeline.image_model("triplets").autoencoder
        truth = pipeline.require_ground_truth("the error of the object detector", "triplets")
        return truth.depictions(n, seed=pipeline.seed + 4, decoded=vae)

    @cached_value
    def dependency(self) -> Dependency:
        """The stages of dependency groups of objects (section 6)."""
        return Dependency(self._pipeline, self)


_IMAGE_COLUMNS = (
    *("image_id", "prompt_id", "model", "dataset", "triplet_id", "seed", "prompt_gender", "text"),
    *("status", "reason"),
)


def _find_neutral(pipeline: Pipeline) -> asking.Neutral:
    s = pipeline.settings
    options = {"filter": s.triplets.filter, "sample": s.triplets.n_triplets, "seed": pipeline.seed}
    options["name_recognizer"] = s.captions.name_recognizer
    corpora = pipeline.part(Triplets).corpora
    results = [pipeline.compute(asking.neutral, corpus, name, **options) for name, corpus in corpora.items()]
    captions = [result.captions.assign(dataset=name) for name, result in zip(corpora, results, strict=True)]
    funnels, words = zip(*(result[1:] for result in results), strict=True)
    return asking.Neutral(*(pd.concat(frames, ignore_index=True) for frames in (captions, funnels, words)))


def _assume_neutral(pipeline: Pipeline, head: asking.Neutral) -> asking.Neutral:
    """Return placeholders for the sampled captions of each dataset, given the result for the first captions."""
    n = pipeline.settings.triplets.n_triplets
    rows = [(f"{k:06d}", f"a person {k}", name) for name in pipeline.part(Triplets).corpora for k in range(n)]
    captions = pd.DataFrame(rows, columns=["triplet_id", "text", "dataset"], dtype=object)
    return asking.Neutral(captions.assign(caption_id=captions["triplet_id"]), head.funnel, head.words)


def check_neutral(pipeline: Pipeline, neutral: asking.Neutral) -> None:
    """Raise InputError if the captions of a dataset give no triplet, and the settings have no professions."""
    if pipeline.settings.triplets.n_professions:
        return
    datasets = set(neutral.captions["dataset"])
    for name in (corpus for corpus in pipeline.part(Triplets).corpora if corpus not in datasets):
        funnel = neutral.funnel[neutral.funnel["dataset"] == name]
        n = funnel["n_captions"].iloc[0]
        if not n:
            raise InputError(f"The corpus {name!r} contains no captions; set captions.corpus to another corpus.")
        step = funnel[funnel["n_captions"] == 0].iloc[0]
        raise InputError(
            f"None of the {n:,} captions of the corpus {name!r} can be used for triplets: the last were excluded at "
            f"the step {step['step']!r} ({step['excluded_by']}). Set captions.corpus to captions that mention a person "
            "or people, triplets.filter to 'paper', or triplets.n_professions to 1 or more."
        )
