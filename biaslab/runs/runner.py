"""Run notebooks headless: each in a process of its own, several side by side, into one folder with a report.

Nothing here knows what a notebook computes: it writes its tables, figures and findings below the ``output_dir`` that it
is given, and :func:`run` gathers them.
"""

from __future__ import annotations

import ast
import contextlib
import errno
import hashlib
import importlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from biaslab import __version__
from biaslab.ground import places, plugins, processor, shared, tables
from biaslab.ground.errors import InputError, ParameterError, RunError, loading, name_help, unknown_name
from biaslab.ground.values import check_draws, dotted
from biaslab.ground.wording import count
from biaslab.keep import closure, store
from biaslab.keep.engine import THREADS, threads, threads_given
from biaslab.models import registry
from biaslab.papers.findings import held_together
from biaslab.plots import texts
from biaslab.report import records
from biaslab.runs import coverage, kernels, limits
from biaslab.runs.params import Notebook, RunParams, as_yaml, paper_order
from biaslab.study import Study, sources
from biaslab.study.study import ATTEMPT, PARTS, PROGRESS

if TYPE_CHECKING:
    import pandas as pd

    from biaslab.pipeline import Pipeline

# A kernel that has ports can find one of them taken: it dies, or says nothing, before its first cell, so that it can be
# started again.
STARTS = 3
_START_SECONDS = 120
_NEVER_STARTED = re.compile("Kernel died before replying|Kernel didn't respond in")
# The file of a run's folder with its parameters, which gives it again.
PARAMS = "params.yaml"
# Where, among the parts, each start of a run has a folder of its own: what an earlier one left alive writes there, and
# finds it gone.
_ATTEMPTS = ".attempts"
# The file of a part with the id of the process that executes its notebook.
_KERNEL = "kernel.pid"
# The file of a part with what its processes say on standard error.
_LOG = "kernel.log"
# Read once for all notebooks of a run and their pages.
_MODULES = """biaslab.report papermill nbconvert.exporters.html psutil ipykernel.kernelapp ipykernel.zmqshell
    tornado.platform.asyncio IPython.core.debugger IPython.extensions.storemagic filelock pyarrow.dataset
    pyarrow.parquet pandas.io.formats.csvs pandas.io.formats.html scipy.stats seaborn
    matplotlib.backends.backend_agg matplotlib.backends.backend_svg PIL.JpegImagePlugin"""
REHEARSED = "BIASLAB_REHEARSED"
"""Environment variable of processes whose run was rehearsed, so that they do not do it again."""
# Read once as well where many notebooks compute images or vectors: each would take ten seconds of a processor for it.
MODEL_MODULES = ("sentence_transformers", "diffusers.pipelines.auto_pipeline", "open_clip")
# Seconds that notebooks have for ending by themselves when the user stops the run.
_GRACE = 1.5
_KEPT = (
    "Finished notebooks and stages are kept: {fix}, and the same command goes on where it stopped; or start "
    "the run elsewhere with --outputs DIR."
)
# Characters of an error's text in the record.
_LONGEST_REASON = 2000
# Bytes of a file's name, without ending: systems allow 255 with it.
_LONGEST_NAME = 240
# What the record of an earlier start of a run must have.
_OF_EARLIER = {
    "parameters": (),
    "notebooks": ("id", "slug", "suffix", "variant", "values", "status", "reason"),
}
# Folders of a run that are made anew from its parts.
_GATHERED = ("tables", "figures", sources.MEASURED)
_OF_MODELS = "torch diffusers open_clip_torch sentence-transformers datasets"
_PACKAGES = f"""numpy pandas scipy statsmodels krippendorff seaborn matplotlib papermill nbconvert ipykernel jupyterlab
    {_OF_MODELS}"""


@dataclass(frozen=True)
class Job:
    """One execution of one notebook."""

    notebook: Notebook
    variant: Mapping[str, Any]  # Values of the swept parameters, mappings as texts; empty without a sweep.
    suffix: str  # What tells this variant's files from others', for example ``--model-sd-1.4``.
    folder: Path  # The run's folder.
    parameters: Mapping[str, Any]  # What papermill injects.
    reason: str = ""  # Why the notebook is not executed; empty if it is.
    fails: bool = False  # Whether that is a failure; else the notebook does not apply here and is skipped.
    without: sources.LeftOut | None = None  # What it does without where images are made, for want of judges.
    fingerprint: str = ""  # Digest of all that the results depend on.
    attempt: Path = Path()  # The folder of this start of the run, which the notebook writes to.
    folders: tuple[str, ...] = ()  # Folders of this machine that the executed notebook does not name.
    started: str = ""  # When the run began, UTC.

    @property
    def takes(self) -> frozenset[str]:
        """The measured tables that it takes, without those that it has to do without."""
        return self.notebook.takes.difference(self.without.tables if self.without else ())

    @property
    def slug(self) -> str:
        """The notebook id and the variant's suffix: a relative path without ending."""
        return _slug(self.notebook, self.suffix)

    @property
    def label(self) -> str:
        """The variant in words."""
        return ", ".join(f"{key}={value}" for key, value in self.variant.items())

    @property
    def given(self) -> dict[str, Any]:
        """The parameters without the folder that the run chose."""
        return {k: v for k, v in self.parameters.items() if k != "output_dir"}

    def pages(self, folder: Path) -> list[Path]:
        """Return where the executed notebook and its page are below a folder."""
        return [folder / "notebooks" / f"{self.slug}.{kind}" for kind in ("ipynb", "html")]


