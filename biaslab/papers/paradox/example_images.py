"""Which images a notebook shows: judgements in, those of the images to draw out; none is chosen by hand.

What comes out has, next to the columns of the judgements, ``kind`` (whose images they are, see ``study.images``) and
``below`` (the text below each), as :func:`figures.gallery` takes them; without rows where there are none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

_KEYS = ["caption_id", "occupation"]


def choose_occupations(shares: pd.DataFrame, wanted: Sequence[str] = (), *, most: int = 4) -> list[str]:
    """Return the occupations to show: those wanted that were measured, else ``most``, from few women to many."""
    if "percent_female" not in shares:
        ordered = shares.loc[shares["n_captions"] > 0, "occupation"].tolist()
    else:
        rows = shares[(shares["source"] == "training") & (shares["approach"] == "naive")]
        # The first model is the one whose images there are.
        rows = rows[rows["model"] == rows["model"].iloc[0]].dropna(subset=["percent_female"])
        ordered = rows.sort_values("percent_female", kind="stable")["occupation"].tolist()
    steps = np.linspace(0, len(ordered) - 1, min(most, len(ordered))).round().astype(int)
    return [o for o in wanted if o in ordered] or [ordered[i] for i in steps]


def first(judged: pd.DataFrame, names: Sequence[str], each: int, *, by: str = "occupation") -> pd.DataFrame:
    """Return the first rows of each name, as many of each, so that they fill lines; the names in the order given."""
    parts = [judged[judged[by] == name] for name in names]
    each = min([each, *(len(part) for part in parts if len(part))])
    return pd.concat([judged.head(0), *(part.head(each) for part in parts)], ignore_index=True)


def generated(judged: pd.DataFrame, occupations: Sequence[str], *, prompt: str = "1", each: int = 8) -> pd.DataFrame:
    """Return the first images generated for a prompt, some of each occupation."""
    rows = first(judged[judged["prompt"] == prompt], occupations, each)
    return rows.assign(kind="generated", below=rows["occupation"])


def training(judged: pd.DataFrame, occupations: Sequence[str], *, each: int = 6) -> pd.DataFrame:
    """Return the first images of the random sample of captions, some of each occupation."""
    rows = first(judged.sort_values("rank", kind="stable"), occupations, each)
    return rows.assign(kind="training", below=rows["text"])


def not_judged(training: pd.DataFrame, generated: pd.DataFrame, *, each: int = 4) -> pd.DataFrame:
    """Return images without a gender, some of each reason and kind."""
    parts = []
    for kind, judged in (("training", training), ("generated", generated)):
        rows = judged[judged["status"] != "judged"].drop_duplicates("image_id")
        rows = rows.groupby("status").head(each).sort_values("status", kind="stable")
        parts.append(rows.assign(kind=kind, below=f"{kind}: " + rows["occupation"]))
    return pd.concat(parts, ignore_index=True)


def by_prompt(judged: pd.DataFrame, occupation: str, *, each: int = 9) -> pd.DataFrame:
    """Return the first images generated of an occupation, some of each prompt (layout of Figure 6)."""
    rows = judged[judged["occupation"] == occupation]
    rows = first(rows, sorted(set(rows["prompt"])), each, by="prompt")
    return rows.assign(kind="generated", below="prompt " + rows["prompt"])


def selected(
    training: pd.DataFrame,
    generated: pd.DataFrame,
    examples: pd.DataFrame,
    approach: str,
    occupations: Sequence[str],
    *,
    prompt: str = "1",
    each: int = 3,
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
    return first(pd.concat([left, right]), sides, each, by="side").drop(columns="side")


def pairs(first: pd.DataFrame, second: pd.DataFrame, kinds: tuple[str, str], *, most: int = 12) -> pd.DataFrame:
    """Return pairs of images of ``most`` captions: half indicate a gender and come first, half do not, where there are.

    ``first`` are judgements of the images on the left, ``second`` of those on the right; ``kinds`` are ``training`` or
    ``caption_prompts``, and ``caption_prompts`` or ``paraphrased``.
    """
    one, two = (rows.drop_duplicates(_KEYS) for rows in (first, second))
    both = one[_KEYS].merge(two[[*_KEYS, "indicator"]], on=_KEYS)
    told = both[both["indicator"] != "none"].drop_duplicates("occupation").head(most // 2)
    untold = both[both["indicator"] == "none"].drop_duplicates("occupation")
    # Occupations that are not shown yet come first.
    untold = untold.sort_values("occupation", key=lambda o: o.isin(told["occupation"]), kind="stable")
    chosen = pd.concat([told, untold.head(most - len(told))], ignore_index=True)[_KEYS]
    said = "generated from this caption" if kinds[1] == "caption_prompts" else two["text"]
    sides = [one.assign(kind=kinds[0], below=one["text"]), two.assign(kind=kinds[1], below=said)]
    rows = pd.concat([chosen.merge(side, "left", _KEYS) for side in sides])
    return rows.sort_index(kind="stable").reset_index(drop=True)
