"""Layout of tables for readers: labels and units from the declaration, an estimate with its interval in one cell.

Notebooks and the pages of runs and comparisons share this layout; LaTeX and Markdown are generated from the pages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import islice
from typing import TYPE_CHECKING

from biaslab.errors import unknown_name
from biaslab.schema import formatting
from biaslab.schema.tables import Column, Schema

if TYPE_CHECKING:
    import pandas as pd

# Maximum characters shown of a cell; the table's file has the full text.
_MAX_CELL_LENGTH = 400
MISSING = "–"
"""Text for a missing number."""


@dataclass(frozen=True)
class ColumnLayout:
    """The layout of a column of a table."""

    name: str  # As in the table's file.
    heading: str  # The name in words, with the unit.
    numeric: bool
    cells: list[str | None]  # Texts by row; None where a number is missing.


@dataclass(frozen=True)
class TableLayout:
    """The layout of a table."""

    columns: list[ColumnLayout]
    reasons: list[str]  # By row: why numbers are missing; empty where the table gives no reason.
    total: int  # Number of rows of the table, of which the layout has the first ones.

    def html(self, max_rows: int | None = None) -> str:
        """Return head and body of an HTML table of at most ``max_rows`` rows, all text escaped.

        Columns of numbers have the class ``n``, missing numbers also ``none`` and a title with the reason.
        """
        kinds = [' class="n"' if column.numeric else "" for column in self.columns]
        headings = (escape(column.heading) for column in self.columns)
        head = "".join(f'<th scope="col"{kind}>{heading}</th>' for kind, heading in zip(kinds, headings, strict=True))
        body = []
        rows = zip(self.reasons, *(column.cells for column in self.columns), strict=True)
        for reason, *texts in islice(rows, max_rows):
            missing = f'<td class="n none"><span title="{escape(reason or "no value")}">{MISSING}</span></td>'
            cells = zip(kinds, texts, strict=True)
            row = "".join(missing if text is None else f"<td{kind}>{escape(text)}</td>" for kind, text in cells)
            body.append(f"<tr>{row}</tr>")
        return "\n".join([f"<thead><tr>{head}</tr></thead>", "<tbody>", *body, "</tbody>"])

    def _repr_html_(self) -> str:
        # Without this class, JupyterLab renders text between two dollar signs as mathematics.
        return f'<table class="data mathjax_ignore">\n{self.html()}\n</table>'

    def __repr__(self) -> str:
        """Return the table as plain text."""
        import pandas as pd

        rows = list(zip(*(column.cells for column in self.columns), strict=True))
        frame = pd.DataFrame(rows, columns=[column.heading for column in self.columns])
        return frame.fillna(MISSING).to_string(index=False)


def lay_out(
    frame: pd.DataFrame, declared: Schema, columns: Sequence[str] = (), *, max_rows: int | None = None
) -> TableLayout:
    """Return the layout of rows of a table.

    Numbers have three significant digits, and p-values below 0.001 are ``<0.001``. Labels replace values. The limits of
    an estimate follow it in its cell; if it has several intervals, only the first declared one is shown.

    Args:
        frame: Rows of the table; columns that are not declared, such as those of a pivot, keep their names.
        declared: The table's declaration.
        columns: The columns to show, in order; empty for all with a value in any row, without the index.
        max_rows: Maximum number of rows in the layout; None for all.

    Raises:
        UnknownNameError: The frame has no such column.
    """
    if unknown := [column for column in columns if column not in frame.columns]:
        raise unknown_name(f"column of {declared.name}", unknown[0], map(str, frame.columns))
    intervals = [interval for interval in declared.intervals if {*interval} <= {*frame.columns}]
    limits = {estimate: (low, high) for estimate, low, high in reversed(intervals)}
    ends = {end for _, *pair in intervals for end in pair}
    chosen = columns or [c for c in frame.columns if c not in ends and (frame[c].notna() & (frame[c] != "")).any()]
    rows = frame.head(len(frame) if max_rows is None else max_rows)
    columns_by_name = {column.name: column for column in declared.columns}
    reasons = [rows[c].fillna("").astype(str) for c in rows.columns if re.search(r"(^|_)reason$", str(c))]
    return TableLayout(
        [
            _lay_out_column(rows[column], columns_by_name.get(column), [rows[end] for end in limits.get(column, ())])
            for column in chosen
        ],
        [_cut("; ".join(filter(None, texts))) for texts in zip(*reasons, strict=True)] or [""] * len(rows),
        len(frame),
    )


def _lay_out_column(values: pd.Series, declared: Column | None, limits: Sequence[pd.Series]) -> ColumnLayout:
    import pandas as pd

    name = " ".join(map(str, values.name)) if isinstance(values.name, tuple) else str(values.name)
    heading = formatting.column_header(name, declared.unit if declared else "")
    numeric = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
    labels = declared.labels if declared else {}
    is_present = values.notna()
    if numeric:
        texts = formatting.format_cells(values[is_present].tolist(), name)
    else:
        texts = [_cut(labels.get(value, str(value))) for value in values[is_present]]
    remaining = iter(texts)
    # A text may be empty: only numbers are missing.
    cells = [next(remaining) if present else None if numeric else "" for present in is_present]
    if limits:
        cells = [
            text and formatting.format_with_ci(text, low, high) for text, low, high in zip(cells, *limits, strict=True)
        ]
    return ColumnLayout(name, _cut(heading), numeric, cells)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_CELL_LENGTH else text[:_MAX_CELL_LENGTH] + " …"
