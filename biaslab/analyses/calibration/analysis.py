"""Accuracy of judges on images with ground truth, and results corrected for their errors.

A confusion has the columns of ``dalleval_confusion`` and of the tables like it: a row per image, truth and answer.
``paper`` is the paper whose results use the judge, ``confidence`` (0–1) the level of intervals. In results
``subject`` and ``condition`` are ``all``, or one of those that the confusion names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import norm, t

from biaslab import stats
from biaslab.judges.judge_labels import JUDGED
from biaslab.metrics.similarity import DEPENDENCY_GROUPS
from biaslab.schema import tables
from biaslab.schema.genders import GENDERS

ALL = "all"
NEITHER = "neither"
"""Outcome of an image whose reference is not one woman or man: no person, several people, or annotators unsure."""
SIMULATED = "simulated"
"""The reference that corrects nothing."""
MIN_IMAGES = 30
"""Reference images of each class on which a subject's own sensitivity and specificity must rest."""
MALE_MINUS_FEMALE = " - ".join(reversed(GENDERS))
UNKNOWN = "the judge's error is unknown for lack of reference images"
NOT_JUDGED = "no image was judged"
UNRELIABLE = "the judge does not discriminate"
DOMINATES = "the correction exceeds the corrected estimate"

_JUDGEMENT = ["model", "judge", "reference", "quantity"]
_RATES = ["sensitivity", "specificity"]
_NOTHING = np.full(4, np.nan)
_ENDS = ["value", "ci_low", "ci_high"]


def confusion(answers: pd.DataFrame, *, paper: str) -> pd.DataFrame:
    """Return ``calibration_confusion``: a confusion, summed over images."""
    keys = [*_JUDGEMENT, "subject", "condition", "truth", "answer"]
    counts = answers.groupby(keys, sort=False, as_index=False)["n"].sum()
    return tables.make_table(counts.assign(paper=paper), "calibration_confusion")


def gender_confusion(
    judgements: Mapping[str, pd.DataFrame], references: Mapping[str, pd.Series], *, model: str = "", judge: str = ""
) -> pd.DataFrame:
    """Return the confusion of a judge of gender, by source of the images and by reference.

    An image of several occupations has a row for each, and one without a subject.

    Args:
        judgements: Source of the images -> judgements as of :func:`biaslab.judges.people.judge_people` with occupation.
        references: Name of the reference -> what each image shows, by image_id: ``female``, ``male``, or another label,
            which counts as :data:`NEITHER`. Images that it lacks are left out.
        model: The text-to-image model.
        judge: The judge's name.
    """
    frames = [pd.DataFrame(columns=["image_id", "subject", "truth", "answer"], dtype=object)]
    for (reference, truth), (source, rows) in product(references.items(), judgements.items()):
        known = truth.dropna().astype(str)
        shown = rows["image_id"].map(known.where(known.isin(GENDERS), NEITHER).to_dict())
        answer = rows["gender"].where(rows["status"] == JUDGED, rows["status"])
        judged = rows[["image_id"]].assign(subject=rows["occupation"].astype(str), truth=shown, answer=answer)
        judged = judged.dropna(subset="truth").assign(reference=reference, quantity=f"gender: {source}")
        frames += [judged.drop_duplicates("image_id").assign(subject=""), judged]
    return pd.concat(frames, ignore_index=True).assign(model=model, judge=judge, condition="", n=1)


# -- errors ----------------------------------------------------------------------------------------------

Masks = dict[str, tuple[pd.Series, pd.Series]]
"""By measure: the answers in the denominator of the share, and those in its numerator."""


