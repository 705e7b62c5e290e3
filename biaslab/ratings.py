"""Read a user's own measurements: ratings of images, or shares that were already counted.

Three formats, told apart by their columns; CSV (UTF-8, commas) or Parquet:

- ratings, wide: ``image, source, occupation`` and one column per rater;
- ratings, long: ``image, source, occupation, rater, label``, one row per image and rater;
- shares: ``occupation, source, percent_female, n``, and ``prompt`` where there are several.

``source`` is ``training`` or ``generated``. Each may have a column ``model``; training images whose model
is empty are compared with every model's images. A rating is ``female``, ``male``, ``unsure`` or empty (not
rated); common other spellings (:data:`SYNONYMS`) are read as these and counted in :attr:`Rated.notes`.
"""

from __future__ import annotations

import csv
import difflib
import io
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from biaslab import tables
from biaslab.errors import InputError, name_help, unknown_name
from biaslab.measures.agreement import LABELS, majority_vote

SOURCES = ("training", "generated")
OUTCOMES = ("female", "male", "tie", "unsure", "unrated")
SYNONYMS = {
    **dict.fromkeys(("f", "w", "woman", "women", "girl"), "female"),
    **dict.fromkeys(("m", "man", "men", "boy"), "male"),
    **dict.fromkeys(("u", "?", "not sure", "unclear", "uncertain", "undecided", "unknown"), "unsure"),
    **dict.fromkeys(("na", "n/a", "nan", "null"), ""),
}
UNNAMED = "unnamed"
"""The model's name where the file gives none."""

_FORMATS = {
    "wide": ("image", "source", "occupation"),
    "long": ("image", "source", "occupation", "rater", "label"),
    "shares": ("occupation", "source", "percent_female", "n"),
}
_NEEDS = {
    "wide": "Ratings in wide form need: image, source, occupation and one column per rater.",
    "long": "Ratings in long form need: image, source, occupation, rater, label.",
    "shares": "Shares need: occupation, source, percent_female, n.",
}
_OPTIONAL = ("model", "prompt")
# Prompts of training shares that serve all prompts.
_SHARED = ("ratings", "captions")
_ITEM = ["image", "source", "occupation", "model"]
_CELL = ["model", "occupation", "source", "prompt"]
# More raters than this are a crowd, each with few of the images: a column for each would be mostly empty.
MOST_COLUMNS = 30
_NARROWER = "With more raters, give one row per image and rater, with the columns rater and label."
MOST_CELLS = 300_000_000
_MOST_BYTES = 1_000_000_000
_MOST_IMAGES = 1_000_000_000
_ENDINGS = (".csv", ".parquet", ".pq")

Note = tuple[str, float, str]


@dataclass(frozen=True)
class Rated:
    """What a file of ratings or shares holds: one label per image, and shares per occupation and source."""

    kind: str
    """``wide``, ``long`` or ``shares``."""
    images: pd.DataFrame
    """One row per image: image, source, occupation, model (empty: shared by all models), label (one of
    :data:`OUTCOMES`). No rows for shares."""
    ratings: pd.DataFrame | None
    """One row per image, in the order of ``images``, one column per rater: a label, missing where not rated.
    With more than 30 raters the columns are an image's first, second, … rating. ``None`` for shares."""
    raters: tuple[str, ...]
    """The columns of ``ratings`` if each is one rater; empty for shares and for more than 30 raters."""
    n_raters: int
    """Raters with at least one rating; 0 for shares."""
    percent_female: pd.DataFrame
    """The columns of table ``paradox_percent_female``; NaN with n 0 where no image was decided."""
    outcomes: pd.DataFrame
    """One row per row of ``percent_female``: model, occupation, source, prompt, n_images, how many images
    ended as each of :data:`OUTCOMES` (both NaN for shares), n, percent_female, and the reason why the row
    cannot count for amplification, if so."""
    notes: pd.DataFrame
    """What was read, how it was understood and what was left aside: item, n, detail."""
    part: bool = False
    """Whether other models' images or shares in the file are left out."""

    def of(self, model: str) -> Rated:
        """Return what belongs to a model, images shared by all models among it; all of it for ``all``.

        Raises:
            UnknownNameError: The file has no such model.
        """
        if model == "all":
            return self
        models = sorted(set(self.percent_female["model"]))
        if model not in models:
            raise unknown_name("model in ratings", model, models)
        wanted = self.images["model"].isin(["", model]).to_numpy()
        return replace(
            self,
            images=self.images[wanted].reset_index(drop=True),
            ratings=None if self.ratings is None else self.ratings[wanted].reset_index(drop=True),
            percent_female=self.percent_female[self.percent_female["model"] == model].reset_index(drop=True),
            outcomes=self.outcomes[self.outcomes["model"] == model].reset_index(drop=True),
            part=len(models) > 1,
        )


