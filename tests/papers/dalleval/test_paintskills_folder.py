"""PaintSkills' folder of scenes, images and boxes: reading, validation, and swapped prompts."""

import codecs

import numpy as np
import pandas as pd
import pytest
from paintskills_files import annotation, coco, pictured, put, put_boxes, scene, thing

from biaslab.errors import InputError
from biaslab.papers.dalleval import paintskills, prompts

COLUMNS = ["prompt_id", "skill", "template", "text", "object", "n", "relation", "other"]


# -- scenes --------------------------------------------------------------------------------------------


def test_scenes_have_columns_of_paper_prompts(tmp_path):
    left = (thing("fireHydrant"), thing("humanSophie", "left_0", 1))
    put(tmp_path, "object", [scene("object_1", thing("bike"), text="a bicycle"), scene("o.2", thing("stopSign"))])
    put(tmp_path, "count", [scene("count-1", *(thing("trafficLight"),) * 4, skill="count", text="4 lights")])
    put(tmp_path, "spatial", [scene("spatial_1", *left, skill="spatial", text="a person is left to it")])
    # Other skills and splits, such as the paper's earlier one of colours, are ignored.
    put(tmp_path, "color", [scene("color_1", thing("dog"), skill="color")])
    put(tmp_path, "object", [scene("later", thing("dog"))], split="train")
    found = paintskills.scenes(tmp_path)
    assert list(found.columns) == COLUMNS == list(prompts.skills().columns)
    assert found.to_numpy().tolist() == [
        ["object_1", "object", 0, "a bicycle", "bicycle", 1, "", ""],
        ["o.2", "object", 0, "a photo of dog", "stop sign", 1, "", ""],
        ["count-1", "count", 0, "4 lights", "traffic light", 4, "", ""],
        # The relation is that of the second object to the first.
        ["spatial_1", "spatial", 0, "a person is left to it", "person", 1, "left", "fire hydrant"],
    ]


SIMULATORS = {"bike": "bicycle", "fireHydrant": "fire hydrant", "humanSophie": "person", "human": "person"}
SIMULATORS |= {"pottedPlant": "potted plant", "stopSign": "stop sign", "trafficLight": "traffic light"}


def test_scenes_map_simulator_class_names(tmp_path):
    said = SIMULATORS | {name: name for name in prompts.CLASSES}
    put(tmp_path, "object", [scene(f"s{k}", thing(name)) for k, name in enumerate(said)])
    assert paintskills.scenes(tmp_path)["object"].tolist() == list(said.values())


def test_scenes_strip_invisible_characters(tmp_path):
    """Texts with invisible characters, and a file with a byte order mark."""
    spatial_objects = (thing("bike"), thing("hu\u200bman\u00adSophie", "above\u2060_0", 1))
    file = put(tmp_path, "spatial", [scene("a", *spatial_objects, skill="spatial")])
    file.write_bytes(codecs.BOM_UTF8 + file.read_bytes())
    (row,) = paintskills.scenes(tmp_path).to_dict("records")
    assert (row["object"], row["relation"], row["other"]) == ("person", "above", "bicycle")


def test_scenes_need_at_least_one_skill(tmp_path, monkeypatch):
    put(tmp_path, "count", [scene("a", *(thing("dog"),) * 2, skill="count")])
    assert paintskills.scenes(tmp_path)[["skill", "n"]].to_numpy().tolist() == [["count", 2]]
    for where in (tmp_path / "no-such", tmp_path / "count"):
        with pytest.raises(InputError) as error:
            paintskills.scenes(where)
        assert str(where) in str(error.value) and "object_val.json" in str(error.value)
    monkeypatch.setenv("HOME", str(tmp_path.parent))
    assert len(paintskills.scenes(f"~/{tmp_path.name}")) == 1


DOG = thing("dog")


@pytest.mark.parametrize(
    ("skill", "data", "named"),
    [
        ("object", "{not json", ["JSON"]),
        ("object", '{"data": NaN}', ["data", "nan"]),
        *(
            ("object", [{k: v for k, v in scene("a", DOG).items() if k != gone}], [f"data.0.{gone}"])
            for gone in ("id", "text", "objects")
        ),
        ("object", [scene("a", {"id": 0})], ["data.0.objects.0.shape"]),
        ("object", [scene("a", DOG), scene("../a", DOG)], ["data.1.id", "../a"]),
        ("object", [scene("a", thing("trafficLigth"))], ["'trafficLigth'", "'traffic light'"]),
        ("object", [scene("seven", DOG, DOG)], ["seven", "dog"]),
        ("count", [scene("seven", *(DOG,) * 5, skill="count")], ["seven", "dog", "4"]),
        ("count", [scene("seven", DOG, thing("car"), skill="count")], ["seven", "dog", "car"]),
        ("spatial", [scene("seven", DOG, skill="spatial")], ["seven", "dog", "left_0"]),
        ("spatial", [scene("seven", DOG, thing("car", "left_1"), skill="spatial")], ["seven", "'left_1'"]),
        ("spatial", [scene("seven", thing("car", "left_0"), DOG, skill="spatial")], ["seven", "left_0"]),
    ],
)
def test_scenes_refuse_invalid_data(tmp_path, skill, data, named):
    file = put(tmp_path, skill, data)
    with pytest.raises(InputError) as error:
        paintskills.scenes(tmp_path)
    assert all(part in str(error.value) for part in [str(file), *named])


