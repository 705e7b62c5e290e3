"""Draw a scene, and return the location of everything in it.

A scene becomes one list of coloured polygons. Painting them in order gives the image; painting the index of
each polygon's part instead gives the ground truth, so the two cannot disagree. Both are drawn at twice the size.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from biaslab.errors import ParameterError
from biaslab.metrics.skin_tone import swatch_rgb
from biaslab_world.art import COLOURS, DECOYS, DRAWINGS, FORMS, HATS, OBJECT_ART, PLACES, PROPS, arc, disc, poly, rect
from biaslab_world.looks import ATTIRES, outfit
from biaslab_world.scene import Person, Scene, Thing, attire_of

_SHIFT = 5  # fractional bits of the coordinates handed to OpenCV
_OVER = 2  # supersampling
SKIN: tuple[tuple[int, int, int], ...] = tuple(tuple(int(v) for v in c) for c in swatch_rgb())

# Minimum difference of luminance (0–255) between a feature and the skin around it, before the light is applied.
FEATURE_CONTRAST = 34
SHADE_CONTRAST = 18

_HAIR = {
    "black": (32, 26, 26),
    "dark brown": (66, 44, 32),
    "brown": (112, 74, 46),
    "auburn": (146, 70, 36),
    "blond": (222, 184, 104),
}
_GREY_SHARE = {"young": 0.0, "middle-aged": 0.2, "older": 0.85}
_GREY = (192, 188, 184)
_EARRING = (24, 176, 206)
_GLOVE, _CUFF = (236, 110, 30), (170, 66, 10)


@dataclass(frozen=True, slots=True)
class Region:
    """Visible region of one thing in an image."""

    name: str  # kind: ``person``, ``face``, an object's kind, an attribute or a prop
    person: int | None  # index in ``Scene.people`` of the person to whom it belongs, or ``None``
    box: tuple[float, float, float, float]  # left, top, right, bottom of the visible pixels; NaN if none is visible
    mask: np.ndarray  # visible pixels, bool array (height, width): at least half of a pixel is this thing


@dataclass(frozen=True, slots=True)
class Truth:
    """Regions of everything in an image."""

    people: tuple[Region, ...]  # one region per person, without the prop, in the order of ``Scene.people``
    faces: tuple[Region, ...]  # one region per person: skin and features from chin to hairline, with ears and mask
    objects: tuple[Region, ...]  # one region per entry of ``Scene.things``
    attributes: tuple[Region, ...]  # one region per person and attribute worn
    props: tuple[Region, ...]  # one region per prop, or the decoy


class _Part(NamedTuple):
    """Owner of a polygon, and the regions to which it belongs."""

    role: str  # ``place``, ``thing``, ``person`` or ``prop``
    owner: int | None = None
    face: bool = False
    attribute: str | None = None


class _Drawing:
    """The polygons of a scene in the order of painting: points in frame heights, a colour and a part each."""

    def __init__(self):
        self.points, self.counts, self.colours, self.parts = [], [], [], []

    def add(self, layers, scale, x, y, *, tilt=0.0, flip=False):
        """Add layers, ``(polygons, colour, part)``, after scaling, mirroring, rotating and moving them."""
        shapes = [(points, colour, part) for polygons, colour, part in layers for points in polygons]
        if not shapes:
            return
        points = np.concatenate([s[0] for s in shapes]) * ((-scale if flip else scale), scale)
        if tilt:
            c, s = np.cos(tilt), np.sin(tilt)
            # Rotate around the chin, where the head meets the neck.
            points = (points - (0, 0.5 * scale)) @ np.array([[c, s], [-s, c]]) + (0, 0.5 * scale)
        self.points.append(points + np.array((x, y)))
        for p, colour, part in shapes:
            self.counts.append(len(p))
            self.colours.append(colour)
            self.parts.append(part)


def _as_layers(part: _Part, art) -> list:
    """Return shapes as layers of one part."""
    return [([points], colour, part) for points, colour in art]


def _object_layers(thing: Thing, index: int) -> list:
    """Return an object's layers with its palette, width and tilt."""
    c, s = np.cos(thing.tilt), np.sin(thing.tilt)
    # Mirroring follows, so the object tilts to the right in either case.
    turned = np.array([[c, -s], [s, c]] if thing.mirrored else [[c, s], [-s, c]])
    art = [
        (points * (thing.width, 1) @ turned, colour[thing.palette :] + colour[: thing.palette])
        for points, colour in (OBJECT_ART.get(thing.kind) or PROPS[thing.kind])
    ]
    return _as_layers(_Part("thing", index), art)


