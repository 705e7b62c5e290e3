"""The numbers that the four papers print, as tables.

``data/<name>.csv`` holds one printed table, tidy where it feeds a computation, and ``data/<name>.json``
says what it is: paper, table, title, section, unit, columns (each with a unit and a description), rows
and notes. A column whose unit is ``null`` holds text; any other holds numbers, and an empty cell in it is
missing. Units: ``%`` (0–100), ``points`` (differences of percentages), ``1`` (no dimension), or what is
counted, such as ``images``.
"""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType
from typing import TYPE_CHECKING

from biaslab.errors import InputError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

_DATA = resources.files(__name__) / "data"


@dataclass(frozen=True)
class PublishedColumn:
    """One column of a published table."""

    unit: str | None
    """Unit of the numbers; ``None`` where the values are text."""
    description: str
    """What the values mean."""


@dataclass(frozen=True)
class PublishedTable:
    """What a published table is."""

    name: str
    """Name to load it by: ``<paper>_table_<number>``, or ``<paper>_text`` for numbers in running text."""
    paper: str
    """Short name of the paper."""
    table: str
    """The printed table's number, ``arXiv <number>`` for the arXiv version's own, or ``text``."""
    title: str
    """What it shows, in a few words."""
    section: str
    """Section or appendix of the paper that prints it."""
    unit: str
    """Unit of its main values."""
    columns: Mapping[str, PublishedColumn]
    """Columns by name, in the file's order; read-only."""
    rows: int
    """Rows in the file."""
    notes: tuple[str, ...]
    """Sample sizes, misprints and other things to know before computing with it."""


def names() -> list[str]:
    """Return the names of all published tables, sorted, with numbers in numeric order."""

    def order(name: str) -> list:
        return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name)]

    found = (entry.name.removesuffix(".json") for entry in _DATA.iterdir() if entry.name.endswith(".json"))
    return sorted(found, key=order)


def describe(name: str) -> PublishedTable:
    """Return what the table ``name`` is.

    Raises:
        UnknownNameError: There is no such table.
        InputError: Its description is not what the module's docstring says.
    """
    known = names()
    if name not in known:
        raise unknown_name("published table", name, known)
    file = f"{name}.json"
    try:
        given = json.loads((_DATA / file).read_text(encoding="utf-8"))
        columns = {key: PublishedColumn(**column) for key, column in given.pop("columns").items()}
        notes = tuple(given.pop("notes"))
        return PublishedTable(name=name, columns=MappingProxyType(columns), notes=notes, **given)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{file} does not describe a published table: {error}.") from error


def load(name: str, provenance: bool = False) -> pd.DataFrame:
    """Return the table ``name``: text columns as strings, number columns as floats, missing as NaN.

    Args:
        name: One of :func:`names`.
        provenance: Whether to add the columns ``paper``, ``table`` and ``unit``; a table that has a column
            of that name, such as a unit for each row, keeps its own.

    Returns:
        A new frame with the columns of :func:`describe`, whose ``attrs`` hold ``name``, ``paper``,
        ``table``, ``title`` and ``unit``.

    Raises:
        UnknownNameError: There is no such table.
        InputError: The file does not fit its description.
    """
    import pandas as pd

    about = describe(name)
    file = f"{name}.csv"
    try:
        header, *rows = csv.reader(io.StringIO((_DATA / file).read_text(encoding="utf-8")), strict=True)
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"{file} cannot be read as UTF-8 CSV with a header: {error}.") from error
    if header != list(about.columns):
        raise InputError(f"{file} has the columns {header}; {name}.json describes {list(about.columns)}.")
    if len(rows) != about.rows:
        raise InputError(f"{file} has {len(rows)} rows; {name}.json says {about.rows}.")
    for number, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise InputError(f"{file}, row {number}: {len(row)} cells for {len(header)} columns.")

    frame = pd.DataFrame(rows, columns=header, dtype=str)
    for key, column in about.columns.items():
        if column.unit is not None:
            frame[key] = pd.Series([_number(cell, file, key) for cell in frame[key]], dtype=float)
    frame.attrs = {key: getattr(about, key) for key in ("name", "paper", "table", "title", "unit")}
    if provenance:
        for key in ("paper", "table", "unit"):
            if key not in frame:
                frame[key] = getattr(about, key)
    return frame


def _number(cell: str, file: str, column: str) -> float:
    # A decimal as papers print it: Python's float() would also take "nan", "inf" and "1_000".
    if cell and not re.fullmatch(r"-?\d+(\.\d+)?", cell, re.ASCII):
        raise InputError(f"{file}: {column} holds {cell!r}, which is not a decimal number.")
    return float(cell) if cell else float("nan")


def index() -> pd.DataFrame:
    """Return one row per published table: name, paper, table, title, unit, rows."""
    import pandas as pd

    columns = ["name", "paper", "table", "title", "unit", "rows"]
    tables = [describe(name) for name in names()]
    return pd.DataFrame([[getattr(table, key) for key in columns] for table in tables], columns=columns)
