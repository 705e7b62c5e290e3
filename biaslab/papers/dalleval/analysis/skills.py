"""Visual reasoning skills (section 5.2), metrics of alignment and quality (appendix D), and the detector's own errors.

``accuracy`` (0–100 %) is what :func:`skill_accuracy` returns; ``verdicts`` has rows of ``dalleval_skill_verdicts``,
``renders`` of ``dalleval_detector_renders``; ``confidence`` (0–1) is the level of intervals.
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
"""The evaluator that people are; every other is a detector."""
ALL, NONE = "all", "none"
LEAST_YOUDEN = 0.5
"""Below this sensitivity + specificity − 1 a judge cannot tell."""
CANNOT = "this judge cannot tell"
CORRECTION_DOMINATES = "the correction is larger than what it leaves"


def skill_accuracy(accuracy: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return accuracies by skill with Wilson intervals, and the mean of the three skills (Tables 2, 3 and 5).

    Takes rows of ``dalleval_skill_accuracy`` as a source has them and returns that table; the mean's intervals are
    MOVER's (Zou & Donner 2008).
    """
    keys = ["model", "evaluator", "images", "training_percent"]
    # Another run's table holds computed averages, with the printed ones beside them.
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
            below = np.sqrt(((group["percent_correct"] - group["ci_low"]) ** 2).sum()) / len(group)
            above = np.sqrt(((group["ci_high"] - group["percent_correct"]) ** 2).sum()) / len(group)
            row = dict(zip(keys, key, strict=True)) | {"skill": "average", "percent_correct": value}
            row |= {"ci_low": value - below, "ci_high": value + above, "n": group["n"].sum()}
            rows.append(row | {"paper_table_value": printed.get(key)})
    return tables.make_table(pd.concat([out, pd.DataFrame(rows, columns=out.columns)]), "dalleval_skill_accuracy")


def skill_agreement(accuracy: pd.DataFrame) -> pd.DataFrame:
    """Return ``dalleval_skill_agreement``: how far people and detector differ on the same images (points; Table 3)."""
    shares = accuracy[(accuracy["training_percent"] == "100") & (accuracy["skill"] != "average")]
    shares, people = shares.set_index(["model", "skill"]), (shares["evaluator"] == HUMAN).to_numpy()
    human, detr = (shares[(shares["images"] == "sample") & (people == rates)] for rates in (True, False))
    both = human.index.intersection(detr.index, sort=False)
    human, detr = human.loc[both], detr.loc[both]
    # Limits of people less detector, as if the two judged separate images.
    columns = ["percent_correct", "ci_low", "ci_high"]
    # The pooled z-test, as if they did, too; shares of 0 and 0, or of 1 and 1, have no spread and no difference.
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
    """Return ``dalleval_alignment_quality``, as a source has it, with ranks (1 is best; Table 19).

    Limits that a source has stay; of printed values only R-precision, a share of images, has an interval (Wilson's).
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
    return tables.make_table(out, "dalleval_alignment_quality")


# -- by step, number and relation, and with the detector's own error taken off ---------------------------


def _shares(rows: pd.DataFrame, keys: list[str], hit: str, confidence: float, value: str) -> pd.DataFrame:
    """Return the percentage of ``yes`` in a column by keys, with n and Wilson limits."""
    hits = rows.assign(hit=rows[hit] == "yes").groupby(keys, sort=False)["hit"]
    out = hits.agg(count="sum", n="size").reset_index()
    percent, low, high = stats.percent(out["count"], out["n"], confidence)
    return out.assign(**{value: percent}, ci_low=low, ci_high=high)


def skill_steps(verdicts: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return ``dalleval_skill_steps``: what is right by step, number and relation, by the chosen rule (Figure 5)."""
    chosen = verdicts[(verdicts["chosen"] == "yes") & (verdicts["skill"] != "object")]
    asked = chosen["relation"].where(chosen["skill"] == "spatial", chosen["n"].map("{:.0f}".format))
    both = pd.concat(
        [chosen.assign(requested=ALL), chosen.assign(requested=asked).sort_values("requested", kind="stable")]
    )
    steps = {"objects": "objects_correct", "rest": "rest_correct", "both": "correct"}
    keys = ["model", "skill", "requested"]
    frames = [
        _shares(both, keys, column, confidence, "percent_correct").assign(step=step) for step, column in steps.items()
    ]
    whole = pd.concat(frames)
    # A relation is looked at where the classes are right only: alone it says nothing else.
    whole = whole[(whole["skill"] == "count") | (whole["step"] != "rest")]
    return tables.make_table(whole, "dalleval_skill_steps")


