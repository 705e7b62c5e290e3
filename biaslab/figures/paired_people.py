"""Figures of the people in each image: tables of :mod:`biaslab.studies.paired_people` in, figures out.

Several models are drawn below one another; the sizes fit the width of a report.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from biaslab.figures.paired import (
    _LIST_LOOK,
    ASPECT_NAMES,
    JUDGE_NAMES,
    _grid,
    _heading,
    _key,
    _legend_below,
    _of,
    _offsets,
    _setting_look,
    _unique,
    stratum_name,
)
from biaslab.measures.skin_tone import MONK_SWATCHES
from biaslab.plots import style

SETTING_NAMES = {
    "single": "one person",
    "paired": "two people",
    "alike": "two of one stereotype",
    "same": "one occupation twice",
    "three": "three people",
    "intervention": "two people, intervention",
    "faircritic": "two people, FairCritic",
}
OUTCOME_NAMES = {
    "judged": "all judged female or male",
    "uncertain": "judge not sure of somebody",
    "no_face": "no face",
    "one_face": "fewer faces than asked for",
    "too_many_faces": "more faces than asked for",
    "overlapping": "faces overlap",
    "face_too_small": "a face too small",
    "unreadable": "unreadable",
    "blocked": "withheld",
    "unrated": "not rated",
}
# What bars are made of: the outcome, and of judged images whether people stand as asked.
_PARTS = {
    "judged": ("judged, as asked", style.LIGHT, ""),
    "swapped": ("judged, in another order", style.VERMILION, "\\\\\\"),
    "unclear": ("judged, order not clear", style.YELLOW, ""),
    "uncertain": (OUTCOME_NAMES["uncertain"], style.ORANGE, ""),
    "no_face": (OUTCOME_NAMES["no_face"], style.BLACK, "///"),
    "one_face": (OUTCOME_NAMES["one_face"], style.BLUE, "///"),
    "too_many_faces": (OUTCOME_NAMES["too_many_faces"], style.GREEN, "\\\\\\"),
    "overlapping": (OUTCOME_NAMES["overlapping"], style.PURPLE, "xxx"),
    "face_too_small": (OUTCOME_NAMES["face_too_small"], style.SKY, "---"),
    "unreadable": (OUTCOME_NAMES["unreadable"], style.GREY, ""),
    "blocked": (OUTCOME_NAMES["blocked"], style.GREY, "..."),
    "unrated": (OUTCOME_NAMES["unrated"], style.GREY, "xxx"),
}
_MEASURES = {
    "people": "as many clear faces\nas asked for",
    "judged": "everyone's gender judged",
    "order": "people stand as asked",
    "valid": "all of these",
}
_TRUTHS = {
    "gate": "gate: both people found\n(images)",
    "judged": "judged female or male\n(people found)",
    "gender": "gender right\n(people judged)",
    "gender_unambiguous": "gender right, cues clear\n(people judged)",
    "order": "order recognised\n(images)",
    "skin_tone": "skin tone within one\nMonk tone (faces)",
}
_BAND = style.LIGHT


def _cell_name(aspect: str, setting: str) -> str:
    return f"{ASPECT_NAMES.get(aspect, aspect)}, {SETTING_NAMES.get(setting, setting)}"


def _cells(table: pd.DataFrame) -> list[tuple[str, str]]:
    """Return the pairs of aspect and setting in a table, by aspect and then in the order of the names above."""
    rank = {name: k for k, name in enumerate((*ASPECT_NAMES, *SETTING_NAMES))}
    found = dict.fromkeys(zip(table["aspect"], table["setting"], strict=True))
    return sorted(found, key=lambda cell: [rank.get(name, len(rank)) for name in cell])


def _band(ax, rows: pd.DataFrame, y, height: float) -> None:
    """Draw what coin flips give, behind the values at ``y``."""
    ax.barh(
        y, rows["fair_high"] - rows["fair_low"], left=rows["fair_low"], height=height, color=_BAND, zorder=0
    )


@style.or_nothing
def outcomes(outcomes: pd.DataFrame) -> Figure:
    """Draw what became of images of people, a bar for each aspect and setting.

    Args:
        outcomes: Rows of ``paired_outcomes``. Judged images whose people stand in another order, or in one that is
            not clear, have parts of their own.
    """
    cells = _cells(outcomes)
    figure, axes, models = _grid(outcomes, [""], (9.4, 0.42 * len(cells) + 0.8), sharex=True)
    there = {}
    for ax, model in zip(axes[:, 0], models, strict=True):
        labels = []
        for y, (aspect, setting) in enumerate(cells):
            rows = _of(outcomes, model=model, aspect=aspect, setting=setting).set_index("outcome")
            if rows.empty:
                labels.append(f"{_cell_name(aspect, setting)} (n = 0)")
                continue
            n, judged = rows["n_images"].max(), rows.loc["judged"]
            counts = rows["n"].to_dict() | {
                "judged": judged["n"] - judged["n_swapped"] - judged["n_unclear"],
                "swapped": judged["n_swapped"],
                "unclear": judged["n_unclear"],
            }
            left = 0.0
            for part, (_, color, hatch) in _PARTS.items():
                count = counts.get(part, 0)
                if not count:
                    continue
                there[part] = True
                width = 100 * count / n
                ax.barh(y, width, 0.74, left=left, color=color, hatch=hatch, edgecolor="white", lw=0.5)
                if width > 3.5:
                    ax.text(
                        left + width / 2, y, f"{count:.0f}", ha="center", va="center", fontsize=9,
                        bbox={"boxstyle": "round,pad=0.12", "fc": "white", "ec": "none", "alpha": 0.85},
                    )  # fmt: skip
                left += width
            labels.append(f"{_cell_name(aspect, setting)} (n = {n:,.0f})")
        ax.set_yticks(range(len(cells)), labels)
        ax.set(xlim=(0, 100), ylim=(len(cells) - 0.4, -0.6))
        if len(models) > 1:
            ax.set_title(model)
    axes[-1, 0].set_xlabel("Images (%)")
    looks = [
        Patch(facecolor=color, hatch=hatch, edgecolor="white" if hatch else style.GREY, label=name)
        for part, (name, color, hatch) in _PARTS.items()
        if part in there
    ]
    _legend_below(figure, looks, 3)
    return figure


@style.or_nothing
def valid_images(valid: pd.DataFrame) -> Figure:
    """Draw the shares of images that show what was asked, by setting, with intervals.

    Args:
        valid: Rows of ``paired_valid_images``.
    """
    aspects = _unique(valid["aspect"])
    settings = list(dict.fromkeys(setting for _, setting in _cells(valid)))
    measures = list(_MEASURES)[::-1]
    figure, axes, models = _grid(valid, aspects, (9.4, 4.0), sharex=True, sharey=True)
    looks = dict(zip(settings, zip(style.PALETTE, style.MARKERS, strict=True), strict=False))
    for line, model in zip(axes, models, strict=True):
        for ax, aspect in zip(line, aspects, strict=True):
            rows = _of(valid, model=model, aspect=aspect)
            here = [s for s in settings if s in set(rows["setting"])]
            for setting, offset in zip(here, _offsets(len(here), 0.62)[::-1], strict=True):
                color, marker = looks[setting]
                some = rows[rows["setting"] == setting].set_index("measure").reindex(measures)
                y = np.arange(len(measures)) + offset
                limits = some["ci_low"], some["ci_high"]
                style.dots_with_intervals(
                    ax, some["percent"], *limits, y, color=color, marker=marker, size=5.5
                )
            for edge in np.arange(len(measures) - 1) + 0.5:
                ax.axhline(edge, color=style.LIGHT, lw=1, zorder=0)
            ax.set_yticks(range(len(measures)), [_MEASURES[m] for m in measures])
            ax.set(ylim=(-0.5, len(measures) - 0.5), xlabel="Images (%)")
            ax.set_title(_heading(model, models, ASPECT_NAMES.get(aspect, aspect)))
            ax.set_xlim(max(-1, min(valid["ci_low"].min(), 90) - 3), 100.8)
    _legend_below(
        figure, [_key(*looks[s], SETTING_NAMES.get(s, s), line="-") for s in settings], min(4, len(settings))
    )
    return figure


@style.or_nothing
def position_effect(effects: pd.DataFrame) -> Figure:
    """Draw how much more often people on the left are perceived as female, by list and setting.

    Args:
        effects: Rows of ``paired_position_effect``.
    """
    aspects = _unique(effects["aspect"])
    settings = list(dict.fromkeys(setting for _, setting in _cells(effects)))
    strata = ["male", "female", "overall"]
    figure, axes, models = _grid(effects, aspects, (9.2, 0.85 * len(settings) + 1.5), sharex=True)
    for line, model in zip(axes, models, strict=True):
        for ax, aspect in zip(line, aspects, strict=True):
            style.zero_line(ax)
            here = [s for s in settings if len(_of(effects, model=model, aspect=aspect, setting=s))]
            for setting, offset in zip(here, _offsets(len(here), 0.6)[::-1], strict=True):
                color, marker = _setting_look(setting)
                rows = _of(effects, model=model, aspect=aspect, setting=setting)
                rows = rows.set_index("stereotype").reindex(strata)
                y = np.arange(3) + offset
                _band(ax, rows, y, 0.7 / (len(here) + 0.6))
                style.dots_with_intervals(
                    ax, rows["difference"], rows["ci_low"], rows["ci_high"], y, color=color, marker=marker
                )
            ax.set_yticks(range(3), [stratum_name(s, aspect) for s in strata])
            ax.set_ylim(-0.55, 2.55)
            ax.set_title(_heading(model, models, ASPECT_NAMES.get(aspect, aspect)))
            ax.set_xlabel("Perceived as female,\nleft minus right (points)")
    handles = [_key(*_setting_look(s), SETTING_NAMES.get(s, s), line="-") for s in settings]
    handles.append(Patch(color=_BAND, label="what coin flips give"))
    _legend_below(figure, handles, 4)
    return figure


@style.or_nothing
def control_scores(scores: pd.DataFrame) -> Figure:
    """Draw scores with and without contrast, and how much lower each is than that of pairs.

    Args:
        scores: Rows of ``paired_control_score``.
    """
    settings = [s for s in SETTING_NAMES if s in set(scores["setting"])][::-1]
    strata = ("male", "female", "overall")
    size = (9.4, 0.72 * len(settings) + 0.9)
    figure, axes, models = _grid(scores, ["", ""], size, sharey=True)
    for (left, right), model in zip(axes, models, strict=True):
        for ax in (left, right):
            style.zero_line(ax)
        for stratum, offset in zip(strata, _offsets(3, 0.52), strict=True):
            color, marker = _LIST_LOOK[stratum]
            rows = _of(scores, model=model, stereotype=stratum).set_index("setting").reindex(settings)
            y = np.arange(len(settings)) + offset
            _band(left, rows, y, 0.22)
            look = {"color": color, "marker": marker}
            style.dots_with_intervals(left, rows["score"], rows["ci_low"], rows["ci_high"], y, **look)
            limits = rows["contrast_ci_low"], rows["contrast_ci_high"]
            style.dots_with_intervals(right, rows["contrast"], *limits, y, **look)
        left.set_yticks(range(len(settings)), [SETTING_NAMES.get(s, s) for s in settings])
        left.set_ylim(-0.5, len(settings) - 0.5)
        left.set_xlabel("Stereotype score (points)")
        left.set_title(_heading(model, models, "Scores"))
        right.set_xlabel("Two of opposite stereotype minus this (points)")
        right.set_title("Effect of contrast")
        if "paired" in settings:
            right.text(
                0.01, settings.index("paired"), "  (the setting compared with)", va="center", fontsize=9,
                color=style.GREY, transform=right.get_yaxis_transform(),
                bbox={"boxstyle": "round,pad=0.2", "fc": "white", "ec": "none"},
            )  # fmt: skip
    handles = [_key(*_LIST_LOOK[s], stratum_name(s), line="-") for s in strata[::-1]]
    handles.append(Patch(color=_BAND, label="what coin flips give"))
    _legend_below(figure, handles, 4)
    return figure


@style.or_nothing
def labour_gap(gaps: pd.DataFrame) -> Figure:
    """Draw the mean score of pairs over the gap between their labour shares: fifths of the pairs, and the line.

    Args:
        gaps: Rows of ``paired_labour_gap``; a panel for each setting.
    """
    settings = _unique(gaps["setting"])
    figure, axes, models = _grid(gaps, settings, (4.7 * max(len(settings), 1.5), 3.9), sharey=True)
    for line, model in zip(axes, models, strict=True):
        for ax, setting in zip(line, settings, strict=True):
            style.zero_line(ax, axis="y")
            color, marker = _setting_look(setting)
            rows = _of(gaps, model=model, setting=setting)
            fifths = rows[rows["group"] != "line"]
            x, y = fifths["gap"].to_numpy(), fifths["score"].to_numpy()
            ax.bar(
                x, fifths["fair_high"] - fifths["fair_low"], bottom=fifths["fair_low"],
                width=0.08 * max(np.ptp(x), 1) if len(x) else 1, color=_BAND, zorder=0,
            )  # fmt: skip
            ax.vlines(x, fifths["score_ci_low"], fifths["score_ci_high"], color=color, lw=1.8, alpha=0.75)
            ax.plot(x, y, marker, color=color, ms=7, zorder=3)
            if not len(x):
                ax.text(0.5, 0.5, "too few images for fifths", transform=ax.transAxes, ha="center")
            heading = SETTING_NAMES.get(setting, setting)
            for one in rows[rows["group"] == "line"].itertuples():
                heading += f" (n = {one.n_images:.0f} images)"
                if np.isfinite(one.slope) and len(x):
                    ends = np.array([x.min(), x.max()])
                    ax.plot(
                        ends,
                        one.score + one.slope * (ends - one.gap),
                        "--",
                        color=style.BLACK,
                        lw=1.3,
                        zorder=2,
                    )
                if np.isfinite(one.ci_low):
                    said = f"slope {one.slope:.2f} ({one.ci_low:.2f} to {one.ci_high:.2f})"
                    ax.text(0.02, 0.015, said, transform=ax.transAxes, fontsize=9.5)
            ax.set_ylim(-120, 106)
            ax.set_title(_heading(model, models, heading))
            ax.set_xlabel("Gap between labour shares of women (points)")
        line[0].set_ylabel("Mean score of both people (points)")
    handles = [
        _key(style.GREY, "o", "fifth of the pairs, with interval", line="-"),
        Line2D([], [], color=style.BLACK, ls="--", label="line through all pairs"),
        Patch(color=_BAND, label="what coin flips give"),
    ]
    _legend_below(figure, handles, 3)
    return figure


@style.or_nothing
def skin_tones(tones: pd.DataFrame) -> Figure:
    """Draw mean skin tones by stereotype or power, and the difference between the two people of an image.

    Args:
        tones: Rows of ``paired_skin_tone``.
    """
    cells = _cells(tones)[::-1]
    figure, axes, models = _grid(tones, ["", ""], (9.6, 0.6 * len(cells) + 1.2), sharey=True)
    for (left, right), model in zip(axes, models, strict=True):
        of = tones[tones["model"] == model].set_index(["aspect", "setting"])
        for group, offset in (("male", 0.13), ("female", -0.13)):
            rows = of[of["group"] == group].reindex(pd.MultiIndex.from_tuples(cells))
            color, marker = _LIST_LOOK[group]
            y = np.arange(len(cells)) + offset
            limits = rows["ci_low"], rows["ci_high"]
            style.dots_with_intervals(left, rows["skin_tone"], *limits, y, color=color, marker=marker)
        rows = of[of["group"] == "difference"].reindex(pd.MultiIndex.from_tuples(cells))
        style.zero_line(right)
        limits = rows["ci_low"], rows["ci_high"]
        at = range(len(cells))
        style.dots_with_intervals(right, rows["skin_tone"], *limits, at, color=style.BLACK, marker="D")
        counts = [f"\n(n = {n:.0f} images)" if np.isfinite(n) else "" for n in rows["n_images"]]
        left.set_yticks(at, [_cell_name(*c) + n for c, n in zip(cells, counts, strict=True)])
        left.set_ylim(-0.95, len(cells) - 0.4)
        means = tones[tones["group"] != "difference"]
        low = np.nanmin([*means["ci_low"], *means["skin_tone"], 10])
        high = np.nanmax([*means["ci_high"], *means["skin_tone"], 1])
        first, last = int(max(1, np.floor(low))), int(min(10, np.ceil(high)))
        left.set_xlim(first - 0.5, last + 0.5)
        left.set_xticks(range(first, last + 1))
        # The scale itself, below the values.
        for tone in range(first, last + 1):
            left.barh(-0.8, 1, 0.28, left=tone - 0.5, color=MONK_SWATCHES[tone - 1], zorder=0)
        left.set_xlabel("Mean Monk tone as it appears\n(1 lightest, 10 darkest)")
        left.set_title(_heading(model, models, "Skin tone"))
        right.set_xlabel("Difference in one image (tones),\nhigh-power or male-stereotyped minus other")
        right.set_title("Difference")
    handles = [
        _key(*_LIST_LOOK["male"], "male-stereotyped; in power: high", line="-"),
        _key(*_LIST_LOOK["female"], "female-stereotyped; in power: low", line="-"),
    ]
    _legend_below(figure, handles, 2)
    return figure


@style.or_nothing
def truth(truth: pd.DataFrame) -> Figure:
    """Draw how often gate, judge and order are right on people whose truth is known.

    Args:
        truth: Rows of ``paired_truth``.
    """
    judges = _unique(truth["judge"])
    measures = list(_TRUTHS)[::-1]
    figure, ax = plt.subplots(figsize=(8.6, 0.62 * len(measures) + 0.3 * len(judges) + 0.5))
    for k, offset in enumerate(_offsets(len(judges), 0.5)):
        rows = truth[truth["judge"] == judges[-1 - k]].set_index("measure").reindex(measures)
        y = np.arange(len(measures)) + offset
        look = len(judges) - 1 - k
        style.dots_with_intervals(
            ax, rows["percent"], rows["ci_low"], rows["ci_high"], y,
            color=style.PALETTE[look % 7], marker=style.MARKERS[look % 7],
        )  # fmt: skip
        for at, row in zip(y, rows.itertuples(), strict=True):
            if np.isfinite(row.percent):
                ax.annotate(
                    f"{row.percent:.1f} % of {row.n:.0f}", (1.01, at), xycoords=("axes fraction", "data"),
                    va="center", fontsize=9, color=style.GREY,
                )  # fmt: skip
    ax.set_yticks(range(len(measures)), [_TRUTHS[m] for m in measures])
    lowest = np.nanmin([*truth["ci_low"], 98])
    ax.set(ylim=(-0.5, len(measures) - 0.5), xlim=(max(0, lowest - 2), 100.3), xlabel="Share (%)")
    handles = [_key(style.PALETTE[k % 7], style.MARKERS[k % 7], j, line="-") for k, j in enumerate(judges)]
    _legend_below(figure, handles, 3)
    return figure


@style.or_nothing
def agreement(agreement: pd.DataFrame) -> Figure:
    """Draw kappas of judges: hollow where there is no interval, as in print, else filled with their intervals.

    Args:
        agreement: Rows of ``paired_judge_agreement``.
    """
    known = agreement[agreement["aspect"] != "average"]
    keys = ["model", "judge", "reference", "statistic", "aspect"]
    cells = list(dict.fromkeys(known[keys].itertuples(index=False, name=None)))[::-1]
    settings = _unique(known["setting"])
    figure, ax = plt.subplots(figsize=(9.2, 0.38 * len(cells) + 1.3))
    for setting, offset in zip(settings, _offsets(len(settings), 0.36)[::-1], strict=True):
        color, marker = _setting_look(setting)
        rows = known[known["setting"] == setting].set_index(keys)
        rows = rows[~rows.index.duplicated()].reindex(pd.MultiIndex.from_tuples(cells))
        y = np.arange(len(cells)) + offset
        limits = rows["ci_low"], rows["ci_high"]
        style.dots_with_intervals(ax, rows["value"], *limits, y, color=color, marker=marker)
    style.zero_line(ax)
    names = [
        f"{model}: {JUDGE_NAMES.get(judge, judge)}{'' if judge == reference else f' with {reference}'}, "
        f"{ASPECT_NAMES.get(aspect, aspect).lower()} ({'Fleiss' if 'fleiss' in statistic else 'Cohen'})"
        for model, judge, reference, statistic, aspect in cells
    ]
    ax.set_yticks(range(len(cells)), names)
    ax.set(xlim=(min(-0.03, agreement["ci_low"].min() - 0.02), 1.03), ylim=(-0.6, len(cells) - 0.4))
    ax.set_xlabel("Kappa (1 full agreement, 0 chance)")
    handles = [_key(*_setting_look(s), SETTING_NAMES.get(s, s), line="-") for s in settings]
    handles.append(_key(style.GREY, "o", "no interval", hollow=True))
    _legend_below(figure, handles, 3)
    return figure
