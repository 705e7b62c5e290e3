"""What rows of results are means over, unit by unit; see :mod:`biaslab.runs.pairing`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pandas as pd

Read = Callable[[str], pd.DataFrame]


def _similarities(read: Read) -> Iterator[pd.DataFrame]:
    rows = read("triplets_similarity")
    yield rows.assign(unit=rows["case"])


def _gaps(name: str, read: Read) -> Iterator[pd.DataFrame]:
    rows = read(name)
    keys = [c for c in ("model", "dataset", "space", "metric", "case", "higher_is_closer") if c in rows]
    sides = (rows[rows["pair"] == f"neutral-{gender}"] for gender in ("masculine", "feminine"))
    both = next(sides).merge(next(sides), on=keys, suffixes=("", "_feminine"))
    yield both.assign(unit=both["case"], value=both["value"] - both["value_feminine"])


OVER = {
    "triplets_disparity": (_similarities, ("ci_low",)),
    "triplets_disparity_gap": (partial(_gaps, "triplets_similarity"), ("ci_low",)),
    "triplets_co_occurrence": (partial(_gaps, "triplets_object_similarity"), ("ci_low",)),
}
