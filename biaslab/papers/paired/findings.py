"""What the tables of the Paired Stereotype Test answer, a finding for each model and aspect that they are known of.

Functions take rows of the tables that they name, and ``confidence`` (0–1): the level of intervals, 1 minus it that of
tests. A direction is named only where the test of its interval finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial, wraps
from math import isfinite, nan

import pandas as pd

from biaslab import stats
from biaslab.ground.wording import count, interval, level, moved, none_could, p_words, spoken
from biaslab.models import registry
from biaslab.papers.findings import Finding, Mark
from biaslab.papers.paired.analysis.dependence import ASSUMED_NONE, LISTS, WORST
from biaslab.papers.paired.analysis.means import CELL
from biaslab.papers.paired.analysis.mitigated import NO_DIFFERENCE
from biaslab.papers.paired.analysis.people import TWO
from biaslab.papers.paired.figures import JUDGES, OUTCOMES, SETTINGS

# What verdicts count: both roles of an occupation are one.
_OCCUPATIONS = {"n": "n_occupations", "of": "occupations"}
_WHAT = {"occupation": "occupations", "power": "roles of power"}
_NAMES = {"faircritic": "FairCritic", "intervention": "the intervention"}
_ASSUMED = {
    WORST: "The interval takes the two people of an image to depend on each other as far as they can.",
    ASSUMED_NONE: "The interval takes the two people of an image as independent.",
}
_NONE_OF = "For none of {n_identities:.0f}, after Holm's correction."
_TOP = {"all": "", "top5": " (top 5 of each list)"}


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
    confidence: float = nan,
    **more,
) -> Finding:
    """Return a finding about a row, with its ``value`` and the limits whose columns begin with ``ends``.

    Question and answer are filled in with the row's values, whose aspect in words is ``{what}``. An answer of three
    words is a verdict at the level 1 - ``confidence``: for a value above 0 (or ``reference``), below it, and where the
    test, whose column is ``p`` after ``ends``, shows neither. Another is one where ``undecided`` and ``p`` are given.
    """
    low, high = (row.get(f"{ends}{end}", nan) for end in ("ci_low", "ci_high"))
    aspect = row.get("aspect", "")
    words = dict(row) | {"what": _WHAT.get(aspect, aspect), "setting": _setting(row.get("setting", ""))}
    if not isinstance(answer, str):
        more = {"p": row[f"{ends}p"], "undecided": f"{answer[2]}."} | more
        side = row[value] - more.get("reference", 0.0) if isfinite(more["p"]) else nan
        answer = f"{moved(side, side, *answer)}."
    if "undecided" in more:
        more |= {"undecided": more["undecided"].format_map(words), "alpha": stats.significance(confidence)}
    question, answer = (text.format_map(words) for text in (question, answer))
    numbers = {"estimate": row[value], "ci_low": low, "ci_high": high, "unit": unit} if value else {}
    counted = {"n": row[n], "of": of} if n else {}
    model, details = row.get("model", ""), tuple(details)
    return Finding(question, answer, model, figure=figure, details=details, **numbers, **counted, **more)


def _listed(say: Callable[..., Iterator[Finding]]) -> Callable[..., list[Finding]]:
    """Let a function that yields findings return a list of them."""
    return wraps(say)(lambda *given, **options: list(say(*given, **options)))


def _rows(table: pd.DataFrame) -> Iterator[pd.Series]:
    return (row for _, row in table.iterrows())


def _groups(table: pd.DataFrame, by: list[str]) -> Iterator[pd.DataFrame]:
    return (rows for _, rows in table.groupby(by, sort=False))


def _assumed(row, column: str = "dependence") -> tuple[str, ...]:
    """Return what an interval takes of people who share an image, where it is not estimated."""
    return (_ASSUMED[row[column]],) if row[column] in _ASSUMED else ()


def _planted(row, what: str = "shares") -> tuple[str, ...]:
    """Return what was put into the model that a row is of."""
    return tuple(filter(None, [registry.said(row["model"], f"paired_{what}")]))


def _plain(table: pd.DataFrame) -> pd.DataFrame:
    """Return rows without mitigation: one person alone, and all pairs."""
    return table[table["setting"].isin(["single", "paired"])]


def _overall(table: pd.DataFrame, value: str) -> pd.DataFrame:
    return table[table["stereotype"] == "overall"].dropna(subset=[value])


def _setting(setting: str) -> str:
    return SETTINGS.names.get(setting, setting.replace("_", " "))


def _p(row) -> tuple[str, ...]:
    return (f"{p_words(row['p'])}.",) if isfinite(row["p"]) else ()


def _none_could(each_has: str, smallest: float, alpha: float, least_p, tests: int, of: str = "people") -> str:
    """Say that no outcome could have been significant, and how many people a test it takes."""
    takes = stats.needed(least_p, tests, alpha)
    return none_could(each_has, smallest, alpha, takes=takes, of=of)


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


# -- scores ------------------------------------------------------------------------------------------


@_listed
def stereotype_score(scores: pd.DataFrame, *, confidence: float) -> Iterator[Finding]:
    """Say which way overall scores lean with two people, and beside them with one (``paired_stereotype_score``)."""
    ways = "Towards their stereotypes", "Against their stereotypes", "No lean is shown"
    question, figure = "Which way do {what} lean with {setting}?", "paired_stereotype_score"
    scores = _plain(_overall(scores[scores["evidence"] == "computed"], "score"))
    for rows in _groups(scores, ["model", "aspect"]):
        row = rows.iloc[-1]
        alone = [
            f"With {_setting(r['setting'])}: {spoken(r['score'])} points ({interval(r)}; {r['n']:,.0f} people)."
            for r in _rows(rows.iloc[:-1])
        ]
        drawn = rows[["setting", "score", "ci_low", "ci_high"]].itertuples(index=False)
        marks = tuple(Mark(_setting(setting), *numbers) for setting, *numbers in drawn)
        drawn = {"marks": marks, "reference_name": "no lean", "figure": figure, "confidence": confidence}
        details = (*alone, *_assumed(row), *_planted(row))
        yield _finding(row, question, ways, "score", details, **_OCCUPATIONS, **drawn)


@_listed
def biased_images(images: pd.DataFrame) -> Iterator[Finding]:
    """Say what share of pairs' images fits stereotypes, or its limits (``paired_biased_images``)."""
    question = "In how many images of two {what} does at least one person fit the stereotype?"
    known = images[(images["setting"] == "paired") & (images["n"] > 0)]
    for rows in _groups(known, ["model", "aspect"]):
        by = rows.set_index("measure")
        one, both = by.loc["any"], by.loc["both"]
        fair = "A fair model that draws them independently shows 75 % and 25 %."
        if one["evidence"] == "counted":
            said = f"In {one['percent']:.1f} %; both fit in {both['percent']:.1f} %."
            numbers = {"value": "percent", "unit": "%", "of": "images"}
        else:
            ends = [row[end] for row in (one, both) for end in ("percent_least", "percent_most")]
            said = "Between {:.1f} and {:.1f} %; both fit in {:.1f} to {:.1f} %.".format(*ends)
            numbers = {"n": ""}
            fair = f"Only limits follow from shares per identity (n = {one['n']:,.0f} images). {fair}"
        yield _finding(one, question, said, details=[fair], figure="paired_biased_images", **numbers)


