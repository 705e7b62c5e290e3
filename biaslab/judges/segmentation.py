"""Instances of objects in images: labels, scores, boxes and masks (triplets paper, section 5.1).

They are detected by models or read from a file; tables have the columns of :mod:`biaslab.metrics.instances`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from biaslab.cache.result_cache import ResultCache
from biaslab.errors import InputError, ParameterError
from biaslab.hub import model_files
from biaslab.hub import registry as hub
from biaslab.hub.image_sources import ImageSource
from biaslab.hub.model_files import ModelFiles
from biaslab.io import cells, delimited
from biaslab.io.plaintext import casefold_name
from biaslab.judges import instance_models, people
from biaslab.judges.instance_models import GROUNDED, NONE, PARTS
from biaslab.judges.judge import FileJudge, HubJudge, Judge, JudgeOptions
from biaslab.metrics.instances import BOX, COLUMNS, check_runs, encode

_log = logging.getLogger(__name__)
# The suffixes of files of instances.
_INSTANCES = (".csv", ".parquet", ".pq")
_SHARD_ROWS = 512
_STATUSES = ("image_id", "status", "reason")
_MOST_PIXELS = 2**26
_HELP = f"Instances need image_id, object, score, {', '.join(BOX)}, and for masks rle, height and width."


class Instances(NamedTuple):
    """Instances, and the statuses of the images."""

    objects: pd.DataFrame
    """One row per instance, best first in each image: :data:`biaslab.metrics.instances.COLUMNS`."""
    images: pd.DataFrame
    """One row per image: image_id, status (empty if processed; ``unreadable``, ``blocked`` or ``missing``) and
    reason."""


class InstanceJudge(HubJudge):
    """A semantic segmenter of transformers, in a folder, on the hub or provided by a package."""

    kind, task, needs_faces = "segmenter", "segment", False

    def check_kind(self, files: ModelFiles) -> None:
        """Raise ParameterError where a model is not a segmenter."""
        check_transformers(files)

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The labels that a zero-shot tagger scores; errors as of :func:`words`."""
        return words(self.options.vocabulary_file) if self.options.vocabulary_file else ()

    @property
    def inputs(self) -> dict[str, Any]:
        """Everything that instances depend on in addition to the images."""
        thresholds = self.options.thresholds.model_dump(mode="json")
        return super().inputs | {"thresholds": thresholds, "vocabulary": list(self.vocabulary)}

    def load(self) -> instance_models.Segmenter | instance_models.Grounded:
        """Return the model."""
        return instance_models.Segmenter(self.name, self.options.thresholds, device=self.options.device)

    def segment(self, images: Sequence[np.ndarray]) -> list[list[instance_models.Instance]]:
        """Return the instances of each image; InputError where a number is not finite."""
        return self.model.segment(images)


class GroundedJudge(InstanceJudge):
    """``grounded:TAGGER+DETECTOR+SEGMENTER`` (:class:`biaslab.judges.instance_models.Grounded`)."""

    prefix = GROUNDED

    @property
    def parts(self) -> tuple[str, str, str]:
        """The names of tagger, detector and segmenter; ParameterError for any other number of names."""
        names = self.argument.split("+")
        if len(names) != len(PARTS) or not all(names):
            example = self.prefix + "+".join(hub.HUB[kind][0] for kind in PARTS)
            raise ParameterError(
                f"triplets.objects is {self.name!r}; use {self.prefix}TAGGER+DETECTOR+SEGMENTER, such as {example}. "
                f"For boxes without masks, SEGMENTER is {NONE!r}."
            )
        return names[0], names[1], names[2]

    @property
    def _judges(self) -> list[_Part]:
        names_and_kinds = zip(self.parts, PARTS, strict=True)
        return [_Part(name, kind) for name, kind in names_and_kinds if name != NONE]

    @property
    def domain(self) -> str:
        """The images for which all parts are suitable. Raises ParameterError where the parts differ."""
        domains = {part.domain for part in self._judges} - {hub.ANY}
        if len(domains) > 1:
            raise ParameterError(
                f"{self.name} combines models for drawings and for photographs. Use models for one domain."
            )
        return next(iter(domains), hub.ANY)

    def files(self) -> list[ModelFiles]:
        """Return the files of all parts."""
        return [files for part in self._judges for files in part.files()]

    def digest(self) -> str:
        """Return a digest of the weights of all parts."""
        return " ".join(part.digest() for part in self._judges)

    def load(self) -> instance_models.Grounded:
        """Return the three models."""
        return instance_models.Grounded(
            *self.parts, self.options.thresholds, self.vocabulary, device=self.options.device
        )


