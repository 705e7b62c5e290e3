"""Figures of the Paired Stereotype Test: tables of :mod:`biaslab.studies.paired` in, figures out.

Several models are drawn below one another; the sizes fit the width of a report.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from biaslab.plots import style

SETTING_NAMES = {
    "single": "one person",
    "paired": "two people",
    "paired_top5": "two people, top 5",
    "intervention": "two people, intervention",
    "intervention_top5": "two people, top 5, intervention",
    "faircritic": "two people, FairCritic",
}
ASPECT_NAMES = {"occupation": "Occupations", "power": "Power roles"}
JUDGE_NAMES = {"annotators": "Annotators", "vqa": "BLIP (VQA)", "fairface": "FairFace"}
_SETTING_LOOK = {
    "single": (style.ORANGE, "s"),
    "paired": (style.BLUE, "o"),
    "paired_top5": (style.SKY, "P"),
    "intervention": (style.VERMILION, "^"),
    "intervention_top5": (style.PURPLE, "v"),
    "faircritic": (style.GREEN, "D"),
}
_LIST_LOOK = {"female": (style.FEMALE, "o"), "male": (style.MALE, "s"), "overall": (style.BLACK, "D")}
_SCORE = "Stereotype score (points)"
_FEMALE = "Perceived as female (%)"


def stratum_name(stratum: str, aspect: str = "occupation") -> str:
    """Return the name of a list of identities, or of both, as an axis label."""
    if stratum == "overall":
        return "overall"
    role = {"female": "low power", "male": "high power"}[stratum]
    return f"{stratum}-stereotyped" if aspect == "occupation" else f"{role}\n({stratum}-stereotyped)"


def _setting_name(setting: str) -> str:
    return SETTING_NAMES.get(setting, setting.replace("_", " "))


def _title(setting: str) -> str:
    name = _setting_name(setting)
    return name[0].upper() + name[1:]


def _setting_look(setting: str) -> tuple[str, str]:
    return _SETTING_LOOK.get(setting, (style.YELLOW, "X"))


def _unique(values: pd.Series) -> list[str]:
    return list(dict.fromkeys(values))


def _of(table: pd.DataFrame, **values: str) -> pd.DataFrame:
    """Return the rows whose columns have these values."""
    return table[np.logical_and.reduce([table[column] == value for column, value in values.items()])]


def _offsets(count: int, width: float = 0.4) -> np.ndarray:
    return np.linspace(-width / 2, width / 2, count) if count > 1 else np.zeros(count)


def _grid(table: pd.DataFrame, columns: list[str], size: tuple[float, float], **shared) -> tuple:
    """Return a figure, its axes (models, columns) and the models; ``size`` is of one model's row, in inches."""
    models = _unique(table["model"])
    figure, axes = plt.subplots(
        len(models), len(columns), figsize=(size[0], size[1] * len(models) + 0.4), squeeze=False, **shared
    )
    if len(models) > 1:
        for ax in axes.flat:
            # A shared axis has numbers below the last model only.
            ax.tick_params(labelbottom=True)
    return figure, axes, models


def _grid_by_rows(
    table: pd.DataFrame, columns: list[str], width: float, inch: float, more: float, rows: dict, **shared
) -> tuple:
    """Return the same, each model as high as its number of ``rows`` asks: ``inch`` for each, and ``more`` in all."""
    heights = [inch * rows[model] + more for model in _unique(table["model"])]
    size = (width, sum(heights) / len(heights))
    return _grid(table, columns, size, gridspec_kw={"height_ratios": heights}, **shared)


def _heading(model: str, models: list[str], text: str) -> str:
    return f"{model}: {text}" if len(models) > 1 else text


def _legend_below(figure: Figure, handles: list, columns: int = 3) -> None:
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=columns)


def _key(color: str, marker: str, label: str, *, hollow: bool = False, line: str = "none") -> Line2D:
    face = "white" if hollow else color
    bar = {"markersize": 13, "markeredgewidth": 2} if marker == "|" else {}
    return Line2D([], [], color=color, marker=marker, ls=line, label=label, markerfacecolor=face, **bar)


