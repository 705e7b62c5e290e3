"""The synthetic world itself: exact consequences of its parameters, and examples of its captions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from biaslab.schema import tables
from biaslab_world import world

if TYPE_CHECKING:
    from biaslab_world.captions import Corpus

KINDS = {
    "all": (None, None),
    "no indicator": (None, "none"),
    "prompt-like": ("prompt_like", None),
    "prompt-like, no indicator": ("prompt_like", "none"),
}
"""Style and indicator of each kind of captions; ``None`` stands for all."""


def true_shares(occupations: Sequence[str], kind: str, skew: str = "default") -> np.ndarray:
    """Return the exact % female of a kind of captions (a key of ``KINDS``), one number per occupation."""
    style, indicator = KINDS[kind]
    condition = {"style": style, "indicator": indicator, "parameters": world.skew_parameters(skew)}
    return np.array([100 * world.probability_female(o, **condition) for o in occupations])


_PARAMETERS = {
    "naming": (
        "Captions name the under-represented gender more often: the odds of an indicator for a woman, divided by those "
        "for a man, are (men / women) raised to this power.",
        "Captions without indicators are more biased than all captions (5.1). Prompts have none, so models seem to "
        "amplify.",
    ),
    "prompt_skew": (
        "Prompt-like captions are more biased: their log-odds of a woman are those of the occupation times 1 + this.",
        "Captions near the prompts are more biased than random ones (5.2).",
    ),
    "prompt_like": (
        "Share of prompt-like captions.",
        "The low number of prompt-like captions in a random sample (5.2).",
    ),
    "indicators": ("Share of ordinary captions with a gender indicator.", "The rate of gender indicators (5.1)."),
    "prompt_indicators": (
        "Share of prompt-like captions with a gender indicator.",
        "The same rate for captions near the prompts.",
    ),
    "names": (
        "Share of ordinary captions built around a name.",
        "Gender indicators that only a list of names detects (Table 5).",
    ),
    "both": (
        "Share of captions with an indicator that have indicators of both genders.",
        "A noisy indicator without an effect on gender.",
    ),
    "other_sense": (
        "Share of captions that use the word in another sense and show no person.",
        "False hits of the search, which the inclusion criteria have to remove (4).",
    ),
}


def values() -> pd.DataFrame:
    """Return the world's parameters with their values and effects: ``world_parameters``."""
    default, off = world.Parameters(), world.Parameters.off()
    rows = [[name, getattr(default, name), getattr(off, name), *words] for name, words in _PARAMETERS.items()]
    return tables.make_table(rows, "world_parameters")


def conditional() -> pd.DataFrame:
    """Return how much further each kind of captions is from 50% than all captions, per skew: ``world_conditional``."""
    names = world.occupations()
    rows = []
    for skew, settings in world.SKEWS.items():
        cells = world.truth_table(settings)
        cells = cells[cells["probability_female"].notna()]
        distance_all = np.abs(true_shares(names, "all", skew) - 50).mean()
        for kind, (style, indicator) in KINDS.items():
            fits = (style is None) | (cells["style"] == style)
            fits &= (indicator is None) | (cells["indicator"] == indicator)
            distance = np.abs(true_shares(names, kind, skew) - 50).mean()
            share = 100 * cells.loc[fits, "p"].sum() / cells["p"].sum()
            rows.append([skew, kind, share, distance, distance - distance_all])
    return tables.make_table(rows, "world_conditional")


def examples(corpus: Corpus, *, per_style: int = 1) -> pd.DataFrame:
    """Return ``per_style`` captions of each style, with an indicator and without, and their ground truth."""
    rows = corpus.rows_at(range(min(len(corpus), 4096)))
    keys = [rows["truth_style"], rows["truth_indicator"] != "none"]
    captions = pd.concat([group.head(per_style) for _, group in rows.groupby(keys)])
    return captions.reset_index(drop=True)
