"""Skin tone of faces on the Monk scale, from the pixels inside a face's box, or by a judge of another package.

Points are laid evenly over an ellipse in the middle of the box. Of a drawing, whose skin is one even colour, the colour
is the median in CIELAB of the points near it; of a photograph, the median of the points that have the colour of skin.

No rule knows lightness, on purpose: rules in RGB or YCrCb that DALL-Eval's appendix compares (such as R > 95) refuse
the lightest and the darkest Monk tones. What is seen is skin under the light of the image; DALL-Eval takes the light
out with TRUST's albedo (section 4.2.3, Table 18), a model of its own.
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
"""Part of the box's sides that the ellipse takes: hair, ears and background stay out."""
NEAR = 12.0
"""Of a drawing, how far in CIELAB a point may lie from the skin's colour: eyes, brows, lips and beard do not count."""
LEAST_SHARE = 0.2
"""Of a drawing, the least share of points that must be near one colour."""
LEAST_SKIN = 0.5
"""Of a photograph, the least share of each half's points that must have the colour of skin, as under no mask."""
MOST_APART = 2
"""Of a photograph, by how many tones two halves of a face may differ: more is mixed light."""
LEAST_SIDE = {hub.DRAWINGS: 4.0, hub.PHOTOGRAPHS: 12.0}
"""The least width and height of a face in pixels. Of 55 faces of photographs of 40 to 72 px, made smaller, none changes
between read and unread at 12 px, 9 do at 4 px; 87 and 61 % of their tones stay the same, all within one."""

_IMAGES_AT_ONCE = 64
_BOX, _PART = ("x0", "y0", "x1", "y1"), ("first", "last")
_ROUNDS = 3
_ACROSS = 24  # points across the ellipse
# Hue of skin in CIELAB, degrees from red (0) to yellow (90); the Monk swatches are between 49 and 89, and light
# of other colours turns them further the greyer they are. Up to this chroma, hue says nothing of drawings.
_HUES = (0.0, 125.0)
_GREY = 12.0
# Of photographs. Saturation, chroma over L* + 16, is what shade leaves as it is; the swatches have 0.05 (tone 1) to
# 0.41 (tone 7), and a chroma of 3.8 (tone 10) to 28 (tone 6).
_SKIN_HUES = (15.0, 100.0)
_LEAST_SATURATION = 0.03
_MOST_CHROMA = 40.0
# Looked at of a whole image: points across and down.
_GRID = 48


def face_tones(
    images: Sequence[np.ndarray | UnreadableImage],
    boxes: np.ndarray,
    of: Sequence[int],
    image_domain: str = hub.PHOTOGRAPHS,
) -> pd.DataFrame:
    """Return the skin tone of faces by their pixels, all at once.

    Args:
        images: ``uint8 (height, width, 3)`` RGB of any sizes; :class:`UnreadableImage` where there is none.
        boxes: Faces as x0, y0, x1, y1 in pixels, (faces, 4); NaN where no face is known. The image cuts them off.
        of: For each face the index of its image.
        image_domain: What the images are: ``photographs`` or ``drawings``.

    Returns one row per face: tone (Monk scale, 1 light to 10 dark), angle (ITA in degrees, CIELAB), red, green, blue
    (the skin's colour, 0–255), share (0–1 of the points that it rests on), reason (empty, or ``no face``,
    ``unreadable``, ``face too small``, ``no colour``, ``not the colour of skin``; of drawings ``no even colour``; of
    photographs ``coloured light``, ``mixed light``; where points were examined, colour and share are there).
    """
    boxes, of = np.asarray(boxes, float), np.asarray(of, int)
    reason = np.where(np.isnan(boxes).any(axis=1), "no face", "").astype(object)
    points, seen = np.zeros((len(boxes), len(_PLACES), 3), np.uint8), np.zeros(len(boxes), bool)
    for k in np.unique(of):
        here = np.flatnonzero(of == k)
        image = images[k]
        if isinstance(image, UnreadableImage):
            reason[here] = _why_unread(image)
            continue
        height, width = check_image(image, f"image {k}").shape[:2]
        low = np.clip(boxes[here, :2], 0, (width, height))
        high = np.clip(boxes[here, 2:], 0, (width, height))
        small = ((high - low) < LEAST_SIDE[image_domain]).any(axis=1) & (reason[here] == "")
        reason[here[small]] = "face too small"
        use = reason[here] == ""
        here, middle, half = here[use], (low + high)[use] / 2, (high - low)[use] / 2
        at = np.floor(middle[:, None] + half[:, None] * MIDDLE * _PLACES).astype(int)
        points[here], seen[here] = image[at[..., 1], at[..., 0]], True
        if len(here):
            reason[here] = _of_picture(image, middle, half, points[here], image_domain)
    rgb = np.full((len(boxes), 3), np.nan)
    share = np.full(len(boxes), np.nan)
    read = _of_drawings if image_domain == hub.DRAWINGS else _of_photographs
    rgb[seen], share[seen], why = read(points[seen].astype(float))
    reason[seen] = np.where(reason[seen] == "", why, reason[seen])
    lab = srgb_to_lab(rgb)
    good = (reason == "")[:, None]
    tone, angle = monk_tone(np.where(good, rgb, np.nan)), typology_angle(np.where(good, lab, np.nan))
    colour = dict(zip(("red", "green", "blue"), rgb.T, strict=True))
    return pd.DataFrame({"tone": tone, "angle": angle, **colour, "share": share, "reason": reason})


