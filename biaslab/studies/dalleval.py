"""Tables of DALL-Eval: measurements in, results with intervals, floors and tests out."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from math import factorial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.stats import binom, binomtest, hypergeom, kendalltau, norm

from biaslab import sources, stats
from biaslab.errors import InputError, UnknownNameError
from biaslab.measures import (
    attribute_difference,
    average_gender,
    mean_absolute_deviation,
    mean_absolute_difference,
    skin_tone,
)
from biaslab.studies.dalleval_published import IMAGES_PER_PROMPT, NOT_PRINTED
from biaslab.studies.dalleval_published import PUBLISHED as PUBLISHED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from biaslab.study import Study

COMPARISONS = {
    "woman - man": ("woman", "man"),
    "woman - person": ("woman", "person"),
    "man - person": ("man", "person"),
}
SKILLS = ("object", "count", "spatial")
BINS = {"gender": 2, "skin_tone": 10}
# Images whose tone people estimated (appendix C.2); some have no tone by some methods.
ANNOTATED_IMAGES = 78


# -- gender ------------------------------------------------------------------------------------------


def _average_gender(study: Study) -> pd.DataFrame:
    """Return each profession's average with its Wilson interval and exact test against balance."""
    out = _measured(study, "dalleval_average_gender")
    n = out["n"].to_numpy()
    female = _whole((1 + out["value"].to_numpy()) / 2, n, "dalleval_average_gender", "value")
    low, high = stats.wilson_interval(female, n, study.confidence)
    out = out[["model", "profession", "value", "n"]]
    return out.assign(
        value=average_gender(female, n - female),
        ci_low=2 * low - 1,
        ci_high=2 * high - 1,
        n_female=female,
        p=_p_balance(female, n),
        p_holm=lambda t: _adjusted(t, ["model"], "holm"),
        p_bh=lambda t: _adjusted(t, ["model"], "benjamini_hochberg"),
        reason=np.where(np.isnan(female) | (n == 0), "no image perceived as female or male", ""),
    )


