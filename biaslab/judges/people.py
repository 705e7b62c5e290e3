"""Judge the people of an image one by one, by position: who is where, and which gender each is perceived as.

An image must show as many faces as people were asked for, side by side; each is cut out so that no other's face is
seen. Whether they stand in the order asked for is looked at apart: an open_clip model compares every person with the
texts of all phrases, and the best order counts. That is not independent of gender: a CLIP model is surer of a nurse's
place where the nurse looks like a woman.

Source: paired paper, section 3.2 (people told apart by position) and C.2 (what goes wrong).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from itertools import chain, combinations, pairwise, permutations

import numpy as np
import pandas as pd

from biaslab import lexicons
from biaslab.cache.result_cache import ResultCache
from biaslab.errors import ParameterError
from biaslab.execution.workers import Memoized
from biaslab.hub.image_sources import ImageSource, UnreadableImage
from biaslab.judges import judge as alone
from biaslab.judges.faces import Face
from biaslab.judges.judge import BOX, NUMBERS, Judge, JudgeSettings
from biaslab.judges.judge_labels import CORRECT, SWAPPED, UNCLEAR
from biaslab.judges.person import Person, wider
from biaslab.judges.zero_shot import ZeroShot

SHARED = 0.1
"""Faces are ``overlapping`` where two boxes share more than this part of the narrower one's columns: they cover each
other, or stand one above the other, and left and right are not clear."""
ROLE_TEXT = "a photo of a/an [OCCUPATION]"
"""What a person is compared with to see who is who; ``a/an [OCCUPATION]`` becomes the phrase asked for."""
ROLE_THRESHOLD = 0.99
"""Least probability of an order for it to count: somebody of neither phrase can look a little more like one order."""
COLUMNS = ("image_id", "position", "status", "gender", *NUMBERS, "reason", "role", "role_p")
_SEEN = ("image_id", "position", "people", "status", *NUMBERS, "reason", "role_p", "role_other")
_SHARD_ROWS = 1024


def judge_people(
    images: ImageSource,
    asked: pd.DataFrame,
    settings: JudgeSettings,
    *,
    cache: ResultCache,
    device: str = "auto",
    progress: bool = True,
) -> pd.DataFrame:
    """Judge everyone whom images were to show; arguments and errors as of :func:`biaslab.judges.judge.judge`.

    ``asked`` has a row a person: image_id, position (1 is the leftmost), phrase (as the prompt says it).
    ``min_face_size`` is a share of the image's height and, of n people asked for, of an n-th of its width.

    Returns one row per row of ``asked``, in its order: image_id, position, status (of
    :data:`biaslab.judges.judge_labels.OUTCOMES_OF_PEOPLE`), gender, probability_female, n_faces (in the whole image),
    x0, y0, x1, y1 (this person's face, NaN where it is not clear whose is whose), image_width, image_height, reason
    (also why roles could not be looked for), role (of the whole image: ``right``, ``swapped``, ``unclear``, or empty
    where not looked for), role_p (0–1: of the order asked for among all orders, NaN where not looked for).

    Raises InputError where an image is not in the source.
    """
    by_image = phrases_of(asked)
    phrases = [json.dumps(told) for told in by_image.values()]
    ready = Memoized(partial(alone.load, settings, device))

    def work(shard: pd.DataFrame) -> pd.DataFrame:
        told = dict(zip(shard["image_id"], map(json.loads, shard["phrases"]), strict=True))
        batches = alone.read_ahead(images, list(told), device, settings.batch_size)
        found = (_judge_units(some, [told[k] for k in some], read, ready()) for some, read in batches)
        return alone.frame(chain.from_iterable(found), _SEEN)

    units = pd.DataFrame({"image_id": list(by_image), "phrases": phrases}, dtype=object)
    bar = {"label": f"judging people of {images.name}", "progress": progress}
    seen = cache.stage("people", alone.inputs_of(images, settings), work).compute(
        units, shard_rows=_SHARD_ROWS, gpu=device != "cpu", **bar
    )
    seen = alone.frame(seen, _SEEN)
    order = pd.MultiIndex.from_arrays([asked["image_id"].astype(str), asked["position"].astype(int)])
    return _apply_threshold(seen.set_index(["image_id", "position"]).loc[order].reset_index(), settings)


def phrases_of(asked: pd.DataFrame) -> dict[str, list[str]]:
    """Return the phrases of each image from left to right, by image id."""
    whole = asked.assign(image_id=asked["image_id"].astype(str))
    phrases = whole.sort_values("position", kind="stable").groupby("image_id")["phrase"].agg(list)
    return {image_id: phrases[image_id] for image_id in whole["image_id"].unique()}


def judge_people_images(
    image_ids: Sequence[str],
    phrases: Sequence[Sequence[str]],
    images: Sequence[np.ndarray | UnreadableImage],
    judges: Judge,
    settings: JudgeSettings,
) -> pd.DataFrame:
    """Judge people of images in memory: a row an image and person; ``phrases`` are each image's, from left to right."""
    return _apply_threshold(alone.frame(_judge_units(image_ids, phrases, images, judges), _SEEN), settings)


# -- what the models see -----------------------------------------------------------------------------------


def _judge_units(
    image_ids: Sequence[str],
    phrases: Sequence[Sequence[str]],
    images: Sequence[np.ndarray | UnreadableImage],
    judges: Judge,
) -> list[dict]:
    """Return the images' people: faces, the probability of perceived as female, and of the order."""
    whole, found = alone.classify_images(image_ids, images, judges.faces.faces)
    standing: dict[int, list[Person]] = {}
    for k, faces in found.items():
        whole[k].update(status=gate(faces, len(phrases[k])), n_faces=len(faces))
        if not whole[k]["status"]:
            faces = sorted(faces, key=lambda face: face.x0 + face.x1)
            placed = zip(faces, parts(faces, images[k].shape[1]), phrases[k], strict=True)
            standing[k] = [
                Person(images[k], face[:4], face.landmarks, at, len(faces), phrase, part)
                for at, (face, part, phrase) in enumerate(placed, start=1)
            ]
    out = [
        [{**row, "position": at + 1, "people": len(told)} for at in range(len(told))]
        for row, told in zip(whole, phrases, strict=True)
    ]
    asked = [(row, person) for k, people in standing.items() for row, person in zip(out[k], people, strict=True)]
    answers = judges.gender.answers([person for _, person in asked]) if asked else []
    for (row, person), (p, reason) in zip(asked, answers, strict=True):
        row.update(zip(BOX, person.box, strict=True), probability_female=p, reason=reason)
    classifier = getattr(judges.gender, "classifier", None)
    told = {k: phrases[k] for k in standing if len(set(phrases[k])) > 1}
    if classifier is not None and told:
        for k, facts in _orders(told, standing, classifier).items():
            for row in out[k]:
                row.update(facts)
    return list(chain.from_iterable(out))


def gate(faces: Sequence[Face], people: int) -> str:
    """Return why the people of an image are not judged: ``no_face``, ``one_face`` (fewer than people),
    ``too_many_faces`` or ``overlapping``; ``""`` where each has a face and a side.
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
    """Return each person's columns of an image, the first and the one after the last; faces as :func:`gate` lets them
    pass. They end half-way between two faces, or where the other's face begins if boxes share columns.
    """
    ends, starts = [], [0]
    for left, right in pairwise(faces):
        middle = (left.x1 + right.x0) / 2
        ends.append(int(np.floor(min(middle, right.x0))))
        starts.append(int(np.ceil(max(middle, left.x1))))
    starts = [min(start, width - 1) for start in starts]
    return [(start, max(end, start + 1)) for start, end in zip(starts, [*ends, width], strict=True)]


def _orders(
    phrases: dict[int, Sequence[str]], standing: dict[int, list[Person]], classifier: ZeroShot
) -> dict[int, dict]:
    """Return role_p and role_other of the images in ``phrases``, or the reason why there are none."""
    texts = {p: lexicons.fill(ROLE_TEXT, p) for told in phrases.values() for p in told}
    unknown = {}
    for phrase, text in texts.items():
        try:
            classifier.text_embeddings([text])
        except ParameterError as error:
            unknown[phrase] = f"roles: {error}"
    why = {k: next((unknown[p] for p in told if p in unknown), "") for k, told in phrases.items()}
    found = {k: {"reason": reason} for k, reason in why.items() if reason}
    shown, at = [], {}
    for k in (k for k, reason in why.items() if not reason):
        at[k] = slice(len(shown), len(shown) + len(phrases[k]))
        shown += [wider(person, side=classifier.side) for person in standing[k]]
    known = [p for p in texts if p not in unknown]
    logits = classifier.logits(shown, [texts[p] for p in known]) if shown else None
    for k, rows in at.items():
        own = logits[rows][:, [known.index(p) for p in phrases[k]]]
        found[k] = dict(zip(("role_p", "role_other"), order(own, phrases[k]), strict=True))
    return found


def order(logits: np.ndarray, phrases: Sequence[str]) -> tuple[float, float]:
    """Return the probability that people stand as asked, and of the likeliest other order, each 0–1.

    Logits are of people from left to right by phrases in the order asked for, ``(n, n)``; an order's is the sum over
    its people.
    """
    n = len(phrases)
    sums = {
        tuple(phrases[j] for j in way): float(logits[np.arange(n), list(way)].sum()) for way in permutations(range(n))
    }
    values = np.array([sums.pop(tuple(phrases)), *sums.values()])
    p = np.exp(values - values.max())
    p /= p.sum()
    return float(p[0]), float(p[1:].max())


def _apply_threshold(seen: pd.DataFrame, settings: JudgeSettings) -> pd.DataFrame:
    sure = [seen["role_p"] >= ROLE_THRESHOLD, seen["role_other"] >= ROLE_THRESHOLD]
    role = np.select([seen["role_p"].isna(), *sure], ["", CORRECT, SWAPPED], UNCLEAR)
    return alone.frame(alone.apply_threshold(seen, settings, seen["people"]).assign(role=role), COLUMNS)
