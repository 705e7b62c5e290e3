"""What the paradox notebooks that need captions and images say in words, and the galleries that they show.

Galleries need images; from a source that has tables only they say so and the notebook goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from biaslab.errors import MissingInputError
from biaslab.figures.paradox import APPROACH_NAMES, prompt_name
from biaslab.studies import paradox
from biaslab.studies import paradox_sections as sections
from biaslab.studies.paradox_words import made_with, names, stated_n, titles, with_interval

if TYPE_CHECKING:
    from biaslab.study import Study


def _percent(row: pd.Series) -> str:
    return f"{row['percent']:.1f} % ({row['ci_low']:.1f} to {row['ci_high']:.1f})"


def _corpus(study: Study, corpus: str) -> str:
    """Return what findings call a corpus."""
    return f"Captions of {corpus}{' (embedded world)' if _is_embedded(study) else ''}"


def _is_embedded(study: Study) -> bool:
    """Return whether the captions are the embedded world's."""
    told = study.measured_or_empty("pipeline_settings")
    return bool(((told["setting"] == "captions.corpus") & (told["value"] == "mini")).any())


def _opposite(row: Mapping) -> bool:
    """Return whether a correlation and its interval lie on the other side of 0 than the printed one."""
    return row["ci_low"] > 0 > row["published"] or row["ci_high"] < 0 < row["published"]


def _level(study: Study) -> str:
    return f"In brackets: {100 * study.confidence:g} % intervals."


# -- sections 2 and 3 ------------------------------------------------------------------------------------------


def templates(prompts: pd.DataFrame) -> pd.DataFrame:
    """Return each template's first prompt and how many prompts and images it gives (layout of Table 1).

    Args:
        prompts: The table ``paradox_prompts``.
    """
    rows = prompts[prompts["approach"] == "naive"].groupby("prompt", sort=True)
    found = rows.agg(example=("text", "first"), prompts=("text", "size"), images=("n_images", "sum"))
    return found.reset_index()


def headlines_captions(study: Study, found: pd.DataFrame) -> list[str]:
    """Say how many captions of each corpus name the occupations, and which occupations have too few.

    Args:
        study: Tells whether captions are those of the embedded world.
        found: The table ``paradox_captions_found``.
    """
    sentences = []
    for corpus, rows in found.groupby("corpus", sort=False):
        most, n = rows["n_sampled"].max(), rows["n_captions"]
        short = rows.loc[rows["n_sampled"] < most, "occupation"].tolist()
        less = f"; fewer than that name {', '.join(short)}" if short else ""
        sentences.append(
            f"{_corpus(study, corpus)}: {rows['n_corpus'].max():,.0f} searched for {len(rows)} occupations; between "
            f"{n.min():,.0f} and {n.max():,.0f} captions name each (median {n.median():,.0f}), {most:,.0f} are taken "
            f"of each at random{less}."
        )
    return sentences


def headlines_gate(study: Study, outcomes: pd.DataFrame) -> list[str]:
    """Say for each source how many images passed the gate, and how many have a gender in the end.

    Args:
        study: For the names of models and the level of the intervals.
        outcomes: The table ``paradox_outcomes``.
    """
    rates = sections.gate_rates(outcomes, study.confidence)
    called = names(study, outcomes["model"])
    keys = ["model", "source", "approach", "prompt"]
    judged = outcomes[outcomes["outcome"] == "judged"].set_index(keys)
    sentences = []
    for (model, source), rows in rates[rates["approach"] == "naive"].groupby(["model", "source"], sort=False):
        for row in rows.itertuples():
            in_words = "all captions" if row.prompt == "captions" else prompt_name(row.prompt).lower()
            done = judged.loc[(model, source, row.approach, row.prompt)]
            sentences.append(
                f"{called[model]}: of {row.n_images:,.0f} {source} images ({in_words}) "
                f"{row.percent:.1f} % ({row.ci_low:.1f} to {row.ci_high:.1f}) show one clear face and "
                f"{_percent(done)} are judged female or male."
            )
    return [f"{s} {_level(study)}" for s in sentences]


def caption_outcomes(study: Study) -> str:
    """Caption of the figure of outcomes."""
    return (
        "What became of the images of each source: judged female or male (light, with its share), or the reason why "
        "an image has no gender. Every image is counted in one of them; n is the number of images. Training images "
        "are those behind the captions that an approach selects, summed over occupations; images of the four prompts "
        f"serve all approaches that select captions. {_how(study)}"
    )


def _how(study: Study) -> str:
    """Say how the images of each measured model were made: for captions of figures."""
    models = dict.fromkeys(study.measured_or_empty("pipeline_settings")["model"])
    return " ".join(f"{name}: {said}." for name in models if (said := made_with(study, name)))


def caption_found(study: Study) -> str:
    """Caption of the figure of captions found."""
    return (
        "Captions that name each occupation (dots), those among which the nearest are looked for (diamonds) and the "
        "random sample (bars), on a scale of powers of ten. What an occupation lacks in captions it lacks in "
        "training "
        "images, too."
    )


