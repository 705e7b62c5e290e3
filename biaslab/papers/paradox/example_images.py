"""Rules that choose the images of a notebook, so that none is chosen by hand.

Functions take judgements and return those of the chosen images, with the columns ``kind`` (of the images, see
``study.images``) and ``below`` (the text below each), as :func:`figures.gallery` takes them. They may have no rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

_KEYS = ["caption_id", "occupation"]


def choose_occupations(shares: pd.DataFrame, occupations: Sequence[str] = (), *, max_occupations: int = 4) -> list[str]:
    """Return measured ``occupations``, else at most ``max_occupations`` with low to high shares of women."""
    if "percent_female" not in shares:
        ordered = shares.loc[shares["n_captions"] > 0, "occupation"].tolist()
    else:
        rows = shares[(shares["source"] == "training") & (shares["approach"] == "naive")]
        # Only the first model has images.
        rows = rows[rows["model"] == rows["model"].iloc[0]].dropna(subset=["percent_female"])
        ordered = rows.sort_values("percent_female", kind="stable")["occupation"].tolist()
    steps = np.linspace(0, len(ordered) - 1, min(max_occupations, len(ordered))).round().astype(int)
    return [o for o in occupations if o in ordered] or [ordered[i] for i in steps]


def first_rows(
    judgements: pd.DataFrame, names: Sequence[str], n_per_group: int, *, by: str = "occupation"
) -> pd.DataFrame:
    """Return equally many first rows of each name, so that they fill lines; ``names`` give the order."""
    parts = [judgements[judgements[by] == name] for name in names]
    n_per_group = min([n_per_group, *(len(part) for part in parts if len(part))])
    return pd.concat([judgements.head(0), *(part.head(n_per_group) for part in parts)], ignore_index=True)


def choose_generated(
    judgements: pd.DataFrame, occupations: Sequence[str], *, prompt: str = "1", n_per_group: int = 8
) -> pd.DataFrame:
    """Return the first ``n_per_group`` images of each occupation generated for a prompt."""
    rows = first_rows(judgements[judgements["prompt"] == prompt], occupations, n_per_group)
    return rows.assign(kind="generated", below=rows["occupation"])


def choose_training(judgements: pd.DataFrame, occupations: Sequence[str], *, n_per_group: int = 6) -> pd.DataFrame:
    """Return the first ``n_per_group`` images of each occupation in the random sample of captions."""
    rows = first_rows(judgements.sort_values("rank", kind="stable"), occupations, n_per_group)
    return rows.assign(kind="training", below=rows["text"])


def choose_unclassified(training: pd.DataFrame, generated: pd.DataFrame, *, n_per_group: int = 4) -> pd.DataFrame:
    """Return ``n_per_group`` images without a gender for each reason and kind."""
    parts = []
    for kind, judgements in (("training", training), ("generated", generated)):
        rows = judgements[judgements["status"] != "judged"].drop_duplicates("image_id")
        rows = rows.groupby("status").head(n_per_group).sort_values("status", kind="stable")
        parts.append(rows.assign(kind=kind, below=f"{kind}: " + rows["occupation"]))
    return pd.concat(parts, ignore_index=True)


def choose_by_prompt(judgements: pd.DataFrame, occupation: str, *, n_per_group: int = 9) -> pd.DataFrame:
    """Return the first ``n_per_group`` images generated of an occupation for each prompt (layout of Figure 6)."""
    rows = judgements[judgements["occupation"] == occupation]
    rows = first_rows(rows, sorted(set(rows["prompt"])), n_per_group, by="prompt")
    return rows.assign(kind="generated", below="prompt " + rows["prompt"])


def choose_selected(
    training: pd.DataFrame,
    generated: pd.DataFrame,
    examples: pd.DataFrame,
    approach: str,
    occupations: Sequence[str],
    *,
    prompt: str = "1",
    n_per_group: int = 3,
) -> pd.DataFrame:
    """Return training images that an approach selects, next to generated ones, for each occupation (Figures 2 and 4).

    ``training`` and ``generated`` are judgements, ``examples`` rows of ``paradox_selection_examples``.
    """
    chosen = examples[(examples["approach"] == approach) & examples["prompt"].isin([prompt, "captions"])]
    chosen = chosen.sort_values("rank", kind="stable")[[*_KEYS, "caption"]]
    left = chosen.merge(training.drop_duplicates(_KEYS), on=_KEYS)
    right = generated[generated["prompt"] == prompt]
    left = left.assign(kind="training", below=left["caption"], side="left of " + left["occupation"])
    below = "generated: " + right["occupation"]
    right = right.assign(kind="generated", below=below, side="right of " + right["occupation"])
    sides = [f"{side} of {occupation}" for occupation in occupations for side in ("left", "right")]
    return first_rows(pd.concat([left, right]), sides, n_per_group, by="side").drop(columns="side")


def pairs(first: pd.DataFrame, second: pd.DataFrame, kinds: tuple[str, str], *, max_captions: int = 12) -> pd.DataFrame:
    """Return pairs of images of ``max_captions`` captions: where possible, half indicate a gender and come first.

    ``first`` are judgements of the images on the left, ``second`` of those on the right; ``kinds`` are ``training`` or
    ``caption_prompts``, and ``caption_prompts`` or ``paraphrased``.
    """
    left, right = (rows.drop_duplicates(_KEYS) for rows in (first, second))
    captions = left[_KEYS].merge(right[[*_KEYS, "indicator"]], on=_KEYS)
    indicating = captions[captions["indicator"] != "none"].drop_duplicates("occupation").head(max_captions // 2)
    neutral = captions[captions["indicator"] == "none"].drop_duplicates("occupation")
    # Occupations that are not shown yet come first.
    neutral = neutral.sort_values("occupation", key=lambda o: o.isin(indicating["occupation"]), kind="stable")
    chosen = pd.concat([indicating, neutral.head(max_captions - len(indicating))], ignore_index=True)[_KEYS]
    below = "generated from this caption" if kinds[1] == "caption_prompts" else right["text"]
    sides = [left.assign(kind=kinds[0], below=left["text"]), right.assign(kind=kinds[1], below=below)]
    rows = pd.concat([chosen.merge(side, "left", _KEYS) for side in sides])
    return rows.sort_index(kind="stable").reset_index(drop=True)
