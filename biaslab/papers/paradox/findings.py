"""What the paradox's tables show, as findings: frames in, findings out.

Functions take rows of the tables that they name.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from biaslab import stats
from biaslab.captions.settings import SELECTED
from biaslab.ground.wording import count, p_words, spoken
from biaslab.models import registry, truths
from biaslab.papers.findings import Finding, Mark, by_row, each, from_row
from biaslab.papers.paradox.analysis.captions import FETCHED
from biaslab.papers.paradox.analysis.groups import LEAST_IMAGES
from biaslab.papers.paradox.figures import APPROACH_NAMES
from biaslab.plots.texts import as_name

# The level of the paper's tests.
_PAPERS_LEVEL = 0.05


def embedded(settings: pd.DataFrame) -> list[Finding]:
    """Say of each model that is no real one, or is measured beside captions of known truth (``pipeline_settings``)."""

    def say(model: str, rows: pd.DataFrame) -> Finding | None:
        asked = "Do these numbers describe a real model?"
        if said := registry.said(model, "real"):
            return Finding(asked, said, model)
        corpus = rows.loc[rows["setting"] == "captions.corpus", "set_to"]
        if not (said := next(filter(None, (truths.said(name, "training") for name in corpus)), "")):
            return None
        return Finding(asked, said, model, details=("The comparison tries the measures out.",))

    return each(settings, ["model"], say)


# -- sections 2 and 3 --------------------------------------------------------------------------------------------


def captions_found(found: pd.DataFrame) -> list[Finding]:
    """Say how many captions name an occupation, and which have too few (``paradox_captions_found``)."""

    def say(corpus: str, rows: pd.DataFrame) -> Finding:
        most, n, total = rows["n_sampled"].max(), rows["n_captions"], rows["n_corpus"].max()
        details = [f"{total:,.0f} captions were searched; {most:,.0f} are taken of each at random."]
        if len(short := rows.loc[rows["n_sampled"] < most, "occupation"]):
            details.append(f"Fewer than that name {', '.join(short)}.")
        return Finding(
            f"How many captions of {corpus} name an occupation?",
            f"Between {n.min():,.0f} and {n.max():,.0f}; {spoken(n.median())} in the middle.",
            **_number(n.median(), "captions", len(rows), "occupations"),
            figure="paradox_captions_found",
            details=tuple(details),
        )

    return each(found, ["corpus"], say)


def gate(rates: pd.DataFrame, outcomes: pd.DataFrame) -> list[Finding]:
    """Say how many images of each source passed the gate (what ``gate_rates`` returns) and are judged in the end.

    ``outcomes`` are rows of ``paradox_outcomes``.
    """
    keys = ["model", "source", "approach", "prompt"]
    judged = outcomes[outcomes["outcome"] == "judged"].set_index(keys)["percent"].rename("judged")
    rows = rates[rates["approach"] == "naive"].join(judged, on=keys)
    return by_row(
        rows.assign(whose=rows["prompt"].map(_whose)),
        "How many {source} images ({whose}) show one clear face?",
        "{percent} %; {judged} % are judged female or male.",
        *("percent", "%", "n_images", "images"),
        figure="paradox_outcomes",
    )


def _whose(prompt: str) -> str:
    return "all captions" if prompt == "captions" else f"prompt {prompt}"


def survival(found: pd.DataFrame, counts: pd.DataFrame, *, confidence: float) -> list[Finding]:
    """Say how many training images could be fetched, and how far the others could move the training share.

    Of ``paradox_image_survival`` (its first corpus and approach) and, for the reasons, ``paradox_download_outcomes``;
    ``confidence`` is the level of the interval, 0–1.
    """
    if found.empty:
        return []
    corpus, approach = found.loc[0, ["corpus", "approach"]]
    rows, counts = (f[(f["corpus"] == corpus) & (f["approach"] == approach)] for f in (found, counts))
    n, n_missing = rows["n"].sum(), rows["n_not_fetched"].sum()
    fetched, low, high = stats.percent(n - n_missing, n, confidence)
    worst, best = rows.loc[rows["percent"].idxmin()], rows.sort_values("percent", kind="stable").iloc[-1]
    why = counts[counts["outcome"] != FETCHED].groupby("outcome")["n"].sum()
    why = why.sort_values(ascending=False, kind="stable").head(3)
    said = [
        Finding(
            f"How many training images of {corpus} could be fetched?",
            f"{spoken(fetched)} %.",
            **_number(fetched, "%", n, f"images ({approach})", low, high),
            details=(
                f"By occupation between {worst['percent']:.1f} % ({worst['occupation']}) and {best['percent']:.1f} % "
                f"({best['occupation']}).",
                f"Most frequent: {', '.join(f'{name} ({k:,.0f})' for name, k in why.items()) or 'none missing'}.",
            ),
        )
    ]
    some = rows.dropna(subset=["percent_female"])
    if n_missing and len(some):
        least, most = some["percent_least"].mean(), some["percent_most"].mean()
        said.append(
            Finding(
                f"How far could missing images move the training share of {corpus}?",
                f"From {spoken(least)} % (all men) to {spoken(most)} % (all women).",
                **_number(some["percent_female"].mean(), "% female", len(some), "occupations"),
                details=("These are bounds, not an interval.",),
            )
        )
    return said


def bounds(bounds: pd.DataFrame) -> list[Finding]:
    """Say where amplification lies whatever missing images show (``paradox_amplification_bounds``, first approach)."""
    rows = bounds[(bounds["definition"] == "published") & (bounds["reason"] == "")]
    rows = rows[rows["approach"].isin(bounds["approach"].head(1))]
    return by_row(
        rows.assign(whose=rows["prompt"].map(_whose)),
        "Where could amplification lie, whatever the missing images show ({whose})?",
        "Between {amplification_least} and {amplification_most} points.",
        *("amplification_plain", "points", "n_occupations", "occupations"),
        details=("Bounds by the published rule, image noise left in; sampling comes on top.",),
    )


# -- section 4 ---------------------------------------------------------------------------------------------------


def impossible_shares(shares: pd.DataFrame) -> list[Finding]:
    """Say how many shares printed to 0.1 % cannot come from their number of images (``paradox_percent_female``)."""

    def say(model: str, source: str, rows: pd.DataFrame) -> Finding:
        images = rows["percent_female"] * rows["n"] / 100
        off = int(((images - images.round()).abs() > 0.05 * rows["n"] / 100 + 1e-9).sum())
        return Finding(
            f"Can the {source} shares come from exactly the stated number of images?",
            f"{count(off, 'share', 'shares')} of {len(rows)} cannot." if off else "All can.",
            model,
            **_number(100 * off / len(rows), "% that cannot", len(rows), "shares"),
        )

    return each(shares, ["model", "source"], say)


def baseline(amplification: pd.DataFrame, *, confidence: float) -> list[Finding]:
    """Say whether the naive approach amplifies bias, by rule and along the lean (``paradox_amplification``)."""
    rule, lean = "Is bias amplified, by the published rule?", "Do images move along the training lean?"
    asked = {"published": rule, "directional": lean}
    naive = _naive(amplification)
    by_rule = naive["definition"] == "published"
    counted = {model: _counted(rows) for model, rows in naive[by_rule].groupby("model")}
    over = "Over all occupations: one whose lean flips counts as the fall it is."
    rows = naive.assign(
        question=naive["definition"].map(asked), over=naive["model"].map(counted).where(by_rule, over)
    )
    rows = _summary(rows).dropna(subset="question")
    figure = "paradox_amplification_by_definition"
    return _amplified(rows, "{over}", figure=figure, confidence=confidence)


def headline(amplification: pd.DataFrame, *, confidence: float) -> list[Finding]:
    """Say what the naive approach gives by the published rule, and what of it stays along the lean, in one answer.

    Of ``paradox_amplification``; the answer names both estimates, the finding's own is the signed one. It rests on the
    tests of both (Holm).
    """

    def say(model: str, rows: pd.DataFrame) -> Finding | None:
        rows = weighed(rows)
        by = {row.definition: row for row in rows.itertuples()}
        if not {"published", "directional"} <= set(by):
            return None
        rule, signed = by["published"], by["directional"]
        ways = {"published rule": rule, "signed change": signed}
        marks = tuple(Mark(name, r.amplification, r.ci_low, r.ci_high) for name, r in ways.items())
        p = stats.adjust([r.p_told for r in ways.values()])
        said = (
            f"{spoken(rule.amplification)} points by the published rule; {spoken(signed.amplification)} as signed "
            "change."
        )
        undecided = f"None told apart from 0: {said}" if np.isfinite(p).any() else "Cannot be told."
        plain = f"{spoken(rule.amplification_plain)} and {spoken(signed.amplification_plain)}"
        return from_row(
            signed,
            "How much gender bias does the model add to that of its training images?",
            said if np.isfinite(p).any() else undecided,
            *("amplification", "points", "n_occupations", "occupations"),
            figure="paradox_amplification_by_definition",
            details=(
                "The published rule leaves out occupations whose lean flips between training and generated images. "
                "The signed change counts them as the fall that they are.",
                f"With image noise left in {plain} points.",
                *dict.fromkeys(f"{name.capitalize()}: {r.why}" for name, r in ways.items() if r.why),
            ),
            marks=marks,
            reference_name="none added",
            undecided=undecided,
            p=float(np.nanmin(p)) if np.isfinite(p).any() else np.nan,
            alpha=stats.significance(confidence),
        )

    return each(_summary(_naive(amplification)), ["model"], say)


def _naive(amplification: pd.DataFrame) -> pd.DataFrame:
    rows = amplification[(amplification["approach"] == "naive") & amplification["n_occupations"].notna()]
    return rows[rows["amplification"].notna()]


def weighed(
    rows: pd.DataFrame, value: str = "amplification", plain: str = "amplification_plain"
) -> pd.DataFrame:
    """Return rows of ``paradox_amplification`` with what their image noise means for an answer.

    ``value`` and ``plain`` name the columns without and with it. ``p_told`` is 1 where more is corrected than is left,
    and nothing can be told; ``unknown`` is the answer where none is told, ``why`` the reason in words, and ``both`` the
    two values where they differ by much.
    """
    known = rows["ci_low"].notna()
    told = stats.rivals(rows[plain], rows[value], rows["ci_low"], rows["ci_high"])
    larger = "More is corrected for image noise than is left."
    both = [
        f"{spoken(a)} points as measured, {spoken(b)} without image noise."
        for a, b in zip(rows[plain], rows[value], strict=True)
    ]
    return rows.assign(
        p_told=rows["p"].mask(told.larger, 1.0),
        unknown=np.select(
            [~known, told.larger],
            ["Cannot be told: no interval.", "Cannot be told: image noise."],
            "Not told apart from 0.",
        ),
        why=np.select([~known, told.larger], [rows["reason"], larger], ""),
        both=np.where(told.beside, both, ""),
    )


def _amplified(rows: pd.DataFrame, *details: str, confidence: float, figure: str = "") -> list[Finding]:
    """Say of each row whether there is amplification; its column ``question`` asks it."""
    return by_row(
        weighed(rows).assign(by=rows["amplification"].abs()),
        "{question}",
        ("Yes, by {by} points.", "No: it falls by {by} points.", "{unknown}"),
        *("amplification", "points", "n_occupations", "occupations"),
        figure=figure,
        details=("{both}", "{why}", *details),
        p="p_told",
        confidence=confidence,
    )


def _counted(rows: pd.DataFrame) -> str:
    """Say how many occupations the published rule counts, for each prompt where there are several."""
    single = rows[rows["prompt"] != "mean"]
    n, total = single["n_occupations"], (single["n_occupations"] + single["n_excluded"]).max()
    if len(single) == 1:
        return f"It counts {n.iloc[0]:.0f} of {total:.0f} occupations."
    return f"Mean of {len(single)} prompts, which count {n.min():.0f} to {n.max():.0f} of {total:.0f} occupations."


def shuffled(shuffled: pd.DataFrame, *, confidence: float) -> list[Finding]:
    """Say whether a definition gives more than with shares shuffled among occupations (``paradox_shuffled``).

    ``no_exclusion`` cannot change, so nothing is said of it.
    """
    rule = {"published": "By the published rule", "directional": "Along the training lean"}
    rows = _summary(shuffled[(shuffled["approach"] == "naive") & shuffled["definition"].isin(rule)])
    # Where no occupation is left there is nothing to shuffle.
    rows = rows[rows["shuffled"].notna()]
    ends = {"more": "shuffled", "ci_low": "shuffled_high", "ci_high": "shuffled_low"}
    more = {name: rows["amplification_plain"] - rows[end] for name, end in ends.items()}
    return by_row(
        rows.assign(**more, rule=rows["definition"].map(rule)),
        "{rule}: is there more amplification than with shuffled shares?",
        ("More.", "Less.", "Not told apart."),
        *("more", "points more than shuffled", "n_occupations", "occupations"),
        details=("{amplification_plain} points as observed, {shuffled} shuffled; noise left in.",),
        p="p",
        confidence=confidence,
    )


# -- section 5 ---------------------------------------------------------------------------------------------------


def indicators(use: pd.DataFrame, *, confidence: float) -> list[Finding]:
    """Say how often captions indicate a gender, and whether the rarer one more (``paradox_indicator_use``, 5.1)."""

    def say(corpus: str, rows: pd.DataFrame) -> list[Finding]:
        percent = rows.set_index("images")["percent"]
        rows = rows.assign(planted=truths.said(corpus, "indicators"), **percent[["rarer", "commoner"]])
        every = by_row(
            rows[rows["images"] == "all"],
            "How often do captions of {corpus} indicate a gender?",
            "{percent} % do.",
            *("percent", "%", "n", "occupations"),
            figure="paradox_indicator_correlation",
            details=("The paper states {published:g} % for LAION.", "{planted}"),
        )
        return every + by_row(
            rows[(rows["images"] == "difference") & rows["ci_low"].notna()],
            "Do captions of {corpus} name the rarer gender more often?",
            ("Yes.", "No: less often.", "Not told apart."),
            *("percent", "points", "n", "occupations"),
            figure="paradox_indicator_use",
            details=("{rarer} % for images of the rarer gender, {commoner} % for the other.",),
            p="p",
            confidence=confidence,
        )

    return each(use, ["corpus"], say)


def correlation(correlation: pd.DataFrame, *, confidence: float) -> list[Finding]:
    """Say how women in images go with female indicators (``paradox_indicator_correlation``, section 5.1)."""
    rows = correlation[(correlation["gender"] == "female") & (correlation["counted"] == "any")]
    rows = rows[rows["ci_low"].notna()]
    opposite = np.where(rows["published"] < 0, rows["ci_low"] > 0, rows["ci_high"] < 0)
    return by_row(
        rows.assign(sign=np.where(opposite, ": the opposite sign", "")),
        "Do female indicators in captions of {corpus} go with women in the images?",
        ("They rise together.", "One falls as the other rises.", "No sign is told."),
        *("r", "(Pearson's r)", "n", "occupations"),
        figure="paradox_indicator_correlation",
        details=("The paper prints {published:g} for LAION{sign}.",),
        p="p",
        confidence=confidence,
    )


def similarity(means: pd.DataFrame, *, confidence: float) -> list[Finding]:
    """Say how much nearer the nearest captions and their images are (``paradox_similarity_mean``, 5.2)."""
    what = {"text": "captions nearer to the prompts", "image": "training images nearer to generated ones"}
    rows = means[(means["prompt"] == "mean") & (means["approach"] == "nearest") & means["change"].notna()]
    return by_row(
        rows.assign(what=rows["compared"].map(what)),
        "Are the nearest {what} than random ones?",
        ("Yes.", "No: farther.", "Not told apart."),
        *("change", "(mean cosine)", "n", "occupations"),
        limits=("change_low", "change_high"),
        figure="paradox_similarity",
        details=("{change_percent:+.0f} %; the paper states {published_percent:+.0f} % for LAION.",),
        p="p",
        confidence=confidence,
    )


def reduction(reduction: pd.DataFrame) -> list[Finding]:
    """Say how far printed averages fall to the most restrictive selection (``paradox_reduction``, Table 3).

    Approaches that have shares are told by :func:`changes`.
    """
    plain = reduction[(reduction["scale"] == "printed") & reduction["approach"].isin(SELECTED)]
    plain = plain.groupby("model", sort=False).tail(1)
    return by_row(
        plain.assign(name=plain["approach"].map(APPROACH_NAMES), fall=_percent(plain, "naive")),
        "How far does the published measure fall with “{name}”?",
        "From {naive} to {amplification} points{fall}.",
        *("change", "points", "", ""),
        figure="paradox_approaches",
        details=("Of shares as they are: no shares are given for this approach, so there is no interval.",),
    )


def _percent(rows: pd.DataFrame, base: str) -> pd.Series:
    # A fall below 0 is no share of what was there.
    share = (rows[base] > 0) & (rows["amplification"] > 0)
    return rows["change_percent"].map(" ({:+.0f} %)".format).where(share, "")


def changes(change: pd.DataFrame, approaches: Sequence[str], *, confidence: float) -> list[Finding]:
    """Say whether the published measure changes to each of ``approaches`` (``paradox_approach_change``)."""
    rows = change[(change["definition"] == "published") & change["prompt"].isin(["mean", "captions"])]
    rows = rows[rows["approach"].isin(approaches)]
    rows = rows.sort_values("approach", key=lambda c: c.map(list(approaches).index), kind="stable")
    names = {"first": rows["approach"].map(APPROACH_NAMES), "second": rows["reference"].map(APPROACH_NAMES)}
    return by_row(
        weighed(rows, "change", "change_plain").assign(
            **names, fall=_percent(rows, "reference_amplification")
        ),
        "Is there less amplification with “{first}” than with “{second}”?",
        ("No: more.", "Yes.", "{unknown}"),
        *("change", "points", "n_occupations", "occupations"),
        figure="paradox_approach_change",
        details=("From {reference_amplification} to {amplification} points{fall}.", "{both}", "{why}"),
        p="p_told",
        confidence=confidence,
    )


def t_tests(amplification: pd.DataFrame, approaches: Sequence[str], *, confidence: float) -> list[Finding]:
    """Say for which prompts the test rejects that amplification is 0, noise taken out (``paradox_amplification``).

    Prompts are adjusted for one another (Holm).
    """
    rows = amplification[(amplification["definition"] == "published") & amplification["t"].notna()]
    rows = weighed(rows[rows["approach"].isin(approaches) & (rows["prompt"] != "mean")])

    def say(model: str, approach: str, rows: pd.DataFrame) -> Finding:
        p = stats.adjust(rows["p_told"])
        rejected = ", ".join(
            _whose(prompt) for prompt in rows.loc[p < stats.significance(confidence), "prompt"]
        )
        undecided = "Not told apart from 0."
        return Finding(
            f"Does the t-test leave any amplification with “{APPROACH_NAMES[approach]}”?",
            f"Yes, for {rejected}." if rejected else undecided,
            model,
            n=rows["n_occupations"].min(),
            of="occupations",
            undecided=undecided,
            p=float(p.min()),
            alpha=stats.significance(confidence),
            details=tuple(
                f"{_whose(r.prompt).capitalize()}: {spoken(r.amplification)} points, t = {r.t:.2f}, {p_words(r.p)}, "
                f"{r.n_occupations:.0f} occupations."
                for r in rows.itertuples()
            ),
        )

    return each(rows, ["model", "approach"], say)


def printed_tests(tests: pd.DataFrame) -> list[Finding]:
    """Say which of the paper's tests cannot be made again, because it prints no shares (``paradox_t_tests``)."""
    lost = tests[(tests["printed_rejected"] != "") & tests["p"].isna()]
    return [
        Finding(
            "Can the paper's t-tests be made again?",
            f"None of {len(rows)}: it prints no shares for these approaches.",
            model,
            details=(
                f"It rejects {(rows['printed_rejected'] == 'yes').sum()} of them at {_PAPERS_LEVEL:g} (section 5.3, "
                "footnote 11).",
            ),
        )
        for model, rows in lost.groupby("model", sort=False)
    ]


