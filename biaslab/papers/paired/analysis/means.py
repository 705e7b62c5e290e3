"""Means over the identities of lists, with intervals, and helpers of several analyses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite, sqrt
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import t as student

from biaslab import stats
from biaslab.errors import InputError
from biaslab.metrics import stereotype_score_from_percent
from biaslab.papers.paired.analysis import dependence
from biaslab.papers.paired.analysis.dependence import LISTS
from biaslab.papers.paired.prompts import ASPECTS, SETTINGS

CELL = ["model", "aspect", "setting"]
_TOO_FEW = "an interval requires two identities"
_TOO_FEW_SHARED = "an interval requires three identities of a list that share images"


class Mean(NamedTuple):
    """A mean over identities with its interval, and the corresponding t-test against 0."""

    value: float
    ci_low: float
    ci_high: float
    t: float
    p: float
    reason: str
    dependence: str = ""
    df: float = np.nan
    """Degrees of freedom of the interval and of the test."""

    def widened(self, factor: float) -> Mean:
        """Return the mean with its standard error multiplied by ``factor``."""
        half, t = factor * (self.ci_high - self.value), self.t / factor
        low, high = self.value - half, self.value + half
        return self._replace(ci_low=low, ci_high=high, t=t, p=float(2 * student.sf(abs(t), self.df)))


def by_cell(frame: pd.DataFrame) -> Iterator[tuple[dict[str, str], pd.DataFrame]]:
    """Yield model, aspect and setting, and their rows."""
    for names, group in frame.groupby(CELL, sort=False):
        yield dict(zip(CELL, map(str, names), strict=True)), group


def ordered(frame: pd.DataFrame) -> pd.DataFrame:
    """Return rows by model, aspect and setting; models keep their order, a run's own before printed ones."""
    order = {name: i for i, name in enumerate((*dict.fromkeys(frame["model"]), *ASPECTS, *SETTINGS))}
    rows = frame.sort_values(CELL, key=lambda c: c.map(lambda v: (order.get(v, len(order)), v)), kind="stable")
    return rows.reset_index(drop=True)


def count_groups(shares: pd.DataFrame) -> pd.DataFrame:
    """Return shares with the number of people perceived as female in ``count``, and the ``score``.

    Raises InputError if a share cannot come from its n, or a stereotype or aspect is unknown.
    """
    frame = shares
    for column, allowed in (("stereotype", LISTS), ("aspect", ASPECTS)):
        unknown = frame.loc[~frame[column].isin(allowed), column]
        if len(unknown):
            names = " or ".join(map(repr, allowed))
            raise InputError(f"paired_percent_female: {column} is {unknown.iloc[0]!r}; it must be {names}.")
    n, percent = frame["n"].fillna(0).to_numpy(), frame["percent_female"].to_numpy()
    count = np.rint(percent * n / 100)
    exact = np.divide(100 * count, n, out=np.full(len(n), np.nan), where=n > 0)
    error = np.nan_to_num(np.abs(percent - exact))
    if (error > 1).any():
        row = int(error.argmax())
        raise InputError(
            f"paired_percent_female: {percent[row]:g}% in row {row + 1} cannot come from n = {n[row]:g} people; n "
            "must be the number of people from which the share was computed."
        )
    frame = frame.assign(percent_female=exact, count=count, n=n)
    return ordered(frame.assign(score=stereotype_score_from_percent(exact, frame["stereotype"])))


def mean(values: np.ndarray, confidence: float) -> Mean:
    """Return the mean of values of identities with Student's interval."""
    n = len(values)
    if n < 2:
        value, reason = (float(values[0]), _TOO_FEW) if n else (np.nan, "no identity has a value")
        return Mean(value, *(np.nan,) * 4, reason)
    return t_mean(float(np.mean(values)), float(np.std(values, ddof=1)) / sqrt(n), n - 1, confidence)


def t_mean(value: float, se: float, df: float, confidence: float) -> Mean:
    """Return a mean over identities whose standard error has ``df`` degrees of freedom."""
    half = student.ppf((1 + confidence) / 2, df) * se
    # Images that show one gender twice cancel out, except for floating-point error, which has no direction.
    value = 0.0 if abs(value) < 1e-9 else value
    if se < 1e-9:
        return Mean(value, *(np.nan,) * 4, "all identities have the same value, so there is neither interval nor test")
    t = value / se
    return Mean(value, value - half, value + half, t, float(2 * student.sf(abs(t), df)), "", df=df)


