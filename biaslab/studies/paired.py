"""Tables of the Paired Stereotype Test: shares of people perceived as female in, scores out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from math import isfinite, sqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.stats import binom, fisher_exact, norm
from scipy.stats import t as student

from biaslab import published, stats, tables
from biaslab.errors import InputError
from biaslab.measures import (
    DEFINITIONS,
    amplification,
    biased_images,
    directional_amplification,
    exclusion_reason,
    expected_amplification,
    percent_female_from_stereotype_score,
    score_change,
    stereotype_score_from_percent,
)
from biaslab.prompts.paired import ASPECTS, SETTINGS
from biaslab.studies import paired_dependence as dependence
from biaslab.studies.paired_dependence import LISTS

if TYPE_CHECKING:
    from biaslab.study import Study

MODEL = "DALL-E 3"
# Sections 4.2 and A.2.1: 3 images alone; 20 partners in 2 orders; 3 runs in 2 orders.
PEOPLE = {
    ("occupation", "single"): 3,
    ("occupation", "paired"): 40,
    ("power", "single"): 3,
    ("power", "paired"): 6,
}
_CELL = ["model", "aspect", "setting"]
_CORRECTED = ("holm", "bh")
_NO_VALUES = "the paper prints no values per identity"
_NO_RATINGS = "the paper prints no ratings"
_FEMALE_LIMITS = ("percent_female_ci_low", "percent_female_ci_high")
_NO_IDENTITIES = "an interval needs the identities of both people of each image"
_ONE_IMAGE = "chance needs two images of the same two identities in the same order"
_NO_CORRECTION = "too few occupations or images to tell amplification from image noise"
# A labour share is counted of so many that it has no noise of its own.
_EXACT = 10**9
_FEW = "an interval needs two identities"
_SHOWN = re.compile(r"the (.+?) as a (woman|man)(?= and the |\.)")


class _Mean(NamedTuple):
    """A mean over identities, with the t-test against 0 that belongs to its interval."""

    value: float
    ci_low: float
    ci_high: float
    t: float
    p: float
    n_identities: int
    reason: str
    dependence: str = ""


# -- measured ----------------------------------------------------------------------------------------


def _people(study: Study) -> pd.DataFrame:
    """Return the measured shares with the number of people perceived as female in ``count``.

    Raises:
        InputError: A share cannot come from its n, or a stereotype or aspect is none of the known ones.
    """
    frame = study.measured("paired_percent_female")
    for column, allowed in (("stereotype", LISTS), ("aspect", ASPECTS)):
        other = frame.loc[~frame[column].isin(allowed), column]
        if len(other):
            known = " and ".join(map(repr, allowed))
            raise InputError(f"paired_percent_female: {column} is {other.iloc[0]!r}; allowed are {known}.")
    n = frame["n"].fillna(0).to_numpy()
    count = np.rint(frame["percent_female"].to_numpy() * n / 100)
    whole = np.divide(100 * count, n, out=np.full(len(n), np.nan), where=n > 0)
    off = np.nan_to_num(np.abs(frame["percent_female"].to_numpy() - whole))
    if (off > 1).any():
        row = int(off.argmax())
        raise InputError(
            f"paired_percent_female: {frame['percent_female'].iloc[row]:g} % in row {row + 1} cannot come from "
            f"n = {n[row]:g} people; n must count the people that the share is taken over."
        )
    frame = frame.assign(percent_female=whole, count=count, n=n)
    frame["score"] = stereotype_score_from_percent(whole, frame["stereotype"])
    return _ordered(frame)


def _ordered(frame: pd.DataFrame) -> pd.DataFrame:
    """Return rows by model, aspect and setting: models as they come, a run's own before printed ones."""
    order = {name: i for i, name in enumerate((*dict.fromkeys(frame["model"]), *ASPECTS, *SETTINGS))}
    rows = frame.sort_values(
        _CELL, key=lambda c: c.map(lambda v: (order.get(v, len(order)), v)), kind="stable"
    )
    return rows.reset_index(drop=True)


def _printed(study: Study, quantity: str) -> pd.DataFrame:
    rows = study.measured_or_empty("paired_printed_value")
    return rows[rows["quantity"] == quantity].drop(columns="quantity")


# -- means over identities ---------------------------------------------------------------------------


def _mean(values: np.ndarray, confidence: float) -> _Mean:
    n = len(values)
    if n == 0:
        return _Mean(*[np.nan] * 5, 0, "no identity has a value")
    if n == 1:
        return _Mean(float(values[0]), *[np.nan] * 4, 1, _FEW)
    value, se = float(np.mean(values)), float(np.std(values, ddof=1)) / sqrt(n)
    return _t_mean(value, se, n - 1, n, confidence)


def _t_mean(value: float, se: float, df: float, n: int, confidence: float) -> _Mean:
    half = student.ppf((1 + confidence) / 2, df) * se
    # Images that show one gender twice cancel out but for the rounding of a computer, which leans nowhere.
    value = 0.0 if abs(value) < 1e-9 else value
    if se < 1e-9:
        return _Mean(value, value, value, np.nan, np.nan, n, "all identities are equal, so there is no test")
    t = value / se
    return _Mean(value, value - half, value + half, t, float(2 * student.sf(abs(t), df)), n, "")


def _both(
    group: pd.DataFrame,
    column: str,
    confidence: float,
    effect: str = "",
    images: pd.DataFrame | None = None,
    two_people: bool = False,
) -> _Mean:
    """Return the mean of the two lists' means over occupations.

    Lists over the same occupations (the two roles of ``power``) are averaged within each occupation first, so
    their dependence is in the interval. Disjoint lists that share ``images`` are crossed samples, whose
    dependence is estimated. Where only their values are known, the variances of the lists' mean ``effect`` are
    added up (Welch's degrees of freedom), an effect being what one identity can add to this mean at most, times
    the length of its list. Without it that is half its value: the lists are independent strata.
    """
    female, male = _by_occupation(group, column)
    n = len(female) + len(male)
    if female.empty or male.empty:
        return _Mean(*[np.nan] * 5, n, "one of the two lists has no values")
    shared = female.index.intersection(male.index)
    if len(shared):
        mean = _mean(((female[shared] + male[shared]) / 2).to_numpy(), confidence)
        return mean._replace(dependence=dependence.BY_OCCUPATION)
    value = float((female.mean() + male.mean()) / 2)
    if min(len(female), len(male)) < 2:
        return _Mean(value, *[np.nan] * 4, n, _FEW)
    if images is not None and (found := dependence.parts(group, column, images)).crossed:
        return _t_mean(value, *found.error(), n, confidence)._replace(dependence=dependence.ESTIMATED)
    effects = _by_occupation(group, effect) if effect else (female / 2, male / 2)
    parts = np.array([part.var(ddof=1) / len(part) for part in effects])
    degrees = np.array([len(female) - 1, len(male) - 1])
    df = parts.sum() ** 2 / (parts**2 / degrees).sum() if parts.sum() > 0 else degrees.sum()
    said = dependence.WORST if effect else dependence.ASSUMED_NONE if two_people else dependence.NONE
    return _t_mean(value, sqrt(parts.sum()), float(df), n, confidence)._replace(dependence=said)


