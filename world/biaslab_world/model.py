"""The generator ``world``: renders images with the synthetic world's true shares in place of a model."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from biaslab.captions.corpus import Corpus
from biaslab.errors import ParameterError, unknown_name
from biaslab.generation.models import ImageModel
from biaslab.hub.image_sources import ImageSource
from biaslab.hub.registry import DRAWINGS
from biaslab.prompts.settings import DallEvalDesign
from biaslab_world import pairs, skills, social, triplets, truthful, world


class WorldModel(ImageModel):
    """Generator without a model: renders images with the synthetic world's true shares.

    Effects measured on its images come from the measures and not from a model.
    """

    image_domain, truthful = DRAWINGS, True

    def __init__(self, name: str, *, corpus: Corpus, height: int, of: str, design: DallEvalDesign | None) -> None:
        self.label = self.digest = name
        self._corpus, self._size, self._select_prompts, self._design = corpus, height or 64, of, design

    @property
    def cost_key(self) -> tuple:
        """Kind of prompts, image size and captions, which determine the cost of an image."""
        return (self.label, self._select_prompts, self._size, self._corpus.digest)

    def check(self, occupations: Sequence[str]) -> None:
        """Check that the captions are the synthetic world's, and that it has the occupations."""
        if self._corpus.name != "mini":
            raise ParameterError(
                f"model is {self.label!r}, which draws only captions of the synthetic world, but captions.corpus is "
                f"{self._corpus.name!r}. Set captions.corpus to 'mini', or choose a model that accepts any text."
            )
        known_names = world.occupations()
        if unknown_names := [name for name in occupations if name not in known_names]:
            raise unknown_name("occupation of the synthetic world", unknown_names[0], known_names)

    def generate(self, prompts: pd.DataFrame, *, seed: int, **_: object) -> ImageSource:
        """Render images: ``generate`` of :mod:`biaslab_world.truthful`, or of the module for the prompts' paper."""
        if self._select_prompts == "dalleval":
            if "skill" not in prompts:
                return social.generate(prompts, seed=seed, tones=self._design.skin_tones, size=self._size)
            failures = {k.replace("_", " "): v for k, v in self._design.failures.model_dump().items()}
            return skills.generate(prompts, seed=seed, failures=failures, size=self._size)
        if self._select_prompts == "triplets":
            skew = triplets.skew_of(self._corpus.skew)
            return triplets.generate(prompts, seed=seed, skew=skew, size=self._size)
        if self._select_prompts == "paired":
            strength = 0.0 if self._corpus.skew == "off" else 1.0
            return pairs.generate(prompts, seed=seed, size=self._size, strength=strength)
        return truthful.generate(prompts, self._corpus, seed=seed, size=self._size)
