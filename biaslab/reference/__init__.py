"""The published values of the four papers, as tables.

``data/<name>.csv`` is one printed table, in tidy form if it is used in a computation. ``data/<name>.json`` describes
it: paper, table, title, section, unit, columns (each with a unit and a description), rows and notes. A column whose
unit is ``null`` contains text. Any other column contains numbers, and its empty cells are missing values. The units are
``%`` (0–100), ``points`` (differences of percentages), ``1`` (dimensionless), or the objects counted, such as
``images``.
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
"""Models whose confidence intervals are bootstrapped from published shares."""
DRAWS = {"seed": 20231, "replicates": 10_000}
"""Options of bootstraps for these models, which make results from published values identical in every run."""


@dataclass(frozen=True)
class ReferenceColumn:
    """One column of a published table."""

    unit: str | None  # Unit of the numbers; ``None`` if the values are text.
    description: str  # Meaning of the values.


@dataclass(frozen=True)
class ReferenceTable:
    """Description of a published table."""

    name: str  # Name for :func:`load`: ``<paper>_table_<number>``, or ``<paper>_text`` for values in running text.
    paper: str  # Short name of the paper.
    table: str  # Number of the printed table, ``arXiv <number>`` for tables of the arXiv version only, or ``text``.
    title: str  # Short title.
    section: str  # Section or appendix of the paper that prints the table.
    unit: str  # Unit of the main values.
    columns: Mapping[str, ReferenceColumn]  # Columns by name, in the order of the file.
    rows: int  # Number of rows in the file.
    notes: tuple[str, ...]  # Notes for computations, such as sample sizes and misprints.


def draws(model: str, **options: Any) -> dict[str, Any]:
    """Return ``options`` such as seed and replicates; for one of :data:`MODELS`, :data:`DRAWS` replaces these two."""
    return options | (DRAWS if model in MODELS else {})


def names() -> list[str]:
    """Return the names of all published tables, sorted, with numbers in numeric order."""
    files = (entry.name for entry in _DATA.iterdir() if entry.name.endswith(".json"))
    padded = {re.sub(r"\d+", lambda number: f"{number[0]:0>9}", name): name for name in files}
    return [padded[key].removesuffix(".json") for key in sorted(padded)]


def describe(name: str) -> ReferenceTable:
    """Return the description of the table ``name``. Raises UnknownNameError: The table does not exist."""
    if name not in (all_names := names()):
        raise unknown_name("published table", name, all_names)
    facts = json.loads((_DATA / f"{name}.json").read_text(encoding="utf-8"))
    columns = {key: ReferenceColumn(**column) for key, column in facts.pop("columns").items()}
    return ReferenceTable(name=name, columns=columns, notes=tuple(facts.pop("notes")), **facts)


def load(name: str) -> pd.DataFrame:
    """Return the table ``name``: text columns as strings, number columns as floats, and missing numbers as NaN.

    The result is a new DataFrame with the columns of :func:`describe`. Its ``attrs`` are ``name``, ``paper``,
    ``table``, ``title`` and ``unit``. Raises UnknownNameError: The table does not exist.
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
    """Return one row per published table, with the columns name, paper, table, title, unit and rows."""
    import pandas as pd

    columns = ["name", "paper", "table", "title", "unit", "rows"]
    return pd.DataFrame([vars(describe(name)) for name in names()], columns=columns)
