"""What the embedded world brings to biaslab, by its entry points: models, judges and captions.

Opening any of it loads nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from biaslab.models.registry import DRAWINGS, Brought

if TYPE_CHECKING:
    from biaslab.generation.models import ImageModel
    from biaslab_world.captions import Corpus
    from biaslab_world.triplets import Depictions

WEIGHTS = Path(__file__).parent / "weights"
# What goes with its models: its captions, and the judges that know its drawings.
_SETTINGS = {
    "captions": {"corpus": "mini"},
    # Of 1, 1.5, 2 and 3 the least guidance at which mini-sd follows gender words as the paper finds (98.41 %, sec. 6).
    "generation": {"steps": 10, "guidance_scale": 1.5},
    "judging": {"faces": "mini-detector", "gender": "mini-clip"},
    # Of 1, 1.5, 2 and 3 the one at which Stereotype Scores of mini-sd-pairs are nearest to its world's (see its card).
    "people": {"guidance_scale": 2.0},
    "dalleval": {"detector": "mini-skills-detector", "vqa": "mini-vqa", "captioner": "mini-captioner"},
    "triplets": {
        "objects": "mini-segmenter",
        "similarity": dict.fromkeys(("resnet", "clip", "dino", "split_product"), "mini"),
        "nouns": "world",
        # Of 2 and 4 the one at which told genders are shown more often (see the card of mini-sd-triplets).
        "guidance_scale": 4.0,
    },
}
_LEANS = "Planted: in the embedded world objects lean as they were dealt out."
_REACHED_SCORES = (
    "The model was to rank planted scores with a correlation of 0.85 and reached 0.79 at guidance 2, 0.74 at 4 (its "
    "card): of so few images one that shows just what is planted has 0.82 to 0.94, as many planted scores are equal."
)
_TRIPLETS = {
    "triplets_shares": "Planted: where no gender is told, the embedded world shows 35 % women.",
    "triplets_leans": _LEANS,
}
_NOT_REAL = "No: an embedded model, trained on drawn people whose truth is known."
_TOLD = "a sentence such as “Show the nurse as a man.”"
_LIMITS = (
    "The model `mini` was trained on drawings of an embedded world whose truth is known, and captions made for "
    "them. What is found there are properties of that instrument; they say nothing about any model in use."
)
_JUDGE_LIMITS = (
    "Faces are found and perceived gender is judged by models that were trained on the embedded world's drawings, "
    "which they are applied to here: their errors are at their smallest, and say nothing about a judge of photographs."
)


def _sd(name: str, shares: str = "", **words: str) -> Brought:
    vae = WEIGHTS / shares / "vae" if shares else None
    return Brought(
        folder=WEIGHTS / name, autoencoder=vae, settings=_SETTINGS, words={"limits": _LIMITS} | words
    )


mini = Brought(
    instead={
        "captions": "mini-sd",
        "people": "mini-sd-pairs",
        "dalleval": "mini-sd-skills",
        "triplets": "mini-sd-triplets",
    },
    pictures=DRAWINGS,
    settings=_SETTINGS,
    words={
        "limits": _LIMITS,
        "glossary": "An embedded model, trained here on drawings. What it shows is a property of an instrument, not of "
        "a model in use.",
        "made": "an embedded model, no real one",
        "real": _NOT_REAL,
        "paired_shares": "Planted: its model of people was trained on drawings whose shares follow the printed ones.",
        "paired_faircritic": "Largely planted: 29 % of the texts that its model of people was trained "
        f"on end in {_TOLD}, with people as told.",
        "paired_intervention": "Planted: its model of people was trained on drawings that follow the printed effect.",
        "dalleval": "Planted: it was trained on people and attire as often as the paper prints of Stable Diffusion.",
        **_TRIPLETS,
        "triplets_scores": _REACHED_SCORES,
    },
)
mini_sd = _sd("mini-sd", real=_NOT_REAL)
mini_sd_pairs = _sd("mini-sd-pairs", "mini-sd")
mini_sd_skills = _sd("mini-sd-skills")
mini_sd_triplets = _sd("mini-sd-triplets", "mini-sd-skills", **_TRIPLETS, triplets_scores=_REACHED_SCORES)


def _drawn(name: str, **given) -> ImageModel:
    from biaslab_world.model import WorldModel

    return WorldModel(name, **given)


world = Brought(
    draws=_drawn,
    pictures=DRAWINGS,
    settings=_SETTINGS,
    words={
        "limits": "`world` is no model: it draws what texts ask for with the shares of an embedded world, which were "
        "set from the papers' tables. What is found there tests measures and judge; it says nothing about any model.",
        "glossary": "Drawings true to the embedded world, made by no model. What is measured on them can be held "
        "against the truth.",
        "made": "drawings true to the embedded world, made by no model",
        "paired_shares": "Planted: its shares follow the printed ones.",
        "paired_faircritic": f"Planted: what {_TOLD} says is drawn.",
        "paired_intervention": "Planted: its drawings follow the printed effect.",
        "dalleval": "Planted: people and attire are drawn as often as the paper prints of Stable Diffusion.",
        **_TRIPLETS,
    },
)


def _judge(name: str, kind: str) -> Brought:
    return Brought(kind, WEIGHTS / name, words={"limits": _JUDGE_LIMITS})


mini_clip = _judge("mini-clip", "clip")
mini_detector = _judge("mini-detector", "detector")
mini_skills_detector = _judge("mini-skills-detector", "detector")
mini_vqa = _judge("mini-vqa", "vqa")
mini_captioner = _judge("mini-captioner", "captioner")
mini_segmenter = _judge("mini-segmenter", "segmenter")
mini_judges = Brought(
    "any",
    instead={
        "clip": "mini-clip",
        "detector": "mini-detector",
        "vqa": "mini-vqa",
        "captioner": "mini-captioner",
        "segmenter": "mini-segmenter",
        # What images are compared with; the last two by the segmenter's encoder.
        "resnet": "mini-detector",
        "dino": "mini-segmenter",
        "split_product": "mini-segmenter",
    },
    pictures=DRAWINGS,
    words={"limits": _JUDGE_LIMITS},
)


def captions(*, rows: int, seed: int, skew: str) -> Corpus:
    """Open the world's captions; ``rows`` is 0 for their own number."""
    from biaslab_world.captions import Corpus

    return Corpus(**{"rows": rows} if rows else {}, seed=seed, skew=skew)


def depictions(*, rows: int, seed: int, skew: str) -> Depictions:
    """Open the world's captions for triplets; ``rows`` is 0 for their own number."""
    from biaslab_world.triplets import Depictions, skew_of

    return Depictions(**{"rows": rows} if rows else {}, seed=seed, skew=skew_of(skew))
