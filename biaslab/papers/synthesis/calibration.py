"""Measurements of the embedded world held against its truth: the judge, shares, amplification, and what rules add.

Every function takes images and truth as :class:`biaslab.papers.synthesis.measure.Calibration` gives them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import binom, norm

from biaslab import measures, stats, tables
from biaslab.judging.error import correct, judge_error
from biaslab.judging.judge import JUDGED
from biaslab.measures import DEFINITIONS
from biaslab.mini.scene import GENDERS
from biaslab.papers.paradox.analysis import wilson_percent
from biaslab.papers.synthesis.measure import CONTRIBUTING, KEPT_BACK, MATCHED, WORLD

CUES = ("all", "unambiguous", "ambiguous")
# Ends of the bins of the judge's probability.
BINS = (0.0, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1.0)
# There are dozens of bootstraps here; more replicates would move their limits by a few hundredths of a point.
_MOST_REPLICATES = 1000
_NO_CLIP = "Similarity of images takes an open_clip model, which does not judge gender here."
_TOO_FEW = "Too few occupations or images for an interval."


class Counts(NamedTuple):
    """Images by occupation and prompt."""

    female: np.ndarray
    """Images of women, (occupations, prompts)."""
    n: np.ndarray
    """Images of women and men, (occupations, prompts)."""

    @property
    def percent(self) -> np.ndarray:
        """Return the shares in per cent; NaN without images."""
        return 100 * np.divide(self.female, self.n, out=np.full(self.n.shape, np.nan), where=self.n > 0)

    @property
    def cells(self) -> int:
        """Return the number of prompts."""
        return self.n.shape[1]

    def pooled(self) -> Counts:
        """Return the counts of all prompts together."""
        return Counts(self.female.sum(axis=1, keepdims=True), self.n.sum(axis=1, keepdims=True))


def count(rows: pd.DataFrame, occupations: Sequence[str], labels: str = "gender") -> Counts:
    """Count women and men among ``rows`` (occupation, prompt) by the column ``labels``."""
    prompts = sorted(set(rows["prompt"])) or ["captions"]
    some = rows[rows[labels].isin(GENDERS)]
    cells = pd.MultiIndex.from_product([occupations, prompts], names=["occupation", "prompt"])
    grouped = some.assign(_female=some[labels] == "female").groupby(["occupation", "prompt"])["_female"]
    found = grouped.agg(["sum", "size"]).reindex(cells, fill_value=0)
    shape = (len(occupations), len(prompts))
    return Counts(found["sum"].to_numpy(int).reshape(shape), found["size"].to_numpy(int).reshape(shape))


def expected(training: np.ndarray, generated: np.ndarray, definition: str) -> np.ndarray:
    """Return expected amplification, mean over prompts, of percentages (..., occupations, prompts or 1)."""
    shape = np.broadcast_shapes(training.shape, generated.shape)
    sides = np.broadcast_to(generated, shape), np.broadcast_to(training, shape)
    return measures.expected_amplification(*sides, definition, axis=-2).amplification.mean(axis=-1)


def amplified(
    training: Counts, generated: Counts, draws: dict, levels: Sequence[str] = ("occupation", "image")
) -> stats.Bootstrap:
    """Return expected amplification by all definitions, with intervals and floors, in points.

    ``levels`` says what is resampled: occupations and images, or images alone, which is right where these occupations
    are all there are.
    """

    def statistic(shares: np.ndarray) -> np.ndarray:
        t, g = 100 * shares[..., : training.cells], 100 * shares[..., training.cells :]
        return np.stack([expected(t, g, d) for d in DEFINITIONS], axis=-1)

    female, n = np.hstack([training.female, generated.female]), np.hstack([training.n, generated.n])
    return stats.hierarchical_bootstrap(female, n, statistic, levels=levels, **draws)


def _draws(seed: int, replicates: int, confidence: float) -> dict:
    return {"replicates": min(replicates, _MOST_REPLICATES), "seed": seed, "confidence": confidence}


# -- the judge -------------------------------------------------------------------------------------------------


def confusion(renders: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return what gate and judge made of held-out renders, by truth and clearness, as ``calibration_confusion``.

    Args:
        renders: :attr:`Calibration.renders`.
        confidence: Level of the Wilson intervals, 0–1.
    """
    rows = []
    for cues, truth, some in _by_truth(renders, GENDERS):
        judged = some["gender"].where(some["outcome"] == JUDGED, some["outcome"])
        found = judged.value_counts()
        for answer in [*GENDERS, *(o for o in found.index if o not in GENDERS)]:
            rows.append([cues, truth, answer, int(found.get(answer, 0)), len(some)])
    frame = pd.DataFrame(rows, columns=["cues", "truth", "judged", "n", "n_images"])
    low, high = wilson_percent(frame["n"], frame["n_images"], confidence)
    frame = frame.assign(percent=100 * frame["n"] / frame["n_images"], ci_low=low, ci_high=high)
    return tables.of(frame, "calibration_confusion")


