"""What the detector's verdicts say by rule, step, number and relation, and with its own error taken off.

``verdicts`` has rows of ``dalleval_skill_verdicts``, ``renders`` of ``dalleval_detector_renders``; ``confidence`` (0–1)
is the level of intervals.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.stats import binomtest, norm

from biaslab import stats
from biaslab.ground import tables
from biaslab.judging.words import BLOCKED
from biaslab.measures import agreement

ALL, NONE = "all", "none"
LEAST_YOUDEN = 0.5
"""Below this sensitivity + specificity − 1 a judge cannot tell."""
CANNOT = "this judge cannot tell"
RIVALS = "the correction is larger than what it leaves"


def _shares(rows: pd.DataFrame, keys: list[str], hit: str, confidence: float, value: str) -> pd.DataFrame:
    """Return the percentage of ``yes`` in a column by keys, with n and Wilson limits."""
    of = rows.assign(hit=rows[hit] == "yes").groupby(keys, sort=False)["hit"]
    out = of.agg(count="sum", n="size").reset_index()
    percent, low, high = stats.percent(out["count"], out["n"], confidence)
    return out.assign(**{value: percent}, ci_low=low, ci_high=high)


def skill_rules(verdicts: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return ``dalleval_skill_rules``: accuracy by each rule, of the same detections."""
    shares = _shares(verdicts, ["model", "rule", "skill"], "correct", confidence, "percent_correct")
    return tables.of(shares, "dalleval_skill_rules")


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
    right = np.where((renders["correct"] == "yes") == shows, "yes", "no")
    rows = renders.assign(right=right, measure=np.where(shows, "sensitivity", "specificity"))
    failing = rows[~shows].assign(object=ALL, measure=lambda of: "specificity: " + of["failure"])
    keys = ["model", "skill", "object", "measure"]
    parts = pd.concat([rows.assign(object=ALL), failing, rows])
    shares = _shares(parts, keys, "right", confidence, "value")
    if "truth_images" in renders:
        shares["truth_images"] = shares["model"].map(renders.groupby("model")["truth_images"].first())
    return tables.of(shares, "dalleval_detector_error")


