"""Headline numbers of a report, expressed as weighted sums of shares of people perceived as female.

For an average (dalleval, Table 6), a score (paired, section 3.2.3) or an amplification (paradox, section 3.3), the
coefficient of each share is fixed. For absolute values (a distance or deviation from one half), it has the sign of the
share minus one half. Annotations, sample sizes and variance components use this representation.
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
"""Group name of a number that covers all groups, as opposed to a number of a single group."""


@dataclass(frozen=True)
class Headline:
    """One headline number: ``base + sum(coefficient * (share - 1/2))``, summed over cells."""

    paper: str
    model: str
    measure: str  # The measure, in words.
    group: str  # :data:`MEAN`, or the name of a single group.
    unit: str
    scale: float
    """Maximum change of the value, in its unit, per percentage point of a share: 0.02 for an average from -1 to 1."""
    base: float  # The value if every share is one half.
    cells: pd.DataFrame
    """One row per share: source, cluster (profession, occupation or group), template (wording), stratum (of similar
    clusters), count (people judged female), n (people judged female or male) and coefficient."""
    people: pd.DataFrame
    """People in the images: source, image_id, position, cell (row of ``cells``) and judged (1 female, 0 male or
    NaN)."""
    is_absolute: bool = False  # Whether the signs of coefficients depend on the shares.
    clusters_random: bool = False
    """Whether the interval is for a population of clusters (Student's t), not only for these clusters."""
    about: str = ""  # The subject of the shares, such as an attribute; empty for perceived gender.
    null_mean: float = 0.0  # The expected contribution of sampling noise to the sum, in its unit.
    clusters: str = "clusters"  # Plural name of the clusters, for example professions.
    setting: str = ""  # The setting for the number of images per prompt; empty if there is none.

    @property
    def value(self) -> float:
        """The number from the judge's labels minus its null expectation; NaN if a cell has no people."""
        cells = self.cells[self.cells["coefficient"] != 0]
        share = cells["count"] / cells["n"].where(cells["n"] > 0)
        if cells.empty:
            return float("nan")
        return float(self.base + (cells["coefficient"] * (share - 0.5)).sum(skipna=False) - self.null_mean)


def encode_gender(gender: pd.Series) -> np.ndarray:
    """Return 1 for female, 0 for male and NaN for any other value of ``gender``, elementwise."""
    return gender.map({"female": 1.0, "male": 0.0}).to_numpy(float)


def cells_and_people(people: pd.DataFrame, stratum: str = "") -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return cells (without coefficients) and people, as in :class:`Headline`.

    ``people`` has the columns :data:`CELL` (source and template are optional if there is only one), image_id, position
    and gender (as judged). ``stratum`` is the name of a column with the stratum, or empty.
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
    """Return ``cells`` with the coefficients of clusters' shares, so that people of all templates have equal weight.

    ``coefficient`` is one number, or one for each row. Raises InputError: Coefficients and cells have different labels.
    """
    cells, coefficient = align((0,), cells=cells, coefficient=coefficient)
    n_cluster = cells.groupby(["source", "cluster"])["n"].transform("sum")
    return cells.assign(coefficient=np.asarray(coefficient) * (cells["n"] / n_cluster.where(n_cluster > 0)).fillna(0))


def side(cells: pd.DataFrame) -> np.ndarray:
    """Return 1 if a cluster's share is above one half, -1 if it is below, and 0 if it is one half or has no people."""
    sums = cells.groupby(["source", "cluster"])[["count", "n"]].transform("sum")
    return np.sign((2 * sums["count"] - sums["n"]).to_numpy(float))
