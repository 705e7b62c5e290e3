"""What a run will do, said before it starts: what it uses, and its images by paper and model, hours, disk and price."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from biaslab import stats
from biaslab.endpoints.settings import ENDPOINT
from biaslab.errors import InputError, ParameterError
from biaslab.execution import processor
from biaslab.generation.images import image_ids_of
from biaslab.io import cells
from biaslab.io.plaintext import plain
from biaslab.judges import domains
from biaslab.judges.judge_names import VQA
from biaslab.judges.vision import READINGS
from biaslab.pipeline import Pipeline, preflight
from biaslab.pipeline.image_counts import Asked, Cost, of_captions, of_tables
from biaslab.pipeline.preflight import Rehearsal
from biaslab.pipeline.probes import Trial
from biaslab.prompts import custom as asking
from biaslab.prompts.dalleval import ATTRIBUTES
from biaslab.ratings.annotated_subset import read as rated_part
from biaslab.runs import execute, jobs
from biaslab.schema import tables
from biaslab.schema.formatting import between, durations, level, megabytes


def asked(opened: Iterable[jobs.Opened]) -> list[Asked]:
    """Return the images that the pipelines of a run ask for, by kind and model; nothing is made.

    Raises:
        ParameterError, InputError: A parameter or an input cannot be used.
    """
    found: dict[tuple, Asked] = {}
    for own in opened:
        pipeline = own.pipeline
        some = [asks for one in (pipeline, *pipeline.others) for asks in of_tables(one, own.tables)]
        for notebook in sorted(own.notebooks):
            for more in jobs.work(notebook, pipeline):
                paper = notebook.split("/")[0]
                some += [of_captions(one, paper, "generated") for one in more.generators]
        for asks in some:
            # Whoever asks for the same images, they are made once.
            texts = pd.util.hash_pandas_object(asks.prompts[["prompt_id", "text", "n_images"]], index=False)
            same = asks.images, int(texts.sum()), asks.pipeline.seed, asks.pipeline.store.root
            found.setdefault((asks.model, *asks.alike, *same), asks)
    return list(found.values())


def check_there(one: Asked, run: str) -> None:
    """Refuse images of a run that are not all kept (ParameterError); drawings of known truth are made when read."""
    if not one.made_by.truthful and one.there < one.images:
        raise ParameterError(
            f"Of {one.images:,} images that {run} asks of {one.model}, {one.there:,} are in the store "
            f"{one.pipeline.store.root}. Name the store that has them with --set compute.cache=FOLDER (a run's own "
            f"parameters name no folders), or run {run} again first."
        )


def rehearse(planned: list[jobs.Job], progress: bool = False, **how: Any) -> Rehearsal:
    """Try what a run uses, as :func:`biaslab.pipeline.preflight.rehearsed` does; say so beside it with ``progress``."""
    opened, say = jobs.pipelines(planned), execute.print_aside if progress else None
    found = asked(opened)
    without = [*jobs.left_out(planned), *jobs.unmatched(opened), *check_ratings(found)]
    for text in without if say else ():
        say(text)
    each = [(one, own.tables) for own in opened for one in (own.pipeline, *own.pipeline.others)]
    return replace(preflight.rehearsed(found, each, say=say, **how), left_out=without)


def check_ratings(found: Iterable[Asked]) -> list[str]:
    """Return a sentence for each file of annotations that has images or models which a run does not ask for.

    Images of captions that are not searched yet have no known ids; of these only the models are checked. Raises
    InputError: A file annotates none of the images, or no model of the run.
    """
    by_file: dict[str, list[Asked]] = {}
    for one in found:
        if file := one.pipeline.settings.judging.annotations:
            by_file.setdefault(file, []).append(one)
    sentences = []
    for file, of in by_file.items():
        rated, name = rated_part(file).query("source == 'generated'"), Path(file).name
        models = dict.fromkeys(one.pipeline.label for one in of)
        others = [model for model in rated["model"].unique() if model not in ("", *models)]
        own = rated.loc[~rated["model"].isin(others), "image_id"].unique()
        if others and not len(own):
            raise InputError(
                f"{file} annotates images of {cells.listed(others)}, and of no model of this run: "
                f"{cells.listed(models)}. Name these in the column model, or leave out judging.annotations."
            )
        if others:
            listed = asking.listed(others, models)
            sentences.append(f"{name} annotates images of models that are not in this run: {listed}.")
        each = [_image_ids(one) for one in of]
        if None in each:
            continue
        ids = set().union(*filter(None, each))
        left = [image_id for image_id in own if image_id not in ids]
        if left and len(left) == len(own):
            raise InputError(
                f"{file} rates none of the images here, such as {min(ids)!r}; it has {own[0]!r}. Name images in "
                "it as the page of 'biaslab rate' does, or leave out judging.annotations."
            )
        if left:
            sentences.append(
                f"{len(left):,} of {len(own):,} annotated images in {name} are not in this run: {cells.listed(left)}."
            )
    return sentences


def _image_ids(asks: Asked) -> set[str] | None:
    """Return the ids, in their plain form, of the images asked for; None where captions are not searched yet."""
    if folder := asks.pipeline.custom.folder:
        return set(folder.people["image_id"].map(plain))
    if asks.at_most:
        return None
    units = asks.prompts.loc[asks.prompts.index.repeat(asks.prompts["n_images"])]
    return set(map(plain, image_ids_of(units.assign(index_=units.groupby("prompt_id").cumcount()))))


# -- in words ----------------------------------------------------------------------------------------------


def said(found: Rehearsal, confidence: float = 0.95) -> str:
    """Return what a run uses and will make, for a terminal: its models, its images, and how precise they make it."""
    lines_of_images = [*found.left_out, images(found.asked, found.measured), *_questions(found)]
    summary = "\n".join([*lines_of_images, *_margins(found.asked, confidence)])
    if not found.parts:
        return summary
    same: dict[tuple, list[Trial]] = {}
    for part in found.parts:
        same.setdefault((part.use.setting, part.use.name), []).append(part)
    rows = [_COLUMNS, *(_row(parts) for parts in same.values())]
    notes = list(dict.fromkeys(r for part in found.parts for at in part.located for r in at.remarks))
    if size := preflight.to_fetch(found.parts):
        free, cache = preflight.free()
        notes.append(
            f"Download: {megabytes(size)} to {cache}, where {megabytes(free)} are free. "
            "What is not here was looked up and not tried; --fetch fetches it and tries it, too."
        )
    where = {part.tried.device for part in found.parts if part.tried} or {"cpu"}
    for device in sorted(where):
        free, whole = processor.memory(device)
        notes.append(f"Memory here ({device}): {megabytes(free)} of {megabytes(whole)} free.")
    # By which settings each makes images; of one size or several.
    notes += dict.fromkeys(f"{part.use.name}: {part.words}." for part in found.parts if part.words)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join([*lines, "", *notes, summary])


# More than a model that is tried with a thread for each processor.
_BUSY = 1.5
_COLUMNS = ("what", "name", "commit", "download", "memory", "seconds an image", "price", "pictures")
_NONE = "-"
_AFTER = "  After a run, 'biaslab plan RUN --precision POINTS' expects intervals of its headlines from its images."


def _row(parts: list[Trial]) -> tuple[str, ...]:
    """Return what is known of a model in one setting; of what makes images of several kinds, of all of them."""
    use, s = parts[0].use, parts[0].request.settings
    located = [at for part in parts for at in part.located]
    # A model's own first, then of what it is made of.
    commits = list(dict.fromkeys(at.repository.commit[:8] for at in located if at.repository.commit))
    # The same files may be looked up for several uses.
    whole = {at.repository.name: at for at in located}.values()
    size, weights = sum(at.download for at in whole), sum(at.size for at in whole)
    memory = f"at least {megabytes(weights)}" if weights else _NONE
    price = pictures = seconds = _NONE
    tried = [part.tried for part in parts if part.tried is not None]
    if tried:
        memory = megabytes(max(weights, *(one.memory for one in tried)))
    if costs := [one.cost for one in tried if one.cost]:
        limits = min(cost.seconds for cost in costs), max(cost.longest for cost in costs)
        seconds = between(*limits, "{:.2g}")
    if parts[0].asked:
        pictures = parts[0].asked.made_by.pictures
        if use.name.startswith(ENDPOINT) and s.endpoint.price is not None:
            price = f"{s.endpoint.price:g}"
    elif use.pictures:
        if use.name.startswith(ENDPOINT) and s.vision.price is not None:
            price = f"{s.vision.price:g} a question"
        pictures = domains.knows(use.name, "vqa" if use.name.startswith(VQA) else use.kind)
    there = "here" if all(part.here for part in parts) else "size not told"
    fetched = megabytes(size) if size else there if whole else _NONE
    return (use.setting, use.name, ", ".join(commits) or _NONE, fetched, memory, seconds, price, pictures)


def _questions(found: Rehearsal) -> list[str]:
    """Return what questions to vision models cost at most: of each person whom images show, and each judge."""
    asked: dict[str, dict[str, Pipeline]] = {}
    for part in found.parts:
        if part.use.name.startswith(ENDPOINT) and part.asked is None:
            asked.setdefault(part.use.name, {})[part.use.setting] = part.pipeline
    lines = []
    # At most so many; a prompt of one's own says how many it asks for.
    each = (one.prompts["n_images"] * one.prompts.get("people", 1 + one.several) for one in found.asked)
    people = sum(int(n.sum()) for n in each)
    for name, by_setting in asked.items():
        n = 0
        for setting, pipeline in by_setting.items():
            own = len(pipeline.custom.questions()) if setting == pipeline.custom.question_model[0] else 0
            n += people * (own + (1 + len(ATTRIBUTES) if setting == "dalleval.vqa" else 1))
        s = pipeline.settings.vision
        price = n * s.price
        short = f", more than vision.cost_limit, {s.cost_limit:g}, allows" if price > s.cost_limit else ""
        again = f"; up to {READINGS} times where an answer is none of the list" if price else ""
        lines.append(f"Price: {name} at most {n:,} questions x {s.price:g} = {price:,.2f}{short}{again}")
    return lines


def _margins(found: Iterable[Asked], confidence: float) -> list[str]:
    """Return the expected margin of error of a share over one prompt's images, for each kind that shows people."""
    names = {kind: paper.drawn.get(kind, kind) for paper in tables.papers().values() for kind in paper.rated.split()}
    lines = {}
    for one in found:
        n = one.prompts["n_images"]
        if one.kind in names and len(n):
            ends = int(n.max()), int(n.min())
            widths = (stats.Design(1, 1, size, 100, drawn=False).half_width(confidence) for size in ends)
            sizes = f"{between(*reversed(ends), '{:,}')} image{'s' * (ends[0] > 1)}"
            lines[one.kind] = f"  {names[one.kind]:<32}{sizes:>20}  ±{between(*widths, '{:.1f}')} points"
    head = f"Expected margin of error ({level(confidence)}) of a share of 50 % over the images of one prompt:"
    return [head, *lines.values(), _AFTER] if lines else []


