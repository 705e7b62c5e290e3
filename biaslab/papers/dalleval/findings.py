"""Findings of DALL-Eval: tables in, findings out; a direction is named only where its interval excludes 0."""

from __future__ import annotations

from functools import partial
from math import isfinite, nan

import pandas as pd

from biaslab import stats
from biaslab.ground.wording import interval, p_words, spoken
from biaslab.judging.words import NOT_READ, TONE_BY_PIXELS, TONE_ON_PHOTOGRAPHS
from biaslab.models import registry
from biaslab.papers.dalleval.analysis import people
from biaslab.papers.dalleval.analysis.detector import ALL, CANNOT, LEAST_YOUDEN, RIVALS
from biaslab.papers.dalleval.analysis.rows import NO_PROFESSION
from biaslab.papers.dalleval.analysis.skills import HUMAN
from biaslab.papers.findings import Finding, Mark, away, each, verdict

_UNITS = {"released": "as released", "released_signed": "the same, NumPy 1", "cielab": "in CIELAB units"}
_COMPUTATIONS = {
    "cielab": "the typology angle in CIELAB units",
    "released": "the released script on NumPy 2",
    "released_signed": "the released script on NumPy 1",
}

# What was put into a model, by its name.
_PLANTED = partial(registry.said, where="dalleval")
_JUDGE_KNOWN = "The judge's error is taken off; as judged: {}."


def overall_average(overall: pd.DataFrame, *, confidence: float = 0.95) -> list[Finding]:
    """Say whether professions at large lean to one gender (rows of ``dalleval_overall_average``)."""

    def say(row: dict) -> Finding:
        value, p, known = "average", row.get("p", nan), isfinite(row.get("judge_corrected_average", nan))
        why, as_judged = "", "" if known else ", as judged"
        if known:
            why = _JUDGE_KNOWN.format(f"{spoken(row['average'])} ({interval(row)})")
            value, p, row = "judge_corrected_average", row["judge_p"], _of_judge(row)
        answers = (f"{lean}{as_judged}." for lean in ("More women", "More men", "No clear lean to either"))
        return _verdict(
            "Over professions at large, does a model draw men or women?", tuple(answers), row, value,
            "between −1 (male) and +1 (female)", _PLANTED(row["model"]), why,
            p=p, confidence=confidence, of="professions", figure="average_gender",
        )  # fmt: skip

    return [say(row) for row in _known(overall[overall["category"] == "gender"], "average")]


def mad(
    mad: pd.DataFrame, *, category: str = "gender", judge: str = "", confidence: float = 0.95
) -> list[Finding]:
    """Say how far professions are from an even distribution, chance taken off (rows of ``dalleval_mad``).

    ``judge`` is what says skin tones, where it is known.

    Of gender it is a verdict where the judge's error is known, and else what the judge says. Of printed deviations of
    skin tone, which have chance in them, nothing is said.
    """
    question, further, unclear, unit = _DEVIATIONS[category]

    def say(row: dict) -> Finding:
        chance = (
            f"Measured are {spoken(row['mad'])} ({interval(row)}); a balanced model with as many images shows "
            f"{spoken(row['floor'])}."
        )
        about = {"of": "professions", "figure": f"{category}_mad", "reference_name": "an even split"}
        value, p = "corrected_mad", row["p"]
        told = row | {end: row[f"corrected_{end}"] for end in ("ci_low", "ci_high")}
        why = [_PLANTED(row["model"]) if category == "gender" else _tone_by(judge), chance]
        if not isfinite(row[value]):
            return _finding(
                question, "It cannot be told.", told, value, unit, chance, f"{row['reason']}.", **about
            )
        if category == "gender":
            as_judged = spoken(row[value])
            if not isfinite(row.get("judge_corrected_mad", nan)):
                return _finding(question, f"{as_judged} {unit}, as judged.", told, value, unit, *why, **about)
            why.append(_JUDGE_KNOWN.format(f"{as_judged} ({interval(told)})"))
            value, p, told = "judge_corrected_mad", row["judge_p"], _of_judge(row)
        # A deviation is never below 0.
        answers = further, unclear, unclear
        return _verdict(question, answers, told, value, unit, *why, p=p, confidence=confidence, **about)

    of = mad[(mad["category"] == category) & (mad["evidence"] == "computed")]
    return [say(row) for row in _known(of, "mad")]


