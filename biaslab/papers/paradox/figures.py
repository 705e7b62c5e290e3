"""Figures of the bias amplification paradox: tables in, figures out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Polygon, Rectangle

from biaslab.plots import forms, style
from biaslab.plots import gallery as galleries

APPROACH_NAMES = {
    "naive": "All captions (naive)",
    "no_indicators": "No gender indicators",
    "nearest": "Nearest captions",
    "nearest_no_indicators": "Nearest, no indicators",
    "caption_prompts": "Captions as prompts",
    "caption_prompts_no_indicators": "Captions as prompts, no indicators",
    "paraphrased": "Paraphrased captions",
    "paraphrased_no_indicators": "Paraphrased, no indicators",
}
DEFINITIONS = forms.Look(
    {
        "published": "published rule (same lean only)",
        "no_exclusion": "no exclusion",
        "directional": "along the training lean",
    },
    {"published": style.VERMILION, "no_exclusion": style.BLUE, "directional": style.GREEN},
    {"published": "o", "no_exclusion": "s", "directional": "D"},
)
_OUTCOMES = forms.Look(
    {
        "judged": "judged female or male",
        "uncertain": "judge not sure",
        "no_face": "no face",
        "several_faces": "several faces",
        "face_too_small": "face too small",
        "unreadable": "unreadable",
        "blocked": "withheld by the safety checker",
        "unrated": "not rated",
    },
    {
        "judged": style.LIGHT,
        "uncertain": style.ORANGE,
        "no_face": style.BLUE,
        "several_faces": style.GREEN,
        "face_too_small": style.PURPLE,
        "unreadable": style.BLACK,
        "blocked": style.VERMILION,
        "unrated": style.SKY,
    },
)
_COUNTED = forms.Look(
    {"": "counted by the published rule", "out": "left out by it"},
    {"": style.BLACK, "out": style.VERMILION},
    {"": "o", "out": "X"},
)
_GENDERS = forms.Look(
    colors={"female": style.FEMALE, "male": style.MALE}, markers={"female": "o", "male": "s"}
)
_SHARES = ("percent_training", "percent_generated")


def prompt_name(prompt: str) -> str:
    """Return a prompt's name as a heading."""
    return (
        f"Prompt {prompt}"
        if prompt.isdigit()
        else "Mean of prompts"
        if prompt == "mean"
        else prompt.capitalize()
    )