def luminance(colour) -> float:
    """Return the luminance of an RGB colour, 0–255 (Rec. 601 weights)."""
    return 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2]


def shade(colour, factor: float) -> tuple[int, int, int]:
    """Return a darker (``factor`` < 1) or lighter (> 1) RGB colour, each channel 0–255."""
    return tuple(min(255, int(c * factor)) for c in colour)


def mix(a, b, share: float) -> tuple[int, int, int]:
    """Return ``a`` with the given share of ``b``, both RGB."""
    return tuple(int(p + (q - p) * share) for p, q in zip(a, b, strict=True))


def against(colour, ground, contrast: float) -> tuple[int, int, int]:
    """Return ``colour``, or its nearest shade that differs from ``ground`` by ``contrast`` in luminance.

    The shade is darker where the ground is light enough, and lighter elsewhere. Features are therefore
    equally legible on every skin tone.
    """
    y_colour, y_ground = luminance(colour), luminance(ground)
    if abs(y_colour - y_ground) >= contrast:
        return colour
    if y_ground - contrast >= 8 and (y_colour <= y_ground or y_ground + contrast > 235):
        return shade(colour, (y_ground - contrast) / max(y_colour, 1.0))
    y_target = y_ground + contrast
    target = (236, 196, 166)
    if y_target > luminance(target) - 20:
        target = (255, 255, 255)
    return mix(colour, target, min(1.0, (y_target + 1 - y_colour) / max(luminance(target) - y_colour, 1.0)))


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
    low = outline[outline[:, 1] > 0.1]
    low = low[np.argsort(-low[:, 0])]
    # The outline runs from the right cheek around the chin to the left cheek and back under the nose.
    right, left = low[0, 0], low[-1, 0]
    inner = poly(left * 0.8, 0.2, left * 0.62, 0.27, -0.2, 0.2, 0.0, 0.175, 0.2, 0.2, right * 0.62, 0.27, right * 0.8,
                 0.2)  # fmt: skip
    return np.concatenate([low, inner])


_BEARD = {jaw: _beard(jaw, 0.035) for jaw in _JAW}
_STUBBLE = {jaw: _beard(jaw, 0.0) for jaw in _JAW}


def _mirror(*corners: float) -> list[np.ndarray]:
    """Return a polygon on the right and its mirror image, left first."""
    return [poly(*corners) * (side, 1) for side in (-1, 1)]


def _discs(x: float, y: float, rx: float, ry: float | None = None, n: int = 14) -> list[np.ndarray]:
    """Return two ellipses at the same distance to the left and the right of the centre."""
    return [disc(side * x, y, rx, ry, n) for side in (-1, 1)]


def _polygons(form: str, *numbers: float) -> list[np.ndarray]:
    mirrored = {"twice": _mirror, "discs": _discs}
    return mirrored[form](*numbers) if form in mirrored else [FORMS[form](*numbers)]


_PERSON = {
    name: [points for shape in shapes for points in _polygons(*shape)] for name, shapes in DRAWINGS["person"].items()
}


def _brows(half: float) -> list[np.ndarray]:
    return _mirror(0.06, -0.165 - half, 0.18, -0.195 - half, 0.285, -0.165 - half * 0.6, 0.28, -0.15 + half * 0.5,
                  0.18, -0.175 + half, 0.06, -0.155 + half)  # fmt: skip


_BROWS = {"thin": _brows(0.012), "medium": _brows(0.028), "thick": _brows(0.05)}


def _cap(rise: float, side: float, down: float, line: tuple[float, ...]) -> np.ndarray:
    # The outline runs from the right temple over the crown to the left temple and back along the hairline.
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
    outside, inside = np.stack([outer, y], axis=1), np.stack([inner, y], axis=1)
    return np.concatenate([outside, inside[::-1]]) * (side, 1)