@_listed
def occupation_score(absolute: pd.DataFrame, scores: pd.DataFrame, *, confidence: float) -> Iterator[Finding]:
    """Say for how many occupations the score differs from 0, or that at their n none could.

    From ``paired_absolute_score`` and ``paired_occupation_score``.
    """
    question = "For how many occupations does the score with {setting} differ from 0?"
    of = _OCCUPATIONS | {"figure": "paired_occupation_score", "confidence": confidence}
    people, alpha = scores.dropna(subset=["score"]).groupby(["model", "setting"])["n"], 1 - confidence
    known = absolute[(absolute["aspect"] == "occupation") & (absolute["n_identities"] > 0)]
    for row in _rows(_plain(known)):
        n = people.get_group((row["model"], row["setting"]))
        least, most = n.min(), n.max()
        each_has = count(least, "person", "people") if least == most else f"{least:.0f} to {most:.0f} people"
        said = "For {n_significant_holm:.0f} of {n_identities:.0f}, after Holm's correction."
        same = (scores["model"] == row["model"]) & (scores["setting"] == row["setting"])
        test = {"p": scores.loc[same, "p_holm"].min(), "undecided": _NONE_OF}
        more = f"After Benjamini and Hochberg's {row['n_significant_bh']:.0f}; {each_has} each."
        if (smallest := row["smallest_p_holm"]) >= alpha:
            said, tests = f"That cannot be told with {each_has} each.", int(row["n_identities"])
            more, test = _sentence(_none_could(each_has, smallest, alpha, stats.least_binomial_p, tests)), {}
        yield _finding(row, question, said, details=(more, *_planted(row)), **of, **test)


