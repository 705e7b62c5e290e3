"""Reader of human annotations: a file, or a folder of files, becomes one long table.

A file is a table of :mod:`biaslab.io.cells` in one of five forms, which its columns determine:

- long: ``image_id``, ``annotator``, ``label``, one row per annotation; ``question`` if it is not perceived gender;
  ``annotator`` is needed for several annotators only;
- wide: ``image_id`` and one column per annotator;
- survey: ``annotator`` and one column per image;
- PaintSkills: ``image_id``, ``annotator``, ``objects``, ``number``, ``relation``, three questions per row;
- objects: ``image_id``, ``annotator``, ``object`` and ``shown``.

All may have ``position`` (1 is the leftmost person, 2, …, or ``left``, ``middle``, ``right``), ``model``, ``source``,
``occupation`` and ``probability``. Other spellings of labels (:data:`SYNONYMS`) and column names of other tools are
accepted.

Sources: paradox paper, A.4; dalleval paper, section 5.2 (Table 3); triplets paper, section 7.3; paired paper, B and D.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import pandas as pd

from biaslab.errors import InputError, name_help
from biaslab.io import cells, delimited
from biaslab.io.plaintext import casefold_name, normalize
from biaslab.metrics import agreement
from biaslab.schema import old_names
from biaslab.schema.genders import GENDERS

OTHER = "other"
GENDER_LABELS = (*agreement.LABELS, OTHER)
YES_NO = ("yes", "no")
SOURCES = ("training", "generated")
STEPS = ("objects", "number", "relation")
"""The questions about PaintSkills images."""
OBJECT = "object: "
"""Prefix of the question whether an object is shown; the object's name follows."""
TONES, ALIGNMENT = "skin tone", "alignment"
Vocabularies = Mapping[str, Sequence[str]]
LABELS: Vocabularies = {
    "": GENDER_LABELS,
    TONES: tuple(map(str, range(1, 11))),
    ALIGNMENT: tuple(map(str, range(1, 6))),
    **dict.fromkeys((*STEPS, f"{OBJECT}*"), YES_NO),
    "*": (),
}
"""The labels of each question; empty for any. ``unsure`` is always allowed. The empty question is perceived gender, and
a final ``*`` stands for any ending."""
SYNONYMS = {
    **dict.fromkeys(("f", "w", "woman", "women", "girl", "feminine"), "female"),
    **dict.fromkeys(("m", "man", "men", "boy", "masculine"), "male"),
    **dict.fromkeys(("u", "?", "not sure", "unclear", "uncertain", "undecided", "unknown"), "unsure"),
    "cannot identify": "unsure",
    **dict.fromkeys(("nonbinary", "non-binary", "non binary", "nb", "enby", "androgynous", "diverse"), OTHER),
    **dict.fromkeys(("y", "1", "true"), "yes"),
    **dict.fromkeys(("n", "0", "false"), "no"),
    **dict.fromkeys(("na", "n/a", "nan", "null"), ""),
}
# Column names of other tools, in any case; annotator and label are renamed only if the file has both.
_IMAGE_NAMES = {
    "image_id": ("file", "filename", "file_name", "image_name", "input.image_id", "input.image"),
    "occupation": ("profession", "job"),
}
_LABEL_NAMES = {
    "annotator": (
        *("annotator_id", "rater", "rater_id", "labeler", "labeller", "coder", "reviewer", "worker", "worker_id"),
        *("workerid", "participant", "responseid"),
    ),
    "label": ("gender", "perceived_gender", "rating", "annotation", "sex", "answer.gender", "answer.label"),
}
MAX_COLUMNS = 30
"""Maximum number of annotators with a column each; for a crowd, such columns would be mostly empty."""
ITEM = ["image_id", "position", "question", "model", "source", "occupation"]
"""The columns that identify an item, which one annotator labels once."""
COLUMNS = (*ITEM, "annotator", "label", "probability")

_PERSON = ["image_id", "position"]
_PLACES = ("left", "middle", "right")
_CONTEXT = ("image", "wave", "prompt", "phrase", "aspect", "setting")
_DEFAULTS = {"position": "", "question": "", "model": "", "source": SOURCES[1], "occupation": "", "probability": ""}
_NO_ANNOTATOR = {*COLUMNS, *_CONTEXT}
_NEEDS = "Annotations need the columns image_id and one per annotator, or the columns image_id, annotator and label."