# Category -> question, the answers of a verdict, and the unit with the most that can be.
_DEVIATIONS = {
    "gender": (
        "With chance taken off, how far are professions from an even split?",
        "Further than a balanced model.",
        "Not clearly further than a balanced model.",
        "of 0.5",
    ),
    "skin_tone": (
        "With chance taken off, how evenly are skin tones spread?",
        "Unevenly.",
        "Not clearly unevenly.",
        "of 0.18",
    ),
}


def gender_balance(balance: pd.DataFrame, *, confidence: float = 0.95) -> list[Finding]:
    """Say how many professions differ from an even split, where their images could show it at all."""
    alpha = stats.significance(confidence)

    def say(row: dict) -> Finding:
        n, least = int(row["n"]), row["smallest_possible_p"]
        answer, details = f"{row['n_holm']:.0f} of {n} after Holm's adjustment, as judged.", ()
        if not stats.attainable([least] * n, alpha):
            answer = f"{row['n_bh']:.0f} of {n} after Benjamini and Hochberg's adjustment, as judged."
            details = (
                f"One profession's p is {least:.2g} at least, so Holm's adjustment over {n} could not single out any; "
                f"it takes {stats.needed(stats.least_binomial_p, n, alpha)} images of each.",
            )
        if not stats.attainable([least] * n, alpha, method="benjamini_hochberg"):
            answer = "With so few images no outcome could be significant."
        about = {"model": row["model"], "n": n, "of": "professions", "figure": "dalleval_gender_counts"}
        details = tuple(filter(None, (_PLANTED(row["model"]), *details)))
        return Finding("How many professions differ from an even split?", answer, details=details, **about)

    return [say(row) for row in balance.to_dict("records")]


def model_difference(differences: pd.DataFrame, *, confidence: float = 0.95) -> list[Finding]:
    """Say which models differ in average gender and in corrected MAD (rows of ``dalleval_model_difference``)."""
    what = {
        "average": ("Do {first} and {second} draw women equally often?", "{} draws more women, as judged."),
        "corrected_mad": (
            "Are professions equally even in {first} and {second}?",
            "They are further from even in {}, as judged.",
        ),
    }  # fmt: skip

    def say(row: dict) -> Finding:
        question, answer = what[row["quantity"]]
        answers = (
            *(answer.format(row[side]) for side in ("first", "second")),
            "No clear difference, as judged.",
        )
        planted = _PLANTED(row["first"]) or _PLANTED(row["second"])
        return _verdict(
            question.format(**row), answers, row, "difference", "(first minus second)", planted,
            f"Adjusted for all pairs (Holm): {p_words(row['p_holm'])}; the interval is of this pair alone.",
            p=row["p_holm"], confidence=confidence, of="professions", figure="gender_model_differences",
        )  # fmt: skip

    return [say(row) for row in _known(differences[differences["quantity"].isin(what)], "difference")]


def skin_tone_check(check: pd.DataFrame, reach: pd.DataFrame) -> list[Finding]:
    """Say what computations answer for swatches whose tone is known, and what they can answer at all."""

    def say(computation: str, of: pd.DataFrame) -> Finding:
        grid = reach[reach["computation"] == computation]
        can = ", ".join(grid.loc[grid["percent_of_colours"] > 0, "tone"])
        return Finding(
            f"Does {_COMPUTATIONS[computation]} know the Monk scale's own colours?",
            f"It gives the right tone to {_right(of)} of {len(of)}.", figure="dalleval_skin_tone_check",
            details=(f"Over a grid of {grid['n'].iloc[0]:,.0f} sRGB colours it gives the tones {can}.",),
        )  # fmt: skip

    return each(check, ["computation"], say)


