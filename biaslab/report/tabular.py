"""A CSV table of a run, read as text and laid out for a page."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from biaslab.report.pages import clean_text
from biaslab.schema import formatting
from biaslab.schema.formatting import MISSING

# A number as a CSV writer prints it. "007" is a name, not a number.
_NUMBER = re.compile(r"[-+]?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?|[-+]?inf(?:inity)?", re.IGNORECASE)
_INTEGER = re.compile(r"[-+]?\d+")
_GAPS = {"", "nan", "na", "<na>", "null"}
# Characters of a cell that a page shows, and that a number has at most.
_LONGEST_CELL, _LONGEST_NUMBER = 400, 40
# Characters of a cell that are read; csv's own limit is lower than what a caption may have.
_FIELD_LIMIT = 64 * 2**20
_DASH = '<td class="n none"><span title="{why}">–</span>'


@dataclass
class Table:
    """The part of a table that a page shows."""

    header: list[str] = field(default_factory=list)  # The columns that are shown, by their names in the file.
    numeric: list[bool] = field(default_factory=list)  # Which columns hold numbers.
    rows_html: str = ""  # The shown rows as ``<tr>`` elements, all text escaped.
    shown: int = 0  # Rows shown.
    total: int = 0  # Rows in the file.
    problem: str = ""  # Why nothing is shown.


class _Column(NamedTuple):
    name: str
    numeric: bool
    cells: list[str]  # As HTML, without end tags.


def read_table(
    path: Path | None, *, whole_up_to: int, otherwise: int, told: Mapping[str, Mapping] | None = None
) -> Table:
    """Read a CSV file (UTF-8, header row) for showing: all rows, or of more than ``whole_up_to`` the first
    ``otherwise``.

    Cells are in words as a notebook shows them. ``told`` says of a column by name of which estimate it is a limit
    (``of``) and its ``labels``. A file that cannot be read gives a table whose ``problem`` says why.
    """
    if path is None:
        return Table(problem="The file is missing from the run folder.")
    try:
        csv.field_size_limit(max(csv.field_size_limit(), _FIELD_LIMIT))
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            header = next(reader, None)
            if not header:
                return Table(problem="The file is empty.")
            rows = [[_cut(cell) for cell in row] for row in islice(reader, whole_up_to + 1) if row]
            total = len(rows) + sum(1 for row in reader if row)
    except UnicodeDecodeError:
        return Table(problem="The file is not UTF-8 text.")
    except (OSError, csv.Error) as error:
        return Table(problem=f"The file cannot be read: {error}.")
    rows = rows[:otherwise] if total > whole_up_to else rows
    width = len(header)
    rows = [row[:width] + [""] * (width - len(row)) for row in rows]
    columns = [[row[index] for row in rows] for index in range(width)]
    columns = _shown([clean_text(_cut(name)) for name in header], columns, told or {})
    # End tags of <tr> and <td> are optional in HTML; without them a table of 2,000 rows is a third smaller.
    cells = zip(*(column.cells for column in columns), strict=True)
    return Table(
        header=[column.name for column in columns],
        numeric=[column.numeric for column in columns],
        rows_html="\n".join("<tr>" + "".join(row) for row in cells),
        shown=len(rows),
        total=total,
    )


def _is_missing(cell: str) -> bool:
    return cell.strip().lower() in _GAPS


def _is_numeric(column: list[str]) -> bool:
    present = [cell.strip() for cell in column if not _is_missing(cell)]
    return bool(present) and all(len(cell) <= _LONGEST_NUMBER and _NUMBER.fullmatch(cell) for cell in present)


def _shown(names: list[str], columns: list[list[str]], told: Mapping[str, Mapping]) -> list[_Column]:
    """Return the columns that are shown: limits beside their estimate, and none without any value but one of gaps."""
    numbers = {
        name: [math.nan if _is_missing(cell) else float(cell) for cell in column]
        for name, column in zip(names, columns, strict=True)
        if _is_numeric(column)
    }
    ends: dict[str, list[str]] = {}
    for name in names:
        if (of := told.get(name, {}).get("of")) in numbers and name in numbers:
            ends.setdefault(of, []).append(name)
    # Of several intervals of a value the first declared stands beside it.
    beside = {of: pair[:2] for of, pair in ends.items() if len(pair) > 1}
    inside = {name for of in beside for name in ends[of]}
    reasons = [c for name, c in zip(names, columns, strict=True) if re.search(r"(^|_)reason$", name, re.IGNORECASE)]
    whys = ["; ".join(t for t in texts if not _is_missing(t)) for texts in zip(*reasons, strict=True)]
    whys = whys or [""] * len(columns[0])
    shown = []
    for name, column in zip(names, columns, strict=True):
        if name in inside:
            continue
        about, numeric = told.get(name, {}), name in numbers
        if numeric and all(_INTEGER.fullmatch(cell.strip()) for cell in column if not _is_missing(cell)):
            # A float would round a long identifier.
            texts = [MISSING if _is_missing(cell) else f"{int(cell):,}" for cell in column]
        elif numeric:
            texts = formatting.format_cells(numbers[name], name)
        else:
            labels = about.get("labels") or {}
            texts = [clean_text(labels.get(cell, cell)) for cell in column]
        if name in beside:
            texts = list(map(formatting.format_with_ci, texts, *(numbers[end] for end in beside[name])))
        # A column without any value is a column of gaps, unless it is where reasons and remarks stand.
        remarks = re.search(r"reason|note|remark|comment", name, re.IGNORECASE)
        gaps = numeric or (not remarks and all(map(_is_missing, column)))
        html = [
            _DASH.format(why=escape(_cut(clean_text(why or "no value"))))
            if gaps and _is_missing(cell)
            else f"<td class=n>{escape(text)}"
            if numeric
            else f"<td>{escape(text)}"
            for cell, text, why in zip(column, texts, whys, strict=True)
        ]
        shown.append(_Column(name, numeric, html))
    return shown


def _cut(text: str) -> str:
    """Shorten a very long text; the file holds it whole."""
    return text if len(text) <= _LONGEST_CELL else text[:_LONGEST_CELL] + " …"
