"""A params file from a command's arguments: which models are audited, and how much is asked of each."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from biaslab import plugins
from biaslab.analyses.custom import prompts as asking
from biaslab.endpoints.settings import ENDPOINT
from biaslab.errors import ParameterError, correct_prefix, name_help
from biaslab.hub import checkpoints, registry
from biaslab.hub.image_folder import IMAGES, MIXED, open_folder
from biaslab.io import model_names
from biaslab.judges import defaults
from biaslab.runs.params import run_name
from biaslab.schema import tables

_FOLDER = Path(__file__).with_name("presets")
PRESETS = ("quick", "standard", "paper")
"""How many images a run generates: the names of presets, each merged into ``presets/all.yaml``."""
# What the name of a model may be made of.
_NAME = re.compile(r"[\w.+@:/(),;'&=!\[\]~#%$ -]{1,120}")


def params_of(
    names: Sequence[str],
    *,
    preset: str = "standard",
    name: str = "",
    title: str = "",
    corpus: str = "",
    papers: Sequence[str] = (),
    prompts: str = "",
    benchmark: str = "",
    annotations: str = "",
    group_by: str = "",
    set_here: Collection[str] = (),
) -> dict[str, Any]:
    """Return what a parameters file holds that audits models side by side: all else is the same for each.

    Existing images (``images:FOLDER``), and models that generate images of the file ``prompts``, have the
    notebooks of these alone, unless ``papers`` are named; ``benchmark`` is a file of shares to hold them against.
    ``annotations`` and ``corpus`` are the settings ``judging.annotations`` and ``captions.corpus``; without captions
    there is no paradox. ``group_by`` is the setting ``custom.group_by``. An empty ``name`` is made of models and
    preset, and an empty ``title`` of models. ``set_here`` are names of settings that a command sets, of which no
    default is looked up.

    Raises:
        ParameterError: A model cannot be one, is named twice, draws where others make photographs, or a name, the
            preset or a paper does not exist.
    """
    if preset not in PRESETS:
        raise ParameterError(f"--preset is {preset!r}. {name_help(preset, PRESETS)}")
    names = models_of(names, group_by)
    folders = [pattern for pattern in names if pattern.startswith(IMAGES)]
    if benchmark and not (prompts or folders):
        raise ParameterError(
            f"--benchmark is {benchmark!r}, which compares shares of your own prompts or images: name them with "
            "--prompts, or a folder of images as images:FOLDER."
        )
    if group_by and not folders:
        raise ParameterError(f"--group-by is {group_by!r}, which groups existing images: name them as images:FOLDER.")
    drawn = _image_domain(names[0]) == registry.DRAWINGS
    files = (_FOLDER / f"{n}.yaml" for n in ("all", preset))
    content = _merged(*(yaml.safe_load(file.read_text(encoding="utf-8")) for file in files))
    parts = ("photographs", "custom", "corpus", "no_corpus", "asked")
    photographs, alone, with_corpus, without, requested = (content.pop(key) for key in parts)
    notebooks = [*content["notebooks"], *(with_corpus["notebooks"] if corpus else ())]
    papers_used = dict.fromkeys(
        pattern.split("/")[0] for pattern in notebooks if pattern.split("/")[0] in tables.measuring_papers()
    )
    is_custom = bool(prompts or folders) and not papers
    if is_custom:
        in_conditions = bool(prompts) and "base_id" in asking.prompts(prompts, 1)
        notebooks = [*alone["notebooks"], *(alone["conditions"] if in_conditions else ())]
    for paper in papers:
        if paper not in papers_used:
            needs = any(pattern.startswith(f"{paper}/") for pattern in with_corpus["notebooks"])
            more = " It needs captions: name them with --corpus." if needs else ""
            raise ParameterError(f"--paper is {paper!r}. {name_help(paper, papers_used)}{more}")
    chosen = (with_corpus if corpus else without)["settings"]
    if is_custom:
        # What the papers ask is not asked.
        content["settings"] = photographs = {}
    settings = _merged(content["settings"], chosen, {} if drawn else photographs)
    if not drawn:
        unset = [setting for setting in defaults.SETTINGS if setting not in set_here]
        by_setting = defaults.choose_defaults(unset)
        judges: dict[str, Any] = {setting.removeprefix("judging."): one.name for setting, one in by_setting.items()}
        settings["judging"] = judges
        # Where images and texts are compared, an open_clip model is one of the judges if it is available.
        if not is_custom and judges.get("gender", defaults.CLIP) != defaults.CLIP:
            judges |= {"extra_judges": [defaults.CLIP]} if not defaults.find_problem(defaults.CLIP) else {}
    if is_custom and folders:
        of_pictures = (open_folder(pattern.removeprefix(IMAGES), group_by).people["prompt"] for pattern in folders)
        for paper in asking.papers_of(chain.from_iterable(of_pictures)):
            notebooks += alone["papers"][paper]["notebooks"]
            settings = _merged(settings, alone["papers"][paper]["settings"])
    given = {"prompts_file": prompts, "benchmark_file": benchmark, "group_by": group_by}
    if given := {name: value for name, value in given.items() if value}:
        settings["custom"] = given
    if annotations:
        settings = _merged(settings, {"judging": {"annotations": annotations}})
    if corpus:
        # Captions that a package brings have their images; those behind others are fetched.
        brought = corpus in plugins.entry_points(plugins.CORPORA)
        of_corpus = {"corpus": corpus} | ({} if brought else {"training_images": "download"})
        settings["captions"] = of_corpus | settings["captions"]
    notebooks = [pattern for pattern in notebooks if not papers or pattern.split("/")[0] in papers]
    named = list(map(display_name, names))
    listed, joined = ", ".join(named), "-".join(["audit", *named, *papers, preset])
    if is_custom and folders:
        description = f"Images of {listed}, classified by the same models, by group and over all groups."
    elif is_custom:
        description = f"Images of {listed} from custom prompts, classified by the same models."
    else:
        words = [
            text for paper, text in requested.items() if any(pattern.startswith(f"{paper}/") for pattern in notebooks)
        ]
        description = f"Images of {listed} from the same prompts, classified by the same models: "
        description += f"{'; '.join(words)}."
    # A digest distinguishes names in letters that a run's name may not have.
    digest = "" if joined.isascii() else "-" + hashlib.sha256(joined.encode()).hexdigest()[:6]
    run = re.sub(r"[^A-Za-z0-9._]+", "-", joined).strip("-.")[: 80 - len(digest)] + digest
    return {
        "run": run_name(name or run),
        "title": title or f"Audit of {listed}",
        "description": description,
        "source": "pipeline",
        "model": names[0],
        **content,
        "settings": {"baselines": [*names[1:]] or "none", **settings},
        "notebooks": notebooks,
        "jobs": 0,
    }


def describe_defaults(parameters: Mapping[str, Any]) -> list[str]:
    """Return sentences on the default judges of a parameters file of :func:`params_of`, and why they were chosen."""
    judging = parameters["settings"].get("judging", {})
    chosen = defaults.choose_defaults(name for name in defaults.SETTINGS if name.removeprefix("judging.") in judging)
    sentences = [f"{setting} is {default.name!r} by default: {default.reason}" for setting, default in chosen.items()]
    if "extra_judges" in judging:
        sentences.append(f"judging.extra_judges is {judging['extra_judges']} by default: it compares images and texts.")
    return sentences


def models_of(names: Sequence[str], group_by: str = "") -> list[str]:
    """Return the models to audit side by side, each of a folder that holds images of several; errors as above."""
    if not names:
        raise ParameterError("Name a model to audit: a folder, a hub name or 'endpoint:NAME'.")
    names = [name_given for name in names for name_given in each_model(name)]
    for name_given in names:
        _check_model(name_given, group_by)
    # All names of one model are alike.
    resolved = [
        os.path.realpath(path) if os.path.exists(path := os.path.expanduser(name_given)) else name_given
        for name_given in names
    ]
    for name_given, same in zip(names, resolved, strict=True):
        if resolved.count(same) > 1:
            raise ParameterError(f"The model {name_given!r} is named twice; name each once.")
    drawn = [name_given for name_given in names if _image_domain(name_given) == registry.DRAWINGS]
    if drawn and len(drawn) < len(names):
        other = next(name_given for name_given in names if name_given not in drawn)
        raise ParameterError(
            f"{drawn[0]!r} generates drawings and {other!r} photographs: no judge covers both. Audit them "
            "separately, and compare the runs with 'biaslab compare'."
        )
    return names


def each_model(name: str) -> list[str]:
    """Return the names of the models that a name represents: of a folder with images of several, each."""
    if not name.startswith(IMAGES) or MIXED in name:
        return [name]
    several = open_folder(name.removeprefix(IMAGES)).models
    return [f"{name}{MIXED}{model}" for model in several] or [name]


def _merged(first: dict, *others: dict) -> dict:
    """Return mappings over one another, at any depth; lists follow one another."""
    whole = dict(first)
    for other in others:
        for key, value in other.items():
            current = whole.get(key)
            if isinstance(current, dict):
                whole[key] = _merged(current, value)
            else:
                whole[key] = current + value if isinstance(current, list) else value
    return whole


def _check_model(name: str, group_by: str) -> None:
    """Refuse a name that cannot be a model's, before anything is written under it."""
    if name.startswith(IMAGES):
        # Its images are told apart before anything is written.
        _ = open_folder(name.removeprefix(IMAGES), group_by).people
        return
    near = correct_prefix(name, (IMAGES, ENDPOINT)) if ":" in name and not name.startswith(ENDPOINT) else ""
    if near and not os.path.exists(name):
        raise ParameterError(f"There is no model {name!r}. Did you mean {near!r}?")
    # Of a folder what tables call it counts, wherever it lies.
    label = display_name(name)
    if not _NAME.fullmatch(label) or not label.strip(" ."):
        raise ParameterError(
            f"{name[:120]!r} cannot be the name of a model: it may have letters, digits, spaces and "
            ". _ - + @ : / ( ) , ; ' & = ! [ ] ~ # % $, at most 120. A folder of another name can be renamed."
        )
    entry = registry.find_plugin(name, "text-to-image")
    if not name.startswith(ENDPOINT) and not (entry and entry.factory):
        checkpoints.find_checkpoint(name)


def _image_domain(name: str) -> str:
    """Return what a model's images are, as far as it says so."""
    if name.startswith(IMAGES):
        return open_folder(name.removeprefix(IMAGES)).image_domain
    entry = registry.find_plugin(name, "text-to-image")
    if entry and entry.factory:
        return entry.image_domain
    return registry.image_domain(entry.folder if entry else model_names.base(name))


def display_name(name: str) -> str:
    """Return a model's name as tables have it: of a folder its own name."""
    if name.startswith(IMAGES):
        return open_folder(name.removeprefix(IMAGES)).name
    return checkpoints.label(name).removeprefix(ENDPOINT)