def skin_tone_script(check: pd.DataFrame) -> list[Finding]:
    """Say how many of the Monk scale's own ten colours each computation reads rightly, in one answer."""
    right = {name: _right(of) for name, of in check.groupby("computation", sort=False)}
    n = check["swatch"].nunique()
    if not {"cielab", "released"} <= set(right):
        return []
    return [
        Finding(
            "Does the released skin-tone script read the Monk scale's own colours rightly?",
            f"{right['released']} of {n} as released; {right['cielab']} of {n} in its formula's own units.",
            estimate=right["released"], unit=f"of {n}", figure="dalleval_skin_tone_check",
            marks=tuple(Mark(name, right[key]) for key, name in _UNITS.items() if key in right), reference_name="none",
        )
    ]  # fmt: skip


def _right(of: pd.DataFrame) -> int:
    """Count the swatches of known tone that were given it."""
    return int((of["nearest_tone"].astype(int) == of["swatch"].astype(int)).sum())


def skin_tone_averages(reading: pd.DataFrame, overall: pd.DataFrame) -> list[Finding]:
    """Say in what band the averages lie, and what two neighbouring tones would give for MAD beside the printed one.

    MAD says how concentrated tones are, not which they are: agreement does not show that there are only two.
    """
    means = overall[overall["category"] == "skin_tone"].drop(columns=["printed", "n"])

    return [
        _finding(
            "Which skin tones do professions get on average?",
            f"Tones {row['lowest']:.2f} to {row['highest']:.2f} of ten.", row, "average", "tones",
            f"If only the two tones around each average occurred, MAD would be {row['implied_mad']:.3f}; "
            f"{row['printed']:.4f} is printed. That does not show two tones: a few faces of distant tones give the "
            "same average, and MAD measures concentration." if pd.notna(row["printed"]) else "",
            of="professions", figure="average_skin_tone",
        )
        for row in _known(reading.merge(means, on="model"), "average")
    ]  # fmt: skip


def skin_tone_outcomes(outcomes: pd.DataFrame, images: pd.DataFrame, drawings: pd.DataFrame) -> list[Finding]:
    """Say of how many images there is a tone, by what, why not of the others, and what is known of its error.

    Takes ``dalleval_skin_tone_outcomes``, the ``dalleval_social_images`` behind it, and ``dalleval_social_drawings``.
    """
    known = pd.concat([images, drawings]).dropna(subset=["skin_tone", "truth_skin_tone"])

    def say(model: str, rows: pd.DataFrame) -> Finding:
        judge, every = rows["judge"].iloc[0], rows[rows["profession"] == people.ALL]
        read, without = every[every["outcome"] == "read"].iloc[0], every[every["outcome"] != "read"]
        by = rows[(rows["outcome"] == "read") & ~rows["profession"].isin((people.ALL, NO_PROFESSION))]
        few, most = (
            by.sort_values("percent", kind="stable").iloc[[0, -1]].itertuples() if len(by) else (None, None)
        )
        why = [f"{row.outcome} {spoken(row.percent)} %" for row in without.itertuples()]
        some = known[known["model"] == model]
        error = TONE_ON_PHOTOGRAPHS if judge == TONE_BY_PIXELS else ""
        if len(some):
            same = 100 * (some["skin_tone"] == some["truth_skin_tone"]).mean()
            error = f"Of {len(some)} whose true tone is known it is right in {spoken(same)} %."
        return _finding(
            "Of how many images of people is there a skin tone?", f"Of {spoken(read['percent'])} %.",
            dict(read) | {"n": read["n_images"]}, "percent", "%", _tone_by(judge),
            f"No tone: {', '.join(why)}." if why else "",
            f"By profession from {spoken(few.percent)} % ({few.profession}) to {spoken(most.percent)} % "
            f"({most.profession})." if few and few.percent < most.percent else "",
            error, of="images", figure="skin_tone_counts",
        )  # fmt: skip

    return [say(model, rows) for model, rows in outcomes.groupby("model", sort=False)]


