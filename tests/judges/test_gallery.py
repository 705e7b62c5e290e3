"""Galleries: boxes, titles, captions and colors, and blurred faces."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from biaslab.hub.image_sources import UnreadableImage
from biaslab.plots import style
from biaslab.plots.gallery import blur_faces, boxes_of, gallery, verdict

pytestmark = pytest.mark.usefixtures("plain_look")


def make_row(outcome, gender="", p=np.nan, boxes=()):
    single_box = boxes[0] if len(boxes) == 1 else [np.nan] * 4
    row = {"status": outcome, "gender": gender, "probability_female": p}
    return row | dict(zip(("x0", "y0", "x1", "y1"), single_box, strict=True)) | {"boxes": [v for b in boxes for v in b]}


ROWS = pd.DataFrame(
    [
        make_row("judged", "female", 0.97, [(2, 3, 8, 9)]),
        make_row("judged", "male", 0.04, [(2, 3, 8, 9)]),
        make_row("uncertain", "unsure", 0.55, [(2, 3, 8, 9)]),
        make_row("several_faces", boxes=[(0, 0, 4, 4), (6, 6, 10, 10)]),
        make_row("no_face"),
        make_row("unreadable"),
    ]
)


@pytest.fixture
def images():
    rng = np.random.default_rng(0)
    return [*rng.integers(0, 256, (5, 12, 12, 3), dtype=np.uint8), UnreadableImage("truncated")]


def test_verdict_text_matches_color():
    assert [verdict(row) for _, row in ROWS.iterrows()] == [
        ("female 0.97", style.FEMALE),
        ("male 0.96", style.MALE),  # the probability of what was judged: 1 - 0.04
        ("unsure (f 0.55)", style.ORANGE),
        *((word, style.GREY) for word in ("several faces", "no face", "unreadable")),
    ]
    assert verdict(pd.Series(make_row("uncertain", "unsure")))[0] == "unsure"


def test_gallery_shows_boxes_titles_and_captions(images):
    figure = gallery(images, ROWS, [f"caption {k}" for k in range(6)], columns=4)
    assert len(figure.axes) == 6
    boxes = [[p for p in ax.patches if isinstance(p, Rectangle)] for ax in figure.axes]
    # A coloured line over a white one for every face.
    assert [len(b) // 2 for b in boxes] == [1, 1, 1, 2, 0, 0]
    line = boxes[0][1]
    assert (line.get_x(), line.get_y(), line.get_width(), line.get_height()) == (1.5, 2.5, 6, 6)
    assert to_hex(line.get_edgecolor()).upper() == style.FEMALE and line.get_linestyle() == "-"
    assert boxes[3][1].get_linestyle() != "-"
    assert [ax.get_title(loc="left") for ax in figure.axes][3:] == ["several faces", "no face", "unreadable"]
    assert [ax.texts[-1].get_text() for ax in figure.axes] == [f"caption {k}" for k in range(6)]
    assert figure.axes[5].texts[0].get_text() == "truncated"


def test_gallery_blur_covers_faces_and_unjudged_images(images):
    rows = pd.concat([ROWS[3:5], pd.DataFrame([make_row("unannotated")])], ignore_index=True)
    figure = gallery([images[3], images[4], images[0]], rows, blur=True)
    several, without_face, unjudged = (np.asarray(ax.images[0].get_array()) for ax in figure.axes)
    np.testing.assert_array_equal(several, blur_faces(images[3], boxes_of(rows.iloc[0])))
    np.testing.assert_array_equal(without_face, images[4])
    assert (unjudged != images[0]).mean() > 0.9


def test_blur_faces_removes_detail_inside_box():
    # Two images that differ in nothing but fine detail within the box look the same afterwards.
    coarse = np.random.default_rng(0).integers(60, 190, (6, 6, 3)).repeat(20, axis=0).repeat(20, axis=1)
    pattern = np.indices((120, 120)).sum(axis=0)[..., None] % 2 * 2 - 1
    first, second = (np.full((200, 200, 3), 90, np.uint8) for _ in range(2))
    first[40:160, 40:160] = coarse + 50 * pattern
    second[40:160, 40:160] = coarse - 50 * pattern
    box = [(40, 40, 160, 160)]
    blurred = [blur_faces(image, box, margin=0) for image in (first, second)]
    assert np.abs(blurred[0].astype(int) - blurred[1]).max() <= 1
    # Outside the box nothing changes, and the original is not touched.
    outside = np.ones((200, 200), bool)
    outside[40:160, 40:160] = False
    np.testing.assert_array_equal(blurred[0][outside], first[outside])
    assert (first[40:160, 40:160] == (coarse + 50 * pattern)).all()
    # Boxes beyond the image are clipped.
    blurred = blur_faces(first, [(-5, -5, 50, 50), (220, 220, 230, 230)], margin=0)
    assert (blurred[:50, :50] != first[:50, :50]).any() and (blurred[50:] == first[50:]).all()
