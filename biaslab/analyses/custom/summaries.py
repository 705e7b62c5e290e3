"""Texts of cards on classification outcomes, and on answers to custom questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from biaslab.judges.judge_labels import ADVICE, JUDGED, UNCERTAIN, UNCLEAR

# Maximum words of a list of statuses, and of a list of answers, on a card.
_MAX_STATUS_WORDS, _MAX_ANSWER_WORDS = 10, 14
# Below this share of people judged, in percent, a card gives advice.
_ADVICE_BELOW = 50.0


def judged_shares(outcomes: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of ``custom_outcomes`` for judged people, 0% where none is, with texts of cards on all others.

    ``others`` counts them by status, the most frequent first; ``advice`` recommends a step where less than half of
    the people are judged.
    """
    rows = []
    for _, group in outcomes.groupby(["model", "group"], sort=False):
        judged_rows = group[group["status"] == JUDGED]
        if judged_rows.empty:
            missing: dict[str, Any] = {
                "status": JUDGED,
                "n": 0,
                "percent": 0.0,
                "ci_low": float("nan"),
                "ci_high": float("nan"),
            }
            judged_rows = group.head(1).assign(**missing)
        counts = group[group["status"] != JUDGED].set_index("status")["n"].astype(int).sort_values(ascending=False)
        advice = ADVICE.get(counts.index[0], "") if judged_rows["percent"].iloc[0] < _ADVICE_BELOW else ""
        rows.append(judged_rows.assign(others=count_statuses(counts) or "none", advice=advice))
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
        listed[key] = _join([f"{_shorten(answer)} {percent:.0f}%" for answer, percent in percents], _MAX_ANSWER_WORDS)
    keys = pd.MultiIndex.from_frame(answered[["model", "question"]])
    return answered.assign(listed=pd.Series(listed, dtype=object).reindex(keys).to_numpy() if listed else "")


def name_pairs(differences: pd.DataFrame) -> pd.DataFrame:
    """Return rows that compare a model with an ``other``: ``model`` becomes both names, ``first`` and ``second`` are
    short forms of each.
    """
    first, second = (differences[name].astype(str).map(_shorten) for name in ("model", "other"))
    return differences.assign(model=differences["model"] + " and " + differences["other"], first=first, second=second)


def _shorten(text: str, max_words: int = 3) -> str:
    words = text.split()
    return " ".join(words[:max_words]) + ("…" if len(words) > max_words else "")


def _join(texts: Iterable[str], max_words: int = _MAX_STATUS_WORDS) -> str:
    """Join texts by commas up to ``max_words`` words, and add the number of further texts."""
    texts = list(texts)
    ends = [sum(len(text.split()) for text in texts[: k + 1]) for k in range(len(texts))]
    n_shown = max(sum(end <= max_words for end in ends), 1)
    return ", ".join(texts[:n_shown]) + (f" and {len(texts) - n_shown} more" if len(texts) > n_shown else "")
