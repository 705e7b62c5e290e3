"""What a run will do, said before it starts: what it uses, and its images by paper and model, hours, disk and price."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from biaslab import stats
from biaslab.analyses.custom import matching
from biaslab.analyses.custom import prompts as asking
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
from biaslab.ratings import annotations as annotated
from biaslab.runs import execute, jobs
from biaslab.schema import tables
from biaslab.schema.formatting import format_bytes, format_durations, format_level, format_range


def image_requests(opened: Iterable[jobs.OpenPipeline]) -> list[ImageRequest]:
    """Return the images that the pipelines of a run ask for, by kind and model; nothing is made.

    Raises:
        ParameterError, InputError: A parameter or an input cannot be used.
    """
    requests: dict[tuple, ImageRequest] = {}
    for entry in opened:
        members = (entry.pipeline, *entry.pipeline.baseline_pipelines)
        pipeline_requests = [asks for member in members for asks in plan_of(member).of_tables(entry.tables).requests]
        for notebook in sorted(entry.notebooks):
            paper = notebook.split("/")[0]
            for more in jobs.work(notebook, entry.pipeline):
                for member in more.generators:
                    pipeline_requests += plan_of(member).run(_templates, paper).requests
        for asks in pipeline_requests:
            # Whoever asks for the same images, they are made once.
            texts = pd.util.hash_pandas_object(asks.prompts[["prompt_id", "text", "n_images"]], index=False)
            same = asks.n_images, int(texts.sum()), asks.pipeline.seed, asks.pipeline.cache.root
            requests.setdefault((asks.model, *asks.cost_key, *same), asks)
    return list(requests.values())


def _templates(pipeline: Pipeline) -> None:
    pipeline.images("generated")


def check_cached(request: ImageRequest, run: str) -> None:
    """Refuse images of a run that are not all kept (ParameterError); drawings with ground truth are made when read."""
    if not request.image_model.truthful and request.n_cached < request.n_images:
        raise ParameterError(
            f"Of {request.n_images:,} images that {run} requests from {request.model}, {request.n_cached:,} are in the "
            f"cache {request.pipeline.cache.root}. Name the cache that contains them with --set compute.cache=FOLDER "
            f"(a run's own parameters name no folders), or run {run} again first."
        )


def run_preflight(planned: list[jobs.Job], progress: bool = False, **options: Any) -> Preflight:
    """Run the preflight check of jobs (:func:`biaslab.planning.preflight.run_preflight`); report with ``progress``."""
    opened = jobs.pipelines(planned)
    uses = [
        (member, plan_of(member).of_tables(entry.tables).uses)
        for entry in opened
        for member in (entry.pipeline, *entry.pipeline.baseline_pipelines)
    ]
    say = execute.print_aside if progress else None
    return preflight.run_preflight(image_requests(opened), uses, say=say, **options)


def describe_omissions(planned: list[jobs.Job]) -> list[str]:
    """Return sentences on what jobs do without, and on names in a user's files that match nothing of them.

    Raises as :func:`check_ratings`.
    """
    opened = jobs.pipelines(planned)
    return [*jobs.describe_omissions(planned), *jobs.unmatched(opened), *check_ratings(image_requests(opened))]


def describe_assumptions(planned: list[jobs.Job]) -> list[str]:
    """Return sentences on what jobs assume of a user's images (:func:`biaslab.analyses.custom.matching`)."""
    opened = [entry.pipeline for entry in jobs.pipelines(planned)]
    pipelines = list({one.model: one for own in opened for one in (own, *own.baseline_pipelines)}.values())
    return [*matching.describe_assumptions(pipelines), *matching.describe_scenes(pipelines)]


def check_ratings(requests: Iterable[ImageRequest]) -> list[str]:
    """Return a sentence for each file of annotations that has images or models which a run does not ask for.

    Images of captions that are not searched yet have no known ids; of these only the models are checked. Raises
    InputError: A file annotates none of the images, or no model of the run.
    """
    by_file: dict[str, list[ImageRequest]] = {}
    for request in requests:
        if file := request.pipeline.settings.judging.annotations:
            by_file.setdefault(file, []).append(request)
    sentences = []
    for file, file_requests in by_file.items():
        rated, name = annotated.read(file).query("source == 'generated'"), Path(file).name
        models = dict.fromkeys(request.pipeline.label for request in file_requests)
        others = [model for model in rated["model"].unique() if model not in ("", *models)]
        annotated_ids = rated.loc[~rated["model"].isin(others), "image_id"].unique()
        if others and not len(annotated_ids):
            raise InputError(
                f"{file} annotates images of {cells.join_values(others)}, and of no model of this run: "
                f"{cells.join_values(models)}. Name these in the column model, or leave out judging.annotations."
            )
        if others:
            listed = asking.listed(others, models)
            sentences.append(f"{name} annotates images of models that are not in this run: {listed}.")
        each = [_image_ids(request) for request in file_requests]
        if None in each:
            continue
        ids = set().union(*filter(None, each))
        missing_ids = [image_id for image_id in annotated_ids if image_id not in ids]
        if missing_ids and len(missing_ids) == len(annotated_ids):
            raise InputError(
                f"{file} annotates none of the images here, such as {min(ids)!r}; it has {annotated_ids[0]!r}. Name "
                "images in "
                "it as the page of 'biaslab annotate' does, or leave out judging.annotations."
            )
        if missing_ids:
            sentences.append(
                f"{len(missing_ids):,} of {len(annotated_ids):,} annotated images in {name} are not in this "
                f"run: "
                f"{cells.join_values(missing_ids)}."
            )
    return sentences


