"""Findings as data: a question, an answer in a few words, and the estimate that it rests on; and words they share."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from html import escape
from math import isfinite, nan
from typing import Any

from biaslab.ground.wording import count, interval, p_words, spoken

LONGEST_ANSWER = 20
"""Words that an answer may have."""


@dataclass(frozen=True)
class Mark:
    """One estimate of a finding's small figure: a dot, with its interval as a line where it has one."""

    name: str  # What it is the estimate of, in a few words.
    estimate: float  # In the finding's unit.
    ci_low: float = nan  # Lower limit of its confidence interval; NaN where it has none.
    ci_high: float = nan  # Upper limit of its confidence interval; NaN where it has none.


@dataclass(frozen=True)
class Finding:
    """One answer that numbers give, as reports show it."""

    question: str  # What was asked, ending in a question mark.
    answer: str  # At most :data:`LONGEST_ANSWER` words; a direction only where the interval shows it.
    model: str = ""  # The model that it is about; empty where it is about none or several.
    estimate: float = nan  # The number behind it; NaN where there is none.
    ci_low: float = nan  # Lower limit of its confidence interval; NaN where it has none.
    ci_high: float = nan  # Upper limit of its confidence interval; NaN where it has none.
    unit: str = ""  # The unit of estimate and limits: ``points``, ``%``, …
    n: float = nan  # How many observations it rests on; NaN where that is not known.
    of: str = ""  # What ``n`` counts: ``occupations``, ``images``, …
    figure: str = ""  # Name of the figure that shows it.
    details: tuple[str, ...] = ()  # Sentences below it: what else belongs to it, and what it does not show.
    marks: tuple[Mark, ...] = ()  # What its small figure draws; where empty, the estimate itself.
    reference: float | None = 0.0  # Where that figure draws a line, in the unit of the estimates; None draws none.
    reference_name: str = ""  # What that line means, such as ``no change``.
    undecided: str = ""  # The answer where the test falls short of the level; a finding with one is a verdict.
    p: float = nan  # Two-sided p of what ``answer`` claims, adjusted over all tests behind it; NaN without a test.
    alpha: float = 0.05  # The level of that test, 0–1: one less the confidence.

    def __post_init__(self) -> None:
        """Check what reports rely on; a ValueError where a question or answer is missing, or the answer is too long."""
        for answer in filter(None, (self.answer or " ", self.undecided)):
            words = len(answer.split())
            if not self.question.endswith("?") or not 0 < words <= LONGEST_ANSWER:
                raise ValueError(
                    f"A finding needs a question that ends in '?' and an answer of 1 to {LONGEST_ANSWER} words; the "
                    f"question is {self.question!r}, the answer has {words} words: {answer!r}."
                )

    @property
    def least(self) -> int:
        """The least ``n`` at which a verdict says more than ``undecided``, one rule for all papers."""
        from biaslab import stats  # Pages, which know records alone, do without it.

        return stats.fewest_units(self.alpha)

    @property
    def decided(self) -> bool:
        """Whether it is a verdict whose ``answer`` stands: enough units, and a test (if any) below the level."""
        few = self.n < self.least
        return bool(self.undecided) and self.answer != self.undecided and not few and not self.p >= self.alpha

    @property
    def said(self) -> str:
        """The answer that stands alone: ``undecided`` where a verdict is not decided."""
        return self.answer if self.decided or not self.undecided else self.undecided

    @property
    def numbers(self) -> str:
        """The estimate with its interval and n, such as ``+1.2 points (0.3 to 2.1; n = 62 occupations)``."""
        if not isfinite(self.estimate):
            return ""
        limits = interval(vars(self))
        n = f"; n = {count(self.n, _singular(self.of), self.of)}".rstrip() if isfinite(self.n) else ""
        unit = f" {self.unit}".rstrip()
        return f"{spoken(self.estimate)}{unit} ({limits}{n})"

    def __str__(self) -> str:
        """Return it as text: question, answer, numbers, details."""
        whom = f"{self.model}: " if self.model else ""
        numbers = f" {self.numbers}." if self.numbers else ""
        return " ".join([f"{whom}{self.question} {self.said}{numbers}", *self._details])

    def _repr_html_(self) -> str:
        """Return it as a notebook shows it: the question, its answer, numbers behind it, and what belongs to it."""
        whom, numbers = ((f"{self.model}: " if self.model else ""), f" {self.numbers}." if self.numbers else "")
        said = f"<p><b>{escape(whom + self.question)}</b> {escape(self.said + numbers)}</p>"
        return f"{said}<p><small>{escape(' '.join(self._details))}</small></p>" if self._details else said

    @property
    def _details(self) -> tuple[str, ...]:
        if not (self.undecided and self.n < self.least):
            return self.details
        return (*self.details, f"A verdict takes {self.least} {self.of} or more.".replace("  ", " "))

    def as_record(self) -> dict:
        """Return it as JSON has it: what is not known is None, and ``answer`` is the one that stands."""
        told = {"answer": self.said, "details": list(self._details), "numbers": self.numbers}
        return _plain(asdict(self)) | told | {"decided": self.decided}


def held_together(records: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return a page's findings with one level for all of its main verdicts, and what was done.

    ``records`` are those of :meth:`Finding.as_record` with ``main`` and ``printed``. The p-values of the main verdicts
    are adjusted over the page (Holm), those on printed numbers apart. A verdict that does not hold over the page, or
    has no test, gets its ``undecided`` answer; all get ``p_page``.

    Returns:
        The records in their order, and counts: ``tested`` (main verdicts), ``stand``, ``withdrawn``, ``alpha``, and of
        verdicts that are not main ``others`` and ``others_stand``.
    """
    from biaslab.stats import adjust

    verdicts = [i for i, record in enumerate(records) if record.get("undecided")]
    main = [i for i in verdicts if records[i].get("main")]
    tests = {i: records[i]["p"] for i in main if records[i].get("p") is not None}
    adjusted: dict[int, float] = {}
    for kind in (True, False):
        family = [i for i in tests if bool(records[i].get("printed")) is kind]
        adjusted |= zip(family, map(float, adjust([tests[i] for i in family])), strict=True)
    held, withdrawn = list(records), 0
    for i in main:
        record, p = records[i], adjusted.get(i)
        held[i] = record | {"p_page": p}
        if record["decided"] and (p is None or p >= record["alpha"]):
            alone = f"Alone {p_words(record['p'])}, over the page {p_words(p)}." if p is not None else "No test."
            details = [*record["details"], alone]
            held[i] |= {"answer": record["undecided"], "decided": False, "details": details}
            withdrawn += 1
    others = [records[i] for i in verdicts if i not in set(main)]
    return held, {
        "alpha": min((record["alpha"] for record in records), default=0.05),
        "tested": len(tests),
        "stand": sum(held[i]["decided"] for i in main),
        "withdrawn": withdrawn,
        "others": len(others),
        "others_stand": sum(record["decided"] for record in others),
    }


def _singular(of: str) -> str:
    """Return what is counted as one of it: ``people`` as ``person``, ``images (naive)`` as ``image (naive)``."""
    noun = re.split(r"[(,]", of, maxsplit=1)[0]
    noun = noun if noun == of else noun.rstrip()
    rest = of[len(noun) :]
    noun = re.sub(r"people$", "person", re.sub(r"ies$", "y", noun))
    return noun.removesuffix("s") + rest


def _plain(value: Any) -> Any:
    """Return a value without NaN, and without numbers of NumPy, as tables hold them: JSON has neither."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not isfinite(value) else value