def read(
    path: str | Path,
    labels: Vocabularies = LABELS,
    *,
    people: pd.DataFrame | None = None,
    strict: bool = False,
    required_columns: Sequence[str] = (),
) -> pd.DataFrame:
    """Read annotations: one row for each annotator and item; the label is empty for an item listed without one.

    Args:
        path: A file, or a folder of files with the same columns.
        labels: Question -> its labels, as :data:`LABELS`; annotations of other questions are left out.
        people: Columns image_id and position (1 is the leftmost), one row per person, or image, of a run: annotations
            of others are left out. Words for positions are allowed only with these.
        strict: Whether annotations of others, and no annotation of ``people``, are errors.
        required_columns: Columns, in addition to those of the form, that must be filled, such as source.

    Returns :data:`COLUMNS`, indexed by the row of the file (0 is the first below the header): image_id (normalized, or
    as in ``people``), position (1 is the leftmost), question (empty is perceived gender), model (empty: of any),
    source, occupation, annotator, label (in its usual spelling), probability (with which the image was sampled, 0–1,
    NaN where the file has none). ``attrs`` has ``notes`` (on what was read and how: item, n, detail) and ``others``
    (image_id and position of annotations that were left out).

    Raises InputError where the file cannot be read or has the columns of no form, a value is not allowed, or an
    annotator labels an item twice.
    """
    path = cells.file_path(path)
    aliases = {name for names in _IMAGE_NAMES.values() for name in names}
    table, left_out = cells.load(path, {*_NO_ANNOTATOR, *aliases, *STEPS, "object", "shown"})
    old_names.check_columns(map(str, table), _NO_ANNOTATOR, str(path))
    notes = [("rows read", len(table), f"from {cells.shorten(path.name)}")]
    frame, form = _to_long(table, left_out, path)
    unused = [*(name for name in frame if name == "prompt" or name not in _NO_ANNOTATOR), *(() if form else left_out)]
    notes.append(("columns not used", len(unused), ", ".join(name or "without a name" for name in unused)))
    cells.require(frame, required_columns, path, _NEEDS, _NO_ANNOTATOR)
    frame = frame.assign(**{name: value for name, value in _DEFAULTS.items() if name not in frame})
    for name in ("model", "question", *({"occupation"} & {*required_columns})):
        frame[name] = cells.names(frame[name], path, empty=name not in required_columns).astype(object)
    source = frame["source"].str.strip().str.lower()
    source = source.replace("", "" if "source" in required_columns else _DEFAULTS["source"])
    cells.refuse(~source.isin(SOURCES), path, "source is {}", f"use {' or '.join(SOURCES)}", frame["source"])
    frame["source"] = source
    image = frame["image_id"].str.strip()
    fix = "use ids of one line, and check for an unclosed quotation mark"
    strange = (image == "") | image.str.contains("\n")
    cells.refuse(strange, path, "image_id is {}, empty or of several lines", fix, image)
    frame["image_id"] = cells.image_ids(
        cells.image_ids(image).map(normalize), () if people is None else people["image_id"].unique()
    )
    frame["position"] = _positions(frame, path, people)
    frame["probability"] = _probabilities(frame, path)
    frame, spellings = _normalize_labels(frame, form, labels, path)
    # An item that is listed without a label needs no annotator.
    unnamed = (frame["label"] != "") & (frame["annotator"].str.strip() == "")
    cells.refuse(unnamed, path, "annotator is empty", "enter the annotator")
    if form != "annotator":
        frame["annotator"] = cells.names(frame["annotator"], path, empty=True).astype(object)
    frame = frame[list(COLUMNS)]
    other_rows = frame.iloc[:0]
    if people is not None:
        belongs = pd.MultiIndex.from_frame(frame[_PERSON]).isin(pd.MultiIndex.from_frame(people[_PERSON]))
        frame, other_rows = frame[belongs], frame[~belongs]
    annotations = frame[frame["label"] != ""]
    problem = "image {image_id}, position {position} has two annotations by annotator {annotator}, the second"
    fix = "keep one row. If each row is one annotation, the columns must be called annotator and label"
    cells.refuse(annotations.duplicated([*ITEM, "annotator"]), path, problem, fix, annotations)
    other_people = list(dict.fromkeys(other_rows[_PERSON].itertuples(index=False, name=None)))
    if strict and other_people:
        raise InputError(
            f"{path} annotates {len(other_people)} people or images that are not in the sample (first in data row "
            f"{other_rows.index[0] + 1}); their images are {cells.join_values(dict(other_people))}. Remove these rows."
        )
    if strict and annotations.empty:
        raise InputError(f"{path} annotates none of the people or images of the run. {_NEEDS}")
    frame.attrs |= {"notes": notes + spellings, "others": other_people}
    return frame


