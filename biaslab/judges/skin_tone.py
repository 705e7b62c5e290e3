"""Skin tone of faces on the Monk scale, from the pixels inside a face's box, or by a judge of another package.

Points are spread evenly over an ellipse in the middle of the box. In a drawing, whose skin is one even colour, the
colour is the median in CIELAB of the points near it; in a photograph, the median of the skin-coloured points.

No rule uses lightness, on purpose: rules in RGB or YCrCb that DALL-Eval's appendix compares (such as R > 95) reject the
lightest and the darkest Monk tones. The result is the skin under the light of the image; DALL-Eval removes the light
with TRUST's albedo (section 4.2.3, Table 18), a separate model.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from biaslab.cache.result_cache import ResultCache
from biaslab.hub import registry as hub
from biaslab.hub.image_sources import ImageSource, UnreadableImage, check_image, domain_of
from biaslab.judges.judge import Judge, People
from biaslab.judges.judge_labels import LEFT_OUT, NOT_READ, PIXELS, TONE_BY_PIXELS
from biaslab.judges.people import add_parts, cut_out
from biaslab.metrics.skin_tone import monk_tone, srgb_to_lab, typology_angle, ycrcb_skin

MIDDLE = 0.6
"""Size of the ellipse as a fraction of the box's sides: it excludes hair, ears and background."""
MAX_COLOUR_DISTANCE = 12.0
"""Drawings: maximum distance in CIELAB of a point from the skin's colour; it excludes eyes, brows, lips and beard."""
MIN_SHARE = 0.2
"""Drawings: minimum share of points near one colour."""
MIN_SKIN = 0.5
"""Photographs: minimum share of skin-coloured points in each half of the face; fewer indicate a mask."""
MAX_TONE_DIFFERENCE = 2
"""Photographs: maximum difference in tones between two halves of a face; more indicates mixed light."""
MIN_SIDE = {hub.DRAWINGS: 4.0, hub.PHOTOGRAPHS: 12.0}
"""Minimum width and height of a face in pixels. Of 55 faces of photographs of 40 to 72 px, reduced in size, none gains
or loses its tone at 12 px, 9 do at 4 px; 87 and 61% of their tones stay the same, all within one."""

_IMAGES_AT_ONCE = 64
_BOX, _PART = ("x0", "y0", "x1", "y1"), ("first", "last")
_ROUNDS = 3
_POINTS_ACROSS = 24  # points across the ellipse
# Hue of skin in CIELAB, degrees from red (0) to yellow (90); the Monk swatches are between 49 and 89, and coloured
# light shifts greyer ones further. Up to the chroma _GREY, the hue of drawings is ignored.
_HUES = (0.0, 125.0)
_GREY = 12.0
# Photographs. Saturation, chroma / (L* + 16), is invariant to shade; the swatches have 0.05 (tone 1) to 0.41 (tone 7),
# and a chroma of 3.8 (tone 10) to 28 (tone 6).
_SKIN_HUES = (15.0, 100.0)
_LEAST_SATURATION = 0.03
_MOST_CHROMA = 40.0
# Points examined in the whole image, across and down.
_GRID = 48


