"""Human ratings of each person in an image, read from a file, and how far judges and annotators agree.

Two formats of a table (:mod:`biaslab.io.cells`): wide, ``image_id, position`` and one column per annotator; or
long, ``image_id, position, annotator, label``, one row per person and annotator. ``position`` is 1 for the leftmost
person, 2, …, or ``left``, ``middle``, ``right``, and may be empty or missing where images show one person. Ratings are
as in :mod:`biaslab.ratings.readers`.

Source: paired paper, appendix B (Tables 6 and 7) and D (Table 9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import pandas as pd

from biaslab.errors import InputError
from biaslab.io import cells
from biaslab.io.plaintext import normalize
from biaslab.judges.judge_labels import JUDGED
from biaslab.judges.people import COLUMNS, frame
from biaslab.metrics import agreement
from biaslab.ratings import readers
from biaslab.schema.genders import GENDERS

PLACES = ("left", "middle", "right")
ANNOTATORS = "annotators"
AGREEMENT_COLUMNS = (
    "aspect", "setting", "judge", "reference", "statistic", "value", "ci_low", "ci_high",
    "n", "n_missing", "n_annotators", "reason",
)  # fmt: skip
"""As table ``paired_judge_agreement`` has them (without the model), and what the value rests on."""

_KEYS = ["image_id", "position"]
_CELL = ["aspect", "setting"]
_LONG = ("annotator", "label")
# What a file may carry beside ratings, and nobody reads.
CONTEXT = ("phrase", "prompt", "aspect", "setting", "model", "occupation", *readers.DRAWN)
_NEEDS = (
    "Annotations of people need: image_id, position (not where images show one person) and one column per "
    "annotator; or image_id, position, annotator, label."
)
_PERSON = "position {position} of image {image_id}"
# Above this share of resamples in which kappa is undefined, limits from the others would mislead.
_MOST_UNDEFINED = 0.05


@dataclass(frozen=True)
class PersonRatings:
    """What a file says of the people asked for."""

    people: pd.DataFrame
    """One row per person asked for, in that order: image_id, position, label (the most frequent rating: ``female``,
    ``male``, ``unsure``, ``tie`` or ``unannotated``; missing where the file lacks them), and aspect and setting where
    given; probability (:mod:`biaslab.ratings.annotated_subset`) where the file has one."""
    ratings: pd.DataFrame
    """The same rows, one column per annotator: a label, missing where not rated. With more than 30 annotators the
    columns are a person's first, second, … rating."""
    n_annotators: int  # Annotators with at least one rating of these people.


def read(path: str | Path, asked: pd.DataFrame, *, unknown: str = "error") -> PersonRatings:
    """Read the ratings of the people asked for and resolve them to one label each.

    Args:
        path: A CSV or Parquet file.
        asked: One row per person: image_id, position (1 is the leftmost); aspect and setting are passed on.
        unknown: What ratings of other people are: an ``error``, or left ``aside`` because the file is known to rate
            more.

    Raises InputError where the file cannot be read as such ratings, a person is rated twice by one annotator, or, but
    for ``aside``, somebody else is rated or nobody asked for.
    """
    people = asked[[c for c in (*_KEYS, *_CELL) if c in asked]].reset_index(drop=True)
    people = people.astype({"image_id": str, "position": int})
    path = cells.file_path(path)
    table, annotators = _shaped(path)
    person = _persons(table, people, path)
    others = table.loc[person < 0, _KEYS]
    if unknown == "error" and len(others):
        named = others.map(cells.shorten).drop_duplicates().to_dict("records")
        raise InputError(
            f"{path} annotates {len(named)} people that are not in the sample (first in data row "
            f"{others.index[0] + 1}): "
            f"{', '.join(_PERSON.format(**row) for row in named[:5])}{', …' if len(named) > 5 else ''}. Remove them."
        )
    drawn = readers.probabilities(table, path)
    table = table.assign(person=person)[person >= 0]
    votes = readers.votes_on(table, ["person"], annotators, path, _PERSON)
    if not votes.n_annotators and unknown == "error":
        raise InputError(f"{path} annotates none of the {len(people)} people asked for. {_NEEDS}")
    rows = votes.items["person"]
    people["label"] = pd.Series(votes.label, index=rows, dtype=object).reindex(people.index)
    if drawn.notna().any():
        people["probability"] = drawn[person >= 0].groupby(person[person >= 0]).first().reindex(people.index)
    return PersonRatings(people, votes.ratings.set_axis(rows).reindex(people.index), votes.n_annotators)


