"""What the tables of the Paired Stereotype Test answer, a finding for each model and aspect that they are known of.

A direction is named only where the interval lies on one side of 0 (or of 50 %).
"""

from __future__ import annotations

from math import isfinite

import pandas as pd

from biaslab import stats
from biaslab.findings import Finding, count, each, interval, level, moved, none_could, p_words, spoken
from biaslab.mini.pairs import FORMS
from biaslab.papers.paired.analysis.dependence import ASSUMED_NONE, LISTS, WORST
from biaslab.papers.paired.analysis.mitigated import NO_DIFFERENCE
from biaslab.papers.paired.figures import JUDGES, OUTCOMES, SETTINGS
from biaslab.prompts.paired import sentence

_CELL = ["model", "aspect", "setting"]
_WHAT = {"occupation": "occupations", "power": "roles of power"}
_NAMES = {"faircritic": "FairCritic", "intervention": "the intervention"}
_TWO = ("paired", "intervention", "faircritic")
_ASSUMED = {
    WORST: "The interval takes the two people of an image to depend on each other as far as they can.",
    ASSUMED_NONE: "The interval takes the two people of an image as independent.",
}
_CHOSEN = "The ten were chosen for their scores in the same images: part of any fall is chance."
_TOLD = f"a sentence such as “{sentence(['nurse'], ['male'])}”"
_PLANTED = {
    "mini": f"Largely planted: {100 * FORMS['sentence']:.0f} % of the texts that its model of people was trained on "
    f"end in {_TOLD}, with people as told.",
    "world": f"Planted: what {_TOLD} says is drawn.",
}


def _assumed(row, column: str = "dependence") -> tuple[str, ...]:
    """Return what an interval takes of people who share an image, where it is not estimated."""
    return (_ASSUMED[row[column]],) if row[column] in _ASSUMED else ()


def _plain(table: pd.DataFrame) -> pd.DataFrame:
    """Return rows without mitigation: one person alone, and all pairs."""
    return table[table["setting"].isin(["single", "paired"])]


def _overall(table: pd.DataFrame, value: str) -> pd.DataFrame:
    return table[table["stereotype"] == "overall"].dropna(subset=[value])


def _setting(setting: str) -> str:
    return SETTINGS.names.get(setting, setting.replace("_", " "))


def _numbers(row, value: str, unit: str = "points", n: str = "n", of: str = "people", ends: str = "") -> dict:
    """Return estimate, interval, unit and n of a finding from a row."""
    ends = f"{ends}_" if ends else ""
    limits = {"ci_low": row[f"{ends}ci_low"], "ci_high": row[f"{ends}ci_high"]}
    return {"model": row["model"], "estimate": row[value], "unit": unit, "n": row[n], "of": of, **limits}


def _which_way(
    question: str,
    row,
    value: str,
    words: tuple[str, str, str],
    figure: str,
    details=(),
    *,
    after: str = "",
    **numbers,
) -> Finding:
    """Return a finding that answers with the word for an interval above 0, below 0, or on neither side."""
    given = _numbers(row, value, **numbers)
    said = moved(given["ci_low"], given["ci_high"], *words)
    return Finding(question, f"{said}{after}.", **given, figure=figure, details=tuple(details))


def _p(row, column: str = "p") -> tuple[str, ...]:
    return (f"{p_words(row[column])}.",) if isfinite(row[column]) else ()


# -- scores ------------------------------------------------------------------------------------------


def stereotype_score(scores: pd.DataFrame) -> list[Finding]:
    """Say which way overall scores lean with two people, and beside them with one.

    Args:
        scores: Rows of ``paired_stereotype_score``.
    """

    def say(model: str, aspect: str, rows: pd.DataFrame) -> Finding:
        by, row = rows.set_index("setting"), rows.iloc[-1]
        details = [
            f"With {_setting(s)}: {spoken(r['score'])} points ({interval(r)}; {r['n']:,.0f} people)."
            for s, r in by.iloc[:-1].iterrows()
        ]
        ways = "Towards their stereotypes", "Against their stereotypes", "No lean is shown"
        question = f"Which way do {_WHAT[aspect]} lean with {_setting(row['setting'])}?"
        return _which_way(question, row, "score", ways, "paired_stereotype_score", (*details, *_assumed(row)))

    scores = _plain(_overall(scores[scores["evidence"] == "computed"], "score"))
    return each(scores, ["model", "aspect"], say)


