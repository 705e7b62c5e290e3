"""Findings of the Paired Stereotype Test in words, and the captions of its figures.

Each sentence is made from the tables: what it says changes with the numbers, and a direction is named only where
the interval excludes 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import isfinite
from typing import TYPE_CHECKING

import pandas as pd

from biaslab import sources, stats
from biaslab.findings import NO_MEASUREMENTS, none_could
from biaslab.findings import p_words as _p_words
from biaslab.mini.truthful import WORLD
from biaslab.prompts.paired import ASPECTS, SETTINGS
from biaslab.studies.paired_dependence import ASSUMED_NONE, WORST

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from biaslab.study import Study

_CELL = ["model", "aspect", "setting"]
_SETTING_WORDS = {
    "single": "one person",
    "paired": "two people",
    "paired_top5": "two people (top 5 of each list)",
    "intervention": "the intervention",
    "intervention_top5": "the intervention (top 5 of each list)",
    "faircritic": "FairCritic",
}
# What findings outside the notebook on mitigation speak of.
_PLAIN = ("single", "paired")
_LIST_WORDS = {"female": "female list", "male": "male list", "overall": "overall"}


def _range(row, low: str = "ci_low", high: str = "ci_high", digits: int = 1) -> str:
    if not (isfinite(row[low]) and isfinite(row[high])):
        return "no interval"
    return f"{row[low]:.{digits}f} to {row[high]:.{digits}f}"


def _assumed(row, column: str = "dependence") -> str:
    """Return what an interval takes of people who share an image, where it is not estimated; else ""."""
    return {
        WORST: ", if two people of an image depend on each other as far as they can",
        ASSUMED_NONE: ", if two people of an image are independent",
    }.get(row[column], "")


def _moved(row, up: str, down: str, neither: str, low: str = "ci_low", high: str = "ci_high") -> str:
    """Return the word for an interval above 0, below 0, or containing 0 (or none)."""
    # What is 0 but for the rounding of a computer is on neither side.
    return up if row[low] > 1e-9 else down if row[high] < -1e-9 else neither


def _each(
    study: Study, table: pd.DataFrame, by: list[str], say: Callable[..., str], *, bare: bool = False
) -> str:
    """Say each group of rows, keyed by ``by``, on a line of its own; ``bare``: nothing has an interval.

    Beside a model that is measured, printed ones are called so.
    """
    found = [said for names, rows in table.groupby(by, sort=False) if (said := say(*names, rows))]
    for model in _printed_beside(study):
        found = [re.sub(rf"^{re.escape(model)}\b", f"{model} (printed)", said) for said in found]
    if not found:
        return NO_MEASUREMENTS
    note = "" if bare else f" In brackets: {_level(study)} intervals."
    return "\n".join(said + note for said in found)


def _printed_beside(study: Study) -> list[str]:
    """Return the models whose shares are printed ones, where the source measures another as well."""
    name = "paired_percent_female"
    shares = study.measured_or_empty(name)
    printed = sources.printed_models(name, shares)
    return printed if set(shares["model"]) > set(printed) else []


def _level(study: Study) -> str:
    return f"{100 * study.confidence:g} %"


def _setting_words(setting: str) -> str:
    return _SETTING_WORDS.get(setting, setting.replace("_", " "))


def plain(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of ``table`` without mitigation: one person alone, and all pairs."""
    return table[table["setting"].isin(_PLAIN)].reset_index(drop=True)


