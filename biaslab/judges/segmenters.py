"""Instances by any segmenter of transformers that says of each pixel what it shows.

Each connected region of a class is an instance: one that another object cuts in two is two of them, and two that touch
are one. Stuff, such as a wall, is one however many regions it has.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from biaslab.errors import ParameterError
from biaslab.io.plaintext import casefold_name
from biaslab.judges import model_loading
from biaslab.judges.settings import Thresholds

BACKGROUND = "background"
"""The label of a segmenter that is no object."""


class Instance(NamedTuple):
    """An object that is seen in an image, as whatever finds objects says it."""

    object: str
    score: float
    box: tuple[float, float, float, float]
    """left, top, right and bottom, 0–1 of the image's width and height."""
    mask: np.ndarray | None
    """``bool (height, width)`` of the image; None where there is a box alone."""


class Segmenter(model_loading.Ready):
    """A semantic segmenter of transformers (SegFormer, …), or one of Mask2Former's kind; ``background`` is no object.

    Of ``thresholds`` ``area`` and ``stuff`` count, and labels that the configuration lists as ``stuff``. Raises
    ParameterError where the model is unknown, no segmenter, or lacks weights of one.
    """

    def __init__(self, name: str, thresholds: Thresholds, *, device: str = "auto") -> None:
        from transformers.models.auto import modeling_auto

        where, kind = model_loading.of_transformers(name, "segmenter", "a segmenter")
        self._semantic = kind in modeling_auto.MODEL_FOR_SEMANTIC_SEGMENTATION_MAPPING_NAMES
        auto = f"AutoModelFor{'Semantic' if self._semantic else 'Universal'}Segmentation"
        super().__init__(auto, name, where, "a segmenter", device, processor="AutoImageProcessor")
        self._labels = {int(k): casefold_name(str(v)) for k, v in self.model.config.id2label.items()}
        told = (*(getattr(self.model.config, "stuff", None) or ()), *thresholds.stuff)
        self._area, self._stuff = thresholds.area, frozenset(casefold_name(str(label)) for label in told)
        self._batches = model_loading.Batches(self.device)

    def segment(self, images: Sequence[np.ndarray]) -> list[list[Instance]]:
        """Return the instances of each image, ``uint8 (height, width, 3)`` RGB; InputError where a number is not
        finite.
        """
        return self._batches.run(images, self._same_size)

    def _same_size(self, images: Sequence[np.ndarray]) -> list[list[Instance]]:
        inputs = self.processor(images=model_loading.writable(images), return_tensors="pt").to(self.device)
        options = {"target_sizes": [image.shape[:2] for image in images], "return_segmentation_scores": True}
        found = []
        for one in self.processor.post_process_semantic_segmentation(self.model(**inputs), **options):
            scores = self.checked(one["segmentation_scores"].float())
            # Of Mask2Former's kind they are sums of probabilities over its queries.
            shares = scores.softmax(0) if self._semantic else scores / scores.sum(0).clamp(min=1e-12)
            best = shares.max(0)
            seen_here = best.indices.cpu().numpy(), best.values.cpu().numpy()
            found.append(regions(*seen_here, self._labels, self._area, self._stuff))
        return found


def regions(
    classes: np.ndarray,
    probabilities: np.ndarray,
    labels: dict[int, str],
    area: float = 0.0,
    stuff: Collection[str] = (),
) -> list[Instance]:
    """Return each connected region of a class as an instance, but for ``background`` (pixels touch at corners, too).

    ``classes`` is the class of each pixel, ``int (height, width)``, ``probabilities`` its probability there (0–1; an
    instance has their mean), ``labels`` the name of each class, ``area`` the least share of the image that counts,
    ``stuff`` the classes that are one instance. Raises ParameterError where a class has no name.
    """
    from scipy import ndimage

    found, (height, width) = [], classes.shape
    for k in np.unique(classes).tolist():
        if k not in labels:
            raise ParameterError(f"The segmenter sees its class {k}, which its id2label does not name.")
        if labels[k] == BACKGROUND:
            continue
        parts, n = ndimage.label(classes == k, structure=np.ones((3, 3)))
        sizes = np.bincount(parts.ravel(), minlength=n + 1)
        large = [i for i in range(1, n + 1) if sizes[i] >= area * parts.size]
        for mask in [np.isin(parts, large)] if labels[k] in stuff and large else [parts == i for i in large]:
            rows, columns = (np.flatnonzero(mask.any(axis)) for axis in (1, 0))
            box = (columns[0] / width, rows[0] / height, (columns[-1] + 1) / width, (rows[-1] + 1) / height)
            score = float(probabilities[mask].mean(dtype=float))
            found.append(Instance(labels[k], min(score, 1.0), tuple(map(float, box)), mask))
    return found
