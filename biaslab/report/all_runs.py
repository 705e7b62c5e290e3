"""The overview page of all runs: ``outputs/index.html``, which is updated while runs continue."""

from __future__ import annotations

import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from biaslab.cache.result_cache import check_target
from biaslab.errors import RunError
from biaslab.report import cards, records
from biaslab.report.dotplots import draw_rows
from biaslab.report.pages import asset, format_seconds, format_time, href, is_page, write_from

# Maximum number of runs that the page shows with their cards; older runs are listed by name.
SHOWN = 20
# Maximum number of models in the plot of a measure that several runs share.
_MAX_MODELS = 14
# Maximum number of cards per run, and seconds after which the page reloads while a run continues.
_CARDS, _RELOAD_SECONDS = 3, 5
# Seconds without an update after which a run counts as ended, regardless of its status.
_SILENT_SECONDS = 3600


def check_overview(outputs: str | Path) -> None:
    """Raise ParameterError if the overview page would replace a file that biaslab did not write."""
    ours = partial(is_page, title="biaslab: reports")
    check_target(Path(outputs) / "index.html", ours, "an overview of runs", "--outputs DIR")


def overview(outputs: str | Path) -> Path:
    """Write the overview page of a folder of runs and return its path; the page reloads while a run continues."""
    outputs = Path(outputs)
    paths = sorted(outputs.glob(f"*/{records.FILE}"), key=_modified_time, reverse=True)
    runs, broken = [], []
    for path in paths[:SHOWN]:
        try:
            runs.append(_run(path, outputs))
        # The entries of a record may be invalid.
        except (RunError, OSError, ValueError, TypeError, AttributeError, LookupError):
            broken.append(path.parent.name)
    older = [path.parent.name for path in paths[SHOWN:]]
    return write_from(
        outputs / "index.html",
        "overview.html.j2",
        style=asset("report.css"),
        runs=sorted(runs, key=lambda run: run["started_iso"]),
        broken=broken,
        older=[(name, href(outputs, f"{name}/index.html")) for name in older],
        measures=_find_shared_measures(runs),
        models=cards.introduce(name for run in runs for name in run["models"]),
        again=_RELOAD_SECONDS if any(run["running"] for run in runs) else 0,
    )


def _find_shared_measures(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the measures that several runs share, each with a plot of all their models."""
    rows: dict[str, dict[tuple, dict[str, Any]]] = {}
    runs_by_measure: dict[str, set[str]] = {}
    for run in runs:
        for measure, measure_rows in run["measures"].items():
            runs_by_measure.setdefault(measure, set()).add(run["name"])
            for row in measure_rows:
                # Equal rows of several runs, such as printed values, count once.
                key = row["model"], *(str(row[name]) for name in ("estimate", "ci_low", "ci_high"))
                if row["estimate"] is not None:
                    rows.setdefault(measure, {}).setdefault(key, row | {"run": run["name"]})
    shared_measures = []
    for measure, measure_rows in rows.items():
        models, counts = list(measure_rows.values()), Counter(row["model"] for row in measure_rows.values())
        if len(runs_by_measure[measure]) < 2:
            continue
        for row in models:
            row["name"] = f"{row['model']} ({row['run']})" if counts[row["model"]] > 1 else row["model"]
        if marks := draw_rows(models[:_MAX_MODELS], unit=models[0].get("unit", "")):
            shared_measures.append({"name": measure, "marks": marks | {"left": max(len(models) - _MAX_MODELS, 0)}})
    return shared_measures


def _modified_time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    # A broken link.
    except OSError:
        return 0.0


def _run(path: Path, outputs: Path) -> dict[str, Any]:
    """Return the entry of a run on the overview page."""
    run = records.read(path.parent, needs={})
    # The absolute value covers changes of the system clock.
    silent_seconds = abs(time.time() - _modified_time(path))
    notebooks = cards.entries(run, "notebooks")
    status = {name: sum(n["status"] == name for n in notebooks) for name in ("ok", "failed", "skipped")}
    planned = run.get("planned") if isinstance(run.get("planned"), int) else len(notebooks)
    question_cards = cards.by_question(run)
    return {
        "name": path.parent.name,
        "title": str(run.get("title") or run.get("run") or path.parent.name),
        "href": href(outputs, f"{path.parent.name}/index.html"),
        "running": run.get("status") == "running" and silent_seconds < _SILENT_SECONDS,
        "stopped": run.get("status") in ("running", "stopped"),
        "finished": status["ok"],
        "failed": status["failed"],
        "planned": planned - status["skipped"],
        "started": format_time(run.get("started")),
        "started_iso": str(run.get("started") or ""),
        "seconds": format_seconds(run.get("seconds")),
        "measures": cards.measures(path.parent, run),
        "cards": [card for card in cards.opening_cards(question_cards)[:_CARDS] if card["answers"]],
        "models": {str(row["model"]) for card in question_cards for row in card["rows"]},
    }
