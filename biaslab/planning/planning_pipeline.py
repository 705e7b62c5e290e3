"""A pipeline that computes no results: it records the requests of stages, and returns empty, typed results.

Stages request images with :meth:`~PlanningPipeline.generate_images`, judges with
:meth:`~PlanningPipeline.check_judge`, and all other work with :meth:`~PlanningPipeline.compute`, as in a run.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

import pandas as pd

from biaslab.cache.result_cache import UnfinishedError
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

MAX_SEARCHED_CAPTIONS = 50_000
"""Maximum number of captions that a plan searches; for a larger corpus, it counts as many as settings allow."""
MAX_STREAMED_CAPTIONS = 1000
"""Captions that a plan reads of a corpus on the hub."""
COUNTS = ("images_per_prompt", "caption_prompts_per_occupation", "images_per_caption")
"""Settings of generation that stages read when they request images, and models do not read."""
IMAGES_OF_PROMPT = 2
"""Images per prompt that a plan passes on to measures; the plan counts all of them."""


_INCLUSION = ("judging.class_prompts", "judging.threshold", "judging.min_face_size")
# The settings that are read with the judge or encoder of a setting.
_READ_FOR = {
    "judging.gender": _INCLUSION,
    "judging.extra_judges": _INCLUSION,
    "judging.faces": ("judging.min_face_score", "judging.min_face_size"),
    "captions.encoder": ("captions.encoder_dtype",),
    "triplets.objects": ("triplets.object_vocabulary_file", "triplets.thresholds"),
}


class PlanningPipeline(Pipeline):
    """A pipeline that records the requests of stages, and computes no results."""

    def __init__(self, pipeline: Pipeline, recorder: Recorder) -> None:
        with groups.recorded_reads(None):
            super().__init__(pipeline.model, pipeline._user_settings, seed=pipeline.seed, progress=False)
        self.headlines_only = pipeline.headlines_only
        self._run_pipeline, self._recorder = pipeline, recorder
        # Kinds whose prompts depend on judgements or paid answers, and kinds that may have fewer images.
        self._provisional: set[str] = set()
        self._at_most: set[str] = set()

    def with_changes(self, model: str = "", **changes: Any) -> PlanningPipeline:
        """Return one of the changed pipeline that records into the same plan."""
        return PlanningPipeline(self._run_pipeline.with_changes(model, **changes), self._recorder)

    def remember(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """Return the result of ``compute``, computed once; each call records the requests of that computation."""
        if key not in self._results:
            with self._recorder.scope() as records:
                result = compute()
            self._results[key] = result, records
        result, records = self._results[key]
        self._recorder.add(*records)
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
        """Record a request for images, and return images that read as unreadable."""
        pipeline, model = self._run_pipeline, self.image_model(prompt_set, several=several)
        self._check_model(model)
        n, n_cached = int(prompts["n_images"].sum()), 0
        if kind not in self._at_most:
            self._check_texts(model, kind, prompts)
        if kind not in self._provisional | self._at_most:
            options = {"seed": self.seed, "cache": pipeline.cache, "storage_class": storage_class}
            n_cached = model.n_cached(prompts, **options)
        folder = getattr(model, "folder", None)
        n = n if folder is None else n_cached  # No model generates the images that a folder lacks.
        counts = self.label, kind, n, n_cached, kind in self._at_most
        origin = prompts, model, storage_class, pipeline, prompt_set, several
        request = ImageRequest(self._recorder.paper, *counts, *origin)
        self._recorder.add(request)
        if folder is not None:
            return model.generate(prompts)
        # Few images of each prompt are passed on, so that plans of many images take no longer.
        subset = prompts.assign(n_images=prompts["n_images"].clip(upper=IMAGES_OF_PROMPT))
        return planned.generate(subset, model)

    def _check_texts(self, model: ImageModel, kind: str, prompts: pd.DataFrame) -> None:
        try:
            model.check_texts(prompts["text"])
        except ParameterError as error:
            if kind not in ("caption_prompts", "paraphrased"):
                raise
            approaches = [a for a in self.settings.captions.approaches if a in CAPTIONS_AS_PROMPTS]
            advice = f"Set captions.approaches to others, such as {', '.join(SELECTED)}."
            raise ParameterError(
                f"Captions cannot be used as prompts ({', '.join(approaches)}): {error} {advice}"
            ) from None

    def _check_model(self, model: ImageModel) -> None:
        """Check a model, and record the settings that decide how it generates images."""
        with groups.recorded_reads(None):
            # Whether a model knows the occupations does not depend on whether prompts name them.
            model.check(self._run_pipeline.occupations)
            s = self.settings
            # The workers of a cluster may have hardware that this machine lacks.
            if model.sends_prompts and s.compute.engine == "local":
                check_offload(s.compute.offload, s.compute.device)
        names = ["compute", "generation.image_domain"]
        if model.sends_prompts:
            names += [f"generation.{name}" for name in type(s.generation).model_fields if name not in COUNTS]
        if getattr(model, "price", None) is not None:
            names.append("endpoint")
        if model.truthful:
            names += ["dalleval.failures", "dalleval.skin_tones"]
        self._recorder.add_settings(*names)
        self._recorder.add(ModelUse("model", self.model))

    # -- judges ----------------------------------------------------------------------------------------------

    @cached_property
    def judge_options(self):
        """The settings that judges use; :meth:`record_use` records the ones that a judge reads."""
        return self._run_pipeline.judge_options

    def check_judge(self, setting: str, images: ImageSource, judge: Judge | None = None) -> Judge:
        """Return a judge of images and record its use; :meth:`ModelUse.check_domain` checks its domain."""
        if (judge := judge or self.judge(setting)) is None:
            return super().check_judge(setting, images, judge)
        self.record_use(setting, judge, images)
        return judge

    def record_use(self, setting: str, judge: Judge | None = None, images: ImageSource | None = None) -> None:
        """Record the use of a judge or encoder, and the settings that it reads."""
        name = judge.name if judge else self.settings.captions.encoder
        if setting == "judging.gender" and name != self._recorder.main_judge:
            setting = "judging.extra_judges"
        domain = (domain_of(images), images.name) if images is not None else ("", "")
        self._recorder.add(ModelUse(setting, name, *domain, judge=judge))
        names = ["compute", "judging.batch_size", "judging.dtype", setting, *_READ_FOR.get(setting, ())]
        if judge is not None:
            names += [*judge.depends_on, *(["vision", "endpoint"] if judge.is_charged else [])]
        self._recorder.add_settings(*names)

    def has_unset(self, *settings: str) -> bool:
        """Return whether some of the settings are empty, and record them."""
        unset = self.unset_settings(*settings)
        # Extra judges label only the images of headlines.
        if not self.headlines_only:
            self._recorder.add(*map(Omission, unset))
        return bool(unset)

    # -- all other work --------------------------------------------------------------------------------------

    def prompts_from_judgements(
        self, kind: str, answered: Callable, placeholder: Callable[[], Any], *, is_free: bool = True
    ) -> Any:
        """Return prompts that depend on judgements where all judgements are cached, and placeholders elsewhere."""
        with self._recorder.scope() as records:
            answered(self, kind)
        requests = [item for item in records if isinstance(item, ImageRequest)]
        if is_free and all(request.n_remaining == 0 for request in requests):
            with suppress(UnfinishedError):
                return answered(self._run_pipeline.cached_only(), kind)
        self._provisional.add(kind)
        return placeholder()

    def search_corpus(self, kinds: Sequence[str], find: Callable, assume: Callable | None) -> Any:
        """Return the result of a search of a small corpus, and the assumed result for a large one."""
        pipeline = self._run_pipeline
        s = pipeline.settings.captions
        # Generated captions are fast to read, regardless of their number.
        is_small = not pipeline.has_captions or 0 < s.max_captions <= MAX_SEARCHED_CAPTIONS or pipeline.corpus.written
        if is_small or assume is None:
            return find(pipeline)
        limit = MAX_SEARCHED_CAPTIONS if isinstance(pipeline.corpus, FileCorpus) else MAX_STREAMED_CAPTIONS
        with groups.recorded_reads(None):
            head = pipeline.with_changes(captions={"max_captions": min(s.max_captions or limit, limit)})
            is_whole = sum(map(len, head.corpus.batches())) < limit
        if is_whole:
            return find(pipeline)
        self._at_most |= set(kinds)
        return assume(self, find(head))

    def compute(self, work: Callable, *args, **kwargs):
        """Return the planned result of a stage function."""
        name = work.__name__
        endpoint = next((e for e in (*args, *kwargs.values()) if isinstance(e, EndpointSettings)), None)
        if endpoint is not None:
            endpoint.check_key()
            self._recorder.add_settings("endpoint")
            self._provisional |= {"paraphrased"} if name == "paraphrases" else set()
        if name == "fetch_images":
            self._recorder.add_settings("captions.downloads")
        return getattr(planned, name)(*args, **kwargs)
