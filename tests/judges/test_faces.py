"""Face detectors behind one interface, and the inclusion criteria."""

import json
import shutil
import sys
import types
from types import SimpleNamespace

import numpy as np
import pytest
from photograph_benchmarks import require_package

from biaslab.errors import InputError, MissingInputError, ParameterError
from biaslab.judges import faces, pinned
from biaslab.judges.faces import Face, HubFaces, MediaPipeFaces, WholeImage
from biaslab.judges.judge import JudgeOptions
from biaslab.judges.people import check_faces, large_enough
from biaslab.judges.registry import parse
from biaslab.judges.settings import JudgeSettings


def parse_detector(name, min_score=None):
    """Return a face detector by its name and the minimum score of a face."""
    return parse(name, "judging.faces", JudgeOptions(JudgeSettings(min_face_score=min_score), device="cpu"))


def face(width, height, score=0.9):
    return Face(3.0, 4.0, 3.0 + width, 4.0 + height, score)


def test_check_faces_requires_one_large_enough_face():
    assert [check_faces(seen, 1) for seen in ([], [face(50, 50), face(2, 2)])] == ["no_face", "several_faces"]
    assert check_faces([face(1, 1)], 1) == ""
    # An image of 200 x 100: a face must be at least 20 wide and 10 high.
    for size, large in (((20, 10), True), ((19.9, 10), False), ((20, 9.9), False)):
        assert large_enough(*face(*size)[:4], 200, 100) == large
    # In floating point 0.1 + 0.2 - 0.2 is slightly below 0.1: a face exactly at the limit must still count.
    assert large_enough(0.2, 0.2, 0.2 + 0.1 * 64, 0.2 + 0.1 * 64, 64, 64)
    # Without inclusion criteria every image passes.
    assert WholeImage("whole image").faces([np.zeros((30, 40, 3))]) == [[Face(0.0, 0.0, 40.0, 30.0, 1.0)]]


@pytest.mark.usefixtures("one_thread")
def test_hub_faces_merges_overlapping_boxes_within_image():
    import torch

    detector = HubFaces("random")
    detector.model = SimpleNamespace(model=SimpleNamespace(config=SimpleNamespace(id2label={1: "face", 3: "Face"})))

    def found(*shifts):
        boxes = torch.tensor([[x, -5.0, x + 10, 10] for x in shifts])
        scores = torch.tensor([0.5 + k / 8 for k in range(len(shifts))])
        return detector._select_faces({"boxes": boxes, "scores": scores, "labels": torch.tensor([3, 1])}, 40, 40)

    # 10 x 10 within the image, shifted by 3: 7 * 10 shared of 130, 0.54; shifted by 4: 60 of 140, 0.43.
    assert found(3.0, 0.0) == [Face(0.0, 0.0, 10.0, 10.0, 0.625)]
    assert found(4.0, 0.0) == [Face(0.0, 0.0, 10.0, 10.0, 0.625), Face(4.0, 0.0, 14.0, 10.0, 0.5)]


@pytest.mark.usefixtures("one_thread")
def test_hub_faces_match_transformers_postprocessing(detector_folder):
    import torch
    from transformers import AutoImageProcessor, AutoModelForObjectDetection

    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (h, w, 3), dtype=np.uint8) for h, w in ((40, 30), (32, 32), (40, 30))]
    model = AutoModelForObjectDetection.from_pretrained(detector_folder).eval()
    processor = AutoImageProcessor.from_pretrained(detector_folder)
    found = HubFaces(str(detector_folder), JudgeOptions(JudgeSettings(min_face_score=0.0, batch_size=2))).faces(images)
    assert len(found) == 3 and any(found)
    for image, faces_ in zip(images, found, strict=True):
        with torch.no_grad():
            outputs = model(**processor(images=[image], return_tensors="pt"))
        processed = processor.post_process_object_detection(outputs, threshold=0.0, target_sizes=[image.shape[:2]])[0]
        # A random model says "person" or "dog" where it likes; what it calls a face must all be accounted for.
        scores = torch.where(processed["labels"] == 1, processed["scores"], -1)
        assert bool(faces_) == bool((scores >= 0).any())
        if faces_:
            assert faces_[0].score == pytest.approx(float(scores.max()), abs=1e-5)
            limits = np.array([*image.shape[1::-1]] * 2)
            expected = np.clip(processed["boxes"][int(scores.argmax())].numpy(), 0, limits)
            np.testing.assert_allclose(faces_[0][:4], expected, atol=1e-3)
    # A score below the least does not count.
    assert HubFaces(str(detector_folder), JudgeOptions(JudgeSettings(min_face_score=1.0))).faces(images) == [[]] * 3


