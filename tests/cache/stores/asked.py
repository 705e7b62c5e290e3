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
"""Stages of the store whose results nobody can compute."""


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
    """Return the pipeline that asks."""
    from biaslab.pipeline import Pipeline, Settings

    return Pipeline("endpoint:fake-draws", Settings.from_mapping(settings(folder)), seed=3, progress=False)


def images(folder: Path) -> dict:
    """Return some bought images of each paper, by what is asked for."""
    from biaslab.papers.dalleval.stages import DallEval
    from biaslab.papers.paired.stages import Paired
    from biaslab.papers.triplets.stages import Triplets

    whole = pipeline(folder)
    some = {f"paradox {kind}": (whole.texts(kind), "captions", False) for kind in whole.kinds}
    for kind in ("single", "paired", "controls", "intervention"):
        texts = whole.part(Paired).possible_prompts(kind).texts.groupby("aspect").head(1)
        some[f"paired {kind}"] = (texts, "paired", kind != "single")
    texts = whole.part(Paired).possible_prompts("faircritic_1").texts.head(2)
    some["paired faircritic_1"] = (texts.assign(text=revised(folder).texts["text"]), "paired", True)
    for kind in ("skills", "social"):
        some[f"dalleval {kind}"] = (whole.part(DallEval).prompts(kind).head(2), "dalleval", False)
    some["triplets"] = (whole.part(Triplets).prompts().groupby("dataset").head(2), "triplets", False)
    return {
        name: whole.generate_images(texts, name, prompt_set, several=several)
        for name, (texts, prompt_set, several) in some.items()
    }


def pair(folder: Path):
    """Return the first two prompts of pairs, and whom they ask for."""
    from biaslab.papers.paired import prompts as paired_prompts
    from biaslab.papers.paired.stages import Paired

    whole = pipeline(folder).part(Paired).prompts("paired")
    return paired_prompts.select_prompts(whole, whole.texts["prompt_id"].head(2).tolist())


def critiques(folder: Path) -> list:
    """Return what the critic says of images of these two, as raters see the people in them."""
    from biaslab.papers.paired.faircritic import endpoint
    from biaslab.papers.paired.faircritic.critique import briefs
    from biaslab.ratings.annotations import judgements

    whole, asked = pipeline(folder), pair(folder)
    made = whole.generate_images(asked.texts, "paired", "paired", several=True)
    people = made.table[["image_id", "prompt_id"]].merge(asked.people, on="prompt_id")
    judged = judgements(people, folder / "by_person.csv")
    people = people.assign(gender=judged["gender"], status=judged["status"])
    given = briefs(people, "occupation", 1, asked.texts, made.read, critic="endpoint", seed=whole.seed)
    return endpoint.critiques(given, whole.endpoint("critic"), cache=whole.cache)


def revised(folder: Path):
    """Return the two prompts as the critic's guidelines change them."""
    from biaslab.papers.paired.faircritic.revision import revise

    return revise(pair(folder), critiques(folder), seed=pipeline(folder).seed)


def bought(folder: Path) -> dict:
    """Return image_id, outcome, revised prompt and digest of pixels of bought images, by what is asked for."""
    return {
        name: [[*row, _pixels(made, row[0])] for row in _rows(made.table, "image_id status revised_prompt")]
        for name, made in images(folder).items()
    }


def paraphrases(folder: Path) -> list:
    """Return prompt_id, text and outcome of captions that the model says in other words."""
    return _rows(pipeline(folder).prompts("paraphrased"), "prompt_id text paraphrase_status")


def critiqued(folder: Path) -> list:
    """Return batch, outcome, reply and images of each critique."""
    return [[one.batch_id, one.outcome, one.raw, *one.image_ids] for one in critiques(folder)]


def downloaded(folder: Path) -> list:
    """Return caption_id, URL, digest of the file and size in pixels of what was fetched, read as a folder of images."""
    training = pipeline(folder).images("training")
    files = {path.stem: path.read_bytes() for path in (folder / "store" / "downloads").rglob("*.jpg")}
    rows = _rows(training.table, "caption_id url")
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    return [[*row, "ok", sums[row[0]], list(training.read(row[:1])[0].shape)] for row in rows]


def judged(folder: Path) -> list:
    """Return image_id, outcome and gender of images that raters judge."""
    return _rows(pipeline(folder).judgements("generated"), "image_id status gender")


def shown() -> str:
    """Return a picture as it is packed for the critic: by Pillow, so that its version is a part of such a question."""
    import numpy as np
    from PIL import Image

    file = BytesIO()
    Image.fromarray(np.full((16, 16, 3), 7, np.uint8)).save(file, format="PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode()


def rated(folder: Path) -> list:
    """Return what raters said in a sitting of an earlier version, in the file that it kept beside its own."""
    from biaslab.ratings import annotations, shares

    found = shares.read(folder / "sitting" / "ratings.csv")
    rows = found.images[["image_id", "source", "occupation"]].astype(object)
    rows = rows.join(annotations.label_matrix(found.table, found.images).astype(object).fillna(""))
    return [*annotations.annotators(found.table), *rows.to_numpy().tolist()]


FOUND = {
    "images": bought,
    "paraphrases": paraphrases,
    "critiques": critiqued,
    "downloads": downloaded,
    "judged by raters": judged,
    "rated": rated,
}
"""What asks, by what it asks for."""


def _rows(table, columns: str) -> list:
    return json.loads(table[columns.split()].to_json(orient="values"))


def _pixels(images, image_id: str) -> str:
    """Return the digest of an image's pixels, or why there is none."""
    (image,) = images.read([image_id])
    return getattr(image, "reason", "") or hashlib.sha256(image.tobytes()).hexdigest()[:16]
