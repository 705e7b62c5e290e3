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
def truth_pipeline(tmp_path_factory):
    return pipeline(tmp_path_factory.mktemp("store"))


@pytest.mark.long
def test_dependency_groups_match_planted(truth_pipeline):
    stages = truth_pipeline.part(Triplets).dependency
    texts = truth_pipeline.part(Triplets).images().table.set_index("image_id")["text"]
    groups = stages.groups()
    assert len(groups) == len(truth_pipeline.part(Triplets).objects().objects) > 80
    for image_id, rows in groups.groupby("image_id"):
        assert rows["dependency_group"].tolist() == world.planted_groups(texts[image_id], list(rows["label"]))
    assert set(groups["dependency_group"]) == set(world.GROUPS)
    nouns = stages.prompt_nouns()
    asked = {i: world.parse(text) for i, text in texts.items()}
    assert [tuple(n["noun"]) for _, n in nouns[nouns["hidden"]].groupby("image_id")] == [
        asked[i].hidden for i, n in nouns.groupby("image_id") if asked[i].hidden
    ]


def test_dependency_tables_match_planted_groups(truth_pipeline):
    counts = triplets.measure.group_object_counts(truth_pipeline)
    assert set(counts["n_images"]) == {12} and set(counts["n_cases"]) == {12}
    people = counts[(counts["object"] == "person") & (counts["dependency_group"] == "explicitly_guided")]
    assert people.groupby("prompt_gender")["count"].sum().to_dict() == dict.fromkeys(triplets.cases.PROMPT_GENDERS, 12)
    images = triplets.measure.group_images(truth_pipeline).set_index("dependency_group")["percent_images"]
    assert images["explicitly_guided"] == 100
    assert set(truth_pipeline.part(Triplets).dependency.groups()["region"]) == {"mask"}
    errors = calibration.error(triplets.measure.confusion(truth_pipeline), paper="triplets")
    truth = errors[errors["quantity"] == "dependency group"]
    assert (truth["value"] == 100).all() and (truth["subject"] == "all").any()
    agreement = truth_pipeline.part(Triplets).dependency.drawing_agreement().groupby("mask")[["overlap", "auc"]]
    assert (agreement.min().loc["own"] == 1).all() and (agreement.mean().loc["shuffled"] < 0.9).all()
    example = triplets.measure.dependency_example(truth_pipeline)
    assert set(example.words) <= set(example.text.split()) | {w.strip(",") for w in example.text.split()}
    assert example.word_masks.shape == (len(example.words), 64, 64) and example.word_masks.any(axis=(1, 2)).all()
    assert example.object_masks.shape == (len(example.objects), 64, 64) and len(set(example.groups)) > 1
    figure = triplets.figures.dependency(example)
    assert sum(ax.has_data() for ax in figure.axes) == 1 + min(5, len(example.words)) + min(6, len(example.objects))


@pytest.mark.long
def test_dependency_groups_use_boxes_without_masks(truth_pipeline, tmp_path):
    objects = truth_pipeline.part(Triplets).objects().objects
    file = tmp_path / "objects.csv"
    objects.drop(columns=["rle", "height", "width"]).to_csv(file, index=False)
    groups = pipeline(tmp_path, objects=str(file)).part(Triplets).dependency.groups()
    assert len(groups) == len(objects.drop_duplicates(["image_id", "object", "left", "top", "right", "bottom"]))
    assert set(groups["region"]) == {"box"}
    # A box also contains pixels around the object, so less of it is covered.
    named_things = groups["explicit"] & groups["label"].isin(world.THINGS)
    assert 0.3 < groups.loc[named_things, "coverage"].mean() < 1


def test_dependency_without_attention_is_refused(tmp_path, monkeypatch):
    p = pipeline(tmp_path, model="mini", attention=False)
    # The error is raised before an image is generated.
    monkeypatch.setattr(p, "generate_images", None)
    for asked in (p.part(Triplets).dependency.maps, p.part(Triplets).dependency.looked_at):
        with pytest.raises(MissingInputError, match=r"triplets\.attention"):
            asked()
    assert triplets.measure.dependency_example(None) is None
    assert not triplets.figures.dependency(None).axes[0].has_data()


@pytest.mark.long
def test_drawing_maps_and_agreement_of_model(tmp_path):
    p = pipeline(tmp_path, model="mini", calibration_images=6, attention=True)
    maps = p.part(Triplets).dependency.drawing_maps()
    table = p.part(Triplets).drawings().table
    (first,) = maps.word_maps([table["image_id"][0]])
    assert {w.lower() for w in first.words} | set(first.missing) == set(table["text"][0].replace(",", "").split())
    agreement_rows = p.part(Triplets).dependency.drawing_agreement()
    assert set(agreement_rows["noise"]) == {0.0, 0.1, 0.3, 0.5, 0.7, 0.9}
    values = agreement_rows[["overlap", "auc"]].to_numpy()
    assert np.nanmin(values) >= 0 and np.nanmax(values) <= 1


def test_drawing_agreement_without_maps_is_missing(tmp_path, folders):
    """For a model without attention in given images, and with attention disabled."""
    for model, attention, why in (("mini", False, r"triplets\.attention"), (folders("sdxl"), True, "XLPipeline")):
        p = pipeline(tmp_path, model=model, calibration_images=3, attention=attention)
        small = {"steps": 1, "height": 64, "width": 64, "dtype": "float32"}
        p = p.with_changes(generation=small | {"image_domain": "drawings"})
        with pytest.raises(MissingInputError, match=why):
            p.part(Triplets).dependency.drawing_agreement()


def test_find_nouns_refuses_other_texts(truth_pipeline):
    with pytest.raises(InputError, match=r"triplets\.noun_tagger is 'world'"):
        truth_pipeline.part(Triplets).dependency.nouns().find_nouns("two zebras on a lawn")
