"""What the paradox notebooks say in words: findings computed from tables, and captions of figures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from biaslab import published
from biaslab.captions.settings import APPROACHES
from biaslab.studies import paradox

if TYPE_CHECKING:
    from biaslab.study import Study


# What tables call the embedded text-to-image model.
_EMBEDDED = ("mini", "mini-sd")


def with_interval(row: pd.Series, value: str = "amplification", *, sign: str = "") -> str:
    """Return ``value points (low to high)`` of a row; where it has no interval, the value and that it has none.

    Args:
        row: With ``ci_low`` and ``ci_high``.
        value: The column of the value.
        sign: ``+`` where a change is meant.
    """
    low, high = row["ci_low"], row["ci_high"]
    said = f"{row[value]:{sign}.2f} points"
    if not np.isfinite(low):
        return f"{said} (no interval)"
    return f"{said} ({low:{sign}.2f} to {high:{sign}.2f})"


# -- which models, and how their images were made -------------------------------------------------------------


def is_printed(study: Study, model: str) -> bool:
    """Return whether the shares of ``model`` are those that the paper prints."""
    keys = ["model", "approach", "occupation", "source", "prompt"]
    printed = paradox.PUBLISHED["paradox_percent_female"]()
    printed = printed[printed["model"] == model]
    measured = study.measured_or_empty("paradox_percent_female")
    measured = measured[measured["model"] == model]
    both = measured.merge(printed, on=keys, suffixes=("", "_printed"))
    same = np.isclose(both["percent_female"], both["percent_female_printed"])
    return len(both) == len(printed) == len(measured) and len(printed) > 0 and bool(same.all())


def setting(study: Study, model: str, name: str) -> str:
    """Return what the pipeline was told for ``model`` by the name of a setting; empty where the source is silent."""
    told = study.measured_or_empty("pipeline_settings")
    found = told.loc[(told["model"] == model) & (told["setting"] == name), "value"]
    return str(found.iloc[0]) if len(found) else ""


def detailed(study: Study, models: Iterable[str]) -> list[str]:
    """Return the models to draw one by one: those that the source measured, or all where all are printed."""
    told = {model: is_printed(study, model) for model in dict.fromkeys(models)}
    return [m for m, printed in told.items() if not printed] or list(told)


def printed_rows(study: Study, rows: pd.DataFrame) -> pd.DataFrame:
    """Return those of ``rows`` whose model's shares are printed in the paper."""
    told = {model: is_printed(study, model) for model in dict.fromkeys(rows["model"])}
    return rows[rows["model"].map(told).astype(bool)]


def is_embedded(study: Study, model: str) -> bool:
    """Return whether the captions that ``model`` is compared with, or the model itself, are embedded ones."""
    return setting(study, model, "captions.corpus") == "mini" or model in _EMBEDDED


def made_with(study: Study, model: str) -> str:
    """Say in a few words where a model's shares come from: guidance and steps belong to every generated share."""
    if is_printed(study, model):
        words = published.load("paradox_text").set_index("quantity")["value"]
        return f"printed; guidance {words['guidance_scale']:g}, {words['inference_steps']:g} steps"
    guidance, steps = (
        setting(study, model, name) for name in ("generation.guidance_scale", "generation.steps")
    )
    if not (guidance and steps):
        return ""
    where = "embedded world; " if is_embedded(study, model) else ""
    return f"{where}guidance {float(guidance):g}, {float(steps):g} steps"


def names(study: Study, models: Iterable[str]) -> dict[str, str]:
    """Return what findings call each model: its name, and how its images were made where the source tells."""
    how = {model: made_with(study, model) for model in dict.fromkeys(models)}
    return {model: f"{model} ({said})" if said else model for model, said in how.items()}


def titles(study: Study, models: Iterable[str]) -> dict[str, str]:
    """Return headings of the models' panels: the name, and below it how the images were made."""
    how = {model: made_with(study, model) for model in dict.fromkeys(models)}
    return {model: f"{model}\n{said}" if said else model for model, said in how.items()}


def instrument(study: Study) -> list[str]:
    """Say what the embedded world is, once for each model that is measured in it."""
    models = dict.fromkeys(study.measured_or_empty("pipeline_settings")["model"])
    return [
        f"{model} is an instrument: a model trained on an embedded world of drawn people whose truth is known. Its "
        "numbers are properties of that world and model; they describe no real model and no real people."
        if model in _EMBEDDED
        else f"The captions and training images beside {model} are those of an embedded world of drawn people, which "
        "it was not trained on; the comparison tries the measures out and describes no real training data."
        for model in models
        if is_embedded(study, model)
    ]