def with_printed(study: Study, *settings: str) -> pd.DataFrame:
    """Return overall scores and those of each list, models side by side, with their intervals (layout of Table 1).

    Args:
        study: Gives the table ``paired_stereotype_score``.
        settings: Which settings; none is all.
    """
    table = study.table("paired_stereotype_score").dropna(subset=["score"])
    if settings:
        table = table[table["setting"].isin(settings)]
    said = [
        f"{r['score']:.1f} ({_range(r)})" if isfinite(r["ci_low"]) else f"{r['score']:.2f}"
        for _, r in table.iterrows()
    ]
    keys = ["aspect", "setting", "stereotype"]
    wide = table.assign(said=said).pivot(index=keys, columns="model", values="said")
    ranks = {v: k for k, v in enumerate((*ASPECTS, *SETTINGS, *_LIST_WORDS))}
    wide = wide.sort_index(
        key=lambda level: level.map(lambda v: ranks.get(v, len(ranks))), sort_remaining=True
    )
    return wide.reindex(columns=list(dict.fromkeys(table["model"]))).fillna("").rename_axis(columns=None)


def overall_finding(study: Study) -> str:
    """Say the overall score of each aspect without mitigation, by setting."""

    def say(model: str, aspect: str, rows: pd.DataFrame) -> str:
        said = [
            f"{r['score']:.1f} with {_setting_words(r['setting'])} ({_range(r)}{_assumed(r)}; "
            f"{r['n_identities']:.0f} identities, {r['n']:.0f} people)"
            for _, r in rows.iterrows()
        ]
        what = "occupations" if aspect == "occupation" else "power roles"
        return f"{model}, overall stereotype score of {what} (0 is balanced): {'; '.join(said)}."

    scores = study.table("paired_stereotype_score")
    scores = plain(scores[(scores["stereotype"] == "overall") & (scores["evidence"] == "computed")])
    return _each(study, scores.dropna(subset=["score"]), ["model", "aspect"], say)


def images_finding(study: Study) -> str:
    """Say what share of images fits stereotypes, or between which limits it lies."""
    stated = (
        study.table("paired_printed_value")
        .query("quantity == 'percent_biased_images'")
        .set_index(_CELL)["value"]
    )

    def say(model: str, aspect: str, setting: str, rows: pd.DataFrame) -> str:
        said = []
        for _, row in rows.iterrows():
            what = {"person": "the person fits", "both": "both people fit", "any": "at least one fits"}
            if row["evidence"] == "counted":
                over = " over identities" if isfinite(row["ci_low"]) else ""
                value = f"{row['percent']:.1f} % ({_range(row)}{over})"
            else:
                value = f"{_range(row, 'lowest', 'highest')} %"
            said.append(f"{what[row['measure']]} in {value}")
        basis = (
            "counted" if (rows["evidence"] == "counted").all() else "all that the shares per identity allow"
        )
        text = f"{model}, {aspect}, {_setting_words(setting)}: {' and '.join(said)} ({basis}; "
        text += f"n = {rows['n'].iloc[0]:.0f} images"
        if (model, aspect, setting) in stated.index:
            text += f"; stated: over {stated[model, aspect, setting]:g} %"
        return text + ")."

    images = plain(study.table("paired_biased_images").dropna(subset=["n"]))
    return _each(study, images, _CELL, say)


def occupation_finding(study: Study) -> str:
    """Say for how many identities a score differs from 0, or that at their n none could."""
    scores = study.table("paired_occupation_score").dropna(subset=["score"]).groupby(["model", "setting"])
    people, level = scores["n"].agg(["min", "max"]), 1 - study.confidence

    def say(model: str, setting: str, rows: pd.DataFrame) -> str:
        row, (few, most) = rows.iloc[0], people.loc[(model, setting)]
        n = f"{few:.0f}" if few == most else f"{few:.0f} to {most:.0f}"
        n += " person" if most == 1 else " people"
        if row["smallest_p_holm"] >= level:
            takes = stats.needed(stats.least_binomial_p, int(row["n_identities"]), level)
            none = none_could(n, row["smallest_p_holm"], level, takes=takes, of="people")
            return (
                f"{model}, {_setting_words(setting)}: whether the scores of {row['n_identities']:.0f} occupations "
                f"differ from 0 cannot be told one by one: {none}."
            )
        return (
            f"{model}, {_setting_words(setting)}: the scores of {row['n_significant_holm']:.0f} of "
            f"{row['n_identities']:.0f} occupations differ from 0 after Holm's correction "
            f"({row['n_significant_bh']:.0f} after Benjamini and Hochberg's), with {n} each."
        )

    table = study.table("paired_absolute_score")
    table = plain(table[(table["aspect"] == "occupation") & (table["n_identities"] > 0)])
    return _each(study, table, ["model", "setting"], say, bare=True)


