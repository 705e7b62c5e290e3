"""What rows of results are means over, unit by unit; see :mod:`biaslab.runs.pairing`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pandas as pd

Read = Callable[[str], pd.DataFrame]


def _amplifications(read: Read) -> Iterator[pd.DataFrame]:
    rows = read("paradox_occupation_amplification")
    rows = rows.assign(unit=rows["occupation"])
    several = rows[rows["prompt"].str.isdigit()].assign(prompt="mean")
    for some in (rows, several):
        plain = some.assign(value=some["amplification"])
        yield plain.assign(definition="all")
        yield plain[plain["excluded"] == ""].assign(definition="paper")
        yield some.assign(definition="signed", value=some["signed_change"])


OVER = {"paradox_amplification": (_amplifications, ("ci_low",))}
