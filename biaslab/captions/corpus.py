"""Caption corpora with one interface: files, datasets of the Hugging Face Hub, and corpora of installed packages.

Every corpus yields tables with ``caption_id``, ``text``, ``url`` if it has one, and its other columns. Captions are
untrusted input: lone surrogates and bytes that are not UTF-8 become U+FFFD, and all other characters are unchanged.
Tables are split by rows and by bytes, so that memory stays bounded.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import logging
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as kinds

from biaslab import plugins, redact
from biaslab.errors import (
    InputError,
    MissingInputError,
    ParameterError,
    loading,
    name_help,
    near_matches,
    refuse_questions,
)
from biaslab.io import delimited, folders

_log = logging.getLogger(__name__)

BATCH = 8192
# Usual column names of the text of a caption, and of the URL of its image, in order of precedence.
TEXT_COLUMNS = ("text", "TEXT", "caption", "Caption", "CAPTION", "captions")
URL_COLUMNS = ("url", "URL", "image_url", "Image_URL", "IMAGE_URL")
# Roles that a column of a corpus can be mapped to.
ROLES = ("text", "caption_id", "url")
# Columns that stages add; columns of a corpus with these names are renamed to corpus_<name>.
_RESERVED = frozenset((
    "caption_id", "text", "url", "term", "rank", "priority", "n_captions", "n_corpus", "indicator", "spans",
    "occupation", "approach", "prompt", "cosine", "prompt_id", "n_images", "image_id", "index", "seed",
    "status", "gender", "probability_female", "n_faces", "x0", "y0", "x1", "y1", "reason", "boxes", "paraphrase",
    "paraphrase_status", "caption",
))  # fmt: skip
# Bytes above which a table of captions gets no further row, and maximum characters of an id.
_BATCH_BYTES, _LONGEST_ID = 32 * 2**20, 200
# Maximum number of columns read from a JSONL file, and rows that are streamed at a time.
_MOST_COLUMNS, _STREAMED_ROWS = 100, 1024
# Tables of captions as they are read, texts as UTF-8.
_TableIterator = Iterator[pa.Table]
_URL = re.compile(r"(?i)https?://")
# Mean bytes per row of a Parquet file above which only a few rows are read at a time.
_LARGE_ROW = 4096
_BYTES = (kinds.is_binary, kinds.is_large_binary, kinds.is_binary_view, kinds.is_fixed_size_binary)
# Files larger than this are identified by their ends, size and time of change, smaller ones by their content.
_HASHED_BYTES = 16 * 2**20


# Ids consist of file and row, except in datasets whose publishers state that their ids are unique: COYO and DataComp,
# which are recognized by their columns. LAION's SAMPLE_ID and hash are not unique.
_IDS = {"id": frozenset({"id", "url", "text", "image_phash"}), "uid": frozenset({"uid", "url", "text", "sha256"})}


class Selection(NamedTuple):
    """A source of captions for DuckDB."""

    source: str
    """A table or table function."""
    n_captions: int
    """Number of its rows."""
    row: str
    """SQL expression of a caption's row number, from 0 in order."""
    columns: Mapping[str, str]
    """SQL expressions of ``caption_id``, ``text`` and the columns after them, by name."""


class Corpus(Protocol):
    """Interface of a corpus. Memory stays bounded for any size."""

    name: str  # Name in messages and tables.
    digest: str  # Hex digits that change with the captions and with the columns read.
    parts: int  # Number of parts that can be read separately, at least 1 unless the corpus is empty.
    # The images behind the captions, by ``caption_id`` as ``image_id``, or None.
    images: Any
    # Whether its captions are generated while they are read, so that they are cheap to search and always valid.
    written: bool
    # Name of the corpus to use for triplets instead of this one; empty if this one is used.
    for_triplets: str

    def batches(self, size: int = BATCH, part: int | None = None) -> Iterator[pd.DataFrame]:
        """Yield tables of up to ``size`` rows in order: of one part, or of all parts in order.

        Columns: ``caption_id`` (unique text, independent of ``size`` and ``part``), ``text`` (empty if missing),
        ``url`` (likewise) if the corpus has one, and the corpus's other columns.
        """

    def selection(self, part: int) -> Selection | None:
        """Return the source from which DuckDB reads the same captions of a part as ``batches``, or None."""