def absolute_finding(study: Study) -> str:
    """Say the mean absolute score, the part of it that sampling explains, and the rest."""

    def say(model: str, aspect: str, setting: str, rows: pd.DataFrame) -> str:
        row = rows.iloc[0]
        return (
            f"{model}, {aspect}, {_setting_words(setting)}: mean absolute score {row['mean_absolute_score']:.1f} "
            f"points, corrected for chance {row['corrected']:.1f} ({_range(row)}{_assumed(row)}; "
            f"{row['n_identities']:.0f} identities); a fair model would show {row['floor']:.1f} at this n, "
            f"of which the correction leaves {row['corrected_floor']:.1f}."
        )

    return _each(study, plain(study.table("paired_absolute_score").dropna(subset=["corrected"])), _CELL, say)


def labour_finding(study: Study) -> str:
    """Say how generated shares go with labour shares: correlation, amplification beyond sampling, direction."""
    correlation = study.table("paired_labour_correlation").query("stereotype == 'overall'")
    amplified = study.table("paired_labour_amplification").set_index("definition")
    same = ["model", "setting"]
    for definition in ("no_exclusion", "directional"):
        rows = amplified.loc[amplified.index == definition].set_index(same).add_suffix(f"_{definition}")
        correlation = correlation.merge(rows.reset_index(), on=same)

    def say(model: str, setting: str, rows: pd.DataFrame) -> str:
        row = rows.iloc[0]
        limits, along = (
            ("ci_low_no_exclusion", "ci_high_no_exclusion"),
            ("ci_low_directional", "ci_high_directional"),
        )
        change = _moved(
            row,
            "further from 50 % than",
            "nearer to 50 % than",
            "not shown to be nearer to or further from 50 % than",
            *limits,
        )
        lean = _moved(row, "further", "back", "without clear direction", *along)
        text = (
            f"{model}, {_setting_words(setting)}: generated and labour shares correlate at r = {row['r']:.2f} "
            f"({_range(row, digits=2)}; n = {row['n']:.0f} occupations)"
        )
        if isfinite(row["amplification_no_exclusion"]):
            text += (
                f"; generated shares are {change} labour shares, image noise taken off: "
                f"{row['amplification_no_exclusion']:+.1f} points ({_range(row, *limits)})"
            )
        if isfinite(row["amplification_directional"]):
            text += (
                f"; moved {lean} along the lean of labour shares: {row['amplification_directional']:+.1f} "
                f"points ({_range(row, *along)})"
            )
        return text + "."

    return _each(study, plain(correlation), same, say)


def power_finding(study: Study) -> str:
    """Say what the difference between high- and low-power scores restates: the lean, by setting."""

    def say(model: str, setting: str, rows: pd.DataFrame) -> str:
        row = rows.iloc[0]
        # Fewer women, a larger difference: its limits above 0 are the share's below 50.
        verdict = _moved(
            row, "below 50 %", "above 50 %", "not distinguishable from 50 %",
            "difference_ci_low", "difference_ci_high",
        )  # fmt: skip
        return (
            f"{model}, {_setting_words(setting)}: high- minus low-power score, {row['difference']:+.1f}, is 4 × (50 "
            f"- % female over both roles) by algebra and shows only the lean: {row['percent_female']:.1f} % "
            f"female, {verdict} ({_range(row, 'percent_female_ci_low', 'percent_female_ci_high')}; "
            f"{row['n']:.0f} occupations; {_p_words(row['difference_p'])})."
        )

    coupling = plain(study.table("paired_role_coupling").dropna(subset=["difference"]))
    return _each(study, coupling, ["model", "setting"], say)