@_listed
def absolute_score(absolute: pd.DataFrame, *, confidence: float) -> Iterator[Finding]:
    """Say the mean size of scores without the part that chance adds, or that it is not told from a fair model's.

    From ``paired_absolute_score``.
    """
    question = "How large are scores of {what} with {setting}, chance taken off?"
    untold, of = "That cannot be told from a fair model's.", _OCCUPATIONS | {"confidence": confidence}
    for row in _rows(_plain(absolute[absolute["n_identities"] > 0])):
        figure = f"paired_{row['aspect']}_score"
        if not isfinite(row["corrected"]):
            yield _finding(row, question, "That cannot be told: {reason}.", figure=figure, n="")
            continue
        seen, floor, left = (spoken(row[c]) for c in ("mean_absolute_score", "floor", "corrected_floor"))
        seen = (
            f"Observed {seen} points; a fair model would show {floor}, of which the correction leaves {left}."
        )
        rival = stats.rivals(*row[["mean_absolute_score", "corrected", "ci_low", "ci_high"]])
        rests = not isfinite(row["p"]) or rival.larger
        said = untold if rests else "{corrected:.1f} points on average."
        verdict = {"undecided": untold, "p": row["p"], "figure": figure}
        details = (seen, *_assumed(row), *_planted(row))
        yield _finding(row, question, said, "corrected", details, **of, **verdict)


@_listed
def score_by_order(table: pd.DataFrame) -> Iterator[Finding]:
    """Say what images out of order, and people not judged, could change of scores (``paired_score_by_order``)."""
    question = "Do images out of order, or people not judged, change scores of {what} ({setting})?"
    for rows in _groups(table[table["setting"].isin(TWO)], CELL):
        by = rows.set_index("images")
        every, some = by.loc["all"], by.loc["as_asked"]
        if every["n"]:
            left = (
                f"Without them: {spoken(some['score'])} points ({interval(some)}; {some['n']:,.0f} people)."
            )
            said = f"Without images out of order {some['score']:.1f}; people not judged make it "
            said += "{score_if_none_fit:.1f} to {score_if_all_fit:.1f}."
            yield _finding(every, question, said, "score", (left, *_assumed(every)))


@_listed
def power_lean(coupling: pd.DataFrame, *, confidence: float) -> Iterator[Finding]:
    """Say what the difference between high- and low-power scores restates: the lean (``paired_role_coupling``)."""
    question = "Do high-power roles carry more bias ({setting})?"
    of = {"unit": "% female", "of": "occupations", "ends": "percent_female_", "figure": "paired_lean"}
    # Fewer women, a larger difference: its limits above 0 are the share's below 50.
    ways = "fewer women than men", "more women than men", "no lean is shown"
    for row in _rows(_plain(coupling.dropna(subset=["difference"]))):
        tested = isfinite(row["difference_p"])
        leans = [moved(*[row["difference"]] * 2, *ways) if tested else ways[2], ways[2]]
        said, untold = (
            f"That cannot be told: the difference restates the lean over both roles ({lean})."
            for lean in leans
        )
        detail = f"High minus low power, {row['difference']:+.1f} points, is 4 × (50 - % female) by algebra."
        verdict = {"undecided": untold, "p": row["difference_p"], "confidence": confidence}
        yield _finding(row, question, said, "percent_female", [detail], **of, **verdict)


