"""The pipeline: captions → selections → prompts → images → judgements, each stage computed once and when asked.

A :class:`Pipeline` connects the stages; none of them knows another. Every result is a table keyed by stable ids
and lies in the store, keyed by what it depends on, so that notebooks and runs share it and a stopped run goes on.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from biaslab import shared, values
from biaslab.captions.selections import APPROACHES, CAPTIONS_AS_PROMPTS, SELECTED
from biaslab.errors import InputError, MissingInputError, ParameterError, name_help, unknown_name

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from biaslab.judging.images import ImageSource, Unreadable
    from biaslab.pipeline_people import People

# Kinds of images: those behind captions, and those generated from templates, captions and paraphrases.
KINDS = ("training", "generated", "caption_prompts", "paraphrased")
# The model that draws the truth: biaslab.mini.truthful.
WORLD = "world"
# How the name of a model behind an images endpoint begins, as generation.image_endpoint has it.
ENDPOINT = "endpoint:"
# What training_images says where images are fetched by their captions' URLs.
DOWNLOAD = "download"
# How names of models that judge by a file begin.
FILES = ("mediapipe:", "fairface:", "ratings:")
# How names of models begin that answer questions about people.
VQA = "vqa:"
# Settings that name what is read, beside the model that generates.
INPUTS = ("corpus", "corpus_rows", "columns", "skew", "training_images", "faces", "gender", "further_judges")
# Captions that are looked at before any work: of files, and of a corpus that is streamed.
LOOKED_AT, STREAMED = 50_000, 1000
_SHARD_CAPTIONS = 8192
_SHARD_EMBEDDINGS = 2048


def _setting(
    default: Any,
    meaning: str,
    *,
    low: float | None = None,
    high: float | None = None,
    allowed=(),
    problem: Callable[[Any], str] | None = None,
):
    """Return a field; ``problem`` says what is wrong with a value, or nothing, and repeats no secret."""
    more = {"meaning": meaning, "low": low, "high": high, "allowed": allowed, "problem": problem}
    return field(default=default, metadata=more)


def _endpoint_url_problem(url: str) -> str:
    from biaslab.captions.endpoint import url_problem

    return url_problem(url) if url else ""


def _key_variable_problem(name: str) -> str:
    from biaslab.captions.endpoint import variable_problem

    return variable_problem(name)


@dataclass(frozen=True)
class Settings:
    """What the pipeline does; defaults are those of a short run on the embedded world and models."""

    corpus: str = _setting(
        "mini", "Captions: `mini`, a file or pattern of files, or the hub name of a data set."
    )
    corpus_rows: int = _setting(0, "Captions searched; 0 is all that the corpus has.", low=0)
    columns: dict = field(
        default_factory=dict,
        metadata={
            "meaning": "Columns of the corpus by what they hold, such as `text: TEXT`, or a published set's, such as "
            "`schema: laion`; {} finds them."
        },
    )
    training_images: str = _setting(
        "",
        "Folder with the images behind captions, each named by its caption_id; `download`: they are fetched by URL; "
        "empty: those that the corpus has.",
    )
    download_size: int = _setting(512, "Largest side in pixels of a fetched image.", low=16, high=8192)
    download_concurrency: int = _setting(16, "Images fetched at a time; two of one host.", low=1, high=512)
    download_opt_out: tuple[str, ...] = _setting(
        ("noai", "noimageai", "noindex", "noimageindex", "tdm-reservation"),
        "Headers that ask not to use an image and are honoured; [] honours none.",
    )
    skew: str = _setting(
        "default",
        "The embedded captions' knobs: `default`, or `off` for no paradox. With `off`, model `world`, and no other, "
        "also draws people in pairs without stereotypes.",
    )
    occupations: tuple[str, ...] = _setting((), "Occupations; an empty list is the paper's 62.")
    approaches: tuple[str, ...] = _setting(
        APPROACHES, "Which selections of captions and prompts are measured.", allowed=APPROACHES
    )
    captions_per_occupation: int = _setting(100, "Random captions for each occupation (paper: 500).", low=1)
    candidates_per_occupation: int = _setting(
        250, "Random captions among which the nearest are looked for; 0 is all (as in the paper).", low=0
    )
    nearest_per_prompt: int = _setting(
        25, "Nearest captions for each occupation and prompt (paper: 500).", low=1
    )
    names: str = _setting(
        "gazetteer", "How names in captions tell a gender.", allowed=("gazetteer", "spacy", "off")
    )
    encoder: str = _setting("all-MiniLM-L6-v2", "Sentence embeddings that nearest captions are found with.")
    encoder_dtype: str = _setting(
        "auto",
        "Numbers that it computes with: `auto` is the fastest that the machine has, so that captions that are about as "
        "near may change places between machines; `float32` is the same everywhere.",
        allowed=("auto", "float32", "bfloat16", "float16"),
    )
    images_per_prompt: int = _setting(8, "Images for each occupation and template (paper: 500).", low=1)
    caption_prompts_per_occupation: int = _setting(
        8, "Captions for each occupation that serve as prompts (paper: 500).", low=1
    )
    images_per_caption: int = _setting(
        1, "Images for each caption that serves as a prompt (paper: 10).", low=1
    )
    paraphraser: str = _setting(
        "rules",
        "Who says captions in other words: `rules`, or the language model behind `endpoint` (as in the paper).",
        allowed=("rules", "endpoint"),
    )
    endpoint_url: str = _setting(
        "",
        "Base URL of an OpenAI-compatible endpoint, such as `http://localhost:8000/v1`.",
        problem=_endpoint_url_problem,
    )
    endpoint_model: str = _setting("", "Name of the model there (paper: gpt-3.5-turbo).")
    endpoint_key_variable: str = _setting(
        "OPENAI_API_KEY",
        "Environment variable that holds the key, which is never kept; empty where none is asked for.",
        problem=_key_variable_problem,
    )
    image_price: float = _setting(
        -1.0,
        "What one image costs of a model behind an images endpoint (`endpoint:NAME`, found at `endpoint_url`), in the "
        "currency of `image_cost_limit`; below 0 it is not known, and none is bought.",
        low=-1,
    )
    image_cost_limit: float = _setting(
        0.0, "What may be spent on that model, over all runs with this store.", low=0
    )
    image_size: str = _setting("", "Size asked of it, such as `1024x1024`; empty is its own.")
    image_quality: str = _setting("", "Quality asked of it, such as `standard`; empty is its own.")
    image_style: str = _setting("", "Style asked of it, such as `natural`; empty is its own.")
    image_options: dict = field(
        default_factory=dict,
        metadata={"meaning": "Further fields of a request for an image, such as `background: opaque`."},
    )
    image_hosts: tuple[str, ...] = _setting(
        (),
        "Addresses with ports, such as `127.0.0.1:8000`, that may give images although they are not public.",
    )
    steps: int = _setting(10, "Denoising steps (paper: 50).", low=1, high=1000)
    # Of 1, 1.5, 2 and 3 the least at which mini-sd follows gender words as the paper finds (98.41 %, section 6).
    guidance_scale: float = _setting(1.5, "Guidance; 1 is none (paper: 7.5).", low=0, high=100)
    pair_guidance_scale: float = _setting(
        -1.0,
        "Guidance of images of people whom prompts place; below 0 is `guidance_scale`.",
        low=-1,
        high=100,
    )
    scheduler: str = _setting("", "Name of a diffusers scheduler; empty is the model's own.")
    negative_prompt: str = _setting("", "What images shall not show; empty is none.")
    size: int = _setting(0, "Height and width in pixels; 0 is the model's own.", low=0)
    batch_size: int = _setting(0, "Images generated at a time; 0 finds it.", low=0)
    safety_checker: str = _setting("model", "`model` keeps the one that the model has, `off` takes it away.")
    compile: bool = _setting(
        False, "Whether the denoising network is compiled first, which pays for thousands of images."
    )
    pair_occupations: int = _setting(
        0,
        "Occupations of each of the two stereotyped lists that stand in pairs; 0 is all (as in the paper: 20).",
        low=0,
    )
    pair_images: int = _setting(1, "Images for each ordered pair of occupations (paper: 1).", low=1)
    power_runs: int = _setting(
        3, "Samplings of a high- and a low-power role for each occupation (paper: 3).", low=1
    )
    single_images: int = _setting(3, "Images of each occupation alone (paper: 3).", low=1)
    control_partners: int = _setting(
        1,
        "Partners of the same stereotype that each occupation gets in control pairs, as far as there are others.",
        low=1,
    )
    three_prompts: int = _setting(24, "Prompts for three people (section C.2); 0 leaves them out.", low=0)
    pair_aspect: float = _setting(
        1.5,
        "Width over height of images of several people, as a multiple of the model's own ratio; 1 is its own shape. "
        "Endpoints take `pair_image_size` instead.",
        low=0.1,
        high=10,
    )
    pair_image_size: str = _setting(
        "", "Size asked of an images endpoint for images of several people; empty is `image_size`."
    )
    critic: str = _setting(
        "counts",
        "FairCritic's critic: `counts` (from the judges' counts), or `endpoint`: the vision model `critic_model` "
        "behind `critic_url` (as in the paper).",
        allowed=("counts", "endpoint"),
    )
    critic_rounds: int = _setting(1, "Rounds of FairCritic (paper: 1); 0 leaves it out.", low=0, high=10)
    critic_images: int = _setting(8, "Images that a critic at an endpoint sees at a time.", low=1, high=64)
    critic_model: str = _setting("", "Name of the vision model there (paper: gpt-4-vision-preview).")
    critic_url: str = _setting(
        "", "Base URL of the critic's endpoint; empty is `endpoint_url`.", problem=_endpoint_url_problem
    )
    critic_key_variable: str = _setting(
        "",
        "Environment variable that holds the critic's key, which is sent to the critic's endpoint; empty is "
        "`endpoint_key_variable`.",
        problem=_key_variable_problem,
    )
    further_judges: tuple[str, ...] = _setting(
        (),
        "Judges whose agreement is reported beside the first one's: `fairface:FILE`, `vqa:NAME`, `ratings:FILE`.",
    )
    dtype: str = _setting("auto", "Type of numbers: `auto`, `float32`, `bfloat16` or `float16`.")
    device: str = _setting("auto", "Where models run: `auto`, `cpu`, `cuda`, ...")
    faces: str = _setting("mini-detector", "Face detector: a transformers detector, or `mediapipe:FILE`.")
    gender: str = _setting(
        "mini-clip",
        "Perceived gender: an open_clip model, `fairface:FILE`, `ratings:FILE`; of people in pairs also `vqa:NAME`.",
    )
    threshold: float = _setting(0.9, "Least probability of a gender that counts.", low=0.5, high=1)
    min_face: float = _setting(0.1, "Least share of width and height that a face has.", low=0, high=1)
    guidance_sweep: tuple[float, ...] = _setting(
        (1.0, 3.0, 7.5), "Guidance scales that calibration compares."
    )
    guidance_images: int = _setting(1, "Images for each occupation, template and scale of that sweep.", low=1)
    world_images: int = _setting(
        72, "Images for each occupation and template from the truth-preserving generator.", low=1
    )
    matched_captions: int = _setting(
        200, "Captions for each occupation that ask what the templates ask, at most.", low=1
    )
    off_rows: int = _setting(40_000, "Captions of the world without the paradox.", low=1)
    off_captions: int = _setting(60, "Random captions for each occupation there.", low=1)
    test_renders: int = _setting(2000, "Held-out drawings that the judge is tested on.", low=1)
    store: str = _setting("", "Folder where stages keep results; empty is `outputs/.store`.")
    engine: str = _setting(
        "local", "Where work runs: `local` (this machine) or `ray` (a cluster).", allowed=("local", "ray")
    )
    workers: int = _setting(
        0,
        "Worker processes; 0 is none for `local`, and one for each processor of the cluster for `ray`.",
        low=0,
    )
    engine_address: str = _setting(
        "", "Address of the Ray cluster; empty is `$RAY_ADDRESS`, or a cluster of this machine alone."
    )
    beside: str = _setting(
        "published",
        "What stands beside the results: `published` numbers or `none`.",
        allowed=("published", "none"),
    )

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Settings:
        """Return the settings with the values ``given``, in their types; the others have their defaults.

        Raises:
            ParameterError: A name is unknown, or a value has a wrong type or is not allowed.
        """
        if not isinstance(given, Mapping):
            raise ParameterError(f"settings is {given!r}; it must be a mapping, for example {{'steps': 20}}.")
        values.check("settings", given)
        known = {f.name: f for f in fields(cls)}
        problems, typed = [], {}
        for name, value in given.items():
            if name not in known:
                problems.append(f"settings has no {name!r}. {name_help(name, known)}")
                continue
            problem, typed[name] = _checked(known[name], value)
            problems += [problem] if problem else []
        if problems:
            raise ParameterError(" ".join(problems))
        return cls(**typed)

    def describe(self) -> list[tuple[str, str, str]]:
        """Return name, value (as YAML has it) and meaning of each setting."""
        shown = {name: _named(value) for name, value in asdict(self).items()}
        return [
            (f.name, v if isinstance(v := shown[f.name], str) else json.dumps(v), f.metadata["meaning"])
            for f in fields(self)
        ]


def _named(value: Any) -> Any:
    """Return a setting's value as others may see it: paths without their folders."""
    if isinstance(value, str):
        return shared.named(value)
    return [_named(v) for v in value] if isinstance(value, tuple) else value