# -- section 5.1 -----------------------------------------------------------------------------------------------


def marked(caption: str, spans: str) -> str:
    """Return a caption with the words that indicate a gender in square brackets.

    Args:
        caption: The caption.
        spans: ``start:end:label`` in characters, joined by ``;``, as :func:`biaslab.captions.indicators.indicators`
            gives them.
    """
    from biaslab.captions.indicators import parse_spans

    out, at = [], 0
    for span in sorted(parse_spans(spans), key=lambda s: s.start):
        if span.start < at:  # within one that is marked already
            continue
        out += [caption[at : span.start], "[", caption[span.start : span.end], "]"]
        at = span.end
    return "".join([*out, caption[at:]])


def examples(table: pd.DataFrame, occupations: Sequence[str], *, each: int = 1) -> pd.DataFrame:
    """Return example captions of some occupations with their indicators marked (layout of Table 5).

    Args:
        table: The table ``paradox_examples``.
        occupations: Which occupations, in order.
        each: How many captions of each kind of indicator.
    """
    some = table[table["occupation"].isin(occupations) & (table["indicator"] != "none")]
    some = some.groupby(["occupation", "indicator"], sort=False).head(each)
    order = {o: i for i, o in enumerate(occupations)}
    some = some.sort_values("occupation", key=lambda c: c.map(order), kind="stable")
    shown = [marked(c, s) for c, s in zip(some["caption"], some["spans"], strict=True)]
    return some.assign(caption=shown)[["occupation", "indicator", "caption", "gender"]].reset_index(drop=True)


def some_occupations(study: Study, wanted: Sequence[str] = (), *, most: int = 4) -> list[str]:
    """Return the occupations to show: those wanted that were measured, else some from few women to many.

    Args:
        study: Gives the measured shares.
        wanted: Names; those that were not measured are passed over.
        most: How many to take where none of them was.
    """
    try:
        shares = study.measured("paradox_percent_female")
    except MissingInputError:
        # Captions without images: those that occur.
        found = study.measured("paradox_captions_found").query("n_captions > 0")["occupation"].tolist()
        return [o for o in wanted if o in found] or found[:most]
    shares = shares[(shares["source"] == "training") & (shares["approach"] == "naive")]
    # The first model is the one whose images there are.
    shares = shares[shares["model"] == shares["model"].iloc[0]].dropna(subset=["percent_female"])
    there = [o for o in wanted if o in set(shares["occupation"])]
    if there:
        return there
    ordered = shares.sort_values("percent_female", kind="stable")["occupation"].tolist()
    steps = np.linspace(0, len(ordered) - 1, min(most, len(ordered))).round().astype(int)
    return [ordered[i] for i in steps]


def headlines_indicators(study: Study, use: pd.DataFrame, correlation: pd.DataFrame) -> list[str]:
    """Say how often captions indicate a gender, for whom more, and how that goes with who is shown.

    Args:
        study: For the level of the intervals.
        use: The table ``paradox_indicator_use``.
        correlation: The table ``paradox_indicator_correlation``.
    """
    sentences = []
    for corpus, rows in use.groupby("corpus", sort=False):
        by = rows.set_index("images")
        every, gap = by.loc["all"], by.loc["difference"]
        sentences.append(
            f"{_corpus(study, corpus)}: {_percent(every)} indicate a gender, mean over {every['n']:.0f} "
            f"occupations (paper, LAION: {every['published']:g} %). {_level(study)}"
            + (
                " The embedded world was set to the paper's share, so that the two are near is no replication."
                if _is_embedded(study)
                else ""
            )
        )
        if np.isfinite(gap["ci_low"]):
            sentences.append(
                f"{_corpus(study, corpus)}: they indicate a gender for {by.loc['rarer', 'percent']:.1f} % of "
                "images of an "
                f"occupation's rarer gender and {by.loc['commoner', 'percent']:.1f} % of the other: a difference of "
                f"{gap['percent']:.1f} points ({gap['ci_low']:.1f} to {gap['ci_high']:.1f}), "
                f"{_sign(gap, 'percent')}, "
                f"over {gap['n']:.0f} occupations. {_level(study)}"
            )
    row = correlation[(correlation["gender"] == "female") & (correlation["counted"] == "any")]
    for one in row.to_dict("records"):
        if np.isfinite(one["ci_low"]):
            sentences.append(
                f"{_corpus(study, one['corpus'])}: the share of images perceived as female correlates with the "
                "share of "
                "captions "
                f"with female indicators at r = {one['r']:.2f} ({one['ci_low']:.2f} to {one['ci_high']:.2f}, p = "
                f"{one['p']:.2g}, {one['n']:.0f} occupations; paper, LAION: {one['published']:g}"
                f"{', the opposite sign' if _opposite(one) else ''}). {_level(study)}"
            )
    return sentences


def _sign(row: pd.Series, value: str) -> str:
    """Say on which side of 0 an interval lies."""
    if row["ci_low"] > 0 or row["ci_high"] < 0:
        return "an interval that excludes 0"
    return "an interval that includes 0"


