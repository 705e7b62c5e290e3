"""The cards of a report: findings by question, each with its answers and a small figure."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any

from biaslab.hub import registry
from biaslab.report.dotplots import draw_rows
from biaslab.report.pages import file_inside
from biaslab.schema import formatting
from biaslab.schema.tables import load_yaml

MIN_CARDS, MAX_CARDS = 3, 8
"""Minimum and maximum number of cards at the top of a page."""
# The table of measures of models, and its columns of numbers.
_MODELS_TABLE = "synthesis_models"
_MODELS_NUMBERS = ("estimate", "estimate_corrected", "ci_low", "ci_high", "null_mean")
_JUDGES_TABLES = "synthesis_judge_headlines", "synthesis_judge_agreement"
_ENDS = "ci_low", "ci_high"
_VERDICTS = {"above": "above {}", "below": "below {}", "not_significant": "not significantly different from {}"}
# Maximum number of rows in the small figure of a card; the linked figure has all of them.
_ROWS = 12
# Maximum number of different answers on a card.
_ANSWERS = 6


@cache
def words(name: str) -> dict[str, Any]:
    """Return the texts of a packaged YAML file of ``biaslab/report``."""
    return load_yaml(Path(__file__).with_name(f"{name}.yaml"))


def entries(run: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the records of a list in ``run.json``; missing fields of a record are ``""``."""
    records = [entry for entry in run.get(key) or [] if isinstance(entry, dict)]
    return [defaultdict(str, {k: v for k, v in entry.items() if v is not None}) for entry in records]


