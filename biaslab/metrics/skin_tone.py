"""Skin tone on the Monk scale, computed from colour by the Individual Typology Angle (dalleval, section 4.2.3).

The angle is ``arctan((L* - 50) / b*)`` in degrees (Chardon et al. 1991), where L* and b* are CIELAB coordinates. The
tone of a colour is that of the swatch with the nearest angle. The paper's released script uses OpenCV's 8-bit values
instead, in which L is 0–255 and b is shifted by 128, and it swaps blue and red. This module implements both.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from biaslab.errors import InputError
from biaslab.stats.checks import check_numbers, keep_labels, one_of

# The ten swatches of the Monk Skin Tone scale, lightest first (Monk 2022, skintone.google).
MONK_SWATCHES = (
    "#f6ede4",
    "#f3e7db",
    "#f7ead0",
    "#eadaba",
    "#d7bd96",
    "#a07e56",
    "#825c43",
    "#604134",
    "#3a312a",
    "#292420",
)

COMPUTATIONS = ("cielab", "released", "released_signed")
"""Computations of the angle of a colour: by the formula; as in the paper's script with NumPy 2, in which L - 50 wraps
around below 0 because both numbers are 8-bit; and as in the script with NumPy 1, in which it does not."""

# Linear sRGB to XYZ and the D65 white (IEC 61966-2-1).
_TO_XYZ = np.array([[0.412453, 0.357580, 0.180423], [0.212671, 0.715160, 0.072169], [0.019334, 0.119193, 0.950227]])
_WHITE = np.array([0.950456, 1.0, 1.088754])


def swatch_rgb() -> NDArray[np.int64]:
    """Return the Monk swatches as sRGB values (0–255), ``int (10, 3)``, with the lightest first."""
    return np.array([[int(s[i : i + 2], 16) for i in (1, 3, 5)] for s in MONK_SWATCHES])


@keep_labels
def srgb_to_lab(rgb: ArrayLike) -> NDArray[np.float64]:
    """Return the CIELAB coordinates (L* 0–100, a*, b*; D65) of sRGB colours (0–255).

    Both arrays have the shape (..., 3); NaN stays NaN. Raises InputError: The shape is wrong, or a value is outside
    0–255.
    """
    rgb = _colours("rgb", rgb, 0, 255) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    relative = linear @ _TO_XYZ.T / _WHITE
    f = np.where(relative > (6 / 29) ** 3, np.cbrt(relative), relative / (3 * (6 / 29) ** 2) + 4 / 29)
    x, y, z = np.moveaxis(f, -1, 0)
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1)


@keep_labels
def typology_angle(lab: ArrayLike) -> NDArray[np.float64]:
    """Return the Individual Typology Angle of CIELAB colours (..., 3), in degrees (...); larger angles are lighter.

    It is ``arctan((L* - 50) / b*)`` if b* > 0, as for skin. For bluish colours, its sign is that of L* - 50. Raises
    InputError: The shape is wrong, or values are not numbers.
    """
    lab = _colours("lab", lab)
    return np.degrees(np.arctan2(lab[..., 0] - 50, lab[..., 2]))


@keep_labels
def angle_of(rgb: ArrayLike, computation: str = "cielab") -> NDArray[np.float64]:
    """Return the angle of sRGB colours by one of :data:`COMPUTATIONS`, in degrees.

    ``rgb`` is as in :func:`srgb_to_lab`. Raises InputError: As :func:`srgb_to_lab`. UnknownNameError: The computation
    is unknown.
    """
    if one_of(computation, COMPUTATIONS, "skin tone computation") == "cielab":
        return typology_angle(srgb_to_lab(rgb))
    lightness, _, b = np.moveaxis(srgb_to_lab(_colours("rgb", rgb, 0, 255)[..., ::-1]), -1, 0)
    offset = np.clip(np.rint(lightness * 255 / 100), 0, 255) - 50
    b = np.clip(np.rint(b + 128), 0, 255)
    return np.degrees(np.arctan2(np.mod(offset, 256) if computation == "released" else offset, b))


@keep_labels
def nearest_monk_tone(angle: ArrayLike) -> NDArray[np.float64]:
    """Return the Monk tone (1–10) of the swatch whose angle is nearest to ``angle`` (degrees), elementwise.

    NaN stays NaN. Raises InputError: Values are not numbers.
    """
    angle = check_numbers(angle, "angle")
    return _nearest_tone(np.abs(angle[..., None] - typology_angle(srgb_to_lab(swatch_rgb()))))


def _nearest_tone(distance: np.ndarray) -> NDArray[np.float64]:
    """Return the tone of the swatch with the smallest distance (..., swatches); NaN where a distance is missing."""
    tone = np.argmin(np.nan_to_num(distance), axis=-1) + 1.0
    return np.where(np.isnan(distance).any(axis=-1), np.nan, tone)


@keep_labels
def monk_tone(rgb: ArrayLike, computation: str = "cielab") -> NDArray[np.float64]:
    """Return the Monk tones (1–10, light to dark) of sRGB colours as floats; arguments are as in :func:`angle_of`.

    Raises InputError: As :func:`srgb_to_lab`. UnknownNameError: The computation is unknown.
    """
    return nearest_monk_tone(angle_of(rgb, computation))


@keep_labels
def nearest_swatch(rgb: ArrayLike) -> NDArray[np.float64]:
    """Return the Monk tones (1–10) whose swatches are nearest to sRGB colours in RGB space, as floats (...).

    This is a baseline of dalleval, Table 18. ``rgb`` is as in :func:`srgb_to_lab`; NaN stays NaN. Raises InputError: As
    :func:`srgb_to_lab`.
    """
    rgb = _colours("rgb", rgb, 0, 255)
    return _nearest_tone(((rgb[..., None, :] - swatch_rgb()) ** 2).sum(axis=-1))


def ycrcb_skin(image: ArrayLike) -> NDArray[np.bool_]:
    """Return which pixels of an sRGB image are classified as skin by their chroma, ``bool (height, width)``.

    This is a baseline of dalleval, Table 18: Cr is 133 to 173 and Cb is 77 to 127 (Chai & Ngan 1999).
    """
    red, green, blue = np.moveaxis(np.asarray(image, float), -1, 0)
    light = 0.299 * red + 0.587 * green + 0.114 * blue
    cr, cb = 0.713 * (red - light) + 128, 0.564 * (blue - light) + 128
    return (cr >= 133) & (cr <= 173) & (cb >= 77) & (cb <= 127)


def _colours(name: str, values: ArrayLike, low: float = -np.inf, high: float = np.inf) -> NDArray[np.float64]:
    values = check_numbers(values, name, low, high)
    if values.ndim == 0 or values.shape[-1] != 3:
        raise InputError(f"{name} has shape {values.shape}; its last axis must contain the 3 values of a colour.")
    return values
