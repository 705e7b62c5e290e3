"""Judge the people of images by position: faces, inclusion criteria, and the perceived gender of each person.

An image of one person is the case of position 1 of 1. An image must show as many faces as people were prompted, next to
each other; each person is cropped so that no other face is visible. The order of people is classified separately: an
open_clip model compares each person with the texts of all phrases. That depends on gender: a CLIP model is more
confident about a nurse's place where the nurse looks like a woman.

Source: paradox paper, section 3 (one face, threshold); paired paper, section 3.2 (people by position) and C.2.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, combinations, pairwise, permutations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from biaslab import lexicons, stats
from biaslab.cache.result_cache import ResultCache
from biaslab.errors import ParameterError
from biaslab.execution import progress as signs
from biaslab.hub.image_sources import ImageSource, UnreadableImage, check_image, domain_of
from biaslab.judges import duplicates, model_loading
from biaslab.judges.faces import Face
from biaslab.judges.judge import Judge, People
from biaslab.judges.judge_labels import (
    CORRECT,
    JUDGED,
    RARE_STATUSES,
    STATUSES_OF_ONE,
    SWAPPED,
    UNCERTAIN,
    UNCLEAR,
    WITHHELD,
)
from biaslab.judges.person import Person, whole_image, wider
from biaslab.schema.genders import GENDERS

if TYPE_CHECKING:
    from biaslab.judges.zero_shot import ZeroShot

SHARED = 0.1
"""Faces are ``overlapping`` where two boxes share more than this fraction of the narrower one's columns: they cover
each other, or are one above the other, so that left and right are not clear."""
ROLE_TEXT = "a photo of a/an [OCCUPATION]"
"""The text with which a person is compared to classify roles; ``a/an [OCCUPATION]`` becomes the prompt's phrase."""
ROLE_THRESHOLD = 0.99
"""Minimum probability of an order for it to count: a person of neither phrase can slightly favour one order."""
BOX = ("x0", "y0", "x1", "y1")
NUMBERS = ("probability_female", "n_faces", *BOX, "image_width", "image_height")
COLUMNS = ("image_id", "position", "status", "gender", *NUMBERS, "reason", "answer", "role", "role_p", "boxes")
_LOCATED = ("status", "reason", "n_faces", "image_width", "image_height", *BOX, "boxes", "landmarks", "part")
_FACES = ("image_id", "status", "reason", "n_faces", "image_width", "image_height", "boxes", "landmarks")
_ANSWERED = (
    *("image_id", "position", "status", "gender", "reason", "answer", "probability_female"),
    *("role_p", "role_other", "image_width", "image_height"),
)
_TYPES = dict.fromkeys(("image_id", "status", "gender", "reason", "role", "answer", "landmarks"), str)
_TYPES |= {"position": int, "boxes": object}
_SHARD_ROWS = 1024


def judge_people(
    images: ImageSource,
    requested: pd.DataFrame,
    judge: Judge,
    detector: Judge | None = None,
    *,
    every_face: bool = False,
    cache: ResultCache,
    progress: bool = True,
) -> pd.DataFrame:
    """Judge every person that images were prompted to show; earlier results are read from ``cache``.

    Args:
        images: The images.
        requested: One row per person: image_id, position (1 is the leftmost), and optionally phrase (from the prompt).
        judge: The judge of perceived gender. Its options hold the inclusion criteria: ``min_face_size`` is a share of
            the image's height and, with n people prompted, of an n-th of its width.
        detector: The face detector, for a judge with ``needs_faces``.
        every_face: Whether images prompted for one person show an unknown number: each detected face is a person.

    Returns one row per row of ``requested``, in its order (with ``every_face`` one per face, or for an image without a
    face): image_id, position, status (one of
    :data:`biaslab.judges.judge_labels.STATUSES`), gender (``female``, ``male``, ``unsure`` where uncertain, or empty),
    probability_female (0–1, NaN without a probability), n_faces (in the whole image, NaN where none were detected),
    x0, y0, x1, y1 (this person's face), image_width, image_height (in pixels), reason, answer (the words of a judge
    that answers in words), role (of the whole image: ``correct``, ``swapped``, ``unclear``, or empty without a
    comparison), role_p (0–1: of the prompted order among all orders), boxes (all faces: x0, y0, x1, y1, x0, …).

    Raises InputError where an image is not in the source, or copies of one image are annotated differently; else as the
    methods of the judges.
    """
    detector = detector if judge.needs_faces else None
    people = locate_people(images, requested, detector, every_face=every_face, cache=cache, progress=progress)
    if not judge.needs_images:
        rows = [answer._asdict() for answer in judge.answers(People(people))]
        answers = pd.DataFrame(rows, columns=["gender", "status", "reason"], index=people.index, dtype=object)
        judged = duplicates.drop_duplicates(images, people.assign(**answers), judge.argument)
        return frame(judged.assign(role="", answer="", probability_female=np.nan), COLUMNS)
    included = people[(people["status"] == "") & ~(_too_small(people, judge) & judge.is_charged)]
    return _finish(people, _ask(images, included, judge, cache, progress), judge)


