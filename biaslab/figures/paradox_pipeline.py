"""Figures of the paradox paper's sections that need captions and images; the galleries are in ``gallery``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from biaslab.figures.paradox import APPROACH_NAMES, DEFINITION_LOOK, DEFINITION_NAMES, head, prompt_name
from biaslab.plots import style
from biaslab.stats import wilson_interval

OUTCOME_NAMES = {
    "judged": "judged female or male",
    "uncertain": "judge not sure",
    "no_face": "no face",
    "several_faces": "several faces",
    "face_too_small": "face too small",
    "unreadable": "unreadable",
    "blocked": "withheld by the safety checker",
    "unrated": "not rated",
}
# Light for what counts, darker with a pattern for each way of not counting.
_OUTCOME_LOOK = {
    "judged": (style.LIGHT, ""),
    "uncertain": (style.ORANGE, ""),
    "no_face": (style.BLUE, "///"),
    "several_faces": (style.GREEN, "\\\\\\"),
    "face_too_small": (style.PURPLE, "xxx"),
    "unreadable": (style.BLACK, ""),
    "blocked": (style.VERMILION, "..."),
    "unrated": (style.SKY, "..."),
}
_LINE = 0.24  # inches that a row of names needs


def captions_found(found: pd.DataFrame) -> Figure:
    """Draw how many captions name each occupation, and how many were taken.

    Args:
        found: Rows of ``paradox_captions_found`` of one corpus.
    """
    found = found.sort_values("n_captions", ascending=False, kind="stable")
    # A count of 0 has no place on a scale of powers of ten; it stands at its left end.
    counts = found[["n_captions", "n_candidates", "n_sampled"]]
    least = max(0.7, 0.5 * float(counts.to_numpy(float).min(initial=np.inf)))

    def draw(ax: Axes, some: pd.DataFrame) -> None:
        rows = np.arange(len(some))
        ax.hlines(rows, least, some["n_captions"].clip(lower=least), color=style.LIGHT, lw=2, zorder=1)
        looks = (
            ("n_captions", "o", style.BLUE, "name the occupation"),
            ("n_candidates", "D", style.ORANGE, "searched for the nearest"),
            ("n_sampled", "|", style.BLACK, "taken at random"),
        )
        for column, marker, color, label in looks:
            size = {"o": 6, "D": 4, "|": 11}[marker]
            values = some[column].clip(lower=least)
            ax.plot(values, rows, marker, color=color, markersize=size, mew=1.5, label=label, ls="")
        ax.set_xscale("log")
        ax.set_xlim(left=least)
        ax.set_xlabel("Captions")

    return _in_two_columns(found, draw)


def _in_two_columns(
    rows: pd.DataFrame, draw: Callable[[Axes, pd.DataFrame], None], *, width: float = 10.5
) -> Figure:
    """Draw one line an occupation in the order given; long lists stand in two columns of equal length."""
    columns = 2 if len(rows) > 24 else 1
    lines = -(-len(rows) // columns)
    figure, axes = plt.subplots(
        1,
        columns,
        figsize=(width if columns == 2 else 0.72 * width, _LINE * max(lines, 3) + 1.4),
        sharex=True,
        squeeze=False,
    )
    for k, ax in enumerate(axes.flat):
        some = rows.iloc[k * lines : (k + 1) * lines]
        draw(ax, some)
        ax.set_yticks(range(len(some)), some["occupation"], fontsize=9)
        ax.set_ylim(lines - 0.4, -0.6)
        ax.tick_params(axis="y", length=0)
    _legend(figure, axes)
    return figure


def _legend(figure: Figure, axes: np.ndarray, *, columns: int = 4) -> None:
    """Put one legend of all that the axes name below the figure."""
    handles: dict = {}
    for ax in axes.flat:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    if handles:
        ncols = min(columns, len(handles))
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=ncols)


def outcomes(outcomes: pd.DataFrame, titles: Mapping[str, str] | None = None) -> Figure:
    """Draw what became of the images of each source, one bar each, one panel a model.

    Args:
        outcomes: Rows of ``paradox_outcomes``.
        titles: Heading of each model's panel; by default its name.
    """
    models = list(dict.fromkeys(outcomes["model"]))
    keys = ["source", "approach", "prompt", "n_images"]
    order = {name: i for i, name in enumerate(("training", "generated", *APPROACH_NAMES))}
    outcomes = outcomes.sort_values(
        keys[:3], key=lambda c: c.map(order).fillna(0) if c.name != "prompt" else c
    )
    bars = {
        m: outcomes.loc[outcomes["model"] == m, keys].drop_duplicates().reset_index(drop=True) for m in models
    }
    there = [o for o in _OUTCOME_LOOK if (outcomes.loc[outcomes["outcome"] == o, "n"] > 0).any()]
    tallest = max(len(b) for b in bars.values())
    figure, axes = plt.subplots(
        len(models), 1, figsize=(9.5, (0.36 * tallest + 1.1) * len(models) + 0.8), squeeze=False, sharex=True
    )
    for ax, model in zip(axes.flat, models, strict=True):
        rows = bars[model].merge(outcomes[outcomes["model"] == model], on=keys, how="left")
        left = np.zeros(len(bars[model]))
        for outcome in there:
            some = bars[model].merge(rows[rows["outcome"] == outcome], on=keys, how="left")
            width = some["percent"].fillna(0).to_numpy()
            color, hatch = _OUTCOME_LOOK[outcome]
            ax.barh(
                range(len(some)), width, 0.72, left=left, color=color, hatch=hatch, edgecolor="white", lw=0.5
            )
            if outcome == "judged":
                for y, percent in enumerate(width):
                    ax.text(1, y, f"{percent:.1f} %", va="center", fontsize=9, color=style.BLACK)
            left += width
        names = [_bar_name(row) for row in bars[model].itertuples()]
        ax.set_yticks(range(len(names)), names, fontsize=9)
        ax.set(xlim=(0, 100), ylim=(len(names) - 0.4, -0.6))
        head(ax, (titles or {}).get(model, model))
    axes[-1, 0].set_xlabel("Images (%)")
    looks = [
        Patch(
            facecolor=_OUTCOME_LOOK[o][0],
            hatch=_OUTCOME_LOOK[o][1],
            edgecolor="white",
            label=OUTCOME_NAMES[o],
        )
        for o in there
    ]
    figure.legend(handles=looks, loc="outside lower center", ncols=min(3, len(looks)))
    return figure


def _bar_name(row) -> str:
    """Return what a bar of images is called: its source, what they belong to, and how many they are."""
    approach = APPROACH_NAMES.get(row.approach, row.approach).lower()
    templates = row.source == "generated" and row.approach == "naive"
    what = prompt_name(row.prompt).lower() if templates else approach
    if row.source == "training" and row.prompt != "captions":
        what += f", {prompt_name(row.prompt).lower()}"
    return f"{row.source}: {what} (n = {row.n_images:,.0f})"


def indicator_shares(indicators: pd.DataFrame) -> Figure:
    """Draw the share of captions with gender indicators beside the share of images perceived as female.

    Args:
        indicators: Rows of ``paradox_indicators`` of one corpus.
    """
    rows = indicators.sort_values("percent_female", kind="stable")

    def draw(ax: Axes, some: pd.DataFrame) -> None:
        left = np.zeros(len(some))
        looks = (
            ("percent_female_indicator", style.FEMALE, "", "female indicators"),
            ("percent_both", style.GREY, "", "indicators of both"),
            ("percent_male_indicator", style.MALE, "///", "male indicators"),
        )
        for column, color, hatch, label in looks:
            width = some[column].fillna(0).to_numpy()
            ax.barh(
                range(len(some)),
                width,
                0.72,
                left=left,
                color=color,
                hatch=hatch,
                edgecolor="white",
                lw=0.5,
                alpha=0.75,
                label=f"captions with {label}",
            )
            left += width
        look = {"color": style.BLACK, "markersize": 5.5, "markeredgecolor": "white", "ls": ""}
        ax.plot(some["percent_female"], range(len(some)), "D", label="images perceived as female", **look)
        ax.set(xlim=(0, 100), xlabel="%")

    return _in_two_columns(rows, draw)


def indicator_correlation(
    indicators: pd.DataFrame, correlation: pd.DataFrame, *, confidence: float = 0.95, label_most: int = 14
) -> Figure:
    """Draw the share of captions that indicate a gender against the share of images perceived as of it.

    Args:
        indicators: Rows of ``paradox_indicators`` of one corpus.
        correlation: Rows of ``paradox_indicator_correlation`` of that corpus, for the headings.
        confidence: Level of the intervals.
        label_most: How many occupations to name in each panel: those farthest from the line.
    """
    figure, axes = plt.subplots(1, 2, figsize=(11, 5.4), sharex=True, sharey=True)
    panels, top = [], 20.0
    for ax, gender, color in zip(axes, ("female", "male"), (style.FEMALE, style.MALE), strict=True):
        some = indicators.dropna(subset=["percent_female"])
        some = some[some["n"] > 0]
        x = some["percent_female"] if gender == "female" else 100 - some["percent_female"]
        y = some[f"percent_{gender}_indicator"] + some["percent_both"]
        thin = {"color": style.GREY, "lw": 0.6, "alpha": 0.6, "zorder": 1}
        low, high = _wilson(y, some["n"], confidence)
        ax.vlines(x, low, high, **thin)
        top = max([top, *high])
        low, high = _wilson(x, some["n_judged"], confidence)
        ax.hlines(y, low, high, **thin)
        marker = "o" if gender == "female" else "s"
        ax.plot(x, y, marker, color=color, markersize=6, alpha=0.85, ls="", zorder=3)
        off = y - y.mean()
        if len(some) > 2 and x.nunique() > 1:
            slope, start = np.polyfit(x, y, 1)
            ends = np.array([x.min(), x.max()])
            ax.plot(ends, start + slope * ends, color=style.BLACK, lw=1.2, zorder=2)
            off = y - (start + slope * x)
        row = correlation[(correlation["gender"] == gender) & (correlation["counted"] == "any")]
        ax.set_title(_r(row.iloc[0]) if len(row) else "")
        ax.set_xlabel(f"Training images perceived as {gender} (%)")
        ax.set_ylabel(f"Captions with {gender} indicators (%)")
        panels.append((ax, x, y, some["occupation"], off.abs().nlargest(label_most).index))
    axes[0].set(xlim=(-2, 102), ylim=(-2, min(102, 1.03 * top)))
    for ax, x, y, names, far in panels:
        style.label_points(ax, x[far], y[far], names[far], avoid=(x, y), fontsize=8)
    return figure


def _r(row: pd.Series) -> str:
    if not np.isfinite(row["r"]):
        return f"no correlation (n = {row['n']:.0f})"
    return f"r = {row['r']:.2f} ({row['ci_low']:.2f} to {row['ci_high']:.2f}), n = {row['n']:.0f}"


def _wilson(percent, n, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the Wilson limits, in percent, of shares of whole images or captions."""
    n = np.nan_to_num(np.asarray(n, float)).round()
    count = np.round(np.nan_to_num(np.asarray(percent, float)) * n / 100)
    low, high = wilson_interval(np.minimum(count, n), n, confidence)
    return 100 * np.asarray(low), 100 * np.asarray(high)


