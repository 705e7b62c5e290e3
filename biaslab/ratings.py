"""Read a user's own measurements: ratings of images, or shares that were already counted.

Three formats, told apart by their columns; CSV (UTF-8, commas) or Parquet, or a folder of such files with the same
columns, such as those that several raters send back (``biaslab rate``):

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
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from biaslab import plaintext, reading, tables
from biaslab.errors import InputError, name_help, unknown_name
from biaslab.measures.agreement import LABELS, majority_vote

SOURCES = ("training", "generated")
OUTCOMES = ("female", "male", "tie", "unsure", "unrated")
SYNONYMS = {
    **dict.fromkeys(("f", "w", "woman", "women", "girl", "feminine"), "female"),
    **dict.fromkeys(("m", "man", "men", "boy", "masculine"), "male"),
    **dict.fromkeys(("u", "?", "not sure", "unclear", "uncertain", "undecided", "unknown"), "unsure"),
    "cannot identify": "unsure",
    **dict.fromkeys(("na", "n/a", "nan", "null"), ""),
}
UNNAMED = "unnamed"
"""The model's name where the file gives none."""

_LONG = ("image", "source", "occupation", "rater", "label")
_FORMATS = {"wide": _LONG[:3], "long": _LONG, "shares": ("occupation", "source", "percent_female", "n")}
_NEEDS = {
    "wide": "Ratings in wide form need: image, source, occupation and one column per rater.",
    "long": f"Ratings in long form need: {', '.join(_LONG)}.",
    "shares": f"Shares need: {', '.join(_FORMATS['shares'])}.",
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
_ENDINGS = (".csv", ".parquet", ".pq")
_MOST_BYTES = 1_000_000_000
_MOST_IMAGES = 1_000_000_000
# What a spreadsheet would run as a formula is written with an apostrophe before it.
_ESCAPED = r"^'(?=[=+\-@\t\r'])"

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
    """The same rows, one column per rater: a label, missing where not rated. With more than 30 raters the columns are
    an image's first, second, … rating. ``None`` for shares."""
    raters: tuple[str, ...]
    """The columns of ``ratings`` if each is one rater, else empty."""
    n_raters: int
    """Raters with at least one rating; 0 for shares."""
    percent_female: pd.DataFrame
    """The columns of table ``paradox_percent_female``; NaN with n 0 where no image was decided."""
    outcomes: pd.DataFrame
    """The same rows: model, occupation, source, prompt, n_images, how many images ended as each of :data:`OUTCOMES`
    (both NaN for shares), n, percent_female, and the reason why the row cannot count for amplification, if so."""
    notes: pd.DataFrame
    """What was read, how it was understood and what was left aside: item, n, detail."""
    part: bool = False
    """Whether other models' images or shares in the file are left out."""

    def of(self, model: str) -> Rated:
        """Return what belongs to a model, images shared by all models among it; all of it for ``all``.

        Raises UnknownNameError where the file has no such model.
        """
        if model == "all":
            return self
        models = sorted(set(self.percent_female["model"]))
        if model not in models:
            raise unknown_name("model in ratings", model, models)

        def own(table: pd.DataFrame, by: pd.DataFrame) -> pd.DataFrame:
            return table[by["model"].isin(["", model])].reset_index(drop=True)

        return replace(
            self,
            images=own(self.images, self.images),
            ratings=None if self.ratings is None else own(self.ratings, self.images),
            percent_female=own(self.percent_female, self.percent_female),
            outcomes=own(self.outcomes, self.outcomes),
            part=len(models) > 1,
        )

    def votes(self) -> pd.Series:
        """Return each image's label by its id in plain form (:mod:`biaslab.plaintext`).

        Raises InputError where one stands in several rows (models, sources, …).
        """
        ids = image_ids(self.images["image"]).map(plaintext.plain)
        if ids.duplicated().any():
            raise InputError(
                f"Image {ids[ids.duplicated()].iloc[0]!r} stands in several rows of the ratings (other models, sources "
                "or occupations); keep the rows of the images that are judged here."
            )
        return pd.Series(self.images["label"].astype(str).to_numpy(object), index=ids.to_numpy(object))


class Votes(NamedTuple):
    """Ratings of items of any kind, and how the vote on each ended."""

    items: pd.DataFrame  # the columns that name an item, one row each
    label: np.ndarray  # each item's vote, one of OUTCOMES
    ratings: pd.DataFrame  # as Rated's
    raters: tuple[str, ...]  # likewise
    n_raters: int  # raters with at least one rating
    notes: list[Note]  # how ratings were understood


def read(path: str | Path) -> Rated:
    """Read ratings or shares from ``path`` and resolve them.

    An image's label is the most frequent of its ratings; ``unsure`` is a rating like the others, a draw stays
    a ``tie``. A share is female / (female + male) over images with these labels, its n.

    Raises:
        InputError: The file is missing, unreadable or empty, its columns are of no format, a value is not
            allowed, a row is there twice, or no image is rated. The message names the value and the fix.
    """
    path = located(path)
    frame = load_table(path, {*_LONG, *_FORMATS["shares"], *_OPTIONAL})
    kind = _kind(list(frame.columns), path)
    needed = _FORMATS[kind]
    require(frame, needed, path, _NEEDS[kind], {*needed, *_OPTIONAL})
    form = "shares" if kind == "shares" else f"ratings in {kind} form"
    notes: list[Note] = [("rows read", len(frame), f"{form} from {shortened(path.name)}")]
    if kind != "shares" and "prompt" in frame:
        notes.append(("columns not used: prompt", 1, "an occupation's images of all prompts count together"))
        frame = frame.drop(columns="prompt")
    unused = [c for c in frame if c not in {*needed, *_OPTIONAL} and (not c or kind != "wide")]
    for name in unused:
        meant = difflib.get_close_matches(name.lower(), _OPTIONAL, n=1, cutoff=0.75)
        if meant:
            raise InputError(f"{path} has a column {name!r}. Did you mean {meant[0]!r}? Rename or remove it.")
    if unused:
        told = ", ".join(name or "without a name" for name in unused)
        notes.append(("columns not used", len(unused), told))
        frame = frame.drop(columns=unused)
    for name in ("occupation", *_OPTIONAL):
        if name in frame:
            frame[name] = spelt_once(frame[name], path, empty=name != "occupation")
    frame["source"] = _sources(frame["source"], path)
    frame["model"] = _models(frame, path)
    if kind == "shares":
        return _shares(frame, path, notes)
    frame["image"] = frame["image"].str.strip()
    strange = (frame["image"] == "") | frame["image"].str.contains("\n")
    fix = "name each image; look for a quote left open"
    refuse(strange, path, "image is {}, empty or of several lines", fix, frame["image"])
    raters = None if kind == "long" else [c for c in frame if c not in _ITEM]
    if raters == []:
        raise InputError(f"{path} has no column of ratings. {_NEEDS['wide']}")
    votes = votes_on(frame, _ITEM, raters, path, "image {image} ({source}, {occupation})")
    if not votes.n_raters:
        raise InputError(f"{path} holds no rating: every one is empty. Allowed are {', '.join(LABELS)}.")
    return _resolved(kind, votes, notes)


def read_ratings(path: str | Path) -> Rated:
    """Read ratings from ``path``; as :func:`read`, but shares are an InputError, too."""
    rated = read(path)
    if rated.ratings is None:
        raise InputError(f"{path} holds shares; give ratings, one row per image.")
    return rated


def shares(images: pd.DataFrame, female: np.ndarray, male: np.ndarray) -> pd.DataFrame:
    """Return the share of female among decided images for each model, occupation and source.

    ``female`` and ``male`` say how much each row of ``images`` (as in :attr:`Rated.images`) counts as either, shape
    (images,): 0 or 1, or between for a split vote. Columns are those of table ``paradox_percent_female``: ``n`` is the
    sum of both, the share NaN where it is 0. Training images without a model count for every model.
    """
    weighed = images[["model", "occupation", "source"]].assign(female=female, n=np.add(female, male))
    summed = weighed.groupby(["model", "occupation", "source"], as_index=False, observed=True).sum()
    percent = 100 * summed["female"] / summed["n"].where(summed["n"] > 0)
    return _finished(summed.assign(percent_female=percent, prompt="ratings"))


def located(path: str | Path) -> Path:
    """Return the path of a file of ratings, or of a folder of such files, with ``~`` as the home folder.

    Raises:
        InputError: It is neither CSV nor Parquet, or does not exist; a folder holds no such file.
    """
    path = Path(os.path.expanduser(path))
    if path.is_dir():
        if not files(path):
            raise InputError(f"{path} holds no file that ends in .csv or .parquet; put the ratings there.")
        return path
    if path.suffix.lower() not in _ENDINGS:
        raise InputError(f"{path} is neither CSV nor Parquet; give a file that ends in .csv or .parquet.")
    if not os.path.isfile(path):
        raise InputError(f"{path} does not exist; set ratings to a CSV or Parquet file.")
    return path


def files(path: str | Path) -> list[Path]:
    """Return the files behind the path of ratings: itself, or those of a folder by their names."""
    path = Path(os.path.expanduser(path))
    return sorted(p for p in path.glob("*") if p.suffix.lower() in _ENDINGS) if path.is_dir() else [path]


def image_ids(column: pd.Series, known: Iterable[str] = ()) -> pd.Series:
    """Return the image ids in a column of a file, without what tables are written with against formulas.

    Those that are of ``known`` images but for how they are written (:mod:`biaslab.plaintext`) come as these are called.
    """
    ids = column.astype(str).str.strip().str.replace(_ESCAPED, "", regex=True)
    called = {plaintext.plain(one): one for one in map(str, known)}
    return ids.map({one: called.get(plaintext.plain(one), one) for one in ids.unique()}) if called else ids


# -- ratings to votes ------------------------------------------------------------------------------------


def votes_on(
    frame: pd.DataFrame,
    keys: list[str],
    raters: list[str] | None,
    path: Path,
    called: str,
) -> Votes:
    """Return the ratings in a table and the votes on its items, whether or not there are any.

    Args:
        frame: Cells as text; its index counts the file's rows from 0.
        keys: The columns that name an item.
        raters: The columns of ratings; ``None`` where the columns rater and label hold one rating in each row.
        called: What errors call an item, with columns in braces.

    Raises:
        InputError: A cell is no rating, a rater has no name, or an item is there twice, or twice for one rater.
    """
    codes, notes = _label_codes(frame[raters or ["label"]], path)
    if raters:
        fix = "give it once. With one row for each rating, name the columns rater and label"
        refuse(frame.duplicated(keys), path, f"{called} stands there twice, again", fix, frame)
        items, names = frame[keys].reset_index(drop=True), raters
    else:
        items, codes, names = _spread(frame, keys, codes[:, 0], path, called)
    given = (codes >= 0).any(axis=0)
    few = len(names) <= MOST_COLUMNS
    columns = names if few else [str(k + 1) for k in range(codes.shape[1])]
    kind = pd.CategoricalDtype(list(LABELS))
    ratings = {
        c: pd.Categorical.from_codes(codes[:, k], dtype=kind) for k, c in enumerate(columns) if given[k]
    }
    table, empty = pd.DataFrame(ratings, index=items.index), [c for c in columns if c not in ratings]
    n_raters = int(given.sum()) if raters else len(names)
    by_label = ", ".join(f"{(codes == k).sum()} {label}" for k, label in enumerate(LABELS))
    notes += [("raters", n_raters, ", ".join(table) if few else "too many to name")]
    notes += [("raters without a rating", len(empty), ", ".join(empty))] if empty and few else []
    notes += [("ratings", int((codes >= 0).sum()), by_label)]
    vote = majority_vote(np.array([*LABELS, None], dtype=object)[codes])
    return Votes(items, vote, table, tuple(table) if few else (), n_raters, notes)


def _spread(
    frame: pd.DataFrame, keys: list[str], label: np.ndarray, path: Path, called: str
) -> tuple[pd.DataFrame, np.ndarray, list[str]]:
    """Return items, their ratings side by side (items, columns), and who rated."""
    given = label >= 0
    # An image that nobody rated has no rater either.
    refuse(given & (frame["rater"].str.strip() == ""), path, "rater is empty", "name who gave the rating")
    rater = spelt_once(frame["rater"], path, empty=True)
    item = frame.groupby(keys, sort=False, observed=True).ngroup().to_numpy()
    again = given & frame.assign(item=item, rater=rater, given=given).duplicated(["item", "rater", "given"])
    refuse(again, path, f"{called} has two ratings by rater {{rater}}, the second", "keep one", frame)
    items = frame[~frame.duplicated(keys)][keys].reset_index(drop=True)
    item, label = item[given], label[given]
    column, names = pd.factorize(rater[given])
    width = len(names)
    if width > MOST_COLUMNS:
        # Which rater it was does not matter to votes and to agreement over all raters.
        column = pd.Series(item).groupby(item).cumcount().to_numpy()
        width = int(column.max(initial=0)) + 1
    if len(items) * width > MOST_CELLS:
        raise InputError(f"{path} has {len(items)} images with up to {width} ratings, too many to hold.")
    codes = np.full((len(items), width), -1, dtype=np.int8)
    codes[item, column] = label
    return items, codes, list(names)


# -- the three formats -----------------------------------------------------------------------------------


def _resolved(kind: str, votes: Votes, notes: list[Note]) -> Rated:
    images = votes.items.assign(label=pd.Categorical(votes.label, OUTCOMES))
    percent_female = shares(images, images["label"] == "female", images["label"] == "male")
    each = pd.get_dummies(images["label"], dtype=int).assign(n_images=1)
    cells = [images[name] for name in ("model", "occupation", "source")]
    counts = each.groupby(cells, observed=True).sum().reset_index()
    n = images["label"].value_counts()
    rated = votes.ratings.notna()
    gaps = int((rated.any(axis=1) & ~rated.all(axis=1)).sum())
    notes = [
        *notes,
        *votes.notes,
        ("images", len(images), ""),
        *_repeated(images),
        *([("images with a rating missing", gaps, "")] if votes.raters else []),
        ("images decided female or male", int(n["female"] + n["male"]), "they make the shares"),
        ("images left out: unsure", int(n["unsure"]), "unsure has more ratings than any other"),
        ("images left out: tie", int(n["tie"]), "no rating has more than the others"),
        ("images left out: unrated", int(n["unrated"]), ""),
    ]
    outcomes, notes = _paired(_finished(counts.assign(prompt="ratings")), percent_female, notes)
    return Rated(kind, images, votes.ratings, votes.raters, votes.n_raters, percent_female, outcomes, notes)


def _repeated(images: pd.DataFrame) -> list[Note]:
    """Note names of images that stand under both sources or under several occupations."""
    places = images[["image", "source", "occupation"]].drop_duplicates()
    names = places.loc[places["image"].duplicated(), "image"].drop_duplicates()
    if names.empty:
        return []
    detail = f"counted as another image in each; if it is one image, correct the file: {listed(names)}"
    return [("images under several sources or occupations", len(names), detail)]


def _shares(frame: pd.DataFrame, path: Path, notes: list[Note]) -> Rated:
    percent = _numbers(frame["percent_female"], path)
    n = _numbers(frame["n"], path)
    outside = (percent < 0) | (percent > 100)
    refuse(outside, path, "percent_female is {}", "give 0 to 100", frame["percent_female"])
    fix = f"give the number of images behind the share, a whole number from 1 to {_MOST_IMAGES:,}; leave out rows "
    bad = (n < 1) | (n != n.round()) | (n > _MOST_IMAGES)
    refuse(bad, path, "n is {}", fix + "without images", frame["n"])
    if 0 < percent.max() <= 1:
        raise InputError(
            f"{path}: no percent_female is above 1, so the shares seem to be given as 0 to 1; "
            "percent_female is 0 to 100: multiply by 100."
        )
    prompt = frame["prompt"].astype(object) if "prompt" in frame else pd.Series("", index=frame.index)
    frame = frame.assign(percent_female=percent, n=n, prompt=prompt.where(prompt != "", "ratings"))
    fix = "give one, or tell them apart by the columns model or prompt"
    refuse(frame.duplicated(_CELL), path, "{occupation} ({source}) has two shares, the second", fix, frame)
    # Generated and training shares must be told which belong together.
    generated, training = (set(frame.loc[frame["source"] == s, "prompt"]) for s in ("generated", "training"))
    lone = sorted(training - generated - set(_SHARED)) if generated else []
    if training and not training & set(_SHARED):
        lone += sorted(generated - training)
    if lone:
        raise InputError(
            f"{path}: prompt {shortened(lone[0])} has shares of one source only. Leave prompt empty for "
            "training shares that serve all prompts."
        )
    percent_female = _finished(frame[[*_CELL, "percent_female", "n"]])
    outcomes = _finished(frame[_CELL].assign(n_images=np.nan, **dict.fromkeys(OUTCOMES, np.nan)))
    notes.append(("images decided female or male", int(n.sum()), "they make the shares"))
    outcomes, notes = _paired(outcomes, percent_female, notes)
    images = pd.DataFrame(columns=[*_ITEM, "label"], dtype=object)
    return Rated("shares", images, None, (), 0, percent_female, outcomes, notes)


def _paired(
    outcomes: pd.DataFrame, percent_female: pd.DataFrame, notes: list[Note]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return outcomes with shares and why a row has no counterpart, and the notes as a table."""
    outcomes = outcomes.merge(percent_female.drop(columns="approach"), on=_CELL, validate="one_to_one")
    decided = outcomes.pivot_table(
        index=["model", "occupation"], columns="source", values="n", aggfunc="sum", observed=True
    ).reindex(columns=list(SOURCES))
    pair = decided.reindex(pd.MultiIndex.from_frame(outcomes[["model", "occupation"]]))
    reason = pd.Series("", index=outcomes.index, dtype=object)
    for source, n in pair.items():
        reason[n.isna().to_numpy()] = f"no {source} images of this occupation"
        reason[(n == 0).to_numpy()] = f"no {source} image was decided female or male"
    columns = [*_CELL, "n_images", *OUTCOMES, "n", "percent_female"]
    outcomes = outcomes[columns].assign(reason=reason)
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

    if "rater" in columns or ("label" in columns and like("rater")):
        return "shares" if "percent_female" in columns else "long"
    if "percent_female" in columns or ("image" not in columns and (like("percent_female") or "n" in columns)):
        return "shares"
    if like("image") or {"occupation", "source"} <= set(columns):
        return "wide"
    raise InputError(f"{path} fits no format. {_columns_told(columns)} {' '.join(_NEEDS.values())}")


def require(frame: pd.DataFrame, needed: Iterable[str], path: Path, needs: str, known: set[str]) -> None:
    """Raise InputError for the first column of ``needed`` that is missing; name one of no use that is spelt like it."""
    for name in needed:
        if name not in frame:
            close = difflib.get_close_matches(name, [c for c in frame if c not in known], n=1, cutoff=0.6)
            meant = f"Rename {close[0]!r} to {name!r}. " if close else ""
            raise InputError(f"{path} has no column {name!r}. {meant}{needs} {_columns_told(frame)}")


def _columns_told(columns: Iterable[str]) -> str:
    columns = list(columns)
    return f"It has: {', '.join(columns[:20])}{', …' if len(columns) > 20 else ''}."


def spelt_once(column: pd.Series, path: Path, *, empty: bool = False) -> pd.Categorical:
    """Return names in their plain form; refuse empty and unprintable ones, and one name in two spellings."""
    codes, found = pd.factorize(column)
    found = pd.Series(found, dtype=object).astype(str)
    clean = found.map(plaintext.name)
    for bad, fix in (
        (found.str.strip().str.contains("\n"), "give a name of one line, look for a quote left open"),
        (~clean.map(plaintext.is_printable).astype(bool), "remove characters that cannot be printed"),
        ((clean == "") & (not empty), "fill it in or leave the row out"),
    ):
        rows = pd.Series(bad.to_numpy(bool)[codes], index=column.index)
        refuse(rows, path, f"{column.name} is {{}}", fix, column)
    spelt = clean.drop_duplicates()
    folded = spelt.str.casefold()
    if folded.duplicated().any():
        two = spelt[folded == folded[folded.duplicated()].iloc[0]].map(shortened)
        raise InputError(f"{path}: {column.name} is spelt {' and '.join(two[:2])}; spell it one way.")
    return pd.Categorical(clean.to_numpy(object)[codes])


def _sources(column: pd.Series, path: Path) -> pd.Categorical:
    clean = column.str.strip().str.lower()
    strange = ~clean.isin(SOURCES)
    if strange.any():
        raise InputError(
            f"{path}: source is {shortened(column[strange].iloc[0])} in data row {row_told(strange)}. "
            f"{name_help(clean[strange].iloc[0][:40], SOURCES)}"
        )
    return pd.Categorical(clean, SOURCES)


def _models(frame: pd.DataFrame, path: Path) -> pd.Categorical:
    """Return the models: all empty where the file names none, checked where it does."""
    if "model" not in frame or (frame["model"] == "").all():
        return pd.Categorical([""] * len(frame))
    model = frame["model"].astype(object)
    generated = frame["source"] == "generated"
    fix = "name the model; only training images may have none"
    refuse(generated & (model == ""), path, "model is empty for generated images", fix)
    known = set(model[generated])
    strange = ~generated & (model != "") & ~model.isin(known)
    if known and strange.any():
        name = model[strange].iloc[0]
        raise InputError(
            f"{path}: training images have the model {shortened(name)}, which has no generated images. "
            f"{name_help(name, known)} Leave model empty for training images that all models share."
        )
    return pd.Categorical(model)


def _label_codes(columns: pd.DataFrame, path: Path) -> tuple[np.ndarray, list[Note]]:
    """Return positions in LABELS (-1 not rated), shape (rows, columns), and notes on other spellings."""
    position = {"": -1, **{label: k for k, label in enumerate(LABELS)}}
    out = np.empty(columns.shape, dtype=np.int8)
    read_as: Counter[tuple[str, str]] = Counter()
    for k, (name, column) in enumerate(columns.items()):
        codes, found = pd.factorize(column)
        spelt = [" ".join(value.split()).lower() for value in found]
        labels = [SYNONYMS.get(text, text) for text in spelt]
        for j, label in enumerate(labels):
            if label not in position:
                row = row_told(pd.Series(codes == j, index=columns.index))
                raise InputError(_not_a_label(str(name), found[j], row, path))
            if label != spelt[j]:
                read_as[spelt[j], label] += int((codes == j).sum())
        out[:, k] = np.array([position[label] for label in labels], np.int8)[codes]
    return out, [
        (f"read {a!r} as {b or 'not rated'}", n, "another spelling") for (a, b), n in read_as.items()
    ]


def _not_a_label(name: str, value: str, row: int, path: Path) -> str:
    meant = difflib.get_close_matches(name.lower(), (*_FORMATS["long"], *_OPTIONAL), n=1, cutoff=0.75)
    fix = f" If {name!r} is not a rater, remove it."
    if meant:
        fix = "" if name in _FORMATS["long"] else f" Or is column {name!r} {meant[0]!r} misspelt?"
    return (
        f"{path}: column {name!r} holds {shortened(value)} in data row {row}, which is not a rating. "
        f"{name_help(value[:40], LABELS).rstrip('.')}, or empty for not rated.{fix}"
    )


def _numbers(column: pd.Series, path: Path) -> pd.Series:
    values = pd.to_numeric(column.str.strip(), errors="coerce").astype(float)
    fix = "give a number such as 37.5, or leave the row out"
    refuse(~np.isfinite(values), path, f"{column.name} is {{}}", fix, column)
    return values


def refuse(
    rows: pd.Series, path: Path, problem: str, fix: str, values: pd.Series | pd.DataFrame | None = None
) -> None:
    """Raise InputError if any of ``rows`` is true.

    ``{}`` in the problem is the first of the ``values`` there, ``{name}`` that of a column.
    """
    if not rows.any():
        return
    if isinstance(values, pd.DataFrame):
        problem = problem.format_map(values[rows].iloc[0].map(shortened))
    elif values is not None:
        problem = problem.format(shortened(values[rows].iloc[0]))
    raise InputError(f"{path}: {problem} in data row {row_told(rows)}; {fix}.")


def row_told(rows: pd.Series) -> int:
    """Return the number of the first true row, by an index that counts from 0; the row below the header is 1."""
    return int(rows.idxmax()) + 1


def shortened(value: object, most: int = 60) -> str:
    """Return ``value`` quoted, with unprintable characters escaped, cut where it is long."""
    text = repr(str(value))
    return text if len(text) <= most else f"{text[: most - 1]}…"


def listed(values: Iterable[object]) -> str:
    """Return the first five values as in :func:`shortened`, and whether there are more."""
    values = list(values)
    return ", ".join(shortened(value) for value in values[:5]) + (", …" if len(values) > 5 else "")


# -- a file to a table of text ---------------------------------------------------------------------------


def load_table(path: Path, known: set[str]) -> pd.DataFrame:
    """Return a file's cells as text, missing ones as ""; columns in ``known`` get their usual spelling.

    The files of a folder follow one another by their names, and so are their rows counted.
    """
    found = [_load_file(file, known) for file in files(path)]
    for file, table in zip(files(path), found, strict=True):
        if other := sorted(set(table).symmetric_difference(found[0])):
            raise InputError(
                f"{file} and {files(path)[0].name} do not have the same columns: only one has {other[0]!r}. Give the "
                "files of a folder the same columns; in long form they are the same whoever rated."
            )
    return pd.concat(found, ignore_index=True)


def _load_file(path: Path, known: set[str]) -> pd.DataFrame:
    reading.check(path, most=_MOST_BYTES)
    table = (_load_csv if path.suffix.lower() == ".csv" else _load_parquet)(path)
    if not table.num_rows:
        raise InputError(f"{path} has a header but no rows.")
    frame = table.to_pandas()
    names = []
    for given in table.column_names:
        name = " ".join(given.split())
        if not name.isprintable():
            raise InputError(
                f"{path} has a column {given!r}; its name holds characters that cannot be printed."
            )
        usual = name.lower().replace(" ", "_").replace("-", "_")
        names.append(usual if usual in known else name)
    twice = [name for name, n in Counter(names).items() if name and n > 1]
    if twice:
        raise InputError(f"{path} has two columns named {twice[0]!r}; give each its own name.")
    return frame.set_axis(names, axis=1)


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
    if not text.strip():
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
    del text
    try:
        # Strict about the number of cells in each row, and quick: a million rows take about a second.
        return pa_csv.read_csv(
            io.BytesIO(data if data.endswith(b"\n") else data + b"\n"),
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
