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
MIN_WORTH = 1.1
"""Minimum effective number of annotations per annotation (with the judge) for a useful judge."""
_CODES = {"female": 1.0, "male": 0.0, "yes": 1.0, "no": 0.0}
_ABSOLUTE_REASON = "the judge's labels decide whether a share is above or below one half"


def estimates(headlines: Iterable[Headline], ratings: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return each headline by the judge, by annotations, and by both combined, as ``precision_estimates``.

    Combined estimates are those of :func:`biaslab.stats.prediction_powered`: they cover all people that annotators
    label female or male, including those unclear to the judge. People in one image are a cluster. For headlines folded
    at one half, the null expectation stays subtracted, and the side of each share is the judge's. ``ratings`` is
    ``precision_ratings``.
    """
    rows = [row for headline in headlines for row in _estimates(headline, ratings, confidence)]
    return tables.make_table(rows, "precision_estimates")


def select_annotated(headline: Headline, ratings: pd.DataFrame) -> pd.DataFrame:
    """Return the annotated people of a headline: its columns, label, probability, and rated (coded as judged)."""
    model_ratings = ratings[ratings["image_model"].isin(["", headline.model]) & (ratings["question"] == headline.about)]
    model_ratings = model_ratings.astype({"position": int})
    people = headline.people.assign(image_id=headline.people["image_id"].map(normalize))
    # A row of the model precedes one for any model.
    model_ratings = model_ratings.sort_values("image_model", ascending=False, kind="stable").drop_duplicates(PERSON)
    annotated_people = people.merge(model_ratings[[*PERSON, "label", "probability"]], on=PERSON)
    annotated_people = annotated_people[annotated_people["label"] != "unannotated"]
    return annotated_people.assign(rated=annotated_people["label"].map(_CODES).astype(float)).reset_index(drop=True)


def _estimates(headline: Headline, ratings: pd.DataFrame, confidence: float) -> list[dict]:
    groups, group_of_cell, effect = _groups(headline)
    rated = select_annotated(headline, ratings)
    rated = rated.assign(group=group_of_cell[rated["cell"].to_numpy()])
    rated = rated[rated["group"] >= 0]
    combination = stats.prediction_powered(
        groups["count"], groups["n"], groups["coefficient"], rated["group"], rated["judged"], rated["rated"],
        weights(rated), people=groups["people"], images=rated["source"] + " " + rated["image_id"],
        design_effect=effect, strata=groups["source"] + " " + groups["stratum"],
        clusters=groups["cluster"] if headline.clusters_random else None, base=headline.base - headline.null_mean,
        confidence=confidence,
    )  # fmt: skip
    reason = "" if np.isfinite(combination.both.value) else _missing_reason(headline, rated)
    columns: dict[str, Any] = {"paper": headline.paper, "model": headline.model, "headline": headline.measure}
    columns |= {
        "group": headline.group,
        "unit": headline.unit,
        "n_annotated": len(rated),
        "n_people": int(groups["n"].sum()),
    }
    gains = float(combination.worth >= MIN_WORTH * combination.both.n) if np.isfinite(combination.worth) else np.nan
    columns["is_more_precise"] = gains
    combined_columns = {"tuning": combination.tuning, "n_equivalent": combination.worth}
    rows = []
    for name, value in zip((JUDGE, ANNOTATIONS, BOTH), combination[:3], strict=True):
        row_reason = reason if name != JUDGE else "" if value.n else "no person is judged female or male"
        row_reason = row_reason or (_ABSOLUTE_REASON if headline.is_absolute and name != JUDGE else "")
        row = {**columns, "estimator": name, "estimate": value.value, **(combined_columns if name == BOTH else {})}
        rows.append(row | {"ci_low": value.ci_low, "ci_high": value.ci_high, "n": value.n, "reason": row_reason})
    return rows


def _groups(headline: Headline) -> tuple[pd.DataFrame, np.ndarray, float]:
    """Return the groups of a headline, the group of each cell (-1: none), and the design effect of the judge's shares.

    Cells of a cluster that count in proportion to the people judged are one group, with its cells of unclear people.
    Groups have source, stratum, cluster, count, n, coefficient, and people: all who could be annotated.
    """
    cells, keys = headline.cells, ["source", "stratum", "cluster"]
    weights = (cells["coefficient"] / cells["n"].where(cells["n"] > 0)).round(12)
    is_proportional = weights.groupby([cells[key] for key in keys]).transform("nunique") <= 1
    cells = cells.assign(template=cells["template"].where(~is_proportional, ""))
    listed = np.bincount(headline.people["cell"], minlength=len(cells))
    complete = (
        headline.people.groupby("cell")["judged"].count().reindex(range(len(cells)), fill_value=0) == cells["n"]
    ).all()
    # Where only annotated people are listed, all people are taken as judged.
    cells["people"] = listed if complete else cells["n"]
    groups = cells.groupby([*keys, "template"], sort=False)
    summed = groups[["count", "n", "coefficient", "people"]].sum().reset_index()
    counts = (summed["coefficient"] != 0).to_numpy()
    group_of_cell = np.where(counts, counts.cumsum() - 1, -1)[groups.ngroup()]
    summed = summed[counts].reset_index(drop=True)
    return summed, group_of_cell, _design_effect(headline, summed, group_of_cell) if complete else 1.0


def _design_effect(headline: Headline, groups: pd.DataFrame, group_of_cell: np.ndarray) -> float:
    """Return the variance of the judge's sum over that of independent people, at least 1, as images show several."""
    people = headline.people.assign(group=group_of_cell[headline.people["cell"].to_numpy()])
    people = people[(people["group"] >= 0) & people["judged"].notna()]
    group_rows = groups.loc[people["group"]].set_index(people.index)
    moves = group_rows["coefficient"] / group_rows["n"] * (people["judged"] - group_rows["count"] / group_rows["n"])
    image_sums = moves.groupby([people["source"], people["image_id"]]).sum()
    independent = (moves**2).sum()
    return max(float((image_sums**2).sum() / independent), 1.0) if independent > 0 else 1.0


def _missing_reason(headline: Headline, rated: pd.DataFrame) -> str:
    cells = headline.cells[headline.cells["coefficient"] != 0]
    of_source = rated["source"].value_counts()
    for source in dict.fromkeys(cells["source"]):
        if not of_source.get(source, 0):
            return f"no {source} image{'' if headline.group == MEAN else ' of this group'} is annotated"
    return f"fewer than {stats.MIN_ANNOTATIONS} annotated images show a person that annotators label female or male"


def components(headlines: Iterable[Headline], estimates: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return the variance components of headlines over all groups, as ``precision_components``.

    By :func:`biaslab.stats.pilot`; the judge's component is the square of its correction by annotations, minus the
    sampling variance of that correction.
    """
    z = norm.ppf((1 + confidence) / 2)
    by_estimator = estimates.set_index(["paper", "model", "headline", "group", "estimator"])[
        ["estimate", "ci_low", "ci_high"]
    ]
    rows = []
    for headline in (headline for headline in headlines if headline.group == MEAN and headline.cells["n"].sum()):
        parts = stats.design_from_pilot(
            headline.cells, headline.people, clusters_random=headline.clusters_random, is_absolute=headline.is_absolute
        ).variances
        (judge, *_), (combined, low, high) = (
            by_estimator.loc[[(headline.paper, headline.model, headline.measure, headline.group, name)]].iloc[0]
            for name in (JUDGE, BOTH)
        )
        sampling_variance = sum(parts.values())
        judge_variance = (judge - combined) ** 2 - max(((high - low) / 2 / z) ** 2 - sampling_variance, 0)
        parts |= {JUDGE: np.fmax(judge_variance, 0.0) if np.isfinite(combined) else np.nan}
        total = np.nansum(list(parts.values()))
        for part_of, variance in parts.items():
            row: dict[str, Any] = {"paper": headline.paper, "model": headline.model, "headline": headline.measure}
            row |= {"part": part_of, "variance": variance, "percent": 100 * variance / total if total else np.nan}
            rows.append(row | {"reason": "no annotations" if np.isnan(variance) else ""})
    return tables.make_table(rows, "precision_components")