# -- section 6 and A.6 -------------------------------------------------------------------------------------------


def captions_as_prompts(
    amplification: pd.DataFrame,
    printed: pd.DataFrame,
    approaches: Sequence[str],
    *,
    enough: bool,
    confidence: float,
) -> list[Finding]:
    """Say whether bias is amplified when captions, or paraphrases of them (``approaches``), are the prompts.

    Of ``paradox_amplification`` and ``paradox_printed_amplification``; ``enough`` tells those on as many images as
    intervals can be trusted with, else those on fewer.
    """
    asked = {
        "published": "Is bias amplified with “{}”, by the published rule?",
        "directional": "Do images move along the training lean with “{}”?",
    }
    rows = amplification[amplification["approach"].isin(approaches) & amplification["n_occupations"].notna()]
    rows = rows[((rows["n_images"] >= LEAST_IMAGES) == enough) & rows["definition"].isin(asked)]
    papers = printed.drop_duplicates("approach").set_index("approach")["amplification_plain"]
    stated = rows["approach"].map(papers).where(rows["definition"] == "published")
    rows = rows.assign(
        question=[asked[r.definition].format(APPROACH_NAMES[r.approach]) for r in rows.itertuples()],
        stated=stated.map("The paper states {:.2f} for SD 1.4.".format).where(stated.notna(), ""),
    )
    return _amplified(rows, "{stated}", confidence=confidence)


