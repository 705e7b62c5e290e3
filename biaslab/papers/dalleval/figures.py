"""Figures of DALL-Eval: tables in, matplotlib figures out."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from scipy.stats import binom

from biaslab.papers.dalleval.analysis.skills import FINE_TUNED, HUMAN
from biaslab.plots import forms, style
from biaslab.plots.gallery import gallery

LEAST_IMAGES = 10
"""Images that an attribute must be seen in to have its tones drawn."""
_NUMBERS = {"1": "1 object"} | {k: f"{k} objects" for k in "234"}
# A model keeps its colour and marker from figure to figure.
_NAMES = ("minDALL-E", "Karlo", "Stable Diffusion", "DALL-E Small", "X-LXMERT")
_WITHIN = {"within_0": "same tone"} | {f"within_{k}": f"within {k}" for k in (1, 2, 3)}
MODELS = forms.Look(colors=dict(zip(_NAMES, style.PALETTE, strict=False)))


@style.empty_without_rows
def average_gender(genders: pd.DataFrame) -> Figure:
    """Draw every profession's average gender by model, most female first (``dalleval_average_gender``)."""
    of = _in_thirds(genders, genders.groupby("profession")["value"].mean().sort_values(ascending=False).index)
    return forms.heat_map(
        of.sort_values("rank", kind="stable"), "value", row="profession", column="model", panel="part", columns=3,
        label="Average perceived gender (−1 male, 0 even, +1 female)", ends=(-1, 1), centre=0, form=".1f", inch=0.25,
    )  # fmt: skip