def unmatched(path: str | Path, asked: pd.DataFrame) -> list[tuple[str, str]]:
    """Return the people of a file who are none of those ``asked`` for: image_id and position, as the file has them.

    Arguments and errors are as for :func:`read`.
    """
    path = cells.file_path(path)
    table, _ = _shaped(path)
    people = asked[_KEYS].reset_index(drop=True).astype({"image_id": str, "position": int})
    others = table.loc[_persons(table, people, path) < 0, _KEYS].astype(str)
    return list(dict.fromkeys(others.itertuples(index=False, name=None)))


def judge_people(asked: pd.DataFrame, path: str | Path) -> pd.DataFrame:
    """Return judgements of people by annotators, as :func:`biaslab.judges.people.judge_people`; errors as in
    :func:`read`.

    A majority of female or male is ``judged``; other, unsure, or a tie, is ``uncertain``; whom nobody rated is
    ``unannotated``. There are no probabilities and no faces; ratings of others are left aside.
    """
    people = read(path, asked, unknown="aside").people
    return frame(people[_KEYS].join(_outcomes(people["label"])).assign(role=""), COLUMNS)


def judge_images(image_ids: Iterable[str], path: str | Path) -> pd.DataFrame:
    """Return judgements of images by annotators, as :func:`biaslab.judges.people.judge_people`, with outcomes of
    :func:`judge_people`; InputError where the file cannot be read as ratings, or rates one image twice, as for two
    models.
    """
    ids = pd.Series(list(image_ids), dtype=object).astype(str)
    votes = _outcomes(ids.map(normalize).map(readers.read_ratings(path).votes()).astype(object))
    return frame(votes.assign(image_id=ids, boxes=[[] for _ in ids]))


def _outcomes(label: pd.Series) -> pd.DataFrame:
    label = label.fillna("not in the file")
    sure, divided = label.isin(GENDERS), label.isin(("unsure", "tie", readers.OTHER))
    return pd.DataFrame(
        {
            "status": np.select([sure, divided], [JUDGED, "uncertain"], "unannotated"),
            "gender": label.where(sure, np.where(divided, "unsure", "")),
            "reason": label.where(~sure & (label != "unannotated"), ""),
        }
    )


# -- a file to ratings of people ---------------------------------------------------------------------------


def _shaped(path: Path) -> tuple[pd.DataFrame, list[str] | None]:
    """Return the cells with known columns in their usual spelling, and those of annotators if the form is wide."""
    known = {*_KEYS, *_LONG, *CONTEXT, "image"}
    table, left_out = cells.load(path, known)
    table = readers.usual(table, path)
    if "image_id" not in table:
        table = table.rename(columns={"image": "image_id"})
    # Of a column that is spelt otherwise it is asked whether it is meant.
    if not get_close_matches("position", list(map(str, table.columns)), cutoff=0.8):
        table = table.assign(position="")
    long = not set(_LONG).isdisjoint(table)
    cells.require(table, [*_KEYS, *(_LONG if long else ())], path, _NEEDS, known)
    annotators = [c for c in table if c and c not in known]
    if long:
        return table, None
    cells.refuse_ignored_settings(left_out, path)
    if not annotators:
        raise InputError(f"{path} has no column of annotations. {_NEEDS}")
    return table, annotators