def test_hub_faces_refuses_unsuitable_models(tmp_path, detector_folder, clip_folder):
    folder = shutil.copytree(detector_folder, tmp_path / "detector")
    config = (folder / "config.json").read_text()
    (folder / "config.json").write_text(config.replace('"face"', '"surface"'))
    with pytest.raises(ParameterError, match=r"none of its labels is 'face' \(person, surface, dog\)"):
        HubFaces(str(folder)).load()
    with pytest.raises(ParameterError, match=r"contains no config\.json"):
        HubFaces(str(clip_folder)).load()
    file = folder / "preprocessor_config.json"
    for size in (10**9, -3):
        file.write_text(json.dumps(json.loads(file.read_text()) | {"size": {"height": size, "width": size}}))
        with pytest.raises(ParameterError, match=f"detector: its configuration states {size} as a side of images"):
            parse_detector(str(folder)).faces([])


class FakeDetector:
    """MediaPipe's face detector as its documentation describes it: boxes in whole pixels, one category each."""

    @staticmethod
    def create_from_options(options):
        if options.base_options.model_asset_buffer == b"bad":
            raise RuntimeError("The model is not a valid Flatbuffer buffer")
        if options.base_options.model_asset_buffer == b"bare":
            raise FileNotFoundError("Input tensor has type float32: it requires specifying metadata.")
        fake = FakeDetector()
        fake.least = options.min_detection_confidence
        return fake

    def detect(self, image):
        boxes = [(-5, 10, 20, 30, 0.6), (50, 60, 80, 90, 0.95)]
        namespace = types.SimpleNamespace
        found = [
            namespace(
                bounding_box=namespace(origin_x=x, origin_y=y, width=w, height=h),
                categories=[namespace(score=score)],
                keypoints=[namespace(x=0.1, y=0.2)] if score > 0.9 else None,
            )
            for x, y, w, h, score in boxes
            if score >= self.least
        ]
        assert image.data.shape == (100, 100, 3) and image.image_format == "srgb"
        return namespace(detections=found)


@pytest.fixture
def fake_mediapipe(monkeypatch):
    namespace = types.SimpleNamespace
    vision = namespace(FaceDetector=FakeDetector, FaceDetectorOptions=namespace)
    python = namespace(vision=vision, BaseOptions=namespace)
    mediapipe = namespace(tasks=namespace(python=python), ImageFormat=namespace(SRGB="srgb"), Image=namespace)
    for name, module in (("", mediapipe), (".tasks", mediapipe.tasks), (".tasks.python", python)):
        monkeypatch.setitem(sys.modules, f"mediapipe{name}", module)


@pytest.fixture
def tflite(tmp_path):
    path = tmp_path / "face.tflite"
    path.write_bytes(b"model")
    return path


@pytest.mark.usefixtures("fake_mediapipe")
def test_mediapipe_boxes_are_clipped_to_image(tflite):
    (found,) = parse_detector(f"mediapipe:{tflite}").faces([np.zeros((100, 100, 3), np.uint8)])
    # (50, 60) and 80 x 90 reach beyond 100 x 100; (-5, 10) and 20 x 30 begin before it. Best first.
    largest = Face(50.0, 60.0, 100.0, 100.0, 0.95, ((10.0, 20.0),))
    assert found == [largest, Face(0.0, 10.0, 15.0, 40.0, 0.6)]
    (sure,) = parse_detector(f"mediapipe:{tflite}", 0.9).faces([np.zeros((100, 100, 3), np.uint8)])
    assert [f.score for f in sure] == [0.95]


@pytest.mark.usefixtures("fake_mediapipe")
@pytest.mark.parametrize(("content", "why"), [(b"bad", "is not a valid"), (b"bare", "requires specifying metadata")])
def test_mediapipe_invalid_model_names_yunet_as_alternative(tflite, content, why):
    tflite.write_bytes(content)
    with pytest.raises(ParameterError, match=rf"as a face detector: .*{why}.*'yunet', which needs no file"):
        MediaPipeFaces(f"mediapipe:{tflite}").load()


