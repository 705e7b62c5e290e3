"""What the detector's verdicts say by rule, step, number and relation, and with its own error taken off.

``verdicts`` has rows of ``dalleval_skill_verdicts``, ``renders`` of ``dalleval_detector_renders``; ``confidence`` (0–1)
is the level of intervals.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from biaslab import stats, tables
from biaslab.measures import agreement

ALL, NONE = "all", "none"
LEAST_YOUDEN = 0.5
"""Below this sensitivity + specificity − 1 a judge cannot tell."""
CANNOT = "this judge cannot tell"


def _shares(rows: pd.DataFrame, keys: list[str], hit: str, confidence: float, value: str) -> pd.DataFrame:
    """Return the percentage of ``yes`` in a column by keys, with n and Wilson limits."""
    of = rows.assign(hit=rows[hit] == "yes").groupby(keys, sort=False)["hit"]
    out = of.agg(count="sum", n="size").reset_index()
    low, high = stats.wilson_interval(out["count"], out["n"], confidence)
    return out.assign(**{value: 100 * out["count"] / out["n"]}, ci_low=100 * low, ci_high=100 * high)


def skill_rules(verdicts: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return ``dalleval_skill_rules``: accuracy by each rule, of the same detections."""
    keys = ["model", "rule", "skill"]
    return tables.of(
        _shares(verdicts, keys, "correct", confidence, "percent_correct"), "dalleval_skill_rules"
    )


