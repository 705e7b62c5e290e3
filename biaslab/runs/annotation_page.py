"""A page on which people annotate images: offline, in one file; their answers come back as a file of annotations.

Questions are data (:mod:`biaslab.judges.annotation_questions`), each about an image or a person in one.
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
from biaslab.runs.audit import each_model
from biaslab.runs.compare import find_run
from biaslab.schema import tables
from biaslab.schema.values import check_draws

MOST_BYTES = 200_000_000
"""Bytes of all images of a page; browsers open larger ones slowly or not at all."""
SIDE = 512
"""The longer side of an image on the page in pixels; smaller images are not enlarged."""
# Drawings are kept as they are; photographs are smaller as JPEG.
_DRAWING, _QUALITY = 128, 90
_ANY = "all"
TRAINING, GENERATED = SOURCES
# The name of a folder of a source, in plain letters: any words may precede the source, and words for images follow it.
# Who is "in training" has an occupation.
_OF_IMAGES = (
    r"(?: ?(?:all|copy|data|faces|files|folder|im(?:age|g)s?|old|new|part|photos?|pi(?:cture|c)s?|sets?|split|v))*"
)
_SOURCE_NAMES = {
    TRAINING: re.compile(rf"(?:.*\b(?<!\bin ))?train(?:ings?)?{_OF_IMAGES}"),
    GENERATED: re.compile(rf"(?:.* )?generated{_OF_IMAGES}"),
}
# The column with an image's file in a folder; a file of annotations does not have it.
FILE = "_file"
BEFORE, AFTER = ("image_id", "position", "question"), ("probability", "model", "source", "occupation", "prompt")
"""Columns of a file of annotations before and after ``annotator`` and ``label``; those after it where known."""


class Page(NamedTuple):
    """An annotation page that was written."""

    path: Path
    images: int  # Images on the page.
    bytes: int  # Size of the page.
    # Images that are not shown, counted by reason: drawn ones that cannot be, and those of a folder that must not.
    left_out: dict[str, int]


# The people in the images to annotate (image_id, source, occupation, model, position, phrase; position 0 is of an image
# of no person; prompt, skill, object and noun where known), readers of images by source and model, counts of excluded
# images by reason, and what finds nouns.
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

    Annotators answer one question at a time, in an order of images of their own, and download a file of annotations
    in long form: :data:`BEFORE`, annotator, label, and :data:`AFTER` as far as known.

    Args:
        images: A run's folder, its name below ``outputs``, or a folder of files, each named by its image's id: files in
            a folder ``training``, at any depth, in any spelling and behind links, are training images, and the folder
            right above a file names its occupation. Of ``images:FOLDER`` each person of an image is asked about, and
            what comes back is a judge of them, ``annotations:FILE``.
        questions: Names of built-in questions or YAML files, between commas; by default ``perceived gender``.
        n: Images to annotate, spread evenly over sources, models and occupations (paradox paper, A.4: 200).
        paper: The paper whose images of a run are annotated; by default the first that the run has.
        subset: Which of that paper's images, such as ``paired``; by default those of one person.
        show_faces: Whether to show also training images, whose faces are real people's.
        overrides: Parameters of the run to replace, such as ``compute.cache=FOLDER``: its own name no folders.
        group_by: What the groups of ``images:FOLDER`` are, as the setting ``custom.group_by``.
        output: The file; by default ``annotate-<name>.html`` in ``outputs``.

    Raises:
        UnknownNameError: There is no such question, paper or subset.
        ParameterError: There is no such run or folder, a number is out of its range, a question applies to none of the
            images, or these take more than :data:`MOST_BYTES`.
        InputError: No image can be shown, annotations of these images could not be read, or what the page says of one
            names a folder of a machine.
        RunError: The disk is full.
    """
    check_draws(seed=seed)
    chosen = find_questions(questions)
    described = str(images).startswith(IMAGES)
    try:
        folder, is_run = find_run(images, Path(outputs)), True
    except ParameterError:
        name = str(images).removeprefix(IMAGES).partition(MIXED)[0] if described else images
        folder, is_run = Path(name).expanduser(), False
        if not (folder.is_dir() or described):
            raise
    if paper and not is_run:
        raise ParameterError(f"--paper is {paper!r}, and {folder} is no run; leave it out.")
    if group_by and not described:
        raise ParameterError(f"--group-by is {group_by!r}, which groups existing images: name them as images:FOLDER.")
    target = Path(output) if output else Path(outputs) / f"annotate-{folder.resolve().name}.html"
    if is_run:
        subset = subset or ("skills" if any(one.skills for one in chosen) else "")
        table, sources, left_out, tagger = _of_run(folder, paper, subset, show_faces, overrides)
    else:
        table, sources, left_out, tagger = _of_folder(folder, show_faces, str(images) if described else "", group_by)
    table = table.assign(_row=range(len(table)))
    drawn = sample.draw(table, n, seed)
    if (table["position"] > 1).any():
        # Everybody in an image is asked about.
        drawn = drawn[[*IMAGE_KEYS, "probability"]].merge(table, on=IMAGE_KEYS)[[*table, "probability"]]
    if any(one.placeholders & {"object", "noun"} for one in chosen) and "noun" not in drawn:
        drawn = annotation_questions.name_objects(drawn, nouns.load(tagger).of)
    private = redact.find_folders(None, folder.resolve(), Path(outputs).absolute())
    page = write(drawn, sources, target, seed=seed, private=private, questions=chosen)
    return page._replace(left_out={**left_out, **page.left_out})