def coupling_finding(study: Study) -> str:
    """Say how often both roles of an occupation have the same score, and what follows for their images."""

    def say(model: str, setting: str, rows: pd.DataFrame) -> str:
        row = rows.iloc[0]
        text = (
            f"{model}, {_setting_words(setting)}: both roles have the same score in {row['n_same_score']:.0f} of "
            f"{row['n']:.0f} occupations"
        )
        if isfinite(row["r"]):
            text += f", r = {row['r']:.2f} ({_range(row, digits=2)})"
        if isfinite(row["fewest_same_gender"]):
            text += (
                f"; these scores are possible with as few as {row['fewest_same_gender']:.0f} of "
                f"{row['n_images']:.0f} images that show two people of one perceived gender"
            )
        if isfinite(row["same_gender"]):
            limits = "percent_same_gender_ci_low", "percent_same_gender_ci_high"
            text += (
                f"; {row['same_gender']:.0f} of {row['n_images']:.0f} images show two people of one perceived gender, "
                f"{row['percent_same_gender']:.1f} % ({_range(row, *limits)})"
            )
        if isfinite(row["same_gender_excess"]):
            limits = "same_gender_excess_ci_low", "same_gender_excess_ci_high"
            way = _moved(row, "more than", "fewer than", "no difference shown from", *limits)
            text += (
                f": {way} independent people with the leans of their identities, {row['same_gender_excess']:+.1f} "
                f"points ({_range(row, *limits)})"
            )
        return text + "."

    coupling = plain(study.table("paired_role_coupling"))
    return _each(study, coupling[coupling["n"] > 0], ["model", "setting"], say)


def change_finding(study: Study) -> str:
    """Say how scores change from one person to two, by aspect and list."""

    def say(model: str, aspect: str, setting: str, rows: pd.DataFrame) -> str:
        said = []
        for _, r in rows.iterrows():
            way = _moved(r, "up", "down", "without clear change")
            test = f"; {_p_words(r['p'])}" if isfinite(r["p"]) else ""
            said.append(
                f"{_LIST_WORDS[r['stereotype']]} {way}, {r['change']:+.1f} ({_range(r)}{_assumed(r)}{test})"
            )
        n = rows["n_identities"].max()
        return (
            f"{model}, {aspect}, one person to {_setting_words(setting)}: {'; '.join(said)}; {n:.0f} identities "
            "(lists: partners fixed)."
        )

    return _each(study, plain(study.table("paired_score_change").dropna(subset=["change"])), _CELL, say)


def lean_finding(study: Study) -> str:
    """Say the share perceived as female whatever the identity, by setting."""

    def say(model: str, aspect: str, rows: pd.DataFrame) -> str:
        said = [
            f"{r['percent_female']:.1f} % with {_setting_words(r['setting'])} ({_range(r)}{_assumed(r)}; "
            f"{r['n']:.0f} people)"
            for _, r in rows.iterrows()
        ]
        return f"{model}, {aspect}, perceived as female over both lists: {'; '.join(said)}."

    table = study.table("paired_lean")
    table = plain(table[(table["stereotype"] == "overall") & (table["evidence"] == "computed")])
    return _each(study, table.dropna(subset=["percent_female"]), ["model", "aspect"], say)