def face_tones(
    images: Sequence[np.ndarray | UnreadableImage],
    boxes: np.ndarray,
    image_indices: Sequence[int],
    image_domain: str = hub.PHOTOGRAPHS,
) -> pd.DataFrame:
    """Return the skin tone of faces by their pixels, all at once.

    Args:
        images: ``uint8 (height, width, 3)`` RGB of any sizes; :class:`UnreadableImage` for unreadable ones.
        boxes: Faces as x0, y0, x1, y1 in pixels, (faces, 4); NaN without a face. They are clipped to the image.
        image_indices: The index of the image of each face.
        image_domain: The domain of the images: ``photographs`` or ``drawings``.

    Returns one row per face: tone (Monk scale, 1 light to 10 dark), angle (ITA in degrees, CIELAB), red, green, blue
    (the skin's colour, 0–255), share (0–1 of the points on which it is based), reason (empty, or ``no face``,
    ``unreadable``, ``face too small``, ``no colour``, ``not the colour of skin``; for drawings ``no even colour``; for
    photographs ``coloured light``, ``mixed light``). Colour and share are present wherever points were examined.
    """
    boxes, image_indices = np.asarray(boxes, float), np.asarray(image_indices, int)
    reason = np.where(np.isnan(boxes).any(axis=1), "no face", "").astype(object)
    points, is_sampled = np.zeros((len(boxes), len(_PLACES), 3), np.uint8), np.zeros(len(boxes), bool)
    for k in np.unique(image_indices):
        face_rows = np.flatnonzero(image_indices == k)
        image = images[k]
        if isinstance(image, UnreadableImage):
            reason[face_rows] = _unread_reason(image)
            continue
        height, width = check_image(image, f"image {k}").shape[:2]
        low = np.clip(boxes[face_rows, :2], 0, (width, height))
        high = np.clip(boxes[face_rows, 2:], 0, (width, height))
        is_small = ((high - low) < MIN_SIDE[image_domain]).any(axis=1) & (reason[face_rows] == "")
        reason[face_rows[is_small]] = "face too small"
        is_usable = reason[face_rows] == ""
        face_rows, middle, half = face_rows[is_usable], (low + high)[is_usable] / 2, (high - low)[is_usable] / 2
        positions = np.floor(middle[:, None] + half[:, None] * MIDDLE * _PLACES).astype(int)
        points[face_rows], is_sampled[face_rows] = image[positions[..., 1], positions[..., 0]], True
        if len(face_rows):
            reason[face_rows] = _check_light(image, middle, half, points[face_rows], image_domain)
    rgb = np.full((len(boxes), 3), np.nan)
    share = np.full(len(boxes), np.nan)
    summarize = _summarize_drawings if image_domain == hub.DRAWINGS else _summarize_photographs
    rgb[is_sampled], share[is_sampled], color_reasons = summarize(points[is_sampled].astype(float))
    reason[is_sampled] = np.where(reason[is_sampled] == "", color_reasons, reason[is_sampled])
    lab = srgb_to_lab(rgb)
    is_valid = (reason == "")[:, None]
    tone, angle = monk_tone(np.where(is_valid, rgb, np.nan)), typology_angle(np.where(is_valid, lab, np.nan))
    colour = dict(zip(("red", "green", "blue"), rgb.T, strict=True))
    return pd.DataFrame({"tone": tone, "angle": angle, **colour, "share": share, "reason": reason})


# Even places in the circle of radius 1, x and y, (points, 2).
_STEPS = (np.arange(_POINTS_ACROSS) + 0.5) / _POINTS_ACROSS * 2 - 1
_PLACES = np.stack(np.meshgrid(_STEPS, _STEPS), axis=-1).reshape(-1, 2)
_PLACES = _PLACES[(_PLACES**2).sum(axis=1) <= 1]


def _check_light(
    image: np.ndarray, middle: np.ndarray, half: np.ndarray, points: np.ndarray, image_domain: str
) -> np.ndarray:
    """Return why light in the whole image prevents tones, per face; middles and half sides of faces are (n, 2)."""
    height, width = image.shape[:2]
    y, x = (np.floor((np.arange(_GRID) + 0.5) / _GRID * side).astype(int) for side in (height, width))
    lab = srgb_to_lab(image[y[:, None], x].reshape(-1, 3).astype(float))
    if _lacks_colour(lab):
        return np.full(len(middle), "no colour", object)
    if image_domain == hub.DRAWINGS:
        return np.full(len(middle), "", object)
    positions = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2) + 0.5
    # Hair and neck are next to a face, so the surroundings begin half a face further out.
    is_surrounding = (np.abs(positions - middle[:, None]) > 1.5 * half[:, None]).any(axis=-1)
    faces = np.median(srgb_to_lab(points.astype(float)), axis=1)
    lit = [_has_colour_cast(lab[mask], face) for mask, face in zip(is_surrounding, faces, strict=True)]
    return np.where(lit, "coloured light", "").astype(object)


def _lacks_colour(lab: np.ndarray) -> bool:
    """Return whether colours (points, 3) are grey, or all of one hue and similar at equal lightness."""
    colour = lab[:, 1:]
    if np.percentile(np.hypot(*colour.T), 99) < 2:
        return True
    direction = colour.mean(axis=0) / max(np.hypot(*colour.mean(axis=0)), 1e-9)
    step = np.floor(lab[:, 0] / 5).astype(int)
    groups = [colour[step == k] for k in np.unique(step) if (step == k).sum() >= 20]
    spread = [((group - group.mean(axis=0)) ** 2).sum(axis=1) for group in groups]
    deviation = np.sqrt(np.mean((colour @ (direction[1], -direction[0])) ** 2))
    # The spread is at least 4.7 in 89 photographs, and at most 0.63 in the same photographs in sepia.
    return len(groups) >= 5 and deviation < 4 and bool(np.sqrt(np.concatenate(spread).mean()) < 1.5)


