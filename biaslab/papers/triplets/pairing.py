"""What rows of results are means over, unit by unit; see :mod:`biaslab.runs.pairing`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pandas as pd

Read = Callable[[str], pd.DataFrame]


def _similarities(read: Read) -> Iterator[pd.DataFrame]:
    rows = read("triplets_similarity")
    yield rows.assign(unit=rows["case"])


def _gaps(read: Read) -> Iterator[pd.DataFrame]:
    rows = read("triplets_similarity")
    yield _gap(rows, ["model", "dataset", "space", "metric", "case", "higher_is_closer"])


def _object_gaps(read: Read) -> Iterator[pd.DataFrame]:
    yield _gap(read("triplets_object_similarity"), ["model", "dataset", "case"])


def _gap(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    sides = (rows[rows["pair"] == f"neutral-{gender}"] for gender in ("masculine", "feminine"))
    both = next(sides).merge(next(sides), on=keys, suffixes=("", "_feminine"))
    return both.assign(unit=both["case"], value=both["value"] - both["value_feminine"])


OVER = {
    "triplets_disparity": (_similarities, ("ci_low",)),
    "triplets_disparity_gap": (_gaps, ("ci_low",)),
    "triplets_co_occurrence": (_object_gaps, ("ci_low",)),
}
