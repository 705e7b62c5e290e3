"""What a run writes of the pictures that its models drew: once, from what is kept, and never at the cost of results."""

import json
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from array_images import ArrayImages

from biaslab.report.image_pages import ModelImages
from biaslab.runs import collect, dry_run, generated_images, jobs, params


def drawn(*genders, model="m", kind="generated", group="nurse"):
    ids = [f"{kind}{k}" for k in range(len(genders))]
    people = pd.DataFrame({"image_id": ids, "group": group, "who": group, "prompt": "p", "position": 1})
    people = people.assign(gender=genders, status="judged", boxes=[[k] for k in range(len(ids))])
    images = [np.full((8, 8, 3), k, np.uint8) for k in range(len(ids))]
    return ModelImages("paradox", kind, "prompts", model, people, ArrayImages(images, ids))


def test_pictures_are_written_once_and_stay_where_the_store_has_them_no_more(tmp_path):
    found = [drawn("female", "male"), drawn("male", kind="caption_prompts"), drawn("male", model="n")]
    models = generated_images.write(tmp_path, found)
    assert [(one["model"], one["images"], one["page"]) for one in models] == [
        ("m", 3, "pictures/model-1.html"), ("n", 1, "pictures/model-2.html"),
    ]  # fmt: skip
    strips = json.loads((tmp_path / collect.STRIPS).read_text(encoding="utf-8"))["strips"]
    # Of each model the first kind of the paper.
    assert [(one["model"], one["images"]) for one in strips] == [("m", 2), ("n", 1)]
    assert {one["kind"] for one in strips} == {"generated"}
    assert len(list(tmp_path.glob("pictures/*"))) == 3
    page = tmp_path / "pictures/model-1.html"
    page.write_text("the same", encoding="utf-8")
    assert generated_images.write(tmp_path, found) == models and page.read_text(encoding="utf-8") == "the same"
    found = []
    assert generated_images.write(tmp_path, found) == models
    # What was judged otherwise is another page.
    found = [drawn("female", "female")]
    (model,) = generated_images.write(tmp_path, found)
    assert not (tmp_path / "pictures/model-2.html").exists()
    assert model["images"] == 2 and page.read_text(encoding="utf-8") != "the same"


@pytest.mark.parametrize("error", [None, ValueError("no picture")])
def test_pictures_that_are_not_there_or_cannot_be_shown_take_no_result_along(tmp_path, monkeypatch, error):
    monkeypatch.setattr(generated_images, "draw_images", Mock(return_value=iter(()), side_effect=error))
    notes = ["No images are shown: ValueError: no picture"] if error else []
    assert generated_images.write_listing_and_images(tmp_path, []) == ([], notes) and not list(tmp_path.iterdir())


@pytest.mark.long
def test_a_store_without_the_images_gives_none(root, tmp_path):
    overrides = [f"compute.cache={tmp_path}", "captions.max_captions=3000"]
    planned = jobs.plan(params.load(root / "world" / "params" / "mini.yaml", overrides=overrides))
    assert list(generated_images.draw_images(dry_run.image_requests(jobs.pipelines(planned)))) == []
    # Captions are searched to know what would be asked.
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(("generated", "judge", "faces"))]


def test_describe_people_nobody_judged_names_statuses_and_the_setting():
    one = drawn("female", "male")
    nobody = one._replace(people=one.people.assign(status=["several_faces", "several_faces"]))
    (text,) = generated_images.describe_people([one, nobody], "dlib")
    assert text.startswith("m: no person could be judged (several faces 2). ") and "custom.all_faces=true" in text


def test_describe_people_many_unclear_people_doubt_photographs():
    one = drawn(*["female"] * 12)
    unclear = one._replace(people=one.people.assign(status=["uncertain"] * 9 + ["judged"] * 3))
    assert generated_images.describe_people([unclear], "dlib") == [
        "m: the gender classifier `dlib` is unsure of 75% of 12 people, and of 7% in labelled photographs. The "
        "images may be drawings, for which it was not trained."
    ]
    # Of a classifier that was not measured, and of 1 of 12 people, nothing can be said.
    assert generated_images.describe_people([unclear], "ViT-L-14:openai") == []
    few = one._replace(people=one.people.assign(status=["uncertain"] + ["judged"] * 11))
    assert generated_images.describe_people([few], "dlib") == []
