"""Answers as data: questions about a table, with answers declared in the ``answers.yaml`` of a paper.

An entry names a table, its rows, a question, and texts: for values above the reference, below it, and not significantly
different from it; or one sentence. There is one answer per row; with ``group_by`` and ``primary`` one per group, about
its primary row. With ``group_by`` and ``not_significant``, but no ``up``, the rows of each group are counted. The
answer then contains ``{up}``, ``{down}`` and ``{unclear}``: the numbers of rows whose adjusted test is significant
above or below the reference, or not significant. ``{each}`` are their texts ``significant_text`` or
``nonsignificant_text``. All texts have ``{rows}``. A report fills the counts again at its own level.

Texts have columns in braces: numbers in the default format if none is given, ``{p:p}`` as ``p < 0.001``, ``{x:abs}``
without its sign, values by their labels in ``tables.yaml``; ``{interval}`` are the limits of the row's value. Texts
with a missing number are left out.
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
"""What texts of a counted answer have in addition to columns."""
_UNATTAINABLE = "Inconclusive: no test could be significant with so few of them."
_OVERCORRECTED = "The correction for small-sample bias exceeds the corrected estimate."


@dataclass(frozen=True)
class Answer:
    """One entry of ``answers.yaml``."""

    name: str
    table: str  # The table whose columns texts and fields name.
    question: str  # Ends in a question mark.
    answer: str = ""  # The sentence of an answer without a test.
    up: str = ""  # The text where the value is above ``reference``,
    down: str = ""  # below it,
    not_significant: str = ""  # and where the test is not significant; of a counted answer, where none of its tests is.
    significant_text: str = ""  # Of a counted answer, the text for a row whose test is significant,
    nonsignificant_text: str = ""  # and for one whose test is not.
    rows: Mapping[str, Any] = field(default_factory=dict)  # By column, the value or values of the rows to use.
    require: tuple[str, ...] = ()  # Columns that must not be missing, in addition to ``value``.
    group_by: tuple[str, ...] = ()  # Columns that the rows of one answer share.
    primary: Mapping[str, Any] = field(default_factory=dict)  # By column, the value of a group's primary row.
    value: str = ""  # The column of the estimate.
    uncorrected: str = ""  # Column of the uncorrected estimate, which is the paper's own.
    p: str = ""  # Column of the p-value, adjusted over the tests of the answer; without one there is no verdict.
    test: str = "sign"  # The kind of test, which decides the fewest units: one of :data:`biaslab.stats.TESTS`.
    n: str = ""  # Column of the number of independent units.
    unit: str = ""  # The unit of the estimate; the column's own where empty.
    n_unit: str = ""  # Unit of ``n``; the column's own unit where empty.
    reference: float = 0.0  # The value that it is compared with.
    reference_name: str = ""  # Its meaning, such as ``no change``.
    mark_name: str = ""  # Name of a row in the small figure; without it the figure shows the estimate only.
    mark_benchmark: str = ""  # The column of the benchmark of a row in the figure, in the unit of ``value``.
    card_text: str = ""  # Text of a card below its answer; left out where columns that it names are empty.
    row_text: str = ""  # Text about each row of a group except the primary one.
    details: tuple[str, ...] = ()  # Sentences below it.
    simulated: str = ""  # The entry of a package's words on its model, first of the details; columns in braces.
    figure: str = ""  # The figure that shows it.
    main: bool = False  # Whether the paper's part of the report opens with it.
    card: int = 0  # Its place among the cards of the report, from 1.
    card_printed: int = 0  # The same where all models are printed ones.
    headline: str = ""  # The measure of the paper's headline that it is about, whose values by other judges cards show.
    columns: tuple[str, ...] = ()  # Columns that texts name beyond those of the table.
    min_attainable_p: str = ""  # Of a counted answer, the column of the smallest p that could be.
    fallback: Mapping[str, Any] = field(default_factory=dict)  # Fields that differ for rows that it does not take.

    @property
    def limits(self) -> tuple[str, str]:
        """The columns of the limits of the value's interval; "" where none are declared."""
        schema = tables.schemas().get(self.table)
        # Of several intervals of a value the first declared is its own.
        ends = {value: (low, high) for value, low, high in reversed(schema.intervals)} if schema else {}
        return ends.get(self.value, ("", ""))

    def findings(self, frame: pd.DataFrame, *, confidence: float = 0.95) -> list[Finding]:
        """Return the findings of rows of ``table``; ``confidence`` (0–1) is the level of intervals.

        Raises:
            InputError: A column that it reads is missing.
        """
        chosen = self._select_rows(frame)
        others = []
        if self.fallback:
            answer = replace(self, **{"fallback": {}, **self.fallback})
            others = answer.findings(frame.drop(chosen.index), confidence=confidence)
            if self.not_significant:
                others = [replace(other, has_declared_test=True) for other in others]
        if not self.group_by:
            return [self._finding_of_row(row, (), confidence) for row in _records(chosen)] + others
        groups = [list(_records(rows)) for _, rows in chosen.groupby(list(self.group_by), sort=False, dropna=False)]
        if (self.not_significant and not self.up) or not self.primary:
            return [self._counted_finding(rows, confidence) for rows in groups] + others
        leading = [(self._primary_row(rows), rows) for rows in groups]
        return [self._finding_of_row(row, rows, confidence) for row, rows in leading if row] + others

    def _primary_row(self, rows: Sequence[dict]) -> dict:
        """Return the leading row of a group; nothing where it has none."""
        return next((row for row in rows if all(row[name] == value for name, value in self.primary.items())), {})

    def _select_rows(self, frame: pd.DataFrame) -> pd.DataFrame:
        named = filter(None, (self.value, self.p, self.n, self.uncorrected, self.min_attainable_p))
        needed = (*self.rows, *self.require, *self.group_by, *named)
        if missing := [name for name in needed if name not in frame.columns]:
            raise InputError(
                f"The answer {self.name!r} takes rows of {self.table}, and these have no column {missing[0]!r}. "
                f"{name_help(missing[0], map(str, frame.columns))}"
            )
        for name, values in self.rows.items():
            frame = frame[frame[name].isin(values if isinstance(values, list | tuple) else [values])]
        return frame.dropna(subset=[name for name in (*self.require, self.value) if name])

    def _finding_of_row(self, row: dict, group: Sequence[dict], confidence: float) -> Finding:
        details: list[str] = list(self._simulation_note(row))
        test: dict[str, Any] = {}
        if self.up:
            alpha = stats.significance(confidence)
            p, more = self._guarded_p(row, alpha)
            details += more
            side = row[self.value] - self.reference
            words = formatting.direction(side, side, self.up, self.down, self.not_significant)
            unclear = self._text(self.not_significant, row)
            test = {"not_significant": unclear, "p": p, "alpha": alpha, "test": self.test}
        else:
            words = self.answer
        details += self._texts([self.row_text], [other for other in group if other is not row])
        details += self._texts(self.details, [row])
        return self._finding(words, row, group, row.get(self.n, nan), details, **self._estimate(row), **test)

    def _estimate(self, row: dict) -> dict[str, Any]:
        """Return the estimate of a row with its limits and unit, as a finding has them."""
        if not (self.value and row):
            return {}
        numbers: dict[str, Any] = dict(zip(("estimate", "ci_low", "ci_high"), self._numbers(row), strict=True))
        return numbers | {"unit": self._unit(self.unit, self.value)}

    def _counted_finding(self, rows: list[dict], confidence: float) -> Finding:
        """Return the finding that counts the significant tests of a group's rows."""
        alpha = stats.significance(confidence)
        tests = tuple(self._group_test(row, alpha) for row in rows) if self.not_significant else ()
        counts = {name: f"{{{name}}}" for name in COUNTS} | {"rows": f"{len(rows):,}"}
        first = rows[0] | counts
        if len({row.get("model") for row in rows}) > 1:
            first["model"] = ""
        least = [row[self.min_attainable_p] for row in rows if self.min_attainable_p and isfinite(row[self.p])]
        verdict: dict[str, Any] = {}
        if self.not_significant:
            possible = not self.min_attainable_p or stats.can_be_significant(least, alpha)
            none = self._text(self.not_significant if possible else _UNATTAINABLE, first)
            p = min((test.p for test in tests if isfinite(test.p)), default=nan)
            verdict = {"p": p, "alpha": alpha, "test": self.test, "tests": tests, "not_significant": none}
        listed = "; ".join(self._texts([self.row_text], rows))
        details = [*self._simulation_note(first), *([f"{listed}."] if listed else [])]
        details += self._texts(self.details, [first])
        leading = self._primary_row(rows) if self.primary else {}
        n = max(row[self.n] for row in ([leading] if leading else rows)) if self.n else nan
        return self._finding(self.answer, first, rows, n, details, **self._estimate(leading), **verdict)

    def _group_test(self, row: dict, alpha: float) -> GroupTest:
        """Return the test of one row of a counted answer; none where it rests on too few units."""
        few = bool(self.n) and row[self.n] < stats.min_units(alpha, self.test)
        # Tests without a direction, such as chi-square, have no value.
        above = not self.value or row[self.value] > self.reference
        texts = (
            self._text(text, row) if text and not _lacks(text, row) else ""
            for text in (self.significant_text, self.nonsignificant_text)
        )
        return GroupTest(nan if few else row[self.p], 1 if above else -1, *texts)

    def _finding(
        self, answer: str, row: dict, group: Sequence[dict], n: float, details: list[str], **more: Any
    ) -> Finding:
        if self.n:
            more |= {"n": n, "n_unit": self._unit(self.n_unit, self.n)}
        if self.mark_name:
            named = ("name", "estimate", "ci_low", "ci_high")
            marks: list[dict[str, Any]] = [
                dict(zip(named, (self._text(self.mark_name, r), *self._numbers(r)), strict=True))
                | ({"benchmark": r.get(self.mark_benchmark, nan)} if self.mark_benchmark else {})
                for r in group or [row]
            ]
            more |= {"marks": tuple(Mark(**mark) for mark in marks), "unit": self._unit(self.unit, self.value)}
        column = next((c for c in tables.schema(self.table).columns if c.name == self.value), None)
        # A reference line outside the range of the value's column is not drawn.
        if column is None or column.low <= self.reference <= column.high:
            more["reference"] = self.reference
        texts = (self._text(self.question, row), self._text(answer, row), row.get("model", ""))
        card_text = " ".join(self._texts([self.card_text], [row]))
        more = {"reference": None, "card_text": card_text, "details": tuple(details)} | more
        more["reference_name"] = self._text(self.reference_name, row)
        return Finding(*texts, figure=self.figure, headline=self.headline, **more)

    def _guarded_p(self, row: dict, alpha: float) -> tuple[float, list[str]]:
        """Return the p of a row's value, 1 where its interval or correction contradicts it, and why."""
        p, details = row.get(self.p, nan), []
        value, low, high = self._numbers(row)
        if self.uncorrected:
            uncorrected, corrected = formatting.format_number(row[self.uncorrected]), formatting.format_number(value)
            if uncorrected != corrected:
                unit = self._unit(self.unit, self.value)
                details.append(f"Corrected for small-sample bias; uncorrected: {uncorrected} {unit}.")
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

    def _unit(self, given: str, column: str) -> str:
        if given or not column:
            return given
        return {c.name: c.unit for c in tables.schema(self.table).columns}.get(column, "")

    def _texts(self, texts: Iterable[str], rows: Iterable[dict]) -> list[str]:
        """Return texts filled in with each of some rows, but those that need what is missing."""
        filled = (self._text(text, row) for row in rows for text in texts if text and not _lacks(text, row))
        return [text for text in filled if text.strip()]

    def _text(self, text: str, row: Mapping[str, Any]) -> str:
        ends = dict(zip(("low", "high"), (row.get(end, nan) for end in self.limits), strict=True))
        words = {"interval": formatting.format_interval(ends, "low", "high")}
        return _Words(tables.labels(self.table)).vformat(text, (), {**words, **row})


