"""Skin tone of faces on the Monk scale, from the pixels inside a face's box.

How a colour is read off a face:

1. Points are laid evenly over an ellipse that takes the middle ``MIDDLE`` of the box in each direction, so that
   hair, ears and background stay out and large and small faces weigh the same.
2. The colour is the points' median in CIELAB; three times, points farther than ``NEAR`` from it (Euclidean, so
   eyes, brows, lips, beard and glasses) are put aside and the median is taken of the rest.
3. It counts where at least ``LEAST_SHARE`` of the points are near it and it can be skin: yellow to red in hue, or
   nearly grey as very light and very dark skin is. Otherwise the face has a reason instead of a tone: a mask is
   not skin.

The rule knows no lightness on purpose. Rules for skin in RGB or YCrCb that DALL-Eval's appendix compares (such as
R > 95 and R - G > 15) refuse the lightest and the darkest Monk tones outright. Tone and angle are those of
:mod:`biaslab.measures.skin_tone`.

What is seen is skin under the light of the picture. DALL-Eval takes the light out with TRUST's albedo (section
4.2.3, Table 18), a model of its own; here nothing does.

On 2,000 faces of rendered pairs of 64 pixels' height, whose light varies by 7 % in each channel and from 0.84 to 1.06
in strength, 66 % of tones are exact and 96 % within one. Without error in reading, the lit colours themselves give
69 % and 95 %. Tones 2 to 4 are told apart worst (18 to 49 % exact): a little yellow in the light moves their angle by
a tone. Tone 1 is seen 0.7 tones too dark.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from biaslab.errors import InputError
from biaslab.judging.images import ImageSource, Unreadable, check_image
from biaslab.measures.skin_tone import monk_tone, srgb_to_lab, typology_angle
from biaslab.store import Store

MIDDLE = 0.6
NEAR = 12.0
LEAST_SHARE = 0.2

_BOX = ("x0", "y0", "x1", "y1")
_ROUNDS = 3
_ACROSS = 24  # points across the ellipse
_LEAST_SIDE = 4.0
# Hue of skin in CIELAB, degrees from red (0) to yellow (90); the Monk swatches lie between 49 and 89, and light
# of other colours turns them further the greyer they are. Up to this chroma, hue says nothing.
_HUES = (0.0, 125.0)
_GREY = 12.0


def face_tones(
    images: Sequence[np.ndarray | Unreadable], boxes: np.ndarray, of: Sequence[int]
) -> pd.DataFrame:
    """Return the skin tone of faces, all at once.

    Args:
        images: ``uint8 (height, width, 3)`` RGB of any sizes; :class:`Unreadable` where there is none.
        boxes: Faces as x0, y0, x1, y1 in pixels, shape (faces, 4); NaN (one is enough) where no face is known.
            What lies beyond the image is cut off.
        of: For each face the index of its image.

    Returns:
        One row per face: tone (Monk scale, 1 light to 10 dark), angle (ITA in degrees, CIELAB), red, green, blue
        (the skin's colour, 0–255), share (0–1 of the points in the middle that it rests on), reason (empty, or
        why the numbers are missing: ``no face``, ``unreadable``, ``face too small``, ``no even colour``,
        ``not the colour of skin``; the last two keep colour and share).
    """
    boxes, of = np.asarray(boxes, float), np.asarray(of, int)
    reason = np.where(np.isnan(boxes).any(axis=1), "no face", "").astype(object)
    points = np.zeros((len(boxes), len(_PLACES), 3), np.uint8)
    for k in np.unique(of):
        here = np.flatnonzero(of == k)
        image = images[k]
        if isinstance(image, Unreadable):
            reason[here] = "unreadable"
            continue
        height, width = check_image(image, f"image {k}").shape[:2]
        low = np.clip(boxes[here, :2], 0, (width, height))
        high = np.clip(boxes[here, 2:], 0, (width, height))
        small = ((high - low) < _LEAST_SIDE).any(axis=1) & (reason[here] == "")
        reason[here[small]] = "face too small"
        use = reason[here] == ""
        here, middle, half = here[use], (low + high)[use] / 2, (high - low)[use] / 2 * MIDDLE
        at = np.floor(middle[:, None] + half[:, None] * _PLACES).astype(int)
        points[here] = image[at[..., 1], at[..., 0]]
    seen = np.flatnonzero(reason == "")
    rgb = np.full((len(boxes), 3), np.nan)
    share = np.full(len(boxes), np.nan)
    rgb[seen], share[seen] = _main_colour(points[seen].astype(float))
    lab = srgb_to_lab(rgb)
    reason[(reason == "") & (share < LEAST_SHARE)] = "no even colour"
    reason[(reason == "") & ~_may_be_skin(lab)] = "not the colour of skin"
    good = (reason == "")[:, None]
    tone, angle = monk_tone(np.where(good, rgb, np.nan)), typology_angle(np.where(good, lab, np.nan))
    colour = dict(zip(("red", "green", "blue"), rgb.T, strict=True))
    return pd.DataFrame({"tone": tone, "angle": angle, **colour, "share": share, "reason": reason})


def _ellipse() -> np.ndarray:
    """Return even places in the circle of radius 1, x and y, shape (points, 2)."""
    steps = (np.arange(_ACROSS) + 0.5) / _ACROSS * 2 - 1
    grid = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    return grid[(grid**2).sum(axis=1) <= 1]


_PLACES = _ellipse()


def _main_colour(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the colour (sRGB, (faces, 3)) that most points (faces, points, 3) are near, and their share."""
    lab = srgb_to_lab(points)
    colour = np.median(lab, axis=1)
    near = np.ones(lab.shape[:2], bool)
    for _ in range(_ROUNDS):
        near = ((lab - colour[:, None]) ** 2).sum(axis=-1) <= NEAR**2
        colour = np.where(near.any(axis=1)[:, None], _masked_median(lab, near), colour)
    # The same points' median in RGB, to show; equal to the colour but for the curve between the two.
    return _masked_median(points, near), near.mean(axis=1)


