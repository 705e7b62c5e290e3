"""Two runs side by side: every table they share, with differences and their intervals."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from biaslab import tables
from biaslab.errors import ParameterError, RunError, name_help
from biaslab.params import _RUN_NAME
from biaslab.runs import LIMITS, _now, _write_json
from biaslab.shared import named

if TYPE_CHECKING:
    import pandas as pd

_INDEPENDENCE = (
    "Intervals of differences take the two runs as independent (MOVER, Zou and Donner 2008). Runs that share "
    "images or training captions are not: then the intervals are too wide where the two move together."
)


def side_by_side(
    first: pd.DataFrame,
    second: pd.DataFrame,
    name: str,
    *,
    swept: Sequence[str] = (),
    intervals: bool = True,
) -> pd.DataFrame:
    """Return the rows of table ``name`` that either run has, with both values and the difference.

    Columns: the table's identity, ``in_runs`` (``both``, ``first`` or ``second``), then for its estimate (the
    number before ``ci_low``; without intervals, each number that is not a count) ``<column>_first``,
    ``<column>_second``, ``<column>_difference`` and, where there are intervals, the limits of each and
    ``ci_low`` and ``ci_high`` of the difference.
    Rows of one run only have missing values on the other side. A key that differs in every row, such as
    ``model`` where each run holds one, is told apart by ``_first`` and ``_second`` and not matched on.
    ``swept`` names parameters that a run was repeated for; where both have such a column, rows are matched on it too,
    and where one has it, ``<parameter>_first`` or ``<parameter>_second`` tells its rows apart.
    Without ``intervals``, those of the differences stay missing: the two sides' are not of one level.
    """
    declared = tables.schema(name)
    identity = list(dict.fromkeys([*declared.keys, *(k for k in swept if k in first and k in second)]))
    keys = _matching_keys(first, second, identity)
    apart = [k for k in identity if k not in keys]
    values = _estimates(declared)
    with_interval = "ci_low" in declared.names
    limits = ["ci_low", "ci_high"] if with_interval else []
    first, second = first.copy(), second.copy()
    for k in keys:
        if first[k].dtype != second[k].dtype:
            first[k], second[k] = first[k].astype(str), second[k].astype(str)
    sides = []
    for frame, other, side in ((first, second, "first"), (second, first, "second")):
        lone = [k for k in swept if k in frame and k not in other and k not in declared.keys]
        chosen = frame[[*keys, *apart, *lone, *values, *limits]]
        sides.append(chosen.rename(columns={k: f"{k}_{side}" for k in lone}))
    both = sides[0].merge(
        *sides[1:], on=keys, how="outer", suffixes=("_first", "_second"), indicator="in_runs"
    )
    names = {"left_only": "first", "right_only": "second"}
    both.insert(len(keys), "in_runs", both.pop("in_runs").astype(str).replace(names))
    for value in values:
        both[f"{value}_difference"] = both[f"{value}_second"] - both[f"{value}_first"]
    if with_interval:
        from biaslab.stats import difference_interval

        (value,) = values
        if not intervals:
            return both.assign(ci_low=float("nan"), ci_high=float("nan"))
        parts = [f"{c}_{side}" for side in ("first", "second") for c in (value, "ci_low", "ci_high")]
        both["ci_low"], both["ci_high"] = difference_interval(*(both[c] for c in parts))
    return both


def _matching_keys(first: pd.DataFrame, second: pd.DataFrame, keys: list[str]) -> list[str]:
    """Return the keys to match rows on: all but those with one value a run that the runs do not share."""

    def told_apart(key: str) -> bool:
        a, b = set(first[key]), set(second[key])
        return len(a) == len(b) == 1 and a != b

    matching = [k for k in keys if not told_apart(k)]
    return matching or keys


def _estimates(declared: tables.Schema) -> list[str]:
    names = declared.names
    if "ci_low" in names:
        return [names[names.index("ci_low") - 1]]
    return [
        c.name
        for c in declared.columns
        if not c.text and c.name not in ("n", "t", "p") and not c.name.startswith("n_")
    ]


def compare(
    first: str | Path, second: str | Path, *, outputs: str | Path = "outputs", name: str | None = None
) -> Path:
    """Compare two finished runs and leave a report with one table per shared table.

    Args:
        first: A run's folder, or its name below ``outputs``.
        second: The run that is compared with it; differences are second minus first.
        outputs: The folder that holds runs; the comparison becomes a folder in it.
        name: The comparison's name; by default ``compare-<first>-<second>``.

    Returns:
        The folder with ``index.html``, ``run.json`` and ``tables``.

    Raises:
        ParameterError: A run does not exist or is a comparison itself, the two are the same, or the name is not one.
        RunError: They share no table or no row, or the comparison's folder holds something else.
    """
    from biaslab import report

    if name is not None and not _RUN_NAME.fullmatch(name):
        raise ParameterError(
            f"name is {name!r}; a comparison's name is made of letters, digits, '.', '_' and '-', at most 80, "
            "and starts with a letter or digit."
        )
    outputs = Path(outputs)
    one, other = _find(first, outputs), _find(second, outputs)
    if one == other:
        raise ParameterError(f"{one} is compared with itself; name two different runs.")
    runs = [json.loads((f / "run.json").read_text(encoding="utf-8")) for f in (one, other)]
    for run, folder in zip(runs, (one, other), strict=True):
        if run.get("kind") == "comparison":
            raise ParameterError(f"{folder.name} is a comparison, not a run; name the two runs to compare.")
    shared = sorted({p.stem for p in one.glob("tables/*.csv")} & {p.stem for p in other.glob("tables/*.csv")})
    shared = [s for s in shared if s in tables.schemas()]
    if not shared:
        raise RunError(f"{one.name} and {other.name} share no table, so there is nothing to compare.")
    started = _now()
    title = f"{one.name} and {other.name}"
    swept = sorted({key for run in runs for key in run.get("sweep", {})})
    unequal = _unequal_confidence(one.name, other.name, runs)
    frames = {}
    for table in shared:
        sides = [tables.read(f / "tables" / f"{table}.csv", table, more_keys=swept) for f in (one, other)]
        frames[table] = side_by_side(*sides, table, swept=swept, intervals=not unequal)
    if not any((frame["in_runs"] == "both").any() for frame in frames.values()):
        raise RunError(
            f"No row of the tables that {title} share is in both, so there is nothing to compare"
            f"{_why_apart(frames)}."
        )
    folder = outputs / (name or re.sub(r"[^A-Za-z0-9._-]+", "-", f"compare-{one.name}-{other.name}"))
    _prepare(folder, title)
    records = [_record(table, frame, one, other, folder, swept) for table, frame in frames.items()]
    record = {
        "run": folder.name,
        "title": title,
        "description": (
            f"Tables of the runs {one.name} (first) and {other.name} (second) side by side. "
            "A difference is second minus first."
        ),
        "kind": "comparison",
        "status": "ok",
        "params_file": "",
        "parameters": {"first": named(str(first)), "second": named(str(second))},
        "sweep": {},
        "seeds": {
            f"{s}_{k}": v
            for s, r in zip(("first", "second"), runs, strict=True)
            for k, v in r["seeds"].items()
        },
        "biaslab": runs[1]["biaslab"],
        "packages": runs[1]["packages"],
        "platform": runs[1]["platform"],
        "started": started,
        "ended": _now(),
        "seconds": 0.0,
        "notebooks": [],
        "headlines": _headlines(frames),
        "figures": [],
        "tables": records,
        "limits": [*_unfinished(one.name, other.name, runs), *unequal, _INDEPENDENCE, *LIMITS],
        "coverage": [],
        "problems": [],
    }
    _write_json(folder / "run.json", record)
    report.build(folder)
    return folder


def _find(run: str | Path, outputs: Path) -> Path:
    for folder in (Path(run), outputs / str(run)):
        if (folder / "run.json").is_file():
            return folder.resolve()
    known = [p.parent.name for p in sorted(outputs.glob("*/run.json"))]
    raise ParameterError(
        f"There is no run {str(run)!r}: neither a folder with run.json nor a run in {outputs}. "
        f"{name_help(str(run), known)}"
    )


def _confidence(run: Mapping) -> set[float]:
    """Return the levels of a run's intervals."""
    if "confidence" in run.get("sweep", {}):
        return set(run["sweep"]["confidence"])
    if "confidence" in run.get("parameters", {}):
        return {run["parameters"]["confidence"]}
    defaults = run.get("notebook_defaults", {}).values()
    return {values["confidence"] for values in defaults if "confidence" in values}


