"""Figures of the bias amplification paradox: tables in, figures out.

Where a function says no more of its first argument, that is rows of the table that it names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Polygon, Rectangle

from biaslab.plots import forms, style, texts
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
DEFINITIONS = forms.look(
    {
        "published": ("published rule (same lean only)", style.VERMILION, "o"),
        "no_exclusion": ("no exclusion", style.BLUE, "s"),
        "directional": ("along the training lean", style.GREEN, "D"),
    }
)
_OUTCOMES = forms.look(
    {
        "judged": ("judged female or male", style.LIGHT),
        "uncertain": ("judge not sure", style.ORANGE),
        "no_face": ("no face", style.BLUE),
        "several_faces": ("several faces", style.GREEN),
        "face_too_small": ("face too small", style.PURPLE),
        "unreadable": ("unreadable", style.BLACK),
        "blocked": ("withheld by the safety checker", style.VERMILION),
        "unrated": ("not rated", style.SKY),
    }
)
_COUNTED = forms.look(
    {"": ("counted by the published rule", style.BLACK, "o"), "out": ("left out by it", style.VERMILION, "X")}
)
_GENDERS = forms.look({"female": ("female", style.FEMALE, "o"), "male": ("male", style.MALE, "s")})
_FOUND = forms.look(
    {
        "n_captions": ("name the occupation", style.BLUE, "o"),
        "n_candidates": ("searched for the nearest", style.ORANGE, "D"),
        "n_sampled": ("taken at random", style.BLACK, "|"),
    }
)
_SHARES = ("percent_training", "percent_generated")
slug = texts.as_name


def prompt_name(prompt: str) -> str:
    """Return a prompt's name as a heading."""
    if prompt.isdigit():
        return f"Prompt {prompt}"
    return "Mean of prompts" if prompt == "mean" else prompt.capitalize()


# -- shares ------------------------------------------------------------------------------------------------------


@style.empty_without_rows
def shares(occupations: pd.DataFrame, panel: Sequence[str] = ("prompt",)) -> Figure:
    """Draw % female in training against generated images, a point an occupation (Figures 3, 5, 7 and 9).

    Of ``paradox_occupation_amplification`` or ``mean_over_prompts``; ``panel`` names the columns whose values have a
    panel each: of ``model``, ``approach`` and ``prompt``.
    """
    heads = occupations[list(panel)].apply(lambda row: ", ".join(map(_name, row)), axis=1)
    rows = occupations.assign(panel=heads, counted=np.where(occupations["excluded"] == "", "", "out"))
    keys = [
        Patch(facecolor=style.AMPLIFIED, alpha=0.3, label="amplified"),
        Patch(facecolor=style.DEAMPLIFIED, alpha=0.4, label="de-amplified"),
        Patch(facecolor="white", edgecolor="#BBBBBB", hatch="////", label="opposite lean"),
    ]
    if rows["training_low"].notna().any():
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
        named=12,
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
    wide = [rows[f"{side}_high"] - rows[f"{side}_low"] for side in ("training", "generated")]
    x, y = (float(width.median()) / 2 for width in wide)
    if np.isfinite(x + y):
        # In the corner where least is: all training images female, all generated ones male.
        ax.errorbar(98 - x, 2 + y, xerr=x, yerr=y, color=style.GREY, lw=1.2, zorder=2)


# -- amplification -----------------------------------------------------------------------------------------------


@style.empty_without_rows
def by_definition(amplification: pd.DataFrame) -> Figure:
    """Draw ``paradox_amplification`` of one approach that has intervals, by definition and prompt, a panel a model."""
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
    """Draw published rows of ``paradox_amplification``, means over prompts; hollow where only an average is printed."""
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
    """Draw each approach's change from its reference, by definition, a panel a model (``paradox_approach_change``).

    Hollow where too few occupations leave the images' noise in, so that there is no interval.
    """
    some = change[~change["prompt"].str.isdigit()]
    less = [
        APPROACH_NAMES[a] + ("" if r == "naive" else f"\nless: {APPROACH_NAMES[r].lower()}")
        for a, r in zip(some["approach"], some["reference"], strict=True)
    ]
    return forms.estimates(
        some.assign(pair=less, known=some["ci_low"].notna()),
        "change",
        row="pair",
        hue="definition",
        look=DEFINITIONS,
        panel="model",
        label="Change of amplification (points)",
        filled="known",
        filled_names=("image noise taken out", "too few: left in, no interval"),
    )


