"""The results of a run's notebooks, collected: tables, figures, findings, the record and the index page."""

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

# The folder of a run with one page per model, and the image strips of its index page.
IMAGE_PAGES = "pictures"
STRIPS = f"{IMAGE_PAGES}/strips.json"
# The files that list the prompts and the images.
PROMPTS, IMAGES = "prompts.csv", "images.csv"
# Folders of a run that are created again from its parts.
_GATHERED = ("tables", "figures", sources.MEASURED)
_PACKAGES = (
    *("numpy", "pandas", "scipy", "statsmodels", "seaborn", "matplotlib"),
    *("papermill", "nbconvert", "ipykernel", "jupyterlab"),
    *OF_MODELS,
)


def gather(
    folder: Path, record: dict, notebooks: list[dict], public: Callable[[Any], Any], models: list[dict] | None = None
) -> dict:
    """Collect the notebooks' tables, figures and findings, and write ``run.json`` and the index page.

    ``models`` are the models with images, as :func:`biaslab.runs.generated_images.write` returns them.
    """
    from biaslab import report

    sweep_keys = list(record["sweep"])
    notebooks = sorted(notebooks, key=lambda n: (tables.place(n["id"]), n["id"], n["variant"]))
    for name in _GATHERED:
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir(parents=True)
    problems: list[str] = []
    source = record["parameters"].get("source", "published")
    source_parameters = {"source", "annotations"} | ({"model", "seed", "settings"} if makes_images(source) else set())
    if not source_parameters.intersection(sweep_keys):
        # Variants that read different sources do not share one set of inputs.
        copy(folder / PARTS / sources.MEASURED, folder / sources.MEASURED)
    figures = _gather_figures(folder, notebooks)
    entries = _gather_tables(folder, notebooks, sweep_keys, problems)
    table_records = [entry for entry, _ in entries]
    # Notebooks record their printed models; to find them here would take libraries that this process does not import.
    printed: dict[str, list[str]] = {}
    for notebook in notebooks:
        for name, table_models in notes(folder, notebook)["printed"].items():
            # Variants with other sources have other models in the same table.
            printed[name] = [m for m in table_models if m in printed.get(name, table_models)]
    statuses = {n["status"] for n in notebooks}
    end_status = "stopped" if "stopped" in statuses else "ok"
    is_published = source == "published" and not record["inputs"]
    findings, verdicts = gather_findings(folder, notebooks)
    record |= {
        "status": "failed" if "failed" in statuses or problems else end_status,
        "problems": problems,
        "notebooks": notebooks,
        "findings": findings,
        "verdicts": verdicts,
        "figures": figures,
        "tables": table_records,
        "limits": caveats.limits_of_run(folder / PARTS / sources.MEASURED, table_records, source, printed),
        "pictures": {"strips": STRIPS, "models": models} if models else {},
        "coverage": replication_status.of_run(notebooks, table_records, figures) if is_published else [],
    }
    record = public(record)
    write_json(folder / records.FILE, record)
    page = report.build(folder, {entry["name"]: layout for entry, layout in entries})
    # Digests come last: a record without them identifies a run whose report is incomplete.
    result_files = [path for name in (*_GATHERED, IMAGE_PAGES) for path in (folder / name).rglob("*") if path.is_file()]
    lists = [path for path in (folder / PROMPTS, folder / IMAGES) if path.is_file()]
    record["files"] = digests(folder, [page, *result_files, *lists])
    write_json(folder / records.FILE, record)
    return record


def notes(folder: Path, notebook: dict) -> dict[str, list]:
    """Return a notebook's records of its figures, tables, findings and printed models."""
    path = folder / PARTS / notebook["slug"] / "records.json"
    if not path.exists():
        return {"figures": [], "tables": [], "findings": [], "printed": {}}
    return json.loads(path.read_text(encoding="utf-8"))


def gather_findings(folder: Path, notebooks: list[dict]) -> tuple[list[dict], dict]:
    """Return the notebooks' findings in order, adjusted over the report, and the counts of the adjustment."""
    findings = [
        {**note, "notebook": notebook["id"], "variant": notebook["variant"]}
        for notebook in notebooks
        for note in notes(folder, notebook)["findings"]
    ]
    return adjust_across_report([{**note, "order": i} for i, note in enumerate(findings)])


def _gather_figures(folder: Path, notebooks: list[dict]) -> list[dict]:
    figures = []
    for notebook in notebooks:
        for note in notes(folder, notebook)["figures"]:
            files = {}
            note["svg_first"] = note["kinds"][0] == "svg"
            for kind in note.pop("kinds"):
                target = folder / "figures" / f"{note['name']}{notebook['suffix']}.{kind}"
                shutil.copy2(folder / PARTS / notebook["slug"] / "figures" / f"{note['name']}.{kind}", target)
                files[kind] = target.relative_to(folder).as_posix()
            order = {"order": len(figures), "notebook": notebook["id"], "variant": notebook["variant"]}
            figures.append({**note, **files, **order})
    return figures


