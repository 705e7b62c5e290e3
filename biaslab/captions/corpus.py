"""Where captions come from: the embedded world, files, or a dataset of the Hugging Face Hub, behind one contract."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from biaslab.errors import InputError, MissingInputError, ParameterError, name_help, near_matches

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

BATCH = 8192
# Names that the text of a caption goes by, in the order they are looked for.
TEXT_COLUMNS = ("text", "TEXT", "caption", "Caption", "CAPTION", "captions")
# Columns that the search adds; a corpus's own columns of these names are carried as corpus_<name>.
_TAKEN = ("term", "rank", "priority", "n_captions", "n_corpus", "indicator", "spans")
# Captions in a part of the embedded world: a multiple of the blocks that it draws.
_MINI_PART = 16 * 4096
# Files larger than this are identified by their ends, size and time of change, smaller ones by their content.
_HASHED_BYTES = 16 * 2**20


class Corpus(Protocol):
    """What every corpus offers. Memory stays bounded whatever its size."""

    name: str
    """What to call it in messages and tables."""
    digest: str
    """Hex digits that change with the captions and with the columns read."""
    parts: int
    """How many pieces it has that can be read apart, at least 1 unless it is empty."""
    images: Any
    """The images behind the captions, by ``caption_id`` as ``image_id``; None where there are none."""

    def batches(self, size: int = BATCH, part: int | None = None) -> Iterator[pd.DataFrame]:
        """Yield tables of up to ``size`` rows in order: of one part, or of all parts one after the other.

        Columns: ``caption_id`` (unique text, the same however the corpus is read), ``text`` (empty where
        missing) and the corpus's own. How rows fall into batches has no meaning.
        """


def open_corpus(
    name: str,
    *,
    rows: int = 0,
    seed: int = 0,
    skew: str = "default",
    columns: Mapping[str, str] | None = None,
) -> Corpus:
    """Open the captions called ``name``; nothing is read yet beyond what identifies them.

    Args:
        name: ``"mini"`` (the embedded world), a Parquet, CSV, JSONL or text file (the last three also as
            ``.gz``; in text files a line is a caption), a pattern such as ``"part-*.parquet"``, or a dataset of the
            Hugging Face Hub: ``"hf:NAME"`` or ``"owner/name"``, its split ``train``, streamed.
        rows: How many captions from the start; 0 for all, or for the embedded world's own number.
        seed: Seed of the embedded world; other corpora have none.
        skew: Setting of the embedded world's knobs; other corpora have none.
        columns: Which of the corpus's columns holds ``text`` and, if any, ``caption_id``, for example
            ``{"text": "TEXT"}``. Without it the text is looked for under usual names, and ids are made
            of the file's name and the row's number.

    Raises:
        InputError: A file cannot be read, is of an unknown kind, or has no such column.
        MissingInputError: There is no such corpus.
        ParameterError: ``rows`` is negative or ``columns`` names something else than text and caption_id.
    """
    if rows < 0:
        raise ParameterError(f"rows is {rows}; give the number of captions, or 0 for all.")
    columns = dict(columns or {})
    unknown = sorted(set(columns) - {"text", "caption_id"})
    if unknown:
        raise ParameterError(f"columns maps {unknown[0]!r}. {name_help(unknown[0], ('text', 'caption_id'))}")
    if name == "mini":
        return MiniCorpus(rows, seed, skew)
    if name.startswith("hf:"):
        return HubCorpus(name.removeprefix("hf:"), columns, rows)
    paths = [
        Path(p) for p in sorted(glob.glob(os.path.expanduser(name), recursive=True)) if os.path.isfile(p)
    ]
    if paths:
        return FileCorpus(name, paths, columns, rows)
    owner, slash, rest = name.partition("/")
    if slash and owner and rest and "/" not in rest and not (Path(name).suffix or set(name) & set("*?[~.")):
        return HubCorpus(name, columns, rows)
    near = near_matches(name, ["mini"])
    hint = "Did you mean 'mini'? " if near else ""
    raise MissingInputError(
        f"There is no corpus {name!r}. {hint}A corpus is 'mini', a Parquet, CSV, JSONL or text file (or a pattern "
        "for several), or a dataset on the Hugging Face Hub: 'owner/name' or 'hf:NAME'."
    )


class MiniCorpus:
    """The embedded world's captions; also carried: its truth, as columns ``truth_…``."""

    name = "mini"

    def __init__(self, rows: int, seed: int, skew: str):
        """Use the world with this number of rows (0 for its own), seed and setting of its knobs."""
        from biaslab.mini.captions import Corpus as World

        size = {"rows": rows} if rows else {}
        self.world = World(**size, seed=seed, skew=skew)
        self.images = MiniImages(self.world)

    @property
    def digest(self) -> str:
        """Digest of the world's settings and code."""
        return self.world.digest

    @property
    def parts(self) -> int:
        """Number of pieces that can be read apart."""
        return -(-len(self.world) // _MINI_PART)

    def batches(self, size: int = BATCH, part: int | None = None) -> Iterator[pd.DataFrame]:
        """Yield captions with their truth."""
        whole = range(len(self.world))
        mine = whole if part is None else whole[part * _MINI_PART : (part + 1) * _MINI_PART]
        for start in range(0, len(mine), size):
            yield self.world.rows_at(mine[start : start + size])


class MiniImages:
    """The embedded world's images, drawn when they are read: each is the scene of its caption."""

    def __init__(self, world):
        """Draw the scenes of ``world``, a :class:`biaslab.mini.captions.Corpus`."""
        self._world = world
        self.name = "mini"

    @property
    def digest(self) -> str:
        """Digest of the world's settings and code."""
        return self._world.digest

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per image: ``image_id``, the id of its caption."""
        import pandas as pd

        ids = [batch["caption_id"] for batch in self._world.batches()]
        return pd.concat(ids, ignore_index=True).rename("image_id").to_frame()

    def read(self, image_ids: Sequence[str]) -> list[np.ndarray]:
        """Return the images in the order asked for, each uint8 RGB (height, width, 3)."""
        return list(self._world.images(list(image_ids))) if len(image_ids) else []


@dataclass(frozen=True)
class _Columns:
    """Which columns of a source hold what."""

    text: str
    caption_id: str | None

    @classmethod
    def choose(cls, wanted: Mapping[str, str], there: Sequence[str], where: str) -> _Columns:
        """Return the columns to read; raises InputError where one is not there."""
        for what, column in wanted.items():
            if column not in there:
                raise InputError(f"{where} has no column {column!r} for {what}. {name_help(column, there)}")
        text = wanted.get("text") or next((c for c in TEXT_COLUMNS if c in there), None)
        if text is None:
            raise InputError(
                f"{where} has no column that is known to hold captions. Its columns: {', '.join(map(str, there))}. "
                "Name it with columns, for example columns={'text': 'TEXT'}."
            )
        return cls(text, wanted.get("caption_id") or ("caption_id" if "caption_id" in there else None))


def _shaped(frame: pd.DataFrame, columns: _Columns, prefix: str, start: int) -> pd.DataFrame:
    """Return a batch with ``caption_id`` and ``text`` first and the other columns after them."""
    import pandas as pd

    texts = frame[columns.text]
    text = [value if isinstance(value, str) else _as_text(value) for value in texts]
    if columns.caption_id:
        ids = [str(value) for value in frame[columns.caption_id]]
    else:
        ids = [f"{prefix}-{i:09d}" for i in range(start, start + len(frame))]
    others = [c for c in frame.columns if c not in (columns.text, columns.caption_id)]
    extra = frame[others].reset_index(drop=True)
    taken = (*_TAKEN, "caption_id", "text")
    extra.columns = [f"corpus_{c}" if c in taken else str(c) for c in others]
    return pd.concat([pd.DataFrame({"caption_id": ids, "text": text}, dtype=object), extra], axis=1)


def _as_text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    return "" if value is None or value != value else str(value)


class FileCorpus:
    """Captions in files; each file is a part."""

    def __init__(self, name: str, paths: Sequence[Path], columns: Mapping[str, str], rows: int):
        """Read ``paths`` in this order; ``rows`` from the start, 0 for all."""
        for path in paths:
            _reader(path)
        self.name = name
        self.paths = list(paths)
        self.images = None
        self._wanted, self._rows = dict(columns), rows
        base = Path(os.path.commonpath([p.absolute().parent for p in paths]))
        self._prefixes = [p.absolute().relative_to(base).as_posix() for p in paths]

    @cached_property
    def digest(self) -> str:
        """Digest of the files' names, their content (of large ones: ends, size and time) and the columns."""
        digest = hashlib.sha256(repr((sorted(self._wanted.items()), self._rows)).encode())
        for path, prefix in zip(self.paths, self._prefixes, strict=True):
            digest.update(prefix.encode() + b"\0" + _file_digest(path))
        return digest.hexdigest()[:16]

    @property
    def parts(self) -> int:
        """One per file; a corpus cut after some rows is one part."""
        return 1 if self._rows else len(self.paths)

    def batches(self, size: int = BATCH, part: int | None = None) -> Iterator[pd.DataFrame]:
        """Yield captions with the file's other columns."""
        left = self._rows or None
        for i in range(len(self.paths)) if part is None or self._rows else [part]:
            start = 0
            for frame in _reader(self.paths[i])(self.paths[i], size):
                columns = _Columns.choose(self._wanted, list(frame.columns), str(self.paths[i]))
                frame = frame if left is None else frame.iloc[:left]
                if len(frame):
                    yield _shaped(frame, columns, self._prefixes[i], start)
                start += len(frame)
                if left is not None:
                    left -= len(frame)
                    if left == 0:
                        return


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


def _open(path: Path):
    import gzip

    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def _lines(path: Path) -> Iterator[str]:
    """Yield a file's lines; only a line feed ends one, and what is no UTF-8 becomes the replacement character."""
    try:
        with _open(path) as file:
            for line in file:
                yield line.rstrip(b"\r\n").decode("utf-8", errors="replace")
    except (EOFError, OSError) as error:
        raise InputError(f"{path} cannot be read to its end: {error}") from None


def _read_text(path: Path, size: int) -> Iterator[pd.DataFrame]:
    import pandas as pd

    lines = _lines(path)
    while batch := list(islice(lines, size)):
        yield pd.DataFrame({"text": batch}, dtype=object)


def _read_jsonl(path: Path, size: int) -> Iterator[pd.DataFrame]:
    import json

    import pandas as pd

    def records() -> Iterator[dict]:
        for i, line in enumerate(_lines(path)):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except ValueError as error:
                raise InputError(f"{path}, line {i + 1} is not JSON: {error}") from None
            if not isinstance(record, dict):
                raise InputError(
                    f"{path}, line {i + 1} holds {type(record).__name__}; a line holds one object."
                )
            yield record

    found = records()
    while batch := list(islice(found, size)):
        yield pd.DataFrame(batch)


def _read_csv(path: Path, size: int) -> Iterator[pd.DataFrame]:
    import pandas as pd

    separator = "\t" if ".tsv" in path.name else ","
    options = {"sep": separator, "dtype": str, "keep_default_na": False, "encoding_errors": "replace"}
    try:
        with pd.read_csv(path, chunksize=size, encoding="utf-8", **options) as chunks:
            yield from chunks
    except (pd.errors.EmptyDataError, pd.errors.ParserError, EOFError, OSError) as error:
        raise InputError(f"{path} cannot be read as CSV: {error}") from None


def _read_parquet(path: Path, size: int) -> Iterator[pd.DataFrame]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=size):
                yield batch.to_pandas()
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path} cannot be read as Parquet: {error}") from None