def indicator_use(indicators: pd.DataFrame) -> Figure:
    """Draw how often captions indicate a gender, for images of women and of men, occupation by occupation.

    Args:
        indicators: Rows of ``paradox_indicators`` of one corpus.
    """
    rows = indicators.sort_values("percent_female", kind="stable")

    def draw(ax: Axes, some: pd.DataFrame) -> None:
        female, male = some["percent_any_of_female"].to_numpy(), some["percent_any_of_male"].to_numpy()
        y = np.arange(len(some))
        ax.hlines(y, np.fmin(female, male), np.fmax(female, male), color=style.GREY, lw=1.2, zorder=1)
        for values, color, marker, who in (
            (female, style.FEMALE, "o", "female"),
            (male, style.MALE, "s", "male"),
        ):
            ax.plot(values, y, marker, color=color, markersize=6, ls="", label=f"images perceived as {who}")
        ax.set(xlim=(-3, 103), xlabel="Captions with any gender indicator (%)")

    return _in_two_columns(rows, draw)


def occupation_shares(rows: pd.DataFrame, occupation: str, titles: Mapping[str, str] | None = None) -> Figure:
    """Draw one occupation's shares: images behind all captions, behind those without indicators, and generated.

    Args:
        rows: Rows of ``paradox_percent_female`` of the occupation, with intervals: the training rows of ``naive``
            and ``no_indicators``, the generated rows of ``naive``.
        occupation: Its name, for the axis.
        titles: Heading of each model's panel; by default its name.
    """
    models = list(dict.fromkeys(rows["model"]))
    figure, axes = plt.subplots(
        1, len(models), figsize=(max(7.5, 4.6 * len(models)), 3.6), sharey=True, sharex=True, squeeze=False
    )
    bars = [
        ("training", "naive", "training: all captions"),
        ("training", "no_indicators", "training: no indicators"),
    ]
    prompts = sorted(set(rows.loc[rows["source"] == "generated", "prompt"]))
    names = [*(b[2] for b in bars), *(f"generated: {prompt_name(p).lower()}" for p in prompts)]
    for ax, model in zip(axes.flat, models, strict=True):
        some = rows[rows["model"] == model]
        style.zero_line(ax, 50)
        picked = [some[(some["source"] == s) & (some["approach"] == a)] for s, a, _ in bars]
        picked += [some[(some["source"] == "generated") & (some["prompt"] == p)] for p in prompts]
        for y, one in enumerate(picked):
            generated = y >= len(bars)
            style.dots_with_intervals(
                ax,
                one["percent_female"],
                one["ci_low"],
                one["ci_high"],
                np.full(len(one), y),
                color=style.VERMILION if generated else style.BLUE,
                marker="s" if generated else "o",
                size=7,
            )
            for row in one.itertuples():
                n = f"n = {row.n:.0f}"
                ax.annotate(
                    n,
                    (row.percent_female, y),
                    (0, -13),
                    textcoords="offset points",
                    ha="center",
                    fontsize=7.5,
                )
        head(ax, (titles or {}).get(model, model))
        ax.set_xlabel(f"{occupation.capitalize()}: perceived as female (%)")
    axes[0, 0].set_yticks(range(len(names)), names)
    axes[0, 0].set(xlim=(-4, 104), ylim=(len(names) - 0.3, -0.6))
    return figure


