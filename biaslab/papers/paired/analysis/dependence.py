"""How far two lists of identities that share images depend on each other: from the images, or as far as they can.

Where images are counted, the error over identities, both lists drawn (:func:`biaslab.stats.crossed_error`), is
estimated from what their own people and their partners' add to the overall mean, if most pairs of both lists have
images. Where only shares per identity are
known, the largest error that any dependence could cause replaces it and is named as such.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from biaslab import stats
from biaslab.errors import InputError
from biaslab.schema.genders import GENDERS

LISTS = GENDERS
# What a row says of how its interval takes the people of one image.
ESTIMATED = "estimated"
WORST = "worst case"
NONE = "none"
ASSUMED_NONE = "none assumed"
BY_OCCUPATION = "within occupations"
PARTNERS = "partners fixed"
# Share of all pairs of both lists that must have images for lists to count as crossed.
_CROSSED = 0.75


class Parts(NamedTuple):
    """What identities add to a mean over both lists, by occupation."""

    rows: pd.Series
    """By occupation of the female list; adds up to 0."""
    columns: pd.Series
    """By occupation of the male list; adds up to 0."""
    cells: pd.DataFrame
    """What the images of a pair add: female list by male list, NaN where it has none."""

    @property
    def crossed(self) -> bool:
        """Whether nearly all pairs were drawn: where each identity has few partners, theirs cannot be told apart."""
        return self.cells.notna().to_numpy().mean() >= _CROSSED

    def error(self) -> stats.StandardError:
        """Return the standard error of the mean, both lists drawn."""
        return stats.crossed_error(self.rows, self.columns, self.cells)


def weights(group: pd.DataFrame, over_people: bool) -> pd.Series:
    """Return what each identity weighs in a mean over both lists; weights add up to 1.

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
    """Return by list what the identities of each occupation contribute to the mean of ``column`` over both lists.

    The contributions are linearised, weight times deviation from that mean, and add up to 0 over both lists.
    """
    weight = weights(group, over_people)
    added = weight * (group[column] - (weight * group[column]).sum())
    lists = ((s, group["stereotype"] == s) for s in LISTS)
    return {s: added[of].groupby(group.loc[of, "occupation"], sort=False).sum() for s, of in lists}


def parts(group: pd.DataFrame, column: str, images: pd.DataFrame, over_people: bool = False) -> Parts:
    """Return what each identity adds to the mean over both lists, of which :func:`weights` tells the kind.

    ``group`` has a row per identity (stereotype, occupation, identity, ``column`` and n), ``images`` are as
    :func:`deviations` returns them.
    """
    weight = weights(group, over_people).set_axis(group["identity"])
    adds, added, whose = {}, {}, {}
    for stereotype, of_list in contributions(group, column, over_people).items():
        rows = group[group["stereotype"] == stereotype].set_index("identity")
        identity = images[f"{stereotype}_identity"]
        # Lists are strata: their identities differ around the list's own mean.
        adds[stereotype] = of_list - of_list.mean()
        # Images of identities that the group lacks have neither an occupation nor a weight, so they add nothing.
        added[stereotype] = images[stereotype].fillna(0) * identity.map(weight)
        whose[stereotype] = identity.map(rows["occupation"])
    beside = dict(zip(LISTS, reversed(LISTS), strict=True))
    rows, columns = (adds[s].add(added[beside[s]].groupby(whose[s]).sum(), fill_value=0)[adds[s].index] for s in LISTS)
    both = added[LISTS[0]] + added[LISTS[1]]
    cells = both.groupby([whose[s] for s in LISTS]).sum().unstack()
    return Parts(rows, columns, cells.reindex(index=rows.index, columns=columns.index))


def deviations(images: pd.DataFrame | None, group: pd.DataFrame, column: str, slope: str = "") -> pd.DataFrame | None:
    """Return ``images`` with the contribution of both people to their identities' values; None without images.

    ``female`` and ``male`` hold what the two people of an image count (NaN if not judged). ``group`` has a row per
    identity: in ``column`` the mean of what its people count (NaN: left out), and, where a value is a function of that
    mean, in ``slope`` by how much it changes with it (else 1).
    """
    if images is None:
        return None
    known = group.dropna(subset=[column]).set_index("identity")
    mean, gain = known[column], known[slope] if slope else pd.Series(1.0, known.index)
    added = images.copy()
    for stereotype in LISTS:
        whose = images[f"{stereotype}_identity"]
        n = images[stereotype].notna().groupby(whose).transform("sum")
        added[stereotype] = (images[stereotype] - whose.map(mean)) * whose.map(gain) / n
    return added


def check(images: pd.DataFrame, group: pd.DataFrame, where: str) -> None:
    """Refuse images that do not count the people that the shares of their identities are taken over.

    ``images`` say in ``female`` and ``male`` whether the person was perceived as female (1, 0, NaN: not judged);
    ``group`` has each identity's ``count`` and ``n``. InputError, with ``where`` in it, if one of them differs.
    """
    for stereotype in LISTS:
        labels = images[stereotype].groupby(images[f"{stereotype}_identity"]).agg(["sum", "count"])
        listed = group[group["stereotype"] == stereotype].set_index("identity")[["count", "n"]]
        beside = labels.reindex(listed.index, fill_value=0)
        wrong = (np.abs(beside.to_numpy(float) - listed.to_numpy(float)) > 1e-6).any(axis=1)
        if wrong.any():
            name = listed.index[wrong.argmax()]
            k, n = beside.loc[name]
            raise InputError(
                f"paired_pair_images ({where}): {name!r} is perceived as female in {k:g} of {n:g} images, but "
                f"paired_percent_female counts {listed.loc[name, 'count']:g} of {listed.loc[name, 'n']:g} people; both "
                "must come from the same images (or leave out the columns female_identity and male_identity)."
            )