class _Part(InstanceJudge):
    """A part of :class:`GroundedJudge`; ``kind`` is one of :data:`PARTS`."""

    def __init__(self, name: str, kind: str) -> None:
        super().__init__(name)
        self.kind = kind


class InstanceFile(FileJudge):
    """Instances detected by other software: a CSV or Parquet file (:func:`read`)."""

    domain, needs_faces, needs_images = hub.ANY, False, False

    def files(self) -> list[ModelFiles]:
        """Return nothing. Raises InputError where the file is missing or cannot be read."""
        read(self.name)
        return []

    def digest(self) -> str:
        """Return the SHA-256 of the file; InputError where it is missing."""
        if not self.path.is_file():
            raise InputError(
                f"triplets.objects is {self.name!r}, but there is no such file. Specify a CSV or Parquet file."
            )
        return super().digest()


class GroundTruthObjects(Judge):
    """The objects of images generated from ground truth, without error."""

    prefix, domain, needs_faces, needs_images = "truth", hub.ANY, False, False


def instance_judge(name: str, options: JudgeOptions | None = None) -> InstanceFile | InstanceJudge:
    """Return the judge of a name without a prefix: a file of instances, or a segmenter."""
    return (InstanceFile if name.lower().endswith(_INSTANCES) else InstanceJudge)(name, options)


# Kind of model -> the mappings of transformers (model_type to class, later ones take precedence) that contain it, its
# name in errors, and additional model types that were saved as another class.
_MAPPINGS: dict[str, tuple[tuple[str, ...], str, tuple[str, ...]]] = {
    "segmenter": (("UNIVERSAL_SEGMENTATION", "SEMANTIC_SEGMENTATION"), "segmenter", ()),
    "masks": (("MASK_GENERATION",), "segmenter with box prompts", ()),
    "grounding": (("ZERO_SHOT_OBJECT_DETECTION",), "detector with word prompts", ()),
    "tagger": (("ZERO_SHOT_IMAGE_CLASSIFICATION",), "tagger", ("florence2",)),
}


def check_transformers(files: ModelFiles) -> None:
    """Raise ParameterError where the configuration of a model is of another kind than its ``kind``."""
    from transformers.models.auto import modeling_auto as auto

    kind = files.kind
    mappings, description, model_types = _MAPPINGS[kind]
    models: Mapping | set = {}
    for name in mappings:
        models |= getattr(auto, f"MODEL_FOR_{name}_MAPPING_NAMES")
    if kind == "grounding":
        models = {name: models[name] for name in instance_models.GROUNDING_DINO}
    # Models of these kinds may have been saved as another class.
    models = {*models, *model_types} if kind in ("tagger", "masks") else models
    model_files.check_type(files, models, description, hub.HUB[kind][0])


