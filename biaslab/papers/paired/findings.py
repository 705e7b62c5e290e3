"""What the tables of the Paired Stereotype Test answer, a finding for each model and aspect that they are known of.

Functions take rows of the tables that they name, and ``confidence`` (0–1): the level of intervals, 1 minus it that of
tests. A direction is named only where the interval lies on one side of 0 (or of 50 %).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from math import isfinite, nan

import pandas as pd

from biaslab import stats
from biaslab.findings import Finding, Mark, count, each, interval, level, moved, none_could, p_words, spoken
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
_RISES = ("It rises", "It falls", "No change is shown")


def _finding(
    row,
    question: str,
    answer: str | tuple[str, str, str],
    value: str = "",
    details: Iterable[str] = (),
    *,
    figure: str = "",
    unit: str = "points",
    n: str = "n",
    of: str = "people",
    ends: str = "",
    **more,
) -> Finding:
    """Return a finding about a row, with its ``value`` and the limits whose columns begin with ``ends``.

    The question's ``{what}`` and ``{setting}`` are filled in; an answer of three words has one for an interval above
    0, below 0, and on neither side.
    """
    low, high = (row.get(f"{ends}{end}", nan) for end in ("ci_low", "ci_high"))
    aspect = row.get("aspect", "")
    question = question.format(what=_WHAT.get(aspect, aspect), setting=_setting(row.get("setting", "")))
    said = answer if isinstance(answer, str) else f"{moved(low, high, *answer)}."
    numbers = {"estimate": row[value], "ci_low": low, "ci_high": high, "unit": unit} if value else {}
    counted = {"n": row[n], "of": of} if n else {}
    model, details = row.get("model", ""), tuple(details)
    return Finding(question, said, model, figure=figure, details=details, **numbers, **counted, **more)


def _rows(table: pd.DataFrame) -> Iterable[pd.Series]:
    return (row for _, row in table.iterrows())


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


def _p(row) -> tuple[str, ...]:
    return (f"{p_words(row['p'])}.",) if isfinite(row["p"]) else ()


def _top(scope: str) -> str:
    return " (top 5 of each list)" if scope == "top5" else ""


def _none_could(each_has: str, smallest: float, alpha: float, least_p, tests: int, of: str = "people") -> str:
    """Say that no outcome could have been significant, and how many people a test it takes."""
    takes = stats.needed(least_p, tests, alpha)
    return none_could(each_has, smallest, alpha, takes=takes, of=of)


# -- scores ------------------------------------------------------------------------------------------


def stereotype_score(scores: pd.DataFrame) -> list[Finding]:
    """Say which way overall scores lean with two people, and beside them with one (``paired_stereotype_score``)."""

    def say(model: str, aspect: str, rows: pd.DataFrame) -> Finding:
        row = rows.iloc[-1]
        alone = [
            f"With {_setting(r['setting'])}: {spoken(r['score'])} points ({interval(r)}; {r['n']:,.0f} people)."
            for r in _rows(rows.iloc[:-1])
        ]
        ways = "Towards their stereotypes", "Against their stereotypes", "No lean is shown"
        question, figure = "Which way do {what} lean with {setting}?", "paired_stereotype_score"
        marks = tuple(
            Mark(_setting(r["setting"]), r["score"], r["ci_low"], r["ci_high"]) for r in _rows(rows)
        )
        drawn = {"marks": marks, "reference_name": "no lean", "figure": figure}
        return _finding(row, question, ways, "score", (*alone, *_assumed(row)), **drawn)

    scores = _plain(_overall(scores[scores["evidence"] == "computed"], "score"))
    return each(scores, ["model", "aspect"], say)


def biased_images(images: pd.DataFrame) -> list[Finding]:
    """Say what share of pairs' images fits stereotypes, or its limits (``paired_biased_images``)."""

    def say(model: str, aspect: str, rows: pd.DataFrame) -> Finding:
        by = rows.set_index("measure")
        one, both = by.loc["any"], by.loc["both"]
        said = f"In {one['percent']:.1f} %; both fit in {both['percent']:.1f} %."
        numbers = {"value": "percent", "unit": "%", "of": "images"}
        fair = "A fair model that draws them independently shows 75 % and 25 %."
        if one["evidence"] != "counted":
            ends = [row[end] for row in (one, both) for end in ("lowest", "highest")]
            said = "Between {:.1f} and {:.1f} %; both fit in {:.1f} to {:.1f} %.".format(*ends)
            numbers = {"n": ""}
            fair = f"Only limits follow from shares per identity (n = {one['n']:,.0f} images). {fair}"
        question = "In how many images of two {what} does at least one person fit the stereotype?"
        return _finding(one, question, said, details=[fair], figure="paired_biased_images", **numbers)

    known = images[(images["setting"] == "paired") & (images["n"] > 0)]
    return each(known, ["model", "aspect"], say)


