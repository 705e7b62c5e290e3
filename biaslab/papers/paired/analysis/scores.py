"""Stereotype scores, direction of bias, role coupling, images that fit stereotypes, shares of the labour force."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binom

from biaslab import stats
from biaslab.metrics import biased_images as fitting_images
from biaslab.metrics import percent_female_from_stereotype_score, stereotype_score_from_percent
from biaslab.papers.paired import printed as paper
from biaslab.papers.paired.analysis import dependence, means
from biaslab.papers.paired.analysis.dependence import LISTS, deviations
from biaslab.papers.paired.analysis.means import CELL, by_cell, count_groups, ordered, pair_scores, strata
from biaslab.schema import tables

_NO_VALUES = "the paper prints no values per identity"


def stereotype_score(
    shares: pd.DataFrame, pairs: pd.DataFrame, printed: pd.DataFrame, *, confidence: float
) -> pd.DataFrame:
    """Return the Stereotype Score of each list and overall (paired 3.2.3, equation 1; Tables 1 and 2), with intervals.

    Every person counts the same: if people are missing, identities of more people have more weight. ``printed`` scores
    are added as a column, and as rows where nothing is computed.
    """
    printed_scores = printed[printed["quantity"] == "stereotype_score"].set_index([*CELL, "stereotype"])["value"]
    people = count_groups(shares)
    images, rows = pair_scores(pairs, people), []
    for cell, group in by_cell(people):
        names, is_paired = tuple(cell.values()), cell["setting"] != "single"
        terms = deviations(images.get(names), group, "score")
        shared: dict[str, Any] = {"effect": "score" if is_paired else "", "images": terms, "two_people": is_paired}
        for row, _ in strata(group, "score", confidence, -100, 100, over_people=True, **shared):
            printed_value = printed_scores.get((*names, row["stereotype"]), np.nan)
            rows.append(row | cell | {"evidence": "computed", "paper_table_value": printed_value})
    computed_keys = {(*(r[c] for c in CELL), r["stereotype"]) for r in rows}
    key: Any
    for key, value in printed_scores.items():
        if key not in computed_keys:
            row = dict(zip([*CELL, "stereotype"], key, strict=True))
            rows.append(row | {"score": value, "paper_table_value": value, "evidence": "printed", "reason": _NO_VALUES})
    return tables.make_table(rows, "paired_stereotype_score")


# -- identities --------------------------------------------------------------------------------------


def occupation_score(shares: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return the score of each occupation with its exact interval and test (paired 4.4, Table 12)."""
    return _identity_scores(shares, "occupation", confidence)