def error(answers: pd.DataFrame, *, paper: str, confidence: float = 0.95) -> pd.DataFrame:
    """Return ``calibration_error`` of a confusion: how often answers are right, by quantity, subject and condition.

    Images are the sampling unit: intervals of shares are :func:`biaslab.stats.clustered_share`'s, which are Wilson's
    where each image has one answer, those of means over images Student's t. F1 has the limits of the share of both
    among what is shown or detected; its mean over dependency groups has limits as if these were independent (Zou and
    Donner 2008, https://doi.org/10.1002/sim.3095). Of objects there is also the recall in images of men minus that in
    images of women, with Newcombe's limits (1998) of two independent shares, and the p of this interval, adjusted over
    single objects (Holm). A measure of no answer has no row.
    """
    rows: list[dict] = []
    for key, judged in answers.groupby(_JUDGEMENT, sort=False):
        about = dict(zip(_JUDGEMENT, key, strict=True)) | {"paper": paper}
        kind = str(about["quantity"]).partition(":")[0]
        found = []
        for subject, condition, cell in _cells(judged, kind):
            measures = _measures(cell, kind, confidence)
            found += [{"subject": subject, "condition": condition, "measure": name} | row for name, row in measures]
        if kind == "dependency group" and found:
            found.append(_mean_f1(found, judged))
        rows += [about | row for row in found]
    errors = tables.make_table(rows, "calibration_error")
    return tables.join_tables([errors, _recall_differences(errors, confidence)], "calibration_error")


def _cells(judged: pd.DataFrame, kind: str) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield subject, condition and rows, of all together and of each; of dependency groups each against the others."""
    if kind == "dependency group":
        for group in DEPENDENCY_GROUPS:
            sides = {side: np.where(judged[side] == group, "yes", "no") for side in ("truth", "answer")}
            yield group, ALL, judged.assign(**sides)
        return
    # Where an image can have several subjects, rows without a subject count each image once.
    once = judged[judged["subject"] == ""]
    named = judged[judged["subject"] != ""].groupby("subject", sort=False)
    for subject, rows in ((ALL, once if len(once) else judged), *named):
        yield str(subject), ALL, rows
        for condition, cell in rows[rows["condition"] != ""].groupby("condition", sort=False):
            yield str(subject), str(condition), cell


def _measures(cell: pd.DataFrame, kind: str, confidence: float) -> Iterator[tuple[str, dict]]:
    """Yield the measures of a cell that have an answer, by name."""
    truth, answer, means = cell["truth"], cell["answer"], {}
    if kind in ("number", "skin tone"):
        answered = answer.str.isdecimal()
        off = answer[answered].astype(float) - truth[answered].astype(float)
        masks: Masks = {f"within_{most}": (answered, off.abs() <= most) for most in range(4)}
        masks["classified"] = (answered | True, answered)
        means = {"mean_difference": off.abs(), "mean_error": off}
    elif kind in ("objects", "people", "dependency group"):
        # What is neither shown nor detected is not counted.
        shown, detected = truth == "yes", answer == "yes"
        masks = {"precision": (detected, shown), "recall": (shown, detected)}
        masks["f1"] = (shown | detected, shown & detected)
        means = {"mask_iou": 100 * cell["iou"].dropna()}
    else:
        masks = _class_masks(truth, answer, GENDERS if kind == "gender" else ("yes", "no"))
    shares = {name: _share(cell[of], hits, confidence) for name, (of, hits) in masks.items() if of.any()}
    if "f1" in shares:
        shares["f1"] |= {end: 2 * shares["f1"][end] / (1 + shares["f1"][end] / 100) for end in _ENDS}
    if {"sensitivity", "specificity"} <= shares.keys():
        of_either = masks["sensitivity"][0] | masks["specificity"][0]
        n_images = cell.loc[of_either, "image_id"].nunique()
        shares["youden"] = _youden(shares["sensitivity"], shares["specificity"]) | {"n_images": n_images}
    yield from shares.items()
    for name, values in means.items():
        if len(values):
            yield name, _mean(cell.loc[values.index].assign(value=values), confidence)


def _class_masks(truth: pd.Series, answer: pd.Series, classes: tuple[str, str]) -> Masks:
    first, second = classes
    answered, shown = answer.isin(classes), truth.isin(classes)
    masks = {
        "sensitivity": (answered & (truth == first), answer == first),
        "specificity": (answered & (truth == second), answer == second),
        "classified": (shown, answered),
    }
    if classes == GENDERS:
        masks["accuracy"] = (answered & shown, answer == truth)
        masks |= {f"classified_{name}": (truth == name, answered) for name in (*GENDERS, NEITHER)}
    return masks


def _share(rows: pd.DataFrame, hits: pd.Series, confidence: float) -> dict:
    """Return the share (%) of answers that are among ``hits``."""
    images = rows.assign(hits=rows["n"].where(hits, 0)).groupby("image_id")[["hits", "n"]].sum()
    value, low, high, n = stats.clustered_share(images["hits"], images["n"], confidence)
    return {"value": 100 * value, "ci_low": 100 * low, "ci_high": 100 * high, "n": n, "n_images": len(images)}


def _mean(rows: pd.DataFrame, confidence: float) -> dict:
    """Return the mean over images of ``value``."""
    images = rows.assign(sum=rows["value"] * rows["n"]).groupby("image_id")[["sum", "n"]].sum()
    mean = stats.mean_interval(images["sum"] / images["n"], confidence)
    return mean._asdict() | {"n": int(images["n"].sum()), "n_images": mean.n}


def _youden(sensitivity: dict, specificity: dict) -> dict:
    """Return sensitivity + specificity − 100, with Newcombe's limits (1998) of two independent shares."""
    value = sensitivity["value"] + specificity["value"] - 100
    # It is the difference of sensitivity and the share of false positives.
    false = [100 - specificity[end] for end in ("value", "ci_high", "ci_low")]
    low, high = stats.difference_interval(*false, *(sensitivity[end] for end in _ENDS))
    row = {"value": value, "ci_low": low, "ci_high": high, "n": sensitivity["n"] + specificity["n"]}
    return row | {"reliable": "yes" if value >= 100 * stats.MIN_YOUDEN else "no"}