def _unequal_confidence(first: str, second: str, runs: Sequence[Mapping]) -> list[str]:
    """Say so where the runs' intervals are not of one level; no sentence where they are."""
    if all("confidence" in run.get("sweep", {}) for run in runs):
        return []  # Rows are matched on it.
    one, other = (_confidence(run) for run in runs)
    if not one or not other or (one == other and len(one) == 1):
        return []
    one, other = (", ".join(f"{level:g}" for level in sorted(levels)) for levels in (one, other))
    return [
        f"Differences have no intervals: the confidence of {first} is {one} and that of {second} {other}. "
        "Repeat one of the runs with the level of the other."
    ]


def _unfinished(first: str, second: str, runs: Sequence[Mapping]) -> list[str]:
    """Say which run is not finished or did not execute all of its sections."""
    found = []
    for name, run in zip((first, second), runs, strict=True):
        ended = Counter(n.get("status", "unknown") for n in run.get("notebooks", []))
        left = [f"{n} {status}" for status, n in sorted(ended.items()) if status != "ok"]
        status = run.get("status", "not recorded")
        if left or status != "ok":
            sections = f"; of its {ended.total()} sections: {', '.join(left)}" if left else ""
            found.append(
                f"The status of the run {name} is {status}{sections}. Tables or rows may be missing for that reason."
            )
    return found


