"""Images that notebooks show, with faces of real people blurred."""

import numpy as np
import pandas as pd
import pytest
from array_images import ArrayImages

from biaslab.papers.paradox import example_images, figures
from biaslab.plots import gallery


def judgement_row(image_id, occupation, prompt="1", status="judged", **more):
    row = {"image_id": image_id, "occupation": occupation, "prompt": prompt, "status": status}
    gender = "female" if status == "judged" else ""
    return row | {"gender": gender, "probability_female": 0.95, "text": f"text of {image_id}"} | more


def frame(rows):
    return pd.DataFrame(rows)


def shade(image_id):
    return sum(map(ord, image_id)) % 251


def shares_of(model, **values):
    """Return the training share of each occupation."""
    rows = [(model, "naive", o, "training", "captions", percent, 100) for o, percent in values.items()]
    columns = ["model", "approach", "occupation", "source", "prompt", "percent_female", "n"]
    return pd.DataFrame(rows, columns=columns)


def test_choose_occupations_orders_by_share():
    shares = pd.concat([shares_of("mini", nurse=80, pilot=30, author=45), shares_of("SD 1.4", cook=10)])
    assert example_images.choose_occupations(shares, ["pilot", "astronaut"]) == ["pilot"]
    # From few women to many, of the first model: 30, 45, 80.
    assert example_images.choose_occupations(shares, ["astronaut"], max_occupations=2) == ["pilot", "nurse"]
    assert example_images.choose_occupations(shares) == ["pilot", "author", "nurse"]
    found = pd.DataFrame({"occupation": ["a", "b", "c"], "n_captions": [5, 0, 7]})
    assert example_images.choose_occupations(found, ["c", "b"]) == ["c"]


def test_choose_generated_takes_one_prompt():
    rows = frame(
        [judgement_row(f"{o}{p}{k}", o, p) for o in ("nurse", "cook", "pilot") for p in "12" for k in range(3)]
    )
    selection = example_images.choose_generated(rows, ["pilot", "nurse"], prompt="2", n_per_group=2)
    assert selection["image_id"].tolist() == ["pilot20", "pilot21", "nurse20", "nurse21"]
    assert set(selection["kind"]) == {"generated"} and selection["below"].tolist() == [
        "pilot",
        "pilot",
        "nurse",
        "nurse",
    ]
    # Equal numbers per group, to fill lines; a name without images removes none.
    selection = example_images.choose_generated(
        rows.drop(index=[15, 16]), ["pilot", "nurse", "poet"], prompt="2", n_per_group=2
    )
    assert selection["image_id"].tolist() == ["pilot22", "nurse20"]


def test_choose_selected_adds_generated_images():
    caption_occupations = (("c1", "nurse"), ("c2", "nurse"), ("c3", "cook"))
    training = frame([judgement_row(c, o, "captions", caption_id=c) for c, o in caption_occupations])
    generated = frame([judgement_row(f"{o}{p}{k}", o, p) for o in ("nurse", "cook") for p in "12" for k in range(2)])
    chosen = pd.DataFrame(
        [
            ("nearest", "1", "nurse", 2, "c1", "first caption"),
            ("nearest", "1", "nurse", 1, "c2", "nearer caption"),
            ("nearest", "2", "nurse", 1, "c3", "of another prompt"),
            ("naive", "captions", "nurse", 1, "c3", "of another approach"),
        ],
        columns=["approach", "prompt", "occupation", "rank", "caption_id", "caption"],
    )
    selection = example_images.choose_selected(
        training, generated, chosen, "nearest", ["nurse"], prompt="1", n_per_group=2
    )
    assert selection["image_id"].tolist() == ["c2", "c1", "nurse10", "nurse11"]
    assert selection["kind"].tolist() == ["training", "training", "generated", "generated"]
    assert selection["below"].tolist() == ["nearer caption", "first caption", "generated: nurse", "generated: nurse"]


def test_pairs_take_caption_and_generated_image():
    keys = [("c0", "nurse", "female"), ("c1", "cook", "none"), ("c2", "pilot", "male")]
    training = frame([judgement_row(c, o, "captions", caption_id=c, indicator=i) for c, o, i in keys])
    prompted = frame([judgement_row(f"c-{c}/0", o, "captions", caption_id=c, indicator=i) for c, o, i in keys])
    selection = example_images.pairs(training, prompted, ("training", "caption_prompts"), max_captions=2)
    # With an indicator first, then without; each next to its generated image.
    assert selection["image_id"].tolist() == ["c0", "c-c0/0", "c1", "c-c1/0"]
    assert selection["kind"].tolist() == ["training", "caption_prompts"] * 2
    made = "generated from this caption"
    assert selection["below"].tolist() == ["text of c0", made, "text of c1", made]


def test_gallery_without_images_is_empty():
    none = frame([judgement_row("a", "nurse", rank=1, caption_id="c", indicator="none")]).head(0)
    chosen = pd.DataFrame(columns=["approach", "prompt", "occupation", "rank", "caption_id", "caption"])
    for rows in (
        example_images.choose_generated(none, ["nurse"]),
        example_images.choose_training(none, ["nurse"]),
        example_images.choose_unclassified(none, none),
        example_images.choose_by_prompt(none, "nurse"),
        example_images.choose_selected(none, none, chosen, "naive", ["nurse"]),
        example_images.pairs(none, none, ("training", "caption_prompts")),
    ):
        assert rows.empty
        # No images are read.
        assert not figures.gallery(rows, None).axes[0].images


@pytest.mark.parametrize(
    ("kinds", "blur", "hidden"),
    [
        (["training", "training"], True, True),
        (["generated", "generated"], True, False),
        (["training", "generated"], True, True),
        (["training", "generated"], False, False),
    ],
)
def test_gallery_blurs_faces_of_real_people(monkeypatch, kinds, blur, hidden):
    rows = frame([judgement_row("a", "nurse"), judgement_row("b", "cook")]).assign(kind=kinds, below=["x", "y"])
    calls = []

    def read(kind):
        ids = rows.loc[rows["kind"] == kind, "image_id"].tolist()
        return ArrayImages([np.full((8, 8, 3), shade(i), np.uint8) for i in ids], ids)

    def draw(images, judgements, texts, *, columns, blur):
        assert [image[0, 0, 0] for image in images] == [shade(i) for i in judgements["image_id"]]
        calls.append((texts, columns, blur))

    monkeypatch.setattr(gallery, "gallery", draw)
    figures.gallery(rows, read, blur=blur)
    figures.gallery(rows, read, blur=blur, line="occupation")
    assert calls == [(["x", "y"], 8, hidden), (["x", "y"], 1, hidden)]
    # Blurred by default.
    figures.gallery(rows, read)
    assert calls[-1][2] == ("training" in kinds)