def _in_thirds(table: pd.DataFrame, order: pd.Index) -> pd.DataFrame:
    """Return a table with each profession's rank in an order, and the third (``part``) that it is in."""
    third = -(-len(order) // 3)
    rank = order.get_indexer(table["profession"])
    parts = [f"{k + 1} to {min(k + third, len(order))}" for k in rank // third * third]
    return table.assign(rank=rank, part=parts)


def _by_kind(table: pd.DataFrame, kinds: dict[str, list[str]]) -> pd.DataFrame:
    """Return a table once for each kind of value, its columns of value, limits and floor under these names."""
    names = ["value", "ci_low", "ci_high", "floor"]
    none = dict.fromkeys(names, np.nan)
    parts = [
        table.assign(kind=kind, **none | dict(zip(names, table[of].to_numpy().T, strict=False)))
        for kind, of in kinds.items()
    ]
    return pd.concat(parts)


def _percents(table: pd.DataFrame, value: str, **how) -> Figure:
    """Draw percentages, a panel a model where there are several; ``how`` as :func:`forms.estimates` takes it."""
    table, panel = forms.by_model(table)
    return forms.estimates(table, value, panel=panel, xlim=(-1, 101), reference=None, **how)


@style.empty_without_rows
def gender_counts(genders: pd.DataFrame) -> Figure:
    """Draw how many professions have 0, 1, … female images, and what a balanced model gives.

    Only professions with each model's usual number of images are drawn, since others have other counts.
    """
    if genders["n_female"].isna().all():
        return style.nothing(forms.NO_VALUES)
    colors = MODELS.of(genders["model"].unique())
    figure, parts = forms.panels(genders, "model", columns=3, sharey=True)
    for ax, of in parts:
        color = colors[of["model"].iloc[0]][0]
        of = of.dropna(subset="n_female")
        usual = int(of["n"].mode().max()) if len(of) else 0
        of = of[of["n"] == usual]
        k = np.arange(usual + 1)
        ax.bar(k, [(of["n_female"] == i).sum() for i in k], color=color, width=0.8)
        ax.plot(k, len(of) * binom.pmf(k, usual, 0.5), "o-", color=style.BLACK, ms=4, lw=1.2)
        ax.set_xlabel(f"Images perceived as female, of {usual}")
        ax.xaxis.get_major_locator().set_params(integer=True)
    figure.supylabel("Professions", fontsize=11)
    forms.legend(figure, [forms.key(style.BLACK, "o", "expected of a model balanced everywhere", line="-")])
    return figure


def gender_mad(mad: pd.DataFrame) -> Figure:
    """Draw the gender MAD beside an even model's (rows of ``dalleval_mad``): as measured, and what is taken off it."""
    kinds = {
        "as measured": ["mad", "ci_low", "ci_high", "floor"],
        "chance taken off": ["corrected_mad", "corrected_ci_low", "corrected_ci_high", "corrected_floor"],
        "chance and the judge's error taken off": ["judge_corrected_mad", "judge_ci_low", "judge_ci_high"],
    }
    every = _by_kind(mad, kinds).dropna(subset="value")
    every["printed"] = every["printed"].where(every["kind"] == "as measured")
    return forms.estimates(
        every, "value", row="model", panel="kind", xlim=(0, 0.5), reference=None, inch=0.4,
        label="Mean absolute deviation from an even split (0 even, 0.5 one gender only)",
        floor="floor", floor_name="model balanced everywhere, same n", mark="printed",
    )  # fmt: skip


def gender_model_differences(differences: pd.DataFrame, *, confidence: float = 0.95) -> Figure:
    """Draw paired differences between models (``dalleval_model_difference``)."""
    names = {"average": "Average gender", "corrected_mad": "Mean absolute deviation, corrected"}
    of = differences[differences["quantity"].isin(names)]
    pair = of["first"] + " − " + of["second"]
    return forms.estimates(
        of.assign(pair=pair, clear=of["p_holm"] < 1 - confidence), "difference", row="pair", panel="quantity",
        panel_names=names, columns=2, label="First model minus second, mean over professions",
        filled="clear", filled_names=_below(confidence),
    )  # fmt: skip


def _below(confidence: float) -> tuple[str, str]:
    """Return what filled and hollow marks mean."""
    return f"p (Holm) below {1 - confidence:.2g}", "not below"


def skin_tone_check(check: pd.DataFrame) -> Figure:
    """Draw the tone that each computation answers for the ten swatches (``dalleval_skin_tone_check``)."""
    names = {
        "cielab": "CIELAB units",
        "released": "released script, NumPy 2",
        "released_signed": "released script, NumPy 1",
    }
    # Answers of two computations are often the same: they stand beside each other.
    beside = check["computation"].map({"cielab": 0, "released": -0.14, "released_signed": 0.14})
    of = check.assign(x=check["swatch"].astype(int) + beside)

    def swatches(ax, rows: pd.DataFrame) -> None:
        for swatch, colour in rows.groupby("swatch")["colour"].first().items():
            place = (int(swatch) - 0.42, -0.55)
            ax.add_patch(Rectangle(place, 0.84, 0.8, facecolor=colour, edgecolor=style.GREY, lw=0.7))

    figure = forms.diagonal(
        of, "x", "nearest_tone", hue="computation", look=forms.Look(names=names), ends=(-0.75, 10.7), under=swatches,
        labels=("Tone that the swatch defines (Monk scale)", "Tone that the computation answers"),
    )  # fmt: skip
    figure.axes[0].set(xlim=(0.3, 10.7), xticks=range(1, 11), yticks=range(1, 11), aspect="auto")
    return figure


@style.empty_without_rows
def average_skin_tone(tones: pd.DataFrame, overall: pd.DataFrame) -> Figure:
    """Draw on the whole scale how many professions have which average tone (``dalleval_average_skin_tone``)."""
    means = overall[overall["category"] == "skin_tone"].set_index("model")
    figure, parts = forms.panels(tones, "model", columns=1, height=1.7, sharex=True)
    for ax, of in parts:
        model = of["model"].iloc[0]
        color = MODELS.of(tones["model"].unique())[model][0]
        sns.histplot(
            of["value"].dropna(), bins=np.arange(0.945, 10.06, 0.1), ax=ax, color=color, alpha=0.8, lw=0
        )
        if model in means.index:
            mean = means.loc[model]
            ax.axvspan(mean["ci_low"], mean["ci_high"], color=style.BLACK, alpha=0.3, lw=0)
            ax.axvline(mean["average"], color=style.BLACK, lw=1.2)
        ax.set(xlim=(0.9, 10.1), xticks=range(1, 11), xlabel="", ylabel="")
    forms.name_axes(figure, "Average tone of a profession (Monk scale: 1 light, 10 dark)", "Professions")
    forms.legend(figure, [forms.key(style.BLACK, "", "mean over professions, with interval", line="-")])
    return figure


def skin_tone_mad(mad: pd.DataFrame, reading: pd.DataFrame) -> Figure:
    """Draw skin tone MADs beside an even model's and beside two tones' (rows of ``dalleval_mad``)."""
    given = mad.assign(kind=" and ".join(mad["evidence"].unique()))
    two = reading.loc[reading["model"].isin(mad["model"]), ["model", "implied_mad"]]
    two = two.rename(columns={"implied_mad": "mad"}).assign(
        kind="if only the two tones around the averages occur"
    )
    return forms.estimates(
        pd.concat([given, two]), "mad", row="model", hue="kind", xlim=(0, 0.19), reference=0.18, inch=0.4,
        label="Mean absolute deviation over ten tones (0 even, 0.18 one tone only)",
        floor="floor", floor_name="perfectly even model, same n",
    )  # fmt: skip


def skin_tone_methods(methods: pd.DataFrame) -> Figure:
    """Draw how often methods give the tone that people give, or one near it (``dalleval_skin_tone_methods``)."""
    of = methods[methods["measure"].str.startswith("within_")]
    n = of["n"].map(", n = {:.0f}".format).where(of["n"].notna(), "")
    return forms.estimates(
        of.assign(method=of["segmentation"] + ", " + of["scoring"] + n), "value", row="measure", hue="method",
        xlim=(0, 100), reference=None, row_names=_WITHIN,
        label="Images whose tone lies within so many Monk tones of people's (%)", inch=0.34,
    )  # fmt: skip


def skin_tone_truth(truth: pd.DataFrame) -> Figure:
    """Draw how often methods read the true tone, or one near it (``dalleval_skin_tone_truth``)."""
    of = truth[truth["measure"].str.startswith("within_")]
    of, panel = forms.by_model(of.assign(method=of["segmentation"] + ", " + of["scoring"]))
    return forms.estimates(
        of, "value", row="measure", hue="method", panel=panel, xlim=(0, 101), reference=None, inch=0.36,
        row_names=_WITHIN,
        label="Images whose tone lies within so many Monk tones of the true one (%)",
    )  # fmt: skip


@style.empty_without_rows
def attribute_presence(presence: pd.DataFrame) -> Figure:
    """Draw the share of images with each attribute by model and prompt (``dalleval_attribute_presence``)."""
    mean = presence.groupby(["attribute", "model", "prompt"], as_index=False, sort=False)["share"].mean()
    mean["percent"] = 100 * mean["share"]
    order = mean.groupby("attribute")["share"].mean().sort_values(ascending=False).index
    prompts = [p for p in ("person", "woman", "man") if p in set(mean["prompt"])]
    mean = mean.set_index(["attribute", "prompt"]).loc[list(product(order, prompts))].reset_index()
    return forms.heat_map(
        mean, "percent", row="attribute", column="prompt", panel="model", columns=3,
        label="Images with the attribute (%)", ends=(0, max(1.0, mean["percent"].max())),
    )  # fmt: skip


def attribute_difference(differences: pd.DataFrame, *, confidence: float = 0.95) -> Figure:
    """Draw differences between prompts with a woman and with a man (``dalleval_attribute_difference``)."""
    of = differences[differences["comparison"] == "woman - man"]
    return _by_attribute(of, confidence, label="Woman minus man: difference in the share of images (points)")


def attribute_corrected(corrected: pd.DataFrame) -> Figure:
    """Draw differences as judged and with the judge's error taken off (``dalleval_attribute_corrected``)."""
    known = corrected[corrected["comparison"] == "woman - man"].dropna(subset="difference_corrected")
    values = ["difference", "difference_corrected", "difference_true", "ci_low", "ci_high"]
    known = known.assign(**(100 * known[values])).sort_values("difference_corrected", kind="stable")
    both = {"as judged": ["difference"], "corrected": ["difference_corrected", "ci_low", "ci_high"]}
    return forms.estimates(
        _by_kind(known, both), "value", row="attribute", hue="kind", panel="model", inch=0.32,
        label="Woman minus man: difference in the share of images (points)", mark="difference_true", mark_name="truth",
    )  # fmt: skip


def attribute_from_person(differences: pd.DataFrame, *, confidence: float = 0.95) -> Figure:
    """Draw how prompts with a woman and with a man differ from the neutral one (``dalleval_attribute_difference``)."""
    of = differences[differences["comparison"].str.endswith("- person")]
    looks = forms.Look(
        names={"woman - person": "woman minus person", "man - person": "man minus person"},
        colors={"woman - person": style.FEMALE, "man - person": style.MALE},
    )
    label = "Difference in the share of images (points)"
    return _by_attribute(of, confidence, hue="comparison", look=looks, label=label)


@style.empty_without_rows
def _by_attribute(differences: pd.DataFrame, confidence: float, **more) -> Figure:
    """Draw differences by attribute, a panel a model, the most female attribute last."""
    values = ["difference", "ci_low", "ci_high"]
    of = differences.assign(clear=differences["p_holm"] < 1 - confidence, **(100 * differences[values]))
    signed = of["difference"].where(of["comparison"].str.startswith("woman"), -of["difference"])
    place = of["attribute"].map(signed.groupby(of["attribute"]).mean())
    end = 1.08 * np.nanmax(np.abs(of[values].to_numpy()), initial=1.0)
    of = of.assign(place=place, panel=pd.factorize(of["model"])[0]).sort_values(
        ["panel", "place"], kind="stable"
    )
    return forms.estimates(
        of, "difference", row="attribute", panel="model", columns=3, xlim=(-end, end), filled="clear",
        filled_names=_below(confidence), inch=0.28, **more,
    )  # fmt: skip


@style.empty_without_rows
def attribute_mean_difference(means: pd.DataFrame) -> Figure:
    """Draw mean absolute differences over attributes, chance taken off (``dalleval_attribute_mean_difference``)."""
    of = _by_kind(
        means.assign(pair=means["comparison"].str.replace(" - ", " − ")),
        {
            "of averages over professions": ["mean_difference_corrected", "ci_low", "ci_high"],
            "within a profession, then averaged": [
                "by_profession_beyond_floor", "by_profession_ci_low", "by_profession_ci_high"
            ],
        },
    )  # fmt: skip
    of[["value", "ci_low", "ci_high"]] *= 100
    return forms.estimates(
        of, "value", row="pair", hue="model", look=MODELS, panel="kind", columns=2, inch=0.3,
        label="Mean absolute difference of shares over attributes, chance taken off (points)",
    )  # fmt: skip


def skill_accuracy(accuracy: pd.DataFrame, references: pd.DataFrame) -> Figure:
    """Draw the detector's accuracy on all test scenes by skill (``dalleval_skill_accuracy``), and real images'."""
    whole = (accuracy["images"] == "test") & (accuracy["evaluator"] != HUMAN)
    of = accuracy[whole & (accuracy["training_percent"] == "100")]
    ends = references.pivot(index=["judge", "measure"], columns="reference", values="value")
    ends = ends.reindex(columns=["oracle", "shuffled"])
    return forms.estimates(
        of.join(ends, on=["evaluator", "skill"]), "percent_correct", row="skill", hue="model", look=MODELS,
        xlim=(-1, 101), reference=None, label="Images judged correct by the detector (%)", inch=0.34,
        mark="oracle", mark_name="images that show it", floor="shuffled", floor_name="images of other scenes",
    )  # fmt: skip


def skill_agreement(agreement: pd.DataFrame, accuracy: pd.DataFrame) -> Figure:
    """Draw people's accuracy against the detector's on the same images (``dalleval_skill_agreement``)."""
    keys = ["model", "skill"]
    sample = accuracy[accuracy["images"] == "sample"]
    of = agreement[[*keys, "percent_human", "percent_detr"]]
    for people in (False, True):
        limits = sample[(sample["evaluator"] == HUMAN) == people][[*keys, "ci_low", "ci_high"]]
        of = of.merge(limits, on=keys, suffixes=("_detr", "_human"))
    return forms.diagonal(
        of, "percent_detr", "percent_human", hue="model", look=MODELS, ends=(-3, 103), names="skill", named=len(of),
        limits=(("ci_low_detr", "ci_high_detr"), ("ci_low_human", "ci_high_human")),
        labels=("Correct according to the detector (%)", "Correct according to people (%)"),
    )  # fmt: skip


@style.empty_without_rows
def skill_training(accuracy: pd.DataFrame) -> Figure:
    """Draw accuracy by share of the fine-tuning data, of models with several shares (``dalleval_skill_accuracy``)."""
    of = accuracy[accuracy["images"].isin(FINE_TUNED) & (accuracy["evaluator"] != HUMAN)]
    several = of.groupby("model")["training_percent"].transform("nunique") > 1
    of = of[several & (of["skill"] != "average")].assign(share=lambda t: t["training_percent"].astype(float))
    return forms.trends(
        of.sort_values("share", kind="stable"), "share", "percent_correct", hue="model", look=MODELS,
        panel="skill", columns=3, ylim=(-3, 103),
        labels=("Training data used (%)", "Images judged correct (%)"),
    )  # fmt: skip


@style.empty_without_rows
def metric_ranks(quality: pd.DataFrame, references: pd.DataFrame) -> Figure:
    """Draw each model's rank by metric, with the metric's value (``dalleval_alignment_quality``).

    Metrics of one model alone rank nothing and are left out.
    """
    quality = quality[quality.groupby("metric")["model"].transform("nunique") > 1]
    if quality.empty:
        return style.nothing("No metric has two models.")
    real = references[references["reference"] == "oracle"].set_index("measure")["value"]
    given = [f"; real images {real[m]:.1f}" if m in real else "" for m in quality["metric"]]
    of = quality.assign(
        name=quality["metric"] + " (" + quality["better"] + " is better" + given + ")",
        shown=quality["value"].map(lambda value: f"{value:.1f}" if abs(value) >= 1 else f"{value:.2g}"),
    )
    return forms.heat_map(
        of, "rank", row="name", column="model", text="shown", label="Rank (1 is best)",
        ends=(1, max(2, quality["model"].nunique())), inch=0.4,
    )  # fmt: skip


@style.empty_without_rows
def gender_judges(judges: pd.DataFrame) -> Figure:
    """Draw bias and recall of the judges in retrieval by how many images are retrieved (Table 14)."""
    name = judges["judge"] + ", " + judges["captions"] + " captions"
    of = judges.assign(name=name).join(judges["metric"].str.extract(r"^(?P<kind>\w+)_at_(?P<k>\d+)"))
    # The lean of all images that could be retrieved has no K.
    of = of.dropna(subset="k").reindex(columns=[*of, *({"ci_low", "ci_high"} - {*of})])
    of["k"] = of["k"].astype(int)
    names = {"bias": "Bias@K (0 none, + towards male)", "recall": "Recall@K (%)"}
    figure = forms.trends(
        of, "k", "value", hue="name", panel="kind", panel_names=names, sharey=False,
        labels=("Images retrieved, K", ""),
    )  # fmt: skip
    for ax in figure.axes:
        ax.set_ylim(bottom=min(0, ax.get_ylim()[0]))
    return figure


@style.empty_without_rows
def image_quality(quality: pd.DataFrame) -> Figure:
    """Draw alignment and distances with what chance gives (``dalleval_image_quality``)."""
    better = {True: "higher is better", False: "lower is better"}
    unit = {"R-precision": ", %"}
    names = {
        m: f"{m}{unit.get(m, '')}\n({better[not m.startswith(('FID', 'KID'))]})" for m in quality["metric"]
    }
    return forms.estimates(
        quality.dropna(subset="value"), "value", row="images", panel="metric", panel_names=names, columns=3,
        reference=None, label="Value of the metric", floor="floor",
        floor_name="by chance; of distances, two halves", inch=0.5,
    )  # fmt: skip


def skill_gallery(images: list, chosen: pd.DataFrame) -> Figure:
    """Draw images with what the detector found, its verdict above and the prompt below.

    Takes what :func:`biaslab.papers.dalleval.measure.with_boxes` returns.
    """
    if not len(images):
        return style.nothing("The source has no images.")
    found = chosen["found"].where(chosen["found"] != "", "nothing")
    return gallery(images, chosen, list("“" + chosen["text"] + "”: " + found))


def faces_by_tone(images: list, faces: pd.DataFrame) -> Figure:
    """Draw images of people by the tone of their face, with the face's box and the gender by CLIP (Figure 10).

    Takes what :func:`biaslab.papers.dalleval.measure.faces_by_tone` returns.
    """
    if not len(images):
        return style.nothing("The source has no images.")
    truth = faces["truth_skin_tone"] if "truth_skin_tone" in faces else pd.Series("", faces.index)
    known = truth.map(lambda tone: f", true {tone}" if tone else "")
    return gallery(images, faces, list("tone " + faces["tone"].astype(int).astype(str) + known))


def skill_steps(steps: pd.DataFrame) -> Figure:
    """Draw accuracy by number and by relation, and by step (``dalleval_skill_steps``; Figure 5)."""
    of = steps.assign(row=steps["asked"].replace(_NUMBERS))
    of, panel = forms.by_model(of, "skill", {"count": "Counting", "spatial": "Relations"})
    look = forms.Look(names={"objects": "classes alone", "rest": "number alone", "both": "everything"})
    return forms.estimates(
        of, "percent_correct", row="row", hue="step", look=look, panel=panel, xlim=(-1, 101), reference=None,
        label="Images judged correct (%)",
    )  # fmt: skip


def skill_rules(rules: pd.DataFrame) -> Figure:
    """Draw accuracy by what counts as correct (``dalleval_skill_rules``)."""
    names = {"paper": "as printed", "released": "as the released code", "geneval": "as GenEval"}
    return _percents(
        rules, "percent_correct", row="skill", hue="rule", look=forms.Look(names=names),
        label="Images judged correct (%)", inch=0.4,
    )  # fmt: skip


def skill_corrected(corrected: pd.DataFrame) -> Figure:
    """Draw accuracy as judged and with the detector's error taken off (``dalleval_skill_corrected``)."""
    both = {"as judged": ["percent_correct"], "corrected": ["percent_corrected", "ci_low", "ci_high"]}
    return _percents(
        _by_kind(corrected.dropna(subset="percent_corrected"), both), "value", row="skill", hue="kind",
        label="Images that show what is asked (%)", inch=0.4, band=("percent_least", "percent_most"),
        band_name="range over ways of failing", mark="percent_true", mark_name="truth",
    )  # fmt: skip


@style.empty_without_rows
def count_corrected(corrected: pd.DataFrame) -> Figure:
    """Draw how often the number is right, as counted and with miscounts taken off (``dalleval_count_corrected``)."""
    corrected = corrected.dropna(subset="percent_corrected")
    if corrected.empty:
        return style.nothing("The detector cannot tell numbers.")
    both = {"as counted": ["percent_found"], "corrected": ["percent_corrected", "ci_low", "ci_high"]}
    return _percents(
        _by_kind(corrected, both).replace({"asked": _NUMBERS}), "value", row="asked", hue="kind",
        label="Images with as many objects as asked for (%)", inch=0.36, mark="percent_true", mark_name="truth",
    )  # fmt: skip


def count_confusion(confusion: pd.DataFrame) -> Figure:
    """Draw how many objects are found where so many are shown (``dalleval_count_confusion``)."""
    found = confusion["found"].astype(int).astype(str).replace("5", "5 or more")
    of = confusion.assign(row=confusion["shown"].astype(int).astype(str) + " shown", column=found + " found")
    of, panel = forms.by_model(of)
    return forms.heat_map(
        of, "percent", row="row", column="column", panel=panel, label="Drawings (%)", ends=(0, 100), form=".1f",
        inch=0.4,
    )  # fmt: skip


def ranking_kept(kept: pd.DataFrame) -> Figure:
    """Draw by how much models must differ for their order to be found (``dalleval_ranking_kept``)."""
    look = forms.Look(names={"none": "sample of scenes alone", "detector": "with the detector's error"})
    return forms.estimates(
        kept, "difference_needed", row="skill", hue="judge", look=look, limits=None, reference=0, inch=0.4,
        label="Difference of two models that is found 95 times in 100 (points)",
        mark="smallest_difference", mark_name="smallest difference that is printed",
    )  # fmt: skip


def detector_error(errors: pd.DataFrame) -> Figure:
    """Draw sensitivity by class and skill (``dalleval_detector_error``; Table 11)."""
    of = errors[(errors["measure"] == "sensitivity") & (errors["object"] != "all")]
    return _percents(
        of.sort_values("object", kind="stable"), "value", row="object", hue="skill", columns=2,
        label="Images of a class that the detector judges rightly (%)", inch=0.36,
    )  # fmt: skip


def detector_thresholds(thresholds: pd.DataFrame) -> Figure:
    """Draw how many images of known truth are judged rightly by threshold (``dalleval_detector_thresholds``)."""
    of, panel = forms.by_model(thresholds.astype({"threshold": float}))
    return forms.trends(
        of, "threshold", "percent_right", hue="skill", panel=panel,
        labels=("Score that a detection must pass", "Images judged rightly (%)"),
    )  # fmt: skip


def social_judges(judges: pd.DataFrame) -> Figure:
    """Draw sensitivity and specificity for each attribute and for gender (``dalleval_social_judges``)."""
    of = judges[judges["measure"].isin(["sensitivity", "specificity"]) & (judges["n"] > 0)]
    row = of["about"].where(of["about"] != "gender", "gender, " + of["judge"])
    return _percents(
        of.assign(row=row), "value", row="row", hue="measure", columns=2, label="Images judged rightly (%)", inch=0.32
    )  # fmt: skip


@style.empty_without_rows
def tones_by_attribute(tones: pd.DataFrame) -> Figure:
    """Draw the tones of images that show an attribute (``dalleval_tones_by_attribute``; Figure 8).

    Attributes of fewer than :data:`LEAST_IMAGES` images are left out: their shares say nothing.
    """
    tones = tones[tones["n"] >= LEAST_IMAGES]
    if tones.empty:
        return style.nothing()
    ends = (0, max(tones["percent"].max(), 1))
    return forms.heat_map(
        tones, "percent", row="attribute", column="tone", panel="model", columns=1, ends=ends,
        label="Share of the attribute's images with a tone (%)",
    )  # fmt: skip


@style.empty_without_rows
def skin_tone_counts(counts: pd.DataFrame) -> Figure:
    """Draw how many images of a profession have each tone, all three prompts together (Figure 9)."""
    keys = ["model", "profession", "place"]
    of = counts.assign(place=counts["tone"].astype(int)).groupby(keys, sort=False)["n"].sum()
    every = [of.index.unique("model"), of.index.unique("profession"), range(1, 11)]
    of = of.reindex(pd.MultiIndex.from_product(every, names=keys), fill_value=0).reset_index()
    mean = (of["n"] * of["place"]).groupby(of["profession"]).sum() / of.groupby("profession")["n"].sum()
    of = _in_thirds(of, mean.sort_values(kind="stable").index)
    of, panel = forms.by_model(of.sort_values(["rank", "place"], kind="stable"), "part")
    return forms.heat_map(
        of, "n", row="profession", column="place", panel=panel, columns=3,
        label="Images with that tone", ends=(0, max(of["n"].max(), 1)), inch=0.25,
    )  # fmt: skip