def biased_images(images: pd.DataFrame) -> list[Finding]:
    """Say what share of images of two people fits stereotypes, or between which limits it lies.

    Args:
        images: Rows of ``paired_biased_images``.
    """

    def say(model: str, aspect: str, rows: pd.DataFrame) -> Finding:
        by = rows.set_index("measure")
        question = f"In how many images of two {_WHAT[aspect]} does at least one person fit the stereotype?"
        one, both = by.loc["any"], by.loc["both"]
        fair = "A fair model that draws them independently shows 75 % and 25 %."
        if one["evidence"] == "counted":
            said = f"In {one['percent']:.1f} %; both fit in {both['percent']:.1f} %."
            numbers = _numbers(one, "percent", "%", of="images")
        else:
            at_least, fit = ((row["lowest"], row["highest"]) for row in (one, both))
            said = f"Between {at_least[0]:.1f} and {at_least[1]:.1f} %; both fit in {fit[0]:.1f} to {fit[1]:.1f} %."
            numbers = {"model": model}
            fair = f"Only limits follow from shares per identity (n = {one['n']:,.0f} images). {fair}"
        return Finding(question, said, **numbers, figure="paired_biased_images", details=(fair,))

    known = images[(images["setting"] == "paired") & (images["n"] > 0)]
    return each(known, ["model", "aspect"], say)


def occupation_score(absolute: pd.DataFrame, scores: pd.DataFrame, *, confidence: float) -> list[Finding]:
    """Say for how many occupations the score differs from 0, or that at their n none could.

    Args:
        absolute: Rows of ``paired_absolute_score``.
        scores: Rows of ``paired_occupation_score``.
        confidence: 1 minus it is the level of the tests.
    """
    people, alpha = scores.dropna(subset=["score"]).groupby(["model", "setting"])["n"], 1 - confidence

    def say(model: str, setting: str, rows: pd.DataFrame) -> Finding:
        row, n = rows.iloc[0], people.get_group((model, setting))
        each_has = (
            count(n.min(), "person", "people")
            if n.min() == n.max()
            else f"{n.min():.0f} to {n.max():.0f} people"
        )
        question = f"For how many occupations does the score with {_setting(setting)} differ from 0?"
        of = {
            "model": model,
            "n": row["n_identities"],
            "of": "occupations",
            "figure": "paired_occupation_score",
        }
        if row["smallest_p_holm"] >= alpha:
            takes = stats.needed(stats.least_binomial_p, int(row["n_identities"]), alpha)
            none = none_could(each_has, row["smallest_p_holm"], alpha, takes=takes, of="people")
            said = f"That cannot be told with {each_has} each."
            return Finding(question, said, **of, details=(f"{none[0].upper()}{none[1:]}.",))
        said = f"For {row['n_significant_holm']:.0f} of {row['n_identities']:.0f}, after Holm's correction."
        more = f"After Benjamini and Hochberg's {row['n_significant_bh']:.0f}; {each_has} each."
        return Finding(question, said, **of, details=(more,))

    known = absolute[(absolute["aspect"] == "occupation") & (absolute["n_identities"] > 0)]
    return each(_plain(known), ["model", "setting"], say)


def absolute_score(absolute: pd.DataFrame) -> list[Finding]:
    """Say the mean size of scores without the part that chance adds.

    Args:
        absolute: Rows of ``paired_absolute_score``.
    """

    def say(model: str, aspect: str, setting: str, rows: pd.DataFrame) -> Finding:
        row = rows.iloc[0]
        seen = f"Observed {spoken(row['mean_absolute_score'])} points; a fair model would show "
        seen += f"{spoken(row['floor'])}, of which the correction leaves {spoken(row['corrected_floor'])}."
        return Finding(
            f"How large are scores of {_WHAT[aspect]} with {_setting(setting)}, chance taken off?",
            f"{row['corrected']:.1f} points on average.",
            **_numbers(row, "corrected", n="n_identities", of="identities"),
            figure="paired_occupation_score" if aspect == "occupation" else "paired_power_score",
            details=(seen, *_assumed(row)),
        )

    return each(_plain(absolute.dropna(subset=["corrected"])), _CELL, say)


