"""Shares of images perceived as female by model, occupation and source: from annotations, or counted by the user.

A table of counted shares has the columns ``occupation``, ``source`` (``training`` or ``generated``),
``percent_female`` (0–100) and ``n``, and may have ``model`` and ``prompt``. Training images without a model are
compared with those of every model.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from biaslab.errors import InputError, unknown_name
from biaslab.io import cells
from biaslab.ratings import annotations as annotated
from biaslab.ratings.annotations import COLUMNS, GENDER_LABELS, MAX_COLUMNS, OTHER, SOURCES, annotators
from biaslab.schema import old_names

OUTCOMES = ("female", "male", OTHER, "tie", "unsure", "unannotated")
UNNAMED = "unnamed"
"""The model's name for files without one."""

_COLUMNS = ("occupation", "source", "percent_female", "n")
_OPTIONAL_COLUMNS = ("model", "prompt")
_NEEDS = f"Shares need the columns {', '.join(_COLUMNS)}."
# Prompts of training shares that serve all prompts.
_COMMON_PROMPTS = ("annotations", "captions")
_CELL = ["model", "occupation", "source", "prompt"]
_MAX_IMAGES = 1_000_000_000


@dataclass(frozen=True)
class AnnotatedImages:
    """Annotated images, or counted shares: one label per image, and shares by model, occupation and source."""

    table: pd.DataFrame  # As of :func:`biaslab.ratings.annotations.read`; no rows for counted shares.
    images: pd.DataFrame  # The vote on each image (:func:`biaslab.ratings.annotations.votes`).
    shares: pd.DataFrame
    """Model (empty: of all), occupation, source, prompt, n_images, images by :data:`OUTCOMES` (NaN for counted shares),
    n, percent_female."""
    notes: pd.DataFrame  # Table ``ratings_input``: what was read, how it was interpreted and what was left out.

    @property
    def percent_female(self) -> pd.DataFrame:
        """The shares as table ``paradox_percent_female``; NaN with n 0 where no image is decided."""
        return for_each_model(self.shares)[["model", "approach", *_CELL[1:], "percent_female", "n"]]

    @property
    def outcomes(self) -> pd.DataFrame:
        """The shares of each model with ``reason``: why amplification excludes the row, or empty."""
        table = for_each_model(self.shares).drop(columns="approach")
        decided = table.groupby(["model", "occupation", "source"])["n"].sum().unstack().reindex(columns=list(SOURCES))
        pair = decided.reindex(pd.MultiIndex.from_frame(table[["model", "occupation"]]))
        reason = pd.Series("", index=table.index, dtype=object)
        for source, n in pair.items():
            reason[n.isna().to_numpy()] = f"no {source} images of this occupation"
            reason[(n == 0).to_numpy()] = f"no {source} image was decided female or male"
        return table.assign(reason=reason)

    def of_model(self, model: str) -> AnnotatedImages:
        """Return the rows of a model and those shared by all models; everything for ``all``.

        Raises UnknownNameError: There is no such model.
        """
        models = sorted(set(self.percent_female["model"]))
        if model not in ("all", *models):
            raise unknown_name("model in the annotations", model, models)
        if model == "all":
            return self
        parts = {name: getattr(self, name) for name in ("table", "images", "shares")}
        parts = {name: table[table["model"].isin(["", model])] for name, table in parts.items()}
        return replace(self, **{name: table.reset_index(drop=True) for name, table in parts.items()})


