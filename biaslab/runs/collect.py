"""What the notebooks of a run left, brought together: tables, figures, findings, the record and the index page."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from biaslab import __version__
from biaslab.cache import result_cache
from biaslab.errors import InputError
from biaslab.hub import huggingface
from biaslab.io.reading import digests
from biaslab.papers.findings import adjust_across_report
from biaslab.report import records
from biaslab.report.index import ROWS_SHOWN
from biaslab.request import makes_images, names
from biaslab.runs import caveats, replication_status
from biaslab.runs.params import RunParams
from biaslab.runs.resume import OF_MODELS
from biaslab.schema import tables
from biaslab.schema.formatting import format_count
from biaslab.schema.table_layout import TableLayout, lay_out
from biaslab.study import sources
from biaslab.study.study import PARTS

if TYPE_CHECKING:
    import pandas as pd

# The folder of a run with a page a model, and the strips of its first page.
IMAGE_PAGES = "pictures"
STRIPS = f"{IMAGE_PAGES}/strips.json"
# The files that list what was asked of models, and their images.
PROMPTS, IMAGES = "prompts.csv", "images.csv"
# Folders of a run that are made again from its parts.
_GATHERED = ("tables", "figures", sources.MEASURED)
_PACKAGES = (
    *("numpy", "pandas", "scipy", "statsmodels", "seaborn", "matplotlib"),
    *("papermill", "nbconvert", "ipykernel", "jupyterlab"),
    *OF_MODELS,
)


def gather(
    folder: Path, record: dict, notebooks: list[dict], public: Callable[[Any], Any], models: list[dict] | None = None
) -> dict:
    """Bring the notebooks' tables, figures and findings together, write ``run.json`` and the index page.

    ``models`` are those whose images are there, as :func:`biaslab.runs.generated_images.write` returns them.
    """
    from biaslab import report

    swept = list(record["sweep"])
    notebooks = sorted(notebooks, key=lambda n: (tables.place(n["id"]), n["id"], n["variant"]))
    for name in _GATHERED:
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir(parents=True)
    problems: list[str] = []
    source = record["parameters"].get("source", "published")
    of_source = {"source", "annotations"} | ({"model", "seed", "settings"} if makes_images(source) else set())
    if not of_source.intersection(swept):
        # Variants that read different sources have no one set of inputs.
        copy(folder / PARTS / sources.MEASURED, folder / sources.MEASURED)
    figures = _gather_figures(folder, notebooks)
    written = _gather_tables(folder, notebooks, swept, problems)
    gathered = [entry for entry, _ in written]
    # What notebooks found out as they read their inputs: to compare them takes libraries that this process lacks.
    printed: dict[str, list[str]] = {}
    for notebook in notebooks:
        for name, of in notes(folder, notebook)["printed"].items():
            # Variants of other sources have other models of the same table.
            printed[name] = [m for m in of if m in printed.get(name, of)]
    ended = {n["status"] for n in notebooks}
    finished = "stopped" if "stopped" in ended else "ok"
    as_printed = source == "published" and not record["inputs"]
    findings, verdicts = gather_findings(folder, notebooks)
    record |= {
        "status": "failed" if "failed" in ended or problems else finished,
        "problems": problems,
        "notebooks": notebooks,
        "findings": findings,
        "verdicts": verdicts,
        "figures": figures,
        "tables": gathered,
        "limits": caveats.limits_of_run(folder / PARTS / sources.MEASURED, gathered, source, printed),
        "pictures": {"strips": STRIPS, "models": models} if models else {},
        "coverage": replication_status.of_run(notebooks, gathered, figures) if as_printed else [],
    }
    record = public(record)
    write_json(folder / records.FILE, record)
    page = report.build(folder, {entry["name"]: layout for entry, layout in written})
    # Digests come last: without them, a run whose report was cut off is not whole.
    left = [path for name in (*_GATHERED, IMAGE_PAGES) for path in (folder / name).rglob("*") if path.is_file()]
    lists = [path for path in (folder / PROMPTS, folder / IMAGES) if path.is_file()]
    record["files"] = digests(folder, [page, *left, *lists])
    write_json(folder / records.FILE, record)
    return record


def notes(folder: Path, notebook: dict) -> dict[str, list]:
    """Return what a notebook noted of its figures, tables, findings and printed models."""
    path = folder / PARTS / notebook["slug"] / "records.json"
    if not path.exists():
        return {"figures": [], "tables": [], "findings": [], "printed": {}}
    return json.loads(path.read_text(encoding="utf-8"))


def gather_findings(folder: Path, notebooks: list[dict]) -> tuple[list[dict], dict]:
    """Return the notebooks' findings in order, adjusted over the report, and the counts of that."""
    found = [
        {**note, "notebook": notebook["id"], "variant": notebook["variant"]}
        for notebook in notebooks
        for note in notes(folder, notebook)["findings"]
    ]
    return adjust_across_report([{**note, "order": i} for i, note in enumerate(found)])


def _gather_figures(folder: Path, notebooks: list[dict]) -> list[dict]:
    found = []
    for notebook in notebooks:
        for note in notes(folder, notebook)["figures"]:
            files = {}
            note["svg_first"] = note["kinds"][0] == "svg"
            for kind in note.pop("kinds"):
                target = folder / "figures" / f"{note['name']}{notebook['suffix']}.{kind}"
                shutil.copy2(folder / PARTS / notebook["slug"] / "figures" / f"{note['name']}.{kind}", target)
                files[kind] = target.relative_to(folder).as_posix()
            order = {"order": len(found), "notebook": notebook["id"], "variant": notebook["variant"]}
            found.append({**note, **files, **order})
    return found


