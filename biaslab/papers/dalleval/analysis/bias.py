"""Perceived gender and skin tone by profession (section 5.3).

``genders`` is the result of :func:`average_gender`, ``tones`` that of :func:`average_skin_tone`. ``errors`` has rows
of ``calibration_error``, which correct averages for the errors of their judge. ``tone_counts`` has rows
of ``dalleval_skin_tone_counts``, ``printed`` of ``dalleval_printed_bias``. Gender goes from -1 male to +1 female, tones
from 1 light to 10 dark (Monk). ``confidence`` (0–1) is the level of intervals.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binom

from biaslab import stats
from biaslab.metrics import average_gender as signed_average
from biaslab.metrics import mean_absolute_deviation, skin_tone
from biaslab.papers.dalleval.analysis.rows import NO_PROFESSION, too_few, whole_count
from biaslab.papers.dalleval.printed import IMAGES_PER_PROMPT, NOT_PRINTED
from biaslab.schema import tables

TONES = tuple(range(1, 11))
VQA_JUDGE = "VQA"
"""The name in tables of the paper's gender judge, a VQA model that answers questions."""
BINS = {"gender": 2, "skin_tone": len(TONES)}


def average_gender(averages: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return each profession's average gender with its interval and exact test against balance (section 5.3).

    Takes a source's rows of ``dalleval_average_gender`` and returns that table with Wilson intervals; p is adjusted
    over a model's professions. Raises InputError where an average is inconsistent with its number of images.
    """
    n = averages["n"].to_numpy()
    female = whole_count((1 + averages["value"].to_numpy()) / 2, n, "dalleval_average_gender", "value")
    low, high = stats.wilson_interval(female, n, confidence)
    # At 0.5 the distribution is symmetric, so the two-sided p is twice the smaller tail.
    p = np.minimum(1, 2 * binom.cdf(np.minimum(female, n - female), n, 0.5))
    out = averages[["model", "profession", "n"]].assign(
        value=signed_average(female, n - female),
        ci_low=2 * low - 1,
        ci_high=2 * high - 1,
        n_female=female,
        p=p,
        reason=np.where(np.isnan(female), "no image perceived as female or male", ""),
        **({"judge": averages["judge"]} if "judge" in averages else {}),
    )
    tested = stats.adjust_families(out.assign(p=np.where(out["profession"] == NO_PROFESSION, np.nan, p)), ["model"])
    return tables.make_table(tested.assign(p=p), "dalleval_average_gender")


def overall_average(
    genders: pd.DataFrame,
    tones: pd.DataFrame,
    printed: pd.DataFrame,
    errors: pd.DataFrame | None = None,
    *,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Return ``dalleval_overall_average``: mean gender and mean tone over professions (Tables 6 and 7, last rows).

    Intervals are Student's t over professions, and p is that of an average gender of 0.
    """
    printed_averages = printed.set_index(["model", "category"])["average"].to_dict()
    error = _errors(errors, genders)
    rows = []
    for category, averages in (("gender", genders), ("skin_tone", tones)):
        for model, group in averages[averages["profession"] != NO_PROFESSION].groupby("model", sort=False):
            values = group["value"].dropna()
            mean = stats.mean_interval(values, confidence)
            reason = group["reason"].iloc[0] if group["reason"].nunique() == 1 else ""
            row: dict[str, Any] = {"model": model, "category": category, "average": mean.value} | mean._asdict()
            row |= {
                "paper_table_value": printed_averages.get((model, category)),
                "n_images_per_profession": group["n"].median(),
            }
            if category == "gender":
                row["p"] = stats.one_sample_t(values).p
                if rates := error.get(str(model)):
                    corrected = stats.judge_corrected_mean(values, *rates, confidence)
                    row |= _corrected_columns(corrected, "average_judge_corrected")
            rows.append(row | {"reason": too_few(mean.n) or reason})
    return tables.make_table(rows, "dalleval_overall_average")


def mad(
    genders: pd.DataFrame,
    tone_counts: pd.DataFrame,
    printed: pd.DataFrame,
    errors: pd.DataFrame | None = None,
    *,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Return ``dalleval_mad``: the mean absolute deviation from an even distribution (section 4.2.4).

    0 is even; at most 0.5 for gender, 0.18 for skin tone. Where counts of images exist, the deviation is computed, with
    its null expectation, and corrected for small-sample bias (:func:`biaslab.stats.mean_mad`) and for the judge's error
    (:func:`biaslab.stats.judge_corrected_deviation`); else it is the printed one. A profession's prompts are one
    observation.
    """
    printed_mads: dict = printed.set_index(["model", "category"])["mad"].to_dict()
    genders, tone_counts = (rows[rows["profession"] != NO_PROFESSION] for rows in (genders, tone_counts))
    perceived = genders.dropna(subset="n_female").set_index("profession")
    perceived = perceived.assign(n_male=perceived["n"] - perceived["n_female"])
    # By model and category: counts of images, prompts × bins (female and male, or skin tones).
    counts = {(str(m), "gender"): group[["n_female", "n_male"]] for m, group in perceived.groupby("model", sort=False)}
    counts |= {(model, "skin_tone"): images for model, images in _tone_counts(tone_counts).items()}
    error = _errors(errors, genders)
    rows = []
    for (model, category), images in counts.items():
        row = {"model": model, "category": category, "paper_table_value": printed_mads.get((model, category))}
        row |= {"evidence": "computed"} | _deviation(images, confidence)
        if category == "gender" and model in error and row["n"]:
            n = images.sum(axis=1)
            corrected = stats.judge_corrected_deviation(images["n_female"], n, *error[model], confidence)
            row |= _corrected_columns(corrected, "mad_judge_corrected")
        rows.append(row)
    reason = f"{NOT_PRINTED}; null expectation at the nominal {IMAGES_PER_PROMPT} images per prompt"
    for model, category in [key for key in printed_mads if key not in counts]:
        value, null_mean = printed_mads[model, category], stats.mad_null_mean(IMAGES_PER_PROMPT, BINS[category])
        row = {"model": model, "category": category, "mad": value, "paper_table_value": value, "null_mean": null_mean}
        rows.append(row | {"evidence": "printed", "reason": reason})
    return tables.make_table(rows, "dalleval_mad")


def _errors(errors: pd.DataFrame | None, genders: pd.DataFrame) -> dict[str, tuple[float, float, int, int]]:
    """Return sensitivity and specificity (0–1) with their numbers of images, by model, for judges that discriminate."""
    if errors is None or not len(errors):
        return {}
    judge_by_model = dict(zip(genders["model"], genders["judge"], strict=True)) if "judge" in genders else {}
    judges = [judge_by_model.get(model) or VQA_JUDGE for model in errors["model"]]
    judge_errors = errors[(errors["judge"] == judges) & (errors["quantity"] == "gender")]
    wide = judge_errors.pivot(index="model", columns="measure", values=["value", "n"])
    wide = wide.reindex(columns=pd.MultiIndex.from_product([["value", "n"], ["sensitivity", "specificity"]])).dropna()
    discriminating = wide[wide.iloc[:, :2].sum(axis=1) / 100 - 1 >= stats.MIN_YOUDEN]
    rows = discriminating.itertuples(name=None)
    return {model: (sens / 100, spec / 100, int(n), int(m)) for model, sens, spec, n, m in rows}


def _corrected_columns(corrected: stats.Deviation, column: str) -> dict:
    """Return the columns of an estimate that is corrected for the judge's error."""
    names = ("ci_low", "ci_high", "p")
    return {column: corrected.value} | {f"{column}_{name}": getattr(corrected, name) for name in names}


def _deviation(images: pd.DataFrame, confidence: float) -> dict:
    """Return the deviation of counts of images, prompts × bins, with its null mean, corrected value and intervals."""
    images = images[images.sum(axis=1) > 0]
    counts, n, bins = images.to_numpy(), images.sum(axis=1), images.shape[1]
    if not len(n):
        return {"n": 0, "reason": "no image was judged"}
    # Tones come from several prompts of a profession.
    unit = images.index.get_level_values("profession").to_numpy()
    overall = counts.sum(axis=0) / counts.sum()
    expected = [stats.expected_absolute_deviation(share, n, center=1 / bins) for share in overall]
    deviations = pd.Series(mean_absolute_deviation(counts)).groupby(unit).mean()
    largest = 2 * (bins - 1) / bins**2
    interval = stats.bounded_mean(deviations, (0, largest), largest, confidence)
    corrected = stats.mean_mad(counts, unit, confidence)
    row: dict[str, Any] = {"n": interval.n, "mad": interval.value}
    row |= {"mad_ci_low": interval.ci_low, "mad_ci_high": interval.ci_high}
    row |= {"mad_corrected": corrected.value, "ci_low": corrected.ci_low, "ci_high": corrected.ci_high}
    row |= {"p": corrected.p, "expected_at_overall_share": np.mean(expected)}
    for kind, null_mean in (("", stats.mad_null_mean), ("_corrected", _corrected_null_mean)):
        row[f"null_mean{kind}"] = np.mean([null_mean(int(k), bins) for k in n])
    row["reason"] = too_few(interval.n, confidence)
    if np.isnan(corrected.value):
        row["reason"] = f"{n.mean():.2g} images per prompt are too few to separate deviation from chance"
    return row


@cache
def _corrected_null_mean(n: int, bins: int) -> float:
    """Return the mean corrected deviation of an even model at ``n`` images."""
    k = np.arange(n + 1)
    return float(binom.pmf(k, n, 1 / bins) @ stats.corrected_absolute_deviation(k, n, 1 / bins))


def _tone_counts(counts: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return numbers of images by model: prompts with their professions × tones 1 to 10."""
    wide = counts.pivot(index=["model", "prompt", "profession"], columns="tone", values="n")
    wide = wide.reindex(columns=list(map(str, TONES))).fillna(0)
    return {model: wide.loc[model] for model in counts["model"].unique()}


def average_skin_tone(averages: pd.DataFrame, tone_counts: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return each profession's average tone, with Student's interval where images are counted by tone (section 5.3).

    Takes a source's rows of ``dalleval_average_skin_tone`` and returns that table.
    """
    counts = {model: images.groupby("profession").sum() for model, images in _tone_counts(tone_counts).items()}
    rows = []
    row: Any
    for row in averages.to_dict("records"):
        row |= {"ci_low": np.nan, "ci_high": np.nan}
        row["reason"] = row.get("reason") or "the source does not count images by tone"
        model_counts = counts.get(row["model"], pd.DataFrame())
        if row["profession"] in model_counts.index:
            tones = np.repeat(TONES, model_counts.loc[row["profession"]].astype(int))
            if len(tones) > 1:
                row |= stats.mean_interval(tones, confidence)._asdict() | {"reason": ""}
        rows.append(row)
    return tables.make_table(rows, "dalleval_average_skin_tone")


def skin_tone_check() -> pd.DataFrame:
    """Return ``dalleval_skin_tone_check``: the tone that each computation assigns to the Monk swatches.

    The released code applies the typology angle (appendix C.2; degrees) to OpenCV's 8-bit values in place of CIELAB.
    """
    colours = skin_tone.swatch_rgb()
    angles = {name: skin_tone.angle_of(colours, name) for name in skin_tone.COMPUTATIONS}
    table = pd.DataFrame(angles).assign(swatch=list(map(str, TONES)), colour=skin_tone.MONK_SWATCHES)
    table = table.melt(["swatch", "colour"], var_name="computation", value_name="angle")
    table["nearest_tone"] = skin_tone.nearest_monk_tone(table["angle"])
    is_correct = table["nearest_tone"] == table["swatch"].astype(int)
    table["n_swatches_correct"] = is_correct.groupby(table["computation"]).transform("sum")
    return tables.make_table(table, "dalleval_skin_tone_check")
