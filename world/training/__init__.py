"""Training of the embedded models from the embedded world: ``python -m training NAME`` calls what is named here."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from biaslab.errors import unknown_name

# Name of a model -> module with ``train(folder, **settings)``, the settings being fields of ``common.Training``, which
# returns its quality on held-out data by name.
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
    """Return the function that trains the embedded model ``name``. Raises UnknownNameError: There is no such model."""
    if name not in TRAINERS:
        raise unknown_name("embedded model", name, TRAINERS)
    return import_module(TRAINERS[name]).train