# Even places in the circle of radius 1, x and y, (points, 2).
_STEPS = (np.arange(_ACROSS) + 0.5) / _ACROSS * 2 - 1
_PLACES = np.stack(np.meshgrid(_STEPS, _STEPS), axis=-1).reshape(-1, 2)
_PLACES = _PLACES[(_PLACES**2).sum(axis=1) <= 1]


def _of_picture(
    image: np.ndarray, middle: np.ndarray, half: np.ndarray, points: np.ndarray, image_domain: str
) -> np.ndarray:
    """Return what of a whole image is in the way of faces' tones; middles and half sides of faces are (n, 2)."""
    height, width = image.shape[:2]
    y, x = (np.floor((np.arange(_GRID) + 0.5) / _GRID * side).astype(int) for side in (height, width))
    lab = srgb_to_lab(image[y[:, None], x].reshape(-1, 3).astype(float))
    if _without_colour(lab):
        return np.full(len(middle), "no colour", object)
    if image_domain == hub.DRAWINGS:
        return np.full(len(middle), "", object)
    at = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2) + 0.5
    # Next to a face are hair and neck: what is examined begins half a face further out.
    beside = (np.abs(at - middle[:, None]) > 1.5 * half[:, None]).any(axis=-1)
    faces = np.median(srgb_to_lab(points.astype(float)), axis=1)
    lit = [_lit_points(lab[out], face) for out, face in zip(beside, faces, strict=True)]
    return np.where(lit, "coloured light", "").astype(object)


def _without_colour(lab: np.ndarray) -> bool:
    """Return whether colours (points, 3) are grey, or all of one hue and alike wherever they are equally light."""
    colour = lab[:, 1:]
    if np.percentile(np.hypot(*colour.T), 99) < 2:
        return True
    lean = colour.mean(axis=0) / max(np.hypot(*colour.mean(axis=0)), 1e-9)
    step = np.floor(lab[:, 0] / 5).astype(int)
    alike = [colour[step == k] for k in np.unique(step) if (step == k).sum() >= 20]
    spread = [((some - some.mean(axis=0)) ** 2).sum(axis=1) for some in alike]
    across = np.sqrt(np.mean((colour @ (lean[1], -lean[0])) ** 2))
    # Of 89 photographs the spread is 4.7 at least; of the same in sepia it is 0.63 at most.
    return len(alike) >= 5 and across < 4 and bool(np.sqrt(np.concatenate(spread).mean()) < 1.5)


