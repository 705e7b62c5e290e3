"""Where measured tables come from: the papers' printed numbers, a file of ratings, or a folder of tables.

One call, :func:`measured`, serves all of them, so a notebook does not know which it reads.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from biaslab import tables
from biaslab.errors import InputError, MissingInputError, ParameterError, name_help, unknown_name

if TYPE_CHECKING:
    import pandas as pd

NAMED = ("published", "ratings")
# Where a run keeps the measured tables that it read.
MEASURED = "measured"


def check(source: str, ratings: str = "") -> str:
    """Return ``source`` if measured tables can come from it.

    Raises:
        ParameterError: It is neither a named source nor a folder, or a ratings file is missing or not used.
    """
    if source == "ratings" and not ratings:
        raise ParameterError(
            "source is 'ratings' but ratings is empty; set ratings to a CSV or Parquet file."
        )
    if source != "ratings" and ratings:
        raise ParameterError(f"ratings is {ratings!r} but source is {source!r}; set source to 'ratings'.")
    if source in NAMED or Path(source).is_dir():
        return source
    raise ParameterError(
        f"source is {source!r}, which is neither 'published', 'ratings' nor a folder that exists. "
        f"{name_help(source, NAMED)}"
    )


def measured(name: str, *, source: str, ratings: str = "") -> pd.DataFrame:
    """Return the measured table ``name`` from ``source``, checked against its declaration.

    Args:
        name: Name of a declared table that a source can hold.
        source: ``published``, ``ratings`` or a folder with ``<name>.csv`` in its ``measured`` (a run's inputs),
            in its ``tables``, or in itself.
        ratings: The file of ratings, for ``source="ratings"``.

    Raises:
        InputError: The data are missing or do not fit.
        UnknownNameError: There is no such table in this source.
    """
    if source == "published":
        if name not in _published():
            raise unknown_name("table of published measurements", name, _published())
        return tables.conform(_published()[name](), name)
    if source == "ratings":
        from biaslab import ratings as rated

        if name != "paradox_percent_female":
            raise unknown_name("measured table that ratings give", name, ["paradox_percent_female"])
        return tables.conform(rated.read(ratings).percent_female, name)
    folder = Path(source)
    tables.schema(name)
    path = _file(folder, name)
    if path:
        return _plausible(tables.read(path, name), name, path)
    there = sorted({p.stem for p in [*folder.glob("*.csv"), *folder.glob("*/*.csv")]})
    raise MissingInputError(f"{source} holds no {name}.csv. {name_help(name, there)}")


def _plausible(frame: pd.DataFrame, name: str, path: Path) -> pd.DataFrame:
    """Refuse shares of people that are likely given in other units, and numbers of images that are none."""
    if not {"percent_female", "n"}.issubset(frame.columns):
        return frame
    share, n = frame["percent_female"], frame["n"]
    if share.max() <= 1 and (share > 0).any():
        raise InputError(
            f"{path}: every percent_female is 1 or less, as if given as 0–1; multiply it by 100."
        )
    bad = share.notna() & ((n < 1) | (n % 1 != 0) | n.isna())
    if bad.any():
        raise InputError(
            f"{path}: n is {n[bad].iloc[0]:g} in row {int(bad.to_numpy().argmax()) + 1}; it counts images, so it must "
            "be a whole number of 1 or more."
        )
    if name == "paradox_percent_female" and frame["source"].nunique() < 2:
        raise InputError(
            f"{path}: source is {', '.join(sorted(set(frame['source']))) or 'nowhere given'}; amplification needs "
            "'training' and 'generated'."
        )
    return frame


def check_all(source: str) -> None:
    """Read every measured table that a folder holds, so that errors in any come before work.

    Raises:
        InputError: A table does not fit its declaration, or the folder holds none.
    """
    if source in NAMED:
        return
    held = [name for name in _published() if has(name, source=source)]
    if not held:
        raise InputError(
            f"{source} holds none of the tables that notebooks read: {', '.join(sorted(_published()))}."
        )
    for name in held:
        measured(name, source=source)


def has(name: str, *, source: str) -> bool:
    """Return whether ``source`` holds the measured table ``name``."""
    if source == "published":
        return name in _published()
    if source == "ratings":
        return name == "paradox_percent_female"
    return _file(Path(source), name) is not None


def _file(folder: Path, name: str) -> Path | None:
    paths = (folder / place / f"{name}.csv" for place in (MEASURED, "tables", "."))
    return next((path for path in paths if path.exists()), None)


def models(paper: str, *, source: str, ratings: str = "") -> list[str] | None:
    """Return the models that ``source`` has measurements of for ``paper``; ``None`` if it has no such table."""
    found: set[str] = set()
    known = False
    for name in _published():
        if name.startswith(f"{paper}_") and has(name, source=source):
            frame = measured(name, source=source, ratings=ratings)
            if "model" in frame.columns:
                known = True
                found |= set(frame["model"])
    return sorted(found) if known else None


def digest(source: str, ratings: str = "") -> str:
    """Return a digest of a source's files; the published numbers are part of the code's digest."""
    if source == "published":
        return "published"
    if source == "ratings":
        from biaslab import ratings as rated

        paths = [rated.located(ratings)]
    else:
        paths = [path for name in sorted(_published()) if (path := _file(Path(source), name))]
    whole = hashlib.sha256()
    for path in paths:
        whole.update(path.name.encode())
        whole.update(path.read_bytes())
    return whole.hexdigest()


@cache
def _published() -> dict:
    """Return the functions that give published measurements, by the table they fill."""
    found = {}
    for module in tables.PAPERS:
        found.update(import_module(f"biaslab.studies.{module}").PUBLISHED)
    return found