def occupation_score(absolute: pd.DataFrame, scores: pd.DataFrame, *, confidence: float) -> list[Finding]:
    """Say for how many occupations the score differs from 0, or that at their n none could.

    From ``paired_absolute_score`` and ``paired_occupation_score``.
    """
    people, alpha = scores.dropna(subset=["score"]).groupby(["model", "setting"])["n"], 1 - confidence

    def say(row: pd.Series) -> Finding:
        n, tests = people.get_group((row["model"], row["setting"])), int(row["n_identities"])
        least, most = n.min(), n.max()
        each_has = count(least, "person", "people") if least == most else f"{least:.0f} to {most:.0f} people"
        said = f"For {row['n_significant_holm']:.0f} of {tests}, after Holm's correction."
        more = f"After Benjamini and Hochberg's {row['n_significant_bh']:.0f}; {each_has} each."
        if (smallest := row["smallest_p_holm"]) >= alpha:
            said = f"That cannot be told with {each_has} each."
            more = _none_could(each_has, smallest, alpha, stats.least_binomial_p, tests)
            more = f"{more[0].upper()}{more[1:]}."
        question = "For how many occupations does the score with {setting} differ from 0?"
        of = {"n": "n_identities", "of": "occupations"}
        return _finding(row, question, said, details=[more], figure="paired_occupation_score", **of)

    known = absolute[(absolute["aspect"] == "occupation") & (absolute["n_identities"] > 0)]
    return [say(row) for row in _rows(_plain(known))]


def absolute_score(absolute: pd.DataFrame) -> list[Finding]:
    """Say the mean size of scores without the part that chance adds (``paired_absolute_score``)."""

    def say(row: pd.Series) -> Finding:
        seen = f"Observed {spoken(row['mean_absolute_score'])} points; a fair model would show "
        seen += f"{spoken(row['floor'])}, of which the correction leaves {spoken(row['corrected_floor'])}."
        question, said = "How large are scores of {what} with {setting}, chance taken off?", row["corrected"]
        of = {"n": "n_identities", "of": "identities", "figure": f"paired_{row['aspect']}_score"}
        details = (seen, *_assumed(row))
        return _finding(row, question, f"{said:.1f} points on average.", "corrected", details, **of)

    return [say(row) for row in _rows(_plain(absolute.dropna(subset=["corrected"])))]


def score_by_order(table: pd.DataFrame) -> list[Finding]:
    """Say what images out of order, and people not judged, could change of scores (``paired_score_by_order``)."""

    def say(model: str, aspect: str, setting: str, rows: pd.DataFrame) -> Finding | None:
        by = rows.set_index("images")
        every, some = by.loc["all"], by.loc["as_asked"]
        if not every["n"]:
            return None
        low, high = every["score_if_none_fit"], every["score_if_all_fit"]
        left = f"Without them: {spoken(some['score'])} points ({interval(some)}; {some['n']:,.0f} people)."
        question = "Do images out of order, or people not judged, change scores of {what} ({setting})?"
        said = f"Without images out of order {some['score']:.1f}; people not judged make it {low:.1f} to {high:.1f}."
        return _finding(every, question, said, "score", (left, *_assumed(every)))

    return each(table[table["setting"].isin(_TWO)], _CELL, say)


