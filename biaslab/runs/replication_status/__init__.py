"""The replication status of every numbered table and figure of the four papers, by run (``ledger.csv``).

``runs`` are the parameters files, by name, that compute an item; the run on published values does so from the tables in
``inputs``. ``status`` is ``regenerated`` where there are such runs, ``reprinted`` where runs only show what the paper
prints (``reprinted_by``), ``open`` where none shows it yet, with the reason in ``note``, and ``illustrative`` of a
diagram or comparison in words. Tests in the paradox paper's text are of kind ``test``, numbers that the text of a paper
states of kind ``text``.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from importlib.resources import files


def entries() -> list[dict[str, str]]:
    """Return the ledger's rows: paper, kind (``table``, ``figure``, ``test`` or ``text``), number, title, status,
    notebook, output, runs, inputs, reprinted_by, note."""
    text = files("biaslab.runs.replication_status").joinpath("ledger.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def of_run(notebooks: Iterable[Mapping], tables: Iterable[Mapping], figures: Iterable[Mapping]) -> list[dict[str, str]]:
    """Return the ledger's rows of the papers that a run on published numbers reports on, with their status in it.

    What it only reprints is ``reprinted`` whatever other runs do, and what it left out, or has no images for, is
    ``open``.
    """
    executed = {n["id"] for n in notebooks if n["status"] != "skipped"}
    made = {t["name"] for t in tables if t["rows"]} | {f["name"] for f in figures}
    papers = {row["paper"] for row in entries() if row["notebook"] in executed}
    found = []
    for row in entries():
        if row["paper"] not in papers:
            continue
        if row["output"] and row["output"] in made and "published" in row["reprinted_by"].split():
            row = {**row, "status": "reprinted"}
        elif row["output"] and not (row["output"] in made and "published" in row["runs"].split()):
            others = ", ".join(row["runs"].split()) or "none"
            row = {**row, "status": "open", "note": f"Not part of this run. Parameters files with it: {others}."}
        found.append(row)
    return found