def run(
    params: RunParams,
    *,
    outputs: str | Path = "outputs",
    overwrite: bool = False,
    again: bool = False,
    rehearse: Callable[[RunParams], object] | None = None,
    progress=True,
) -> dict:
    """Execute the selected notebooks and build the report.

    A notebook of the same run that finished earlier, and of which nothing has changed since (notebook, parameters,
    inputs, code, packages, and the files that it left), keeps its results; its record says so and has its own
    ``ended``. Where that holds for all, nothing is written.

    Args:
        params: Checked parameters.
        outputs: The folder that holds runs.
        overwrite: Whether a folder that holds another run may be replaced.
        again: Whether to execute also what has not changed.
        rehearse: Tries what the run uses before images are made (:func:`biaslab.runs.rehearsal.rehearse`), where
        something
            is left to do; None where that was done.
        progress: Whether to show a progress bar on standard error.

    Returns:
        What ``run.json`` holds, and ``up_to_date`` where nothing was written; ``status`` is ``ok`` if every notebook
        finished.

    Raises:
        ParameterError, InputError: A parameter or an input cannot be used; nothing was started.
        RunError: The folder holds another run, another process is writing to it, or the disk is full.
        KeyboardInterrupt: The user stopped it; what had finished is in the report.
    """
    folder = Path(outputs).resolve() / params.run
    if folder.exists() and not folder.is_dir():
        raise RunError(f"{folder} is a file; choose another name with --set run=NAME.")
    from biaslab import report

    report.check_overview(folder.parent)
    jobs = plan(params, folder)
    inputs, judges = _inputs(jobs, folder), _judges(jobs)
    with store.explaining(folder, _KEPT), _only_one(folder):
        began = time.monotonic()
        each = {name: digest for of in judges.values() for name, digest in of.items()}
        record = _provenance(params) | {"inputs": inputs, "judges": each, "problems": []}
        record["code"] = closure.digest(gather) + _declared()
        record["left_out"] = left_out(jobs)
        private = _folders(params, jobs, folder)
        jobs = [
            replace(job, fingerprint=_fingerprint(job, record, judges.get(job.slug)), folders=private)
            for job in jobs
        ]
        # What is shared names no folder of this machine, and holds none of its keys.
        public = shared.without(private, params.values)
        record = public(record)
        earlier, replaces = _earlier(folder, record, overwrite, public)
        kept, jobs, changed = _keep(folder, earlier, jobs, again)
        if not (jobs or replaces) and (same := _unchanged(folder, record, kept, changed)):
            return same
        makes = (job for job in jobs if not job.reason and sources.makes_images(job.parameters.get("source")))
        if any(makes):
            # Said here, and not by each notebook.
            for one in _stores(params.values):
                with store.explaining(one.root):
                    one.root.mkdir(parents=True, exist_ok=True)
            if rehearse and not os.environ.get(REHEARSED):
                rehearse(params)
        # What an earlier run has found stays until this one can begin.
        if replaces:
            shutil.rmtree(folder)
        folder.mkdir(parents=True, exist_ok=True)
        # The folders of earlier starts end, and whoever still writes there fails.
        attempts = folder / PARTS / _ATTEMPTS
        shutil.rmtree(attempts, ignore_errors=True)
        attempt = attempts / uuid.uuid4().hex[:12]
        attempt.mkdir(parents=True)
        jobs = [replace(job, attempt=attempt, started=record["started"]) for job in jobs]
        planned = len(kept) + len(jobs)

        def note(done: list[dict], status: str = "running") -> None:
            """Say how far the run is, with what it has found so far, in its record and on the page over all runs."""
            notebooks = [*kept, *public(done)]
            found = {"findings": public(_gather_findings(folder, notebooks)[0]), "planned": planned}
            write_json(folder / records.FILE, {**record, "status": status, "notebooks": notebooks, **found})
            report.overview(folder.parent)

        note([])
        told = as_yaml(params.changed(values=public(dict(params.values))))
        store.replace(folder / PARAMS, told.encode())
        done, stopped = _execute(jobs, _at_a_time(params), progress, note)
        shutil.rmtree(attempts, ignore_errors=True)
        if stopped:
            # A second Ctrl-C may cut the report off.
            note(done, "stopped")
        record |= {"ended": now(record["started"]), "seconds": round(time.monotonic() - began, 1)}
        record["notes"] = [*changed, *_store_notes(params.values, record["started"])]
        record = gather(folder, record, [*kept, *done], public)
        report.overview(folder.parent)
    if stopped:
        raise KeyboardInterrupt
    return record


def plan(params: RunParams, folder: Path) -> list[Job]:
    """Return the executions that ``params`` asks for; raise what can be known to be wrong without running them."""
    jobs = []
    variants = params.variants()
    suffixes = _suffixes([words for _, words in variants])
    for (variant, words), suffix in zip(variants, suffixes, strict=True):
        values = _resolve_paths({"source": params.default("source"), **params.values, **variant})
        _check_inputs(values)
        planned = []
        for notebook in params.selected:
            if notebook.problem:
                # Once, whatever is swept. One that is just begun was asked for by a pattern, as others were.
                once = Job(notebook, {}, "", folder, {}, notebook.problem, fails=notebook.is_tagged)
                planned += [] if jobs else [once]
                continue
            given = {k: v for k, v in values.items() if k in notebook.parameters}
            reason, without = _not_applicable(notebook, given), None
            if not reason and sources.makes_images(values["source"]):
                how = _some(given, "source", "model", "settings")
                without = sources.left_out(notebook.takes, notebook.needs, **how)
                reason = without.reason if without.on_purpose else ""
                if reason and notebook.id in params.notebooks:
                    raise ParameterError(f"The notebook {notebook.id} was asked for and cannot run. {reason}")
            if "output_dir" in notebook.parameters:
                given["output_dir"] = str(folder / PARTS / _slug(notebook, suffix))
            planned.append(Job(notebook, words, suffix, folder, given, reason, without=without))
        doing = [job for job in planned if not job.reason]
        if not doing:
            raise ParameterError(planned[0].reason)
        if sources.makes_images(values["source"]):
            names, needed = (
                set().union(*(job.takes for job in doing)),
                set().union(*(job.notebook.needs for job in doing)),
            )
            sources.check_work(names, needed=needed, **_some(values, "source", "model", "settings", "seed"))
        jobs += planned
    return jobs


def _slug(notebook: Notebook, suffix: str) -> str:
    """Return a notebook's id and a variant's suffix; a digest ends what would be too long for the name of a file."""
    *folders, name = f"{notebook.id}{suffix}".split("/")
    if len(whole := name.encode()) > _LONGEST_NAME:
        end = f"-{hashlib.sha256(whole).hexdigest()[:8]}"
        name = whole[: _LONGEST_NAME - len(end)].decode(errors="ignore") + end
    return "/".join([*folders, name])


def _some(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: values[name] for name in names if name in values}


class Opened(NamedTuple):
    """A pipeline that notebooks of a run open."""

    pipeline: Pipeline
    tables: set[str]  # The measured tables that they take of it.
    notebooks: set[str]  # Their ids.