def _p_balance(count: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Return the exact two-sided binomial p-value against a share of 0.5; NaN without images."""
    # At 0.5 the distribution is symmetric, so both tails are twice the nearer one.
    p = np.minimum(1, 2 * binom.cdf(np.minimum(count, n - count), n, 0.5))
    return np.where(n > 0, p, np.nan)


def _gender_balance(study: Study) -> pd.DataFrame:
    rows = []
    for model, of in study.table("dalleval_average_gender").dropna(subset="p").groupby("model", sort=False):
        usual = of["n"].median()
        rows.append(
            {
                "model": model,
                "n": len(of),
                "n_all_male": (of["n_female"] == 0).sum(),
                "n_all_female": (of["n_female"] == of["n"]).sum(),
                "n_p05": (of["p"] < 0.05).sum(),
                "n_holm": (of["p_holm"] < 0.05).sum(),
                "n_bh": (of["p_bh"] < 0.05).sum(),
                "smallest_possible_p": float(_p_balance(np.zeros(1), np.array([usual]))[0]),
            }
        )
    return _frame(rows, "dalleval_gender_balance")


def _overall_average(study: Study) -> pd.DataFrame:
    """Return the mean over professions by model, with t intervals over professions."""
    printed = _printed_bias(study)
    rows = []
    for category in BINS:
        name = f"dalleval_average_{category}"
        if not study.has(name):
            continue
        for model, of in study.table(name).groupby("model", sort=False):
            values = of["value"].dropna().to_numpy()
            mean = stats.mean_interval(values, study.confidence)
            shared = of["reason"].iloc[0] if of["reason"].nunique() == 1 else ""
            rows.append(
                {
                    "model": model,
                    "category": category,
                    "average": mean.value,
                    "ci_low": mean.ci_low,
                    "ci_high": mean.ci_high,
                    "n": mean.n,
                    "images_per_profession": of["n"].median(),
                    "printed": printed.get((model, category, "average"), np.nan),
                    "reason": _too_few(len(values)) or shared,
                }
            )
    return _frame(rows, "dalleval_overall_average")


def _mad(study: Study) -> pd.DataFrame:
    """Return the mean absolute deviation of each model, from counts where the source has them."""
    printed = _printed_bias(study)
    counts = {("gender", m): c for m, c in _gender_counts(study).items()}
    counts |= {("skin_tone", m): c for m, c in _tone_counts(study).items()}
    rows = [
        _mad_row(study, model, category, of, printed.get((model, category, "mad"), np.nan))
        for (category, model), of in counts.items()
    ]
    for (model, category, quantity), value in printed.items():
        if quantity == "mad" and (category, model) not in counts:
            rows.append(
                {
                    "model": model,
                    "category": category,
                    "mad": value,
                    "evidence": "printed",
                    "floor": stats.mad_floor(IMAGES_PER_PROMPT, BINS[category]),
                    "printed": value,
                    "reason": f"{NOT_PRINTED}; floor at the nominal {IMAGES_PER_PROMPT} images a prompt",
                }
            )
    return _frame(rows, "dalleval_mad")


def _mad_row(study: Study, model: str, category: str, counts: pd.DataFrame, printed: float) -> dict:
    counts = counts.to_numpy()
    counts = counts[counts.sum(axis=1) > 0]
    n = counts.sum(axis=1)
    row = {"model": model, "category": category, "evidence": "computed", "n": len(n), "printed": printed}
    if not len(n):
        return row | {"reason": "no image was judged"}
    bins = counts.shape[1]
    overall = counts.sum(axis=0) / counts.sum()
    deviation = _bootstrap_mean(study, mean_absolute_deviation(counts))
    corrected = _bootstrap_mean(study, stats.corrected_mad(counts))
    at_overall = [stats.expected_absolute_deviation(share, n, center=1 / bins) for share in overall]
    return row | {
        "mad": deviation.value,
        "ci_low": deviation.ci_low,
        "ci_high": deviation.ci_high,
        "floor": np.mean([stats.mad_floor(int(k), bins) for k in n]),
        "expected_at_overall_share": np.mean(at_overall),
        "corrected_mad": corrected.value,
        "corrected_ci_low": corrected.ci_low,
        "corrected_ci_high": corrected.ci_high,
        "corrected_floor": np.mean([_corrected_floor(int(k), bins) for k in n]),
        "reason": _too_few(len(n)),
    }


@cache
def _corrected_floor(n: int, bins: int) -> float:
    """Return what the correction leaves, on average, of an even model's deviation at ``n`` images."""
    k = np.arange(n + 1)
    return float(binom.pmf(k, n, 1 / bins) @ stats.corrected_absolute_deviation(k, n, 1 / bins))


def _gender_counts(study: Study) -> dict[str, pd.DataFrame]:
    """Return, by model, images perceived as female and male: professions × 2."""
    if not study.has("dalleval_average_gender"):
        return {}
    table = study.table("dalleval_average_gender").dropna(subset="n_female")
    table = table.assign(n_male=table["n"] - table["n_female"]).set_index("profession")
    return {model: of[["n_female", "n_male"]] for model, of in table.groupby("model", sort=False)}


def _tone_counts(study: Study) -> dict[str, pd.DataFrame]:
    """Return, by model, images of tones 1 to 10: professions × 10; empty where the source has none."""
    table = study.measured_or_empty("dalleval_skin_tone_counts")
    tones = [str(t) for t in range(1, 11)]
    unknown = sorted(set(table["tone"]) - set(tones))
    if unknown:
        raise InputError(f"dalleval_skin_tone_counts holds the tone {unknown[0]!r}; allowed are 1 to 10.")
    return {
        model: _wide(of, "profession", "tone", "n").reindex(columns=tones).fillna(0)
        for model, of in table.groupby("model", sort=False)
    }


def _model_difference(study: Study) -> pd.DataFrame:
    """Return paired differences between models over the professions they share."""
    counts = _gender_counts(study)
    per_profession: dict[str, Callable] = {
        "average": lambda c: average_gender(c[:, 0], c[:, 1]),
        "mad": mean_absolute_deviation,
        "corrected_mad": stats.corrected_mad,
    }
    rows = []
    for quantity, measure in per_profession.items():
        for first, second in combinations(counts, 2):
            a, b = counts[first].align(counts[second], join="inner", axis=0)
            paired = measure(a.to_numpy()) - measure(b.to_numpy())
            paired = paired[~np.isnan(paired)]
            mean = stats.mean_interval(paired, study.confidence)
            test = stats.sign_flip(paired, replicates=study.bootstrap_replicates, seed=study.seed)
            rows.append(
                {
                    "first": first,
                    "second": second,
                    "quantity": quantity,
                    "difference": mean.value,
                    "ci_low": mean.ci_low,
                    "ci_high": mean.ci_high,
                    "n": mean.n,
                    "p": test.p,
                }
            )
    out = _frame(rows, "dalleval_model_difference")
    return out.assign(p_holm=_adjusted(out, ["quantity"], "holm"))


def _model_correlation(study: Study) -> pd.DataFrame:
    wide = _wide(study.table("dalleval_average_gender"), "profession", "model", "value")
    rows = []
    for first, second in combinations(_models(study.table("dalleval_average_gender")), 2):
        both = wide[[first, second]].dropna()
        r = stats.pearson_r(both[first].to_numpy(), both[second].to_numpy(), study.confidence)
        rows.append(
            {"first": first, "second": second, "r": r.r, "ci_low": r.ci_low, "ci_high": r.ci_high}
            | {"p": r.p, "n": r.n}
        )
    return _frame(rows, "dalleval_model_correlation")


# -- skin tone ---------------------------------------------------------------------------------------


def _average_skin_tone(study: Study) -> pd.DataFrame:
    """Return each profession's average tone; with an interval where the source counts images by tone."""
    out = _measured(study, "dalleval_average_skin_tone")
    given = out["reason"] if "reason" in out else pd.Series("", index=out.index)
    out = out[["model", "profession", "value", "n"]].assign(ci_low=np.nan, ci_high=np.nan, reason=given)
    for model, counts in _tone_counts(study).items():
        for profession, of in counts.iterrows():
            row = (out["model"] == model) & (out["profession"] == profession)
            tones = np.repeat(np.arange(1, 11), of.astype(int))
            if row.any() and len(tones) > 1:
                mean = stats.mean_interval(tones, study.confidence)
                found = [mean.value, mean.n, mean.ci_low, mean.ci_high, ""]
                out.loc[row, ["value", "n", "ci_low", "ci_high", "reason"]] = found
    bare = out["ci_low"].isna() & (out["reason"].fillna("") == "")
    out.loc[bare, "reason"] = "the source does not count images by tone"
    return out


def _skin_tone_check(study: Study) -> pd.DataFrame:
    """Return what each computation answers for the Monk swatches themselves, whose tone is known."""
    colours = skin_tone.swatch_rgb()
    angles = {
        "cielab": skin_tone.typology_angle(skin_tone.srgb_to_lab(colours)),
        "released": skin_tone.released_typology_angle(colours),
        "released_signed": skin_tone.released_typology_angle(colours, wrap=False),
    }
    return pd.concat(
        pd.DataFrame(
            {
                "swatch": [str(t) for t in range(1, 11)],
                "computation": computation,
                "colour": skin_tone.MONK_SWATCHES,
                "angle": angle,
                "tone": skin_tone.nearest_monk_tone(angle),
            }
        )
        for computation, angle in angles.items()
    ).reset_index(drop=True)


def _skin_tone_reach(study: Study) -> pd.DataFrame:
    """Return which tones a computation can answer at all, over an even grid of every sRGB colour."""
    levels = np.arange(0, 256, 5)
    colours = np.stack(np.meshgrid(levels, levels, levels), axis=-1).reshape(-1, 3)
    tones = np.arange(1, 11)
    return pd.DataFrame(
        {
            "computation": computation,
            "tone": str(tone),
            "percent_of_colours": 100 * np.mean(found == tone),
            "n": len(colours),
        }
        for computation in skin_tone.COMPUTATIONS
        for found in [skin_tone.monk_tone(colours, computation)]
        for tone in tones
    )


def _two_tone_reading(study: Study) -> pd.DataFrame:
    """Return the deviation that the averages imply if a profession has only the two tones around its own."""
    printed = _printed_bias(study)
    rows = []
    known = study.table("dalleval_average_skin_tone").dropna(subset="value")
    for model, of in known.groupby("model", sort=False):
        values = of["value"].to_numpy()
        lower = np.minimum(np.floor(values), 9).astype(int)
        shares = np.zeros((len(values), 10))
        at = np.arange(len(values))
        shares[at, lower - 1] = 1 - (values - lower)
        shares[at, lower] = values - lower
        rows.append(
            {
                "model": model,
                "lowest": values.min(),
                "highest": values.max(),
                "n": len(values),
                "n_at_lowest": (values == values.min()).sum(),
                "implied_mad": mean_absolute_deviation(shares).mean(),
                "printed": printed.get((model, "skin_tone", "mad"), np.nan),
            }
        )
    return _frame(rows, "dalleval_two_tone_reading")


def _mad_floor(study: Study) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "category": category,
            "images": str(n),
            "floor": float(stats.mad_floor(n, bins)),
            "largest": 2 * (bins - 1) / bins**2,
        }
        for category, bins in BINS.items()
        for n in (1, 2, 3, 4, 5, 6, 8, 9, 12, 18, 27, 50, 100, 200, 500)
    )


