"""Comparison of measurements of the synthetic world with its ground truth: the judge, shares and amplification.

Each function returns the table that its docstring names. ``renders``, ``training``, ``generated`` and ``truth`` are
attributes of :class:`biaslab_world.calibration.measure.Calibration`. ``confidence`` is the level of intervals, 0–1;
``seed`` is the seed of the bootstraps, which use ``replicates`` resamples but at most 1,000.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd
from scipy.stats import binom, norm
from scipy.stats.contingency import relative_risk

from biaslab import metrics, stats
from biaslab.analyses.calibration.analysis import corrected, error, gender_confusion
from biaslab.judges.judge_labels import JUDGED
from biaslab.metrics import DEFINITIONS
from biaslab.schema import tables
from biaslab.stats.checks import ratio
from biaslab_world.calibration.measure import MATCHED, WORLD
from biaslab_world.scene import GENDERS

CUES = ("all", "unambiguous", "ambiguous")
# Columns of the estimate and its interval for each way to count, in ``calibration_shares``.
COUNTED = {
    "sampled": ("percent_true_sample", "percent_true_sample_ci_low", "percent_true_sample_ci_high"),
    "judged": ("percent_female", "percent_female_ci_low", "percent_female_ci_high"),
    "corrected": ("percent_female_corrected", "ci_low", "ci_high"),
}
# This module runs dozens of bootstraps; more replicates would move their limits by a few hundredths of a point.
_MAX_REPLICATES = 1000
_TOO_FEW = "Too few occupations or images for an interval."


def count(rows: pd.DataFrame, occupations: Sequence[str], labels: str = "gender") -> np.ndarray:
    """Return counts of women, and of women and men, by the column ``labels``: int (2, occupations, prompts)."""
    prompts = sorted(set(rows["prompt"])) or ["captions"]
    labelled = rows[rows[labels].isin(GENDERS)]
    cells = pd.MultiIndex.from_product([occupations, prompts])
    grouped = labelled.assign(_female=labelled[labels] == "female").groupby(["occupation", "prompt"])["_female"]
    counts = grouped.agg(["sum", "size"]).reindex(cells, fill_value=0).to_numpy(int)
    return counts.T.reshape(2, len(occupations), len(prompts))


def _pooled(counts: np.ndarray) -> np.ndarray:
    """Return the counts summed over prompts."""
    return counts.sum(axis=-1, keepdims=True)


def expected(training: np.ndarray, generated: np.ndarray, definition: str) -> np.ndarray:
    """Return expected amplification, averaged over prompts, for percentages (..., occupations, prompts or 1)."""
    training, generated = np.broadcast_arrays(training, generated)
    estimate = metrics.expected_amplification(generated, training, definition, axis=-2)
    return estimate.amplification.mean(axis=-1)


def _bootstrap(
    parts: Sequence[np.ndarray], statistic: Callable[..., np.ndarray], draws: dict, *, fixed: bool = False
) -> stats.Bootstrap:
    """Resample several counts of the same occupations jointly; ``statistic`` takes the percentages of each."""
    ends = np.cumsum([part.shape[-1] for part in parts])[:-1]
    female, n = np.concatenate(parts, axis=-1)
    draws = draws | {"replicates": min(draws["replicates"], _MAX_REPLICATES), "fixed": fixed}
    if not n.any():
        # Without judged people, the result has the usual shape and only missing values.
        values = statistic(*np.split(np.full(n.shape, np.nan), ends, axis=-1))
        missing = np.full(np.shape(values), np.nan)
        return stats.Bootstrap(missing, missing, missing, 0, 0, 0, missing, missing, np.inf, _TOO_FEW)
    return stats.hierarchical_bootstrap(
        female, n, lambda shares: statistic(*np.split(100 * shares, ends, axis=-1)), **draws
    )


def _amplified(training: np.ndarray, generated: np.ndarray, draws: dict, *, fixed: bool = False) -> stats.Bootstrap:
    """Return expected amplification of counts by all definitions, with intervals and null expectations, in points."""

    def statistic(t: np.ndarray, g: np.ndarray) -> np.ndarray:
        return np.stack([expected(t, g, d) for d in DEFINITIONS], axis=-1)

    return _bootstrap((training, generated), statistic, draws, fixed=fixed)


def _has_images(*parts: np.ndarray) -> np.ndarray:
    """Return a mask of the occupations with images in every cell."""
    return (np.concatenate(parts, axis=-1)[1] > 0).all(axis=1)


# -- the judge -------------------------------------------------------------------------------------------------


def judge(renders: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return the judge's accuracy on held-out renders with that of an ideal judge: ``calibration_judge``."""
    rows = []
    for cues, truth, images in _iter_by_truth(renders, ("all", *GENDERS)):
        labelled, scored = images[images["status"] == JUDGED], images[images["probability_female"].notna()]
        kinds = {"judged": (labelled, labelled["gender"]), "likelier": (scored, more_likely(scored))}
        for answers, (answered_rows, labels) in kinds.items():
            right = (labels == answered_rows["truth_gender"]).sum()
            best = np.maximum(answered_rows["posterior"], 1 - answered_rows["posterior"]).mean()
            ceiling = 100 * best if truth == "all" else np.nan
            rows.append([cues, truth, answers, right, len(answered_rows), len(images), ceiling])
    frame = pd.DataFrame(rows, columns=["cues", "truth", "answers", "count", "n", "n_images", "ceiling"])
    columns = stats.percent_columns(frame["count"], frame["n"], confidence, ("accuracy", "ci_low", "ci_high"))
    return tables.make_table(frame.assign(**columns), "calibration_judge")


