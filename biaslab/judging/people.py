"""Judge the people of an image one by one, by position: who is where, and which gender each is perceived as.

An image must show as many faces as people were asked for, side by side. They are ordered from left to right, each
person is cut out so that no other's face is seen, and judged as :mod:`biaslab.judging.judge` judges a picture of one
person. Where an image does not show that, all its people have a labelled reason instead of a gender. Whether the
people stand in the order asked for is looked at apart: an open_clip model compares every person with the texts of
all phrases, and of the ways to put phrases to people (two for two people, six for three) the best fits.

Order and gender are not independent judgements of a model that has learned stereotypes: a CLIP model for which a
nurse is a woman is surer of the order where the nurse looks like one.

Source: paired paper, section 3.2 (people told apart by position) and C.2 (what goes wrong).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import combinations, pairwise, permutations
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from biaslab import lexicons
from biaslab.errors import InputError, ParameterError
from biaslab.judging import judge as alone
from biaslab.judging import loaded
from biaslab.judging.faces import Face, large_enough
from biaslab.judging.fairface import cut_out
from biaslab.judging.images import BLOCKED, ImageSource, Unreadable, check_image
from biaslab.judging.judge import JUDGED, RATINGS, Judge, JudgeSettings, decide

if TYPE_CHECKING:
    from biaslab.judging.zero_shot import ZeroShot
    from biaslab.store import Store

OUTCOMES = (
    JUDGED,
    "uncertain",
    "no_face",
    "one_face",
    "too_many_faces",
    "overlapping",
    "face_too_small",
    "unreadable",
    BLOCKED,
    "unrated",
)
"""``judged`` (female or male), or why not. Of one person: ``uncertain``, ``face_too_small``. Of a whole image:
``no_face``; ``one_face`` (fewer than people asked for; of three asked for it may be two, ``n_faces`` says it);
``too_many_faces``; ``overlapping`` (:attr:`PeopleSettings.shared`); ``unreadable``; ``blocked``. ``unrated`` is of
people's ratings only."""
RIGHT, SWAPPED, UNCLEAR = ROLES = ("right", "swapped", "unclear")
MOST_PEOPLE = 5
"""People that may be asked for in one image: there are 120 ways to put five phrases to five people."""
_BOX = ("x0", "y0", "x1", "y1")
_NUMBERS = ("p_female", "n_faces", *_BOX, "image_width", "image_height")
COLUMNS = ("image_id", "position", "outcome", "gender", *_NUMBERS, "reason", "role", "role_p")
_SEEN = ("image_id", "position", "people", "outcome", *_NUMBERS, "reason", "role_p", "role_other")
# The texts that roles are compared with are filled in by the lexicons.
_SHARD_ROWS = 1024


@dataclass(frozen=True)
class PeopleSettings:
    """How people are told apart and cut out of an image of several."""

    face_share: float = 0.3
    """Share of the height of the square cut out for a person that the face's box takes, above 0, to 1. At 0.3 it
    shows head and shoulders, as a picture of one person does."""
    face_height: float = 0.43
    """Where in that square the middle of the face is, from 0 (top) to 1. From half-way to the next face, and beyond
    the image, the last column or row is repeated. Roles are looked for in another square: as wide as the person's
    part of the image (up to half-way to the next face), the face as high in it."""
    shared: float = 0.1
    """Faces are ``overlapping`` where two boxes share more than this part, 0 to 0.5, of the narrower one's columns:
    they cover each other, or stand one above the other, and left and right are not clear."""
    role_text: str = "a photo of a/an [OCCUPATION]"
    """What a person is compared with to see who is who; ``a/an [OCCUPATION]`` becomes the phrase asked for."""
    role_threshold: float = 0.99
    """Least probability of an order for it to count as ``right`` or ``swapped``, from 0.5 to 1. It is high because
    somebody of neither phrase, or the same one twice, can still look a little more like one order."""

    def __post_init__(self) -> None:
        limits = {"face_height": (0, 1), "shared": (0, 0.5), "role_threshold": (0.5, 1)}
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ParameterError(f"{name} is {value!r}; allowed is {low} to {high}.")
        if not 0 < self.face_share <= 1:
            raise ParameterError(f"face_share is {self.face_share!r}; allowed is above 0, to 1.")
        lexicons.fill(self.role_text, "nurse")


PEOPLE = PeopleSettings()


