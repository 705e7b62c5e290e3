"""Instances by models: a segmenter that classifies each pixel, or a chain of three models.

With a segmenter, each connected region of a class is an instance: an object that another one cuts in two counts twice,
and two that touch count once. Stuff, such as a wall, is one instance with any number of regions. The three models
predict labels, boxes and masks.

Source: triplets paper, section 5.1, which combines RAM, Grounding DINO and Segment Anything as Grounded-SAM.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from biaslab import lexicons
from biaslab.errors import ParameterError
from biaslab.io.plaintext import casefold_name
from biaslab.judges import model_loading
from biaslab.judges.model_loading import TransformersModel
from biaslab.judges.settings import Thresholds

GROUNDED, NONE = "grounded:", "none"
"""The prefix of such judges' names, whose parts are joined by ``+``, and the segmenter for boxes without masks."""
PARTS = ("tagger", "grounding", "masks")
"""The kinds of the parts, as of :data:`biaslab.hub.registry.HUB`."""
TOKENS = 256
"""Maximum tokens of Grounding DINO's text input: tags and separators."""
OVERLAP = 0.5
"""Of boxes whose overlap (intersection over union) is larger, only the best one counts."""
GROUNDING_DINO = ("grounding-dino", "mm-grounding-dino")
_TASK = "<OD>"
# Maximum tokens of an answer of Florence-2.
_MAX_TOKENS = 1024


BACKGROUND = "background"
"""The label of a segmenter that is not an object."""


class Instance(NamedTuple):
    """An object in an image."""

    object: str
    score: float
    box: tuple[float, float, float, float]
    """left, top, right and bottom, 0–1 of the image's width and height."""
    mask: np.ndarray | None
    """``bool (height, width)`` of the image; None without a mask."""


class Segmenter(TransformersModel):
    """A semantic segmenter of transformers (SegFormer, …), or one like Mask2Former; ``background`` is not an object.

    It uses ``area`` and ``stuff`` of ``thresholds``, and the labels that its configuration lists as ``stuff``. Raises
    ParameterError where the model is unknown, not a segmenter, or lacks some of its weights.
    """

    def __init__(self, name: str, thresholds: Thresholds, *, device: str = "auto") -> None:
        from transformers.models.auto import modeling_auto

        where, kind = model_loading.fetch_transformers(name, "segmenter", "a segmenter")
        self._semantic = kind in modeling_auto.MODEL_FOR_SEMANTIC_SEGMENTATION_MAPPING_NAMES
        auto = f"AutoModelFor{'Semantic' if self._semantic else 'Universal'}Segmentation"
        super().__init__(auto, name, where, "a segmenter", device, processor="AutoImageProcessor")
        self._labels = {int(k): casefold_name(str(v)) for k, v in self.model.config.id2label.items()}
        stuff = (*(getattr(self.model.config, "stuff", None) or ()), *thresholds.stuff)
        self._area, self._stuff = thresholds.area, frozenset(casefold_name(str(label)) for label in stuff)
        self._batches = model_loading.Batches(self.device)

    def segment(self, images: Sequence[np.ndarray]) -> list[list[Instance]]:
        """Return the instances of each image, ``uint8 (height, width, 3)`` RGB; InputError where a number is not
        finite.
        """
        return self._batches.run(images, self._run_batch)

    def _run_batch(self, images: Sequence[np.ndarray]) -> list[list[Instance]]:
        inputs = self.processor(images=model_loading.writable(images), return_tensors="pt").to(self.device)
        options = {"target_sizes": [image.shape[:2] for image in images], "return_segmentation_scores": True}
        instances = []
        for segmentation in self.processor.post_process_semantic_segmentation(self.model(**inputs), **options):
            scores = self.checked(segmentation["segmentation_scores"].float())
            # Scores of models like Mask2Former are sums of probabilities over queries.
            shares = scores.softmax(0) if self._semantic else scores / scores.sum(0).clamp(min=1e-12)
            best = shares.max(0)
            best_classes = best.indices.cpu().numpy(), best.values.cpu().numpy()
            instances.append(regions(*best_classes, self._labels, self._area, self._stuff))
        return instances