def left_out(jobs: Iterable[Job]) -> list[str]:
    """Say what jobs do without because judges were given as empty, or never named: a sentence a setting."""
    whole: dict[str, dict[str, None]] = {}
    tables: dict[str, dict[str, None]] = {}
    parts: dict[str, dict[str, None]] = {}
    for job in jobs:
        if (without := job.without) is None:
            continue
        if job.reason:
            for setting in without.settings:
                whole.setdefault(setting, {})[job.notebook.id] = None
            continue
        for found, of in ((tables, without.tables), (parts, without.in_part)):
            for name, settings in of.items():
                for setting in settings:
                    found.setdefault(setting, {})[name] = None
    said = []
    for setting in dict.fromkeys((*whole, *tables, *parts)):
        told = (
            ("the notebooks ", whole.get(setting)),
            ("of others the tables ", tables.get(setting)),
            ("and in part, or by another judge, ", parts.get(setting)),
        )
        listed = "; ".join(words + ", ".join(sorted(names)) for words, names in told if names)
        empty = "is off" if setting == "triplets.attention" else "names nothing"
        said.append(f"Left out, as {setting} {empty}: {listed}.")
    return said


class Work(Protocol):
    """What a notebook that an installed package brings takes of a pipeline beyond the tables that it measures.

    The package that the entry point names (``biaslab.notebooks``) may have a function ``work(notebook, pipeline)``,
    which is asked with the id of one of its notebooks and returns this, or None where there is nothing beyond.
    """

    @property
    def generators(self) -> Sequence[Pipeline]:
        """The pipelines whose images for the templates it takes."""

    def stages(self) -> Sequence[Callable[[], object]]:
        """Return what takes long, apart, in order.

        Each may raise :class:`~biaslab.keep.store.UnfinishedError` where the pipeline computes a share.
        """


def work(notebook: str, pipeline: Pipeline) -> Iterator[Work]:
    """Yield what a notebook, by its id, takes beyond measured tables, as the packages say that bring it."""
    for package, folder in plugins.folders().items():
        if (folder / "notebooks" / f"{notebook}.ipynb").is_file():
            with loading(package, "a package with notebooks"):
                told = getattr(importlib.import_module(package), "work", None)
            if told and (found := told(notebook, pipeline)) is not None:
                yield found


def pipelines(params: RunParams, *, jobs: Iterable[Job] | None = None, progress: bool = True) -> list[Opened]:
    """Return the pipelines that the notebooks of a run open, one for each model, seed and settings; raise as a plan.

    ``jobs`` are what :func:`plan` returns, where it is known.
    """
    from biaslab.pipeline import Pipeline, Settings

    found: dict[str, Opened] = {}
    for job in plan(params, Path("unused")) if jobs is None else jobs:
        given = {"model": "all", "seed": 0, **job.notebook.parameters, **job.parameters}
        if job.reason or not sources.makes_images(given.get("source")):
            continue
        model = sources.pipeline_model(given["source"], given["model"])
        settings = Settings.of(given.get("settings") or {})
        made = Pipeline(model, settings, seed=given["seed"], progress=progress)
        one = found.setdefault(repr((made.model, made.settings, made.seed)), Opened(made, set(), set()))
        one.tables.update(job.takes)
        one.notebooks.add(job.notebook.id)
    return list(found.values())


def _suffixes(variants: list[dict[str, Any]]) -> list[str]:
    """Return a distinct file suffix for each variant; a digest tells apart what looks alike or is long."""
    if variants == [{}]:
        return [""]
    labels = [", ".join(f"{k}={v}" for k, v in variant.items()) for variant in variants]
    slugs = [re.sub(r"[^a-z0-9.]+", "-", label.lower()).strip("-.") or "x" for label in labels]
    short = [slug[:60] for slug in slugs]
    alone = [short.count(name) == 1 and name == slug for name, slug in zip(short, slugs, strict=True)]
    ends = [f"-{hashlib.sha256(label.encode()).hexdigest()[:8]}" for label in labels]
    return [f"--{n}" if fits else f"--{n}{end}" for n, end, fits in zip(short, ends, alone, strict=True)]


def _judges(jobs: list[Job]) -> dict[str, dict[str, str]]:
    """Return digests of the judges that each job takes, by its slug."""
    known: dict[str, str] = {}
    made = [job for job in jobs if not job.reason and sources.makes_images(job.parameters.get("source"))]
    return {
        job.slug: sources.judges(job.takes, known, **_some(job.parameters, "source", "model", "settings"))
        for job in made
    }


def _inputs(jobs: list[Job], folder: Path) -> dict[str, str]:
    """Return a digest of each source that the jobs read, by path; none may lie in the run's folder or around it."""
    found: dict[str, str] = {}
    for job in jobs:
        given = job.parameters
        source, name = given.get("source", "published"), _input(given)
        if not name or name in found or job.reason:
            continue
        path = Path(name).resolve()
        if not sources.makes_images(source) and (path.is_relative_to(folder) or folder.is_relative_to(path)):
            raise RunError(
                f"The input {name} and the run's folder {folder} lie in one another, so the run would replace what it "
                "reads. Choose another name with --set run=NAME."
            )
        found[name] = sources.digest(source, **_some(given, "ratings", "model", "settings"))
    return found


def _input(parameters: Mapping[str, Any]) -> str:
    """Return what a run calls the input of a notebook with these parameters; empty for the published numbers."""
    source = parameters.get("source", "published")
    if sources.makes_images(source):
        from biaslab.pipeline.checks import INPUTS

        settings = dotted(parameters.get("settings") or {})
        model = sources.pipeline_model(source, parameters.get("model", "all"))
        return ", ".join([f"{source}: {model}", *(f"{k} {settings[k]}" for k in INPUTS if k in settings)])
    path = parameters.get("ratings", "") if source == "ratings" else source
    return "" if source == "published" else str(Path(path))


def _resolve_paths(values: dict[str, Any]) -> dict[str, Any]:
    """Make paths absolute, because a notebook runs in its own folder."""
    out = dict(values)
    if out.get("ratings"):
        out["ratings"] = str(Path(os.path.expanduser(out["ratings"])).resolve())
    out["source"] = "published" if out["source"] is None else out["source"]
    if sources.makes_images(out["source"]):
        from biaslab.pipeline import checks

        model, settings = checks.resolve_paths(out.get("model", "all"), out.get("settings", {}))
        out |= {name: value for name, value in (("model", model), ("settings", settings)) if name in out}
    if out["source"] not in sources.names():
        out["source"] = os.path.expanduser(out["source"])
        sources.check(out["source"])
        out["source"] = str(Path(out["source"]).resolve())
    return out