def judge_arrays(
    image_ids: Sequence[str],
    images: Sequence[np.ndarray | UnreadableImage],
    judge: Judge,
    detector: Judge | None = None,
    phrases: Sequence[Sequence[str]] | None = None,
) -> pd.DataFrame:
    """Judge the people of images in memory, as :func:`judge_people`: by default one person per image.

    ``phrases`` are each image's people from left to right.
    """
    phrases = phrases or [["person"]] * len(images)
    rows = [(i, k + 1, text) for i, texts in zip(image_ids, phrases, strict=True) for k, text in enumerate(texts)]
    people = _add_counts(pd.DataFrame(rows, columns=["image_id", "position", "phrase"]))
    image_rows = [open_image(i, image) for i, image in zip(image_ids, images, strict=True)]
    if judge.needs_faces:
        image_rows = _detect(image_ids, images, detector)
    people = _place(people, frame(image_rows, _FACES), with_faces=judge.needs_faces)
    pixels = dict(zip(image_ids, images, strict=True))
    answers = _answer(_units(people[people["status"] == ""]), pixels, judge, "photographs")
    return _finish(people, frame(answers, _ANSWERED), judge)


def locate_people(
    images: ImageSource,
    requested: pd.DataFrame,
    detector: Judge | None,
    *,
    every_face: bool = False,
    cache: ResultCache,
    progress: bool = True,
) -> pd.DataFrame:
    """Return the people that images were prompted to show, with their faces; arguments as for :func:`judge_people`.

    Columns of ``requested``, then people (the number prompted in the image), status (empty where the person has a face
    and a side), reason, n_faces, image_width, image_height, x0, y0, x1, y1, boxes, landmarks (of the person's face) and
    part (the person's columns of the image). Without a detector, statuses are empty and the other columns are missing.
    """
    people = _add_counts(requested)
    if detector is None:
        people = people.reindex(columns=[*people, *_LOCATED])
        return people.assign(status="", reason="", boxes=[[] for _ in range(len(people))])
    faces = find_faces(images, detector, cache=cache, progress=progress)
    if not every_face:
        return _place(people, faces)
    n = people["image_id"].map(faces.set_index("image_id")["n_faces"]).where(people["people"] == 1, 1)
    people = people.loc[people.index.repeat(n.fillna(1).clip(lower=1).astype(int))]
    people = _add_counts(people.assign(position=people.groupby("image_id").cumcount() + 1))
    return _place(people, faces, may_overlap=True)


def find_faces(images: ImageSource, detector: Judge, *, cache: ResultCache, progress: bool = True) -> pd.DataFrame:
    """Return the faces of every image of a source; earlier results are read from ``cache``.

    One row per image, in the order of the table: image_id, status (empty, ``unreadable``, ``blocked``, ``black`` or
    ``duplicate``), reason, n_faces, image_width, image_height, boxes (x0, y0, x1, y1, x0, … in pixels, best first) and
    landmarks (JSON: for each face its points). Raises as the methods of the detector.
    """
    units = pd.DataFrame({"image_id": images.table["image_id"].astype(object).unique()})
    detector = detector.fresh()

    def work(shard: pd.DataFrame) -> pd.DataFrame:
        batches = read_ahead(images, list(shard["image_id"]), detector)
        return frame(chain.from_iterable(_detect(ids, pixel_arrays, detector) for ids, pixel_arrays in batches), _FACES)

    stage = cache.stage("faces", {"images": images.digest} | detector.inputs, work)
    bar = {"label": f"detecting faces in {images.name}", "progress": progress, "gpu": detector.options.device != "cpu"}
    return frame(stage.compute(units, shard_rows=_SHARD_ROWS, **bar), _FACES)


