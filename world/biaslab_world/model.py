"""What draws the embedded world's truth where a model is asked for: what is found on its images no model has caused."""

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
    """What draws the embedded world's truth: no model, so what is found on its images comes from the measures."""

    image_domain, truthful = DRAWINGS, True

    def __init__(self, name: str, *, corpus: Corpus, height: int, of: str, design: DallEvalDesign | None) -> None:
        self.label = self.digest = name
        self._corpus, self._size, self._select_prompts, self._design = corpus, height or 64, of, design

    @property
    def cost_key(self) -> tuple:
        """What its prompts ask for, its size and captions."""
        return (self.label, self._select_prompts, self._size, self._corpus.digest)

    def check(self, occupations: Sequence[str]) -> None:
        """Look whether the captions are the world's, and whether it knows the occupations."""
        if self._corpus.name != "mini":
            raise ParameterError(
                f"model is {self.label!r}, which draws what the embedded captions ask, and captions.corpus is "
                f"{self._corpus.name!r}; set captions.corpus to 'mini', or model to one that generates from any text."
            )
        known = world.occupations()
        if lost := [name for name in occupations if name not in known]:
            raise unknown_name("occupation of the embedded world", lost[0], known)

    def generate(self, prompts: pd.DataFrame, *, seed: int, **_: object) -> ImageSource:
        """Draw images: ``generate`` of :mod:`biaslab_world.truthful`, or of what the prompts ask for."""
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
