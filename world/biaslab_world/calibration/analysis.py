"""Measurements of the embedded world held against its truth: the judge, shares and amplification.

Functions return the table that they name. ``renders``, ``training``, ``generated`` and ``truth`` are those of
:class:`biaslab_world.calibration.measure.Calibration`; ``confidence`` is the level of intervals, 0–1, ``seed`` that of
the bootstraps, and of ``replicates`` at most 1,000 are drawn for each.
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
# Estimate and interval of each way to count, in ``calibration_shares``.
COUNTED = {
    "sampled": ("percent_true_sample", "percent_true_sample_ci_low", "percent_true_sample_ci_high"),
    "judged": ("percent_female", "percent_female_ci_low", "percent_female_ci_high"),
    "corrected": ("percent_female_corrected", "ci_low", "ci_high"),
}
# There are dozens of bootstraps here; more replicates would move their limits by a few hundredths of a point.
_MOST_REPLICATES = 1000
_TOO_FEW = "Too few occupations or images for an interval."


def count(rows: pd.DataFrame, occupations: Sequence[str], labels: str = "gender") -> np.ndarray:
    """Count women, and women and men, among ``rows`` by the column ``labels``: (2, occupations, prompts)."""
    prompts = sorted(set(rows["prompt"])) or ["captions"]
    some = rows[rows[labels].isin(GENDERS)]
    cells = pd.MultiIndex.from_product([occupations, prompts])
    grouped = some.assign(_female=some[labels] == "female").groupby(["occupation", "prompt"])["_female"]
    found = grouped.agg(["sum", "size"]).reindex(cells, fill_value=0).to_numpy(int)
    return found.T.reshape(2, len(occupations), len(prompts))


def _pooled(counts: np.ndarray) -> np.ndarray:
    """Return the counts of all prompts together."""
    return counts.sum(axis=-1, keepdims=True)


def expected(training: np.ndarray, generated: np.ndarray, definition: str) -> np.ndarray:
    """Return expected amplification, mean over prompts, of percentages (..., occupations, prompts or 1)."""
    training, generated = np.broadcast_arrays(training, generated)
    found = metrics.expected_amplification(generated, training, definition, axis=-2)
    return found.amplification.mean(axis=-1)


def _bootstrap(
    parts: Sequence[np.ndarray], statistic: Callable[..., np.ndarray], draws: dict, *, fixed: bool = False
) -> stats.Bootstrap:
    """Resample several counts of the same occupations together; ``statistic`` takes the percentages of each."""
    ends = np.cumsum([part.shape[-1] for part in parts])[:-1]
    female, n = np.concatenate(parts, axis=-1)
    draws = draws | {"replicates": min(draws["replicates"], _MOST_REPLICATES), "fixed": fixed}
    if not n.any():
        # Nobody was judged: as many values as there would be, all of them missing.
        values = statistic(*np.split(np.full(n.shape, np.nan), ends, axis=-1))
        none = np.full(np.shape(values), np.nan)
        return stats.Bootstrap(none, none, none, 0, 0, 0, none, none, np.inf, _TOO_FEW)
    return stats.hierarchical_bootstrap(
        female, n, lambda shares: statistic(*np.split(100 * shares, ends, axis=-1)), **draws
    )


def _amplified(training: np.ndarray, generated: np.ndarray, draws: dict, *, fixed: bool = False) -> stats.Bootstrap:
    """Return expected amplification of counts by all definitions, with intervals and floors, in points."""

    def statistic(t: np.ndarray, g: np.ndarray) -> np.ndarray:
        return np.stack([expected(t, g, d) for d in DEFINITIONS], axis=-1)

    return _bootstrap((training, generated), statistic, draws, fixed=fixed)


def _there(*parts: np.ndarray) -> np.ndarray:
    """Return which occupations have images in every cell."""
    return (np.concatenate(parts, axis=-1)[1] > 0).all(axis=1)


# -- the judge -------------------------------------------------------------------------------------------------


def judge(renders: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return the judge's accuracy on held-out renders beside an ideal judge's: ``calibration_judge``."""
    rows = []
    for cues, truth, some in _by_truth(renders, ("all", *GENDERS)):
        sure, asked = some[some["status"] == JUDGED], some[some["probability_female"].notna()]
        kinds = {"judged": (sure, sure["gender"]), "likelier": (asked, likelier(asked))}
        for answers, (answered, said) in kinds.items():
            right = (said == answered["truth_gender"]).sum()
            best = np.maximum(answered["posterior"], 1 - answered["posterior"]).mean()
            ceiling = 100 * best if truth == "all" else np.nan
            rows.append([cues, truth, answers, right, len(answered), len(some), ceiling])
    frame = pd.DataFrame(rows, columns=["cues", "truth", "answers", "count", "n", "n_images", "ceiling"])
    found = stats.percent_columns(frame["count"], frame["n"], confidence, ("accuracy", "ci_low", "ci_high"))
    return tables.make_table(frame.assign(**found), "calibration_judge")