def open_corpus(
    name: str,
    *,
    max_captions: int = 0,
    seed: int = 0,
    synthetic_bias: str = "default",
    columns: Mapping[str, str] | None = None,
) -> Corpus:
    """Open the corpus ``name``; only what identifies it is read.

    Args:
        name: A corpus of an installed package (``biaslab.corpora``); a Parquet, CSV, TSV, JSONL or text file (with
            one caption per line), a folder of files or a pattern such as ``"part-*.parquet"``; or a dataset of the
            Hugging Face Hub, streamed, as ``"owner/name"`` or ``"hf:NAME:CONFIG@SPLIT"`` (CONFIG and SPLIT are
            optional).
        max_captions: Maximum number of captions, from the start; 0 reads all.
        seed, synthetic_bias: Seed of synthetic captions, and the bias planted in them; other corpora ignore both.
        columns: Column for ``text``, ``caption_id`` (unique) and ``url``, such as ``{"text": "TEXT"}``; usual names
            are detected. Ids that are missing, or longer than 200 characters, are replaced by file and row.

    Raises InputError: The corpus does not exist; a file cannot be read, has an unknown type, or lacks a column.
    MissingInputError: ``name`` is empty. ParameterError: ``columns`` has an unknown role or an invalid column.
    """
    columns = columns or {}
    for role, column in columns.items():
        if role not in ROLES:
            raise ParameterError(f"captions.columns contains {role!r}. {name_help(role, ROLES)}")
        if not isinstance(column, str) or not column:
            raise ParameterError(f"captions.columns maps {role!r} to {column!r}; it must be the name of a column.")
    if not name:
        raise MissingInputError(
            "captions.corpus is empty. Set it to a file, a pattern of files, or the hub name of a dataset."
        )
    if name in (corpora := plugins.entry_points(plugins.CORPORA)):
        with loading(name, "captions"):
            return corpora[name].load()(max_captions=max_captions, seed=seed, synthetic_bias=synthetic_bias)
    if name.startswith("hf:"):
        return HubCorpus(name.removeprefix("hf:"), columns, max_captions)
    folder = Path(os.path.expanduser(name))
    if os.path.isdir(folder):
        available = folders.files(folder, tuple(_READERS))
        # Text files next to tables describe them, and so do LICENSE and README.
        texts = [path for path in available if _READERS[_ending(Path(path))] is _read_text]
        read_texts = folders.remove_notes(texts) if len(texts) == len(available) else []
        if notes := [path for path in texts if path not in set(read_texts)]:
            _log.warning("%s: not read as captions: %s.", folder, _join_names(notes))
        paths = [path for name, path in available.items() if name not in set(notes)]
    else:
        paths = [Path(p) for p in sorted(glob.glob(str(folder), recursive=True)) if os.path.isfile(p)]
    if paths:
        return FileCorpus(name, paths, columns, max_captions)
    owner, slash, dataset = name.partition("/")
    if slash and owner and dataset and "/" not in dataset and not (Path(name).suffix or set(name) & set("*?[~.")):
        return HubCorpus(name, columns, max_captions)
    matches = near_matches(name, corpora)
    hint = f"Did you mean {matches[0]!r}? " if matches else ""
    raise InputError(
        f"There is no corpus {name!r}. {hint}A corpus is a Parquet, CSV, TSV, JSONL or text file, a "
        "folder or pattern of such files, or a dataset on the Hugging Face Hub: 'owner/name' or "
        "'hf:NAME:CONFIG@SPLIT'."
    )


class _Columns(NamedTuple):
    text: str
    caption_id: str | None
    url: str | None


