"""Pages of the images that models generated: written once, from the cache, without affecting results."""

import json
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from array_images import ArrayImages

from biaslab.report.image_pages import ModelImages
from biaslab.runs import collect, dry_run, generated_images, jobs, params


def model_images(*genders, model="m", kind="generated", group="nurse"):
    ids = [f"{kind}{k}" for k in range(len(genders))]
    people = pd.DataFrame({"image_id": ids, "group": group, "who": group, "prompt": "p", "position": 1})
    people = people.assign(gender=genders, status="judged", boxes=[[k] for k in range(len(ids))])
    images = [np.full((8, 8, 3), k, np.uint8) for k in range(len(ids))]
    return ModelImages("paradox", kind, "prompts", model, people, ArrayImages(images, ids))


def test_write_keeps_pages_of_images_missing_from_cache(tmp_path):
    image_sets = [
        model_images("female", "male"),
        model_images("male", kind="caption_prompts"),
        model_images("male", model="n"),
    ]
    models = generated_images.write(tmp_path, image_sets)
    assert [(item["model"], item["images"], item["page"]) for item in models] == [
        ("m", 3, "pictures/model-1.html"), ("n", 1, "pictures/model-2.html"),
    ]  # fmt: skip
    strips = json.loads((tmp_path / collect.STRIPS).read_text(encoding="utf-8"))["strips"]
    # Of each model the first kind of the paper.
    assert [(item["model"], item["images"]) for item in strips] == [("m", 2), ("n", 1)]
    assert {item["kind"] for item in strips} == {"generated"}
    assert len(list(tmp_path.glob("pictures/*"))) == 3
    page = tmp_path / "pictures/model-1.html"
    page.write_text("the same", encoding="utf-8")
    assert generated_images.write(tmp_path, image_sets) == models and page.read_text(encoding="utf-8") == "the same"
    image_sets = []
    assert generated_images.write(tmp_path, image_sets) == models
    # Other labels give another page.
    image_sets = [model_images("female", "female")]
    (model,) = generated_images.write(tmp_path, image_sets)
    assert not (tmp_path / "pictures/model-2.html").exists()
    assert model["images"] == 2 and page.read_text(encoding="utf-8") != "the same"


@pytest.mark.parametrize("error", [None, ValueError("no picture")])
def test_write_missing_or_failing_images_is_noted(tmp_path, monkeypatch, error):
    monkeypatch.setattr(generated_images, "draw_images", Mock(return_value=iter(()), side_effect=error))
    notes = ["No images are shown: ValueError: no picture"] if error else []
    assert generated_images.write_listing_and_images(tmp_path, []) == ([], notes) and not list(tmp_path.iterdir())


@pytest.mark.long
def test_draw_images_empty_cache_gives_none(root, tmp_path):
    overrides = [f"compute.cache={tmp_path}", "captions.max_captions=3000"]
    plan_jobs = jobs.plan(params.load(root / "world" / "params" / "mini.yaml", overrides=overrides))
    assert list(generated_images.draw_images(dry_run.image_requests(jobs.pipelines(plan_jobs)))) == []
    # Captions are searched to find the prompts.
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(("generated", "judge", "faces"))]


def test_describe_people_all_unclassified_names_statuses():
    item = model_images("female", "male")
    unclassified_item = item._replace(people=item.people.assign(status=["several_faces", "several_faces"]))
    (text,) = generated_images.describe_people([item, unclassified_item], "dlib")
    assert text.startswith("m: no person could be judged (several faces 2). ") and "custom.all_faces=true" in text


def test_describe_people_many_uncertain_warns_about_domain():
    item = model_images(*["female"] * 12)
    unclear = item._replace(people=item.people.assign(status=["uncertain"] * 9 + ["judged"] * 3))
    assert generated_images.describe_people([unclear], "dlib") == [
        "m: the gender classifier `dlib` is unsure of 75% of 12 people, and of 7% in labelled photorealistic images. "
        "These images may be drawings, for which it was not trained."
    ]
    # No note for a classifier without a measured error rate, or for 1 of 12 people.
    assert generated_images.describe_people([unclear], "ViT-L-14:openai") == []
    few_uncertain = item._replace(people=item.people.assign(status=["uncertain"] + ["judged"] * 11))
    assert generated_images.describe_people([few_uncertain], "dlib") == []