def read_ahead(images: ImageSource, ids: list[str], judge: Judge) -> Iterator[tuple[list[str], list]]:
    """Yield batches of ids with their images, a model's batch or more; the next one is read in the background."""
    batch_size = judge.batch_size or (128 if model_loading.device(judge.options.device).type == "cpu" else 512)
    batches = [ids[k : k + batch_size] for k in range(0, len(ids), batch_size)]
    with ThreadPoolExecutor(1) as pool:
        next_images = pool.submit(images.read, batches[0])
        for batch, next_batch in zip(batches, [*batches[1:], None], strict=True):
            pixel_arrays = next_images.result()
            if next_batch is not None:
                next_images = pool.submit(images.read, next_batch)
            signs.begin_batch(len(batch))
            yield batch, pixel_arrays
            signs.count(1)


def open_image(image_id: str, image: np.ndarray | UnreadableImage) -> dict:
    """Return the row of an image before it is judged: its size, or the reason why it cannot be judged."""
    row = {"image_id": image_id, "status": "", "reason": "", "image_width": np.nan, "image_height": np.nan}
    if isinstance(image, UnreadableImage):
        reason = image.reason
        return row | ({"status": reason} if reason in WITHHELD else {"status": "unreadable", "reason": reason})
    height, width = check_image(image, f"image {image_id!r}").shape[:2]
    return row | {"image_width": width, "image_height": height}


def classify_images(
    image_ids: Sequence[str], images: Sequence[np.ndarray | UnreadableImage], classify: Callable[[list], Sequence]
) -> tuple[list[dict], dict[int, Any]]:
    """Return the rows of images, and the results of ``classify`` for readable images, by index in the list."""
    rows = [open_image(image_id, image) for image_id, image in zip(image_ids, images, strict=True)]
    readable = [k for k, row in enumerate(rows) if not row["status"]]
    results = classify([images[k] for k in readable]) if readable else []
    return rows, dict(zip(readable, results, strict=True))


# -- faces -------------------------------------------------------------------------------------------------


def _detect(image_ids: Sequence[str], images: Sequence[np.ndarray | UnreadableImage], detector: Judge) -> list[dict]:
    rows, faces_by_image = classify_images(image_ids, images, detector.faces)
    for row in rows:
        row.update(boxes=[], landmarks="")
    for k, faces in faces_by_image.items():
        boxes = [float(value) for face in faces for value in face[:4]]
        landmarks = [[list(map(float, point)) for point in face.landmarks] for face in faces]
        rows[k].update(n_faces=len(faces), boxes=boxes, landmarks=json.dumps(landmarks))
    return rows


def _add_counts(requested: pd.DataFrame) -> pd.DataFrame:
    """Return people with typed keys, a phrase, and the number of people prompted in their image."""
    people = requested.reset_index(drop=True)
    people = people.assign(image_id=people["image_id"].astype(str), position=people["position"].astype(int))
    if "phrase" not in people:
        people["phrase"] = "person"
    return people.assign(people=people.groupby("image_id")["position"].transform("max"))


def _place(
    people: pd.DataFrame, faces: pd.DataFrame, *, with_faces: bool = True, may_overlap: bool = False
) -> pd.DataFrame:
    """Return people with their faces, assigned from left to right."""
    by_image = {row["image_id"]: row for row in faces.to_dict("records")}
    rows = []
    for image_id, position, n in zip(people["image_id"], people["position"], people["people"], strict=True):
        image = by_image[image_id]
        row = {name: image[name] for name in _LOCATED if name in image} | {"landmarks": [], "part": None}
        row["boxes"] = image["boxes"] if with_faces else []
        if not row["status"] and with_faces:
            boxes = np.reshape(image["boxes"], (-1, 4))
            landmarks = json.loads(image["landmarks"])
            image_faces = [
                Face(*box, 1.0, tuple(map(tuple, points))) for box, points in zip(boxes, landmarks, strict=True)
            ]
            image_faces.sort(key=lambda face: face.x0 + face.x1)
            row["status"] = check_faces(image_faces, n)
            if may_overlap and row["status"] == "overlapping":
                row["status"] = ""
            if not row["status"]:
                face, part = image_faces[position - 1], parts(image_faces, int(image["image_width"]))[position - 1]
                row |= dict(zip(BOX, face[:4], strict=True)) | {"landmarks": face.landmarks, "part": part}
        rows.append(row)
    located = pd.DataFrame(rows, columns=list(_LOCATED), index=people.index)
    return people.assign(**located)


