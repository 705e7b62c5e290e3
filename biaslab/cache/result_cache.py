"""Results on disk, so that everything is computed once: shards of tables, keyed by inputs and code.

The folder of a stage is ``<root>/<name>/<digest>/``, where the digest covers its inputs and the code that computes it
(:mod:`biaslab.cache.code_digest`). Its result is split into shards of rows. A shard's file name consists of its number
and a digest of the rows that it was computed from. Each shard is written under a temporary name and then renamed, so
that files under their own name are complete. Its SHA-256 is in a file next to it, which is written first and checked
whenever the shard is read. A damaged shard is renamed to ``*.damaged`` and computed again. A lock per shard lets
several processes share the work of a stage. A lock per process protects a stage in use from pruning
(:mod:`biaslab.cache.pruning`). Several machines must share the folder under the same path.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
import platform
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from biaslab.cache import code_digest
from biaslab.errors import InputError, ParameterError, RunError
from biaslab.execution.progress import bar
from biaslab.execution.workers import LOCAL, Workers
from biaslab.io.places import ROOT_VARIABLE, default_root

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_log = logging.getLogger(__name__)
# Takes rows and returns a table.
Work = Callable[["pd.DataFrame"], "pd.DataFrame"]


class UnfinishedError(RunError):
    """This process's shards of a stage are complete, but others are missing, so the table is incomplete."""


class ResultCache:
    """A folder of stages."""

    def __init__(
        self,
        root: Path | str | None = None,
        *,
        share: tuple[int, int] | None = None,
        workers: Workers = LOCAL,
    ) -> None:
        """Use the folder ``root``, by default :func:`biaslab.io.places.default_root`, created on the first write.

        With a ``share`` of (i, n), this cache computes only those shards of each stage whose number modulo n is i.
        ``workers`` do the work of stages; by default, this process does.

        Raises ParameterError: The share is not one of (0, n) to (n - 1, n).
        """
        # Workers may have other working directories.
        self.root = (Path(root) if root else default_root()).absolute()
        if share is not None and not 0 <= share[0] < share[1]:
            raise ParameterError(f"The shard is {share[0]}/{share[1]}; with n shards, it must be one of 0/n to n-1/n.")
        self.share, self.workers = share, workers

    def stage(self, name: str, inputs: Mapping[str, object], work: Work | None = None) -> Stage:
        """Return the stage ``name`` (lower-case words joined by ``_`` or ``-``) with ``inputs`` and ``work``.

        ``inputs`` are everything that the result depends on in addition to rows and code: parameters, digests of models
        and corpora, seeds. They must be serialisable as JSON (else TypeError); the order of keys does not matter.
        ``work`` takes consecutive rows (index from 0) and returns a table of any number of rows. It must depend only on
        these rows and the inputs, and is pickled for workers. It is None for a stage of which only the folder is used.
        """
        code = {} if work is None else code_digest.function_digests(work)
        key = {"name": name, "inputs": dict(inputs), "code": code}
        folder = self.root / name / digest(key)[:16]
        return Stage(folder, key, work, self.share, self.workers)