def caption_indicator_shares() -> str:
    """Caption of the figure of indicators by occupation."""
    return (
        "Captions of the random sample that indicate a gender by words, pronouns or names (bars), and the "
        "share of their "
        "images perceived as female (diamonds), from the occupation with the fewest women to that with the most. The "
        "rest of each bar up to 100 % are captions without any indicator."
    )


def caption_indicator_correlation(study: Study, correlation: pd.DataFrame) -> str:
    """Caption of the figure of the correlation.

    Args:
        study: For the level of the intervals.
        correlation: The table ``paradox_indicator_correlation``.
    """
    some = correlation[(correlation["counted"] == "any") & correlation["published"].notna()]
    beside = [
        f" {_corpus(study, row['corpus'])}: r = {row['r']:.2f} for {row['gender']} indicators, where the paper prints "
        f"{row['published']:g} for LAION{': the opposite sign' if _opposite(row) else ''}."
        for row in some.to_dict("records")
        if np.isfinite(row["r"])
    ]
    return (
        "One mark an occupation: share of training images perceived as of a gender (across) against the share of "
        "captions with indicators of that gender, alone or beside the other's (up). Thin lines are "
        f"{100 * study.confidence:g} % Wilson intervals, the black line is the least-squares line. In the headings: "
        f"Pearson's r with its {100 * study.confidence:g} % interval (Fisher z) and the number of occupations."
        + "".join(beside)
    )


def caption_indicator_use() -> str:
    """Caption of the figure of indicators by perceived gender."""
    return (
        "Captions with any gender indicator, of images perceived as female (circles) and as male (squares), from the "
        "occupation with the fewest women to that with the most. Where the gender that is rarer stands to the "
        "right, it "
        "is named more often. A gender with few images has an uncertain mark; their numbers are in the table."
    )


def show_occupation(study: Study, occupation: str) -> None:
    """Save the shares, and the figure of one occupation's with and without indicators (layout of Figure 1)."""
    from biaslab.figures import paradox_pipeline as figures

    try:
        rows = study.table("paradox_percent_female")
    except MissingInputError as missing:
        print(f"No shares: {missing}")
        return
    rows = rows[(rows["occupation"] == occupation) & rows["percent_female"].notna()]
    training = (rows["source"] == "training") & rows["approach"].isin(["naive", "no_indicators"])
    rows = rows[training | ((rows["source"] == "generated") & (rows["approach"] == "naive"))]
    both = rows.groupby("model")["approach"].nunique()
    rows = rows[rows["model"].map(both) > 1]
    if rows.empty:
        print(f"The source has no shares of {occupation!r} for captions without gender indicators.")
        return
    study.save_table("paradox_percent_female")
    study.save_figure(
        "paradox_occupation_example",
        figures.occupation_shares(rows, occupation, titles(study, rows["model"])),
        title=f"All captions and those without indicators: {occupation}",
        caption=(
            f"{occupation.capitalize()}: share perceived as female in training images, behind all captions and "
            "behind "
            f"those without gender indicators, and in generated images by prompt, with {100 * study.confidence:g} % "
            f"Wilson intervals. {_how(study)}"
        ),
    )


# -- section 5.2 -----------------------------------------------------------------------------------------------


def headlines_similarity(study: Study, means: pd.DataFrame) -> list[str]:
    """Say how much nearer the nearest captions and their images are to prompts and generated images.

    Args:
        study: For the names of models and the level of the intervals.
        means: The table ``paradox_similarity_mean``.
    """
    called = names(study, means["model"])
    overall = means[means["prompt"] == "mean"].set_index(["model", "approach", "compared"])
    what = {"text": "captions to prompts", "image": "training to generated images"}
    sentences = []
    for model in dict.fromkeys(means["model"]):
        for compared, words in what.items():
            keys = [(model, a, compared) for a in ("naive", "nearest")]
            if any(k not in overall.index or np.isnan(overall.loc[k, "similarity"]) for k in keys):
                continue
            start, end = (overall.loc[k] for k in keys)
            sentences.append(
                f"{called[model]}: the mean cosine of {words} is {_cosine(start)} for random captions and "
                f"{_cosine(end)} "
                f"for the nearest: {end['change']:+.3f} ({end['change_low']:+.3f} to {end['change_high']:+.3f}), or "
                f"{end['change_percent']:+.0f} % (paper, LAION: {end['published_percent']:+.0f} %), over "
                f"{end['n']:.0f} "
                f"occupations. {_level(study)}"
            )
    return sentences


def _cosine(row: pd.Series) -> str:
    return f"{row['similarity']:.3f} ({row['ci_low']:.3f} to {row['ci_high']:.3f})"


def caption_similarity(study: Study) -> str:
    """Caption of the figure of similarities."""
    return (
        "Left: mean cosine of sentence embeddings of the captions that an approach selects with the prompt. "
        "Right: mean "
        "cosine of CLIP embeddings of their images with the generated images. Small marks are occupations, "
        "averaged over "
        f"the prompts; black dots are means over occupations with {100 * study.confidence:g} % intervals "
        "(Student t); "
        f"hollow diamonds are what the paper states for LAION. {_how(study)}"
    )


