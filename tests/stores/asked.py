"""What cannot be had again for nothing, asked for in small: images of an endpoint, its answers, downloads, ratings.

``found`` asks, with whatever version of biaslab runs it, and returns all that came back. As a script it asks a server
of its own and leaves in a folder what was paid for, what people said of it, and what was found::

    PYTHONPATH=CHECKOUT:CHECKOUT/tests/net python tests/stores/asked.py FOLDER

Folders beside this file were written so by the code of the commit that they are named by, and are never written again:
the test reads them with the code of today, and nobody answers it.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import shutil
import sys
from io import BytesIO
from pathlib import Path
from unittest import mock

import fake_endpoint

KEY = "STORES_KEY"
ENDPOINT = "http://endpoint.invalid/v1"
PICTURES = "http://pictures.invalid:8000"
KEPT = ("answers", "bought_images", "downloads")
"""Stages of the store whose results nobody can compute."""


def settings(folder: Path) -> dict:
    """Return the settings of the pipeline."""
    return {
        "captions": {
            "corpus": str(folder / "captions.csv"),
            "training_images": "download",
            "occupations": ["nurse"],
            "approaches": ["naive", "caption_prompts", "paraphrased"],
            "per_occupation": 2,
            "paraphraser": "endpoint",
        },
        "generation": {"images_per_prompt": 1, "caption_prompts_per_occupation": 2},
        "judging": {"faces": "whole image", "gender": f"ratings:{folder / 'by_image.csv'}"},
        "people": {
            "occupations": 1,
            "power_runs": 1,
            "single_images": 1,
            "three_prompts": 0,
            "image_size": "1792x1024",
        },
        "critic": {"kind": "endpoint", "model": "fake-sees", "rounds": 1},
        "dalleval": {"scenes": 1, "professions": 1, "social_images": 1},
        "triplets": {"triplets": 1, "seeds": 1, "professions": 1},
        "endpoint": {
            "url": ENDPOINT,
            "model": "fake-says",
            "key_variable": KEY,
            "price": 0.04,
            "cost_limit": 10,
            "size": "1024x1024",
            "quality": "standard",
            "response_format": "b64_json",
            "options": {"background": "opaque"},
            "first_wait": 0,
            "attempts": 1,
        },
        "compute": {"store": str(folder / "store")},
        "compare_with": ["none"],
    }


def pipeline(folder: Path):
    """Return the pipeline that asks."""
    from biaslab.pipeline import Pipeline, Settings

    return Pipeline("endpoint:fake-draws", Settings.of(settings(folder)), seed=3, progress=False)


def images(folder: Path) -> dict:
    """Return some bought images of each paper, by what is asked for."""
    whole = pipeline(folder)
    some = {f"paradox {kind}": (whole.texts(kind), "captions", False) for kind in whole.kinds}
    for kind in ("single", "paired", "controls", "intervention"):
        texts = whole.people.possible(kind).texts.groupby("aspect").head(1)
        some[f"paired {kind}"] = (texts, "people", kind != "single")
    texts = whole.people.possible("faircritic_1").texts.head(2)
    some["paired faircritic_1"] = (texts.assign(text=revised(folder).texts["text"]), "people", True)
    for kind in ("skills", "social"):
        some[f"dalleval {kind}"] = (whole.dalleval.prompts(kind).head(2), "dalleval", False)
    some["triplets"] = (whole.triplets.prompts().groupby("dataset").head(2), "triplets", False)
    return {name: whole.made(*given) for name, given in some.items()}


def pair(folder: Path):
    """Return the first two prompts of pairs, and whom they ask for."""
    from biaslab.prompts import paired

    whole = pipeline(folder).people.prompts("paired")
    return paired.only(whole, whole.texts["prompt_id"].head(2).tolist())


def critiques(folder: Path) -> list:
    """Return what the critic says of images of these two, as raters see the people in them."""
    from biaslab.mitigation import endpoint
    from biaslab.mitigation.critique import briefs
    from biaslab.ratings.person_ratings import judge_people

    whole, asked = pipeline(folder), pair(folder)
    made = whole.made(asked.texts, "people", True)
    people = made.table[["image_id", "prompt_id"]].merge(asked.people, on="prompt_id")
    judged = judge_people(people, folder / "by_person.csv")
    people = people.assign(gender=judged["gender"], outcome=judged["outcome"])
    given = briefs(people, "occupation", 1, asked.texts, made.read, critic="endpoint", seed=whole.seed)
    return endpoint.critiques(given, whole.endpoint("critic"), whole.store)


def revised(folder: Path):
    """Return the two prompts as the critic's guidelines change them."""
    from biaslab.mitigation.revision import revise

    return revise(pair(folder), critiques(folder), seed=pipeline(folder).seed)


def found(folder: Path) -> dict:
    """Return all that is asked for, as plain values."""
    return {
        "images": bought(folder),
        "paraphrases": paraphrases(folder),
        "critiques": critiqued(folder),
        "downloads": downloaded(folder),
        "judged by raters": judged(folder),
        "rated": rated(folder),
        "shown to the critic": shown(),
    }


def bought(folder: Path) -> dict:
    """Return image_id, outcome, revised prompt and digest of pixels of bought images, by what is asked for."""
    return {
        name: [[*row, _pixels(made, row[0])] for row in _rows(made.table, "image_id outcome revised_prompt")]
        for name, made in images(folder).items()
    }


def paraphrases(folder: Path) -> list:
    """Return prompt_id, text and outcome of captions that the model says in other words."""
    return _rows(pipeline(folder).prompts("paraphrased"), "prompt_id text paraphrase_outcome")


