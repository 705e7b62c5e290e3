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
from functools import partial
from itertools import chain, combinations, pairwise, permutations

import numpy as np
import pandas as pd

from biaslab import lexicons
from biaslab.ground.errors import InputError, ParameterError
from biaslab.judging import judge as alone
from biaslab.judging.faces import Face
from biaslab.judging.fairface import cut_out
from biaslab.judging.judge import BOX, NUMBERS, RATINGS, Judge, JudgeSettings
from biaslab.judging.plugins import Person
from biaslab.judging.words import RIGHT, SWAPPED, UNCLEAR
from biaslab.judging.zero_shot import ZeroShot
from biaslab.keep.engine import Memo
from biaslab.keep.store import Store
from biaslab.models.images import ImageSource, Unreadable

MOST_PEOPLE = 5
"""People that may be asked for in one image: there are 120 ways to put five phrases to five people."""
FACE_SHARE = 0.3
"""Share of the height of the square cut out for a person that the face's box takes: it shows head and shoulders, as
a picture of one person does."""
FACE_HEIGHT = 0.43
"""Where in that square the middle of the face is, from 0 (top) to 1. From half-way to the next face, and beyond the
image, the last column or row is repeated. Roles are looked for in another square: as wide as the person's part of the
image (up to half-way to the next face), the face as high in it."""
SHARED = 0.1
"""Faces are ``overlapping`` where two boxes share more than this part of the narrower one's columns: they cover each
other, or stand one above the other, and left and right are not clear."""
ROLE_TEXT = "a photo of a/an [OCCUPATION]"
"""What a person is compared with to see who is who; ``a/an [OCCUPATION]`` becomes the phrase asked for."""
ROLE_THRESHOLD = 0.99
"""Least probability of an order for it to count as ``right`` or ``swapped``. It is high because somebody of neither
phrase, or the same one twice, can still look a little more like one order."""
COLUMNS = ("image_id", "position", "outcome", "gender", *NUMBERS, "reason", "role", "role_p")
_SEEN = ("image_id", "position", "people", "outcome", *NUMBERS, "reason", "role_p", "role_other")
_SHARD_ROWS = 1024


def judge_people(
    images: ImageSource,
    asked: pd.DataFrame,
    settings: JudgeSettings,
    *,
    store: Store,
    device: str = "auto",
    progress: bool = True,
    models: Callable[[JudgeSettings, str], Judge] = alone.load,
) -> pd.DataFrame:
    """Judge everyone whom images were to show; what was judged before is read again.

    Where one person is asked for, the outcome is :func:`biaslab.judging.judge.judge`'s, but that several faces are
    ``too_many_faces``. The limit ``min_face`` is a share of the image's height and, where n people are asked for,
    of an n-th of its width.

    ``asked`` says whom to look for: image_id, position (1 is the leftmost), phrase (as the prompt says it, such as
    ``carpenter manager``); one row per person. Other arguments are as for one person.

    Returns:
        One row per row of ``asked``, in its order: image_id, position, outcome (one of
        :data:`biaslab.judging.words.OUTCOMES_OF_PEOPLE`), gender (``female``, ``male``, ``unsure`` where uncertain,
        else empty), p_female (0–1, NaN where nobody was judged),
        n_faces (in the whole image), x0, y0, x1, y1 (this person's face, NaN where it is not clear whose is whose),
        image_width, image_height (all in pixels), reason (of unreadable images, and why roles could not be looked
        for), role (of the whole image: ``right``, ``swapped``: in another order, ``unclear``, or empty where it was
        not looked for: one person, the same phrase for all, no open_clip model, or words that it does not know),
        role_p (0–1: the probability of the order asked for among all orders, NaN where not looked for).

    Raises:
        InputError: ``asked`` lacks a column, names an image that the source does not have, or positions that are
            not 1, 2, … up to :data:`MOST_PEOPLE`.
        ParameterError, MissingInputError: As for :func:`biaslab.judging.judge.judge`.
    """
    if settings.gender.startswith(RATINGS):
        raise ParameterError(
            f"gender is {settings.gender!r}: raters judge people without a look at the images. Read the file with "
            "biaslab.ratings.person_ratings, or name a model of gender."
        )
    by_image = check_asked(asked)
    if not by_image:
        return alone.frame([], COLUMNS)
    phrases = [json.dumps(told) for told in by_image.values()]
    ready = Memo(partial(models, settings, device))

    def work(shard: pd.DataFrame) -> pd.DataFrame:
        told = dict(zip(shard["image_id"], map(json.loads, shard["phrases"]), strict=True))
        batches = alone.read_ahead(images, list(told), device, settings.batch_size)
        found = (_look(some, [told[k] for k in some], read, ready()) for some, read in batches)
        return alone.frame(chain.from_iterable(found), _SEEN)

    units = pd.DataFrame({"image_id": list(by_image), "phrases": phrases}, dtype=object)
    bar = {"label": f"judging people of {images.name}", "progress": progress}
    seen = store.stage("people", alone.inputs_of(images, settings), work).compute(
        units, shard_rows=_SHARD_ROWS, gpu=device != "cpu", **bar
    )
    order = pd.MultiIndex.from_arrays([asked["image_id"].astype(str), asked["position"].astype(int)])
    return _decided(seen.set_index(["image_id", "position"]).loc[order].reset_index(), settings)