def _persons(table: pd.DataFrame, people: pd.DataFrame, path: Path) -> pd.Series:
    """Return the row of ``people`` that each row of the file is about, -1 for one that nobody asked for."""
    images = cells.image_ids(table["image_id"], people["image_id"].unique())
    cells.refuse(images == "", path, "image_id is empty", "name each image")
    said = table["position"].str.strip().str.lower().replace({"center": "middle", "centre": "middle"})
    last = images.map(people.groupby("image_id")["position"].max()).fillna(0)
    fix = "say which of them"
    cells.refuse((said == "") & (last > 1), path, "position is empty for an image of several people", fix)
    number = pd.to_numeric(said.replace("", "1"), errors="coerce").astype(float)
    bad = ~said.isin(PLACES) & ~(np.isfinite(number) & (number == number.round()))
    fix = f"give 1, 2, … from the left, or {', '.join(PLACES)}"
    cells.refuse(bad, path, "position is {}", fix, table["position"])
    # Of one person nobody stands left or right; the middle is one place among three only.
    for word, where, exists in (("left", 1, last > 1), ("middle", 2, last == 3), ("right", last, last > 1)):
        number = number.mask(said == word, exists * where)
    at = pd.Series(people.index, index=pd.MultiIndex.from_frame(people[_KEYS]))
    found = at.reindex(pd.MultiIndex.from_arrays([images, number])).fillna(-1)
    return pd.Series(found.to_numpy(int), index=table.index)


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
    """Return how far judges agree with the truth and with annotators, and annotators among themselves (Tables 9 and 7).

    People of one image are not independent: intervals are of a percentile bootstrap that redraws images with all of
    their people. For annotators they speak of other images, not of other annotators.

    Args:
        people_by_judge: Judge's name -> its judgements: image_id, position (a number or word, the same in all
            tables), outcome, gender, aspect, setting.
        truth: Who is shown: image_id, position, gender; None where it is not known.
        ratings: Ratings of the people, read with their aspect and setting; None where there are none.
        seed, replicates, confidence: Of the bootstrap, and the intervals' level, 0–1.

    Returns rows with :data:`AGREEMENT_COLUMNS`. ``cohen_kappa`` is each judge's with ``reference`` (``truth``, or
    ``annotators``: the annotators' majority), over the ``n`` people whom both call female or male; ``fleiss_kappa``
    that of the ``annotators``, on female, male and unsure, over people with the number of ratings that most have
    (``n_annotators``). n_missing are the others of the cell. With two or more aspects ``average`` is the mean over
    them, as in Table 7. What is not defined is NaN with a reason.
    """
    options = {"rng": np.random.default_rng(seed), "replicates": replicates, "confidence": confidence}
    references = {}
    if truth is not None:
        references["truth"] = _labelled(truth, "gender")
    if ratings is not None:
        references[ANNOTATORS] = _labelled(ratings.people, "label")
    rows: list[dict] = []
    for judge, judged in people_by_judge.items():
        seen = _labelled(judged, "gender")
        seen["said"] = seen["said"].where(seen["status"] == JUDGED)
        for reference, known in references.items():
            both = seen.merge(known[[*_KEYS, "said"]], on=_KEYS, how="left", suffixes=("", "_known"))
            given = {"judge": judge, "reference": reference, "statistic": "cohen_kappa"}
            rows += _cells(both, given, _cohen, **options)
    if ratings is not None:
        codes = np.stack([c.cat.codes.to_numpy() for _, c in ratings.ratings.items()], axis=1)
        table = references[ANNOTATORS].assign(row=np.arange(len(codes)))
        given = {"judge": ANNOTATORS, "reference": ANNOTATORS, "statistic": "fleiss_kappa"}
        rows += _cells(table, given, lambda cell: _fleiss(cell, codes[cell["row"]]), **options)
    return pd.DataFrame(rows, columns=list(AGREEMENT_COLUMNS))


def _labelled(table: pd.DataFrame, label: str) -> pd.DataFrame:
    """Return a table's people with ``said``: female, male, or missing."""
    number = pd.to_numeric(table["position"], errors="coerce")
    words = number.isna().any()  # Places may be words, if all tables use them.
    place = table["position"].astype(str) if words else number.astype(int).astype(str)
    table = table.assign(image_id=table["image_id"].astype(str), position=place).reset_index(drop=True)
    return table.assign(said=table[label].astype(object).where(table[label].isin(GENDERS)))


