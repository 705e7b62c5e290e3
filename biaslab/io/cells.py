"""User-supplied tables: cells as text, columns with normalized names, and errors that name the row.

Files are CSV or TSV (:mod:`biaslab.io.delimited`), Excel or Parquet, or folders of such files with the same columns.
"""

from __future__ import annotations

import datetime
import difflib
import itertools
import os
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from biaslab.errors import InputError
from biaslab.io import delimited, folders, plaintext, reading

if TYPE_CHECKING:
    import pandas as pd

ENDINGS = (".csv", ".tsv", ".xlsx", ".parquet", ".pq")
NARROWER = "For many annotators, use one row per image and annotator, with the columns annotator and label."
_MOST_BYTES = 1_000_000_000
# A workbook is a zip file, and a few kilobytes may decompress to any size. Limits of decompressed bytes, in total and
# per compressed byte, and of XML elements in parts other than sheets and their texts (such as styles).
_UNFOLDED_BYTES, _UNFOLDED_PER_BYTE, _MOST_ELEMENTS = 2_000_000, 60, 50_000
_MOST_WORKBOOK_BYTES, _MOST_STYLE_BYTES = 200_000_000, 8_000_000
# Limit of cells: this number, and one per 10 bytes, the minimum size of a cell. The reader creates all empty cells
# before a distant one.
_MOST_EMPTY_CELLS, _BYTES_OF_CELL = 200_000, 10
_LARGE_PARTS = re.compile(r"xl/(worksheets/.*|sharedStrings\.xml|media/.*)", re.IGNORECASE)
# Texts that a spreadsheet would execute as formulas are written with an apostrophe before them.
_ESCAPED = r"^'(?=[=+\-@\t\r'])"


def file_path(path: str | Path) -> Path:
    """Return the path of a file of annotations, or of a folder of such files, with ``~`` as the home folder.

    Raises InputError: It has another type, or does not exist; a folder contains no such file.
    """
    path = Path(os.path.expanduser(path))
    if path.is_dir():
        if not files(path):
            raise InputError(f"{path} contains no file that ends in {', '.join(ENDINGS)}. Put the files there.")
        return path
    return file_setting(str(path), "The file")


def file_setting(path: str, setting: str, endings: Sequence[str] = ENDINGS) -> Path:
    """Return the path of a file that a setting names. Raises InputError: It does not exist, or has another type."""
    file = Path(path).expanduser()
    if not file.is_file() or file.suffix.lower() not in endings:
        extensions = ", ".join(endings)
        raise InputError(f"{setting} is {path!r}; it must be an existing file that ends in {extensions}.")
    return file


def files(path: str | Path) -> list[Path]:
    """Return the files of a path: the file itself, or those of a folder, sorted by name."""
    path = Path(os.path.expanduser(path))
    return list(folders.files(path, ENDINGS, deep=False).values()) if path.is_dir() else [path]


