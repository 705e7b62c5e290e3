"""Draw a scene, and say where everything in it is.

A scene becomes one list of coloured polygons. Painting them in order gives the image; painting the index of
each polygon's part instead gives the truth, so the two cannot disagree. Both are drawn at twice the size.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np

from biaslab.errors import ParameterError, unknown_name
from biaslab.measures.skin_tone import swatch_rgb
from biaslab.mini.art import COLOURS, DECOYS, HATS, OBJECT_ART, PLACES, PROPS, arc, disc, poly, rect, stroke
from biaslab.mini.looks import ATTIRES, look
from biaslab.mini.scene import Person, Scene, attire_of

_SHIFT = 5  # fractional bits of the coordinates handed to OpenCV
_OVER = 2  # supersampling
SKIN: tuple[tuple[int, int, int], ...] = tuple(tuple(int(v) for v in c) for c in swatch_rgb())

# Least difference of luminance (0–255) between a feature and the skin around it, before the light.
FEATURE_CONTRAST = 34
SHADE_CONTRAST = 18

_HAIR = {
    "black": (32, 26, 26),
    "dark brown": (66, 44, 32),
    "brown": (112, 74, 46),
    "auburn": (146, 70, 36),
    "blond": (222, 184, 104),
}
_GREYED = {"young": 0.0, "middle-aged": 0.2, "older": 0.85}
_GREY = (192, 188, 184)
_EARRING = (24, 176, 206)
_GLOVE, _CUFF = (236, 110, 30), (170, 66, 10)


@dataclass(frozen=True, slots=True)
class Region:
    """Where one thing is seen in an image."""

    name: str
    """What it is: ``person``, ``face``, an object's kind, an attribute or a prop."""
    person: int | None
    """Index in ``Scene.people`` of the person whose it is, or ``None``."""
    box: tuple[float, float, float, float]
    """Left, top, right, bottom of what is visible, in pixels; NaN where nothing is."""
    mask: np.ndarray
    """Visible pixels, bool array (height, width): at least half of a pixel is this thing."""

    @property
    def visible(self) -> bool:
        """Whether any pixel shows it."""
        return bool(self.mask.any())


@dataclass(frozen=True, slots=True)
class Truth:
    """Where everything in an image is."""

    people: tuple[Region, ...]
    """One region per person, without the prop, in the order of ``Scene.people``."""
    faces: tuple[Region, ...]
    """One region per person: skin and features from the chin to the hairline, ears and a mask included."""
    objects: tuple[Region, ...]
    """One region per entry of ``Scene.things``."""
    attributes: tuple[Region, ...]
    """One region per person and attribute worn."""
    props: tuple[Region, ...]
    """One region per prop, or the decoy."""


@dataclass(frozen=True, slots=True)
class _Part:
    # Whose polygon it is, and which regions it belongs to.
    role: str  # place, thing, person, prop
    owner: int | None = None
    face: bool = False
    attribute: str | None = None


class _Drawing:
    # The list of polygons: groups of points in frame heights, and one colour and one part per polygon.
    __slots__ = ("colours", "counts", "parts", "points", "seen", "tags")

    def __init__(self):
        self.points: list[np.ndarray] = []
        self.counts: list[int] = []
        self.colours: list[tuple] = []
        self.tags: list[int] = []
        self.parts: list[_Part] = []
        self.seen: dict[_Part, int] = {}

    def tag(self, part: _Part) -> int:
        index = self.seen.get(part)
        if index is None:
            index = self.seen[part] = len(self.parts)
            self.parts.append(part)
        return index

    def add(self, shapes, part, scale, x, y, *, tilt=0.0, flip=False):
        """Add shapes that are one part."""
        tag = self.tag(part)
        self.group([(points, colour, tag) for points, colour in shapes], scale, x, y, tilt=tilt, flip=flip)

    def group(self, shapes, scale, x, y, *, tilt=0.0, flip=False):
        """Add ``(points, colour, tag)`` triples after scaling, mirroring, turning and moving them."""
        if not shapes:
            return
        points = np.concatenate([s[0] for s in shapes]) * ((-scale if flip else scale), scale)
        if tilt:
            c, s = np.cos(tilt), np.sin(tilt)
            # Around the chin, where the neck holds the head.
            points = (points - (0, 0.5 * scale)) @ np.array([[c, s], [-s, c]]) + (0, 0.5 * scale)
        self.points.append(points + np.array((x, y)))
        for p, colour, tag in shapes:
            self.counts.append(len(p))
            self.colours.append(colour)
            self.tags.append(tag)


def luminance(colour) -> float:
    """Return the luminance of an RGB colour, 0–255 (Rec. 601 weights)."""
    return 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2]


def shade(colour, factor: float) -> tuple[int, int, int]:
    """Return a darker (``factor`` < 1) or lighter (> 1) RGB colour, each channel 0–255."""
    return tuple(min(255, int(c * factor)) for c in colour)


def mix(a, b, share: float) -> tuple[int, int, int]:
    """Return ``a`` with the given share of ``b``, both RGB."""
    return tuple(int(p + (q - p) * share) for p, q in zip(a, b, strict=True))


def against(colour, ground, least: float) -> tuple[int, int, int]:
    """Return ``colour``, or its nearest shade that differs from ``ground`` by ``least`` in luminance.

    Darker where the ground is light enough for that, else lighter: so features are equally legible on
    every skin tone.
    """
    own, other = luminance(colour), luminance(ground)
    if abs(own - other) >= least:
        return colour
    if other - least >= 8 and (own <= other or other + least > 235):
        return shade(colour, (other - least) / max(own, 1.0))
    wanted = other + least
    target = (236, 196, 166)
    if wanted > luminance(target) - 20:
        target = (255, 255, 255)
    return mix(colour, target, min(1.0, (wanted + 1 - own) / max(luminance(target) - own, 1.0)))


# ---- templates in head units: the face is 1 high, its centre is (0, 0), y points down ----

_JAW = {"narrow": (0.345, 1.35), "medium": (0.37, 0.85), "wide": (0.395, 0.5)}
_SHOULDER = {"narrow": 0.80, "medium": 0.98, "wide": 1.20}