_LOCKS = {
    "long-straight": [_lock(-1, 0.0), _lock(1, 0.0)],
    "long-wavy": [_lock(-1, 0.06), _lock(1, 0.06)],
    "bob": _PERSON["bob locks"],
}
_CROWN = arc(0, -0.06, 0.5, 0.58, 0, -180, 15)
_SCARF_BACK = [np.concatenate([_CROWN, poly(-0.54, 0.4, -0.66, 0.95, 0.66, 0.95, 0.54, 0.4)])]
_SCARF_FRONT = [np.concatenate([_CROWN, arc(0, 0.0, 0.36, 0.3, 180, 360, 13)]), *_PERSON["scarf chin"]]


@cache
def _torso(shoulders: str, full: bool) -> np.ndarray:
    w = _SHOULDER[shoulders]
    if full:
        w *= 0.82
        half = [0.2, 0.62, 0.3, 0.68, w * 0.84, 0.80, w, 0.98, w * 1.05, 1.5, w * 1.02, 2.05, w * 0.76, 2.05,
                w * 0.72, 1.3, w * 0.66, 1.5, 0.6, 2.1]  # fmt: skip
    else:
        half = [0.2, 0.62, 0.3, 0.7, w * 0.82, 0.84, w * 0.98, 1.06, w * 1.06, 1.7, w * 1.04, 2.6]
    right = poly(*half)
    return np.concatenate([right, right[::-1] * (-1, 1)])


_LONG = 2.6
_FULL_BODY = 0.78
# Attire with a collar of the second colour.
_SECOND_COLLAR = ("suit", "waistcoat", "lab coat", "cardigan", "jacket", "overalls", "apron", "uniform", "vest")
# Attire with the second colour visible beneath.
_OVER_SECOND = ("apron", "overalls", "vest", "waistcoat")


def _attire(
    kind: str, own_colour, second_colour, w: float, bottom: float, neckline: str
) -> list[tuple[list[np.ndarray], tuple]]:
    """Return the layers over the plain torso: polygons of one colour each, the lowest first.

    ``own_colour`` is the attire's main colour and ``second_colour`` that of its details; ``w`` is half of the width of
    the shoulders, and the torso ends at ``bottom``.
    """
    colours = COLOURS | {
        "own": own_colour,
        "other": second_colour,
        "dark": mix(own_colour, (255, 255, 255), 0.2) if luminance(own_colour) < 60 else shade(own_colour, 0.72),
        "light": mix(own_colour, (255, 255, 255), 0.35),
        "mixed": mix(own_colour, second_colour, 0.7),
        "shaded": shade(second_colour, 0.86),
        "reflective": (226, 230, 236),
    }
    forms = {
        "collar": lambda: _PERSON[f"collar {neckline}"],
        "band": lambda: _PERSON["band"],
        "column": lambda x: [rect(x - 0.1, 0.86, x + 0.1, bottom)] if abs(x) < w else [],
    }

    def to_length(value):
        return value if not isinstance(value, str) else bottom if value == "b" else w * float(value[:-1])

    def shapes(form: str, *numbers) -> list[np.ndarray]:
        return forms.get(form, partial(_polygons, form))(*map(to_length, numbers))

    layers = DRAWINGS["attires"].get(kind) or DRAWINGS["attires"]["dress"]
    return [([points for shape in polygons for points in shapes(*shape)], colours[name]) for name, *polygons in layers]


@cache
def _face_colours(tone: int, hair: str, age: str) -> dict:
    skin, grey = SKIN[tone - 1], _GREY_SHARE[age]
    dark = luminance(skin) < 60
    lips = (206, 128, 112) if dark else mix(skin, (150, 62, 52), 0.45)
    strand = against(mix(_HAIR[hair], _GREY, grey), skin, FEATURE_CONTRAST)
    return {
        "skin": skin,
        "hair": strand,
        "beard": strand,
        "brow": against(mix(_HAIR[hair], _GREY, grey * 0.6), skin, FEATURE_CONTRAST + 12),
        "shadow": against(shade(skin, 1.6 if dark else 0.86), skin, SHADE_CONTRAST),
        "natural": against(lips, skin, FEATURE_CONTRAST),
        "tinted": against((214, 44, 72), skin, FEATURE_CONTRAST),
        "lid": against((128, 84, 128), skin, FEATURE_CONTRAST),
        "stubble": against(mix(skin, strand, 0.3), skin, SHADE_CONTRAST + 4),
        "sheen": mix(strand, (255, 255, 255), 0.16),
        "lash": (8, 6, 8) if dark else (20, 16, 20),
    }


