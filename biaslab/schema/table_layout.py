"""A table laid out for readers: labels and units from its declaration, an estimate with its interval in one cell.

Notebooks and the pages of runs and comparisons show the same layout; its LaTeX and Markdown are made of the page's.
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

# Characters of a cell that are shown; the table's file has it whole.
_LONGEST_CELL = 400
MISSING = "–"
"""What represents a missing number."""


@dataclass(frozen=True)
class ColumnLayout:
    """A column of a table as readers see it."""

    name: str  # As in the table's file.
    heading: str  # The name in words, with the unit.
    numeric: bool
    cells: list[str | None]  # Texts by row; None where a number is missing.


@dataclass(frozen=True)
class TableLayout:
    """A table as readers see it."""

    columns: list[ColumnLayout]
    reasons: list[str]  # By row: why numbers are missing; empty where the table does not say.
    total: int  # Rows of the table; the first of them are laid out.

    def html(self, most: int | None = None) -> str:
        """Return head and body of an HTML table of at most ``most`` rows, all text escaped.

        Columns of numbers have the class ``n``, missing numbers also ``none`` and a title with the reason.
        """
        kinds = [' class="n"' if column.numeric else "" for column in self.columns]
        headings = (escape(column.heading) for column in self.columns)
        head = "".join(f'<th scope="col"{kind}>{heading}</th>' for kind, heading in zip(kinds, headings, strict=True))
        body = []
        rows = zip(self.reasons, *(column.cells for column in self.columns), strict=True)
        for reason, *texts in islice(rows, most):
            missing = f'<td class="n none"><span title="{escape(reason or "no value")}">{MISSING}</span></td>'
            cells = zip(kinds, texts, strict=True)
            row = "".join(missing if text is None else f"<td{kind}>{escape(text)}</td>" for kind, text in cells)
            body.append(f"<tr>{row}</tr>")
        return "\n".join([f"<thead><tr>{head}</tr></thead>", "<tbody>", *body, "</tbody>"])

    def _repr_html_(self) -> str:
        # JupyterLab takes what stands between two dollar signs for mathematics, unless a class says otherwise.
        return f'<table class="data mathjax_ignore">\n{self.html()}\n</table>'

    def __repr__(self) -> str:
        """Return it as plain text."""
        import pandas as pd

        rows = list(zip(*(column.cells for column in self.columns), strict=True))
        shown = pd.DataFrame(rows, columns=[column.heading for column in self.columns])
        return shown.fillna(MISSING).to_string(index=False)


def lay_out(
    frame: pd.DataFrame, declared: Schema, columns: Sequence[str] = (), *, most: int | None = None
) -> TableLayout:
    """Return the layout of rows of a table.

    Numbers have three significant digits, and p-values below 0.001 are ``<0.001``. Labels replace values. The limits of
    an estimate follow it in its cell; of several intervals the first declared does, and the others are left out.

    Args:
        frame: Rows of the table; columns that are not declared, such as those of a pivot, keep their names.
        declared: The table's declaration.
        columns: The columns to show, in order; where it is empty, all that have a value in any row, but no index.
        most: How many rows are laid out at most; all where it is None.

    Raises:
        UnknownNameError: A column is none of the frame's.
    """
    if unknown := [column for column in columns if column not in frame.columns]:
        raise unknown_name(f"column of {declared.name}", unknown[0], map(str, frame.columns))
    intervals = [interval for interval in declared.intervals if {*interval} <= {*frame.columns}]
    limits = {estimate: (low, high) for estimate, low, high in reversed(intervals)}
    ends = {end for _, *both in intervals for end in both}
    chosen = columns or [c for c in frame.columns if c not in ends and (frame[c].notna() & (frame[c] != "")).any()]
    rows = frame.head(len(frame) if most is None else most)
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
    given = values.notna()
    if numeric:
        texts = formatting.format_cells(values[given].tolist(), name)
    else:
        texts = [_cut(labels.get(value, str(value))) for value in values[given]]
    remaining = iter(texts)
    # A text may be empty: only numbers are missing.
    cells = [next(remaining) if present else None if numeric else "" for present in given]
    if limits:
        cells = [
            text and formatting.format_with_ci(text, low, high) for text, low, high in zip(cells, *limits, strict=True)
        ]
    return ColumnLayout(name, _cut(heading), numeric, cells)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_CELL else text[:_LONGEST_CELL] + " …"