def _select_columns(mapping: Mapping[str, str], column_names: Sequence[str], source: str) -> _Columns:
    """Return the columns to read. Raises InputError: One is missing."""
    for role, column in mapping.items():
        if column not in column_names:
            raise InputError(f"{source} has no column {column!r} for {role}. {name_help(column, column_names)}")

    def find_first(names: Sequence[str]) -> str | None:
        return next((name for name in names if name in column_names), None)

    text = mapping.get("text") or find_first(TEXT_COLUMNS)
    if text is None:
        raise InputError(
            f"{source} has no column {' or '.join(map(repr, TEXT_COLUMNS))}, in which captions are expected. Its "
            f"columns are: {_join_names(column_names)}. Set captions.columns to the column of captions, for example "
            f"{{'text': 'TEXT'}}; each row must contain one caption."
        )
    unique = [name for name, columns in _IDS.items() if columns <= set(column_names)]
    ids = mapping.get("caption_id") or find_first(("caption_id", *unique))
    return _Columns(text, ids, mapping.get("url") or find_first(URL_COLUMNS))


def _join_names(columns: Sequence[str]) -> str:
    text = ", ".join(str(c)[:60] for c in columns[:40]) or "none that can be read"
    return text + (f", … ({len(columns)} in all)" if len(columns) > 40 else "")


class _Tables:
    """A corpus that is read as Arrow tables."""

    written, for_triplets = False, ""
    _mapping: Mapping[str, str]
    _rows: int

    def _sources(self, size: int, part: int | None) -> Iterator[tuple[str, str, int, _TableIterator]]:
        """Yield name, prefix of ids, number of the first row, and tables of each source."""
        raise NotImplementedError

    def selection(self, part: int) -> Selection | None:
        """Return None, as DuckDB cannot read the captions."""
        return None

    def batches(self, size: int = BATCH, part: int | None = None) -> Iterator[pd.DataFrame]:
        """Yield captions with the corpus's other columns."""
        n_left = self._rows or None
        for source, prefix, start, tables in self._sources(min(size, n_left or size), None if n_left else part):
            for table in tables:
                columns = _select_columns(self._mapping, table.column_names, source)
                table = table[:n_left]
                if len(table):
                    yield _shape_table(table, columns, _ids(table, columns.caption_id, prefix, start))
                start += len(table)
                if n_left is not None:
                    n_left -= len(table)
                    if n_left == 0:
                        return


def _ids(table: pa.Table, column: str | None, prefix: str, start: int) -> Sequence[str]:
    """Return the ids of a table's rows from its ``column``, or from file and row."""
    row_ids = [f"{prefix}-{row:09d}" for row in range(start, start + len(table))]
    if not column:
        return row_ids
    column_ids = _to_texts(table[column], _as_id)
    lengths = pc.utf8_length(column_ids)
    is_valid = pc.and_(pc.greater(lengths, 0), pc.less_equal(lengths, _LONGEST_ID))
    return pc.if_else(is_valid, column_ids, pa.array(row_ids, pa.large_string())).to_pylist()


def _shape_table(table: pa.Table, columns: _Columns, ids: Sequence[str]) -> pd.DataFrame:
    """Return rows with ``caption_id``, ``text`` and ``url`` first and the other columns after them."""
    leading = {"caption_id": pa.array(ids, pa.large_string()), "text": _to_texts(table[columns.text])}
    if columns.url:
        leading["url"] = _to_texts(table[columns.url])
    extra = {name: table[column] for column, name in _extra_columns(table.column_names, columns)}
    return pa.table(leading | extra).to_pandas()


def _extra_columns(names: Sequence[str], columns: _Columns) -> Iterable[tuple[str, str]]:
    """Return the columns without a role, each with its name in tables."""
    extra = [name for name in names if name not in (columns.text, columns.caption_id, columns.url)]
    return zip(extra, _unique_names(extra), strict=True)


def _unique_names(columns: Sequence[str], reserved: Collection[str] = _RESERVED) -> list[str]:
    """Return unique names of a corpus's columns in tables, none of which is ``reserved``."""
    names: dict[str, None] = {}
    for column in columns:
        name = f"corpus_{column}" if column in reserved else str(column)
        while name in names:
            name += "_"
        names[name] = None
    return list(names)