def read(path: str | Path) -> AnnotatedImages:
    """Read annotations of images with source and occupation, or counted shares.

    A share is female / (female + male) over the n images with these labels.

    Raises InputError as :func:`biaslab.ratings.annotations.read`; where no image is annotated; or where a share is
    outside 0–100, occurs twice, or has no counterpart.
    """
    path = cells.file_path(path)
    table, left_out = cells.load(path, {*_COLUMNS, *_OPTIONAL_COLUMNS})
    if not {"annotator", "label"} & {*table} and difflib.get_close_matches("percent_female", map(str, table)):
        images = _read_shares(table, left_out, path)
    else:
        images = _read_annotations(path)
    sources = images.shares.groupby("occupation")["source"].nunique()
    single = sorted(sources.index[sources < len(SOURCES)])
    rows = [("occupations", len(sources), ""), ("occupations with one source only", len(single), "; ".join(single))]
    notes = pd.concat([images.notes, pd.DataFrame(rows)]).set_axis(["item", "n", "detail"], axis=1)
    return replace(images, notes=notes[notes["n"] > 0].reset_index(drop=True))


def _read_annotations(path: Path) -> AnnotatedImages:
    frame = annotated.read(path, {"": GENDER_LABELS}, required_columns=("source", "occupation"))
    frame["model"] = _models(frame, path)
    mask, names = frame["label"] != "", annotators(frame)
    if not mask.any():
        raise InputError(
            f"{path} contains no annotation of perceived gender. Allowed labels are {', '.join(GENDER_LABELS)}, in "
            "rows without a question. biaslab.analyses.ratings.question_shares summarizes answers to other questions."
        )
    images = annotated.votes(frame)
    counts = pd.get_dummies(pd.Categorical(images["label"], OUTCOMES), dtype=int).assign(n_images=1)
    counts = counts.groupby([images[name] for name in _CELL[:3]]).sum().reset_index()
    decided = counts["female"] + counts["male"]
    percent = 100 * counts["female"] / decided.where(decided > 0)
    labels, n = frame["label"][mask].value_counts(), images["label"].value_counts().reindex(OUTCOMES, fill_value=0)
    empty = sorted(set(frame["annotator"]) - {"", *names})
    has_few_annotators = len(names) <= MAX_COLUMNS
    partial = images["n_annotators"].between(1, len(names) - 1).sum()
    places = images[["image_id", "source", "occupation"]].drop_duplicates()
    ids = places.loc[places["image_id"].duplicated(), "image_id"].drop_duplicates()
    detail = f"counted as a separate image in each; if it is one image, correct the file: {cells.join_values(ids)}"
    notes = [
        *frame.attrs["notes"],
        ("annotators", len(names), ", ".join(names) if has_few_annotators else "too many to list"),
        ("annotators without annotations", len(empty), ", ".join(empty)),
        (
            "annotations",
            mask.sum(),
            ", ".join(f"{labels[label]} {label}" for label in GENDER_LABELS if label in labels),
        ),
        ("images", len(images), ""),
        ("images under several sources or occupations", len(ids), detail),
        ("images with a missing annotation", partial if has_few_annotators else 0, ""),
        ("images decided female or male", n["female"] + n["male"], "used in the shares"),
        ("images decided other", n[OTHER], "not used in the shares"),
        ("images excluded: unsure", n["unsure"], "unsure is the most frequent label"),
        ("images excluded: tie", n["tie"], "several labels are most frequent"),
        ("images excluded: unannotated", n["unannotated"], ""),
    ]
    shares = counts.assign(prompt="annotations", n=decided, percent_female=percent)
    return AnnotatedImages(frame, images, shares, pd.DataFrame(notes))


def for_each_model(shares: pd.DataFrame) -> pd.DataFrame:
    """Return shares by model with ``approach`` (``naive``): rows without a model are repeated for every model."""
    models = sorted(set(shares["model"]) - {""}) or [UNNAMED]
    common = shares["model"] == ""
    repeated = [shares[common].assign(model=model) for model in models]
    rows = pd.concat([shares[~common], *repeated], ignore_index=True)
    return rows.assign(approach="naive").sort_values(_CELL, ignore_index=True)


