"""The contents of a cache: the table of ``biaslab cache``, and ``prune``, which deletes results that are not used.

A result is one folder of :class:`biaslab.cache.result_cache.ResultCache`. The time of its last use is that of its
newest file: a stage sets the time of ``stage.json`` whenever it reads its shards. A folder that contains other files
than shards of tables (bought images, answers, downloads, or a file of the user) is never deleted.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from biaslab.cache.result_cache import is_locked, prune_lock
from biaslab.schema.formatting import format_bytes, format_count

if TYPE_CHECKING:
    import pandas as pd

_PRUNED = ".pruned"
_RESULT = re.compile(rf"[0-9a-f]{{16}}|\..+{re.escape(_PRUNED)}")
# Files that can be computed again.
_PIECES = re.compile(
    r"(stage|made)\.json|\d{6}-[0-9a-f]{16}\.parquet(\.sha256|\.damaged)?|\.[^/]+\.tmp|locks/[^/]+\.lock"
)


@dataclass(frozen=True)
class Result:
    """A folder of the cache; ``size`` in bytes, ``last_used`` in seconds since 1970."""

    path: Path
    is_computed: bool  # Whether all its files can be computed again.
    size: int
    last_used: float

    @property
    def stage(self) -> str:
        """The name of its stage."""
        return self.path.parent.name


def results(root: Path) -> list[Result]:
    """Return the results in a cache, by stage and digest; an empty list if the cache does not exist.

    Links to folders are never followed, because their targets belong to another cache.
    """
    entries = []
    for path in (path for stage in _folders(root) for path in _folders(stage)):
        if _RESULT.fullmatch(path.name):
            # Another process may delete it at the same time.
            with contextlib.suppress(FileNotFoundError):
                entries.append(_result(path))
    return entries


def _folders(path: Path) -> list[Path]:
    return sorted(p for p in path.iterdir() if p.is_dir() and not p.is_symlink()) if path.is_dir() else []


def make_table(entries: Sequence[Result]) -> pd.DataFrame:
    """Return one row per stage, and one for all: results, size, earliest and latest use, and unprunable results."""
    import pandas as pd

    groups = {stage: list(group) for stage, group in groupby(entries, lambda r: r.stage)}
    rows = []
    for stage, group in {**groups, "total": entries}.items():
        days = [time.strftime("%Y-%m-%d", time.localtime(t)) for t in sorted(r.last_used for r in group)]
        n_protected = sum(not r.is_computed for r in group)
        rows.append([stage, len(group), format_bytes(sum(r.size for r in group)), days[0], days[-1], n_protected])
    return pd.DataFrame(rows, columns=["stage", "results", "size", "used_first", "used_last", "never_pruned"])


def summarize(entries: Sequence[Result]) -> str:
    """Return the number and size of results as text."""
    return f"{format_count(len(entries), 'result', 'results')}, {format_bytes(sum(r.size for r in entries))}"


def prune(root: Path, *, days: float = 0, stage: str = "", delete: bool = False) -> tuple[list[Result], list[Result]]:
    """Return the computed results that were not used for ``days``, of one ``stage`` if given, and those still in use.

    The former are deleted if ``delete`` is true. Each is renamed before its files are deleted, while no process can
    begin to use it, so that no process finds an incomplete result. The next call completes an interrupted deletion.

    Raises OSError: This user may not delete a result.
    """
    deleted: list[Result] = []
    in_use: list[Result] = []
    cutoff = time.time() - days * 86400
    for result in results(root):
        is_selected = result.is_computed and result.last_used <= cutoff and stage in ("", result.stage)
        if is_selected or result.path.suffix == _PRUNED:
            # Another process may delete it at the same time.
            with contextlib.suppress(FileNotFoundError):
                (deleted if _delete(root, result.path, delete=delete) else in_use).append(result)
    return deleted, in_use


def _delete(root: Path, path: Path, *, delete: bool) -> bool:
    """Delete a result, or only check whether this is possible; return False if it is in use."""
    if not delete:
        return not any(map(is_locked, path.glob("locks/*.lock")))
    target = path.with_name(f".{uuid.uuid4().hex[:16]}{_PRUNED}")
    with prune_lock(root):
        if any(map(is_locked, path.glob("locks/*.lock"))):
            return False
        path.rename(target)
    shutil.rmtree(target)
    return True


def _result(path: Path) -> Result:
    errors: list[OSError] = []
    created, size, last_used, has_only_pieces = path.stat().st_mtime, 0, 0.0, True
    for folder, _, names in os.walk(path, onerror=errors.append):
        for file in (Path(folder, name) for name in names):
            # A process that uses the folder may rename a file at the same time.
            with contextlib.suppress(FileNotFoundError):
                status = file.lstat()
                size += status.st_size
                last_used = max(last_used, status.st_mtime if file.suffix != ".lock" else 0)
            has_only_pieces &= _PIECES.fullmatch(file.relative_to(path).as_posix()) is not None
    is_described = (path / "stage.json").is_file() or path.suffix == _PRUNED
    return Result(path, has_only_pieces and is_described and not errors, size, last_used or created)