def judge_people(
    images: ImageSource,
    asked: pd.DataFrame,
    settings: JudgeSettings,
    *,
    store: Store,
    device: str = "auto",
    progress: bool = True,
    people: PeopleSettings = PEOPLE,
    models: Callable[[JudgeSettings, str], Judge] = alone.load,
) -> pd.DataFrame:
    """Judge everyone whom images were to show; what was judged before is read again.

    Where one person is asked for, the outcome is :func:`biaslab.judging.judge.judge`'s, but that several faces are
    ``too_many_faces``. The limit ``min_face`` is a share of the image's height and, where n people are asked for,
    of an n-th of its width.

    Args:
        images: Where the images come from.
        asked: Whom to look for: image_id, position (1 is the leftmost), phrase (as the prompt says it, such as
            ``carpenter manager``); one row per person.
        settings: How each person is judged.
        store: Where judgements are kept.
        device: Where the models run.
        progress: Whether a bar shows how far it is.
        people: How people are told apart and cut out.
        models: What loads the models; it is called when an image must be judged, and not before.

    Returns:
        One row per row of ``asked``, in its order: image_id, position, outcome (one of :data:`OUTCOMES`), gender
        (``female``, ``male``, ``unsure`` where uncertain, else empty), p_female (0–1, NaN where nobody was judged),
        n_faces (in the whole image), x0, y0, x1, y1 (this person's face, NaN where it is not clear whose is whose),
        image_width, image_height (all in pixels), reason (of unreadable images, and why roles could not be looked
        for), role (of the whole image: ``right``, ``swapped``: in another order, ``unclear``, or empty where it was
        not looked for: one person, the same phrase for all, no open_clip model, or words that it does not know),
        role_p (0–1: the probability of the order asked for among all orders, NaN where not looked for).

    Raises:
        InputError: ``asked`` lacks a column, names an image that the source does not have, or positions that are
            not 1, 2, … up to :data:`MOST_PEOPLE`.
        ParameterError: A model is unknown or cannot be used.
        MissingInputError: A file or package is not there.
    """
    if settings.gender.startswith(RATINGS):
        raise ParameterError(
            f"gender is {settings.gender!r}: raters judge people without a look at the images. Read the file with "
            "biaslab.judging.person_ratings, or name a model of gender."
        )
    units = _units(asked, images)
    if units.empty:
        return _decided(_frame([]), settings, people)
    ready = cache(lambda: models(settings, device))
    kept = asdict(people)
    # What decides upon answers that are kept, as in judge().
    kept.pop("role_threshold")
    inputs = {**alone.inputs_of(images, settings), "people": kept}

    def work(shard: pd.DataFrame) -> pd.DataFrame:
        return _look_at_shard(shard, images, settings.batch_size, device, people, ready)

    seen = store.stage("people", inputs, work).compute(
        units,
        shard_rows=_SHARD_ROWS,
        label=f"judging people of {images.name}",
        progress=progress,
    )
    order = pd.MultiIndex.from_arrays([asked["image_id"].astype(str), asked["position"].astype(int)])
    seen = seen.set_index(["image_id", "position"]).loc[order].reset_index()
    return _decided(seen, settings, people)


def check_asked(asked: pd.DataFrame, *, most: int = MOST_PEOPLE) -> dict[str, list[str]]:
    """Return whom each image is to show: the phrases from left to right, by image id.

    Args:
        asked: image_id, position (1 is the leftmost), phrase; one row per person.
        most: People of one image at most.

    Raises:
        InputError: A column or a phrase is missing, or the positions of an image are not 1, 2, … up to ``most``.
    """
    for column in ("image_id", "position", "phrase"):
        if column not in asked:
            raise InputError(
                f"The people asked for have no column {column!r}; give image_id, position, phrase."
            )
    nameless = asked["phrase"].isna() | (asked["phrase"].astype(str).str.strip() == "")
    if nameless.any():
        row = asked[nameless].iloc[0]
        raise InputError(
            f"Image {row['image_id']!r} has no phrase at position {row['position']}; say whom it asks for, such as "
            "'nurse'."
        )
    by_image: dict[str, dict[object, str]] = {}
    columns = (asked["image_id"].astype(str), asked["position"], asked["phrase"].astype(str))
    for image_id, position, phrase in zip(*columns, strict=True):
        told = by_image.setdefault(image_id, {})
        if position in told:
            raise InputError(
                f"Image {image_id!r} asks for two people at position {position!r}; give each one."
            )
        told[position] = " ".join(phrase.split())
    for image_id, told in by_image.items():
        if set(told) != set(range(1, len(told) + 1)) or len(told) > most:
            raise InputError(
                f"Image {image_id!r} asks for people at positions {', '.join(map(repr, told))}; positions are whole "
                f"numbers: 1 (the leftmost), 2, … without a gap, at most {most}."
            )
    return {i: [told[k + 1] for k in range(len(told))] for i, told in by_image.items()}