@_listed
def role_coupling(coupling: pd.DataFrame) -> Iterator[Finding]:
    """Say how an occupation's two roles go together, in scores and in images (``paired_role_coupling``)."""
    question = "Do the two roles of an occupation go together with {setting}?"
    said = "They have the same score in {n_same_score:.0f} of {n:.0f} occupations."
    of = {"unit": "(correlation of the scores)", "of": "occupations", "figure": "paired_role_coupling"}
    for row in _rows(_plain(coupling[coupling["n"] > 0])):
        details, n = [], f"{row['n_images']:.0f}"
        if isfinite(row["fewest_same_gender"]):
            details = [f"As few as {row['fewest_same_gender']:.0f} of {n} images may show one gender twice."]
        if isfinite(row["same_gender"]):
            ends = interval(row, "percent_same_gender_ci_low", "percent_same_gender_ci_high")
            share = f"{row['percent_same_gender']:.1f} % ({ends}) of {n}"
            details.append(f"One gender is shown twice in {share} images.")
        if isfinite(row["same_gender_excess"]):
            ends = ["same_gender_excess_ci_low", "same_gender_excess_ci_high"]
            way = moved(*row[ends], "more than", "fewer than", "no difference shown from")
            excess = f"{row['same_gender_excess']:+.1f} points, {interval(row, *ends)}"
            details.append(f"That is {way} independent people with the leans of their identities ({excess}).")
        yield _finding(row, question, said, "r", details, **of)


# -- labour ------------------------------------------------------------------------------------------


@_listed
def labour_correlation(correlation: pd.DataFrame, *, confidence: float) -> Iterator[Finding]:
    """Say whether generated shares go with labour shares (``paired_labour_correlation``)."""
    question = "Do generated shares of women follow the labour force ({setting})?"
    ways = "They rise with them", "They fall with them", "No correlation is shown"
    of = {"unit": "(r)", "of": "occupations", "figure": "paired_labour_correlation", "confidence": confidence}
    for row in _rows(_plain(_overall(correlation, "r"))):
        yield _finding(row, question, ways, "r", _planted(row), **of)


@_listed
def labour_amplification(amplification: pd.DataFrame, *, confidence: float) -> Iterator[Finding]:
    """Say whether generated shares are further from 50 % than labour shares (``paired_labour_amplification``)."""
    question = "Are generated shares further from 50 % than the labour force's ({setting})?"
    ways = "Further from 50 %", "Nearer to 50 %", "No difference is shown"
    ways = tuple(f"{way}, image noise taken off" for way in ways)
    of = _OCCUPATIONS | {"figure": "paired_labour_amplification", "confidence": confidence}
    for rows in _groups(_plain(amplification), ["model", "setting"]):
        by = rows.set_index("definition")
        row, along = by.loc["no_exclusion"], by.loc["directional"]
        if isfinite(row["amplification"]):
            words = "further along it", "back from it", "no direction is shown"
            lean = moved(along["ci_low"], along["ci_high"], *words)
            shift = f"{along['amplification']:+.1f} points ({interval(along)})"
            details = [f"Against the lean of the labour share: {lean}, {shift}."]
            raw, left = row["amplification_plain"], row["amplification"]
            rival = stats.rivals(raw, left, row["ci_low"], row["ci_high"])
            if rival.beside:
                details.append(f"{spoken(raw)} points as observed, {spoken(left)} without image noise.")
            ways_left = (ways[2],) * 3 if rival.larger else ways
            yield _finding(row, question, ways_left, "amplification", (*details, *_planted(row)), **of)


# -- one person against two --------------------------------------------------------------------------


