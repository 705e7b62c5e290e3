"""What stands in the place of a finding that there are no measurements for."""

from __future__ import annotations


class NoFinding(str):
    """A sentence that says why there is no finding: a notebook prints it, and no report lists it."""

    __slots__ = ()


NO_MEASUREMENTS = NoFinding("The source has no measurements for this finding.")