def _to_texts(column: pa.ChunkedArray, convert: Callable[[object], str] | None = None) -> pa.ChunkedArray | pa.Array:
    """Return a column as texts, empty where missing; ``convert`` returns the text of a number or of bytes."""
    if convert is _as_id and kinds.is_integer(column.type):
        column = column.cast(pa.large_string())
    if not kinds.is_large_string(column.type):
        column = pa.array(map(convert or _as_text, column.to_pandas()), pa.large_string())
    return pc.fill_null(column, "")


def _as_text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    return "" if pd.isna(value) else str(value)


def _as_id(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else _as_text(value)


class FileCorpus(_Tables):
    """Captions in files, each of which is a part, in the given order."""

    def __init__(self, name: str, paths: Sequence[Path], columns: Mapping[str, str], rows: int):
        for path in paths:
            _reader(path)
        self.name = redact.basename(name)
        self.paths = list(paths)
        self.images = None
        self._mapping, self._rows = dict(columns), rows
        base = Path(os.path.commonpath([p.absolute().parent for p in paths]))
        self._prefixes = [p.absolute().relative_to(base).as_posix() for p in paths]

    def __getstate__(self) -> dict[str, Any]:
        # Workers may have other working directories.
        return self.__dict__ | {"paths": [path.absolute() for path in self.paths]}

    @cached_property
    def digest(self) -> str:
        """Digest of the files' names, their content (for large files: both ends, size and time) and the columns."""
        digest = hashlib.sha256(repr((sorted(self._mapping.items()), self._rows)).encode())
        for path, prefix in zip(self.paths, self._prefixes, strict=True):
            digest.update(prefix.encode() + b"\0" + _file_digest(path))
        return digest.hexdigest()[:16]

    @property
    def parts(self) -> int:
        """Number of parts; a corpus limited to some rows is one part."""
        return 1 if self._rows else len(self.paths)

    def _sources(self, size: int, part: int | None) -> Iterator[tuple[str, str, int, _TableIterator]]:
        for i in range(len(self.paths)) if part is None else [part]:
            yield str(self.paths[i]), self._prefixes[i], 0, _reader(self.paths[i])(self.paths[i], size)

    def selection(self, part: int) -> Selection | None:
        """Return how DuckDB reads a Parquet file of small rows of texts, numbers and truth values."""
        path = str(self.paths[part])
        # DuckDB reads some paths as patterns.
        if self._rows or _ending(self.paths[part]) != ".parquet" or set(path) & set("*?["):
            return None
        with _open_parquet(path) as file:
            schema, metadata = file.schema_arrow, file.metadata
            names = _flat_columns(schema, path)
            columns = _select_columns(self._mapping, names, path)
            n_bytes = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
        types = {name: schema.field(name).type for name in names}
        texts = {name for name, kind in types.items() if kinds.is_string(kind) or kinds.is_large_string(kind)}
        integers = {name for name, kind in types.items() if kinds.is_integer(kind)}
        floats = {name for name, kind in types.items() if kinds.is_floating(kind) or kinds.is_boolean(kind)}
        is_equivalent = (
            texts | integers | floats == set(names)
            and {columns.text, columns.url or columns.text} <= texts
            and columns.caption_id in texts | integers | {None}
            # Column names are case-insensitive in DuckDB.
            and len({name.lower() for name in schema.names}) == len(schema.names)
        )
        if not is_equivalent or n_bytes > _LARGE_ROW * metadata.num_rows:
            return None
        quoted = {name: '"' + name.replace('"', '""') + '"' for name in names}
        caption_id = f"printf('%s-%09d', {_literal(self._prefixes[part])}, file_row_number)"
        if columns.caption_id:
            expression = f"{quoted[columns.caption_id]}::varchar"
            is_valid = f"length({expression}) between 1 and {_LONGEST_ID}"
            caption_id = f"case when {is_valid} then {expression} else {caption_id} end"
        leading = {"caption_id": caption_id, "text": quoted[columns.text]}
        if columns.url:
            leading["url"] = f"coalesce({quoted[columns.url]}, '')"
        extra = {name: quoted[column] for column, name in _extra_columns(names, columns)}
        source = f"read_parquet({_literal(path)}, file_row_number = true)"
        return Selection(source, metadata.num_rows, "file_row_number", leading | extra)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _file_digest(path: Path) -> bytes:
    status = path.stat()
    digest = hashlib.sha256(str(status.st_size).encode())
    with path.open("rb") as file:
        if status.st_size <= _HASHED_BYTES:
            digest.update(file.read())
        else:
            digest.update(str(status.st_mtime_ns).encode() + file.read(2**20))
            file.seek(-(2**20), os.SEEK_END)
            digest.update(file.read())
    return digest.digest()


def _batch_rows(rows: Iterable[Any], size: int, weight: Callable[[Any], int]) -> Iterator[list[Any]]:
    """Yield lists of up to ``size`` rows, or fewer if these have too many bytes."""
    batch: list[Any] = []
    n_bytes = 0
    for row in rows:
        batch.append(row)
        n_bytes += weight(row)
        if len(batch) == size or n_bytes >= _BATCH_BYTES:
            yield batch
            batch, n_bytes = [], 0
    if batch:
        yield batch


def _read_text(path: Path, size: int) -> _TableIterator:
    for batch in _batch_rows((line.rstrip("\r\n") for line in delimited.lines(path)), size, len):
        yield pa.table({"text": pa.array(batch, pa.large_string())})


def _read_jsonl(path: Path, size: int) -> _TableIterator:
    # All values are read as text, as from CSV, because the types may differ between lines.
    columns: dict[str, None] = {}
    for batch in _batch_rows(_records(path), size, lambda row: row[0]):
        for _, record in batch:
            new_keys = [key for key in record if key not in columns]
            default_keys = [key for key in new_keys if key in (*TEXT_COLUMNS, *URL_COLUMNS)]
            columns.update(dict.fromkeys([*default_keys, *new_keys[: max(0, _MOST_COLUMNS - len(columns))]]))
        arrays = {key: pa.array([record.get(key) for _, record in batch], pa.large_string()) for key in columns}
        yield pa.table(arrays)


def _records(path: Path) -> Iterator[tuple[int, dict[str, str | None]]]:
    """Yield each object of a JSONL file, with the length of its line."""
    for number, line in enumerate(delimited.lines(path), start=1):
        if not line.strip():
            continue
        try:
            # Not strict, so that a text may contain control characters.
            record = json.loads(line, strict=False)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}, line {number} is not JSON: {error}") from None
        if not isinstance(record, dict):
            raise InputError(
                f"{path}, line {number} contains a {type(record).__name__}; each line must contain one object."
            )
        delimited.check_width(len(record), f"{path}, line {number},")
        flat = {key: value for key, value in record.items() if not isinstance(value, dict | list)}
        if len(flat) < len(record):
            _note_left_out(str(path), [key for key in record if key not in flat])
        # An escape may be a lone surrogate, which cannot be written to a file.
        convert = _fix_surrogates if "\\u" in line else str
        short_keys = (key for key in flat if len(key) <= _LONGEST_ID)
        scalars = {key: json.dumps(flat[key]) if isinstance(flat[key], bool) else flat[key] for key in short_keys}
        yield len(line), {convert(key): None if v is None else convert(str(v)) for key, v in scalars.items()}