@_listed
def score_change(changes: pd.DataFrame, *, confidence: float) -> Iterator[Finding]:
    """Say how scores change from one person to two, overall and in each list (``paired_score_change``)."""
    question = "Does the stereotype score of {what} change from one person to two?"
    ways = "It rises", "It falls", "No change is shown"
    of = _OCCUPATIONS | {"figure": "paired_score_change", "confidence": confidence}
    for rows in _groups(_plain(changes.dropna(subset=["change"])), CELL):
        by = rows.set_index("stereotype")
        lists = [s for s in LISTS if s in by.index]
        said = [f"{s} list {by.loc[s, 'change']:+.1f} ({interval(by.loc[s])})" for s in lists]
        if "overall" in by.index:
            row, details = by.loc["overall"], [f"Partners fixed: {'; '.join(said)}."] if said else []
            yield _finding(row, question, ways, "change", (*details, *_assumed(row), *_planted(row)), **of)


@_listed
def lean(lean: pd.DataFrame, *, confidence: float) -> Iterator[Finding]:
    """Say the share perceived as female whatever the identity, with two people and with one (``paired_lean``)."""
    question = "Whatever the identity, which way do {what} lean with {setting}?"
    ways = "Towards women", "Towards men", "No lean is shown"
    of = _OCCUPATIONS | {
        "unit": "% female",
        "figure": "paired_lean",
        "reference": 50,
        "confidence": confidence,
    }
    known = _plain(_overall(lean[lean["evidence"] == "computed"], "percent_female"))
    for rows in _groups(known, ["model", "aspect"]):
        row = rows.iloc[-1]
        alone = [
            f"With {_setting(r['setting'])}: {r['percent_female']:.1f} % ({interval(r)})."
            for r in _rows(rows.iloc[:-1])
        ]
        details = (*alone, *_assumed(row), *_planted(row))
        yield _finding(row, question, ways, "percent_female", details, **of)


@_listed
def changed_cases(cases: pd.DataFrame, changes: pd.DataFrame, *, confidence: float) -> Iterator[Finding]:
    """Say how many identities rise or fall, how they divide between the lists, and whether any could be told.

    From ``paired_changed_cases`` and ``paired_identity_change``.
    """
    known, alpha = changes.dropna(subset=["p_holm"]), 1 - confidence
    largest = cases["stereotype"] == cases["direction"].map({"amplified": "male", "reduced": "female"})
    for rows in _groups(_plain(cases[largest].dropna(subset=["percent_of_cases"])), CELL):
        first = rows.iloc[0]
        of = known[(known[CELL] == first[CELL]).all(axis=1)]
        parts = []
        for row in _rows(rows):
            stated = f"; stated: {row['printed']:.2f} %" if isfinite(row["printed"]) else ""
            share = f"{row['percent_of_cases']:.1f} % ({interval(row)}{stated})"
            whose = f"{row['stereotype']}-stereotyped"
            parts.append(f"Of {row['n']:.0f} {row['direction']} cases {share} are {whose}.")
        said = f"{int((of['p_holm'] < alpha).sum())} of {len(of)}, after Holm's correction."
        test = {"p": of["p_holm"].min(), "undecided": f"None of {len(of)}, after Holm's correction."}
        if (smallest := of["smallest_p_holm"].min()) >= alpha:
            single, n = of["n_single"].max(), of["n"].max()
            each_has = f"{single:.0f} people alone and {n:.0f} with two"
            least_p = partial(stats.least_fisher_p, n)
            none = _none_could(each_has, smallest, alpha, least_p, len(of), "people alone")
            parts.append(_sentence(none))
            said, test = "That cannot be told with so few people each.", {}
        question = "How many {what} change their score from one person to {setting}?"
        about = {"of": "occupations", "figure": "paired_cases", "confidence": confidence} | test
        row = pd.Series({**first, "n": of["occupation"].nunique()})
        yield _finding(row, question, said, details=parts, **about)


# -- mitigation --------------------------------------------------------------------------------------


