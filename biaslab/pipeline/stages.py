"""The connected stages: captions → selections → prompts → images → judgements, each computed once, on demand.

Every result is a table with stable ids, cached under the digest of its inputs, so that a stopped run can resume.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial, wraps
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import pandas as pd

from biaslab import lexicons
from biaslab.cache.result_cache import ResultCache
from biaslab.captions import fetched
from biaslab.captions.corpus import open_corpus
from biaslab.captions.downloads import fetch_images
from biaslab.captions.embeddings import COLUMNS, NEAREST_APPROACHES, Encoder, embed_texts, nearest_captions
from biaslab.captions.fetched import FetchedImages
from biaslab.captions.indicators import find_indicators
from biaslab.captions.paraphrase import paraphrases
from biaslab.captions.search import SearchResult, search
from biaslab.captions.settings import DOWNLOAD, SELECTED
from biaslab.endpoints.settings import EndpointSettings
from biaslab.errors import InputError, MissingInputError, ParameterError, unknown_name
from biaslab.execution.progress import BarFile
from biaslab.execution.workers import Workers
from biaslab.generation.images import GeneratedImages
from biaslab.generation.models import ImageModel, open_model
from biaslab.hub import ground_truth, registry
from biaslab.hub.ground_truth import GroundTruth
from biaslab.hub.image_folder import ImageFolder
from biaslab.hub.image_sources import CaptionImages, DescribedImages, ImageSource, Subset, domain_of
from biaslab.judges import answers, duplicates, people, similarity, skin_tone
from biaslab.judges import registry as judging
from biaslab.judges.judge import Judge, JudgeOptions
from biaslab.judges.object_classes import CLASS_NAMES
from biaslab.prompts import word_files
from biaslab.prompts.word_files import Words, slug
from biaslab.settings import Settings

# Sets of prompts; a model name of an installed package may represent a different model for each.
PROMPT_SETS = ("captions", "paired", "dalleval", "triplets")
# Kinds of images: those behind captions, and those generated from templates, captions and paraphrases.
KINDS = ("training", "generated", "caption_prompts", "paraphrased")


T = TypeVar("T")


def cached_method(method: Callable) -> Callable:
    """Compute a method of stages, or a function of a pipeline, once for each pipeline and arguments.

    Tables are returned as copies.
    """

    @wraps(method)
    def wrapper(owner, *args):
        pipeline = getattr(owner, "_pipeline", owner)
        result = pipeline.remember((method, *args), partial(method, owner, *args))
        return result.copy() if hasattr(result, "iloc") else result

    return wrapper


def cached_value(method: Callable) -> property:
    """Compute a property of stages once for each pipeline."""
    return property(cached_method(method))


class Part:
    """The stages of one paper, with a pipeline's model, settings, cache and seed."""

    prompt_set: ClassVar[str] = ""  # The set of its prompts, one of :data:`PROMPT_SETS`.

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline


P = TypeVar("P", bound=Part)