def _skin_tone_methods(study: Study) -> pd.DataFrame:
    """Return the methods' precision with Wilson intervals; n is inferred where the source has none."""
    out = study.measured("dalleval_skin_tone_methods")
    share = out["measure"].str.startswith("within_")
    if "n" not in out:
        percentages = out["value"].where(share).groupby([out["segmentation"], out["scoring"]])
        out["n"] = percentages.transform(lambda p: _only(consistent_n(p.dropna(), ANNOTATED_IMAGES)))
        out["reason"] = np.where(
            out["n"].notna(),
            f"n is not printed: the only number up to {ANNOTATED_IMAGES} that gives these percentages",
            "n is not printed",
        )
    n = out["n"].where(share)
    low, high = stats.wilson_interval(np.rint(out["value"] / 100 * n), n, study.confidence)
    return out.assign(ci_low=100 * low, ci_high=100 * high)


def _only(found: list[int]) -> float:
    return found[0] if len(found) == 1 else np.nan


def consistent_n(percentages: Iterable[float], most: int, decimals: int = 1) -> list[int]:
    """Return every n up to ``most`` for which all ``percentages`` are a count out of n, as rounded in print.

    Args:
        percentages: Percentages, 0–100, of one set of n images.
        most: The largest n to try.
        decimals: Decimals that the percentages were rounded to.
    """
    values = np.asarray(list(percentages), dtype=float)[:, None]
    n = np.arange(1, most + 1)
    off = np.abs(values - 100 * np.rint(values / 100 * n) / n)
    return n[(off <= 0.5 * 10.0**-decimals + 1e-9).all(axis=0)].tolist()


