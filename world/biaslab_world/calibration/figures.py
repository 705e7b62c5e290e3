"""Figures of calibration against known truth, and of the embedded world itself.

Where a function says no more of its first argument, that is the table that it names.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from biaslab.papers.paradox.figures import APPROACH_NAMES
from biaslab.plots import forms, style
from biaslab.plots.forms import Look
from biaslab_world import scene, truthful
from biaslab_world.render import render

if TYPE_CHECKING:
    from biaslab_world.captions import Corpus

NAMES = {**APPROACH_NAMES, "matched": "Captions that ask the same"}
COMPONENT_NAMES = {
    "exclusion_distance": "leaving out flips, against their distance",
    "exclusion_direction": "leaving out flips, against their direction",
    "threshold": "only sure answers",
    "face_gate": "only one large face",
    "finite_samples": "few images a share",
    "judge_error": "judge in place of truth",
}
KIND_NAMES = {
    "all": "all captions",
    "no indicator": "without a gender indicator",
    "prompt-like": "prompt-like",
    "prompt-like, no indicator": "prompt-like, without an indicator",
}
SKEW_NAMES = {
    "default": "default: all knobs",
    "naming": "naming alone",
    "prompts": "skewed prompts alone",
    "off": "off: no paradox",
}
_JUDGED = forms.look(
    {
        "female": ("judged female", style.FEMALE),
        "male": ("judged male", style.MALE),
        "uncertain": ("not sure", style.ORANGE),
        "no_face": ("no face", style.LIGHT),
        "several_faces": ("several faces", style.LIGHT),
        "face_too_small": ("face too small", style.LIGHT),
        "unreadable": ("unreadable", style.BLACK),
    }
)
_ANSWERS = forms.look(
    {
        "likelier": ("likelier gender, all that pass the gate", style.BLUE, "o"),
        "judged": ("sure answers only", style.GREEN, "D"),
    }
)
_MEASURES = forms.look(
    {
        "sensitivity": ("women judged female", style.FEMALE, "o"),
        "specificity": ("men judged male", style.MALE, "s"),
    }
)
_HELD = forms.look(
    {
        "held": ("interval holds the true share", style.BLUE, "o"),
        "missed": ("interval misses it", style.VERMILION, "D"),
    }
)
_PARTS = forms.look(
    {
        "total": ("model at this guidance, with interval", style.BLACK, "o"),
        "model": ("the model at the lowest guidance", style.BLUE, "s"),
        "measurement": ("measurement alone: no model", style.GREEN, "D"),
    }
)
_NO_MODEL = "world: no model"
# Pictures are drawn larger than models see them.
_SHOWN = 128


# -- the judge ---------------------------------------------------------------------------------------------


def confusion(table: pd.DataFrame) -> Figure:
    """Draw what became of held-out renders, a bar for each truth and clearness (``calibration_confusion``)."""
    clear = {"all": "all", "unambiguous": "unambiguous cues", "ambiguous": "ambiguous cues"}
    bars = [f"{clear[r.cues]}, shows {r.truth} (n = {r.n_images:,.0f})" for r in table.itertuples()]
    return forms.stacked(
        table.assign(bar=bars),
        "percent",
        row="bar",
        part="judged",
        look=_JUDGED,
        label="Renders (%)",
        counts="n",
    )


def judge_accuracy(table: pd.DataFrame) -> Figure:
    """Draw the judge's accuracy beside what an ideal judge of the cues would reach (``calibration_judge``)."""
    rows = table[table["truth"] == "all"]
    return forms.estimates(
        rows.assign(row=[f"{r.cues} (n = {r.n_images:,.0f})" for r in rows.itertuples()]),
        "accuracy",
        row="row",
        hue="answers",
        look=_ANSWERS,
        label="Right answers (%)",
        reference=None,
        floor="ceiling",
        floor_name="ideal judge of the cues, same renders",
        inch=0.6,
    )


def reliability(table: pd.DataFrame) -> Figure:
    """Draw the share of women among renders against the judge's probability (``calibration_reliability``)."""
    some = table[table["n"] > 0]

    def ideal(ax: Axes, rows: pd.DataFrame) -> None:
        ax.plot(rows["mean_judge"], rows["mean_ideal"], "_", color=style.VERMILION, ms=13, mew=2)

    return forms.diagonal(
        some.assign(size=[f"n = {n:,.0f}" for n in some["n"]]),
        "mean_judge",
        "percent_true",
        labels=("Judge's probability of female, mean of the bin (%)", "Renders that show a woman (%)"),
        ends=(-3, 103),
        limits=(("mean_judge", "mean_judge"), ("ci_low", "ci_high")),
        names="size",
        named=len(some),
        under=ideal,
        keys=[
            forms.key(style.BLUE, "o", "renders that show a woman"),
            forms.key(style.VERMILION, "_", "by Bayes' rule from their cues"),
        ],
    )


