"""Pictures whose truth is known, on which judges and measures are tried: found by the entry points
``biaslab.ground_truth``.

A package that can make such pictures declares an object with what :class:`GroundTruth` says; a module will do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from biaslab import plugins
from biaslab.errors import loading

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from biaslab.hub.image_sources import ImageSource


class GroundTruth(Protocol):
    """Pictures of which it is known what they show, for each of the papers; none is made before it is read.

    ``decoded`` is the folder of an autoencoder through which the pictures pass, so that they look as a model's do.
    """

    image_domain: str  # ``drawings`` or ``photographs``.
    corpus: str  # The name of its captions, a ``biaslab.corpora``.
    model: str  # The name of the model that draws nothing but what is true of these, a ``biaslab.models``.
    words: Mapping[str, str]  # What pages say of its captions: ``training``, and by name each effect put into them.
    failure_modes: Sequence[str]  # In which ways a scene can fail at its prompt: keys of ``failures``.

    def scenes(
        self,
        prompts: pd.DataFrame,
        *,
        seed: int,
        failures: Mapping[str, float] | None = None,
        decoded: Path | None = None,
    ) -> ImageSource:
        """Return images that show what PaintSkills' prompts ask for, or fail at it with the shares of ``failures``."""

    def people(self, prompts: pd.DataFrame, n: int, *, seed: int, decoded: Path | None = None) -> ImageSource:
        """Return ``n`` images of people of social prompts, with their gender, skin tone and attributes in its table."""

    def pairs(self, n: int, *, seed: int) -> ImageSource:
        """Return ``n`` images of two people side by side; the table has image_id, prompt_id, ``truth_gender_0``, …."""

    def depictions(self, n: int, *, seed: int, decoded: Path | None = None) -> ImageSource:
        """Return ``n`` images in which no object goes with a gender: image_id, prompt_id, text, truth_gender."""

    def instances(self, images: ImageSource, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the instances of objects in images (``rows``: image_id), as :mod:`biaslab.metrics.instances`."""

    def expected(self, prompts: pd.DataFrame, synthetic_bias: str) -> pd.DataFrame:
        """Return how many of each object images of prompts show on average: prompt_id, object and expected."""

    def word_masks(self, images: ImageSource, image_id: str, text: str) -> Mapping[str, np.ndarray]:
        """Return where each word of a caption belongs in its image: bool (height, width)."""

    def groups(self, text: str, objects: Sequence[str]) -> list[str]:
        """Return the dependency group that each object in an image of a caption has."""

    def kind(self, word: str) -> str:
        """Return what a word of a caption names: ``thing``, ``worn`` or ``place``; empty where none is to be seen."""

    def nouns(self, text: str) -> list[str]:
        """Return the nouns of one of its captions; an InputError where it is none of them."""


def for_domain(image_domain: str) -> GroundTruth | None:
    """Return the first truth that an installed package brings of a kind of pictures; None where there is none."""
    return next((truth for truth in _all() if truth.image_domain == image_domain), None)


def load(name: str) -> GroundTruth:
    """Return the truth that an installed package brings under a name; an UnknownNameError where none does."""
    point = plugins.entry_point(plugins.GROUND_TRUTH, name, "images with ground truth")
    with loading(name, "images with ground truth"):
        return point.load()


def describe(corpus: str, where: str) -> str:
    """Return the description of captions by their corpus's name (:attr:`GroundTruth.words`); empty without one."""
    return next((truth.words.get(where, "") for truth in _all() if truth.corpus == corpus), "")


def _all() -> Iterable[GroundTruth]:
    return plugins.load_all(plugins.GROUND_TRUTH).values()
