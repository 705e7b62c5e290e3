"""What a run asked of its models, as two files of its folder: its prompts, and its images with their seeds."""

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


def write(folder: Path, asked: Iterable[ImageRequest]) -> None:
    """Write the prompts and images that the store has complete; nothing is computed for it.

    Of several settings of one model the first are listed. What an earlier start listed stays where the store has not
    all images any more.
    """
    prompts, images, whole, listed = [], [], True, set()
    for one in asked:
        source = {"paper": one.paper, "kind": one.kind, "model": one.model}
        if tuple(source.values()) in listed:
            continue
        made = cached_images(one)
        if made is None:
            whole = False
            continue
        listed.add(tuple(source.values()))
        prompts.append(_prompts(one).assign(**source))
        images.append(duplicates.all_images(made).table.assign(**source))
    if prompts and (whole or not (folder / PROMPTS).is_file()):
        found = pd.concat(prompts, ignore_index=True)
        # The same prompts of several models are one row, so that the file can be given as custom.prompts_file.
        by = [name for name in found if name != "model"]
        found = found.groupby(by, sort=False, dropna=False)["model"].agg(", ".join).reset_index()
        # Without the guard against formulas, which would be part of the prompts of a run that is given the file.
        text = found.to_csv(index=False, lineterminator="\n")
        result_cache.replace(folder / PROMPTS, text.encode(errors="replace"))
        tables.write(pd.concat(images, ignore_index=True), folder / IMAGES)


def cached_images(one: ImageRequest) -> ImageSource | None:
    """Return the images of a request where the cache has all of them; None elsewhere. None is generated."""
    if not (one.image_model.truthful or one.n_cached == one.n_images > 0):
        return None
    pipeline, options = one.pipeline.cached_only(), {"several": one.several_people}
    # What is wrong with its images, notebooks have said.
    with contextlib.suppress(BiaslabError):
        return pipeline.generate_images(
            one.prompts, one.kind, one.prompt_set, storage_class=one.storage_class, **options
        )
    return None


def _prompts(one: ImageRequest) -> pd.DataFrame:
    """Return prompts with the columns of ``custom.prompts_file``; captions are others', unless a package
    brings them.
    """
    rows = one.prompts.drop_duplicates("prompt_id")
    group = next((name for name in ("group", "occupation", "profession") if name in rows), "text")
    if one.is_from_captions and one.pipeline.settings.captions.corpus not in plugins.entry_points(plugins.CORPORA):
        rows = rows.assign(text="", **{group: ""})
    columns = {"prompt": rows["text"], "group": rows[group], "n": rows["n_images"]}
    columns |= {name: rows[name] for name in ("condition",) if name in rows}
    return rows[["prompt_id"]].assign(**columns, people=rows.get("people", 1 + one.several_people))