def _check_inputs(values: dict[str, Any]) -> None:
    """Open a study with these parameters and read the user's file, so that errors come before any work."""
    Study("unused", **_some(values, "source", "model", "ratings", "seed", "settings"))
    check_draws(**_some(values, "bootstrap_replicates", "confidence"))
    if values["source"] != "ratings":
        sources.check_all(values["source"], **_some(values, "model", "settings"))
        return
    from biaslab.ratings import readers

    model = values.get("model", "all")
    models = set(readers.read(values["ratings"]).percent_female["model"])
    if model != "all" and models == {readers.UNNAMED}:
        raise ParameterError(
            f"model is {model!r}, but {Path(values['ratings']).name} has no column 'model'. Add one that names the "
            "model of each generated image (training images may have none), or set model to 'all'."
        )
    if model not in ("all", *models):
        raise unknown_name("model in the ratings", model, sorted(models))


def _not_applicable(notebook: Notebook, given: Mapping[str, Any]) -> str:
    """Say why ``notebook`` has nothing to do with these parameters; empty if it has."""
    paper = notebook.id.split("/")[0]
    paper = "paradox" if paper == "synthesis" else paper
    default = notebook.parameters.get("source", "published")
    source, model = given.get("source", default), given.get("model", "all")
    if default == "ratings" and source != "ratings":
        return "It reads a file of ratings: set source to 'ratings' and ratings to the file."
    if source == "ratings" and paper != "paradox":
        return f"Ratings hold no measurements for {paper}."
    if sources.makes_images(source):
        if paper not in tables.PAPERS:
            return f"The pipeline measures nothing for {paper}."
        if "settings" not in notebook.parameters:
            return "It takes no settings, so it could measure something else than the rest of the run."
        behind = [
            name for name in sorted(notebook.needs & set(tables.schemas())) if tables.schema(name).images
        ]
        missing = behind and sources.no_images(source=source, **_some(given, "model", "settings"))
        return f"It needs the images behind captions (for {behind[0]}). {missing}" if missing else ""
    known = None if model == "all" else sources.models(paper, source=source, ratings=given.get("ratings", ""))
    if known is None or model in known:
        return ""
    return f"{source} has no measurements of the model {model!r} for {paper}. {name_help(model, known)}"


# -- the folder ------------------------------------------------------------------------------------------


def _earlier(
    folder: Path, record: dict, overwrite: bool, public: Callable[[Any], Any]
) -> tuple[list[dict], bool]:
    """Return the records of what is in the run's folder of the same run, and whether it holds another, to replace."""
    if (folder / records.FILE).exists():
        fix = "Choose another name with --set run=NAME, or replace it with --overwrite."
        try:
            earlier = public(records.read(folder, needs=_OF_EARLIER, fix=fix))
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


def _folders(params: RunParams, jobs: list[Job], folder: Path) -> tuple[str, ...]:
    """Return the folders of this machine that nothing names that a run shares."""
    # Where other packages lie that bring notebooks, and what lies around the run's notebooks.
    roots = {place.parents[package.count(".")] for package, place in plugins.folders().items()}
    for one in (job.notebook for job in jobs):
        roots.add((one.folder or one.path.parents[one.id.count("/")]).resolve().parent)
    values = [dict(params.values), params.file, *(job.given for job in jobs)]
    return shared.folders(values, folder, folder.parent, store.default_root().absolute(), *roots)


def _fingerprint(job: Job, record: Mapping, judges: Mapping[str, str] | None = None) -> str:
    inputs = [record["inputs"].get(_input(job.parameters), ""), judges]
    problem = job.notebook.problem
    text = problem or hashlib.sha256(job.notebook.path.read_bytes()).hexdigest()
    source = job.parameters.get("source")
    code = code_of(job.notebook, source)
    images = source is None or sources.makes_images(source)
    packages = {k: v for k, v in record["packages"].items() if images or k not in _OF_MODELS.split()}
    brought = [] if job.reason or source == "published" else _brought(job.parameters)
    whole = [job.slug, text, job.given, inputs, code, brought, _declared(job.notebook), packages]
    return hashlib.sha256(json.dumps(whole, sort_keys=True, default=str).encode()).hexdigest()


def code_of(notebook: Notebook, source: str | None) -> dict[str, str]:
    """Return digests of the code that a notebook's results and page come from, as :func:`biaslab.keep.closure.of` does.

    A notebook names what measures a table, and the source gives it: measured here, where it makes images, and else as
    it is printed or lies in files. So what makes and judges images counts only where it does; and where the notebook
    opens a pipeline by itself, or takes no source (None) and may.
    """
    from biaslab import report

    cells = closure.used(notebook.cells)
    images = source is None or sources.makes_images(source) or _of_room(cells, "biaslab.pipeline")
    cells = cells if images else closure.used(notebook.cells, apart=_asked)
    papers = {name.partition("_")[0] for name in notebook.takes}
    # How images were made is a table, too.
    papers |= {tables.PAPERS[0]} if images else set()
    # Measures of other packages may take any table.
    if not papers.issubset(tables.PAPERS) or _of_room(cells, "biaslab.measures.plugins"):
        papers = set(tables.PAPERS)
    rooms = ("printed", "measure") if images else ("printed",)
    taken = [m for m in sources.modules() if m.split(".")[2] in papers and m.endswith(rooms)]
    follow = {} if images else {"follow": _of_tables}
    return closure.of(Study, report.render_notebook, *taken, *sorted(cells), **follow)


def _of_room(names: Iterable[str], room: str) -> bool:
    """Return whether some names are of a package or module."""
    return any(f"{name}.".startswith(f"{room}.") for name in names)


def _asked(call: ast.Call) -> list[ast.expr]:
    """Return what a call asks a study for."""
    return call.args[:1] if ast.unparse(call.func) in ("study.load", "study.has") else []


def _of_tables(module: str, name: str) -> bool:
    """Return whether a module leads to a name where there are tables only.

    No pipeline is opened, and what measures is given none: it says that there is nothing, by itself.
    """
    return not _of_room([name], "biaslab.pipeline") and not module.endswith(".measure")


def _brought(parameters: Mapping[str, Any]) -> list[str]:
    """Return what tells of installed packages that have a part in a notebook's results.

    Where images are made these are digests of what a pipeline names, and of the truth of its pictures, and of all that
    is brought where nobody says what is made. Tables may be of what they bring, of which they say a sentence or two:
    there it is their versions.
    """
    points = [(group, *item) for group in plugins.GROUPS for item in plugins.points(group).items()]
    source = parameters.get("source")
    if source is None:
        return sorted({closure.brought(point) for _, _, point in points})
    if not sources.makes_images(source):
        return sorted({f"{point.dist.name} {point.dist.version}" for _, _, point in points if point.dist})
    from biaslab.models import truths
    from biaslab.pipeline import Pipeline, Settings

    model = sources.pipeline_model(source, parameters.get("model", "all"))
    first = Pipeline(model, Settings.of(parameters.get("settings") or {}))
    pipelines = (first, *first.others)
    said = json.dumps([[one.model, one.settings.model_dump()] for one in pipelines], default=str)
    asked = ("captions", "people", "dalleval", "triplets")
    shown = {one.image_model(of).pictures for one in pipelines for of in asked}
    found = set()
    for group, name, point in points:
        # By itself, or in a name such as plugin:NAME:ARGUMENT.
        named = re.search(rf'["+:]{re.escape(name)}["+:]', said)
        if named or (group == plugins.TRUTH and truths.named(name).pictures in shown):
            found.add(closure.brought(point))
    return sorted(found)