# -- section 5.3 -----------------------------------------------------------------------------------------------


def show_approach_shares(study: Study, occupations: pd.DataFrame, prompt: str, *, main: bool = False) -> None:
    """Save the figure of shares by approach for a prompt or for the mean of prompts (layouts of Figures 7 and 9).

    Models without shares of restricted captions have nothing to show here.

    Args:
        study: Where it is saved.
        occupations: The table ``paradox_occupation_amplification``.
        prompt: ``1`` to ``4``, or ``mean``.
        main: Whether the report's first page shows it.
    """
    from biaslab.figures import paradox as figures

    rows = occupations[occupations["approach"].isin(list(APPROACH_NAMES)[:4])]
    more = rows[rows["approach"] != "naive"]
    rows = rows[rows["model"].isin(set(more["model"]))]
    rows = sections.mean_over_prompts(rows) if prompt == "mean" else rows[rows["prompt"] == prompt]
    if rows.empty:
        print("The source has no shares per occupation for restricted captions, so there is nothing to draw.")
        return
    heads = titles(study, rows["model"])
    several = rows["model"].nunique() > 1
    panels = {
        (f"{heads[model]}\n" if several else "") + APPROACH_NAMES[approach]: some
        for (model, approach), some in rows.groupby(["model", "approach"], sort=False)
    }
    which = "averaged over prompts" if prompt == "mean" else prompt_name(prompt).lower()
    lines = f"thin lines are {100 * study.confidence:g} % Wilson intervals. " if prompt != "mean" else ""
    study.save_figure(
        f"paradox_approach_shares_{'mean' if prompt == 'mean' else 'prompt_' + prompt}",
        figures.share_panels(panels, label_most=14),
        title=f"Training against generated images by approach, {which}",
        caption=(
            "Share perceived as female in training images (across) and generated images (up) for each way of "
            "selecting "
            f"training captions, {which}, one point an occupation; {lines}Hollow crosses are left out by the "
            "published "
            f"rule. Generated images are the same in all panels. {'; '.join(names(study, rows['model']).values())}; "
            f"{_ns(study, rows)}."
        ),
        main=main,
    )


def _ns(study: Study, rows: pd.DataFrame) -> str:
    """Say over how many images the shares of each drawn model and approach are taken."""
    several = rows["model"].nunique() > 1
    return "; ".join(
        f"{model + ', ' if several else ''}{APPROACH_NAMES[approach].lower()}: {stated_n(study, model, approach)}"
        for model, approach in dict.fromkeys(zip(rows["model"], rows["approach"], strict=True))
    )


def show_changes(study: Study) -> pd.DataFrame:
    """Save the table, figure and findings of changes between approaches; return the table.

    Where the source has no shares of two approaches there is no change to show, and nothing is saved.
    """
    from biaslab.figures import paradox_pipeline as figures

    change = study.table("paradox_approach_change")
    if change.empty:
        print(
            "The source has no shares per occupation of a second approach, so there is no change to measure."
        )
        return change
    study.save_table("paradox_approach_change")
    study.save_figure(
        "paradox_approach_change",
        figures.changes(change, titles(study, change["model"])),
        title="Change of amplification from the naive approach",
        caption=caption_changes(study),
    )
    naive = change[change["reference"] == "naive"]
    study.headline(*headlines_change(study, naive, ["nearest_no_indicators"]), main=True)
    study.headline(*headlines_change(study, naive, ["no_indicators", "nearest", "caption_prompts"]))
    return change


def headlines_change(study: Study, change: pd.DataFrame, approaches: Sequence[str]) -> list[str]:
    """Say how far amplification changes from the reference to each of ``approaches``, by the published rule.

    Args:
        study: For the names of models and the level of the intervals.
        change: The table ``paradox_approach_change``.
        approaches: Which approaches, in order.
    """
    called = names(study, change["model"])
    some = change[(change["definition"] == "published") & change["prompt"].isin(["mean", "captions"])]
    sentences = []
    for model, rows in some.groupby("model", sort=False):
        for approach in approaches:
            for row in rows[rows["approach"] == approach].to_dict("records"):
                by = with_interval(pd.Series(row), "change", sign="+")
                # A fall below 0 is no share of what was there.
                falls = row["amplification"] > 0 and np.isfinite(row["change_percent"])
                percent = f", {row['change_percent']:+.0f} %" if falls else ""
                sentences.append(
                    f"{called[model]}: from {_quoted(row['reference'])} to {_quoted(approach)} the published measure "
                    f"changes by {by}{percent}, from {row['reference_amplification']:.2f} to "
                    f"{row['amplification']:.2f}, over {row['n_occupations']:.0f} occupations measured with both. "
                    f"{_level(study)} {row['reason']}".rstrip()
                )
    return sentences


def _quoted(approach: str) -> str:
    return f"“{APPROACH_NAMES[approach]}”"


