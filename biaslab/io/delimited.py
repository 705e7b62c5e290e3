"""One reader of delimited text: tables and lines that people, spreadsheets and crawls save.

It finds out how a file is written, by its first bytes, the end of its name and its first line, and reads it in pieces.
It is strict where a lenient one loses rows in silence: a quotation mark that is never closed, and a row with more cells
than the header, are errors that name the line.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import itertools
import zlib
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from biaslab.errors import InputError
from biaslab.io import reading

if TYPE_CHECKING:
    import pandas as pd

MOST_COLUMNS = 1000
"""Columns of a table that a user brings; one with more is refused before any of its rows is read."""
MOST_CELLS = 300_000_000
"""Cells of a table that is held as a whole."""
LONGEST_LINE = 16 * 2**20
"""Characters of a line, and of a cell, at most."""
# Lines of a cell between tabs.
_MOST_LINES = 100
# Rows that are made into columns at a time.
_PIECE = 2**14
# Characters of a row, which may go over several lines.
_LONGEST_ROW = 2 * LONGEST_LINE
SEPARATORS = (",", ";", "\t", "|")
# What files begin with that say how they are written; the longer first, as one begins with the other.
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


@contextlib.contextmanager
def open_text(path: Path) -> Iterator[Any]:
    """Open a file's bytes, decompressed where its name ends in ``.gz``; one that breaks off is an InputError."""
    try:
        reading.check(path)
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
            yield file
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"{path} cannot be read to its end: {error}") from None


def lines(path: Path, *, ends: str = "\n", strict: bool = False) -> Iterator[str]:
    """Yield the lines of a file of text, with their ends.

    It is UTF-8, or UTF-16 or UTF-32 that begins with the mark of its byte order; plain, or compressed as ``.gz``.
    ``ends`` is what ends a line: a line feed, or with ``""`` a carriage return, too. Bytes that are none of the
    encoding become U+FFFD.

    Raises InputError: A line is longer than 16 million characters, the file breaks off, is UTF-16 without a mark, or,
    with ``strict``, it is not of its encoding.
    """
    with open_text(path) as file:
        file = file if hasattr(file, "peek") else io.BufferedReader(file)
        start = file.peek(4)[:4]
        encoding = next((name for mark, name in _MARKS.items() if start.startswith(mark)), "utf-8")
        if encoding == "utf-8" and start[:2].count(0) == 1:
            raise InputError(f"{path} holds null bytes (UTF-16 without a mark, or no text): save as UTF-8.")
        text = io.TextIOWrapper(file, encoding, errors="strict" if strict else "replace", newline=ends)
        number = 0
        try:
            while line := text.readline(LONGEST_LINE):
                number += 1
                if len(line) == LONGEST_LINE and not line.endswith(("\n", "\r")):
                    raise InputError(
                        f"{path}, line {number} is longer than {LONGEST_LINE:,} characters; that is no such file."
                    )
                yield line
        except UnicodeError as error:
            name = "UTF-8" if encoding.startswith("utf-8") else encoding.upper()
            raise reading.encoding_error(path, error, name, number) from None


def separator(first_line: str, usual: str = ",") -> str:
    """Return what separates the columns of a file that begins with a line: ``usual``, if it parts that line at all.

    Elsewhere it is the one of :data:`SEPARATORS` that makes the most of it, and ``usual`` where none does.
    """
    counts = {one: len(_parsed([first_line], one, strict=False)) for one in (usual, *SEPARATORS)}
    return usual if counts[usual] > 1 else max(counts, key=counts.__getitem__)


def rows(
    path: Path, *, usual: str = ",", literal: bool = False, strict: bool = False, fix: str = ""
) -> Iterator[list[str]]:
    """Yield the rows of a file that are not blank, header and all, each as wide as the first.

    Columns are separated as :func:`separator` finds from the first line, ``usual`` being what does it as a rule, or as
    a line ``sep=…`` before it says. With ``literal``, a quotation mark that is not closed is part of a cell where tabs
    separate them, as in published captions. With ``strict`` a row of fewer cells than the header is an error, and so
    are bytes of another encoding; it is filled elsewhere. ``fix`` is what is said of a file with too many columns.

    Raises InputError: As for :func:`lines`; a quotation mark is not closed, a row has more cells than the header, or it
    has more than :data:`MOST_COLUMNS`.
    """
    # The limit is one of the process; a cell longer than that is as good as any.
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
    source = _Counted(lines(path, ends="", strict=strict))
    by = separator(source.header(), usual)
    if (said := source.peek().rstrip("\r\n")).lower().startswith("sep=") and len(said) == 5:
        by = next(source)[4]
        source.header()
    literal = literal and by == "\t"
    reader = _tabbed(source) if literal else csv.reader(source, delimiter=by, strict=True)
    width = 0
    try:
        for row in reader:
            begins, source.begins, source.held = source.begins, source.number + 1, 0
            # Of a table that a spreadsheet saved, rows without a word are no rows.
            if not row or (strict and not any(map(str.strip, row))):
                continue
            if len(row) == width:
                yield row
                continue
            if not width:
                width = len(row)
                check_width(width, path, fix)
            if len(row) > width or (strict and len(row) < width):
                few = "" if len(row) > width else " A cell that is empty needs its separator, too."
                raise InputError(
                    f"{path} cannot be read as CSV: line {begins} has {len(row)} cells and the first row has {width}. "
                    f"Put a cell that contains a separator in quotation marks.{few}"
                )
            yield [*row, *[""] * (width - len(row))]
    except csv.Error as error:
        raise InputError(
            f"{path} cannot be read as CSV: in the row that begins in line {source.begins}, {error}. Is a quotation "
            "mark not closed, or not doubled within a cell?"
        ) from None


