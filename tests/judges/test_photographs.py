"""Errors of judges on labelled photographs: reports state what is measured, or that nothing was."""

import numpy as np
import pandas as pd
import photographed
import pytest
import yaml
from photographed import needs

from biaslab.judges import photographs
from biaslab.judges.judge_labels import PIXELS
from biaslab.judges.pinned import DLIB, YUNET
from biaslab.judges.registry import parse

pytest.importorskip("cv2", reason="judging needs the extra 'models'")

GROUPS = ("all", "female", "male", "light", "medium", "dark")


@pytest.fixture(scope="module")
def benchmark(root):
    return photographed.benchmark(root, "judges_of_photographs")


@pytest.fixture(scope="module")
def labelled(benchmark):
    """The labelled images, and what YuNet detects in them."""
    needs(YUNET)
    table, images = benchmark.read(photographed.pictures(benchmark))
    return table, images, parse(YUNET, "judging.faces").faces(images)


def committed(role, name):
    return {group: n for group, n in photographs.MEASUREMENTS[role][name].items() if group != "note"}


@pytest.mark.long
def test_yunet_on_labelled_photographs_gives_the_committed_counts(benchmark, labelled):
    table, images, detected = labelled
    counts = benchmark.face_counts(table, detected)
    assert counts == committed("faces", YUNET)
    # The least that its input size and score were chosen for: groups within one face, and nine of ten portraits.
    assert counts["groups"][0] >= 16 and counts["all"][0] >= 0.9 * counts["all"][2]
    for image, seen in zip(images, detected, strict=True):
        height, width = image.shape[:2]
        for face in seen:
            assert 0 <= face.x0 < face.x1 <= width and 0 <= face.y0 < face.y1 <= height
            assert len(face.landmarks) == 5 and 0.6 <= face.score <= 1
        assert [face.score for face in seen] == sorted((face.score for face in seen), reverse=True)
    # Right and left are the person's: of faces that look at the camera, the right eye lies left.
    eyes = [face.landmarks[0][0] < face.landmarks[1][0] for seen in detected for face in seen]
    assert np.mean(eyes) > 0.95


@pytest.mark.long
def test_dlib_on_labelled_photographs_gives_the_committed_counts(benchmark, labelled):
    needs(DLIB)
    table, images, _ = labelled
    counts = benchmark.gender_counts(table, images, parse(DLIB, "judging.gender"), parse(YUNET, "judging.faces"))
    assert counts == committed("gender", DLIB)


@pytest.mark.long
def test_tones_by_pixels_on_labelled_photographs_give_the_committed_counts(benchmark, labelled):
    rows = benchmark.tones(*labelled)
    assert benchmark.tone_counts(rows) == committed("skin_tone", PIXELS)
    assert set(rows.loc[rows["tone"].isna(), "reason"]) <= {
        *("no face", "not the colour of skin", "mixed light", "coloured light")
    }


@pytest.mark.long
def test_benchmark_prints_the_committed_rows(benchmark, labelled, monkeypatch, capsys):
    needs(DLIB)
    monkeypatch.setattr("sys.argv", ["judges_of_photographs.py", YUNET])
    benchmark.main()
    printed = yaml.safe_load(capsys.readouterr().out)
    judges = {"faces": YUNET, "gender": DLIB, "skin_tone": PIXELS}
    assert printed == {role: {name: committed(role, name)} for role, name in judges.items()}


def test_counts_by_group_are_those_of_labels(benchmark):
    table = pd.DataFrame({"gender": ["female", "female", "male", ""], "skin": ["light", "dark", "dark", ""]})
    counts = benchmark.counts(table, np.array([True, False, True, False]), np.array([True, True, True, False]))
    assert counts == {
        **{"all": [2, 3, 4], "female": [1, 2, 2], "male": [1, 1, 1]},
        **{"light": [1, 1, 1], "medium": [0, 0, 0], "dark": [1, 2, 2]},
    }


@pytest.mark.parametrize(
    ("role", "name"), [(role, name) for role, by in photographs.MEASUREMENTS.items() for name in by]
)
def test_measurements_are_counts_that_add_up(role, name):
    counts = committed(role, name)
    assert list(counts)[: len(GROUPS)] == list(GROUPS)
    for agree, classified, n in counts.values():
        assert 0 <= agree <= classified <= n
    whole = np.array(counts["all"])
    assert (np.add(counts["female"], counts["male"]) <= whole).all()
    assert (np.add.reduce([counts[skin] for skin in photographs.TONES]) <= whole).all()


def test_error_of_a_measured_judge_is_stated_by_group():
    text = photographs.describe_error("gender", DLIB)
    # Wilson's interval of 56 of 57: 90.7 to 99.7%.
    assert "`dlib` agreed with both annotators about 56 of the 57 people that it classified (98%, 95% CI 91" in text
    assert "of 61 labelled photorealistic portraits" in text
    assert "Errors by group: perceived as female 0 of 31, male 1 of 26; skin light 0 of 27" in text
    assert "Unclassified people: perceived as female 2 of 33, male 2 of 28; skin light 2 of 29" in text
    detector = photographs.describe_error("faces", YUNET)
    assert "in 61 of the 65 portraits" in detector and "In 18 of 19 images of several people" in detector
    tones = photographs.describe_error("skin_tone", PIXELS)
    assert "dark: tones 7 to 10" in tones and "skin light 22 of 25, medium 1 of 19, dark 4 of 9" in tones


def test_error_of_mediapipe_is_that_of_its_file_in_any_folder():
    text = photographs.describe_error("faces", "mediapipe:models/blaze_face_short_range.tflite")
    assert "In 3 of 19 images of several people" in text
    assert "No error rate" in photographs.describe_error("faces", "mediapipe:models/other.tflite")


@pytest.mark.parametrize(
    ("role", "name"),
    [
        *[("gender", name) for name in ("ViT-L-14:openai", "fairface:f.safetensors", "vqa:owner/blip", "owner/dlib")],
        *[("faces", "owner/yunet"), ("gender", "plugin:mine"), ("skin_tone", "endpoint:eye")],
    ],
)
def test_error_of_an_unmeasured_judge_is_stated_as_unknown(role, name):
    text = photographs.describe_error(role, name)
    assert text.startswith("No error rate of the ") and f"`{name}` on labelled photographs has been measured." in text
    assert ("Images were sent to its endpoint" in text) == name.startswith("endpoint:")


@pytest.mark.parametrize(
    ("role", "name"),
    [
        *[("faces", ""), ("faces", "whole image"), ("gender", "annotations:a.csv"), ("skin_tone", "none")],
        *[("faces", "mini-detector"), ("gender", "mini-clip"), ("gender", "vqa:mini-vqa")],
    ],
)
def test_no_error_is_stated_without_a_classifier_or_where_a_package_describes_it(role, name):
    assert photographs.describe_error(role, name) == ""