@_listed
def mitigation(mitigation: pd.DataFrame, *, confidence: float) -> Iterator[Finding]:
    """Say which way people lean with mitigation: over-correction as plainly as bias left (``paired_mitigation``)."""
    for rows in _groups(_overall(mitigation, "score"), ["model", "aspect", "scope"]):
        plain = rows["mitigation"] == "none"
        for row in _rows(rows[~plain] if plain.any() else rows.head(0)):
            first, by, scope = rows[plain].iloc[0], row["mitigation"], row["scope"]
            details = [f"Without it: {spoken(first['score'])} points ({interval(first)})."]
            verdict = {}
            if row["evidence"] == "computed":
                way, none = row["direction"], "No difference from 0 is shown."
                said = f"Over-correction, {way}."
                if way == NO_DIFFERENCE:
                    said = none
                elif (first["score"] > 0) == way.startswith("towards"):
                    said = f"Bias {way} is left."
                verdict = _OCCUPATIONS | {"undecided": none, "p": row["p"], "confidence": confidence}
                details += [*_assumed(row), *_chosen(scope), *_planted(row, by)]
            elif first["score"] * row["score"] < 0:
                said = "The sign is reversed; no interval is printed."
                if abs(row["score"]) < row["margin"]:
                    details.append(f"It is less than the margin of {row['margin']:.1f} at the unmitigated n.")
            else:
                said = "The sign stays; no interval is printed."
            question = f"What does {_NAMES[by]} leave of the lean of {{what}}{_TOP[scope]}?"
            yield _finding(row, question, said, "score", details, figure="paired_mitigation", **verdict)


@_listed
def mitigation_change(change: pd.DataFrame, *, confidence: float) -> Iterator[Finding]:
    """Say how far mitigation moves the score, and how many identities lean which way (``paired_mitigation_change``)."""
    of = _OCCUPATIONS | {"figure": "paired_before_after", "confidence": confidence}
    for row in _rows(_overall(change, "change")):
        name, scope = _NAMES[row["mitigation"]], row["scope"]
        question = f"How far does {name} move the score of {{what}}{_TOP[scope]}?"
        planted = _planted(row, row["mitigation"])
        details = (*_leaning(row, 1 - confidence), *_assumed(row), *_chosen(scope), *planted)
        yield _finding(row, question, ("Up", "Down", "No change is shown"), "change", details, **of)


def _chosen(scope: str) -> list[str]:
    chosen = "The ten were chosen for their scores in the same images: part of any fall is chance."
    return [chosen] if scope == "top5" else []


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


@_listed
def told(told: pd.DataFrame) -> Iterator[Finding]:
    """Say in how many prompts people are told a gender, and whether they look as told (``paired_told``)."""
    for row in _rows(told[told["told"].isin(LISTS) & (told["n"] > 0)]):
        by, asked = _NAMES[row["setting"]], "a woman" if row["told"] == "female" else "a man"
        by += f", round {row['round']:g}" if row["round"] else ""
        if row["told"] == "male":
            ends = ["percent_female", "ci_high", "ci_low"]
            row[["percent_female", "ci_low", "ci_high"]] = 100 - row[ends].to_numpy()
        question = f"Do {{stereotype}}-stereotyped {{what}} told to be {asked} look it ({by})?"
        said = f"{{percent_female:.1f}} % do; {count(row['n_prompts'], 'prompt tells', 'prompts tell')} it."
        yield _finding(row, question, said, "percent_female", unit="%", figure="paired_told")


@_listed
def critiques(critiques: pd.DataFrame) -> Iterator[Finding]:
    """Say how many batches of images the critic judged and how many it found biased (``paired_critiques``)."""
    for rows in _groups(critiques, ["model", "aspect", "round"]):
        batches = rows.drop_duplicates("batch_id")
        judged = batches[batches["outcome"] == "judged"]
        biased, given = (judged["biased"] == "yes").sum(), (rows["guideline"] != "").sum()
        question = "How often does the critic find {what} biased (round {round:g})?"
        said = f"In {biased} of {len(judged)} batches judged; it gives {count(given, 'guideline', 'guidelines')}."
        row = pd.Series({**rows.iloc[0], "n": len(batches)})
        yield _finding(row, question, said, of="batches of images")


# -- judges ------------------------------------------------------------------------------------------