def critiqued(folder: Path) -> list:
    """Return batch, outcome, reply and images of each critique."""
    return [[one.batch_id, one.outcome, one.raw, *one.image_ids] for one in critiques(folder)]


def downloaded(folder: Path) -> list:
    """Return caption_id, URL, outcome, digest of the file and its size in pixels of what was fetched."""
    whole = pipeline(folder)
    training = whole.images("training")
    rows = _rows(whole.downloads(), "caption_id url outcome saved_sha256")
    return [[*row, list(getattr(training.read(row[:1])[0], "shape", ()))] for row in rows]


def judged(folder: Path) -> list:
    """Return image_id, outcome and gender of images that raters judge."""
    return _rows(pipeline(folder).judgements("generated"), "image_id outcome gender")


def shown() -> str:
    """Return a picture as it is packed for the critic: by Pillow, so that its version is a part of such a question."""
    import numpy as np
    from PIL import Image

    file = BytesIO()
    Image.fromarray(np.full((16, 16, 3), 7, np.uint8)).save(file, format="PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode()


def rated(folder: Path) -> list:
    """Return what raters said in a sitting of an earlier version, in the file that it kept beside its own."""
    from biaslab.ratings import readers

    found = readers.read_ratings(folder / "sitting" / "ratings.csv")
    rows = found.images[["image", "source", "occupation"]].astype(object)
    rows = rows.join(found.ratings.astype(object).fillna(""))
    return [*found.raters, *rows.to_numpy().tolist()]


def _rows(table, columns: str) -> list:
    return json.loads(table[columns.split()].to_json(orient="values"))


def _pixels(images, image_id: str) -> str:
    return hashlib.sha256(images.read([image_id])[0].tobytes()).hexdigest()[:16]


# -- how a folder was written --------------------------------------------------------------------------------


def _png(text: str) -> bytes:
    """Return a picture of one colour that follows from a text."""
    return fake_endpoint.picture(hashlib.sha256(text.encode()).digest()[:3], size=(16, 16))


def _reply(question: str | list, _: int) -> tuple:
    if isinstance(question, list):
        said = {"biased": True, "kind": "towards stereotypes", "reasons": "One gender is shown."}
        return fake_endpoint.completion(json.dumps(said | {"guideline": "Show women and men alike."}))
    if "Caption:" in question:
        caption = question.rpartition("Caption:")[2].strip()
        return fake_endpoint.completion(caption.replace("the hospital", "a big hospital"))
    return fake_endpoint.drawn(_png(question), revised=f"A drawing. {question}")


@contextlib.contextmanager
def _answering():
    """Answer all that is asked of hosts that there are not."""
    import httpcore

    server, connect = fake_endpoint.FakeEndpoint(), httpcore.SyncBackend.connect_tcp
    server.reply = _reply
    server.files = {f"/{i}.png": (200, {"Content-Type": "image/png"}, _png(f"/{i}.png")) for i in range(3)}

    def here(self, host, port, *args, **kwargs):
        return connect(self, *server.url.split("/")[2].split(":"), *args, **kwargs)

    public = mock.patch("biaslab.net.connection.resolve", lambda *_: ["93.184.216.34"])
    with server.running(), mock.patch("httpcore.SyncBackend.connect_tcp", here), public:
        yield


def _write(folder: Path) -> None:
    os.environ[KEY] = "sk-none"
    folder.mkdir(parents=True)
    captions = [
        "A nurse stands before the hospital.",
        "The nurse walks to the hospital with her bag.",
        "A person is riding a bicycle on the street.",
    ]
    lines = [f'{PICTURES}/{i}.png,"{text}"' for i, text in enumerate(captions)]
    (folder / "captions.csv").write_text("\n".join(["url,caption", *lines, ""]), encoding="utf-8")
    for name, head in (("by_image", "image,source,occupation,ana,ben"), ("by_person", "image_id,position,ana")):
        (folder / f"{name}.csv").write_text(f"{head}\n", encoding="utf-8")
    with _answering():
        _rate(folder)
        told = found(folder)
    store = folder / "store"
    for path in [p for p in store.iterdir() if p.name not in KEPT]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for locks in [*store.glob("**/locks"), *folder.glob("**/.lock")]:
        shutil.rmtree(locks) if locks.is_dir() else locks.unlink()
    (folder / "found.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def _rate(folder: Path) -> None:
    """Let raters say something of the images whose ids are known before any of them is bought."""
    whole = pipeline(folder)
    rated = ("p3-nurse/0,generated,nurse,female,female", "p4-nurse/0,generated,nurse,male,female")
    lines = ["image,source,occupation,ana,ben", *rated, "p2-nurse/0,generated,nurse,,", ""]
    (folder / "sitting").mkdir()
    (folder / "sitting" / "ratings.csv").write_text("\n".join(lines), encoding="utf-8")
    rows = [[image, "generated", "nurse", *labels] for image, labels in _labels(whole.texts("generated"))]
    with (folder / "by_image.csv").open("a", encoding="utf-8") as file:
        file.writelines(",".join(row) + "\n" for row in rows)
    with (folder / "by_person.csv").open("a", encoding="utf-8") as file:
        people = pair(folder).people.itertuples()
        file.writelines(f"{row.prompt_id}/0,{row.position},{row.stereotype}\n" for row in people)


def _labels(texts):
    for i, prompt_id in enumerate(texts["prompt_id"]):
        yield f"{prompt_id}/0", (("female", "female"), ("male", "male"), ("female", "male"))[i % 3]


if __name__ == "__main__":
    _write(Path(sys.argv[1]).absolute())
