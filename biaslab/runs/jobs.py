"""The jobs of a run: an execution of each notebook for each variant, and the pipelines that these open."""

from __future__ import annotations

import hashlib
import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from biaslab import plugins
from biaslab.errors import ParameterError, RunError, loading, name_help
from biaslab.planning import validation
from biaslab.planning.plan import Omissions, find_omissions, plan_of
from biaslab.planning.planning_pipeline import COUNTS
from biaslab.request import Request, resolve_parameters
from biaslab.runs.params import Notebook, RunParams
from biaslab.schema import groups, tables
from biaslab.schema.values import check_draws, flatten
from biaslab.settings import Settings
from biaslab.study import sources
from biaslab.study.study import PARTS

if TYPE_CHECKING:
    from biaslab.pipeline import Pipeline

_OUTPUT = "output_dir"


@dataclass(frozen=True)
class Job:
    """One execution of one notebook."""

    notebook: Notebook
    variant: Mapping[str, Any]  # Values of the swept parameters, mappings as texts; empty without a sweep.
    suffix: str  # Distinguishes this variant's files from others', for example ``--model-sd-1.4``.
    parameters_given: Mapping[str, Any]  # The parameters that papermill injects, except the folder of results.
    reason: str = ""  # Why the notebook is not executed; empty if it is.
    fails: bool = False  # Whether that is a failure; else the notebook does not apply here and is skipped.
    request: Request | None = None  # Its request; None if it takes no source.
    omissions: Omissions | None = None  # Tables that it omits without judges, if images are generated.
    fingerprint: str = ""  # Digest of all that the results depend on.
    folder: Path = Path()  # The run's folder.
    attempt: Path = Path()  # The folder of this start of the run, which the notebook writes to.
    # Keys and folders that the executed notebook must not contain, and the replacement of each.
    private: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def used_tables(self) -> frozenset[str]:
        """The measured tables that it takes, except omitted ones."""
        return self.notebook.used_tables.difference(self.omissions.tables if self.omissions else ())

    @property
    def makes_images(self) -> bool:
        """Whether the notebook is executed and images are generated for it."""
        return not self.reason and self.request is not None and self.request.makes_images

    @property
    def slug(self) -> str:
        """The notebook id and the variant's suffix: a relative path without file extension."""
        return f"{self.notebook.id}{self.suffix}"

    @property
    def label(self) -> str:
        """The variant in words."""
        return ", ".join(f"{key}={value}" for key, value in self.variant.items())

    @property
    def parameters(self) -> dict[str, Any]:
        """All parameters that papermill injects."""
        folder = {_OUTPUT: str(self.folder / PARTS / self.slug)}
        return {**self.parameters_given, **(folder if _OUTPUT in self.notebook.parameters else {})}

    def pages(self, folder: Path) -> list[Path]:
        """Return the paths of the executed notebook and of its page below a folder."""
        return [folder / "notebooks" / f"{self.slug}.{kind}" for kind in ("ipynb", "html")]