def regions(
    classes: np.ndarray,
    probabilities: np.ndarray,
    labels: dict[int, str],
    area: float = 0.0,
    stuff: Collection[str] = (),
) -> list[Instance]:
    """Return each connected region of a class as an instance, except ``background`` (corners connect pixels, too).

    ``classes`` is the class of each pixel, ``int (height, width)``, ``probabilities`` its probability (0–1; the score
    of an instance is their mean), ``labels`` the name of each class, ``area`` the minimum share of the image, and
    ``stuff`` the classes that are one instance. Raises ParameterError where a class has no name.
    """
    from scipy import ndimage

    instances, (height, width) = [], classes.shape
    for k in np.unique(classes).tolist():
        if k not in labels:
            raise ParameterError(
                f"The segmenter predicts class {k}, which is missing from its id2label. Choose another."
            )
        if labels[k] == BACKGROUND:
            continue
        parts, n = ndimage.label(classes == k, structure=np.ones((3, 3)))
        sizes = np.bincount(parts.ravel(), minlength=n + 1)
        large = [i for i in range(1, n + 1) if sizes[i] >= area * parts.size]
        for mask in [np.isin(parts, large)] if labels[k] in stuff and large else [parts == i for i in large]:
            rows, columns = (np.flatnonzero(mask.any(axis)) for axis in (1, 0))
            box = (columns[0] / width, rows[0] / height, (columns[-1] + 1) / width, (rows[-1] + 1) / height)
            score = float(probabilities[mask].mean(dtype=float))
            instances.append(Instance(labels[k], min(score, 1.0), tuple(map(float, box)), mask))
    return instances