def read(path: str | Path) -> Rated:
    """Read ratings or shares from ``path`` and resolve them.

    An image's label is the most frequent of its ratings; ``unsure`` is a rating like the others, a draw stays
    a ``tie``. A share is female / (female + male) over images with these labels, its n.

    Raises:
        InputError: The file is missing, unreadable or empty, its columns are of no format, a value is not
            allowed, a row is there twice, or no image is rated. The message names the value and the fix.
    """
    path = located(path)
    frame, ignored = _named(load_table(path), path)
    kind = _kind(list(frame.columns), path)
    for name in _FORMATS[kind]:
        if name not in frame.columns:
            others = [c for c in frame.columns if c not in (*_FORMATS[kind], *_OPTIONAL)]
            close = difflib.get_close_matches(name, others, n=1, cutoff=0.6)
            meant = f"Rename {close[0]!r} to {name!r}. " if close else ""
            raise InputError(
                f"{path} has no column {name!r}. {meant}{_NEEDS[kind]} {columns_told(frame.columns)}"
            )
    form = _NEEDS[kind].partition(" need")[0].lower()
    notes: list[Note] = [("rows read", len(frame), f"{form} from {shortened(path.name)}"), *ignored]
    if kind != "shares" and "prompt" in frame.columns:
        notes.append(("columns not used: prompt", 1, "an occupation's images of all prompts count together"))
        frame = frame.drop(columns="prompt")
    for name in ("occupation", *_OPTIONAL):
        if name in frame.columns:
            frame[name] = _names(frame[name], path, empty=name != "occupation")
    frame["source"] = _sources(frame["source"], path)
    if "model" not in frame.columns:
        frame["model"] = ""
    frame["model"] = _models(frame, path)
    if kind == "shares":
        return _shares(frame, path, notes)
    frame["image"] = frame["image"].str.strip()
    refuse(frame["image"] == "", path, "image is empty", "name each image")
    refuse(frame["image"].str.contains("\n"), path, "image spans several lines", "look for a quote left open")
    return (_wide if kind == "wide" else _long)(frame, path, notes)


def shares(images: pd.DataFrame, female: np.ndarray, male: np.ndarray) -> pd.DataFrame:
    """Return the share of female among decided images for each model, occupation and source.

    Args:
        images: Rows as in :attr:`Rated.images`.
        female: How much each image counts as female, shape (images,): 0 or 1, or between for a split vote.
        male: The same for male.

    Returns:
        The columns of table ``paradox_percent_female``. ``n`` is the sum of both (not always whole for split
        votes); the share is NaN where it is 0. Training images without a model count for every model.
    """
    weighed = images[["model", "occupation", "source"]].assign(female=female, n=np.add(female, male))
    summed = weighed.groupby(["model", "occupation", "source"], as_index=False, observed=True).sum()
    percent = 100 * summed["female"] / summed["n"].where(summed["n"] > 0)
    return _finished(summed.assign(percent_female=percent, prompt="ratings"))


def located(path: str | Path) -> Path:
    """Return the path of a file of ratings, with ``~`` as the home folder.

    Raises:
        InputError: It is neither CSV nor Parquet, or does not exist.
    """
    path = Path(path)
    if path.parts[:1] == ("~",):
        path = Path.home().joinpath(*path.parts[1:])
    if path.suffix.lower() not in _ENDINGS:
        raise InputError(f"{path} is neither CSV nor Parquet; give a file that ends in .csv or .parquet.")
    if not os.path.isfile(path):
        raise InputError(f"{path} does not exist; set ratings to a CSV or Parquet file.")
    return path


# -- the three formats -----------------------------------------------------------------------------------