def _units(asked: pd.DataFrame, images: ImageSource) -> pd.DataFrame:
    """Return one row per image: image_id, its phrases from left to right, and whether it was withheld."""
    by_image = check_asked(asked)
    table = images.table
    known = set(table["image_id"].astype(str))
    unknown = [i for i in by_image if i not in known]
    if unknown:
        raise InputError(f"{images.name} has no image {unknown[0]!r}; its table lists those it has.")
    phrases = [json.dumps(told) for told in by_image.values()]
    units = pd.DataFrame({"image_id": list(by_image), "phrases": phrases}, dtype=object)
    if "outcome" in table:  # A generated image that was withheld is known without reading it.
        withheld = set(table.loc[table["outcome"] == BLOCKED, "image_id"].astype(str))
        units["blocked"] = units["image_id"].isin(withheld).to_numpy()
    return units


def _look_at_shard(
    shard: pd.DataFrame, images: ImageSource, batch_size: int, device: str, people: PeopleSettings, ready
) -> pd.DataFrame:
    phrases = dict(zip(shard["image_id"], map(json.loads, shard["phrases"]), strict=True))
    blocked = shard["blocked"] if "blocked" in shard else pd.Series(False, index=shard.index)
    rows = {k: _rows(k, len(phrases[k]), BLOCKED) for k in shard.loc[blocked, "image_id"]}
    wanted = list(shard.loc[~blocked, "image_id"])
    if wanted:
        judges = ready()
        step = batch_size or loaded.batch_on(loaded.device(device))
        for some, read in alone.read_ahead(images, wanted, step):
            rows.update(zip(some, _look(some, [phrases[k] for k in some], read, judges, people), strict=True))
    return _frame(row for k in shard["image_id"] for row in rows[k])


def judge_people_images(
    image_ids: Sequence[str],
    phrases: Sequence[Sequence[str]],
    images: Sequence[np.ndarray | Unreadable],
    judges: Judge,
    settings: JudgeSettings,
    people: PeopleSettings = PEOPLE,
) -> pd.DataFrame:
    """Judge people of images in memory, all at once.

    Args:
        image_ids: The images' ids.
        phrases: For each image whom it is to show, from left to right.
        images: ``uint8 (height, width, 3)`` RGB, of any sizes.
        judges: The models.
        settings: The limits.
        people: How people are told apart and cut out.

    Returns:
        One row per image and person, in order, with the columns of :func:`judge_people`.
    """
    seen = _look(image_ids, phrases, images, judges, people)
    return _decided(_frame(row for rows in seen for row in rows), settings, people)


# -- what the models see -----------------------------------------------------------------------------------


def _look(
    image_ids: Sequence[str],
    phrases: Sequence[Sequence[str]],
    images: Sequence[np.ndarray | Unreadable],
    judges: Judge,
    people: PeopleSettings,
) -> list[list[dict]]:
    """Return each image's people: faces, the probability of perceived as female, and of the order."""
    out = [_rows(k, len(told), "") for k, told in zip(image_ids, phrases, strict=True)]
    seen = []
    for k, image in enumerate(images):
        if isinstance(image, Unreadable):
            was_blocked = image.reason == BLOCKED
            outcome, reason = (BLOCKED, "") if was_blocked else ("unreadable", image.reason)
            _tell(out[k], outcome=outcome, reason=reason)
        else:
            height, width = check_image(image, f"image {image_ids[k]!r}").shape[:2]
            _tell(out[k], image_width=width, image_height=height)
            seen.append(k)
    standing: dict[int, list[Face]] = {}
    for k, found in zip(seen, judges.faces.faces([images[k] for k in seen]) if seen else [], strict=True):
        faces = sorted(found, key=lambda face: face.x0 + face.x1)
        outcome = gate(faces, len(phrases[k]), people.shared)
        _tell(out[k], n_faces=len(faces), outcome=outcome)
        if not outcome:
            standing[k] = faces
            for row, face in zip(out[k], faces, strict=True):
                row.update(zip(_BOX, alone.corners(face), strict=True))
    side = getattr(judges.gender, "side", 0)
    shown = []
    for k, faces in standing.items():
        for face, part in zip(faces, parts(faces, images[k].shape[1]), strict=True):
            if judges.gender.sees == "face":
                shown.append(cut_out(images[k], alone.corners(face), within=part))
            elif len(faces) == 1:
                shown.append(images[k])
            else:
                shown.append(head_and_shoulders(images[k], face, part, people, side=side))
    if shown:
        rows = [row for k in standing for row in out[k]]
        for row, p in zip(rows, judges.gender.p_female(shown), strict=True):
            row["p_female"] = float(p)
    classifier = getattr(judges.gender, "classifier", None)
    if classifier is not None:
        told = [k for k in standing if len(set(phrases[k])) > 1]
        _look_at_roles({k: phrases[k] for k in told}, images, standing, out, classifier, people)
    return out


