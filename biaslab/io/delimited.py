"""Reader of delimited text: tables and lines written by people, spreadsheets and crawlers.

It detects the format by the first bytes, the extension and the first line, and reads the file in pieces. It is strict
where a lenient reader would silently lose rows: a quotation mark that is never closed, and a row with more cells than
the header, are errors that name the line.
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

MAX_COLUMNS = 1000
"""Maximum columns of a user-supplied table; a wider one is refused before any of its rows is read."""
MAX_CELLS = 300_000_000
"""Maximum cells of a table that is read into memory."""
LONGEST_LINE = 16 * 2**20
"""Maximum characters of a line, and of a cell."""
# Maximum lines of a cell between tabs.
_MOST_LINES = 100
# Rows that are converted to columns at a time.
_PIECE = 2**14
# Maximum characters of a row, which may have several lines.
_LONGEST_ROW = 2 * LONGEST_LINE
SEPARATORS = (",", ";", "\t", "|")
# Encodings by byte order mark; longer marks first, because one is the start of another.
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


@contextlib.contextmanager
def open_text(path: Path) -> Iterator[Any]:
    """Open a file's bytes, decompressed if its name ends in ``.gz``. Raises InputError: The file is truncated."""
    try:
        reading.check(path)
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
            yield file
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"{path} cannot be read to its end: {error}") from None


def lines(path: Path, *, ends: str = "\n", strict: bool = False) -> Iterator[str]:
    """Yield the lines of a file of text, with their ends.

    The encoding is UTF-8, or UTF-16 or UTF-32 with a byte order mark; the file is plain, or compressed as ``.gz``.
    ``ends`` is the line terminator: a line feed, or with ``""`` a carriage return, too. Bytes that are invalid in the
    encoding become U+FFFD.

    Raises InputError: A line is longer than 16 million characters, the file is truncated, is UTF-16 without a mark, or,
    with ``strict``, has invalid bytes.
    """
    with open_text(path) as file:
        file = file if hasattr(file, "peek") else io.BufferedReader(file)
        start = file.peek(4)[:4]
        encoding = next((name for mark, name in _MARKS.items() if start.startswith(mark)), "utf-8")
        if encoding == "utf-8" and start[:2].count(0) == 1:
            raise InputError(
                f"{path} contains null bytes (it is UTF-16 without a byte order mark, or not text). Save it as UTF-8."
            )
        text = io.TextIOWrapper(file, encoding, errors="strict" if strict else "replace", newline=ends)
        number = 0
        try:
            while line := text.readline(LONGEST_LINE):
                number += 1
                if len(line) == LONGEST_LINE and not line.endswith(("\n", "\r")):
                    raise InputError(
                        f"{path}, line {number} is longer than {LONGEST_LINE:,} characters; check that it is a text "
                        "file."
                    )
                yield line
        except UnicodeError as error:
            name = "UTF-8" if encoding.startswith("utf-8") else encoding.upper()
            raise reading.encoding_error(path, error, name, number) from None


def separator(first_line: str, usual: str = ",") -> str:
    """Return the separator of columns of a file, given its first line: ``usual``, if it occurs in that line.

    Otherwise it is the one of :data:`SEPARATORS` that gives the most cells, or ``usual`` if none occurs.
    """
    counts = {mark: len(_parse_row([first_line], mark, strict=False)) for mark in (usual, *SEPARATORS)}
    return usual if counts[usual] > 1 else max(counts, key=counts.__getitem__)


def rows(
    path: Path, *, usual: str = ",", literal: bool = False, strict: bool = False, fix: str = ""
) -> Iterator[list[str]]:
    """Yield the rows of a file that are not blank, including the header, each as wide as the first.

    The separator of columns is that of :func:`separator` for the first line, with ``usual`` as its default, or that of
    a line ``sep=…`` before it. With ``literal``, an unclosed quotation mark between tabs is part of a cell, as in
    published captions. With ``strict``, rows with fewer cells than the header, and invalid bytes, are errors; otherwise
    such rows are padded with empty cells. ``fix`` is the end of the error about too many columns.

    Raises InputError: As for :func:`lines`; a quotation mark is not closed, a row has more cells than the header, or it
    has more than :data:`MAX_COLUMNS`.
    """
    # The limit applies to the whole process and is only increased.
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
    source = _LineSource(lines(path, ends="", strict=strict))
    delimiter = separator(source.header(), usual)
    if (first_line := source.peek().rstrip("\r\n")).lower().startswith("sep=") and len(first_line) == 5:
        delimiter = next(source)[4]
        source.header()
    literal = literal and delimiter == "\t"
    reader = _read_tabbed(source) if literal else csv.reader(source, delimiter=delimiter, strict=True)
    width = 0
    try:
        for row in reader:
            row_start, source.row_start, source.n_characters = source.row_start, source.number + 1, 0
            # Rows without text, as spreadsheets save them, are skipped.
            if not row or (strict and not any(map(str.strip, row))):
                continue
            if len(row) == width:
                yield row
                continue
            if not width:
                width = len(row)
                check_width(width, path, fix)
            if len(row) > width or (strict and len(row) < width):
                hint = "" if len(row) > width else " Empty cells need separators, too."
                raise InputError(
                    f"{path} cannot be read as CSV: line {row_start} has {len(row)} cells, but the first row has "
                    f"{width}. Enclose cells that contain a separator in quotation marks.{hint}"
                )
            yield [*row, *[""] * (width - len(row))]
    except csv.Error as error:
        raise InputError(
            f"{path} cannot be read as CSV: in the row that begins in line {source.row_start}, {error}. Check for a "
            "quotation mark that is not closed, or not doubled within a cell."
        ) from None


