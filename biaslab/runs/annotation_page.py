"""A page on which people annotate images: one file that works offline; annotators download their answers as a file.

Questions are data (:mod:`biaslab.judges.annotation_questions`), each about an image or a person in it.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import re
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from biaslab import redact
from biaslab.analyses.ratings import sample
from biaslab.cache.result_cache import check_target, explain_errors
from biaslab.errors import InputError, ParameterError, unknown_name
from biaslab.generation.images import OK
from biaslab.hub.image_folder import IMAGES, MIXED, open_folder
from biaslab.hub.image_sources import FolderImages, ImageSource, UnreadableImage
from biaslab.hub.registry import DRAWINGS
from biaslab.io.plaintext import normalize
from biaslab.judges import annotation_questions
from biaslab.judges.annotation_questions import IMAGE_KEYS, find_questions
from biaslab.judges.questions import PERSON, Question
from biaslab.papers.triplets import nouns
from biaslab.planning.records import ImageRequest
from biaslab.prompts.settings import TripletsDesign
from biaslab.ratings import annotations as annotated
from biaslab.ratings.annotations import SOURCES
from biaslab.report.pages import asset, content_security_policy, environment, is_page, write_page
from biaslab.runs import dry_run, jobs, params, runner
from biaslab.runs.audit import expand_models
from biaslab.runs.compare import find_run
from biaslab.schema import tables
from biaslab.schema.values import check_draws

MAX_BYTES = 200_000_000
"""Bytes of all images of a page; browsers open larger ones slowly or not at all."""
SIDE = 512
"""The longer side of an image on the page in pixels; smaller images are not enlarged."""
# Drawings are encoded without loss; photographs are smaller as JPEG.
_DRAWING, _QUALITY = 128, 90
_ANY = "all"
TRAINING, GENERATED = SOURCES
# Folder names that state a source, in plain letters: any words may precede the source, and words for images may follow.
# "In training" describes the occupation of a person.
_IMAGE_WORDS = (
    r"(?: ?(?:all|copy|data|faces|files|folder|im(?:age|g)s?|old|new|part|photos?|pi(?:cture|c)s?|sets?|split|v))*"
)
_SOURCE_NAMES = {
    TRAINING: re.compile(rf"(?:.*\b(?<!\bin ))?train(?:ings?)?{_IMAGE_WORDS}"),
    GENERATED: re.compile(rf"(?:.* )?generated{_IMAGE_WORDS}"),
}
# The column with the file of an image in a folder; files of annotations do not have it.
FILE = "_file"
LEADING_COLUMNS, OPTIONAL_COLUMNS = (
    ("image_id", "position", "question"),
    ("probability", "model", "source", "occupation", "prompt"),
)
"""Columns of a file of annotations before and after ``annotator`` and ``label``; those after are optional."""


class Page(NamedTuple):
    """An annotation page that was written."""

    path: Path
    images: int  # Images on the page.
    bytes: int  # Size of the page.
    # Images that are not shown, counted by reason: unreadable ones, and files of a folder that must not be shown.
    left_out: dict[str, int]


# The people in the images to annotate (image_id, source, occupation, model, position, phrase; position 0 represents an
# image of no person; prompt, skill, object and noun if known), image sources by source and model, counts of excluded
# images by reason, and the name of the noun tagger.
_Images = tuple[pd.DataFrame, Mapping[tuple[str, str], ImageSource], dict[str, int], str]


def annotate(
    images: str | Path,
    *,
    outputs: str | Path = "outputs",
    n: int = 200,
    seed: int = 0,
    questions: str = "",
    paper: str = "",
    subset: str = "",
    show_faces: bool = False,
    overrides: Sequence[str] = (),
    group_by: str = "",
    output: str | Path | None = None,
) -> Page:
    """Write a page on which people annotate a sample of images, and describe it.

    Annotators answer one question at a time, each annotator in a different order of images. They download a file of
    annotations in long form: :data:`LEADING_COLUMNS`, annotator, label, and the known ones of :data:`OPTIONAL_COLUMNS`.

    Args:
        images: A run's folder, its name below ``outputs``, or a folder of files, each named by its image's id. Files in
            a folder ``training``, at any depth, in any spelling and behind links, are training images. The folder
            that contains a file names its occupation. For ``images:FOLDER``, questions cover each person of an image,
            and the file of annotations is a judge of these people, ``annotations:FILE``.
        questions: Names of built-in questions or YAML files, separated by commas; by default ``perceived gender``.
        n: Images to annotate, spread evenly over sources, models and occupations (paradox paper, A.4: 200).
        paper: The paper whose images of a run are annotated; by default the first paper of the run.
        subset: The subset of that paper's images, such as ``paired``; by default images of one person.
        show_faces: Whether to show training images, too, which show the faces of real people.
        overrides: Parameters of the run to replace, such as ``compute.cache=FOLDER``; saved ones name no folders.
        group_by: The grouping of ``images:FOLDER``, as the setting ``custom.group_by``.
        output: The file; by default ``annotate-<name>.html`` in ``outputs``.

    Raises:
        UnknownNameError: The question, paper or subset is unknown.
        ParameterError: The run or folder does not exist, a number is out of range, a question applies to none of the
            images, or the images take more than :data:`MAX_BYTES`.
        InputError: No image can be shown, annotations of these images could not be read, or the page would name a
            folder of this machine.
        RunError: The disk is full.
    """
    check_draws(seed=seed)
    selected_questions = find_questions(questions)
    is_pattern = str(images).startswith(IMAGES)
    try:
        folder, is_run = find_run(images, Path(outputs)), True
    except ParameterError:
        name = str(images).removeprefix(IMAGES).partition(MIXED)[0] if is_pattern else images
        folder, is_run = Path(name).expanduser(), False
        if not (folder.is_dir() or is_pattern):
            raise
    if paper and not is_run:
        raise ParameterError(f"--paper is {paper!r}, but {folder} is not a run. Remove --paper.")
    if group_by and not is_pattern:
        raise ParameterError(
            f"--group-by is {group_by!r}, which groups existing images. Specify the images as images:FOLDER."
        )
    target = Path(output) if output else Path(outputs) / f"annotate-{folder.resolve().name}.html"
    if is_run:
        subset = subset or ("skills" if any(question.skills for question in selected_questions) else "")
        table, sources, left_out, tagger = _read_run(folder, paper, subset, show_faces, overrides)
    else:
        table, sources, left_out, tagger = _read_folder(folder, show_faces, str(images) if is_pattern else "", group_by)
    table = table.assign(_row=range(len(table)))
    sample_rows = sample.draw(table, n, seed)
    if (table["position"] > 1).any():
        # Questions cover each person in an image.
        sample_rows = sample_rows[[*IMAGE_KEYS, "probability"]].merge(table, on=IMAGE_KEYS)[[*table, "probability"]]
    if any(question.placeholders & {"object", "noun"} for question in selected_questions) and "noun" not in sample_rows:
        sample_rows = annotation_questions.name_objects(sample_rows, nouns.load(tagger).find_nouns)
    private = redact.find_folders(None, folder.resolve(), Path(outputs).absolute())
    page = write(sample_rows, sources, target, seed=seed, private=private, questions=selected_questions)
    return page._replace(left_out={**left_out, **page.left_out})


def write(
    sample_rows: pd.DataFrame,
    sources: Mapping[tuple[str, str], ImageSource],
    target: Path,
    *,
    seed: int,
    private: Iterable[str] = (),
    questions: Sequence[Question] = (),
) -> Page:
    """Write the page of a sample of images; errors are those of :func:`annotate`.

    Args:
        sample_rows: One row per image, or per person in an image: image_id, source, occupation, and if known model
            (empty for training images), position, phrase (the requested person), prompt, skill, object and noun
            (lists of names), and probability.
        sources: The image source for each source and model; the model is empty if ``sample_rows`` has none.
        target: The file.
        seed: Seed of the orders in which annotators see the images.
        private: Texts that the page must not contain: folders of this machine.
        questions: The questions; by default perceived gender.
    """
    check_target(target, partial(is_page, title="Annotate images"), "an annotation page", "--output")
    questions = questions or find_questions()
    defaults = {"model": "", "position": 1, "phrase": PERSON, "prompt": "", "skill": "", "object": None, "noun": None}
    sample_rows = sample_rows.assign(**{name: value for name, value in defaults.items() if name not in sample_rows})
    images = sample_rows.drop_duplicates(IMAGE_KEYS)
    pictures, reasons = _encode_images(images, sources)
    shown_keys = images.loc[[picture is not None for picture in pictures], IMAGE_KEYS]
    if shown_keys.empty:
        explanation = _format_reasons(reasons) or "the sample is empty"
        raise InputError(f"None of {len(pictures)} images can be shown: {explanation}.")
    people = sample_rows.merge(shown_keys.assign(picture=range(len(shown_keys))), on=IMAGE_KEYS)
    items = annotation_questions.ask(people, questions)
    header, *rows = _file_rows(items)
    leaks = {text for text in private if any(text in cell for row in rows for cell in row)}
    if folder := max(leaks, key=len, default=""):
        raise InputError(f"The page would contain {folder}, a folder of this machine. Use image ids without folders.")
    content = {"seed": seed, "header": header, "rows": rows, "pictures": [*filter(None, pictures)]}
    content["kinds"] = [*map(annotation_questions.describe, questions)]
    content["items"] = items[["picture", "kind", "words"]].to_numpy().tolist()
    with explain_errors(
        target, "Nothing was written. To continue, {fix}, or choose another file with --output, and run again."
    ):
        path = write_page(target, render_page(content))
    return Page(path, len(shown_keys), path.stat().st_size, reasons)


def render_page(data: dict[str, Any]) -> str:
    """Return the HTML page of ``pictures`` (URLs), ``kinds`` of questions, and ``items`` (image, kind and words).

    ``rows`` are the items in the file of annotations, with ``header``; consecutive items with one image stay together.
    """
    from jinja2.utils import htmlsafe_json_dumps
    from markupsafe import Markup

    data = data | {"id": hashlib.sha256(json.dumps(data).encode()).hexdigest()[:16]}
    style, script = asset("report.css") + asset("annotation_page.css"), asset("annotation_page.js")
    context = {"n": len(data["pictures"]), "n_questions": len(data["items"]), "data": htmlsafe_json_dumps(data)}
    context["hints"] = [kind for kind in data["kinds"] if kind["hint"]]
    context["policy"] = content_security_policy(style=style, script=script)
    page = environment().get_template("annotation_page.html.j2")
    return page.render(**context, style=Markup(style), script=Markup(script))


def _format_reasons(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{n} {reason}" for reason, n in sorted(reasons.items()))


# -- images to annotate ------------------------------------------------------------------------------------


def _read_folder(folder: Path, show_faces: bool, pattern: str, group_by: str) -> _Images:
    """Return the images of a folder; the images of ``pattern``, an ``images:FOLDER``, with the people in them."""
    images, rows, people = FolderImages(folder), [], None
    left_out = Counter({"a link that leads out of the folder": n} if (n := len(images.links_out)) else {})
    if pattern:
        people = [open_folder(entry.removeprefix(IMAGES), group_by).people for entry in expand_models(pattern)]
        people = pd.concat(people, ignore_index=True).rename(columns={"group": "occupation"})
    names = images.table["image_id"] if people is None else people["image_id"].unique()
    stems = Counter(normalize(Path(name).stem) for name in names)
    for name in names:
        file, parents = folder / name, Path(name).parts[:-1]
        place = file.resolve()
        is_training = TRAINING in (_source(file.absolute(), folder.absolute()), _source(place, folder.resolve()))
        if not show_faces and is_training:
            left_out["a training image, which only --show-faces includes"] += 1
        else:
            occupation = parents[-1] if parents and not _read_source(parents[-1]) else _ANY
            # Files that share a name are identified by their paths.
            label = file.stem if stems[normalize(file.stem)] == 1 else os.path.splitext(name)[0]
            rows.append((label if people is None else name, TRAINING if is_training else GENERATED, occupation, name))
    table = pd.DataFrame(rows, columns=["image_id", "source", "occupation", FILE])
    duplicates = table[table["image_id"].map(normalize).duplicated()]
    if len(duplicates):
        raise InputError(
            f"{folder} contains two images named {duplicates['image_id'].iloc[0]!r} (the second is "
            f"{duplicates[FILE].iloc[0]!r}). Use the image id as the name of each file."
        )
    if table.empty:
        raise InputError(
            f"{folder} contains no image to show ({_format_reasons(left_out)}), because images in a folder "
            f"{TRAINING!r} may show faces of real people. Include them with --show-faces, or put generated images into "
            f"a folder {GENERATED!r}."
        )
    table = table.assign(model="", position=1, prompt="")
    if people is not None:
        table = table[["image_id", "source", FILE]].merge(people, on="image_id")
    sources = {(source, model): images for source in SOURCES for model in {"", *table["model"]}}
    return table.assign(phrase=PERSON), sources, dict(left_out), TripletsDesign().noun_tagger


def _source(file: Path, folder: Path) -> str:
    """Return the source that the folders of a file state; it is in ``folder`` or the target of a link there."""
    inner_parts = file.parent.relative_to(folder).parts if file.is_relative_to(folder) else ()
    sources = [_read_source(part) for part in reversed(file.parent.parts)]
    inner_sources = sources[: len(inner_parts) + 1]
    return TRAINING if TRAINING in inner_sources else next(filter(None, sources), GENERATED)


def _read_source(name: str) -> str:
    """Return the source that a folder's name states, as ``Training`` or ``Trainíng data-2`` do; else empty."""
    letters = unicodedata.normalize("NFKD", normalize(name).casefold())
    letters = "".join(letter for letter in letters if not unicodedata.combining(letter))
    words = " ".join(re.findall("[a-z]+", letters))
    return next((source for source, pattern in _SOURCE_NAMES.items() if pattern.fullmatch(words)), "")