def gender_words(accuracy: pd.DataFrame, approach: str) -> list[Finding]:
    """Say how often images follow the gender indicators in captions (``paradox_gender_word_accuracy``, section 6).

    ``approach`` is ``caption_prompts`` or ``paraphrased``.
    """
    rows = accuracy[(accuracy["approach"] == approach) & (accuracy["indicator"] == "all")]
    shown = {
        "training image": "that the caption's own image shows",
        "indicator": "that the caption indicates",
    }
    stated = (
        rows["published"]
        .map("The paper states {:g} % for SD 1.4.".format)
        .where(rows["published"].notna(), "")
    )
    rows = rows.assign(shown=rows["against"].map(shown), stated=stated)
    return by_row(
        rows[rows["n"] > 0],
        f"{APPROACH_NAMES[approach]}: how many generated images have the gender {{shown}}?",
        "{percent} %.",
        *("percent", "%", "n", "images"),
        details=("{stated}",),
    )


def paraphrases(check: pd.DataFrame) -> list[Finding]:
    """Say how many paraphrases changed their caption and kept what they had to (``paradox_paraphrase_check``, A.6)."""
    kept = {"occupation_kept": "keep the occupation", "indicator_kept": "keep the gender indicator"}
    rows = check[check["n"] > 0]
    return by_row(
        rows.assign(what=rows["check"].map({"changed": "differ from their caption"} | kept)),
        "How many paraphrases of {corpus} {what}?",
        "{percent} %.",
        *("percent", "%", "n", "paraphrases"),
    )


