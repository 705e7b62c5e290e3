"""Find faces, and decide whether an image shows one that is large enough.

A face detector is any object with ``faces(images) -> list[list[Face]]``: for each image (``uint8 (height,
width, 3)`` RGB) its faces, best first, boxes in pixels within the image. Two are here: any object-detection
model of transformers that knows a label "face" (:class:`DetectorFaces`; such as a package may bring is
one), and MediaPipe's (:class:`MediaPipeFaces`), which the paradox paper uses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from biaslab import finite, reading
from biaslab.errors import MissingInputError, ParameterError
from biaslab.judging import loaded
from biaslab.judging.names import WHOLE

MEDIAPIPE = "mediapipe:"
# Where the model's file is to be had.
WHERE = (
    "MediaPipe publishes the model of its face detector apart from the package: download "
    "https://storage.googleapis.com/mediapipe-models/face_detector/blaze_face_short_range/float16/latest/"
    "blaze_face_short_range.tflite and set judging.faces to 'mediapipe:' and its path."
)
# Of two boxes that share more than this part of their union, the better one counts.
_COVERS = 0.5


class Face(NamedTuple):
    """Where a face is, in pixels of its image, x to the right and y down; and how sure the detector is, 0 to 1."""

    x0: float
    y0: float
    x1: float
    y1: float
    score: float
    landmarks: tuple[tuple[float, float], ...] = ()
    """Points of it, x and y in pixels, where the detector has them: of MediaPipe the right and left eye as the person
    has them, the tip of the nose, the mouth, and the right and left ear."""


class FaceDetector(Protocol):
    """The contract of face detectors."""

    def faces(self, images: Sequence[np.ndarray]) -> list[list[Face]]:
        """Return each image's faces, best first."""


def gate(faces: Sequence[Face]) -> str:
    """Return why an image is not judged, ``"no_face"`` or ``"several_faces"``: ``""`` where it shows one face.

    Whether that is :func:`large_enough` is decided later. Source: paradox paper, section 3; the size from its released
    code.
    """
    return "" if len(faces) == 1 else "several_faces" if faces else "no_face"


def large_enough(x0, y0, x1, y1, width, height, min_face: float = 0.1, people=1):
    """Return whether boxes are at least ``min_face`` of the image's height and of each person's part of its width.

    All but ``min_face`` are numbers or arrays of one shape, in pixels; a missing box is not large enough.
    """
    # Boxes come as floats: a face of exactly the limit counts, whatever rounding does to it.
    slack = 1e-6
    return (x1 - x0 >= min_face * width / people - slack) & (y1 - y0 >= min_face * height - slack)


def load(name: str, *, min_score: float = 0.5, device: str = "auto", batch_size: int = 0) -> FaceDetector:
    """Return the face detector ``name``.

    Args:
        name: A folder or hub name (``owner/name``) of a transformers object-detection
            model that knows "face", ``mediapipe:FILE`` with the model file of MediaPipe's face detector, or
            ``whole image`` (:data:`WHOLE`).
        min_score: Faces with a lower score do not count, 0 to 1.
        device: As for :func:`biaslab.judging.loaded.device`.
        batch_size: Images at a time; 0 finds it.

    Raises:
        ParameterError: The model is unknown, not an object detector, or knows no faces.
        MissingInputError: A file or a package is not there.
    """
    if name == WHOLE:
        return WholeImage()
    if name.startswith(MEDIAPIPE):
        return MediaPipeFaces(name.removeprefix(MEDIAPIPE), min_score=min_score)
    return DetectorFaces(name, min_score=min_score, device=device, batch_size=batch_size)


def labels(known: Mapping, name: str) -> list[int]:
    """Return the labels that are faces, of an object detector's ``id2label``; ParameterError where there are none."""
    found = [int(k) for k, v in known.items() if "face" in str(v).lower().replace("_", " ").split()]
    if not found:
        raise ParameterError(
            f"{name} detects no faces: none of its labels is 'face' ({', '.join(map(str, known.values())):.200})."
        )
    return found


