"""Headlines by several judges, and the agreement of these judges on the people behind each headline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from biaslab import stats
from biaslab.analyses.precision.analysis import JUDGE, estimates
from biaslab.metrics import agreement
from biaslab.metrics.headline import MEAN, PERSON, Headline
from biaslab.schema import formatting, tables
from biaslab.schema.genders import GENDERS

Judges = Mapping[tuple[str, str], Iterable[Headline]]
"""Headlines by other judges: the keys are the names of the reference judge and of the judge."""
ABOVE, BELOW, NOT_SIGNIFICANT, INCONCLUSIVE = "above", "below", "not_significant", "inconclusive"
MAX_GROUPS = 12
"""Groups of a headline up to which agreement is reported for each of them."""
_NO_ESTIMATE: dict[str, Any] = dict.fromkeys(("estimate", "ci_low", "ci_high"), np.nan)
_NO_ESTIMATE |= {"n": 0, "verdict": INCONCLUSIVE, "reason": "the judge labels no person in a group of the headline"}
_LABELS = {1.0: GENDERS[0], 0.0: GENDERS[1]}


def judge_headlines(headlines: Iterable[Headline], judges: Judges, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return each headline by the reference judge and by each other judge, as ``synthesis_judge_headlines``.

    ``headlines`` are those of the reference judge, and ``judges`` has the same headlines by others. Estimates and
    intervals are those of the judge alone in :func:`biaslab.analyses.precision.estimates`, at ``confidence`` (0–1).
    The verdict compares the interval with the value at equal shares. It is ``above``, ``below``, ``not_significant``,
    or ``inconclusive``: without an interval of positive width, or with fewer clusters than a t test takes. It is not
    adjusted over a report. ``changes_verdict`` is 1 or 0, and missing where either verdict is inconclusive. A
    headline that a judge's labels do not give has no estimate.
    """
    # Values that papers print are of no people whom another judge could label.
    first = _estimates_by_headline((one for one in headlines if len(one.people)), confidence)
    rows = {}
    for (reference, judge), others in judges.items():
        by_key = _estimates_by_headline(others, confidence)
        for key, own in first.items():
            other = by_key.get(key, own | _NO_ESTIMATE)
            both = own["verdict"], other["verdict"]
            changes = np.nan if INCONCLUSIVE in both else float(both[0] != both[1])
            rows[*key, reference] = own | {"judge": reference, "reference": reference, "changes_verdict": 0}
            rows[*key, judge] = other | {"judge": judge, "reference": reference, "changes_verdict": changes}
    return tables.make_table(list(rows.values()), "synthesis_judge_headlines")


def _estimates_by_headline(headlines: Iterable[Headline], confidence: float) -> dict[tuple, dict[Any, Any]]:
    """Return the rows of headlines by their judge, each with its verdict, by paper, model, headline and group."""
    by_key = {_key(one): one for one in headlines}
    unannotated = tables.make_table([], "precision_ratings")
    table = estimates(by_key.values(), unannotated, confidence=confidence)
    judged = table[table["estimator"] == JUDGE].to_dict("records")
    rows: dict[tuple, dict[Any, Any]] = {}
    for (key, one), row in zip(by_key.items(), judged, strict=True):
        low, high = (row[end] - one.base for end in ("ci_low", "ci_high"))
        clusters = one.cells.loc[(one.cells["n"] > 0) & (one.cells["coefficient"] != 0), "cluster"].nunique()
        few = one.clusters_random and clusters < stats.min_units(stats.significance(confidence), "t")
        verdict = formatting.direction(low, high, ABOVE, BELOW, NOT_SIGNIFICANT)
        verdict = verdict if high > low and not few else INCONCLUSIVE
        rows[key] = {**row, "balanced": one.base, "verdict": verdict}
    return rows


def _key(one: Headline) -> tuple[str, str, str, str]:
    return one.paper, one.model, one.measure, one.group


def judge_agreement(
    headlines: Iterable[Headline], judges: Judges, *, seed: int = 0, replicates: int = 2_000, confidence: float = 0.95
) -> pd.DataFrame:
    """Return the agreement of each other judge with the reference judge, as ``synthesis_judge_agreement``.

    It is of the people behind each headline over all groups, each person once: the percentage of equal labels
    (Wilson's interval) and Cohen's kappa (a bootstrap of ``replicates`` from ``seed``), both with the image as the
    unit, among people that both label female or male. Subsets are all people, sources of images, groups (where there
    are at most :data:`MAX_GROUPS`), and people by the reference judge's label. ``confidence`` is that of intervals,
    0–1.
    """
    draws: dict[str, Any] = {"seed": seed, "replicates": replicates, "confidence": confidence}
    first, rows = {_key(one): one for one in headlines if one.group == MEAN}, []
    for (reference, judge), others in judges.items():
        for other in others:
            if _key(other) not in first:
                continue
            names = dict(zip(("paper", "model", "headline"), _key(other), strict=False))
            for subset, group, people in _subsets(first[_key(other)], other):
                row = names | {"judge": judge, "reference": reference, "subset": subset, "group": group}
                rows.append(row | _agreement(people, draws))
                if subset == "label":
                    rows[-1]["reason"] = "kappa takes both labels of the reference"
    return tables.make_table(rows, "synthesis_judge_agreement")


def _subsets(first: Headline, other: Headline) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield subsets of the people of a headline, with the labels ``judged`` by the reference and ``other``."""
    people = first.people.assign(cluster=first.cells["cluster"].to_numpy()[first.people["cell"]])
    labels = other.people.drop_duplicates(PERSON).rename(columns={"judged": "other"})
    people = people.drop_duplicates(PERSON).merge(labels[[*PERSON, "other"]], on=PERSON)
    people = people.assign(label=people["judged"].map(_LABELS))
    yield "all", MEAN, people
    for subset, column in (("source", "source"), ("group", "cluster"), ("label", "label")):
        if subset == "label" or 1 < people[column].nunique() <= MAX_GROUPS:
            for group, rows in people.groupby(column, sort=False):
                yield subset, str(group), rows


def _agreement(people: pd.DataFrame, draws: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of one subset of people (``judged`` and ``other``: 1 female, 0 male, NaN neither)."""
    both = people.dropna(subset=["judged", "other"])
    images = both.groupby(["source", "image_id"]).ngroup()
    equal = (both["judged"] == both["other"]).groupby(images).agg(["sum", "size"])
    share = stats.clustered_share(equal["sum"], equal["size"], draws["confidence"])
    first, second = (both[name].map(_LABELS).to_numpy(object) for name in ("judged", "other"))
    kappa = agreement.cohen_kappa(first, second, GENDERS, clusters=images, **draws)
    row: dict[str, Any] = {"percent": 100 * share.value, "ci_low": 100 * share.ci_low, "ci_high": 100 * share.ci_high}
    row |= {"kappa": kappa.value, "kappa_ci_low": kappa.ci_low, "kappa_ci_high": kappa.ci_high}
    row |= {"percent_female": 100 * both["other"].mean(), "percent_female_reference": 100 * both["judged"].mean()}
    reason = kappa.reason.replace("annotator a", "the reference").replace("annotator b", "the judge")
    row |= {"n": len(both), "n_people": len(people), "reason": reason}
    classified = {"percent_classified": "other", "percent_classified_reference": "judged"}
    return row | {name: 100 * people[column].notna().mean() for name, column in classified.items()}