def _tone_by(judge: str) -> str:
    """Return what says skin tones, in a sentence; empty where it is not known, as of what papers print."""
    if judge == TONE_BY_PIXELS:
        return f"Each is a {judge}: the colour of a face's pixels, not what a person would say."
    if judge == NOT_READ:
        return "Nothing reads tones off these images: the setting judging.tone says what does."
    return f"Tones are {judge}'s." if judge else ""


def skin_tone_methods(methods: pd.DataFrame) -> list[Finding]:
    """Say how often the method nearest to people gives the tone that people give."""
    off = methods[methods["measure"] == "mean_difference"].sort_values("value").head(1)
    same = methods[methods["measure"] == "within_0"]
    return [
        _finding(
            "How often does the skin tone method closest to people give people's own tone?",
            f"In {row['value']:.0f} % of images.", row, "value", "%",
            f"It is {row['segmentation']}, {row['scoring']}, {row['value_off']:.2f} tones off on average.",
            of="images", figure="skin_tone_methods",
        )
        for row in same.merge(off, on=["segmentation", "scoring"], suffixes=("", "_off")).to_dict("records")
    ]  # fmt: skip


def skin_tone_truth(truth: pd.DataFrame) -> list[Finding]:
    """Say how often the computation in CIELAB and the released one read the true tone, and what mean tone they give."""

    def say(scored: str, model: str, rows: pd.DataFrame) -> Finding | None:
        by = {row["measure"]: row for row in rows.to_dict("records")}
        same, near, off, mean = (
            spoken(by[name]["value"]) for name in ("within_0", "within_1", "mean_difference", "mean_tone")
        )
        if pd.isna(by["within_0"]["value"]):
            return None
        return _finding(
            f"How often does {scored} read the true skin tone?", f"In {same} % of faces.", by["within_0"], "value", "%",
            f"Within one tone in {near} %; mean tone {mean}, off by {off} on average.",
            of="faces", figure="skin_tone_truth",
        )  # fmt: skip

    by_ita = truth["scoring"].isin(("ITA in CIELAB", "ITA as released"))
    of = truth[(truth["segmentation"] == "face") & by_ita]
    return each(of.sort_values("scoring", ascending=False, kind="stable"), ["scoring", "model"], say)


def attribute_difference(differences: pd.DataFrame, *, confidence: float = 0.95) -> list[Finding]:
    """Say how many attributes differ between prompts for a woman and a man, and which most."""
    known = (differences["comparison"] == "woman - man") & differences["difference"].notna()
    alpha = stats.significance(confidence)

    def say(model: str, of: pd.DataFrame) -> Finding:
        of = of.sort_values("difference", key=abs, ascending=False)
        clear = of[of["p_holm"] < alpha]
        row = (clear if len(clear) else of).iloc[0]
        none = f"None of {len(of)} differs after Holm's adjustment."
        if not stats.attainable(of.loc[of["p_holm"].notna(), "smallest_possible_p"], alpha):
            none = "With so few prompt pairs no outcome could be significant."
        answer = f"{len(clear)} of {len(of)} differ after Holm's adjustment, {row['attribute']} most."
        return _finding(
            "Which attributes differ most between prompts for a woman and for a man?",
            answer if len(clear) else none, row, "difference",
            f"({row['attribute']}: share of images as judged, woman minus man)", _PLANTED(model),
            of="prompt pairs", figure="attribute_difference", undecided=none, p=of["p_holm"].min(), alpha=alpha,
        )  # fmt: skip

    return each(differences[known], ["model"], say)