_SCARVES = ("teal", "purple", "blue", "maroon", "olive")
_SCLERA_WHITE, _IRIS_DARK, _TEETH = (246, 246, 244), (36, 26, 24), (250, 250, 248)
_MASK_COLOURS = ((150, 206, 226), (112, 172, 198), (112, 172, 198))


def _draw_person(d: _Drawing, index: int, p: Person) -> None:
    scarf = COLOURS[_SCARVES[int(p.variant * 97) % len(_SCARVES)]]
    hat = attire_of(p)[3]
    hair = _face_colours(p.skin_tone, p.hair_colour, p.age)["hair"]
    head = {"scale": p.scale, "x": p.x, "y": p.y, "tilt": p.tilt}
    hair_behind, colour = _PERSON.get(f"behind {p.cues.hair_style}", ()), hair
    if p.cues.hair_style == "covered":
        hair_behind, colour = _SCARF_BACK, shade(scarf, 0.8)
    elif p.cues.hair_style == "bun" and hat is not None:
        hair_behind = _PERSON["bun under hat"]
    d.add([(hair_behind, colour, _Part("person", index))], **head)
    # A full figure has a larger head relative to its body, so that the face stays legible; both meet at the chin.
    ratio = _FULL_BODY if p.full_figure else 1.0
    d.add(_body(p, index), p.scale * ratio, p.x, p.y + 0.5 * p.scale * (1 - ratio))
    d.add(_head(p, index, scarf), **head)


def _body(p: Person, index: int) -> list:
    """Return the layers of a person below the chin."""
    cues, c, full = p.cues, _face_colours(p.skin_tone, p.hair_colour, p.age), p.full_figure
    plain = _Part("person", index)

    def worn(attribute: str | None) -> _Part:
        return plain._replace(attribute=attribute) if attribute in p.attributes else plain

    kind, colour, second_name, _, _ = attire_of(p)
    own_colour, second_colour = COLOURS[colour], COLOURS[second_name]
    w, bottom = _SHOULDER[cues.shoulders] * (0.82 if full else 1.0), 2.12 if full else _LONG
    attire_part = worn("uniform" if kind == "coat" else next(iter(ATTIRES[kind]), None))
    attire = _attire(kind, own_colour, second_colour, w, bottom, cues.neckline)
    attire_layers = [(*layer, attire_part) for layer in attire]
    if kind in ("suit", "jacket"):
        attire_layers[0] = (*attire_layers[0][:2], worn("shirt"))
    elif kind == "waistcoat":
        attire_layers[0], attire_layers[2] = (*attire_layers[0][:2], plain), (*attire_layers[2][:2], plain)
    if full:
        attire_layers = [([s for s in shapes if s[:, 1].min() < 1.9], *style) for shapes, *style in attire_layers]
    layers = _lower_body(p, worn, own_colour, second_colour) if full else []
    layers += [
        ([_torso(cues.shoulders, full)], second_colour if kind in _OVER_SECOND else own_colour, attire_part),
        *attire_layers,
    ]
    layers.append((_PERSON["neck"], c["skin"], plain))
    if cues.neckline == "open":
        layers.append((_PERSON["opening"], c["skin"], plain))
    else:
        if kind in _SECOND_COLLAR:
            band = shade(second_colour, 0.86)
        else:
            band = shade(own_colour, 0.8) if luminance(own_colour) > 60 else mix(own_colour, (255, 255, 255), 0.25)
        same_part = kind in ("shirt", "checked", "uniform", "scrubs", "dress")
        layers.append((_PERSON["band"], band, attire_part if same_part else plain))
    layers.append((_PERSON["neck shade"], c["shadow"], plain))
    if "tie" in p.attributes:
        if kind in ("suit", "waistcoat"):
            tie = COLOURS["red"] if colour in ("navy", "black", "tan", "green", "olive") else (150, 30, 110)
        else:
            tie = against(COLOURS["red"], second_colour if kind == "jacket" else own_colour, 30)
        knot, blade = (points + np.array((0, 0.26 if cues.neckline == "open" else 0)) for points in _PERSON["tie"])
        layers += [([knot], shade(tie, 0.8), worn("tie")), ([blade], tie, worn("tie"))]
    if full:
        hands = worn("gloves")
        r, colour = (0.19, _GLOVE) if hands.attribute else (0.14, c["skin"])
        layers.append((_discs(w * 0.9, 2.14, r, r * 1.2, 10), colour, hands))
        if hands.attribute:
            cuffs = [rect(s * w * 0.9 - 0.19, 1.9, s * w * 0.9 + 0.19, 2.02) for s in (-1, 1)]
            layers.append((cuffs, _CUFF, hands))
    return layers