def _face_outline(jaw: str, grow: float = 0.0) -> np.ndarray:
    width, power = _JAW[jaw]
    t = np.linspace(0, 2 * np.pi, 28, endpoint=False)
    c, s = np.cos(t), np.sin(t)
    x = np.where(s > 0, np.sign(c) * np.abs(c) ** power, c) * (width + grow)
    # The lower half bulges or tapers with the jaw; the cheeks keep their width.
    y = s * (0.5 + grow)
    return np.stack([x, y], axis=1)


_FACE = {jaw: _face_outline(jaw) for jaw in _JAW}


def _beard(jaw: str, grow: float) -> np.ndarray:
    outline = _face_outline(jaw, grow)
    low = outline[(outline[:, 1] > 0.1)]
    low = low[np.argsort(-low[:, 0])]
    # From the right cheek round the chin to the left one, back under the nose.
    right = low[0]
    left = low[-1]
    inner = poly(left[0] * 0.8, 0.2, left[0] * 0.62, 0.27, -0.2, 0.2, 0.0, 0.175, 0.2, 0.2, right[0] * 0.62, 0.27,
                 right[0] * 0.8, 0.2)  # fmt: skip
    return np.concatenate([low, inner])


_BEARD = {jaw: _beard(jaw, 0.035) for jaw in _JAW}
_STUBBLE = {jaw: _beard(jaw, 0.0) for jaw in _JAW}
_MOUSTACHE = poly(-0.2, 0.27, -0.17, 0.18, 0.0, 0.15, 0.17, 0.18, 0.2, 0.27, 0.06, 0.235, -0.06, 0.235)

_EARS = [np.concatenate([disc(side * 0.375, 0.03, 0.085, 0.11)]) for side in (-1, 1)]
_EYE_X = 0.165
_SCLERA = {
    "no": [disc(s * _EYE_X, -0.03, 0.09, 0.05, 10) for s in (-1, 1)],
    "yes": [disc(s * _EYE_X, -0.03, 0.098, 0.066, 10) for s in (-1, 1)],
}
_IRIS = [disc(s * _EYE_X, -0.03, 0.048, 0.052, 8) for s in (-1, 1)]
_LID = [
    poly(s * 0.05, -0.045, s * 0.1, -0.115, s * 0.2, -0.13, s * 0.32, -0.115, s * 0.27, -0.03, s * 0.2, -0.075,
         s * 0.12, -0.07)
    for s in (-1, 1)
]  # fmt: skip
_LID_SHADE = [poly(s * 0.06, -0.1, s * 0.12, -0.165, s * 0.24, -0.165, s * 0.3, -0.11) for s in (-1, 1)]


def _brows(half: float) -> list[np.ndarray]:
    return [
        poly(s * 0.06, -0.165 - half, s * 0.18, -0.195 - half, s * 0.285, -0.165 - half * 0.6,
             s * 0.28, -0.15 + half * 0.5, s * 0.18, -0.175 + half, s * 0.06, -0.155 + half)
        for s in (-1, 1)
    ]  # fmt: skip


_BROWS = {"thin": _brows(0.012), "medium": _brows(0.028), "thick": _brows(0.05)}
_NOSE = poly(-0.03, 0.0, 0.035, 0.0, 0.085, 0.15, 0.0, 0.175, -0.03, 0.15)
_LIPS = {
    ("natural", "neutral"): [
        poly(-0.12, 0.275, 0.0, 0.265, 0.12, 0.275, 0.1, 0.315, 0.0, 0.325, -0.1, 0.315)
    ],
    ("tinted", "neutral"): [
        poly(
            -0.15,
            0.285,
            -0.06,
            0.24,
            0.0,
            0.255,
            0.06,
            0.24,
            0.15,
            0.285,
            0.08,
            0.35,
            0.0,
            0.365,
            -0.08,
            0.35,
        )
    ],
    ("natural", "smiling"): [
        poly(
            -0.17, 0.235, -0.08, 0.26, 0.0, 0.265, 0.08, 0.26, 0.17, 0.235, 0.11, 0.34, 0.0, 0.37, -0.11, 0.34
        ),
        poly(-0.13, 0.262, 0.0, 0.278, 0.13, 0.262, 0.09, 0.318, 0.0, 0.332, -0.09, 0.318),
    ],
    ("tinted", "smiling"): [
        poly(
            -0.19,
            0.225,
            -0.07,
            0.235,
            0.0,
            0.245,
            0.07,
            0.235,
            0.19,
            0.225,
            0.12,
            0.355,
            0.0,
            0.4,
            -0.12,
            0.355,
        ),
        poly(-0.12, 0.268, 0.0, 0.28, 0.12, 0.268, 0.08, 0.308, 0.0, 0.318, -0.08, 0.308),
    ],
}
_LINES = [stroke(s * 0.2, 0.13, s * 0.225, 0.27, 0.028) for s in (-1, 1)] + [
    stroke(-0.15, -0.27, 0.15, -0.27, 0.025),
    stroke(-0.22, 0.055, -0.1, 0.065, 0.025),
    stroke(0.1, 0.065, 0.22, 0.055, 0.025),
]


def _cap(rise: float, side: float, down: float, line: tuple[float, ...]) -> np.ndarray:
    # Hair over the skull: outside from the right temple over the crown to the left one, back along the hairline.
    outside = arc(0, -0.06, 0.375 + side, 0.44 + rise, 0, -180, 15)
    outside = np.concatenate([poly(0.375 + side, down), outside, poly(-0.375 - side, down)])
    xs = np.linspace(-0.335, 0.335, len(line))
    inside = np.stack([xs, line], axis=1)
    return np.concatenate([outside, inside])


def _curls(radius: float) -> np.ndarray:
    t = np.radians(np.linspace(10, -190, 41))
    r = 1 + 0.075 * np.abs(np.sin(np.arange(41) * np.pi / 4))
    outside = np.stack([radius * 0.49 * 1.04 * r * np.cos(t), -0.1 + radius * 0.54 * r * np.sin(t)], axis=1)
    xs = np.linspace(-0.34, 0.34, 9)
    inside = np.stack([xs, [0.06, -0.16, -0.25, -0.3, -0.28, -0.31, -0.25, -0.16, 0.06]], axis=1)
    return np.concatenate([outside, inside])