class _Words(Formatter):
    """Writes numbers as they are spoken where no format is given, and values by their labels."""

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


def _lacks(text: str, row: Mapping[str, Any]) -> bool:
    values = (row.get(name) for _, name, *_ in Formatter().parse(text) if name)
    return any(value == "" or (isinstance(value, float) and value != value) for value in values)


def _records(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    return ({str(name): value for name, value in row.items()} for row in frame.to_dict("records"))


def read(folder: Path | str) -> SimpleNamespace:
    """Return the answers that ``answers.yaml`` declares, in a paper's folder or another, by their names as attributes.

    Raises:
        InputError: An entry has a field that there is not, or lacks one.
    """
    folder = folder if isinstance(folder, Path) else tables.folder(folder)
    return SimpleNamespace(**_read(folder / "answers.yaml"))


@cache
def _read(path: Path) -> dict[str, Answer]:
    answers = {}
    for name, entry in (tables.load_yaml(path) or {}).items():
        if lacking := [key for key in ("table", "question") if key not in entry]:
            raise InputError(f"{path}: {name} has no {lacking[0]}.")
        answers[name] = Answer(name, **_fields(entry, f"{path}: {name}"))
    return answers


def _fields(entry: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return an entry's fields as :class:`Answer` has them, those of ``fallback`` too."""
    types = {field.name: field.type for field in fields(Answer)}
    if unknown := [key for key in entry if key not in types]:
        raise InputError(f"{where} has {unknown[0]!r}. {name_help(unknown[0], types)}")
    listed = {
        key: (value,) if isinstance(value, str) else tuple(value)
        for key, value in entry.items()
        if types[key] == "tuple[str, ...]"
    }
    nested = {"fallback": _fields(entry["fallback"], where)} if "fallback" in entry else {}
    return {**entry, **listed, **nested}
