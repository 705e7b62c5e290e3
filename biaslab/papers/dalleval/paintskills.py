"""Reader of PaintSkills as its authors distribute it: a folder with scenes, images and boxes of each skill.

``<skill>/scenes/<skill>_<split>.json`` has the scenes, ``<skill>/images/image_<id>.png`` their images and
``<skill>/<skill>_<split>_bounding_boxes.json`` the boxes. The splits are ``train`` and ``val``, the test split.

Source: dalleval paper, section 3.2, and its released data and simulator.
"""

from __future__ import annotations

import codecs
import hashlib
import logging
import re
from pathlib import Path
from typing import Annotated, TypeVar

import numpy as np
import pandas as pd
from pydantic import BaseModel, Field, FiniteFloat, ValidationError

from biaslab.errors import InputError, name_help
from biaslab.io import plaintext, reading
from biaslab.papers.dalleval.prompts import CLASSES, COUNTS, RELATIONS, SKILLS

_log = logging.getLogger(__name__)
# Class names of the simulator, which are in camel case; people have proper names after "Human".
_NAMES = {"bike": "bicycle", "human": "person"}


class _Object(BaseModel):
    shape: str
    relation: str | None = None


class _Scene(BaseModel):
    id: Annotated[str, Field(pattern=r"^[\w.-]{1,100}$")]
    text: Annotated[str, Field(min_length=1, max_length=1000)]
    objects: Annotated[list[_Object], Field(min_length=1)]


class _Scenes(BaseModel):
    data: Annotated[list[_Scene], Field(min_length=1)]


class _Category(BaseModel):
    id: int
    name: str


class _Image(BaseModel):
    id: int
    file_name: str
    width: Annotated[int, Field(gt=0)]
    height: Annotated[int, Field(gt=0)]


class _Box(BaseModel):
    image_id: int
    category_id: int
    bbox: tuple[FiniteFloat, FiniteFloat, FiniteFloat, FiniteFloat]


class _Boxes(BaseModel):
    categories: list[_Category]
    images: list[_Image]
    annotations: list[_Box]


def scenes(folder: str | Path, split: str = "val") -> pd.DataFrame:
    """Return the scenes of a folder's skills, with the columns of :func:`biaslab.papers.dalleval.prompts.skills`.

    ``split`` is ``val`` (the test scenes) or ``train``. ``prompt_id`` is the scene's id; ``template``, which the files
    do not have, is 0.

    Raises InputError if the folder is missing or has no scenes, or a file is invalid: an unknown class, a number
    over 4, an unknown relation or an invalid id.
    """
    root = Path(folder).expanduser()
    paths = {skill: root / skill / "scenes" / f"{skill}_{split}.json" for skill in SKILLS}
    files = {skill: file for skill, file in paths.items() if file.is_file()}
    if not files:
        example = paths["object"].relative_to(root).as_posix()
        raise InputError(
            f"{root} contains no scenes of PaintSkills, such as {example}; specify the folder that contains object, "
            "count and spatial."
        )
    rows = [_scene_row(skill, scene, file) for skill, file in files.items() for scene in _read_json(file, _Scenes).data]
    columns = ["prompt_id", "skill", "template", "text", "object", "n", "relation", "other"]
    table = pd.DataFrame(rows, columns=columns)
    if (is_duplicate := table["prompt_id"].duplicated()).any():
        raise InputError(
            f"{root} contains two scenes with the id {table['prompt_id'][is_duplicate].iloc[0]!r}. Unpack the release "
            "again."
        )
    return table


def boxes(folder: str | Path, requests: pd.DataFrame, split: str = "val") -> pd.DataFrame:
    """Return the boxes in the images of scenes (rows of :func:`scenes`), in the form of a detector without error.

    Returns ``image_id`` (the scene's id), ``label``, ``score`` (1), ``left``, ``top``, ``right``, ``bottom`` (0–1 of
    the image's width and height) and ``p_<class>`` for each class (1 for the label, else 0); no rows of skills without
    a file. Boxes without an area within their image are left out, with a warning that counts them.

    Raises InputError if a file is invalid, or names an unknown class or an image that it does not list.
    """
    root, scene_ids, rows = Path(folder).expanduser(), set(requests["prompt_id"]), []
    for skill in requests["skill"].unique():
        file = root / skill / f"{skill}_{split}_bounding_boxes.json"
        if not file.is_file():
            continue
        boxes_file, hidden = _read_json(file, _Boxes), []
        names = {entry.id: _class_name(entry.name, file) for entry in boxes_file.categories}
        images = {entry.id: entry for entry in boxes_file.images}
        for entry in boxes_file.annotations:
            if entry.image_id not in images or entry.category_id not in names:
                raise InputError(f"{file} contains a box of an image or a class that it does not list: {entry!r}.")
            image, (left, top, width, height) = images[entry.image_id], entry.bbox
            sides = np.array([left, top, left + width, top + height]) / ([image.width, image.height] * 2)
            left, top, right, bottom = np.clip(sides, 0, 1)
            # The simulator writes such boxes for objects that are hidden or out of the frame.
            if not (left < right and top < bottom):
                hidden.append(f"{entry.bbox} in {image.file_name}")
            elif (scene := Path(image.file_name).stem.removeprefix("image_")) in scene_ids:
                rows.append((scene, names[entry.category_id], 1.0, left, top, right, bottom))
        if hidden:
            _log.warning(
                "%s: boxes excluded because they have no area within their image: %d, such as %s (left, top, width, "
                "height).",
                *(file, len(hidden), hidden[0]),
            )
    table = pd.DataFrame(rows, columns=["image_id", "label", "score", "left", "top", "right", "bottom"])
    return table.assign(**{f"p_{name}": (table["label"] == name).astype(float) for name in CLASSES})