def judge_by_occupation(table: pd.DataFrame, *, most: int = 20) -> Figure:
    """Draw sensitivity and specificity of the ``most`` occupations with the lowest of either, and of all together.

    The table is ``calibration_judge_by_occupation``.
    """
    known = table[table["measure"].isin(_MEASURES.names)]
    lowest = known[known["occupation"] != "all"].groupby("occupation")["value"].min().nsmallest(most)
    shown = ["all", *lowest.index]
    some = known[known["occupation"].isin(shown)]
    return forms.estimates(
        some.sort_values("occupation", key=lambda c: c.map(shown.index), kind="stable"),
        "value",
        row="occupation",
        hue="measure",
        look=_MEASURES,
        row_names={"all": "all occupations"},
        label="Right among judged (%)",
        reference=None,
        inch=0.24,
    )


# -- shares and amplification --------------------------------------------------------------------------------


def shares(table: pd.DataFrame) -> Figure:
    """Draw measured shares against true ones, a panel for each kind of images (``calibration_shares``)."""
    heads = np.where(table["source"] == "generated", "World, no model", table["approach"].map(NAMES))
    heads = heads + np.where(table["skew"] == "off", " (knobs off)", "")
    inside = table["percent_true"].between(table["corrected_low"], table["corrected_high"])

    def judged(ax: Axes, rows: pd.DataFrame) -> None:
        ax.plot(rows["percent_true"], rows["percent_female"], ".", color=style.BLACK, ms=3, zorder=4)

    rows = table.assign(panel=[textwrap.fill(head, 30) for head in heads], inside=inside)
    rows["held"] = np.where(inside, "held", "missed")
    return forms.diagonal(
        rows.dropna(subset=["percent_true", "percent_corrected"]),
        "percent_true",
        "percent_corrected",
        labels=("True share of women (%)", "As judged, corrected (%)"),
        ends=(-3, 103),
        hue="held",
        look=_HELD,
        panel="panel",
        limits=(("percent_true", "percent_true"), ("corrected_low", "corrected_high")),
        filled="inside",
        columns=3,
        under=judged,
        keys=[forms.key(style.BLACK, ".", "as judged, uncorrected")],
    )


def amplification(table: pd.DataFrame, *, definition: str = "published", prompt: str = "pooled") -> Figure:
    """Draw amplification of world and model beside what the truth implies (``calibration_amplification``).

    By one definition, of prompts ``pooled`` or of their ``mean``.
    """
    some = table[(table["definition"] == definition) & (table["prompt"] == prompt)]
    made = some["generator"] + ", guidance " + some["guidance_scale"].map("{:g}".format)
    made = made.where(some["generator"] != "world", _NO_MODEL)
    knobs = np.where(some["skew"] == "off", "\n(all knobs off)", "")
    return forms.estimates(
        some.assign(made=made, row=some["approach"].map(NAMES) + knobs),
        "amplification",
        row="row",
        hue="made",
        look=_look(made),
        label="Expected amplification (points)",
        floor="amplification_plain",
        floor_name="before its floor is taken off",
        mark="implied",
        mark_name="implied by true shares",
    )


def _look(generators: Sequence[str]) -> Look:
    """Return how generators look: the world always the same, models in shades of their own."""
    models = [name for name in dict.fromkeys(generators) if name != _NO_MODEL]
    shades = (style.BLUE, style.SKY, style.PURPLE, style.VERMILION, style.ORANGE, style.BLACK)
    return Look(
        colors={_NO_MODEL: style.GREEN, **dict(zip(models, shades, strict=False))},
        markers={_NO_MODEL: "D", **dict(zip(models, "os^vPX", strict=False))},
    )


def guidance(
    table: pd.DataFrame, approaches: Sequence[str] = ("naive", "nearest_no_indicators", "matched")
) -> Figure:
    """Draw the signed change against guidance, with the levels that measurement and model alone reach.

    Of ``calibration_guidance``, a panel each of ``approaches``; those that the table lacks are left out.
    """
    some = table[table["approach"].isin(approaches)]
    some = some.assign(scale=some["guidance_scale"]).sort_values("scale", kind="stable")
    # Parts stand on top of one another: measurement, then model.
    points = some.groupby(["approach", "scale"])["change"].cumsum()
    levels = some.assign(change=points, ci_low=np.nan, ci_high=np.nan)
    parts = [some[some["part"] == "total"], *(levels[levels["part"] == p] for p in ("model", "measurement"))]
    return forms.trends(
        pd.concat(parts),
        "scale",
        "change",
        labels=("Guidance scale", "Change along the true lean (points)"),
        hue="part",
        look=_PARTS,
        panel="approach",
        panel_names={name: textwrap.fill(NAMES[name], 22) for name in approaches},
        reference=0,
        even=True,
        columns=3,
    )


def contributions(table: pd.DataFrame) -> Figure:
    """Draw what each rule of measurement adds, a panel a selection of captions (``calibration_contributions``)."""
    made = table["generator"].replace("world", _NO_MODEL)
    return forms.estimates(
        table.assign(known=table["ci_low"].notna(), made=made),
        "contribution",
        row="component",
        hue="made",
        look=_look(made),
        panel="approach",
        panel_names=NAMES,
        row_names=COMPONENT_NAMES,
        label="Contribution (points)",
        inch=0.29,
        filled="known",
        filled_names=("with an interval", "an estimate without one"),
    )


