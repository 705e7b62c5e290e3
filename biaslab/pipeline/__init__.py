"""The stages that papers share, connected from captions to judgements."""

from biaslab.pipeline.stages import KINDS, Part, Pipeline
from biaslab.settings import Settings

__all__ = ["KINDS", "Part", "Pipeline", "Settings"]
