"""What an earlier start of a run left: whether it is the same run, and which of its notebooks stay as they are."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path

from biaslab import plugins
from biaslab.cache import code_digest
from biaslab.errors import ParameterError, RunError, UnknownNameError
from biaslab.io.reading import altered
from biaslab.plots import texts
from biaslab.report import records
from biaslab.request import makes_images
from biaslab.runs.jobs import Job, input_of
from biaslab.runs.params import Notebook
from biaslab.schema import tables
from biaslab.study import Study, sources
from biaslab.study.study import PARTS

# What the record of an earlier start of a run must have.
_NEEDS = {"parameters": (), "notebooks": ("id", "slug", "suffix", "variant", "values", "status", "reason")}
_TABLES = ("tables/", f"{sources.MEASURED}/")
# Packages that only what generates images uses.
OF_MODELS = ("torch", "diffusers", "open_clip_torch", "sentence-transformers", "datasets")


def read(folder: Path, record: dict, overwrite: bool) -> tuple[list[dict], bool]:
    """Return the records of what is in the run's folder of the same run, and whether it holds another, to replace."""
    if (folder / records.FILE).exists():
        fix = "Choose another name with --set run=NAME, or replace it with --overwrite."
        try:
            earlier = records.read(folder, needs=_NEEDS, fix=fix)
            if changed := _difference(earlier, record):
                raise RunError(f"{folder} holds another run ({changed}). {fix}")
        except RunError:
            if not overwrite:
                raise
            return [], True
        record["judges"] = earlier.get("judges", {}) | record["judges"]
        record["notebook_defaults"] = earlier.get("notebook_defaults", {}) | record["notebook_defaults"]
        return earlier["notebooks"], False
    if folder.exists() and any(folder.iterdir()):
        raise RunError(
            f"{folder} exists, is not empty and holds no run.json, so it is not a run of biaslab. "
            "Choose another name with --set run=NAME, or move the folder away."
        )
    return [], False


def fingerprint(
    job: Job, record: Mapping, judges: Mapping[str, str] | None = None, guests: Collection[str] = ()
) -> str:
    """Return a digest of all that a job's results depend on.

    ``record`` is the run's, ``judges`` are the job's, ``guests`` are what :func:`plugin_digests` returns.
    """
    problem = job.notebook.problem
    text = problem or hashlib.sha256(job.notebook.path.read_bytes()).hexdigest()
    source = job.request and job.request.source
    images = source is None or makes_images(source)
    packages = {k: v for k, v in record["packages"].items() if images or k not in OF_MODELS}
    inputs = [record["inputs"].get(input_of(job), ""), judges]
    code = [notebook_code(job.notebook), [] if source == "published" else guests, declared()]
    whole = [job.slug, text, job.parameters_given, inputs, *code, packages]
    return hashlib.sha256(json.dumps(whole, sort_keys=True, default=str).encode()).hexdigest()


def notebook_code(notebook: Notebook) -> dict[str, str]:
    """Return the digests of :func:`biaslab.cache.code_digest.function_digests` for the code behind a notebook's
    results
    and page.

    A notebook names tables, and the source says whether they are measured or printed: of the papers whose tables it
    takes, the code of both counts.
    """
    from biaslab import report

    declared = tables.schemas()
    # How images were made is a table, too.
    takes = notebook.used_tables | {"pipeline_settings"}
    papers = {declared[name].paper if name in declared else "" for name in takes}
    if not papers.issubset(tables.measuring_papers()):
        papers = set(tables.measuring_papers())
    taken = [module for module in sources.modules() if module.split(".")[2] in papers]
    return code_digest.function_digests(
        Study, report.render_notebook, *taken, *sorted(code_digest.imported_digest(notebook.cells))
    )


def plugin_digests(images: bool) -> list[str]:
    """Return the state of installed plug-in packages: digests of code where images are generated, else versions.

    Tables may be of what they bring, of which they say a sentence or two.
    """
    points = [point for group in plugins.GROUPS for point in plugins.entry_points(group).values()]
    if not images:
        return sorted({f"{point.dist.name} {point.dist.version}" for point in points if point.dist})
    found = set()
    for point in points:
        # What is broken says so where it is used.
        with contextlib.suppress(ParameterError):
            found.add(code_digest.entry_digest(point))
    return sorted(found)


