"""Where captions come from: files, a dataset of the Hugging Face Hub, or what packages bring, behind one contract.

Every corpus yields tables with ``caption_id``, ``text`` and, where it has one, ``url``, and carries its other columns
along. Captions are hostile input: a text holds no lone surrogates, bytes that are no UTF-8 become U+FFFD, and all else
in it stays as it is. Tables are cut by rows and by bytes, so that memory stays bounded.
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
    loading_allowed,
    name_help,
    near_matches,
)
from biaslab.io import delimited, folders

_log = logging.getLogger(__name__)

BATCH = 8192
# Names that the text of a caption, and the URL of its image, go by, in the order they are looked for.
TEXT_COLUMNS = ("text", "TEXT", "caption", "Caption", "CAPTION", "captions")
URL_COLUMNS = ("url", "URL", "image_url", "Image_URL", "IMAGE_URL")
# What a column of a corpus can be mapped to.
ROLES = ("text", "caption_id", "url")
# Columns that stages add; a corpus's own columns of these names are carried as corpus_<name>.
_TAKEN = frozenset((
    "caption_id", "text", "url", "term", "rank", "priority", "n_captions", "n_corpus", "indicator", "spans",
    "occupation", "approach", "prompt", "cosine", "prompt_id", "n_images", "image_id", "index", "seed",
    "status", "gender", "probability_female", "n_faces", "x0", "y0", "x1", "y1", "reason", "boxes", "paraphrase",
    "paraphrase_status", "caption",
))  # fmt: skip
# Bytes of a table of captions beside which no further row is put, and of an id.
_BATCH_BYTES, _LONGEST_ID = 32 * 2**20, 200
# Columns of a JSONL file that are carried at most, and rows that are streamed at a time.
_MOST_COLUMNS, _STREAMED_ROWS = 100, 1024
# Some captions as they are read, texts as UTF-8.
_Read = Iterator[pa.Table]
_URL = re.compile(r"(?i)https?://")
# Bytes of a row of a Parquet file, on average, above which its rows are read few at a time.
_LARGE_ROW = 4096
_BYTES = (kinds.is_binary, kinds.is_large_binary, kinds.is_binary_view, kinds.is_fixed_size_binary)
# Files larger than this are identified by their ends, size and time of change, smaller ones by their content.
_HASHED_BYTES = 16 * 2**20


# Ids are made of file and row, but for sets whose publishers say that theirs are unique, known by their columns: COYO
# and DataComp. LAION's SAMPLE_ID and hash come more than once.
_IDS = {"id": frozenset({"id", "url", "text", "image_phash"}), "uid": frozenset({"uid", "url", "text", "sha256"})}


class Selection(NamedTuple):
    """What DuckDB reads captions from."""

    source: str
    """A table or table function."""
    n_captions: int
    """Its rows."""
    row: str
    """The expression of a caption's row, from 0 in order."""
    columns: Mapping[str, str]
    """The expressions of ``caption_id``, ``text`` and the columns after them, by name."""


class Corpus(Protocol):
    """What every corpus offers. Memory stays bounded whatever its size."""

    name: str  # What to call it in messages and tables.
    digest: str  # Hex digits that change with the captions and with the columns read.
    parts: int  # How many pieces it has that can be read apart, at least 1 unless it is empty.
    # The images behind the captions, by ``caption_id`` as ``image_id``; None where there are none.
    images: Any
    # Whether its captions are written as they are read: to search all costs little, and none of them can be wrong.
    written: bool
    # The corpus that has captions for triplets in the place of these; empty where these do.
    for_triplets: str

    def batches(self, size: int = BATCH, part: int | None = None) -> Iterator[pd.DataFrame]:
        """Yield tables of up to ``size`` rows in order: of one part, or of all parts one after the other.

        Columns: ``caption_id`` (unique text, the same however the corpus is read), ``text`` (empty where missing),
        ``url`` (likewise) where the corpus has one, and the corpus's own.
        """

    def selection(self, part: int) -> Selection | None:
        """Return what DuckDB reads the captions of a part from as ``batches`` yields them; None where it cannot."""


