"""A person in an image, and the crops of the image that show this person alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# The height of the face's box as a share of the cropped square (head and shoulders, as in an image of one person), and
# the height of the face's middle in the square, from 0 (top) to 1. Beyond the person's part of the image, the last
# column or row is repeated.
FACE_SHARE, FACE_HEIGHT = 0.3, 0.43


class Person(NamedTuple):
    """A person in an image, ``uint8 (height, width, 3)`` RGB, to be labelled by a judge.

    The face's box is left, top, right and bottom in pixels, and the whole image without face detection; its landmarks,
    x and y, are in the detector's order. The position counts the prompted people from the left, beginning with 1; the
    phrase names the person in a prompt for several, such as ``carpenter``. The part is the person's columns of the
    image, the first and the one after the last; None is all.
    """

    image: np.ndarray
    box: tuple[float, float, float, float]
    landmarks: tuple[tuple[float, float], ...] = ()
    position: int = 1
    people: int = 1
    phrase: str = ""
    part: tuple[int, int] | None = None

    @property
    def columns(self) -> tuple[int, int]:
        """The person's columns of the image."""
        return self.part or (0, self.image.shape[1])


def whole_image(image: np.ndarray) -> Person:
    """Return a person whose face is the whole image."""
    return Person(image, (0.0, 0.0, float(image.shape[1]), float(image.shape[0])))


def face_of(person: Person) -> np.ndarray:
    """Return the square around a face with a margin of a quarter of its longer side; black beyond the person's part of
    the image.
    """
    x0, y0, x1, y1 = person.box
    half = max(1, round(max(x1 - x0, y1 - y0) * 0.75))
    left, top = round((x0 + x1) / 2) - half, round((y0 + y1) / 2) - half
    out = np.zeros((2 * half, 2 * half, 3), np.uint8)
    first, last = person.columns
    rows = slice(max(top, 0), min(top + 2 * half, person.image.shape[0]))
    columns = slice(max(left, first), min(left + 2 * half, last))
    pixels = person.image[rows, columns]
    out[rows.start - top : rows.stop - top, columns.start - left : columns.stop - left] = pixels
    return out


def head_and_shoulders(person: Person, *, side: int = 0) -> np.ndarray:
    """Return the square around a face, framed as in an image of that person alone, ``uint8 (side, side, 3)``.

    Beyond the person's columns the last one is repeated; a side of 0 keeps the size of the crop.
    """
    x0, y0, x1, y1 = person.box
    size = max(1, round((y1 - y0) / FACE_SHARE))
    left, top = round((x0 + x1) / 2 - size / 2), round((y0 + y1) / 2 - FACE_HEIGHT * size)
    return _crop_square(person, left, top, size, side)


def wider(person: Person, *, side: int = 0) -> np.ndarray:
    """Return the square as wide as a person's part of the image, at most as high as the image.

    It includes clothes and held objects; otherwise as :func:`head_and_shoulders`, but without repeated pixels.
    """
    x0, y0, x1, y1 = person.box
    height, (first, last) = person.image.shape[0], person.columns
    size = min(height, last - first)
    left = min(max(round((x0 + x1 - size) / 2), first), last - size)
    top = min(max(round((y0 + y1) / 2 - FACE_HEIGHT * size), 0), height - size)
    return _crop_square(person, left, top, size, side)


def _crop_square(person: Person, left: int, top: int, size: int, side: int) -> np.ndarray:
    first, last = person.columns
    columns = np.clip(np.arange(left, left + size), first, last - 1)
    rows = np.clip(np.arange(top, top + size), 0, person.image.shape[0] - 1)
    out = person.image[rows[:, None], columns[None, :]]
    if not side or side == size:
        return out
    from PIL import Image

    # Crops of many sizes are resized to the model's input, so that they fit in one batch.
    return np.asarray(Image.fromarray(out).resize((side, side), Image.Resampling.BICUBIC))
