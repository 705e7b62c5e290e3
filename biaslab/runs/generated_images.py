"""Images of what a run's models drew, from its store: nothing is made or judged for them."""

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
    """Return one sentence on the images that are left out of a run, by model, reason and group; then what else is to be
    known of images: those in several groups, and those that look alike. Only of models whose images the cache has.
    """
    left_out, others, n = [], {}, 0
    for one in asked:
        made = None if one.image_model.truthful else listing.cached_images(one)
        if made is not None:
            n += 1
            text = one.pipeline.describe_left_out(made)
            left_out += [f"{one.model} {text}"] if text else []
            others |= dict.fromkeys(f"{one.model}: {text}" for text in duplicates.remarks(made))
    line = f"Images left out: {'; '.join(left_out)}." if left_out else "No image is unreadable, a duplicate or skipped."
    return [line, *others] if n else []


def describe_people(drawn: Iterable[image_pages.ModelImages], judge: str) -> list[str]:
    """Return sentences on models of which no person is judged, and on images that may be no photographs."""
    sentences = []
    for one in drawn:
        counts = one.people["status"].value_counts() if "status" in one.people else pd.Series(dtype=int)
        if counts.empty or not set(counts.index) <= set(STATUSES):
            continue
        if JUDGED not in counts:
            text = f"{one.model}: no person could be judged ({count_statuses(counts)})."
            sentences.append(" ".join(filter(None, (text, ADVICE.get(counts.index[0])))))
        unclear, judged = (int(counts.get(status, 0)) for status in (UNCERTAIN, JUDGED))
        if domain_of(one.images) == registry.PHOTOGRAPHS:
            doubt = photographs.doubt_photographs(judge, unclear, unclear + judged)
            sentences += [f"{one.model}: {doubt}"] if doubt else []
    return sentences


def written(folder: Path, planned: Iterable[jobs.Job]) -> tuple[list[dict], list[str]]:
    """Return what :func:`write` does, and notes, of :func:`remarks` first: what cannot be shown takes no result along.

    Prompts and images are listed next to them (:mod:`biaslab.runs.listing`).
    """
    try:
        asked = dry_run.image_requests(jobs.pipelines(planned, fresh=True))
        listing.write(folder, asked)
        drawn = list(draw_images(asked))
        judge = asked[0].pipeline.settings.judging.gender if asked else ""
        return write(folder, drawn), [*remarks(asked), *describe_people(drawn, judge)]
    except Exception as error:
        return [], [f"No images are shown: {type(error).__name__}: {error}"]


def write(folder: Path, drawn: Sequence[image_pages.ModelImages]) -> list[dict]:
    """Write a run's images into its folder, and return what its record says of them, an entry a model.

    What is there of the same images and judgements stays; so does what an earlier run left where the store has the
    images no more.
    """
    place = folder / STRIPS
    before = json.loads(place.read_text(encoding="utf-8")) if place.is_file() else {}
    # Strips whose intervals took people for the unit are written again.
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