def _checked(known, value: Any) -> tuple[str, Any]:
    """Return a problem (or an empty text) and ``value`` in the type of a setting."""
    default = known.default_factory() if known.default is MISSING else known.default
    kind, more, name = type(default), known.metadata, known.name
    if kind is tuple:
        return _checked_list(name, default, value, more["allowed"])
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, kind) or isinstance(value, bool) is not (kind is bool):
        words = {
            str: "a text",
            int: "a whole number",
            float: "a number",
            bool: "true or false",
            dict: "a mapping",
        }
        return f"settings: {name} is {value!r}; it must be {words[kind]}, for example {default!r}.", value
    if more.get("problem") and (said := more["problem"](value)):
        return f"settings: {name}: {said}", value
    low, high = more.get("low"), more.get("high")
    if (low is not None and value < low) or (high is not None and value > high):
        allowed = f"{low:g} or more" if high is None else f"{low:g} to {high:g}"
        return f"settings: {name} is {value!r}; allowed is {allowed}.", value
    return _not_allowed(name, (value,), more.get("allowed", ())), value


def _checked_list(name: str, default: tuple, value: Any, allowed: Sequence[str]) -> tuple[str, Any]:
    """Return the same for a setting that is a list: of numbers where its default is, else of texts."""
    numbers = bool(default) and isinstance(default[0], float)
    kinds, words = ((int, float), "numbers") if numbers else ((str,), "texts")
    value = [value] if isinstance(value, kinds) else value
    right = isinstance(value, list | tuple) and all(
        isinstance(v, kinds) and not isinstance(v, bool) for v in value
    )
    if not right:
        return f"settings: {name} is {value!r}; it must be a list of {words}.", value
    values = tuple(dict.fromkeys(float(v) if numbers else v for v in value))
    if allowed and not values:
        return f"settings: {name} is an empty list; give one or more of {', '.join(allowed)}.", values
    return _not_allowed(name, values, allowed), values