def check_asked(asked: pd.DataFrame, *, most: int = MOST_PEOPLE) -> dict[str, list[str]]:
    """Return whom each image is to show, as in :func:`judge_people`: the phrases from left to right, by image id.

    Raises:
        InputError: A column or a phrase is missing, or the positions of an image are not 1, 2, … up to ``most``.
    """
    for column in ("image_id", "position", "phrase"):
        if column not in asked:
            raise InputError(
                f"The people asked for have no column {column!r}; give image_id, position, phrase."
            )
    by_image: dict[str, list[tuple]] = {}
    for image_id, position, phrase in asked[["image_id", "position", "phrase"]].itertuples(index=False):
        said = "" if pd.isna(phrase) else " ".join(str(phrase).split())
        if not said:
            raise InputError(
                f"Image {image_id!r} has no phrase at position {position}; say whom it asks for, such as 'nurse'."
            )
        by_image.setdefault(str(image_id), []).append((position, said))
    for image_id, told in by_image.items():
        given = [position for position, _ in told]
        if set(given) != set(range(1, len(given) + 1)) or len(given) > most:
            raise InputError(
                f"Image {image_id!r} asks for people at positions {', '.join(map(repr, given))}; positions are whole "
                f"numbers: 1 (the leftmost), 2, … without a gap, each once, at most {most}."
            )
    return {image_id: [said for _, said in sorted(told)] for image_id, told in by_image.items()}


def judge_people_images(
    image_ids: Sequence[str],
    phrases: Sequence[Sequence[str]],
    images: Sequence[np.ndarray | Unreadable],
    judges: Judge,
    settings: JudgeSettings,
) -> pd.DataFrame:
    """Judge people of images in memory, all at once: one row per image and person, in order, as :func:`judge_people`.

    ``phrases`` are those of each image, from left to right.
    """
    return _decided(alone.frame(_look(image_ids, phrases, images, judges), _SEEN), settings)


# -- what the models see -----------------------------------------------------------------------------------