def _declared(notebook: Notebook | None = None) -> str:
    """Return a digest of what is declared as data: tables, titles and captions.

    What other packages declare counts for a notebook that they bring, or that imports them; without one, all counts.
    """
    out = set()
    if notebook:
        imports = {module.split(".")[0] for module in closure.imported(notebook.cells)}
        for package, folder in plugins.folders().items():
            if package.split(".")[0] not in imports and not notebook.path.is_relative_to(folder):
                out.add(package)
    declared = (*tables.files().items(), *texts.files().items())
    return hashlib.sha256(b"".join(path.read_bytes() for path, by in declared if by not in out)).hexdigest()


def _keep(
    folder: Path, earlier: list[dict], jobs: list[Job], again: bool
) -> tuple[list[dict], list[Job], list[str]]:
    """Return the records of earlier notebooks that stay, the jobs that are left to do, and what was changed on disk."""
    selected = {job.notebook.id for job in jobs}
    stay = [n for n in earlier if n["id"] not in selected]
    by_slug = {n["slug"]: n for n in earlier if not again}
    left, said, spoilt = [], [], _spoilt(folder, earlier)
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
            filter(
                None, (altered(folder, before.get("files", {})), *map(spoilt.get, before.get("measured", ())))
            )
        ):
            left.append(job)
            said.append(f"{job.slug} is executed again, because {changed} since it finished.")
        else:
            stay.append({**before, "kept": True})
    return stay, left, said


def _spoilt(folder: Path, earlier: list[dict]) -> dict[str, str]:
    """Say by its name of each measured table in the parts what happened to it, where no notebook left it as it is.

    Several notebooks write one of them, variants perhaps each its own: the last remains.
    """
    told: dict[str, set[str]] = {}
    for name, digest in (item for notebook in earlier for item in notebook.get("measured", {}).items()):
        told.setdefault(name, set()).add(digest)
    changed = {name: [altered(folder, {name: digest}) for digest in left] for name, left in told.items()}
    return {name: said[0] for name, said in changed.items() if all(said)}


def _unchanged(folder: Path, record: Mapping, kept: list[dict], said: list[str]) -> dict | None:
    """Return the earlier record of a run of which all is as it was, else None; ``said`` hears of files that are not."""
    earlier = records.read(folder)
    same = ("title", "description", "params_file", "inputs", "sweep", "code")
    if earlier["status"] != "ok" or any(earlier.get(k) != record[k] for k in same):
        return None
    if len(earlier["notebooks"]) != len(kept) or "files" not in earlier:
        return None
    if changed := altered(folder, earlier["files"]):
        said.append(f"Tables, figures and pages are made anew, because {changed} since the run ended.")
        return None
    return {**earlier, "up_to_date": True}


def digests(folder: Path, files: Iterable[Path]) -> dict[str, str]:
    """Return the SHA-256 of files in ``folder``, by their paths in it, in order."""
    hashed = hashlib.sha256
    return {p.relative_to(folder).as_posix(): hashed(p.read_bytes()).hexdigest() for p in sorted(files)}


def altered(folder: Path, files: Mapping[str, str]) -> str:
    """Say which files are not as :func:`digests` told; empty where all are."""
    gone = [name for name in files if not (folder / name).is_file()]
    there = digests(folder, (folder / name for name in files if name not in gone))
    found = [f"{name} is gone" for name in gone]
    found += [f"{name} was changed" for name, digest in there.items() if digest != files[name]]
    return ", ".join(found[:3]) + (f" (and {len(found) - 3} more)" if len(found) > 3 else "")


def check_tables(folder: Path, record: Mapping) -> None:
    """Check that a run's tables are those that it left; a RunError where one was changed or is gone."""
    told = {name: digest for name, digest in record.get("files", {}).items() if name.startswith("tables/")}
    if changed := altered(folder, told):
        fix = "Start the run again: it makes them anew from what its notebooks left."
        raise RunError(f"In {folder}, {changed} since the run ended. {fix}")


def _take_in(job: Job, record: Mapping) -> dict:
    """Put what a notebook left in its attempt to its place, as the holder of the run's lock; add files' digests."""
    _clear(job)
    folder, part = job.folder, job.folder / PARTS / job.slug
    moved = zip((job.attempt / job.slug, *job.pages(job.attempt)), (part, *job.pages(folder)), strict=True)
    for made, place in moved:
        if made.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            os.replace(made, place)
    _copy(job.attempt / sources.MEASURED, folder / PARTS / sources.MEASURED)
    notes = _notes(folder, record)
    files = [folder / record[kind] for kind in ("notebook", "html") if record[kind]]
    files += [part / "tables" / f"{note['name']}.csv" for note in notes["tables"]]
    files += [part / "figures" / f"{note['name']}.{k}" for note in notes["figures"] for k in note["kinds"]]
    files += [part / "records.json"] if (part / "records.json").exists() else []
    measured = (folder / PARTS / sources.MEASURED / f"{name}.csv" for name in notes["printed"])
    return {
        **record,
        "files": digests(folder, files),
        "measured": digests(folder, (path for path in measured if path.exists())),
    }


def _clear(job: Job) -> None:
    """Take away what an earlier execution of a notebook left."""
    shutil.rmtree(job.folder / PARTS / job.slug, ignore_errors=True)
    for page in job.pages(job.folder):
        page.unlink(missing_ok=True)


def _copy(source: Path, target: Path) -> None:
    """Copy a folder's files, where there is one, beside those that are there."""
    for path in sorted(source.glob("*")) if source.is_dir() else ():
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target / path.name)


def _difference(earlier: Mapping, record: Mapping) -> str:
    """Say in which parameters and inputs two runs differ; empty if in none."""
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


