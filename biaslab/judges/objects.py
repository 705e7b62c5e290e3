"""Find objects of given classes in images, with any object-detection model of transformers.

Every query that scores one of the classes at least :data:`MIN_SCORE` is cached; later rules apply thresholds to these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from biaslab.cache.result_cache import ResultCache
from biaslab.errors import ParameterError
from biaslab.hub.image_sources import ImageSource
from biaslab.hub.model_files import ModelFiles
from biaslab.io.plaintext import casefold_name
from biaslab.judges import model_loading, people
from biaslab.judges.judge import HubJudge

BOX = ("left", "top", "right", "bottom")
MIN_SCORE = 0.01
"""Queries whose best class has a lower score are dropped."""
_SHARD_ROWS = 512


class ObjectDetector(HubJudge):
    """A transformers object detector that detects all classes of its options, in a folder or on the hub.

    :meth:`files` raises ParameterError where it lacks one of them under all its names.
    """

    kind, task, depends_on, needs_faces = "detector", "detect", ("classes",), False

    def check_kind(self, files: ModelFiles) -> None:
        """Raise ParameterError where a model is not a detector, or lacks one of the classes."""
        model_loading.check_detector(files)
        columns(model_loading.labels_of(files), self.options.classes, self.name)

    def load(self) -> model_loading.Detector:
        """Return the detector."""
        network = model_loading.Detector(self.name, self.options.device, 0)
        columns(network.model.config.id2label, self.options.classes, self.name)
        return network

    def detect(self, images: Sequence[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return for each image the scores of its queries, 0–1 ``(queries, classes)``, and boxes ``(queries, 4)``.

        Boxes are left, top, right and bottom, 0–1 of width and height. Raises InputError where a number is not finite.
        """
        return self.model.batches.run(images, self._detect_batch)

    def _detect_batch(self, images: Sequence[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
        import torch

        network, outputs = self.model, self.model.predict(images)
        logits, boxes = (network.checked(output.float()) for output in (outputs.logits, outputs.pred_boxes))
        # DETR and YOLOS have a "no object" class (softmax); RT-DETR scores each class independently (sigmoid).
        labels = network.model.config.id2label
        scores = logits.softmax(-1) if logits.shape[-1] > len(labels) else logits.sigmoid()
        scores = scores[..., columns(labels, self.options.classes, self.name)]
        middle, half = boxes[..., :2], boxes[..., 2:] / 2
        corners = torch.cat([middle - half, middle + half], dim=-1).clamp(0, 1)
        return list(zip(scores.cpu().numpy(), corners.cpu().numpy(), strict=True))


def detect(
    images: ImageSource, detector: ObjectDetector, *, cache: ResultCache, progress: bool = True
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Detect objects in every image of a source's table; earlier results are read from ``cache``.

    Returns:
        The detections, one row per query whose best class scores at least :data:`MIN_SCORE`, best first in each image:
        image_id, label (the best class), score (0–1), left, top, right, bottom (0–1 of width and height), and
        ``p_<class>`` for each class (0–1). And the images: image_id, status (empty, ``unreadable`` or ``blocked``) and
        reason.

    Raises:
        ParameterError: The model is unknown or not an object detector, or it lacks one of the classes.
    """
    detector, classes = detector.fresh(), list(detector.options.classes)
    columns = [*BOX, *(f"p_{name}" for name in classes)]

    def work(shard: pd.DataFrame) -> pd.DataFrame:
        rows, values = [], [np.empty(0, np.float32)] * len(shard)
        # Few images at a time: large ones would fill the memory.
        for batch in people.read_ahead(images, list(shard["image_id"]), detector):
            image_rows, detections = people.classify_images(*batch, detector.detect)
            for k, (scores, boxes) in detections.items():
                above_minimum = scores.max(axis=1) >= MIN_SCORE
                detection_values = np.concatenate(
                    [boxes[above_minimum], scores[above_minimum]], axis=1, dtype=np.float32
                )
                values[len(rows) + k] = detection_values.ravel()
            rows += image_rows
        return pd.DataFrame(rows)[["image_id", "status", "reason"]].assign(found=values)

    units = pd.DataFrame({"image_id": images.table["image_id"].astype(object).to_numpy()})
    bar = {"label": f"detecting objects in {images.name}", "progress": progress}
    stage = cache.stage("objects", {"images": images.digest} | detector.inputs, work)
    detections = stage.compute(units, shard_rows=_SHARD_ROWS, gpu=detector.options.device != "cpu", **bar)
    detections = detections.reindex(columns=["image_id", "status", "reason", "found"])
    value_arrays = [np.asarray(values, np.float32).reshape(-1, len(columns)) for values in detections["found"]]
    scores_and_boxes = [(values[:, len(BOX) :], values[:, : len(BOX)]) for values in value_arrays]
    return table(list(detections["image_id"]), scores_and_boxes, classes), detections[["image_id", "status", "reason"]]


def table(
    image_ids: Sequence[str], scores_and_boxes: Sequence[tuple[np.ndarray, np.ndarray]], classes: Sequence[str]
) -> pd.DataFrame:
    """Return the output of :meth:`ObjectDetector.detect` for images as the detections of :func:`detect`."""
    values_by_image = []
    for scores, boxes in scores_and_boxes:
        # A box at the edge may contain no part of the image.
        is_inside = (boxes[:, 2:] > boxes[:, :2]).all(axis=1)
        rows = np.flatnonzero(is_inside & (scores.max(axis=1, initial=0) >= MIN_SCORE))
        rows = rows[np.argsort(-scores[rows].max(axis=1, initial=0), kind="stable")]
        values_by_image.append(np.concatenate([boxes[rows], scores[rows]], axis=1))
    values = np.concatenate([*values_by_image, np.empty((0, len(BOX) + len(classes)))])
    detections = pd.DataFrame(values, columns=[*BOX, *(f"p_{c}" for c in classes)])
    scores = values[:, len(BOX) :]
    detections.insert(0, "image_id", np.repeat(np.array(image_ids, object), [len(k) for k in values_by_image]))
    detections.insert(1, "label", np.array([*classes], object)[scores.argmax(axis=1)] if len(scores) else None)
    detections.insert(2, "score", scores.max(axis=1, initial=0))
    return detections


def columns(id2label: Mapping, classes: Mapping[str, Sequence[str]], name: str) -> list[int]:
    """Return the number of each class in a detector's ``id2label``; ParameterError where it lacks one."""
    labels, numbers = {casefold_name(str(v)): int(k) for k, v in id2label.items()}, []
    for class_name, other_names in classes.items():
        matches = [labels[name] for name in map(casefold_name, (class_name, *other_names)) if name in labels]
        if not matches:
            raise ParameterError(
                f"{name} does not detect {class_name!r}: its labels are {', '.join(labels):.300}. Choose a detector of "
                "all classes in the prompts, such as facebook/detr-resnet-101-dc5."
            )
        numbers.append(matches[0])
    return numbers
