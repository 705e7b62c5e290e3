"""The page over all runs: ``outputs/index.html``, which fills in while runs continue."""

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

# Runs that the page shows with their cards; of older ones it has the names.
SHOWN = 20
# Models of a measure that several runs hold.
_TOGETHER = 14
# Cards of a run, and seconds after which a page of a run that continues loads itself again.
_CARDS, _AGAIN = 3, 5
# Seconds without a word from a run after which it counts as ended, whatever it says.
_SILENT = 3600


def check_overview(outputs: str | Path) -> None:
    """Check that the page over runs can be written: a ParameterError where someone else's page has its name."""
    ours = partial(is_page, title="biaslab: reports")
    check_target(Path(outputs) / "index.html", ours, "page over runs", "--outputs DIR")


def overview(outputs: str | Path) -> Path:
    """Write ``index.html`` over all runs of a folder and return its path; while one continues it loads itself again."""
    outputs = Path(outputs)
    found = sorted(outputs.glob(f"*/{records.FILE}"), key=_written, reverse=True)
    runs, broken = [], []
    for path in found[:SHOWN]:
        try:
            runs.append(_run(path, outputs))
        # Its entries may hold anything.
        except (RunError, OSError, ValueError, TypeError, AttributeError, LookupError):
            broken.append(path.parent.name)
    older = [path.parent.name for path in found[SHOWN:]]
    return write_from(
        outputs / "index.html",
        "overview.html.j2",
        style=asset("report.css"),
        runs=sorted(runs, key=lambda run: run["started_iso"]),
        broken=broken,
        older=[(name, href(outputs, f"{name}/index.html")) for name in older],
        measures=_together(runs),
        models=cards.introduce(name for run in runs for name in run["models"]),
        again=_AGAIN if any(run["running"] for run in runs) else 0,
    )


def _together(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the measures that several runs hold, each with the marks of their models next to one another."""
    rows: dict[str, dict[tuple, dict[str, Any]]] = {}
    held: dict[str, set[str]] = {}
    for run in runs:
        for measure, of in run["measures"].items():
            held.setdefault(measure, set()).add(run["name"])
            for row in of:
                # What is printed, and stands in several runs, is one model.
                key = row["model"], *(str(row[name]) for name in ("estimate", "ci_low", "ci_high"))
                if row["estimate"] is not None:
                    rows.setdefault(measure, {}).setdefault(key, row | {"run": run["name"]})
    found = []
    for measure, of in rows.items():
        each, named = list(of.values()), Counter(row["model"] for row in of.values())
        if len(held[measure]) < 2:
            continue
        for row in each:
            row["name"] = f"{row['model']} ({row['run']})" if named[row["model"]] > 1 else row["model"]
        if marks := draw_rows(each[:_TOGETHER], unit=each[0].get("unit", "")):
            found.append({"name": measure, "marks": marks | {"left": max(len(each) - _TOGETHER, 0)}})
    return found


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    # A link to nothing.
    except OSError:
        return 0.0


def _run(path: Path, outputs: Path) -> dict[str, Any]:
    """Return what the page says of a run."""
    run = records.read(path.parent, needs={})
    # Whatever the clock was set to since.
    silent = abs(time.time() - _written(path))
    notebooks = cards.entries(run, "notebooks")
    status = {name: sum(n["status"] == name for n in notebooks) for name in ("ok", "failed", "skipped")}
    planned = run.get("planned") if isinstance(run.get("planned"), int) else len(notebooks)
    found = cards.by_question(run)
    return {
        "name": path.parent.name,
        "title": str(run.get("title") or run.get("run") or path.parent.name),
        "href": href(outputs, f"{path.parent.name}/index.html"),
        "running": run.get("status") == "running" and silent < _SILENT,
        "stopped": run.get("status") in ("running", "stopped"),
        "finished": status["ok"],
        "failed": status["failed"],
        "planned": planned - status["skipped"],
        "started": format_time(run.get("started")),
        "started_iso": str(run.get("started") or ""),
        "seconds": format_seconds(run.get("seconds")),
        "measures": cards.measures(path.parent, run),
        "cards": [card for card in cards.first(found)[:_CARDS] if card["answers"]],
        "models": {str(row["model"]) for card in found for row in card["rows"]},
    }