# -- section 8 ---------------------------------------------------------------------------------------------------


def variation(variation: pd.DataFrame, *, confidence: float) -> list[Finding]:
    """Say how many occupations move between prompts by more than noise, and how many change their lean (section 8).

    Of ``paradox_prompt_variation``; ``confidence`` is the level of its intervals, 0–1.
    """

    alpha = stats.significance(confidence)

    def say(model: str, rows: pd.DataFrame) -> list[Finding]:
        tested, beyond = int(rows["p_holm"].notna().sum()), int((rows["p_holm"] < alpha).sum())
        sd, noise = (spoken(rows[c].median()) for c in ("sd_prompts", "sd_noise"))
        details = [f"Median standard deviation over prompts: {sd} points, {noise} by noise alone."]
        details += [f"Counted is a p below {alpha:g}, adjusted over occupations (Holm)."] if tested else []
        numbers = _number(100 * beyond / tested, "% of occupations", tested, "tested") if tested else {}
        few, flips = "Too few images to test it.", (rows["lean_flips"] != "no").sum()
        n, surely = len(rows), (rows["p_lean"] < alpha).sum()
        # Where no prompts' intervals could lie on either side of 50, that none did says nothing.
        could = (rows["flip_possible"] == "yes").any()
        none = "none beyond sampling noise" if could else "too few images to be sure"
        return [
            Finding(
                "Do shares differ between prompts beyond sampling noise?",
                f"In {beyond} of {tested} occupations tested." if tested else few,
                model,
                **numbers,
                figure="paradox_prompt_noise",
                details=tuple(details),
                undecided="Not told apart from sampling noise." if tested else few,
                p=rows["p_holm"].min(),
                alpha=alpha,
            ),
            Finding(
                "Does the lean of an occupation turn with the prompt?",
                f"For {flips} of {n}; {surely} beyond sampling noise.",
                model,
                **_number(100 * flips / n, "% of occupations", n, "occupations"),
                figure=f"paradox_prompt_variation_{as_name(model)}",
                undecided=f"For {flips} of {n}; {none}.",
                p=rows["p_lean"].min() if could else np.nan,
                alpha=alpha,
            ),
        ]

    return each(variation[variation["n"] > 0], ["model"], say)


