"""What a run is to do: an execution of each notebook for each variant, and the pipelines that these open."""

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
from biaslab.schema.values import check_draws, dotted
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
    suffix: str  # What tells this variant's files from others', for example ``--model-sd-1.4``.
    parameters_given: Mapping[str, Any]  # The parameters that papermill injects, but for the folder of results.
    reason: str = ""  # Why the notebook is not executed; empty if it is.
    fails: bool = False  # Whether that is a failure; else the notebook does not apply here and is skipped.
    request: Request | None = None  # What it asks for; None where it takes no source.
    omissions: Omissions | None = None  # What it does without where images are generated, for want of judges.
    fingerprint: str = ""  # Digest of all that the results depend on.
    folder: Path = Path()  # The run's folder.
    attempt: Path = Path()  # The folder of this start of the run, which the notebook writes to.
    # Keys and folders that the executed notebook must not hold, and what replaces each.
    private: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def used_tables(self) -> frozenset[str]:
        """The measured tables that it takes, without those that it has to do without."""
        return self.notebook.used_tables.difference(self.omissions.tables if self.omissions else ())

    @property
    def makes_images(self) -> bool:
        """Whether it is executed and images are generated for it."""
        return not self.reason and self.request is not None and self.request.makes_images

    @property
    def slug(self) -> str:
        """The notebook id and the variant's suffix: a relative path without ending."""
        return f"{self.notebook.id}{self.suffix}"

    @property
    def label(self) -> str:
        """The variant in words."""
        return ", ".join(f"{key}={value}" for key, value in self.variant.items())

    @property
    def parameters(self) -> dict[str, Any]:
        """All that papermill injects."""
        folder = {_OUTPUT: str(self.folder / PARTS / self.slug)}
        return {**self.parameters_given, **(folder if _OUTPUT in self.notebook.parameters else {})}

    def pages(self, folder: Path) -> list[Path]:
        """Return where the executed notebook and its page are below a folder."""
        return [folder / "notebooks" / f"{self.slug}.{kind}" for kind in ("ipynb", "html")]


def plan(params: RunParams) -> list[Job]:
    """Return the executions that ``params`` asks for; raise what can be known to be wrong without running them."""
    jobs: list[Job] = []
    variants = params.variants()
    suffixes = _suffixes([words for _, words in variants])
    for (variant, words), suffix in zip(variants, suffixes, strict=True):
        values = resolve_parameters({"source": params.default("source"), **params.values, **variant})
        whole = Request.from_parameters(values)
        check_draws(**{k: values[k] for k in ("bootstrap_replicates", "confidence") if k in values})
        if whole.makes_images:
            validation.check_settings(whole.opened)
        planned = []
        for notebook in params.selected:
            if notebook.problem:
                # Once, whatever is swept. One that is just begun was asked for by a pattern, as others were.
                once = Job(notebook, {}, "", {}, notebook.problem, fails=notebook.is_tagged)
                planned += [] if jobs else [once]
                continue
            given = {k: v for k, v in values.items() if k in notebook.parameters}
            request = _request(notebook, given, whole)
            reason, without = _not_applicable(notebook, given, request), None
            if not reason and request is not None and request.makes_images:
                without = find_omissions(notebook.used_tables, notebook.required_tables, request.opened)
                reason = without.reason if without.on_purpose else ""
                if reason and notebook.id in params.notebooks:
                    raise ParameterError(f"The notebook {notebook.id} was selected and cannot run. {reason}")
            planned.append(Job(notebook, words, suffix, given, reason, request=request, omissions=without))
        doing = [job for job in planned if not job.reason]
        if not doing:
            raise ParameterError(planned[0].reason)
        taken = set().union(*(job.used_tables for job in doing))
        printed = any(sources.is_comparable(name, whole.source) for name in taken)
        if "baselines" in params.set_here and "published" in whole.baselines and not printed:
            raise ParameterError(
                "The papers print no values of these measures, so there is nothing to compare with. Leave out "
                "--baselines published, or select a paper's notebooks."
            )
        if whole.makes_images:
            _check_used(params.set_here, doing, whole)
            validation.check_plan(whole.opened, taken)
        jobs += planned
    return jobs


