"""Figures across papers: calibration against known truth, the embedded world, the specification curve."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from biaslab.mini import scene, truthful
from biaslab.mini.render import render
from biaslab.papers.paradox.figures import APPROACH_NAMES
from biaslab.plots import forms, style
from biaslab.plots.forms import Look

if TYPE_CHECKING:
    from biaslab.mini.captions import Corpus

NAMES = {**APPROACH_NAMES, "matched": "Captions that ask the same"}
COMPONENT_NAMES = {
    "exclusion_distance": "leaving out flips,\nagainst their distance",
    "exclusion_direction": "leaving out flips,\nagainst their direction",
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
_JUDGED = Look(
    names={
        "female": "judged female",
        "male": "judged male",
        "uncertain": "not sure",
        "no_face": "no face",
        "several_faces": "several faces",
        "face_too_small": "face too small",
        "unreadable": "unreadable",
    },
    colors={
        "female": style.FEMALE,
        "male": style.MALE,
        "uncertain": style.ORANGE,
        "no_face": style.LIGHT,
        "several_faces": style.LIGHT,
        "face_too_small": style.LIGHT,
        "unreadable": style.BLACK,
    },
)
_ANSWERS = Look(
    names={"likelier": "likelier gender, all that pass the gate", "judged": "sure answers only"},
    colors={"likelier": style.BLUE, "judged": style.GREEN},
    markers={"likelier": "o", "judged": "D"},
)
_MEASURES = Look(
    names={"sensitivity": "women judged female", "specificity": "men judged male"},
    colors={"sensitivity": style.FEMALE, "specificity": style.MALE},
    markers={"sensitivity": "o", "specificity": "s"},
)
# Pictures are drawn larger than models see them.
_SHOWN = 128


# -- the judge ---------------------------------------------------------------------------------------------


def confusion(table: pd.DataFrame) -> Figure:
    """Draw what became of held-out renders, one bar for each truth and clearness.

    Args:
        table: Rows of ``calibration_confusion``.
    """
    clear = {"all": "all", "unambiguous": "unambiguous cues", "ambiguous": "ambiguous cues"}
    bars = [
        f"{clear[r.cues]}, shows {r.truth} (n = {r.n_images:,.0f})"
        for r in table[["cues", "truth", "n_images"]].itertuples()
    ]
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
    """Draw the judge's accuracy with intervals; grey marks: what an ideal judge of the cues would reach.

    Args:
        table: Rows of ``calibration_judge``.
    """
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
    """Draw the share of women among renders against the judge's probability.

    Args:
        table: Rows of ``calibration_reliability``.
    """
    some = table[table["n"] > 0]
    figure, ax = style.subplots(figsize=(6.2, 5.8))
    ax.plot([0, 100], [0, 100], color=style.GREY, lw=1, ls="--", zorder=1, label="says what is")
    ax.vlines(some["mean_judge"], some["ci_low"], some["ci_high"], color=style.BLUE, lw=1.6, alpha=0.7)
    ax.plot(
        some["mean_judge"],
        some["percent_female"],
        "o",
        color=style.BLUE,
        markersize=7,
        label="renders that show a woman",
    )
    ax.plot(
        some["mean_judge"],
        some["mean_ideal"],
        "_",
        color=style.VERMILION,
        markersize=13,
        mew=2,
        label="by Bayes' rule from their cues",
    )
    for row in some.itertuples():
        # Beside the line and towards the middle, where there is room; near the ends there is none.
        right = row.mean_judge < 50
        at = {"xytext": (9 if right else -9, -14 if right else 8), "textcoords": "offset points"}
        if 8 < row.mean_judge < 92:
            where = {"ha": "left" if right else "right", "fontsize": 8}
            ax.annotate(f"n = {row.n:,.0f}", (row.mean_judge, row.percent_female), **at, **where)
    ax.set(xlim=(-3, 103), ylim=(-3, 103), aspect="equal")
    ax.set_xlabel("Judge's probability of female, mean of the bin (%)")
    ax.set_ylabel("Renders that show a woman (%)")
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def judge_by_occupation(table: pd.DataFrame, *, most: int = 20) -> Figure:
    """Draw sensitivity and specificity of the occupations with the lowest of either, and of all together.

    Args:
        table: Rows of ``calibration_judge_by_occupation``.
        most: How many occupations.
    """
    known = table[table["measure"].isin(_MEASURES.names)]
    lowest = known[known["occupation"] != "all"].groupby("occupation")["value"].min().nsmallest(most)
    shown = ["all", *lowest.index]
    some = known[known["occupation"].isin(shown)]
    some = some.sort_values("occupation", key=lambda c: c.map(shown.index), kind="stable")
    return forms.estimates(
        some,
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
    """Draw measured shares against true ones, one panel for each kind of images.

    Args:
        table: Rows of ``calibration_shares``.
    """
    keys = ["source", "skew", "approach"]
    groups = [(key, rows) for key, rows in table.groupby(keys, sort=False)]
    columns = min(4, len(groups))
    lines = -(-len(groups) // columns)
    figure, axes = style.subplots(
        lines, columns, figsize=(2.3 * columns, 2.7 * lines + 0.5), squeeze=False, sharex=True, sharey=True
    )
    for ax in axes.flat[len(groups) :]:
        ax.set_visible(False)
    for ax, ((source, skew, approach), rows) in zip(axes.flat, groups, strict=False):
        some = rows.dropna(subset=["percent_true", "percent_corrected"])
        ax.plot([0, 100], [0, 100], color=style.GREY, lw=1, ls="--", zorder=1)
        inside = some["percent_true"].between(some["corrected_low"], some["corrected_high"])
        ax.vlines(
            some["percent_true"],
            some["corrected_low"],
            some["corrected_high"],
            color=style.GREY,
            lw=0.7,
            alpha=0.6,
            zorder=2,
        )
        ax.plot(
            rows["percent_true"], rows["percent_female"], ls="", marker=".", ms=2, color="black", zorder=4
        )
        for held, fill, marker in ((inside, style.BLUE, "o"), (~inside, "white", "D")):
            look = {"facecolor": fill, "edgecolor": style.BLUE if held is inside else style.VERMILION}
            ax.scatter(
                some.loc[held, "percent_true"],
                some.loc[held, "percent_corrected"],
                s=20,
                marker=marker,
                zorder=3,
                lw=1,
                **look,
            )
        what = "World, no model" if source == "generated" else NAMES[approach]
        ax.set_title(textwrap.fill(what + (" (knobs off)" if skew == "off" else ""), 22), fontsize=9)
        ax.set(xlim=(-3, 103), ylim=(-3, 103), aspect="equal")
    for ax in axes[:, 0]:
        ax.set_ylabel("As judged, corrected (%)")
    for k in range(columns):
        last = [ax for ax in axes[:, k] if ax.get_visible()][-1]
        last.set_xlabel("True share of women (%)")
        last.tick_params(labelbottom=True)
    looks = [
        Line2D([], [], marker="o", ls="", color=style.BLUE, label="interval holds the true share"),
        Line2D(
            [],
            [],
            marker="D",
            ls="",
            markerfacecolor="white",
            color=style.VERMILION,
            label="interval misses it",
        ),
        Line2D([], [], marker=".", ms=3, ls="", color="black", label="as judged, uncorrected"),
    ]
    figure.legend(handles=looks, loc="outside lower center", ncols=3)
    return figure


def amplification(table: pd.DataFrame, *, definition: str = "published", prompt: str = "pooled") -> Figure:
    """Draw amplification of world and model beside what the truth implies, approach by approach.

    Args:
        table: Rows of ``calibration_amplification``.
        definition: Which definition to draw.
        prompt: ``pooled`` or ``mean``.
    """
    some = table[(table["definition"] == definition) & (table["prompt"] == prompt)]
    groups = list(some[["skew", "approach"]].drop_duplicates().itertuples(index=False, name=None))
    generators = list(
        some[["generator", "guidance_scale"]].drop_duplicates().itertuples(index=False, name=None)
    )
    lines = sum(len(_of(some, g)) for g in groups) + 0.8 * len(groups)
    figure, ax = style.subplots(figsize=(forms.WIDTH, 0.3 * lines + 1.6))
    style.zero_line(ax)
    y, places, names = 0.0, [], []
    for group in groups:
        rows = _of(some, group)
        start = y
        for row in rows.itertuples():
            color, marker = _look(generators, (row.generator, row.guidance_scale))
            style.dots_with_intervals(
                ax, [row.beyond_floor], [row.ci_low], [row.ci_high], [y], color=color, marker=marker
            )
            ax.plot(
                row.amplification,
                y,
                marker,
                markerfacecolor="none",
                markeredgecolor=color,
                markersize=5,
                alpha=0.7,
            )
            y += 1
        implied = rows["implied"].iloc[0]
        ax.vlines(implied, start - 0.5, y - 0.5, color=style.BLACK, lw=1.8)
        places.append((start + y - 1) / 2)
        names.append(NAMES[group[1]] + ("\n(all knobs off)" if group[0] == "off" else ""))
        y += 0.8
    ax.set_yticks(places, names)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(y - 0.9, -0.8)
    ax.set_xlabel("Expected amplification (points)")
    handles = [_handle(generators, g) for g in generators]
    handles.append(Line2D([], [], color=style.BLACK, lw=1.8, label="implied by true shares"))
    plain = {"marker": "o", "ls": "", "markerfacecolor": "none", "color": style.GREY, "markersize": 5}
    handles.append(Line2D([], [], **plain, label="before its floor is taken off"))
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


def _of(rows: pd.DataFrame, group: tuple[str, str]) -> pd.DataFrame:
    return rows[(rows["skew"] == group[0]) & (rows["approach"] == group[1])]


def _look(generators: list, generator: tuple[str, str]) -> tuple[str, str]:
    if generator[0] == "world":
        return style.GREEN, "D"
    models = [g for g in generators if g[0] != "world"]
    shade = (style.SKY, style.BLUE, style.PURPLE, style.VERMILION, style.ORANGE, style.BLACK)
    k = models.index(generator)
    return shade[k % len(shade)], ("o", "s", "^", "v", "P", "X")[k % 6]


def _handle(generators: list, generator: tuple[str, str]) -> Line2D:
    color, marker = _look(generators, generator)
    name = "world: no model" if generator[0] == "world" else f"{generator[0]}, guidance {generator[1]}"
    return Line2D([], [], color=color, marker=marker, markersize=6, lw=1.8, label=name)


def guidance(
    table: pd.DataFrame, approaches: Sequence[str] = ("naive", "nearest_no_indicators", "matched")
) -> Figure:
    """Draw the signed change against guidance, with the levels that measurement and model alone reach.

    Args:
        table: Rows of ``calibration_guidance``.
        approaches: Which to draw, one panel each; those that the table lacks are left out.
    """
    there = [a for a in approaches if a in set(table["approach"])]
    figure, axes = style.subplots(
        1, max(len(there), 1), figsize=(2.9 * max(len(there), 1) + 0.5, 3.9), sharey=True, squeeze=False
    )
    for ax, approach in zip(axes.flat, there, strict=False):
        some = table[table["approach"] == approach].assign(scale=lambda t: t["guidance_scale"].astype(float))
        wide = some.pivot(index="scale", columns="part", values="points").sort_index()
        total = some[some["part"] == "total"].sort_values("scale")
        x, level = wide.index.to_numpy(), wide["measurement"].to_numpy()
        learnt = level + wide["model"].to_numpy()
        style.zero_line(ax, axis="y")
        ax.plot(x, level, color=style.GREEN, lw=1.8, ls="--")
        ax.plot(x, learnt, color=style.BLUE, lw=2.2, ls=":")
        ax.vlines(total["scale"], total["ci_low"], total["ci_high"], color=style.BLACK, lw=1.6)
        ax.plot(total["scale"], total["points"], "o-", color=style.BLACK, markersize=6)
        ax.set_title(textwrap.fill(NAMES[approach], 22))
        ax.set_xlabel("Guidance scale")
        ax.set_xticks(x, [f"{v:g}" for v in x])
    axes[0, 0].set_ylabel("Change along the true lean (points)")
    looks = [
        Line2D([], [], color=style.BLACK, marker="o", label="model at this guidance, with interval"),
        Line2D([], [], color=style.BLUE, lw=2.2, ls=":", label="the model at the lowest guidance"),
        Line2D([], [], color=style.GREEN, lw=1.8, ls="--", label="measurement alone: no model"),
    ]
    figure.legend(handles=looks, loc="outside lower center", ncols=3)
    return figure


def contributions(table: pd.DataFrame) -> Figure:
    """Draw what each rule of measurement contributes, one panel for each selection of captions.

    Args:
        table: Rows of ``calibration_contributions``.
    """
    generators = list(dict.fromkeys(table["generator"]))
    look = Look(
        names={"world": "world: no model"},
        colors={g: style.GREEN if g == "world" else style.BLUE for g in generators},
        markers={g: "D" if g == "world" else "o" for g in generators},
    )
    return forms.estimates(
        table.assign(known=table["ci_low"].notna()),
        "contribution",
        row="component",
        hue="generator",
        look=look,
        panel="approach",
        panel_names=NAMES,
        row_names={name: text.replace("\n", " ") for name, text in COMPONENT_NAMES.items()},
        label="Contribution (points)",
        inch=0.29,
        filled="known",
        filled_names=("with an interval", "an estimate without one"),
    )


# -- the world ---------------------------------------------------------------------------------------------------


def conditional(table: pd.DataFrame) -> Figure:
    """Draw how much further each kind of caption leans, world by world.

    Args:
        table: Rows of ``world_conditional``.
    """
    kinds = [k for k in KIND_NAMES if k in set(table["captions"]) and k != "all"]
    skews = [s for s in SKEW_NAMES if s in set(table["skew"])]
    figure, ax = style.subplots(figsize=(8.5, 0.75 * len(skews) + 1.5))
    style.zero_line(ax)
    looks = zip(kinds, (style.BLUE, style.ORANGE, style.VERMILION), ("o", "s", "D"), strict=False)
    for k, (kind, color, marker) in enumerate(looks):
        gain = table[table["captions"] == kind].set_index("skew")["lean_gain"].reindex(skews)
        places = np.arange(len(skews)) + (k - (len(kinds) - 1) / 2) * 0.24
        ax.hlines(places, 0, gain, color=color, lw=2, alpha=0.5)
        ax.plot(gain, places, marker, color=color, markersize=7, label=KIND_NAMES[kind])
        for value, place in zip(gain, places, strict=True):
            ax.text(value + 0.15, place, f"{abs(value):.1f}", va="center", fontsize=9)
    ax.set_yticks(range(len(skews)), [SKEW_NAMES[s] for s in skews])
    ax.set(
        ylim=(len(skews) - 0.4, -0.6),
        xlabel="Further from 50 % than all captions (points, mean over occupations)",
    )
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def occupations(table: pd.DataFrame) -> Figure:
    """Draw the share of women behind each kind of caption, occupation by occupation.

    Args:
        table: Rows of ``world_occupations``.
    """
    wide = table.pivot(index="occupation", columns="captions", values="percent_female").sort_values("all")
    ends = ("all", "prompt-like, no indicator")

    def draw(ax: Axes, names: Sequence[str]) -> None:
        some = wide.loc[list(names)]
        rows = np.arange(len(some))
        ax.axvline(50, color=style.GREY, lw=1, zorder=1)
        ax.hlines(rows, some[ends[0]], some[ends[1]], color=style.LIGHT, lw=3, zorder=1)
        looks = {
            "all": (style.BLACK, "o"),
            "no indicator": (style.BLUE, "|"),
            ends[1]: (style.VERMILION, "D"),
        }
        for kind, (color, marker) in looks.items():
            ax.plot(
                some[kind],
                rows,
                marker,
                color=color,
                markersize=5 if marker != "|" else 9,
                mew=1.4,
                ls="",
                label=KIND_NAMES[kind],
            )
        ax.set(xlim=(-2, 102), xlabel="P(female) (%)")

    return _in_columns(list(wide.index), draw)


def people(*, by: str, seed: int = 0, across: int = 8) -> Figure:
    """Draw renders with one thing varied and the rest drawn at random, a row for each gender.

    Args:
        by: ``skin_tone``, ``age``, ``light`` or ``gender`` (several people of each gender).
        seed: Seed of the draws.
        across: People in a row, for ``gender``.
    """
    columns = {
        "skin_tone": [({"skin_tones": (tone,)}, f"tone {tone}") for tone in scene.SKIN_TONES],
        "age": [({"ages": (age,)}, age) for age in scene.AGES for _ in range(3)],
        "light": [({"light": light}, name) for name, light in _LIGHTS.items()],
        "gender": [({}, "") for _ in range(across)],
    }[by]
    rows = []
    for gender in scene.GENDERS:
        line = []
        for k, (given, _) in enumerate(columns):
            # One person all along a row of lights; everywhere else a new one each time.
            rng = np.random.default_rng([seed, scene.GENDERS.index(gender), 0 if by == "light" else k])
            shown = scene.sample_scene(
                rng,
                genders=(gender,),
                occupations=(_WORK[k % len(_WORK)],) if by != "light" else ("chef",),
                **given,
            )
            line.append(render(shown, _SHOWN))
        rows.append(line)
    names = [name for _, name in columns]
    return _grid(rows, list(scene.GENDERS), names if any(names) else ())


_WORK = (
    "nurse",
    "mechanic",
    "teacher",
    "pilot",
    "librarian",
    "chef",
    "scientist",
    "painter",
    "lawyer",
    "dancer",
)
_LIGHTS = {
    "neutral": scene.Light(),
    "warm": scene.Light(1.075, 1.0, 0.925),
    "cool": scene.Light(0.925, 1.0, 1.075),
    "dim": scene.Light(strength=0.84),
    "bright": scene.Light(strength=1.06),
    "dim, warm": scene.Light(1.075, 1.0, 0.925, 0.84),
}


def ambiguity(*, seed: int = 0, across: int = 8) -> Figure:
    """Draw renders of clear and of ambiguous people, by what an ideal judge of their cues would say.

    Args:
        seed: Seed of the draws.
        across: People in a row.
    """
    renders = truthful.held_out(3000, seed=seed)
    table = renders.table
    kinds = {
        "clearly female": table["posterior"] > 0.999,
        "rather female": table["posterior"].between(0.6, 0.98),
        "either": table["posterior"].between(0.35, 0.65),
        "rather male": table["posterior"].between(0.02, 0.4),
        "clearly male": table["posterior"] < 0.001,
    }
    rows = [
        [render(renders.scene(i), _SHOWN) for i in table.loc[fits, "image_id"].head(across)]
        for fits in kinds.values()
    ]
    most = min(len(row) for row in rows)
    return _grid([row[:most] for row in rows], list(kinds))


def captions(corpus: Corpus, chosen: pd.DataFrame) -> Figure:
    """Draw captions with their images and what is true of them.

    Args:
        corpus: The world's captions.
        chosen: Rows of :func:`biaslab.papers.synthesis.world.examples`.
    """
    images = list(corpus.images(chosen["caption_id"].tolist(), size=_SHOWN))
    facts = [
        f"style: {row.truth_style}\nindicator: {row.truth_indicator}\nshows: {row.truth_gender or 'nobody'}"
        for row in chosen.itertuples()
    ]
    return _captioned(images, chosen["text"].tolist(), facts, columns=min(5, len(images)))


def _grid(
    images: Sequence[Sequence[np.ndarray]],
    rows: Sequence[str],
    columns: Sequence[str] = (),
    *,
    side: float = 0.78,
) -> Figure:
    """Draw images in a grid with a name for each row and, where given, each column.

    Args:
        images: Rows of images, ``uint8 (height, width, 3)`` RGB, all of one size and as many in each row.
        rows: Name of each row.
        columns: Name of each column; none where empty.
        side: Width of an image, in inches.
    """
    across, down = len(images[0]), len(images)
    size = (side * across + 1.4, side * down + (0.4 if columns else 0.1))
    figure, axes = style.subplots(down, across, figsize=size, squeeze=False, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.01, h_pad=0.01, wspace=0.01, hspace=0.01)
    for i, line in enumerate(images):
        for j, image in enumerate(line):
            ax = axes[i, j]
            ax.imshow(image)
            ax.set(xticks=[], yticks=[])
            for spine in ax.spines.values():
                spine.set_visible(False)
            if i == 0 and columns:
                ax.set_title(columns[j], fontsize=8, loc="center", fontweight="normal")
        axes[i, 0].set_ylabel(rows[i], rotation=0, ha="right", va="center", fontsize=9, labelpad=6)
    return figure


def _captioned(
    images: Sequence[np.ndarray], texts: Sequence[str], facts: Sequence[str], *, columns: int = 4
) -> Figure:
    """Draw images with their captions and, below, what is true of them.

    Args:
        images: ``uint8 (height, width, 3)`` RGB.
        texts: The caption of each.
        facts: What is true of each.
        columns: Images in a row.
    """
    lines = -(-len(images) // columns)
    figure, axes = style.subplots(
        lines, columns, figsize=(forms.WIDTH / 5 * columns, 2.95 * lines), squeeze=False
    )
    for ax in axes.flat[len(images) :]:
        ax.set_visible(False)
    for ax, image, text, fact in zip(axes.flat, images, texts, facts, strict=False):
        ax.imshow(image)
        ax.set(xticks=[], yticks=[])
        for spine in ax.spines.values():
            spine.set_visible(False)
        said = textwrap.fill(f"“{text}”", 27).replace("$", r"\$")
        below = "\n".join([said, *(textwrap.fill(line, 28) for line in fact.splitlines())])
        ax.set_xlabel(below, fontsize=7.5, loc="left", color=style.BLACK)
    return figure


def _in_columns(names: list[str], draw) -> Figure:
    """Draw one line an occupation in the order given; long lists stand in two columns of equal length."""
    columns = 2 if len(names) > 24 else 1
    lines = -(-len(names) // columns)
    figure, axes = style.subplots(
        1,
        columns,
        figsize=(forms.WIDTH if columns == 2 else 7.5, 0.24 * max(lines, 3) + 1.4),
        sharex=True,
        squeeze=False,
    )
    for k, ax in enumerate(axes.flat):
        some = names[k * lines : (k + 1) * lines]
        draw(ax, some)
        ax.set_yticks(range(len(some)), some, fontsize=9)
        ax.set_ylim(lines - 0.4, -0.6)
        ax.tick_params(axis="y", length=0)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


# -- the specification curve ------------------------------------------------------------------------------------

_OPTION_NAMES = {
    "same_lean": "same lean (published)",
    "certain_lean": "training lean certain",
    "none": "none",
    "distance": "distance from 50",
    "directional": "along the training lean",
    "floor": "noise floor",
    "judge": "judge error",
    "floor_and_judge": "both",
    "mean": "mean of prompts",
}
_CHOICE_NAMES = {
    "exclusion": "Exclusion",
    "measure": "Measure",
    "correction": "Correction",
    "prompt": "Prompt",
    "model": "Model",
    "approach": "Captions",
}
_LOOK = {
    ("same_lean", "distance"): (style.VERMILION, "o", "published rule: distance, same lean only"),
    ("certain_lean", "distance"): (style.ORANGE, "^", "distance, certain lean only"),
    ("certain_lean", "directional"): (style.SKY, "v", "along the lean, certain lean only"),
    ("none", "distance"): (style.BLUE, "s", "distance, all occupations"),
    ("none", "directional"): (style.GREEN, "D", "along the lean, all occupations"),
}


def specification_curve(curve: pd.DataFrame) -> Figure:
    """Draw all specifications sorted by their estimate, with intervals and the choices that make each.

    Args:
        curve: The table ``synthesis_specification_curve``.
    """
    curve = curve.sort_values("amplification", kind="stable", ignore_index=True)
    choices = [(c, _options(curve[c])) for c in _CHOICE_NAMES if curve[c].nunique() > 1]
    lines = sum(len(options) for _, options in choices) + 0.7 * len(choices)
    figure, (top, below) = style.subplots(
        2, 1, figsize=(forms.WIDTH, 4.4 + 0.24 * lines), sharex=True, height_ratios=[4.4, 0.24 * lines]
    )
    style.zero_line(top, axis="y")
    for (exclusion, measure), (color, marker, label) in _LOOK.items():
        some = curve[(curve["exclusion"] == exclusion) & (curve["measure"] == measure)]
        if some.empty:
            continue
        top.vlines(some.index, some["ci_low"], some["ci_high"], color=color, alpha=0.35, lw=1.4)
        top.plot(some.index, some["amplification"], marker, color=color, markersize=4, label=label)
    top.set_ylabel("Expected amplification (points)")
    top.legend(loc="upper left", fontsize=9)
    _choice_ticks(below, curve, choices)
    below.set_xlabel("Specifications, sorted by estimate")
    below.set_xlim(-2, len(curve) + 1)
    return figure


def _options(values: pd.Series) -> list[str]:
    order = list(_OPTION_NAMES)
    return sorted(set(values), key=lambda v: (order.index(v) if v in order else -1, v))


def _choice_ticks(ax, curve: pd.DataFrame, choices: list[tuple[str, list[str]]]) -> None:
    """Draw a tick per specification in the row of each option it takes; choices are separated by a gap."""
    y, places, names = 0.0, [], []
    for choice, options in choices:
        for option in options:
            at = np.flatnonzero(curve[choice] == option)
            ax.plot(at, np.full(len(at), y), "|", color=style.BLACK, markersize=7, mew=0.8)
            places.append(y)
            names.append(f"{_CHOICE_NAMES[choice]}: {_OPTION_NAMES.get(option, option)}")
            y += 1
        ax.axhline(y - 0.15, color=style.LIGHT, lw=0.8)
        y += 0.7
    ax.set_yticks(places, names, fontsize=9)
    ax.set_ylim(y - 0.9, -0.8)
    ax.tick_params(axis="y", length=0)


def choice_effects(effects: pd.DataFrame) -> Figure:
    """Draw the mean and the range of results for each option of each choice.

    Args:
        effects: The table ``synthesis_choice_effect``.
    """
    choices = list(dict.fromkeys(effects["choice"]))
    figure, ax = style.subplots(figsize=(forms.WIDTH, 0.36 * len(effects) + 0.3 * len(choices) + 1.2))
    style.zero_line(ax)
    y, places, names = 0.0, [], []
    for choice, color, marker in zip(choices, style.PALETTE, style.MARKERS, strict=False):
        for row in effects[effects["choice"] == choice].itertuples():
            ax.hlines(y, row.lowest, row.highest, color=color, lw=2, alpha=0.4)
            ax.plot(row.amplification, y, marker, color=color, markersize=7)
            places.append(y)
            names.append(f"{_CHOICE_NAMES[choice]}: {_OPTION_NAMES.get(row.option, row.option)}")
            y += 1
        y += 0.6
    ax.set_yticks(places, names)
    ax.set_ylim(y - 0.9, -0.8)
    ax.set_xlabel("Expected amplification (points): mean of specifications, and their range")
    return figure