class Grounded:
    """A chain of a tagger, a detector and a segmenter.

    The tagger is Florence-2, or a zero-shot model of transformers (SigLIP, CLIP) that scores the words of
    ``vocabulary``. The detector, Grounding DINO, locates each image's tags; of overlapping boxes only the best counts.
    The segmenter is SAM or similar, prompted by the boxes, or ``none``. Raises ParameterError where a model is unknown,
    of another kind or cannot be used, or the tagger needs a vocabulary.
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
        """Return the instances of each image, none without tags; InputError where a number is not finite."""
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
    where, kind = model_loading.fetch_transformers(name, "tagger", "a tagger")
    if kind == "florence2":
        return _Florence("AutoModelForImageTextToText", name, where, "a Florence-2 model", device)
    if not vocabulary:
        raise ParameterError(
            f"The tagger {name} needs a vocabulary. Set triplets.object_vocabulary_file to a file with one object name "
            "per line, or choose Florence-2, which needs no vocabulary."
        )
    return _ZeroShot(name, where, vocabulary, thresholds.tag, device)


class _ZeroShot(TransformersModel):
    """SigLIP and CLIP of transformers: the words of a vocabulary with at least a minimum probability."""

    def __init__(self, name: str, where: str, vocabulary: Sequence[str], min_probability: float, device: str) -> None:
        super().__init__("AutoModelForZeroShotImageClassification", name, where, "a zero-shot tagger", device)
        # SigLIP was trained on texts of one length, and scores each text independently (sigmoid).
        self._is_sigmoid = hasattr(self.model, "logit_bias")
        texts = [f"A photo of {lexicons.article(word)} {word}" for word in vocabulary]
        options = {"padding": "max_length" if self._is_sigmoid else True, "truncation": True, "return_tensors": "pt"}
        self._tokens = self.processor.tokenizer(texts, **options).to(self.device)
        self._vocabulary, self._min_probability = vocabulary, min_probability
        self._batches = model_loading.Batches(self.device, 16)

    def __call__(self, images: Sequence[np.ndarray]) -> list[list[str]]:
        probabilities = self._batches.run(images, self._run_batch)
        return [[self._vocabulary[k] for k in np.flatnonzero(row >= self._min_probability)] for row in probabilities]

    def _run_batch(self, images: Sequence[np.ndarray]) -> np.ndarray:
        pixels = self.processor.image_processor(images=model_loading.writable(images), return_tensors="pt")
        logits = self.checked(self.model(**self._tokens, **pixels.to(self.device)).logits_per_image.float())
        return (logits.sigmoid() if self._is_sigmoid else logits.softmax(-1)).cpu().numpy()


class _Florence(TransformersModel):
    """Florence-2, prompted for object detection."""

    def __call__(self, images: Sequence[np.ndarray]) -> Iterator[list[str]]:
        for image in images:
            arguments = {"text": _TASK, "images": model_loading.writable([image])[0]}
            inputs = self.processor(**arguments, return_tensors="pt").to(self.device)
            answer = self.model.generate(**inputs, **self.greedy(_MAX_TOKENS))
            text = self.processor.batch_decode(answer, skip_special_tokens=False)[0]
            size = image.shape[1::-1]
            detections = self.processor.post_process_generation(text, task=_TASK, image_size=size)[_TASK]
            yield [tag for tag in dict.fromkeys(map(casefold_name, detections["labels"])) if tag]


class _Boxes(TransformersModel):
    """A detector of tags: it returns their names, scores, and boxes in pixels."""

    def __init__(self, name: str, thresholds: Thresholds, device: str) -> None:
        where, _ = model_loading.fetch_transformers(name, "grounding", "a detector")
        super().__init__("AutoModelForZeroShotObjectDetection", name, where, "a detector", device)
        self._thresholds = thresholds

    def __call__(self, image: np.ndarray, tags: Sequence[str]) -> tuple[list[str], list[float], np.ndarray]:
        import torch
        from torchvision.ops import clip_boxes_to_image, nms

        height, width = image.shape[:2]
        names: list[str] = []
        scores, boxes = [], []
        for chunk in self._chunks(tags):
            detections = self._ask(image, chunk)
            names += [_match_tag(text, chunk) for text in detections["text_labels"]]
            scores.append(detections["scores"].float().cpu())
            boxes.append(detections["boxes"].float().cpu())
        boxes = clip_boxes_to_image(torch.cat(boxes), (height, width))
        scores = torch.cat(scores)
        # Boxes without a tag, or beyond the image, are not objects.
        has_name = torch.tensor([bool(name) for name in names], dtype=torch.bool)
        is_inside = (boxes[:, 2:] > boxes[:, :2]).all(dim=1) & has_name
        rows = torch.nonzero(is_inside)[:, 0]
        rows = rows[nms(boxes[rows], scores[rows], OVERLAP)]
        return [names[i] for i in rows.tolist()], scores[rows].tolist(), boxes[rows].numpy().astype(float)

    def _ask(self, image: np.ndarray, tags: list[str]) -> dict:
        arguments = {"images": model_loading.writable([image])[0], "text": [tags]}
        inputs = self.processor(**arguments, return_tensors="pt").to(self.device)
        outputs = self.model(**inputs)
        self.checked(outputs.pred_boxes)
        # Positions without a tag have logits of minus infinity.
        self.checked(outputs.logits[~outputs.logits.isneginf()])
        options = {"threshold": self._thresholds.box, "text_threshold": self._thresholds.text}
        options |= {"input_ids": inputs["input_ids"], "target_sizes": [image.shape[:2]]}
        return self.processor.post_process_grounded_object_detection(outputs, **options)[0]

    def _chunks(self, tags: Sequence[str]) -> Iterator[list[str]]:
        """Yield chunks of tags, each as long as one text of the detector may be."""
        token_lists = self.processor.tokenizer([f"{tag}." for tag in tags], add_special_tokens=False)
        chunk, n_tokens = [], 2
        for tag, length in zip(tags, map(len, token_lists["input_ids"]), strict=True):
            if length + 2 > TOKENS:
                raise ParameterError(
                    f"The tag {tag[:80]!r} has {length} tokens; {self.name} reads at most {TOKENS}. Shorten it in "
                    "the vocabulary."
                )
            if n_tokens + length > TOKENS:
                yield chunk
                chunk, n_tokens = [], 2
            chunk.append(tag)
            n_tokens += length
        yield chunk


def _match_tag(text: str, tags: Sequence[str]) -> str:
    """Return the tag that best matches the text of a box (some words of a tag, parts of words, or words of several
    tags); empty for none.
    """
    text = casefold_name(text)
    if text in tags:
        return text
    words = [word for word in (w.strip("#.") for w in text.split()) if word]
    n_shared = [sum(word in tag for word in words) for tag in tags]
    best = int(np.argmax(n_shared))
    return tags[best] if n_shared[best] else ""


class _Masks(TransformersModel):
    """SAM and similar models: the mask of each box."""

    def __init__(self, name: str, device: str) -> None:
        where, _ = model_loading.fetch_transformers(name, "masks", "a segmenter")
        super().__init__("AutoModelForMaskGeneration", name, where, "a segmenter with box prompts", device)

    def __call__(self, image: np.ndarray, boxes: np.ndarray) -> list[np.ndarray]:
        import torch

        arguments = {"images": model_loading.writable([image])[0], "input_boxes": [boxes.tolist()]}
        inputs = self.processor(**arguments, return_tensors="pt")
        # SAM 1 pads an image, and removes the padding by these sizes.
        sizes = [inputs.pop(k) for k in ("original_sizes", "reshaped_input_sizes") if k in inputs]
        # Boxes are in double precision, which some devices lack.
        inputs = {k: v.to(self.device, torch.float32) for k, v in inputs.items()}
        outputs = self.model(**inputs, multimask_output=False)
        (masks,) = self.processor.post_process_masks(self.checked(outputs.pred_masks.float().cpu()), *sizes)
        return list(masks[:, 0].numpy().astype(bool))