# Settings that have an effect on every run that generates images, whatever it measures.
_ALWAYS_USED = ("baselines", "compute.", "models")
_NO_CAPTIONS = (
    "no notebook that is executed takes captions, or none are given. Name them with captions.corpus, of an audit with "
    "--corpus"
)
# What lets settings of a group have an effect, where they have none.
_HINTS = {
    "captions": _NO_CAPTIONS,
    **{f"generation.{name}": _NO_CAPTIONS for name in COUNTS},
    "custom": "no notebook that is executed takes your own prompts or images. Select some",
    "endpoint": "no selected notebook uses an endpoint. Name one",
    "vision": "no judge is a vision model. Name one, as judging.gender=endpoint:NAME",
    "judging.annotations": "no selected notebook combines annotations and judge. Select one, such as beyond_precision",
    "judging.questions_file": "questions apply only to your own images or prompts. Name these",
    "judging.question_model": "questions apply only to your own images or prompts. Name these",
}


def _check_used(names: Iterable[str], doing: Sequence[Job], request: Request) -> None:
    """Refuse settings that a command sets, and that no measure of a run reads (ParameterError).

    What a command leaves empty takes a default away, whether it is read or not.
    """
    # What packages bring may take anything.
    if any(job.notebook.folder for job in doing):
        return
    taken = set().union(*(job.used_tables for job in doing))
    members = (request.opened, *request.opened.baseline_pipelines)
    read = set().union(*(plan_of(member).of_tables(taken).settings_read for member in members))
    for name in sorted(set(names).intersection(groups.names(Settings)) - read):
        if not name.startswith(_ALWAYS_USED) and attrgetter(name)(request.opened.settings) not in ("", ()):
            hint = _HINTS.get(name, _HINTS.get(name.partition(".")[0], "nothing that this run measures reads it"))
            raise ParameterError(f"{name} has no effect here: {hint}, or leave it out.")


def _request(notebook: Notebook, given: Mapping[str, Any], whole: Request) -> Request | None:
    """Return what a notebook asks for, where it has a source: mostly the very request of the run."""
    if "source" not in notebook.parameters:
        return None
    # Without these it does not apply where images are generated.
    if whole.makes_images and not {"model", "settings"}.issubset(notebook.parameters):
        return whole
    own = {k: v for k, v in notebook.parameters.items() if k in ("model", "seed")}
    request = Request.from_parameters({**own, **given})
    return whole if request == whole else request


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


def _not_applicable(notebook: Notebook, given: Mapping[str, Any], request: Request | None) -> str:
    """Return why ``notebook`` has nothing to do with these parameters; empty if it has."""
    paper = notebook.id.split("/")[0]
    paper = tables.papers()[paper].rests_on or paper if paper in tables.papers() else paper
    default = notebook.parameters.get("source", "published")
    source, model = (request.source, request.model) if request else (default, given.get("model", "all"))
    if default == "annotations" and source != "annotations":
        return "It reads a file of annotations: set source to 'annotations' and annotations to the file."
    if source == "annotations" and not any(t.rated for t in tables.schemas().values() if t.paper == paper):
        return f"Annotations contain no measurements for {paper}."
    if request is not None and request.makes_images:
        if paper not in tables.measuring_papers():
            return f"The pipeline measures nothing for {paper}."
        if "settings" not in notebook.parameters:
            return "It takes no settings, so it could measure something else than the rest of the run."
        return ""
    known = None if model == "all" else sources.models(paper, source=source, annotations=given.get("annotations", ""))
    if known is None or model in known:
        return ""
    return f"{source} has no measurements of the model {model!r} for {paper}. {name_help(model, known)}"


def describe_omissions(jobs: Iterable[Job]) -> list[str]:
    """Return what jobs do without because judges were given as empty, or never named: a sentence a setting."""
    # By setting: the notebooks left out, the tables of others, and those that say less.
    names: dict[str, tuple[set[str], set[str], set[str]]] = {}
    for job in (job for job in jobs if job.omissions):
        without = job.omissions
        found = ({}, without.tables, without.in_part)
        for kind, by_name in enumerate([{job.notebook.id: without.settings}] if job.reason else found):
            for name, setting in ((name, one) for name, settings in by_name.items() for one in settings):
                names.setdefault(setting, (set(), set(), set()))[kind].add(name)
    words = ("the notebooks ", "of others the tables ", "and in part, or by another judge, ")
    sentences = []
    # First those for which notebooks are left out, then those for which tables are.
    for setting, kinds in sorted(names.items(), key=lambda item: [not kind for kind in item[1]]):
        listed = "; ".join(w + ", ".join(sorted(k)) for w, k in zip(words, kinds, strict=True) if k)
        empty = "is off" if setting == "triplets.attention" else "names nothing"
        sentences.append(f"Left out, as {setting} {empty}: {listed}.")
    return sentences