@pytest.mark.parametrize("of", ['{"data": %s}', '{"data": [], "more": %s}'])
def test_scenes_refuse_deep_nesting(tmp_path, of):
    file = put(tmp_path, "object", of % ("[" * 100_000 + "]" * 100_000))
    with pytest.raises(InputError) as error:
        paintskills.scenes(tmp_path)
    assert str(file) in str(error.value) and len(str(error.value)) < 1000


def test_scenes_refuse_duplicate_ids(tmp_path):
    put(tmp_path, "object", [scene("same", DOG), scene("other", DOG)])
    put(tmp_path, "count", [scene("same", DOG, skill="count")])
    with pytest.raises(InputError) as error:
        paintskills.scenes(tmp_path)
    assert str(tmp_path) in str(error.value) and "'same'" in str(error.value)


# -- boxes ---------------------------------------------------------------------------------------------


@pytest.fixture
def scene_prompts(tmp_path):
    """Scenes of objects, of which one has no box, and of counts, which have no file of boxes."""
    put(tmp_path, "object", [scene("a", thing("fireHydrant")), scene("b", thing("human")), scene("c", DOG)])
    put(tmp_path, "count", [scene("d", DOG, skill="count")])
    return paintskills.scenes(tmp_path)


def test_boxes_are_relative_to_image_size(tmp_path, scene_prompts):
    # A quarter and a half of 200 × 100, and all of 50 × 50.
    put_boxes(
        tmp_path,
        "object",
        coco(annotation(1, 5, [50, 0, 100, 50.0]), annotation(2, 9, [0, 0, 50, 50]), annotation(1, 9, [0, 99, 1, 1])),
    )
    found = paintskills.boxes(tmp_path, scene_prompts)
    assert found.iloc[:, :7].to_numpy().tolist() == [
        ["a", "fire hydrant", 1.0, 0.25, 0.0, 0.75, 0.5],
        ["b", "person", 1.0, 0.0, 0.0, 1.0, 1.0],
        ["a", "person", 1.0, 0.0, 0.99, 0.005, 1.0],
    ]
    sure = found[[f"p_{name}" for name in prompts.CLASSES]]
    assert (sure.sum(axis=1) == 1).all()
    assert sure.idxmax(axis=1).tolist() == ["p_fire hydrant", "p_person", "p_person"]
    some = paintskills.boxes(tmp_path, scene_prompts[scene_prompts["prompt_id"] == "b"])
    assert some["image_id"].tolist() == ["b"]
    nothing = paintskills.boxes(tmp_path, scene_prompts[scene_prompts["skill"] == "count"])
    assert nothing.empty and list(nothing.columns) == list(found.columns)


@pytest.mark.parametrize(
    ("found", "named"),
    [
        ("{", ["JSON"]),
        ({"images": [], "annotations": []}, ["categories"]),
        (coco(images=[pictured(1, "image_a.png", width=0)]), ["images.0.width", "0"]),
        (coco(categories=[{"id": 5, "name": "fireHidrant"}]), ["'fireHidrant'", "'fire hydrant'"]),
        (coco(annotation(3, 5, [0, 0, 1, 1])), ["image_id=3"]),
        (coco(annotation(1, 5, [float("nan"), 0, 10, 10])), ["annotations.0.bbox.0", "nan"]),
    ],
)
def test_boxes_refuse_invalid_data(tmp_path, scene_prompts, found, named):
    file = put_boxes(tmp_path, "object", found)
    with pytest.raises(InputError) as error:
        paintskills.boxes(tmp_path, scene_prompts)
    assert all(part in str(error.value) for part in [str(file), *named])


@pytest.mark.parametrize(
    ("bbox", "sides"),
    [
        ([-1.5, 0, 11.5, 10], (0, 0, 0.05, 0.1)),
        ([195, 95.5, 10, 10], (0.975, 0.955, 1, 1)),
        # Boxes of hidden objects as the simulator writes them, and others without area within 200 × 100 pixels.
        ([1000000, 100000, -1000000, -100000], None),
        ([20, 20, -10.5, 10], None),
        ([200, 0, 10, 10], None),
    ],
)
def test_boxes_are_clipped_and_empty_ones_counted(tmp_path, scene_prompts, caplog, bbox, sides):
    put_boxes(tmp_path, "object", coco(annotation(1, 5, bbox), annotation(1, 5, [0, 0, 20, 10])))
    found = paintskills.boxes(tmp_path, scene_prompts)[["left", "top", "right", "bottom"]].to_numpy()
    wanted = [(0, 0, 0.1, 0.1)] if sides is None else [sides, (0, 0, 0.1, 0.1)]
    np.testing.assert_allclose(found, wanted)
    assert (": 1, such as" in caplog.text and str(float(bbox[0])) in caplog.text) == (sides is None)


