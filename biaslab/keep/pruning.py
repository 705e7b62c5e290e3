"""What lies in a store, and which of it no current code reads: the table of ``biaslab store``, and ``prune``.

A result is one folder of :class:`biaslab.keep.store.Store`: a stage with its inputs and code. Its ``stage.json`` names
the modules and packages that computed it, so it is read again only where :func:`biaslab.keep.closure.of` finds the same
here. That decides alone: inputs do not, since anybody may set parameters so again. What holds anything but pieces of
tables (a ledger with bought images, a chat's answers, downloads) is kept, whatever code it is from.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from biaslab.ground.errors import RunError
from biaslab.ground.wording import count
from biaslab.keep import closure
from biaslab.keep.store import digest, guarded, is_held

if TYPE_CHECKING:
    import pandas as pd

CURRENT, UNREAD, UNKNOWN, KEPT = STATES = ("current", "unread", "unknown", "kept")
"""Read by current code; by none; not known here; bought, asked or fetched."""
# How many of the results of one kind are named.
_NAMED = 20
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
    state: str
    """One of :data:`STATES`."""
    size: int
    written: float
    reason: str = ""
    """Why the state is unknown."""

    @property
    def stage(self) -> str:
        """The name of its stage."""
        return self.path.parent.name


@dataclass
class Pruned:
    """What :func:`prune` deleted, or would delete, and what it left."""

    deleted: list[Result] = field(default_factory=list)
    in_use: list[Result] = field(default_factory=list)
    unknown: list[Result] = field(default_factory=list)
    failed: list[tuple[Result, OSError]] = field(default_factory=list)
    """Results that this user may not delete."""

    def check(self) -> None:
        """Raise RunError where results may not be deleted."""
        for result, error in self.failed:
            raise RunError(
                f"{count(len(self.failed), 'result', 'results')} of the store cannot be deleted by this user, first "
                f"{result.path} ({error.strerror}). Their owner can, with the same command."
            )


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
        row = {"results": len(some), "size": _size(some), "oldest": written[0], "newest": written[-1]}
        rows.append({"stage": stage, **row, **{s: sum(r.state == s for r in some) for s in STATES}})
    return pd.DataFrame(rows)


def listed(found: Iterable[Result], why: str = "") -> str:
    """Return in lines how many results there are for ``why``, by default for each reason of theirs, and their names."""
    by_reason: dict[str, list[Result]] = {}
    for result in found:
        by_reason.setdefault(why or result.reason, []).append(result)
    lines = []
    for reason, some in by_reason.items():
        names = ", ".join(f"{r.stage}/{r.path.name}" for r in some[:_NAMED])
        more = f" and {len(some) - _NAMED} more" if len(some) > _NAMED else ""
        lines.append(f"{summed(some)}: {reason}: {names}{more}\n")
    return "".join(lines)


def summed(some: Sequence[Result]) -> str:
    """Return number and size of results."""
    return f"{count(len(some), 'result', 'results')}, {_size(some)}"


def prune(root: Path, *, unknown: bool = False, delete: bool = False) -> Pruned:
    """Find what no current code reads, and ``delete`` it; nothing that is kept, and nothing in use.

    A result is renamed before its files go, while no process can begin to use it, so that none ever finds half of it;
    what a killed ``prune`` left is taken by the next one.

    Args:
        unknown: Whether also results of which it is not known what code computed them.
    """
    pruned = Pruned()
    for result in results(root):
        if result.state == UNKNOWN and not unknown:
            pruned.unknown.append(result)
        elif result.state in (UNREAD, UNKNOWN):
            try:
                deleted = _delete(root, result.path, delete=delete)
                (pruned.deleted if deleted else pruned.in_use).append(result)
            except FileNotFoundError:
                continue  # Another process deleted it.
            except OSError as error:
                pruned.failed.append((result, error))
    return pruned


def _delete(root: Path, path: Path, *, delete: bool) -> bool:
    """Delete a result, or only look whether it could be; return False where it is in use."""
    for folder in (path.parent, path, *(p for p in path.iterdir() if p.is_dir())):
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
    away = path.with_name(f".{uuid.uuid4().hex[:16]}{_PRUNED}")
    with guarded(root) if delete else contextlib.nullcontext():
        if any(map(is_held, path.glob("locks/*.lock"))):
            return False
        if delete:
            path.rename(away)
    if delete:
        shutil.rmtree(away)
    return True


def _size(some: Iterable[Result]) -> str:
    """Return the size of results in MB, or in GB from 1,000 MB."""
    megabytes = sum(r.size for r in some) / 1e6
    return f"{megabytes:.1f} MB" if megabytes < 999.95 else f"{megabytes / 1e3:,.1f} GB"


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
    if not pieces:
        state, reason = KEPT, ""
    elif errors:
        state, reason = UNKNOWN, f"broken: it cannot be read ({errors[0].strerror})"
    else:
        state, reason = (UNREAD, "") if path.suffix == _PRUNED else _state(path)
    return Result(path, state, size, written or made, reason)


def _state(path: Path) -> tuple[str, str]:
    """Return the state of a result that can be computed again, and the reason where it is unknown."""
    try:
        key = json.loads((path / "stage.json").read_bytes())
        named, code, inputs = key["name"], dict(key["code"]), json.dumps(key["inputs"])
    except FileNotFoundError:
        return UNKNOWN, "broken: there is no stage.json"
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return UNKNOWN, "broken: stage.json cannot be read"
    if [named, digest(key)[:16]] != [path.parent.name, path.name]:
        return UNKNOWN, "broken: stage.json is that of another result"
    here = _code_here(tuple(name.removeprefix("package:") for name in code))
    other = sorted(name for name in {**code, **here} if code.get(name) != here.get(name))
    if not other:
        return CURRENT, ""
    if '"plugin:' in inputs:
        return UNKNOWN, "judged by another package, which may have been paid for"
    # What is from elsewhere, or not installed, cannot be compared here.
    changed = any(closure.follows(n) or here.get(n, "none") != "none" for n in other)
    return (UNREAD, "") if changed else (UNKNOWN, f"{other[0]} cannot be compared here")


@functools.lru_cache
def _code_here(names: tuple[str, ...]) -> dict[str, str]:
    """Return what there is today of the modules and packages that a result names, and of what is behind them."""
    return closure.of(*names)