def _wide(frame: pd.DataFrame, path: Path, notes: list[Note]) -> Rated:
    columns = [c for c in frame.columns if c not in _ITEM]
    if not columns:
        raise InputError(f"{path} has no column of ratings. {_NEEDS['wide']}")
    again = frame.duplicated(_ITEM)
    if again.any():
        raise InputError(
            f"{path} has {_image(frame, again)} twice (again in data row {row_told(again)}); give it once. "
            "With one row per image and rater, name the columns rater and label."
        )
    codes, read_as = label_codes({c: frame[c] for c in columns}, path)
    items = frame[_ITEM].reset_index(drop=True)
    n_raters = int((codes >= 0).any(axis=0).sum())
    return _resolved("wide", items, codes, columns, n_raters, path, notes + read_as)


def _long(frame: pd.DataFrame, path: Path, notes: list[Note]) -> Rated:
    notes = notes + _unused(frame, path, _FORMATS["long"])
    label, read_as = label_codes({"label": frame["label"]}, path)
    label = label[:, 0]
    given = label >= 0
    rater, raters = pd.factorize(_names(frame["rater"], path, empty=True))
    # An image that nobody rated has no rater either.
    refuse((frame["rater"].str.strip() == "") & given, path, "rater is empty", "name who gave the rating")
    item = frame.groupby(_ITEM, sort=False, observed=True).ngroup().to_numpy()
    again = pd.Series(item * len(raters) + rater).duplicated()
    if again.any():
        raise InputError(
            f"{path} has two ratings of {_image(frame, again)} by rater "
            f"{shortened(raters[rater[again.argmax()]])} (the second in data row {row_told(again)}); keep one."
        )
    items = frame.loc[~pd.Series(item).duplicated().to_numpy(), _ITEM].reset_index(drop=True)
    item, rater, label = item[given], rater[given], label[given]
    used, rater = np.unique(rater, return_inverse=True)
    names = [str(name) for name in raters[used]]
    column, width = rater, len(names)
    if width > MOST_COLUMNS:
        # Which rater it was does not matter to votes and to agreement over all raters.
        column = pd.Series(item).groupby(item).cumcount().to_numpy()
        width = int(column.max(initial=0)) + 1
    if len(items) * width > MOST_CELLS:
        raise InputError(f"{path} has {len(items)} images with up to {width} ratings, too many to hold.")
    codes = np.full((len(items), width), -1, dtype=np.int8)
    codes[item, column] = label
    return _resolved("long", items, codes, names, len(names), path, notes + read_as)


def _resolved(
    kind: str,
    items: pd.DataFrame,
    codes: np.ndarray,
    names: list[str],
    n_raters: int,
    path: Path,
    notes: list,
) -> Rated:
    """Return ratings, given as positions in LABELS (images, columns; -1 missing), with votes and shares."""
    given = (codes >= 0).sum(axis=0)
    if not given.any():
        raise InputError(f"{path} holds no rating: every one is empty. Allowed are {', '.join(LABELS)}.")
    named = len(names) <= MOST_COLUMNS
    columns = names if named else [str(k + 1) for k in range(codes.shape[1])]
    empty = [c for c, n in zip(columns, given, strict=True) if not n]
    codes, columns = codes[:, given > 0], [c for c, n in zip(columns, given, strict=True) if n]
    ratings = pd.DataFrame({c: pd.Categorical.from_codes(codes[:, k], LABELS) for k, c in enumerate(columns)})
    vote = majority_vote(np.array([*LABELS, None], dtype=object)[codes])
    images = items.assign(label=pd.Categorical(vote.labels, OUTCOMES))

    percent_female = shares(images, images["label"] == "female", images["label"] == "male")
    each = images[["model", "occupation", "source"]].assign(
        **{name: images["label"] == name for name in OUTCOMES}, n_images=1
    )
    counts = each.groupby(["model", "occupation", "source"], as_index=False, observed=True).sum()
    outcomes = _finished(counts)

    n = images["label"].value_counts()
    by_label = ", ".join(f"{(codes == k).sum()} {label}" for k, label in enumerate(LABELS))
    gaps = (codes < 0).any(axis=1) & (codes >= 0).any(axis=1)
    notes = [
        *notes,
        ("raters", n_raters, ", ".join(columns) if named else "too many to name"),
        *([("raters without a rating", len(empty), ", ".join(empty))] if empty and named else []),
        ("ratings", int(given.sum()), by_label),
        ("images", len(images), ""),
        *_repeated(images),
        *([("images with a rating missing", int(gaps.sum()), "")] if named else []),
        ("images decided female or male", int(n["female"] + n["male"]), "they make the shares"),
        ("images left out: unsure", int(n["unsure"]), "unsure has more ratings than any other"),
        ("images left out: tie", int(n["tie"]), "no rating has more than the others"),
        ("images left out: unrated", int(n["unrated"]), ""),
    ]
    raters = tuple(columns) if named else ()
    return _rated(kind, images, ratings, raters, n_raters, percent_female, outcomes, notes)