def detector_thresholds(thresholds: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return ``dalleval_detector_thresholds`` with Wilson intervals; takes rows as a source has them."""
    count = np.rint(thresholds["percent_right"] * thresholds["n"] / 100)
    _, low, high = stats.percent(count, thresholds["n"], confidence)
    return tables.of(thresholds.assign(ci_low=low, ci_high=high), "dalleval_detector_thresholds")


def skill_corrected(
    verdicts: pd.DataFrame, errors: pd.DataFrame, *, confidence: float = 0.95
) -> pd.DataFrame:
    """Return ``dalleval_skill_corrected``: accuracy with the detector's own error taken off, where it can tell.

    Takes what :func:`detector_error` returns. Where sensitivity + specificity − 1 is below :data:`LEAST_YOUDEN` there
    is no corrected share and no ranking, but the reason; where the correction is larger than the corrected share, the
    reason stands beside the share.

    The estimate takes all ways of failing as drawn. How a model's images fail is not known, so the limits are the
    outermost of those that each way alone gives: as the specificity of any mix of ways lies between theirs, they hold
    for every mix. Of 95 % ones 97 to 99 cover where all images fail in the way that is seen worst or best, and up to
    100 in between, as they must hold for both ends; those of all ways as drawn 0 to 91
    (``benchmarks/coverage_skills.py``). A way that is not told from success could be any of the images: then the lower
    limit is 0.
    """
    chosen = _seen(verdicts[verdicts["chosen"] == "yes"])
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


def _seen(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of images that the detector looked at: of the others it said nothing that could be corrected."""
    return verdicts[~verdicts["outcome"].isin(("unreadable", BLOCKED))]


def _corrected(count: int, n: int, known: pd.DataFrame, confidence: float) -> dict:
    """Return the corrected share of one skill, given the rows of its errors by measure."""
    if not {"sensitivity", "specificity"} <= set(known.index):
        return {"reason": "no drawings on which this detector's error is known"}
    share, size = known["value"] / 100, known["n"]
    youden = share["sensitivity"] + share["specificity"] - 1
    if youden < LEAST_YOUDEN:
        return {"youden": youden, "reason": CANNOT}
    ways = known.index[known.index.str.startswith("specificity")]
    told = ways[share["sensitivity"] + share[ways] > 1]
    found = stats.corrected_shares(
        count, n, share["sensitivity"], share[told], size["sensitivity"], size[told], confidence
    )
    each = pd.DataFrame(found._asdict(), index=told)
    if len(told) < len(ways):
        each.loc["not told"] = 0.0
    whole, alone = each.loc["specificity", "share"], each["share"].drop("specificity")
    # Of a share at an end the limits are off it by their shift.
    low, high = each[["ci_low", "share"]].min(axis=None), each[["ci_high", "share"]].max(axis=None)
    return {
        "youden": youden,
        "percent_corrected": 100 * whole,
        "ci_low": 100 * low,
        "ci_high": 100 * high,
        "percent_least": 100 * alone.min(),
        "percent_most": 100 * alone.max(),
        "reason": RIVALS if stats.rivals(count / n, whole, low, high).larger else "",
    }


MOST = 5
"""Numbers of objects from this on are one."""


def count_confusion(renders: pd.DataFrame) -> pd.DataFrame:
    """Return ``dalleval_count_confusion``: how many objects the detector finds where so many are shown."""
    rows = []
    for model, of in renders[renders["skill"] == "count"].groupby("model", sort=False):
        counts = _by_found(of, "shown", range(MOST))
        for shown, found in np.ndindex(counts.shape):
            if n := counts[shown].sum():
                share = 100 * counts[shown, found] / n
                rows.append({"model": model, "shown": shown, "found": found, "percent": share, "n": n})
    return tables.of(rows, "dalleval_count_confusion")


def _by_found(images: pd.DataFrame, column: str, numbers: Sequence[int]) -> np.ndarray:
    """Return images by the number that a column has and how many objects are found (0 to MOST): (numbers, 6)."""
    counts = pd.crosstab(images[column], images["found"].clip(upper=MOST))
    return counts.reindex(index=numbers, columns=range(MOST + 1), fill_value=0).to_numpy(float)


def count_corrected(
    verdicts: pd.DataFrame, renders: pd.DataFrame, *, confidence: float = 0.95
) -> pd.DataFrame:
    """Return ``dalleval_count_corrected``: how often a model shows as many as asked for, miscounts taken off.

    Of the images that ask for a number, the numbers found are a mix of what the detector finds where 0, 1, … 4 are
    shown, as drawings tell; solved for that mix (Rogan and Gladen 1978, of several numbers). A true number above 4 is
    read as one of these. Images that were never seen are left out. Limits are of the delta method after Lang and
    Reiczigel 2014, of both tables, and hold the estimate: of 95 % ones 94 to 99 cover true shares of 0 to 100 % (15 or
    100 images of each number, 40 or 100 drawings of each). Where the detector tells right numbers from wrong ones worse
    than :data:`LEAST_YOUDEN` there is no corrected share, but the reason; where the correction is larger than the
    corrected share, the reason stands beside it.
    """
    chosen = _seen(verdicts[(verdicts["chosen"] == "yes") & (verdicts["skill"] == "count")])
    rows = []
    for model, of in chosen.groupby("model", sort=False):
        drawn = renders[(renders["model"] == model) & (renders["skill"] == "count")]
        if drawn.empty:
            continue
        asked = np.sort(of["n"].unique()).astype(int)
        confusion, found = _by_found(drawn, "shown", range(MOST)), _by_found(of, "n", asked)
        can_tell = _youden_of_numbers(drawn) >= LEAST_YOUDEN
        known = (of["shown"] == of["n"]).groupby(of["n"]).mean() if of["shown"].notna().all() else None
        n = found.sum(axis=1)
        parts = [*((f"{k}", np.eye(len(asked))[i]) for i, k in enumerate(asked)), (ALL, n / n.sum())]
        as_found = found[np.arange(len(asked)), asked] / n
        for name, weight in parts:
            row = {"model": model, "asked": name, "n": n @ (weight > 0)}
            row["percent_found"] = 100 * as_found @ weight
            if can_tell:
                limits = _right(confusion, found, asked, weight, confidence)
                row |= dict(zip(("percent_corrected", "ci_low", "ci_high"), 100 * limits, strict=True))
                row["reason"] = RIVALS if stats.rivals(row["percent_found"], *(100 * limits)).larger else ""
            else:
                row["reason"] = CANNOT
            rows.append(row | ({} if known is None else {"percent_true": 100 * known.to_numpy() @ weight}))
    return tables.of(rows, "dalleval_count_corrected")


def _youden_of_numbers(renders: pd.DataFrame) -> float:
    """Return sensitivity + specificity - 1 of finding as many as asked for, on drawings that show as many or do not."""
    right, found = (renders[name] == renders["n"] for name in ("shown", "found"))
    return float(found[right].mean() - found[~right].mean()) if right.any() and not right.all() else np.nan


def _right(
    confusion: np.ndarray, found: np.ndarray, asked: np.ndarray, weight: np.ndarray, confidence: float
) -> np.ndarray:
    """Return the share of images that show as many as asked for, and its limits.

    ``confusion`` has drawings (shown, found), ``found`` images (asked, found); ``weight`` sums to 1 over numbers asked.
    """
    z = norm.ppf((1 + confidence) / 2)
    # What no drawing shows is not seen in any image either.
    shown = np.flatnonzero(confusion.sum(axis=1))
    known, right = confusion[shown], (np.arange(MOST + 1) == asked[:, None]).astype(float)

    def solved(drawn: np.ndarray, images: np.ndarray) -> tuple[np.ndarray, ...]:
        share, seen = images / images.sum(axis=1, keepdims=True), drawn / drawn.sum(axis=1, keepdims=True)
        unmixed = np.linalg.pinv(seen) @ right[:, shown].T
        return share, seen, unmixed.T, float(weight @ (share * unmixed.T).sum(axis=1))

    estimate = np.clip(solved(known, found)[-1], 0, 1)
    # As Lang and Reiczigel: one more drawing found rightly and one wrongly, z²/2 more images of each.
    same = np.arange(MOST + 1) == shown[:, None]
    drawn = known + np.where(same, 1, 1 / MOST)
    images = found + z**2 * weight[:, None] * np.where(right, 1 / 2, 1 / 2 / MOST)
    share, seen, unmixed, centre = solved(drawn, images)
    mix = share @ np.linalg.pinv(seen)
    by_shown = np.einsum("k,kj,kf->jf", weight, mix, unmixed)
    variance = weight**2 @ (_spread(share, unmixed) / images.sum(axis=1))
    variance += (_spread(seen, by_shown) / drawn.sum(axis=1)).sum()
    low, high = np.clip([centre - z * np.sqrt(variance), centre + z * np.sqrt(variance)], 0, 1)
    return np.array([estimate, min(low, estimate), max(high, estimate)])


def _spread(share: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Return the variance of values that have shares, by row."""
    return (share * value**2).sum(axis=1) - (share * value).sum(axis=1) ** 2


_SIMULATIONS = 4000


def ranking_kept(errors: pd.DataFrame, accuracy: pd.DataFrame, *, seed: int) -> pd.DataFrame:
    """Return ``dalleval_ranking_kept``: how much of a ranking of models survives a detector's error.

    The printed accuracies of the models that ``accuracy`` has (``dalleval_skill_accuracy``) are taken for the truth, on
    as many scenes as the model of the errors was judged on. In each simulation every model shows as many right images
    by chance as that share gives, and fails in a mix of ways of its own (uniform over all mixes): where ways are seen
    differently well, the detector favours some models. Its sensitivity and specificities are drawn from Jeffreys'
    posterior of what drawings show. Takes what :func:`detector_error` returns.
    """
    rng, rows = np.random.default_rng([seed, 76]), []
    whole = accuracy[(accuracy["images"] == "test") & (accuracy["training_percent"] == "100")]
    known = errors[errors["object"] == ALL]
    for (model, skill), of in known.groupby(["model", "skill"], sort=False):
        own = whole["model"] == model
        true, mine = (whole[(whole["skill"] == skill) & some] for some in (~own, own))
        ways = of[of["measure"].str.startswith("specificity: ")]
        right = of[of["measure"] == "sensitivity"]
        if len(true) < 2 or ways.empty or right.empty:
            continue
        share = true["percent_correct"].to_numpy() / 100
        n = int((mine if len(mine) else true)["n"].min())
        shown = rng.binomial(n, share, size=(_SIMULATIONS, len(share)))
        mixes = rng.dirichlet(np.ones(len(ways)), size=shown.shape)
        false = 1 - (mixes * _posterior(ways, rng)[:, None]).sum(axis=2)
        sensitivity = _posterior(right, rng)
        judged = rng.binomial(shown, sensitivity) + rng.binomial(n - shown, false)
        key = {"model": model, "skill": skill, "n_models": len(share), "n": n}
        key["smallest_difference"] = 100 * np.diff(np.sort(share)).min()
        both = {
            "none": (shown, np.ones((1, 1)), np.zeros((1, 2))),
            "detector": (judged, sensitivity, false[:, :2]),
        }
        for name, (counts, *error) in both.items():
            needed = _difference_needed(share.mean(), n, *error)
            rows.append(key | {"judge": name, "difference_needed": needed} | _kept(share, counts))
    return tables.of(rows, "dalleval_ranking_kept")


def _posterior(rows: pd.DataFrame, rng: np.random.Generator) -> np.ndarray:
    """Return draws of the shares behind rows of errors, (simulations, rows), from Jeffreys' posterior."""
    n = rows["n"].to_numpy(float)
    hits = np.rint(rows["value"].to_numpy() / 100 * n)
    return rng.beta(hits + 0.5, n - hits + 0.5, size=(_SIMULATIONS, len(rows)))


def _kept(share: np.ndarray, counts: np.ndarray) -> dict:
    """Return how many pairs of models lie in the order of their true shares; as many right images are half a pair."""
    first, second = np.triu_indices(len(share), 1)
    apart = share[first] != share[second]
    truth = np.sign(share[first] - share[second])[apart]
    found = np.sign(counts[:, first] - counts[:, second])[:, apart]
    kept = 100 * (0.5 + 0.5 * truth * found).mean(axis=1)
    low, high = np.quantile(kept, [0.025, 0.975])
    return {"percent_kept": kept.mean(), "ci_low": low, "ci_high": high}


def _difference_needed(middle: float, n: int, sensitivity: np.ndarray, false: np.ndarray) -> float:
    """Return by how many points two models about ``middle`` must differ to be ordered rightly 95 times in 100.

    ``sensitivity`` (simulations, 1); ``false`` has how often wrong images of either are judged right (simulations, 2).
    NaN where no difference is enough.
    """
    points = np.arange(0, 200 * min(middle, 1 - middle), 0.1)
    share = middle + np.outer(points, [0.5, -0.5])[:, None] / 100
    judged = share * sensitivity + (1 - share) * false
    spread = np.sqrt((judged * (1 - judged)).sum(axis=2) / n)
    difference = judged[..., 0] - judged[..., 1]
    right = np.where(spread > 0, norm.cdf(difference / np.where(spread > 0, spread, 1)), difference > 0)
    enough = np.flatnonzero(right.mean(axis=1) >= 0.95)
    return float(points[enough[0]]) if len(enough) else np.nan


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
    people = np.where((wide == "yes").sum(axis=1) > (wide == "no").sum(axis=1), "yes", "no").astype(object)
    detector = ratings.groupby("image_id")["detector"].first().to_numpy(object)
    alone = [
        int(((one == "yes") & (other == "no")).sum())
        for one, other in ((people, detector), (detector, people))
    ]
    p = float(binomtest(alone[0], sum(alone), 0.5).pvalue) if any(alone) else 1.0
    test = {"n_people_only": alone[0], "n_detector_only": alone[1], "p": p}
    found = {
        "cohen_kappa": (agreement.cohen_kappa(people, detector, **how), test),
        "percent_agreement": (agreement.percent_agreement(np.stack([people, detector], axis=1), **how), {}),
    }
    if wide.shape[1] > 1:
        found["krippendorff_alpha"] = (agreement.krippendorff_alpha(wide.to_numpy(object), **how), {})
    return [
        one._asdict() | {"statistic": name, "n": one.n_items, "n_raters": wide.shape[1]} | more
        for name, (one, more) in found.items()
    ]