_FRINGE = (0.0, -0.14, -0.26, -0.31, -0.33, -0.31, -0.26, -0.14, 0.0)
_PARTING = (0.1, -0.1, -0.2, -0.27, -0.34, -0.36, -0.26, -0.1, 0.1)
_SIDE = (0.0, -0.17, -0.26, -0.25, -0.26, -0.29, -0.33, -0.17, 0.0)
_CAPS = {
    "cropped": [_cap(0.02, 0.0, -0.1, (-0.14, -0.25, -0.32, -0.345, -0.35, -0.345, -0.32, -0.25, -0.14))],
    "short": [_cap(0.12, 0.035, 0.0, _SIDE)],
    "curly-short": [_curls(1.0)],
    "bob": [_cap(0.12, 0.08, 0.3, (0.3, -0.05, -0.2, -0.225, -0.23, -0.225, -0.2, -0.05, 0.3))],
    "long-straight": [_cap(0.11, 0.06, 0.3, _PARTING)],
    "long-wavy": [_cap(0.15, 0.07, 0.1, _PARTING)],
    "bun": [_cap(0.05, 0.015, -0.02, _FRINGE)],
    "ponytail": [_cap(0.06, 0.02, -0.02, _FRINGE)],
}


def _lock(side: float, wave: float) -> np.ndarray:
    y = np.linspace(-0.32, 1.18, 13)
    bump = wave * np.sin(np.linspace(0, 3.2 * np.pi, 13))
    ramp = np.clip((y + 0.32) / 0.34, 0, 1)
    outer = 0.36 + 0.10 * ramp + 0.08 * np.clip(y / 0.6, 0, 1) + (wave * 1.2 + bump) * ramp
    inner = np.where(y < 0.45, 0.31, 0.26 + 0.03 * (y - 0.45)) - 0.4 * bump
    outside = np.stack([outer, y], axis=1)
    inside = np.stack([inner, y], axis=1)[::-1]
    return np.concatenate([outside, inside]) * (side, 1)


_LOCKS = {
    "long-straight": [_lock(-1, 0.0), _lock(1, 0.0)],
    "long-wavy": [_lock(-1, 0.06), _lock(1, 0.06)],
    "bob": [
        poly(0.42, -0.2, 0.48, 0.0, 0.52, 0.3, 0.5, 0.52, 0.28, 0.52, 0.33, 0.3, 0.34, -0.1) * (s, 1)
        for s in (-1, 1)
    ],
}
_BEHIND = {
    "bob": [poly(-0.38, -0.25, 0.38, -0.25, 0.48, 0.0, 0.5, 0.5, -0.5, 0.5, -0.48, 0.0)],
    "long-straight": [poly(-0.36, -0.3, 0.36, -0.3, 0.46, 0.1, 0.52, 0.9, -0.52, 0.9, -0.46, 0.1)],
    "long-wavy": [poly(-0.36, -0.3, 0.36, -0.3, 0.5, 0.1, 0.6, 0.9, -0.6, 0.9, -0.5, 0.1)],
    "bun": [disc(0, -0.68, 0.22, 0.2)],
    "ponytail": [
        poly(
            0.1,
            -0.5,
            0.4,
            -0.56,
            0.62,
            -0.34,
            0.72,
            0.1,
            0.66,
            0.62,
            0.54,
            0.7,
            0.5,
            0.3,
            0.42,
            -0.1,
            0.3,
            -0.26,
        )
    ],
}
_BUN_UNDER_HAT = [disc(0.5, 0.3, 0.19, 0.2)]
_SCARF_BACK = [
    np.concatenate(
        [arc(0, -0.06, 0.5, 0.58, 0, -180, 15), poly(-0.54, 0.4, -0.66, 0.95, 0.66, 0.95, 0.54, 0.4)]
    )
]
_SCARF_FRONT = [
    np.concatenate([arc(0, -0.06, 0.5, 0.58, 0, -180, 15), arc(0, 0.0, 0.36, 0.3, 180, 360, 13)]),
    poly(-0.5, -0.06, -0.36, 0.0, -0.34, 0.2, -0.22, 0.44, 0.0, 0.53, 0.22, 0.44, 0.34, 0.2, 0.36, 0.0, 0.5, -0.06,
         0.52, 0.4, 0.3, 0.72, -0.3, 0.72, -0.52, 0.4),
]  # fmt: skip
_SCARF_FOLD = [
    poly(-0.36, 0.5, 0.1, 0.62, 0.46, 0.5, 0.4, 0.66, 0.05, 0.74, -0.34, 0.64),
    poly(-0.36, -0.2, -0.2, -0.36, 0.0, -0.4, 0.2, -0.36, 0.36, -0.2, 0.4, -0.28, 0.22, -0.46, 0.0, -0.5, -0.22, -0.46,
         -0.4, -0.28),
]  # fmt: skip

_NECK = poly(-0.2, 0.3, 0.2, 0.3, 0.22, 0.72, 0.3, 0.86, -0.3, 0.86, -0.22, 0.72)
_NECK_SHADE = poly(-0.2, 0.44, 0.2, 0.44, 0.2, 0.56, 0.0, 0.62, -0.2, 0.56)
_MASK = [
    poly(-0.36, 0.1, 0.0, 0.05, 0.36, 0.1, 0.32, 0.32, 0.18, 0.5, 0.0, 0.54, -0.18, 0.5, -0.32, 0.32),
    poly(-0.34, 0.2, 0.34, 0.2, 0.33, 0.26, -0.33, 0.26),
    poly(-0.28, 0.36, 0.28, 0.36, 0.24, 0.42, -0.24, 0.42),
]
_EARRINGS = [disc(s * 0.43, 0.2, 0.068, 0.085, 10) for s in (-1, 1)]
_SHEEN = poly(-0.26, -0.5, -0.1, -0.56, 0.06, -0.56, 0.02, -0.48, -0.12, -0.46, -0.22, -0.4)