def _repeated(images: pd.DataFrame) -> list[Note]:
    """Note names of images that stand under both sources or under several occupations."""
    places = images[["image", "source", "occupation"]].drop_duplicates()
    names = places.loc[places["image"].duplicated(), "image"].drop_duplicates()
    if names.empty:
        return []
    listed = ", ".join(shortened(name) for name in names[:5]) + (", …" if len(names) > 5 else "")
    detail = f"counted as another image in each; if it is one image, correct the file: {listed}"
    return [("images under several sources or occupations", len(names), detail)]


def _shares(frame: pd.DataFrame, path: Path, notes: list[Note]) -> Rated:
    notes = notes + _unused(frame, path, _FORMATS["shares"])
    percent = _numbers(frame["percent_female"], path)
    n = _numbers(frame["n"], path)
    outside = (percent < 0) | (percent > 100)
    if outside.any():
        raise InputError(
            f"{path}: percent_female is {percent[outside].iloc[0]:g} in data row {row_told(outside)}; "
            "allowed is 0 to 100."
        )
    if percent.max() <= 1 and percent.max() > 0:
        raise InputError(
            f"{path}: no percent_female is above 1, so the shares seem to be given as 0 to 1; "
            "percent_female is 0 to 100: multiply by 100."
        )
    bad = (n < 1) | (n != n.round())
    if bad.any():
        raise InputError(
            f"{path}: n is {n[bad].iloc[0]:g} in data row {row_told(bad)}; it is the number of images behind the "
            "share, a whole number of 1 or more. Leave out rows without images."
        )
    large = n > _MOST_IMAGES
    if large.any():
        raise InputError(
            f"{path}: n is {n[large].iloc[0]:g} in data row {row_told(large)}; it is the number of images behind the "
            f"share, at most {_MOST_IMAGES:,}."
        )
    prompt = frame["prompt"].astype(object) if "prompt" in frame.columns else pd.Series("", index=frame.index)
    frame = frame.assign(percent_female=percent, n=n, prompt=prompt.where(prompt != "", "ratings"))
    again = frame.duplicated(_CELL)
    if again.any():
        row = frame[again].iloc[0]
        raise InputError(
            f"{path} has two shares for {shortened(row['occupation'])} ({row['source']}), the second in data "
            f"row {row_told(again)}; give one, or tell them apart by the columns model or prompt."
        )
    _check_prompts(frame, path)
    outcomes = _finished(frame[_CELL].assign(n_images=np.nan, **dict.fromkeys(OUTCOMES, np.nan)))
    percent_female = _finished(frame[[*_CELL, "percent_female", "n"]])
    images = pd.DataFrame(columns=[*_ITEM, "label"], dtype=object)
    notes.append(("images decided female or male", int(n.sum()), "they make the shares"))
    return _rated("shares", images, None, (), 0, percent_female, outcomes, notes)


def _check_prompts(frame: pd.DataFrame, path: Path) -> None:
    """Raise InputError where generated and training shares cannot be told which belong together."""
    generated, training = (set(frame.loc[frame["source"] == s, "prompt"]) for s in ("generated", "training"))
    lone = sorted(training - generated - set(_SHARED)) if generated else []
    if training and not training & set(_SHARED):
        lone += sorted(generated - training)
    if lone:
        raise InputError(
            f"{path}: prompt {shortened(lone[0])} has shares of one source only. Leave prompt empty for "
            "training shares that serve all prompts."
        )