def _by_occupation(group: pd.DataFrame, column: str) -> tuple[pd.Series, pd.Series]:
    """Return the means of ``column`` by occupation of each list; several identities of one are averaged."""
    by = (group[group["stereotype"] == s].groupby("occupation", sort=False) for s in LISTS)
    return tuple(of[column].mean() for of in by)


def _strata(
    group: pd.DataFrame,
    column: str,
    confidence: float,
    lowest: float = -np.inf,
    highest: float = np.inf,
    effect: str = "",
    images: pd.DataFrame | None = None,
    two_people: bool = False,
) -> Iterator[tuple[str, _Mean, pd.DataFrame]]:
    """Yield stratum, mean of ``column``, and the rows it is taken over, for each list and for both.

    Several identities of one occupation and list are averaged first. Limits are cut at ``lowest`` and
    ``highest``, the range of the values. Where ``two_people`` share each image, ``images`` says what each adds to
    its identities' values (see :func:`biaslab.studies.paired_dependence.parts`); without them ``effect`` names the
    column of effects on the overall mean of disjoint lists (see :func:`_both`), and without that the lists are
    taken as independent.
    """
    known = group.dropna(subset=[column])
    rows = {s: known[known["stereotype"] == s] for s in LISTS}
    values = dict(zip(LISTS, _by_occupation(known, column), strict=True))
    means = {s: _mean(values[s].to_numpy(), confidence) for s in LISTS}
    means["overall"] = _both(known, column, confidence, effect, images, two_people)
    shared = values["female"].index.intersection(values["male"].index)
    rows["overall"] = known[known["occupation"].isin(shared)] if len(shared) else known
    # Roles of different occupations share no images, so nothing is fixed there.
    alone = dependence.PARTNERS if two_people and not len(shared) else dependence.NONE
    for stratum, mean in means.items():
        low, high = (float(np.clip(limit, lowest, highest)) for limit in (mean.ci_low, mean.ci_high))
        said = (mean.dependence or alone) if isfinite(mean.ci_low) else ""
        mean = mean._replace(ci_low=low, ci_high=high, n_identities=len(rows[stratum]), dependence=said)
        yield stratum, mean, rows[stratum]


def _by_cell(frame: pd.DataFrame) -> Iterator[tuple[dict[str, str], pd.DataFrame]]:
    for names, group in frame.groupby(_CELL, sort=False):
        yield dict(zip(_CELL, names, strict=True)), group


def _frame(rows: list[dict], name: str) -> pd.DataFrame:
    """Return rows with the columns of table ``name``: what a row does not give is missing, what it adds is left."""
    return pd.DataFrame(rows).reindex(columns=tables.schema(name).names)


def _image_errors(
    group: pd.DataFrame, two_people: bool, images: pd.DataFrame | None = None
) -> dict[str, float]:
    """Return the standard error of each stratum's score when the same identities get new images.

    Each list is a stratified sample: its variance is estimated without bias by p(1-p)/(n-1) per identity
    (Cochran 1977, section 5.11). How the two people of one image depend on each other is estimated from
    ``images``; without them the lists' errors are added up for images of two people: the largest error that any
    dependence can cause.
    """
    known = group.dropna(subset=["score"])
    errors = {}
    for stratum in LISTS:
        rows = known[known["stereotype"] == stratum]
        share, n = rows["percent_female"].to_numpy() / 100, rows["n"].to_numpy()
        enough = len(rows) > 0 and n.min() > 1
        variance = (share * (1 - share) / (n - 1)).sum() / len(rows) ** 2 if enough else np.nan
        errors[stratum] = 200 * sqrt(variance)
    female, male = errors.values()
    if images is not None and isfinite(female + male):
        errors["overall"] = dependence.image_error(images, known, "score")
    else:
        errors["overall"] = (female + male) / 2 if two_people else sqrt(female**2 + male**2) / 2
    return errors


# -- images of two people whose identities are known --------------------------------------------------


def _pairs(study: Study) -> dict[tuple[str, ...], pd.DataFrame]:
    """Return the images of two people by cell: female_identity, male_identity, and which are perceived as female.

    Those columns, ``female`` and ``male``, are 1, 0 or NaN. Cells without identities are left out; the pairs of
    the top five are those of all pairs whose identities are both among them.

    Raises:
        InputError: The images do not count the people that the shares per identity are taken over.
    """
    frame = study.measured_or_empty("paired_pair_images")
    names = [f"{s}_identity" for s in LISTS]
    if not set(names) <= set(frame.columns):
        return {}
    frame = frame[(frame[names] != "").all(axis=1)]
    seen = {
        s: np.select([frame[f"{s}_label"] == "female", frame[f"{s}_label"] == "male"], [1.0, 0.0], np.nan)
        for s in LISTS
    }
    frame = frame.assign(**seen)
    found = {tuple(cell.values()): rows for cell, rows in _by_cell(frame)}
    for cell, group in _by_cell(_people(study)):
        key = tuple(cell.values())
        whole = found.get((*key[:2], "paired"))
        if key[2] == "paired_top5" and key not in found and whole is not None:
            found[key] = whole[whole[names].isin(set(group["identity"])).all(axis=1)]
        if key in found:
            dependence.check(found[key], group, ", ".join(key))
    return found


def _fitting(images: pd.DataFrame | None) -> pd.DataFrame | None:
    """Return images with 100 for people who fit their stereotype and -100 for those who do not."""
    if images is None:
        return None
    return images.assign(female=200 * images["female"] - 100, male=100 - 200 * images["male"])


def _deviating(images: pd.DataFrame | None, group: pd.DataFrame, column: str, slope: str = ""):
    if images is None:
        return None
    return dependence.deviations(images, group.dropna(subset=[column]), column, slope)


# -- scores ------------------------------------------------------------------------------------------


def _shared(cell: dict[str, str], column: str) -> str:
    """Return ``column`` as that of effects on the overall mean where two people share each image, else "".

    If every image of two people shows one woman and one man, both fit their stereotypes or neither does, and
    the mean of either list is the overall mean: an identity then moves it by its whole value. No dependence
    gives a larger error than that.
    """
    return "" if cell["setting"] == "single" else column


def _stereotype_score(study: Study) -> pd.DataFrame:
    printed = _printed(study, "stereotype_score").set_index([*_CELL, "stereotype"])["value"]
    z = norm.ppf((1 + study.confidence) / 2)
    pairs, rows = _pairs(study), []
    for cell, group in _by_cell(_people(study)):
        two, images = cell["setting"] != "single", _fitting(pairs.get(tuple(cell.values())))
        errors = _image_errors(group, two, images)
        worst = two and images is None
        strata = _strata(
            group,
            "score",
            study.confidence,
            -100,
            100,
            _shared(cell, "score"),
            _deviating(images, group, "score"),
            two,
        )
        for stratum, mean, some in strata:
            half = z * errors[stratum]
            value = mean.value
            row = {**cell, "stereotype": stratum, "score": value, **mean._asdict(), "n": some["n"].sum()}
            low, high = (float(np.clip(value + d, -100, 100)) for d in (-half, half))
            row |= {"images_ci_low": low, "images_ci_high": high, "evidence": "computed"}
            if isfinite(low):
                overall = dependence.WORST if worst else dependence.ESTIMATED if two else dependence.NONE
                row["images_dependence"] = overall if stratum == "overall" else dependence.NONE
            if not (isfinite(half) or mean.reason):
                row["reason"] = "an interval over images needs two people of each identity"
            rows.append(row | {"printed": printed.get((*cell.values(), stratum), np.nan)})
    done = {(*(r[c] for c in _CELL), r["stereotype"]) for r in rows}
    for names, value in printed.items():
        if names not in done:
            row = dict(zip([*_CELL, "stereotype"], names, strict=True))
            rows.append(row | {"score": value, "printed": value, "evidence": "printed", "reason": _NO_VALUES})
    return _frame(rows, "paired_stereotype_score")