def large_enough(x0, y0, x1, y1, width, height, min_face_size: float = 0.1, people=1):
    """Return whether boxes, in pixels, cover at least ``min_face_size`` of the height, and of each person's share of
    the width.
    """
    # Boxes are floats; the tolerance lets a face of exactly the limit count despite rounding.
    tolerance = 1e-6
    return (x1 - x0 >= min_face_size * width / people - tolerance) & (y1 - y0 >= min_face_size * height - tolerance)


def check_faces(faces: Sequence[Face], people: int) -> str:
    """Return why the people of an image have no label: ``no_face``, ``one_face`` (fewer faces than people),
    ``several_faces`` or ``overlapping``; ``""`` where each person has a face and a side.
    """
    if len(faces) != people:
        return "no_face" if not faces else "one_face" if len(faces) < people else "several_faces"
    for a, b in combinations(faces, 2):
        overlap = min(a.x1, b.x1) - max(a.x0, b.x0)
        # Boxes are floats; the tolerance keeps an overlap of exactly the limit allowed despite rounding.
        if overlap > SHARED * min(a.x1 - a.x0, b.x1 - b.x0) + 1e-6:
            return "overlapping"
    return ""


def parts(faces: Sequence[Face], width: int) -> list[tuple[int, int]]:
    """Return each person's columns of an image, the first and the one after the last; faces are from left to right.

    They end half-way between two faces, or at the start of the next face if boxes share a few columns. If faces
    overlap (:func:`check_faces`), as in a crowd, each person's columns are those of the face.
    """
    if check_faces(faces, len(faces)) == "overlapping":
        return [(max(int(face.x0), 0), min(max(int(np.ceil(face.x1)), int(face.x0) + 1), width)) for face in faces]
    ends, starts = [], [0]
    for left, right in pairwise(faces):
        middle = (left.x1 + right.x0) / 2
        ends.append(int(np.floor(min(middle, right.x0))))
        starts.append(int(np.ceil(max(middle, left.x1))))
    starts = [min(start, width - 1) for start in starts]
    return [(start, max(end, start + 1)) for start, end in zip(starts, [*ends, width], strict=True)]


def add_parts(people: pd.DataFrame) -> pd.DataFrame:
    """Return people with ``first`` and ``last``: the bounds of their columns in an image of several people.

    ``people`` has image_id, x0, y0, x1, y1 (NaN without a face), and for images of several people position and
    image_width.
    """
    people = people.assign(first=np.nan, last=np.nan)
    with_face = people[people[list(BOX)].notna().all(axis=1)]
    in_groups = with_face[with_face["image_id"].duplicated(keep=False)]
    for _, rows in in_groups.groupby("image_id", sort=False):
        rows = rows.sort_values("position")
        faces = [Face(*box, 1.0) for box in rows[list(BOX)].to_numpy(float)]
        people.loc[rows.index, ["first", "last"]] = parts(faces, int(rows["image_width"].iloc[0]))
    return people


def cut_out(image: np.ndarray, row: dict) -> Person:
    """Return the person of a row of :func:`add_parts` with x0, y0, x1, y1; without a face, the whole image."""
    box = tuple(row[c] for c in BOX)
    if np.isnan(box).any():
        return whole_image(image)
    part = None if np.isnan(row["first"]) else (int(row["first"]), int(row["last"]))
    options = {"position": row.get("position", 1), "people": row.get("people", 1), "phrase": row.get("phrase", "")}
    return Person(image, box, part=part, **options)


# -- answers -----------------------------------------------------------------------------------------------


def _ask(images: ImageSource, people: pd.DataFrame, judge: Judge, cache: ResultCache, progress: bool) -> pd.DataFrame:
    """Return the answers about people with a face, or for a judge that needs none."""
    image_domain, judge = domain_of(images), judge.fresh()

    def work(shard: pd.DataFrame) -> pd.DataFrame:
        rows: list[dict] = []
        for ids, pixel_arrays in read_ahead(images, list(shard["image_id"]), judge):
            batch = shard[shard["image_id"].isin(ids)]
            rows += _answer(batch, dict(zip(ids, pixel_arrays, strict=True)), judge, image_domain)
        return frame(rows, _ANSWERED)

    stage = cache.stage("people", {"images": images.digest} | judge.inputs, work)
    gpu = not judge.is_charged and judge.options.device != "cpu"
    bar = {"label": f"judging people of {images.name}", "progress": progress, "gpu": gpu}
    return frame(stage.compute(_units(people), shard_rows=_SHARD_ROWS, **bar), _ANSWERED)


