"""What pairs mix, taken apart: position, contrast, the gap in the labour force, skin tone (beyond the paper)."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import norm
from scipy.stats import t as student

from biaslab.ground import tables
from biaslab.papers.paired.analysis.dependence import LISTS
from biaslab.papers.paired.analysis.means import by_cell, strata
from biaslab.papers.paired.analysis.people import SHARING, TWO, WIDER, added_by_images, fits, last_rounds

_SIDES = ("left", "right")
_FIFTHS = 5
# Images that a fifth needs for its interval to mean anything.
_LEAST = 8
_ONE_CLUSTER = "an interval needs two occupations of each list, and images that differ"


def _fair(people: pd.DataFrame, confidence: float, *, by: str = "") -> dict[str, float]:
    """Return by list and overall how far from 0 coin flips take a mean over identities of scores, in points.

    Every person is perceived as female with probability 1/2, independently of other images. What the people of one
    image have to do with each other is not known, so they are taken as fully dependent: no dependence gives more.
    With ``by``, a column of two values whose means are subtracted, of such a difference of scores.
    """
    size = people.groupby(["stereotype", "identity", *([by] if by else [])])["image_id"].transform("size")
    identities = people.groupby("stereotype")["identity"].transform("nunique")
    weight = 1 / (size * identities)
    parts = {s: weight[people["stereotype"] == s] for s in LISTS}
    parts["overall"] = weight / 2
    reach = norm.ppf((1 + confidence) / 2) * 100
    half = {s: reach * np.sqrt((w.groupby(people["image_id"]).sum() ** 2).sum()) for s, w in parts.items()}
    return half if people["stereotype"].nunique() == len(LISTS) else half | {"overall": np.nan}


def _fair_limits(half: float) -> dict[str, float]:
    return {"fair_low": max(-half, -100), "fair_high": min(half, 100)}


def position_effect(people: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return how much more often people on the left are perceived as female than the same on the right, in points."""
    people = last_rounds(people)
    people = people[people["setting"].isin(TWO) & people["position"].isin(_SIDES)]
    rows = []
    for cell, everyone in by_cell(people):
        group = everyone[everyone["gender"].isin(LISTS)]
        if group.empty:
            continue
        share = 100 * (group["gender"] == "female")
        keys = ["stereotype", "occupation", "identity", "position"]
        wide = share.groupby([group[k] for k in keys]).mean().unstack("position").reindex(columns=_SIDES)
        each = wide.dropna().reset_index()
        both = group[group["identity"].isin(each["identity"])]
        n = each["identity"].map(both["identity"].value_counts())
        each = each.assign(difference=each["left"] - each["right"], n=n)
        side = np.where(everyone["position"] == "left", 1.0, -1.0)
        seen = np.where(everyone["gender"].isin(LISTS), 100.0 * (everyone["gender"] == "female"), np.nan)
        images = added_by_images(everyone, seen, by=("identity", "position"), sign=side)
        # In points of shares, which are half of scores.
        fair = _fair(both, confidence, by="position")
        # As with scores, two people of one image may be each other's opposite: then both lists differ alike.
        for row, some in strata(
            each, "difference", confidence, -100, 100, effect="difference", images=images, two_people=True
        ):
            if len(some):
                # Weighted as the difference is, so that left minus right gives it.
                sides = some.groupby("stereotype")[list(_SIDES)].mean().mean()
                row |= sides.add_prefix("percent_female_").to_dict() | _fair_limits(
                    fair[row["stereotype"]] / 2
                )
            rows.append(cell | row)
    return tables.of(rows, "paired_position_effect")