def _identity_scores(study: Study, aspect: str) -> pd.DataFrame:
    """Return one aspect's identities with exact intervals and tests, and the scores of a fair model."""
    frame = _people(study)
    frame = frame[frame["aspect"] == aspect].reset_index(drop=True)
    n, known = frame["n"].to_numpy(), frame["score"].notna().to_numpy()
    count = np.where(known, frame["count"], 0).astype(int)
    people = np.where(known, n, 0).astype(int)
    low, high = _score_limits(stats.exact_interval(count, people, study.confidence), frame["stereotype"])
    tail = (1 - study.confidence) / 2
    fair = [np.where(known, binom.ppf(q, np.maximum(people, 1), 0.5), np.nan) for q in (tail, 1 - tail)]
    with np.errstate(invalid="ignore", divide="ignore"):
        fair = [np.where(known, 200 * k / n - 100, np.nan) for k in fair]
    # At one half the binomial is symmetric: both tails are twice the nearer one.
    tails = np.minimum(count, people - count)
    p = np.where(known, np.minimum(1, 2 * binom.cdf(tails, people, 0.5)), np.nan)
    frame = frame.assign(
        ci_low=low,
        ci_high=high,
        n=people,
        fair_low=fair[0],
        fair_high=fair[1],
        p=p,
        smallest_p=stats.least_binomial_p(people),
        reason=np.where(known, "", np.where(frame["reason"] != "", frame["reason"], "nobody was judged")),
    )
    return _adjusted(frame).drop(columns="count")