def _units(people: pd.DataFrame) -> pd.DataFrame:
    """Return one row per image: image_id, and its people as JSON."""
    rows: dict[str, list] = {}
    columns = zip(
        *(people[c] for c in ("image_id", "position", "people", "phrase", *BOX, "landmarks", "part")), strict=True
    )
    for image_id, position, n, phrase, *box, landmarks, part in columns:
        located = {"box": box, "landmarks": landmarks, "part": part} if isinstance(part, tuple) else {}
        rows.setdefault(image_id, []).append({"position": int(position), "people": int(n), "phrase": phrase, **located})
    return pd.DataFrame({"image_id": list(rows), "people": [json.dumps(row) for row in rows.values()]}, dtype=object)


def _answer(units: pd.DataFrame, pixels: dict[str, Any], judge: Judge, image_domain: str) -> list[dict]:
    """Return the answers about the people of ``units``, one row per person."""
    rows, persons = [], []
    for image_id, text in zip(units["image_id"], units["people"], strict=True):
        image_row = open_image(image_id, pixels[image_id])
        for person in json.loads(text):
            rows.append(image_row | {"position": person["position"], "phrase": person["phrase"]})
            if not image_row["status"]:
                located = {k: tuple(v) if k == "part" else v for k, v in person.items()}
                located["landmarks"] = tuple(map(tuple, person.get("landmarks", ())))
                box = tuple(person.get("box", (0.0, 0.0, image_row["image_width"], image_row["image_height"])))
                persons.append(Person(pixels[image_id], **located | {"box": tuple(map(float, box))}))
    readable = [row for row in rows if not row["status"]]
    table = pd.DataFrame(readable, columns=["image_id", "position", "phrase"])
    answers = judge.answers(People(table, persons, image_domain)) if persons else []
    for row, answer in zip(readable, answers, strict=True):
        fields = answer._asdict()
        row.update(fields, answer=fields.pop("text"))
    if classifier := judge.classifier:
        persons_by_image: dict[str, list[Person]] = {}
        for row, person in zip(readable, persons, strict=True):
            persons_by_image.setdefault(row["image_id"], []).append(person)
        # Single people, and people with the same phrase, have no order.
        complete = {i: group for i, group in persons_by_image.items() if len(group) == group[0].people}
        orders = _orders({i: group for i, group in complete.items() if len({p.phrase for p in group}) > 1}, classifier)
        for row in readable:
            row.update(orders.get(row["image_id"], {}))
    return rows


def _too_small(people: pd.DataFrame, judge: Judge) -> pd.Series:
    """Return whether each person's face is too small for a judge that needs faces."""
    sizes = (people[name].astype(float) for name in (*BOX, "image_width", "image_height"))
    large = large_enough(*sizes, judge.options.judging.min_face_size, people["people"])
    return (people["status"] == "") & ~large & judge.needs_faces


def _finish(people: pd.DataFrame, answers: pd.DataFrame, judge: Judge) -> pd.DataFrame:
    """Return judgements: the answers about people after the inclusion criteria."""
    keys = ["image_id", "position"]
    answers = answers.set_index(keys).reindex(pd.MultiIndex.from_frame(people[keys])).reset_index(drop=True)
    is_included, too_small = people["status"] == "", _too_small(people, judge)
    sizes = {name: people[name].where(people[name].notna(), answers[name]) for name in ("image_width", "image_height")}
    by_threshold = decide(answers["probability_female"].to_numpy(float), judge.options.judging.threshold)
    texts = answers[["status", "gender", "reason", "answer"]].fillna("")
    status = texts["status"].where(texts["status"] != "", np.where(by_threshold == "unsure", UNCERTAIN, JUDGED))
    # An answer with a status has its own gender, possibly empty; any other is decided by its probability.
    gender = texts["gender"].where(texts["status"] != "", by_threshold)
    is_answered = is_included & ~too_small
    roles = [answers["role_p"] >= ROLE_THRESHOLD, answers["role_other"] >= ROLE_THRESHOLD]
    return frame(
        people.assign(
            **sizes,
            status=np.select([too_small, is_answered], ["face_too_small", status], people["status"]),
            gender=gender.where(is_answered, ""),
            probability_female=answers["probability_female"].where(is_answered),
            reason=texts["reason"].where(is_included, people["reason"]),
            answer=texts["answer"],
            role=np.select([answers["role_p"].isna(), *roles], ["", CORRECT, SWAPPED], UNCLEAR),
            role_p=answers["role_p"],
        ),
        COLUMNS,
    )


