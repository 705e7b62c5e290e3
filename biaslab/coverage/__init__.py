"""The coverage ledger: every numbered table and figure of the four papers, and what regenerates it.

``ledger.csv`` is the data. ``status`` is ``regenerated`` (a run leaves the named output behind),
``illustrative`` (examples, diagrams and word lists: there is no result to regenerate) or ``open``
(what it takes is in ``note``).
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from importlib.resources import files

STATUSES = ("regenerated", "open", "illustrative")


def ledger() -> list[dict[str, str]]:
    """Return the ledger's rows: paper, kind (``table``/``figure``), number, title, status, notebook, output, note."""
    text = files("biaslab.coverage").joinpath("ledger.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def of_run(
    notebooks: Iterable[Mapping], tables: Iterable[Mapping], figures: Iterable[Mapping]
) -> list[dict[str, str]]:
    """Return the ledger's rows of the papers that a run on published numbers reports on, with their status in it.

    A row that the ledger calls regenerated is ``open`` in a run that left its output out.
    """
    executed = {n["id"] for n in notebooks if n["status"] != "skipped"}
    made = {t["name"] for t in tables if t["rows"]} | {f["name"] for f in figures}
    papers = {row["paper"] for row in ledger() if row["notebook"] in executed}
    found = []
    for row in ledger():
        if row["paper"] not in papers:
            continue
        if row["status"] == "regenerated" and row["output"] not in made:
            row = {**row, "status": "open", "note": "Not part of this run."}
        found.append(row)
    return found