def cases_finding(study: Study) -> str:
    """Say how cases of changed bias divide between the lists, beside what the paper states."""
    table = study.table("paired_changed_cases")
    largest = table["stereotype"] == table["direction"].map({"amplified": "male", "reduced": "female"})
    changes = study.table("paired_identity_change")
    known = changes.dropna(subset=["p_holm"])

    def say(model: str, aspect: str, setting: str, rows: pd.DataFrame) -> str:
        said = []
        for _, row in rows.iterrows():
            text = (
                f"{row['n_cases']:.0f} of {row['n']:.0f} {row['direction']} cases ({row['percent_of_cases']:.1f} %, "
                f"{_range(row)}; {row['percent_of_points']:.1f} % of their points) are {row['stereotype']}-"
                "stereotyped"
            )
            said.append(text + (f" (stated: {row['printed']:.2f} %)" if isfinite(row["printed"]) else ""))
        of = known[(known["model"] == model) & (known["aspect"] == aspect) & (known["setting"] == setting)]
        level, smallest = 1 - study.confidence, of["smallest_p_holm"].min()
        sure = (
            f"{int((of['p_holm'] < level).sum())} of {len(of)} changes differ from 0 after Holm's correction."
        )
        if smallest >= level:
            with_one, n = of["n_single"].max(), of["n"].max()
            takes = stats.needed(lambda more: stats.least_fisher_p(more, n), len(of), level)
            each = f"{with_one:.0f} people alone and {n:.0f} with two"
            sure = none_could(each, smallest, level, takes=takes, of="people alone")
            sure = f"Whether one of the {len(of)} changes differs from 0 cannot be told: {sure}."
        return f"{model}, {aspect}, {_setting_words(setting)}: {'; '.join(said)}. {sure}"

    return _each(study, plain(table[largest].dropna(subset=["percent_of_cases"])), _CELL, say)


def mitigation_finding(study: Study) -> str:
    """Say each overall score without and with mitigation, and which way people lean then."""

    def say(model: str, aspect: str, scope: str, rows: pd.DataFrame) -> str:
        before = rows[rows["mitigation"] == "none"]
        after = rows[rows["mitigation"] != "none"]
        if before.empty or after.empty:
            return ""
        first, said = before.iloc[0], []
        for _, row in after.iterrows():
            text = f"{row['score']:.1f} with {row['mitigation'].replace('faircritic', 'FairCritic')}"
            if isfinite(row["ci_low"]):
                about = f"{_range(row)}{_assumed(row)}; {row['n']:.0f} people"
                said.append(f"{text} ({about}): {_left_over(first, row)}")
                continue
            if first["score"] * row["score"] < 0:
                over = "over-correction: the sign is reversed"
                if abs(row["score"]) < row["margin"]:
                    over += f", though by less than the margin of {row['margin']:.1f} at the unmitigated n"
                text += f" ({over})"
            said.append(text)
        which = " (top 5 of each list)" if scope == "top5" else ""
        about = f"{_range(first)}{_assumed(first)}; {first['n']:.0f} people"
        known = f" ({about})" if isfinite(first["ci_low"]) else " as printed"
        bare = " Mitigated scores are as printed, without n." if after["ci_low"].isna().all() else ""
        # Printed scores are chosen the same way, but neither their n nor their images are known.
        if scope == "top5" and not bare:
            bare = " These ten were chosen for their scores in the same images: part of any fall is chance."
        text = f"{model}, {aspect}{which}: overall {first['score']:.1f} without mitigation{known}"
        return f"{text}; {'; '.join(said)}.{bare}"

    table = study.table("paired_mitigation").query("stereotype == 'overall'").dropna(subset=["score"])
    return _each(study, table, ["model", "aspect", "scope"], say)


def _left_over(before, after) -> str:
    """Say which way people lean with mitigation: over-correction as plainly as bias that is left."""
    way = after["direction"]
    if way == "no difference shown":
        return "no difference from 0 shown"
    first, ahead = before["score"], "towards" if way.startswith("towards") else "against"
    if (first > 0) == (ahead == "towards"):
        return f"bias {ahead} stereotypes is left"
    return f"over-correction, {ahead} stereotypes"