def _fix_surrogates(text: str) -> str:
    return text.encode("utf-16", errors="surrogatepass").decode("utf-16", errors="replace")


_reported: set[str] = set()


def _note_left_out(source: str, columns: Sequence[str]) -> None:
    """Warn once per source about its columns that are not read."""
    if source not in _reported:
        _reported.add(source)
        names = _join_names(columns)
        _log.warning("%s: columns of lists, objects or bytes are ignored: %s.", source, names)


def _read_csv(path: Path, size: int) -> _TableIterator:
    """Read a CSV or TSV file, every column as text."""
    usual = "\t" if _ending(path).startswith(".tsv") else ","
    with contextlib.closing(delimited.lines(path)) as lines:
        fields = next(lines, "").split("\t")
    urls = [i for i, field in enumerate(fields) if _URL.match(field)]
    if usual == "\t" and len(fields) == 2 and len(urls) == 1:
        names, rows = ["url", "caption"], _pairs(delimited.lines(path), url_first=urls == [0])
    else:
        rows = delimited.rows(path, usual=usual, literal=usual == "\t")
        header = next(rows, [])
        if not header:
            raise InputError(f"{path} cannot be read as CSV, because it is empty.")
        names = _unique_names([field.strip() for field in header], reserved=frozenset())
    # Empty cells take memory, too.
    for batch in _batch_rows(rows, size, lambda row: sum(map(len, row)) + 8 * len(row)):
        columns = (pa.array(column, pa.large_string()) for column in zip(*batch, strict=True))
        yield pa.table(dict(zip(names, columns, strict=True)))


