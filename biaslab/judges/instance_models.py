"""Instances by models: a segmenter that says of each pixel what it shows, or three models, one after the other.

Of a segmenter each connected region of a class is an instance: one that another object cuts in two is two of them, and
two that touch are one. Stuff, such as a wall, is one however many regions it has. The three models say what there may
be, where it is, and which pixels.

Source: triplets paper, section 5.1, which joins RAM, Grounding DINO and Segment Anything as Grounded-SAM.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from biaslab import lexicons
from biaslab.errors import ParameterError
from biaslab.io.plaintext import casefold_name
from biaslab.judges import model_loading
from biaslab.judges.model_loading import Ready
from biaslab.judges.settings import Thresholds

GROUNDED, NONE = "grounded:", "none"
"""The beginning of the names of such judges, whose parts are joined by ``+``, and the segmenter of boxes alone."""
PARTS = ("tagger", "grounding", "masks")
"""The kinds of the parts, as of :data:`biaslab.hub.registry.HUB`."""
TOKENS = 256
"""Tokens of tags, with what stands around them, that Grounding DINO is asked about at a time: its longest text."""
OVERLAP = 0.5
"""Of boxes whose overlap (intersection over union) is larger, the best stays."""
GROUNDING_DINO = ("grounding-dino", "mm-grounding-dino")
_TASK = "<OD>"
# Tokens of an answer of Florence-2.
_LONGEST = 1024


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


class Segmenter(Ready):
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
            raise ParameterError(f"The segmenter predicts class {k}, which its id2label does not name.")
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


class Grounded:
    """A tagger, a detector and a segmenter.

    The tagger is Florence-2, or a zero-shot model of transformers (SigLIP, CLIP) that is asked about the
    ``vocabulary``; the detector, Grounding DINO, is asked about each image's tags, and of overlapping boxes the best
    stays; the segmenter is SAM, or its kind, which is given the boxes, or ``none``. Raises ParameterError where a model
    is unknown, of another kind or cannot be used, or the tagger needs a vocabulary.
    """

    def __init__(
        self,
        tagger: str,
        detector: str,
        segmenter: str,
        thresholds: Thresholds,
        vocabulary: Sequence[str] = (),
        *,
        device: str = "auto",
    ) -> None:
        self._tags = _tagger(tagger, thresholds, vocabulary, device)
        self._boxes = _Boxes(detector, thresholds, device)
        self._masks = None if segmenter == NONE else _Masks(segmenter, device)

    def segment(self, images: Sequence[np.ndarray]) -> list[list[Instance]]:
        """Return the instances of each image, none where it has no tag; InputError where a number is not finite."""
        import torch

        instances = []
        with torch.inference_mode():
            for image, tags in zip(images, self._tags(images), strict=True):
                height, width = image.shape[:2]
                names, scores, boxes = self._boxes(image, tags) if tags else ([], [], np.empty((0, 4)))
                masks = self._masks(image, boxes) if self._masks and len(boxes) else [None] * len(boxes)
                sides = boxes / [width, height, width, height]
                instances.append(list(map(Instance, names, scores, map(tuple, sides.tolist()), masks)))
        return instances


def _tagger(name: str, thresholds: Thresholds, vocabulary: Sequence[str], device: str):
    where, kind = model_loading.of_transformers(name, "tagger", "a tagger")
    if kind == "florence2":
        return _Florence("AutoModelForImageTextToText", name, where, "a Florence-2 model", device)
    if not vocabulary:
        raise ParameterError(
            f"The tagger {name} scores given labels; set triplets.object_vocabulary_file to a file with the names of "
            "objects, one per line, or choose Florence-2, which needs none."
        )
    return _ZeroShot(name, where, vocabulary, thresholds.tag, device)


class _ZeroShot(Ready):
    """SigLIP and CLIP of transformers: the words of a vocabulary that are at least so probable."""

    def __init__(self, name: str, where: str, vocabulary: Sequence[str], least: float, device: str) -> None:
        super().__init__("AutoModelForZeroShotImageClassification", name, where, "a zero-shot tagger", device)
        # SigLIP was trained on texts of one length, and says of each text by itself how well it fits.
        self._alone = hasattr(self.model, "logit_bias")
        texts = [f"A photo of {lexicons.article(word)} {word}" for word in vocabulary]
        options = {"padding": "max_length" if self._alone else True, "truncation": True, "return_tensors": "pt"}
        self._tokens = self.processor.tokenizer(texts, **options).to(self.device)
        self._vocabulary, self._least = vocabulary, least
        self._batches = model_loading.Batches(self.device, 16)

    def __call__(self, images: Sequence[np.ndarray]) -> list[list[str]]:
        probabilities = self._batches.run(images, self._same_size)
        return [[self._vocabulary[k] for k in np.flatnonzero(row >= self._least)] for row in probabilities]

    def _same_size(self, images: Sequence[np.ndarray]) -> np.ndarray:
        pixels = self.processor.image_processor(images=model_loading.writable(images), return_tensors="pt")
        logits = self.checked(self.model(**self._tokens, **pixels.to(self.device)).logits_per_image.float())
        return (logits.sigmoid() if self._alone else logits.softmax(-1)).cpu().numpy()


class _Florence(Ready):
    """Florence-2, asked what objects it detects."""

    def __call__(self, images: Sequence[np.ndarray]) -> Iterator[list[str]]:
        for image in images:
            given = {"text": _TASK, "images": model_loading.writable([image])[0]}
            inputs = self.processor(**given, return_tensors="pt").to(self.device)
            answer = self.model.generate(**inputs, **self.greedy(_LONGEST))
            text = self.processor.batch_decode(answer, skip_special_tokens=False)[0]
            size = image.shape[1::-1]
            told = self.processor.post_process_generation(text, task=_TASK, image_size=size)[_TASK]
            yield [tag for tag in dict.fromkeys(map(casefold_name, told["labels"])) if tag]


class _Boxes(Ready):
    """A detector that is asked about tags: their names, scores, and boxes in pixels."""

    def __init__(self, name: str, thresholds: Thresholds, device: str) -> None:
        where, _ = model_loading.of_transformers(name, "grounding", "a detector")
        super().__init__("AutoModelForZeroShotObjectDetection", name, where, "a detector", device)
        self._thresholds = thresholds

    def __call__(self, image: np.ndarray, tags: Sequence[str]) -> tuple[list[str], list[float], np.ndarray]:
        import torch
        from torchvision.ops import clip_boxes_to_image, nms

        height, width = image.shape[:2]
        names: list[str] = []
        scores, boxes = [], []
        for some in self._chunks(tags):
            seen = self._ask(image, some)
            names += [_named(text, some) for text in seen["text_labels"]]
            scores.append(seen["scores"].float().cpu())
            boxes.append(seen["boxes"].float().cpu())
        boxes = clip_boxes_to_image(torch.cat(boxes), (height, width))
        scores = torch.cat(scores)
        # What no tag names, or is next to the image, is no object.
        named = torch.tensor([bool(name) for name in names], dtype=torch.bool)
        there = (boxes[:, 2:] > boxes[:, :2]).all(dim=1) & named
        at = torch.nonzero(there)[:, 0]
        at = at[nms(boxes[at], scores[at], OVERLAP)]
        return [names[i] for i in at.tolist()], scores[at].tolist(), boxes[at].numpy().astype(float)

    def _ask(self, image: np.ndarray, tags: list[str]) -> dict:
        given = {"images": model_loading.writable([image])[0], "text": [tags]}
        inputs = self.processor(**given, return_tensors="pt").to(self.device)
        outputs = self.model(**inputs)
        self.checked(outputs.pred_boxes)
        # Places that no tag takes are below all numbers.
        self.checked(outputs.logits[~outputs.logits.isneginf()])
        options = {"threshold": self._thresholds.box, "text_threshold": self._thresholds.text}
        options |= {"input_ids": inputs["input_ids"], "target_sizes": [image.shape[:2]]}
        return self.processor.post_process_grounded_object_detection(outputs, **options)[0]

    def _chunks(self, tags: Sequence[str]) -> Iterator[list[str]]:
        """Yield tags, as many at a time as the detector reads as one text."""
        listed = self.processor.tokenizer([f"{tag}." for tag in tags], add_special_tokens=False)
        chunk, used = [], 2
        for tag, length in zip(tags, map(len, listed["input_ids"]), strict=True):
            if length + 2 > TOKENS:
                raise ParameterError(
                    f"The tag {tag[:80]!r} has {length} tokens; {self.name} reads {TOKENS} at a time. Shorten it in "
                    "the vocabulary."
                )
            if used + length > TOKENS:
                yield chunk
                chunk, used = [], 2
            chunk.append(tag)
            used += length
        yield chunk


def _named(text: str, tags: Sequence[str]) -> str:
    """Return the tag that a box is of, given words that name it (some of a tag, parts of words, or of several tags);
    empty for none.
    """
    text = casefold_name(text)
    if text in tags:
        return text
    words = [word for word in (w.strip("#.") for w in text.split()) if word]
    shared = [sum(word in tag for word in words) for tag in tags]
    best = int(np.argmax(shared))
    return tags[best] if shared[best] else ""


class _Masks(Ready):
    """SAM and its kind: the mask of each box."""

    def __init__(self, name: str, device: str) -> None:
        where, _ = model_loading.of_transformers(name, "masks", "a segmenter")
        super().__init__("AutoModelForMaskGeneration", name, where, "a segmenter with box prompts", device)

    def __call__(self, image: np.ndarray, boxes: np.ndarray) -> list[np.ndarray]:
        import torch

        given = {"images": model_loading.writable([image])[0], "input_boxes": [boxes.tolist()]}
        inputs = self.processor(**given, return_tensors="pt")
        # SAM 1 pads an image, and takes the padding off again by the size that it had before.
        sizes = [inputs.pop(k) for k in ("original_sizes", "reshaped_input_sizes") if k in inputs]
        # Boxes come in double precision, which not every device has.
        inputs = {k: v.to(self.device, torch.float32) for k, v in inputs.items()}
        found = self.model(**inputs, multimask_output=False)
        (masks,) = self.processor.post_process_masks(self.checked(found.pred_masks.float().cpu()), *sizes)
        return list(masks[:, 0].numpy().astype(bool))