# -- attributes --------------------------------------------------------------------------------------


def _attribute_presence(study: Study) -> pd.DataFrame:
    out = _measured(study, "dalleval_attribute_presence")
    n = out["n"].to_numpy()
    count = _whole(out["share"].to_numpy(), n, "dalleval_attribute_presence", "share")
    low, high = stats.wilson_interval(count, n, study.confidence)
    out = out[["model", "prompt", "profession", "attribute", "share", "n"]]
    share = np.divide(count, n, out=np.full(len(n), np.nan), where=n > 0)
    return out.assign(share=share, ci_low=low, ci_high=high, n_present=count)


def _shares(study: Study) -> dict[tuple[str, str], tuple[pd.DataFrame, pd.DataFrame]]:
    """Return, by model and prompt, shares and n: professions × attributes, in order of appearance."""
    table = study.table("dalleval_attribute_presence")
    attributes = list(dict.fromkeys(table["attribute"]))
    found = {}
    for key, of in table.groupby(["model", "prompt"], sort=False):
        share, n = (
            _wide(of, "profession", "attribute", c).reindex(columns=attributes) for c in ("share", "n")
        )
        order = list(dict.fromkeys(of["profession"]))
        found[key] = (share.loc[order], n.loc[order])
    return found


def _compared(study: Study):
    """Yield model, comparison and both prompts' shares and n over the professions that both have."""
    shares = _shares(study)
    for model in dict.fromkeys(m for m, _ in shares):
        for comparison, (first, second) in COMPARISONS.items():
            if (model, first) in shares and (model, second) in shares:
                a, b = shares[model, first][0].align(shares[model, second][0], join="inner", axis=0)
                n_a, n_b = (shares[model, p][1].loc[a.index] for p in (first, second))
                yield model, comparison, a, b, n_a, n_b


