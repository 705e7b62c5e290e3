"""Read a user's own measurements: ratings of images, or shares that were already counted.

Three formats, told apart by their columns, of a table (:mod:`biaslab.io.cells`), or of a folder of such files, as
those that annotators send back (``biaslab annotate``):

- ratings, wide: ``image, source, occupation`` and one column per annotator;
- ratings, long: ``image, source, occupation, annotator, label``, one row per image and annotator;
- shares: ``occupation, source, percent_female, n``, and ``prompt`` where there are several.

``source`` is ``training`` or ``generated``. Each may have a column ``model``; training images whose model is empty are
compared with every model's. A rating is ``female``, ``male``, ``other`` (neither word fits), ``unsure`` or empty (not
rated). Other spellings (:data:`SYNONYMS`) and usual names of columns (:data:`SETTING_NAMES`) are read as these.
"""

from __future__ import annotations

import difflib
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from biaslab.errors import InputError, name_help, unknown_name
from biaslab.io import cells, delimited, plaintext
from biaslab.metrics import agreement
from biaslab.schema import old_names

OTHER = "other"
LABELS = (*agreement.LABELS, OTHER)
SOURCES = ("training", "generated")
OUTCOMES = ("female", "male", OTHER, "tie", "unsure", "unannotated")
SYNONYMS = {
    **dict.fromkeys(("f", "w", "woman", "women", "girl", "feminine"), "female"),
    **dict.fromkeys(("m", "man", "men", "boy", "masculine"), "male"),
    **dict.fromkeys(("u", "?", "not sure", "unclear", "uncertain", "undecided", "unknown"), "unsure"),
    "cannot identify": "unsure",
    **dict.fromkeys(("nonbinary", "non-binary", "non binary", "nb", "enby", "androgynous", "diverse"), OTHER),
    **dict.fromkeys(("na", "n/a", "nan", "null"), ""),
}
SETTING_NAMES = {
    "image": ("image_id", "file", "filename", "file_name", "image_name"),
    "occupation": ("profession", "job"),
    "annotator": ("annotator_id", "rater_id", "worker", "worker_id", "participant"),
    "label": ("gender", "perceived_gender", "rating", "annotation", "sex"),
}
"""What columns are called elsewhere, in any case; annotator and label where both are there."""
UNNAMED = "unnamed"
"""The model's name where the file gives none."""

_LONG = ("image", "source", "occupation", "annotator", "label")
_FORMATS = {"wide": _LONG[:3], "long": _LONG, "shares": ("occupation", "source", "percent_female", "n")}
_NEEDS = {
    "wide": "Annotations in wide form need: image, source, occupation and one column per annotator.",
    "long": f"Annotations in long form need: {', '.join(_LONG)}.",
    "shares": f"Shares need: {', '.join(_FORMATS['shares'])}.",
}
_OPTIONAL = ("model", "prompt")
DRAWN = ("probability", "wave")
"""Columns that describe how an image was drawn (:mod:`biaslab.ratings.annotated_subset`), and are not annotators; of
``wave`` only 1 is allowed.
"""
# Prompts of training shares that serve all prompts.
_SHARED = ("annotations", "captions")
_ITEM = ["image", "source", "occupation", "model"]
_CELL = ["model", "occupation", "source", "prompt"]
# More annotators than this are a crowd, each with few of the images: a column for each would be mostly empty.
MOST_COLUMNS = 30
_MOST_IMAGES = 1_000_000_000

Note = tuple[str, float, str]


def check_wave(table: pd.DataFrame, path: Path) -> None:
    """Raise InputError where a table of text has a column ``wave`` with another value than 1 (or nothing)."""
    if "wave" in table:
        fix = "these images were not drawn in one random sample: give the file of one sample, without later waves"
        cells.refuse(~table["wave"].str.strip().isin(("", "1", "1.0")), path, "wave is {}", fix, table["wave"])


def probabilities(table: pd.DataFrame, path: Path) -> pd.Series:
    """Return the probability (0–1) at which the image of each row was drawn; NaN where the file has none.

    Raises InputError for a probability that is not above 0 and at most 1, and for a ``wave`` other than 1.
    """
    check_wave(table, path)
    if "probability" not in table:
        return pd.Series(np.nan, index=table.index)
    number = cells.numbers(table["probability"], path)
    bad = ~((number > 0) & (number <= 1)) & (table["probability"].str.strip() != "")
    cells.refuse(bad, path, "probability is {}", "give a number above 0, at most 1", table["probability"])
    return number


