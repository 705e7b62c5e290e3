"""The pages and strips of a run's generated images, from its cache: nothing is generated or judged for them."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path

import pandas as pd

from biaslab.analyses.custom.summaries import count_statuses
from biaslab.cache import result_cache
from biaslab.errors import MissingInputError
from biaslab.hub import registry
from biaslab.hub.image_sources import domain_of
from biaslab.judges import duplicates, photographs
from biaslab.judges.judge_labels import ADVICE, JUDGED, STATUSES, UNCERTAIN
from biaslab.planning.records import ImageRequest
from biaslab.report import image_pages
from biaslab.runs import dry_run, jobs, listing
from biaslab.runs.collect import IMAGE_PAGES, STRIPS
from biaslab.schema import tables


def draw_images(requests: Sequence[ImageRequest]) -> Iterator[image_pages.ModelImages]:
    """Yield the requested images that are all cached, by paper, kind and model.

    If a model has several settings, the images of the first are yielded.
    """
    papers = tables.papers()
    n_settings, keys_shown = Counter((request.paper, request.kind, request.model) for request in requests), set()
    for request in requests:
        kinds, key = papers[request.paper].drawn, (request.paper, request.kind, request.model)
        if request.kind not in kinds or key in keys_shown:
            continue
        try:
            module = import_module(tables.module(request.paper, "measure"))
            people, images = module.people_in_images(request.pipeline.cached_only(), request.kind)
        except (result_cache.UnfinishedError, MissingInputError):
            continue
        keys_shown.add(key)
        kind_name = kinds[request.kind] + (f", the first of {n_settings[key]} settings" if n_settings[key] > 1 else "")
        if len(people):
            yield image_pages.ModelImages(
                request.paper, request.kind, kind_name, request.model, people.reset_index(drop=True), images
            )


def remarks(requests: Iterable[ImageRequest]) -> list[str]:
    """Return one sentence on the images that are left out of a run, by model, reason and group; then sentences on
    images in several groups and on near-duplicates. Only models whose images are cached are covered.
    """
    left_out, notes, n = [], {}, 0
    for request in requests:
        images = None if request.image_model.truthful else listing.cached_images(request)
        if images is not None:
            n += 1
            text = request.pipeline.describe_left_out(images)
            left_out += [f"{request.model} {text}"] if text else []
            notes |= dict.fromkeys(f"{request.model}: {text}" for text in duplicates.remarks(images))
    line = f"Excluded images: {'; '.join(left_out)}." if left_out else "No image was unreadable, duplicated or skipped."
    return [line, *notes] if n else []


def describe_people(model_images: Iterable[image_pages.ModelImages], judge: str) -> list[str]:
    """Return sentences on models without a classified person, and on images that may not be photographs."""
    sentences = []
    for entry in model_images:
        counts = entry.people["status"].value_counts() if "status" in entry.people else pd.Series(dtype=int)
        if counts.empty or not set(counts.index) <= set(STATUSES):
            continue
        if JUDGED not in counts:
            text = f"{entry.model}: no person could be judged ({count_statuses(counts)})."
            sentences.append(" ".join(filter(None, (text, ADVICE.get(counts.index[0])))))
        n_unclear, n_judged = (int(counts.get(status, 0)) for status in (UNCERTAIN, JUDGED))
        if domain_of(entry.images) == registry.PHOTOGRAPHS:
            doubt = photographs.doubt_photographs(judge, n_unclear, n_unclear + n_judged)
            sentences += [f"{entry.model}: {doubt}"] if doubt else []
    return sentences


def write_listing_and_images(folder: Path, planned: Iterable[jobs.Job]) -> tuple[list[dict], list[str]]:
    """Write the listing of prompts and images (:mod:`biaslab.runs.listing`), and the pages of images.

    Return the entries of :func:`write`, and notes that begin with those of :func:`remarks`. An error becomes a note, so
    that images that cannot be shown do not discard the results of the run.
    """
    try:
        requests = dry_run.image_requests(jobs.pipelines(planned, fresh=True))
        listing.write(folder, requests)
        model_images = list(draw_images(requests))
        judge = requests[0].pipeline.settings.judging.gender if requests else ""
        return write(folder, model_images), [*remarks(requests), *describe_people(model_images, judge)]
    except Exception as error:
        return [], [f"No images are shown: {type(error).__name__}: {error}"]


def write(folder: Path, model_images: Sequence[image_pages.ModelImages]) -> list[dict]:
    """Write a run's images into its folder, and return one entry per model for its record.

    Pages of the same images and judgements stay. The pages of an earlier run stay, too, if the cache no longer has its
    images.
    """
    place = folder / STRIPS
    earlier = json.loads(place.read_text(encoding="utf-8")) if place.is_file() else {}
    # Earlier versions wrote strips whose intervals used people as units; these are written again.
    state = hashlib.sha256(b"images are the unit")
    for entry in model_images:
        people = entry.people
        plain = people.drop(columns=[c for c in people if people[c].map(type).isin([list, dict]).any()])
        rows = pd.util.hash_pandas_object(plain.astype(str), index=False)
        state.update(f"{entry[:4]} {entry.images.digest} {int(rows.sum())} {len(rows)}".encode())
    digest = state.hexdigest()
    if earlier and (not model_images or earlier["digest"] == digest):
        return earlier["models"]
    if not model_images:
        return []
    by_model: dict[str, list[image_pages.ModelImages]] = {}
    for entry in model_images:
        texts = {name: entry.people[name].map(str) for name in ("group", "who", "prompt")}
        by_model.setdefault(entry.model, []).append(entry._replace(people=entry.people.assign(**texts)))
    # Removes the pages of models that the run no longer has, too.
    shutil.rmtree(folder / IMAGE_PAGES, ignore_errors=True)
    (folder / IMAGE_PAGES).mkdir(parents=True)
    models = []
    for k, (model, entries) in enumerate(by_model.items(), start=1):
        page = f"{IMAGE_PAGES}/model-{k}.html"
        counts = image_pages.write_model(folder / page, model, entries, index="../index.html")
        models.append({"model": model, "page": page, **counts})
    # The first kind of images for each paper and model, in the papers' order of kinds.
    papers, first_entries = tables.papers(), {}
    all_entries = [entry for entries in by_model.values() for entry in entries]
    for entry in sorted(all_entries, key=lambda entry: list(papers[entry.paper].drawn).index(entry.kind)):
        first_entries.setdefault((entry.paper, entry.model), entry)
    strips = image_pages.strips(sorted(first_entries.values(), key=lambda entry: list(papers).index(entry.paper)))
    record = {"digest": digest, "models": models, "strips": strips}
    result_cache.replace(place, json.dumps(record, ensure_ascii=False).encode(errors="replace"))
    return models