def _by_truth(renders: pd.DataFrame, truths: Sequence[str]) -> Iterator[tuple[str, str, pd.DataFrame]]:
    for cues, truth in itertools.product(CUES, truths):
        some = renders if cues == "all" else renders[renders["ambiguous"] == (cues == "ambiguous")]
        some = some if truth == "all" else some[some["truth_gender"] == truth]
        if len(some):
            yield cues, truth, some


def likelier(rows: pd.DataFrame) -> pd.Series:
    """Return the likelier gender of each image by the judge's probability; empty where it was not asked."""
    p = rows["probability_female"]
    return pd.Series(np.select([p >= 0.5, p < 0.5], GENDERS, ""), index=rows.index, dtype=object)


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
    """Return measured shares of women beside the true ones: ``calibration_shares``.

    Three shares of the same images, each with its interval: of the women drawn, of the women judged, and the latter
    corrected for the judge's error. Only the first and the last are estimates of the true share: an interval of what
    the judge says knows nothing of how often the judge is wrong. The judge's error is measured on renders of known
    truth that are not among the images counted (Rogan & Gladen 1978, see :func:`biaslab.stats.corrected_shares`).
    """
    references = {"training": pd.concat([renders, _of_world(generated)], ignore_index=True), "generated": renders}
    shown = references["training"].set_index("image_id")["truth_gender"]
    errors = error(gender_confusion(references, {"truth": shown}), paper="world", confidence=confidence)
    frames = []
    for (source, skew, approach), known in truth.groupby(["source", "skew", "approach"], sort=False):
        rows = training[(training["skew"] == skew) & (training["approach"] == approach)]
        rows = rows if source == "training" else _of_world(generated, skew)
        wide = _wide(known)
        # A caption that is among the nearest to several prompts counts once.
        once = rows.drop_duplicates(["image_id", "occupation"])
        frame = pd.DataFrame({"occupation": wide.index, "percent_true": wide.to_numpy(float).mean(axis=1)})
        for labels, counted, size in (("truth_gender", "sampled", "n_true_sample"), ("gender", "judged", "n")):
            female, n = _pooled(count(once, wide.index, labels))[..., 0]
            frame = frame.assign(**stats.percent_columns(female, n, confidence, COUNTED[counted]), **{size: n})
        about = {"model": "", "quantity": f"gender: {source}", "subject": frame["occupation"], "condition": ""}
        estimates = frame[["n"]].assign(**about, estimate=frame["percent_female"])
        found = corrected(estimates, errors, paper="world", pool=True, confidence=confidence)
        columns = {"percent_female_corrected": "estimate_corrected", "reference": "subject_of_error"}
        columns |= {name: name for name in ("ci_low", "ci_high", "reason")}
        frame = frame.assign(**{name: found[column].to_numpy() for name, column in columns.items()})
        frames.append(frame.assign(source=source, skew=skew, approach=approach))
    return tables.make_table(pd.concat(frames, ignore_index=True), "calibration_shares")


def _wide(truth: pd.DataFrame) -> pd.DataFrame:
    """Return true shares of one kind of images, occupations (in their order) by prompts."""
    wide = truth.pivot(index="occupation", columns="prompt", values="percent_true")
    return wide.loc[list(dict.fromkeys(truth["occupation"]))]