@cache
def _torso(shoulders: str, full: bool) -> np.ndarray:
    w = _SHOULDER[shoulders]
    if full:
        w *= 0.82
        half = [0.2, 0.62, 0.3, 0.68, w * 0.84, 0.80, w, 0.98, w * 1.05, 1.5, w * 1.02, 2.05, w * 0.76, 2.05,
                w * 0.72, 1.3, w * 0.66, 1.5, 0.6, 2.1]  # fmt: skip
    else:
        half = [0.2, 0.62, 0.3, 0.7, w * 0.82, 0.84, w * 0.98, 1.06, w * 1.06, 1.7, w * 1.04, 2.6]
    right = np.array(half).reshape(-1, 2)
    left = right[::-1] * (-1, 1)
    return np.concatenate([right, left])


_V_SMALL = poly(-0.2, 0.6, 0.2, 0.6, 0.0, 0.96)
_V_OPEN = poly(-0.26, 0.6, 0.26, 0.6, 0.0, 1.22)
_COLLAR = [poly(s * 0.03, 0.86, s * 0.3, 0.6, s * 0.36, 0.82, s * 0.14, 1.0) for s in (-1, 1)]
_BAND = poly(-0.28, 0.6, 0.28, 0.6, 0.3, 0.78, 0.0, 0.86, -0.3, 0.78)
_COLLAR_OPEN = [poly(s * 0.02, 1.26, s * 0.26, 0.6, s * 0.38, 0.74, s * 0.2, 1.04) for s in (-1, 1)]
_TIE = [poly(-0.1, 0.82, 0.1, 0.82, 0.07, 0.96, -0.07, 0.96), poly(-0.07, 0.95, 0.07, 0.95, 0.16, 1.6, 0.0, 1.76,
                                                                   -0.16, 1.6)]  # fmt: skip
_LONG = 2.6
_FULL_BODY = 0.78


