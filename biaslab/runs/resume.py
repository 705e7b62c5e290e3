"""The results of an earlier start of a run: whether it is the same run, and which of its notebooks are up to date."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path

from biaslab import plugins
from biaslab.cache import code_digest
from biaslab.errors import ParameterError, RunError, UnknownNameError
from biaslab.io.reading import describe_changes
from biaslab.plots import texts
from biaslab.report import records
from biaslab.request import makes_images
from biaslab.runs.jobs import Job, input_name
from biaslab.runs.params import Notebook
from biaslab.schema import tables
from biaslab.study import Study, sources
from biaslab.study.study import PARTS

# Fields that the record of an earlier start of a run must have.
_NEEDS = {"parameters": (), "notebooks": ("id", "slug", "suffix", "variant", "values", "status", "reason")}
_TABLES = ("tables/", f"{sources.MEASURED}/")
# Packages that only the generation of images uses.
OF_MODELS = ("torch", "diffusers", "open_clip_torch", "sentence-transformers", "datasets")


def read_earlier(folder: Path, record: dict, overwrite: bool) -> tuple[list[dict], bool]:
    """Return the records of the notebooks in the run's folder, and whether it contains another run to replace."""
    if (folder / records.FILE).exists():
        fix = "Choose another name with --set run=NAME, or replace the run with --overwrite."
        try:
            earlier = records.read(folder, needs=_NEEDS, fix=fix)
            if difference := _difference(earlier, record):
                raise RunError(f"{folder} contains another run ({difference}). {fix}")
        except RunError:
            if not overwrite:
                raise
            return [], True
        record["judges"] = earlier.get("judges", {}) | record["judges"]
        record["notebook_defaults"] = earlier.get("notebook_defaults", {}) | record["notebook_defaults"]
        return earlier["notebooks"], False
    if folder.exists() and any(folder.iterdir()):
        raise RunError(
            f"{folder} is not empty and contains no run.json, so it is not a run of biaslab. "
            "Choose another name with --set run=NAME, or move the folder away."
        )
    return [], False


def fingerprint(
    job: Job, record: Mapping, judges: Mapping[str, str] | None = None, guests: Collection[str] = ()
) -> str:
    """Return a digest of all that a job's results depend on.

    ``record`` is the run's, ``judges`` are the job's, and ``guests`` is the result of :func:`plugin_digests`.
    """
    problem = job.notebook.problem
    text = problem or hashlib.sha256(job.notebook.path.read_bytes()).hexdigest()
    source = job.request and job.request.source
    images = source is None or makes_images(source)
    packages = {k: v for k, v in record["packages"].items() if images or k not in OF_MODELS}
    inputs = [record["inputs"].get(input_name(job), ""), judges]
    code = [notebook_code(job.notebook), [] if source == "published" else guests, declarations_digest()]
    content = [job.slug, text, job.parameters_given, inputs, *code, packages]
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def notebook_code(notebook: Notebook) -> dict[str, str]:
    """Return :func:`biaslab.cache.code_digest.function_digests` of the code behind a notebook's results and page.

    A notebook names tables, and the source decides whether they are measured or printed. The digests cover the code of
    both for each paper whose tables the notebook takes.
    """
    from biaslab import report

    schemas = tables.schemas()
    # The generation settings are a table, too.
    used_tables = notebook.used_tables | {"pipeline_settings"}
    papers = {schemas[name].paper if name in schemas else "" for name in used_tables}
    if not papers.issubset(tables.measuring_papers()):
        papers = set(tables.measuring_papers())
    modules = [module for module in sources.modules() if module.split(".")[2] in papers]
    return code_digest.function_digests(
        Study, report.render_notebook, *modules, *sorted(code_digest.imported_modules(notebook.cells))
    )


def plugin_digests(images: bool) -> list[str]:
    """Return the state of installed plug-in packages: digests of code if images are generated, else versions.

    Even without generated images, tables may name the models of packages, and reports describe these.
    """
    points = [point for group in plugins.GROUPS for point in plugins.entry_points(group).values()]
    if not images:
        return sorted({f"{point.dist.name} {point.dist.version}" for point in points if point.dist})
    digests = set()
    for point in points:
        # A broken package is reported when it is used.
        with contextlib.suppress(ParameterError):
            digests.add(code_digest.entry_digest(point))
    return sorted(digests)


