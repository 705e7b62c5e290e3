"""What people say images show: whether an object is there.

A CSV (UTF-8, commas) or Parquet file with a row per image, object and rater: ``image_id``, ``object``, ``shown``
(``yes`` or ``no``), and ``rater`` where several people rated.

Source: triplets paper, section 7.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from biaslab import ratings as files
from biaslab.judging.seen import folded

_YES = {"yes": True, "y": True, "1": True, "true": True, "no": False, "n": False, "0": False, "false": False}
_KEYS = ["image_id", "object"]
_NEEDS = (
    "Ratings of objects need image_id, object and shown (yes or no), and where several people rated, rater."
)


def read(path: str | Path, image_ids: Iterable[str]) -> pd.DataFrame:
    """Read ratings of objects in images.

    Args:
        path: A CSV or Parquet file.
        image_ids: The images that can be rated.

    Returns:
        A row an image and object that somebody rated: image_id, object and shown, ``yes`` or ``no``: what most raters
        say; as many of each is ``no``.

    Raises:
        InputError: The file cannot be read, a column is missing, a value does not fit, an image is none of
            ``image_ids``, or a rater rates one object of an image twice. The message names the value and the fix.
    """
    path, known = files.located(path), {*_KEYS, "shown", "rater"}
    table = files.load_table(path, known)
    files.require(table, [*_KEYS, "shown"], path, _NEEDS, known)
    table["image_id"] = files.image_ids(table["image_id"])
    table["rater"] = table["rater"].str.split().str.join(" ") if "rater" in table else "1"
    table["object"] = table["object"].map(folded)
    said = table["shown"].str.strip().str.casefold()
    twice = table.duplicated([*_KEYS, "rater"])
    for wrong, column, problem, fix in (
        (~table["image_id"].isin(set(image_ids)), "image_id", "is no image of this run", "take the row out"),
        (table["object"] == "", "object", "names none", "name the object"),
        (~said.isin(list(_YES)), "shown", "is neither yes nor no", "write yes or no"),
        (twice, "object", "is rated twice by one for one image", "keep one row"),
    ):
        value = files.shortened(table.loc[wrong, column].iloc[0]) if wrong.any() else ""
        files.refuse(wrong, path, f"{column} {value} {problem}", fix)
    share = said.map(_YES).astype(float).groupby([table[k] for k in _KEYS], sort=False).mean()
    return (share > 0.5).map({True: "yes", False: "no"}).rename("shown").reset_index()
