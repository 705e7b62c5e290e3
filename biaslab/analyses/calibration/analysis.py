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
"""Label of an image whose reference is not one woman or man: no person, several people, or unsure annotators."""
SIMULATED = "simulated"
"""Name of the simulated reference, which corrects no results."""
MIN_IMAGES = 30
"""Minimum reference images of each class for a subject's own sensitivity and specificity."""
MALE_MINUS_FEMALE = " - ".join(reversed(GENDERS))
UNKNOWN = "the judge's error is unknown, because reference images are missing"
NOT_JUDGED = "no image was judged"
UNRELIABLE = "the judge's errors are too frequent"
DOMINATES = "the correction exceeds the corrected estimate"

_JUDGEMENT = ["model", "judge", "reference", "quantity"]
_RATES = ["sensitivity", "specificity"]
_UNKNOWN_RATES = np.full(4, np.nan)
_ENDS = ["value", "ci_low", "ci_high"]


def confusion(answers: pd.DataFrame, *, paper: str) -> pd.DataFrame:
    """Return ``calibration_confusion``: a confusion, summed over images."""
    keys = [*_JUDGEMENT, "subject", "condition", "truth", "answer"]
    counts = answers.groupby(keys, sort=False, as_index=False)["n"].sum()
    return tables.make_table(counts.assign(paper=paper), "calibration_confusion")