def _read_run(folder: Path, paper: str, subset: str, show_faces: bool, overrides: Sequence[str]) -> _Images:
    """Return the images that a run generated, and the training images of its captions."""
    if not (folder / runner.PARAMS).is_file():
        raise ParameterError(f"{folder} contains no {runner.PARAMS}, so its images cannot be found. Run it again.")
    all_pairs = [(name, kind) for name, head in tables.papers().items() for kind in head.rated.split()]
    if paper and paper not in dict(all_pairs):
        raise unknown_name("paper whose images are annotated", paper, dict(all_pairs))
    of_paper = [(name, kind) for name, kind in all_pairs if paper in ("", name)]
    pairs = [(name, kind) for name, kind in of_paper if subset in ("", kind)]
    if not pairs:
        raise unknown_name("subset of images to annotate", subset, [kind for _, kind in of_paper])
    run_params = params.load(folder / runner.PARAMS, overrides=overrides)
    try:
        run_jobs = jobs.plan(run_params)
    except (InputError, ParameterError) as error:
        if not str(run_params.default("model")).startswith(IMAGES):
            raise
        fix = "The saved parameters of a run do not contain paths of image folders. Add them with --set "
        fix += "model=images:FOLDER"
        raise type(error)(
            f"{error} {fix}, and for baselines with --set 'settings.baselines=[images:FOLDER]'."
        ) from None
    requests = dry_run.image_requests(jobs.pipelines(run_jobs))
    by_pair = ([request for request in requests if (request.paper, request.kind) == pair] for pair in pairs)
    if not (pair_requests := next(filter(None, by_pair), [])):
        paper_names = ", ".join(dict.fromkeys(name for name, _ in pairs))
        raise ParameterError(f"The run {folder.name} generates no images to annotate for {paper_names}.")
    frames, sources = [], {}
    for request in pair_requests:
        # No image is generated or bought for the page.
        dry_run.check_cached(request, folder.name)
        if ("generated", request.model) in sources:
            raise ParameterError(
                f"The run {folder.name} generates the same prompts with {request.model} several times (with other "
                "settings or seeds), so an id refers to several images. Annotate a run without such a list."
            )
        images, table = _read_generated(request)
        frames.append(table.assign(source="generated", model=request.model))
        sources["generated", request.model] = images
    pipeline = pair_requests[0].pipeline
    may_be_shown = show_faces or pipeline.training_domain == DRAWINGS
    if pair_requests[0].prompt_set == "captions" and pipeline.has_images and may_be_shown:
        images = pipeline.images("training")
        texts = images.table[["image_id", "occupation", "text"]].rename(columns={"text": "prompt"})
        frames.append(texts.assign(source="training", model="", position=1, phrase=PERSON))
        sources["training", ""] = images
    return pd.concat(frames, ignore_index=True), sources, {}, pipeline.settings.triplets.noun_tagger