def _lower_body(p: Person, worn, own_colour, second_colour) -> list:
    """Return the layers below the waist of a person with attire of these colours."""
    attributes = p.attributes
    skin = SKIN[p.skin_tone - 1]
    wide = 0.3
    if "skirt" in attributes or "dress" in attributes or "shorts" in attributes:
        legs, part, wide = skin, worn(None), 0.2
    elif "jeans" in attributes:
        legs, part = (62, 96, 160), worn("jeans")
    elif "slacks" in attributes:
        legs, part = (176, 158, 122), worn("slacks")
    else:
        # Plain trousers have no attribute.
        part = worn("suit" if "suit" in attributes else "uniform")
        legs = own_colour if part.attribute else (70, 72, 82)
    outer, inner = 0.32 + wide * 0.72, 0.32 - wide * 0.72
    layers = [(_mirror(0.02, 2.0, 0.6, 2.0, outer, 3.5, inner, 3.5), legs, part)]
    if "jeans" in attributes:
        cuffs = [rect(s * 0.32 - 0.24, 3.26, s * 0.32 + 0.24, 3.42) for s in (-1, 1)]
        layers.append((cuffs, (150, 180, 226), part))
    if "shorts" in attributes:
        layers.append((_mirror(0.0, 1.98, 0.64, 1.98, 0.7, 2.72, 0.06, 2.72), (206, 70, 60), worn("shorts")))
    if "skirt" in attributes:
        layers.append(([poly(-0.58, 1.98, 0.58, 1.98, 0.96, 3.0, -0.96, 3.0)], (150, 54, 130), worn("skirt")))
    if "dress" in attributes:
        layers.append(([poly(-0.58, 1.98, 0.58, 1.98, 1.0, 3.12, -1.0, 3.12)], own_colour, worn("dress")))
        layers.append(([poly(-0.95, 2.96, 0.95, 2.96, 1.0, 3.12, -1.0, 3.12)], second_colour, worn("dress")))
    if "boots" in attributes:
        boots = _mirror(0.1, 2.92, 0.58, 2.92, 0.56, 3.4, 0.74, 3.56, 0.74, 3.72, 0.08, 3.72)
        layers.append((boots, (124, 66, 24), worn("boots")))
        layers.append((_mirror(0.08, 2.92, 0.6, 2.92, 0.6, 3.04, 0.08, 3.04), (70, 34, 10), worn("boots")))
    elif "slippers" in attributes:
        layers.append((_discs(0.44, 3.6, 0.34, 0.14), (240, 120, 170), worn("slippers")))
        layers.append((_discs(0.56, 3.55, 0.14, 0.1), (255, 220, 236), worn("slippers")))
    else:
        layers.append((_discs(0.42, 3.58, 0.28, 0.11), (40, 38, 40), worn(None)))
    return layers