def _attire(kind, colour, second, w, bottom, neck_open, tags):
    """Return what lies over the plain torso as (points, colour, tag), and the torso's own colour and tag.

    ``tags`` gives a tag for an attribute's name, or for plain clothing.
    """
    own, other = COLOURS[colour], COLOURS[second]
    dark, light = shade(own, 0.72), mix(own, (255, 255, 255), 0.35)
    if luminance(own) < 60:
        dark = mix(own, (255, 255, 255), 0.2)
    plain = tags(None)
    base, base_tag, over = own, plain, []

    def add(points, c, tag=plain):
        over.append((points, c, tag))

    if kind == "suit" or kind == "jacket":
        base_tag = tags(kind)
        inner = tags("shirt") if "shirt" in tags.worn else plain
        if kind == "suit":
            add(poly(-0.3, 0.62, 0.3, 0.62, 0.02, 1.9, -0.02, 1.9), other, inner)
            for s in (-1, 1):
                add(
                    poly(
                        s * 0.3,
                        0.64,
                        s * 0.52,
                        0.8,
                        s * 0.42,
                        1.16,
                        s * 0.3,
                        1.12,
                        s * 0.02,
                        1.96,
                        s * 0.16,
                        1.2,
                    ),
                    dark,
                    base_tag,
                )
            add(rect(0.34, 1.36, 0.58, 1.46), light, base_tag)
        else:
            add(poly(-0.34, 0.64, 0.34, 0.64, 0.36, bottom, -0.36, bottom), other, inner)
            for s in (-1, 1):
                add(poly(s * 0.28, 0.62, s * 0.56, 0.74, s * 0.5, 1.1, s * 0.32, 1.02), dark, base_tag)
                add(poly(s * 0.28, 1.0, s * 0.4, 1.0, s * 0.42, bottom, s * 0.32, bottom), dark, base_tag)
    elif kind == "lab coat":
        add(poly(-0.3, 0.62, 0.3, 0.62, 0.2, bottom, -0.2, bottom), other)
        for s in (-1, 1):
            add(poly(s * 0.28, 0.62, s * 0.54, 0.78, s * 0.44, 1.2, s * 0.2, 1.5), dark)
        add(rect(0.4, 1.3, 0.66, 1.36), dark)
        add(rect(0.44, 1.2, 0.54, 1.34), COLOURS["blue"])
    elif kind == "scrubs":
        base_tag = tags("uniform")
        add(poly(-0.34, 0.62, 0.34, 0.62, 0.0, 1.36), other, base_tag)
        add(poly(-0.24, 0.62, 0.24, 0.62, 0.0, 1.2), dark, base_tag)
        add(rect(0.28, 1.4, 0.64, 1.7), dark, base_tag)
    elif kind == "apron":
        base = other
        for s in (-1, 1):
            add(poly(s * 0.3, 0.66, s * 0.46, 0.74, s * 0.5, 1.2, s * 0.36, 1.2), own)
        add(
            poly(-0.52, 1.12, 0.52, 1.12, w * 0.9, 1.7, w * 0.9, bottom, -w * 0.9, bottom, -w * 0.9, 1.7), own
        )
        add(poly(-0.4, 1.56, 0.4, 1.56, 0.36, 1.9, -0.36, 1.9), dark)
    elif kind == "overalls":
        base = other
        for s in (-1, 1):
            add(poly(s * 0.34, 0.68, s * 0.54, 0.78, s * 0.54, 1.3, s * 0.34, 1.3), own)
        add(poly(-0.56, 1.2, 0.56, 1.2, w * 0.9, 1.8, w * 0.9, bottom, -w * 0.9, bottom, -w * 0.9, 1.8), own)
        add(rect(-0.28, 1.42, 0.28, 1.7), dark)
        for s in (-1, 1):
            add(disc(s * 0.44, 1.26, 0.1, None, 8), COLOURS["yellow"])
    elif kind == "uniform":
        base_tag = tags("uniform")
        for s in (-1, 1):
            add(
                poly(s * w * 0.5, 0.76, s * w * 0.86, 0.84, s * w * 0.92, 1.0, s * w * 0.52, 0.92),
                COLOURS["yellow"],
                base_tag,
            )
        add(_BAND, other, base_tag)
        for y in (1.1, 1.4, 1.7):
            add(disc(0, y, 0.08, None, 8), COLOURS["yellow"], base_tag)
        add(poly(0.3, 1.16, 0.58, 1.16, 0.58, 1.34, 0.44, 1.46, 0.3, 1.34), COLOURS["yellow"], base_tag)
    elif kind == "vest":
        base = other
        add(
            poly(-0.3, 0.66, 0.3, 0.66, w * 0.76, 0.84, w * 0.72, bottom, -w * 0.72, bottom, -w * 0.76, 0.84),
            own,
        )
        add(poly(-0.18, 0.62, 0.18, 0.62, 0.05, 1.1, -0.05, 1.1), other)
        for s in (-1, 1):
            add(poly(s * 0.42, 0.74, s * 0.6, 0.78, s * 0.58, bottom, s * 0.4, bottom), (226, 230, 236))
        add(rect(-w * 0.73, 1.42, w * 0.73, 1.58), (226, 230, 236))
    elif kind == "jumper":
        add(poly(-w * 1.04, 1.16, w * 1.04, 1.16, w * 1.05, 1.4, -w * 1.05, 1.4), other)
        add(_BAND, dark)
    elif kind == "shirt" or kind == "checked":
        base_tag = tags("shirt")
        if kind == "checked":
            for x in (-0.84, -0.42, 0.0, 0.42, 0.84):
                if abs(x) < w:
                    add(rect(x - 0.1, 0.86, x + 0.1, bottom), other, base_tag)
            for y in (1.06, 1.48):
                add(rect(-w * 0.98, y, w * 0.98, y + 0.17), mix(own, other, 0.7), base_tag)
        else:
            add(rect(-0.09, 0.86, 0.09, bottom), dark, base_tag)
            for y in (1.08, 1.36, 1.64):
                add(disc(0, y, 0.055, None, 6), other, base_tag)
            add(rect(0.3, 1.2, 0.62, 1.46), other, base_tag)
        for points in _COLLAR_OPEN if neck_open else _COLLAR:
            add(points, light if kind == "shirt" else other, base_tag)
    elif kind == "waistcoat":
        base, base_tag = other, tags("shirt")
        add(
            poly(-0.34, 0.7, 0.34, 0.7, w * 0.62, 0.86, w * 0.68, bottom, -w * 0.68, bottom, -w * 0.62, 0.86),
            own,
        )
        add(poly(-0.3, 0.66, 0.3, 0.66, 0.0, 1.5), other, base_tag)
        for y in (1.58, 1.78):
            add(disc(0, y, 0.06, None, 6), COLOURS["yellow"])
        for points in _COLLAR_OPEN if neck_open else _COLLAR:
            add(points, shade(other, 0.86), base_tag)
    elif kind == "coat":
        base_tag = tags("uniform") if "uniform" in tags.worn else plain
        for s in (-1, 1):
            add(
                poly(s * 0.26, 0.62, s * 0.52, 0.74, s * 0.6, 1.12, s * 0.3, 1.06, s * 0.06, 1.3),
                dark,
                base_tag,
            )
            for y in (1.3, 1.56, 1.82):
                add(disc(s * 0.24, y, 0.085, None, 8), other, base_tag)
        add(rect(-w * 1.05, 1.92, w * 1.05, 2.06), other, base_tag)
    elif kind == "robe":
        add(poly(-0.2, 0.64, 0.2, 0.64, 0.1, bottom, -0.1, bottom), dark)
        for s in (-1, 1):
            add(poly(s * 0.24, 0.64, s * 0.46, 0.72, s * 0.56, bottom, s * 0.26, bottom), other)
    elif kind == "sports shirt":
        for s in (-1, 1):
            add(
                poly(
                    s * w * 0.7,
                    0.78,
                    s * w * 0.9,
                    0.86,
                    s * w * 1.06,
                    1.7,
                    s * w * 1.05,
                    bottom,
                    s * w * 0.86,
                    bottom,
                    s * w * 0.86,
                    1.6,
                ),
                other,
            )
        add(rect(-0.1, 1.16, 0.12, 1.72), other)
        add(rect(-0.24, 1.16, 0.0, 1.32), other)
        add(_BAND, other)
    elif kind == "cardigan":
        add(poly(-0.28, 0.64, 0.28, 0.64, 0.16, bottom, -0.16, bottom), other)
        for s in (-1, 1):
            add(poly(s * 0.22, 0.64, s * 0.36, 0.7, s * 0.26, bottom, s * 0.12, bottom), dark)
        for y in (1.34, 1.66):
            add(disc(0.19, y, 0.075, None, 6), COLOURS["cream"])
    elif kind == "striped":
        for y in (0.94, 1.26, 1.58, 1.9):
            add(poly(-w * 1.02, y, w * 1.02, y, w * 1.05, y + 0.16, -w * 1.05, y + 0.16), other)
    elif kind == "dress":
        base_tag = tags("dress")
        add(poly(-w * 0.62, 1.6, w * 0.62, 1.6, w * 0.66, 1.76, -w * 0.66, 1.76), other, base_tag)
    else:
        raise unknown_name("attire", kind, ATTIRES)
    return base, base_tag, over


class _Tags:
    # Tags of one person's parts, by attribute.
    __slots__ = ("drawing", "index", "worn")

    def __init__(self, drawing, index, worn):
        self.drawing, self.index, self.worn = drawing, index, worn

    def __call__(self, attribute, face=False):
        if attribute not in self.worn:
            attribute = None
        return self.drawing.tag(_Part("person", self.index, face, attribute))


@cache
def _face_colours(tone: int, hair: str, age: str) -> dict:
    skin = SKIN[tone - 1]
    dark = luminance(skin) < 60
    grey = _GREYED[age]
    strand = mix(_HAIR[hair], _GREY, grey)
    strand = against(strand, skin, FEATURE_CONTRAST)
    brow = against(mix(_HAIR[hair], _GREY, grey * 0.6), skin, FEATURE_CONTRAST + 12)
    shadow = against(shade(skin, 1.6 if dark else 0.86), skin, SHADE_CONTRAST)
    natural = against((206, 128, 112) if dark else mix(skin, (150, 62, 52), 0.45), skin, FEATURE_CONTRAST)
    tinted = against((214, 44, 72), skin, FEATURE_CONTRAST)
    lid = against((128, 84, 128), skin, FEATURE_CONTRAST)
    beard = against(mix(_HAIR[hair], _GREY, grey), skin, FEATURE_CONTRAST)
    stubble = against(mix(skin, strand, 0.3), skin, SHADE_CONTRAST + 4)
    return {
        "skin": skin, "hair": strand, "brow": brow, "shadow": shadow, "natural": natural, "tinted": tinted,
        "lid": lid, "beard": beard, "stubble": stubble, "sheen": mix(strand, (255, 255, 255), 0.16),
        "lash": (20, 16, 20) if not dark else (8, 6, 8), "sclera": (246, 246, 244), "iris": (36, 26, 24),
    }  # fmt: skip