def declarations_digest() -> str:
    """Return a digest of the declarations in data files: tables, titles and captions."""
    files = (*tables.files(), *texts.files())
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def select_jobs(
    folder: Path, earlier: list[dict], jobs: list[Job], force: bool
) -> tuple[list[dict], list[Job], list[str]]:
    """Return the records of up-to-date notebooks, the remaining jobs, and sentences on files that have changed."""
    selected = {job.notebook.id for job in jobs}
    other_records = [n for n in earlier if n["id"] not in selected]
    lost_tables = {n["slug"]: _undeclared_table(folder, n["slug"]) for n in other_records}
    kept_records = [n for n in other_records if not lost_tables[n["slug"]]]
    by_slug = {n["slug"]: n for n in earlier if not force}
    remaining_jobs, changes = [], _find_altered_tables(folder, earlier)
    notes = [
        f"{slug} is omitted, because its table {name} is from another version."
        for slug, name in lost_tables.items()
        if name
    ]
    for name, change in changes.items():
        # A changed table must not become a measurement of this run.
        (folder / name).unlink(missing_ok=True)
        if slugs := [n["slug"] for n in kept_records if name in n.get("measured", {})]:
            notes.append(f"{change}, so it is omitted until {', '.join(slugs)} is executed again.")
    for job in jobs:
        record = by_slug.get(job.slug, {})
        is_finished = record.get("status") in ("ok", "skipped") and record.get("fingerprint") == job.fingerprint
        if not is_finished or (record["reason"] != job.reason if job.reason else "files" not in record):
            remaining_jobs.append(job)
        elif change := ", ".join(
            filter(
                None, (describe_changes(folder, record.get("files", {})), *map(changes.get, record.get("measured", ())))
            )
        ):
            remaining_jobs.append(job)
            notes.append(f"{job.slug} is executed again, because {change} since it finished.")
        else:
            kept_records.append({**record, "kept": True})
    return kept_records, remaining_jobs, notes


def _undeclared_table(folder: Path, slug: str) -> str:
    """Return a table that a notebook saved and no paper declares any more, after an update; empty if there is none."""
    path = folder / PARTS / slug / "records.json"
    saved_tables = json.loads(path.read_text(encoding="utf-8"))["tables"] if path.exists() else []
    for table in saved_tables:
        try:
            tables.schema(table["name"])
        except UnknownNameError:
            return table["name"]
    return ""


def _find_altered_tables(folder: Path, earlier: list[dict]) -> dict[str, str]:
    """Return descriptions of changes by name, for measured tables that differ from what every notebook saved."""
    digests: dict[str, set[str]] = {}
    for name, digest in (item for notebook in earlier for item in notebook.get("measured", {}).items()):
        digests.setdefault(name, set()).add(digest)
    changes_by_name = {
        name: [describe_changes(folder, {name: digest}) for digest in values] for name, values in digests.items()
    }
    return {name: changes[0] for name, changes in changes_by_name.items() if all(changes)}


def unchanged_record(folder: Path, record: Mapping, kept_records: list[dict], messages: list[str]) -> dict | None:
    """Return the earlier record of an unchanged run, else None; add sentences on changed files to ``messages``."""
    earlier = records.read(folder)
    keys = ("title", "description", "params_file", "inputs", "sweep", "code")
    if earlier["status"] != "ok" or any(earlier.get(k) != record[k] for k in keys):
        return None
    if len(earlier["notebooks"]) != len(kept_records) or "files" not in earlier:
        return None
    if change := describe_changes(folder, earlier["files"]):
        messages.append(f"Tables, figures and pages are created again, because {change} since the run ended.")
        return None
    return {**earlier, "up_to_date": True}


def check_tables(folder: Path, record: Mapping) -> None:
    """Raise RunError if a table of a run, results or measurements, has changed or is missing since the run ended."""
    digests = {name: digest for name, digest in record.get("files", {}).items() if name.startswith(_TABLES)}
    if change := describe_changes(folder, digests):
        fix = "Start the run again to recreate them from the results of its notebooks."
        raise RunError(f"In {folder}, {change} since the run ended. {fix}")


def _difference(earlier: Mapping, record: Mapping) -> str:
    """Return a description of the parameters, inputs or judges in which two runs differ; empty if there are none."""
    old, new = earlier["parameters"], record["parameters"]
    keys = [k for k in {**old, **new} if old.get(k) != new.get(k)]
    messages = [f"{k}: {old.get(k, 'not set')!r} there, {new.get(k, 'not set')!r} here" for k in keys]
    old, new = earlier.get("inputs", {}), record["inputs"]
    if not messages and old != new:
        messages = [f"{path} has changed or is another file" for path in new if old.get(path) != new[path]]
    # Other notebooks may have used other judges.
    old, new = earlier.get("judges", {}), record["judges"]
    if not messages:
        messages = [f"{name} has changed" for name in new if old.get(name, new[name]) != new[name]]
    return ", ".join(messages)