def _head(p: Person, index: int, scarf) -> list:
    """Return the layers of a head, the lowest first."""
    cues, c = p.cues, _face_colours(p.skin_tone, p.hair_colour, p.age)
    style, hair = cues.hair_style, c["hair"]
    plain, face = _Part("person", index), _Part("person", index, face=True)
    lines = {"young": 0, "middle-aged": 2, "older": len(_PERSON["lines"])}[p.age]
    locks = (_LOCKS.get(style, ()), hair, plain)
    ears = (() if style == "covered" else _PERSON["ears"], c["skin"], face)
    # Only with a bob are the ears drawn over the locks.
    layers = [locks, ears] if style == "bob" else [ears, locks]
    layers += [([_FACE[cues.jaw]], c["skin"], face), (_PERSON["lines"][:lines], c["shadow"], face)]
    if cues.facial_hair == "stubble":
        layers.append(([_STUBBLE[cues.jaw]], c["stubble"], face))
    layers.append((_PERSON["nose"], c["shadow"], face))
    lips, (mouth, *teeth) = c[cues.lips], _PERSON[f"{cues.lips} {p.expression}"]
    if cues.facial_hair == "beard":
        layers.append(([_BEARD[cues.jaw]], c["beard"], face))
        lips = against(lips, c["beard"], FEATURE_CONTRAST)
    elif cues.facial_hair == "moustache":
        layers.append((_PERSON["moustache"], c["beard"], face))
    has_lashes = cues.lashes == "yes"
    layers += [
        ([mouth], lips, face),
        (teeth, _TEETH, face),
        (_PERSON["lid shade"] if has_lashes else (), c["lid"], face),
        (_PERSON[f"sclera {cues.lashes}"], _SCLERA_WHITE, face),
        (_PERSON["iris"], _IRIS_DARK, face),
        (_PERSON["lid"] if has_lashes else (), c["lash"], face),
        (_BROWS[cues.brow], c["brow"], face),
    ]
    if "mask" in p.attributes:
        part = face._replace(attribute="mask")
        layers += [([points], colour, part) for points, colour in zip(_PERSON["mask"], _MASK_COLOURS, strict=True)]
    if style == "covered":
        layers += [(_SCARF_FRONT, scarf, plain), (_PERSON["scarf fold"], shade(scarf, 0.8), plain)]
    else:
        layers.append((_CAPS[style], hair, plain))
        if style not in ("cropped", "curly-short"):
            layers.append((_PERSON["sheen"], c["sheen"], plain))
    _, _, _, hat, hat_colour = attire_of(p)
    if hat is not None:
        part = plain._replace(attribute="hat" if "hat" in p.attributes else None)
        for points, colour in HATS[hat]:
            if colour is None or isinstance(colour, float):
                colour = shade(COLOURS[hat_colour], colour or 1.0)
            layers.append(([points], colour, part))
    if cues.earrings == "yes" and style != "covered":
        layers.append((_PERSON["earrings"], _EARRING, plain))
    return layers


def _draw_prop(d: _Drawing, index: int, p: Person, aspect: float) -> None:
    s = -1 if p.side == "left" else 1
    size, y, offset, margin = 0.335, 1 - 0.335 / 2 - 0.03, 0.37 if aspect < 1.2 else 0.345, 0.012
    if p.full_figure:
        size, y, offset, margin = 0.26, 0.62, 0.31, 0.01
    half = size / 2
    x = min(max(p.x + s * offset, half + margin), aspect - half - margin)
    if p.occupation is not None:
        d.add(_as_layers(_Part("prop", index), PROPS[outfit(p.occupation).prop]), size, x, y, flip=s < 0)
    if p.full_figure:
        return
    if "gloves" in p.attributes:
        part = _Part("person", index, attribute="gloves")
        # One hand holds the prop and the other is in front of the chest; both are in the frame for any face size.
        holding = x - s * (half - 0.01) if p.occupation is not None else p.x + s * 0.16
        for side, centre in ((s, holding), (-s, p.x - s * 0.17)):
            hand = [disc(0, 0, 0.2, 0.22, 12), disc(-side * 0.17, -0.05, 0.08, 0.13, 8)]
            cuff = [rect(-0.2, 0.14, 0.2, 0.28)]
            d.add([(hand, _GLOVE, part), (cuff, _CUFF, part)], p.scale, centre, 0.86)
    elif p.occupation is not None:
        # A hand at the inner edge of the prop.
        hand = [disc(0, 0, 0.034, 0.042, 10), disc(0, -0.03, 0.02, 0.026, 8)]
        layer = (hand, SKIN[p.skin_tone - 1], _Part("person", index))
        d.add([layer], 1.0, x - s * (half - 0.03), y + 0.09)


