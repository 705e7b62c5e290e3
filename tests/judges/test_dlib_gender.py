"""Gender by dlib's network: face alignment and probabilities."""

import numpy as np
import pytest
from photograph_benchmarks import require_package

from biaslab.judges.face_classifiers import POINTS, SIDE, DlibJudge, align_face, similarity
from biaslab.judges.faces import WholeImage
from biaslab.judges.judge import People
from biaslab.judges.people import judge_arrays
from biaslab.judges.person import Person, whole_image
from biaslab.judges.registry import parse

cv2 = pytest.importorskip("cv2", reason="judging needs the extra 'models'")


def test_similarity_is_least_squares_transform():
    # A quarter turn to the left, twice as large, three to the right: (x, y) becomes (3 + 2y, -2x).
    points = np.array([[0.0, 0], [1, 0], [0, 1], [4, 2]])
    places = np.column_stack([3 + 2 * points[:, 1], -2 * points[:, 0]])
    np.testing.assert_allclose(similarity(points, places), [[0, 2, 3], [-2, 0, 0]], atol=1e-12)
    # Of points that do not fit, by least squares: x' = a x - b y + c and y' = b x + a y + d.
    places += np.array([[0.3, 0], [0, -0.2], [0.1, 0.1], [-0.2, 0]])
    (x, y), ones, zeros = points.T, np.ones(4), np.zeros(4)
    terms = np.vstack([np.column_stack([x, -y, ones, zeros]), np.column_stack([y, x, zeros, ones])])
    a, b, c, d = np.linalg.lstsq(terms, places.T.ravel(), rcond=None)[0]
    np.testing.assert_allclose(similarity(points, places), [[a, -b, c], [b, a, d]], atol=1e-12)


def test_align_face_moves_landmarks_to_network_points():
    # Five spots of light where YuNet would see the points of a face that is turned by 30 degrees, of 200 pixels.
    turn = np.array([[np.cos(0.5236), -np.sin(0.5236)], [np.sin(0.5236), np.cos(0.5236)]])
    landmarks = (np.array(POINTS) - 0.5) * 200 @ turn.T + [160, 150]
    image = np.zeros((300, 320, 3), np.uint8)
    for x, y in landmarks:
        cv2.circle(image, (round(x), round(y)), 7, (255, 255, 255), -1)
    face = align_face(Person(image, (60, 50, 260, 250), tuple(map(tuple, landmarks)))).astype(float)[..., 0]
    assert face.shape == (SIDE, SIDE)
    for x, y in np.array(POINTS) * SIDE - 0.5:
        patch = face[round(y) - 2 : round(y) + 3, round(x) - 2 : round(x) + 3]
        rows, columns = np.mgrid[: patch.shape[0], : patch.shape[1]]
        centre = np.array([(columns * patch).sum(), (rows * patch).sum()]) / patch.sum() + [round(x) - 2, round(y) - 2]
        np.testing.assert_allclose(centre, [x, y], atol=0.6)


def test_align_face_without_five_landmarks_crops_square():
    # 0.9 of the longer side, 100 pixels: rows 5 to 95 and columns 25 - 45 to 25 + 45 around (25, 50); left is black.
    image = np.full((120, 80, 3), 200, np.uint8)
    for landmarks in ((), ((1, 2),) * 6, ((10.0, 10.0),) * 5):
        face = align_face(Person(image, (0, 0, 50, 100), landmarks))
        # The square begins 20 pixels left of the image, of 90: 7.1 of 32.
        assert (face[:, :6] == 0).all() and (face[:, 8:] == 200).all()


def test_dlib_judge_probability_is_independent_of_batch():
    require_package("dlib")
    judge = parse("dlib", "judging.gender")

    def probabilities(*images):
        return [answer.probability_female for answer in judge.answers(People(None, list(map(whole_image, images))))]

    assert isinstance(judge, DlibJudge) and probabilities() == []
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (h, w, 3), dtype=np.uint8) for h, w in ((40, 30), (32, 32), (64, 200))]
    result = np.array(probabilities(*images))
    assert result.shape == (3,) and ((result >= 0) & (result <= 1)).all()
    # The same one by one as in a batch.
    np.testing.assert_allclose([probabilities(image)[0] for image in images], result, atol=1e-5)
    rows = judge_arrays(list("abc"), images, judge, WholeImage("whole image"))
    np.testing.assert_allclose(rows["probability_female"].astype(float), result, atol=1e-6)
