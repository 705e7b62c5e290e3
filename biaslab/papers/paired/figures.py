"""Figures of the Paired Stereotype Test: tables in, figures out, a panel for each model and aspect."""

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

SETTINGS = forms.Look(
    {
        "single": "one person",
        "paired": "two people",
        "paired_top5": "two people, top 5",
        "alike": "two of one stereotype",
        "same": "one occupation twice",
        "three": "three people",
        "intervention": "two people, intervention",
        "intervention_top5": "two people, top 5, intervention",
        "faircritic": "two people, FairCritic",
    },
    {
        "single": style.ORANGE,
        "paired": style.BLUE,
        "paired_top5": style.SKY,
        "alike": style.BLACK,
        "same": style.GREY,
        "three": style.PURPLE,
        "intervention": style.VERMILION,
        "intervention_top5": style.PURPLE,
        "faircritic": style.GREEN,
    },
    {
        "single": "s",
        "paired": "o",
        "paired_top5": "P",
        "alike": "X",
        "same": "<",
        "three": ">",
        "intervention": "^",
        "intervention_top5": "v",
        "faircritic": "D",
    },
)
ASPECTS = {"occupation": "Occupations", "power": "Power roles"}
STEREOTYPES = forms.Look(
    {"female": "female-stereotyped", "male": "male-stereotyped", "overall": "overall"},
    {"female": style.FEMALE, "male": style.MALE, "overall": style.BLACK},
    {"female": "o", "male": "s", "overall": "D"},
)
MITIGATIONS = {"none": "no mitigation", "intervention": "intervention", "faircritic": "FairCritic"}
JUDGES = {"annotators": "Annotators", "vqa": "BLIP (VQA)", "fairface": "FairFace"}
OUTCOMES = forms.Look(
    {
        "judged": "judged, as asked",
        "swapped": "judged, in another order",
        "unclear": "judged, order not clear",
        "uncertain": "judge not sure of somebody",
        "no_face": "no face",
        "one_face": "fewer faces than asked for",
        "too_many_faces": "more faces than asked for",
        "overlapping": "faces overlap",
        "face_too_small": "a face too small",
        "unreadable": "unreadable",
        "blocked": "withheld",
        "unrated": "not rated",
    },
    {
        "judged": style.LIGHT,
        "swapped": style.VERMILION,
        "unclear": style.YELLOW,
        "uncertain": style.ORANGE,
        "no_face": style.BLACK,
        "one_face": style.BLUE,
        "too_many_faces": style.GREEN,
        "overlapping": style.PURPLE,
        "face_too_small": style.SKY,
        "unreadable": style.GREY,
        "blocked": style.GREY,
        "unrated": style.GREY,
    },
)
_TOLD = forms.Look(
    {
        "female": "told to be a woman",
        "male": "told to be a man",
        "other words": "other words",
        "nothing": "told nothing",
    },
    {"female": style.FEMALE, "male": style.MALE, "other words": style.ORANGE, "nothing": style.LIGHT},
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
_SCORE = "Stereotype score (points)"
_FEMALE = "Perceived as female (%)"


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


def _cell(aspect: str, setting: str) -> str:
    return f"{ASPECTS.get(aspect, aspect)}, {SETTINGS.names.get(setting, setting)}"


def _by_stratum(table: pd.DataFrame) -> pd.DataFrame:
    return table.sort_values("stereotype", key=lambda c: c.map(("overall", *LISTS).index), kind="stable")


def _ends(table: pd.DataFrame, *columns: str) -> tuple[float, float]:
    """Return ends of an axis that hold all numbers in ``columns``, and 0."""
    values = [0, *table[list(columns)].to_numpy(float).ravel()]
    low, high = np.nanmin(values), max(np.nanmax(values), 1)
    return low - 0.05 * (high - low), high + 0.05 * (high - low)


def _hollow_name(table: pd.DataFrame, level: float) -> str:
    """Return what hollow marks mean: identities that do not differ from 0, or could not, whatever had come out."""
    smallest = table["smallest_p_holm"].dropna()
    none = len(smallest) > 0 and (smallest >= level).all()
    some = "" if none or (smallest < level).all() else ", or too few people to tell"
    return "too few people to differ from 0 (Holm)" if none else f"not different from 0 (Holm){some}"


# -- scores ------------------------------------------------------------------------------------------


@style.empty_without_rows
def stereotype_score(scores: pd.DataFrame) -> Figure:
    """Draw the mean score of each list and overall, by aspect and setting.

    Args:
        scores: Rows of ``paired_stereotype_score``; printed rows without intervals are hollow.
    """
    table = _by_stratum(_named(scores.dropna(subset=["score"]), "aspect"))
    table = table.sort_values(["model", "aspect"], key=_as_they_come(scores), kind="stable")
    return forms.estimates(
        value="score", row="stereotype", hue="setting", look=SETTINGS, panel="panel", label=_SCORE, columns=2,
        row_names=STEREOTYPES.names, xlim=_ends(table, "score", "ci_low", "ci_high"), **_with_interval(table),
    )  # fmt: skip


def _as_they_come(table: pd.DataFrame):
    """Return a key that sorts models and aspects as a table has them first."""
    rank = {value: k for k, value in enumerate(dict.fromkeys([*table["model"], *ASPECTS]))}
    return lambda column: column.map(lambda v: rank.get(v, len(rank)))


@style.empty_without_rows
def runs(runs: pd.DataFrame, scores: pd.DataFrame) -> Figure:
    """Draw the overall score of each sampling of images beside the score over all of them.

    Args:
        runs: Rows of ``paired_run_score``.
        scores: Rows of ``paired_stereotype_score``; their interval over images is drawn.
    """
    whole = scores[(scores["stereotype"] == "overall")].merge(
        runs[["model", "aspect", "setting"]].drop_duplicates()
    )
    limits = whole[["images_ci_low", "images_ci_high"]].set_axis(["ci_low", "ci_high"], axis=1)
    both = pd.concat(
        [runs.assign(kind="run"), whole.drop(columns=["ci_low", "ci_high"]).assign(kind="all", **limits)]
    )
    both = _named(both.assign(row=[_cell(*c) for c in zip(both["aspect"], both["setting"], strict=True)]))
    look = forms.Look(
        {"run": "one sampling of images", "all": "all images, with interval over images"},
        {"run": style.ORANGE, "all": style.BLUE},
    )
    return forms.estimates(both, "score", row="row", hue="kind", look=look, panel="panel", label=_SCORE)


@style.empty_without_rows
def biased_images(images: pd.DataFrame, printed: pd.DataFrame) -> Figure:
    """Draw the share of images that fit stereotypes: a dot where counted, else the limits as a bar.

    Args:
        images: Rows of ``paired_biased_images``.
        printed: Rows of ``paired_printed_value``; of these what the paper states of such images, as grey marks.
    """
    names = {"person": "the person fits", "both": "both fit", "any": "at least one fits"}
    printed = printed[printed["quantity"] == "percent_biased_images"].assign(measure="any")
    keys = ["model", "aspect", "setting", "measure"]
    table = images.merge(printed[[*keys, "value"]], on=keys, how="left")
    cells = [_cell(a, s) + ": " + names[m] for a, s, m in table[keys[1:]].itertuples(index=False)]
    return forms.estimates(
        _named(table.assign(row=cells)), "percent", row="row", panel="panel", label="Images (%)", reference=None,
        band=("lowest", "highest"), band_name="all that shares per identity allow", floor="value",
        floor_name="printed lower limit", xlim=(0, 101),
    )  # fmt: skip


@style.empty_without_rows
def occupation_score(scores: pd.DataFrame, *, confidence: float) -> Figure:
    """Draw each occupation's score in pairs with its interval and the scores a fair model would show.

    Args:
        scores: Rows of ``paired_occupation_score``; those of other settings are left out.
        confidence: 1 minus it is the level below which a Holm-corrected p makes a mark filled.
    """
    table = scores[scores["setting"] == "paired"].dropna(subset=["score"])
    table = table.sort_values("score", ascending=False, kind="stable").sort_values(
        "model", key=_as_they_come(scores), kind="stable"
    )
    return forms.estimates(
        _named(table.assign(sure=table["p_holm"] < 1 - confidence)), "score", row="occupation", hue="stereotype",
        look=STEREOTYPES, panel="panel", label=_SCORE, band=("fair_low", "fair_high"),
        band_name="scores of a fair model", filled="sure",
        filled_names=("different from 0 (Holm)", _hollow_name(table, 1 - confidence)), xlim=(-104, 104),
        columns=table["model"].nunique(), inch=0.19,
    )  # fmt: skip


@style.empty_without_rows
def power_score(scores: pd.DataFrame) -> Figure:
    """Draw how many roles have which score, beside what a fair model would show at the same n.

    Args:
        scores: Rows of ``paired_power_score``.
    """
    edges = np.array([-100, -60, -20, 20, 60, 100])
    figure, parts = forms.panels(_named(scores.dropna(subset=["score"]), "setting"), "panel", sharey="row")
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


@style.empty_without_rows
def role_coupling(scores: pd.DataFrame) -> Figure:
    """Draw the scores of the two roles of each occupation against each other, by setting.

    Args:
        scores: Rows of ``paired_power_score``. Areas and numbers count occupations.
    """
    scores = scores.round({"score": 1})
    keys = ["model", "setting", "occupation", "stereotype"]
    wide = scores.groupby(keys, sort=False)["score"].mean().unstack().reindex(columns=LISTS).dropna()
    counts = wide.groupby(["model", "setting", *LISTS], sort=False).size().reset_index(name="count")
    counts = counts.sort_values("model", key=_as_they_come(scores.assign(aspect="")), kind="stable")
    return forms.diagonal(
        _named(counts, "setting"), "female", "male", hue="setting", look=SETTINGS, panel="panel", size="count",
        labels=("Low-power role: score (points)", "High-power role: score (points)"), ends=(-122, 122),
    )  # fmt: skip


# -- labour ------------------------------------------------------------------------------------------


@style.empty_without_rows
def labour_share(comparison: pd.DataFrame) -> Figure:
    """Draw each occupation's share perceived as female in pairs beside its labour share, sorted by the first.

    Args:
        comparison: Rows of ``paired_labour_comparison``; those of other settings are left out.
    """
    table = comparison[comparison["setting"] == "paired"].dropna(subset=["percent_female"])
    table = table.sort_values("percent_female", ascending=False, kind="stable").sort_values(
        "model", key=_as_they_come(comparison), kind="stable"
    )
    return forms.estimates(
        _named(table), "percent_female", row="occupation", hue="stereotype", look=STEREOTYPES, panel="panel",
        label=_FEMALE, reference=50, floor="percent_female_labour", floor_name="women in the labour force",
        xlim=(-2, 102), columns=table["model"].nunique(), inch=0.19,
    )  # fmt: skip


@style.empty_without_rows
def labour_correlation(comparison: pd.DataFrame, correlation: pd.DataFrame) -> Figure:
    """Draw generated against labour shares, with Pearson's r over both lists and its interval in the title.

    Args:
        comparison: Rows of ``paired_labour_comparison``.
        correlation: Rows of ``paired_labour_correlation``.
    """
    found = correlation[correlation["stereotype"] == "overall"].add_suffix("_r")
    table = comparison.merge(found, left_on=["model", "setting"], right_on=["model_r", "setting_r"])
    table = _named(table.dropna(subset=["percent_female", "percent_female_labour"]), "setting")
    table["panel"] = [
        f"{name}\nr = {r:.2f} " + (f"({low:.2f} to {high:.2f})" if np.isfinite(low) else "(no interval)")
        for name, r, low, high in table[["panel", "r_r", "ci_low_r", "ci_high_r"]].itertuples(index=False)
    ]
    return forms.diagonal(
        table, "percent_female_labour", "percent_female", hue="stereotype", look=STEREOTYPES, panel="panel",
        labels=("Women in the labour force (%)", f"Generated: {_FEMALE.lower()}"), ends=(-2, 102),
    )  # fmt: skip


@style.empty_without_rows
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
    return forms.estimates(
        _named(table), "amplification", row="definition", hue="setting", look=SETTINGS, panel="panel",
        row_names=names, label="Mean amplification against labour shares (points)", floor="uncorrected",
        floor_name="uncorrected", columns=1,
    )  # fmt: skip


# -- one person against two --------------------------------------------------------------------------


@style.empty_without_rows
def score_change(changes: pd.DataFrame) -> Figure:
    """Draw the mean change of the score from one person to two, by list and overall.

    Args:
        changes: Rows of ``paired_score_change``.
    """
    table = _by_stratum(_named(changes, "aspect"))
    table = table.sort_values(["model", "aspect"], key=_as_they_come(changes), kind="stable")
    return forms.estimates(
        table, "change", row="stereotype", hue="setting", look=SETTINGS, panel="panel",
        row_names=STEREOTYPES.names, label="Change of the score (points)", columns=2,
        xlim=_ends(table, "change", "ci_low", "ci_high"),
    )  # fmt: skip


@style.empty_without_rows
def cases(adherence: pd.DataFrame, cases: pd.DataFrame) -> Figure:
    """Draw how people who fit, and cases of amplified or reduced bias, divide between the two lists.

    Args:
        adherence: Rows of ``paired_adherence``.
        cases: Rows of ``paired_changed_cases``; what the paper states of them is drawn as a grey mark.
    """
    keys = ["model", "aspect", "setting", "direction"]
    moved = cases[cases["direction"] != "unchanged"]
    stated = moved.pivot(index=keys, columns="stereotype", values="printed")
    stated = stated.get("male", np.nan).fillna(100 - stated.get("female", np.nan)) if len(stated) else {}
    male, fit = (t[t["stereotype"] == "male"] for t in (moved, adherence))
    male = male.assign(
        value=male["percent_of_cases"],
        stated=[stated[k] for k in male[keys].itertuples(index=False, name=None)],
    )
    fit = fit.assign(value=fit["percent_of_adhering"], stated=np.nan, direction="fit")
    both = pd.concat([fit, male], ignore_index=True)
    called = {"fit": "people who fit", "amplified": "score rises", "reduced": "score falls"}
    rows = zip(both["aspect"], both["setting"], both["direction"], both["n"], strict=True)
    both["row"] = [f"{_cell(a, s)}: {called[d]} (n = {n:.0f})" for a, s, d, n in rows]
    both["what"] = np.where(both["direction"] == "fit", "people", "identities")
    look = forms.Look(
        {"people": "of people, see n", "identities": "of identities"},
        {"people": style.MALE, "identities": style.ORANGE},
    )
    return forms.estimates(
        _named(both.sort_values("model", key=_as_they_come(adherence), kind="stable")), "value", row="row",
        look=look, panel="panel", label="Share in the male-stereotyped list (%)", reference=50, floor="stated",
        floor_name="stated in the paper", xlim=(0, 100),
    )  # fmt: skip


@style.empty_without_rows
def lean(lean: pd.DataFrame) -> Figure:
    """Draw each setting by its shares perceived as female in the two lists, with both intervals.

    The dashed diagonal is a score of 0 (both lists alike); along it lies the lean to one gender, across it the
    stereotype.

    Args:
        lean: Rows of ``paired_lean``; printed rows without intervals are hollow.
    """
    keys = ["model", "aspect", "setting"]
    values = ["percent_female", "ci_low", "ci_high"]
    wide = lean.pivot(index=keys, columns="stereotype", values=values).reindex(lean[keys].drop_duplicates())
    wide.columns = [f"{value}_{stratum}" for value, stratum in wide.columns]
    wide = wide.reset_index().dropna(subset=[f"percent_female_{s}" for s in LISTS])
    if wide.empty:
        return style.nothing()
    limits = tuple((f"ci_low_{s}", f"ci_high_{s}") for s in ("male", "female"))

    def half_female(ax, rows) -> None:
        ax.plot([0, 100], [100, 0], ":", color=style.GREY, lw=1, zorder=1)
        text = {"ha": "center", "va": "top", "fontsize": 8.5, "color": style.GREY, "rotation_mode": "anchor"}
        ax.text(24, 22, "both lists alike (score 0)", rotation=45, **text)
        ax.text(80, 18, "half of all female", rotation=-45, **text)

    return forms.diagonal(
        x="percent_female_male", y="percent_female_female", ends=(0, 100), hue="setting", look=SETTINGS,
        labels=("Male-stereotyped list: female (%)", "Female-stereotyped list: female (%)"), panel="panel",
        limits=limits, under=half_female, **_with_interval(_named(wide, "aspect"), "ci_low_female"),
    )  # fmt: skip


# -- mitigation and judges ---------------------------------------------------------------------------


@style.empty_without_rows
def mitigation(table: pd.DataFrame) -> Figure:
    """Draw scores without and with mitigation; below 0 people fit the opposite of their stereotype.

    Grey bars are the margins at the unmitigated n, of printed scores without n.

    Args:
        table: Rows of ``paired_mitigation``.
    """
    table = table.dropna(subset=["score"])
    names = [
        f"{ASPECTS[a]}{', top 5 of each list' if s == 'top5' else ''}: {MITIGATIONS.get(m, m)}"
        for a, s, m in table[["aspect", "scope", "mitigation"]].itertuples(index=False)
    ]
    table = table.assign(
        row=names, low=table["score"] - table["margin"], high=table["score"] + table["margin"]
    ).sort_values(["model", "aspect", "scope", "mitigation"], key=_in_order(table), kind="stable")
    margins = {"band": ("low", "high"), "band_name": "margin if n were the unmitigated n"}
    return forms.estimates(
        value="score", row="row", hue="stereotype", look=STEREOTYPES, panel="panel",
        label=f"← against   {_SCORE}   towards →", **_with_interval(_named(table)),
        **(margins if table["margin"].notna().any() else {}),
    )  # fmt: skip


def _in_order(table: pd.DataFrame):
    """Return a key that sorts models as they come, and aspects, scopes and mitigations as they are named here."""
    order = dict.fromkeys([*table["model"], *ASPECTS, "all", "top5", *MITIGATIONS])
    rank = {value: k for k, value in enumerate(order)}
    return lambda column: column.map(lambda v: rank.get(v, len(rank)))


@style.empty_without_rows
def before_after(identities: pd.DataFrame, *, confidence: float) -> Figure:
    """Draw each identity's score with mitigation over its score without, with the band of a fair model's scores.

    Args:
        identities: Rows of ``paired_identity_mitigation``; the areas of points count identities. Where they have so
            few people that none could differ from 0, they are left out.
        confidence: 1 minus it is the level of the tests.
    """
    keys, alpha = ["model", "aspect", "scope", "mitigation"], 1 - confidence
    told = identities.groupby(keys)[["smallest_p_holm"]].transform("min").lt(alpha).all(axis=1)
    if not told.any():
        return style.nothing("With so few people each, no identity can be told from balance.")
    table = identities[told].sort_values(keys, key=_in_order(identities), kind="stable")
    table = table.assign(sure=table["direction"] != NO_DIFFERENCE).round({"score": 0, "score_before": 0})
    places = [*keys, "stereotype", "score_before", "score", "sure"]
    counts = table.groupby(places, sort=False).agg(
        count=("identity", "size"), fair_low=("fair_low", "median"), fair_high=("fair_high", "median")
    )
    counts = counts.reset_index()
    # Identities of both lists share places: each list is drawn a little aside.
    counts["score_before"] += np.where(counts["stereotype"] == "male", 6, -6)
    counts["panel"] = [
        f"{m + ': ' if table['model'].nunique() > 1 else ''}{ASPECTS[a]}{', top 5' if s == 'top5' else ''}: "
        f"{MITIGATIONS.get(k, k)}"
        for m, a, s, k in counts[keys].itertuples(index=False)
    ]
    return forms.diagonal(
        counts, "score_before", "score", labels=("Score without mitigation", "Score with it"), ends=(-120, 120),
        hue="stereotype", look=STEREOTYPES, panel="panel", band=("fair_low", "fair_high"), size="count",
        filled="sure", filled_names=("different from 0 (Holm)", _hollow_name(table, alpha)),
    )  # fmt: skip


@style.empty_without_rows
def told(table: pd.DataFrame) -> Figure:
    """Draw what share of prompts tells the people of each list what.

    Args:
        table: Rows of ``paired_told``.
    """
    keys = ["aspect", "setting", "round", "stereotype"]
    names = [
        f"{ASPECTS[a]}, {MITIGATIONS.get(s, s)}{f', round {r}' if r != '0' else ''}: {STEREOTYPES.names[g]}"
        for a, s, r, g in table[keys].itertuples(index=False)
    ]
    return forms.stacked(
        _named(table.assign(row=names)), "percent", row="row", part="told", look=_TOLD, label="Prompts (%)",
        counts="n_prompts", panel="panel",
    )  # fmt: skip


@style.empty_without_rows
def valid_images(valid: pd.DataFrame) -> Figure:
    """Draw the shares of images that show what was asked, by setting, with intervals.

    Args:
        valid: Rows of ``paired_valid_images``.
    """
    table = _named(valid.dropna(subset=["percent"]), "aspect")
    if table.empty:
        return style.nothing("No share of images is known.")
    table = table.sort_values("setting", key=lambda c: c.map(list(SETTINGS.names).index), kind="stable")
    table = table.sort_values("measure", key=lambda c: c.map(list(_MEASURES).index), kind="stable")
    table = table.sort_values(["model", "aspect"], key=_as_they_come(valid), kind="stable")
    return forms.estimates(
        table, "percent", row="measure", hue="setting", look=SETTINGS, panel="panel", row_names=_MEASURES,
        label="Images (%)", reference=None, columns=2, inch=0.3, xlim=(min(table["ci_low"].min(), 90) - 3, 102),
    )  # fmt: skip


@style.empty_without_rows
def judge_attenuation(table: pd.DataFrame) -> Figure:
    """Draw the overall score that each automated judge would report beside that by annotators.

    Args:
        table: Rows of ``paired_judge_attenuation``.
    """
    names = [
        f"{SETTINGS.names.get(s, s)}: {JUDGES.get(j, j)}\n(kappa {k:.2f})"
        for s, j, k in table[["setting", "judge", "kappa"]].itertuples(index=False)
    ]
    table = _named(table.assign(row=names, ci_low=np.nan, ci_high=np.nan), "aspect")
    return forms.estimates(
        table, "score_seen", row="row", panel="panel", label="Overall score that the judge would see (points)",
        floor="score", floor_name="by annotators", columns=2, xlim=_ends(table, "score", "score_seen"),
    )  # fmt: skip


@style.empty_without_rows
def agreement(agreement: pd.DataFrame) -> Figure:
    """Draw kappas of judges: hollow where there is no interval, as in print, else filled with their intervals.

    Args:
        agreement: Rows of ``paired_judge_agreement``.
    """
    table = agreement[agreement["aspect"] != "average"].copy()
    table["row"] = [
        f"{JUDGES.get(j, j)}{'' if j == r else f' with {r}'}, {ASPECTS.get(a, a).lower()}"
        for j, r, a in table[["judge", "reference", "aspect"]].itertuples(index=False)
    ]
    return forms.estimates(
        value="value", row="row", hue="setting", look=SETTINGS, panel="panel",
        label="Kappa (1 full agreement, 0 chance)", xlim=(min(-0.03, table["ci_low"].min() - 0.02), 1.03),
        **_with_interval(_named(table)),
    )  # fmt: skip


@style.empty_without_rows
def truth(truth: pd.DataFrame) -> Figure:
    """Draw how often gate, judge and order are right on people whose truth is known.

    Args:
        truth: Rows of ``paired_truth``.
    """
    return forms.estimates(
        truth.dropna(subset=["percent"]), "percent", row="measure", hue="judge", row_names=_TRUTHS,
        label="Share (%)", reference=None,
    )  # fmt: skip


# -- images of people ----------------------------------------------------------------------------------


def _cells_in_order(table: pd.DataFrame) -> pd.DataFrame:
    """Return rows with ``row``, the name of aspect and setting, by model, aspect and setting."""
    order = {v: k for k, v in enumerate(dict.fromkeys([*table["model"], *ASPECTS, *SETTINGS.names]))}
    table = table.sort_values(["model", "aspect", "setting"], key=lambda c: c.map(order), kind="stable")
    n = [f" (n = {n:,.0f})" for n in table["n_images"]]
    cells = zip(table["aspect"], table["setting"], n, strict=True)
    return table.assign(row=[_cell(a, s) + count for a, s, count in cells])


@style.empty_without_rows
def outcomes(outcomes: pd.DataFrame) -> Figure:
    """Draw what became of images of people, a bar for each aspect and setting.

    Args:
        outcomes: Rows of ``paired_outcomes``. Judged images whose people stand in another order, or in one that is
            not clear, have parts of their own.
    """
    judged = outcomes[outcomes["outcome"] == "judged"]
    parts = [judged.assign(outcome=order, n=judged[f"n_{order}"]) for order in ("swapped", "unclear")]
    others = outcomes["n_swapped"] + outcomes["n_unclear"]
    rest = outcomes.assign(n=outcomes["n"].where(outcomes["outcome"] != "judged", outcomes["n"] - others))
    table = pd.concat([rest, *parts], ignore_index=True)
    table = table[table["n"] > 0].assign(percent=lambda t: 100 * t["n"] / t["n_images"])
    return forms.stacked(
        _named(_cells_in_order(table)), "percent", row="row", part="outcome", look=OUTCOMES, label="Images (%)",
        counts="n", panel="panel",
    )  # fmt: skip


@style.empty_without_rows
def position_effect(effects: pd.DataFrame) -> Figure:
    """Draw how much more often people on the left are perceived as female, by list and setting.

    Args:
        effects: Rows of ``paired_position_effect``.
    """
    table = _by_stratum(_named(effects.dropna(subset=["difference"]), "aspect"))
    table = table.sort_values(["model", "aspect"], key=_as_they_come(effects), kind="stable")
    return forms.estimates(
        table, "difference", row="stereotype", hue="setting", look=SETTINGS, panel="panel",
        row_names=STEREOTYPES.names, label="Female, left minus right (points)",
        band=("fair_low", "fair_high"), band_name="what coin flips give", columns=2,
        xlim=_ends(table, "fair_low", "fair_high", "ci_low", "ci_high"),
    )  # fmt: skip


@style.empty_without_rows
def control_score(scores: pd.DataFrame) -> Figure:
    """Draw overall scores with and without contrast, and how much lower each is than that of pairs.

    Args:
        scores: Rows of ``paired_control_score``; those of single lists are left out.
    """
    table = scores[scores["stereotype"] == "overall"]
    table = table.sort_values("setting", key=lambda c: c.map(list(SETTINGS.names).index), kind="stable")
    limits = {"ci_low": table["contrast_ci_low"], "ci_high": table["contrast_ci_high"]}
    contrast = table.assign(score=table["contrast"], **limits, fair_low=np.nan, fair_high=np.nan)
    titles = "Score", "Effect of contrast"
    both = pd.concat([t.assign(what=title) for t, title in zip((table, contrast), titles, strict=True)])
    both = both.sort_values("model", key=_as_they_come(scores.assign(aspect="")), kind="stable")
    return forms.estimates(
        _named(both, "what"), "score", row="setting", panel="panel", row_names=SETTINGS.names, label="Points",
        band=("fair_low", "fair_high"), band_name="what coin flips give", columns=2,
    )  # fmt: skip


@style.empty_without_rows
def labour_gap(gaps: pd.DataFrame) -> Figure:
    """Draw the mean score of pairs over the gap between their labour shares, in fifths of the pairs.

    Args:
        gaps: Rows of ``paired_labour_gap``; the slope of the line through all pairs is in the title.
    """
    lines = gaps[gaps["group"] == "line"].set_index(["model", "setting"])
    table = _named(gaps[gaps["group"] != "line"], "setting")
    if table.empty:
        return style.nothing("There are too few images for fifths.")

    def title(row) -> str:
        line = lines.loc[(row.model, row.setting)]
        ends = (
            f"{line['ci_low']:.2f} to {line['ci_high']:.2f}" if np.isfinite(line["ci_low"]) else "no interval"
        )
        return f"{row.panel}, n = {line['n_images']:.0f} images\nslope {line['slope']:.2f} ({ends})"

    table["panel"] = [title(row) for row in table.itertuples()]
    return forms.trends(
        table.round({"gap": 1}), "gap", "score", hue="setting", look=SETTINGS, panel="panel",
        labels=("Gap between labour shares of women (points)", "Mean score (points)"),
        limits=("score_ci_low", "score_ci_high"), reference=0, ylim=(-110, 110),
    )  # fmt: skip


@style.empty_without_rows
def skin_tone(tones: pd.DataFrame) -> Figure:
    """Draw by how many tones the two people of one image differ, by aspect and setting.

    Args:
        tones: Rows of ``paired_skin_tone``; the mean tones themselves are left out.
    """
    table = tones[tones["group"] == "difference"].dropna(subset=["skin_tone"])
    if table.empty:
        return style.nothing("No face has a tone.")
    return forms.estimates(
        _named(_cells_in_order(table)), "skin_tone", row="row", panel="panel",
        label="Monk tones: male-stereotyped (in power: high) minus other",
    )  # fmt: skip


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
    shown = dict(list(chosen.groupby(["kind", "image_id"], sort=False)))
    below = [
        " | ".join(_asked(row) for row in people.itertuples()) + _order(people) for people in shown.values()
    ]
    return galleries.gallery([pictures[k] for k in shown], list(shown.values()), below, columns=columns)


def _asked(row) -> str:
    fits = ("+" if row.gender == row.stereotype else "−") if row.gender in LISTS else ""
    return f"{row.phrase} ({fits})" if fits else row.phrase


def _order(people: pd.DataFrame) -> str:
    return {"swapped": "; in another order", "unclear": "; order not clear"}.get(people["role"].iloc[0], "")


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
    named = table[~whole].sort_values("share", ascending=False, kind="stable") if most else table[~whole]
    table = pd.concat([table[whole], named.head(most) if most else named])
    of = dict(list(examples.groupby("critique")))
    rows = [_critique(row, of[row.Index], pictures) for row in table.itertuples()]
    head = "".join(
        f"<th>{title}</th>" for title in ("About", "Critique, and what prompts are told", "Before", "After")
    )
    return HTML(f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>")


def _critique(row, examples: pd.DataFrame, pictures: Mapping[tuple[str, str], object]) -> str:
    about = row.identity or row.batch_id.partition("/")[2] or f"all ({row.aspect})"
    first = examples.iloc[0]
    share = f" in {row.share:.0f} % of prompts" if np.isfinite(row.share) else ""
    asks = f"Asks for “{_line(row.guideline)}”{share}. " if row.guideline else ""
    told = f"Added to {first['n_told']:.0f} of {first['n_prompts']:.0f} prompts"
    told += f", such as: {_line(first['added'])}" if first["added"] else "."
    sides = [_thumbnails(examples[examples["side"] == side], pictures) for side in ("before", "after")]
    words = f"{escape(_line(row.reasons))}<br><em>{escape(asks + told)}</em>"
    cells = [escape(f"{about}, round {row.round}"), words, *sides]
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