def t_tests(amplification: pd.DataFrame, approaches: Sequence[str]) -> pd.DataFrame:
    """Return the tests of no amplification by prompt, published rule: without image noise, and the paper's plain t.

    Args:
        amplification: The table ``paradox_amplification``.
        approaches: Which approaches.
    """
    some = amplification[(amplification["definition"] == "published") & amplification["t"].notna()]
    columns = ["model", "approach", "prompt", "amplification", "n_occupations", "t", "p"]
    columns += ["amplification_plain", "t_plain", "p_plain"]
    return some.loc[some["approach"].isin(approaches), columns].reset_index(drop=True)


def headlines_t(study: Study, tests: pd.DataFrame) -> list[str]:
    """Say for which prompts the test rejects that expected amplification is 0, image noise taken out.

    Args:
        study: For the names of models.
        tests: Rows of :func:`t_tests`.
    """
    called = names(study, tests["model"])
    sentences = []
    for (model, approach), rows in tests.groupby(["model", "approach"], sort=False):
        said = [
            f"{prompt_name(r.prompt).lower()} {'rejected' if r.p < 0.05 else 'not rejected'} "
            f"(t = {r.t:.2f}, p = {r.p:.2g}, {r.n_occupations:.0f} occupations)"
            for r in rows.itertuples()
        ]
        sentences.append(
            f"{called[model]}, {_quoted(approach)}: t-tests of no amplification (published rule, image noise taken "
            f"out, level 0.05): {'; '.join(said)}."
        )
    return sentences


# -- section 6 and A.6 -----------------------------------------------------------------------------------------


def show_caption_shares(
    study: Study, occupations: pd.DataFrame, approaches: Sequence[str], name: str
) -> None:
    """Save the figure of shares where captions are the prompts (layout of Figure 5).

    Args:
        study: Where it is saved.
        occupations: The table ``paradox_occupation_amplification``.
        approaches: Which approaches: all captions, and those without indicators.
        name: The figure's name.
    """
    from biaslab.figures import paradox as figures

    rows = occupations[occupations["approach"].isin(approaches)]
    if rows.empty:
        raise MissingInputError(f"The source has no shares for {' or '.join(approaches)}.")
    called = names(study, rows["model"])
    panels = {
        f"{APPROACH_NAMES[approach]}\n{called[model]}": some
        for (model, approach), some in rows.groupby(["model", "approach"], sort=False)
    }
    study.save_figure(
        name,
        figures.share_panels(panels, label_most=14),
        title="Training against generated images: " + APPROACH_NAMES[approaches[0]].lower(),
        caption=(
            "Share perceived as female in the images behind captions (across) and in images generated from "
            "them (up), one "
            f"point an occupation, thin lines {100 * study.confidence:g} % Wilson intervals; left from all "
            "captions of the "
            "sample, right from those without gender indicators. Hollow crosses are left out by the published rule. "
            f"{'; '.join(called.values())}; {_ns(study, rows)}."
        ),
        main=True,
    )


def find_captions_as_prompts(
    study: Study, amplification: pd.DataFrame, approaches: Sequence[str], *, main: bool = False
) -> None:
    """Record how much is amplified when captions, or paraphrases of them, are the prompts.

    What rests on fewer images than intervals can be trusted with is no main finding.

    Args:
        study: Where it is recorded.
        amplification: The table ``paradox_amplification``.
        approaches: Which approaches.
        main: Whether findings on enough images are main ones.
    """
    enough = amplification["n_images"] >= paradox.LEAST_IMAGES
    for some, first in ((amplification[enough], main), (amplification[~enough], False)):
        study.headline(*headlines_captions_as_prompts(study, some, approaches), main=first)


def headlines_captions_as_prompts(
    study: Study, amplification: pd.DataFrame, approaches: Sequence[str]
) -> list[str]:
    """Say how much is amplified when captions, or paraphrases of them, are the prompts.

    Args:
        study: For the names of models and the level of the intervals.
        amplification: The table ``paradox_amplification``.
        approaches: Which approaches.
    """
    called = names(study, amplification["model"])
    printed = study.measured_or_empty("paradox_printed_amplification")
    some = amplification[amplification["approach"].isin(approaches) & amplification["n_occupations"].notna()]
    sentences = []
    for (model, approach), rows in some.groupby(["model", "approach"], sort=False):
        by = rows[rows["ci_low"].notna()].set_index("definition")
        if not {"published", "directional"} <= set(by.index):
            why = rows.loc[rows["ci_low"].isna(), "reason"].iloc[0]
            sentences.append(f"{called[model]}, {_quoted(approach)}: {why[0].lower()}{why[1:]}")
            continue
        row, signed = by.loc["published"], by.loc["directional"]
        papers = printed.loc[printed["approach"] == approach, "amplification"]
        stated = f" The paper states {papers.iloc[0]:.2f} for SD 1.4." if len(papers) else ""
        sentences.append(
            f"{called[model]}, {_quoted(approach)}: {with_interval(row)} by the published rule "
            f"({row['n_occupations']:.0f} of {row['n_occupations'] + row['n_excluded']:.0f} occupations; "
            f"{_sign(row, 'amplification')}), {with_interval(signed)} along the training lean over "
            f"{signed['n_occupations']:.0f}.{stated} {_level(study)}{_few(row)}"
        )
    return sentences


