"""Figures of the Paired Stereotype Test: rows of the tables that each names in, a figure out.

A panel for each model and aspect. ``confidence`` (0–1): 1 minus it is the level of the tests whose marks are filled.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import binom

from biaslab.papers.paired.analysis.dependence import LISTS
from biaslab.papers.paired.analysis.mitigated import NO_DIFFERENCE
from biaslab.plots import forms, style
from biaslab.plots import gallery as galleries

if TYPE_CHECKING:
    from IPython.display import HTML


SETTINGS = forms.look(
    {
        "single": ("one person", style.ORANGE, "s"),
        "paired": ("two people", style.BLUE, "o"),
        "paired_top5": ("two people, top 5", style.SKY, "P"),
        "alike": ("two of one stereotype", style.BLACK, "X"),
        "same": ("one occupation twice", style.GREY, "<"),
        "three": ("three people", style.PURPLE, ">"),
        "intervention": ("two people, intervention", style.VERMILION, "^"),
        "intervention_top5": ("two people, top 5, intervention", style.PURPLE, "v"),
        "faircritic": ("two people, FairCritic", style.GREEN, "D"),
    }
)
ASPECTS = {"occupation": "Occupations", "power": "Power roles"}
STEREOTYPES = forms.look(
    {
        "female": ("female-stereotyped", style.FEMALE, "o"),
        "male": ("male-stereotyped", style.MALE, "s"),
        "overall": ("overall", style.BLACK, "D"),
    }
)
MITIGATIONS = {"none": "no mitigation", "intervention": "intervention", "faircritic": "FairCritic"}
JUDGES = {"annotators": "Annotators", "vqa": "BLIP (VQA)", "fairface": "FairFace"}
OUTCOMES = forms.look(
    {
        "judged": ("judged, as asked", style.LIGHT),
        "swapped": ("judged, in another order", style.VERMILION),
        "unclear": ("judged, order not clear", style.YELLOW),
        "uncertain": ("judge not sure of somebody", style.ORANGE),
        "no_face": ("no face", style.BLACK),
        "one_face": ("fewer faces than asked for", style.BLUE),
        "too_many_faces": ("more faces than asked for", style.GREEN),
        "overlapping": ("faces overlap", style.PURPLE),
        "face_too_small": ("a face too small", style.SKY),
        "unreadable": ("unreadable", style.GREY),
        "blocked": ("withheld", style.GREY),
        "unrated": ("not rated", style.GREY),
    }
)
_TOLD = forms.look(
    {
        "female": ("told to be a woman", style.FEMALE),
        "male": ("told to be a man", style.MALE),
        "other words": ("other words", style.ORANGE),
        "nothing": ("told nothing", style.LIGHT),
    }
)
_MEASURES = {
    "people": "as many clear faces\nas asked for",
    "judged": "everyone's gender judged",
    "order": "people stand as asked",
    "valid": "all of these",
}
_TRUTHS = {
    "gate": "both people found (images)",
    "judged": "judged female or male (people found)",
    "gender": "gender right (people judged)",
    "gender_unambiguous": "gender right, cues clear (people judged)",
    "order": "order recognised (images)",
    "skin_tone": "skin tone within one Monk tone (faces)",
}
# What values of columns are called in the names of rows.
_WORDS = {
    "aspect": ASPECTS,
    "scope": {"all": "", "top5": ", top 5"},
    "setting": SETTINGS.names,
    "mitigation": MITIGATIONS,
    "stereotype": STEREOTYPES.names,
    "judge": JUDGES,
}
_SCORE = "Stereotype score (points)"
_FEMALE = "Perceived as female (%)"
# What rows are sorted by.
_ORDER = (*ASPECTS, "none", *SETTINGS.names, "all", "top5", "overall", *LISTS, *_MEASURES)
_RANK = {value: rank for rank, value in enumerate(_ORDER)}


def _sorted(table: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Return rows by model, as models come, and by ``columns`` in the order of their values here."""
    models = {model: rank for rank, model in enumerate(dict.fromkeys(table["model"]))}
    by = ["model", *columns]
    return table.sort_values(by, key=lambda c: c.map(models if c.name == "model" else _RANK), kind="stable")