def open_corpus(
    name: str,
    *,
    max_captions: int = 0,
    seed: int = 0,
    synthetic_bias: str = "default",
    columns: Mapping[str, str] | None = None,
) -> Corpus:
    """Open the captions called ``name``; nothing is read yet beyond what identifies them.

    Args:
        name: What an installed package brings (``biaslab.corpora``); a Parquet, CSV, TSV, JSONL or text file (in which
            a line is a caption), a folder of files or a pattern such as ``"part-*.parquet"``; or a dataset of the
            Hugging Face Hub, streamed, as ``"owner/name"`` or ``"hf:NAME:CONFIG@SPLIT"`` (both may be left out).
        max_captions: Maximum number of captions, from the start; 0 reads all.
        seed, synthetic_bias: Seed of synthetic captions, and the bias planted in them; other corpora ignore both.
        columns: Which column holds ``text``, ``caption_id`` (each once) and ``url``, such as ``{"text": "TEXT"}``;
            usual names are known. Ids that are missing, or longer than 200 characters, are made of file and row.

    Raises InputError: There is no such corpus; a file cannot be read, is of an unknown kind, or has no such column.
    MissingInputError: No corpus is named. ParameterError: ``columns`` maps what cannot be mapped.
    """
    columns = columns or {}
    for role, column in columns.items():
        if role not in ROLES:
            raise ParameterError(f"columns maps {role!r}. {name_help(role, ROLES)}")
        if not isinstance(column, str) or not column:
            raise ParameterError(f"columns maps {role!r} to {column!r}; it must be the name of a column.")
    if not name:
        raise MissingInputError(
            "captions.corpus names no captions: set it to a file or pattern of files, or to the hub name of a dataset."
        )
    if name in (brought := plugins.entry_points(plugins.CORPORA)):
        with loading(name, "captions"):
            return brought[name].load()(max_captions=max_captions, seed=seed, synthetic_bias=synthetic_bias)
    if name.startswith("hf:"):
        return HubCorpus(name.removeprefix("hf:"), columns, max_captions)
    folder = Path(os.path.expanduser(name))
    if os.path.isdir(folder):
        available = folders.files(folder, tuple(_READERS))
        # Next to tables, texts are about them, and so are LICENSE and README.
        texts = [path for path in available if _READERS[_ending(Path(path))] is _read_text]
        kept = folders.without_notes(texts) if len(texts) == len(available) else []
        if aside := [path for path in texts if path not in set(kept)]:
            _log.warning("%s: read as no captions: %s.", folder, _listed(aside))
        paths = [path for name, path in available.items() if name not in set(aside)]
    else:
        paths = [Path(p) for p in sorted(glob.glob(str(folder), recursive=True)) if os.path.isfile(p)]
    if paths:
        return FileCorpus(name, paths, columns, max_captions)
    owner, slash, rest = name.partition("/")
    if slash and owner and rest and "/" not in rest and not (Path(name).suffix or set(name) & set("*?[~.")):
        return HubCorpus(name, columns, max_captions)
    near = near_matches(name, brought)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise InputError(
        f"There is no corpus {name!r}. {hint}A corpus is a Parquet, CSV, TSV, JSONL or text file (or a "
        "folder of them, or a pattern), or a dataset on the Hugging Face Hub: 'owner/name' or 'hf:NAME:CONFIG@SPLIT'."
    )


class _Columns(NamedTuple):
    text: str
    caption_id: str | None
    url: str | None


def _chosen(wanted: Mapping[str, str], there: Sequence[str], where: str) -> _Columns:
    """Return the columns to read; raises InputError where one is not there."""
    for role, column in wanted.items():
        if column not in there:
            raise InputError(f"{where} has no column {column!r} for {role}. {name_help(column, there)}")

    def first(names: Sequence[str]) -> str | None:
        return next((name for name in names if name in there), None)

    text = wanted.get("text") or first(TEXT_COLUMNS)
    if text is None:
        raise InputError(
            f"{where} has no column {' or '.join(map(repr, TEXT_COLUMNS))}, where captions are looked for. Its "
            f"columns: {_listed(there)}. Name the one with text, for example columns={{'text': 'TEXT'}}; each of its "
            "rows must hold one caption."
        )
    unique = [name for name, columns in _IDS.items() if columns <= set(there)]
    ids = wanted.get("caption_id") or first(("caption_id", *unique))
    return _Columns(text, ids, wanted.get("url") or first(URL_COLUMNS))


def _listed(columns: Sequence[str]) -> str:
    shown = ", ".join(str(c)[:60] for c in columns[:40]) or "none that can be read"
    return shown + (f", … ({len(columns)} in all)" if len(columns) > 40 else "")


