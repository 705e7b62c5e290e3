"""Annotations and judge together, headline by headline."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from biaslab import stats
from biaslab.io.plaintext import normalize
from biaslab.metrics.headline import MEAN, PERSON, Headline
from biaslab.ratings.annotations import weights
from biaslab.schema import tables

JUDGE, ANNOTATIONS, BOTH = "judge", "annotations", "both"
LEAST_WORTH = 1.1
"""Minimum effective number of annotations per annotation (with the judge) for a useful judge."""
_MEANT = {"female": 1.0, "male": 0.0, "yes": 1.0, "no": 0.0}
_ABSOLUTE = "whether a share is above or below one half is the judge's label"


def estimates(headlines: Iterable[Headline], ratings: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return each headline by the judge, by annotations, and by both combined, as ``precision_estimates``.

    Combined estimates are those of :func:`biaslab.stats.prediction_powered`: they cover all people that annotators
    label female or male, including those unclear to the judge. People in one image are a cluster. For headlines folded
    at one half, the null expectation stays subtracted, and the side of each share is the judge's. ``ratings`` is
    ``precision_ratings``.
    """
    rows = [row for one in headlines for row in _estimates(one, ratings, confidence)]
    return tables.make_table(rows, "precision_estimates")


def annotated(headline: Headline, ratings: pd.DataFrame) -> pd.DataFrame:
    """Return the annotated people of a headline: its columns, label, probability, and rated (as judged)."""
    own = ratings[ratings["image_model"].isin(["", headline.model]) & (ratings["question"] == headline.about)]
    own = own.astype({"position": int})
    people = headline.people.assign(image_id=headline.people["image_id"].map(normalize))
    # A model's own row before one that is of any.
    own = own.sort_values("image_model", ascending=False, kind="stable").drop_duplicates(PERSON)
    both = people.merge(own[[*PERSON, "label", "probability"]], on=PERSON)
    both = both[both["label"] != "unannotated"]
    return both.assign(rated=both["label"].map(_MEANT).astype(float)).reset_index(drop=True)


def _estimates(one: Headline, ratings: pd.DataFrame, confidence: float) -> list[dict]:
    groups, at, effect = _groups(one)
    rated = annotated(one, ratings)
    rated = rated.assign(group=at[rated["cell"].to_numpy()])
    rated = rated[rated["group"] >= 0]
    found = stats.prediction_powered(
        groups["count"], groups["n"], groups["coefficient"], rated["group"], rated["judged"], rated["rated"],
        weights(rated), people=groups["people"], images=rated["source"] + " " + rated["image_id"],
        design_effect=effect, strata=groups["source"] + " " + groups["stratum"],
        clusters=groups["cluster"] if one.clusters_random else None, base=one.base - one.null_mean,
        confidence=confidence,
    )  # fmt: skip
    reason = "" if np.isfinite(found.both.value) else _why_none(one, rated)
    shared: dict[str, Any] = {"paper": one.paper, "model": one.model, "headline": one.measure, "group": one.group}
    shared |= {"unit": one.unit, "n_annotated": len(rated), "n_people": int(groups["n"].sum())}
    gains = float(found.worth >= LEAST_WORTH * found.both.n) if np.isfinite(found.worth) else np.nan
    shared["is_more_precise"] = gains
    more = {"tuning": found.tuning, "n_equivalent": found.worth}
    rows = []
    for name, value in zip((JUDGE, ANNOTATIONS, BOTH), found[:3], strict=True):
        why = reason if name != JUDGE else "" if value.n else "no person is judged female or male"
        why = why or (_ABSOLUTE if one.is_absolute and name != JUDGE else "")
        row = {**shared, "estimator": name, "estimate": value.value, **(more if name == BOTH else {})}
        rows.append(row | {"ci_low": value.ci_low, "ci_high": value.ci_high, "n": value.n, "reason": why})
    return rows