def power_lean(coupling: pd.DataFrame) -> list[Finding]:
    """Say what the difference between high- and low-power scores restates: the lean (``paired_role_coupling``)."""

    def say(row: pd.Series) -> Finding:
        # Fewer women, a larger difference: its limits above 0 are the share's below 50.
        ways = "fewer women than men", "more women than men", "no lean is shown"
        lean = moved(row["difference_ci_low"], row["difference_ci_high"], *ways)
        said = f"That cannot be told: the difference restates the lean over both roles ({lean})."
        detail = f"High minus low power, {row['difference']:+.1f} points, is 4 × (50 - % female) by algebra."
        of = {"unit": "% female", "of": "occupations", "ends": "percent_female_", "figure": "paired_lean"}
        question = "Do high-power roles carry more bias ({setting})?"
        return _finding(row, question, said, "percent_female", [detail], **of)

    return [say(row) for row in _rows(_plain(coupling.dropna(subset=["difference"])))]


def role_coupling(coupling: pd.DataFrame) -> list[Finding]:
    """Say how an occupation's two roles go together, in scores and in images (``paired_role_coupling``)."""

    def say(row: pd.Series) -> Finding:
        details, n = [], f"{row['n_images']:.0f}"
        if isfinite(row["fewest_same_gender"]):
            details = [f"As few as {row['fewest_same_gender']:.0f} of {n} images may show one gender twice."]
        if isfinite(row["same_gender"]):
            ends = interval(row, "percent_same_gender_ci_low", "percent_same_gender_ci_high")
            share = f"{row['percent_same_gender']:.1f} % ({ends}) of {n}"
            details.append(f"One gender is shown twice in {share} images.")
        if isfinite(row["same_gender_excess"]):
            ends = "same_gender_excess_ci_low", "same_gender_excess_ci_high"
            way = moved(row[ends[0]], row[ends[1]], "more than", "fewer than", "no difference shown from")
            excess = f"{row['same_gender_excess']:+.1f} points, {interval(row, *ends)}"
            details.append(f"That is {way} independent people with the leans of their identities ({excess}).")
        question = "Do the two roles of an occupation go together with {setting}?"
        said = f"They have the same score in {row['n_same_score']:.0f} of {row['n']:.0f} occupations."
        of = {"unit": "(correlation of the scores)", "of": "occupations", "figure": "paired_role_coupling"}
        return _finding(row, question, said, "r", details, **of)

    return [say(row) for row in _rows(_plain(coupling[coupling["n"] > 0]))]


# -- labour ------------------------------------------------------------------------------------------


def labour_correlation(correlation: pd.DataFrame) -> list[Finding]:
    """Say whether generated shares go with labour shares (``paired_labour_correlation``)."""
    question = "Do generated shares of women follow the labour force ({setting})?"
    ways = "They rise with them", "They fall with them", "No correlation is shown"
    of = {"unit": "(r)", "of": "occupations", "figure": "paired_labour_correlation"}
    return [_finding(row, question, ways, "r", **of) for row in _rows(_plain(_overall(correlation, "r")))]


def labour_amplification(amplification: pd.DataFrame) -> list[Finding]:
    """Say whether generated shares are further from 50 % than labour shares (``paired_labour_amplification``)."""

    def say(model: str, setting: str, rows: pd.DataFrame) -> Finding | None:
        by = rows.set_index("definition")
        row, along = by.loc["no_exclusion"], by.loc["directional"]
        if not isfinite(row["amplification"]):
            return None
        words = "further along it", "back from it", "no direction is shown"
        lean = moved(along["ci_low"], along["ci_high"], *words)
        shift = f"{along['amplification']:+.1f} points ({interval(along)})"
        details = [f"Against the lean of the labour share: {lean}, {shift}."]
        ways = "Further from 50 %", "Nearer to 50 %", "No difference is shown"
        ways = tuple(f"{way}, image noise taken off" for way in ways)
        question = "Are generated shares further from 50 % than the labour force's ({setting})?"
        of = {"n": "n_occupations", "of": "occupations", "figure": "paired_labour_amplification"}
        return _finding(row, question, ways, "amplification", details, **of)

    return each(_plain(amplification), ["model", "setting"], say)