def detector_error(renders: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return ``dalleval_detector_error``: sensitivity and specificity by skill, by class and by way of failing.

    ``reliable`` says of a skill whether both add up to more than 1 by :data:`LEAST_YOUDEN` or more.
    """
    shows = renders["failure"] == NONE
    right = np.where((renders["correct"] == "yes") == shows, "yes", "no")
    rows = renders.assign(right=right, measure=np.where(shows, "sensitivity", "specificity"))
    failing = rows[~shows].assign(object=ALL, measure=lambda table: "specificity: " + table["failure"])
    keys = ["model", "skill", "object", "measure"]
    parts = pd.concat([rows.assign(object=ALL), failing, rows])
    shares = _shares(parts, keys, "right", confidence, "value")
    both = shares[shares["object"] == ALL].pivot(index=["model", "skill"], columns="measure", values="value")
    youden = both.reindex(columns=["sensitivity", "specificity"]).dropna().sum(axis=1) / 100 - 1
    reliable = pd.Series(np.where(youden >= LEAST_YOUDEN, "yes", "no"), youden.index, dtype=object)
    shares["reliable"] = reliable.reindex(pd.MultiIndex.from_frame(shares[["model", "skill"]])).to_numpy(object)
    if "truth_images" in renders:
        shares["truth_images"] = shares["model"].map(renders.groupby("model")["truth_images"].first())
    return tables.make_table(shares, "dalleval_detector_error")


def skill_corrected(verdicts: pd.DataFrame, errors: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return ``dalleval_skill_corrected``: accuracy with the detector's own error taken off, where it can tell.

    Takes what :func:`detector_error` returns. There is a reason in place of a share where sensitivity + specificity − 1
    is below :data:`LEAST_YOUDEN`, and beside one that is smaller than its correction. How a model's images fail is not
    known, so the limits are the outermost of those that each way of failing alone gives: they hold for every mix (95 %
    ones cover 97 to 100 %, ``benchmarks/coverage_skills.py``). A way that is not told from success could be any of the
    images: then the lower limit is 0.
    """
    # Of images that it never looked at the detector said nothing that could be corrected.
    chosen = verdicts[(verdicts["chosen"] == "yes") & ~verdicts["status"].isin(("unreadable", *WITHHELD))]
    known = dict(list(errors[errors["object"] == ALL].groupby(["model", "skill"])))
    rows = []
    for (model, skill), images in chosen.groupby(["model", "skill"], sort=False):
        n, count = len(images), int((images["correct"] == "yes").sum())
        row = {"model": model, "skill": skill, "n": n, "percent_correct": 100 * count / n}
        if (images["truth"] != "").all():
            row["percent_true"] = 100 * (images["truth"] == "yes").mean()
        mine = known.get((model, skill), errors.iloc[:0]).set_index("measure")
        rows.append(row | _corrected(count, n, mine, confidence))
    return tables.make_table(rows, "dalleval_skill_corrected")


def _corrected(count: int, n: int, known: pd.DataFrame, confidence: float) -> dict:
    """Return the corrected share of one skill, given the rows of its errors by measure."""
    if not {"sensitivity", "specificity"} <= set(known.index):
        return {"reason": "no drawings on which this detector's error is known"}
    share, size = known["value"] / 100, known["n"]
    youden = share["sensitivity"] + share["specificity"] - 1
    if youden < LEAST_YOUDEN:
        return {"youden": youden, "reason": CANNOT}
    ways = known.index[known.index.str.startswith("specificity")]
    visible = ways[share["sensitivity"] + share[ways] > 1]
    corrected = stats.corrected_shares(
        count, n, share["sensitivity"], share[visible], size["sensitivity"], size[visible], confidence
    )
    each = pd.DataFrame(corrected._asdict(), index=visible)
    if len(visible) < len(ways):
        each.loc["not told"] = 0.0
    whole, alone = each["share"]["specificity"], each["share"].drop("specificity")
    # Of a share at an end the limits are off it by their shift.
    low = each[["ci_low", "share"]].to_numpy().min()
    high = each[["ci_high", "share"]].to_numpy().max()
    shares = {"percent_correct_corrected": whole, "ci_low": low, "ci_high": high}
    shares |= {"percent_lower_bound": alone.min(), "percent_upper_bound": alone.max()}
    reason = CORRECTION_DOMINATES if stats.correction_dominates(count / n, whole) else ""
    return {name: 100 * value for name, value in shares.items()} | {"youden": youden, "reason": reason}


def annotator_agreement(ratings: pd.DataFrame, *, seed: int, confidence: float = 0.95) -> pd.DataFrame:
    """Return ``dalleval_annotator_agreement`` of ``dalleval_skill_ratings``: people beside the detector, and one
    another.

    An image is correct by people where most of its annotators say so (Table 3); as many of each is not.
    """
    rows = []
    for model, whole in ratings.groupby("model", sort=False):
        for skill, group in [(ALL, whole), *whole.groupby("skill", sort=False)]:
            key = {"model": model, "skill": skill}
            rows += [key | row for row in _agreement(group, seed, confidence)]
    return tables.make_table(rows, "dalleval_annotator_agreement")


def _agreement(ratings: pd.DataFrame, seed: int, confidence: float) -> list[dict]:
    options: Any = {"labels": ("yes", "no"), "seed": seed, "confidence": confidence}
    wide = ratings.pivot(index="image_id", columns="annotator", values="correct")
    people = np.where((wide == "yes").sum(axis=1) > (wide == "no").sum(axis=1), "yes", "no").astype(object)
    detector = ratings.groupby("image_id")["detector"].first().to_numpy(object)
    alone = [int(((one == "yes") & (other == "no")).sum()) for one, other in ((people, detector), (detector, people))]
    p = float(binomtest(alone[0], sum(alone), 0.5).pvalue) if any(alone) else 1.0
    test = {"n_people_only": alone[0], "n_detector_only": alone[1], "p": p}
    statistics = {
        "cohen_kappa": (agreement.cohen_kappa(people, detector, **options), test),
        "percent_agreement": (agreement.percent_agreement(np.stack([people, detector], axis=1), **options), {}),
    }
    if wide.shape[1] > 1:
        statistics["krippendorff_alpha"] = (agreement.krippendorff_alpha(wide.to_numpy(object), **options), {})
    return [
        one._asdict() | {"statistic": name, "n": one.n_items, "n_annotators": wide.shape[1]} | more
        for name, (one, more) in statistics.items()
    ]