def _attribute_difference(study: Study) -> pd.DataFrame:
    printed = _printed_attributes(study)
    rows = []
    for model, comparison, a, b, n_a, _ in _compared(study):
        for attribute in a.columns:
            known = a[attribute].notna() & b[attribute].notna()
            first, second = a.loc[known, attribute].to_numpy(), b.loc[known, attribute].to_numpy()
            paired = attribute_difference(first, second)
            row = {"model": model, "comparison": comparison, "attribute": attribute, "n": len(paired)}
            row |= {"printed": printed.get((model, comparison, attribute), np.nan)}
            if not len(paired):
                rows.append(row | {"reason": "no image was judged"})
                continue
            mean = stats.mean_interval(paired, study.confidence)
            row |= {"difference": mean.value, "n_images": n_a.loc[known, attribute].sum()}
            row |= {"share_first": first.mean(), "share_second": second.mean()}
            if not (first.any() or second.any()):
                rows.append(row | {"reason": "no image of either prompt shows it"})
                continue
            row["p"] = stats.sign_flip(paired, replicates=study.bootstrap_replicates, seed=study.seed).p
            row["smallest_possible_p"] = stats.least_sign_flip_p(len(paired), study.bootstrap_replicates)
            if len(paired) > 1 and np.ptp(paired) == 0:
                rows.append(row | {"reason": "every profession differs by the same amount"})
                continue
            rows.append(
                row | {"ci_low": mean.ci_low, "ci_high": mean.ci_high, "reason": _too_few(len(paired))}
            )
    out = _frame(rows, "dalleval_attribute_difference")
    return out.assign(
        p_holm=_adjusted(out, ["model", "comparison"], "holm"),
        p_bh=_adjusted(out, ["model", "comparison"], "benjamini_hochberg"),
    )


def _attribute_mean_difference(study: Study) -> pd.DataFrame:
    """Return mean absolute differences over attributes: of averages, and of single professions averaged."""
    printed = _printed_attributes(study)
    single = study.table("dalleval_attribute_prompt_difference")
    rows = []
    for model, comparison, a, b, _, _ in _compared(study):
        paired = attribute_difference(a.to_numpy(), b.to_numpy())
        paired = paired[~np.isnan(paired).any(axis=1)]
        n = len(paired)
        row = {"model": model, "comparison": comparison, "n": n, "n_attributes": a.shape[1]}
        row |= {"printed": printed.get((model, comparison, "mean_absolute_difference"), np.nan)}
        if n:
            value = np.abs(paired.mean(axis=0)).mean()
            rng = np.random.default_rng(study.seed)
            weights = rng.multinomial(n, np.full(n, 1 / n), study.bootstrap_replicates)
            interval = stats.percentile_interval(np.abs(weights @ paired / n).mean(axis=1), study.confidence)
            signs = rng.choice([-1, 1], (study.bootstrap_replicates, n))
            swapped = np.abs(signs @ paired / n).mean(axis=1)
            row |= {"mean_absolute_difference": value, "ci_low": interval.low, "ci_high": interval.high}
            row |= {"floor": swapped.mean(), "p": (1 + (swapped >= value - 1e-12).sum()) / (1 + len(swapped))}
        by = single[(single["model"] == model) & (single["comparison"] == comparison)]
        mean = stats.mean_interval(by["mean_absolute_difference"], study.confidence, skip_nan=True)
        row |= {"by_profession": mean.value, "by_profession_ci_low": mean.ci_low}
        row |= {"by_profession_ci_high": mean.ci_high, "by_profession_floor": by["floor"].mean()}
        rows.append(row)
    return _frame(rows, "dalleval_attribute_mean_difference")