def slug(name: str) -> str:
    """Return a model's name as part of a figure's name."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "model"


# -- shares ------------------------------------------------------------------------------------------------------


@style.empty_without_rows
def shares(occupations: pd.DataFrame, panel: Sequence[str] = ("prompt",), *, named: int = 12) -> Figure:
    """Draw % female in training against generated images, a point an occupation (Figures 3, 5, 7 and 9).

    Args:
        occupations: Rows of ``paradox_occupation_amplification``, or of :func:`analysis.mean_over_prompts`.
        panel: The columns whose values have a panel each: of ``model``, ``approach`` and ``prompt``.
        named: How many occupations are named in each panel, the farthest from the diagonal first.
    """
    heads = occupations[list(panel)].apply(lambda row: ", ".join(map(_name, row)), axis=1)
    rows = occupations.assign(panel=heads, counted=np.where(occupations["excluded"] == "", "", "out"))
    cross = rows["training_low"].notna().any()
    keys = [
        Patch(facecolor=style.AMPLIFIED, alpha=0.3, label="amplified"),
        Patch(facecolor=style.DEAMPLIFIED, alpha=0.4, label="de-amplified"),
        Patch(facecolor="white", edgecolor="#BBBBBB", hatch="////", label="opposite lean"),
    ]
    if cross:
        keys.append(Line2D([], [], color=style.GREY, marker="+", ms=11, ls="", label="median interval"))
    return forms.diagonal(
        rows.dropna(subset=_SHARES),
        *_SHARES,
        labels=("Perceived as female, training (%)", "Perceived as female, generated (%)"),
        ends=(-2, 102),
        hue="counted",
        look=_COUNTED,
        panel="panel",
        names="occupation",
        named=named,
        columns=2,
        under=_regions,
        keys=keys,
    )


def _name(value: str) -> str:
    return APPROACH_NAMES.get(value) or (prompt_name(value) if value.isdigit() or value == "mean" else value)


def _regions(ax: Axes, rows: pd.DataFrame) -> None:
    """Shade where bias is amplified, de-amplified, and where the lean turns; show how wide intervals are."""
    for corners, color, alpha in (
        ([(0, 0), (50, 50), (50, 0)], style.AMPLIFIED, 0.13),
        ([(50, 50), (100, 100), (50, 100)], style.AMPLIFIED, 0.13),
        ([(0, 0), (50, 50), (0, 50)], style.DEAMPLIFIED, 0.2),
        ([(50, 50), (100, 100), (100, 50)], style.DEAMPLIFIED, 0.2),
    ):
        ax.add_patch(Polygon(corners, facecolor=color, alpha=alpha, edgecolor="none", zorder=0))
    for corner in ((0, 50), (50, 0)):
        look = {"facecolor": "none", "edgecolor": style.LIGHT, "hatch": "////", "lw": 0, "zorder": 0}
        ax.add_patch(Rectangle(corner, 50, 50, **look))
    x, y = (
        float((rows[f"{side}_high"] - rows[f"{side}_low"]).median()) / 2 for side in ("training", "generated")
    )
    if np.isfinite(x + y):
        # In the corner where least is: all training images female, all generated ones male.
        ax.errorbar(98 - x, 2 + y, xerr=x, yerr=y, color=style.GREY, lw=1.2, zorder=2)


# -- amplification -----------------------------------------------------------------------------------------------


@style.empty_without_rows
def by_definition(amplification: pd.DataFrame) -> Figure:
    """Draw expected amplification by definition and prompt, a panel a model.

    Args:
        amplification: Rows of ``paradox_amplification`` of one approach that have intervals.
    """
    return forms.estimates(
        amplification,
        "amplification",
        row="prompt",
        hue="definition",
        look=DEFINITIONS,
        panel="model",
        row_names={p: prompt_name(p) for p in amplification["prompt"]},
        label="Amplification (points)",
        floor="amplification_plain",
        floor_name="image noise left in",
        xlim=_ends(amplification),
        columns=3,
        inch=0.38,
    )


@style.empty_without_rows
def by_approach(amplification: pd.DataFrame) -> Figure:
    """Draw the published definition by approach, the mean over prompts; hollow where only an average is printed.

    Args:
        amplification: Rows of ``paradox_amplification`` with ``definition == "published"``.
    """
    some = amplification[~amplification["prompt"].str.isdigit()]
    known = some["ci_low"].notna()
    some = _in_order(some.assign(known=known, plain=some["amplification_plain"].where(known)), "approach")
    return forms.estimates(
        some,
        "amplification",
        row="approach",
        hue="model",
        row_names=APPROACH_NAMES,
        label="Amplification, published rule, mean over prompts (points)",
        floor="plain",
        floor_name="image noise left in",
        filled="known",
        filled_names=("image noise taken out", "printed, or too few: left in, no interval"),
    )


@style.empty_without_rows
def changes(change: pd.DataFrame) -> Figure:
    """Draw each approach's change of amplification from its reference, by definition, a panel a model.

    Args:
        change: Rows of ``paradox_approach_change``; means over prompts, and captions as prompts, are drawn.
    """
    some = change[~change["prompt"].str.isdigit()]
    less = [
        APPROACH_NAMES[a] + ("" if r == "naive" else f"\nless: {APPROACH_NAMES[r].lower()}")
        for a, r in zip(some["approach"], some["reference"], strict=True)
    ]
    return forms.estimates(
        some.assign(pair=less),
        "change",
        row="pair",
        hue="definition",
        look=DEFINITIONS,
        panel="model",
        label="Change of amplification (points)",
    )


@style.empty_without_rows
def signed_changes(occupations: pd.DataFrame, *, most: int = 15) -> Figure:
    """Draw the occupations that change most, along and against their training lean, of one model.

    Dots are means over prompts, lines reach over the prompts.

    Args:
        occupations: Rows of ``paradox_occupation_amplification`` of one model and approach.
        most: How many occupations each panel has.
    """
    mean = occupations.groupby("occupation").agg(
        directional=("directional", "mean"),
        lowest=("directional", "min"),
        highest=("directional", "max"),
        counted=("excluded", lambda excluded: (excluded == "").all()),
    )
    mean = mean.dropna().sort_values("directional", ascending=False).reset_index()
    along, against = mean[mean["directional"] > 0].head(most), mean[mean["directional"] < 0].tail(most)
    return forms.estimates(
        pd.concat([along.assign(part="along"), against.iloc[::-1].assign(part="against")]),
        "directional",
        row="occupation",
        panel="part",
        panel_names={"along": "Farthest along the training lean", "against": "Farthest against it"},
        label="Change along the training lean (points)",
        limits=("lowest", "highest"),
        filled="counted",
        filled_names=("counted for every prompt", "left out for some or all"),
        xlim=_ends(mean, "lowest", "highest"),
        columns=2,
    )


# -- prompts -----------------------------------------------------------------------------------------------------


@style.empty_without_rows
def variation(variation: pd.DataFrame, shares: pd.DataFrame, *, most: int = 15) -> Figure:
    """Draw generated shares by prompt of the occupations that move most, over what noise alone allows, of one model.

    Args:
        variation: Rows of ``paradox_prompt_variation`` of one model.
        shares: Rows of ``paradox_percent_female`` of that model and approach.
        most: How many occupations to draw.
    """
    top = variation.nlargest(most, "sd_prompts").set_index("occupation")
    sides = dict(list(shares.groupby("source")))
    wide = (
        sides["generated"].pivot(index="occupation", columns="prompt", values="percent_female").loc[top.index]
    )
    figure, parts = forms.panels(top, height=0.3 * len(top) + 1)
    (ax, _), y = next(parts), np.arange(len(top))
    style.zero_line(ax, 50)
    # sd_noise is that of k shares around their own mean, which moves with them; one share alone moves more.
    k = wide.notna().sum(axis=1)
    reach = 2 * top["sd_noise"] * np.sqrt(k / (k - 1).where(k > 1))
    mean = wide.mean(axis=1)
    ax.barh(y, 2 * reach, 0.72, left=mean - reach, color=style.LIGHT, zorder=0)
    look = forms.Look({p: prompt_name(p) for p in wide}).of(list(wide))
    for prompt, (color, marker, _) in look.items():
        ax.plot(wide[prompt], y, marker, color=color, ms=6.5, zorder=3)
    training = sides["training"].drop_duplicates("occupation").set_index("occupation")["percent_female"]
    ax.plot(training.reindex(top.index), y, "|", color=style.BLACK, ms=15, mew=2)
    ax.set_yticks(y, top.index)
    ax.set(xlim=(-2, 102), ylim=(len(top) - 0.4, -0.6), xlabel="Perceived as female (%)")
    bar = Line2D([], [], color=style.BLACK, marker="|", ms=12, mew=2, ls="", label="training images")
    noise = Patch(color=style.LIGHT, label="about 95 % of shares by noise alone")
    forms.legend(figure, [*(forms.key(*of) for of in look.values()), bar, noise])
    return figure


@style.empty_without_rows
def variation_and_noise(variation: pd.DataFrame) -> Figure:
    """Draw each occupation's standard deviation over prompts, and what noise alone gives, a row a model.

    Args:
        variation: Rows of ``paradox_prompt_variation``.
    """
    models = list(dict.fromkeys(variation["model"]))
    figure, parts = forms.panels(variation, height=0.8 * len(models) + 0.9)
    ax, _ = next(parts)
    # Dots of one model stand a little above one another, so that each can be seen.
    y = variation["model"].map({model: i for i, model in enumerate(models)})
    y += np.random.default_rng(0).uniform(-0.25, 0.25, len(variation))
    ax.plot(variation["sd_prompts"], y, "o", color=style.BLUE, alpha=0.6, mec="white", mew=0.4)
    noise = variation.groupby("model")["sd_noise"].median().reindex(models)
    ax.vlines(noise, np.arange(len(models)) - 0.35, np.arange(len(models)) + 0.35, color=style.GREY, lw=4)
    ax.set_yticks(range(len(models)), models)
    ax.set(xlabel="Standard deviation over prompts (points)", ylim=(len(models) - 0.5, -0.5))
    ax.set_xlim(left=0)
    keys = [forms.key(style.BLUE, "o", "an occupation")]
    keys.append(Line2D([], [], color=style.GREY, lw=4, label="by noise alone (median occupation)"))
    forms.legend(figure, keys)
    return figure


# -- captions and their images -----------------------------------------------------------------------------------


@style.empty_without_rows
def captions_found(found: pd.DataFrame) -> Figure:
    """Draw how many captions name each occupation, and how many were taken.

    Args:
        found: Rows of ``paradox_captions_found`` of one corpus.
    """
    found = found.sort_values("n_captions", ascending=False, kind="stable")
    lines = -(-len(found) // (2 if len(found) > 24 else 1))
    figure, parts = forms.panels(
        found.assign(part=np.arange(len(found)) // lines),
        "part",
        names={0: "", 1: ""},
        height=0.22 * lines + 0.9,
        sharex=True,
    )
    looks = (
        ("n_captions", "o", style.BLUE, "name the occupation", 6),
        ("n_candidates", "D", style.ORANGE, "searched for the nearest", 4),
        ("n_sampled", "|", style.BLACK, "taken at random", 11),
    )
    # A count of 0 has no place on a scale of powers of ten; it stands at its left end.
    least = max(0.7, 0.5 * float(found[[c for c, *_ in looks]].to_numpy(float).min()))
    for ax, rows in parts:
        for column, marker, color, _, size in looks:
            ax.plot(rows[column].clip(lower=least), range(len(rows)), marker, color=color, ms=size, mew=1.5)
        ax.set_yticks(range(len(rows)), rows["occupation"], fontsize=9)
        ax.set(xscale="log", ylim=(lines - 0.4, -0.6), xlabel="Captions")
        ax.set_xlim(left=least)
        ax.grid(axis="y", color=style.LIGHT, lw=0.6)
    forms.legend(figure, [forms.key(color, marker, label) for _, marker, color, label, _ in looks])
    return figure


@style.empty_without_rows
def outcomes(outcomes: pd.DataFrame) -> Figure:
    """Draw what became of the images of each source, a bar each, a panel a model.

    Args:
        outcomes: Rows of ``paradox_outcomes``.
    """
    order = {name: i for i, name in enumerate(("training", "generated", *APPROACH_NAMES))}
    rows = outcomes.sort_values(
        ["source", "approach", "prompt"],
        key=lambda c: c if c.name == "prompt" else c.map(order),
        kind="stable",
    )
    return forms.stacked(
        rows[rows["n"] > 0].assign(bar=[_bar_name(row) for row in rows[rows["n"] > 0].itertuples()]),
        "percent",
        row="bar",
        part="outcome",
        look=_OUTCOMES,
        label="Images (%)",
        counts="percent",
        panel="model",
    )


def _bar_name(row) -> str:
    """Return what a bar of images is called: its source, what they belong to, and how many they are."""
    what = (
        []
        if row.source == "generated" and row.approach == "naive"
        else [APPROACH_NAMES[row.approach].lower()]
    )
    what += [] if row.prompt == "captions" else [prompt_name(row.prompt).lower()]
    return f"{row.source}: {', '.join(what)} (n = {row.n_images:,.0f})"


@style.empty_without_rows
def indicator_use(indicators: pd.DataFrame) -> Figure:
    """Draw how often captions indicate a gender, for images of men and of women, a point an occupation.

    Args:
        indicators: Rows of ``paradox_indicators`` of one corpus.
    """
    rarer = np.where(indicators["percent_female"] < 50, "female", "male")
    return forms.diagonal(
        indicators.assign(rarer=rarer).dropna(subset=["percent_any_of_female", "percent_any_of_male"]),
        "percent_any_of_male",
        "percent_any_of_female",
        labels=("Indicator in captions of men's images (%)", "Indicator in captions of women's images (%)"),
        ends=(-2, 102),
        hue="rarer",
        look=forms.Look(
            {g: f"{g} is the rarer gender" for g in _GENDERS.colors}, _GENDERS.colors, _GENDERS.markers
        ),
        names="occupation",
        named=12,
    )


@style.empty_without_rows
def indicator_correlation(indicators: pd.DataFrame, correlation: pd.DataFrame) -> Figure:
    """Draw the share of captions that indicate a gender against the share of images perceived as of it.

    Args:
        indicators: Rows of ``paradox_indicators`` of one corpus.
        correlation: Rows of ``paradox_indicator_correlation`` of that corpus, for the headings.
    """
    known = indicators[indicators["n"] > 0].dropna(subset=["percent_female"])
    shares = {"female": known["percent_female"], "male": 100 - known["percent_female"]}
    both = pd.concat(
        [
            known.assign(
                gender=g, share=share, indicated=known[f"percent_{g}_indicator"] + known["percent_both"]
            )
            for g, share in shares.items()
        ]
    )
    any_of = correlation[correlation["counted"] == "any"].set_index("gender")
    heads = {gender: _r(any_of.loc[gender]) for gender in shares if gender in any_of.index}
    figure, parts = forms.panels(both, "gender", names=heads, height=4.4, sharex=True, sharey=True)
    drawn = list(parts)
    for ax, rows in drawn:
        gender = rows["gender"].iloc[0]
        ax.plot(
            rows["share"],
            rows["indicated"],
            _GENDERS.markers[gender],
            color=_GENDERS.colors[gender],
            alpha=0.85,
        )
        if len(rows) > 2 and rows["share"].nunique() > 1:
            sns.regplot(rows, x="share", y="indicated", scatter=False, ci=None, color=style.BLACK, ax=ax)
        ax.set_xlabel(f"Training images perceived as {gender} (%)")
        ax.set_ylabel(f"Captions with {gender} indicators (%)")
    drawn[0][0].set(xlim=(-2, 102), ylim=(-2, min(102, both["indicated"].max() * 1.1 + 2)))
    for ax, rows in drawn:
        far = rows.loc[(rows["indicated"] - rows["indicated"].median()).abs().nlargest(10).index]
        points = rows["share"], rows["indicated"]
        style.label_points(ax, far["share"], far["indicated"], far["occupation"], avoid=points)
    return figure


def _r(row: pd.Series) -> str:
    if not np.isfinite(row["r"]):
        return f"no correlation (n = {row['n']:.0f})"
    return f"r = {row['r']:.2f} ({row['ci_low']:.2f} to {row['ci_high']:.2f}), n = {row['n']:.0f}"


@style.empty_without_rows
def occupation_shares(shares: pd.DataFrame, occupation: str) -> Figure:
    """Draw an occupation's shares: behind all captions, behind those without indicators, and generated (Figure 1).

    Args:
        shares: Rows of ``paradox_percent_female``, with intervals.
        occupation: Its name.
    """
    rows = shares[(shares["occupation"] == occupation) & shares["percent_female"].notna()]
    training = (rows["source"] == "training") & rows["approach"].isin(["naive", "no_indicators"])
    rows = rows[training | ((rows["source"] == "generated") & (rows["approach"] == "naive"))]
    rows = rows[rows.groupby("model")["approach"].transform("nunique") > 1]
    if rows.empty:
        return style.nothing(f"There are no shares of {occupation!r} for captions without gender indicators.")
    of = {"naive": "all captions", "no_indicators": "no indicators"}
    names = [
        f"{r.source}: {prompt_name(r.prompt).lower() if r.source == 'generated' else of[r.approach]} (n = {r.n:.0f})"
        for r in rows.itertuples()
    ]
    return forms.estimates(
        rows.assign(what=names).sort_values(["model", "source"], ascending=False, kind="stable"),
        "percent_female",
        row="what",
        panel="model",
        label=f"{occupation.capitalize()}: perceived as female (%)",
        reference=50,
        xlim=(-2, 102),
    )


@style.empty_without_rows
def similarity(means: pd.DataFrame) -> Figure:
    """Draw mean similarities by approach, averaged over prompts, beside what the paper states.

    Args:
        means: Rows of ``paradox_similarity_mean``.
    """
    prompt = "mean" if (means["prompt"] == "mean").any() else means["prompt"].iloc[0]
    return forms.estimates(
        _in_order(means[(means["prompt"] == prompt) & means["similarity"].notna()], "approach"),
        "similarity",
        row="approach",
        hue="model",
        row_names=APPROACH_NAMES,
        panel="compared",
        panel_names={"text": "Captions with the prompt", "image": "Training with generated images"},
        label="Mean cosine",
        reference=None,
        floor="published",
        floor_name="stated by the paper (LAION)",
        columns=2,
    )


@style.empty_without_rows
def word_accuracy(accuracy: pd.DataFrame) -> Figure:
    """Draw how often generated images follow gender indicators in captions, a panel a model.

    Args:
        accuracy: Rows of ``paradox_gender_word_accuracy``.
    """
    rows = _in_order(accuracy, "approach")
    names = [
        f"{APPROACH_NAMES[r.approach]}: {'all' if r.indicator == 'all' else r.indicator} indicators"
        for r in rows.itertuples()
    ]
    own = {
        "training image": "as the caption's own image shows",
        "indicator": "as the caption says",
    }
    return forms.estimates(
        rows.assign(what=names),
        "percent",
        row="what",
        hue="against",
        look=forms.Look(own),
        panel="model",
        label="Generated images of that gender (%)",
        reference=None,
        floor="published",
        floor_name="stated by the paper (SD 1.4)",
        xlim=(max(-2, np.floor(np.nanmin([rows["ci_low"].min(), 95]) / 5) * 5 - 1), 100.8),
    )


# -- images ------------------------------------------------------------------------------------------------------


@style.empty_without_rows
def gallery(
    rows: pd.DataFrame,
    read: Callable,
    *,
    below: str = "below",
    line: str = "",
    columns: int = 8,
    blur: bool = True,
) -> Figure:
    """Draw images with what gate and judge made of them.

    Args:
        rows: Judgements of the images to show, with their ``kind``, as :mod:`pictures` picks them.
        read: What gives the images of a kind: ``study.images``.
        below: The column with the texts below the images.
        line: The column whose values have a line of images each; empty for none.
        columns: Images in a line, where ``line`` is empty.
        blur: Whether faces are made unrecognisable where training images are among them, as they must be in reports
            where these may show real people.
    """
    images = [
        image
        for kind, some in _runs(rows["kind"])
        for image in read(kind).read(rows["image_id"].iloc[some].tolist())
    ]
    if line:
        columns = int(rows[line].value_counts().max())
    hidden = blur and bool((rows["kind"] == "training").any())
    return galleries.gallery(
        images, rows.reset_index(drop=True), rows[below].astype(str).tolist(), columns=columns, blur=hidden
    )


def _runs(values: pd.Series) -> Iterable[tuple[str, slice]]:
    """Yield each run of equal values and where it is."""
    starts = [0, *(np.flatnonzero(values.to_numpy()[1:] != values.to_numpy()[:-1]) + 1), len(values)]
    for start, end in pairwise(starts):
        yield values.iloc[start], slice(start, end)


# -- what serves several -----------------------------------------------------------------------------------------


def _in_order(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return rows in the order of approaches, each model's as they come."""
    order = {a: i for i, a in enumerate(APPROACH_NAMES)}
    return rows.sort_values(column, key=lambda c: c.map(order), kind="stable")


def _ends(rows: pd.DataFrame, low: str = "ci_low", high: str = "ci_high") -> tuple[float, float]:
    """Return ends of an axis that holds all intervals, and 0."""
    least, most = min(0, rows[low].min()), max(0, rows[high].max())
    return float(least - 0.04 * (most - least)), float(most + 0.04 * (most - least))