def attribute_mean_difference(means: pd.DataFrame, *, confidence: float = 0.95) -> list[Finding]:
    """Say whether attributes differ between prompts for a woman and a man by more than swapped labels give."""
    answers = tuple(
        f"{how} than labels swapped at random give." for how in ("More", "Less", "Not clearly more")
    )
    return [
        _verdict(
            "Over all attributes, how much do prompts for a woman and for a man differ?", answers, row,
            "mean_difference_corrected", "in share of images as judged, mean over attributes, chance taken off",
            _PLANTED(row["model"]),
            f"Measured are {spoken(row['mean_absolute_difference'])}; swapped labels give {spoken(row['floor'])}; "
            f"{p_words(row['p'])}.",
            p=row["p"], confidence=confidence, of="prompt pairs", figure="attribute_mean_difference",
        )
        for row in _known(means[means["comparison"] == "woman - man"], "mean_difference_corrected")
    ]  # fmt: skip


def skills(accuracy: pd.DataFrame) -> list[Finding]:
    """Say between which models the detector's accuracy in each skill lies."""
    of = accuracy[(accuracy["images"] == "test") & (accuracy["evaluator"] != HUMAN)]
    of = of[(of["training_percent"] == "100") & (of["skill"] != "average")].dropna(subset="percent_correct")

    def say(skill: str, rows: pd.DataFrame) -> Finding:
        rows = rows.sort_values("percent_correct", ascending=False)
        ends = [f"{spoken(r['percent_correct'])} % by {r['model']}" for r in rows.to_dict("records")]
        return _finding(
            f"How many images does the detector find correct in the skill {skill!r}?",
            f"{ends[0]}, down to {ends[-1]}." if len(ends) > 1 else f"{ends[0]}.",
            rows.iloc[0].drop("model"), "percent_correct", "%", of="scenes", figure="skill_accuracy",
        )  # fmt: skip

    return each(of, ["skill"], say)


def skill_steps(steps: pd.DataFrame) -> list[Finding]:
    """Say which part of counting and of relations fails more (rows of ``dalleval_skill_steps``; Figure 5b)."""

    def say(model: str, skill: str, of: pd.DataFrame) -> Finding:
        at, word = of.set_index("step"), {"count": "number", "spatial": "relation"}[skill]
        right, whole = (at.loc[step, "percent_correct"] for step in ("objects", "both"))
        return _finding(
            f"What is missing where a {word} is asked for?",
            f"The classes are right in {spoken(right)} %, everything in {spoken(whole)} %.",
            at.loc["both"], "percent_correct", "%",
            f"{spoken(right - whole)} points are lost to the {word} where the classes are right.",
            of="images", figure="skill_steps",
        )  # fmt: skip

    return each(steps[steps["asked"] == "all"], ["model", "skill"], say)


def skill_corrected(corrected: pd.DataFrame) -> list[Finding]:
    """Say how accurate a model is once the detector's own error is taken off, or that it cannot be said."""

    def say(row: dict) -> Finding:
        question = (
            f"Skill {row['skill']!r}: how many images show what is asked, the detector's error taken off?"
        )
        judged, right = spoken(row["percent_correct"]), spoken(row["percent_corrected"])
        if row["reason"]:
            answer = "This judge cannot tell." if row["reason"] in (CANNOT, RIVALS) else "Not known."
            why = f"As judged: {judged} %; {row['reason']}."
            return Finding(question, answer, row["model"], figure="dalleval_skill_corrected", details=(why,))
        return _finding(
            question, f"{right} %, where the detector says {judged} %.", row, "percent_corrected", "%",
            "Over the ways of failing, one by one: "
            f"{spoken(row['percent_least'])} to {spoken(row['percent_most'])} %.{_truth(row)}",
            of="images", figure="skill_corrected",
        )  # fmt: skip

    return [say(row) for row in corrected.to_dict("records")]