@_listed
def judge_attenuation(attenuation: pd.DataFrame) -> Iterator[Finding]:
    """Say what overall score each automated judge would see (``paired_judge_attenuation``)."""
    question = "What would automated judges see of the score of {what} ({setting})?"
    said = "Annotators {score:.1f}; with evenly spread errors {seen}."
    details = ["Kappas are printed without n or interval."]
    for rows in _groups(attenuation.dropna(subset=["score_seen"]), CELL):
        seen = [f"{JUDGES.get(r['judge'], r['judge'])} {r['score_seen']:.1f}" for r in _rows(rows)]
        row = pd.Series({**rows.iloc[0], "seen": ", ".join(seen)})
        yield _finding(row, question, said, details=details, figure="paired_judges")


@_listed
def judge_agreement(agreement: pd.DataFrame) -> Iterator[Finding]:
    """Say how well a run's judges agree with what they are compared with (``paired_judge_agreement``).

    Printed kappas, which have no n, are left out.
    """
    question, said = (
        "Does {judge} agree with {reference} on {what} ({setting})?",
        "Cohen's kappa is {value:.2f}.",
    )
    own = agreement[(agreement["statistic"] == "cohen_kappa") & (agreement["aspect"] != "average")]
    for row in _rows(own[own["n"].notna()] if "n" in own else own.head(0)):
        yield _finding(row, question, said, "value", unit="(kappa)", figure="paired_agreement")


@_listed
def truth(truth: pd.DataFrame) -> Iterator[Finding]:
    """Say how often each judge is right about people whose truth is known (``paired_truth``)."""
    words = {
        "gate": "both people found",
        "judged": "judged of those found",
        "gender_unambiguous": "gender right, cues clear",
        "order": "order recognised",
        "skin_tone": "skin tone within one",
    }
    question = "Is {judge} right about people whose truth is known?"
    said = "About the gender of {percent:.1f} % of those that it judges."
    for rows in _groups(truth[truth["n"] > 0], ["judge"]):
        by = rows.set_index("measure")
        known = [m for m in words if m in by.index]
        more = [f"{words[m]}: {by.loc[m, 'percent']:.1f} % ({interval(by.loc[m])})" for m in known]
        details = [f"{'; '.join(more)}."] if more else []
        if "gender" in by.index:
            row = by.loc["gender"]
            yield _finding(row, question, said, "percent", details, unit="%", figure="paired_truth")


# -- images of people ----------------------------------------------------------------------------------


@_listed
def outcomes(outcomes: pd.DataFrame) -> Iterator[Finding]:
    """Say what share of images shows everyone judged, and which failure is the most frequent (``paired_outcomes``)."""
    question = "In how many images of {what} is everyone judged ({setting})?"
    of = {"unit": "%", "n": "n_images", "of": "images", "figure": "paired_outcomes"}
    for rows in _groups(outcomes, CELL):
        by = rows.set_index("outcome")
        failed = by["n"].drop(index=["judged", "uncertain", "unrated"])
        stopped = f"The gate stops {count(failed.sum(), 'image', 'images')}"
        if failed.sum():
            stopped += f", most often: {OUTCOMES.names[failed.idxmax()]} ({failed.max():,.0f})"
        yield _finding(by.loc["judged"], question, "In {percent:.1f} %.", "percent", [f"{stopped}."], **of)


@_listed
def valid_images(valid: pd.DataFrame) -> Iterator[Finding]:
    """Say how many images of several people show all that was asked, and what mitigation costs.

    From ``paired_valid_images``.
    """
    question, limits = (
        "How many images of {what} show all that was asked ({setting})?",
        ["change_ci_low", "change_ci_high"],
    )
    of = {"unit": "%", "n": "n_images", "of": "images", "figure": "paired_valid_images"}
    valid = valid[(valid["measure"] == "valid") & (valid["setting"] != "single")]
    for row in _rows(valid.dropna(subset=["percent"])):
        details = []
        if isfinite(row["change"]):
            way = moved(*row[limits], "More than", "Fewer than", "No change is shown from")
            change = f"{row['change']:+.1f} points, {interval(row, *limits)}"
            details = [f"{way} the same pairs without mitigation ({change})."]
        yield _finding(row, question, "{percent:.1f} %.", "percent", details, **of)


