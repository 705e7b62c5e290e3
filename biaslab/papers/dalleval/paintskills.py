"""PaintSkills as its authors distribute it: a folder with scenes, images and boxes of each skill.

``<skill>/scenes/<skill>_<split>.json`` has the scenes, ``<skill>/images/image_<id>.png`` their images and
``<skill>/<skill>_<split>_bounding_boxes.json`` what is where. The splits are ``train`` and ``val``, the test split.

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
# As the simulator calls them, in one word and with a capital where another begins; people have names.
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
    """Return the scenes of the skills that a folder has, as of :func:`biaslab.papers.dalleval.prompts.skills`.

    ``split`` is ``val`` (the test scenes) or ``train``. ``prompt_id`` is the scene's id; ``template``, which the files
    do not have, is 0.

    Raises InputError: There is no such folder or no scenes in it, or a file cannot be read as scenes: another class, a
    number over 4, a relation or an id that is none.
    """
    where = Path(folder).expanduser()
    by_skill = {skill: where / skill / "scenes" / f"{skill}_{split}.json" for skill in SKILLS}
    there = {skill: file for skill, file in by_skill.items() if file.is_file()}
    if not there:
        example = by_skill["object"].relative_to(where).as_posix()
        raise InputError(
            f"{where} has no scenes of PaintSkills, such as {example}; give the folder that holds object, count and "
            "spatial."
        )
    rows = [_row(skill, one, file) for skill, file in there.items() for one in _read(file, _Scenes).data]
    columns = ["prompt_id", "skill", "template", "text", "object", "n", "relation", "other"]
    found = pd.DataFrame(rows, columns=columns)
    if (twice := found["prompt_id"].duplicated()).any():
        raise InputError(f"{where} has two scenes with the id {found['prompt_id'][twice].iloc[0]!r}.")
    return found


def boxes(folder: str | Path, asked: pd.DataFrame, split: str = "val") -> pd.DataFrame:
    """Return what is where in the images of scenes ``asked`` (as of :func:`scenes`), as by a detector without error.

    Returns ``image_id`` (the scene's id), ``label``, ``score`` (1), ``left``, ``top``, ``right``, ``bottom`` (0–1 of
    the image's width and height) and ``p_<class>`` for each class (1 for the label, else 0); no rows of skills without
    a file. Boxes without an area within their image are left out, with a warning that counts them.

    Raises InputError: A file cannot be read as boxes, or names another class, or an image that it does not list.
    """
    where, wanted, rows = Path(folder).expanduser(), set(asked["prompt_id"]), []
    for skill in asked["skill"].unique():
        file = where / skill / f"{skill}_{split}_bounding_boxes.json"
        if not file.is_file():
            continue
        read, hidden = _read(file, _Boxes), []
        names = {one.id: _class(one.name, file) for one in read.categories}
        images = {one.id: one for one in read.images}
        for one in read.annotations:
            if one.image_id not in images or one.category_id not in names:
                raise InputError(f"{file} has a box of an image or a class that it does not list: {one!r}.")
            image, (left, top, across, down) = images[one.image_id], one.bbox
            sides = np.array([left, top, left + across, top + down]) / ([image.width, image.height] * 2)
            left, top, right, bottom = np.clip(sides, 0, 1)
            # What is hidden or out of the frame has such a box in the simulator's files.
            if not (left < right and top < bottom):
                hidden.append(f"{one.bbox} in {image.file_name}")
            elif (scene := Path(image.file_name).stem.removeprefix("image_")) in wanted:
                rows.append((scene, names[one.category_id], 1.0, left, top, right, bottom))
        if hidden:
            _log.warning(
                "%s: boxes left out, having no area within their image: %d, such as %s (left, top, width, height).",
                *(file, len(hidden), hidden[0]),
            )
    found = pd.DataFrame(rows, columns=["image_id", "label", "score", "left", "top", "right", "bottom"])
    return found.assign(**{f"p_{name}": (found["label"] == name).astype(float) for name in CLASSES})


def digest(folder: str | Path) -> str:
    """Return a digest of a folder's files of scenes and boxes, by their content."""
    whole = hashlib.sha256()
    for skill in SKILLS:
        for name in (f"scenes/{skill}_val.json", f"{skill}_val_bounding_boxes.json"):
            if (file := Path(folder).expanduser() / skill / name).is_file():
                with file.open("rb") as data:
                    whole.update(f"{name}\0{hashlib.file_digest(data, 'sha256').hexdigest()}\n".encode())
    return whole.hexdigest()


_Form = TypeVar("_Form", bound=BaseModel)


def _read(file: Path, form: type[_Form]) -> _Form:
    try:
        return form.model_validate_json(reading.content(file).removeprefix(codecs.BOM_UTF8))
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(map(str, first["loc"]))
        given = "" if isinstance(first["input"], bytes | dict | list) else f" It is {first['input']!r:.120}."
        raise InputError(
            f"{file} is no file of PaintSkills{f': at {at}' if at else ''}: {first['msg']}.{given}"
        ) from None


def _row(skill: str, scene: _Scene, file: Path) -> tuple:
    """Return the row of a scene; of a relation the second object is the one that stands somewhere."""
    names = [_class(one.shape, file) for one in scene.objects]
    n, relation, other = len(names), "", ""
    if skill == "spatial":
        relation = plaintext.name(scene.objects[-1].relation or "").removesuffix("_0")
        fits, other, n = n == 2 and relation in RELATIONS, names[0], 1
    else:
        fits = len(set(names)) == 1 and n in ((1,) if skill == "object" else COUNTS)
    if not fits:
        wanted = {
            "object": "one object",
            "count": f"1 to {max(COUNTS)} objects of one class",
            "spatial": f"two objects, the second with the relation {' or '.join(f'{r}_0' for r in RELATIONS)}",
        }
        raise InputError(
            f"{file}: the scene {scene.id} of the skill {skill} has the objects {', '.join(names[:3])} "
            f"({len(names):,}; the relation of the last is {scene.objects[-1].relation!r:.60}). It must have "
            f"{wanted[skill]}."
        )
    return (scene.id, skill, 0, scene.text, names[-1], n, relation, other)


def _class(shape: str, file: Path) -> str:
    words = re.sub(r"(?<!^)([A-Z])", r" \1", plaintext.name(shape)).lower()
    name = _NAMES.get(words.partition(" ")[0], words)
    if name not in CLASSES:
        raise InputError(f"{file} names the class {shape!r:.60}. {name_help(name[:60], CLASSES)}")
    return name


_ASKED = ["text", "object", "n", "relation", "other"]


def swapped(asked: pd.DataFrame, others: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Return scenes of which every other one is asked for what another scene shows, and how these fail.

    ``asked`` are some of :func:`scenes`, in an order of chance, and ``others`` all. Returns ``asked``, ``prompt_id``
    naming the image and the other columns what is asked for, with ``truth_failure`` (empty, ``other class``, ``other
    number`` or ``other relation``) and ``truth_n`` (how many of the class asked for the image shows).
    """
    out = asked.reset_index(drop=True).assign(truth_failure="", truth_n=lambda of: of["n"])
    of_skill = dict(list(others.groupby("skill")))
    for k in range(0, len(out), 2):
        one = out.loc[k].copy()
        known = of_skill[one["skill"]]
        other_class = ~known["object"].isin([one["object"], one["other"]]) & (known["other"] != one["object"])
        rest, failure = _differs(known, one)
        near, far = np.flatnonzero(rest), np.flatnonzero(other_class)
        if len(near) and (k % 4 or not len(far)):
            out.loc[k, _ASKED] = known.iloc[rng.choice(near)][_ASKED]
            out.loc[k, "truth_failure"] = failure
        elif len(far):
            out.loc[k, _ASKED] = known.iloc[rng.choice(far)][_ASKED]
            out.loc[k, ["truth_failure", "truth_n"]] = "other class", 0
    return out


def _differs(known: pd.DataFrame, one: pd.Series) -> tuple[pd.Series, str]:
    """Return which scenes of a skill have the classes of ``one`` and another number or relation, and which it is."""
    same = (known["object"] == one["object"]) & (known["other"] == one["other"])
    if one["skill"] == "count":
        return same & (known["n"] != one["n"]), "other number"
    if one["skill"] == "spatial":
        # Of two of a class only the axis can be told.
        axis = known["relation"].isin(("left", "right")) != (one["relation"] in ("left", "right"))
        differs = axis if one["object"] == one["other"] else known["relation"] != one["relation"]
        return same & differs, "other relation"
    return same & False, ""