_SCARVES = ("teal", "purple", "blue", "maroon", "olive")


def _draw_person(d: _Drawing, index: int, p: Person) -> None:
    cues, c = p.cues, _face_colours(p.skin_tone, p.hair_colour, p.age)
    tags = _Tags(d, index, p.attributes)
    plain, face = tags(None), d.tag(_Part("person", index, True))
    kind, colour, second, hat, hat_colour = attire_of(p)
    style = cues.hair_style
    hair = c["hair"]
    scarf = COLOURS[_SCARVES[int(p.variant * 97) % len(_SCARVES)]]
    full, w = p.full_figure, _SHOULDER[cues.shoulders] * (0.82 if p.full_figure else 1.0)
    head = {"scale": p.scale, "x": p.x, "y": p.y, "tilt": p.tilt}

    # Hair behind the body.
    if style == "covered":
        behind = [(s, shade(scarf, 0.8), plain) for s in _SCARF_BACK]
    elif style == "bun" and hat is not None:
        behind = [(s, hair, plain) for s in _BUN_UNDER_HAT]
    else:
        behind = [(s, hair, plain) for s in _BEHIND.get(style, ())]
    d.group(behind, **head)

    # Body.
    body = _lower_body(p, tags, c, w, colour) if full else []
    bottom = 2.12 if full else _LONG
    base, base_tag, over = _attire(kind, colour, second, w, bottom, cues.neckline == "open", tags)
    body.append((_torso(cues.shoulders, full), base, base_tag))
    if full:
        over = [o for o in over if o[0][:, 1].min() < 1.9]
    body += over
    body.append((_NECK, c["skin"], plain))
    if cues.neckline == "open":
        body.append((_V_OPEN, c["skin"], plain))
    else:
        collar = _collar_colour(kind, colour, second)
        collar_tag = base_tag if kind in ("shirt", "checked", "uniform", "scrubs", "dress") else plain
        body.append((_BAND, collar, collar_tag))
    body.append((_NECK_SHADE, c["shadow"], plain))
    if "tie" in p.attributes:
        tie = _tie_colour(kind, colour, second)
        tag = tags("tie")
        drop = 0.26 if cues.neckline == "open" else 0.0
        body += [
            (points + np.array((0, drop)), tie if i else shade(tie, 0.8), tag)
            for i, points in enumerate(_TIE)
        ]
    if full:
        body += _hands(p, tags, c, w)
    # A full figure has a larger head for its body, so that the face stays legible; both meet at the chin.
    ratio = _FULL_BODY if full else 1.0
    d.group(body, p.scale * ratio, p.x, p.y + 0.5 * p.scale * (1 - ratio))

    # Head.
    parts = [(s, hair, plain) for s in _LOCKS.get(style, ())]
    if style != "covered":
        parts += [(s, c["skin"], face) for s in _EARS]
    if style in _LOCKS:
        # The ears lie under the hair.
        parts += [(s, hair, plain) for s in _LOCKS[style]] if style != "bob" else []
    parts.append((_FACE[cues.jaw], c["skin"], face))
    if p.age != "young":
        lines = _LINES if p.age == "older" else _LINES[:2]
        parts += [(s, c["shadow"], face) for s in lines]
    if cues.facial_hair == "stubble":
        parts.append((_STUBBLE[cues.jaw], c["stubble"], face))
    parts.append((_NOSE, c["shadow"], face))
    if cues.facial_hair == "beard":
        parts.append((_BEARD[cues.jaw], c["beard"], face))
    if cues.facial_hair == "moustache":
        parts.append((_MOUSTACHE, c["beard"], face))
    lips = _LIPS[cues.lips, p.expression]
    parts.append((lips[0], _lip_colour(c, cues), face))
    if len(lips) > 1:
        parts.append((lips[1], (250, 250, 248), face))
    if cues.lashes == "yes":
        parts += [(s, c["lid"], face) for s in _LID_SHADE]
    parts += [(s, c["sclera"], face) for s in _SCLERA[cues.lashes]]
    parts += [(s, c["iris"], face) for s in _IRIS]
    if cues.lashes == "yes":
        parts += [(s, c["lash"], face) for s in _LID]
    parts += [(s, c["brow"], face) for s in _BROWS[cues.brow]]
    if "mask" in p.attributes:
        tag = tags("mask", face=True)
        shades = ((150, 206, 226), (112, 172, 198), (112, 172, 198))
        parts += [(s, k, tag) for s, k in zip(_MASK, shades, strict=True)]
    if style == "covered":
        parts += [(s, scarf, plain) for s in _SCARF_FRONT]
        parts += [(s, shade(scarf, 0.8), plain) for s in _SCARF_FOLD]
    else:
        parts += [(s, hair, plain) for s in _CAPS[style]]
        if style not in ("cropped", "curly-short"):
            parts.append((_SHEEN, c["sheen"], plain))
    if hat is not None:
        tag = tags("hat")
        shapes = []
        for points, k in HATS[hat]:
            if k is None or isinstance(k, float):
                k = shade(COLOURS[hat_colour], k or 1.0)
            shapes.append((points, k, tag))
        parts += shapes
    if cues.earrings == "yes" and style != "covered":
        parts += [(s, _EARRING, plain) for s in _EARRINGS]
    d.group(parts, **head)


def _lip_colour(c, cues):
    if cues.facial_hair == "beard":
        return against(c[cues.lips], c["beard"], FEATURE_CONTRAST)
    return c[cues.lips]


def _collar_colour(kind, colour, second):
    if kind in (
        "suit",
        "waistcoat",
        "lab coat",
        "cardigan",
        "jacket",
        "overalls",
        "apron",
        "uniform",
        "vest",
    ):
        return shade(COLOURS[second], 0.86)
    own = COLOURS[colour]
    return shade(own, 0.8) if luminance(own) > 60 else mix(own, (255, 255, 255), 0.25)