def similarity(
    measured: pd.DataFrame, means: pd.DataFrame, titles: Mapping[str, str] | None = None
) -> Figure:
    """Draw similarities by approach: a mark an occupation and the mean with its interval, averaged over prompts.

    Args:
        measured: Rows of ``paradox_similarity``.
        means: Rows of ``paradox_similarity_mean``.
        titles: Heading of each model's panels; by default its name.
    """
    models = list(dict.fromkeys(measured["model"]))
    approaches = [a for a in APPROACH_NAMES if a in set(measured["approach"])]
    figure, axes = plt.subplots(
        len(models),
        2,
        figsize=(10.5, (0.62 * len(approaches) + 1.3) * len(models) + 0.6),
        sharey=True,
        squeeze=False,
    )
    labels = {
        "text": "Cosine of captions with the prompt",
        "image": "Cosine of training with generated images",
    }
    overall = means[means["prompt"] == "mean"] if "mean" in set(means["prompt"]) else means
    for line, model in zip(axes, models, strict=True):
        for ax, (compared, label), color in zip(line, labels.items(), (style.BLUE, style.GREEN), strict=True):
            some = measured[measured["model"] == model]
            each = some.groupby(["approach", "occupation"])[f"{compared}_similarity"].mean()
            for y, approach in enumerate(approaches):
                values = each.get(approach, pd.Series(dtype=float)).dropna().to_numpy()
                ax.plot(values, np.full(len(values), y + 0.22), "|", color=color, markersize=9, alpha=0.45)
            rows = overall[(overall["model"] == model) & (overall["compared"] == compared)]
            rows = rows.set_index("approach").reindex(approaches)
            at = np.arange(len(approaches))
            style.dots_with_intervals(
                ax, rows["similarity"], rows["ci_low"], rows["ci_high"], at - 0.12, color=style.BLACK, size=7
            )
            stated = rows["published"].to_numpy(float)
            look = {"markerfacecolor": "white", "markeredgecolor": style.VERMILION, "markersize": 7, "ls": ""}
            if np.isfinite(stated).any():
                ax.plot(stated, at - 0.12, "D", label="stated by the paper (LAION)", **look)
            ax.set_xlabel(label)
            head(ax, (titles or {}).get(model, model))
        line[0].set_yticks(range(len(approaches)), [APPROACH_NAMES[a] for a in approaches])
        line[0].set_ylim(len(approaches) - 0.4, -0.6)
    axes[0, 0].plot([], [], "|", color=style.GREY, markersize=9, label="one occupation")
    axes[0, 0].plot([], [], "o-", color=style.BLACK, label="mean with interval")
    _legend(figure, axes)
    return figure


