"""Plug-ins: objects of other packages, found by entry points; ``docs/howto/extend.md`` lists the groups.

Only results that use a plug-in depend on its code and data: :mod:`biaslab.cache.code_digest` follows the modules of
these packages like those of this one, from the objects passed to a stage.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
import threading
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from biaslab.errors import ParameterError, refuse_questions, unknown_name

_log = logging.getLogger(__name__)

GROUPS = ("biaslab.models", "biaslab.corpora", "biaslab.judges", "biaslab.ground_truth", "biaslab.notebooks")
MODELS, CORPORA, JUDGES, GROUND_TRUTH, NOTEBOOKS = GROUPS
# Seconds after which the import of a plug-in for a list counts as failed.
_LONGEST_IMPORT = 60.0
# Entry points that could not be loaded for a list and are not tried again.
_BROKEN: set[metadata.EntryPoint] = set()


def entry_points(group: str) -> dict[str, metadata.EntryPoint]:
    """Return the entry points of a group by name, in the order of names; a warning names broken ones."""
    return _find_entry_points(tuple(sys.path))[0][group]


def entry_point(group: str, name: str, kind: str) -> metadata.EntryPoint:
    """Return the entry point of a group by its name.

    Raises UnknownNameError: No package provides a ``kind`` (such as ``"judge"``) of this name. ParameterError: The
    entry point is broken.
    """
    if problem := _find_entry_points(tuple(sys.path))[2].get((group, name)):
        raise ParameterError(problem)
    if name not in entry_points(group):
        raise unknown_name(f"{kind} among the installed packages (entry points {group!r})", name, entry_points(group))
    return entry_points(group)[name]


def plugin_packages() -> frozenset[str]:
    """Return the import names of the packages with plug-ins."""
    return _find_entry_points(tuple(sys.path))[1]


def load_all(group: str) -> dict[str, Any]:
    """Return the objects of a group by name; a warning names those that fail to load, or take over 60 seconds."""
    objects = {}
    for name, point in entry_points(group).items():
        if point in _BROKEN:
            continue
        outcome: list[Any] = []
        # A hanging import cannot be ended; in a daemon thread it does not prevent the program from ending.
        thread = threading.Thread(target=_load, args=(point, outcome), daemon=True)
        with refuse_questions():
            thread.start()
            thread.join(_LONGEST_IMPORT)
        value, problem = outcome or (None, f"loading took longer than {_LONGEST_IMPORT:g} seconds")
        if problem:
            _BROKEN.add(point)
            _log.warning("%r (entry points %r) is not used because it cannot be loaded: %s.", name, group, problem)
        else:
            objects[name] = value
    return objects


def _load(point: metadata.EntryPoint, outcome: list[Any]) -> None:
    """Append the object of an entry point, and an error message, to ``outcome``."""
    try:
        outcome += [point.load(), ""]
    except BaseException as error:  # packages may raise any error, or exit, when they are imported
        outcome += [None, f"{type(error).__name__}: {' '.join(str(error).split()):.300}"]


def notebook_folders() -> dict[str, Path]:
    """Return the folders of packages that provide notebooks, by package name; their code is not executed."""
    path = tuple(sys.path)
    points = entry_points(NOTEBOOKS).items()
    return {point.module: folder for name, point in points if (folder := _folder(name, point.module, path))}


@lru_cache
def _folder(name: str, module: str, path: tuple[str, ...]) -> Path | None:
    """Return the folder of a package, or None with a warning if it is missing."""
    package, *subpackages = module.split(".")
    spec = importlib.util.find_spec(package)
    for location in (spec.submodule_search_locations if spec else None) or ():
        if (folder := Path(location, *subpackages)).is_dir():
            return folder
    _log.warning("The package %s, which should contain the notebooks %r, is missing. Reinstall it.", module, name)
    return None


@lru_cache(maxsize=8)
def _find_entry_points(
    path: tuple[str, ...],
) -> tuple[dict[str, dict[str, metadata.EntryPoint]], frozenset[str], dict[tuple[str, str], str]]:
    """Return the entry points of all groups on ``path``, their packages, and error messages of broken ones.

    It takes 0.1 seconds.
    """
    all_points = metadata.entry_points()
    by_group: dict[str, dict[str, metadata.EntryPoint]] = {group: {} for group in GROUPS}
    problems: dict[tuple[str, str], str] = {}
    for group, points_by_name in by_group.items():
        for point in sorted(all_points.select(group=group)):
            label = f"{point.name!r} (entry points {group!r})"
            first = points_by_name.setdefault(point.name, point)
            if not point.pattern.match(point.value):
                problems[group, point.name] = (
                    f"An installed package declares {label} as {point.value!r}, which is not of the form MODULE:NAME."
                    f"{f' Uninstall {point.dist.name}.' if point.dist else ''}"
                )
            elif first.value != point.value:
                problems[group, point.name] = (
                    f"Two installed packages declare {label}: {first.value} and {point.value}. Uninstall one of them."
                )
    for (group, name), problem in problems.items():
        del by_group[group][name]
        _log.warning("%s", problem)
    packages = frozenset(point.module.split(".")[0] for points in by_group.values() for point in points.values())
    return by_group, packages, problems