def _tie_colour(kind, colour, second):
    ground = COLOURS[second] if kind in ("suit", "waistcoat", "jacket") else COLOURS[colour]
    if kind in ("suit", "waistcoat"):
        return COLOURS["red"] if colour in ("navy", "black", "tan", "green", "olive") else (150, 30, 110)
    return against(COLOURS["red"], ground, 30)


def _hands(p, tags, c, w):
    gloves = "gloves" in p.attributes
    tag = tags("gloves") if gloves else tags(None)
    r = 0.19 if gloves else 0.14
    hand = _GLOVE if gloves else c["skin"]
    shapes = [(disc(s * w * 0.9, 2.14, r, r * 1.2, 10), hand, tag) for s in (-1, 1)]
    if gloves:
        shapes += [(rect(s * w * 0.9 - 0.19, 1.9, s * w * 0.9 + 0.19, 2.02), _CUFF, tag) for s in (-1, 1)]
    return shapes


def _lower_body(p, tags, c, w, colour):
    worn, plain, skin = p.attributes, tags(None), c["skin"]
    hip, ankle = 0.6, 3.5
    out = []
    if "skirt" in worn or "dress" in worn or "shorts" in worn:
        legs, leg_tag, leg_end = skin, plain, ankle
    elif "jeans" in worn:
        legs, leg_tag, leg_end = (62, 96, 160), tags("jeans"), ankle
    elif "slacks" in worn:
        legs, leg_tag, leg_end = (176, 158, 122), tags("slacks"), ankle
    else:
        # Plain trousers: no attribute of their own.
        own = COLOURS[colour] if "suit" in worn or "uniform" in worn else (70, 72, 82)
        legs, leg_end = own, ankle
        leg_tag = tags("suit") if "suit" in worn else tags("uniform") if "uniform" in worn else plain
    wide = 0.3 if legs is not skin else 0.2
    for s in (-1, 1):
        out.append((poly(s * 0.02, 2.0, s * hip, 2.0, s * (0.32 + wide * 0.72), leg_end, s * (0.32 - wide * 0.72),
                         leg_end), legs, leg_tag))  # fmt: skip
    if "jeans" in worn:
        for s in (-1, 1):
            out.append((rect(s * 0.32 - 0.24, 3.26, s * 0.32 + 0.24, 3.42), (150, 180, 226), leg_tag))
    if "shorts" in worn:
        tag = tags("shorts")
        for s in (-1, 1):
            out.append(
                (poly(s * 0.0, 1.98, s * 0.64, 1.98, s * 0.7, 2.72, s * 0.06, 2.72), (206, 70, 60), tag)
            )
    if "skirt" in worn:
        out.append((poly(-0.58, 1.98, 0.58, 1.98, 0.96, 3.0, -0.96, 3.0), (150, 54, 130), tags("skirt")))
    if "dress" in worn:
        _, own, second, _, _ = attire_of(p)
        out.append((poly(-0.58, 1.98, 0.58, 1.98, 1.0, 3.12, -1.0, 3.12), COLOURS[own], tags("dress")))
        out.append((poly(-0.95, 2.96, 0.95, 2.96, 1.0, 3.12, -1.0, 3.12), COLOURS[second], tags("dress")))
    if "boots" in worn:
        tag = tags("boots")
        for s in (-1, 1):
            out.append((poly(s * 0.1, 2.92, s * 0.58, 2.92, s * 0.56, 3.4, s * 0.74, 3.56, s * 0.74, 3.72, s * 0.08,
                             3.72), (124, 66, 24), tag))  # fmt: skip
            out.append(
                (poly(s * 0.08, 2.92, s * 0.6, 2.92, s * 0.6, 3.04, s * 0.08, 3.04), (70, 34, 10), tag)
            )
    elif "slippers" in worn:
        tag = tags("slippers")
        for s in (-1, 1):
            out.append((disc(s * 0.44, 3.6, 0.34, 0.14), (240, 120, 170), tag))
            out.append((disc(s * 0.56, 3.55, 0.14, 0.1), (255, 220, 236), tag))
    else:
        for s in (-1, 1):
            out.append((disc(s * 0.42, 3.58, 0.28, 0.11), (40, 38, 40), plain))
    return out


def _draw_prop(d: _Drawing, index: int, p: Person, aspect: float) -> None:
    c = _face_colours(p.skin_tone, p.hair_colour, p.age)
    s = -1 if p.side == "left" else 1
    part = _Part("prop", index)
    plain = _Part("person", index)
    gloves = "gloves" in p.attributes
    if p.full_figure:
        if p.occupation is None:
            return
        size = 0.26
        x = p.x + s * 0.31
        x = min(max(x, size / 2 + 0.01), aspect - size / 2 - 0.01)
        d.add(PROPS[look(p.occupation).prop], part, size, x, 0.62, flip=s < 0)
        return
    size = 0.335
    half = size / 2
    x = p.x + s * (0.37 if aspect < 1.2 else 0.345)
    x = min(max(x, half + 0.012), aspect - half - 0.012)
    y = 1 - half - 0.03
    if p.occupation is not None:
        d.add(PROPS[look(p.occupation).prop], part, size, x, y, flip=s < 0)
    if gloves:
        tag = d.tag(_Part("person", index, False, "gloves"))
        # One hand holds the prop, the other lies before the chest; both in the frame however large the face.
        holding = x - s * (half - 0.01) if p.occupation is not None else p.x + s * 0.16
        for side, centre in ((s, holding), (-s, p.x - s * 0.17)):
            hand = [
                (disc(0, 0, 0.2, 0.22, 12), _GLOVE, tag),
                (disc(-side * 0.17, -0.05, 0.08, 0.13, 8), _GLOVE, tag),
                (rect(-0.2, 0.14, 0.2, 0.28), _CUFF, tag),
            ]
            d.group(hand, p.scale, centre, 0.86)
    elif p.occupation is not None:
        # A hand at the inner edge of the prop.
        hand = [(disc(0, 0, 0.034, 0.042, 10), c["skin"]), (disc(0, -0.03, 0.02, 0.026, 8), c["skin"])]
        d.add(hand, plain, 1.0, x - s * (half - 0.03), y + 0.09)


