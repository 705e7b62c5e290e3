"""Perceived gender of each person by visual question answering: BLIP or BLIP-2, asked about the whole image; captions.

Words in the free answer decide (:mod:`biaslab.judging.questions`). The paper finds that such a judge agrees with people
on images of one person and hardly at all on images of two (Table 9): it is here so that this can be measured.

Source: paired paper, appendix D, Table 8; BLIP-2's form of a question is that of its authors.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from biaslab.judging import blip, judge, people
from biaslab.judging.questions import question, read_answer
from biaslab.keep.engine import Memo
from biaslab.keep.store import Store
from biaslab.models import registry as named
from biaslab.models.images import ImageSource

COLUMNS = (*people.COLUMNS, "answer")
ANSWERED = ("image_id", "outcome", "reason", "answer", "image_width", "image_height")

_SHARD_ROWS = 1024
_AT_A_TIME = 64  # images read and encoded at once


# -- the judge ---------------------------------------------------------------------------------------------


def judge_people_vqa(images: ImageSource, asked: pd.DataFrame, name: str, **how: Any) -> pd.DataFrame:
    """Judge the people of images by asking about each; what was asked before is read again.

    ``asked`` has a row a person: image_id, position (1 is the leftmost, up to 3), phrase. ``name`` is ``vqa:`` and a
    hub name or folder of a BLIP model for questions or of a BLIP-2 model; ``how`` is as for :func:`ask_about`.

    Returns:
        One row per row of ``asked``, in its order, with :data:`COLUMNS`: outcome is ``judged``, ``uncertain``
        (``reason`` says what the answer lacks), ``unreadable`` or ``blocked``; answer is the model's own text. Columns
        about faces and probabilities are NaN, and ``role`` is empty.

    Raises:
        InputError: An image is not in the source's table.
        ParameterError: As for :func:`ask_about`.
    """
    told = people.phrases_of(asked)
    ids = asked["image_id"].astype(str).astype(object)
    rows = list(zip(ids, asked["position"].astype(int), strict=True))
    units = pd.DataFrame({"image_id": ids.to_numpy(object)})
    units["question"] = [question(told[i][at - 1], at, len(told[i])) for i, at in rows]
    seen = ask_about(images, units, name, unit="people", **how)
    said = pd.DataFrame([read_answer(text) for text in seen["answer"]], columns=["gender", "why"])
    asked_about = seen["outcome"] == ""
    outcome = np.where(said["gender"] == "unsure", "uncertain", judge.JUDGED)
    seen = seen.assign(
        position=[at for _, at in rows],
        outcome=seen["outcome"].where(~asked_about, outcome),
        gender=said["gender"].where(asked_about, ""),
        reason=said["why"].where(asked_about, seen["reason"]),
        role="",
    )
    return judge.frame(seen, COLUMNS)


def ask_about(
    images: ImageSource,
    units: pd.DataFrame,
    name: str,
    *,
    store: Store,
    device: str = "auto",
    progress: bool = True,
    unit: str = "questions",
    kind: str = "vqa",
) -> pd.DataFrame:
    """Put questions to images, as :func:`biaslab.judging.judge.judge` looks at them: each is encoded once for questions
    that lie together.

    ``units`` has image_id and question; ``unit`` is what progress counts, ``kind`` the model's: ``vqa`` or
    ``captioner``.

    Returns:
        One row per row of ``units``, in its order: image_id, outcome (empty where asked, ``unreadable`` or
        ``blocked``), reason, answer (the model's own text, on one line), image_width and image_height in pixels.

    Raises ParameterError where the model is unknown or cannot be used.
    """
    inputs = {"images": images.digest, "kind": kind, "weights": named.digest(blip.located(name, kind))}
    ready = Memo(partial(blip.load, name, kind, device=device))

    def work(shard: pd.DataFrame) -> pd.DataFrame:
        rows: dict[int, dict] = {}
        ids = list(dict.fromkeys(shard["image_id"]))
        for some, read in judge.read_ahead(images, ids, device, _AT_A_TIME):
            opened = dict(zip(some, map(judge.opened, some, read), strict=True))
            here = shard[shard["image_id"].isin(some)]
            rows |= {k: {**opened[image_id], "answer": ""} for k, image_id in here["image_id"].items()}
            asked = here[[not rows[k]["outcome"] for k in here.index]]
            if len(asked):
                of, there = pd.factorize(asked["image_id"])
                seen = [read[some.index(image_id)] for image_id in there]
                for k, answer in zip(asked.index, ready().ask(seen, of, list(asked["question"])), strict=True):
                    rows[k]["answer"] = line(answer)
        return judge.frame((rows[k] for k in shard.index), ANSWERED)

    bar = {"label": f"asking about {images.name}", "unit": unit, "progress": progress}
    seen = store.stage("answers", inputs, work).compute(
        units.reset_index(drop=True), shard_rows=_SHARD_ROWS, gpu=device != "cpu", **bar
    )
    return judge.frame(seen, ANSWERED)


def describe(images: ImageSource, image_ids: list[str], name: str, *, store: Store, **more: Any) -> pd.DataFrame:
    """Return what images show in a sentence of a BLIP for captions or a BLIP-2; ``more`` and errors as of
    :func:`ask_about`.

    One row per image of ``image_ids``, in order: image_id, outcome (empty where described, ``unreadable`` or
    ``blocked``), reason, caption. Source: dalleval paper, section 4.3, which takes VL-T5 fine-tuned on COCO.
    """
    units = pd.DataFrame({"image_id": image_ids, "question": ""}, dtype=object)
    said = ask_about(images, units, name, store=store, kind="captioner", unit="images", **more)
    return described(said)


def described(answers: pd.DataFrame) -> pd.DataFrame:
    """Return answers as :func:`describe` has them."""
    return answers.rename(columns={"answer": "caption"})[["image_id", "outcome", "reason", "caption"]]


def line(text: str) -> str:
    """Return a model's text on one line, as tables and pages can show it."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
