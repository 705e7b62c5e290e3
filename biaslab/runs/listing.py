"""The prompts of a run, and its images with their seeds, as two files in its folder."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from biaslab import plugins
from biaslab.cache import result_cache
from biaslab.errors import BiaslabError
from biaslab.hub.image_sources import ImageSource
from biaslab.judges import duplicates
from biaslab.planning.records import ImageRequest
from biaslab.runs.collect import IMAGES, PROMPTS
from biaslab.schema import tables


def write(folder: Path, requests: Iterable[ImageRequest]) -> None:
    """Write the prompts and images of requests whose images are all cached; nothing is computed.

    For several settings of one model, the first are listed. The prompts and images that an earlier start listed stay
    if the cache no longer has all images.
    """
    prompts, images, is_complete, keys_listed = [], [], True, set()
    for request in requests:
        source = {"paper": request.paper, "kind": request.kind, "model": request.model}
        if tuple(source.values()) in keys_listed:
            continue
        cached_source = cached_images(request)
        if cached_source is None:
            is_complete = False
            continue
        keys_listed.add(tuple(source.values()))
        prompts.append(_prompts(request).assign(**source))
        images.append(duplicates.all_images(cached_source).table.assign(**source))
    if prompts and (is_complete or not (folder / PROMPTS).is_file()):
        rows = pd.concat(prompts, ignore_index=True)
        # The same prompts of several models are one row, so that the file can be given as custom.prompts_file.
        keys = [name for name in rows if name != "model"]
        rows = rows.groupby(keys, sort=False, dropna=False)["model"].agg(", ".join).reset_index()
        # Without protection against spreadsheet formulas, which would change the prompts of a run on this file.
        text = rows.to_csv(index=False, lineterminator="\n")
        result_cache.replace(folder / PROMPTS, text.encode(errors="replace"))
        tables.write(pd.concat(images, ignore_index=True), folder / IMAGES)


def cached_images(request: ImageRequest) -> ImageSource | None:
    """Return the images of a request if all of them are cached, else None; no image is generated."""
    if not (request.image_model.truthful or request.n_cached == request.n_images > 0):
        return None
    pipeline, options = request.pipeline.cached_only(), {"several": request.several_people}
    # Notebooks have reported the problems of these images.
    with contextlib.suppress(BiaslabError):
        return pipeline.generate_images(
            request.prompts, request.kind, request.prompt_set, storage_class=request.storage_class, **options
        )
    return None


def _prompts(request: ImageRequest) -> pd.DataFrame:
    """Return prompts with the columns of ``custom.prompts_file``; texts of captions only if a package brings these,
    because other captions are third-party data.
    """
    rows = request.prompts.drop_duplicates("prompt_id")
    group = next((name for name in ("group", "occupation", "profession") if name in rows), "text")
    corpus = request.pipeline.settings.captions.corpus
    if request.is_from_captions and corpus not in plugins.entry_points(plugins.CORPORA):
        rows = rows.assign(text="", **{group: ""})
    columns = {"prompt": rows["text"], "group": rows[group], "n": rows["n_images"]}
    columns |= {name: rows[name] for name in ("condition",) if name in rows}
    return rows[["prompt_id"]].assign(**columns, people=rows.get("people", 1 + request.several_people))