def plan(params: RunParams) -> list[Job]:
    """Return the jobs of a run; raise the errors that can be found without running them."""
    jobs: list[Job] = []
    variants = params.variants()
    suffixes = _suffixes([words for _, words in variants])
    for (variant, words), suffix in zip(variants, suffixes, strict=True):
        values = resolve_parameters({"source": params.default("source"), **params.values, **variant})
        run_request = Request.from_parameters(values)
        check_draws(**{k: values[k] for k in ("bootstrap_replicates", "confidence") if k in values})
        if run_request.makes_images:
            validation.check_settings(run_request.opened)
        variant_jobs = []
        for notebook in params.selected:
            if notebook.problem:
                # Added once, not per variant. A notebook without a parameters cell is skipped, and does not fail.
                problem_job = Job(notebook, {}, "", {}, notebook.problem, fails=notebook.is_tagged)
                variant_jobs += [] if jobs else [problem_job]
                continue
            parameters = {k: v for k, v in values.items() if k in notebook.parameters}
            request = _request(notebook, parameters, run_request)
            reason, omissions = _explain_skip(notebook, parameters, request), None
            if not reason and request is not None and request.makes_images:
                omissions = find_omissions(notebook.used_tables, notebook.required_tables, request.opened)
                reason = omissions.reason if omissions.on_purpose else ""
                if reason and notebook.id in params.notebooks:
                    raise ParameterError(f"The notebook {notebook.id} was selected but cannot run. {reason}")
            variant_jobs.append(Job(notebook, words, suffix, parameters, reason, request=request, omissions=omissions))
        active_jobs = [job for job in variant_jobs if not job.reason]
        if not active_jobs:
            raise ParameterError(variant_jobs[0].reason)
        used_tables = set().union(*(job.used_tables for job in active_jobs))
        has_printed = any(sources.is_comparable(name, run_request.source) for name in used_tables)
        if "baselines" in params.set_here and "published" in run_request.baselines and not has_printed:
            raise ParameterError(
                "The papers contain no published values of these measures, so there is nothing to compare with. Remove "
                "--baselines published, or select the notebooks of a paper."
            )
        if run_request.makes_images:
            _check_used(params.set_here, active_jobs, run_request)
            validation.check_plan(run_request.opened, used_tables)
        jobs += variant_jobs
    return jobs


# Settings that affect every run that generates images, regardless of its measures.
_ALWAYS_USED = ("baselines", "compute.", "models")
_NO_CAPTIONS = (
    "no executed notebook uses captions, or there are no captions. Specify them with captions.corpus (in an audit, "
    "--corpus)"
)
# Advice for settings of a group that have no effect.
_HINTS = {
    "captions": _NO_CAPTIONS,
    **{f"generation.{name}": _NO_CAPTIONS for name in COUNTS},
    "custom": "no executed notebook uses your own prompts or images. Select such a notebook",
    "endpoint": "no selected notebook uses an endpoint. Specify a model or judge behind one",
    "vision": "no judge is a vision-language model. Specify one, for example with judging.gender=endpoint:NAME",
    "judging.annotations": "no selected notebook combines annotations and a judge. Select a notebook beyond_precision",
    "judging.questions_file": "questions apply only to your own images or prompts. Specify these",
    "judging.question_model": "questions apply only to your own images or prompts. Specify these",
}


def _check_used(names: Iterable[str], active_jobs: Sequence[Job], request: Request) -> None:
    """Raise ParameterError for settings that a command sets and that no measure of a run reads.

    A command may set any setting to an empty value, which removes a default.
    """
    # Notebooks of packages may read any setting.
    if any(job.notebook.folder for job in active_jobs):
        return
    used_tables = set().union(*(job.used_tables for job in active_jobs))
    members = (request.opened, *request.opened.baseline_pipelines)
    settings_read = set().union(*(plan_of(member).of_tables(used_tables).settings_read for member in members))
    for name in sorted(set(names).intersection(groups.names(Settings)) - settings_read):
        if not name.startswith(_ALWAYS_USED) and attrgetter(name)(request.opened.settings) not in ("", ()):
            hint = _HINTS.get(
                name, _HINTS.get(name.partition(".")[0], "no measurement of this run uses it. Select other notebooks")
            )
            raise ParameterError(f"{name} has no effect here: {hint}, or remove the setting.")


def _request(notebook: Notebook, parameters: Mapping[str, Any], run_request: Request) -> Request | None:
    """Return the request of a notebook that has a source, in most cases the same object as the run's request."""
    if "source" not in notebook.parameters:
        return None
    # A notebook without these parameters does not apply if images are generated.
    if run_request.makes_images and not {"model", "settings"}.issubset(notebook.parameters):
        return run_request
    defaults = {k: v for k, v in notebook.parameters.items() if k in ("model", "seed")}
    request = Request.from_parameters({**defaults, **parameters})
    return run_request if request == run_request else request


