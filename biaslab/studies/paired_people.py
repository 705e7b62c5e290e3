"""Tables of the Paired Stereotype Test that take the people of each image: failures, positions, controls, skin tone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.stats import t as student

from biaslab import stats
from biaslab.schemas.paired_people import OUTCOMES
from biaslab.studies.paired import _CELL, LISTS, _by_cell, _frame, _mean, _strata

if TYPE_CHECKING:
    from biaslab.study import Study

_SIDES = ("left", "right")
# An image has the outcome of its people that comes last here.
_WORST = {outcome: rank for rank, outcome in enumerate(OUTCOMES)}
_FAILED = ("no_face", "one_face", "too_many_faces", "overlapping", "face_too_small", "unreadable", "blocked")
_FIFTHS = 5


def _people(study: Study) -> pd.DataFrame:
    """Return everyone whom images were to show; of FairCritic the last round."""
    frame = study.measured_or_empty("paired_people")
    mitigated = frame["setting"] == "faircritic"
    return frame[~mitigated | (frame["round"] == frame.loc[mitigated, "round"].max())].reset_index(drop=True)


def _fits(people: pd.DataFrame) -> np.ndarray:
    """Return 100 for people who fit their stereotype, -100 for those who do not, NaN for those not judged."""
    known = people["gender"].isin(LISTS)
    return np.where(known, np.where(people["gender"] == people["stereotype"], 100.0, -100.0), np.nan)


# -- failures ----------------------------------------------------------------------------------------


def _images(people: pd.DataFrame) -> pd.DataFrame:
    """Return one row per image: cell, its worst outcome, and whether people stand in the order asked for."""
    rank = people["outcome"].map(_WORST)
    each = people.assign(rank=rank).groupby([*_CELL, "image_id"], sort=False)
    found = each.agg(rank=("rank", "max"), order=("role_order", "first"), people=("rank", "size"))
    found["outcome"] = found["rank"].map(dict(enumerate(OUTCOMES)))
    return found.reset_index()


def _outcomes(study: Study) -> pd.DataFrame:
    rows = []
    for cell, group in _by_cell(_images(_people(study))):
        counts = group["outcome"].value_counts().reindex(OUTCOMES, fill_value=0)
        low, high = stats.wilson_interval(
            counts.to_numpy(), np.full(len(counts), len(group)), study.confidence
        )
        for outcome, n, a, b in zip(OUTCOMES, counts, low, high, strict=True):
            row = {**cell, "outcome": outcome, "n": int(n), "n_images": len(group)}
            rows.append(row | {"percent": 100 * n / len(group), "ci_low": 100 * a, "ci_high": 100 * b})
    return _frame(rows, "paired_outcomes")


def _valid_images(study: Study) -> pd.DataFrame:
    images = _images(_people(study))
    counted = {}
    for cell, group in _by_cell(images):
        found, judged = ~group["outcome"].isin(_FAILED), group["outcome"] == "judged"
        looked = found & (group["order"] != "")
        right = group["order"] == "right"
        valid = judged & (right | (group["order"] == ""))
        counted[tuple(cell.values())] = {
            "people": (int(found.sum()), len(group)),
            "judged": (int(judged.sum()), len(group)),
            "order": (int((looked & right).sum()), int(looked.sum())),
            "valid": (int(valid.sum()), len(group)),
        }
    rows = []
    for names, measures in counted.items():
        before = counted.get((*names[:2], "paired"))
        for measure, (n, of) in measures.items():
            row = dict(zip(_CELL, names, strict=True)) | {"measure": measure, "n_images": of}
            if not of:
                rows.append(row | {"reason": "no image has an order to look for"})
                continue
            low, high = (float(end) for end in stats.wilson_interval(n, of, study.confidence))
            row |= {"percent": 100 * n / of, "ci_low": 100 * low, "ci_high": 100 * high, "reason": ""}
            if before and before[measure][1] and names[2] in ("intervention", "faircritic"):
                k, total = before[measure]
                ends = stats.wilson_interval(k, total, study.confidence)
                limits = stats.difference_interval(k / total, *ends, n / of, low, high)
                row["change"] = 100 * (n / of - k / total)
                row["change_ci_low"], row["change_ci_high"] = (100 * float(v) for v in limits)
            rows.append(row)
    return _frame(rows, "paired_valid_images")


# -- positions and controls ----------------------------------------------------------------------------


def _position_effect(study: Study) -> pd.DataFrame:
    people = _people(study)
    people = people[people["setting"].isin(["paired", "intervention", "faircritic"])]
    known = people[people["gender"].isin(LISTS) & people["position"].isin(_SIDES)]
    rows = []
    for cell, group in _by_cell(known):
        share = 100 * (group["gender"] == "female")
        keys = ["stereotype", "occupation", "identity", "position"]
        wide = share.groupby([group[k] for k in keys]).mean().unstack("position").reindex(columns=_SIDES)
        each = wide.dropna().reset_index()
        each["difference"] = each["left"] - each["right"]
        people_of = group["stereotype"].value_counts()
        for stratum, mean, some in _strata(each, "difference", study.confidence, -100, 100):
            row = {**cell, "stereotype": stratum, **mean._asdict(), "difference": mean.value}
            row |= {f"percent_female_{side}": float(some[side].mean()) for side in _SIDES if len(some)}
            row["n"] = int(people_of.sum() if stratum == "overall" else people_of.get(stratum, 0))
            rows.append(row)
    return _frame(rows, "paired_position_effect")


def _control_score(study: Study) -> pd.DataFrame:
    people = _people(study)
    people = people[(people["aspect"] == "occupation")]
    people = people[people["setting"].isin(["single", "paired", "alike", "same"])].assign(score=_fits)
    known = people.dropna(subset=["score"])
    rows = []
    for model, frame in known.groupby("model", sort=False):
        each = frame.groupby(["setting", "stereotype", "occupation"], sort=False)["score"]
        scores = each.agg(["mean", "size"]).rename(columns={"mean": "score", "size": "n"}).reset_index()
        paired = scores[scores["setting"] == "paired"].set_index(["stereotype", "occupation"])["score"]
        for setting, group in scores.groupby("setting", sort=False):
            against = [
                paired.get(key, np.nan) for key in zip(group["stereotype"], group["occupation"], strict=True)
            ]
            group = group.assign(contrast=np.array(against, dtype=float) - group["score"])
            contrasts = {s: mean for s, mean, _ in _strata(group, "contrast", study.confidence, -200, 200)}
            for stratum, mean, some in _strata(group, "score", study.confidence, -100, 100):
                row = {"model": model, "setting": setting, "stereotype": stratum, **mean._asdict()}
                row |= {"score": mean.value, "n": int(some["n"].sum())}
                if setting != "paired":
                    other = contrasts[stratum]
                    row |= {"contrast": other.value, "contrast_ci_low": other.ci_low}
                    row["contrast_ci_high"] = other.ci_high
                rows.append(row)
    return _frame(rows, "paired_control_score")


# -- labour ------------------------------------------------------------------------------------------


def _labour_gap(study: Study) -> pd.DataFrame:
    people = _people(study)
    people = people[(people["aspect"] == "occupation") & people["setting"].isin(["paired", "faircritic"])]
    labour = study.table("paired_labour_share").set_index("occupation")["percent_female"]
    people = people.assign(score=_fits, labour=people["occupation"].map(labour).astype(float))
    rows = []
    for (model, setting), group in people.groupby(["model", "setting"], sort=False):
        wide = group.pivot(index="image_id", columns="stereotype", values=["score", "labour", "occupation"])
        pairs = pd.DataFrame(
            {
                "gap": (wide["labour"]["female"] - wide["labour"]["male"]).astype(float),
                "score": wide["score"].astype(float).mean(axis=1, skipna=False),
                **{g: wide["occupation"][g] for g in LISTS},
            }
        ).dropna()
        cell = {"model": model, "setting": setting}
        rows.append(cell | _line(pairs, study.confidence))
        if len(pairs) < _FIFTHS * 2:
            continue
        fifth = pd.qcut(pairs["gap"].rank(method="first"), _FIFTHS, labels=False)
        for k, some in pairs.groupby(fifth):
            mean = _clustered(some["score"].to_numpy(), np.ones((len(some), 1)), some, study.confidence)[0]
            row = {"group": f"fifth_{int(k) + 1}", "gap": some["gap"].mean(), "score": mean[0]}
            rows.append(cell | row | {"ci_low": mean[1], "ci_high": mean[2], "n_images": len(some)})
    return _frame(rows, "paired_labour_gap")


def _line(pairs: pd.DataFrame, confidence: float) -> dict:
    row = {"group": "line", "n_images": len(pairs)}
    if len(pairs) < 3 or pairs["gap"].nunique() < 2:
        return row | {"reason": "a line needs three images with both labour shares, and gaps that differ"}
    gap = pairs["gap"].to_numpy()
    design = np.column_stack([np.ones(len(gap)), gap])
    at_0, slope = _clustered(pairs["score"].to_numpy(), design, pairs, confidence)
    row |= {"gap": float(gap.mean()), "score": at_0[0], "slope": slope[0], "ci_low": slope[1]}
    return row | {"ci_high": slope[2], "p": slope[3]}


def _clustered(y: np.ndarray, design: np.ndarray, pairs: pd.DataFrame, confidence: float) -> list[tuple]:
    """Return estimate, limits and p of each column of ``design`` by least squares.

    Images that share an occupation depend on each other, so errors are clustered by both occupations (Cameron,
    Gelbach and Miller 2011), with as many degrees of freedom as the smaller number of clusters less one.
    """
    import statsmodels.api as sm

    groups = np.column_stack([pd.factorize(pairs[g])[0] for g in LISTS])
    fitted = sm.OLS(y, design).fit(cov_type="cluster", cov_kwds={"groups": groups})
    df = max(1, min(len(np.unique(column)) for column in groups.T) - 1)
    # A two-way estimate need not be positive in a small sample.
    errors = np.sqrt(np.maximum(np.diag(fitted.cov_params()), 0))
    half = student.ppf((1 + confidence) / 2, df) * errors
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2 * student.sf(np.abs(fitted.params / errors), df)
    return list(zip(fitted.params, fitted.params - half, fitted.params + half, p, strict=True))


# -- skin tone ---------------------------------------------------------------------------------------


def _skin_tone(study: Study) -> pd.DataFrame:
    people = _people(study)
    people = people[people["setting"].isin(["paired", "intervention", "faircritic"])]
    rows = []
    for cell, group in _by_cell(people):
        wide = group.pivot(index="image_id", columns="stereotype", values="skin_tone")
        wide = wide.reindex(columns=["male", "female"])
        values = {name: wide[name].dropna() for name in wide}
        values["difference"] = (wide["male"] - wide["female"]).dropna()
        for name, some in values.items():
            mean = _mean(some.to_numpy(), study.confidence)
            row = {**cell, "group": name, "skin_tone": mean.value, "ci_low": mean.ci_low}
            row |= {"ci_high": mean.ci_high, "n_images": len(some)}
            few = (
                "no face has a tone"
                if not len(some)
                else "an interval needs two images"
                if len(some) < 2
                else ""
            )
            rows.append(row | {"reason": few} | ({"p": mean.p} if name == "difference" else {}))
    return _frame(rows, "paired_skin_tone")


# -- truth -------------------------------------------------------------------------------------------


def _truth(study: Study) -> pd.DataFrame:
    frame = study.measured_or_empty("paired_renders")
    rows = []
    for judge, people in frame.groupby("judge", sort=False):
        found = ~people["outcome"].isin(_FAILED)
        judged = people["outcome"] == "judged"
        right = people["gender"] == people["truth_gender"]
        clear = people["ambiguous"] == "no"
        seen = people["skin_tone"].notna()
        images = people[found].drop_duplicates("image_id")
        images = images[images["role_order"] != ""]
        near = (people["skin_tone"] - people["truth_skin_tone"]).abs() <= 1
        counts = {
            "gate": (found.sum(), len(people)),
            "gender": ((right & judged).sum(), judged.sum()),
            "gender_unambiguous": ((right & judged & clear).sum(), (judged & clear).sum()),
            "order": ((images["role_order"] == "right").sum(), len(images)),
            "skin_tone": ((near & seen).sum(), seen.sum()),
        }
        for measure, (k, n) in counts.items():
            low, high = stats.wilson_interval(int(k), int(n), study.confidence) if n else (np.nan, np.nan)
            row = {"judge": judge, "measure": measure, "percent": 100 * k / n if n else np.nan, "n": int(n)}
            rows.append(row | {"ci_low": 100 * low, "ci_high": 100 * high})
    return _frame(rows, "paired_truth")


TABLES: dict = {
    "paired_people": lambda study: study.measured_or_empty("paired_people"),
    "paired_prompts": lambda study: study.measured_or_empty("paired_prompts"),
    "paired_renders": lambda study: study.measured_or_empty("paired_renders"),
    "paired_critiques": lambda study: study.measured_or_empty("paired_critiques"),
    "paired_outcomes": _outcomes,
    "paired_valid_images": _valid_images,
    "paired_position_effect": _position_effect,
    "paired_control_score": _control_score,
    "paired_labour_gap": _labour_gap,
    "paired_skin_tone": _skin_tone,
    "paired_truth": _truth,
}
