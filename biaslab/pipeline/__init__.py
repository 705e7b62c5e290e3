"""The stages connected: captions → selections → prompts → images → judgements, and people in pairs."""

from biaslab.pipeline.stages import KINDS, Pipeline
from biaslab.settings import Settings

__all__ = ["KINDS", "Pipeline", "Settings"]