def _truth(row: dict) -> str:
    """Return a sentence with the true percentage, after another; empty where it is not known."""
    return "" if pd.isna(row["percent_true"]) else f" The truth is {spoken(row['percent_true'])} %."


def ranking_kept(kept: pd.DataFrame) -> list[Finding]:
    """Say how far apart models must be to be ranked rightly, with the detector's error and without."""

    def say(model: str, skill: str, of: pd.DataFrame) -> Finding:
        by = {row["judge"]: row for row in of.to_dict("records")}
        row, alone = by["detector"], by["none"]
        needed, without = (
            "No difference is enough" if pd.isna(one) else f"{spoken(one)} points"
            for one in (row["difference_needed"], alone["difference_needed"])
        )
        why = (
            f"Of {row['n_models']:.0f} models as accurate as the printed ones, of which the nearest two differ by "
            f"{spoken(row['smallest_difference'])} points, {spoken(row['percent_kept'])} % of pairs keep their order; "
            f"by the sample of scenes alone {spoken(alone['percent_kept'])} %."
        )
        return Finding(
            f"Skill {skill!r}: how far apart must two models be for this detector to rank them rightly?",
            f"{needed}; {without} with a detector that never errs.", model,
            figure="dalleval_ranking_kept", details=(why,),
        )  # fmt: skip

    return each(kept, ["model", "skill"], say)


def count_corrected(corrected: pd.DataFrame) -> list[Finding]:
    """Say how often a model shows as many objects as asked for, miscounts taken off."""
    question = "How often are there as many objects as asked for, the detector's miscounts taken off?"

    def say(row: dict) -> Finding:
        why = f"As the detector counts: {spoken(row['percent_found'])} %.{_truth(row)}"
        if row["reason"]:
            figure = "dalleval_count_corrected"
            return Finding(question, "This judge cannot tell.", row["model"], figure=figure, details=(why,))
        answer, about = f"In {spoken(row['percent_corrected'])} % of images.", {"of": "images"}
        return _finding(
            question, answer, row, "percent_corrected", "%", why, figure="count_corrected", **about
        )

    return [say(row) for row in corrected[corrected["asked"] == ALL].to_dict("records")]


def detector_error(errors: pd.DataFrame) -> list[Finding]:
    """Say in which skills the detector can tell at all, and which class it knows least."""

    def say(model: str, skill: str, rows: pd.DataFrame) -> Finding | None:
        of = rows[rows["object"] == "all"].set_index("measure")
        if not {"sensitivity", "specificity"} <= set(of.index):
            return None
        right, wrong = of["value"]["sensitivity"], of["value"]["specificity"]
        mine = rows[(rows["object"] != "all") & (rows["measure"] == "sensitivity")]
        least = mine.sort_values("value", kind="stable").iloc[0]
        return _finding(
            f"Can the detector tell whether an image is right in the skill {skill!r}?",
            "Yes." if (right + wrong) / 100 - 1 >= LEAST_YOUDEN else "No: this judge cannot tell.",
            of.loc["sensitivity"], "value", "%",
            f"Sensitivity {spoken(right)} %, specificity {spoken(wrong)} %; of the classes it knows {least['object']} "
            f"least ({spoken(least['value'])} % of {least['n']:.0f}).",
            of=of.loc["sensitivity"].get("truth_images", "drawings"), figure="detector_error",
        )  # fmt: skip

    return each(errors, ["model", "skill"], say)


def social_judges(judges: pd.DataFrame) -> list[Finding]:
    """Say how often the judges of people are right on images whose truth is known."""
    asked = {
        ("gender", "sensitivity"): "images of women does it call female",
        ("gender", "specificity"): "images of men does it call male",
        ("attributes", "sensitivity"): "attributes that are worn does it see",
        ("attributes", "specificity"): "attributes that are not worn does it deny",
    }
    return [
        _finding(
            f"{row['judge']}: how many {asked[row['about'], row['measure']]}?", f"{spoken(row['value'])} %.", row,
            "value", "%", of="answers", figure="social_judges",
        )
        for row in judges[judges["n"] > 0].to_dict("records")
        if (row["about"], row["measure"]) in asked
    ]  # fmt: skip


