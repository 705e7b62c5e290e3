"""The embedded world itself: what follows from its knobs by algebra, and examples of its captions."""

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
"""Kinds of captions by algebra: style and indicator of each."""


def true_shares(occupations: Sequence[str], kind: str, skew: str = "default") -> np.ndarray:
    """Return the exact % female behind a kind of captions (a key of ``KINDS``), one number an occupation."""
    style, indicator = KINDS[kind]
    of = {"style": style, "indicator": indicator, "knobs": world.skew_knobs(skew)}
    return np.array([100 * world.probability_female(o, **of) for o in occupations])


_KNOBS = {
    "naming": (
        "Captions name the under-represented gender more: the odds of an indicator for a woman over those for a "
        "man are (men / women) to this power.",
        "Captions without indicators lean further than all captions (5.1); prompts, which have none, seem to amplify.",
    ),
    "prompt_skew": (
        "Prompt-like captions lean further: their log-odds of a woman are 1 + this times the occupation's.",
        "Captions near the prompts lean further than random ones (5.2).",
    ),
    "prompt_like": ("Share of prompt-like captions.", "How little a random sample sees of them (5.2)."),
    "indicators": ("How often ordinary captions tell the gender.", "The rate of indicators (5.1)."),
    "prompt_indicators": ("How often prompt-like captions tell the gender.", "The same for those near the prompts."),
    "names": ("Share of captions built round a name.", "Indicators that only a list of names finds (Table 5)."),
    "both": ("Captions with an indicator that hold one of each gender.", "A noisy indicator; no gender effect."),
    "other_sense": (
        "Captions that use the word in another sense and show nobody.",
        "Wrong hits of the search, which the face gate has to remove (4).",
    ),
}


def knobs() -> pd.DataFrame:
    """Return the world's knobs with their settings and what they do."""
    default, off = world.Knobs(), world.Knobs.off()
    rows = [[name, getattr(default, name), getattr(off, name), *words] for name, words in _KNOBS.items()]
    return tables.make_table(rows, "world_knobs")


def conditional() -> pd.DataFrame:
    """Return how much further each kind of caption leans than all captions, in every named world."""
    names = world.occupations()
    rows = []
    for skew, settings in world.SKEWS.items():
        cells = world.truth_table(settings)
        cells = cells[cells["probability_female"].notna()]
        everyone = np.abs(true_shares(names, "all", skew) - 50).mean()
        for kind, (style, indicator) in KINDS.items():
            fits = (style is None) | (cells["style"] == style)
            fits &= (indicator is None) | (cells["indicator"] == indicator)
            lean = np.abs(true_shares(names, kind, skew) - 50).mean()
            share = 100 * cells.loc[fits, "p"].sum() / cells["p"].sum()
            rows.append([skew, kind, share, lean, lean - everyone])
    return tables.make_table(rows, "world_conditional")


def examples(corpus: Corpus, *, each: int = 1) -> pd.DataFrame:
    """Return ``each`` captions of each style, with an indicator and without, and what is true of them."""
    rows = corpus.rows_at(range(min(len(corpus), 4096)))
    keys = [rows["truth_style"], rows["truth_indicator"] != "none"]
    shown = pd.concat([some.head(each) for _, some in rows.groupby(keys)])
    return shown.reset_index(drop=True)
