"""What findings say instead of a count of significant results that could not have been other than 0."""

from __future__ import annotations

from math import isfinite


def p_words(p: float) -> str:
    """Say a p-value: ``p < 0.001`` or ``p = 0.031``; ``no test`` where there is none."""
    return "no test" if not isfinite(p) else "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def none_could(each: str, smallest: float, level: float, *, takes: int | None = None, of: str = "") -> str:
    """Say that no outcome could have been significant.

    Args:
        each: How many observations each test has, such as ``6 people``.
        smallest: The smallest p after correction that any outcome could have given.
        level: The level, 0–1.
        takes: How many observations a test it takes for one to be possible, where known.
        of: What these are, such as ``people``.
    """
    text = (
        f"with {each} each no outcome could be significant: corrected, p is {min(smallest, 1):.2g} at least"
    )
    text += f", not below {level:.2g}"
    return f"{text}; it takes {takes:,} {of} each" if takes else text