def _rated(kind, images, ratings, raters, n_raters, percent_female, outcomes, notes) -> Rated:
    """Join shares with outcomes, say which rows have no counterpart, and number the occupations."""
    cell = [c for c in _CELL if c in outcomes.columns]
    outcomes = outcomes.merge(percent_female.drop(columns="approach"), on=cell, validate="one_to_one")
    decided = outcomes.pivot_table(
        index=["model", "occupation"], columns="source", values="n", aggfunc="sum", observed=True
    ).reindex(columns=list(SOURCES))
    pair = decided.reindex(pd.MultiIndex.from_frame(outcomes[["model", "occupation"]]))
    reason = pd.Series("", index=outcomes.index, dtype=object)
    for source in SOURCES:
        reason[(pair[source].isna()).to_numpy()] = f"no {source} images of this occupation"
        reason[(pair[source] == 0).to_numpy()] = f"no {source} image was decided female or male"
    columns = [*_CELL, "n_images", *OUTCOMES, "n", "percent_female"]
    outcomes = outcomes[columns].assign(reason=reason)
    alone = sorted(set(outcomes.loc[reason.str.endswith("of this occupation"), "occupation"]))
    notes = [
        *notes,
        ("occupations", outcomes["occupation"].nunique(), ""),
        ("occupations with one source only", len(alone), "; ".join(alone)),
    ]
    notes = pd.DataFrame(notes, columns=["item", "n", "detail"])
    return Rated(kind, images, ratings, raters, n_raters, percent_female, outcomes, notes)


def _finished(cells: pd.DataFrame) -> pd.DataFrame:
    """Return one row per model: training rows without a model are repeated for every model."""
    cells = cells.astype({"model": object, "occupation": object, "source": object})
    models = sorted(set(cells["model"]) - {""}) or [UNNAMED]
    shared = cells["model"] == ""
    repeated = [cells[shared].assign(model=model) for model in models]
    cells = pd.concat([cells[~shared], *repeated], ignore_index=True)
    if "prompt" not in cells.columns:
        cells["prompt"] = "ratings"
    if "percent_female" in cells.columns:
        cells["approach"] = "naive"
        cells = cells[["model", "approach", "occupation", "source", "prompt", "percent_female", "n"]]
    return cells.sort_values([*_CELL], ignore_index=True)


# -- cells to values -------------------------------------------------------------------------------------


def _named(frame: pd.DataFrame, path: Path) -> tuple[pd.DataFrame, list[Note]]:
    """Return the table with known columns in their usual spelling; a nameless index column is left aside."""
    known = {name for names in _FORMATS.values() for name in names} | set(_OPTIONAL)
    names = []
    for given in frame.columns:
        name = " ".join(str(given).split())
        if not name.isprintable():
            raise InputError(
                f"{path} has a column {given!r}; its name holds characters that cannot be printed."
            )
        usual = name.lower().replace(" ", "_").replace("-", "_")
        names.append(usual if usual in known else name)
    twice = [name for name in names if names.count(name) > 1]
    if twice and twice[0]:
        raise InputError(f"{path} has two columns named {twice[0]!r}; give each its own name.")
    frame.columns = names
    nameless = names.count("")
    notes = [("columns not used", nameless, "without a name")] if nameless else []
    return frame.loc[:, [name != "" for name in names]], notes


def _kind(columns: list[str], path: Path) -> str:
    def like(name: str) -> list[str]:
        return difflib.get_close_matches(name, columns, n=1, cutoff=0.7)

    if "percent_female" in columns:
        return "shares"
    if "rater" in columns or ("label" in columns and like("rater")):
        return "long"
    if "image" in columns:
        return "wide"
    if like("percent_female") or {"occupation", "source", "n"} <= set(columns):
        return "shares"
    if like("image") or {"occupation", "source"} <= set(columns):
        return "wide"
    raise InputError(f"{path} fits no format. {columns_told(columns)} {' '.join(_NEEDS.values())}")


def columns_told(columns: Iterable[str]) -> str:
    """Say which columns a file has."""
    columns = list(columns)
    return f"It has: {', '.join(columns[:20])}{', …' if len(columns) > 20 else ''}."


def _unused(frame: pd.DataFrame, path: Path, used: Iterable[str]) -> list[Note]:
    """Note the columns that are of no use; one that is spelt like an optional column is an error."""
    unused = [c for c in frame.columns if c not in {*used, *_OPTIONAL}]
    for name in unused:
        meant = difflib.get_close_matches(name.lower(), _OPTIONAL, n=1, cutoff=0.75)
        if meant:
            raise InputError(f"{path} has a column {name!r}. Did you mean {meant[0]!r}? Rename or remove it.")
    return [("columns not used", len(unused), ", ".join(unused))] if unused else []


