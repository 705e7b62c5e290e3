"""A small request of each kind that costs money or time again: images of an endpoint, answers, downloads, ratings.

:data:`FOUND` contains the functions that request and return them. The folder next to this file was written by the code
of the commit that it is named by. It is never written again: the test reads it with the code of today, without network.

A server on this machine made one image per request. It refused one prompt, answered the first request for another one
with status 500, and the process was killed when one reply was saved and its image was not.
"""

from __future__ import annotations

import base64
import hashlib
import json
from io import BytesIO
from pathlib import Path

KEY = "STORES_KEY"
ENDPOINT = "http://endpoint.invalid/v1"
KEPT = ("answers", "bought_images")
"""Stages of the cache whose results cannot be computed."""


def settings(folder: Path) -> dict:
    """Return the settings of the pipeline."""
    return {
        "captions": {
            "corpus": str(folder / "captions.csv"),
            "training_images": str(folder / "store" / "downloads" / "0fe66e2089ee5699" / "images"),
            "occupations": ["nurse"],
            "approaches": ["naive", "caption_prompts", "paraphrased"],
            "per_occupation": 2,
            "paraphraser": "endpoint",
        },
        "generation": {"images_per_prompt": 1, "caption_prompts_per_occupation": 2},
        "judging": {"faces": "whole image", "gender": f"annotations:{folder / 'by_image.csv'}"},
        "paired": {
            "n_occupations": 1,
            "power_samples": 1,
            "single_images": 1,
            "three_person_prompts": 0,
            "image_size": "1792x1024",
        },
        "critic": {"kind": "endpoint", "model": "fake-sees", "rounds": 1},
        "dalleval": {"n_scenes": 1, "n_professions": 1, "social_images": 1},
        "triplets": {"n_triplets": 1, "images_per_prompt": 1, "n_professions": 1},
        "endpoint": {
            "url": ENDPOINT,
            "model": "fake-says",
            "api_key_env": KEY,
            "price": 0.04,
            "cost_limit": 10,
            "size": "1024x1024",
            "options": {"quality": "standard", "background": "opaque", "response_format": "b64_json"},
        },
        "compute": {"cache": str(folder / "store")},
        "baselines": ["none"],
    }


def pipeline(folder: Path):
    """Return the pipeline that sends the requests."""
    from biaslab.pipeline import Pipeline, Settings

    return Pipeline("endpoint:fake-draws", Settings.from_mapping(settings(folder)), seed=3, progress=False)


def images(folder: Path) -> dict:
    """Return some bought images of each paper, by kind of prompts."""
    from biaslab.papers.dalleval.stages import DallEval
    from biaslab.papers.paired.stages import Paired
    from biaslab.papers.triplets.stages import Triplets

    opened_pipeline = pipeline(folder)
    prompts_by_name = {
        f"paradox {kind}": (opened_pipeline.texts(kind), "captions", False) for kind in opened_pipeline.kinds
    }
    for kind in ("single", "paired", "controls", "intervention"):
        texts = opened_pipeline.part(Paired).possible_prompts(kind).texts.groupby("aspect").head(1)
        prompts_by_name[f"paired {kind}"] = (texts, "paired", kind != "single")
    texts = opened_pipeline.part(Paired).possible_prompts("faircritic_1").texts.head(2)
    prompts_by_name["paired faircritic_1"] = (texts.assign(text=revised_prompts(folder).texts["text"]), "paired", True)
    for kind in ("skills", "social"):
        prompts_by_name[f"dalleval {kind}"] = (opened_pipeline.part(DallEval).prompts(kind).head(2), "dalleval", False)
    prompts_by_name["triplets"] = (
        opened_pipeline.part(Triplets).prompts().groupby("dataset").head(2),
        "triplets",
        False,
    )
    return {
        name: opened_pipeline.generate_images(texts, name, prompt_set, several=several)
        for name, (texts, prompt_set, several) in prompts_by_name.items()
    }


