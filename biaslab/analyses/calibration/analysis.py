"""How often judges are right where the truth is known, and results corrected for their errors.

A confusion has the columns of ``dalleval_confusion`` and of the tables like it: a row per image, truth and answer.
``paper`` is the paper whose results rest on the judge, ``confidence`` (0–1) the level of intervals. In results
``subject`` and ``condition`` are ``all``, or one of those that the confusion names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import norm, t

from biaslab import stats
from biaslab.judges.judge_labels import JUDGED
from biaslab.metrics.similarity import DEPENDENCY_GROUPS
from biaslab.schema import tables
from biaslab.schema.genders import GENDERS

ALL = "all"
NEITHER = "neither"
"""What an image shows by the reference that shows no woman or man: nobody, several people, or annotators are unsure."""
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


def error(answers: pd.DataFrame, *, paper: str, confidence: float = 0.95) -> pd.DataFrame:
    """Return ``calibration_error`` of a confusion: how often answers are right, by quantity, subject and condition.

    Images are the sampling unit: intervals of shares are :func:`biaslab.stats.clustered_share`'s, which are Wilson's
    where each image has one answer, those of means Student's t. Measures without an answer have no row. Of objects
    there is also the recall in images of men minus that in images of women, with the limits of Newcombe (1998) of two
    independent shares, and the p of this interval, adjusted over single objects (Holm).
    """
    rows = []
    for key, judged in answers.groupby(_JUDGEMENT, sort=False):
        about = dict(zip(_JUDGEMENT, key, strict=True)) | {"paper": paper}
        measures = _MEASURES.get(str(about["quantity"]).partition(":")[0], _yes_or_no)
        for subject, condition, cell in _cells(judged):
            at = about | {"subject": subject, "condition": condition}
            rows += [at | row for row in measures(cell, confidence)]
    errors = tables.make_table(rows, "calibration_error")
    return tables.join_tables([errors, _recall_differences(errors, confidence)], "calibration_error")


def _cells(judged: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield subject, condition and rows, of all together and of each."""
    # Where an image can have several subjects, rows without a subject count each image once.
    once = judged[judged["subject"] == ""]
    named = judged[judged["subject"] != ""].groupby("subject", sort=False)
    for subject, rows in ((ALL, once if len(once) else judged), *named):
        yield str(subject), ALL, rows
        for condition, cell in rows[rows["condition"] != ""].groupby("condition", sort=False):
            yield str(subject), str(condition), cell


def _shares(
    cell: pd.DataFrame, measures: Mapping[str, tuple[pd.Series, pd.Series]], confidence: float
) -> dict[str, dict]:
    """Return rows of shares (%) by measure, which says of which answers the share is, and which of them count."""
    rows = {}
    for measure, (of, hits) in measures.items():
        if of.any():
            counted = cell[of].assign(hits=cell["n"].where(hits, 0))
            images = counted.groupby("image_id")[["hits", "n"]].sum()
            share = stats.clustered_share(images["hits"], images["n"], confidence)
            row = dict(zip(_ENDS, (100 * end for end in share[:3]), strict=True))
            rows[measure] = row | {"measure": measure, "n": share.n, "n_images": len(images)}
    return rows


def _two_classes(cell: pd.DataFrame, classes: tuple[str, str], confidence: float) -> dict[str, dict]:
    answered, (positive, negative) = cell["answer"].isin(classes), classes
    measures = {
        "sensitivity": (answered & (cell["truth"] == positive), cell["answer"] == positive),
        "specificity": (answered & (cell["truth"] == negative), cell["answer"] == negative),
        "classified": (cell["truth"].isin(classes), answered),
    }
    rows = _shares(cell, measures, confidence)
    if {"sensitivity", "specificity"} <= rows.keys():
        n_images = cell.loc[answered & cell["truth"].isin(classes), "image_id"].nunique()
        rows["youden"] = _youden(rows["sensitivity"], rows["specificity"]) | {"n_images": n_images}
    return rows


def _youden(sensitivity: dict, specificity: dict) -> dict:
    """Return the row of sensitivity + specificity − 100, with Newcombe's limits (1998) of independent shares."""
    value = sensitivity["value"] + specificity["value"] - 100
    # The difference of sensitivity and the share of false positives, whose upper limit is that of specificity's lower.
    false = [100 - specificity[end] for end in ("value", "ci_high", "ci_low")]
    limits = stats.difference_interval(*false, *(sensitivity[end] for end in _ENDS))
    row = {"measure": "youden", "value": value, "ci_low": limits.low, "ci_high": limits.high}
    row["n"] = sensitivity["n"] + specificity["n"]
    return row | {"reliable": "yes" if value >= 100 * stats.MIN_YOUDEN else "no"}


def _yes_or_no(cell: pd.DataFrame, confidence: float) -> list[dict]:
    return list(_two_classes(cell, ("yes", "no"), confidence).values())


def _gender(cell: pd.DataFrame, confidence: float) -> list[dict]:
    answered, shown = cell["answer"].isin(GENDERS), cell["truth"].isin(GENDERS)
    measures = {"accuracy": (answered & shown, cell["answer"] == cell["truth"])}
    measures |= {f"classified_{truth}": (cell["truth"] == truth, answered) for truth in (*GENDERS, NEITHER)}
    rows = _two_classes(cell, GENDERS, confidence) | _shares(cell, measures, confidence)
    return list(rows.values())


