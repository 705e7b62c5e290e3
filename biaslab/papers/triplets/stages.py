"""The pipeline's stages for triplets of prompts: captions → neutral ones → three prompts each → images → objects.

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
        """The captions of the settings (or those that these have for triplets) and further datasets, by their names."""
        s = self._pipeline.settings
        options = {"max_captions": s.captions.max_captions, "synthetic_bias": s.captions.synthetic_bias}
        names = redact.unique_names(filter(None, (s.captions.corpus, *s.triplets.extra_corpora)))
        corpora = {names[name]: open_corpus(name, **options) for name in s.triplets.extra_corpora}
        if not self._pipeline.has_captions and (corpora or s.triplets.n_professions):
            return corpora
        own = self._pipeline.corpus
        if own.for_triplets:
            return {own.for_triplets: open_corpus(own.for_triplets, **options)} | corpora
        return {names[s.captions.corpus]: own} | corpora

    @cached_method
    def neutral(self) -> asking.Neutral:
        """Return neutral captions of all corpora, and what became of the others; of professions alone none."""
        if not self.corpora:
            return asking.NO_CAPTIONS
        # All captions are as many as a search finds.
        assume = _assumed_neutral if self._pipeline.settings.triplets.n_triplets else None
        return self._pipeline.search_corpus(["triplets"], _find_neutral, assume)

    @cached_method
    def prompts(self) -> pd.DataFrame:
        """Return the prompts of all triplets, of the corpora and of professions.

        Columns of :func:`biaslab.papers.triplets.prompts.professions`; topic and profession are empty of captions.
        Raises as :func:`check_neutral`.
        """
        s, captions = self._pipeline.settings.triplets, self.neutral().captions
        check_neutral(self._pipeline, self.neutral())
        frames = []
        for dataset, some in captions.groupby("dataset", sort=False):
            is_first = not frames and self._pipeline.has_captions
            seeds = s.images_per_prompt if is_first else s.extra_images_per_prompt
            frames.append(asking.triplets(some, dataset, seeds=seeds, placebo=s.placebo))
        if len(captions) and s.single_triplet_images:
            options = {"seeds": s.single_triplet_images, "placebo": s.placebo}
            one = asking.triplets(captions[:1], ONE.format(captions["dataset"].iloc[0]), **options)
            # Noise of its own, as its images may follow those of the same triplet.
            frames.insert(1, one.assign(noise_id=one["noise_id"] + " repeated"))
        if s.n_professions:
            frames.append(self.professions())
            if s.single_triplet_images and not len(captions):
                frames.append(asking.repeated(frames[0], s.single_triplet_images))
        whole = pd.concat(frames, ignore_index=True)
        first, told = list(whole)[:4], ["topic", "profession"]
        whole = whole.reindex(columns=list(dict.fromkeys([*first, *told, *whole])))
        return whole.astype(dict.fromkeys(told, object)).fillna(dict.fromkeys(told, ""))

    def professions(self) -> pd.DataFrame:
        """Return the prompts of professions, as of :func:`biaslab.papers.triplets.prompts.professions`."""
        s = self._pipeline.settings.triplets
        same = {"seeds": s.images_per_prompt, "placebo": s.placebo, "article": s.article}
        return asking.professions(s.n_professions, seed=self._pipeline.seed, **same)

    def texts(self) -> tuple[pd.DataFrame, type[GeneratedImages]]:
        """Return the prompts as the model is asked, and as what its images are kept."""
        asked = self.prompts()
        if not self._pipeline.settings.triplets.attention:
            return asked, GeneratedImages
        return asked.assign(words=[asking.words(text) for text in asked["text"]]), AttendedImages

    @cached_method
    def images(self) -> DescribedImages:
        """Return images of all prompts; those of a triplet with the same seed begin with the same noise.

        Their table has image_id, prompt_id, model, dataset, triplet_id, seed (from 0 within a prompt), prompt_gender,
        text, outcome (``ok``, or what is wrong) and reason. Where ``triplets.attention`` is set, their ``source`` maps
        each word (:class:`~biaslab.attribution.images.AttendedImages`).
        """
        pipeline, (asked, storage_class) = self._pipeline, self.texts()
        if storage_class is AttendedImages:
            pipeline.image_model("triplets").check_attention()
        made = pipeline.generate_images(asked, "triplets", "triplets", storage_class=storage_class)
        table = made.table[["image_id", "prompt_id", "index", "status"]].merge(asked, on="prompt_id")
        reason = table["status"].where(table["status"] != "ok", "")
        table = table.assign(model=pipeline.label, seed=table["index"], reason=reason)
        return DescribedImages(made, table[list(_IMAGE_COLUMNS)])

    # -- how alike ----------------------------------------------------------------------------------

    @property
    def networks(self) -> dict[str, Judge | None]:
        """The networks that compare images, by key of :data:`biaslab.metrics.similarity.METRICS`; None for pixels."""
        chosen = self._pipeline.settings.triplets.similarity
        names = {by: getattr(chosen, by) for by in type(chosen).model_fields}
        judge = partial(self._pipeline.judge, "triplets.similarity")
        named = {by: judge("" if name == "paper" else name, by) for by, name in names.items() if name}
        return {"pixels": None} | named

    def compare_latents(self, pairs: pd.DataFrame) -> pd.DataFrame:
        """Return how alike the latents of pairs of images are, the last and those after each step (section 4.1.2)."""
        made = duplicates.all_images(self.images().source)
        if not isinstance(made, GeneratedImages):
            return spaces.missing_values(pairs, spaces.OF_LATENTS, spaces.NO_LATENTS)
        return self._pipeline.compute(spaces.compare_latents, made, pairs)

    @property
    def object_judge(self) -> Judge | None:
        """The judge that detects objects; None where the setting is empty."""
        return self._pipeline.judge("triplets.objects")

    @cached_method
    def objects(self) -> segmentation.Instances:
        """Return the instances of objects in all images, and what became of each image (section 5.1).

        Raises ParameterError: They are to be the truth of images that have none, or the vocabulary cannot be read.
        """
        self._pipeline.require("triplets.objects", prompt_set="triplets")
        judge, vocabulary = self.object_judge, self._pipeline.settings.triplets.object_vocabulary_file
        if isinstance(judge, GroundTruthObjects) and not self._pipeline.image_model("triplets").truthful:
            why = f"triplets.objects is {judge.name!r}, which is not available for images of {self._pipeline.model!r}"
            raise ParameterError(f"{why}: set it to an object finder.")
        if vocabulary:
            segmentation.words(vocabulary)
        if isinstance(judge, InstanceFile):
            # Before images are generated: their ids are known.
            self._pipeline.record_use("triplets.objects", judge)
            return segmentation.read(judge.path, self._image_ids())
        return self.find_instances(self.images().source)

    def find_instances(self, images: ImageSource) -> segmentation.Instances:
        """Return the instances in images of a source, by what the settings name; as :meth:`objects`."""
        judge = self._pipeline.check_judge("triplets.objects", images)
        if isinstance(judge, GroundTruthObjects):
            return self.truth(images)
        return self._pipeline.compute(segmentation.find_instances, images, judge)

    def truth(self, images: ImageSource) -> segmentation.Instances:
        """Return the instances that images drawn from ground truth show."""
        truth = self._pipeline.require_ground_truth("what images show", "triplets")
        return self._pipeline.compute(segmentation.find_true_instances, images, truth.instances)

    @property
    def can_measure_detector_error(self) -> bool:
        """Whether the error of what finds objects can be told, on images with ground truth."""
        judge = self.object_judge
        return judge is not None and judge.needs_images and self._pipeline.find_ground_truth("triplets") is not None

    @cached_method
    def annotations(self) -> pd.DataFrame:
        """Return whether most annotators see an object: image_id, object and shown (``yes``, else ``no``)."""
        file, images = self._pipeline.settings.triplets.annotations, pd.DataFrame({"image_id": self._image_ids()})
        images = images.assign(position=1)
        labels = {f"{annotated.OBJECT}*": annotated.YES_NO}
        frame = annotated.read(file, labels, people=images, strict=True)
        majority = annotated.votes(frame[frame["label"].isin(annotated.YES_NO)], ["image_id", "question"])
        shown = np.where(majority["label"] == "yes", "yes", "no")
        return majority[["image_id"]].assign(
            object=majority["question"].str.removeprefix(annotated.OBJECT), shown=shown
        )

    def _image_ids(self) -> list[str]:
        """Return the ids of all images, made or not."""
        return list(image_ids(self.prompts())["image_id"])

    @cached_method
    def drawings(self) -> ImageSource:
        """Return images with ground truth, on which the error of what finds objects is measured (section 7.3).

        No object goes with a gender there: what is found less often next to women or men is no other object. Table as
        of :meth:`biaslab.hub.ground_truth.GroundTruth.depictions`.
        """
        pipeline = self._pipeline
        n, vae = pipeline.settings.triplets.calibration_images, pipeline.image_model("triplets").autoencoder
        truth = pipeline.require_ground_truth("the error of what finds objects", "triplets")
        return truth.depictions(n, seed=pipeline.seed + 4, decoded=vae)

    @cached_value
    def dependency(self) -> Dependency:
        """The stages for what words guide: dependency groups of objects (section 6)."""
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


def _assumed_neutral(pipeline: Pipeline, head: asking.Neutral) -> asking.Neutral:
    """Return as many captions of each dataset as are sampled, given the result for the first captions."""
    n = pipeline.settings.triplets.n_triplets
    rows = [(f"{k:06d}", f"a person {k}", name) for name in pipeline.part(Triplets).corpora for k in range(n)]
    captions = pd.DataFrame(rows, columns=["triplet_id", "text", "dataset"], dtype=object)
    return asking.Neutral(captions.assign(caption_id=captions["triplet_id"]), head.funnel, head.words)


def check_neutral(pipeline: Pipeline, neutral: asking.Neutral) -> None:
    """Look at the captions of each dataset. Raises InputError: One gives no triplet, nor are professions prompted."""
    if pipeline.settings.triplets.n_professions:
        return
    for name in (one for one in pipeline.part(Triplets).corpora if one not in set(neutral.captions["dataset"])):
        funnel = neutral.funnel[neutral.funnel["dataset"] == name]
        n = funnel["n_captions"].iloc[0]
        if not n:
            raise InputError(f"The corpus {name!r} holds no captions; set captions.corpus to one that does.")
        step = funnel[funnel["n_captions"] == 0].iloc[0]
        raise InputError(
            f"None of the {n:,} captions of the corpus {name!r} gives a triplet: the last were excluded at the step "
            f"{step['step']!r} ({step['excluded_by']}). Set captions.corpus to captions that name a person or people, "
            "triplets.filter to 'paper', or triplets.n_professions to 1 or more."
        )