def word_accuracy(accuracy: pd.DataFrame, titles: Mapping[str, str] | None = None) -> Figure:
    """Draw how often generated images follow gender indicators in captions, one panel a model.

    Args:
        accuracy: Rows of ``paradox_gender_word_accuracy``.
        titles: Heading of each model's panel; by default its name.
    """
    models = list(dict.fromkeys(accuracy["model"]))
    keys = accuracy[["approach", "indicator"]].drop_duplicates()
    order = {a: i for i, a in enumerate(APPROACH_NAMES)}
    keys = sorted(keys.itertuples(index=False), key=lambda k: order.get(k.approach, 99))
    figure, axes = plt.subplots(
        1,
        len(models),
        figsize=(max(8.5, 4.8 * len(models)), 0.5 * len(keys) + 1.9),
        sharey=True,
        sharex=True,
        squeeze=False,
    )
    looks = {
        "training image": ("the gender of the caption's own image", style.BLUE, "o", -0.14),
        "indicator": ("the gender that the caption indicates", style.GREEN, "s", 0.14),
    }
    for ax, model in zip(axes.flat, models, strict=True):
        some = accuracy[accuracy["model"] == model].set_index(["approach", "indicator"])
        at = np.arange(len(keys))
        for against, (label, color, marker, offset) in looks.items():
            rows = some[some["against"] == against].reindex([tuple(k) for k in keys])
            style.dots_with_intervals(
                ax,
                rows["percent"],
                rows["ci_low"],
                rows["ci_high"],
                at + offset,
                color=color,
                marker=marker,
                label=f"generated image has {label}",
            )
            stated = rows["published"].to_numpy(float)
            if np.isfinite(stated).any():
                look = {"markerfacecolor": "white", "markeredgecolor": style.VERMILION, "markersize": 7}
                ax.plot(stated, at + 2.6 * offset, "D", ls="", label="stated by the paper (SD 1.4)", **look)
        head(ax, (titles or {}).get(model, model))
        ax.set_xlabel("Generated images that follow (%)")
    first = axes[0, 0]
    names = [f"{APPROACH_NAMES[k.approach]}: {_who(k.indicator)}" for k in keys]
    first.set_yticks(range(len(keys)), names)
    first.set_ylim(len(keys) - 0.4, -0.6)
    low = float(np.nanmin([accuracy["ci_low"].min(), 95]))
    first.set_xlim(max(-2, np.floor(low / 5) * 5 - 1), 100.8)
    _legend(figure, axes, columns=1)
    return figure