def _not_allowed(name: str, values: Sequence, allowed: Sequence[str]) -> str:
    other = [v for v in values if allowed and v not in allowed]
    return f"settings: {name} is {other[0]!r}. {name_help(other[0], allowed)}" if other else ""


def resolve_paths(model: str, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return model and settings with the paths in them made absolute: a notebook runs in its own folder."""
    found = dict(given)
    for name in ("corpus", "training_images", "encoder", "faces", "gender", "store"):
        if isinstance(found.get(name), str) and found[name]:
            if (name, found[name]) == ("training_images", DOWNLOAD):
                continue
            found[name] = _absolute(found[name], always=name in ("store", "training_images"))
    if isinstance(found.get("further_judges"), str):
        found["further_judges"] = [found["further_judges"]]
    if isinstance(found.get("further_judges"), list | tuple):
        found["further_judges"] = [_absolute(str(name)) for name in found["further_judges"]]
    if str(found.get("corpus", "")).startswith("hf:"):
        from biaslab.captions import corpus

        found["corpus"] = corpus.absolute(found["corpus"])
    return _absolute(model), found


def _absolute(name: str, *, always: bool = False) -> str:
    kind, colon, path = name.partition(":")
    prefix = f"{kind}:" if f"{kind}:" in FILES and colon else ""
    if f"{kind}:" == VQA and colon and os.path.isdir(os.path.expanduser(path)):
        prefix = VQA
    path = Path(os.path.expanduser(name.removeprefix(prefix)))
    there = os.path.exists(path) or (not path.is_absolute() and glob.glob(str(path), recursive=True))
    if always or prefix or there:
        return prefix + str(path.absolute())
    return name


def people_model(model: str) -> str:
    """Return what generates where prompts say who stands where: ``mini`` has a model of its own for that."""
    from biaslab import models

    return models.PAIRS if model == "mini" else model


def people_guidance(own: float, general: float) -> float:
    """Return the guidance of images of people whom prompts place: their ``own``, or below 0 that of all images."""
    return own if own >= 0 else general


def label(model: str) -> str:
    """Return what tables call ``model``: the last part of a folder's path, a name behind an endpoint without that."""
    return Path(model).name if os.path.isdir(model) else model.removeprefix(ENDPOINT)


def check(model: str, settings: Settings) -> None:
    """Look up what ``settings`` name, without loading it: models, files, corpus, images behind captions.

    A corpus may have captions only: what needs no images can be had, the rest says what is missing.

    Raises:
        ParameterError, InputError, UnknownNameError: A name is unknown or a file is not there.
    """
    if model == WORLD and settings.corpus != "mini":
        raise ParameterError(
            f"model is {WORLD!r}, which draws what the embedded captions ask, and corpus is {settings.corpus!r}; set "
            "corpus to 'mini', or model to one that generates from any text."
        )
    from biaslab import models

    if model != WORLD and not model.startswith(ENDPOINT):
        for name in dict.fromkeys((model, people_model(model))):
            models.resolve(name, "text-to-image")
    for name, kind in _judges(settings):
        if name.startswith(FILES):
            _check_file(name)
        elif name.startswith(VQA):
            from biaslab.judging import vqa

            vqa._located(name)
        elif ":" not in name:  # open_clip itself knows architectures with weights, as in ViT-L-14:openai.
            models.resolve(name, kind)
    pipeline = Pipeline(model, settings)
    _ = pipeline._generation(), pipeline._judging(), pipeline._engine, pipeline.corpus.digest
    _ = pipeline._generation(people_model(model), settings.pair_aspect, people=True)
    n_images = pipeline.people.n_images()
    if model.startswith(ENDPOINT):
        _check_cost(settings, n_images)
        pipeline._image_endpoint().check_key()
    if settings.paraphraser == "endpoint" and any(a.startswith("paraphrased") for a in settings.approaches):
        pipeline.endpoint("paraphraser").check_key()
    if settings.critic == "endpoint" and settings.critic_rounds:
        pipeline.endpoint("critic").check_key()
    if settings.training_images == DOWNLOAD:
        pipeline.check_urls()
    elif settings.training_images and not os.path.isdir(settings.training_images):
        raise ParameterError(f"training_images is {settings.training_images!r}, which is not a folder.")


def _check_file(name: str) -> None:
    """Refuse the name of a judge whose file is not there."""
    from biaslab.judging import faces, fairface

    path = os.path.expanduser(name.split(":", 1)[1])
    if not os.path.isfile(path):
        where = {faces.MEDIAPIPE: faces.WHERE, fairface.FAIRFACE: fairface.WHERE}
        had = next((said for prefix, said in where.items() if name.startswith(prefix)), "")
        raise ParameterError(
            f"There is no file {path}; it was named as {name!r} in the settings. {had}".strip()
        )


def check_captions(model: str, settings: Settings, *, seed: int = 0, images: bool = True) -> None:
    """Look at a corpus's first captions for what would stop a run later; of a small corpus, at all that it has.

    Args:
        model: The model that generates.
        settings: What the pipeline does.
        seed: Seed of the run, which decides about samples of captions.
        images: Whether images are generated, so that the model must know the words of what is known of its prompts.

    Raises:
        InputError: The corpus cannot be read, holds no captions or none that names an occupation, or two captions
            have the same id.
        ParameterError, UnknownNameError: An occupation cannot be searched, or the model does not know a word.
    """
    from biaslab.captions.corpus import FileCorpus
    from biaslab.captions.search import Matcher, search

    pipeline = Pipeline(model, settings, seed=seed, progress=False)
    Matcher(pipeline.occupations).check()
    if model == WORLD:
        _check_world(pipeline.occupations)
    whole = False
    if settings.corpus != "mini":
        most = LOOKED_AT if isinstance(pipeline.corpus, FileCorpus) else STREAMED
        rows = min(settings.corpus_rows or most, most)
        head = pipeline.but(corpus_rows=rows)
        found = search(head.corpus, pipeline.occupations, per_term=rows, seed=seed, progress=False)
        n, captions = (
            int(found.totals["n_corpus"].max()),
            found.captions.rename(columns={"term": "occupation"}),
        )
        whole = n < rows or n == settings.corpus_rows
        if whole or len(captions):
            _check_found(pipeline, captions, n)
    if not (images and pipeline.has_images) or model == WORLD or model.startswith(ENDPOINT):
        return
    if set(settings.approaches).intersection(SELECTED):
        _check_words(model, [*pipeline.filled()["text"], settings.negative_prompt])
    as_prompts = [a for a in settings.approaches if a in CAPTIONS_AS_PROMPTS]
    if whole and as_prompts:
        used = captions["rank"] <= settings.caption_prompts_per_occupation
        try:
            _check_words(model, [*captions.loc[used, "text"], settings.negative_prompt])
        except ParameterError as error:
            raise ParameterError(
                f"Captions cannot be prompts ({', '.join(as_prompts)}): {error} Set approaches to others, such as "
                f"{', '.join(SELECTED)}."
            ) from None


def _check_world(occupations: Sequence[str]) -> None:
    from biaslab.mini import world

    for name in occupations:
        if name not in world.occupations():
            raise unknown_name("occupation of the embedded world", name, world.occupations())


def _check_words(model: str, prompts: Sequence[str]) -> None:
    """Refuse prompts with words that a model in a folder here does not know; a model on the hub spells them."""
    from biaslab import models
    from biaslab.generation import texts

    texts.check_words_of_folder(models.resolve(model, "text-to-image"), prompts, model)


def check_people(model: str, settings: Settings, *, seed: int = 0) -> None:
    """Look whether the model knows the words of prompts that place people, as far as these are known before the run.

    Raises:
        ParameterError: It does not know a word.
    """
    if model == WORLD or model.startswith(ENDPOINT):
        return
    people = Pipeline(model, settings, seed=seed, progress=False).people
    texts = [text for kind in people.kinds for text in people.possible(kind).texts["text"]]
    _check_words(people_model(model), [*dict.fromkeys(texts), settings.negative_prompt])


def _check_cost(settings: Settings, n_images: int) -> None:
    """Refuse prices and limits with which no image of an endpoint's model can be bought."""
    price, limit = settings.image_price, settings.image_cost_limit
    if price < 0:
        raise ParameterError(
            f"image_price is {price:g}, so it is not known what an image costs, and none is bought. Set it to the "
            f"price of one image (the Paired Stereotype Test takes {n_images:,} images), or to 0 where they cost "
            "nothing."
        )
    if limit < price:
        raise ParameterError(
            f"image_cost_limit is {limit:g} and one image costs image_price, {price:g}: none could be bought. The "
            f"Paired Stereotype Test takes {n_images:,} images, which cost {n_images * price:,.2f}; set "
            "image_cost_limit to what may be spent."
        )


def digest(model: str, settings: Settings) -> str:
    """Return a digest of what results depend on beside settings, seed and code: weights, captions, images.

    Images that are fetched by URL count with their captions, of which the URLs are part.
    """
    whole = hashlib.sha256(Pipeline(model, settings).corpus.digest.encode())
    if settings.training_images not in ("", DOWNLOAD):
        from biaslab.judging.images import FolderImages

        whole.update(FolderImages(settings.training_images).digest.encode())
    makers = dict.fromkeys((model, people_model(model)))
    for name, kind in (*((m, "text-to-image") for m in makers), *_judges(settings)):
        whole.update(_files_digest(name, kind).encode())
    return whole.hexdigest()


def _judges(settings: Settings) -> list[tuple[str, str]]:
    """Return name and kind of the models that judge; where only raters do, no face is looked for."""
    judges = dict.fromkeys((settings.gender, *settings.further_judges))
    faces = [] if all(j.startswith("ratings:") for j in judges) else [(settings.faces, "detector")]
    return [*((judge, "clip") for judge in judges), *faces]


def _files_digest(name: str, kind: str) -> str:
    """Return a digest of the files behind the name of a model; of the name where there are none here."""
    from biaslab import models

    if name.startswith(FILES):
        path = Path(name.split(":", 1)[1])
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else name
    if name.startswith(VQA):
        folder = Path(name.removeprefix(VQA)).expanduser()
        return models.digest(folder) if folder.is_dir() else name
    return name if name == WORLD or ":" in name else models.digest(models.resolve(name, kind))


class Pipeline:
    """The stages, connected; each is computed when its result is first asked for.

    Args:
        model: The text-to-image model: ``mini``, a folder, or the hub name of a diffusers pipeline.
        settings: What the stages do.
        seed: Seed of samples of captions and of images' noise.
        progress: Whether stages show how far they are: as bars on standard error.
        progress_file: A file that holds the latest bar instead.
    """

    def __init__(
        self,
        model: str,
        settings: Settings,
        *,
        seed: int = 0,
        progress: bool = True,
        progress_file: Path | None = None,
    ) -> None:
        self.model = model
        self.settings = settings
        self.seed = seed
        self.progress = progress
        self.progress_file = progress_file
        self._kept: dict[Any, Any] = {}

    @property
    def label(self) -> str:
        """What tables call the model."""
        return label(self.model)

    def but(self, model: str = "", **changes: Any) -> Pipeline:
        """Return a pipeline like this one with another model or other settings; they share what is the same.

        Raises:
            ParameterError: There is no such setting, or its value is not allowed.
        """
        settings = Settings.of({**vars(self.settings), **changes})
        progress = {"progress": self.progress, "progress_file": self.progress_file}
        return type(self)(model or self.model, settings, seed=self.seed, **progress)

    @property
    def has_images(self) -> bool:
        """Whether there are images behind the captions, or URLs of them that are to be fetched."""
        return bool(self.settings.training_images) or self.corpus.images is not None

    @property
    def no_images(self) -> str:
        """What to do where the corpus has captions only."""
        return (
            f"The corpus {self.corpus.name!r} has captions and no images. Set training_images to a folder with the "
            "images, each named by its caption's id, or to 'download' where the corpus has their URLs."
        )

    # -- captions ------------------------------------------------------------------------------------

    @cached_property
    def store(self):
        """The store of stages' results."""
        from biaslab.store import Store

        return Store(self.settings.store) if self.settings.store else Store()

    @cached_property
    def occupations(self) -> tuple[str, ...]:
        """The occupations: the paper's, or those of the settings."""
        from biaslab import lexicons

        return self.settings.occupations or tuple(lexicons.load("paradox_occupations"))

    @cached_property
    def templates(self) -> Mapping[str, str]:
        """The paper's prompt templates by number."""
        from biaslab import lexicons

        return lexicons.load("paradox_prompts")

    @cached_property
    def corpus(self):
        """The captions, unread, with the images behind them.

        Raises:
            InputError, UnknownNameError: There is no such corpus, or it cannot be read.
        """
        from biaslab.captions.corpus import open_corpus

        s = self.settings
        return open_corpus(s.corpus, rows=s.corpus_rows, skew=s.skew, columns=s.columns or None)

    def captions(self) -> pd.DataFrame:
        """Return the captions found that name an occupation, with their gender indicators.

        Returns:
            Columns caption_id, occupation, text, rank (from 1, in random order), indicator, spans, and what else
            the corpus says of a caption.
        """
        return self._once("captions", self._captions).copy()

    def totals(self) -> pd.DataFrame:
        """Return how many captions name each occupation: occupation, n_captions, n_corpus."""
        return self._found.totals.rename(columns={"term": "occupation"})

    @cached_property
    def _found(self):
        from biaslab.captions.search import search

        with self._showing() as shown:
            return search(
                self.corpus,
                list(self.occupations),
                per_term=self.settings.captions_per_occupation,
                pool=self._pool,
                seed=self.seed,
                progress=shown,
                store=self.store,
                engine=self._engine,
            )

    @property
    def _pool(self) -> int:
        """Captions kept of each occupation; more than the sample only where the nearest are asked for."""
        return (self.settings.candidates_per_occupation or _ALL) if self._asks_for_nearest else 0

    def _captions(self) -> pd.DataFrame:
        import pandas as pd

        captions = self._found.captions.rename(columns={"term": "occupation"})
        _check_found(self, captions, int(self._found.totals["n_corpus"].max()))
        names = self.settings.names
        stage = self.store.stage("indicators", {"names": names}, partial(_indicate, names))
        found = self.computed(stage, captions[["text"]], _SHARD_CAPTIONS, "gender indicators", "captions")
        if found.empty:
            found = pd.DataFrame(columns=["indicator", "spans"], dtype=object)
        return pd.concat([captions.reset_index(drop=True), found], axis=1)

    def compute_share(self, i: int, n: int) -> list[str]:
        """Compute share ``i`` of ``n`` of the search, then of indicators and embeddings, as far as that can be.

        The shares may be computed one after the other or at once, by any machines that see the store. Indicators
        and embeddings need the whole search, so they come with a second call, when all shares of it are done.

        Returns:
            What is left to other shares, a sentence a stage; nothing where all that a run needs of them is there.

        Raises:
            ParameterError: ``i`` is not one of 0 to ``n`` - 1.
        """
        from biaslab.store import Store, UnfinishedError

        mine = self.but()
        mine.store = Store(self.store.root, share=(i, n))
        try:
            _ = mine._found
        except UnfinishedError as error:
            return [str(error)]
        left = []
        for compute in (mine.captions, *([mine._vectors] if self._asks_for_nearest else [])):
            try:
                compute()
            except UnfinishedError as error:
                left.append(str(error))
        return left

    # -- selections and prompts ----------------------------------------------------------------------

    def sample(self) -> pd.DataFrame:
        """Return the random sample of captions for each occupation (section 4): rows of :meth:`captions`."""
        captions = self.captions()
        return captions[captions["rank"] <= self.settings.captions_per_occupation].reset_index(drop=True)

    def selections(self) -> pd.DataFrame:
        """Return which captions each approach takes for each occupation and prompt (sections 4 and 5).

        Returns:
            Columns approach, prompt (``captions`` where one selection serves all prompts), occupation, caption_id,
            rank and cosine (with the prompt; NaN where it plays no part).
        """
        return self._once("selections", self._selections).copy()

    def _selections(self) -> pd.DataFrame:
        import pandas as pd

        s, sample = self.settings, self.sample()
        sample = sample.assign(approach="naive", prompt="captions", cosine=float("nan"))
        free = sample[sample["indicator"] == "none"].assign(approach="no_indicators")
        free["rank"] = free.groupby("occupation").cumcount() + 1
        own = pd.concat([sample, free], ignore_index=True)[_SELECTION_COLUMNS]
        if self._asks_for_nearest:
            from biaslab.captions.neighbours import embedding_stage
            from biaslab.captions.selections import select

            mean = self.cosines().groupby(["caption_id", "occupation"], as_index=False)["cosine"].mean()
            own = own.drop(columns="cosine").merge(mean, on=["caption_id", "occupation"], how="left")
            with self._showing() as shown:
                near = select(
                    self.captions().rename(columns={"occupation": "term"}),
                    self.filled(),
                    k=s.nearest_per_prompt,
                    encoder=self._encoder,
                    stage=embedding_stage(self.store, self._encoder),
                    progress=shown,
                )
            own = pd.concat([own, near[near["approach"].isin(_NEAREST)]], ignore_index=True)[
                _SELECTION_COLUMNS
            ]
        return own[own["approach"].isin(s.approaches)].reset_index(drop=True)

    def cosines(self) -> pd.DataFrame:
        """Return how near each caption is to each prompt of its occupation.

        Returns:
            Columns caption_id, occupation, prompt (``1`` to ``4``) and cosine (of sentence embeddings).
        """
        return self._once("cosines", self._cosines).copy()

    def _cosines(self) -> pd.DataFrame:
        import pandas as pd

        captions, filled = self.captions(), self.filled()
        vectors = self._vectors()
        vector_of = {(p, o): vectors[len(captions) + i] for i, (p, o) in enumerate(_pairs(filled))}
        frames = []
        for occupation, rows in captions.groupby("occupation", sort=False):
            mine = vectors[rows.index]
            for prompt in self.templates:
                cosine = (mine @ vector_of[prompt, occupation]).astype(float)
                frames.append(rows[["caption_id", "occupation"]].assign(prompt=prompt, cosine=cosine))
        columns = ["caption_id", "occupation", "prompt", "cosine"]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)

    def _vectors(self) -> np.ndarray:
        """Return the embeddings of the captions found and, after them, of the filled templates."""
        from biaslab.captions.neighbours import embed, embedding_stage

        # The very texts that the selection of nearest captions embeds, so that the store has them once.
        texts = [*self._found.captions["text"], *self.filled()["text"]]
        stage = embedding_stage(self.store, self._encoder)
        with self._showing() as shown:
            return embed(texts, self._encoder, stage, progress=shown, engine=self._engine)

    @cached_property
    def _encoder(self):
        from biaslab.captions.neighbours import Encoder

        s = self.settings
        return Encoder(s.encoder, device=s.device, dtype=s.encoder_dtype)

    @property
    def _asks_for_nearest(self) -> bool:
        return bool(set(_NEAREST).intersection(self.settings.approaches))

    def filled(self) -> pd.DataFrame:
        """Return the four templates filled with each occupation: prompt, occupation, text."""
        import pandas as pd

        from biaslab import lexicons

        rows = [
            {"prompt": number, "occupation": occupation, "text": lexicons.fill(template, occupation)}
            for number, template in self.templates.items()
            for occupation in self.occupations
        ]
        return pd.DataFrame(rows)

    def prompts(self, kind: str = "generated") -> pd.DataFrame:
        """Return what images of a kind are generated from.

        Args:
            kind: ``generated`` (the templates), ``caption_prompts`` or ``paraphrased``.

        Returns:
            Columns prompt_id, approach, occupation, prompt, text, n_images; for captions also caption_id and
            indicator. A caption that names two occupations has a row for each, with the same prompt_id. Paraphrases
            also have paraphrase_outcome (see :data:`biaslab.captions.paraphrase.OUTCOMES`).
        """
        return self._once(("prompts", _kind(kind, KINDS[1:])), lambda: self._prompts(kind)).copy()

    def _prompts(self, kind: str) -> pd.DataFrame:
        s = self.settings
        if kind == "generated":
            filled = self.filled()
            ids = [f"p{prompt}-{_slug(occupation)}" for prompt, occupation in _pairs(filled)]
            return filled.assign(prompt_id=ids, approach="naive", n_images=s.images_per_prompt)[
                _PROMPT_COLUMNS
            ]
        captions = self.sample()
        captions = captions[captions["rank"] <= s.caption_prompts_per_occupation]
        both = list(zip(captions["caption_id"], captions["occupation"], strict=True))
        if kind == "caption_prompts":
            ids, more = [f"c-{caption}" for caption, _ in both], {}
        else:
            # What may change depends on the occupation, so a caption that names two has two paraphrases.
            ids = [f"x-{caption}-{_slug(occupation)}" for caption, occupation in both]
            said = self._paraphrases(captions)
            more = {"text": said["text"].tolist(), "paraphrase_outcome": said["outcome"].tolist()}
        same = {"prompt_id": ids, "approach": kind, "prompt": "captions"}
        made = captions.assign(**same, **more, n_images=s.images_per_caption)
        columns = [*_PROMPT_COLUMNS, "caption_id", "indicator", *(c for c in more if c != "text")]
        return made[columns].reset_index(drop=True)

    def _paraphrases(self, captions: pd.DataFrame) -> pd.DataFrame:
        from biaslab.captions.paraphrase import paraphrases

        asks = self.settings.paraphraser == "endpoint"
        with self._showing() as shown:
            return paraphrases(
                captions["text"].tolist(),
                captions["occupation"].tolist(),
                seed=self.seed,
                endpoint=self.endpoint("paraphraser") if asks else None,
                store=self.store,
                names=self.settings.names,
                progress=shown,
            )

    def endpoint(self, use: str):
        """Return the endpoint for a ``use``: ``paraphraser`` or ``critic``.

        Raises:
            ParameterError: The settings do not name it.
        """
        from biaslab.captions.endpoint import Endpoint

        s = self.settings
        own = {
            "paraphraser": ("endpoint_model", "", ""),
            "critic": ("critic_model", "critic_url", "critic_key_variable"),
        }
        setting, *more = own[use]
        url, variable = (
            (name and getattr(s, name)) or getattr(s, shared)
            for name, shared in zip(more, ("endpoint_url", "endpoint_key_variable"), strict=True)
        )
        model = getattr(s, setting)
        if not url or not model:
            where = " or ".join(name for name in ("endpoint_url", more[0]) if name)
            raise ParameterError(
                f"{use} is 'endpoint', which needs {where} (such as 'http://localhost:8000/v1') and {setting}; "
                f"{where} is {url!r} and {setting} is {model!r}."
            )
        return Endpoint(url, model, key_variable=variable)

    # -- images and judgements -----------------------------------------------------------------------

    def images(self, kind: str) -> ImageSource:
        """Return images of one of :data:`KINDS`, with a table that says what each belongs to.

        The table has image_id, occupation, prompt, text and, for generated images, prompt_id, index, seed and
        outcome; for training images, and where captions are prompts, caption_id and indicator. An image of a
        caption that names two occupations has a row for each.

        Raises:
            MissingInputError: The corpus has no images.
            UnknownNameError: There is no such kind.
        """
        return self._once(("images", _kind(kind)), lambda: self._images(kind))

    def _images(self, kind: str) -> ImageSource:
        if kind == "training":
            table = self._training_captions().assign(prompt="captions")
            return Described(
                self._training_source(table["caption_id"]), table.assign(image_id=table["caption_id"])
            )
        prompts = self.prompts(kind)
        with self._showing() as shown:
            made = self._generate(prompts.drop_duplicates("prompt_id").reset_index(drop=True), shown)
        return Described(made, made.table.merge(prompts.drop(columns="n_images"), on="prompt_id"))

    def _generate(self, prompts: pd.DataFrame, progress: bool) -> ImageSource:
        s = self.settings
        if self.model == WORLD:
            from biaslab.mini import truthful

            return truthful.generate(prompts, self.corpus.world, seed=self.seed, size=s.size or 64)
        return self.generate_texts(prompts[["prompt_id", "text", "n_images"]], progress=progress)

    def generate_texts(
        self, texts: pd.DataFrame, *, progress: bool, people: bool = False, several: bool = False
    ) -> ImageSource:
        """Return images of texts (columns prompt_id, text, n_images) by the model; see ``generation.generate``.

        Args:
            texts: The prompts.
            progress: Whether a bar is shown.
            people: Whether the prompts say who is shown where, see :func:`people_model`.
            several: Whether they ask for several people, who need a wider image.

        Raises:
            RunError: An endpoint did not deliver images that it may deliver another time.
        """
        s = self.settings
        if self.model.startswith(ENDPOINT):
            from biaslab.generation import image_endpoint

            asked = self._image_endpoint((several and s.pair_image_size) or s.image_size)
            made = image_endpoint.generate(texts, asked, seed=self.seed, store=self.store, progress=progress)
            image_endpoint.check_delivered(made)
            return made
        from biaslab import generation

        model = people_model(self.model) if people else self.model
        wanted = self._generation(model, s.pair_aspect if several else 1.0, people=people)
        return generation.generate(texts, wanted, seed=self.seed, store=self.store, progress=progress)

    def _image_endpoint(self, size: str = ""):
        """Return how the model behind an images endpoint is asked, for images of a size; empty is its own.

        Raises:
            ParameterError: The settings do not name the endpoint, or hold what cannot be used.
        """
        from biaslab.generation.image_endpoint import ImageEndpointSettings

        s = self.settings
        if not s.endpoint_url:
            raise ParameterError(
                f"model is {self.model!r}, which needs endpoint_url, such as 'https://api.openai.com/v1'; it is empty."
            )
        return ImageEndpointSettings(
            model=self.model,
            url=s.endpoint_url,
            key_variable=s.endpoint_key_variable,
            size=size,
            quality=s.image_quality,
            style=s.image_style,
            options=s.image_options,
            price=s.image_price if s.image_price >= 0 else None,
            cost_limit=s.image_cost_limit,
            allow=s.image_hosts,
        )

    @cached_property
    def people(self) -> People:
        """The stages for pictures of people whom the prompt places (paired paper)."""
        from biaslab.pipeline_people import People

        return People(self)

    def _generation(self, model: str = "", aspect: float = 1.0, *, people: bool = False):
        from biaslab.generation import GenerationSettings

        s = self.settings
        guidance = people_guidance(s.pair_guidance_scale, s.guidance_scale) if people else s.guidance_scale
        return GenerationSettings(
            aspect=aspect,
            model=model or self.model,
            steps=s.steps,
            guidance_scale=guidance,
            scheduler=s.scheduler,
            negative_prompt=s.negative_prompt,
            height=s.size,
            width=s.size if aspect == 1 else 0,
            dtype=s.dtype,
            device=s.device,
            batch_size=s.batch_size,
            safety_checker=s.safety_checker,
            compile=s.compile,
        )

    def judgements(self, kind: str) -> pd.DataFrame:
        """Return what gate and judge made of images of a kind: the rows of its table with the judge's columns.

        Columns as in ``images(kind).table`` and :func:`biaslab.judging.judge.judge`: outcome (``judged`` or a
        labelled reason), gender, p_female, n_faces, x0, y0, x1, y1, ….

        Raises:
            MissingInputError: The corpus has no images, or a model's file is not there.
            UnknownNameError: There is no such kind.
        """
        return self._once(("judgements", _kind(kind)), lambda: self._judgements(kind)).copy()

    def _judgements(self, kind: str) -> pd.DataFrame:
        images = self.images(kind)
        judged = self.judged(images.source)
        table = images.table.drop(columns="outcome", errors="ignore")
        return table.merge(judged, on="image_id", how="left", validate="many_to_one")

    def judged(self, images: ImageSource) -> pd.DataFrame:
        """Return what gate and judge make of all images of a source, as :func:`biaslab.judging.judge.judge`."""
        with self._showing() as shown:
            return self._judge(images, shown)

    def _judge(self, images: ImageSource, progress: bool) -> pd.DataFrame:
        from biaslab.judging.judge import judge

        return judge(images, self._judging(), store=self.store, progress=progress)

    def _judging(self):
        from biaslab.judging.judge import JudgeSettings

        s = self.settings
        return JudgeSettings(
            faces=s.faces, gender=s.gender, threshold=s.threshold, min_face=s.min_face, device=s.device
        )

    def _training_captions(self) -> pd.DataFrame:
        """Return the captions whose images are judged: the sample, and the nearest where they are asked for."""
        import numpy as np

        captions = self.captions()
        wanted = captions["rank"] <= self.settings.captions_per_occupation
        if self._asks_for_nearest:
            chosen = self.selections()
            pairs = set(zip(chosen["caption_id"], chosen["occupation"], strict=True))
            both = zip(captions["caption_id"], captions["occupation"], strict=True)
            wanted = wanted.to_numpy() | np.array([pair in pairs for pair in both], dtype=bool)
        return captions[wanted].reset_index(drop=True)

    def _training_source(self, caption_ids: Iterable[str]) -> ImageSource:
        ids = list(dict.fromkeys(caption_ids))
        if self.settings.training_images == DOWNLOAD:
            from biaslab.captions.downloads import DownloadedImages

            found = self.downloads().set_index("caption_id", drop=False).loc[ids]
            return DownloadedImages(self._downloads_folder, found)
        if self.settings.training_images:
            return CaptionFiles(self.settings.training_images, ids)
        if self.corpus.images is None:
            raise MissingInputError(self.no_images)
        return Some(self.corpus.images, ids)

    def downloads(self) -> pd.DataFrame:
        """Return what became of the URLs behind the training images, which are fetched when this is first asked for.

        One row per caption of ``images("training")``; columns as :func:`biaslab.captions.downloads.download`.

        Raises:
            MissingInputError: Images are not fetched by URL, or the corpus has no URLs.
            RunError: There is no network, or the disk is full.
        """
        return self._once("downloads", self._downloads).copy()

    def _downloads(self) -> pd.DataFrame:
        if self.settings.training_images != DOWNLOAD:
            raise MissingInputError(
                f"No images are fetched: training_images is {self.settings.training_images!r}; set it to {DOWNLOAD!r}."
            )
        captions = self._training_captions()
        if "url" not in captions.columns:
            self.check_urls()
            captions["url"] = ""  # None names an occupation.
        return self._download(captions[["caption_id", "url"]].drop_duplicates("caption_id"))

    def _download(self, images: pd.DataFrame, **more: Any) -> pd.DataFrame:
        from biaslab.captions.downloads import download

        with self._showing() as shown:
            return download(images, self._downloads_folder, self._downloading(), progress=shown, **more)

    def _downloading(self):
        from biaslab.captions.downloads import DownloadSettings

        s = self.settings
        return DownloadSettings(
            size=s.download_size, concurrency=s.download_concurrency, opt_out=s.download_opt_out
        )

    @property
    def _downloads_folder(self) -> Path:
        """Where fetched images are kept, for every corpus alike."""
        return self.store.root / "downloads" / self._downloading().digest

    def check_urls(self) -> None:
        """Look whether the corpus has URLs and the settings for fetching them can be used, without fetching any.

        Raises:
            MissingInputError: It has none.
            ParameterError: A setting is not allowed.
        """
        self._downloading()
        with contextlib.closing(self.corpus.batches(1)) as batches:
            first = next(batches, None)
        if first is not None and "url" not in first.columns:
            raise MissingInputError(
                f"training_images is {DOWNLOAD!r}, but the corpus {self.corpus.name!r} has no column that is known to "
                "hold URLs. Name it with columns, for example columns={'url': 'LINK'}."
            )

    # -- embeddings ----------------------------------------------------------------------------------

    def image_embeddings(self, kind: str, image_ids: Iterable[str]) -> pd.DataFrame:
        """Return CLIP's embeddings of images, made by the model that judges gender.

        Returns:
            Columns image_id and vector (``float32``, of length 1; None where the image cannot be read).

        Raises:
            MissingInputError: Gender is not judged by an open_clip model, or there are no images.
            UnknownNameError: There is no such kind.
        """
        import pandas as pd

        if self.settings.gender.startswith((*FILES, VQA)):
            raise MissingInputError(
                f"Similarity of images takes an open_clip model; gender is {self.settings.gender!r}."
            )
        source = self.images(kind).source
        units = pd.DataFrame({"image_id": list(dict.fromkeys(image_ids))}, dtype=object)
        name = self.settings.gender
        inputs = {"images": source.digest, "model": name, "weights": _files_digest(name, "clip")}
        device = self.settings.device
        stage = self.store.stage("image_embeddings", inputs, partial(_embed_images, source, name, device))
        # Generated images are a source that may have to generate, which stays in this process.
        engine = self._engine if kind == "training" else None
        return self.computed(
            stage,
            units,
            _SHARD_EMBEDDINGS,
            f"embedding {source.name}",
            "images",
            engine=engine,
            gpu=device != "cpu",
        )

    # -- how stages run ------------------------------------------------------------------------------

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    @cached_property
    def _engine(self):
        from biaslab import engine

        s = self.settings
        return engine.get(s.engine, workers=s.workers, address=s.engine_address)

    def computed(self, stage, units, shard_rows: int, label: str, unit: str, **more) -> pd.DataFrame:
        """Return the table of a stage, by this pipeline's engine and with its progress shown."""
        more = {"engine": self._engine} | more
        with self._showing() as shown:
            return stage.compute(units, shard_rows=shard_rows, label=label, unit=unit, progress=shown, **more)

    @contextlib.contextmanager
    def _showing(self) -> Iterator[bool]:
        """Send progress bars to the file that a run watches, where there is one; say whether to show any."""
        if self.progress_file is None:
            yield self.progress
            return
        try:
            with contextlib.redirect_stderr(_BarFile(self.progress_file, sys.stderr)):
                yield self.progress
        finally:
            self.progress_file.unlink(missing_ok=True)