def _read_shares(frame: pd.DataFrame, left_out: dict[str, str], path: Path) -> AnnotatedImages:
    old_names.check_columns(map(str, frame), _COLUMNS, str(path))
    cells.require(frame, _COLUMNS, path, _NEEDS, {*_COLUMNS, *_OPTIONAL_COLUMNS})
    unused = [name for name in frame if name not in {*_COLUMNS, *_OPTIONAL_COLUMNS}]
    for name in unused:
        if matches := difflib.get_close_matches(name.lower(), _OPTIONAL_COLUMNS, n=1, cutoff=0.75):
            raise InputError(f"{path} has a column {name!r}. Did you mean {matches[0]!r}? Rename or remove it.")
    unused += left_out
    notes: list[tuple[str, float, str]] = [("rows read", len(frame), f"shares from {cells.shorten(path.name)}")]
    notes += [("columns not used", len(unused), ", ".join(name or "without a name" for name in unused))]
    frame = frame.assign(**{name: "" for name in _OPTIONAL_COLUMNS if name not in frame})
    for name in ("occupation", *_OPTIONAL_COLUMNS):
        frame[name] = cells.names(frame[name], path, empty=name != "occupation").astype(object)
    source = frame["source"].str.strip().str.lower()
    cells.refuse(~source.isin(SOURCES), path, "source is {}", f"give {' or '.join(SOURCES)}", frame["source"])
    frame["source"] = source
    frame["model"] = _models(frame, path)
    percent = cells.numbers(frame["percent_female"], path)
    is_percent, fix = percent.between(0, 100), "enter a number from 0 to 100, such as 37.5, or remove the row"
    cells.refuse(~is_percent, path, "percent_female is {}", fix, frame["percent_female"])
    n = cells.numbers(frame["n"], path, whole=True)
    is_whole = n.between(1, _MAX_IMAGES) & (n == n.round())
    fix = "enter the number of images in the share, at least 1"
    cells.refuse(~is_whole, path, "n is {}", fix, frame["n"])
    if 0 < percent.max() <= 1:
        raise InputError(
            f"{path}: every percent_female is at most 1, so the shares seem to be fractions (0–1). Multiply them by "
            "100."
        )
    cells.refuse(frame["prompt"] == "ratings", path, "prompt is ratings", "it is now called annotations; rename it")
    frame = frame.assign(percent_female=percent, n=n, prompt=frame["prompt"].replace("", "annotations"))
    fix = "keep one, or distinguish them in the columns model or prompt"
    twice = frame.duplicated(_CELL)
    cells.refuse(twice, path, "{occupation} ({source}) has two shares, the second", fix, frame)
    # Generated and training shares are matched by prompt.
    generated, training = (set(frame.loc[frame["source"] == s, "prompt"]) for s in ("generated", "training"))
    unpaired = sorted(training - generated - set(_COMMON_PROMPTS)) if generated else []
    if training and not training & set(_COMMON_PROMPTS):
        unpaired += sorted(generated - training)
    if unpaired:
        raise InputError(
            f"{path}: prompt {cells.shorten(unpaired[0])} has shares of one source only. Leave prompt empty for "
            "training shares that apply to all prompts."
        )
    notes += [("images decided female or male", n.sum(), "used in the shares")]
    shares = frame[[*_CELL, "percent_female", "n"]].assign(n_images=np.nan, **dict.fromkeys(OUTCOMES, np.nan))
    table = pd.DataFrame(columns=list(COLUMNS))
    return AnnotatedImages(table, annotated.votes(table), shares, pd.DataFrame(notes))


def _models(frame: pd.DataFrame, path: Path) -> pd.Series:
    """Return the models, all empty if the file names none; check that models of training images have generated ones."""
    model, generated = frame["model"], frame["source"] == "generated"
    fix = "enter the model; only training images may have none"
    cells.refuse(generated & (model == "") & (model != "").any(), path, "model is empty for generated images", fix)
    names = set(model[generated]) - {""}
    fix = f"use one of {', '.join(sorted(names))}, or leave it empty for training images of all models"
    problem = "training images have the model {}, which has no generated images"
    cells.refuse(~generated & (model != "") & ~model.isin(names) & bool(names), path, problem, fix, model)
    return model
