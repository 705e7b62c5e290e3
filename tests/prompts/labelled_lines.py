"""Lines of GCC's validation split labelled by hand, and how well the rule of depicted people agrees with them.

``depicted_labels.md`` says how they were chosen and read.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from biaslab import stats
from biaslab.ground.errors import InputError, unknown_name
from biaslab.prompts.depicted import shows_people

SPLITS = ("dev", "test")
_LABELS = Path(__file__).parent / "depicted_labels.csv"


def labels(split: str) -> pd.DataFrame:
    """Return the labelled lines of ``dev`` (400) or ``test`` (200); raises UnknownNameError for another split.

    Columns: line (from 1), sha256 (the first 16 hex digits of the line's), split, and whether (``yes`` or ``no``) the
    person or people are depicted, both swaps are grammatical, and there is no_other_cue of gender.
    """
    if split not in SPLITS:
        raise unknown_name("split of the labelled lines", split, SPLITS)
    table = pd.read_csv(_LABELS, dtype={"sha256": str})
    return table[table["split"] == split].reset_index(drop=True)


def agreement(captions: Sequence[str]) -> pd.DataFrame:
    """Return precision and recall of the rule against the labels, of ``captions``: all lines of the file, in order.

    Rows for each split, target (``usable``: all three labels are yes; ``depicted``: that one is) and statistic
    (``precision``, ``recall``): value, ci_low and ci_high (Wilson's, 95 %) in %, and count of n lines. Raises
    InputError where a line is not the one that was labelled.
    """
    rows = []
    for split in SPLITS:
        table = labels(split)
        if len(captions) < (most := table["line"].max()):
            raise InputError(f"There are {len(captions)} lines but line {most} is labelled; give all.")
        texts = [captions[line - 1] for line in table["line"]]
        for line, text, digest in zip(table["line"], texts, table["sha256"], strict=True):
            if hashlib.sha256(text.encode()).hexdigest()[:16] != digest:
                raise InputError(f"Line {line} is not the one that was labelled; give GCC's validation captions.")
        kept = pd.Series([shows_people(text) for text in texts])
        yes = table[["depicted", "grammatical", "no_other_cue"]] == "yes"
        for target, true in {"usable": yes.all(axis=1), "depicted": yes["depicted"]}.items():
            right = int((true & kept).sum())
            rows += [(split, target, "precision", right, int(kept.sum()))]
            rows += [(split, target, "recall", right, int(true.sum()))]
    found = pd.DataFrame(rows, columns=["split", "target", "statistic", "count", "n"])
    value, low, high = stats.percent(found["count"], found["n"])
    return found.assign(value=value, ci_low=low, ci_high=high)
