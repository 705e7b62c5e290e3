"""Results on disk, so that everything is computed once: shards of tables, keyed by what they came from.

A stage lives in ``<root>/<name>/<digest>/``, where the digest covers its inputs and the code that computes it
(:mod:`biaslab.cache.code_digest`). Its result is cut into shards of rows, whose file names hold their number and a
digest of the rows that they were computed from. Each is written to a temporary name and then renamed: a file under its
own name is whole. Its SHA-256 is in a file next to it, which is written first and checked whenever the shard is read; a
damaged shard is renamed to ``*.damaged`` and computed again. A lock per shard lets several processes share the work of
one stage, and one per process at work keeps the stage from being pruned (:mod:`biaslab.cache.pruning`); several
machines must share the folder under the same path.
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
    """This share of a stage is done, and other shares are not: its table is not whole yet."""


class ResultCache:
    """A folder of stages."""

    def __init__(
        self,
        root: Path | str | None = None,
        *,
        share: tuple[int, int] | None = None,
        workers: Workers = LOCAL,
    ) -> None:
        """Use a folder, made when first written to: :func:`biaslab.io.places.default_root` where it is None.

        With a ``share`` of (i, n) only shards of each stage are computed through this store whose number leaves i when
        divided by n. ``workers`` do the work of stages; by default, this process does.

        Raises ParameterError: The share is not one of (0, n) to (n - 1, n).
        """
        # Workers may run in other folders.
        self.root = (Path(root) if root else default_root()).absolute()
        if share is not None and not 0 <= share[0] < share[1]:
            raise ParameterError(f"The shard is {share[0]}/{share[1]}; it must be one of 0/n, 1/n, … up to n-1/n.")
        self.share, self.workers = share, workers

    def stage(self, name: str, inputs: Mapping[str, object], work: Work | None = None) -> Stage:
        """Return the stage ``name`` (lower-case words joined by ``_`` or ``-``) that does some work with these inputs.

        ``inputs`` are all that the result depends on next to rows and code: parameters, digests of models and corpora,
        seeds. They must fit in JSON (else TypeError); the order of keys does not matter. ``work`` takes consecutive
        rows (index from 0) and returns a table of any number of rows. It must depend on nothing but these rows and the
        inputs, and travels to workers; None for a stage that only lends its folder.
        """
        code = {} if work is None else code_digest.function_digests(work)
        key = {"name": name, "inputs": dict(inputs), "code": code}
        folder = self.root / name / digest(key)[:16]
        return Stage(folder, key, work, self.share, self.workers)


@dataclass(eq=False)
class Stage:
    """One stage with fixed inputs and work; :meth:`compute` gives its table for some rows."""

    folder: Path  # Where its shards are, and ``key`` as ``stage.json``.
    key: Mapping[str, Any]
    work: Work | None = None
    share: tuple[int, int] | None = None
    workers: Workers = LOCAL

    def without_workers(self) -> Stage:
        """Return this stage as one that the work of another asks for: all of it, in the process that works."""
        return Stage(self.folder, self.key, self.work)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self.without_workers())

    @property
    def digest(self) -> str:
        """Sixteen hex digits that identify the stage's name, inputs and code."""
        return self.folder.name

    def compute(self, units: pd.DataFrame, **options: Any) -> pd.DataFrame:
        """Return what :meth:`compute_iter` yields as one table, index from 0; empty where there are no units."""
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

        All missing shards are computed before the first is yielded; only one is held in memory at a time. Values come
        from the files in every case, so a first and a later call yield the same. Order and values of the units, one row
        each, identify the shards. The progress bar calls the work ``label`` and counts the rows of finished shards in
        ``unit``. ``gpu`` is whether the work uses a GPU where there is one.

        Raises InputError: The work returned a table that does not fit in Parquet. ParameterError: The work cannot be
        given to workers. RunError: The disk is full, workers do not see the store's folder or have other code, or
        workers failed.
        UnfinishedError: This store computes a share, which is done, and others are not.
        """
        shards = self._shards(units, shard_rows)
        missing = {path: rows for path, rows in shards.items() if not path.exists()}
        k, n = self.share or (0, 1)
        mine = [path for i, path in enumerate(shards) if path in missing and i % n == k]
        if mine:
            with (
                self._in_use(),
                bar(
                    desc=label or str(self.key["name"]),
                    unit=f" {unit}",
                    total=len(units),
                    initial=len(units) - sum(map(len, missing.values())),
                    disable=not progress,
                ) as shown,
            ):
                fill = _Fill(self._work(), self.key["code"])
                tasks = [(path, missing[path]) for path in mine]
                # Closed at once where something fails, so that no worker continues unheard.
                with contextlib.closing(self.workers.run(fill, tasks, gpu=gpu)) as results:
                    done = shown.n
                    for path, _ in zip(mine, results, strict=True):
                        done += len(missing[path])
                        shown.update(done - shown.n)
        n_missing = sum(not path.exists() for path in missing)
        if n_missing and self.share:
            raise UnfinishedError(
                f"{self.key['name']}: this shard is done; {n_missing} of {len(shards)} pieces remain for the others."
            )
        # The time of the last use, for biaslab.cache.pruning.
        with contextlib.suppress(OSError):
            os.utime(self.folder / "stage.json")
        for path, rows in shards.items():
            yield self._read(path, rows)

    def n_cached(self, units: pd.DataFrame, *, shard_rows: int) -> int:
        """Return of how many of ``units`` :meth:`compute` would find the result, without reading any."""
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
        """Make the folder, and lock it for this process, so that it is not deleted meanwhile."""
        name = f"use-{uuid.uuid4().hex[:8]}"
        lock = self.folder / "locks" / f"{name}.lock"
        try:
            with contextlib.ExitStack() as held:
                with prune_lock(self.folder.parents[1]):
                    with explain_errors(self.folder):
                        self.folder.mkdir(parents=True, exist_ok=True)
                        if not (described := self.folder / "stage.json").exists():
                            replace(described, (json.dumps(self.key, indent=1, sort_keys=True) + "\n").encode())
                    held.enter_context(locked(self.folder / "stage.json", name))
                yield
        finally:
            # A pruning process may look at it just now.
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
    """A shard that does not hold what was written."""


class _BusyError(Exception):
    """Another process computes this shard."""


class _Fill:
    """Computes missing shards, here or in a worker, but for those that another process computes.

    Raises RunError: A worker has other code than the process that asked for the work, or does not see the store's
    folder.
    """

    def __init__(self, work: Work, code: Mapping[str, str]) -> None:
        self.work, self.code, self.host = work, code, platform.node()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Arrive in a worker, whose code can differ on another host."""
        vars(self).update(state)
        if self.host != platform.node() and code_digest.function_digests(self.work) != self.code:
            raise RunError(
                f"{platform.node()}, where a worker runs, has other code than the process that submitted the work. "
                "Start that process again if the code has changed; all machines need the same versions of biaslab and "
                "of what it computes with."
            )

    def __call__(self, task: tuple[Path, pd.DataFrame]) -> None:
        path, rows = task
        if not path.parent.is_dir():
            raise RunError(
                f"{path.parent} does not exist on {platform.node()}, where a worker runs. Workers on several "
                "machines need the cache in a folder that all of them share under the same path: name one as the "
                f"setting compute.cache, or as {ROOT_VARIABLE}."
            )
        # The read that follows waits for the process that computes the shard.
        with contextlib.suppress(_BusyError), locked(path, wait=False):
            if not path.exists():
                _write(path, self.work(rows))


