"""Training of the synthetic world's models: ``python -m training NAME`` runs the trainer of a model."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from biaslab.errors import unknown_name

# Name of a model -> module with ``train(folder, **settings)``, which returns the quality on held-out data by name. The
# settings are fields of ``common.Training``.
TRAINERS = {
    "mini-sd": "training.pipeline",
    "mini-sd-pairs": "training.pairs",
    "mini-clip": "training.clip",
    "mini-detector": "training.detector",
    "mini-sd-skills": "training.skills",
    "skills-curve": "training.skills_curve",
    "mini-vqa": "training.vqa",
    "mini-captioner": "training.captioner",
    "mini-skills-detector": "training.skills_detector",
    "mini-sd-triplets": "training.triplets",
    "mini-segmenter": "training.segmenter",
}


def trainer(name: str) -> Callable[..., dict[str, float]]:
    """Return the function that trains the model ``name``. Raises UnknownNameError: The name is unknown."""
    if name not in TRAINERS:
        raise unknown_name("bundled model", name, TRAINERS)
    return import_module(TRAINERS[name]).train
