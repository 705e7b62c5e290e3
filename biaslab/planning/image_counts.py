"""What images measured tables take of a pipeline, counted before any is made, and what one takes here."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from biaslab.analyses.custom.stages import Custom
from biaslab.cache.result_cache import ResultCache, UnfinishedError
from biaslab.generation.images import GeneratedImages
from biaslab.generation.models import ImageModel, Ready
from biaslab.papers.dalleval.stages import KINDS, DallEval
from biaslab.papers.paired.stages import Paired
from biaslab.papers.triplets.stages import Triplets
from biaslab.pipeline import Pipeline
from biaslab.planning import requirements
from biaslab.request import Request
from biaslab.schema import tables

# A corpus of so many captions is searched for the plan; of a larger one, what settings allow is the most that it asks.
SEARCHED = 50_000
# The share of a store's work that has none of it.
_NOTHING = (10**9 - 1, 10**9)
# Seconds that images of one kind are timed for, about; images that are timed together at most; and the share of those
# left to be made that is enough.
TIMED, MOST, ENOUGH = 1.5, 64, 0.1
# Denoising steps that are made of an image, twice, to find out; and how often images of one number are.
_STEPS, _ROUNDS = (2, 4), 3


@dataclass(frozen=True)
class ImageRequest:
    """Images of one kind that a run asks of one model."""

    paper: str  # The paper that first asks for them.
    model: str  # What tables call the model.
    kind: str  # What is asked for, as the stages call it.
    n_images: int  # How many.
    n_cached: int  # How many of them are there and need not be made.
    at_most: bool  # Whether fewer may be asked, which only a search of all captions would tell.
    prompts: pd.DataFrame  # What is asked, or texts like it.
    image_model: ImageModel  # The model with the settings for this kind.
    storage_class: type[GeneratedImages] | None  # As what its images are kept.
    pipeline: Pipeline  # The pipeline whose store and seed are used.
    prompt_set: str = "captions"  # What its prompts ask for, as :meth:`Pipeline.image_model` has it.
    several_people: bool = False  # Whether they ask for several people.

    @property
    def n_remaining(self) -> int:
        """How many are left to be made."""
        return self.n_images - self.n_cached

    @property
    def is_from_captions(self) -> bool:
        """Whether what is asked are captions of a corpus, or made of them."""
        return self.kind in ("caption_prompts", "paraphrased", "captioned", "triplets")

    @property
    def price(self) -> float | None:
        """What an image costs at an endpoint; None of a model that runs here."""
        return getattr(self.image_model, "price", None)

    @property
    def cost_key(self) -> tuple:
        """The same for all whose images take alike: the model, its settings and as what images are kept."""
        return self.image_model.cost_key, self.storage_class

    def __reduce__(self) -> tuple:
        # Another process opens the pipeline anew.
        fields = {name: value for name, value in vars(self).items() if name not in ("image_model", "pipeline")}
        return _opened, (Request.from_pipeline(self.pipeline), fields)


def _opened(request: Request, fields: dict) -> ImageRequest:
    made_by = request.opened.image_model(fields["prompt_set"], several=fields["several_people"])
    return ImageRequest(**fields, image_model=made_by, pipeline=request.opened)


@dataclass(frozen=True)
class Cost:
    """What an image of a model takes here."""

    seconds: float  # At the quickest.
    bytes: float  # In the store.
    images: int  # How many were made to find out.
    longest: float  # Seconds at the slowest; what else the machine does makes them longer.


def requests_for_tables(pipeline: Pipeline, names: Iterable[str]) -> Iterator[ImageRequest]:
    """Yield the images of a pipeline's own model that measured tables take, by the tables' names."""
    declared, names = tables.schemas(), list(names)
    for paper in tables.measuring_papers():
        paper_tables = [name for name in names if name in declared and declared[name].paper == paper]
        wanted = {kind for name in paper_tables for kind in requirements.generated_kinds(pipeline, name)}
        for kind in pipeline.kinds if pipeline.has_images else ():
            if kind in wanted:
                yield request_for_captions(pipeline, paper, kind)
        if "captioned" in wanted and pipeline.settings.dalleval.captions:
            yield _make_request(pipeline, paper, "captioned", pipeline.part(DallEval).caption_prompts())
        elif "captioned" in wanted:
            yield request_for_captions(pipeline, paper, "caption_prompts")
        yield from _requests_for_people(pipeline, paper, pipeline.part(Paired).expand_kinds(wanted))
        for kind in KINDS:
            if kind in wanted:
                prompts = pipeline.part(DallEval).prompts(kind)
                yield _make_request(pipeline, paper, kind, prompts, prompt_set=DallEval.prompt_set)
        if "custom" in wanted:
            # What draws the truth of captions goes by whom they name.
            prompts = pipeline.part(Custom).prompts().assign(occupation=lambda rows: rows["group"])
            yield _make_request(pipeline, paper, "custom", prompts, several=bool((prompts["people"] > 1).any()))
        if "triplets" in wanted:
            yield _request_for_triplets(pipeline, paper)


def _make_request(
    pipeline: Pipeline,
    paper: str,
    kind: str,
    prompts: pd.DataFrame,
    *,
    prompt_set: str = "captions",
    texts_final: bool = True,
    at_most: int | None = None,
    storage_class: type[GeneratedImages] | None = None,
    several: bool = False,
) -> ImageRequest:
    """Return what is asked; which images are there can be told only where the very texts are ``texts_final``."""
    several = several or (prompt_set == "paired" and kind != "single")
    made_by = pipeline.image_model(prompt_set, several=several)
    n, n_cached = int(prompts["n_images"].sum()) if at_most is None else at_most, 0
    if texts_final and at_most is None:
        n_cached = made_by.n_cached(prompts, seed=pipeline.seed, cache=pipeline.cache, storage_class=storage_class)
        # Nobody makes pictures that a folder lacks.
        n = n_cached if pipeline.image_folder is not None else n
    what = paper, pipeline.label, kind, n, n_cached, at_most is not None, prompts
    return ImageRequest(*what, made_by, storage_class, pipeline, prompt_set, several)


def _requests_for_people(pipeline: Pipeline, paper: str, kinds: list[str]) -> Iterator[ImageRequest]:
    """Yield images of people; texts that depend on judges are the very ones where all of that is kept."""
    complete = True
    for kind in kinds:
        depends, texts = pipeline.part(Paired).depends_on_judgements(kind), None
        # A critic at an endpoint is not asked to find out.
        if depends and complete and pipeline.settings.critic.kind == "counts":
            # By what the store has; nothing is computed.
            with contextlib.suppress(UnfinishedError):
                texts = read_only_pipeline(pipeline).part(Paired).prompts(kind).texts
        texts_final = not depends or texts is not None
        texts = pipeline.part(Paired).placeholder_texts(kind) if texts is None else texts
        yield (request := _make_request(pipeline, paper, kind, texts, prompt_set="paired", texts_final=texts_final))
        complete = complete and request.n_cached == request.n_images


def read_only_pipeline(pipeline: Pipeline) -> Pipeline:
    """Return a pipeline that has what the store has; an UnfinishedError is raised for anything else."""
    looks = pipeline.changed()
    looks.cache = ResultCache(pipeline.cache.root, share=_NOTHING)
    return looks


def _is_small(pipeline: Pipeline) -> bool:
    # Captions that are written as they are read cost next to nothing, however many there are.
    rows = pipeline.settings.captions.max_captions
    return not pipeline.has_captions or 0 < rows <= SEARCHED or pipeline.corpus.written


def request_for_captions(pipeline: Pipeline, paper: str, kind: str) -> ImageRequest:
    """Return images of templates or captions, of which there may be fewer where captions are not searched yet."""
    if kind == "generated" or _is_small(pipeline):
        return _make_request(pipeline, paper, kind, pipeline.texts(kind))
    s = pipeline.settings.generation
    most = len(pipeline.occupations) * s.caption_prompts_per_occupation * s.images_per_caption
    return _make_request(pipeline, paper, kind, pipeline.texts(), at_most=most)


def _request_for_triplets(pipeline: Pipeline, paper: str) -> ImageRequest:
    s = pipeline.settings.triplets
    if not s.n_triplets or _is_small(pipeline):
        prompts, storage_class = pipeline.part(Triplets).texts()
        more = {"prompt_set": Triplets.prompt_set, "storage_class": storage_class}
        return _make_request(pipeline, paper, "triplets", prompts, **more)
    most = (3 + s.placebo) * (s.n_triplets * s.images_per_prompt + s.single_triplet_images)
    if s.n_professions:
        most += int(pipeline.part(Triplets).professions()["n_images"].sum())
    return _make_request(pipeline, paper, "triplets", pipeline.texts(), prompt_set=Triplets.prompt_set, at_most=most)


def measure_cost(request: ImageRequest, n_remaining: int = 10**9, ready: Ready | None = None) -> Cost:
    """Return what an image takes here, from some that are made for it and thrown away; of few ``n_remaining``, fewer
    are made.

    Of a model that denoises, two numbers of a few steps tell what a step takes, and what comes beside. Noise that was
    left in makes bytes rather too many. ``ready`` is the model, where it is loaded. Raises as
    :meth:`biaslab.generation.models.ImageModel.generate`.
    """
    ready = ready or request.image_model.ready()
    # Prompts that share noise are asked together.
    groups = request.prompts["noise_id" if "noise_id" in request.prompts else "prompt_id"]
    few, many = _STEPS
    n, spent, rounds_measured = 1, 0.0, []
    while True:
        subset = request.prompts[groups.isin(groups.unique()[:n])].assign(n_images=1)
        if ready.set_steps is not None and ready.steps > many:
            ready.set_steps(few)
            first, _ = _time_images(request, ready, subset)
            ready.set_steps(many)
            took, kept = _time_images(request, ready, subset)
            step = max(took - first, 0.0) / (many - few)
            seconds, took = took + (ready.steps - many) * step, took + first
        else:
            took, kept = _time_images(request, ready, subset)
            seconds = took
        spent += took
        rounds_measured.append((len(subset), seconds / len(subset), kept / len(subset)))
        filled = n > 1 and (took > TIMED / 4 or len(subset) >= MOST)
        rounds = sum(made == len(subset) for made, *_ in rounds_measured)
        enough = sum(made for made, *_ in rounds_measured) >= ENOUGH * n_remaining
        if (filled and rounds >= _ROUNDS) or spent > 4 * TIMED or n >= groups.nunique() or enough:
            break
        n *= 1 if filled else 4
    # The first ones take what is prepared as well, and few at a time are slower than many.
    last = [seconds for made, seconds, _ in rounds_measured if made == rounds_measured[-1][0]]
    total = sum(made for made, *_ in rounds_measured)
    return Cost(min(last), rounds_measured[-1][2], total, longest=max(last))


def _time_images(request: ImageRequest, ready: Ready, prompts: pd.DataFrame) -> tuple[float, int]:
    """Return the seconds that images of prompts took, and their bytes in a store."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        options = {"seed": request.pipeline.seed, "progress": False, "storage_class": request.storage_class}
        made = ready.generate(prompts, cache=ResultCache(folder), **options)
        made.read(list(made.table["image_id"]))
        took = time.perf_counter() - began
        return took, sum(path.stat().st_size for path in Path(folder).rglob("*.parquet"))


def requests_to_time(requests: Iterable[ImageRequest]) -> dict[tuple, tuple[ImageRequest, int]]:
    """Return what is to be timed, by :attr:`Asked.alike`: one of each, and how many images are left of all alike."""
    alike: dict[tuple, list[ImageRequest]] = {}
    for request in requests:
        if request.n_remaining > 0 and request.price is None:
            alike.setdefault(request.cost_key, []).append(request)
    return {key: (similar[0], sum(request.n_remaining for request in similar)) for key, similar in alike.items()}