class _Tables:
    """A corpus that is read as Arrow tables."""

    written, for_triplets = False, ""
    _wanted: Mapping[str, str]
    _rows: int

    def _sources(self, size: int, part: int | None) -> Iterator[tuple[str, str, int, _Read]]:
        """Yield for each source its name, what its ids begin with, the number of the first row there, and its rows."""
        raise NotImplementedError

    def selection(self, part: int) -> Selection | None:
        """Return None: DuckDB cannot read the captions."""
        return None

    def batches(self, size: int = BATCH, part: int | None = None) -> Iterator[pd.DataFrame]:
        """Yield captions with the corpus's other columns."""
        left = self._rows or None
        for where, prefix, start, read in self._sources(min(size, left or size), None if left else part):
            for table in read:
                columns = _chosen(self._wanted, table.column_names, where)
                table = table[:left]
                if len(table):
                    yield _shaped(table, columns, _ids(table, columns.caption_id, prefix, start))
                start += len(table)
                if left is not None:
                    left -= len(table)
                    if left == 0:
                        return


def _ids(table: pa.Table, column: str | None, prefix: str, start: int) -> Sequence[str]:
    """Return the ids of a table's rows: those of its column, or made of file and row."""
    made = [f"{prefix}-{row:09d}" for row in range(start, start + len(table))]
    if not column:
        return made
    given = _texts(table[column], _as_id)
    lengths = pc.utf8_length(given)
    good = pc.and_(pc.greater(lengths, 0), pc.less_equal(lengths, _LONGEST_ID))
    return pc.if_else(good, given, pa.array(made, pa.large_string())).to_pylist()


def _shaped(table: pa.Table, columns: _Columns, ids: Sequence[str]) -> pd.DataFrame:
    """Return rows with ``caption_id``, ``text`` and ``url`` first and the other columns after them."""
    first = {"caption_id": pa.array(ids, pa.large_string()), "text": _texts(table[columns.text])}
    if columns.url:
        first["url"] = _texts(table[columns.url])
    return pa.table(first | {name: table[own] for own, name in _others(table.column_names, columns)}).to_pandas()


def _others(names: Sequence[str], columns: _Columns) -> Iterable[tuple[str, str]]:
    """Return the columns without a role, each with the name under which tables have it."""
    others = [name for name in names if name not in (columns.text, columns.caption_id, columns.url)]
    return zip(others, _carried_as(others), strict=True)


def _carried_as(columns: Sequence[str], taken: Collection[str] = _TAKEN) -> list[str]:
    """Return the names under which a corpus's own columns are carried along: none is taken, each comes once."""
    found: dict[str, None] = {}
    for column in columns:
        name = f"corpus_{column}" if column in taken else str(column)
        while name in found:
            name += "_"
        found[name] = None
    return list(found)


def _texts(column: pa.ChunkedArray, plain: Callable[[object], str] | None = None) -> pa.ChunkedArray | pa.Array:
    """Return a column as texts, empty where it is missing; ``plain`` is how a number or bytes are written."""
    if plain is _as_id and kinds.is_integer(column.type):
        column = column.cast(pa.large_string())
    if not kinds.is_large_string(column.type):
        column = pa.array(map(plain or _as_text, column.to_pandas()), pa.large_string())
    return pc.fill_null(column, "")


def _as_text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    return "" if pd.isna(value) else str(value)


