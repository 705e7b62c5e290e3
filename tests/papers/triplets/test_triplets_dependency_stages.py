"""Dependency groups in the pipeline: with the known regions of words and objects in place of measured ones."""

import numpy as np
import pytest

from biaslab.analyses import calibration
from biaslab.errors import InputError, MissingInputError
from biaslab.papers import triplets
from biaslab.papers.triplets.stages import Triplets
from biaslab.pipeline import Pipeline, Settings
from biaslab_world import triplets as world

pytest.importorskip("pycocotools.mask", reason="masks need the extra 'models'")


def pipeline(store, model="world", **design):
    few = {"n_triplets": 12, "images_per_prompt": 1, "objects": "truth", "calibration_images": 9}
    settings = Settings(triplets=few | design, compute={"cache": str(store)})
    return Pipeline(model, settings, seed=3, progress=False)


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    return pipeline(tmp_path_factory.mktemp("store"))


@pytest.mark.long
def test_groups_are_those_that_are_planted(known):
    stages = known.part(Triplets).dependency
    texts = known.part(Triplets).images().table.set_index("image_id")["text"]
    groups = stages.groups()
    assert len(groups) == len(known.part(Triplets).objects().objects) > 80
    for image_id, rows in groups.groupby("image_id"):
        assert rows["dependency_group"].tolist() == world.planted_groups(texts[image_id], list(rows["label"]))
    assert set(groups["dependency_group"]) == set(world.GROUPS)
    nouns = stages.prompt_nouns()
    asked = {i: world.parse(text) for i, text in texts.items()}
    assert [tuple(n["noun"]) for _, n in nouns[nouns["hidden"]].groupby("image_id")] == [
        asked[i].hidden for i, n in nouns.groupby("image_id") if asked[i].hidden
    ]


def test_tables_that_follow(known):
    counts = triplets.measure.group_object_counts(known)
    assert set(counts["n_images"]) == {12} and set(counts["n_cases"]) == {12}
    people = counts[(counts["object"] == "person") & (counts["dependency_group"] == "explicitly_guided")]
    assert people.groupby("prompt_gender")["count"].sum().to_dict() == dict.fromkeys(triplets.cases.PROMPT_GENDERS, 12)
    images = triplets.measure.group_images(known).set_index("dependency_group")["percent_images"]
    assert images["explicitly_guided"] == 100
    assert set(known.part(Triplets).dependency.groups()["region"]) == {"mask"}
    errors = calibration.error(triplets.measure.confusion(known), paper="triplets")
    truth = errors[errors["quantity"] == "dependency group"]
    assert (truth["value"] == 100).all() and (truth["subject"] == "all").any()
    agreement = known.part(Triplets).dependency.drawing_agreement().groupby("mask")[["overlap", "auc"]]
    assert (agreement.min().loc["own"] == 1).all() and (agreement.mean().loc["shuffled"] < 0.9).all()
    example = triplets.measure.dependency_example(known)
    assert set(example.words) <= set(example.text.split()) | {w.strip(",") for w in example.text.split()}
    assert example.word_masks.shape == (len(example.words), 64, 64) and example.word_masks.any(axis=(1, 2)).all()
    assert example.object_masks.shape == (len(example.objects), 64, 64) and len(set(example.groups)) > 1
    figure = triplets.figures.dependency(example)
    assert sum(ax.has_data() for ax in figure.axes) == 1 + min(5, len(example.words)) + min(6, len(example.objects))


@pytest.mark.long
def test_boxes_serve_where_there_are_no_masks(known, tmp_path):
    objects = known.part(Triplets).objects().objects
    file = tmp_path / "objects.csv"
    objects.drop(columns=["rle", "height", "width"]).to_csv(file, index=False)
    groups = pipeline(tmp_path, objects=str(file)).part(Triplets).dependency.groups()
    assert len(groups) == len(objects.drop_duplicates(["image_id", "object", "left", "top", "right", "bottom"]))
    assert set(groups["region"]) == {"box"}
    # A box holds what is beside the thing as well, so that less of it is covered.
    named = groups["explicit"] & groups["label"].isin(world.THINGS)
    assert 0.3 < groups.loc[named, "coverage"].mean() < 1


def test_without_attention_there_are_no_groups(tmp_path, monkeypatch):
    p = pipeline(tmp_path, model="mini", attention=False)
    # It is told before an image is generated.
    monkeypatch.setattr(p, "generate_images", None)
    for asked in (p.part(Triplets).dependency.maps, p.part(Triplets).dependency.looked_at):
        with pytest.raises(MissingInputError, match=r"triplets\.attention"):
            asked()
    assert triplets.measure.dependency_example(None) is None
    assert not triplets.figures.dependency(None).axes[0].has_data()


@pytest.mark.long
def test_maps_of_drawings_by_a_model(tmp_path):
    p = pipeline(tmp_path, model="mini", calibration_images=6, attention=True)
    maps = p.part(Triplets).dependency.drawing_maps()
    table = p.part(Triplets).drawings().table
    (first,) = maps.word_maps([table["image_id"][0]])
    assert {w.lower() for w in first.words} | set(first.missing) == set(table["text"][0].replace(",", "").split())
    found = p.part(Triplets).dependency.drawing_agreement()
    assert set(found["noise"]) == {0.0, 0.1, 0.3, 0.5, 0.7, 0.9}
    values = found[["overlap", "auc"]].to_numpy()
    assert np.nanmin(values) >= 0 and np.nanmax(values) <= 1


def test_a_run_goes_on_without_maps_of_drawings(tmp_path, folders):
    """Of a model whose attention in given images cannot be had, and where nobody asked for any."""
    for model, attention, why in (("mini", False, r"triplets\.attention"), (folders("sdxl"), True, "XLPipeline")):
        p = pipeline(tmp_path, model=model, calibration_images=3, attention=attention)
        small = {"steps": 1, "height": 64, "width": 64, "dtype": "float32"}
        p = p.with_changes(generation=small | {"image_domain": "drawings"})
        with pytest.raises(MissingInputError, match=why):
            p.part(Triplets).dependency.drawing_agreement()


def test_nouns_of_other_texts_are_refused(known):
    with pytest.raises(InputError, match=r"triplets\.noun_tagger is 'world'"):
        known.part(Triplets).dependency.nouns().find_nouns("two zebras on a lawn")
