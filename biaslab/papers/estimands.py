"""The units that estimates are means over: professions, occupations, identities, scenes, triplets.

Each paper defines them once, in its ``estimands``. Models are compared over the units that both have. Estimates of two
runs over the same units are correlated, so their difference varies less than that of independent estimates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from biaslab import stats

CELL = ["list", "unit", "cell"]


@dataclass(frozen=True)
class Estimand:
    """A table whose rows are means over units, and the measure by which models are compared, if any."""

    table: str
    source: str  # The table that ``units`` reads.
    units: Callable[[pd.DataFrame], pd.DataFrame]  # Returns :func:`unit_rows` with the keys of ``table``.
    limits: tuple[str, ...] = ("ci_low",)
    """Lower limits of the intervals over units; other intervals are over the images of one unit."""
    measure: str = ""  # Name of the measure, with columns in braces; empty where models are not compared.
    unit: str = ""
    words: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """For each column, the values of the rows that count, with their names in ``measure``."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """The column of ``table`` for each of ``synthesis_models``; at least for ``estimate``."""
    n_unit: str = ""  # Unit of ``n``; empty where the column ``n_unit`` contains it.
    factor: float = 1.0  # Factor that converts values of ``table`` and ``units`` to ``unit``.
    model_units: Callable[[pd.DataFrame], pd.DataFrame] | None = None
    """Returns the units by which models are compared, where they are not ``units``."""

    def select(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return rows of ``table``, or units, by which models are compared, with ``measure`` and ``measure_unit``."""
        for column, words in self.words.items():
            rows = rows[rows[column].isin(words)]
        texts: dict[str, Any] = {column: rows[column].map(words) for column, words in self.words.items()}
        measures = [self.measure.format_map(row) for row in rows.assign(**texts).to_dict("records")]
        return rows.assign(measure=measures, measure_unit=self.unit)

    def estimates(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the estimates by which models are compared, as rows of ``synthesis_models``."""
        rows = self.select(table)
        columns = {"estimate_corrected": self.columns["estimate"], **self.columns}
        fixed: dict[str, Any] = {"paper": self.table.partition("_")[0], "unit": self.unit, "null_mean": 0.0}
        fixed |= {"n_unit": self.n_unit} if self.n_unit else {}
        return rows.assign(**fixed | {name: self.factor * rows[column] for name, column in columns.items()})

    def units_of_models(self, source: pd.DataFrame) -> pd.DataFrame:
        """Return the units by which models are compared: model, measure, its unit, list, unit, cell, images, value."""
        rows = self.select((self.model_units or self.units)(source))
        rows = rows.assign(value=self.factor * rows["value"])
        return rows[["model", "measure", "measure_unit", *CELL, "n_images", "value"]]


def unit_rows(rows: pd.DataFrame, unit: str, value: Any, **columns: Any) -> pd.DataFrame:
    """Return rows that have a value, with the columns of their units and values.

    Args:
        rows: Rows with the keys of a table whose rows are means over units.
        unit: The column that names the unit, such as ``profession``.
        value: The value of each row, in the unit of the measure.
        columns: ``list`` of the unit, where a measure is the mean of those of two lists of stereotypes; ``cell``, where
            a unit is the mean of several (roles, templates, prompts); ``n_images``, the number of images
            that a deviation is estimated for, where a cell has several rows (:func:`at_shared_images`).
    """
    columns = {"unit": rows[unit], "value": value, "list": "", "cell": "", "n_images": 0, **columns}
    return rows.assign(**columns).dropna(subset="value")


def at_shared_images(rows: pd.DataFrame, bins: list[str], cell: list[str]) -> pd.DataFrame:
    """Return rows with ``deviation`` (0–1) at each number of images of their cell's rows, up to their own.

    ``bins`` are columns with the images in each bin. Deviations of models with other numbers of images are compared at
    a number that both have (``n_images``).
    """
    n = rows[bins].sum(axis=1)
    rows = rows.assign(n=n)[n > 0]
    sizes = rows[[*cell, "n"]].drop_duplicates().rename(columns={"n": "n_images"})
    rows = rows.merge(sizes, on=cell)
    rows = rows[rows["n_images"] <= rows["n"]].astype({"n_images": int})
    return rows.assign(deviation=stats.corrected_mad(rows[bins].to_numpy(), rows["n_images"]) if len(rows) else 0.0)


def correlations(first: pd.DataFrame, second: pd.DataFrame, keys: list[str], *, min_units: int) -> pd.DataFrame:
    """Return correlations of estimates of two runs that are means over units: ``keys``, ``correlation``, ``n_paired``.

    Two means covary through their shared units: ``correlation`` is Pearson's r over these units, within lists, times
    their number, divided by the root of the product of both numbers of units. Rows with fewer than ``min_units``
    units in both, or without any variation, are left out. Both frames are :func:`unit_rows`; keys that only one has are
    ignored.
    """
    keys = [key for key in keys if key in first and key in second]
    values = [_unit_values(units.astype(dict.fromkeys(keys, str)), keys) for units in (first, second)]
    unit_pairs = pd.concat(values, axis=1, keys=["first", "second"]).droplevel(["list", "unit"] if keys else "list")
    rows = []
    groups = unit_pairs.groupby(level=keys, sort=False) if keys else [((), unit_pairs)]
    for names, group in groups:
        shared = group.dropna().to_numpy()
        if len(shared) < min_units or np.ptp(shared, axis=0).min() < 1e-12:
            continue
        share = len(shared) / np.sqrt(group["first"].count() * group["second"].count())
        names = names if isinstance(names, tuple) else (names,)
        rows.append([*names, np.corrcoef(shared.T)[0, 1] * share, len(shared)])
    return pd.DataFrame(rows, columns=[*keys, "correlation", "n_paired"])


def _unit_values(units: pd.DataFrame, keys: list[str]) -> pd.Series:
    """Return the value of each unit, the mean of its cells at all of their images, minus the mean of its list."""
    cells = units.groupby([*keys, *CELL, "n_images"])["value"].mean().groupby([*keys, *CELL]).last()
    by_unit = cells.groupby([*keys, "list", "unit"]).mean()
    return by_unit - by_unit.groupby([*keys, "list"]).transform("mean")
