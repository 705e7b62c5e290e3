"""Skin tone on photographs: conditions that are tolerated for every tone, and refusals with their reasons."""

import numpy as np
import pytest

from biaslab.hub.registry import DRAWINGS, PHOTOGRAPHS
from biaslab.judges.skin_tone import MIN_SIDE, face_tones
from biaslab.metrics.skin_tone import swatch_rgb

TONES = range(1, 11)
BOX = (80.0, 50.0, 160.0, 150.0)
MIDDLE, HALF = (120.0, 100.0), (40.0, 50.0)
Y, X = np.mgrid[0:200, 0:240] + 0.5
# Across and down the face, -1 to 1 at the edges of its box.
FACE_X, FACE_Y = (X - MIDDLE[0]) / HALF[0], (Y - MIDDLE[1]) / HALF[1]
FACE = FACE_X**2 + FACE_Y**2 <= 1
WALL = [(200, 200, 198), (90, 110, 150), (150, 90, 70), (70, 120, 80), (235, 235, 235), (60, 60, 62)]


def photograph(tone, *, gloss=0.0, shade=0.0, wall=WALL, seed=0):
    """Return a face of a Monk tone before panels of a wall, with eyes, mouth, hair, noise, and light as asked for.

    ``gloss`` is the part of white that a spot on the cheek has at most, ``shade`` the part of the light that one edge
    of the face lacks.
    """
    rng = np.random.default_rng(seed)
    panel = (X // (240 / len(wall))).astype(int)
    image = np.array(wall, float)[panel]
    image[((X - 120) / 52) ** 2 + ((Y - 90) / 62) ** 2 <= 1] = (35, 28, 25)
    skin = np.array(swatch_rgb()[tone - 1], float) * (1 - abs(shade) / 2 + shade / 2 * FACE_X)[..., None]
    spot = np.exp(-(((FACE_X + 0.3) / 0.25) ** 2 + ((FACE_Y + 0.2) / 0.3) ** 2))
    skin += gloss * spot[..., None] * (255 - skin)
    image[FACE] = skin[FACE]
    for side in (-0.35, 0.35):
        image[((FACE_X - side) / 0.16) ** 2 + ((FACE_Y + 0.2) / 0.06) ** 2 <= 1] = (240, 240, 240)
    image[(FACE_X / 0.3) ** 2 + ((FACE_Y - 0.45) / 0.08) ** 2 <= 1] = (150, 60, 60)
    return (image + rng.normal(0, 1.5, (200, 240, 3))).clip(0, 255).astype(np.uint8)


def read_tone(image, pictures=PHOTOGRAPHS):
    return face_tones([image], [BOX], [0], pictures).iloc[0]


@pytest.mark.parametrize("tone", TONES)
def test_face_tones_tolerate_gloss_and_shade(tone):
    assert read_tone(photograph(tone))["tone"] == tone
    for gloss, shade in ((0.8, 0.0), (0.0, 0.4), (0.8, 0.4), (0.0, -0.4)):
        result = read_tone(photograph(tone, gloss=gloss, shade=shade))
        assert result["reason"] == "" and abs(result["tone"] - tone) <= 1, (gloss, shade)


@pytest.mark.parametrize("pictures", [PHOTOGRAPHS, DRAWINGS])
def test_face_tones_of_grey_are_missing(pictures):
    for level in (20, 118, 119, 235):
        flat = np.full((64, 64, 3), level, np.uint8)
        result = face_tones([flat], [(0, 0, 64, 64)], [0], pictures).iloc[0]
        assert result["reason"] == "no colour" and np.isnan(result["tone"]), level


@pytest.mark.parametrize("tone", [1, 4, 7, 10])
def test_face_tones_of_monochrome_photographs_are_missing(tone):
    # Grey, sepia and blue.
    for tint in ((1, 1, 1), (1.05, 0.9, 0.7), (0.8, 0.95, 1.1)):
        grey = photograph(tone) @ np.array([0.299, 0.587, 0.114])
        result = read_tone((grey[..., None] * np.array(tint)).clip(0, 255).astype(np.uint8))
        assert result["reason"] == "no colour" and np.isnan(result["tone"]), tint


# White, cool white, blue, green, black, pink.
MASKS = [(250, 250, 250), (235, 240, 246), (120, 170, 215), (120, 185, 160), (25, 25, 27), (250, 120, 190)]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("tone", [2, 5, 8])
def test_face_tones_of_masks_are_missing(tone, mask):
    for upper in (-1.0, -0.1, 0.1):
        image = photograph(tone)
        image[FACE & (upper < FACE_Y)] = mask
        result = read_tone(image)
        assert result["reason"] == "not the colour of skin" and np.isnan(result["tone"]), upper


@pytest.mark.parametrize("light", [0.35, 0.45])
@pytest.mark.parametrize("tone", [2, 3, 4, 5])
def test_face_tones_of_half_shadow_are_missing(tone, light):
    for half in (FACE_X < 0.05, FACE_X > -0.05, FACE_Y < 0.05, FACE_Y > -0.05):
        image = photograph(tone)
        image[half] = (image[half] * light).astype(np.uint8)
        result = read_tone(image)
        assert result["reason"] == "mixed light" and np.isnan(result["tone"])


# Cool, cooler, warm, candle, green, magenta.
LIGHTS = [(0.75, 1, 1.3), (0.6, 0.95, 1.4), (1.3, 1, 0.7), (1.35, 0.9, 0.45), (0.75, 1.15, 0.75), (1.2, 0.8, 1.2)]


@pytest.mark.parametrize("light", LIGHTS)
@pytest.mark.parametrize("tone", [1, 4, 7, 10])
def test_face_tones_of_coloured_light_are_missing(tone, light):
    image = photograph(tone, wall=[(200, 200, 200), (120, 120, 122), (235, 235, 235), (90, 88, 86)])
    result = read_tone((image * np.array(light)).clip(0, 255).astype(np.uint8))
    assert result["reason"] in ("coloured light", "not the colour of skin", "no colour")
    assert np.isnan(result["tone"])
    # If the face still has the color of skin, its surroundings reveal the light.
    if light[0] > 1.2 and light[2] < 1:
        assert result["reason"] == "coloured light"


@pytest.mark.parametrize("tone", [3, 4, 5, 6, 7, 8, 9, 10])
def test_face_tones_next_to_coloured_wall_are_read(tone):
    for wall in ([(70, 110, 190)], [(60, 150, 150)], [(200, 60, 60), (230, 230, 228), (60, 90, 60)]):
        assert read_tone(photograph(tone, wall=wall))["tone"] == tone


@pytest.mark.parametrize("tone", [1, 5, 10])
def test_face_tones_of_small_photographs_are_missing(tone):
    min_side = MIN_SIDE[PHOTOGRAPHS]
    image = photograph(tone)[::8, ::8]
    box = np.array(BOX) / 8
    assert face_tones([image], [box], [0])["reason"][0] == "face too small"  # 10 by 12.5
    assert face_tones([image], [box], [0], DRAWINGS)["reason"][0] != "face too small"
    min_box = (box[0], box[1], box[0] + min_side, box[1] + min_side)
    assert face_tones([image], [min_box], [0])["reason"][0] != "face too small"
