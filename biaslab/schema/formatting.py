"""Formats of numbers in answers, tables and messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite


def format_number(value: float) -> str:
    """Return a number for a sentence, with three significant digits and at most two decimal places."""
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    # A number below 0 that rounds to 0 has no sign.
    return f"{round(float(value), digits) + 0.0:,.{digits}f}"


def format_estimate(value: float, unit: str) -> str:
    """Return a number for a sentence; a count out of a total, with a unit such as ``of 10``, has no decimal places."""
    return f"{value:,.0f}" if unit.startswith("of ") else format_number(value)


def format_digits(value: float) -> str:
    """Return a number for a table, with three significant digits, and at most two decimal places from 1 on."""
    return format_number(value) if abs(value) >= 1 or value == 0 else f"{value:.3g}"


def format_cells(values: Sequence[float], column: str = "") -> list[str]:
    """Return a column's numbers for a table: p-values as ``<0.001``, whole numbers without decimal places."""
    finite = [value for value in values if isfinite(value)]
    form: Callable[[float], str] = format_digits
    if column == "p" or column.startswith("p_") or column.endswith("_p"):
        form = format_p
    elif all(value % 1 == 0 for value in finite):
        form = _format_whole
    return [form(value) if isfinite(value) else "∞" if value > 0 else "-∞" for value in values]


def _format_whole(value: float) -> str:
    # A float would round a long identifier.
    return f"{int(value):,}"


def column_header(column: str, unit: str = "") -> str:
    """Return the header of a column: ``amplification (points)``."""
    words = column.replace("_", " ")
    words = words.removeprefix("percent ") if unit == "%" else words
    return f"{words} ({unit})" if unit and unit not in words else words


def format_with_ci(text: str, low: float, high: float) -> str:
    """Return a number's text followed by its limits, if it has both."""
    return f"{text} ({format_digits(low)} to {format_digits(high)})" if isfinite(low + high) else text


def format_interval(row: Mapping[str, float], low: str = "ci_low", high: str = "ci_high") -> str:
    """Return the limits of a row as ``0.3 to 2.1``; ``no interval`` where it has none."""
    return (
        f"{format_number(row[low])} to {format_number(row[high])}" if isfinite(row[low] + row[high]) else "no interval"
    )


def direction(low: float, high: float, up: str, down: str, neither: str) -> str:
    """Return ``up`` for an interval above 0, ``down`` for one below 0, and ``neither`` for others or none."""
    # A limit that differs from 0 only by rounding is on neither side.
    return up if low > 1e-9 else down if high < -1e-9 else neither


def add_unit(text: str, unit: str) -> str:
    """Return a number's text with its unit: ``45%``, ``45% nearer``, ``3 points``, ``0.2 on a scale of 0 to 0.5``;
    without a unit, the text.
    """
    if unit.startswith("%"):
        return text + unit
    scale = "on a scale of " if " to " in unit and unit[0] in "−0123456789" else ""
    return f"{text} {scale}{unit}".rstrip()


def add_notes(text: str, unit: str, notes: str) -> str:
    """Return a number's text with its unit and notes: ``45% (n = 9)``, ``0.93 (kappa; n = 9)``.

    A unit in parentheses, here ``(kappa)``, is the name of a quantity without a unit.
    """
    return f"{text} ({unit.strip('()')}; {notes})" if unit.startswith("(") else f"{add_unit(text, unit)} ({notes})"


def format_level(confidence: float) -> str:
    """Return a level of confidence (0–1) as ``95%``."""
    return f"{100 * confidence:g}%"


def format_count(n: float, singular: str, plural: str) -> str:
    """Return a number with its noun: ``1 image``, ``1,200 images``."""
    return f"{n:,.0f} {singular if n == 1 else plural}"


def format_p(p: float) -> str:
    """Return a p-value for a table: ``<0.001`` or ``0.031``."""
    return "<0.001" if p < 0.001 else f"{p:.2g}"


def format_p_equation(p: float) -> str:
    """Return a p-value as an equation: ``p < 0.001`` or ``p = 0.031``; ``no test`` for a missing one."""
    return "no test" if not isfinite(p) else "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def explain_unattainable(sample: str, smallest: float, level: float) -> str:
    """Return a text that no test could be significant at a ``level`` (0–1), given its number of observations.

    ``sample`` is this number, such as ``6 people``; ``smallest`` is the smallest adjusted p of any possible outcome.
    """
    text = f"with {sample} each no test could be significant: the adjusted p is at least {min(smallest, 1):.2g}"
    return f"{text}, not below {level:.2g}"


def format_range(low: float, high: float, options: str | Callable[[float], str]) -> str:
    """Return a range of two numbers as text, or one number if both have the same text."""
    texts = [options.format(v) if isinstance(options, str) else options(v) for v in (low, high)]
    return " to ".join(dict.fromkeys(texts))


def format_durations(low: float, high: float) -> str:
    """Return a range of durations (seconds) as text, in a suitable unit."""
    unit, length = ("hours", 3600) if high > 7200 else ("minutes", 60) if high > 120 else ("seconds", 1)
    return f"{format_range(low / length, high / length, '{:.2g}')} {unit}"


def format_bytes(n: float) -> str:
    """Return a size (bytes) as text."""
    return f"{n / 1e9:,.1f} GB" if n >= 1e8 else f"{n / 1e6:.1f} MB"