def _who(indicator: str) -> str:
    return "all indicators" if indicator == "all" else f"{indicator} indicators"


def changes(change: pd.DataFrame, titles: Mapping[str, str] | None = None) -> Figure:
    """Draw each approach's change of amplification from its reference, by definition, one panel a model.

    Args:
        change: Rows of ``paradox_approach_change``; those of ``mean`` or ``captions`` are drawn.
        titles: Heading of each model's panel; by default its name.
    """
    some = change[change["prompt"].isin(["mean", "captions"])]
    models = list(dict.fromkeys(some["model"]))
    pairs = list(dict.fromkeys(zip(some["approach"], some["reference"], strict=True)))
    figure, axes = plt.subplots(
        1,
        len(models),
        figsize=(max(8.5, 4.8 * len(models)), 0.55 * len(pairs) + 1.9),
        sharey=True,
        sharex=True,
        squeeze=False,
    )
    for ax, model in zip(axes.flat, models, strict=True):
        style.zero_line(ax)
        for i, (definition, (color, marker)) in enumerate(DEFINITION_LOOK.items()):
            rows = some[(some["model"] == model) & (some["definition"] == definition)]
            rows = rows.set_index(["approach", "reference"]).reindex(pairs)
            style.dots_with_intervals(
                ax,
                rows["change"],
                rows["ci_low"],
                rows["ci_high"],
                np.arange(len(pairs)) + 0.22 * (i - 1),
                color=color,
                marker=marker,
                label=DEFINITION_NAMES[definition],
            )
        head(ax, (titles or {}).get(model, model))
        ax.set_xlabel("Change of expected amplification (points)")
    names = [APPROACH_NAMES[a] + _less(r) for a, r in pairs]
    axes[0, 0].set_yticks(range(len(pairs)), names)
    axes[0, 0].set_ylim(len(pairs) - 0.4, -0.6)
    _legend(figure, axes)
    return figure


def _less(reference: str) -> str:
    return "" if reference == "naive" else f"\nless: {APPROACH_NAMES[reference].lower()}"
