"""The replication status of every numbered table and figure of the four papers, by run (``ledger.csv``).

``runs`` are the names of the parameters files that compute an item; the run on published values computes it from the
tables in ``inputs``. ``status`` is ``regenerated`` if such runs exist, ``reprinted`` if runs only show the values that
the paper prints (``reprinted_by``), ``open`` if no run shows it yet, with the reason in ``note``, and ``illustrative``
for a diagram or comparison in words. Tests in the paradox paper's text are of kind ``test``, numbers in the text of a
paper of kind ``text``.
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
    """Return the ledger's rows of the papers that a run on published values reports on, with their status in this run.

    Items that this run only reprints are ``reprinted``, regardless of other runs. Items that it omits, or has no images
    for, are ``open``.
    """
    executed_ids = {n["id"] for n in notebooks if n["status"] != "skipped"}
    output_names = {t["name"] for t in tables if t["rows"]} | {f["name"] for f in figures}
    papers = {row["paper"] for row in entries() if row["notebook"] in executed_ids}
    rows = []
    for row in entries():
        if row["paper"] not in papers:
            continue
        if row["output"] and row["output"] in output_names and "published" in row["reprinted_by"].split():
            row = {**row, "status": "reprinted"}
        elif row["output"] and not (row["output"] in output_names and "published" in row["runs"].split()):
            other_runs = ", ".join(row["runs"].split()) or "none"
            row = {**row, "status": "open", "note": f"Not part of this run. Parameters files with it: {other_runs}."}
        rows.append(row)
    return rows
