"""Amplification of an occupation's share perceived as female, from training to generated images (sections 3 to 8).

Functions return the table that they name, in points and per cent. ``shares`` are rows of ``paradox_percent_female``,
``pairs`` of ``paradox_caption_pairs`` (without them approaches whose captions are the prompts have no interval; of
other images than the shares they raise an InputError), ``printed`` of ``paradox_printed_amplification``; ``seed`` and
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

OTHER_OCCUPATIONS = "No plain t-test: each prompt counts other occupations; the interval takes account of it."
_NOBODY = "None of its images was judged."
NO_SHARES = "No per-occupation shares are given, so there is no interval."
# Resamples of pairs of approaches: standard errors are then good to a few percent.
_MOST_REPLICATES = 2000
# With what each approach is compared, besides the naive one.
_REFERENCES = {
    "caption_prompts_no_indicators": ("caption_prompts",),
    "paraphrased": ("caption_prompts",),
    "paraphrased_no_indicators": ("caption_prompts_no_indicators",),
}
# The model of each of the arXiv version's tables.
_SPREAD_KEYS = ["model", "approach", "occupation"]
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
        computed = pd.concat([computed, _only_printed(printed, computed)], ignore_index=True)
        papers = printed.rename(columns={"amplification": "paper_table_value"}).assign(definition="paper")
        computed = computed.merge(papers, "left", ["model", "approach", "definition", "prompt"])
    return tables.make_table(computed, "paradox_amplification")


def _amplification_rows(group: Group, bootstrap: dict) -> Iterator[list]:
    found = estimates(group, **reference.draws(group.model, **bootstrap))
    for i, definition in enumerate(metrics.DEFINITIONS):
        for j, prompt in enumerate(group.names):
            kept = included_values(group, definition, prompt)
            test, reason = stats.one_sample_t(kept), found.reason[i, j]
            t, p = test.statistic, test.p
            if prompt == "mean" and len(kept) and not np.isclose(kept.mean(), found.uncorrected[i, j]):
                # The mean of prompts is then not the mean of any one set of occupations.
                t, p, reason = np.nan, np.nan, reason or OTHER_OCCUPATIONS
            yield [
                *(group.model, group.approach, definition, prompt),
                *(part[i, j] for part in (found.uncorrected, found.corrected, found.low, found.high)),
                *(len(kept), len(group.occupations) - len(kept)),
                *(part[i, j] for part in (found.t, found.p, found.noise)),
                *(t, p, group.images(prompt), reason),
            ]


def _only_printed(printed: pd.DataFrame, computed: pd.DataFrame) -> pd.DataFrame:
    """Return the printed averages of approaches without shares, and why there is no more of them."""
    keys = ["model", "approach"]
    have = pd.MultiIndex.from_frame(computed[keys])
    rows = printed[~pd.MultiIndex.from_frame(printed[keys]).isin(have)]
    single = rows["amplification"].where(rows["prompt"] != "mean")
    mean = single.groupby([rows[key] for key in keys]).transform("mean")
    # Four values printed to 0.01 average to within 0.01 of a mean that is rounded itself.
    apart = (rows["prompt"] == "mean") & ((rows["amplification"] - mean).abs() > 0.01)
    averages = " The printed prompts average " + mean.map("{:.3f}".format).astype(str) + "."
    return rows.assign(definition="paper", reason=NO_SHARES + averages.where(apart, ""))


def overall(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that represent all prompts of a model and approach: of their mean, or of the only one."""
    prompts = rows.groupby(["model", "approach"])["prompt"].transform("nunique")
    return rows[(rows["prompt"] == "mean") | (prompts == 1)]


def is_significant(rows: pd.DataFrame) -> pd.Series:
    """Return p (0–1) of rows of ``paradox_amplification``: 1 where more is subtracted for image noise than is left."""
    dominated = stats.correction_dominates(rows["amplification"], rows["amplification_corrected"])
    return rows["p"].mask(np.asarray(dominated), 1.0)