def declared() -> str:
    """Return a digest of what is declared as data: tables, titles and captions."""
    files = (*tables.files(), *texts.files())
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def select_jobs(
    folder: Path, earlier: list[dict], jobs: list[Job], force: bool
) -> tuple[list[dict], list[Job], list[str]]:
    """Return the records of earlier notebooks that stay, the jobs that are left to do, and what was changed on disk."""
    selected = {job.notebook.id for job in jobs}
    others = [n for n in earlier if n["id"] not in selected]
    unknown = {n["slug"]: _undeclared_table(folder, n["slug"]) for n in others}
    stay = [n for n in others if not unknown[n["slug"]]]
    by_slug = {n["slug"]: n for n in earlier if not force}
    left, spoilt = [], _spoilt(folder, earlier)
    said = [f"{slug} is left out: its table {name} is of another version." for slug, name in unknown.items() if name]
    for name, changed in spoilt.items():
        # It must not become what the run measured, whatever is executed now.
        (folder / name).unlink(missing_ok=True)
        if behind := [n["slug"] for n in stay if name in n.get("measured", {})]:
            said.append(f"{changed}, so it is left out until {', '.join(behind)} is executed again.")
    for job in jobs:
        before = by_slug.get(job.slug, {})
        finished = before.get("status") in ("ok", "skipped") and before.get("fingerprint") == job.fingerprint
        if not finished or (before["reason"] != job.reason if job.reason else "files" not in before):
            left.append(job)
        elif changed := ", ".join(
            filter(None, (altered(folder, before.get("files", {})), *map(spoilt.get, before.get("measured", ()))))
        ):
            left.append(job)
            said.append(f"{job.slug} is executed again, because {changed} since it finished.")
        else:
            stay.append({**before, "kept": True})
    return stay, left, said


def _undeclared_table(folder: Path, slug: str) -> str:
    """Return a table that a notebook saved and no paper declares any more, as after an update; empty without one."""
    path = folder / PARTS / slug / "records.json"
    saved = json.loads(path.read_text(encoding="utf-8"))["tables"] if path.exists() else []
    for table in saved:
        try:
            tables.schema(table["name"])
        except UnknownNameError:
            return table["name"]
    return ""


def _spoilt(folder: Path, earlier: list[dict]) -> dict[str, str]:
    """Say by its name of each measured table in the parts what happened to it, where no notebook left it as it is."""
    told: dict[str, set[str]] = {}
    for name, digest in (item for notebook in earlier for item in notebook.get("measured", {}).items()):
        told.setdefault(name, set()).add(digest)
    changed = {name: [altered(folder, {name: digest}) for digest in left] for name, left in told.items()}
    return {name: said[0] for name, said in changed.items() if all(said)}


def unchanged_record(folder: Path, record: Mapping, kept: list[dict], said: list[str]) -> dict | None:
    """Return the earlier record of a run of which all is as it was, else None; ``said`` hears of files that are not."""
    earlier = records.read(folder)
    same = ("title", "description", "params_file", "inputs", "sweep", "code")
    if earlier["status"] != "ok" or any(earlier.get(k) != record[k] for k in same):
        return None
    if len(earlier["notebooks"]) != len(kept) or "files" not in earlier:
        return None
    if changed := altered(folder, earlier["files"]):
        said.append(f"Tables, figures and pages are created again, because {changed} since the run ended.")
        return None
    return {**earlier, "up_to_date": True}


def check_tables(folder: Path, record: Mapping) -> None:
    """Check that a run's tables, measured ones too, are those that it left; a RunError where one is changed or gone."""
    told = {name: digest for name, digest in record.get("files", {}).items() if name.startswith(_TABLES)}
    if changed := altered(folder, told):
        fix = "Start the run again: it creates them again from the results of its notebooks."
        raise RunError(f"In {folder}, {changed} since the run ended. {fix}")


def _difference(earlier: Mapping, record: Mapping) -> str:
    """Return in which parameters and inputs two runs differ; empty if in none."""
    old, new = earlier["parameters"], record["parameters"]
    changed = [k for k in {**old, **new} if old.get(k) != new.get(k)]
    said = [f"{k}: {old.get(k, 'not set')!r} there, {new.get(k, 'not set')!r} here" for k in changed]
    before, now = earlier.get("inputs", {}), record["inputs"]
    if not said and before != now:
        said = [f"{path} has changed or is another" for path in now if before.get(path) != now[path]]
    # Other notebooks may have taken others.
    before, now = earlier.get("judges", {}), record["judges"]
    if not said:
        said = [f"{name} has changed" for name in now if before.get(name, now[name]) != now[name]]
    return ", ".join(said)