def _few(row: pd.Series) -> str:
    if row["n_images"] >= paradox.LEAST_IMAGES:
        return ""
    return (
        f" With {row['n_images']:g} images a share, fewer than {paradox.LEAST_IMAGES}, the intervals hold the truth "
        "less often than they say."
    )


def headlines_gender_words(study: Study, accuracy: pd.DataFrame, approach: str) -> list[str]:
    """Say how often generated images follow the gender indicators in their captions.

    Args:
        study: For the names of models and the level of the intervals.
        accuracy: The table ``paradox_gender_word_accuracy``.
        approach: ``caption_prompts`` or ``paraphrased``.
    """
    called = names(study, accuracy["model"])
    some = accuracy[
        (accuracy["approach"] == approach) & (accuracy["indicator"] == "all") & (accuracy["n"] > 0)
    ]
    sentences = []
    for model, rows in some.groupby("model", sort=False):
        by = rows.set_index("against")
        said = []
        if "training image" in by.index:
            row = by.loc["training image"]
            papers = f" (paper, SD 1.4: {row['published']:g} %)" if np.isfinite(row["published"]) else ""
            said.append(
                f"the gender of the caption's own image in {_percent(row)} of {row['n']:,.0f}{papers}"
            )
        if "indicator" in by.index:
            row = by.loc["indicator"]
            said.append(f"the gender that the caption indicates in {_percent(row)} of {row['n']:,.0f}")
        sentences.append(
            f"{called[model]}, captions with gender indicators: generated images have {' and '.join(said)}. "
            f"{_level(study)}"
        )
    return sentences


def show_word_accuracy(study: Study, accuracy: pd.DataFrame, name: str) -> None:
    """Save the figure of how often generated images follow gender indicators in captions.

    Args:
        study: Where it is saved.
        accuracy: The table ``paradox_gender_word_accuracy``.
        name: The figure's name.
    """
    from biaslab.figures import paradox_pipeline as figures

    told = study.measured_or_empty("pipeline_settings")
    several = (told.loc[told["setting"] == "generation.images_per_caption", "value"].astype(float) > 1).any()
    again = " Images of one caption count as independent, so the intervals are too narrow." if several else ""
    study.save_figure(
        name,
        figures.word_accuracy(accuracy, titles(study, accuracy["model"])),
        title="Generated images follow gender indicators",
        caption=(
            "Generated images of the gender that the caption's own image shows (circles) or that the caption "
            "indicates "
            "(squares), of those perceived as female or male, for captions with indicators of one gender; lines are "
            f"{100 * study.confidence:g} % Wilson intervals.{again} {_how(study)}"
        ),
    )


def headlines_paraphrases(study: Study, check: pd.DataFrame) -> list[str]:
    """Say how many paraphrases changed their caption and kept what they had to.

    Args:
        study: For the level of the intervals.
        check: The table ``paradox_paraphrase_check``.
    """
    sentences = []
    for corpus, rows in check.groupby("corpus", sort=False):
        by = rows.set_index("check")
        sentences.append(
            f"{_corpus(study, corpus)}: of {by['n'].max():,.0f} paraphrases{_by(study, corpus)} "
            f"{_percent(by.loc['changed'])} differ from "
            f"their caption, {_percent(by.loc['occupation_kept'])} keep the occupation and "
            f"{_percent(by.loc['indicator_kept'])} its gender indicator. {_level(study)}"
        )
    return sentences


def _by(study: Study, corpus: str) -> str:
    """Say who wrote the paraphrases, where the measurements say it."""
    table = study.measured("paradox_paraphrases")
    if "outcome" not in table.columns:
        return ""
    outcomes = table.loc[table["corpus"] == corpus, "outcome"]
    if (outcomes == "by_rule").all():
        return " by rule"
    return f" ({(outcomes == 'paraphrased').sum():,} by a language model, the others by rule)"


def caption_changes(study: Study) -> str:
    """Caption of the figure of changes between approaches."""
    return (
        "Change of expected amplification from the naive approach, or from the one named below, averaged over "
        "prompts, "
        "by definition, over the occupations measured with both. Lines are "
        f"{100 * study.confidence:g} % intervals of the change (Student t; occupations, then images, resampled "
        "together; "
        f"around the change less what image noise adds to it). Left of 0 there is less amplification. {_how(study)}"
    )


# -- galleries -------------------------------------------------------------------------------------------------


def _judged(study: Study, *kinds: str) -> list[pd.DataFrame]:
    """Return the judgements of kinds of images; none, with the reason printed, where the source has no images."""
    try:
        return [study.judgements(kind) for kind in kinds]
    except MissingInputError as missing:
        print(f"No gallery: {missing}")
        return []