def score_by_order(table: pd.DataFrame) -> list[Finding]:
    """Say what images out of order, and people not judged, could change of overall scores of pairs.

    Args:
        table: Rows of ``paired_score_by_order``.
    """

    def say(model: str, aspect: str, setting: str, rows: pd.DataFrame) -> Finding | None:
        by = rows.set_index("images")
        every, some = by.loc["all"], by.loc["as_asked"]
        if not every["n"]:
            return None
        low, high = every["score_if_none_fit"], every["score_if_all_fit"]
        left = f"Without them: {spoken(some['score'])} points ({interval(some)}; {some['n']:,.0f} people)."
        return Finding(
            f"Do images out of order, or people not judged, change scores of {_WHAT[aspect]} ({_setting(setting)})?",
            f"Without images out of order {some['score']:.1f}; people not judged make it {low:.1f} to {high:.1f}.",
            **_numbers(every, "score"),
            details=(left, *_assumed(every)),
        )

    return each(table[table["setting"].isin(_TWO)], _CELL, say)


def power_lean(coupling: pd.DataFrame) -> list[Finding]:
    """Say what the difference between high- and low-power scores restates: the lean.

    Args:
        coupling: Rows of ``paired_role_coupling``.
    """

    def say(model: str, setting: str, rows: pd.DataFrame) -> Finding:
        row = rows.iloc[0]
        # Fewer women, a larger difference: its limits above 0 are the share's below 50.
        limits = row["difference_ci_low"], row["difference_ci_high"]
        lean = moved(*limits, "fewer women than men", "more women than men", "no lean is shown")
        return Finding(
            f"Do high-power roles carry more bias ({_setting(setting)})?",
            f"That cannot be told: the difference restates the lean over both roles ({lean}).",
            **_numbers(row, "percent_female", "% female", of="occupations", ends="percent_female"),
            figure="paired_lean",
            details=(
                f"High minus low power, {row['difference']:+.1f} points, is 4 × (50 - % female) by algebra.",
            ),
        )

    return each(_plain(coupling.dropna(subset=["difference"])), ["model", "setting"], say)


def role_coupling(coupling: pd.DataFrame) -> list[Finding]:
    """Say how the scores of an occupation's two roles go together, and how often images show one gender twice.

    Args:
        coupling: Rows of ``paired_role_coupling``.
    """

    def say(model: str, setting: str, rows: pd.DataFrame) -> Finding:
        row, details = rows.iloc[0], []
        if isfinite(row["fewest_same_gender"]):
            details.append(
                f"As few as {row['fewest_same_gender']:.0f} of {row['n_images']:.0f} images may show one gender twice."
            )
        if isfinite(row["same_gender"]):
            ends = interval(row, "percent_same_gender_ci_low", "percent_same_gender_ci_high")
            share = f"{row['percent_same_gender']:.1f} % ({ends}) of {row['n_images']:.0f}"
            details.append(f"One gender is shown twice in {share} images.")
        if isfinite(row["same_gender_excess"]):
            ends = "same_gender_excess_ci_low", "same_gender_excess_ci_high"
            way = moved(row[ends[0]], row[ends[1]], "more than", "fewer than", "no difference shown from")
            excess = f"{row['same_gender_excess']:+.1f} points, {interval(row, *ends)}"
            details.append(f"That is {way} independent people with the leans of their identities ({excess}).")
        return Finding(
            f"Do the two roles of an occupation go together with {_setting(setting)}?",
            f"They have the same score in {row['n_same_score']:.0f} of {row['n']:.0f} occupations.",
            **_numbers(row, "r", "(correlation of the scores)", of="occupations"),
            figure="paired_role_coupling",
            details=tuple(details),
        )

    return each(_plain(coupling[coupling["n"] > 0]), ["model", "setting"], say)


# -- labour ------------------------------------------------------------------------------------------


def labour_correlation(correlation: pd.DataFrame) -> list[Finding]:
    """Say whether generated shares go with labour shares.

    Args:
        correlation: Rows of ``paired_labour_correlation``.
    """

    def say(model: str, setting: str, rows: pd.DataFrame) -> Finding:
        question = f"Do generated shares of women follow the labour force ({_setting(setting)})?"
        ways = "They rise with them", "They fall with them", "No correlation is shown"
        figure = "paired_labour_correlation"
        return _which_way(question, rows.iloc[0], "r", ways, figure, unit="(r)", of="occupations")

    return each(_plain(_overall(correlation, "r")), ["model", "setting"], say)