def compute_or_load(path: Path, compute: Callable[[], pd.DataFrame]) -> pd.DataFrame:
    """Return the table at ``path``, computed and written where it is missing or damaged, by one process at a time.

    A damaged one is set aside, with a warning. Raises InputError: What is computed is no table that fits in Parquet.
    RunError: The disk is full.
    """
    with locked(path):
        try:
            return _read(path)
        except FileNotFoundError:
            pass
        except _DamagedError as error:
            aside = path.with_name(path.name + ".damaged")
            os.replace(path, aside)
            _log.warning("%s is damaged (%s): set aside as %s, computed again.", path, error, aside.name)
        _write(path, compute())
        return _read(path)


@contextlib.contextmanager
def locked(path: Path, name: str = "", *, wait: bool = True, kept: str = "") -> Iterator[None]:
    """Hold the lock of a shard or file, whose folder is made; the system frees it when the process ends, however.

    A file may have several locks of different names. ``kept`` as for :func:`explain_errors`.
    """
    from filelock import FileLock, Timeout

    folder = path.parent / "locks"
    with explain_errors(path, kept):
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / f"{name or path.stem}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            if not wait:
                raise _BusyError from None
            _log.info("Waiting for another process that works at %s.", path)
            lock.acquire()
    try:
        yield
    finally:
        lock.release()


