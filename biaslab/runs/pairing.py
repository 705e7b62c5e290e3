"""What rows of results are means over, unit by unit: professions, occupations, identities, triplets.

Two runs that ask for the same units move together in each of them, so the difference of their estimates varies less
than that of independent ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pandas as pd

from biaslab.schema import tables

Read = Callable[[str], pd.DataFrame]
"""Returns a run's table of a name: of its results, else of what they rest on; without rows where it has none."""


@cache
def unit_readers() -> dict[str, tuple[Callable[[Read], Iterator[pd.DataFrame]], tuple[str, ...]]]:
    """Return by table its rows' units, as ``papers/<paper>/units.py`` have them, and the limits of intervals over them.

    Units come with the table's own keys, ``unit`` and ``value``; limits are the lower ones. Intervals of other kinds,
    over the images of one unit, are not paired.
    """
    names = (tables.module(paper, "pairing") for paper in tables.measuring_papers())
    rooms = (import_module(name) for name in names if find_spec(name))
    return {name: units for room in rooms for name, units in room.OVER.items()}


def correlations(first: pd.DataFrame, second: pd.DataFrame, keys: list[str], *, least: int) -> pd.DataFrame:
    """Return how estimates of two runs correlate that are means over units: ``keys``, ``correlation``, ``n_paired``.

    Both have rows of ``keys`` (as many as they have), ``unit`` and ``value``; several of a unit are averaged. The
    covariance of two means comes of the units that both have: ``correlation`` is Pearson's r of these times their
    number over the root of the product of both numbers of units. Rows with fewer than ``least`` units in both, or
    without any variation, are left out.
    """
    keys = [k for k in keys if k in first and k in second]
    sides = []
    for units in (first, second):
        values = units.dropna(subset="value").astype(dict.fromkeys(keys, str))
        sides.append(values.groupby([*keys, "unit"])["value"].mean())
    both = pd.concat(sides, axis=1, keys=["first", "second"]).reset_index("unit", drop=True)
    both = both.reset_index() if keys else both.reset_index(drop=True)
    rows = []
    groups = both.groupby(keys, sort=False) if keys else [((), both)]
    for names, some in groups:
        shared = some.dropna(subset=["first", "second"])
        values = shared[["first", "second"]].to_numpy()
        if len(shared) < least or np.ptp(values, axis=0).min() < 1e-12:
            continue
        r = np.corrcoef(values.T)[0, 1]
        share = len(shared) / np.sqrt(some["first"].count() * some["second"].count())
        rows.append([*names, r * share, len(shared)])
    return pd.DataFrame(rows, columns=[*keys, "correlation", "n_paired"])
