"""An object that is seen in an image, as whatever finds objects says it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

NONE = "none"
"""The segmenter of boxes alone."""
BACKGROUND = "background"
"""The label of a segmenter that is no object."""


class Instance(NamedTuple):
    """An object that is seen in an image."""

    object: str
    score: float
    box: tuple[float, float, float, float]
    """left, top, right and bottom, 0–1 of the image's width and height."""
    mask: np.ndarray | None
    """``bool (height, width)`` of the image; None where there is a box alone."""


def folded(name: str) -> str:
    """Return the name of an object as tables have it: in lower case, with single spaces, and without full stops.

    These would end the name where several are listed.
    """
    return " ".join(name.casefold().replace("_", " ").replace(".", " ").split())
