"""Training of the embedded models from the embedded world: ``biaslab train NAME`` calls what is named here."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from biaslab.errors import unknown_name

# Name of a model -> module with ``train(folder, **settings)``, the settings being fields of ``common.Training``, which
# returns its quality on held-out data by name.
TRAINERS = {
    "mini-sd": "biaslab.mini.train.pipeline",
    "mini-sd-pairs": "biaslab.mini.train.pairs",
    "mini-clip": "biaslab.mini.train.clip",
    "mini-detector": "biaslab.mini.train.detector",
    "mini-sd-skills": "biaslab.mini.train.skills",
    "skills-curve": "biaslab.mini.train.skills_curve",
    "mini-vqa": "biaslab.mini.train.vqa",
    "mini-captioner": "biaslab.mini.train.captioner",
    "mini-skills-detector": "biaslab.mini.train.skills_detector",
    "mini-sd-triplets": "biaslab.mini.train.triplets",
    "mini-segmenter": "biaslab.mini.train.segmenter",
}


def trainer(name: str) -> Callable[..., dict[str, float]]:
    """Return the function that trains the embedded model ``name``.

    Raises:
        UnknownNameError: There is no such model.
    """
    if name not in TRAINERS:
        raise unknown_name("embedded model", name, TRAINERS)
    return import_module(TRAINERS[name]).train