def order_entries(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return entries with main ones first, then by their ``order``; ties keep their order."""

    def place(entry: dict[str, Any]) -> tuple[bool, float]:
        order = entry["order"]
        return not entry["main"], order if isinstance(order, int | float) else 0

    return sorted(records, key=place)


def by_question(run: dict[str, Any]) -> list[dict[str, Any]]:
    """Return findings as cards by question and notebook, main ones first.

    A card has the fields of its first finding, ``rows`` (all findings), ``answers`` (one for all models with the same
    answer, without models with printed values if others were measured), ``marks`` (the small figure of all rows, or
    None) and ``paper``.
    """
    by_key: dict[tuple[str, str], dict[str, Any]] = {}
    for entry in order_entries(entries(run, "findings")):
        key = str(entry["question"]), str(entry["notebook"])
        card = by_key.setdefault(key, entry | {"paper": key[1].partition("/")[0], "rows": []})
        card["rows"].append(entry)
    for card in by_key.values():
        card["answers"] = _answers(card["rows"])
        card["marks"] = _marks(card["rows"])
    return list(by_key.values())


def _name_models(entry: dict[str, Any]) -> str:
    return ", ".join(str(entry[key]) for key in ("model", "variant") if entry[key])


def _answers(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the different answers: ``who`` (models), ``text``, and ``numbers`` with an interval, by model."""
    measured = [row for row in rows if not row["printed"]]
    rows_by_answer: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in measured or rows:
        rows_by_answer[str(row["answer"])].append(row)
    answers = []
    for text, members in list(rows_by_answer.items())[:_ANSWERS]:
        names = [_name_models(row) for row in members]
        numbers = [
            f"{name}: {row['numbers']}" if name and len(members) > 1 else str(row["numbers"])
            for name, row in zip(names, members, strict=True)
            if row["numbers"] and "no interval" not in row["numbers"]
        ]
        answers.append({"who": ", ".join(filter(None, names)), "text": text, "numbers": numbers})
    return answers


def _marks(rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the small figure of findings: their marks, or their estimates; None if they have neither."""
    pairs = [
        (row, mark)
        for row in rows
        for mark in [mark for mark in row["marks"] or [] if isinstance(mark, dict)] or [{**row, "name": ""}]
    ]
    names, marks = [str(mark.get("name") or "") for _, mark in pairs], []
    # Names that occur once, such as those of pairs of models, need no model.
    repeated = len(rows) > 1 and len(set(names)) < len(names)
    for (row, mark), name in zip(pairs, names, strict=True):
        label = _name_models(row) if repeated or not name else ""
        mark_name = ", ".join(filter(None, (label, name))) or "estimate"
        marks.append({**mark, "name": mark_name, "place": names.index(name)})
    # Models are adjacent in each group.
    marks.sort(key=lambda mark: mark["place"])
    # Compared runs can have different benchmarks.
    references = dict.fromkeys(str(row["reference_name"]) for row in rows)
    options = {"unit": str(rows[0]["unit"]), "reference_name": " / ".join(filter(None, references))}
    image = draw_rows(marks[:_ROWS], reference=rows[0]["reference"], **options)
    return image and image | {"left": max(len(marks) - _ROWS, 0)}


def opening_cards(cards: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the cards at the top of a page: those with a position, and main ones if these are too few.

    Additional cards come first from papers that have no card yet, and those with a small figure come before others.
    """
    cards = list(cards)
    placed_cards = [card for card in cards if isinstance(card["card"], int | float) and card["card"] > 0]
    selection = sorted(placed_cards, key=lambda card: card["card"])[:MAX_CARDS]
    candidates = [card for card in cards if card["main"] and card not in placed_cards]
    model_cards = [card for card in cards if any(row["model"] for row in card["rows"])]
    # If some cards are about models, only these are added.
    candidates = [card for card in candidates if card in model_cards] if model_cards else candidates
    while len(selection) < MIN_CARDS and candidates:
        papers = {card["paper"] for card in selection}
        candidates.sort(key=lambda card: (card["paper"] in papers, card["marks"] is None))
        selection.append(candidates.pop(0))
    return selection or cards[:MIN_CARDS]


def measures(run_dir: Path, run: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the measures of models, from the run's table of them: by measure, one row per model."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in _rows(run_dir, run, _MODELS_TABLE):
        numbers = {key: _float(row.get(key)) for key in _MODELS_NUMBERS}
        # The interval belongs to the corrected estimate; printed values have neither.
        corrected_estimate = numbers.pop("estimate_corrected")
        if corrected_estimate is not None and isfinite(corrected_estimate):
            numbers["estimate"] = corrected_estimate
        # The null expectation of a signed measure is 0, the position of the reference line.
        numbers["null_mean"] = numbers["null_mean"] or None
        groups[row["measure"]].append(row | numbers | {"name": row["model"]})
    return groups


def by_judge(run_dir: Path, run: dict[str, Any]) -> dict[tuple[str, str, str], list[dict[str, str]]]:
    """Return the results of other judges for cards, by paper, model and headline.

    ``judge`` and ``reference`` are names, ``value`` is the headline by the judge, ``agreement`` that of both judges,
    and ``change`` states both verdicts if they differ. A sweep has no such results, because its variants share names.
    """
    by_headline: dict[tuple[str, str, str], list[dict[str, str]]] = defaultdict(list)
    if run.get("sweep"):
        return by_headline
    headlines, agreements = (_rows(run_dir, run, name) for name in _JUDGES_TABLES)
    overall = {(*_key(row), row["judge"]): row for row in headlines if row["group"] == "all"}
    agreement = {(*_key(row), row["judge"]): _agreement(row) for row in agreements if row["subset"] == "all"}
    for (*_, judge), row in overall.items():
        reference_row = overall.get((*_key(row), row["reference"]))
        if reference_row is None or judge == row["reference"]:
            continue
        line = {"judge": judge, "reference": row["reference"], "value": _value(row), "change": ""}
        line["agreement"] = agreement.get((*_key(row), judge), "not estimated")
        if _float(row["changes_verdict"]) == 1:
            balanced = f"{float(row['balanced']):g}{'%' if row['unit'] == '%' else ''}"
            both_rows = reference_row, row
            verdicts = (f"{_VERDICTS[r['verdict']].format(balanced)} by {r['judge']}" for r in both_rows)
            line["change"] = " and ".join(verdicts)
        by_headline[_key(row)].append(line)
    return by_headline


def _key(row: dict[str, str]) -> tuple[str, str, str]:
    return row["paper"], row["model"], row["headline"]


def _value(row: dict[str, str]) -> str:
    """Return a headline by a judge in words: ``45.0% (25.9 to 65.7; n = 20 people), as judged``."""
    estimate = _float(row["estimate"])
    if estimate is None or not isfinite(estimate):
        return "no estimate"
    limits = {end: float(row[end] or "nan") for end in _ENDS}
    n = formatting.format_count(float(row["n"]), "person", "people")
    value = formatting.add_unit(formatting.format_number(estimate), row["unit"])
    return f"{value} ({formatting.format_interval(limits)}; n = {n}), as judged"


def _agreement(row: dict[str, str]) -> str:
    """Return the agreement of two judges in words: ``93% (kappa 0.85; n = 30 people)``."""
    n, kappa = float(row["n"]), _float(row["kappa"])
    if not n:
        return "no person is classified by both"
    about = f"n = {formatting.format_count(n, 'person', 'people')}"
    about = f"kappa {kappa:.2f}; {about}" if kappa is not None and isfinite(kappa) else about
    return f"{float(row['percent']):.0f}% ({about})"


def _rows(run_dir: Path, run: dict[str, Any], name: str) -> list[dict[str, str]]:
    """Return the rows of a table of a run; empty if it has no such table."""
    matches = [entry for entry in entries(run, "tables") if entry["name"] == name]
    path = file_inside(run_dir, matches[0]["file"]) if matches else None
    if path is None:
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _float(text: str | None) -> float | None:
    try:
        return float(text or "nan")
    except ValueError:
        return None


def introduce(names: Iterable[str]) -> dict[str, str]:
    """Return descriptions of models that packages bring, by name; other models need none."""
    texts = {name: registry.describe(name, "glossary") for name in dict.fromkeys(names)}
    return {name: text for name, text in texts.items() if text}
