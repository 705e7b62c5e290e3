"""Amplification of the naive approach: as :class:`biaslab.metrics.headline.Headline`, by unit, by model."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from biaslab import metrics
from biaslab.metrics.headline import CELL, GENERATED, MEAN, PERSON, Headline
from biaslab.papers.estimands import Estimand, at_shared_images, unit_rows
from biaslab.papers.paradox.analysis.groups import Group, groups

TABLES = ("paradox_percent_female", "paradox_amplification", "paradox_rated_images")
"""The tables that :func:`headlines` takes."""
_WORDS = {"paper": "paper's definition", "all": "all occupations", "signed": "signed change"}


def headlines(shares: pd.DataFrame, amplification: pd.DataFrame, rated: pd.DataFrame) -> Iterator[Headline]:
    """Yield each model's amplification by the paper's definition and as signed change (section 3.3).

    Over all prompts of the naive approach, with judged training and generated images. ``rated``
    (``paradox_rated_images``) are the images with annotations, which replace none of ``shares``.
    """
    for group in groups(shares):
        if group.approach != "naive":
            continue
        cells = _cells(group)
        rated_rows = rated[rated["model"] == group.model]
        rated_rows = rated_rows.rename(columns={"occupation": "cluster", "prompt": "template", "is_female": "judged"})
        # Training images serve all prompts.
        rated_rows["template"] = rated_rows["template"].where(rated_rows["source"] == GENERATED, "")
        people = rated_rows.merge(cells[CELL].assign(cell=range(len(cells))), on=CELL).assign(position=1)
        people = people[[*PERSON, "cell", "judged"]]
        for definition in ("paper", "signed"):
            coefficient = _coefficients(group, definition)
            rows = amplification[
                (amplification["model"] == group.model)
                & (amplification["approach"] == group.approach)
                & (amplification["definition"] == definition)
                & (amplification["prompt"] == group.names[-1])
            ]
            null_mean = float((rows["amplification"] - rows["amplification_corrected"]).fillna(0).sum())
            weighted = cells.assign(coefficient=coefficient)
            yield Headline(
                "paradox", group.model, f"amplification, {_WORDS[definition]}", MEAN, "points", 1, 0, weighted, people,
                is_absolute=True, clusters_random=True, null_mean=null_mean, clusters="occupations",
                setting="generation.images_per_prompt",
            )  # fmt: skip


def _cells(group: Group) -> pd.DataFrame:
    """Return the cells that have a share: first training by occupation, then each prompt's images by occupation."""
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
    """Return the points that the mean over prompts changes by per unit of each cell's share (0–1), in cell order."""
    is_included = metrics.exclusion_reason(group.generated, group.training, definition) == ""
    weight = is_included / np.maximum(is_included.sum(axis=0), 1) / max(is_included.any(axis=0).sum(), 1)
    # An occupation without a share on one side does not count.
    direction = np.nan_to_num(metrics.bias_direction(group.training))
    generated = 100 * weight * direction
    training = -generated
    training = training.sum(axis=1, keepdims=True) if group.shared else training
    return np.concatenate([training, generated], axis=1).T.ravel()


def amplification_units(occupations: pd.DataFrame) -> pd.DataFrame:
    """Return the units of ``paradox_amplification``: occupations, by prompt and for the mean over prompts.

    Rows are of ``paradox_occupation_amplification``. A cell is a prompt with its training share.
    """
    rows = occupations[occupations["n_generated"] > 0]
    training = rows["percent_training"].round(6).astype(str) + " of " + rows["n_training"].astype(str)
    cell = rows["prompt"] + ", " + training
    values = {"signed": rows["signed_change"], "all": rows["amplification"]}
    values["paper"] = rows["amplification"].where(rows["excluded"] == "")
    frames = [unit_rows(rows, "occupation", values[key], cell=cell).assign(definition=key) for key in values]
    units = pd.concat(frames, ignore_index=True)
    return pd.concat([units, units.assign(prompt="mean")], ignore_index=True)


def model_units(occupations: pd.DataFrame) -> pd.DataFrame:
    """Return the units by which models are compared: signed changes, and distances corrected for small samples.

    Both models have the same training share in a cell, so its null expectation cancels in their difference. The paper's
    definition is left out, because it includes different occupations for each model.
    """
    units = amplification_units(occupations[occupations["approach"] == "naive"])
    distances = units[units["definition"] == "all"].drop(columns="n_images")
    female = (distances["percent_generated"] * distances["n_generated"] / 100).round()
    distances = distances.assign(female=female, male=distances["n_generated"] - female)
    distances = at_shared_images(distances, ["female", "male"], ["occupation", "prompt", "cell"])
    value = 100 * distances["deviation"] - (distances["percent_training"] - 50).abs()
    return pd.concat([units[units["definition"] == "signed"], distances.assign(value=value)], ignore_index=True)


ESTIMANDS = (
    Estimand(
        "paradox_amplification",
        "paradox_occupation_amplification",
        amplification_units,
        measure="Amplification, {definition}",
        unit="points",
        words={"approach": {"naive": ""}, "prompt": {"mean": ""}, "definition": _WORDS},
        columns={
            "estimate": "amplification",
            "estimate_corrected": "amplification_corrected",
            "n": "n_occupations",
        },
        n_unit="occupations",
        model_units=model_units,
    ),
)