def _draw(scene: Scene) -> _Drawing:
    d = _Drawing()
    aspect = scene.aspect
    # Three parts of the seed move, mirror and tint the background.
    jitter = ((scene.seed >> 3) % 101) / 100 - 0.5
    flip = bool((scene.seed >> 1) & 1)
    tint = 0.94 + 0.12 * ((scene.seed >> 11) % 64) / 63
    place = [(points - (0.75, 0), shade(colour, tint)) for points, colour in PLACES[scene.place]]
    d.add(_as_layers(_Part("place"), place), 1.0, aspect / 2 + 0.1 * jitter, 0.0, flip=flip)
    for i, thing in enumerate(scene.things):
        d.add(_object_layers(thing, i), thing.size, thing.x, thing.y, flip=thing.mirrored)
    if scene.decoy is not None:
        art = DECOYS.get(scene.decoy) or PROPS.get(scene.decoy)
        x, y = aspect / 2 + 0.06 * jitter, 0.5 + 0.05 * (((scene.seed >> 17) % 101) / 100 - 0.5)
        size = 0.58 + 0.14 * ((scene.seed >> 5) % 33) / 32
        d.add([([disc(0, 0.5, 0.46, 0.06)], (150, 152, 158), _Part("place"))], size, x, y)
        d.add(_as_layers(_Part("prop"), art), size, x, y, flip=flip)
    for i, person in enumerate(scene.people):
        _draw_person(d, i, person)
    for i, person in enumerate(scene.people):
        _draw_prop(d, i, person, aspect)
    return d


def _canvas(scene: Scene, size: int, *channels: int) -> np.ndarray:
    """Return an empty canvas at twice the size."""
    if not isinstance(size, int | np.integer) or isinstance(size, bool) or not 8 <= size <= 4096:
        raise ParameterError(f"size is {size!r}; the image height must be a whole number of pixels from 8 to 4,096.")
    return np.zeros((size * _OVER, round(size * scene.aspect) * _OVER, *channels), np.uint8)


def _paint(d: _Drawing, canvas: np.ndarray, values: list) -> None:
    """Paint each polygon with its value."""
    import cv2

    # OpenCV places integer coordinates at pixel centres, hence the half.
    points = (np.concatenate(d.points) * len(canvas) - 0.5) * (1 << _SHIFT)
    points = np.rint(points).astype(np.int32)
    fill, start = cv2.fillPoly, 0
    for count, value in zip(d.counts, values, strict=True):
        fill(canvas, [points[start : start + count]], value, 8, _SHIFT)
        start += count


def render(scene: Scene, size: int = 64) -> np.ndarray:
    """Return the image of ``scene``: uint8 RGB array (size, round(size * aspect), 3).

    Raises ParameterError (``size`` is not a whole number from 8 to 4096).
    """
    import cv2

    canvas, d, light = _canvas(scene, size, 3), _draw(scene), scene.light
    gain = np.array([light.red, light.green, light.blue]) * light.strength
    _paint(d, canvas, np.clip(np.array(d.colours) * gain, 0, 255).tolist())
    height, width, _ = canvas.shape
    return cv2.resize(canvas, (width // _OVER, height // _OVER), interpolation=cv2.INTER_AREA)


def truth(scene: Scene, size: int = 64) -> Truth:
    """Return the visible regions of everything in ``render(scene, size)``. Raises like ``render``."""
    canvas, d = _canvas(scene, size), _draw(scene)
    numbers = {part: i for i, part in enumerate(dict.fromkeys(d.parts))}
    _paint(d, canvas, [numbers[part] for part in d.parts])
    height, width = canvas.shape
    blocks = height // _OVER, _OVER, width // _OVER, _OVER

    def region(name: str, person: int | None, **fields) -> Region:
        table = np.zeros(256, np.uint8)
        for part, i in numbers.items():
            table[i] = all(getattr(part, field) == value for field, value in fields.items())
        mask = table[canvas].reshape(blocks).sum((1, 3)) * 2 >= _OVER * _OVER
        rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
        box = (float("nan"),) * 4
        if len(rows):
            box = (float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1))
        return Region(name, person, box, mask)

    people = list(enumerate(scene.people))
    at_work = [(i, outfit(p.occupation)) for i, p in people if p.occupation is not None]
    props = [region(look.prop, i, role="prop", owner=i) for i, look in at_work]
    if scene.decoy is not None:
        props.append(region(scene.decoy, None, role="prop"))
    return Truth(
        people=tuple(region("person", i, role="person", owner=i) for i, _ in people),
        faces=tuple(region("face", i, role="person", owner=i, face=True) for i, _ in people),
        objects=tuple(region(t.kind, None, role="thing", owner=i) for i, t in enumerate(scene.things)),
        attributes=tuple(
            region(name, i, owner=i, attribute=name) for i, person in people for name in person.attributes
        ),
        props=tuple(props),
    )