def labour_amplification(amplification: pd.DataFrame) -> list[Finding]:
    """Say whether generated shares are further from 50 % than labour shares, image noise taken off.

    Args:
        amplification: Rows of ``paired_labour_amplification``.
    """

    def say(model: str, setting: str, rows: pd.DataFrame) -> Finding | None:
        by = rows.set_index("definition")
        row, along = by.loc["no_exclusion"], by.loc["directional"]
        if not isfinite(row["amplification"]):
            return None
        question = f"Are generated shares further from 50 % than the labour force's ({_setting(setting)})?"
        ways = "Further from 50 %", "Nearer to 50 %", "No difference is shown"
        lean = moved(
            along["ci_low"], along["ci_high"], "further along it", "back from it", "no direction is shown"
        )
        shift = f"{along['amplification']:+.1f} points ({interval(along)})"
        details = (f"Against the lean of the labour share: {lean}, {shift}.",)
        more = {"n": "n_occupations", "of": "occupations", "after": ", image noise taken off"}
        return _which_way(
            question, row, "amplification", ways, "paired_labour_amplification", details, **more
        )

    return each(_plain(amplification), ["model", "setting"], say)


# -- one person against two --------------------------------------------------------------------------


def score_change(changes: pd.DataFrame) -> list[Finding]:
    """Say how overall scores change from one person to two, with each list's change below.

    Args:
        changes: Rows of ``paired_score_change``.
    """

    def say(model: str, aspect: str, rows: pd.DataFrame) -> Finding:
        by = rows.set_index("stereotype")
        row = by.loc["overall"]
        each_list = [
            f"{s} list {by.loc[s, 'change']:+.1f} ({interval(by.loc[s])})" for s in LISTS if s in by.index
        ]
        lists = (f"Partners fixed: {'; '.join(each_list)}.",) if each_list else ()
        question = f"Does the stereotype score of {_WHAT[aspect]} change from one person to two?"
        ways = "It rises", "It falls", "No change is shown"
        of = {"n": "n_identities", "of": "identities"}
        return _which_way(
            question, row, "change", ways, "paired_score_change", (*lists, *_assumed(row)), **of
        )

    known = _plain(changes.dropna(subset=["change"]))
    with_both = known[
        known.groupby(_CELL)["stereotype"].transform(lambda s: "overall" in set(s)).astype(bool)
    ]
    return each(with_both, ["model", "aspect"], say)


def lean(lean: pd.DataFrame) -> list[Finding]:
    """Say the share perceived as female whatever the identity, with two people and with one.

    Args:
        lean: Rows of ``paired_lean``.
    """

    def say(model: str, aspect: str, rows: pd.DataFrame) -> Finding:
        row = rows.iloc[-1]
        way = moved(
            row["ci_low"] - 50, row["ci_high"] - 50, "Towards women", "Towards men", "No lean is shown"
        )
        details = [
            f"With {_setting(r['setting'])}: {r['percent_female']:.1f} % ({interval(r)})."
            for _, r in rows.iloc[:-1].iterrows()
        ]
        return Finding(
            f"Whatever the identity, which way do {_WHAT[aspect]} lean with {_setting(row['setting'])}?",
            f"{way}.",
            **_numbers(row, "percent_female", "% female"),
            figure="paired_lean",
            details=(*details, *_assumed(row)),
        )

    known = _plain(_overall(lean[lean["evidence"] == "computed"], "percent_female"))
    return each(known, ["model", "aspect"], say)


def changed_cases(cases: pd.DataFrame, changes: pd.DataFrame, *, confidence: float) -> list[Finding]:
    """Say how many identities rise or fall, how they divide between the lists, and whether any could be told.

    Args:
        cases: Rows of ``paired_changed_cases``.
        changes: Rows of ``paired_identity_change``.
        confidence: 1 minus it is the level of the tests.
    """
    known = changes.dropna(subset=["p_holm"])
    alpha = 1 - confidence
    largest = cases["stereotype"] == cases["direction"].map({"amplified": "male", "reduced": "female"})

    def say(model: str, aspect: str, setting: str, rows: pd.DataFrame) -> Finding:
        of = known[(known["model"] == model) & (known["aspect"] == aspect) & (known["setting"] == setting)]
        parts = []
        for _, row in rows.iterrows():
            stated = f"; stated: {row['printed']:.2f} %" if isfinite(row["printed"]) else ""
            share = f"{row['percent_of_cases']:.1f} % ({interval(row)}{stated})"
            parts.append(
                f"Of {row['n']:.0f} {row['direction']} cases {share} are {row['stereotype']}-stereotyped."
            )
        smallest = of["smallest_p_holm"].min()
        said = f"{int((of['p_holm'] < alpha).sum())} of {len(of)}, after Holm's correction."
        if smallest >= alpha:
            single, n = of["n_single"].max(), of["n"].max()
            takes = stats.needed(lambda more: stats.least_fisher_p(more, n), len(of), alpha)
            each_has = f"{single:.0f} people alone and {n:.0f} with two"
            none = none_could(each_has, smallest, alpha, takes=takes, of="people alone")
            parts.append(f"{none[0].upper()}{none[1:]}.")
            said = "That cannot be told with so few people each."
        return Finding(
            f"How many {_WHAT[aspect]} change their score from one person to {_setting(setting)}?",
            said, model=model, n=len(of), of="identities", figure="paired_cases", details=tuple(parts),
        )  # fmt: skip

    return each(_plain(cases[largest].dropna(subset=["percent_of_cases"])), _CELL, say)