def _iter_by_truth(renders: pd.DataFrame, truths: Sequence[str]) -> Iterator[tuple[str, str, pd.DataFrame]]:
    for cues, truth in itertools.product(CUES, truths):
        rows = renders if cues == "all" else renders[renders["ambiguous"] == (cues == "ambiguous")]
        rows = rows if truth == "all" else rows[rows["truth_gender"] == truth]
        if len(rows):
            yield cues, truth, rows


def more_likely(rows: pd.DataFrame) -> pd.Series:
    """Return the more probable gender of each image according to the judge; empty without a probability."""
    p = rows["probability_female"]
    return pd.Series(np.select([p >= 0.5, p < 0.5], GENDERS, ""), index=rows.index, dtype=object)


def _world_images(generated: pd.DataFrame, skew: str = "") -> pd.DataFrame:
    """Return the images of the generator without a model, for the run's skew or for a named one."""
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
    """Return measured shares of women with the true ones: ``calibration_shares``.

    The same images give three shares with intervals: women by ground truth, women by the judge, and the latter
    corrected for the judge's error. Only the first and the last estimate the true share, since the interval of the
    judge's share ignores the judge's error. That error is measured on renders with ground truth that are not among the
    counted images (Rogan & Gladen 1978, see :func:`biaslab.stats.corrected_shares`).
    """
    references = {"training": pd.concat([renders, _world_images(generated)], ignore_index=True), "generated": renders}
    true_genders = references["training"].set_index("image_id")["truth_gender"]
    errors = error(gender_confusion(references, {"truth": true_genders}), paper="world", confidence=confidence)
    frames = []
    for (source, skew, approach), truth_rows in truth.groupby(["source", "skew", "approach"], sort=False):
        rows = training[(training["skew"] == skew) & (training["approach"] == approach)]
        rows = rows if source == "training" else _world_images(generated, skew)
        wide = _wide(truth_rows)
        # A caption that is nearest to several prompts counts once.
        unique_images = rows.drop_duplicates(["image_id", "occupation"])
        frame = pd.DataFrame({"occupation": wide.index, "percent_true": wide.to_numpy(float).mean(axis=1)})
        for labels, kind, size in (("truth_gender", "sampled", "n_true_sample"), ("gender", "judged", "n")):
            female, n = _pooled(count(unique_images, wide.index, labels))[..., 0]
            frame = frame.assign(**stats.percent_columns(female, n, confidence, COUNTED[kind]), **{size: n})
        identity = {"model": "", "quantity": f"gender: {source}", "subject": frame["occupation"], "condition": ""}
        estimates = frame[["n"]].assign(**identity, estimate=frame["percent_female"])
        corrected_shares = corrected(estimates, errors, paper="world", pool=True, confidence=confidence)
        columns = {"percent_female_corrected": "estimate_corrected", "reference": "subject_of_error"}
        columns |= {name: name for name in ("ci_low", "ci_high", "reason")}
        frame = frame.assign(**{name: corrected_shares[column].to_numpy() for name, column in columns.items()})
        frames.append(frame.assign(source=source, skew=skew, approach=approach))
    return tables.make_table(pd.concat(frames, ignore_index=True), "calibration_shares")


