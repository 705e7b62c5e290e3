"""The numbers that the four papers print, as tables.

``data/<name>.csv`` holds one printed table, tidy where it feeds a computation, and ``data/<name>.json``
says what it is: paper, table, title, section, unit, columns (each with a unit and a description), rows
and notes. A column whose unit is ``null`` holds text; any other holds numbers, and an empty cell in it is
missing. Units: ``%`` (0–100), ``points`` (differences of percentages), ``1`` (no dimension), or what is
counted, such as ``images``.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from importlib import resources
from io import StringIO
from typing import TYPE_CHECKING, Any

from biaslab.errors import unknown_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

_DATA = resources.files(__name__) / "data"
MODELS = frozenset(("SD 1.4", "SD 1.5", "DALL-E 3", "minDALL-E", "Karlo", "Stable Diffusion"))
"""Models of which papers print shares that intervals are drawn of."""
DRAWS = {"seed": 20231, "replicates": 10_000}
"""Draws for these, so that what rests on printed numbers has the same digits in every run."""


@dataclass(frozen=True)
class ReferenceColumn:
    """One column of a published table."""

    unit: str | None  # Unit of the numbers; ``None`` where the values are text.
    description: str  # What the values mean.


@dataclass(frozen=True)
class ReferenceTable:
    """What a published table is."""

    name: str  # Name to load it by: ``<paper>_table_<number>``, or ``<paper>_text`` for numbers in running text.
    paper: str  # Short name of the paper.
    table: str  # The printed table's number, ``arXiv <number>`` for the arXiv version's own, or ``text``.
    title: str  # What it shows, in a few words.
    section: str  # Section or appendix of the paper that prints it.
    unit: str  # Unit of its main values.
    columns: Mapping[str, ReferenceColumn]  # Columns by name, in the file's order.
    rows: int  # Rows in the file.
    notes: tuple[str, ...]  # Sample sizes, misprints and other things to know before computing with it.


def draws(model: str, **given: Any) -> dict[str, Any]:
    """Return ``given`` seed, replicates and so on; of one of :data:`MODELS` with :data:`DRAWS` in their place."""
    return given | (DRAWS if model in MODELS else {})


def names() -> list[str]:
    """Return the names of all published tables, sorted, with numbers in numeric order."""
    files = (entry.name for entry in _DATA.iterdir() if entry.name.endswith(".json"))
    padded = {re.sub(r"\d+", lambda number: f"{number[0]:0>9}", name): name for name in files}
    return [padded[key].removesuffix(".json") for key in sorted(padded)]


def describe(name: str) -> ReferenceTable:
    """Return what the table ``name`` is; an UnknownNameError where there is no such table."""
    if name not in (known := names()):
        raise unknown_name("published table", name, known)
    given = json.loads((_DATA / f"{name}.json").read_text(encoding="utf-8"))
    columns = {key: ReferenceColumn(**column) for key, column in given.pop("columns").items()}
    return ReferenceTable(name=name, columns=columns, notes=tuple(given.pop("notes")), **given)


def load(name: str) -> pd.DataFrame:
    """Return the table ``name``: text columns as strings, number columns as floats, missing as NaN.

    A new frame with the columns of :func:`describe`, whose ``attrs`` hold ``name``, ``paper``, ``table``, ``title`` and
    ``unit``. Raises UnknownNameError where there is no such table.
    """
    import pandas as pd

    about = describe(name)
    text = (_DATA / f"{name}.csv").read_text(encoding="utf-8")
    frame = pd.read_csv(StringIO(text), dtype=str, keep_default_na=False)
    for key, column in about.columns.items():
        if column.unit is not None:
            frame[key] = frame[key].map(lambda cell: float(cell or "nan")).astype(float)
    frame.attrs = {key: getattr(about, key) for key in ("name", "paper", "table", "title", "unit")}
    return frame


def index() -> pd.DataFrame:
    """Return one row per published table: name, paper, table, title, unit, rows."""
    import pandas as pd

    columns = ["name", "paper", "table", "title", "unit", "rows"]
    return pd.DataFrame([vars(describe(name)) for name in names()], columns=columns)