def _gather_tables(
    folder: Path, notebooks: list[dict], swept: list[str], problems: list[str]
) -> list[tuple[dict, TableLayout]]:
    found: dict[str, list[tuple[dict, Path]]] = {}
    for notebook in notebooks:
        for note in notes(folder, notebook)["tables"]:
            path = folder / PARTS / notebook["slug"] / "tables" / f"{note['name']}.csv"
            found.setdefault(note["name"], []).append((notebook, path))
    written = []
    for name, parts in sorted(found.items(), key=lambda item: (tables.place(item[0]), item[0])):
        try:
            frame = _merge(name, parts, swept)
        except InputError as error:
            problems.append(f"Table {name}: {error}")
            continue
        record, layout = write_table(frame, folder, tables.schema(name))
        record["reason"] = "" if len(frame) else "The source has no measurements for it."
        record["models"] = list(dict.fromkeys(frame["model"])) if "model" in frame else []
        record["notebooks"] = list(dict.fromkeys(n["id"] for n, _ in parts))
        written.append((record, layout))
    return written


def write_table(frame: pd.DataFrame, folder: Path, declared: tables.Schema) -> tuple[dict, TableLayout]:
    """Write a table into a run's folder and return its record and the layout that the index page shows.

    Tables are laid out here and not where notebooks save theirs: only here are the rows of several notebooks, and of a
    sweep's variants, one table.
    """
    path = tables.write(frame, folder / "tables" / f"{declared.name}.csv")
    columns_by_name = {column.name: column for column in declared.columns}
    columns = [columns_by_name.get(name, tables.Column(name, "")) for name in frame.columns]
    record = {
        "name": declared.name,
        "title": declared.title,
        "description": declared.description,
        "file": path.relative_to(folder).as_posix(),
        "rows": len(frame),
        "columns": [{"name": c.name, "unit": c.unit, "description": c.description} for c in columns],
        "notebooks": [],
    }
    return record, lay_out(frame, declared, max_rows=ROWS_SHOWN)


def _merge(name: str, parts: list[tuple[dict, Path]], swept: list[str]) -> pd.DataFrame:
    """Put the rows of one table together; rows that several notebooks wrote alike count once."""
    import pandas as pd

    frames = []
    for notebook, path in parts:
        frame = tables.read(path, name)
        for key in swept:
            if key in notebook["values"] and key not in frame.columns:
                frame[key] = notebook["values"][key]
        frames.append(frame)
    whole = pd.concat(frames, ignore_index=True).drop_duplicates(ignore_index=True)
    keys = tables.schema(name).keys + [k for k in swept if k in whole.columns]
    # A table of a reader's own has none.
    if keys and (twice := whole.duplicated(list(dict.fromkeys(keys)), keep=False)).any():
        row = whole.loc[twice, keys].iloc[0].to_dict()
        raise InputError(f"the notebooks do not agree. Different values for {row}.")
    return whole


def copy(source: Path, target: Path) -> None:
    """Copy a folder's files, where there is one, next to those that are there."""
    for path in sorted(source.glob("*")) if source.is_dir() else ():
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target / path.name)


# -- provenance ------------------------------------------------------------------------------------------


def provenance(params: RunParams) -> dict:
    """Return what a run's record says of its parameters, versions and machine before it starts."""
    found = {}
    for name in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return {
        "run": params.run,
        "title": params.title,
        "description": describe(params),
        "params_file": Path(params.file).name,
        "parameters": dict(params.values),
        "notebook_defaults": {n.id: dict(n.parameters) for n in params.selected},
        "sweep": params.sweep,
        "seeds": {"seed": params.default("seed")},
        # Asked for as the inputs were examined.
        "commits": huggingface.commits(),
        "biaslab": {"version": __version__, **git_state(Path(__file__).parents[1])},
        "packages": {"python": platform.python_version(), **found},
        "platform": {
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.release()}",
            "machine": platform.machine(),
            "cores": os.cpu_count(),
        },
        "started": result_cache.cache_now(),
    }


def describe(params: RunParams) -> str:
    """Return what is run and on what: the file's own words only for the source that they are about."""
    papers = ", ".join(dict.fromkeys(n.id.split("/")[0] for n in params.selected))
    done = f"Executed: {format_count(len(params.selected), 'notebook', 'notebooks')} of {papers}."
    source, annotations = params.default("source"), params.values.get("annotations", "")
    if source not in (None, *names()):
        return f"Measurements: the tables in {', '.join(source if isinstance(source, list) else [source])}. {done}"
    if source == "annotations":
        files = annotations if isinstance(annotations, list) else [annotations]
        done = f"Measurements: {', '.join(Path(file).name for file in files)}. {done}"
    return f"{params.description}\n\n{done}".strip()


def git_state(folder: Path) -> dict:
    """Return the commit that ``folder`` is at and whether files differ from it; ``None`` outside of git."""

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    # Installed below someone else's repository, the package has no commit of its own.
    commit = git("rev-parse", "HEAD") if git("ls-files", "--error-unmatch", "__init__.py") else None
    changes = git("status", "--porcelain") if commit else None
    return {"git_commit": commit, "git_dirty": bool(changes) if changes is not None else None}


def write_json(path: Path, record: dict) -> None:
    """Write a record to a temporary name first, and then rename it; half characters, as errors may quote, as "?"."""
    text = json.dumps(record, ensure_ascii=False, indent=1, default=str)
    result_cache.replace(path, f"{text}\n".encode(errors="replace"))