def images(found: list[Asked], measured: Mapping[tuple, Cost]) -> str:
    """Return the plan of a run in words, for a terminal: what is asked, and what it takes where that was measured."""
    if not found:
        return "This run makes no images."
    rows = []
    for one in found:
        of = measured.get(one.alike, Cost(0.0, 0.0, 0, 0.0))
        told = (one.paper, one.model, one.images, one.there, one.at_most, one.left)
        rows.append((*told, one.left * of.seconds, one.left * of.longest, one.left * of.bytes))
    names = ["paper", "model", "images", "there", "at_most", "left", "seconds", "longest", "bytes"]
    rows = pd.DataFrame(rows, columns=names)
    total, there = rows["images"].sum(), rows["there"].sum()
    lines = [f"Images: {_most(rows)}{total:,}" + (f", {there:,} already there" if there else "")]
    for (paper, model), of in rows.groupby(["paper", "model"], sort=False):
        kept = f", {of['there'].sum():,} already there" if of["there"].any() else ""
        each = [of[name].sum() / of["left"].sum() for name in ("seconds", "longest")] if of["left"].any() else [0]
        each = f" {between(*each, '{:.2g}'):>17} s each" if each[0] else ""
        lines.append(f"  {paper:<10}{model:<32}{_most(of)}{of['images'].sum():>9,}{each}{kept}")
    if measured:
        n = sum(of.images for of in measured.values())
        time_here = durations(rows["seconds"].sum(), rows["longest"].sum())
        lines.append(
            f"Time here: {time_here} to make them, as {n} took that were made in part to find out; judging them comes "
            "on top"
        )
        if (busy := processor.busy()) > _BUSY:
            each = f"{busy:.1f} processes wanted each processor"
            lines.append(f"  This machine was busy: {each}. Alone it may be many times as fast.")
        root, size = found[0].pipeline.store.root, float(rows["bytes"].sum())
        free = shutil.disk_usage(next(path for path in (root, *root.parents) if path.exists())).free
        lines.append(f"Disk: {megabytes(size)}" + ("" if size < free else f", and only {megabytes(free)} are free"))
    by_model: dict[str, list[Asked]] = {}
    for one in found:
        if one.price is not None:
            by_model.setdefault(one.model, []).append(one)
    for model, of in by_model.items():
        left, each, limit = sum(one.left for one in of), of[0].price, of[0].made_by.cost_limit
        short = f", more than endpoint.cost_limit, {limit:g}, lets it buy" if left * each > limit else ""
        lines.append(f"Price: {model} {left:,} x {each:g} = {left * each:,.2f}{short}")
    return "\n".join(lines)


def _most(rows: pd.DataFrame) -> str:
    return "at most " if rows["at_most"].any() else ""
