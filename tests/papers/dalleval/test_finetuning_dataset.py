"""PaintSkills' folder exported as a dataset for other libraries: files, boxes in pixels, and omissions."""

import json
import os

import numpy as np
import pytest
from paintskills_files import annotation, coco, pictured, put, scene, thing
from PIL import Image

from biaslab import cli
from biaslab.errors import InputError, ParameterError
from biaslab.judges.object_classes import CLASS_NAMES
from biaslab.judges.objects import columns
from biaslab.papers.dalleval import finetuning_dataset
from biaslab.papers.dalleval.finetuning_dataset import export


def put_image(folder, skill, name, width, height):
    file = folder / skill / "images" / f"image_{name}.png"
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((height, width, 3), 90, np.uint8)).save(file)
    return file


def put_split_boxes(folder, skill, split, data):
    (folder / skill / f"{skill}_{split}_bounding_boxes.json").write_text(json.dumps(data), encoding="utf-8")


@pytest.fixture
def release(tmp_path):
    """Two training scenes of objects, a hydrant and a person, and a test scene of two dogs to count."""
    folder = tmp_path / "release"
    objects = [scene("a", thing("fireHydrant"), text="a hydrant"), scene("b", thing("human"), text="a “person”")]
    put(folder, "object", objects, split="train")
    put(folder, "count", [scene("c", *(thing("dog"),) * 2, skill="count", text="2 dogs")])
    # The file of boxes is of 200 × 100 pixels, and the image half as large. The box leaves the frame on the right.
    data = [annotation(1, 5, [50, 20, 100, 50]), annotation(2, 9, [40, 0, 20, 50])]
    put_split_boxes(folder, "object", "train", coco(*data))
    dogs = [annotation(7, 3, [0, 0, 10, 10]), annotation(7, 3, [10, 10, 30, 20])]
    of_dogs = coco(*dogs, images=[pictured(7, "image_c.png", 40, 40)], categories=[{"id": 3, "name": "dog"}])
    put_split_boxes(folder, "count", "val", of_dogs)
    put(folder, "object", [scene("d", thing("human"))])
    put_split_boxes(folder, "object", "val", coco(annotation(3, 9, [0, 0, 9, 9]), images=[pictured(3, "image_d.png")]))
    for skill, name, width, height in (("object", "a", 100, 50), ("object", "b", 50, 50), ("count", "c", 40, 40)):
        put_image(folder, skill, name, width, height)
    put_image(folder, "object", "d", 200, 100)
    return folder


def rows_of(folder, split):
    return [json.loads(line) for line in (folder / split / "metadata.jsonl").read_text(encoding="utf-8").splitlines()]


# Numbers of the classes in the paper's order.
DOG, HYDRANT, PERSON = 7, 8, 9


def test_export_writes_captions_and_pixel_boxes(release, tmp_path):
    export(release, tmp_path / "out")
    hydrant, person = rows_of(tmp_path / "out", "train")
    # Half of 50, 20, 100 and 50, as the image is half the size stated in the file of boxes; area 50 · 25.
    assert hydrant == {
        "file_name": "00000000.png",
        "width": 100,
        "height": 50,
        "image_id": 0,
        "text": "a hydrant",
        "skill": "object",
        "scene_id": "a",
        "objects": {"id": [1], "area": [1250.0], "bbox": [[25.0, 10.0, 50.0, 25.0]], "category": [HYDRANT]},
    }
    # 10 of 20 pixels are inside the frame of 50 × 50.
    assert person["objects"] == {"id": [2], "area": [500.0], "bbox": [[40.0, 0.0, 10.0, 50.0]], "category": [PERSON]}
    assert person["text"] == "a “person”"
    lone, dogs = rows_of(tmp_path / "out", "test")
    assert (lone["scene_id"], lone["image_id"], dogs["image_id"]) == ("d", 2, 3)
    assert dogs["objects"]["bbox"] == [[0.0, 0.0, 10.0, 10.0], [10.0, 10.0, 30.0, 20.0]]
    assert dogs["objects"]["category"] == [DOG, DOG]


def test_export_links_images_by_metadata_name(release, tmp_path):
    export(release, tmp_path / "out")
    for split in ("train", "test"):
        for row in rows_of(tmp_path / "out", split):
            skill, scene_id = row["skill"], row["scene_id"]
            assert os.path.samefile(
                release / skill / "images" / f"image_{scene_id}.png", tmp_path / "out" / split / row["file_name"]
            )