def mean_over_people(rows: pd.DataFrame, column: str, confidence: float) -> Mean:
    """Return the mean of ``column`` over people, a ratio with a linearised error over occupations.

    ``rows`` has one row per identity: occupation, n (people) and ``column``. With the same n for every identity it is
    :func:`mean` over occupations.
    """
    if rows.empty:
        return mean(rows[column].to_numpy(), confidence)
    weight = rows["n"] / rows["n"].sum()
    value = float((weight * rows[column]).sum())
    if rows["occupation"].nunique() < 2:
        return Mean(value, *(np.nan,) * 4, _TOO_FEW)
    terms = (weight * (rows[column] - value)).groupby(rows["occupation"]).sum()
    return t_mean(value, *stats.clustered_error(terms), confidence)


def mean_over_roles(low: pd.Series, high: pd.Series, confidence: float, sign: int = 1) -> Mean:
    """Return half the sum (``sign`` -1: half the difference) of two lists' means; an occupation is one observation."""
    value = float(low.mean() + sign * high.mean()) / 2
    terms = [part * (values - values.mean()) / (2 * len(values)) for part, values in ((1, low), (sign, high))]
    error = stats.clustered_error(terms[0].add(terms[1], fill_value=0))
    return t_mean(value, *error, confidence) if isfinite(error.se) else Mean(value, *(np.nan,) * 4, _TOO_FEW)


def strata(
    group: pd.DataFrame,
    column: str,
    confidence: float,
    lowest: float = -np.inf,
    highest: float = np.inf,
    *,
    effect: str = "",
    images: pd.DataFrame | None = None,
    two_people: bool = False,
    variance_factors: Mapping[str, float] = {},
    over_people: bool = False,
) -> Iterator[tuple[dict, pd.DataFrame]]:
    """Yield for each list and for both the mean of ``column`` as a row of a table, and its rows.

    Identities without a value are left out. By default lists weigh the same, as do the occupations of a list and the
    identities of an occupation.

    Args:
        group: One row per identity: stereotype, occupation, identity and ``column``.
        column: The values.
        confidence: Level of the intervals, 0–1.
        lowest: Smallest value that a mean can have, where limits are cut.
        highest: Largest one.
        effect: Where two people share each image and only values are known, the column of an identity's largest
            contribution to the overall mean, times the length of its list. Else lists are treated as independent.
        images: Where images are known, the contribution of each (see :func:`dependence.deviations`).
        two_people: Whether two people share each image.
        variance_factors: For lists whose identities share images, the largest factor of the variance of their mean.
        over_people: Whether the means are over people (``n``), as in equation 1.
    """
    valid = group.dropna(subset=[column])
    rows = {s: valid[valid["stereotype"] == s] for s in LISTS}
    values = dict(zip(LISTS, _occupation_means(valid, column), strict=True))
    means = {
        s: mean_over_people(rows[s], column, confidence) if over_people else mean(values[s].to_numpy(), confidence)
        for s in LISTS
    }
    means["overall"] = _overall_mean(valid, column, confidence, effect, images, two_people, over_people)
    rows["overall"] = valid
    shared = values["female"].index.intersection(values["male"].index)
    # Roles of different occupations share no images, so nothing is fixed there.
    default_dependence = dependence.PARTNERS if two_people and not len(shared) else dependence.NONE
    for stratum, estimate in means.items():
        part = rows[stratum]
        if stratum in variance_factors and isfinite(estimate.ci_low):
            n, factor = part.groupby("stereotype").size().min(), variance_factors[stratum]
            # Identities do not differ by what they share, so the variance between n of them is low by a factor of
            # (n - factor) / (n - 1).
            estimate = (
                estimate.widened(sqrt(factor * (n - 1) / (n - factor)))._replace(dependence=dependence.WORST)
                if n > 2
                else Mean(estimate.value, *(np.nan,) * 4, _TOO_FEW_SHARED)
            )
        row = estimate._asdict() | {"stereotype": stratum, column: estimate.value}
        row["dependence"] = (estimate.dependence or default_dependence) if isfinite(estimate.ci_low) else ""
        row |= {end: float(np.clip(row[end], lowest, highest)) for end in ("ci_low", "ci_high")}
        row |= {"n_identities": len(part), "n_occupations": part["occupation"].nunique()}
        yield row | {"n": part["n"].sum() if "n" in part else len(part)}, part


