"""Measured objects: from instances to tables, compared with loops by hand and with planted values."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from biaslab.analyses import calibration
from biaslab.errors import InputError, MissingInputError, ParameterError
from biaslab.judges.segmentation import Instances
from biaslab.metrics.instances import COLUMNS
from biaslab.papers import triplets
from biaslab.papers.triplets import cases
from biaslab.papers.triplets.stages import Triplets
from biaslab.pipeline import Pipeline, Settings
from biaslab.planning import validation
from biaslab.schema import tables
from biaslab_world.triplets import nouns


def settings(folder, **design):
    design = {"n_triplets": 12, "images_per_prompt": 1, "objects": "truth", "calibration_images": 24} | design
    return Settings(triplets=design, compute={"cache": str(folder / "store")})


def world(folder, **design):
    return Pipeline("world", settings(folder, **design), seed=5, progress=False)


# -- the world -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def truth(tmp_path_factory):
    return world(tmp_path_factory.mktemp("world"))


def test_object_counts_match_scenes(truth):
    images = truth.part(Triplets).images()
    counts = triplets.measure.object_counts(truth)
    depicted = {}
    for row in images.table.itertuples():
        scene = images.source.scene(row.image_id)
        kinds = [t.kind.replace("potted ", "").replace("coffee ", "") for t in scene.things]
        for name in kinds:
            key = (row.prompt_gender, row.triplet_id, name)
            depicted[key] = depicted.get(key, 0) + 1
    of = counts.set_index(["prompt_gender", "case", "object"])["count"]
    for key, n in depicted.items():
        # A thing may be hidden behind the person.
        assert of.get(key, 0) <= n
    things = counts[counts["object"].isin({key[2] for key in depicted})]
    assert things["count"].sum() >= 0.9 * sum(depicted.values())
    assert (of.xs("person", level="object") == 1).all() and len(of.xs("person", level="object")) == 36
    assert (counts["n_images"] == 12).all() and (counts["n_cases"] == 12).all()


def test_objects_table_has_mask_per_object(truth):
    objects = triplets.measure.objects(truth)
    names = [{"score": "detector_score"}.get(c, c) for c in COLUMNS]
    assert set(objects) == {*names, "model"} and set(objects["model"]) == {"world"}
    assert (objects["rle"] != "").all()
    assert set(objects["image_id"]) == set(truth.part(Triplets).images().table["image_id"])
    images = triplets.measure.object_images(truth)
    n = objects.groupby("image_id").size()
    of = truth.part(Triplets).images().table.set_index("image_id")["prompt_gender"]
    for row in images.itertuples():
        mine = n[of[n.index] == row.prompt_gender]
        interval = scipy_stats.t.interval(0.95, 11, mine.mean(), mine.std() / np.sqrt(12))
        assert row.objects_per_image == pytest.approx(mine.mean())
        assert [row.ci_low, row.ci_high] == pytest.approx(interval)
        assert (row.n_images, row.n_lost, row.n_empty) == (12, 0, 0)


def test_bias_score_includes_planted_score(truth):
    expected = triplets.measure.object_truth(truth)
    scores = triplets.bias_score(triplets.measure.object_counts(truth), expected, min_count=3, replicates=99)
    wide = expected.pivot(index="object", columns="prompt_gender", values="expected")
    for row in scores[scores["true_score"].notna()].itertuples():
        m, f = wide.loc[row.object, ["masculine", "feminine"]]
        assert row.true_score == pytest.approx(m / (m + f))
    assert scores.loc[scores["object"] == "person", "true_score"].isna().all()
    # Without any truth there is no such column.
    plain = triplets.bias_score(triplets.measure.object_counts(truth), min_count=3, replicates=99)
    assert "true_score" not in plain


@pytest.mark.long
def test_detections_of_ground_truth_are_perfect(truth):
    made = truth.part(Triplets).drawings()
    assert len(made.table) == 24 and set(made.table["truth_gender"]) == {"female", "male"}
    depicted = truth.part(Triplets).truth(made).objects
    rows = cases.detections(depicted, depicted)
    assert rows["n"].sum() == len(depicted) and (rows["iou"] == 1).all()
    assert set(rows["truth"]) == set(rows["answer"]) == {"yes"}
    assert set(rows.loc[rows["object"] == "person", "quantity"]) == {"people"}
    # The ground truth has no error.
    answers = triplets.measure.confusion(truth)
    assert not answers["quantity"].isin(["objects", "people"]).any() and triplets.measure.detector_counts(truth).empty


class Misses:
    """Finds the objects in drawings, except those that its rule omits."""

    def __init__(self, pipeline, misses):
        self.pipeline, self.misses = pipeline, misses

    def __call__(self, images):
        whole = self.pipeline.truth(images)
        genders = images.table.set_index("image_id")["truth_gender"]
        missed = self.misses(whole.objects, whole.objects["image_id"].map(genders))
        return Instances(whole.objects[~missed], whole.images)


def no_groups(stages):
    raise MissingInputError("no attention")


@pytest.mark.long
def test_confusion_finds_recall_difference_by_gender(tmp_path, monkeypatch):
    p = world(tmp_path, objects="mini-segmenter", calibration_images=60)
    finder = Misses(p.part(Triplets), lambda objects, gender: (gender == "female") & (objects["object"] != "person"))
    monkeypatch.setattr(p.part(Triplets), "find_instances", finder)
    monkeypatch.setattr(type(p.part(Triplets).dependency), "drawing_groups", no_groups)
    errors = calibration.error(triplets.measure.confusion(p), paper="triplets")
    result = errors.set_index(["subject", "condition", "measure"])["value"]
    objects = errors[errors["quantity"] == "objects"].set_index(["subject", "condition", "measure"])
    assert objects.loc[("all", "female", "recall"), "value"] == 0
    assert objects.loc[("all", "male", "recall"), "value"] == 100
    difference = objects.loc[("all", "male - female", "recall_difference")]
    assert difference["value"] == 100 and difference["ci_low"] > 50
    assert result["person", "male - female", "recall_difference"] == 0
    (finding,) = calibration.answers.recall_difference.findings(errors)
    assert finding.supported_answer == "Higher in images of men."
    # Nouns of captions: those of men's drawings are found, and no object is labelled woman.
    row = triplets.measure.detector_counts(p).iloc[0]
    made, depicted = p.part(Triplets).drawings(), p.part(Triplets).truth(p.part(Triplets).drawings()).objects
    # By hand: every named person counts as "person", which every drawing shows.
    people = {"woman", "man", "person"}
    depicted_pairs = set(zip(depicted["image_id"], depicted["object"], strict=True))
    male = set(made.table.loc[made.table["truth_gender"] == "male", "image_id"])
    pairs = {
        (r.image_id, "person" if noun in people else noun) for r in made.table.itertuples() for noun in nouns(r.text)
    }
    assert {(i, "person") for i in made.table["image_id"]} <= pairs & depicted_pairs
    both = {(i, noun) for i, noun in pairs & depicted_pairs if i in male or noun == "person"}
    expected = [len(pairs), len(both), len(pairs & depicted_pairs) - len(both)]
    assert row[["n_nouns", "n_nouns_both", "n_nouns_people_only"]].tolist() == expected


def test_confusion_of_annotations_has_no_iou(tmp_path, monkeypatch):
    ids = world(tmp_path).part(Triplets)._image_ids()
    rated = [(ids[0], "dog", "yes"), (ids[0], "cup", "no"), (ids[1], "hat", "yes"), (ids[1], "cup", "yes")]
    path = tmp_path / "ratings.csv"
    pd.DataFrame(rated, columns=["image_id", "object", "shown"]).to_csv(path, index=False)
    p = world(tmp_path, annotations=str(path))
    one = {"instance": 0, "score": 1.0, "left": 0, "top": 0, "right": 1, "bottom": 1, "rle": ""}
    one |= {"height": 1, "width": 1}
    objects = pd.DataFrame([{"image_id": ids[0], "object": "dog"} | one, {"image_id": ids[0], "object": "cup"} | one])
    image_status = pd.DataFrame({"image_id": ids, "status": "", "reason": ""})
    monkeypatch.setattr(p.part(Triplets), "objects", lambda: Instances(objects, image_status))
    result = triplets.measure.confusion(p)
    result = result[result["reference"] == "annotations"].set_index(["image_id", "subject"])
    answers_by_object = result[["truth", "answer"]].agg(tuple, axis=1).to_dict()
    # Objects that are neither annotated nor detected are not counted.
    assert answers_by_object == {
        (ids[0], "dog"): ("yes", "yes"),
        (ids[0], "cup"): ("no", "yes"),
        (ids[1], "hat"): ("yes", "no"),
        (ids[1], "cup"): ("yes", "no"),
    }
    assert result["iou"].isna().all() and (result["n"] == 1).all()


@pytest.mark.long
def test_objects_file_replaces_segmenter(tmp_path):
    p = world(tmp_path)
    ids = p.part(Triplets)._image_ids()
    rows = [(i, "dog", 1, 0, 0, 1, 1) for i in ids[:3]] + [(i, "", "", "", "", "", "") for i in ids[3:9]]
    path = tmp_path / "objects.csv"
    columns = ["image_id", "object", "score", "left", "top", "right", "bottom"]
    pd.DataFrame(rows, columns=columns).to_csv(path, index=False)
    p = world(tmp_path, objects=str(path))
    images = triplets.measure.object_images(p)
    # Three triplets are in the file, one with a dog in each of its images; the others are missing.
    assert images["n_lost"].tolist() == [9] * 3 and images["n_empty"].tolist() == [2] * 3
    counts = triplets.measure.object_counts(p)
    assert counts["count"].tolist() == [1] * 3 and (counts["n_images"] == 3).all()
    similar = triplets.measure.object_similarity(p)
    assert similar.groupby("pair")["n_pairs_excluded"].sum().tolist() == [2, 2]
    assert not triplets.measure.confusion(p)["quantity"].isin(["objects", "people"]).any()


# -- tables by hand --------------------------------------------------------------------------------------------


def test_top_objects_exclude_people_and_cluster_by_case():
    objects_by_case = {"a": {"cup": 3, "person": 9}, "b": {"cup": 1, "dog": 2}, "c": {"person": 1}}
    rows = [(case, name, n) for case, objects in objects_by_case.items() for name, n in objects.items()]
    same = {"model": "M", "dataset": "D", "prompt_gender": "feminine", "n_images": 6, "n_cases": 3}
    counts = pd.DataFrame(rows, columns=["case", "object", "count"]).assign(**same, dependency_group="hidden")
    counts = tables.make_table(counts, "triplets_group_object_counts")
    top = triplets.top_objects(counts)
    assert top[["object", "rank", "count"]].to_numpy().tolist() == [["cup", 1, 4], ["dog", 2, 2]]
    # Two images per case: 3, 1 and 0 cups are 1.5, 0.5 and 0 per image.
    values = np.array([1.5, 0.5, 0])
    low, high = scipy_stats.t.interval(0.95, 2, values.mean(), values.std(ddof=1) / np.sqrt(3))
    assert top["per_image"].iloc[0] == pytest.approx(4 / 6)
    assert top["ci_high"].iloc[0] == pytest.approx(high) and top["ci_low"].iloc[0] == max(0, low) == 0
    alone = triplets.top_objects(counts.assign(n_cases=1, case="a").drop_duplicates("object"))
    assert alone["ci_low"].isna().all() and (alone["reason"] != "").all()


# -- checks before a run ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "design", "error", "said"),
    [
        ("mini", {"objects": "truth"}, ParameterError, "which is not available for images of 'mini'"),
        ("mini", {"objects": "nothing-like-it"}, ParameterError, "segmenter model named"),
        ("mini", {"objects": "grounded:a/b+c"}, ParameterError, "TAGGER"),
        ("mini", {"objects": "none.csv"}, InputError, r"none\.csv"),
        ("world", {"objects": "truth", "object_vocabulary_file": "none.txt"}, InputError, r"none\.txt"),
    ],
)
def test_check_plan_refuses_unknown_object_source(model, design, error, said, tmp_path):
    with pytest.raises(error, match=said):
        validation.check_plan(Pipeline(model, Settings.from_mapping({"triplets": design})), {"triplets_object_counts"})
    # Tables without objects raise no error.
    validation.check_plan(Pipeline(model, Settings.from_mapping({"triplets": design})), {"triplets_prompts"})
