"""The plan of a run before it starts: its models, and its images by paper and model, with time, disk and price."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from biaslab import stats
from biaslab.analyses.custom import matching
from biaslab.analyses.custom import prompts as custom_prompts
from biaslab.analyses.custom.stages import Custom
from biaslab.errors import InputError, ParameterError
from biaslab.execution import processor
from biaslab.generation.images import image_ids_of
from biaslab.io import cells
from biaslab.io.plaintext import normalize
from biaslab.judges.vision import READINGS
from biaslab.papers.dalleval.prompts import ATTRIBUTES
from biaslab.pipeline import Pipeline
from biaslab.planning import preflight
from biaslab.planning.costs import Cost
from biaslab.planning.plan import plan_of
from biaslab.planning.preflight import Preflight
from biaslab.planning.probes import Trial
from biaslab.planning.records import ImageRequest
from biaslab.ratings import annotations as annotation_files
from biaslab.runs import execute, jobs
from biaslab.schema import tables
from biaslab.schema.formatting import format_bytes, format_durations, format_level, format_range


def image_requests(open_pipelines: Iterable[jobs.OpenPipeline]) -> list[ImageRequest]:
    """Return the images that the pipelines of a run request, by kind and model; nothing is generated.

    Raises:
        ParameterError, InputError: A parameter or an input cannot be used.
    """
    requests: dict[tuple, ImageRequest] = {}
    for entry in open_pipelines:
        members = (entry.pipeline, *entry.pipeline.baseline_pipelines)
        plans = [plan_of(member).of_tables(entry.tables) for member in members]
        pipeline_requests = [request for plan in plans for request in plan.requests]
        for notebook in sorted(entry.notebooks):
            paper = notebook.split("/")[0]
            for work in jobs.work(notebook, entry.pipeline):
                for member in work.generators:
                    pipeline_requests += plan_of(member).run(_generate_templates, paper).requests
        for request in pipeline_requests:
            # Images that several notebooks request are generated once.
            texts = pd.util.hash_pandas_object(request.prompts[["prompt_id", "text", "n_images"]], index=False)
            contents = request.n_images, int(texts.sum()), request.pipeline.seed, request.pipeline.cache.root
            requests.setdefault((request.model, *request.cost_key, *contents), request)
    return list(requests.values())


def _generate_templates(pipeline: Pipeline) -> None:
    pipeline.images("generated")


def check_cached(request: ImageRequest, run: str) -> None:
    """Raise ParameterError unless a run's images are all cached; drawings with ground truth are generated when read."""
    if not request.image_model.truthful and request.n_cached < request.n_images:
        raise ParameterError(
            f"The cache {request.pipeline.cache.root} contains only {request.n_cached:,} of the {request.n_images:,} "
            f"images of {request.model} in the run {run}. Specify the cache that contains them with --set "
            f"compute.cache=FOLDER (saved parameters contain no folders), or run {run} again first."
        )


def run_preflight(planned: list[jobs.Job], progress: bool = False, **options: Any) -> Preflight:
    """Run the preflight check of jobs (:func:`biaslab.planning.preflight.run_preflight`); report with ``progress``."""
    open_pipelines = jobs.pipelines(planned)
    uses = [
        (member, plan_of(member).of_tables(entry.tables).uses)
        for entry in open_pipelines
        for member in (entry.pipeline, *entry.pipeline.baseline_pipelines)
    ]
    say = execute.print_message if progress else None
    return preflight.run_preflight(image_requests(open_pipelines), uses, say=say, **options)


def describe_omissions(planned: list[jobs.Job]) -> list[str]:
    """Return sentences on the results that jobs omit, and on names in a user's files that match nothing in the jobs.

    Raises as :func:`check_ratings`.
    """
    pipelines = jobs.pipelines(planned)
    return [
        *jobs.describe_omissions(planned),
        *jobs.describe_unmatched(pipelines),
        *check_ratings(image_requests(pipelines)),
    ]


