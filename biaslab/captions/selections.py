"""The subsets of captions that the paper compares with prompts (paradox, sections 4, 5.1, 5.2 and 5.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from biaslab.captions.neighbours import Encoder, embed, nearest
from biaslab.captions.settings import SELECTED
from biaslab.ground.errors import InputError, ParameterError

if TYPE_CHECKING:
    from biaslab.keep.store import Stage

# The name of the selection that serves all prompts.
SHARED = "captions"
COLUMNS = ("approach", "prompt", "occupation", "caption_id", "rank", "cosine")


def select(
    captions: pd.DataFrame,
    prompts: pd.DataFrame,
    *,
    k: int = 500,
    encoder: Encoder | None = None,
    stage: Stage | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """Return the captions of each approach, occupation and prompt.

    - ``naive``: the first ``k`` captions by rank, a uniform sample; one selection, prompt ``captions``, for all.
    - ``no_indicators``: those of them that say no gender, so ``k`` or fewer; again one for all prompts.
    - ``nearest``: the ``k`` of all captions given that are nearest to the prompt.
    - ``nearest_no_indicators``: the ``k`` nearest of all captions given that say no gender.

    Args:
        captions: What a search found, with its indicators: ``caption_id``, ``term``, ``text``, ``rank``,
            ``indicator``. More captions than ``k`` of a term give the nearest ones something to choose from.
        prompts: One row per prompt and occupation: ``prompt``, ``occupation``, ``text``. Occupations without a
            prompt are left out; those without a caption give no row.
        k: Captions to an occupation (and prompt), at least 1; 500 in the paper.
        encoder: Model of the embeddings; the paper's where it is None.
        stage: Where embeddings are kept; see :func:`biaslab.captions.neighbours.embedding_stage`.
        progress: Whether to show a bar while captions are embedded.

    Returns:
        ``approach``, ``prompt``, ``occupation``, ``caption_id``, ``rank`` (from 1 within these) and ``cosine``: the
        similarity of caption and prompt, for prompt ``captions`` its mean over the occupation's prompts.

    Raises InputError: A column is missing, a prompt is given twice for an occupation, or one is called ``captions``.
    ParameterError: ``k`` is below 1.
    """
    if k < 1:
        raise ParameterError(f"k is {k}; select at least 1 caption.")
    _check(captions, ("caption_id", "term", "text", "rank", "indicator"), "captions")
    _check(prompts, ("prompt", "occupation", "text"), "prompts")
    if prompts.duplicated(["prompt", "occupation"]).any():
        twice = prompts.loc[prompts.duplicated(["prompt", "occupation"])].iloc[0]
        raise InputError(f"Prompt {twice['prompt']!r} is given twice for {twice['occupation']!r}.")
    if (prompts["prompt"] == SHARED).any():
        raise InputError(
            f"A prompt is called {SHARED!r}, which names the selection for all prompts; rename it."
        )

    captions = captions[captions["term"].isin(prompts["occupation"])]
    captions = captions.sort_values(["term", "rank"], kind="stable", ignore_index=True)
    texts = [*captions["text"], *prompts["text"]]
    vectors = embed(texts, encoder or Encoder(), stage, progress=progress)
    of_captions, of_prompts = vectors[: len(captions)], vectors[len(captions) :]
    rows_of = captions.groupby("term").indices
    free = (captions["indicator"] == "none").to_numpy()
    caption_ids = captions["caption_id"].to_numpy()

    parts: list[tuple[str, str, str, np.ndarray, np.ndarray]] = []
    for occupation, wanted in prompts.reset_index(drop=True).groupby("occupation", sort=False):
        rows = rows_of.get(occupation, np.zeros(0, dtype=np.int64))
        queries = of_prompts[wanted.index]
        sample = rows[:k]
        for approach, chosen in (("naive", sample), ("no_indicators", sample[free[sample]])):
            parts.append(
                (approach, SHARED, occupation, chosen, (of_captions[chosen] @ queries.T).mean(axis=1))
            )
        for approach, choice in (("nearest", rows), ("nearest_no_indicators", rows[free[rows]])):
            found = zip(wanted["prompt"], *nearest(queries, of_captions[choice], k), strict=True)
            parts += [(approach, str(prompt), occupation, choice[at], near) for prompt, at, near in found]
    tables = []
    # By approach, then as the prompts come.
    for *said, at, near in sorted(parts, key=lambda part: SELECTED.index(part[0])):
        values = (*said, caption_ids[at], np.arange(len(at)) + 1, near.astype(float))
        tables.append(pd.DataFrame(dict(zip(COLUMNS, values, strict=True))))
    if not tables:
        return pd.DataFrame(columns=list(COLUMNS))
    return pd.concat(tables, ignore_index=True).astype({"approach": object})


def _check(frame: pd.DataFrame, columns: tuple[str, ...], what: str) -> None:
    if missing := [c for c in columns if c not in frame.columns]:
        raise InputError(f"The table of {what} has no column {missing[0]!r}; it needs {', '.join(columns)}.")