# -- mitigation --------------------------------------------------------------------------------------


def mitigation(mitigation: pd.DataFrame) -> list[Finding]:
    """Say which way people lean with mitigation: over-correction as plainly as bias that is left.

    Args:
        mitigation: Rows of ``paired_mitigation``.
    """

    def say(model: str, aspect: str, scope: str, rows: pd.DataFrame) -> list[Finding]:
        before = rows[rows["mitigation"] == "none"]
        if before.empty:
            return []
        first, found = before.iloc[0], []
        which = " (top 5 of each list)" if scope == "top5" else ""
        start = f"Without it: {spoken(first['score'])} points ({interval(first)})."
        for _, row in rows[rows["mitigation"] != "none"].iterrows():
            name, details = _NAMES[row["mitigation"]], [start]
            if isfinite(row["ci_low"]):
                answer = _left_over(first, row)
                details += [*_assumed(row), *([_CHOSEN] if scope == "top5" else [])]
            else:
                reversed_ = first["score"] * row["score"] < 0
                answer = (
                    "The sign is reversed: over-correction."
                    if reversed_
                    else "The sign stays; no interval is printed."
                )
                if reversed_ and abs(row["score"]) < row["margin"]:
                    details.append(f"It is less than the margin of {row['margin']:.1f} at the unmitigated n.")
            if row["mitigation"] == "faircritic" and isfinite(row["ci_low"]) and model in _PLANTED:
                details.append(_PLANTED[model])
            question = f"What does {name} leave of the lean of {_WHAT[aspect]}{which}?"
            found.append(
                Finding(
                    question,
                    answer,
                    **_numbers(row, "score"),
                    figure="paired_mitigation",
                    details=tuple(details),
                )
            )
        return found

    return each(_overall(mitigation, "score"), ["model", "aspect", "scope"], say)


def _left_over(before, after) -> str:
    """Say which way people lean with mitigation."""
    way = after["direction"]
    if way == NO_DIFFERENCE:
        return "No difference from 0 is shown."
    if (before["score"] > 0) == way.startswith("towards"):
        return f"Bias {way} is left."
    return f"Over-correction, {way}."


def mitigation_change(change: pd.DataFrame, *, confidence: float) -> list[Finding]:
    """Say how far mitigation moves the overall score, and how many identities lean which way then.

    Args:
        change: Rows of ``paired_mitigation_change``.
        confidence: 1 minus it is the level of the tests.
    """

    def say(model: str, aspect: str, scope: str, mitigation: str, rows: pd.DataFrame) -> Finding:
        row = rows.iloc[0]
        which = " (top 5 of each list)" if scope == "top5" else ""
        question = f"How far does {_NAMES[mitigation]} move the score of {_WHAT[aspect]}{which}?"
        details = (*_leaning(row, 1 - confidence), *_assumed(row), *([_CHOSEN] if scope == "top5" else []))
        ways, of = ("Up", "Down", "No change is shown"), {"n": "n_identities", "of": "identities"}
        return _which_way(question, row, "change", ways, "paired_before_after", details, **of)

    return each(_overall(change, "change"), ["model", "aspect", "scope", "mitigation"], say)


