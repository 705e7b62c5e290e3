"""The captions that the paper compares with prompts because they are near to them (paradox, sections 5.2 and 5.3)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from biaslab.captions.neighbours import nearest

NEAREST = ("nearest", "nearest_no_indicators")
"""Approaches that take the captions nearest to a prompt: of all, and of those that say no gender."""
COLUMNS = ["approach", "prompt", "occupation", "caption_id", "rank", "cosine"]


def nearest_captions(captions: pd.DataFrame, prompts: pd.DataFrame, vectors: np.ndarray, *, k: int) -> pd.DataFrame:
    """Return the ``k`` captions of its occupation that are nearest to each prompt, by each of :data:`NEAREST`.

    Args:
        captions: What a search found: ``caption_id``, ``occupation``, ``indicator``; by rank within an occupation.
        prompts: ``prompt`` and ``occupation``, each pair once. Occupations without a caption give no row.
        vectors: Unit vectors of the captions and, after them, of the prompts, float (captions + prompts, width).
        k: At least 1; 500 in the paper.

    Returns:
        :data:`COLUMNS`: rank from 1, and cosine, the similarity of caption and prompt.
    """
    of_captions, of_prompts = vectors[: len(captions)], vectors[len(captions) :]
    says_none = (captions["indicator"] == "none").to_numpy(bool)
    caption_ids = captions["caption_id"].to_numpy()
    rows_of = captions.reset_index(drop=True).groupby("occupation").indices
    tables = [pd.DataFrame(columns=COLUMNS)]
    for approach, taken in zip(NEAREST, (np.ones_like(says_none), says_none), strict=True):
        for occupation, wanted in prompts.reset_index(drop=True).groupby("occupation", sort=False):
            rows = rows_of.get(occupation, np.zeros(0, dtype=np.int64))
            rows = rows[taken[rows]]
            places, cosines = nearest(of_prompts[wanted.index], of_captions[rows], k)
            for prompt, at, near in zip(wanted["prompt"], places, cosines.astype(float), strict=True):
                values = (approach, prompt, occupation, caption_ids[rows[at]], np.arange(len(at)) + 1, near)
                tables.append(pd.DataFrame(dict(zip(COLUMNS, values, strict=True))))
    # One without rows says nothing of the columns' types.
    return pd.concat([table for table in tables if len(table)] or tables, ignore_index=True)