def _named(table: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Return rows with ``panel``, the names in ``columns``, and the model's where there are several; none empty."""
    names = ASPECTS | SETTINGS.names
    columns = (*(["model"] if table["model"].nunique() > 1 else []), *columns)
    parts = [table[c].map(lambda v: names.get(v, str(v).replace("_", " "))) for c in columns]
    said = [": ".join(row) for row in zip(*parts, strict=True)] if parts else [""] * len(table)
    return table.assign(panel=said)


def _with_interval(table: pd.DataFrame, low: str = "ci_low") -> dict:
    """Return arguments of a form that draw rows without an interval hollow, and say so where there are any."""
    sure = table[low].notna()
    names = ("", "") if sure.all() else ("with an interval", "without one, as printed")
    return {"table": table.assign(sure=sure), "filled": "sure", "filled_names": names}


def _said(table: pd.DataFrame, name: str) -> list[str]:
    """Return the name of each row, in which columns in braces are filled in, in words."""
    known = {
        c: table[c].map(lambda v, words=words: words.get(v, v)) for c, words in _WORDS.items() if c in table
    }
    return [name.format_map(row) for row in table.assign(**known).to_dict("records")]


def _ends(table: pd.DataFrame, *columns: str) -> tuple[float, float]:
    """Return ends of an axis that hold all numbers in ``columns``, and 0."""
    values = [0, *table[list(columns)].to_numpy(float).ravel()]
    low, high = np.nanmin(values), max(np.nanmax(values), 1)
    return low - 0.05 * (high - low), high + 0.05 * (high - low)


def _told_from_0(table: pd.DataFrame, level: float) -> dict:
    """Return arguments of a form that draw ``sure`` rows filled, and say what the others are.

    They do not differ from 0, or could not, whatever had come out.
    """
    smallest = table["smallest_p_holm"].dropna()
    none = len(smallest) > 0 and (smallest >= level).all()
    some = "" if none or (smallest < level).all() else ", or too few people to tell"
    hollow = "too few people to differ from 0 (Holm)" if none else f"not different from 0 (Holm){some}"
    return {"filled": "sure", "filled_names": ("different from 0 (Holm)", hollow)}


def _by_list(table: pd.DataFrame, value: str, label: str, *ends: str, **more) -> Figure:
    """Draw estimates of both lists and overall, a panel an aspect, settings beside one another."""
    table = _named(_sorted(table, "aspect", "stereotype").dropna(subset=[value]), "aspect")
    return forms.estimates(
        value=value, row="stereotype", hue="setting", look=SETTINGS, panel="panel", columns=2, label=label,
        row_names=STEREOTYPES.names, xlim=_ends(table, value, "ci_low", "ci_high", *ends), **_with_interval(table),
        **more,
    )  # fmt: skip


def _of_occupations(table: pd.DataFrame, value: str, label: str, **more) -> Figure:
    """Draw a value of each occupation in pairs, the highest first, a panel a model."""
    models = dict.fromkeys(table["model"])
    table = table[table["setting"] == "paired"].dropna(subset=[value])
    table = table.sort_values(value, ascending=False, kind="stable")
    rows = pd.concat([table[table["model"] == model] for model in models])
    return forms.estimates(
        _named(rows), value, row="occupation", hue="stereotype", look=STEREOTYPES, panel="panel", label=label,
        columns=rows["model"].nunique(), inch=0.19, **more,
    )  # fmt: skip


# -- scores ------------------------------------------------------------------------------------------


def stereotype_score(scores: pd.DataFrame) -> Figure:
    """Draw the mean score of each list and overall (``paired_stereotype_score``); without intervals hollow."""
    return _by_list(scores, "score", _SCORE)


def runs(runs: pd.DataFrame, scores: pd.DataFrame) -> Figure:
    """Draw the overall score of each sampling of images beside the score over all, with its interval over images.

    From ``paired_run_score`` and ``paired_stereotype_score``.
    """
    whole = scores[scores["stereotype"] == "overall"].merge(
        runs[["model", "aspect", "setting"]].drop_duplicates()
    )
    limits = {end: whole[f"images_{end}"] for end in ("ci_low", "ci_high")}
    both = pd.concat([runs.assign(kind="run"), whole.assign(kind="all", **limits)])
    look = forms.look(
        {
            "run": ("one sampling of images", style.ORANGE),
            "all": ("all images, with interval over images", style.BLUE),
        }
    )
    both = _named(both.assign(row=_said(both, "{aspect}, {setting}")))
    return forms.estimates(both, "score", row="row", hue="kind", look=look, panel="panel", label=_SCORE)


@style.empty_without_rows
def biased_images(images: pd.DataFrame, printed: pd.DataFrame) -> Figure:
    """Draw the share of images that fit stereotypes: a dot where counted, else the limits as a bar.

    From ``paired_biased_images`` and ``paired_printed_value``: what the paper states of them, as grey marks.
    """
    names = {"person": "the person fits", "both": "both fit", "any": "at least one fits"}
    printed = printed[printed["quantity"] == "percent_biased_images"].assign(measure="any")
    keys = ["model", "aspect", "setting", "measure"]
    table = images.merge(printed[[*keys, "value"]], on=keys, how="left")
    rows = _said(table.assign(measure=table["measure"].map(names)), "{aspect}, {setting}: {measure}")
    return forms.estimates(
        _named(table.assign(row=rows)), "percent", row="row", panel="panel", label="Images (%)",
        reference=None, band=("percent_least", "percent_most"), floor="value", xlim=(0, 101),
        band_name="all that shares per identity allow", floor_name="printed lower limit",
    )  # fmt: skip


@style.empty_without_rows
def occupation_score(scores: pd.DataFrame, *, confidence: float) -> Figure:
    """Draw each occupation's score in pairs and the scores of a fair model (``paired_occupation_score``)."""
    pairs = scores[scores["setting"] == "paired"].dropna(subset=["score"])
    return _of_occupations(
        scores.assign(sure=scores["p_holm"] < 1 - confidence), "score", _SCORE, band=("fair_low", "fair_high"),
        band_name="scores of a fair model", xlim=(-104, 104), **_told_from_0(pairs, 1 - confidence),
    )  # fmt: skip


@style.empty_without_rows
def power_score(scores: pd.DataFrame) -> Figure:
    """Draw how many roles have which score, beside a fair model's at the same n (``paired_power_score``)."""
    edges = np.array([-100, -60, -20, 20, 60, 100])
    known = scores.dropna(subset=["score"])
    if known.empty:
        return style.nothing("Nobody in a role of power could be judged.")
    figure, parts = forms.panels(_named(known, "setting"), "panel", sharey="row")
    looks = STEREOTYPES.of(LISTS)
    for ax, rows in parts:
        expected = np.zeros(len(edges) - 1)
        for n in rows["n"].astype(int):
            k = np.arange(n + 1)
            expected += np.histogram(200 * k / n - 100, edges, weights=binom.pmf(k, n, 0.5))[0]
        ax.stairs(expected / 2, edges, color=style.GREY, lw=2, ls="--", zorder=4)
        for of, aside in (("female", -9), ("male", 9)):
            counts, _ = np.histogram(rows.loc[rows["stereotype"] == of, "score"], edges)
            ax.bar((edges[:-1] + edges[1:]) / 2 + aside, counts, 17, color=looks[of][0])
        n = rows["n"]
        each = f"{n.min():g}" if n.min() == n.max() else f"{n.min():g} to {n.max():g}"
        ax.set_title(f"{rows['panel'].iloc[0]} (n = {each} people a role)", fontsize=10)
        ax.set(xlabel=_SCORE, ylabel="Roles", xticks=edges)
    roles = {"female": "low power", "male": "high power"}
    handles = [forms.key(looks[of][0], "s", name) for of, name in roles.items()]
    forms.legend(figure, [*handles, forms.key(style.GREY, "", "each, of a fair model", line="--")])
    return figure


def role_coupling(scores: pd.DataFrame) -> Figure:
    """Draw the scores of the two roles of each occupation against each other (``paired_power_score``)."""
    keys = ["model", "setting", "occupation", "stereotype"]
    wide = scores.round({"score": 1}).groupby(keys, sort=False)["score"].mean().unstack()
    wide = wide.reindex(columns=LISTS).dropna()
    counts = wide.groupby(["model", "setting", *LISTS], sort=False).size().reset_index(name="count")
    return forms.diagonal(
        _named(_sorted(counts), "setting"), "female", "male", hue="setting", look=SETTINGS, panel="panel",
        labels=("Low-power role: score (points)", "High-power role: score (points)"), ends=(-122, 122), size="count",
    )  # fmt: skip


# -- labour ------------------------------------------------------------------------------------------


@style.empty_without_rows
def labour_share(comparison: pd.DataFrame) -> Figure:
    """Draw each occupation's share in pairs beside its labour share (``paired_labour_comparison``)."""
    return _of_occupations(
        comparison, "percent_female", _FEMALE, reference=50, floor="percent_female_labour",
        floor_name="women in the labour force", xlim=(-2, 102),
    )  # fmt: skip


def labour_correlation(comparison: pd.DataFrame, correlation: pd.DataFrame) -> Figure:
    """Draw generated against labour shares, with Pearson's r over both lists and its interval in the title.

    From ``paired_labour_comparison`` and ``paired_labour_correlation``.
    """
    found = correlation[correlation["stereotype"] == "overall"].drop(columns="stereotype")
    table = comparison.merge(found, on=["model", "setting"], suffixes=("", "_r"))
    table = _named(table.dropna(subset=["percent_female", "percent_female_labour"]), "setting")
    table["ends"] = np.where(
        table["ci_low_r"].notna(), _said(table, "{ci_low_r:.2f} to {ci_high_r:.2f}"), "no interval"
    )
    table["panel"] = _said(table, "{panel}\nr = {r:.2f} ({ends})")
    return forms.diagonal(
        table, "percent_female_labour", "percent_female", hue="stereotype", look=STEREOTYPES, panel="panel",
        labels=("Women in the labour force (%)", f"Generated: {_FEMALE.lower()}"), ends=(-2, 102),
    )  # fmt: skip


def labour_amplification(table: pd.DataFrame) -> Figure:
    """Draw the mean amplification against labour shares by definition (``paired_labour_amplification``)."""
    names = {
        "published": "published rule\n(same lean only)",
        "no_exclusion": "no exclusion",
        "directional": "along the lean of\nthe labour share",
    }
    return forms.estimates(
        _named(table), "amplification", row="definition", hue="setting", look=SETTINGS, panel="panel",
        row_names=names, label="Mean amplification against labour shares (points)", floor="amplification_plain",
        floor_name="uncorrected",
    )  # fmt: skip


# -- one person against two --------------------------------------------------------------------------


def score_change(changes: pd.DataFrame) -> Figure:
    """Draw the mean change of the score from one person to two (``paired_score_change``)."""
    return _by_list(changes, "change", "Change of the score (points)")


@style.empty_without_rows
def cases(adherence: pd.DataFrame, cases: pd.DataFrame) -> Figure:
    """Draw how people who fit, and cases of amplified or reduced bias, divide between the two lists.

    From ``paired_adherence`` and ``paired_changed_cases``; what the paper states of these is a grey mark.
    """
    keys = ["model", "aspect", "setting", "direction"]
    moved = cases[cases["direction"] != "unchanged"]
    male, female = (moved[moved["stereotype"] == s] for s in ("male", "female"))
    male = male.merge(female[[*keys, "printed"]], on=keys, how="left", suffixes=("", "_female"))
    male = male.assign(stated=male["printed"].fillna(100 - male["printed_female"]))
    fit = adherence[adherence["stereotype"] == "male"].assign(what="people who fit")
    male["what"] = male["direction"].map({"amplified": "score rises", "reduced": "score falls"})
    shares = {"percent_of_adhering": "value", "percent_of_cases": "value"}
    both = pd.concat([fit.rename(columns=shares), male.rename(columns=shares)], ignore_index=True)
    both["row"] = _said(both, "{aspect}, {setting}: {what} (n = {n:.0f})")
    return forms.estimates(
        _named(_sorted(both)), "value", row="row", panel="panel", label="Share in the male-stereotyped list (%)",
        reference=50, floor="stated", floor_name="stated in the paper", xlim=(0, 100),
    )  # fmt: skip


@style.empty_without_rows
def lean(lean: pd.DataFrame) -> Figure:
    """Draw each setting by its shares perceived as female in the two lists, with both intervals (``paired_lean``).

    The dashed diagonal is a score of 0 (both lists alike); along it lies the lean to one gender, across it the
    stereotype. Printed rows, without intervals, are hollow.
    """
    keys = ["model", "aspect", "setting"]
    values = ["percent_female", "ci_low", "ci_high"]
    wide = lean.pivot(index=keys, columns="stereotype", values=values).reindex(lean[keys].drop_duplicates())
    wide.columns = [f"{value}_{stratum}" for value, stratum in wide.columns]
    wide = wide.reset_index().dropna(subset=[f"percent_female_{s}" for s in LISTS])
    if wide.empty:
        return style.nothing()

    def half_female(ax, rows) -> None:
        ax.plot([0, 100], [100, 0], ":", color=style.GREY, lw=1, zorder=1)
        text = {"ha": "center", "va": "top", "fontsize": 8.5, "color": style.GREY, "rotation_mode": "anchor"}
        ax.text(24, 22, "both lists alike (score 0)", rotation=45, **text)
        ax.text(80, 18, "half of all female", rotation=-45, **text)

    return forms.diagonal(
        x="percent_female_male", y="percent_female_female", ends=(0, 100), hue="setting", look=SETTINGS,
        labels=("Male-stereotyped list: female (%)", "Female-stereotyped list: female (%)"), panel="panel",
        limits=tuple((f"ci_low_{s}", f"ci_high_{s}") for s in ("male", "female")), under=half_female,
        **_with_interval(_named(wide, "aspect"), "ci_low_female"),
    )  # fmt: skip


# -- mitigation and judges ---------------------------------------------------------------------------


def mitigation(table: pd.DataFrame) -> Figure:
    """Draw scores without and with mitigation; below 0 people fit the opposite (``paired_mitigation``).

    Grey bars are the margins at the unmitigated n, of printed scores without n.
    """
    table = _sorted(table.dropna(subset=["score"]), "aspect", "scope", "mitigation")
    scope = table["scope"].replace({"all": "", "top5": ", top 5 of each list"})
    names = _said(table.assign(scope=scope), "{aspect}{scope}: {mitigation}")
    ends = {"low": table["score"] - table["margin"], "high": table["score"] + table["margin"]}
    margins = {"band": ("low", "high"), "band_name": "margin if n were the unmitigated n"}
    return forms.estimates(
        value="score", row="row", hue="stereotype", look=STEREOTYPES, panel="panel",
        label=f"← against   {_SCORE}   towards →", **_with_interval(_named(table.assign(row=names, **ends))),
        **(margins if table["margin"].notna().any() else {}),
    )  # fmt: skip


@style.empty_without_rows
def before_after(identities: pd.DataFrame, *, confidence: float) -> Figure:
    """Draw each identity's score with mitigation over that without (``paired_identity_mitigation``).

    The areas of points count identities. Where they have so few people that none could differ from 0, they are left
    out.
    """
    keys, alpha = ["model", "aspect", "scope", "mitigation"], 1 - confidence
    told = identities.groupby(keys)["smallest_p_holm"].transform("min") < alpha
    if not told.any():
        return style.nothing("With so few people each, no identity can be told from balance.")
    table = _sorted(identities[told], *keys[1:]).round({"score": 0, "score_before": 0})
    table = table.assign(sure=table["direction"] != NO_DIFFERENCE)
    places = [*keys, "stereotype", "score_before", "score", "sure"]
    by = table.groupby(places, sort=False)
    counts = by[["fair_low", "fair_high"]].median().assign(count=by.size()).reset_index()
    # Identities of both lists share places: each list is drawn a little aside.
    counts["score_before"] += np.where(counts["stereotype"] == "male", 6, -6)
    model = "{model}: " if table["model"].nunique() > 1 else ""
    counts["panel"] = _said(counts, model + "{aspect}{scope}: {mitigation}")
    return forms.diagonal(
        counts, "score_before", "score", labels=("Score without mitigation", "Score with it"), ends=(-120, 120),
        hue="stereotype", look=STEREOTYPES, panel="panel", band=("fair_low", "fair_high"), size="count",
        **_told_from_0(table, alpha),
    )  # fmt: skip


def told(table: pd.DataFrame) -> Figure:
    """Draw what share of prompts tells the people of each list what (``paired_told``)."""
    when = {
        "mitigation": table["setting"],
        "when": [f", round {r:g}" if r else "" for r in table["round"]],
    }
    names = _said(table.assign(**when), "{aspect}, {mitigation}{when}: {stereotype}")
    return forms.stacked(
        _named(table.assign(row=names)), "percent", row="row", part="told", look=_TOLD, label="Prompts (%)",
        counts="n_prompts", panel="panel",
    )  # fmt: skip


@style.empty_without_rows
def valid_images(valid: pd.DataFrame) -> Figure:
    """Draw the shares of images that show what was asked, with intervals (``paired_valid_images``)."""
    table = _named(_sorted(valid, "aspect", "measure", "setting").dropna(subset=["percent"]), "aspect")
    if table.empty:
        return style.nothing("No share of images is known.")
    return forms.estimates(
        table, "percent", row="measure", hue="setting", look=SETTINGS, panel="panel", row_names=_MEASURES,
        label="Images (%)", reference=None, columns=2, inch=0.3, xlim=(min(table["ci_low"].min(), 90) - 3, 102),
    )  # fmt: skip


def judge_attenuation(table: pd.DataFrame) -> Figure:
    """Draw the overall score that each automated judge would report (``paired_judge_attenuation``)."""
    names = _said(table, "{setting}: {judge}\n(kappa {kappa:.2f})")
    return forms.estimates(
        _named(table.assign(row=names), "aspect"), "score_seen", row="row", panel="panel", limits=None,
        label="Overall score that the judge would see (points)", floor="score", floor_name="by annotators",
        columns=2, xlim=_ends(table, "score", "score_seen"),
    )  # fmt: skip


def agreement(agreement: pd.DataFrame) -> Figure:
    """Draw kappas of judges (``paired_judge_agreement``): hollow where there is no interval, as in print."""
    table = agreement[agreement["aspect"] != "average"]
    beside = np.where(table["judge"] == table["reference"], "", " with " + table["reference"])
    names = _said(
        table.assign(beside=beside, aspect=table["aspect"].map(ASPECTS).str.lower()),
        "{judge}{beside}, {aspect}",
    )
    return forms.estimates(
        value="value", row="row", hue="setting", look=SETTINGS, panel="panel",
        label="Kappa (1 full agreement, 0 chance)", xlim=(min(-0.03, table["ci_low"].min() - 0.02), 1.03),
        **_with_interval(_named(table.assign(row=names))),
    )  # fmt: skip


def truth(truth: pd.DataFrame) -> Figure:
    """Draw how often gate, judge and order are right on people whose truth is known (``paired_truth``)."""
    return forms.estimates(
        truth.dropna(subset=["percent"]), "percent", row="measure", hue="judge", row_names=_TRUTHS,
        label="Share (%)", reference=None,
    )  # fmt: skip


# -- images of people ----------------------------------------------------------------------------------


def _cells_in_order(table: pd.DataFrame) -> pd.DataFrame:
    """Return rows by model, aspect and setting, with ``panel`` and ``row``, the name of aspect and setting."""
    table = _named(_sorted(table, "aspect", "setting"))
    return table.assign(row=_said(table, "{aspect}, {setting} (n = {n_images:,.0f})"))


@style.empty_without_rows
def outcomes(outcomes: pd.DataFrame) -> Figure:
    """Draw what became of images of people, a bar for each aspect and setting (``paired_outcomes``).

    Judged images whose people stand in another order, or in one that is not clear, have parts of their own.
    """
    judged = outcomes[outcomes["outcome"] == "judged"]
    parts = [judged.assign(outcome=order, n=judged[f"n_{order}"]) for order in ("swapped", "unclear")]
    rest = outcomes.assign(n=outcomes["n"].sub(judged["n_swapped"] + judged["n_unclear"], fill_value=0))
    table = pd.concat([rest, *parts], ignore_index=True)
    table = table[table["n"] > 0].assign(percent=lambda t: 100 * t["n"] / t["n_images"])
    return forms.stacked(
        _cells_in_order(table), "percent", row="row", part="outcome", look=OUTCOMES, label="Images (%)", counts="n",
        panel="panel",
    )  # fmt: skip


def position_effect(effects: pd.DataFrame) -> Figure:
    """Draw how much more often people on the left are perceived as female (``paired_position_effect``)."""
    fair = ("fair_low", "fair_high")
    label, name = "Female, left minus right (points)", "what coin flips give"
    return _by_list(effects, "difference", label, *fair, band=fair, band_name=name)


@style.empty_without_rows
def control_score(scores: pd.DataFrame) -> Figure:
    """Draw overall scores with and without contrast, and how much lower each is than that of pairs.

    From ``paired_control_score``.
    """
    table = _sorted(scores, "setting")
    table = table[table["stereotype"] == "overall"]
    limits = {"ci_low": table["contrast_ci_low"], "ci_high": table["contrast_ci_high"]}
    contrast = table.assign(score=table["contrast"], **limits, fair_low=np.nan, fair_high=np.nan)
    both = _sorted(pd.concat([table.assign(what="Score"), contrast.assign(what="Effect of contrast")]))
    return forms.estimates(
        _named(both, "what"), "score", row="setting", panel="panel", row_names=SETTINGS.names, label="Points",
        band=("fair_low", "fair_high"), band_name="what coin flips give", columns=2,
    )  # fmt: skip


@style.empty_without_rows
def labour_gap(gaps: pd.DataFrame) -> Figure:
    """Draw the mean score of pairs over the gap between their labour shares, in fifths (``paired_labour_gap``).

    The slope of the line through all pairs is in the title.
    """
    lines = gaps[gaps["group"] == "line"].set_index(["model", "setting"])
    table = _named(gaps[gaps["group"] != "line"], "setting")
    if table.empty:
        return style.nothing("There are too few images for fifths.")

    for cell, rows in table.groupby(["model", "setting"]):
        line = lines.loc[cell]
        ends = "{ci_low:.2f} to {ci_high:.2f}" if np.isfinite(line["ci_low"]) else "no interval"
        title = (", n = {n_images:.0f} images\nslope {slope:.2f} (" + ends + ")").format_map(line)
        table.loc[rows.index, "panel"] += title
    return forms.trends(
        table.round({"labour_gap": 1}), "labour_gap", "score", hue="setting", look=SETTINGS, panel="panel",
        labels=("Gap between labour shares of women (points)", "Mean score (points)"),
        limits=("score_ci_low", "score_ci_high"), reference=0, ylim=(-110, 110),
    )  # fmt: skip


@style.empty_without_rows
def skin_tone(tones: pd.DataFrame) -> Figure:
    """Draw by how many tones the two people of one image differ, by aspect and setting (``paired_skin_tone``)."""
    table = tones[tones["group"] == "difference"].dropna(subset=["skin_tone"])
    if table.empty:
        return style.nothing("No face has a tone.")
    label = "Monk tones: male-stereotyped (in power: high) minus other"
    return forms.estimates(_cells_in_order(table), "skin_tone", row="row", panel="panel", label=label)


# -- images --------------------------------------------------------------------------------------------


def gallery(chosen: pd.DataFrame, pictures: Mapping[tuple[str, str], object], *, columns: int = 4) -> Figure:
    """Draw images with what was judged above each, and below it whom the prompt asks for.

    A person asked for whose perceived gender fits the stereotype has a plus, one whose does not a minus.

    Args:
        chosen: Everyone in the images, as from :func:`biaslab.papers.paired.analysis.examples.pairs_shown`.
        pictures: The images by kind and image_id.
        columns: Images in a row.
    """
    if not pictures:
        return style.nothing("There are no images for this gallery.")
    style.use()
    orders = {"swapped": "; in another order", "unclear": "; order not clear"}
    shown = dict(list(chosen.groupby(["kind", "image_id"], sort=False)))
    below = []
    for people in shown.values():
        fits = np.where(people["gender"] == people["stereotype"], " (+)", " (−)")
        asked = people["phrase"] + np.where(people["gender"].isin(LISTS), fits, "")
        below.append(" | ".join(asked) + orders.get(people["role"].iloc[0], ""))
    return galleries.gallery([pictures[k] for k in shown], list(shown.values()), below, columns=columns)


_THUMB = 108
"""Largest side of a thumbnail, in pixels."""


def critiques(
    critiques: pd.DataFrame,
    examples: pd.DataFrame,
    pictures: Mapping[tuple[str, str], object],
    *,
    most: int = 0,
) -> HTML:
    """Return critiques as an HTML table: the critic's words, what prompts were told, images before and after.

    The texts are those of strangers: they are escaped, and images are embedded as small pictures.

    Args:
        critiques: Rows of ``paired_critiques``.
        examples: Images of each, as from :func:`biaslab.papers.paired.analysis.examples.critique_examples`.
        pictures: The images by kind and image_id; those that are missing are left out.
        most: How many critiques to show, those with the highest share of changed prompts; 0 is all.
    """
    from IPython.display import HTML

    if critiques.empty:
        return HTML("<p>The source has no critiques.</p>")
    table = critiques.reset_index(drop=True)
    # What is said of all stands first.
    whole = table["identity"] == ""
    named = table[~whole]
    if most:
        named = named.sort_values("percent", ascending=False, kind="stable").head(most)
    of = dict(list(examples.groupby("critique")))
    rows = [_critique(row, of[row.Index], pictures) for row in pd.concat([table[whole], named]).itertuples()]
    titles = ("About", "Critique, and what prompts are told", "Before", "After")
    head = "".join(f"<th>{title}</th>" for title in titles)
    return HTML(f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>")


def _critique(row, examples: pd.DataFrame, pictures: Mapping[tuple[str, str], object]) -> str:
    about = row.identity or row.batch_id.partition("/")[2] or f"all ({row.aspect})"
    first = examples.iloc[0]
    share = f" in {row.percent:.0f} % of prompts" if np.isfinite(row.percent) else ""
    asks = f"Asks for “{_line(row.guideline)}”{share}. " if row.guideline else ""
    told = f"Added to {first['n_told']:.0f} of {first['n_prompts']:.0f} prompts"
    told += f", such as: {_line(first['added'])}" if first["added"] else "."
    sides = [_thumbnails(examples[examples["side"] == side], pictures) for side in ("before", "after")]
    words = f"{escape(_line(row.reasons))}<br><em>{escape(asks + told)}</em>"
    cells = [escape(f"{about}, round {row.round:g}"), words, *sides]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _thumbnails(examples: pd.DataFrame, pictures: Mapping[tuple[str, str], object]) -> str:
    parts = []
    for row in examples.itertuples():
        image = pictures.get((row.kind, row.image_id))
        if isinstance(image, np.ndarray):
            shown = f'<img src="{_data_uri(image)}" alt="{escape(row.image_id)}">'
            parts.append(f"{shown}<br><small>{escape(row.people)}</small>")
        elif image is not None:
            parts.append(f"<small>{escape(str(getattr(image, 'reason', '') or 'no image'))}</small>")
    return "<br>".join(parts)


def _data_uri(image: np.ndarray) -> str:
    from PIL import Image

    small, data = Image.fromarray(image), io.BytesIO()
    small.thumbnail((_THUMB, _THUMB))
    small.save(data, "JPEG", quality=80)
    return f"data:image/jpeg;base64,{base64.b64encode(data.getvalue()).decode()}"


def _line(text: object) -> str:
    """Return a text of whatever origin as one line of a length that a report can hold."""
    shown = "".join(c if c.isprintable() else " " for c in " ".join(str(text).split()))
    return shown if len(shown) <= 600 else shown[:599].rstrip() + "…"