def _read_generated(request: ImageRequest) -> tuple[ImageSource, pd.DataFrame]:
    """Return the images of one kind and model, and the people whom their prompts request, as :data:`_Images`."""
    measure = import_module(tables.module(request.paper, "measure"))
    people, images = measure.people_to_annotate(request.pipeline, request.kind)
    people = people.drop(columns="prompt", errors="ignore").rename(columns={"text": "prompt"})
    people = people.assign(phrase=people.get("phrase", PERSON), position=people.get("position", 1))
    generated_ids = images.table.loc[images.table["status"] == OK, "image_id"]
    columns = ["image_id", "occupation", "prompt", "position", "phrase"]
    columns += [name for name in ("skill", "object", "noun") if name in people]
    return images, people.loc[people["image_id"].isin(generated_ids), columns]


# -- contents of the page ----------------------------------------------------------------------------------


def _encode_images(
    sample_rows: pd.DataFrame, sources: Mapping[tuple[str, str], ImageSource]
) -> tuple[list[str | None], dict[str, int]]:
    """Return the sampled images as ``data:`` URLs, ``None`` for unreadable ones, and counts of these by reason."""
    urls: list[str | None] = [None] * len(sample_rows)
    reasons: Counter[str] = Counter()
    size = 0
    # Read in storage order, so that each shard is read once; one at a time, because an image may be large.
    places = sample_rows.reset_index(drop=True)
    places = places.sort_values("_row") if "_row" in places else places
    for n_done, (place, row) in enumerate(places.iterrows()):
        (image,) = sources[row["source"], row.get("model", "")].read([row.get(FILE, row["image_id"])])
        if isinstance(image, UnreadableImage):
            reasons[image.reason] += 1
            continue
        urls[place] = encode_image(image)
        size += len(urls[place])
        if size > MAX_BYTES:
            raise ParameterError(
                f"The first {n_done + 1} of {len(sample_rows)} images need {size:,} bytes, but the maximum of a page "
                f"is {MAX_BYTES:,}. Annotate fewer images, for example with --sample {max(1, int(0.9 * n_done))}."
            )
    return urls, dict(reasons)


