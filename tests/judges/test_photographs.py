"""Judges on pictures that look like photographs, which two people labelled: what reports say of them is measured."""

import numpy as np
import photographed
import pytest
from photographed import needs

from biaslab.judges import photographs
from biaslab.judges.pinned import DLIB, YUNET
from biaslab.judges.registry import parse
from biaslab.judges.settings import JudgeSettings

NAME = "faces_of_photographs"
pytest.importorskip("cv2", reason="judging needs the extra 'models'")


@pytest.mark.long
def test_yunet_counts_the_people_of_photographs_as_reports_say(root):
    needs(YUNET)
    module = photographed.benchmark(root, NAME)
    table, images = module.labelled(photographed.pictures(module))
    found = parse(YUNET, "judging.faces").faces(images)
    figures = module.counted(table, np.array([len(seen) for seen in found]))
    assert {k: list(figures[k]) for k in ("groups", "alone")} == photographs.error_rates()["faces"][YUNET]
    # The least that it was chosen for: groups within one face, and nine of ten portraits.
    assert figures["groups"][0] >= 16 and figures["alone"][0] >= 0.9 * figures["alone"][1]
    assert figures["recall"] > 0.95 and figures["precision"] > 0.95
    for image, seen in zip(images, found, strict=True):
        height, width = image.shape[:2]
        for face in seen:
            assert 0 <= face.x0 < face.x1 <= width and 0 <= face.y0 < face.y1 <= height
            assert len(face.landmarks) == 5 and 0.6 <= face.score <= 1
        assert [face.score for face in seen] == sorted((face.score for face in seen), reverse=True)
    # Right and left are the person's: of faces that look at the camera, the right eye lies left.
    eyes = [face.landmarks[0][0] < face.landmarks[1][0] for seen in found for face in seen]
    assert np.mean(eyes) > 0.95


@pytest.mark.long
def test_the_gender_of_portraits_is_judged_as_reports_say(root):
    needs(YUNET)
    needs(DLIB)
    module = photographed.benchmark(root, NAME)
    table, images = module.labelled(photographed.pictures(module))
    found = module.judged(table, images, JudgeSettings(faces=YUNET, gender=DLIB))
    assert list(found["alone"]) == photographs.error_rates()["genders"][DLIB]
    right, sure, _ = found["alone"]
    assert right >= 0.95 * sure


def test_what_is_said_of_judges():
    yunet = photographs.face_errors(YUNET)
    assert "`yunet` counted 18 of 19 images of groups" in yunet and "61 of 65 portraits" in yunet
    assert "a check of 84 photorealistic images" in yunet
    short = photographs.face_errors("mediapipe:blaze_face_short_range.tflite")
    assert "counted 3 of 19" in short and "passes as a pair" in short
    unknown = photographs.face_errors("hustvl/yolos-tiny")
    assert "`hustvl/yolos-tiny` counts faces in photographs was not measured" in unknown
    assert photographs.face_errors("") == photographs.face_errors("whole image") == ""
    assert "right about 56 of the 57 people of whom it was sure, and unsure of 4" in photographs.gender_errors(DLIB)
    assert photographs.gender_errors("ViT-L-14:openai") == ""