_NEAREST = ("nearest", "nearest_no_indicators")
_SELECTION_COLUMNS = ["approach", "prompt", "occupation", "caption_id", "rank", "cosine"]
_PROMPT_COLUMNS = ["prompt_id", "approach", "occupation", "prompt", "text", "n_images"]
# More captions than any occupation has.
_ALL = 10**12


class _BarFile(io.TextIOBase):
    """Standard error, but for progress bars: of them, a file holds the latest."""

    def __init__(self, path: Path, rest: TextIO) -> None:
        self._path = path
        self._rest = rest

    def write(self, text: str) -> int:
        """Take what a program writes; a bar draws itself again after each carriage return."""
        line = text.replace("\x1b[A", "").strip("\r\n ")
        if "\r" not in text:
            return self._rest.write(text)
        if line:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(line, encoding="utf-8")
        return len(text)

    def flush(self) -> None:
        """Flush what is no bar."""
        self._rest.flush()


class Described:
    """A source of images with a table that says what each image belongs to.

    Args:
        source: Where the images come from.
        table: One row per image and what it belongs to, with ``image_id``.
    """

    def __init__(self, source: ImageSource, table: pd.DataFrame) -> None:
        self.source = source
        self.name, self.digest = source.name, source.digest
        self.table = table

    def read(self, image_ids: Sequence[str]) -> list[np.ndarray | Unreadable]:
        """Return the images in the order asked for."""
        return self.source.read(image_ids)