def skill_steps(verdicts: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return ``dalleval_skill_steps``: what is right by step, number and relation, by the chosen rule (Figure 5)."""
    chosen = verdicts[(verdicts["chosen"] == "yes") & (verdicts["skill"] != "object")]
    asked = chosen["relation"].where(chosen["skill"] == "spatial", chosen["n"].map("{:.0f}".format))
    both = pd.concat(
        [chosen.assign(asked=ALL), chosen.assign(asked=asked).sort_values("asked", kind="stable")]
    )
    steps = {"objects": "objects_correct", "rest": "rest_correct", "both": "correct"}
    keys = ["model", "skill", "asked"]
    frames = [
        _shares(both, keys, column, confidence, "percent_correct").assign(step=step)
        for step, column in steps.items()
    ]
    whole = pd.concat(frames)
    # A relation is looked at where the classes are right only: alone it says nothing else.
    whole = whole[(whole["skill"] == "count") | (whole["step"] != "rest")]
    return tables.of(whole, "dalleval_skill_steps")


def detector_error(renders: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return ``dalleval_detector_error``: sensitivity and specificity by skill, by class and by way of failing."""
    shows = renders["failure"] == NONE
    right = np.where(shows, renders["correct"] == "yes", renders["correct"] == "no")
    rows = renders.assign(right=np.where(right, "yes", "no"))
    rows["measure"] = np.where(shows, "sensitivity", "specificity")
    failing = rows[~shows].assign(measure=lambda of: "specificity: " + of["failure"])
    parts = [rows.assign(object=ALL), failing.assign(object=ALL), rows]
    keys = ["model", "skill", "object", "measure"]
    return tables.of(_shares(pd.concat(parts), keys, "right", confidence, "value"), "dalleval_detector_error")


def detector_thresholds(thresholds: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return ``dalleval_detector_thresholds`` with Wilson intervals; takes rows as a source has them."""
    count = np.rint(thresholds["percent_right"] * thresholds["n"] / 100)
    low, high = stats.wilson_interval(count, thresholds["n"], confidence)
    return tables.of(thresholds.assign(ci_low=100 * low, ci_high=100 * high), "dalleval_detector_thresholds")


def skill_corrected(
    verdicts: pd.DataFrame, errors: pd.DataFrame, *, confidence: float = 0.95
) -> pd.DataFrame:
    """Return ``dalleval_skill_corrected``: accuracy with the detector's own error taken off, where it can tell.

    Takes what :func:`detector_error` returns. Where sensitivity + specificity − 1 is below :data:`LEAST_YOUDEN` there
    is no corrected share and no ranking, but the reason.
    """
    chosen = verdicts[verdicts["chosen"] == "yes"]
    known = dict(list(errors[errors["object"] == ALL].groupby(["model", "skill"])))
    rows = []
    for (model, skill), of in chosen.groupby(["model", "skill"], sort=False):
        n, count = len(of), int((of["correct"] == "yes").sum())
        row = {"model": model, "skill": skill, "n": n, "percent_correct": 100 * count / n}
        if (of["truth"] != "").all():
            row["percent_true"] = 100 * (of["truth"] == "yes").mean()
        mine = known.get((model, skill), errors.iloc[:0]).set_index("measure")
        rows.append(row | _corrected(count, n, mine, confidence))
    return tables.of(rows, "dalleval_skill_corrected")


def _corrected(count: int, n: int, known: pd.DataFrame, confidence: float) -> dict:
    """Return the corrected share of one skill, given the rows of its errors by measure."""
    if not {"sensitivity", "specificity"} <= set(known.index):
        return {"reason": "no drawings on which this detector's error is known"}
    share, size = known["value"] / 100, known["n"]
    youden = share["sensitivity"] + share["specificity"] - 1
    if youden < LEAST_YOUDEN:
        return {"youden": youden, "reason": CANNOT}

    def corrected(specificity: str) -> stats.CorrectedShares | None:
        values = (share["sensitivity"], share[specificity], size["sensitivity"], size[specificity])
        return stats.corrected_shares(count, n, *values, confidence) if sum(values[:2]) > 1 else None

    ways = [name for name in known.index if name.startswith("specificity: ")]
    of_ways = [100 * float(found.share) for way in ways if (found := corrected(way))]
    pooled = corrected("specificity")
    return {
        "youden": youden,
        "percent_corrected": 100 * float(pooled.share),
        "ci_low": 100 * float(pooled.ci_low),
        "ci_high": 100 * float(pooled.ci_high),
        "percent_least": min(of_ways, default=np.nan),
        "percent_most": max(of_ways, default=np.nan),
    }


def rater_agreement(ratings: pd.DataFrame, *, seed: int, confidence: float = 0.95) -> pd.DataFrame:
    """Return ``dalleval_rater_agreement``: the detector against people, and people against each other (Table 3).

    Takes rows of ``dalleval_skill_ratings``. An image is correct by people where most of its raters say so; as many of
    each is not.
    """
    rows = []
    for model, whole in ratings.groupby("model", sort=False):
        for skill, of in [(ALL, whole), *whole.groupby("skill", sort=False)]:
            key = {"model": model, "skill": skill}
            rows += [key | row for row in _agreement(of, seed, confidence)]
    return tables.of(rows, "dalleval_rater_agreement")


def _agreement(ratings: pd.DataFrame, seed: int, confidence: float) -> list[dict]:
    how = {"labels": ("yes", "no"), "seed": seed, "confidence": confidence}
    wide = ratings.pivot(index="image_id", columns="rater", values="correct")
    people = np.where((wide == "yes").sum(axis=1) > (wide == "no").sum(axis=1), "yes", "no")
    detector = (
        ratings.drop_duplicates("image_id")
        .set_index("image_id")["detector"]
        .reindex(wide.index)
        .to_numpy(object)
    )
    only_people = int(((people == "yes") & (detector == "no")).sum())
    only_detector = int(((people == "no") & (detector == "yes")).sum())
    different = only_people + only_detector
    p = float(binomtest(only_people, different, 0.5).pvalue) if different else 1.0
    test = {"n_people_only": only_people, "n_detector_only": only_detector, "p": p}
    both = np.stack([people.astype(object), detector], axis=1)
    found = {
        "cohen_kappa": (agreement.cohen_kappa(people.astype(object), detector, **how), test),
        "percent_agreement": (agreement.percent_agreement(both, **how), {}),
    }
    if wide.shape[1] > 1:
        found["krippendorff_alpha"] = (agreement.krippendorff_alpha(wide.to_numpy(object), **how), {})
    return [
        {
            "statistic": name,
            "value": one.value,
            "ci_low": one.ci_low,
            "ci_high": one.ci_high,
            "n": one.n_items,
            "n_raters": wide.shape[1],
            "reason": one.reason,
        }
        | more
        for name, (one, more) in found.items()
    ]
