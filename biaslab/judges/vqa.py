"""Perceived gender of each person by visual question answering: BLIP or BLIP-2, asked about the whole image; captions.

The paper finds that such a judge agrees with people on images of one person and hardly at all on images of two (Table
9): it is here so that this can be measured.

Source: paired paper, appendix D, Table 8; BLIP-2's form of a question is that of its authors. Of captions the dalleval
paper, section 4.3, which takes VL-T5 fine-tuned on COCO.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from biaslab.cache.result_cache import ResultCache, Stage
from biaslab.execution.workers import Memoized
from biaslab.hub import registry as named
from biaslab.hub.image_sources import ImageSource
from biaslab.judges import blip, judge, people
from biaslab.judges.questions import question, read_answer

COLUMNS = (*people.COLUMNS, "answer")
ANSWERED = ("image_id", "status", "reason", "answer", "image_width", "image_height")

_SHARD_ROWS = 1024
_AT_A_TIME = 64  # images read and encoded at once


def judge_people_vqa(images: ImageSource, asked: pd.DataFrame, name: str, **options: Any) -> pd.DataFrame:
    """Judge the people of images by asking about each; what was asked before is read again.

    ``asked`` has a row a person: image_id, position (1 is the leftmost, up to 3), phrase. ``name`` is ``vqa:`` and a
    hub name or folder of a BLIP model for questions or of a BLIP-2 model; ``options`` and errors are as for
    :func:`ask_about`.

    Returns one row per row of ``asked``, in its order, with :data:`COLUMNS`: status is ``judged``, ``uncertain``
    (``reason`` says what the answer lacks), ``unreadable`` or ``blocked``; answer is the model's own text. What faces
    and probabilities would give is NaN, and ``role`` is empty. Raises InputError where an image is not in the source's
    table.
    """
    told = people.phrases_of(asked)
    rows = list(zip(asked["image_id"].astype(str), asked["position"].astype(int), strict=True))
    units = pd.DataFrame([i for i, _ in rows], columns=["image_id"], dtype=object)
    units["question"] = [question(told[i][at - 1], at, len(told[i])) for i, at in rows]
    seen = ask_about(images, units, name, unit="people", **options).assign(position=[at for _, at in rows])
    seen = seen.assign(gender="", role="")
    said = pd.DataFrame([read_answer(text) for text in seen["answer"]], seen.index, ["gender", "reason"])
    said["status"] = np.where(said["gender"] == "unsure", "uncertain", judge.JUDGED)
    asked_about = seen["status"] == ""
    seen.loc[asked_about, said.columns] = said[asked_about]
    return judge.frame(seen, COLUMNS)


def ask_about(
    images: ImageSource,
    units: pd.DataFrame,
    name: str,
    *,
    cache: ResultCache,
    device: str = "auto",
    progress: bool = True,
    unit: str = "questions",
    kind: str = "vqa",
) -> pd.DataFrame:
    """Put questions to images, each of which is encoded once for questions that lie together.

    ``units`` has image_id and question; ``unit`` is what progress counts, ``kind`` the model's: ``vqa``, or
    ``captioner``, which says in a sentence what an image shows where the question is empty.

    Returns one row per row of ``units``, in its order: image_id, outcome (empty where asked, ``unreadable`` or
    ``blocked``), reason, answer (the model's own text, on one line), image_width and image_height in pixels. Raises
    ParameterError where the model cannot be had.
    """
    inputs = {"images": images.digest, "kind": kind, "weights": named.digest(blip.located(name, kind))}
    ready = Memoized(partial(blip.load, name, kind, device=device))

    def ask(pixels: dict[str, np.ndarray], asked: pd.DataFrame) -> list[dict]:
        of, there = pd.factorize(asked["image_id"])
        answers = ready().ask([pixels[image_id] for image_id in there], of, list(asked["question"]))
        return [{"answer": line(answer)} for answer in answers]

    stage = partial(cache.stage, "answers", inputs)
    bar = {"label": f"asking about {images.name}", "unit": unit, "progress": progress, "shard_rows": _SHARD_ROWS}
    return answer_units(images, units, ask, stage, device, **bar)


def answer_units(
    images: ImageSource,
    units: pd.DataFrame,
    ask: Callable[[dict[str, np.ndarray], pd.DataFrame], list[dict]],
    stage: Callable[..., Stage],
    device: str,
    **options: Any,
) -> pd.DataFrame:
    """Return the answers to questions about images, as :func:`ask_about` has them, kept in a stage.

    ``ask`` is given images by id and the rows of ``units`` about those that can be read, of which it returns what each
    gets; ``options`` are those of :meth:`biaslab.cache.result_cache.Stage.compute`.
    """

    def work(shard: pd.DataFrame) -> pd.DataFrame:
        rows: dict[int, dict] = {}
        for some, read in judge.read_ahead(images, list(dict.fromkeys(shard["image_id"])), device, _AT_A_TIME):
            pixels = dict(zip(some, read, strict=True))
            here = shard[shard["image_id"].isin(some)]
            rows |= {k: {**judge.open_images(i, pixels[i]), "answer": ""} for k, i in here["image_id"].items()}
            asked = here[[not rows[k]["status"] for k in here.index]]
            for k, said in zip(asked.index, ask(pixels, asked) if len(asked) else (), strict=True):
                rows[k].update(said)
        return judge.frame((rows[k] for k in shard.index), ANSWERED)

    kept = stage(work).compute(units.reset_index(drop=True), gpu=device != "cpu", **options)
    return judge.frame(kept, ANSWERED)


def line(text: str) -> str:
    """Return a model's text on one line, as tables and pages can show it."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