def _image_ids(asks: ImageRequest) -> set[str] | None:
    """Return the ids, in their plain form, of the images asked for; None where captions are not searched yet."""
    if folder := asks.pipeline.image_folder:
        return set(folder.people["image_id"].map(normalize))
    if asks.at_most:
        return None
    units = asks.prompts.loc[asks.prompts.index.repeat(asks.prompts["n_images"])]
    return set(map(normalize, image_ids_of(units.assign(index_=units.groupby("prompt_id").cumcount()))))


# -- in words ----------------------------------------------------------------------------------------------


def describe_run(checked: Preflight, omissions: Sequence[str], confidence: float = 0.95) -> str:
    """Return what a run uses and will make, for a terminal: its models, its images, and how precise they make it.

    ``omissions`` are what :func:`describe_omissions` returns.
    """
    lines_of_images = [*omissions, describe_images(checked.requests, checked.costs), *_questions(checked)]
    summary = "\n".join([*lines_of_images, *_margins(checked.requests, confidence)])
    if not checked.trials:
        return summary
    same: dict[tuple, list[Trial]] = {}
    for part in checked.trials:
        same.setdefault((part.use.setting, part.use.name), []).append(part)
    rows = [_COLUMNS, *(_row(parts) for parts in same.values())]
    located = [at for part in checked.trials for at in part.located]
    notes = list(dict.fromkeys(remark for at in located for remark in at.remarks))
    notes += dict.fromkeys(f"Licence: {at.name}: {at.licence}." for at in located if at.licence)
    if size := preflight.download_size(checked.trials):
        free, cache = preflight.free_space()
        notes.append(
            f"Download: {format_bytes(size)} to {cache}, where {format_bytes(free)} are free. "
            "Models that are not here were resolved but not run; --fetch downloads and runs these, too."
        )
    where = {part.result.device for part in checked.trials if part.result} or {"cpu"}
    for device in sorted(where):
        free, whole = processor.memory(device)
        notes.append(f"Memory here ({device}): {format_bytes(free)} of {format_bytes(whole)} free.")
    # By which settings each generates images; of one size or several.
    notes += dict.fromkeys(
        f"{part.use.name}: {part.settings_description}." for part in checked.trials if part.settings_description
    )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join([*lines, "", *notes, summary])


# More than a model that is tried with a thread for each processor.
_BUSY = 1.5
_COLUMNS = ("what", "name", "commit", "download", "memory", "seconds per image", "price", "pictures")
_NONE = "-"
_AFTER = "  After a run, 'biaslab plan RUN --precision POINTS' expects intervals of its headlines from its images."


def _row(parts: list[Trial]) -> tuple[str, ...]:
    """Return what is known of a model in one setting; of what generates images of several kinds, of all of them."""
    use, s = parts[0].use, parts[0].request.settings
    located = [at for part in parts for at in part.located]
    # A model's own first, then of what it is made of.
    commits = list(dict.fromkeys(at.commit[:8] for at in located if at.commit))
    # The same files may be looked up for several uses.
    whole = {at.name: at for at in located}.values()
    size, weights = sum(at.download for at in whole), sum(at.size for at in whole)
    memory = f"at least {format_bytes(weights)}" if weights else _NONE
    price = pictures = seconds = _NONE
    tried = [part.result for part in parts if part.result is not None]
    if tried:
        memory = format_bytes(max(weights, *(result.memory for result in tried)))
    if costs := [result.cost for result in tried if result.cost]:
        limits = min(cost.seconds for cost in costs), max(cost.longest for cost in costs)
        seconds = format_range(*limits, "{:.2g}")
    if parts[0].image_request:
        pictures = parts[0].image_request.image_model.image_domain
        if parts[0].image_request.price is not None:
            price = f"{parts[0].image_request.price:g}"
    elif use.image_domain:
        judge = use.judge
        if judge.is_charged and s.vision.price is not None:
            price = f"{s.vision.price:g} a question"
        pictures = judge.domain
    location = "here" if all(part.is_local for part in parts) else "size unknown"
    fetched = format_bytes(size) if size else location if whole else _NONE
    return (use.setting, use.name, ", ".join(commits) or _NONE, fetched, memory, seconds, price, pictures)