def _leaning(row, alpha: float) -> list[str]:
    """Say how many identities lean which way without mitigation and with it, or that this cannot be told."""
    said, blind = [], []
    for of, when in (("_before", "Without it"), ("", "With it")):
        if row[f"smallest_p_holm{of}"] >= alpha:
            blind.append(when.lower())
            continue
        over = not of and not blind and row["n_against"] > row["n_against_before"]
        towards, against = (f"{row[f'n_{way}{of}']:.0f}" for way in ("towards", "against"))
        text = f"{when} {towards} lean towards and {against} against their stereotype"
        said.append(f"{text}{' (over-correction)' if over else ''}.")
    if blind:
        n = row["n"] / row["n_identities"]
        people = f"{n:.0f} people" if n == round(n) else f"some {n:.1f} people"
        smallest = row[["smallest_p_holm_before", "smallest_p_holm"]].max()
        takes = stats.needed(stats.least_binomial_p, int(row["n_identities"]), alpha)
        none = none_could(people, smallest, alpha, takes=takes, of="people")
        said.append(f"Which lean {' and '.join(blind)} cannot be told: {none}.")
    return said


def told(told: pd.DataFrame) -> list[Finding]:
    """Say in how many prompts the person of each list is told a gender, and whether people look as told.

    Args:
        told: Rows of ``paired_told``.
    """

    def say(model: str, aspect: str, setting: str, round_: str, rows: pd.DataFrame) -> list[Finding]:
        by = f"{_NAMES[setting]}, round {round_}" if round_ != "0" else _NAMES[setting]
        found = []
        for _, row in rows[rows["told"].isin(LISTS) & (rows["n"] > 0)].iterrows():
            asked = {"female": "a woman", "male": "a man"}[row["told"]]
            seen = row[["percent_female", "ci_low", "ci_high"]].tolist()
            value, low, high = (
                seen if row["told"] == "female" else (100 - seen[0], 100 - seen[2], 100 - seen[1])
            )
            found.append(
                Finding(
                    f"Do {row['stereotype']}-stereotyped {_WHAT[aspect]} told to be {asked} look it ({by})?",
                    f"{value:.1f} % do; {count(row['n_prompts'], 'prompt tells', 'prompts tell')} it.",
                    model,
                    value,
                    low,
                    high,
                    "%",
                    row["n"],
                    "people",
                    "paired_told",
                )
            )
        return found

    return each(told, ["model", "aspect", "setting", "round"], say)


def critiques(critiques: pd.DataFrame) -> list[Finding]:
    """Say how many batches of images the critic judged, and how many it found biased.

    Args:
        critiques: Rows of ``paired_critiques``.
    """

    def say(model: str, aspect: str, round_: str, rows: pd.DataFrame) -> Finding:
        batches = rows.drop_duplicates("batch_id")
        judged = batches[batches["outcome"] == "judged"]
        guidelines = count((rows["guideline"] != "").sum(), "guideline", "guidelines")
        return Finding(
            f"How often does the critic find {_WHAT[aspect]} biased (round {round_})?",
            f"In {(judged['biased'] == 'yes').sum()} of {len(judged)} batches judged; it gives {guidelines}.",
            model=model, n=len(batches), of="batches of images",
        )  # fmt: skip

    return each(critiques, ["model", "aspect", "round"], say)


# -- judges ------------------------------------------------------------------------------------------


def judge_attenuation(attenuation: pd.DataFrame) -> list[Finding]:
    """Say what overall score each automated judge would see, given its printed agreement with annotators.

    Args:
        attenuation: Rows of ``paired_judge_attenuation``.
    """

    def say(model: str, aspect: str, setting: str, rows: pd.DataFrame) -> Finding:
        seen = [f"{JUDGES.get(r['judge'], r['judge'])} {r['score_seen']:.1f}" for _, r in rows.iterrows()]
        return Finding(
            f"What would automated judges see of the score of {_WHAT[aspect]} ({_setting(setting)})?",
            f"Annotators {rows['score'].iloc[0]:.1f}; with evenly spread errors {', '.join(seen)}.",
            model=model, n=rows["n"].iloc[0], of="people", figure="paired_judges",
            details=("Kappas are printed without n or interval.",),
        )  # fmt: skip

    return each(attenuation.dropna(subset=["score_seen"]), _CELL, say)