def _pairs(lines: Iterable[str], *, url_first: bool) -> Iterator[list[str]]:
    """Yield URL and caption of each line; the URL is before the first tab or after the last one."""
    for line in lines:
        line = line.rstrip("\r\n")
        if not line:
            continue
        head, tab, tail = line.partition("\t") if url_first else line.rpartition("\t")
        if not tab:
            yield ["", line]
        else:
            yield [head, tail] if url_first else [tail, head]


def _split_table(table: pa.RecordBatch | pa.Table, names: Sequence[str]) -> _TableIterator:
    """Yield the columns ``names`` of an Arrow table, cleaned, in pieces of bounded size."""
    arrays = [_clean_column(table.column(table.schema.names.index(name))) for name in names]
    cleaned = pa.Table.from_arrays(arrays, names=names)
    rows = max(1, _BATCH_BYTES * len(cleaned) // max(cleaned.nbytes, 1))
    # A table without readable columns yields one piece without rows.
    for start in range(0, len(cleaned) or (0 if names else 1), rows):
        yield cleaned.slice(start, rows)


def _flat_columns(schema: pa.Schema, source: str) -> list[str]:
    """Return the columns of plain values, which can be read."""
    delimited.check_width(len(schema), source)
    names: dict[str, None] = {}
    for field in schema:
        kind = field.type.value_type if kinds.is_dictionary(field.type) else field.type
        text = field.name in (*TEXT_COLUMNS, *URL_COLUMNS)
        if not kinds.is_nested(kind) and (text or not any(ask(kind) for ask in _BYTES)):
            names[field.name] = None
    if left_out := [name for name in schema.names if name not in names]:
        _note_left_out(source, left_out)
    return list(names)


def _clean_column(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return a column with texts as UTF-8, invalid bytes as U+FFFD, and dates and times as texts."""
    if kinds.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if kinds.is_temporal(column.type):
        if kinds.is_timestamp(column.type) and column.type.tz:
            column = column.cast(pa.int64()).cast(pa.timestamp(column.type.unit, "UTC"))
        return column.cast(pa.large_string())
    if any(ask(column.type) for ask in (kinds.is_string, kinds.is_large_string, kinds.is_string_view)):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            values = column.cast(pa.large_binary()).to_pylist()
            column = pa.array([None if v is None else v.decode("utf-8", errors="replace") for v in values])
        return column.cast(pa.large_string())
    return column


@contextlib.contextmanager
def _open_parquet(path: Path | str) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file. Raises InputError: It cannot be opened, or reading it fails."""
    try:
        with pq.ParquetFile(path) as file:
            yield file
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path} cannot be read as Parquet: {error}") from None


def _read_parquet(path: Path, size: int) -> _TableIterator:
    with _open_parquet(path) as file:
        names = _flat_columns(file.schema_arrow, str(path))
        # Large rows are read in smaller batches.
        groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
        largest = max((g.total_byte_size / max(g.num_rows, 1) for g in groups), default=0)
        for batch in file.iter_batches(max(1, min(size, int(_BATCH_BYTES / max(largest, 1)))), columns=names):
            yield from _split_table(batch, names)


# Readers by file extension; each yields tables of up to ``size`` rows.
_TEXTUAL = {".csv": _read_csv, ".tsv": _read_csv, ".jsonl": _read_jsonl, ".ndjson": _read_jsonl, ".txt": _read_text}
_READERS: dict[str, Callable[[Path, int], _TableIterator]] = {
    ".parquet": _read_parquet,
    **_TEXTUAL,
    **{f"{ending}.gz": reader for ending, reader in _TEXTUAL.items()},
}


def _ending(path: Path) -> str:
    """Return the supported extension of a file, or an empty string."""
    endings = (e for e in sorted(_READERS, key=len, reverse=True) if path.name.lower().endswith(e))
    return next(endings, "")


def _reader(path: Path) -> Callable[[Path, int], _TableIterator]:
    ending = _ending(path)
    if not ending:
        raise InputError(
            f"{path} has an unsupported type. Captions are read from files that end in .parquet or in "
            f"{', '.join(_TEXTUAL)}; the latter may be compressed as .gz."
        )
    return _READERS[ending]


class HubCorpus(_Tables):
    """A dataset of the Hugging Face Hub (``NAME:CONFIG@SPLIT``), streamed; its shards are parts."""

    def __init__(self, dataset: str, columns: Mapping[str, str], rows: int):
        parts = re.fullmatch(r"(.+?)(?::([^:@/\\]+))?(?:@([^:@/\\]+))?", dataset)
        self._dataset, self._config, split = parts.groups("") if parts else (dataset, "", "")
        self._split = split or "train"
        self._mapping, self._rows = dict(columns), rows
        self._prefix = Path(self._dataset).name
        self.name = f"hf:{redact.basename(dataset)}"
        self.images = None

    def __getstate__(self) -> dict[str, Any]:
        # Another process opens the objects of the library itself.
        return {name: value for name, value in vars(self).items() if name not in ("_builder", "_stream")}

    @cached_property
    def digest(self) -> str:
        """Digest of the dataset's name and revision, its split and the columns."""
        revision = [str(self._builder.hash), str(self._builder.config_id)]
        key = (self._prefix, revision, self._split, sorted(self._mapping.items()), self._rows)
        return hashlib.sha256(repr(key).encode()).hexdigest()[:16]

    @property
    def parts(self) -> int:
        """Number of shards, usually files; a corpus limited to some rows is one part."""
        return 1 if self._rows else self._stream.num_shards

    @cached_property
    def _builder(self):
        import datasets

        try:
            with refuse_questions():
                return datasets.load_dataset_builder(self._dataset, self._config or None)
        except Exception as error:
            # The library raises errors of many types; each means that the dataset is unavailable under this name.
            raise InputError(
                f"The dataset {self._dataset!r} cannot be opened: {error} Write a dataset on the Hugging Face Hub as "
                "'owner/name' or 'hf:NAME:CONFIG@SPLIT'. It must be public or accessible with your login, and needs a "
                "network connection."
            ) from error

    @cached_property
    def _stream(self):
        try:
            stream = self._builder.as_streaming_dataset(split=self._split)
        except (ValueError, OSError) as error:
            raise InputError(f"The dataset {self.name!r} cannot be read: {error}") from None
        # As Arrow tables, so that images in columns are not decoded.
        return stream.with_format("arrow")

    def _sources(self, size: int, part: int | None) -> Iterator[tuple[str, str, int, _TableIterator]]:
        for i in range(self._stream.num_shards) if part is None else [part]:
            yield self.name, f"{self._prefix}-{i:05d}", 0, self._tables(i, size)

    def _tables(self, i: int, size: int) -> _TableIterator:
        stream = self._stream.shard(num_shards=self._stream.num_shards, index=i)
        try:
            for table in stream.iter(batch_size=min(size, _STREAMED_ROWS)):
                yield from _split_table(table, _flat_columns(table.schema, self.name))
        except InputError:
            raise
        except Exception as error:
            # Errors of many types, caused by the network and by invalid files.
            message = " ".join(str(error).split())[:300]
            raise InputError(f"The dataset {self.name!r} cannot be read to its end: {message}.") from error