def _masked_median(values: np.ndarray, use: np.ndarray) -> np.ndarray:
    """Return the median over the points in ``use``; all points where none is."""
    use = use | ~use.any(axis=1, keepdims=True)
    ordered = np.sort(np.where(use[..., None], values, np.inf), axis=1)
    n = use.sum(axis=1)
    faces = np.arange(len(values))
    return (ordered[faces, (n - 1) // 2] + ordered[faces, n // 2]) / 2


def _may_be_skin(lab: np.ndarray) -> np.ndarray:
    hue = np.degrees(np.arctan2(lab[:, 2], lab[:, 1]))
    grey = np.hypot(lab[:, 1], lab[:, 2]) <= _GREY
    return grey | ((hue >= _HUES[0]) & (hue <= _HUES[1]))


def judge_skin_tones(
    images: ImageSource, people: pd.DataFrame, *, store: Store, progress: bool = True
) -> pd.DataFrame:
    """Return the skin tone of people whose faces are known; what was looked at before is read again.

    Args:
        images: Where the images come from.
        people: One row per person: image_id, x0, y0, x1, y1 (the face in pixels, NaN where there is none), as
            people's judges return them.

    Returns:
        image_id, position (where ``people`` has it) and the columns of :func:`face_tones`, one row per row of
        ``people`` in its order.

    Raises:
        InputError: A column is missing, or an image is not in the source's table.
    """
    for column in ("image_id", *_BOX):
        if column not in people:
            raise InputError(f"The people have no column {column!r}; give image_id and {', '.join(_BOX)}.")
    units = people[["image_id", *_BOX]].astype({"image_id": object} | dict.fromkeys(_BOX, float))
    names = [c for c in ("image_id", "position") if c in people]
    if units.empty:
        return people[names].assign(**face_tones([], np.empty((0, 4)), []))

    def look(shard: pd.DataFrame) -> pd.DataFrame:
        of, ids = pd.factorize(shard["image_id"])
        found = []
        # Few images at a time: large ones would fill the memory.
        for start in range(0, len(ids), 64):
            here = (of >= start) & (of < start + 64)
            read = images.read(list(ids[start : start + 64]))
            tones = face_tones(read, shard.loc[here, list(_BOX)], of[here] - start)
            found.append(tones.set_index(np.flatnonzero(here)))
        return pd.concat(found).sort_index()

    bar = {"label": f"skin tones of {images.name}", "unit": "faces", "progress": progress}
    stage = store.stage("skin_tones", {"images": images.digest}, look)
    tones = stage.compute(units.reset_index(drop=True), shard_rows=1024, **bar)
    return pd.concat([people[names].reset_index(drop=True), tones], axis=1)
