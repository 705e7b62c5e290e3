"""Amplification of an occupation's share perceived as female, from training to generated images (sections 3 to 8).

Functions return the table that they name, in points and per cent. ``shares`` are rows of ``paradox_percent_female``,
``pairs`` of ``paradox_caption_pairs``, ``printed`` of ``paradox_printed_amplification``. Without ``pairs``, approaches
with captions as prompts have no interval; pairs of other images than the shares raise an InputError. ``seed`` and
``replicates`` are the bootstrap's, ``confidence`` is the level of intervals, 0–1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np
import pandas as pd
import scipy.stats

from biaslab import metrics, reference, stats
from biaslab.captions.settings import SELECTED
from biaslab.errors import MissingInputError
from biaslab.papers.paradox.analysis.groups import (
    RANGES,
    TOO_FEW,
    Estimates,
    Group,
    estimates,
    expected,
    groups,
    included_values,
    wilson_percent,
)
from biaslab.papers.paradox.printed import MODEL
from biaslab.schema import tables

OTHER_OCCUPATIONS = (
    "No plain t-test, because the included occupations differ between prompts. The interval accounts for this."
)
_NONE_JUDGED = "No image of the occupation was classified."
NO_SHARES = "The paper prints no shares per occupation, so there is no interval."
# Most resamples of pairs of approaches, for standard errors to within a few percent.
_MOST_REPLICATES = 2000
# Approaches that each approach is compared with, in addition to the naive one.
_REFERENCES = {
    "caption_prompts_no_indicators": ("caption_prompts",),
    "paraphrased": ("caption_prompts",),
    "paraphrased_no_indicators": ("caption_prompts_no_indicators",),
}
_SPREAD_KEYS = ["model", "approach", "occupation"]
# The model of each of the arXiv version's tables.
_SPREADS = {"paradox_arxiv_table_5": "SD 1.4", "paradox_arxiv_table_6": "SD 1.5"}


def share_intervals(shares: pd.DataFrame, *, confidence: float, table: str = "paradox_percent_female") -> pd.DataFrame:
    """Return shares (percent_female of n) with Wilson intervals, as ``table`` (section 3; layout of Tables 6 and 7)."""
    n = shares["n"].to_numpy(float)
    low, high = wilson_percent(shares["percent_female"].to_numpy(float) * n / 100, n, confidence)
    return tables.check(shares.assign(ci_low=low, ci_high=high), table)


def amplification(
    shares: pd.DataFrame,
    pairs: pd.DataFrame | None = None,
    printed: pd.DataFrame | None = None,
    *,
    seed: int,
    replicates: int,
    confidence: float,
) -> pd.DataFrame:
    """Return expected amplification by all definitions: ``paradox_amplification`` (section 3.3; Table 3).

    ``amplification`` is the paper's definition. ``amplification_corrected`` is corrected for small-sample bias; its
    interval, ``t`` and ``p`` come from a bootstrap of occupations, then images. Approaches without shares have their
    printed averages as ``amplification``, with a reason.
    """
    bootstrap: dict[str, Any] = {"seed": seed, "replicates": replicates, "confidence": confidence}
    rows = [row for group in groups(shares, pairs) for row in _amplification_rows(group, bootstrap)]
    computed = tables.make_table(rows, "paradox_amplification")
    if printed is not None:
        computed = pd.concat([computed, _printed_rows(printed, computed)], ignore_index=True)
        papers = printed.rename(columns={"amplification": "paper_table_value"}).assign(definition="paper")
        computed = computed.merge(papers, "left", ["model", "approach", "definition", "prompt"])
    return tables.make_table(computed, "paradox_amplification")


def _amplification_rows(group: Group, bootstrap: dict) -> Iterator[list]:
    values = estimates(group, **reference.draws(group.model, **bootstrap))
    for i, definition in enumerate(metrics.DEFINITIONS):
        for j, prompt in enumerate(group.names):
            included = included_values(group, definition, prompt)
            test, reason = stats.one_sample_t(included), values.reason[i, j]
            t, p = test.statistic, test.p
            if prompt == "mean" and len(included) and not np.isclose(included.mean(), values.uncorrected[i, j]):
                # The mean over prompts is then not the mean over a single set of occupations.
                t, p, reason = np.nan, np.nan, reason or OTHER_OCCUPATIONS
            yield [
                *(group.model, group.approach, definition, prompt),
                *(part[i, j] for part in (values.uncorrected, values.corrected, values.low, values.high)),
                *(len(included), len(group.occupations) - len(included)),
                *(part[i, j] for part in (values.t, values.p, values.noise)),
                *(t, p, group.images(prompt), reason),
            ]


def _printed_rows(printed: pd.DataFrame, computed: pd.DataFrame) -> pd.DataFrame:
    """Return the printed averages of approaches without shares, with the reason for missing values."""
    keys = ["model", "approach"]
    computed_keys = pd.MultiIndex.from_frame(computed[keys])
    rows = printed[~pd.MultiIndex.from_frame(printed[keys]).isin(computed_keys)]
    prompt_values = rows["amplification"].where(rows["prompt"] != "mean")
    mean = prompt_values.groupby([rows[key] for key in keys]).transform("mean")
    # Four values printed to 0.01 average to within 0.01 of a mean that is rounded itself.
    differs = (rows["prompt"] == "mean") & ((rows["amplification"] - mean).abs() > 0.01)
    averages = " The mean of the printed values by prompt is " + mean.map("{:.3f}".format).astype(str) + "."
    return rows.assign(definition="paper", reason=NO_SHARES + averages.where(differs, ""))


def overall(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that represent all prompts of a model and approach: of their mean, or of the only one."""
    prompts = rows.groupby(["model", "approach"])["prompt"].transform("nunique")
    return rows[(rows["prompt"] == "mean") | (prompts == 1)]


