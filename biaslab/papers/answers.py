"""Answers as data: questions about a table, with answers declared in the ``answers.yaml`` of a paper.

An entry names a table, its rows, a question, and texts: for values above the reference, below it, and not significantly
different from it; or one sentence. There is one answer per row; with ``group_by`` and ``primary`` one per group, about
its primary row. With ``group_by`` and ``not_significant``, but no ``up``, the rows of each group are counted. The
answer then contains ``{up}``, ``{down}`` and ``{unclear}``: the numbers of rows whose adjusted test is significant
above or below the reference, or not significant. ``{each}`` are their texts ``significant_text`` or
``nonsignificant_text``. All texts have ``{rows}``. A report fills the counts again at its own level.

Texts have columns in braces: numbers in the default format if none is given, ``{p:p}`` as ``p < 0.001``, ``{x:abs}``
without its sign, values by their labels in ``tables.yaml``; ``{interval}`` are the limits of the row's value, and
``{value_with_unit}`` is that value with its unit. Texts with a missing number are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from math import isfinite, nan
from pathlib import Path
from string import Formatter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from biaslab import stats
from biaslab.errors import InputError, name_help
from biaslab.hub import registry
from biaslab.papers.findings import Finding, GroupTest, Mark
from biaslab.schema import formatting, tables

if TYPE_CHECKING:
    import pandas as pd

COUNTS = ("up", "down", "unclear", "each", "rows")
"""Placeholders of a counted answer, in addition to columns."""
_UNATTAINABLE = "Inconclusive: no test could be significant with so few observations."
_OVERCORRECTED = "The correction for small-sample bias exceeds the corrected estimate, which is not called significant."


@dataclass(frozen=True)
class Answer:
    """One entry of ``answers.yaml``."""

    name: str
    table: str  # The table whose columns texts and fields name.
    question: str  # Ends in a question mark.
    answer: str = ""  # The sentence of an answer without a test.
    up: str = ""  # The text if the value is significantly above ``reference``.
    down: str = ""  # The text if the value is significantly below ``reference``.
    not_significant: str = ""  # The text if the test is not significant; for counted answers, if none of its tests is.
    significant_text: str = ""  # For counted answers, the text for a row whose test is significant.
    nonsignificant_text: str = ""  # For counted answers, the text for a row whose test is not significant.
    rows: Mapping[str, Any] = field(default_factory=dict)  # By column, the value or values of the rows to use.
    require: tuple[str, ...] = ()  # Columns that must not be missing, in addition to ``value``.
    group_by: tuple[str, ...] = ()  # Columns that the rows of one answer share.
    primary: Mapping[str, Any] = field(default_factory=dict)  # By column, the value of a group's primary row.
    value: str = ""  # The column of the estimate.
    uncorrected: str = ""  # Column of the uncorrected estimate, which is the paper's own.
    p: str = ""  # Column of the p-value, adjusted over the tests of the answer; without one there is no verdict.
    test: str = "sign"  # The kind of test, which decides the fewest units: one of :data:`biaslab.stats.TESTS`.
    n: str = ""  # Column of the number of independent units.
    unit: str = ""  # The unit of the estimate, or a column with it in braces; the column's own where empty.
    n_unit: str = ""  # Unit of ``n``, or a column with it in braces; the column's own unit where empty.
    as_points: tuple[str, ...] = ()  # Columns of shares (0–1) that texts and estimates have in percentage points.
    reference: float = 0.0  # The value that the estimate is compared with.
    reference_name: str = ""  # Meaning of the reference, such as ``no change``.
    mark_name: str = ""  # Name of a row in the small figure; without it the figure shows the estimate only.
    mark_benchmark: str = ""  # The column of the benchmark of a row in the figure, in the unit of ``value``.
    card_text: str = ""  # Text of a card below its answer; left out if a column that it names is empty.
    row_text: str = ""  # Text about each row of a group except the primary one.
    details: tuple[str, ...] = ()  # Sentences below the answer.
    simulated: str = ""  # Key of a plugin's description of its model, the first detail; columns in braces.
    figure: str = ""  # The figure that shows the estimate.
    main: bool = False  # Whether it is among the first answers of the paper's part of the report.
    card: int = 0  # Position among the report's cards, from 1.
    card_printed: int = 0  # The same if all models have printed values only.
    headline: str = ""  # Headline measure of the answer; cards show its values by other judges.
    columns: tuple[str, ...] = ()  # Columns that texts name beyond those of the table.
    min_attainable_p: str = ""  # For counted answers, the column of the smallest attainable p.
    fallback: Mapping[str, Any] = field(default_factory=dict)  # Changed fields for rows that are not selected.

    @property
    def limits(self) -> tuple[str, str]:
        """The columns of the limits of the value's interval; "" where none are declared."""
        schema = tables.schemas().get(self.table)
        # Where a value has several intervals, the first declared one applies.
        ends = {value: (low, high) for value, low, high in reversed(schema.intervals)} if schema else {}
        return ends.get(self.value, ("", ""))

    def findings(self, frame: pd.DataFrame, *, confidence: float = 0.95) -> list[Finding]:
        """Return the findings of rows of ``table``; ``confidence`` (0–1) is the level of intervals.

        Raises:
            InputError: A required column is missing.
        """
        selection = self._select_rows(frame)
        fallback_findings = []
        if self.fallback:
            answer = replace(self, **{"fallback": {}, **self.fallback})
            fallback_findings = answer.findings(frame.drop(selection.index), confidence=confidence)
            if self.not_significant:
                fallback_findings = [replace(finding, has_declared_test=True) for finding in fallback_findings]
        selection = selection.assign(**{name: 100 * selection[name] for name in self.as_points})
        if not self.group_by:
            return [self._finding_of_row(row, (), confidence) for row in _records(selection)] + fallback_findings
        groups = [list(_records(rows)) for _, rows in selection.groupby(list(self.group_by), sort=False, dropna=False)]
        if (self.not_significant and not self.up) or not self.primary:
            return [self._counted_finding(rows, confidence) for rows in groups] + fallback_findings
        primary_rows = [(self._primary_row(rows), rows) for rows in groups]
        return [self._finding_of_row(row, rows, confidence) for row, rows in primary_rows if row] + fallback_findings

    def _primary_row(self, rows: Sequence[dict]) -> dict:
        """Return the primary row of a group, or an empty dict."""
        return next((row for row in rows if all(row[name] == value for name, value in self.primary.items())), {})

    def _select_rows(self, frame: pd.DataFrame) -> pd.DataFrame:
        value_columns = filter(None, (self.value, self.p, self.n, self.uncorrected, self.min_attainable_p))
        required = (*self.rows, *self.require, *self.group_by, *value_columns)
        if missing := [name for name in required if name not in frame.columns]:
            raise InputError(
                f"The answer {self.name!r} needs rows of {self.table}, but these have no column {missing[0]!r}. "
                f"{name_help(missing[0], map(str, frame.columns))}"
            )
        for name, values in self.rows.items():
            frame = frame[frame[name].isin(values if isinstance(values, list | tuple) else [values])]
        return frame.dropna(subset=[name for name in (*self.require, self.value) if name])

    def _finding_of_row(self, row: dict, group: Sequence[dict], confidence: float) -> Finding:
        details: list[str] = list(self._simulation_note(row))
        alpha = stats.significance(confidence)
        test: dict[str, Any] = {"alpha": alpha}
        if self.up:
            p, notes = self._guarded_p(row, alpha)
            details += notes
            side = row[self.value] - self.reference
            words = formatting.direction(side, side, self.up, self.down, self.not_significant)
            null_text = self._text(self.not_significant, row)
            test |= {"not_significant": null_text, "p": p, "test": self.test}
        else:
            words = self.answer
        details += self._texts([self.row_text], [member for member in group if member is not row])
        details += self._texts(self.details, [row])
        return self._finding(words, row, group, row.get(self.n, nan), details, **self._estimate(row), **test)

    def _estimate(self, row: dict) -> dict[str, Any]:
        """Return the estimate of a row with its limits and unit, as fields of a finding."""
        if not (self.value and row):
            return {}
        numbers: dict[str, Any] = dict(zip(("estimate", "ci_low", "ci_high"), self._numbers(row), strict=True))
        return numbers | {"unit": self._value_unit(row)}

    def _counted_finding(self, rows: list[dict], confidence: float) -> Finding:
        """Return the finding that counts the significant tests of a group's rows."""
        alpha = stats.significance(confidence)
        tests = tuple(self._group_test(row, alpha) for row in rows) if self.not_significant else ()
        counts = {name: f"{{{name}}}" for name in COUNTS} | {"rows": f"{len(rows):,}"}
        first_row = rows[0] | counts
        first_row["model"] = ", ".join(dict.fromkeys(str(row["model"]) for row in rows if row.get("model")))
        smallest_p = [row[self.min_attainable_p] for row in rows if self.min_attainable_p and isfinite(row[self.p])]
        verdict: dict[str, Any] = {"alpha": alpha}
        if self.not_significant:
            can_be_significant = not self.min_attainable_p or stats.can_be_significant(smallest_p, alpha)
            null_text = self._text(self.not_significant if can_be_significant else _UNATTAINABLE, first_row)
            p = min((test.p for test in tests if isfinite(test.p)), default=nan)
            verdict |= {"p": p, "test": self.test, "tests": tests, "not_significant": null_text}
        row_texts = "; ".join(self._texts([self.row_text], rows))
        # Names of models keep their letters.
        if not any(row.get("model") and row_texts.startswith(row["model"]) for row in rows):
            row_texts = row_texts[:1].upper() + row_texts[1:]
        details = [*self._simulation_note(first_row), *([f"{row_texts}."] if row_texts else [])]
        details += self._texts(self.details, [first_row])
        primary_row = self._primary_row(rows) if self.primary else {}
        n = max(row[self.n] for row in ([primary_row] if primary_row else rows)) if self.n else nan
        return self._finding(self.answer, first_row, rows, n, details, **self._estimate(primary_row), **verdict)

    def _group_test(self, row: dict, alpha: float) -> GroupTest:
        """Return the test of one row of a counted answer; p is NaN with too few units."""
        has_few_units = bool(self.n) and row[self.n] < stats.min_units(alpha, self.test)
        # Tests without a direction, such as chi-square, have no value.
        is_above = not self.value or row[self.value] > self.reference
        texts = (
            self._text(text, row) if text and not _is_incomplete(text, row) else ""
            for text in (self.significant_text, self.nonsignificant_text)
        )
        return GroupTest(nan if has_few_units else row[self.p], 1 if is_above else -1, *texts)

    def _finding(
        self, answer: str, row: dict, group: Sequence[dict], n: float, details: list[str], **values: Any
    ) -> Finding:
        if self.n:
            values |= {"n": n, "n_unit": self._unit(self.n_unit, self.n).format_map(row)}
        if self.mark_name:
            mark_fields = ("name", "estimate", "ci_low", "ci_high")
            marks: list[dict[str, Any]] = [
                dict(zip(mark_fields, (self._text(self.mark_name, r), *self._numbers(r)), strict=True))
                | ({"benchmark": r.get(self.mark_benchmark, nan)} if self.mark_benchmark else {})
                for r in group or [row]
            ]
            values |= {"marks": tuple(Mark(**mark) for mark in marks), "unit": self._value_unit(row)}
        column = next((c for c in tables.schema(self.table).columns if c.name == self.value), None)
        # A reference line outside the range of the value's column is not drawn.
        if column is None or column.low <= self.reference <= column.high:
            values["reference"] = self.reference
        texts = (self._text(self.question, row), self._text(answer, row), row.get("model", ""))
        card_text = " ".join(self._texts([self.card_text], [row]))
        values = {"reference": None, "card_text": card_text, "details": tuple(details)} | values
        values["reference_name"] = self._text(self.reference_name, row)
        return Finding(*texts, figure=self.figure, headline=self.headline, **values)

    def _guarded_p(self, row: dict, alpha: float) -> tuple[float, list[str]]:
        """Return the p of a row's value, 1 where its interval or correction contradicts it, and why."""
        p, details = row.get(self.p, nan), []
        value, low, high = self._numbers(row)
        if self.uncorrected:
            uncorrected, corrected = formatting.format_number(row[self.uncorrected]), formatting.format_number(value)
            if uncorrected != corrected:
                uncorrected = formatting.add_unit(uncorrected, self._value_unit(row))
                details.append(f"Corrected for small-sample bias; uncorrected: {uncorrected}.")
            if stats.correction_dominates(row[self.uncorrected], value):
                p = 1.0
                details.append(_OVERCORRECTED)
        reason = str(row.get("reason") or "")
        if reason and not isfinite(p):
            details.append(f"{reason[0].upper()}{reason[1:].rstrip('.')}.")
        test = f"the test has {formatting.format_p_equation(p)}."
        if p <= alpha and low <= self.reference <= high:
            return 1.0, [*details, f"The interval includes {self.reference:g}, although {test}"]
        if alpha < p < 1 and (low > self.reference or high < self.reference):
            details.append(f"The unadjusted interval excludes {self.reference:g}; {test}")
        return p, details

    def _simulation_note(self, row: dict) -> list[str]:
        entry = self.simulated.format_map(row)
        return [words] if entry and (words := registry.describe(row.get("model", ""), entry)) else []

    def _numbers(self, row: dict) -> tuple[float, float, float]:
        """Return a row's value and its limits."""
        low, high = self.limits
        return row[self.value], row.get(low, nan), row.get(high, nan)

    def _unit(self, unit: str, column: str) -> str:
        if unit or not column:
            return unit
        return {c.name: c.unit for c in tables.schema(self.table).columns}.get(column, "")

    def _value_unit(self, row: Mapping[str, Any]) -> str:
        """Return the unit of a row's value."""
        return self._unit(self.unit, self.value).format_map(row)

    def _texts(self, texts: Iterable[str], rows: Iterable[dict]) -> list[str]:
        """Return the texts filled in for each row, without those that need a missing value."""
        filled = (self._text(text, row) for row in rows for text in texts if text and not _is_incomplete(text, row))
        return [text for text in filled if text.strip()]

    def _text(self, text: str, row: Mapping[str, Any]) -> str:
        ends = dict(zip(("low", "high"), (row.get(end, nan) for end in self.limits), strict=True))
        words = {"interval": formatting.format_interval(ends, "low", "high")}
        if "{value_with_unit}" in text:
            number = formatting.format_number(row[self.value])
            words["value_with_unit"] = formatting.add_unit(number, self._value_unit(row))
        return _Words(tables.labels(self.table)).vformat(text, (), {**words, **row})


