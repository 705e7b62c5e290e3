"""Two runs side by side: every table they share, with differences and their intervals."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from biaslab import tables
from biaslab.errors import ParameterError, RunError, name_help
from biaslab.runs import LIMITS, _now, _slug, _write_json

if TYPE_CHECKING:
    import pandas as pd

_INDEPENDENCE = (
    "Intervals of differences take the two runs as independent (MOVER, Zou and Donner 2008). Runs that share "
    "images or training captions are not: then the intervals are too wide where the two move together."
)


def side_by_side(
    first: pd.DataFrame, second: pd.DataFrame, name: str, *, swept: Sequence[str] = ()
) -> pd.DataFrame:
    """Return the rows of table ``name`` that either run has, with both values and the difference.

    Columns: the table's identity, then for its estimate (the number before ``ci_low``; without intervals,
    each number that is not a count) ``<column>_first``, ``<column>_second``, ``<column>_difference`` and,
    where there are intervals, the limits of each and ``ci_low`` and ``ci_high`` of the difference.
    Rows of one run only have missing values on the other side. A key that differs in every row, such as
    ``model`` where each run holds one, is told apart by ``_first`` and ``_second`` and not matched on.
    ``swept`` names parameters that a run was repeated for; where both have such a column, rows are matched on it too.
    """
    declared = tables.schema(name)
    identity = list(dict.fromkeys([*declared.keys, *(k for k in swept if k in first and k in second)]))
    keys = _matching_keys(first, second, identity)
    apart = [k for k in identity if k not in keys]
    values = _estimates(declared)
    with_interval = "ci_low" in declared.names
    limits = ["ci_low", "ci_high"] if with_interval else []
    both = first[[*keys, *apart, *values, *limits]].merge(
        second[[*keys, *apart, *values, *limits]], on=keys, how="outer", suffixes=("_first", "_second")
    )
    for value in values:
        both[f"{value}_difference"] = both[f"{value}_second"] - both[f"{value}_first"]
    if with_interval:
        from biaslab.stats import difference_interval

        (value,) = values
        sides = [f"{c}_{side}" for side in ("first", "second") for c in (value, "ci_low", "ci_high")]
        both["ci_low"], both["ci_high"] = difference_interval(*(both[c] for c in sides))
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
        ParameterError: A run does not exist, or the two are the same.
        RunError: They share no table, or the comparison's folder holds something else.
    """
    from biaslab import report

    outputs = Path(outputs)
    one, other = _find(first, outputs), _find(second, outputs)
    if one == other:
        raise ParameterError(f"{one} is compared with itself; name two different runs.")
    shared = sorted({p.stem for p in one.glob("tables/*.csv")} & {p.stem for p in other.glob("tables/*.csv")})
    shared = [s for s in shared if s in tables.schemas()]
    if not shared:
        raise RunError(f"{one.name} and {other.name} share no table, so there is nothing to compare.")
    started = _now()
    folder = outputs / (name or f"compare-{_slug(one.name)}-{_slug(other.name)}")
    _prepare(folder)
    runs = [json.loads((f / "run.json").read_text(encoding="utf-8")) for f in (one, other)]
    swept = sorted({key for run in runs for key in run.get("sweep", {})})
    records = [_record(s, one, other, folder, swept) for s in shared]
    record = {
        "run": folder.name,
        "title": f"{one.name} and {other.name}",
        "description": (
            f"Tables of the runs {one.name} (first) and {other.name} (second) side by side. "
            "A difference is second minus first."
        ),
        "kind": "comparison",
        "status": "ok",
        "params_file": "",
        "parameters": {"first": str(first), "second": str(second)},
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
        "headlines": _headlines(records, folder),
        "figures": [],
        "tables": records,
        "limits": [_INDEPENDENCE, *LIMITS],
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


def _prepare(folder: Path) -> None:
    record = folder / "run.json"
    if folder.exists() and any(folder.iterdir()):
        kind = json.loads(record.read_text(encoding="utf-8")).get("kind") if record.exists() else None
        if kind != "comparison":
            raise RunError(f"{folder} exists and is not a comparison; choose another name with --name.")
        shutil.rmtree(folder)
    (folder / "tables").mkdir(parents=True)


def _record(name: str, one: Path, other: Path, folder: Path, swept: Sequence[str]) -> dict:
    declared = tables.schema(name)
    paths = [run / "tables" / f"{name}.csv" for run in (one, other)]
    first, second = (tables.read(path, name, more_keys=swept) for path in paths)
    frame = side_by_side(first, second, name, swept=swept)
    path = tables.write(frame, folder / "tables" / f"{name}.csv")
    described = {c.name: c for c in declared.columns}

    def column(label: str) -> dict:
        base, _, side = label.rpartition("_")
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
        "description": f"{declared.description} First: {one.name}; second: {other.name}.",
        "file": path.relative_to(folder).as_posix(),
        "rows": len(frame),
        "columns": [column(c) for c in frame.columns],
        "notebooks": [],
    }


def _headlines(records: list[dict], folder: Path) -> list[dict]:
    """Say, table by table, how many differences have an interval that excludes 0."""
    import pandas as pd

    found = []
    for record in records:
        frame = pd.read_csv(folder / record["file"])
        if "ci_low" not in frame.columns:
            continue
        known = frame["ci_low"].notna()
        if known.any():
            apart = int(((frame["ci_low"] > 0) | (frame["ci_high"] < 0)).sum())
            words = (
                f"{record['title']}: of {int(known.sum())} differences with an interval, {apart} "
                f"{'has' if apart == 1 else 'have'} one that excludes 0."
            )
            found.append(
                {"notebook": "", "variant": "", "text": words, "main": not found, "order": len(found)}
            )
    return found
