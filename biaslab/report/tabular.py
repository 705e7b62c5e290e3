"""A CSV table of a run, read as text and laid out for a page."""

from __future__ import annotations

import csv
import math
import re
from dataclasses import dataclass, field
from html import escape
from itertools import islice
from pathlib import Path

from biaslab.report.pages import clean_text

# A number as a CSV writer prints it. "007" is a name, not a number.
_NUMBER = re.compile(
    r"[-+]?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?|[-+]?inf(?:inity)?", re.IGNORECASE
)
_INTEGER = re.compile(r"[-+]?\d+")
_MISSING = {"", "nan", "na", "<na>", "null"}
# Characters of a cell that a page shows, and that a number has at most.
_LONGEST_CELL, _LONGEST_NUMBER = 400, 40
# Characters of a cell that are read; csv's own limit is lower than what a caption may have.
_FIELD_LIMIT = 64 * 2**20
_DASH = '<td class="n none"><span title="{why}">–</span>'


@dataclass
class Table:
    """The part of a table that a page shows."""

    header: list[str] = field(default_factory=list)
    numeric: list[bool] = field(default_factory=list)  # Which columns hold numbers.
    rows_html: str = ""  # The shown rows as ``<tr>`` elements, all text escaped.
    shown: int = 0  # Rows shown.
    total: int = 0  # Rows in the file.
    problem: str = ""  # Why nothing is shown.


def read_table(path: Path | None, *, whole_up_to: int, otherwise: int) -> Table:
    """Read a CSV file (UTF-8, header row) for showing: all rows, or of more than ``whole_up_to`` the first
    ``otherwise``.

    A file that cannot be read gives a table without rows whose ``problem`` says why: one must not cost the report.
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
    numeric = [_is_numeric(column) for column in columns]
    return Table(
        header=[clean_text(_cut(name)) for name in header],
        numeric=numeric,
        rows_html=_rows_html(header, columns, numeric),
        shown=len(rows),
        total=total,
    )


def format_number(text: str, decimals: int) -> str:
    """Return a number of a CSV file as a reader wants it: ``decimals`` places, or two significant digits.

    The second form is for values so small that ``decimals`` places would hide them (0.0004 at two places).
    """
    if decimals == 0 and _INTEGER.fullmatch(text):
        return text  # as written: a float would round a long identifier
    value = float(text)
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if decimals and 0 < abs(value) < 10.0 ** (1 - decimals):
        return f"{value:.2g}"
    return f"{value:.{decimals}f}"


def column_decimals(values: list[str]) -> int:
    """Return how many decimals a column of numbers is shown with: about four significant digits, none for counts."""
    numbers = [number for number in map(float, values) if math.isfinite(number)]
    if all(number.is_integer() for number in numbers):
        return 0
    biggest = max(abs(number) for number in numbers)
    wanted = 1 if biggest >= 1000 else 2 if biggest >= 10 else 3 if biggest > 1 else 4
    if any("e" in text.lower() for text in values):
        return wanted
    written = max(len(text.partition(".")[2]) for text in values)
    return min(wanted, written)


def _is_missing(cell: str) -> bool:
    return cell.strip().lower() in _MISSING


def _is_numeric(column: list[str]) -> bool:
    present = [cell.strip() for cell in column if not _is_missing(cell)]
    return bool(present) and all(len(cell) <= _LONGEST_NUMBER and _NUMBER.fullmatch(cell) for cell in present)


def _rows_html(header: list[str], columns: list[list[str]], numbers: list[bool]) -> str:
    # End tags of <tr> and <td> are optional in HTML; without them a table of 2,000 rows is a third smaller.
    named = list(zip(header, columns, strict=True))
    reasons = [column for name, column in named if re.search(r"(^|_)reason$", name, re.IGNORECASE)]
    whys = ["; ".join(t for t in texts if not _is_missing(t)) for texts in zip(*reasons, strict=True)]
    shown = []
    for (name, column), numeric in zip(named, numbers, strict=True):
        # A column without any value is a column of gaps, unless it is where reasons and remarks stand.
        remarks = re.search(r"reason|note|remark|comment", name, re.IGNORECASE)
        gaps = numeric or (not remarks and all(map(_is_missing, column)))
        decimals = column_decimals([c.strip() for c in column if not _is_missing(c)]) if numeric else 0
        cells = []
        for cell, why in zip(column, whys or [""] * len(column), strict=True):
            if gaps and _is_missing(cell):
                cells.append(_DASH.format(why=escape(_cut(clean_text(why or "no value")))))
            elif numeric:
                cells.append(f"<td class=n>{format_number(cell.strip(), decimals)}")
            else:
                cells.append(f"<td>{escape(clean_text(cell))}")
        shown.append(cells)
    return "\n".join("<tr>" + "".join(cells) for cells in zip(*shown, strict=True))


def _cut(text: str) -> str:
    """Shorten a very long text; the file holds it whole."""
    return text if len(text) <= _LONGEST_CELL else text[:_LONGEST_CELL] + " …"