def guarded_p(rows: pd.DataFrame) -> pd.Series:
    """Return p (0–1) of rows of ``paradox_amplification``: 1 where the correction for image noise dominates."""
    dominated = stats.correction_dominates(rows["amplification"], rows["amplification_corrected"])
    return rows["p"].mask(np.asarray(dominated), 1.0)


def baseline(amplification: pd.DataFrame) -> pd.DataFrame:
    """Return amplification of the naive approach by the paper's definition and as signed change, for models with both.

    With ``p_both``, p adjusted over the two definitions (Holm).
    """
    rows = amplification[(amplification["approach"] == "naive") & amplification["n_occupations"].notna()]
    rows = overall(rows[rows["definition"].isin(["paper", "signed"])]).dropna(subset="amplification")
    rows = rows[rows.groupby("model")["definition"].transform("nunique") == 2]
    p_both = rows.assign(p_both=guarded_p(rows)).groupby("model")["p_both"].transform(stats.adjust)
    return rows.assign(p_both=p_both)


def occupation_amplification(shares: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return each occupation's shares, amplification and signed change: ``paradox_occupation_amplification`` (3.3).

    The interval is of the signed change in the direction of training bias (Newcombe 1998, method 10, from two Wilson
    intervals). Approaches with captions as prompts have none, because their images are not independent.
    """
    cells = ((group, j) for group in groups(shares) for j in range(len(group.prompts)))
    frames = [_occupation_rows(group, j, confidence) for group, j in cells]
    return tables.join_tables(frames, "paradox_occupation_amplification")


def _occupation_rows(group: Group, j: int, confidence: float) -> pd.DataFrame:
    t, g, t_n, g_n = (m[:, j] for m in (group.training, group.generated, group.training_n, group.generated_n))
    t_low, t_high = wilson_percent(t * t_n / 100, t_n, confidence)
    g_low, g_high = wilson_percent(g * g_n / 100, g_n, confidence)
    low, high = stats.difference_interval(t, t_low, t_high, g, g_low, g_high)
    direction = metrics.bias_direction(t)
    has_no_interval = (direction == 0) | group.paired
    columns: dict[str, Any] = {"model": group.model, "approach": group.approach, "occupation": group.occupations}
    shares = {"training": (t, t_low, t_high, t_n), "generated": (g, g_low, g_high, g_n)}
    for side, (percent, lower, upper, n) in shares.items():
        columns |= {f"percent_{side}": percent, f"n_{side}": n}
        columns |= {f"percent_{side}_ci_low": lower, f"percent_{side}_ci_high": upper}
    return pd.DataFrame(columns).assign(
        prompt=group.prompts[j],
        amplification=metrics.amplification(g, t),
        signed_change=metrics.directional_amplification(g, t),
        ci_low=np.where(has_no_interval, np.nan, np.where(direction > 0, low, -high)),
        ci_high=np.where(has_no_interval, np.nan, np.where(direction > 0, high, -low)),
        excluded=metrics.exclusion_reason(g, t),
    )


def mean_over_prompts(occupations: pd.DataFrame) -> pd.DataFrame:
    """Return both shares of each occupation averaged over prompts, as ``prompt`` = ``mean`` (Figure 9).

    An occupation that lacks a share for one of its approach's prompts has no mean.
    """
    keys, sides = ["model", "approach", "occupation"], ["percent_training", "percent_generated"]
    # Means over fewer prompts would not be comparable between occupations.
    mean = occupations.groupby(keys, sort=False)[sides].agg(pd.Series.mean, skipna=False).reset_index()
    limits = {f"{side}_ci_{end}": np.nan for side in sides for end in ("low", "high")}
    excluded = metrics.exclusion_reason(mean["percent_generated"], mean["percent_training"])
    return mean.assign(prompt="mean", excluded=excluded, **limits)


# -- between approaches (sections 5 and 6) -----------------------------------------------------------------------


def approach_change(
    shares: pd.DataFrame,
    pairs: pd.DataFrame | None = None,
    printed: pd.DataFrame | None = None,
    *,
    seed: int,
    replicates: int,
    confidence: float,
) -> pd.DataFrame:
    """Return the change in amplification from one approach to another: ``paradox_approach_change`` (sections 5 and 6).

    It is the difference of the estimates of :func:`amplification` for occupations that have all shares in both
    approaches. For its standard error, occupations are resampled (at most 2,000 times) with the shares of both, which
    takes shared selections into account. Where an approach has no interval of its own, the corrected columns are
    missing. Where shares of either are missing, printed averages are compared, with a reason.
    """
    bootstrap: dict[str, Any] = {"seed": seed, "replicates": replicates, "confidence": confidence}
    complete_groups = {(group.model, group.approach): group.complete() for group in groups(shares, pairs)}
    # Cached, because an approach is compared several times, mostly over the same occupations.
    estimates_by_key: dict[tuple, Estimates] = {}

    def estimate_group(group: Group) -> Estimates:
        key = group.model, group.approach, group.occupations
        if key not in estimates_by_key:
            estimates_by_key[key] = estimates(group, **bootstrap)
        return estimates_by_key[key]

    rows = [
        row
        for (model, approach), group in complete_groups.items()
        for baseline in _references(approach)
        if (model, baseline) in complete_groups
        for row in _change_rows(group, complete_groups[model, baseline], estimate_group, bootstrap)
    ]
    if printed is not None:
        rows += _printed_changes(printed, complete_groups.keys())
    return tables.make_table(rows, "paradox_approach_change")


def _references(approach: str) -> list[str]:
    return [name for name in ("naive", *_REFERENCES.get(approach, ())) if name != approach]


def _printed_changes(printed: pd.DataFrame, measured_keys: Collection[tuple[str, str]]) -> Iterator[list]:
    """Yield rows of printed averages, as :func:`_change_rows` of shares, where shares of one of the two are missing."""
    averages: dict[tuple[str, str], dict[str, float]] = {}
    for row in printed.to_dict("records"):
        averages.setdefault((row["model"], row["approach"]), {})[row["prompt"]] = row["amplification"]
    for (model, approach), ours in averages.items():
        for baseline in _references(approach):
            theirs = averages.get((model, baseline), {})
            if {(model, approach), (model, baseline)} <= set(measured_keys):
                continue
            for prompt, value in ours.items():
                # Captions as prompts have one value, next to the mean of the others.
                base = float(theirs.get("mean" if prompt == "captions" else prompt, theirs.get(prompt, math.nan)))
                if math.isfinite(base):
                    change, no_values = round(value - base, 2), [np.nan] * 6
                    numbers = [base, value, change, *no_values, 100 * change / base, np.nan, np.nan]
                    yield [model, approach, baseline, "paper", prompt, *numbers, NO_SHARES]


def _change_rows(
    group: Group, baseline: Group, estimate_group: Callable[[Group], Estimates], bootstrap: dict
) -> Iterator[list]:
    shared = set(group.occupations) & set(baseline.occupations)
    group, baseline = (g.select_groups(np.isin(g.occupations, list(shared))) for g in (group, baseline))
    # By prompt of the approach, the positions of the compared values of approach and baseline. Captions as prompts
    # have one value, which is compared with the mean over several prompts of a baseline.
    pairs: dict[str, tuple[int, int]] = {}
    if group.prompts == baseline.prompts:
        pairs = {name: (i, i) for i, name in enumerate(group.names)}
    elif len(group.prompts) == 1:
        pairs = {group.prompts[0]: (0, len(baseline.names) - 1)}
    if not group.occupations or not pairs:
        return
    first, second = estimate_group(group), estimate_group(baseline)
    reasons = [
        [first.reason[d, i] or second.reason[d, j] for i, j in pairs.values()] for d in range(len(metrics.DEFINITIONS))
    ]
    has_intervals = any("" in row for row in reasons)
    se, df = (
        _change_errors(group, baseline, list(pairs.values()), bootstrap)
        if has_intervals
        else (np.empty((0, 0)), np.nan)
    )
    quantile = scipy.stats.t.ppf((1 + bootstrap["confidence"]) / 2, df)
    for d, definition in enumerate(metrics.DEFINITIONS):
        for k, (prompt, (i, j)) in enumerate(pairs.items()):
            reason = reasons[d][k]
            uncorrected = _change_values(first.uncorrected[d, i], second.uncorrected[d, j])
            corrected, low, high, p = [np.nan] * 4, np.nan, np.nan, np.nan
            if not reason:
                corrected = _change_values(first.corrected[d, i], second.corrected[d, j])
                change = corrected[2]
                # No change exceeds the range of amplification.
                max_change = np.ptp(RANGES[definition])
                low, high = np.clip(change + np.array([-1, 1]) * quantile * se[d, k], -max_change, max_change)
                p = 2 * scipy.stats.t.sf(abs(change) / se[d, k], df)
                reason = "" if np.isfinite(p) else TOO_FEW
            n = min(first.n[d, i], second.n[d, j])
            head = [group.model, group.approach, baseline.approach, definition, prompt]
            yield [*head, *uncorrected[:3], *corrected[:3], low, high, p, uncorrected[3], corrected[3], n, reason]


def _change_values(value: float, base: float) -> list[float]:
    """Return the baseline's value, the approach's, the change in points and in percent of the baseline."""
    change = value - base
    return [base, value, change, 100 * change / base if base > 0 else np.nan]


def _change_errors(
    group: Group, baseline: Group, pairs: list[tuple[int, int]], bootstrap: dict
) -> tuple[np.ndarray, float]:
    """Return the standard error of each change, (definitions, pairs), and its degrees of freedom."""
    (counts_group, n_group), (counts_base, n_base) = group.counts(), baseline.counts()
    k = len(group.prompts)
    is_shared = group.prompts == baseline.prompts and np.array_equal(counts_group[:, -k:], counts_base[:, -k:])
    # Cells of both side by side; shared generated images are included once, with the baseline.
    n_cells = counts_group.shape[1] - k if is_shared else counts_group.shape[1]
    counts, n = np.hstack([counts_group[:, :n_cells], counts_base]), np.hstack([n_group[:, :n_cells], n_base])
    drawing = (
        stats.IndependentSampling(counts.shape[1]) if is_shared else [d for d in (group.drawing, baseline.drawing) if d]
    )

    def statistic(shares: np.ndarray) -> np.ndarray:
        group_shares, baseline_shares = shares[..., :n_cells], shares[..., n_cells:]
        if is_shared:
            group_shares = np.concatenate([group_shares, baseline_shares[..., -k:]], axis=-1)
        changes = []
        for definition in metrics.DEFINITIONS:
            first = expected(group, *group.split(group_shares), definition)
            second = expected(baseline, *baseline.split(baseline_shares), definition)
            changes += [first[..., i] - second[..., j] for i, j in pairs]
        return np.stack(changes, axis=-1)

    options = bootstrap | {"replicates": min(bootstrap["replicates"], _MOST_REPLICATES)}
    boot = stats.hierarchical_bootstrap(counts, n, statistic, drawing=drawing, **options)
    return np.reshape(boot.se, (-1, len(pairs))), boot.df


def t_tests(amplification: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return the paper's t-tests, and its statements about SD 1.4: ``paradox_t_tests`` (section 5.3, footnote 11).

    ``p_holm`` is adjusted over the prompts of an approach; ``rejected`` depends on ``p``, as in the paper.
    """
    statements = reference.load("paradox_text")
    statements = statements[statements["quantity"].str.startswith("t_test_rejected")]
    statements = statements.assign(
        prompt=statements["quantity"].str.extract(r"prompt_(\d)", expand=False).fillna("captions"),
        paper_rejected=statements["value"].map({1: "yes", 0: "no"}),
    )[["approach", "prompt", "paper_rejected"]]
    rows = amplification[amplification["definition"] == "paper"].merge(statements, on=["approach", "prompt"])
    rows["paper_rejected"] = rows["paper_rejected"].where(rows["model"] == MODEL, "")
    rejected = (rows["p"] < stats.significance(confidence)).map({True: "yes", False: "no"})
    rows["rejected"] = rejected.where(rows["p"].notna(), "")
    over_prompts = rows.assign(p_holm_guarded=guarded_p(rows)).groupby(["model", "approach"])
    rows["p_holm"], rows["p_holm_guarded"] = (over_prompts[p].transform(stats.adjust) for p in ("p", "p_holm_guarded"))
    return tables.make_table(rows, "paradox_t_tests")


# -- between prompts (section 8) ---------------------------------------------------------------------------------


def prompt_variation(shares: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return the variation of shares between prompts, and of noise alone: ``paradox_prompt_variation`` (section 8).

    ``sd_prompts`` is the population standard deviation over prompts, ``sd_noise`` what binomial noise alone would give
    around the pooled share; the chi-square test of equal shares is adjusted over occupations (Holm), as is
    ``p_direction_flips``: exact binomial tests of one prompt below one half and another above, of all prompts
    (Bonferroni). Approaches that share their generated images with the naive one have no rows of their own.

    Raises:
        MissingInputError: No model has shares for two prompts.
    """
    multi_prompt_groups = [g for g in groups(shares) if len(g.prompts) > 1]
    naive = {g.model for g in multi_prompt_groups if g.approach == "naive"}
    distinct_groups = [g for g in multi_prompt_groups if g.approach not in SELECTED[1:] or g.model not in naive]
    n_prompts = shares[shares["source"] == "generated"].groupby(["model", "approach"])["prompt"].nunique()
    if not (n_prompts > 1).any():
        raise MissingInputError("The source contains no model with shares for at least two prompts to compare.")
    printed = [reference.load(name).assign(model=model, approach="naive") for name, model in _SPREADS.items()]
    printed = pd.concat(printed).rename(columns={"sd_prompts": "paper_table_value"})
    rows = pd.concat([_group_variation(g, confidence) for g in distinct_groups] or [pd.DataFrame(columns=_SPREAD_KEYS)])
    rows = rows.merge(printed, "left", _SPREAD_KEYS, validate="one_to_one")
    return tables.make_table(rows, "paradox_prompt_variation")


def _group_variation(group: Group, confidence: float) -> pd.DataFrame:
    """Return the spread of each occupation, missing where none of its images was judged."""
    is_judged = np.isfinite(group.generated).any(axis=1)
    variation = _judged_variation(group.select_groups(is_judged), confidence).set_index("occupation")
    rows = variation.reindex(group.occupations).rename_axis("occupation").reset_index()
    rows = rows.assign(model=group.model, approach=group.approach)
    rows.loc[~is_judged, "n"], rows["reason"] = 0, rows["reason"].astype(object).where(is_judged, _NONE_JUDGED)
    return rows


def _judged_variation(group: Group, confidence: float) -> pd.DataFrame:
    g, n = group.generated, group.generated_n
    # A prompt without judged images has neither share nor noise.
    n_judged = np.where(np.isnan(g), np.nan, n).astype(float)
    pooled = np.nansum(g * n_judged, axis=1) / np.nansum(n_judged, axis=1) / 100
    # Mean population variance of k binomial shares around their own mean: (k-1)/k of the mean variance.
    k = np.isfinite(n_judged).sum(axis=1)
    noise = 100 * np.sqrt((k - 1) / k * np.nanmean((pooled * (1 - pooled))[:, None] / n_judged, axis=1))
    tests = []
    for percent, images in zip(g, n, strict=True):
        is_judged = ~np.isnan(percent) & (images > 0)
        female = np.round(percent[is_judged] * images[is_judged] / 100)
        tests.append(stats.chi_square(np.stack([female, images[is_judged] - female])))
    p = np.array([t.p if t.valid else np.nan for t in tests])
    flips = (np.nanmin(g, axis=1) < 50) & (np.nanmax(g, axis=1) > 50)
    low, high = wilson_percent(g * n / 100, n, confidence)
    is_certain = (high < 50).any(axis=1) & (low > 50).any(axis=1)
    female, total = np.rint(np.nan_to_num(g * n / 100)), np.nan_to_num(n)
    below, above = (scipy.stats.binom.cdf(count, total, 0.5) for count in (female, total - female))
    # Both tests must be significant, so the larger p counts.
    p_flips = np.minimum(1, k * np.maximum(below.min(axis=1), above.min(axis=1)))
    # One prompt must have no image perceived as female, and another one only such images.
    second_largest = np.sort(total, axis=1)[:, -2]
    return pd.DataFrame(
        {
            "model": group.model,
            "approach": group.approach,
            "occupation": group.occupations,
            "sd_prompts": np.nanstd(g, axis=1),
            "sd_noise": noise,
            "lowest": np.nanmin(g, axis=1),
            "highest": np.nanmax(g, axis=1),
            "direction_flips": np.where(is_certain, "beyond intervals", np.where(flips, "yes", "no")),
            "p": p,
            "p_holm": stats.adjust(p, "holm"),
            "p_direction_flips": stats.adjust(p_flips, "holm"),
            "min_attainable_p": np.minimum(1, k * 0.5**second_largest),
            "n": np.nansum(n, axis=1),
            "reason": ["" if t.valid else "An expected count of the chi-square test is below 5." for t in tests],
        }
    )
