"""Figures of calibration against ground truth, and of the synthetic world itself.

The first argument of a function is the table that its docstring names, unless stated otherwise.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from biaslab.plots import forms, style
from biaslab.plots.forms import SeriesStyle
from biaslab.schema import tables
from biaslab_world import scene, truthful
from biaslab_world.render import render

if TYPE_CHECKING:
    from biaslab_world.captions import Corpus

NAMES = tables.labels("calibration_shares")["approach"]
_COVERAGE_STYLE = forms.series_style(
    {
        "held": ("interval includes the true share", style.BLUE, "o"),
        "missed": ("interval excludes the true share", style.VERMILION, "D"),
    }
)
_PARTS_STYLE = forms.series_style(
    {
        "total": ("model at this guidance scale, with interval", style.BLACK, "o"),
        "model": ("model at the lowest guidance scale", style.BLUE, "s"),
        "measurement": ("measurement alone (no model)", style.GREEN, "D"),
    }
)
_NO_MODEL = "world, no model"
# Height in pixels; images are larger here than the models' input.
_IMAGE_SIZE = 128


# -- shares and amplification --------------------------------------------------------------------------------


def shares(table: pd.DataFrame) -> Figure:
    """Draw measured shares against true ones, one panel per kind of images (``calibration_shares``)."""
    heads = np.where(table["source"] == "generated", "world, no model", table["approach"].map(NAMES))
    heads = heads + np.where(table["skew"] == "off", " (no planted bias)", "")
    is_covered = table["percent_true"].between(table["ci_low"], table["ci_high"])

    def draw_uncorrected(ax: Axes, rows: pd.DataFrame) -> None:
        ax.plot(rows["percent_true"], rows["percent_female"], ".", color=style.BLACK, ms=3, zorder=4)

    rows = table.assign(panel=[textwrap.fill(head, 30) for head in heads], inside=is_covered)
    rows["held"] = np.where(is_covered, "held", "missed")
    return forms.diagonal(
        rows.dropna(subset=["percent_true", "percent_female_corrected"]),
        "percent_true",
        "percent_female_corrected",
        labels=("True share of women (%)", "Corrected share perceived as female (%)"),
        ends=(-3, 103),
        color="held",
        styles=_COVERAGE_STYLE,
        panel="panel",
        limits=(("percent_true", "percent_true"), ("ci_low", "ci_high")),
        filled="inside",
        columns=3,
        under=draw_uncorrected,
        keys=[forms.key(style.BLACK, ".", "as judged, uncorrected")],
    )


def amplification(table: pd.DataFrame, *, definition: str = "paper", prompt: str = "pooled") -> Figure:
    """Draw amplification of world and model with the implied value (``calibration_amplification``).

    The figure uses one definition, for prompts ``pooled`` or their ``mean``.
    """
    rows = table[(table["definition"] == definition) & (table["prompt"] == prompt)]
    generators = rows["generator"] + ", guidance " + rows["guidance_scale"].map("{:g}".format)
    generators = generators.where(rows["generator"] != "world", _NO_MODEL)
    causes = np.where(rows["skew"] == "off", "\n(no planted bias)", "")
    return forms.estimates(
        rows.assign(made=generators, row=rows["approach"].map(NAMES) + causes),
        "amplification_corrected",
        row="row",
        color="made",
        styles=_generator_style(generators),
        label="Expected amplification (points)",
        null_mean="amplification",
        mark="implied",
        names={"null_mean": "uncorrected", "mark": "implied by true shares"},
    )


def _generator_style(generators: Sequence[str]) -> SeriesStyle:
    """Return the series style: the world always looks the same, and each model has its own colour and marker."""
    models = [name for name in dict.fromkeys(generators) if name != _NO_MODEL]
    shades = (style.BLUE, style.SKY, style.PURPLE, style.VERMILION, style.ORANGE, style.BLACK)
    return SeriesStyle(
        colors={_NO_MODEL: style.GREEN, **dict(zip(models, shades, strict=False))},
        markers={_NO_MODEL: "D", **dict(zip(models, "os^vPX", strict=False))},
    )


def guidance(table: pd.DataFrame, approaches: Sequence[str] = ("naive", "nearest_no_indicators", "matched")) -> Figure:
    """Draw the signed change against guidance, with the levels of measurement and model alone.

    The table is ``calibration_guidance``, with one panel for each of ``approaches`` that it contains.
    """
    rows = table[table["approach"].isin(approaches)]
    rows = rows.assign(scale=rows["guidance_scale"]).sort_values("scale", kind="stable")
    # Parts are stacked: measurement, then model.
    points = rows.groupby(["approach", "scale"])["change"].cumsum()
    levels = rows.assign(change=points, ci_low=np.nan, ci_high=np.nan)
    parts = [rows[rows["part"] == "total"], *(levels[levels["part"] == p] for p in ("model", "measurement"))]
    return forms.trends(
        pd.concat(parts),
        "scale",
        "change",
        labels=("Guidance scale", "Change in the true direction of bias (points)"),
        color="part",
        styles=_PARTS_STYLE,
        panel="approach",
        names={name: textwrap.fill(NAMES[name], 22) for name in approaches},
        reference=0,
        columns=3,
    )


# -- the world ---------------------------------------------------------------------------------------------------


_EXAMPLE_OCCUPATIONS = (
    *("nurse", "mechanic", "teacher", "pilot", "librarian"),
    *("chef", "scientist", "painter", "lawyer", "dancer"),
)


def skin_tones(*, seed: int = 0) -> Figure:
    """Draw renders of each skin tone, one row per gender; ``seed`` determines everything else."""

    def person(row: int, column: int, tone: int) -> np.ndarray:
        rng = np.random.default_rng([seed, row, column])
        fixed = {
            "genders": scene.GENDERS[row : row + 1],
            "occupations": (_EXAMPLE_OCCUPATIONS[column % len(_EXAMPLE_OCCUPATIONS)],),
        }
        return render(scene.sample_scene(rng, **fixed, skin_tones=(tone,)), _IMAGE_SIZE)

    rows = [[person(i, k, tone) for k, tone in enumerate(scene.SKIN_TONES)] for i in range(len(scene.GENDERS))]
    return _grid(rows, rows=scene.GENDERS, columns=[f"tone {tone}" for tone in scene.SKIN_TONES])


def ambiguity(*, seed: int = 0, across: int = 8) -> Figure:
    """Draw renders of clear and ambiguous people, ``across`` per row, by an ideal judge's probability of female."""
    renders = truthful.held_out(3000, seed=seed)
    posterior = renders.table["posterior"]
    kinds = {
        "clearly female": posterior > 0.999,
        "probably female": posterior.between(0.6, 0.98),
        "either": posterior.between(0.35, 0.65),
        "probably male": posterior.between(0.02, 0.4),
        "clearly male": posterior < 0.001,
    }
    image_ids = [renders.table.loc[fits, "image_id"].head(across) for fits in kinds.values()]
    n_columns = min(map(len, image_ids))
    return _grid(
        [[render(renders.scene(i), _IMAGE_SIZE) for i in ids[:n_columns]] for ids in image_ids], rows=list(kinds)
    )