def _show(
    study: Study,
    name: str,
    parts: Sequence[tuple[str, pd.DataFrame, Sequence[str]]],
    *,
    title: str,
    caption: str,
    columns: int,
    show_faces: bool,
) -> None:
    """Save a gallery of ``parts``: a kind of images, judgements of those to show, and a text below each.

    Faces of training images are made unrecognisable unless ``show_faces``, or they are those of drawn people.
    """
    from biaslab.plots.gallery import gallery

    parts = [part for part in parts if len(part[1])]
    if not parts:
        print(f"No gallery: there are no images for {title!r}.")
        return
    images = [
        image for kind, rows, _ in parts for image in study.images(kind).read(rows["image_id"].tolist())
    ]
    judgements = pd.concat([rows for _, rows, _ in parts], ignore_index=True)
    texts = [str(text) for _, _, below in parts for text in below]
    blur = (
        not show_faces
        and study.settings.captions.corpus != "mini"
        and any(kind == "training" for kind, _, _ in parts)
    )
    hidden = "Faces are made unrecognisable, because training images may show real people." if blur else ""
    legend = (
        "Above each image: the perceived gender and its probability, or why it has none; boxes are the faces that "
        "the detector found, dashed where the image was not judged."
    )
    study.save_figure(
        name,
        gallery(images, judgements, texts, columns=columns, blur=blur),
        title=title,
        caption=" ".join(filter(None, (caption, legend, hidden, _how(study)))),
    )


def _first(rows: pd.DataFrame, names: Sequence[str], each: int, *, by: str = "occupation") -> pd.DataFrame:
    """Return the first rows of each name, as many of each, so that they fill a row; the names in the order given."""
    parts = [rows[rows[by] == name] for name in names]
    each = min([each, *(len(part) for part in parts if len(part))])
    return pd.concat([part.head(each) for part in parts], ignore_index=True)


def _columns(rows: pd.DataFrame, by: str = "occupation") -> int:
    """Return how many rows of :func:`_first` each name has."""
    return max(1, int(rows[by].value_counts().max())) if len(rows) else 1


def show_generated(study: Study, occupations: Sequence[str], *, prompt: str = "1", each: int = 8) -> None:
    """Save a gallery of the first images generated for a prompt, a row an occupation."""
    for judged in _judged(study, "generated"):
        rows = _first(judged[judged["prompt"] == prompt], occupations, each)
        _show(
            study,
            "paradox_gallery_generated",
            [("generated", rows, rows["occupation"])],
            title="Generated images",
            caption=f"The first images generated for {prompt_name(prompt).lower()}, not chosen by hand.",
            columns=_columns(rows),
            show_faces=True,
        )


def show_training(
    study: Study, occupations: Sequence[str], *, each: int = 6, show_faces: bool = False
) -> None:
    """Save a gallery of the first images of the random sample of captions, a row an occupation."""
    for judged in _judged(study, "training"):
        rows = _first(judged.sort_values("rank", kind="stable"), occupations, each)
        _show(
            study,
            "paradox_gallery_training",
            [("training", rows, rows["text"])],
            title="Training images",
            caption="The first images of the random sample, with their captions; occupations: "
            + ", ".join(occupations)
            + ".",
            columns=_columns(rows),
            show_faces=show_faces,
        )


def show_not_judged(study: Study, *, each: int = 4, show_faces: bool = False) -> None:
    """Save a gallery of images without a gender, some of each reason, from training and generated images."""
    kinds = ("training", "generated")
    parts = []
    for kind, judged in zip(kinds, _judged(study, *kinds), strict=False):
        out = judged[judged["outcome"] != "judged"].drop_duplicates("image_id")
        rows = out.groupby("outcome", sort=True).head(each).sort_values("outcome", kind="stable")
        parts.append((kind, rows, [f"{kind}: {o}" for o in rows["occupation"]]))
    if parts:
        _show(
            study,
            "paradox_gallery_not_judged",
            parts,
            title="Images without a gender",
            caption="Some images of each reason why an image has no gender; they are counted and left out of shares.",
            columns=8,
            show_faces=show_faces,
        )


def show_selection(
    study: Study,
    approach: str,
    occupations: Sequence[str],
    *,
    prompt: str = "1",
    each: int = 3,
    show_faces: bool = False,
) -> None:
    """Save a gallery of training images that an approach selects beside generated ones (Figures 2 and 4).

    Args:
        study: Gives the images, and keeps the figure.
        approach: ``naive`` or another that selects captions.
        occupations: Which occupations; each has a row.
        prompt: The prompt that captions are near to and images are generated from.
        each: Images of each source in a row.
        show_faces: Whether faces of real people are shown.
    """
    chosen = study.measured("paradox_selection_examples")
    chosen = chosen[(chosen["approach"] == approach) & chosen["prompt"].isin([prompt, "captions"])]
    found = _judged(study, "training", "generated")
    if not found:
        return
    keys = ["caption_id", "occupation"]
    chosen = chosen.sort_values("rank", kind="stable")[[*keys, "caption"]]
    selected = chosen.merge(found[0].drop_duplicates(keys), on=keys)
    generated = found[1][found[1]["prompt"] == prompt]
    there = [
        n for rows in (selected, generated) for n in rows["occupation"].value_counts().reindex(occupations)
    ]
    each = int(min([each, *(n for n in there if n > 0)]))
    parts = []
    for occupation in occupations:
        left, right = (rows[rows["occupation"] == occupation].head(each) for rows in (selected, generated))
        parts.append(("training", left, left["caption"]))
        parts.append(("generated", right, [f"generated: {occupation}"] * len(right)))
    _show(
        study,
        f"paradox_gallery_{approach}",
        parts,
        title=f"{APPROACH_NAMES[approach]}: training beside generated images",
        caption=(
            f"Left: training images of the first captions of “{APPROACH_NAMES[approach].lower()}” with these "
            "captions; "
            f"right: the first images generated for {prompt_name(prompt).lower()}. Occupations: "
            f"{', '.join(occupations)}."
        ),
        columns=2 * each,
        show_faces=show_faces,
    )