def _as_id(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else _as_text(value)


class FileCorpus(_Tables):
    """Captions in files, in this order, each of which is a part."""

    def __init__(self, name: str, paths: Sequence[Path], columns: Mapping[str, str], rows: int):
        for path in paths:
            _reader(path)
        self.name = redact.basename(name)
        self.paths = list(paths)
        self.images = None
        self._wanted, self._rows = dict(columns), rows
        base = Path(os.path.commonpath([p.absolute().parent for p in paths]))
        self._prefixes = [p.absolute().relative_to(base).as_posix() for p in paths]

    def __getstate__(self) -> dict[str, Any]:
        # Workers may run in other folders.
        return self.__dict__ | {"paths": [path.absolute() for path in self.paths]}

    @cached_property
    def digest(self) -> str:
        """Digest of the files' names, their content (of large ones: ends, size and time) and the columns."""
        digest = hashlib.sha256(repr((sorted(self._wanted.items()), self._rows)).encode())
        for path, prefix in zip(self.paths, self._prefixes, strict=True):
            digest.update(prefix.encode() + b"\0" + _file_digest(path))
        return digest.hexdigest()[:16]

    @property
    def parts(self) -> int:
        """How many there are; a corpus cut after some rows is one part."""
        return 1 if self._rows else len(self.paths)

    def _sources(self, size: int, part: int | None) -> Iterator[tuple[str, str, int, _Read]]:
        for i in range(len(self.paths)) if part is None else [part]:
            yield str(self.paths[i]), self._prefixes[i], 0, _reader(self.paths[i])(self.paths[i], size)

    def selection(self, part: int) -> Selection | None:
        """Return how DuckDB reads a Parquet file of small rows of texts, numbers and truth values."""
        path = str(self.paths[part])
        # DuckDB reads some paths as patterns.
        if self._rows or _ending(self.paths[part]) != ".parquet" or set(path) & set("*?["):
            return None
        with _opened_parquet(path) as file:
            schema, metadata = file.schema_arrow, file.metadata
            names = _flat_columns(schema, path)
            columns = _chosen(self._wanted, names, path)
            n_bytes = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
        types = {name: schema.field(name).type for name in names}
        texts = {name for name, kind in types.items() if kinds.is_string(kind) or kinds.is_large_string(kind)}
        integers = {name for name, kind in types.items() if kinds.is_integer(kind)}
        others = {name for name, kind in types.items() if kinds.is_floating(kind) or kinds.is_boolean(kind)}
        is_read_alike = (
            texts | integers | others == set(names)
            and {columns.text, columns.url or columns.text} <= texts
            and columns.caption_id in texts | integers | {None}
            # DuckDB takes letters of either case in names for the same.
            and len({name.lower() for name in schema.names}) == len(schema.names)
        )
        if not is_read_alike or n_bytes > _LARGE_ROW * metadata.num_rows:
            return None
        quoted = {name: '"' + name.replace('"', '""') + '"' for name in names}
        caption_id = f"printf('%s-%09d', {_literal(self._prefixes[part])}, file_row_number)"
        if columns.caption_id:
            given = f"{quoted[columns.caption_id]}::varchar"
            caption_id = f"case when length({given}) between 1 and {_LONGEST_ID} then {given} else {caption_id} end"
        first = {"caption_id": caption_id, "text": quoted[columns.text]}
        if columns.url:
            first["url"] = f"coalesce({quoted[columns.url]}, '')"
        carried = {name: quoted[own] for own, name in _others(names, columns)}
        source = f"read_parquet({_literal(path)}, file_row_number = true)"
        return Selection(source, metadata.num_rows, "file_row_number", first | carried)


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


def _batched(rows: Iterable[Any], size: int, weight: Callable[[Any], int]) -> Iterator[list[Any]]:
    """Yield lists of up to ``size`` rows, and fewer where they are heavy."""
    batch: list[Any] = []
    heavy = 0
    for row in rows:
        batch.append(row)
        heavy += weight(row)
        if len(batch) == size or heavy >= _BATCH_BYTES:
            yield batch
            batch, heavy = [], 0
    if batch:
        yield batch


def _read_text(path: Path, size: int) -> _Read:
    for batch in _batched((line.rstrip("\r\n") for line in delimited.lines(path)), size, len):
        yield pa.table({"text": pa.array(batch, pa.large_string())})


def _read_jsonl(path: Path, size: int) -> _Read:
    # All that is carried is text, as in CSV: one line says nothing about the types that another will have.
    columns: dict[str, None] = {}
    for batch in _batched(_records(path), size, lambda weighed: weighed[0]):
        for _, record in batch:
            new = [key for key in record if key not in columns]
            usual = [key for key in new if key in (*TEXT_COLUMNS, *URL_COLUMNS)]
            columns.update(dict.fromkeys([*usual, *new[: max(0, _MOST_COLUMNS - len(columns))]]))
        found = {key: pa.array([record.get(key) for _, record in batch], pa.large_string()) for key in columns}
        yield pa.table(found)


def _records(path: Path) -> Iterator[tuple[int, dict[str, str | None]]]:
    """Yield each object of a JSONL file, with the length of its line."""
    for number, line in enumerate(delimited.lines(path), start=1):
        if not line.strip():
            continue
        try:
            # Not strict, so that a text may hold control characters as they are.
            record = json.loads(line, strict=False)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}, line {number} is not JSON: {error}") from None
        if not isinstance(record, dict):
            raise InputError(f"{path}, line {number} holds {type(record).__name__}; a line holds one object.")
        delimited.check_width(len(record), f"{path}, line {number},")
        flat = {key: value for key, value in record.items() if not isinstance(value, dict | list)}
        if len(flat) < len(record):
            _note_left_out(str(path), [key for key in record if key not in flat])
        # An escape may stand for half a character, which fits in no file.
        clean = _whole if "\\u" in line else str
        kept = (key for key in flat if len(key) <= _LONGEST_ID)
        scalars = {key: json.dumps(flat[key]) if isinstance(flat[key], bool) else flat[key] for key in kept}
        yield len(line), {clean(key): None if v is None else clean(str(v)) for key, v in scalars.items()}