def gender_confusion(
    judgements: Mapping[str, pd.DataFrame], references: Mapping[str, pd.Series], *, model: str = "", judge: str = ""
) -> pd.DataFrame:
    """Return the confusion of a gender judge, by source of the images and by reference.

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
        labels = truth.dropna().astype(str)
        true_labels = rows["image_id"].map(labels.where(labels.isin(GENDERS), NEITHER).to_dict())
        answer = rows["gender"].where(rows["status"] == JUDGED, rows["status"])
        table = rows[["image_id"]].assign(subject=rows["occupation"].astype(str), truth=true_labels, answer=answer)
        table = table.dropna(subset="truth").assign(reference=reference, quantity=f"gender: {source}")
        frames += [table.drop_duplicates("image_id").assign(subject=""), table]
    return pd.concat(frames, ignore_index=True).assign(model=model, judge=judge, condition="", n=1)


# -- errors ----------------------------------------------------------------------------------------------

Masks = dict[str, tuple[pd.Series, pd.Series]]
"""By measure: the answers in the denominator of the share, and those in its numerator."""


def error(answers: pd.DataFrame, *, paper: str, confidence: float = 0.95) -> pd.DataFrame:
    """Return ``calibration_error`` of a confusion: how often answers are right, by quantity, subject and condition.

    Images are the sampling unit: intervals of shares are :func:`biaslab.stats.clustered_share`'s, which are Wilson's
    where each image has one answer, those of means over images Student's t. The limits of F1 are transformed from those
    of the share shown and detected among those shown or detected. Limits of its mean over dependency groups assume that
    these are independent (Zou and Donner 2008, https://doi.org/10.1002/sim.3095). Objects also have the recall in
    images of men minus that in images of women, with Newcombe's limits (1998) of two independent shares, and the p of
    this interval, adjusted over single objects (Holm). A measure without answers has no row.
    """
    rows: list[dict] = []
    for key, judge_rows in answers.groupby(_JUDGEMENT, sort=False):
        about = dict(zip(_JUDGEMENT, key, strict=True)) | {"paper": paper}
        kind = str(about["quantity"]).partition(":")[0]
        records = []
        for subject, condition, cell in _cells(judge_rows, kind):
            measures = _measures(cell, kind, confidence)
            records += [{"subject": subject, "condition": condition, "measure": name} | row for name, row in measures]
        if kind == "dependency group" and records:
            records.append(_mean_f1(records, judge_rows))
        rows += [about | row for row in records]
    errors = tables.make_table(rows, "calibration_error")
    return tables.join_tables([errors, _recall_differences(errors, confidence)], "calibration_error")


def _cells(judge_rows: pd.DataFrame, kind: str) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield subject, condition and rows: of all rows, and of each subject and condition.

    Each dependency group is a subject, with ``yes`` in place of its name and ``no`` in place of all others.
    """
    if kind == "dependency group":
        for group in DEPENDENCY_GROUPS:
            sides = {side: np.where(judge_rows[side] == group, "yes", "no") for side in ("truth", "answer")}
            yield group, ALL, judge_rows.assign(**sides)
        return
    # Where an image can have several subjects, rows without a subject count each image once.
    image_rows = judge_rows[judge_rows["subject"] == ""]
    subject_groups = judge_rows[judge_rows["subject"] != ""].groupby("subject", sort=False)
    for subject, rows in ((ALL, image_rows if len(image_rows) else judge_rows), *subject_groups):
        yield str(subject), ALL, rows
        for condition, cell in rows[rows["condition"] != ""].groupby("condition", sort=False):
            yield str(subject), str(condition), cell


def _measures(cell: pd.DataFrame, kind: str, confidence: float) -> Iterator[tuple[str, dict]]:
    """Yield the name and columns of each measure of a cell that has answers."""
    truth, answer, means = cell["truth"], cell["answer"], {}
    if kind in ("number", "skin tone"):
        has_answer = answer.str.isdecimal()
        errors = answer[has_answer].astype(float) - truth[has_answer].astype(float)
        masks: Masks = {f"within_{max_error}": (has_answer, errors.abs() <= max_error) for max_error in range(4)}
        masks["classified"] = (has_answer | True, has_answer)
        means = {"mean_difference": errors.abs(), "mean_error": errors}
    elif kind in ("objects", "people", "dependency group"):
        # Objects that are neither shown nor detected do not count.
        is_shown, is_detected = truth == "yes", answer == "yes"
        masks = {"precision": (is_detected, is_shown), "recall": (is_shown, is_detected)}
        masks["f1"] = (is_shown | is_detected, is_shown & is_detected)
        means = {"mask_iou": 100 * cell["iou"].dropna()}
    else:
        masks = _class_masks(truth, answer, GENDERS if kind == "gender" else ("yes", "no"))
    shares = {name: _share(cell[base], hits, confidence) for name, (base, hits) in masks.items() if base.any()}
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
    positive, negative = classes
    has_answer, has_truth = answer.isin(classes), truth.isin(classes)
    masks = {
        "sensitivity": (has_answer & (truth == positive), answer == positive),
        "specificity": (has_answer & (truth == negative), answer == negative),
        "classified": (has_truth, has_answer),
    }
    if classes == GENDERS:
        masks["accuracy"] = (has_answer & has_truth, answer == truth)
        masks |= {f"classified_{name}": (truth == name, has_answer) for name in (*GENDERS, NEITHER)}
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


def _mean_f1(rows: list[dict], judge_rows: pd.DataFrame) -> dict:
    value, low, high = np.array([[row[end] for end in _ENDS] for row in rows if row["measure"] == "f1"]).T
    below, above = (np.sqrt(((end - value) ** 2).sum()) / len(value) for end in (low, high))
    row = {"value": value.mean(), "ci_low": value.mean() - below, "ci_high": min(100, value.mean() + above)}
    row |= {"subject": ALL, "condition": ALL, "measure": "f1"}
    return row | {"n": int(judge_rows["n"].sum()), "n_images": judge_rows["image_id"].nunique()}


def _recall_differences(errors: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """Return the rows of recall in images of men minus that in images of women."""
    recall, keys = errors[errors["measure"] == "recall"], ["paper", *_JUDGEMENT, "subject"]
    female, male = (recall[recall["condition"] == gender].set_index(keys) for gender in GENDERS)
    shared_keys = female.index.intersection(male.index, sort=False)
    female, male = female.loc[shared_keys], male.loc[shared_keys]
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
    """Return the two-sided p implied by an interval, below 1 - confidence exactly where the interval excludes 0.

    The half-width towards 0 is taken as that of a normal distribution: for intervals without a test of their own.
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
    limits are the outermost of those of single conditions, so they are valid for every mix (95% ones cover 97 to
    100%, ``benchmarks/coverage_skills.py``). If a condition is not discriminated from success, the lower limit is 0. A
    difference is divided by sensitivity + specificity − 1, which assumes equal errors in both groups (delta method). If
    that is below :data:`biaslab.stats.MIN_YOUDEN`, a reason replaces the corrected value.

    Args:
        estimates: model, quantity, subject (empty: none), condition, estimate (share in percent, or difference in
            points) and n; ci_low and ci_high of differences; estimate_true and reason where available.
        errors: What :func:`error` returns. The first of several references is used, but never simulated annotators.
        paper: The paper of the estimates.
        pool: Whether a subject of fewer than :data:`MIN_IMAGES` reference images of a class takes the errors of all
            subjects. Its interval then includes the variance of errors between subjects.
        confidence: Level of the intervals, 0–1.
    """
    rates, rows = _rates(errors), []
    for row in estimates.assign(paper=paper).to_dict("records"):
        model_rates = rates.get((row["model"], row["quantity"]))
        rows.append(row | dict.fromkeys(("ci_low", "ci_high"), np.nan) | _correct(row, model_rates, pool, confidence))
    return tables.make_table(rows, "calibration_corrected")


class _Rates(NamedTuple):
    """The errors of one judge by one reference."""

    judge: str
    reference: str
    # Sensitivity, specificity (0–1) and the n of each, NaN where unknown, by subject and condition.
    by_cell: dict[tuple[str, str], np.ndarray]

    def by_condition(self, subject: str) -> dict[str, np.ndarray]:
        """Return the errors of a subject by condition."""
        return {condition: rates for (name, condition), rates in self.by_cell.items() if name == subject}


def _rates(errors: pd.DataFrame) -> dict[tuple[str, str], _Rates]:
    """Return the errors that correct a quantity of a model."""
    usable = errors[(errors["reference"] != SIMULATED) & errors["measure"].isin(_RATES)]
    rates_by_quantity = {}
    for (model, quantity), rows in usable.groupby(["model", "quantity"], sort=False):
        judge, reference = rows[["judge", "reference"]].iloc[0]
        rows = rows[(rows["judge"] == judge) & (rows["reference"] == reference)]
        wide = rows.assign(value=rows["value"] / 100).pivot(
            index=["subject", "condition"], columns="measure", values=["value", "n"]
        )
        wide = wide.reindex(columns=pd.MultiIndex.from_product([["value", "n"], _RATES]))
        by_cell = dict(zip(wide.index, wide.to_numpy(float), strict=True))
        rates_by_quantity[str(model), str(quantity)] = _Rates(judge, reference, by_cell)
    return rates_by_quantity


def _correct(row: dict, rates: _Rates | None, pool: bool, confidence: float) -> dict:
    if rates is None:
        return {"reason": UNKNOWN}
    subject = row["subject"] or ALL
    rates_and_sizes = rates.by_cell.get((subject, ALL), _UNKNOWN_RATES)
    if pool and not (rates_and_sizes[2:] >= MIN_IMAGES).all():
        subject, rates_and_sizes = ALL, rates.by_cell.get((ALL, ALL), _UNKNOWN_RATES)
    if np.isnan(rates_and_sizes).any():
        return {"reason": UNKNOWN}
    columns = {"judge": rates.judge, "reference": rates.reference, "subject_of_error": subject}
    names = ("sensitivity", "specificity", "n_sensitivity", "n_specificity")
    columns |= dict(zip(names, [*(100 * rates_and_sizes[:2]), *rates_and_sizes[2:]], strict=True))
    if not row["n"] > 0 or np.isnan(row["estimate"]):
        return columns | {"reason": NOT_JUDGED}
    if rates_and_sizes[:2].sum() - 1 < stats.MIN_YOUDEN:
        return columns | {"reason": UNRELIABLE}
    if "ci_low" in row:
        return columns | _correct_difference(row, rates_and_sizes, confidence)
    is_pooled = pool and subject == ALL and row["subject"] not in ("", ALL)
    spread = _variance_between(rates) if is_pooled else np.zeros(2)
    return columns | _correct_share(row, rates.by_condition(subject), spread, confidence)


def _correct_share(row: dict, rates: dict[str, np.ndarray], spread: np.ndarray, confidence: float) -> dict:
    """Return a corrected share; ``spread`` is the variance of sensitivity and specificity between subjects."""
    sensitivity, specificity, n_sensitivity, _ = rates[ALL]
    conditions = [cell for name, cell in rates.items() if name != ALL and not np.isnan(cell[1])]
    visible = np.array([rates[ALL], *(cell for cell in conditions if sensitivity + cell[1] > 1)])
    count = round(row["estimate"] * row["n"] / 100)
    estimate = stats.corrected_shares(
        count, row["n"], sensitivity, visible[:, 1], n_sensitivity, visible[:, 3], confidence
    )
    # All images may have failed under a condition that the judge cannot distinguish from success.
    invisible = [0.0] * (len(visible) <= len(conditions))
    share, condition_shares = estimate.share[0], [*estimate.share[1:], *invisible]
    # The shifted limits of a share at 0 or 1 may exclude it.
    low, high = min(*estimate.ci_low, *estimate.share, *invisible), max(*estimate.ci_high, *estimate.share)
    variance = share**2 * spread[0] + (1 - share) ** 2 * spread[1]
    extra_half_width = norm.ppf((1 + confidence) / 2) * np.sqrt(variance) / (sensitivity + specificity - 1)
    shares = {
        "estimate_corrected": share,
        "ci_low": max(share - np.hypot(share - low, extra_half_width), 0),
        "ci_high": min(share + np.hypot(high - share, extra_half_width), 1),
    }
    if condition_shares:
        shares |= {"estimate_lower_bound": min(condition_shares), "estimate_upper_bound": max(condition_shares)}
    reason = DOMINATES if stats.correction_dominates(row["estimate"] / 100, share) else ""
    return {name: 100 * value for name, value in shares.items()} | {"reason": reason}


def _correct_difference(row: dict, rates_and_sizes: np.ndarray, confidence: float) -> dict:
    rates, sizes = rates_and_sizes[:2], rates_and_sizes[2:]
    youden = rates.sum() - 1
    value, quantile = row["estimate"] / youden, t.ppf((1 + confidence) / 2, max(row["n"] - 1, 1))
    # One correct and one wrong image are added (as Lang & Reiczigel): a judge without observed errors may still err.
    shrunken_rates = (rates * sizes + 1) / (sizes + 2)
    judge_error = value / youden * np.sqrt((shrunken_rates * (1 - shrunken_rates) / sizes).sum())
    ends = (row[end] - row["estimate"] for end in ("ci_low", "ci_high"))
    below, above = (np.hypot(end / youden, quantile * judge_error) for end in ends)
    return {"estimate_corrected": value, "ci_low": value - below, "ci_high": value + above}


def _variance_between(rates: _Rates) -> np.ndarray:
    """Return the variance of a single subject's sensitivity and specificity (0–1) around those of all, beyond sampling.

    The variance between subjects is estimated by moments (Cochran 1954, Biometrics 10, 101–129).
    """
    subject_rates = [
        rates_and_sizes
        for (subject, condition), rates_and_sizes in rates.by_cell.items()
        if condition == ALL != subject
    ]
    variances = np.zeros(2)
    for k, mean in enumerate(rates.by_cell[ALL, ALL][:2]):
        value, n = (
            np.array(
                [rates_and_sizes[[k, k + 2]] for rates_and_sizes in subject_rates if not np.isnan(rates_and_sizes[k])]
            )
            .reshape(-1, 2)
            .T
        )
        if len(n) > 1:
            square, even = (n**2).sum() / n.sum(), mean * (1 - mean)
            between = (n @ (value - mean) ** 2 - even * (len(n) - 1)) / (n.sum() - square)
            variances[k] = max(between, 0) * (1 + square / n.sum())
    return variances