def unmatched(opened: Iterable[OpenPipeline]) -> list[str]:
    """Return a sentence for each of a user's files whose names and those of a run do not all match."""
    pipelines = [one for own in opened for one in (own.pipeline, *own.pipeline.baseline_pipelines)]
    if not pipelines:
        return []
    from biaslab.analyses.custom import matching

    return matching.unmatched(pipelines)


# -- the pipelines that they open --------------------------------------------------------------------------


class OpenPipeline(NamedTuple):
    """A pipeline that notebooks of a run open."""

    pipeline: Pipeline
    tables: set[str]  # The measured tables that they take of it.
    notebooks: set[str]  # Their ids.


class Work(Protocol):
    """What a notebook that an installed package brings takes of a pipeline beyond the tables that it measures.

    The package that the entry point names (``biaslab.notebooks``) may have a function ``work(notebook, pipeline)``,
    which is asked with the id of one of its notebooks and returns this, or None where there is nothing beyond.
    """

    generators: Sequence[Pipeline]
    """The pipelines whose images for the templates it takes."""

    def stages(self) -> Sequence[Callable[[], object]]:
        """Return what takes long, in order; each may raise UnfinishedError where the pipeline computes a share."""


def work(notebook: str, pipeline: Pipeline) -> Iterator[Work]:
    """Yield what a notebook, by its id, takes beyond measured tables, as the packages say that bring it."""
    for package, folder in plugins.notebook_folders().items():
        if (folder / "notebooks" / f"{notebook}.ipynb").is_file():
            with loading(package, "a package with notebooks"):
                asked = getattr(importlib.import_module(package), "work", None)
            if asked and (more := asked(notebook, pipeline)) is not None:
                yield more


def pipelines(jobs: Iterable[Job], *, fresh: bool = False) -> list[OpenPipeline]:
    """Return the pipelines that jobs open, one for each model, seed and settings.

    Each keeps its plan; a ``fresh`` one is planned by what the cache has now.
    """
    opened: dict[str, OpenPipeline] = {}
    for job in jobs:
        if job.makes_images:
            own = job.request.pipeline(progress=False) if fresh else job.request.opened
            one = opened.setdefault(repr((own.model, own.settings, own.seed)), OpenPipeline(own, set(), set()))
            one.tables.update(job.used_tables)
            one.notebooks.add(job.notebook.id)
    return list(opened.values())


# -- what they read ----------------------------------------------------------------------------------------


def judges(jobs: Iterable[Job]) -> dict[str, dict[str, str]]:
    """Return digests of the judges that each job takes, by its slug."""
    known: dict[str, str] = {}
    return {
        job.slug: validation.judge_digests(job.request.opened, job.used_tables, known)
        for job in jobs
        if job.makes_images
    }


def read_sources(jobs: Iterable[Job]) -> None:
    """Read the files and folders of tables that jobs take, each once; raises as of :mod:`biaslab.study.sources`."""
    reading = [job for job in jobs if not (job.reason or job.makes_images) and input_of(job)]
    for job in {input_of(job): job for job in reading}.values():
        sources.read_tables(job.request)


def inputs(jobs: Sequence[Job], folder: Path) -> dict[str, str]:
    """Return a digest of each source that the jobs read, by path; none may be in the run's folder or around it.

    Raises as :func:`read_sources`.
    """
    read_sources(jobs)
    found: dict[str, str] = {}
    for job in jobs:
        name = input_of(job)
        if not name or name in found or job.reason:
            continue
        path = Path(name).resolve()
        inside = path.is_relative_to(folder) or folder.is_relative_to(path)
        if inside and not job.makes_images:
            raise RunError(
                f"The input {name} and the run's folder {folder} contain one another, so the run would replace its "
                "input. Choose another name with --set run=NAME."
            )
        found[name] = sources.digest(job.request)
    return found


def input_of(job: Job) -> str:
    """Return what a run calls the input of a job; empty for the published numbers."""
    request = job.request
    if request is None or request.source == "published":
        return ""
    if request.makes_images:
        from biaslab.pipeline.paths import INPUTS

        settings = dotted(job.parameters_given.get("settings") or {})
        given = (f"{name} {settings[name]}" for name in INPUTS if name in settings)
        return ", ".join([f"{request.source}: {request.generating_model}", *given])
    return str(Path(request.annotations if request.source == "annotations" else request.source))
