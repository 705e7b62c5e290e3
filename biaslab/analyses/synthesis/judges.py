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
"""Maximum number of a headline's groups for which agreement is reported by group."""
_NO_ESTIMATE: dict[str, Any] = dict.fromkeys(("estimate", "ci_low", "ci_high"), np.nan)
_NO_ESTIMATE |= {"n": 0, "verdict": INCONCLUSIVE}
_NO_ESTIMATE |= {"reason": "the judge labels no person in at least one group of the headline"}
_LABELS = {1.0: GENDERS[0], 0.0: GENDERS[1]}


def judge_headlines(headlines: Iterable[Headline], judges: Judges, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return each headline by the reference judge and by each other judge, as ``synthesis_judge_headlines``.

    ``headlines`` are those of the reference judge, and ``judges`` has the same headlines by others. Estimates and
    intervals are those of the judge alone in :func:`biaslab.analyses.precision.estimates`, at ``confidence`` (0–1).
    The verdict compares the interval with the value at equal shares. It is ``above``, ``below``, ``not_significant``,
    or ``inconclusive``: without an interval of positive width, or with fewer clusters than a t test needs. It is not
    adjusted over a report. ``changes_verdict`` is 1 or 0, and missing where either verdict is inconclusive. A
    headline that cannot be computed from a judge's labels has no estimate.
    """
    # Values that papers print come without people that another judge could label.
    reference_rows = _estimates_by_headline((headline for headline in headlines if len(headline.people)), confidence)
    rows = {}
    for (reference, judge), other_headlines in judges.items():
        by_key = _estimates_by_headline(other_headlines, confidence)
        for key, reference_row in reference_rows.items():
            judge_row = by_key.get(key, reference_row | _NO_ESTIMATE)
            verdicts = reference_row["verdict"], judge_row["verdict"]
            changes = np.nan if INCONCLUSIVE in verdicts else float(verdicts[0] != verdicts[1])
            rows[*key, reference] = reference_row | {"judge": reference, "reference": reference, "changes_verdict": 0}
            rows[*key, judge] = judge_row | {"judge": judge, "reference": reference, "changes_verdict": changes}
    return tables.make_table(list(rows.values()), "synthesis_judge_headlines")


def _estimates_by_headline(headlines: Iterable[Headline], confidence: float) -> dict[tuple, dict[Any, Any]]:
    """Return the rows of headlines by their judge, each with its verdict, by paper, model, headline and group."""
    by_key = {_key(headline): headline for headline in headlines}
    unannotated = tables.make_table([], "precision_ratings")
    table = estimates(by_key.values(), unannotated, confidence=confidence)
    judge_rows = table[table["estimator"] == JUDGE].to_dict("records")
    rows: dict[tuple, dict[Any, Any]] = {}
    for (key, headline), row in zip(by_key.items(), judge_rows, strict=True):
        low, high = (row[end] - headline.base for end in ("ci_low", "ci_high"))
        clusters = headline.cells.loc[
            (headline.cells["n"] > 0) & (headline.cells["coefficient"] != 0), "cluster"
        ].nunique()
        has_few_clusters = headline.clusters_random and clusters < stats.min_units(stats.significance(confidence), "t")
        verdict = formatting.direction(low, high, ABOVE, BELOW, NOT_SIGNIFICANT)
        verdict = verdict if high > low and not has_few_clusters else INCONCLUSIVE
        rows[key] = {**row, "balanced": headline.base, "verdict": verdict}
    return rows


def _key(headline: Headline) -> tuple[str, str, str, str]:
    return headline.paper, headline.model, headline.measure, headline.group


def judge_agreement(
    headlines: Iterable[Headline], judges: Judges, *, seed: int = 0, replicates: int = 2_000, confidence: float = 0.95
) -> pd.DataFrame:
    """Return the agreement of each other judge with the reference judge, as ``synthesis_judge_agreement``.

    Measures are the percentage of equal labels (Wilson's interval) and Cohen's kappa (a bootstrap of ``replicates``
    from ``seed``), both with the image as the unit. They include the people behind each headline over all groups that
    both judges label female or male, each person once. Subsets are all people, sources of images, groups (at most
    :data:`MAX_GROUPS`), and people by the reference judge's label. ``confidence`` is that of intervals, 0–1.
    """
    draws: dict[str, Any] = {"seed": seed, "replicates": replicates, "confidence": confidence}
    reference_headlines, rows = {_key(headline): headline for headline in headlines if headline.group == MEAN}, []
    for (reference, judge), other_headlines in judges.items():
        for headline in other_headlines:
            if _key(headline) not in reference_headlines:
                continue
            names = dict(zip(("paper", "model", "headline"), _key(headline), strict=False))
            for subset, group, people in _subsets(reference_headlines[_key(headline)], headline):
                row = names | {"judge": judge, "reference": reference, "subset": subset, "group": group}
                rows.append(row | _agreement(people, draws))
                if subset == "label":
                    rows[-1]["reason"] = "kappa requires both labels of the reference judge"
    return tables.make_table(rows, "synthesis_judge_agreement")


def _subsets(reference: Headline, headline: Headline) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield subsets of the people of a headline, with the labels ``judged`` by the reference and ``other``."""
    people = reference.people.assign(cluster=reference.cells["cluster"].to_numpy()[reference.people["cell"]])
    labels = headline.people.drop_duplicates(PERSON).rename(columns={"judged": "other"})
    people = people.drop_duplicates(PERSON).merge(labels[[*PERSON, "other"]], on=PERSON)
    people = people.assign(label=people["judged"].map(_LABELS))
    yield "all", MEAN, people
    for subset, column in (("source", "source"), ("group", "cluster"), ("label", "label")):
        if subset == "label" or 1 < people[column].nunique() <= MAX_GROUPS:
            for group, rows in people.groupby(column, sort=False):
                yield subset, str(group), rows


def _agreement(people: pd.DataFrame, draws: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of one subset of people (``judged`` and ``other``: 1 female, 0 male, NaN neither)."""
    pairs = people.dropna(subset=["judged", "other"])
    images = pairs.groupby(["source", "image_id"]).ngroup()
    equal = (pairs["judged"] == pairs["other"]).groupby(images).agg(["sum", "size"])
    share = stats.clustered_share(equal["sum"], equal["size"], draws["confidence"])
    reference_labels, judge_labels = (pairs[name].map(_LABELS).to_numpy(object) for name in ("judged", "other"))
    kappa = agreement.cohen_kappa(reference_labels, judge_labels, GENDERS, clusters=images, **draws)
    row: dict[str, Any] = {"percent": 100 * share.value, "ci_low": 100 * share.ci_low, "ci_high": 100 * share.ci_high}
    row |= {"kappa": kappa.value, "kappa_ci_low": kappa.ci_low, "kappa_ci_high": kappa.ci_high}
    row |= {
        "percent_female": 100 * pairs["other"].mean(),
        "percent_female_reference": 100 * pairs["judged"].mean(),
    }
    reason = kappa.reason.replace("annotator a", "the reference").replace("annotator b", "the judge")
    row |= {"n": len(pairs), "n_people": len(people), "reason": reason}
    classified = {"percent_classified": "other", "percent_classified_reference": "judged"}
    return row | {name: 100 * people[column].notna().mean() for name, column in classified.items()}