def coverage(shares: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Count the intervals of ``calibration_shares`` that hold the true share: ``calibration_coverage``.

    Were each interval right, the count would be binomial: n occupations, ``confidence`` each. ``p`` is the chance of
    so few or fewer; ``p_holm`` corrects it for the kinds of images that are counted in the same way (Holm 1979).
    ``n_covered_all`` and ``n_all`` are of all these kinds together.
    """
    keys = ["counted", "source", "skew", "approach"]
    frames = []
    for counted, (value, low, high) in COUNTED.items():
        known = shares[["percent_true", value, low, high]].notna().all(axis=1)
        off = (shares[value] - shares["percent_true"]).where(known)
        held = known & shares["percent_true"].between(shares[low], shares[high])
        frames.append(shares[keys[1:]].assign(counted=counted, n=known, off=off, square=off**2, n_covered=held))
    grouped = pd.concat(frames).groupby(keys, sort=False)
    found = grouped.agg({"n_covered": "sum", "n": "sum", "off": "mean", "square": "mean"}).reset_index()
    n = found["n"].where(found["n"] > 0)
    p, least = binom.cdf(found["n_covered"], n, confidence), binom.ppf(1 - confidence, n, confidence)
    found = found.assign(
        n_expected=found["n"] * confidence, n_covered_min=least, p=p, rms_error=np.sqrt(found["square"])
    )
    found["p_holm"] = found.groupby("counted")["p"].transform(lambda p: stats.adjust(p.to_numpy()))
    together = found.groupby("counted")[["n_covered", "n"]].transform("sum").add_suffix("_all")
    return tables.make_table(found.rename(columns={"off": "mean_error"}).join(together), "calibration_coverage")


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
    """Return amplification of world and model beside what the truth implies: ``calibration_amplification``.

    ``guidance`` is the run's own guidance scale; at others there are too few images for a share of each prompt.
    """
    draws, rows = {"seed": seed, "replicates": replicates, "confidence": confidence}, []
    for (skew, approach), images in training.groupby(["skew", "approach"], sort=False):
        here = truth[truth["skew"] == skew]
        known = here[(here["source"] == "training") & (here["approach"] == approach)]
        implied = _wide(known), _wide(here[here["source"] == "generated"])
        occupations, implied = implied[0].index, [wide.to_numpy(float) for wide in implied]
        counted, made = count(images, occupations), generated[generated["skew"] == skew]
        for (generator, scale), others in made.groupby(["generator", "guidance_scale"], sort=False):
            by_prompt = count(others, occupations)
            sides = {"mean": by_prompt, "pooled": _pooled(by_prompt)}
            if generator != WORLD and scale != f"{guidance:g}":
                # Few images a prompt are no basis for a share of each.
                del sides["mean"]
            for prompt, side in sides.items():
                for definition, *found in _amplification_rows(counted, side, implied, draws):
                    rows.append([generator, scale, skew, approach, definition, prompt, *found])
    return tables.make_table(rows, "calibration_amplification")


def _amplification_rows(
    training: np.ndarray, generated: np.ndarray, truth: Sequence[np.ndarray], draws: dict
) -> Iterator[list]:
    boot, fixed = (_amplified(training, generated, draws, fixed=fixed) for fixed in (False, True))
    there = _there(training, generated)
    sizes = training[1].mean(axis=1), generated[1].sum(axis=1)
    medians = [float(np.median(size[there])) if there.any() else np.nan for size in sizes]
    for k, definition in enumerate(DEFINITIONS):
        implied = float(expected(*truth, definition))
        # What is implied holds for these occupations, so only images are a matter of chance.
        limits = fixed.ci_low[k], fixed.ci_high[k]
        excess = [limit - implied for limit in (fixed.value[k] - fixed.bias[k], *limits)]
        excess.append(2 * norm.sf(abs(excess[0]) / fixed.se[k]))
        value, null_mean = boot.value[k], fixed.bias[k]
        own = [value, value - null_mean, boot.ci_low[k], boot.ci_high[k], boot.p[k], null_mean]
        reason = "" if math.isfinite(boot.ci_low[k] + limits[0]) else _TOO_FEW
        yield [definition, *own, implied, *excess, int(there.sum()), *medians, reason]


def amplification_told(table: pd.DataFrame, *, model: str) -> pd.DataFrame:
    """Return the rows of ``calibration_amplification`` that answer what is there without a model, and what one adds.

    By the paper's definition, mean of prompts. Of ``model``, and where true shares imply none (knobs off), the number
    is the excess over what true shares imply. ``asked`` says in words what a row is asked.
    """
    rows = table[(table["definition"] == "paper") & (table["prompt"] == "mean")]
    rows = rows[rows["approach"].isin(["naive", MATCHED]) & rows["generator"].isin([WORLD, model])]
    off = (rows["skew"] == "off") & (rows["skew"] != rows["skew"].iloc[0]) if len(rows) else rows["skew"] == "off"
    beyond = (rows["generator"] != WORLD) | (rows["skew"] == "off")
    without = np.where(off, "Without planted bias, is there amplification", "Without any model, is there amplification")
    asked = np.where(
        rows["generator"] == WORLD, without, "Does the model add to the amplification that true shares imply"
    )
    excess = {
        "amplification_corrected": "excess",
        "ci_low": "excess_ci_low",
        "ci_high": "excess_ci_high",
        "p": "excess_p",
    }
    moved = {name: rows[name].where(~beyond, rows[of]) for name, of in excess.items()}
    return rows.assign(model=rows["generator"], asked=asked, **moved)


def guidance(generated: pd.DataFrame, truth: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return what measurement, model and guidance add to the change along the true lean: ``calibration_guidance``.

    For each occupation, with t the true training share, p the true share behind the prompts, g and g0 the shares
    generated at this and at the lowest guidance, and s the sign of t - 50: s (p - t), s (g0 - p), s (g - g0). The
    lean is the true one, so no part is folded and none has a bias. Intervals are Student t over occupations.
    """
    here = truth[truth["skew"] == truth["skew"].iloc[0]]
    asked = _wide(here[here["source"] == "generated"])
    made = generated[generated["guidance_scale"] != ""]
    made = made.groupby(["generator", "guidance_scale"], sort=False)
    counted = {names: _pooled(count(rows, asked.index)) for names, rows in made}
    first = next(iter(counted), None)
    prompts, rows = asked.to_numpy(float)[:, 0], []
    for approach, known in here[here["source"] == "training"].groupby("approach", sort=False):
        training = _wide(known).to_numpy(float).mean(axis=1)
        sign = metrics.bias_direction(training)
        for (model, scale), counts in counted.items():
            share, lowest = (100 * ratio(*c)[:, 0] for c in (counts, counted[first]))
            parts = {"measurement": prompts - training, "model": lowest - prompts, "guidance": share - lowest}
            parts["total"] = share - training
            there = ~np.isnan(share + lowest + training) & (sign != 0)
            median = float(np.median(counts[1][there])) if there.any() else np.nan
            for part, change in parts.items():
                found = stats.mean_interval((sign * change)[there], confidence)
                # The first part is exact, and at the lowest guidance there is nothing to add.
                exact = part == "measurement" or (part == "guidance" and (model, scale) == first)
                p = stats.one_sample_t((sign * change)[there]).p
                limits = (np.nan,) * 3 if exact else (found.ci_low, found.ci_high, p)
                rows.append([model, scale, approach, part, found.value, *limits, found.n, median])
    return tables.make_table(rows, "calibration_guidance")


# -- what must hold ------------------------------------------------------------------------------------------------

# What each requirement shall reach, in words, and the ends of what its value shall lie in.
_REACH = {
    "judge_accuracy_renders": ("99 % or more", 99, 100),
    "gate_pass_rate_prompt_": ("90 % or more", 90, 100),
    "gender_word_accuracy": ("97 % or more", 97, 100),
    "occupation_accuracy": ("90 % or more of that on renders", 90, np.inf),
    "naive_amplification": ("above 0", 0, np.inf),
    "nearest_no_indicators_to_naive": ("one half or less", -np.inf, 0.5),
    "caption_prompts": ("-2 to 2 points", -2, 2),
}


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
    """Return what the embedded world and models reach, one row a requirement: ``mini_quality``.

    ``made`` are judged images for the templates by the run's own model, ``named`` is None where the judge is no
    open_clip model, and ``words`` has no rows where captions are no prompts; the other tables are what their names say.
    """
    words = words[(words["model"] == model) & (words["approach"] == "caption_prompts")]
    followed = int(words["n_followed"].sum()), int(words["n_judged"].sum())
    no_words = "" if len(words) else "Captions are no prompts in this run."
    measured = measured[(measured["model"] == model) & (measured["definition"] == "paper")]
    measured = measured.set_index(["approach", "prompt"])
    draws = {"seed": seed, "replicates": replicates, "confidence": confidence}
    skew = training["skew"].iloc[0]
    rows = [
        *_judge_rows(judge),
        *_gate_rows(made, confidence),
        _share_row("gender_word_accuracy", *followed, confidence, no_words),
        *_occupation_rows(named, confidence),
        _own_row("naive_amplification", measured, ("naive", "mean")),
        _halved(training[training["skew"] == skew], made, draws),
        _own_row("caption_prompts", measured, ("caption_prompts", "captions")),
        *_world_rows(known, skew),
    ]
    return tables.make_table(rows, "mini_quality")


def met(quality: pd.DataFrame) -> pd.DataFrame:
    """Return one row of how many requirements of ``mini_quality`` are met with their whole interval, and which not.

    Columns n_met, n_asked, and names of those that are ``missed``, ``unsure`` (the interval holds both) or
    ``not_measured``; missing where there are none.
    """
    asked = quality[quality["requirement"] != ""]
    kinds = {"no": "missed", "": "not_measured", "yes, not certain": "unsure", "no, not certain": "unsure"}
    named = asked.groupby(asked["met"].map(kinds))["metric"].agg(", ".join)
    row = {"n_met": (asked["met"] == "yes").sum(), "n_asked": len(asked)}
    return pd.DataFrame([row | {kind: named.get(kind, np.nan) for kind in dict.fromkeys(kinds.values())}])


def _row(metric: str, values=(np.nan,) * 3, n: float = 0, unit: str = "%", n_unit: str = "images", reason="") -> list:
    """Return a row of ``mini_quality``; ``values``: the value and its limits."""
    reach, *ends = _REACH.get(metric.rstrip("0123456789"), ("",))
    value, low, high = values
    met = met_by(value, low, high, *ends) if ends and math.isfinite(value) else ""
    return [metric, value, low, high, unit, n, n_unit, reach, met, reason]


def met_by(value: float, low: float, high: float, least: float, most: float) -> str:
    """Say whether a value lies in ``[least, most]``, and whether its interval does or does not do so as a whole."""
    there = least <= value <= most
    sure = (least <= low and high <= most) if there else (high < least or low > most)
    return ("yes" if there else "no") + ("" if sure else ", not certain")


def _share_row(metric: str, hits: int, n: int, confidence: float, reason: str = "") -> list:
    values = [float(v) for v in stats.percent_columns(hits, n, confidence).values()]
    return _row(metric, values, n, reason=reason or ("" if n else "No image was judged."))


def _judge_rows(found: pd.DataFrame) -> Iterator[list]:
    """Yield accuracy over all renders that pass the gate, by clearness, and over sure answers alone."""
    found = found[(found["truth"] == "all") & (found["n"] > 0)].set_index(["cues", "answers"])
    kinds = {
        "judge_accuracy_renders": ("unambiguous", "likelier"),
        "judge_accuracy_renders_sure": ("unambiguous", "judged"),
        "judge_accuracy_renders_ambiguous": ("ambiguous", "likelier"),
        "judge_accuracy_renders_all": ("all", "likelier"),
    }
    for metric, kind in kinds.items():
        if kind not in found.index:
            yield _row(metric, reason="No such render was judged.")
            continue
        row = found.loc[kind]
        reason = f"An ideal judge would reach {row['ceiling']:.2f} %."
        yield _row(metric, row[["accuracy", "ci_low", "ci_high"]], row["n"], reason=reason)


def _gate_rows(rows: pd.DataFrame, confidence: float) -> Iterator[list]:
    passed = rows["status"].isin([JUDGED, "uncertain"])
    yield _share_row("gate_pass_rate", passed.sum(), len(passed), confidence)
    for prompt, some in passed.groupby(rows["prompt"]):
        yield _share_row(f"gate_pass_rate_prompt_{prompt}", some.sum(), len(some), confidence)


def _occupation_rows(named: pd.DataFrame | None, confidence: float) -> Iterator[list]:
    """Yield zero-shot accuracy of occupations on generated images, on as many renders, and their ratio."""
    names = {"occupation_accuracy_generated": "generated", "occupation_accuracy_renders": "renders"}
    if named is None:
        why = "Similarity of images takes an open_clip model, which does not judge gender here."
        yield from (_row(name, reason=why) for name in ("occupation_accuracy", *names))
        return
    counts = named.set_index("images")[["right", "n"]].astype(int)
    ratio = ratio_interval(*counts.loc["generated"], *counts.loc["renders"], confidence)
    yield _row("occupation_accuracy", [100 * v for v in ratio], counts.loc["generated", "n"])
    for name, kind in names.items():
        yield _share_row(name, *counts.loc[kind], confidence)


def ratio_interval(count: int, n: int, count0: int, n0: int, confidence: float) -> tuple[float, float, float]:
    """Return the ratio of two independent shares with its interval on the logarithm (Katz et al. 1978).

    NaN where the first share or the second is 0 or rests on nothing.
    """
    if not (count > 0 and count0 > 0):
        return (0.0 if n and count0 else np.nan), np.nan, np.nan
    found = relative_risk(count, n, count0, n0)
    return found.relative_risk, *found.confidence_interval(confidence)


def _own_row(metric: str, measured: pd.DataFrame, key: tuple[str, str]) -> list:
    if key not in measured.index:
        return _row(metric, unit="points", n_unit="occupations", reason=f"The run measures no {key[0]}.")
    row = measured.loc[key]
    reason = row["reason"] or "Freed of the null expectation that sampling noise gives it, as its interval is."
    values = row[["amplification_corrected", "ci_low", "ci_high"]]
    return _row(metric, values, row["n_occupations"], "points", "occupations", reason)


def _halved(training: pd.DataFrame, made: pd.DataFrame, draws: dict) -> list:
    """Return the row of the ratio of two approaches' amplification on the same generated images."""
    kind = {"unit": "ratio", "n_unit": "occupations"}
    asked = [training[training["approach"] == a] for a in ("naive", "nearest_no_indicators")]
    if any(rows.empty for rows in asked):
        return _row("nearest_no_indicators_to_naive", **kind, reason="The run lacks an approach.")
    occupations = list(dict.fromkeys(made["occupation"]))

    def statistic(t: np.ndarray, t0: np.ndarray, g: np.ndarray) -> np.ndarray:
        base = expected(t, g, "paper")
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(base > 0, expected(t0, g, "paper") / base, np.nan)

    boot = _bootstrap([count(rows, occupations) for rows in (*asked, made)], statistic, draws)
    values = float(boot.value), float(boot.ci_low), float(boot.ci_high)
    none = "Naive amplification is not above 0, so there is nothing to halve."
    reason = "" if math.isfinite(values[0]) else none
    return _row("nearest_no_indicators_to_naive", values, boot.n_groups, **kind, reason=reason)


def _world_rows(known: pd.DataFrame, skew: str) -> Iterator[list]:
    """Yield what the measurement adds where nothing but it is there: whether the interval of the excess holds 0."""
    known = known[(known["generator"] == WORLD) & (known["definition"] == "paper")]
    known = known[known["prompt"] == "mean"].set_index(["skew", "approach"])
    for metric, key, width, more in (
        ("truth_preserving_matched", (skew, MATCHED), 2.0, " and is narrower than 2 points"),
        ("world_off_naive", ("off", "naive"), np.inf, ", bias-corrected"),
    ):
        asked, values, n, met = "interval holds 0", [np.nan] * 3, 0, ""
        reason = f"The run measures no {key[1]}."
        if key in known.index:
            row = known.loc[key]
            asked, n, values = (asked + more, row["n_occupations"], row[["excess", "excess_ci_low", "excess_ci_high"]])
            low, high = values.iloc[1:]
            met = "" if not math.isfinite(low) else "yes" if low <= 0 <= high and high - low < width else "no"
            freed = (
                f"Freed of the null expectation of sampling noise ({row['null_mean']:.2f} points); these occupations."
            )
            reason = row["reason"] or freed
        yield [metric, *values, "points", n, "occupations", asked, met, reason]