def power_score(shares: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return the score of each power role with its exact interval and test (paired 4.5, Table 13)."""
    return _identity_scores(shares, "power", confidence)


def _identity_scores(shares: pd.DataFrame, aspect: str, confidence: float) -> pd.DataFrame:
    frame = identities(shares, aspect)
    # Identities without judged people have no n, and so no numbers.
    n, people = frame["n"].where(frame["score"].notna()).to_numpy(), frame["n"].to_numpy()
    count = np.where(people > 0, frame["count"], 0).astype(int)
    frame["ci_low"], frame["ci_high"] = score_limits(
        stats.exact_interval(count, people, confidence), frame["stereotype"]
    )
    tail = (1 - confidence) / 2
    for end, q in (("fair_low", tail), ("fair_high", 1 - tail)):
        frame[end] = 200 * binom.ppf(q, n, 0.5) / n - 100
    # At one half the binomial is symmetric: both tails are twice the nearer one.
    frame["p"] = np.minimum(1, 2 * binom.cdf(np.minimum(count, n - count), n, 0.5))
    frame["min_attainable_p"] = stats.min_binomial_p(people)
    return tables.make_table(with_corrected_p(frame), f"paired_{aspect}_score")


def identities(shares: pd.DataFrame, aspect: str) -> pd.DataFrame:
    """Return one aspect's identities with their scores; without judged people ``n`` is 0, with a reason."""
    frame = count_groups(shares)
    frame = frame[frame["aspect"] == aspect].reset_index(drop=True)
    has_score = frame["score"].notna()
    reason = frame["reason"].where(frame["reason"] != "", "no person was classified")
    return frame.assign(n=frame["n"].where(has_score, 0).astype(int), reason=reason.where(~has_score, ""))


def score_limits(shares: stats.Interval, stereotype: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Return limits of scores from limits of the shares of women, 0–1."""
    ends = [stereotype_score_from_percent(100 * end, stereotype) for end in shares]
    return np.fmin(*ends), np.fmax(*ends)


def with_corrected_p(frame: pd.DataFrame) -> pd.DataFrame:
    """Add p, and the smallest attainable p, corrected for the identities of the same model, aspect and setting."""
    return stats.adjust_families(stats.adjust_families(frame, CELL), CELL, "min_attainable_p")


def percent_female_mean(
    shares: pd.DataFrame, pairs: pd.DataFrame, scores: pd.DataFrame, *, confidence: float
) -> pd.DataFrame:
    """Return the share perceived as female in each list and over both, whatever the stereotype.

    ``t`` and ``p`` are tests of one half. Printed ``scores`` of ``paired_stereotype_score`` are turned into shares.
    """
    people = count_groups(shares)
    # The change in the share of women per point of an identity's score.
    people["slope"] = np.where(people["stereotype"] == "female", 0.5, -0.5)
    people["away"] = people["percent_female"] - 50
    images, rows = pair_scores(pairs, people), []
    for cell, group in by_cell(people):
        contributions = deviations(images.get(tuple(cell.values())), group, "score", "slope")
        is_paired = cell["setting"] != "single"
        estimates = strata(group, "away", confidence, -50, 50, images=contributions, two_people=is_paired)
        for row, _ in estimates:
            limits = {"percent_female": row["away"]} | {end: row[end] for end in ("ci_low", "ci_high")}
            row |= {name: 50 + value for name, value in limits.items()} | {"evidence": "computed"}
            rows.append(cell | row)
    for cell, group in by_cell(scores[scores["evidence"] == "printed"]):
        score = group.set_index("stereotype")["score"]
        if not set(LISTS) <= set(score.index):
            continue
        percent = {s: float(percent_female_from_stereotype_score(score[s], s)) for s in LISTS}
        for stratum, value in (percent | {"overall": sum(percent.values()) / 2}).items():
            row = {**cell, "stereotype": stratum, "percent_female": value}
            rows.append(row | {"evidence": "printed", "reason": _NO_VALUES})
    return tables.make_table(rows, "paired_percent_female_mean")


# -- dependence between the two roles of an occupation --------------------------------------------------


def role_coupling(shares: pd.DataFrame, pairs: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return the correlation of scores of the high- and the low-power role of an occupation (paired 4.5)."""
    frame, rows = identities(shares, "power"), []
    pairs_by_cell = dict(list(pairs.groupby(CELL, sort=False)))
    occupations = dict(zip(frame["identity"], frame["occupation"], strict=True))
    for (model, setting), group in frame.groupby(["model", "setting"], sort=False):
        grouped = group.dropna(subset=["score"]).groupby(["occupation", "stereotype"])
        by_role: Any = grouped.agg(score=("score", "mean"), n=("n", "sum")).unstack("stereotype")
        by_role = by_role.reindex(columns=pd.MultiIndex.from_product([["score", "n"], LISTS]))
        wide = by_role.dropna()
        low, high = (wide["score"][s].to_numpy() for s in LISTS)
        people = wide["n"].to_numpy()
        row: dict[str, Any] = {"model": model, "setting": setting, "n": len(wide)}
        r = stats.pearson_r(low, high, confidence)
        # Where every image shows one woman and one man, r is 1 for any occupations.
        is_informative = abs(r.r) < 1 - 1e-9
        row |= {"r": r.r, "p": r.p} | ({"ci_low": r.ci_low, "ci_high": r.ci_high} if is_informative else {})
        if not is_informative:
            row["reason"] = "an interval requires three occupations, and roles with different scores"
        elif not isfinite(r.ci_low):
            row["reason"] = FEW_OCCUPATIONS
        if not isfinite(r.r):
            row["reason"] = "a correlation requires three occupations with different scores"
        male, female = (2 * by_role["score"][s].dropna() for s in ("male", "female"))
        gap = means.mean_over_roles(male, female, confidence, sign=-1)
        row |= {"n_same_score": int(np.isclose(low, high).sum()), "difference": gap.value}
        row |= {f"difference_{k}": getattr(gap, k) for k in ("ci_low", "ci_high", "p")}
        # SS_high - SS_low = (100 - 2 F_high) - (2 F_low - 100) = 4 (50 - F), F the mean of both.
        for suffix, end in (("", ""), ("_ci_low", "_ci_high"), ("_ci_high", "_ci_low")):
            row[f"percent_female{suffix}"] = 50 - row[f"difference{end}"] / 4
        images = pairs_by_cell.get((model, "power", setting))
        if images is not None:
            row |= _same_gender(images, occupations, confidence)
        elif setting != "single" and len(wide) and (people[:, 0] == people[:, 1]).all():
            # An image in which one person fits and the other does not shows one gender twice.
            row["n_same_gender_min"] = int(np.rint(np.abs(high - low) * people[:, 0] / 200).sum())
            row["n_images"] = int(people[:, 0].sum())
        rows.append(row)
    return tables.make_table(rows, "paired_role_coupling")


def _same_gender(images: pd.DataFrame, occupations: dict[str, str], confidence: float) -> dict[str, float | str]:
    """Return the number of images with two people of one perceived gender, and its excess over independent people.

    In images of the same two identities in the same order, the excess of the share with one gender twice is twice the
    covariance of the two people. Its estimate is unbiased for two or more images.
    """
    classified = images[images["female_label"].isin(LISTS) & images["male_label"].isin(LISTS)]
    if classified.empty:
        return {"n_images": 0}
    is_same = classified["female_label"] == classified["male_label"]
    counts: dict[str, Any] = {"n_images": len(classified), "n_same_gender": int(is_same.sum())}
    counts["percent_same_gender"] = 100 * is_same.mean()
    image_occupations = shown_occupations(classified, occupations)
    if image_occupations is None:
        return counts | {"same_gender_reason": NO_IDENTITIES}
    share = share_of_images(is_same.to_numpy(), image_occupations, confidence)
    counts |= {f"percent_same_gender_{c}": share[c] for c in ("ci_low", "ci_high")}
    order = classified["female_position"] if "female_position" in classified else pd.Series("", classified.index)
    keys = [classified["female_identity"], classified["male_identity"], order]
    is_female = (classified[["female_label", "male_label"]] == "female").astype(float)
    n = is_female.groupby(keys)["female_label"].transform("size")
    deviation = is_female - is_female.groupby(keys).transform("mean")
    # A single image has no information about the dependence of its two people.
    is_repeated = n > 1
    if not is_repeated.any():
        reason = "the null expectation requires two images of the same two identities in the same order"
        return counts | {"same_gender_reason": reason}
    excess_terms = (200 * deviation.prod(axis=1) * n / (n - 1))[is_repeated]
    mean = float(excess_terms.mean())
    clusters = (excess_terms - mean).groupby(image_occupations["female"][is_repeated]).sum() / len(excess_terms)
    excess = means.t_mean(mean, *stats.clustered_error(clusters), confidence)
    counts["percent_same_gender_chance"] = counts["percent_same_gender"] - mean
    counts |= (
        {}
        if isfinite(excess.ci_low)
        else {"same_gender_reason": excess.reason or "an interval requires two occupations"}
    )
    limits = {"ci_low": excess.ci_low, "ci_high": excess.ci_high, "p": excess.p}
    return counts | {"same_gender_excess": mean} | {f"same_gender_excess_{k}": v for k, v in limits.items()}


FEW_OCCUPATIONS = "the interval of a correlation requires four occupations"
NO_IDENTITIES = "an interval requires the identities of both people in each image"


def shown_occupations(images: pd.DataFrame, occupations: dict[str, str]) -> pd.DataFrame | None:
    """Return the occupations of both people of each image; None where the images do not name their identities."""
    names = [f"{s}_identity" for s in LISTS]
    if not set(names) <= set(images.columns) or (images[names] == "").any(axis=None):
        return None
    return pd.DataFrame({s: images[n].map(lambda i: occupations.get(i, i)) for s, n in zip(LISTS, names, strict=True)})


def share_of_images(event: np.ndarray, occupations: pd.DataFrame, confidence: float) -> dict:
    """Return the interval (%) of the share of images with ``event``; images of an occupation are a cluster."""
    share = float(event.mean())
    terms = pd.Series((event - share) / len(event), occupations.index)
    rows, columns = (terms.groupby(occupations[s]).sum() for s in LISTS)
    clusters = min(len(rows), len(columns))
    if (occupations["female"] == occupations["male"]).all():
        error, label = stats.clustered_error(rows), dependence.BY_OCCUPATION
    else:
        cells = terms.groupby([occupations[s] for s in LISTS]).sum().unstack()
        error, label = stats.crossed_error(rows, columns, cells), dependence.ESTIMATED
    low, high = stats.clustered_share_interval(share, error, clusters, confidence)
    return {"ci_low": 100 * low, "ci_high": 100 * high, "dependence": label if isfinite(low) else ""}


# -- images of two people: counted, or between the limits that shares per identity allow ----------------


def biased_images(
    shares: pd.DataFrame, pairs: pd.DataFrame, scores: pd.DataFrame, *, confidence: float
) -> pd.DataFrame:
    """Return the share of images in which the person, both people, or at least one fits (paired 4.4.1, Figure 6).

    Images are counted in ``pairs``, or bounded by what the shares per identity allow (Fréchet). ``scores`` of
    ``paired_stereotype_score`` are for images of one person.
    """
    pairs_by_cell = dict(list(pairs.groupby(CELL, sort=False)))
    overall = scores[(scores["stereotype"] == "overall") & (scores["evidence"] == "computed")].set_index(CELL)
    rows = []
    for cell, group in by_cell(count_groups(shares)):
        names = tuple(cell.values())
        if cell["setting"] == "single":
            overall_row = overall.loc[[names]].iloc[0]
            row = cell | {"measure": "person", "percent": (100 + overall_row["score"]) / 2, "evidence": "counted"}
            row |= {c: (100 + overall_row[c]) / 2 for c in ("ci_low", "ci_high")}
            rows.append(row | {c: overall_row[c] for c in ("n", "dependence", "reason")})
        # The pairs of the top five are a subset of the counted pairs.
        elif names not in pairs_by_cell and not (names[2] == "paired_top5" and (*names[:2], "paired") in pairs_by_cell):
            rows += [cell | row for row in _bound_fits(group, cell["aspect"])]
    occupations = dict(zip(shares["identity"], shares["occupation"], strict=True))
    for names, images in pairs_by_cell.items():
        cell = dict(zip(CELL, names, strict=True))
        rows += [cell | row for row in _count_fits(images, occupations, confidence)]
    return ordered(tables.make_table(rows, "paired_biased_images"))


def _bound_fits(group: pd.DataFrame, aspect: str) -> list[dict]:
    """Return the limits of "both fit" and "at least one fits" that the shares per identity allow.

    Where both people of an image have the same occupation (``power``), limits are computed per occupation and added.
    """
    scored = group.dropna(subset=["score"])
    scored = scored.assign(fits=(scored["n"] + scored["score"] * scored["n"] / 100) / 2)
    block = scored["occupation"] if aspect == "power" else pd.Series("", scored.index)
    totals = scored.groupby([block.rename("block"), "stereotype"])[["fits", "n"]].sum()
    fits, n = (totals[c].round().unstack("stereotype").reindex(columns=LISTS) for c in ("fits", "n"))
    if scored.empty or (n["female"] != n["male"]).any():
        reason = "the two lists do not have the same number of people"
        return [{"measure": m, "evidence": "bounds", "reason": reason} for m in ("both", "any")]
    a, b, images = fits["female"], fits["male"], n["female"]
    ends = {
        "both": ((a + b - images).clip(lower=0), np.minimum(a, b)),
        "any": (np.maximum(a, b), np.minimum(a + b, images)),
    }
    total, reason = images.sum(), "the source does not give the perceived gender of both people in an image"
    rows = []
    for measure, limits in ends.items():
        lower, upper = (100 * limit.sum() / total for limit in limits)
        row = {"measure": measure, "percent_lower_bound": lower, "percent_upper_bound": upper}
        rows.append(row | {"n": int(total), "evidence": "bounds", "reason": reason})
    return rows


def _count_fits(images: pd.DataFrame, occupations: dict[str, str], confidence: float) -> list[dict]:
    labels = {s: images[f"{s}_label"] for s in LISTS}
    fits = [label.eq(s).astype(float).where(label.isin(LISTS)).to_numpy() for s, label in labels.items()]
    counts = fitting_images(*fits)
    is_classified = np.isfinite(fits[0] + fits[1])
    image_occupations = shown_occupations(images, occupations)
    events = {"both": fits[0] * fits[1] == 1, "any": fits[0] + fits[1] >= 1}
    missing, total = counts.n_missing, counts.n + counts.n_missing
    reason = f"in {missing} of {total} images, not both people are classified" if missing else ""
    if image_occupations is None:
        reason = "; ".join(filter(None, (reason, NO_IDENTITIES)))
    rows = []
    for measure, percent in (("both", counts.percent_both), ("any", counts.percent_any)):
        row = {"measure": measure, "percent": percent, "n": counts.n, "evidence": "counted", "reason": reason}
        if image_occupations is not None and counts.n:
            row |= share_of_images(events[measure][is_classified], image_occupations[is_classified], confidence)
        rows.append(row)
    return rows


# -- generated shares next to the labour force ----------------------------------------------------------


def labour_comparison(shares: pd.DataFrame, labour: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return each occupation's generated share next to that of ``paired_labour_share`` (Table 11).

    Without rows of ``labour`` it is compared with the printed shares, which do not depend on a model.
    """
    frame = identities(shares, "occupation")
    labour = labour if len(labour) else paper.labour_share()
    labour_share = frame["occupation"].map(labour.set_index("occupation")["percent_female_labour"]).to_numpy(float)
    generated, n = frame["percent_female"].to_numpy(), frame["n"].to_numpy()
    limits = stats.percent_columns(np.rint(np.nan_to_num(generated) * n / 100).astype(int), n, confidence)
    reason = np.where(np.isnan(labour_share), "no share of women in the labour force is given", "")
    reason = np.where(frame["reason"] != "", frame["reason"], reason)
    limits = {end: limits[end] for end in ("ci_low", "ci_high")}
    frame = frame.assign(**limits, percent_female_labour=labour_share, reason=reason)
    return tables.make_table(frame, "paired_labour_comparison")


def labour_correlation(comparison: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return Pearson's r of ``paired_labour_comparison`` over all occupations, and within each list."""
    rows = []
    complete = comparison.dropna(subset=["percent_female", "percent_female_labour"])
    for (model, setting), group in complete.groupby(["model", "setting"], sort=False):
        for stratum in ("overall", *LISTS):
            part = group if stratum == "overall" else group[group["stereotype"] == stratum]
            r = stats.pearson_r(part["percent_female_labour"], part["percent_female"], confidence)
            reason = "a correlation requires three occupations with different shares"
            reason = FEW_OCCUPATIONS if isfinite(r.r) and not isfinite(r.ci_low) else reason
            row = {"model": model, "setting": setting, "stereotype": stratum, **r._asdict()}
            rows.append(row | {"reason": "" if isfinite(r.ci_low) else reason})
    return tables.make_table(rows, "paired_labour_correlation")