def prune_lock(root: Path) -> contextlib.AbstractContextManager[None]:
    """Be the only process that begins to use a result of a store, or that takes one away."""
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
        raise InputError(f"The table for {path} does not fit in Parquet: {error}") from None
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    data = sink.getvalue().to_pybytes()
    # A killed process leaves its temporary file behind; whoever holds the lock next clears it away.
    for leftover in path.parent.glob(f".{path.name}.*.tmp"):
        leftover.unlink(missing_ok=True)
    with explain_errors(path):
        # The checksum comes first: a shard under its own name always has one.
        replace(_checksum_path(path), hashlib.sha256(data).hexdigest().encode() + b"\n")
        replace(path, data)


def _read(path: Path) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not os.path.exists(path):
        raise FileNotFoundError(path)
    # Into Arrow's own memory: threads that let go of Python's while the process ends abort it (apache/arrow#34314).
    with explain_errors(path), pa.OSFile(str(path), "rb") as file:
        data = file.read_buffer()
    try:
        expected = _checksum_path(path).read_text(encoding="ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        raise _DamagedError("its checksum is missing") from None
    if hashlib.sha256(data).hexdigest() != expected:
        raise _DamagedError("its checksum does not fit")
    return pq.ParquetFile(pa.BufferReader(data)).read().to_pandas()


def load_if_whole(path: Path) -> pd.DataFrame | None:
    """Return the table of a shard, by its path; None where it is missing or damaged."""
    with contextlib.suppress(FileNotFoundError, _DamagedError):
        return _read(path)
    return None


def _checksum_path(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def replace(path: Path, data: bytes) -> None:
    """Write a file under another name and rename it; a RunError where the name is that of a folder or a device."""
    if path.exists() and not path.is_file():
        raise RunError(f"{path} is no file, so none is written in its place; move it away.")
    temporary = temporary_path(path)
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def temporary_path(path: Path) -> Path:
    """Return the path next to a file under which it is written until it is complete; no other process uses it."""
    # Whole for the names of pieces; that of a long name must not be longer than the file system allows.
    return path.with_name(f".{path.name[:48]}.{os.getpid()}-{uuid.uuid4().hex[:8]}.tmp")


def check_target(path: Path, ours: Callable[[Path], bool], what: str, fix: str) -> None:
    """Check that ``what`` can be written as a file: under a new name, or in place of one that was written before.

    ``ours`` says whether a file that is there is one. ``fix`` is the option that names another file. Raises
    ParameterError: A folder, a device, a link, or someone else's file has the name; it stays.
    """
    if os.path.lexists(path) and not (path.is_file() and not path.is_symlink() and ours(path)):
        raise ParameterError(
            f"{path} already exists and is no {what} of biaslab, so it is not replaced; choose another name with {fix}."
        )


@contextlib.contextmanager
def explain_errors(path: Path, kept: str = "") -> Iterator[None]:
    """Turn what the system refuses at a path into a RunError that names it and says what to do.

    ``kept`` is a sentence on what stays, with ``{fix}`` for what would help; by default that of shards.
    """
    try:
        yield
    except FileNotFoundError as error:
        what = "does not exist and cannot be created"
        raise RunError(f"{_named(error, path)} {what}. {(kept or _KEPT).format(fix='create its folder')}") from None
    except OSError as error:
        if error.errno not in _REFUSED:
            raise
        raise RunError(explain_error(error, path, kept)) from None


def explain_error(error: Exception, path: Path | None = None, kept: str = "") -> str:
    """Return in words what the system refused and what to do about it; other errors are told in their own words.

    ``path``: what was to be read or written; the error may name another. ``kept`` as for :func:`explain_errors`.
    """
    number, temporary = getattr(error, "errno", None), tempfile.gettempdir()
    # Sockets have paths of about 100 characters at most.
    long_path = number == errno.ENAMETOOLONG and not path and _named(error, None).startswith(temporary)
    if long_path or (isinstance(error, OSError) and "AF_UNIX path too long" in str(error)):
        return f"The folder of temporary files, {temporary}, has a path that is too long. Set TMPDIR to a shorter one."
    if number not in _REFUSED:
        return str(error)
    what, fix = _REFUSED[number]
    where = _named(error, path) or "what it needs, perhaps where temporary files are"
    return f"{what.format(where)}. {(kept or _KEPT).format(fix=fix)}"


def _named(error: Exception, path: Path | None) -> str:
    """Return the whole path that an error is about."""
    named = getattr(error, "filename", None)
    # Not a temporary file, where it is known what it becomes.
    if isinstance(named, str | bytes) and not (path and os.fsdecode(named).endswith(".tmp")):
        path = Path(os.fsdecode(named))
    return str(path.absolute()) if path else ""


# What is wrong with a path, and what would help.
_REFUSED = {
    number: (what, fix)
    for numbers, what, fix in (
        ((errno.ENOSPC, errno.EDQUOT), "No space left to write {}", "free some space"),
        ((errno.EACCES, errno.EPERM), "This user may not use {}", "let this user read and write there"),
        ((errno.ENOENT,), "There is no file or folder {}", "name one that exists"),
        ((errno.EROFS,), "{} can be read and not be written", "make that file system writable"),
        ((errno.EMFILE, errno.ENFILE), "Too many files are open at once to use {}", "allow more with `ulimit -n 4096`"),
        ((errno.ENOTDIR, errno.EEXIST), "A file is in the place of a folder: {}", "move that file away"),
        ((errno.EISDIR,), "A folder is in the place of a file: {}", "move that folder away"),
        ((errno.ENAMETOOLONG,), "The path {} is too long for this system", "choose shorter names"),
        (
            (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS),
            "The file system of {} has no locks",
            "mount it with locks, or move the folder to a local disk",
        ),
        ((errno.EIO, errno.ESTALE), "The disk or network behind {} does not answer", "mend it"),
    )
    for number in numbers
}
_KEPT = (
    "Finished shards stay in the cache: {fix}, or name another folder as compute.cache or "
    f"{ROOT_VARIABLE}, and run again."
)


def digest(value: object) -> str:
    """Return the SHA-256 of what fits in JSON, whatever the order of its fields."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def cache_now() -> str:
    """Return the time, UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _rows_digest(rows: pd.DataFrame) -> str:
    """Return 16 hex digits of a table's column names and values; its index and the kind of its texts do not count."""
    import pyarrow as pa

    table = pa.Table.from_pandas(rows, preserve_index=False).replace_schema_metadata(None).combine_chunks()
    # pandas 2 and 3 hand over texts in several types, a column of missing ones in none, and times in other units.
    columns = [_as_kept(column.combine_chunks()) for column in table.columns]
    table = pa.Table.from_arrays(columns, names=table.column_names)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return hashlib.sha256(sink.getvalue()).hexdigest()[:16]


def _as_kept(column: pa.Array) -> pa.Array:
    """Return a column with its texts and times in one type, whatever pandas made of them."""
    import pyarrow as pa

    if any(told(column.type) for told in (pa.types.is_string, pa.types.is_string_view, pa.types.is_null)):
        return column.cast(pa.large_string())
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", column.type.tz))
    if pa.types.is_dictionary(column.type):
        names = _as_kept(column.dictionary)
        return pa.DictionaryArray.from_arrays(column.indices, names, ordered=column.type.ordered)
    return column