def decide(probability_female: np.ndarray, threshold: float = 0.9) -> np.ndarray:
    """Return genders for probabilities of perceived as female, an object array of the same shape: at least
    ``threshold`` is female, at most ``1 - threshold`` is male, and all others, including NaN, are unsure.
    """
    probability_female = np.asarray(probability_female, float)
    conditions = [probability_female >= threshold, 1 - probability_female >= threshold]
    return np.select(conditions, GENDERS, "unsure").astype(object)


# -- roles -------------------------------------------------------------------------------------------------


def _orders(persons_by_image: dict[str, list[Person]], classifier: ZeroShot) -> dict[str, dict]:
    """Return role_p and role_other of images from their people from left to right, or the reason for their absence."""
    phrases = {image_id: [person.phrase for person in persons] for image_id, persons in persons_by_image.items()}
    texts = {phrase: lexicons.fill(ROLE_TEXT, phrase) for names in phrases.values() for phrase in names}
    unknown = {}
    for phrase, text in texts.items():
        try:
            classifier.text_embeddings([text])
        except ParameterError as error:
            unknown[phrase] = f"roles: {error}"
    reasons = {image_id: next((unknown[p] for p in names if p in unknown), "") for image_id, names in phrases.items()}
    orders = {image_id: {"reason": reason} for image_id, reason in reasons.items() if reason}
    views, rows_by_image = [], {}
    for image_id in (image_id for image_id, reason in reasons.items() if not reason):
        rows_by_image[image_id] = slice(len(views), len(views) + len(phrases[image_id]))
        views += [wider(person, side=classifier.side) for person in persons_by_image[image_id]]
    known_phrases = [phrase for phrase in texts if phrase not in unknown]
    logits = classifier.logits(views, [texts[phrase] for phrase in known_phrases]) if views else None
    for image_id, rows in rows_by_image.items():
        image_logits = logits[rows][:, [known_phrases.index(phrase) for phrase in phrases[image_id]]]
        orders[image_id] = dict(
            zip(("role_p", "role_other"), order_probabilities(image_logits, phrases[image_id]), strict=True)
        )
    return orders


def order_probabilities(logits: np.ndarray, phrases: Sequence[str]) -> tuple[float, float]:
    """Return the probability of the prompted order of people, and of the likeliest other order, each 0–1.

    Logits are ``(n, n)``: people from left to right by phrases in the prompted order. The logit of an order is the sum
    over its people.
    """
    n = len(phrases)
    sums = {
        tuple(phrases[j] for j in indices): float(logits[np.arange(n), list(indices)].sum())
        for indices in permutations(range(n))
    }
    values = np.array([sums.pop(tuple(phrases)), *sums.values()])
    p = np.exp(values - values.max())
    p /= p.sum()
    return float(p[0]), float(p[1:].max())


# -- tables ------------------------------------------------------------------------------------------------


def count_statuses(judgements: pd.DataFrame, by: Sequence[str], *, confidence: float = 0.95) -> pd.DataFrame:
    """Count the statuses of judgements of images of one person (:func:`judge_people`, with the columns ``by``).

    One row per combination of ``by`` and status (:data:`RARE_STATUSES` only if they occur): ``by``, status, n,
    n_images (of the combination), percent (0–100 of n_images), ci_low, ci_high (Wilson).
    """
    present = set(judgements["status"])
    names = [status for status in STATUSES_OF_ONE if status not in RARE_STATUSES or status in present]
    counts = judgements.groupby([*by, "status"], observed=True).size().unstack(fill_value=0)
    counts = counts.reindex(columns=names, fill_value=0).rename_axis(columns="status").stack()
    counts = counts.rename("n").reset_index()
    counts["n_images"] = counts.groupby(list(by), observed=True)["n"].transform("sum")
    percent, low, high = stats.percent(counts["n"], counts["n_images"], confidence)
    return counts.assign(percent=percent, ci_low=low, ci_high=high)


def frame(rows: Iterable[dict] | pd.DataFrame, columns: Sequence[str] = COLUMNS) -> pd.DataFrame:
    """Return rows of judgements as a table with these columns, whose types do not depend on the rows."""
    table = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(list(rows))
    return table.reindex(columns=list(columns)).astype({c: _TYPES.get(c, float) for c in columns})
