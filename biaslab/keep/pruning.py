"""What lies in a store, and which of it no current code reads: the table of ``biaslab store``, and ``prune``.

A result is one folder of :class:`biaslab.keep.store.Store`. Its ``stage.json`` names the modules and packages that
computed it, so it is read again only where :func:`biaslab.keep.closure.of` finds the same here; inputs do not count,
since anybody may set parameters so again. What holds anything but pieces of tables (bought images, answers, downloads)
is kept, and so is what cannot be compared: broken folders, results of plugins or of packages that are not here.
"""

from __future__ import annotations

import contextlib
import functools
import json
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

from biaslab.ground.wording import count, megabytes
from biaslab.keep import closure
from biaslab.keep.store import digest, guarded, is_held

if TYPE_CHECKING:
    import pandas as pd

CURRENT, UNREAD, KEPT = STATES = ("current", "unread", "kept")
"""Read by current code; by none; bought, asked, fetched, or not known here."""
_PRUNED = ".pruned"
_RESULT = re.compile(rf"[0-9a-f]{{16}}|\..+{re.escape(_PRUNED)}")
# All that can be computed again. Of anything else nobody here knows what it cost.
_PIECES = re.compile(
    r"(stage|made)\.json|\d{6}-[0-9a-f]{16}\.parquet(\.sha256|\.damaged)?|\.[^/]+\.tmp|locks/[^/]+\.lock"
)


@dataclass(frozen=True)
class Result:
    """A folder of the store; ``size`` in bytes, ``written`` (of its newest piece) in seconds since 1970."""

    path: Path
    state: str  # One of :data:`STATES`.
    size: int
    written: float

    @property
    def stage(self) -> str:
        """The name of its stage."""
        return self.path.parent.name


def results(root: Path) -> list[Result]:
    """Return what lies in a store, by stage and digest; nothing where there is no store."""
    stages = sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
    found = []
    for path in (path for stage in stages for path in sorted(stage.iterdir())):
        if _RESULT.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
            # Another process may delete it meanwhile.
            with contextlib.suppress(FileNotFoundError):
                found.append(_result(path))
    return found


def table(found: Sequence[Result]) -> pd.DataFrame:
    """Return a row per stage, and of all: results, size, days of the oldest and the newest, and results by state."""
    import pandas as pd

    groups = {stage: list(some) for stage, some in groupby(found, lambda r: r.stage)}
    rows = []
    for stage, some in {**groups, "total": found}.items():
        written = [time.strftime("%Y-%m-%d", time.localtime(t)) for t in sorted(r.written for r in some)]
        counts = (sum(r.state == s for r in some) for s in STATES)
        rows.append([stage, len(some), megabytes(sum(r.size for r in some)), written[0], written[-1], *counts])
    return pd.DataFrame(rows, columns=["stage", "results", "size", "oldest", "newest", *STATES])


def summed(some: Sequence[Result]) -> str:
    """Return number and size of results."""
    return f"{count(len(some), 'result', 'results')}, {megabytes(sum(r.size for r in some))}"


def prune(root: Path, *, delete: bool = False) -> tuple[list[Result], list[Result]]:
    """Return what no current code reads, which is deleted where ``delete`` says so, and what of it is left as in use.

    A result is renamed before its files go, while no process can begin to use it, so that none ever finds half of it;
    what a killed ``prune`` left is taken by the next one. Raises OSError where this user may not delete one.
    """
    deleted: list[Result] = []
    in_use: list[Result] = []
    for result in results(root):
        if result.state == UNREAD:
            # Another process may have deleted it.
            with contextlib.suppress(FileNotFoundError):
                (deleted if _delete(root, result.path, delete=delete) else in_use).append(result)
    return deleted, in_use


def _delete(root: Path, path: Path, *, delete: bool) -> bool:
    """Delete a result, or only look whether it could be; return False where it is in use."""
    if not delete:
        return not any(map(is_held, path.glob("locks/*.lock")))
    away = path.with_name(f".{uuid.uuid4().hex[:16]}{_PRUNED}")
    with guarded(root):
        if any(map(is_held, path.glob("locks/*.lock"))):
            return False
        path.rename(away)
    shutil.rmtree(away)
    return True


def _result(path: Path) -> Result:
    errors: list[OSError] = []
    made, size, written, pieces = path.stat().st_mtime, 0, 0.0, True
    for at, _, names in os.walk(path, onerror=errors.append):
        for file in (Path(at, name) for name in names):
            # A process that works there may rename one meanwhile.
            with contextlib.suppress(FileNotFoundError):
                status = file.lstat()
                size += status.st_size
                written = max(written, status.st_mtime if file.suffix != ".lock" else 0)
            pieces &= _PIECES.fullmatch(file.relative_to(path).as_posix()) is not None
    state = _state(path) if pieces and not errors else KEPT
    return Result(path, state, size, written or made)


def _state(path: Path) -> str:
    """Return the state of a result that can be computed again."""
    if path.suffix == _PRUNED:
        return UNREAD
    try:
        key = json.loads((path / "stage.json").read_bytes())
        named, code, inputs = key["name"], dict(key["code"]), json.dumps(key["inputs"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return KEPT
    if [named, digest(key)[:16]] != [path.parent.name, path.name]:
        return KEPT
    here = _code_here(*(name.removeprefix("package:") for name in code))
    other = [name for name in {**code, **here} if code.get(name) != here.get(name)]
    if not other:
        return CURRENT
    # What is from elsewhere, or not installed, cannot be compared here.
    changed = any(closure.follows(n) or here.get(n, "none") != "none" for n in other)
    return UNREAD if changed and '"plugin:' not in inputs else KEPT


# What there is today of the modules and packages that a result names, and of what is behind them.
_code_here = functools.lru_cache(closure.of)
