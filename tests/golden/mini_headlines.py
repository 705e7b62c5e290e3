"""Headline numbers of the default report, as committed in ``mini_headlines.csv``.

``python tests/golden/mini_headlines.py`` writes them anew from ``outputs/mini``, after ``make report``. Do so where a
change of code changes numbers on purpose, and name these in the commit.

The report names ``float32`` for every network, so that machines differ by the order of sums alone. That changes pixels
by one level and, of images near a judge's threshold, a few labels. A headline may therefore move by a tenth of the
width of its confidence interval, and one without an interval by 1 % of its size. Types of numbers that each machine
chose moved naive amplification from 18.9 to 20.4 points.
"""

import json
from pathlib import Path

import pandas as pd

FILE = Path(__file__).with_suffix(".csv")
RUN = Path(__file__).parents[2] / "outputs" / "mini"
KEY = ["notebook", "model", "question"]
OF_WIDTH, OF_SIZE = 0.1, 0.01


def read(run: Path) -> pd.DataFrame:
    """Return the main findings of a run that have an estimate and are no paper's, one row each in their order."""
    record = json.loads((run / "run.json").read_text(encoding="utf-8"))
    rows = pd.DataFrame(record["findings"]).dropna(subset="estimate")
    rows = rows[rows["main"].astype(bool) & ~rows["printed"].astype(bool)]
    return rows[[*KEY, "estimate", "ci_low", "ci_high", "unit"]].reset_index(drop=True)


def moved(committed: pd.DataFrame, found: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of either that the other lacks, and those whose estimate or limits moved beyond the tolerance."""
    # A file has no empty texts.
    committed, found = (rows.fillna(dict.fromkeys(KEY, "")) for rows in (committed, found))
    both = committed.merge(found, on=KEY, how="outer", suffixes=("", "_found"), indicator=True)
    width = (both["ci_high"] - both["ci_low"]).abs()
    allowed = (OF_WIDTH * width).where(width > 0, OF_SIZE * both["estimate"].abs()) + 1e-9
    numbers = ["estimate", "ci_low", "ci_high"]
    beyond = both["_merge"] != "both"
    for name in numbers:
        one, other = both[name], both[f"{name}_found"]
        beyond |= (one.isna() != other.isna()) | ((one - other).abs() > allowed)
    return both[beyond]


if __name__ == "__main__":
    read(RUN).to_csv(FILE, index=False, float_format="%.6g", lineterminator="\n")
    print(f"{FILE}: {len(pd.read_csv(FILE))} headlines of {RUN}")
