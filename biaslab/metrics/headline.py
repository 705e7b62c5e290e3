"""Numbers that a report leads with, as sums of shares of people perceived as female.

For an average (dalleval, table 6), a score (paired, section 3.2.3) or an amplification (paradox, section 3.3) the
coefficient of each share is fixed. For values folded at one half (a distance, a deviation) it is the sign of the share
minus one half. Annotations, sample sizes and variance components use this form of a number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from biaslab.stats.checks import align

CELL = ["source", "cluster", "template"]
PERSON = ["source", "image_id", "position"]
GENERATED = "generated"
MEAN = "all"
"""Name of a number over all groups, next to numbers of single groups."""


@dataclass(frozen=True)
class Headline:
    """One number: ``base + sum(coefficient * (share - 1/2))`` over cells."""

    paper: str
    model: str
    measure: str  # In words.
    group: str  # :data:`MEAN`, or the one group that it is of.
    unit: str
    scale: float
    """What 1 percentage point of a share is in the unit at most: 0.02 of an average of -1 to 1."""
    base: float  # Its value where every share is one half.
    cells: pd.DataFrame
    """Cells with a share: source, cluster (profession, occupation, group), template (wording), stratum (of similar
    clusters), count and n (people judged female; female or male) and coefficient."""
    people: pd.DataFrame
    """Who was judged: source, image_id, position, cell (row of ``cells``) and judged (1 female, 0 male, else NaN)."""
    is_absolute: bool = False  # Whether signs of coefficients are those of the shares.
    clusters_random: bool = False
    """Whether its interval is of other clusters, too (Student's t over them), not of these alone."""
    about: str = ""  # What its shares are of, such as an attribute; empty is perceived gender.
    null_mean: float = 0.0  # What chance adds to the sum on average, in its unit.
    clusters: str = "clusters"  # What its clusters are called, for example professions.
    setting: str = ""  # The setting that holds the number of images per prompt; empty where none does.

    @property
    def value(self) -> float:
        """The judge's number, without its null expectation; NaN where a cell has no people."""
        cells = self.cells[self.cells["coefficient"] != 0]
        share = cells["count"] / cells["n"].where(cells["n"] > 0)
        if cells.empty:
            return float("nan")
        return float(self.base + (cells["coefficient"] * (share - 0.5)).sum(skipna=False) - self.null_mean)


def encode_gender(gender: pd.Series) -> np.ndarray:
    """Return 1 for female, 0 for male, NaN for any other answer, one for each ``gender``."""
    return gender.map({"female": 1.0, "male": 0.0}).to_numpy(float)


def cells_and_people(people: pd.DataFrame, stratum: str = "") -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return cells (without coefficients) and people as of :class:`Headline`.

    ``people`` has :data:`CELL` (source and template may be missing where there is one), image_id, position, gender as
    judged, and perhaps the column ``stratum``.
    """
    given: dict[str, Any] = {"source": GENERATED, "template": "", "position": 1, "image_id": ""}
    people = people.assign(**{name: value for name, value in given.items() if name not in people})
    people = people.assign(
        position=people["position"].astype(int),
        judged=encode_gender(people["gender"]),
        stratum=people[stratum] if stratum else "",
    )
    by = people.groupby([*CELL, "stratum"], sort=False, dropna=False)["judged"]
    cells = by.agg(count="sum", n="count").reset_index()
    # Prompted people without any judgement have a separate cell.
    people = people.assign(cell=by.ngroup())[[*PERSON, "cell", "judged"]]
    return cells.astype({"count": int, "n": int}), people.reset_index(drop=True)


def pool_cells(cells: pd.DataFrame, coefficient: ArrayLike) -> pd.DataFrame:
    """Return cells with coefficients (one, or one each) of clusters' shares; people of all templates count alike.

    Raises InputError: Coefficients have other labels than the cells.
    """
    cells, coefficient = align((0,), cells=cells, coefficient=coefficient)
    of_cluster = cells.groupby(["source", "cluster"])["n"].transform("sum")
    return cells.assign(coefficient=np.asarray(coefficient) * (cells["n"] / of_cluster.where(of_cluster > 0)).fillna(0))


def side(cells: pd.DataFrame) -> np.ndarray:
    """Return 1 if a cluster's share is above one half, -1 if below, 0 at one half or without people."""
    sums = cells.groupby(["source", "cluster"])[["count", "n"]].transform("sum")
    return np.sign((2 * sums["count"] - sums["n"]).to_numpy(float))