@style.or_nothing
def stereotype_scores(scores: pd.DataFrame) -> Figure:
    """Draw the mean score of each list and overall, by aspect and setting, with both kinds of interval.

    Args:
        scores: Rows of ``paired_stereotype_score``; printed rows without intervals are hollow.
    """
    aspects, settings = _unique(scores["aspect"]), _unique(scores["setting"])
    figure, axes, models = _grid(scores, aspects, (9.2, 3.3), sharex=True)
    strata = ["male", "female", "overall"]
    for line, model in zip(axes, models, strict=True):
        for ax, aspect in zip(line, aspects, strict=True):
            style.zero_line(ax)
            for setting, offset in zip(settings, _offsets(len(settings))[::-1], strict=True):
                color, marker = _setting_look(setting)
                rows = _of(scores, model=model, aspect=aspect, setting=setting)
                rows = rows.set_index("stereotype").reindex(strata)
                y = np.arange(3) + offset
                ax.hlines(y, rows["images_ci_low"], rows["images_ci_high"], color=color, lw=6, alpha=0.28)
                style.dots_with_intervals(
                    ax, rows["score"], rows["ci_low"], rows["ci_high"], y, color=color, marker=marker
                )
            ax.set_yticks(range(3), [stratum_name(s, aspect) for s in strata])
            ax.set_ylim(-0.5, 2.5)
            ax.set_title(_heading(model, models, ASPECT_NAMES.get(aspect, aspect)))
            ax.set_xlabel(_SCORE)
    handles = [_key(*_setting_look(s), _setting_name(s)) for s in settings]
    handles += [
        Line2D([], [], color=style.GREY, lw=1.8, label="interval over identities"),
        Line2D([], [], color=style.GREY, lw=6, alpha=0.4, label="over images only"),
    ]
    if (scores["ci_low"].isna() & scores["score"].notna()).any():
        handles.append(_key(style.GREY, "o", "no interval", hollow=True))
    _legend_below(figure, handles, 3 if len(handles) > 4 else 4)
    return figure


@style.or_nothing
def runs(runs: pd.DataFrame, scores: pd.DataFrame) -> Figure:
    """Draw the overall score of each sampling of images beside the score over all of them.

    Args:
        runs: Rows of ``paired_run_score``.
        scores: Rows of ``paired_stereotype_score``; their image-only interval is drawn.
    """
    cells = list(dict.fromkeys(zip(runs["aspect"], runs["setting"], strict=True)))[::-1]
    figure, axes, models = _grid(runs, [""], (8.2, 2.9))
    for ax, model in zip(axes[:, 0], models, strict=True):
        style.zero_line(ax)
        for y, (aspect, setting) in enumerate(cells):
            color, marker = _setting_look(setting)
            some = _of(runs, model=model, aspect=aspect, setting=setting)
            whole = _of(scores, model=model, aspect=aspect, setting=setting, stereotype="overall")
            heights = y + 0.2 + _offsets(len(some), 0.2)
            ax.plot(some["score"], heights, marker, color=color, mfc="none", ms=6, zorder=3)
            limits = whole["images_ci_low"], whole["images_ci_high"]
            style.dots_with_intervals(
                ax, whole["score"], *limits, np.full(len(whole), y - 0.2), color=color, marker=marker
            )
        labels = [f"{ASPECT_NAMES.get(a, a)}, {_setting_name(s)}" for a, s in cells]
        ax.set_yticks(range(len(cells)), labels)
        ax.set_ylim(-0.6, len(cells) - 0.4)
        ax.set_title(_heading(model, models, "Overall score by sampling of images"))
        ax.set_xlabel(_SCORE)
    handles = [
        _key(style.GREY, "o", "one sampling", hollow=True),
        _key(style.GREY, "o", "all images, interval over images only", line="-"),
    ]
    _legend_below(figure, handles, 2)
    return figure


@style.or_nothing
def biased_images(images: pd.DataFrame, printed: pd.DataFrame) -> Figure:
    """Draw the share of images that fit stereotypes: a dot where counted, else the limits as a bar.

    Args:
        images: Rows of ``paired_biased_images``.
        printed: Rows of ``paired_printed_value`` whose quantity is ``percent_biased_images``; a line each.
    """
    names = {"person": "the person fits", "both": "both people fit", "any": "at least one fits"}
    keys = ["aspect", "setting", "measure"]
    each = {
        model: [tuple(r) for r in rows[keys].to_numpy()][::-1]
        for model, rows in images.groupby("model", sort=False)
    }
    rows = {model: len(cells) for model, cells in each.items()}
    figure, axes, models = _grid_by_rows(images, [""], 8.6, 0.42, 0.9, rows)
    for ax, model in zip(axes[:, 0], models, strict=True):
        cells = each[model]
        for y, (aspect, setting, measure) in enumerate(cells):
            color, marker = _setting_look(setting)
            rows = _of(images, model=model, aspect=aspect, setting=setting, measure=measure)
            position = np.full(len(rows), float(y))
            ax.barh(
                position, rows["highest"] - rows["lowest"], left=rows["lowest"], height=0.42, color=color,
                alpha=0.45, edgecolor=color,
            )  # fmt: skip
            for row in rows.dropna(subset=["lowest"]).itertuples():
                inside = row.highest - row.lowest > 15
                ax.text(
                    (row.lowest + row.highest) / 2 if inside else row.lowest - 1.5,
                    y,
                    f"{row.lowest:.1f} to {row.highest:.1f}",
                    ha="center" if inside else "right",
                    va="center",
                    fontsize=9,
                )
            style.dots_with_intervals(
                ax, rows["percent"], rows["ci_low"], rows["ci_high"], position, color=color, marker=marker
            )
        for stated in _of(printed, model=model).itertuples():
            at = [i for i, c in enumerate(cells) if c == (stated.aspect, stated.setting, "any")]
            ax.vlines([stated.value] * len(at), np.array(at) - 0.36, np.array(at) + 0.36, color="k", lw=2)
        ax.set_yticks(
            range(len(cells)),
            [f"{ASPECT_NAMES.get(a, a)}, {_setting_name(s)}: {names[m]}" for a, s, m in cells],
        )
        ax.set(xlim=(0, 101), ylim=(-0.6, len(cells) - 0.4), xlabel="Images (%)")
        if len(models) > 1:
            ax.set_title(model)
    handles = [
        _key(style.GREY, "o", "counted, with interval", line="-"),
        Line2D([], [], color=style.BLUE, lw=8, alpha=0.45, label="all that shares per identity allow"),
    ]
    if len(printed):
        handles.append(_key("k", "|", "printed lower limit"))
    _legend_below(figure, handles)
    return figure