def _to_long(table: pd.DataFrame, left_out: dict[str, str], path: Path) -> tuple[pd.DataFrame, str]:
    """Return a row for each cell with a label, and the column of the result with the names of the label columns.

    The latter is empty for a file with one column of labels.
    """
    if "image_id" not in table:
        table = table.rename(columns={"image": "image_id"})
    table = cells.rename_columns(table, _IMAGE_NAMES)
    long = cells.rename_columns(table, _LABEL_NAMES)
    if "annotator" in long and {"image_id", "label"}.isdisjoint(long):
        return _melt(long, [name for name in long if name not in _NO_ANNOTATOR], "image_id"), "image_id"
    cells.require(table, ["image_id"], path, _NEEDS, _NO_ANNOTATOR)
    # A column with almost this name is not an annotator.
    if get_close_matches("position", map(str, table), cutoff=0.8):
        cells.require(table, ["position"], path, _NEEDS, _NO_ANNOTATOR)
    for questions in (STEPS, ("object", "shown")):
        if set(questions).isdisjoint(table):
            continue
        needs = f"These annotations need the columns image_id, {', '.join(questions)}."
        cells.require(long, questions, path, needs, _NO_ANNOTATOR)
        blank = long[list(questions)].apply(lambda column: column.str.strip()) == ""
        if questions == STEPS:
            cells.refuse(blank.all(axis=1), path, "nothing is annotated", "answer a question, or remove the row")
            return _melt(long.assign(**{"annotator": long.get("annotator", "1")}), list(STEPS), "question"), "question"
        cells.refuse(blank.any(axis=1), path, "object or shown is empty", "enter the object, and yes or no")
        columns = {"question": OBJECT + long["object"].map(casefold_name), "annotator": long.get("annotator", "1")}
        return long.assign(label=long["shown"], **columns).drop(columns=["object", "shown"]), ""
    if "label" in table and not get_close_matches("annotator", map(str, long), cutoff=0.6):
        # Labels of one annotator.
        return long.assign(annotator="1"), ""
    if {"annotator", "label"} & {*table, *(long if {"annotator", "label"} <= {*long} else ())}:
        cells.require(long, ["annotator", "label"], path, _NEEDS, _NO_ANNOTATOR)
        return long, ""
    cells.refuse_ignored_settings(left_out, path)
    annotators = [name for name in table if name and name not in _NO_ANNOTATOR]
    if not annotators:
        raise InputError(f"{path} has no column of annotations. {_NEEDS} {cells.describe_columns(map(str, table))}")
    return _melt(table, annotators, "annotator"), "annotator"


def _melt(table: pd.DataFrame, columns: list[str], name: str) -> pd.DataFrame:
    base = [column for column in table if column not in {*columns, name, "label"}]
    long = table.melt(base, columns, var_name=name, value_name="label", ignore_index=False)
    return long.sort_index(kind="stable")


def _positions(frame: pd.DataFrame, path: Path, people: pd.DataFrame | None) -> pd.Series:
    """Return positions from the left; 0 for words that do not apply to the image."""
    text = frame["position"].str.strip().str.lower().replace({"center": "middle", "centre": "middle"})
    count, places = pd.Series(1, index=frame.index), ()
    if people is not None:
        count, places = frame["image_id"].map(people.groupby("image_id")["position"].max()).fillna(1), _PLACES
    fix = "enter the person's position"
    cells.refuse((text == "") & (count > 1), path, "position is empty for an image of several people", fix)
    number = cells.numbers(text.replace("", "1").rename("position"), path, whole=True)
    bad = ~text.isin(places) & ~(number.between(1, 1_000_000) & (number == number.round()))
    fix = ", or ".join(["use 1, 2, … from the left", *([", ".join(places)] if places else [])])
    cells.refuse(bad, path, "position is {}", fix, frame["position"])
    # A single person has neither left nor right, and only three people have a middle.
    for word, where, exists in (("left", 1, count > 1), ("middle", 2, count == 3), ("right", count, count > 1)):
        number = number.mask(text == word, exists * where)
    return number.astype(int)


