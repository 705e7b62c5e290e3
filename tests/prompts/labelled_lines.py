"""Lines of GCC's validation split labelled by hand, and how well the rule of depicted people agrees with them.

``depicted_labels.md`` says how they were chosen and read.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from biaslab import stats
from biaslab.prompts.depicted import shows_people

SPLITS = ("dev", "test")
_LABELS = Path(__file__).parent / "depicted_labels.csv"


def labels(split: str) -> pd.DataFrame:
    """Return the labelled lines of ``dev`` (400) or ``test`` (200)."""
    table = pd.read_csv(_LABELS, dtype={"sha256": str})
    return table[table["split"] == split].reset_index(drop=True)


def agreement(captions: Sequence[str]) -> pd.DataFrame:
    """Return how well the rule agrees with the labels, as :func:`biaslab.prompts.depicted.measured` has it.

    ``captions`` are all lines of the file, in order.
    """
    rows = []
    for split in SPLITS:
        table = labels(split)
        texts = [captions[line - 1] for line in table["line"]]
        # They are the lines that were labelled.
        assert [hashlib.sha256(text.encode()).hexdigest()[:16] for text in texts] == table["sha256"].tolist()
        kept = pd.Series([shows_people(text) for text in texts])
        yes = table[["depicted", "grammatical", "no_other_cue"]] == "yes"
        for target, true in {"usable": yes.all(axis=1), "depicted": yes["depicted"]}.items():
            right = int((true & kept).sum())
            rows += [(split, target, "precision", right, int(kept.sum()))]
            rows += [(split, target, "recall", right, int(true.sum()))]
    found = pd.DataFrame(rows, columns=["split", "target", "statistic", "count", "n"])
    value, low, high = stats.percent(found["count"], found["n"])
    return found.assign(value=value, ci_low=low, ci_high=high)
