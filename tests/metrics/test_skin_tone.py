"""Skin tone by typology angle: of CIELAB coordinates, and as the released script computes it."""

import numpy as np
import pytest

from biaslab.errors import InputError, UnknownNameError
from biaslab.metrics import skin_tone as st

# CIELAB of the swatches as the scale's own site prints them (skintone.google), light to dark.
PRINTED_LAB = [
    (94.211, 1.503, 5.422),
    (92.275, 2.061, 7.28),
    (93.091, 0.216, 14.205),
    (87.573, 0.459, 17.748),
    (77.902, 3.471, 23.136),
    (55.142, 7.783, 26.74),
    (42.47, 12.325, 20.53),
    (30.678, 11.667, 13.335),
    (21.069, 2.69, 5.964),
    (14.61, 1.482, 3.525),
]
# What OpenCV 4.10 gives for the swatches with COLOR_RGB2LAB on a blue-green-red image: 8-bit L, a, b.
OPENCV_SWAPPED = [
    (238, 127, 123),
    (232, 126, 121),
    (233, 122, 119),
    (218, 121, 117),
    (191, 121, 111),
    (131, 124, 106),
    (99, 130, 104),
    (71, 132, 108),
    (51, 127, 121),
    (36, 128, 124),
]


def test_srgb_to_lab_of_swatches_matches_scale():
    np.testing.assert_allclose(st.srgb_to_lab(st.swatch_rgb()), PRINTED_LAB, atol=0.01)


def test_typology_angle_matches_hand_values():
    # L* - 50 = b* = 20: 45 degrees; below 50 the same with a minus; b* = 0 is a right angle.
    lab = [[70, 3, 20], [30, 3, 20], [70, 3, 0]]
    np.testing.assert_allclose(st.typology_angle(lab), [45, -45, 90])


def test_typology_angle_bluish_light_color_is_light():
    # arctan alone would answer -88 degrees, the darkest end.
    assert st.typology_angle([80, 0, -1]) > 80
    assert st.nearest_monk_tone(st.typology_angle([80, 0, -1])) == 1


def test_monk_tone_of_swatches_is_their_own():
    np.testing.assert_array_equal(st.monk_tone(st.swatch_rgb()), np.arange(1, 11))


@pytest.mark.parametrize(
    ("computation", "tones"),
    [("released", [5, 5, 5, 5, 5, 5, 6, 6, 6, 4]), ("released_signed", [5, 5, 5, 5, 5, 5, 6, 6, 6, 7])],
)
def test_released_monk_tone_of_swatches_matches_opencv(computation, tones):
    # By hand from OpenCV's values and the printed references: the nearest of the ten reference angles.
    references = np.degrees(np.arctan([(light - 50) / b for light, _, b in PRINTED_LAB]))
    expected = []
    for light, _, b in OPENCV_SWAPPED:
        above = light - 50 if computation == "released_signed" or light >= 50 else light - 50 + 256
        expected.append(1 + np.argmin(np.abs(references - np.degrees(np.arctan(above / b)))))
    assert expected == tones
    np.testing.assert_array_equal(st.monk_tone(st.swatch_rgb(), computation), tones)


def test_released_monk_tone_never_reaches_extremes():
    # A grid over the whole cube: the 8-bit b never falls low enough for the ends of the scale.
    levels = np.linspace(0, 255, 18)
    cube = np.stack(np.meshgrid(levels, levels, levels), axis=-1).reshape(-1, 3)
    tones_found = st.monk_tone(cube, "released_signed")
    assert {5, 6} <= set(tones_found)
    assert not set(tones_found) & {1, 2, 9, 10}
    assert set(st.monk_tone(cube)) == set(range(1, 11))


def test_monk_tone_keeps_nan_and_empty_input():
    tones = st.monk_tone([[np.nan, 10, 10], [246, 237, 228]])
    assert np.isnan(tones[0])
    assert tones[1] == 1
    for computation in st.COMPUTATIONS:
        assert st.monk_tone(np.empty((0, 3)), computation).shape == (0,)
        assert np.isnan(st.monk_tone([np.nan, np.nan, np.nan], computation))


def test_monk_tone_invalid_colors_are_refused():
    with pytest.raises(InputError, match=r"^rgb contains 256; it must be 0 to 255, or NaN\.$"):
        st.monk_tone([[256, 0, 0]])
    with pytest.raises(InputError, match=r"^rgb has shape \(2,\); its last axis must contain the 3 values of a colour"):
        st.monk_tone([1, 2])
    with pytest.raises(UnknownNameError, match="no skin tone computation named 'lab'"):
        st.monk_tone([[1, 2, 3]], "lab")


def test_nearest_swatch_matches_loop():
    swatches = st.swatch_rgb()
    assert st.nearest_swatch(swatches).tolist() == list(range(1, 11))
    # A grid, by a loop.
    grid = np.random.default_rng(1).integers(0, 256, (4, 5, 3))
    expected_tones = [[1 + int(np.argmin([((c - s) ** 2).sum() for s in swatches])) for c in row] for row in grid]
    assert st.nearest_swatch(grid).tolist() == expected_tones
    assert np.isnan(st.nearest_swatch([[np.nan] * 3])).all()


def test_ycrcb_skin_matches_opencv():
    import cv2

    image = np.random.default_rng(2).integers(0, 256, (40, 50, 3)).astype(np.uint8)
    ycrcb = cv2.cvtColor(image, cv2.COLOR_RGB2YCrCb).astype(int)
    inside = (ycrcb[..., 1] >= 133) & (ycrcb[..., 1] <= 173) & (ycrcb[..., 2] >= 77) & (ycrcb[..., 2] <= 127)
    # OpenCV rounds: only pixels at the limits may differ.
    assert (inside == st.ycrcb_skin(image)).mean() > 0.97
    assert st.ycrcb_skin(np.full((2, 2, 3), (200, 140, 110), np.uint8)).all()
    assert not st.ycrcb_skin(np.full((2, 2, 3), (90, 90, 200), np.uint8)).any()