def test_export_without_hard_links_copies_images(release, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(finetuning_dataset.os, "link", refuse)
    export(release, tmp_path / "out")
    source, written = release / "object/images/image_a.png", tmp_path / "out/train/00000000.png"
    assert written.read_bytes() == source.read_bytes() and not os.path.samefile(source, written)


def test_export_coco_annotations_match_metadata(release, tmp_path):
    export(release, tmp_path / "out")
    data = json.loads((tmp_path / "out/annotations/test.json").read_text(encoding="utf-8"))
    assert data["categories"][DOG] == {"id": DOG, "name": "dog"} and len(data["categories"]) == 15
    assert data["images"] == [
        {"id": 2, "file_name": "test/00000002.png", "width": 200, "height": 100},
        {"id": 3, "file_name": "test/00000003.png", "width": 40, "height": 40},
    ]
    person, dog, other = data["annotations"]
    assert (person["image_id"], person["category_id"], person["bbox"]) == (2, PERSON, [0.0, 0.0, 9.0, 9.0])
    assert dog == {"id": 2, "image_id": 3, "category_id": DOG, "bbox": [0, 0, 10, 10], "area": 100.0, "iscrowd": 0}
    assert (other["id"], other["area"]) == (3, 600.0)
    assert all((tmp_path / "out" / image["file_name"]).is_file() for image in data["images"])


def test_export_is_readable_by_datasets(release, tmp_path):
    datasets = pytest.importorskip("datasets")
    export(release, tmp_path / "out")
    data = datasets.load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
    assert {name: of.num_rows for name, of in data.items()} == {"train": 2, "test": 2}
    names = data["train"].features["objects"]["category"].feature.names
    # With these names a detector trained on the dataset has all classes of DALL-Eval.
    assert columns(dict(enumerate(names)), CLASS_NAMES, "a detector") == list(range(15))
    row = data["test"][1]
    assert (row["text"], row["image"].size, row["objects"]["category"]) == ("2 dogs", (40, 40), [DOG, DOG])
    plain = datasets.load_dataset("imagefolder", data_dir=str(tmp_path / "out"), cache_dir=str(tmp_path / "plain"))
    assert {name: of["text"][:] for name, of in plain.items()} == {
        "train": ["a hydrant", "a “person”"],
        "test": [row["text"] for row in rows_of(tmp_path / "out", "test")],
    }


def test_export_counts_missing_unreadable_and_boxless_images(release, tmp_path, capsys):
    put(release, "object", [scene("d", thing("human")), scene("e", thing("dog")), scene("f", thing("dog"))])
    put_image(release, "object", "e", 30, 30)
    damaged = put_image(release, "object", "c2", 30, 30).rename(release / "object/images/image_f.png")
    damaged.write_bytes(damaged.read_bytes()[:60])
    (release / "count/images/image_c.png").unlink()
    assert cli.main(["export-dataset", "paintskills", str(release), "-o", str(tmp_path / "out")]) == 0
    captured = capsys.readouterr()
    # d has a box, e none; f is damaged, and c has no file.
    head, train, test = (line.split() for line in captured.err.splitlines())
    assert head == ["split", "images", "boxes", "no_box", "missing", "unreadable"]
    assert train == ["train", "2", "2", "0", "0", "0"] and test == ["test", "2", "1", "1", "1", "1"]
    assert captured.out == f"{tmp_path / 'out'}\n"
    _, empty = rows_of(tmp_path / "out", "test")
    assert empty["objects"] == {"id": [], "area": [], "bbox": [], "category": []}


def test_export_with_boxless_first_image_is_readable(release, tmp_path):
    datasets = pytest.importorskip("datasets")
    put(release, "object", [scene("0", thing("human")), scene("d", thing("human"))])
    put_image(release, "object", "0", 30, 30)
    export(release, tmp_path / "out")
    data = datasets.load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
    assert data["test"]["objects"][0]["bbox"] == [] and data["test"]["objects"][1]["category"] == [PERSON]


def test_export_reads_one_image_at_a_time(release, tmp_path, monkeypatch):
    reads, read = [], finetuning_dataset.CaptionImages.read
    monkeypatch.setattr(finetuning_dataset.CaptionImages, "read", lambda *of: reads.append(of[1]) or read(*of))
    export(release, tmp_path / "out")
    assert reads == [["image_a"], ["image_b"], ["image_d"], ["image_c"]]


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_export_refuses_nonempty_output(release, tmp_path, kind):
    output = tmp_path / "out"
    if kind == "folder":
        output.mkdir()
        (output / "mine.txt").write_text("mine")
    else:
        output.write_text("mine")
    with pytest.raises(ParameterError) as error:
        export(release, output)
    assert str(error.value) == (
        f"--output is {output}, which exists and is not an empty folder. Choose a new or empty folder."
    )
    assert output.is_file() or [file.name for file in output.iterdir()] == ["mine.txt"]


def test_export_without_boxes_of_skill_is_refused(release, tmp_path):
    (release / "count/count_val_bounding_boxes.json").unlink()
    with pytest.raises(InputError, match=r"no boxes for test scenes of the skill count.*Unpack count\.zip"):
        export(release, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_export_without_training_scenes_names_file(release, tmp_path):
    (release / "object/scenes/object_train.json").unlink()
    with pytest.raises(InputError, match=r"no scenes of PaintSkills, such as object/scenes/object_train\.json"):
        export(release, tmp_path / "out")


def test_export_refuses_scene_in_both_splits(release, tmp_path):
    put(release, "object", [scene("a", thing("fireHydrant"))])
    put_split_boxes(release, "object", "val", coco(annotation(1, 5, [0, 0, 9, 9])))
    with pytest.raises(InputError, match="the scene 'a' in both splits"):
        export(release, tmp_path / "out")


def test_export_without_any_image_is_refused(release, tmp_path):
    for file in release.rglob("*.png"):
        file.rename(file.with_name(f"other_{file.name}"))
    with pytest.raises(InputError, match=r"none of the 4 images of its scenes, such as image_a\.png"):
        export(release, tmp_path / "out")
    assert not (tmp_path / "out").exists()
