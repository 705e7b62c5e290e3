"""The least p that any outcome of a test can have, and whether any of several can then be significant at all.

A count of significant results says something only where they could have been there: 6 people who all look alike give
p = 0.031, and with 72 such tests Holm's correction leaves no outcome below 0.05.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from math import comb

import numpy as np

from biaslab.ground.errors import InputError
from biaslab.stats import checks
from biaslab.stats.hypothesis import EXACT_UP_TO, adjust

_MOST = 100_000  # beyond this many nobody wants to know how many it takes


def least_binomial_p(n, share: float = 0.5) -> np.ndarray:
    """Return the least p of an exact binomial test of ``share`` with ``n`` observations, elementwise.

    Both tails are twice the nearer one, so it is 2 · 0.5^n for one half, when all are alike; 1 at most, NaN where n is
    0 or NaN. Raises InputError for fractions, and for a share outside 0–1.
    """
    _, n = checks.counts(0, n)
    share = float(checks.shares(share, "share"))
    return np.where(n > 0, np.minimum(1.0, 2 * min(share, 1 - share) ** n.astype(float)), np.nan)[()]


def least_fisher_p(first, second) -> np.ndarray:
    """Return the least two-sided p of Fisher's exact test of two groups of these sizes, elementwise.

    The groups then have nothing in common: one over the number of ways to choose which observations are the
    first group's, or twice that where both are as large. NaN where a group is empty.
    """

    def least(a: int, b: int) -> float:
        return min(1.0, (2 if a == b else 1) / comb(a + b, a)) if a and b else np.nan

    return np.vectorize(least, otypes=[float])(*(checks.counts(0, n)[1] for n in (first, second)))[()]


def least_sign_flip_p(n: int, replicates: int = 10_000) -> float:
    """Return the least p of :func:`biaslab.stats.sign_flip` with ``n`` values other than 0, whatever others are 0.

    All on one side: 2 of 2^n patterns up to 16 values, else one over the random patterns and one more, where it is not
    exact. Zeros say nothing: count the others alone. 1 without any.
    """
    n, replicates = int(checks.whole(n, "n")), checks.replicate_count(replicates)
    return min(1.0, 2 * 0.5**n) if n <= EXACT_UP_TO else 1 / (replicates + 1)


def fewest_units(level: float = 0.05) -> int:
    """Return the fewest units (occupations, prompts, people, …) that a verdict at a ``level`` (0–1) rests on.

    With fewer no outcome of a sign-flip test reaches the level: n values on one side of 0 have p = 2 · 0.5^n. 6 at 5 %,
    8 at 1 %.
    """
    return needed(lambda n: 2 * 0.5**n, 1, level)


def attainable(least_p, level: float = 0.05, method: str = "holm") -> bool:
    """Say whether any outcome of tests with these least p could be significant at ``level`` after adjustment.

    An adjusted p rises with every one of the others, so it is least where all are; NaN are no tests.
    """
    if not 0 < level < 1:
        raise InputError(f"level must lie between 0 and 1, for example 0.05, got {level!r}.")
    return bool((adjust(least_p, method) < level).any())


def needed(least_p: Callable[[int], float], tests: int, level: float = 0.05) -> int | None:
    """Return the fewest observations a test at which one of ``tests`` could be significant at ``level`` after Holm's.

    ``least_p`` gives the least p of one test with so many observations; it must fall as they grow. None where it takes
    more than 100,000.
    """
    checks.whole(tests, "tests", least=1)

    def enough(n: int) -> bool:
        return float(least_p(n)) * tests < level

    return bisect_left(range(_MOST), True, lo=1, key=enough) if enough(_MOST) else None
