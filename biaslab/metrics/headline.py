"""Headline numbers of a report as weighted sums of shares of people perceived as female.

For an average (dalleval, table 6), a score (paired, section 3.2.3) or an amplification (paradox, section 3.3) the
coefficient of each share is fixed. For absolute values (a distance or deviation from one half) it is the sign of the
share minus one half. Annotations, sample sizes and variance components use this form of a number.
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
"""Group name of a number over all groups, as opposed to numbers of single groups."""


@dataclass(frozen=True)
class Headline:
    """One number: ``base + sum(coefficient * (share - 1/2))`` over cells."""

    paper: str
    model: str
    measure: str  # In words.
    group: str  # :data:`MEAN`, or the name of a single group.
    unit: str
    scale: float
    """Maximum change of the value, in its unit, per percentage point of a share: 0.02 for an average of -1 to 1."""
    base: float  # Its value where every share is one half.
    cells: pd.DataFrame
    """Cells with a share: source, cluster (profession, occupation, group), template (wording), stratum (of similar
    clusters), count and n (people judged female; female or male) and coefficient."""
    people: pd.DataFrame
    """People in the images: source, image_id, position, cell (row of ``cells``), judged (1 female, 0 male or NaN)."""
    is_absolute: bool = False  # Whether the signs of coefficients follow from the shares.
    clusters_random: bool = False
    """Whether its interval is for a population of clusters (Student's t over them), not for these clusters only."""
    about: str = ""  # The subject of its shares, such as an attribute; empty for perceived gender.
    null_mean: float = 0.0  # The expected contribution of sampling noise to the sum, in its unit.
    clusters: str = "clusters"  # Plural name of its clusters, for example professions.
    setting: str = ""  # The setting for the number of images per prompt; empty if none exists.

    @property
    def value(self) -> float:
        """The number by the judge minus its null expectation; NaN if a cell has no people."""
        cells = self.cells[self.cells["coefficient"] != 0]
        share = cells["count"] / cells["n"].where(cells["n"] > 0)
        if cells.empty:
            return float("nan")
        return float(self.base + (cells["coefficient"] * (share - 0.5)).sum(skipna=False) - self.null_mean)


def encode_gender(gender: pd.Series) -> np.ndarray:
    """Return 1 for female, 0 for male and NaN for any other answer, for each ``gender``."""
    return gender.map({"female": 1.0, "male": 0.0}).to_numpy(float)


def cells_and_people(people: pd.DataFrame, stratum: str = "") -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return cells (without coefficients) and people as of :class:`Headline`.

    ``people`` has :data:`CELL` (source and template are optional if there is only one), image_id, position, gender as
    judged, and optionally the column ``stratum``.
    """
    defaults: dict[str, Any] = {"source": GENERATED, "template": "", "position": 1, "image_id": ""}
    people = people.assign(**{name: value for name, value in defaults.items() if name not in people})
    people = people.assign(
        position=people["position"].astype(int),
        judged=encode_gender(people["gender"]),
        stratum=people[stratum] if stratum else "",
    )
    by_cell = people.groupby([*CELL, "stratum"], sort=False, dropna=False)["judged"]
    cells = by_cell.agg(count="sum", n="count").reset_index()
    # Prompted people without any judgement have a separate cell.
    people = people.assign(cell=by_cell.ngroup())[[*PERSON, "cell", "judged"]]
    return cells.astype({"count": int, "n": int}), people.reset_index(drop=True)


def pool_cells(cells: pd.DataFrame, coefficient: ArrayLike) -> pd.DataFrame:
    """Return cells with coefficients (one, or one each) of clusters' shares; people of all templates weigh equally.

    Raises InputError: Coefficients have other labels than the cells.
    """
    cells, coefficient = align((0,), cells=cells, coefficient=coefficient)
    n_cluster = cells.groupby(["source", "cluster"])["n"].transform("sum")
    return cells.assign(coefficient=np.asarray(coefficient) * (cells["n"] / n_cluster.where(n_cluster > 0)).fillna(0))


def side(cells: pd.DataFrame) -> np.ndarray:
    """Return 1 if a cluster's share is above one half, -1 if below, 0 at one half or without people."""
    sums = cells.groupby(["source", "cluster"])[["count", "n"]].transform("sum")
    return np.sign((2 * sums["count"] - sums["n"]).to_numpy(float))
