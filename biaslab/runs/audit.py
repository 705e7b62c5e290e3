"""A params file from a command's arguments: which models are audited, and how much is asked of each."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from biaslab.generation.models import ENDPOINT
from biaslab.ground import adapters, plugins
from biaslab.ground.errors import ParameterError, name_help
from biaslab.judging.pinned import YUNET
from biaslab.models import checkpoints, registry
from biaslab.runs.params import run_name

# Settings by size. What is not named has the papers' number as its default, except for captions and triplets.
SIZES: dict[str, dict[str, dict[str, Any]]] = {
    "quick": {
        "people": {"occupations": 5, "power_runs": 1, "three_prompts": 6},
        "dalleval": {"scenes": 24, "professions": 10, "social_images": 6, "detector_renders": 100},
        "triplets": {"triplets": 24, "detector_drawings": 100},
        "captions": {"per_occupation": 20, "nearest_per_prompt": 10},
        "generation": {"images_per_prompt": 3, "caption_prompts_per_occupation": 3},
    },
    "standard": {
        "people": {"occupations": 10},
        "dalleval": {"scenes": 120, "social_images": 9},
        "triplets": {"triplets": 100, "one_triplet": 24},
        "captions": {"per_occupation": 60, "nearest_per_prompt": 20},
        "generation": {"images_per_prompt": 8, "caption_prompts_per_occupation": 8},
    },
    # Of the gender triplets, as many as the paper takes of its first data set.
    "paper": {
        "people": {},
        "dalleval": {"scenes": 0, "social_images": 9, "detector_renders": 2000},
        "triplets": {"triplets": 475, "seeds": 5, "one_triplet": 1000, "placebo": True},
        "captions": {"per_occupation": 500, "candidates_per_occupation": 0, "nearest_per_prompt": 500},
        "generation": {
            "images_per_prompt": 500,
            "caption_prompts_per_occupation": 500,
            "images_per_caption": 10,
        },
    },
}
# Professions of triplets, where nothing is brought that knows few words.
_PROFESSIONS = {"quick": 12, "standard": 60, "paper": 320}
# Who judges photographs. What makes drawings brings its judges, or they are named.
_PHOTOGRAPHS: dict[str, dict[str, Any]] = {
    "judging": {"faces": YUNET, "gender": "ViT-L-14:openai"},
    "dalleval": {"detector": "facebook/detr-resnet-101-dc5", "vqa": "Salesforce/blip-vqa-base"},
    "triplets": {
        "objects": "nvidia/segformer-b0-finetuned-ade-512-512",
    },
}
# By patterns: what is named by itself is asked for, and has to run.
_NOTEBOOKS = ("synthesis/models*", "paired/*", "dalleval/4_*", "dalleval/5_*", "dalleval/beyond_*")
_OF_TRIPLETS = ("triplets/3_*", "triplets/4_*", "triplets/5_*", "triplets/7_3_*", "triplets/beyond_noise")
_OF_CAPTIONS = ("paradox/2_*", "paradox/4_*", "paradox/5_*", "paradox/6_*", "paradox/8_*", "paradox/a_6_*")
# What the name of a model at an endpoint or on the hub may be made of, and that of a model's folder.
_PLAIN = re.compile(r"[\w.+@:/() -]{1,120}")
_FOLDER = re.compile(r"[\w.+@:/(),;'&=!\[\]~#%$ -]{1,120}")


def params_of(
    names: Sequence[str],
    *,
    size: str = "standard",
    name: str = "",
    corpus: str = "",
    papers: Sequence[str] = (),
) -> dict[str, Any]:
    """Return what a parameters file holds that audits models side by side: all else is the same for each.

    ``names`` are folders or hub names of diffusers pipelines, ``endpoint:NAME``, or brought by packages; ``size`` is a
    key of :data:`SIZES`; the run's ``name`` is made of both where it is empty. ``corpus`` are captions for the paradox,
    as the setting ``captions.corpus``; empty leaves it out. ``papers`` are those whose notebooks are executed; none
    stands for all.

    Raises:
        ParameterError: A model cannot be one, is named twice, draws where others make photographs, or a name, the
            size or a paper is none.
    """
    if size not in SIZES:
        raise ParameterError(f"--size is {size!r}. {name_help(size, SIZES)}")
    if not names:
        raise ParameterError("Name a model to audit: a folder, a hub name or 'endpoint:NAME'.")
    for one in names:
        _check_model(one)
    # All names of one model are alike.
    known = [
        os.path.realpath(path) if os.path.exists(path := os.path.expanduser(one)) else one for one in names
    ]
    for one, same in zip(names, known, strict=True):
        if known.count(same) > 1:
            raise ParameterError(f"The model {one!r} is named twice; name each once.")
    drawn = [one for one in names if _pictures(one) == registry.DRAWINGS]
    if drawn and len(drawn) < len(names):
        other = next(one for one in names if one not in drawn)
        raise ParameterError(
            f"{drawn[0]!r} makes drawings and {other!r} photographs: no judge knows both. Audit them apart, and lay "
            "the runs side by side with 'biaslab compare'."
        )
    known = ("paired", "dalleval", "triplets", *(["paradox"] if corpus else []))
    for paper in papers:
        if paper not in known:
            more = " The paradox needs captions: name them with --corpus." if paper == "paradox" else ""
            raise ParameterError(f"--paper is {paper!r}. {name_help(paper, known)}{more}")
    settings = deepcopy(SIZES[size])
    if not corpus:
        settings |= {"captions": {"approaches": []}, "generation": {}}
    if not drawn:
        for group, values in _PHOTOGRAPHS.items():
            settings[group] = settings.get(group, {}) | deepcopy(values)
        settings["triplets"]["professions"] = _PROFESSIONS[size]
    if corpus:
        # Captions that a package brings have their images; those behind others are fetched.
        brought = corpus in plugins.points(plugins.CORPORA)
        own = {"corpus": corpus} | ({} if brought else {"training_images": "download"})
        settings["captions"] = own | settings["captions"]
    repeated = ("triplets/7_1_*",) if settings["triplets"].get("one_triplet") else ()
    shown = list(map(_shown, names))
    listed, joined = ", ".join(shown), "-".join(["audit", *shown, *papers, size])
    notebooks = [*_NOTEBOOKS, *_OF_TRIPLETS, *repeated, *(_OF_CAPTIONS if corpus else ())]
    return {
        "run": run_name(name or re.sub(r"[^A-Za-z0-9._]+", "-", joined).strip("-.")[:80]),
        "title": f"Audit of {listed}",
        "description": (
            f"The same prompts were asked of {listed}, and the images judged by the same models: people alone and in "
            "pairs, scenes, people by profession, and triplets of prompts that differ in a gender word"
            + (", and captions with the images behind them." if corpus else ".")
        ),
        "source": "pipeline",
        "model": names[0],
        "seed": 20231,
        "bootstrap_replicates": 10_000,
        "confidence": 0.95,
        "settings": {"compare_with": [*names[1:]] or "none", **settings},
        "notebooks": [one for one in notebooks if not papers or one.split("/")[0] in papers],
        "jobs": 0,
    }


def _check_model(name: str) -> None:
    """Refuse a name that cannot be a model's, before anything is written under it."""
    # Of a folder what tables call it counts, wherever it lies.
    here = any(map(os.path.exists, map(os.path.expanduser, adapters.split(name).names)))
    shown = _shown(name)
    if not (_FOLDER if here else _PLAIN).fullmatch(shown if here else name) or not shown.strip(" ."):
        raise ParameterError(
            f"{name[:120]!r} cannot be the name of a model: it may have letters, digits, spaces and . _ - + @ : / ( ), "
            "at most 120. A folder of another name can be renamed."
        )
    one = registry.brought(name, "text-to-image")
    if not name.startswith(ENDPOINT) and not (one and one.draws):
        checkpoints.find(name)


def _pictures(name: str) -> str:
    """Return what a model's images are, as far as it says so."""
    one = registry.brought(name, "text-to-image")
    if one and one.draws:
        return one.pictures
    return registry.pictures(one.folder if one else adapters.base(name))


def _shown(name: str) -> str:
    """Return a model's name as tables have it: of a folder its own name."""
    return checkpoints.label(name).removeprefix(ENDPOINT)
