"""What rows of results are means over, unit by unit; see :mod:`biaslab.runs.pairing`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pandas as pd

Read = Callable[[str], pd.DataFrame]


def _women(read: Read) -> Iterator[pd.DataFrame]:
    rows = read("paired_percent_female")
    yield from _by_list(rows.assign(unit=rows["identity"], value=rows["percent_female"]))


def _scores(read: Read) -> Iterator[pd.DataFrame]:
    rows = read("paired_percent_female")
    score = (2 * rows["percent_female"] - 100) * rows["stereotype"].map({"female": 1, "male": -1})
    yield from _by_list(rows.assign(unit=rows["identity"], value=score))


def _by_list(rows: pd.DataFrame) -> Iterator[pd.DataFrame]:
    yield rows
    # The mean of two lists varies by how identities differ within either.
    keys = [c for c in ("model", "aspect", "setting", "stereotype") if c in rows]
    within = rows["value"] - rows.groupby(keys)["value"].transform("mean")
    yield rows.assign(stereotype="overall", value=within)


OVER = {"paired_stereotype_score": (_scores, ("ci_low",)), "paired_percent_female_mean": (_women, ("ci_low",))}