def _groups(one: Headline) -> tuple[pd.DataFrame, np.ndarray, float]:
    """Return the groups of a headline, the group of each cell (-1: none), and the design effect of the judge's shares.

    Cells of a cluster that count in proportion to the people judged are one group, with its cells of unclear people.
    Groups have source, stratum, cluster, count, n, coefficient, and people: all who could be annotated.
    """
    cells, keys = one.cells, ["source", "stratum", "cluster"]
    each = (cells["coefficient"] / cells["n"].where(cells["n"] > 0)).round(12)
    same = each.groupby([cells[key] for key in keys]).transform("nunique") <= 1
    cells = cells.assign(template=cells["template"].where(~same, ""))
    listed = np.bincount(one.people["cell"], minlength=len(cells))
    complete = (
        one.people.groupby("cell")["judged"].count().reindex(range(len(cells)), fill_value=0) == cells["n"]
    ).all()
    # Where only annotated people are listed, all people are taken as judged.
    cells["people"] = listed if complete else cells["n"]
    groups = cells.groupby([*keys, "template"], sort=False)
    summed = groups[["count", "n", "coefficient", "people"]].sum().reset_index()
    counts = (summed["coefficient"] != 0).to_numpy()
    at = np.where(counts, counts.cumsum() - 1, -1)[groups.ngroup()]
    summed = summed[counts].reset_index(drop=True)
    return summed, at, _design_effect(one, summed, at) if complete else 1.0


def _design_effect(one: Headline, groups: pd.DataFrame, at: np.ndarray) -> float:
    """Return the variance of the judge's sum over that of independent people, at least 1, as images show several."""
    people = one.people.assign(group=at[one.people["cell"].to_numpy()])
    people = people[(people["group"] >= 0) & people["judged"].notna()]
    own = groups.loc[people["group"]].set_index(people.index)
    moves = own["coefficient"] / own["n"] * (people["judged"] - own["count"] / own["n"])
    by_image = moves.groupby([people["source"], people["image_id"]]).sum()
    alone = (moves**2).sum()
    return max(float((by_image**2).sum() / alone), 1.0) if alone > 0 else 1.0


def _why_none(one: Headline, rated: pd.DataFrame) -> str:
    cells = one.cells[one.cells["coefficient"] != 0]
    of_source = rated["source"].value_counts()
    for source in dict.fromkeys(cells["source"]):
        if not of_source.get(source, 0):
            return f"no {source} image of {'it' if one.group == MEAN else 'this group'} is annotated"
    return f"fewer than {stats.MIN_ANNOTATIONS} annotated images show a person that annotators label female or male"


def components(headlines: Iterable[Headline], estimates: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return the variance components of headlines over all groups, as ``precision_components``.

    By :func:`biaslab.stats.pilot`; the judge's component is the square of its correction by annotations, minus the
    sampling variance of that correction.
    """
    z = norm.ppf((1 + confidence) / 2)
    by = estimates.set_index(["paper", "model", "headline", "group", "estimator"])[["estimate", "ci_low", "ci_high"]]
    rows = []
    for one in (one for one in headlines if one.group == MEAN and one.cells["n"].sum()):
        parts = stats.design_from_pilot(
            one.cells, one.people, clusters_random=one.clusters_random, is_absolute=one.is_absolute
        ).variances
        (judge, *_), (both, low, high) = (
            by.loc[[(one.paper, one.model, one.measure, one.group, name)]].iloc[0] for name in (JUDGE, BOTH)
        )
        known = sum(parts.values())
        off = (judge - both) ** 2 - max(((high - low) / 2 / z) ** 2 - known, 0)
        parts |= {JUDGE: np.fmax(off, 0.0) if np.isfinite(both) else np.nan}
        whole = np.nansum(list(parts.values()))
        for part_of, variance in parts.items():
            row: dict[str, Any] = {"paper": one.paper, "model": one.model, "headline": one.measure, "part": part_of}
            row |= {"variance": variance, "percent": 100 * variance / whole if whole else np.nan}
            rows.append(row | {"reason": "no ratings" if np.isnan(variance) else ""})
    return tables.make_table(rows, "precision_components")