def describe_assumptions(planned: list[jobs.Job]) -> list[str]:
    """Return sentences on the assumptions of jobs about a user's images (:mod:`biaslab.analyses.custom.matching`)."""
    run_pipelines = [entry.pipeline for entry in jobs.pipelines(planned)]
    members = (member for pipeline in run_pipelines for member in (pipeline, *pipeline.baseline_pipelines))
    pipelines = list({member.model: member for member in members}.values())
    return [*matching.describe_assumptions(pipelines), *matching.describe_scenes(pipelines)]


def check_ratings(requests: Iterable[ImageRequest]) -> list[str]:
    """Return a sentence for each file of annotations with images or models that a run does not request.

    The ids of images are unknown until captions are searched; then only the models are checked. Raises InputError: A
    file annotates none of the images, or no model of the run.
    """
    by_file: dict[str, list[ImageRequest]] = {}
    for request in requests:
        if file := request.pipeline.settings.judging.annotations:
            by_file.setdefault(file, []).append(request)
    sentences = []
    for file, file_requests in by_file.items():
        rows, name = annotation_files.read(file).query("source == 'generated'"), Path(file).name
        models = dict.fromkeys(request.pipeline.label for request in file_requests)
        other_models = [model for model in rows["model"].unique() if model not in ("", *models)]
        annotated_ids = rows.loc[~rows["model"].isin(other_models), "image_id"].unique()
        if other_models and not len(annotated_ids):
            raise InputError(
                f"{file} annotates images of {cells.join_values(other_models)}, but of none of this run's models: "
                f"{cells.join_values(models)}. Use these names in the column model, or remove judging.annotations."
            )
        if other_models:
            model_list = custom_prompts.describe_names(other_models, models)
            sentences.append(f"{name} annotates images of models that are not in this run: {model_list}.")
        ids_by_request = [_find_image_ids(request) for request in file_requests]
        if None in ids_by_request:
            continue
        ids = set().union(*filter(None, ids_by_request))
        missing_ids = [image_id for image_id in annotated_ids if image_id not in ids]
        if missing_ids and len(missing_ids) == len(annotated_ids):
            raise InputError(
                f"{file} annotates none of the images here, such as {min(ids)!r}, but others, such as "
                f"{annotated_ids[0]!r}. Use the image ids of pages from 'biaslab annotate', or remove "
                "judging.annotations."
            )
        if missing_ids:
            sentences.append(
                f"{len(missing_ids):,} of {len(annotated_ids):,} annotated images in {name} are not in this run: "
                f"{cells.join_values(missing_ids)}."
            )
    return sentences


def _find_image_ids(request: ImageRequest) -> set[str] | None:
    """Return the normalized ids of the requested images; None if captions are not searched yet."""
    if folder := request.pipeline.image_folder:
        return set(folder.people["image_id"].map(normalize))
    if request.at_most:
        return None
    units = request.prompts.loc[request.prompts.index.repeat(request.prompts["n_images"])]
    return set(map(normalize, image_ids_of(units.assign(index_=units.groupby("prompt_id").cumcount()))))


# -- in words ----------------------------------------------------------------------------------------------


def describe_run(checked: Preflight, omissions: Sequence[str], confidence: float = 0.95) -> str:
    """Return the plan of a run for a terminal: its models, its images, and the expected precision.

    ``omissions`` are the sentences that :func:`describe_omissions` returns.
    """
    lines_of_images = [*omissions, describe_images(checked.requests, checked.costs), *_describe_question_costs(checked)]
    summary = "\n".join([*lines_of_images, *_describe_margins(checked.requests, confidence)])
    if not checked.trials:
        return summary
    trials_by_use: dict[tuple, list[Trial]] = {}
    for trial in checked.trials:
        trials_by_use.setdefault((trial.use.setting, trial.use.name), []).append(trial)
    rows = [_COLUMNS, *(_row(parts) for parts in trials_by_use.values())]
    model_files = [files for trial in checked.trials for files in trial.located]
    notes = list(dict.fromkeys(remark for files in model_files for remark in files.remarks))
    notes += dict.fromkeys(f"Licence: {files.name}: {files.licence}." for files in model_files if files.licence)
    if size := preflight.download_size(checked.trials):
        free, cache = preflight.free_space()
        notes.append(
            f"Download: {format_bytes(size)} to {cache}, which has {format_bytes(free)} free. "
            "Models that are not on this machine were looked up but not tested; --fetch downloads and tests them."
        )
    devices = {trial.result.device for trial in checked.trials if trial.result} or {"cpu"}
    for device in sorted(devices):
        name, (free, total) = processor.describe_device(device), processor.memory(device)
        notes.append(f"Memory of {name}: {format_bytes(free)} of {format_bytes(total)} free.")
    # The settings with which each model generates images; the image sizes may differ.
    notes += dict.fromkeys(
        f"{trial.use.name}: {trial.settings_description}." for trial in checked.trials if trial.settings_description
    )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join([*lines, "", *notes, summary])


