"""The interface of judges: a model, a service or people that label images, named by a setting.

:func:`biaslab.judges.registry.parse` turns a name into one of the classes. CONTRIBUTING explains how to add one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pandas as pd

from biaslab.endpoints.settings import EndpointSettings
from biaslab.errors import ParameterError
from biaslab.hub import model_files
from biaslab.hub import registry as hub
from biaslab.hub.model_files import ModelFiles
from biaslab.io import reading
from biaslab.judges import pinned
from biaslab.judges.person import Person, whole_image
from biaslab.judges.settings import JudgeSettings, Thresholds, VisionSettings


class Answer(NamedTuple):
    """An answer about one person: a probability, or a status with a gender or a reason.

    Without a status, ``judging.threshold`` decides from the probability; NaN is uncertain.
    """

    probability_female: float = float("nan")  # Of perceived as female against perceived as male, 0–1.
    gender: str = ""  # ``female``, ``male`` or ``unsure``.
    status: str = ""  # One of :data:`biaslab.judges.judge_labels.STATUSES`.
    reason: str = ""
    text: str = ""  # The words of a judge that answers in words.


class Reply(NamedTuple):
    """An answer to a question, or the status ``unanswered`` and the reason."""

    answer: str
    status: str = ""
    reason: str = ""


class People(NamedTuple):
    """People that a judge labels, in the order of its answers."""

    table: pd.DataFrame  # One row per person: image_id, position (1 is the leftmost), phrase.
    persons: Sequence[Person] = ()  # The same people in their images; empty for judges without ``needs_images``.
    image_domain: str = hub.PHOTOGRAPHS  # ``drawings`` or ``photographs``.

    @classmethod
    def of_image(cls, image: np.ndarray) -> People:
        """Return one person whose face is the whole image, ``uint8 (height, width, 3)``."""
        table = pd.DataFrame({"image_id": ["probe"], "position": [1], "phrase": ["person"]})
        return cls(table, [whole_image(image)], hub.DRAWINGS)


@dataclass(frozen=True)
class JudgeOptions:
    """The settings of a run that judges use."""

    judging: JudgeSettings = field(default_factory=JudgeSettings)
    vision: VisionSettings = field(default_factory=VisionSettings)
    endpoint: EndpointSettings = field(default_factory=EndpointSettings)
    thresholds: Thresholds = field(default_factory=Thresholds)
    vocabulary_file: str = ""
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)  # Of PaintSkills' objects, with other names.
    device: str = "auto"
    cache: Path = Path("outputs/.cache")  # The folder in which replies of paid services are cached.


class Judge:
    """A judge by its name. Files are opened when it is first used, and its model is loaded once per process.

    A subclass for perceived gender needs :meth:`answers`; one that answers questions ``ask``; one that
    estimates skin tones ``tones``; face detectors ``faces``.
    """

    prefix: ClassVar[str] = ""
    """The beginning of its names; a prefix without a colon is the whole name."""
    kind: ClassVar[str] = ""
    """The kind of model, a key of :data:`biaslab.hub.registry.HUB`."""
    task: ClassVar[str] = "answers"
    """The method that uses it: ``answers`` or ``tones`` of people; ``faces``, ``detect``, ``segment`` or ``embed`` of
    images."""
    depends_on: ClassVar[tuple[str, ...]] = ()
    """The options that its results depend on, by dotted names."""
    needs_faces: bool = True
    """Whether a person's face has to be detected first."""
    needs_images: ClassVar[bool] = True
    """False for annotations and other files: they are not probed, and images are not read for them."""
    classifier: Any = None
    """The zero-shot model that also compares people with the phrases of a prompt, for judges that have one."""
    is_charged: ClassVar[bool] = False
    """Whether each question is paid for."""
    domain: str = hub.PHOTOGRAPHS
    """The images for which it is suitable: ``photographs``, ``drawings`` or ``any``."""

    def __init__(self, name: str, options: JudgeOptions | None = None) -> None:
        self.name, self.options = name, options or JudgeOptions()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("model", "classifier")}

    def fresh(self) -> Self:
        """Return the same judge without its loaded model, which is freed with the copy."""
        return copy.copy(self)

    @property
    def argument(self) -> str:
        """The name without its prefix, such as a file or the model of an endpoint."""
        return self.name.removeprefix(self.prefix)

    @property
    def path(self) -> Path:
        """The name without its prefix as the path of a file."""
        return Path(self.argument).expanduser()

    @property
    def inputs(self) -> dict[str, Any]:
        """Everything that results depend on in addition to images, questions and code, as a mapping for JSON."""
        options = {name: attrgetter(name)(self.options) for name in self.depends_on}
        return {"judge": type(self).__name__, "weights": self.digest(), **options}

    @property
    def batch_size(self) -> int:
        """Images that are read at a time; 0 selects the number."""
        return self.options.judging.batch_size

    def check(self) -> None:
        """Raise ParameterError where settings that it needs are missing; most judges need none."""

    def files(self) -> list[ModelFiles]:
        """Return the models that it loads; nothing is downloaded.

        Raises ParameterError, InputError or UnknownNameError where one is unavailable or of another kind,
        MissingInputError where a package or a file is missing.
        """
        return []

    def digest(self) -> str:
        """Return a digest of its files, which is part of the keys of results; raises as :meth:`files`."""
        return self.name

    @cached_property
    def model(self) -> Any:
        """What :meth:`load` returns, loaded once."""
        return self.load()

    def load(self) -> Any:
        """Return its model."""
        raise NotImplementedError

    def answers(self, people: People) -> list[Answer]:
        """Return one answer per person. Raises InputError where a number is not finite, else as :meth:`files`."""
        raise NotImplementedError

    def probe(self, image: np.ndarray) -> None:
        """Use the judge on one image, ``uint8 (height, width, 3)``: the preflight check."""
        getattr(self, self.task)(People.of_image(image) if self.task in ("answers", "tones") else [image])