def encode_image(image: np.ndarray) -> str:
    """Return an image (``uint8 (height, width, 3)`` RGB) as a ``data:`` URL, encoded without metadata."""
    from PIL import Image

    picture = Image.fromarray(image)
    picture.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    file, kind = io.BytesIO(), "png" if max(picture.size) <= _DRAWING else "jpeg"
    picture.save(file, kind, **({"optimize": True} if kind == "png" else {"quality": _QUALITY}))
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"


def _file_rows(items: pd.DataFrame) -> list[list[str]]:
    """Return header and rows of the file that annotators will download, without annotator and label."""
    columns = [name for name in OPTIONAL_COLUMNS if name in items and (items[name].astype(str) != "").any()]
    label = np.where(items["question"] == "", "female", "yes")
    with tempfile.TemporaryDirectory() as folder:
        path = tables.write(
            items[[*LEADING_COLUMNS, *columns]].assign(annotator="1", label=label), Path(folder) / "file.csv"
        )
        try:
            labels = {name: ("yes",) if name else ("female",) for name in items["question"].unique()}
            annotated.read(path, labels, required_columns=("source", "occupation"))
        except InputError as error:
            raise InputError(
                f"Annotations of these images could not be read: {str(error).replace(str(path), 'the file')} Rename "
                "the images or their folders."
            ) from None
        with path.open(encoding="utf-8", newline="") as file:
            return [row[:-2] for row in csv.reader(file)]
