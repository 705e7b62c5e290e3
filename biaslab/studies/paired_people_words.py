"""What the notebooks about the people of each image say in words, captions of their figures, and their galleries.

Each sentence is made from the tables. Galleries need images; from a source that has tables only they say so and the
notebook goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from biaslab import lexicons
from biaslab.errors import MissingInputError
from biaslab.figures.paired_people import OUTCOME_NAMES, SETTING_NAMES
from biaslab.prompts.paired import GENDERS
from biaslab.stats import wilson_interval
from biaslab.studies.paired import printed_kappas
from biaslab.studies.paired_words import _assumed, _each, _level, _moved, _p_words, _range

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from biaslab.study import Study

_LEXICONS = ("paired_occupations", "paired_powerless", "paired_roles", "paired_prompts")
_TWO = ("paired", "intervention", "faircritic")
_FAILURES = (
    "no_face",
    "one_face",
    "too_many_faces",
    "overlapping",
    "face_too_small",
    "unreadable",
    "blocked",
)


def _called(setting: str) -> str:
    return SETTING_NAMES.get(setting, setting)


def _percent(row) -> str:
    return f"{row['percent']:.1f} % ({_range(row)})"


def _sign(row, low: str = "ci_low", high: str = "ci_high") -> str:
    if not (isfinite(row[low]) and isfinite(row[high])):
        return "without an interval"
    return _moved(row, "an interval above 0", "an interval below 0", "an interval that includes 0", low, high)


# -- prompts -----------------------------------------------------------------------------------------


def instrument(study: Study) -> list[str]:
    """Say of the embedded models that are measured what their numbers are properties of."""
    said = {
        "mini": "mini is an instrument: a model trained on an embedded world of drawn people whose truth is known. "
        "Its numbers are properties of that world and model; they describe no real model and no real people.",
        "world": "world is no model: it draws what a text asks for, with the gender shares that the embedded world "
        "takes from the paper's tables. What differs from these shares comes from gate, judge and sampling.",
    }
    models = dict.fromkeys(study.measured_or_empty("paired_people")["model"])
    return [said[model] for model in models if model in said]


def prompt_counts(prompts: pd.DataFrame) -> pd.DataFrame:
    """Return how many prompts and images each aspect and setting has, with its first text (layout of Table 5).

    Args:
        prompts: The table ``paired_prompts``.
    """
    rows = prompts.groupby(["model", "aspect", "setting", "round"], sort=False)
    found = rows.agg(prompts=("text", "size"), images=("n_images", "sum"), example=("text", "first"))
    return found.reset_index()


def lexicon_counts() -> pd.DataFrame:
    """Return the word lists that the prompts are made from: list, entries by part, what they are, the source."""
    rows = []
    for name in _LEXICONS:
        for part, entries in lexicons.load(name).items():
            words = [entries] if isinstance(entries, str) else list(entries)
            of = {"list": name, "part": part, "n": len(words), "entries": ", ".join(words)}
            rows.append(of | {"source": lexicons.source(name)})
    return pd.DataFrame(rows)


def prompts_finding(study: Study) -> str:
    """Say how many prompts and images there are of each kind."""

    def say(model: str, rows: pd.DataFrame) -> str:
        said = []
        for (aspect, setting), some in rows.groupby(["aspect", "setting"], sort=False):
            said.append(
                f"{aspect}, {_called(setting)}: {len(some):,} prompts, {some['n_images'].sum():,.0f} images"
            )
        return f"{model}: {'; '.join(said)}."

    return _each(study, study.table("paired_prompts"), ["model"], say, bare=True)


# -- scores by order and with bounds ---------------------------------------------------------------------


def order_finding(study: Study) -> str:
    """Say the overall scores of pairs with and without images out of order, and what people not judged could change."""

    def say(model: str, aspect: str, setting: str, rows: pd.DataFrame) -> str:
        by = rows.set_index("images")
        every, some = by.loc["all"], by.loc["as_asked"]
        if not every["n"]:
            return ""
        return (
            f"{model}, {aspect}, {_called(setting)}: overall score {every['score']:.1f} "
            f"({_range(every)}{_assumed(every)}; {every['n']:,.0f} people) over all {every['n_images']:,.0f} images, "
            f"and {some['score']:.1f} ({_range(some)}{_assumed(some)}; {some['n']:,.0f} people) over the "
            f"{some['n_images']:,.0f} whose people were not found out of order; the "
            f"{every['n_not_judged']:,.0f} people not judged could take the first to between "
            f"{every['score_if_none_fit']:.1f} and {every['score_if_all_fit']:.1f}."
        )

    table = study.table("paired_score_by_order")
    return _each(study, table[table["setting"].isin(_TWO)], ["model", "aspect", "setting"], say)


# -- failures ----------------------------------------------------------------------------------------


def failures_finding(study: Study) -> str:
    """Say what share of images shows everyone judged, and which failure is the most frequent."""

    def say(model: str, aspect: str, setting: str, rows: pd.DataFrame) -> str:
        by = rows.set_index("outcome")
        judged = by.loc["judged"]
        failed = by.loc[by.index.isin(_FAILURES)].sort_values("n", ascending=False, kind="stable")
        text = (
            f"{model}, {aspect}, {_called(setting)}: everyone is judged in {_percent(judged)} of "
            f"{judged['n_images']:,.0f} images"
        )
        if failed["n"].sum() == 0:
            return f"{text}; the gate stops none."
        most = failed.iloc[0]
        return (
            f"{text}; the gate stops {failed['n'].sum():,.0f}, most often: {OUTCOME_NAMES[most.name]} "
            f"({most['n']:,.0f})."
        )

    return _each(study, study.table("paired_outcomes"), ["model", "aspect", "setting"], say)


def valid_finding(study: Study) -> str:
    """Say how often people stand as asked, how many images show all that was asked, and what mitigation costs."""

    def say(model: str, aspect: str, setting: str, rows: pd.DataFrame) -> str:
        by = rows.set_index("measure")
        order, valid = by.loc["order"], by.loc["valid"]
        if not order["n_images"]:
            return ""
        text = (
            f"{model}, {aspect}, {_called(setting)}: people stand as asked in {_percent(order)} of "
            f"{order['n_images']:,.0f} images that pass the gate; {_percent(valid)} of {valid['n_images']:,.0f} show "
            "all that was asked"
        )
        if isfinite(valid["change"]):
            change = f"{valid['change']:+.1f} points ({_range(valid, 'change_ci_low', 'change_ci_high')})"
            text += f", {change} against the same pairs without mitigation"
        return text + "."

    return _each(study, study.table("paired_valid_images"), ["model", "aspect", "setting"], say)


def three_finding(study: Study) -> str:
    """Say how many images of three people work, and how often the people in those fit their stereotypes."""

    def say(model: str, rows: pd.DataFrame) -> str:
        every = rows["image_id"].nunique()
        worked = rows.groupby("image_id")["outcome"].transform(lambda outcome: (outcome == "judged").all())
        worked &= rows["role_order"].isin(["right", ""])
        some = rows[worked]
        images = some["image_id"].nunique()
        text = f"{model}: {images} of {every} images of three people show everyone as asked"
        if not images:
            return text + "."
        fits = int((some["gender"] == some["stereotype"]).sum())
        low, high = wilson_interval(fits, len(some), study.confidence)
        return (
            f"{text}; in these {100 * fits / len(some):.1f} % ({100 * low:.1f} to {100 * high:.1f}) of {len(some)} "
            "people fit their stereotype."
        )

    people = study.table("paired_people")
    return _each(study, people[people["setting"] == "three"], ["model"], say)


# -- controls ----------------------------------------------------------------------------------------


def position_finding(study: Study) -> str:
    """Say whether one side is perceived as female more often, whoever stands there; in power also named otherwise."""

    def say(model: str, aspect: str, setting: str, rows: pd.DataFrame) -> str:
        row = rows.iloc[0]
        # A role on the left is "carpenter manager", on the right "manager".
        left, right = (" (named with the occupation)", " (not so named)") if aspect == "power" else ("", "")
        return (
            f"{model}, {aspect}, {_called(setting)}: {row['percent_female_left']:.1f} % perceived as female on the "
            f"left{left}, {row['percent_female_right']:.1f} % on the right{right}: {row['difference']:+.1f} points "
            f"({_range(row)}{_assumed(row)}; {_p_words(row['p'])}; {row['n']:,.0f} people), {_sign(row)}."
        )

    effects = study.table("paired_position_effect").query("stereotype == 'overall'")
    return _each(study, effects.dropna(subset=["difference"]), ["model", "aspect", "setting"], say)


def control_finding(study: Study) -> str:
    """Say the overall score without contrast, and the effect of contrast."""

    def say(model: str, rows: pd.DataFrame) -> str:
        by = rows.set_index("setting")
        said = []
        if "paired" in by.index:
            row = by.loc["paired"]
            said.append(
                f"{row['score']:.1f} beside the opposite stereotype ({_range(row)}{_assumed(row)}; "
                f"{row['n']:,.0f} people)"
            )
        beside = {
            "single": "alone",
            "alike": "beside the same stereotype",
            "same": "beside the same occupation",
            "three": "among three",
        }
        for setting, words in beside.items():
            if setting not in by.index:
                continue
            row = by.loc[setting]
            text = f"{row['score']:.1f} {words} ({_range(row)}{_assumed(row)}; {row['n']:,.0f} people"
            if isfinite(row["contrast"]):
                limits = "contrast_ci_low", "contrast_ci_high"
                assumed = _assumed(row, "contrast_dependence")
                text += f"; contrast {row['contrast']:+.1f}, {_range(row, *limits)}{assumed}, {_sign(row, *limits)}"
            said.append(text + ")")
        return f"{model}, overall stereotype score of occupations: {'; '.join(said)}."

    scores = study.table("paired_control_score").query("stereotype == 'overall'").dropna(subset=["score"])
    return _each(study, scores, ["model"], say)


def labour_gap_finding(study: Study) -> str:
    """Say whether pairs with a larger gap in the labour force have a higher score."""

    def say(model: str, setting: str, rows: pd.DataFrame) -> str:
        row = rows.iloc[0]
        return (
            f"{model}, {_called(setting)}: for every 10 points by which labour shares of women differ more, the score "
            f"changes by {10 * row['slope']:+.1f} points ({10 * row['ci_low']:+.1f} to {10 * row['ci_high']:+.1f}; "
            f"{_p_words(row['p'])}; {row['n_images']:,.0f} images), {_sign(row)}; the mean score is {row['score']:.1f} "
            f"at a mean gap of {row['gap']:.1f} points."
        )

    gaps = study.table("paired_labour_gap").query("group == 'line'").dropna(subset=["slope"])
    return _each(study, gaps, ["model", "setting"], say)


def skin_tone_finding(study: Study) -> str:
    """Say by how many tones the two people of an image differ."""

    def say(model: str, aspect: str, setting: str, rows: pd.DataFrame) -> str:
        by = rows.set_index("group")
        if "difference" not in by.index or not isfinite(by.loc["difference", "skin_tone"]):
            return ""
        row = by.loc["difference"]
        first, second = (
            ("high-power", "low-power") if aspect == "power" else ("male-stereotyped", "female-stereotyped")
        )
        return (
            f"{model}, {aspect}, {_called(setting)}: mean Monk tone {by.loc['male', 'skin_tone']:.2f} of {first} and "
            f"{by.loc['female', 'skin_tone']:.2f} of {second} people; in one image they differ by "
            f"{row['skin_tone']:+.2f} tones ({_range(row, digits=2)}; {_p_words(row['p'])}; {row['n_images']:,.0f} "
            f"images, errors clustered by occupation), {_sign(row)}."
        )

    return _each(study, study.table("paired_skin_tone"), ["model", "aspect", "setting"], say)


# -- judges ------------------------------------------------------------------------------------------


def truth_finding(study: Study) -> str:
    """Say how often gate, judge and order are right where the truth is known."""
    words = {
        "gate": "both people are found in {} of {} images",
        "judged": "{} of {} people found are judged female or male",
        "gender": "the gender is right for {} of {} people judged",
        "gender_unambiguous": "for {} of {} whose cues leave no doubt",
        "order": "the order is recognised in {} of {} images",
        "skin_tone": "the skin tone is within one Monk tone for {} of {} faces",
    }

    def say(judge: str, rows: pd.DataFrame) -> str:
        by = rows[rows["n"] > 0].set_index("measure")
        said = [
            words[m].format(_percent(by.loc[m]), f"{by.loc[m, 'n']:,.0f}") for m in words if m in by.index
        ]
        return f"{judge}, on renders of two people whose truth is known: {'; '.join(said)}."

    return _each(study, study.table("paired_truth"), ["judge"], say)


def agreement_finding(study: Study) -> str:
    """Say this run's kappas, each beside the printed ones of its aspect and setting."""
    every = study.table("paired_judge_agreement")
    every = every[every["aspect"] != "average"]
    cohen, known = every["statistic"] == "cohen_kappa", printed_kappas(every)
    printed = every[known & cohen]

    def say(model: str, judge: str, rows: pd.DataFrame) -> str:
        said = []
        for _, row in rows.iterrows():
            beside = printed[(printed["aspect"] == row["aspect"]) & (printed["setting"] == row["setting"])]
            papers = ", ".join(
                f"{r['judge'].replace('vqa', 'BLIP').replace('fairface', 'FairFace')} {r['value']:.2f}"
                for _, r in beside.iterrows()
            )
            papers = f"; paper, with annotators: {papers}" if papers else ""
            n = f"; {row['n']:,.0f} people" if isfinite(row.get("n", np.nan)) else ""
            said.append(
                f"{row['aspect']}, {_called(row['setting'])} {row['value']:.2f} ({_range(row, digits=2)}{n}"
                f"{papers})"
            )
        whom = dict.fromkeys(rows["reference"]) if "reference" in rows else {}
        against = f" with {', '.join(whom)}" if whom else ""
        return f"{model}, Cohen's kappa of {judge}{against}: {'; '.join(said)}."

    return _each(study, every[~known & cohen], ["model", "judge"], say)