def _names(column: pd.Series, path: Path, *, empty: bool = False) -> pd.Categorical:
    """Return names with single spaces; refuse empty and unprintable ones, and one name in two spellings."""
    codes, found = pd.factorize(column)
    clean = [" ".join(str(value).split()) for value in found]
    spelt: dict[str, str] = {}
    for k, name in enumerate(clean):
        if not name and not empty:
            refuse(codes == k, path, f"{column.name} is empty", "fill it in or leave the row out")
        if "\n" in str(found[k]).strip():
            refuse(codes == k, path, f"{column.name} spans several lines", "look for a quote left open")
        if not name.isprintable():
            refuse(
                codes == k,
                path,
                f"{column.name} is {shortened(found[k])}",
                "remove characters that cannot be printed",
            )
        other = spelt.setdefault(name.casefold(), name)
        if other != name:
            raise InputError(
                f"{path}: {column.name} is spelt {shortened(other)} and {shortened(name)}; spell it one way."
            )
    categories, index = np.unique(np.array(clean, dtype=object), return_inverse=True)
    return pd.Categorical.from_codes(index[codes], categories)


def _sources(column: pd.Series, path: Path) -> pd.Categorical:
    codes, found = pd.factorize(column)
    clean = [str(value).strip().lower() for value in found]
    for k, name in enumerate(clean):
        if name not in SOURCES:
            row = row_told(codes == k)
            raise InputError(
                f"{path}: source is {shortened(found[k])} in data row {row}. {name_help(name[:40], SOURCES)}"
            )
    return pd.Categorical.from_codes(np.array([SOURCES.index(name) for name in clean])[codes], SOURCES)


def _models(frame: pd.DataFrame, path: Path) -> pd.Categorical:
    """Return the models: all empty where the file names none, checked where it does."""
    model = pd.Series(frame["model"]).astype(object)
    if (model == "").all():
        return pd.Categorical(model)
    generated = frame["source"] == "generated"
    nameless = generated & (model == "")
    refuse(
        nameless,
        path,
        "model is empty for generated images",
        "name the model; only training images may have none",
    )
    known = set(model[generated])
    strange = ~generated & (model != "") & ~model.isin(known)
    if known and strange.any():
        name = model[strange].iloc[0]
        raise InputError(
            f"{path}: training images have the model {shortened(name)}, which has no generated images. "
            f"{name_help(name, known)} Leave model empty for training images that all models share."
        )
    return pd.Categorical(model)


def label_codes(columns: dict[str, pd.Series], path: Path) -> tuple[np.ndarray, list[Note]]:
    """Return positions in LABELS (-1 not rated), shape (rows, columns), and notes on other spellings."""
    position = {"": -1, **{label: k for k, label in enumerate(LABELS)}}
    out = np.empty((len(next(iter(columns.values()))), len(columns)), dtype=np.int8)
    read_as: dict[tuple[str, str], int] = {}
    for k, (name, column) in enumerate(columns.items()):
        codes, found = pd.factorize(column)
        count = np.bincount(codes, minlength=len(found))
        label_of = np.empty(len(found), dtype=np.int8)
        for j, value in enumerate(found):
            spelt = " ".join(value.split()).lower()
            label = SYNONYMS.get(spelt, spelt)
            if label not in position:
                raise InputError(_not_a_label(name, value, row_told(codes == j), path))
            label_of[j] = position[label]
            if label != spelt:
                read_as[spelt, label] = read_as.get((spelt, label), 0) + int(count[j])
        out[:, k] = label_of[codes]
    return out, [
        (f"read {a!r} as {b or 'not rated'}", n, "another spelling") for (a, b), n in read_as.items()
    ]


def _not_a_label(name: str, value: str, row: int, path: Path) -> str:
    meant = difflib.get_close_matches(name.lower(), (*_FORMATS["long"], *_OPTIONAL), n=1, cutoff=0.75)
    if name in _FORMATS["long"]:
        fix = ""
    elif meant:
        fix = f" Or is column {name!r} {meant[0]!r} misspelt?"
    else:
        fix = f" If {name!r} is not a rater, remove it."
    return (
        f"{path}: column {name!r} holds {shortened(value)} in data row {row}, which is not a rating. "
        f"{name_help(value[:40], LABELS).rstrip('.')}, or empty for not rated.{fix}"
    )


