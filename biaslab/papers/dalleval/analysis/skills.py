"""Visual reasoning skills (section 5.2), and metrics of alignment and quality (appendix D).

``accuracy`` (0–100%) is what :func:`skill_accuracy` returns; ``verdicts`` has rows of ``dalleval_skill_verdicts``;
``confidence`` (0–1) is the level of intervals.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest, norm

from biaslab import stats
from biaslab.judges.judge_labels import WITHHELD
from biaslab.metrics import agreement
from biaslab.papers.dalleval.printed import NOT_PRINTED
from biaslab.papers.dalleval.prompts import SKILLS
from biaslab.schema import tables

HUMAN = "Human"
"""The evaluator of human annotations; every other one is a detector."""
ALL = "all"


def skill_accuracy(accuracy: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return accuracies by skill with Wilson intervals, and the mean of the three skills (Tables 2, 3 and 5).

    Takes a source's rows of ``dalleval_skill_accuracy`` and returns that table; the mean's intervals are MOVER's (Zou
    & Donner 2008).
    """
    keys = ["model", "evaluator", "images", "training_percent"]
    # Another run's table has computed averages, with the printed ones next to them.
    averages = accuracy[accuracy["skill"] == "average"]
    printed = averages.set_index(keys)
    printed = printed["paper_table_value" if "paper_table_value" in accuracy else "percent_correct"].to_dict()
    out = accuracy[accuracy["skill"] != "average"]
    low, high = stats.wilson_interval(np.rint(out["percent_correct"] * out["n"] / 100), out["n"], confidence)
    out = out.assign(ci_low=100 * low, ci_high=100 * high, paper_table_value=np.nan)
    rows = []
    for key, group in out.groupby(keys, sort=False):
        if set(group["skill"]) == set(SKILLS):
            value = group["percent_correct"].mean()
            lower_error = np.sqrt(((group["percent_correct"] - group["ci_low"]) ** 2).sum()) / len(group)
            upper_error = np.sqrt(((group["ci_high"] - group["percent_correct"]) ** 2).sum()) / len(group)
            row = dict(zip(keys, key, strict=True)) | {"skill": "average", "percent_correct": value}
            row |= {"ci_low": value - lower_error, "ci_high": value + upper_error, "n": group["n"].sum()}
            rows.append(row | {"paper_table_value": printed.get(key)})
    return tables.make_table(pd.concat([out, pd.DataFrame(rows, columns=out.columns)]), "dalleval_skill_accuracy")


def skill_agreement(accuracy: pd.DataFrame) -> pd.DataFrame:
    """Return ``dalleval_skill_agreement``: people minus detector on the same images (points; Table 3)."""
    shares = accuracy[(accuracy["training_percent"] == "100") & (accuracy["skill"] != "average")]
    shares, people = shares.set_index(["model", "skill"]), (shares["evaluator"] == HUMAN).to_numpy()
    human, detr = (shares[(shares["images"] == "sample") & (people == rates)] for rates in (True, False))
    common = human.index.intersection(detr.index, sort=False)
    human, detr = human.loc[common], detr.loc[common]
    # Limits of people minus detector, as if the two judged separate images.
    columns = ["percent_correct", "ci_low", "ci_high"]
    # The pooled z-test makes the same assumption; two shares of 0, or two of 1, have no spread and no difference.
    (a, n_a), (b, n_b) = ((side["percent_correct"] / 100, side["n"]) for side in (human, detr))
    pooled = (a * n_a + b * n_b) / (n_a + n_b)
    error = np.sqrt(pooled * (1 - pooled) * (1 / n_a + 1 / n_b))
    low, high = stats.difference_interval(*(side[c].to_numpy() for side in (detr, human) for c in columns))
    out = detr[["n"]].assign(
        difference=human["percent_correct"] - detr["percent_correct"], ci_low=low, ci_high=high,
        percent_human=human["percent_correct"], percent_detr=detr["percent_correct"],
        p=2 * norm.sf(((a - b) / error).where(error != 0, 0).abs()),
    )  # fmt: skip
    out = tables.make_table(out.reset_index(), "dalleval_skill_agreement")
    return out.assign(p_holm=stats.adjust(out["p"]))