def _draw(scene: Scene) -> _Drawing:
    d = _Drawing()
    aspect = scene.aspect
    background = d.tag(_Part("place"))
    if scene.place not in PLACES:
        raise unknown_name("place", scene.place, PLACES)
    # Three digits of the seed move, mirror and tint the background.
    jitter = ((scene.seed >> 3) % 101) / 100 - 0.5
    flip = bool((scene.seed >> 1) & 1)
    tint = 0.94 + 0.12 * ((scene.seed >> 11) % 64) / 63
    centre = aspect / 2 + 0.1 * jitter
    place = [(points - (0.75, 0), shade(colour, tint), background) for points, colour in PLACES[scene.place]]
    d.group(place, 1.0, centre, 0.0, flip=flip)
    for i, thing in enumerate(scene.things):
        if thing.kind not in OBJECT_ART:
            raise unknown_name("object", thing.kind, OBJECT_ART)
        d.add(OBJECT_ART[thing.kind], _Part("thing", i), thing.size, thing.x, thing.y)
    if scene.decoy is not None:
        art = DECOYS.get(scene.decoy) or PROPS.get(scene.decoy)
        if art is None:
            raise unknown_name("decoy or prop", scene.decoy, [*DECOYS, *PROPS])
        x, y = aspect / 2 + 0.06 * jitter, 0.5 + 0.05 * (((scene.seed >> 17) % 101) / 100 - 0.5)
        size = 0.58 + 0.14 * ((scene.seed >> 5) % 33) / 32
        d.add([(disc(0, 0.5, 0.46, 0.06), (150, 152, 158))], _Part("place"), size, x, y)
        d.add(art, _Part("prop"), size, x, y, flip=flip)
    for i, person in enumerate(scene.people):
        _draw_person(d, i, person)
    for i, person in enumerate(scene.people):
        _draw_prop(d, i, person, aspect)
    return d


def _shape(scene: Scene, size: int) -> tuple[int, int]:
    if not isinstance(size, int | np.integer) or isinstance(size, bool) or not 8 <= size <= 4096:
        raise ParameterError(
            f"size is {size!r}; the image height is a whole number of pixels from 8 to 4096."
        )
    return int(size), round(size * scene.aspect)


def _paint(d: _Drawing, canvas: np.ndarray, size: int, values: list) -> None:
    import cv2

    points = np.concatenate(d.points)
    # OpenCV puts whole coordinates in the middle of pixels, hence the half.
    points = np.rint((points * (size * _OVER) - 0.5) * (1 << _SHIFT)).astype(np.int32)
    fill, start = cv2.fillPoly, 0
    for count, value in zip(d.counts, values, strict=True):
        end = start + count
        fill(canvas, [points[start:end]], value, 8, _SHIFT)
        start = end


def render(scene: Scene, size: int = 64) -> np.ndarray:
    """Return the image of ``scene``: uint8 RGB array (size, round(size * aspect), 3).

    Args:
        scene: What to draw.
        size: Height in pixels, 8–4096.

    Raises:
        UnknownNameError: A name in the scene has no drawing.
        ParameterError: ``size`` is not a whole number from 8 to 4096.
    """
    import cv2

    height, width = _shape(scene, size)
    d = _draw(scene)
    light = scene.light
    gain = np.array([light.red, light.green, light.blue]) * light.strength
    values = np.clip(np.array(d.colours) * gain, 0, 255).tolist()
    canvas = np.zeros((height * _OVER, width * _OVER, 3), np.uint8)
    _paint(d, canvas, height, values)
    return cv2.resize(canvas, (width, height), interpolation=cv2.INTER_AREA)


def render_many(scenes: Iterable[Scene], size: int = 64) -> np.ndarray:
    """Return the images of scenes of one aspect: uint8 RGB array (n, height, width, 3).

    Raises:
        UnknownNameError: A name in a scene has no drawing.
        ParameterError: No scenes, scenes of different widths, or a bad ``size``.
    """
    images = [render(scene, size) for scene in scenes]
    if not images:
        raise ParameterError("There are no scenes to draw: give at least one.")
    if widths := {image.shape[1] for image in images} - {images[0].shape[1]}:
        raise ParameterError(
            f"The scenes are {images[0].shape[1]} and {min(widths)} pixels wide. Draw each aspect on its own."
        )
    return np.stack(images)


def truth(scene: Scene, size: int = 64) -> Truth:
    """Return where everything in ``render(scene, size)`` is; nothing hidden counts.

    Raises:
        UnknownNameError: A name in the scene has no drawing.
        ParameterError: ``size`` is not a whole number from 8 to 4096.
    """
    height, width = _shape(scene, size)
    d = _draw(scene)
    canvas = np.zeros((height * _OVER, width * _OVER), np.uint8)
    _paint(d, canvas, height, d.tags)

    def region(name, person, chosen):
        table = np.zeros(256, np.uint8)
        table[[i for i, part in enumerate(d.parts) if chosen(part)]] = 1
        covered = table[canvas].reshape(height, _OVER, width, _OVER).sum((1, 3))
        mask = covered * 2 >= _OVER * _OVER
        rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
        if len(rows) == 0:
            return Region(name, person, (float("nan"),) * 4, mask)
        box = (float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1))
        return Region(name, person, box, mask)

    n = range(len(scene.people))
    props = [i for i in n if any(p.role == "prop" and p.owner == i for p in d.parts)]
    return Truth(
        people=tuple(region("person", i, lambda p, i=i: p.role == "person" and p.owner == i) for i in n),
        faces=tuple(
            region("face", i, lambda p, i=i: p.role == "person" and p.owner == i and p.face) for i in n
        ),
        objects=tuple(
            region(thing.kind, None, lambda p, i=i: p.role == "thing" and p.owner == i)
            for i, thing in enumerate(scene.things)
        ),
        attributes=tuple(
            region(name, i, lambda p, i=i, name=name: p.owner == i and p.attribute == name)
            for i in n
            for name in scene.people[i].attributes
        ),
        props=tuple(
            region(look(scene.people[i].occupation).prop, i, lambda p, i=i: p.role == "prop" and p.owner == i)
            for i in props
        )
        + ((region(scene.decoy, None, lambda p: p.role == "prop"),) if scene.decoy is not None else ()),
    )