class Pipeline:
    """The stages that papers share, from captions to judgements; :meth:`part` has those of one paper.

    Args:
        model: The text-to-image model, as :func:`biaslab.generation.models.open_model` takes it.
        settings: Settings of the stages; the model's own settings are used for those not given.
        seed: Seed of samples of captions and of images' noise.
        progress: Whether to show progress bars of stages on standard error.
        progress_file: A file for the latest bar, in place of standard error.
    """

    def __init__(
        self, model: str, settings: Settings, *, seed: int = 0, progress: bool = True, progress_file: Path | None = None
    ) -> None:
        self.model = model
        # Other models have other settings of their own.
        self._user_settings = settings
        filled = settings.for_model(model).with_defaults(registry.settings(model))
        if not filled.captions.encoder:
            # Without an encoder there are no nearest captions.
            unsupported = [name for name in filled.captions.approaches if name not in NEAREST_APPROACHES]
            filled = filled.with_changes(captions={"approaches": unsupported})
        self.settings = filled
        self.seed = seed
        self.progress = progress
        self.progress_file = progress_file
        # The shard of the work for this pipeline, as in biaslab.cache.result_cache.ResultCache.
        self.share: tuple[int, int] | None = None
        # Whether only the images that headlines are computed from are judged.
        self.headlines_only = False
        self._results: dict[Any, Any] = {}

    def part(self, kind: type[P]) -> P:
        """Return the stages of one paper, given their class; created once for each pipeline."""
        if kind not in self._results:
            self._results[kind] = kind(self)
        return self._results[kind]

    @property
    def label(self) -> str:
        """The model's name in tables."""
        return self.image_model().label

    @property
    def image_folder(self) -> ImageFolder | None:
        """The folder whose images represent the model; None where a model generates images."""
        return getattr(self.image_model(), "folder", None)

    def with_changes(self, model: str = "", **changes: Any) -> Self:
        """Return a pipeline with another model (empty: the same) or changed settings by group
        (``generation={"steps": 20}``).
        """
        progress = {"progress": self.progress, "progress_file": self.progress_file}
        pipeline = type(self)(
            model or self.model, self._user_settings.with_changes(**changes), seed=self.seed, **progress
        )
        pipeline.share, pipeline.headlines_only = self.share, self.headlines_only
        return pipeline

    @cached_property
    def baseline_pipelines(self) -> tuple[Self, ...]:
        """Pipelines of the baseline models."""
        return tuple(self.with_changes(name, baselines="none") for name in self.settings.baseline_models)

    def find_ground_truth(self, prompt_set: str = "captions") -> GroundTruth | None:
        """Return images with ground truth, if any, of the domain that :meth:`image_model` has for ``prompt_set``."""
        return ground_truth.for_domain(self.image_model(prompt_set).image_domain)

    def require_ground_truth(self, quantity: str, prompt_set: str = "captions") -> GroundTruth:
        """Return :meth:`find_ground_truth`, on which ``quantity`` is measured. Raises MissingInputError: It is None."""
        if (ground_truth_provider := self.find_ground_truth(prompt_set)) is None:
            image_domain = self.image_model(prompt_set).image_domain
            raise MissingInputError(
                f"No installed package provides {image_domain} with ground truth, which {quantity} needs."
            )
        return ground_truth_provider

    @cached_property
    def judge_options(self) -> JudgeOptions:
        """The settings that judges use."""
        s = self.settings
        finder = {"thresholds": s.triplets.thresholds, "vocabulary_file": s.triplets.object_vocabulary_file}
        place = {"device": self.device, "cache": self.cache.root, "classes": CLASS_NAMES}
        return JudgeOptions(s.judging, s.vision, s.endpoint, **finder, **place)

    def judge(self, setting: str, name: str = "", network: str = "") -> Judge | None:
        """Return the judge that a setting names, or of ``name``; None where the setting is empty.

        ``network`` is the key of a network in ``triplets.similarity``.
        """
        name = name or ("" if network else attrgetter(setting)(self.settings))
        return self._parse_judge(setting, name, network) if name or network else None

    @cached_method
    def _parse_judge(self, setting: str, name: str, network: str) -> Judge:
        if network:
            return similarity.embedding(network, name, self.judge_options)
        return judging.parse(name, setting, self.judge_options)

    @property
    def gender_judge(self) -> Judge | None:
        """The judge of perceived gender; None where the setting is empty."""
        return self.judge("judging.gender")

    gender_settings: ClassVar[tuple[str, ...]] = ("judging.gender", "judging.extra_judges")

    @property
    def gender_judges(self) -> list[Judge]:
        """All judges of perceived gender: the main one, then the extra ones."""
        s = self.settings.judging
        names = dict.fromkeys(filter(None, (s.gender, *s.extra_judges)))
        return [self.judge("judging.gender" if name == s.gender else "judging.extra_judges", name) for name in names]

    def check_judge(self, setting: str, images: ImageSource, judge: Judge | None = None) -> Judge:
        """Return a judge of images, by default the one that a setting names.

        Raises MissingInputError: The setting is empty. ParameterError: The judge is for images of another domain.
        """
        if (judge := judge or self.judge(setting)) is None:
            raise judging.missing_judges([setting], domain_of(images), images.name)
        judging.check_domain(judge, setting, domain_of(images), images.name)
        self.record_use(setting, judge, images)
        return judge

    def record_use(self, setting: str, judge: Judge | None = None, images: ImageSource | None = None) -> None:
        """Record in a plan that the judge or encoder of a setting is used; a pipeline that computes records nothing."""

    def check_gender_judge(self, judge: Judge, images: ImageSource) -> Judge:
        """Return one of :attr:`gender_judges`; raises as :meth:`check_judge`."""
        setting = "judging.gender" if judge is self.gender_judge else "judging.extra_judges"
        return self.check_judge(setting, images, judge)

    def unset_settings(self, *settings: str) -> tuple[str, ...]:
        """Return the empty ones of some settings, by their dotted names."""
        return tuple(name for name in settings if not attrgetter(name)(self.settings))

    def has_unset(self, *settings: str) -> bool:
        """Return whether some of the settings are empty, so that a table lacks their values; a plan records them."""
        return bool(self.unset_settings(*settings))

    def require(self, *settings: str, prompt_set: str = "captions") -> None:
        """Raise MissingInputError where settings of judges are empty, before images are generated.

        ``prompt_set`` is that of the images, as for :meth:`image_model`.
        """
        if unset := self.unset_settings(*settings):
            model = self.image_model(prompt_set)
            raise judging.missing_judges(unset, model.image_domain, f"the model {model.label!r}")

    def check_person_view(self, setting: str) -> None:
        """Raise ParameterError where a judge needs faces, and no faces are detected for ``judging.gender``."""
        judge, gender = self.judge(setting) or self.gender_judge, self.gender_judge
        if judge.needs_faces and gender and not gender.needs_faces:
            why = f"{setting} needs detected faces, but judging.gender={gender.name!r} does not detect faces"
            raise ParameterError(f"vision.person_view is 'crop': {why}. Set vision.person_view to 'position'.")

    @property
    def judge_settings(self) -> tuple[str, ...]:
        """The settings of the judge of perceived gender, and of the face detector where that judge needs one."""
        judge = self.gender_judge
        return ("judging.gender",) if judge and not judge.needs_faces else ("judging.gender", "judging.faces")

    @property
    def clip_judge(self) -> Judge | None:
        """The first gender judge that also embeds images and texts, such as an open_clip model."""
        return next((judge for judge in self.gender_judges if hasattr(judge, "embed")), None)

    @property
    def has_captions(self) -> bool:
        """Whether the settings name captions."""
        return bool(self.settings.captions.corpus)

    @property
    def has_images(self) -> bool:
        """Whether the captions have images, or URLs from which they are fetched."""
        fetched = bool(self.settings.captions.training_images)
        return self.has_captions and (fetched or self.corpus.images is not None)

    @property
    def missing_images_message(self) -> str:
        """The error message for a corpus of captions without images."""
        fix = "a folder of images, each named by its caption's id, or to 'download' if the corpus contains URLs."
        return f"The corpus {self.corpus.name!r} has captions but no images. Set captions.training_images to {fix}"

    # -- captions ------------------------------------------------------------------------------------

    @cached_property
    def cache(self):
        """The cache of the stages' results."""
        return ResultCache(self.settings.compute.cache, share=self.share, workers=self.workers)

    @cached_value
    def words(self) -> Words:
        """The custom vocabulary for captions and templates."""
        file = self.settings.captions.vocabulary_file
        return word_files.read(file, "captions.vocabulary_file") if file else Words({})

    @cached_value
    def occupations(self) -> tuple[str, ...]:
        """The occupations: those of the settings, of their file, or the paper's."""
        names = word_files.select_occupations(self.words, self.settings.captions.occupations, "captions.occupations")
        return names or tuple(lexicons.load("paradox_occupations"))

    @cached_value
    def templates(self) -> Mapping[str, str]:
        """The prompt templates by number: those of the settings' file, or the paper's."""
        return self.words.templates or lexicons.load("paradox_prompts")

    @cached_value
    def corpus(self):
        """The captions, unread, with the images behind them."""
        s = self.settings.captions
        return open_corpus(
            s.corpus, max_captions=s.max_captions, synthetic_bias=s.synthetic_bias, columns=s.columns or None
        )

    @cached_method
    def captions(self) -> pd.DataFrame:
        """Return the captions that name an occupation, with their gender indicators.

        Columns caption_id, occupation, text, rank (from 1, in random order), indicator, spans, and those of the corpus.
        """
        captions = self._search_result.captions.rename(columns={"term": "occupation"})
        check_search_result(self, captions, int(self._search_result.totals["n_corpus"].max()))
        recognizer = self.settings.captions.name_recognizer
        mentions = self.compute(find_indicators, captions[["text"]], recognizer, self.words.indicators)
        return pd.concat([captions.reset_index(drop=True), mentions], axis=1)

    def totals(self) -> pd.DataFrame:
        """Return the number of captions that name each occupation: occupation, n_captions, n_corpus."""
        return self._search_result.totals.rename(columns={"term": "occupation"})

    @cached_value
    def _search_result(self) -> SearchResult:
        return self.search_corpus(KINDS[2:], Pipeline._search_captions, Pipeline._assume_captions)

    def _search_captions(self) -> SearchResult:
        s = self.settings.captions
        # Captions beyond the sample are needed only if nearest captions are selected.
        pool = (s.candidates_per_occupation or _ALL) if self.needs_nearest else 0
        options = {"per_term": s.per_occupation, "pool": pool, "seed": self.seed, "forms": self.words.forms}
        return self.compute(search, self.corpus, list(self.occupations), **options)

    def _assume_captions(self, head: SearchResult) -> SearchResult:
        """Return placeholders for the captions that can become prompts, after a check of the first captions."""
        captions = head.captions.rename(columns={"term": "occupation"})
        if len(captions):
            check_search_result(self, captions, int(head.totals["n_corpus"].max()))
        n = max(1, min(self.settings.captions.per_occupation, self.settings.generation.caption_prompts_per_occupation))
        texts = dict(self.filled_templates().drop_duplicates("occupation")[["occupation", "text"]].to_numpy())
        rows = [(f"{term}/{k}", term, texts[term], k) for term in self.occupations for k in range(1, n + 1)]
        placeholders = pd.DataFrame(rows, columns=["caption_id", "term", "text", "rank"])
        totals = pd.DataFrame({"term": list(self.occupations), "n_captions": n, "n_corpus": len(placeholders)})
        other_columns = [name for name in head.captions if name not in placeholders]
        return SearchResult(totals, placeholders.assign(**dict.fromkeys(other_columns, "")))

    def shard(self, i: int, n: int) -> Self:
        """Return a pipeline like this one that computes shard ``i`` (0 to ``n`` - 1) of ``n`` of each stage.

        If other shards of a stage are missing, :class:`~biaslab.cache.result_cache.UnfinishedError` is raised after its
        own. Raises ParameterError as :class:`~biaslab.cache.result_cache.ResultCache`.
        """
        pipeline = self.with_changes()
        pipeline.share = (i, n)
        _ = pipeline.cache
        return pipeline

    def cached_only(self) -> Self:
        """Return a pipeline that only reads the cache; it raises UnfinishedError for missing results."""
        pipeline = self.with_changes()
        pipeline.cache = ResultCache(self.cache.root, share=_NO_SHARE)
        return pipeline

    def caption_stages(self) -> list[Callable[[], object]]:
        """Return the stages on captions that the settings require."""
        return [self.captions, *([self._vectors] if self.needs_nearest else [])]

    # -- selections and prompts ----------------------------------------------------------------------

    def sample(self) -> pd.DataFrame:
        """Return the random sample of captions for each occupation (section 4): rows of :meth:`captions`."""
        captions = self.captions()
        return captions[captions["rank"] <= self.settings.captions.per_occupation].reset_index(drop=True)

    @cached_method
    def selections(self) -> pd.DataFrame:
        """Return the captions that each approach selects for each occupation and prompt (sections 4 and 5).

        Columns approach, prompt (``captions``: one selection for all prompts), occupation, caption_id, rank and cosine
        (with the prompt, or NaN).
        """
        s, sample = self.settings.captions, self.sample()
        sample = sample.assign(approach="naive", prompt="captions", cosine=float("nan"))
        without_indicators = sample[sample["indicator"] == "none"].assign(approach="no_indicators")
        without_indicators["rank"] = without_indicators.groupby("occupation").cumcount() + 1
        selected = pd.concat([sample, without_indicators], ignore_index=True)[COLUMNS]
        if self.needs_nearest:
            mean = self.cosines().groupby(["caption_id", "occupation"], as_index=False)["cosine"].mean()
            selected = selected.drop(columns="cosine").merge(mean, on=["caption_id", "occupation"], how="left")
            rows = nearest_captions(self.captions(), self.filled_templates(), self._vectors(), k=s.nearest_per_prompt)
            selected = pd.concat([selected, rows], ignore_index=True)[COLUMNS]
        return selected[selected["approach"].isin(s.approaches)].reset_index(drop=True)

    @cached_method
    def cosines(self) -> pd.DataFrame:
        """Return caption_id, occupation, prompt (``1`` to ``4``) and the cosine of sentence embeddings of both."""
        captions, filled = self.captions(), self.filled_templates()
        vectors = self._vectors()
        rows = enumerate(filled.itertuples(), len(captions))
        vector_of = {(row.prompt, row.occupation): vectors[i] for i, row in rows}
        frames = []
        for occupation, rows in captions.groupby("occupation", sort=False):
            occupation_vectors = vectors[rows.index]
            for prompt in self.templates:
                cosine = (occupation_vectors @ vector_of[prompt, occupation]).astype(float)
                frames.append(rows[["caption_id", "occupation"]].assign(prompt=prompt, cosine=cosine))
        columns = ["caption_id", "occupation", "prompt", "cosine"]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)

    def _vectors(self) -> np.ndarray:
        """Return the embeddings of the captions, followed by those of the filled templates."""
        if not self.settings.captions.encoder:
            raise MissingInputError(
                "captions.encoder is empty, but embeddings of captions are needed. Set it to a sentence-transformers "
                "model, such as 'all-MiniLM-L6-v2'.",
                ["captions.encoder"],
            )
        self.record_use("captions.encoder")
        texts = [*self._search_result.captions["text"], *self.filled_templates()["text"]]
        return self.compute(embed_texts, texts, self._encoder)

    @cached_value
    def _encoder(self):
        s = self.settings.captions
        return Encoder(s.encoder, device=self.settings.compute.device, dtype=s.encoder_dtype)

    @property
    def needs_nearest(self) -> bool:
        """Whether any approach selects the captions nearest to prompts."""
        return bool(set(NEAREST_APPROACHES).intersection(self.settings.captions.approaches))

    @property
    def fetches_images(self) -> bool:
        """Whether the images of captions are fetched by URL, or were downloaded by img2dataset."""
        folder = self.settings.captions.training_images
        return folder == DOWNLOAD or bool(fetched.shards(folder))

    def filled_templates(self) -> pd.DataFrame:
        """Return the four templates filled with each occupation: prompt, occupation, text."""
        rows = [
            {"prompt": number, "occupation": occupation, "text": self.words.fill(template, occupation)}
            for number, template in self.templates.items()
            for occupation in self.occupations
        ]
        return pd.DataFrame(rows)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of prompts that the settings require, in order."""
        approaches = set(self.settings.captions.approaches)
        as_prompts = (k for k in KINDS[2:] if approaches & {k, f"{k}_no_indicators"})
        return (*(KINDS[1:2] if approaches.intersection(SELECTED) else ()), *as_prompts)

    @cached_method
    def prompts(self, kind: str = "generated") -> pd.DataFrame:
        """Return the prompts for images of a kind: templates (``generated``), captions, or paraphrases.

        Columns prompt_id, approach, occupation, prompt, text, n_images. Captions also have caption_id and indicator,
        with a row for each occupation that a caption names; paraphrases also have paraphrase_status and
        unsupported_fields as of :func:`biaslab.captions.paraphrase.paraphrases`. Raises UnknownNameError: There is no
        such kind.
        """
        _check_kind(kind, KINDS[1:])
        s = self.settings.generation
        if kind == "generated":
            filled = self.filled_templates()
            ids = "p" + filled["prompt"] + "-" + filled["occupation"].map(slug)
            rows = filled.assign(prompt_id=ids, approach="naive", n_images=s.images_per_prompt)
            return rows[_PROMPT_COLUMNS]
        captions = self.sample()
        captions = captions[captions["rank"] <= s.caption_prompts_per_occupation]
        pairs = list(zip(captions["caption_id"], captions["occupation"], strict=True))
        if kind == "caption_prompts":
            ids, extra_columns = [f"c-{caption}" for caption, _ in pairs], {}
        else:
            # Permitted changes depend on the occupation, so a caption that names two has two paraphrases.
            ids = [f"x-{caption}-{slug(occupation)}" for caption, occupation in pairs]
            texts, caption_settings = captions["text"].tolist(), self.settings.captions
            endpoint = self.endpoint("paraphraser") if caption_settings.paraphraser == "endpoint" else None
            options = {"seed": self.seed, "endpoint": endpoint, "name_recognizer": caption_settings.name_recognizer}
            rows = self.compute(paraphrases, texts, captions["occupation"].tolist(), **options)
            rows = rows.rename(columns={"status": "paraphrase_status"})
            extra_columns = {name: rows[name].tolist() for name in ("text", "paraphrase_status", "unsupported_fields")}
        shared_columns = {"prompt_id": ids, "approach": kind, "prompt": "captions"}
        rows = captions.assign(**shared_columns, **extra_columns, n_images=s.images_per_caption)
        columns = [*_PROMPT_COLUMNS, "caption_id", "indicator", *(c for c in extra_columns if c != "text")]
        return rows[columns].reset_index(drop=True)

    def texts(self, kind: str = "generated") -> pd.DataFrame:
        """Return the prompts of a kind as sent to the model, each once."""
        return self.prompts(kind).drop_duplicates("prompt_id").reset_index(drop=True)

    def endpoint(self, use: str) -> EndpointSettings:
        """Return the endpoint for ``paraphraser`` or ``critic``. Raises ParameterError: The settings name none."""
        shared, critic = self.settings.endpoint, self.settings.critic
        setting, model, urls = "captions.paraphraser", "endpoint.model", "endpoint.url"
        if use == "critic":
            setting, model, urls = "critic.kind", "critic.model", "endpoint.url or critic.url"
            critic_fields = {name: value for name in ("url", "api_key_env") if (value := getattr(critic, name))}
            shared = shared.with_changes(model=critic.model, **critic_fields)
        if not shared.url or not shared.model:
            raise ParameterError(
                f"{setting} is 'endpoint', which needs {urls} (for example, 'http://localhost:8000/v1') and {model}."
            )
        return shared

    # -- images and judgements -----------------------------------------------------------------------

    @cached_method
    def images(self, kind: str) -> ImageSource:
        """Return images of one of :data:`KINDS`, with a table that describes them.

        Columns image_id, occupation, prompt, text; for generated images also prompt_id, index, seed and status; for
        captions also caption_id and indicator, with a row for each occupation that a caption names. Raises
        MissingInputError: The corpus has no images. UnknownNameError: There is no such kind.
        """
        _check_kind(kind)
        if kind == "training":
            table = self._training_captions().assign(prompt="captions")
            table["image_id"] = table["caption_id"]
            return DescribedImages(self._training_source(table["caption_id"]), table)
        prompts = self.prompts(kind)
        return with_prompt_columns(self.generate_images(self.texts(kind), kind), prompts)

    def generate_images(
        self,
        prompts: pd.DataFrame,
        kind: str,
        prompt_set: str = "captions",
        *,
        several: bool = False,
        storage_class: type[GeneratedImages] | None = None,
    ) -> ImageSource:
        """Return images of prompts, by :meth:`image_model`; copies and black images read as unreadable.

        ``kind`` is the name of the images in plans, reports and annotation pages. Copies count once in a group: an
        occupation, or a prompt where prompts have no occupation. Images rendered from a ground truth are independent by
        construction and are not searched for copies. Raises InputError: The table of a folder describes copies
        differently; else as ``generate`` of the model.
        """
        model = self.image_model(prompt_set, several=several)
        options = {"storage_class": storage_class} if storage_class else {}
        images = self.compute(model.generate, prompts, seed=self.seed, **options)
        if model.truthful:
            return images
        name = "occupation" if "occupation" in prompts else "prompt_id"
        rows = prompts.drop_duplicates("prompt_id")
        groups = images.table["prompt_id"].map(dict(zip(rows["prompt_id"], rows[name], strict=True)))
        duplicates_found = self.compute(duplicates.find_duplicates, images, groups)
        folder = getattr(model, "folder", None)
        if folder is not None and folder.description_files:
            duplicates.check_descriptions(duplicates_found, folder.people, folder.description_files)
        return duplicates.DistinctImages(images, duplicates_found)

    def image_remarks(self, images: ImageSource) -> list[str]:
        """Return sentences on images: copies, black images, and files of a folder that are left out."""
        left_out = self.describe_left_out(images)
        return [*([f"Excluded: {left_out}."] if left_out else []), *duplicates.remarks(images)]

    def describe_left_out(self, images: ImageSource) -> str:
        """Return the numbers of images and files of a folder that are left out, by reason and group, as text."""
        skipped = self.image_folder.left_out if self.image_folder else {}
        return duplicates.describe_left_out(images, skipped)

    def image_model(self, prompt_set: str = "captions", *, several: bool = False) -> ImageModel:
        """Return the model that generates images, opened once for each pipeline; nothing is loaded.

        Args:
            prompt_set: The set of prompts, one of :data:`PROMPT_SETS`.
            several: Whether they are for several people, who need a wider image.
        """
        return self._image_model(prompt_set, several)

    @cached_method
    def _image_model(self, prompt_set: str, several: bool) -> ImageModel:
        s = self.settings
        generation, endpoint = s.generation, s.endpoint
        # The settings group of these prompts may have its own guidance scale.
        guidance = getattr(getattr(s, prompt_set, None), "guidance_scale", None)
        if guidance is not None:
            generation = generation.with_changes(guidance_scale=guidance)
        if several:
            wide = {"aspect": s.paired.aspect} | ({"width": 0} if s.paired.aspect != 1 else {})
            generation = generation.with_changes(**wide)
            endpoint = endpoint.with_changes(size=s.paired.image_size or endpoint.size)
        options = {"endpoint": endpoint, "corpus": lambda: self.corpus}
        options |= {"device": s.compute.device, "offload": s.compute.offload, "group_by": s.custom.group_by}
        return open_model(self.model, generation, of=prompt_set, design=s.dalleval, **options)

    @cached_method
    def judgements(self, kind: str) -> pd.DataFrame:
        """Return the rows of ``images(kind).table`` with the columns of :func:`biaslab.judges.people.judge_people`.

        Raises as :meth:`images` and :meth:`require`.
        """
        if kind != "training" or self.has_images:
            self.require(*self.judge_settings)
        images = self.images(kind)
        judgements = self.judge_images(images.source)
        table = images.table.drop(columns="status", errors="ignore")
        return table.merge(judgements, on="image_id", how="left", validate="many_to_one")

    def judge_images(self, images: ImageSource) -> pd.DataFrame:
        """Return judgements of images that show one person each, as :func:`biaslab.judges.people.judge_people`."""
        requested = images.table[["image_id"]].drop_duplicates().assign(position=1)
        judgements = self.judge_people(images, requested, self.gender_judge)
        return judgements.drop(columns=["position", "answer", "role", "role_p"])

    def judge_people(
        self, images: ImageSource, requested: pd.DataFrame, judge: Judge, *, every_face: bool = False
    ) -> pd.DataFrame:
        """Return judgements of people in any images, ``requested`` by image_id, position and phrase.

        Rows are as of :func:`biaslab.judges.people.judge_people`: one per row of ``requested``, or per face.
        """
        self.check_gender_judge(judge, images)
        detector = self.check_judge("judging.faces", images) if judge.needs_faces else None
        return self.compute(people.judge_people, images, requested, judge, detector, every_face=every_face)

    def skin_tones(self, images: ImageSource, people: pd.DataFrame) -> pd.DataFrame:
        """Return the skin tone of people, as :func:`biaslab.judges.skin_tone.judge_skin_tones`."""
        name = self.settings.judging.skin_tone or skin_tone.default_judge(domain_of(images))
        judge = self.judge("judging.skin_tone", name)
        if hasattr(judge, "tones"):
            self.check_judge("judging.skin_tone", images, judge)
            self.check_person_view("judging.skin_tone")
        return self.compute(skin_tone.judge_skin_tones, images, people, judge)

    def ask(self, setting: str, images: ImageSource, units: pd.DataFrame, **options) -> pd.DataFrame:
        """Return answers about images by the judge that a setting names.

        As :func:`biaslab.judges.answers.ask_about`; raises as :meth:`check_judge`.
        """
        return self.compute(answers.ask_about, images, units, self.check_judge(setting, images), **options)

    @property
    def training_domain(self) -> str:
        """The domain of the images of captions: drawings or photographs."""
        if folder := self.settings.captions.training_images:
            return registry.PHOTOGRAPHS if folder == DOWNLOAD else registry.image_domain(folder)
        return domain_of(self.corpus.images) if self.has_captions else registry.PHOTOGRAPHS

    def _training_captions(self) -> pd.DataFrame:
        """Return the captions whose images are judged: the sample, and the nearest ones if they are selected."""
        captions = self.captions()
        is_selected = captions["rank"] <= self.settings.captions.per_occupation
        if self.needs_nearest:
            keys = ["caption_id", "occupation"]
            chosen = pd.MultiIndex.from_frame(self.selections()[keys])
            is_selected |= pd.MultiIndex.from_frame(captions[keys]).isin(chosen)
        return captions[is_selected].reset_index(drop=True)

    def _training_source(self, caption_ids: Iterable[str]) -> ImageSource:
        ids = list(dict.fromkeys(caption_ids))
        folder = self.settings.captions.training_images
        if self.fetches_images:
            return Subset(self._fetch_training_images(), ids)
        if folder:
            return CaptionImages(folder, ids)
        if self.corpus.images is None:
            raise MissingInputError(self.missing_images_message)
        return Subset(self.corpus.images, ids)

    def downloads(self) -> pd.DataFrame:
        """Return the status of the URLs of training images, as a table of :mod:`biaslab.captions.fetched`.

        Raises MissingInputError: The settings, or the corpus, name no URLs.
        """
        return self._fetch_training_images().table.copy()

    @cached_method
    def _fetch_training_images(self) -> FetchedImages:
        folder = self.settings.captions.training_images
        if not self.fetches_images:
            raise MissingInputError(
                f"No images are downloaded, because captions.training_images is {folder!r}. Set it to {DOWNLOAD!r}, or "
                "to the output folder of img2dataset."
            )
        captions = self._training_captions()
        if "url" not in captions.columns:
            self.check_urls()
            captions["url"] = ""  # No caption names an occupation.
        return self.compute(fetch_images, captions, folder, self.settings.captions.downloads)

    def check_urls(self) -> None:
        """Check that the corpus has URLs, without fetching any. Raises MissingInputError: It has none."""
        with contextlib.closing(self.corpus.batches(1)) as batches:
            batch = next(batches, None)
        if batch is not None and "url" not in batch.columns:
            fix = "Specify it in captions.columns, for example {'url': 'LINK'}."
            raise MissingInputError(f"The corpus {self.corpus.name!r} has no recognized column of URLs. {fix}")

    # -- embeddings ----------------------------------------------------------------------------------

    def image_embeddings(
        self, images: str | ImageSource, image_ids: Iterable[str], judge: Judge | None = None
    ) -> pd.DataFrame:
        """Return embeddings of images, by default by :attr:`clip_judge`.

        ``images`` is one of :data:`KINDS` or a source. Columns image_id and vector (``float32``, CLIP's of length 1;
        None where the image cannot be read). Raises MissingInputError: No gender judge is an open_clip model, or
        there are no images. UnknownNameError: There is no such kind.
        """
        clip = None if judge else self.require_clip()
        source = self.images(images).source if isinstance(images, str) else images
        judge = judge or self.check_gender_judge(clip, source)
        return self.compute(similarity.embed_images, source, image_ids, judge)

    def text_embeddings(self, texts: Iterable[str], judge: Judge | None = None) -> np.ndarray:
        """Return embeddings of texts, ``float32 (texts, dimensions)`` of length 1, by default by :attr:`clip_judge`.

        Raises MissingInputError: No gender judge is an open_clip model.
        """
        return self.compute(similarity.embed_texts, list(texts), judge or self.require_clip())

    def require_clip(self) -> Judge:
        """Return :attr:`clip_judge`. Raises MissingInputError: No gender judge is an open_clip model."""
        if self.clip_judge is None:
            raise MissingInputError(
                "Similarity needs an open_clip model, but neither judging.gender nor judging.extra_judges contains "
                "one.",
                self.unset_settings("judging.gender"),
            )
        return self.clip_judge

    # -- how stages run ------------------------------------------------------------------------------

    @property
    def device(self) -> str:
        """The device on which models run."""
        return self.settings.compute.device

    @property
    def workers(self) -> Workers:
        """The workers that compute shards."""
        compute = self.settings.compute
        return Workers(compute.engine, compute.workers, compute.address)

    def remember(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """Return what ``compute`` returns, computed once for each key."""
        if key not in self._results:
            self._results[key] = compute()
        return self._results[key]

    def prompts_from_judgements(
        self, kind: str, answered: Callable[[Self, str], T], placeholder: Callable[[], T], *, is_free: bool = True
    ) -> T:
        """Return the prompts of a kind of images that depend on judgements: ``answered(pipeline, kind)``.

        A plan has no judgements. It takes the same number of prompts from ``placeholder``, unless all images and
        judgements are cached and the prompts cost nothing (``is_free``).
        """
        return answered(self, kind)

    def search_corpus(
        self, kinds: Sequence[str], find: Callable[[Self], T], assume: Callable[[Self, T], T] | None
    ) -> T:
        """Return the result of a search of the captions, from which prompts of ``kinds`` are made.

        A plan does not search a large corpus. It takes the result that ``assume`` returns, given the result for the
        first captions; None searches the corpus in a plan, too.
        """
        return find(self)

    def compute(self, work: Callable, *args, **options):
        """Return what a stage function returns, with this pipeline's cache and progress."""
        with self.progress_shown() as show_bars:
            return work(*args, cache=self.cache, progress=show_bars, **options)

    @contextlib.contextmanager
    def progress_shown(self) -> Iterator[bool]:
        """Send progress bars to the file that a run watches, if any; yield whether to show bars."""
        if self.progress_file is None:
            yield self.progress
            return
        try:
            with contextlib.redirect_stderr(BarFile(self.progress_file, sys.stderr)):
                yield self.progress
        finally:
            self.progress_file.unlink(missing_ok=True)