@dataclass(eq=False)
class Stage:
    """One stage with fixed inputs and work; :meth:`compute` returns its table for given rows."""

    folder: Path  # Folder of its shards, and of ``key`` as ``stage.json``.
    key: Mapping[str, Any]
    work: Work | None = None
    share: tuple[int, int] | None = None
    workers: Workers = LOCAL

    def without_workers(self) -> Stage:
        """Return this stage for use inside another stage's work: all shards, computed in the same process."""
        return Stage(self.folder, self.key, self.work)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self.without_workers())

    @property
    def digest(self) -> str:
        """Sixteen hex digits that identify the stage's name, inputs and code."""
        return self.folder.name

    def compute(self, units: pd.DataFrame, **options: Any) -> pd.DataFrame:
        """Return the tables of :meth:`compute_iter` as one table, index from 0; empty without units."""
        import pandas as pd

        frames = list(self.compute_iter(units, **options))
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    def compute_iter(
        self,
        units: pd.DataFrame,
        *,
        shard_rows: int,
        label: str = "",
        unit: str = "images",
        progress: bool = True,
        gpu: bool = False,
    ) -> Iterator[pd.DataFrame]:
        """Yield the stage's work applied to ``units``, shard by shard; shards that exist are read, not computed.

        All missing shards are computed before the first is yielded; only one is in memory at a time. Values are always
        read from the files, so the first and later calls yield the same. Order and values of the units, one row each,
        identify the shards. The progress bar has the title ``label`` and counts the rows of finished shards in
        ``unit``. ``gpu`` states whether the work uses a GPU if one is available.

        Raises InputError: The work returned a table that cannot be written as Parquet. ParameterError: The work cannot
        be pickled for workers. RunError: The disk is full, workers do not see the cache folder or have other code, or
        workers failed. UnfinishedError: This cache computes a share, which is complete, while others are not.
        """
        shards = self._shards(units, shard_rows)
        missing_shards = {path: rows for path, rows in shards.items() if not path.exists()}
        k, n = self.share or (0, 1)
        own_shards = [path for i, path in enumerate(shards) if path in missing_shards and i % n == k]
        if own_shards:
            with (
                self._in_use(),
                bar(
                    desc=label or str(self.key["name"]),
                    unit=f" {unit}",
                    total=len(units),
                    initial=len(units) - sum(map(len, missing_shards.values())),
                    disable=not progress,
                ) as progress_bar,
            ):
                fill = _Fill(self._work(), self.key["code"])
                tasks = [(path, missing_shards[path]) for path in own_shards]
                # Closed at once if an error occurs, so that no worker continues.
                with contextlib.closing(self.workers.run(fill, tasks, gpu=gpu)) as results:
                    n_done = progress_bar.n
                    for path, _ in zip(own_shards, results, strict=True):
                        n_done += len(missing_shards[path])
                        progress_bar.update(n_done - progress_bar.n)
        n_missing = sum(not path.exists() for path in missing_shards)
        if n_missing and self.share:
            raise UnfinishedError(
                f"{self.key['name']}: this shard is done; {n_missing} of {len(shards)} chunks remain for other shards."
            )
        # The time of the last use, for biaslab.cache.pruning.
        with contextlib.suppress(OSError):
            os.utime(self.folder / "stage.json")
        for path, rows in shards.items():
            yield self._read(path, rows)

    def n_cached(self, units: pd.DataFrame, *, shard_rows: int) -> int:
        """Return for how many of ``units`` the result is cached, without reading it."""
        return sum(len(rows) for path, rows in self._shards(units, shard_rows).items() if path.exists())

    def _shards(self, units: pd.DataFrame, shard_rows: int) -> dict[Path, pd.DataFrame]:
        """Return the rows of each shard, by its path."""
        parts = (units.iloc[start : start + shard_rows] for start in range(0, len(units), shard_rows))
        return {
            self.folder / f"{i:06d}-{_rows_digest(rows)}.parquet": rows.reset_index(drop=True)
            for i, rows in enumerate(parts)
        }

    @contextlib.contextmanager
    def _in_use(self) -> Iterator[None]:
        """Create the folder, and lock it for this process, so that it is not pruned while it is used."""
        name = f"use-{uuid.uuid4().hex[:8]}"
        lock = self.folder / "locks" / f"{name}.lock"
        try:
            with contextlib.ExitStack() as stack:
                with prune_lock(self.folder.parents[1]):
                    with explain_errors(self.folder):
                        self.folder.mkdir(parents=True, exist_ok=True)
                        if not (description := self.folder / "stage.json").exists():
                            replace(description, (json.dumps(self.key, indent=1, sort_keys=True) + "\n").encode())
                    stack.enter_context(locked(self.folder / "stage.json", name))
                yield
        finally:
            # A pruning process may have it open.
            with contextlib.suppress(OSError):
                lock.unlink()

    def _read(self, path: Path, rows: pd.DataFrame) -> pd.DataFrame:
        with contextlib.suppress(_DamagedError, FileNotFoundError):
            return _read(path)
        with self._in_use():
            return compute_or_load(path, lambda: self._work()(rows))

    def _work(self) -> Work:
        assert self.work is not None, "a stage without work only reads"
        return self.work


class _DamagedError(Exception):
    """The content of a shard differs from what was written."""


class _BusyError(Exception):
    """Another process is computing this shard."""


