"""Findings as data: a question, a short answer, its estimate and tests; and their adjustment over a report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from html import escape
from math import isfinite, nan
from typing import Any

from biaslab.schema.formatting import (
    add_notes,
    format_count,
    format_estimate,
    format_interval,
    format_level,
    format_p_equation,
)

LONGEST_ANSWER = 20
"""Words that an answer may have."""
NOT_TESTED = "Not tested."
UNADJUSTED = "Not adjusted for multiple testing across the report."


@dataclass(frozen=True)
class Mark:
    """One estimate of a finding's small figure: a dot, with its interval, if any, as a line."""

    name: str  # What is estimated, in a few words.
    estimate: float  # In the finding's unit.
    ci_low: float = nan  # Lower limit of its confidence interval; NaN where it has none.
    ci_high: float = nan  # Upper limit of its confidence interval; NaN where it has none.
    benchmark: float = nan  # The value that it is compared with, drawn as a separate mark; NaN without one.


@dataclass(frozen=True)
class GroupTest:
    """One of several tests that a counted answer summarizes."""

    p: float  # Two-sided p (0–1), Holm-adjusted over the tests of the answer; NaN where there is no test.
    side: int = 1  # 1 where the value is above the reference, −1 below it; 1 for a test without a direction.
    significant_text: str = ""  # The text for this group if its test is significant.
    nonsignificant_text: str = ""  # The text for this group if its test is not significant.