def baseline(amplification: pd.DataFrame) -> pd.DataFrame:
    """Return what the naive approach gives by the paper's definition and along the lean, of models that have both.

    With ``p_both``, p adjusted over the two definitions (Holm).
    """
    rows = amplification[(amplification["approach"] == "naive") & amplification["n_occupations"].notna()]
    rows = overall(rows[rows["definition"].isin(["paper", "signed"])]).dropna(subset="amplification")
    rows = rows[rows.groupby("model")["definition"].transform("nunique") == 2]
    p_both = rows.assign(p_both=is_significant(rows)).groupby("model")["p_both"].transform(stats.adjust)
    return rows.assign(p_both=p_both)


def occupation_amplification(shares: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return each occupation's shares, amplification and signed change: ``paradox_occupation_amplification`` (3.3).

    The interval is of the signed change along the training lean (Newcombe 1998, method 10, of two Wilson intervals);
    there is none where captions are the prompts, whose images are not independent.
    """
    cells = ((group, j) for group in groups(shares) for j in range(len(group.prompts)))
    frames = [_occupation_rows(group, j, confidence) for group, j in cells]
    return tables.join_tables(frames, "paradox_occupation_amplification")


def _occupation_rows(group: Group, j: int, confidence: float) -> pd.DataFrame:
    t, g, t_n, g_n = (m[:, j] for m in (group.training, group.generated, group.training_n, group.generated_n))
    t_low, t_high = wilson_percent(t * t_n / 100, t_n, confidence)
    g_low, g_high = wilson_percent(g * g_n / 100, g_n, confidence)
    low, high = stats.difference_interval(t, t_low, t_high, g, g_low, g_high)
    toward = metrics.bias_direction(t)
    none = (toward == 0) | group.paired
    about: dict[str, Any] = {"model": group.model, "approach": group.approach, "occupation": group.occupations}
    shares = {"training": (t, t_low, t_high, t_n), "generated": (g, g_low, g_high, g_n)}
    for side, (percent, lower, upper, n) in shares.items():
        about |= {f"percent_{side}": percent, f"n_{side}": n}
        about |= {f"percent_{side}_ci_low": lower, f"percent_{side}_ci_high": upper}
    return pd.DataFrame(about).assign(
        prompt=group.prompts[j],
        amplification=metrics.amplification(g, t),
        signed_change=metrics.directional_amplification(g, t),
        ci_low=np.where(none, np.nan, np.where(toward > 0, low, -high)),
        ci_high=np.where(none, np.nan, np.where(toward > 0, high, -low)),
        excluded=metrics.exclusion_reason(g, t),
    )


def mean_over_prompts(occupations: pd.DataFrame) -> pd.DataFrame:
    """Return both shares of each occupation averaged over prompts, as ``prompt`` = ``mean`` (Figure 9).

    An occupation without a share for one of its approach's prompts has none.
    """
    keys, sides = ["model", "approach", "occupation"], ["percent_training", "percent_generated"]
    # A mean over fewer prompts would be of other prompts than the next occupation's.
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
    """Return the change of amplification from one approach to another: ``paradox_approach_change`` (sections 5 and 6).

    The difference of the estimates that :func:`amplification` gives for the occupations that have every share with
    either approach. For its standard error occupations are resampled (at most 2,000 times) with both shares, so what
    selections share counts as shared. Where an approach has no interval of its own, the corrected columns are missing.
    Where shares of either are missing, printed averages are compared, with a reason.
    """
    bootstrap: dict[str, Any] = {"seed": seed, "replicates": replicates, "confidence": confidence}
    found = {(group.model, group.approach): group.complete() for group in groups(shares, pairs)}
    # An approach is compared several times, mostly over the same occupations.
    known: dict[tuple, Estimates] = {}

    def estimated(group: Group) -> Estimates:
        key = group.model, group.approach, group.occupations
        if key not in known:
            known[key] = estimates(group, **bootstrap)
        return known[key]

    rows = [
        row
        for (model, approach), group in found.items()
        for baseline in _references(approach)
        if (model, baseline) in found
        for row in _change_rows(group, found[model, baseline], estimated, bootstrap)
    ]
    if printed is not None:
        rows += _printed_changes(printed, found.keys())
    return tables.make_table(rows, "paradox_approach_change")


def _references(approach: str) -> list[str]:
    return [one for one in ("naive", *_REFERENCES.get(approach, ())) if one != approach]


def _printed_changes(printed: pd.DataFrame, measured: Collection[tuple[str, str]]) -> Iterator[list]:
    """Yield rows of printed averages, as :func:`_change_rows` of shares, where shares of one of the two are missing."""
    averages: dict[tuple[str, str], dict[str, float]] = {}
    for row in printed.to_dict("records"):
        averages.setdefault((row["model"], row["approach"]), {})[row["prompt"]] = row["amplification"]
    for (model, approach), ours in averages.items():
        for baseline in _references(approach):
            theirs = averages.get((model, baseline), {})
            if {(model, approach), (model, baseline)} <= set(measured):
                continue
            for prompt, value in ours.items():
                # Captions as prompts have one value, next to the mean of the others.
                base = float(theirs.get("mean" if prompt == "captions" else prompt, theirs.get(prompt, math.nan)))
                if math.isfinite(base):
                    change, missing = round(value - base, 2), [np.nan] * 6
                    numbers = [base, value, change, *missing, 100 * change / base, np.nan, np.nan]
                    yield [model, approach, baseline, "paper", prompt, *numbers, NO_SHARES]


def _change_rows(
    group: Group, baseline: Group, estimated: Callable[[Group], Estimates], bootstrap: dict
) -> Iterator[list]:
    shared = set(group.occupations) & set(baseline.occupations)
    group, baseline = (g.select_groups(np.isin(g.occupations, list(shared))) for g in (group, baseline))
    # Which values are compared, by the approach's prompt: its own and the baseline's place. Captions as prompts have
    # one value; a baseline with several prompts then counts with their mean.
    pairs: dict[str, tuple[int, int]] = {}
    if group.prompts == baseline.prompts:
        pairs = {name: (i, i) for i, name in enumerate(group.names)}
    elif len(group.prompts) == 1:
        pairs = {group.prompts[0]: (0, len(baseline.names) - 1)}
    if not group.occupations or not pairs:
        return
    first, second = estimated(group), estimated(baseline)
    reasons = [
        [first.reason[d, i] or second.reason[d, j] for i, j in pairs.values()] for d in range(len(metrics.DEFINITIONS))
    ]
    known = any("" in row for row in reasons)
    se, df = _between(group, baseline, list(pairs.values()), bootstrap) if known else (np.empty((0, 0)), np.nan)
    quantile = scipy.stats.t.ppf((1 + bootstrap["confidence"]) / 2, df)
    for d, definition in enumerate(metrics.DEFINITIONS):
        for k, (prompt, (i, j)) in enumerate(pairs.items()):
            reason = reasons[d][k]
            plain = _changed(first.uncorrected[d, i], second.uncorrected[d, j])
            corrected, low, high, p = [np.nan] * 4, np.nan, np.nan, np.nan
            if not reason:
                corrected = _changed(first.corrected[d, i], second.corrected[d, j])
                change = corrected[2]
                # No change is larger than the range of what changes.
                most = np.ptp(RANGES[definition])
                low, high = np.clip(change + np.array([-1, 1]) * quantile * se[d, k], -most, most)
                p = 2 * scipy.stats.t.sf(abs(change) / se[d, k], df)
                reason = "" if np.isfinite(p) else TOO_FEW
            n = min(first.n[d, i], second.n[d, j])
            head = [group.model, group.approach, baseline.approach, definition, prompt]
            yield [*head, *plain[:3], *corrected[:3], low, high, p, plain[3], corrected[3], n, reason]


def _changed(value: float, base: float) -> list[float]:
    """Return the baseline's value, the approach's, the change in points and in percent of the baseline."""
    change = value - base
    return [base, value, change, 100 * change / base if base > 0 else np.nan]


def _between(group: Group, baseline: Group, pairs: list[tuple[int, int]], bootstrap: dict) -> tuple[np.ndarray, float]:
    """Return the standard error of each change, (definitions, pairs), and its degrees of freedom."""
    (ours, ours_n), (theirs, theirs_n) = group.counts(), baseline.counts()
    k = len(group.prompts)
    drawn_once = group.prompts == baseline.prompts and np.array_equal(ours[:, -k:], theirs[:, -k:])
    # Cells of both side by side; where both have the same generated images, those stand once, with the baseline.
    own = ours.shape[1] - k if drawn_once else ours.shape[1]
    counts, n = np.hstack([ours[:, :own], theirs]), np.hstack([ours_n[:, :own], theirs_n])
    drawing = (
        stats.IndependentSampling(counts.shape[1])
        if drawn_once
        else [d for d in (group.drawing, baseline.drawing) if d]
    )

    def statistic(shares: np.ndarray) -> np.ndarray:
        sides, others = shares[..., :own], shares[..., own:]
        if drawn_once:
            sides = np.concatenate([sides, others[..., -k:]], axis=-1)
        changes = []
        for definition in metrics.DEFINITIONS:
            first = expected(group, *group.split(sides), definition)
            second = expected(baseline, *baseline.split(others), definition)
            changes += [first[..., i] - second[..., j] for i, j in pairs]
        return np.stack(changes, axis=-1)

    few = bootstrap | {"replicates": min(bootstrap["replicates"], _MOST_REPLICATES)}
    boot = stats.hierarchical_bootstrap(counts, n, statistic, drawing=drawing, **few)
    return np.reshape(boot.se, (-1, len(pairs))), boot.df


def t_tests(amplification: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return the paper's t-tests, next to what it says of SD 1.4: ``paradox_t_tests`` (section 5.3, footnote 11).

    ``p_holm`` is adjusted over the prompts of an approach; ``rejected`` goes by ``p``, as the paper does.
    """
    stated = reference.load("paradox_text")
    stated = stated[stated["quantity"].str.startswith("t_test_rejected")]
    stated = stated.assign(
        prompt=stated["quantity"].str.extract(r"prompt_(\d)", expand=False).fillna("captions"),
        paper_rejected=stated["value"].map({1: "yes", 0: "no"}),
    )[["approach", "prompt", "paper_rejected"]]
    rows = amplification[amplification["definition"] == "paper"].merge(stated, on=["approach", "prompt"])
    rows["paper_rejected"] = rows["paper_rejected"].where(rows["model"] == MODEL, "")
    rejected = (rows["p"] < stats.significance(confidence)).map({True: "yes", False: "no"})
    rows["rejected"] = rejected.where(rows["p"].notna(), "")
    over_prompts = rows.assign(p_holm_guarded=is_significant(rows)).groupby(["model", "approach"])
    rows["p_holm"], rows["p_holm_guarded"] = (over_prompts[p].transform(stats.adjust) for p in ("p", "p_holm_guarded"))
    return tables.make_table(rows, "paradox_t_tests")


# -- between prompts (section 8) ---------------------------------------------------------------------------------


def prompt_variation(shares: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return how much shares move between prompts, and whether noise explains it: ``paradox_prompt_variation`` (8).

    ``sd_prompts`` is the population standard deviation over prompts, ``sd_noise`` what binomial noise alone would give
    around the pooled share; the chi-square test of equal shares is adjusted over occupations (Holm), as is
    ``p_direction_flips``: exact binomial tests of one prompt below one half and another above, of all prompts
    (Bonferroni). Approaches that share their generated images with the naive one have no rows of their own.

    Raises:
        MissingInputError: No model was asked with two prompts.
    """
    several = [g for g in groups(shares) if len(g.prompts) > 1]
    naive = {g.model for g in several if g.approach == "naive"}
    own = [g for g in several if g.approach not in SELECTED[1:] or g.model not in naive]
    asked = shares[shares["source"] == "generated"].groupby(["model", "approach"])["prompt"].nunique()
    if not (asked > 1).any():
        raise MissingInputError("The source has no model with shares for two prompts or more to compare.")
    printed = [reference.load(name).assign(model=model, approach="naive") for name, model in _SPREADS.items()]
    printed = pd.concat(printed).rename(columns={"sd_prompts": "paper_table_value"})
    whole = pd.concat([_variation(g, confidence) for g in own] or [pd.DataFrame(columns=_SPREAD_KEYS)])
    whole = whole.merge(printed, "left", _SPREAD_KEYS, validate="one_to_one")
    return tables.make_table(whole, "paradox_prompt_variation")


def _variation(group: Group, confidence: float) -> pd.DataFrame:
    """Return the spread of each occupation; without a value where none of its images was judged."""
    judged = np.isfinite(group.generated).any(axis=1)
    known = _known_variation(group.select_groups(judged), confidence).set_index("occupation")
    whole = known.reindex(group.occupations).rename_axis("occupation").reset_index()
    whole = whole.assign(model=group.model, approach=group.approach)
    whole.loc[~judged, "n"], whole["reason"] = 0, whole["reason"].astype(object).where(judged, _NOBODY)
    return whole


def _known_variation(group: Group, confidence: float) -> pd.DataFrame:
    g, n = group.generated, group.generated_n
    # A prompt of whose images none is judged has no share and no noise.
    known = np.where(np.isnan(g), np.nan, n).astype(float)
    pooled = np.nansum(g * known, axis=1) / np.nansum(known, axis=1) / 100
    # Mean population variance of k binomial shares around their own mean: (k-1)/k of the mean variance.
    k = np.isfinite(known).sum(axis=1)
    noise = 100 * np.sqrt((k - 1) / k * np.nanmean((pooled * (1 - pooled))[:, None] / known, axis=1))
    tests = []
    for percent, images in zip(g, n, strict=True):
        there = ~np.isnan(percent) & (images > 0)
        female = np.round(percent[there] * images[there] / 100)
        tests.append(stats.chi_square(np.stack([female, images[there] - female])))
    p = np.array([t.p if t.valid else np.nan for t in tests])
    flips = (np.nanmin(g, axis=1) < 50) & (np.nanmax(g, axis=1) > 50)
    low, high = wilson_percent(g * n / 100, n, confidence)
    certain = (high < 50).any(axis=1) & (low > 50).any(axis=1)
    female, total = np.rint(np.nan_to_num(g * n / 100)), np.nan_to_num(n)
    below, above = (scipy.stats.binom.cdf(count, total, 0.5) for count in (female, total - female))
    # Both have to be there, so the larger p counts.
    lean = np.minimum(1, k * np.maximum(below.min(axis=1), above.min(axis=1)))
    return pd.DataFrame(
        {
            "model": group.model,
            "approach": group.approach,
            "occupation": group.occupations,
            "sd_prompts": np.nanstd(g, axis=1),
            "sd_noise": noise,
            "lowest": np.nanmin(g, axis=1),
            "highest": np.nanmax(g, axis=1),
            "direction_flips": np.where(certain, "beyond intervals", np.where(flips, "yes", "no")),
            "p": p,
            "p_holm": stats.adjust(p, "holm"),
            "p_direction_flips": stats.adjust(lean, "holm"),
            "n": np.nansum(n, axis=1),
            "reason": ["" if t.valid else "An expected count is below 5." for t in tests],
        }
    )
