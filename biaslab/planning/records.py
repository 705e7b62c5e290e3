"""The records of a plan: requests for images, uses of models, settings read, and empty settings."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import pandas as pd

from biaslab.captions import embeddings
from biaslab.errors import BiaslabError
from biaslab.generation.images import GeneratedImages
from biaslab.generation.models import ImageModel
from biaslab.hub.model_files import ModelFiles
from biaslab.judges import registry as judging
from biaslab.judges.judge import Judge
from biaslab.pipeline import Pipeline
from biaslab.pipeline.stages import PROMPT_SETS
from biaslab.request import Request
from biaslab.schema import groups
from biaslab.settings import Settings


@dataclass(frozen=True, eq=False)
class ImageRequest:
    """A request for images of one kind from one model."""

    paper: str  # The first paper that requests them.
    model: str  # The model's name in tables.
    kind: str  # The name of the images' kind in stages.
    n_images: int
    n_cached: int  # How many of them are in the cache.
    at_most: bool  # Whether a search of all captions may find prompts for fewer images.
    prompts: pd.DataFrame  # The prompts, or others like them.
    image_model: ImageModel  # The model with the settings for this kind.
    storage_class: type[GeneratedImages] | None  # The class that stores the images.
    pipeline: Pipeline  # The pipeline whose cache and seed are used.
    prompt_set: str = "captions"  # As for :meth:`Pipeline.image_model`.
    several_people: bool = False  # Whether prompts ask for several people.

    @property
    def n_remaining(self) -> int:
        """Number of images that are not in the cache."""
        return self.n_images - self.n_cached

    @property
    def is_from_captions(self) -> bool:
        """Whether the prompts are captions of a corpus, or derived from them."""
        return self.kind in ("caption_prompts", "paraphrased", "captioned", "triplets")

    @property
    def price(self) -> float | None:
        """The price of an image at an endpoint; None for a local model."""
        return getattr(self.image_model, "price", None)

    @property
    def cost_key(self) -> tuple:
        """Key that requests whose images take equally long share: the model, its settings and the storage class."""
        return self.image_model.cost_key, self.storage_class

    def __reduce__(self) -> tuple:
        # Another process opens the pipeline again.
        fields = {name: value for name, value in vars(self).items() if name not in ("image_model", "pipeline")}
        return _reopen, (Request.from_pipeline(self.pipeline), fields)


def _reopen(request: Request, fields: dict) -> ImageRequest:
    model = request.opened.image_model(fields["prompt_set"], several=fields["several_people"])
    return ImageRequest(**fields, image_model=model, pipeline=request.opened)


class ModelUse(NamedTuple):
    """A judge, an encoder of captions or an image model that measured tables use."""

    setting: str  # The setting that names it; ``model`` for the image model.
    name: str
    image_domain: str = ""  # The images that it classifies: ``drawings`` or ``photographs``; empty without images.
    owner: str = ""  # The source of these images, for messages.
    judge: Judge | None = None

    def check_domain(self) -> None:
        """Raise ParameterError if the judge is for another domain of images."""
        if self.judge is not None and self.image_domain:
            judging.check_domain(self.judge, self.setting, self.image_domain, self.owner)

    def files(self, pipeline: Pipeline) -> list[ModelFiles]:
        """Return the files of the model, if it has weights, without a download.

        Raises BiaslabError: The model is unavailable, or is of another kind.
        """
        if self.setting == "model":
            # A name that a package brings may represent a model for each kind of images.
            looked_up = [pipeline.image_model(prompt_set).look_up() for prompt_set in PROMPT_SETS]
            return list({files.name: files for group in looked_up for files in group}.values())
        if self.judge is None:
            return embeddings.look_up(self.name)
        self.judge.check()
        return self.judge.files()

    def digest(self) -> str:
        """Return a digest of the files behind a judge, or the name of an encoder; raises as :meth:`files`."""
        return self.name if self.judge is None else self.judge.digest()

    def describe_problem(self, error: BiaslabError) -> str:
        """Return a sentence on an error of the model that names its setting."""
        message = str(error)
        if self.setting in message:
            return message
        if self.name in message:
            return f"{self.setting}: {message}"
        return f"{self.setting} is {self.name!r}: {message}"


class Omission(NamedTuple):
    """An empty setting, without which a table lacks values or takes them from another judge."""

    setting: str


class SettingRead(NamedTuple):
    """A setting that a stage or a judge reads, by its dotted name."""

    name: str


class Recorder:
    """The requests that planning pipelines record, in nested scopes."""

    def __init__(self, main_judge: str) -> None:
        self._scopes: list[dict[Hashable, None]] = [{}]
        self.paper, self.main_judge = "", main_judge

    def add(self, *items: Hashable) -> None:
        """Record items in the innermost scope."""
        self._scopes[-1] |= dict.fromkeys(items)

    @contextmanager
    def scope(self) -> Iterator[dict[Hashable, None]]:
        """Yield the records of a scope, settings read included; the enclosing scope gets them, too."""
        records: dict[Hashable, None] = {}
        reads: set[tuple[type[groups.Group], str]] = set()
        self._scopes.append(records)
        try:
            with groups.recorded_reads(reads):
                yield records
        finally:
            self._scopes.pop()
            names = _dotted_names()
            records |= dict.fromkeys(SettingRead(names[read]) for read in reads if read in names)
            self.add(*records)

    def add_settings(self, *names: str) -> None:
        """Record that settings are read, by dotted names; the name of a group represents all settings in it."""
        all_names = _dotted_names().values()
        prefixes = tuple(f"{name}." for name in names)
        self.add(*(SettingRead(name) for name in all_names if name in names or name.startswith(prefixes)))


@cache
def _dotted_names() -> dict[tuple[type, str], str]:
    """Return the dotted name of each setting by its group and field."""
    dotted = {}
    for name in groups.names(Settings):
        group: type = Settings
        *parts, last = name.split(".")
        for part in parts:
            group = group.model_fields[part].annotation
        dotted[group, last] = name
    return dotted