def gate(faces: Sequence[Face], people: int, shared: float = PEOPLE.shared) -> str:
    """Return why the people of an image are not judged, or ``""`` where each has a face and a side.

    Args:
        faces: All faces found in the image.
        people: How many people were asked for, at least 1.
        shared: As in :class:`PeopleSettings`.

    Returns:
        ``""``, ``"no_face"``, ``"one_face"`` (fewer than people), ``"too_many_faces"`` or ``"overlapping"``.
    """
    if len(faces) != people:
        return "no_face" if not faces else "one_face" if len(faces) < people else "too_many_faces"
    for a, b in combinations(faces, 2):
        both = min(a.x1, b.x1) - max(a.x0, b.x0)
        # Boxes come as floats: the limit itself is still clear, whatever rounding does to it.
        if both > shared * min(a.x1 - a.x0, b.x1 - b.x0) + 1e-6:
            return "overlapping"
    return ""


def parts(faces: Sequence[Face], width: int) -> list[tuple[int, int]]:
    """Return each person's columns of an image, the first and the one after the last.

    They end half-way between two faces, or where the other's face begins if boxes share columns.

    Args:
        faces: The faces from left to right, none of them overlapping (:func:`gate`).
        width: The image's width in pixels.
    """
    ends, starts = [], [0]
    for left, right in pairwise(faces):
        middle = (left.x1 + right.x0) / 2
        ends.append(int(np.floor(min(middle, right.x0))))
        starts.append(int(np.ceil(max(middle, left.x1))))
    starts = [min(start, width - 1) for start in starts]
    return [(start, max(end, start + 1)) for start, end in zip(starts, [*ends, width], strict=True)]


def head_and_shoulders(
    image: np.ndarray,
    face: Face,
    within: tuple[int, int],
    people: PeopleSettings = PEOPLE,
    *,
    side: int = 0,
) -> np.ndarray:
    """Return the square around a face that shows what a picture of that person alone would.

    Args:
        image: ``uint8 (height, width, 3)``.
        face: The face, in pixels.
        within: The person's columns (:func:`parts`); beyond them the last one is repeated.
        people: How large the square is.
        side: Pixels on a side of the result; 0 leaves them as they are cut.

    Returns:
        ``uint8 (side, side, 3)``.
    """
    size = max(1, round((face.y1 - face.y0) / people.face_share))
    left = round((face.x0 + face.x1) / 2 - size / 2)
    top = round((face.y0 + face.y1) / 2 - people.face_height * size)
    return _square(image, left, top, size, within, side)


def wider(
    image: np.ndarray, face: Face, within: tuple[int, int], people: PeopleSettings = PEOPLE, *, side: int = 0
) -> np.ndarray:
    """Return the square that is as wide as a person's part of the image: what is worn and held, beside the face.

    Arguments and result as for :func:`head_and_shoulders`. Nothing is repeated: where the image is lower than the
    part is wide, the square is as high as the image.
    """
    height, (first, last) = image.shape[0], within
    size = min(height, last - first)
    left = min(max(round((face.x0 + face.x1 - size) / 2), first), last - size)
    top = min(max(round((face.y0 + face.y1) / 2 - people.face_height * size), 0), height - size)
    return _square(image, left, top, size, within, side)


def _square(
    image: np.ndarray, left: int, top: int, size: int, within: tuple[int, int], side: int
) -> np.ndarray:
    columns = np.clip(np.arange(left, left + size), within[0], within[1] - 1)
    rows = np.clip(np.arange(top, top + size), 0, image.shape[0] - 1)
    out = image[rows[:, None], columns[None, :]]
    if not side or side == size:
        return out
    from PIL import Image

    # To the size that the model takes: people are cut out at many sizes, and go through it together.
    return np.asarray(Image.fromarray(out).resize((side, side), Image.Resampling.BICUBIC))


