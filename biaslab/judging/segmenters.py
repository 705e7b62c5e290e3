"""Instances by any segmenter of transformers that says of each pixel what it shows.

Each connected region of a class is an instance: one that another object cuts in two is two of them, and two that touch
are one. What a segmenter of this kind cannot tell, one that is asked with boxes can (:mod:`biaslab.judging.grounded`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from biaslab import models as named
from biaslab.errors import ParameterError
from biaslab.judging import loaded
from biaslab.judging.instances import BACKGROUND, Instance, folded
from biaslab.judging.settings import Thresholds


class Segmenter:
    """A semantic segmenter of transformers (SegFormer, …), or one of Mask2Former's kind; ``background`` is no object.

    Args:
        name: An embedded model, a folder or a hub name.
        thresholds: ``area`` counts.
        device: As for :func:`biaslab.judging.loaded.device`.
        batch_size: Images at a time; 0 finds it.

    Raises:
        ParameterError: The model is unknown, no segmenter, or lacks weights of one.
    """

    def __init__(
        self, name: str, thresholds: Thresholds, *, device: str = "auto", batch_size: int = 0
    ) -> None:
        import transformers
        from transformers.models.auto import modeling_auto

        where, safe = named.resolve(name, "segmenter"), {"trust_remote_code": False}
        with loaded.loading(name, "a segmenter"):
            where = str(named.local(where))
            kind = transformers.AutoConfig.from_pretrained(where, **safe).model_type
        self._semantic = kind in modeling_auto.MODEL_FOR_SEMANTIC_SEGMENTATION_MAPPING_NAMES
        auto = "SemanticSegmentation" if self._semantic else "UniversalSegmentation"
        self._model = loaded.whole(getattr(transformers, f"AutoModelFor{auto}"), where, name, "a segmenter")
        with loaded.loading(name, "a segmenter"):
            self._processor = transformers.AutoImageProcessor.from_pretrained(where, **safe)
        self._labels = {int(k): folded(str(v)) for k, v in self._model.config.id2label.items()}
        self._area, self._device = thresholds.area, loaded.device(device)
        self._batches = loaded.Batches(self._device, batch_size)
        self._model.eval().to(self._device)

    def look(self, images: Sequence[np.ndarray]) -> list[list[Instance]]:
        """Return the instances of each image; images of one size go together."""
        return self._batches.run(images, self._same_size)

    def _same_size(self, images: Sequence[np.ndarray]) -> list[list[Instance]]:
        import torch

        writable = [np.require(image, requirements="W") for image in images]
        inputs = self._processor(images=writable, return_tensors="pt").to(self._device)
        with torch.inference_mode():
            seen = self._processor.post_process_semantic_segmentation(
                self._model(**inputs),
                target_sizes=[image.shape[:2] for image in images],
                return_segmentation_scores=True,
            )
        found = []
        for one in seen:
            scores = one["segmentation_scores"].float()
            # Of Mask2Former's kind they are sums of probabilities over its queries.
            shares = scores.softmax(0) if self._semantic else scores / scores.sum(0).clamp(min=1e-12)
            best = shares.max(0)
            found.append(
                regions(best.indices.cpu().numpy(), best.values.cpu().numpy(), self._labels, self._area)
            )
        return found


def regions(
    classes: np.ndarray, probabilities: np.ndarray, labels: dict[int, str], area: float = 0.0
) -> list[Instance]:
    """Return each connected region of a class as an instance, but for ``background`` (pixels touch at corners, too).

    Args:
        classes: The class of each pixel, ``int (height, width)``.
        probabilities: Its probability there, ``(height, width)`` of 0–1; an instance has their mean.
        labels: The name of each class.
        area: Smallest share of the image that counts, 0–1.

    Raises:
        ParameterError: A class has no name.
    """
    from scipy import ndimage

    found, (height, width) = [], classes.shape
    for k in np.unique(classes).tolist():
        if k not in labels:
            raise ParameterError(f"The segmenter sees its class {k}, which its id2label does not name.")
        if labels[k] == BACKGROUND:
            continue
        parts, _ = ndimage.label(classes == k, structure=np.ones((3, 3)))
        for i, (rows, columns) in enumerate(ndimage.find_objects(parts), start=1):
            mask = parts == i
            if mask.sum() >= max(area * mask.size, 1):
                box = (columns.start / width, rows.start / height, columns.stop / width, rows.stop / height)
                score = float(probabilities[mask].mean(dtype=float))
                found.append(Instance(labels[k], min(score, 1.0), box, mask))
    return found