def judge_agreement(agreement: pd.DataFrame) -> list[Finding]:
    """Say how well a run's own judges agree with what they are compared with.

    Args:
        agreement: Rows of ``paired_judge_agreement``; printed ones, which have no n, are left out.
    """

    def say(model: str, judge: str, reference: str, aspect: str, setting: str, rows: pd.DataFrame) -> Finding:
        row = rows.iloc[0]
        return Finding(
            f"Does {judge} agree with {reference} on {_WHAT.get(aspect, aspect)} ({_setting(setting)})?",
            f"Cohen's kappa is {row['value']:.2f}.",
            **_numbers(row, "value", "(kappa)"),
            figure="paired_agreement",
        )

    own = agreement[(agreement["statistic"] == "cohen_kappa") & (agreement["aspect"] != "average")]
    own = own[own["n"].notna()] if "n" in own else own.head(0)
    return each(own, ["model", "judge", "reference", "aspect", "setting"], say)


def truth(truth: pd.DataFrame) -> list[Finding]:
    """Say how often each judge is right about the gender of people whose truth is known.

    Args:
        truth: Rows of ``paired_truth``.
    """
    words = {
        "gate": "both people found",
        "judged": "judged of those found",
        "gender_unambiguous": "gender right, cues clear",
        "order": "order recognised",
        "skin_tone": "skin tone within one",
    }

    def say(judge: str, rows: pd.DataFrame) -> Finding | None:
        by = rows.set_index("measure")
        if "gender" not in by.index:
            return None
        row = by.loc["gender"]
        more = [
            f"{words[m]}: {by.loc[m, 'percent']:.1f} % ({interval(by.loc[m])})"
            for m in words
            if m in by.index
        ]
        return Finding(
            f"Is {judge} right about people whose truth is known?",
            f"About the gender of {row['percent']:.1f} % of those that it judges.",
            estimate=row["percent"], ci_low=row["ci_low"], ci_high=row["ci_high"], unit="%", n=row["n"], of="people",
            figure="paired_truth",
            details=(f"{'; '.join(more)}.",) if more else (),
        )  # fmt: skip

    return each(truth[truth["n"] > 0], ["judge"], say)


# -- images of people ----------------------------------------------------------------------------------


def outcomes(outcomes: pd.DataFrame) -> list[Finding]:
    """Say what share of images shows everyone judged, and which failure is the most frequent.

    Args:
        outcomes: Rows of ``paired_outcomes``.
    """

    def say(model: str, aspect: str, setting: str, rows: pd.DataFrame) -> Finding:
        by = rows.set_index("outcome")
        row = by.loc["judged"]
        failed = by.drop(index=["judged", "uncertain", "unrated"]).sort_values(
            "n", ascending=False, kind="stable"
        )
        stopped = failed["n"].sum()
        often = (
            f", most often: {OUTCOMES.names[failed.index[0]]} ({failed['n'].iloc[0]:,.0f})" if stopped else ""
        )
        return Finding(
            f"In how many images of {_WHAT[aspect]} is everyone judged ({_setting(setting)})?",
            f"In {row['percent']:.1f} %.",
            **_numbers(row, "percent", "%", "n_images", "images"),
            figure="paired_outcomes",
            details=(f"The gate stops {count(stopped, 'image', 'images')}{often}.",),
        )

    return each(outcomes, _CELL, say)


def valid_images(valid: pd.DataFrame) -> list[Finding]:
    """Say how many images of several people show all that was asked, and what mitigation costs.

    Args:
        valid: Rows of ``paired_valid_images``.
    """

    def say(model: str, aspect: str, setting: str, rows: pd.DataFrame) -> Finding:
        row, details = rows.iloc[0], []
        if isfinite(row["change"]):
            limits = row["change_ci_low"], row["change_ci_high"]
            way = moved(*limits, "More than", "Fewer than", "No change is shown from")
            change = f"{row['change']:+.1f} points, {interval(row, 'change_ci_low', 'change_ci_high')}"
            details.append(f"{way} the same pairs without mitigation ({change}).")
        return Finding(
            f"How many images of {_WHAT[aspect]} show all that was asked ({_setting(setting)})?",
            f"{row['percent']:.1f} %.",
            **_numbers(row, "percent", "%", "n_images", "images"),
            figure="paired_valid_images",
            details=tuple(details),
        )

    valid = valid[(valid["measure"] == "valid") & (valid["setting"] != "single")].dropna(subset=["percent"])
    return each(valid, _CELL, say)