# Processes per processor; a model under test with one thread per processor stays below it.
_BUSY = 1.5
_COLUMNS = ("setting", "name", "commit", "download", "memory", "seconds per image", "price", "images")
_NONE = "-"
_AFTER = "  After a run, 'biaslab plan RUN --precision POINTS' estimates the images that other margins of error need."


def _row(parts: list[Trial]) -> tuple[str, ...]:
    """Return the table row of a model in one setting; ``parts`` are its trials, one for each kind of images."""
    use, s = parts[0].use, parts[0].request.settings
    model_files = [files for trial in parts for files in trial.located]
    # The model's own commit first, then those of its components.
    commits = list(dict.fromkeys(files.commit[:8] for files in model_files if files.commit))
    # The same files may be looked up for several uses.
    unique_files = {files.name: files for files in model_files}.values()
    size, weights = sum(files.download for files in unique_files), sum(files.size for files in unique_files)
    memory = f"at least {format_bytes(weights)}" if weights else _NONE
    price = image_domain = seconds = _NONE
    results = [trial.result for trial in parts if trial.result is not None]
    if results:
        memory = format_bytes(max(weights, *(result.memory for result in results)))
    if costs := [result.cost for result in results if result.cost]:
        limits = min(cost.seconds for cost in costs), max(cost.longest for cost in costs)
        seconds = format_range(*limits, "{:.2g}")
    if parts[0].image_request:
        image_domain = parts[0].image_request.image_model.image_domain
        if parts[0].image_request.price is not None:
            price = f"{parts[0].image_request.price:g}"
    elif use.image_domain:
        judge = use.judge
        if judge.is_charged and s.vision.price is not None:
            price = f"{s.vision.price:g} per question"
        image_domain = judge.domain
    location = "none" if all(trial.is_local for trial in parts) else "size unknown"
    download = format_bytes(size) if size else location if unique_files else _NONE
    return (use.setting, use.name, ", ".join(commits) or _NONE, download, memory, seconds, price, image_domain)


def _describe_question_costs(preflight: Preflight) -> list[str]:
    """Return the maximum price of questions to vision-language models, for each person in an image and each judge."""
    pipelines_by_judge: dict[str, dict[str, Pipeline]] = {}
    for trial in preflight.trials:
        judge = trial.use.judge
        if judge is not None and judge.is_charged:
            pipelines_by_judge.setdefault(trial.use.name, {})[trial.use.setting] = trial.pipeline
    lines = []
    # An upper bound; a custom prompt states its number of people.
    people_counts = (
        request.prompts["n_images"] * request.prompts.get("people", 1 + request.several_people)
        for request in preflight.requests
    )
    people = sum(int(n.sum()) for n in people_counts)
    for name, by_setting in pipelines_by_judge.items():
        n = 0
        for setting, pipeline in by_setting.items():
            custom = pipeline.part(Custom)
            n_questions = len(custom.questions()) if setting == custom.question_setting else 0
            n += people * (n_questions + (1 + len(ATTRIBUTES) if setting == "dalleval.vqa" else 1))
        s = pipeline.settings.vision
        price = n * s.price
        excess = f", which exceeds vision.cost_limit ({s.cost_limit:g})" if price > s.cost_limit else ""
        retries = f"; up to {READINGS} times as much if answers are not in the list" if price else ""
        lines.append(f"Price: {name} at most {n:,} questions x {s.price:g} = {price:,.2f}{excess}{retries}")
    return lines