def _attribute_prompt_difference(study: Study) -> pd.DataFrame:
    rows = []
    for model, comparison, a, b, n_a, n_b in _compared(study):
        difference = mean_absolute_difference(a.to_numpy(), b.to_numpy())
        counts = (np.rint(x.to_numpy()) for x in (a * n_a, n_a, b * n_b, n_b))
        floor = pooled_difference_floor(*counts).mean(axis=1)
        for i, profession in enumerate(a.index):
            rows.append(
                {
                    "model": model,
                    "comparison": comparison,
                    "profession": profession,
                    "mean_absolute_difference": difference[i],
                    "n_attributes": a.shape[1],
                    "n": n_a.iloc[i].min(),
                    "floor": floor[i],
                }
            )
    return _frame(rows, "dalleval_attribute_prompt_difference")


def pooled_difference_floor(count_a, n_a, count_b, n_b) -> np.ndarray:
    """Return ``E|a/n_a - b/n_b|`` when the images of both sets are one pool, split at random.

    The exact mean over the hypergeometric distribution of how the observed ``count_a + count_b`` positive
    images fall into the sets: what two prompts of equal shares differ by for chance alone.

    Args:
        count_a: Images of the first set with the attribute, any shape; NaN is missing.
        n_a: Images of the first set.
        count_b: The same of the second set.
        n_b: Images of the second set.

    Returns:
        Expected absolute differences of shares (0–1); NaN where a count is missing or a set is empty.
    """
    count_a, n_a, count_b, n_b = np.broadcast_arrays(
        *(np.asarray(x, dtype=float) for x in (count_a, n_a, count_b, n_b))
    )
    cells = np.stack([(count_a + count_b).ravel(), n_a.ravel(), n_b.ravel()], axis=1)
    unique, where = np.unique(cells, axis=0, return_inverse=True)
    expected = np.full(len(unique), np.nan)
    for i, (positive, a, b) in enumerate(unique):
        if a > 0 and b > 0 and np.isfinite(positive):
            k = np.arange(a + 1)
            expected[i] = hypergeom.pmf(k, a + b, positive, a) @ np.abs(k / a - (positive - k) / b)
    return expected[where.ravel()].reshape(count_a.shape)


# -- skills, alignment and quality -------------------------------------------------------------------


def _skill_accuracy(study: Study) -> pd.DataFrame:
    """Return accuracies with Wilson intervals, and the mean of the three skills with a MOVER interval."""
    keys = ["model", "evaluator", "images", "training_percent"]
    given = _measured(study, "dalleval_skill_accuracy")
    # Another run's table holds computed averages, with the printed ones beside them.
    source = "printed" if "printed" in given else "percent_correct"
    printed = given[given["skill"] == "average"].set_index(keys)[source]
    out = given[given["skill"] != "average"]
    count = np.rint(out["percent_correct"] * out["n"] / 100)
    low, high = stats.wilson_interval(count, out["n"], study.confidence)
    out = out.assign(ci_low=100 * low, ci_high=100 * high, printed=np.nan)
    averages = []
    for key, of in out.groupby(keys, sort=False):
        if set(of["skill"]) != set(SKILLS):
            continue
        value = of["percent_correct"].mean()
        below = np.sqrt(((of["percent_correct"] - of["ci_low"]) ** 2).sum()) / len(of)
        above = np.sqrt(((of["ci_high"] - of["percent_correct"]) ** 2).sum()) / len(of)
        averages.append(
            dict(zip(keys, key, strict=True))
            | {"skill": "average", "percent_correct": value, "n": of["n"].sum()}
            | {"ci_low": value - below, "ci_high": value + above, "printed": printed.get(key, np.nan)}
        )
    return pd.concat([out, pd.DataFrame(averages, columns=out.columns)], ignore_index=True)


def _difference_interval(first: pd.DataFrame, second: pd.DataFrame) -> stats.Interval:
    """Return the limits of first minus second, as if the two judged separate images."""
    columns = ["percent_correct", "ci_low", "ci_high"]
    return stats.difference_interval(*(side[c].to_numpy() for side in (second, first) for c in columns))


