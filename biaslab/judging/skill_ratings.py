"""What people say of images that were asked to show objects: whether each part of the prompt is there.

A CSV (UTF-8, commas) or Parquet file with a row per image and rater: ``image_id``, ``rater`` (may be left out where
one person rated), and ``objects``, ``number`` and ``relation``, each ``yes``, ``no``, or empty where the prompt does
not ask for it.

Source: dalleval paper, section 5.2 (human evaluation, Table 3).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from biaslab import ratings as files

STEPS = ("objects", "number", "relation")
_YES = {
    "yes": "yes",
    "y": "yes",
    "1": "yes",
    "true": "yes",
    "no": "no",
    "n": "no",
    "0": "no",
    "false": "no",
    "": "",
}
_NEEDS = f"Ratings of skills need: image_id, {', '.join(STEPS)} and, where several people rated, rater."


def read(path: str | Path, image_ids: Iterable[str]) -> pd.DataFrame:
    """Read ratings of images.

    Args:
        path: A CSV or Parquet file.
        image_ids: The images that can be rated.

    Returns:
        One row per image and rater: image_id, rater, the three steps (``yes``, ``no`` or empty) and correct: ``yes``
        where every step that is rated is there.

    Raises:
        InputError: The file cannot be read, a column is missing, a value is neither yes nor no, a row rates nothing, an
            image is rated twice by one rater or is none of ``image_ids``. The message names the value and the fix.
    """
    path, known = files.located(path), {"image_id", "rater", *STEPS}
    table = files.load_table(path, known)
    files.require(table, ["image_id", *STEPS], path, _NEEDS, known)
    table["image_id"] = files.image_ids(table["image_id"])
    table["rater"] = table["rater"].str.split().str.join(" ") if "rater" in table else "1"
    asked = set(image_ids)
    unknown = ~table["image_id"].isin(asked)
    files.refuse(
        unknown, path, f"image {_first(table['image_id'], unknown)!r} is none of these", "take the row out"
    )
    for step in STEPS:
        said = table[step].fillna("").str.strip().str.casefold()
        wrong = ~said.isin(list(_YES))
        files.refuse(wrong, path, f"{step} is {_first(table[step], wrong)!r}", "write yes, no or nothing")
        table[step] = said.map(_YES)
    steps = table[list(STEPS)]
    files.refuse((steps == "").all(axis=1), path, "nothing is rated", "rate a step, or take the row out")
    twice = table.duplicated(["image_id", "rater"])
    files.refuse(
        twice, path, f"image {_first(table['image_id'], twice)!r} is rated twice by one", "keep one row"
    )
    table["correct"] = (steps != "no").all(axis=1).map({True: "yes", False: "no"})
    return table[["image_id", "rater", *STEPS, "correct"]].reset_index(drop=True)


def _first(values: pd.Series, where: pd.Series) -> str:
    return str(values[where].iloc[0]) if where.any() else ""


def majority(ratings: pd.DataFrame) -> pd.Series:
    """Return ``yes`` or ``no`` by image_id: what most raters say of the whole; as many of each is ``no``."""
    return (
        (ratings["correct"] == "yes")
        .groupby(ratings["image_id"])
        .mean()
        .gt(0.5)
        .map({True: "yes", False: "no"})
    )