def hollow_name(table: pd.DataFrame, significant: float) -> str:
    """Return what hollow marks mean: identities that do not differ from 0, or could not, whatever had come out.

    Args:
        table: With ``smallest_p_holm``, the smallest corrected p that an identity could have.
        significant: The level.
    """
    smallest = table["smallest_p_holm"].dropna()
    none = len(smallest) > 0 and (smallest >= significant).all()
    some = "" if none or (smallest < significant).all() else ", or too few people to tell"
    return "too few people to differ from 0 (Holm)" if none else f"not different from 0 (Holm){some}"


@style.or_nothing
def identity_scores(scores: pd.DataFrame, *, significant: float = 0.05) -> Figure:
    """Draw each identity's score with its interval and the scores a fair model would show, by setting.

    Args:
        scores: Rows of ``paired_occupation_score`` or ``paired_power_score``. Two roles of one occupation
            share a line. Sorted by the mean score in the last setting.
        significant: Filled dots have a Holm-corrected p below this.
    """
    settings = _unique(scores["setting"])
    count = scores.groupby("model")["occupation"].nunique()
    roles = scores.groupby(["model", "setting", "occupation"]).size().max() > 1
    inch = 0.27 if roles else 0.215
    figure, axes, models = _grid_by_rows(scores, settings, 9.2, inch, 1.2, count, sharex=True)
    for line, model in zip(axes, models, strict=True):
        of = scores[scores["model"] == model]
        order = of[of["setting"] == settings[-1]].groupby("occupation")["score"].mean().sort_values().index
        order = [*order, *sorted(set(of["occupation"]) - set(order))]
        place = {name: i for i, name in enumerate(order)}
        for ax, setting in zip(line, settings, strict=True):
            style.zero_line(ax)
            for stratum in ("female", "male"):
                color, marker = _LIST_LOOK[stratum]
                rows = _of(of, setting=setting, stereotype=stratum).dropna(subset=["score"])
                shift = (0.18 if stratum == "male" else -0.18) if roles else 0.0
                y = rows["occupation"].map(place) + shift
                height = 0.34 if roles else 0.8
                ax.barh(
                    y, rows["fair_high"] - rows["fair_low"], left=rows["fair_low"], height=height,
                    color=style.LIGHT, zorder=0,
                )  # fmt: skip
                ax.hlines(y, rows["ci_low"], rows["ci_high"], color=color, lw=1.5, alpha=0.75, zorder=2)
                sure = rows["p_holm"] < significant
                for which, face in ((sure, color), (~sure, "white")):
                    ax.plot(rows["score"][which], y[which], marker, ms=5, mfc=face, mec=color, zorder=3)
            here = of[(of["setting"] == setting) & of["score"].notna()]
            people, fair = here["n"], here["fair_high"]
            each = f"n = {people.min():g}" + (f"–{people.max():g}" if people.min() < people.max() else "")
            if len(here):
                band = f"±{fair.min():.0f}" + (
                    f" to {fair.max():.0f}" if round(fair.min()) < round(fair.max()) else ""
                )
                each += f"; fair: {band}"
            size = 12 if len(models) == 1 else 10
            ax.set_title(_heading(model, models, f"{_title(setting)} ({each})"), fontsize=size)
            ax.set(xlim=(-106, 106), ylim=(-0.7, len(order) - 0.3), xlabel=_SCORE)
            ax.set_yticks(range(len(order)), order if ax is line[0] else [""] * len(order), fontsize=8.5)
            ax.tick_params(axis="y", length=0)
    aspect = scores["aspect"].iloc[0]
    handles = [_key(*_LIST_LOOK[s], stratum_name(s, aspect).replace("\n", " ")) for s in ("female", "male")]
    handles += [
        _key(style.GREY, "o", hollow_name(scores, significant), hollow=True),
        Line2D([], [], color=style.LIGHT, lw=8, label="scores of a fair model"),
    ]
    _legend_below(figure, handles, 4 if aspect == "occupation" else 2)
    return figure


