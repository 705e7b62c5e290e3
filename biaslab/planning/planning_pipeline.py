"""A pipeline that computes nothing: its doors record what they are asked for, and return empty, typed results.

Every stage is asked through the same doors as in a run: :meth:`~PlanningPipeline.generate_images` for images,
:meth:`~PlanningPipeline.check_judge` for judges, and :meth:`~PlanningPipeline.compute` for all other work.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

import pandas as pd

from biaslab.cache.result_cache import ResultCache, UnfinishedError
from biaslab.captions.corpus import FileCorpus
from biaslab.captions.settings import CAPTIONS_AS_PROMPTS, SELECTED
from biaslab.endpoints.settings import EndpointSettings
from biaslab.errors import ParameterError
from biaslab.generation.generator import check_offload
from biaslab.generation.images import GeneratedImages
from biaslab.generation.models import ImageModel
from biaslab.hub.image_sources import ImageSource, domain_of
from biaslab.judges.judge import Judge
from biaslab.pipeline import Pipeline
from biaslab.planning import planned
from biaslab.planning.records import ImageRequest, ModelUse, Omission, Recorder
from biaslab.schema import groups

SEARCHED = 50_000
"""Captions of a corpus that a plan searches; of a larger one, what settings allow is the most that is asked for."""
STREAMED = 1000
"""Captions of a corpus on the hub that a plan reads."""
COUNTS = ("images_per_prompt", "caption_prompts_per_occupation", "images_per_caption")
"""Settings of generation that stages read where they ask for images, and models do not."""
IMAGES_OF_PROMPT = 2
"""Images of each prompt that measures see in a plan; all are counted."""


class PlanningPipeline(Pipeline):
    """A pipeline that computes nothing, and records what it is asked for."""

    def __init__(self, pipeline: Pipeline, recorder: Recorder) -> None:
        with groups.recorded_reads(None):
            super().__init__(pipeline.model, pipeline._given, seed=pipeline.seed, progress=False)
        self.headlines_only = pipeline.headlines_only
        self._pipeline_of_run, self._recorder = pipeline, recorder
        # Kinds whose prompts are not known yet, and those of which there may be fewer.
        self._provisional: set[str] = set()
        self._at_most: set[str] = set()

    def changed(self, model: str = "", **changes: Any) -> PlanningPipeline:
        """Return one of the changed pipeline that records into the same plan."""
        return PlanningPipeline(self._pipeline_of_run.changed(model, **changes), self._recorder)

    def remember(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """Return what ``compute`` returns, computed once; what it asked for is recorded whenever it is taken."""
        if key not in self._kept:
            with self._recorder.scope() as recorded:
                result = compute()
            self._kept[key] = result, recorded
        result, recorded = self._kept[key]
        self._recorder.add(*recorded)
        return result

    # -- images ----------------------------------------------------------------------------------------------

    def generate_images(
        self,
        prompts: pd.DataFrame,
        kind: str,
        prompt_set: str = "captions",
        *,
        several: bool = False,
        storage_class: type[GeneratedImages] | None = None,
    ) -> ImageSource:
        """Return images that are not generated, and record the request."""
        pipeline = self._pipeline_of_run
        model = self.image_model(prompt_set, several=several)
        self._check_model(model)
        n, n_cached = int(prompts["n_images"].sum()), 0
        if kind not in self._at_most:
            self._check_texts(model, kind, prompts)
        if kind not in self._provisional | self._at_most:
            options = {"seed": self.seed, "cache": pipeline.cache, "storage_class": storage_class}
            n_cached = model.n_cached(prompts, **options)
        folder = getattr(model, "folder", None)
        n = n if folder is None else n_cached  # Nobody makes images that a folder lacks.
        counts = self.label, kind, n, n_cached, kind in self._at_most
        how = prompts, model, storage_class, pipeline, prompt_set, several
        request = ImageRequest(self._recorder.paper, *counts, *how)
        self._recorder.add(request)
        if folder is not None:
            return model.generate(prompts)
        # What follows sees few images of each prompt, so that plans of many images take no longer.
        few = prompts.assign(n_images=prompts["n_images"].clip(upper=IMAGES_OF_PROMPT))
        return planned.generate(few, model)

    def _check_texts(self, model: ImageModel, kind: str, prompts: pd.DataFrame) -> None:
        try:
            model.check_texts(prompts["text"])
        except ParameterError as error:
            if kind not in ("caption_prompts", "paraphrased"):
                raise
            used = [a for a in self.settings.captions.approaches if a in CAPTIONS_AS_PROMPTS]
            others = f"Set captions.approaches to others, such as {', '.join(SELECTED)}."
            raise ParameterError(f"Captions cannot be prompts ({', '.join(used)}): {error} {others}") from None

    def _check_model(self, model: ImageModel) -> None:
        """Check a model, and record the settings that decide how it makes images."""
        with groups.recorded_reads(None):
            # Whether a model knows the occupations does not depend on whether prompts name them.
            model.check(self._pipeline_of_run.occupations)
            s = self.settings
            # What workers of a cluster have, this machine may not.
            if model.sends_prompts and s.compute.engine == "local":
                check_offload(s.compute.offload, s.compute.device)
        self._record_group("compute")
        if model.sends_prompts:
            self._record_group("generation", but=COUNTS)
        if getattr(model, "price", None) is not None:
            self._record_group("endpoint")
        if model.truthful:
            self._record_group("dalleval.failures")
            self._recorder.add((type(s.dalleval), "skin_tones"))
        self._recorder.add((type(s.generation), "image_domain"), ModelUse("model", self.model))

    # -- judges ----------------------------------------------------------------------------------------------

    @cached_property
    def judge_options(self):
        """The settings that judges use, of which each judge records those that it reads."""
        return self._pipeline_of_run.judge_options

    def check_judge(self, setting: str, images: ImageSource, judge: Judge | None = None) -> Judge:
        """Return and record a judge of images; its domain is checked with all that a plan uses."""
        if (judge := judge or self.judge(setting)) is None:
            return super().check_judge(setting, images, judge)
        self.note_use(setting, judge, images)
        return judge

    def note_use(self, setting: str, judge: Judge | None = None, images: ImageSource | None = None) -> None:
        """Record that what a setting names is used, and which settings it reads."""
        name = judge.name if judge else self.settings.captions.encoder
        if setting == "judging.gender" and name != self._recorder.main_judge:
            setting = "judging.extra_judges"
        domain = (domain_of(images), images.name) if images is not None else ("", "")
        self._recorder.add(ModelUse(setting, name, *domain, judge=judge))
        with groups.recorded_reads(None):
            s = self.settings
        fields = {type(s.judging): ("batch_size", "dtype"), type(s.compute): tuple(type(s.compute).model_fields)}
        if setting == "captions.encoder":
            fields[type(s.captions)] = ("encoder", "encoder_dtype")
        if setting in self.gender_settings:
            fields[type(s.judging)] += ("class_prompts", "threshold", "min_face_size")
        if setting == "judging.faces":
            fields[type(s.judging)] += ("min_face_score", "min_face_size")
        if setting == "triplets.objects":
            fields[type(s.triplets)] = ("object_vocabulary_file",)
            fields[type(s.triplets.thresholds)] = tuple(type(s.triplets.thresholds).model_fields)
        if judge is not None and judge.is_charged:
            fields[type(s.vision)] = tuple(type(s.vision).model_fields)
            fields[type(s.endpoint)] = tuple(type(s.endpoint).model_fields)
        self._recorder.add(*((group, name) for group, names in fields.items() for name in names))

    def does_without(self, *settings: str) -> bool:
        """Return whether some of the settings name nothing, and record these."""
        unset = self.unset_settings(*settings)
        # A further judge labels what headlines rest on and no more.
        if not self.headlines_only:
            self._recorder.add(*map(Omission, unset))
        return bool(unset)

    # -- all other work --------------------------------------------------------------------------------------

    def by_judgements(
        self, kind: str, answered: Callable, placeholder: Callable[[], Any], *, is_free: bool = True
    ) -> Any:
        """Return what depends on judgements where all of these are cached, and a placeholder elsewhere."""
        with self._recorder.scope() as recorded:
            answered(self, kind)
        requests = [item for item in recorded if isinstance(item, ImageRequest)]
        if is_free and all(request.n_remaining == 0 for request in requests):
            with suppress(UnfinishedError):
                return answered(read_only_pipeline(self._pipeline_of_run), kind)
        self._provisional.add(kind)
        return placeholder()

    def search_corpus(self, kinds: Sequence[str], find: Callable, likely: Callable | None) -> Any:
        """Return what is found in a small corpus, and what is likely in a large one."""
        pipeline = self._pipeline_of_run
        s = pipeline.settings.captions
        # Captions that are written as they are read cost next to nothing, however many there are.
        is_small = not pipeline.has_captions or 0 < s.max_captions <= SEARCHED or pipeline.corpus.written
        if is_small or likely is None:
            return find(pipeline)
        most = SEARCHED if isinstance(pipeline.corpus, FileCorpus) else STREAMED
        with groups.recorded_reads(None):
            head = pipeline.changed(captions={"max_captions": min(s.max_captions or most, most)})
            is_whole = sum(map(len, head.corpus.batches())) < most
        if is_whole:
            return find(pipeline)
        self._at_most |= set(kinds)
        return likely(self, find(head))

    def compute(self, work: Callable, *given, **more):
        """Return the planned result of a stage function."""
        name = work.__name__
        endpoint = next((e for e in (*given, *more.values()) if isinstance(e, EndpointSettings)), None)
        if endpoint is not None:
            endpoint.check_key()
            self._record_group("endpoint")
            self._provisional |= {"paraphrased"} if name == "paraphrases" else set()
        if name == "fetch_images":
            self._record_group("captions.downloads")
        return getattr(planned, name)(*given, **more)

    def _record_group(self, name: str, but: Collection[str] = ()) -> None:
        """Record the settings of a group as read, but for some."""
        with groups.recorded_reads(None):
            group = self.settings
            for part in name.split("."):
                group = getattr(group, part)
        self._recorder.add(*((type(group), field) for field in type(group).model_fields if field not in but))


def read_only_pipeline(pipeline: Pipeline) -> Pipeline:
    """Return a pipeline that has what the cache has; an UnfinishedError is raised for anything else."""
    looks = pipeline.changed()
    looks.cache = ResultCache(pipeline.cache.root, share=(10**9 - 1, 10**9))
    return looks
