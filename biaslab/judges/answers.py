"""Ask judges that answer in words (``vqa:NAME``, ``endpoint:NAME``) about images and the people in them."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pandas as pd

from biaslab.cache.result_cache import ResultCache
from biaslab.execution.progress import begin_batch
from biaslab.hub.image_sources import ImageSource, domain_of
from biaslab.judges.judge import Judge
from biaslab.judges.judge_labels import NO_PERSON, UNCLEAR
from biaslab.judges.people import BOX, add_parts, cut_out, frame, open_image, read_ahead
from biaslab.judges.person import wider
from biaslab.judges.questions import place

ANSWERED = ("image_id", "status", "reason", "answer", "image_width", "image_height")
_PART = ("first", "last")
_UNITS = ("image_id", "question", "answers", *BOX, *_PART)
_SHARD_ROWS = 256


def ask_about(
    images: ImageSource,
    units: pd.DataFrame,
    judge: Judge,
    *,
    cache: ResultCache,
    progress: bool = True,
    unit="questions",
) -> pd.DataFrame:
    """Ask a judge about images; earlier answers are read from ``cache``.

    Args:
        images: The images.
        units: One row per question: image_id, question, and optionally answers (a list as JSON; free text without),
            x0, y0, x1, y1 (a face in pixels, around which the image is cropped), first and last (the columns to crop
            from).
        judge: A judge with ``ask``.
        unit: The unit of the progress bar.

    Returns one row per row of ``units``, in its order: image_id, status (empty where answered, else ``unreadable``,
    ``blocked``, ``black``, ``duplicate`` or ``unanswered``), reason, answer (on one line), image_width and image_height
    in pixels. Raises as ``ask`` of the judge.
    """
    image_domain, judge = domain_of(images), judge.fresh()

    def work(shard: pd.DataFrame) -> pd.DataFrame:
        rows: dict[int, dict] = {}
        for ids, pixel_arrays in read_ahead(images, list(dict.fromkeys(shard["image_id"])), judge):
            pixels = dict(zip(ids, pixel_arrays, strict=True))
            batch_units = shard[shard["image_id"].isin(ids)]
            begin_batch(len(batch_units))
            rows |= {k: {**open_image(i, pixels[i]), "answer": ""} for k, i in batch_units["image_id"].items()}
            readable = batch_units[[not rows[k]["status"] for k in batch_units.index]]
            views = [
                pixels[row["image_id"]] if np.isnan(row["x0"]) else wider(cut_out(pixels[row["image_id"]], row))
                for row in readable.to_dict("records")
            ]
            forms = [json.loads(text or "[]") for text in readable["answers"]]
            replies = judge.ask(views, list(readable["question"]), forms, image_domain) if views else ()
            for k, reply in zip(readable.index, replies, strict=True):
                rows[k].update(reply._asdict())
        return frame((rows[k] for k in shard.index), ANSWERED)

    all_units = units.reset_index(drop=True).reindex(columns=list(_UNITS))
    all_units = all_units.astype({"answers": object} | dict.fromkeys((*BOX, *_PART), float))
    all_units["answers"] = all_units["answers"].fillna("")
    stage = cache.stage("answers", {"images": images.digest} | judge.inputs, work)
    bar = {"label": f"asking {judge.name} about {images.name}", "unit": unit, "progress": progress}
    gpu = not judge.is_charged and judge.options.device != "cpu"
    return frame(stage.compute(all_units, shard_rows=_SHARD_ROWS, gpu=gpu, **bar), ANSWERED)


def question_units(people: pd.DataFrame, question: str, answers: Sequence[str], judge: Judge) -> pd.DataFrame:
    """Return a question about each person, as units for :func:`ask_about`; the index is that of ``people``.

    ``people`` has one row per person: image_id, and optionally position, image_width and x0, y0, x1, y1. For a judge
    that needs faces, people without one are omitted. ``unclear`` and ``nobody`` are added to ``answers``.
    """
    positions = people.get("position", pd.Series(1, people.index)).astype(int)
    counts = positions.groupby(people["image_id"].astype(str)).transform("max")
    form = json.dumps([*(a for a in answers if a != UNCLEAR), UNCLEAR, NO_PERSON])
    units = pd.DataFrame({"image_id": people["image_id"].astype(str).astype(object), "answers": form})
    if not judge.needs_faces:
        places = [place(k, n) for k, n in zip(positions, counts, strict=True)]
        questions = [
            f"About the person{phrase} in the picture: {question}" if phrase else question for phrase in places
        ]
        return units.assign(question=questions)
    people = people.assign(image_id=units["image_id"], position=positions)
    located = add_parts(people)[[*BOX, *_PART]].astype(float)
    return units.assign(question=question, **located)[located["x0"].notna()]