def _overall_mean(
    group: pd.DataFrame,
    column: str,
    confidence: float,
    effect: str,
    images: pd.DataFrame | None,
    two_people: bool,
    over_people: bool,
) -> Mean:
    """Return the mean over both lists, with their known dependence.

    The two roles of an occupation are one observation; lists that share ``images`` are crossed samples. Where only
    values are known, variances of the mean ``effect`` (or half the value) are added, with Welch's degrees of freedom.
    """
    female, male = _occupation_means(group, column)
    if female.empty or male.empty:
        return Mean(*(np.nan,) * 5, "one of the two lists has no values")
    if len(female.index.intersection(male.index)):
        roles = (
            mean_over_people(group, column, confidence) if over_people else mean_over_roles(female, male, confidence)
        )
        return roles._replace(dependence=dependence.BY_OCCUPATION)
    value = float((dependence.weights(group, over_people) * group[column]).sum())
    if min(len(female), len(male)) < 2:
        return Mean(value, *(np.nan,) * 4, _TOO_FEW)
    if images is not None and (crossed := dependence.parts(group, column, images, over_people)).crossed:
        return t_mean(value, *crossed.error(), confidence)._replace(dependence=dependence.ESTIMATED)
    terms = dependence.contributions(group, effect or column, over_people).values()
    # An effect on both people of an image counts for both lists, so contributions are doubled.
    factor = 4 if effect else 1
    parts = np.array([factor * len(part) * part.var(ddof=1) for part in terms])
    degrees = np.array([len(female) - 1, len(male) - 1])
    df = parts.sum() ** 2 / (parts**2 / degrees).sum() if parts.sum() > 0 else degrees.sum()
    label = dependence.WORST if effect else dependence.ASSUMED_NONE if two_people else dependence.NONE
    return t_mean(value, sqrt(parts.sum()), float(df), confidence)._replace(dependence=label)


def _occupation_means(group: pd.DataFrame, column: str) -> tuple[pd.Series, pd.Series]:
    """Return the means of ``column`` by occupation for each list, over its identities."""
    groups = (group[group["stereotype"] == s].groupby("occupation", sort=False) for s in LISTS)
    first, second = (rows[column].mean() for rows in groups)
    return first, second


# -- images of two people whose identities are known --------------------------------------------------


def pair_scores(images: pd.DataFrame, people: pd.DataFrame) -> dict[tuple[str, ...], pd.DataFrame]:
    """Return images of two people by model, aspect and setting; ``female`` and ``male`` are their people's scores.

    100 for people who fit their stereotype, -100 for those who do not, NaN for those not judged. From
    ``paired_pair_images`` and shares as :func:`count_groups` returns them; cells without identities are left out.
    Raises InputError if the images and the shares per identity do not count the same people.
    """
    names = [f"{s}_identity" for s in LISTS]
    if not set(names) <= set(images.columns):
        return {}
    frame = images[(images[names] != "").all(axis=1)]
    is_female = {s: frame[f"{s}_label"].map({"female": 1.0, "male": 0.0}).astype(float) for s in LISTS}
    by_key = {tuple(cell.values()): rows for cell, rows in by_cell(frame.assign(**is_female))}
    for cell, group in by_cell(people):
        key = tuple(cell.values())
        pairs = by_key.get((*key[:2], "paired"))
        if key[2] == "paired_top5" and key not in by_key and pairs is not None:
            by_key[key] = pairs[pairs[names].isin(set(group["identity"])).all(axis=1)]
        if key in by_key:
            dependence.check(by_key[key], group, ", ".join(key))
    return {
        key: rows.assign(female=200 * rows["female"] - 100, male=100 - 200 * rows["male"])
        for key, rows in by_key.items()
    }