def _describe_margins(requests: Iterable[ImageRequest], confidence: float) -> list[str]:
    """Return the expected margin of error of a share over one prompt's images, for each kind that shows people."""
    names = {kind: paper.drawn.get(kind, kind) for paper in tables.papers().values() for kind in paper.rated.split()}
    lines = {}
    for request in requests:
        n = request.prompts["n_images"]
        shows_people = request.kind in names and "skill" not in request.prompts
        if shows_people and len(n):
            ends = int(n.max()), int(n.min())
            widths = (stats.Design(1, 1, size, 100, clusters_random=False).half_width(confidence) for size in ends)
            sizes = f"{format_range(*reversed(ends), '{:,}')} image{'s' * (ends[0] > 1)}"
            lines[request.kind] = f"  {names[request.kind]:<32}{sizes:>20}  ±{format_range(*widths, '{:.1f}')} points"
    heading = f"Expected margin of error ({format_level(confidence)}) of a share of 50% in the images of one prompt:"
    return [heading, *lines.values(), _AFTER] if lines else []


def describe_images(requests: list[ImageRequest], measured: Mapping[tuple, Cost]) -> str:
    """Return the image counts of a run for a terminal, and their time and disk space if ``measured`` has them."""
    if not requests:
        return "This run generates no images."
    rows = []
    for request in requests:
        cost = measured.get(request.cost_key, Cost(0.0, 0.0, 0, 0.0))
        values = (
            request.paper,
            request.model,
            request.n_images,
            request.n_cached,
            request.at_most,
            request.n_remaining,
        )
        rows.append(
            (
                *values,
                request.n_remaining * cost.seconds,
                request.n_remaining * cost.longest,
                request.n_remaining * cost.bytes,
            )
        )
    names = ["paper", "model", "images", "there", "at_most", "left", "seconds", "longest", "bytes"]
    rows = pd.DataFrame(rows, columns=names)
    total, n_cached = rows["images"].sum(), rows["there"].sum()
    lines = [f"Images: {_format_bound(rows)}{total:,}" + (f", {n_cached:,} already cached" if n_cached else "")]
    for (paper, model), group in rows.groupby(["paper", "model"], sort=False):
        cached_note = f", {group['there'].sum():,} already cached" if group["there"].any() else ""
        n_remaining = group["left"].sum()
        per_image = [group[name].sum() / n_remaining for name in ("seconds", "longest")] if n_remaining else [0]
        timing = f" {format_range(*per_image, '{:.2g}'):>17} s each" if per_image[0] else ""
        lines.append(f"  {paper:<10}{model:<32}{_format_bound(group)}{group['images'].sum():>9,}{timing}{cached_note}")
    if measured:
        n = sum(cost.images for cost in measured.values())
        time_here = format_durations(rows["seconds"].sum(), rows["longest"].sum())
        lines.append(
            f"Time on this machine: {time_here} for generation (estimated from {n} partly generated images), plus "
            "classification"
        )
        if (busy := processor.load_per_processor()) > _BUSY:
            load = f"{busy:.1f} processes per processor"
            lines.append(f"  This machine was busy ({load}). Without this load, it may be many times as fast.")
        root, size = requests[0].pipeline.cache.root, float(rows["bytes"].sum())
        free = shutil.disk_usage(next(path for path in (root, *root.parents) if path.exists())).free
        lines.append(
            f"Disk: {format_bytes(size)}" + ("" if size < free else f", but only {format_bytes(free)} are free")
        )
    by_model: dict[str, list[ImageRequest]] = {}
    for request in requests:
        if request.price is not None:
            by_model.setdefault(request.model, []).append(request)
    for model, model_requests in by_model.items():
        n_remaining = sum(request.n_remaining for request in model_requests)
        unit_price, limit = model_requests[0].price, model_requests[0].image_model.cost_limit
        excess = f", which exceeds endpoint.cost_limit ({limit:g})" if n_remaining * unit_price > limit else ""
        lines.append(f"Price: {model} {n_remaining:,} x {unit_price:g} = {n_remaining * unit_price:,.2f}{excess}")
    return "\n".join(lines)


def _format_bound(rows: pd.DataFrame) -> str:
    return "at most " if rows["at_most"].any() else ""