def _suffixes(variants: list[dict[str, Any]]) -> list[str]:
    """Return a distinct file suffix for each variant; long or equal suffixes get a digest."""
    if variants == [{}]:
        return [""]
    labels = [", ".join(f"{k}={v}" for k, v in variant.items()) for variant in variants]
    slugs = [re.sub(r"[^a-z0-9.]+", "-", label.lower()).strip("-.") or "x" for label in labels]
    stems = [slug[:60] for slug in slugs]
    are_unique = [stems.count(name) == 1 and name == slug for name, slug in zip(stems, slugs, strict=True)]
    ends = [f"-{hashlib.sha256(label.encode()).hexdigest()[:8]}" for label in labels]
    return [f"--{n}" if unique else f"--{n}{end}" for n, end, unique in zip(stems, ends, are_unique, strict=True)]


def _explain_skip(notebook: Notebook, parameters: Mapping[str, Any], request: Request | None) -> str:
    """Return why ``notebook`` has nothing to do with these parameters; empty if it has."""
    paper = notebook.id.split("/")[0]
    paper = tables.papers()[paper].rests_on or paper if paper in tables.papers() else paper
    default = notebook.parameters.get("source", "published")
    source, model = (request.source, request.model) if request else (default, parameters.get("model", "all"))
    if default == "annotations" and source != "annotations":
        return "It needs a file of annotations. Set source to 'annotations', and annotations to the file."
    if source == "annotations" and not any(t.rated for t in tables.schemas().values() if t.paper == paper):
        return f"Annotations contain no measurements for {paper}."
    if request is not None and request.makes_images:
        if paper not in tables.measuring_papers():
            return f"The pipeline measures nothing for {paper}."
        if "settings" not in notebook.parameters:
            return "It has no parameter settings, so it may measure something else than the rest of the run."
        return ""
    annotations = parameters.get("annotations", "")
    models = None if model == "all" else sources.models(paper, source=source, annotations=annotations)
    if models is None or model in models:
        return ""
    return f"{source} has no measurements of the model {model!r} for {paper}. {name_help(model, models)}"


def describe_omissions(jobs: Iterable[Job]) -> list[str]:
    """Return one sentence for each empty judge setting, on the notebooks and tables that jobs omit without it."""
    # By setting: the notebooks left out, the tables of others, and the tables that are incomplete.
    names: dict[str, tuple[set[str], set[str], set[str]]] = {}
    for job in (job for job in jobs if job.omissions):
        omissions = job.omissions
        names_by_kind = ({}, omissions.tables, omissions.in_part)
        for kind, by_name in enumerate([{job.notebook.id: omissions.settings}] if job.reason else names_by_kind):
            for name, settings in by_name.items():
                for setting in settings:
                    names.setdefault(setting, (set(), set(), set()))[kind].add(name)
    labels = ("notebooks ", "in other notebooks, tables ", "in part, or measured with another judge, tables ")
    sentences = []
    # First the settings for which notebooks are left out, then those for which tables are.
    for setting, kinds in sorted(names.items(), key=lambda item: [not kind for kind in item[1]]):
        omitted_parts = "; ".join(w + ", ".join(sorted(k)) for w, k in zip(labels, kinds, strict=True) if k)
        empty = "is false" if setting == "triplets.attention" else "is empty"
        sentences.append(f"Omitted because {setting} {empty}: {omitted_parts}.")
    return sentences


def describe_unmatched(open_pipelines: Iterable[OpenPipeline]) -> list[str]:
    """Return a sentence for each of a user's files with names that do not match those of a run."""
    pipelines = [member for entry in open_pipelines for member in (entry.pipeline, *entry.pipeline.baseline_pipelines)]
    if not pipelines:
        return []
    from biaslab.analyses.custom import matching

    return matching.unmatched(pipelines)


# -- pipelines ---------------------------------------------------------------------------------------------


class OpenPipeline(NamedTuple):
    """A pipeline that notebooks of a run open."""

    pipeline: Pipeline
    tables: set[str]  # The measured tables that the notebooks take from it.
    notebooks: set[str]  # The ids of the notebooks.