@_listed
def three(people: pd.DataFrame, *, confidence: float) -> Iterator[Finding]:
    """Say how many images of three people work, and how often people in those fit (``paired_people``)."""
    for rows in _groups(people[people["setting"] == "three"], ["model"]):
        every = rows["image_id"].nunique()
        worked = rows.groupby("image_id")["outcome"].transform(lambda outcome: (outcome == "judged").all())
        some = rows[worked.astype(bool) & rows["role_order"].isin(["right", ""])]
        details = []
        if n := len(some):
            fit = int((some["gender"] == some["stereotype"]).sum())
            low, high = stats.wilson_interval(fit, n, confidence)
            share = f"{100 * fit / n:.1f} % ({100 * low:.1f} to {100 * high:.1f}) of {n} people"
            details = [f"In these, {share} fit their stereotype ({level(confidence)} interval)."]
        said = f"{some['image_id'].nunique()} of {every} do."
        row = {"model": rows["model"].iloc[0], "n": every}
        yield _finding(
            row, "Do images of three people show everyone as asked?", said, details=details, of="images"
        )


# -- controls ----------------------------------------------------------------------------------------


@_listed
def position_effect(effects: pd.DataFrame, *, confidence: float) -> Iterator[Finding]:
    """Say whether one side is perceived as female more often, whoever stands there (``paired_position_effect``)."""
    question = "Which side shows more women of the same {what} ({setting})?"
    ways = "The left", "The right", "No difference is shown"
    of = _OCCUPATIONS | {"figure": "paired_position_effect", "confidence": confidence}
    naming = "Only the left one is named with the occupation, so place and naming are not told apart."
    for row in _rows(_overall(effects, "difference")):
        details = [*_p(row), *([naming] if row["aspect"] == "power" else []), *_assumed(row)]
        yield _finding(row, question, ways, "difference", details, **of)


@_listed
def control_score(scores: pd.DataFrame, *, confidence: float) -> Iterator[Finding]:
    """Say what contrast adds to the score: pairs of opposite stereotype against each control.

    From ``paired_control_score``.
    """
    beside = {
        "single": "people alone",
        "alike": "pairs of one stereotype",
        "same": "pairs of one occupation",
        "three": "three people",
    }
    ways = "It rises", "It falls", "No difference is shown"
    of = _OCCUPATIONS | {"ends": "contrast_", "figure": "paired_control_score", "confidence": confidence}
    for row in _rows(_overall(scores, "contrast")):
        question = "What does contrast with the opposite stereotype change, compared to "
        question += f"{beside[row['setting']]}?"
        score = f"The score there is {spoken(row['score'])} ({interval(row)})."
        details = (score, *_assumed(row, "contrast_dependence"))
        yield _finding(row, question, ways, "contrast", details, **of)


@_listed
def labour_gap(gaps: pd.DataFrame, *, confidence: float) -> Iterator[Finding]:
    """Say whether pairs with a larger gap in the labour force have a higher score (``paired_labour_gap``)."""
    question = "Does the score grow with the gap in the labour force ({setting})?"
    ways = "It rises", "It falls", "No slope is shown"
    of = _OCCUPATIONS | {
        "unit": "points a point of gap",
        "figure": "paired_labour_gap",
        "confidence": confidence,
    }
    for row in _rows(gaps[gaps["group"] == "line"].dropna(subset=["slope"])):
        yield _finding(row, question, ways, "slope", _p(row), **of)


@_listed
def skin_tone(tones: pd.DataFrame, *, confidence: float) -> Iterator[Finding]:
    """Say by how many tones the two people of an image differ (``paired_skin_tone``)."""
    ways = "Yes, darker", "No, lighter", "No difference is shown"
    of = _OCCUPATIONS | {"unit": "tones", "figure": "paired_skin_tone", "confidence": confidence}
    for row in _rows(tones[tones["group"] == "difference"].dropna(subset=["skin_tone"])):
        first = "high-power" if row["aspect"] == "power" else "male-stereotyped"
        question = f"Are {first} people darker than the other in the same image ({{setting}})?"
        yield _finding(row, question, ways, "skin_tone", _p(row), **of)