def _questions(preflight: Preflight) -> list[str]:
    """Return what questions to vision models cost at most: of each person whom images show, and each judge."""
    pipelines_by_judge: dict[str, dict[str, Pipeline]] = {}
    for part in preflight.trials:
        judge = part.use.judge
        if judge is not None and judge.is_charged:
            pipelines_by_judge.setdefault(part.use.name, {})[part.use.setting] = part.pipeline
    lines = []
    # At most so many; a custom prompt states its number of people.
    each = (
        request.prompts["n_images"] * request.prompts.get("people", 1 + request.several_people)
        for request in preflight.requests
    )
    people = sum(int(n.sum()) for n in each)
    for name, by_setting in pipelines_by_judge.items():
        n = 0
        for setting, pipeline in by_setting.items():
            custom = pipeline.part(Custom)
            n_questions = len(custom.questions()) if setting == custom.question_setting else 0
            n += people * (n_questions + (1 + len(ATTRIBUTES) if setting == "dalleval.vqa" else 1))
        s = pipeline.settings.vision
        price = n * s.price
        short = f", more than vision.cost_limit, {s.cost_limit:g}, allows" if price > s.cost_limit else ""
        again = f"; up to {READINGS} times where an answer is none of the list" if price else ""
        lines.append(f"Price: {name} at most {n:,} questions x {s.price:g} = {price:,.2f}{short}{again}")
    return lines


def _margins(requests: Iterable[ImageRequest], confidence: float) -> list[str]:
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
    head = f"Expected margin of error ({format_level(confidence)}) of a share of 50 % over the images of one prompt:"
    return [head, *lines.values(), _AFTER] if lines else []


def describe_images(requests: list[ImageRequest], measured: Mapping[tuple, Cost]) -> str:
    """Return the plan of a run in words, for a terminal: what is asked, and what it takes where that was measured."""
    if not requests:
        return "This run makes no images."
    rows = []
    for request in requests:
        of = measured.get(request.cost_key, Cost(0.0, 0.0, 0, 0.0))
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
                request.n_remaining * of.seconds,
                request.n_remaining * of.longest,
                request.n_remaining * of.bytes,
            )
        )
    names = ["paper", "model", "images", "there", "at_most", "left", "seconds", "longest", "bytes"]
    rows = pd.DataFrame(rows, columns=names)
    total, n_cached = rows["images"].sum(), rows["there"].sum()
    lines = [f"Images: {_most(rows)}{total:,}" + (f", {n_cached:,} already there" if n_cached else "")]
    for (paper, model), of in rows.groupby(["paper", "model"], sort=False):
        kept = f", {of['there'].sum():,} already there" if of["there"].any() else ""
        each = [of[name].sum() / of["left"].sum() for name in ("seconds", "longest")] if of["left"].any() else [0]
        each = f" {format_range(*each, '{:.2g}'):>17} s each" if each[0] else ""
        lines.append(f"  {paper:<10}{model:<32}{_most(of)}{of['images'].sum():>9,}{each}{kept}")
    if measured:
        n = sum(of.images for of in measured.values())
        time_here = format_durations(rows["seconds"].sum(), rows["longest"].sum())
        lines.append(
            f"Time here: {time_here} to generate them, estimated from {n} partly generated images, plus classification"
        )
        if (busy := processor.busy()) > _BUSY:
            each = f"{busy:.1f} processes wanted each processor"
            lines.append(f"  This machine was busy: {each}. Alone it may be many times as fast.")
        root, size = requests[0].pipeline.cache.root, float(rows["bytes"].sum())
        free = shutil.disk_usage(next(path for path in (root, *root.parents) if path.exists())).free
        lines.append(
            f"Disk: {format_bytes(size)}" + ("" if size < free else f", and only {format_bytes(free)} are free")
        )
    by_model: dict[str, list[ImageRequest]] = {}
    for request in requests:
        if request.price is not None:
            by_model.setdefault(request.model, []).append(request)
    for model, of in by_model.items():
        n_remaining, each, limit = sum(request.n_remaining for request in of), of[0].price, of[0].image_model.cost_limit
        short = f", more than endpoint.cost_limit, {limit:g}, lets it buy" if n_remaining * each > limit else ""
        lines.append(f"Price: {model} {n_remaining:,} x {each:g} = {n_remaining * each:,.2f}{short}")
    return "\n".join(lines)


def _most(rows: pd.DataFrame) -> str:
    return "at most " if rows["at_most"].any() else ""