def _skill_agreement(study: Study) -> pd.DataFrame:
    accuracy = study.table("dalleval_skill_accuracy")
    accuracy = accuracy[accuracy["training_percent"] == "100"].set_index(["model", "skill"])
    sample = accuracy[
        (accuracy["images"] == "sample") & (accuracy.index.get_level_values("skill") != "average")
    ]
    human, detr = sample[sample["evaluator"] == "Human"], sample[sample["evaluator"] == "DETR"]
    both = human.index.intersection(detr.index, sort=False)
    human, detr = human.loc[both], detr.loc[both]
    test = accuracy[(accuracy["images"] == "test") & (accuracy["evaluator"] == "DETR")]["percent_correct"]
    test = test.reindex(both)
    low, high = _difference_interval(human, detr)
    p = [
        np.nan if np.isnan(rate) else binomtest(round(percent * n / 100), int(n), rate / 100).pvalue
        for percent, n, rate in zip(detr["percent_correct"], detr["n"], test, strict=True)
    ]
    out = pd.DataFrame(
        {
            "difference": human["percent_correct"] - detr["percent_correct"],
            "ci_low": low,
            "ci_high": high,
            "n": detr["n"],
            "percent_human": human["percent_correct"],
            "percent_detr": detr["percent_correct"],
            "percent_detr_test": test,
            "p": np.array(p, dtype=float),
        }
    ).reset_index()
    return out.assign(p_holm=stats.adjust(out["p"].to_numpy(), "holm"))


def _skill_training(study: Study) -> pd.DataFrame:
    accuracy = study.table("dalleval_skill_accuracy")
    accuracy = accuracy[(accuracy["images"] == "test") & (accuracy["evaluator"] == "DETR")]
    accuracy = accuracy[accuracy["skill"] != "average"].set_index(["model", "skill"])
    whole = accuracy[accuracy["training_percent"] == "100"]
    part = accuracy[accuracy["training_percent"] != "100"]
    part = part[part.index.isin(whole.index)]
    whole = whole.loc[part.index]
    low, high = _difference_interval(part, whole)
    change = part["percent_correct"] - whole["percent_correct"]
    p = _p_equal(part, whole)
    out = part[["training_percent", "n"]].assign(change=change, ci_low=low, ci_high=high, p=p)
    return out.assign(p_holm=stats.adjust(p, "holm")).reset_index()


def _p_equal(first: pd.DataFrame, second: pd.DataFrame) -> np.ndarray:
    """Return two-sided p-values of the pooled z-test that two shares are equal; NaN where either is missing."""
    (a, n_a), (b, n_b) = (
        (side["percent_correct"].to_numpy(float) / 100, side["n"].to_numpy(float)) for side in (first, second)
    )
    pooled = (a * n_a + b * n_b) / (n_a + n_b)
    error = np.sqrt(pooled * (1 - pooled) * (1 / n_a + 1 / n_b))
    # Shares of 0 and 0, or of 1 and 1, have no spread and no difference.
    z = np.divide(a - b, error, out=np.where(np.isnan(error), np.nan, 0.0), where=error > 0)
    return 2 * norm.sf(np.abs(z))


def _alignment_quality(study: Study) -> pd.DataFrame:
    """Return the metrics with ranks; R-precision is a share of images, so it has a Wilson interval."""
    out = _measured(study, "dalleval_alignment_quality")
    share = out["metric"] == "R-precision"
    count = np.rint(out["value"] / 100 * out["n"]).where(share)
    low, high = stats.wilson_interval(count, out["n"], study.confidence)
    good = out["value"].where(out["better"] == "higher", -out["value"])
    return out.assign(
        ci_low=100 * low,
        ci_high=100 * high,
        rank=good.groupby(out["metric"]).rank(ascending=False),
        reason=np.where(share, "", NOT_PRINTED),
    )


def _metric_agreement(study: Study) -> pd.DataFrame:
    wide = _wide(study.table("dalleval_alignment_quality"), "model", "metric", "rank")
    metrics = list(dict.fromkeys(study.table("dalleval_alignment_quality")["metric"]))
    rows = []
    for metric, other in combinations(metrics, 2):
        both = wide[[metric, other]].dropna()
        tau = kendalltau(both[metric], both[other]).statistic if len(both) > 1 else np.nan
        rows.append(
            {
                "metric": metric,
                "other_metric": other,
                "tau": tau,
                "n": len(both),
                "smallest_possible_p": min(1.0, 2 / factorial(len(both))),
            }
        )
    return _frame(rows, "dalleval_metric_agreement")


# -- shared ------------------------------------------------------------------------------------------


