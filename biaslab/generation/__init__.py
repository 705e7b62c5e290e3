"""Generate images with any text-to-image pipeline that diffusers loads.

- :mod:`~biaslab.generation.settings`: what is asked of a model.
- :mod:`~biaslab.generation.loading`: from a name to a pipeline, safetensors only.
- :mod:`~biaslab.generation.families`: how each family of models takes encoded text and noise.
- :mod:`~biaslab.generation.texts`: words that a tokenizer does not know, and ends of prompts that nothing reads.
- :mod:`~biaslab.generation.generator`: images of prompts, in batches.
- :mod:`~biaslab.generation.images`: all images of a table of prompts, computed once and kept.
"""

from __future__ import annotations

from biaslab.generation.generator import Generator, image_seed, load
from biaslab.generation.images import GeneratedImages
from biaslab.generation.settings import GenerationSettings

__all__ = ["GeneratedImages", "GenerationSettings", "Generator", "image_seed", "load"]