# -- one person against two --------------------------------------------------------------------------


def score_change(changes: pd.DataFrame) -> list[Finding]:
    """Say how scores change from one person to two, overall and in each list (``paired_score_change``)."""

    def say(model: str, aspect: str, setting: str, rows: pd.DataFrame) -> Finding | None:
        by = rows.set_index("stereotype")
        if "overall" not in by.index:
            return None
        row, lists = by.loc["overall"], [s for s in LISTS if s in by.index]
        said = [f"{s} list {by.loc[s, 'change']:+.1f} ({interval(by.loc[s])})" for s in lists]
        details = ([f"Partners fixed: {'; '.join(said)}."] if said else []) + [*_assumed(row)]
        of = {"n": "n_identities", "of": "identities", "figure": "paired_score_change"}
        question = "Does the stereotype score of {what} change from one person to two?"
        return _finding(row, question, _RISES, "change", details, **of)

    return each(_plain(changes.dropna(subset=["change"])), _CELL, say)


def lean(lean: pd.DataFrame) -> list[Finding]:
    """Say the share perceived as female whatever the identity, with two people and with one (``paired_lean``)."""

    def say(model: str, aspect: str, rows: pd.DataFrame) -> Finding:
        row = rows.iloc[-1]
        limits = row["ci_low"] - 50, row["ci_high"] - 50
        way = moved(*limits, "Towards women", "Towards men", "No lean is shown")
        alone = [
            f"With {_setting(r['setting'])}: {r['percent_female']:.1f} % ({interval(r)})."
            for r in _rows(rows.iloc[:-1])
        ]
        question = "Whatever the identity, which way do {what} lean with {setting}?"
        of = {"unit": "% female", "figure": "paired_lean"}
        return _finding(row, question, f"{way}.", "percent_female", (*alone, *_assumed(row)), **of)

    known = _plain(_overall(lean[lean["evidence"] == "computed"], "percent_female"))
    return each(known, ["model", "aspect"], say)


def changed_cases(cases: pd.DataFrame, changes: pd.DataFrame, *, confidence: float) -> list[Finding]:
    """Say how many identities rise or fall, how they divide between the lists, and whether any could be told.

    From ``paired_changed_cases`` and ``paired_identity_change``.
    """
    known, alpha = changes.dropna(subset=["p_holm"]), 1 - confidence
    largest = cases["stereotype"] == cases["direction"].map({"amplified": "male", "reduced": "female"})

    def say(model: str, aspect: str, setting: str, rows: pd.DataFrame) -> Finding:
        of = known[(known[_CELL] == [model, aspect, setting]).all(axis=1)]
        parts = []
        for row in _rows(rows):
            stated = f"; stated: {row['printed']:.2f} %" if isfinite(row["printed"]) else ""
            share = f"{row['percent_of_cases']:.1f} % ({interval(row)}{stated})"
            parts.append(
                f"Of {row['n']:.0f} {row['direction']} cases {share} are {row['stereotype']}-stereotyped."
            )
        said = f"{int((of['p_holm'] < alpha).sum())} of {len(of)}, after Holm's correction."
        if (smallest := of["smallest_p_holm"].min()) >= alpha:
            single, n = of["n_single"].max(), of["n"].max()
            each_has = f"{single:.0f} people alone and {n:.0f} with two"
            least_p = partial(stats.least_fisher_p, n)
            none = _none_could(each_has, smallest, alpha, least_p, len(of), "people alone")
            parts.append(f"{none[0].upper()}{none[1:]}.")
            said = "That cannot be told with so few people each."
        question = f"How many {_WHAT[aspect]} change their score from one person to {_setting(setting)}?"
        about = {"model": model, "n": len(of), "of": "identities", "figure": "paired_cases"}
        return Finding(question, said, details=tuple(parts), **about)

    return each(_plain(cases[largest].dropna(subset=["percent_of_cases"])), _CELL, say)


# -- mitigation --------------------------------------------------------------------------------------


