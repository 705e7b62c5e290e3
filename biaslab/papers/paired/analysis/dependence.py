"""Dependence of two lists of identities that share images: estimated from the images, or its worst case.

Where images are counted and most pairs of both lists have images, the error over identities of both lists
(:func:`biaslab.stats.crossed_error`) is estimated from the contributions of their people and their partners to the
overall mean. Where only shares per identity are known, the largest error that any dependence could cause replaces it,
and the dependence is reported as the worst case.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from biaslab import stats
from biaslab.errors import InputError
from biaslab.schema.genders import GENDERS

LISTS = GENDERS
# Values of a row's ``dependence``: how its interval treats the people of one image.
ESTIMATED = "estimated"
WORST = "worst case"
NONE = "none"
ASSUMED_NONE = "none assumed"
BY_OCCUPATION = "within occupations"
PARTNERS = "partners fixed"
# Share of all pairs of both lists that must have images for lists to count as crossed.
_CROSSED = 0.75


class Parts(NamedTuple):
    """Contributions of identities to a mean over both lists, by occupation."""

    rows: pd.Series
    """By occupation of the female list; adds up to 0."""
    columns: pd.Series
    """By occupation of the male list; adds up to 0."""
    cells: pd.DataFrame
    """Contributions of the images of a pair: female list by male list, NaN for pairs without images."""

    @property
    def crossed(self) -> bool:
        """Whether nearly all pairs have images; with few partners, contributions cannot be attributed to them."""
        return self.cells.notna().to_numpy().mean() >= _CROSSED

    def error(self) -> stats.StandardError:
        """Return the standard error of the mean over samples of both lists."""
        return stats.crossed_error(self.rows, self.columns, self.cells)


def weights(group: pd.DataFrame, over_people: bool) -> pd.Series:
    """Return the weight of each identity in a mean over both lists; weights add up to 1.

    Args:
        group: One row per identity: stereotype, occupation, and n where people are counted.
        over_people: Whether every person weighs the same, as in equation 1. Else lists weigh the same, as do the
            occupations of a list and the identities of an occupation.
    """
    if over_people:
        return group["n"] / group["n"].sum()
    identities = group.groupby(["stereotype", "occupation"])["occupation"].transform("size")
    occupations = group.groupby("stereotype")["occupation"].transform("nunique")
    return 1 / (group["stereotype"].nunique() * occupations * identities)


def contributions(group: pd.DataFrame, column: str, over_people: bool) -> dict[str, pd.Series]:
    """Return by list the contributions of each occupation's identities to the mean of ``column`` over both lists.

    The contributions are linearised, weight times deviation from that mean, and add up to 0 over both lists.
    """
    weight = weights(group, over_people)
    contribution = weight * (group[column] - (weight * group[column]).sum())
    lists = ((s, group["stereotype"] == s) for s in LISTS)
    return {s: contribution[mask].groupby(group.loc[mask, "occupation"], sort=False).sum() for s, mask in lists}


def parts(group: pd.DataFrame, column: str, images: pd.DataFrame, over_people: bool = False) -> Parts:
    """Return the contributions of identities to the mean over both lists, with the weights of :func:`weights`.

    ``group`` has one row per identity (stereotype, occupation, identity, ``column`` and n), ``images`` are as
    :func:`deviations` returns them.
    """
    weight = weights(group, over_people).set_axis(group["identity"])
    list_parts, image_parts, occupations = {}, {}, {}
    for stereotype, contribution in contributions(group, column, over_people).items():
        rows = group[group["stereotype"] == stereotype].set_index("identity")
        identity = images[f"{stereotype}_identity"]
        # Lists are strata: their identities differ around the list's own mean.
        list_parts[stereotype] = contribution - contribution.mean()
        # Images of identities that are not in the group have no weight, so they contribute nothing.
        image_parts[stereotype] = images[stereotype].fillna(0) * identity.map(weight)
        occupations[stereotype] = identity.map(rows["occupation"])
    other_list = dict(zip(LISTS, reversed(LISTS), strict=True))
    rows, columns = (
        list_parts[s].add(image_parts[other_list[s]].groupby(occupations[s]).sum(), fill_value=0)[list_parts[s].index]
        for s in LISTS
    )
    pair_parts = image_parts[LISTS[0]] + image_parts[LISTS[1]]
    cells = pair_parts.groupby([occupations[s] for s in LISTS]).sum().unstack()
    return Parts(rows, columns, cells.reindex(index=rows.index, columns=columns.index))


def deviations(images: pd.DataFrame | None, group: pd.DataFrame, column: str, slope: str = "") -> pd.DataFrame | None:
    """Return ``images`` with the contribution of both people to their identities' values; None without images.

    ``female`` and ``male`` are the values of the two people of an image (NaN if not judged). ``group`` has one row per
    identity, with the mean of its people's values in ``column`` (NaN: left out). Where the estimated value is a
    function of that mean, ``slope`` is its derivative (else 1).
    """
    if images is None:
        return None
    identities = group.dropna(subset=[column]).set_index("identity")
    mean, gain = identities[column], identities[slope] if slope else pd.Series(1.0, identities.index)
    image_contributions = images.copy()
    for stereotype in LISTS:
        identity = images[f"{stereotype}_identity"]
        n = images[stereotype].notna().groupby(identity).transform("sum")
        image_contributions[stereotype] = (images[stereotype] - identity.map(mean)) * identity.map(gain) / n
    return image_contributions


def check(images: pd.DataFrame, group: pd.DataFrame, location: str) -> None:
    """Raise an InputError if images and the shares of their identities do not count the same people.

    ``female`` and ``male`` of ``images`` are 1 for a person perceived as female, else 0 (NaN: not judged); ``group``
    has each identity's ``count`` and ``n``. The error message names the ``location``.
    """
    for stereotype in LISTS:
        labels = images[stereotype].groupby(images[f"{stereotype}_identity"]).agg(["sum", "count"])
        shares = group[group["stereotype"] == stereotype].set_index("identity")[["count", "n"]]
        image_counts = labels.reindex(shares.index, fill_value=0)
        differs = (np.abs(image_counts.to_numpy(float) - shares.to_numpy(float)) > 1e-6).any(axis=1)
        if differs.any():
            name = shares.index[differs.argmax()]
            k, n = image_counts.loc[name]
            raise InputError(
                f"paired_pair_images ({location}): {name!r} is perceived as female in {k:g} of {n:g} images, but "
                f"paired_percent_female counts {shares.loc[name, 'count']:g} of {shares.loc[name, 'n']:g} people. Both "
                "must come from the same images; otherwise, remove the columns female_identity and male_identity."
            )