def _look_at_roles(
    phrases: dict[int, Sequence[str]],
    images: Sequence[np.ndarray],
    standing: dict[int, list[Face]],
    out: list[list[dict]],
    classifier: ZeroShot,
    people: PeopleSettings,
) -> None:
    """Note the probability of the order asked for in the rows of ``out``, for the images in ``phrases``."""
    texts = {p: lexicons.fill(people.role_text, p) for told in phrases.values() for p in told}
    unknown = _unknown(texts, classifier)
    for k, told in phrases.items():
        if why := [unknown[p] for p in told if p in unknown]:
            _tell(out[k], reason=f"roles: {why[0]}")
    clear = [k for k, told in phrases.items() if not any(p in unknown for p in told)]
    if not clear:
        return
    said = [p for p in texts if p not in unknown]
    column = {p: j for j, p in enumerate(said)}
    side = getattr(classifier, "side", 0)
    shown = [
        wider(images[k], face, part, people, side=side)
        for k in clear
        for face, part in zip(standing[k], parts(standing[k], images[k].shape[1]), strict=True)
    ]
    logits = classifier.logits(shown, [texts[p] for p in said])
    at = 0
    for k in clear:
        told = phrases[k]
        own = logits[at : at + len(told)][:, [column[p] for p in told]]
        at += len(told)
        here, other = order(own, told)
        _tell(out[k], role_p=here, role_other=other)


def _unknown(texts: dict[str, str], classifier: ZeroShot) -> dict[str, str]:
    """Return the phrases whose texts the classifier does not know, with why."""
    try:
        classifier.text_embeddings(list(texts.values()))
        return {}
    except ParameterError:
        found = {}
    for phrase, text in texts.items():
        try:
            classifier.text_embeddings([text])
        except ParameterError as error:
            found[phrase] = str(error)
    return found


def order(logits: np.ndarray, phrases: Sequence[str]) -> tuple[float, float]:
    """Return the probability that people stand as asked, and of the likeliest other order, each 0–1.

    An order's logit is the sum of the logits of each person with the phrase at that place; what all people share,
    such as the background, is in every sum and decides nothing. Phrases that occur twice make fewer orders.

    Args:
        logits: People from left to right by phrases in the order asked for, ``(n, n)``.
        phrases: The phrases.
    """
    n = len(phrases)
    sums = {
        tuple(phrases[j] for j in way): float(logits[np.arange(n), list(way)].sum())
        for way in permutations(range(n))
    }
    values = np.array([sums.pop(tuple(phrases)), *sums.values()])
    weights = np.exp(values - values.max())
    p = weights / weights.sum()
    return float(p[0]), float(p[1:].max())


# -- what is decided upon that -----------------------------------------------------------------------------


def _decided(seen: pd.DataFrame, settings: JudgeSettings, people: PeopleSettings) -> pd.DataFrame:
    """Return judgements: what the models saw, with the limits."""
    standing = seen["outcome"] == ""
    sizes = [seen[c] for c in (*_BOX, "image_width", "image_height")]
    large = large_enough(*sizes, settings.min_face, people=seen["people"])
    said = [decide(p, settings.threshold) for p in seen["p_female"]]
    outcome, gender = (pd.Series([s[k] for s in said], index=seen.index, dtype=object) for k in (0, 1))
    role = np.select(
        [
            seen["role_p"].isna(),
            seen["role_p"] >= people.role_threshold,
            seen["role_other"] >= people.role_threshold,
        ],
        ["", RIGHT, SWAPPED],
        UNCLEAR,
    )
    out = seen.assign(
        outcome=outcome.where(standing & large, seen["outcome"].where(~standing, "face_too_small")),
        gender=gender.where(standing & large, ""),
        p_female=seen["p_female"].where(standing & large),
        role=role,
    )
    texts = dict.fromkeys(("outcome", "gender", "role"), str)
    return out[list(COLUMNS)].astype(texts)


def _frame(rows) -> pd.DataFrame:
    made = pd.DataFrame(list(rows), columns=list(_SEEN))
    numbers = dict.fromkeys((*_NUMBERS, "role_p", "role_other"), float)
    texts = dict.fromkeys(("image_id", "outcome", "reason"), str)
    return made.astype(numbers | texts | {"position": int, "people": int})


def _rows(image_id: str, people: int, outcome: str) -> list[dict]:
    nothing = dict.fromkeys((*_NUMBERS, "role_p", "role_other"), np.nan)
    same = {"image_id": image_id, "people": people, "outcome": outcome, "reason": "", **nothing}
    return [{**same, "position": k + 1} for k in range(people)]


def _tell(rows: list[dict], **facts) -> None:
    for row in rows:
        row.update(facts)


__all__ = [
    "MOST_PEOPLE",
    "OUTCOMES",
    "ROLES",
    "PeopleSettings",
    "gate",
    "judge_people",
    "judge_people_images",
]