def write(
    drawn: pd.DataFrame,
    sources: Mapping[tuple[str, str], ImageSource],
    target: Path,
    *,
    seed: int,
    private: Iterable[str] = (),
    questions: Sequence[Question] = (),
) -> Page:
    """Write the page of a sample of images; errors are those of :func:`annotate`.

    Args:
        drawn: A row for each image, or person in one: image_id, source, occupation, and where known model (empty for
            training images), position, phrase (whom the prompt asks for), prompt, skill, object and noun (lists of
            names), and probability.
        sources: What reads the images of a source and model; the model is empty where ``drawn`` has none.
        target: The file.
        seed: Seed of the annotators' orders.
        private: Texts that the page must not hold: folders of this machine.
        questions: What is asked; by default perceived gender.
    """
    check_target(target, partial(is_page, title="Annotate images"), "annotation page", "--output")
    questions = questions or find_questions()
    given = {"model": "", "position": 1, "phrase": PERSON, "prompt": "", "skill": "", "object": None, "noun": None}
    drawn = drawn.assign(**{name: value for name, value in given.items() if name not in drawn})
    images = drawn.drop_duplicates(IMAGE_KEYS)
    pictures, reasons = _pictures(images, sources)
    shown = images.loc[[picture is not None for picture in pictures], IMAGE_KEYS]
    if shown.empty:
        why = _counted(reasons) or "the sample is empty"
        raise InputError(f"None of {len(pictures)} images can be shown: {why}.")
    people = drawn.merge(shown.assign(picture=range(len(shown))), on=IMAGE_KEYS)
    items = annotation_questions.ask(people, questions)
    header, *rows = _readable(items)
    named = {text for text in private if any(text in cell for row in rows for cell in row)}
    if folder := max(named, key=len, default=""):
        raise InputError(f"The page would name {folder}, a folder of this machine. Give images ids without folders.")
    content = {"seed": seed, "header": header, "rows": rows, "pictures": [*filter(None, pictures)]}
    content["kinds"] = [*map(annotation_questions.describe, questions)]
    content["items"] = items[["picture", "kind", "words"]].to_numpy().tolist()
    with explain_errors(target, "Nothing was written: {fix}, or name another file with --output, and run again."):
        path = write_page(target, rendered(content))
    return Page(path, len(shown), path.stat().st_size, reasons)


def rendered(data: dict[str, Any]) -> str:
    """Return the page of ``pictures`` (URLs), ``kinds`` of questions, and ``items``: image, kind and words of each.

    ``rows`` are the items in the file of annotations, with ``header``; neighbours with one image stay together.
    """
    from jinja2.utils import htmlsafe_json_dumps
    from markupsafe import Markup

    data = data | {"id": hashlib.sha256(json.dumps(data).encode()).hexdigest()[:16]}
    style, script = asset("report.css") + asset("annotation_page.css"), asset("annotation_page.js")
    shown = {"n": len(data["pictures"]), "n_questions": len(data["items"]), "data": htmlsafe_json_dumps(data)}
    shown["hints"] = [kind for kind in data["kinds"] if kind["hint"]]
    shown["policy"] = content_security_policy(style=style, script=script)
    page = environment().get_template("annotation_page.html.j2")
    return page.render(**shown, style=Markup(style), script=Markup(script))


