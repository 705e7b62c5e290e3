"""What other packages bring to this one, found by entry points: ``docs/howto/extend.md`` lists their groups.

What a package brings is keyed by its own code and data, and nothing else is: :mod:`biaslab.cache.code_digest` follows
the modules of these packages as it does this one's, from the objects that a stage is given.
"""

from __future__ import annotations

import importlib.util
import sys
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from biaslab.errors import ParameterError, unknown_name

GROUPS = ("biaslab.models", "biaslab.corpora", "biaslab.judges", "biaslab.ground_truth", "biaslab.notebooks")
MODELS, CORPORA, JUDGES, GROUND_TRUTH, NOTEBOOKS = GROUPS


def entry_points(group: str) -> dict[str, metadata.EntryPoint]:
    """Return the entry points of a group by their names, in the order of these."""
    return _all(tuple(sys.path))[0][group]


def entry_point(group: str, name: str, what: str) -> metadata.EntryPoint:
    """Return the entry point of a group by its name; an UnknownNameError where no package brings ``what`` under it."""
    if name not in entry_points(group):
        raise unknown_name(f"{what} among the installed packages (entry points {group!r})", name, entry_points(group))
    return entry_points(group)[name]


def plugin_packages() -> frozenset[str]:
    """Return the names by which the packages that bring something are imported."""
    return _all(tuple(sys.path))[1]


def notebook_folders() -> dict[str, Path]:
    """Return the folders of packages that bring notebooks, by the packages' names; none of these is imported.

    Raises ParameterError where a package is not there.
    """
    return {
        point.module: _folder(name, point.module, tuple(sys.path)) for name, point in entry_points(NOTEBOOKS).items()
    }


@lru_cache
def _folder(name: str, module: str, path: tuple[str, ...]) -> Path:
    try:
        spec = importlib.util.find_spec(module)
    except (Exception, SystemExit):  # of what it lies in, whose code runs
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise ParameterError(
            f"The notebooks {name!r} are to be in the package {module}, which is not there. Install it again."
        )
    return Path(spec.submodule_search_locations[0])


@lru_cache(maxsize=8)
def _all(path: tuple[str, ...]) -> tuple[dict[str, dict[str, metadata.EntryPoint]], frozenset[str]]:
    """Return the entry points of all groups, of packages on a path, and the packages; it takes a tenth of a second."""
    all_points = metadata.entry_points()
    by_group: dict[str, dict[str, metadata.EntryPoint]] = {group: {} for group in GROUPS}
    for group, named in by_group.items():
        for point in sorted(all_points.select(group=group)):
            brings = f"{point.name!r} (entry points {group!r})"
            if not point.pattern.match(point.value):
                raise ParameterError(
                    f"An installed package brings {brings} as {point.value!r}, which is no MODULE:NAME."
                    f"{f' Uninstall {point.dist.name}.' if point.dist else ''}"
                )
            other = named.setdefault(point.name, point)
            if other.value != point.value:
                raise ParameterError(
                    f"Two installed packages bring {brings}: {other.value} and {point.value}. Uninstall one of them."
                )
    return by_group, frozenset(point.module.split(".")[0] for named in by_group.values() for point in named.values())
