"""Agreement of judges and annotators about the people in images, with intervals over images.

Source: paired paper, appendix B (Tables 6 and 7) and D (Table 9).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from biaslab.judges.judge_labels import JUDGED
from biaslab.metrics import agreement
from biaslab.schema.genders import GENDERS

ANNOTATORS = "annotators"
AGREEMENT_COLUMNS = (
    "aspect", "setting", "judge", "reference", "statistic", "value", "ci_low", "ci_high",
    "n", "n_missing", "n_annotators", "reason",
)  # fmt: skip
"""The columns of ``paired_judge_agreement`` without the model, with numbers of people and annotators."""

_KEYS = ["image_id", "position"]
_CELL = ["aspect", "setting"]


def agreement_tables(
    people_by_judge: Mapping[str, pd.DataFrame],
    truth: pd.DataFrame | None = None,
    annotated: pd.DataFrame | None = None,
    *,
    seed: int = 0,
    replicates: int = 2_000,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Return the agreement of judges with the truth and with annotators, and among annotators (Tables 9 and 7).

    People of one image are not independent. Intervals are of a percentile bootstrap that resamples images with all of
    their people. For annotators they generalise to other images, not to other annotators.

    Args:
        people_by_judge: Judge's name -> its judgements: image_id, position (a number or word, the same in all
            tables), status, gender, aspect, setting.
        truth: The true people: image_id, position, gender; None where unknown.
        annotated: The people with their annotations, as returned by :func:`biaslab.ratings.annotations.judgements`,
            with aspect and setting; None without annotations.
        seed, replicates, confidence: Those of the bootstrap, and the level of intervals, 0–1.

    Returns rows with :data:`AGREEMENT_COLUMNS`. ``cohen_kappa`` is each judge's with ``reference`` (``truth``, or
    ``annotators``: their most frequent label), over the ``n`` people that both label female or male; ``fleiss_kappa``
    that of the ``annotators``, on female, male and unsure, over people with the most frequent number of annotations
    (``n_annotators``). n_missing are the other people of the cell. With two or more aspects ``average`` is their mean,
    as in Table 7. Undefined values are NaN with a reason.
    """
    options: dict[str, Any] = {"seed": np.random.default_rng(seed), "replicates": replicates, "confidence": confidence}
    references = {}
    if truth is not None:
        references["truth"] = _add_labels(truth)
    if annotated is not None:
        references[ANNOTATORS] = _add_labels(annotated)
    rows: list[dict] = []
    for judge, judgements in people_by_judge.items():
        labels = _add_labels(judgements)
        labels["label"] = labels["label"].where(labels["status"] == JUDGED)
        for reference, reference_labels in references.items():
            pairs = labels.merge(reference_labels[[*_KEYS, "label"]], on=_KEYS, how="left", suffixes=("", "_reference"))
            keys = {"judge": judge, "reference": reference, "statistic": "cohen_kappa"}
            rows += _cell_rows(pairs, keys, _cohen, options)
    if annotated is not None:
        keys = {"judge": ANNOTATORS, "reference": ANNOTATORS, "statistic": "fleiss_kappa"}
        rows += _cell_rows(references[ANNOTATORS], keys, _fleiss, options)
    return pd.DataFrame(rows, columns=list(AGREEMENT_COLUMNS))


def _add_labels(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table's people with ``label``: female, male, or missing; a position may be a number or a word."""
    table = table.astype({"image_id": str, "position": str}).reset_index(drop=True)
    return table.assign(label=table["gender"].astype(object).where(table["gender"].isin(GENDERS)))


def _cell_rows(table: pd.DataFrame, keys: dict, estimator: Callable, options: dict[str, Any]) -> list[dict]:
    """Return one row per aspect and setting of ``table``, then the mean over aspects for each setting."""
    rows, resamples = [], {}
    for key, cell in table.groupby(_CELL, sort=False, observed=True):
        estimate, n_annotators = estimator(cell, options)
        resamples[key] = estimate.resamples
        row = {**dict(zip(_CELL, key, strict=True)), **keys, **estimate._asdict(), "n": estimate.n_items}
        rows.append({**row, "n_missing": len(cell) - estimate.n_items, "n_annotators": n_annotators})
    cells = pd.DataFrame(rows, columns=list(AGREEMENT_COLUMNS))
    for setting, parts in cells.groupby("setting", sort=False):
        if len(parts) < 2:
            continue
        value, limits = np.nan, (np.nan, np.nan, "an aspect has no value")
        if parts["value"].notna().all():
            value = float(parts["value"].mean())
            means = np.mean([resamples[aspect, setting] for aspect in parts["aspect"]], axis=0)
            limits = agreement.percentile_interval(means, options["confidence"])
        n, n_annotators = parts[["n", "n_missing"]].sum(), parts["n_annotators"].unique()
        mean = {"aspect": "average", "setting": setting, **keys, "value": value, **n}
        mean |= dict(zip(("ci_low", "ci_high", "reason"), limits, strict=True))
        rows.append({**mean, "n_annotators": n_annotators[0] if len(n_annotators) == 1 else np.nan})
    return rows


def _cohen(cell: pd.DataFrame, options: dict[str, Any]) -> tuple[agreement.AgreementEstimate, int]:
    """Return the kappa of two labels of each person, and the number of annotators."""
    images = cell["image_id"]
    return agreement.cohen_kappa(cell["label"], cell["label_reference"], GENDERS, clusters=images, **options), 2


def _fleiss(cell: pd.DataFrame, options: dict[str, Any]) -> tuple[agreement.AgreementEstimate, int]:
    """Return the annotators' kappa, from the number of annotations with each label, and the number per person.

    That is the most frequent number of annotations, the larger in ties; people may have different annotators.
    """
    counts = cell[list(agreement.LABELS)].to_numpy(int)
    n_ratings = counts.sum(axis=1)
    n_people = np.bincount(n_ratings[n_ratings >= 2], minlength=3)
    n_annotators = len(n_people) - 1 - int(np.argmax(n_people[::-1])) if n_people.any() else 2
    is_complete = n_ratings == n_annotators
    labels = [np.repeat(agreement.LABELS, row) for row in counts[is_complete]]
    ratings = np.array(labels, dtype=object).reshape(len(labels), n_annotators)
    return agreement.fleiss_kappa(ratings, clusters=cell["image_id"].to_numpy()[is_complete], **options), n_annotators