def _has_colour_cast(lab: np.ndarray, face: np.ndarray) -> bool:
    """Return whether the surroundings of a face (points, 3) and the face (3,) share a colour cast."""
    surroundings = lab[lab[:, 0] > 25, 1:]
    if len(surroundings) < 150:
        return False
    direction = surroundings.mean(axis=0)
    direction /= max(np.hypot(*direction), 1e-9)
    grey_share, aligned_share = (np.hypot(*surroundings.T) < 6).mean(), (surroundings @ direction > 6).mean()
    is_dull = np.hypot(*face[1:]) < 0.1 * (face[0] + 16)
    return bool(grey_share < 0.02 and aligned_share > 0.75 and (is_dull or face[1:] @ direction > 0))


def _summarize_drawings(points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the main colour of points (faces, points, 3) (sRGB, (faces, 3)), the share near it, and reasons."""
    lab = srgb_to_lab(points)
    colour = np.median(lab, axis=1)
    is_near = np.ones(lab.shape[:2], bool)
    for _ in range(_ROUNDS):
        is_near = ((lab - colour[:, None]) ** 2).sum(axis=-1) <= MAX_COLOUR_DISTANCE**2
        colour = np.where(is_near.any(axis=1)[:, None], _masked_median(lab, is_near), colour)
    # For display, the median of the same points in RGB; it differs only by the nonlinearity between the two spaces.
    rgb, share = _masked_median(points, is_near), is_near.mean(axis=1)
    chroma, hue = _chroma_and_hue(srgb_to_lab(rgb))
    is_skin = (chroma <= _GREY) | ((hue >= _HUES[0]) & (hue <= _HUES[1]))
    return (rgb, share, np.select([share < MIN_SHARE, ~is_skin], ["no even colour", "not the colour of skin"], ""))


def _summarize_photographs(points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the median colour (sRGB, (faces, 3)) of skin-coloured points, their share, and reasons."""
    lab = srgb_to_lab(points)
    chroma, hue = _chroma_and_hue(lab)
    is_skin = (hue >= _SKIN_HUES[0]) & (hue <= _SKIN_HUES[1])
    is_skin &= chroma >= _LEAST_SATURATION * (lab[..., 0] + 16)
    rgb = _masked_median(points, is_skin)
    is_covered = _chroma_and_hue(srgb_to_lab(rgb))[0] > _MOST_CHROMA
    tone_difference = np.zeros(len(points))
    for coordinates in _PLACES.T:
        halves = coordinates < 0, coordinates > 0
        for half in halves:
            is_covered |= is_skin[:, half].mean(axis=1) < MIN_SKIN
        tone_a, tone_b = (monk_tone(_masked_median(points[:, half], is_skin[:, half])) for half in halves)
        tone_difference = np.maximum(tone_difference, np.abs(tone_a - tone_b))
    reasons = np.select(
        [is_covered, tone_difference > MAX_TONE_DIFFERENCE], ["not the colour of skin", "mixed light"], ""
    )
    return rgb, is_skin.mean(axis=1), reasons


def _chroma_and_hue(lab: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return chroma, and hue in degrees from red (0) to yellow (90), of CIELAB colours (..., 3)."""
    return np.hypot(lab[..., 1], lab[..., 2]), np.degrees(np.arctan2(lab[..., 2], lab[..., 1]))


def _masked_median(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the median of values (faces, points, 3) over the points in ``mask``; over all points if it is empty."""
    mask = mask | ~mask.any(axis=1, keepdims=True)
    return np.nanmedian(np.where(mask[..., None], values, np.nan), axis=1)


class PixelTones(Judge):
    """The colour of the pixels in a face's box (:func:`face_tones`)."""

    prefix, domain = PIXELS, hub.ANY


class NoTones(Judge):
    """No skin tones: each person has the reason ``not read``."""

    prefix, domain, needs_faces, needs_images = NOT_READ, hub.ANY, False, False


def default_judge(image_domain: str) -> str:
    """Return the name of the default judge: pixels for drawings, none for photographs.

    :mod:`biaslab.judges.photographs` has the measured error.
    """
    return PIXELS if image_domain == hub.DRAWINGS else NOT_READ


def judge_skin_tones(
    images: ImageSource, people: pd.DataFrame, judge: Judge, *, cache: ResultCache, progress: bool = True
) -> pd.DataFrame:
    """Return the skin tone of people whose faces are located; earlier results are read from ``cache``.

    ``people`` has one row per person: image_id, x0, y0, x1, y1 (the face in pixels, NaN without a face), and optionally
    position, phrase and image_width. ``judge`` has ``tones``, or is :class:`PixelTones` or :class:`NoTones`.

    Returns one row per row of ``people`` in its order: image_id, position (if in ``people``), the columns of
    :func:`face_tones` and judge (``tone by pixels``, its name, or ``none``). Without a judge the reason is ``not
    read``; judges other than pixels return only tones and reasons.

    Raises InputError where an image is not in the source's table, else as ``tones`` of the judge.
    """
    rows = people.reset_index(drop=True)
    tones = _missing_tones(len(rows), "not read")
    if len(rows) and not judge.needs_images and hasattr(judge, "tones"):
        people = rows.assign(position=rows.get("position", 1))
        tones[["tone", "reason"]] = judge.tones(People(people))
    elif len(rows) and judge.needs_images:
        tones = _read_tones(images, rows, judge, cache, progress)
    names = [c for c in ("image_id", "position") if c in people]
    judge_name = TONE_BY_PIXELS if isinstance(judge, PixelTones) else judge.name
    return pd.concat([rows[names], tones], axis=1).assign(judge=judge_name)


def _read_tones(images: ImageSource, people: pd.DataFrame, judge: Judge, cache: ResultCache, progress: bool):
    """Return the columns of :func:`face_tones` for people, by pixels or by another judge."""
    image_domain, judge = domain_of(images), judge.fresh()
    by_pixels = isinstance(judge, PixelTones)
    extra_columns = [] if by_pixels else [c for c in ("position", "phrase", *_PART) if c in people or c in _PART]
    rows = people if by_pixels else add_parts(people.astype({"image_id": str}))
    units = rows[["image_id", *_BOX, *extra_columns]].astype({"image_id": object} | dict.fromkeys(_BOX, float))

    def work(shard: pd.DataFrame) -> pd.DataFrame:
        places, ids = pd.factorize(shard["image_id"])
        pixel_arrays = images.read(list(ids))
        if by_pixels:
            return face_tones(pixel_arrays, shard[list(_BOX)].to_numpy(), places, image_domain)
        return _ask_judge([pixel_arrays[k] for k in places], shard, judge, image_domain)

    bar = {"label": f"skin tones of {images.name}", "unit": "faces", "progress": progress}
    if by_pixels:
        stage = cache.stage("skin_tones", {"images": images.digest, "pictures": image_domain}, work)
    else:
        stage = cache.stage("judged_skin_tones", {"images": images.digest} | judge.inputs, work)
    # Few images at a time: large ones would fill the memory.
    return stage.compute(units, shard_rows=64, **bar)


def mean_skin_colours(
    images: ImageSource, image_ids: Sequence[str], *, cache: ResultCache, progress: bool = True
) -> np.ndarray:
    """Return the mean colour of all pixels of each image that count as skin by their chroma; nothing is cached.

    ``float (images, 3)``, RGB 0–255, NaN where an image cannot be read or has no such pixel.
    """
    ids = list(image_ids)
    means = np.full((len(ids), 3), np.nan)
    for start in range(0, len(ids), _IMAGES_AT_ONCE):
        for k, image in enumerate(images.read(ids[start : start + _IMAGES_AT_ONCE]), start):
            if isinstance(image, np.ndarray) and (skin := ycrcb_skin(image)).any():
                means[k] = image[skin].mean(axis=0)
    return means


def _missing_tones(n: int, reason: str) -> pd.DataFrame:
    """Return the columns of :func:`face_tones` for ``n`` faces without a tone."""
    numbers = dict.fromkeys(("tone", "angle", "red", "green", "blue", "share"), np.nan)
    return pd.DataFrame(numbers, index=range(n), dtype=float).assign(reason=pd.Series(reason, range(n), object))


def _unread_reason(image: UnreadableImage) -> str:
    return image.reason if image.reason in LEFT_OUT else "unreadable"


def _ask_judge(
    images: Sequence[np.ndarray | UnreadableImage], people: pd.DataFrame, judge: Judge, image_domain: str
) -> pd.DataFrame:
    """Return the skin tones of people, one image each, with the columns of :func:`face_tones`."""
    tones, persons = _missing_tones(len(people), "no face"), {}
    for k, (image, row) in enumerate(zip(images, people.to_dict("records"), strict=True)):
        if isinstance(image, UnreadableImage):
            tones.loc[k, "reason"] = _unread_reason(image)
        elif not (judge.needs_faces and np.isnan([row[c] for c in _BOX]).any()):
            persons[k] = cut_out(image, row)
    if persons:
        people_to_ask = People(people.iloc[list(persons)], list(persons.values()), image_domain)
        tones.loc[list(persons), ["tone", "reason"]] = judge.tones(people_to_ask)
    return tones