def _look(
    image_ids: Sequence[str],
    phrases: Sequence[Sequence[str]],
    images: Sequence[np.ndarray | Unreadable],
    judges: Judge,
) -> list[dict]:
    """Return the images' people: faces, the probability of perceived as female, and of the order."""
    whole, found = alone.look(image_ids, images, judges.faces.faces)
    standing: dict[int, list[tuple[Face, tuple[int, int]]]] = {}
    for k, faces in found.items():
        whole[k].update(outcome=gate(faces, len(phrases[k])), n_faces=len(faces))
        if not whole[k]["outcome"]:
            faces = sorted(faces, key=lambda face: face.x0 + face.x1)
            standing[k] = list(zip(faces, parts(faces, images[k].shape[1]), strict=True))
    out = [
        [{**row, "position": at + 1, "people": len(told)} for at in range(len(told))]
        for row, told in zip(whole, phrases, strict=True)
    ]
    shown, of, asked = [], [], []
    answers = getattr(judges.gender, "answers", None)
    for k, placed in standing.items():
        for row, (face, part), phrase in zip(out[k], placed, phrases[k], strict=True):
            row.update(zip(BOX, face[:4], strict=True))
            asked.append(Person(images[k], face[:4], face.landmarks, row["position"], len(placed), phrase))
            if answers is None:
                shown.append(_shown(images[k], face, part, judges.gender, len(placed)))
            of.append(row)
    if answers and asked:
        for row, (p, reason) in zip(of, answers(asked), strict=True):
            row.update(p_female=p, reason=reason)
    elif shown:
        for row, p in zip(of, judges.gender.p_female(shown), strict=True):
            row["p_female"] = float(p)
    classifier = getattr(judges.gender, "classifier", None)
    told = {k: phrases[k] for k in standing if len(set(phrases[k])) > 1}
    if classifier is not None and told:
        for k, facts in _orders(told, images, standing, classifier).items():
            for row in out[k]:
                row.update(facts)
    return list(chain.from_iterable(out))


def _shown(image: np.ndarray, face: Face, part: tuple[int, int], gender, people: int) -> np.ndarray:
    """Return what a model of gender is shown of a person."""
    if gender.sees == "face":
        return cut_out(image, face[:4], part)
    return image if people == 1 else head_and_shoulders(image, face, part, side=getattr(gender, "side", 0))


def gate(faces: Sequence[Face], people: int) -> str:
    """Return why the people of an image are not judged: ``""`` where each of the ``people`` has a face and a side.

    Otherwise it is ``"no_face"``, ``"one_face"`` (fewer than people), ``"too_many_faces"`` or ``"overlapping"``.
    """
    if len(faces) != people:
        return "no_face" if not faces else "one_face" if len(faces) < people else "too_many_faces"
    for a, b in combinations(faces, 2):
        both = min(a.x1, b.x1) - max(a.x0, b.x0)
        # Boxes come as floats: the limit itself is still clear, whatever rounding does to it.
        if both > SHARED * min(a.x1 - a.x0, b.x1 - b.x0) + 1e-6:
            return "overlapping"
    return ""


def parts(faces: Sequence[Face], width: int) -> list[tuple[int, int]]:
    """Return each person's columns of an image, the first and the one after the last.

    They end half-way between two faces, or where the other's face begins if boxes share columns. Faces are given from
    left to right, none of them overlapping (:func:`gate`).
    """
    ends, starts = [], [0]
    for left, right in pairwise(faces):
        middle = (left.x1 + right.x0) / 2
        ends.append(int(np.floor(min(middle, right.x0))))
        starts.append(int(np.ceil(max(middle, left.x1))))
    starts = [min(start, width - 1) for start in starts]
    return [(start, max(end, start + 1)) for start, end in zip(starts, [*ends, width], strict=True)]


def head_and_shoulders(
    image: np.ndarray, face: Face, within: tuple[int, int], *, side: int = 0
) -> np.ndarray:
    """Return the square around a face that shows what a picture of that person alone would, ``uint8 (side, side, 3)``.

    Beyond the person's columns ``within`` (:func:`parts`) the last one is repeated; a side of 0 leaves the pixels as
    they are cut.
    """
    size = max(1, round((face.y1 - face.y0) / FACE_SHARE))
    left = round((face.x0 + face.x1) / 2 - size / 2)
    top = round((face.y0 + face.y1) / 2 - FACE_HEIGHT * size)
    return _square(image, left, top, size, within, side)


