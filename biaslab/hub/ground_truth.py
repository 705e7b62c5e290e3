"""Images with ground truth, on which judges and metrics are validated: found by the entry points
``biaslab.ground_truth``.

A package that can generate such images declares an object, such as a module, with the interface :class:`GroundTruth`.
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
    """Images with known content for each of the papers; an image is generated when it is read.

    ``decoded`` is the folder of an autoencoder that encodes and decodes the images, so that they resemble a model's.
    """

    image_domain: str  # ``drawings`` or ``photographs``.
    corpus: str  # The name of its captions, a ``biaslab.corpora``.
    model: str  # The name of the model that reproduces the captions' ground truth, a ``biaslab.models``.
    words: Mapping[str, str]  # Texts on pages about its captions: ``training``, and one per effect planted in them.
    failure_modes: Sequence[str]  # Ways in which a scene can fail its prompt: keys of ``failures``.

    def scenes(
        self,
        prompts: pd.DataFrame,
        *,
        seed: int,
        failures: Mapping[str, float] | None = None,
        decoded: Path | None = None,
    ) -> ImageSource:
        """Return images of PaintSkills' prompts; shares of them, given by ``failures``, do not match their prompt."""

    def people(self, prompts: pd.DataFrame, n: int, *, seed: int, decoded: Path | None = None) -> ImageSource:
        """Return ``n`` images of people for social prompts; the table has their gender, skin tone and attributes."""

    def pairs(self, n: int, *, seed: int) -> ImageSource:
        """Return ``n`` images of two people side by side; the table has image_id, prompt_id, ``truth_gender_0``, …."""

    def depictions(self, n: int, *, seed: int, decoded: Path | None = None) -> ImageSource:
        """Return ``n`` images whose objects are independent of gender: image_id, prompt_id, text, truth_gender."""

    def instances(self, images: ImageSource, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the instances of objects in images (``rows``: image_id), as :mod:`biaslab.metrics.instances`."""

    def expected(self, prompts: pd.DataFrame, synthetic_bias: str) -> pd.DataFrame:
        """Return the mean number of each object in images of prompts: prompt_id, object and expected."""

    def word_masks(self, images: ImageSource, image_id: str, text: str) -> Mapping[str, np.ndarray]:
        """Return the mask of each word of a caption in its image: bool (height, width)."""

    def groups(self, text: str, objects: Sequence[str]) -> list[str]:
        """Return the dependency group of each object in an image of a caption."""

    def kind(self, word: str) -> str:
        """Return the kind of a word of a caption: ``thing``, ``worn`` or ``place``; empty if nothing visible."""

    def nouns(self, text: str) -> list[str]:
        """Return the nouns of one of its captions; InputError for any other text."""


def for_domain(image_domain: str) -> GroundTruth | None:
    """Return the first ground truth that an installed package provides for a domain of images, or None."""
    return next((truth for truth in _load_all() if truth.image_domain == image_domain), None)


def load(name: str) -> GroundTruth:
    """Return the ground truth that an installed package provides under a name; UnknownNameError for unknown names."""
    point = plugins.entry_point(plugins.GROUND_TRUTH, name, "images with ground truth")
    with loading(name, "images with ground truth"):
        return point.load()


def describe(corpus: str, topic: str) -> str:
    """Return the text on a topic about the captions of a corpus (:attr:`GroundTruth.words`); empty without one."""
    return next((truth.words.get(topic, "") for truth in _load_all() if truth.corpus == corpus), "")


def _load_all() -> Iterable[GroundTruth]:
    return plugins.load_all(plugins.GROUND_TRUTH).values()
