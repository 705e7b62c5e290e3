"""Visual reasoning skills (section 5.2), and metrics of alignment and quality (appendix D).

``accuracy`` is what :func:`skill_accuracy` returns, in percent of images judged correct (0–100), ``confidence`` (0–1)
the level of intervals.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import norm

from biaslab import stats
from biaslab.ground import tables
from biaslab.papers.dalleval.analysis.rows import keyed
from biaslab.papers.dalleval.printed import NOT_PRINTED
from biaslab.prompts.dalleval import SKILLS

HUMAN = "Human"
"""The evaluator that people are; every other is a detector."""


def skill_accuracy(accuracy: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return accuracies by skill with Wilson intervals, and the mean of the three skills (Tables 2, 3 and 5).

    Takes rows of ``dalleval_skill_accuracy`` as a source has them and returns that table; the mean's intervals are
    MOVER's (Zou & Donner 2008).
    """
    keys = ["model", "evaluator", "images", "training_percent"]
    # Another run's table holds computed averages, with the printed ones beside them.
    averages = accuracy[accuracy["skill"] == "average"]
    printed = keyed(averages, keys, "printed" if "printed" in accuracy else "percent_correct")
    out = accuracy[accuracy["skill"] != "average"]
    low, high = stats.wilson_interval(np.rint(out["percent_correct"] * out["n"] / 100), out["n"], confidence)
    out = out.assign(ci_low=100 * low, ci_high=100 * high, printed=np.nan)
    rows = []
    for key, group in out.groupby(keys, sort=False):
        if set(group["skill"]) == set(SKILLS):
            value = group["percent_correct"].mean()
            below = np.sqrt(((group["percent_correct"] - group["ci_low"]) ** 2).sum()) / len(group)
            above = np.sqrt(((group["ci_high"] - group["percent_correct"]) ** 2).sum()) / len(group)
            row = dict(zip(keys, key, strict=True)) | {"skill": "average", "percent_correct": value}
            row |= {"ci_low": value - below, "ci_high": value + above, "n": group["n"].sum()}
            rows.append(row | {"printed": printed.get(key)})
    return tables.of(pd.concat([out, pd.DataFrame(rows, columns=out.columns)]), "dalleval_skill_accuracy")


def skill_agreement(accuracy: pd.DataFrame) -> pd.DataFrame:
    """Return ``dalleval_skill_agreement``: how far people and detector differ on the same images (points; Table 3).

    With Newcombe's limits and pooled z-tests as of separate images.
    """
    shares = accuracy[(accuracy["training_percent"] == "100") & (accuracy["skill"] != "average")]
    shares, people = shares.set_index(["model", "skill"]), (shares["evaluator"] == HUMAN).to_numpy()
    human, detr = (shares[(shares["images"] == "sample") & (people == rates)] for rates in (True, False))
    both = human.index.intersection(detr.index, sort=False)
    human, detr = human.loc[both], detr.loc[both]
    low, high = _difference_limits(human, detr)
    out = detr[["n"]].assign(
        difference=human["percent_correct"] - detr["percent_correct"],
        ci_low=low,
        ci_high=high,
        percent_human=human["percent_correct"],
        percent_detr=detr["percent_correct"],
        p=_p_of_difference(human, detr),
    )
    out = tables.of(out.reset_index(), "dalleval_skill_agreement")
    return out.assign(p_holm=stats.adjust(out["p"]))


def _difference_limits(first: pd.DataFrame, second: pd.DataFrame) -> stats.Interval:
    """Return the limits of first minus second, as if the two judged separate images."""
    columns = ["percent_correct", "ci_low", "ci_high"]
    return stats.difference_interval(*(side[c].to_numpy() for side in (second, first) for c in columns))


def _p_of_difference(first: pd.DataFrame, second: pd.DataFrame) -> np.ndarray:
    """Return the p of the pooled z-test of two shares, as if they were of separate images."""
    (a, n_a), (b, n_b) = ((side["percent_correct"] / 100, side["n"]) for side in (first, second))
    pooled = (a * n_a + b * n_b) / (n_a + n_b)
    error = np.sqrt(pooled * (1 - pooled) * (1 / n_a + 1 / n_b))
    # Shares of 0 and 0, or of 1 and 1, have no spread and no difference.
    return 2 * norm.sf(((a - b) / error).where(error != 0, 0).abs())


def alignment_quality(quality: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return the metrics of alignment and quality, each in its own unit, with ranks (1 is best; Table 19).

    Takes rows of ``dalleval_alignment_quality`` as a source has them and returns that table. Limits that a source has
    stay; of printed values only R-precision, the one share of images among them, has an interval (Wilson's).
    """
    given = quality.reindex(columns=["ci_low", "ci_high"])
    given_limits = given.notna().all(axis=1)
    share = (quality["metric"] == "R-precision") & ~given_limits
    count = (quality["value"] / 100 * quality["n"]).round().where(share)
    low, high = stats.wilson_interval(count, quality["n"], confidence)
    good = quality["value"].where(quality["better"] == "higher", -quality["value"])
    why = quality.get("reason", pd.Series("", quality.index)).replace("", NOT_PRINTED)
    out = quality.assign(
        ci_low=given["ci_low"].where(given_limits, 100 * low),
        ci_high=given["ci_high"].where(given_limits, 100 * high),
        rank=good.groupby(quality["metric"]).rank(ascending=False),
        reason=why.mask(share | given_limits, ""),
    )
    return tables.of(out, "dalleval_alignment_quality")