def _lit_points(lab: np.ndarray, face: np.ndarray) -> bool:
    """Return whether the surroundings of a face (points, 3) and the face (3,) share a colour cast."""
    beside = lab[lab[:, 0] > 25, 1:]
    if len(beside) < 150:
        return False
    lean = beside.mean(axis=0)
    lean /= max(np.hypot(*lean), 1e-9)
    grey, along = (np.hypot(*beside.T) < 6).mean(), (beside @ lean > 6).mean()
    dull = np.hypot(*face[1:]) < 0.1 * (face[0] + 16)
    return bool(grey < 0.02 and along > 0.75 and (dull or face[1:] @ lean > 0))


def _of_drawings(points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the colour (sRGB, (faces, 3)) that most points (faces, points, 3) are near, their share, and reasons."""
    lab = srgb_to_lab(points)
    colour = np.median(lab, axis=1)
    near = np.ones(lab.shape[:2], bool)
    for _ in range(_ROUNDS):
        near = ((lab - colour[:, None]) ** 2).sum(axis=-1) <= NEAR**2
        colour = np.where(near.any(axis=1)[:, None], _masked_median(lab, near), colour)
    # The same points' median in RGB, to show; equal to the colour but for the curve between the two.
    rgb, share = _masked_median(points, near), near.mean(axis=1)
    chroma, hue = _chroma_and_hue(srgb_to_lab(rgb))
    skin = (chroma <= _GREY) | ((hue >= _HUES[0]) & (hue <= _HUES[1]))
    return (rgb, share, np.select([share < LEAST_SHARE, ~skin], ["no even colour", "not the colour of skin"], ""))


def _of_photographs(points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the median colour (sRGB, (faces, 3)) of points that have skin's, their share, and reasons."""
    lab = srgb_to_lab(points)
    chroma, hue = _chroma_and_hue(lab)
    skin = (hue >= _SKIN_HUES[0]) & (hue <= _SKIN_HUES[1])
    skin &= chroma >= _LEAST_SATURATION * (lab[..., 0] + 16)
    rgb = _masked_median(points, skin)
    covered = _chroma_and_hue(srgb_to_lab(rgb))[0] > _MOST_CHROMA
    apart = np.zeros(len(points))
    for along in _PLACES.T:
        halves = along < 0, along > 0
        for half in halves:
            covered |= skin[:, half].mean(axis=1) < LEAST_SKIN
        one, other = (monk_tone(_masked_median(points[:, half], skin[:, half])) for half in halves)
        apart = np.maximum(apart, np.abs(one - other))
    why = np.select([covered, apart > MOST_APART], ["not the colour of skin", "mixed light"], "")
    return rgb, skin.mean(axis=1), why


def _chroma_and_hue(lab: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return chroma, and hue in degrees from red (0) to yellow (90), of CIELAB colours (..., 3)."""
    return np.hypot(lab[..., 1], lab[..., 2]), np.degrees(np.arctan2(lab[..., 2], lab[..., 1]))


def _masked_median(values: np.ndarray, use: np.ndarray) -> np.ndarray:
    """Return the median of values (faces, points, 3) over the points in ``use``; all points where none is."""
    use = use | ~use.any(axis=1, keepdims=True)
    return np.nanmedian(np.where(use[..., None], values, np.nan), axis=1)


class PixelTones(Judge):
    """The color of the pixels in a face's box (:func:`face_tones`)."""

    prefix, domain = PIXELS, hub.ANY


class NoTones(Judge):
    """No skin tones, so that each person has the reason ``not read``."""

    prefix, domain, needs_faces, needs_images = NOT_READ, hub.ANY, False, False


def default_judge(image_domain: str) -> str:
    """Return the name of the judge where the settings give none: pixels for drawings, none for photographs.

    :mod:`biaslab.judges.photographs` has the measured error.
    """
    return PIXELS if image_domain == hub.DRAWINGS else NOT_READ


def judge_skin_tones(
    images: ImageSource, people: pd.DataFrame, judge: Judge, *, cache: ResultCache, progress: bool = True
) -> pd.DataFrame:
    """Return the skin tone of people whose faces are located; earlier results are read from ``cache``.

    ``people`` has one row per person: image_id, x0, y0, x1, y1 (the face in pixels, NaN where there is none), and where
    given position, phrase and image_width. ``judge`` has ``tones``, or is :class:`PixelTones` or :class:`NoTones`.

    Returns one row per row of ``people`` in its order: image_id, position (where given), the columns of
    :func:`face_tones` and judge (``tone by pixels``, its name, or ``none``). Without a judge the reason is ``not
    read``; other judges than pixels give tones and reasons alone.

    Raises InputError where an image is not in the source's table, else as ``tones`` of the judge.
    """
    rows = people.reset_index(drop=True)
    tones = _unread(len(rows), "not read")
    if len(rows) and not judge.needs_images and hasattr(judge, "tones"):
        people = rows.assign(position=rows.get("position", 1))
        tones[["tone", "reason"]] = judge.tones(People(people))
    elif len(rows) and judge.needs_images:
        tones = _read_tones(images, rows, judge, cache, progress)
    names = [c for c in ("image_id", "position") if c in people]
    called = TONE_BY_PIXELS if isinstance(judge, PixelTones) else judge.name
    return pd.concat([rows[names], tones], axis=1).assign(judge=called)


def _read_tones(images: ImageSource, people: pd.DataFrame, judge: Judge, cache: ResultCache, progress: bool):
    """Return the columns of :func:`face_tones` for people, by pixels or by another judge."""
    image_domain, judge = domain_of(images), judge.fresh()
    by_pixels = isinstance(judge, PixelTones)
    more = [] if by_pixels else [c for c in ("position", "phrase", *_PART) if c in people or c in _PART]
    located = people if by_pixels else add_parts(people.astype({"image_id": str}))
    units = located[["image_id", *_BOX, *more]].astype({"image_id": object} | dict.fromkeys(_BOX, float))

    def work(shard: pd.DataFrame) -> pd.DataFrame:
        places, ids = pd.factorize(shard["image_id"])
        read = images.read(list(ids))
        if by_pixels:
            return face_tones(read, shard[list(_BOX)].to_numpy(), places, image_domain)
        return _ask_judge([read[k] for k in places], shard, judge, image_domain)

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
    """Return the mean colour of all pixels of each image that count as skin by their chroma; nothing is kept.

    ``float (images, 3)``, RGB 0–255, NaN where an image cannot be read or has no such pixel.
    """
    ids = list(image_ids)
    means = np.full((len(ids), 3), np.nan)
    for start in range(0, len(ids), _IMAGES_AT_ONCE):
        for k, image in enumerate(images.read(ids[start : start + _IMAGES_AT_ONCE]), start):
            if isinstance(image, np.ndarray) and (skin := ycrcb_skin(image)).any():
                means[k] = image[skin].mean(axis=0)
    return means


def _unread(n: int, reason: str) -> pd.DataFrame:
    """Return the columns of :func:`face_tones` for as many faces without a tone."""
    numbers = dict.fromkeys(("tone", "angle", "red", "green", "blue", "share"), np.nan)
    return pd.DataFrame(numbers, index=range(n), dtype=float).assign(reason=pd.Series(reason, range(n), object))


def _why_unread(image: UnreadableImage) -> str:
    return image.reason if image.reason in LEFT_OUT else "unreadable"


def _ask_judge(
    images: Sequence[np.ndarray | UnreadableImage], people: pd.DataFrame, judge: Judge, image_domain: str
) -> pd.DataFrame:
    """Return the skin tones of people, one image each, with the columns of :func:`face_tones`."""
    tones, persons = _unread(len(people), "no face"), {}
    for k, (image, row) in enumerate(zip(images, people.to_dict("records"), strict=True)):
        if isinstance(image, UnreadableImage):
            tones.loc[k, "reason"] = _why_unread(image)
        elif not (judge.needs_faces and np.isnan([row[c] for c in _BOX]).any()):
            persons[k] = cut_out(image, row)
    if persons:
        shown = People(people.iloc[list(persons)], list(persons.values()), image_domain)
        tones.loc[list(persons), ["tone", "reason"]] = judge.tones(shown)
    return tones