@style.or_nothing
def labour_shares(comparison: pd.DataFrame) -> Figure:
    """Draw each occupation's share perceived as female beside its labour share, sorted by the first.

    Args:
        comparison: Rows of ``paired_labour_comparison`` of one setting.
    """
    setting = _setting_name(comparison["setting"].iloc[0])
    count = comparison.groupby("model")["occupation"].nunique()
    figure, axes, models = _grid_by_rows(comparison, [""], 8.2, 0.215, 1.1, count)
    for ax, model in zip(axes[:, 0], models, strict=True):
        rows = comparison[comparison["model"] == model].sort_values("percent_female", kind="stable")
        y = np.arange(len(rows))
        style.zero_line(ax, 50)
        ax.hlines(y, rows["percent_female"], rows["percent_female_labour"], color=style.LIGHT, lw=4, zorder=0)
        for stratum in ("female", "male"):
            color, marker = _LIST_LOOK[stratum]
            which = (rows["stereotype"] == stratum).to_numpy()
            some = rows[which]
            style.dots_with_intervals(
                ax,
                some["percent_female"],
                some["ci_low"],
                some["ci_high"],
                y[which],
                color=color,
                marker=marker,
            )
        ax.plot(rows["percent_female_labour"], y, "D", mfc=style.YELLOW, mec=style.BLACK, ms=5, zorder=4)
        ax.set_yticks(y, rows["occupation"], fontsize=8.5)
        ax.set(xlim=(-1, 101), ylim=(-0.7, len(rows) - 0.3), xlabel=_FEMALE)
        ax.set_title(_heading(model, models, f"Generated images ({setting}) and labour force"))
    handles = [_key(*_LIST_LOOK[s], f"generated, {stratum_name(s)}") for s in ("female", "male")]
    handles.append(
        Line2D(
            [],
            [],
            ls="none",
            marker="D",
            mfc=style.YELLOW,
            mec=style.BLACK,
            label="women in the labour force",
        )
    )
    _legend_below(figure, handles)
    return figure


@style.or_nothing
def labour_correlation(comparison: pd.DataFrame, correlation: pd.DataFrame) -> Figure:
    """Draw generated against labour shares, one panel a setting, with Pearson's r and its interval.

    Args:
        comparison: Rows of ``paired_labour_comparison``.
        correlation: Rows of ``paired_labour_correlation``.
    """
    settings = _unique(comparison["setting"])
    figure, axes, models = _grid(comparison, settings, (9.2, 4.4), sharex=True, sharey=True)
    for line, model in zip(axes, models, strict=True):
        for ax, setting in zip(line, settings, strict=True):
            ax.plot([0, 100], [0, 100], "--", color=style.GREY, lw=1, zorder=1)
            style.zero_line(ax, 50, axis="y")
            rows = _of(comparison, model=model, setting=setting)
            rows = rows.dropna(subset=["percent_female", "percent_female_labour"])
            for stratum in ("female", "male"):
                color, marker = _LIST_LOOK[stratum]
                some = rows[rows["stereotype"] == stratum]
                x, g = some["percent_female_labour"], some["percent_female"]
                ax.vlines(x, some["ci_low"], some["ci_high"], color=color, lw=1.2, alpha=0.4, zorder=2)
                ax.plot(x, g, marker, color=color, ms=5.5, zorder=3)
            r = _of(correlation, model=model, setting=setting).set_index("stereotype")
            lines = [
                f"{'both lists' if s == 'overall' else s + ' list'}: r = {r.loc[s, 'r']:.2f} "
                f"({_limits(r.loc[s])}), n = {r.loc[s, 'n']:.0f}"
                for s in ("overall", "female", "male")
                if s in r.index
            ]
            title = _heading(model, models, _title(setting))
            ax.set_title(title, pad=50)
            ax.text(0, 1.02, "\n".join(lines), transform=ax.transAxes, fontsize=9, va="bottom")
            ax.set(xlim=(-2, 102), ylim=(-2, 102), xlabel="Women in the labour force (%)")
        line[0].set_ylabel(f"Generated: {_FEMALE.lower()}")
    handles = [_key(*_LIST_LOOK[s], stratum_name(s)) for s in ("female", "male")]
    handles.append(Line2D([], [], color=style.GREY, ls="--", label="same share as in the labour force"))
    _legend_below(figure, handles)
    return figure