def headlines_baseline(
    amplification: pd.DataFrame, confidence: float, names: Mapping[str, str] | None = None
) -> list[str]:
    """Say for each model what the definitions give, averaged over prompts, with the naive approach.

    Args:
        amplification: The table ``paradox_amplification``.
        confidence: Level of its intervals.
        names: What to call each model; by default its name.
    """
    some = amplification[(amplification["approach"] == "naive") & amplification["ci_low"].notna()]
    if some.empty:
        return []
    prompt = "mean" if "mean" in set(some["prompt"]) else some["prompt"].iloc[0]
    sentences = []
    for model, rows in some[some["prompt"] == prompt].groupby("model", sort=False):
        by = rows.set_index("definition")
        if not {"published", "directional"} <= set(by.index):
            continue  # Too few images were judged for an interval of each.
        signed = by.loc["directional"]
        sentences.append(
            f"{(names or {}).get(model, model)}: {_change(by.loc['published'])} by the published rule "
            f"({_counted(some[some['model'] == model])}); along the training lean, over all "
            f"{signed['n_occupations']:.0f}, by {with_interval(signed)}, an interval that "
            f"{'excludes' if _excludes_zero(signed) else 'includes'} 0. In brackets: {100 * confidence:g} % "
            "intervals."
        )
    return sentences


def _excludes_zero(row: pd.Series) -> bool:
    return bool(row["ci_low"] > 0 or row["ci_high"] < 0)


def _change(row: pd.Series) -> str:
    """Say a change of bias in a direction only where its interval has one."""
    if row["ci_low"] > 0:
        return f"bias is amplified by {with_interval(row)}"
    if row["ci_high"] < 0:
        return f"bias changes by {with_interval(row)}, so it is de-amplified,"
    return f"bias changes by {with_interval(row)}, which is not told apart from 0,"


def _counted(rows: pd.DataFrame) -> str:
    """Say how many occupations the published rule counts, for each prompt where there are several."""
    single = rows[(rows["definition"] == "published") & (rows["prompt"] != "mean")]
    n, total = single["n_occupations"], (single["n_occupations"] + single["n_excluded"]).max()
    if len(single) == 1:
        return f"{n.iloc[0]:.0f} of {total:.0f} occupations"
    return f"mean of {len(single)} prompts, {n.min():.0f} to {n.max():.0f} of {total:.0f} occupations each"


def headline_shuffled(table: pd.DataFrame, names: Mapping[str, str] | None = None) -> str:
    """Say what the definitions give for shuffled shares, over the models and prompts of the table.

    Args:
        table: The table ``paradox_shuffled``.
        names: What to call each model; by default its name.
    """
    mean = "mean" if "mean" in set(table["prompt"]) else table["prompt"].iloc[0]
    lines = []
    for row in table[(table["prompt"] == mean) & (table["approach"] == "naive")].itertuples():
        lines.append(
            f"{(names or {}).get(row.model, row.model)}, {_DEFINITION_WORDS[row.definition]}: "
            f"{row.amplification_plain:.1f} points as observed, image noise left in, "
            f"{row.shuffled:.1f} with generated shares shuffled among occupations "
            f"({row.shuffled_low:.1f} to {row.shuffled_high:.1f} in the central part of {row.n_shuffles:,.0f} "
            f"shuffles)."
        )
    return "\n".join(lines)


_DEFINITION_WORDS = {
    "published": "published rule",
    "no_exclusion": "no exclusion",
    "directional": "along the training lean",
}


def shares_wide(shares: pd.DataFrame) -> pd.DataFrame:
    """Return shares with a column for training images and one a prompt (layout of Tables 6 and 7).

    Args:
        shares: Rows of ``paradox_percent_female`` of one approach with one selection of captions for all prompts.
    """
    column = np.where(shares["source"] == "training", "training", "prompt " + shares["prompt"])
    return shares.assign(column=column).pivot_table(
        index=["model", "occupation"], columns="column", values="percent_female", sort=False
    )


def approaches_wide(published_rows: pd.DataFrame) -> pd.DataFrame:
    """Return the plain measure with one column a prompt, as Table 3 prints it and in its layout."""
    return paradox.approaches_wide(published_rows)


def impossible_shares(shares: pd.DataFrame, decimals: int = 1) -> str:
    """Say how many shares, printed to ``decimals``, cannot come from exactly their stated number of images.

    Nothing is said of no shares.
    """
    if shares.empty:
        return ""
    lines = []
    for (model, source), rows in shares.groupby(["model", "source"], sort=False):
        images = rows["percent_female"] * rows["n"] / 100
        off = (images - images.round()).abs() > 0.5 * 10.0**-decimals * rows["n"] / 100 + 1e-9
        lines.append(f"{model}, {source} images: {int(off.sum())} of {len(rows)}")
    return f"Shares that cannot come from exactly the stated number of images: {'; '.join(lines)}."


