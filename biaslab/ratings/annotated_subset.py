"""Annotations of a subset of a run's images, and the probability at which each image was drawn.

A table of :mod:`biaslab.io.cells` as ``biaslab annotate`` gives it: ``image`` and one column per annotator, or
``image``, ``annotator`` and ``label``; where needed ``model``, ``source``, ``position`` (1 is the leftmost),
``question`` (an attribute, whose labels are yes and no), ``probability`` (at which the person's image was drawn);
without it people are taken as drawn at random from those alike.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from biaslab.io import cells
from biaslab.io.plaintext import normalize
from biaslab.ratings import person_ratings, readers

COLUMNS = ("model", "source", "image_id", "position", "question", "label", "n_annotators", "probability")
_KEYS = ["model", "source", "image", "position", "question"]
# Yes and no are counted as the labels of gender are.
_YES = {"yes": "female", "y": "female", "no": "male", "n": "male"}
_NEEDS = "Annotations need image and one column per annotator; or image, annotator and label."


def read(path: str | Path) -> pd.DataFrame:
    """Read ratings: a row for each person who is in the file.

    Returns :data:`COLUMNS`: model (empty: of any), source (``generated`` or ``training``), image_id in its plain form,
    position, question (empty: perceived gender), label (the most frequent rating, ``tie`` or ``unannotated``),
    n_annotators (ratings of the person) and probability (0–1, NaN where the file does not say).

    Raises InputError where the file cannot be read, a value is out of its range, or a person is there twice.
    """
    path = cells.file_path(path)
    known = {*_KEYS, "image_id", "occupation", "annotator", "label", *person_ratings.CONTEXT}
    table, left_out = cells.load(path, known)
    table = readers.usual(table, path)
    cells.require(table, ["image"], path, _NEEDS, known)
    long = {"annotator", "label"} <= {*table}
    annotators = None if long else [c for c in table if c and c not in known]
    if not long:
        cells.refuse_ignored_settings(left_out, path)
        cells.require(table, annotators or ["annotator", "label"], path, _NEEDS, known)
    given = {"model": "", "question": "", "source": "generated", "position": "1"}
    table = table.assign(**{name: value for name, value in given.items() if name not in table})
    table["image"] = cells.image_ids(table["image"]).map(normalize)
    cells.refuse(table["image"] == "", path, "image is empty", "name each image")
    for name in ("model", "question"):
        table[name] = cells.names(table[name], path, empty=True).astype(str)
    other, answers = table["question"] != "", annotators or ["label"]
    for name in answers:
        said = table[name].str.strip().str.casefold()
        strange = other & ~said.isin([*_YES, ""])
        cells.refuse(strange, path, "{} is no answer about an attribute", "write yes or no", table[name])
        table[name] = table[name].where(~other, said.replace(_YES))
    for name in ("source", "position"):
        table[name] = table[name].str.strip().replace("", given[name])
    strange = ~table["source"].isin(readers.SOURCES)
    cells.refuse(strange, path, "source is {}", f"give {' or '.join(readers.SOURCES)}", table["source"])
    position = cells.numbers(table["position"], path, whole=True)
    cells.refuse(~(position > 0), path, "position is {}", "give 1, 2, …", table["position"])
    table["position"] = position.astype(int)
    table["probability"] = readers.probabilities(table, path)
    several = table.groupby(_KEYS)["probability"].transform("nunique") > 1
    cells.refuse(several, path, "image {} has several probabilities", "give one", table["image"])
    votes = readers.votes_on(table, _KEYS, annotators, path, "image {image}, position {position} {question}")
    drawn = table.groupby(_KEYS)["probability"].first().reindex(pd.MultiIndex.from_frame(votes.items))
    found = votes.items.assign(probability=drawn.to_numpy(), label=votes.label)
    answered = found["label"].replace({said: short for short, said in _YES.items() if len(short) > 1})
    found["label"] = found["label"].where(found["question"] == "", answered)
    found["n_annotators"] = votes.ratings.notna().sum(axis=1).to_numpy()
    return found.rename(columns={"image": "image_id"})[list(COLUMNS)]


def weights(annotations: pd.DataFrame) -> np.ndarray | None:
    """Return how many people each rated person stands for: one over the probability; None where one is not known."""
    p = annotations["probability"].to_numpy(float)
    return 1 / p if len(p) and not np.isnan(p).any() else None