def _counted(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{n} {reason}" for reason, n in sorted(reasons.items()))


# -- images to annotate ------------------------------------------------------------------------------------


def _of_folder(folder: Path, show_faces: bool, described: str, group_by: str) -> _Images:
    """Return the images of a folder; those of ``described``, an ``images:FOLDER``, with the people whom they show."""
    images, rows, people = FolderImages(folder), [], None
    left = Counter({"a link that leads out of the folder": n} if (n := len(images.links_out)) else {})
    if described:
        people = [open_folder(one.removeprefix(IMAGES), group_by).people for one in each_model(described)]
        people = pd.concat(people, ignore_index=True).rename(columns={"group": "occupation"})
    names = images.table["image_id"] if people is None else people["image_id"].unique()
    stems = Counter(normalize(Path(name).stem) for name in names)
    for name in names:
        file, above = folder / name, Path(name).parts[:-1]
        place = file.resolve()
        training = TRAINING in (_source(file.absolute(), folder.absolute()), _source(place, folder.resolve()))
        if not show_faces and training:
            left["a training image, shown with --show-faces alone"] += 1
        else:
            occupation = above[-1] if above and not _read_source(above[-1]) else _ANY
            # Of several of one name each is called by its path.
            called = file.stem if stems[normalize(file.stem)] == 1 else os.path.splitext(name)[0]
            rows.append((called if people is None else name, TRAINING if training else GENERATED, occupation, name))
    table = pd.DataFrame(rows, columns=["image_id", "source", "occupation", FILE])
    twice = table[table["image_id"].map(normalize).duplicated()]
    if len(twice):
        raise InputError(
            f"{folder} holds two images named {twice['image_id'].iloc[0]!r} (again in {twice[FILE].iloc[0]!r}). "
            "Name each file by the id of its image."
        )
    if table.empty:
        raise InputError(
            f"{folder} contains no image to show ({_counted(left)}): images in a folder {TRAINING!r} may show "
            "faces of real people. Show them with --show-faces, or put generated images into a folder "
            f"{GENERATED!r}."
        )
    table = table.assign(model="", position=1, prompt="")
    if people is not None:
        table = table[["image_id", "source", FILE]].merge(people, on="image_id")
    sources = {(source, model): images for source in SOURCES for model in {"", *table["model"]}}
    return table.assign(phrase=PERSON), sources, dict(left), TripletsDesign().noun_tagger


def _source(file: Path, folder: Path) -> str:
    """Return the source that the folders of a file say, which is in ``folder`` or where a link there leads."""
    below = file.parent.relative_to(folder).parts if file.is_relative_to(folder) else ()
    told = [_read_source(part) for part in reversed(file.parent.parts)]
    within = told[: len(below) + 1]
    return TRAINING if TRAINING in within else next(filter(None, told), GENERATED)


def _read_source(name: str) -> str:
    """Return the source that a folder's name says, such as ``Training`` or ``Trainíng data-2``; else empty."""
    letters = unicodedata.normalize("NFKD", normalize(name).casefold())
    letters = "".join(letter for letter in letters if not unicodedata.combining(letter))
    words = " ".join(re.findall("[a-z]+", letters))
    return next((source for source, pattern in _SOURCE_NAMES.items() if pattern.fullmatch(words)), "")


def _of_run(folder: Path, paper: str, subset: str, show_faces: bool, overrides: Sequence[str]) -> _Images:
    """Return images that a run generated, and those behind its captions."""
    if not (folder / runner.PARAMS).is_file():
        raise ParameterError(f"{folder} has no {runner.PARAMS}, so its images cannot be found: run it again.")
    every = [(name, kind) for name, head in tables.papers().items() for kind in head.rated.split()]
    if paper and paper not in dict(every):
        raise unknown_name("paper whose images are annotated", paper, dict(every))
    of_paper = [(name, kind) for name, kind in every if paper in ("", name)]
    pairs = [(name, kind) for name, kind in of_paper if subset in ("", kind)]
    if not pairs:
        raise unknown_name("subset of images to annotate", subset, [kind for _, kind in of_paper])
    loaded = params.load(folder / runner.PARAMS, overrides=overrides)
    try:
        planned = jobs.plan(loaded)
    except (InputError, ParameterError) as error:
        if not str(loaded.default("model")).startswith(IMAGES):
            raise
        fix = "A run's parameters name folders of images without their place: give it with --set model=images:FOLDER"
        raise type(error)(
            f"{error} {fix}, and other folders with --set 'settings.baselines=[images:FOLDER]'."
        ) from None
    requests = dry_run.image_requests(jobs.pipelines(planned))
    by_pair = ([one for one in requests if (one.paper, one.kind) == pair] for pair in pairs)
    if not (chosen := next(filter(None, by_pair), [])):
        listed = ", ".join(dict.fromkeys(name for name, _ in pairs))
        raise ParameterError(f"The run {folder.name} generates no images to annotate for {listed}.")
    frames, read = [], {}
    for one in chosen:
        # None is made, or bought, now.
        dry_run.check_cached(one, folder.name)
        if ("generated", one.model) in read:
            raise ParameterError(
                f"The run {folder.name} asks {one.model} for the same images in several ways (other settings or "
                "seeds), so one id names several images. Annotate a run without such a list."
            )
        images, table = _generated(one)
        frames.append(table.assign(source="generated", model=one.model))
        read["generated", one.model] = images
    pipeline = chosen[0].pipeline
    may_be_shown = show_faces or pipeline.training_domain == DRAWINGS
    if chosen[0].prompt_set == "captions" and pipeline.has_images and may_be_shown:
        images = pipeline.images("training")
        texts = images.table[["image_id", "occupation", "text"]].rename(columns={"text": "prompt"})
        frames.append(texts.assign(source="training", model="", position=1, phrase=PERSON))
        read["training", ""] = images
    return pd.concat(frames, ignore_index=True), read, {}, pipeline.settings.triplets.noun_tagger


def _generated(one: ImageRequest) -> tuple[ImageSource, pd.DataFrame]:
    """Return the images of one kind and model, and the people whom each was to show, as :data:`_Images`."""
    measure = import_module(tables.module(one.paper, "measure"))
    people, images = measure.people_to_annotate(one.pipeline, one.kind)
    people = people.drop(columns="prompt", errors="ignore").rename(columns={"text": "prompt"})
    people = people.assign(phrase=people.get("phrase", PERSON), position=people.get("position", 1))
    made = images.table.loc[images.table["status"] == OK, "image_id"]
    columns = ["image_id", "occupation", "prompt", "position", "phrase"]
    columns += [name for name in ("skill", "object", "noun") if name in people]
    return images, people.loc[people["image_id"].isin(made), columns]


# -- what the page holds -----------------------------------------------------------------------------------


def _pictures(
    drawn: pd.DataFrame, sources: Mapping[tuple[str, str], ImageSource]
) -> tuple[list[str | None], dict[str, int]]:
    """Return the images drawn as ``data:`` URLs, ``None`` where one cannot be shown, and how often for what reason."""
    found: list[str | None] = [None] * len(drawn)
    reasons: Counter[str] = Counter()
    size = 0
    # In the order in which they are kept, so that each shard is read once; one at a time, for one may be large.
    places = drawn.reset_index(drop=True)
    places = places.sort_values("_row") if "_row" in places else places
    for done, (place, row) in enumerate(places.iterrows()):
        (image,) = sources[row["source"], row.get("model", "")].read([row.get(FILE, row["image_id"])])
        if isinstance(image, UnreadableImage):
            reasons[image.reason] += 1
            continue
        found[place] = encoded(image)
        size += len(found[place])
        if size > MOST_BYTES:
            raise ParameterError(
                f"{done + 1} of {len(drawn)} images take {size:,} bytes; a page takes at most {MOST_BYTES:,}. "
                f"Annotate fewer with --sample, such as --sample {max(1, int(0.9 * done))}, or make several pages, "
                "each with its own --seed."
            )
    return found, dict(reasons)


def encoded(image: np.ndarray) -> str:
    """Return an image (``uint8 (height, width, 3)`` RGB) as a ``data:`` URL, encoded again without metadata."""
    from PIL import Image

    picture = Image.fromarray(image)
    picture.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    file, kind = io.BytesIO(), "png" if max(picture.size) <= _DRAWING else "jpeg"
    picture.save(file, kind, **({"optimize": True} if kind == "png" else {"quality": _QUALITY}))
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"


def _readable(items: pd.DataFrame) -> list[list[str]]:
    """Return header and rows of the file that annotators will download, without annotator and label."""
    filled = [name for name in AFTER if name in items and (items[name].astype(str) != "").any()]
    label = np.where(items["question"] == "", "female", "yes")
    with tempfile.TemporaryDirectory() as folder:
        path = tables.write(items[[*BEFORE, *filled]].assign(annotator="1", label=label), Path(folder) / "file.csv")
        try:
            labels = {name: ("yes",) if name else ("female",) for name in items["question"].unique()}
            annotated.read(path, labels, required_columns=("source", "occupation"))
        except InputError as error:
            raise InputError(
                f"Annotations of these images could not be read: {str(error).replace(str(path), 'the file')} Rename "
                "the images, or their folders."
            ) from None
        with path.open(encoding="utf-8", newline="") as file:
            return [row[:-2] for row in csv.reader(file)]