class _LineSource:
    """Lines of a file with line numbers and a limit of characters per row."""

    def __init__(self, source: Iterator[str]) -> None:
        self._source = source
        self._ahead: deque[str] = deque()
        self.number, self.row_start, self.n_characters = 0, 1, 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._ahead.popleft() if self._ahead else next(self._source)
        self.number += 1
        self.n_characters += len(line)
        if self.n_characters > _LONGEST_ROW:
            raise csv.Error(f"there are more than {_LONGEST_ROW:,} characters")
        return line

    def peek(self) -> str:
        """Return the next line; empty at the end."""
        if not self._ahead:
            self._ahead.extend(itertools.islice(self._source, 1))
        return self._ahead[0] if self._ahead else ""

    def push_back(self, texts: list[str]) -> None:
        """Push lines back, to be read again."""
        self._ahead.extendleft(reversed(texts))
        self.number -= len(texts)
        self.n_characters -= sum(map(len, texts))

    def header(self) -> str:
        """Skip blank lines, and return the next line without reading it."""
        while self.peek() and not self.peek().strip():
            next(self)
        self.row_start, self.n_characters = self.number + 1, 0
        return self.peek()


def _read_tabbed(source: _LineSource) -> Iterator[list[str]]:
    """Yield rows of cells between tabs, in which a quotation mark may be part of a caption."""
    width = 0
    for line in source:
        row = _split_tabs(line)
        if '"' in line and any(cell.startswith('"') for cell in row):
            row = _read_quoted(source, line, width) or row
        width = width or len(row)
        yield row


def _split_tabs(line: str) -> list[str]:
    line = line.rstrip("\r\n")
    return line.split("\t") if line else []


def _read_quoted(source: _LineSource, line: str, width: int) -> list[str]:
    """Return a row with quoted cells, which may have several lines; empty if the marks are part of captions."""
    ends_early = is_short = len(_split_tabs(line)) < width
    continuation: list[str] = []
    while not (row := _parse_row([line, *continuation])):
        next_line = source.peek()
        if not next_line or len(continuation) == _MOST_LINES or not (is_short or len(_split_tabs(next_line)) < width):
            source.push_back(continuation)
            if ends_early:
                raise csv.Error("a cell begins with a quotation mark and the line ends before the row does")
            return []
        continuation.append(next(source))
        # A row may end with its last cell.
        is_short = is_short and len(_split_tabs(continuation[-1])) < width
    return row


def _parse_row(texts: list[str], delimiter: str = "\t", *, strict: bool = True) -> list[str]:
    """Return the cells of the row that consists of the lines ``texts``; empty if they are not exactly one row."""
    try:
        table_rows = list(csv.reader(texts, delimiter=delimiter, strict=strict))
    except csv.Error:
        return []
    return table_rows[0] if len(table_rows) == 1 else []


def table(path: Path, *, usual: str = ",", fix: str = "") -> pd.DataFrame:
    """Return the cells of a file as text, read strictly by :func:`rows`, with the column names in its header.

    ``fix`` is the end of the error about too many columns or cells.

    Raises InputError: As for :func:`rows`; the file is empty, or it has more than :data:`MAX_CELLS` cells.
    """
    import pyarrow as pa

    row_iterator = rows(path, usual=usual, strict=True, fix=fix)
    header = next(row_iterator, None)
    if header is None:
        raise InputError(f"{path} is empty; it must contain a header and rows.")
    pieces: list[list[Any]] = [[] for _ in header]
    n_left = MAX_CELLS // len(header)
    while piece := list(itertools.islice(row_iterator, _PIECE)):
        n_left -= len(piece)
        if n_left < 0:
            raise InputError(f"{path} has more than {MAX_CELLS:,} cells, too many for memory. {fix}".rstrip())
        for column, cells in zip(pieces, zip(*piece, strict=True), strict=True):
            column.append(pa.array(cells, pa.large_string()))
    columns = [pa.chunked_array(column, pa.large_string()) for column in pieces]
    return pa.table(columns, names=[str(i) for i in range(len(header))]).to_pandas().set_axis(header, axis=1)


def check_width(columns: int, source: object, fix: str = "") -> None:
    """Raise InputError if a user-supplied table has more than :data:`MAX_COLUMNS` columns."""
    if columns > MAX_COLUMNS:
        raise InputError(
            f"{source} has {columns:,} columns; the maximum is {MAX_COLUMNS:,}. Check the separator, and whether rows "
            f"and columns are swapped. {fix or 'Keep only the columns that are needed.'}"
        )