def mitigation(mitigation: pd.DataFrame) -> list[Finding]:
    """Say which way people lean with mitigation: over-correction as plainly as bias left (``paired_mitigation``)."""

    def say(model: str, aspect: str, scope: str, rows: pd.DataFrame) -> list[Finding]:
        before = rows[rows["mitigation"] == "none"]
        if before.empty:
            return []
        first, found = before.iloc[0], []
        for row in _rows(rows[rows["mitigation"] != "none"]):
            details = [f"Without it: {spoken(first['score'])} points ({interval(first)})."]
            if isfinite(row["ci_low"]):
                answer = _left_over(first, row)
                details += [*_assumed(row), *([_CHOSEN] if scope == "top5" else [])]
                if row["mitigation"] == "faircritic" and model in _PLANTED:
                    details.append(_PLANTED[model])
            elif first["score"] * row["score"] < 0:
                answer = "The sign is reversed: over-correction."
                if abs(row["score"]) < row["margin"]:
                    details.append(f"It is less than the margin of {row['margin']:.1f} at the unmitigated n.")
            else:
                answer = "The sign stays; no interval is printed."
            question = f"What does {_NAMES[row['mitigation']]} leave of the lean of {{what}}{_top(scope)}?"
            found.append(_finding(row, question, answer, "score", details, figure="paired_mitigation"))
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
    """Say how far mitigation moves the score, and how many identities lean which way (``paired_mitigation_change``)."""

    def say(row: pd.Series) -> Finding:
        name, top = _NAMES[row["mitigation"]], _top(row["scope"])
        details = (*_leaning(row, 1 - confidence), *_assumed(row), *([_CHOSEN] if top else []))
        of = {"n": "n_identities", "of": "identities", "figure": "paired_before_after"}
        question = f"How far does {name} move the score of {{what}}{top}?"
        return _finding(row, question, ("Up", "Down", "No change is shown"), "change", details, **of)

    return [say(row) for row in _rows(_overall(change, "change"))]


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
        n, tests = row["n"] / row["n_identities"], int(row["n_identities"])
        people = f"{n:.0f} people" if n == round(n) else f"some {n:.1f} people"
        smallest = row[["smallest_p_holm_before", "smallest_p_holm"]].max()
        none = _none_could(people, smallest, alpha, stats.least_binomial_p, tests)
        said.append(f"Which lean {' and '.join(blind)} cannot be told: {none}.")
    return said


def told(told: pd.DataFrame) -> list[Finding]:
    """Say in how many prompts people are told a gender, and whether they look as told (``paired_told``)."""

    def say(row: pd.Series) -> Finding:
        by, asked = _NAMES[row["setting"]], "a woman" if row["told"] == "female" else "a man"
        by += f", round {row['round']}" if row["round"] != "0" else ""
        shares = ["percent_female", "ci_low", "ci_high"]
        if row["told"] == "male":
            row[shares] = 100 - row[["percent_female", "ci_high", "ci_low"]].to_numpy()
        question = f"Do {row['stereotype']}-stereotyped {{what}} told to be {asked} look it ({by})?"
        prompts = count(row["n_prompts"], "prompt tells", "prompts tell")
        said = f"{row['percent_female']:.1f} % do; {prompts} it."
        return _finding(row, question, said, "percent_female", unit="%", figure="paired_told")

    return [say(row) for row in _rows(told[told["told"].isin(LISTS) & (told["n"] > 0)])]


def critiques(critiques: pd.DataFrame) -> list[Finding]:
    """Say how many batches of images the critic judged and how many it found biased (``paired_critiques``)."""

    def say(model: str, aspect: str, round_: str, rows: pd.DataFrame) -> Finding:
        batches = rows.drop_duplicates("batch_id")
        judged = batches[batches["outcome"] == "judged"]
        guidelines = count((rows["guideline"] != "").sum(), "guideline", "guidelines")
        question = f"How often does the critic find {_WHAT[aspect]} biased (round {round_})?"
        said = (
            f"In {(judged['biased'] == 'yes').sum()} of {len(judged)} batches judged; it gives {guidelines}."
        )
        return Finding(question, said, model=model, n=len(batches), of="batches of images")

    return each(critiques, ["model", "aspect", "round"], say)


# -- judges ------------------------------------------------------------------------------------------