# -- the world ---------------------------------------------------------------------------------------------------


def conditional(table: pd.DataFrame) -> Figure:
    """Draw how much further each kind of caption leans, world by world (``world_conditional``)."""
    return forms.estimates(
        table[table["captions"] != "all"],
        "lean_gain",
        row="skew",
        hue="captions",
        look=Look(KIND_NAMES),
        row_names=SKEW_NAMES,
        label="Further from 50 % than all captions (points, mean over occupations)",
        limits=None,
    )


def occupations(table: pd.DataFrame) -> Figure:
    """Draw the share of women behind each kind of caption, occupation by occupation (``world_occupations``)."""
    whole = table[table["captions"] == "all"].set_index("occupation")["percent_true"].sort_values()
    place = table["occupation"].map({name: i for i, name in enumerate(whole.index)})
    rows = table.assign(place=place, part=place // (len(whole) / 2))
    rows = rows[rows["captions"] != "prompt-like"].sort_values("place", kind="stable")
    return forms.estimates(
        rows,
        "percent_true",
        row="occupation",
        hue="captions",
        look=Look(KIND_NAMES),
        panel="part",
        panel_names={0: "", 1: ""},
        label="P(female) (%)",
        limits=None,
        reference=50,
        xlim=(-2, 102),
        columns=2,
        inch=0.13,
    )


_WORK = (
    *("nurse", "mechanic", "teacher", "pilot", "librarian"),
    *("chef", "scientist", "painter", "lawyer", "dancer"),
)
_LIGHTS = {
    "neutral": scene.Light(),
    "warm": scene.Light(1.075, 1.0, 0.925),
    "cool": scene.Light(0.925, 1.0, 1.075),
    "dim": scene.Light(strength=0.84),
    "bright": scene.Light(strength=1.06),
    "dim, warm": scene.Light(1.075, 1.0, 0.925, 0.84),
}


def people(*, by: str, seed: int = 0) -> Figure:
    """Draw renders with one thing varied and the rest drawn at random by ``seed``, a row for each gender.

    ``by`` is ``skin_tone``, ``age`` or ``light``.
    """
    columns = {
        "skin_tone": [({"skin_tones": (tone,)}, f"tone {tone}") for tone in scene.SKIN_TONES],
        "age": [({"ages": (age,)}, age) for age in scene.AGES for _ in range(3)],
        "light": [({"light": light}, name) for name, light in _LIGHTS.items()],
    }[by]

    def person(row: int, column: int, given: dict) -> np.ndarray:
        # One person all along a row of lights; everywhere else a new one each time.
        work, column = ("chef", 0) if by == "light" else (_WORK[column % len(_WORK)], column)
        rng = np.random.default_rng([seed, row, column])
        fixed = {"genders": scene.GENDERS[row : row + 1], "occupations": (work,)}
        return render(scene.sample_scene(rng, **fixed, **given), _SHOWN)

    rows = [[person(i, k, given) for k, (given, _) in enumerate(columns)] for i in range(len(scene.GENDERS))]
    return _grid(rows, rows=scene.GENDERS, columns=[name for _, name in columns])


def ambiguity(*, seed: int = 0, across: int = 8) -> Figure:
    """Draw renders of clear and of ambiguous people, ``across`` in a row, by what an ideal judge would say."""
    renders = truthful.held_out(3000, seed=seed)
    posterior = renders.table["posterior"]
    kinds = {
        "clearly female": posterior > 0.999,
        "rather female": posterior.between(0.6, 0.98),
        "either": posterior.between(0.35, 0.65),
        "rather male": posterior.between(0.02, 0.4),
        "clearly male": posterior < 0.001,
    }
    shown = [renders.table.loc[fits, "image_id"].head(across) for fits in kinds.values()]
    most = min(map(len, shown))
    return _grid([[render(renders.scene(i), _SHOWN) for i in ids[:most]] for ids in shown], rows=list(kinds))


def captions(corpus: Corpus, chosen: pd.DataFrame) -> Figure:
    """Draw captions with their images and what is true of them: ``chosen`` as ``knobs.examples`` returns it."""
    images = corpus.read(chosen["caption_id"], _SHOWN)
    below = []
    for row in chosen.itertuples():
        facts = f"style: {row.truth_style}", f"indicator: {row.truth_indicator}"
        shows = f"shows: {row.truth_gender or 'nobody'}"
        said = textwrap.fill(f"“{row.text}”", 27).replace("$", r"\$")
        below.append("\n".join([said, *(textwrap.fill(fact, 28) for fact in (*facts, shows))]))
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
    """Draw rows of images of some width and height in inches: with names of rows and columns, or a text below each."""
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
                axes[i, j].set_xlabel(below[i][j], fontsize=7.5, loc="left", color=style.BLACK)
    for ax, name in zip(axes[0], columns, strict=False):
        ax.set_title(name, fontsize=8, loc="center", fontweight="normal")
    for ax, name in zip(axes[:, 0], rows, strict=False):
        ax.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=9, labelpad=6)
    return figure
