"""Dot plots of estimates: dots with intervals on one scale, rendered by the page itself and legible on a phone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from biaslab.schema.formatting import add_notes, format_estimate


def number(value: object) -> float | None:
    """Return a finite number as a float, or None for other values."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def draw_rows(
    rows: Iterable[Mapping[str, Any]], *, unit: str = "", reference: object = 0.0, reference_name: str = ""
) -> dict[str, Any] | None:
    """Return the positions of marks on a common scale, in percent of its width; None without estimates.

    Rows have ``name``, ``estimate``, ``ci_low``, ``ci_high`` and optionally ``null_mean``, in ``unit``. Rows without an
    estimate are left out; limits and null expectation may be None. A line across all rows marks ``reference``, if it is
    given, and ``reference_name`` explains it. If rows have a ``benchmark`` that differs from ``reference``, each row
    has a mark at its benchmark instead, and ``reference_name`` explains that.
    """
    rows = [row for row in rows if number(row.get("estimate")) is not None]
    if not rows:
        return None
    line = number(reference)
    if benchmarks := {number(row.get("benchmark")) for row in rows} - {None, line}:
        line = None
    keys = ("estimate", "ci_low", "ci_high", "null_mean", *(["benchmark"] if benchmarks else []))
    ends = [number(row.get(key)) for row in rows for key in keys]
    low, high = _scale([end for end in (line, *ends) if end is not None])

    def place(value: object) -> str | None:
        position = number(value)
        return None if position is None else f"{100 * (position - low) / (high - low):.2f}"

    reference_text = ""
    if line is not None:
        reference_text = f"{_digits(line) if line else 0} = {reference_name}" if reference_name else f"{line:.3g}"
    return {
        "rows": [_row(row, place, unit) for row in rows],
        "reference": place(line),
        "reference_name": reference_text or reference_name,
        "has_benchmarks": bool(benchmarks),
        "least": f"{low:.3g}",
        "most": f"{high:.3g}",
        "unit": unit.strip("()"),
        "left": 0,
    }


def _scale(values: list[float]) -> tuple[float, float]:
    """Return round limits that include all values: multiples of 1, 2 or 5 times a power of ten."""
    low, high = min(values), max(values)
    rough = ((high - low) or abs(high) or 1.0) / 4
    power = 10 ** math.floor(math.log10(rough))
    step = next(times * power for times in (1, 2, 5, 10) if times * power >= rough)
    ends = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    return ends if ends[0] < ends[1] else (ends[0], ends[0] + step)


def _digits(value: float, unit: str = "") -> str:
    """Return a number as a text, with two significant digits if it is small."""
    return f"{value:.2g}" if 0 < abs(value) < 0.095 else format_estimate(value, unit)


def _row(row: Mapping[str, Any], place, unit: str) -> dict[str, Any]:
    low, high = number(row.get("ci_low")), number(row.get("ci_high"))
    has_interval = low is not None and high is not None
    interval = f"{_digits(low)} to {_digits(high)}" if has_interval else "no interval"
    value, null_mean = _digits(row["estimate"], unit), number(row.get("null_mean"))
    benchmark = number(row.get("benchmark"))
    comparisons = f"; null expectation {_digits(null_mean)}" if null_mean is not None else ""
    comparisons += f"; benchmark {_digits(benchmark)}" if benchmark is not None else ""
    return {
        "name": str(row.get("name") or ""),
        "x": place(row["estimate"]),
        "low": place(low) if has_interval else None,
        "high": place(high) if has_interval else None,
        "null_mean": place(null_mean),
        "benchmark": place(benchmark),
        "value": value,
        "interval": interval,
        "said": f"{row.get('name') or 'estimate'}: {add_notes(value, unit, interval + comparisons)}",
    }