class _Fill:
    """Computes missing shards, in this process or in a worker, except those that another process is computing.

    Raises RunError: A worker has other code than the process that submitted the work, or does not see the cache folder.
    """

    def __init__(self, work: Work, code: Mapping[str, str]) -> None:
        self.work, self.code, self.host = work, code, platform.node()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state in a worker, and check that its code is the same on another host."""
        vars(self).update(state)
        if self.host != platform.node() and code_digest.function_digests(self.work) != self.code:
            raise RunError(
                f"The worker on {platform.node()} has different code from the process that submitted the work. If the "
                "code has changed, restart that process. All machines need the same versions of biaslab and of the "
                "libraries that it computes with."
            )

    def __call__(self, task: tuple[Path, pd.DataFrame]) -> None:
        path, rows = task
        if not path.parent.is_dir():
            raise RunError(
                f"{path.parent} does not exist on {platform.node()}, where a worker runs. If workers run on several "
                "machines, the cache must be a folder that all of them share under the same path. Set compute.cache "
                f"or the environment variable {ROOT_VARIABLE} to such a folder."
            )
        # The read that follows waits for the process that computes the shard.
        with contextlib.suppress(_BusyError), locked(path, wait=False):
            if not path.exists():
                _write(path, self.work(rows))


def compute_or_load(path: Path, compute: Callable[[], pd.DataFrame]) -> pd.DataFrame:
    """Return the table at ``path``; if it is missing or damaged, compute and write it, in one process at a time.

    A damaged one is renamed, with a warning. Raises InputError: The computed table cannot be written as Parquet.
    RunError: The disk is full.
    """
    with locked(path):
        try:
            return _read(path)
        except FileNotFoundError:
            pass
        except _DamagedError as error:
            damaged_path = path.with_name(path.name + ".damaged")
            os.replace(path, damaged_path)
            _log.warning("%s is damaged (%s); renamed to %s and computed again.", path, error, damaged_path.name)
        _write(path, compute())
        return _read(path)


@contextlib.contextmanager
def locked(path: Path, name: str = "", *, wait: bool = True, hint: str = "") -> Iterator[None]:
    """Hold the lock of a shard or file, whose folder is created; the system releases it if the process ends.

    A file may have several locks of different names. ``hint`` as for :func:`explain_errors`.
    """
    from filelock import FileLock, Timeout

    folder = path.parent / "locks"
    with explain_errors(path, hint):
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / f"{name or path.stem}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            if not wait:
                raise _BusyError from None
            _log.info("Waiting for another process that is computing %s.", path)
            lock.acquire()
    try:
        yield
    finally:
        lock.release()


def prune_lock(root: Path) -> contextlib.AbstractContextManager[None]:
    """Return the lock that a process holds while it begins to use a result of a cache, or deletes one."""
    return locked(root / "prune")


def is_locked(lock: Path) -> bool:
    """Return whether a process holds a lock, by its file."""
    from filelock import FileLock, Timeout

    try:
        with FileLock(lock, timeout=0):
            return False
    except Timeout:
        return True


def _write(path: Path, frame: pd.DataFrame) -> None:
    """Write a shard; the caller holds its lock."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise InputError(f"The table for {path} cannot be written as Parquet: {error}") from None
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    data = sink.getvalue().to_pybytes()
    # A killed process leaves its temporary file, which the next holder of the lock deletes.
    for leftover in path.parent.glob(f".{path.name}.*.tmp"):
        leftover.unlink(missing_ok=True)
    with explain_errors(path):
        # The checksum is written first, so that every shard under its own name has one.
        replace(_checksum_path(path), hashlib.sha256(data).hexdigest().encode() + b"\n")
        replace(path, data)


