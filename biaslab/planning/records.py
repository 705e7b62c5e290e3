"""What a plan records: requests for images, uses of models, settings read and settings that are left empty."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

from biaslab.captions import embeddings
from biaslab.errors import BiaslabError, InputError, ParameterError
from biaslab.generation.images import GeneratedImages
from biaslab.generation.models import ImageModel
from biaslab.hub.model_files import ModelFiles
from biaslab.judges import registry as judging
from biaslab.judges.judge import Judge
from biaslab.pipeline import Pipeline
from biaslab.pipeline.stages import PROMPT_SETS
from biaslab.request import Request
from biaslab.schema import groups


@dataclass(frozen=True, eq=False)
class ImageRequest:
    """Images of one kind that a run asks of one model."""

    paper: str  # The paper that first asks for them.
    model: str  # What tables call the model.
    kind: str  # What the stages call the images.
    n_images: int
    n_cached: int  # How many of them need not be made.
    at_most: bool  # Whether fewer may be asked, which only a search of all captions would tell.
    prompts: pd.DataFrame  # The prompts, or others like them.
    image_model: ImageModel  # The model with the settings for this kind.
    storage_class: type[GeneratedImages] | None  # The class that keeps the images.
    pipeline: Pipeline  # The pipeline whose cache and seed are used.
    prompt_set: str = "captions"  # As for :meth:`Pipeline.image_model`.
    several_people: bool = False  # Whether prompts ask for several people.

    @property
    def n_remaining(self) -> int:
        """How many are left to be made."""
        return self.n_images - self.n_cached

    @property
    def is_from_captions(self) -> bool:
        """Whether the prompts are captions of a corpus, or made of them."""
        return self.kind in ("caption_prompts", "paraphrased", "captioned", "triplets")

    @property
    def price(self) -> float | None:
        """What an image costs at an endpoint; None for a model that runs here."""
        return getattr(self.image_model, "price", None)

    @property
    def cost_key(self) -> tuple:
        """Equal for requests whose images take equally long: the model, its settings and how images are kept."""
        return self.image_model.cost_key, self.storage_class

    def __reduce__(self) -> tuple:
        # Another process opens the pipeline anew.
        fields = {name: value for name, value in vars(self).items() if name not in ("image_model", "pipeline")}
        return _reopen, (Request.from_pipeline(self.pipeline), fields)


def _reopen(request: Request, fields: dict) -> ImageRequest:
    model = request.opened.image_model(fields["prompt_set"], several=fields["several_people"])
    return ImageRequest(**fields, image_model=model, pipeline=request.opened)


class ModelUse(NamedTuple):
    """A judge, an encoder of captions or an image model that measured tables use."""

    setting: str  # The setting that names it; ``model`` for the image model.
    name: str
    image_domain: str = ""  # The images that it classifies: ``drawings`` or ``photographs``; empty where it has none.
    owner: str = ""  # The source of these images, for messages.
    judge: Judge | None = None

    def check_domain(self) -> None:
        """Raise ParameterError where a judge is made for other images."""
        if self.judge is not None and self.image_domain:
            judging.check_domain(self.judge, self.setting, self.image_domain, self.owner)

    def files(self, pipeline: Pipeline) -> list[ModelFiles]:
        """Return the files of the model, if it needs weights; none are read or fetched.

        Raises BiaslabError: It is not to be had as far as can be known from here, or is of another kind.
        """
        if self.setting == "model":
            # A name that a package brings may stand for a model for each kind of images.
            each = [pipeline.image_model(prompt_set).look_up() for prompt_set in PROMPT_SETS]
            return list({files.name: files for several in each for files in several}.values())
        if self.judge is None:
            return embeddings.look_up(self.name)
        self.judge.check()
        return self.judge.files()

    def digest(self) -> str:
        """Return a digest of the files behind a judge, or its name where they are not known; raises as :meth:`files`.

        Judges of objects and similarity are optional; a run that needs one is stopped before any work.
        """
        if self.judge is None:
            return self.name
        optional = self.setting in ("triplets.similarity", "triplets.objects")
        try:
            return self.judge.digest()
        except (InputError, ParameterError):
            if not optional:
                raise
            return self.name

    def describe_problem(self, error: BiaslabError) -> str:
        """Return what is wrong with the model, in words that name its setting."""
        message = str(error)
        if self.setting in message:
            return message
        if self.name in message:
            return f"{self.setting}: {message}"
        return f"{self.setting} is {self.name!r}: {message}"


class Omission(NamedTuple):
    """A setting that names nothing, so that a table says less, or says it by another judge."""

    setting: str


class Recorder:
    """What the doors of planning pipelines are asked for, in nested scopes."""

    def __init__(self, main_judge: str) -> None:
        self._scopes: list[dict[Hashable, None]] = [{}]
        self.paper, self.main_judge = "", main_judge

    def add(self, *items: Hashable) -> None:
        """Record items in the innermost scope."""
        self._scopes[-1] |= dict.fromkeys(items)

    @contextmanager
    def scope(self) -> Iterator[dict[Hashable, None]]:
        """Yield what is recorded meanwhile, settings read included; it counts in the enclosing scope, too."""
        recorded: dict[Hashable, None] = {}
        reads: set[tuple[type[groups.Group], str]] = set()
        self._scopes.append(recorded)
        try:
            with groups.recorded_reads(reads):
                yield recorded
        finally:
            self._scopes.pop()
            recorded |= dict.fromkeys(reads)
            self.add(*recorded)