def _numbers(column: pd.Series, path: Path) -> pd.Series:
    text = column.str.strip()
    refuse(text == "", path, f"{column.name} is empty", "fill it in or leave the row out")
    values = pd.to_numeric(text, errors="coerce").astype(float)
    bad = ~np.isfinite(values)
    if bad.any():
        refuse(bad, path, f"{column.name} is {shortened(text[bad].iloc[0])}", "give a number such as 37.5")
    return values


def refuse(rows, path: Path, problem: str, fix: str) -> None:
    """Raise InputError if any of ``rows`` is true."""
    rows = np.asarray(rows, dtype=bool)
    if rows.any():
        raise InputError(f"{path}: {problem} in data row {row_told(rows)}; {fix}.")


def row_told(rows) -> int:
    """Return the number of the first true row; the first row below the header is 1."""
    return int(np.argmax(np.asarray(rows))) + 1


def _image(frame: pd.DataFrame, rows) -> str:
    row = frame[np.asarray(rows)].iloc[0]
    return f"image {shortened(row['image'])} ({row['source']}, {row['occupation']})"


def shortened(value: object, most: int = 60) -> str:
    """Return ``value`` quoted, with unprintable characters escaped, cut where it is long."""
    text = repr(str(value))
    return text if len(text) <= most else f"{text[: most - 1]}…"


# -- a file to a table of text ---------------------------------------------------------------------------


def load_table(path: Path) -> pd.DataFrame:
    """Return the file's cells as text, missing ones as ""."""
    size = path.stat().st_size
    if size == 0:
        raise InputError(f"{path} is empty; it needs a header and rows.")
    if size > _MOST_BYTES:
        raise InputError(f"{path} has {size:,} bytes; at most {_MOST_BYTES:,} are read.")
    table = (_load_csv if path.suffix.lower() == ".csv" else _load_parquet)(path)
    if not table.num_rows:
        raise InputError(f"{path} has a header but no rows.")
    return table.to_pandas()


def _load_csv(path: Path):
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    data = path.read_bytes()
    if b"\0" in data:
        raise InputError(f"{path} holds null bytes (UTF-16, or not text at all); save it as UTF-8 CSV.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8.") from None
    head = text[:1_000_000].strip()
    if not head:
        raise InputError(f"{path} is empty; it needs a header and rows.")
    if text.count('"') % 2:
        raise InputError(f'{path} opens a quote (") that it never closes; quotes must come in pairs.')
    try:
        names = tables.header(text)
    except csv.Error as error:
        raise InputError(f"{path} cannot be read as CSV: {error}.") from None
    tables.check_width(len(names), path, _NARROWER)
    separator = next((s for s in ";\t|" if len(names) == 1 and s in names[0]), "")
    if separator:
        raise InputError(f"{path} separates its columns by {separator!r}; save it with commas.")
    if len(head.splitlines()) == 1 and len(text) < 1_000_000:
        raise InputError(f"{path} has a header but no rows.")
    del text
    try:
        # Strict about the number of cells in each row, and quick: a million rows take about a second.
        return pa_csv.read_csv(
            io.BytesIO(data),
            read_options=pa_csv.ReadOptions(use_threads=False),
            parse_options=pa_csv.ParseOptions(newlines_in_values=True),
            convert_options=pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
        )
    except pa.ArrowInvalid as error:
        problem = shortened(str(error).removeprefix("CSV parse error: "), 200)
        raise InputError(f"{path} cannot be read as CSV: {problem}.") from None


def _load_parquet(path: Path):
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        shape = pq.read_metadata(path)
        tables.check_width(shape.num_columns, path, _NARROWER)
        if shape.num_rows * shape.num_columns > MOST_CELLS:
            raise InputError(f"{path} has {shape.num_rows:,} rows, too many to hold.")
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path} cannot be read as Parquet: {shortened(error, 200)}.") from None
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            text = pc.fill_null(column.cast(pa.string()), "")
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise InputError(
                f"{path}: column {shortened(name)} holds {column.type}; only text and numbers are read."
            ) from None
        if pc.any(pc.match_substring(text, "\0")).as_py():
            raise InputError(f"{path}: column {shortened(name)} holds null bytes; remove them.")
        columns.append(text)
    return pa.table(columns, names=table.column_names)