def _cells(table, given: dict, work: Callable, rng, replicates: int, confidence: float) -> list[dict]:
    """Return one row per aspect and setting of ``table``, then the mean over aspects for each setting."""
    rows, drawn, nothing = [], {}, {"ci_low": np.nan, "ci_high": np.nan}
    for at, cell in table.groupby(_CELL, sort=False, observed=True):
        found, coefficient, items, images = work(cell)
        n, reason = len(items), found.reason if np.isnan(found.value) else ""
        row = {**dict(zip(_CELL, at, strict=True)), **given, "value": found.value, "n": n, **nothing}
        if not reason:
            drawn[at] = _redrawn(coefficient, items, images, rng, replicates)
            row["ci_low"], row["ci_high"], reason = _limits(drawn[at], confidence)
        n_annotators = 2 if given["statistic"] == "cohen_kappa" else items.sum(axis=1).max(initial=2)
        rows.append({**row, "n_missing": len(cell) - n, "n_annotators": n_annotators, "reason": reason})
    whole = pd.DataFrame(rows, columns=list(AGREEMENT_COLUMNS))
    for setting, parts in whole.groupby("setting", sort=False):
        if len(parts) < 2:
            continue
        value, limits = np.nan, (np.nan, np.nan, "an aspect has no value")
        if all((aspect, setting) in drawn for aspect in parts["aspect"]):
            value = float(parts["value"].mean())
            limits = _limits(np.mean([drawn[a, setting] for a in parts["aspect"]], axis=0), confidence)
        n, n_annotators = parts[["n", "n_missing"]].sum(), parts["n_annotators"].unique()
        mean = {"aspect": "average", "setting": setting, **given, "value": value, **n}
        mean |= dict(zip(("ci_low", "ci_high", "reason"), limits, strict=True))
        rows.append({**mean, "n_annotators": n_annotators[0] if len(n_annotators) == 1 else np.nan})
    return rows


def _cohen(cell: pd.DataFrame) -> tuple:
    """Return kappa, how it is computed from patterns, each person's pattern, and their images."""
    pair = cell[["said", "said_known"]]
    # One replicate: its interval, over people, is not used.
    found = agreement.cohen_kappa(*(pair[c] for c in pair), GENDERS, seed=0, replicates=1)
    both = cell[pair.notna().all(axis=1)]
    items = np.stack([(both[c] == "male").to_numpy(int) for c in pair], axis=1)
    return found, agreement.cohen, items, both["image_id"]


def _fleiss(cell: pd.DataFrame, codes: np.ndarray) -> tuple:
    """Return the same of the annotators' kappa; ``codes`` are positions in LABELS (people, annotators), -1 missing."""
    labels = agreement.LABELS
    counts = np.stack([(codes == k).sum(axis=1) for k in range(len(labels))], axis=1)
    given = counts.sum(axis=1)
    how_many = np.bincount(given[given >= 2], minlength=3)
    # The number of ratings that most people have, the larger of two; who gave them may differ.
    usual = len(how_many) - 1 - int(np.argmax(how_many[::-1])) if how_many.any() else 2
    items = counts[given == usual]
    named = np.array([np.repeat(labels, row) for row in items], dtype=object).reshape(len(items), usual)
    found = agreement.fleiss_kappa(named, labels, seed=0, replicates=1)
    return found, agreement.fleiss, items, cell["image_id"][given == usual]


def _redrawn(coefficient: Callable, items: np.ndarray, images: pd.Series, rng, replicates: int) -> np.ndarray:
    """Return the coefficient over redrawn images with all of their people, (replicates,); NaN where undefined."""
    patterns, which = np.unique(items, axis=0, return_inverse=True)
    per_image = pd.crosstab(pd.factorize(images)[0], which.reshape(-1)).to_numpy()
    kinds, frequency = np.unique(per_image, axis=0, return_counts=True)
    drawn = rng.multinomial(len(per_image), frequency / len(per_image), size=replicates)
    return coefficient(drawn @ kinds, patterns)


def _limits(drawn: np.ndarray, confidence: float) -> tuple[float, float, str]:
    """Return the limits of a percentile interval, or why there are none."""
    defined = drawn[~np.isnan(drawn)]
    undefined = len(drawn) - len(defined)
    if undefined > _MOST_UNDEFINED * len(drawn):
        why = f"no interval: undefined in {undefined} of {len(drawn)} resamples (one label only)"
        return np.nan, np.nan, why
    if np.ptp(defined) < 1e-12:
        return np.nan, np.nan, "no interval: all resamples give the same value"
    tail = (1 - confidence) / 2
    low, high = np.quantile(defined, [tail, 1 - tail])
    return float(low), float(high), ""
