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
# Above this share of resamples in which kappa is undefined, limits from the others would mislead.
_MOST_UNDEFINED = 0.05


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
            tables), outcome, gender, aspect, setting.
        truth: Who is shown: image_id, position, gender; None where it is not known.
        annotated: The people with their annotations, as of :func:`biaslab.ratings.annotations.judgements`, aspect and
            setting; None where there are none.
        seed, replicates, confidence: Of the bootstrap, and the intervals' level, 0–1.

    Returns rows with :data:`AGREEMENT_COLUMNS`. ``cohen_kappa`` is each judge's with ``reference`` (``truth``, or
    ``annotators``: the annotators' majority), over the ``n`` people whom both call female or male; ``fleiss_kappa``
    that of the ``annotators``, on female, male and unsure, over people with the number of ratings that most have
    (``n_annotators``). n_missing are the others of the cell. With two or more aspects ``average`` is the mean over
    them, as in Table 7. What is not defined is NaN with a reason.
    """
    options: dict[str, Any] = {"rng": np.random.default_rng(seed), "replicates": replicates, "confidence": confidence}
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
            rows += _cells(both, given, _cohen, **options)
    if annotated is not None:
        given = {"judge": ANNOTATORS, "reference": ANNOTATORS, "statistic": "fleiss_kappa"}
        rows += _cells(references[ANNOTATORS], given, _fleiss, **options)
    return pd.DataFrame(rows, columns=list(AGREEMENT_COLUMNS))


def _labelled(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table's people with ``said``: female, male, or missing; a position may be a number or a word."""
    table = table.astype({"image_id": str, "position": str}).reset_index(drop=True)
    return table.assign(said=table["gender"].astype(object).where(table["gender"].isin(GENDERS)))


def _cells(
    table: pd.DataFrame,
    given: dict,
    work: Callable,
    rng: np.random.Generator,
    replicates: int,
    confidence: float,
) -> list[dict]:
    """Return one row per aspect and setting of ``table``, then the mean over aspects for each setting."""
    rows, drawn, nothing = [], {}, {"ci_low": np.nan, "ci_high": np.nan}
    for at, cell in table.groupby(_CELL, sort=False, observed=True):
        found, coefficient, items, images = work(cell)
        n, reason = len(items), found.reason if np.isnan(found.value) else ""
        row = {**dict(zip(_CELL, at, strict=True)), **given, "value": found.value, "n": n, **nothing}
        if not reason:
            drawn[at] = _redrawn(coefficient, items, images, rng, replicates)
            row["ci_low"], row["ci_high"], reason = _limits(drawn[at], confidence)
        n_annotators = 2 if given["statistic"] == "cohen_kappa" else items.sum(axis=1).max(initial=2)
        rows.append({**row, "n_missing": len(cell) - n, "n_annotators": n_annotators, "reason": reason})
    whole = pd.DataFrame(rows, columns=list(AGREEMENT_COLUMNS))
    for setting, parts in whole.groupby("setting", sort=False):
        if len(parts) < 2:
            continue
        value, limits = np.nan, (np.nan, np.nan, "an aspect has no value")
        if all((aspect, setting) in drawn for aspect in parts["aspect"]):
            value = float(parts["value"].mean())
            limits = _limits(np.mean([drawn[a, setting] for a in parts["aspect"]], axis=0), confidence)
        n, n_annotators = parts[["n", "n_missing"]].sum(), parts["n_annotators"].unique()
        mean = {"aspect": "average", "setting": setting, **given, "value": value, **n}
        mean |= dict(zip(("ci_low", "ci_high", "reason"), limits, strict=True))
        rows.append({**mean, "n_annotators": n_annotators[0] if len(n_annotators) == 1 else np.nan})
    return rows


def _cohen(cell: pd.DataFrame) -> tuple:
    """Return kappa, how it is computed from patterns, each person's pattern, and their images."""
    pair = cell[["said", "said_known"]]
    # One replicate: its interval, over people, is not used.
    found = agreement.cohen_kappa(pair["said"], pair["said_known"], GENDERS, seed=0, replicates=1)
    both = cell[pair.notna().all(axis=1)]
    items = np.stack([(both[c] == "male").to_numpy(int) for c in pair], axis=1)
    return found, agreement.cohen, items, both["image_id"]


def _fleiss(cell: pd.DataFrame) -> tuple:
    """Return the same of the annotators' kappa, from the number of annotations with each label."""
    labels = agreement.LABELS
    counts = cell[list(labels)].to_numpy(int)
    given = counts.sum(axis=1)
    how_many = np.bincount(given[given >= 2], minlength=3)
    # The number of ratings that most people have, the larger of two; who gave them may differ.
    usual = len(how_many) - 1 - int(np.argmax(how_many[::-1])) if how_many.any() else 2
    items = counts[given == usual]
    named = np.array([np.repeat(labels, row) for row in items], dtype=object).reshape(len(items), usual)
    found = agreement.fleiss_kappa(named, labels, seed=0, replicates=1)
    return found, agreement.fleiss, items, cell["image_id"][given == usual]


def _redrawn(
    coefficient: Callable, items: np.ndarray, images: pd.Series, rng: np.random.Generator, replicates: int
) -> np.ndarray:
    """Return the coefficient over redrawn images with all of their people, (replicates,); NaN where undefined."""
    patterns, which = np.unique(items, axis=0, return_inverse=True)
    per_image = pd.crosstab(pd.factorize(images)[0], which.reshape(-1)).to_numpy()
    kinds, frequency = np.unique(per_image, axis=0, return_counts=True)
    drawn = rng.multinomial(len(per_image), frequency / len(per_image), size=replicates)
    return coefficient(drawn @ kinds, patterns)


def _limits(drawn: np.ndarray, confidence: float) -> tuple[float, float, str]:
    """Return the limits of a percentile interval, or why there are none."""
    defined = drawn[~np.isnan(drawn)]
    undefined = len(drawn) - len(defined)
    if undefined > _MOST_UNDEFINED * len(drawn):
        why = f"no interval: undefined in {undefined} of {len(drawn)} resamples (one label only)"
        return np.nan, np.nan, why
    if np.ptp(defined) < 1e-12:
        return np.nan, np.nan, "no interval: all resamples give the same value"
    tail = (1 - confidence) / 2
    low, high = np.quantile(defined, [tail, 1 - tail])
    return float(low), float(high), ""