def judge(renders: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return the judge's accuracy on held-out renders beside an ideal judge's, as ``calibration_judge``.

    Arguments as of :func:`confusion`.
    """
    rows = []
    for cues, truth, some in _by_truth(renders, ("all", *GENDERS)):
        for answers in ("judged", "likelier"):
            answered, right = _answers(some, answers)
            best = np.maximum(answered["posterior"], 1 - answered["posterior"]).mean()
            ceiling = 100 * best if truth == "all" else np.nan
            rows.append([cues, truth, answers, int(right.sum()), len(answered), len(some), ceiling])
    frame = pd.DataFrame(rows, columns=["cues", "truth", "answers", "count", "n", "n_images", "ceiling"])
    low, high = wilson_percent(frame["count"], frame["n"], confidence)
    accuracy = 100 * frame["count"] / frame["n"].where(frame["n"] > 0)
    return tables.of(frame.assign(accuracy=accuracy, ci_low=low, ci_high=high), "calibration_judge")


def _by_truth(renders: pd.DataFrame, truths: Sequence[str]) -> Iterator[tuple[str, str, pd.DataFrame]]:
    for cues in CUES:
        clear = renders if cues == "all" else renders[renders["ambiguous"] == (cues == "ambiguous")]
        for truth in truths:
            some = clear if truth == "all" else clear[clear["truth_gender"] == truth]
            if len(some):
                yield cues, truth, some


def _answers(rows: pd.DataFrame, answers: str) -> tuple[pd.DataFrame, pd.Series]:
    """Return the rows with an answer, and whether it is right."""
    if answers == "judged":
        answered = rows[rows["outcome"] == JUDGED]
        said = answered["gender"]
    else:
        answered = rows[rows["p_female"].notna()]
        said = likelier(answered)
    return answered, said == answered["truth_gender"]


def likelier(rows: pd.DataFrame) -> pd.Series:
    """Return the likelier gender of each image by the judge's probability; empty where it was not asked."""
    p = rows["p_female"]
    return pd.Series(np.select([p >= 0.5, p < 0.5], GENDERS, ""), index=rows.index, dtype=object)


def reliability(renders: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return what renders show by the judge's probability of female, as ``calibration_reliability``.

    Arguments as of :func:`confusion`.
    """
    rows = renders[renders["p_female"].notna()]
    which = np.clip(np.digitize(rows["p_female"], BINS) - 1, 0, len(BINS) - 2)
    found = []
    for k, (low, high) in enumerate(itertools.pairwise(BINS)):
        some = rows[which == k]
        women = int((some["truth_gender"] == "female").sum())
        means = [100 * some[c].mean() if len(some) else np.nan for c in ("p_female", "posterior")]
        found.append([f"{low:g} to {high:g}", low, high, *means, women, len(some)])
    names = ["bin", "low", "high", "mean_judge", "mean_ideal", "women", "n"]
    frame = pd.DataFrame(found, columns=names)
    low, high = wilson_percent(frame["women"], frame["n"], confidence)
    share = 100 * frame["women"] / frame["n"].where(frame["n"] > 0)
    return tables.of(frame.assign(percent_female=share, ci_low=low, ci_high=high), "calibration_reliability")


def judge_by_occupation(
    renders: pd.DataFrame, generated: pd.DataFrame, *, confidence: float = 0.95
) -> pd.DataFrame:
    """Return the judge's sensitivity and specificity by occupation, as ``calibration_judge_by_occupation``.

    Over all renders whose truth is known: those held out, and those of the generator without a model.

    Args:
        renders: :attr:`Calibration.renders`.
        generated: :attr:`Calibration.generated`.
        confidence: Level of the intervals, 0–1.
    """
    errors = _errors([renders, _of_world(generated)], confidence)
    errors = errors[errors["measure"] != "judged_neither"].rename(columns={"group": "occupation"})
    return tables.of(errors, "calibration_judge_by_occupation")


def _errors(parts: Sequence[pd.DataFrame], confidence: float) -> pd.DataFrame:
    renders = pd.concat(parts, ignore_index=True)
    truth = renders.set_index("image_id")["truth_gender"]
    return judge_error(renders, truth, "occupation", confidence=confidence)


def _of_world(generated: pd.DataFrame, skew: str = "") -> pd.DataFrame:
    """Return the images of the generator without a model: in the run's own world, or in one by name."""
    world = generated[generated["generator"] == WORLD]
    return world[world["skew"] == (skew or generated["skew"].iloc[0])]


# -- shares ----------------------------------------------------------------------------------------------------


def shares(
    training: pd.DataFrame,
    generated: pd.DataFrame,
    truth: pd.DataFrame,
    renders: pd.DataFrame,
    *,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Return measured shares of women beside the true ones, as ``calibration_shares``.

    Three shares of the same images, each with its interval: of the women drawn, of the women judged, and the latter
    corrected for the judge's error. Only the first and the last are estimates of the true share: an interval of what
    the judge says knows nothing of how often the judge is wrong. The judge's error is measured on renders of known
    truth that are not among the images counted (Rogan & Gladen 1978, see :func:`biaslab.stats.corrected_shares`).

    Args:
        training: :attr:`Calibration.training`.
        generated: :attr:`Calibration.generated`.
        truth: :attr:`Calibration.truth`.
        renders: :attr:`Calibration.renders`.
        confidence: Level of the intervals, 0–1.
    """
    errors = {
        "training": _errors([renders, _of_world(generated)], confidence),
        "generated": _errors([renders], confidence),
    }
    frames = []
    for (source, skew, approach), known in truth.groupby(["source", "skew", "approach"], sort=False):
        if source == "training":
            rows = training[(training["skew"] == skew) & (training["approach"] == approach)]
        else:
            rows = _of_world(generated, skew)
        wide = _wide(known)
        # A caption that is among the nearest to several prompts counts once.
        once = rows.drop_duplicates(["image_id", "occupation"])
        judged, drawn = (count(once, wide.index, labels).pooled() for labels in ("gender", "truth_gender"))
        low, high = wilson_percent(judged.female[:, 0], judged.n[:, 0], confidence)
        drawn_low, drawn_high = wilson_percent(drawn.female[:, 0], drawn.n[:, 0], confidence)
        given = {
            "source": source,
            "skew": skew,
            "approach": approach,
            "occupation": wide.index,
            "percent_true": wide.to_numpy(float).mean(axis=1),
            "percent_drawn": drawn.percent[:, 0],
            "drawn_low": drawn_low,
            "drawn_high": drawn_high,
            "n_drawn": drawn.n[:, 0],
            "percent_female": judged.percent[:, 0],
            "ci_low": low,
            "ci_high": high,
            "n": judged.n[:, 0],
        }
        frames.append(correct(pd.DataFrame(given), errors[source], group="occupation", confidence=confidence))
    return tables.of(pd.concat(frames, ignore_index=True), "calibration_shares")


def _wide(truth: pd.DataFrame) -> pd.DataFrame:
    """Return true shares of one kind of images, occupations (in their order) by prompts."""
    wide = truth.pivot(index="occupation", columns="prompt", values="percent_true")
    return wide.loc[list(dict.fromkeys(truth["occupation"]))]


_LEVEL = 0.05
# Estimate and interval of each way to count, in ``calibration_shares``.
COUNTED = {
    "drawn": ("percent_drawn", "drawn_low", "drawn_high"),
    "judged": ("percent_female", "ci_low", "ci_high"),
    "corrected": ("percent_corrected", "corrected_low", "corrected_high"),
}


def inside(shares: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Count the intervals of ``calibration_shares`` that hold the true share, as ``calibration_inside``.

    Were each interval right, the count would be binomial: n occupations, ``confidence`` each. ``p`` is the chance of
    so few or fewer; ``p_holm`` corrects it for the kinds of images that are counted in the same way (Holm 1979).

    Args:
        shares: The table ``calibration_shares``.
        confidence: Level of its intervals, 0–1.
    """
    rows = []
    for counted, (value, low, high) in COUNTED.items():
        for key, some in shares.groupby(["source", "skew", "approach"], sort=False):
            some = some.dropna(subset=["percent_true", value, low, high])
            n, off = len(some), some[value] - some["percent_true"]
            held = int(some["percent_true"].between(some[low], some[high]).sum())
            least = binom.ppf(_LEVEL, n, confidence) if n else np.nan
            p = binom.cdf(held, n, confidence) if n else np.nan
            size = off.mean(), float(np.sqrt((off**2).mean()))
            rows.append([counted, *key, held, n, n * confidence, least, p, *size])
    names = ["counted", "source", "skew", "approach", "inside", "n", "expected", "least", "p"]
    frame = pd.DataFrame(rows, columns=[*names, "mean_off", "rms_off"])
    frame["p_holm"] = frame.groupby("counted")["p"].transform(lambda p: stats.adjust(p.to_numpy()))
    return tables.of(frame, "calibration_inside")


# -- amplification -----------------------------------------------------------------------------------------------


def amplification(
    training: pd.DataFrame,
    generated: pd.DataFrame,
    truth: pd.DataFrame,
    *,
    guidance: float,
    seed: int = 0,
    replicates: int = 1000,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Return measured amplification of world and model beside what the truth implies, as ``calibration_amplification``.

    Args:
        training: :attr:`Calibration.training`.
        generated: :attr:`Calibration.generated`.
        truth: :attr:`Calibration.truth`.
        guidance: The run's own guidance scale; at others there are too few images for a share of each prompt.
        seed: Seed of the bootstraps.
        replicates: Replicates of each; at most 1,000 are drawn.
        confidence: Level of the intervals, 0–1.
    """
    draws, rows = _draws(seed, replicates, confidence), []
    for (skew, approach), images in training.groupby(["skew", "approach"], sort=False):
        here = truth[truth["skew"] == skew]
        known = here[(here["source"] == "training") & (here["approach"] == approach)]
        implied = _wide(known), _wide(here[here["source"] == "generated"])
        counted = count(images, implied[0].index)
        made = generated[generated["skew"] == skew]
        for (generator, scale), others in made.groupby(["generator", "guidance_scale"], sort=False):
            head = [generator, scale, skew, approach]
            # Few images a prompt are no basis for a share of each.
            apart = generator == WORLD or scale == f"{guidance:g}"
            pair = counted, count(others, implied[0].index)
            rows += _amplification_rows(head, *pair, [w.to_numpy(float) for w in implied], draws, apart=apart)
    names = tables.schema("calibration_amplification").names
    return tables.of(pd.DataFrame(rows, columns=names), "calibration_amplification")


def _amplification_rows(
    head: list, training: Counts, generated: Counts, truth: Sequence, draws: dict, *, apart: bool
) -> Iterator[list]:
    for prompt in ("mean", "pooled") if apart else ("pooled",):
        given = generated if prompt == "mean" else generated.pooled()
        boot, fixed = amplified(training, given, draws), amplified(training, given, draws, ("image",))
        there = (training.n > 0).all(axis=1) & (given.n > 0).all(axis=1)
        sizes = training.n.mean(axis=1), given.n.sum(axis=1)
        medians = [float(np.median(size[there])) if there.any() else np.nan for size in sizes]
        for k, definition in enumerate(DEFINITIONS):
            implied = float(expected(*truth, definition))
            # What is implied holds for these occupations, so only images are a matter of chance.
            limits = fixed.ci_low[k], fixed.ci_high[k]
            excess = [limit - implied for limit in (fixed.value[k] - fixed.bias[k], *limits)]
            value, floor = boot.value[k], fixed.bias[k]
            own = [value, value - floor, boot.ci_low[k], boot.ci_high[k], floor]
            reason = "" if math.isfinite(boot.ci_low[k]) and math.isfinite(limits[0]) else _TOO_FEW
            yield [*head, definition, prompt, *own, implied, *excess, int(there.sum()), *medians, reason]


def guidance(generated: pd.DataFrame, truth: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return what measurement, model and guidance add to the change along the true lean, as ``calibration_guidance``.

    For each occupation, with t the true training share, p the true share behind the prompts, g and g0 the shares
    generated at this and at the lowest guidance, and s the sign of t - 50: s (p - t), s (g0 - p), s (g - g0). The
    lean is the true one, so no part is folded and none has a floor.

    Args:
        generated: :attr:`Calibration.generated`.
        truth: :attr:`Calibration.truth`.
        confidence: Level of the intervals (Student t over occupations), 0–1.
    """
    here = truth[truth["skew"] == truth["skew"].iloc[0]]
    asked = _wide(here[here["source"] == "generated"])
    made = generated[generated["guidance_scale"] != ""]
    counted = {
        names: count(rows, asked.index).pooled()
        for names, rows in made.groupby(["generator", "guidance_scale"], sort=False)
    }
    first = next(iter(counted), None)
    prompts, rows = asked.to_numpy(float)[:, 0], []
    for approach, known in here[here["source"] == "training"].groupby("approach", sort=False):
        training = _wide(known).to_numpy(float).mean(axis=1)
        sign = measures.lean(training)
        for (model, scale), counts in counted.items():
            share, lowest = counts.percent[:, 0], counted[first].percent[:, 0]
            parts = {"measurement": prompts - training, "model": lowest - prompts, "guidance": share - lowest}
            parts["total"] = share - training
            there = ~np.isnan(share) & ~np.isnan(lowest) & ~np.isnan(training) & (sign != 0)
            for part, change in parts.items():
                found = stats.mean_interval((sign * change)[there], confidence)
                # The first part is exact, and at the lowest guidance there is nothing to add.
                exact = part == "measurement" or (part == "guidance" and (model, scale) == first)
                limits = (np.nan, np.nan) if exact else (found.ci_low, found.ci_high)
                median = float(np.median(counts.n[there])) if there.any() else np.nan
                rows.append([model, scale, approach, part, found.value, *limits, found.n, median])
    return tables.of(
        pd.DataFrame(rows, columns=tables.schema("calibration_guidance").names), "calibration_guidance"
    )


# -- contributions -----------------------------------------------------------------------------------------------


def contributions(
    training: pd.DataFrame,
    generated: pd.DataFrame,
    *,
    guidance: float,
    seed: int = 0,
    replicates: int = 1000,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Return what each rule of measurement contributes, as ``calibration_contributions``.

    Amplification (published definition, mean of prompts) with the exclusion rule, the threshold, the face gate and
    the judge, less that without each of them on the same images; and what few images add.

    Args:
        training: :attr:`Calibration.training`.
        generated: :attr:`Calibration.generated`.
        guidance: The run's own guidance scale.
        seed: Seed of the bootstraps.
        replicates: Replicates of each; at most 1,000 are drawn.
        confidence: Level of the intervals (occupations resampled), 0–1.
    """
    draws, rows = _draws(seed, replicates, confidence), []
    skew = generated["skew"].iloc[0]
    made = generated[(generated["skew"] == skew) & generated["guidance_scale"].isin(["", f"{guidance:g}"])]
    occupations = list(dict.fromkeys(generated["occupation"]))
    for approach in CONTRIBUTING:
        images = training[(training["skew"] == skew) & (training["approach"] == approach)]
        if images.empty:
            continue
        for generator, others in made.groupby("generator", sort=False):
            rows += _rule_rows([generator, approach], images, others, occupations, draws)
    names = tables.schema("calibration_contributions").names
    return tables.of(pd.DataFrame(rows, columns=names), "calibration_contributions")


def _rule_rows(
    head: list, training: pd.DataFrame, generated: pd.DataFrame, occupations: Sequence[str], draws: dict
) -> Iterator[list]:
    both = training, generated
    sides = [count(rows, occupations) for rows in both]
    for component, other in (("exclusion_distance", "no_exclusion"), ("exclusion_direction", "directional")):
        yield _contribution([*head, component], sides, sides, _left_out(*sides), draws, other)
    once = [rows.drop_duplicates(["image_id", "occupation"]) for rows in both]
    loose = [count(rows.assign(gender=likelier(rows)), occupations) for rows in both]
    changed = sum(int((rows["outcome"] == "uncertain").sum()) for rows in once)
    yield _contribution([*head, "threshold"], sides, loose, changed, draws)
    # Images that the gate keeps back are judged as a whole.
    free = [count(rows, occupations, "whole_gender") for rows in both]
    changed = sum(int(rows["outcome"].isin(KEPT_BACK).sum()) for rows in once)
    yield _contribution([*head, "face_gate"], sides, free, changed, draws)
    boot = amplified(*sides, draws)
    n = sum(int((rows["outcome"] == JUDGED).sum()) for rows in once)
    there = int(((sides[0].n > 0).all(axis=1) & (sides[1].n > 0).all(axis=1)).sum())
    value, floor = boot.value[0], boot.bias[0]
    limits = [np.nan, np.nan]
    yield [*head, "finite_samples", value, value - floor, floor, *limits, there, n, "An estimate of a bias."]
    if head[0] == WORLD:
        true = [count(rows[rows["outcome"] == JUDGED], occupations, "truth_gender") for rows in both]
        wrong = sum(int(((r["outcome"] == JUDGED) & (r["gender"] != r["truth_gender"])).sum()) for r in once)
        yield _contribution([*head, "judge_error"], sides, true, wrong, draws)


def _left_out(training: Counts, generated: Counts) -> int:
    """Return how many images of generated cells the published rule leaves out."""
    t, g = np.broadcast_arrays(training.percent, generated.percent)
    out = measures.exclusion_reason(g, t) != ""
    return int(np.broadcast_to(generated.n, out.shape)[out].sum())


def _contribution(
    head: list,
    with_: Sequence[Counts],
    without: Sequence[Counts],
    n_images: int,
    draws: dict,
    other: str = "published",
) -> list:
    """Return a row: amplification of counts with a rule less that of those without, occupations resampled.

    ``other`` is the definition that those without are measured by.
    """
    ends = np.cumsum([side.cells for side in (*with_, *without)])[:-1]

    def statistic(shares: np.ndarray) -> np.ndarray:
        t, g, t0, g0 = np.split(100 * shares, ends, axis=-1)
        values = expected(t, g, "published"), expected(t0, g0, other)
        return np.stack([*values, values[0] - values[1]], axis=-1)

    female = np.hstack([side.female for side in (*with_, *without)])
    n = np.hstack([side.n for side in (*with_, *without)])
    boot = stats.hierarchical_bootstrap(female, n, statistic, levels=("occupation",), **draws)
    there = int((n > 0).all(axis=1).sum())
    # Where a rule changes nothing there is no variance to speak of: the contribution is 0 and certain.
    nothing = boot.value[2] == 0 and not math.isfinite(boot.ci_low[2])
    limits = (0.0, 0.0) if nothing else (boot.ci_low[2], boot.ci_high[2])
    reason = "" if math.isfinite(limits[0]) else _TOO_FEW
    return [*head, *boot.value, *limits, there, n_images, reason]


# -- what must hold ------------------------------------------------------------------------------------------------


def quality(
    judge: pd.DataFrame,
    training: pd.DataFrame,
    made: pd.DataFrame,
    named: pd.DataFrame | None,
    words: pd.DataFrame,
    measured: pd.DataFrame,
    known: pd.DataFrame,
    *,
    model: str,
    seed: int = 0,
    replicates: int = 1000,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Return what the embedded world and models reach, one row a requirement, as ``mini_quality``.

    Args:
        judge: The table ``calibration_judge``.
        training: :attr:`Calibration.training`.
        made: Judged images for the templates by the run's own model: ``judgements("generated")`` of its pipeline.
        named: :meth:`Calibration.named`; None where the judge is no open_clip model.
        words: The measured table ``paradox_gender_words``; without rows where captions are no prompts.
        measured: The table ``paradox_amplification``.
        known: The table ``calibration_amplification``.
        model: The model, as tables call it.
        seed: Seed of the bootstraps.
        replicates: Replicates of each; at most 1,000 are drawn.
        confidence: Level of the intervals, 0–1.
    """
    draws = _draws(seed, replicates, confidence)
    rows = [*_judge_rows(judge), *_gate_rows(made, confidence), _words_row(words, model, confidence)]
    rows += [
        *_occupation_rows(named, confidence),
        *_amplification_quality(training, made, measured, known, model, draws),
    ]
    return tables.of(pd.DataFrame(rows, columns=tables.schema("mini_quality").names), "mini_quality")


def _row(metric, value, low, high, unit, n, n_of, reach="", inside=(), reason="") -> list:
    """Return a row of ``mini_quality``; ``inside`` are the ends of what the value shall lie in."""
    met = "" if not inside or not math.isfinite(value) else met_by(value, low, high, *inside)
    return [metric, value, low, high, unit, n, n_of, reach, met, reason]


def met_by(value: float, low: float, high: float, least: float, most: float) -> str:
    """Say whether a value lies in ``[least, most]``, and whether its interval does or does not do so as a whole."""
    there = least <= value <= most
    if not (math.isfinite(low) and math.isfinite(high)):
        return "yes, not certain" if there else "no, not certain"
    if there:
        return "yes" if least <= low and high <= most else "yes, not certain"
    return "no" if high < least or low > most else "no, not certain"


def _share_row(metric, hits: int, n: int, confidence: float, reach="", inside=(), reason="") -> list:
    low, high = (float(v) for v in wilson_percent(hits, n, confidence)) if n else (np.nan, np.nan)
    value = 100 * hits / n if n else np.nan
    reason = reason or ("" if n else "No image was judged.")
    return _row(metric, value, low, high, "%", n, "images", reach, inside, reason)


def _judge_rows(found: pd.DataFrame) -> Iterator[list]:
    """Yield accuracy over all renders that pass the gate, by clearness, and over sure answers alone."""
    found = found[found["truth"] == "all"].set_index(["cues", "answers"])
    kinds = {
        "": ("unambiguous", "likelier", "99 % or more", (99, 100)),
        "_sure": ("unambiguous", "judged", "", ()),
        "_ambiguous": ("ambiguous", "likelier", "", ()),
        "_all": ("all", "likelier", "", ()),
    }
    for name, (cues, answers, reach, inside) in kinds.items():
        name = f"judge_accuracy_renders{name}"
        if (cues, answers) not in found.index or not found.loc[(cues, answers), "n"]:
            why = "No such render was judged."
            yield _row(name, np.nan, np.nan, np.nan, "%", 0, "images", reach, inside, why)
            continue
        row = found.loc[(cues, answers)]
        reason = f"An ideal judge would reach {row['ceiling']:.2f} %."
        limits = row["accuracy"], row["ci_low"], row["ci_high"]
        yield _row(name, *limits, "%", row["n"], "images", reach, inside, reason)


def _gate_rows(rows: pd.DataFrame, confidence: float) -> Iterator[list]:
    passed = rows["outcome"].isin([JUDGED, "uncertain"])
    for prompt in ["", *sorted(set(rows["prompt"]))]:
        some = passed[rows["prompt"] == prompt] if prompt else passed
        name = f"gate_pass_rate_prompt_{prompt}" if prompt else "gate_pass_rate"
        asked = ("90 % or more", (90, 100)) if prompt else ("", ())
        yield _share_row(name, int(some.sum()), len(some), confidence, *asked)


def _words_row(words: pd.DataFrame, model: str, confidence: float) -> list:
    name, reach = "gender_word_accuracy", ("97 % or more", (97, 100))
    words = words[(words["model"] == model) & (words["approach"] == "caption_prompts")]
    if words.empty:
        return _row(name, *[np.nan] * 3, "%", 0, "images", *reach, "Captions are no prompts in this run.")
    followed, judged = int(words["n_followed"].sum()), int(words["n_judged"].sum())
    return _share_row(name, followed, judged, confidence, *reach)


def _occupation_rows(named: pd.DataFrame | None, confidence: float) -> Iterator[list]:
    """Yield zero-shot accuracy of occupations on generated images, on as many renders, and their ratio."""
    names = ("occupation_accuracy_generated", "occupation_accuracy_renders")
    reach = ("90 % or more of that on renders", (90, np.inf))
    if named is None:
        for name in ("occupation_accuracy", *names):
            asked = ("", ()) if name in names else reach
            yield _row(name, *[np.nan] * 3, "%", 0, "images", *asked, _NO_CLIP)
        return
    sides = [
        tuple(named.set_index("images").loc[of, ["right", "n"]].astype(int))
        for of in ("generated", "renders")
    ]
    (right, n), (right0, n0) = sides
    value, low, high = ratio_interval(right, n, right0, n0, confidence)
    yield _row("occupation_accuracy", 100 * value, 100 * low, 100 * high, "%", n, "images", *reach)
    for name, (hits, size) in zip(names, sides, strict=True):
        yield _share_row(name, hits, size, confidence)


def ratio_interval(count: int, n: int, count0: int, n0: int, confidence: float) -> tuple[float, float, float]:
    """Return the ratio of two independent shares with its interval on the logarithm (Katz et al. 1978).

    NaN where the first share or the second is 0 or rests on nothing.
    """
    if not (count > 0 and count0 > 0):
        return (0.0 if n and count0 else np.nan), np.nan, np.nan
    ratio = (count / n) / (count0 / n0)
    half = norm.ppf((1 + confidence) / 2) * math.sqrt(1 / count - 1 / n + 1 / count0 - 1 / n0)
    return ratio, ratio * math.exp(-half), ratio * math.exp(half)


def _amplification_quality(
    training: pd.DataFrame,
    made: pd.DataFrame,
    measured: pd.DataFrame,
    known: pd.DataFrame,
    model: str,
    draws: dict,
) -> Iterator[list]:
    measured = measured[(measured["model"] == model) & (measured["definition"] == "published")]

    def own(metric: str, approach: str, prompt: str, reach: str, inside: tuple) -> list:
        row = measured[(measured["approach"] == approach) & (measured["prompt"] == prompt)]
        if row.empty:
            why = f"The run measures no {approach}."
            return _row(metric, *[np.nan] * 3, "points", 0, "occupations", reach, inside, why)
        found = row.iloc[0]
        values = found["amplification"], found["ci_low"], found["ci_high"]
        reason = found["reason"] or "Freed of the floor that sampling noise gives it, as its interval is."
        return _row(metric, *values, "points", found["n_occupations"], "occupations", reach, inside, reason)

    yield own("naive_amplification", "naive", "mean", "above 0", (0, np.inf))
    skew = training["skew"].iloc[0]
    yield _halved(training[training["skew"] == skew], made, draws)
    yield own("caption_prompts", "caption_prompts", "captions", "-2 to 2 points", (-2, 2))
    known = known[(known["generator"] == WORLD) & (known["definition"] == "published")]
    known = known[known["prompt"] == "mean"].set_index(["skew", "approach"])
    for metric, knobs, approach, width in (
        ("truth_preserving_matched", skew, MATCHED, 2.0),
        ("world_off_naive", "off", "naive", np.inf),
    ):
        if (knobs, approach) not in known.index:
            why = f"The run measures no {approach}."
            yield _row(metric, *[np.nan] * 3, "points", 0, "occupations", "interval holds 0", (), why)
            continue
        row = known.loc[(knobs, approach)]
        low, high = row["excess_low"], row["excess_high"]
        met = "" if not math.isfinite(low) else "yes" if low <= 0 <= high and high - low < width else "no"
        asked = "interval holds 0" + (
            " and is narrower than 2 points" if width == 2 else ", freed of its floor"
        )
        reason = (
            row["reason"]
            or f"Freed of the floor of sampling noise ({row['floor']:.2f} points); these occupations."
        )
        limits = row["excess"], low, high
        yield [metric, *limits, "points", row["n_occupations"], "occupations", asked, met, reason]


def _halved(training: pd.DataFrame, made: pd.DataFrame, draws: dict) -> list:
    """Return the row of the ratio of two approaches' amplification on the same generated images."""
    name, reach, inside = "nearest_no_indicators_to_naive", "one half or less", (-np.inf, 0.5)
    approaches = ("naive", "nearest_no_indicators")
    asked = [some for a in approaches if len(some := training[training["approach"] == a])]
    if len(asked) < 2:
        return _row(
            name, *[np.nan] * 3, "ratio", 0, "occupations", reach, inside, "The run lacks an approach."
        )
    occupations = list(dict.fromkeys(made["occupation"]))
    naive, nearest, generated = (count(rows, occupations) for rows in (*asked, made))
    ends = [naive.cells, naive.cells + nearest.cells]

    def statistic(shares: np.ndarray) -> np.ndarray:
        t, t0, g = np.split(100 * shares, ends, axis=-1)
        base = expected(t, g, "published")
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(base > 0, expected(t0, g, "published") / base, np.nan)

    female = np.hstack([naive.female, nearest.female, generated.female])
    n = np.hstack([naive.n, nearest.n, generated.n])
    boot = stats.hierarchical_bootstrap(female, n, statistic, **draws)
    reason = (
        ""
        if math.isfinite(boot.value)
        else "Naive amplification is not above 0, so there is nothing to halve."
    )
    values = float(boot.value), float(boot.ci_low), float(boot.ci_high)
    return _row(name, *values, "ratio", boot.n_groups, "occupations", reach, inside, reason)