@contextlib.contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    from filelock import FileLock, Timeout

    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder.with_name(f".{folder.name}.lock"), timeout=0):
            yield
    except Timeout:
        said = f"Another process is writing to {folder}; wait for it or use another run name."
        raise RunError(said) from None


# -- execution -------------------------------------------------------------------------------------------


def _at_a_time(params: RunParams) -> int:
    """Return how many notebooks are executed at a time; 0 is one per processor, and on a GPU it is one.

    Each has workers of its own, of which one team can fill a cluster; and where images are made each holds the models,
    of which a GPU has room for one.
    """
    settings = params.values.get("settings")
    compute = (settings.get("compute") if isinstance(settings, Mapping) else None) or {}
    alone = bool(compute.get("workers")) or compute.get("engine") == "ray"
    if not (params.jobs or alone) and sources.makes_images(params.default("source")):
        alone = (compute.get("device", "auto").replace("auto", processor.accelerator())) != "cpu"
    return params.jobs or int(alone)


def _execute(
    jobs: list[Job], side_by_side: int, progress: bool, note: Callable[[list[dict]], None]
) -> tuple[list[dict], bool]:
    """Return the record of each job, and whether the user stopped the run; ``note`` hears of each that ends."""
    from tqdm import tqdm

    if not jobs:
        return [], False
    workers = min(side_by_side or os.cpu_count() or 1, len(jobs))
    done: dict[str, dict] = {}
    began = time.monotonic()

    def ended(job: Job, record: dict) -> None:
        here = record.pop("here", "")
        # With the folders of this machine, which the record leaves out.
        if here.startswith(RunError.__name__) and here != record["reason"]:
            bar.write(f"{job.slug}: {here}", file=sys.stderr)
        done[job.slug] = _take_in(job, record)
        bar.set_postfix_str(f"{job.slug}: {record['status']}")
        bar.update()
        note(list(done.values()))

    def waiting() -> None:
        if progress:
            running = [job.slug for job in jobs if job.slug not in done][:workers]
            line = f"{', '.join(running)}: {round(time.monotonic() - began)} s"
            bar.set_postfix_str(_progress_line(jobs[0].attempt) or line)

    stopped = False
    with tqdm(total=len(jobs), unit="notebook", disable=not progress, file=sys.stderr) as bar:
        try:
            # A process may be killed for want of memory: what was lost with it is tried once more, alone.
            for job in _side_by_side(jobs, workers, ended, waiting):
                for again in _side_by_side([job], 1, ended, waiting):
                    ended(again, _record(again, "failed", "The process that executed it was killed."))
        except KeyboardInterrupt:
            stopped = True
    for job in jobs:
        if job.slug not in done:
            _clear(job)
            done[job.slug] = _record(job, "stopped", "Stopped by the user before it finished.")
    return [done[job.slug] for job in jobs], stopped


def _side_by_side(
    jobs: list[Job],
    workers: int,
    ended: Callable[[Job, dict], None],
    waiting: Callable[[], None],
) -> list[Job]:
    """Execute jobs and return those lost because a process was killed; ``waiting`` is called every other second."""
    lost = []
    given = {**environment(workers), ATTEMPT: str(jobs[0].attempt), REHEARSED: "1"}
    modules = sorted(closure.imported(cell for job in jobs for cell in job.notebook.cells))
    compute = [job for job in jobs if not job.reason and sources.makes_images(job.parameters.get("source"))]
    if len(compute) > workers:
        modules += MODEL_MODULES
    with (
        kernels.Processes(given, read_libraries, modules) as processes,
        ThreadPoolExecutor(workers) as pool,
    ):
        left: dict[Future, Job] = {}
        # Ctrl-C may come as soon as the first call is made.
        try:
            for job in jobs:
                log = job.attempt / job.slug / _LOG
                left[pool.submit(processes.call, log, execute, job)] = job
            while left:
                done, _ = wait(left, timeout=2, return_when=FIRST_COMPLETED)
                for future in done:
                    job = left.pop(future)
                    try:
                        ended(job, future.result())
                    except EOFError:
                        lost.append(job)
                        shutil.rmtree(job.attempt / job.slug, ignore_errors=True)
                if not done:
                    waiting()
        except BaseException as error:
            pool.shutdown(wait=False, cancel_futures=True)
            try:
                if isinstance(error, KeyboardInterrupt):
                    # The kernels hear Ctrl-C, so that what is written just now is written to its end.
                    for note in jobs[0].attempt.rglob(_KERNEL):
                        with contextlib.suppress(OSError, ValueError):
                            os.kill(int(note.read_text(encoding="ascii")), signal.SIGINT)
                    wait([future for future in left if future.running()], timeout=_GRACE)
            finally:
                processes.kill()
            raise
    return lost


def print_aside(text: str) -> None:
    """Say something beside results: on standard error."""
    print(text, file=sys.stderr, flush=True)


