"""Galleries: grids of images with the judge's labels."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from biaslab.plots import style
from biaslab.plots.forms import WIDTH

_LINE = 0.135  # height of a caption line in inches
_MOST_LINES = 3
_COLORS = {"female": style.FEMALE, "male": style.MALE, "unsure": style.ORANGE}
# Statuses of images that match the prompt.
_RIGHT = {"correct": style.GREEN}
# Statuses whose names are not self-explanatory.
_WORDS = {"one_face": "too few faces", "overlapping": "faces overlap"}


def gallery(
    images: Sequence[np.ndarray | object],
    judgements: pd.DataFrame | Sequence[pd.DataFrame],
    captions: Sequence[str] = (),
    *,
    columns: int = 8,
    blur: bool = False,
) -> Figure:
    """Plot images in a grid, with boxes around faces, the judge's label above each image, and its caption below.

    The colour represents the perceived gender (unsure has its own colour); boxes of people who were not classified are
    grey and dashed. The label has the same information in words, for several people from left to right.

    Args:
        images: ``uint8 (height, width, 3)`` RGB, of any sizes; other objects are plotted as an empty frame with their
            ``reason``.
        judgements: One row per image, or one table per image with a row for each person, from left to right (as from
            :func:`biaslab.judges.people.judge_people`).
        captions: Texts below the images, none or one for each; long ones are cut.
        columns: Images in a row.
        blur: Whether faces are made unrecognizable, as reports must do with photos of real people. An image without
            face detection is blurred as a whole.
    """
    captions = list(captions) or [""] * len(images)
    if not len(images):
        return style.message_figure("The source has no images.")
    if isinstance(judgements, pd.DataFrame):
        judgements = [judgements.iloc[[k]] for k in range(len(judgements))]
    people = [[person for _, person in rows.iterrows()] for rows in judgements]
    columns = max(1, min(columns, len(images)))
    # A letter of this size is about 0.067 inches wide.
    letters = max(8, int(WIDTH / max(columns, 4) / 0.067))
    caption_lines = [_lines(text, letters) for text in captions]
    rows = [range(k, min(k + columns, len(images))) for k in range(0, len(images), columns)]
    side = WIDTH / max(columns, 4)
    image_heights = [max(_aspect(images[k]) for k in row) * (side - 0.1) for row in rows]
    text = [0.24 + _LINE * max(len(caption_lines[k]) for k in row) for row in rows]
    heights = [a + b + 0.06 for a, b in zip(image_heights, text, strict=True)]
    style.use()
    # Axes are placed manually. A figure without a layout engine would get the default one on saving.
    fig = plt.figure(figsize=(side * columns, sum(heights)), layout="constrained")
    fig.set_layout_engine("none")
    top = sum(heights)
    for row, height, image in zip(rows, heights, image_heights, strict=True):
        for column, k in enumerate(row):
            # The image is at the top of its row, below one line for the label.
            bottom = (top - 0.22 - image) / sum(heights)
            left = column / columns + 0.05 / (side * columns)
            ax = fig.add_axes((left, bottom, (side - 0.1) / (side * columns), image / sum(heights)), anchor="N")
            _draw(ax, images[k], people[k], caption_lines[k], blur)
        top -= height
    return fig


def blur_faces(image: np.ndarray, boxes: Iterable[Sequence[float]], *, margin: float = 0.2) -> np.ndarray:
    """Return a copy of an image (``uint8 (height, width, 3)``) in which faces cannot be recognized.

    Each box (x0, y0, x1, y1 in pixels; it may reach beyond the image), widened by ``margin`` of its size on all sides,
    is replaced by at most six by six averages of at least three by three pixels, smoothed.
    """
    out = image.copy()
    height, width = image.shape[:2]
    for x0, y0, x1, y1 in boxes:
        margin_x, margin_y = margin * (x1 - x0), margin * (y1 - y0)
        left, right = (int(np.clip(v, 0, width)) for v in (np.floor(x0 - margin_x), np.ceil(x1 + margin_x)))
        top, bottom = (int(np.clip(v, 0, height)) for v in (np.floor(y0 - margin_y), np.ceil(y1 + margin_y)))
        if right <= left or bottom <= top:
            continue
        part = Image.fromarray(out[top:bottom, left:right])
        n_columns, n_rows = (min(6, max(1, side // 3)) for side in part.size)
        coarse = part.resize((n_columns, n_rows), Image.Resampling.BOX)
        out[top:bottom, left:right] = np.asarray(coarse.resize(part.size, Image.Resampling.BICUBIC))
    return out


def boxes_of(judgement: pd.Series) -> list[tuple[float, ...]]:
    """Return the boxes (x0, y0, x1, y1) of all faces in a judged image; empty if no face was detected."""
    flat = judgement.get("boxes")
    if flat is not None and len(flat):
        return [tuple(map(float, box)) for box in np.reshape(np.asarray(flat, float), (-1, 4))]
    box = [float(judgement.get(c, np.nan)) for c in ("x0", "y0", "x1", "y1")]
    return [] if np.isnan(box).any() else [tuple(box)]


def verdict(judgement: pd.Series) -> tuple[str, str]:
    """Return the label of a person in words, with the probability of the perceived gender, and the label's colour."""
    status, gender, p = judgement["status"], judgement["gender"], float(judgement.get("probability_female", np.nan))
    if gender in _COLORS:
        probability = "" if np.isnan(p) else f" {1 - p if gender == 'male' else p:.2f}"
        # If the judge is unsure, the probability is that of female.
        text = f"unsure (f{probability})" if gender == "unsure" and probability else f"{gender}{probability}"
        return text, _COLORS[gender]
    return _WORDS.get(status, str(status).replace("_", " ")), _RIGHT.get(status, style.GREY)