def with_prompt_columns(images: ImageSource, prompts: pd.DataFrame) -> DescribedImages:
    """Return images with the columns of their prompts in the table."""
    return DescribedImages(images, images.table.merge(prompts.drop(columns="n_images"), on="prompt_id"))


def image_ids(prompts: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of prompts once for each of their images, generated or not, with its ``image_id``."""
    rows = prompts.loc[prompts.index.repeat(prompts["n_images"])].reset_index(drop=True)
    return rows.assign(image_id=rows["prompt_id"] + "/" + rows.groupby("prompt_id").cumcount().astype(str))


_PROMPT_COLUMNS = ["prompt_id", "approach", "occupation", "prompt", "text", "n_images"]
# An empty shard of the work.
_NO_SHARE = (10**9 - 1, 10**9)
# A number greater than the captions of any occupation.
_ALL = 10**12


def check_search_result(pipeline: Pipeline, captions: pd.DataFrame, n_corpus: int) -> None:
    """Check captions. Raises InputError: The corpus has none, none names an occupation, or two have the same id."""
    where, names = f"The corpus {pipeline.corpus.name!r}", pipeline.occupations
    if not n_corpus:
        raise InputError(f"{where} contains no captions; set captions.corpus to another corpus.")
    if captions.empty:
        raise InputError(
            f"None of the {n_corpus:,} captions of {where[0].lower()}{where[1:]} mentions one of the {len(names)} "
            f"occupations, such as {names[0]!r}. Set captions.occupations to words that its captions use, or "
            "captions.columns to the column of its captions, for example {'text': 'TEXT'}."
        )
    # An id of two captions would make their images ambiguous.
    ids = captions["caption_id"]
    texts = captions.groupby("caption_id")["text"].nunique()
    twice = [*texts.index[texts > 1], *ids[captions.duplicated(["caption_id", "occupation"])]]
    if twice:
        fix = "Map another column to caption_id in captions.columns, or remove caption_id from it."
        raise InputError(f"Two captions of the corpus have the id {twice[0]!r}. {fix}")


def _check_kind(kind: str, kinds: Sequence[str] = KINDS) -> None:
    if kind not in kinds:
        raise unknown_name("kind of images", kind, kinds)
