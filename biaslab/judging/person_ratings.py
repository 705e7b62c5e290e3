"""Human ratings of each person in an image, read from a file, and how far judges and raters agree.

Two formats, told apart by their columns; CSV (UTF-8, commas) or Parquet:

- wide: ``image_id, position`` and one column per rater;
- long: ``image_id, position, rater, label``, one row per person and rater.

``position`` is 1 for the leftmost person, 2, …, or ``left``, ``middle``, ``right``; it may be empty where the prompt
asks for one person. A rating is ``female``, ``male``, ``unsure`` or empty (not rated); the paper's words for them
(feminine, masculine, cannot identify) and the spellings of :mod:`biaslab.ratings` are read as these.

Source: paired paper, appendix B (Tables 6 and 7) and D (Table 9).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from biaslab import ratings as files
from biaslab.errors import InputError, ParameterError, name_help
from biaslab.genders import GENDERS
from biaslab.judging.judge import JUDGED, rated_ids
from biaslab.judging.people import COLUMNS
from biaslab.measures import agreement

PLACES = ("left", "middle", "right")
UNKNOWN = ("error", "count", "aside")
ANNOTATORS = "annotators"
AGREEMENT_COLUMNS = (
    "aspect", "setting", "judge", "reference", "statistic", "value", "ci_low", "ci_high",
    "n", "n_missing", "n_raters", "reason",
)  # fmt: skip
"""As table ``paired_judge_agreement`` has them (without the model), and what the value rests on."""

_KEYS = ["image_id", "position"]
_CELL = ["aspect", "setting"]
_LONG = ("rater", "label")
# What a file may carry beside ratings, and nobody reads.
_CONTEXT = ("phrase", "prompt", "aspect", "setting", "model", "occupation")
_NEEDS = "Ratings of people need: image_id, position and one column per rater; or image_id, position, rater, label."
_PAPERS = {"feminine": "female", "masculine": "male", "cannot identify": "unsure"}
# Above this share of resamples in which kappa is undefined, limits from the others would mislead.
_MOST_UNDEFINED = 0.05


@dataclass(frozen=True)
class PersonRatings:
    """What a file says of the people asked for."""

    people: pd.DataFrame
    """One row per person asked for, in that order: image_id, position, label (``female``, ``male``, ``unsure``,
    ``tie`` or ``unrated``: the most frequent rating), n_ratings, in_file (whether the file has a row for them), and
    aspect and setting where they were given."""
    ratings: pd.DataFrame
    """The same rows, one column per rater: a label, missing where not rated; the form that
    :mod:`biaslab.measures.agreement` takes. With more than 30 raters the columns are a person's first, second, …
    rating."""
    n_raters: int
    """Raters with at least one rating of these people."""
    notes: pd.DataFrame
    """What was read, how it was understood and what was left aside: item, n, detail."""


def read(path: str | Path, asked: pd.DataFrame, *, unknown: str = "error") -> PersonRatings:
    """Read the ratings of the people asked for and resolve them to one label each.

    Args:
        path: A CSV or Parquet file.
        asked: One row per person: image_id, position (1 is the leftmost); aspect and setting are passed on.
        unknown: What ratings of other images or positions are: an ``error`` that names them, left aside and
            ``count``-ed in the notes, or left ``aside`` because the file is known to rate more than these people,
            of whom there may then be none in it.

    Raises:
        InputError: The file cannot be read as such ratings: it is missing or unreadable, a column is missing, a
            value is no rating or no position, a person is rated twice by one rater, or nobody asked for is rated
            (but for ``aside``). The message names the value and the fix.
        ParameterError: ``unknown`` is none of the three.
    """
    if unknown not in UNKNOWN:
        raise ParameterError(f"unknown is {unknown!r}. {name_help(str(unknown), UNKNOWN)}")
    people = _people(asked)
    path = files.located(path)
    frame, columns, notes = _shaped(files.load_table(path), path)
    long = columns == list(_LONG)
    labels, read_as = files.label_codes(
        {c: _in_our_words(frame[c]) for c in (["label"] if long else columns)}, path
    )
    person, aside = _persons(frame, people, path, unknown)
    notes += [*read_as, *aside]
    if long:
        codes, names = _of_long(frame, labels[:, 0], person, len(people), path)
    else:
        codes, names = _of_wide(frame, labels, person, len(people), path), columns
    given = (codes >= 0).any(axis=0)
    if not given.any() and unknown != "aside":
        raise InputError(f"{path} rates none of the {len(people)} people asked for. {_NEEDS}")
    codes, names = codes[:, given], [n for n, some in zip(names, given, strict=True) if some]
    crowd = len(names) > files.MOST_COLUMNS
    if crowd:
        # Which rater it was does not matter to votes and to agreement over all raters.
        n_raters, codes = len(names), _to_the_left(codes)
        names = [str(k + 1) for k in range(codes.shape[1])]
    else:
        n_raters = len(names)
    vote = agreement.majority_vote(np.array([*agreement.LABELS, None], dtype=object)[codes])
    people = people.assign(
        label=vote.labels,
        n_ratings=(codes >= 0).sum(axis=1),
        in_file=np.isin(np.arange(len(people)), person),
    )
    table = pd.DataFrame(
        {n: pd.Categorical.from_codes(codes[:, k], agreement.LABELS) for k, n in enumerate(names)}
    )
    counts = people["label"].value_counts()
    notes += [
        ("raters", n_raters, "too many to name" if crowd else ", ".join(names)),
        ("ratings", int((codes >= 0).sum()), ""),
        ("people asked for", len(people), ""),
        *((f"people: {label}", int(counts.get(label, 0)), "") for label in files.OUTCOMES),
    ]
    return PersonRatings(people, table, n_raters, pd.DataFrame(notes, columns=["item", "n", "detail"]))


def judge_people_ratings(asked: pd.DataFrame, path: str | Path, *, unknown: str = "error") -> pd.DataFrame:
    """Return judgements of people by raters; arguments and errors as in :func:`read`.

    A majority of female or male is ``judged``; unsure, or a tie, is ``uncertain`` (``reason`` says which); a person
    whom nobody rated or whom the file lacks is ``unrated``. One row per row of ``asked``, in its order, with the
    columns of :func:`biaslab.judging.people.judge_people`; there are no probabilities and no faces.
    """
    people = read(path, asked, unknown=unknown).people
    label = people["label"]
    decided = label.isin(GENDERS)
    outcome = np.select([decided, label == "unrated"], [JUDGED, "unrated"], "uncertain")
    reason = np.select([decided, label != "unrated", people["in_file"]], ["", label, ""], "not in the file")
    made = people[_KEYS].assign(
        outcome=outcome,
        gender=label.where(decided, np.where(outcome == "unrated", "", "unsure")),
        reason=reason,
        role="",
    )
    made = made.reindex(columns=list(COLUMNS))
    texts = ("image_id", "outcome", "gender", "reason", "role")
    numbers = (c for c in COLUMNS if c not in (*texts, "position"))
    return made.astype(dict.fromkeys(texts, str) | dict.fromkeys(numbers, float))


# -- a file to labels (people, raters) ---------------------------------------------------------------------


def _people(asked: pd.DataFrame) -> pd.DataFrame:
    """Return the people asked for, checked: image_id, position, and aspect and setting where given."""
    for column in _KEYS:
        if column not in asked:
            raise InputError(f"The people asked for have no column {column!r}; give image_id and position.")
    people = asked[[c for c in (*_KEYS, *_CELL) if c in asked]].reset_index(drop=True)
    number = pd.to_numeric(people["position"], errors="coerce")
    bad = ~((number >= 1) & (number == number.round()))
    if bad.any():
        row = people[bad].iloc[0]
        raise InputError(
            f"Image {row['image_id']!r} asks for somebody at position {row['position']}; positions are 1, 2, … from "
            "the left."
        )
    people = people.assign(image_id=people["image_id"].astype(str), position=number.astype(int))
    again = people.duplicated(_KEYS)
    if again.any():
        row = people[again].iloc[0]
        raise InputError(
            f"Position {row['position']} of image {row['image_id']!r} is asked for twice; give it once."
        )
    return people


def _shaped(frame: pd.DataFrame, path: Path) -> tuple[pd.DataFrame, list[str], list[tuple]]:
    """Return the cells with known columns in their usual spelling, and the columns that hold ratings."""
    known = {*_KEYS, *_LONG, *_CONTEXT}
    names = []
    for given in frame.columns:
        name = " ".join(str(given).split())
        usual = name.lower().replace(" ", "_").replace("-", "_")
        usual = "image_id" if usual == "image" else usual
        names.append(usual if usual in known else name)
    twice = [name for k, name in enumerate(names) if name and name in names[:k]]
    if twice:
        raise InputError(f"{path} has two columns named {twice[0]!r}; give each its own name.")
    frame.columns = names
    needed = [*_KEYS, *(_LONG if {*_LONG} & {*names} else ())]
    for name in needed:
        if name not in names:
            close = difflib.get_close_matches(name, [n for n in names if n not in known], n=1, cutoff=0.6)
            meant = f"Rename {close[0]!r} to {name!r}. " if close else ""
            raise InputError(f"{path} has no column {name!r}. {meant}{_NEEDS} {files.columns_told(names)}")
    others = [n for n in names if n not in known and n]
    long = len(needed) > len(_KEYS)
    if not long and not others:
        raise InputError(f"{path} has no column of ratings. {_NEEDS} {files.columns_told(names)}")
    unused = [n or "without a name" for n in names if n in _CONTEXT or not n or (long and n in others)]
    form = "long" if long else "wide"
    notes = [("rows read", len(frame), f"ratings of people in {form} form from {files.shortened(path.name)}")]
    notes += [("columns not used", len(unused), ", ".join(unused))] if unused else []
    return frame, list(_LONG) if long else others, notes


def _in_our_words(column: pd.Series) -> pd.Series:
    plain = column.str.strip().str.lower().str.split().str.join(" ")
    return plain.map(_PAPERS).fillna(column)


def _persons(
    frame: pd.DataFrame, people: pd.DataFrame, path: Path, unknown: str
) -> tuple[np.ndarray, list[tuple]]:
    """Return the row of ``people`` that each row of the file is about, -1 for one that nobody asked for."""
    images = frame["image_id"].str.strip()
    files.refuse(images == "", path, "image_id is empty", "name each image")
    images = rated_ids(pd.DataFrame({"image": images}))
    number = _positions(frame["position"], images, people, path)
    at = pd.Series(range(len(people)), index=pd.MultiIndex.from_frame(people[_KEYS]))
    person = at.reindex(pd.MultiIndex.from_arrays([images, number])).fillna(-1).to_numpy(int)
    asked_for = images.isin(set(people["image_id"])).to_numpy()
    notes = []
    for what, rows in (("images", ~asked_for), ("positions", asked_for & (person < 0))):
        if not rows.any():
            continue
        shown = images[rows] if what == "images" else images[rows] + " at " + frame["position"][rows]
        listed = list(dict.fromkeys(shown))
        text = ", ".join(files.shortened(name) for name in listed[:5]) + (", …" if len(listed) > 5 else "")
        if unknown == "aside":
            continue
        if unknown == "error":
            raise InputError(
                f"{path} rates {len(listed)} {what} that nobody asked for (first in data row {files.row_told(rows)}): "
                f"{text}. Take them out; in Python, unknown='count' leaves them aside."
            )
        notes.append((f"rows of {what} not asked for", int(rows.sum()), text))
    return person, notes


def _positions(column: pd.Series, images: pd.Series, people: pd.DataFrame, path: Path) -> np.ndarray:
    """Return positions as numbers, float (rows,): words by the number of people that the image asks for."""
    said = column.str.strip().str.lower().replace({"center": "middle", "centre": "middle"})
    last = images.map(people.groupby("image_id")["position"].max()).fillna(0).to_numpy()
    number = pd.to_numeric(said, errors="coerce").to_numpy(float, copy=True)
    bad = (~np.isfinite(number) & ~said.isin([*PLACES, ""])) | (number != np.round(number)) & ~np.isnan(
        number
    )
    files.refuse(
        bad,
        path,
        f"position is {files.shortened(column[bad].iloc[0] if bad.any() else '')}",
        f"give 1, 2, … from the left, or {', '.join(PLACES)}",
    )
    empty = (said == "").to_numpy()
    files.refuse(
        empty & (last > 1), path, "position is empty for an image of several people", "say which of them"
    )
    number[empty] = 1
    # Of one person nobody stands left or right; the middle is one place among three only.
    for word, where in (("left", 1), ("middle", 2), ("right", last)):
        exists = last == 3 if word == "middle" else last > 1
        here = (said == word).to_numpy()
        number[here] = np.where(exists, where, 0)[here]
    return number


def _of_wide(frame, labels: np.ndarray, person: np.ndarray, n: int, path: Path) -> np.ndarray:
    again = (person >= 0) & pd.Series(person).duplicated().to_numpy()
    if again.any():
        raise InputError(
            f"{path} rates {_who(frame, again)} twice (again in data row {files.row_told(again)}); give one row. With "
            "one row per person and rater, name the columns rater and label."
        )
    codes = np.full((n, labels.shape[1]), -1, np.int8)
    codes[person[person >= 0]] = labels[person >= 0]
    return codes


def _of_long(
    frame, label: np.ndarray, person: np.ndarray, n: int, path: Path
) -> tuple[np.ndarray, list[str]]:
    nameless = (frame["rater"].str.strip() == "").to_numpy() & (label >= 0)
    files.refuse(nameless, path, "rater is empty", "name who gave the rating")
    rater, raters = pd.factorize(frame["rater"].str.split().str.join(" "))
    counts = (person >= 0) & (label >= 0)
    again = np.zeros(len(frame), bool)
    again[counts] = pd.DataFrame({"p": person[counts], "r": rater[counts]}).duplicated()
    if again.any():
        raise InputError(
            f"{path} has two ratings of {_who(frame, again)} by rater {files.shortened(raters[rater[again]][0])} (the "
            f"second in data row {files.row_told(again)}); keep one."
        )
    if n * len(raters) > files.MOST_CELLS:
        raise InputError(f"{path} has {len(raters)} raters of {n} people, too many to hold.")
    codes = np.full((n, len(raters)), -1, np.int8)
    codes[person[counts], rater[counts]] = label[counts]
    return codes, [str(name) for name in raters]


def _who(frame: pd.DataFrame, rows: np.ndarray) -> str:
    row = frame[rows].iloc[0]
    return f"position {files.shortened(row['position'])} of image {files.shortened(row['image_id'])}"


def _to_the_left(codes: np.ndarray) -> np.ndarray:
    """Return each row's ratings (-1 missing) before its gaps, without columns that nobody fills."""
    order = np.argsort(codes < 0, axis=1, kind="stable")
    moved = np.take_along_axis(codes, order, axis=1)
    return moved[:, (moved >= 0).any(axis=0)]