def environment(workers: int = 1) -> dict[str, str]:
    """Return the variables of processes that compute for a run, ``workers`` of them side by side."""
    return {
        # The cores are shared out, unless the user says how many threads, for all libraries or for one.
        **threads(threads_given() or (os.cpu_count() or 1) // workers),
        **{name: os.environ[name] for name in THREADS if os.environ.get(name)},
        # Notebooks run in their own folders; the store is where it is for this process.
        places.ROOT_VARIABLE: str(places.default_root().absolute()),
        registry.COMMITS: json.dumps(registry.commits()),
        # The kernel of this environment, even where the user has one of the same name at home.
        "JUPYTER_PREFER_ENV_PATH": "1",
    }


def read_libraries(modules: Iterable[str]) -> None:
    """Import what notebooks and their pages need, and make ready what each would make ready again."""
    from biaslab import report

    for name in _MODULES.split():
        importlib.import_module(name)
    for name in modules:
        # The notebook that imports it says what is wrong with it.
        with contextlib.suppress(Exception, SystemExit):
            importlib.import_module(name)
    # What it reads of sources serves each notebook that keeps an analysis.
    closure.of(Study)
    report.warm_up()


def _progress_line(attempt: Path) -> str:
    """Return a notebook and how far its stage is, of those the one that said so last; empty where none did just now."""
    logs = []
    for log in attempt.rglob(PROGRESS):
        # A notebook takes its file away whenever a stage ends, also while this looks for it.
        with contextlib.suppress(FileNotFoundError):
            line = log.read_text(encoding="utf-8", errors="replace").strip()
            logs.append((log.stat().st_mtime, f"{log.parent.relative_to(attempt).as_posix()}: {line}"))
    when, said = max(logs, default=(0.0, ""))
    return said if abs(time.time() - when) <= 60 else ""


def execute(job: Job) -> dict:
    """Execute one notebook, render it, and return its record; never raise for what happens inside the notebook."""
    if job.reason:
        return _record(job, "failed" if job.fails else "skipped", job.reason)
    from biaslab import report

    began = time.monotonic()
    # As in the run's own folder, where they are put when they are whole.
    target, page = job.pages(job.attempt)
    # In its parameters, in what it printed, and in errors.
    public = shared.without(job.folders, job.parameters) if job.folders else lambda value: value
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        (job.attempt / job.slug).mkdir(parents=True, exist_ok=True)
        failure = _papermill(job, target)
        if target.exists():
            write_json(target, public(json.loads(target.read_text(encoding="utf-8"))))
    except (OSError, RunError, ValueError) as error:
        failure = _said(error, job)
        # It may name folders.
        target.unlink(missing_ok=True)
    here, failure = failure, public(failure)
    if not target.exists():
        return _record(job, "failed", failure, time.monotonic() - began) | {"here": here}
    index = Path(os.path.relpath(job.attempt / "index.html", page.parent)).as_posix()
    title = job.notebook.title + (f" ({job.label})" if job.variant else "")
    files = {"notebook": target.relative_to(job.attempt).as_posix()}
    try:
        report.render_notebook(target, page, title=title, index_href=index)
        files["html"] = page.relative_to(job.attempt).as_posix()
    except Exception as error:  # a page that cannot be made must not take the results along
        failure = failure or f"Its page could not be made: {_said(error, job)}"
    # A source without the notebook's input is no failure: the notebook does not apply.
    status = "ok" if not failure else "skipped" if failure.startswith("MissingInputError: ") else "failed"
    return _record(job, status, failure, time.monotonic() - began) | files | {"here": here}


def _papermill(job: Job, target: Path) -> str:
    """Execute the notebook and return what went wrong, or an empty text."""
    import papermill
    from papermill.exceptions import PapermillExecutionError

    # Said by the kernel before the first cell, in no name of the notebook's.
    note = str(job.attempt / job.slug / _KERNEL)
    follow = f"__import__('biaslab.ground.lifeline').lifeline.follow({os.getpid()}, {note!r})"
    failure = ""
    for _ in range(STARTS):
        try:
            papermill.execute_notebook(
                _literal(job.notebook.path),
                _literal(target),
                parameters=dict(job.parameters),
                # Whatever the notebook says, which may be nothing or the environment of another machine.
                kernel_name="python3",
                language="python",
                progress_bar=False,
                cwd=str(job.notebook.folder or job.notebook.path.parent),
                start_timeout=_START_SECONDS,
                kernel_manager_class=kernels.manager(),
                extra_arguments=[f"--IPKernelApp.exec_lines={follow}"],
            )
            return ""
        except PapermillExecutionError as error:
            return f"{error.ename}: {_shortened(error.evalue)} (cell {error.exec_count})"
        except Exception as error:  # a kernel that died or would not start: the other notebooks go on
            failure = _said(_behind(error, job), job)
            if not _NEVER_STARTED.search(str(error)):
                break
    return failure


def _literal(path: Path) -> str:
    """Return a path as papermill takes it, which puts parameters into names in braces."""
    return str(path).replace("{", "{{").replace("}", "}}")


def _said(error: Exception, job: Job) -> str:
    """Return an error in words; of what the system refused, what to do about it."""
    text = store.explained(error, job.folder, _KEPT)
    return f"{type(error).__name__ if text == str(error) else RunError.__name__}: {_shortened(text)}"


def _behind(error: Exception, job: Job) -> Exception:
    """Return an error, or that of the system which a kernel died of."""
    log = job.attempt / job.slug / _LOG
    many = os.strerror(errno.EMFILE)
    died = many in (
        log.read_text(encoding="utf-8", errors="replace")[-_LONGEST_REASON:] if log.exists() else ""
    )
    return OSError(errno.EMFILE, many) if died else error


def _shortened(text: str) -> str:
    """Return an error's text cut to what a record holds; the executed notebook has it whole."""
    more = len(text) - _LONGEST_REASON
    return f"{text[:_LONGEST_REASON]} … ({more:,} more characters)" if more > 0 else text


def _record(job: Job, status: str, reason: str = "", seconds: float = 0.0) -> dict:
    return {
        "id": job.notebook.id,
        "variant": job.label,
        "values": dict(job.variant),
        "slug": job.slug,
        "suffix": job.suffix,
        "paper": job.notebook.id.split("/")[0],
        "title": job.notebook.title,
        "status": status,
        "reason": reason,
        "seconds": round(seconds, 1),
        "ended": now(job.started),
        "version": __version__,
        "fingerprint": job.fingerprint,
        "kept": False,
        "notebook": None,
        "html": None,
    }


# -- gathering -------------------------------------------------------------------------------------------


def gather(folder: Path, record: dict, notebooks: list[dict], public: Callable[[Any], Any]) -> dict:
    """Bring the notebooks' tables, figures and findings together, write ``run.json`` and the index page."""
    from biaslab import report

    swept = list(record["sweep"])
    notebooks = sorted(notebooks, key=lambda n: (paper_order(n["id"]), n["id"], n["variant"]))
    for name in _GATHERED:
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir(parents=True)
    problems: list[str] = []
    source = record["parameters"].get("source", "published")
    of_source = {"source", "ratings"} | (
        {"model", "seed", "settings"} if sources.makes_images(source) else set()
    )
    if not of_source.intersection(swept):
        # Variants that read different sources have no one set of inputs.
        _copy(folder / PARTS / sources.MEASURED, folder / sources.MEASURED)
    figures = _gather_figures(folder, notebooks)
    gathered = _gather_tables(folder, notebooks, swept, problems)
    # What notebooks found out as they read their inputs: to compare them takes libraries that this process lacks.
    printed: dict[str, list[str]] = {}
    for notebook in notebooks:
        for name, of in _notes(folder, notebook)["printed"].items():
            # Variants of other sources have other models of the same table.
            printed[name] = [m for m in of if m in printed.get(name, of)]
    ended = {n["status"] for n in notebooks}
    stopped = "stopped" if "stopped" in ended else "ok"
    as_printed = source == "published" and not record["inputs"]
    findings, verdicts = _gather_findings(folder, notebooks)
    record |= {
        "status": "failed" if "failed" in ended or problems else stopped,
        "problems": problems,
        "notebooks": notebooks,
        "findings": findings,
        "verdicts": verdicts,
        "figures": figures,
        "tables": gathered,
        "limits": limits.of_run(folder / PARTS / sources.MEASURED, gathered, source, printed),
        "coverage": coverage.of_run(notebooks, gathered, figures) if as_printed else [],
    }
    record = public(record)
    write_json(folder / records.FILE, record)
    page = report.build(folder)
    # Digests come last: without them, a run whose report was cut off is not whole.
    left = [path for name in _GATHERED for path in (folder / name).rglob("*") if path.is_file()]
    record["files"] = digests(folder, [page, *left])
    write_json(folder / records.FILE, record)
    return record


def _store_notes(given: Mapping, started: str) -> list[str]:
    """Return what was noted of damaged pieces of stages since a run with these parameters began."""
    if not sources.makes_images(given.get("source")):
        return []
    notes = [note for one in _stores(given) for note in one.notes(started)]
    return [f"{note['stage']}: {note['text']}" for note in notes]


def _stores(given: Mapping) -> list[store.Store]:
    """Return the stores that a run with these parameters keeps results in."""
    roots = {str(dotted(s).get("compute.store", "")) for s in _each(given.get("settings") or {})}
    return [store.Store(root) for root in sorted(roots)]


def _notes(folder: Path, notebook: dict) -> dict[str, list]:
    path = folder / PARTS / notebook["slug"] / "records.json"
    if not path.exists():
        return {"figures": [], "tables": [], "findings": [], "printed": {}}
    return json.loads(path.read_text(encoding="utf-8"))


def _gather_findings(folder: Path, notebooks: list[dict]) -> tuple[list[dict], dict]:
    """Return the notebooks' findings in order, held together as one page's, and what that did."""
    found = [
        {**note, "notebook": notebook["id"], "variant": notebook["variant"]}
        for notebook in notebooks
        for note in _notes(folder, notebook)["findings"]
    ]
    return held_together([{**note, "order": i} for i, note in enumerate(found)])


def _gather_figures(folder: Path, notebooks: list[dict]) -> list[dict]:
    found = []
    for notebook in notebooks:
        for note in _notes(folder, notebook)["figures"]:
            files = {}
            for kind in note.pop("kinds"):
                target = folder / "figures" / f"{note['name']}{notebook['suffix']}.{kind}"
                shutil.copy2(folder / PARTS / notebook["slug"] / "figures" / f"{note['name']}.{kind}", target)
                files[kind.removesuffix(".png")] = target.relative_to(folder).as_posix()
            order = {"order": len(found), "notebook": notebook["id"], "variant": notebook["variant"]}
            found.append({**note, **files, **order})
    return found


def _gather_tables(folder: Path, notebooks: list[dict], swept: list[str], problems: list[str]) -> list[dict]:
    found: dict[str, list[tuple[dict, Path]]] = {}
    for notebook in notebooks:
        for note in _notes(folder, notebook)["tables"]:
            path = folder / PARTS / notebook["slug"] / "tables" / f"{note['name']}.csv"
            found.setdefault(note["name"], []).append((notebook, path))
    records = []
    for name, parts in sorted(found.items(), key=lambda item: (paper_order(item[0]), item[0])):
        try:
            frame = _merge(name, parts, swept)
        except InputError as error:
            problems.append(f"Table {name}: {error}")
            continue
        declared = tables.schema(name)
        known = {c.name: (c.unit, c.description) for c in declared.columns}
        columns = [(c, *known.get(c, ("", ""))) for c in frame.columns]
        more = {
            "reason": "" if len(frame) else "The source has no measurements for it.",
            "models": list(dict.fromkeys(frame["model"])) if "model" in frame else [],
            "notebooks": list(dict.fromkeys(n["id"] for n, _ in parts)),
        }
        written = write_table(frame, folder, name, declared.title, declared.description, columns)
        records.append(written | more)
    return records


def write_table(
    frame: pd.DataFrame,
    folder: Path,
    name: str,
    title: str,
    description: str,
    columns: list[tuple[str, str, str]],
) -> dict:
    """Write a table into a run's folder and return its record for the report; columns are name, unit and meaning."""
    path = tables.write(frame, folder / "tables" / f"{name}.csv")
    return {
        "name": name,
        "title": title,
        "description": description,
        "file": path.relative_to(folder).as_posix(),
        "rows": len(frame),
        "columns": [dict(zip(("name", "unit", "description"), column, strict=True)) for column in columns],
        "notebooks": [],
    }


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


# -- provenance ------------------------------------------------------------------------------------------


def _provenance(params: RunParams) -> dict:
    found = {}
    for name in _PACKAGES.split():
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
        # Asked for as the inputs were looked at.
        "commits": registry.commits(),
        "biaslab": {"version": __version__, **git_state(Path(__file__).parents[1])},
        "packages": {"python": platform.python_version(), **found},
        "platform": {
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.release()}",
            "machine": platform.machine(),
            "cores": os.cpu_count(),
        },
        "started": now(),
    }