def load(path: Path, usual_columns: Collection[str]) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return a file's cells as text, missing ones as "", and the types of columns that are neither text nor numbers.

    Columns in ``usual_columns`` get that spelling. The files of a folder are concatenated, sorted by name, and their
    rows are numbered consecutively.

    Raises InputError: A file cannot be read, has no rows, two columns of one name, or a column in ``usual_columns``
    that is neither text nor numbers; files of a folder have different columns.
    """
    import pandas as pd

    paths = files(path)
    tables = [_load_file(file, usual_columns) for file in paths]
    frames = [frame for frame, _ in tables]
    for file, frame in zip(paths, frames, strict=True):
        if differing := sorted(set(map(str, frame)).symmetric_difference(map(str, frames[0]))):
            raise InputError(
                f"{file} and {paths[0].name} do not have the same columns: only one has {differing[0]!r}. All files "
                "in a folder need the same columns; in long form, columns do not depend on the annotators."
            )
    return pd.concat(frames, ignore_index=True), {k: v for _, left_out in tables for k, v in left_out.items()}


def _load_file(path: Path, usual_columns: Collection[str]) -> tuple[pd.DataFrame, dict[str, str]]:
    reading.check(path, most=_MOST_BYTES)
    ending = path.suffix.lower()
    left_out: dict[str, str] = {}
    if ending in (".csv", ".tsv"):
        frame = delimited.table(path, usual="\t" if ending == ".tsv" else ",", fix=NARROWER)
    elif ending == ".xlsx":
        frame, left_out = _load_excel(path)
    else:
        frame, left_out = _load_parquet(path)
    if len(frame) > 1 and frame.iloc[1].str.startswith('{"ImportId"').all():
        # Qualtrics exports have the text and the id of each question below its name.
        frame = frame[2:].reset_index(drop=True)
    if frame.empty:
        raise InputError(f"{path} has a header but no rows. Add rows.")
    for name, column in frame.items():
        if column.str.contains("\0", regex=False).any():
            raise InputError(f"{path}: column {shorten(name)} contains null bytes; remove them.")
    names = _usual_names([*frame, *left_out], path, usual_columns)
    left_out = dict(zip(names[frame.shape[1] :], left_out.values(), strict=True))
    refuse_ignored_settings({name: kind for name, kind in left_out.items() if name in usual_columns}, path)
    return frame.set_axis(names[: frame.shape[1]], axis=1), left_out


def _usual_names(columns: Sequence[str], path: Path, usual_columns: Collection[str]) -> list[str]:
    names = []
    for column in columns:
        name = plaintext.name(column)
        if not plaintext.is_printable(name):
            raise InputError(f"{path} has a column {column!r}, whose name contains unprintable characters; rename it.")
        usual = name.lower().replace(" ", "_").replace("-", "_")
        names.append(usual if usual in usual_columns else name)
    duplicates = [name for name, n in Counter(names).items() if name and n > 1]
    if duplicates:
        raise InputError(f"{path} has two columns named {duplicates[0]!r}; rename one.")
    return names


def refuse_ignored_settings(left_out: dict[str, str], path: Path) -> None:
    """Raise InputError for the first required column that contains neither text nor numbers."""
    for name, kind in left_out.items():
        fix = "Format the column as text and re-enter its values, or rename them." if "a date" in kind else ""
        raise InputError(
            f"{path}: column {shorten(name)} contains {kind}; only text and numbers are read. {fix}".strip()
        )


def _load_excel(path: Path) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the cells of the only nonempty sheet, with the names in its first row, and columns with dates.

    Raises InputError: A formula has no saved value, or several sheets have cells.
    """
    import pandas as pd

    try:
        with zipfile.ZipFile(path) as archive:
            sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
            size, small_parts = sum(sizes.values()), [name for name in sizes if not _LARGE_PARTS.fullmatch(name)]
            max_bytes = min(_MOST_WORKBOOK_BYTES, _UNFOLDED_BYTES + _UNFOLDED_PER_BYTE * path.stat().st_size)
            fits = size <= max_bytes and sum(map(sizes.__getitem__, small_parts)) <= _MOST_STYLE_BYTES
            if not fits or sum(archive.read(name).count(b"<") for name in small_parts) > _MOST_ELEMENTS:
                raise InputError(
                    f"{path} unpacks to {size:,} bytes of cells and styles, too many for a workbook of its size; save "
                    "it as CSV."
                )
        with warnings.catch_warnings(action="ignore"):
            sheets = _sheets(path, _MOST_EMPTY_CELLS + size // _BYTES_OF_CELL)
    except (InputError, MemoryError):
        raise
    # Damaged workbooks raise errors of many types; an import error names a missing package.
    except Exception as error:
        raise InputError(f"{path} cannot be read as Excel: {shorten(error, 200)}; save it as CSV.") from None
    if len(sheets) != 1:
        contents = f"tables on the sheets {join_values(sheets)}" if sheets else "no cells"
        raise InputError(f"{path} contains {contents}; keep one sheet with one table.")
    (rows,) = sheets.values()
    width = max(map(len, rows))
    frame = pd.DataFrame([[*map(_cell_text, row), *[""] * (width - len(row))] for row in rows], dtype=str)
    # Empty rows and columns, such as formatted ones, are dropped.
    frame = frame.loc[(frame != "").any(axis=1), (frame != "").any()]
    header, dates = list(frame.iloc[0]), dict[str, str]()
    for cell in itertools.chain.from_iterable(rows):
        if isinstance(cell.value, datetime.date):
            text = (
                f"a date in cell {cell.coordinate} ({cell.value:%Y-%m-%d}; Excel converts names such as 1-2 to dates)"
            )
            dates.setdefault(header[cell.column - 1], text)
    frame = frame[1:].set_axis(header, axis=1).reset_index(drop=True)
    return frame.loc[:, [name not in dates for name in header]], dates


def _sheets(path: Path, most_cells: int) -> dict[str, list[list[Any]]]:
    """Return the rows of cells of each nonempty sheet, without empty cells at the end of a row.

    Raises InputError: A formula has no saved value, or the number of cells, including empty ones, exceeds
    ``most_cells``.
    """
    import openpyxl

    rows_by_sheet = {}
    values, formulas = (openpyxl.load_workbook(path, read_only=True, data_only=flag) for flag in (True, False))
    for sheet in (*values.worksheets, *formulas.worksheets):
        # The stated size of a sheet may be wrong.
        sheet.reset_dimensions()
    for sheet, formula_sheet in zip(values.worksheets, formulas.worksheets, strict=True):
        rows = []
        for cells_of_row, row_formulas in zip(sheet.iter_rows(), formula_sheet.iter_rows(), strict=True):
            row = list(cells_of_row)
            most_cells -= len(row) + 1
            if most_cells < 0:
                raise InputError(
                    f"{path}: on the sheet {shorten(sheet.title)}, a cell is far below or to the right of all others. "
                    "Delete the empty rows and columns before it, or save the file as CSV."
                )
            for cell, formula in zip(row, row_formulas, strict=True):
                if formula.data_type == "f" and cell.value is None:
                    raise InputError(
                        f"{path}: cell {formula.coordinate} contains a formula without a value. Open and save the file "
                        "in a spreadsheet program, or replace the formula with its value."
                    )
            while row and row[-1].value in (None, ""):
                row.pop()
            delimited.check_width(len(row), path, NARROWER)
            if row:
                rows.append(row)
        if rows:
            rows_by_sheet[sheet.title] = rows
    return rows_by_sheet


def _cell_text(cell: Any) -> str:
    if cell.value is None or cell.data_type == "e":
        return ""
    is_integer = isinstance(cell.value, float) and cell.value.is_integer()
    return str(int(cell.value) if is_integer else cell.value)


def _load_parquet(path: Path) -> tuple[pd.DataFrame, dict[str, str]]:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        shape = pq.read_metadata(path)
        delimited.check_width(shape.num_columns, path, NARROWER)
        if shape.num_rows * shape.num_columns > delimited.MAX_CELLS:
            raise InputError(f"{path} has {shape.num_rows:,} rows, too many for memory. Split or shorten the file.")
        unfolded = sum(shape.row_group(i).total_byte_size for i in range(shape.num_row_groups))
        if unfolded <= _MOST_BYTES:
            # A text in several rows is in memory once.
            table = pq.read_table(path, read_dictionary=shape.schema.to_arrow_schema().names)
            unfolded = sum(map(_text_bytes, table.columns))
        if unfolded > _MOST_BYTES:
            raise InputError(f"{path} unpacks to {unfolded:,} bytes of text; the maximum is {_MOST_BYTES:,}.")
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path} cannot be read as Parquet: {shorten(error, 200)}.") from None
    columns, left_out = {}, {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        try:
            columns[name] = pc.fill_null(column.cast(pa.string()), "")
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            left_out[name] = str(column.type)[:60]
    return pa.table(columns).to_pandas(), left_out


def _text_bytes(column: Any) -> int:
    """Return the total bytes of the texts of a column over all rows, or 0 if it contains no texts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(column.type):
        return 0
    return sum(pc.sum(pc.binary_length(chunk.dictionary).take(chunk.indices)).as_py() or 0 for chunk in column.chunks)


def decimals(column: pd.Series, path: Path | str, *, whole: bool = False) -> pd.Series:
    """Return the numbers in a column of text with a decimal point, whether they have decimal commas or points.

    Other texts are stripped of surrounding spaces. ``whole`` states whether the numbers are counts, so that ``1.000``
    is more likely a thousand than one.

    Raises InputError: A number is ambiguous: ``1,000`` if no other number shows the meaning of the comma, or ``1.000``
    if the column contains counts or decimal commas.
    """
    text = column.astype(str).str.strip().str.replace("\u2212", "-")
    has_comma = text.str.contains(",", regex=False)
    if not has_comma.any() and not (whole and text.str.contains(".", regex=False).any()):
        return text
    # Unambiguous numbers determine the meaning of the others.
    one_comma, one_point = (text.str.fullmatch(rf"[+-]?[1-9]\d{{0,2}}[{mark}]\d{{3}}") for mark in ",.")
    decimal = text.str.fullmatch(r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+|[+-]?\d{1,3}(\.\d{3}){2,}") & ~one_comma
    thousands = text.str.fullmatch(r"[+-]?\d{1,3}(,\d{3})+\.\d+|[+-]?\d{1,3}(,\d{3}){2,}")
    by_comma, by_point = bool(decimal.any()), bool(thousands.any())
    # The caller reports other decimals in counts; fractional votes may have them.
    thousand = one_point if by_comma else text.str.fullmatch(r"[+-]?[1-9]\d{0,2}\.000") & whole
    is_ambiguous = ((one_comma & (not by_comma)) | thousand) & (not by_point)
    if is_ambiguous.any():
        number = text[is_ambiguous].iloc[0]
        raise InputError(
            f"{path}: {column.name} is {number!r} in data row {describe_rows(is_ambiguous)}, which may be "
            f"{re.sub('[,.]', '', number)} or {float(number.replace(',', '.')):g}. Write it without a separator, or "
            "write all numbers in this column with a decimal point."
        )
    if by_comma and by_point:
        return text
    if by_comma:
        normalized = text.str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
        return normalized.where(decimal | one_comma, text)
    return text.str.replace(",", "", regex=False).where(thousands | one_comma, text)


def numbers(column: pd.Series, path: Path, *, whole: bool = False) -> pd.Series:
    """Return the numbers in a column of text, NaN for other texts; errors as of :func:`decimals`."""
    import pandas as pd

    return pd.to_numeric(decimals(column, path, whole=whole), errors="coerce").astype(float)


def image_ids(column: pd.Series, images: Iterable[str] = ()) -> pd.Series:
    """Return the image ids in a column of a file, without the apostrophes that prevent formulas.

    Ids that match one of ``images`` after normalization (:mod:`biaslab.io.plaintext`) are replaced by it. A file name
    without its folder matches if it is unique among the images.
    """
    ids = column.astype(str).str.strip().str.replace(_ESCAPED, "", regex=True)
    id_by_name = {plaintext.normalize(image_id): image_id for image_id in map(str, images)}
    n_files = Counter(image_id.rpartition("/")[2] for image_id in id_by_name)
    by_file = {image_id.rpartition("/")[2]: id_by_name[image_id] for image_id in id_by_name}
    id_by_name = {name: image_id for name, image_id in by_file.items() if n_files[name] == 1} | id_by_name
    return ids.map({i: id_by_name.get(plaintext.normalize(i), i) for i in ids.unique()}) if id_by_name else ids


def require(
    frame: pd.DataFrame, columns: Collection[str], source: Path | str, needs: str, optional: Collection[str] = ()
) -> None:
    """Raise InputError for the first of ``columns`` that is missing; the error names an unused column of similar name.

    Used columns are ``columns`` and ``optional``.
    """
    for name in columns:
        if name not in frame:
            unused = [c for c in map(str, frame) if c not in {*columns, *optional}]
            close = difflib.get_close_matches(name, unused, n=1, cutoff=0.6)
            advice = f"Rename {close[0]!r} to {name!r}. " if close else ""
            raise InputError(f"{source} has no column {name!r}. {advice}{needs} {describe_columns(map(str, frame))}")


def rename_columns(frame: pd.DataFrame, names: Mapping[str, Collection[str]]) -> pd.DataFrame:
    """Return a table with columns renamed to the keys of ``names`` if it has exactly one of the alternative names."""
    by_spelling = {re.sub(r"[\s-]+", "_", column.strip().lower()): column for column in map(str, frame)}
    for name, alternatives in names.items():
        matches = [by_spelling[spelling] for spelling in alternatives if spelling in by_spelling]
        if name not in frame and len(matches) == 1:
            frame = frame.rename(columns={matches[0]: name})
    return frame


def describe_columns(columns: Iterable[str]) -> str:
    """Return a sentence with the first columns of a file."""
    columns = list(columns)
    return f"It has: {', '.join(columns[:20])}{', …' if len(columns) > 20 else ''}."


def names(column: pd.Series, path: Path, *, empty: bool = False) -> pd.Categorical:
    """Return normalized names. Raises InputError: A name is empty or unprintable, or has two spellings."""
    import pandas as pd

    codes, unique = pd.factorize(column)
    texts = pd.Series(unique, dtype=object).astype(str)
    cleaned = texts.map(plaintext.name)
    for mask, fix in (
        (texts.str.strip().str.contains("\n"), "use a name of one line, and check for an unclosed quotation mark"),
        (~cleaned.map(plaintext.is_printable).astype(bool), "remove characters that cannot be printed"),
        ((cleaned == "") & (not empty), "fill in the cell or remove the row"),
    ):
        rows = pd.Series(mask.to_numpy(bool)[codes], index=column.index)
        refuse(rows, path, f"{column.name} is {{}}", fix, column)
    distinct = cleaned.drop_duplicates()
    folded = distinct.str.casefold()
    if folded.duplicated().any():
        variants = distinct[folded == folded[folded.duplicated()].iloc[0]].map(shorten)
        raise InputError(f"{path}: {column.name} is spelt {' and '.join(variants[:2])}; use one spelling.")
    return pd.Categorical(cleaned.to_numpy(object)[codes])


def refuse(rows: pd.Series, path: Path, problem: str, fix: str, values: pd.Series | pd.DataFrame | None = None) -> None:
    """Raise InputError if any of ``rows`` is true.

    ``{}`` in the problem is replaced by the first of the ``values`` in these rows, ``{name}`` by that of a column.
    """
    import pandas as pd

    if not rows.any():
        return
    if isinstance(values, pd.DataFrame):
        problem = problem.format_map(values[rows].iloc[0].map(shorten))
    elif values is not None:
        problem = problem.format(shorten(values[rows].iloc[0]))
    raise InputError(f"{path}: {problem} in data row {describe_rows(rows)}; {fix}.")


def describe_rows(rows: pd.Series) -> int:
    """Return the number of the first true row, for an index that starts at 0; the row below the header is 1."""
    return int(rows.index[int(rows.to_numpy().argmax())]) + 1


def shorten(value: object, max_length: int = 60) -> str:
    """Return ``value`` quoted, with unprintable characters escaped, truncated to ``max_length`` characters."""
    text = repr(str(value))
    return text if len(text) <= max_length else f"{text[: max_length - 1]}…"


def join_values(values: Iterable[object]) -> str:
    """Return the first five values as in :func:`shorten`, followed by ``…`` if there are more."""
    values = list(values)
    return ", ".join(shorten(value) for value in values[:5]) + (", …" if len(values) > 5 else "")
