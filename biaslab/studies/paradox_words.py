"""What the paradox notebooks say in words: findings computed from tables, and captions of figures."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from biaslab.schemas.paradox import APPROACHES

if TYPE_CHECKING:
    from biaslab.study import Study


def with_interval(row: pd.Series, value: str = "amplification") -> str:
    """Return ``value (low to high)`` of a row, in points."""
    return f"{row[value]:.2f} points ({row['ci_low']:.2f} to {row['ci_high']:.2f})"


def headlines_baseline(amplification: pd.DataFrame, confidence: float) -> list[str]:
    """Say for each model what the definitions give, averaged over prompts, with the naive approach."""
    some = amplification[(amplification["approach"] == "naive") & amplification["ci_low"].notna()]
    if some.empty:
        return []
    prompt = "mean" if "mean" in set(some["prompt"]) else some["prompt"].iloc[0]
    sentences = []
    for model, rows in some[some["prompt"] == prompt].groupby("model", sort=False):
        by = rows.set_index("definition")
        signed = by.loc["directional"]
        limits = f"{signed['ci_low']:.2f} to {signed['ci_high']:.2f}"
        sentences.append(
            f"{model}: {_change(by.loc['published'])} by the published rule "
            f"({_counted(some[some['model'] == model])}); along the training lean, over all "
            f"{signed['n_occupations']:.0f}, by {signed['amplification']:.2f} ({limits}), an interval that "
            f"{'excludes' if _excludes_zero(signed) else 'includes'} 0. In brackets: {100 * confidence:g} % intervals."
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


def headline_shuffled(table: pd.DataFrame) -> str:
    """Say what the definitions give for shuffled shares, over the models and prompts of the table."""
    mean = "mean" if "mean" in set(table["prompt"]) else table["prompt"].iloc[0]
    lines = []
    for row in table[(table["prompt"] == mean) & (table["approach"] == "naive")].itertuples():
        lines.append(
            f"{row.model}, {_DEFINITION_WORDS[row.definition]}: {row.amplification:.1f} points observed, "
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


def impossible_shares(shares: pd.DataFrame, decimals: int = 1) -> str:
    """Say how many shares, printed to ``decimals``, cannot come from exactly their stated number of images."""
    lines = []
    for (model, source), rows in shares.groupby(["model", "source"], sort=False):
        images = rows["percent_female"] * rows["n"] / 100
        off = (images - images.round()).abs() > 0.5 * 10.0**-decimals * rows["n"] / 100 + 1e-9
        lines.append(f"{model}, {source} images: {int(off.sum())} of {len(rows)}")
    return f"Shares that cannot come from exactly the stated number of images: {'; '.join(lines)}."


def headlines_approaches(published_rows: pd.DataFrame, confidence: float) -> list[str]:
    """Say how far the published measure falls from the naive to the most restrictive approach."""
    sentences = []
    for model, rows in published_rows.groupby("model", sort=False):
        by = rows[rows["prompt"] == "mean"].set_index("approach")
        if "naive" not in by.index:
            continue
        last = next((a for a in reversed(APPROACHES[:4]) if a in by.index and a != "naive"), None)
        start = by.loc["naive"]
        if last is None:
            sentences.append(
                f"{model}: {with_interval(start)} with the naive approach; no other is measured."
            )
            continue
        end = by.loc[last]
        interval = f" ({end['ci_low']:.2f} to {end['ci_high']:.2f})" if np.isfinite(end["ci_low"]) else ""
        change = 100 * (end["amplification"] - start["amplification"]) / start["amplification"]
        sentences.append(
            f"{model}: averaged over prompts, the published measure goes from {with_interval(start)} with all "
            f"captions to {end['amplification']:.2f} points{interval or ' (printed, no interval)'} with "
            f"{_APPROACH_WORDS[last]} ({change:+.0f} %). In brackets: the {100 * confidence:g} % interval."
        )
    return sentences


_APPROACH_WORDS = {
    "no_indicators": "captions without gender indicators",
    "nearest": "captions nearest to the prompts",
    "nearest_no_indicators": "the nearest captions without gender indicators",
}


def headlines_variation(variation: pd.DataFrame) -> list[str]:
    """Say how many occupations move between prompts by more than noise, and how many change their lean."""
    sentences = []
    for model, rows in variation.groupby("model", sort=False):
        tested = rows["p_holm"].notna()
        flips, certain = rows["lean_flips"] != "no", rows["lean_flips"] == "beyond intervals"
        sentences.append(
            f"{model}: shares differ between prompts beyond sampling noise in "
            f"{int((rows['p_holm'] < 0.05).sum())} of "
            f"{int(tested.sum())} occupations tested (Holm-adjusted p < 0.05); {int(flips.sum())} of "
            f"{len(rows)} lean "
            f"female for one prompt and male for another, {int(certain.sum())} with intervals clear of 50. "
            f"Median standard deviation over prompts: "
            f"{rows['sd_prompts'].median():.1f} points, {rows['sd_noise'].median():.1f} from noise alone."
        )
    return sentences


# -- figures with their captions ----------------------------------------------------------------------------


def _stated_n(study: Study) -> str:
    n = study.measured("paradox_percent_female")["n"]
    low, high = int(n.min()), int(n.max())
    return f"n = {low}" if low == high else f"n = {low} to {high}"


def caption_by_definition(study: Study) -> str:
    """Caption of the figure of amplification by definition."""
    return (
        "Expected amplification over occupations for each prompt and averaged over prompts, by definition. Dots are "
        f"estimates, lines {100 * study.confidence:g} % intervals (Student t around the estimate less the push "
        f"of image noise; occupations, "
        f"then images, resampled {study.bootstrap_replicates:,} times; {_stated_n(study)} images a share). At 0 "
        f"generated images are as "
        "skewed as training images."
    )


def caption_approaches(study: Study) -> str:
    """Caption of the figure of amplification by approach."""
    return (
        "Expected amplification by the published rule, for each way of selecting training captions or making "
        f"prompts. Filled marks have {100 * study.confidence:g} % intervals; hollow marks are averages that are only "
        "printed, without the shares that an interval needs."
    )


def caption_noise(variation: pd.DataFrame) -> str:
    """Caption of the figure of variation against noise."""
    return (
        "Each mark is an occupation: the standard deviation of its share over prompts against what sampling noise "
        f"alone would give on average, for {variation['occupation'].nunique()} occupations. On the dashed line the "
        "prompts would differ by noise alone."
    )


def show_scatter(study: Study, figure, model: str, *, main: bool) -> None:
    """Save the training-against-generated figure of a model."""
    study.save_figure(
        f"paradox_scatter_{slug(model)}",
        figure,
        title=f"Training against generated images, {model}",
        caption=(
            f"{model}, naive approach: share perceived as female in training images (across) and generated images "
            f"(up), one point an occupation with thin lines for its {100 * study.confidence:g} % Wilson "
            f"intervals, one panel "
            f"a prompt ({_stated_n(study)} images a share). Hollow crosses are "
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
            f"{model}: change in the share perceived as female from training to generated images, signed so that "
            "right is farther along the training lean. Large marks are means over prompts, thin marks single "
            "prompts, whose intervals are in the table; colour and shape tell for how many prompts the "
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
            f"{model}: share of generated images perceived as female by prompt, for the 20 occupations with the "
            f"largest standard deviation over prompts; lines are {100 * study.confidence:g} % Wilson intervals "
            f"({_stated_n(study)} images a share), black bars the share in training images."
        ),
        main=main,
    )


def slug(name: str) -> str:
    """Return a model's name as part of a figure's name."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "model"
