"""What people say images show: whether an object is there.

A CSV (UTF-8, commas) or Parquet file with a row per image, object and rater: ``image_id``, ``object``, ``shown``
(``yes`` or ``no``), and ``rater`` where several people rated.

Source: triplets paper, section 7.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from biaslab.judging.skill_ratings import answers

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
    table = answers(path, image_ids, ["shown"], _NEEDS, about=["object"])
    share = (table["shown"] == "yes").groupby([table[k] for k in ("image_id", "object")], sort=False).mean()
    return (share > 0.5).map({True: "yes", False: "no"}).rename("shown").reset_index()