@dataclass(frozen=True)
class AnnotatedImages:
    """What a file of ratings or shares holds: one label per image, and shares per occupation and source."""

    kind: str  # ``wide``, ``long`` or ``shares``.
    images: pd.DataFrame
    """One row per image: image, source, occupation, model (empty: shared by all models), label (one of
    :data:`OUTCOMES`). No rows for shares."""
    ratings: pd.DataFrame | None
    """The same rows, one column per annotator (of more than 30: an image's first, second, … rating): a label, missing
    where not rated. ``None`` for shares."""
    annotators: tuple[str, ...]  # The columns of ``ratings`` if each is one annotator, else empty.
    n_annotators: int  # Annotators with at least one rating; 0 for shares.
    percent_female: pd.DataFrame
    """The columns of table ``paradox_percent_female``; NaN with n 0 where no image was decided."""
    outcomes: pd.DataFrame
    """The same rows: model, occupation, source, prompt, n_images, how many ended as each of :data:`OUTCOMES` (NaN for
    shares), n, percent_female, and the reason why the row cannot count for amplification, if so."""
    notes: pd.DataFrame  # What was read, how it was understood and what was left aside: item, n, detail.
    part: bool = False  # Whether other models' images or shares in the file are left out.

    def of_model(self, model: str) -> AnnotatedImages:
        """Return what belongs to a model and what all share; all of it for ``all``. UnknownNameError for others."""
        if model == "all":
            return self
        models = sorted(set(self.percent_female["model"]))
        if model not in models:
            raise unknown_name("model in ratings", model, models)

        def share(table: pd.DataFrame, models: pd.Series) -> pd.DataFrame:
            return table[models.isin(["", model])].reset_index(drop=True)

        tables = {"images": self.images, "percent_female": self.percent_female, "outcomes": self.outcomes}
        tables = {name: share(table, table["model"]) for name, table in tables.items()}
        ratings = None if self.ratings is None else share(self.ratings, self.images["model"])
        return replace(self, **tables, ratings=ratings, part=len(models) > 1)

    def votes(self) -> pd.Series:
        """Return each image's label by its id in plain form; InputError where one stands in several rows."""
        ids = cells.image_ids(self.images["image"]).map(plaintext.normalize)
        if ids.duplicated().any():
            raise InputError(
                f"Image {ids[ids.duplicated()].iloc[0]!r} occurs in several rows of the annotations (other models, "
                "sources or occupations); keep the rows of the images judged here."
            )
        return pd.Series(self.images["label"].astype(str).to_numpy(object), index=ids.to_numpy(object))


class Votes(NamedTuple):
    """Items, one row each, the vote on each, their ratings and annotators as of :class:`AnnotatedImages`, and notes."""

    items: pd.DataFrame
    label: np.ndarray
    ratings: pd.DataFrame
    annotators: tuple[str, ...]
    n_annotators: int
    notes: list[Note]