def captions(corpus: Corpus, chosen: pd.DataFrame) -> Figure:
    """Draw captions with their images and ground truth; ``chosen`` is the result of ``parameters.examples``."""
    images = corpus.read(chosen["caption_id"], _IMAGE_SIZE)
    below = []
    for row in chosen.itertuples():
        facts = f"style: {row.truth_style}", f"indicator: {row.truth_indicator}"
        shows = f"shows: {row.truth_gender or 'no person'}"
        caption = textwrap.fill(f"“{row.text}”", 27)
        below.append("\n".join([caption, *(textwrap.fill(fact, 28) for fact in (*facts, shows))]))
    lines = range(0, len(images), 5)
    inches = forms.WIDTH / 5, 2.95
    return _grid([images[k : k + 5] for k in lines], below=[below[k : k + 5] for k in lines], inches=inches)


def _grid(
    images: Sequence[Sequence[np.ndarray]],
    *,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    below: Sequence[Sequence[str]] = (),
    inches: tuple[float, float] = (0.78, 0.78),
) -> Figure:
    """Draw rows of images, each ``inches`` wide and high, with names of rows and columns or a text below each."""
    across, down = max(map(len, images)), len(images)
    size = inches[0] * across + (1.4 if rows else 0), inches[1] * down + (0.4 if columns else 0.1)
    figure, axes = style.subplots(down, across, figsize=size, squeeze=False)
    figure.get_layout_engine().set(w_pad=0.01, h_pad=0.01, wspace=0.01, hspace=0.01)
    for ax in axes.flat:
        ax.set(xticks=[], yticks=[], frame_on=False)
    for i, line in enumerate(images):
        for j, image in enumerate(line):
            axes[i, j].imshow(image)
            if below:
                axes[i, j].set_xlabel(below[i][j], fontsize=8, loc="left", color=style.BLACK)
    for ax, name in zip(axes[0], columns, strict=False):
        ax.set_title(name, fontsize=8, loc="center", fontweight="normal")
    for ax, name in zip(axes[:, 0], rows, strict=False):
        ax.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=9, labelpad=6)
    return figure