@style.empty_without_rows
def signed_changes(occupations: pd.DataFrame, *, most: int = 15) -> Figure:
    """Draw the occupations that change most, ``most`` along and as many against their training lean.

    Of ``paradox_occupation_amplification`` of one model and approach; dots are means over prompts, lines reach over
    the prompts.
    """
    rows = occupations.assign(counted=occupations["excluded"] == "").groupby("occupation")
    mean = rows["directional"].agg(directional="mean", lowest="min", highest="max")
    mean = mean.assign(counted=rows["counted"].all()).dropna()
    mean = mean.sort_values("directional", ascending=False).reset_index()
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

    Of ``paradox_prompt_variation`` and ``paradox_percent_female`` of that model and approach.
    """
    top = variation.nlargest(most, "sd_prompts").set_index("occupation")
    sides = {source: rows[rows["occupation"].isin(top.index)] for source, rows in shares.groupby("source")}
    wide = sides["generated"].pivot(index="occupation", columns="prompt", values="percent_female")
    wide = wide.loc[top.index]
    # sd_noise is that of k shares around their own mean, which moves with them; one share alone moves more.
    k, mean = wide.notna().sum(axis=1), wide.mean(axis=1)
    reach = 2 * top["sd_noise"] * np.sqrt(k / (k - 1).where(k > 1))
    training = sides["training"].drop_duplicates("occupation").set_index("occupation")["percent_female"]
    known = pd.DataFrame({"low": mean - reach, "high": mean + reach, "training": training.reindex(top.index)})
    return forms.estimates(
        known.join(wide).reset_index().melt(["occupation", *known], value_name="share"),
        "share",
        row="occupation",
        hue="variable",
        look=forms.Look({prompt: prompt_name(prompt) for prompt in wide}),
        label="Perceived as female (%)",
        limits=None,
        reference=50,
        band=("low", "high"),
        band_name="about 95 % of shares by noise alone",
        mark="training",
        mark_name="training images",
        xlim=(-2, 102),
        inch=0.13,
    )


@style.empty_without_rows
def variation_and_noise(variation: pd.DataFrame) -> Figure:
    """Draw each spread over prompts, and what noise alone gives, a row a model (``paradox_prompt_variation``)."""
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
    """Draw how many captions name each occupation, and how many were taken (``paradox_captions_found``, one corpus)."""
    found = found.sort_values("n_captions", ascending=False, kind="stable")
    half = len(found) / (2 if len(found) > 24 else 1)
    rows = found.assign(part=np.arange(len(found)) // half).melt(["occupation", "part"], list(_FOUND.names))
    # A count of 0 has no place on a scale of powers of ten; it stands at its left end.
    least = max(0.7, 0.5 * float(rows["value"].min()))
    figure = forms.estimates(
        rows.assign(value=rows["value"].clip(lower=least)),
        "value",
        row="occupation",
        hue="variable",
        look=_FOUND,
        panel="part",
        panel_names={0: "", 1: ""},
        label="Captions",
        limits=None,
        reference=None,
        xlim=(least, 1.5 * rows["value"].max()),
        columns=2,
        inch=0.12,
    )
    for ax in figure.axes:
        ax.set_xscale("log")
    return figure


@style.empty_without_rows
def outcomes(outcomes: pd.DataFrame) -> Figure:
    """Draw what became of the images of each source, a bar each, a panel a model (``paradox_outcomes``)."""
    rows = _in_order(outcomes.sort_values("prompt", kind="stable"), "approach")
    rows = rows[rows["n"] > 0].sort_values("source", ascending=False, kind="stable")
    return forms.stacked(
        rows.assign(bar=[_bar_name(row) for row in rows.itertuples()]),
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
    what = [] if row.prompt == "captions" else [prompt_name(row.prompt).lower()]
    if (row.source, row.approach) != ("generated", "naive"):
        what.insert(0, APPROACH_NAMES[row.approach].lower())
    return f"{row.source}: {', '.join(what)} (n = {row.n_images:,.0f})"


@style.empty_without_rows
def indicator_use(indicators: pd.DataFrame) -> Figure:
    """Draw how often captions of men's and of women's images indicate a gender (``paradox_indicators``, one corpus)."""
    rarer, axes = np.where(indicators["percent_female"] < 50, "female", "male"), ("male", "female")
    sides = [f"percent_any_of_{gender}" for gender in axes]
    return forms.diagonal(
        indicators.assign(rarer=rarer).dropna(subset=sides),
        *sides,
        labels=("Indicator in captions of men's images (%)", "Indicator in captions of women's images (%)"),
        ends=(-2, 102),
        hue="rarer",
        look=replace(_GENDERS, names={gender: f"{gender} is the rarer gender" for gender in axes}),
        names="occupation",
        named=12,
    )


@style.empty_without_rows
def indicator_correlation(indicators: pd.DataFrame, correlation: pd.DataFrame) -> Figure:
    """Draw the share of captions that indicate a gender against the share of images perceived as of it.

    Of ``paradox_indicators`` and, for the headings, ``paradox_indicator_correlation`` of one corpus.
    """
    known = indicators[indicators["n"] > 0].dropna(subset=["percent_female"])
    if known.empty:
        return style.nothing("Of no occupation's training images could anybody be judged.")
    shares = {"female": known["percent_female"], "male": 100 - known["percent_female"]}
    indicated = {g: known[f"percent_{g}_indicator"] + known["percent_both"] for g in shares}
    both = pd.concat([known.assign(gender=g, share=shares[g], indicated=indicated[g]) for g in shares])
    any_of = correlation[correlation["counted"] == "any"].set_index("gender")
    heads = {gender: _r(any_of.loc[gender]) for gender in shares if gender in any_of.index}
    ends = {"xlim": (-2, 102), "ylim": (-2, min(102, both["indicated"].max() * 1.1 + 2))}
    figure, parts = forms.panels(both, "gender", names=heads, height=4.4, subplot_kw=ends)
    for ax, rows in parts:
        gender = rows["gender"].iloc[0]
        look = {"color": _GENDERS.colors[gender], "alpha": 0.85}
        ax.plot(rows["share"], rows["indicated"], _GENDERS.markers[gender], **look)
        if len(rows) > 2 and rows["share"].nunique() > 1:
            line = {"scatter": False, "ci": None, "color": style.BLACK, "truncate": True}
            sns.regplot(rows, x="share", y="indicated", **line, ax=ax)
        ax.set_xlabel(f"Training images perceived as {gender} (%)")
        ax.set_ylabel(f"Captions with {gender} indicators (%)")
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

    Of ``paradox_percent_female``, with intervals.
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
    """Draw mean similarities by approach, beside what the paper states (``paradox_similarity_mean``)."""
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
    """Draw how often generated images follow indicators in captions (``paradox_gender_word_accuracy``)."""
    rows = _in_order(accuracy, "approach")
    names = rows["approach"].map(APPROACH_NAMES) + ": " + rows["indicator"] + " indicators"
    own = {"training image": "as the caption's own image shows", "indicator": "as the caption says"}
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
    rows: pd.DataFrame, read: Callable, *, line: str = "", columns: int = 8, blur: bool = True
) -> Figure:
    """Draw images with what gate and judge made of them.

    Args:
        rows: Judgements of the images to show, with ``kind`` and ``below``, as :mod:`pictures` picks them.
        read: What gives the images of a kind: ``study.images``.
        line: The column whose values have a line of images each; empty for none.
        columns: Images in a line, where ``line`` is empty.
        blur: Whether faces are made unrecognisable where training images, which may show real people, are among them.
    """
    rows = rows.reset_index(drop=True)
    images = {}
    for kind, some in rows.groupby("kind"):
        images |= dict(zip(some.index, read(kind).read(some["image_id"].tolist()), strict=True))
    if line:
        columns = int(rows[line].value_counts().max())
    hidden = blur and bool((rows["kind"] == "training").any())
    texts = rows["below"].astype(str).tolist()
    return galleries.gallery([images[i] for i in rows.index], rows, texts, columns=columns, blur=hidden)


# -- what serves several -----------------------------------------------------------------------------------------


def _in_order(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return rows in the order of approaches, each model's as they come."""
    order = {a: i for i, a in enumerate(APPROACH_NAMES)}
    return rows.sort_values(column, key=lambda c: c.map(order), kind="stable")


def _ends(rows: pd.DataFrame, low: str = "ci_low", high: str = "ci_high") -> tuple[float, float]:
    """Return ends of an axis that holds all intervals, and 0."""
    least, most = min(0, rows[low].min()), max(0, rows[high].max())
    return float(least - 0.04 * (most - least)), float(most + 0.04 * (most - least))