@dataclass(frozen=True)
class Finding:
    """One answer with its numbers, as reports show it.

    A finding with ``not_significant`` is a verdict: it has a test. The answer of a verdict over several groups has the
    placeholders ``{up}``, ``{down}``, ``{unclear}`` and ``{each}``, which are filled at the level of the test.
    """

    question: str  # The question, ending in a question mark.
    answer: str  # At most :data:`LONGEST_ANSWER` words outside parentheses; a direction needs a significant test.
    model: str = ""  # The model that the finding is about; empty for none or several.
    estimate: float = nan  # The estimate; NaN without one.
    ci_low: float = nan  # Lower limit of its confidence interval; NaN where it has none.
    ci_high: float = nan  # Upper limit of its confidence interval; NaN where it has none.
    unit: str = ""  # The unit of estimate and limits: ``points``, ``%``; in parentheses, the name of the quantity.
    n: float = nan  # Number of observations; NaN where unknown.
    n_unit: str = ""  # Unit of ``n``: ``occupations``, ``images``, …
    figure: str = ""  # Name of the figure that shows the estimate.
    headline: str = ""  # Measure of the headline, as named in ``synthesis_judge_headlines``.
    card_text: str = ""  # Text of a card below its answer, such as a recommendation.
    details: tuple[str, ...] = ()  # Sentences below the answer: further facts and limits.
    marks: tuple[Mark, ...] = ()  # Marks of its small figure; where empty, the estimate itself.
    reference: float | None = 0.0  # Where that figure draws a line, in the unit of the estimates; None draws none.
    reference_name: str = ""  # Meaning of that line, such as ``no change``.
    not_significant: str = ""  # The answer where the test is not significant; a finding with one is a verdict.
    p: float = nan  # Two-sided p of ``answer``, the smallest adjusted p of several tests; NaN without a test.
    alpha: float = 0.05  # The level of that test, 0–1: one minus the confidence.
    test: str = "sign"  # The kind of test, which decides the fewest units: one of :data:`biaslab.stats.TESTS`.
    tests: tuple[GroupTest, ...] = ()  # The tests of a verdict over several groups.
    has_declared_test: bool = False  # Whether its question has a test for other rows, although not for these.

    def __post_init__(self) -> None:
        """Raise a ValueError if the question or answer is missing, or the answer is too long."""
        claim = fill_claim(self.answer, self._tests, self.alpha)
        for answer in filter(None, (claim or " ", self.not_significant)):
            words = len(re.sub(r"\([^()]*\)", "", answer).split())
            if not self.question.endswith("?") or not 0 < words <= LONGEST_ANSWER:
                raise ValueError(
                    f"A finding needs a question that ends in '?' and an answer of 1 to {LONGEST_ANSWER} words "
                    f"outside parentheses, but the question is {self.question!r}, and the answer has {words} words: "
                    f"{answer!r}."
                )

    @property
    def _tests(self) -> list[dict[str, Any]]:
        """The tests as in records."""
        return [vars(test) for test in self.tests]

    @property
    def min_units(self) -> int:
        """The fewest units on which a verdict rests, one rule for all papers."""
        from biaslab import stats  # Imported late, because pages of records do not need it.

        return stats.min_units(self.alpha, self.test)

    @property
    def has_few_units(self) -> bool:
        """Whether it has fewer units than a test needs."""
        return self.n < self.min_units

    @property
    def is_tested(self) -> bool:
        """Whether it is a verdict whose test has enough units."""
        return bool(self.not_significant) and isfinite(self.p) and not self.has_few_units

    @property
    def is_significant(self) -> bool:
        """Whether it is a verdict whose test is significant at its own level."""
        return self.is_tested and self.answer != self.not_significant and self.p <= self.alpha

    @property
    def supported_answer(self) -> str:
        """The answer that the test supports: inconclusive, not tested, not significant, or the claim."""
        if not self.not_significant:
            return self.answer
        if self.has_few_units:
            return f"Inconclusive ({'at most' if len(self.tests) > 1 else 'only'} {self._counted_units})."
        if not self.is_tested:
            return NOT_TESTED
        return fill_claim(self.answer, self._tests, self.alpha) if self.is_significant else self.not_significant

    @property
    def _counted_units(self) -> str:
        """``n`` with its unit."""
        return _count_units(self.n, self.n_unit)

    @property
    def numbers(self) -> str:
        """The estimate with its interval and n, such as ``+1.2 points (0.3 to 2.1; n = 62 occupations)``; of these,
        those that the answer does not state.
        """
        return _unstated_numbers(vars(self), self.supported_answer)

    def __str__(self) -> str:
        """Return the finding as text: question, answer, numbers, details."""
        return " ".join([" ".join(self._parts), *self._standalone_details])

    def _repr_html_(self) -> str:
        """Return the finding as HTML for notebooks: the question, its answer, numbers and details."""
        question, answer = map(escape, self._parts)
        details = escape(" ".join(self._standalone_details))
        html = f"<p><b>{question}</b> {answer}</p>" + (f"<p><small>{details}</small></p>" if details else "")
        return f'<div class="mathjax_ignore">{html}</div>'

    @property
    def _parts(self) -> tuple[str, str]:
        """The question with the model that it is about, and the answer with its numbers."""
        prefix, numbers = f"{self.model}: " if self.model else "", f" {self.numbers}." if self.numbers else ""
        return prefix + self.question, self.supported_answer + numbers

    @property
    def _details(self) -> tuple[str, ...]:
        """The details, with a note if the test is Student's, or if it has too few units."""
        if self.is_tested and self.test == "t" and isfinite(self.n):
            return (*self.details, f"Student's t-test over {self._counted_units}.")
        if self.not_significant and self.has_few_units:
            units = f"{self.min_units} {self.n_unit}".rstrip()
            return (*self.details, f"Even a single test without correction requires at least {units}.")
        return self.details

    @property
    def _significant_texts(self) -> list[str]:
        return significant_texts(self.answer, self._tests, self.alpha) if self.is_significant else []

    @property
    def _standalone_details(self) -> tuple[str, ...]:
        """The details outside a report, which lack its adjustment; with the significant groups."""
        groups = (f"Significant: {'; '.join(self._significant_texts)}.",) if self._significant_texts else ()
        return (*self._details, *groups, *((UNADJUSTED,) if self.is_significant else ()))

    def as_record(self) -> dict:
        """Return the finding as a record for JSON; missing numbers are None.

        ``answer`` is what the test supports at its own level, ``claim`` the answer with its placeholders,
        ``significant_texts`` the groups whose tests are significant.
        """
        texts = {"answer": self.supported_answer, "claim": self.answer, "details": list(self._details)}
        computed = ("numbers", "is_significant", "is_tested")
        texts |= {name: getattr(self, name) for name in computed} | {"significant_texts": self._significant_texts}
        return _to_json(asdict(self)) | texts