def describe(params: RunParams) -> str:
    """Say what is run and on what: the file's own words only for the source that they are about."""
    papers = ", ".join(dict.fromkeys(n.id.split("/")[0] for n in params.selected))
    done = f"Executed: {count(len(params.selected), 'notebook', 'notebooks')} of {papers}."
    source = params.default("source")
    if source not in (None, *sources.names()):
        return f"Measurements: the tables in {', '.join(_each(source))}. {done}"
    if source == "ratings":
        files = ", ".join(Path(f).name for f in _each(params.values.get("ratings", "")))
        done = f"Measurements: {files}. {done}"
    return f"{params.description}\n\n{done}".strip()


def _each(value: Any) -> list:
    return value if isinstance(value, list) else [value]


def git_state(folder: Path) -> dict:
    """Return the commit that ``folder`` is at and whether files differ from it; ``None`` outside of git."""

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=10
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    # Installed below somebody else's repository, the package has no commit of its own.
    commit = git("rev-parse", "HEAD") if git("ls-files", "--error-unmatch", "__init__.py") else None
    changes = git("status", "--porcelain") if commit else None
    return {"git_commit": commit, "git_dirty": bool(changes) if changes is not None else None}


def now(since: str = "") -> str:
    """Return the time in UTC as ISO 8601 has it, to the second; ``since`` where the clock was set back behind it."""
    return max(datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"), since)


def write_json(path: Path, record: dict) -> None:
    """Write a record to a temporary name first, and then rename it; half characters, as errors may quote, as "?"."""
    text = json.dumps(record, ensure_ascii=False, indent=1, default=str)
    store.replace(path, f"{text}\n".encode(errors="replace"))