def control_score(people: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return scores of occupations alone, beside an opposite or the same stereotype, and among three.

    ``contrast`` is the score beside the opposite stereotype minus each.
    """
    people = last_rounds(people)
    people = people[(people["aspect"] == "occupation") & people["setting"].isin(SHARING)]
    people = people.assign(score=fits(people))
    rows = []
    for model, frame in people.dropna(subset=["score"]).groupby("model", sort=False):
        pairs = people[(people["model"] == model) & (people["setting"] == "paired")]
        images = added_by_images(pairs.assign(identity=pairs["occupation"]), pairs["score"])
        each = frame.groupby(["setting", "stereotype", "occupation"], sort=False)["score"]
        scores = each.agg(["mean", "size"]).rename(columns={"mean": "score", "size": "n"}).reset_index()
        paired = scores[scores["setting"] == "paired"].set_index(["stereotype", "occupation"])["score"]
        for setting, group in scores.groupby("setting", sort=False):
            shared = SHARING[setting]
            who = pd.MultiIndex.from_frame(group[["stereotype", "occupation"]])
            in_pairs = paired.reindex(who).to_numpy(dtype=float)
            # What an identity adds to the mean of both lists: its whole value where the lists share images, else
            # half of it.
            group = group.assign(
                identity=group["occupation"],
                contrast=in_pairs - group["score"],
                contrast_effect=in_pairs - group["score"] / (1 if shared else 2),
            )
            fair = _fair(frame[frame["setting"] == setting], confidence)
            how = {"two_people": shared, "wider": WIDER.get(setting, {})}
            # Where identities of one list share images too, only the largest dependence is known.
            how_beside = how | {"effect": "contrast_effect", "images": None if setting in WIDER else images}
            beside = strata(group, "contrast", confidence, -200, 200, **how_beside)
            how |= {"effect": "score" if shared else "", "images": images if setting == "paired" else None}
            own = strata(group, "score", confidence, -100, 100, **how)
            for (row, _), (other, _) in zip(own, beside, strict=True):
                row |= {"model": model, "setting": setting}
                row |= _fair_limits(fair[row["stereotype"]]) if row["n_identities"] else {}
                if setting != "paired":
                    row["contrast"] = other["contrast"]
                    row |= {f"contrast_{c}": other[c] for c in ("ci_low", "ci_high", "p", "dependence")}
                rows.append(row)
    return tables.of(rows, "paired_control_score")


def labour_gap(people: pd.DataFrame, labour: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return how the score of pairs goes with the gap between the labour shares of their two occupations.

    ``labour`` is ``paired_labour_share``. Gaps are in points, intervals clustered by both occupations.
    """
    people = last_rounds(people)
    people = people[(people["aspect"] == "occupation") & people["setting"].isin(["paired", "faircritic"])]
    share = people["occupation"].map(labour.set_index("occupation")["percent_female_labour"]).astype(float)
    people = people.assign(score=fits, labour=share)
    rows = []
    for (model, setting), group in people.groupby(["model", "setting"], sort=False):
        wide = group.pivot(index="image_id", columns="stereotype", values=["score", "labour", "occupation"])
        pairs = pd.DataFrame(
            {
                "labour_gap": (wide["labour"]["female"] - wide["labour"]["male"]).astype(float),
                "score": wide["score"].astype(float).mean(axis=1, skipna=False),
                **{g: wide["occupation"][g] for g in LISTS},
            }
        ).dropna()
        cell = {"model": model, "setting": setting}
        rows.append(cell | _line(pairs, confidence))
        if len(pairs) < _FIFTHS * _LEAST:
            continue
        fifth = pd.qcut(pairs["labour_gap"].rank(method="first"), _FIFTHS, labels=False)
        for k, some in pairs.groupby(fifth):
            mean, *limits, _ = _clustered(some["score"], np.ones((len(some), 1)), some, confidence)[0]
            # Both people of an image fully dependent: an image has 100 or -100.
            row = cell | _fair_limits(norm.ppf((1 + confidence) / 2) * 100 / np.sqrt(len(some)))
            row |= {"group": f"fifth_{int(k) + 1}", "labour_gap": some["labour_gap"].mean(), "score": mean}
            row["score_ci_low"], row["score_ci_high"] = low, _ = np.clip(limits, -100, 100)
            row["n_occupations"] = some[[*LISTS]].stack().nunique()
            rows.append(row | {"n_images": len(some), "reason": "" if np.isfinite(low) else _ONE_CLUSTER})
    return tables.of(rows, "paired_labour_gap")


def _line(pairs: pd.DataFrame, confidence: float) -> dict:
    row = {"group": "line", "n_images": len(pairs), "n_occupations": pairs[[*LISTS]].stack().nunique()}
    if len(pairs) < 3 or pairs["labour_gap"].nunique() < 2:
        return row | {"reason": "a line needs three images with both labour shares, and gaps that differ"}
    design = np.column_stack([np.ones(len(pairs)), pairs["labour_gap"]])
    found = _clustered(pairs["score"], design, pairs, confidence)[1]
    row |= pairs[["labour_gap", "score"]].mean().to_dict()
    row |= dict(zip(("slope", "ci_low", "ci_high", "p"), found, strict=True))
    return row | {"reason": "" if np.isfinite(row["ci_low"]) else _ONE_CLUSTER}


def _clustered(y: pd.Series, design: np.ndarray, pairs: pd.DataFrame, confidence: float) -> list[tuple]:
    """Return estimate, limits and p of each column of ``design`` by least squares.

    Images that share an occupation depend on each other, so errors are clustered by both occupations (Cameron,
    Gelbach and Miller 2011), with as many degrees of freedom as the smaller number of clusters less one.
    """
    y, inverse = y.to_numpy(), np.linalg.inv(design.T @ design)
    estimate = inverse @ design.T @ y
    moments = design * (y - design @ estimate)[:, None]
    n, terms = design.shape
    codes = {g: pd.factorize(pairs[g])[0] for g in LISTS}
    counts = [len(np.unique(code)) for code in codes.values()]
    if min(counts) < 2 or n <= terms:
        return [(value, np.nan, np.nan, np.nan) for value in estimate]
    codes["both"] = pd.factorize(pd.MultiIndex.from_arrays(list(codes.values())))[0]
    variances = []
    for code in codes.values():
        sums = np.array([np.bincount(code, column) for column in moments.T])
        groups = sums.shape[1]
        correction = groups / (groups - 1) * (n - 1) / (n - terms)
        variances.append(np.diag(inverse @ sums @ sums.T @ inverse) * correction)
    female, male, both = variances
    # The two-way estimate can fall below either one-way one, and below 0, in a small sample.
    errors = np.sqrt(np.maximum.reduce([female + male - both, female, male]))
    # Where images do not differ the error is not known.
    errors = np.where(errors > 1e-9, errors, np.nan)
    half = student.ppf((1 + confidence) / 2, min(counts) - 1) * errors
    p = 2 * student.sf(np.abs(estimate / errors), min(counts) - 1)
    return list(zip(estimate, estimate - half, estimate + half, p, strict=True))


def skin_tone(people: pd.DataFrame, *, confidence: float) -> pd.DataFrame:
    """Return mean Monk tones by stereotype, and the difference between the two people of one image.

    In tones of the Monk scale (1–10). Intervals: clustered by both occupations.
    """
    people = last_rounds(people)
    rows = []
    for cell, group in by_cell(people[people["setting"].isin(TWO)]):
        wide = group.pivot(index="image_id", columns="stereotype", values=["skin_tone", "occupation"])
        tones = wide["skin_tone"].reindex(columns=["male", "female"]).astype(float)
        tones["difference"] = tones["male"] - tones["female"]
        for name in tones:
            some = tones[name].dropna()
            row = {**cell, "group": name, "n_images": len(some)}
            if some.empty:
                rows.append(row | {"reason": "no face has a tone"})
                continue
            # Images of the same occupations are no independent draws of what is said about occupations.
            whom = wide["occupation"].loc[some.index]
            row["n_occupations"] = whom.stack().nunique()
            value, low, high, p = _clustered(some, np.ones((len(some), 1)), whom, confidence)[0]
            row |= {"skin_tone": value, "ci_low": low, "ci_high": high}
            row["reason"] = "" if np.isfinite(low) else _ONE_CLUSTER
            rows.append(row | ({"p": p} if name == "difference" else {}))
    return tables.of(rows, "paired_skin_tone")
