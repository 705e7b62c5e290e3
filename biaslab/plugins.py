"""What other packages bring to this one, found by entry points."""

from __future__ import annotations

import hashlib
import importlib.util
from importlib import metadata
from pathlib import Path

from biaslab.errors import ParameterError, unknown_name


def point(group: str, name: str, what: str) -> metadata.EntryPoint:
    """Return the entry point of a group by its name; an UnknownNameError where no package brings ``what`` under it."""
    points = {each.name: each for each in metadata.entry_points(group=group)}
    if name not in points:
        raise unknown_name(f"{what} among the installed packages (entry points {group!r})", name, points)
    return points[name]


def digest(entry: metadata.EntryPoint) -> str:
    """Return a digest of an entry point: package, version and module; a ParameterError where the module is missing."""
    try:
        spec = importlib.util.find_spec(entry.module)
    except ImportError:
        spec = None
    if spec is None or not spec.origin:
        raise ParameterError(
            f"{entry.name} names the module {entry.module}, which is not there. Install its package again."
        )
    package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else ""
    return hashlib.sha256(f"{package} {entry.value} ".encode() + Path(spec.origin).read_bytes()).hexdigest()