def test_mediapipe_missing_file_or_package_is_refused(tflite, monkeypatch):
    with pytest.raises(ParameterError, match=r"no file .*blaze_face_short_range\.tflite"):
        parse_detector(f"mediapipe:{tflite}x").files()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingInputError, match="pip install mediapipe"):
        parse_detector(f"mediapipe:{tflite}").files()


class FakeYuNet:
    """OpenCV's detector as documented: one row per face, boxes with width and height."""

    rows = seen = ()

    @staticmethod
    def create(framework, model, config, size, score, overlap):
        fake = FakeYuNet()
        fake.least = score
        return fake

    def setInputSize(self, size):
        self.size = size

    def detect(self, image):
        assert image.shape == (self.size[1], self.size[0], 3) and max(self.size) == faces.SIDE
        self.seen.append(image)
        # Blue comes first there.
        assert image[0, 0].tolist() == [30, 20, 10]
        rows = [row for row in self.rows if row[-1] >= self.least]
        return (1, np.array(rows, np.float32)) if rows else (1, None)


@pytest.fixture
def fake_yunet(monkeypatch):
    cv2 = pytest.importorskip("cv2", reason="judging needs the extra 'models'")
    monkeypatch.setattr(cv2, "FaceDetectorYN", FakeYuNet)
    monkeypatch.setattr(pinned, "content", lambda name: b"model")
    points = [40, 50, 60, 50, 50, 60, 45, 70, 55, 70]
    # In an image of 208 x 104, which is enlarged to twice as many pixels per side.
    boxes = {0.7: (20, 30, 60, 80), 0.9: (-10, 150, 40, 100), 0.8: (500, 10, 20, 20), 0.3: (0, 0, 10, 10)}
    monkeypatch.setattr(FakeYuNet, "seen", [])
    monkeypatch.setattr(FakeYuNet, "rows", [[*box, *points, score] for score, box in boxes.items()])
    return FakeYuNet


def plain_image(height, width):
    return np.full((height, width, 3), (10, 20, 30), np.uint8)


def test_yunet_boxes_are_in_image_pixels(fake_yunet):
    (found,) = parse_detector("yunet").faces([plain_image(104, 208)])
    points = ((20.0, 25.0), (30.0, 25.0), (25.0, 30.0), (22.5, 35.0), (27.5, 35.0))
    # Halved: (10, 15) and 30 x 40; (-5, 75) and 20 x 50 reach out of the image; (250, 5) lies beyond it. Best first.
    assert [face[:4] for face in found] == [(0.0, 75.0, 15.0, 104.0), (10.0, 15.0, 40.0, 55.0)]
    assert [face.score for face in found] == pytest.approx([0.9, 0.7]) and found[0].landmarks == points
    # A least score is the detector's own where none is given.
    assert len(parse_detector("yunet", 0.2).faces([plain_image(104, 208)])[0]) == 3
    images = [plain_image(*size) for size in ((1, 1), (1, 900), (2000, 3), (512, 512), (416, 100))]
    assert parse_detector("yunet", 0.95).faces(images) == [[]] * 5
    fake_yunet.rows = [[float("nan")] * 14 + [0.9]]
    with pytest.raises(InputError, match="yunet returns numbers that are not finite"):
        parse_detector("yunet").faces(images[:1])


def test_yunet_without_people_finds_no_face():
    require_package("yunet")
    detector = parse_detector("yunet")
    grey = [np.full((h, w, 3), 128, np.uint8) for h, w in ((1, 1), (5, 3000), (64, 48), (1024, 1024))]
    rng = np.random.default_rng(0)
    noise = [rng.integers(0, 256, (512, 512, 3), dtype=np.uint8)]
    assert detector.faces([*grey, *noise]) == [[]] * 5
    with pytest.raises(ParameterError, match="Did you mean 'yunet'"):
        parse_detector("yunett").files()


def test_yunet_thin_image_is_padded(fake_yunet):
    # One face from 40, 1 to 80, 5, without landmarks, and one that lies in what was filled up.
    fake_yunet.rows = [[40, 1, 40, 4, *[0] * 10, 0.9], [40, 20, 40, 4, *[0] * 10, 0.8]]
    # 832 x 20 becomes 416 x 10, which OpenCV would fill up to 32: 4.10 answers of that with what the memory holds.
    (found,) = parse_detector("yunet").faces([plain_image(20, 832)])
    (image,) = fake_yunet.seen
    assert image.shape == (64, 416, 3) and (image[:10] == (30, 20, 10)).all() and not image[10:].any()
    assert [tuple(face)[:4] for face in found] == [(80, 2, 160, 10)]