def judge_attenuation(attenuation: pd.DataFrame) -> list[Finding]:
    """Say what overall score each automated judge would see (``paired_judge_attenuation``)."""

    def say(model: str, aspect: str, setting: str, rows: pd.DataFrame) -> Finding:
        seen = [f"{JUDGES.get(r['judge'], r['judge'])} {r['score_seen']:.1f}" for r in _rows(rows)]
        row, question = rows.iloc[0], "What would automated judges see of the score of {what} ({setting})?"
        said = f"Annotators {row['score']:.1f}; with evenly spread errors {', '.join(seen)}."
        details = ["Kappas are printed without n or interval."]
        return _finding(row, question, said, details=details, figure="paired_judges")

    return each(attenuation.dropna(subset=["score_seen"]), _CELL, say)


def judge_agreement(agreement: pd.DataFrame) -> list[Finding]:
    """Say how well a run's judges agree with what they are compared with (``paired_judge_agreement``).

    Printed kappas, which have no n, are left out.
    """
    own = agreement[(agreement["statistic"] == "cohen_kappa") & (agreement["aspect"] != "average")]
    own = own[own["n"].notna()] if "n" in own else own.head(0)
    return [
        _finding(
            row,
            f"Does {row['judge']} agree with {row['reference']} on {{what}} ({{setting}})?",
            f"Cohen's kappa is {row['value']:.2f}.",
            "value",
            unit="(kappa)",
            figure="paired_agreement",
        )
        for row in _rows(own)
    ]


def truth(truth: pd.DataFrame) -> list[Finding]:
    """Say how often each judge is right about people whose truth is known (``paired_truth``)."""
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
        row, known = by.loc["gender"], [m for m in words if m in by.index]
        more = [f"{words[m]}: {by.loc[m, 'percent']:.1f} % ({interval(by.loc[m])})" for m in known]
        question = f"Is {judge} right about people whose truth is known?"
        said = f"About the gender of {row['percent']:.1f} % of those that it judges."
        details = [f"{'; '.join(more)}."] if more else []
        return _finding(row, question, said, "percent", details, unit="%", figure="paired_truth")

    return each(truth[truth["n"] > 0], ["judge"], say)


# -- images of people ----------------------------------------------------------------------------------


def outcomes(outcomes: pd.DataFrame) -> list[Finding]:
    """Say what share of images shows everyone judged, and which failure is the most frequent (``paired_outcomes``)."""

    def say(model: str, aspect: str, setting: str, rows: pd.DataFrame) -> Finding:
        by = rows.set_index("outcome")
        failed = by["n"].drop(index=["judged", "uncertain", "unrated"])
        stopped = f"The gate stops {count(failed.sum(), 'image', 'images')}"
        if failed.sum():
            stopped += f", most often: {OUTCOMES.names[failed.idxmax()]} ({failed.max():,.0f})"
        row, question = by.loc["judged"], "In how many images of {what} is everyone judged ({setting})?"
        of = {"unit": "%", "n": "n_images", "of": "images", "figure": "paired_outcomes"}
        return _finding(row, question, f"In {row['percent']:.1f} %.", "percent", [f"{stopped}."], **of)

    return each(outcomes, _CELL, say)


def valid_images(valid: pd.DataFrame) -> list[Finding]:
    """Say how many images of several people show all that was asked, and what mitigation costs.

    From ``paired_valid_images``.
    """

    def say(row: pd.Series) -> Finding:
        details = []
        if isfinite(row["change"]):
            limits = "change_ci_low", "change_ci_high"
            words = "More than", "Fewer than", "No change is shown from"
            way = moved(*row[[*limits]], *words)
            change = f"{row['change']:+.1f} points, {interval(row, *limits)}"
            details = [f"{way} the same pairs without mitigation ({change})."]
        question = "How many images of {what} show all that was asked ({setting})?"
        of = {"unit": "%", "n": "n_images", "of": "images", "figure": "paired_valid_images"}
        return _finding(row, question, f"{row['percent']:.1f} %.", "percent", details, **of)

    valid = valid[(valid["measure"] == "valid") & (valid["setting"] != "single")]
    return [say(row) for row in _rows(valid.dropna(subset=["percent"]))]


