"""What people say of images that were to show objects: whether each part of the prompt, or an object, is there.

A table (:mod:`biaslab.io.cells`) with a row per image and annotator: ``image_id``, ``annotator`` (may be left out), and
``objects``, ``number`` and ``relation``, each ``yes``, ``no``, or empty where the prompt does not ask for it; or of
objects a row per image, object and annotator: ``object`` and ``shown``, ``yes`` or ``no``.

Source: dalleval paper, section 5.2 (human evaluation, Table 3); of objects the triplets paper, section 7.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from biaslab.io import cells
from biaslab.judges.segmenters import casefold_name
from biaslab.schema import old_names

STEPS = ("objects", "number", "relation")
_YES = {"yes": "yes", "y": "yes", "1": "yes", "true": "yes", "no": "no", "n": "no", "0": "no", "false": "no"}
_NEEDS = f"Annotations of skills need: image_id, {', '.join(STEPS)} and, with several annotators, annotator."
_NEEDS_OBJECTS = (
    "Annotations of objects need image_id, object and shown (yes or no), and with several annotators, annotator."
)


def read(path: str | Path, image_ids: Iterable[str]) -> pd.DataFrame:
    """Read ratings of the images ``image_ids`` from a CSV or Parquet file.

    Returns one row per image and annotator: image_id, annotator, the three steps (``yes``, ``no`` or empty) and
    correct: ``yes`` where every step that is rated is there. Raises InputError where the file does not fit, rates an
    image twice by one annotator, or one that is none of ``image_ids``.
    """
    table = _answers(path, image_ids, STEPS, _NEEDS)
    steps = table[list(STEPS)]
    cells.refuse((steps == "").all(axis=1), Path(path), "nothing is annotated", "annotate a step, or remove the row")
    table["correct"] = (steps != "no").all(axis=1).map({True: "yes", False: "no"})
    return table[["image_id", "annotator", *STEPS, "correct"]].reset_index(drop=True)


def read_objects(path: str | Path, image_ids: Iterable[str]) -> pd.DataFrame:
    """Return whether most annotators say that an object is shown: image_id, object and shown; arguments and errors as
    for
    :func:`read`.
    """
    table = _answers(path, image_ids, ["shown"], _NEEDS_OBJECTS, about="object")
    return _most(table["shown"], [table["image_id"], table["object"]]).rename("shown").reset_index()


def majority(ratings: pd.DataFrame) -> pd.Series:
    """Return ``yes`` or ``no`` by image_id: what most annotators say of the whole; as many of each is ``no``."""
    return _most(ratings["correct"], ratings["image_id"])


def _most(said: pd.Series, by) -> pd.Series:
    share = (said == "yes").groupby(by, sort=False).mean()
    return (share > 0.5).map({True: "yes", False: "no"})


def _answers(
    path: str | Path, image_ids: Iterable[str], columns: Sequence[str], needs: str, *, about: str = ""
) -> pd.DataFrame:
    """Read what annotators answer with yes or no about images, or about what in them the column ``about`` names."""
    keys = ["image_id", about] if about else ["image_id"]
    path, known, image_ids = cells.file_path(path), {*keys, *columns, "annotator"}, set(image_ids)
    table, _ = cells.load(path, known)
    old_names.check_columns(map(str, table), known, str(path))
    cells.require(table, [*keys, *columns], path, needs, known)
    table["image_id"] = cells.image_ids(table["image_id"], image_ids)
    table["annotator"] = (
        cells.names(table["annotator"], path, empty=True).astype(object) if "annotator" in table else "1"
    )
    strange = ~table["image_id"].isin(image_ids)
    cells.refuse(strange, path, "{} is no image of this run", "take the row out", table["image_id"])
    if about:
        table[about] = table[about].map(casefold_name)
        cells.refuse(table[about] == "", path, f"{about} is empty", "name it")
    meant, fix = (_YES, "write yes or no") if about else (_YES | {"": ""}, "write yes or no or nothing")
    for column in columns:
        said = table[column].str.strip().str.casefold()
        cells.refuse(~said.isin(list(meant)), path, f"{column} is {{}}", fix, table[column])
        table[column] = said.map(meant)
    twice, last = table.duplicated([*keys, "annotator"]), keys[-1]
    cells.refuse(twice, path, f"{last} {{}} is annotated twice by one", "keep one row", table[last])
    return table