def _scale(cell: pd.DataFrame, confidence: float) -> list[dict]:
    """Return measures of answers that are whole numbers."""
    answered = cell["answer"].str.isdecimal()
    known = cell[answered]
    off = known["answer"].astype(float) - known["truth"].astype(float)
    every = pd.Series(True, cell.index)
    shares = _shares(cell, {"classified": (every, answered)}, confidence)
    shares |= _shares(known, {f"within_{most}": (every[answered], off.abs() <= most) for most in range(4)}, confidence)
    rows, each = list(shares.values()), np.repeat(known.index, known["n"])
    images = known.loc[each, "image_id"]
    for measure, values in (("mean_difference", off.abs()), ("mean_error", off)):
        mean = stats.mean_interval(values[each], confidence, clusters=images)
        if mean.n:
            rows.append({"measure": measure, **mean._asdict(), "n_images": images.nunique()})
    return rows


def _objects(cell: pd.DataFrame, confidence: float) -> list[dict]:
    """Return measures of what is detected, shown or both; what is neither is not counted."""
    detected, shown = cell["answer"] == "yes", cell["truth"] == "yes"
    rows = list(_shares(cell, {"precision": (detected, shown), "recall": (shown, detected)}, confidence).values())
    matched = cell.dropna(subset="iou")
    if len(matched):
        overlap = (100 * matched["iou"] * matched["n"]).groupby(matched["image_id"]).sum()
        n = matched.groupby("image_id")["n"].sum()
        mean = stats.mean_interval(overlap / n, confidence)._asdict()
        rows.append({"measure": "mask_iou"} | mean | {"n": int(n.sum()), "n_images": len(n)})
    return rows


def _groups(cell: pd.DataFrame, confidence: float) -> list[dict]:
    """Return precision, recall and F1 of each dependency group, and the mean of F1 over groups.

    F1 has the limits of the share of both among what is planted or measured; their mean has limits as if groups were
    independent (Zou and Donner 2008, https://doi.org/10.1002/sim.3095).
    """
    rows = []
    for group in DEPENDENCY_GROUPS:
        planted, measured = cell["truth"] == group, cell["answer"] == group
        measures = {"precision": (measured, planted), "recall": (planted, measured)}
        shares = _shares(cell, measures | {"f1": (planted | measured, planted & measured)}, confidence)
        for end in _ENDS if "f1" in shares else ():
            shares["f1"][end] *= 2 / (1 + shares["f1"][end] / 100)
        rows += [row | {"subject": group} for row in shares.values()]
    each = np.array([[row[end] for end in _ENDS] for row in rows if row["measure"] == "f1"])
    if len(each):
        mean = each[:, 0].mean()
        below, above = np.sqrt(((each[:, 1:] - each[:, :1]) ** 2).sum(axis=0)) / len(each)
        n = {"n": int(cell["n"].sum()), "n_images": cell["image_id"].nunique()}
        rows.append({"measure": "f1", "value": mean, "ci_low": mean - below, "ci_high": min(100, mean + above)} | n)
    return rows


_MEASURES = {
    "gender": _gender,
    "number": _scale,
    "skin tone": _scale,
    "objects": _objects,
    "people": _objects,
    "dependency group": _groups,
}


def _recall_differences(errors: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """Return the rows of recall in images of men minus that in images of women."""
    recall, keys = errors[errors["measure"] == "recall"], ["paper", *_JUDGEMENT, "subject"]
    female, male = (recall[recall["condition"] == gender].set_index(keys) for gender in GENDERS)
    both = female.index.intersection(male.index, sort=False)
    female, male = female.loc[both], male.loc[both]
    limits = stats.difference_interval(*(side[end].to_numpy() for side in (female, male) for end in _ENDS))
    value = male["value"] - female["value"]
    rows = pd.DataFrame({"value": value, "ci_low": limits.low, "ci_high": limits.high}).assign(
        condition=MALE_MINUS_FEMALE,
        measure="recall_difference",
        n=female["n"] + male["n"],
        n_images=female["n_images"] + male["n_images"],
        p=_p_of_interval(value, limits.low, limits.high, confidence),
    )
    rows = rows.reset_index()
    # People are single objects, too.
    family = np.where(rows["subject"] == ALL, rows["quantity"], "single")
    tests = rows["p"].groupby([*(rows[name] for name in keys[:4]), family])
    return tables.make_table(rows.assign(p_holm=tests.transform(stats.adjust, "holm")), "calibration_error")


def _p_of_interval(value: ArrayLike, low: ArrayLike, high: ArrayLike, confidence: float) -> np.ndarray:
    """Return the two-sided p that an interval about 0 has, below 1 - confidence exactly where it excludes 0.

    As if the half of it towards 0 were that of a normal distribution: for intervals that no test goes with.
    """
    value, low, high = (np.asarray(x, float) for x in (value, low, high))
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
    Where errors differ by condition, such as ways of failing, the mix of conditions among the images is unknown: the
    limits are the outermost of those that each condition alone gives, so that they hold for every mix (95 % ones cover
    97 to 100 %, ``benchmarks/coverage_skills.py``). A condition that is not discriminated from success could be any of
    the images: then the lower limit is 0. A difference is divided by sensitivity + specificity − 1, as if the judge
    erred alike on both sides (delta method). Where that is below :data:`biaslab.stats.MIN_YOUDEN` there is a reason in
    place of a corrected value.

    Args:
        estimates: model, quantity, subject (empty: none), condition, estimate (share in percent, or difference in
            points) and n; ci_low and ci_high of differences; where known estimate_true and reason.
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