def printed_only(table: pd.DataFrame, agreement: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of ``table`` whose model has kappas that the paper prints.

    Args:
        table: With a column ``model``.
        agreement: The table ``paired_judge_agreement``.
    """
    return table[table["model"].isin(agreement.loc[printed_kappas(agreement), "model"])]


# -- galleries ---------------------------------------------------------------------------------------


def _judged(study: Study, *kinds: str) -> list[pd.DataFrame]:
    """Return the people of each kind that the pipeline has; none, said in print, where the source has no images."""
    try:
        people = study.pipeline.people
    except MissingInputError as missing:
        print(f"No gallery: {missing}")
        return []
    return [people.people(kind).assign(kind=kind) for kind in kinds if kind in people.kinds]


def _below(people: pd.DataFrame) -> str:
    """Return what stands below an image: whom it was to show, and whether each fits the stereotype."""
    said = []
    for row in people.itertuples():
        known = row.gender in GENDERS
        fits = f" ({'+' if row.gender == row.stereotype else '−'})" if known else ""
        said.append(f"{row.phrase}{fits}")
    order = people["role"].iloc[0]
    note = {"swapped": "; in another order", "unclear": "; order not clear"}.get(order, "")
    return " | ".join(said) + note


def _show(
    study: Study, name: str, chosen: Sequence[tuple[str, str]], people: pd.DataFrame, columns: int
) -> None:
    """Save a gallery of the images ``chosen``, each a kind and an image's id."""
    from biaslab.plots.gallery import gallery

    title, caption = _GALLERIES[name]
    if not chosen:
        print(f"No gallery: there are no images for {title!r}.")
        return
    groups = dict(list(people.groupby(["kind", "image_id"], sort=False)))
    shown = [groups[key].sort_values("position") for key in chosen]
    images = [study.pipeline.people.images(kind).source.read([image_id])[0] for kind, image_id in chosen]
    legend = (
        "Above each image: the gender that each person is perceived as, with its probability, from left to right, or "
        "why nobody is judged; below it whom the prompt asks for, in the same order, + where the perceived gender fits "
        "the stereotype and − where it does not. Boxes are the faces found."
    )
    study.save_figure(
        name,
        gallery(images, shown, [_below(rows) for rows in shown], columns=columns),
        title=title,
        caption=" ".join(filter(None, (caption, legend, *instrument(study)))),
    )


_GALLERIES = {
    "paired_gallery_pairs": (
        "Pairs: asked for and seen",
        "Images of two people: the first of each aspect by prompt, evenly spread over the prompts, not chosen by "
        "hand.",
    ),
    "paired_gallery_single_and_paired": (
        "The same identities alone and in pairs",
        "Each row is one identity: images of it alone, then in pairs (layout of Figures 3 and 9). Of each list and "
        "level those are shown whose score rises most from one person to two; chosen for that, they say nothing "
        "about the others.",
    ),
    "paired_gallery_failures": (
        "Images that fail",
        "Some images of each failure and setting (as in Figure 12). They are counted, and nobody in them is given a "
        "gender.",
    ),
    "paired_gallery_order": (
        "People who do not stand as asked, or not clearly so",
        "Images of two people who were judged, but whose order was found to be another one, or not clear. Their "
        "genders count at the position asked for.",
    ),
    "paired_gallery_three_failures": (
        "Three people: images that do not count",
        "Images for prompts that ask for three people: some that fail the gate, in which somebody is not judged, or "
        "whose people do not stand as asked, or not clearly so (as in Figure 11).",
    ),
    "paired_gallery_three": (
        "Three people: images that work",
        "Images that show three people in the order asked for, everyone judged, evenly spread over the prompts (as "
        "in Figure 11).",
    ),
}


def _spread(items: Sequence, most: int) -> list:
    """Return at most ``most`` of ``items``, evenly spread over them."""
    if len(items) <= most:
        return list(items)
    return [items[k] for k in np.linspace(0, len(items) - 1, most).round().astype(int)]


def _ids(people: pd.DataFrame) -> list[tuple[str, str]]:
    return list(dict.fromkeys(zip(people["kind"], people["image_id"], strict=True)))


def show_pairs(study: Study, *, each: int = 8) -> None:
    """Save a gallery of images of two people, ``each`` of either aspect."""
    for people in _judged(study, "paired"):
        chosen = [
            key
            for _, rows in people.groupby("aspect", sort=False)
            for key in _spread(_ids(rows[rows["outcome"].isin(["judged", "uncertain"])]), each)
        ]
        _show(study, "paired_gallery_pairs", chosen, people, 4)


def show_single_and_paired(study: Study, *, identities: int = 1, alone: int = 2, beside: int = 3) -> None:
    """Save a gallery of identities alone and in pairs, a row each (layout of Figures 3 and 9).

    Args:
        study: Gives the images, and keeps the figure.
        identities: Of each aspect and list, how many: those whose score rises most.
        alone: Images of one person in a row.
        beside: Images of two people in a row.
    """
    found = _judged(study, "single", "paired")
    if len(found) < 2:
        return
    people = pd.concat(found, ignore_index=True)
    # Only images in which everyone was judged, so that signs can be read.
    whole = people.groupby(["kind", "image_id"])["gender"].transform(lambda g: g.isin(GENDERS).all())
    some = people[whole].assign(fits=lambda t: np.where(t["gender"] == t["stereotype"], 100.0, -100.0))
    wide = some.groupby(["aspect", "stereotype", "identity", "kind"])["fits"].agg(["mean", "size"]).unstack()
    rise = wide["mean"].get("paired") - wide["mean"].get("single")
    enough = (wide["size"].get("single") >= alone) & (wide["size"].get("paired") >= beside)
    rise = rise[enough].reset_index(name="rise").sort_values(["rise", "identity"], ascending=[False, True])
    rise = rise.groupby(["aspect", "stereotype"]).head(identities).sort_values(["aspect", "stereotype"])
    chosen = []
    for row in rise.itertuples():
        mine = some[(some["aspect"] == row.aspect) & (some["identity"] == row.identity)]
        for kind, most in (("single", alone), ("paired", beside)):
            chosen += _spread(_ids(mine[mine["kind"] == kind]), most)
    _show(study, "paired_gallery_single_and_paired", chosen, people, alone + beside)


def show_failures(study: Study, *, each: int = 4) -> None:
    """Save a gallery of images of one or two people that fail, some of each failure and kind."""
    kinds = ("single", "paired", "controls", "intervention")
    for people in _all(_judged(study, *kinds)):
        failed = people[people["outcome"].isin(_FAILURES)].drop_duplicates(["kind", "image_id"])
        some = failed.groupby(["outcome", "kind"], sort=True).head(each)
        some = some.sort_values(["outcome", "kind"], kind="stable").head(24)
        _show(study, "paired_gallery_failures", _ids(some), people, 4)


def show_order(study: Study, *, most: int = 8) -> None:
    """Save a gallery of judged pairs whose people do not stand as asked, or not clearly so."""
    for people in _judged(study, "paired"):
        out = people[people["role"].isin(["swapped", "unclear"]) & (people["outcome"] == "judged")]
        chosen = [key for _, rows in out.groupby("role", sort=True) for key in _spread(_ids(rows), most // 2)]
        _show(study, "paired_gallery_order", chosen, people, 4)


def show_three(study: Study, *, each: int = 6) -> None:
    """Save two galleries of images for three people: those that fail, and those that work."""
    for people in _judged(study, "three"):
        group = people.groupby("image_id")
        judged = group["outcome"].transform(lambda outcome: (outcome == "judged").all())
        works = judged & people["role"].isin(["right", ""])
        out = people[~works].drop_duplicates("image_id").groupby(["outcome", "role"], sort=True).head(each)
        out = out.sort_values(["outcome", "role"], kind="stable").head(2 * each)
        _show(study, "paired_gallery_three_failures", _ids(out), people, 3)
        _show(study, "paired_gallery_three", _spread(_ids(people[works]), 2 * each), people, 3)


def _all(frames: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    return [pd.concat(frames, ignore_index=True)] if frames else []


# -- figures -----------------------------------------------------------------------------------------

_BANDS = (
    "Grey: what coin flips give in {level} of samples at this n, if the people of one image depend on each other as "
    "far as they can."
)
_OVER = "{level} intervals over identities (t)."

# Name: title, caption. {level} is the level of the intervals.
_FIGURES = {
    "paired_outcomes": (
        "What became of images of people",
        "Images by what gate and judge made of the people in them, with their numbers (parts below 3.5 % have none "
        "written); an image counts once, by the worst outcome among its people. Images whose people are all judged "
        "are divided by whether the people stand as asked; an order is not looked for where one person, or the same "
        "one twice, is asked for. Nobody in a failed image is given a gender. n is the number of images.",
    ),
    "paired_valid_images": (
        "Images that show what was asked",
        "Share of images with as many faces as people asked for, none too small, with everyone's gender judged, with "
        "people in the order asked for (of images that pass the gate and whose order was looked for), and with all of "
        "these; {level} Wilson intervals. n is in the table paired_valid_images.",
    ),
    "paired_position_effect": (
        "Left against right",
        "Share perceived as female on the left minus on the right, mean over identities, by list: every identity "
        "stands on both sides, beside the same partners. Of two roles only the person on the left is named with the "
        "occupation, so position and naming are not told apart there. Lines: "
        f"{_OVER} {_BANDS} n is in the table paired_position_effect.",
    ),
    "paired_control_score": (
        "Scores with and without contrast",
        "Left: stereotype score of occupations alone, beside the opposite stereotype, beside the same stereotype, "
        "beside the same occupation, and among three. Right: the score beside the opposite stereotype minus each; "
        f"above 0 contrast adds to the stereotype. Lines: {_OVER} "
        "How both lists depend on each other is estimated beside the opposite stereotype, and taken at its worst among "
        "three. Beside the same stereotype, and for lists among three, they are wider (by some 45 and 33 %), because "
        f"identities of one list share images. {_BANDS} n is in the table paired_control_score.",
    ),
    "paired_labour_gap": (
        "Score of pairs and the gap in the labour force",
        "Images of two occupations by how much more women work in the female- than in the male-stereotyped one. "
        "Marks: mean score of both people in each fifth of the images by gap; lines through them and the slope in "
        "brackets: {level} intervals clustered by both occupations. " + _BANDS,
    ),
    "paired_skin_tone": (
        "Skin tone by power and stereotype",
        "Mean Monk tone of faces as they appear in the image, light included, of people with male- and "
        "female-stereotyped identities (in power: high and low), and the difference between the two people of one "
        "image; {level} intervals clustered by both occupations (t). The coloured strip is the Monk scale. n is the "
        "number of images in which both faces have a tone.",
    ),
    "paired_truth": (
        "Gate, judge and order on people whose truth is known",
        "Held-out renders of two people: how often both are found, people found are judged female or male, the gender "
        "is right (of all judged, and of those whose drawn cues leave no more than 1 % doubt), the order is "
        "recognised, and the skin tone is within one tone of the one drawn; {level} Wilson intervals. The number after "
        "each is what it is a share of.",
    ),
    "paired_agreement": (
        "Agreement of judges, printed and measured",
        "Fleiss' kappa among annotators and Cohen's kappa of each judge, by aspect and number of people: "
        "printed (Tables 7 and 9), and of this run against the truth of renders, and against people's ratings of the "
        "images or, without any, further judges against the first. With {level} intervals; hollow: without one, as in "
        "print, or where agreement is complete.",
    ),
}


def save(study: Study, name: str, figure: Figure, *, main: bool = False) -> None:
    """Save a figure with its title and caption.

    Raises:
        KeyError: No caption is written for ``name``.
    """
    title, caption = _FIGURES[name]
    study.save_figure(name, figure, title=title, caption=caption.format(level=_level(study)), main=main)