class HubJudge(Judge):
    """A judge whose model is in a folder, on the Hugging Face hub, or provided by an installed package."""

    @property
    def domain(self) -> str:
        """The images for which it is suitable, as stated by its folder or package; else photographs."""
        if entry := hub.find_plugin(self.argument, self.kind):
            return hub.image_domain(entry.folder, judge=True) if entry.folder else entry.image_domain
        return hub.image_domain(self.argument, judge=True)

    def files(self) -> list[ModelFiles]:
        """Return the files of the model, after a check of its configuration; as :meth:`Judge.files`."""
        files = model_files.look_up(self.argument, self.kind)
        # A package states the kind of its models.
        if not hub.find_plugin(self.argument, self.kind):
            self.check_kind(files)
        return [files.with_weights()]

    def check_kind(self, files: ModelFiles) -> None:
        """Raise ParameterError where the configuration of a model is of another kind."""

    def digest(self) -> str:
        """Return a digest of the weights, or the commit on the hub; raises as :meth:`Judge.files`."""
        return model_files.digest(hub.resolve(self.argument, self.kind))


class PinnedJudge(Judge):
    """A judge with a network of :mod:`biaslab.judges.pinned`; its name is its prefix."""

    def files(self) -> list[ModelFiles]:
        """Return the file of the network; errors as of :func:`biaslab.judges.pinned.look_up`."""
        return [pinned.look_up(self.name)]

    def digest(self) -> str:
        """Return the SHA-256 of the network."""
        return pinned.PINNED[self.name].sha256


class FileJudge(Judge):
    """A judge whose name ends in the path of a file."""

    where: ClassVar[str] = ""
    """Where the file is published, for errors."""
    is_available: ClassVar[Callable[[Path], bool]] = Path.is_file
    """Whether a path is of the right kind."""

    def files(self) -> list[ModelFiles]:
        """Return nothing, as the file is not downloaded. Raises ParameterError where it is missing."""
        if not type(self).is_available(self.path):
            raise ParameterError(
                f"There is no file {self.path}, which the settings specify as {self.name!r}. {self.where}".strip()
            )
        return []

    def digest(self) -> str:
        """Return the SHA-256 of the file, or the name where the file is missing."""
        return reading.file_digest(self.path) if self.path.is_file() else self.name
