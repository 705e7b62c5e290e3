"""Pictures of what a run's models drew, from its store: nothing is made or judged for them."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path

import pandas as pd

from biaslab.cache import result_cache
from biaslab.errors import MissingInputError
from biaslab.planning.records import ImageRequest
from biaslab.report import image_pages
from biaslab.runs import dry_run, jobs, listing
from biaslab.runs.collect import IMAGE_PAGES, STRIPS
from biaslab.schema import tables


def draw_images(asked: Sequence[ImageRequest]) -> Iterator[image_pages.ModelImages]:
    """Yield the images asked for that the models of a run made and its store has whole, by paper, kind and model.

    Of several settings of one model those that come first.
    """
    papers = tables.papers()
    several, shown = Counter((one.paper, one.kind, one.model) for one in asked), set()
    for one in asked:
        kinds, key = papers[one.paper].drawn, (one.paper, one.kind, one.model)
        if one.kind not in kinds or key in shown:
            continue
        try:
            room = import_module(tables.module(one.paper, "measure"))
            people, images = room.people_in_images(one.pipeline.cached_only(), one.kind)
        except (result_cache.UnfinishedError, MissingInputError):
            continue
        shown.add(key)
        called = kinds[one.kind] + (f", the first of {several[key]} settings" if several[key] > 1 else "")
        if len(people):
            yield image_pages.ModelImages(one.paper, one.kind, called, one.model, people.reset_index(drop=True), images)


def remarks(asked: Iterable[ImageRequest]) -> list[str]:
    """Return sentences on copies and black images, of models whose images the cache has."""
    found: dict[str, None] = {}
    for one in asked:
        made = None if one.image_model.truthful else listing.cached_images(one)
        if made is not None:
            found |= dict.fromkeys(f"{one.model}: {text}" for text in one.pipeline.image_remarks(made))
    return list(found)


def written(folder: Path, planned: Iterable[jobs.Job]) -> tuple[list[dict], list[str]]:
    """Return what :func:`write` does, and notes, of :func:`remarks` too: what cannot be shown takes no result along.

    Prompts and images are listed next to them (:mod:`biaslab.runs.listing`).
    """
    try:
        asked = dry_run.image_requests(jobs.pipelines(planned, fresh=True))
        listing.write(folder, asked)
        return write(folder, asked), remarks(asked)
    except Exception as error:
        return [], [f"No images are shown: {type(error).__name__}: {error}"]


def write(folder: Path, asked: Sequence[ImageRequest]) -> list[dict]:
    """Write a run's pictures into its folder, and return what its record says of them, an entry a model.

    What is there of the same images and judgements stays; so does what an earlier run left where the store has the
    images no more.
    """
    drawn = list(draw_images(asked))
    place = folder / STRIPS
    before = json.loads(place.read_text(encoding="utf-8")) if place.is_file() else {}
    # Strips whose intervals took people for the unit are written anew.
    whole = hashlib.sha256(b"images are the unit")
    for one in drawn:
        plain = one.people.drop(columns=[c for c in one.people if one.people[c].map(type).isin([list, dict]).any()])
        rows = pd.util.hash_pandas_object(plain.astype(str), index=False)
        whole.update(f"{one[:4]} {one.images.digest} {int(rows.sum())} {len(rows)}".encode())
    digest = whole.hexdigest()
    if before and (not drawn or before["digest"] == digest):
        return before["models"]
    if not drawn:
        return []
    by_model: dict[str, list[image_pages.ModelImages]] = {}
    for one in drawn:
        texts = {name: one.people[name].map(str) for name in ("group", "who", "prompt")}
        by_model.setdefault(one.model, []).append(one._replace(people=one.people.assign(**texts)))
    # With the pages of models that are there no more.
    shutil.rmtree(folder / IMAGE_PAGES, ignore_errors=True)
    (folder / IMAGE_PAGES).mkdir(parents=True)
    models = []
    for k, (model, of) in enumerate(by_model.items(), start=1):
        page = f"{IMAGE_PAGES}/model-{k}.html"
        counts = image_pages.write_model(folder / page, model, of, index="../index.html")
        models.append({"model": model, "page": page, **counts})
    # The first kind of each paper and model, in the order in which papers name their kinds.
    papers, first = tables.papers(), {}
    of_models = [one for of in by_model.values() for one in of]
    for one in sorted(of_models, key=lambda one: list(papers[one.paper].drawn).index(one.kind)):
        first.setdefault((one.paper, one.model), one)
    strips = image_pages.strips(sorted(first.values(), key=lambda one: list(papers).index(one.paper)))
    record = {"digest": digest, "models": models, "strips": strips}
    result_cache.replace(place, json.dumps(record, ensure_ascii=False).encode(errors="replace"))
    return models
