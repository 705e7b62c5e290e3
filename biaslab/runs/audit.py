"""The contents of a parameters file from a command's arguments: the models to audit, and the size of the audit."""

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
from biaslab.analyses.custom import prompts as custom_prompts
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
# Allowed names of models.
_NAME = re.compile(r"[\w.+@:/(),;'&=!\[\]~#%$ -]{1,120}")


def make_parameters(
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
    """Return the contents of a parameters file that audits several models with the same settings.

    For existing images (``images:FOLDER``) and for images of the file ``prompts``, only the notebooks on these are
    selected, unless ``papers`` are named. ``benchmark`` is a file of shares to compare them with.
    ``annotations``, ``corpus`` and ``group_by`` are the settings ``judging.annotations``, ``captions.corpus`` and
    ``custom.group_by``. The paradox paper needs captions. By default, ``name`` consists of models and preset, and
    ``title`` of models. ``set_here`` are names of settings that a command sets; they get no default.

    Raises:
        ParameterError: A model is invalid or named twice, some models generate drawings and others photographs, or a
            name, the preset or a paper does not exist.
    """
    if preset not in PRESETS:
        raise ParameterError(f"--preset is {preset!r}. {name_help(preset, PRESETS)}")
    names = list_models(names, group_by)
    folders = [pattern for pattern in names if pattern.startswith(IMAGES)]
    if benchmark and not (prompts or folders):
        raise ParameterError(
            f"--benchmark is {benchmark!r}, which is compared with shares of your own prompts or images. Specify "
            "prompts with --prompts, or images as images:FOLDER."
        )
    if group_by and not folders:
        raise ParameterError(
            f"--group-by is {group_by!r}, which groups existing images. Specify the images as images:FOLDER."
        )
    are_drawings = _image_domain(names[0]) == registry.DRAWINGS
    files = (_FOLDER / f"{n}.yaml" for n in ("all", preset))
    content = _merge(*(yaml.safe_load(file.read_text(encoding="utf-8")) for file in files))
    parts = ("photographs", "custom", "corpus", "no_corpus", "asked")
    photographs, custom, with_corpus, without_corpus, paper_texts = (content.pop(key) for key in parts)
    notebooks = [*content["notebooks"], *(with_corpus["notebooks"] if corpus else ())]
    papers_used = dict.fromkeys(
        pattern.split("/")[0] for pattern in notebooks if pattern.split("/")[0] in tables.measuring_papers()
    )
    is_custom = bool(prompts or folders) and not papers
    if is_custom:
        in_conditions = bool(prompts) and "base_id" in custom_prompts.prompts(prompts, 1)
        notebooks = [*custom["notebooks"], *(custom["conditions"] if in_conditions else ())]
    for paper in papers:
        if paper not in papers_used:
            needs_captions = any(pattern.startswith(f"{paper}/") for pattern in with_corpus["notebooks"])
            hint = " It needs captions; specify them with --corpus." if needs_captions else ""
            raise ParameterError(f"--paper is {paper!r}. {name_help(paper, papers_used)}{hint}")
    corpus_settings = (with_corpus if corpus else without_corpus)["settings"]
    if is_custom:
        # The requests of the papers do not apply.
        content["settings"] = photographs = {}
    settings = _merge(content["settings"], corpus_settings, {} if are_drawings else photographs)
    if not are_drawings:
        unset_names = [setting for setting in defaults.SETTINGS if setting not in set_here]
        by_setting = defaults.choose_defaults(unset_names)
        judges: dict[str, Any] = {setting.removeprefix("judging."): judge.name for setting, judge in by_setting.items()}
        settings["judging"] = judges
        # If images and texts are compared, an open_clip model is one of the judges if it is available.
        if not is_custom and judges.get("gender", defaults.CLIP) != defaults.CLIP:
            judges |= {"extra_judges": [defaults.CLIP]} if not defaults.find_problem(defaults.CLIP) else {}
    if is_custom and folders:
        prompt_columns = (open_folder(pattern.removeprefix(IMAGES), group_by).people["prompt"] for pattern in folders)
        for paper in custom_prompts.find_papers(chain.from_iterable(prompt_columns)):
            notebooks += custom["papers"][paper]["notebooks"]
            settings = _merge(settings, custom["papers"][paper]["settings"])
    custom_settings = {"prompts_file": prompts, "benchmark_file": benchmark, "group_by": group_by}
    if custom_settings := {name: value for name, value in custom_settings.items() if value}:
        settings["custom"] = custom_settings
    if annotations:
        settings = _merge(settings, {"judging": {"annotations": annotations}})
    if corpus:
        # The images of a package's captions come with the package; for other captions they are downloaded.
        is_plugin = corpus in plugins.entry_points(plugins.CORPORA)
        caption_settings = {"corpus": corpus} | ({} if is_plugin else {"training_images": "download"})
        settings["captions"] = caption_settings | settings["captions"]
    notebooks = [pattern for pattern in notebooks if not papers or pattern.split("/")[0] in papers]
    labels = list(map(display_name, names))
    label_list, run_base = ", ".join(labels), "-".join(["audit", *labels, *papers, preset])
    if is_custom and folders:
        description = f"Images in {label_list}, classified by the same models, by group and over all groups."
    elif is_custom:
        description = f"Images generated by {label_list} from custom prompts, classified by the same models."
    else:
        words = [
            text for paper, text in paper_texts.items() if any(pattern.startswith(f"{paper}/") for pattern in notebooks)
        ]
        description = f"Images generated by {label_list} from the same prompts, classified by the same models: "
        description += f"{'; '.join(words)}."
    # A digest distinguishes names in characters that the name of a run may not contain.
    digest = "" if run_base.isascii() else "-" + hashlib.sha256(run_base.encode()).hexdigest()[:6]
    run = re.sub(r"[^A-Za-z0-9._]+", "-", run_base).strip("-.")[: 80 - len(digest)] + digest
    return {
        "run": run_name(name or run),
        "title": title or f"Audit of {label_list}",
        "description": description,
        "source": "pipeline",
        "model": names[0],
        **content,
        "settings": {"baselines": [*names[1:]] or "none", **settings},
        "notebooks": notebooks,
        "jobs": 0,
    }


def describe_defaults(parameters: Mapping[str, Any]) -> list[str]:
    """Return sentences on the default judges in parameters of :func:`make_parameters`, and why they were chosen."""
    judging = parameters["settings"].get("judging", {})
    by_setting = defaults.choose_defaults(
        name for name in defaults.SETTINGS if name.removeprefix("judging.") in judging
    )
    sentences = [
        f"{setting} is {default.name!r} by default: {default.reason}" for setting, default in by_setting.items()
    ]
    if "extra_judges" in judging:
        sentences.append(
            f"judging.extra_judges is {judging['extra_judges']} by default, because it compares images and texts."
        )
    return sentences


def list_models(names: Sequence[str], group_by: str = "") -> list[str]:
    """Return the names of the models to audit: one for each model of a folder; raise as :func:`make_parameters`."""
    if not names:
        raise ParameterError("No model to audit is specified; use a folder, a hub name or 'endpoint:NAME'.")
    names = [model for name in names for model in expand_models(name)]
    for model in names:
        _check_model(model, group_by)
    # Different paths may name one model.
    paths = [os.path.realpath(path) if os.path.exists(path := os.path.expanduser(model)) else model for model in names]
    for model, path in zip(names, paths, strict=True):
        if paths.count(path) > 1:
            raise ParameterError(f"The model {model!r} occurs twice; specify each model once.")
    drawing_models = [model for model in names if _image_domain(model) == registry.DRAWINGS]
    if drawing_models and len(drawing_models) < len(names):
        photograph_model = next(model for model in names if model not in drawing_models)
        raise ParameterError(
            f"{drawing_models[0]!r} generates drawings and {photograph_model!r} photographs, but no judge covers both. "
            "Audit them separately, and compare the runs with 'biaslab compare'."
        )
    return names


def expand_models(name: str) -> list[str]:
    """Return the names of the models that a name represents: several for a folder with images of several models."""
    if not name.startswith(IMAGES) or MIXED in name:
        return [name]
    models = open_folder(name.removeprefix(IMAGES)).models
    return [f"{name}{MIXED}{model}" for model in models] or [name]


def _merge(first: dict, *others: dict) -> dict:
    """Return mappings merged at any depth; later values replace earlier ones, and lists are concatenated."""
    merged = dict(first)
    for other in others:
        for key, value in other.items():
            current = merged.get(key)
            if isinstance(current, dict):
                merged[key] = _merge(current, value)
            else:
                merged[key] = current + value if isinstance(current, list) else value
    return merged


def _check_model(name: str, group_by: str) -> None:
    """Raise ParameterError if a name cannot be a model's, before anything is written under it."""
    if name.startswith(IMAGES):
        # The images are identified before anything is written.
        _ = open_folder(name.removeprefix(IMAGES), group_by).people
        return
    suggestion = correct_prefix(name, (IMAGES, ENDPOINT)) if ":" in name and not name.startswith(ENDPOINT) else ""
    if suggestion and not os.path.exists(name):
        raise ParameterError(f"There is no model {name!r}. Did you mean {suggestion!r}?")
    # For a folder, the name in tables counts, not the path.
    label = display_name(name)
    if not _NAME.fullmatch(label) or not label.strip(" ."):
        raise ParameterError(
            f"{name[:120]!r} cannot be the name of a model, which may consist of at most 120 letters, digits, spaces "
            "and the characters . _ - + @ : / ( ) , ; ' & = ! [ ] ~ # % $. If it is a folder, rename the folder."
        )
    entry = registry.find_plugin(name, "text-to-image")
    if not name.startswith(ENDPOINT) and not (entry and entry.factory):
        checkpoints.find_checkpoint(name)


def _image_domain(name: str) -> str:
    """Return the domain of a model's images, drawings or photographs, if the model states it."""
    if name.startswith(IMAGES):
        return open_folder(name.removeprefix(IMAGES)).image_domain
    entry = registry.find_plugin(name, "text-to-image")
    if entry and entry.factory:
        return entry.image_domain
    return registry.image_domain(entry.folder if entry else model_names.base(name))


def display_name(name: str) -> str:
    """Return a model's name in tables; for a folder of images, the folder's name."""
    if name.startswith(IMAGES):
        return open_folder(name.removeprefix(IMAGES)).name
    return checkpoints.label(name).removeprefix(ENDPOINT)