# Readers by the end of a file's name: each yields tables of up to so many rows.
_READERS: dict[str, Callable[[Path, int], Iterable[pd.DataFrame]]] = {
    ".parquet": _read_parquet,
    ".csv": _read_csv,
    ".csv.gz": _read_csv,
    ".tsv": _read_csv,
    ".tsv.gz": _read_csv,
    ".jsonl": _read_jsonl,
    ".jsonl.gz": _read_jsonl,
    ".txt": _read_text,
    ".txt.gz": _read_text,
}


def _reader(path: Path) -> Callable[[Path, int], Iterable[pd.DataFrame]]:
    ending = next((e for e in sorted(_READERS, key=len, reverse=True) if path.name.lower().endswith(e)), None)
    if ending is None:
        raise InputError(
            f"{path} is of no known kind; captions come from files that end in {', '.join(_READERS)}."
        )
    return _READERS[ending]


class HubCorpus:
    """A dataset of the Hugging Face Hub, its split ``train``, streamed; one part."""

    def __init__(self, dataset: str, columns: Mapping[str, str], rows: int):
        """Use the dataset called ``dataset``; ``rows`` from the start, 0 for all."""
        self.name = f"hf:{dataset}"
        self.images = None
        self.parts = 1
        self._dataset, self._wanted, self._rows = dataset, dict(columns), rows

    @cached_property
    def digest(self) -> str:
        """Digest of the dataset's name and revision, and of the columns."""
        revision = str(self._builder.hash)
        return hashlib.sha256(
            repr((self._dataset, revision, sorted(self._wanted.items()), self._rows)).encode()
        ).hexdigest()[:16]

    @cached_property
    def _builder(self):
        import datasets

        try:
            return datasets.load_dataset_builder(self._dataset)
        except Exception as error:
            # The library raises many kinds; each means that the dataset cannot be had under this name.
            raise MissingInputError(
                f"The dataset {self._dataset!r} cannot be opened: {error} A dataset on the Hugging Face Hub is named "
                "'owner/name'; it must be public or your login must reach it, and the network must be there."
            ) from error

    def batches(self, size: int = BATCH, part: int | None = None) -> Iterator[pd.DataFrame]:
        """Yield captions with the dataset's other columns."""
        import pandas as pd

        stream = self._builder.as_streaming_dataset(split="train")
        if self._rows:
            stream = stream.take(self._rows)
        prefix, start = self._dataset.rsplit("/", 1)[-1], 0
        for batch in stream.iter(batch_size=size):
            frame = pd.DataFrame(batch)
            columns = _Columns.choose(self._wanted, list(frame.columns), self.name)
            yield _shaped(frame, columns, prefix, start)
            start += len(frame)
