"""The stages connected: those of captions, and of each paper."""

from functools import cached_property

from biaslab.pipeline.custom import Custom
from biaslab.pipeline.dalleval import DallEval
from biaslab.pipeline.paired import Paired
from biaslab.pipeline.stages import KINDS, Stages
from biaslab.pipeline.triplets import Triplets
from biaslab.settings import Settings

__all__ = ["KINDS", "Pipeline", "Settings"]


class Pipeline(Stages):
    """All stages; arguments as of :class:`~biaslab.pipeline.stages.Stages`."""

    @cached_property
    def paired(self) -> Paired:
        """The stages for pictures of people whom the prompt places (paired paper)."""
        return Paired(self)

    @cached_property
    def dalleval(self) -> DallEval:
        """The stages for PaintSkills' scenes and for people by profession (dalleval paper)."""
        return DallEval(self)

    @cached_property
    def custom(self) -> Custom:
        """The stages for prompts of one's own, and for pictures that are there already."""
        return Custom(self)

    @cached_property
    def triplets(self) -> Triplets:
        """The stages for triplets of prompts, of captions and of professions (triplets paper)."""
        return Triplets(self)
