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
"""As table ``paired_judge_agreement`` has them (without the model), and what the value rests on."""

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
    """Return how far judges agree with the truth and with annotators, and annotators among themselves (Tables 9 and 7).

    People of one image are not independent: intervals are of a percentile bootstrap that redraws images with all of
    their people. For annotators they speak of other images, not of other annotators.

    Args:
        people_by_judge: Judge's name -> its judgements: image_id, position (a number or word, the same in all
            tables), status, gender, aspect, setting.
        truth: Who is shown: image_id, position, gender; None where it is not known.
        annotated: The people with their annotations, as of :func:`biaslab.ratings.annotations.judgements`, aspect and
            setting; None where there are none.
        seed, replicates, confidence: Of the bootstrap, and the intervals' level, 0–1.

    Returns rows with :data:`AGREEMENT_COLUMNS`. ``cohen_kappa`` is each judge's with ``reference`` (``truth``, or
    ``annotators``: the annotators' majority), over the ``n`` people that both call female or male; ``fleiss_kappa``
    that of the ``annotators``, on female, male and unsure, over people with the number of annotations that most have
    (``n_annotators``). n_missing are the others of the cell. With two or more aspects ``average`` is the mean over
    them, as in Table 7. What is not defined is NaN with a reason.
    """
    options: dict[str, Any] = {"seed": np.random.default_rng(seed), "replicates": replicates, "confidence": confidence}
    references = {}
    if truth is not None:
        references["truth"] = _labelled(truth)
    if annotated is not None:
        references[ANNOTATORS] = _labelled(annotated)
    rows: list[dict] = []
    for judge, judged in people_by_judge.items():
        seen = _labelled(judged)
        seen["said"] = seen["said"].where(seen["status"] == JUDGED)
        for reference, known in references.items():
            both = seen.merge(known[[*_KEYS, "said"]], on=_KEYS, how="left", suffixes=("", "_known"))
            given = {"judge": judge, "reference": reference, "statistic": "cohen_kappa"}
            rows += _cells(both, given, _cohen, options)
    if annotated is not None:
        given = {"judge": ANNOTATORS, "reference": ANNOTATORS, "statistic": "fleiss_kappa"}
        rows += _cells(references[ANNOTATORS], given, _fleiss, options)
    return pd.DataFrame(rows, columns=list(AGREEMENT_COLUMNS))


def _labelled(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table's people with ``said``: female, male, or missing; a position may be a number or a word."""
    table = table.astype({"image_id": str, "position": str}).reset_index(drop=True)
    return table.assign(said=table["gender"].astype(object).where(table["gender"].isin(GENDERS)))


def _cells(table: pd.DataFrame, given: dict, work: Callable, options: dict[str, Any]) -> list[dict]:
    """Return one row per aspect and setting of ``table``, then the mean over aspects for each setting."""
    rows, drawn = [], {}
    for at, cell in table.groupby(_CELL, sort=False, observed=True):
        estimate, n_annotators = work(cell, options)
        drawn[at] = estimate.resamples
        row = {**dict(zip(_CELL, at, strict=True)), **given, **estimate._asdict(), "n": estimate.n_items}
        rows.append({**row, "n_missing": len(cell) - estimate.n_items, "n_annotators": n_annotators})
    whole = pd.DataFrame(rows, columns=list(AGREEMENT_COLUMNS))
    for setting, parts in whole.groupby("setting", sort=False):
        if len(parts) < 2:
            continue
        value, limits = np.nan, (np.nan, np.nan, "an aspect has no value")
        if parts["value"].notna().all():
            value = float(parts["value"].mean())
            means = np.mean([drawn[aspect, setting] for aspect in parts["aspect"]], axis=0)
            limits = agreement.percentile_interval(means, options["confidence"])
        n, n_annotators = parts[["n", "n_missing"]].sum(), parts["n_annotators"].unique()
        mean = {"aspect": "average", "setting": setting, **given, "value": value, **n}
        mean |= dict(zip(("ci_low", "ci_high", "reason"), limits, strict=True))
        rows.append({**mean, "n_annotators": n_annotators[0] if len(n_annotators) == 1 else np.nan})
    return rows


def _cohen(cell: pd.DataFrame, options: dict[str, Any]) -> tuple[agreement.AgreementEstimate, int]:
    """Return the kappa of two labels of each person, and the number of annotators."""
    images = cell["image_id"]
    return agreement.cohen_kappa(cell["said"], cell["said_known"], GENDERS, clusters=images, **options), 2


def _fleiss(cell: pd.DataFrame, options: dict[str, Any]) -> tuple[agreement.AgreementEstimate, int]:
    """Return the annotators' kappa, from the number of annotations with each label, and their number for each person.

    That is the number of annotations that most people have, the larger of two; who gave them may differ.
    """
    counts = cell[list(agreement.LABELS)].to_numpy(int)
    given = counts.sum(axis=1)
    n_people = np.bincount(given[given >= 2], minlength=3)
    usual = len(n_people) - 1 - int(np.argmax(n_people[::-1])) if n_people.any() else 2
    usable = given == usual
    named = [np.repeat(agreement.LABELS, row) for row in counts[usable]]
    ratings = np.array(named, dtype=object).reshape(len(named), usual)
    return agreement.fleiss_kappa(ratings, clusters=cell["image_id"].to_numpy()[usable], **options), usual
