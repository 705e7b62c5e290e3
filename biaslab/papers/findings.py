"""Findings as data: a question, an answer in a few words, and the estimate that it rests on; and words they share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from math import isfinite, nan
from string import Formatter
from typing import TYPE_CHECKING, Any

from biaslab.ground.wording import count, interval, moved, p_words, spoken

if TYPE_CHECKING:
    import pandas as pd

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
    reference: float = 0.0  # Where that figure draws a line, in the unit of the estimates.
    reference_name: str = ""  # What that line means, such as ``no change``.
    undecided: str = (
        ""  # The answer where the test falls short of the level; a finding with one is a verdict.
    )
    p: float = (
        nan  # Two-sided p of what ``answer`` claims, adjusted over all tests behind it; NaN without a test.
    )
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
    are adjusted over the page (Holm): where nothing is there, it claims anything with a chance of the level at most.
    Those on numbers that papers print are a family of their own, so that what is measured beside them moves none. A
    verdict that does not hold over the page, or has no test, gets its ``undecided`` answer; all get ``p_page``.

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
            alone = (
                f"Alone {p_words(record['p'])}, over the page {p_words(p)}." if p is not None else "No test."
            )
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


def from_row(
    row,
    question: str,
    answer: str,
    value: str,
    unit: str,
    n: str,
    of: str,
    *,
    limits: tuple[str, str] = ("ci_low", "ci_high"),
    details: Iterable[str] = (),
    **more,
) -> Finding:
    """Return a finding whose model and numbers are those of a table's row, a named tuple or a Series.

    ``value``, ``n`` and ``limits`` name its columns, and what there is no column of is not known; empty details are
    left out; ``more`` are fields as they are.
    """
    number, size, low, high = (getattr(row, name, nan) for name in (value, n, *limits))
    numbers = {"estimate": number, "ci_low": low, "ci_high": high, "n": size}
    told = {"model": getattr(row, "model", ""), "details": tuple(filter(None, details))} | more
    return Finding(question, answer, unit=unit, of=of, **numbers, **told)


class _Words(Formatter):
    """Writes numbers as they are spoken where no format is given."""

    def format_field(self, value: object, format_spec: str) -> str:
        return format(value, format_spec) if format_spec or isinstance(value, str) else spoken(value)


def _lacks(text: str, row) -> bool:
    """Return whether a number that a text has in braces is missing in a row."""
    names = (name for _, name, *_ in _Words().parse(text) if name)
    return any(isinstance(value := getattr(row, name), float) and value != value for name in names)


def by_row(
    rows: pd.DataFrame,
    question: str,
    answer: str | tuple[str, str, str],
    value: str,
    unit: str,
    n: str,
    of: str,
    *,
    limits: tuple[str, str] = ("ci_low", "ci_high"),
    details: Iterable[str] = (),
    p: str = "",
    confidence: float = 0.95,
    **more,
) -> list[Finding]:
    """Return a finding for each row of a table.

    Texts have its columns in braces, numbers as they are spoken where no format is given; details that have a missing
    number are left out. ``answer`` may be three, of a
    verdict: for an estimate above 0, below 0, and where neither is shown. ``p`` names the column of its test, adjusted
    over what it rests on, for the level 1 - ``confidence`` (0–1); without one the interval decides. The rest as in
    :func:`from_row`.
    """
    found = []
    for row in rows.itertuples(index=False):
        said, tested = answer, {}
        if not isinstance(answer, str) and p:
            tested = verdict(getattr(row, value), getattr(row, p), answer, confidence)
        elif not isinstance(answer, str):
            ends = (getattr(row, name, nan) for name in limits)
            tested = verdict(nan, nan, answer, confidence) | {"answer": moved(*ends, *answer)}
        if tested:
            said, tested["undecided"] = (
                tested.pop("answer"),
                _Words().vformat(tested["undecided"], (), row._asdict()),
            )
        whole = [text for text in details if not _lacks(text, row)]
        asked, said, *told = (_Words().vformat(text, (), row._asdict()) for text in (question, said, *whole))
        found.append(
            from_row(row, asked, said, value, unit, n, of, limits=limits, details=told, **tested, **more)
        )
    return found


def verdict(value: float, p: float, answers: tuple[str, str, str], confidence: float) -> dict[str, Any]:
    """Return the fields of a finding that claims a difference at the level 1 - ``confidence`` (0–1).

    ``answers`` are for a ``value`` above 0, below 0, and where neither is shown: the third where it is 0 or NaN, or has
    no test (a ``p`` of NaN).
    """
    from biaslab import stats

    answer = moved(value, value, *answers) if isfinite(p) else answers[2]
    return {"answer": answer, "undecided": answers[2], "p": p, "alpha": stats.significance(confidence)}


def each(
    table: pd.DataFrame, by: list[str], say: Callable[..., Finding | Iterable[Finding] | None]
) -> list[Finding]:
    """Return what ``say(*names, rows)`` finds in each group of rows that share their values of ``by``."""
    found: list[Finding] = []
    for names, rows in table.groupby(by, sort=False):
        said = say(*(names if isinstance(names, tuple) else (names,)), rows)
        found += [said] if isinstance(said, Finding) else list(said or ())
    return found


def away(rows: pd.DataFrame) -> int:
    """Return how many intervals of a table exclude 0."""
    return int(((rows["ci_low"] > 0) | (rows["ci_high"] < 0)).sum())