def _wide(truth: pd.DataFrame) -> pd.DataFrame:
    """Return true shares of one kind of images, occupations (in their original order) by prompts."""
    wide = truth.pivot(index="occupation", columns="prompt", values="percent_true")
    return wide.loc[list(dict.fromkeys(truth["occupation"]))]


def coverage(shares: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return the number of intervals of ``calibration_shares`` that contain the true share: ``calibration_coverage``.

    With correct intervals the number is binomial, with n occupations and probability ``confidence``. ``p`` is the
    probability of as few or fewer; ``p_holm`` adjusts it for the kinds of images with the same way to count (Holm
    1979). ``n_covered_all`` and ``n_all`` are totals over these kinds.
    """
    keys = ["counted", "source", "skew", "approach"]
    frames = []
    for kind, (value, low, high) in COUNTED.items():
        is_known = shares[["percent_true", value, low, high]].notna().all(axis=1)
        deviation = (shares[value] - shares["percent_true"]).where(is_known)
        is_covered = is_known & shares["percent_true"].between(shares[low], shares[high])
        columns = {"n": is_known, "off": deviation, "square": deviation**2, "n_covered": is_covered}
        frames.append(shares[keys[1:]].assign(counted=kind, **columns))
    grouped = pd.concat(frames).groupby(keys, sort=False)
    table = grouped.agg({"n_covered": "sum", "n": "sum", "off": "mean", "square": "mean"}).reset_index()
    n = table["n"].where(table["n"] > 0)
    p, n_covered_min = binom.cdf(table["n_covered"], n, confidence), binom.ppf(1 - confidence, n, confidence)
    table = table.assign(
        n_expected=table["n"] * confidence, n_covered_min=n_covered_min, p=p, rms_error=np.sqrt(table["square"])
    )
    table["p_holm"] = table.groupby("counted")["p"].transform(lambda p: stats.adjust(p.to_numpy()))
    totals = table.groupby("counted")[["n_covered", "n"]].transform("sum").add_suffix("_all")
    return tables.make_table(table.rename(columns={"off": "mean_error"}).join(totals), "calibration_coverage")


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
    """Return amplification of world and model with the value implied by true shares: ``calibration_amplification``.

    ``guidance`` is the run's guidance scale; other scales have too few images for a share of each prompt.
    """
    draws, rows = {"seed": seed, "replicates": replicates, "confidence": confidence}, []
    for (skew, approach), images in training.groupby(["skew", "approach"], sort=False):
        world_truth = truth[truth["skew"] == skew]
        training_truth = world_truth[(world_truth["source"] == "training") & (world_truth["approach"] == approach)]
        implied = _wide(training_truth), _wide(world_truth[world_truth["source"] == "generated"])
        occupations, implied = implied[0].index, [wide.to_numpy(float) for wide in implied]
        training_counts, world_images = count(images, occupations), generated[generated["skew"] == skew]
        for (generator, scale), model_images in world_images.groupby(["generator", "guidance_scale"], sort=False):
            by_prompt = count(model_images, occupations)
            sides = {"mean": by_prompt, "pooled": _pooled(by_prompt)}
            if generator != WORLD and scale != f"{guidance:g}":
                # The images per prompt are too few for a share of each prompt.
                del sides["mean"]
            for prompt, side in sides.items():
                for definition, *values in _amplification_rows(training_counts, side, implied, draws):
                    rows.append([generator, scale, skew, approach, definition, prompt, *values])
    return tables.make_table(rows, "calibration_amplification")


def _amplification_rows(
    training: np.ndarray, generated: np.ndarray, truth: Sequence[np.ndarray], draws: dict
) -> Iterator[list]:
    boot, fixed = (_amplified(training, generated, draws, fixed=fixed) for fixed in (False, True))
    has_images = _has_images(training, generated)
    sizes = training[1].mean(axis=1), generated[1].sum(axis=1)
    medians = [float(np.median(size[has_images])) if has_images.any() else np.nan for size in sizes]
    for k, definition in enumerate(DEFINITIONS):
        implied = float(expected(*truth, definition))
        # The implied value holds for these occupations, so only the images are resampled.
        limits = fixed.ci_low[k], fixed.ci_high[k]
        excess = [limit - implied for limit in (fixed.value[k] - fixed.bias[k], *limits)]
        excess.append(2 * norm.sf(abs(excess[0]) / fixed.se[k]))
        value, null_mean = boot.value[k], fixed.bias[k]
        amplified = [value, value - null_mean, boot.ci_low[k], boot.ci_high[k], boot.p[k], null_mean]
        reason = "" if math.isfinite(boot.ci_low[k] + limits[0]) else _TOO_FEW
        yield [definition, *amplified, implied, *excess, int(has_images.sum()), *medians, reason]


def amplification_questions(table: pd.DataFrame, *, model: str) -> pd.DataFrame:
    """Return the rows of ``calibration_amplification`` about amplification without a model and added by ``model``.

    They use the paper's definition and the mean over prompts. For ``model``, and without planted causes, the value
    is the excess over the amplification that true shares imply. The column ``asked`` holds the question that a
    row answers.
    """
    rows = table[(table["definition"] == "paper") & (table["prompt"] == "mean")]
    rows = rows[rows["approach"].isin(["naive", MATCHED]) & rows["generator"].isin([WORLD, model])]
    is_off = (rows["skew"] == "off") & (rows["skew"] != rows["skew"].iloc[0]) if len(rows) else rows["skew"] == "off"
    is_excess = (rows["generator"] != WORLD) | (rows["skew"] == "off")
    baseline = np.where(
        is_off, "Is there amplification without planted bias", "Is there amplification without any model"
    )
    added = "Does the model add to the amplification implied by the true shares"
    questions = np.where(rows["generator"] == WORLD, baseline, added)
    excess = {
        "amplification_corrected": "excess",
        "ci_low": "excess_ci_low",
        "ci_high": "excess_ci_high",
        "p": "excess_p",
    }
    replaced = {name: rows[name].where(~is_excess, rows[source]) for name, source in excess.items()}
    return rows.assign(model=rows["generator"], asked=questions, **replaced)


def guidance(generated: pd.DataFrame, truth: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return the parts of the change due to measurement, model and guidance: ``calibration_guidance``.

    For each occupation, let t be the true training share, p the true share for the prompts, g and g0 the shares
    generated at this and at the lowest guidance, and s the sign of t - 50. The parts are s (p - t), s (g0 - p) and
    s (g - g0). The direction s comes from the true share, so no part has a small-sample bias. Intervals are Student t
    over occupations.
    """
    world_truth = truth[truth["skew"] == truth["skew"].iloc[0]]
    prompt_truth = _wide(world_truth[world_truth["source"] == "generated"])
    groups = generated[generated["guidance_scale"] != ""]
    groups = groups.groupby(["generator", "guidance_scale"], sort=False)
    generated_counts = {names: _pooled(count(rows, prompt_truth.index)) for names, rows in groups}
    lowest_scale = next(iter(generated_counts), None)
    prompts, rows = prompt_truth.to_numpy(float)[:, 0], []
    for approach, training_truth in world_truth[world_truth["source"] == "training"].groupby("approach", sort=False):
        training = _wide(training_truth).to_numpy(float).mean(axis=1)
        sign = metrics.bias_direction(training)
        for (model, scale), counts in generated_counts.items():
            share, lowest = (100 * ratio(*c)[:, 0] for c in (counts, generated_counts[lowest_scale]))
            parts = {"measurement": prompts - training, "model": lowest - prompts, "guidance": share - lowest}
            parts["total"] = share - training
            is_counted = ~np.isnan(share + lowest + training) & (sign != 0)
            median = float(np.median(counts[1][is_counted])) if is_counted.any() else np.nan
            for part, change in parts.items():
                interval = stats.mean_interval((sign * change)[is_counted], confidence)
                # The part of the measurement is exact; at the lowest guidance that of guidance is 0 by definition.
                is_exact = part == "measurement" or (part == "guidance" and (model, scale) == lowest_scale)
                p = stats.one_sample_t((sign * change)[is_counted]).p
                limits = (np.nan,) * 3 if is_exact else (interval.ci_low, interval.ci_high, p)
                rows.append([model, scale, approach, part, interval.value, *limits, interval.n, median])
    return tables.make_table(rows, "calibration_guidance")


# -- requirements --------------------------------------------------------------------------------------------------

# Target of each requirement in words, and the ends of the range of accepted values.
_TARGETS = {
    "judge_accuracy_renders": ("99% or more", 99, 100),
    "gate_pass_rate_prompt_": ("90% or more", 90, 100),
    "gender_word_accuracy": ("97% or more", 97, 100),
    "occupation_accuracy": ("90% or more of the accuracy on renders", 90, np.inf),
    "naive_amplification": ("above 0", 0, np.inf),
    "nearest_no_indicators_to_naive": ("0.5 or less", -np.inf, 0.5),
    "caption_prompts": ("-2 to 2 points", -2, 2),
}


def quality(
    judge: pd.DataFrame,
    training: pd.DataFrame,
    generated: pd.DataFrame,
    named_counts: pd.DataFrame | None,
    words: pd.DataFrame,
    measured: pd.DataFrame,
    amplification_table: pd.DataFrame,
    *,
    model: str,
    seed: int = 0,
    replicates: int = 1000,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Return the measured quality of the synthetic world and its models, one row per requirement: ``mini_quality``.

    ``generated`` are judged images for the templates by the run's model. ``named_counts`` is
    :meth:`~biaslab_world.calibration.measure.Calibration.named`. ``words`` has no rows if captions are not prompts in
    this run. ``judge`` and ``amplification_table`` are ``calibration_judge`` and ``calibration_amplification``.
    """
    words = words[(words["model"] == model) & (words["approach"] == "caption_prompts")]
    followed_and_judged = int(words["n_followed"].sum()), int(words["n_judged"].sum())
    no_words = "" if len(words) else "This run does not use captions as prompts."
    measured = measured[(measured["model"] == model) & (measured["definition"] == "paper")]
    measured = measured.set_index(["approach", "prompt"])
    draws = {"seed": seed, "replicates": replicates, "confidence": confidence}
    skew = training["skew"].iloc[0]
    rows = [
        *_judge_rows(judge),
        *_gate_rows(generated, confidence),
        _share_row("gender_word_accuracy", *followed_and_judged, confidence, no_words),
        *_occupation_rows(named_counts, confidence),
        _amplification_row("naive_amplification", measured, ("naive", "mean")),
        _nearest_ratio_row(training[training["skew"] == skew], generated, draws),
        _amplification_row("caption_prompts", measured, ("caption_prompts", "captions")),
        *_world_rows(amplification_table, skew),
    ]
    return tables.make_table(rows, "mini_quality")


def summarize_requirements(quality: pd.DataFrame) -> pd.DataFrame:
    """Return one row with the number of requirements of ``mini_quality`` that are met with their entire interval.

    The columns are n_met, n_asked, and the names of requirements that are ``missed``, ``unsure`` (the interval contains
    accepted and other values) or ``not_measured``; a column without names is missing.
    """
    required = quality[quality["requirement"] != ""]
    kinds = {"no": "missed", "": "not_measured", "yes, not certain": "unsure", "no, not certain": "unsure"}
    metric_names = required.groupby(required["met"].map(kinds))["metric"].agg(", ".join)
    row = {"n_met": (required["met"] == "yes").sum(), "n_asked": len(required)}
    return pd.DataFrame([row | {kind: metric_names.get(kind, np.nan) for kind in dict.fromkeys(kinds.values())}])


def _row(metric: str, values=(np.nan,) * 3, n: float = 0, unit: str = "%", n_unit: str = "images", reason="") -> list:
    """Return a row of ``mini_quality``; ``values``: the value and its limits."""
    target, *ends = _TARGETS.get(metric.rstrip("0123456789"), ("",))
    value, low, high = values
    met = requirement_met(value, low, high, *ends) if ends and math.isfinite(value) else ""
    return [metric, value, low, high, unit, n, n_unit, target, met, reason]


def requirement_met(value: float, low: float, high: float, minimum: float, maximum: float) -> str:
    """Return whether a value is in ``[minimum, maximum]``, with ", not certain" if its interval crosses an end."""
    is_inside = minimum <= value <= maximum
    is_certain = (minimum <= low and high <= maximum) if is_inside else (high < minimum or low > maximum)
    return ("yes" if is_inside else "no") + ("" if is_certain else ", not certain")


def _share_row(metric: str, hits: int, n: int, confidence: float, reason: str = "") -> list:
    values = [float(v) for v in stats.percent_columns(hits, n, confidence).values()]
    return _row(metric, values, n, reason=reason or ("" if n else "No image was judged."))


def _judge_rows(judge_table: pd.DataFrame) -> Iterator[list]:
    """Yield accuracy over all renders that meet the inclusion criteria, by ambiguity, and over sure answers alone."""
    judge_table = judge_table[(judge_table["truth"] == "all") & (judge_table["n"] > 0)].set_index(["cues", "answers"])
    kinds = {
        "judge_accuracy_renders": ("unambiguous", "likelier"),
        "judge_accuracy_renders_sure": ("unambiguous", "judged"),
        "judge_accuracy_renders_ambiguous": ("ambiguous", "likelier"),
        "judge_accuracy_renders_all": ("all", "likelier"),
    }
    for metric, kind in kinds.items():
        if kind not in judge_table.index:
            yield _row(metric, reason="No such render was judged.")
            continue
        row = judge_table.loc[kind]
        reason = f"An ideal judge would reach {row['ceiling']:.2f}%."
        yield _row(metric, row[["accuracy", "ci_low", "ci_high"]], row["n"], reason=reason)


def _gate_rows(rows: pd.DataFrame, confidence: float) -> Iterator[list]:
    passed = rows["status"].isin([JUDGED, "uncertain"])
    yield _share_row("gate_pass_rate", passed.sum(), len(passed), confidence)
    for prompt, prompt_rows in passed.groupby(rows["prompt"]):
        yield _share_row(f"gate_pass_rate_prompt_{prompt}", prompt_rows.sum(), len(prompt_rows), confidence)


def _occupation_rows(named_counts: pd.DataFrame | None, confidence: float) -> Iterator[list]:
    """Yield zero-shot accuracy of occupations on generated images, on as many renders, and their ratio."""
    names = {"occupation_accuracy_generated": "generated", "occupation_accuracy_renders": "renders"}
    if named_counts is None:
        reason = "This metric requires an open_clip model as gender judge."
        yield from (_row(name, reason=reason) for name in ("occupation_accuracy", *names))
        return
    counts = named_counts.set_index("images")[["right", "n"]].astype(int)
    ratio = ratio_interval(*counts.loc["generated"], *counts.loc["renders"], confidence)
    yield _row("occupation_accuracy", [100 * v for v in ratio], counts.loc["generated", "n"])
    for name, kind in names.items():
        yield _share_row(name, *counts.loc[kind], confidence)


def ratio_interval(count: int, n: int, count0: int, n0: int, confidence: float) -> tuple[float, float, float]:
    """Return the ratio of two independent shares with its interval on the log scale (Katz et al. 1978).

    The interval is NaN if a count is 0 or a sample is empty, and so is the ratio unless only ``count`` is 0.
    """
    if not (count > 0 and count0 > 0):
        return (0.0 if n and count0 else np.nan), np.nan, np.nan
    risk = relative_risk(count, n, count0, n0)
    return risk.relative_risk, *risk.confidence_interval(confidence)


def _amplification_row(metric: str, measured: pd.DataFrame, key: tuple[str, str]) -> list:
    if key not in measured.index:
        return _row(
            metric, unit="points", n_unit="occupations", reason=f"The run does not measure the approach {key[0]}."
        )
    row = measured.loc[key]
    reason = row["reason"] or "Corrected for small-sample bias, as is its interval."
    values = row[["amplification_corrected", "ci_low", "ci_high"]]
    return _row(metric, values, row["n_occupations"], "points", "occupations", reason)


def _nearest_ratio_row(training: pd.DataFrame, generated: pd.DataFrame, draws: dict) -> list:
    """Return the row with the ratio of two approaches' amplification on the same generated images."""
    kind = {"unit": "ratio", "n_unit": "occupations"}
    approach_rows = [training[training["approach"] == a] for a in ("naive", "nearest_no_indicators")]
    if any(rows.empty for rows in approach_rows):
        return _row("nearest_no_indicators_to_naive", **kind, reason="The run lacks one of the two approaches.")
    occupations = list(dict.fromkeys(generated["occupation"]))

    def statistic(t: np.ndarray, t0: np.ndarray, g: np.ndarray) -> np.ndarray:
        base = expected(t, g, "paper")
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(base > 0, expected(t0, g, "paper") / base, np.nan)

    boot = _bootstrap([count(rows, occupations) for rows in (*approach_rows, generated)], statistic, draws)
    values = float(boot.value), float(boot.ci_low), float(boot.ci_high)
    no_ratio = "Naive amplification is not above 0, so the ratio is undefined."
    reason = "" if math.isfinite(values[0]) else no_ratio
    return _row("nearest_no_indicators_to_naive", values, boot.n_groups, **kind, reason=reason)


def _world_rows(amplification_table: pd.DataFrame, skew: str) -> Iterator[list]:
    """Yield rows on amplification added by the measurement alone: whether the interval of the excess contains 0."""
    amplification_table = amplification_table[
        (amplification_table["generator"] == WORLD) & (amplification_table["definition"] == "paper")
    ]
    amplification_table = amplification_table[amplification_table["prompt"] == "mean"].set_index(["skew", "approach"])
    for metric, key, width, extra_condition in (
        ("truth_preserving_matched", (skew, MATCHED), 2.0, " and is narrower than 2 points"),
        ("world_off_naive", ("off", "naive"), np.inf, ", bias-corrected"),
    ):
        requirement, values, n, met = "interval includes 0", [np.nan] * 3, 0, ""
        reason = f"The run does not measure the approach {key[1]}."
        if key in amplification_table.index:
            row = amplification_table.loc[key]
            requirement, n, values = (
                requirement + extra_condition,
                row["n_occupations"],
                row[["excess", "excess_ci_low", "excess_ci_high"]],
            )
            low, high = values.iloc[1:]
            met = "" if not math.isfinite(low) else "yes" if low <= 0 <= high and high - low < width else "no"
            bias = f"{row['null_mean']:.2f} points"
            default_reason = f"Corrected for small-sample bias ({bias}); the interval holds for these occupations."
            reason = row["reason"] or default_reason
        yield [metric, *values, "points", n, "occupations", requirement, met, reason]