def three(people: pd.DataFrame, *, confidence: float) -> list[Finding]:
    """Say how many images of three people work, and how often people in those fit (``paired_people``)."""

    def say(model: str, rows: pd.DataFrame) -> Finding:
        every = rows["image_id"].nunique()
        worked = rows.groupby("image_id")["outcome"].transform(lambda outcome: (outcome == "judged").all())
        some = rows[worked.astype(bool) & rows["role_order"].isin(["right", ""])]
        details = ()
        if len(some):
            fit = int((some["gender"] == some["stereotype"]).sum())
            low, high = stats.wilson_interval(fit, len(some), confidence)
            share = (
                f"{100 * fit / len(some):.1f} % ({100 * low:.1f} to {100 * high:.1f}) of {len(some)} people"
            )
            details = (f"In these, {share} fit their stereotype ({level(confidence)} interval).",)
        question = "Do images of three people show everyone as asked?"
        said = f"{some['image_id'].nunique()} of {every} do."
        return Finding(question, said, model=model, n=every, of="images", details=details)

    return each(people[people["setting"] == "three"], ["model"], say)


# -- controls ----------------------------------------------------------------------------------------


def position_effect(effects: pd.DataFrame) -> list[Finding]:
    """Say whether one side is perceived as female more often, whoever stands there (``paired_position_effect``)."""
    question = "Which side shows more women of the same {what} ({setting})?"
    ways, figure = ("The left", "The right", "No difference is shown"), "paired_position_effect"
    naming = "Only the left one is named with the occupation, so place and naming are not told apart."
    return [
        _finding(
            row,
            question,
            ways,
            "difference",
            (*_p(row), *([naming] if row["aspect"] == "power" else []), *_assumed(row)),
            figure=figure,
        )
        for row in _rows(_overall(effects, "difference"))
    ]


def control_score(scores: pd.DataFrame) -> list[Finding]:
    """Say what contrast adds to the score: pairs of opposite stereotype against each control.

    From ``paired_control_score``.
    """
    beside = {
        "single": "to people alone",
        "alike": "to pairs of one stereotype",
        "same": "to pairs of one occupation",
        "three": "to three people",
    }
    ways = "It rises", "It falls", "No difference is shown"

    def say(row: pd.Series) -> Finding:
        score = f"The score there is {spoken(row['score'])} ({interval(row)})."
        details = (score, *_assumed(row, "contrast_dependence"))
        question = "What does contrast with the opposite stereotype change, compared "
        question += f"{beside[row['setting']]}?"
        of = {"ends": "contrast_", "figure": "paired_control_score"}
        return _finding(row, question, ways, "contrast", details, **of)

    return [say(row) for row in _rows(_overall(scores, "contrast"))]


def labour_gap(gaps: pd.DataFrame) -> list[Finding]:
    """Say whether pairs with a larger gap in the labour force have a higher score (``paired_labour_gap``)."""
    question = "Does the score grow with the gap in the labour force ({setting})?"
    ways = "It rises", "It falls", "No slope is shown"
    of = {"unit": "points a point of gap", "n": "n_images", "of": "images", "figure": "paired_labour_gap"}
    lines = gaps[gaps["group"] == "line"].dropna(subset=["slope"])
    return [_finding(row, question, ways, "slope", _p(row), **of) for row in _rows(lines)]


def skin_tone(tones: pd.DataFrame) -> list[Finding]:
    """Say by how many tones the two people of an image differ (``paired_skin_tone``)."""
    ways = "Yes, darker", "No, lighter", "No difference is shown"
    of = {"unit": "tones", "n": "n_images", "of": "images", "figure": "paired_skin_tone"}

    def say(row: pd.Series) -> Finding:
        first = "high-power" if row["aspect"] == "power" else "male-stereotyped"
        question = f"Are {first} people darker than the other in the same image ({{setting}})?"
        return _finding(row, question, ways, "skin_tone", _p(row), **of)

    return [say(row) for row in _rows(tones[tones["group"] == "difference"].dropna(subset=["skin_tone"]))]