class Some:
    """Some images of a source that may have very many.

    Args:
        source: Where the images come from; its own table is not looked at.
        image_ids: Which images, each once.
    """

    def __init__(self, source: ImageSource, image_ids: Sequence[str]) -> None:
        import pandas as pd

        self.name, self.digest = f"training images of {source.name}", source.digest
        self.table = pd.DataFrame({"image_id": list(image_ids)}, dtype=object)
        self.read = source.read


class CaptionFiles:
    """Training images in a folder, at any depth, each named by its caption's id.

    Args:
        folder: The folder.
        caption_ids: The captions, each once; one without a file is :class:`Unreadable` (``missing``).

    Raises:
        InputError: There is no such folder, or it holds no image.
    """

    def __init__(self, folder: str, caption_ids: Sequence[str]) -> None:
        import pandas as pd

        from biaslab.judging.images import FolderImages

        self._files = FolderImages(folder)
        self._of = {Path(image_id).stem: image_id for image_id in self._files.table["image_id"]}
        self.name, self.digest = self._files.name, self._files.digest
        self.table = pd.DataFrame({"image_id": list(caption_ids)}, dtype=object)

    def read(self, image_ids: Sequence[str]) -> list[np.ndarray | Unreadable]:
        """Return the images of captions in the order asked for."""
        from biaslab.judging.images import Unreadable

        there = [i for i in image_ids if i in self._of]
        read = dict(zip(there, self._files.read([self._of[i] for i in there]), strict=True))
        return [read.get(i, Unreadable("missing")) for i in image_ids]