def printed_spread(spread: pd.DataFrame) -> list[Finding]:
    """Say how far computed spreads over prompts are from printed ones (``paradox_printed_spread``)."""
    most = spread["difference"].abs().groupby(spread["model"], sort=False).agg(["max", "size"])
    return [
        Finding(
            "Do spreads over prompts follow from the printed shares?",
            f"Within {row.max:.2f} points; shares and spreads are rounded to 0.1.",
            row.Index,
            **_number(row.max, "points at most", row.size, "occupations"),
        )
        for row in most.itertuples()
    ]


# -- A.4 ---------------------------------------------------------------------------------------------------------

_MEASURES = {
    "sensitivity": "How many judged {} images that show a woman are judged female?",
    "specificity": "How many judged {} images that show a man are judged male?",
    "judged_female": "How many {} images that show a woman pass the gate and are judged?",
    "judged_male": "How many {} images that show a man pass the gate and are judged?",
    "judged_neither": "How many {} images that show neither are judged all the same?",
}
_REFERENCES = {
    "truth": "known truth",
    "ratings": "raters' majority",
    "simulated": "simulated raters' majority",
}


def rater_agreement(agreement: pd.DataFrame, kind: str, note: str) -> list[Finding]:
    """Say how far raters agree, and how often the judge says what most of them say (``judging_agreement``).

    ``kind`` is ``ratings`` of people or ``simulated``, ``note`` says where the ratings come from.
    """
    simulated = kind == "simulated"
    who = "simulated raters" if simulated else "raters"
    asked = {
        ("krippendorff_alpha", "female/male/unsure"): (f"How far do {who} agree?", "alpha"),
        ("judge_agreement", "female/male"): (f"How often does the judge say what most {who} say?", "%"),
    }
    found = []
    for row in agreement[(agreement["subset"] == "all") & agreement["value"].notna()].itertuples():
        if (row.statistic, row.labels) in asked:
            question, unit = asked[row.statistic, row.labels]
            value = f"{row.value:.3f}" if unit == "alpha" else f"{spoken(row.value)} %"
            beside = "this says nothing about people" if simulated else f"printed {row.published:g}"
            numbers = "value", unit, "n_items", "images"
            found.append(from_row(row, question, f"{value}; {beside}.", *numbers, details=(note,)))
    return found


