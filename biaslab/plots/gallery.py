"""Galleries: images next to one another with what the judge saw in them."""

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

_LINE = 0.135  # inches that a line of caption needs
_MOST_LINES = 3
_COLORS = {"female": style.FEMALE, "male": style.MALE, "unsure": style.ORANGE}
# What shows all that was asked for, whatever it is.
_RIGHT = {"correct": style.GREEN}
# Outcomes whose names do not say it.
_WORDS = {"one_face": "too few faces", "overlapping": "faces overlap"}


def gallery(
    images: Sequence[np.ndarray | object],
    judgements: pd.DataFrame | Sequence[pd.DataFrame],
    captions: Sequence[str] = (),
    *,
    columns: int = 8,
    blur: bool = False,
) -> Figure:
    """Plot images in a grid: boxes of their faces, above each what was judged, below each its caption.

    The colour is that of the perceived gender (unsure has its own), grey and dashed where nobody was judged; the words
    say the same, of several people from left to right.

    Args:
        images: ``uint8 (height, width, 3)`` RGB, of any sizes; anything else is drawn as an empty frame with its
            ``reason``.
        judgements: One row per image, or one table per image with a row for each person, from left to right (as from
            :func:`biaslab.judges.people.judge_people`).
        captions: Texts below the images, none or one for each; long ones are cut.
        columns: Images in a row.
        blur: Whether faces are made unrecognisable, as they must be for real people's photos in reports. An image whose
            faces were not looked for is blurred as a whole.
    """
    captions = list(captions) or [""] * len(images)
    if not len(images):
        return style.nothing("The source has no images.")
    if isinstance(judgements, pd.DataFrame):
        judgements = [judgements.iloc[[k]] for k in range(len(judgements))]
    people = [[person for _, person in rows.iterrows()] for rows in judgements]
    columns = max(1, min(columns, len(images)))
    # Narrow cells hold short lines; a letter of this size is about 0.067 inches wide.
    letters = max(8, int(WIDTH / max(columns, 4) / 0.067))
    below = [_lines(text, letters) for text in captions]
    rows = [range(k, min(k + columns, len(images))) for k in range(0, len(images), columns)]
    side = WIDTH / max(columns, 4)
    tall = [max(_aspect(images[k]) for k in row) * (side - 0.1) for row in rows]
    text = [0.24 + _LINE * max(len(below[k]) for k in row) for row in rows]
    heights = [a + b + 0.06 for a, b in zip(tall, text, strict=True)]
    style.use()
    # Everything is placed by hand. A figure without any engine would be given the default one on saving.
    fig = plt.figure(figsize=(side * columns, sum(heights)), layout="constrained")
    fig.set_layout_engine("none")
    top = sum(heights)
    for row, height, image in zip(rows, heights, tall, strict=True):
        for column, k in enumerate(row):
            # The image hangs from the top of its row, below one line for the judgement.
            bottom = (top - 0.22 - image) / sum(heights)
            left = column / columns + 0.05 / (side * columns)
            ax = fig.add_axes((left, bottom, (side - 0.1) / (side * columns), image / sum(heights)), anchor="N")
            _draw(ax, images[k], people[k], below[k], blur)
        top -= height
    return fig