def wider(image: np.ndarray, face: Face, within: tuple[int, int], *, side: int = 0) -> np.ndarray:
    """Return the square that is as wide as a person's part of the image: what is worn and held, beside the face.

    Arguments and result as for :func:`head_and_shoulders`. Nothing is repeated: where the image is lower than the
    part is wide, the square is as high as the image.
    """
    height, (first, last) = image.shape[0], within
    size = min(height, last - first)
    left = min(max(round((face.x0 + face.x1 - size) / 2), first), last - size)
    top = min(max(round((face.y0 + face.y1) / 2 - FACE_HEIGHT * size), 0), height - size)
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


def _orders(
    phrases: dict[int, Sequence[str]],
    images: Sequence[np.ndarray],
    standing: dict[int, list[tuple[Face, tuple[int, int]]]],
    classifier: ZeroShot,
) -> dict[int, dict]:
    """Return role_p and role_other of the images in ``phrases``, or the reason why there are none."""
    texts = {p: lexicons.fill(ROLE_TEXT, p) for told in phrases.values() for p in told}
    unknown = _unknown(texts, classifier)
    why = {k: next((unknown[p] for p in told if p in unknown), "") for k, told in phrases.items()}
    found = {k: {"reason": reason} for k, reason in why.items() if reason}
    side, shown, at = getattr(classifier, "side", 0), [], {}
    for k in (k for k, reason in why.items() if not reason):
        at[k] = slice(len(shown), len(shown) + len(phrases[k]))
        shown += [wider(images[k], *of, side=side) for of in standing[k]]
    known = [p for p in texts if p not in unknown]
    logits = classifier.logits(shown, [texts[p] for p in known]) if shown else None
    for k, rows in at.items():
        own = logits[rows][:, [known.index(p) for p in phrases[k]]]
        found[k] = dict(zip(("role_p", "role_other"), order(own, phrases[k]), strict=True))
    return found


def _unknown(texts: dict[str, str], classifier: ZeroShot) -> dict[str, str]:
    """Return the phrases whose texts the classifier does not know, with why; all are asked for at once first."""
    try:
        classifier.text_embeddings(list(texts.values()))
    except ParameterError as error:
        if len(texts) == 1:
            return dict.fromkeys(texts, f"roles: {error}")
        return {p: why for one in texts.items() for p, why in _unknown(dict([one]), classifier).items()}
    return {}


def order(logits: np.ndarray, phrases: Sequence[str]) -> tuple[float, float]:
    """Return the probability that people stand as asked, and of the likeliest other order, each 0–1.

    An order's logit is the sum of the logits of each person with the phrase at that place; what all people share,
    such as the background, is in every sum and decides nothing. Phrases that occur twice make fewer orders. Logits are
    of people from left to right by phrases in the order asked for, ``(n, n)``.
    """
    n = len(phrases)
    sums = {
        tuple(phrases[j] for j in way): float(logits[np.arange(n), list(way)].sum())
        for way in permutations(range(n))
    }
    values = np.array([sums.pop(tuple(phrases)), *sums.values()])
    p = np.exp(values - values.max())
    p /= p.sum()
    return float(p[0]), float(p[1:].max())


# -- what is decided upon that -----------------------------------------------------------------------------


def _decided(seen: pd.DataFrame, settings: JudgeSettings) -> pd.DataFrame:
    """Return judgements: what the models saw, with the limits."""
    sure = [seen["role_p"] >= ROLE_THRESHOLD, seen["role_other"] >= ROLE_THRESHOLD]
    role = np.select([seen["role_p"].isna(), *sure], ["", RIGHT, SWAPPED], UNCLEAR)
    return alone.frame(alone.decided(seen, settings, seen["people"]).assign(role=role), COLUMNS)
