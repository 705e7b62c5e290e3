"""Texts of cards on classification outcomes, and on answers to custom questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from biaslab.judges.judge_labels import ADVICE, JUDGED, UNCERTAIN, UNCLEAR

# Words of a list of statuses, and of a list of answers, in what a card says, which is short.
_WORDS, _ANSWER_WORDS = 10, 14
# Below this share of people judged, in percent, a card says what to do.
_FEW = 50.0


def judged_shares(outcomes: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of ``custom_outcomes`` for judged people, 0 % where none is, with texts of cards on all others.

    ``others`` counts them by status, the most frequent first; ``advice`` recommends a step where less than half of
    the people are judged.
    """
    rows = []
    for _, of in outcomes.groupby(["model", "group"], sort=False):
        judged = of[of["status"] == JUDGED]
        if judged.empty:
            missing: dict[str, Any] = {
                "status": JUDGED,
                "n": 0,
                "percent": 0.0,
                "ci_low": float("nan"),
                "ci_high": float("nan"),
            }
            judged = of.head(1).assign(**missing)
        others = of[of["status"] != JUDGED].set_index("status")["n"].astype(int).sort_values(ascending=False)
        advice = ADVICE.get(others.index[0], "") if judged["percent"].iloc[0] < _FEW else ""
        rows.append(judged.assign(others=count_statuses(others) or "none", advice=advice))
    return pd.concat(rows, ignore_index=True)


def count_statuses(counts: Mapping[str, int] | pd.Series) -> str:
    """Return numbers by status in words, such as ``no face 3, unclear 1``."""
    names = {UNCERTAIN: UNCLEAR}
    return _join(f"{names.get(str(status), str(status)).replace('_', ' ')} {n:,}" for status, n in counts.items())


def listed_answers(answered: pd.DataFrame) -> pd.DataFrame:
    """Return rows of ``custom_answer_shares`` with ``listed``: mean shares of a question's answers in words."""
    listed = {}
    for key, rows in answered[answered["group"] == "all"].groupby(["model", "question"]):
        rows = rows.dropna(subset="percent").sort_values("percent", ascending=False, kind="stable")
        rows = pd.concat([rows[rows["answer"] != UNCLEAR], rows[rows["answer"] == UNCLEAR]])
        percents = zip(rows["answer"], rows["percent"], strict=True)
        listed[key] = _join([f"{_shorten(answer)} {percent:.0f} %" for answer, percent in percents], _ANSWER_WORDS)
    keys = pd.MultiIndex.from_frame(answered[["model", "question"]])
    return answered.assign(listed=pd.Series(listed, dtype=object).reindex(keys).to_numpy() if listed else "")


def name_pairs(differences: pd.DataFrame) -> pd.DataFrame:
    """Return rows that compare a model with an ``other``, for answers: ``model`` names both, ``first`` and ``second``
    each, in few words.
    """
    first, second = (differences[name].astype(str).map(_shorten) for name in ("model", "other"))
    return differences.assign(model=differences["model"] + " and " + differences["other"], first=first, second=second)


def _shorten(text: str, most: int = 3) -> str:
    words = text.split()
    return " ".join(words[:most]) + ("…" if len(words) > most else "")


def _join(texts: Iterable[str], most: int = _WORDS) -> str:
    """Return texts with commas, and how many more there are past ``most`` words."""
    texts = list(texts)
    ends = [sum(len(text.split()) for text in texts[: k + 1]) for k in range(len(texts))]
    shown = max(sum(end <= most for end in ends), 1)
    return ", ".join(texts[:shown]) + (f" and {len(texts) - shown} more" if len(texts) > shown else "")