def fill_claim(claim: str, tests: Iterable[Mapping[str, Any]], level: float) -> str:
    """Return a counted answer with its placeholders filled at a ``level`` (0–1); ``tests`` are as in records."""
    tests = list(tests)
    significant_tests = [test for test in tests if _is_significant(test, level)]
    up = sum(test["side"] > 0 for test in significant_tests)
    group_texts = [
        test["significant_text"] if test in significant_tests else test["nonsignificant_text"] for test in tests
    ]
    texts = {
        "up": f"{up:,}",
        "down": f"{len(significant_tests) - up:,}",
        "unclear": f"{len(tests) - len(significant_tests):,}",
        "each": "; ".join(filter(None, group_texts)),
    }
    # Not `format`: names of models may have braces.
    return re.sub(r"\{(up|down|unclear|each)\}", lambda match: texts[match[1]], claim) if tests else claim


def significant_texts(claim: str, tests: Iterable[Mapping[str, Any]], level: float) -> list[str]:
    """Return the texts of the groups whose tests are significant at a ``level`` (0–1), unless the claim has them."""
    is_unlisted = "{each}" not in claim
    return [
        test["significant_text"]
        for test in tests
        if is_unlisted and test["significant_text"] and _is_significant(test, level)
    ]


def _is_significant(test: Mapping[str, Any], level: float) -> bool:
    return test["p"] is not None and test["p"] <= level