def _check_found(pipeline: Pipeline, captions: pd.DataFrame, n_corpus: int) -> None:
    """Refuse a corpus of which nothing can be used: without captions, or without any that names an occupation."""
    where, names = f"The corpus {pipeline.corpus.name!r}", pipeline.occupations
    if not n_corpus:
        raise InputError(f"{where} holds no captions; set corpus to one that does.")
    if captions.empty:
        listed = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        raise InputError(
            f"None of the {n_corpus:,} captions of {where[0].lower()}{where[1:]} names one of the {len(names)} "
            f"occupations ({listed}). Set occupations to words that its captions use, or columns to where its captions "
            "are, for example columns={'text': 'TEXT'}."
        )
    _check_ids(captions)


def _check_ids(captions: pd.DataFrame) -> None:
    """Refuse ids that two captions have: whose image such an id names would be anybody's guess."""
    texts = captions[["caption_id", "text"]].drop_duplicates()["caption_id"]
    of_occupations = captions[["caption_id", "occupation"]]
    twice = [
        *texts[texts.duplicated()],
        *of_occupations.loc[of_occupations.duplicated(), "caption_id"],
    ]
    if twice:
        raise InputError(
            f"Two captions of the corpus have the id {twice[0]!r}. Ids must be unique: take caption_id out of columns, "
            "so that they are made of file and row, or map another column to it."
        )