def _draw(ax: Axes, image: object, people: list[pd.Series], lines: list[str], blur: bool) -> None:
    verdicts = _verdicts(people)
    color = verdicts[0][1] if len(verdicts) == 1 else style.GREY
    ax.set(xticks=[], yticks=[])
    for spine in ax.spines.values():
        spine.set(visible=True, color=color, linewidth=1.6)
    boxes = [boxes_of(person) for person in people]
    if isinstance(image, np.ndarray):
        if blur:
            # Faces that were not detected may be anywhere.
            blur_all = not all(boxes) and people[0]["status"] != "no_face"
            full_box = (0.0, 0.0, float(image.shape[1]), float(image.shape[0]))
            image = blur_faces(image, [full_box] if blur_all else [box for face_boxes in boxes for box in face_boxes])
        ax.imshow(image, interpolation="nearest" if max(image.shape) <= 128 else "antialiased")
        for person, face_boxes in zip(people, boxes, strict=True):
            line = "-" if person["gender"] in _COLORS or person["status"] in _RIGHT else (0, (3, 2))
            options: Any = {"edgecolor": verdict(person)[1], "linewidth": 1.5, "linestyle": line}
            for x0, y0, x1, y1 in face_boxes:
                # Pixel k is drawn from k - 0.5 to k + 0.5. White below the colour shows on any image.
                geometry = ((x0 - 0.5, y0 - 0.5), x1 - x0, y1 - y0)
                ax.add_patch(Rectangle(*geometry, fill=False, edgecolor="white", linewidth=3))
                ax.add_patch(Rectangle(*geometry, fill=False, **options))
    else:
        ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", facecolor=style.LIGHT)
        reason = str(getattr(image, "reason", "") or "no image")
        ax.text(0.5, 0.5, reason, ha="center", va="center", fontsize=8, color=style.GREY)
    places: tuple[Literal["left", "center", "right"], ...] = ("left", "center", "right")
    places = ("left", "right") if len(verdicts) == 2 else places
    for (text, shade), place in zip(verdicts, places, strict=False):
        dark = 0.7 * np.array(to_rgb(shade))  # read as text on white
        ax.set_title(text, loc=place, fontsize=8, fontweight="bold", color=dark, pad=2)
    ax.annotate(
        "\n".join(lines), (0, 0), (0, -4), "axes fraction", "offset points",
        va="top", fontsize=8, color=style.BLACK, linespacing=1.2,
    )  # fmt: skip


def _verdicts(people: list[pd.Series]) -> list[tuple[str, str]]:
    """Return the labels above an image with their colours: one per person, or one label that applies to all."""
    verdicts = [verdict(person) for person in people]
    if len({text for text, _ in verdicts}) == 1 and people[0]["gender"] not in _COLORS:
        return verdicts[:1]
    if len(verdicts) == 2:
        return verdicts
    # Three labels have no space for probabilities; for more people, the label is their number.
    short_labels = [(person["gender"] or text, color) for person, (text, color) in zip(people, verdicts, strict=True)]
    n = len(verdicts)
    return verdicts if n == 1 else short_labels if n == 3 else [(f"{n} people", style.GREY)]


def _lines(text: str, letters: int) -> list[str]:
    # SVG files must not contain control characters.
    printable = "".join(c if c.isprintable() else "\ufffd" for c in " ".join(str(text).split()))
    lines = textwrap.wrap(printable, letters)
    if len(lines) > _MOST_LINES:
        lines = [*lines[: _MOST_LINES - 1], lines[_MOST_LINES - 1][: letters - 1].rstrip() + "…"]
    return lines


def _aspect(image: object) -> float:
    """Return height divided by width, limited so that other images in the row stay visible."""
    if not isinstance(image, np.ndarray):
        return 1.0
    return float(np.clip(image.shape[0] / image.shape[1], 0.25, 2.0))