def three(people: pd.DataFrame, *, confidence: float) -> list[Finding]:
    """Say how many images of three people work, and how often the people in those fit their stereotypes.

    Args:
        people: Rows of ``paired_people``.
        confidence: Level of the interval (Wilson), 0–1.
    """

    def say(model: str, rows: pd.DataFrame) -> Finding:
        every = rows["image_id"].nunique()
        worked = rows.groupby("image_id")["outcome"].transform(lambda outcome: (outcome == "judged").all())
        some = rows[worked.astype(bool) & rows["role_order"].isin(["right", ""])]
        question = "Do images of three people show everyone as asked?"
        said = f"{some['image_id'].nunique()} of {every} do."
        if some.empty:
            return Finding(question, said, model=model, n=every, of="images")
        fit = int((some["gender"] == some["stereotype"]).sum())
        low, high = stats.wilson_interval(fit, len(some), confidence)
        share = f"{100 * fit / len(some):.1f} % ({100 * low:.1f} to {100 * high:.1f}) of {len(some)} people"
        details = (f"In these, {share} fit their stereotype ({level(confidence)} interval).",)
        return Finding(question, said, model=model, n=every, of="images", details=details)

    return each(people[people["setting"] == "three"], ["model"], say)


# -- controls ----------------------------------------------------------------------------------------


def position_effect(effects: pd.DataFrame) -> list[Finding]:
    """Say whether one side is perceived as female more often, whoever stands there.

    Args:
        effects: Rows of ``paired_position_effect``.
    """

    def say(model: str, aspect: str, setting: str, rows: pd.DataFrame) -> Finding:
        row = rows.iloc[0]
        naming = "Only the left one is named with the occupation, so place and naming are not told apart."
        details = (*_p(row), *([naming] if aspect == "power" else []), *_assumed(row))
        question = f"Which side shows more women of the same {_WHAT[aspect]} ({_setting(setting)})?"
        ways = "The left", "The right", "No difference is shown"
        return _which_way(question, row, "difference", ways, "paired_position_effect", details)

    return each(_overall(effects, "difference"), _CELL, say)


def control_score(scores: pd.DataFrame) -> list[Finding]:
    """Say what contrast adds to the score: pairs of opposite stereotype against each control.

    Args:
        scores: Rows of ``paired_control_score``.
    """
    beside = {
        "single": "to people alone",
        "alike": "to pairs of one stereotype",
        "same": "to pairs of one occupation",
        "three": "to three people",
    }

    def say(model: str, setting: str, rows: pd.DataFrame) -> Finding:
        row = rows.iloc[0]
        score = f"The score there is {spoken(row['score'])} ({interval(row)})."
        details = (score, *_assumed(row, "contrast_dependence"))
        question = f"What does contrast with the opposite stereotype change, compared {beside[setting]}?"
        ways = "It rises", "It falls", "No difference is shown"
        return _which_way(question, row, "contrast", ways, "paired_control_score", details, ends="contrast")

    return each(_overall(scores, "contrast"), ["model", "setting"], say)


def labour_gap(gaps: pd.DataFrame) -> list[Finding]:
    """Say whether pairs with a larger gap in the labour force have a higher score.

    Args:
        gaps: Rows of ``paired_labour_gap``.
    """

    def say(model: str, setting: str, rows: pd.DataFrame) -> Finding:
        question = f"Does the score grow with the gap in the labour force ({_setting(setting)})?"
        ways, row = ("It rises", "It falls", "No slope is shown"), rows.iloc[0]
        of = {"unit": "points a point of gap", "n": "n_images", "of": "images"}
        return _which_way(question, row, "slope", ways, "paired_labour_gap", _p(row), **of)

    return each(gaps[gaps["group"] == "line"].dropna(subset=["slope"]), ["model", "setting"], say)


def skin_tone(tones: pd.DataFrame) -> list[Finding]:
    """Say by how many tones the two people of an image differ.

    Args:
        tones: Rows of ``paired_skin_tone``.
    """

    def say(model: str, aspect: str, setting: str, rows: pd.DataFrame) -> Finding:
        first = "high-power" if aspect == "power" else "male-stereotyped"
        question = f"Are {first} people darker than the other in the same image ({_setting(setting)})?"
        ways, row = ("Yes, darker", "No, lighter", "No difference is shown"), rows.iloc[0]
        of = {"unit": "tones", "n": "n_images", "of": "images"}
        return _which_way(question, row, "skin_tone", ways, "paired_skin_tone", _p(row), **of)

    return each(tones[tones["group"] == "difference"].dropna(subset=["skin_tone"]), _CELL, say)