def headlines_approaches(
    published_rows: pd.DataFrame, confidence: float, names: Mapping[str, str] | None = None
) -> list[str]:
    """Say how far the published measure falls from the naive to the most restrictive approach.

    Where the latter is only printed, the fall is that of the plain measure.

    Args:
        published_rows: Rows of ``paradox_amplification`` with ``definition == "published"``.
        confidence: Level of the intervals.
        names: What to call each model; by default its name.
    """
    sentences = []
    for model, rows in published_rows.groupby("model", sort=False):
        by = rows[rows["prompt"] == "mean"].set_index("approach")
        if "naive" not in by.index:
            continue
        called = (names or {}).get(model, model)
        last = next((a for a in reversed(APPROACHES[:4]) if a in by.index and a != "naive"), None)
        start = by.loc["naive"]
        if last is None:
            sentences.append(
                f"{called}: {with_interval(start)} with the naive approach; no other is measured."
            )
            continue
        end = by.loc[last]
        scale, first, second = paradox.on_one_scale(start, end)
        change = f"({100 * (second - first) / first:+.0f} %)" if first > 0 else ""
        if scale == "corrected":
            sentences.append(
                f"{called}: averaged over prompts, the published measure goes from {with_interval(start)} with all "
                f"captions to {with_interval(end)} with {_APPROACH_WORDS[last]} {change}".rstrip()
                + f". In brackets: {100 * confidence:g} % intervals."
            )
            continue
        sentences.append(
            f"{called}: averaged over prompts, the published measure of the shares as they are goes from {first:.2f} "
            f"points with all captions to {second:.2f} (no interval) with {_APPROACH_WORDS[last]} {change}".rstrip()
            + "."
        )
        sentences.append(
            f"{called}: with all captions and without image noise it is {with_interval(start)}, in brackets the "
            f"{100 * confidence:g} % interval."
        )
    return sentences


_APPROACH_WORDS = {
    "no_indicators": "captions without gender indicators",
    "nearest": "captions nearest to the prompts",
    "nearest_no_indicators": "the nearest captions without gender indicators",
}


def headlines_variation(variation: pd.DataFrame, names: Mapping[str, str] | None = None) -> list[str]:
    """Say how many occupations move between prompts by more than noise, and how many change their lean.

    Args:
        variation: The table ``paradox_prompt_variation``.
        names: What to call each model; by default its name.
    """
    sentences = []
    for model, rows in variation.groupby("model", sort=False):
        tested, called = rows["p_holm"].notna(), (names or {}).get(model, model)
        flips, certain = rows["lean_flips"] != "no", rows["lean_flips"] == "beyond intervals"
        beyond = (
            f"shares differ between prompts beyond sampling noise in {int((rows['p_holm'] < 0.05).sum())} of "
            f"{int(tested.sum())} occupations tested (Holm-adjusted p < 0.05)"
            if tested.any()
            else "images are too few to test whether shares differ between prompts"
        )
        clear = (
            f"{int(certain.sum())} with intervals clear of 50"
            if (rows["flip_possible"] == "yes").any()
            else "which so few images cannot show with intervals clear of 50"
        )
        sentences.append(
            f"{called}: {beyond}; {int(flips.sum())} of {len(rows)} lean "
            f"female for one prompt and male for another, {clear}. "
            f"Median standard deviation over prompts: "
            f"{rows['sd_prompts'].median():.1f} points, {rows['sd_noise'].median():.1f} from noise alone."
        )
    return sentences


# -- figures with their captions ----------------------------------------------------------------------------


def stated_n(study: Study, model: str = "", approach: str = "naive") -> str:
    """Say over how many images the shares of a model, or of each, are taken with an approach."""
    shares = study.measured("paradox_percent_female")
    shares = shares[(shares["approach"] == approach) & (shares["n"] > 0)]
    models = [model] if model else list(dict.fromkeys(shares["model"]))
    spans = {m: _spans(shares[shares["model"] == m]) for m in models}
    if len(set(spans.values())) == 1:
        return f"n = {spans[models[0]]}"
    return "n = " + "; ".join(f"{span} ({m})" for m, span in spans.items())


def _spans(shares: pd.DataFrame) -> str:
    spans = {source: _span(rows["n"]) for source, rows in shares.groupby("source", sort=False)}
    if len(set(spans.values())) <= 1:
        return next(iter(spans.values()), "0")
    return " and ".join(f"{span} {source}" for source, span in spans.items())