def blur_faces(image: np.ndarray, boxes: Iterable[Sequence[float]], *, margin: float = 0.2) -> np.ndarray:
    """Return a copy of an image (``uint8 (height, width, 3)``) in which no face can be recognised.

    Each box (x0, y0, x1, y1 in pixels; it may reach beyond the image), widened by ``margin`` of its size on all sides,
    is replaced by at most six by six averages of at least three by three pixels, smoothed.
    """
    out = image.copy()
    height, width = image.shape[:2]
    for x0, y0, x1, y1 in boxes:
        aside, above = margin * (x1 - x0), margin * (y1 - y0)
        left, right = (int(np.clip(v, 0, width)) for v in (np.floor(x0 - aside), np.ceil(x1 + aside)))
        top, bottom = (int(np.clip(v, 0, height)) for v in (np.floor(y0 - above), np.ceil(y1 + above)))
        if right <= left or bottom <= top:
            continue
        part = Image.fromarray(out[top:bottom, left:right])
        across, down = (min(6, max(1, side // 3)) for side in part.size)
        coarse = part.resize((across, down), Image.Resampling.BOX)
        out[top:bottom, left:right] = np.asarray(coarse.resize(part.size, Image.Resampling.BICUBIC))
    return out


def boxes_of(judgement: pd.Series) -> list[tuple[float, ...]]:
    """Return the boxes (x0, y0, x1, y1) of all faces in a judged image; none where no face was found."""
    flat = judgement.get("boxes")
    if flat is not None and len(flat):
        return [tuple(map(float, box)) for box in np.reshape(np.asarray(flat, float), (-1, 4))]
    one = [float(judgement.get(c, np.nan)) for c in ("x0", "y0", "x1", "y1")]
    return [] if np.isnan(one).any() else [tuple(one)]


def verdict(judgement: pd.Series) -> tuple[str, str]:
    """Return in words what was judged, with the probability of that gender, and the colour that goes with it."""
    outcome, gender, p = judgement["status"], judgement["gender"], float(judgement.get("probability_female", np.nan))
    if gender in _COLORS:
        shown = "" if np.isnan(p) else f" {1 - p if gender == 'male' else p:.2f}"
        # For an unsure one the probability is that of female: it has no gender of its own.
        said = f"unsure (f{shown})" if gender == "unsure" and shown else f"{gender}{shown}"
        return said, _COLORS[gender]
    return _WORDS.get(outcome, str(outcome).replace("_", " ")), _RIGHT.get(outcome, style.GREY)


def _draw(ax: Axes, image: object, people: list[pd.Series], lines: list[str], blur: bool) -> None:
    said = _verdicts(people)
    color = said[0][1] if len(said) == 1 else style.GREY
    ax.set(xticks=[], yticks=[])
    for spine in ax.spines.values():
        spine.set(visible=True, color=color, linewidth=1.6)
    boxes = [boxes_of(person) for person in people]
    if isinstance(image, np.ndarray):
        if blur:
            # A face that was not found, or that nobody looked for, may be anywhere.
            unseen = not all(boxes) and people[0]["status"] != "no_face"
            whole = (0.0, 0.0, float(image.shape[1]), float(image.shape[0]))
            image = blur_faces(image, [whole] if unseen else [box for found in boxes for box in found])
        ax.imshow(image, interpolation="nearest" if max(image.shape) <= 128 else "antialiased")
        for person, found in zip(people, boxes, strict=True):
            line = "-" if person["gender"] in _COLORS or person["status"] in _RIGHT else (0, (3, 2))
            look: Any = {"edgecolor": verdict(person)[1], "linewidth": 1.5, "linestyle": line}
            for x0, y0, x1, y1 in found:
                # Pixel k is drawn from k - 0.5 to k + 0.5. White below the colour shows on any image.
                at = ((x0 - 0.5, y0 - 0.5), x1 - x0, y1 - y0)
                ax.add_patch(Rectangle(*at, fill=False, edgecolor="white", linewidth=3))
                ax.add_patch(Rectangle(*at, fill=False, **look))
    else:
        ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", facecolor=style.LIGHT)
        reason = str(getattr(image, "reason", "") or "no image")
        ax.text(0.5, 0.5, reason, ha="center", va="center", fontsize=8, color=style.GREY)
    places: tuple[Literal["left", "center", "right"], ...] = ("left", "center", "right")
    places = ("left", "right") if len(said) == 2 else places
    for (text, shade), place in zip(said, places, strict=False):
        dark = 0.7 * np.array(to_rgb(shade))  # read as text on white
        ax.set_title(text, loc=place, fontsize=8, fontweight="bold", color=dark, pad=2)
    ax.annotate(
        "\n".join(lines), (0, 0), (0, -4), "axes fraction", "offset points",
        va="top", fontsize=8, color=style.BLACK, linespacing=1.2,
    )  # fmt: skip


def _verdicts(people: list[pd.Series]) -> list[tuple[str, str]]:
    """Return what stands above an image, with its colour: each person's verdict, or once what is true of all."""
    said = [verdict(person) for person in people]
    if len({text for text, _ in said}) == 1 and people[0]["gender"] not in _COLORS:
        return said[:1]
    if len(said) == 2:
        return said
    # There is no room for three numbers; more people than that are counted.
    short = [(person["gender"] or text, color) for person, (text, color) in zip(people, said, strict=True)]
    return said if len(said) == 1 else short if len(said) == 3 else [(f"{len(said)} people", style.GREY)]


def _lines(text: str, letters: int) -> list[str]:
    # Control characters are no part of an SVG file.
    shown = "".join(c if c.isprintable() else "\ufffd" for c in " ".join(str(text).split()))
    lines = textwrap.wrap(shown, letters)
    if len(lines) > _MOST_LINES:
        lines = [*lines[: _MOST_LINES - 1], lines[_MOST_LINES - 1][: letters - 1].rstrip() + "…"]
    return lines


def _aspect(image: object) -> float:
    """Return height over width, within bounds that keep a row's other images visible."""
    if not isinstance(image, np.ndarray):
        return 1.0
    return float(np.clip(image.shape[0] / image.shape[1], 0.25, 2.0))