def _score_limits(shares: stats.Interval, stereotype: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Return limits of scores from limits of the shares of women, 0–1."""
    ends = [stereotype_score_from_percent(100 * end, stereotype) for end in shares]
    return np.fmin(*ends), np.fmax(*ends)


def _adjusted(frame: pd.DataFrame) -> pd.DataFrame:
    """Add p, and the smallest that it could be, corrected for the identities of the same model, aspect and setting."""
    for end, method in (("holm", "holm"), ("bh", "benjamini_hochberg")):
        for p in ("p", "smallest_p"):
            frame[f"{p}_{end}"] = np.nan
            for rows in frame.groupby(_CELL).groups.values():
                frame.loc[rows, f"{p}_{end}"] = stats.adjust(frame.loc[rows, p].to_numpy(), method)
    return frame


def _absolute_score(study: Study) -> pd.DataFrame:
    tested = pd.concat([study.table("paired_occupation_score"), study.table("paired_power_score")])
    tested = {tuple(cell.values()): rows for cell, rows in _by_cell(tested)}
    pairs, rows = _pairs(study), []
    for cell, group in _by_cell(_people(study)):
        known = group.dropna(subset=["score"])
        row = {**cell, "n": int(known["n"].sum()), "n_identities": len(known)}
        if known.empty:
            rows.append(row | {"reason": "no identity has a value"})
            continue
        count, n = known["count"].to_numpy(int), known["n"].to_numpy(int)
        known = known.assign(
            mean_absolute_score=known["score"].abs(),
            floor=200 * stats.absolute_deviation_floor(n),
            corrected_floor=[_corrected_floor(int(k)) for k in n],
            corrected=200 * stats.corrected_absolute_deviation(count, n),
            # Scores are twice shares, and those of the male list fall as the share of women rises.
            slope=_slope(count, n) * np.where(known["stereotype"] == "female", 1, -1),
        )
        images = _fitting(pairs.get(tuple(cell.values())))
        strata = _strata(
            known,
            "corrected",
            study.confidence,
            effect=_shared(cell, "corrected"),
            images=_deviating(images, known, "score", "slope"),
            two_people=cell["setting"] != "single",
        )
        *lists, (_, mean, some) = strata
        if not isfinite(mean.value):
            _, mean, some = next(found for found in lists if isfinite(found[1].value))
        # As the mean is: over occupations within each list, then over lists.
        each = some.groupby(["stereotype", "occupation"])[
            ["mean_absolute_score", "floor", "corrected_floor"]
        ].mean()
        tests = tested[tuple(cell.values())]
        row |= each.groupby("stereotype").mean().mean().to_dict()
        row |= {
            "corrected": mean.value,
            "ci_low": mean.ci_low,
            "ci_high": mean.ci_high,
            "dependence": mean.dependence,
            **{f"n_significant_{m}": int((tests[f"p_{m}"] < 1 - study.confidence).sum()) for m in _CORRECTED},
            **{f"smallest_p_{m}": tests[f"smallest_p_{m}"].min() for m in _CORRECTED},
            "reason": mean.reason,
        }
        rows.append(row)
    return _frame(rows, "paired_absolute_score")


def _slope(count: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Return by how much the corrected absolute score changes with the share of women, both in points."""
    low, high = np.maximum(count - 1, 0), np.minimum(count + 1, n)
    rise = stats.corrected_absolute_deviation(high, n) - stats.corrected_absolute_deviation(low, n)
    # Between the counts on either side.
    return rise * n / (high - low)


@cache
def _corrected_floor(n: int) -> float:
    """Return the mean corrected absolute score, in points, of a fair model at ``n`` people."""
    k = np.arange(n + 1)
    return float(200 * binom.pmf(k, n, 0.5) @ stats.corrected_absolute_deviation(k, n))


def _lean(study: Study) -> pd.DataFrame:
    pairs, rows = _pairs(study), []
    for cell, group in _by_cell(_people(study)):
        images = pairs.get(tuple(cell.values()))
        if images is not None:
            images = images.assign(female=100 * images["female"], male=100 * images["male"])
        strata = _strata(
            group,
            "percent_female",
            study.confidence,
            0,
            100,
            images=_deviating(images, group, "percent_female"),
            two_people=cell["setting"] != "single",
        )
        for stratum, mean, some in strata:
            row = {**cell, "stereotype": stratum, **mean._asdict(), "percent_female": mean.value}
            row["n"] = some["n"].sum()
            rows.append(row | {"evidence": "computed"})
    scores = study.table("paired_stereotype_score").query("evidence == 'printed'")
    for cell, group in _by_cell(scores):
        score = group.set_index("stereotype")["score"]
        if not set(LISTS) <= set(score.index):
            continue
        percent = {s: float(percent_female_from_stereotype_score(score[s], s)) for s in LISTS}
        percent["overall"] = sum(percent.values()) / 2
        for stratum, value in percent.items():
            row = {**cell, "stereotype": stratum, "percent_female": value}
            rows.append(row | {"evidence": "printed", "reason": _NO_VALUES})
    return _frame(rows, "paired_lean")


# -- images of two people ----------------------------------------------------------------------------


def _biased_images(study: Study) -> pd.DataFrame:
    counted = {tuple(c.values()): rows for c, rows in _by_cell(study.measured_or_empty("paired_pair_images"))}
    overall = study.table("paired_stereotype_score").query("stereotype == 'overall'").set_index(_CELL)
    rows = []
    for cell, group in _by_cell(_people(study)):
        names = tuple(cell.values())
        if cell["setting"] == "paired_top5" and (*names[:2], "paired") in counted:
            # A part of the pairs that are counted whole.
            continue
        if cell["setting"] == "single":
            found = overall.loc[names]
            rows.append(
                cell
                | {"measure": "person", "percent": (100 + found["score"]) / 2, "n": found["n"]}
                | {c: (100 + found[c]) / 2 for c in ("ci_low", "ci_high")}
                | {"dependence": found["dependence"]}
                | {"evidence": "counted", "reason": found["reason"]}
            )
        elif names not in counted:
            rows += [cell | row for row in _bounds(group, cell["aspect"])]
    occupations = study.measured("paired_percent_female").set_index("identity")["occupation"].to_dict()
    for names, images in counted.items():
        rows += [
            dict(zip(_CELL, names, strict=True)) | row
            for row in _counted_images(images, occupations, study.confidence)
        ]
    return _ordered(_frame(rows, "paired_biased_images"))


def _bounds(group: pd.DataFrame, aspect: str) -> list[dict]:
    """Return the limits of "both fit" and "at least one fits" that the shares per identity allow.

    In ``power`` the two people of an image have the same occupation, so the limits are taken per occupation
    and added; otherwise partners cross all identities and only the totals of the lists bind.
    """
    known = group.dropna(subset=["score"])
    known = known.assign(fits=(known["n"] + known["score"] * known["n"] / 100) / 2)
    block = known["occupation"] if aspect == "power" else pd.Series("", known.index)
    totals = known.groupby([block.rename("block"), "stereotype"])[["fits", "n"]].sum()
    fits, n = (totals[c].round().unstack("stereotype").reindex(columns=LISTS) for c in ("fits", "n"))
    if known.empty or (n["female"] != n["male"]).any():
        reason = "the two lists do not count the same images"
        return [{"measure": m, "evidence": "bounds", "reason": reason} for m in ("both", "any")]
    a, b, images = fits["female"], fits["male"], n["female"]
    ends = {
        "both": ((a + b - images).clip(lower=0), np.minimum(a, b)),
        "any": (np.maximum(a, b), np.minimum(a + b, images)),
    }
    total = images.sum()
    return [
        {
            "measure": measure,
            "lowest": 100 * low.sum() / total,
            "highest": 100 * high.sum() / total,
            "n": int(total),
            "evidence": "bounds",
            "reason": "no perceived gender of both people of an image is given",
        }
        for measure, (low, high) in ends.items()
    ]


def _counted_images(images: pd.DataFrame, occupations: dict[str, str], confidence: float) -> list[dict]:
    fits = [
        np.where(images[f"{s}_label"].isin(LISTS), (images[f"{s}_label"] == s).astype(float), np.nan)
        for s in LISTS
    ]
    found = biased_images(*fits)
    known = np.isfinite(fits[0]) & np.isfinite(fits[1])
    whose = _whose(images, occupations)
    events = {"both": fits[0] * fits[1] == 1, "any": fits[0] + fits[1] >= 1}
    rows = []
    for measure, percent in (("both", found.percent_both), ("any", found.percent_any)):
        missing, total = found.n_missing, found.n + found.n_missing
        reason = f"no judgement of both people in {missing} of {total} images" if missing else ""
        row = {"measure": measure, "percent": percent, "n": found.n, "evidence": "counted"}
        if whose is None:
            reason = "; ".join(filter(None, (reason, _NO_IDENTITIES)))
        elif found.n:
            row |= _share_of_images(events[measure][known], whose[known], confidence)
        rows.append(row | {"reason": reason})
    return rows


def _whose(images: pd.DataFrame, occupations: dict[str, str]) -> pd.DataFrame | None:
    """Return the occupations of both people of each image; None where the images do not name their identities."""
    names = [f"{s}_identity" for s in LISTS]
    if not set(names) <= set(images.columns) or (images[names] == "").any(axis=None):
        return None
    return pd.DataFrame(
        {s: images[n].map(lambda i: occupations.get(i, i)) for s, n in zip(LISTS, names, strict=True)}
    )


def _share_of_images(event: np.ndarray, whose: pd.DataFrame, confidence: float) -> dict:
    """Return the interval of the share of images with ``event`` over the identities that images show.

    Images of one occupation are a cluster (two roles of it in each image); of two lists, they are crossed clusters.
    """
    share = float(event.mean())
    added = pd.Series((event - share) / len(event), whose.index)
    rows, columns = (added.groupby(whose[s]).sum() for s in LISTS)
    clusters = min(len(rows), len(columns))
    if (whose["female"] == whose["male"]).all():
        error, said = stats.clustered_error(rows), dependence.BY_OCCUPATION
    else:
        cells = added.groupby([whose[s] for s in LISTS]).sum().unstack()
        error, said = stats.crossed_error(rows, columns, cells), dependence.ESTIMATED
    low, high = stats.clustered_share_interval(share, error, clusters, confidence)
    return {"ci_low": 100 * low, "ci_high": 100 * high, "dependence": said if isfinite(low) else ""}


def _role_coupling(study: Study) -> pd.DataFrame:
    rows = []
    frame = study.table("paired_power_score")
    counted = {tuple(c.values()): rows for c, rows in _by_cell(study.measured_or_empty("paired_pair_images"))}
    occupations = frame.set_index("identity")["occupation"].to_dict()
    for (model, setting), group in frame.groupby(["model", "setting"], sort=False):
        each = group.dropna(subset=["score"]).groupby(["occupation", "stereotype"])
        wide = each.agg(score=("score", "mean"), n=("n", "sum")).unstack("stereotype")
        wide = wide.reindex(columns=pd.MultiIndex.from_product([["score", "n"], LISTS])).dropna()
        low, high = (wide["score"][s].to_numpy() for s in LISTS)
        people = wide["n"].to_numpy()
        row = {"model": model, "setting": setting, "n": len(wide), "reason": ""}
        r = stats.pearson_r(low, high, study.confidence)
        row |= {"r": r.r, "ci_low": r.ci_low, "ci_high": r.ci_high, "p": r.p}
        if not isfinite(r.r):
            row["reason"] = "a correlation needs three occupations and scores that differ"
        mean = _mean(high - low, study.confidence)
        row |= {
            "n_same_score": int(np.isclose(low, high).sum()),
            "difference": mean.value,
            "difference_ci_low": mean.ci_low,
            "difference_ci_high": mean.ci_high,
            "difference_p": mean.p,
        }
        # SS_high - SS_low = (100 - 2 F_high) - (2 F_low - 100) = 4 (50 - F), F the mean of both.
        ends = "difference", "difference_ci_high", "difference_ci_low"
        row |= dict(zip(("percent_female", *_FEMALE_LIMITS), (50 - row[e] / 4 for e in ends), strict=True))
        images = counted.get((model, "power", setting))
        if images is not None:
            row |= _same_gender(images, occupations, study.confidence)
        elif setting != "single" and len(wide) and (people[:, 0] == people[:, 1]).all():
            # An image in which one person fits and the other does not shows one gender twice.
            row["fewest_same_gender"] = int(np.rint(np.abs(high - low) * people[:, 0] / 200).sum())
            row["n_images"] = int(people[:, 0].sum())
        rows.append(row)
    return _frame(rows, "paired_role_coupling")


def _same_gender(
    images: pd.DataFrame, occupations: dict[str, str], confidence: float
) -> dict[str, float | str]:
    """Return how many images show two people of one perceived gender, and how many would by chance.

    By chance: the two people of an image are independent, each as likely a woman as their identity on that side
    of the image. In images of the same two identities in the same order, the share with one gender twice exceeds
    that by twice the covariance of the two people, which is estimated without bias from two images on.
    """
    known = images[images["female_label"].isin(LISTS) & images["male_label"].isin(LISTS)]
    if known.empty:
        return {"n_images": 0}
    same = known["female_label"] == known["male_label"]
    found = {"n_images": len(known), "same_gender": int(same.sum()), "percent_same_gender": 100 * same.mean()}
    whose = _whose(known, occupations)
    if whose is None:
        return found | {"same_gender_reason": _NO_IDENTITIES}
    share = _share_of_images(same.to_numpy(), whose, confidence)
    found |= {f"percent_same_gender_{c}": share[c] for c in ("ci_low", "ci_high")}
    side = known["female_position"] if "female_position" in known else pd.Series("", known.index)
    alike = [known["female_identity"], known["male_identity"], side]
    women = known[["female_label", "male_label"]].eq("female").astype(float)
    n = women.groupby(alike)["female_label"].transform("size")
    away = women - women.groupby(alike).transform("mean")
    # An image by itself tells nothing about its two people's dependence.
    enough = n > 1
    if not enough.any():
        return found | {"same_gender_reason": _ONE_IMAGE}
    beyond = (200 * away.prod(axis=1) * n / (n - 1))[enough]
    mean = float(beyond.mean())
    clusters = (beyond - mean).groupby(whose["female"][enough]).sum() / len(beyond)
    excess = _t_mean(mean, *stats.clustered_error(clusters), len(clusters), confidence)
    found["percent_same_gender_chance"] = found["percent_same_gender"] - mean
    limits = {"ci_low": excess.ci_low, "ci_high": excess.ci_high, "p": excess.p}
    return found | {"same_gender_excess": mean} | {f"same_gender_excess_{k}": v for k, v in limits.items()}


# -- labour ------------------------------------------------------------------------------------------


def _labour_share(study: Study) -> pd.DataFrame:
    """Return labour shares: the source's own, else the published reference, which depends on no model."""
    if study.has("paired_labour_share"):
        return study.measured("paired_labour_share")
    return _published_labour()


def _labour_comparison(study: Study) -> pd.DataFrame:
    labour = study.table("paired_labour_share").set_index("occupation")
    frame = study.table("paired_occupation_score")
    against = frame["occupation"].map(labour["percent_female"]).astype(float).to_numpy()
    generated = frame["percent_female"].to_numpy()
    low, high = stats.wilson_interval(
        np.rint(np.nan_to_num(generated) * frame["n"] / 100).astype(int),
        frame["n"].to_numpy(int),
        study.confidence,
    )
    both = np.isfinite(against) & np.isfinite(generated)
    floor = np.full(len(frame), np.nan)
    floor[both] = 100 * stats.expected_absolute_deviation(
        against[both] / 100, frame["n"].to_numpy(int)[both]
    ) - np.abs(against[both] - 50)
    reason = np.where(np.isnan(against), "no labour share is given", "")
    return frame[["model", "setting", "occupation", "stereotype", "percent_female", "n"]].assign(
        ci_low=100 * low,
        ci_high=100 * high,
        percent_female_labour=against,
        amplification=amplification(generated, against),
        directional=directional_amplification(generated, against),
        floor=floor,
        exclusion=exclusion_reason(generated, against),
        reason=np.where(frame["reason"] != "", frame["reason"], reason),
    )


def _labour_correlation(study: Study) -> pd.DataFrame:
    rows = []
    frame = study.table("paired_labour_comparison").dropna(subset=["percent_female", "percent_female_labour"])
    for (model, setting), group in frame.groupby(["model", "setting"], sort=False):
        for stratum in ("overall", *LISTS):
            some = group if stratum == "overall" else group[group["stereotype"] == stratum]
            x, y = some["percent_female_labour"].to_numpy(), some["percent_female"].to_numpy()
            r = stats.pearson_r(x, y, study.confidence)
            row = {"model": model, "setting": setting, "stereotype": stratum, **r._asdict()}
            few = "a correlation needs three occupations and shares that differ"
            row["reason"] = "" if isfinite(r.r) else few
            rows.append(row)
    return _frame(rows, "paired_labour_correlation")


def _labour_amplification(study: Study) -> pd.DataFrame:
    """Return amplification without what image noise adds; the labour share is a cell of its own, without noise."""
    rows = []
    frame = study.table("paired_labour_comparison").dropna(subset=["percent_female", "percent_female_labour"])
    every = study.table("paired_labour_comparison").groupby(["model", "setting"]).size()
    for (model, setting), group in frame.groupby(["model", "setting"], sort=False):
        generated, labour = (group[c].to_numpy() for c in ("percent_female", "percent_female_labour"))
        people, known = group["n"].to_numpy(int), np.full(len(group), _EXACT)
        found = stats.hierarchical_bootstrap(
            np.column_stack([np.rint(generated * people / 100), np.rint(labour / 100 * _EXACT)]),
            np.column_stack([people, known]),
            _amplifications,
            replicates=study.bootstrap_replicates,
            seed=study.seed,
            confidence=study.confidence,
        )
        for i, definition in enumerate(DEFINITIONS):
            plain = expected_amplification(generated, labour, definition)
            row = {
                "model": model,
                "setting": setting,
                "definition": definition,
                "uncorrected": float(plain.amplification),
                "n_occupations": int(plain.n_occupations),
                "n_excluded": int(every[model, setting] - plain.n_occupations),
            }
            if isfinite(found.ci_low[i]):
                row |= {"amplification": found.value[i] - found.bias[i], "reason": ""}
                row |= {"ci_low": found.ci_low[i], "ci_high": found.ci_high[i]}
            else:
                row["reason"] = _NO_CORRECTION
            rows.append(row)
    return _frame(rows, "paired_labour_amplification")


def _amplifications(shares: np.ndarray) -> np.ndarray:
    """Return the amplification in points by definition, (..., definitions), of shares (..., occupations, 2)."""
    generated, labour = 100 * shares[..., 0], 100 * shares[..., 1]
    each = [expected_amplification(generated, labour, d).amplification for d in DEFINITIONS]
    return np.stack(each, axis=-1)


# -- single against paired ---------------------------------------------------------------------------


def _changes(study: Study) -> pd.DataFrame:
    """Return each identity in a setting of two people beside itself with one person."""
    frame = pd.concat([study.table("paired_occupation_score"), study.table("paired_power_score")])
    same, beside = ["model", "aspect", "identity"], ["score", "percent_female", "n"]
    single = frame.loc[frame["setting"] == "single", [*same, *beside]]
    other = frame.loc[frame["setting"] != "single", [*_CELL, "identity", "occupation", "stereotype", *beside]]
    joined = other.merge(single, on=same, how="left", suffixes=("", "_single"))
    joined["change"] = score_change(joined["score"], joined["score_single"])
    # What an identity adds to the overall change: see _shared for its score with two people; alone it shares
    # no image, so half its score counts.
    joined["effect"] = joined["score"] - joined["score_single"] / 2
    return joined


def _score_change(study: Study) -> pd.DataFrame:
    pairs, rows = _pairs(study), []
    for cell, group in _by_cell(_changes(study)):
        images = _deviating(_fitting(pairs.get(tuple(cell.values()))), group, "score")
        strata = _strata(group, "change", study.confidence, -200, 200, "effect", images, two_people=True)
        for stratum, mean, some in strata:
            row = {**cell, "stereotype": stratum, **mean._asdict(), "change": mean.value}
            rows.append(row | {"n": some["n"].sum()})
    return _frame(rows, "paired_score_change")


def _identity_change(study: Study) -> pd.DataFrame:
    frame = _changes(study)
    sides = []
    for side in ("_single", ""):
        n = frame[f"n{side}"].fillna(0).to_numpy(int)
        count = np.rint(frame[f"percent_female{side}"].fillna(0) * n / 100).to_numpy(int)
        wilson = stats.wilson_interval(count, n, study.confidence)
        sides += [frame[f"score{side}"], *_score_limits(wilson, frame["stereotype"])]
    low, high = stats.difference_interval(*sides)
    p = [
        np.nan
        if not isfinite(row.change)
        else _fisher(row.percent_female, row.n, row.percent_female_single, row.n_single)
        for row in frame.itertuples()
    ]
    reason = np.where(frame["change"].isna(), "not judged in both settings", "")
    smallest = np.where(frame["change"].isna(), np.nan, stats.least_fisher_p(frame["n"], frame["n_single"]))
    frame = _adjusted(
        frame.assign(ci_low=low, ci_high=high, p=np.array(p, dtype=float), smallest_p=smallest, reason=reason)
    )
    return frame[tables.schema("paired_identity_change").names]


def _fisher(percent: float, n: float, percent_single: float, n_single: float) -> float:
    counts = [(round(p * of / 100), round(of)) for p, of in ((percent, n), (percent_single, n_single))]
    return float(fisher_exact([[count, of - count] for count, of in counts])[1])


def _adherence(study: Study) -> pd.DataFrame:
    rows = []
    for cell, group in _by_cell(_people(study)):
        known = group.dropna(subset=["score"])
        wide = ((100 + known["score"]) / 2).groupby([known["occupation"], known["stereotype"]]).mean()
        wide = wide.unstack().reindex(columns=LISTS)
        replicates = _resampled_means(wide.to_numpy(), study)
        means = wide.mean().to_numpy()
        for i, stratum in enumerate(LISTS):
            some = known[known["stereotype"] == stratum]
            row = {**cell, "stereotype": stratum, "n": int(some["n"].sum()), "n_identities": len(some)}
            row |= {"percent_adhering": means[i], "reason": ""}
            if isfinite(means.sum()) and means.sum() > 0:
                share = 100 * replicates[:, i] / replicates.sum(axis=1)
                limits = stats.percentile_interval(share[np.isfinite(share)], study.confidence)
                row |= {"percent_of_adhering": 100 * means[i] / means.sum()}
                row |= {"ci_low": limits.low, "ci_high": limits.high}
            else:
                row["reason"] = "nobody fits, or a list has no values"
            rows.append(row)
    return _frame(rows, "paired_adherence")


def _resampled_means(wide: np.ndarray, study: Study) -> np.ndarray:
    """Return bootstrap means (replicates, lists) of values (occupations, lists).

    Lists over the same occupations are drawn together, disjoint lists each on its own.
    """
    rng = np.random.default_rng(study.seed)

    def means(values: np.ndarray) -> np.ndarray:
        drawn = rng.integers(0, len(values), (study.bootstrap_replicates, len(values)))
        return values[drawn].mean(axis=1)

    together = np.isfinite(wide).all(axis=1)
    if together.any():
        return means(wide[together])
    lists = [column[np.isfinite(column)] for column in wide.T]
    nothing = np.full(study.bootstrap_replicates, np.nan)
    return np.column_stack([means(values) if len(values) else nothing for values in lists])


def _changed_cases(study: Study) -> pd.DataFrame:
    printed = {
        (direction, stated.stereotype, stated.model, stated.aspect, stated.setting): stated.value
        for direction in ("amplified", "reduced")
        for stated in _printed(study, f"percent_of_{direction}").itertuples()
    }
    rows = []
    for cell, group in _by_cell(study.table("paired_identity_change").dropna(subset=["change"])):
        # Scores are multiples of 200/n, so a change below a hundredth of a point is none.
        sign = np.where(np.abs(group["change"]) < 0.01, 0, np.sign(group["change"]))
        for direction, code in (("amplified", 1), ("reduced", -1), ("unchanged", 0)):
            moved = group[sign == code]
            points = moved["change"].abs().sum()
            for stratum in LISTS:
                some = moved[moved["stereotype"] == stratum]
                low, high = stats.wilson_interval(len(some), len(moved), study.confidence)
                row = {**cell, "direction": direction, "stereotype": stratum, "n": len(moved)}
                row |= {
                    "n_cases": len(some),
                    "percent_of_cases": 100 * len(some) / len(moved) if len(moved) else np.nan,
                    "ci_low": 100 * low,
                    "ci_high": 100 * high,
                    "points": some["change"].sum() if code else 0.0,
                    "percent_of_points": 100 * some["change"].abs().sum() / points
                    if code and points
                    else np.nan,
                    "printed": printed.get((direction, stratum, *cell.values()), np.nan),
                    "reason": "" if len(moved) else "no identity moved this way",
                }
                rows.append(row)
    return _frame(rows, "paired_changed_cases")


# -- mitigation and judges ---------------------------------------------------------------------------

_MITIGATION = {"paired": "none", "paired_top5": "none", "intervention_top5": "intervention"}


def _mitigation(study: Study) -> pd.DataFrame:
    scores = study.table("paired_stereotype_score")
    scores = scores[scores["setting"] != "single"]
    people = scores[scores["setting"] == "paired"].set_index(["model", "aspect", "stereotype"])["n"]
    z = norm.ppf((1 + study.confidence) / 2)
    rows = []
    for row in scores.itertuples():
        scope = _scope(row.setting)
        known = scope == "all" and not isfinite(row.n)
        n = people.get((row.model, row.aspect, row.stereotype), np.nan) if known else np.nan
        # Overall, two fully dependent people of an image count as one; p(1-p) is at most 1/4.
        images = n / 2 if row.stereotype == "overall" else n
        rows.append(
            {
                "model": row.model,
                "aspect": row.aspect,
                "scope": scope,
                "mitigation": _MITIGATION.get(row.setting, row.setting),
                "stereotype": row.stereotype,
                "score": row.score,
                "ci_low": row.ci_low,
                "ci_high": row.ci_high,
                "n": row.n,
                "margin": 100 * z / sqrt(images) if images > 0 else np.nan,
                "dependence": row.dependence,
                "direction": direction(row.score, row.ci_low, row.ci_high),
                "evidence": row.evidence,
                "reason": row.reason,
            }
        )
    return _frame(rows, "paired_mitigation")


def _scope(setting: str) -> str:
    return "top5" if setting.endswith("_top5") else "all"


def direction(score: float, low: float, high: float) -> str:
    """Return which way a score leans, in the words of the tables.

    ``towards stereotypes`` or ``against stereotypes`` where the interval lies on one side of 0, ``no difference
    shown`` where it holds 0. Without an interval the sign alone decides; a missing score leans nowhere ("").
    """
    if not isfinite(score):
        return ""
    if not (isfinite(low) and isfinite(high)):
        low = high = score
    return "towards stereotypes" if low > 0 else "against stereotypes" if high < 0 else "no difference shown"


def _beside_unmitigated(study: Study) -> pd.DataFrame:
    """Return each identity's score in mitigated pairs beside that in the same pairs without mitigation."""
    frame = pd.concat([study.table("paired_occupation_score"), study.table("paired_power_score")])
    frame = frame[frame["setting"] != "single"].dropna(subset=["score"])
    frame = frame.assign(
        scope=frame["setting"].map(_scope),
        mitigation=frame["setting"].map(lambda s: _MITIGATION.get(s, s)),
    )
    same = ["model", "aspect", "scope", "identity"]
    more = ["score", "ci_low", "ci_high", "n", "p_holm", "smallest_p_holm", "percent_female"]
    before = frame.loc[frame["mitigation"] == "none", [*same, *more]]
    after = frame.loc[
        frame["mitigation"] != "none",
        [*same, "mitigation", "occupation", "stereotype", *more, "fair_low", "fair_high"],
    ]
    joined = after.merge(before, on=same, suffixes=("", "_before"))
    return joined.assign(change=joined["score"] - joined["score_before"])


def _identity_mitigation(study: Study) -> pd.DataFrame:
    frame = _beside_unmitigated(study)
    level = 1 - study.confidence
    leans = [
        [
            "no difference shown" if p >= level else direction(score, np.nan, np.nan)
            for p, score in zip(frame[f"p_holm{of}"], frame[f"score{of}"], strict=True)
        ]
        for of in ("_before", "")
    ]
    frame = frame.assign(direction_before=leans[0], direction=leans[1])
    return frame[tables.schema("paired_identity_mitigation").names]


def _mitigation_change(study: Study) -> pd.DataFrame:
    """Return the mean change from unmitigated pairs, over identities."""
    identities, pairs = study.table("paired_identity_mitigation"), _pairs(study)
    settings = {(_scope(setting), of): setting for setting, of in _MITIGATION.items()}
    ways = {"towards": "towards stereotypes", "against": "against stereotypes"}
    rows = []
    keys = ["model", "aspect", "scope", "mitigation"]
    for names, group in identities.groupby(keys, sort=False):
        model, aspect, scope, mitigation = names
        images = []
        for of, column, sign in (("none", "score_before", -1), (mitigation, "score", 1)):
            setting = settings.get((scope, of), of)
            added = _deviating(_fitting(pairs.get((model, aspect, setting))), group, column)
            if added is not None:
                images.append(added.assign(**{s: sign * added[s] for s in LISTS}))
        # Where only shares are known: an identity's mitigated and unmitigated pairs both move its partners (_shared).
        strata = _strata(
            group,
            "change",
            study.confidence,
            -200,
            200,
            "change",
            pd.concat(images) if len(images) == 2 else None,
            two_people=True,
        )
        for stratum, mean, some in strata:
            row = dict(zip(keys, names, strict=True)) | {"stereotype": stratum, **mean._asdict()}
            row |= {"change": mean.value, "n": int(some["n"].sum())}
            for of in ("_before", ""):
                row |= {f"n_{w}{of}": int((some[f"direction{of}"] == said).sum()) for w, said in ways.items()}
                row[f"smallest_p_holm{of}"] = some[f"smallest_p_holm{of}"].min()
            rows.append(row)
    return _frame(rows, "paired_mitigation_change")


def added_words(plain: str, text: str) -> str:
    """Return what a mitigated prompt says beyond the plain one; the whole of it where it is another text."""
    if text.startswith(plain):
        return text[len(plain) :].strip()
    stem = plain.removesuffix(".")
    return text[len(stem) :].lstrip(", ") if text.startswith(stem) else text


def told_genders(plain: str, added: str) -> tuple[dict[str, str], bool]:
    """Return the gender that added words tell for the ``left`` and the ``right`` person, and whether they say more.

    Words are read in the form of :func:`biaslab.mitigation.revision.sentence`.
    """
    told = {}
    for phrase, word in _SHOWN.findall(added):
        for side in ("left", "right"):
            where = f" on the {side}"
            if phrase.endswith(where) or f"one {phrase}{where}" in plain:
                told[side] = {"woman": "female", "man": "male"}[word]
    rest = re.sub(r"^Show the .+? as a (woman|man)\.", "", added) if told else added
    return told, bool(rest.strip())


def _told(study: Study) -> pd.DataFrame:
    prompts = study.measured_or_empty("paired_prompts")
    # Ids of mitigated prompts differ from those of the plain ones in the first part, which names the setting.
    prompts = prompts.assign(pair=[p.partition("-")[2] for p in prompts["prompt_id"]])
    plain = prompts[prompts["setting"] == "paired"].set_index(["model", "pair"])["text"]
    mitigated = prompts[prompts["setting"].isin(["intervention", "faircritic"])]
    found = []
    for row in mitigated.itertuples():
        if (row.model, row.pair) not in plain.index:
            continue
        before = plain[row.model, row.pair]
        told, more = told_genders(before, added_words(before, row.text))
        for side in ("left", "right"):
            says = told.get(side, "other words" if more else "nothing")
            found.append((row.model, row.prompt_id, side, says))
    people = study.measured_or_empty("paired_people")
    if not found or people.empty:
        return _frame([], "paired_told")
    said = pd.DataFrame(found, columns=["model", "prompt_id", "position", "told"])
    people = people.assign(prompt_id=[i.rpartition("/")[0] for i in people["image_id"]])
    people = people.merge(said, on=["model", "prompt_id", "position"])
    rows = []
    keys = ["model", "aspect", "setting", "round"]
    for names, group in people.groupby(keys, sort=False):
        names = (*names[:3], f"{names[3]:.0f}")
        asked = group["prompt_id"].nunique()
        for (stereotype, told), some in group.groupby(["stereotype", "told"]):
            known = some[some["gender"].isin(LISTS)]
            female, n = int((known["gender"] == "female").sum()), len(known)
            low, high = stats.wilson_interval(female, n, study.confidence) if n else (np.nan, np.nan)
            count = some["prompt_id"].nunique()
            row = dict(zip(keys, names, strict=True)) | {"stereotype": stereotype, "told": told, "n": n}
            row |= {
                "n_prompts": count,
                "percent": 100 * count / asked,
                "reason": "" if n else "nobody was judged",
            }
            row["percent_female"] = 100 * female / n if n else np.nan
            rows.append(row | {"ci_low": 100 * float(low), "ci_high": 100 * float(high)})
    return _frame(rows, "paired_told")


def _judge_attenuation(study: Study) -> pd.DataFrame:
    kappas = study.table("paired_judge_agreement").query("statistic == 'cohen_kappa'")
    # A run's own scores are its judge's, not those of whoever it is compared with.
    kappas = kappas[printed_kappas(kappas)]
    lean = study.table("paired_lean").query("stereotype == 'overall'").set_index(_CELL)
    scores = study.table("paired_stereotype_score").query("stereotype == 'overall'").set_index(_CELL)
    rows = []
    for judged in kappas.itertuples():
        names = (judged.model, judged.aspect, judged.setting)
        if names not in scores.index:
            continue
        score, wrong = scores.loc[names], judge_error(judged.value, lean.loc[names, "percent_female"])
        row = dict(zip(_CELL, names, strict=True)) | {"judge": judged.judge, "kappa": judged.value}
        row |= {"percent_wrong": 100 * wrong, "score": score["score"], "n": score["n"]}
        row |= {"score_seen": (1 - 2 * wrong) * score["score"]}
        rows.append(row | {"reason": "" if isfinite(wrong) else "kappa does not determine the errors"})
    return _frame(rows, "paired_judge_attenuation")


def printed_kappas(agreement: pd.DataFrame) -> pd.Series:
    """Return which rows of ``paired_judge_agreement`` the paper prints: those without a number of people."""
    return agreement["n"].isna() if "n" in agreement else pd.Series(True, agreement.index)


def judge_error(kappa: float, percent_female: float) -> float:
    """Return the share of people (0–1) that a judge of this kappa gets wrong, if errors hit all alike.

    Args:
        kappa: Cohen's kappa between the judge and annotators, -1 to 1.
        percent_female: Share of people that annotators perceive as female, 0–100.

    Returns:
        The error rate e, equal for women and men, that gives this kappa; NaN where everyone is perceived
        alike (kappa is not defined) or no e gives it. A difference between two groups' shares of women is then
        seen as (1 - 2e) times its size (Rogan and Gladen 1978).
    """
    p = percent_female / 100
    if not (isfinite(kappa) and 0 < p < 1):
        return np.nan

    def excess(e: float) -> float:
        seen = p * (1 - e) + (1 - p) * e
        chance = p * seen + (1 - p) * (1 - seen)
        return (1 - e - chance) / (1 - chance) - kappa

    if excess(0) * excess(1) > 0:
        return np.nan
    return float(brentq(excess, 0, 1))


# -- published measurements --------------------------------------------------------------------------


def _listed() -> pd.Series:
    return published.load("paired_table_3").set_index("occupation")["stereotype"]


def _published_people() -> pd.DataFrame:
    """Return Tables 11 and 13 as measurements; thirds are restored from the two digits printed."""
    alone = published.load("paired_table_11").query("setting != 'labour_statistics'")
    alone = alone.assign(aspect="occupation", identity=alone["occupation"])
    alone["stereotype"] = alone["occupation"].map(_listed())
    roles = published.load("paired_table_13")
    roles = roles.assign(
        aspect="power",
        identity=roles["occupation"] + ", " + roles["power_level"] + " power",
        stereotype=roles["power_level"].map({"low": "female", "high": "male"}),
    )
    roles["percent_female"] = percent_female_from_stereotype_score(roles["score"], roles["stereotype"])
    frame = pd.concat([alone, roles], ignore_index=True)
    n = [PEOPLE[cell] for cell in zip(frame["aspect"], frame["setting"], strict=True)]
    percent = 100 * np.rint(frame["percent_female"] * n / 100) / n
    return frame.assign(model=MODEL, n=n, percent_female=percent, reason="")[
        tables.schema("paired_percent_female").names
    ]


def _published_labour() -> pd.DataFrame:
    frame = published.load("paired_table_11").query("setting == 'labour_statistics'")
    frame = frame.assign(reason=frame["note"].where(frame["percent_female"].isna(), ""))
    return frame[["occupation", "percent_female", "reason"]]


def _published_runs() -> pd.DataFrame:
    frame = published.load("paired_table_10").query("run != 'average'")
    # Identities times people each: 40 and 72 identities, one paired occupation run, three of all others.
    n = {
        ("occupation", "single"): 40,
        ("occupation", "paired"): 1600,
        ("power", "single"): 72,
        ("power", "paired"): 144,
    }
    people = [n[cell] for cell in zip(frame["aspect"], frame["setting"], strict=True)]
    return frame.assign(model=MODEL, n=people)


def _published_values() -> pd.DataFrame:
    scores = published.load("paired_table_1").rename(columns={"score": "value"})
    scores = scores.assign(quantity="stereotype_score", place="Table 1")
    rows = published.load("paired_table_2").rename(columns={"score": "value"})
    top = rows["occupations"] == "top 5"
    rows["setting"] = rows["mitigation"].replace("none", "paired") + np.where(top, "_top5", "")
    rows = rows[rows["setting"] != "paired"].assign(
        stereotype="overall", quantity="stereotype_score", place="Table 2"
    )
    stated = published.load("paired_text").set_index("quantity")
    quantities = {
        "biased_images": ("percent_biased_images", "overall"),
        "amplified_cases_high_power": ("percent_of_amplified", "male"),
        "reduced_cases_low_power": ("percent_of_reduced", "female"),
    }
    text = stated.loc[list(quantities)].reset_index()
    text["stereotype"] = text["quantity"].map({k: v[1] for k, v in quantities.items()})
    text["place"] = text["section"].where(text["section"].str.isalpha(), "section " + text["section"])
    text["quantity"] = text["quantity"].map({k: v[0] for k, v in quantities.items()})
    frame = pd.concat([scores, rows, text], ignore_index=True).assign(model=MODEL)
    return frame[tables.schema("paired_printed_value").names]


def _published_judges() -> pd.DataFrame:
    people = published.load("paired_table_7").rename(columns={"fleiss_kappa": "value"})
    people = people.assign(judge="annotators", statistic="fleiss_kappa", n_raters=3)
    machines = published.load("paired_table_9").rename(columns={"cohen_kappa": "value", "method": "judge"})
    machines = machines.assign(statistic="cohen_kappa", n_raters=2)
    frame = pd.concat([people, machines], ignore_index=True)
    limits = {"ci_low": np.nan, "ci_high": np.nan}
    return frame.assign(model=MODEL, reference="annotators", **limits, reason=_NO_RATINGS)


PUBLISHED: dict = {
    "paired_percent_female": _published_people,
    "paired_labour_share": _published_labour,
    "paired_run_score": _published_runs,
    "paired_printed_value": _published_values,
    "paired_judge_agreement": _published_judges,
}

TABLES: dict = {
    "paired_percent_female": lambda study: study.measured("paired_percent_female"),
    "paired_labour_share": _labour_share,
    "paired_run_score": lambda study: study.measured_or_empty("paired_run_score"),
    "paired_printed_value": lambda study: study.measured_or_empty("paired_printed_value"),
    "paired_pair_images": lambda study: study.measured_or_empty("paired_pair_images"),
    "paired_judge_agreement": lambda study: study.measured_or_empty("paired_judge_agreement"),
    "paired_stereotype_score": _stereotype_score,
    "paired_occupation_score": lambda study: _identity_scores(study, "occupation"),
    "paired_power_score": lambda study: _identity_scores(study, "power"),
    "paired_absolute_score": _absolute_score,
    "paired_lean": _lean,
    "paired_biased_images": _biased_images,
    "paired_role_coupling": _role_coupling,
    "paired_labour_comparison": _labour_comparison,
    "paired_labour_correlation": _labour_correlation,
    "paired_labour_amplification": _labour_amplification,
    "paired_score_change": _score_change,
    "paired_identity_change": _identity_change,
    "paired_adherence": _adherence,
    "paired_changed_cases": _changed_cases,
    "paired_mitigation": _mitigation,
    "paired_identity_mitigation": _identity_mitigation,
    "paired_mitigation_change": _mitigation_change,
    "paired_told": _told,
    "paired_judge_attenuation": _judge_attenuation,
}
