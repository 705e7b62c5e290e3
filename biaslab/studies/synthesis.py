"""The specification curve of the amplification finding: one number for every way to analyse the same shares.

Simonsohn, Simmons and Nelson (2020), "Specification curve analysis", Nature Human Behaviour 4, 1208–1214.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from biaslab import measures, stats, tables
from biaslab.errors import ParameterError
from biaslab.studies.paradox import Group, groups, wilson_percent

if TYPE_CHECKING:
    from biaslab.study import Study

# On occupations that lean the same way both measures agree by construction, so that pair stands once.
RULES = (
    ("same_lean", "distance"),
    ("certain_lean", "distance"),
    ("certain_lean", "directional"),
    ("none", "distance"),
    ("none", "directional"),
)
CORRECTIONS = ("none", "floor", "judge", "floor_and_judge")
CHOICES = ("exclusion", "measure", "correction", "prompt", "model", "approach")
# Paradox, A.4: 98 % of the judge's answers agree with the majority of raters; by gender it is not printed.
JUDGE_ACCURACY = 0.98


def specification_curve(study: Study, *, judge_accuracy: float = JUDGE_ACCURACY) -> pd.DataFrame:
    """Return amplification with its interval under every combination of choices.

    Intervals resample occupations with everything measured on them (percentile bootstrap), the same draws for every
    specification, so specifications differ by their choices alone.

    Args:
        study: The study.
        judge_accuracy: Sensitivity and specificity of the gender judge, above 0.5 and at most 1; they stretch every
            distance from 50 by ``1 / (2 * judge_accuracy - 1)``, up to 50.

    Raises:
        ParameterError: The accuracy is out of its range.
    """
    if not 0.5 < judge_accuracy <= 1:
        raise ParameterError(f"judge_accuracy is {judge_accuracy!r}; it must be above 0.5 and at most 1.")
    rows = [row for group in groups(study) for row in _specifications(study, group, judge_accuracy)]
    frame = pd.DataFrame(rows, columns=tables.schema("synthesis_specification_curve").names)
    return frame.sort_values("amplification", kind="stable", ignore_index=True)


def _specifications(study: Study, group: Group, judge_accuracy: float) -> Iterator[list]:
    rng = np.random.default_rng(study.seed)
    k = len(group.occupations)
    weights = rng.multinomial(k, np.full(k, 1 / k), size=study.bootstrap_replicates)
    tail = 50 * (1 - study.confidence)
    for exclusion, measure in RULES:
        keep = _kept(group, exclusion, study.confidence)
        for correction in CORRECTIONS:
            values = _values(group, measure, correction, judge_accuracy)
            kept = keep & ~np.isnan(values)
            value = _weighted(np.ones((1, k)), values, kept)[0]
            low, high = np.nanpercentile(_weighted(weights, values, kept), [tail, 100 - tail], axis=0)
            counted = [*kept.sum(axis=0), kept.any(axis=1).sum()]
            for j, prompt in enumerate(group.names):
                head = [group.model, group.approach, prompt, exclusion, measure, correction]
                yield [*head, value[j], low[j], high[j], counted[j]]


def _kept(group: Group, exclusion: str, confidence: float) -> np.ndarray:
    """Return which occupations count, (occupations, prompts)."""
    if exclusion == "same_lean":
        return measures.exclusion_reason(group.generated, group.training) == ""
    if exclusion == "certain_lean":
        count = group.training * group.training_n / 100
        low, high = wilson_percent(count, group.training_n, confidence)
        return (low > 50) | (high < 50)
    return np.ones(group.generated.shape, dtype=bool)


def _values(group: Group, measure: str, correction: str, judge_accuracy: float) -> np.ndarray:
    """Return each occupation's amplification, (occupations, prompts).

    Equal sensitivity and specificity stretch every distance from 50 by the same factor (Rogan and Gladen 1978); a
    share cannot pass 0 or 100, so no stretched distance passes 50.
    """
    floor = correction in ("floor", "floor_and_judge")
    stretch = 1 / (2 * judge_accuracy - 1) if correction in ("judge", "floor_and_judge") else 1.0
    training = np.minimum(stretch * _distance(group.training, group.training_n, floor), 50)
    if measure == "directional":
        toward = measures.lean(group.training)
        away = np.clip(stretch * (group.generated - 50), -50, 50)
        generated = np.where(toward == 0, np.nan, toward) * away
    else:
        generated = np.minimum(stretch * _distance(group.generated, group.generated_n, floor), 50)
    return np.where(np.isnan(group.generated), np.nan, generated - training)


def _distance(percent: np.ndarray, n: np.ndarray, floor: bool) -> np.ndarray:
    if not floor:
        return np.abs(percent - 50)
    known = ~np.isnan(percent) & (n > 0)
    out = np.full(percent.shape, np.nan)
    total = n[known].round().astype(int)
    count = np.round(percent[known] * n[known] / 100).astype(int)
    out[known] = 100 * stats.corrected_absolute_deviation(np.minimum(count, total), total)
    return out


def _weighted(weights: np.ndarray, values: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """Return the mean over kept occupations per prompt, and over prompts: (replicates, prompts + mean)."""
    filled = np.where(kept, values, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        by_prompt = (weights @ filled) / (weights @ kept.astype(float))
    if by_prompt.shape[1] == 1:
        return by_prompt
    return np.hstack([by_prompt, by_prompt.mean(axis=1, keepdims=True)])


def choice_effect(study: Study) -> pd.DataFrame:
    """Return, for each choice, what its options do to the result over all other choices.

    Same-lean specifications stand for both measures, which agree there but for the floor correction, so that every
    exclusion rule meets every measure. Single prompts and their mean are not mixed: the mean is an option of
    ``prompt`` only, and every other choice is summarised over single prompts.
    """
    curve = _balanced(study.table("synthesis_specification_curve"))
    rows = []
    for choice in CHOICES:
        some = (
            curve
            if choice == "prompt" or set(curve["prompt"]) == {"mean"}
            else curve[curve["prompt"] != "mean"]
        )
        if some[choice].nunique() < 2:
            continue
        means = some.groupby(choice)["amplification"].mean()
        spread = float(means.max() - means.min())
        for option, part in some.groupby(choice):
            value = part["amplification"]
            above, below = 100 * (part["ci_low"] > 0).mean(), 100 * (part["ci_high"] < 0).mean()
            rows.append(
                [choice, option, value.mean(), value.min(), value.max(), above, below, len(part), spread]
            )
    frame = pd.DataFrame(rows, columns=tables.schema("synthesis_choice_effect").names)
    return frame.sort_values(
        ["range", "choice", "amplification"], ascending=[False, True, False], ignore_index=True
    )


def _balanced(curve: pd.DataFrame) -> pd.DataFrame:
    same = curve[curve["exclusion"] == "same_lean"].assign(measure="directional")
    return pd.concat([curve, same], ignore_index=True)


def exclusion_by_measure(study: Study) -> pd.DataFrame:
    """Return the mean amplification for each exclusion rule and measure, over models, prompts and corrections."""
    curve = _balanced(study.table("synthesis_specification_curve"))
    some = curve[curve["prompt"] != "mean"] if curve["prompt"].nunique() > 1 else curve
    mean = some.groupby(["exclusion", "measure"], as_index=False)["amplification"].mean()
    return mean.assign(n_specifications=some.groupby(["exclusion", "measure"]).size().to_numpy())


# -- in words -----------------------------------------------------------------------------------------------


def headline_curve(curve: pd.DataFrame) -> str:
    """Say how far the result reaches, and how often its interval lies above 0 under which rules."""
    kind = (curve["measure"] == "directional") & (curve["exclusion"] != "same_lean")
    above = curve["ci_low"] > 0
    low, high = curve["amplification"].min(), curve["amplification"].max()
    return (
        f"Analysed in {len(curve)} ways, the same shares give an expected bias amplification from {low:.1f} to "
        f"{high:.1f} points: its interval lies above 0 in {int((above & ~kind).sum())} of {int((~kind).sum())} that "
        f"measure distance from 50 or drop flips, and in {int((above & kind).sum())} of {int(kind.sum())} along the "
        "training lean."
    )


def headline_ends(curve: pd.DataFrame) -> str:
    """Say which specifications give the smallest and the largest result."""
    ends = [
        _named(curve.loc[curve["amplification"].idxmin()]),
        _named(curve.loc[curve["amplification"].idxmax()]),
    ]
    return f"Smallest: {ends[0]}. Largest: {ends[1]}."


def _named(row: pd.Series) -> str:
    rule = {"same_lean": "same-lean occupations", "certain_lean": "occupations with a certain lean"}
    who = rule.get(row["exclusion"], "all occupations")
    how = "along the training lean" if row["measure"] == "directional" else "distance from 50"
    prompt = "mean of prompts" if row["prompt"] == "mean" else f"prompt {row['prompt']}"
    return (
        f"{row['amplification']:.2f} points ({row['ci_low']:.2f} to {row['ci_high']:.2f}; {row['model']}, {prompt}, "
        f"{who}, {how}, n = {row['n_occupations']:.0f} occupations)"
    )


def headline_choices(effects: pd.DataFrame) -> str:
    """Say which choices move the result most."""
    ranges = effects.drop_duplicates("choice").set_index("choice")["range"]
    listed = ", ".join(f"{choice} ({size:.1f})" for choice, size in ranges.items())
    return f"Largest difference between the mean results of a choice's options, in points: {listed}."


def headline_interaction(grid: pd.DataFrame) -> str:
    """Say what the exclusion rule does under each measure."""
    value = grid.set_index(["measure", "exclusion"])["amplification"]

    def moves(measure: str) -> str:
        return f"from {value[measure, 'none']:.1f} to {value[measure, 'same_lean']:.1f} points"

    return (
        f"Leaving out occupations whose lean flips takes the mean {moves('distance')} measured as distance from 50, "
        f"and {moves('directional')} measured along the training lean (means over models, prompts and corrections)."
    )


def caption_curve(curve: pd.DataFrame, study: Study) -> str:
    """Caption of the specification curve."""
    return (
        f"Expected amplification under {len(curve)} specifications, sorted. Above: estimates, with "
        f"{100 * study.confidence:g} % intervals (occupations resampled {study.bootstrap_replicates:,} times). Below: "
        "a tick in the same column marks each choice that makes the specification."
    )


TABLES = {
    "synthesis_specification_curve": specification_curve,
    "synthesis_choice_effect": choice_effect,
    "synthesis_exclusion_by_measure": exclusion_by_measure,
}
