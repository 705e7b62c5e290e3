"""Shapes: the polygons of props, hats, objects and places, read from ``drawings.yaml``.

A shape is ``(points, colour)``: a float array (n, 2) of x and y with y pointing down, and an RGB colour, a
tuple of ints 0–255. Props, objects and decoys fill a box from -0.5 to 0.5; hats are in head units (the
face is 1 high and centred on 0); a place spans x from -0.3 to 1.8 and y from 0 to 1, frame heights. Shapes
are solid and bold, because small models do not reproduce thin strokes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import yaml

Colour = tuple[int, int, int]
Shape = tuple[np.ndarray, Colour]


def poly(*points: float) -> np.ndarray:
    """Return the polygon with corners ``x0, y0, x1, y1, …``, float array (n, 2)."""
    return np.array(points, float).reshape(-1, 2)


def rect(x0: float, y0: float, x1: float, y1: float) -> np.ndarray:
    """Return a rectangle between two corners, float array (4, 2)."""
    return poly(x0, y0, x1, y0, x1, y1, x0, y1)


def disc(x: float, y: float, rx: float, ry: float | None = None, n: int = 14) -> np.ndarray:
    """Return an ellipse with centre and radii, float array (n, 2)."""
    t = np.arange(n) * (2 * np.pi / n)
    return np.stack([x + rx * np.cos(t), y + (rx if ry is None else ry) * np.sin(t)], axis=1)


def arc(x: float, y: float, rx: float, ry: float, start: float, stop: float, n: int = 10) -> np.ndarray:
    """Return a slice of an ellipse from ``start`` to ``stop`` degrees (0 right, 90 down), float array."""
    t = np.radians(np.linspace(start, stop, n))
    return np.stack([x + rx * np.cos(t), y + ry * np.sin(t)], axis=1)


def band(x, y, rx, ry, inner_rx, inner_ry, start, stop, n: int = 12) -> np.ndarray:
    """Return the region between two arcs with a common centre, float array (2 n, 2)."""
    return np.concatenate([arc(x, y, rx, ry, start, stop, n), arc(x, y, inner_rx, inner_ry, stop, start, n)])


def stroke(x0: float, y0: float, x1: float, y1: float, width: float) -> np.ndarray:
    """Return a thick straight line as a rectangle, float array (4, 2)."""
    d = np.array([y0 - y1, x1 - x0])
    d = d / max(np.hypot(*d), 1e-9) * (width / 2)
    a, b = np.array([x0, y0]), np.array([x1, y1])
    return np.stack([a + d, b + d, b - d, a - d])


def gear(r: float, teeth: int, x: float = 0.0, y: float = 0.0) -> np.ndarray:
    """Return a cogwheel with radius ``r``, float array (4 * teeth, 2)."""
    t = np.arange(teeth * 4) * (2 * np.pi / (teeth * 4)) + 0.2
    radius = np.where(np.arange(teeth * 4) % 4 < 2, r, r * 0.76)
    return np.stack([x + radius * np.cos(t), y + radius * np.sin(t)], axis=1)


def read_yaml(name: str) -> dict:
    """Return the parsed content of a YAML file of this package."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(Path(__file__).with_name(name).read_bytes(), Loader=loader)


FORMS = {form.__name__: form for form in (poly, rect, disc, arc, band, stroke, gear)}
DRAWINGS = read_yaml("drawings.yaml")
COLOURS: dict[str, Colour] = {name: tuple(rgb) for name, rgb in DRAWINGS["colours"].items()}


def _shapes(kind: str) -> dict[str, list]:
    """Return drawings of a kind by name; a hat's colour may be None (the hat's colour) or a factor that shades it."""

    def colour(value):
        return COLOURS[value] if isinstance(value, str) else tuple(value) if isinstance(value, list) else value

    return {
        name: [(FORMS[form](*numbers), colour(c)) for form, numbers, c in shapes]
        for name, shapes in DRAWINGS[kind].items()
    }


PROPS: dict[str, list[Shape]] = _shapes("props")
DECOYS: dict[str, list[Shape]] = _shapes("decoys")
OBJECT_ART: dict[str, list[Shape]] = _shapes("objects")
HATS: dict[str, list[tuple[np.ndarray, Colour | float | None]]] = _shapes("hats")
PLACES: dict[str, list[Shape]] = _shapes("places")