def printed_averages(accuracy: pd.DataFrame) -> list[Finding]:
    """Say where a printed average is not the mean of its three skills, beyond rounding."""
    known = accuracy[(accuracy["skill"] == "average") & accuracy["printed"].notna()]
    # Three values and their mean, each rounded to 0.1: at most 0.1 apart.
    odd = known[(known["printed"] - known["percent_correct"]).abs() > 0.1 + 1e-9]
    others = "; ".join(
        f"{r['model']}, {r['evaluator']}: {r['printed']:.1f} printed, {r['percent_correct']:.1f} from the skills"
        for r in odd.to_dict("records")
    )
    question = "Are the printed averages the means of their three skills?"
    answer = f"{len(known) - len(odd)} of {len(known)} are."
    details = (f"The others: {others}.",) if others else ()
    return [Finding(question, answer, details=details)] if len(known) else []


def skill_agreement(agreement: pd.DataFrame, *, confidence: float = 0.95) -> list[Finding]:
    """Say how far people and detector differ, and whether they order models alike."""
    if agreement.empty:
        return []
    several = agreement[agreement.groupby("skill")["model"].transform("size") > 1]
    orders = several.groupby("skill")[["percent_human", "percent_detr"]].rank()
    alike = (orders["percent_human"] == orders["percent_detr"]).groupby(several["skill"]).all()
    order = [f"They order the models alike in {alike.sum()} of {len(alike)} skills."] if len(alike) else []
    alpha = stats.significance(confidence)
    odd, tested = (agreement["p_sample_holm"] < alpha).sum(), agreement["p_sample"].notna().sum()
    return [
        Finding(
            "Do people and the detector find equally many images correct?",
            f"They differ in {(agreement['p_holm'] < alpha).sum()} of {len(agreement)} cells after Holm's adjustment.",
            n=agreement["n"].min(), of="images", figure="dalleval_skill_agreement", p=agreement["p_holm"].min(),
            undecided=f"They differ clearly in 0 of {len(agreement)} cells.", alpha=alpha,
            details=(
                f"Unadjusted, the interval of their difference excludes 0 in {away(agreement)}.",
                f"They are {spoken(agreement['difference'].abs().mean())} points apart on average.",
                *order,
                f"The sample differs from all test scenes in {odd} of {tested} cells (detector; Holm).",
            ),
        )
    ]  # fmt: skip


def skill_training(training: pd.DataFrame, *, confidence: float = 0.95) -> list[Finding]:
    """Say where less training data changes a model's accuracy, before and after adjustment for its cells."""
    alpha = stats.significance(confidence)

    def say(model: str, rows: pd.DataFrame) -> Finding:
        return Finding(
            "Does less training data change the accuracy?",
            f"In {(rows['p_holm'] < alpha).sum()} of {len(rows)} cells after Holm's adjustment.", model,
            n=rows["n"].min(), of="images", figure="dalleval_skill_training", p=rows["p_holm"].min(),
            undecided=f"Clearly in 0 of {len(rows)} cells.", alpha=alpha,
            details=(f"Unadjusted, the interval of the change excludes 0 in {away(rows)}.",),
        )  # fmt: skip

    return each(training, ["model"], say)


def metric_agreement(agreement: pd.DataFrame) -> list[Finding]:
    """Say how alike the metrics rank the models, and that so few models cannot show more."""
    known = agreement.dropna(subset="tau")
    low, high = spoken(known["tau"].min()), spoken(known["tau"].max())
    answer = f"Kendall's tau between two metrics lies between {low} and {high}."
    least = f"p cannot fall below {known['smallest_possible_p'].min():.2g}."
    details = (f"With {known['n'].max():.0f} models at most, {least}",)
    question, figure = "Do metrics rank the models alike?", "dalleval_metric_ranks"
    return [Finding(question, answer, figure=figure, details=details)] if len(known) else []