def _span(n: pd.Series) -> str:
    return f"{n.min():.0f}" if n.min() == n.max() else f"{n.min():.0f} to {n.max():.0f}"


def _made(study: Study, model: str) -> str:
    """Return a model's name with how its images were made, for captions."""
    return names(study, [model])[model]


def caption_by_definition(study: Study) -> str:
    """Caption of the figure of amplification by definition."""
    return (
        "Expected amplification over occupations for each prompt and averaged over prompts, by definition. Dots are "
        "estimates from which the push of image noise is taken out, small crosses the measure of the shares as they "
        f"are, lines {100 * study.confidence:g} % intervals (Student t; occupations, then images, resampled "
        f"{study.bootstrap_replicates:,} times; {stated_n(study)} images a share). At 0 generated images are as "
        "skewed as training images."
    )


def caption_approaches(study: Study) -> str:
    """Caption of the figure of amplification by approach."""
    return (
        "Expected amplification by the published rule, for each way of selecting training captions or making "
        f"prompts. Filled marks are free of image noise and have {100 * study.confidence:g} % intervals; small crosses "
        "are the measure of the same shares as they are. Hollow marks have no interval and image noise left in: "
        "averages that are only printed, or too few shares."
    )


def caption_noise(variation: pd.DataFrame) -> str:
    """Caption of the figure of variation against noise."""
    return (
        "Each mark is an occupation: the standard deviation of its share over prompts against what sampling noise "
        f"alone would give on average, for {variation['occupation'].nunique()} occupations. On the dashed line the "
        "prompts would differ by noise alone."
    )


def show_shares(study: Study, figure, rows: pd.DataFrame, *, main: bool = False) -> None:
    """Save the training-against-generated figure of the naive approach and one prompt, a panel a model.

    Args:
        study: Where it is saved.
        figure: The figure.
        rows: The rows that it draws, of ``paradox_occupation_amplification``.
        main: Whether the report's first page shows it.
    """
    from biaslab.figures.paradox import prompt_name

    called = names(study, rows["model"])
    n = "; ".join(f"{rows.loc[rows['model'] == m, 'occupation'].nunique()} for {called[m]}" for m in called)
    study.save_figure(
        "paradox_scatter",
        figure,
        title="Training against generated images",
        caption=(
            "Share perceived as female in training images (across) and generated images (up), all captions against "
            f"{prompt_name(rows['prompt'].iloc[0]).lower()}, one panel a model, one point an occupation ({n}); thin "
            f"lines are {100 * study.confidence:g} % Wilson intervals ({stated_n(study)} images a share). Hollow "
            "crosses are left out by the published rule."
        ),
        main=main,
    )


def show_scatter(study: Study, figure, model: str, *, main: bool) -> None:
    """Save the training-against-generated figure of a model."""
    study.save_figure(
        f"paradox_scatter_{slug(model)}",
        figure,
        title=f"Training against generated images, {model}",
        caption=(
            f"{_made(study, model)}, naive approach: share perceived as female in training images (across) and "
            f"generated images (up), one point an occupation with thin lines for its "
            f"{100 * study.confidence:g} % Wilson intervals, one panel a prompt ({stated_n(study, model)} "
            "images a share). Hollow crosses are "
            "left out by the published rule. Of the 20 occupations farthest from the diagonal those are named for "
            "which there is room."
        ),
        main=main,
    )


def show_changes(study: Study, figure, model: str) -> None:
    """Save the figure of signed changes of a model."""
    study.save_figure(
        f"paradox_signed_change_{slug(model)}",
        figure,
        title=f"Change along the training lean by occupation, {model}",
        caption=(
            f"{_made(study, model)}: change in the share perceived as female from training to generated images, "
            "signed so that right is farther along the training lean. Large marks are means over prompts, thin "
            "marks single prompts, whose intervals are in the table; colour and shape tell for how many prompts the "
            "published rule counts the occupation."
        ),
    )


def show_variation(study: Study, figure, model: str, *, main: bool) -> None:
    """Save the figure of the occupations that vary most over prompts, of a model."""
    study.save_figure(
        f"paradox_prompt_variation_{slug(model)}",
        figure,
        title=f"Occupations that vary most between prompts, {model}",
        caption=(
            f"{_made(study, model)}: share of generated images perceived as female by prompt, for the 20 "
            f"occupations with the largest standard deviation over prompts; lines are "
            f"{100 * study.confidence:g} % Wilson intervals ({stated_n(study, model)} images a share), black "
            "bars the share in training images."
        ),
        main=main,
    )


def slug(name: str) -> str:
    """Return a model's name as part of a figure's name."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "model"
