"""A table as a notebook shows it: labels and units from its declaration, an estimate with its interval in one cell."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from biaslab.errors import unknown_name
from biaslab.schema import formatting, tables
from biaslab.schema.formatting import MISSING

if TYPE_CHECKING:
    import pandas as pd


class TableView:
    """A table in words, which JupyterLab draws and a terminal prints."""

    def __init__(self, cells: pd.DataFrame, reasons: Sequence[str] = ()) -> None:
        """Take the cells, and of each row why values are missing, which is said where the mouse points at one."""
        self.cells, self._reasons = cells, list(reasons) or [""] * len(cells)

    def _repr_html_(self) -> str:
        cells = self.cells.map(escape).rename(columns=escape)
        for column in cells:
            gaps = zip(cells[column], self._reasons, strict=True)
            cells[column] = [
                f'<span title="{escape(why)}">{text}</span>' if why and text == MISSING else text for text, why in gaps
            ]
        return cells.to_html(index=False, border=0, escape=False)

    def __repr__(self) -> str:
        """Return it as plain text."""
        return self.cells.to_string(index=False)


def view_table(frame: pd.DataFrame, name: str, columns: Sequence[str] = ()) -> TableView:
    """Return rows of the table ``name`` in words.

    Limits stand beside their estimate, p-values as ``<0.001``, what is missing as ``–``, values by their labels; an
    index and columns without any value are left out.

    Args:
        frame: Rows of the table; other columns, such as those of a pivot, are shown under their names.
        name: The table that declares them.
        columns: Which of them are shown, in this order; all where it is empty.

    Raises:
        UnknownNameError: A column is none of the table's rows.
    """
    import pandas as pd

    if unknown := [column for column in columns if column not in frame.columns]:
        raise unknown_name(f"column of {name}", unknown[0], map(str, frame.columns))
    schema = tables.schema(name)
    declared = {column.name: column for column in schema.columns}
    known = [interval for interval in schema.intervals if {*interval[1:]} <= set(frame.columns)]
    # Of several intervals of a value the first declared stands beside it.
    limits = {value: (low, high) for value, low, high in reversed(known)}
    ends = {end for _, *pair in known for end in pair}
    chosen = columns or [c for c in frame.columns if c not in ends and (frame[c].notna() & (frame[c] != "")).any()]
    cells = {}
    for column in chosen:
        about = declared.get(column)
        texts = _texts(frame[column], str(column), about.labels if about else {})
        if column in limits:
            texts = map(formatting.format_with_ci, texts, *(frame[end] for end in limits[column]))
        words = " ".join(map(str, column)) if isinstance(column, tuple) else str(column)
        cells[formatting.column_header(words, about.unit if about else "")] = list(texts)
    told = [frame[c].fillna("").astype(str) for c in frame.columns if re.search(r"(^|_)reason$", str(c))]
    reasons = ["; ".join(filter(None, each)) for each in zip(*told, strict=True)]
    return TableView(pd.DataFrame(cells), reasons)


def _texts(values: pd.Series, column: str, labels: Mapping[str, str]) -> list[str]:
    """Return a column's cells in words."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
        return formatting.format_cells(values.astype(float).tolist(), column)
    return [
        MISSING if value is None or value != value or value == "" else labels.get(value, str(value)) for value in values
    ]