# -- agreement ---------------------------------------------------------------------------------------------


def agreement_tables(
    people_by_judge: Mapping[str, pd.DataFrame],
    truth: pd.DataFrame | None = None,
    ratings: PersonRatings | None = None,
    *,
    seed: int = 0,
    replicates: int = 2_000,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Return how far judges agree with the truth and with raters, and raters among themselves (Tables 9 and 7).

    People of one image are judged from the same pixels and are not independent: intervals are percentile
    intervals of a bootstrap that redraws images, with all of their people. For raters they speak of other
    images, not of other raters.

    Args:
        people_by_judge: Judge's name -> its judgements: image_id, position (a number or word, the same in all
            tables), outcome, gender, aspect, setting.
        truth: Who is shown: image_id, position, gender; None where it is not known.
        ratings: Ratings of the people, read with their aspect and setting; None where there are none.
        seed: Seed of the bootstrap.
        replicates: How often images are redrawn, 1 or more.
        confidence: Level of the intervals, 0–1.

    Returns:
        Rows with :data:`AGREEMENT_COLUMNS`. ``cohen_kappa`` of each judge against ``reference`` (``truth`` or
        ``annotators``: the raters' majority), over people whom both call female or male; ``fleiss_kappa`` of the
        ``annotators``, on female, male and unsure, over people with the number of ratings that most have
        (``n_raters``). n is how many people that are, n_missing how many the cell has beside them. With two or
        more aspects, ``average`` is the mean over them as in Table 7. A value or limit that is not defined is NaN
        with a reason.

    Raises:
        InputError: A column is missing, or a person stands in a table twice.
        ParameterError: Bad ``replicates`` or ``confidence``.
    """
    rng = np.random.default_rng(seed)
    how = {"rng": rng, "replicates": replicates, "confidence": confidence}
    references = {}
    if truth is not None:
        references["truth"] = _labelled(truth, "truth", "gender", ())
    if ratings is not None:
        references[ANNOTATORS] = _labelled(ratings.people, "the ratings' people", "label", _CELL)
    rows: list[dict] = []
    for judge, judged in people_by_judge.items():
        seen = _labelled(judged, f"judge {judge!r}", "gender", ("outcome", *_CELL))
        seen["said"] = seen["said"].where(seen["outcome"] == JUDGED)
        for reference, known in references.items():
            both = seen.merge(known[[*_KEYS, "said"]], on=_KEYS, how="left", suffixes=("", "_known"))
            given = {"judge": judge, "reference": reference, "statistic": "cohen_kappa"}
            rows += _cells(both, given, _cohen, **how)
    if ratings is not None:
        codes = np.stack([c.cat.codes.to_numpy() for _, c in ratings.ratings.items()], axis=1)
        table = references[ANNOTATORS].assign(row=np.arange(len(codes)))
        given = {"judge": ANNOTATORS, "reference": ANNOTATORS, "statistic": "fleiss_kappa"}
        rows += _cells(table, given, lambda cell: _fleiss(cell, codes[cell["row"]]), **how)
    return pd.DataFrame(rows, columns=list(AGREEMENT_COLUMNS))


def _labelled(table: pd.DataFrame, name: str, label: str, needed: Sequence[str]) -> pd.DataFrame:
    """Return a table's people with ``said``: female, male, or missing."""
    for column in (*_KEYS, label, *needed):
        if column not in table:
            raise InputError(
                f"The table of {name} has no column {column!r}; merge it in by image_id and position."
            )
    number = pd.to_numeric(table["position"], errors="coerce")
    words = number.isna().any()  # Places may be words, if all tables use them.
    place = table["position"].astype(str) if words else number.astype(int).astype(str)
    table = table.assign(image_id=table["image_id"].astype(str), position=place).reset_index(drop=True)
    again = table.duplicated(_KEYS)
    if again.any():
        row = table[again].iloc[0]
        raise InputError(
            f"The table of {name} has position {row['position']} of image {row['image_id']!r} twice; keep one row."
        )
    return table.assign(said=table[label].astype(object).where(table[label].isin(GENDERS)))


def _cells(table, given: dict, work: Callable, rng, replicates: int, confidence: float) -> list[dict]:
    """Return one row per aspect and setting of ``table``, then the mean over aspects for each setting."""
    rows, drawn = [], {}
    for at, cell in table.groupby(_CELL, sort=False, observed=True):
        value, reason, n, n_raters, coefficient, items, images = work(cell)
        row = {**dict(zip(_CELL, at, strict=True)), **given, "value": value, "n": n}
        row |= {"n_missing": len(cell) - n, "n_raters": n_raters, "ci_low": np.nan, "ci_high": np.nan}
        if not reason:
            drawn[at] = _redrawn(coefficient, items, images, rng, replicates)
            row["ci_low"], row["ci_high"], reason = _limits(drawn[at], confidence)
        rows.append({**row, "reason": reason})
    for setting in dict.fromkeys(row["setting"] for row in rows):
        parts = [row for row in rows if row["setting"] == setting]
        if len(parts) < 2:
            continue
        mean = {"aspect": "average", "setting": setting, **given, "value": np.nan}
        mean |= {"ci_low": np.nan, "ci_high": np.nan, "reason": "an aspect has no value"}
        mean |= {c: sum(row[c] for row in parts) for c in ("n", "n_missing")}
        mean["n_raters"] = parts[0]["n_raters"] if len({r["n_raters"] for r in parts}) == 1 else np.nan
        values = [drawn.get((row["aspect"], setting)) for row in parts]
        if all(v is not None for v in values):
            mean["value"] = float(np.mean([row["value"] for row in parts]))
            mean["ci_low"], mean["ci_high"], mean["reason"] = _limits(np.mean(values, axis=0), confidence)
        rows.append(mean)
    return rows


def _cohen(cell: pd.DataFrame) -> tuple:
    pair = cell[["said", "said_known"]]
    # One replicate: its interval, over people, is not used.
    found = agreement.cohen_kappa(*(pair[c] for c in pair), GENDERS, seed=0, replicates=1)
    both = cell[pair.notna().all(axis=1)]
    items = np.stack([(both[c] == "male").to_numpy(int) for c in pair], axis=1)
    reason = found.reason if np.isnan(found.value) else ""
    return found.value, reason, len(both), 2, agreement.cohen, items, both["image_id"]


def _fleiss(cell: pd.DataFrame, codes: np.ndarray) -> tuple:
    labels = agreement.LABELS
    given = (codes >= 0).sum(axis=1)
    counts = np.bincount(given)
    # The number of ratings that most people have, the larger of two; who gave them may differ.
    usual = len(counts) - 1 - int(np.argmax(counts[:1:-1])) if len(counts) > 2 and counts[2:].any() else 2
    use = given == usual
    kept = _to_the_left(codes)[use, :usual]
    named = np.array([*labels, None], dtype=object)[kept]
    found = agreement.fleiss_kappa(named, labels, seed=0, replicates=1)
    items = np.stack([(kept == k).sum(axis=1) for k in range(len(labels))], axis=1)
    reason = found.reason if np.isnan(found.value) else ""
    return found.value, reason, len(kept), usual, agreement.fleiss, items, cell["image_id"][use]


def _redrawn(coefficient: Callable, items: np.ndarray, images: pd.Series, rng, replicates: int) -> np.ndarray:
    """Return the coefficient over redrawn images, (replicates,); NaN where it is undefined.

    Images with the same people's patterns are interchangeable: as in :mod:`biaslab.measures.agreement`, the number
    of images of each kind is drawn from a multinomial.
    """
    if replicates < 1:
        raise ParameterError(f"replicates is {replicates!r}; allowed is 1 or more, such as 2000.")
    patterns, which = np.unique(items, axis=0, return_inverse=True)
    image, names = pd.factorize(images)
    per_image = np.zeros((len(names), len(patterns)), int)
    np.add.at(per_image, (image, which.reshape(-1)), 1)
    kinds, frequency = np.unique(per_image, axis=0, return_counts=True)
    drawn = rng.multinomial(len(names), frequency / len(names), size=replicates)
    return coefficient(drawn @ kinds, patterns)


def _limits(drawn: np.ndarray, confidence: float) -> tuple[float, float, str]:
    if not 0 < confidence < 1:
        raise ParameterError(
            f"confidence is {confidence!r}; allowed is a number between 0 and 1, such as 0.95."
        )
    defined = drawn[~np.isnan(drawn)]
    undefined = len(drawn) - len(defined)
    if undefined > _MOST_UNDEFINED * len(drawn):
        return (
            np.nan,
            np.nan,
            f"no interval: undefined in {undefined} of {len(drawn)} resamples (one label only)",
        )
    if np.ptp(defined) < 1e-12:
        return np.nan, np.nan, "no interval: all resamples give the same value"
    tail = (1 - confidence) / 2
    low, high = np.quantile(defined, [tail, 1 - tail])
    return float(low), float(high), ""