def _whole(text: str) -> str:
    return text.encode("utf-16", errors="surrogatepass").decode("utf-16", errors="replace")


_told: set[str] = set()


def _note_left_out(where: str, columns: Sequence[str]) -> None:
    """Say once for each source which of its columns are not carried along."""
    if where not in _told:
        _told.add(where)
        names = _listed(columns)
        _log.warning("%s: columns with lists, objects or bytes are not carried along: %s.", where, names)


def _read_csv(path: Path, size: int) -> _Read:
    """Read a CSV or TSV file, every column as text."""
    usual = "\t" if _ending(path).startswith(".tsv") else ","
    with contextlib.closing(delimited.lines(path)) as lines:
        pair = next(lines, "").split("\t")
    urls = [i for i, field in enumerate(pair) if _URL.match(field)]
    if usual == "\t" and len(pair) == 2 and len(urls) == 1:
        names, rows = ["url", "caption"], _pairs(delimited.lines(path), url_first=urls == [0])
    else:
        rows = delimited.rows(path, usual=usual, literal=usual == "\t")
        header = next(rows, [])
        if not header:
            raise InputError(f"{path} cannot be read as CSV: it is empty.")
        names = _carried_as([field.strip() for field in header], taken=frozenset())
    # A cell takes memory where it is empty, too.
    for batch in _batched(rows, size, lambda row: sum(map(len, row)) + 8 * len(row)):
        columns = (pa.array(column, pa.large_string()) for column in zip(*batch, strict=True))
        yield pa.table(dict(zip(names, columns, strict=True)))


def _pairs(lines: Iterable[str], *, url_first: bool) -> Iterator[list[str]]:
    """Yield URL and caption of lines that hold both, one before the first tab or behind the last one."""
    for line in lines:
        line = line.rstrip("\r\n")
        if not line:
            continue
        one, tab, other = line.partition("\t") if url_first else line.rpartition("\t")
        if not tab:
            yield ["", line]
        else:
            yield [one, other] if url_first else [other, one]


