"""The numbers that a run leads with, from the tables that it left; each paper's room says which those are."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from biaslab.ground import tables
from biaslab.measures.headline import Headline
from biaslab.study import sources


def of_run(folder: Path) -> Iterator[Headline]:
    """Yield the headlines of a run's folder, of papers whose measured tables it has, in the papers' order."""
    for paper in tables.measuring():
        if not find_spec(name := f"biaslab.papers.{paper}.headlines"):
            continue
        room = import_module(name)
        if sources.file_of(folder, room.TABLES[0]):
            yield from room.headlines(*(table(folder, one) for one in room.TABLES))


def table(folder: Path, name: str) -> pd.DataFrame:
    """Return a run's table; without rows where it has none."""
    path = sources.file_of(folder, name)
    return tables.read(path, name) if path else tables.of([], name)