def digest(folder: str | Path) -> str:
    """Return a digest of a folder's files of scenes and boxes, by their content."""
    hasher = hashlib.sha256()
    for skill in SKILLS:
        for name in (f"scenes/{skill}_val.json", f"{skill}_val_bounding_boxes.json"):
            if (file := Path(folder).expanduser() / skill / name).is_file():
                with file.open("rb") as data:
                    hasher.update(f"{name}\0{hashlib.file_digest(data, 'sha256').hexdigest()}\n".encode())
    return hasher.hexdigest()


_Form = TypeVar("_Form", bound=BaseModel)


def _read_json(file: Path, form: type[_Form]) -> _Form:
    try:
        return form.model_validate_json(reading.content(file).removeprefix(codecs.BOM_UTF8))
    except ValidationError as error:
        detail = error.errors()[0]
        location = ".".join(map(str, detail["loc"]))
        value_note = "" if isinstance(detail["input"], bytes | dict | list) else f" It is {detail['input']!r:.120}."
        raise InputError(
            f"{file} is not a valid file of PaintSkills{f': at {location}' if location else ''}: {detail['msg']}."
            f"{value_note}"
        ) from None


def _scene_row(skill: str, scene: _Scene, file: Path) -> tuple:
    """Return the row of a scene; in a relation the second object is the subject."""
    names = [_class_name(item.shape, file) for item in scene.objects]
    n, relation, first_class = len(names), "", ""
    if skill == "spatial":
        relation = plaintext.name(scene.objects[-1].relation or "").removesuffix("_0")
        is_valid, first_class, n = n == 2 and relation in RELATIONS, names[0], 1
    else:
        is_valid = len(set(names)) == 1 and n in ((1,) if skill == "object" else COUNTS)
    if not is_valid:
        requirements = {
            "object": "one object",
            "count": f"1 to {max(COUNTS)} objects of one class",
            "spatial": f"two objects, the second with the relation {' or '.join(f'{r}_0' for r in RELATIONS)}",
        }
        raise InputError(
            f"{file}: the scene {scene.id} of the skill {skill} has the objects {', '.join(names[:3])} "
            f"({len(names):,}; the relation of the last is {scene.objects[-1].relation!r:.60}). It must have "
            f"{requirements[skill]}."
        )
    return (scene.id, skill, 0, scene.text, names[-1], n, relation, first_class)


def _class_name(shape: str, file: Path) -> str:
    words = re.sub(r"(?<!^)([A-Z])", r" \1", plaintext.name(shape)).lower()
    name = _NAMES.get(words.partition(" ")[0], words)
    if name not in CLASSES:
        raise InputError(f"{file} contains the class {shape!r:.60}. {name_help(name[:60], CLASSES)}")
    return name


_REQUEST_COLUMNS = ["text", "object", "n", "relation", "other"]


def swap_prompts(sample: pd.DataFrame, scenes: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Return scenes in which every other image has the prompt of another scene, and the failure of each.

    ``sample`` has some rows of :func:`scenes`, in random order, and ``scenes`` all. Returns ``sample``, in which
    ``prompt_id`` names the image and the other columns the prompt. ``truth_failure`` is empty, ``other class``, ``other
    number`` or ``other relation``. ``truth_n`` is the number of objects of the prompted class in the image.
    """
    out = sample.reset_index(drop=True).assign(truth_failure="", truth_n=lambda table: table["n"])
    by_skill = dict(list(scenes.groupby("skill")))
    for k in range(0, len(out), 2):
        scene = out.loc[k].copy()
        candidates = by_skill[scene["skill"]]
        is_other_class = ~candidates["object"].isin([scene["object"], scene["other"]]) & (
            candidates["other"] != scene["object"]
        )
        is_match, failure = _match_other(candidates, scene)
        nearby, distant = np.flatnonzero(is_match), np.flatnonzero(is_other_class)
        if len(nearby) and (k % 4 or not len(distant)):
            out.loc[k, _REQUEST_COLUMNS] = candidates.iloc[rng.choice(nearby)][_REQUEST_COLUMNS]
            out.loc[k, "truth_failure"] = failure
        elif len(distant):
            out.loc[k, _REQUEST_COLUMNS] = candidates.iloc[rng.choice(distant)][_REQUEST_COLUMNS]
            out.loc[k, ["truth_failure", "truth_n"]] = "other class", 0
    return out


def _match_other(scenes: pd.DataFrame, scene: pd.Series) -> tuple[pd.Series, str]:
    """Return a mask of scenes with the classes of ``scene`` and another number or relation, and the kind of failure."""
    has_same_classes = (scenes["object"] == scene["object"]) & (scenes["other"] == scene["other"])
    if scene["skill"] == "count":
        return has_same_classes & (scenes["n"] != scene["n"]), "other number"
    if scene["skill"] == "spatial":
        # For two objects of one class, only the axis of the relation is defined.
        axis = scenes["relation"].isin(("left", "right")) != (scene["relation"] in ("left", "right"))
        differs = axis if scene["object"] == scene["other"] else scenes["relation"] != scene["relation"]
        return has_same_classes & differs, "other relation"
    return has_same_classes & False, ""
