"""Instances of objects in images: what there is, how sure, where, and which pixels (triplets paper, section 5.1).

They are found by models or read from a file; tables have the columns of :mod:`biaslab.metrics.instances`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from biaslab.cache.result_cache import ResultCache
from biaslab.errors import InputError, MissingInputError
from biaslab.execution.workers import Memoized
from biaslab.hub.image_sources import ImageSource
from biaslab.io import cells, delimited
from biaslab.io.plaintext import casefold_name
from biaslab.judges import grounded_sam, judge, segmenters
from biaslab.judges.judge_names import GROUNDED, files_digest, is_file, parts
from biaslab.judges.settings import Thresholds
from biaslab.metrics.instances import BOX, COLUMNS, check_runs, encode

_log = logging.getLogger(__name__)
_SHARD_ROWS = 512
_OUTCOMES = ("image_id", "status", "reason")
_MOST_PIXELS = 2**26
_NEEDS = f"Instances need image_id, object, score, {', '.join(BOX)}, and where there are masks rle, height and width."


class Instances(NamedTuple):
    """Instances, and what became of the images."""

    objects: pd.DataFrame
    """A row an instance, best first in each image: :data:`biaslab.metrics.instances.COLUMNS`."""
    images: pd.DataFrame
    """A row an image: image_id, outcome (empty where it was looked at; ``unreadable``, ``blocked`` or ``missing``) and
    reason."""


def find_instances(
    images: ImageSource,
    name: str,
    *,
    thresholds: Thresholds | None = None,
    vocabulary: str = "",
    cache: ResultCache,
    device: str = "auto",
    progress: bool = True,
) -> Instances:
    """Find the instances of objects in every image of a source's table.

    ``name`` is a semantic segmenter of transformers (folder, hub name, or one that a package brings),
    ``grounded:TAGGER+DETECTOR+SEGMENTER`` (:class:`biaslab.judges.grounded_sam.Grounded`), or a file (:func:`read`).
    ``vocabulary`` is a file of the objects that a zero-shot tagger is asked about, one a line.

    Raises ParameterError where a model is unknown, of another kind or cannot be used, or a vocabulary is needed,
    InputError where a file does not fit.
    """
    ids = images.table["image_id"].astype(object)
    if is_file(name):
        return read(name, ids)
    thresholds = thresholds or Thresholds()
    weights, asked = files_digest(name, "segmenter"), words(vocabulary) if vocabulary else ()
    ready = Memoized(partial(load, name, thresholds, asked, device=device))

    def work(shard: pd.DataFrame) -> pd.DataFrame:
        rows = []
        for some in judge.read_ahead(images, list(shard["image_id"]), device):
            opened, seen = judge.classify_images(*some, lambda readable: ready().segment(readable))
            for k, row in enumerate(opened):
                rows.append({c: row[c] for c in _OUTCOMES} | {"instance": -1})
                size = {"height": row["image_height"], "width": row["image_width"], "status": "", "reason": ""}
                best_first = sorted(seen.get(k, []), key=lambda instance: -instance.score)
                for number, one in enumerate(best_first):
                    rle = "" if one.mask is None else encode(one.mask)
                    rows.append({"image_id": row["image_id"], "instance": number, "object": one.object, "rle": rle})
                    rows[-1] |= {"score": one.score, **dict(zip(BOX, one.box, strict=True)), **size}
        return pd.DataFrame(rows, columns=[*COLUMNS, "status", "reason"])

    inputs = {
        "images": images.digest,
        "weights": weights,
        "thresholds": thresholds.model_dump(mode="json"),
        "vocabulary": list(asked),
    }
    bar = {"label": f"finding objects in {images.name}", "progress": progress}
    kept = cache.stage("instances", inputs, work).compute(
        pd.DataFrame({"image_id": ids.to_numpy()}), shard_rows=_SHARD_ROWS, gpu=device != "cpu", **bar
    )
    kept = kept.reindex(columns=[*COLUMNS, "status", "reason"])
    of_images = kept["instance"] == -1
    looked = kept.loc[of_images, list(_OUTCOMES)].reset_index(drop=True)
    return Instances(_typed(kept[~of_images]), looked)


def load(
    name: str, thresholds: Thresholds, vocabulary: Sequence[str] = (), *, device: str = "auto"
) -> grounded_sam.Grounded | segmenters.Segmenter:
    """Return the models that ``name`` stands for; arguments and errors as for :func:`find_instances`."""
    if name.startswith(GROUNDED):
        return grounded_sam.Grounded(*parts(name), thresholds, vocabulary, device=device)
    return segmenters.Segmenter(name, thresholds, device=device)


def words(path: str) -> tuple[str, ...]:
    """Return the objects in a file, one a line, each once; MissingInputError where there is no such file, InputError
    where it is no text or holds nothing.
    """
    file = Path(os.path.expanduser(path))
    if not file.is_file():
        raise MissingInputError(f"The vocabulary {path!r} is not there; give a file of text, an object a line.")
    lines = delimited.lines(file, ends="", strict=True)
    found = tuple(dict.fromkeys(casefold_name(line) for line in lines if line.strip()))
    if not found:
        raise InputError(f"The vocabulary {path!r} holds no word; write the name of an object on each line.")
    return found


def _typed(rows: pd.DataFrame) -> pd.DataFrame:
    texts = dict.fromkeys(("image_id", "object", "rle"), object)
    numbers = dict.fromkeys(("score", *BOX, "height", "width"), float)
    return rows[list(COLUMNS)].reset_index(drop=True).astype(texts | numbers | {"instance": int})


# -- a file ------------------------------------------------------------------------------------------------


def read(path: str | Path, image_ids: Iterable[str] | None = None) -> Instances:
    """Read instances that were found elsewhere, such as by RAM, Grounding DINO and SAM.

    A table (:mod:`biaslab.io.cells`) with a row an instance: image_id, object, score (0–1), left, top, right,
    bottom (0–1 of width and height), and where there are masks rle (COCO's compressed run lengths), height and width. A
    row with image_id alone is an image in which nothing was found; one of ``image_ids`` that the file lacks is
    ``missing``. Equal rows count once.

    Raises MissingInputError where there is no such file, InputError where it lacks a column, names an image that there
    is not, or a value does not fit.
    """
    files_digest(str(path), "segmenter")
    path, known = cells.file_path(path), set(COLUMNS)
    table, _ = cells.load(path, known)
    masked = "rle" in table
    needed = ["image_id", "object", "score", *BOX, *(("height", "width") if masked else ())]
    cells.require(table, needed, path, _NEEDS, known)
    ids = None if image_ids is None else list(image_ids)
    table["image_id"] = cells.image_ids(table["image_id"], ids or ())
    if ids is not None:
        strange = ~table["image_id"].isin(set(ids))
        problem = f"image {{}} is none of the {len(ids):,} images of this run"
        fix = f"take its rows out; ids are like {ids[0] if ids else ''!r}"
        cells.refuse(strange, path, problem, fix, table["image_id"])
    table["object"] = table["object"].map(casefold_name)
    if not masked:
        table = table.assign(rle="", height="", width="")
    table["rle"] = cells.image_ids(table["rle"])
    there = table[table["object"] != ""].copy()
    empty = (table["object"] == "") & (table[["score", *BOX]] != "").any(axis=1)
    fix = "name it, or leave the row to image_id"
    cells.refuse(empty, path, "object is empty, but the row has a score or a box", fix)
    for column in ("score", *BOX):
        values = cells.numbers(there[column], path)
        bad = ~((values >= 0) & (values <= 1))
        fix = "give 0 to 1" + (", pixels over the image's width or height" if column in BOX else "")
        cells.refuse(bad, path, f"{column} is {{}}", fix, there[column])
        there[column] = values
    for low, high in (BOX[::2], BOX[1::2]):
        problem, fix = f"{low} is {{}}, not below {high}", f"give {low} below {high}"
        cells.refuse(there[low] >= there[high], path, problem, fix, there[low])
    _check_masks(there, path)
    twice = there.duplicated(["image_id", "object", *BOX, "rle"])
    if twice.any():
        _log.warning("%s: %d instances are duplicates and count once.", path, int(twice.sum()))
    there = there[~twice].sort_values("score", ascending=False, kind="stable")
    ids = list(dict.fromkeys(table["image_id"])) if ids is None else ids
    place = {image_id: k for k, image_id in enumerate(ids)}
    there = there.sort_values("image_id", key=lambda of: of.map(place), kind="stable")
    there["instance"] = there.groupby("image_id").cumcount()
    looked = pd.DataFrame({"image_id": ids, "status": "", "reason": ""}, dtype=object)
    missing = ~looked["image_id"].isin(table["image_id"])
    looked.loc[missing, ["status", "reason"]] = ["missing", "not in the file"]
    return Instances(_typed(there), looked)


def _check_masks(there: pd.DataFrame, path: Path) -> None:
    masked = there["rle"] != ""
    for side in ("height", "width"):
        sizes = cells.numbers(there[side], path, whole=True)
        bad = masked & ~((sizes >= 1) & (sizes % 1 == 0) & (sizes <= _MOST_PIXELS))
        cells.refuse(bad, path, f"{side} is {{}} beside a mask", "give pixels of the mask", there[side])
        there[side] = sizes
    some = there[masked]
    first = some.groupby("image_id")[["height", "width"]].transform("first")
    other = (some[["height", "width"]] != first).any(axis=1)
    problem = "a mask of image {} is of another size than the first"
    cells.refuse(other, path, problem, "give all masks of an image in its size", some["image_id"])
    wrong = [check_runs(r.rle, int(r.height), int(r.width)) for r in some.itertuples()]
    bad = pd.Series(wrong, index=some.index, dtype=object) != ""
    problem = next(filter(None, wrong), "")
    cells.refuse(bad, path, f"rle does not fit: {problem}", "encode the mask again")