def _gather_tables(
    folder: Path, notebooks: list[dict], sweep_keys: list[str], problems: list[str]
) -> list[tuple[dict, TableLayout]]:
    parts_by_name: dict[str, list[tuple[dict, Path]]] = {}
    for notebook in notebooks:
        for note in notes(folder, notebook)["tables"]:
            path = folder / PARTS / notebook["slug"] / "tables" / f"{note['name']}.csv"
            parts_by_name.setdefault(note["name"], []).append((notebook, path))
    entries = []
    for name, parts in sorted(parts_by_name.items(), key=lambda item: (tables.place(item[0]), item[0])):
        try:
            frame = _merge(name, parts, sweep_keys)
        except InputError as error:
            problems.append(f"Table {name}: {error}")
            continue
        record, layout = write_table(frame, folder, tables.schema(name))
        record["reason"] = "" if len(frame) else "The source has no measurements for it."
        record["models"] = list(dict.fromkeys(frame["model"])) if "model" in frame else []
        record["notebooks"] = list(dict.fromkeys(n["id"] for n, _ in parts))
        entries.append((record, layout))
    return entries


def write_table(frame: pd.DataFrame, folder: Path, schema: tables.Schema) -> tuple[dict, TableLayout]:
    """Write a table into a run's folder and return its record and the layout that the index page shows.

    Tables are laid out here and not in the notebooks, because only here one table has the rows of several notebooks
    and of all variants of a sweep.
    """
    path = tables.write(frame, folder / "tables" / f"{schema.name}.csv")
    columns_by_name = {column.name: column for column in schema.columns}
    columns = [columns_by_name.get(name, tables.Column(name, "")) for name in frame.columns]
    record = {
        "name": schema.name,
        "title": schema.title,
        "description": schema.description,
        "file": path.relative_to(folder).as_posix(),
        "rows": len(frame),
        "columns": [{"name": c.name, "unit": c.unit, "description": c.description} for c in columns],
        "notebooks": [],
    }
    return record, lay_out(frame, schema, max_rows=ROWS_SHOWN)


def _merge(name: str, parts: list[tuple[dict, Path]], sweep_keys: list[str]) -> pd.DataFrame:
    """Return the rows of one table from several notebooks; identical rows count once."""
    import pandas as pd

    frames = []
    for notebook, path in parts:
        frame = tables.read(path, name)
        for key in sweep_keys:
            if key in notebook["values"] and key not in frame.columns:
                frame[key] = notebook["values"][key]
        frames.append(frame)
    rows = pd.concat(frames, ignore_index=True).drop_duplicates(ignore_index=True)
    keys = tables.schema(name).keys + [k for k in sweep_keys if k in rows.columns]
    # A user's own table has no keys.
    if keys and (is_duplicate := rows.duplicated(list(dict.fromkeys(keys)), keep=False)).any():
        row = rows.loc[is_duplicate, keys].iloc[0].to_dict()
        raise InputError(f"notebooks differ in their values for {row}.")
    return rows


def copy(source: Path, target: Path) -> None:
    """Copy the files of a folder, if it exists, to ``target``, and leave the other files there."""
    for path in sorted(source.glob("*")) if source.is_dir() else ():
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target / path.name)


# -- provenance ------------------------------------------------------------------------------------------


def provenance(params: RunParams) -> dict:
    """Return the part of a run's record that describes its parameters, versions and machine."""
    versions = {}
    for name in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return {
        "run": params.run,
        "title": params.title,
        "description": describe(params),
        "params_file": Path(params.file).name,
        "parameters": dict(params.values),
        "notebook_defaults": {n.id: dict(n.parameters) for n in params.selected},
        "sweep": params.sweep,
        "seeds": {"seed": params.default("seed")},
        # The commits of models that the check of inputs looked up.
        "commits": huggingface.commits(),
        "biaslab": {"version": __version__, **git_state(Path(__file__).parents[1])},
        "packages": {"python": platform.python_version(), **versions},
        "platform": {
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.release()}",
            "machine": platform.machine(),
            "cores": os.cpu_count(),
        },
        "started": result_cache.cache_now(),
    }


def describe(params: RunParams) -> str:
    """Return a description of a run and its source: the file's own text only for the source that it describes."""
    papers = ", ".join(dict.fromkeys(n.id.split("/")[0] for n in params.selected))
    summary = f"Executed: {format_count(len(params.selected), 'notebook', 'notebooks')} in the folders {papers}."
    source, annotations = params.default("source"), params.values.get("annotations", "")
    if source not in (None, *names()):
        return f"Measurements: the tables in {', '.join(source if isinstance(source, list) else [source])}. {summary}"
    if source == "annotations":
        files = annotations if isinstance(annotations, list) else [annotations]
        summary = f"Measurements: {', '.join(Path(file).name for file in files)}. {summary}"
    return f"{params.description}\n\n{summary}".strip()


def git_state(folder: Path) -> dict:
    """Return the commit of ``folder`` and whether files differ from it; ``None`` outside of git."""

    def git(*words: str) -> str | None:
        try:
            process = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return process.stdout.strip() if process.returncode == 0 else None

    # Installed below someone else's repository, the package has no commit of its own.
    commit = git("rev-parse", "HEAD") if git("ls-files", "--error-unmatch", "__init__.py") else None
    changes = git("status", "--porcelain") if commit else None
    return {"git_commit": commit, "git_dirty": bool(changes) if changes is not None else None}


def write_json(path: Path, record: dict) -> None:
    """Write a record to a temporary file, and rename it; lone surrogates, as in quoted errors, are written as "?"."""
    text = json.dumps(record, ensure_ascii=False, indent=1, default=str)
    result_cache.replace(path, f"{text}\n".encode(errors="replace"))