def _probabilities(frame: pd.DataFrame, path: Path) -> pd.Series:
    """Return the sampling probability (0–1) of each row's image; check that all images are from one sample."""
    if "wave" in frame:
        fix = "these images are not one random sample; use the file of one sample, without later waves"
        cells.refuse(~frame["wave"].str.strip().isin(("", "1", "1.0")), path, "wave is {}", fix, frame["wave"])
    number = cells.numbers(frame["probability"], path)
    bad = ~((number > 0) & (number <= 1)) & (frame["probability"].str.strip() != "")
    cells.refuse(bad, path, "probability is {}", "enter a number above 0 and at most 1", frame["probability"])
    has_several = number.groupby([frame[name] for name in ITEM]).transform("nunique") > 1
    cells.refuse(has_several, path, "image {} has several probabilities", "keep one", frame["image_id"])
    return number


def _normalize_labels(
    frame: pd.DataFrame, form: str, labels: Vocabularies, path: Path
) -> tuple[pd.DataFrame, list[tuple[str, float, str]]]:
    """Return the rows of questions in ``labels`` with labels in the usual spelling, and notes on other spellings."""
    parts, notes = [frame.iloc[:0]], []
    # A question has the labels of the longest matching prefix.
    starts = sorted((key[:-1] for key in labels if key.endswith("*")), key=len)
    keys = {question: question for question in labels} | {
        question: f"{start}*"
        for question in frame["question"].unique()
        for start in starts
        if question not in labels and question.startswith(start)
    }
    for key, part in frame.groupby(frame["question"].map(keys), sort=False):
        label_of = {text: label for text, label in SYNONYMS.items() if label in ("", *labels[key])}
        label_of |= {"": ""} | {label.casefold(): label for label in labels[key]}
        text = part["label"].map(lambda value: " ".join(value.split()).casefold())
        label_of["unsure"] = "unsure"
        label = text.map(label_of) if labels[key] else part["label"].str.strip()
        if label.isna().any():
            bad_row = part[label.isna()].iloc[0]
            column = bad_row[form] if form else "label"
            about = f"the question {cells.shorten(bad_row['question'])}" if bad_row["question"] else "perceived gender"
            fix = f" If {column!r} is not a column of labels, remove or rename it." if form else ""
            raise InputError(
                f"{path}: column {column!r} contains {cells.shorten(bad_row['label'])} in data row {bad_row.name + 1}, "
                f"which is not a label of {about}. {name_help(bad_row['label'][:40], labels[key]).rstrip('.')}, or an "
                f"empty cell if not annotated.{fix}"
            )
        for spelling, n in text.value_counts(sort=False).items():
            if labels[key] and spelling != label_of[spelling].casefold():
                notes.append((f"read {spelling!r} as {label_of[spelling] or 'not annotated'}", n, "another spelling"))
        parts.append(part.assign(label=label))
    return pd.concat(parts).sort_index(kind="stable"), notes


# -- the people of a run -----------------------------------------------------------------------------------


def judgements(requested: pd.DataFrame, path: str | Path) -> pd.DataFrame:
    """Return the perceived gender of people by the majority of annotators, in the order of ``requested``.

    Args:
        requested: One row per person: image_id and position (1 is the leftmost; always 1 for a single person); aspect
            and setting are passed on.
        path: A file of annotations, or a folder of files; annotations of others are left out.

    Returns image_id, position, status (``judged``; ``uncertain`` for a majority of other or unsure, or a tie;
    ``unannotated``), gender (``female``, ``male``, ``unsure`` or empty), reason, probability (as of :func:`votes`), and
    for each of :data:`GENDER_LABELS` the number of annotations.

    Raises InputError as :func:`read` and :func:`votes`.
    """
    people = requested[[name for name in (*_PERSON, "aspect", "setting") if name in requested]]
    people = people.reset_index(drop=True).astype({"image_id": str, "position": int})
    frame = read(path, {"": GENDER_LABELS}, people=people)
    rows = votes(frame, _PERSON).join(_counts(frame, _PERSON, GENDER_LABELS))
    rows = people.merge(rows, "left", on=_PERSON)
    label = rows.pop("label").astype(object).fillna("not in the file")
    sure, divided = label.isin(GENDERS), label.isin(("unsure", "tie", OTHER))
    return rows.fillna(dict.fromkeys(GENDER_LABELS, 0)).assign(
        status=np.select([sure, divided], ["judged", "uncertain"], "unannotated"),
        gender=label.where(sure, np.where(divided, "unsure", "")),
        reason=label.where(~sure & (label != "unannotated"), ""),
    )