def adjust_across_report(records: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return a report's findings with the false discovery rate controlled over its headlines, and the counts.

    ``records`` are those of :meth:`Finding.as_record` with ``main`` and ``printed``. A headline is a main finding whose
    question has a test. Each enters with one p: its own, or the smallest Holm-adjusted p of its groups; one without a
    test, or on too few units, with p = 1, so that the number m of headlines does not depend on results.
    Benjamini–Hochberg selects R of m at the level alpha. Within a selected headline a group is named where its
    Holm-adjusted p is at most alpha·R/m. Headlines on printed values are a separate family. It excludes values that
    papers print without the information for a test, which is determined before any result. Other verdicts keep their
    own level and state it.

    Returns:
        The records in their order, headlines with ``p_page`` (adjusted p) and ``level`` (alpha·R/m); and counts:
        ``headlines``, ``significant``, ``untested``, ``withdrawn`` (significant alone, not across the report),
        ``printed`` (headlines on printed values), ``alpha``, and of other tested verdicts ``others`` and
        ``others_significant``.

    Source: Benjamini & Hochberg (1995), J. R. Stat. Soc. B 57, 289–300; Benjamini & Bogomolov (2014), J. R. Stat.
    Soc. B 76, 297–318.
    """
    from biaslab.stats import adjust

    alpha = min((record["alpha"] for record in records), default=0.05)
    headlines = [
        i for i, r in enumerate(records)
        if r.get("main") and (r["not_significant"] or (r["has_declared_test"] and not r.get("printed")))
    ]  # fmt: skip
    adjusted = list(records)
    for is_printed in (False, True):
        family = [i for i in headlines if bool(records[i].get("printed")) is is_printed]
        p = [records[i]["p"] if records[i]["is_tested"] else 1.0 for i in family]
        p_page = adjust(p, "benjamini_hochberg").tolist()
        level = alpha * sum(p <= alpha for p in p_page) / max(len(family), 1)
        for i, p_adjusted in zip(family, p_page, strict=True):
            adjusted[i] = _record_at_level(records[i], p_adjusted, level)
    other_tests = [i for i, r in enumerate(records) if r["is_tested"] and i not in headlines]
    for i in other_tests:
        if records[i]["is_significant"]:
            adjusted[i] = records[i] | {"details": [*records[i]["details"], UNADJUSTED]}
    n_significant = sum(adjusted[i]["is_significant"] for i in headlines)
    return adjusted, {
        "alpha": alpha,
        "headlines": len(headlines),
        "significant": n_significant,
        "untested": sum(not records[i]["is_tested"] for i in headlines),
        "withdrawn": sum(records[i]["is_significant"] for i in headlines) - n_significant,
        "printed": sum(bool(records[i].get("printed")) for i in headlines),
        "others": len(other_tests),
        "others_significant": sum(records[i]["is_significant"] for i in other_tests),
    }


def _record_at_level(record: dict[str, Any], p_page: float, level: float) -> dict[str, Any]:
    """Return a headline as in the report: its claim at the ``level`` within headlines, or why it is withdrawn."""
    record = record | {"p_page": p_page if record["is_tested"] else None, "level": level}
    if not record["is_significant"]:
        return record
    if p_page <= record["alpha"]:
        arguments = record["claim"], record["tests"], level
        details = record["details"]
        if record["tests"] and level < record["alpha"]:
            share = f"{100 * level / record['alpha']:.0f}%"
            kind = "published" if record.get("printed") else "measured"
            rule = f"This level is {share} of {format_level(record['alpha'])}, because {share} of the headline "
            rule += f"findings on {kind} values are significant (Benjamini–Bogomolov)."
            tests = "Each test combined in this finding is significant if its Holm-adjusted p is at most"
            details = [*details, f"{tests} {level:.2g}. {rule}"]
        texts = {"answer": fill_claim(*arguments), "significant_texts": significant_texts(*arguments)}
        return record | texts | {"details": details}
    p_values = f"({format_p_equation(record['p'])}, adjusted {format_p_equation(p_page)})"
    answer = f"Not significant after adjustment across the report {p_values}."
    changes = {"answer": answer, "is_significant": False, "significant_texts": []}
    # The withdrawn claim may have stated them.
    return record | changes | {"numbers": _unstated_numbers(record, answer)}


def _unstated_numbers(finding: Mapping[str, Any], answer: str) -> str:
    """Return the estimate, interval and n of a finding or its record that the answer does not state."""
    values = {name: nan if finding[name] is None else finding[name] for name in ("estimate", "ci_low", "ci_high", "n")}
    if not isfinite(values["estimate"]):
        return ""
    limits = format_interval(values)
    n = f"n = {_count_units(values['n'], finding['n_unit'])}" if isfinite(values["n"]) else ""
    if limits in answer:
        return "" if "n = " in answer else n
    notes = "; ".join(filter(None, (limits, n)))
    return add_notes(format_estimate(values["estimate"], finding["unit"]), finding["unit"], notes)


def _count_units(n: float, unit: str) -> str:
    return format_count(n, _singular(unit), unit).rstrip()


def _singular(unit: str) -> str:
    """Return the singular of a unit: ``people`` as ``person``, ``images (naive)`` as ``image (naive)``."""
    noun = re.split(r"[(,]", unit, maxsplit=1)[0]
    noun = noun if noun == unit else noun.rstrip()
    suffix = unit[len(noun) :]
    noun = re.sub(r"people$", "person", re.sub(r"ies$", "y", noun))
    return noun.removesuffix("s") + suffix


def _to_json(value: Any) -> Any:
    """Return a value for JSON: NaN as None, and numbers of NumPy as those of Python."""
    if isinstance(value, dict):
        return {k: _to_json(v) for k, v in value.items()}
    if isinstance(value, tuple):
        return [_to_json(v) for v in value]
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not isfinite(value) else value