def _mean_f1(rows: list[dict], judged: pd.DataFrame) -> dict:
    value, low, high = np.array([[row[end] for end in _ENDS] for row in rows if row["measure"] == "f1"]).T
    below, above = (np.sqrt(((end - value) ** 2).sum()) / len(value) for end in (low, high))
    row = {"value": value.mean(), "ci_low": value.mean() - below, "ci_high": min(100, value.mean() + above)}
    row |= {"subject": ALL, "condition": ALL, "measure": "f1"}
    return row | {"n": int(judged["n"].sum()), "n_images": judged["image_id"].nunique()}


def _recall_differences(errors: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """Return the rows of recall in images of men minus that in images of women."""
    recall, keys = errors[errors["measure"] == "recall"], ["paper", *_JUDGEMENT, "subject"]
    female, male = (recall[recall["condition"] == gender].set_index(keys) for gender in GENDERS)
    both = female.index.intersection(male.index, sort=False)
    female, male = female.loc[both], male.loc[both]
    ends = (side[end].to_numpy() for side in (female, male) for end in _ENDS)
    low, high = map(np.asarray, stats.difference_interval(*ends))
    rows = (female[["n", "n_images"]] + male[["n", "n_images"]]).assign(
        value=male["value"] - female["value"], ci_low=low, ci_high=high,
        condition=MALE_MINUS_FEMALE, measure="recall_difference",
    )  # fmt: skip
    rows["p"] = _p_of_interval(rows["value"].to_numpy(float), low, high, confidence)
    rows = rows.reset_index()
    # People are single objects, too.
    family = np.where(rows["subject"] == ALL, rows["quantity"], "single")
    tests = rows["p"].groupby([*(rows[name] for name in keys[:4]), family])
    return tables.make_table(rows.assign(p_holm=tests.transform(stats.adjust, "holm")), "calibration_error")


def _p_of_interval(value: np.ndarray, low: np.ndarray, high: np.ndarray, confidence: float) -> np.ndarray:
    """Return the two-sided p that an interval about 0 has, below 1 - confidence exactly where it excludes 0.

    As if the half of it towards 0 were that of a normal distribution: for intervals that no test goes with.
    """
    half = np.where(value > 0, value - low, high - value)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = norm.ppf((1 + confidence) / 2) * np.abs(value) / half
    return np.where(value == 0, 1.0, 2 * norm.sf(z))


# -- corrections -----------------------------------------------------------------------------------------


def corrected(
    estimates: pd.DataFrame, errors: pd.DataFrame, *, paper: str, pool: bool = False, confidence: float = 0.95
) -> pd.DataFrame:
    """Return ``calibration_corrected``: shares, and differences of shares, corrected for the judge's errors.

    Shares are Rogan and Gladen's with the interval of Lang and Reiczigel (:func:`biaslab.stats.corrected_shares`).
    Where errors differ by condition, such as type of failure, the mix of conditions among the images is unknown. The
    limits are the outermost of those of single conditions, so they are valid for every mix (95 % ones cover 97 to 100
    %, ``benchmarks/coverage_skills.py``). If a condition is not discriminated from success, the lower limit is 0. A
    difference is divided by sensitivity + specificity − 1, which assumes equal errors in both groups (delta method). If
    that is below :data:`biaslab.stats.MIN_YOUDEN`, a reason replaces the corrected value.

    Args:
        estimates: model, quantity, subject (empty: none), condition, estimate (share in percent, or difference in
            points) and n; ci_low and ci_high of differences; estimate_true and reason where available.
        errors: What :func:`error` returns. Of several references the first corrects, but never simulated annotators.
        paper: The paper of the estimates.
        pool: Whether a subject of fewer than :data:`MIN_IMAGES` reference images of a class takes the errors of all
            subjects. Its interval then includes the variance of errors between subjects.
        confidence: Level of the intervals, 0–1.
    """
    rates, rows = _rates(errors), []
    for row in estimates.assign(paper=paper).to_dict("records"):
        known = rates.get((row["model"], row["quantity"]))
        rows.append(row | dict.fromkeys(("ci_low", "ci_high"), np.nan) | _corrected(row, known, pool, confidence))
    return tables.make_table(rows, "calibration_corrected")


class _Rates(NamedTuple):
    """The errors of one judge by one reference."""

    judge: str
    reference: str
    # Sensitivity, specificity (0–1) and the n of both, NaN where unknown, by subject and condition.
    known: dict[tuple[str, str], np.ndarray]

    def by_condition(self, subject: str) -> dict[str, np.ndarray]:
        """Return the errors of a subject by condition."""
        return {condition: rates for (name, condition), rates in self.known.items() if name == subject}


def _rates(errors: pd.DataFrame) -> dict[tuple[str, str], _Rates]:
    """Return the errors that correct a quantity of a model."""
    usable = errors[(errors["reference"] != SIMULATED) & errors["measure"].isin(_RATES)]
    found = {}
    for (model, quantity), rows in usable.groupby(["model", "quantity"], sort=False):
        judge, reference = rows[["judge", "reference"]].iloc[0]
        rows = rows[(rows["judge"] == judge) & (rows["reference"] == reference)]
        wide = rows.assign(value=rows["value"] / 100).pivot(
            index=["subject", "condition"], columns="measure", values=["value", "n"]
        )
        wide = wide.reindex(columns=pd.MultiIndex.from_product([["value", "n"], _RATES]))
        known = dict(zip(wide.index, wide.to_numpy(float), strict=True))
        found[str(model), str(quantity)] = _Rates(judge, reference, known)
    return found


def _corrected(row: dict, rates: _Rates | None, pool: bool, confidence: float) -> dict:
    if rates is None:
        return {"reason": UNKNOWN}
    subject = row["subject"] or ALL
    known = rates.known.get((subject, ALL), _NOTHING)
    if pool and not (known[2:] >= MIN_IMAGES).all():
        subject, known = ALL, rates.known.get((ALL, ALL), _NOTHING)
    if np.isnan(known).any():
        return {"reason": UNKNOWN}
    used = {"judge": rates.judge, "reference": rates.reference, "subject_of_error": subject}
    columns = ("sensitivity", "specificity", "n_sensitivity", "n_specificity")
    used |= dict(zip(columns, [*(100 * known[:2]), *known[2:]], strict=True))
    if not row["n"] > 0 or np.isnan(row["estimate"]):
        return used | {"reason": NOT_JUDGED}
    if known[:2].sum() - 1 < stats.MIN_YOUDEN:
        return used | {"reason": UNRELIABLE}
    if "ci_low" in row:
        return used | _corrected_difference(row, known, confidence)
    is_pooled = pool and subject == ALL and row["subject"] not in ("", ALL)
    spread = _variance_between(rates) if is_pooled else np.zeros(2)
    return used | _corrected_share(row, rates.by_condition(subject), spread, confidence)


def _corrected_share(row: dict, rates: dict[str, np.ndarray], spread: np.ndarray, confidence: float) -> dict:
    """Return a corrected share; ``spread`` is the variance of sensitivity and specificity between subjects."""
    sensitivity, specificity, n_sensitivity, _ = rates[ALL]
    conditions = [known for name, known in rates.items() if name != ALL and not np.isnan(known[1])]
    visible = np.array([rates[ALL], *(known for known in conditions if sensitivity + known[1] > 1)])
    count = round(row["estimate"] * row["n"] / 100)
    found = stats.corrected_shares(
        count, row["n"], sensitivity, visible[:, 1], n_sensitivity, visible[:, 3], confidence
    )
    # Images that fail under a condition that is not discriminated may be all of them.
    invisible = [0.0] * (len(visible) <= len(conditions))
    share, alone = found.share[0], [*found.share[1:], *invisible]
    # Of a share at an end the limits are off it by their shift.
    low, high = min(*found.ci_low, *found.share, *invisible), max(*found.ci_high, *found.share)
    variance = share**2 * spread[0] + (1 - share) ** 2 * spread[1]
    more = norm.ppf((1 + confidence) / 2) * np.sqrt(variance) / (sensitivity + specificity - 1)
    shares = {
        "estimate_corrected": share,
        "ci_low": max(share - np.hypot(share - low, more), 0),
        "ci_high": min(share + np.hypot(high - share, more), 1),
    }
    if alone:
        shares |= {"estimate_lower_bound": min(alone), "estimate_upper_bound": max(alone)}
    reason = DOMINATES if stats.correction_dominates(row["estimate"] / 100, share) else ""
    return {name: 100 * value for name, value in shares.items()} | {"reason": reason}


def _corrected_difference(row: dict, known: np.ndarray, confidence: float) -> dict:
    rates, sizes = known[:2], known[2:]
    youden = rates.sum() - 1
    value, quantile = row["estimate"] / youden, t.ppf((1 + confidence) / 2, max(row["n"] - 1, 1))
    # One right and one wrong image more (as Lang & Reiczigel): a judge that never erred may yet.
    likely = (rates * sizes + 1) / (sizes + 2)
    of_judge = value / youden * np.sqrt((likely * (1 - likely) / sizes).sum())
    ends = (row[end] - row["estimate"] for end in ("ci_low", "ci_high"))
    below, above = (np.hypot(end / youden, quantile * of_judge) for end in ends)
    return {"estimate_corrected": value, "ci_low": value - below, "ci_high": value + above}


def _variance_between(rates: _Rates) -> np.ndarray:
    """Return the variance (0–1) that sensitivity and specificity of all subjects have for a single one, beyond chance.

    The variance between subjects is estimated by moments (Cochran 1954, Biometrics 10, 101–129).
    """
    each = [known for (subject, condition), known in rates.known.items() if condition == ALL != subject]
    variances = np.zeros(2)
    for k, mean in enumerate(rates.known[ALL, ALL][:2]):
        value, n = np.array([known[[k, k + 2]] for known in each if not np.isnan(known[k])]).reshape(-1, 2).T
        if len(n) > 1:
            square, even = (n**2).sum() / n.sum(), mean * (1 - mean)
            between = (n @ (value - mean) ** 2 - even * (len(n) - 1)) / (n.sum() - square)
            variances[k] = max(between, 0) * (1 + square / n.sum())
    return variances
