"""Checks of settings, models and input files before a run, and digests of the inputs of results."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Collection, Iterable

from biaslab.captions import fetched
from biaslab.captions.corpus import open_corpus
from biaslab.captions.settings import DOWNLOAD
from biaslab.errors import BiaslabError, MissingInputError, ParameterError, UnreachableHubError, name_help
from biaslab.hub.image_sources import FolderImages
from biaslab.io import cells, reading
from biaslab.judges import defaults
from biaslab.papers.dalleval import paintskills
from biaslab.pipeline import Pipeline
from biaslab.pipeline.stages import PROMPT_SETS
from biaslab.planning.measures import measures
from biaslab.planning.plan import plan_of
from biaslab.planning.records import ModelUse


def check_settings(pipeline: Pipeline) -> None:
    """Look up the names in a pipeline's settings, and the corpus; this needs no plan of a measured table.

    Raises ParameterError, InputError, UnknownNameError: A name is unknown or a file is missing.
    """
    s = pipeline.settings
    run_models = (pipeline.model, *s.baseline_models)
    for name in s.models:
        if name not in run_models:
            raise ParameterError(
                f"models contains {name!r}, which is not a model of this run. {name_help(name, run_models)}"
            )
    labels = [member.label for member in (pipeline, *pipeline.baseline_pipelines)]
    if repeated := [label for label in labels if labels.count(label) > 1]:
        raise ParameterError(
            f"Two models are called {repeated[0]!r} in tables. List each model once, and rename the folder of a copy."
        )
    _ = pipeline.workers, s.captions.corpus and pipeline.corpus.digest
    if pipeline.fetches_images:
        pipeline.check_urls()
    elif s.captions.training_images and not os.path.isdir(s.captions.training_images):
        raise ParameterError(f"captions.training_images is {s.captions.training_images!r}, which is not a folder.")


def check_models(pipeline: Pipeline, uses: Iterable[ModelUse]) -> list[str]:
    """Return the problems of models that measured tables use, found without loading weights."""
    problems = []
    for use in uses:
        try:
            use.files(pipeline)
            use.check_domain()
        except BiaslabError as error:
            is_default = isinstance(error, UnreachableHubError) and use.setting in defaults.SETTINGS
            advice = f" {defaults.offline_advice()}" if is_default else ""
            problems.append(use.describe_problem(error) + advice)
    # One judge may classify several kinds of images.
    return list(dict.fromkeys(problems))


def check_plan(pipeline: Pipeline, names: Iterable[str]) -> None:
    """Check the inputs of measured tables in a pipeline and its baselines: judges, captions, prompts, files.

    Raises ParameterError: Models or judges cannot be used; one message lists all. Otherwise raises as the measures.
    """
    names = sorted(measures().keys() & set(names))
    members = (pipeline, *pipeline.baseline_pipelines)
    problems = []
    for member in members:
        plan = plan_of(member)
        for name in names:
            if (missing := plan.table(name).missing) is not None and missing.settings:
                empty = " ".join(f"--set {setting}=" for setting in missing.settings)
                problems.append(f"{missing} To skip these measurements, set it to '' ({empty}).")
        problems += check_models(member, plan.of_tables(names).uses)
    if problems:
        raise combine_problems(problems)


def combine_problems(problems: Collection[str]) -> ParameterError:
    """Return one error with all problems."""
    messages = list(dict.fromkeys(problems))
    if len(messages) == 1:
        return ParameterError(messages[0])
    lines = "\n".join(f"  - {message}" for message in messages)
    return ParameterError(f"The run has {len(messages)} problems and was not started:\n{lines}")


def judge_digests(pipeline: Pipeline, names: Collection[str], cache: dict[str, str]) -> dict[str, str]:
    """Return digests of the judges that measured tables use, by setting and name; ``cache`` keeps computed digests."""
    judges = {
        f"{use.setting} {use.name}": use
        for member in (pipeline, *pipeline.baseline_pipelines)
        for use in plan_of(member).of_tables(names).uses
        if use.setting != "model"
    }
    cache |= {key: use.digest() for key, use in judges.items() if key not in cache}
    return {key: cache[key] for key in sorted(judges)}


def digest(pipeline: Pipeline) -> str:
    """Return a digest of inputs of results other than settings, seed, code and judges: model, captions, images."""
    settings = pipeline.settings
    folder = settings.captions.training_images
    triplets, design = settings.triplets, settings.dalleval
    digests = [pipeline.corpus.digest] if settings.captions.corpus else []
    folders = ("" if pipeline.fetches_images else folder, design.paintskills, design.image_folder)
    digests += [fetched.digest_of(folder)] if folder != DOWNLOAD and pipeline.fetches_images else []
    digests += [FolderImages(path).digest for path in folders if path]
    for member in (pipeline, *pipeline.baseline_pipelines):
        for prompt_set in PROMPT_SETS:
            # An absent model generates no images; the checks of models report it to users of its tables.
            with contextlib.suppress(MissingInputError):
                digests.append(member.image_model(prompt_set).digest)
    if design.paintskills:
        digests.append(paintskills.digest(design.paintskills))
    if design.captions:
        digests.append(open_corpus(design.captions).digest)
    state = hashlib.sha256(repr(digests).encode())
    custom = settings.custom
    files = (
        triplets.object_vocabulary_file,
        triplets.annotations,
        design.annotations,
        custom.prompts_file,
        custom.benchmark_file,
    )
    files += (
        settings.judging.questions_file,
        settings.captions.vocabulary_file,
        settings.paired.vocabulary_file,
        design.vocabulary_file,
    )
    if settings.judging.annotations:
        files += tuple(cells.files(settings.judging.annotations))
    for path in filter(None, files):
        state.update(reading.content(os.path.expanduser(path)))
    return state.hexdigest()
