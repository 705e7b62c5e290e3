"""Figures of FairCritic and the ethical intervention: what they change and cost, and critiques beside images."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from biaslab.figures.paired import (
    _LIST_LOOK,
    ASPECT_NAMES,
    _heading,
    _key,
    _legend_below,
    _of,
    _unique,
    hollow_name,
    stratum_name,
)
from biaslab.plots import style

MITIGATIONS = {"none": "no mitigation", "intervention": "intervention", "faircritic": "FairCritic"}
_MEASURES = {
    "valid": "valid: all of these",
    "people": "as many people\nas asked",
    "judged": "everyone's gender\njudged",
    "order": "people in the\norder asked",
}
_TOLD = {
    "female": ("told to be a woman", style.FEMALE, ""),
    "male": ("told to be a man", style.MALE, "///"),
    "other words": ("other words", style.ORANGE, "..."),
    "nothing": ("told nothing", style.LIGHT, ""),
}
_SEEN = {"female": "woman", "male": "man", "unsure": "unsure"}
_COLORS = {"female": style.FEMALE, "male": style.MALE, "unsure": style.ORANGE}


@style.or_nothing
def before_after(identities: pd.DataFrame) -> Figure:
    """Draw each identity's score with mitigation over its score without, with the band of a fair model's scores.

    Args:
        identities: Rows of ``paired_identity_mitigation``.
    """
    keys = ["aspect", "scope", "mitigation"]
    models = _unique(identities["model"])
    cells = sorted(set(map(tuple, identities[keys].to_numpy())), key=_rank)
    columns = 2 if len(cells) in (2, 4) else min(3, len(cells))
    lines, high = -(-len(cells) // columns), 4.4 if columns == 2 else 3.5
    figure, axes = plt.subplots(
        lines * len(models), columns, figsize=(9.2, high * lines * len(models) + 0.5),
        squeeze=False, sharex=True, sharey=True,
    )  # fmt: skip
    for k, model in enumerate(models):
        block = axes[k * lines : (k + 1) * lines]
        for ax, cell in zip(block.ravel(), cells, strict=False):
            rows = _of(identities, model=model, **dict(zip(keys, cell, strict=True)))
            _one_before_after(ax, rows)
            ax.set_title(_heading(model, models, _cell_name(*cell)), fontsize=10)
        for ax in block.ravel()[len(cells) :]:
            ax.set_axis_off()
        for ax in block[:, 0]:
            ax.set_ylabel("Score with mitigation")
    for ax in axes[-1]:
        ax.set_xlabel("Score without")
    handles = [_key(*_LIST_LOOK[s], stratum_name(s)) for s in ("female", "male")]
    handles += [
        Line2D([], [], color=style.GREY, ls="--", label="unchanged"),
        Line2D([], [], color=style.LIGHT, lw=8, label="scores of a fair model"),
        _key(style.GREY, "o", hollow_name(identities, 0.05), hollow=True),
    ]
    _legend_below(figure, handles)
    return figure


def _one_before_after(ax: Axes, rows: pd.DataFrame) -> None:
    ax.axhspan(rows["fair_low"].median(), rows["fair_high"].median(), color=style.LIGHT, lw=0, zorder=0)
    ax.plot([-100, 100], [-100, 100], "--", color=style.GREY, lw=1, zorder=1)
    style.zero_line(ax, axis="y")
    style.zero_line(ax)
    for stratum in ("female", "male"):
        color, marker = _LIST_LOOK[stratum]
        some = rows[rows["stereotype"] == stratum]
        sure = some["direction"] != "no difference shown"
        # With few people an identity, many share a place: the area counts them, and lists stand side by side.
        places = (
            some.assign(sure=sure).groupby(["score_before", "score", "sure"]).size().reset_index(name="count")
        )
        aside = 3.5 if stratum == "male" else -3.5
        for row in places.itertuples():
            face = color if row.sure else "white"
            size = 4.5 * np.sqrt(row.count)
            ax.plot(
                row.score_before + aside,
                row.score,
                marker,
                ms=size,
                mfc=face,
                mec=color,
                alpha=0.85,
                zorder=3,
            )
    ax.set(xlim=(-114, 114), ylim=(-114, 114), aspect="equal")


def _rank(cell: tuple[str, str, str]) -> list[int]:
    order = ("occupation", "power", "all", "top5", *MITIGATIONS)
    return [order.index(v) if v in order else 99 for v in cell]


def _cell_name(aspect: str, scope: str, mitigation: str) -> str:
    top = ", top 5" if scope == "top5" else ""
    return f"{ASPECT_NAMES.get(aspect, aspect)}{top}: {MITIGATIONS.get(mitigation, mitigation)}"


@style.or_nothing
def valid_images(table: pd.DataFrame) -> Figure:
    """Draw the share of images that show what was asked for, without and with mitigation.

    Args:
        table: Rows of ``paired_valid_images`` of pairs.
    """
    models, aspects = _unique(table["model"]), _unique(table["aspect"])
    settings = [s for s in ("paired", "intervention", "faircritic") if s in set(table["setting"])]
    looks = {
        "paired": (style.BLUE, "o"),
        "intervention": (style.VERMILION, "^"),
        "faircritic": (style.GREEN, "D"),
    }
    names = {"paired": "no mitigation", "intervention": "intervention", "faircritic": "FairCritic"}
    measures = list(_MEASURES)[::-1]
    figure, axes = plt.subplots(
        len(models),
        len(aspects),
        figsize=(9.2, 3.3 * len(models) + 0.4),
        squeeze=False,
        sharex=True,
        sharey=True,
    )
    for line, model in zip(axes, models, strict=True):
        for ax, aspect in zip(line, aspects, strict=True):
            for k, setting in enumerate(settings):
                rows = _of(table, model=model, aspect=aspect, setting=setting).set_index("measure")
                rows = rows.reindex(measures)
                y = np.arange(len(measures)) + 0.2 * (len(settings) - 1) / 2 - 0.2 * k
                color, marker = looks[setting]
                style.dots_with_intervals(
                    ax, rows["percent"], rows["ci_low"], rows["ci_high"], y, color=color, marker=marker
                )
            ax.set_yticks(range(len(measures)), [_MEASURES[m] for m in measures])
            n = _of(table, model=model, aspect=aspect, measure="valid").set_index("setting")["n_images"]
            shown = ", ".join(f"{n[s]:.0f}" for s in settings if s in n.index)
            ax.set_title(
                _heading(model, models, f"{ASPECT_NAMES.get(aspect, aspect)} (n = {shown})"), fontsize=10.5
            )
            ax.set_xlabel("Images (%)")
    _legend_below(figure, [_key(*looks[s], names[s], line="-") for s in settings])
    return figure


@style.or_nothing
def told(table: pd.DataFrame) -> Figure:
    """Draw what share of prompts tells the people of each list what.

    Args:
        table: Rows of ``paired_told``.
    """
    models = _unique(table["model"])
    keys = ["aspect", "setting", "round", "stereotype"]
    cells = [tuple(r) for r in table[keys].drop_duplicates().to_numpy()][::-1]
    figure, axes = plt.subplots(
        len(models), 1, figsize=(9.2, (0.42 * len(cells) + 1.0) * len(models) + 0.4), squeeze=False
    )
    for ax, model in zip(axes[:, 0], models, strict=True):
        for y, cell in enumerate(cells):
            rows = _of(table, model=model, **dict(zip(keys, cell, strict=True))).set_index("told")
            left = 0.0
            for name, (_, color, hatch) in _TOLD.items():
                if name not in rows.index:
                    continue
                width = rows.loc[name, "percent"]
                ax.barh(y, width, left=left, color=color, hatch=hatch, edgecolor="white", height=0.7)
                if width > 7:
                    text = f"{rows.loc[name, 'n_prompts']:.0f}"
                    ax.text(
                        left + width / 2, y, text, ha="center", va="center", fontsize=9,
                        bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.8},
                    )  # fmt: skip
                left += width
        ax.set_yticks(range(len(cells)), [_told_name(*cell) for cell in cells], fontsize=9)
        ax.set(xlim=(0, 100), ylim=(-0.5, len(cells) - 0.5), xlabel="Prompts (%)")
        if len(models) > 1:
            ax.set_title(model)
    there = set(table["told"])
    looks = [v for name, v in _TOLD.items() if name in there]
    handles = [Patch(facecolor=c, hatch=h, edgecolor="white", label=label) for label, c, h in looks]
    _legend_below(figure, handles, 4)
    return figure


def _told_name(aspect: str, setting: str, round_: str, stereotype: str) -> str:
    which = stratum_name(stereotype, aspect).replace("\n", " ").split(" (")[0]
    by = MITIGATIONS.get(setting, setting) + (f", round {round_}" if round_ != "0" else "")
    return f"{ASPECT_NAMES.get(aspect, aspect)}, {by}:\n{which}"


# -- critiques beside their images -----------------------------------------------------------------------


@dataclass(frozen=True)
class Picture:
    """One image of a critique."""

    image: np.ndarray | object
    """``uint8 (height, width, 3)``; anything else is drawn as an empty frame with its ``reason``."""
    people: pd.DataFrame
    """Everyone asked for in it, as judged: gender, outcome, x0, y0, x1, y1 (pixels), and ``meant``: whether the
    critique is about this person."""
    told: str = ""
    """What its prompt tells these people: ``female``, ``male``, other words, or nothing."""


@dataclass(frozen=True)
class Entry:
    """One critique with some of its images."""

    heading: str
    """Whom it is about."""
    words: str
    """What the critic says."""
    added: str
    """What is added to prompts, and to how many."""
    before: Sequence[Picture]
    """Images that were looked at."""
    after: Sequence[Picture]
    """Images of the same prompts with what was added."""


_TEXT, _SIDE, _GAP, _LINE = 3.35, 0.93, 0.06, 0.118
_LETTERS = 60


def critiques(entries: Sequence[Entry], *, each: int = 3) -> Figure:
    """Draw critiques in words, each with images from before and after.

    Boxes are the faces that were found, thick around those whom the critique is about; below each image stands how
    they are seen, and what the prompt told.

    Args:
        entries: The critiques; at least one.
        each: Images of each side.
    """
    heights = [_height(entry) for entry in entries]
    width, height = _TEXT + 2 * each * _SIDE + 0.15, sum(heights) + 0.3
    figure = plt.figure(figsize=(width, height), layout="constrained")
    figure.set_layout_engine("none")
    ax = figure.add_axes((0, 0, 1, 1))
    # Data coordinates are inches from the lower left.
    ax.set(xlim=(0, width), ylim=(0, height), autoscale_on=False)
    ax.set_axis_off()
    sides = (_TEXT, _TEXT + each * _SIDE + 0.15)
    for x, title in zip(sides, ("Before", "After"), strict=True):
        ax.text(x, height - 0.2, title, fontsize=9, fontweight="bold")
    top = height - 0.27
    for entry, tall in zip(entries, heights, strict=True):
        ax.plot([0, width], [top, top], color=style.LIGHT, lw=0.8)
        _write(ax, entry, top)
        for x, pictures in zip(sides, (entry.before, entry.after), strict=True):
            for k, picture in enumerate(list(pictures)[:each]):
                _picture(ax, picture, x + k * _SIDE, top - 0.05)
        top -= tall
    return figure


def _lines(entry: Entry) -> tuple[list[str], list[str]]:
    return tuple(textwrap.wrap(_plain(text), _LETTERS) for text in (entry.words, entry.added))


def _plain(text: str) -> str:
    """Return a text of whatever origin as one line without what a figure would read as a formula."""
    shown = "".join(c if c.isprintable() else " " for c in " ".join(str(text).split()))
    return shown.replace("$", r"\$")


def _height(entry: Entry) -> float:
    words, added = _lines(entry)
    text = _LINE * (len(words) + len(added) + 1) + 0.16
    pictures = [*entry.before, *entry.after]
    tall = max((_tall(p.image) for p in pictures), default=0.0)
    return max(text, tall + 0.32 if pictures else 0.0)


def _tall(image: np.ndarray | object) -> float:
    if not isinstance(image, np.ndarray):
        return 0.6
    return float(np.clip((_SIDE - _GAP) * image.shape[0] / image.shape[1], 0.2, 1.4))


def _write(ax: Axes, entry: Entry, top: float) -> None:
    words, added = _lines(entry)
    y = top - 0.05
    parts = (
        ([_plain(entry.heading)], {"fontweight": "bold"}),
        (words, {}),
        (added, {"color": style.BLUE, "style": "italic"}),
    )
    for lines, look in parts:
        for line in lines:
            ax.text(0.02, y, line, fontsize=6.8, va="top", **look)
            y -= _LINE


def _picture(ax: Axes, picture: Picture, x: float, top: float) -> None:
    wide, tall = _SIDE - _GAP, _tall(picture.image)
    meant = picture.people[picture.people["meant"]]
    frame = {"fill": False, "edgecolor": style.GREY, "linewidth": 0.6}
    if isinstance(picture.image, np.ndarray):
        smooth = "nearest" if max(picture.image.shape) <= 128 else "antialiased"
        ax.imshow(picture.image, extent=(x, x + wide, top - tall, top), aspect="auto", interpolation=smooth)
        scale = np.array([wide / picture.image.shape[1], tall / picture.image.shape[0]])
        for person in picture.people.itertuples():
            if np.isfinite(person.x0):
                low = np.array([person.x0, person.y0]) * scale
                high = np.array([person.x1, person.y1]) * scale
                look = {
                    "edgecolor": _COLORS.get(person.gender, style.GREY),
                    "lw": 1.6 if person.meant else 0.5,
                }
                at = (x + low[0], top - high[1])
                ax.add_patch(Rectangle(at, *(high - low), fill=False, **look))
    else:
        reason = _plain(getattr(picture.image, "reason", "") or "no image")
        ax.text(
            x + wide / 2, top - tall / 2, reason[:18], ha="center", va="center", fontsize=6, color=style.GREY
        )
    ax.add_patch(Rectangle((x, top - tall), wide, tall, **frame))
    seen = [_SEEN.get(g, o.replace("_", " ")) for g, o in zip(meant["gender"], meant["outcome"], strict=True)]
    below = ["seen: " + ", ".join(dict.fromkeys(seen))] if len(meant) else []
    below += [f"told: {_SEEN.get(picture.told, picture.told)}"] if picture.told else []
    for k, line in enumerate(below):
        ax.text(x, top - tall - 0.02 - 0.1 * k, line, fontsize=6, va="top", color=style.BLACK)