def read(path: str | Path) -> AnnotatedImages:
    """Read ratings or shares from ``path`` and resolve them.

    An image's label is the most frequent of its ratings, ``unsure`` among them; a draw stays a ``tie``. A share is
    female / (female + male) over images with these labels, its n.

    Raises InputError where the file cannot be read or is empty, its columns are of no format, a value is not allowed, a
    row is there twice, or no image is rated.
    """
    path = cells.file_path(path)
    frame, left_out = cells.load(path, {*_LONG, *_FORMATS["shares"], *_OPTIONAL, *DRAWN})
    frame = usual(frame, path)
    check_wave(frame, path)
    frame = frame.drop(columns=[*DRAWN], errors="ignore")
    kind = _kind(list(frame.columns), path)
    needed = _FORMATS[kind]
    if kind == "wide":
        cells.refuse_ignored_settings(left_out, path)
    cells.require(frame, needed, path, _NEEDS[kind], {*needed, *_OPTIONAL})
    form = "shares" if kind == "shares" else f"ratings in {kind} form"
    notes: list[Note] = [("rows read", len(frame), f"{form} from {cells.shorten(path.name)}")]
    if kind != "shares" and "prompt" in frame:
        notes.append(("columns not used: prompt", 1, "an occupation's images of all prompts count together"))
        frame = frame.drop(columns="prompt")
    unused = [c for c in frame if c not in {*needed, *_OPTIONAL} and (not c or kind != "wide")]
    for name in unused:
        if meant := difflib.get_close_matches(name.lower(), _OPTIONAL, n=1, cutoff=0.75):
            raise InputError(f"{path} has a column {name!r}. Did you mean {meant[0]!r}? Rename or remove it.")
    if unused or left_out:
        told = ", ".join(name or "without a name" for name in (*unused, *left_out))
        notes.append(("columns not used", len(unused) + len(left_out), told))
        frame = frame.drop(columns=unused)
    for name in ("occupation", *_OPTIONAL):
        if name in frame:
            frame[name] = cells.names(frame[name], path, empty=name != "occupation")
    source = frame["source"].str.strip().str.lower()
    cells.refuse(~source.isin(SOURCES), path, "source is {}", f"give {' or '.join(SOURCES)}", frame["source"])
    frame["source"] = pd.Categorical(source, SOURCES)
    frame["model"] = _models(frame, path)
    if kind == "shares":
        return _shares(frame, path, notes)
    frame["image"] = frame["image"].str.strip()
    strange = (frame["image"] == "") | frame["image"].str.contains("\n")
    fix = "name each image; look for a quote left open"
    cells.refuse(strange, path, "image is {}, empty or of several lines", fix, frame["image"])
    annotators = None if kind == "long" else [c for c in frame if c not in _ITEM]
    if annotators == []:
        raise InputError(f"{path} has no column of annotations. {_NEEDS['wide']}")
    votes = votes_on(frame, _ITEM, annotators, path, "image {image} ({source}, {occupation})")
    if not votes.n_annotators:
        raise InputError(f"{path} contains no annotation: all cells are empty. Allowed are {', '.join(LABELS)}.")
    return _resolved(kind, votes, notes)