def find_instances(
    images: ImageSource, judge: InstanceJudge, *, cache: ResultCache, progress: bool = True
) -> Instances:
    """Return the instances of objects in every image of a source's table; earlier results are read from ``cache``.

    Raises ParameterError where a model is unknown, of another kind or cannot be used, or a vocabulary is needed,
    InputError where a file does not fit.
    """
    ids = images.table["image_id"].astype(object)
    if not judge.needs_images:
        return read(judge.name, ids)
    judge = judge.fresh()

    def work(shard: pd.DataFrame) -> pd.DataFrame:
        rows = []
        for batch in people.read_ahead(images, list(shard["image_id"]), judge):
            image_rows, instances_by_image = people.classify_images(*batch, judge.segment)
            for k, row in enumerate(image_rows):
                rows.append({c: row[c] for c in _STATUSES} | {"instance": -1})
                size = {"height": row["image_height"], "width": row["image_width"], "status": "", "reason": ""}
                best_first = sorted(instances_by_image.get(k, []), key=lambda instance: -instance.score)
                for number, instance in enumerate(best_first):
                    rle = "" if instance.mask is None else encode(instance.mask)
                    rows.append(
                        {"image_id": row["image_id"], "instance": number, "object": instance.object, "rle": rle}
                    )
                    rows[-1] |= {"score": instance.score, **dict(zip(BOX, instance.box, strict=True)), **size}
        return pd.DataFrame(rows, columns=[*COLUMNS, "status", "reason"])

    bar = {"label": f"finding objects in {images.name}", "progress": progress}
    stage = cache.stage("instances", {"images": images.digest} | judge.inputs, work)
    units = pd.DataFrame({"image_id": ids.to_numpy()})
    rows = stage.compute(units, shard_rows=_SHARD_ROWS, gpu=judge.options.device != "cpu", **bar)
    rows = rows.reindex(columns=[*COLUMNS, "status", "reason"])
    is_image_row = rows["instance"] == -1
    image_rows = rows.loc[is_image_row, list(_STATUSES)].reset_index(drop=True)
    return Instances(typed_instances(rows[~is_image_row]), image_rows)


def find_true_instances(
    images: ImageSource, instances: Callable, *, cache: ResultCache, progress: bool = True
) -> Instances:
    """Return the instances in images with ground truth; ``instances`` takes images and rows with image_id."""
    units = images.table[["image_id"]].astype(object)
    stage = cache.stage("shown_instances", {"images": images.digest}, partial(instances, images))
    bar = {"label": f"objects of {images.name}", "progress": progress}
    instance_rows = stage.compute(units, shard_rows=_SHARD_ROWS, **bar).reindex(columns=list(COLUMNS))
    return Instances(instance_rows, units.assign(status="", reason=""))


def words(path: str) -> tuple[str, ...]:
    """Return the distinct objects in a file with one per line; InputError where the file is missing, empty or not
    text.
    """
    file = Path(os.path.expanduser(path))
    if not file.is_file():
        raise InputError(f"The vocabulary {path!r} does not exist; specify a text file with one object per line.")
    lines = delimited.lines(file, ends="", strict=True)
    objects = tuple(dict.fromkeys(casefold_name(line) for line in lines if line.strip()))
    if not objects:
        raise InputError(f"The vocabulary {path!r} contains no word; write the name of an object on each line.")
    return objects