class Work(Protocol):
    """The work of a package's notebook on a pipeline, in addition to the tables that it measures.

    The package that the entry point ``biaslab.notebooks`` names may have a function ``work(notebook, pipeline)``. It
    takes the id of one of the package's notebooks and returns this, or None without additional work.
    """

    generators: Sequence[Pipeline]
    """The pipelines that generate images of the templates for the notebook."""

    def stages(self) -> Sequence[Callable[[], object]]:
        """Return the long computations, in order; each may raise UnfinishedError if the pipeline computes a shard."""


def work(notebook: str, pipeline: Pipeline) -> Iterator[Work]:
    """Yield the additional work of a notebook, by its id, from the packages that bring it."""
    for package, folder in plugins.notebook_folders().items():
        if (folder / "notebooks" / f"{notebook}.ipynb").is_file():
            with loading(package, "a package with notebooks"):
                get_work = getattr(importlib.import_module(package), "work", None)
            if get_work and (notebook_work := get_work(notebook, pipeline)) is not None:
                yield notebook_work


def pipelines(jobs: Iterable[Job], *, fresh: bool = False) -> list[OpenPipeline]:
    """Return the pipelines that jobs open, one for each model, seed and settings.

    Each keeps its plan; with ``fresh``, new pipelines are planned from the current state of the cache.
    """
    open_pipelines: dict[str, OpenPipeline] = {}
    for job in jobs:
        if job.makes_images:
            pipeline = job.request.pipeline(progress=False) if fresh else job.request.opened
            key = repr((pipeline.model, pipeline.settings, pipeline.seed))
            entry = open_pipelines.setdefault(key, OpenPipeline(pipeline, set(), set()))
            entry.tables.update(job.used_tables)
            entry.notebooks.add(job.notebook.id)
    return list(open_pipelines.values())


# -- inputs ------------------------------------------------------------------------------------------------


def judges(jobs: Iterable[Job]) -> dict[str, dict[str, str]]:
    """Return digests of the judges that each job uses, by the job's slug."""
    digests: dict[str, str] = {}
    return {
        job.slug: validation.judge_digests(job.request.opened, job.used_tables, digests)
        for job in jobs
        if job.makes_images
    }


def read_sources(jobs: Iterable[Job]) -> None:
    """Read the files and folders of tables that jobs take, each once; raise as :mod:`biaslab.study.sources`."""
    reading = [job for job in jobs if not (job.reason or job.makes_images) and input_name(job)]
    for job in {input_name(job): job for job in reading}.values():
        sources.read_tables(job.request)


def inputs(jobs: Sequence[Job], folder: Path) -> dict[str, str]:
    """Return a digest of each source that the jobs read, by path; none may contain the run's folder or be in it.

    Raises as :func:`read_sources`.
    """
    read_sources(jobs)
    digests: dict[str, str] = {}
    for job in jobs:
        name = input_name(job)
        if not name or name in digests or job.reason:
            continue
        path = Path(name).resolve()
        is_nested = path.is_relative_to(folder) or folder.is_relative_to(path)
        if is_nested and not job.makes_images:
            raise RunError(
                f"The input {name} and the run's folder {folder} overlap, so the run would replace its input. Choose "
                "another name with --set run=NAME."
            )
        digests[name] = sources.digest(job.request)
    return digests


def input_name(job: Job) -> str:
    """Return the name of a job's input in the run's record; empty for published values."""
    request = job.request
    if request is None or request.source == "published":
        return ""
    if request.makes_images:
        from biaslab.pipeline.paths import INPUTS

        settings = flatten(job.parameters_given.get("settings") or {})
        file_inputs = (f"{name} {settings[name]}" for name in INPUTS if name in settings)
        return ", ".join([f"{request.source}: {request.generating_model}", *file_inputs])
    return str(Path(request.annotations if request.source == "annotations" else request.source))