def _limits(row: pd.Series) -> str:
    known = np.isfinite(row["ci_low"]) and np.isfinite(row["ci_high"])
    return f"{row['ci_low']:.2f} to {row['ci_high']:.2f}" if known else "no interval"


@style.or_nothing
def labour_amplification(table: pd.DataFrame) -> Figure:
    """Draw the mean amplification against labour shares by definition and setting, corrected for image noise.

    Args:
        table: Rows of ``paired_labour_amplification``.
    """
    names = {
        "published": "published rule\n(same lean only)",
        "no_exclusion": "no exclusion",
        "directional": "along the lean of\nthe labour share",
    }
    settings, definitions = (
        _unique(table["setting"]),
        [d for d in names if d in set(table["definition"])][::-1],
    )
    figure, axes, models = _grid(table, [""], (8.2, 3.0))
    for ax, model in zip(axes[:, 0], models, strict=True):
        style.zero_line(ax)
        for setting, offset in zip(settings, _offsets(len(settings))[::-1], strict=True):
            color, marker = _setting_look(setting)
            rows = _of(table, model=model, setting=setting).set_index("definition")
            rows = rows.reindex(definitions)
            y = np.arange(len(definitions)) + offset
            limits = rows["ci_low"], rows["ci_high"]
            style.dots_with_intervals(ax, rows["amplification"], *limits, y, color=color, marker=marker)
            ax.plot(rows["uncorrected"], y, "|", color=style.BLACK, ms=15, mew=2, zorder=4)
            for at, used, value in zip(y, rows["n_occupations"], rows["ci_high"], strict=True):
                if np.isfinite(value):
                    ax.text(value + 0.6, at, f"n = {used:.0f}", va="center", fontsize=9, color=style.GREY)
        ax.set_yticks(range(len(definitions)), [names[d] for d in definitions])
        ax.set_ylim(-0.5, len(definitions) - 0.5)
        ax.margins(x=0.12)
        ax.set_xlabel("Mean amplification against labour shares (points)")
        if len(models) > 1:
            ax.set_title(model)
    handles = [_key(*_setting_look(s), _setting_name(s), line="-") for s in settings]
    handles.append(_key(style.BLACK, "|", "uncorrected"))
    _legend_below(figure, handles)
    return figure


@style.or_nothing
def role_coupling(scores: pd.DataFrame) -> Figure:
    """Draw the scores of the two roles of each occupation against each other, one panel a setting.

    Args:
        scores: Rows of ``paired_power_score``. The area and the number count occupations.
    """
    settings = _unique(scores["setting"])
    figure, axes, models = _grid(scores, settings, (9.2, 4.7), sharex=True, sharey=True)
    for line, model in zip(axes, models, strict=True):
        for ax, setting in zip(line, settings, strict=True):
            rows = _of(scores, model=model, setting=setting).round({"score": 1})
            wide = rows.groupby(["occupation", "stereotype"])["score"].mean().unstack()
            wide = wide.reindex(columns=["female", "male"]).dropna()
            at = wide.groupby(["female", "male"]).size().reset_index(name="count")
            ax.plot([-100, 100], [-100, 100], "--", color=style.GREY, lw=1, zorder=1)
            color, _ = _setting_look(setting)
            ax.scatter(at["female"], at["male"], s=90 + 42 * at["count"], color=color, alpha=0.85, zorder=2)
            for row in at.itertuples():
                ax.text(
                    row.female, row.male, row.count, ha="center", va="center", fontsize=9, color="white",
                    fontweight="bold", zorder=3,
                )  # fmt: skip
            same = int((wide["female"] == wide["male"]).sum())
            name = _heading(model, models, _title(setting))
            ax.set_title(f"{name}: {same} of {len(wide)} equal")
            ax.set(xlim=(-118, 118), ylim=(-118, 118), aspect="equal")
            ax.set_xlabel("Low-power role: score (points)")
        line[0].set_ylabel("High-power role: score (points)")
    handles = [Line2D([], [], color=style.GREY, ls="--", label="both roles have the same score")]
    _legend_below(figure, handles)
    return figure


@style.or_nothing
def score_changes(changes: pd.DataFrame) -> Figure:
    """Draw the mean change of the score from one person to two, by list and overall.

    Args:
        changes: Rows of ``paired_score_change`` of one setting.
    """
    aspects = _unique(changes["aspect"])
    figure, axes, models = _grid(changes, aspects, (9.2, 2.7), sharex=True)
    strata = ["male", "female", "overall"]
    for line, model in zip(axes, models, strict=True):
        for ax, aspect in zip(line, aspects, strict=True):
            style.zero_line(ax)
            rows = _of(changes, model=model, aspect=aspect).set_index("stereotype").reindex(strata)
            for y, stratum in enumerate(strata):
                color, marker = _LIST_LOOK[stratum]
                row = rows.loc[[stratum]]
                style.dots_with_intervals(
                    ax, row["change"], row["ci_low"], row["ci_high"], [y], color=color, marker=marker, size=7
                )
            ax.set_yticks(range(3), [stratum_name(s, aspect) for s in strata])
            ax.set_ylim(-0.5, 2.5)
            n = rows.loc["overall", "n_identities"]
            ax.set_title(_heading(model, models, f"{ASPECT_NAMES.get(aspect, aspect)} ({n:.0f} identities)"))
            ax.set_xlabel("Change of the score (points)")
    return figure