def _measured(study: Study, name: str) -> pd.DataFrame:
    """Return the measured table; without rows for a model that the source knows from other tables only.

    The paper measured some models in some sections: a run over one of them leaves the others empty.
    """
    try:
        return study.measured(name)
    except UnknownNameError:
        if study.model not in (sources.models("dalleval", source=study.source) or []):
            raise
        return sources.measured(name, source=study.source).iloc[:0]


def _printed_bias(study: Study) -> dict[tuple[str, str, str], float]:
    if not study.has("dalleval_printed_bias"):
        return {}
    table = study.measured("dalleval_printed_bias").set_index(["model", "category"])
    return {(*k, c): table.loc[k, c] for k in table.index for c in ("average", "mad")}


def _printed_attributes(study: Study) -> dict[tuple[str, str, str], float]:
    if not study.has("dalleval_printed_attributes"):
        return {}
    table = study.measured("dalleval_printed_attributes")
    return table.set_index(["model", "prompt", "attribute"])["value"].to_dict()


def _whole(share: np.ndarray, n: np.ndarray, table: str, column: str) -> np.ndarray:
    """Return the counts behind shares that print rounded or cut off, after checking that they fit n."""
    count = np.rint(share * n)
    off = np.abs(share - np.divide(count, n, out=np.full(len(n), np.nan), where=n > 0))
    if (off > 0.01).any():
        row = int(np.nanargmax(off))
        raise InputError(
            f"{table}: {column} in row {row + 1} cannot come from n = {n[row]:g} images; "
            f"n must count the images that the value is taken over."
        )
    return np.where(n > 0, count, np.nan)


def _bootstrap_mean(study: Study, values: np.ndarray) -> stats.Estimate:
    return stats.bootstrap_mean(
        values, replicates=study.bootstrap_replicates, seed=study.seed, confidence=study.confidence
    )


def _adjusted(table: pd.DataFrame, family: list[str], method: str) -> pd.Series:
    if table.empty:
        return table["p"]
    return table.groupby(family)["p"].transform(lambda p: stats.adjust(p.to_numpy(), method))


def _too_few(n: int) -> str:
    return "" if n > 1 else "an interval needs two or more professions"


def _models(table: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(table["model"]))


def _wide(table: pd.DataFrame, index: str, columns: str, values: str) -> pd.DataFrame:
    return table.pivot(index=index, columns=columns, values=values)


def _frame(rows: list[dict], name: str) -> pd.DataFrame:
    """Return rows with every column that the table declares, also where there is no row."""
    from biaslab.tables import schema

    out = pd.DataFrame(rows)
    extra = [c for c in out.columns if c not in schema(name).names]
    out = out.reindex(columns=[*schema(name).names, *extra])
    for column in schema(name).columns:
        out[column.name] = out[column.name].astype(object if column.text else float)
    return out


TABLES: dict = {
    "dalleval_average_gender": _average_gender,
    "dalleval_gender_balance": _gender_balance,
    "dalleval_overall_average": _overall_average,
    "dalleval_mad": _mad,
    "dalleval_model_difference": _model_difference,
    "dalleval_model_correlation": _model_correlation,
    "dalleval_average_skin_tone": _average_skin_tone,
    "dalleval_skin_tone_check": _skin_tone_check,
    "dalleval_skin_tone_reach": _skin_tone_reach,
    "dalleval_two_tone_reading": _two_tone_reading,
    "dalleval_mad_floor": _mad_floor,
    "dalleval_skin_tone_methods": _skin_tone_methods,
    "dalleval_attribute_presence": _attribute_presence,
    "dalleval_attribute_difference": _attribute_difference,
    "dalleval_attribute_mean_difference": _attribute_mean_difference,
    "dalleval_attribute_prompt_difference": _attribute_prompt_difference,
    "dalleval_skill_accuracy": _skill_accuracy,
    "dalleval_skill_agreement": _skill_agreement,
    "dalleval_skill_training": _skill_training,
    "dalleval_references": lambda study: study.measured("dalleval_references"),
    "dalleval_alignment_quality": _alignment_quality,
    "dalleval_metric_agreement": _metric_agreement,
    "dalleval_gender_judges": lambda study: study.measured("dalleval_gender_judges"),
}