def pair(folder: Path):
    """Return the first two prompts of pairs, and the people in them."""
    from biaslab.papers.paired import prompts as paired_prompts
    from biaslab.papers.paired.stages import Paired

    opened_pipeline = pipeline(folder).part(Paired).prompts("paired")
    return paired_prompts.select_prompts(opened_pipeline, opened_pipeline.texts["prompt_id"].head(2).tolist())


def critiques(folder: Path) -> list:
    """Return the critic's replies on images of these two, with the annotators' genders of the people."""
    from biaslab.papers.paired.faircritic import endpoint
    from biaslab.papers.paired.faircritic.critique import briefs
    from biaslab.ratings.annotations import judgements

    opened_pipeline, selected = pipeline(folder), pair(folder)
    generated = opened_pipeline.generate_images(selected.texts, "paired", "paired", several=True)
    people = generated.table[["image_id", "prompt_id"]].merge(selected.people, on="prompt_id")
    judged = judgements(people, folder / "by_person.csv")
    people = people.assign(gender=judged["gender"], status=judged["status"])
    given = briefs(
        people, "occupation", 1, selected.texts, generated.read, critic="endpoint", seed=opened_pipeline.seed
    )
    return endpoint.critiques(given, opened_pipeline.endpoint("critic"), cache=opened_pipeline.cache)


def revised_prompts(folder: Path):
    """Return the two prompts as the critic's guidelines change them."""
    from biaslab.papers.paired.faircritic.revision import revise

    return revise(pair(folder), critiques(folder), seed=pipeline(folder).seed)


def purchased_images(folder: Path) -> dict:
    """Return image_id, outcome, revised prompt and digest of pixels of bought images, by what is asked for."""
    return {
        name: [[*row, _pixels(generated, row[0])] for row in _rows(generated.table, "image_id status revised_prompt")]
        for name, generated in images(folder).items()
    }


def paraphrases(folder: Path) -> list:
    """Return prompt_id, text and outcome of captions that the model says in other words."""
    return _rows(pipeline(folder).prompts("paraphrased"), "prompt_id text paraphrase_status")


def critique_rows(folder: Path) -> list:
    """Return batch, outcome, reply and images of each critique."""
    return [[one.batch_id, one.outcome, one.raw, *one.image_ids] for one in critiques(folder)]


def download_rows(folder: Path) -> list:
    """Return caption_id, URL, digest of the file and size in pixels of what was fetched, read as a folder of images."""
    training = pipeline(folder).images("training")
    files = {path.stem: path.read_bytes() for path in (folder / "store" / "downloads").rglob("*.jpg")}
    rows = _rows(training.table, "caption_id url")
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    return [[*row, "ok", sums[row[0]], list(training.read(row[:1])[0].shape)] for row in rows]


def judged(folder: Path) -> list:
    """Return image_id, status and gender of annotated images."""
    return _rows(pipeline(folder).judgements("generated"), "image_id status gender")


def shown() -> str:
    """Return a picture as it is packed for the critic: by Pillow, so that its version is a part of such a question."""
    import numpy as np
    from PIL import Image

    file = BytesIO()
    Image.fromarray(np.full((16, 16, 3), 7, np.uint8)).save(file, format="PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode()


def annotation_rows(folder: Path) -> list:
    """Return the annotations of an earlier version's session, from the file next to its own."""
    from biaslab.ratings import annotations, shares

    result = shares.read(folder / "sitting" / "ratings.csv")
    rows = result.images[["image_id", "source", "occupation"]].astype(object)
    rows = rows.join(annotations.label_matrix(result.table, result.images).astype(object).fillna(""))
    return [*annotations.annotators(result.table), *rows.to_numpy().tolist()]


FOUND = {
    "images": purchased_images,
    "paraphrases": paraphrases,
    "critiques": critique_rows,
    "downloads": download_rows,
    "judged by raters": judged,
    "rated": annotation_rows,
}
"""Request functions by the kind of result."""


def _rows(table, columns: str) -> list:
    return json.loads(table[columns.split()].to_json(orient="values"))


def _pixels(images, image_id: str) -> str:
    """Return the digest of an image's pixels, or why there is none."""
    (image,) = images.read([image_id])
    return getattr(image, "reason", "") or hashlib.sha256(image.tobytes()).hexdigest()[:16]