@style.or_nothing
def identity_changes(changes: pd.DataFrame, *, significant: float = 0.05) -> Figure:
    """Draw each identity's change of score with its interval, sorted.

    Args:
        changes: Rows of ``paired_identity_change`` of one aspect and one setting.
        significant: Filled dots have a Holm-corrected p below this.
    """
    count = changes.groupby("model")["identity"].nunique()
    figure, axes, models = _grid_by_rows(changes, [""], 8.2, 0.215, 1.1, count)
    for ax, model in zip(axes[:, 0], models, strict=True):
        rows = (
            changes[changes["model"] == model].dropna(subset=["change"]).sort_values("change", kind="stable")
        )
        y = np.arange(len(rows))
        style.zero_line(ax)
        ax.hlines(y, rows["ci_low"], rows["ci_high"], color=style.GREY, lw=1.2, alpha=0.6, zorder=2)
        sure = (rows["p_holm"] < significant).to_numpy()
        for stratum in ("female", "male"):
            color, marker = _LIST_LOOK[stratum]
            which = (rows["stereotype"] == stratum).to_numpy()
            for some, face in ((which & sure, color), (which & ~sure, "white")):
                ax.plot(rows["change"][some], y[some], marker, ms=5.5, mfc=face, mec=color, zorder=3)
        ax.set_yticks(y, rows["identity"], fontsize=8.5)
        ax.set(ylim=(-0.7, len(rows) - 0.3), xlabel="Change of the score, two people minus one (points)")
        if len(models) > 1:
            ax.set_title(model)
    handles = [_key(*_LIST_LOOK[s], stratum_name(s)) for s in ("female", "male")]
    handles.append(_key(style.GREY, "o", hollow_name(changes, significant), hollow=True))
    _legend_below(figure, handles)
    return figure


@style.or_nothing
def divided(adherence: pd.DataFrame, cases: pd.DataFrame) -> Figure:
    """Draw how people who fit, and cases of amplified or reduced bias, divide between the two lists.

    Args:
        adherence: Rows of ``paired_adherence``.
        cases: Rows of ``paired_changed_cases``.
    """
    moved = cases[cases["direction"] != "unchanged"]
    most = moved.groupby("model").size().max() / 2 if len(moved) else 0
    figure, axes, models = _grid(adherence, ["", ""], (9.4, max(3.2, 0.6 * most + 0.8)), sharex=True)
    color, marker = _LIST_LOOK["male"]
    for (left, right), model in zip(axes, models, strict=True):
        fit = _of(adherence, model=model, stereotype="male").iloc[::-1]
        case = _of(moved, model=model, stereotype="male").iloc[::-1]
        for ax in (left, right):
            style.zero_line(ax, 50)
        style.dots_with_intervals(
            left, fit["percent_of_adhering"], fit["ci_low"], fit["ci_high"], range(len(fit)),
            color=color, marker=marker, size=7,
        )  # fmt: skip
        names = [
            f"{ASPECT_NAMES.get(r.aspect, r.aspect)},\n{_setting_name(r.setting)}" for r in fit.itertuples()
        ]
        left.set_yticks(range(len(fit)), names)
        left.set_title(_heading(model, models, "People who fit their stereotype"))
        y = np.arange(len(case))
        style.dots_with_intervals(
            right, case["percent_of_cases"], case["ci_low"], case["ci_high"], y,
            color=color, marker=marker, size=7,
        )  # fmt: skip
        right.plot(case["percent_of_points"], y - 0.22, "|", color=style.BLACK, ms=12, mew=2)
        right.plot(_printed_male(moved, model, case), y + 0.22, "X", color=style.VERMILION, ms=7)
        settings = case["setting"].nunique() > 1
        names = [
            f"{ASPECT_NAMES.get(r.aspect, r.aspect)}{', ' + _setting_name(r.setting) if settings else ''},\n"
            f"{r.direction} (n = {r.n:.0f})"
            for r in case.itertuples()
        ]
        right.set_yticks(y, names)
        right.set_title(_heading(model, models, "Cases of changed bias"))
        for ax, rows in ((left, fit), (right, case)):
            ax.set(xlim=(0, 100), ylim=(-0.6, len(rows) - 0.4))
            ax.set_xlabel("Share in the male-stereotyped list (%)")
    handles = [
        _key(color, marker, "share of people or cases, with interval", line="-"),
        _key(style.BLACK, "|", "share of points"),
    ]
    if moved["printed"].notna().any():
        handles.append(_key(style.VERMILION, "X", "stated in the paper"))
    _legend_below(figure, handles)
    return figure