# -- prompts swapped between scenes -----------------------------------------------------------------------


def shows(image, scene_prompts):
    """Return whether an image of a scene meets a prompt: by its objects and their mutual relations."""
    if scene_prompts["skill"] != "spatial":
        return (image["object"], image["n"]) == (scene_prompts["object"], scene_prompts["n"])
    turned = {"left": "right", "right": "left", "above": "below", "below": "above"}
    said = {(image["object"], image["relation"], image["other"])}
    said.add((image["other"], turned[image["relation"]], image["object"]))
    return (scene_prompts["object"], scene_prompts["relation"], scene_prompts["other"]) in said


def of_class(image, name):
    """Return the number of objects of a class in an image of a scene."""
    return image["n"] * (image["object"] == name) + (image["other"] == name)


@pytest.mark.long
def test_swap_prompts_gives_stated_failures():
    whole = prompts.skills()
    rng = np.random.default_rng(3)
    of = whole.groupby("skill", sort=False).indices.values()
    images = whole.iloc[np.concatenate([rng.permutation(i)[:60] for i in of])].reset_index(drop=True)
    before = images.copy()
    scene_prompts = paintskills.swap_prompts(images, whole, np.random.default_rng(4))
    pd.testing.assert_frame_equal(images, before)
    pd.testing.assert_frame_equal(scene_prompts[["prompt_id", "skill"]], images[["prompt_id", "skill"]])
    known_prompts = set(whole[["skill", "text", "object", "n", "relation", "other"]].itertuples(index=False, name=None))
    for k, (image, row) in enumerate(zip(images.to_dict("records"), scene_prompts.to_dict("records"), strict=True)):
        # The prompt is that of another scene of the skill, including its text.
        assert tuple(row[c] for c in ("skill", "text", "object", "n", "relation", "other")) in known_prompts
        if k % 2:
            assert row["truth_failure"] == "" and all(row[c] == image[c] for c in image)
        else:
            near = {"object": "", "count": "other number", "spatial": "other relation"}[row["skill"]]
            assert row["truth_failure"] in {"other class", near} - {""}
        assert shows(image, row) == (row["truth_failure"] == "")
        same = (image["object"], image["other"]) == (row["object"], row["other"])
        assert same == (row["truth_failure"] != "other class")
        # A relation of two objects of one class requests one of them.
        expected_n = 1 if same and row["skill"] == "spatial" else of_class(image, row["object"])
        assert row["truth_n"] == expected_n
    counts = {skill: of.value_counts().to_dict() for skill, of in scene_prompts.groupby("skill")["truth_failure"]}
    assert counts == {
        "object": {"": 30, "other class": 30},
        "count": {"": 30, "other class": 15, "other number": 15},
        "spatial": {"": 30, "other class": 15, "other relation": 15},
    }


def rows(*values):
    return pd.DataFrame([(f"s{k}", *row) for k, row in enumerate(values)], columns=COLUMNS)


def test_swap_prompts_without_alternative_changes_nothing():
    whole = rows(
        ("object", 0, "a dog", "dog", 1, "", ""),
        ("object", 0, "one dog", "dog", 1, "", ""),
        ("count", 0, "2 cars", "car", 2, "", ""),
        ("spatial", 0, "a dog left to a car", "dog", 1, "left", "car"),
        ("spatial", 0, "a car left to a dog", "car", 1, "left", "dog"),
    )
    for order in ([0, 1, 2, 3, 4], [2, 0, 3, 1, 4]):
        scene_prompts = paintskills.swap_prompts(whole.loc[order], whole, np.random.default_rng(0))
        assert (
            not scene_prompts["truth_failure"].any()
            and scene_prompts["truth_n"].tolist() == scene_prompts["n"].tolist()
        )
        assert scene_prompts["text"].tolist() == whole.loc[order, "text"].tolist()


def test_swap_prompts_uses_only_differing_property():
    numbers = rows(*(("count", 0, f"{n} dogs", "dog", n, "", "") for n in (1, 2, 3, 4)))
    scene_prompts = paintskills.swap_prompts(numbers, numbers, np.random.default_rng(0))
    assert scene_prompts["truth_failure"].tolist() == ["other number", ""] * 2
    # The depicted number is unchanged, whatever the prompt.
    assert scene_prompts["truth_n"].tolist() == [1, 2, 3, 4] and (scene_prompts["n"][::2] != [1, 3]).all()
    classes = rows(*(("count", 0, f"2 {name}", name, 2, "", "") for name in ("dog", "car", "bear", "boat")))
    scene_prompts = paintskills.swap_prompts(classes, classes, np.random.default_rng(0))
    assert scene_prompts["truth_failure"].tolist() == ["other class", ""] * 2
    assert scene_prompts["truth_n"].tolist() == [0, 2] * 2 and scene_prompts["n"].tolist() == [2] * 4
