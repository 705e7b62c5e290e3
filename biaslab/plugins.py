"""What other packages bring to this one, found by entry points: ``docs/howto/extend.md`` lists their groups.

What a package brings is keyed by its own code and data, and nothing else is: :mod:`biaslab.cache.code_digest` follows
the modules of these packages as it does this one's, from the objects that a stage is given.
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

from biaslab.errors import ParameterError, loading_allowed, unknown_name

_log = logging.getLogger(__name__)

GROUPS = ("biaslab.models", "biaslab.corpora", "biaslab.judges", "biaslab.ground_truth", "biaslab.notebooks")
MODELS, CORPORA, JUDGES, GROUND_TRUTH, NOTEBOOKS = GROUPS
# Seconds after which a package that is imported for a list counts as broken.
_LONGEST_IMPORT = 60.0
# Entry points that could not be loaded for a list, which are not tried again.
_BROKEN: set[metadata.EntryPoint] = set()


def entry_points(group: str) -> dict[str, metadata.EntryPoint]:
    """Return the entry points of a group by their names, in the order of these; a warning names broken ones."""
    return _all(tuple(sys.path))[0][group]


def entry_point(group: str, name: str, what: str) -> metadata.EntryPoint:
    """Return the entry point of a group by its name; an UnknownNameError where no package brings ``what`` under it.

    Raises ParameterError: The entry point of this name is broken.
    """
    if problem := _all(tuple(sys.path))[2].get((group, name)):
        raise ParameterError(problem)
    if name not in entry_points(group):
        raise unknown_name(f"{what} among the installed packages (entry points {group!r})", name, entry_points(group))
    return entry_points(group)[name]


def plugin_packages() -> frozenset[str]:
    """Return the names by which the packages that bring something are imported."""
    return _all(tuple(sys.path))[1]


def load_all(group: str) -> dict[str, Any]:
    """Return the objects of a group by their names; a warning names what fails to load, or takes 60 seconds."""
    loaded = {}
    for name, point in entry_points(group).items():
        if point in _BROKEN:
            continue
        outcome: list[Any] = []
        # What hangs cannot be ended; as a daemon it does not keep the program from ending.
        thread = threading.Thread(target=_load, args=(point, outcome), daemon=True)
        with loading_allowed():
            thread.start()
            thread.join(_LONGEST_IMPORT)
        value, problem = outcome or (None, f"it takes longer than {_LONGEST_IMPORT:g} seconds")
        if problem:
            _BROKEN.add(point)
            _log.warning("%r (entry points %r) is left out, because it cannot be loaded: %s.", name, group, problem)
        else:
            loaded[name] = value
    return loaded


def _load(point: metadata.EntryPoint, outcome: list[Any]) -> None:
    """Put the object of an entry point, and what is wrong with it, into ``outcome``."""
    try:
        outcome += [point.load(), ""]
    except BaseException as error:  # whatever a package does as it is imported
        outcome += [None, f"{type(error).__name__}: {' '.join(str(error).split()):.300}"]


def notebook_folders() -> dict[str, Path]:
    """Return the folders of packages that bring notebooks, by the packages' names; no code of these runs."""
    path = tuple(sys.path)
    points = entry_points(NOTEBOOKS).items()
    return {point.module: folder for name, point in points if (folder := _folder(name, point.module, path))}


@lru_cache
def _folder(name: str, module: str, path: tuple[str, ...]) -> Path | None:
    """Return the folder of a package; None, with a warning, where it is missing."""
    package, *inner = module.split(".")
    spec = importlib.util.find_spec(package)
    for location in (spec.submodule_search_locations if spec else None) or ():
        if (folder := Path(location, *inner)).is_dir():
            return folder
    _log.warning("The notebooks %r are to be in the package %s, which is missing. Install it again.", name, module)
    return None


@lru_cache(maxsize=8)
def _all(
    path: tuple[str, ...],
) -> tuple[dict[str, dict[str, metadata.EntryPoint]], frozenset[str], dict[tuple[str, str], str]]:
    """Return the entry points of all groups, of packages on a path, the packages, and what is wrong with broken ones.

    It takes a tenth of a second.
    """
    all_points = metadata.entry_points()
    by_group: dict[str, dict[str, metadata.EntryPoint]] = {group: {} for group in GROUPS}
    problems: dict[tuple[str, str], str] = {}
    for group, named in by_group.items():
        for point in sorted(all_points.select(group=group)):
            brings = f"{point.name!r} (entry points {group!r})"
            other = named.setdefault(point.name, point)
            if not point.pattern.match(point.value):
                problems[group, point.name] = (
                    f"An installed package brings {brings} as {point.value!r}, which is no MODULE:NAME."
                    f"{f' Uninstall {point.dist.name}.' if point.dist else ''}"
                )
            elif other.value != point.value:
                problems[group, point.name] = (
                    f"Two installed packages bring {brings}: {other.value} and {point.value}. Uninstall one of them."
                )
    for (group, name), problem in problems.items():
        del by_group[group][name]
        _log.warning("%s", problem)
    packages = frozenset(point.module.split(".")[0] for named in by_group.values() for point in named.values())
    return by_group, packages, problems
