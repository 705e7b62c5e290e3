"""Entry points of the synthetic world: models, judges and captions for biaslab.

Opening an entry point loads no weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from biaslab.hub.registry import DRAWINGS, PluginEntry

if TYPE_CHECKING:
    from biaslab.generation.models import ImageModel
    from biaslab_world.captions import Corpus
    from biaslab_world.triplets import Depictions

WEIGHTS = Path(__file__).parent / "weights"
_DATA = yaml.safe_load(Path(__file__).with_name("brought.yaml").read_text(encoding="utf-8"))
_SETTINGS, _WORDS = _DATA["settings"], _DATA["words"]
_TRIPLETS_WORDS = {**_WORDS["triplets"], "triplets_scores": _WORDS["triplets_scores"]}


def _sd(name: str, shares: str = "", **words: str) -> PluginEntry:
    vae = WEIGHTS / shares / "vae" if shares else None
    words = {"limits": _WORDS["limits"], **words}
    return PluginEntry(folder=WEIGHTS / name, autoencoder=vae, settings=_SETTINGS, words=words)


mini = PluginEntry(
    alias_of={
        "captions": "mini-sd",
        "paired": "mini-sd-pairs",
        "dalleval": "mini-sd-skills",
        "triplets": "mini-sd-triplets",
    },
    image_domain=DRAWINGS,
    settings=_SETTINGS,
    words={
        "limits": f"{_WORDS['limits']} {_WORDS['not_shown']}",
        "real": _WORDS["real"],
        **_WORDS["mini"],
        **_TRIPLETS_WORDS,
    },
)
mini_sd = _sd("mini-sd", real=_WORDS["real"])
mini_sd_pairs = _sd("mini-sd-pairs", "mini-sd")
mini_sd_skills = _sd("mini-sd-skills")
mini_sd_triplets = _sd("mini-sd-triplets", "mini-sd-skills", **_TRIPLETS_WORDS)


def _open_world(name: str, **options) -> ImageModel:
    from biaslab_world.model import WorldModel

    return WorldModel(name, **options)


world = PluginEntry(
    factory=_open_world, image_domain=DRAWINGS, settings=_SETTINGS, words={**_WORDS["world"], **_WORDS["triplets"]}
)


def _judge(name: str, kind: str) -> PluginEntry:
    return PluginEntry(kind, WEIGHTS / name, words={"limits": _WORDS["judge_limits"]})


mini_clip = _judge("mini-clip", "clip")
mini_detector = _judge("mini-detector", "detector")
mini_skills_detector = _judge("mini-skills-detector", "detector")
mini_vqa = _judge("mini-vqa", "vqa")
mini_captioner = _judge("mini-captioner", "captioner")
mini_segmenter = _judge("mini-segmenter", "segmenter")
mini_judges = PluginEntry(
    "any",
    alias_of={
        "clip": "mini-clip",
        "detector": "mini-detector",
        "vqa": "mini-vqa",
        "captioner": "mini-captioner",
        "segmenter": "mini-segmenter",
        # Encoders for image similarity; the last two use the segmenter's encoder.
        "resnet": "mini-detector",
        "dino": "mini-segmenter",
        "split_product": "mini-segmenter",
    },
    image_domain=DRAWINGS,
    words={"limits": _WORDS["judge_limits"]},
)


def captions(*, max_captions: int, seed: int, synthetic_bias: str) -> Corpus:
    """Open the synthetic world's captions; ``max_captions`` of 0 keeps the default number."""
    from biaslab_world.captions import Corpus

    return Corpus(**{"rows": max_captions} if max_captions else {}, seed=seed, skew=synthetic_bias)


def depictions(*, max_captions: int, seed: int, synthetic_bias: str) -> Depictions:
    """Open the synthetic world's captions for triplets; ``max_captions`` of 0 keeps the default number."""
    from biaslab_world.triplets import Depictions, skew_of

    return Depictions(**{"rows": max_captions} if max_captions else {}, seed=seed, skew=skew_of(synthetic_bias))