def judge_error(errors: pd.DataFrame) -> list[Finding]:
    """Say how often the judge is right over all images of a source, against each reference (``judging_error``)."""
    rows = errors[(errors["group"] == "all") & errors["value"].notna()]
    asked = [_MEASURES[row.measure].format(row.source) for row in rows.itertuples()]
    return by_row(
        rows.assign(asked=asked, who=rows["reference"].map(_REFERENCES)),
        "{asked}",
        "{value} %, against the {who}.",
        *("value", "%", "n", "images"),
    )


def correction(corrected: pd.DataFrame) -> list[Finding]:
    """Say how far a correction for the judge's errors moves shares (``judging_corrected``)."""

    def say(source: str, rows: pd.DataFrame) -> Finding:
        asked = f"How far does correction move shares of {source} images?"
        by = (rows["percent_corrected"] - rows["percent_female"]).abs().dropna()
        if by.empty:
            why = f"{rows['reason'].iloc[0].capitalize()}."
            return Finding(asked, "They are not corrected.", details=(why,))
        said = f"By {spoken(by.mean())} points on average, at most {spoken(by.max())}."
        return Finding(asked, said, **_number(by.mean(), "points", len(by), "shares"))

    return each(corrected, ["source"], say) if corrected["percent_corrected"].notna().any() else []


# -- what serves several -----------------------------------------------------------------------------------------


def _summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the prompt that stands for all: their mean, or the only one."""
    mean = rows["prompt"] == "mean"
    return rows[mean if mean.any() else rows["prompt"].isin(rows["prompt"].head(1))]


def _number(estimate: float, unit: str, n: float, of: str, low: float = np.nan, high: float = np.nan) -> dict:
    return {"estimate": estimate, "ci_low": low, "ci_high": high, "unit": unit, "n": n, "of": of}