def skills(path: str | Path, image_ids: Iterable[str]) -> pd.DataFrame:
    """Return annotations of PaintSkills images: one row for each image and annotator.

    Columns: image_id, annotator, the :data:`STEPS` (``yes``, ``no`` or empty), and correct (``yes`` where no step is
    ``no``). Raises InputError as a strict :func:`read`.
    """
    images = pd.DataFrame({"image_id": list(image_ids), "position": 1})
    frame, keys = read(path, dict.fromkeys(STEPS, YES_NO), people=images, strict=True), ["image_id", "annotator"]
    annotations = frame[frame["label"].isin(YES_NO)]
    table = annotations.pivot(index=keys, columns="question", values="label").reindex(columns=list(STEPS))
    table = table.astype(object).fillna("")
    table["correct"] = (table != "no").all(axis=1).map({True: "yes", False: "no"})
    return table.loc[pd.MultiIndex.from_frame(annotations[keys].drop_duplicates())].reset_index()


# -- votes -------------------------------------------------------------------------------------------------


def _counts(frame: pd.DataFrame, keys: list[str], labels: Iterable[str]) -> pd.DataFrame:
    """Return the number of annotations by item (rows, in order of the file) and label."""
    item = frame.groupby(keys, sort=False, observed=True).ngroup()
    return pd.crosstab(item, frame["label"]).reindex(range(item.nunique()), columns=[*labels], fill_value=0)


def votes(frame: pd.DataFrame, by: Sequence[str] = ITEM) -> pd.DataFrame:
    """Return the vote on each item of annotations, in order of the file.

    Columns are those of ``by``, label (the most frequent one, which may be ``unsure``; ``tie`` for several; or
    ``unannotated``), n_annotators, and probability. Raises InputError where an item has several rows, such as for other
    models.
    """
    by = list(by)
    items = frame[ITEM].drop_duplicates()
    if (twice := items.duplicated(by)).any():
        raise InputError(
            f"Image {items['image_id'][twice].iloc[0]!r} occurs in several rows of the annotations, with different "
            "models, sources or occupations. Keep only the rows of the images judged here."
        )
    labels = [*frame["label"][frame["label"] != ""].unique(), "tie"]  # No annotation is a tie.
    number = _counts(frame, by, labels).to_numpy()
    top = number.max(axis=1)
    label = np.where((number == top[:, None]).sum(axis=1) > 1, "tie", np.array(labels, object)[number.argmax(axis=1)])
    table = frame.groupby(by, sort=False, observed=True)["probability"].first().reset_index()
    return table.assign(label=np.where(top == 0, "unannotated", label), n_annotators=number.sum(axis=1))


def annotators(frame: pd.DataFrame) -> list[str]:
    """Return the annotators who labelled an item, in order of the file."""
    labelled = set(frame["annotator"][frame["label"] != ""])
    return [name for name in frame["annotator"].unique() if name in labelled]


def label_matrix(frame: pd.DataFrame, items: pd.DataFrame) -> pd.DataFrame:
    """Return labels of perceived gender of ``items`` (:data:`ITEM`), one row each, missing where not labelled.

    Each annotator has a column. With more than :data:`MAX_COLUMNS` annotators, the columns are an item's first,
    second, … label. Raises InputError where the matrix has too many cells.
    """
    annotations, columns = frame[frame["label"] != ""], annotators(frame)
    column = annotations["annotator"]
    if len(columns) > MAX_COLUMNS:
        number = annotations.groupby(ITEM, sort=False).cumcount() + 1
        columns, column = [str(k + 1) for k in range(number.max())], number.astype(str)
    if len(items) * len(columns) > delimited.MAX_CELLS:
        raise InputError(
            f"{len(items)} images with {len(columns)} annotations each do not fit in memory. Use fewer images or "
            "annotators."
        )
    wide = annotations.assign(column=column).pivot(index=ITEM, columns="column", values="label")
    wide = wide.reindex(index=pd.MultiIndex.from_frame(items[ITEM]), columns=columns)
    return wide.reset_index(drop=True).astype(pd.CategoricalDtype(list(GENDER_LABELS)))


def weights(annotated: pd.DataFrame) -> np.ndarray | None:
    """Return the number of people that each annotated person represents: 1 / probability; None if any is missing."""
    p = annotated["probability"].to_numpy(float)
    return 1 / p if len(p) and not np.isnan(p).any() else None