def _printed_male(moved: pd.DataFrame, model: str, case: pd.DataFrame) -> np.ndarray:
    """Return the stated share of the male list, also where the paper states that of the female one."""
    keys = ["aspect", "setting", "direction"]
    of = moved[moved["model"] == model].set_index([*keys, "stereotype"])["printed"]
    found = []
    for names in case[keys].itertuples(index=False):
        female, male = of.get((*names, "female"), np.nan), of.get((*names, "male"), np.nan)
        found.append(male if np.isfinite(male) else 100 - female)
    return np.array(found, dtype=float)


@style.or_nothing
def lean_and_stereotype(lean: pd.DataFrame) -> Figure:
    """Draw each setting by its shares perceived as female in the two lists.

    The dashed diagonal is a score of 0 (both lists alike); along it lies the lean to one gender, across it the
    stereotype.

    Args:
        lean: Rows of ``paired_lean``; printed rows without intervals are hollow.
    """
    aspects = _unique(lean["aspect"])
    figure, axes, models = _grid(lean, aspects, (9.2, 4.9), sharex=True, sharey=True)
    for line, model in zip(axes, models, strict=True):
        for ax, aspect in zip(line, aspects, strict=True):
            ax.plot([0, 100], [0, 100], "--", color=style.GREY, lw=1, zorder=1)
            ax.plot([0, 100], [100, 0], ":", color=style.GREY, lw=1, zorder=1)
            of = _of(lean, model=model, aspect=aspect)
            centre = {}
            for setting in _unique(of["setting"]):
                rows = of[of["setting"] == setting].set_index("stereotype")
                if not {"female", "male"} <= set(rows.index):
                    continue
                color, marker = _setting_look(setting)
                x, y = rows.loc["male"], rows.loc["female"]
                centre[setting] = x["percent_female"], y["percent_female"]
                known = np.isfinite(x["ci_low"])
                ax.hlines(y["percent_female"], x["ci_low"], x["ci_high"], color=color, lw=1.8, alpha=0.75)
                ax.vlines(x["percent_female"], y["ci_low"], y["ci_high"], color=color, lw=1.8, alpha=0.75)
                ax.plot(
                    *centre[setting], marker, color=color, mfc=color if known else "white", ms=8, zorder=3
                )
            ends = [centre.get(setting, (np.nan, np.nan)) for setting in ("single", "paired")]
            # A list of whom nobody is judged has no place.
            if np.isfinite(ends).all():
                ax.annotate(
                    "", ends[1], ends[0],
                    arrowprops={"arrowstyle": "->", "color": style.GREY, "shrinkA": 8, "shrinkB": 8},
                )  # fmt: skip
            text = {
                "ha": "center",
                "va": "top",
                "fontsize": 9,
                "color": style.GREY,
                "rotation_mode": "anchor",
            }
            ax.text(24, 22, "both lists alike (score 0)", rotation=45, **text)
            ax.text(80, 18, "half of all female", rotation=-45, **text)
            ax.set_title(_heading(model, models, ASPECT_NAMES.get(aspect, aspect)))
            ax.set(xlim=(0, 100), ylim=(0, 100), aspect="equal")
            ax.set_xlabel(f"Male-stereotyped list: {_FEMALE.lower()}")
        line[0].set_ylabel(f"Female-stereotyped list: {_FEMALE.lower()}")
    bare = set(lean.loc[lean["ci_low"].isna(), "setting"])
    handles = [_key(*_setting_look(s), _setting_name(s), hollow=s in bare) for s in _unique(lean["setting"])]
    _legend_below(figure, handles, 4)
    return figure