class _Counted:
    """Lines of a file, by their numbers, of which a row holds so many characters and no more."""

    def __init__(self, source: Iterator[str]) -> None:
        self._source = source
        self._ahead: deque[str] = deque()
        self.number, self.begins, self.held = 0, 1, 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._ahead.popleft() if self._ahead else next(self._source)
        self.number += 1
        self.held += len(line)
        if self.held > _LONGEST_ROW:
            raise csv.Error(f"it is longer than {_LONGEST_ROW:,} characters")
        return line

    def peek(self) -> str:
        """Return the next line; empty at the end."""
        if not self._ahead:
            self._ahead.extend(itertools.islice(self._source, 1))
        return self._ahead[0] if self._ahead else ""

    def back(self, taken: list[str]) -> None:
        """Take some lines back, to be read again."""
        self._ahead.extendleft(reversed(taken))
        self.number -= len(taken)
        self.held -= sum(map(len, taken))

    def header(self) -> str:
        """Return the first line that is not blank, which is to be read next."""
        while self.peek() and not self.peek().strip():
            next(self)
        self.begins, self.held = self.number + 1, 0
        return self.peek()


def _tabbed(source: _Counted) -> Iterator[list[str]]:
    """Yield rows of cells between tabs, in which a quotation mark may be one of a caption."""
    width = 0
    for line in source:
        row = _split(line)
        if '"' in line and any(cell.startswith('"') for cell in row):
            row = _quoted(source, line, width) or row
        width = width or len(row)
        yield row


def _split(line: str) -> list[str]:
    line = line.rstrip("\r\n")
    return line.split("\t") if line else []


def _quoted(source: _Counted, line: str, width: int) -> list[str]:
    """Return a row whose cells stand in quotation marks, over several lines if need be; empty for captions'."""
    ends_early = short = len(_split(line)) < width
    taken: list[str] = []
    while not (row := _parsed([line, *taken])):
        more = source.peek()
        if not more or len(taken) == _MOST_LINES or not (short or len(_split(more)) < width):
            source.back(taken)
            if ends_early:
                raise csv.Error("a cell begins with a quotation mark and the line ends before the row does")
            return []
        taken.append(next(source))
        # With the last of its cells a row may end.
        short = short and len(_split(taken[-1])) < width
    return row


def _parsed(some: list[str], by: str = "\t", *, strict: bool = True) -> list[str]:
    """Return the cells of the one row that some lines are; empty where they are none, or several."""
    try:
        found = list(csv.reader(some, delimiter=by, strict=strict))
    except csv.Error:
        return []
    return found[0] if len(found) == 1 else []


def table(path: Path, *, usual: str = ",", fix: str = "") -> pd.DataFrame:
    """Return the cells of a whole file as text, read strictly as by :func:`rows`, by the names in its header.

    ``fix`` is what is said of one with too many columns or cells.

    Raises InputError: As for :func:`rows`; the file is empty, or it has more than :data:`MOST_CELLS` cells.
    """
    import pyarrow as pa

    found = rows(path, usual=usual, strict=True, fix=fix)
    header = next(found, None)
    if header is None:
        raise InputError(f"{path} is empty; it needs a header and rows.")
    pieces: list[list[Any]] = [[] for _ in header]
    left = MOST_CELLS // len(header)
    while piece := list(itertools.islice(found, _PIECE)):
        left -= len(piece)
        if left < 0:
            raise InputError(f"{path} has more than {MOST_CELLS:,} cells, too many to hold. {fix}".rstrip())
        for column, cells in zip(pieces, zip(*piece, strict=True), strict=True):
            column.append(pa.array(cells, pa.large_string()))
    columns = [pa.chunked_array(column, pa.large_string()) for column in pieces]
    return pa.table(columns, names=[str(i) for i in range(len(header))]).to_pandas().set_axis(header, axis=1)


def check_width(columns: int, where: object, fix: str = "") -> None:
    """Check that a table that a user brings has at most :data:`MOST_COLUMNS` columns; else an InputError."""
    if columns > MOST_COLUMNS:
        raise InputError(
            f"{where} has {columns:,} columns; at most {MOST_COLUMNS:,} are read. Is it separated by another character "
            f"than it should be, or turned on its side? {fix or 'Keep the columns that are needed.'}"
        )