def show_indicators(
    study: Study, table: pd.DataFrame, occupations: Sequence[str], *, show_faces: bool = False
) -> None:
    """Save a gallery of training images whose captions indicate a gender, the words in brackets (Table 5).

    Args:
        study: Gives the images, and keeps the figure.
        table: The table ``paradox_examples``.
        occupations: Which occupations; each has one caption of each kind of indicator.
        show_faces: Whether faces of real people are shown.
    """
    for judged in _judged(study, "training"):
        keys = ["caption_id", "occupation"]
        some = (
            table[table["indicator"].isin(["female", "male"])]
            .groupby(["occupation", "indicator"], sort=False)
            .head(1)
        )
        rows = pd.concat([some[some["occupation"] == o] for o in occupations])[[*keys, "caption", "spans"]]
        texts = [marked(c, s) for c, s in zip(rows["caption"], rows["spans"], strict=True)]
        judged = judged.drop_duplicates(keys).drop(columns=["indicator", "spans"], errors="ignore")
        rows = rows.assign(shown=texts).merge(judged, on=keys)
        _show(
            study,
            "paradox_gallery_indicators",
            [("training", rows, rows["shown"])],
            title="Training images with gender indicators in their captions",
            caption="Captions with female or male indicators (in square brackets) and their images.",
            columns=4,
            show_faces=show_faces,
        )


def show_pairs(
    study: Study, first: str, second: str, name: str, *, title: str, pairs: int = 12, show_faces: bool = False
) -> None:
    """Save a gallery of pairs of images that belong to one caption.

    Args:
        study: Gives the images, and keeps the figure.
        first: Kind of the first image: ``training`` (the caption's own) or ``caption_prompts``.
        second: Kind of the second image: ``caption_prompts`` or ``paraphrased``.
        name: The figure's name.
        title: A few words for a heading.
        pairs: How many captions; half with gender indicators, half without, where there are.
        show_faces: Whether faces of real people are shown.
    """
    found = _judged(study, first, second)
    if not found:
        return
    keys = ["caption_id", "occupation"]
    one, two = (rows.drop_duplicates(keys) for rows in found)
    both = one[keys].merge(two[[*keys, "indicator"]], on=keys)
    told = both[both["indicator"] != "none"].drop_duplicates("occupation").head(pairs // 2)
    untold = both[both["indicator"] == "none"].drop_duplicates("occupation")
    # Occupations that are not shown yet come first.
    untold = untold.sort_values("occupation", key=lambda o: o.isin(told["occupation"]), kind="stable")
    chosen = pd.concat([told, untold.head(pairs - len(told))])
    parts = []
    for key in chosen[keys].itertuples(index=False):
        for kind, rows in ((first, one), (second, two)):
            row = rows[(rows["caption_id"] == key.caption_id) & (rows["occupation"] == key.occupation)]
            said = (
                row["text"] if kind != "caption_prompts" or first == kind else ["generated from this caption"]
            )
            parts.append((kind, row, said))
    _show(
        study,
        name,
        parts,
        title=title,
        caption=(
            "Pairs of images of one caption, first those whose captions have gender indicators: left "
            f"{_PAIR[first]}, "
            f"right {_PAIR[second]}."
        ),
        columns=6,
        show_faces=show_faces,
    )


_PAIR = {
    "training": "the caption's own image",
    "caption_prompts": "an image generated from the caption",
    "paraphrased": "an image generated from its paraphrase",
}


def show_prompts(study: Study, occupation: str, *, each: int = 9) -> None:
    """Save a gallery of one occupation's generated images, a row a prompt (layout of Figure 6)."""
    for judged in _judged(study, "generated"):
        rows = judged[judged["occupation"] == occupation]
        if rows.empty:
            print(f"No gallery: there are no images of {occupation!r}.")
            continue
        rows = _first(rows, sorted(set(rows["prompt"])), each, by="prompt")
        _show(
            study,
            "paradox_gallery_prompts",
            [("generated", rows, [prompt_name(p) for p in rows["prompt"]])],
            title=f"Generated images by prompt: {occupation}",
            caption=f"{occupation.capitalize()}: the first images generated for each prompt, a row a prompt.",
            columns=_columns(rows, "prompt"),
            show_faces=True,
        )