class _Words(Formatter):
    """Formats numbers in the default format where none is given, and values by their labels."""

    def __init__(self, labels: Mapping[str, Mapping[str, str]]) -> None:
        self._labels = labels

    def get_field(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, str]:
        value = kwargs[name]
        return (self._labels.get(name, {}).get(value, value) if isinstance(value, str) else value), name

    def format_field(self, value: Any, spec: str) -> str:
        if spec == "p":
            return formatting.format_p_equation(value)
        if spec == "abs":
            return formatting.format_number(abs(value))
        return format(value, spec) if spec or isinstance(value, str) else formatting.format_number(value)


def _is_incomplete(text: str, row: Mapping[str, Any]) -> bool:
    values = (row.get(name) for _, name, *_ in Formatter().parse(text) if name)
    return any(value == "" or (isinstance(value, float) and value != value) for value in values)


def _records(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    return ({str(name): value for name, value in row.items()} for row in frame.to_dict("records"))


def load_answers(folder: Path | str) -> SimpleNamespace:
    """Return the answers in the ``answers.yaml`` of a paper or folder, as attributes by name.

    Raises:
        InputError: An entry has an unknown field or lacks a required one.
    """
    folder = folder if isinstance(folder, Path) else tables.folder(folder)
    return SimpleNamespace(**_load_answers(folder / "answers.yaml"))


@cache
def _load_answers(path: Path) -> dict[str, Answer]:
    answers = {}
    for name, entry in (tables.load_yaml(path) or {}).items():
        if missing := [key for key in ("table", "question") if key not in entry]:
            raise InputError(f"{path}: {name} lacks {missing[0]!r}.")
        answers[name] = Answer(name, **_fields(entry, f"{path}: {name}"))
    return answers


def _fields(entry: Mapping[str, Any], location: str) -> dict[str, Any]:
    """Return an entry's fields with the types of :class:`Answer`, including those of ``fallback``."""
    types = {field.name: field.type for field in fields(Answer)}
    if unknown_keys := [key for key in entry if key not in types]:
        raise InputError(f"{location} contains {unknown_keys[0]!r}. {name_help(unknown_keys[0], types)}")
    tuples = {
        key: (value,) if isinstance(value, str) else tuple(value)
        for key, value in entry.items()
        if types[key] == "tuple[str, ...]"
    }
    nested = {"fallback": _fields(entry["fallback"], location)} if "fallback" in entry else {}
    return {**entry, **tuples, **nested}