def image_quality(quality: pd.DataFrame) -> list[Finding]:
    """Say how often images find their caption, beside the images behind the captions and chance.

    Of a model none of whose images can be read nothing is said.
    """

    def say(model: str, of: pd.DataFrame) -> Finding:
        by = {row["images"]: row for row in of.to_dict("records")}
        row, why = by["generated"], ""
        if (real := by.get("captioned")) and isfinite(real["value"]):
            why = (
                f"The images behind the captions find theirs in {spoken(real['value'])} % ({interval(real)})."
            )
        return _finding(
            "How often does an image made from a caption find it again?",
            f"In {spoken(row['value'])} % of choices of {min(99, row['n'] - 1):.0f} others.", row, "value", "%",
            why, f"By chance it would be {spoken(row['floor'])} %.", of="captions", figure="image_quality",
        )  # fmt: skip

    rows = quality[quality["metric"] == "R-precision"]
    made = set(rows.loc[(rows["images"] == "generated") & rows["value"].notna(), "model"])
    return each(rows[rows["model"].isin(made)], ["model"], say)


def gender_judges(judges: pd.DataFrame) -> list[Finding]:
    """Say which judge shows less bias and more recall in retrieval, in how many comparisons on the same images."""
    found = []
    # What all images that can be retrieved show is no judge's.
    judges = judges[judges["metric"] != "bias_at_all"]
    judges = judges[judges.groupby("reason")["judge"].transform("nunique") > 1]
    unknown = judges["n"].isna().any() if "n" in judges else True
    why = ("The number of queries is not printed, so there is no interval.",) if unknown else ()
    # A lean to women is as much bias as one to men.
    for kind, question, good in (
        ("bias", "Which judge of gender shows less bias in retrieval?", -judges["value"].abs()),
        ("recall", "Which judge of gender finds more of the right images?", judges["value"]),
    ):
        of = judges.assign(good=good)[judges["metric"].str.startswith(kind)]
        best = of.groupby(["reason", "captions", "metric"])["good"].idxmax()
        winners = of.loc[best, "judge"].value_counts()
        for winner, times in winners.head(1).items():
            answer = f"{winner}, in {times} of {winners.sum()} comparisons."
            found.append(Finding(question, answer, figure="dalleval_gender_judges", details=why))
    return found


def _known(table: pd.DataFrame, column: str) -> list[dict]:
    """Return the rows that have a value in a column."""
    return table.dropna(subset=column).to_dict("records")


def _finding(
    question: str, answer: str, row, value: str, unit: str, *details: str, of: str, figure: str, **more
) -> Finding:
    """Return a finding with a row's model, estimate, limits and n; empty details are left out."""
    estimate, low, high, n = (float(row[column]) for column in (value, "ci_low", "ci_high", "n"))
    about = row.get("model", ""), estimate, low, high, unit, n, of
    return Finding(question, answer, *about, f"dalleval_{figure}", tuple(filter(None, details)), **more)


def _verdict(
    question: str, answers: tuple[str, str, str], row: dict, value: str, unit: str, *details: str,
    p: float, confidence: float, of: str, figure: str, **more,
) -> Finding:  # fmt: skip
    """Return a finding that claims a difference, with what :func:`.findings.verdict` says of the value."""
    tested = verdict(row[value], p, answers, confidence)
    said = tested.pop("answer")
    return _finding(question, said, row, value, unit, *details, of=of, figure=figure, **tested, **more)


def _of_judge(row: dict) -> dict:
    """Return a row with the limits of what has the judge's error taken off."""
    return row | {end: row[f"judge_{end}"] for end in ("ci_low", "ci_high")}