def alignment_quality(quality: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return a source's ``dalleval_alignment_quality`` with ranks (1 is best; Table 19).

    A source's limits are preserved; of printed values only R-precision, a share of images, has an interval (Wilson's).
    """
    limits = quality.reindex(columns=["ci_low", "ci_high"])
    has_limits = limits.notna().all(axis=1)
    is_interval = (quality["metric"] == "R-precision") & ~has_limits
    count = (quality["value"] / 100 * quality["n"]).round().where(is_interval)
    low, high = stats.wilson_interval(count, quality["n"], confidence)
    score = quality["value"].where(quality["better"] == "higher", -quality["value"])
    reason = quality.get("reason", pd.Series("", quality.index)).replace("", NOT_PRINTED)
    out = quality.assign(
        ci_low=limits["ci_low"].where(has_limits, 100 * low),
        ci_high=limits["ci_high"].where(has_limits, 100 * high),
        rank=score.groupby(quality["metric"]).rank(ascending=False),
        reason=reason.mask(is_interval | has_limits, ""),
    )
    return tables.make_table(out, "dalleval_alignment_quality")


# -- by step, number and relation, and human annotations -------------------------------------------------


def skill_steps(verdicts: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return ``dalleval_skill_steps``: accuracy by step, number and relation, by the chosen rule (Figure 5)."""
    chosen = verdicts[(verdicts["chosen"] == "yes") & (verdicts["skill"] != "object")]
    requested = chosen["relation"].where(chosen["skill"] == "spatial", chosen["n"].map("{:.0f}".format))
    rows = pd.concat(
        [chosen.assign(requested=ALL), chosen.assign(requested=requested).sort_values("requested", kind="stable")]
    )
    steps = {"objects": "objects_correct", "rest": "rest_correct", "both": "correct"}
    keys = ["model", "skill", "requested"]
    shares = (
        stats.by_group(rows, keys, stats.share(column, "yes", confidence, labels=("yes", "no"))).assign(step=step)
        for step, column in steps.items()
    )
    table = pd.concat(shares).rename(columns={"percent": "percent_correct"})
    # A relation is only examined where the classes are correct, so it adds nothing on its own.
    table = table[(table["skill"] == "count") | (table["step"] != "rest")]
    return tables.make_table(table, "dalleval_skill_steps")


def skill_estimates(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Return accuracies by the chosen rule as input of ``calibration.corrected``, with ground truth where available.

    Images that the detector did not process (unreadable or withheld) are excluded, because no verdict can be corrected.
    """
    chosen = verdicts[(verdicts["chosen"] == "yes") & ~verdicts["status"].isin(("unreadable", *WITHHELD))]

    def accuracy(images: pd.DataFrame) -> dict[str, float]:
        is_known = (images["truth"] != "").all()
        estimate_true = 100 * (images["truth"] == "yes").mean() if is_known else np.nan
        return {"estimate": 100 * (images["correct"] == "yes").mean(), "n": len(images), "estimate_true": estimate_true}

    rows = stats.by_group(chosen, ["model", "skill"], accuracy)
    columns = ["model", "quantity", "subject", "condition", "estimate", "n", "estimate_true"]
    return rows.assign(quantity="skill: " + rows["skill"], subject="", condition="").reindex(columns=columns)


def annotator_agreement(ratings: pd.DataFrame, *, seed: int, confidence: float = 0.95) -> pd.DataFrame:
    """Return ``dalleval_annotator_agreement`` from ``dalleval_skill_ratings``: agreement with the detector, and among
    annotators.

    People's label is the majority of an image's annotators (Table 3); a tie counts as not correct.
    """
    rows = stats.by_group(ratings, ["model", "skill"], lambda group: _agreement(group, seed, confidence), overall=ALL)
    return tables.make_table(rows, "dalleval_annotator_agreement")


def _agreement(ratings: pd.DataFrame, seed: int, confidence: float) -> list[dict]:
    options: Any = {"labels": ("yes", "no"), "seed": seed, "confidence": confidence}
    wide = ratings.pivot(index="image_id", columns="annotator", values="correct")
    people = np.where((wide == "yes").sum(axis=1) > (wide == "no").sum(axis=1), "yes", "no").astype(object)
    detector = ratings.groupby("image_id")["detector"].first().to_numpy(object)
    sides = (people, detector), (detector, people)
    discordant = [int(((labels == "yes") & (reference == "no")).sum()) for labels, reference in sides]
    p = float(binomtest(discordant[0], sum(discordant), 0.5).pvalue) if any(discordant) else 1.0
    test = {"n_people_only": discordant[0], "n_detector_only": discordant[1], "p": p}
    statistics = {
        "cohen_kappa": (agreement.cohen_kappa(people, detector, **options), test),
        "percent_agreement": (agreement.percent_agreement(np.stack([people, detector], axis=1), **options), {}),
    }
    if wide.shape[1] > 1:
        statistics["krippendorff_alpha"] = (agreement.krippendorff_alpha(wide.to_numpy(object), **options), {})
    return [
        estimate._asdict() | {"statistic": name, "n": estimate.n_items, "n_annotators": wide.shape[1]} | columns
        for name, (estimate, columns) in statistics.items()
    ]