def _kind(kind: str, kinds: Sequence[str] = KINDS) -> str:
    if kind not in kinds:
        raise unknown_name("kind of images", kind, kinds)
    return kind


def _indicate(names: str, captions: pd.DataFrame) -> pd.DataFrame:
    """Return indicator and spans of captions."""
    from biaslab.captions.indicators import indicators

    found = indicators(captions["text"].tolist(), names=names)
    return found[["indicator", "spans"]].reset_index(drop=True)


def _embed_images(source: ImageSource, model: str, device: str, images: pd.DataFrame) -> pd.DataFrame:
    """Return the embeddings of images; None where one cannot be read."""
    import numpy as np
    import pandas as pd

    read = source.read(images["image_id"].tolist())
    there = [i for i, image in enumerate(read) if isinstance(image, np.ndarray)]
    vectors: list = [None] * len(read)
    found = _zero_shot(model, device).image_embeddings([read[i] for i in there])
    for i, vector in zip(there, found, strict=True):
        vectors[i] = vector
    return pd.DataFrame({"image_id": images["image_id"], "vector": vectors})


@lru_cache(maxsize=1)
def _zero_shot(model: str, device: str):
    """Return the model, loaded once in each process."""
    from biaslab.judging.zero_shot import ZeroShot

    return ZeroShot(model, device=device)


def _pairs(filled: pd.DataFrame) -> Iterable[tuple[str, str]]:
    return zip(filled["prompt"], filled["occupation"], strict=True)


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