def typed_instances(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows of instances with the columns of :data:`biaslab.metrics.instances.COLUMNS`, typed."""
    texts = dict.fromkeys(("image_id", "object", "rle"), object)
    numbers = dict.fromkeys(("score", *BOX, "height", "width"), float)
    return rows[list(COLUMNS)].reset_index(drop=True).astype(texts | numbers | {"instance": int})


# -- a file ------------------------------------------------------------------------------------------------


def read(path: str | Path, image_ids: Iterable[str] | None = None) -> Instances:
    """Read instances detected by other software, such as RAM, Grounding DINO and SAM.

    The file is a table (:mod:`biaslab.io.cells`) with one row per instance: image_id, object, score (0–1), left, top,
    right, bottom (0–1 of width and height), and with masks rle (COCO's compressed run lengths), height and width. A row
    with image_id alone is an image without instances; images of ``image_ids`` that the file lacks are ``missing``.
    Equal rows count once.

    Raises InputError where the file is missing, lacks a column, names an unknown image, or has an invalid value.
    """
    InstanceFile(str(path)).digest()
    path, columns = cells.file_path(path), set(COLUMNS)
    table, _ = cells.load(path, columns)
    has_masks = "rle" in table
    required_columns = ["image_id", "object", "score", *BOX, *(("height", "width") if has_masks else ())]
    cells.require(table, required_columns, path, _HELP, columns)
    ids = None if image_ids is None else list(image_ids)
    table["image_id"] = cells.image_ids(table["image_id"], ids or ())
    if ids is not None:
        is_unknown = ~table["image_id"].isin(set(ids))
        problem = f"image {{}} is not one of the {len(ids):,} images of this run"
        fix = f"remove its rows; an example of an id is {ids[0] if ids else ''!r}"
        cells.refuse(is_unknown, path, problem, fix, table["image_id"])
    table["object"] = table["object"].map(casefold_name)
    if not has_masks:
        table = table.assign(rle="", height="", width="")
    table["rle"] = cells.image_ids(table["rle"])
    instances = table[table["object"] != ""].copy()
    is_unnamed = (table["object"] == "") & (table[["score", *BOX]] != "").any(axis=1)
    fix = "enter the object, or leave all cells but image_id empty"
    cells.refuse(is_unnamed, path, "object is empty, but the row has a score or a box", fix)
    for column in ("score", *BOX):
        values = cells.numbers(instances[column], path)
        is_invalid = ~((values >= 0) & (values <= 1))
        fix = "enter a number from 0 to 1" + (", a fraction of the image's width or height" if column in BOX else "")
        cells.refuse(is_invalid, path, f"{column} is {{}}", fix, instances[column])
        instances[column] = values
    for low, high in (BOX[::2], BOX[1::2]):
        problem, fix = f"{low} is {{}}, which is not below {high}", f"correct {low} or {high}"
        cells.refuse(instances[low] >= instances[high], path, problem, fix, instances[low])
    _check_masks(instances, path)
    is_duplicate = instances.duplicated(["image_id", "object", *BOX, "rle"])
    if is_duplicate.any():
        _log.warning("%s: duplicate instances that are ignored: %d.", path, int(is_duplicate.sum()))
    instances = instances[~is_duplicate].sort_values("score", ascending=False, kind="stable")
    ids = list(dict.fromkeys(table["image_id"])) if ids is None else ids
    place = {image_id: k for k, image_id in enumerate(ids)}
    instances = instances.sort_values("image_id", key=lambda ids: ids.map(place), kind="stable")
    instances["instance"] = instances.groupby("image_id").cumcount()
    image_rows = pd.DataFrame({"image_id": ids, "status": "", "reason": ""}, dtype=object)
    missing = ~image_rows["image_id"].isin(table["image_id"])
    image_rows.loc[missing, ["status", "reason"]] = ["missing", "not in the file"]
    return Instances(typed_instances(instances), image_rows)


def _check_masks(instances: pd.DataFrame, path: Path) -> None:
    has_mask = instances["rle"] != ""
    for side in ("height", "width"):
        sizes = cells.numbers(instances[side], path, whole=True)
        is_invalid = has_mask & ~((sizes >= 1) & (sizes % 1 == 0) & (sizes <= _MOST_PIXELS))
        cells.refuse(
            is_invalid,
            path,
            f"{side} is {{}} in a row with a mask",
            "enter the size of the mask in pixels",
            instances[side],
        )
        instances[side] = sizes
    masks = instances[has_mask]
    first_sizes = masks.groupby("image_id")[["height", "width"]].transform("first")
    differs = (masks[["height", "width"]] != first_sizes).any(axis=1)
    problem = "a mask of image {} differs in size from the first"
    cells.refuse(differs, path, problem, "all masks of an image must have its size", masks["image_id"])
    problems = [check_runs(r.rle, int(r.height), int(r.width)) for r in masks.itertuples()]
    is_invalid = pd.Series(problems, index=masks.index, dtype=object) != ""
    problem = next(filter(None, problems), "")
    cells.refuse(is_invalid, path, f"rle is not valid: {problem}", "encode the mask again")