@style.or_nothing
def mitigation(table: pd.DataFrame) -> Figure:
    """Draw scores without and with mitigation, the side against stereotypes shaded.

    Pale lines are the margins at the unmitigated n, of printed scores without n.

    Args:
        table: Rows of ``paired_mitigation``.
    """
    names = {"none": "no mitigation", "intervention": "intervention", "faircritic": "FairCritic"}
    keys = ["aspect", "scope", "mitigation"]
    rank = {a: i for i, a in enumerate(("occupation", "power", "all", "top5", *names))}
    each = {
        model: sorted(set(map(tuple, rows[keys].to_numpy())), key=lambda c: [rank.get(v, 99) for v in c])[
            ::-1
        ]
        for model, rows in table.groupby("model", sort=False)
    }
    rows = {model: len(cells) for model, cells in each.items()}
    figure, axes, models = _grid_by_rows(table, [""], 8.6, 0.62, 0.9, rows)
    limits = table[["score", "ci_low", "ci_high"]].to_numpy()
    reach = min(104.0, 8 + float(np.nanmax(np.abs(limits)))) if np.isfinite(limits).any() else 104.0
    for ax, model in zip(axes[:, 0], models, strict=True):
        style.zero_line(ax)
        cells = each[model]
        for y, (aspect, scope, kind) in enumerate(cells):
            of = _of(table, model=model, aspect=aspect, scope=scope, mitigation=kind).set_index("stereotype")
            for stratum, offset in (("female", 0.22), ("male", 0.0), ("overall", -0.22)):
                if stratum not in of.index:
                    continue
                row, (color, marker) = of.loc[[stratum]], _LIST_LOOK[stratum]
                at = y + offset
                bare = row["ci_low"].isna()
                margin = row["margin"].where(bare)
                ax.hlines(at, row["score"] - margin, row["score"] + margin, color=color, lw=6, alpha=0.22)
                style.dots_with_intervals(
                    ax, row["score"], row["ci_low"], row["ci_high"], [at], color=color, marker=marker
                )
        labels = [
            f"{ASPECT_NAMES.get(a, a)}{', top 5 of each list' if s == 'top5' else ''}: {names.get(k, k)}"
            for a, s, k in cells
        ]
        ax.set_yticks(range(len(cells)), labels)
        ax.set(xlim=(-reach, reach), ylim=(-0.6, len(cells) - 0.4))
        ax.axvspan(-reach, 0, color=style.LIGHT, alpha=0.35, lw=0, zorder=0)
        ax.set_xlabel(f"← against   {_SCORE}   towards →")
        if len(models) > 1:
            ax.set_title(model)
    handles = [_key(*_LIST_LOOK[s], stratum_name(s)) for s in ("female", "male", "overall")]
    if (table["ci_low"].isna() & table["score"].notna()).any():
        handles.append(_key(style.GREY, "o", "printed, no interval", hollow=True))
        margin = Line2D([], [], color=style.GREY, lw=6, alpha=0.4, label="margin if n were the unmitigated n")
        handles += [margin] if table["margin"].notna().any() else []
    _legend_below(figure, handles, 3)
    return figure


@style.or_nothing
def judges(agreement: pd.DataFrame, attenuation: pd.DataFrame) -> Figure:
    """Draw the agreement of judges, and the overall score that each automated judge would report.

    Args:
        agreement: Rows of ``paired_judge_agreement``.
        attenuation: Rows of ``paired_judge_attenuation``.
    """
    figure, axes, models = _grid(agreement, ["", ""], (9.4, 3.4))
    for (left, right), model in zip(axes, models, strict=True):
        of = agreement[(agreement["model"] == model) & (agreement["aspect"] != "average")]
        cells = [tuple(r) for r in of[["judge", "aspect"]].drop_duplicates().to_numpy()][::-1]
        for setting, offset in zip(_unique(of["setting"]), (0.14, -0.14), strict=False):
            color, marker = _setting_look(setting)
            value = of[of["setting"] == setting].set_index(["judge", "aspect"])["value"].reindex(cells)
            left.plot(value, np.arange(len(cells)) + offset, marker, color=color, mfc="white", ms=7, mew=1.8)
        left.set_yticks(
            range(len(cells)),
            [f"{JUDGE_NAMES.get(j, j)},\n{ASPECT_NAMES.get(a, a).lower()}" for j, a in cells],
        )
        left.set(xlim=(-0.03, 1.03), ylim=(-0.5, len(cells) - 0.5), xlabel="Kappa (1 full, 0 chance)")
        left.set_title(_heading(model, models, "Agreement, as printed"))
        seen = attenuation[attenuation["model"] == model].iloc[::-1]
        style.zero_line(right)
        y = np.arange(len(seen))
        right.hlines(y, seen["score_seen"], seen["score"], color=style.LIGHT, lw=4, zorder=0)
        right.plot(seen["score"], y, "D", color=style.BLACK, ms=7)
        right.plot(seen["score_seen"], y, "v", color=style.VERMILION, ms=8)
        right.set_yticks(
            y,
            [f"{JUDGE_NAMES.get(r.judge, r.judge)},\n{_setting_name(r.setting)}" for r in seen.itertuples()],
        )
        right.set_ylim(-0.5, max(len(seen), 1) - 0.5)
        right.set_xlabel(f"Overall {_SCORE.lower()}")
        right.set_title(_heading(model, models, "Score that a judge would see"))
    handles = [_key(*_setting_look(s), _setting_name(s), hollow=True) for s in _unique(agreement["setting"])]
    handles += [_key(style.BLACK, "D", "by annotators"), _key(style.VERMILION, "v", "by the judge (implied)")]
    _legend_below(figure, handles, 4)
    return figure