def judge_finding(study: Study) -> str:
    """Say what overall score each automated judge would see, given its agreement with annotators."""

    def say(model: str, aspect: str, setting: str, rows: pd.DataFrame) -> str:
        score = rows["score"].iloc[0]
        said = [
            f"{r['judge'].replace('vqa', 'BLIP').replace('fairface', 'FairFace')} (kappa {r['kappa']:.2f}) "
            f"{r['score_seen']:.1f}"
            for _, r in rows.iterrows()
        ]
        return (
            f"{model}, {aspect}, {_setting_words(setting)}: where annotators see an overall score of {score:.1f} "
            f"({rows['n'].iloc[0]:.0f} people), evenly spread errors would leave {' and '.join(said)}; kappas are "
            "printed without n or interval."
        )

    table = study.table("paired_judge_attenuation").dropna(subset=["score_seen"])
    return _each(study, table, _CELL, say, bare=True)


# -- figures -----------------------------------------------------------------------------------------

# Name: title, caption. {level} is the level of the intervals.
_FIGURES = {
    "paired_stereotype_score": (
        "Stereotype score by list and setting",
        "Mean stereotype score over identities (100: everyone fits the stereotype, 0: balanced, -100: nobody fits), "
        "by aspect. Thin lines: {level} intervals over identities (t), of a list with the partners fixed, overall "
        "with both lists drawn. Pale bars: {level} intervals over images with the identities fixed. How two people "
        "of one image depend on each other is estimated where images were counted, and taken at its worst where "
        "only shares are known (column dependence). Hollow: printed without an interval (Table 1, FairCritic). n is "
        "in the table paired_stereotype_score.",
    ),
    "paired_runs": (
        "Overall score of each sampling of images",
        "Hollow: overall score of each independent sampling (layout of table 10), moved apart vertically. Filled: "
        "all images, with {level} intervals over images, identities fixed.",
    ),
    "paired_biased_images": (
        "Images that fit stereotypes",
        "Share of images in which the person, both people, or at least one person fits the stereotype. Dots: "
        "counted, with {level} intervals over identities. Bars: everything that the shares per identity allow where "
        "only those are known (Fréchet bounds, without sampling error). Black line: the lower limit that the "
        "abstract states.",
    ),
    "paired_occupation_score": (
        "Stereotype score of each occupation",
        "Score of each occupation with exact {level} intervals, sorted by the score with two people. "
        "Grey, the noise floor: the band of scores that a fair model shows in {level} of cases or more at this n; a "
        "score inside it means nothing by itself. Filled: differs from 0 after Holm's correction for the number of "
        "occupations. n, and how far the band reaches, are in the panel titles.",
    ),
    "paired_labour_share": (
        "Generated shares and the labour force",
        "Share perceived as female in images of two people with {level} Wilson intervals, sorted, and the "
        "share of women in the labour force (diamonds, table 11; none for occupations without a "
        "statistic). n per occupation is in the table paired_labour_comparison.",
    ),
    "paired_labour_correlation": (
        "Correlation with labour shares",
        "Each point is an occupation, with its {level} Wilson interval. Pearson's r with Fisher's {level} "
        "interval over occupations, for both lists together and within each. Dashed: the labour share "
        "itself.",
    ),
    "paired_labour_amplification": (
        "Amplification against labour shares",
        "Mean of |generated - 50| - |labour - 50| over occupations by the published rule and without "
        "exclusion, and mean change along the lean of the labour share, corrected for image noise. {level} intervals "
        "over occupations and images (hierarchical bootstrap); n is the number of occupations that count. Black: "
        "uncorrected, as observed.",
    ),
    "paired_power_score": (
        "Stereotype score of each power role",
        "Score of the high- and the low-power role of each occupation with exact {level} intervals, "
        "sorted by the mean of both with two people. Grey, the noise floor: the band of scores that a fair model "
        "shows in {level} of cases or more at this n. Filled: differs from 0 after Holm's correction. n, and how far "
        "the band reaches, are in the panel titles.",
    ),
    "paired_role_coupling": (
        "The two roles of an occupation",
        "Score of the high-power role against that of the low-power role; areas and numbers count "
        "occupations. If every image of two people shows one woman and one man, all lie on the dashed "
        "line.",
    ),
    "paired_score_change": (
        "Change from one person to two",
        "Mean change of the score over identities, {level} intervals (t). Lists: partners fixed. Overall: the "
        "two roles of an occupation taken together, or both lists of occupations drawn, their dependence estimated "
        "where images were counted and at its largest elsewhere. Above 0: amplified. n in the panel titles.",
    ),
    "paired_identity_change": (
        "Change of each occupation's score",
        "Score with two people minus score with one, {level} Newcombe intervals, sorted. Filled: differs "
        "from 0 by Fisher's exact test after Holm's correction. n per occupation is in the table "
        "paired_identity_change.",
    ),
    "paired_cases": (
        "How stereotyped people and changed cases divide",
        "Left: of all people who fit their stereotype, the share with a male-stereotyped identity "
        "({level} bootstrap intervals over identities). Right: of all identities whose score rises "
        "(amplified) or falls (reduced) from one person to two, the share in the male-stereotyped list "
        "({level} Wilson intervals), the same weighted by points, and what section 4.6 states.",
    ),
    "paired_lean": (
        "Lean and stereotype apart",
        "Share perceived as female in the two lists, {level} intervals over identities (t); hollow where "
        "only scores are printed. Across the dashed line lies the stereotype: the overall score is the "
        "vertical distance from it. Along it lies the lean towards one gender whatever the identity; on "
        "the dotted line half of all are female.",
    ),
    "paired_lean_mitigated": (
        "Lean and stereotype, with mitigation",
        "Share perceived as female in the two lists, without and with mitigation: {level} intervals over "
        "identities (t) where shares per identity are given; hollow where only scores are printed (Table 1). "
        "The overall score is the vertical distance from the dashed line; on the dotted line half of all "
        "are female.",
    ),
    "paired_mitigation": (
        "Scores without and with mitigation",
        "Filled: computed, with {level} intervals over identities (t). Hollow: printed (tables 1 and 2), "
        "without n. Pale bars: the {level} margin if the mitigated images were as many as the unmitigated "
        "ones and the two people of an image fully dependent. In the shaded part people fit the opposite of their "
        "stereotype more often: a score there after mitigation is over-correction. The top 5 were chosen for "
        "their scores in the same images, so part of their fall would be expected without any intervention.",
    ),
    "paired_judges": (
        "Agreement of judges, and what it does to a score",
        "Left: Fleiss' kappa among annotators (table 7) and Cohen's kappa of automated judges with them "
        "(table 9), as printed, without intervals. Right: overall score by annotators, and the score that "
        "a judge of that kappa would report if its errors hit women and men, and all identities, alike.",
    ),
}


def save(study: Study, name: str, figure: Figure, *, main: bool = False, note: str = "") -> None:
    """Save a figure of this paper with its title and caption, and a ``note`` behind it.

    Raises:
        KeyError: No caption is written for ``name``.
    """
    title, caption = _FIGURES[name]
    caption = " ".join(filter(None, (caption.format(level=_level(study)), how(study), note)))
    study.save_figure(name, figure, title=title, caption=caption, main=main)


def how(study: Study) -> str:
    """Say how the images of each measured model were made, as a sentence for captions; empty for printed numbers."""
    told = study.measured_or_empty("pipeline_settings")
    said = []
    for model, rows in told.groupby("model", sort=False):
        value = rows.set_index("setting")["value"]
        if model == WORLD:
            said.append(f"{model}: drawings true to the embedded world, made by no model.")
        elif {"generation.guidance_scale", "generation.steps"} <= set(value.index):
            own, steps = value.get("people.guidance_scale", "null"), float(value["generation.steps"])
            guidance = float(value["generation.guidance_scale"] if own == "null" else own)
            said.append(f"{model}: guidance {guidance:g}, {steps:g} steps.")
    said += [f"{model}: as printed in the paper, not measured here." for model in _printed_beside(study)]
    return " ".join(said)
