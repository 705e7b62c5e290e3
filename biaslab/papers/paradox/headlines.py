"""Amplification of the naive approach, as :class:`biaslab.metrics.headline.Headline`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from biaslab import metrics
from biaslab.metrics.headline import CELL, GENERATED, MEAN, PERSON, Headline
from biaslab.papers.paradox.analysis.groups import Group, groups

TABLES = ("paradox_percent_female", "paradox_amplification", "paradox_rated_images")
"""The tables that :func:`headlines` takes."""
_WORDS = {"paper": "amplification, paper's definition", "signed": "amplification, signed change"}


def headlines(shares: pd.DataFrame, amplification: pd.DataFrame, rated: pd.DataFrame) -> Iterator[Headline]:
    """Yield each model's amplification by the paper's definition and as signed change (section 3.3).

    Over all prompts of the naive approach, both sides of it judged. ``rated`` (``paradox_rated_images``) are the images
    that people rated; their ratings take the place of none of ``shares``.
    """
    for group in groups(shares):
        if group.approach != "naive":
            continue
        cells = _cells(group)
        own = rated[rated["model"] == group.model]
        own = own.rename(columns={"occupation": "cluster", "prompt": "template", "is_female": "judged"})
        # Training images serve all prompts.
        own["template"] = own["template"].where(own["source"] == GENERATED, "")
        people = own.merge(cells[CELL].assign(cell=range(len(cells))), on=CELL).assign(position=1)
        people = people[[*PERSON, "cell", "judged"]]
        for definition, words in _WORDS.items():
            coefficient = _coefficients(group, definition)
            found = amplification[
                (amplification["model"] == group.model)
                & (amplification["approach"] == group.approach)
                & (amplification["definition"] == definition)
                & (amplification["prompt"] == group.names[-1])
            ]
            null_mean = float((found["amplification"] - found["amplification_corrected"]).fillna(0).sum())
            of = cells.assign(coefficient=coefficient)
            yield Headline(
                "paradox", group.model, words, MEAN, "points", 1, 0, of, people, is_absolute=True,
                clusters_random=True,
                null_mean=null_mean, clusters="occupations", setting="generation.images_per_prompt",
            )  # fmt: skip


def _cells(group: Group) -> pd.DataFrame:
    """Return what has a share: first training by occupation, then each prompt's images by occupation."""
    count, n = group.counts()
    training = ["" if group.shared else prompt for prompt in group.prompts][: n.shape[1] - len(group.prompts)]
    columns = [("training", prompt) for prompt in training] + [("generated", prompt) for prompt in group.prompts]
    frames = [
        pd.DataFrame(
            {"source": source, "cluster": group.occupations, "template": prompt, "stratum": "", "count": count[:, j],
             "n": n[:, j]}
        )
        for j, (source, prompt) in enumerate(columns)
    ]  # fmt: skip
    return pd.concat(frames, ignore_index=True)


def _coefficients(group: Group, definition: str) -> np.ndarray:
    """Return by how many points the mean over prompts moves with each cell's share (0–1), in the cells' order."""
    kept = metrics.exclusion_reason(group.generated, group.training, definition) == ""
    weight = kept / np.maximum(kept.sum(axis=0), 1) / max(kept.any(axis=0).sum(), 1)
    # An occupation without a share on one side counts for none.
    toward = np.nan_to_num(metrics.bias_direction(group.training))
    generated = 100 * weight * toward
    training = -generated
    training = training.sum(axis=1, keepdims=True) if group.shared else training
    return np.concatenate([training, generated], axis=1).T.ravel()