def _plain(table: pa.RecordBatch | pa.Table, names: Sequence[str]) -> _Read:
    """Yield some columns of an Arrow table, sound, in pieces of bounded size."""
    arrays = [_sound(table.column(table.schema.names.index(name))) for name in names]
    whole = pa.Table.from_arrays(arrays, names=names)
    rows = max(1, _BATCH_BYTES * len(whole) // max(whole.nbytes, 1))
    # A table of which no column can be read has no rows, and says so once.
    for start in range(0, len(whole) or (0 if names else 1), rows):
        yield whole.slice(start, rows)


def _flat_columns(schema: pa.Schema, where: str) -> list[str]:
    """Return which columns fit in a table of plain values."""
    delimited.check_width(len(schema), where)
    found: dict[str, None] = {}
    for field in schema:
        kind = field.type.value_type if kinds.is_dictionary(field.type) else field.type
        text = field.name in (*TEXT_COLUMNS, *URL_COLUMNS)
        if not kinds.is_nested(kind) and (text or not any(ask(kind) for ask in _BYTES)):
            found[field.name] = None
    if left_out := [name for name in schema.names if name not in found]:
        _note_left_out(where, left_out)
    return list(found)


def _sound(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return a column plain: texts in it as UTF-8, what is none as U+FFFD; dates and times as texts."""
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
            raw = column.cast(pa.large_binary()).to_pylist()
            column = pa.array([None if v is None else v.decode("utf-8", errors="replace") for v in raw])
        return column.cast(pa.large_string())
    return column


@contextlib.contextmanager
def _opened_parquet(path: Path | str) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file. Raises InputError: It cannot be opened, or not be read on."""
    try:
        with pq.ParquetFile(path) as file:
            yield file
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path} cannot be read as Parquet: {error}") from None


def _read_parquet(path: Path, size: int) -> _Read:
    with _opened_parquet(path) as file:
        names = _flat_columns(file.schema_arrow, str(path))
        # Fewer rows at a time where they are large.
        groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
        largest = max((g.total_byte_size / max(g.num_rows, 1) for g in groups), default=0)
        for batch in file.iter_batches(max(1, min(size, int(_BATCH_BYTES / max(largest, 1)))), columns=names):
            yield from _plain(batch, names)


# Readers by the end of a file's name: each yields tables of up to so many rows.
_TEXTUAL = {".csv": _read_csv, ".tsv": _read_csv, ".jsonl": _read_jsonl, ".ndjson": _read_jsonl, ".txt": _read_text}
_READERS: dict[str, Callable[[Path, int], _Read]] = {
    ".parquet": _read_parquet,
    **_TEXTUAL,
    **{f"{ending}.gz": reader for ending, reader in _TEXTUAL.items()},
}


def _ending(path: Path) -> str:
    """Return the end of a file's name that says of which kind it is; empty where it is of none."""
    found = (e for e in sorted(_READERS, key=len, reverse=True) if path.name.lower().endswith(e))
    return next(found, "")


def _reader(path: Path) -> Callable[[Path, int], _Read]:
    ending = _ending(path)
    if not ending:
        raise InputError(
            f"{path} has an unsupported type; captions are read from files that end in .parquet, or in "
            f"{', '.join(_TEXTUAL)}, plain or compressed as .gz."
        )
    return _READERS[ending]


class HubCorpus(_Tables):
    """A dataset of the Hugging Face Hub (``NAME:CONFIG@SPLIT``), streamed; its shards are parts."""

    def __init__(self, dataset: str, columns: Mapping[str, str], rows: int):
        parts = re.fullmatch(r"(.+?)(?::([^:@/\\]+))?(?:@([^:@/\\]+))?", dataset)
        self._dataset, self._config, split = parts.groups("") if parts else (dataset, "", "")
        self._split = split or "train"
        self._wanted, self._rows = dict(columns), rows
        self._prefix = Path(self._dataset).name
        self.name = f"hf:{redact.basename(dataset)}"
        self.images = None

    def __getstate__(self) -> dict[str, Any]:
        # What the library opened, another process opens for itself.
        return {name: value for name, value in vars(self).items() if name not in ("_builder", "_stream")}

    @cached_property
    def digest(self) -> str:
        """Digest of the dataset's name and revision, its split and the columns."""
        revision = [str(self._builder.hash), str(self._builder.config_id)]
        key = (self._prefix, revision, self._split, sorted(self._wanted.items()), self._rows)
        return hashlib.sha256(repr(key).encode()).hexdigest()[:16]

    @property
    def parts(self) -> int:
        """One per shard, as a rule a file; a corpus cut after some rows is one part."""
        return 1 if self._rows else self._stream.num_shards

    @cached_property
    def _builder(self):
        import datasets

        try:
            with loading_allowed():
                return datasets.load_dataset_builder(self._dataset, self._config or None)
        except Exception as error:
            # The library raises many kinds; each means that the dataset cannot be had under this name.
            raise InputError(
                f"The dataset {self._dataset!r} cannot be opened: {error} A dataset on the Hugging Face Hub is named "
                "'owner/name' or 'hf:NAME:CONFIG@SPLIT'; it must be public or your login must reach it, and the "
                "network must be there."
            ) from error

    @cached_property
    def _stream(self):
        try:
            stream = self._builder.as_streaming_dataset(split=self._split)
        except (ValueError, OSError) as error:
            raise InputError(f"The dataset {self.name!r} cannot be read: {error}") from None
        # Tables as they come, so that no image among the columns is decoded.
        return stream.with_format("arrow")

    def _sources(self, size: int, part: int | None) -> Iterator[tuple[str, str, int, _Read]]:
        for i in range(self._stream.num_shards) if part is None else [part]:
            yield self.name, f"{self._prefix}-{i:05d}", 0, self._tables(i, size)

    def _tables(self, i: int, size: int) -> _Read:
        stream = self._stream.shard(num_shards=self._stream.num_shards, index=i)
        try:
            for table in stream.iter(batch_size=min(size, _STREAMED_ROWS)):
                yield from _plain(table, _flat_columns(table.schema, self.name))
        except InputError:
            raise
        except Exception as error:
            # Again many kinds: of the network, and of files that are not what they should be.
            why = " ".join(str(error).split())[:300]
            raise InputError(f"The dataset {self.name!r} cannot be read to its end: {why}.") from error