def usual(frame: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Return a table of ratings with its columns as this module calls them (:data:`SETTING_NAMES`).

    Raises InputError: A column has its name of an earlier version.
    """
    old_names.check_columns(map(str, frame), {*_LONG, "question"}, str(path))
    long = cells.rename_columns(frame, SETTING_NAMES)
    # Of ratings in wide form every other column is an annotator.
    wide = {name: SETTING_NAMES[name] for name in ("image", "occupation")}
    return long if {"annotator", "label"} <= {*long} else cells.rename_columns(frame, wide)


def read_ratings(path: str | Path) -> AnnotatedImages:
    """Read ratings from ``path``; as :func:`read`, but shares are an InputError, too."""
    annotations = read(path)
    if annotations.ratings is None:
        raise InputError(f"{path} contains shares; give annotations, one row per image.")
    return annotations


def shares(images: pd.DataFrame, female: np.ndarray, male: np.ndarray) -> pd.DataFrame:
    """Return the share of female among decided images for each model, occupation and source.

    ``female`` and ``male`` say how much each row of ``images`` (:attr:`Rated.images`) counts as either, (images,), 0 to
    1. Columns are those of table ``paradox_percent_female``; ``n`` is the sum of both, the share NaN where it is 0.
    Training images without a model count for every model.
    """
    weighed = images[["model", "occupation", "source"]].assign(female=female, n=np.add(female, male))
    summed = weighed.groupby(["model", "occupation", "source"], as_index=False, observed=True).sum()
    percent = 100 * summed["female"] / summed["n"].where(summed["n"] > 0)
    return _finished(summed.assign(percent_female=percent, prompt="annotations"))


# -- ratings to votes ------------------------------------------------------------------------------------


def votes_on(frame: pd.DataFrame, keys: list[str], annotators: list[str] | None, path: Path, called: str) -> Votes:
    """Return the ratings in a table and the votes on its items, whether or not there are any.

    Args:
        frame: Cells as text; its index counts the file's rows from 0.
        keys: The columns that name an item.
        annotators: The columns of ratings; ``None`` where annotator and label hold one rating in each row.
        path: The file, for errors.
        called: What errors call an item, with columns in braces.

    Raises InputError where a cell is no rating, an annotator has no name, or an item is there twice, or twice for one
    annotator.
    """
    codes, notes = _label_codes(frame[annotators or ["label"]], path)
    if annotators:
        fix = "give it once. With one row for each annotation, name the columns annotator and label"
        cells.refuse(frame.duplicated(keys), path, f"{called} occurs twice, again", fix, frame)
        items, names = frame[keys].reset_index(drop=True), annotators
    else:
        items, codes, names = _spread(frame, keys, codes[:, 0], path, called)
    given = (codes >= 0).any(axis=0)
    few = len(names) <= MOST_COLUMNS
    columns = names if few else [str(k + 1) for k in range(codes.shape[1])]
    kind = pd.CategoricalDtype(list(LABELS))
    ratings = {c: pd.Categorical.from_codes(codes[:, k], dtype=kind) for k, c in enumerate(columns) if given[k]}
    table, empty = pd.DataFrame(ratings, index=items.index), [c for c in columns if c not in ratings]
    n_annotators = int(given.sum()) if annotators else len(names)
    counted = {label: int((codes == k).sum()) for k, label in enumerate(LABELS)}
    by_label = ", ".join(f"{n} {label}" for label, n in counted.items() if n or label != OTHER)
    notes += [("annotators", n_annotators, ", ".join(table) if few else "too many to name")]
    notes += [("annotators without a rating", len(empty), ", ".join(empty))] if empty and few else []
    notes += [("ratings", int((codes >= 0).sum()), by_label)]
    vote = agreement.majority_vote(np.array([*LABELS, None], dtype=object)[codes], LABELS)
    return Votes(items, vote, table, tuple(table) if few else (), n_annotators, notes)


def _spread(
    frame: pd.DataFrame, keys: list[str], label: np.ndarray, path: Path, called: str
) -> tuple[pd.DataFrame, np.ndarray, list[str]]:
    """Return items, their ratings side by side (items, columns), and who rated."""
    given = label >= 0
    # An image that nobody rated has no annotator either.
    unnamed = given & (frame["annotator"].str.strip() == "")
    cells.refuse(unnamed, path, "annotator is empty", "name the annotator")
    annotator = cells.names(frame["annotator"], path, empty=True)
    item = frame.groupby(keys, sort=False, observed=True).ngroup().to_numpy()
    again = given & frame.assign(item=item, annotator=annotator, given=given).duplicated(["item", "annotator", "given"])
    cells.refuse(again, path, f"{called} has two annotations by annotator {{annotator}}, the second", "keep one", frame)
    items = frame[~frame.duplicated(keys)][keys].reset_index(drop=True)
    item, label = item[given], label[given]
    column, names = pd.factorize(annotator[given])
    if (width := len(names)) > MOST_COLUMNS:
        # Which annotator it was does not matter to votes and to agreement over all annotators.
        column = pd.Series(item).groupby(item).cumcount().to_numpy()
        width = int(column.max(initial=0)) + 1
    if len(items) * width > delimited.MOST_CELLS:
        raise InputError(f"{path} has {len(items)} images with up to {width} annotations, too many for memory.")
    codes = np.full((len(items), width), -1, dtype=np.int8)
    codes[item, column] = label
    return items, codes, list(names)


def _resolved(kind: str, votes: Votes, notes: list[Note]) -> AnnotatedImages:
    images = votes.items.assign(label=pd.Categorical(votes.label, OUTCOMES))
    percent_female = shares(images, images["label"] == "female", images["label"] == "male")
    each = pd.get_dummies(images["label"], dtype=int).assign(n_images=1)
    by = [images[name] for name in ("model", "occupation", "source")]
    counts = each.groupby(by, observed=True).sum().reset_index()
    n = images["label"].value_counts()
    annotations = votes.ratings.notna()
    gaps = int((annotations.any(axis=1) & ~annotations.all(axis=1)).sum())
    places = images[["image", "source", "occupation"]].drop_duplicates()
    names = places.loc[places["image"].duplicated(), "image"].drop_duplicates()
    detail = f"counted as another image in each; if it is one image, correct the file: {cells.join_values(names)}"
    repeated = [("images under several sources or occupations", len(names), detail)] if len(names) else []
    notes = [
        *notes,
        *votes.notes,
        ("images", len(images), ""),
        *repeated,
        *([("images with a rating missing", gaps, "")] if votes.annotators else []),
        ("images decided female or male", int(n["female"] + n["male"]), "they make the shares"),
        *([("images of the class other", int(n[OTHER]), "beside the shares")] if n[OTHER] else []),
        ("images left out: unsure", int(n["unsure"]), "unsure has more ratings than any other"),
        ("images left out: tie", int(n["tie"]), "no rating has more than the others"),
        ("images left out: unannotated", int(n["unannotated"]), ""),
    ]
    outcomes, notes = _paired(_finished(counts.assign(prompt="annotations")), percent_female, notes)
    return AnnotatedImages(
        kind, images, votes.ratings, votes.annotators, votes.n_annotators, percent_female, outcomes, notes
    )


def _shares(frame: pd.DataFrame, path: Path, notes: list[Note]) -> AnnotatedImages:
    percent = cells.numbers(frame["percent_female"], path)
    inside, fix = percent.between(0, 100), "give a number from 0 to 100, such as 37.5, or leave the row out"
    cells.refuse(~inside, path, "percent_female is {}", fix, frame["percent_female"])
    n = cells.numbers(frame["n"], path, whole=True)
    whole, fix = n.between(1, _MOST_IMAGES) & (n == n.round()), "give the number of images behind the share, at least 1"
    cells.refuse(~whole, path, "n is {}", fix, frame["n"])
    if 0 < percent.max() <= 1:
        raise InputError(
            f"{path}: no percent_female is above 1, so the shares seem to be given as 0 to 1; "
            "percent_female is 0 to 100: multiply by 100."
        )
    prompt = frame["prompt"].astype(object) if "prompt" in frame else pd.Series("", index=frame.index)
    cells.refuse(prompt == "ratings", path, "prompt is ratings", "it is now annotations: rename it")
    frame = frame.assign(percent_female=percent, n=n, prompt=prompt.where(prompt != "", "annotations"))
    fix = "give one, or tell them apart by the columns model or prompt"
    twice = frame.duplicated(_CELL)
    cells.refuse(twice, path, "{occupation} ({source}) has two shares, the second", fix, frame)
    # Generated and training shares must be told which belong together.
    generated, training = (set(frame.loc[frame["source"] == s, "prompt"]) for s in ("generated", "training"))
    lone = sorted(training - generated - set(_SHARED)) if generated else []
    if training and not training & set(_SHARED):
        lone += sorted(generated - training)
    if lone:
        raise InputError(
            f"{path}: prompt {cells.shorten(lone[0])} has shares of one source only. Leave prompt empty for "
            "training shares that serve all prompts."
        )
    percent_female = _finished(frame[[*_CELL, "percent_female", "n"]])
    outcomes = _finished(frame[_CELL].assign(n_images=np.nan, **dict.fromkeys(OUTCOMES, np.nan)))
    notes.append(("images decided female or male", int(n.sum()), "they make the shares"))
    outcomes, notes = _paired(outcomes, percent_female, notes)
    images = pd.DataFrame(columns=[*_ITEM, "label"], dtype=object)
    return AnnotatedImages("shares", images, None, (), 0, percent_female, outcomes, notes)


def _paired(
    outcomes: pd.DataFrame, percent_female: pd.DataFrame, notes: list[Note]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return outcomes with shares and why a row has no counterpart, and the notes as a table."""
    outcomes = outcomes.merge(percent_female.drop(columns="approach"), on=_CELL, validate="one_to_one")
    by = [outcomes[name] for name in ("model", "occupation", "source")]
    decided = outcomes["n"].groupby(by, observed=True).sum().unstack().reindex(columns=list(SOURCES))
    pair = decided.reindex(pd.MultiIndex.from_frame(outcomes[["model", "occupation"]]))
    reason = pd.Series("", index=outcomes.index, dtype=object)
    for source, n in pair.items():
        reason[n.isna().to_numpy()] = f"no {source} images of this occupation"
        reason[(n == 0).to_numpy()] = f"no {source} image was decided female or male"
    outcomes = outcomes[[*_CELL, "n_images", *OUTCOMES, "n", "percent_female"]].assign(reason=reason)
    alone = sorted(set(outcomes.loc[reason.str.endswith("of this occupation"), "occupation"]))
    notes = [
        *notes,
        ("occupations", outcomes["occupation"].nunique(), ""),
        ("occupations with one source only", len(alone), "; ".join(alone)),
    ]
    return outcomes, pd.DataFrame(notes, columns=["item", "n", "detail"])


def _finished(cells: pd.DataFrame) -> pd.DataFrame:
    """Return one row per model: training rows without a model are repeated for every model."""
    cells = cells.astype({"model": object, "occupation": object, "source": object})
    models = sorted(set(cells["model"]) - {""}) or [UNNAMED]
    shared = cells["model"] == ""
    repeated = [cells[shared].assign(model=model) for model in models]
    cells = pd.concat([cells[~shared], *repeated], ignore_index=True)
    if "percent_female" in cells:
        cells["approach"] = "naive"
        cells = cells[["model", "approach", "occupation", "source", "prompt", "percent_female", "n"]]
    return cells.sort_values(_CELL, ignore_index=True)


# -- cells to values -------------------------------------------------------------------------------------


def _kind(columns: list[str], path: Path) -> str:
    def like(name: str) -> list[str]:
        return difflib.get_close_matches(name, columns, n=1, cutoff=0.7)

    if "annotator" in columns or ("label" in columns and like("annotator")):
        return "shares" if "percent_female" in columns else "long"
    if "percent_female" in columns or ("image" not in columns and (like("percent_female") or "n" in columns)):
        return "shares"
    if like("image") or {"occupation", "source"} <= set(columns):
        return "wide"
    raise InputError(f"{path} fits no format. {cells.describe_columns(columns)} {' '.join(_NEEDS.values())}")


def _models(frame: pd.DataFrame, path: Path) -> pd.Categorical:
    """Return the models: all empty where the file names none, checked where it does."""
    if "model" not in frame or (frame["model"] == "").all():
        return pd.Categorical([""] * len(frame))
    model = frame["model"].astype(object)
    generated = frame["source"] == "generated"
    fix = "name the model; only training images may have none"
    cells.refuse(generated & (model == ""), path, "model is empty for generated images", fix)
    known = set(model[generated])
    strange = ~generated & (model != "") & ~model.isin(known)
    fix = f"give one of {', '.join(sorted(known))}, or leave it empty for training images of all models"
    problem = "training images have the model {}, which has no generated images"
    cells.refuse(strange & bool(known), path, problem, fix, model)
    return pd.Categorical(model)


def _label_codes(columns: pd.DataFrame, path: Path) -> tuple[np.ndarray, list[Note]]:
    """Return positions in LABELS (-1 not rated), shape (rows, columns), and notes on other spellings."""
    position = {"": -1, **{label: k for k, label in enumerate(LABELS)}}
    out = np.empty(columns.shape, dtype=np.int8)
    read_as: Counter[tuple[str, str]] = Counter()
    for k, (name, column) in enumerate(columns.items()):
        codes, values = pd.factorize(column)
        spelt = [" ".join(value.split()).lower() for value in values]
        labels = [SYNONYMS.get(text, text) for text in spelt]
        for j, (text, label) in enumerate(zip(spelt, labels, strict=True)):
            if label not in position:
                row = cells.describe_rows(pd.Series(codes == j, index=columns.index))
                fix = "" if name == "label" else f" If {name!r} is not an annotator, remove or rename it."
                raise InputError(
                    f"{path}: column {name!r} holds {cells.shorten(values[j])} in data row {row}, which is not a "
                    f"label. {name_help(values[j][:40], LABELS).rstrip('.')}, or empty for not annotated.{fix}"
                )
            if label != text:
                read_as[text, label] += int((codes == j).sum())
        out[:, k] = np.array([position[label] for label in labels], np.int8)[codes]
    notes = [(f"read {a!r} as {b or 'not rated'}", n, "another spelling") for (a, b), n in read_as.items()]
    return out, notes