def _why_apart(frames: Mapping[str, pd.DataFrame]) -> str:
    """Name the first column to match on whose values the runs do not share."""
    for name, frame in frames.items():
        first, second = (frame[frame["in_runs"] == side] for side in ("first", "second"))
        for key in frame.columns[: frame.columns.get_loc("in_runs")]:
            a, b = (sorted(set(map(str, rows[key]))) for rows in (first, second))
            if a and b and not set(a) & set(b):
                return f": {key} in {name} is {', '.join(a[:3])} in the first and {', '.join(b[:3])} in the second"
    return ""


def _prepare(folder: Path, title: str) -> None:
    """Make the folder ready: new, or in place of an earlier comparison of the same two runs."""
    record = folder / "run.json"
    if folder.exists() and any(folder.iterdir()):
        earlier = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
        if earlier.get("kind") != "comparison":
            raise RunError(f"{folder} exists and is not a comparison; choose another name with --name.")
        if earlier.get("title") != title:
            raise RunError(
                f"{folder} holds the comparison of {earlier.get('title')}; choose another name with --name."
            )
        shutil.rmtree(folder)
    (folder / "tables").mkdir(parents=True)


def _record(
    name: str, frame: pd.DataFrame, one: Path, other: Path, folder: Path, swept: Sequence[str]
) -> dict:
    declared = tables.schema(name)
    path = tables.write(frame, folder / "tables" / f"{name}.csv")
    described = {c.name: c for c in declared.columns}

    def column(label: str) -> dict:
        base, _, side = label.rpartition("_")
        runs = {"first": one.name, "second": other.name}
        if label == "in_runs":
            return {"name": label, "unit": "", "description": "Which run has the row: both, first or second."}
        if label in swept:
            return {"name": label, "unit": "", "description": "A parameter that both runs were repeated for."}
        if base in swept and side in runs:
            words = f"A parameter that {runs[side]} was repeated for; the other run was not."
            return {"name": label, "unit": "", "description": words}
        known = described.get(base if side in ("first", "second", "difference") else label)
        if label in ("ci_low", "ci_high") or known is None:
            limit = "Lower" if label == "ci_low" else "Upper"
            return {"name": label, "unit": "", "description": f"{limit} limit of the difference."}
        what = {
            "first": f" In {one.name}.",
            "second": f" In {other.name}.",
            "difference": " Second minus first.",
        }
        return {"name": label, "unit": known.unit, "description": known.description + what.get(side, "")}

    return {
        "name": name,
        "title": declared.title,
        "description": f"{declared.description} First: {one.name}; second: {other.name}. {_in_both([frame])}",
        "file": path.relative_to(folder).as_posix(),
        "rows": len(frame),
        "columns": [column(c) for c in frame.columns],
        "notebooks": [],
    }


def _in_both(frames: Sequence[pd.DataFrame]) -> str:
    both = sum(int((frame["in_runs"] == "both").sum()) for frame in frames)
    return f"{both:,} of {sum(map(len, frames)):,} rows are in both runs."


def _headlines(frames: Mapping[str, pd.DataFrame]) -> list[dict]:
    """Say how many rows met, and table by table how many differences have an interval that excludes 0."""
    texts = [_in_both(list(frames.values()))]
    for name, frame in frames.items():
        known = frame["ci_low"].notna() if "ci_low" in frame.columns else frame["in_runs"] == ""
        if known.any():
            apart = int(((frame["ci_low"] > 0) | (frame["ci_high"] < 0)).sum())
            texts.append(
                f"{tables.schema(name).title}: of {int(known.sum())} differences with an interval, {apart} "
                f"{'has' if apart == 1 else 'have'} one that excludes 0."
            )
    # The rows that met and the first table's differences stand at the top.
    return [
        {"notebook": "", "variant": "", "text": text, "main": order < 2, "order": order}
        for order, text in enumerate(texts)
    ]