class DetectorFaces:
    """Faces by an object-detection model of transformers; boxes that cover each other count once.

    Arguments and errors as in :func:`load`.
    """

    def __init__(
        self, name: str, *, min_score: float = 0.5, device: str = "auto", batch_size: int = 0
    ) -> None:
        self.name, self._device = name, loaded.device(device)
        self._model, self._processor = loaded.detector(name, self._device)
        self._labels = labels(self._model.config.id2label, name)
        self.min_score = float(min_score)
        self._batches = loaded.Batches(self._device, batch_size)

    def faces(self, images: Sequence[np.ndarray]) -> list[list[Face]]:
        """Return each image's faces, best first; images of one size are detected together.

        Raises InputError where a number is not finite.
        """
        return self._batches.run(images, self._same_size)

    def _same_size(self, images: Sequence[np.ndarray]) -> list[list[Face]]:
        height, width = images[0].shape[:2]
        outputs = self._model(**self._processor(images=list(images), return_tensors="pt").to(self._device))
        # One way back from a GPU for the whole batch; post-processing takes each image apart.
        for name in ("logits", "pred_boxes"):
            outputs[name] = finite.checked(outputs[name].float().cpu(), self.name, self._model.dtype)
        found = self._processor.post_process_object_detection(
            outputs, threshold=self.min_score, target_sizes=[(height, width)] * len(images)
        )
        return [self._of_one(one, width, height) for one in found]

    def _of_one(self, found: dict, width: int, height: int) -> list[Face]:
        import torch
        from torchvision.ops import clip_boxes_to_image, nms

        wanted = torch.isin(found["labels"].long(), torch.tensor(self._labels))
        boxes, scores = clip_boxes_to_image(found["boxes"][wanted], (height, width)), found["scores"][wanted]
        best = nms(boxes, scores, _COVERS)
        return [
            Face(*box, score) for box, score in zip(boxes[best].tolist(), scores[best].tolist(), strict=True)
        ]


class MediaPipeFaces:
    """Faces by MediaPipe's face detector, the one that the paradox paper uses; arguments and errors as in :func:`load`.

    The file is a model such as ``blaze_face_short_range.tflite``; a least score of 0.5 is MediaPipe's own default.
    """

    def __init__(self, file: str | Path, *, min_score: float = 0.5) -> None:
        if not str(file) or not Path(file).expanduser().is_file():
            raise MissingInputError(f"faces is '{MEDIAPIPE}{file}', but there is no such file. {WHERE}")
        try:
            import mediapipe
            from mediapipe.tasks import python as tasks
        except ImportError:
            raise MissingInputError(
                f"faces is '{MEDIAPIPE}{file}', which needs the package mediapipe: pip install mediapipe."
            ) from None
        self._mediapipe = mediapipe
        self.min_score = float(min_score)
        # The file's bytes, so that a path is never resolved again by the library's own rules.
        model = tasks.BaseOptions(model_asset_buffer=reading.content(Path(file).expanduser()))
        options = tasks.vision.FaceDetectorOptions(base_options=model, min_detection_confidence=min_score)
        try:
            self._detector = tasks.vision.FaceDetector.create_from_options(options)
        except (RuntimeError, ValueError) as error:
            raise ParameterError(f"MediaPipe cannot read {file} as a face detector: {error}") from None

    def faces(self, images: Sequence[np.ndarray]) -> list[list[Face]]:
        """Return each image's faces, best first; MediaPipe takes images one at a time."""
        return [self._of_one(image) for image in images]

    def _of_one(self, image: np.ndarray) -> list[Face]:
        height, width = image.shape[:2]
        srgb = self._mediapipe.ImageFormat.SRGB
        seen = self._mediapipe.Image(image_format=srgb, data=np.ascontiguousarray(image))
        found = []
        for detection in self._detector.detect(seen).detections:
            box, score = detection.bounding_box, detection.categories[0].score
            corners = (box.origin_x, box.origin_y, box.origin_x + box.width, box.origin_y + box.height)
            finite.checked(np.array([*corners, score]), "MediaPipe's face detector", "float32")
            points = tuple((float(p.x) * width, float(p.y) * height) for p in detection.keypoints or ())
            found.append(Face(*np.clip(corners, 0.0, [width, height] * 2).tolist(), float(score), points))
        return sorted(found, key=lambda face: -face.score)


class WholeImage:
    """Takes every image for one face, so that the gate turns none away."""

    def faces(self, images: Sequence[np.ndarray]) -> list[list[Face]]:
        """Return one face for each image: all of it."""
        return [[Face(0.0, 0.0, float(image.shape[1]), float(image.shape[0]), 1.0)] for image in images]
