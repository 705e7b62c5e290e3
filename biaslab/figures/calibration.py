"""Figures of calibration, and of the embedded world: tables of :mod:`biaslab.studies.calibration` in, figures out."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from biaslab.figures.paradox import APPROACH_NAMES
from biaslab.plots import style

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
_OUTCOMES = {
    "female": (style.FEMALE, "", "judged female"),
    "male": (style.MALE, "", "judged male"),
    "uncertain": (style.ORANGE, "", "not sure"),
    "no_face": (style.LIGHT, "///", "no face"),
    "several_faces": (style.LIGHT, "\\\\\\", "several faces"),
    "face_too_small": (style.LIGHT, "xxx", "face too small"),
    "unreadable": (style.BLACK, "", "unreadable"),
}


# -- the judge ---------------------------------------------------------------------------------------------


def confusion(table: pd.DataFrame) -> Figure:
    """Draw what became of held-out renders, one bar for each truth and clearness.

    Args:
        table: Rows of ``calibration_confusion``.
    """
    bars = table[["cues", "truth", "n_images"]].drop_duplicates().reset_index(drop=True)
    figure, ax = plt.subplots(figsize=(9.5, 0.46 * len(bars) + 1.5))
    left = np.zeros(len(bars))
    there = [o for o in _OUTCOMES if (table.loc[table["judged"] == o, "n"] > 0).any()]
    for outcome in there:
        some = bars.merge(table[table["judged"] == outcome], on=["cues", "truth", "n_images"], how="left")
        width = some["percent"].fillna(0).to_numpy()
        color, hatch, label = _OUTCOMES[outcome]
        look = {"color": color, "hatch": hatch, "edgecolor": "white", "lw": 0.5, "label": label}
        ax.barh(range(len(bars)), width, 0.72, left=left, **look)
        for y, (start, part) in enumerate(zip(left, width, strict=True)):
            if part >= 6:
                white = outcome in ("female", "male")
                ax.text(
                    start + part / 2,
                    y,
                    f"{part:.1f}",
                    ha="center",
                    va="center",
                    fontsize=9,
                    color="white" if white else style.BLACK,
                )
        left += width
    clear = {"all": "all", "unambiguous": "unambiguous cues", "ambiguous": "ambiguous cues"}
    names = [f"{clear[r.cues]}, shows {r.truth} (n = {r.n_images:,.0f})" for r in bars.itertuples()]
    ax.set_yticks(range(len(names)), names)
    ax.set(xlim=(0, 100), ylim=(len(names) - 0.4, -0.6), xlabel="Renders (%)")
    figure.legend(loc="outside lower center", ncols=min(4, len(there)))
    return figure


def judge_accuracy(table: pd.DataFrame) -> Figure:
    """Draw the judge's accuracy with intervals, and what an ideal judge of the cues would reach.

    Args:
        table: Rows of ``calibration_judge``.
    """
    rows = table[table["truth"] == "all"]
    kinds = list(dict.fromkeys(rows["cues"]))
    figure, ax = plt.subplots(figsize=(8.5, 0.62 * len(kinds) + 1.5))
    looks = {
        "likelier": (style.BLUE, "o", "likelier gender, all that pass the gate"),
        "judged": (style.GREEN, "D", "sure answers only"),
    }
    for k, (answers, (color, marker, label)) in enumerate(looks.items()):
        some = rows[rows["answers"] == answers].set_index("cues").reindex(kinds)
        places = np.arange(len(kinds)) + (k - 0.5) * 0.3
        values = (some[c].to_numpy(float) for c in ("accuracy", "ci_low", "ci_high"))
        style.dots_with_intervals(ax, *values, places, color=color, marker=marker, label=label)
        best = f"ideal judge of the cues ({'all' if answers == 'likelier' else 'same renders'})"
        ax.plot(
            some["ceiling"], places, "|", color=color, markersize=15, mew=1.6, label=best if k == 0 else None
        )
    n = rows.groupby("cues")["n_images"].first()
    ax.set_yticks(range(len(kinds)), [f"{k} (n = {n[k]:,.0f})" for k in kinds])
    ax.set(ylim=(len(kinds) - 0.4, -0.6), xlabel="Right answers (%)")
    handles, labels = ax.get_legend_handles_labels()
    labels = [label.replace(" (all)", ", same renders") for label in labels]
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


def reliability(table: pd.DataFrame) -> Figure:
    """Draw the share of women among renders against the judge's probability.

    Args:
        table: Rows of ``calibration_reliability``.
    """
    some = table[table["n"] > 0]
    figure, ax = plt.subplots(figsize=(6.2, 5.8))
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


def judge_by_occupation(table: pd.DataFrame) -> Figure:
    """Draw sensitivity and specificity of each occupation, the overall ones as lines.

    Args:
        table: Rows of ``calibration_judge_by_occupation``.
    """
    wide = table.pivot(index="occupation", columns="measure", values="value")
    order = (
        wide.drop(index="all", errors="ignore")[["sensitivity", "specificity"]]
        .min(axis=1)
        .sort_values()
        .index
    )
    looks = {
        "sensitivity": (style.FEMALE, "o", "women judged female"),
        "specificity": (style.MALE, "s", "men judged male"),
    }

    def draw(ax: Axes, names: Sequence[str]) -> None:
        for k, (measure, (color, marker, label)) in enumerate(looks.items()):
            some = table[table["measure"] == measure].set_index("occupation").reindex(names)
            places = np.arange(len(names)) + (k - 0.5) * 0.32
            values = (some[c].to_numpy(float) for c in ("value", "ci_low", "ci_high"))
            style.dots_with_intervals(ax, *values, places, color=color, marker=marker, label=label, size=4.5)
            if "all" in wide.index:
                ax.axvline(wide.loc["all", measure], color=color, lw=1, ls=":", zorder=1)
        ax.set_xlabel("Right among judged (%)")

    return _in_columns(list(order), draw)


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
    figure, axes = plt.subplots(
        lines, columns, figsize=(2.9 * columns, 3.2 * lines + 0.5), squeeze=False, sharex=True, sharey=True
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
            rows["percent_true"], rows["percent_female"], ls="", marker=".", ms=3, color="black", zorder=4
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
        what = "world, no model" if source == "generated" else NAMES[approach]
        ax.set_title(textwrap.fill(what + (" (knobs off)" if skew == "off" else ""), 24), fontsize=10)
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
        Line2D([], [], marker=".", ms=4, ls="", color="black", label="as judged, uncorrected"),
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
    figure, ax = plt.subplots(figsize=(9.5, 0.3 * lines + 1.6))
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
    figure, axes = plt.subplots(
        1, max(len(there), 1), figsize=(4 * max(len(there), 1) + 0.6, 4.6), sharey=True, squeeze=False
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
        ax.set_title(textwrap.fill(NAMES[approach], 26))
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
    approaches = list(dict.fromkeys(table["approach"]))
    generators = list(dict.fromkeys(table["generator"]))
    components = [c for c in COMPONENT_NAMES if c in set(table["component"])]
    figure, axes = plt.subplots(
        1,
        len(approaches),
        figsize=(3.5 * len(approaches) + 2, 0.62 * len(components) + 1.6),
        sharey=True,
        squeeze=False,
    )
    for ax, approach in zip(axes.flat, approaches, strict=True):
        style.zero_line(ax)
        for k, generator in enumerate(generators):
            color, marker = (style.GREEN, "D") if generator == "world" else (style.BLUE, "o")
            some = table[(table["approach"] == approach) & (table["generator"] == generator)]
            some = some.set_index("component").reindex(components)
            places = np.arange(len(components)) + (k - (len(generators) - 1) / 2) * 0.28
            values = (some[c].to_numpy(float) for c in ("contribution", "ci_low", "ci_high"))
            label = "world: no model" if generator == "world" else generator
            style.dots_with_intervals(ax, *values, places, color=color, marker=marker, label=label)
        ax.set_title(textwrap.fill(NAMES[approach], 26))
        ax.set_xlabel("Contribution (points)")
        ax.set_yticks(range(len(components)), [COMPONENT_NAMES[c] for c in components])
        ax.set_ylim(len(components) - 0.4, -0.6)
    handles: Mapping = dict(zip(*reversed(axes[0, 0].get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=max(1, len(handles)))
    return figure


# -- the world ---------------------------------------------------------------------------------------------------


def conditional(table: pd.DataFrame) -> Figure:
    """Draw how much further each kind of caption leans, world by world.

    Args:
        table: Rows of ``world_conditional``.
    """
    kinds = [k for k in KIND_NAMES if k in set(table["captions"]) and k != "all"]
    skews = [s for s in SKEW_NAMES if s in set(table["skew"])]
    figure, ax = plt.subplots(figsize=(8.5, 0.75 * len(skews) + 1.5))
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


def grid(
    images: Sequence[Sequence[np.ndarray]],
    rows: Sequence[str],
    columns: Sequence[str] = (),
    *,
    side: float = 1.0,
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
    figure, axes = plt.subplots(down, across, figsize=size, squeeze=False, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.01, h_pad=0.01, wspace=0.01, hspace=0.01)
    for i, line in enumerate(images):
        for j, image in enumerate(line):
            ax = axes[i, j]
            ax.imshow(image)
            ax.set(xticks=[], yticks=[])
            for spine in ax.spines.values():
                spine.set_visible(False)
            if i == 0 and columns:
                ax.set_title(columns[j], fontsize=9, loc="center", fontweight="normal")
        axes[i, 0].set_ylabel(rows[i], rotation=0, ha="right", va="center", fontsize=9, labelpad=6)
    return figure


def captioned(
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
    figure, axes = plt.subplots(lines, columns, figsize=(2.5 * columns, 3.5 * lines), squeeze=False)
    for ax in axes.flat[len(images) :]:
        ax.set_visible(False)
    for ax, image, text, fact in zip(axes.flat, images, texts, facts, strict=False):
        ax.imshow(image)
        ax.set(xticks=[], yticks=[])
        for spine in ax.spines.values():
            spine.set_visible(False)
        said = textwrap.fill(f"“{text}”", 30).replace("$", r"\$")
        below = "\n".join([said, *(textwrap.fill(line, 34) for line in fact.splitlines())])
        ax.set_xlabel(below, fontsize=8, loc="left", color=style.BLACK)
    return figure


def _in_columns(names: list[str], draw) -> Figure:
    """Draw one line an occupation in the order given; long lists stand in two columns of equal length."""
    columns = 2 if len(names) > 24 else 1
    lines = -(-len(names) // columns)
    figure, axes = plt.subplots(
        1,
        columns,
        figsize=(10.5 if columns == 2 else 7.5, 0.24 * max(lines, 3) + 1.4),
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