def _read(path: Path) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not os.path.exists(path):
        raise FileNotFoundError(path)
    # Into Arrow's memory: threads that release Python's memory while the process ends abort it (apache/arrow#34314).
    with explain_errors(path), pa.OSFile(str(path), "rb") as file:
        data = file.read_buffer()
    try:
        expected = _checksum_path(path).read_text(encoding="ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        raise _DamagedError("its checksum is missing") from None
    if hashlib.sha256(data).hexdigest() != expected:
        raise _DamagedError("its checksum does not match")
    return pq.ParquetFile(pa.BufferReader(data)).read().to_pandas()


def load_if_valid(path: Path) -> pd.DataFrame | None:
    """Return the table of a shard, by its path, or None if it is missing or damaged."""
    with contextlib.suppress(FileNotFoundError, _DamagedError):
        return _read(path)
    return None


def _checksum_path(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def replace(path: Path, data: bytes) -> None:
    """Write a file under a temporary name and rename it. Raises RunError: ``path`` is a folder or a device."""
    if path.exists() and not path.is_file():
        raise RunError(f"{path} exists and is not a file, so it is not replaced. Move it away.")
    temporary = temporary_path(path)
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def temporary_path(path: Path) -> Path:
    """Return a unique temporary path next to a file, under which it is written until it is complete."""
    # Names of shards are shorter than 48 characters; longer names are shortened, as file systems limit their length.
    return path.with_name(f".{path.name[:48]}.{os.getpid()}-{uuid.uuid4().hex[:8]}.tmp")


def check_target(path: Path, is_ours: Callable[[Path], bool], kind: str, fix: str) -> None:
    """Check that a file can be written at ``path``: the name is new, or an earlier file of biaslab is replaced.

    ``is_ours`` returns whether an existing file is one, and ``kind`` is its name with an article. ``fix`` is the option
    that sets another name. Raises ParameterError: The path is a folder, a device, a link, or someone else's file, which
    is not replaced.
    """
    if os.path.lexists(path) and not (path.is_file() and not path.is_symlink() and is_ours(path)):
        raise ParameterError(
            f"{path} exists and is not {kind} written by biaslab, so it is not replaced. Choose another name with "
            f"{fix}."
        )


@contextlib.contextmanager
def explain_errors(path: Path, hint: str = "") -> Iterator[None]:
    """Convert errors of the operating system at a path to a RunError that names the path and the fix.

    ``hint`` is a sentence about what is not lost, with ``{fix}`` for the fix; by default that for shards.
    """
    try:
        yield
    except FileNotFoundError as error:
        problem = "does not exist and cannot be created"
        fix = (hint or _DEFAULT_HINT).format(fix="create its folder")
        raise RunError(f"{_path_of_error(error, path)} {problem}. {fix}") from None
    except OSError as error:
        if error.errno not in _SYSTEM_ERRORS:
            raise
        raise RunError(explain_error(error, path, hint)) from None


def explain_error(error: Exception, path: Path | None = None, hint: str = "") -> str:
    """Return a message with the cause and the fix of an error of the operating system, or the text of another error.

    ``path`` is the file to read or write; the error may name another. ``hint`` as for :func:`explain_errors`.
    """
    number, temporary = getattr(error, "errno", None), tempfile.gettempdir()
    # Sockets have paths of about 100 characters at most.
    long_path = number == errno.ENAMETOOLONG and not path and _path_of_error(error, None).startswith(temporary)
    if long_path or (isinstance(error, OSError) and "AF_UNIX path too long" in str(error)):
        return f"The path of the folder of temporary files, {temporary}, is too long. Set TMPDIR to a shorter path."
    if number not in _SYSTEM_ERRORS:
        return str(error)
    template, fix = _SYSTEM_ERRORS[number]
    place = _path_of_error(error, path) or "a file that is needed, possibly a temporary file"
    return f"{template.format(place)}. {(hint or _DEFAULT_HINT).format(fix=fix)}"


def _path_of_error(error: Exception, path: Path | None) -> str:
    """Return the absolute path that an error is about."""
    filename = getattr(error, "filename", None)
    # Instead of a temporary file, the file that it becomes is named.
    if isinstance(filename, str | bytes) and not (path and os.fsdecode(filename).endswith(".tmp")):
        path = Path(os.fsdecode(filename))
    return str(path.absolute()) if path else ""


# Message and fix by number of an operating system error.
_SYSTEM_ERRORS = {
    number: (what, fix)
    for numbers, what, fix in (
        ((errno.ENOSPC, errno.EDQUOT), "No space left to write {}", "free some space"),
        ((errno.EACCES, errno.EPERM), "This user may not use {}", "give this user read and write access"),
        ((errno.ENOENT,), "There is no file or folder {}", "specify one that exists"),
        ((errno.EROFS,), "{} is read-only", "make its file system writable"),
        ((errno.EMFILE, errno.ENFILE), "Too many files are open to use {}", "raise the limit with `ulimit -n 4096`"),
        ((errno.ENOTDIR, errno.EEXIST), "A file is where a folder is needed: {}", "move the file away"),
        ((errno.EISDIR,), "A folder is where a file is needed: {}", "move the folder away"),
        ((errno.ENAMETOOLONG,), "The path {} is too long for this system", "choose shorter names"),
        (
            (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS),
            "The file system of {} does not support file locks",
            "mount it with lock support, or move the folder to a local disk",
        ),
        ((errno.EIO, errno.ESTALE), "The disk or network drive of {} does not respond", "repair or reconnect it"),
    )
    for number in numbers
}
_DEFAULT_HINT = (
    "Finished chunks remain in the cache. To continue, {fix}, or set compute.cache or "
    f"{ROOT_VARIABLE} to another folder, and run again."
)


def digest(value: object) -> str:
    """Return the SHA-256 of a value as JSON, independent of the order of its fields."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def cache_now() -> str:
    """Return the time, UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _rows_digest(rows: pd.DataFrame) -> str:
    """Return 16 hex digits of a table's column names and values, independent of its index and string types."""
    import pyarrow as pa

    table = pa.Table.from_pandas(rows, preserve_index=False).replace_schema_metadata(None).combine_chunks()
    # pandas 2 and 3 differ in the types of texts and of columns without values, and in the units of times.
    columns = [_normalize_column(column.combine_chunks()) for column in table.columns]
    table = pa.Table.from_arrays(columns, names=table.column_names)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return hashlib.sha256(sink.getvalue()).hexdigest()[:16]


def _normalize_column(column: pa.Array) -> pa.Array:
    """Return a column with texts and times in one type, independent of the version of pandas."""
    import pyarrow as pa

    if any(is_type(column.type) for is_type in (pa.types.is_string, pa.types.is_string_view, pa.types.is_null)):
        return column.cast(pa.large_string())
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", column.type.tz))
    if pa.types.is_dictionary(column.type):
        names = _normalize_column(column.dictionary)
        return pa.DictionaryArray.from_arrays(column.indices, names, ordered=column.type.ordered)
    return column
